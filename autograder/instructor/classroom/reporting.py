"""Report on a class after grading: print the table and the failures, write CSVs and the report."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from autograder.instructor.classroom.attempts import (
    find_changed_scores,
    keep_attempts,
    move_damaged_attempts,
)
from autograder.instructor.classroom.choice import EVERYTHING, Choice
from autograder.instructor.classroom.class_facts import (
    ClassFacts,
    add_times,
    enter_roster_and_times,
    find_missing_submissions,
)
from autograder.instructor.classroom.class_files import renew_class_files
from autograder.instructor.classroom.counting import mark_left_out
from autograder.instructor.classroom.grade_tables import (
    LEFT_OUT_SIGN,
    LOOK_SIGN,
    STALE_SIGN,
    show_table,
)
from autograder.instructor.classroom.outdated_pages import renew_pages
from autograder.instructor.classroom.stale_grades import Bases, add_staleness
from autograder.instructor.classroom.submission_states import (
    Failure,
    StateRow,
    describe_failures,
    read_states,
)
from autograder.instructor.classroom.table_remarks import (
    describe_other_stale_grades,
    list_remarks,
)
from autograder.instructor.commands import printable
from autograder.instructor.course import Course
from autograder.instructor.gradebook import Mark
from autograder.instructor.pipeline import Records
from autograder.instructor.sandbox import NO_SANDBOX_WARNING, has_bubblewrap
from shardlings.documents import with_noun


def report(
    course: Course,
    console: Console,
    bases: Bases,
    failures: list[Failure],
    choice: Choice = EVERYTHING,
) -> list[Failure]:
    """Print the table and the failures, renew outdated pages, and write the CSVs and the report.

    Args:
        course: the course.
        console: where output is printed.
        bases: the bases of its grades.
        failures: the submissions that could not be graded.
        choice: the submissions to print; the CSVs and the report have all of them.

    Returns:
        The failures, and those of pages that could not be renewed.

    Raises:
        ClassError: one of the class's files cannot be understood.
    """
    facts = enter_roster_and_times(course)
    failed = {(failure.student, failure.assignment) for failure in failures}
    failures = [*failures, *renew_pages(course, console, failed, choice)]
    all_rows = _read_rows(course, bases, facts, failures)
    # before anything is printed: the output may be closed early, as `head` does
    written = renew_class_files(course, bases.records, all_rows, failures)
    rows = [row for row in all_rows if choice.has(row.student, row.assignment)]
    damage = move_damaged_attempts(course)
    changed = list(find_changed_scores(course, bases, rows))
    attempts = keep_attempts(course, bases, rows)
    remarks = list(
        list_remarks(course, bases, facts, rows, choice=choice, attempts=attempts, changed=changed)
    )
    if damage:
        console.print(damage, markup=False, highlight=False)
    if not has_bubblewrap():
        console.print(NO_SANDBOX_WARNING, style="bold yellow")
    _print_tables(console, rows)
    for remark in remarks:
        console.print(Text(printable(remark)))
    others = [row for row in all_rows if not choice.has(row.student, row.assignment)]
    if remark := describe_other_stale_grades(others):
        console.print(remark, markup=False, highlight=False)
    for sentence, about in describe_failures(
        [f for f in failures if choice.has(f.student, f.assignment)]
    ):
        console.print(Text(sentence))
        if about:
            console.print(Padding(Text(about), (0, 0, 0, 4), expand=False))
    for note in _find_notes(bases.records, rows):
        console.print(Text(printable(note)))
    for sentence in course.find_misplaced_files(choice.student):
        console.print(sentence, markup=False)
    console.print(
        f"Feedback pages: {_path_to_type(course, course.feedback)}/<student>/<assignment>/"
    )
    for title, path in written:
        console.print(f"{title}: {_path_to_type(course, path)}")
    return failures


def _read_rows(
    course: Course, bases: Bases, facts: ClassFacts, failures: Sequence[Failure]
) -> list[StateRow]:
    """Read the state of every submission, also of those that are missing, in the table's order."""
    rows = list(add_staleness(bases, add_times(facts, read_states(course, failures))))
    closed = course.find_closed_students()
    rows += find_missing_submissions(facts, rows, datetime.now(UTC), closed)
    rows = mark_left_out(facts.times.rules, rows)
    return sorted(rows, key=lambda row: (row.assignment, row.student))


def _print_tables(console: Console, rows: Sequence[StateRow]) -> None:
    """Print a table for each assignment, and explain the signs in them."""
    for assignment in dict.fromkeys(row.assignment for row in rows):
        console.print()
        show_table(console, assignment, [row for row in rows if row.assignment == assignment])
    console.print()
    if any(row.needs_a_look for row in rows):
        console.print(f"{LOOK_SIGN} is where a cell needs manual grading: see Formgrader.")
    if any(row.out_of_date for row in rows):
        console.print(f"{STALE_SIGN} is where a grade is out of date, for a reason below.")
    if any(row.is_graded and row.left_out for row in rows):
        console.print(f"{LEFT_OUT_SIGN} is where a score does not count in the student's total.")


def _find_notes(records: Records, rows: Sequence[StateRow]) -> Iterator[str]:
    """Yield what grading noted about each graded submission, and manual scores from before it."""
    for row in rows:
        if not row.is_graded:
            continue
        summary = records.summary(row.student, row.assignment)
        for note in summary.notes if summary is not None else ():
            yield f"{row.student}, {row.assignment}: {note}"
        for name, mark in row.marks.items():
            if mark.has_older_manual_score:
                yield f"{row.student}, {row.assignment}: {name} {_describe_kept_mark(mark)}"


def _describe_kept_mark(mark: Mark) -> str:
    """Describe a manual score or extra credit that is older than the automatic score."""
    if mark.manual_score is None:
        return (
            f"has extra credit of {mark.extra_credit:g}, from before it was last graded. It counts "
            f"until somebody looks at it."
        )
    given = (
        f"has {with_noun(mark.manual_score, 'point')} by hand, from before it was last graded. "
        f"That counts, of now {mark.points:g}, until somebody looks at it"
    )
    if mark.auto_score is None:
        return f"{given}."
    better = ", which is more" if mark.auto_score > (mark.manual_score or 0) else ""
    return f"{given}; without it, there would be {mark.auto_score:g} now{better}."


def _path_to_type(course: Course, path: Path) -> Path:
    """Return a path relative to the working directory, or else to the course."""
    here = Path.cwd()
    return path.relative_to(here if path.is_relative_to(here) else course.root)
