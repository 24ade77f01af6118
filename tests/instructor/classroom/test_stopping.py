"""Ctrl-C: it stops, keeps what there was and what was done, says so, and leaves nothing behind."""

import gc
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import matplotlib
import psutil
import pytest
from nbgrader.api import Gradebook

from autograder.instructor.__main__ import main
from autograder.instructor.commands import stop_on_signal
from autograder.instructor.commands.stopping import REPEAT_SECONDS
from autograder.instructor.course import Course
from autograder.instructor.nbgrader_plugins import entering
from shardlings.devices import environment
from tests.conftest import ROOT
from tests.instructor.classroom.plain_course import FIRST, hand_in, plain_course
from tests.instructor.room import Classroom
from tests.instructor.tiny_class import ASSIGNMENT as TINY
from tests.instructor.tiny_class import hand_in as hand_in_tiny
from tests.instructor.tiny_class import scores, tiny_class

ENDLESS = "__import__('time').sleep(25)"
"""An answer that is still running when Ctrl-C comes."""

GRADE = ("-m", "autograder.instructor", "grade")


@pytest.fixture(autouse=True)
def handlers():
    """Restore the signal handlers, because a stopped command ends but the tests go on."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def class_at_work(tmp_path_factory):
    """Ada is graded; then she hands in again what takes long, and so does Bob."""
    room = plain_course(tmp_path_factory.mktemp("stopped"))
    hand_in(room, "ada")
    assert main(["--root", str(room.root), "grade"]) == 0
    hand_in(room, "ada", total=ENDLESS)
    hand_in(room, "bob", total=ENDLESS)
    return room


def running_in(room: Classroom, what: str = "") -> list[int]:
    """Processes that have the class's folder among their arguments, variables or folders."""
    others = (process for process in psutil.process_iter() if process.pid != os.getpid())
    return [process.pid for process in others if _is_of(process, str(room.root), what)]


def _is_of(process: psutil.Process, folder: str, what: str) -> bool:
    try:
        command = process.cmdline()
        told = [*command, *process.environ().values(), process.cwd()]
    except (psutil.Error, OSError):  # it has ended, is somebody else's, or lies too deep
        return False
    return any(folder in each for each in told) and what in " ".join(command)


def wait_for(what: Callable[[], object], seconds: float = 120) -> None:
    """Wait until something is true."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.1)


def stopped(room: Classroom, command: Sequence[str], times: int = 1) -> tuple[int, str]:
    """Press Ctrl-C while a notebook runs; the exit status as a shell has it, and what was said."""
    variables = {name: os.environ[name] for name in os.environ if name not in environment()}
    (room.root / "tmp").mkdir(exist_ok=True)
    variables |= {"TMPDIR": str(room.root / "tmp"), "SHARDLINGS_STATE": str(room.root / "state")}
    with subprocess.Popen(
        command,
        cwd=room.root,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # as a terminal's foreground group, to which it sends the signal
    ) as process:
        try:
            wait_for(lambda: running_in(room, "autograder.sandboxed") or process.poll() is not None)
            time.sleep(1.5)
            for _ in range(times):
                os.killpg(process.pid, signal.SIGINT)
                time.sleep(0.3)
            said, _ = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    status = process.returncode
    return 128 - status if status < 0 else status, said


def files(room: Classroom) -> dict[Path, bytes]:
    """Return the contents of graded notebooks and feedback pages, by path."""
    folders = (room.root / "grading" / name for name in ("autograded", "feedback"))
    return {p: p.read_bytes() for folder in folders for p in folder.rglob("*") if p.is_file()}


MAKE = ("make", "-f", str(ROOT / "Makefile"), "-o", ".venv/installed",
        f"BIN={Path(sys.executable).parent}")  # fmt: skip

NO_SPACES = pytest.mark.skipif(" " in sys.executable, reason="make is told of a path with spaces")


@pytest.mark.parametrize(
    ("command", "times"),
    [
        pytest.param((*MAKE, "grade"), 1, marks=NO_SPACES),
        pytest.param((sys.executable, *GRADE), 2, marks=pytest.mark.slow),
        pytest.param(
            (sys.executable, "-m", "nbgrader", "autograde", FIRST, "--force"),
            2,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["make grade", "twice", "nbgrader autograde"],
)
def test_ctrl_c_stops_and_keeps_what_there_was(class_at_work, command, times):
    before = files(class_at_work)
    status, said = stopped(class_at_work, command, times)
    assert status == 130, said
    assert "Traceback" not in said
    assert "Stopped" in said
    assert "is kept" in said
    with Gradebook(Course(class_at_work.root).api.coursedir.db_url) as book:
        theirs = {s.student.id: s.score for s in book.assignment_submissions(FIRST)}
    assert theirs["ada"] == 10
    assert not theirs.get("bob")
    assert files(class_at_work) == before
    wait_for(lambda: not running_in(class_at_work), seconds=5)


def test_what_ran_before_goes_on():
    """As the server does from which `multiprocessing` forks, where others still need it."""
    endless = (sys.executable, "-c", ENDLESS)

    @stop_on_signal()
    def start_and_stop():
        started.append(subprocess.Popen(endless))
        raise KeyboardInterrupt

    started: list[subprocess.Popen[bytes]] = []
    with subprocess.Popen(endless) as before:
        with pytest.raises(SystemExit) as end:
            start_and_stop()
        assert end.value.code == 130
        assert not psutil.pid_exists(started[0].pid)
        started[0].wait()  # it has been waited for already, of which only this tells `subprocess`
        assert before.poll() is None
        before.kill()


@pytest.fixture
def tiny(tmp_path):
    """A class of two, of which nothing is graded."""
    root = tiny_class(tmp_path, 0)
    for number, student in enumerate(("ann", "bob")):
        hand_in_tiny(root, student, f"double = 2  # {number}")
    return root


def entering_is_stopped(monkeypatch, stop):
    """Have something done once a submission's scores are in the gradebook."""
    take_place, still = entering.move_into_place, [stop]

    def once(graded):
        if still:
            still.pop()()
        take_place(graded)

    monkeypatch.setattr(entering, "move_into_place", once)


