"""`make feedback` and `make report`: make pages again without grading, release them, and report."""

import warnings
from collections.abc import Iterator

from rich.console import Console

from autograder.instructor.classroom.choice import EVERYTHING, Choice
from autograder.instructor.classroom.class_facts import enter_people
from autograder.instructor.classroom.grading import NOTHING_HANDED_IN, find_broken_submissions
from autograder.instructor.classroom.reporting import report
from autograder.instructor.classroom.roster import read_roster
from autograder.instructor.classroom.stale_grades import Bases
from autograder.instructor.commands import printable
from autograder.instructor.course import Course, find_first_exception
from autograder.instructor.nbgrader_plugins import (
    explain_missing_exchange,
    list_unreleased_students,
)


def report_class(course: Course, console: Console, choice: Choice = EVERYTHING) -> int:
    """Print a class's table, and write its CSVs and its report, without grading anything.

    Args:
        course: the course.
        console: where output is printed.
        choice: the submissions to print.

    Returns:
        The exit status: 1 if a page could not be renewed, else 0.

    Raises:
        ClassError: one of the class's files cannot be understood.
    """
    with course.hold_lock():
        if not course.has_submitted_files() and not read_roster(course):
            console.print(NOTHING_HANDED_IN, markup=False, highlight=False)
            return 0
        bases = Bases(course)
        broken = find_broken_submissions(course, bases)
        failures = report(course, console, bases, broken, choice)
    return 0 if all(failure.is_broken for failure in failures) else 1


def renew_feedback(
    course: Course, console: Console, choice: Choice = EVERYTHING, release: bool = False
) -> int:
    """Make the feedback pages of graded submissions again, without grading anything.

    Args:
        course: the course.
        console: where output is printed.
        choice: the submissions whose pages are made.
        release: whether to put them where the students' `nbgrader fetch_feedback` finds them.

    Returns:
        The exit status: 1 if a page could not be made or released, else 0.

    Raises:
        RosterError: the roster cannot be understood.
    """
    with course.hold_lock():
        enter_people(course)
        unusable = {
            (failure.student, failure.assignment)
            for failure in find_broken_submissions(course, Bases(course))
        }
        graded = [
            pair for pair in _list_graded(course) if choice.has(*pair) and pair not in unusable
        ]
        errors = [
            f"{student}, {assignment}: no feedback page. {why}"
            for student, assignment in graded
            if (why := course.make_feedback_page(student, assignment))
        ]
        released = 0
        if release:
            released, release_errors = _release_pages(course, graded, choice)
            errors += release_errors
    for error in errors:
        console.print(printable(error), markup=False, highlight=False)
    console.print(_summarize(course, len(graded), released), highlight=False)
    return 1 if errors else 0


def _summarize(course: Course, pages: int, released: int) -> str:
    if not pages:
        return "Nothing of that has been graded yet, so there are no feedback pages."
    stand = "1 feedback page stands" if pages == 1 else f"{pages} feedback pages stand"
    where = f"{course.feedback.relative_to(course.root)}/<student>/<assignment>/"
    how_many = "" if released == pages else f"{released} of them "
    return f"{stand} in {where}{f', and {how_many}in the exchange' if released else ''}."


def _list_graded(course: Course) -> Iterator[tuple[str, str]]:
    for student, assignment in course.submissions():
        if course.has_graded_notebook(student, assignment):
            yield student, assignment


def _release_pages(
    course: Course, graded: list[tuple[str, str]], choice: Choice
) -> tuple[int, list[str]]:
    """Release pages with nbgrader's own command, one assignment at a time.

    Returns:
        The number of pages in the exchange, and a sentence for each reason why others are not.
    """
    if why := explain_missing_exchange(course):
        return 0, [f"Nothing is in the exchange. {why}"]
    count, errors = 0, []
    for assignment in sorted({assignment for _, assignment in graded}):
        with warnings.catch_warnings():  # nbgrader misspells one of its own arguments
            warnings.simplefilter("ignore", DeprecationWarning)
            done = course.api.release_feedback(assignment, choice.student or None)
        if not done["success"]:
            errors.append(f"{assignment} is not in the exchange. {find_first_exception(done)}")
            continue
        cannot = list_unreleased_students(course, assignment, choice.student or "*")
        count += sum(each == assignment and student not in cannot for student, each in graded)
        if cannot:
            errors.append(
                f"{assignment}: the pages of {', '.join(cannot)} are not in the exchange, because "
                f"what they handed in did not come through it, so they could not fetch them there."
            )
    return count, errors
