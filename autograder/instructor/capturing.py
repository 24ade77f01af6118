"""Run a submission in a kernel that only captures evidence."""

import os
import secrets
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbgrader.preprocessors import Execute
from traitlets import Int

from autograder import devices, evidence
from autograder.instructor import provisioner, sandbox
from autograder.notebook import SEED_VARIABLE

RESOURCE: Final = "shardlings"
"""Where, in nbconvert's resources, one preprocessor leaves what the next needs."""

DEEP: Final = 64
"""How deep what a kernel says may be nested: Python's own copying ends somewhere."""


@dataclass(frozen=True)
class Died:
    """A kernel's end before the notebook's.

    Attributes:
        cell: the index of the cell that ran.
        ended: the limit that it passed, in words; empty where it died by itself.
    """

    cell: int
    ended: str


class MachineError(RuntimeError):
    """A kernel died twice, and not in the same place: the machine is at fault, and no answer."""


class CaptureEvidence(Execute):
    """nbgrader's `Execute`, in a sandboxed kernel that has its devices and that judges nothing."""

    cell_output = Int(2**20, help="The most characters of output that are kept of a cell.").tag(
        config=True
    )
    notebook_output = Int(2**23, help="The same, of a notebook; evidence counts too.").tag(
        config=True
    )

    def preprocess(self, nb: Any, resources: Any, km: Any = None) -> tuple[Any, Any]:
        """Run every cell; whatever a cell does, the next one is run.

        A kernel that dies is given a second try: what dies in the same cell again dies of what is
        written there.

        Raises:
            MachineError: it died in another cell.
        """
        self.seed = secrets.randbits(32)
        died = self._run(nb, resources)
        if died is not None and not died.ended:
            first, died = died.cell, self._run(nb, resources)
            if died is not None and not died.ended and died.cell != first:
                raise MachineError(
                    f"The kernel died twice, in cell {first + 1} and then in cell "
                    f"{died.cell + 1}. Grade it again, when the machine has less to do."
                )
        resources[RESOURCE] = {"seed": self.seed, "died": died}
        return nb, resources

    def _run(self, nb: Any, resources: Any) -> Died | None:
        """Run a notebook in a kernel of its own; where and why that died, if it did."""
        for cell in nb.cells:
            cell.get("outputs", []).clear()  # evidence is what this run publishes
        self.said = defaultdict[int, int](int)
        self.at, self.provisioner = 0, None
        with tempfile.TemporaryDirectory(prefix="shardlings-") as shared:
            self.shared = Path(shared)
            try:
                super().preprocess(nb, resources)
            except DeadKernelError:
                return Died(self.at, getattr(self.provisioner, "ended", ""))
            except CellTimeoutError:
                return Died(self.at, "a cell did not end in its time, and heeded no interrupt")
        return None

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        """Run one cell."""
        self.at, self.provisioner = index, self.km.provisioner
        done: tuple[Any, Any] = super().preprocess_cell(cell, resources, index)
        return done

    def create_kernel_manager(self) -> Any:
        """A manager of a kernel behind walls, where there are any."""
        manager = super().create_kernel_manager()
        manager.connection_file = str(self.shared / "kernel.json")
        spec = manager.kernel_spec
        spec.metadata["kernel_provisioner"] = {"provisioner_name": provisioner.NAME}
        if sandbox.works():
            manager.transport, manager.ip = "ipc", str(self.shared / "socket")  # no network
            spec.interrupt_mode = "message"  # a signal would reach the walls, not the kernel
        return manager

    def setup_kernel(self, **kwargs: Any) -> Any:
        """Start the kernel in an environment of its own."""
        environment = {**os.environ, **devices.environment(), SEED_VARIABLE: str(self.seed)}
        return super().setup_kernel(env=environment, **kwargs)

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """Take a kernel's message, unless too much has been said, or nothing that can be kept."""
        if msg["msg_type"] == "status":
            return super().process_message(msg, cell, cell_index)
        if _depth(msg["content"]) > DEEP:
            return None
        size = len(str(msg["content"]))
        if (
            self.said[cell_index] + size > self.cell_output
            or sum(self.said.values()) + size > self.notebook_output
        ):
            return None
        self.said[cell_index] += size
        return super().process_message(msg, cell, cell_index)


def _depth(content: Any) -> int:
    """How deep plain data is nested; of what is too deep to keep, one more than that."""
    depth, level = 0, [content]
    while depth <= DEEP:
        level = [each for each in level if isinstance(each, dict | list)]
        if not level:
            break
        depth += 1
        level = [i for each in level for i in (each.values() if isinstance(each, dict) else each)]
    return depth


def published(cell: Any) -> list[dict[str, Any]]:
    """The evidence in a cell's outputs, as plain data that may be anything."""
    found = [
        output.data[evidence.MIME]
        for output in cell.get("outputs", [])
        if output.output_type == "display_data" and evidence.MIME in output.get("data", {})
    ]
    return [item for item in found if isinstance(item, dict)]
