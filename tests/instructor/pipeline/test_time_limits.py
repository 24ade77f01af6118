"""Time limits: twenty times the solution's time here, and at least a minute."""

import msgspec
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from traitlets.config import Config

from autograder.instructor.nbgrader_plugins import CaptureEvidence
from autograder.instructor.pipeline import time_limit
from autograder.instructor.pipeline.facts import Calibration, calibration_file
from autograder.instructor.pipeline.seeds import Seeds

NOTEBOOK = {"assignment": "heat", "notebook": "rods"}


@pytest.fixture
def config(tmp_path):
    """The configuration of a course whose solutions took 7.5 and 0.2 seconds."""
    file = calibration_file(tmp_path, "heat")
    file.parent.mkdir(parents=True)
    cells = {"rods.ipynb": [0.5, 7.0], "plates.ipynb": [0.1, 0.1]}
    file.write_bytes(msgspec.json.encode(Calibration("a state", 30, cells)))
    return Config({"CourseDirectory": {"root": str(tmp_path)}})


def test_the_limit_is_twenty_times_the_solutions_time(config):
    assert time_limit(config, "heat", "rods") == 150
    assert time_limit(config, "heat", "plates") == 60


def test_without_calibration_there_is_no_limit(config, tmp_path):
    assert time_limit(config, "heat", "another") is None
    assert time_limit(config, "another", "rods") is None
    assert time_limit(Config(), "heat", "rods") is None
    calibration_file(tmp_path, "heat").write_text("nonsense")
    assert time_limit(config, "heat", "rods") is None


def test_configuration_takes_precedence_and_calibration_itself_has_no_limit(config):
    config.Sandbox.memory = 2**33
    assert time_limit(config, "heat", "rods") == 150
    config.LockedAutograde.calibrate = False
    assert time_limit(config, "heat", "rods") is None
    config.LockedAutograde.calibrate = True
    assert time_limit(config, "heat", "rods") == 150
    config.Sandbox.seconds = 1000
    assert time_limit(config, "heat", "rods") is None


class RecordsLimit(CaptureEvidence):
    """Remembers its kernel's time limit."""

    def run_cell(self, kernel, cell, index):
        self.given = kernel.watch.limits.seconds
        super().run_cell(kernel, cell, index)


@pytest.mark.parametrize(("configured", "given"), [({}, 150), ({"Sandbox": {"seconds": 99}}, 99)])
def test_a_kernel_has_this_limit(config, tmp_path, configured, given):
    config.merge(configured)
    runner = RecordsLimit(config=config)
    resources = {"metadata": {"path": str(tmp_path)}, "nbgrader": NOTEBOOK | {"seeds": Seeds(0, 0)}}
    notebook = new_notebook(cells=[new_code_cell("1 + 1")])
    runner.preprocess(notebook, resources)
    assert notebook.cells[0].outputs[0].data["text/plain"] == "2"
    assert runner.given == given
    assert "Sandbox" not in config or config.Sandbox == Config(configured["Sandbox"])
