"""Name the lines of a notebook that an error passed.

A line is found by the code object that was running: its file name stands for one run of one cell,
and IPython keeps the source of exactly that cell under it. Code without such a source, such as the
body of a `%%time` cell, gets no line number, since nobody could say which cell the number is of.
"""

import inspect
import linecache
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from autograder.errors.blame import frames_of, whose, whose_globals
from autograder.errors.messages import first_line

MAX_LINE_CHARACTERS: Final = 100
"""The most characters that are quoted of a line."""

WITHOUT_A_CELL: Final = ("<timed exec>", "<timed eval>", "<magic-timeit>")
"""The file names that IPython gives to the code of every `%%time` and `%%timeit` cell alike."""

MAGIC: Final = "get_ipython()."
"""How a line begins that IPython wrote in place of a magic command."""


_blank_lines: dict[str, int] = {}
"""For the file name of a cell, how many blank lines it begins with. IPython leaves them out."""


class CellLine(NamedTuple):
    """A line of a cell that an error passed.

    Attributes:
        file: the name that Python has for the cell; every run of another text has another name.
        number: the line's number, counted from the top of the cell.
        function: the function that was running; `<module>` for the cell itself.
        text: the line, without its indentation; empty where the source is not known.
    """

    file: str
    number: int
    function: str
    text: str

    def __str__(self) -> str:
        """Such as "line 2 of the cell: `x[0]`"."""
        return self.named("the cell")

    def named(self, cell: str) -> str:
        """The same, with other words for the cell."""
        return f"line {self.number} of {cell}" + (f": `{self.text}`" if self.text else "")


def their_error(error: BaseException, function: Callable[..., object]) -> str:
    """An error by its type, its first line, and the lines of the learner's that it passed."""
    where = line_in_cell(error, function)
    return f"{type(error).__name__}: {first_line(error)}" + (f" ({where})" if where else "")


def line_in_cell(error: BaseException, function: Callable[..., object]) -> str:
    """The last line that an error passed in the cell of a learner's function; see `line_among`."""
    return line_among(error, *_notebook_of(function))


def last_line(error: BaseException, function: Callable[..., object]) -> str:
    """The text of the last line of any cell that an error passed in a learner's function."""
    lines = cell_lines(error, _notebook_of(function)[0])
    return lines[-1].text if lines else ""


def line_among(error: BaseException, names: object, cell: str = "") -> str:
    """The last line that an error passed in a cell, and where it went on in another cell.

    Args:
        error: what was raised.
        names: the names of the notebook.
        cell: the name that Python has for the cell that is meant; by default, the cell that the
            error came out of.
    """
    lines = cell_lines(error, names)
    if not lines:
        return ""
    last = lines[-1]
    own = next((line for line in reversed(lines) if line.file == (cell or lines[0].file)), None)
    if own is last:
        return str(last)
    named = last.function.isidentifier()
    if own is None or own.text.startswith(MAGIC):
        # a wrapper may hide the cell that is meant
        return last.named(f"the cell with {last.function}" if named else "another cell")
    called = f"{last.function}, " if named else ""
    return f"{own}, which led to {called}{last.named('another cell')}"


def note_blank_lines(file: str, source: str) -> None:
    """Remember how many blank lines a cell begins with, so that lines are numbered as in an editor.

    Args:
        file: the name that Python has for the cell.
        source: the cell as it was written.
    """
    _blank_lines[file] = source.count("\n") - source.lstrip().count("\n")


def cell_lines(error: BaseException, names: object) -> list[CellLine]:
    """The lines of a notebook's cells that an error passed, the outermost first.

    Args:
        error: what was raised.
        names: the names of the notebook: code of its cells has them for its globals.
    """
    passed = [
        CellLine(
            frame.f_code.co_filename,
            number + _blank_lines.get(frame.f_code.co_filename, 0),
            frame.f_code.co_name,
            _text(frame.f_code.co_filename, number),
        )
        for frame, number in frames_of(error.__traceback__)
        if frame.f_globals is names and whose(frame) == "theirs"
    ]
    found = [line for line in passed if line.file not in WITHOUT_A_CELL]
    return [] if found and found[-1].text.startswith(MAGIC) else found


def _text(file: str, number: int) -> str:
    """A line of a cell, shortened."""
    text = linecache.getline(file, number).strip().encode(errors="replace").decode()
    if len(text) > MAX_LINE_CHARACTERS:
        text = f"{text[: MAX_LINE_CHARACTERS - 1].rstrip()}…"
    return text


def _as_written(function: Any) -> Any:
    """The function that somebody wrote, within decorators, partial functions and callable objects.

    Returns:
        A function, or something that has no code.
    """
    for _ in range(100):  # it may say that it wraps itself
        if hasattr(function, "__code__") and not hasattr(function, "__wrapped__"):
            break
        within = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
        if within is None:
            within = inspect.getattr_static(type(function), "__call__", None)
        if within is None or not callable(within):
            break
        function = within
    return function


def _notebook_of(function: Callable[..., object]) -> tuple[object, str]:
    """The names of the notebook that a function is of, and what Python calls its cell."""
    written = _as_written(function)
    names = getattr(written, "__globals__", None)
    cell = str(getattr(getattr(written, "__code__", None), "co_filename", ""))
    if not isinstance(names, dict) or whose_globals(names) == "library":
        # a library made it, and it may call what the notebook defines
        return vars(sys.modules["__main__"]), ""
    return names, cell
