"""Run a submission's notebook in a sandboxed kernel that only captures evidence."""

import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Int

from autograder import evidence
from autograder.exercises import BY_GRADE_ID
from autograder.instructor.course import NAMESPACE
from autograder.instructor.pipeline import find_compiled, find_unused, is_note, time_limit
from autograder.instructor.sandbox import (
    GRADE_AGAIN,
    Kernel,
    KernelDiedError,
    MachineError,
    OutputLimits,
    Sandbox,
    TooLargeMessage,
    make_error_output,
    make_output,
    read_shortages,
)
from autograder.sandboxed import Display, Done, Error, Message, Ready, Update
from shardlings.documents import with_noun

INTERRUPT_SECONDS: Final = 10
"""The time limit for an interrupted cell to end."""

MAX_INTERRUPTED_CELLS: Final = 3
"""The number of cells that may use up their time before the notebook is ended."""

TOO_LONG: Final = Error("Error", "the error is too long to be kept", [])

MAX_RUNS: Final = 3
"""The most runs of a notebook; more than two only if the machine ran short meanwhile."""

BEFORE_FIRST_CELL: Final = -1

LANGUAGE: Final = {
    "name": "python",
    "version": ".".join(map(str, sys.version_info[:3])),
    "mimetype": "text/x-python",
    "codemirror_mode": {"name": "ipython", "version": 3},
    "pygments_lexer": "ipython3",
    "nbconvert_exporter": "python",
    "file_extension": ".py",
}
"""The language metadata of a graded notebook, which pages use to colour code."""


@dataclass(frozen=True)
class KernelDeath:
    """A kernel's end before the end of the notebook.

    Attributes:
        cell: the index of the cell that was running, in the submitted notebook.
        reason: the limit that it exceeded, in words; empty if it died by itself.
    """

    cell: int
    reason: str

    @property
    def description(self) -> str:
        """Return what happened, as a sentence."""
        why = f"The notebook was ended in cell {self.cell + 1}: {self.reason}."
        return why if self.reason else f"The kernel died twice in cell {self.cell + 1}."


CONTROL_CELL: Final = """
import jax, jax.numpy as jnp, numpy as np
rows = jax.NamedSharding(jax.make_mesh((8,), ("x",)), jax.P("x"))
print(int(jax.jit(jnp.sum)(jax.device_put(np.arange(8), rows))))
"""
"""A cell that every working kernel can run: it starts eight devices and an all-reduce."""


