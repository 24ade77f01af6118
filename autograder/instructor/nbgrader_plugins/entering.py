"""Enter grades: first into the gradebook and the graded notebooks, and then into the record.

`enter_scores` is the only place where a score enters the gradebook: one transaction for each
submission, or one for a whole rebuild. The record is written last, so a submission whose grading
is killed before that is graded again. A folder of graded notebooks is written beside the old one,
and replaces it when it is complete.

After each grading nbgrader marks every manual score as needing a check. Here a cell that did not
change keeps its manual score unmarked, so nobody has to read four hundred essays again because an
exercise was added.
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
from autograder.instructor.commands import escape_surrogates, swap_folder, write_atomically
from autograder.instructor.course import Course
from autograder.instructor.nbgrader_plugins.judge_evidence import compute_score, write_verdict
from autograder.instructor.nbgrader_plugins.lateness import Times, assign_penalties, load_times
from autograder.instructor.pages import NO_RESPONSE
from autograder.instructor.pipeline import (
    AssignmentFacts,
    Basis,
    GradedNotebook,
    Outcome,
    Record,
    Records,
    State,
    Submission,
)


class SeenCell(NamedTuple):
    """The parts of a graded cell that a person sees."""

    points: float | None
    kind: str
    source: str
    attachments: Any
    outputs: Any
    is_test: bool = False


def index_cells(notebook: Any) -> dict[str, SeenCell]:
    """Return the cells of a graded notebook that have a `grade_id`, by that name."""
    named = [(cell.metadata.get("nbgrader") or {}, cell) for cell in notebook.cells]
    return {
        metadata["grade_id"]: SeenCell(
            metadata.get("points"),
            cell.cell_type,
            cell.source,
            cell.get("attachments"),
            cell.get("outputs"),
            bool(metadata.get("grade") and not metadata.get("solution")),
        )
        for metadata, cell in named
        if metadata.get("grade_id")
    }


def has_same_sources(old_cells: Mapping[str, SeenCell], new_cells: Mapping[str, SeenCell]) -> bool:
    """Check whether no cell's source changed: a question may be in another cell than its answer.

    Tests do not count, because nobody reads them in order to grade an essay.
    """
    common = [name for name in old_cells.keys() & new_cells.keys() if not new_cells[name].is_test]
    return bool(old_cells) and all(
        new_cells[name].source == old_cells[name].source for name in common
    )


def name_staging_folder(graded: Path) -> Path:
    """Return the path at which a replacement for a folder is prepared."""
    return graded.with_name(f".{graded.name}.making")


@contextmanager
def replace_folder(graded: Path, keep_files: bool) -> Iterator[Path]:
    """Prepare a new folder, which replaces the old one if no error is raised.

    Args:
        graded: the folder to replace; it need not exist.
        keep_files: whether the new folder starts with a copy of the old one's files.

    Raises:
        OSError: the folder cannot be replaced.
    """
    staged = stage_folder(graded, keep_files)
    try:
        yield staged
        move_into_place(graded)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def stage_folder(graded: Path, keep_files: bool) -> Path:
    """Start preparing a replacement for a folder, and return its path.

    Args:
        graded: the folder to replace; it need not exist.
        keep_files: whether the replacement starts with a copy of the folder's files.
    """
    staged = name_staging_folder(graded)
    shutil.rmtree(staged, ignore_errors=True)  # from a grading that was killed
    staged.parent.mkdir(parents=True, exist_ok=True)
    if keep_files and graded.is_dir():
        shutil.copytree(graded, staged, symlinks=True)
    return staged


def move_into_place(graded: Path) -> None:
    """Replace a folder by the one prepared for it.

    Raises:
        OSError: it cannot be replaced; the folder is as it was.
    """
    old_folder = graded.with_name(f".{graded.name}.before")
    shutil.rmtree(old_folder, ignore_errors=True)
    swap_folder(graded, name_staging_folder(graded), old_folder)
    shutil.rmtree(old_folder, ignore_errors=True)


KEEPS_GRADE: Final = frozenset({"submission", "cells", "points"})
"""If these parts of its basis are the same, a grade stays valid although regrading failed."""


def enter(
    course: Course,
    times: Times,
    submission: Submission,
    facts: AssignmentFacts,
    outcome: Outcome,
) -> None:
    """Enter the outcome of a graded submission.

    Args:
        course: the course.
        times: the due dates and submission times.
        submission: the submission that was graded.
        facts: the facts of its assignment.
        outcome: the outcome, whose record has its basis.

    Raises:
        Exception: it could not be entered. The old grade is still there, but is marked as stale.
    """
    student, assignment = submission.student, submission.assignment
    records, folder = Records(course.records), course.autograded / student / assignment
    old_record, record = records.get(student, assignment), outcome.record
    is_same_submission = _is_same_submission(old_record, record)
    records.mark(student, assignment)  # if this is killed from here on, the submission is regraded
    if submission.is_partial:
        earlier = old_record.notebooks if old_record is not None else {}
        # the next make grade grades the notebooks that were not chosen
        is_complete = old_record is None and record.notebooks.keys() >= facts.time_limits.keys()
        record = replace(
            record,
            notebooks={**earlier, **record.notebooks},
            is_due_again=not is_complete,
        )
    with replace_folder(folder, keep_files=submission.is_partial) as staged:
        _write_files(staged, submission, facts, outcome.notebooks)
        is_unchanged = is_same_submission and _has_same_files(folder, staged, facts.files)
        cells = {
            name: (_read_cells(folder, name) if is_unchanged else {}, _read_cells(staged, name))
            for name in outcome.notebooks
        }
        with transaction(course) as gradebook:
            comments = enter_scores(
                gradebook, times, student, assignment, record, cells, not is_same_submission
            )
    if old_record is None:  # it is not known what was handed in before
        comments = {}
    elif is_same_submission:
        comments = {
            name: notebook_record.old_comments
            for name, notebook_record in old_record.notebooks.items()
        }
    notebooks = {
        name: replace(record.notebooks[name], old_comments=comments.get(name, {}))
        for name in outcome.notebooks
    }
    record = replace(record, notebooks={**record.notebooks, **notebooks})
    first_graded = old_record.since if is_same_submission and old_record is not None else None
    record = replace(record, since=first_graded or datetime.now(UTC))
    records.write(student, assignment, record)


def enter_failure(
    course: Course, student: str, assignment: str, outcome: Outcome, basis: Basis | None
) -> None:
    """Record why a submission could not be graded.

    If the same submission already has a grade, that stays; the scores of an earlier submission are
    withdrawn. A failure that would happen again is not retried until something changes.

    Args:
        course: the course.
        student: the student's name.
        assignment: the assignment's name.
        outcome: the failure.
        basis: the basis that a grade would have had; None if it is not known.
    """
    records, failure = Records(course.records), outcome.record
    old_record, is_broken = records.get(student, assignment), failure.state is State.BROKEN
    tried = basis if outcome.is_final and not is_broken else None
    old_basis = old_record.basis if old_record is not None else None
    is_valid = (
        old_basis is not None and basis is not None and not old_basis.changed(basis) & KEEPS_GRADE
    )
    if old_record is not None and is_valid and not is_broken:
        kept = replace(old_record, is_due_again=True, failed_basis=tried, why=failure.why)
        records.write(student, assignment, kept)
        return
    record = Record(failure.state, failure.why, failed_basis=tried, is_due_again=True)
    records.write(student, assignment, record)
    if is_broken or tried is not None:
        withdraw_scores(course, student, assignment)


def reenter_record(
    gradebook: Gradebook,
    times: Times,
    student: str,
    assignment: str,
    record: Record,
    is_other_submission: bool,
) -> None:
    """Enter the scores of an existing record, for rebuilding a gradebook; the caller commits.

    Args:
        gradebook: the gradebook.
        times: the due dates and submission times.
        student: the student's name.
        assignment: the assignment's name.
        record: the record of a grade.
        is_other_submission: whether manual scores may belong to another submission, so that they
            need a check.
    """
    folder = times.course.autograded / student / assignment
    cells = {name: (seen := _read_cells(folder, name), seen) for name in record.notebooks}
    enter_scores(gradebook, times, student, assignment, record, cells, is_other_submission)


@contextmanager
def transaction(course: Course) -> Iterator[Gradebook]:
    """Open the gradebook in one transaction, which is committed if no error is raised.

    nbgrader's own functions commit after each step; here they only flush.
    """
    with course.open_gradebook() as gradebook:
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
    is_other_submission: bool,
) -> dict[str, dict[str, str]]:
    """Enter the scores of a record into the gradebook; the caller commits.

    Manual scores and comments stay. They are marked as needing a check, unless they were certainly
    given for the same answer to the same question.

    Args:
        gradebook: nbgrader's gradebook.
        times: the due dates and submission times.
        student: the student's name.
        assignment: the assignment's name.
        record: the record of the grade.
        cells: for each notebook its cells before this grading, and its cells now.
        is_other_submission: whether this is another submission than the one that was checked
            manually.

    Returns:
        The comments that somebody has written, by notebook and cell.
    """
    written: dict[str, dict[str, str]] = {}
    gradebook.update_or_create_student(student)
    submission: Any = gradebook.update_or_create_submission(assignment, student)
    times.enter_times(submission)
    for book in submission.notebooks:
        notebook_record = record.notebooks.get(book.name, GradedNotebook())
        old_cells, new_cells = cells.get(book.name, ({}, {}))
        has_same_source = has_same_sources(old_cells, new_cells)
        commented = {c.name: c.manual_comment for c in book.comments if c.manual_comment}
        written[book.name] = commented
        for grade in book.grades:
            is_task = isinstance(grade.cell, TaskCell)
            score = None if is_task else notebook_record.scores.get(grade.name, 0.0)
            has_manual_score = grade.manual_score is not None
            is_checked = (
                has_manual_score and not grade.needs_manual_grade and grade.auto_score == score
            )
            is_same = (
                has_same_source
                and grade.name in old_cells
                and old_cells[grade.name] == new_cells.get(grade.name)
            )
            grade.auto_score = score
            needs_score = has_manual_score or score is None
            grade.needs_manual_grade = needs_score and not (is_checked and is_same)
            if is_other_submission and (
                has_manual_score or grade.extra_credit or grade.name in commented
            ):
                grade.needs_manual_grade = True
        for comment in book.comments:
            comment.auto_comment = (
                NO_RESPONSE if comment.name in notebook_record.unanswered else None
            )
    gradebook.db.flush()
    assign_penalties(submission, times)
    return written


def withdraw_scores(course: Course, student: str, assignment: str) -> None:
    """Remove the scores of a student's last submission from the gradebook.

    Scores of earlier attempts and manual scores stay, and every grade is marked as needing a check.
    """
    if escape_surrogates(student) != student:  # no gradebook can store this name
        return
    with transaction(course) as gradebook:
        try:
            submission: Any = gradebook.find_submission(assignment, student)
        except MissingEntry:
            return
        for grade in (grade for book in submission.notebooks for grade in book.grades):
            grade.auto_score, grade.needs_manual_grade = None, True


def _is_same_submission(old: Record | None, new: Record) -> bool:
    """Check whether both records are of the same submission."""
    return (
        old is not None
        and old.basis is not None
        and new.basis is not None
        and old.basis.submission == new.basis.submission
    )


def _write_files(
    folder: Path, submission: Submission, facts: AssignmentFacts, notebooks: Mapping[str, str]
) -> None:
    """Write the graded notebooks, and the submitted files and the course's own beside them."""
    files = {**submission.files, **submission.exchanged, **facts.files}
    for name, contents in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, contents)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in notebooks.items():
        write_atomically(folder / f"{name}.ipynb", text.encode())


