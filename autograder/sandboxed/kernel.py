"""The kernel for submissions: run cells on request, and send what they show.

It is warmed up when it is made: all that notebooks import is imported, and no JAX backend is
started. It may then be forked. What it sends may be forged by the cells that it has run.
"""

import asyncio
import builtins
import contextlib
import getpass
import importlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
from IPython.core.error import StdinNotImplementedError

from autograder import evidence
from autograder.sandboxed.messages import Begin, Done, Interrupt, Ready, Request, RunCell
from autograder.sandboxed.printed import Channel, Printed
from autograder.sandboxed.shell import run_cell, start_shell

IMPORTED: Final = (
    "matplotlib.pyplot", "matplotlib_inline.backend_inline", "rich.console", "rich.table",
    "google.protobuf.descriptor_pb2", "google.protobuf.text_format",
    "jax.experimental.multihost_utils", "jaxlib.mlir.dialects.builtin", "jaxlib.mlir.dialects.mhlo",
)  # fmt: skip
"""What notebooks import besides the course's package, or JAX when it is first used."""


class WarmKernel:
    """A kernel that has imported everything and has read nothing."""

    def __init__(self) -> None:
        self.shell = start_shell()
        for name in IMPORTED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        evidence.watch_cells()
        self.requests: queue.SimpleQueue[RunCell] = queue.SimpleQueue()
        self.is_running = False

    def run(self) -> NoReturn:
        """Run cells until there are no more requests; it never returns."""
        with contextlib.suppress(AttributeError, OSError):  # not on Windows
            os.setpgid(0, 0)  # an interrupt is for all that a cell has started
        come, channel = os.fdopen(os.dup(0), "rb"), Channel(os.dup(1))
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        sys.stdin = open(os.devnull)  # noqa: SIM115  it is open until the kernel ends
        sys.stdout, sys.stderr = Printed("stdout", 1, channel), Printed("stderr", 2, channel)
        builtins.input, getpass.getpass = _no_input, _no_input
        self.shell.channel = channel
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        signal.signal(signal.SIGINT, self._on_interrupt)
        _begin(msgspec.json.decode(come.readline(), type=Begin))
        threading.Thread(target=self._listen, args=(come,), daemon=True).start()
        channel.send(Ready())
        while True:
            cell = self.requests.get()
            error = None
            try:
                signal.signal(signal.SIGINT, self._on_interrupt)  # a cell may have changed it
                self.is_running = True
                try:
                    error = run_cell(self.shell, loop, cell.source)
                finally:
                    self.is_running = False
            except KeyboardInterrupt:  # it came at the very end
                self.is_running = False
            if not channel.is_here or self.shell.is_over:
                self.shell.send(Done(cell.number, error))
                os._exit(0)
            self.shell.send(Done(cell.number, error))

    def _on_interrupt(self, *_: object) -> None:
        """Interrupt the cell that runs.

        Raises:
            KeyboardInterrupt: there is one.
        """
        if self.is_running:
            raise KeyboardInterrupt

    def _listen(self, come: Any) -> None:
        """Read requests, until there is nobody any more who sends some."""
        for line in come:
            request: Request = msgspec.json.decode(line, type=Request)
            if isinstance(request, RunCell):
                self.requests.put(request)
            elif isinstance(request, Interrupt):
                os.killpg(0, signal.SIGINT)
        os._exit(0)


def _begin(begin: Begin) -> None:
    """Take what belongs to one submission."""
    evidence.give_plans(begin.plans)
    _unpack(begin.files)
    # files beside a notebook can be imported, but never in place of what others import
    sys.path.append("")
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # not what every other fork begins with


def _unpack(files: Sequence[tuple[bytes, bytes]]) -> None:
    """Write files into the current folder, as far as there is room for them."""
    for name, contents in files:
        with contextlib.suppress(OSError):
            path = Path(os.fsdecode(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents)


def _no_input(*_: object, **__: object) -> NoReturn:
    raise StdinNotImplementedError(
        "raw_input was called, but this frontend does not support input requests."
    )