def test_ctrl_c_stops_also_while_a_grade_is_entered(tiny, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        entering_is_stopped(patch, lambda: os.kill(os.getpid(), signal.SIGINT))
        assert main(["--root", str(tiny), "grade"]) == 130
    said = capsys.readouterr().out
    assert "Stopped" in said
    assert "failed" not in said
    assert main(["--root", str(tiny), "grade"]) == 0
    assert set(scores(tiny).values()) == {2}


def test_scores_that_were_entered_when_it_stopped_are_not_taken_for_those_of_before(
    tiny, monkeypatch
):
    handed_in = tiny / "grading" / "submitted" / "ann" / TINY / f"{TINY}.ipynb"
    assert main(["--root", str(tiny), "grade"]) == 0
    right = handed_in.read_text()
    handed_in.write_text(right.replace("double = 2", "double = 1"))
    with monkeypatch.context() as patch:

        def stop():
            raise KeyboardInterrupt

        entering_is_stopped(patch, stop)
        assert main(["--root", str(tiny), "grade"]) == 130
    handed_in.write_text(right)
    assert main(["--root", str(tiny), "grade"]) == 0
    assert scores(tiny)["ann"] == 2


STARTS_LATER = """
import pathlib, subprocess, sys, time
folder = pathlib.Path(sys.argv[1])
while not (folder / "now").exists():
    time.sleep(0.05)
child = subprocess.Popen([sys.executable, "-c", sys.argv[2]])
(folder / "new").write_text(str(child.pid))
(folder / "new").rename(folder / "started")
child.wait()
"""


def test_what_those_start_that_ran_before_goes_on(tmp_path):
    @stop_on_signal()
    def stop_once_it_has_started():
        (tmp_path / "now").touch()
        wait_for((tmp_path / "started").exists)
        raise KeyboardInterrupt

    command = (sys.executable, "-c", STARTS_LATER, str(tmp_path), ENDLESS)
    with subprocess.Popen(command) as before:
        with pytest.raises(SystemExit):
            stop_once_it_has_started()
        child = psutil.Process(int((tmp_path / "started").read_text()))
        assert child.is_running()
        child.kill()
        assert before.wait(10) == 0


def settings():
    """Return the settings of the interpreter, which a command could change for its caller."""
    mask = os.umask(0o077)
    os.umask(mask)
    return {
        "environment": dict(os.environ),
        "umask": mask,
        "folder": Path.cwd(),
        "logging": logging.root.manager.disable,
        "loops' log": logging.getLogger("asyncio").level,
        "temporary files": tempfile.gettempdir(),
        "pictures": dict(matplotlib.rcParams),
    }


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_command_leaves_the_settings_of_its_interpreter_as_they_were(
    tiny, monkeypatch, is_stopped
):
    config = tiny / "nbgrader_config.py"
    config.write_text(f"{config.read_text()}\nc.CourseDirectory.groupshared = True\n")
    logging.disable(logging.NOTSET)
    assert Course(tiny).api, "configured: nbgrader's programs are on the path"
    assert logging.root.manager.disable == logging.NOTSET
    before = settings()
    if is_stopped:
        entering_is_stopped(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert main(["--root", str(tiny), "grade"]) == (130 if is_stopped else 0)
    assert settings() == before


class _Deleted:
    """Has a method that Python calls where it ignores errors."""

    def __del__(self):
        interrupt_here()


def swallow_interrupt():
    """Interrupt this process, and make another error of it, as an import in C does."""
    with suppress(ImportError):
        try:
            interrupt_here()
        except KeyboardInterrupt as error:
            raise ImportError from error


class _Referent:
    """Can be referred to weakly."""


def interrupt_here(*_: object) -> None:
    """Interrupt this process while this function runs."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)  # the handler runs here


def delete_referent():
    """Interrupt this process in the callback of a weak reference."""
    referent = _Referent()
    reference = weakref.ref(referent, interrupt_here)
    del referent
    assert reference() is None


def collect_garbage():
    """Interrupt this process in a callback of the garbage collector."""
    gc.callbacks.append(interrupt_here)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(interrupt_here)


@pytest.mark.parametrize(
    "ignore",
    [_Deleted, delete_referent, collect_garbage, swallow_interrupt],
    ids=["del", "weak reference", "garbage collector", "library"],
)
def test_ctrl_c_stops_also_where_an_interrupt_is_dropped(ignore, capsys):
    @stop_on_signal()
    def delete():
        ignore()
        time.sleep(20)
        pytest.fail("it went on")

    with pytest.raises(SystemExit) as stopped:
        delete()
    assert stopped.value.code == 130
    assert not capsys.readouterr().err


def test_an_error_that_was_made_of_an_interrupt_is_no_error_of_the_command():
    @stop_on_signal()
    def fail():
        try:
            interrupt_here()
        except KeyboardInterrupt as error:
            raise ImportError from error

    with pytest.raises(SystemExit) as stopped:
        fail()
    assert stopped.value.code == 130


def test_cleaning_up_after_ctrl_c_is_not_interrupted():
    @stop_on_signal()
    def clean_up():
        try:
            interrupt_here()
        finally:
            time.sleep(5 * REPEAT_SECONDS)
            cleaned.append(True)

    cleaned: list[bool] = []
    with pytest.raises(SystemExit):
        clean_up()
    assert cleaned


def test_no_signal_is_repeated_after_the_block_has_ended(monkeypatch):
    """The next handler would take it for another Ctrl-C: once, it was the test run's."""
    sent: list[int] = []

    def send_late(*told: int) -> None:
        time.sleep(5 * REPEAT_SECONDS)  # as on a busy machine
        sent.append(told[1])

    @stop_on_signal()
    def end_while_one_is_sent():
        try:
            interrupt_here()
        finally:
            time.sleep(2 * REPEAT_SECONDS)

    monkeypatch.setattr(signal, "pthread_kill", send_late)
    with pytest.raises(SystemExit):
        end_while_one_is_sent()
    before = len(sent)
    time.sleep(10 * REPEAT_SECONDS)
    assert len(sent) == before == 1


STOPS = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep({seconds})"
"""A module that is interrupted while it is imported."""


def test_ctrl_c_stops_with_a_sentence_while_a_command_is_imported(tmp_path):
    (tmp_path / "jax.py").write_text(STOPS.format(seconds=25))
    done = subprocess.run(
        [sys.executable, "-m", "autograder.instructor", "report"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert done.stdout == "\nStopped before anything was begun.\n"


PRELOADS = """
import os, signal
from autograder.instructor.commands import (ProcessExecutor, process_executor)
process_executor.PRELOADED[:] = ["interrupted"]
executor = ProcessExecutor(1)
assert executor.submit(os.getpid).result() != os.getpid()
assert executor.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result() == set()
assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
executor.shutdown()
"""


def test_ctrl_c_does_not_reach_processes_before_they_are_ready(tmp_path):
    (tmp_path / "interrupted.py").write_text(STOPS.format(seconds=0))
    done = subprocess.run(
        [sys.executable, "-c", PRELOADS],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_was_started_has_ended_before_temporary_files_are_removed():
    started: list[subprocess.Popen[bytes]] = []
    runs: list[bool] = []

    @contextmanager
    def around():
        try:
            yield
        finally:
            runs.append(psutil.pid_exists(started[0].pid))
            started[0].wait()  # it has been waited for already, of which only this tells it

    def start_and_stop():
        with stop_on_signal(around()):
            started.append(subprocess.Popen((sys.executable, "-c", ENDLESS)))
            raise KeyboardInterrupt

    with pytest.raises(SystemExit):
        start_and_stop()
    assert runs == [False]
