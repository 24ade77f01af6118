"""`make collect`: take submissions from a learning platform's zip file.

A submission replaces the earlier one as a whole, or not at all.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from autograder.instructor.classroom import read_roster
from autograder.instructor.collecting.archives import Archive, ArchiveError
from autograder.instructor.collecting.owners import Owners, TimesError
from autograder.instructor.collecting.platform_times import TimesTable
from autograder.instructor.collecting.platforms import NamePattern
from autograder.instructor.collecting.sorting import CollectedSubmission, sort_files
from autograder.instructor.commands import describe_no_file, printable, swap_folder
from autograder.instructor.course import (
    TIMES_FILE,
    ClassRules,
    CollectedTime,
    Course,
    WrittenTableError,
    add_collected_times,
    read_class_file,
    read_collected_times,
    read_times,
)
from shardlings.documents import with_noun
from shardlings.errors import ShortError


def _replace_submission(submission: CollectedSubmission, folder: Path, temporary: Path) -> None:
    """Move a submission's files into its folder.

    They are first put together elsewhere, so that the earlier submission stays if that fails.

    Args:
        submission: the submission.
        folder: its folder.
        temporary: a folder on the same disk that does not exist yet.

    Raises:
        OSError: the files cannot be moved there.
    """
    new = temporary / "new"
    for name, path in submission.files.items():
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, new / name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    swap_folder(folder, new, temporary / "earlier")


MAX_NAMED_FILES: Final = 20

MAX_NAMED_FILES_PER_STUDENT: Final = 4
"""So that one student's thousand files do not hide everybody else's."""


class CollectError(ShortError, RuntimeError):
    """Nothing can be collected; the message says why."""


def collect(
    course: Course, console: Console, file: Path, assignment: str = "", times: Path | None = None
) -> int:
    """Put the submissions in a zip file into `grading/submitted/`, and print a summary.

    Args:
        course: the course.
        console: where output is printed.
        file: a zip file from Canvas or Moodle, or one with a folder for each student.
        assignment: the only assignment to take; by default, notebooks are matched by their names.
        times: a platform's table of when submissions arrived, if there is one.

    Returns:
        The exit status: 1 if nothing was taken, else 0.

    Raises:
        CollectError: the file is not a zip file, or there is no such assignment.
        RosterError: the roster cannot be understood.
        ClassError: `class.toml` cannot be understood.
    """
    if assignment and assignment not in course.assignments():
        raise CollectError(
            f"There is no assignment {printable(assignment)}. There are "
            f"{', '.join(course.assignments())}."
        )
    if file == Path():  # `make collect` without FROM
        raise CollectError(
            "Say which file to take in: make collect FROM=submissions.zip. It is a zip file as "
            "Canvas or Moodle gives it, or one with a folder for each student."
        )
    if not file.is_file():
        raise CollectError(
            f"{describe_no_file(file)}. FROM= names a zip file as Canvas or Moodle gives it, or "
            f"one with a folder for each student."
        )
    if times is not None and not times.is_file():
        raise CollectError(f"{describe_no_file(times)}, which TIMES= names.")
    if file.suffix.lower() == ".csv":
        if times is not None:
            raise CollectError("FROM= and TIMES= both name a table of times: give one of them.")
        with course.hold_lock():
            return 0 if _collect_times(course, console, file, assignment) else 1
    with course.hold_lock():
        is_any_taken = _collect_submissions(course, console, file, assignment)
        has_times = times is None or _collect_times(course, console, times, assignment)
    return 0 if is_any_taken and has_times else 1


def _collect_submissions(course: Course, console: Console, file: Path, assignment: str) -> bool:
    """Take the submissions in a zip file, print a summary, and return whether there were any.

    Raises:
        CollectError: it is not a zip file.
        RosterError: the roster cannot be understood.
        ClassError: `class.toml` cannot be understood.
    """
    rules = read_class_file(course.grading, course.assignments())
    owners = Owners(read_roster(course, everybody=True), rules)
    pattern = _read_pattern(rules)
    refused: list[tuple[str, str]] = []

    def refuse(name: str, why: str) -> None:
        refused.append((name, why))

    course.grading.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".collect-", dir=course.grading) as folder:
        extracted = Path(folder, "taken")
        extracted.mkdir()
        archive = Archive(extracted, refuse, pattern)
        try:
            files = archive.take(file)
        except (ArchiveError, OSError) as error:
            raise CollectError(f"Nothing was taken. {printable(str(error))}") from None
        submissions = sort_files(
            files, owners, course.notebooks(), assignment, refuse, pattern=pattern
        )
        new = [submission for submission in submissions if not _is_unchanged(course, submission)]
        folders = [_folder(course, submission) for submission in new]
        replaced = {place for place in folders if place.exists()}
        for number, submission in enumerate(list(new)):
            place = _folder(course, submission)
            try:
                _replace_submission(submission, place, Path(folder, str(number)))
            except OSError as error:
                submissions.remove(submission)
                new.remove(submission)
                why = f"it could not be put into grading/submitted/ ({error.strerror or error})."
                if place in replaced:
                    why += " The earlier submission was kept."
                refuse(f"{submission.student}/{submission.assignment}", why)
    _add_marks(course, submissions, new, replaced)
    _print_submissions(course, console, file, submissions, new, replaced)
    _print_refused(console, refused, archive)
    return bool(submissions)


def _add_marks(
    course: Course,
    submissions: Sequence[CollectedSubmission],
    new: Sequence[CollectedSubmission],
    replaced: set[Path],
) -> None:
    """Record which submissions the platform marks as late, and which have replaced others.

    Args:
        course: the course.
        submissions: the submissions in the zip file.
        new: those that were not there already.
        replaced: the folders in which there was another submission before.
    """
    known = read_collected_times(course.grading)
    marks = {}
    for submission in submissions:
        earlier = known.get(submission.student, {}).get(submission.assignment, CollectedTime())
        is_other = submission in new and _folder(course, submission) in replaced
        marks[submission.student, submission.assignment] = CollectedTime(
            earlier.time,
            earlier.source,
            submission.is_late,
            replaced=earlier.time is not None and (earlier.replaced or is_other),
        )
    add_collected_times(course.grading, marks)


def _read_pattern(rules: ClassRules) -> NamePattern | None:
    """Return the form of the names of files that the class has; None if it has none.

    Raises:
        CollectError: it is no pattern.
    """
    try:
        return NamePattern(rules.platforms.collect.names) if rules.platforms.collect.names else None
    except ValueError as error:
        raise CollectError(
            f"Nothing was taken. In grading/class.toml, [collect] has names = "
            f"{printable(rules.platforms.collect.names)!r}, and {error}."
        ) from None


def _collect_times(course: Course, console: Console, file: Path, assignment: str) -> bool:
    """Take the times in a platform's table, print a summary, and return whether there were any.

    Raises:
        CollectError: it is no such table.
        ClassError: one of the class's files cannot be understood.
    """
    rules = read_class_file(course.grading, course.assignments())
    owners = Owners(read_roster(course, everybody=True), rules)
    refused: list[str] = []
    submissions, known = course.submissions(everybody=True), read_collected_times(course.grading)
    table = TimesTable(file, assignment, owners, rules, submissions, known)
    try:
        times = table.read(datetime.now(UTC), refused.append)
    except (TimesError, WrittenTableError) as error:
        raise CollectError(f"No times were taken. {error}") from None
    add_collected_times(course.grading, times)
    _print(console, f"{file.name}: {with_noun(len(times), 'time')} taken.")
    written = read_times(course.grading, rules.zone)
    if kept := sorted(pair[0] for pair in times if pair in written):
        _print(console, f"  grading/{TIMES_FILE} has other times, which count: {', '.join(kept)}")
    for sentence in refused[:MAX_NAMED_FILES]:
        _print(console, f"  {sentence}")
    if len(refused) > MAX_NAMED_FILES:
        _print(console, f"  and {len(refused) - MAX_NAMED_FILES:,} more lines like these.")
    return bool(times)


def _folder(course: Course, submission: CollectedSubmission) -> Path:
    return course.submitted / submission.student / submission.assignment


def _is_unchanged(course: Course, submission: CollectedSubmission) -> bool:
    """Check whether the same files are in the submission's folder already."""
    folder = _folder(course, submission)
    names = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    if names != {Path(name) for name in submission.files}:
        return False
    pairs = submission.files.items()
    return all((folder / name).read_bytes() == path.read_bytes() for name, path in pairs)


