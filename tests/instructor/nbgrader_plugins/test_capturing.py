"""A kernel that dies is tried again; what the machine did is no verdict on an answer."""

import os
import signal
import tempfile
import time

import nbformat
import psutil
import pytest
from nbclient.exceptions import DeadKernelError
from nbgrader.preprocessors import Execute
from traitlets.config import Config

from autograder.instructor import walls
from autograder.instructor.course import NAMESPACE
from autograder.instructor.kernels import limit_watch
from autograder.instructor.kernels.kernel_messages import DEEP, depth
from autograder.instructor.nbgrader_plugins import CaptureEvidence, MachineError
from autograder.instructor.pipeline.grading import told_above
from tests.helpers import SPINS, crowd, pretend_walls


class Provisioner:
    """What is left of a kernel."""

    ended = ""


def capture(monkeypatch, *ends):
    """Run a notebook whose kernel ends so: in which cell, and with which error."""
    left = iter(ends)

    def run(self, nb, resources, km=None):
        cell, error = next(left)
        self.at, self.provisioner = cell, Provisioner()
        if error is not None:
            raise error
        return nb, resources

    monkeypatch.setattr(Execute, "preprocess", run)
    _, resources = CaptureEvidence().preprocess(nbformat.v4.new_notebook(), {})
    return resources[NAMESPACE]["died"]


def test_who_dies_once_is_forgiven(monkeypatch):
    assert capture(monkeypatch, (3, DeadKernelError()), (9, None)) is None


def test_who_dies_twice_in_one_cell_died_of_it(monkeypatch):
    died = capture(monkeypatch, (3, DeadKernelError()), (3, DeadKernelError()))
    assert (died.cell, died.ended) == (3, "")


def test_who_dies_here_and_then_there_is_not_graded(monkeypatch):
    with pytest.raises(MachineError, match="died twice, in cell 4 and then in cell 8"):
        capture(monkeypatch, (3, DeadKernelError()), (7, DeadKernelError()))


class Unlucky(CaptureEvidence):
    """Runs notebooks on a machine that kills a kernel before the given cells, one a run."""

    def preprocess_cell(self, cell, resources, index):
        if self.unlucky and index == self.unlucky[0]:
            self.unlucky.pop(0)
            process = psutil.Process(self.km.provisioner.process.pid)
            family = process.children(recursive=True)
            os.killpg(process.pid, signal.SIGKILL)
            psutil.wait_procs(family, timeout=20)  # within walls it dies a moment later
        return super().preprocess_cell(cell, resources, index)


def run_for_real(tmp_path, *unlucky):
    """What three cells say, of which the last counts how often the first two have run."""
    cells = ["ran = []", "ran.append(1)", "print(len(ran))"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    runner = Unlucky()
    runner.unlucky = list(unlucky)
    runner.preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    return notebook.cells[2].outputs[0].text


def test_a_real_kernel_that_dies_once_is_run_anew_from_the_beginning(tmp_path):
    assert run_for_real(tmp_path) == "1\n"
    assert run_for_real(tmp_path, 1) == "1\n"


def test_a_real_kernel_that_dies_here_and_there_is_the_machines(tmp_path):
    with pytest.raises(MachineError, match="died twice, in cell 2 and then in cell 3"):
        run_for_real(tmp_path, 1, 2)


def test_a_kernel_runs_where_temporary_files_lie_deep(tmp_path, monkeypatch):
    deep = tmp_path / ("deep" * 20)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert run_for_real(tmp_path) == "1\n"


@pytest.mark.parametrize("walled", [True, False])
def test_a_cell_without_end_is_interrupted_and_the_next_is_run(tmp_path, monkeypatch, walled):
    if walled and not walls.works():
        pytest.skip("there is no bubblewrap here")
    pretend_walls(monkeypatch, walled)
    # the next one is long enough for whoever looks whether the kernel lives
    cells = ["while True:\n    pass", "import time\ntime.sleep(2.5)\nprint('next')"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    runner = CaptureEvidence(timeout=5)
    _, resources = runner.preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    assert resources[NAMESPACE]["died"] is None
    assert notebook.cells[1].outputs[0].text == "next\n"
    time.sleep(2)
    left = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    assert not [command for command in left if str(runner.shared) in command]


class Crowded(CaptureEvidence):
    """Runs notebooks on the one core on which many others are at work."""

    def preprocess_cell(self, cell, resources, index):
        process = psutil.Process(self.km.provisioner.process.pid)
        for each in [process, *process.children(recursive=True)]:
            each.cpu_affinity([min(os.sched_getaffinity(0))])
        return super().preprocess_cell(cell, resources, index)


@pytest.fixture
def crowded():
    with crowd():
        yield


def test_a_cell_that_is_kept_waiting_is_not_interrupted(tmp_path, crowded):
    cell = nbformat.v4.new_code_cell(f"{SPINS % 1}print('done')")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    began = time.monotonic()
    Crowded(timeout=4).preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    assert notebook.cells[0].outputs[0].text == "done\n"
    assert time.monotonic() - began > 6, "by the clock it would have been too long"


def test_a_notebook_that_is_not_let_run_is_the_machines(tmp_path, crowded, monkeypatch):
    monkeypatch.setattr(limit_watch, "PATIENCE", 3)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SPINS % 600)])
    runner = Crowded(timeout=100, config=Config({"Sandbox": {"seconds": 4}}))
    with pytest.raises(MachineError, match=r"let the notebook have . seconds in 12\. Grade it"):
        runner.preprocess(notebook, {"metadata": {"path": str(tmp_path)}})


