"""Where an assignment's compiled programs lie that submissions and judges find compiled already.

They are made while the assignment is calibrated, by its own two notebooks, and belong to that
calibration, to one JAX and to one kind of processor: whoever is another finds none. Nor is any
found where somebody else could have put it, for it is machine code: a worker on another machine
looks for it there, at the same path.
"""

import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from traitlets.config import Config

from autograder.instructor.pipeline.time_limits import memory, remembered
from autograder.instructor.walls import seal

SILENT: Final = (0, 10)
"""The JAX from which nothing is said where a program is found. Before, its library warns of each
that the processor may be another, on stderr, which is a part of a notebook's outputs."""

LETTERS: Final = 16
"""How many of each digest's letters a folder's name has."""

ABOUT: Final = ("model name", "flags", "Features", "CPU part")
"""What Linux says of a processor that decides which instructions it knows; by kind, not by core."""


def compiled_before(config: Config, assignment: str) -> str:
    """The folder with what was compiled when an assignment was calibrated; empty where none is.

    Args:
        config: the configuration that it is graded by; `Sandbox.compiled` there wins.
        assignment: which.
    """
    root = config.CourseDirectory.get("root")
    if "Sandbox.compiled" in config:
        return str(config.Sandbox.compiled)
    if root is None or config.CarefulAutograde.get("calibrate") is False:
        return ""
    try:
        calibration = remembered(memory(Path(root), assignment))
    except OSError:  # on a worker's machine, somebody else's folder may have the course's name
        return ""
    folder = calibration and _place(Path(root), assignment, calibration.fingerprint)
    return str(folder) if folder and _is_ours_alone(folder, Path(root)) else ""


def keep_compiled(filled: Path, root: Path, assignment: str, state: str) -> None:
    """Keep what a calibration compiled, in place of what others had.

    Args:
        filled: the folder that it was written to; it is gone afterwards.
        root: the course's folder.
        assignment: which.
        state: what the calibration holds for.
    """
    if not filled.is_dir() or _jax() < SILENT:  # in the first case, there were no walls
        return
    seal(filled)
    place = _place(root, assignment, state)
    shutil.rmtree(place.parent, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    filled.rename(place)  # so that there is never half of it


def _place(root: Path, assignment: str, state: str) -> Path:
    name = f"{state[:LETTERS]}-{_machine()[:LETTERS]}"
    return root / "grading" / "cache" / assignment / name


def _is_ours_alone(folder: Path, root: Path) -> bool:
    """Whether nobody else can write into a folder, or into any that it is in, up to a root."""
    if sys.platform == "win32":  # which has no walls, and without them nothing is kept
        return False
    within = [folder, *folder.parents]
    try:
        places = [*within[: within.index(root) + 1], *folder.iterdir()]
        files = (file for part in folder.iterdir() for file in part.iterdir())
        return all(_is_nobody_elses(place, stat.S_ISDIR) for place in places) and all(
            _is_nobody_elses(file, stat.S_ISREG) for file in files
        )
    except OSError:
        return False


def _is_nobody_elses(place: Path, is_one: Callable[[int], bool]) -> bool:
    """Whether only we, or root, can write into a folder or a file; links may lead elsewhere."""
    about = place.lstat()
    others = stat.S_IWOTH if _is_a_group_of_one(about.st_gid) else stat.S_IWOTH | stat.S_IWGRP
    ours = about.st_uid in (0, os.getuid())
    return is_one(about.st_mode) and ours and not about.st_mode & others


def _is_a_group_of_one(group: int) -> bool:
    """Whether a group is root's, or our own and of the same name, as many systems make for each."""
    if group == 0:
        return True
    groups, users = importlib.import_module("grp"), importlib.import_module("pwd")
    try:
        name, found = users.getpwuid(os.getuid()).pw_name, groups.getgrgid(group)
    except KeyError:
        return False
    return bool(found.gr_name == name) and {*found.gr_mem} <= {name}


def _jax() -> tuple[int, ...]:
    return tuple(map(int, importlib.metadata.version("jax").split(".")[:2]))


def _machine() -> str:
    """The versions of JAX and its library, and what the processor here understands."""
    versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib")]
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    kinds = sorted({line for line in lines if line.startswith(ABOUT)})
    said = json.dumps([*versions, platform.machine(), *kinds])
    return hashlib.sha256(said.encode()).hexdigest()
