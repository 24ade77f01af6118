"""Find the lines of a notebook's cells in an error's traceback.

Each frame of the traceback has a code object. The code object's file name identifies one run of one
cell, and IPython keeps that cell's source under the same name. Code without such a source, such as
the body of a `%%time` cell, gets no line number, because it is unknown which cell it belongs to.
"""

import inspect
import linecache
import os
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from shardlings.errors.blame import first_line, frame_owner, frames_of, owner_of_globals

MAX_LINE_CHARACTERS: Final = 100
"""Longer lines are shortened."""

WITHOUT_A_CELL: Final = ("<timed exec>", "<timed eval>", "<magic-timeit>")
"""The file names that IPython gives to the code of all `%%time` and `%%timeit` cells alike."""

MAGIC: Final = "get_ipython()."
"""The beginning of a line that IPython wrote in place of a magic command."""


_blank_lines: dict[str, int] = {}
"""The number of blank lines at the top of a cell, by its file name. IPython leaves them out."""


class CellLine(NamedTuple):
    """A line of a cell in an error's traceback.

    Attributes:
        file: Python's file name for the cell, which is unique to the cell's source.
        number: the line's number, counted from the top of the cell.
        function: the function that was running; `<module>` for the cell itself.
        text: the line without its indentation; empty if the source is unknown.
    """

    file: str
    number: int
    function: str
    text: str

    def __str__(self) -> str:
        """Return, for example, "line 2 of the cell: `x[0]`"."""
        return self.describe("the cell")

    def describe(self, cell: str) -> str:
        """Return the line's number, the name of its file or else of its cell, and its text."""
        where = os.path.basename(self.file) if os.path.isfile(self.file) else cell
        return f"line {self.number} of {where}" + (f": `{self.text}`" if self.text else "")


def describe_error(error: BaseException, function: Callable[..., object]) -> str:
    """Return an error's type, its message's first line, and the learner's line that raised it."""
    where = line_in_cell(error, function)
    return f"{type(error).__name__}: {first_line(error)}" + (f" ({where})" if where else "")


def line_in_cell(error: BaseException, function: Callable[..., object]) -> str:
    """Describe the last line of a function's cell in a traceback; see `last_cell_line`."""
    names, cell = _notebook_of(function)
    maker, is_made, _ = getattr(unwrap(function), "__qualname__", "").partition(".<locals>")
    return last_cell_line(error, names, cell, maker if is_made else "")


def last_line(error: BaseException, function: Callable[..., object]) -> str:
    """Return the code of a traceback's last line in any cell of a learner's function's notebook."""
    lines = cell_lines(error, _notebook_of(function)[0])
    return lines[-1].text if lines else ""


def last_cell_line(error: BaseException, names: object, cell: str = "", maker: str = "") -> str:
    """Describe a traceback's last line in one cell, and the line of another cell that it led to.

    Args:
        error: the error.
        names: the notebook's global names.
        cell: Python's file name for the cell; by default, the outermost cell in the traceback.
        maker: a function that this cell defines, if its function may be called in another cell.
    """
    lines = cell_lines(error, names)
    if not lines:
        return ""
    last = lines[-1]
    in_cell = next((line for line in reversed(lines) if line.file == (cell or lines[0].file)), None)
    if in_cell is last:
        return last.describe(f"the cell with {maker}") if maker.isidentifier() else str(last)
    is_in_function = last.function.isidentifier()
    if in_cell is None or in_cell.text.startswith(MAGIC):
        # a wrapper may hide the cell
        return last.describe(f"the cell with {last.function}" if is_in_function else "another cell")
    function = f"{last.function}, " if is_in_function else ""
    return f"{in_cell}, which led to {function}{last.describe('another cell')}"


def remember_blank_lines(file: str, source: str) -> None:
    """Remember how many blank lines a cell begins with, to number its lines as an editor does.

    Args:
        file: Python's file name for the cell.
        source: the cell as the learner wrote it.
    """
    _blank_lines[file] = source.count("\n") - source.lstrip().count("\n")


def cell_lines(error: BaseException, names: object) -> list[CellLine]:
    """Return the lines of a notebook's cells in an error's traceback, outermost first.

    Args:
        error: the error.
        names: the notebook's global names; they are the globals of its cells' code.
    """
    passed = [
        CellLine(
            frame.f_code.co_filename,
            number + _blank_lines.get(frame.f_code.co_filename, 0),
            frame.f_code.co_name,
            _text(frame.f_code.co_filename, number),
        )
        for frame, number in frames_of(error.__traceback__)
        # an interrupt can hit an instruction of Python's own, such as a jump: it has no line, or -1
        if number is not None
        and number > 0
        and frame.f_globals is names
        and frame_owner(frame) == "theirs"
    ]
    in_cells = [line for line in passed if line.file not in WITHOUT_A_CELL]
    return [] if in_cells and in_cells[-1].text.startswith(MAGIC) else in_cells


def _text(file: str, number: int) -> str:
    text = linecache.getline(file, number).strip().encode(errors="replace").decode()
    if len(text) > MAX_LINE_CHARACTERS:
        text = f"{text[: MAX_LINE_CHARACTERS - 1].rstrip()}…"
    return text


def unwrap(function: Any) -> Any:
    """Return the function inside decorators, partial functions and callable objects.

    If there is none, the result is an object that has no code.
    """
    for _ in range(100):  # a function may claim that it wraps itself
        if hasattr(function, "__code__") and not hasattr(function, "__wrapped__"):
            break
        inner = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
        if inner is None:
            inner = inspect.getattr_static(type(function), "__call__", None)
        if inner is None or not callable(inner):
            break
        function = inner
    return function


def _notebook_of(function: Callable[..., object]) -> tuple[object, str]:
    """Return the global names of a function's notebook, and Python's file name for its cell."""
    unwrapped = unwrap(function)
    names = getattr(unwrapped, "__globals__", None)
    cell = str(getattr(getattr(unwrapped, "__code__", None), "co_filename", ""))
    if not isinstance(names, dict) or owner_of_globals(names) == "library":
        # a library made the function, which may call functions of the notebook
        return vars(sys.modules["__main__"]), ""
    return names, cell
