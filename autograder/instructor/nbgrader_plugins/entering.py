"""Enter a record: the gradebook, the graded notebooks, and then the record itself.

`enter_scores` is the only place where a score enters the gradebook: one transaction for each
submission, or one for a whole rebuild. The record is written last; whatever is killed before that
is graded again. A graded notebook is written to the side and moved into place when it is complete.

nbgrader asks for every score given by hand to be checked after each grading. Here a cell that did
not change keeps its score without that: nobody reads four hundred essays again because of an added
exercise.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import nbformat
from msgspec.structs import replace
from nbgrader.api import Gradebook, MissingEntry, TaskCell

from autograder.exercises import BY_GRADE_ID
from autograder.instructor.course import Course, readable
from autograder.instructor.nbgrader_plugins.judge_evidence import score_of, write_verdict
from autograder.instructor.nbgrader_plugins.lateness import Times, assign_penalties, times_of
from autograder.instructor.pipeline import (
    Basis,
    Facts,
    GradedNotebook,
    Outcome,
    Record,
    Records,
    State,
    Submission,
    write_anew,
)


class SeenCell(NamedTuple):
    """What there is to look at in a cell."""

    points: float | None
    kind: str
    source: str
    attachments: Any
    outputs: Any


def cells_of(notebook: Any) -> dict[str, SeenCell]:
    """The cells of a graded notebook that the assignment knows, by their names."""
    named = [(cell.metadata.get("nbgrader") or {}, cell) for cell in notebook.cells]
    return {
        about["grade_id"]: SeenCell(
            about.get("points"),
            cell.cell_type,
            cell.source,
            cell.get("attachments"),
            cell.get("outputs"),
        )
        for about, cell in named
        if about.get("grade_id")
    }


def is_asked_the_same(before: Mapping[str, SeenCell], now: Mapping[str, SeenCell]) -> bool:
    """Whether a notebook's cells ask what they asked before: that may stand in any of them."""
    both = before.keys() & now.keys()
    return bool(before) and all(now[name].source == before[name].source for name in both)


def place(graded: Path) -> Path:
    """Where something is made that is to take a folder's place."""
    return graded.with_name(f".{graded.name}.making")


@contextmanager
def making(graded: Path, with_all: bool) -> Iterator[Path]:
    """Have what is made within take a folder's place, or leave that folder as it is.

    Args:
        graded: the folder; it need not be there.
        with_all: whether what is made begins with what is in that folder.

    Raises:
        OSError: it cannot take its place.
    """
    made = begin(graded, with_all)
    try:
        yield made
        take_place(graded)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def begin(graded: Path, with_all: bool) -> Path:
    """Begin to make something; where.

    Args:
        graded: the folder whose place it is to take; it need not be there.
        with_all: whether it begins with what is in that folder, of which some is made anew.
    """
    made = place(graded)
    shutil.rmtree(made, ignore_errors=True)  # from a grading that was killed
    made.parent.mkdir(parents=True, exist_ok=True)
    if with_all and graded.is_dir():
        shutil.copytree(graded, made, symlinks=True)
    return made


def take_place(graded: Path) -> None:
    """Have what was made be in a folder's place.

    Raises:
        OSError: it cannot; the folder is as it was.
    """
    made, before = place(graded), graded.with_name(f".{graded.name}.before")
    shutil.rmtree(before, ignore_errors=True)
    try:
        if graded.exists():
            graded.rename(before)
        made.rename(graded)
    finally:  # also where it is stopped between the two
        if before.exists() and not graded.exists():
            before.rename(graded)
    shutil.rmtree(before, ignore_errors=True)


UNCHANGED: Final = frozenset({"submission", "cells", "points"})
"""A grade stands although regrading failed if these parts of its basis are the same."""

NO_RESPONSE: Final = "No response."
"""nbgrader's own comment on a cell that is as it was released."""


