"""How much faster is it to judge a class again than to grade it?

The demonstration class is graded, in a copy of the course, and then judged again from its evidence.

    python benchmarks/regrading.py
"""

import io
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

from rich.console import Console
from sqlalchemy.exc import SAWarning

from autograder.instructor.classroom import demonstrate, regrade_class
from autograder.instructor.course import Course

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Print both times; the exit status says whether it is less than half."""
    warnings.filterwarnings("ignore", category=SAWarning)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("course", "solutions"):
            shutil.copytree(ROOT / name, root / name)
        for name in ("nbgrader_config.py", "pyproject.toml"):
            shutil.copy(ROOT / name, root / name)
        course, quiet = Course(root / "demo"), Console(file=io.StringIO())
        start = time.perf_counter()
        demonstrate(Course(root), quiet)
        graded = time.perf_counter()
        regrade_class(course, quiet)
        again = time.perf_counter() - graded
        submissions = len(course.submissions())
    first = graded - start
    print(f"{submissions} submissions: graded in {first:.0f} s, judged again in {again:.0f} s,")
    print(f"which is {again / first:.0%} of it.")
    return 0 if again < first / 2 else 1


if __name__ == "__main__":
    sys.exit(main())
