"""`Exercise`, and `Requirement`: the base class of each kind of requirement.

A kind of requirement is one class. It holds what the exercise's author specifies, plans what the
kernel captures, and judges the captured evidence. Judging asks a kind what it has to know, so
another course's package can define kinds of its own. Only two kinds are known to other modules:
`scoring.py` groups the cells of a table (`Predicts`) by their right answers, and
`requirements_on_requests.py` and `requirements_on_values.py` read the reference of an answer from
its `Computes`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from humanize import natural_list

from autograder.artifacts import Argument
from autograder.evidence import AnswerPlan, Plan
from autograder.judge.diagnoses import MALFORMED
from autograder.judge.verdict import Finding
from shardlings.layouts import Layout

NOT_AS_PLANNED: Final = (MALFORMED, "The submission is not of the kind that this exercise needs.")
"""The diagnosis and the sentence for evidence of another kind than was planned."""


class Mistake:
    """A mistake that learners make: ways to make it, and what is said about it.

    For example, `Mistake(lambda x: x.sum(0), says="This sums along the wrong dimension.")`. The
    ways of a mistake among these are its ways, too.

    Attributes:
        ways: what each way of making it gives, in the terms of the requirement: a function with the
            mistake and no other, for example, or a prediction.
        says: the lesson on it. If empty, the exercise's `diagnoses` have it, for several answers.
    """

    __slots__ = ("says", "ways")

    def __init__(self, *ways: Any, says: str = "") -> None:
        self.ways = tuple(way for each in ways for way in ways_of(each))
        self.says = says


def ways_of(mistake: Any) -> tuple[Any, ...]:
    """Return the ways to make a mistake; one that is no `Mistake` is its only way itself."""
    return mistake.ways if isinstance(mistake, Mistake) else (mistake,)


class Order(IntEnum):
    """The order in which an answer's requirements count: values, then layout, then costs.

    A function that returns its argument unchanged communicates nothing. Costs therefore count only
    once the values and the layout are right.
    """

    VALUES = 0
    LAYOUT = 1
    COSTS = 2


class Requirement:
    """A condition on one answer. Each kind is a subclass, and a frozen dataclass.

    docs/authoring.md defines one, `Conserves`.

    Attributes:
        answer: the name of the answer in the notebook.
        asks: the condition in words; a verdict shows it after `Expected:`.
        about: the subject of this kind in one word, such as `values`; it heads a column.
        order: when this counts, relative to the other requirements on the same answer.
        evidence: the types of evidence that `judge` accepts.
        is_usual_subject: whether an exercise without `about` is about requirements of this kind.
        depends_on_layout: whether a wrong layout can be the cause if this is not met.
        mistakes: by diagnosis, a `Mistake` or the only way to make it.
        runs_in_kernel: whether the judged function ran in the student's kernel. Its inputs then
            came from a seed that the kernel knew; for all other evidence the judge samples new
            inputs.
    """

    about: ClassVar[str]
    order: ClassVar[Order] = Order.VALUES
    evidence: ClassVar[tuple[type, ...]]
    is_usual_subject: ClassVar[bool] = True
    depends_on_layout: ClassVar[bool] = False
    runs_in_kernel: ClassVar[bool] = False
    mistakes: Mapping[str, Any] = MappingProxyType({})

    @property
    def explained(self) -> Mapping[str, Any]:
        """The mistakes, some of which have a lesson of their own."""
        return self.mistakes

    if TYPE_CHECKING:  # fields of a subclass, or properties

        @property
        def answer(self) -> str: ...
        @property
        def asks(self) -> str: ...

    def plan_capture(self, generator: np.random.Generator) -> AnswerPlan | None:
        """Return what the kernel captures of the answer; it must not contain what is right.

        Args:
            generator: samples the cases, if a function is called in the kernel.

        Returns:
            The plan, or None if another requirement on the same answer plans the capture.
        """
        return None

    def judge(self, piece: Any, finding: Finding, exercise: "Exercise", seed: int) -> Finding:
        """Judge evidence, which may be forged.

        Args:
            piece: evidence of one of the types in `evidence`.
            finding: the finding to start from. Return `finding.but(met=True)`, or
                `finding.problem(diagnosis, sentence)`.
            exercise: the exercise, with its other requirements.
            seed: the seed for cases and inputs.

        Raises:
            ProgramError: an exported program cannot be judged.
        """
        raise NotImplementedError

    def lacks_collectives(self, finding: Finding) -> bool:
        """Check whether the answer leaves collectives to the compiler that it has to request."""
        return False

    def is_needlessly_explicit(self, finding: Finding) -> bool:
        """Check whether the answer requests collectives that it has to leave to the compiler."""
        return False

    @property
    def exported_for(self) -> tuple[tuple[Argument, ...], ...]:
        """The lists of arguments that this has a function exported for; usually none."""
        return ()

    def pictured(self) -> Layout | None:
        """Return the layout that the notebook draws as the target, if there is one."""
        return None

    def targets(self) -> dict[str, Layout]:
        """Return all layouts that the notebook draws as targets, by what has them."""
        layout = self.pictured()
        return {} if layout is None else {self.answer: layout}


@dataclass(frozen=True)
class Exercise:
    """One exercise: its requirements, its hints, and what its mistakes teach.

    For example, `Exercise("1.9", "Rows", (PlacedLike("rows", "0 1 2 3", ((8,),)),), hints=("…",))`.

    Attributes:
        id: such as `1.4`; the notebook's graded cell is then named `ex-1-4-check`.
        title: a few words.
        requirements: what must hold, for all answers of the exercise.
        hints: from gentle to nearly the answer, but never the answer.
        diagnoses: lessons on diagnoses that are no `Mistake`, or one of several answers: what this
            difference usually means in this exercise. A key such as `rows: transposed` is for one
            answer only.
        afterwards: a sentence for those who solved it: another way to do it, or where this occurs
            in practice.
        about: the kinds of requirement that carry three quarters of an answer's points; empty for
            all kinds that are usual subjects, which `Computes` is not.
        together: whether the points for these kinds are earned only if all requirements of them are
            met. One that is missed by little, such as by a collective too many, costs only its own
            part. If an answer has no other requirements, these are all of its points.
        weights: relative weights of answers, by name; 1 by default.
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
        """The names of the answers, in the notebook's order."""
        return tuple(dict.fromkeys(requirement.answer for requirement in self.requirements))

    @property
    def grade_id(self) -> str:
        """The name of the graded cell in nbgrader."""
        return f"{name_cell(self.id)}-check"

    @cached_property
    def lessons(self) -> Mapping[str, str]:
        """The lessons on all diagnoses, those of the requirements' mistakes included."""
        mistake_lessons = {
            name: mistake.says
            for requirement in self.requirements
            for name, mistake in requirement.explained.items()
            if isinstance(mistake, Mistake) and mistake.says
        }
        return mistake_lessons | dict(self.diagnoses)

    def targets(self) -> list[tuple[str, Layout]]:
        """Return the layouts that the notebook draws as targets, each once, with a title."""
        answers: dict[Layout, list[str]] = {}
        for requirement in self.requirements:
            for name, layout in requirement.targets().items():
                answers.setdefault(layout, []).append(name)
        return [
            (self.id if len(answers) == 1 else f"{self.id} {natural_list(named)}", layout)
            for layout, named in answers.items()
        ]

    def generator(self, seed: int) -> np.random.Generator:
        """Return the random generator for this exercise's cases."""
        return np.random.default_rng([seed, *self.id.encode()])

    def plan(self, seed: int) -> Plan:
        """Return what the kernel has to know: no references, predictions or pictures.

        Args:
            seed: the seed for the cases of functions that are called in the kernel.

        Raises:
            TypeError: an answer's requirements judge a program, but none of them exports one.
        """
        answers = {
            answer: self._plan_answer(answer, self.generator(seed)) for answer in self.answers
        }
        return Plan(self.id, answers)

    def _plan_answer(self, answer: str, generator: np.random.Generator) -> AnswerPlan:
        requirements = [r for r in self.requirements if r.answer == answer]
        for requirement in sorted(requirements, key=lambda requirement: requirement.order):
            plan = requirement.plan_capture(generator)
            if plan is not None:
                return plan
        names = " and ".join(type(requirement).__name__ for requirement in requirements)
        raise TypeError(f"{names} of {answer} needs a Computes of the same answer beside it.")


def name_cell(exercise_id: str) -> str:
    """Return nbgrader's name for the cell that a learner fills in: `ex-1-4` for `1.4`."""
    return f"ex-{exercise_id.replace('.', '-')}"
