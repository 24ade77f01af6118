"""Remember cells that raised, so that `check` does not judge answers from an earlier run.

A cell that raises leaves its names as they were: the stub, or the value of an earlier run. Judging
that would judge another answer than the one on the screen. So this module registers callbacks with
IPython that run before and after each cell. (The kernel cannot know whether a cell was edited since
it ran, because only the page has its text.)
"""

import contextlib
import re
import sys
from typing import Any, Final

from shardlings.errors import first_line, last_cell_line, remember_blank_lines

ASSIGNMENT: Final = re.compile(
    r"^(?:async\s+)?(?:def|class)\s+(\w+)|^(\w+(?:[ \t]*,[ \t]*\w+)*)[ \t]*(?::[^=\n]*)?=(?!=)",
    re.MULTILINE,
)
"""Matches a definition or assignment at a cell's top level. The cell is not parsed, because it may
not be valid Python."""

_before: dict[str, object] = {}
"""The names that the running cell assigns, each with its value from before the cell ran."""

_unfinished: dict[str, tuple[object, str]] = {}
"""Names that a failed cell did not assign: the value of each, and a sentence for the learner."""

MISSING: Final = object()


def assigned_names(source: str) -> set[str]:
    """Return the names that a cell assigns or defines at its top level."""
    matches = (match[1] or match[2] for match in ASSIGNMENT.finditer(source))
    return {name.strip() for names in matches for name in names.split(",")}


def watch_cells() -> None:
    """Register callbacks with IPython that remember failed cells; without IPython, do nothing."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "_shardlings_watches", False):
        return
    shell._shardlings_watches = True
    shell.events.register("pre_run_cell", lambda info: _before_cell(info, shell))
    shell.events.register("post_run_cell", lambda result: _after_cell(result, shell))


def explain_unfinished(name: str, answer: object) -> str:
    """Return why the cell that assigns an answer did not finish; empty if it did."""
    value, sentence = _unfinished.get(name, (MISSING, ""))
    return sentence if value is answer else ""


def _before_cell(info: Any, shell: Any) -> None:
    source = str(info.raw_cell)
    begin_cell(source, shell.user_ns)
    if source[:1].isspace():
        with contextlib.suppress(Exception):  # the cell may not be Python, and IPython may change
            transformed = shell.transform_cell(source)
            number = shell.execution_count - bool(info.store_history)  # already counts this cell
            file = shell.compile.get_code_name(source, transformed, number)
            remember_blank_lines(file, source)


def _after_cell(result: Any, shell: Any) -> None:
    source, had_begun = str(result.info.raw_cell), result.error_in_exec is not None
    error = result.error_before_exec or result.error_in_exec
    end_cell(source, shell.user_ns, error, had_begun)


def begin_cell(source: str, names: dict[str, object]) -> None:
    """Remember the values of the names that a cell will assign.

    Args:
        source: the cell.
        names: the notebook's names.
    """
    _before.clear()
    _before.update((name, names.get(name, MISSING)) for name in assigned_names(source))


def end_cell(
    source: str, names: dict[str, object], error: BaseException | None, had_begun: bool = True
) -> None:
    """Remember the names that a failed cell did not assign; forget those of one that succeeded.

    Args:
        source: the cell, for which `begin_cell` was called.
        names: the notebook's names.
        error: what the cell raised, if anything.
        had_begun: whether the cell had begun to run. If not, a `SyntaxError` is about the cell;
            otherwise it is about a string given to `eval`, or about an imported module.
    """
    assigned = assigned_names(source)
    if error is None:
        for name in assigned:
            _unfinished.pop(name, None)
        return
    for name in assigned:
        value = names.get(name, MISSING)
        if value is ... or value is _before.get(name, MISSING):
            why = _describe_error(error, source, names, had_begun)
            _unfinished[name] = value, f"The cell that makes {name} did not finish: {why}."
    undefined = getattr(error, "name", None) if isinstance(error, NameError) else None
    if isinstance(undefined, str) and undefined not in assigned and undefined in _unfinished:
        print(f"{undefined} is not defined. {_unfinished[undefined][1]}")


def _describe_error(
    error: BaseException, source: str, names: dict[str, object], had_begun: bool
) -> str:
    """Return what stopped a cell, and where."""
    if isinstance(error, KeyboardInterrupt):
        return "it was interrupted"
    if isinstance(error, SyntaxError) and not had_begun:
        line = (error.lineno or 1) + source.count("\n") - source.lstrip().count("\n")
        return f"{type(error).__name__} in line {line}: {error.msg}"
    location = last_cell_line(error, names)
    message = f"{type(error).__name__}: {first_line(error)}"
    return message + (f" ({location})" if location else "")
