"""What a kernel that grades finds of this package: a part of it.

It finds no exercise, no judge and nothing of the instructor's, so that nothing there, importable or
not, holds what is right. Within walls no other copy of the package can be seen; without walls, this
one is found first, and a stranger who looks for another can read all files anyway.
"""

import atexit
import functools
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Final

import autograder

TAKEN: Final = (
    "__init__.py", "devices.py", "notebook.py",
    "errors", "evidence", "layouts", "pictures", "processes", "programs", "sandboxed",
)  # fmt: skip
"""What a kernel that grades has a copy of: what runs cells, captures answers, and draws arrays."""

LOCK: Final = threading.Lock()


def kernel_packages() -> Path:
    """The folder in which a kernel's Python looks for modules; it stays until this process ends."""
    with LOCK:
        return _kernel_packages()


@functools.cache
def _kernel_packages() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="shardlings-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    furnish(folder)
    return folder


def furnish(folder: Path) -> None:
    """Copy what a kernel is to find of the package into a folder."""
    package = Path(autograder.__file__).parent
    copy = folder / package.name
    copy.mkdir()
    for name in TAKEN:
        if (package / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(package / name, copy / name, ignore=ignored)
        else:
            shutil.copy(package / name, copy / name)
