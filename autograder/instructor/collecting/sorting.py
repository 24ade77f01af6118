"""What of an archive goes to whom: for each student and assignment one notebook, and its files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from autograder.instructor.collecting.archives import NOT_THEIRS, Found, Refuse
from autograder.instructor.collecting.owners import Owners, UnknownOwnerError
from autograder.instructor.collecting.platforms import Owned, again, owned
from autograder.instructor.course import EXCHANGED


@dataclass
class HandedIn:
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
    found: Found
    owned: Owned

    @property
    def is_notebook(self) -> bool:
        return self.found.name.suffix == ".ipynb"

    @property
    def number(self) -> str:
        """The platform's number of whose it is, be it for this assignment alone."""
        return self.owned.user or self.owned.participant


def sort(
    files: Iterable[Found],
    owners: Owners,
    assignments: Sequence[str],
    wanted: str,
    refuse: Refuse,
) -> list[HandedIn]:
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
        who = owned(name)
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
    files: list[Found], owners: Owners, assignments: Sequence[str]
) -> list[tuple[Found, PurePosixPath]]:
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
    who = owned(PurePosixPath(*name.parts[1:]))
    return who is None or who.platform == "folders"


def _says_whose(name: PurePosixPath, owners: Owners) -> bool:
    """Whether a name begins with what is a platform's, or a student's."""
    who = owned(name)
    return who is not None and (who.platform != "folders" or owners.knows(who))


def _of_student(
    student: str, files: list[_File], assignments: Sequence[str], wanted: str, refuse: Refuse
) -> list[HandedIn]:
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
            one = HandedIn(student, assignment, last.owned.late)
            one.files[PurePosixPath(f"{assignment}.ipynb")] = last.found.path
            handed_in[assignment] = one
    _add_others([file for file in files if not file.is_notebook], handed_in, assignments, refuse)
    return list(handed_in.values())


def _assignment(file: PurePosixPath, assignments: Sequence[str]) -> str:
    """Which assignment a notebook is of, by its name or else by its folder's."""
    for name in (file.stem, again(file.stem)[0], *reversed(file.parts[:-1])):
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
    others: list[_File], handed_in: dict[str, HandedIn], assignments: Sequence[str], refuse: Refuse
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
            plain = plain.with_stem(again(plain.stem)[0])
        if plain.name.startswith(".") or plain.name.casefold() in EXCHANGED:
            refuse(str(file.found.name), NOT_THEIRS)
            continue
        handed_in[place].files[PurePosixPath(plain.name)] = file.found.path
