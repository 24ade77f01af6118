"""What a kernel that grades finds of this package: a part of it, and the plans of a notebook.

It finds no exercise, no judge and nothing of the instructor's, so that nothing there, importable or
not, holds what is right. Within walls no other copy of the package can be seen; without walls, this
one is found first, and a stranger who looks for another can read all files anyway.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import autograder
from autograder.evidence import Plan, write_plans

TAKEN: Final = (
    "__init__.py", "devices.py", "notebook.py",
    "errors", "evidence", "layouts", "pictures", "processes", "programs",
)  # fmt: skip
"""What a kernel that grades has a copy of: what captures answers, and what draws arrays."""

PLANS: Final = "plans.json"


def furnish(folder: Path, plans: Sequence[Plan]) -> Path:
    """Copy what a kernel is to find of the package, and write down its plans.

    Args:
        folder: where to; it is what the kernel's Python is to look for modules in.
        plans: what is to be captured, for each exercise.

    Returns:
        The file with the plans, which is beside the package.
    """
    package = Path(autograder.__file__).parent
    copy = folder / package.name
    copy.mkdir()
    for name in TAKEN:
        if (package / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(package / name, copy / name, ignore=ignored)
        else:
            shutil.copy(package / name, copy / name)
    write_plans(folder / PLANS, list(plans))
    return folder / PLANS
