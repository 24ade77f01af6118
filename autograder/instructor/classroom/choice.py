"""Some of a class: one assignment, one student, or both, where that is all that is asked for."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from nbgrader.api import Gradebook

from autograder.instructor.classroom.roster import read_roster
from autograder.instructor.course import Course, near, printable
from autograder.instructor.gradebook import is_server

MOST_NAMED: Final = 12
"""Of how many names all are said, where none is near."""


class UnknownNameError(LookupError):
    """There is no such assignment or student; the message names those that are near."""


@dataclass(frozen=True)
class Choice:
    """What is asked for; all of it, where nothing is said.

    Attributes:
        assignment: its id; empty for all.
        student: likewise.
    """

    assignment: str = ""
    student: str = ""

    def has(self, student: str, assignment: str) -> bool:
        """Whether a submission is among what is asked for."""
        return self.student in ("", student) and self.assignment in ("", assignment)

    def of(self, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Of pairs of a student and an assignment, those that are asked for."""
        return [pair for pair in pairs if self.has(*pair)]


EVERYTHING: Final = Choice()


def choose(course: Course, assignment: str = "", student: str = "") -> Choice:
    """What is asked for by names, once it is known that there are such.

    Raises:
        UnknownNameError: there are not.
        RosterError: it cannot be looked up in the roster.
    """
    if assignment and assignment not in (there := course.assignments()):
        raise UnknownNameError(f"There is no assignment {_said(assignment, there)}")
    if student and student not in (known := _students(course)):
        if not known:
            raise UnknownNameError(
                f"There is no student {printable(student)}: nobody has handed in, and there is no "
                f"grading/roster.csv."
            )
        raise UnknownNameError(f"There is no student {_said(student, known)}")
    return Choice(assignment, student)


def _students(course: Course) -> list[str]:
    """Everybody who has handed in, is in the roster, or has a grade."""
    handed_in = {student for student, _ in course.submissions()}
    handed_in |= {folder.parent.name for folder in course.submitted.glob("*/*") if folder.is_dir()}
    return sorted(handed_in | {person.id for person in read_roster(course)} | _graded(course))


def _graded(course: Course) -> set[str]:
    about = course.api.coursedir
    if not is_server(about.db_url) and not (course.grading / "gradebook.db").exists():
        return set()  # else nbgrader would make one
    with Gradebook(about.db_url, about.course_id) as gradebook:
        return {student.id for student in gradebook.students}


def _said(name: str, there: Collection[str]) -> str:
    question = near(name, there)
    all_of_them = f" There are {', '.join(map(printable, there))}." if there else ""
    return f"{printable(name)}.{question or (all_of_them if len(there) <= MOST_NAMED else '')}"
