"""Grade one submission in a container of its own: a notebook in, a record out.

Where bubblewrap does not work, this refuses to grade, unless it is told that the container is the
sandbox. Then a submission runs as a user who can read neither the course nor the results, if root
grades; otherwise it runs as the grading user, and a warning says what it can do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from traitlets.config import Config

from autograder.instructor.calibration import calibrate
from autograder.instructor.commands import printable
from autograder.instructor.course import Course, explain_missing_notebook, find_unsafe_file
from autograder.instructor.pipeline import (
    AssignmentFacts,
    Outcome,
    Record,
    State,
    Submission,
    collect_facts,
    grade,
    read_submission,
)
from autograder.instructor.sandbox import (
    NO_SANDBOX_ERROR,
    NO_SANDBOX_WARNING,
    NoSandboxError,
    Sandbox,
    has_bubblewrap,
    is_root,
)

STUDENT: Final = "submission"
"""The student's id in a container that grades for nobody by name."""

SUBMISSIONS_UID: Final = 61534
"""The user that submissions run as without bubblewrap: no system gives anybody this number."""

CONTAINER_ADVICE: Final = (
    " In a container that holds one submission and nothing else, the container can be the sandbox: "
    "say so with --container-is-sandbox, or make gradescope CONTAINER=1."
)

CONTAINER_WARNING: Final = (
    f"There is no working bubblewrap here, so the container is the sandbox. The submission runs as "
    f"user {SUBMISSIONS_UID}, who can read neither the course nor the results."
)


@dataclass(frozen=True)
class Grader:
    """A calibrated grader of one assignment.

    Attributes:
        course: the course, or the part of one that is in a container.
        facts: the facts of the assignment.
        points: the points of each graded cell, by the names of its notebook and the cell.
    """

    course: Course
    facts: AssignmentFacts
    points: Mapping[tuple[str, str], float]

    def grade(self, given: Path) -> Outcome:
        """Grade a submission.

        Args:
            given: a folder with the notebook, or the notebook alone.

        Returns:
            The outcome, whose record says why there is no grade if there is none.
        """
        assignment = self.facts.assignment
        is_file = given.suffix == ".ipynb" and not given.is_dir() and not given.is_symlink()
        if is_file and given.exists():
            contents = {assignment: given.read_bytes()}
            return grade(Submission(STUDENT, assignment, contents, {}), self.facts)
        problem = find_unsafe_file(given) or explain_missing_notebook(
            given / f"{assignment}.ipynb", self.facts.time_limits
        )
        if problem:
            return Outcome(Record(State.BROKEN, problem))
        names = [name for name in self.facts.time_limits if (given / f"{name}.ipynb").is_file()]
        ignored = self.course.api.coursedir.ignore
        return grade(read_submission(given, STUDENT, assignment, names, ignored), self.facts)


def explain_wrong_path(given: Path) -> str:
    """Return why a path is neither a submission's folder nor a notebook; empty if it is one."""
    if given.is_symlink() or given.is_dir():  # the grader refuses links itself
        return ""
    if not given.exists():
        return f"There is no {printable(str(given))}: give a submission's folder or its notebook."
    if given.suffix != ".ipynb" or not given.is_file():
        return f"{printable(str(given))} is neither a submission's folder nor a notebook (.ipynb)."
    return ""


def prepare_grader(
    course: Course, console: Console, assignment: str, container_is_sandbox: bool = False
) -> Grader:
    """Calibrate the grader of an assignment on this machine, unless that was done before.

    Args:
        course: the course.
        console: where warnings are printed.
        assignment: the assignment's name.
        container_is_sandbox: whether to grade where bubblewrap does not work.

    Raises:
        NoSandboxError: bubblewrap does not work here, and nobody said that the container is the
            sandbox.
        ReleaseError: the assignment's notebook cannot be released.
        CalibrationError: the grader fails its own test.
    """
    config = course.api.config
    if container_is_sandbox:
        config.merge(Config({"Sandbox": {"required": False}}))
    if not has_bubblewrap():
        if Sandbox(config=config).required:
            raise NoSandboxError(NO_SANDBOX_ERROR + CONTAINER_ADVICE)
        if is_root():
            config.merge(Config({"Sandbox": {"uid": SUBMISSIONS_UID}}))
        warning = CONTAINER_WARNING if is_root() else NO_SANDBOX_WARNING
        console.print(warning, style="bold yellow", highlight=False)
    coursedir = course.api.coursedir
    with course.hold_lock():
        course.release(assignment)
        if passing := calibrate(config, assignment):
            console.print(passing, markup=False, highlight=False)
        facts = collect_facts(coursedir, config, assignment)
        with course.open_gradebook() as gradebook:
            notebooks = gradebook.find_assignment(assignment).notebooks
            points = {
                (book.name, cell.name): cell.max_score
                for book in notebooks
                for cell in (*book.grade_cells, *book.task_cells)
            }
    return Grader(course, facts, points)
