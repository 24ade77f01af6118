"""Make a class's gradebook again: from records, a dated copy, or an earlier version's files.

The gradebook is a projection of the records, except for what was entered by hand, which is in the
copies. During a rebuild a marker file says so: if the rebuild is interrupted, the next one asks for
the same scores to be checked by hand.

Earlier versions kept evidence, verdicts, notes and the basis of a grade in five files beside each
graded notebook. They are read once, made into records, and removed.
"""

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import nbformat
from nbgrader.api import Gradebook
from rich.console import Console

from autograder.instructor.course import ClassError, Course, GradebookError, printable, zone_of
from autograder.instructor.gradebook import (
    ON_A_SERVER,
    auto_scores,
    back_up,
    backups,
    file_of,
    is_server,
    put_back,
    readable_copy,
    set_aside,
    shown,
    shown_grades,
    trouble_in,
)
from autograder.instructor.nbgrader_plugins import enter_again, times_of, transaction
from autograder.instructor.pages import shown_by
from autograder.instructor.pipeline import (
    Basis,
    GradedNotebook,
    Record,
    Records,
    State,
    graded_notebook,
    write_anew,
)

T = TypeVar("T")

BASIS_ENDING: Final = ".graded"
"""How the name of the file ended that said what a grade rests on; no student's may end so."""

REGRADE_PREFIX: Final = "to be graded anew: "
"""What stood before that where a submission was to be graded again."""

EARLIER_ENDINGS: Final = (BASIS_ENDING, ".evidence.json", ".verdicts.json", ".note")
"""How the names of the files ended, after a notebook's or the assignment's."""

SHOWN_FILE: Final = "grades.shown"
"""The file that said what of the gradebook a page showed."""


def convert_earlier_records(course: Course, console: Console) -> None:
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
    for path in sorted(course.autograded.glob(f"*/*/*{BASIS_ENDING}")):
        student, assignment = path.parent.parent.name, path.parent.name
        if path.name == f"{assignment}{BASIS_ENDING}" and records.get(student, assignment) is None:
            yield student, assignment


def _take_over(course: Course, student: str, assignment: str) -> None:
    folder = course.autograded / student / assignment
    path = folder / f"{assignment}{BASIS_ENDING}"
    own = {assignment, *(path.stem for path in (course.solutions / assignment).glob("*.ipynb"))}
    names = sorted(name for name in own if (folder / f"{name}.ipynb").is_file())
    written = path.read_text(encoding="utf-8", errors="replace")
    basis = _decoded(written.removeprefix(REGRADE_PREFIX).encode(), Basis)
    record = Record(
        State.GRADED,
        basis=basis,
        notebooks={name: _graded(folder, name) for name in names},
        since=datetime.fromtimestamp(path.stat().st_mtime, UTC),
        again=written.startswith(REGRADE_PREFIX) or basis is None,
    )
    Records(course.records).write(student, assignment, record)
    for name in (*(f"{name}{ending}" for name in own for ending in EARLIER_ENDINGS), SHOWN_FILE):
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


Scores = Mapping[str, Mapping[tuple[str, str], float | None]]
"""By student, what each cell has earned, by notebook and name."""

REBUILDING_FILE: Final = "gradebook.rebuilding"
"""The file that says of when the copy is that a gradebook is being made of again."""


def start_rebuilding(course: Course, console: Console) -> bool:
    """Put the newest sound copy in the place of a gradebook that is lost or damaged.

    What is damaged is kept beside it.

    Returns:
        Whether the gradebook is being made again, now or since an earlier command was stopped.
    """
    trouble, marker = course.trouble(), course.grading / REBUILDING_FILE
    if not trouble:
        return marker.exists()
    url = course.api.coursedir.db_url
    gradebook, said = file_of(url), [trouble]
    newest = next((copy for copy in backups(course.backups) if not trouble_in(copy)), None)
    made = newest.stat().st_mtime if newest is not None else 0.0
    write_anew(marker, str(made).encode())
    if gradebook.exists():
        kept = set_aside(gradebook)
        said.append(f"It is kept as {kept.relative_to(course.root)}.")
    if newest is None:
        said.append(
            "It is made again from what was graded. There is no sound copy of it, so scores and "
            "comments that somebody gave by hand are lost."
        )
    else:
        put_back(newest, url)
        when = datetime.fromtimestamp(made, UTC).astimezone(
            zone_of(course.grading, course.assignments())
        )
        said.append(
            f"It is made again from its copy of {when:%A, %d %B %Y, %H:%M %Z} and from what was "
            f"graded. Scores and comments that somebody gave by hand since then are lost."
        )
    console.print(printable(" ".join(said)), style="bold yellow", markup=False, highlight=False)
    return True


