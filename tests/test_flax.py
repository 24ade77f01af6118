"""The aside on Flax in notebook 08, where Flax is installed: `pip install -e '.[dev,flax]'`."""

import pytest

from autograder.instructor.authoring import NotebookSession
from tests.conftest import ROOT

pytest.importorskip("flax")


def test_the_aside_runs_and_costs_one_all_reduce(capsys):
    NotebookSession.at(ROOT / "course" / "08_neural_networks" / "08_neural_networks.ipynb")
    said = capsys.readouterr().out
    assert "Flax is not installed" not in said
    assert "\n1 collective, 1,024 bytes; on each device" in said
