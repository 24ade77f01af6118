"""Every process that runs JAX has its eight devices, and a pool that cannot deadlock."""

import math
import os
import random
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from autograder.devices import emulate_devices, environment

os.environ.update(environment())  # for the processes that tests start
os.environ["SHARDLINGS_WORKERS"] = "1"  # but where it is about several, tests have one each
emulate_devices(8)

# Machines are noisy, and a first compile is slow: nothing here is timed.
# Where the checkout cannot be written to, no examples are kept.
KEPT = {} if os.access(Path(__file__).parent.parent, os.W_OK) else {"database": None}
settings.register_profile("untimed", deadline=None, **KEPT)
settings.load_profile("untimed")

Thing = TypeVar("Thing")

ROOT = Path(__file__).parent.parent

SHARE = int(os.environ.get("SHARDLINGS_EVERY", 1))
"""Where time is short, one of so many is tried of what there are very many of."""

SEED = int(os.environ.setdefault("SHARDLINGS_SEED", str(secrets.randbelow(10**6))))
"""By which it is drawn which ones; pytest's first lines say it, and another run can be given it."""


def some_of(many: Sequence[Thing]) -> list[Thing]:
    """All of many things where there is time, and otherwise a share of them, in their order."""
    places = random.Random(SEED).sample(range(len(many)), math.ceil(len(many) / SHARE))
    return [many[place] for place in sorted(places)]


def pytest_report_header() -> str:
    """How to try the same again."""
    return f"to try the same: SHARDLINGS_EVERY={SHARE} SHARDLINGS_SEED={SEED}"


class ByNotebook(LoadScopeScheduling):
    """One process has all tests of a module; of the bank it has a notebook's, each minutes long."""

    def _split_scope(self, nodeid: str) -> str:
        module, _, test = nodeid.rpartition("::")
        notebook = re.search(r"\[\d\d_\w+\]$", test)
        return module + notebook[0] if notebook and "test_bank" in module else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Have tests go to processes in this way."""
    return ByNotebook(config, log)


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
    # nbgrader leaves it set where a preprocessor raised, and so would a patch of ours
    os.environ.pop("NBGRADER_EXECUTION", None)
