"""A process may read files, and may not write any, whichever function opens them."""

import os
import subprocess
import sys

import pytest

from autograder.processes.isolation import NoCommonDiskError, refuse_to_write
from tests.conftest import ROOT

READS = (os.O_RDONLY, os.O_RDONLY | os.O_CLOEXEC)
WRITES = (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_RDONLY | os.O_CREAT)

HOOKED = """
import os, sys, tempfile
import numpy as np
from pathlib import Path
from autograder.processes import isolation
path = Path(sys.argv[1])
ways = {
    "open": lambda: open(path, "w"),
    "os.open": lambda: os.open(path, os.O_WRONLY | os.O_CREAT),
    "pathlib": lambda: path.write_text("here"),
    "numpy": lambda: np.save(path, np.zeros(2)),
    "tempfile": lambda: tempfile.NamedTemporaryFile(),
}
sys.addaudithook(isolation.refuse_to_write)
for name, way in ways.items():
    before = len(isolation.REFUSED_WRITES)
    try:
        way()
    except OSError:
        print(name, len(isolation.REFUSED_WRITES) > before)
with open(os.__file__) as file:
    print("read", bool(file.read()))
"""


def test_every_way_of_writing_a_file_is_refused(tmp_path):
    command = [sys.executable, "-c", HOOKED, str(tmp_path / "written.npy")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    ways = ("open", "os.open", "pathlib", "numpy", "tempfile", "read")
    assert done.stdout.split("\n")[:-1] == [f"{way} True" for way in ways]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flags", WRITES)
def test_writing_is_refused_with_a_reason(flags):
    with pytest.raises(NoCommonDiskError, match="process 0 tried to write a file"):
        refuse_to_write("open", ("/somewhere", None, flags))


@pytest.mark.parametrize("flags", READS)
def test_reading_is_allowed(flags):
    refuse_to_write("open", ("/somewhere", "r", flags))
    refuse_to_write("open", (os.devnull, "w", os.O_WRONLY))
    refuse_to_write("open", (1, "w", os.O_WRONLY))  # it is open already
    refuse_to_write("os.listdir", ("/somewhere",))
