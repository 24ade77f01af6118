"""The kernel that runs a submission: start it, watch it, send it cells, and read its messages.

A kernel gets a partial copy of this package, without exercises, judge and grading, so it can read
no answers. Without bubblewrap Python still imports this copy, but a submission can read every file.
"""

import functools
import os
import select
import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.util import Finalize
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from autograder.evidence import Plan
from autograder.instructor.sandbox.bubblewrap import (
    NO_FILTER_WARNING,
    NO_SANDBOX_WARNING,
    has_bubblewrap,
    has_call_filter,
)
from autograder.instructor.sandbox.kernel_messages import LineBuffer, TooLargeMessage, read_message
from autograder.instructor.sandbox.limit_watch import LOOK_SECONDS, LimitWatch, ProcessFamily
from autograder.instructor.sandbox.sandbox import (
    PACKAGES,
    Sandbox,
    find_package_folders,
    read_sandbox_environment,
)
from autograder.instructor.sandbox.warm_process import SERVERS, START_SECONDS, ForkedTask
from autograder.sandboxed import Begin, Interrupt, Message, Ready, Request, RunCell
from shardlings import devices

KERNEL_PARTS: Final = (
    "__init__.py", "command_start.py", "course_packages.py", "notebook.py", "artifacts",
    "evidence", "explanations", "processes", "sandboxed",
)  # fmt: skip
"""The parts of `autograder` that a kernel gets, to run cells and capture answers.

It gets all of `shardlings`, which draws arrays and reports what programs send.
"""

PACKAGES_LOCK: Final = threading.Lock()


def prepare_kernel_packages() -> Path:
    """Return the folder with the kernels' copy of the package, made on the first call.

    The folder exists until the command or this process ends.
    """
    with PACKAGES_LOCK:
        return _make_kernel_packages(tempfile.gettempdir())


@functools.cache
def _make_kernel_packages(parent: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="shardlings-", dir=parent))
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=0)  # atexit runs in no worker
    copy_kernel_packages(folder)
    for path in (folder, *folder.rglob("*")):  # kernels may run as another user
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def copy_kernel_packages(folder: Path) -> None:
    """Copy what a kernel gets of our packages into a folder, with its bytecode."""
    library, package = find_package_folders()
    _copy(library, folder / library.name)
    (folder / package.name).mkdir()
    for name in KERNEL_PARTS:
        _copy(package / name, folder / package.name / name)


def _copy(source: Path, copy: Path) -> None:
    if source.is_dir():
        # bytecode that another process is writing may be gone before it is copied
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.pyc.*"))
    else:
        shutil.copy(source, copy)


KERNEL_COMMAND: Final = (sys.executable, "-P", "-s", "-m", "autograder.sandboxed")
"""The command that starts a kernel."""

INHERITED_VARIABLES: Final = ("HOME", "TMPDIR", "USERPROFILE", "APPDATA", "TEMP", "TMP")
"""Variables that a kernel without a sandbox inherits."""

MAX_READ_BYTES: Final = 2**16

END_SECONDS: Final = 1
"""The time limit for a kernel to end once it has closed its pipe."""


class KernelDiedError(RuntimeError):
    """A kernel ended before its notebook, or must be ended; the message may say why."""


