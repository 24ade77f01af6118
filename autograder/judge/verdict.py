"""Verdicts and findings, as plain data."""

from typing import Any, Final, Self

import msgspec

from autograder.errors import Fault
from autograder.evidence import Struct
from autograder.layouts import Layout

OF_THE_CHECK: Final = "check"
"""What a finding is about where a check has handed in nothing that can be judged."""


class Trade(Struct, frozen=True):
    """Bytes held on each device against what that costs: what an answer chose, and what can be had.

    Attributes:
        held: the bytes that it holds.
        costs: what it costs, such as the bytes that it moves.
        cap: the most that it may hold.
        frontier: pairs of held and costs, such that nobody knows better in both.
        unit: what the costs are counted in.
    """

    held: int
    costs: int
    cap: int
    frontier: tuple[tuple[int, int], ...]
    unit: str = "bytes moved"


class Finding(Struct, frozen=True):
    """What became of one requirement.

    Attributes:
        answer: the name of the answer it speaks of.
        met: whether the requirement holds.
        asked: what was asked, in words.
        came: what came back, in words.
        diagnosis: what is wrong, as a short name; empty where nothing is.
        difference: what is wrong, in words; empty where nothing is.
        target: the layout asked for, where there is one to draw.
        made: the layout that came, where there is one to draw.
        about: what the requirement is about, such as `values` or `communication`; `check`, where
            there was no evidence and nothing is said of any one answer.
        cell: which cell it speaks of, where the answer is a table.
        credit: the part of the requirement that is met, from 0 to 1, where there are degrees.
        trade: where there are degrees, what they are measured by.
    """

    answer: str
    met: bool
    asked: str
    came: str
    diagnosis: str = ""
    difference: str = ""
    target: Layout | None = None
    made: Layout | None = None
    about: str = ""
    cell: str = ""
    credit: float | None = None
    trade: Trade | None = None

    def but(self, **changes: Any) -> Self:
        """The same finding with some of it changed."""
        return msgspec.structs.replace(self, **changes)

    def problem(self, diagnosis: str, sentence: str, **changes: Any) -> Self:
        """The same finding with what is wrong, as a short name and in words."""
        return self.but(diagnosis=diagnosis, difference=sentence, **changes)


class NoScoreError(RuntimeError):
    """A score was asked of a verdict that has none, since judging failed."""


class Verdict(Struct, frozen=True):
    """What a judge says of one exercise.

    Attributes:
        exercise: its id.
        title: its title.
        findings: a finding for each requirement; none where judging failed.
        fault: the error of ours for which there is no judgement, if there was one.
        earned: the share of the points, from 0 to 1.
        notes: what is to be known of how they are counted, in sentences.
        afterwards: a sentence worth knowing, for who has it right.
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
            NoScoreError: judging failed, so nobody knows.
        """
        if self.fault is not None:
            raise NoScoreError(
                f"Judging {self.exercise} failed, so there is no score: {self.fault}"
            )
        return self.earned

    @property
    def diagnoses(self) -> tuple[str, ...]:
        """The names of what is wrong, each once."""
        return tuple(dict.fromkeys(f.diagnosis for f in self.findings if f.diagnosis))

    @property
    def state(self) -> str:
        """`right`, `partly`, `wrong` or `unanswered`; `failed` where judging did."""
        if self.fault is not None:
            return "failed"
        if self.diagnoses == ("unanswered",) and not self.score:
            return "unanswered"
        return "right" if self.score == 1 else "partly" if self.score else "wrong"
