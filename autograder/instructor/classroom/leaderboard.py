"""A class's designs side by side: one table and one picture, from the evidence that was kept."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder.exercises import EXERCISES, NOTEBOOKS, Designs, Exercise, RunsIn, find
from autograder.instructor.classroom.grade_table import number
from autograder.instructor.classroom.grading import broken
from autograder.instructor.classroom.judging_again import judged
from autograder.instructor.classroom.regrading import kept
from autograder.instructor.course import Course, printable, readable
from autograder.instructor.walls import NoSandboxError
from autograder.judge import Trade, Verdict
from autograder.pictures import class_tradeoff_as_html

BEYOND: Final = ("over-the-cap", "sends-too-much")
"""The diagnoses of what is right and beyond a budget."""

RUNNING: Final = "in the running"

FASTER: Final = "faster than was known"
"""What is said besides of who is: it may be a discovery, or a program to have a look at."""

DISCOVERY: Final = 0.99
"""How much of the least time that is known a design takes at most that is told of so."""

HEADINGS: Final = ("place", "student", "time", "held", "score", "how it stands")


class LeaderboardError(RuntimeError):
    """There is no leaderboard to be made; the message says why and what to do."""


@dataclass(frozen=True)
class Entry:
    """How one submission stands.

    Attributes:
        student: whose it is.
        state: `in the running`, `beyond a budget`, `not right yet`, `unanswered`, `no answer`,
            `broken`, `failed` or `not graded yet`.
        trade: what the design holds and takes, where that is known.
        score: the share of the points that it earns.
    """

    student: str
    state: str
    trade: Trade | None = None
    score: float = 0.0

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """What a table says of it, after its place and name."""
        time = held = score = ""
        if self.trade is not None:
            time, held = f"{self.trade.costs / 1e3:,.2f} ms", f"{self.trade.held / 2**20:,.0f} MiB"
        if self.state in (RUNNING, "beyond a budget", "not right yet"):
            score = number(self.score)
        return time, held, score, f"{self.state}, {FASTER}" if self.faster else self.state

    @property
    def faster(self) -> bool:
        """Whether it is in the running, and faster than anything known within the cap."""
        if self.trade is None or self.state != RUNNING:
            return False
        known = [time for held, time in self.trade.frontier if held <= self.trade.cap]
        return self.trade.costs < DISCOVERY * min(known)


def show_leaderboard(
    course: Course, console: Console, exercise_id: str = "", anonymous: bool = False
) -> int:
    """Write a class's designs into a table, and into a page with a picture.

    What was handed in is judged again, each submission by a process of its own; nobody's notebook
    is run.

    Args:
        course: whose class.
        console: what to write on.
        exercise_id: the exercise; empty for the capstone.
        anonymous: whether numbers stand in place of names, so that a class may see it.

    Returns:
        The exit status: 0, or 1 where an error of ours kept a submission from being judged.

    Raises:
        LeaderboardError: there is no such exercise, or nobody has handed it in.
    """
    exercise = _exercise(exercise_id)
    with course.alone():
        entries = list(_entries(course, exercise, console))
    if not entries:
        raise LeaderboardError(
            f"Nobody has handed in {_assignment(exercise)} yet, which has exercise {exercise.id}. "
            f"Submissions go to {course.submitted.relative_to(course.root)}/<student>/"
            f"{_assignment(exercise)}/, and `make grade` grades them."
        )
    places = _placed(entries, anonymous)
    console.print(Text(f"{exercise.id} {exercise.title}", "bold"))
    console.print(_table(places))
    if all(entry.state == "not graded yet" for _, entry in places):
        console.print("`make grade` grades them; then there is something to show.")
    page = course.grading / f"leaderboard-{exercise.id}.html"
    page.write_text(_page(exercise, places), encoding="utf-8", errors="backslashreplace")
    console.print(f"With a picture: {page.relative_to(course.root)}", soft_wrap=True)
    return 1 if any(entry.state == "failed" for entry in entries) else 0


def _exercise(exercise_id: str) -> Exercise:
    """The exercise of that name, if it is one whose answers can be ranked.

    Raises:
        LeaderboardError: it is not, or there is none.
    """
    every = {e.id: e for e in EXERCISES.values() if _requirement(e) is not None}
    capstones = [e for e in every.values() if isinstance(_requirement(e), Designs)]
    if not exercise_id and capstones:
        return capstones[-1]
    exercise = find(exercise_id)
    if exercise.id not in every:
        raise LeaderboardError(
            f"The answers to {exercise_id} cannot be ranked. Those can be that are judged by how "
            f"fast they are: {', '.join(every)}."
        )
    return exercise


def _requirement(exercise: Exercise) -> RunsIn | Designs | None:
    """What makes an exercise's answers comparable, if anything does."""
    return next((r for r in exercise.requirements if isinstance(r, RunsIn | Designs)), None)


