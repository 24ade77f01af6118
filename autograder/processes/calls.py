"""`on_processes`: call a function on several processes, and show what each returned."""

from collections.abc import Callable
from functools import partial
from typing import Any

from autograder.errors import ShortError, UsageError
from autograder.processes.packing import pack, pack_arguments
from autograder.processes.starting import ProcessesFailedError
from autograder.processes.workers import run


class ProcessesError(ShortError, RuntimeError):
    """A function did not come to its end in every process; the message says where it did not."""


def on_processes(function: Callable[..., Any], processes: int, *arguments: Any) -> list[Any]:
    """Call a function in several processes at once, each with its share of eight emulated devices.

    The processes are new ones. They are joined by `jax.distributed`, and what they send each other
    goes over this machine's loopback interface. When all have returned, they are ended. What they
    print is printed here, each line behind the number of its process.

    Args:
        function: what is called in each process; whatever it uses of the notebook is sent along,
            but for meshes, shardings and devices, which it has to make itself.
        processes: how many: 1, 2, 4 or 8.
        *arguments: what the function is called with, the same in every process.

    Returns:
        What each process returned, in order. An array on several devices is there as
        `AddressableShards`: as much of it as that process holds.

    Raises:
        ProcessesError: a process did not come up, raised an error, ended, or stood still; all
            others were ended.
        UsageError: there can be no such number of processes, or the function cannot be sent.
    """
    if not callable(function):
        raise UsageError(
            f"on_processes(function, processes) takes a function first, such as "
            f"on_processes(who, 2); {type(function).__name__} came."
        )
    try:
        given = pack_arguments(function, partial(tuple, arguments))
        outcomes = run(pack(function), processes, lambda _: given)
    except ProcessesFailedError as error:
        raise ProcessesError(str(error)) from error
    for outcome in outcomes:
        for line in outcome.printed.splitlines():
            print(f"process {outcome.process} | {line}")
    failed = [outcome for outcome in outcomes if outcome.why]
    if failed:
        # what was stopped for another's error is told after that error
        failed.sort(key=lambda outcome: outcome.why == "stopped")
        said = f"Process {failed[0].process}: " * (failed[0].why == "raised") + failed[0].said
        more = " ".join(o.said for o in failed[1:] if o.why in ("stopped", "waits", "died"))
        raise ProcessesError(f"{said} {more}".strip())
    return [outcome.came for outcome in outcomes]
