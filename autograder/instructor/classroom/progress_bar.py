"""How far something is that takes a while: a bar on a terminal, and lines where there is none."""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autograder.instructor.course import printable

T = TypeVar("T")


def following(
    console: Console, doing: str, items: Sequence[T], name: Callable[[T], str]
) -> Generator[T]:
    """Go through items, and show which one it is at; to be closed, so that a bar goes in time.

    Args:
        console: what to write on.
        doing: what is done with each, such as "Grading".
        items: all of them.
        name: what to call one.
    """
    if not console.is_terminal:
        for at, item in enumerate(items, 1):
            about = printable(f"{doing} {at}/{len(items)}: {name(item)}")
            console.print(about, markup=False, highlight=False)
            yield item
        return
    if not items:
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(doing, total=len(items))
        for item in items:
            bar.update(task, description=escape(printable(f"{doing} {name(item)}")))
            yield item
            bar.advance(task)
        bar.update(task, description=doing)
