"""Sort an archive's files by student and assignment, with the roster to say who is who."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from autograder.instructor.classroom import MOODLE_ID_PREFIX, Person
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
"""What the name of a student's folder may not have in it."""

MAX_ID_CHARACTERS: Final = 128
"""nbgrader's limit."""

NUMBER_COLUMNS: Final = {
    "Canvas": ("canvas_id", "lms_user_id"),
    "Moodle": ("moodle_id", "lms_user_id"),
}
"""The columns of a roster that have a platform's number of somebody."""


class UnknownOwnerError(RuntimeError):
    """It cannot be said whose a file is; the message says why."""


class Owners:
    """Knows the students of a class.

    Args:
        people: the roster; where it is empty, students are called as the platform calls them.
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
        """Whether somebody in the roster is called so."""
        return _key(owned.name) in self.by_name

    def has_number(self, student: str, platform: str, number: str) -> bool:
        """Whether the roster says that a student has this number on a platform."""
        return number in self.numbers.get((platform, student), ())

    def id_of(self, owned: OwnedFile) -> str:
        """The id of the student whose a file is.

        Raises:
            UnknownOwnerError: nobody is called so, or more than one is.
        """
        if not self.people:
            return _own_name(owned)
        shown = printable(owned.name)
        if owned.user:
            mine = self.by_number.get((owned.platform, owned.user), set())
            if len(mine) == 1:
                return next(iter(mine))
            shown = f"{shown} ({owned.platform}'s number {owned.user})"
        exact = self.ids.get(unicodedata.normalize("NFC", owned.name))
        if exact is not None and owned.platform == "folders":
            return exact
        found = self.by_name.get(_key(owned.name), set())
        if len(found) > 1:
            # Moodle's number is another one in each assignment, so it finds nobody by itself
            them = {one for one in found if self.has_number(one, owned.platform, owned.participant)}
            found = them or found
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
    """A platform's numbers of somebody; Moodle has one for each assignment."""
    for column, said in person.others.items():
        is_one = column in NUMBER_COLUMNS[platform] or (
            platform == "Moodle" and column.startswith(MOODLE_ID_PREFIX)
        )
        if is_one and said.strip():
            yield said.strip()


def _own_name(owned: OwnedFile) -> str:
    """What somebody's folder is called where there is no roster: as on the platform.

    Raises:
        UnknownOwnerError: no folder can be called so.
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
    """What a platform may call somebody, without all that is no letter or digit."""
    yield _key(person.id)
    yield from (_key(person.email), _key(person.email.partition("@")[0])) if person.email else ()
    for column in ("username", "login", "kaggle", "kaggle_id"):
        if person.others.get(column):
            yield _key(person.others[column])
    parts = person.name.replace(",", " ").split()
    for first in range(len(parts)):  # first name first, or last name first
        yield _key("".join(parts[first:] + parts[:first]))


def _key(name: str) -> str:
    """A name's letters and digits. Accents go from Latin letters; elsewhere, marks are vowels."""
    kept, latin = [], True
    for c in unicodedata.normalize("NFKD", name).casefold():
        if c.isalnum():
            kept.append(c)
            latin = unicodedata.name(c, "LATIN").startswith("LATIN")
        elif not latin and unicodedata.category(c) in ("Mn", "Mc"):
            kept.append(c)
    return "".join(kept)


@dataclass
class CollectedSubmission:
    """What a student has handed in of an assignment.

    Attributes:
        files: where each file lies, by the name that it is to have.
        late: whether the platform calls it late.
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
        """The platform's number of whose it is, be it for this assignment alone."""
        return self.owned.user or self.owned.participant


def sort_files(
    files: Iterable[ExtractedFile],
    owners: Owners,
    assignments: Sequence[str],
    wanted: str,
    refuse: Refuse,
) -> list[CollectedSubmission]:
    """Find out whose each file is, and of which assignment.

    Args:
        files: those of an archive.
        owners: who there is.
        assignments: the names of all assignments.
        wanted: the only one that is to be taken; empty where any is.
        refuse: what to do with the name of a file that is not taken, and the reason.
    """
    theirs: dict[str, list[_File]] = {}
    names: dict[str, set[str]] = {}
    for found, name in _without_outer(list(files), owners, assignments):
        who = parse_owner(name)
        cut = len(found.name.parts) - len(name.parts)
        if found.packed and found.packed <= cut + (who is None or who.platform == "folders"):
            refuse(
                str(found.name),
                "it does not say whose it is: its archive is in no student's folder.",
            )
            continue
        if who is None:
            refuse(str(found.name), "it does not say whose it is: no student is in its name.")
            continue
        try:
            student = owners.id_of(who)
        except UnknownOwnerError as error:
            refuse(str(found.name), str(error))
            continue
        theirs.setdefault(student, []).append(_File(found, who))
        names.setdefault(student.casefold(), set()).add(student)
    handed_in = []
    for student, all_of_them in sorted(theirs.items()):
        mine = _of_one_number(student, all_of_them, owners, refuse)
        if len(names[student.casefold()]) > 1:  # one folder, on some systems
            alike = ", ".join(sorted(names[student.casefold()]))
            for each in mine:
                refuse(str(each.found.name), f"{alike} differ in capital letters alone.")
            continue
        handed_in += _of_student(student, mine, assignments, wanted, refuse)
    return handed_in


