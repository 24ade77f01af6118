"""Results for Gradescope, as its autograders write them: `results.json`, one for a submission."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from autograder.exercises import EXERCISES
from autograder.instructor.classroom import Person, Row, Submission, kept_answers
from autograder.instructor.course import Course, printable
from autograder.instructor.exporters.class_exporter import ClassExporter
from autograder.judge import headline, sentences

RESULTS: Final = "results.json"


class Gradescope(ClassExporter):
    """In a folder for each student and assignment, the results that Gradescope shows."""

    default: ClassVar = "grading/exports/gradescope"

    def write(
        self, course: Course, rows: Sequence[Row], people: Sequence[Person], to: Path
    ) -> None:
        """Write them."""
        for submission in kept_answers(course, rows):
            row = submission.row
            folder = to / row.student / row.assignment
            folder.mkdir(parents=True, exist_ok=True)
            written = json.dumps(_results(submission), indent=1)  # which escapes what is not ASCII
            (folder / RESULTS).write_text(written, encoding="utf-8")


def _results(submission: Submission) -> dict[str, Any]:
    row = submission.row
    results: dict[str, Any] = {
        "score": row.total,
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "output_format": "text",
        "tests": [*_tests(submission)],
    }
    if row.late:
        results["output"] = f"{row.late:g} points were taken off for being late."
    return results


def _tests(submission: Submission) -> Iterator[dict[str, Any]]:
    """What is said of each graded cell."""
    for name, mark in submission.row.marks.items():
        verdict, known = submission.verdicts.get(name), EXERCISES.get(name)
        said = [headline(verdict), *sentences(verdict)] if verdict else []
        passed = "passed" if mark.score >= mark.points else "failed"
        yield {
            "number": name if known else "",
            "name": known.title if known else printable(name),
            "score": mark.score,
            "max_score": mark.points,
            **({} if mark.needs_a_look else {"status": passed}),
            "output": "\n".join(said),
            "output_format": "text",
            "visibility": "visible",
        }