class CaptureEvidence(NbGraderPreprocessor):
    """Runs cells in a sandboxed kernel with emulated devices, which judges nothing.

    Demonstrations run only if another cell that runs reads what they make, or fails without them.
    It replaces nbgrader's `Execute`, and uses `Execute.timeout` unless it has a timeout of its own.
    """

    timeout = Int(
        30,
        help="How many seconds a cell may run, without the time that it waits for a CPU, before it "
        "is interrupted; `Execute.timeout` sets it, too.",
    ).tag(config=True)
    cell_output = Int(2**20, help="The most characters of output that are kept of a cell.").tag(
        config=True
    )
    demonstrations = Bool(
        False, help="Whether demonstrations run even if no answer needs what they make."
    ).tag(config=True)
    notebook_output = Int(2**23, help="The same, of a notebook.").tag(config=True)
    notebook_evidence = Int(
        2**23, help="The most characters of evidence that are kept of a notebook."
    ).tag(config=True)

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        if "timeout" in self.config.Execute and "timeout" not in self.config.CaptureEvidence:
            self.timeout = settings.get("timeout", self.config.Execute.timeout)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Run every cell, whether or not the cells before it failed.

        If the kernel dies by itself, or if the machine ran short of processes or memory meanwhile,
        the notebook runs a second time. If it dies in the same cell again, and a cell of ours runs,
        that cell is at fault.

        Raises:
            MachineError: the machine is at fault.
        """
        names = resources.get("nbgrader")
        self.seed = names["seeds"].kernel if names else 0
        self.notes_above = sum(map(is_note, nb.cells[:1]))
        self.stopped = list[int]()
        limit = names and time_limit(self.config, names["assignment"], names["notebook"])
        compiled = find_compiled(self.config, names["assignment"]) if names else ""
        settings = {"seconds": limit, "compiled": compiled}
        known = {name: value for name, value in settings.items() if value}
        self.sandbox = Sandbox(parent=self, **known)
        demonstrations = {} if self.demonstrations else (names or {}).get("demonstrations", {})
        self.unused = find_unused(nb.cells, demonstrations, (names or {}).get("read_names", {}))
        nb.metadata["language_info"] = LANGUAGE
        died = self._run_until_certain(nb, resources)
        if self.unused and not died and not self.stopped and any(map(_has_failed, nb.cells)):
            self.unused = frozenset[int]()  # it may have failed because one of them did not run
            died = self._run_until_certain(nb, resources)
        too_large = self.allowance.too_large
        resources[NAMESPACE] = {
            "seed": self.seed, "died": died, "too_large": too_large, "stopped": self.stopped,
        }  # fmt: skip
        return nb, resources

    def _run_until_certain(self, nb: Any, resources: Any) -> KernelDeath | None:
        """Run a notebook until the result is not the machine's fault, at most `MAX_RUNS` times.

        Returns:
            Where and why the kernel died, or None.

        Raises:
            MachineError: the machine is at fault.
        """
        deaths, shortages = list[KernelDeath](), Counter[str]()
        for _ in range(MAX_RUNS):
            shortages_before = read_shortages()
            died = self._run(nb, resources)
            if died is not None and died.reason:
                return died
            shortage = read_shortages() - shortages_before
            shortages += shortage
            if not shortage and died is None:
                return None
            if not shortage and died is not None:
                deaths.append(died)
            if len(deaths) == 2:
                break
        else:
            raise MachineError(f"While the notebook ran, {' and '.join(shortages)}. {GRADE_AGAIN}")
        first, second = deaths
        if first.cell != second.cell:
            raise MachineError(
                f"The kernel died twice, in cell {first.cell + 1} and then in cell "
                f"{second.cell + 1}. {GRADE_AGAIN}"
            )
        _check_that_kernels_work(self.sandbox, second)
        return second

    def _run(self, nb: Any, resources: Any) -> KernelDeath | None:
        """Run a notebook in a new kernel; return where and why that died, or None.

        Raises:
            MachineError: the kernel could not start, run, or be watched on this machine.
        """
        for cell in nb.cells:
            cell.get("outputs", []).clear()  # outputs that were submitted are not evidence
        self.allowance = OutputLimits(
            self.cell_output, self.notebook_output, self.notebook_evidence
        )
        self.shown = defaultdict[str, list[NotebookNode]](list)
        self.current_cell = BEFORE_FIRST_CELL
        self.stopped.clear()
        folder = resources.get("metadata", {}).get("path")
        kernel = Kernel(self.sandbox, _find_plans(nb, self.seed), folder and Path(folder))
        try:
            with kernel:
                for index, cell in enumerate(nb.cells):
                    if cell.cell_type == "code":
                        self.current_cell = index - self.notes_above
                        self.run_cell(kernel, cell, index)
        except KernelDiedError as error:
            reason = kernel.watch.reason or str(error)
            if kernel.watch.is_machines_fault or self.current_cell == BEFORE_FIRST_CELL:
                if not kernel.watch.is_machines_fault:
                    reason = f"The kernel did not start ({reason or 'and does not say why'})"
                raise MachineError(f"{reason}. {GRADE_AGAIN}") from None
            return KernelDeath(self.current_cell, reason)
        return None

    def run_cell(self, kernel: Kernel, cell: Any, index: int) -> None:
        """Run one cell if it is used, interrupt it when its time is up, and keep its outputs.

        Raises:
            KernelDiedError: the kernel has ended, or must be ended.
        """
        started = time.monotonic()
        if index in self.unused:
            cell.metadata[NAMESPACE] = {"unused": True}
            return
        if cell.source.strip():  # no tag keeps a cell from running: students write tags
            self._run_source(kernel, cell, index)
        cell.metadata[NAMESPACE] = {"seconds": round(time.monotonic() - started, 3)}

    def _run_source(self, kernel: Kernel, cell: Any, index: int) -> None:
        kernel.run(index, cell.source)
        deadline, is_interrupted = kernel.running_seconds + self.timeout, False
        while True:
            message = kernel.receive()
            if isinstance(message, Done) and message.number == index:
                break
            if message is not None:
                self._keep(message, cell, index)
            if kernel.running_seconds < deadline:
                continue
            if is_interrupted:
                raise KernelDiedError("a cell did not end in its time, and heeded no interrupt")
            kernel.interrupt()
            deadline, is_interrupted = deadline + INTERRUPT_SECONDS, True
        names = [output.ename for output in cell.outputs if output.output_type == "error"]
        if message.error is not None and message.error.ename not in names:
            # nbgrader would take a cell without an error for a passed one
            error_in_full = make_output(message.error, index, self.allowance)
            cell.outputs.append(error_in_full or make_error_output(TOO_LONG))
        if is_interrupted:
            self.stopped.append(self.current_cell)
            _explain_interrupt(cell, self.timeout)
        if len(self.stopped) == MAX_INTERRUPTED_CELLS:
            raise KernelDiedError(f"{MAX_INTERRUPTED_CELLS} cells did not end in their time")

    def _keep(self, message: Message | TooLargeMessage, cell: Any, index: int) -> None:
        """Keep a message as an output, or update the outputs that were shown under its name."""
        if isinstance(message, Done | Ready):
            return
        if isinstance(message, TooLargeMessage):
            self.allowance.too_large.add(index)  # it may have been evidence
            return
        if isinstance(message, Update):
            shown = self.shown.get(message.name, [])
            update = make_output(message, index, self.allowance, len(shown)) if shown else None
            if update is not None:
                for shown_output in shown:
                    shown_output.data = update.data
            return
        output = make_output(message, index, self.allowance)
        if output is None:
            return
        if isinstance(message, Display) and message.name:
            self.shown[message.name].append(output)
        cell.outputs.append(output)


def _has_failed(cell: Any) -> bool:
    return any(output.output_type == "error" for output in cell.get("outputs", ()))


def _explain_interrupt(cell: Any, seconds: int) -> None:
    """Say in the error of an interrupted cell why it was interrupted: nobody pressed a key."""
    for output in cell.outputs:
        if output.output_type == "error" and output.ename == "KeyboardInterrupt":
            output.evalue = f"the cell was stopped after {with_noun(seconds, 'second')}"
            output.traceback[-1:] = [f"{output.ename}: {output.evalue}"]


def _check_that_kernels_work(sandbox: Sandbox, died: KernelDeath) -> None:
    """Run the control cell in a new kernel.

    Raises:
        MachineError: even that fails, so the machine ends every kernel.
    """
    error: Error | None = None
    try:
        with Kernel(sandbox, [], None) as kernel:
            kernel.run(0, CONTROL_CELL)
            while not isinstance(message := kernel.receive(), Done):
                pass
            error = message.error
    except KernelDiedError as error_:
        error = Error("", kernel.watch.reason or str(error_), [])
    if error is not None:
        why = f": {error.evalue}" * bool(error.evalue)
        raise MachineError(
            f"The kernel died twice in cell {died.cell + 1}, and a cell of ours fails, too{why}. "
            f"{GRADE_AGAIN}"
        )


def _find_plans(nb: Any, seed: int) -> list[evidence.Plan]:
    """Return the plans of the exercises whose graded cells a notebook has."""
    names = (cell.metadata.get("nbgrader", {}).get("grade_id") for cell in nb.cells)
    return [
        evidence.without_process_cases(BY_GRADE_ID[name].plan(seed))
        for name in names
        if name in BY_GRADE_ID
    ]


def find_evidence(cell: Any) -> list[dict[str, Any]]:
    """Return the evidence in a cell's outputs: untrusted plain data."""
    contents = [
        output.data[evidence.MIME_TYPE]
        for output in cell.get("outputs", [])
        if output.output_type == "display_data" and evidence.MIME_TYPE in output.get("data", {})
    ]
    return [item for item in contents if isinstance(item, dict)]
