"""Remember cells that raised, so that no answer from an earlier run is judged.

A cell that raises leaves its names as they were: the stub above the mistake, or what an earlier run
had made. To judge that would be to speak of another answer than the one on the screen. So where
IPython runs the cells, it is asked to tell of each that begins and ends. (What the kernel cannot
know is whether a cell was changed since it ran: only the page has its text.)
"""

import contextlib
import re
import sys
from typing import Any, Final

from autograder.errors import first_line, line_among, note_blank_lines

MADE: Final = re.compile(
    r"^(?:async\s+)?(?:def|class)\s+(\w+)|^(\w+(?:[ \t]*,[ \t]*\w+)*)[ \t]*(?::[^=\n]*)?=(?!=)",
    re.MULTILINE,
)
"""A name that a cell makes at its top level; read as text, since a cell may be no Python at all."""

_before: dict[str, object] = {}
"""What the names were that the running cell is to make."""

_unfinished: dict[str, tuple[object, str]] = {}
"""For each name that a cell was to make and did not: what it still is, and what is said of it."""

NOTHING: Final = object()


def names_made(source: str) -> set[str]:
    """The names that a cell makes at its top level."""
    found = (match[1] or match[2] for match in MADE.finditer(source))
    return {name.strip() for names in found for name in names.split(",")}


def watch_cells() -> None:
    """Have IPython tell of each cell that begins and ends; where there is none, do nothing."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "_shardlings_watches", False):
        return
    shell._shardlings_watches = True
    shell.events.register("pre_run_cell", lambda info: _begins(info, shell))
    shell.events.register("post_run_cell", lambda result: _ends(result, shell.user_ns))


def unfinished(name: str, answer: object) -> str:
    """What is said of an answer whose cell did not finish; empty of every other."""
    value, said = _unfinished.get(name, (NOTHING, ""))
    return said if value is answer else ""


def _begins(info: Any, shell: Any) -> None:
    source, names = str(info.raw_cell), shell.user_ns
    _before.clear()
    _before.update((n, names.get(n, NOTHING)) for n in names_made(source))
    if source[:1].isspace():
        with contextlib.suppress(Exception):  # it need not be Python, and IPython may change
            transformed = shell.transform_cell(source)
            number = shell.execution_count - bool(info.store_history)  # it counts before it tells
            file = shell.compile.get_code_name(source, transformed, number)
            note_blank_lines(file, source)


def _ends(result: Any, names: dict[str, object]) -> None:
    """Remember what a cell did not make; and forget it, where it was made at last."""
    error = result.error_before_exec or result.error_in_exec
    made = names_made(str(result.info.raw_cell))
    if error is None:
        for name in made:
            _unfinished.pop(name, None)
        return
    for name in made:
        value = names.get(name, NOTHING)
        if value is ... or value is _before.get(name, NOTHING):
            why = _said(error, str(result.info.raw_cell), result.error_in_exec is not None)
            _unfinished[name] = value, f"The cell that makes {name} did not finish: {why}."
    missing = getattr(error, "name", None) if isinstance(error, NameError) else None
    if isinstance(missing, str) and missing not in made and missing in _unfinished:
        print(f"{missing} is not defined. {_unfinished[missing][1]}")


def _said(error: BaseException, source: str, ran: bool) -> str:
    """What stopped a cell, and where.

    Args:
        error: what was raised.
        source: the cell.
        ran: whether the cell had begun to run. If it had not, a `SyntaxError` is about the cell;
            else it is about a text that the cell gave to `eval`, or a module that it imported.
    """
    if isinstance(error, KeyboardInterrupt):
        return "it was interrupted"
    if isinstance(error, SyntaxError) and not ran:
        line = (error.lineno or 1) + source.count("\n") - source.lstrip().count("\n")
        return f"{type(error).__name__} in line {line}: {error.msg}"
    ipython = sys.modules["IPython"].get_ipython()
    where = line_among(error, ipython.user_ns)
    said = f"{type(error).__name__}: {first_line(error)}"
    return said + (f" ({where})" if where else "")
