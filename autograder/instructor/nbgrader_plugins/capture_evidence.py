"""Run a submission in a kernel that only captures evidence."""

import asyncio
import os
import queue
import secrets
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jupyter_core.utils import run_sync
from nbclient.client import CellExecutionComplete
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from traitlets import Int
from traitlets.config import Config

from autograder import devices, evidence
from autograder.exercises import BY_GRADE_ID
from autograder.instructor import walls
from autograder.instructor.course import NAMESPACE
from autograder.instructor.kernels import (
    MESSAGE,
    PROVISIONER,
    Allowance,
    Client,
    bound,
    furnish,
    heard,
    place_for_sockets,
    remove,
    shorten_error,
)
from autograder.instructor.nbgrader_plugins.stopped_execute import StoppedExecute
from autograder.instructor.pipeline import compiled_before, is_told, time_limit

FILES_BESIDE: Final = "--InteractiveShellApp.exec_lines=__import__('sys').path.append('')"
"""Files beside a notebook can be imported, but never in place of what others import."""

PATIENCE: Final = 10
"""How many seconds a kernel that does nothing has to say how a cell ended, or to run another."""

ABOUT: Final = 1
"""How exactly it is known, in seconds, what time a kernel has had."""

MOST_INTERRUPTED: Final = 3
"""How many cells may take all of their time before the notebook is ended."""

NOWHERE: Final = -1
"""Where a notebook is before its first cell: nobody's code has run."""


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


