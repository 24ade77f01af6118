"""Call one function in several processes at once, which share eight devices.

In: a learner's function, and the number of processes. Out: the function's outcome in each process,
with the shards of each array that the process holds. All processes run on this machine, and none of
them outlives the call.
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
