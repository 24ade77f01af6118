"""Sort an archive's files by student and assignment, with the help of the roster."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from autograder.instructor.classroom import LOGIN_COLUMNS, MOODLE_ID_PREFIX, Person
from autograder.instructor.collecting.archives import (
    RESERVED_NAME,
    ExtractedFile,
    OwnedFile,
    Refuse,
    parse_owner,
    split_copy_number,
)
from autograder.instructor.course import EXCHANGE_FILES, printable

FORBIDDEN_CHARACTERS: Final = set('/\\*?[]:"<>|')
"""Characters that the name of a student's folder must not have."""

MAX_ID_CHARACTERS: Final = 128
"""nbgrader's limit."""

NUMBER_COLUMNS: Final = {
    "Canvas": ("canvas_id", "lms_user_id"),
    "Moodle": ("moodle_id", "lms_user_id"),
}
"""The roster's columns with a student's number on each platform."""


class UnknownOwnerError(RuntimeError):
    """The student who owns a file cannot be determined; the message says why."""


class Owners:
    """Finds the student who owns a file.

    Args:
        people: the roster; if it is empty, students are named as the platform names them.
    """

    def __init__(self, people: Sequence[Person]) -> None:
        self.people = people
        self.ids = {unicodedata.normalize("NFC", person.id): person.id for person in people}
        self.by_number: dict[tuple[str, str], set[str]] = {}
        self.numbers: dict[tuple[str, str], set[str]] = {}
        self.by_name: dict[str, set[str]] = {}
        for person in people:
            for platform in NUMBER_COLUMNS:
                for number in _numbers(person, platform):
                    self.by_number.setdefault((platform, number), set()).add(person.id)
                    self.numbers.setdefault((platform, person.id), set()).add(number)
            for name in _names(person):
                self.by_name.setdefault(name, set()).add(person.id)

    def knows(self, owned: OwnedFile) -> bool:
        """Check whether the roster has a student of this name."""
        return _key(owned.name) in self.by_name

    def find_names(self, name: str) -> set[str]:
        """Return the ids of the students who have a name, according to the roster."""
        return self.by_name.get(_key(name), set())

    def has_number(self, student: str, platform: str, number: str) -> bool:
        """Check whether a student has this number on a platform, according to the roster."""
        return number in self.numbers.get((platform, student), ())

    def id_of(self, owned: OwnedFile) -> str:
        """Return the id of the student who owns a file.

        Raises:
            UnknownOwnerError: no student has this name, or several have.
        """
        if not self.people:
            return _id_without_roster(owned)
        shown = printable(owned.name)
        if owned.user:
            with_number = self.by_number.get((owned.platform, owned.user), set())
            if len(with_number) == 1:
                return next(iter(with_number))
            shown = f"{shown} ({owned.platform}'s number {owned.user})"
        exact = self.ids.get(unicodedata.normalize("NFC", owned.name))
        if exact is not None and owned.platform == "folders":
            return exact
        found = self.by_name.get(_key(owned.name), set())
        if len(found) > 1:
            # Moodle's number differs between assignments, so it only decides between namesakes
            platform, participant = owned.platform, owned.participant
            numbered = {id for id in found if self.has_number(id, platform, participant)}
            found = numbered or found
        if len(found) > 1:
            raise UnknownOwnerError(
                f"the roster has more than one {shown}. A column {owned.platform.lower()}_id would "
                f"tell them apart, or put it into their folder yourself."
            )
        if not found:
            raise UnknownOwnerError(f"nobody in the roster is called {shown}.")
        student = next(iter(found))
        others = self.numbers.get((owned.platform, student), set())
        if owned.user and others and owned.user not in others:
            raise UnknownOwnerError(
                f"{shown} is called like {printable(student)}, whose number there is "
                f"{printable(' or '.join(sorted(others)))} by the roster."
            )
        return student


def _numbers(person: Person, platform: str) -> Iterator[str]:
    """Yield a person's numbers on a platform; Moodle has one for each assignment."""
    for column, cell in person.others.items():
        is_number = column in NUMBER_COLUMNS[platform] or (
            platform == "Moodle" and column.startswith(MOODLE_ID_PREFIX)
        )
        if is_number and cell.strip():
            yield cell.strip()


def _id_without_roster(owned: OwnedFile) -> str:
    """Return the name of a student's folder if there is no roster: their name on the platform.

    Raises:
        UnknownOwnerError: no folder can have that name.
    """
    name = unicodedata.normalize("NFC", owned.name)
    name = f"{name}_{owned.user}" if owned.user else name
    if (
        not name.isprintable()
        or name.startswith(".")
        or set(name) & FORBIDDEN_CHARACTERS
        or not 0 < len(name) <= MAX_ID_CHARACTERS
    ):
        raise UnknownOwnerError(
            f"no folder can be called {printable(name)[:MAX_ID_CHARACTERS]!r}. A roster "
            f"(grading/roster.csv) would say who that is."
        )
    return name


