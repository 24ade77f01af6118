"""Grade a class: run, judge, write feedback, and show the gradebook as a table."""

import functools
import html
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from autograder.instructor import walls
from autograder.instructor.calibration import CalibrationError, calibrate, fingerprint
from autograder.instructor.classroom import demonstration_class, grade_csvs, grade_table
from autograder.instructor.classroom.progress_bar import following
from autograder.instructor.classroom.submission_states import standing
from autograder.instructor.classroom.ungraded import Failure, told
from autograder.instructor.course import (
    Course,
    cannot_be_read,
    cannot_be_taken,
    printable,
    readable,
    reason,
)
from autograder.instructor.nbgrader_plugins import kept_notes


def grade_class(
    course: Course, console: Console, again: bool = False, whole_demonstration: bool = False
) -> int:
    """Release the notebooks, grade what is new in `grading/submitted/`, and report.

    Args:
        course: where.
        console: what to write on.
        again: grade what has been graded, too.
        whole_demonstration: where nothing was handed in, make a class over all notebooks.

    Returns:
        The exit status: 0, or 1 where grading itself failed. A broken submission is a row in the
        table, and no failure.
    """
    with course.alone():
        _make_ready(course, console, whole_demonstration)
        failures = list(_grade_all(course, console, again))
        for failure in failures:
            if failure.theirs:
                _tell(course, failure)
        report(course, console, failures)
    return 0 if all(failure.theirs for failure in failures) else 1


def _make_ready(course: Course, console: Console, whole_demonstration: bool) -> None:
    """Release what was handed in; where nothing was, hand in a demonstration class.

    Raises:
        ReleaseError: a notebook cannot be made.
    """
    if any(course.submitted.glob("*")):  # somebody's class, which is never mixed with a made-up one
        _release(course, console, sorted({assignment for _, assignment in course.submissions()}))
        if whole_demonstration:
            console.print(demonstration_class.NOT_AMONG_OTHERS, highlight=False)
        return
    assignments = demonstration_class.assignments(course, whole_demonstration)
    _release(course, console, assignments)
    demonstration_class.fill(course, assignments)
    console.print(demonstration_class.announced(assignments), highlight=False)


def _release(course: Course, console: Console, assignments: Sequence[str]) -> None:
    with closing(following(console, "Making", assignments, str)) as each:
        for assignment in each:
            course.release(assignment)


def _grade_all(course: Course, console: Console, again: bool) -> Iterator[Failure]:
    """Grade what is to be graded; whatever cannot be."""

    @functools.cache  # what fails is tried again the next time, and not for each student
    def refusal(assignment: str) -> str:
        return _refusal(course, console, assignment)

    def failure(student: str, assignment: str) -> Failure | None:
        found = _broken(course, student, assignment)
        if found is not None or not (again or _is_new(course, student, assignment)):
            return found
        why = refusal(assignment)
        if why:
            return Failure(student, assignment, why, theirs=False)
        return _grade(course, student, assignment)

    with closing(following(console, "Grading", course.submissions(), ", ".join)) as each:
        yield from _failures(each, failure)


def _failures(
    submissions: Iterable[tuple[str, str]], failure: Callable[[str, str], Failure | None]
) -> Iterator[Failure]:
    """What is found of submissions; one of which an error comes up costs no other."""
    for student, assignment in submissions:
        try:
            found = failure(student, assignment)
        except Exception as error:
            why = f"grading failed. {type(error).__name__}: {error}"
            found = Failure(student, assignment, why, theirs=False)
        if found is not None:
            yield found


def _refusal(course: Course, console: Console, assignment: str) -> str:
    """Why nothing of an assignment is to be graded here; empty where all is well."""

    def announce() -> None:
        console.print(f"Grading the course's own {assignment} first: does it get what it should?")

    try:
        calibrate(course.api.coursedir, course.api.config, assignment, announce)
    except CalibrationError as error:
        return str(error)
    return ""


