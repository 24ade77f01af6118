"""A command leaves no temporary files behind, and removes those of commands that were killed."""

import os
import subprocess
import sys
import tempfile
from multiprocessing.util import get_temp_dir
from pathlib import Path

import pytest

from autograder.instructor.commands import keep_temporary_files

COMMAND = """
import tempfile
from autograder.instructor.commands import (keep_temporary_files)
with keep_temporary_files():
    print(tempfile.mkdtemp(), flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path, monkeypatch):
    get_temp_dir()  # multiprocessing's own folder, which each process makes once
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture
def command():
    """A command that is at work, and the folder that it has made."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_temporary_files_are_gone_at_the_end(tmp_path):
    with keep_temporary_files():
        made = Path(tempfile.mkdtemp())
        assert made.parent.parent == tmp_path
    assert [*tmp_path.iterdir()] == []
    assert tempfile.gettempdir() == str(tmp_path)


def test_the_files_of_a_command_that_was_killed_are_removed_by_the_next(command, tmp_path):
    process, folder = command
    process.kill()
    process.wait()
    assert folder.exists()
    with keep_temporary_files():
        assert not folder.parent.exists()


def test_the_files_of_a_command_at_work_and_of_others_stay(command, tmp_path):
    _, folder = command
    (tmp_path / "shardlings-of-a-worker").mkdir()
    (tmp_path / "shardlings-command-a-file").touch()
    with keep_temporary_files():
        pass
    assert folder.exists()
    assert (tmp_path / "shardlings-of-a-worker").exists()
    assert (tmp_path / "shardlings-command-a-file").exists()


def test_a_long_path_of_temporary_files_keeps_no_process_from_starting(tmp_path):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    code = """
import os, tempfile
from autograder.instructor.commands import (ProcessExecutor, keep_temporary_files)
with keep_temporary_files():
    executor = ProcessExecutor(1)
    assert executor.submit(os.getpid).result() != os.getpid()
    print(tempfile.gettempdir())
    executor.shutdown()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).parent == folder
    assert [*folder.iterdir()] == []
