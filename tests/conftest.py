"""Every process that runs JAX has its eight devices, and a pool that cannot deadlock."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from autograder.devices import emulate_devices, environment

os.environ.update(environment())  # for the processes that tests start
emulate_devices(8)

# Machines are noisy, and a first compile is slow: nothing here is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

ROOT = Path(__file__).parent.parent


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(autouse=True)
def _own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the progress of whoever runs it."""
    from autograder.judge import progress

    monkeypatch.setenv("SHARDLINGS_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(progress, "_in_memory", {})
    # nbgrader leaves it set where a preprocessor raised
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
