"""Sort an archive's files by student and assignment, with the help of the roster."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from autograder.instructor.collecting.archives import (
    NOTEBOOK_NAME,
    RESERVED_NAME,
    Assigned,
    ExtractedFile,
    Refuse,
    find_assignment,
)
from autograder.instructor.collecting.owners import OwnedFile, Owners, Platform, UnknownOwnerError
from autograder.instructor.collecting.platforms import FOLDERS, NamePattern, parse_owner
from autograder.instructor.commands import printable
from autograder.instructor.course import EXCHANGE_FILES, is_accepted_file


@dataclass
class CollectedSubmission:
    """A student's submission of an assignment, found in an archive.

    Attributes:
        files: the extracted files, by the name that each gets in the submission's folder.
        is_late: whether the platform marks it as late.
    """

    student: str
    assignment: str
    is_late: bool = False
    files: dict[PurePosixPath, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class _File:
    extracted: ExtractedFile
    owned: OwnedFile
    assignment: str

    @property
    def is_notebook(self) -> bool:
        return NOTEBOOK_NAME.fullmatch(self.extracted.name.name) is not None


def sort_files(
    files: Iterable[ExtractedFile],
    owners: Owners,
    notebooks: Mapping[str, str],
    wanted: str,
    refuse: Refuse,
    pattern: NamePattern | None = None,
) -> list[CollectedSubmission]:
    """Find each file's student and assignment, and put submissions together.

    Args:
        files: the files of an archive.
        owners: finds the student who owns a file.
        notebooks: the assignment of each notebook, by name.
        wanted: the only assignment to take; empty for all.
        refuse: called with the name of a file that is rejected, and the reason.
        pattern: the form of the names, if the class has one of its own.
    """
    files_of: dict[str, list[_File]] = {}
    spellings: dict[str, set[str]] = {}
    named = _without_outer(list(files), owners, {*notebooks.values()}, pattern)
    only = wanted or _find_only_assignment((name for _, name in named), notebooks, pattern)
    for extracted, name in named:
        owned = parse_owner(name, pattern)
        dropped = len(extracted.name.parts) - len(name.parts)
        is_in_folder = owned is None or owned.platform is FOLDERS
        if extracted.packed and extracted.packed <= dropped + is_in_folder:
            refuse(
                str(extracted.name),
                "it does not say whose it is: its archive is in no student's folder.",
            )
            continue
        if owned is None:
            why = (
                "no student is in its name."
                if pattern is None
                else "it is not named as [collect] in grading/class.toml says."
            )
            refuse(str(extracted.name), f"it does not say whose it is: {why}")
            continue
        assigned = find_assignment(owned.file, notebooks)
        assignment = assigned.assignment if assigned else only
        try:
            student = owners.id_of(owned, assignment)
        except UnknownOwnerError as error:
            refuse(str(extracted.name), str(error))
            continue
        files_of.setdefault(student, []).append(_File(extracted, owned, assignment))
        spellings.setdefault(student.casefold(), set()).add(student)
    submissions = []
    for student, all_files in sorted(files_of.items()):
        own_files = _without_namesakes(student, all_files, owners, refuse)
        if len(spellings[student.casefold()]) > 1:  # the same folder, on some systems
            names = ", ".join(sorted(spellings[student.casefold()]))
            for file in own_files:
                refuse(str(file.extracted.name), f"{names} differ in capital letters alone.")
            continue
        submissions += _make_submissions(student, own_files, notebooks, wanted, refuse)
    return submissions


def _without_namesakes(
    student: str, files: list[_File], owners: Owners, refuse: Refuse
) -> list[_File]:
    """Return a student's files, without those of somebody with the same name.

    A platform has one number for each person in an archive. If files of one name have two numbers,
    the roster may have the student's; otherwise all of them are rejected.
    """
    numbers: dict[Platform, set[str]] = {}
    for file in files:
        if file.owned.number:
            numbers.setdefault(file.owned.platform, set()).add(file.owned.number)
    taken = []
    for file in files:
        platform = file.owned.platform
        several = sorted(numbers.get(platform, ()), key=lambda number: (len(number), number))
        if len(several) < 2 or owners.has_number(student, file.owned, file.assignment):
            taken.append(file)
            continue
        refuse(
            str(file.extracted.name),
            f"{platform.name} has {len(several)} people of this name, with the numbers "
            f"{' and '.join(several)}. {platform.advise_on_namesakes(owners.rules)}",
        )
    return taken


def _find_only_assignment(
    names: Iterable[PurePosixPath], notebooks: Mapping[str, str], pattern: NamePattern | None
) -> str:
    """Return the assignment of all notebooks in an archive; empty if there are several."""
    owned = (parse_owner(name, pattern) for name in names if NOTEBOOK_NAME.fullmatch(name.name))
    assigned = {find_assignment(each.file, notebooks) for each in owned if each is not None}
    only = {each.assignment for each in assigned if each is not None}
    return only.pop() if len(only) == 1 else ""


def _without_outer(
    files: list[ExtractedFile],
    owners: Owners,
    assignments: Collection[str],
    pattern: NamePattern | None,
) -> list[tuple[ExtractedFile, PurePosixPath]]:
    """Return files with their names, without a folder around all of them that is no student's."""
    outer = {file.name.parts[0] for file in files}
    is_all_in_one = len(outer) == 1 and all(len(file.name.parts) > 2 for file in files)
    is_of_one_student = any(
        file.name.parts[1] in assignments or _names_owner(file.name, owners, pattern)
        for file in files
        if is_all_in_one
    ) or all(file.packed in (1, 2) and _has_no_platform(file.name, pattern) for file in files)
    dropped = 1 if is_all_in_one and not is_of_one_student else 0
    return [(file, PurePosixPath(*file.name.parts[dropped:])) for file in files]


