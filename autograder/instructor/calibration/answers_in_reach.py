"""Is there anything that a kernel could look answers up in? It is looked for where kernels run.

Copies of a course are hidden by their names and places (`walls/other_copies.py`). What lies
somewhere else, or is called something else, is found here by what stands in it.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from traitlets.config import Config

from autograder.exercises import NOTEBOOKS
from autograder.instructor.walls import Sandbox, has_bubblewrap, sandbox_environment

LARGEST: Final = 2**19
"""The most bytes of a file that is read: what is larger is a library of machine code, or data."""

SECONDS: Final = 300
"""How long the search may take; it takes a second or two."""

SEARCH: Final = f"""
import json, os, stat, sys
asked = json.load(sys.stdin)
words = [word.encode() for word in asked["words"]]
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [each for each in folders if each not in ("proc", "sys", "dev")]
    for name in files:
        if not name.endswith((".py", ".ipynb", ".md", ".txt", ".json")):
            continue
        path = os.path.join(folder, name)
        try:
            about = os.lstat(path)
            if stat.S_ISREG(about.st_mode) and about.st_size <= {LARGEST}:
                with open(path, "rb") as file:
                    text = file.read()
                solved = name == asked["notebook"] and b"BEGIN SOLUTION" in text
                if solved or any(word in text for word in words):
                    print(path)
        except OSError:
            pass
"""
"""What is run within walls, by a Python that has nothing of this package."""


def answers_in_reach(config: Config, assignment: str) -> list[str]:
    """The files in which a kernel could look up what is right in an assignment.

    Args:
        config: the configuration that submissions are graded by.
        assignment: its name.

    Raises:
        ExposedError: what is to be hidden cannot be.
        CalledProcessError: the search failed.
        TimeoutExpired: it took too long.
    """
    if not has_bubblewrap():
        return []  # who has no walls can read all files
    asked = {"words": _words(assignment), "notebook": f"{assignment}.ipynb"}
    with tempfile.TemporaryDirectory() as nothing:
        done = subprocess.run(
            Sandbox(config=config).command(
                [sys.executable, "-I", "-S", "-c", SEARCH],
                sandbox_environment(),
                packages=Path(nothing),
            ),
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
    return done.stdout.splitlines()


def _words(assignment: str) -> list[str]:
    """Words that stand where an assignment's exercises are written, and nowhere else.

    They are the beginnings of hints: short enough to stand on one line of a program.
    """
    hints = (exercise.hints[0] for exercise in NOTEBOOKS.get(assignment, ()) if exercise.hints)
    return [hint[:30] for hint in hints if len(hint) >= 30 and hint[:30].isascii()]
