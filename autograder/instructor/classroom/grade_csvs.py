"""The gradebook for spreadsheets: exact, and whole."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from autograder.instructor.classroom.submission_states import Row
from autograder.instructor.course import without_controls

FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a cell begins with that a spreadsheet takes for a formula."""


def write(folder: Path, rows: Sequence[Row]) -> None:
    """Write two CSVs: a line for each submission, and a line for each exercise of each."""
    _write(
        folder / "grades.csv",
        ("student", "assignment", "state", "score", "points"),
        (
            (row.student, row.assignment, row.state, *(row.total if row.graded else ("", "")))
            for row in rows
        ),
    )
    _write(
        folder / "exercises.csv",
        ("student", "assignment", "exercise", "score", "points"),
        (
            (row.student, row.assignment, exercise, *pair)
            for row in rows
            for exercise, pair in row.scores.items()
        ),
    )


def _write(path: Path, heading: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(heading)
        writer.writerows([*map(_cell, line)] for line in lines)


def _cell(value: object) -> object:
    """What is written: numbers are ours, and texts may be names that strangers chose."""
    if not isinstance(value, str):
        return value
    begins_as_formula = value.lstrip().startswith(FORMULAS) or value.startswith(FORMULAS)
    return f"'{without_controls(value)}" if begins_as_formula else without_controls(value)
