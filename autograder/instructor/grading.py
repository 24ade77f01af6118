"""Grade a class: run, judge, write feedback, and show the gradebook as a table."""

import csv
import hashlib
import html
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from autograder.exercises import NOTEBOOKS
from autograder.instructor import demonstration, sandbox
from autograder.instructor.course import Course, reason
from autograder.instructor.handed_in import readable, why_not


@dataclass(frozen=True)
class Failure:
    """A submission that has no grade.

    Attributes:
        why: in a sentence.
        theirs: whether it is the submission that is broken, and not the grading.
    """

    student: str
    assignment: str
    why: str
    theirs: bool


@dataclass(frozen=True)
class Row:
    """How one submission stands: `graded`, `broken` or `failed`, and score and points by exercise.

    A submission that has no grade of its own has no scores, whatever an earlier one earned.
    """

    student: str
    assignment: str
    state: str
    scores: dict[str, tuple[float, float]]


def grade_class(course: Course, console: Console, again: bool = False) -> int:
    """Release the notebooks, grade what is new in `grading/submitted/`, and report.

    Args:
        course: where.
        console: what to write on.
        again: grade what has been graded, too.

    Returns:
        The exit status: 0, or 1 where grading itself failed. A broken submission is a row in the
        table, and no failure.
    """
    with course.alone():
        failures = list(_grade_all(course, console, again))
        for failure in failures:
            if failure.theirs:
                _tell(course, failure)
        report(course, console, failures)
    return 0 if all(failure.theirs for failure in failures) else 1


def _grade_all(course: Course, console: Console, again: bool) -> Iterator[Failure]:
    """Grade what is to be graded; whatever cannot be."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as bar:
        assignments = course.assignments()
        for assignment in bar.track(assignments, description="Making the notebooks"):
            course.release(assignment)
        if not any(course.submitted.glob("*")):
            demonstration.fill(course)
            console.print("No submissions yet: grading a demonstration class of five.")
        task = bar.add_task("Grading", total=len(course.submissions()))
        for student, assignment in course.submissions():
            about = readable(f"Grading {student}, {assignment}")
            bar.update(task, description=escape(about))
            try:
                failure = _broken(course, student, assignment)
                if failure is None and (again or _is_new(course, student, assignment)):
                    failure = _grade(course, student, assignment)
            except Exception as error:  # one submission's failure is its own
                why = f"grading failed. {type(error).__name__}: {error}"
                failure = Failure(student, assignment, why, theirs=False)
            if failure is not None:
                yield failure
            bar.advance(task)
        bar.update(task, description="Grading")


def _tell(course: Course, failure: Failure) -> None:
    """A feedback page for what could not be graded, where the student looks for one."""
    folder = course.feedback / failure.student / failure.assignment
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{failure.assignment}.html"
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
    found = (_broken(course, *submission) for submission in course.submissions())
    return [failure for failure in found if failure is not None]


def report(course: Course, console: Console, failures: list[Failure]) -> None:
    """Show the gradebook, say what failed, and write the CSVs."""
    if not sandbox.works():
        console.print(sandbox.UNPROTECTED, style="bold yellow")
    with Gradebook(course.api.coursedir.db_url, "shardlings") as gradebook:
        rows = list(_rows(course, gradebook, failures))
    for assignment in dict.fromkeys(row.assignment for row in rows):
        console.print(_table(assignment, [row for row in rows if row.assignment == assignment]))
    for failure in failures:
        about = f"{failure.student}, {failure.assignment}: {failure.why}"
        console.print(readable(about), markup=False)
    for folder in course.unknown_submissions():
        where = readable(str(folder.relative_to(course.root)))
        console.print(
            f"{where} was left alone: there is no assignment of that name. There are "
            f"{', '.join(course.assignments())}.",
            markup=False,
        )
    _write(course, rows)
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
    """What was handed in, in a few letters; times of files are not to be trusted."""
    folder = course.submitted / student / assignment
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(folder)}\0".encode(errors="surrogateescape"))
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _broken(course: Course, student: str, assignment: str) -> Failure | None:
    """What is wrong with a submission's files themselves, if anything."""
    why = why_not(course.submitted / student / assignment, assignment)
    return Failure(student, assignment, why, theirs=True) if why else None


def _rows(course: Course, gradebook: Gradebook, failures: list[Failure]) -> Iterator[Row]:
    failed = {(f.student, f.assignment): f for f in failures}
    for student, assignment in sorted(course.submissions(), key=lambda pair: pair[::-1]):
        failure = failed.get((student, assignment))
        if failure is not None:
            yield Row(readable(student), assignment, "broken" if failure.theirs else "failed", {})
            continue
        try:
            submission = gradebook.find_submission_notebook(assignment, assignment, student)
        except MissingEntry:
            continue
        grades = {g.name: (g.score or 0.0, g.max_score) for g in submission.grades}
        exercises = NOTEBOOKS.get(assignment, ())
        scores = {e.id: grades[e.grade_id] for e in exercises if e.grade_id in grades}
        yield Row(student, assignment, "graded", scores)


def _total(row: Row) -> tuple[float, float]:
    return sum(s for s, _ in row.scores.values()), sum(p for _, p in row.scores.values())


def _table(assignment: str, rows: list[Row]) -> Table:
    """The gradebook of one assignment: students × exercises."""
    exercises = [e.id for e in NOTEBOOKS.get(assignment, ())]
    table = Table(title=assignment, box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("student", overflow="ellipsis", no_wrap=True)
    for exercise in exercises:
        table.add_column(exercise, justify="right", no_wrap=True, min_width=3)
    table.add_column("total", justify="right", no_wrap=True, min_width=6)
    for row in rows:
        cells = ["–"] * len(exercises)
        total = row.state
        if row.state == "graded":
            pairs = [row.scores.get(e, (0.0, 0.0)) for e in exercises]
            cells = [f"{score:g}/{points:g}" for score, points in pairs]
            total = "{:g}/{:g}".format(*_total(row))
        table.add_row(escape(row.student), *cells, total)
    return table


def _write(course: Course, rows: list[Row]) -> None:
    """Two CSVs: a line for each submission, and a line for each exercise of each."""
    with (course.grading / "grades.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["student", "assignment", "state", "score", "points"])
        for row in rows:
            total = _total(row) if row.state == "graded" else ("", "")
            writer.writerow([row.student, row.assignment, row.state, *total])
    with (course.grading / "exercises.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["student", "assignment", "exercise", "score", "points"])
        for row in rows:
            for exercise, (score, points) in row.scores.items():
                writer.writerow([row.student, row.assignment, exercise, score, points])
