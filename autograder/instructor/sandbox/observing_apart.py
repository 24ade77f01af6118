"""Call a submitted function in several sandboxed processes that the grader starts.

The kernel submits the function and not its results, which it could make up. The processes get
inputs that no kernel has seen, and each gets only its own share.
"""

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from autograder import devices, evidence
from autograder.evidence import Call, NotCaptured, Plan
from autograder.instructor.sandbox.bubblewrap import has_bubblewrap
from autograder.instructor.sandbox.kernel import kernel_packages
from autograder.instructor.sandbox.limit_watch import CLOCK_FACTOR, ProcessFamily, Watch
from autograder.instructor.sandbox.sandbox import PACKAGES, Sandbox, sandbox_environment

MAX_REPLY_BYTES: Final = 1 << 26
"""How much evidence of processes is read; that of an exercise has less than a thousandth."""


class NotObservedError(RuntimeError):
    """The processes could not be started; that is no fault of what was handed in."""


def is_observed(plan: Plan) -> bool:
    """Whether the grader is to call a function of this exercise in several processes."""
    return any(isinstance(each, evidence.ProcessesPlan) for each in plan.answers.values())


def observe_apart(calls: Sequence[tuple[Plan, Any]], sandbox: Sandbox | None = None) -> list[Any]:
    """Turn functions in evidence into what several processes made of them.

    What ends the process that starts the others is tried once more, and then is what was handed in.

    Args:
        calls: for each exercise the plan, with its cases, and the evidence, which may be anything.
        sandbox: what they run in.

    Returns:
        For each, evidence as plain data; it may be forged, so the judge reads it strictly.

    Raises:
        NotObservedError: the machine is at fault.
    """
    limits, suspect = sandbox or Sandbox(), -1
    made: list[Any] = []
    while len(made) < len(calls):
        replies, ended = _replies(calls[len(made) :], limits)
        made += replies
        first = len(made)
        if first < len(calls) and (ended or first == suspect):
            made.append(_ended(calls[first][0], ended))
        suspect = first
    return made


def _ended(plan: Plan, limit: str) -> Any:
    """Evidence where the processes were ended before there was any."""
    said = (
        f"The processes that called it were ended{f', since {limit}' * bool(limit)}. Is there a "
        f"loop that does not end, or an array that is far too large?"
    )
    why = NotCaptured("ends-the-processes", said)
    return evidence.to_json(evidence.Evidence(plan.exercise, dict.fromkeys(plan.answers, why)))


def _replies(calls: Sequence[tuple[Plan, Any]], limits: Sandbox) -> tuple[list[Any], str]:
    """Start a process for calls; what it replied, and the limit that it was ended for, if any.

    Raises:
        NotObservedError: it did not come up, or did not get its time.
    """
    packages = kernel_packages()
    variables = {
        **sandbox_environment(),
        **devices.environment(),
        "PYTHONPATH": PACKAGES if has_bubblewrap() else str(packages),
    }
    command = [sys.executable, "-P", "-s", "-m", "autograder.evidence"]
    process = ProcessFamily(
        limits.command(command, variables, packages),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=variables,
    )
    watch = Watch(process, limits)
    watch.start()
    try:
        sent = msgspec.json.encode([Call(*call) for call in calls])
        written, _ = process.communicate(sent, timeout=CLOCK_FACTOR * limits.seconds)
    except subprocess.TimeoutExpired:
        watch.is_machines_fault = True
        written = b""
    finally:
        process.kill()
        process.wait()
    came_up, *lines = written[:MAX_REPLY_BYTES].split(b"\n")[:-1] or [b"no"]
    if watch.is_machines_fault or came_up:
        raise NotObservedError(
            "The processes that call a function of several processes did not come up, or did not "
            "get their time. Grade it again, when the machine has less to do."
        )
    with contextlib.suppress(msgspec.MsgspecError):
        return [msgspec.json.decode(line) for line in lines[: len(calls)]], watch.ended
    return [], watch.ended
