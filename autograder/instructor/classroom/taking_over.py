"""A class that an earlier version has graded: the files beside its graded notebooks become records.

That version kept evidence, verdicts, notes and what a grade rests on in five files. They are read
once, and removed.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import nbformat
from rich.console import Console

from autograder.instructor.course import Course
from autograder.instructor.pipeline import (
    Basis,
    GradedNotebook,
    Record,
    Records,
    State,
    graded_notebook,
)

T = TypeVar("T")

BASIS: Final = ".graded"
"""How the name of the file ended that said what a grade rests on; no student's may end so."""

AGAIN: Final = "to be graded anew: "
"""What stood before that where a submission was to be graded again."""

OTHERS: Final = (BASIS, ".evidence.json", ".verdicts.json", ".note")
"""How the names of the files ended, after a notebook's or the assignment's."""

SHOWN: Final = "grades.shown"
"""The file that said what of the gradebook a page showed."""


def take_over(course: Course, console: Console) -> None:
    """Make records of what an earlier version has kept, once."""
    kept = list(_kept(course))
    for pair in kept:
        _take_over(course, *pair)
    if kept:
        were = "1 submission was" if len(kept) == 1 else f"{len(kept)} submissions were"
        console.print(
            f"{were} graded by an earlier version. What it kept of them is now in "
            f"grading/records/.",
            highlight=False,
        )


def _kept(course: Course) -> Iterator[tuple[str, str]]:
    records = Records(course.records)
    for path in sorted(course.autograded.glob(f"*/*/*{BASIS}")):
        student, assignment = path.parent.parent.name, path.parent.name
        if path.name == f"{assignment}{BASIS}" and records.get(student, assignment) is None:
            yield student, assignment


def _take_over(course: Course, student: str, assignment: str) -> None:
    folder = course.autograded / student / assignment
    path = folder / f"{assignment}{BASIS}"
    own = {assignment, *(path.stem for path in (course.solutions / assignment).glob("*.ipynb"))}
    names = sorted(name for name in own if (folder / f"{name}.ipynb").is_file())
    written = path.read_text(encoding="utf-8", errors="replace")
    basis = _decoded(written.removeprefix(AGAIN).encode(), Basis)
    record = Record(
        State.GRADED,
        basis=basis,
        notebooks={name: _graded(folder, name) for name in names},
        since=datetime.fromtimestamp(path.stat().st_mtime, UTC),
        again=written.startswith(AGAIN) or basis is None,
    )
    Records(course.records).write(student, assignment, record)
    for name in (*(f"{name}{ending}" for name in own for ending in OTHERS), SHOWN):
        (folder / name).unlink(missing_ok=True)


def _graded(folder: Path, name: str) -> GradedNotebook:
    """What was kept of one notebook; what of it cannot be read is left out."""
    verdicts, evidence = (
        _decoded(_contents(folder / f"{name}{ending}"), msgspec.Raw) or msgspec.Raw(b"[]")
        for ending in (".verdicts.json", ".evidence.json")
    )
    notes = _contents(folder / f"{name}.note").decode(errors="replace").splitlines()
    try:
        notebook = nbformat.read(folder / f"{name}.ipynb", 4)
        return graded_notebook(notebook, verdicts, evidence, notes)
    except Exception:  # what stands there is no graded notebook, in one of many ways
        return GradedNotebook()


def _contents(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _decoded(written: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(written, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        return None