def _has_same_files(old_folder: Path, new_folder: Path, names: Mapping[str, bytes]) -> bool:
    """Check whether the course's own files beside a graded notebook are unchanged."""
    return all(
        _read_contents(old_folder / name) == _read_contents(new_folder / name) for name in names
    )


def _read_contents(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _read_cells(folder: Path, notebook: str) -> Mapping[str, SeenCell]:
    try:
        return index_cells(nbformat.read(folder / f"{notebook}.ipynb", 4))
    except Exception:  # the file is missing, or is not a notebook
        return {}


def enter_regraded(
    course: Course, student: str, assignment: str, record: Record, points: Mapping[str, float]
) -> bool:
    """Enter a record whose evidence was regraded, or whose exercises are worth other points.

    Args:
        course: the course.
        student: the student's name.
        assignment: the assignment's name.
        record: the record to keep, with its new verdicts; its scores are computed here.
        points: the points of each exercise, by the name of its graded cell.

    Returns:
        Whether the grade or a graded notebook has changed.
    """
    folder, records = course.autograded / student / assignment, Records(course.records)
    texts: dict[str, tuple[str, Any]] = {}
    cells: dict[str, tuple[Mapping[str, SeenCell], Mapping[str, SeenCell]]] = {}
    for name, notebook_record in record.notebooks.items():
        path = folder / f"{name}.ipynb"
        old_text = path.read_text(encoding="utf-8")
        notebook = nbformat.reads(old_text, 4)
        old_cells = index_cells(notebook)
        scores = _write_verdicts(notebook, notebook_record, points)
        new_cells = index_cells(notebook)
        # a reworded verdict needs no manual check, so outputs are not compared
        cells[name] = _without_outputs(old_cells), _without_outputs(new_cells)
        record = _replace_scores(record, name, {**notebook_record.scores, **scores})
        texts[name] = old_text, nbformat.writes(notebook)
    old_record = records.get(student, assignment)
    is_new = old_record is None or any(
        old_text.rstrip() != new_text.rstrip() for old_text, new_text in texts.values()
    )
    is_new |= old_record is not None and (
        _scores_by_notebook(old_record) != _scores_by_notebook(record)
    )
    records.mark(student, assignment)
    with transaction(course) as gradebook:
        enter_scores(gradebook, load_times(course), student, assignment, record, cells, False)
    for name, (old_text, new_text) in texts.items():
        if old_text.rstrip() != new_text.rstrip():
            write_atomically(folder / f"{name}.ipynb", new_text.encode())
    records.write(student, assignment, replace(record, is_due_again=False))
    return is_new


def _write_verdicts(
    notebook: Any, notebook_record: GradedNotebook, points: Mapping[str, float]
) -> dict[str, float]:
    """Write verdicts and points into a graded notebook's cells, and return the new scores."""
    verdicts, scores = notebook_record.verdicts_by_exercise(), dict[str, float]()
    for cell in notebook.cells:
        metadata = cell.metadata.get("nbgrader", {})
        name = metadata.get("grade_id")
        if name not in points:
            continue
        metadata["points"] = points[name]
        verdict = verdicts.get(BY_GRADE_ID[name].id)
        if verdict is not None:
            write_verdict(cell, verdict, points[name])
            scores[name] = compute_score(verdict, points[name])
    return scores


def _without_outputs(cells: Mapping[str, SeenCell]) -> dict[str, SeenCell]:
    return {name: cell._replace(outputs=None) for name, cell in cells.items()}


def _replace_scores(record: Record, name: str, scores: dict[str, float | None]) -> Record:
    notebook_record = replace(record.notebooks[name], scores=scores)
    return replace(record, notebooks={**record.notebooks, name: notebook_record})


def _scores_by_notebook(record: Record) -> dict[str, dict[str, float | None]]:
    return {name: notebook_record.scores for name, notebook_record in record.notebooks.items()}
