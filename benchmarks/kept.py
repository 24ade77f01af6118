"""Are manual grades still there after everything that can happen to a gradebook?

A small class is graded. Ann's score and comment are then given in Formgrader, and Bob's by
nbgrader's API; `make report` backs the gradebook up; and Cy's are given after that. Then something
happens, a command runs meanwhile, and `make grade` runs once more when it is over. A table shows
what the commands say and whose manual grades are there afterwards. Only a gradebook that is gone
or damaged may lose Cy's, which no backup has.

    python benchmarks/kept.py               a lock for a minute, and fifty SIGKILLs
    python benchmarks/kept.py --seconds 5 --kills 3
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from nbgrader.api import Gradebook

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.instructor.tiny_class import ASSIGNMENT, hand_in, scores, tiny_class

STUDENTS = ("ann", "bob", "cy", "dan")
GIVEN = {"ann": (1.5, "In Formgrader."), "bob": (0.5, "By the API."), "cy": (1.25, "After that.")}
COMMAND = [sys.executable, "-m", "autograder.instructor"]
ORDINARY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""As an ordinary user: root, too, is then kept out of what is closed."""
BROKEN = "no notebook"
TOKEN = "kept"
DISK_BYTES = 8 * 2**20


class Ran(NamedTuple):
    """The exit status and the output of a command."""

    status: int
    said: str


def gradebook(root: Path) -> Path:
    """The gradebook's file."""
    return root / "grading" / "gradebook.db"


def make(root: Path, *words: str, ordinary: bool = False) -> Ran:
    """Run a command to its end."""
    done = subprocess.run(
        [*(ORDINARY if ordinary else []), *COMMAND, "--root", str(root), *words, "--workers", "1"],
        capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "1000"},
    )  # fmt: skip
    return Ran(done.returncode, done.stdout + done.stderr)


def submit(root: Path, student: str, text: str) -> None:
    """Hand something else in, so that there is something to grade."""
    folder = root / "grading" / "submitted" / student / ASSIGNMENT
    (folder / f"{ASSIGNMENT}.ipynb").write_text(text)


def give(root: Path, student: str) -> None:
    """Give a manual score and a comment by nbgrader's API."""
    with Gradebook(f"sqlite:///{gradebook(root)}") as book:
        grade = book.find_grade("test", ASSIGNMENT, ASSIGNMENT, student)
        comment = book.find_comment("double", ASSIGNMENT, ASSIGNMENT, student)
        grade.manual_score, comment.manual_comment = GIVEN[student]
        grade.needs_manual_grade = False
        book.db.commit()


@contextlib.contextmanager
def formgrader(root: Path) -> Iterator[Callable[[str, str, dict[str, object]], None]]:
    """A server with Formgrader; yields a function that changes something there."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [
            sys.executable, "-m", "jupyter", "server", "--allow-root", "--no-browser",
            f"--port={port}", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}",
            "--ServerApp.jpserver_extensions=nbgrader.server_extensions.formgrader=True",
        ],
        cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def put(kind: str, id: str, data: dict[str, object]) -> None:
        urllib.request.urlopen(
            urllib.request.Request(
                f"http://127.0.0.1:{port}/formgrader/api/{kind}/{id}",
                json.dumps(data).encode(), {"Authorization": f"token {TOKEN}"}, method="PUT",
            )
        ).close()  # fmt: skip

    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.2)
        yield put
    finally:
        server.terminate()
        server.wait()


def give_in_formgrader(root: Path, student: str) -> None:
    """Give a manual score and a comment in Formgrader."""
    with Gradebook(f"sqlite:///{gradebook(root)}") as book:
        grade = book.find_grade("test", ASSIGNMENT, ASSIGNMENT, student).id
        comment = book.find_comment("double", ASSIGNMENT, ASSIGNMENT, student).id
    score, text = GIVEN[student]
    with formgrader(root) as put:
        put("grade", grade, {"manual_score": score})
        put("comment", comment, {"manual_comment": text})


def kept(root: Path) -> dict[str, bool]:
    """Whose manual score and comment are there."""
    found = {}
    with Gradebook(f"sqlite:///{gradebook(root)}") as book:
        for student in GIVEN:
            grade = book.find_grade("test", ASSIGNMENT, ASSIGNMENT, student)
            comment = book.find_comment("double", ASSIGNMENT, ASSIGNMENT, student)
            found[student] = (grade.manual_score, comment.manual_comment) == GIVEN[student]
    return found


def locked(root: Path, seconds: float) -> Ran:
    """Another program writes for a while; Ann hands in what is no notebook."""
    submit(root, "ann", BROKEN)
    other = sqlite3.connect(gradebook(root), isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(seconds, lambda: other.execute("ROLLBACK"))
    timer.start()
    ran = make(root, "grade")
    timer.join()
    other.close()
    return ran


def closed(root: Path, inside: str, mode: int) -> Ran:
    """A file or folder has other permissions for a while."""
    submit(root, "dan", BROKEN)
    path = root / "grading" / inside
    before = path.stat().st_mode
    path.chmod(mode)
    try:
        return make(root, "grade", ordinary=True)
    finally:
        path.chmod(before & 0o7777)


def full(root: Path) -> Ran:
    """The gradebook's disk is full for a while; Dan hands in something else."""
    disk, elsewhere = root / "grading", root / "elsewhere"
    disk.rename(elsewhere)
    disk.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)], check=True
    )
    try:
        shutil.copytree(elsewhere, disk, dirs_exist_ok=True)
        submit(root, "dan", BROKEN)
        with contextlib.suppress(OSError), (disk / "filling").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        ran = make(root, "grade")
        (disk / "filling").unlink()
        shutil.rmtree(elsewhere)
        shutil.copytree(disk, elsewhere)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
        disk.rmdir()
        elsewhere.rename(disk)
    return ran


