"""Gradescope's autograders: the zip file that it builds an image from, and the results it reads.

In: an assignment of a course, and the record of a graded submission. Out: a zip file with
`setup.sh`, `run_autograder` and what they need; and a `results.json`. Both are written as
https://gradescope-autograders.readthedocs.io/en/latest/specs/ asks (read on 2026-11-25).
"""

import io
import json
import shlex
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

from nbgrader.utils import find_all_files

from autograder.exercises import BY_GRADE_ID
from autograder.instructor.commands import begin_sentence, printable, write_atomically
from autograder.instructor.course import Course
from autograder.instructor.pipeline import GradedNotebook, Record, State
from autograder.judge import verdict_as_html
from shardlings.documents import with_noun

Visibility = Literal["visible", "after_due_date", "after_published", "hidden"]

VISIBILITIES: Final[tuple[Visibility, ...]] = get_args(Visibility)
"""When students may see their results: Gradescope's own words."""

SCRIPTS: Final = ("setup.sh", "run_autograder")
"""The scripts that Gradescope runs, in `containers/gradescope/`; both have to be executable."""

PACKAGED: Final = (
    "LICENSE", "README.md", "nbgrader_config.py", "pyproject.toml",
    "requirements/install.sh", "requirements/lock.txt",
)  # fmt: skip
"""The files of a checkout that a bundle has, besides the package and the assignment."""


def write_bundle(
    course: Course, assignment: str, visibility: Visibility, container_is_sandbox: bool
) -> Path:
    """Write the zip file that Gradescope makes an autograder from, and return its path.

    It contains the package, with the exercises' references, and the assignment's solution, because
    the grader calibrates itself where it grades.

    Args:
        course: the course.
        assignment: the assignment's name.
        visibility: when students may see their results.
        container_is_sandbox: whether to grade where bubblewrap does not work.
    """
    bundle_file = course.grading / "exports" / f"gradescope-{assignment}.zip"
    bundle_file.parent.mkdir(parents=True, exist_ok=True)
    settings = {
        "ASSIGNMENT": assignment,
        "VISIBILITY": visibility,
        "CONTAINER": "--container-is-sandbox" if container_is_sandbox else "",
    }
    lines = [f"{name}={shlex.quote(value)}\n" for name, value in settings.items()]
    contents = io.BytesIO()
    with zipfile.ZipFile(contents, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name in SCRIPTS:
            bundle.write(course.root / "containers" / "gradescope" / name, name)
        bundle.writestr("settings.sh", "".join(lines))
        for path in _list_files(course, assignment):
            bundle.write(path, path.relative_to(course.root))
    write_atomically(bundle_file, contents.getvalue())
    return bundle_file


def _list_files(course: Course, assignment: str) -> Iterator[Path]:
    yield from (course.root / name for name in PACKAGED)
    for package in ("shardlings", "autograder"):
        files = find_all_files(str(course.root / package), ["__pycache__"])
        yield from sorted(map(Path, files))
    ignored = course.api.coursedir.ignore  # such as the bank of known answers
    yield from sorted(map(Path, find_all_files(str(course.solutions / assignment), ignored)))


def write_results(
    file: Path, record: Record, points: Mapping[tuple[str, str], float], visibility: Visibility
) -> None:
    """Write a graded submission's results, or why the submission is broken.

    If grading failed, nothing is written: Gradescope then reports that the autograder failed, and
    gives no score for what is not the student's fault.

    Args:
        file: the file.
        record: the submission's record.
        points: the points of each graded cell, by the names of its notebook and the cell.
        visibility: when students may see the results.
    """
    if record.state is State.FAILED:
        return
    results: dict[str, Any] = {
        "visibility": visibility,
        "stdout_visibility": "hidden",
        "execution_time": round(record.seconds),
        "test_output_format": "html",
    }
    if record.state is State.GRADED:
        tests = [*_list_tests(record, points)]
        notes = [note for book in record.notebooks.values() for note in book.notes]
        score = sum(test.get("score", 0) for test in tests)
        results |= {"score": score, "tests": tests, "output": "\n".join(map(printable, notes))}
    else:
        why = begin_sentence(record.why)
        results |= {"score": 0, "tests": [], "output": f"Nothing could be graded: {why}"}
    write_atomically(file, json.dumps(results, indent=1).encode())


def _list_tests(
    record: Record, points: Mapping[tuple[str, str], float]
) -> Iterator[dict[str, Any]]:
    """Yield one of Gradescope's tests for each graded cell."""
    verdicts = {
        book: notebook_record.verdicts_by_exercise()
        for book, notebook_record in record.notebooks.items()
    }
    for (book, name), most in points.items():
        notebook_record = record.notebooks.get(book, GradedNotebook())
        score, exercise = notebook_record.scores.get(name, 0.0), BY_GRADE_ID.get(name)
        verdict = verdicts.get(book, {}).get(exercise.id) if exercise else None
        test: dict[str, Any] = {
            "name": exercise.title if exercise else printable(name),
            "output": verdict_as_html(verdict, whole=True) if verdict else "",
        }
        if exercise:
            test["number"] = exercise.id
        if score is None:
            yield test | {"output": "This is graded by hand, and has no score yet."}
        else:
            status = "passed" if score >= most else "failed"
            yield test | {"score": score, "max_score": most, "status": status}


def compare_points(metadata: Path, points: Mapping[tuple[str, str], float]) -> str:
    """Return a sentence if Gradescope's assignment is worth other points than the notebook's.

    Args:
        metadata: Gradescope's `submission_metadata.json`; nothing is said if it is not there.
        points: the points of each graded cell, by the names of its notebook and the cell.
    """
    try:
        gradescope_points = float(json.loads(metadata.read_bytes())["assignment"]["total_points"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    notebook_points = sum(points.values())
    return (
        f"On Gradescope this assignment is worth {with_noun(gradescope_points, 'point')}, and its "
        f"notebook {notebook_points:g}. Change the points there, or scores will not be shares of "
        f"the whole."
        if gradescope_points != notebook_points
        else ""
    )
