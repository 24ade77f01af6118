"""Run a submission in a kernel that only captures evidence."""

import secrets
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Int

from autograder import evidence
from autograder.exercises import BY_GRADE_ID
from autograder.instructor.course import NAMESPACE
from autograder.instructor.pipeline import compiled_before, is_told, time_limit
from autograder.instructor.sandbox import (
    Allowance,
    Kernel,
    KernelDiedError,
    Sandbox,
    TooLarge,
    make_error_output,
    make_output,
)
from autograder.sandboxed import Display, Done, Error, Message, Ready, Update

INTERRUPT_SECONDS: Final = 10
"""Time for an interrupted cell to end."""

MAX_INTERRUPTED: Final = 3
"""So many cells may use up their time before the notebook is ended."""

TOO_LONG: Final = Error("Error", "the error is too long to be kept", [])

BEFORE_FIRST_CELL: Final = -1

SKIPPED: Final = "skip-execution"
"""The tag of cells that are not run."""

LANGUAGE: Final = {
    "name": "python",
    "version": ".".join(map(str, sys.version_info[:3])),
    "mimetype": "text/x-python",
    "codemirror_mode": {"name": "ipython", "version": 3},
    "pygments_lexer": "ipython3",
    "nbconvert_exporter": "python",
    "file_extension": ".py",
}
"""What a notebook says of its language, by which pages colour it."""


@dataclass(frozen=True)
class Died:
    """A kernel's end before the notebook's.

    Attributes:
        cell: the index of the cell that ran, in what was handed in.
        ended: the limit that it passed, in words; empty where it died by itself.
    """

    cell: int
    ended: str

    @property
    def told(self) -> str:
        """What happened, in a sentence."""
        why = f"The notebook was ended in cell {self.cell + 1}: {self.ended}."
        return why if self.ended else f"The kernel died in cell {self.cell + 1}, and again there."


class MachineError(RuntimeError):
    """A kernel died twice, and not in the same place, or was not let run: no answer is at fault."""