def half_written(root: Path) -> Ran:
    """Another program is killed while it writes."""
    script = (
        "import os, sqlite3, sys; book = sqlite3.connect(sys.argv[1]);"
        "book.execute('PRAGMA cache_size = 1');"
        "book.execute('UPDATE grade SET manual_score = 0');"
        "book.execute('UPDATE source_cell SET source = zeroblob(20000)'); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", script, str(gradebook(root))], check=False)
    return make(root, "grade")


def deleted(root: Path) -> Ran:
    """The gradebook is gone."""
    gradebook(root).unlink()
    return make(root, "grade")


def truncated(root: Path) -> Ran:
    """Its second half is gone."""
    os.truncate(gradebook(root), gradebook(root).stat().st_size // 2)
    return make(root, "grade")


def foreign(root: Path) -> Ran:
    """It is a database of something else."""
    gradebook(root).unlink()
    with contextlib.closing(sqlite3.connect(gradebook(root))) as other:
        other.execute("CREATE TABLE moz_places (id INTEGER)")
        other.commit()
    return make(root, "grade")


def killed(root: Path, after: float, words: tuple[str, ...]) -> Ran:
    """All of the class is graded again, and the group of processes is killed meanwhile."""
    running = subprocess.Popen(
        [*COMMAND, "--root", str(root), *words], start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(after)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    return Ran(running.wait(), f"killed after {after:.1f} s of {' '.join(words)}")


def sentence(root: Path, said: str) -> str:
    """The sentence about the gradebook or the disk, shortened."""
    about = ("is locked", "read or written", "cannot be copied", "The gradebook", "killed after")
    lines = [line.strip() for word in about for line in said.splitlines() if word in line]
    short = (lines[0] if lines else "").replace("sqlite:///", "").replace(f"{root}/", "")
    return short.replace("|", "/")[:120]


def try_event(before: Path, place: Path, name: str, happen: Callable[[Path], Ran]) -> bool:
    """Let something happen to a copy of the class, and print a line of the table."""
    root = shutil.copytree(before, place / "course")
    ran = happen(root)
    moved = any(path for path in root.glob("grading/gradebook.db.*") if "journal" not in path.name)
    again = make(root, "grade")
    found, automatic = kept(root), scores(root)
    tracebacks = "Traceback" in ran.said + again.said
    is_lost = name in ("deleted", "truncated", "foreign")
    may_lose = {"cy"} if is_lost else set()
    good = all(there or student in may_lose for student, there in found.items())
    good &= moved == (is_lost and name != "deleted") and not tracebacks and again.status == 0
    good &= automatic.keys() == {*STUDENTS}
    who = ", ".join(f"{student} {'kept' if there else 'LOST'}" for student, there in found.items())
    print(
        f"| {name} | {ran.status} | {sentence(root, ran.said)} | {'moved' if moved else 'stays'} "
        f"| {who} | {again.status} | {'' if good else 'WRONG'} |",
        flush=True,
    )
    shutil.rmtree(root)
    return good


def main() -> None:
    """Print the table; the exit status is 1 if anything was lost that a command could have kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long the lock is held")
    parser.add_argument("--kills", type=int, default=50)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shardlings-kept-") as folder:
        place = Path(folder)
        root = tiny_class(place / "before", 0)
        for student in STUDENTS:
            hand_in(root, student, f"double = 2  # of {student}")
        began = time.monotonic()
        assert make(root, "grade").status == 0
        seconds = time.monotonic() - began
        give_in_formgrader(root, "ann")
        give(root, "bob")
        assert subprocess.run([*COMMAND, "--root", str(root), "report"], check=False,
                              stdout=subprocess.DEVNULL).returncode == 0  # fmt: skip
        give(root, "cy")
        events: dict[str, Callable[[Path], Ran]] = {
            f"locked for {chosen.seconds:g} s": lambda root: locked(root, chosen.seconds),
            "no permission": lambda root: closed(root, "gradebook.db", 0),
            "read-only file": lambda root: closed(root, "gradebook.db", 0o444),
            "read-only folder": lambda root: closed(root, "", 0o555),
            "unreadable backups": lambda root: closed(root, "backups", 0),
            "full disk": full,
            "writer killed": half_written,
            "deleted": deleted,
            "truncated": truncated,
            "foreign": foreign,
        }
        for number in range(chosen.kills):
            words = ("grade", "--again") if number % 2 else ("regrade",)
            after = random.uniform(0.5, seconds if number % 2 else seconds / 2)
            events[f"SIGKILL {number + 1}"] = partial(killed, after=after, words=words)
        print("| What happens | Status | It says | Gradebook | Manual grades | Next grade | |")
        print("|---|---|---|---|---|---|---|", flush=True)
        results = [try_event(root, place, name, event) for name, event in events.items()]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
