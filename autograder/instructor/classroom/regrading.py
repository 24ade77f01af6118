"""`make regrade`: judge the kept evidence of a class again, without running student code."""

from collections.abc import Iterator
from typing import Final

from rich.console import Console

from autograder.instructor.classroom.choice import EVERYTHING, Choice
from autograder.instructor.classroom.class_facts import check_class_files
from autograder.instructor.classroom.grading import find_broken_submissions
from autograder.instructor.classroom.reporting import report
from autograder.instructor.classroom.stale_grades import (
    Bases,
    judge_again,
    read_evidence,
)
from autograder.instructor.classroom.workers import Pool, Workers, open_local_pool
from autograder.instructor.commands import printable
from autograder.instructor.course import Course
from autograder.instructor.pipeline import Records, UnreadableRecordError
from shardlings.documents import with_noun

NOTHING_GRADED: Final = "Nothing has been graded yet, so there is nothing to judge again."


def regrade_class(course: Course, console: Console, choice: Choice = EVERYTHING) -> int:
    """Judge the kept evidence again, enter the grades that changed, and report.

    Args:
        course: the course.
        console: where output is printed.
        choice: the submissions to regrade.

    Returns:
        The exit status: 1 if a submission could not be judged or read, else 0. A broken submission
        is a row in the table, and no failure.
    """
    with course.hold_lock():
        check_class_files(course)
        if not any(Records(course.records).all()):
            console.print(NOTHING_GRADED, highlight=False)
            return 0
        with open_local_pool(Workers().count_local_workers()) as pool:
            return _regrade_all(course, console, choice, pool)


def _regrade_all(course: Course, console: Console, choice: Choice, pool: Pool) -> int:
    bases = Bases(course)
    kept = [pair for pair in find_kept_evidence(course, console) if choice.has(*pair)]
    usable = [pair for pair in kept if not bases.has_other_plans(*pair)]
    changed, failed = 0, 0
    for judged in judge_again(course, bases, usable, pool):
        changed += judged.is_new
        if judged.why:
            failed += not judged.is_new
            sentence = f"{judged.student}, {judged.assignment}: {judged.why}"
            console.print(printable(sentence), markup=False)
    bases.read_again()
    broken = find_broken_submissions(course, bases)
    failures = report(course, console, bases, broken, choice)
    many = f"{with_noun(len(usable), 'submission')} {'was' if len(usable) == 1 else 'were'}"
    console.print(f"{many} judged again; {changed} {'has' if changed == 1 else 'have'} changed.")
    if failed:
        console.print(f"{failed} of them could not be judged, and keep their grades.")
    if len(kept) > len(usable):
        console.print(
            f"{len(kept) - len(usable)} were left as they were: their exercises now capture "
            f"something else, so make grade has to run them again."
        )
    return 1 if failed or not all(failure.is_broken for failure in failures) else 0


def find_kept_evidence(course: Course, console: Console) -> Iterator[tuple[str, str]]:
    """Yield each graded submission whose evidence can be read, and print why others cannot."""
    for student, assignment in Records(course.records).all():
        try:
            if read_evidence(course, student, assignment) is not None:
                yield student, assignment
        except UnreadableRecordError as error:
            sentence = f"{student}, {assignment} is not judged again: {error}"
            console.print(printable(sentence), markup=False)
