"""Other copies of a course, where a kernel would see them: they are hidden, or it is refused.

A kernel that grades sees all of Python's folders. What is right may lie there a second time: in the
package as it is installed, in a checkout that pip made in the environment (`src/`), in a course
that somebody put beside Python's files. So these folders are looked through, for what has the name
of a course's package, or is a course.
"""

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import autograder
from autograder.exercises import folders_of_courses, parts_of_courses

COURSE: Final = "nbgrader_config.py"
"""What a course's own folder has in it."""

CHECKOUT: Final = (COURSE, "pyproject.toml", "setup.py", ".git")
"""What a folder has in it from which a package is installed."""

DEEP: Final = 6
"""How many folders deep is looked: `/usr/local/lib/python3.11/dist-packages` has five."""


class ExposedError(RuntimeError):
    """What is right can be seen where submissions run; the message says where and what to do."""


def hiding(prefixes: Sequence[Path]) -> list[str]:
    """What tells bubblewrap to hide all other copies in the folders that a kernel sees.

    Raises:
        ExposedError: one of these folders lies in what is to be hidden.
    """
    names = frozenset({autograder.__name__, *(folder.name for folder in folders_of_courses())})
    found = dict.fromkeys([*_copies(tuple(prefixes), names), *_parts(prefixes)])
    for place in found:
        for prefix in prefixes:
            if prefix.is_relative_to(place):
                raise ExposedError(
                    f"{prefix}, where Python lies, is in a course's own folder ({place}), so what "
                    f"runs there sees the course's answers and grades. Make the virtual "
                    f"environment in a folder of its own, such as {place / '.venv'}, or move the "
                    f"course."
                )
    outermost = [p for p in found if not any(other in found for other in p.parents)]
    return [part for place in outermost for part in _hidden(place)]


def _hidden(place: Path) -> list[str]:
    if place.is_dir():
        return ["--tmpfs", str(place), "--remount-ro", str(place)]
    return ["--ro-bind", "/dev/null", str(place)]


def _parts(prefixes: Sequence[Path]) -> Iterator[Path]:
    """What else other courses have installed, beside the packages that their exercises are in."""
    for part in parts_of_courses():
        if part.exists() and any(part.is_relative_to(prefix) for prefix in prefixes):
            yield part


@functools.cache
def _copies(prefixes: tuple[Path, ...], names: frozenset[str]) -> tuple[Path, ...]:
    """The packages of some names, and the courses, in folders; a whole checkout where it is one."""
    return tuple(
        copy for prefix in prefixes for copy in _within(prefix, (prefix,), names) if copy.exists()
    )


def _within(folder: Path, above: tuple[Path, ...], names: frozenset[str]) -> Iterator[Path]:
    """The copies in a folder.

    Args:
        folder: where to look.
        above: it, and the folders that it is in, from where it began.
        names: those of the packages.
    """
    try:
        with os.scandir(folder) as entries:
            there = {e.name: e.is_dir(follow_symlinks=False) for e in entries}
    except OSError:  # who may not look into it runs the kernels, too
        return
    if COURSE in there:
        yield folder
        return
    if "__init__.py" in there:  # what is in a package has another name
        return
    for name, is_folder in there.items():
        if is_folder and name in names:
            yield _checkout(above) or folder / name
        elif is_folder and len(above) < DEEP:
            yield from _within(folder / name, (*above, folder / name), names)


def _checkout(above: tuple[Path, ...]) -> Path | None:
    """The outermost folder of a checkout that a package is in; None where it is in none.

    An environment that was made in somebody's project is no checkout of what is installed in it,
    so that is one only if the package is where a checkout has it.
    """
    for folder in above:
        near = folder != above[0] or folder in above[-2:]
        if near and any((folder / name).exists() for name in CHECKOUT):
            return folder
    return None
