"""The parts that an instructor's commands share: words, processes, and stopping.

In: text that a stranger chose, functions to call. Out: words that are safe to print; calls in
processes of this machine; and a command that leaves no process and no temporary file, however it
ends. The functions of `atomic_files.py` are handed on.
"""

from autograder.atomic_files import (
    swap_folder,
    write_atomically,
    write_first,
)
from autograder.instructor.commands.messages import (
    begin_sentence,
    describe_duration,
    describe_no_file,
    escape_surrogates,
    list_some,
    printable,
    show_control_characters,
    show_invisible_characters,
    suggest_names,
)
from autograder.instructor.commands.process_executor import ProcessExecutor
from autograder.instructor.commands.stopping import STOPPED, STOPPED_STATUSES, stop_on_signal
from autograder.instructor.commands.temporary_files import keep_temporary_files

__all__ = [
    "STOPPED",
    "STOPPED_STATUSES",
    "ProcessExecutor",
    "begin_sentence",
    "describe_duration",
    "describe_no_file",
    "escape_surrogates",
    "keep_temporary_files",
    "list_some",
    "printable",
    "show_control_characters",
    "show_invisible_characters",
    "stop_on_signal",
    "suggest_names",
    "swap_folder",
    "write_atomically",
    "write_first",
]
