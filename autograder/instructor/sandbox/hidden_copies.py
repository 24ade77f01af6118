"""Hide other copies of the answers from a kernel, which can read all of Python's folders.

A copy may be in the installed package, in a checkout made by pip (`src/`), or in a course that
somebody put beside Python's files. These folders are searched for courses, and for packages with
the names of courses' packages; what is found is hidden.
"""

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import autograder
from autograder.exercises import folders_of_courses, parts_of_courses

COURSE_FILE: Final = "nbgrader_config.py"
"""The file that marks a course's folder."""

CHECKOUT_FILES: Final = (COURSE_FILE, "pyproject.toml", "setup.py", ".git")
"""Files that mark a folder from which a package is installed."""

MAX_SEARCH_DEPTH: Final = 6
"""The most levels of folders to search; `/usr/local/lib/python3.11/dist-packages` has five."""


class ExposedError(RuntimeError):
    """Answers are visible where submissions run; the message says where, and what to do."""


def hide_copies(folders: Sequence[Path]) -> list[str]:
    """Return the bubblewrap options that hide all other copies of the answers.

    Args:
        folders: the folders that a kernel sees.

    Raises:
        ExposedError: one of these folders lies inside a copy, so the copy cannot be hidden.
    """
    names = frozenset({autograder.__name__, *(folder.name for folder in folders_of_courses())})
    copies = dict.fromkeys([*_find_copies(tuple(folders), names), *_find_parts(folders)])
    for copy in copies:
        for folder in folders:
            if folder.is_relative_to(copy):
                raise ExposedError(
                    f"{folder}, where Python lies, is in a course's own folder ({copy}), so what "
                    f"runs there sees the course's answers and grades. Make the virtual "
                    f"environment in a folder of its own, such as {copy / '.venv'}, or move the "
                    f"course."
                )
    outermost = [path for path in copies if not any(parent in copies for parent in path.parents)]
    return [option for path in outermost for option in _hide(path)]


def _hide(path: Path) -> list[str]:
    if path.is_dir():
        return ["--tmpfs", str(path), "--remount-ro", str(path)]
    return ["--ro-bind", "/dev/null", str(path)]


def _find_parts(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the other parts of installed courses that a kernel could see."""
    for part in parts_of_courses():
        if part.exists() and any(part.is_relative_to(folder) for folder in folders):
            yield part


@functools.cache
def _find_copies(folders: tuple[Path, ...], names: frozenset[str]) -> tuple[Path, ...]:
    """Return the courses, and the packages with some names, in folders that a kernel sees.

    If a package is part of a checkout, the whole checkout is returned.
    """
    return tuple(
        copy for folder in folders for copy in _search(folder, (folder,), names) if copy.exists()
    )


def _search(folder: Path, above: tuple[Path, ...], names: frozenset[str]) -> Iterator[Path]:
    """Search a folder for copies, and yield them.

    Args:
        folder: the folder to search.
        above: the folders from the start of the search down to this one, which is the last.
        names: the names of packages to find.
    """
    try:
        with os.scandir(folder) as scanned:
            entries = {e.name: e.is_dir(follow_symlinks=False) for e in scanned}
    except OSError:  # kernels run as the same user, so they cannot read it either
        return
    if COURSE_FILE in entries:
        yield folder
        return
    if "__init__.py" in entries:  # inside another package, a folder is not a top-level package
        return
    for name, is_folder in entries.items():
        if is_folder and name in names:
            yield _find_checkout(above) or folder / name
        elif is_folder and len(above) < MAX_SEARCH_DEPTH:
            yield from _search(folder / name, (*above, folder / name), names)


def _find_checkout(above: tuple[Path, ...]) -> Path | None:
    """Return the outermost folder of the checkout that a package is in; None if there is none.

    A virtual environment may have been made inside somebody's project, which is not a checkout of
    the packages installed there. So the first folder of the search counts only if the package is
    directly in it, or one level below.
    """
    for folder in above:
        is_near = folder != above[0] or folder in above[-2:]
        if is_near and any((folder / name).exists() for name in CHECKOUT_FILES):
            return folder
    return None
