"""`make collect`: take submissions from a learning platform's zip file.

Each submission replaces what is there as a whole, or not at all.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from autograder.instructor.classroom import read_roster
from autograder.instructor.collecting.archives import Archive, ArchiveError
from autograder.instructor.collecting.sorting import CollectedSubmission, Owners, sort_files
from autograder.instructor.course import Course, printable


def move_into_place(one: CollectedSubmission, place: Path, aside: Path) -> None:
    """Put a submission in its place.

    It is put together elsewhere first, so that what there was is there still where that fails.

    Args:
        one: the submission, whose files are moved.
        place: its folder.
        aside: a folder that is not there yet, on the same disk.

    Raises:
        OSError: it cannot be put there.
    """
    new, earlier = aside / "new", aside / "earlier"
    for name, path in one.files.items():
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, new / name)
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.rename(earlier)
    try:
        new.rename(place)
    except BaseException:
        if earlier.exists():
            earlier.rename(place)
        raise


MAX_NAMED_FILES = 20

MAX_NAMED_FILES_PER_STUDENT = 4
"""How many of them may be of one student, whose thousand files are not to hide everybody else's."""


class CollectError(RuntimeError):
    """Nothing can be collected; the message says why."""


def collect(course: Course, console: Console, file: Path, assignment: str = "") -> int:
    """Take in the submissions in a zip file, and say what was taken and what not.

    Args:
        course: where.
        console: what to write on.
        file: as Canvas or Moodle gives it, or with a folder for each student.
        assignment: the only one to take; else the names of notebooks say which.

    Returns:
        The exit status: 0, or 1 where nothing was taken.

    Raises:
        CollectError: the file is no zip file, or the assignment is none.
        RosterError: the roster cannot be understood.
    """
    if assignment and assignment not in course.assignments():
        raise CollectError(
            f"There is no assignment {printable(assignment)}. There are "
            f"{', '.join(course.assignments())}."
        )
    if file == Path():  # make collect, and no more
        raise CollectError(
            "Say which file to take in: make collect FROM=submissions.zip. It is a zip file as "
            "Canvas or Moodle gives it, or one with a folder for each student."
        )
    if not file.is_file():
        raise CollectError(
            f"There is no file {printable(str(file))}. FROM= names a zip file as Canvas or Moodle "
            f"gives it, or one with a folder for each student."
        )
    with course.alone():
        people = read_roster(course)
        refused: list[tuple[str, str]] = []
        course.grading.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".collect-", dir=course.grading) as folder:
            taken = Path(folder, "taken")
            taken.mkdir()

            def refuse(name: str, why: str) -> None:
                refused.append((name, why))

            archive = Archive(taken, refuse)
            try:
                files = archive.take(file)
            except (ArchiveError, OSError) as error:
                raise CollectError(f"Nothing was taken. {printable(str(error))}") from None
            found = sort_files(files, Owners(people), course.assignments(), assignment, refuse)
            news = [one for one in found if not _is_there(course, one)]
            again = {_place(course, one) for one in news if _place(course, one).exists()}
            for number, one in enumerate(list(news)):
                try:
                    move_into_place(one, _place(course, one), Path(folder, str(number)))
                except OSError as error:
                    found.remove(one)
                    news.remove(one)
                    refuse(
                        f"{one.student}/{one.assignment}",
                        f"it could not be put into grading/submitted/ ({error.strerror or error}). "
                        f"What was there is there still.",
                    )
        _say(course, console, file, found, news, again)
        _say_refused(console, refused, archive)
    return 0 if found else 1


def _place(course: Course, one: CollectedSubmission) -> Path:
    return course.submitted / one.student / one.assignment


def _is_there(course: Course, one: CollectedSubmission) -> bool:
    """Whether just this lies there already."""
    place = _place(course, one)
    there = {path.relative_to(place) for path in place.rglob("*") if path.is_file()}
    if there != {Path(name) for name in one.files}:
        return False
    return all((place / name).read_bytes() == path.read_bytes() for name, path in one.files.items())


def _say(
    course: Course,
    console: Console,
    file: Path,
    found: Sequence[CollectedSubmission],
    news: Sequence[CollectedSubmission],
    again: set[Path],
) -> None:
    name = printable(file.name)
    if not found:
        _print(console, f"{name}: no submission was found in it.")
    for assignment in sorted({one.assignment for one in found}):
        of = [one for one in found if one.assignment == assignment]
        new = [one for one in of if one in news and _place(course, one) not in again]
        replaced = [one for one in of if one in news and _place(course, one) in again]
        _print(console, f"{name}, {assignment}: {_count(len(of))}.")
        _tell(console, "new", new)
        _tell(console, "in place of an earlier one", replaced)
        _tell(console, "there already", [one for one in of if one not in news])
        _tell(console, "late, as the platform says", [one for one in of if one.late])


def _tell(console: Console, what: str, these: Sequence[CollectedSubmission]) -> None:
    if these:
        names = ", ".join(one.student for one in these)
        _print(console, f"  {what} ({len(these)}): {names}")


def _count(number: int) -> str:
    return "1 submission" if number == 1 else f"{number} submissions"


def _say_refused(console: Console, refused: Sequence[tuple[str, str]], archive: Archive) -> None:
    if refused:
        files = "1 file was" if len(refused) == 1 else f"{len(refused)} files were"
        _print(console, f"{files} not taken:")
    shown = 0
    of_each: Counter[str] = Counter()
    for name, why in refused:
        whose = archive.uploader(PurePosixPath(name))
        of_each[whose] += 1
        if of_each[whose] <= MAX_NAMED_FILES_PER_STUDENT and shown < MAX_NAMED_FILES:
            shown += 1
            _print(console, f"  {name}: {why}")
    if len(refused) > shown:
        _print(console, f"  and {len(refused) - shown:,} more.")


def _print(console: Console, text: str) -> None:
    indent = len(text) - len(text.lstrip())
    console.print(Padding(Text(printable(text.strip())), (0, 0, 0, indent), expand=False))