def _print_submissions(
    course: Course,
    console: Console,
    file: Path,
    submissions: Sequence[CollectedSubmission],
    new: Sequence[CollectedSubmission],
    replaced: set[Path],
) -> None:
    name = printable(file.name)
    if not submissions:
        _print(console, f"{name}: no submission was found in it.")
    for assignment in sorted({submission.assignment for submission in submissions}):
        of_assignment = [s for s in submissions if s.assignment == assignment]
        taken = [s for s in of_assignment if s in new]
        first = [s for s in taken if _folder(course, s) not in replaced]
        _print(console, f"{name}, {assignment}: {with_noun(len(of_assignment), 'submission')}.")
        _print_students(console, "new", first)
        _print_students(console, "in place of an earlier one", [s for s in taken if s not in first])
        _print_students(console, "there already", [s for s in of_assignment if s not in new])
        late = [s for s in of_assignment if s.is_late]
        _print_students(console, "late, as the platform says", late)


def _print_students(
    console: Console, title: str, submissions: Sequence[CollectedSubmission]
) -> None:
    if submissions:
        names = ", ".join(submission.student for submission in submissions)
        _print(console, f"  {title} ({len(submissions)}): {names}")


def _print_refused(console: Console, refused: Sequence[tuple[str, str]], archive: Archive) -> None:
    if refused:
        were = "was" if len(refused) == 1 else "were"
        _print(console, f"{with_noun(len(refused), 'file')} {were} not taken:")
    shown = 0
    refused_by_uploader: Counter[str] = Counter()
    for name, why in refused:
        uploader = archive.uploader(PurePosixPath(name))
        refused_by_uploader[uploader] += 1
        if refused_by_uploader[uploader] <= MAX_NAMED_FILES_PER_STUDENT and shown < MAX_NAMED_FILES:
            shown += 1
            _print(console, f"  {name}: {why}")
    if len(refused) > shown:
        _print(console, f"  and {len(refused) - shown:,} more.")


def _print(console: Console, text: str) -> None:
    indent = len(text) - len(text.lstrip())
    console.print(Padding(Text(printable(text.strip())), (0, 0, 0, indent), expand=False))
