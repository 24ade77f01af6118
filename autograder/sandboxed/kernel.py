"""The kernel for submissions: it runs cells on request, and sends their outputs.

It is IPython's shell without Jupyter, so that cells run as in a student's kernel. It imports
everything that notebooks need when it is created, but starts no JAX backend, so it can be forked
afterwards. The cells that it runs may forge what it sends.

What Python code prints is sent as messages. What subprocesses and C libraries write to the file
descriptors 1 and 2 goes to temporary files, which are read before each message.
"""

import asyncio
import base64
import builtins
import contextlib
import getpass
import io
import os
import queue
import signal
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import msgspec
from IPython.core import page
from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import InteractiveShell
from traitlets import CBool, Type
from traitlets.config import Config

from autograder import evidence
from autograder.sandboxed.fork_server import IMPORTED_BY_JAX, load_modules
from autograder.sandboxed.messages import (
    MAX_ERROR_CHARACTERS,
    MAX_TRACEBACK_LINES,
    Begin,
    Display,
    Done,
    Error,
    Interrupt,
    Message,
    MimeBundle,
    Ready,
    Request,
    Result,
    RunCell,
    Stream,
    Update,
)

IMPORTED: Final = (
    "jinja2", "matplotlib.pyplot", "matplotlib_inline.backend_inline", "rich.console", "rich.table",
)  # fmt: skip
"""Modules that notebooks use besides this package."""

ENVIRONMENT: Final = {
    "TERM": "xterm-color", "CLICOLOR": "1", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1",
    "PAGER": "cat", "GIT_PAGER": "cat",
}  # fmt: skip
"""The environment variables that Jupyter's kernel sets for the commands that a cell runs."""

MAX_BUFFERED_CHARACTERS: Final = 2**16
"""Printed text of this length is sent at once."""

MAX_FILE_BYTES: Final = 2**21
"""The most bytes that are read at once of what was written to a descriptor."""

FLUSH_SECONDS: Final = 0.2
"""Printed lines are sent at once, unless others were sent less than this time ago."""


class WarmKernel:
    """A kernel that has imported everything and has read nothing."""

    def __init__(self) -> None:
        self.shell = start_shell()
        load_modules((*IMPORTED, *IMPORTED_BY_JAX))
        evidence.watch_cells()
        self.requests: queue.SimpleQueue[RunCell] = queue.SimpleQueue()
        self.is_running = False

    def run(self) -> NoReturn:
        """Run cells until there are no more requests, and exit."""
        with contextlib.suppress(AttributeError, OSError):  # not on Windows
            os.setpgid(0, 0)  # an interrupt also goes to the processes that a cell starts
        requests, channel = os.fdopen(os.dup(0), "rb"), Channel(os.dup(1))
        with open(os.devnull) as null:
            os.dup2(null.fileno(), 0)
        sys.stdin = open(os.devnull)  # noqa: SIM115  it is open until the kernel ends
        sys.stdout, sys.stderr = Printed("stdout", 1, channel), Printed("stderr", 2, channel)
        builtins.input, getpass.getpass = _refuse_input, _refuse_input
        self.shell.channel = channel
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        signal.signal(signal.SIGINT, self._on_interrupt)
        _begin(msgspec.json.decode(requests.readline(), type=Begin))
        threading.Thread(target=self._read_requests, args=(requests,), daemon=True).start()
        channel.send(Ready())
        while True:
            cell = self.requests.get()
            error = None
            try:
                signal.signal(signal.SIGINT, self._on_interrupt)  # a cell may have replaced it
                self.is_running = True
                try:
                    error = run_cell(self.shell, loop, cell.source)
                finally:
                    self.is_running = False
            except KeyboardInterrupt:  # it came just as the cell ended
                self.is_running = False
            if not channel.is_ours or self.shell.exit_requested:
                self.shell.send(Done(cell.number, error))
                os._exit(0)
            self.shell.send(Done(cell.number, error))

    def _on_interrupt(self, *_: object) -> None:
        """Interrupt the running cell; ignore interrupts between cells.

        Raises:
            KeyboardInterrupt: a cell is running.
        """
        if self.is_running:
            raise KeyboardInterrupt

    def _read_requests(self, requests: Any) -> None:
        """Read requests, and exit when there are no more."""
        for line in requests:
            request: Request = msgspec.json.decode(line, type=Request)
            if isinstance(request, RunCell):
                self.requests.put(request)
            elif isinstance(request, Interrupt):
                os.killpg(0, signal.SIGINT)
        os._exit(0)


def _begin(begin: Begin) -> None:
    """Prepare for one submission: take its plans, and write its files."""
    evidence.give_plans(begin.plans)
    _write_files(begin.files)
    # last, so that a file beside the notebook can be imported but cannot shadow another module
    sys.path.append("")
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # otherwise all forks would sample the same numbers


