"""Ctrl-C while a notebook runs: it is for whoever grades, and not for nbclient.

nbclient takes it for a wish to end the kernel, and to go on. It would look as if the notebook had
ended its kernel, and its student would pay for that.
"""

import asyncio
import signal
import threading
from typing import Any, Final

import psutil
from nbgrader.preprocessors import Execute

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StoppedExecute(Execute):
    """Runs a notebook, and lets whoever grades stop that."""

    def preprocess(self, nb: Any, resources: Any, *others: Any) -> tuple[Any, Any]:
        """Run a notebook; where that is stopped, its kernel ends at once."""
        self.handlers = {number: signal.getsignal(number) for number in SIGNALS}
        try:
            done: tuple[Any, Any] = super().preprocess(nb, resources, *others)
        except KeyboardInterrupt:
            _end(self.km and self.km.provisioner)
            raise
        return done

    async def async_start_new_kernel(self, **kwargs: Any) -> None:
        """Start a kernel; by now nbclient has asked the loop for all signals."""
        if threading.current_thread() is threading.main_thread():  # where they come
            for number, handler in self.handlers.items():
                asyncio.get_running_loop().remove_signal_handler(number)
                signal.signal(number, handler)
        await super().async_start_new_kernel(**kwargs)


def _end(provisioner: Any) -> None:
    """Kill a kernel, if there is one, with all that it has started."""
    process = getattr(provisioner, "process", None)
    if process is None:
        return
    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        started = []
    for each in (*started, process):
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    process.wait()
