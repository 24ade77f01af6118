"""A process is killed between two steps, or while it writes, and another call follows."""

import os
import subprocess
import sys

import numpy as np
import pytest

from autograder.processes import CaseArgument, Interruption, ProcessCase

BATCHES = CaseArgument("batches", (48, 2), ("x",), seed=5, batch=8)


def change_folder(folder, change, lines):
    """Run lines in a new process that is killed at a change to `folder`; return its exit code."""
    start = (
        "import os, pathlib\n"
        "from autograder.processes.interruptions import restore_size_signal, kill_at_change\n"
        f"folder = pathlib.Path({os.fspath(folder)!r})\n"
        f"restore_size_signal(); kill_at_change(folder, {change})\n"
    )
    command = [sys.executable, "-c", start + "\n".join(lines)]
    return subprocess.run(command, check=False, env=os.environ).returncode


SAVE = ["(folder / 'new').write_text('2')", "os.replace(folder / 'new', folder / 'step')"]


@pytest.mark.parametrize(
    ("change", "step", "new"), [(1, "1", ""), (2, "1", "2"), (3, "2", None)], ids=str
)
def test_a_file_is_torn_or_not_moved(tmp_path, change, step, new):
    (tmp_path / "step").write_text("1")
    code = change_folder(tmp_path, change, SAVE)
    assert (code == 0) == (change == 3)
    assert (tmp_path / "step").read_text() == step
    left = tmp_path / "new"
    assert (left.read_text() if left.exists() else None) == new


def test_a_process_that_ignores_signals_and_limits_cannot_write_either(tmp_path):
    ignored = [
        "import resource, signal",
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)",
        "resource.setrlimit = os.kill = lambda *_: None",
    ]
    change_folder(tmp_path, 1, [*ignored, *SAVE])
    assert (tmp_path / "new").read_text() == ""


def test_reading_and_other_folders_are_no_changes(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    (inside / "step").write_text("1")
    lines = [
        "(folder / 'step').read_text()",
        f"pathlib.Path({os.fspath(outside)!r}).write_text('1')",
    ]
    assert change_folder(inside, 1, lines) == 0


def test_each_call_has_only_its_own_batches():
    case = ProcessCase(1, (("x", 8),), (BATCHES,), interruption=Interruption(4, 0, resumed_by=2))
    later = case.call_after_kill()
    assert (case.readable_batches(BATCHES), later.readable_batches(BATCHES)) == (
        range(4),
        range(3, 6),
    )
    assert later.processes == 2
    values = BATCHES.values()
    (before,) = case.share_of(0).held
    assert before is not None
    np.testing.assert_array_equal(before[:32], values[:32])
    assert not before[32:].any()
    held = np.zeros_like(values)
    for share in map(later.share_of, range(2)):
        held += np.asarray(share.held[0])
    np.testing.assert_array_equal(held[24:], values[24:])
    assert not held[:24].any()


def test_a_first_call_that_is_to_return_is_given_fewer_steps():
    steps = CaseArgument("number", number=6)
    case = ProcessCase(1, (("x", 8),), (BATCHES, steps), interruption=Interruption(4, None))
    assert (case.number_of(steps), case.call_after_kill().number_of(steps)) == (4, 6)
    assert case.readable_batches(BATCHES) == range(4)
