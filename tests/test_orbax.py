"""The aside on Orbax in notebook 11, where Orbax is installed: `pip install -e '.[dev,orbax]'`."""

import pytest

from autograder.instructor.authoring import NotebookSession
from autograder.processes import AddressableShards
from tests.conftest import ROOT

pytest.importorskip("orbax.checkpoint")


def test_two_processes_save_what_four_restore(capsys):
    course = ROOT / "course" / "11_beyond_one_process" / "11_beyond_one_process.ipynb"
    names = NotebookSession.at(course).names
    assert "Orbax is not installed" not in capsys.readouterr().out
    parts = names["restored"]
    assert all(isinstance(part, AddressableShards) for part in parts)
    held = [[device for device, _, _ in part.shards] for part in parts]
    assert held == [[0, 1], [2, 3], [4, 5], [6, 7]]
    blocks = [shard for part in parts for shard in part.shards]
    assert {value for _, _, data in blocks for value in data.flat} == set(range(64))
