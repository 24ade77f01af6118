"""Grade a class: run, judge, write feedback, and show the gradebook as a table."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import CsvExportPlugin
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from autograder.exercises import NOTEBOOKS
from autograder.instructor import demonstration
from autograder.instructor.course import Course


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
    failures: list[Failure] = []
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as bar:
        assignments = course.assignments()
        for assignment in bar.track(assignments, description="Making the notebooks"):
            course.release(assignment)
        if not course.submissions():
            demonstration.fill(course)
            console.print("No submissions yet: grading a demonstration class of five.")
        task = bar.add_task("Grading", total=len(course.submissions()))
        for student, assignment in course.submissions():
            bar.update(task, description=f"Grading {student}, {assignment}")
            if again or _is_new(course, student, assignment):
                failure = _grade(course, student, assignment)
                failures += [failure] if failure else []
            else:
                failures += _broken(course, student, assignment)
            bar.advance(task)
        bar.update(task, description="Grading")
    with Gradebook(course.api.coursedir.db_url, "shardlings") as gradebook:
        for assignment in {assignment for _, assignment in course.submissions()}:
            console.print(_table(course, gradebook, assignment, failures))
        exporter = CsvExportPlugin()
        exporter.to = str(course.grading / "grades.csv")
        exporter.export(gradebook)
        _write_exercises(course, gradebook)
    for failure in failures:
        console.print(f"[bold]{failure.student}[/], {failure.assignment}: {failure.why}")
    console.print(f"Feedback pages: {_shown(course, course.feedback)}/<student>/<assignment>/")
    console.print(f"Grades: {_shown(course, course.grading / 'grades.csv')}")
    console.print(f"Grades by exercise: {_shown(course, course.grading / 'exercises.csv')}")
    return 0 if all(failure.theirs for failure in failures) else 1


def _shown(course: Course, path: Path) -> Path:
    return path.relative_to(course.root)


def _is_new(course: Course, student: str, assignment: str) -> bool:
    """Whether anything was handed in since this submission was last graded."""
    graded = course.autograded / student / assignment / f"{assignment}.ipynb"
    if not graded.exists():
        return True
    folder = course.submitted / student / assignment
    return any(p.stat().st_mtime > graded.stat().st_mtime for p in folder.rglob("*"))


def _grade(course: Course, student: str, assignment: str) -> Failure | None:
    broken = _broken(course, student, assignment)
    done = course.api.autograde(assignment, student, force=True, create=True)
    if not done["success"]:
        if broken:
            return broken[0]
        lines = (done["error"] or done["log"] or "").strip().splitlines()
        return Failure(student, assignment, f"grading failed. {' '.join(lines[-1:])}", theirs=False)
    feedback = course.api.generate_feedback(assignment, student, force=True)
    if not feedback["success"]:
        return Failure(student, assignment, f"no feedback page: {feedback['error']}", theirs=False)
    return None


def _broken(course: Course, student: str, assignment: str) -> list[Failure]:
    """What is wrong with a submission's file itself, if anything."""
    path = course.submitted / student / assignment / f"{assignment}.ipynb"
    try:
        nbformat.read(path, 4)
    except FileNotFoundError:
        why = f"there is no {path.name} in the folder that was handed in."
    except nbformat.reader.NotJSONError:
        why = (
            f"{path.name} cannot be read as a notebook: {_where_json_breaks(path)}. "
            f"It was probably cut off on the way; it has to be handed in again."
        )
    except Exception as error:  # nbformat raises many kinds
        first = (str(error).splitlines() or [type(error).__name__])[0]
        why = f"{path.name} cannot be read as a notebook: {first[:120]}."
    else:
        return []
    return [Failure(student, assignment, why, theirs=True)]


def _where_json_breaks(path: Path) -> str:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        return f"its JSON breaks off at line {error.lineno}"
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 text from byte {error.start} on"
    return "it is not a notebook's JSON"


Row = tuple[str, str, dict[str, tuple[float, float]]]


def _scores(course: Course, gradebook: Gradebook) -> Iterator[Row]:
    """For each submission: the student, the assignment, and score and points by exercise."""
    for student, assignment in course.submissions():
        names = {e.grade_id: e.id for e in NOTEBOOKS.get(assignment, ())}
        try:
            submission = gradebook.find_submission_notebook(assignment, assignment, student)
        except MissingEntry:
            continue
        grades = {g.name: (g.score or 0.0, g.max_score) for g in submission.grades}
        yield (
            student,
            assignment,
            {name: grades[grade_id] for grade_id, name in names.items() if grade_id in grades},
        )


def _table(course: Course, gradebook: Gradebook, assignment: str, failures: list[Failure]) -> Table:
    """The gradebook of one assignment: students × exercises."""
    exercises = [e.id for e in NOTEBOOKS.get(assignment, ())]
    failed = {f.student: f for f in failures if f.assignment == assignment}
    table = Table(title=assignment, box=SIMPLE_HEAD)
    table.add_column("student", no_wrap=True)
    for exercise in exercises:
        table.add_column(exercise, justify="right")
    table.add_column("total", justify="right", no_wrap=True, min_width=6)
    for student, of, scores in _scores(course, gradebook):
        if of != assignment:
            continue
        if student in failed:
            what = "broken" if failed[student].theirs else "failed"
            table.add_row(student, *["–" for _ in exercises], what)
            continue
        cells = [f"{scores[e][0]:g}/{scores[e][1]:g}" if e in scores else "–" for e in exercises]
        got, most = (sum(pair[i] for pair in scores.values()) for i in (0, 1))
        table.add_row(student, *cells, f"{got:g}/{most:g}")
    return table


def _write_exercises(course: Course, gradebook: Gradebook) -> None:
    with (course.grading / "exercises.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["student", "assignment", "exercise", "score", "points"])
        for student, assignment, scores in _scores(course, gradebook):
            for exercise, (score, points) in scores.items():
                writer.writerow([student, assignment, exercise, score, points])