def enter(
    course: Course, times: Times, submission: Submission, facts: Facts, outcome: Outcome
) -> None:
    """Enter what became of a submission that was graded.

    Args:
        course: where.
        times: when things were due, and handed in.
        submission: what was handed in.
        facts: what is known of its assignment.
        outcome: what became of it; its record says what it rests on.

    Raises:
        Exception: it could not be entered. What there was before still is, and is to be graded
            again.
    """
    student, assignment = submission.student, submission.assignment
    records, folder = Records(course.records), course.autograded / student / assignment
    before, record = records.get(student, assignment), outcome.record
    is_same = _is_same(before, record)
    records.mark(student, assignment)  # from here on, the grade of before is known to be none
    if submission.is_partial and before is not None:
        record = replace(record, notebooks={**before.notebooks, **record.notebooks}, again=True)
    with making(folder, with_all=submission.is_partial) as made:
        _write_files(made, submission, facts, outcome.notebooks)
        unchanged = is_same and _has_same_files(folder, made, facts.files)
        cells = {
            name: (_cells(folder, name) if unchanged else {}, _cells(made, name))
            for name in outcome.notebooks
        }
        with transaction(course) as gradebook:
            enter_scores(gradebook, times, student, assignment, record, cells, not is_same)
    since = before.since if is_same and before is not None else None
    records.write(student, assignment, replace(record, since=since or datetime.now(UTC)))


def enter_failure(
    course: Course, student: str, assignment: str, outcome: Outcome, basis: Basis | None
) -> None:
    """Keep why a submission has no grade.

    One that the very same has stands until it has another; of something else that was handed in,
    the gradebook has no score. What would fail again is not tried again by itself.

    Args:
        course: where.
        student: who handed it in.
        assignment: what they handed in.
        outcome: what became of it.
        basis: what a grade would have rested on; None where not even that is known.
    """
    records, found = Records(course.records), outcome.record
    before, is_broken = records.get(student, assignment), found.state is State.BROKEN
    tried = basis if outcome.is_final and not is_broken else None
    then = before.basis if before is not None else None
    stands = then is not None and basis is not None and not then.changed(basis) & UNCHANGED
    if before is not None and stands and not is_broken:
        kept = replace(before, again=True, tried=tried, why=found.why)
        records.write(student, assignment, kept)
        return
    records.write(student, assignment, Record(found.state, found.why, tried=tried, again=True))
    if is_broken or tried is not None:
        withdraw_scores(course, student, assignment)


def enter_again(
    gradebook: Gradebook, times: Times, student: str, assignment: str, record: Record, ask: bool
) -> None:
    """Have the gradebook say what a record says, of which nothing has changed since.

    Args:
        gradebook: where; it is for the caller to commit.
        times: when things were due, and handed in.
        student: who handed it in.
        assignment: what they handed in.
        record: of a grade.
        ask: whether what was given by hand may have been given for something else.
    """
    folder = times.course.autograded / student / assignment
    cells = {name: (there := _cells(folder, name), there) for name in record.notebooks}
    enter_scores(gradebook, times, student, assignment, record, cells, ask)


@contextmanager
def transaction(course: Course) -> Iterator[Gradebook]:
    """The gradebook, in which all that is done within is done together, or not at all.

    nbgrader's own functions commit each of their steps.
    """
    about = course.api.coursedir
    with Gradebook(about.db_url, about.course_id) as gradebook:
        session: Any = gradebook.db
        commit, session.commit = session.commit, session.flush
        yield gradebook
        commit()


