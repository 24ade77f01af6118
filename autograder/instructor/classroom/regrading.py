"""`make regrade`: judge a class's kept evidence again, without running anybody's code again."""

from collections.abc import Iterator
from typing import Final

from rich.console import Console

from autograder.instructor.classroom.grading import find_broken_submissions
from autograder.instructor.classroom.rebuilding import convert_earlier_records
from autograder.instructor.classroom.reporting import report
from autograder.instructor.classroom.roster import EVERYTHING, Choice, check_class_files
from autograder.instructor.classroom.stale_grades import (
    Bases,
    GradedSubmission,
    judge_again,
    read_evidence,
)
from autograder.instructor.course import Course, printable
from autograder.instructor.pipeline import Records, UnreadableRecordError

NOTHING_GRADED: Final = "Nothing has been graded yet, so there is nothing to judge again."


def regrade_class(course: Course, console: Console, choice: Choice = EVERYTHING) -> int:
    """Judge kept evidence anew, and write what has changed.

    Args:
        course: where.
        console: what to write on.
        choice: of which submissions.

    Returns:
        The exit status: 0, or 1 where a submission could not be judged or looked at. One that is
        broken is a row in the table, and no failure.
    """
    with course.alone():
        check_class_files(course)
        convert_earlier_records(course, console)
        if not any(Records(course.records).all()):
            console.print(NOTHING_GRADED, highlight=False)
            return 0
        return _regrade_all(course, console, choice)


def _regrade_all(course: Course, console: Console, choice: Choice) -> int:
    bases = Bases(course)
    found = [
        one
        for one in read_kept_evidence(course, console)
        if choice.has(one.student, one.assignment)
    ]
    graded = [one for one in found if not bases.asked_otherwise(one.student, one.assignment)]
    changed, failed = 0, 0
    for again in judge_again(course, bases, graded):
        changed += again.is_new
        if again.why:
            one = again.graded
            failed += not again.is_new
            console.print(printable(f"{one.student}, {one.assignment}: {again.why}"), markup=False)
    unusable = find_broken_submissions(course)
    unusable = report(course, console, unusable, choice)
    many = "1 submission was" if len(graded) == 1 else f"{len(graded)} submissions were"
    console.print(f"{many} judged again; {changed} {'has' if changed == 1 else 'have'} changed.")
    if failed:
        console.print(f"{failed} of them could not be judged, and are as they were.")
    if len(found) > len(graded):
        console.print(
            f"{len(found) - len(graded)} are as they were, because their exercises look at "
            f"something else now than was kept of them: make grade runs them again."
        )
    return 1 if failed or not all(failure.theirs for failure in unusable) else 0


def read_kept_evidence(course: Course, console: Console) -> Iterator[GradedSubmission]:
    """Every graded submission whose evidence can be read."""
    for student, assignment in Records(course.records).all():
        try:
            found = read_evidence(course, student, assignment)
            if found is not None:
                yield found
        except UnreadableRecordError as error:
            said = f"{student}, {assignment} is not judged again: {error}"
            console.print(printable(said), markup=False)