class CaptureEvidence(NbGraderPreprocessor):
    """Run every cell in a sandboxed kernel that has its devices and that judges nothing.

    It stands where nbgrader has `Execute`, and takes the time of a cell from there.
    """

    timeout = Int(
        30,
        help="How many seconds a cell may run, without the time that it waits for a CPU, before it "
        "is interrupted; `Execute.timeout` sets it, too.",
    ).tag(config=True)
    cell_output = Int(2**20, help="The most characters of output that are kept of a cell.").tag(
        config=True
    )
    notebook_output = Int(2**23, help="The same, of a notebook.").tag(config=True)
    notebook_evidence = Int(
        2**23, help="The most characters of evidence that are kept of a notebook."
    ).tag(config=True)

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        if "timeout" in self.config.Execute and "timeout" not in self.config.CaptureEvidence:
            self.timeout = settings.get("timeout", self.config.Execute.timeout)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Run every cell; whatever a cell does, the next one is run.

        A kernel that dies is given a second try: what dies in the same cell again dies of what is
        written there.

        Raises:
            MachineError: it died in another cell, or did not start.
        """
        self.seed, about = secrets.randbits(32), resources.get("nbgrader")
        self.above = sum(map(is_told, nb.cells[:1]))
        limit = about and time_limit(self.config, about["assignment"], about["notebook"])
        compiled = compiled_before(self.config, about["assignment"]) if about else ""
        found = {"seconds": limit, "compiled": compiled}
        self.sandbox = Sandbox(parent=self, **{name: each for name, each in found.items() if each})
        nb.metadata["language_info"] = LANGUAGE
        died = self._run(nb, resources)
        if died is not None and not died.ended:
            first, died = died.cell, self._run(nb, resources)
            if died is not None and not died.ended and died.cell != first:
                raise MachineError(
                    f"The kernel died twice, in cell {first + 1} and then in cell "
                    f"{died.cell + 1}. Grade it again, when the machine has less to do."
                )
        too_large = self.allowance.too_large
        resources[NAMESPACE] = {"seed": self.seed, "died": died, "too_large": too_large}
        return nb, resources

    def _run(self, nb: Any, resources: Any) -> Died | None:
        """Run a notebook in a kernel of its own; where and why that died, if it did.

        Raises:
            MachineError: the machine kept the kernel from starting, from running, or from being
                watched.
        """
        for cell in nb.cells:
            cell.get("outputs", []).clear()  # evidence is what this run publishes
        self.allowance = Allowance(self.cell_output, self.notebook_output, self.notebook_evidence)
        self.shown = defaultdict[str, list[NotebookNode]](list)
        self.at, self.interrupted = BEFORE_FIRST_CELL, 0
        folder = resources.get("metadata", {}).get("path")
        kernel = Kernel(self.sandbox, _plans(nb, self.seed), folder and Path(folder))
        try:
            with kernel:
                for index, cell in enumerate(nb.cells):
                    if cell.cell_type == "code":
                        self.at = index - self.above
                        self.run_cell(kernel, cell, index)
        except KernelDiedError as error:
            ended = kernel.watch.ended or str(error)
            if kernel.watch.is_machines_fault or self.at == BEFORE_FIRST_CELL:
                if not kernel.watch.is_machines_fault:
                    ended = f"The kernel did not start ({ended or 'and does not say why'})"
                raise MachineError(
                    f"{ended}. Grade it again, when the machine has less to do."
                ) from None
            return Died(self.at, ended)
        return None

    def run_cell(self, kernel: Kernel, cell: Any, index: int) -> None:
        """Run one cell, interrupt it when its time is up, and keep what it shows.

        Raises:
            KernelDiedError: the kernel has ended, or is given up.
        """
        began = time.monotonic()
        if cell.source.strip() and SKIPPED not in cell.metadata.get("tags", []):
            self._run_source(kernel, cell, index)
        cell.metadata[NAMESPACE] = {"seconds": round(time.monotonic() - began, 3)}

    def _run_source(self, kernel: Kernel, cell: Any, index: int) -> None:
        kernel.run(index, cell.source)
        until, is_interrupted = kernel.running_seconds + self.timeout, False
        while True:
            message = kernel.receive()
            if isinstance(message, Done) and message.number == index:
                break
            if message is not None:
                self._keep(message, cell, index)
            if kernel.running_seconds < until:
                continue
            if is_interrupted:
                raise KernelDiedError("a cell did not end in its time, and heeded no interrupt")
            kernel.interrupt()
            until, is_interrupted = until + INTERRUPT_SECONDS, True
        names = [output.ename for output in cell.outputs if output.output_type == "error"]
        if message.error is not None and message.error.ename not in names:
            # to nbgrader, silence is success
            kept = make_output(message.error, index, self.allowance)
            cell.outputs.append(kept or make_error_output(TOO_LONG))
        self.interrupted += is_interrupted
        if self.interrupted == MAX_INTERRUPTED:
            raise KernelDiedError(f"{MAX_INTERRUPTED} cells did not end in their time")

    def _keep(self, message: Message | TooLarge, cell: Any, index: int) -> None:
        """Keep an output, or change those that were shown under its name."""
        if isinstance(message, Done | Ready):
            return
        if isinstance(message, TooLarge):
            self.allowance.too_large.add(index)  # it may have been evidence
            return
        if isinstance(message, Update):
            shown = self.shown.get(message.name, [])
            update = make_output(message, index, self.allowance, len(shown)) if shown else None
            if update is not None:
                for each in shown:
                    each.data = update.data
            return
        output = make_output(message, index, self.allowance)
        if output is None:
            return
        if isinstance(message, Display) and message.name:
            self.shown[message.name].append(output)
        cell.outputs.append(output)


def _plans(nb: Any, seed: int) -> list[evidence.Plan]:
    """The plans of the exercises whose graded cells a notebook has."""
    names = (cell.metadata.get("nbgrader", {}).get("grade_id") for cell in nb.cells)
    return [
        evidence.without_process_cases(BY_GRADE_ID[name].plan(seed))
        for name in names
        if name in BY_GRADE_ID
    ]


def published(cell: Any) -> list[dict[str, Any]]:
    """The evidence in a cell's outputs, as plain data that may be anything."""
    found = [
        output.data[evidence.MIME_TYPE]
        for output in cell.get("outputs", [])
        if output.output_type == "display_data" and evidence.MIME_TYPE in output.get("data", {})
    ]
    return [item for item in found if isinstance(item, dict)]
