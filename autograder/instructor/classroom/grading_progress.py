"""Show the progress of grading (what runs, what is next, when it will end), and log it.

A terminal gets a progress bar; anything else gets lines of text.
"""

import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from autograder.instructor.commands import list_some, printable
from shardlings.documents import with_noun

T = TypeVar("T")


def show_progress(
    console: Console, doing: str, items: Sequence[T], name: Callable[[T], str]
) -> Generator[T]:
    """Yield items, and show the current one. Close the generator, so that the bar disappears.

    Args:
        console: where progress is shown.
        doing: what is done with each item, such as "Grading".
        items: the items.
        name: returns the name that is shown for an item.
    """
    if not console.is_terminal:
        for number, item in enumerate(items, 1):
            line = printable(f"{doing} {number}/{len(items)}: {name(item)}")
            console.print(line, markup=False, highlight=False)
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


Pair = tuple[str, str]

MAX_NAMED_SUBMISSIONS: Final = 3


class GradingProgress:
    """Shows the progress of grading submissions, and logs each step.

    Args:
        console: where progress is shown.
        usual: the seconds that each submission usually takes, in the order in which they start.
        log: the file to which a line of JSON is added for each step.
    """

    def __init__(self, console: Console, usual: Mapping[Pair, float], log: Path) -> None:
        self.console, self.usual, self.log = console, dict(usual), log
        self.waiting, self.running = list(usual), dict[Pair, float]()
        self.began, self.done = time.monotonic(), dict[Pair, float]()
        self.bar = Progress(
            TextColumn("Grading"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"), console=console,
        )  # fmt: skip
        self.task = self.bar.add_task("", total=len(usual), left="")
        self.live = Live(console=console, transient=True, refresh_per_second=4)

    def __enter__(self) -> "GradingProgress":
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._write("began", submissions=len(self.waiting))
        if self.console.is_terminal and self.waiting:
            self.live.start()
            self._show()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()
        left = [*self.running, *self.waiting]
        seconds = round(time.monotonic() - self.began, 3)
        self._write("ended", graded=len(self.done), left=len(left), seconds=seconds)

    def begin(self, pair: Pair) -> None:
        """Show and log that a worker starts a submission."""
        if pair in self.waiting:  # it is not in a second attempt
            self.waiting.remove(pair)
        self.running[pair] = time.monotonic()
        self._write("begun", *pair)
        if not self.console.is_terminal:
            place = f"{len(self.usual) - len(self.waiting)}/{len(self.usual)}"
            line = f"Grading {place}: {', '.join(pair)}{self._left(' ({})')}"
            self.console.print(printable(line), markup=False, highlight=False)
        self._show()

    def end(self, pair: Pair, **fields: Any) -> None:
        """Show and log that a submission's outcome is entered.

        Args:
            pair: the submission.
            fields: what to log beside it; `why`, if it has no grade.
        """
        if pair in self.waiting:  # it never started: the scheduler was lost
            self.waiting.remove(pair)
        now = time.monotonic()
        self.done[pair] = now - self.running.pop(pair, now)
        self._write("entered" if not fields.get("why") else "not graded", *pair, **fields)
        self.bar.advance(self.task)
        self._show()

    def _write(self, step: str, *pair: str, **fields: Any) -> None:
        now = datetime.now().astimezone().isoformat(timespec="milliseconds")
        names = zip(("student", "assignment"), pair, strict=False)
        line = json.dumps({"time": now, "step": step, **dict(names), **fields})
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def _left(self, template: str) -> str:
        """Describe how long grading will still take; empty until a submission is done."""
        elapsed, total = time.monotonic() - self.began, sum(self._usual(p) for p in self.usual)
        done = sum(self._usual(pair) for pair in self.done)
        if not done or len(self.done) == len(self.usual):
            return ""
        seconds = elapsed * (total - done) / done
        end = datetime.now() + timedelta(seconds=seconds)
        return template.format(f"{_in_words(seconds)} left, until {end:%H:%M}")

    def _usual(self, pair: Pair) -> float:
        return self.usual[pair] or 1.0

    def _show(self) -> None:
        if not self.live.is_started:
            return
        self.bar.update(self.task, left=self._left("{}"))
        groups = (("now: ", [*self.running]), ("next:", self.waiting))
        rows = [
            Text(f"  {word} {_list_pairs(pairs)}", no_wrap=True, overflow="ellipsis")
            for word, pairs in groups
            if pairs
        ]
        self.live.update(Group(self.bar, *rows))


def _in_words(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    if minutes < 90:
        return f"about {with_noun(minutes, 'minute')}"
    return f"about {seconds / 3600:.1f} hours"


def _list_pairs(pairs: Sequence[Pair]) -> str:
    return list_some([printable(", ".join(pair)) for pair in pairs], MAX_NAMED_SUBMISSIONS, "; ")
