"""A kernel that dies is tried again; what the machine did is no verdict on an answer."""

import contextlib
import itertools
import os
import time
from collections import Counter

import nbformat
import psutil
import pytest
from traitlets.config import Config

from autograder.instructor.course import NAMESPACE
from autograder.instructor.nbgrader_plugins import CaptureEvidence, capture_evidence
from autograder.instructor.nbgrader_plugins.capture_evidence import KernelDeath
from autograder.instructor.pipeline.grading import make_note
from autograder.instructor.sandbox import MachineError, OutputLimits, kernel, limit_watch
from tests.helpers import SPINS, crowd


class Ends(CaptureEvidence):
    """Runs no notebook; each run ends as it is told."""

    def _run(self, nb, resources):
        self.allowance = OutputLimits(0, 0, 0)
        cell = self.ends.pop(0)
        return None if cell is None else KernelDeath(cell, "")


def capture(*ends):
    """Return how a notebook dies if its kernel dies in these cells; None is a run that survives."""
    runner = Ends()
    runner.ends = list(ends)
    _, resources = runner.preprocess(nbformat.v4.new_notebook(), {})
    return resources[NAMESPACE]["died"]


def test_who_dies_once_is_forgiven():
    assert capture(3, None) is None


def test_who_dies_twice_in_one_cell_died_of_it():
    died = capture(3, 3)
    assert (died.cell, died.reason) == (3, "")


def test_who_dies_here_and_then_there_is_not_graded():
    with pytest.raises(MachineError, match="died twice, in cell 4 and then in cell 8"):
        capture(3, 7)


@pytest.fixture
def shortages(monkeypatch):
    """Return a function that sets how often the machine runs short in each run."""

    def set_shortages(*counts):
        totals = [Counter({"it ran short": sum(counts[:n])}) for n in range(len(counts) + 1)]
        readings = [reading for pair in itertools.pairwise(totals) for reading in pair]
        monkeypatch.setattr(capture_evidence, "read_shortages", lambda: readings.pop(0))
        return readings

    return set_shortages


@pytest.mark.parametrize("ends", [[3, 3, 3], [None, None, None]])
def test_a_run_on_a_machine_that_runs_short_says_nothing_about_an_answer(shortages, ends):
    shortages(1, 1, 1)
    with pytest.raises(
        MachineError, match=r"While the notebook ran, it ran short\. Grade it again"
    ):
        capture(*ends)


def test_who_dies_twice_on_a_machine_that_did_not_run_short_died_of_it(shortages):
    left = shortages(0, 1, 0)
    died = capture(3, 3, 3)
    assert died.description == "The kernel died twice in cell 4."
    assert not left, "it ran three times"


def test_a_run_after_a_shortage_counts(shortages):
    shortages(1, 0)
    assert capture(3, None) is None


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("import os; os._exit(1)", r"fails, too\. Grade it"),
        ("raise OSError('no threads')", r"fails, too: no threads\. Grade it"),
    ],
)
def test_where_no_kernel_survives_no_cell_is_at_fault(monkeypatch, cell, why):
    monkeypatch.setattr(capture_evidence, "CONTROL_CELL", cell)
    with pytest.raises(
        MachineError, match=f"The kernel died twice in cell 4, and a cell of ours {why}"
    ):
        capture(3, 3)


class Unlucky(CaptureEvidence):
    """Runs notebooks on a machine that kills a kernel before the given cells, one a run."""

    def run_cell(self, kernel, cell, index):
        if self.unlucky and index == self.unlucky[0]:
            self.unlucky.pop(0)
            kernel.process.kill()
            while kernel.process.poll() is None:
                time.sleep(0.01)
        super().run_cell(kernel, cell, index)


def run_for_real(tmp_path, *unlucky):
    """Run three cells, and return their output; the last counts how often the first two ran."""
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


def test_a_kernel_that_does_not_start_is_the_machines(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel, "KERNEL_COMMAND", ("false",))
    with pytest.raises(
        MachineError, match=r"The kernel did not start \(and does not say why\)\. Grade it"
    ):
        run_for_real(tmp_path)