def _tell(course: Course, failure: Failure) -> None:
    """A feedback page for what could not be graded, where the student looks for one."""
    folder = course.feedback / failure.student / failure.assignment
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{failure.assignment}.html"
    if page.is_dir():  # an earlier version copied folders of any name
        shutil.rmtree(page)
    page.unlink(missing_ok=True)  # nbgrader leaves it read-only
    why = f"{failure.why[:1].upper()}{failure.why[1:]}"
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{failure.assignment}</title>'
        f"<h1>{failure.assignment} could not be graded</h1><p>{html.escape(why)}</p></html>",
        encoding="utf-8",
        errors="backslashreplace",
    )


def broken(course: Course) -> list[Failure]:
    """The submissions whose files cannot be graded."""
    return list(_failures(course.submissions(), functools.partial(_broken, course)))


def report(course: Course, console: Console, failures: list[Failure]) -> None:
    """Show the gradebook, say what failed, and write the CSVs."""
    if not walls.works():
        console.print(walls.UNPROTECTED, style="bold yellow")
    rows = standing(course, failures)
    for assignment in dict.fromkeys(row.assignment for row in rows):
        console.print()
        grade_table.show(console, assignment, [row for row in rows if row.assignment == assignment])
    console.print()
    for sentence, about in told(failures):
        console.print(Text(sentence))
        if about:
            console.print(Padding(Text(about), (0, 0, 0, 4), expand=False))
    for row in rows:
        for note in kept_notes(course.autograded / row.student / row.assignment, row.assignment):
            if row.graded:
                console.print(Text(printable(f"{row.student}, {row.assignment}: {note}")))
    for folder in course.unknown_submissions():
        where = printable(str(folder.relative_to(course.root)))
        console.print(
            f"{where} was left alone: there is no assignment of that name. There are "
            f"{', '.join(course.assignments())}.",
            markup=False,
        )
    for folder in course.closed_folders():
        where = printable(str(folder.relative_to(course.root)))
        console.print(f"{where} was left alone: whoever grades may not look into it.", markup=False)
    grade_csvs.write(course.grading, rows)
    console.print(f"Feedback pages: {_shown(course, course.feedback)}/<student>/<assignment>/")
    console.print(f"Grades: {_shown(course, course.grading / 'grades.csv')}")
    console.print(f"Grades by exercise: {_shown(course, course.grading / 'exercises.csv')}")


def _shown(course: Course, path: Path) -> Path:
    return path.relative_to(course.root)


def _grade(course: Course, student: str, assignment: str) -> Failure | None:
    """Grade one submission, and remember what was graded; what went wrong, if anything did."""
    if any(character in student for character in "*?[]") or readable(student) != student:
        why = (
            "nbgrader cannot grade a folder whose name has *, ?, [ or ] in it, or is not UTF-8. "
            "Rename it."
        )
        return Failure(student, assignment, why, theirs=True)
    done = course.api.autograde(assignment, student, force=True, create=True)
    if not done["success"]:
        return Failure(student, assignment, f"grading failed. {reason(done)}", theirs=False)
    feedback = course.api.generate_feedback(assignment, student, force=True)
    if not feedback["success"]:
        return Failure(student, assignment, f"no feedback page. {reason(feedback)}", theirs=False)
    course.remember(student, assignment, _fingerprint(course, student, assignment))
    return None


def _is_new(course: Course, student: str, assignment: str) -> bool:
    """Whether this is not the submission that was last graded, or its results are gone."""
    places = (course.autograded / student / assignment, course.feedback / student / assignment)
    there = (places[0] / f"{assignment}.ipynb").exists() and (
        places[1] / f"{assignment}.html"
    ).exists()
    fingerprint = _fingerprint(course, student, assignment)
    return not there or course.remembered(student, assignment) != fingerprint


def _fingerprint(course: Course, student: str, assignment: str) -> str:
    """What was handed in, in a few letters."""
    folder = course.submitted / student / assignment
    return fingerprint.of_files((p for p in folder.rglob("*") if p.is_file()), folder)


def _broken(course: Course, student: str, assignment: str) -> Failure | None:
    """What is wrong with a submission's files themselves, if anything.

    What was graded as it is could be read then, and is not read again.
    """
    folder = course.submitted / student / assignment
    why = cannot_be_taken(folder, assignment)
    if not why and _is_new(course, student, assignment):
        why = cannot_be_read(folder / f"{assignment}.ipynb", course.api.config)
    return Failure(student, assignment, why, theirs=True) if why else None