def _of_one_number(student: str, files: list[_File], owners: Owners, refuse: Refuse) -> list[_File]:
    """A student's files, without those of somebody who is called the same.

    A platform has one number for each person in an archive. Of two, the roster may say which is the
    student's; else nobody knows.
    """
    numbers: dict[str, set[str]] = {}
    for file in files:
        if file.number:
            numbers.setdefault(file.owned.platform, set()).add(file.number)
    taken = []
    for file in files:
        platform = file.owned.platform
        several = sorted(numbers.get(platform, ()), key=lambda number: (len(number), number))
        theirs = [one for one in several if owners.has_number(student, platform, one)]
        if len(several) < 2 or file.number in theirs:
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
    """Files, with their names without a folder that is around all of them, and is no student's."""
    outer = {file.name.parts[0] for file in files}
    all_in_one = len(outer) == 1 and all(len(file.name.parts) > 2 for file in files)
    of_one_student = any(
        file.name.parts[1] in assignments or _says_whose(file.name, owners)
        for file in files
        if all_in_one
    ) or all(file.packed in (1, 2) and _is_nobodys(file.name) for file in files)
    cut = 1 if all_in_one and not of_one_student else 0
    return [(file, PurePosixPath(*file.name.parts[cut:])) for file in files]


def _is_nobodys(name: PurePosixPath) -> bool:
    """Whether there is nothing of a platform's after a name's first folder."""
    who = parse_owner(PurePosixPath(*name.parts[1:]))
    return who is None or who.platform == "folders"


def _says_whose(name: PurePosixPath, owners: Owners) -> bool:
    """Whether a name begins with what is a platform's, or a student's."""
    who = parse_owner(name)
    return who is not None and (who.platform != "folders" or owners.knows(who))


def _of_student(
    student: str, files: list[_File], assignments: Sequence[str], wanted: str, refuse: Refuse
) -> list[CollectedSubmission]:
    notebooks: dict[str, list[_File]] = {}
    mine = [file for file in files if file.is_notebook]
    for file in mine:
        assignment = _assignment(file.owned.file, assignments)
        if not assignment and wanted and len(mine) == 1:
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
    handed_in = {}
    for assignment, several in sorted(notebooks.items()):
        last = _last(several, refuse)
        if last is not None:
            one = CollectedSubmission(student, assignment, last.owned.late)
            one.files[PurePosixPath(f"{assignment}.ipynb")] = last.found.path
            handed_in[assignment] = one
    _add_others([file for file in files if not file.is_notebook], handed_in, assignments, refuse)
    return list(handed_in.values())


def _assignment(file: PurePosixPath, assignments: Sequence[str]) -> str:
    """Which assignment a notebook is of, by its name or else by its folder's."""
    for name in (file.stem, split_copy_number(file.stem)[0], *reversed(file.parts[:-1])):
        if name in assignments:
            return name
    return ""


def _last(several: list[_File], refuse: Refuse) -> _File | None:
    """The notebook that was handed in last, of several of a student's; the others are told."""
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


def _add_others(
    others: list[_File],
    handed_in: dict[str, CollectedSubmission],
    assignments: Sequence[str],
    refuse: Refuse,
) -> None:
    """Put files beside the notebook that they were handed in with."""
    for file in sorted(others, key=lambda file: file.owned.number):
        folders = [name for name in file.owned.file.parts[:-1] if name in assignments]
        place = folders[-1] if folders else next(iter(handed_in), "")
        if place not in handed_in or (not folders and len(handed_in) > 1):
            refuse(str(file.found.name), "it does not say which notebook it belongs to.")
            continue
        plain = file.owned.file
        if file.owned.platform == "Canvas":
            plain = plain.with_stem(split_copy_number(plain.stem)[0])
        if plain.name.startswith(".") or plain.name.casefold() in EXCHANGE_FILES:
            refuse(str(file.found.name), RESERVED_NAME)
            continue
        handed_in[place].files[PurePosixPath(plain.name)] = file.found.path
