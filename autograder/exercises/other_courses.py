"""Load exercises of other courses from packages that are installed beside this one.

Such a package has an entry point for each notebook in its `pyproject.toml`:

    [project.entry-points."shardlings.exercises"]
    01_heat = "heat_course.exercises:EXERCISES"

with the notebook's nbgrader assignment id on the left, and a tuple of `Exercise` on the right.
"""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from autograder.judge import Exercise
from shardlings.errors import ShortError

GROUP: Final = "shardlings.exercises"
"""The group of the entry points."""


class CourseError(ShortError, ValueError):
    """A package's entry point for exercises is not valid; the message says which and why."""


def iterate_notebooks() -> Iterator[tuple[str, tuple[Exercise, ...]]]:
    """Yield the id and the exercises of each notebook of other courses.

    Raises:
        CourseError: exercises cannot be loaded, or are not a tuple of `Exercise`.
    """
    for entry in _entries():
        where = f"{entry.name} = {entry.value!r}, an entry point of {GROUP},"
        try:
            exercises = entry.load()
        except Exception as error:  # importing runs the package's code
            raise CourseError(f"{where} cannot be loaded: {error}") from error
        is_sequence = isinstance(exercises, tuple | list)
        if not is_sequence or not all(isinstance(exercise, Exercise) for exercise in exercises):
            raise CourseError(f"{where} has to be a tuple of autograder.exercises.Exercise.")
        yield entry.name, tuple(exercises)


@cache
def folders_of_courses() -> tuple[Path, ...]:
    """Return the folders of the packages with other courses' exercises.

    Raises:
        CourseError: an entry point names a module that is not in a package.
    """
    folders = {}
    for entry in _entries():
        name = entry.module.partition(".")[0]
        spec = find_spec(name)
        places = spec.submodule_search_locations if spec is not None else None
        if not places:
            raise CourseError(
                f"{name!r}, which {entry.name} of {GROUP} names, has to be a package: a folder."
            )
        folders[name] = Path(next(iter(places)))
    return tuple(folders.values())


@cache
def parts_of_courses() -> tuple[Path, ...]:
    """Return the packages and modules that other courses' distributions have installed.

    An editable installation has installed none.
    """
    parts: dict[Path, None] = {}
    for entry in _entries():
        for file in (entry.dist and entry.dist.files) or ():
            first, *rest = file.parts
            if first == ".." or first.endswith(".dist-info") or not (rest or file.suffix == ".py"):
                continue
            part = Path(first, rest[0]) if first == "__pycache__" else Path(first)
            parts[Path(str(file.locate())).parents[len(rest)] / part] = None
    return tuple(parts)


@cache
def _entries() -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=GROUP), key=lambda entry: entry.name))


def module_elsewhere(notebook: str) -> str:
    """Return the name of another course's module with a notebook's exercises; empty if none."""
    return next((entry.module for entry in _entries() if entry.name == notebook), "")
