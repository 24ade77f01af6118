"""Exercises as data, and what every kind of requirement has.

A kind of requirement is one class, in a module of its own (`requirements_on_…`, or in another
course's package): what it asks and knows, what a kernel is to capture for it, and how that is
judged. Nothing else has to know it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from autograder.evidence import AnswerPlan, Plan
from autograder.judge.verdict import Finding
from autograder.layouts import Layout
from autograder.programs import Argument

MALFORMED: Final = ("malformed", "The submission is not of the kind that this exercise needs.")
"""The diagnosis, and the sentence, where evidence is not of the kind that was planned."""


class Order(IntEnum):
    """What has to be met before what, of one answer: to do nothing is cheap, and stays in place."""

    VALUES = 0
    LAYOUT = 1
    COSTS = 2


class Requirement:
    """What is asked of one answer: the base of each kind, which is a frozen dataclass.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what is asked, in words.
        about: what this kind is about, in a word that can head a column.
        order: a finding counts only where those of the same answer that come before it are met.
        evidence: the kinds of evidence that it is judged on.
        runs_in_kernel: whether what is judged was drawn in the kernel, from a seed that is known
            there; everything else is drawn anew by the judge.

    docs/authoring.md has an example.
    """

    about: ClassVar[str]
    order: ClassVar[Order] = Order.VALUES
    evidence: ClassVar[tuple[type, ...]]
    runs_in_kernel: ClassVar[bool] = False

    if TYPE_CHECKING:  # fields of a subclass, or properties

        @property
        def answer(self) -> str: ...
        @property
        def asks(self) -> str: ...

    def plan_capture(self, generator: np.random.Generator) -> AnswerPlan | None:
        """What a kernel is to capture, without what is right.

        Args:
            generator: what cases are drawn from, where a function is called in the kernel.

        Returns:
            None where it is judged on what another requirement on the same answer has captured.
        """
        return None

    def judge(self, piece: Any, basis: Finding, exercise: "Exercise", seed: int) -> Finding:
        """The finding for evidence, which may be forged.

        Args:
            piece: evidence of one of the kinds in `evidence`.
            basis: what is known before any evidence is looked at: `basis.but(met=True)` and
                `basis.problem(diagnosis, sentence)` make a finding of it.
            exercise: what else is asked.
            seed: what cases or inputs are drawn from.

        Raises:
            ProgramError: a program cannot be judged.
        """
        raise NotImplementedError

    @property
    def exported_for(self) -> tuple[tuple[Argument, ...], ...]:
        """The lists of arguments that it has a function exported for; none where it has not."""
        return ()

    def pictured(self) -> Layout | None:
        """What is drawn of it: the layout asked for, or that of a function's result."""
        return None


@dataclass(frozen=True)
class Exercise:
    """One exercise of the course.

    Attributes:
        id: such as `1.4`; the notebook's graded cell is then called `ex-1-4-check`.
        title: a few words.
        requirements: what must hold.
        hints: from gentle to nearly there, never the answer.
        diagnoses: for the name of each known difference, what it usually means here.
        afterwards: for who has it right, a sentence worth knowing: another way to do it, or where
            one meets it.
        about: the kinds of requirement that it is about, which carry three quarters of an answer's
            points; empty for all but the right values.
        together: whether what an answer is about counts only where all of it is met.
        weights: how much an answer counts, by its name, where it is not as much as the others.
    """

    id: str
    title: str
    requirements: tuple[Requirement, ...]
    hints: tuple[str, ...]
    diagnoses: Mapping[str, str] = field(default_factory=dict)
    afterwards: str = ""
    about: tuple[type[Requirement], ...] = ()
    together: bool = False
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def answers(self) -> tuple[str, ...]:
        """The names of the answers it asks for, as the notebook has them."""
        return tuple(dict.fromkeys(requirement.answer for requirement in self.requirements))

    @property
    def grade_id(self) -> str:
        """What nbgrader calls the notebook's graded cell."""
        return f"ex-{self.id.replace('.', '-')}-check"

    def targets(self) -> list[tuple[str, Layout]]:
        """What is drawn of it: layouts, each with a title."""
        drawn = [(r.answer, layout) for r in self.requirements if (layout := r.pictured())]
        return [
            (self.id if len(drawn) == 1 else f"{self.id} {answer}", layout)
            for answer, layout in drawn
        ]

    def generator(self, seed: int) -> np.random.Generator:
        """The source of this exercise's random cases for one judging."""
        return np.random.default_rng([seed, *self.id.encode()])

    def plan(self, seed: int) -> Plan:
        """What a kernel has to know of it: no reference, no prediction and no picture.

        Args:
            seed: what cases are drawn from, where a function is to be called in the kernel.

        Raises:
            TypeError: it only asks what is read off a program, and nothing exports one.
        """
        answers = {
            answer: self._plan_answer(answer, self.generator(seed)) for answer in self.answers
        }
        return Plan(self.id, answers)

    def _plan_answer(self, answer: str, generator: np.random.Generator) -> AnswerPlan:
        asked = [requirement for requirement in self.requirements if requirement.answer == answer]
        for requirement in sorted(asked, key=lambda requirement: requirement.order):
            plan = requirement.plan_capture(generator)
            if plan is not None:
                return plan
        names = " and ".join(type(requirement).__name__ for requirement in asked)
        raise TypeError(f"{names} of {answer} needs a Computes of the same answer beside it.")
