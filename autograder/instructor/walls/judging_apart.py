"""To have a submission's evidence judged in processes that have seen no student's code.

One process judges all of it, and no other submission's. Where something ends that process, another
one goes on with what comes after it, as long as there is time.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from autograder import devices
from autograder.exercises import find
from autograder.instructor.walls.judge_process import ALARM, SECONDS, Case, encode
from autograder.instructor.walls.sandbox import Sandbox, environment
from autograder.judge import Verdict, no_evidence

CONTROL: Final = Case("1.1", {}, 0)
"""What any judge can judge: where this fails, it is the machine that is at fault."""


class JudgeFailedError(RuntimeError):
    """The judge's process failed. This is no verdict: the submission is to be graded again."""


@dataclass(frozen=True)
class Judged:
    """What a judge's process has left.

    Attributes:
        verdicts: those on its first cases, or on all of them.
        ended: what ended it before it was done, in a sentence; empty where it was done.
        too_slow: whether that was the time that one case may take.
    """

    verdicts: list[Verdict]
    ended: str = ""
    too_slow: bool = False


def judge_apart(
    cases: Sequence[Case], seconds: float = SECONDS, sandbox: Sandbox | None = None
) -> list[Verdict]:
    """Judge one submission's evidence in a process of its own.

    A case that ends its judge costs its own points. It is tried a second time, for it may have been
    the machine, unless it was its time that was up. What there is no time left for is not judged.

    Args:
        cases: what to judge.
        seconds: how long all of it may take.
        sandbox: what it runs in.

    Raises:
        JudgeFailedError: a process ended without verdicts, and it was not for what it was given.
    """
    room, end = sandbox or Sandbox(), time.monotonic() + seconds
    sent = {number: encode(case) for number, case in enumerate(cases)}
    made = {n: _unwritable(cases[n]) for n, encoded in sent.items() if encoded is None}
    waiting = [(number, encoded) for number, encoded in sent.items() if encoded is not None]
    suspect, any_judged = -1, False
    while waiting:
        left = end - time.monotonic()
        if left <= 0:
            made |= {number: _no_time(cases[number], seconds) for number, _ in waiting}
            break
        judged = _judged([encoded for _, encoded in waiting], left, room)
        for verdict in judged.verdicts:
            made[waiting.pop(0)[0]] = verdict
        if not waiting:
            break
        if not any_judged and not judged.verdicts:
            end += _time_of_control(seconds, room)
        any_judged, first = True, waiting[0][0]
        if judged.too_slow or suspect == first:
            made[first] = _deadly(cases[first], judged.ended)
            waiting.pop(0)
        suspect = first
    return [made[number] for number in range(len(cases))]


def _time_of_control(seconds: float, room: Sandbox) -> float:
    """How long it took to see that a judge can be had at all: no submission's time.

    Raises:
        JudgeFailedError: none can.
    """
    began = time.monotonic()
    judged = _judged([msgspec.json.encode(CONTROL)], seconds, room)
    if judged.ended:
        raise JudgeFailedError(judged.ended)
    return time.monotonic() - began


def _unwritable(case: Case) -> Verdict:
    return no_evidence(
        find(case.exercise), "malformed", "The evidence holds what cannot be written down."
    )


def _deadly(case: Case, ended: str) -> Verdict:
    return no_evidence(
        find(case.exercise),
        "kills-the-judge",
        f"Judging it did not come to an end: {ended.splitlines()[0]} Is there a loop that does "
        f"not end, or an array that is far too large?",
    )


def _no_time(case: Case, seconds: float) -> Verdict:
    return no_evidence(
        find(case.exercise),
        "no-time-left",
        f"It was not judged, because the {seconds:.0f} seconds were over in which all of a "
        f"notebook is judged. Is there a loop that does not end, here or in another answer?",
    )


def _judged(cases: Sequence[bytes], seconds: float, room: Sandbox) -> Judged:
    """What one process makes of cases, given as JSON, within some time.

    Raises:
        JudgeFailedError: it did not reply as it should.
    """
    variables = {**environment(), **devices.environment()}
    command = [sys.executable, "-P", "-s", "-m", "autograder.instructor.walls", f"{seconds:.3f}"]
    try:
        done = subprocess.run(
            room.command(command, variables),
            input=b"[" + b",".join(cases) + b"]",
            capture_output=True,
            timeout=max(seconds, 0),
            env=variables,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        ended = f"The judge took more than {seconds:.0f} seconds."
        return Judged(_verdicts(error.stdout or b""), ended)
    verdicts = _verdicts(done.stdout)
    if done.returncode in (-ALARM, 128 + ALARM):  # a shell says it the other way
        return Judged(verdicts, "It took more than its share of the time.", too_slow=True)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-8:]
        why = f"The judge's process ended with status {done.returncode}: "
        return Judged(verdicts, why + "\n".join(last))
    if len(verdicts) != len(cases):
        raise JudgeFailedError(f"The judge gave {len(verdicts)} verdicts on {len(cases)} cases.")
    return Judged(verdicts)


def _verdicts(written: bytes) -> list[Verdict]:
    """The verdicts that a judge wrote down to the end.

    Raises:
        JudgeFailedError: what it wrote is none.
    """
    lines = written.split(b"\n")[:-1]  # after the last line's end there is nothing, or half a line
    try:
        return [msgspec.json.decode(line, type=Verdict) for line in lines]
    except msgspec.MsgspecError as error:
        raise JudgeFailedError(f"The judge's reply cannot be read: {error}") from None