def _names(person: Person) -> Iterator[str]:
    """Yield the names that a platform may have for a person, as `_key` returns them."""
    yield _key(person.id)
    yield from (_key(person.email), _key(person.email.partition("@")[0])) if person.email else ()
    for column in LOGIN_COLUMNS:
        if person.others.get(column):
            yield _key(person.others[column])
    parts = person.name.replace(",", " ").split()
    for first in range(len(parts)):  # first name first, or last name first
        yield _key("".join(parts[first:] + parts[:first]))


def _key(name: str) -> str:
    """Return a name's letters and digits, in lower case and without accents."""
    kept, is_latin = [], True
    for c in unicodedata.normalize("NFKD", name).casefold():
        if c.isalnum():
            kept.append(c)
            is_latin = unicodedata.name(c, "LATIN").startswith("LATIN")
        elif not is_latin and unicodedata.category(c) in ("Mn", "Mc"):  # marks may be vowels
            kept.append(c)
    return "".join(kept)


@dataclass
class CollectedSubmission:
    """A student's submission of an assignment, found in an archive.

    Attributes:
        files: the extracted files, by the name that each gets in the submission's folder.
        late: whether the platform marks it as late.
    """

    student: str
    assignment: str
    late: bool = False
    files: dict[PurePosixPath, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class _File:
    found: ExtractedFile
    owned: OwnedFile

    @property
    def is_notebook(self) -> bool:
        return self.found.name.suffix == ".ipynb"

    @property
    def number(self) -> str:
        """The owner's number on the platform, or in this assignment alone."""
        return self.owned.user or self.owned.participant


def sort_files(
    files: Iterable[ExtractedFile],
    owners: Owners,
    assignments: Sequence[str],
    wanted: str,
    refuse: Refuse,
) -> list[CollectedSubmission]:
    """Find each file's student and assignment, and put submissions together.

    Args:
        files: the files of an archive.
        owners: finds the student who owns a file.
        assignments: the names of all assignments.
        wanted: the only assignment to take; empty for all.
        refuse: called with the name of a file that is rejected, and the reason.
    """
    files_of: dict[str, list[_File]] = {}
    spellings: dict[str, set[str]] = {}
    for found, name in _without_outer(list(files), owners, assignments):
        owned = parse_owner(name)
        dropped = len(found.name.parts) - len(name.parts)
        in_folder = owned is None or owned.platform == "folders"
        if found.packed and found.packed <= dropped + in_folder:
            refuse(
                str(found.name),
                "it does not say whose it is: its archive is in no student's folder.",
            )
            continue
        if owned is None:
            refuse(str(found.name), "it does not say whose it is: no student is in its name.")
            continue
        try:
            student = owners.id_of(owned)
        except UnknownOwnerError as error:
            refuse(str(found.name), str(error))
            continue
        files_of.setdefault(student, []).append(_File(found, owned))
        spellings.setdefault(student.casefold(), set()).add(student)
    submissions = []
    for student, all_files in sorted(files_of.items()):
        own_files = _without_namesakes(student, all_files, owners, refuse)
        if len(spellings[student.casefold()]) > 1:  # the same folder, on some systems
            names = ", ".join(sorted(spellings[student.casefold()]))
            for file in own_files:
                refuse(str(file.found.name), f"{names} differ in capital letters alone.")
            continue
        submissions += _make_submissions(student, own_files, assignments, wanted, refuse)
    return submissions


def _without_namesakes(
    student: str, files: list[_File], owners: Owners, refuse: Refuse
) -> list[_File]:
    """Return a student's files, without those of somebody with the same name.

    A platform has one number for each person in an archive. If files of one name have two numbers,
    the roster may have the student's; otherwise all of them are rejected.
    """
    numbers: dict[str, set[str]] = {}
    for file in files:
        if file.number:
            numbers.setdefault(file.owned.platform, set()).add(file.number)
    taken = []
    for file in files:
        platform = file.owned.platform
        several = sorted(numbers.get(platform, ()), key=lambda number: (len(number), number))
        in_roster = [n for n in several if owners.has_number(student, platform, n)]
        if len(several) < 2 or file.number in in_roster:
            taken.append(file)
            continue
        refuse(
            str(file.found.name),
            f"{platform} has {len(several)} people of this name, with the numbers "
            f"{' and '.join(several)}. A column {platform.lower()}_id in the roster would tell "
            f"them apart, or put each into a folder yourself.",
        )
    return taken


def _without_outer(
    files: list[ExtractedFile], owners: Owners, assignments: Sequence[str]
) -> list[tuple[ExtractedFile, PurePosixPath]]:
    """Return files with their names, without a folder around all of them that is no student's."""
    outer = {file.name.parts[0] for file in files}
    all_in_one = len(outer) == 1 and all(len(file.name.parts) > 2 for file in files)
    of_one_student = any(
        file.name.parts[1] in assignments or _names_owner(file.name, owners)
        for file in files
        if all_in_one
    ) or all(file.packed in (1, 2) and _has_no_platform(file.name) for file in files)
    dropped = 1 if all_in_one and not of_one_student else 0
    return [(file, PurePosixPath(*file.name.parts[dropped:])) for file in files]


def _has_no_platform(name: PurePosixPath) -> bool:
    """Check that the name without its first folder is not in a platform's form."""
    owned = parse_owner(PurePosixPath(*name.parts[1:]))
    return owned is None or owned.platform == "folders"


def _names_owner(name: PurePosixPath, owners: Owners) -> bool:
    """Check whether a name is in a platform's form, or begins with a known student's folder."""
    owned = parse_owner(name)
    return owned is not None and (owned.platform != "folders" or owners.knows(owned))


def _make_submissions(
    student: str, files: list[_File], assignments: Sequence[str], wanted: str, refuse: Refuse
) -> list[CollectedSubmission]:
    """Put a student's files together to submissions, one for each assignment."""
    notebooks: dict[str, list[_File]] = {}
    all_notebooks = [file for file in files if file.is_notebook]
    for file in all_notebooks:
        assignment = _find_assignment(file.owned.file, assignments)
        if not assignment and wanted and len(all_notebooks) == 1:
            assignment = wanted
        if not assignment:
            refuse(
                str(file.found.name),
                "its name is no assignment's. Rename it, or say ASSIGNMENT= where it is the only "
                "notebook of its student.",
            )
        elif wanted and assignment != wanted:
            refuse(str(file.found.name), f"it is of {assignment}, which is not asked for.")
        else:
            notebooks.setdefault(assignment, []).append(file)
    submissions = {}
    for assignment, several in sorted(notebooks.items()):
        last = _choose_last(several, refuse)
        if last is not None:
            submission = CollectedSubmission(student, assignment, last.owned.late)
            submission.files[PurePosixPath(f"{assignment}.ipynb")] = last.found.path
            submissions[assignment] = submission
    other_files = [file for file in files if not file.is_notebook]
    _add_files(other_files, submissions, assignments, refuse)
    return list(submissions.values())


def _find_assignment(file: PurePosixPath, assignments: Sequence[str]) -> str:
    """Find a notebook's assignment by the notebook's name, or else by its folder's."""
    for name in (file.stem, split_copy_number(file.stem)[0], *reversed(file.parts[:-1])):
        if name in assignments:
            return name
    return ""


def _choose_last(several: list[_File], refuse: Refuse) -> _File | None:
    """Choose the notebook that was submitted last, and reject the others."""
    last = max(file.owned.number for file in several)
    latest = [file for file in several if file.owned.number == last]
    for file in several:
        if file.owned.number != last:
            refuse(str(file.found.name), "the same student has handed in a later one.")
    if len(latest) == 1:
        return latest[0]
    for file in latest:
        refuse(
            str(file.found.name),
            f"there are {len(latest)} of the same student and assignment, and nothing says which "
            f"is the last. Two students of one name are told apart by a roster.",
        )
    return None


def _add_files(
    files: list[_File],
    submissions: dict[str, CollectedSubmission],
    assignments: Sequence[str],
    refuse: Refuse,
) -> None:
    """Add files that are no notebooks to the submission that they belong to."""
    for file in sorted(files, key=lambda file: file.owned.number):
        folders = [name for name in file.owned.file.parts[:-1] if name in assignments]
        assignment = folders[-1] if folders else next(iter(submissions), "")
        if assignment not in submissions or (not folders and len(submissions) > 1):
            refuse(str(file.found.name), "it does not say which notebook it belongs to.")
            continue
        path = file.owned.file
        if file.owned.platform == "Canvas":
            path = path.with_stem(split_copy_number(path.stem)[0])
        if path.name.startswith(".") or path.name.casefold() in EXCHANGE_FILES:
            refuse(str(file.found.name), RESERVED_NAME)
            continue
        submissions[assignment].files[PurePosixPath(path.name)] = file.found.path
