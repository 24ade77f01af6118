"""Limit a command to an assignment or a student, whose names must exist."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from autograder.instructor.classroom.roster import read_roster
from autograder.instructor.commands import printable, suggest_names
from autograder.instructor.course import Course, compose_name, read_withdrawn
from autograder.instructor.gradebook import gradebook_file, is_server
from shardlings.errors import ShortError

MAX_NAMED: Final = 12
"""The most known names that are listed if none is similar."""


class UnknownNameError(ShortError, LookupError):
    """There is no such assignment or student; the message names similar ones."""


@dataclass(frozen=True)
class Choice:
    """The submissions that a command was asked for.

    Attributes:
        assignment: the only assignment; empty for all.
        student: the only student; empty for all.
    """

    assignment: str = ""
    student: str = ""

    def has(self, student: str, assignment: str) -> bool:
        """Check whether a submission is chosen."""
        return self.student in ("", student) and self.assignment in ("", assignment)

    def select(self, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the chosen ones of pairs of a student and an assignment."""
        return [pair for pair in pairs if self.has(*pair)]


EVERYTHING: Final = Choice()


def choose(course: Course, assignment: str = "", student: str = "") -> Choice:
    """Make a choice, once it is known that the assignment and the student exist.

    Raises:
        UnknownNameError: one of them does not exist.
        RosterError: the roster cannot be understood.
    """
    if assignment and assignment not in (known := course.assignments()):
        raise UnknownNameError(
            course.explain_misnamed(assignment)
            or f"There is no assignment {add_suggestion(assignment, known)}"
        )
    if student and compose_name(student) in read_withdrawn(course.grading):
        raise UnknownNameError(
            f"{printable(student)} has withdrawn. BACK=1 takes that back: "
            f"make withdraw STUDENT={printable(student)} BACK=1."
        )
    if student and student not in (known := _students(course)):
        spelled_otherwise = [name for name in known if compose_name(name) == compose_name(student)]
        if spelled_otherwise:
            return Choice(assignment, spelled_otherwise[0])
        if not known:
            raise UnknownNameError(
                f"There is no student {printable(student)}: nobody has handed in, and there is no "
                f"grading/roster.csv."
            )
        raise UnknownNameError(f"There is no student {add_suggestion(student, known)}")
    return Choice(assignment, student)


def _students(course: Course) -> list[str]:
    """Return the ids of all who have submitted, are in the roster, or have a grade."""
    submitted = {student for student, _ in course.submissions()}
    submitted |= {folder.parent.name for folder in course.submitted.glob("*/*") if folder.is_dir()}
    in_roster = {person.id for person in read_roster(course)}
    return sorted(submitted | in_roster | _students_in_gradebook(course))


def _students_in_gradebook(course: Course) -> set[str]:
    url = course.api.coursedir.db_url
    if not is_server(url) and not gradebook_file(url).exists():
        return set()  # opening the gradebook would create one
    if course.find_trouble():  # reported by the command itself
        return set()
    with course.open_gradebook() as gradebook:
        return {student.id for student in gradebook.students}


def add_suggestion(name: str, known: Collection[str]) -> str:
    """Return an unknown name, with a question or a sentence about the known ones."""
    question = suggest_names(name, known)
    all_names = f" There are {', '.join(map(printable, known))}." if known else ""
    return f"{printable(name)}.{question or (all_names if len(known) <= MAX_NAMED else '')}"
