"""The modules of both packages, by name."""

from pathlib import Path

from tests.conftest import ROOT

LIBRARY, GRADER = "shardlings", "autograder"


def name_of(path: Path) -> str:
    """Return `autograder.judge.costs` for that module, and `autograder.judge` for its package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    name_of(path): path for top in (LIBRARY, GRADER) for path in sorted((ROOT / top).rglob("*.py"))
}
PACKAGES = {name for name, path in MODULES.items() if path.name == "__init__.py"}
STUDENTS = [
    p for n, p in MODULES.items() if n not in PACKAGES and not n.startswith(f"{GRADER}.instructor")
]
"""The modules that a student's kernel runs."""
