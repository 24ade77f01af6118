"""What is being made of a submission: it takes the place of what there was when it is whole.

nbgrader removes what it is about to make anew, and whatever of it is there when something goes
wrong. So it makes everything elsewhere, on the same disk, and never sees what there was before.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def place(graded: Path) -> Path:
    """Where something is made that is to take a folder's place."""
    return graded.with_name(f".{graded.name}.making")


@contextmanager
def making(graded: Path, with_all: bool) -> Iterator[Path]:
    """Have what is made within take a folder's place, or leave that folder as it is.

    Args:
        graded: the folder; it need not be there.
        with_all: whether what is made begins with what is in that folder.

    Raises:
        OSError: it cannot take its place.
    """
    made = begin(graded, with_all)
    try:
        yield made
        take_place(graded)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def begin(graded: Path, with_all: bool) -> Path:
    """Begin to make something; where.

    Args:
        graded: the folder whose place it is to take; it need not be there.
        with_all: whether it begins with what is in that folder, of which some is made anew.
    """
    made = place(graded)
    shutil.rmtree(made, ignore_errors=True)  # from a grading that was killed
    made.parent.mkdir(parents=True, exist_ok=True)
    if with_all and graded.is_dir():
        shutil.copytree(graded, made, symlinks=True)
    return made


def take_place(graded: Path) -> None:
    """Have what was made be in a folder's place.

    Raises:
        OSError: it cannot; the folder is as it was.
    """
    made, before = place(graded), graded.with_name(f".{graded.name}.before")
    shutil.rmtree(before, ignore_errors=True)
    try:
        if graded.exists():
            graded.rename(before)
        made.rename(graded)
    finally:  # also where it is stopped between the two
        if before.exists() and not graded.exists():
            before.rename(graded)
    shutil.rmtree(before, ignore_errors=True)
