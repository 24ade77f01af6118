"""Feedback pages that no longer show what the gradebook has, as after somebody graded by hand."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from nbgrader.api import Gradebook
from rich.console import Console

from autograder.instructor.classroom.choice import EVERYTHING, Choice
from autograder.instructor.classroom.ungraded import Failure
from autograder.instructor.course import Course, printable, reason, zone_of
from autograder.instructor.gradebook import shown_grades
from autograder.instructor.pages import shown_by

MOST_NAMED: Final = 20
"""How many pages a sentence names."""


def outdated_pages(
    course: Course, submissions: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Those submissions whose page shows other scores, comments or times than the gradebook has.

    Raises:
        ClassError: the class's file, which says in which zone times are, cannot be understood.
    """
    about, zone = course.api.coursedir, str(zone_of(course.grading, course.assignments()))
    with Gradebook(about.db_url, about.course_id) as gradebook:
        for assignment in dict.fromkeys(assignment for _, assignment in submissions):
            now = shown_grades(gradebook, assignment, zone)
            for student in (s for s, a in submissions if a == assignment):
                page = course.feedback / student / assignment / f"{assignment}.html"
                if student in now and shown_by(page) != now[student]:
                    yield student, assignment


def renew_pages(
    course: Course,
    console: Console,
    without: Collection[tuple[str, str]] = (),
    choice: Choice = EVERYTHING,
) -> list[Failure]:
    """Make such pages anew, and say whose; those that could not be made.

    Args:
        course: where.
        console: what to write on.
        without: submissions whose page says that they could not be graded.
        choice: of whom, and of what.
    """
    renewed, failures = [], []
    submissions = [pair for pair in choice.of(course.submissions()) if pair not in without]
    for student, assignment in list(outdated_pages(course, submissions)):
        if not (course.autograded / student / assignment / f"{assignment}.ipynb").exists():
            continue
        done = course.api.generate_feedback(assignment, student, force=True)
        if done["success"]:
            renewed.append(f"{student} ({assignment})")
        else:
            why = f"no new feedback page. {reason(done)}"
            failures.append(Failure(student, assignment, why, theirs=False, was_graded=True))
    if renewed:
        more = len(renewed) - MOST_NAMED
        said = ", ".join(renewed[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        console.print(
            printable(
                f"Feedback pages that did not show what the gradebook has by now are new: {said}."
            ),
            markup=False,
            highlight=False,
        )
    return failures
