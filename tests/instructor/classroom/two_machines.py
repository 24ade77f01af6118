"""Two machines grade one class, and one of them is cut off: run by a test, in a network of its own.

`unshare -rn python -m tests.instructor.classroom.two_machines ROOT` makes a second network in which
a second worker is, joins the two by a cable, and pulls that once the second worker has graded
somebody. What the grading says goes to standard output, and its status is this script's.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from dask import config
from distributed import Client, Security

HERE, THERE, PORT = "10.77.0.1", "10.77.0.2", 8786
ADDRESS = f"tls://{HERE}:{PORT}"
QUICK = {
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "20s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "60s",
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "40s",
}
"""Timeouts after which a lost machine is noticed; Dask's own are minutes."""


def ip(*words: str, within: int = 0) -> None:
    """Set up a network; that of another process, where one is named."""
    other = ["nsenter", "-t", str(within), "-n"] * bool(within)
    subprocess.run([*other, "ip", *words], check=True)


def certificates(folder: Path) -> dict[str, str]:
    """Make a new authority's certificates, and return Dask's settings for them and its timeouts."""
    files = Security.temporary().get_tls_config_for_role("client")
    for name in ("ca_file", "cert", "key"):
        (folder / f"{name}.pem").write_text(files[name])
    ca, cert, key = (str(folder / f"{name}.pem") for name in ("ca_file", "cert", "key"))
    roles = ("CLIENT", "SCHEDULER", "WORKER")
    each = {f"DASK_DISTRIBUTED__COMM__TLS__{role}__CERT": cert for role in roles}
    each |= {f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY": key for role in roles}
    return {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": ca, **each}


def dask(kind: str, *words: str) -> list[str]:
    """One of Dask's commands."""
    return [sys.executable, "-m", f"distributed.cli.dask_{kind}", *words]


def entered(root: Path) -> list[str]:
    """The workers of what has been entered so far."""
    files = (root / "grading" / "logs").glob("*.jsonl")
    lines: list[dict[str, Any]] = [
        json.loads(line) for file in files for line in file.read_text().splitlines()
    ]
    return [line.get("worker", "") for line in lines if line["step"] == "entered"]


def main(root: Path) -> int:
    """Grade the class of a course on two machines."""
    started: list[subprocess.Popen[bytes]] = []
    folder = root / "certificates"
    folder.mkdir()
    os.environ.update(QUICK | certificates(folder))
    config.refresh()

    def start(command: list[str]) -> int:
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=os.getcwd()))
        return started[-1].pid

    try:
        other = start(["unshare", "-n", "sleep", "900"])
        time.sleep(1)
        ip("link", "add", "here", "type", "veth", "peer", "name", "there")
        ip("link", "set", "there", "netns", str(other))
        ip("link", "set", "lo", "up")
        ip("link", "set", "lo", "up", within=other)
        ip("addr", "add", f"{HERE}/24", "dev", "here")
        ip("addr", "add", f"{THERE}/24", "dev", "there", within=other)
        ip("link", "set", "here", "up")
        ip("link", "set", "there", "up", within=other)
        start(dask("scheduler", "--protocol", "tls", "--host", HERE, "--port", str(PORT),
                   "--no-dashboard"))  # fmt: skip
        worker = dask("worker", ADDRESS, "--nthreads", "1", "--no-dashboard")
        start(worker)
        start(["nsenter", "-t", str(other), "-n", *worker])
        with Client(ADDRESS, security=Security(require_encryption=True), timeout=120) as client:
            client.wait_for_workers(2, timeout=240)
        grade = subprocess.Popen(
            [sys.executable, "-m", "autograder.instructor", "--root", str(root), "grade",
             "--scheduler", ADDRESS],
        )  # fmt: skip
        while grade.poll() is None and not any(THERE in worker for worker in entered(root)):
            time.sleep(0.1)
        ip("link", "set", "here", "down")
        print("CUT", flush=True)
        return grade.wait(timeout=400)
    finally:
        for process in reversed(started):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
