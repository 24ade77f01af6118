"""End a command with a sentence if Ctrl-C comes during its imports, which take seconds.

Otherwise Python prints a traceback, or an `ImportError` if the interrupt reaches a library in C.
The command replaces this handler before it has anything to clean up.
"""

import os
import signal
import sys
from types import FrameType
from typing import Final

COMMANDS: Final = "autograder.instructor"
"""The module that Python is asked to run, for each of an instructor's commands."""

STOPPED_EARLY: Final = "\nStopped before anything was begun.\n"


def _stop(number: int, frame: FrameType | None) -> None:
    os.write(1, STOPPED_EARLY.encode())
    os._exit(128 + number)


# the first argument is "-m" while Python imports the packages around the module that it is to run
if sys.argv[:1] == ["-m"] and COMMANDS in sys.orig_argv:
    signal.signal(signal.SIGINT, _stop)
