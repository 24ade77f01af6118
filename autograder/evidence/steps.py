"""Report the steps of a long check to a listener."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

T = TypeVar("T")

_listener: Final[ContextVar[Callable[[str], None] | None]] = ContextVar("listener", default=None)


@contextmanager
def watch_steps(listener: Callable[[str], None]) -> Iterator[None]:
    """Call a listener with each step that begins while the block runs."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce_steps(things: Iterable[T], describe: Callable[[T], str]) -> Iterator[T]:
    """Yield things to work on, and announce each of them with its number.

    Args:
        things: such as the programs to compile.
        describe: says what is done with a thing, such as "running 4 processes".
    """
    listed = list(things)
    for number, thing in enumerate(listed, 1):
        if (listener := _listener.get()) is not None:
            listener(f"{describe(thing)} ({number} of {len(listed)})")
        yield thing
