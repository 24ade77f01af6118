"""Kernels in a sandbox, for whoever starts them through Jupyter.

A kernel's connection file has to lie in a folder of its own: it is shared with the kernel.
"""

import asyncio
import subprocess
from pathlib import Path
from typing import Any, Final

from jupyter_client.provisioning import LocalProvisioner

from autograder import devices
from autograder.evidence import PLANS_VARIABLE
from autograder.instructor.kernels.limit_watch import Watch
from autograder.instructor.walls import (
    PACKAGES,
    UNFILTERED,
    UNPROTECTED,
    Sandbox,
    environment,
    filters,
    works,
)

PROVISIONER: Final = "shardlings-sandbox"
"""What the provisioner is called, in a kernel specification or in Jupyter's configuration."""

PASSED_ON: Final = (*devices.environment(), "NBGRADER_EXECUTION")
"""The variables that a grading kernel is told of."""

OWN: Final = ("HOME", "TMPDIR", "USERPROFILE", "APPDATA", "TEMP", "TMP")
"""The variables of who grades that a kernel needs where it has no walls, and no home in them."""


class SandboxedKernel(LocalProvisioner):
    """A local kernel behind walls and within limits; its sockets are files in a shared folder."""

    watch: Watch | None = None

    @property
    def ended(self) -> str:
        """The limit that it was killed for, in words; empty where it was not."""
        return self.watch.ended if self.watch else ""

    @property
    def is_machines_fault(self) -> bool:
        """Check whether it was killed for something that it did not do, such as a busy machine."""
        return self.watch is not None and self.watch.is_machines_fault

    @property
    def had(self) -> float:
        """The seconds that it has run, without the time that it waited for a CPU."""
        return self.watch.running.seconds if self.watch else 0.0

    def has_time(self, until: float) -> bool:
        """Whether its process has not ended, and has not had so many seconds yet."""
        return self.process is not None and self.process.poll() is None and self.had < until

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Wrap the kernel's command."""
        kwargs = await super().pre_launch(**kwargs)
        self.sandbox = Sandbox(parent=self.parent)
        self.shared = Path(self.parent.connection_file).parent
        given = kwargs.get("env") or {}
        variables = {
            **environment(),
            **{name: given[name] for name in PASSED_ON if name in given},
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONSAFEPATH": "1",  # what lies beside the notebook is not to be what Jupyter starts
        }
        folder = Path(kwargs["cwd"]) if kwargs.get("cwd") else None
        plans = Path(given[PLANS_VARIABLE]) if PLANS_VARIABLE in given else None
        if works():
            variables["MPLCONFIGDIR"] = "/tmp/matplotlib"
        if plans is not None:
            lies = PACKAGES if works() else str(plans.parent)
            variables |= {PLANS_VARIABLE: f"{lies}/{plans.name}", "PYTHONPATH": lies}
        kwargs["cmd"] = self.sandbox.command(
            kwargs["cmd"],
            variables,
            folder,
            self.shared,
            plans and plans.parent,
            reader="kernels" if plans is not None else None,
        )
        # else it would have the grader's own, and with them, perhaps, a log that it could write to
        kwargs.update(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if works():
            kwargs.update(cwd="/", env=environment())
            if not filters():
                self.sandbox.log.warning(UNFILTERED)
        else:
            own = {name: given[name] for name in OWN if name in given}
            kwargs["env"] = {**variables, **own}  # and nothing else that the grader knows
            self.sandbox.log.warning(UNPROTECTED)
        return kwargs

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the kernel, and somebody who watches it."""
        about = await super().launch_kernel(cmd, **kwargs)
        self.watch = Watch(self.process, self.sandbox, self.shared)
        self.watch.start()
        await self._sockets()
        return about

    async def _sockets(self) -> None:
        """Wait for a kernel's sockets, which are there before it runs anybody's code.

        Whoever connects now need never look there again, where a stranger may have been since.
        """
        ports = [port for name, port in self.connection_info.items() if name.endswith("_port")]
        sockets = [Path(f"{self.parent.ip}-{port}") for port in ports]
        if self.parent.transport == "ipc":
            while self.process.poll() is None and not all(s.is_socket() for s in sockets):
                await asyncio.sleep(0.01)