def _has_no_platform(name: PurePosixPath, pattern: NamePattern | None) -> bool:
    """Check that the name without its first folder is not in a platform's form."""
    owned = parse_owner(PurePosixPath(*name.parts[1:]), pattern)
    return owned is None or owned.platform is FOLDERS


def _names_owner(name: PurePosixPath, owners: Owners, pattern: NamePattern | None) -> bool:
    """Check whether a name is in a platform's form, or begins with a known student's folder."""
    owned = parse_owner(name, pattern)
    return owned is not None and (owned.platform is not FOLDERS or owners.knows(owned))


def _make_submissions(
    student: str, files: list[_File], notebooks: Mapping[str, str], wanted: str, refuse: Refuse
) -> list[CollectedSubmission]:
    """Put a student's files together to submissions, one for each assignment."""
    candidates: dict[tuple[str, str], list[tuple[_File, Assigned]]] = {}
    all_notebooks = [file for file in files if file.is_notebook]
    for file in all_notebooks:
        assigned = find_assignment(file.owned.file, notebooks)
        if assigned is None and wanted and len(all_notebooks) == 1:
            assigned = Assigned(wanted, wanted)
        if assigned is None:
            refuse(
                str(file.extracted.name),
                "its name is no assignment's. Rename it, or say ASSIGNMENT= where it is the only "
                "notebook of its student.",
            )
        elif wanted and assigned.assignment != wanted:
            why = f"it is of {assigned.assignment}, which is not asked for."
            refuse(str(file.extracted.name), why)
        else:
            place = assigned.assignment, assigned.notebook
            candidates.setdefault(place, []).append((file, assigned))
    submissions: dict[str, CollectedSubmission] = {}
    folders = {}
    for (assignment, notebook), several in sorted(candidates.items()):
        last = _choose_last(several, refuse)
        if last is not None:
            submission = submissions.setdefault(
                assignment, CollectedSubmission(student, assignment)
            )
            submission.is_late |= last.owned.is_late
            submission.files[PurePosixPath(f"{notebook}.ipynb")] = last.extracted.path
            if assignment not in folders or notebook == assignment:
                folders[assignment] = last.owned.file.parent
    other_files = [file for file in files if not file.is_notebook]
    _add_files(other_files, submissions, folders, refuse)
    return list(submissions.values())


def _choose_last(several: list[tuple[_File, Assigned]], refuse: Refuse) -> _File | None:
    """Choose the notebook that was submitted last, and reject the others.

    A copy that a student's own program has made is newer or older than the notebook, so a person
    has to say which counts.
    """
    backups = [file for file, assigned in several if assigned.is_backup]
    if backups and len(several) > 1:
        for file, _ in several:
            names = [str(other.owned.file) for other, _ in several if other is not file]
            refuse(
                str(file.extracted.name),
                f"there is also {printable(', '.join(names))} of the same student, and a copy may "
                f"be newer or older. Ask which one counts, and leave only that.",
            )
        return None
    last = max((file.owned.order, assigned.copy_number) for file, assigned in several)
    latest = [f for f, assigned in several if (f.owned.order, assigned.copy_number) == last]
    for file, _ in several:
        if file not in latest:
            refuse(str(file.extracted.name), "the same student has handed in a later one.")
    if len(latest) == 1:
        return latest[0]
    for file in latest:
        refuse(
            str(file.extracted.name),
            f"there are {len(latest)} of the same student and assignment, and nothing says which "
            f"is the last. Two students of one name are told apart by a roster.",
        )
    return None


def _add_files(
    files: list[_File],
    submissions: dict[str, CollectedSubmission],
    folders: Mapping[str, PurePosixPath],
    refuse: Refuse,
) -> None:
    """Add files that are no notebooks to the submission that they belong to.

    They keep their names, and their folders relative to the notebook's.

    Args:
        files: the files of a student.
        submissions: the submissions of this student, by assignment.
        folders: the folder of each submission's notebook.
        refuse: called with the name of a file that is rejected, and the reason.
    """
    added: dict[tuple[str, str], list[tuple[_File, PurePosixPath]]] = {}
    for file in files:
        path = file.owned.file
        folders_around = {
            name: folders[name] for name in submissions if folders[name] in path.parents[:-1]
        }
        depth = max((len(folder.parts) for folder in folders_around.values()), default=0)
        nearest = [name for name, folder in folders_around.items() if len(folder.parts) == depth]
        named = [name for name in path.parts[:-1] if name in submissions]
        chosen = nearest or named[-1:] or list(submissions)
        if len(chosen) != 1:
            refuse(str(file.extracted.name), "it does not say which notebook it belongs to.")
            continue
        (assignment,) = chosen
        if path.is_relative_to(folders[assignment]):
            path = path.relative_to(folders[assignment])
        if path.name.startswith(".") or path.name.casefold() in EXCHANGE_FILES:
            refuse(str(file.extracted.name), RESERVED_NAME)
        elif not is_accepted_file(Path(path)):
            refuse(str(file.extracted.name), "the name of its folder has a dot in it.")
        else:  # some systems do not tell upper case from lower case
            added.setdefault((assignment, str(path).casefold()), []).append((file, path))
    for (assignment, _), alike in added.items():
        if len(alike) == 1:
            file, path = alike[0]
            submissions[assignment].files[path] = file.extracted.path
            continue
        for file, path in alike:
            refuse(
                str(file.extracted.name),
                f"{len(alike)} files of the same student would be called {printable(str(path))}, "
                f"so none of them is taken. Rename them.",
            )
