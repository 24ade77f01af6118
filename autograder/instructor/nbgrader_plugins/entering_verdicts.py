"""Enter a record whose evidence was judged again, or whose exercises have other points."""

from collections.abc import Mapping
from typing import Any

import nbformat
from msgspec.structs import replace

from autograder.exercises import BY_GRADE_ID
from autograder.instructor.course import Course
from autograder.instructor.nbgrader_plugins.entering import enter_scores, transaction
from autograder.instructor.nbgrader_plugins.judge_evidence import score_of, write_verdict
from autograder.instructor.nbgrader_plugins.lateness import times_of
from autograder.instructor.nbgrader_plugins.looked_at import Cell, cells_of
from autograder.instructor.pipeline import GradedNotebook, Record, Records, write_anew


def enter_judged(
    course: Course, student: str, assignment: str, record: Record, points: Mapping[str, float]
) -> bool:
    """Enter a record whose evidence was judged again, or whose points are others.

    Args:
        course: where.
        student: who handed it in.
        assignment: what they handed in.
        record: as it is to be kept, with its verdicts; its scores are found here.
        points: of each exercise, by the name of its graded cell.

    Returns:
        Whether anything of its grade is another.
    """
    folder, records = course.autograded / student / assignment, Records(course.records)
    graded: dict[str, tuple[str, Any]] = {}
    cells: dict[str, tuple[Mapping[str, Cell], Mapping[str, Cell]]] = {}
    for name, found in record.notebooks.items():
        path = folder / f"{name}.ipynb"
        before = path.read_text(encoding="utf-8")
        notebook = nbformat.reads(before, 4)
        seen = cells_of(notebook)
        scores = _write_verdicts(notebook, found, points)
        now = cells_of(notebook)
        # a verdict in other words is nothing to look at again: only scores and points are compared
        cells[name] = _without_outputs(seen), _without_outputs(now)
        record = _with_scores(record, name, {**found.scores, **scores})
        graded[name] = before, nbformat.writes(notebook)
    then = records.get(student, assignment)
    is_new = then is None or any(before.rstrip() != now.rstrip() for before, now in graded.values())
    is_new |= then is not None and _scores(then) != _scores(record)
    records.mark(student, assignment)
    with transaction(course) as gradebook:
        enter_scores(gradebook, times_of(course), student, assignment, record, cells, False)
    for name, (before, now) in graded.items():
        if before.rstrip() != now.rstrip():
            write_anew(folder / f"{name}.ipynb", now.encode())
    records.write(student, assignment, replace(record, again=False))
    return is_new


def _write_verdicts(
    notebook: Any, found: GradedNotebook, points: Mapping[str, float]
) -> dict[str, float]:
    """Write verdicts and points into a graded notebook's cells; the scores of its exercises."""
    verdicts, scores = found.verdicts_by_exercise(), dict[str, float]()
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        name = about.get("grade_id")
        if name not in points:
            continue
        about["points"] = points[name]
        verdict = verdicts.get(BY_GRADE_ID[name].id)
        if verdict is not None:
            write_verdict(cell, verdict, points[name])
            scores[name] = score_of(verdict, points[name])
    return scores


def _without_outputs(cells: Mapping[str, Cell]) -> dict[str, Cell]:
    return {name: cell._replace(outputs=None) for name, cell in cells.items()}


def _with_scores(record: Record, name: str, scores: dict[str, float | None]) -> Record:
    found = replace(record.notebooks[name], scores=scores)
    return replace(record, notebooks={**record.notebooks, name: found})


def _scores(record: Record) -> dict[str, dict[str, float | None]]:
    return {name: found.scores for name, found in record.notebooks.items()}