def enter_missing_grades(course: Course, console: Console) -> None:
    """Enter all records whose scores the gradebook does not have, in one transaction."""
    marker = course.grading / REBUILDING_FILE
    made_again = _time(marker)
    records, times = Records(course.records), times_of(course)
    entered = 0
    with transaction(course) as gradebook:
        for student, assignment, record in list(_missing(course, gradebook, records)):
            # a score by hand in the copy was given for what had been handed in by then
            is_later = made_again is not None and (
                record.since is None or record.since > made_again
            )
            enter_again(gradebook, times, student, assignment, record, is_later)
            entered += 1
    marker.unlink(missing_ok=True)
    if entered:
        were = "1 submission was" if entered == 1 else f"{entered} submissions were"
        console.print(f"The grades of {were} entered again from the records.", highlight=False)


def _missing(
    course: Course, gradebook: Gradebook, records: Records
) -> Iterator[tuple[str, str, Record]]:
    """The records of what is handed in whose scores the gradebook does not have."""
    there = {assignment.name for assignment in gradebook.assignments}
    handed_in = {*course.submissions()}
    known: dict[str, Scores] = {}
    for student, assignment in records.all():
        record = records.get(student, assignment)
        is_current = record is not None and record.state is State.GRADED and not record.again
        if record is None or not is_current or assignment not in there:
            continue
        if (student, assignment) not in handed_in:
            continue
        if assignment not in known:
            known[assignment] = auto_scores(gradebook, assignment)
        if not _has(known[assignment].get(student), record):
            yield student, assignment, record


def _has(scores: Mapping[tuple[str, str], float | None] | None, record: Record) -> bool:
    """Whether a gradebook's scores are those of a record."""
    return scores is not None and all(
        scores.get((name, cell), score) == score
        for name, found in record.notebooks.items()
        for cell, score in found.scores.items()
    )


def _time(marker: Path) -> datetime | None:
    """Of when the copy is that a gradebook is being made of again; None where none is."""
    try:
        return datetime.fromtimestamp(float(marker.read_text()), UTC)
    except (OSError, ValueError):
        return None


def list_backups(course: Course, console: Console) -> int:
    """Say which copies there are of the gradebook; the exit status."""
    copies = backups(course.backups)
    if not copies:
        console.print("There is no copy of the gradebook yet: none of its grades has changed.")
        return 0
    try:
        zone = zone_of(course.grading, course.assignments())
    except ClassError:  # which keeps nobody from going back
        zone = UTC
    console.print("The gradebook, as it was before its grades were changed, the last one first:")
    for copy in copies:
        when = datetime.fromtimestamp(copy.stat().st_mtime, UTC).astimezone(zone)
        where = printable(str(copy.relative_to(course.root)))
        trouble = trouble_in(copy)
        marked = f"  (it {trouble}, and cannot be put back)" if trouble else ""
        console.print(f"  {where}  of {when:%A, %d %B %Y, %H:%M:%S %Z}{marked}", highlight=False)
    console.print("To put one back: make restore FROM=<file>", highlight=False)
    return 0


def restore(course: Course, console: Console, file: Path) -> int:
    """Have the gradebook be what a copy of it is; the exit status.

    What it is now is copied first, so that this can be undone, too.

    Raises:
        GradebookError: the file is no gradebook, or the gradebook cannot be reached.
    """
    path = file if file.is_absolute() else course.root / file
    if not path.is_file() and file.name == str(file):  # as `make restore` lists them, or shorter
        path = course.backups / file
    if not path.is_file():
        raise GradebookError(
            f"There is no file {printable(str(file))}. make restore, without FROM=, names those "
            f"that can be put back."
        )
    url = course.api.coursedir.db_url
    if is_server(url):
        raise GradebookError(ON_A_SERVER)
    with course.alone(url, rebuilds=True), readable_copy(path) as copy:
        gradebook = file_of(url)
        is_damaged = course.trouble(url) and gradebook.exists()
        now = set_aside(gradebook) if is_damaged else back_up(url, course.backups)
        # first, so that whatever is stopped from here on leaves no grade that nobody makes anew
        again = _forget_what_is_not_in(copy, course)
        put_back(path, url)
    console.print(
        printable(f"The gradebook {shown(url)} is now as it is in {file}."),
        markup=False, soft_wrap=not sys.stdout.isatty(),
    )  # fmt: skip
    if now is not None:
        where = now.relative_to(course.root)
        console.print(f"What it was before is in {where}.", markup=False, highlight=False)
    if again:
        console.print(
            f"{again} submissions are to be graded again: make grade does that."
            if again > 1
            else "One submission is to be graded again: make grade does that."
        )
    return 0


def _forget_what_is_not_in(copy: str, course: Course) -> int:
    """Have those submissions graded again whose grades a gradebook has not; how many now are."""
    submissions, records = course.submissions(), Records(course.records)
    with Gradebook(copy, course.api.coursedir.course_id) as gradebook:
        for assignment in dict.fromkeys(assignment for _, assignment in submissions):
            there = shown_grades(gradebook, assignment, "")
            for student in (s for s, a in submissions if a == assignment):
                page = course.feedback / student / assignment / f"{assignment}.html"
                seen, then = shown_by(page), there.get(student)
                if seen is None or then is None or seen.scores != then.scores:
                    records.forget(student, assignment)
    return sum(records.is_marked(*pair) for pair in submissions)