def enter_scores(
    gradebook: Gradebook,
    times: Times,
    student: str,
    assignment: str,
    record: Record,
    cells: Mapping[str, tuple[Mapping[str, SeenCell], Mapping[str, SeenCell]]],
    ask_again: bool,
) -> None:
    """Have the gradebook say of a submission what its record says. It is for the caller to commit.

    Scores and comments by hand stay. Somebody has to look at them again, unless it is known that
    they were given for the same answer to the same question.

    Args:
        gradebook: nbgrader's.
        times: when things were due, and handed in.
        student: who handed it in.
        assignment: what they handed in.
        record: what became of it.
        cells: of each notebook, what there was to see of its cells before, and what there is now.
        ask_again: whether something else was handed in than what was looked at.
    """
    gradebook.update_or_create_student(student)
    submission: Any = gradebook.update_or_create_submission(assignment, student)
    times.enter(submission)
    for book in submission.notebooks:
        found = record.notebooks.get(book.name, GradedNotebook())
        before, now = cells.get(book.name, ({}, {}))
        asked_the_same = is_asked_the_same(before, now)
        told = {comment.name for comment in book.comments if comment.manual_comment}
        for grade in book.grades:
            is_task = isinstance(grade.cell, TaskCell)
            score = None if is_task else found.scores.get(grade.name, 0.0)
            by_hand = grade.manual_score is not None
            looked_at = by_hand and not grade.needs_manual_grade and grade.auto_score == score
            same = (
                asked_the_same
                and grade.name in before
                and before[grade.name] == now.get(grade.name)
            )
            grade.auto_score = score
            grade.needs_manual_grade = (by_hand or score is None) and not (looked_at and same)
            if ask_again and (by_hand or grade.extra_credit or grade.name in told):
                grade.needs_manual_grade = True
        for comment in book.comments:
            comment.auto_comment = NO_RESPONSE if comment.name in found.unanswered else None
    gradebook.db.flush()
    assign_penalties(submission, times.course.api.config)


def withdraw_scores(course: Course, student: str, assignment: str) -> None:
    """Have the gradebook say that what somebody handed in last has no score.

    What was earned before stays among the attempts of before, and scores by hand stay; somebody has
    to look at all of it.
    """
    if readable(student) != student:  # whom no gradebook can know
        return
    with transaction(course) as gradebook:
        try:
            submission: Any = gradebook.find_submission(assignment, student)
        except MissingEntry:
            return
        for grade in (grade for book in submission.notebooks for grade in book.grades):
            grade.auto_score, grade.needs_manual_grade = None, True


def _is_same(before: Record | None, now: Record) -> bool:
    """Whether both records are of the same submission."""
    return (
        before is not None
        and before.basis is not None
        and now.basis is not None
        and before.basis.submission == now.basis.submission
    )


def _write_files(
    folder: Path, submission: Submission, facts: Facts, notebooks: Mapping[str, str]
) -> None:
    """Write what was handed in beside the notebooks, and the notebooks as they were graded."""
    beside = {**submission.files, **submission.exchanged, **facts.files}
    for name, contents in beside.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_anew(folder / name, contents)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in notebooks.items():
        write_anew(folder / f"{name}.ipynb", text.encode())


def _has_same_files(before: Path, now: Path, names: Mapping[str, bytes]) -> bool:
    """Whether files of the course's own are the same beside a graded notebook as they were."""
    return all(_contents(before / name) == _contents(now / name) for name in names)


def _contents(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _cells(folder: Path, notebook: str) -> Mapping[str, SeenCell]:
    try:
        return cells_of(nbformat.read(folder / f"{notebook}.ipynb", 4))
    except Exception:  # there is none, or what is there is none, in one of many ways
        return {}


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
    cells: dict[str, tuple[Mapping[str, SeenCell], Mapping[str, SeenCell]]] = {}
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


def _without_outputs(cells: Mapping[str, SeenCell]) -> dict[str, SeenCell]:
    return {name: cell._replace(outputs=None) for name, cell in cells.items()}


def _with_scores(record: Record, name: str, scores: dict[str, float | None]) -> Record:
    found = replace(record.notebooks[name], scores=scores)
    return replace(record, notebooks={**record.notebooks, name: found})


def _scores(record: Record) -> dict[str, dict[str, float | None]]:
    return {name: found.scores for name, found in record.notebooks.items()}
