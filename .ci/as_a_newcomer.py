"""Run the README's first command as a newcomer does, and look at what it made.

A fresh clone, in the home of an ordinary user if root runs this; `make demo`, with the defaults for
the number of workers, the caches and the sandbox; its exit status, the scores in its table, the
report and each feedback page, which Chromium opens once.

    python3 .ci/as_a_newcomer.py              from a checkout; what is not committed is not tried
    python3 .ci/as_a_newcomer.py --times 20   again and again, in the same clone
"""

import argparse
import csv
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

SCORES: Final = {
    "01_sharding_basics": {"ada": "13.0", "ben": "2.0", "cleo": "2.0", "dana": "0.0", "emil": ""},
    "06_shard_map_matmul": {
        "ada": "20.0", "ben": "4.4166", "cleo": "1.25", "dana": "0.0", "emil": "",
    },
}  # fmt: skip
"""The scores of the made-up students: everything, some known mistakes, nothing, and a broken file.
"""

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
            check_scores(clone)
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


def check_scores(clone: Path) -> None:
    """Check the table of scores that the demonstration wrote.

    Raises:
        SystemExit: a score is not what it should be.
    """
    with (clone / "demo" / "grading" / "grades.csv").open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        found.setdefault(row["assignment"], {})[row["student"].partition("-")[0]] = row["score"]
    if found != SCORES:
        sys.exit(f"As a newcomer: make demo gave other scores than it should: {found}")


def open_pages(clone: Path, as_user: list[str]) -> int:
    """Open the report and each feedback page in Chromium; return how many there are.

    Raises:
        SystemExit: a page is not there, or it is empty or has an error.
    """
    grading = clone / "demo" / "grading"
    pages = [grading / "report" / "index.html"]
    for row in (row for scores in SCORES.values() for row in scores):
        pages += (grading / "feedback").glob(f"{row}-*/*/*.html")
    pages = list(dict.fromkeys(pages))
    students = sum(map(len, SCORES.values()))
    if len(pages) != students + 1 or not all(page.stat().st_size for page in pages):
        sys.exit(f"As a newcomer: {students + 1} pages should be there, and {len(pages)} are.")
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