class CaptureEvidence(StoppedExecute):
    """nbgrader's `Execute`, in a sandboxed kernel that has its devices and that judges nothing."""

    cell_output = Int(2**20, help="The most characters of output that are kept of a cell.").tag(
        config=True
    )
    iopub_timeout = Int(
        30, help="How many seconds it is waited for what a cell has said, once it has ended."
    ).tag(config=True)
    notebook_output = Int(2**23, help="The same, of a notebook.").tag(config=True)
    notebook_evidence = Int(
        2**23, help="The most characters of evidence that are kept of a notebook."
    ).tag(config=True)

    def preprocess(self, nb: Any, resources: Any, km: Any = None) -> tuple[Any, Any]:
        """Run every cell; whatever a cell does, the next one is run.

        A kernel that dies is given a second try: what dies in the same cell again dies of what is
        written there.

        Raises:
            MachineError: it died in another cell.
        """
        self.seed, about = secrets.randbits(32), resources.get("nbgrader")
        self.above = sum(map(is_told, nb.cells[:1]))
        self.limit = about and time_limit(self.config, about["assignment"], about["notebook"])
        self.compiled = compiled_before(self.config, about["assignment"]) if about else ""
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
        """Run a notebook in a kernel of its own; where and why that died, if it did."""
        for cell in nb.cells:
            cell.get("outputs", []).clear()  # evidence is what this run publishes
        self.allowance = Allowance(self.cell_output, self.notebook_output, self.notebook_evidence)
        self.at, self.had, self.timed_out = NOWHERE, 0.0, False
        self.provisioner: Any = None
        self.interrupted, self.given_up = 0, ""
        self.shared = Path(tempfile.mkdtemp(prefix="shardlings-", dir=place_for_sockets()))
        packages = Path(tempfile.mkdtemp(prefix="shardlings-"))
        try:
            self.plans = furnish(packages, _plans(nb, self.seed))
            super().preprocess(nb, resources)
        except DeadKernelError:
            return self._died("")
        except CellTimeoutError:
            if not self.timed_out:  # the connection ended before
                return self._died(
                    f"a cell said more than {MESSAGE // 2**20} MB at once: print less"
                )
            return self._died("a cell did not end in its time, and heeded no interrupt")
        except Exception as error:
            if self.at == NOWHERE:
                raise
            return self._died(
                f"it said what no kernel says, and raised {type(error).__name__} here"
            )
        finally:
            remove(self.shared)
            remove(packages)
        return None

    def _died(self, otherwise: str) -> Died:
        """The kernel's end: the limit that it was killed for, or else what it looks like.

        Raises:
            MachineError: the machine kept it from running, or from being watched.
        """
        ended = getattr(self.provisioner, "ended", "")
        if getattr(self.provisioner, "is_machines_fault", False):
            raise MachineError(f"{ended}. Grade it again, when the machine has less to do.")
        return Died(self.at, ended or self.given_up or otherwise)

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        """Run one cell.

        Raises:
            CellTimeoutError: it did not end in its time, or the kernel stopped speaking.
            DeadKernelError: the kernel has ended, or is given up.
        """
        self.at, self.provisioner = index - self.above, self.km.provisioner
        self.began, self.timed_out = time.monotonic(), False
        self.had = self.provisioner.had
        try:
            done: tuple[Any, Any] = super().preprocess_cell(cell, resources, index)
        except CellTimeoutError as error:
            process = self.provisioner.process
            if process is not None and process.poll() is not None:  # its silence was noticed first
                raise DeadKernelError("The kernel died.") from error
            raise
        if self.timed_out:
            self._go_on_or_give_up()
        if cell.cell_type == "code":
            cell.metadata[NAMESPACE] = {"seconds": round(time.monotonic() - self.began, 3)}
        return done

    def _go_on_or_give_up(self) -> None:
        """See that after a cell that was interrupted, other cells end.

        Raises:
            DeadKernelError: they do not, or so many have been interrupted that it is enough.
        """
        self.interrupted += 1
        if self.interrupted == MOST_INTERRUPTED:
            self.given_up = f"{MOST_INTERRUPTED} cells did not end in their time"
        elif not run_sync(self._answers)():
            self.given_up = "a cell did not end in its time, and no other one would end after it"
        if self.given_up:
            raise DeadKernelError("The kernel is given up.")

    async def _answers(self) -> bool:
        """Whether a cell with nothing in it ends at once, and well."""
        sent, until = self.kc.execute("pass", silent=True), self.provisioner.had + PATIENCE
        while self._has_time(until):
            try:
                reply = await self.kc.get_shell_msg(timeout=ABOUT)
            except queue.Empty:
                continue
            if reply["parent_header"].get("msg_id") == sent:
                return bool(reply["content"]["status"] == "ok")
        return False

    def create_kernel_manager(self) -> Any:
        """A manager of a kernel behind walls, where there are any."""
        manager = super().create_kernel_manager()
        manager.connection_file = str(self.shared / "kernel.json")
        found = {"seconds": self.limit, "compiled": self.compiled}
        known = {name: each for name, each in found.items() if each}
        if known:
            manager.update_config(Config({"Sandbox": known}))
        spec = manager.kernel_spec
        spec.metadata["kernel_provisioner"] = {"provisioner_name": PROVISIONER}
        if walls.works():
            manager.transport, manager.ip = "ipc", str(self.shared / "socket")  # no network
            spec.interrupt_mode = "message"  # a signal would reach the walls, not the kernel
            manager.client_factory = Client
            bound(manager.context)
        return manager

    def setup_kernel(self, **kwargs: Any) -> Any:
        """Start the kernel in an environment of its own."""
        environment = {
            **os.environ,
            **devices.environment(),
            evidence.PLANS_VARIABLE: str(self.plans),
            "PYTHONPATH": str(self.plans.parent),  # within walls it lies elsewhere
        }
        self.extra_arguments = [FILES_BESIDE]
        return super().setup_kernel(env=environment, **kwargs)

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        """Add what a kernel says to a cell's outputs, or see that the cell is done."""
        if msg["msg_type"] != "status":
            output = heard(msg, cell_index, self.allowance)
            cell.outputs += [output] if output else []
        elif msg["content"].get("execution_state") == "idle":
            # it is done, so it says now how the cell has ended, or never
            self._give_up_without(self.task_poll_for_reply, self.provisioner.had + PATIENCE)
            raise CellExecutionComplete

    def _give_up_without(self, reply: "asyncio.Future[Any]", until: float) -> None:
        """End the notebook where a kernel, in its time, has not said how a cell ended."""
        if reply.done():
            return
        if self._has_time(until):
            asyncio.get_running_loop().call_later(ABOUT, self._give_up_without, reply, until)
        else:
            self.given_up = "the kernel did not say how a cell ended"
            reply.cancel()  # which nbclient takes for a dead kernel's

    def _has_time(self, until: float) -> bool:
        """Whether the kernel runs, and has not had so many seconds yet."""
        return self.provisioner is not None and self.provisioner.has_time(until)

    async def _async_handle_timeout(self, timeout: int, cell: Any = None) -> Any:
        """Interrupt a cell whose time is up; one that was kept waiting is waited for again."""
        if self._has_time(self.had + timeout - ABOUT):
            return None
        self.timed_out = True
        return await super()._async_handle_timeout(timeout, cell)

    def on_cell_executed(self, **kwargs: Any) -> None:
        """See whether the kernel says that the cell has failed."""
        self.timed_out = "header" not in kwargs["execute_reply"]  # then it is nbclient's own
        content = kwargs["execute_reply"]["content"]
        if content["status"] == "error":
            shorten_error(content)
        super().on_cell_executed(**kwargs)


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
        output.data[evidence.MIME]
        for output in cell.get("outputs", [])
        if output.output_type == "display_data" and evidence.MIME in output.get("data", {})
    ]
    return [item for item in found if isinstance(item, dict)]
