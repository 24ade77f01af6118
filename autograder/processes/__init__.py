"""Several processes: one function, run by as many of them as are asked for, on shared devices.

In: a function of a learner's, and how many processes are to run it together. Out: what became of it
in each of them, with as much of every array as that process holds. All processes are on this
machine, and none of them outlives the call.
"""

from autograder.processes.cases import (
    Given,
    NotHereError,
    ProcessCase,
    Share,
    Spec,
    files_of,
    files_written,
    write_files,
)
from autograder.processes.isolation import close_memory
from autograder.processes.packing import PackedFunction, pack, pack_arguments
from autograder.processes.worker import AddressableShards, CannotLeaveError
from autograder.processes.workers import (
    Form,
    ProcessesError,
    ProcessesFailedError,
    ProcessOutcome,
    on_processes,
    run,
)

__all__ = [
    "AddressableShards",
    "CannotLeaveError",
    "Form",
    "Given",
    "NotHereError",
    "PackedFunction",
    "ProcessCase",
    "ProcessOutcome",
    "ProcessesError",
    "ProcessesFailedError",
    "Share",
    "Spec",
    "close_memory",
    "files_of",
    "files_written",
    "on_processes",
    "pack",
    "pack_arguments",
    "run",
    "write_files",
]
