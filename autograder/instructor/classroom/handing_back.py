"""`make feedback` and `make report`: make pages again without grading, release them, and report."""

import warnings
from collections.abc import Iterator

from rich.console import Console

from autograder.instructor.classroom.grading import NOTHING_HANDED_IN, find_broken_submissions
from autograder.instructor.classroom.rebuilding import convert_earlier_records
from autograder.instructor.classroom.reporting import report
from autograder.instructor.classroom.roster import EVERYTHING, Choice, enter_people, read_roster
from autograder.instructor.course import Course, printable, reason
from autograder.instructor.nbgrader_plugins import cannot_fetch, no_exchange


def report_class(
    course: Course, console: Console, choice: Choice = EVERYTHING, best_first: bool = False
) -> int:
    """Show a class as it stands, and write its CSVs and its report; nothing is graded.

    Args:
        course: where.
        console: what to write on.
        choice: what is shown.
        best_first: whether tables are sorted by totals, and not by students.

    Returns:
        The exit status: 0, or 1 where a page could not be renewed.

    Raises:
        ClassError: what is written of the class cannot be understood.
    """
    with course.alone():
        if not any(course.submitted.glob("[!.]*")) and not read_roster(course):
            console.print(NOTHING_HANDED_IN, markup=False, highlight=False)
            return 0
        convert_earlier_records(course, console)
        failures = report(course, console, find_broken_submissions(course), choice, best_first)
    return 0 if all(failure.theirs for failure in failures) else 1


def hand_back(
    course: Course, console: Console, choice: Choice = EVERYTHING, release: bool = False
) -> int:
    """Make the feedback pages of what has been graded again; nothing is graded.

    Args:
        course: where.
        console: what to write on.
        choice: of which submissions.
        release: whether to put them where the students' `nbgrader fetch_feedback` finds them.

    Returns:
        The exit status: 0, or 1 where a page could not be made or released.

    Raises:
        RosterError: the roster cannot be understood.
    """
    with course.alone():
        convert_earlier_records(course, console)
        enter_people(course)
        unusable = {
            (failure.student, failure.assignment) for failure in find_broken_submissions(course)
        }
        graded = [pair for pair in _graded(course) if choice.has(*pair) and pair not in unusable]
        wrong = [why for pair in graded if (why := _not_made(course, *pair))]
        released = 0
        if release:
            released, why_not = _released(course, graded, choice)
            wrong += why_not
    for why in wrong:
        console.print(printable(why), markup=False, highlight=False)
    console.print(_said(course, len(graded), released), highlight=False)
    return 1 if wrong else 0


def _said(course: Course, pages: int, released: int) -> str:
    if not pages:
        return "Nothing of that has been graded yet, so there are no feedback pages."
    stand = "1 feedback page stands" if pages == 1 else f"{pages} feedback pages stand"
    where = f"{course.feedback.relative_to(course.root)}/<student>/<assignment>/"
    how_many = "" if released == pages else f"{released} of them "
    return f"{stand} in {where}{f', and {how_many}in the exchange' if released else ''}."


def _graded(course: Course) -> Iterator[tuple[str, str]]:
    for student, assignment in course.submissions():
        if (course.autograded / student / assignment / f"{assignment}.ipynb").exists():
            yield student, assignment


def _not_made(course: Course, student: str, assignment: str) -> str:
    done = course.api.generate_feedback(assignment, student, force=True)
    return "" if done["success"] else f"{student}, {assignment}: no feedback page. {reason(done)}"


def _released(
    course: Course, graded: list[tuple[str, str]], choice: Choice
) -> tuple[int, list[str]]:
    """Release pages by nbgrader's own command, an assignment at a time.

    Returns:
        How many are in the exchange then, and what keeps the others from it, in sentences.
    """
    if why := no_exchange(course):
        return 0, [f"Nothing is in the exchange. {why}"]
    count, wrong = 0, []
    for assignment in sorted({assignment for _, assignment in graded}):
        with warnings.catch_warnings():  # nbgrader misspells one of its own arguments
            warnings.simplefilter("ignore", DeprecationWarning)
            done = course.api.release_feedback(assignment, choice.student or None)
        if not done["success"]:
            wrong.append(f"{assignment} is not in the exchange. {reason(done)}")
            continue
        left = cannot_fetch(course, assignment, choice.student or "*")
        count += sum(of == assignment and student not in left for student, of in graded)
        if left:
            wrong.append(
                f"{assignment}: the pages of {', '.join(left)} are not in the exchange, because "
                f"what they handed in did not come through it, so they could not fetch them there."
            )
    return count, wrong
