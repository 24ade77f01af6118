"""Collect what cells print: through `sys.stdout`, `sys.stderr`, and descriptors 1 and 2.

Python's own text is sent as messages. What subprocesses and libraries in C write to the descriptors
goes into a file, from which it is taken in turn.
"""

import asyncio
import base64
import builtins
import contextlib
import getpass
import importlib
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
from autograder.sandboxed.messages import (
    LINES,
    LONG,
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

MAX_PIECE: Final = 2**16
"""The most characters that wait to be sent."""

MAX_FILE_BYTES: Final = 2**21
"""The most bytes that are taken at once of what was written to a descriptor."""

PAUSE_SECONDS: Final = 0.2
"""Lines are sent at once, unless some were sent as short a while ago."""


class Channel:
    """The way to the process that grades; it takes one message at a time.

    Args:
        file: the descriptor of a pipe.
    """

    def __init__(self, file: int) -> None:
        self._file, self._lock, self._process = file, threading.RLock(), os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is the kernel's process, and not one that a cell has forked."""
        return os.getpid() == self._process

    def send(self, message: Message) -> None:
        """Send a message, on a line of its own even where an interrupt cut the last one off."""
        if not self.is_here:
            return
        left = memoryview(b"\n%b\n" % msgspec.json.encode(message))
        with self._lock:
            while left:
                left = left[os.write(self._file, left) :]


class Printed(io.TextIOBase):
    """A stream of text that cells print to.

    Args:
        name: the stream's.
        descriptor: the one that stands for it in subprocesses.
        channel: takes its messages.
    """

    encoding, errors = "utf-8", "backslashreplace"

    def __init__(
        self, name: Literal["stdout", "stderr"], descriptor: int, channel: Channel
    ) -> None:
        self._name, self._descriptor, self._channel = name, descriptor, channel
        self._waiting, self._size, self._sent = list[str](), 0, 0.0
        self._lock = threading.RLock()
        with tempfile.TemporaryFile() as file:
            self._file = os.dup(file.fileno())
            os.dup2(self._file, descriptor)

    def fileno(self) -> int:
        """The descriptor that stands for the stream."""
        return self._descriptor

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Print text.

        Raises:
            TypeError: it is none.
        """
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if not self._channel.is_here:
            os.write(self._file, spell(text).encode())
            return len(text)
        with self._lock:
            self._take_file()
            self._waiting.append(text)
            self._size += len(text)
            is_due = time.monotonic() > self._sent + PAUSE_SECONDS and text.endswith("\n")
            if is_due or self._size > MAX_PIECE:
                self.flush()
        return len(text)

    def flush(self) -> None:
        """Send what waits."""
        if not self._channel.is_here:
            return
        with self._lock:
            self._take_file()
            text, self._size = "".join(self._waiting), 0
            self._waiting.clear()
            if text:
                self._channel.send(Stream(self._name, spell(text)))
                self._sent = time.monotonic()

    def _take_file(self) -> None:
        """Take what was written to the descriptor since."""
        with contextlib.suppress(OSError):  # a cell may have closed what is not its own
            if os.fstat(self._file).st_size:
                written = os.pread(self._file, MAX_FILE_BYTES, 0)
                os.ftruncate(self._file, 0)
                os.lseek(self._file, 0, os.SEEK_SET)
                self._waiting.append(written.decode(errors="replace"))
                self._size += len(written)


def spell(text: object) -> str:
    """Spell out halves of characters in a text: they cannot be written down."""
    return str(text).encode("utf-8", "backslashreplace").decode()


VARIABLES: Final = {
    "TERM": "xterm-color", "CLICOLOR": "1", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1",
    "PAGER": "cat", "GIT_PAGER": "cat",
}  # fmt: skip
"""What a Jupyter kernel tells the commands that a cell runs."""


class _Compiler(CachingCompiler):
    """Gives cells file names like those of Jupyter's kernel: a number in its own folder."""

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        """The file name of a cell; it is the same wherever the cell is run."""
        text = zlib.crc32(raw_code.encode("utf-8", "backslashreplace"))
        return f"{tempfile.gettempdir()}/ipykernel_2/{text}.py"


class _Results(DisplayHook):
    """Sends the value of a cell's last expression."""

    def write_output_prompt(self) -> None:
        """Write nothing: a notebook has its own."""

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        """Send it."""
        bundle = mime_bundle(format_dict)
        if bundle is not None:
            self.shell.send(Result(bundle, self.prompt_count))

    def finish_displayhook(self) -> None:
        """Write no empty line behind it."""
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
        """Send it; its metadata goes into no page."""
        bundle, name = mime_bundle(data), (transient or {}).get("display_id")
        if bundle is not None and update and name:
            self.shell.send(Update(bundle, str(name)))
        elif bundle is not None:
            self.shell.send(Display(bundle, name and str(name)))

    def clear_output(self, wait: bool = False) -> None:
        """Keep it: pages show all that a cell has shown."""


class ZMQInteractiveShell(InteractiveShell):
    """The shell of a kernel that grades; libraries such as rich know a notebook by this name.

    Attributes:
        kernel: what tells a notebook's shell from a terminal's.
        is_over: whether a cell has asked the kernel to end.
        shown: the error that the running cell has shown, if any.
    """

    displayhook_class = Type(_Results)
    display_pub_class = Type(_Displays)
    autoindent = CBool(False)
    compiler_class = Type(_Compiler)
    kernel: None = None
    channel: Channel | None = None
    is_over = False
    shown: Error | None = None

    def send(self, message: Message) -> None:
        """Send a message, after all that was printed before."""
        with contextlib.suppress(Exception):  # cells may have put anything there
            sys.stdout.flush()
            sys.stderr.flush()
        if self.channel is not None:
            self.channel.send(message)

    def init_environment(self) -> None:
        """Tell commands that nobody pages through their output, and that it may have colours."""
        os.environ.update(VARIABLES)

    def init_hooks(self) -> None:
        """Show no help pages: in a notebook they stand beside it."""
        super().init_hooks()
        self.set_hook("show_in_pager", page.as_hook(lambda *_, **__: None), 99)

    def enable_gui(self, gui: Any = None) -> None:
        """Do nothing: there is no window here."""

    def ask_exit(self) -> None:
        """End the kernel after this cell."""
        self.is_over = True

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        self.shown = error_of(etype, evalue, stb)
        self.send(self.shown)

    async def run(self, source: str) -> None:
        """Run a cell, within a loop that runs, as Jupyter does."""
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
            self.shown = error_of(type(error), error, [])


def start_shell() -> ZMQInteractiveShell:
    """Start the shell of this process. It keeps no file of what was typed, and no thread."""
    settings = Config()
    settings.HistoryManager.enabled = False
    settings.IPKernelApp.parent_appname = "shardlings"  # tqdm looks for it
    shell: ZMQInteractiveShell = ZMQInteractiveShell.instance(config=settings)
    return shell


def run_cell(
    shell: ZMQInteractiveShell, loop: asyncio.AbstractEventLoop, source: str
) -> Error | None:
    """Run a cell; whatever happens in it, return its error, if there was any."""
    shell.shown = None
    task = loop.create_task(shell.run(source))
    try:
        loop.run_until_complete(task)
    except BaseException:  # an interrupt between two steps, or what a cell has put into the shell
        if not task.done():  # else the loop would wait for its end for ever
            task.cancel()
            with contextlib.suppress(BaseException):
                loop.run_until_complete(task)
        kind, error, _ = sys.exc_info()
        shell.shown = error_of(kind, error, [f"{getattr(kind, '__name__', kind)}"])
        shell.send(shell.shown)
    return shell.shown


def error_of(kind: Any, error: Any, traceback: Any) -> Error:
    """An error as a notebook shows it, and not at greater length than a page does.

    Its class may be the learner's own, and in error itself.
    """
    try:
        says = spell(error)
    except Exception:
        says = ""
    name = spell(getattr(kind, "__name__", kind))
    lines = list(traceback or ())[-LINES:]
    return Error(name[:LONG], says[:LONG], [spell(line)[:LONG] for line in lines])


def mime_bundle(data: Mapping[str, Any]) -> MimeBundle | None:
    """Data as JSON, with bytes in base 64; None where it cannot be written as JSON."""
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
