"""The kernel that runs a submission: start it, watch it, send it cells, and read its messages.

It gets a partial copy of this package, without exercises, judge and grading, so nothing it can read
says what is right. Without bubblewrap, Python imports this copy first, but a submission can read
every file anyway.
"""

import atexit
import functools
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

import autograder
from autograder import devices
from autograder.evidence import Plan
from autograder.instructor.sandbox.bubblewrap import (
    UNFILTERED,
    UNPROTECTED,
    has_bubblewrap,
    has_call_filter,
)
from autograder.instructor.sandbox.kernel_messages import Lines, TooLarge, read_message
from autograder.instructor.sandbox.limit_watch import LOOK_SECONDS, ProcessFamily, Watch
from autograder.instructor.sandbox.sandbox import PACKAGES, Sandbox, sandbox_environment
from autograder.instructor.sandbox.warm_process import SERVERS, START_SECONDS, Forked
from autograder.sandboxed import Begin, Interrupt, Message, Ready, Request, RunCell

KERNEL_PARTS: Final = (
    "__init__.py", "collective_kinds.py", "devices.py", "notebook.py",
    "documents", "errors", "evidence", "layouts", "pictures", "processes", "programs", "sandboxed",
)  # fmt: skip
"""The part of this package that a kernel gets: what runs cells, captures answers, and draws arrays.
"""

LOCK: Final = threading.Lock()


def kernel_packages() -> Path:
    """The folder in which a kernel's Python looks for modules; it stays until this process ends."""
    with LOCK:
        return _kernel_packages()


@functools.cache
def _kernel_packages() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="shardlings-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    furnish(folder)
    return folder


