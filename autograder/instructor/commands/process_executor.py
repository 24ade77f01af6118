"""Processes of this machine that a command has work for: they grade, and make pages.

They are forked from a server that has imported everything.
"""

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from typing import Any, Final

from autograder.processes import start_fork_server, without_main_module

PRELOADED: Final = ["autograder.instructor.classroom"]
"""The package that imports all others that the processes need."""


class ProcessExecutor(Executor):
    """Calls functions in processes of this machine, and replaces the processes when one dies.

    Args:
        max_workers: the most processes; each starts when there is work for it.
    """

    def __init__(self, max_workers: int) -> None:
        self._max_workers = max_workers
        self._pool = self._open()

    def _open(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        return ProcessPoolExecutor(
            self._max_workers, context, prepare_process, (tempfile.gettempdir(),)
        )

    def submit(  # type: ignore[override]  # nobody here names arguments
        self, function: Callable[..., Any], /, *arguments: Any
    ) -> "Future[Any]":
        """Call a function; the future raises `BrokenExecutor` if its process died."""
        # nbgrader works in submissions' folders, and the server would keep one of them in use
        with without_main_module(), contextlib.chdir(sys.prefix):
            start_fork_server()
            try:
                future = self._pool.submit(function, *arguments)
            except BrokenExecutor:
                self._pool = self._open()
                future = self._pool.submit(function, *arguments)
        calls: Any = vars(self._pool)["_call_queue"]
        future.add_done_callback(functools.partial(_let_writer_end, calls))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the processes end."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


def _let_writer_end(calls: Any, future: "Future[Any]") -> None:
    """Close this process's end of the pipe from which processes that died read their calls.

    Up to Python 3.11.4, a thread that writes to a pipe which nobody empties any more keeps the
    command from ending (python/cpython#94777). This is called by the thread that would close it.
    """
    if not future.cancelled() and isinstance(future.exception(), BrokenExecutor):
        calls._reader.close()


def prepare_process(folder: str) -> None:
    """Prepare a process: its temporary files, and its end."""
    tempfile.tempdir = folder  # removed by the command, because a process may be killed
    # Ctrl-C reaches the process too, but the command ends it. It is not ignored, since processes
    # that this one starts would inherit that.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by `start_fork_server`
    command = multiprocessing.parent_process()
    if command is not None:
        threading.Thread(target=_end_after, args=(command,), daemon=True).start()


def _end_after(command: multiprocessing.process.BaseProcess) -> None:
    """End this process after the command, which cannot end it if it was killed itself."""
    command.join()
    os._exit(1)
