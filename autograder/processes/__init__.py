"""Call one function in several processes at once, which share eight devices.

In: a learner's function, and the number of processes. Out: the function's outcome in each process,
with the shards of each array that the process holds. All processes run on this machine, and none of
them outlives the call.
"""

from autograder.processes.cases import (
    CaseArgument,
    ProcessCase,
    Spec,
    table_files,
    write_files,
    written_files,
)
from autograder.processes.disks import RowsNotHereError
from autograder.processes.interruptions import Interruption
from autograder.processes.isolation import close_memory
from autograder.processes.launching import (
    ProcessesError,
    ProcessesFailedError,
    ProcessOutcome,
    ResultEncoding,
    on_processes,
    run,
    start_fork_server,
    without_main_module,
)
from autograder.processes.packing import PackedFunction, pack, pack_arguments
from autograder.processes.running_time import RunningTime
from autograder.processes.sendable_results import AddressableShards, ResultNotSendableError

__all__ = [
    "AddressableShards",
    "CaseArgument",
    "Interruption",
    "PackedFunction",
    "ProcessCase",
    "ProcessOutcome",
    "ProcessesError",
    "ProcessesFailedError",
    "ResultEncoding",
    "ResultNotSendableError",
    "RowsNotHereError",
    "RunningTime",
    "Spec",
    "close_memory",
    "on_processes",
    "pack",
    "pack_arguments",
    "run",
    "start_fork_server",
    "table_files",
    "without_main_module",
    "write_files",
    "written_files",
]
