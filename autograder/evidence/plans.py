"""Plans: what a student's kernel needs to know to capture answers.

A plan says for each answer of an exercise which kind of evidence it becomes, and what that takes:
arguments to export a function for, cases to call one with. It says nothing of what is right, and
it is plain data, so that a kernel that grades can be sent it.
"""

import ast
from typing import Any

from autograder.evidence.data import Size, Struct
from autograder.processes import ProcessCase
from autograder.programs import Argument

Shape = tuple[Size, ...]


class PlacementPlan(Struct, frozen=True, tag="placement"):
    """An array, or a sharding, becomes a `Placement`.

    Attributes:
        shape: the shape, in elements, that a sharding is for.
        array: whether it has to be an array, with its values.
    """

    shape: Shape
    array: bool


class PlacementsPlan(Struct, frozen=True, tag="placements"):
    """A sharding for each argument of a given function becomes one of `Placements`.

    Attributes:
        arguments: the arguments' names.
        shapes: their shapes, in elements.
    """

    arguments: tuple[str, ...]
    shapes: tuple[Shape, ...]


class ProgramPlan(Struct, frozen=True, tag="program"):
    """A function becomes a `Program`.

    Attributes:
        arguments: the lists of arguments that it is exported for, once for each.
        under_mesh: whether the arguments' mesh is the current one while it is traced.
    """

    arguments: tuple[tuple[Argument, ...], ...]
    under_mesh: bool


class DesignPlan(Struct, frozen=True, tag="design"):
    """Layouts of a model's parameters and batch, and a training step, become a `Design`.

    The model's parameters are a list of layers, each a dictionary of arrays; the step takes them,
    a batch and what is wanted for it, and returns new parameters.

    Attributes:
        parameters: the names of a layer's arrays.
        layers: how many layers there are.
        batch: the name of the layout of the batch, and of what is wanted for it.
        sizes: the sizes to export the step for: for each, the shapes of a layer's arrays, in
            elements, and that of the batch.
    """

    parameters: tuple[str, ...]
    layers: int
    batch: str
    sizes: tuple[tuple[Shape, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What is to be laid out, by name."""
        return (*self.parameters, self.batch)

    @property
    def arguments(self) -> tuple[str, ...]:
        """For each array that the step is given, the name of its layout."""
        return (*self.parameters * self.layers, self.batch, self.batch)


class ResultsPlan(Struct, frozen=True, tag="results"):
    """A function is called in the kernel, and its results become a `Value`.

    Attributes:
        written: the cases, a tuple of arguments for each call, as Python writes them: JSON has no
            tuples, and a function may tell them from lists.
    """

    written: str

    @classmethod
    def of(cls, cases: Any) -> "ResultsPlan":
        """The plan for some cases.

        Raises:
            TypeError: they hold what is not plain data.
        """
        plan = cls(repr(list(cases)))
        try:
            same = plan.cases == list(cases)
        except (ValueError, SyntaxError):
            same = False
        if not same:
            raise TypeError(
                "A case is made of numbers, strings, None, and tuples, lists and dictionaries of "
                f"them, and nothing else; these are not: {plan.written[:200]}"
            )
        return plan

    @property
    def cases(self) -> list[tuple[Any, ...]]:
        """The cases, made anew, since who is called may change them."""
        cases: list[tuple[Any, ...]] = ast.literal_eval(self.written)
        return cases


class ProcessesPlan(Struct, frozen=True, tag="processes"):
    """A function is called by several processes at once, and what they return becomes `Runs`.

    Attributes:
        cases: the calls; none where the grader is to call it, with data that no kernel knows. Then
            the function itself becomes evidence.
    """

    cases: tuple[ProcessCase, ...]


class TablePlan(Struct, frozen=True, tag="table"):
    """A dictionary of predictions becomes a `Value`."""


AnswerPlan = (
    PlacementPlan
    | PlacementsPlan
    | ProcessesPlan
    | ProgramPlan
    | DesignPlan
    | ResultsPlan
    | TablePlan
)


class Plan(Struct, frozen=True):
    """What capturing has to know of an exercise.

    Attributes:
        exercise: its id.
        answers: for the name of each answer, what it becomes.
    """

    exercise: str
    answers: dict[str, AnswerPlan]


def without_process_cases(plan: Plan) -> Plan:
    """A plan for a kernel that grades: it calls no function in several processes."""
    answers = {
        name: ProcessesPlan(()) if isinstance(wanted, ProcessesPlan) else wanted
        for name, wanted in plan.answers.items()
    }
    return Plan(plan.exercise, answers)


_given: dict[str, Plan] | None = None


def give(plans: list[Plan]) -> None:
    """Tell this process what to capture: it is a kernel that grades."""
    global _given
    _given = {plan.exercise: plan for plan in plans}


def is_grading() -> bool:
    """Check whether this process is a kernel that grades."""
    return _given is not None


def told() -> dict[str, Plan] | None:
    """The plans, by exercise, that this kernel was told of; None where it was told of none."""
    return _given