def _assignment(exercise: Exercise) -> str:
    return next(name for name, exercises in NOTEBOOKS.items() if exercise in exercises)


def _entries(course: Course, exercise: Exercise, console: Console) -> Iterator[Entry]:
    """Every submission of the exercise's notebook, judged from what was kept of it."""
    assignment = _assignment(exercise)
    without = {
        f.student: "broken" if f.theirs else "failed"
        for f in broken(course)
        if f.assignment == assignment
    }
    graded = [
        replace(one, cases=tuple(c for c in one.cases if c.exercise == exercise.id))
        for one in kept(course, console)
        if one.assignment == assignment and one.student not in without
    ]
    for one, verdicts in zip(graded, judged(graded, course.api.config), strict=True):
        try:
            made = verdicts.result()
        except NoSandboxError:
            raise
        except Exception as error:  # one submission's failure is its own
            said = f"{one.student}: {type(error).__name__}: {error}"
            console.print(printable(said), markup=False)
            yield Entry(one.student, "failed")
        else:
            yield _entry(one.student, made)
    known = {one.student for one in graded}
    for student, handed_in in course.submissions():
        if handed_in == assignment and student not in known:
            yield Entry(readable(student), without.get(student, "not graded yet"))


def _entry(student: str, verdicts: Sequence[Verdict]) -> Entry:
    if not verdicts:
        return Entry(student, "no answer")
    verdict = verdicts[-1]
    if verdict.fault is not None:
        return Entry(student, "failed")
    if verdict.state == "unanswered":
        return Entry(student, "unanswered")
    trade = next((f.trade for f in verdict.findings if f.trade is not None), None)
    if trade is None:
        return Entry(student, "not right yet", score=verdict.score)
    beyond = any(diagnosis in BEYOND for diagnosis in verdict.diagnoses)
    return Entry(student, "beyond a budget" if beyond else RUNNING, trade, verdict.score)


def _placed(entries: Sequence[Entry], anonymous: bool) -> list[tuple[str, Entry]]:
    """The entries in their order, each with its place: the same for who takes the same time.

    Who is not in the running has none. To be anonymous, they are numbered in this order, and those
    that are alike in it come in the order of their names.
    """
    running = [e for e in entries if e.state == RUNNING and e.trade is not None]
    others = [e for e in entries if e not in running]
    running.sort(key=lambda e: (_costs(e), e.student.casefold()))
    others.sort(key=lambda e: (e.state, _costs(e), e.student.casefold()))
    placed: list[tuple[str, Entry]] = []
    for _, alike in groupby(running, _costs):
        place = str(len(placed) + 1)
        placed += [(place, entry) for entry in alike]
    placed += [("–", entry) for entry in others]
    if not anonymous:
        return placed
    return [
        (place, replace(entry, student=f"design {count}"))
        for count, (place, entry) in enumerate(placed, 1)
    ]


def _costs(entry: Entry) -> int:
    return entry.trade.costs if entry.trade is not None else 0


def _table(placed: Sequence[tuple[str, Entry]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in HEADINGS:
        right = heading in ("place", "time", "held", "score")
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for place, entry in placed:
        table.add_row(place, Text(printable(entry.student)), *entry.cells)
    return table


def _page(exercise: Exercise, placed: Sequence[tuple[str, Entry]]) -> str:
    """The table and a picture, as a page that stands by itself."""
    rows = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
        for place, entry in placed
        for cells in [(place, printable(entry.student), *entry.cells)]
    )
    heads = "".join(f'<th scope="col">{heading}</th>' for heading in HEADINGS)
    title = html.escape(f"{exercise.id} {exercise.title}")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        "<style>body{font-family:sans-serif;margin:2em}td,th{padding:2px 12px;text-align:left}"
        f"</style><h1>{title}</h1>{_picture(exercise, placed)}"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></html>"
    )


def _picture(exercise: Exercise, placed: Sequence[tuple[str, Entry]]) -> str:
    """What everybody chose; those who chose the same share a name, which is their place."""
    asked = _requirement(exercise)
    chosen = [(p, e.state, (e.trade.held, e.trade.costs)) for p, e in placed if e.trade is not None]
    if asked is None or not chosen:
        return ""
    return class_tradeoff_as_html(
        [*dict.fromkeys((place, pair) for place, state, pair in chosen if state == RUNNING)],
        [pair for _, state, pair in chosen if state != RUNNING],
        asked.cap,
        asked.frontier,
        "microseconds",
    )