def test_a_kernel_for_whose_watch_there_is_no_thread_is_ended(tmp_path, monkeypatch):
    started, start = [], kernel._start

    def start_and_keep(*given):
        started.append(start(*given))
        return started[0]

    monkeypatch.setattr(kernel, "_start", start_and_keep)

    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(limit_watch.LimitWatch, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        run_for_real(tmp_path)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(started[0].pid).wait(timeout=30)


class Crowded(CaptureEvidence):
    """Runs notebooks on the one core on which many others are at work."""

    def run_cell(self, kernel, cell, index):
        for each in limit_watch.find_family(kernel.process.pid):
            each.cpu_affinity([min(os.sched_getaffinity(0))])
        super().run_cell(kernel, cell, index)


@pytest.fixture
def crowded():
    with crowd():
        yield


@pytest.mark.crowded
def test_a_cell_that_is_kept_waiting_is_not_interrupted(tmp_path, crowded):
    cell = nbformat.v4.new_code_cell(f"{SPINS % 1}print('done')")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    began = time.monotonic()
    Crowded(timeout=4).preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    assert notebook.cells[0].outputs[0].text == "done\n"
    assert time.monotonic() - began > 6, "by the clock it would have been too long"


@pytest.mark.crowded
def test_a_notebook_that_is_not_let_run_is_the_machines(tmp_path, crowded, monkeypatch):
    monkeypatch.setattr(limit_watch, "CLOCK_FACTOR", 3)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(SPINS % 600)])
    runner = Crowded(timeout=100, config=Config({"Sandbox": {"seconds": 4}}))
    with pytest.raises(MachineError, match=r"let the notebook have . seconds in 12\. Grade it"):
        runner.preprocess(notebook, {"metadata": {"path": str(tmp_path)}})


STOPS = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.bubblewrap
def test_a_cell_that_heeds_no_interrupt_ends_the_notebook_and_is_told_why(tmp_path, monkeypatch):
    monkeypatch.setattr(capture_evidence, "INTERRUPT_SECONDS", 1)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(STOPS)])
    _, resources = CaptureEvidence(timeout=1).preprocess(
        notebook, {"metadata": {"path": str(tmp_path)}}
    )
    died = resources[NAMESPACE]["died"]
    assert died.reason == "a cell did not end in its time, and heeded no interrupt"


HANGS = """
import time
shell = get_ipython()
async def hang(code, *rest, **named):
    if EVEN or code != "pass":
        time.sleep(10_000)
    return await kept(code, *rest, **named)
kept, shell.run_cell_async = shell.run_cell_async, hang
"""
GIVEN_UP = {
    "every cell hangs": HANGS.replace("EVEN", "True"),
    "all but the empty one hang": HANGS.replace("EVEN", "False"),
    "all but the first hang": "import time",
}


@pytest.mark.parametrize("name", GIVEN_UP)
@pytest.mark.bubblewrap
def test_where_cells_do_not_end_properly_the_notebook_is_ended(tmp_path, name):
    cells = [nbformat.v4.new_code_cell(c) for c in [GIVEN_UP[name], *["time.sleep(10_000)"] * 20]]
    notebook = nbformat.v4.new_notebook(cells=cells)
    _, resources = CaptureEvidence(timeout=2).preprocess(
        notebook, {"metadata": {"path": str(tmp_path)}}
    )
    said = "The notebook was ended in cell 4: 3 cells did not end in their time."
    assert resources[NAMESPACE]["died"].description == said


@pytest.mark.bubblewrap
def test_cells_are_counted_as_whoever_wrote_them_counts(tmp_path):
    """A cell that says what was not taken stands above theirs, and is none of theirs."""
    path = tmp_path / "a.ipynb"
    dies = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    cells = [nbformat.v4.new_markdown_cell("first"), nbformat.v4.new_code_cell(dies)]
    for above in ([], [make_note(["evil.html had to be left out."])]):
        nbformat.write(nbformat.v4.new_notebook(cells=[*above, *cells]), path)
        notebook = nbformat.read(path, 4)  # as it is written and read again
        _, resources = CaptureEvidence().preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
        assert resources[NAMESPACE]["died"].description == "The kernel died twice in cell 2."


def test_the_time_of_a_cell_is_read_from_nbgraders_setting_too():
    both = Config({"Execute": {"timeout": 7}, "CaptureEvidence": {"timeout": 9}})
    assert CaptureEvidence().timeout == 30
    assert CaptureEvidence(config=Config({"Execute": {"timeout": 7}})).timeout == 7
    assert CaptureEvidence(config=both).timeout == 9
    assert CaptureEvidence(config=Config({"Execute": {"timeout": 7}}), timeout=5).timeout == 5


SHOWN_OFTEN = """
from IPython.display import display, update_display
for _ in range(200):
    display("before", display_id="one")
update_display("x" * {size}, display_id="one")
"""


@pytest.mark.parametrize(("size", "is_accepted_file"), [(100, True), (200_000, False)])
def test_an_update_counts_for_each_output_that_it_changes(tmp_path, size, is_accepted_file):
    """Else a cell of a megabyte could make a notebook of gigabytes."""
    cell = nbformat.v4.new_code_cell(SHOWN_OFTEN.format(size=size))
    notebook = nbformat.v4.new_notebook(cells=[cell])
    CaptureEvidence().preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    assert len(cell.outputs) == 200
    assert all(("xxx" in o.data["text/plain"]) == is_accepted_file for o in cell.outputs)
    assert len(nbformat.writes(notebook)) < 2**20