def _write_files(files: Sequence[tuple[bytes, bytes]]) -> None:
    """Write files into the current folder; leave out those for which there is no space."""
    for name, contents in files:
        with contextlib.suppress(OSError):
            path = Path(os.fsdecode(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents)


def _refuse_input(*_: object, **__: object) -> NoReturn:
    raise StdinNotImplementedError(
        "raw_input was called, but this frontend does not support input requests."
    )


class _Compiler(CachingCompiler):
    """Gives cells file names like those of Jupyter's kernel: a number in its own folder."""

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        """Return a cell's file name, which depends only on the cell's source."""
        checksum = zlib.crc32(raw_code.encode("utf-8", "backslashreplace"))
        return f"{tempfile.gettempdir()}/ipykernel_2/{checksum}.py"


class _Results(DisplayHook):
    """Sends the value of a cell's last expression."""

    def write_output_prompt(self) -> None:
        """Write nothing: a notebook has its own prompt."""

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        """Send the value."""
        bundle = mime_bundle(format_dict)
        if bundle is not None:
            self.shell.send(Result(bundle, self.prompt_count))

    def finish_displayhook(self) -> None:
        """Write no empty line after the value."""
        self._is_active = False


class _Displays(DisplayPublisher):
    """Sends what cells display."""

    def publish(
        self,
        data: Any,
        metadata: Any = None,
        *_: Any,
        transient: Any = None,
        update: bool = False,
        **__: Any,
    ) -> None:
        """Send data; no page uses its metadata."""
        bundle, name = mime_bundle(data), (transient or {}).get("display_id")
        if bundle is not None and update and name:
            self.shell.send(Update(bundle, str(name)))
        elif bundle is not None:
            self.shell.send(Display(bundle, name and str(name)))

    def clear_output(self, wait: bool = False) -> None:
        """Do nothing: feedback pages show all outputs of a cell."""


class ZMQInteractiveShell(InteractiveShell):
    """The shell of a grading kernel. Libraries such as rich recognise a notebook by its name.

    Attributes:
        kernel: libraries take a shell with this attribute for a notebook's.
        channel: sends messages.
        exit_requested: whether a cell has asked the kernel to exit.
        shown: the error that the running cell has shown, if any.
    """

    displayhook_class = Type(_Results)
    display_pub_class = Type(_Displays)
    autoindent = CBool(False)
    compiler_class = Type(_Compiler)
    kernel: None = None
    channel: "Channel | None" = None
    exit_requested = False
    shown: Error | None = None

    def send(self, message: Message) -> None:
        """Send a message, after everything that was printed before."""
        with contextlib.suppress(Exception):  # a cell may have replaced the streams
            sys.stdout.flush()
            sys.stderr.flush()
        if self.channel is not None:
            self.channel.send(message)

    def init_environment(self) -> None:
        """Set the environment variables that Jupyter's kernel sets."""
        os.environ.update(ENVIRONMENT)

    def init_hooks(self) -> None:
        """Show no help pages: in Jupyter they open beside the notebook."""
        super().init_hooks()
        self.set_hook("show_in_pager", page.as_hook(lambda *_, **__: None), 99)

    def enable_gui(self, gui: Any = None) -> None:
        """Do nothing: there are no windows here."""

    def ask_exit(self) -> None:
        """Exit after this cell."""
        self.exit_requested = True

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        self.shown = make_error(etype, evalue, stb)
        self.send(self.shown)

    async def run(self, source: str) -> None:
        """Run a cell inside a running event loop, as Jupyter does."""
        transformed, failed = source, None
        try:
            transformed = self.transform_cell(source)
        except Exception:
            failed = sys.exc_info()
        result = await self.run_cell_async(
            source,
            store_history=True,
            transformed_cell=transformed,
            preprocessing_exc_tuple=failed,
        )
        self.events.trigger("post_execute")
        self.events.trigger("post_run_cell", result)
        error = result.error_before_exec or result.error_in_exec
        if error is not None and self.shown is None:
            self.shown = make_error(type(error), error, [])


def start_shell() -> ZMQInteractiveShell:
    """Start the shell of this process, without a history file and its thread."""
    settings = Config()
    settings.HistoryManager.enabled = False
    settings.IPKernelApp.parent_appname = "shardlings"  # tqdm looks for it
    shell: ZMQInteractiveShell = ZMQInteractiveShell.instance(config=settings)
    return shell


def run_cell(
    shell: ZMQInteractiveShell, loop: asyncio.AbstractEventLoop, source: str
) -> Error | None:
    """Run a cell, and return its error, if any."""
    shell.shown = None
    task = loop.create_task(shell.run(source))
    try:
        loop.run_until_complete(task)
    except BaseException:  # an interrupt between two steps, or an error of a shell that cells broke
        if not task.done():  # otherwise the loop would wait for its end for ever
            task.cancel()
            with contextlib.suppress(BaseException):
                loop.run_until_complete(task)
        kind, error, _ = sys.exc_info()
        shell.shown = make_error(kind, error, [f"{getattr(kind, '__name__', kind)}"])
        shell.send(shell.shown)
    return shell.shown


def make_error(kind: Any, error: Any, traceback: Any) -> Error:
    """Convert an exception to a message, cut to the length that pages show.

    The exception's class may be the learner's, and its `__str__` may raise.
    """
    try:
        message = replace_surrogates(error)
    except Exception:
        message = ""
    name = replace_surrogates(getattr(kind, "__name__", kind))
    lines = list(traceback or ())[-MAX_TRACEBACK_LINES:]
    return Error(
        name[:MAX_ERROR_CHARACTERS],
        message[:MAX_ERROR_CHARACTERS],
        [replace_surrogates(line)[:MAX_ERROR_CHARACTERS] for line in lines],
    )


def mime_bundle(data: Mapping[str, Any]) -> MimeBundle | None:
    """Encode data as JSON, with bytes in base 64; return None if it cannot be encoded."""
    try:
        return {
            str(kind): msgspec.Raw(msgspec.json.encode(value, enc_hook=_encode))
            for kind, value in data.items()
        }
    except Exception:
        return None


def _encode(value: Any) -> Any:
    if isinstance(value, memoryview):
        return base64.b64encode(value).decode()
    return str(value)


class Channel:
    """Sends messages to the process that grades, one at a time.

    Args:
        file: the descriptor of a pipe.
    """

    def __init__(self, file: int) -> None:
        self._file, self._lock, self._process = file, threading.RLock(), os.getpid()

    @property
    def is_ours(self) -> bool:
        """True in the kernel's process, and False in one that a cell has forked."""
        return os.getpid() == self._process

    def send(self, message: Message) -> None:
        """Send a message.

        It is on a line of its own, even after an interrupt has cut off the last one.
        """
        if not self.is_ours:
            return
        unsent = memoryview(b"\n%b\n" % msgspec.json.encode(message))
        with self._lock:
            while unsent:
                unsent = unsent[os.write(self._file, unsent) :]


class Printed(io.TextIOBase):
    """Replaces `sys.stdout` or `sys.stderr`, and sends what is printed.

    Args:
        name: the stream's name.
        descriptor: the stream's descriptor, to which subprocesses and C libraries write.
        channel: sends the messages.
    """

    encoding, errors = "utf-8", "backslashreplace"

    def __init__(
        self, name: Literal["stdout", "stderr"], descriptor: int, channel: Channel
    ) -> None:
        self._name, self._descriptor, self._channel = name, descriptor, channel
        self._buffer, self._size, self._sent_at = list[str](), 0, 0.0
        self._lock = threading.RLock()
        with tempfile.TemporaryFile() as file:
            self._file = os.dup(file.fileno())
            os.dup2(self._file, descriptor)

    def fileno(self) -> int:
        """Return the stream's descriptor."""
        return self._descriptor

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Print text.

        Raises:
            TypeError: it is not a string.
        """
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if not self._channel.is_ours:
            os.write(self._file, replace_surrogates(text).encode())
            return len(text)
        with self._lock:
            self._read_file()
            self._buffer.append(text)
            self._size += len(text)
            is_due = time.monotonic() > self._sent_at + FLUSH_SECONDS and text.endswith("\n")
            if is_due or self._size > MAX_BUFFERED_CHARACTERS:
                self.flush()
        return len(text)

    def flush(self) -> None:
        """Send the text in the buffer and the file."""
        if not self._channel.is_ours:
            return
        with self._lock:
            self._read_file()
            text, self._size = "".join(self._buffer), 0
            self._buffer.clear()
            if text:
                self._channel.send(Stream(self._name, replace_surrogates(text)))
                self._sent_at = time.monotonic()

    def _read_file(self) -> None:
        """Move what was written to the descriptor into the buffer."""
        with contextlib.suppress(OSError):  # a cell may have closed the descriptor
            if os.fstat(self._file).st_size:
                written = os.pread(self._file, MAX_FILE_BYTES, 0)
                os.ftruncate(self._file, 0)
                os.lseek(self._file, 0, os.SEEK_SET)
                self._buffer.append(written.decode(errors="replace"))
                self._size += len(written)


def replace_surrogates(text: object) -> str:
    """Write lone surrogates as escapes, because UTF-8 cannot encode them."""
    return str(text).encode("utf-8", "backslashreplace").decode()
