"""Verdicts and findings, as plain data."""

from typing import Any, Final, Self

import msgspec

from autograder.evidence import Struct
from autograder.explanations import Fault
from autograder.judge.diagnoses import UNANSWERED
from shardlings.layouts import Layout
from shardlings.pictures import GanttChart

MAX_CHARACTERS: Final = {
    **dict.fromkeys(("answer", "diagnosis", "about", "cell"), 200),
    **dict.fromkeys(("expected", "got", "difference"), 2**13),
}
"""The most characters that a finding keeps of its names and sentences, which may be forged."""

OF_THE_CHECK: Final = "check"
"""`Finding.about` where the check submitted nothing that can be judged."""


class Trade(Struct, frozen=True):
    """A trade of memory for communication or time: what an answer chose, and the best known.

    Attributes:
        held: the bytes that the answer holds on each device.
        costs: what the answer costs, in `unit`.
        cap: the most bytes that it may hold.
        frontier: the best pairs of `held` and `costs` that are known (the Pareto frontier).
        unit: the unit of the costs.
        computing: the part of the costs that is for computing.
        goal: the costs that earn all points; 0 if only the best that is known does.
        max_sent: the most bytes that it may send; 0 for any number.
        max_communicating: what it costs to send so many bytes.
        items: what the costs consist of: names and costs, the largest first; may be empty.
    """

    held: int
    costs: int
    cap: int
    frontier: tuple[tuple[int, int], ...]
    unit: str = "bytes moved"
    items: tuple[tuple[str, int], ...] = ()
    computing: int = 0
    goal: int = 0
    max_sent: int = 0
    max_communicating: int = 0

    @property
    def best(self) -> int:
        """The lowest costs that are known within the budget."""
        return min(costs for held, costs in self.frontier if held <= self.cap)

    def at(self, held: int, costs: int, computing: int = 0) -> Self:
        """Return the same trade for another choice."""
        return msgspec.structs.replace(self, held=held, costs=costs, computing=computing)


class Finding(Struct, frozen=True):
    """The result of judging one requirement.

    Attributes:
        answer: the name of the answer.
        met: whether the requirement is met.
        expected: what was expected, in words.
        got: what the answer gave, in words.
        diagnosis: a short name for what is wrong, such as `transposed`; empty if nothing is.
        difference: what is wrong, in a sentence or more; empty if nothing is.
        target: the expected layout, if there is one to draw.
        made: the answer's layout, if there is one to draw.
        about: the requirement's `about`; `check` if the submission as a whole cannot be judged.
        cell: the key of the cell, if the answer is a table.
        credit: the part of the requirement that is met, from 0 to 1; None if it is met or not.
        trade: the numbers behind `credit`, to draw.
        is_slight: whether the requirement is missed by so little that others still count, where
            requirements count together.
        charts: when things run in one case, as the answer has it and as expected, to draw.
    """

    answer: str
    met: bool
    expected: str
    got: str
    diagnosis: str = ""
    difference: str = ""
    target: Layout | None = None
    made: Layout | None = None
    about: str = ""
    cell: str = ""
    credit: float | None = None
    trade: Trade | None = None
    is_slight: bool = False
    charts: tuple[GanttChart, ...] = ()

    def __post_init__(self) -> None:
        """Shorten what is too long to be read."""
        for name, limit in MAX_CHARACTERS.items():
            if len(text := getattr(self, name)) > limit:
                msgspec.structs.force_setattr(self, name, f"{text[:limit]} …")

    def but(self, **changes: Any) -> Self:
        """Return a copy with some attributes changed."""
        return msgspec.structs.replace(self, **changes)

    def problem(self, diagnosis: str, sentence: str, **changes: Any) -> Self:
        """Return a copy that says what is wrong: a diagnosis, and a sentence for the learner."""
        return self.but(diagnosis=diagnosis, difference=sentence, **changes)


class NoScoreError(RuntimeError):
    """A verdict has no score, because judging failed."""


class Verdict(Struct, frozen=True):
    """The verdict on one exercise.

    Attributes:
        exercise: the exercise's id.
        title: the exercise's title.
        findings: a finding for each requirement; none if judging failed.
        fault: the error in our own code because of which judging failed, if it did.
        earned: the share of the points, from 0 to 1.
        notes: sentences on how the points are computed.
        afterwards: the exercise's sentence for those who solved it.
    """

    exercise: str
    title: str
    findings: tuple[Finding, ...]
    fault: Fault | None = None
    earned: float = 0.0
    notes: tuple[str, ...] = ()
    afterwards: str = ""

    @property
    def score(self) -> float:
        """The share of the points that is earned, from 0 to 1.

        Raises:
            NoScoreError: judging failed.
        """
        if self.fault is not None:
            raise NoScoreError(
                f"Judging {self.exercise} failed, so there is no score: {self.fault}"
            )
        return self.earned

    @property
    def diagnoses(self) -> tuple[str, ...]:
        """The findings' diagnoses, without repetitions."""
        return tuple(dict.fromkeys(f.diagnosis for f in self.findings if f.diagnosis))

    @property
    def state(self) -> str:
        """`right`, `partly`, `wrong`, `unanswered`, or `failed` if judging failed."""
        if self.fault is not None:
            return "failed"
        if self.diagnoses == (UNANSWERED,) and not self.score:
            return "unanswered"
        return "right" if self.score == 1 else "partly" if self.score else "wrong"
