"""Plans: what a student's kernel needs to know to capture answers.

A plan says for each answer of an exercise which kind of evidence it becomes, and what that takes:
arguments to export a function for, cases to call one with. It says nothing of what is right, and
it is plain data, so that a kernel that grades can be sent it. Each kind of it stands beside what
captures it.
"""

from autograder.evidence.data import Struct
from autograder.evidence.designs import DesignPlan
from autograder.evidence.exported_functions import ProgramPlan
from autograder.evidence.placements import PlacementPlan, PlacementsPlan
from autograder.evidence.plain_results import ResultsPlan, TablePlan
from autograder.evidence.process_results import ProcessesPlan

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
