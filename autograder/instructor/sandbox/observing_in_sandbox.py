"""Call a submitted function in several sandboxed processes that the grader starts.

For exercises of notebook 11 the kernel submits a function rather than results, which it could make
up. The processes get inputs that no kernel has seen, and each gets only its own share of them.
"""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from autograder import evidence
from autograder.evidence import NotCaptured, ObserveRequest, Plan
from autograder.instructor.sandbox.bubblewrap import has_bubblewrap
from autograder.instructor.sandbox.kernel import prepare_kernel_packages
from autograder.instructor.sandbox.limit_watch import CLOCK_FACTOR, LimitWatch, ProcessFamily
from autograder.instructor.sandbox.sandbox import PACKAGES, Sandbox, read_sandbox_environment
from autograder.instructor.sandbox.shortages import GRADE_AGAIN, MachineError, read_shortages
from shardlings import devices

MAX_REPLY_BYTES: Final = 1 << 26
"""The most evidence that is read; an exercise of the course needs less than a thousandth of it."""


class NotObservedError(MachineError):
    """The processes could not be started, which is not the submission's fault."""


def is_observed(plan: Plan) -> bool:
    """Check whether the grader has to call a function of this exercise in several processes."""
    return any(isinstance(answer, evidence.ProcessesPlan) for answer in plan.answers.values())


def observe_in_sandbox(
    calls: Sequence[tuple[Plan, Any]], sandbox: Sandbox | None = None
) -> list[Any]:
    """Call the functions in evidence, and return new evidence with their results.

    One process starts all others. If it dies during a call, that call is tried once more, unless it
    was killed for exceeding a limit. If it dies again, or was killed, the evidence says so. If the
    machine ran short of processes or memory meanwhile, all calls are tried once more.

    Args:
        calls: for each exercise its plan, with its cases, and the untrusted evidence.
        sandbox: the sandbox for the processes.

    Returns:
        The new evidence for each exercise, as plain data. It may be forged, so the judge reads it
        strictly.

    Raises:
        NotObservedError: the machine is at fault.
    """
    for _ in range(2):
        before = read_shortages()
        observed = _observe(calls, sandbox or Sandbox())
        shortages = read_shortages() - before
        if not shortages:
            return observed
    raise NotObservedError(
        f"While a function of several processes was called, {' and '.join(shortages)}. "
        f"{GRADE_AGAIN}"
    )


def _observe(calls: Sequence[tuple[Plan, Any]], limits: Sandbox) -> list[Any]:
    """Call the functions, and try once more if all processes die.

    Raises:
        NotObservedError: they did not start, or the machine did not give them their time.
    """
    observed, suspect = list[Any](), -1
    while len(observed) < len(calls):
        replies, ended = _run_calls(calls[len(observed) :], limits)
        observed += replies
        first = len(observed)
        if first < len(calls) and (ended or first == suspect):
            observed.append(_explain_end(calls[first][0], ended))
        suspect = first
    return observed


def _explain_end(plan: Plan, limit: str) -> Any:
    """Return the evidence for an exercise whose processes were ended before they replied."""
    sentence = (
        f"The processes that called it were ended{f', since {limit}' * bool(limit)}. Is there a "
        f"loop that does not end, or an array that is far too large?"
    )
    reason = NotCaptured("ends-the-processes", sentence)
    return evidence.to_json(evidence.Evidence(plan.exercise, dict.fromkeys(plan.answers, reason)))


def _run_calls(calls: Sequence[tuple[Plan, Any]], limits: Sandbox) -> tuple[list[Any], str]:
    """Start the processes for calls.

    Returns:
        Their replies, and the limit for which they were ended, or an empty string.

    Raises:
        NotObservedError: they did not start, or the machine did not give them their time.
    """
    packages = prepare_kernel_packages()
    variables = {
        **read_sandbox_environment(),
        **devices.environment(),
        "PYTHONPATH": PACKAGES if has_bubblewrap() else str(packages),
    }
    if limits.has_other_user:
        variables["HOME"] = tempfile.gettempdir()
    command = [sys.executable, "-P", "-s", "-m", "autograder.evidence"]
    process = ProcessFamily(
        limits.command(command, variables, packages),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=variables,
    )
    watch = LimitWatch(process, limits)
    try:
        watch.start()
        request = msgspec.json.encode([ObserveRequest(*call) for call in calls])
        output, _ = process.communicate(request, timeout=CLOCK_FACTOR * limits.seconds)
    except subprocess.TimeoutExpired:
        watch.is_machines_fault = True
        output = b""
    finally:
        process.kill()
        process.wait()
        limits.end_processes()
    # the first line is empty, and is written once the process has started
    first_line, *lines = output[:MAX_REPLY_BYTES].split(b"\n")[:-1] or [b"no"]
    if watch.is_machines_fault or first_line:
        raise NotObservedError(
            f"The processes that call a function of several processes did not start, or did not "
            f"get their time. {GRADE_AGAIN}"
        )
    with contextlib.suppress(msgspec.MsgspecError):
        return [msgspec.json.decode(line) for line in lines[: len(calls)]], watch.reason
    return [], watch.reason