def furnish(folder: Path) -> None:
    """Copy what a kernel is to find of the package into a folder."""
    package = Path(autograder.__file__).parent
    copy = folder / package.name
    copy.mkdir()
    for name in KERNEL_PARTS:
        if (package / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(package / name, copy / name, ignore=ignored)
        else:
            shutil.copy(package / name, copy / name)


COMMAND: Final = (sys.executable, "-P", "-s", "-m", "autograder.sandboxed")
"""The command that starts a kernel."""

INHERITED_VARIABLES: Final = ("HOME", "TMPDIR", "USERPROFILE", "APPDATA", "TEMP", "TMP")
"""Passed to a kernel without a sandbox."""

MAX_READ_BYTES: Final = 2**16

END_SECONDS: Final = 1
"""Time for a kernel to end that has closed its pipe."""


class KernelDiedError(RuntimeError):
    """A kernel has ended, or is to be ended, before the notebook; the message may say why."""


class Kernel:
    """A kernel in the sandbox, if there is one, and within limits; a fork of a warm process.

    Args:
        sandbox: what it runs in.
        plans: what it is to capture.
        folder: the files in it are in the kernel's current folder.
    """

    def __init__(self, sandbox: Sandbox, plans: Sequence[Plan], folder: Path | None) -> None:
        self._lines, self._waiting = Lines(), deque[bytes | None]()
        files = _files_in(folder) if has_bubblewrap() and folder is not None else []
        self._first = Begin(list(plans), files)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  it is open until the kernel is ready
        # Pipes, and no socket: what stands in a socket's queue may be open files, which end only
        # when the queue does, and to end them may take for ever.
        come, self._requests = os.pipe()
        self._messages, go = os.pipe()
        os.set_blocking(self._requests, False)
        try:
            self.process = _start(sandbox, (come, go, self._errors.fileno()), folder)
        except BaseException:
            self._close_files()
            self._errors.close()
            raise
        finally:
            os.close(come)
            os.close(go)
        self.watch = Watch(self.process, sandbox)
        self.watch.start()

    def __enter__(self) -> Self:
        """Wait until it is ready; nobody's code has run then.

        Raises:
            KernelDiedError: it does not get ready.
        """
        try:
            until = time.monotonic() + START_SECONDS
            self._send(self._first)
            while not isinstance(self.hear(), Ready):
                if time.monotonic() > until:
                    raise KernelDiedError("the kernel did not start in time")
        except KernelDiedError as error:
            self.close()
            self._errors.seek(0)
            written = self._errors.read(MAX_READ_BYTES).decode(errors="replace")
            raise KernelDiedError(str(error) or "".join(written.splitlines()[-1:])) from None
        except BaseException:
            self.close()
            raise
        finally:
            self._errors.close()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it."""
        self.close()

    @property
    def had(self) -> float:
        """The seconds that it has run, without the time that it waited for a CPU."""
        return self.watch.running.seconds

    def run(self, number: int, source: str) -> None:
        """Have it run a cell."""
        self._send(RunCell(number, source))

    def interrupt(self) -> None:
        """Have it interrupt the cell that runs."""
        self._send(Interrupt())

    def hear(self) -> Message | TooLarge | None:
        """Its next message; None where there is none for a moment.

        Raises:
            KernelDiedError: it has ended.
        """
        if not self._waiting:
            self._waiting.extend(self._lines.feed(self._read()))
        return read_message(self._waiting.popleft()) if self._waiting else None

    def _send(self, request: Request) -> None:
        left = memoryview(msgspec.json.encode(request) + b"\n")
        while left:
            if not self._is_ready(self._requests, select.POLLOUT):
                continue  # it does not read for a moment; whether it lives, was looked at
            try:
                left = left[os.write(self._requests, left) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise KernelDiedError from error

    def _read(self) -> bytes:
        """What it has sent since; nothing where it sends nothing for a moment."""
        if not self._is_ready(self._messages, select.POLLIN):
            return b""
        read = os.read(self._messages, MAX_READ_BYTES)
        if not read:
            self._wait_for_its_end()
            raise KernelDiedError
        return read

    def _is_ready(self, file: int, event: int) -> bool:
        """Whether a pipe can be read from, or written to, within a moment.

        Raises:
            KernelDiedError: it cannot, and the kernel has ended.
        """
        waiting = select.poll()
        waiting.register(file, event)
        is_ready = bool(waiting.poll(LOOK_SECONDS * 1000))
        if not is_ready and self.process.poll() is not None:
            raise KernelDiedError
        return is_ready

    def _wait_for_its_end(self) -> None:
        """Wait a moment, so that it is known why it ended."""
        until = time.monotonic() + END_SECONDS
        while self.process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)

    def _close_files(self) -> None:
        os.close(self._requests)
        os.close(self._messages)

    def close(self) -> None:
        """End it, with all that it has started."""
        self.watch.stop()
        self.process.kill()
        self._close_files()
        if isinstance(self.process, Forked):
            self.process.close()
        else:
            self.process.wait()


def _start(
    sandbox: Sandbox, files: tuple[int, int, int], folder: Path | None
) -> "Forked | ProcessFamily":
    """Fork a warm process, or else start a new one, with its standard input and outputs."""
    packages = kernel_packages()
    is_sandboxed = has_bubblewrap()
    variables = {
        **sandbox_environment(),
        **devices.environment(),
        "NBGRADER_EXECUTION": "autograde",  # where a fault of ours is not to go unseen
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": PACKAGES if is_sandboxed else str(packages),
        "PYTHONSAFEPATH": "1",  # a file beside the notebook is not what somebody else imports
    }
    if is_sandboxed:
        variables["MPLCONFIGDIR"] = "/tmp/matplotlib"
    else:
        variables |= {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
        sandbox.log.warning(UNPROTECTED)
    if is_sandboxed and not has_call_filter():
        sandbox.log.warning(UNFILTERED)
    server = sandbox.warm([*COMMAND, "forks"], variables, packages, "kernels")
    if server is not None:
        try:
            return server.start(["kernel"], files, START_SECONDS)
        except (OSError, subprocess.TimeoutExpired):  # perhaps it was killed, for memory
            SERVERS.forget(server)
    come, go, errors = files
    return ProcessFamily(
        sandbox.command(COMMAND, variables, packages, "kernels"),
        stdin=come,
        stdout=go,
        stderr=errors,
        env=variables,
        cwd="/" if is_sandboxed else folder,
    )


def _files_in(folder: Path) -> list[tuple[bytes, bytes]]:
    """The files in a folder and below it, but for what begins with a dot: no start-up files."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    names = {path: path.relative_to(folder) for path in paths if not path.is_symlink()}
    return [
        (os.fsencode(name), path.read_bytes())
        for path, name in names.items()
        if not name.parts[0].startswith(".")
    ]
