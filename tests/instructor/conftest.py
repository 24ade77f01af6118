"""Fixtures for everything that grades."""

import dataclasses
import shutil
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from multiprocessing import forkserver
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from autograder.instructor.classroom import grading, regrading, workers
from autograder.instructor.commands import ProcessExecutor, process_executor
from autograder.instructor.sandbox import has_bubblewrap, sandbox
from autograder.processes.launching import PRELOADED
from tests.instructor.room import Classroom, begin_test_worker, share_caches

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


@pytest.fixture
def room(before: Classroom, tmp_path: Path) -> Classroom:
    """Return a copy of the class that a module's own fixture `before` has made and graded."""
    shutil.copytree(before.root, tmp_path / "course")
    return dataclasses.replace(before, root=tmp_path / "course")


@pytest.fixture(autouse=True, scope="session")
def _grade_without_bubblewrap_if_there_is_none() -> Iterator[None]:
    """Run everything else without a sandbox there, as `c.Sandbox.required = False` does."""
    defaults = sandbox.Sandbox._static_immutable_initial_values
    with mock.patch.dict(defaults, {} if has_bubblewrap() else {"required": False}):
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_pool_for_all_classes() -> Iterator[None]:
    """Let classes share workers, and so warm servers, which take seconds to start."""
    share_caches()
    # started here, so that no command that a test stops ends it; other tests use the same server
    forkserver.set_forkserver_preload([*PRELOADED, *process_executor.PRELOADED])
    forkserver.ensure_running()
    number = workers.Workers().count_local_workers()
    with mock.patch.object(process_executor, "prepare_process", begin_test_worker):
        executor = ProcessExecutor(number)
        pool = nullcontext(workers.Pool(executor, lambda: number))
        with (
            mock.patch.object(grading, "open_local_pool", return_value=pool),
            mock.patch.object(regrading, "open_local_pool", return_value=pool),
        ):
            yield
        executor.shutdown(cancel_futures=True)


class _CallingExecutor(Executor):
    """Calls each function in the caller's thread."""

    def submit(self, function: Any, /, *arguments: Any) -> Any:  # type: ignore[override]
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.fixture(scope="module")
def in_this_process() -> Iterator[None]:
    """Grade and judge in pytest's own process, for tests that replace parts of the grader."""
    pool = nullcontext(workers.Pool(_CallingExecutor(), lambda: 1, ahead=1))
    with (
        mock.patch.object(grading, "open_local_pool", return_value=pool),
        mock.patch.object(regrading, "open_local_pool", return_value=pool),
    ):
        yield
