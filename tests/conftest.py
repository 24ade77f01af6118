"""Settings for all tests: eight emulated devices, no time limits, and sampling of long lists."""

import math
import os
import random
import re
import secrets
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from shardlings.devices import emulate_devices, environment
from tests.durations import Durations

os.environ.update(environment())  # for the processes that tests start
emulate_devices(8)
if threading.current_thread() is threading.main_thread():
    # a shell's background jobs ignore it, and so would all processes that tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines are noisy, and a first compilation is slow, so hypothesis has no deadline.
# It keeps no examples in a checkout that cannot be written to.
HYPOTHESIS_SETTINGS = {} if os.access(Path(__file__).parent.parent, os.W_OK) else {"database": None}
settings.register_profile("untimed", deadline=None, **HYPOTHESIS_SETTINGS)
settings.load_profile("untimed")

Thing = TypeVar("Thing")

ROOT = Path(__file__).parent.parent

SHARE = int(os.environ.get("SHARDLINGS_EVERY", 1))
"""One in so many cases of a long list is tested."""

SEED = int(os.environ.setdefault("SHARDLINGS_SEED", str(secrets.randbelow(10**6))))
"""The seed for which cases are sampled. pytest prints it, and a run can be repeated with it."""


def some_of(many: Sequence[Thing], at_least: int = 3) -> list[Thing]:
    """Sample one in `SHARE` of many things, in their order, or a few more of a short list."""
    count = min(len(many), max(at_least, math.ceil(len(many) / SHARE)))
    return [many[place] for place in sorted(random.Random(SEED).sample(range(len(many)), count))]


def fewer(examples: int) -> int:
    """Return how many random examples to try of as many; hypothesis draws them."""
    return max(5, examples // SHARE)


def pytest_configure(config: pytest.Config) -> None:
    """Add up how long tests take, where all of them are reported."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark the tests of modules that sample, which `make test-grading` runs without sampling."""
    for item in items:
        module = item.getparent(pytest.Module)
        if module is not None and {"some_of", "fewer"} & vars(module.obj).keys():
            item.add_marker("sampled")


def pytest_report_header() -> str:
    """Print how to repeat a run with the same cases."""
    return f"to try the same: SHARDLINGS_EVERY={SHARE} SHARDLINGS_SEED={SEED}"


class ByNotebook(LoadScopeScheduling):
    """Runs a module's tests in one process; those of the bank, in one process for each notebook."""

    def _split_scope(self, nodeid: str) -> str:
        module, _, test = nodeid.rpartition("::")
        notebook = re.search(r"\[\d\d_\w+\]$", test)
        return module + notebook[0] if notebook and "test_bank" in module else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Distribute tests by notebook."""
    return ByNotebook(config, log)


@pytest.fixture
def root() -> Path:
    """The folder of the checkout."""
    return ROOT


@pytest.fixture(autouse=True)
def _own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests from writing to the progress of whoever runs them."""
    monkeypatch.setenv("SHARDLINGS_STATE", str(tmp_path / "state"))
    if progress := sys.modules.get("autograder.judge.progress"):  # the library's tests have none
        monkeypatch.setattr(progress, "_in_memory", {})
    # nbgrader leaves this set if a preprocessor raises an error
    os.environ.pop("NBGRADER_EXECUTION", None)
