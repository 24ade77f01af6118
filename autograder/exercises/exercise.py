"""Exercises as data, and the requirements that they are composed of.

A requirement says what is asked and holds what a judge needs to know; it does not judge
(`autograder.judge` does) and it does not look at answers (`autograder.evidence` does).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from autograder.evidence import Plan
from autograder.exercises.answer_plans import answer_plan
from autograder.exercises.requirements_on_designs import Designs
from autograder.exercises.requirements_on_layouts import (
    Feeds,
    PlacedLike,
    RunsIn,
    Trades,
)
from autograder.exercises.requirements_on_processes import OnProcesses
from autograder.exercises.requirements_on_programs import (
    CommunicatesAtMost,
    Computes,
    FitsIn,
    Requests,
    WorksAtMost,
)
from autograder.exercises.requirements_on_values import Predicts, Returns

Requirement = (
    PlacedLike
    | Returns
    | OnProcesses
    | Computes
    | CommunicatesAtMost
    | Requests
    | FitsIn
    | WorksAtMost
    | Feeds
    | Trades
    | RunsIn
    | Designs
    | Predicts
)


def pictured(requirement: Requirement) -> PlacedLike | None:
    """What is drawn of a requirement: the layout asked for, or that of a function's result."""
    if isinstance(requirement, Feeds):
        return requirement.result()
    return requirement if isinstance(requirement, PlacedLike) else None


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

    def generator(self, seed: int) -> np.random.Generator:
        """The source of this exercise's random cases for one judging."""
        return np.random.default_rng([seed, *self.id.encode()])

    def plan(self, seed: int) -> Plan:
        """What a kernel has to know of it: no reference, no prediction and no picture.

        Args:
            seed: what cases are drawn from, where a function is to be called in the kernel.
        """
        return Plan(
            self.id,
            {
                answer: answer_plan(
                    answer,
                    (r for r in self.requirements if r.answer == answer),
                    self.generator(seed),
                )
                for answer in self.answers
            },
        )
