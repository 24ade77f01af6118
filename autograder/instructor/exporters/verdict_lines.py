"""Verdicts as JSON lines, for whoever wants statistics.

`docs/verdict_lines.md` says what is in a line.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from autograder.instructor.classroom import Person, Row, Submission, kept_answers
from autograder.instructor.course import Course
from autograder.instructor.exporters.class_exporter import ClassExporter


class Verdicts(ClassExporter):
    """A line for each graded cell of each submission, with what was found of each requirement."""

    default: ClassVar = "grading/exports/verdicts.jsonl"

    def write(
        self, course: Course, rows: Sequence[Row], people: Sequence[Person], to: Path
    ) -> None:
        """Write the lines."""
        with to.open("w", encoding="utf-8", newline="\n") as file:
            for assignment in dict.fromkeys(row.assignment for row in rows):  # one's are in memory
                mine = [row for row in rows if row.assignment == assignment]
                for submission in kept_answers(course, mine):
                    file.writelines(f"{json.dumps(line)}\n" for line in _lines(submission))


def _lines(submission: Submission) -> Iterator[dict[str, Any]]:
    row = submission.row
    for name, mark in row.marks.items():
        verdict = submission.verdicts.get(name)
        yield {
            "student": row.student,
            "assignment": row.assignment,
            "exercise": name,
            "state": submission.state(name),
            "score": mark.score,
            "points": mark.points,
            "by_hand": mark.by_hand,
            "extra_credit": mark.extra,
            "earned": None if verdict is None else verdict.earned,
            "findings": [
                {
                    "answer": finding.answer,
                    "cell": finding.cell,
                    "about": finding.about,
                    "met": finding.met,
                    "credit": finding.credit,
                    "diagnosis": finding.diagnosis,
                    "asked": finding.asked,
                    "came": finding.came,
                    "said": finding.difference,
                }
                for finding in (verdict.findings if verdict else ())
            ],
        }
