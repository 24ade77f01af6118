"""Find feedback pages that show other grades than the gradebook has, and make them again."""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC
from typing import Final

from rich.console import Console

from autograder.instructor.classroom.choice import EVERYTHING, Choice
from autograder.instructor.classroom.submission_states import Failure
from autograder.instructor.commands import list_some, printable
from autograder.instructor.course import Course, read_class_file
from autograder.instructor.gradebook import fingerprint_shown_grades
from autograder.instructor.pages import read_shown_grades
from autograder.instructor.pipeline import Records

MAX_NAMED_PAGES: Final = 20


def find_outdated_pages(
    course: Course, submissions: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Find submissions whose page shows other scores, comments or times than the gradebook has.

    Raises:
        ClassError: the class's file, which has the time zone, cannot be understood.
    """
    rules = read_class_file(course.grading, course.assignments())
    zone = str(rules.zone or UTC)
    with course.open_gradebook() as gradebook:
        for assignment in dict.fromkeys(assignment for _, assignment in submissions):
            grades = fingerprint_shown_grades(
                gradebook, assignment, zone, notes=rules.describe_counting
            )
            for student in (s for s, a in submissions if a == assignment):
                page = course.feedback / student / assignment / f"{assignment}.html"
                if student in grades and read_shown_grades(page) != grades[student]:
                    yield student, assignment


def renew_pages(
    course: Course,
    console: Console,
    skipped: Collection[tuple[str, str]] = (),
    choice: Choice = EVERYTHING,
) -> list[Failure]:
    """Make outdated feedback pages again, and print whose.

    Args:
        course: the course.
        console: where output is printed.
        skipped: submissions to skip; their page says that they could not be graded.
        choice: the submissions whose pages are renewed.

    Returns:
        The pages that could not be made.
    """
    renewed, failures = [], []
    submissions = [pair for pair in choice.select(course.submissions()) if pair not in skipped]
    records = Records(course.records)
    for student, assignment in list(find_outdated_pages(course, submissions)):
        if records.was_broken(student, assignment):  # its page says so until it is graded
            continue
        if not course.has_graded_notebook(student, assignment):
            continue
        if why := course.make_feedback_page(student, assignment):
            why = f"no new feedback page. {why}"
            failures.append(Failure(student, assignment, why, is_broken=False, was_graded=True))
        else:
            renewed.append(f"{student} ({assignment})")
    if renewed:
        names = list_some(renewed, MAX_NAMED_PAGES)
        console.print(
            printable(f"Renewed feedback pages: {names}."),
            markup=False,
            highlight=False,
        )
    return failures