class Kernel:
    """A kernel within the sandbox's limits: a fork of a warm server, or else a new process.

    Args:
        sandbox: the sandbox and its limits.
        plans: the plans of the exercises whose answers it captures.
        folder: its files are in the kernel's current folder.
    """

    def __init__(self, sandbox: Sandbox, plans: Sequence[Plan], folder: Path | None) -> None:
        self._line_buffer, self._received = LineBuffer(), deque[bytes | None]()
        self._sandbox, self._home = sandbox, _make_home(sandbox)
        is_apart = has_bubblewrap() or sandbox.has_other_user
        files = _read_files(folder) if is_apart and folder is not None else []
        self._first_request = Begin(list(plans), files)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  it is open until the kernel is ready
        # Pipes rather than sockets: through a socket a kernel could send open files, which are
        # closed only with the socket's queue, and closing them may take forever.
        requests_end, self._requests = os.pipe()
        self._messages, messages_end = os.pipe()
        os.set_blocking(self._requests, False)
        try:
            self.process = _start(
                sandbox,
                (requests_end, messages_end, self._errors.fileno()),
                self._home or folder,
            )
        except BaseException:
            self._remove_home()
            self._close_files()
            self._errors.close()
            raise
        finally:
            os.close(requests_end)
            os.close(messages_end)
        self.watch = LimitWatch(self.process, sandbox)
        try:
            self.watch.start()
        except BaseException:  # the machine has no thread for it
            self.close()
            self._errors.close()
            raise

    def __enter__(self) -> Self:
        """Wait until it is ready; no code of the submission has run by then.

        Raises:
            KernelDiedError: it did not become ready.
        """
        try:
            deadline = time.monotonic() + START_SECONDS
            self._send(self._first_request)
            while not isinstance(self.receive(), Ready):
                if time.monotonic() > deadline:
                    raise KernelDiedError("the kernel did not start in time")
        except KernelDiedError as error:
            self.close()
            self._errors.seek(0)
            error_output = self._errors.read(MAX_READ_BYTES).decode(errors="replace")
            raise KernelDiedError(str(error) or "".join(error_output.splitlines()[-1:])) from None
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
        """End the kernel."""
        self.close()

    @property
    def running_seconds(self) -> float:
        """The seconds that it has run, excluding time spent waiting for a CPU."""
        return self.watch.running.seconds

    def run(self, number: int, source: str) -> None:
        """Ask the kernel to run a cell; `Done` with the same number says that it has ended."""
        self._send(RunCell(number, source))

    def interrupt(self) -> None:
        """Ask the kernel to interrupt the running cell."""
        self._send(Interrupt())

    def receive(self) -> Message | TooLargeMessage | None:
        """Return the kernel's next message, or None after a quarter of a second without one.

        Raises:
            KernelDiedError: the kernel has ended.
        """
        if not self._received:
            self._received.extend(self._line_buffer.feed(self._read()))
        return read_message(self._received.popleft()) if self._received else None

    def _send(self, request: Request) -> None:
        unsent = memoryview(msgspec.json.encode(request) + b"\n")
        while unsent:
            if not self._is_ready(self._requests, select.POLLOUT):
                continue  # it is not reading at the moment, but it is alive
            try:
                unsent = unsent[os.write(self._requests, unsent) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise KernelDiedError from error

    def _read(self) -> bytes:
        """Read what it has sent; nothing after a quarter of a second without output."""
        if not self._is_ready(self._messages, select.POLLIN):
            return b""
        received = os.read(self._messages, MAX_READ_BYTES)
        if not received:
            self._wait_for_end()
            raise KernelDiedError
        return received

    def _is_ready(self, file: int, event: int) -> bool:
        """Check whether a pipe can be read or written, waiting up to a quarter of a second.

        Raises:
            KernelDiedError: it cannot, and the kernel has ended.
        """
        poller = select.poll()
        poller.register(file, event)
        is_ready = bool(poller.poll(LOOK_SECONDS * 1000))
        if not is_ready and self.process.poll() is not None:
            raise KernelDiedError
        return is_ready

    def _wait_for_end(self) -> None:
        """Give the kernel time to end, so that the reason is known."""
        deadline = time.monotonic() + END_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)

    def _close_files(self) -> None:
        os.close(self._requests)
        os.close(self._messages)

    def close(self) -> None:
        """End the kernel and all processes that it started."""
        self.watch.stop()
        self.process.kill()
        self._close_files()
        if isinstance(self.process, ForkedTask):
            self.process.close()
        else:
            self.process.wait()
        self._sandbox.end_processes()
        self._remove_home()

    def _remove_home(self) -> None:
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)


def _make_home(sandbox: Sandbox) -> Path | None:
    """Make a folder for a kernel that runs as another user; None if it does not."""
    if not sandbox.has_other_user:
        return None
    home = Path(tempfile.mkdtemp(prefix="shardlings-"))
    os.chown(home, sandbox.uid, sandbox.uid)
    return home


def _start(
    sandbox: Sandbox, files: tuple[int, int, int], folder: Path | None
) -> "ForkedTask | ProcessFamily":
    """Start a kernel: fork a warm server, or else start a new process.

    Args:
        sandbox: the sandbox and its limits.
        files: the kernel's standard input, output and error output.
        folder: its current folder where there is no sandbox.
    """
    packages = prepare_kernel_packages()
    is_sandboxed = has_bubblewrap()
    variables = {
        **read_sandbox_environment(),
        **devices.environment(),
        "NBGRADER_EXECUTION": "autograde",  # then a check raises an internal error
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": PACKAGES if is_sandboxed else str(packages),
        "PYTHONSAFEPATH": "1",  # else a file beside the notebook could replace a library's module
    }
    if is_sandboxed:
        variables["MPLCONFIGDIR"] = "/tmp/matplotlib"
    else:
        variables |= {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
        if sandbox.has_other_user:
            variables |= {"HOME": str(folder), "TMPDIR": str(folder)}
        sandbox.log.warning(NO_SANDBOX_WARNING)
    if is_sandboxed and not has_call_filter():
        sandbox.log.warning(NO_FILTER_WARNING)
    server = sandbox.get_warm_server([*KERNEL_COMMAND, "forks"], variables, packages)
    if server is not None:
        try:
            return server.start(["kernel"], files)
        except OSError:  # the server hung, or was killed, perhaps for memory
            SERVERS.forget(server)
    stdin, stdout, stderr = files
    return ProcessFamily(
        sandbox.command(KERNEL_COMMAND, variables, packages),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=variables,
        cwd="/" if is_sandboxed else folder,
    )


def _read_files(folder: Path) -> list[tuple[bytes, bytes]]:
    """Return the names and contents of the files below a folder.

    Names that begin with a dot are left out, because some of those are start-up files.
    """
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    names = {path: path.relative_to(folder) for path in paths if not path.is_symlink()}
    return [
        (os.fsencode(name), path.read_bytes())
        for path, name in names.items()
        if not name.parts[0].startswith(".")
    ]
