"""What lies among the submissions and is none, with what it may have been meant to be."""

import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from os.path import isdir  # which is false of what may not be looked at
from pathlib import Path
from typing import Final

from autograder.instructor.course.names import printable

WHERE: Final = "grading/submitted/<student>/<assignment>/<assignment>.ipynb"

NAMED: Final = 10
"""How many are named of what is wrong in the same way."""


def misplaced(submitted: Path, assignments: Sequence[str]) -> Iterator[str]:
    """What is not looked at, in sentences.

    Args:
        submitted: the folder with submissions.
        assignments: the names of all assignments.
    """
    students = sorted(folder for folder in submitted.glob("*") if not _is_hidden(folder))
    yield from _listed(
        [printable(file.name) for file in students if not isdir(file)],
        "directly in grading/submitted/",
        f"A notebook belongs in {WHERE}; a zip file of a learning platform is taken in with make "
        f"collect FROM=<file>",
    )
    known = set(assignments)
    for student in filter(isdir, students):
        yield from _of_student(student, assignments, known)


def _of_student(student: Path, assignments: Sequence[str], known: set[str]) -> Iterator[str]:
    shown = f"grading/submitted/{printable(student.name)}"
    if not os.access(student, os.R_OK | os.X_OK):
        yield f"{shown} was left alone: whoever grades may not look into it."
        return
    inside = sorted(each for each in student.iterdir() if not _is_hidden(each))
    yield from _listed(
        [printable(file.name) for file in inside if not isdir(file)],
        f"directly in {shown}/",
        f"A notebook belongs in {WHERE}",
    )
    folders = [folder.name for folder in inside if isdir(folder)]
    folders = [folder for folder in folders if folder not in known]
    if folders and student.name in known:
        yield (
            f"{shown} was left alone: {student.name} is the name of an assignment, and not of a "
            f"student, whose folder is the outer one: {WHERE}. In it {_are(folders)}: "
            f"if that is who handed it in, exchange the names of the two folders."
        )
        return
    for folder in folders:
        near = get_close_matches(folder, assignments, 1)
        meant = f"Is {near[0]} meant? " if near else ""
        yield (
            f"{shown}/{printable(folder)} was left alone: there is no assignment of that name. "
            f"{meant}There are {', '.join(assignments)}."
        )


def _listed(names: Sequence[str], where: str, what_to_do: str) -> Iterator[str]:
    if names:
        lies, was = ("lies", "was") if len(names) == 1 else ("lie", "were")
        yield f"{_some(names)} {lies} {where}, and {was} left alone. {what_to_do}."


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _are(names: Sequence[str]) -> str:
    verb = "is" if len(names) == 1 else "are"
    return f"{verb} {_some([printable(name) for name in names])}"


def _is_hidden(path: Path) -> bool:
    """Whether it is of those that systems leave everywhere."""
    return path.name.startswith(".") or path.name in ("__MACOSX", "Thumbs.db", "desktop.ini")