ENDS = {
    "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nimport os\nos.kill(os.getpid(), "
    "signal.SIGSTOP)": (3, "a cell did not end in its time, and heeded no interrupt"),
    "print('x' * 2**27)": (30, "a cell said more than 64 MB at once: print less"),
}


@pytest.mark.parametrize("code", ENDS)
@pytest.mark.skipif(not walls.works(), reason="there is no bubblewrap here")
def test_a_cell_that_ends_the_conversation_is_told_why(tmp_path, code):
    timeout, why = ENDS[code]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    _, resources = CaptureEvidence(timeout=timeout).preprocess(
        notebook, {"metadata": {"path": str(tmp_path)}}
    )
    assert resources[NAMESPACE]["died"].ended == why


HANGS = """
import time
shell = get_ipython()
async def hang(code, *rest, **named):
    if EVEN or code != "pass":
        time.sleep(10_000)
    return await kept(code, *rest, **named)
kept, shell.run_cell_async = shell.run_cell_async, hang
"""
NONSENSE = """
async def nonsense(*_, **__):
    return 5
get_ipython().run_cell_async = nonsense
"""
GIVEN_UP = {
    "every cell hangs": (
        HANGS.replace("EVEN", "True"), 3,
        "a cell did not end in its time, and no other one would end after it",
    ),
    "all but the empty one hang": (
        HANGS.replace("EVEN", "False"), 3, "3 cells did not end in their time",
    ),
    "no reply": (NONSENSE, 30, "the kernel did not say how a cell ended"),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN_UP)
@pytest.mark.skipif(not walls.works(), reason="there is no bubblewrap here")
def test_where_cells_do_not_end_properly_the_notebook_is_ended(tmp_path, name):
    code, timeout, why = GIVEN_UP[name]
    cells = [nbformat.v4.new_code_cell(c) for c in [code, *["1"] * 20]]
    notebook = nbformat.v4.new_notebook(cells=cells)
    began = time.monotonic()
    _, resources = CaptureEvidence(timeout=timeout).preprocess(
        notebook, {"metadata": {"path": str(tmp_path)}}
    )
    died = resources[NAMESPACE]["died"]
    assert (died.cell in (1, 3), died.ended) == (True, why)
    assert died.told == f"The notebook was ended in cell {died.cell + 1}: {why}."
    assert time.monotonic() - began < 45


@pytest.mark.skipif(not walls.works(), reason="there is no bubblewrap here")
def test_cells_are_counted_as_whoever_wrote_them_counts(tmp_path):
    """A cell that says what was not taken stands above theirs, and is none of theirs."""
    path = tmp_path / "a.ipynb"
    dies = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    cells = [nbformat.v4.new_markdown_cell("first"), nbformat.v4.new_code_cell(dies)]
    for above in ([], [told_above(["evil.html had to stay away."])]):
        nbformat.write(nbformat.v4.new_notebook(cells=[*above, *cells]), path)
        notebook = nbformat.read(path, 4)  # as it is written and read again
        _, resources = CaptureEvidence().preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
        assert resources[NAMESPACE]["died"].told == "The kernel died in cell 2, and again there."


def test_how_deep_is_found_without_going_there():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert depth(deep) == DEEP + 1
    assert depth({"a": [1, {"b": 2}]}) == 3
