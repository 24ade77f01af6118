"""A notebook may take twenty times as long as its solution took here, and a minute at least."""

import msgspec
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from traitlets.config import Config

from autograder.instructor.nbgrader_plugins import CaptureEvidence
from autograder.instructor.pipeline import time_limit
from autograder.instructor.pipeline.facts import Calibration, memory

ABOUT = {"assignment": "heat", "notebook": "rods"}


@pytest.fixture
def config(tmp_path):
    """A course in which the solution of one notebook took 7.5 seconds, and of another, 0.2."""
    file = memory(tmp_path, "heat")
    file.parent.mkdir(parents=True)
    cells = {"rods.ipynb": [0.5, 7.0], "plates.ipynb": [0.1, 0.1]}
    file.write_bytes(msgspec.json.encode(Calibration("a state", 30, cells)))
    return Config({"CourseDirectory": {"root": str(tmp_path)}})


def test_a_notebook_may_take_twenty_times_what_its_solution_took(config):
    assert time_limit(config, "heat", "rods") == 150
    assert time_limit(config, "heat", "plates") == 60


def test_what_was_not_calibrated_has_no_limit_from_there(config, tmp_path):
    assert time_limit(config, "heat", "another") is None
    assert time_limit(config, "another", "rods") is None
    assert time_limit(Config(), "heat", "rods") is None
    memory(tmp_path, "heat").write_text("nonsense")
    assert time_limit(config, "heat", "rods") is None


def test_what_is_configured_wins_and_a_trial_has_no_limit_from_the_last_one(config):
    config.Sandbox.memory = 2**33
    assert time_limit(config, "heat", "rods") == 150
    config.CarefulAutograde.calibrate = False
    assert time_limit(config, "heat", "rods") is None
    config.CarefulAutograde.calibrate = True
    assert time_limit(config, "heat", "rods") == 150
    config.Sandbox.seconds = 1000
    assert time_limit(config, "heat", "rods") is None


class Asked(CaptureEvidence):
    """Keeps how long its kernel may run."""

    def run_cell(self, kernel, cell, index):
        self.given = kernel.watch.limits.seconds
        super().run_cell(kernel, cell, index)


@pytest.mark.parametrize(("configured", "given"), [({}, 150), ({"Sandbox": {"seconds": 99}}, 99)])
def test_a_kernel_is_given_that_time(config, tmp_path, configured, given):
    config.merge(configured)
    runner = Asked(config=config)
    resources = {"metadata": {"path": str(tmp_path)}, "nbgrader": ABOUT}
    notebook = new_notebook(cells=[new_code_cell("1 + 1")])
    runner.preprocess(notebook, resources)
    assert notebook.cells[0].outputs[0].data["text/plain"] == "2"
    assert runner.given == given
    assert "Sandbox" not in config or config.Sandbox == Config(configured["Sandbox"])
