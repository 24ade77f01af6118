"""What an error says, for learners: sentences of ours without a traceback, and theirs in short."""

import inspect
from collections.abc import Callable


class ShortError(Exception):
    """An error whose message says all that its reader needs."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(ShortError, TypeError):
    """One of the course's functions was called with something that it cannot use."""


def their_error(error: BaseException, function: Callable[..., object]) -> str:
    """An error by its type, its first line, and the last line of the learner's that it passed."""
    where = ""
    theirs = getattr(_unwrapped(function), "__globals__", None)  # the notebook's own names
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if step.tb_frame.f_globals is theirs:
            where = f" (line {step.tb_lineno - code.co_firstlineno + 1} of {code.co_name})"
        step = step.tb_next
    return f"{type(error).__name__}: {first_line(error)}{where}"


def _unwrapped(function: Callable[..., object]) -> Callable[..., object]:
    """What a decorated function was written as."""
    try:
        innermost: Callable[..., object] = inspect.unwrap(function)
        return innermost
    except ValueError:  # it says that it wraps itself
        return function


def first_line(error: BaseException) -> str:
    """The first line of what an error says, in characters that can be written anywhere."""
    lines = said(error).strip().splitlines() or ["no message"]
    return lines[0][:300].encode(errors="replace").decode()


def said(error: BaseException) -> str:
    """What an error says; its class may be the learner's own, and in error itself."""
    try:
        return str(error)
    except Exception as another:
        return f"it cannot be shown, for that raised {type(another).__name__}"
