"""IPython without Jupyter: cells run as in a student's kernel, and send what they show."""

import asyncio
import base64
import contextlib
import os
import sys
import tempfile
import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from IPython.core import page
from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import CBool, Type
from traitlets.config import Config

from autograder.sandboxed.messages import (
    LINES,
    LONG,
    Display,
    Error,
    Message,
    MimeBundle,
    Result,
    Update,
)
from autograder.sandboxed.printed import Channel, spell

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
