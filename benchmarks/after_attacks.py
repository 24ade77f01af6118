"""Does a submission that attacks the machine slow down the next one?

An honest notebook is run by itself, and then after each of several attacks, as grading would. What
counts is the ratio of the medians, within one run.

    python benchmarks/after_attacks.py              five rounds
    python benchmarks/after_attacks.py --rounds 1   fewer
"""

import argparse
import statistics
import sys
import tempfile
import time

import nbformat
from traitlets.config import Config

from autograder.instructor.nbgrader_plugins import CaptureEvidence
from autograder.instructor.sandbox import has_bubblewrap

HONEST = """
import jax
from shardlings import emulate_devices
emulate_devices(8)
rows = jax.NamedSharding(jax.make_mesh((8,), ("x",)), jax.P("x"))
x = jax.device_put(jax.numpy.ones((64, 64)), rows)
print(jax.jit(lambda x: x @ x.T)(x).sum())
"""
ATTACKS = {
    "busy processes": """
import subprocess
for _ in range(8):
    subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True)
""",
    "a fork bomb": """
import os, time
while True:
    if os.fork() == 0:
        time.sleep(60)
""",
    "memory of nobody's": """
import os
for _ in range(40):
    os.posix_fallocate(os.memfd_create("x"), 0, 2**26)
""",
    "a full disk": """
for number in range(100):
    with open(f"/dev/shm/{number}", "wb") as file:
        file.write(bytes(2**23))
""",
    "a flood of words": """
for _ in range(500):
    print("x" * 100_000)
""",
}
LIMITS = Config({"Sandbox": {"processes": 32}, "CaptureEvidence": {"timeout": 20}})


def seconds(source: str) -> float:
    """How long a notebook of one cell takes."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        CaptureEvidence(config=LIMITS).preprocess(notebook, {"metadata": {"path": folder}})
        return time.perf_counter() - start


def main() -> int:
    """Print both medians and their ratio; the exit status says whether it is under 1.25."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    if not has_bubblewrap():
        print("There is no bubblewrap here, so there is nothing to measure.")
        return 0
    seconds(HONEST)  # the first one reads Python's files from the disk
    alone, after = [], []
    for _ in range(rounds):
        for attack in ATTACKS.values():
            alone.append(seconds(HONEST))
            seconds(attack)
            after.append(seconds(HONEST))
    one, other = statistics.median(alone), statistics.median(after)
    print(f"An honest notebook takes {one:.2f} s by itself, and {other:.2f} s after an attack:")
    print(f"{other / one:.2f} times as long ({len(after)} runs each, {len(ATTACKS)} attacks).")
    return 0 if other < 1.25 * one else 1


if __name__ == "__main__":
    sys.exit(main())
