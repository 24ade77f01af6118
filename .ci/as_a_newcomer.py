"""Run the README's first command as a newcomer does, and look at what it made.

A fresh clone, in the home of an ordinary user if root runs this; `make demo`, with the defaults for
the number of workers, the caches and the sandbox; its exit status, the scores in its table, the
report and each feedback page, which Chromium opens once.

    python3 .ci/as_a_newcomer.py              from a checkout; what is not committed is not tried
    python3 .ci/as_a_newcomer.py --times 20   again and again, in the same clone
"""

import argparse
import csv
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

USER: Final = "shardlings-newcomer"

ASSIGNMENTS: Final = ("01_sharding_basics", "06_shard_map_matmul")

STUDENTS: Final = ("ada", "ben", "cleo", "dana", "emil")
"""The made-up students. They hand in, in this order: all solutions, the first wrong answer to each
exercise, the last one, nothing, and a broken file.
"""

READS_BANKS: Final = """
import json, sys
from pathlib import Path
from autograder.instructor.authoring import bank
from autograder.instructor.classroom.submission_states import UNINFORMATIVE_DIAGNOSES

known = {}
for assignment in sys.argv[1:]:
    known[assignment] = {}
    for answer in bank.load(Path("solutions", assignment, "bank.py")):
        if answer.score < 1:
            named = [d for d in answer.diagnoses if d not in UNINFORMATIVE_DIAGNOSES]
            entry = answer.score, "; ".join(named)
            known[assignment].setdefault(answer.exercise, []).append(entry)
print(json.dumps(known))
"""
"""Prints the share of points and the diagnoses that each wrong answer of a bank has to get."""

TOLERANCE: Final = 0.01
"""The difference allowed from a score: a bank writes thirds with a few digits."""

OPENS_PAGES: Final = """
import sys
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=sys.argv[1], args=["--no-sandbox"])
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    for path in sys.argv[2:]:
        page.goto(f"file://{path}")
        assert page.inner_text("body").strip(), f"{path} is empty"
        assert not errors, f"{path}: {errors}"
    browser.close()
"""


def main() -> None:
    """Run `make demo`, as often as asked, and exit with a sentence if anything is not as it should.

    Raises:
        SystemExit: something is wrong.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=1)
    times = parser.parse_args().times
    as_user, home = become_newcomer()
    clone = Path(tempfile.mkdtemp(dir=home, prefix="clone-"))
    try:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        if as_user:
            subprocess.run(["chown", "-R", f"{USER}:", str(clone)], check=True)
        for number in range(1, times + 1):
            shutil.rmtree(clone / "demo", ignore_errors=True)
            began = time.monotonic()
            done = subprocess.run([*as_user, "make", "demo"], cwd=clone, check=False)
            seconds = time.monotonic() - began
            if done.returncode:
                sys.exit(f"As a newcomer: make demo ended with status {done.returncode}.")
            check_scores(clone, as_user)
            pages = open_pages(clone, as_user)
            print(
                f"As a newcomer, {number}/{times}: make demo ended with status 0 after "
                f"{seconds:.0f} s, its scores are right, and its {pages} pages open.",
                flush=True,
            )
    finally:
        shutil.rmtree(clone, ignore_errors=True)


def become_newcomer() -> tuple[list[str], Path]:
    """Return the command prefix that runs a command as an ordinary user, and that user's home."""
    if os.getuid() != 0:
        return [], Path.home()
    try:
        pwd.getpwnam(USER)
    except KeyError:
        subprocess.run(["useradd", "--create-home", USER], check=True)
    home = Path(pwd.getpwnam(USER).pw_dir)
    # root's own Python may be where nobody else can read it
    path = "/usr/local/bin:/usr/bin:/bin"
    return ["runuser", "-u", USER, "--", "env", f"HOME={home}", f"PATH={path}"], home


def check_scores(clone: Path, as_user: list[str]) -> None:
    """Compare the scores and diagnoses that the demonstration wrote with those of the banks.

    Raises:
        SystemExit: an exercise came back with something else.
    """
    python = str(clone / ".venv" / "bin" / "python")
    command = [*as_user, python, "-c", READS_BANKS, *ASSIGNMENTS]
    printed = subprocess.run(command, cwd=clone, check=True, capture_output=True, text=True).stdout
    expected: dict[tuple[str, str, str], tuple[float, str]] = {}
    for assignment, exercises in json.loads(printed).items():
        for exercise, wrong in exercises.items():
            came_back = {"ada": (1, ""), "ben": wrong[0], "cleo": wrong[-1], "dana": (0, "")}
            for student, entry in came_back.items():
                expected[student, assignment, exercise] = entry
    with (clone / "demo" / "grading" / "exercises.csv").open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        student = row["student"].partition("-")[0]
        share, diagnoses = expected.pop(
            (student, row["assignment"], row["exercise"]), (0, "nothing")
        )
        difference = abs(float(row["score"]) - share * float(row["points"]))
        if difference > TOLERANCE or row["diagnoses"] != diagnoses:
            sys.exit(f"As a newcomer: make demo graded {row} in place of {share} ({diagnoses}).")
    if expected:
        sys.exit(f"As a newcomer: make demo has graded nothing of these: {list(expected)}")


def open_pages(clone: Path, as_user: list[str]) -> int:
    """Open the report and each feedback page in Chromium; return how many there are.

    Raises:
        SystemExit: a page is not there, or it is empty or has an error.
    """
    grading = clone / "demo" / "grading"
    pages = [grading / "report" / "index.html"]
    for student in STUDENTS:
        pages += (grading / "feedback").glob(f"{student}-*/*/*.html")
    expected = len(STUDENTS) * len(ASSIGNMENTS) + 1
    if len(pages) != expected or not all(page.stat().st_size for page in pages):
        sys.exit(f"As a newcomer: {expected} pages should be there, and {len(pages)} are.")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("As a newcomer: there is no Chromium to open the pages in.")
    python = str(clone / ".venv" / "bin" / "python")
    opened = [*as_user, python, "-c", OPENS_PAGES, chromium, *map(str, pages)]
    if subprocess.run(opened, check=False).returncode:
        sys.exit("As a newcomer: a page cannot be opened.")
    return len(pages)


if __name__ == "__main__":
    main()
