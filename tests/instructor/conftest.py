"""Fixtures for everything that grades."""

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from autograder.instructor.sandbox import has_bubblewrap, sandbox
from tests.instructor.room import CALIBRATED

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore what nbgrader's sessions warn of at each new submission, though nothing is wrong."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip the tests of the sandbox where there is none."""
    if item.get_closest_marker("bubblewrap") and not has_bubblewrap():
        pytest.skip("there is no working bubblewrap here")


@pytest.fixture(autouse=True, scope="session")
def _grade_without_bubblewrap_if_there_is_none() -> Iterator[None]:
    """Run everything else without a sandbox there, as `c.Sandbox.required = False` does."""
    defaults = sandbox.Sandbox._static_immutable_initial_values
    with mock.patch.dict(defaults, {} if has_bubblewrap() else {"required": False}):
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_folder_of_compiled_programs() -> Iterator[None]:
    """Show each calibration's compiled programs from one folder, so that warm servers are shared.

    The folder's name is a fingerprint of what was compiled, and for which machine.
    """
    as_it_is = sandbox.bind_cache

    def bind_cache(folder: Path, reader: sandbox.Reader, fills: bool) -> list[str]:
        shared = next(CALIBRATED.glob(f"*/{folder.name}"), folder)
        return as_it_is(folder if fills else shared, reader, fills)

    with mock.patch.object(sandbox, "bind_cache", bind_cache):
        yield
