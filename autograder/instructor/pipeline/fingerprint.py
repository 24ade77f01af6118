"""What grading rests on, in a few letters: another state of it has other letters."""

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from nbgrader.utils import find_all_files
from traitlets.config import Config

import autograder
from autograder.exercises import BY_GRADE_ID
from autograder.instructor.walls import has_bubblewrap, has_call_filter

LIMITS: Final = ("Sandbox", "Execute", "CaptureEvidence", "JudgeEvidence")
"""What may be configured otherwise on a command line, and change what a submission gets."""


def fingerprint_files(paths: Iterable[Path], folder: Path) -> str:
    """The names and contents of files in a folder; times of files are not to be trusted."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(folder)}\0".encode(errors="surrogateescape"))
        with path.open("rb") as file:  # which may be as large as all that is taken
            # a digest has one length, so no content can look like the next file's name
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def fingerprint_submission(folder: Path) -> str:
    """All that somebody handed in.

    Raises:
        OSError: some of it may not be read.
    """
    return fingerprint_files((path for path in folder.rglob("*") if path.is_file()), folder)


def fingerprint_assignment(coursedir: Any, config: Config, assignment: str) -> str:
    """An assignment's own notebooks, the package, the configuration and the environment.

    Where the course lies has no part in it; where Python and the package lie has. The points of
    exercises have none: whatever they are, a solution earns all of them or it does not.
    """
    return hashlib.sha256(json.dumps([
        *_notebooks(coursedir, assignment),
        _package_files(),
        _configuration(coursedir, config),
        _environment(),
    ]).encode()).hexdigest()  # fmt: skip


def _notebooks(coursedir: Any, assignment: str) -> Iterator[str]:
    """The solution and the released notebook, and what nbgrader copies beside them."""
    for directory in (coursedir.source_directory, coursedir.release_directory):
        folder = Path(coursedir.format_path(directory, ".", assignment))
        files = [Path(file) for file in find_all_files(str(folder), coursedir.ignore)]
        yield fingerprint_files((file for file in files if file.suffix != ".ipynb"), folder)
        for file in sorted(file for file in files if file.suffix == ".ipynb"):
            name = str(file.relative_to(folder)).encode(errors="surrogateescape")
            yield hashlib.sha256(name + b"\0" + _without_points(file)).hexdigest()


def _without_points(file: Path) -> bytes:
    """A notebook of the course's own, but for the points of its exercises; or any other file."""
    whole = file.read_bytes()
    try:
        notebook = json.loads(whole)
        for cell in notebook["cells"]:
            about = cell["metadata"].get("nbgrader", {})
            if about.get("grade_id") in BY_GRADE_ID:
                about.pop("points", None)
                about.pop("checksum", None)  # nbgrader's, over points and what is here anyway
        return json.dumps(notebook, sort_keys=True).encode(errors="surrogateescape")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return whole


def _package_files() -> list[str]:
    folder = Path(autograder.__file__).parent
    return [str(folder), fingerprint_files(folder.rglob("*.py"), folder)]


def _configuration(coursedir: Any, config: Config) -> list[str]:
    file = Path(coursedir.root, "nbgrader_config.py")
    written = file.read_text(encoding="utf-8") if file.exists() else ""
    limits = {name: config[name] for name in LIMITS if name in config}
    return [written, json.dumps(limits, sort_keys=True, default=str)]


def _environment() -> list[Any]:
    """Python, what is installed beside it, the machine, and which walls there are."""
    return [
        sys.version,
        sys.prefix,
        _installed(),
        platform.platform(),
        _processor(),
        os.cpu_count(),
        has_bubblewrap(),
        has_call_filter(),
    ]


@functools.cache  # to read two hundred files takes a tenth of a second, for each submission
def _installed() -> list[str]:
    """The names and versions of all distributions."""
    return sorted({f"{found.name} {found.version}" for found in importlib.metadata.distributions()})


def _processor() -> str:
    """The processor's kind, as Linux says it; `platform` knows only its family."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    models = (line for line in lines if line.startswith("model name"))
    return next(models, platform.processor())
