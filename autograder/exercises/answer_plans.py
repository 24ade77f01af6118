"""Make the plan of a requirement: what a kernel needs to know, without what is right."""

from collections.abc import Iterable

import numpy as np

from autograder.evidence import (
    AnswerPlan,
    PlacementPlan,
    PlacementsPlan,
    ProcessesPlan,
    ProgramPlan,
    ResultsPlan,
    TablePlan,
)
from autograder.exercises.requirements_on_designs import Designs
from autograder.exercises.requirements_on_layouts import (
    Feeds,
    PlacedLike,
    RunsIn,
    Trades,
)
from autograder.exercises.requirements_on_processes import OnProcesses
from autograder.exercises.requirements_on_programs import Computes
from autograder.exercises.requirements_on_values import Predicts, Returns


def answer_plan(
    answer: str, requirements: Iterable[object], generator: np.random.Generator
) -> AnswerPlan:
    """What becomes of one answer.

    Args:
        answer: its name.
        requirements: all that is asked of it. What exports a function decides; the rest of what is
            asked of a function is read off the program.
        generator: what cases are drawn from, where a function is to be called in the kernel.

    Raises:
        TypeError: they only ask what is read off a program, and nothing has one exported.
    """
    asked = list(requirements)
    for requirement in sorted(asked, key=lambda r: isinstance(r, PlacedLike)):
        match requirement:
            case PlacedLike():
                return PlacementPlan(requirement.shapes[0], requirement.values is not None)
            case Feeds():
                return PlacementsPlan(requirement.arguments, requirement.shapes[0])
            case Trades() | RunsIn():
                return PlacementsPlan(requirement.arguments, requirement.shapes)
            case Designs():
                return requirement.plan
            case Returns():
                return ResultsPlan.of(requirement.cases(generator))
            case OnProcesses():
                return ProcessesPlan(tuple(requirement.cases(generator)))
            case Computes():
                return ProgramPlan(requirement.arguments, requirement.under_mesh)
            case Predicts():
                return TablePlan()
    names = " and ".join(type(requirement).__name__ for requirement in asked)
    raise TypeError(f"{names} of {answer} needs a Computes of the same answer beside it.")
