"""The asides on Flax, where Flax and optax are installed: `pip install -e '.[dev,flax]'`."""

import pytest

from autograder.instructor.authoring import NotebookSession
from tests.conftest import ROOT

pytest.importorskip("flax")
pytest.importorskip("optax")


def test_the_aside_runs_and_costs_one_all_reduce(capsys):
    NotebookSession.at(ROOT / "course" / "08_neural_networks" / "08_neural_networks.ipynb")
    said = capsys.readouterr().out
    assert "Flax is not installed" not in said
    assert "\n1 collective, 1,024 bytes; on each device" in said


def test_a_rule_shards_the_moments_of_optax_as_the_kernels_of_flax(capsys):
    NotebookSession.at(ROOT / "course" / "13_a_real_trainer" / "13_a_real_trainer.ipynb")
    said = capsys.readouterr().out
    for path in ("('params'", "('optimizer', 0, 'mu'", "('optimizer', 0, 'nu'"):
        assert f"{path}, 'up', 'kernel', 'value') P('data', 'model')" in said
        assert f"{path}, 'down', 'kernel', 'value') P('model', 'data')" in said
