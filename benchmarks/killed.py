"""Does a class end with the same scores, whatever is killed, and whenever?

A small class is graded once, and nothing is killed. Then, again and again, all of it is graded
anew, and at a random moment something is killed with SIGKILL: the whole group of processes, a
worker or the scheduler of a cluster that stands; or the gradebook is lost, and the group is killed
while it is made again. The next run has to end with the same scores, byte for byte.

    python benchmarks/killed.py               fifty times
    python benchmarks/killed.py --times 3     fewer
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.instructor.tiny_class import ASSIGNMENT, scores, tiny_class

STUDENTS = 6
WHAT = ("group", "worker", "scheduler", "rebuilding")

REBUILDING = 12.0
"""Within how many seconds from the command on a gradebook is made again, on a busy machine."""


def grade(root: Path, *words: str) -> "subprocess.Popen[bytes]":
    """`make grade`, under way."""
    return subprocess.Popen(
        [sys.executable, "-m", "autograder.instructor", "--root", str(root), "grade", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def dask(*words: str) -> "subprocess.Popen[bytes]":
    """A scheduler or a worker."""
    return subprocess.Popen(
        [sys.executable, "-m", *words, "--no-dashboard"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process with all of its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def workers(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """The workers that one of Dask's commands has started."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            found += [child] if "spawn_main" in " ".join(child.cmdline()) else []
    return found


def kill_and_see(root: Path, what: str, after: float) -> str:
    """Grade all anew, kill something after a while, and grade what is left; what it came to."""
    started = []
    where = ["--workers", "2"]
    if what in ("scheduler", "worker"):
        port = random.randint(20000, 40000)
        address = f"tcp://127.0.0.1:{port}"
        started = [
            dask("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)),
            dask("distributed.cli.dask_worker", address, "--nthreads", "1", "--nworkers", "2"),
        ]
        where = ["--scheduler", address]
    if what == "rebuilding":
        (root / "grading" / "gradebook.db").unlink()
        first = grade(root, *where)
        after = random.uniform(0, REBUILDING)
    else:
        first = grade(root, "--again", *where)
    time.sleep(after)
    at = f"{what} after {after:.1f} s"
    if first.poll() is None:
        if what in ("group", "rebuilding"):
            end(first)
        elif what == "scheduler":
            end(started[0])
        elif found := workers(started[1]):
            random.choice(found).kill()
        else:
            at += " (there was no worker yet)"
    else:
        at += " (it was done by then)"
    first.wait(timeout=600)
    for process in started:
        end(process)
    second = grade(root, "--workers", "2")
    assert second.wait(timeout=600) == 0, f"the next run failed: {at}"
    return at


def kept(root: Path) -> bytes:
    """The scores, and which submissions have a graded notebook, evidence and a page."""
    files = [
        str(path.relative_to(root))
        for place in ("autograded", "feedback", "records")
        for path in (root / "grading" / place).rglob("*")
        if path.is_file()
    ]
    return json.dumps([scores(root), sorted(files)], sort_keys=True).encode()


def main() -> None:
    """Kill, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory() as folder:
        root = tiny_class(Path(folder), STUDENTS)
        began = time.monotonic()
        assert grade(root, "--workers", "2").wait() == 0
        seconds, wanted = time.monotonic() - began, kept(root)
        print(f"{STUDENTS} submissions of {ASSIGNMENT}, never killed: {seconds:.0f} s", flush=True)
        for number in range(1, times + 1):
            after = random.uniform(0, seconds)
            at = kill_and_see(root, WHAT[number % len(WHAT)], after)
            same = kept(root) == wanted
            print(f"{number}/{times}: {at}: {'the same' if same else 'ANOTHER'}", flush=True)
            if not same:
                sys.exit(1)
    print(f"Killed {times} times; the next run ended with the same scores each time.")


if __name__ == "__main__":
    main()
