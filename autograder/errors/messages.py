"""What an error says, for learners: sentences of ours without a traceback, and theirs in short."""

import inspect
import linecache
from collections.abc import Callable
from typing import Final

LONGEST_LINE: Final = 100
"""The most characters that are quoted of a line."""


class ShortError(Exception):
    """An error whose message says all that its reader needs."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(ShortError, TypeError):
    """One of the course's functions was called with something that it cannot use."""


def their_error(error: BaseException, function: Callable[..., object]) -> str:
    """An error by its type, its first line, and the last line of the learner's that it passed."""
    where = line_in_cell(error, function)
    return f"{type(error).__name__}: {first_line(error)}" + (f" ({where})" if where else "")


def line_in_cell(error: BaseException, function: Callable[..., object]) -> str:
    """The last line of the learner's that an error passed, as its cell has it; or nothing.

    It is counted from the top of the cell, where the editor shows a number beside it: a lambda's
    own first line tells a reader nothing.
    """
    written = _unwrapped(function)
    cell = getattr(getattr(written, "__code__", None), "co_filename", "")
    return line_among(error, getattr(written, "__globals__", None), cell)


def line_among(error: BaseException, names: object, cell: str = "") -> str:
    """The same, where the names of the notebook are at hand.

    Args:
        error: what was raised.
        names: the notebook's.
        cell: what Python calls the cell that is meant, where it is one of several.
    """
    place: tuple[str, int] | None = None
    name = ""
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_globals is names:
            place = step.tb_frame.f_code.co_filename, step.tb_lineno
            name = step.tb_frame.f_code.co_name
        step = step.tb_next
    if place is None:
        return ""
    written = linecache.getline(*place).strip().encode(errors="replace").decode()
    if len(written) > LONGEST_LINE:
        written = f"{written[: LONGEST_LINE - 1].rstrip()}…"
    elsewhere = f" with {name}" if cell and cell != place[0] and name.isidentifier() else ""
    return f"line {place[1]} of the cell{elsewhere}" + (f": `{written}`" if written else "")


def _unwrapped(function: Callable[..., object]) -> Callable[..., object]:
    """What a decorated function was written as."""
    try:
        innermost: Callable[..., object] = inspect.unwrap(function)
        return innermost
    except ValueError:  # it says that it wraps itself
        return function


def first_line(error: BaseException) -> str:
    """The first line of what an error says, in characters that can be written anywhere."""
    lines = said(error).strip().splitlines() or ["it gives no message"]
    line = lines[0].partition("This error occurs at source:")[0]  # it is said better elsewhere
    return line[:300].rstrip(" :.(").encode(errors="replace").decode()


def said(error: BaseException) -> str:
    """What an error says; its class may be the learner's own, and in error itself."""
    try:
        return str(error)
    except Exception as another:
        return f"its message cannot be shown, since that raised {type(another).__name__}"
