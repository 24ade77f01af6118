"""Kernels in a sandbox, for whoever starts them through Jupyter."""

import time
from pathlib import Path
from typing import Any, Final

import psutil
from jupyter_client.provisioning import LocalProvisioner

from autograder import devices
from autograder.instructor import sandbox
from autograder.notebook import SEED_VARIABLE

NAME: Final = "shardlings-sandbox"
"""What the provisioner is called, in a kernel specification or in Jupyter's configuration."""

PASSED_ON: Final = (*devices.environment(), SEED_VARIABLE, "NBGRADER_EXECUTION")
"""The variables that a grading kernel is told of."""


class SandboxedKernel(LocalProvisioner):
    """A local kernel behind walls and within limits; its sockets are files in a shared folder.

    Attributes:
        ended: why it was killed, in a sentence, where a limit was passed.
    """

    ended = ""

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Wrap the kernel's command."""
        kwargs = await super().pre_launch(**kwargs)
        self.sandbox = sandbox.Sandbox(parent=self.parent)
        self.started = time.monotonic()
        given = kwargs.get("env") or {}
        variables = {
            **sandbox.environment(),
            **{name: given[name] for name in PASSED_ON if name in given},
            "MPLCONFIGDIR": "/tmp/matplotlib",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        folder = Path(kwargs["cwd"]) if kwargs.get("cwd") else None
        shared = Path(self.parent.connection_file).parent
        kwargs["cmd"] = self.sandbox.command(kwargs["cmd"], variables, folder, shared)
        if sandbox.works():
            kwargs.update(cwd="/", env=sandbox.environment())
        else:
            self.sandbox.log.warning(sandbox.UNPROTECTED)
        return kwargs

    async def poll(self) -> int | None:
        """Whether it lives; what has passed a limit that no system call keeps is killed here."""
        if self.process is not None and self.process.poll() is None:
            self.ended = self.ended or self._too_much()
            if self.ended:
                await self.kill()
        status: int | None = await super().poll()
        return status

    def _too_much(self) -> str:
        """What it and all that it has started take too much of, in a sentence."""
        limits = self.sandbox
        if time.monotonic() - self.started > limits.seconds:
            return f"the notebook took more than {limits.seconds} seconds"
        family = [psutil.Process(self.process.pid)]
        family += family[0].children(recursive=True)
        if len(family) > limits.processes:
            return f"it started more than {limits.processes} processes"
        held = 0
        for process in family:
            try:
                held += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        if held > limits.memory:
            return f"its processes held more than {limits.memory / 2**30:.0f} GiB"
        return ""
