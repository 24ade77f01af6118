"""The judge's own process, which has seen no student's code.

`python -P -s -m autograder.instructor.sandbox 120` reads a list of cases from standard input and
writes a verdict on each, one line each, as soon as it is made. 120 is its limit in seconds of
processor time, so a busy machine costs no points; and whatever ends the process costs only the
current case. It starts without the caller's environment, user packages or folder.
"""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any, Final

import msgspec

from autograder import devices, evidence
from autograder.errors import Fault
from autograder.exercises import Exercise, find
from autograder.judge import Verdict, failed, judge, no_evidence

JUDGE_CPU_SECONDS: Final = 120
"""Processor time for judging one submission's evidence."""

ALARM: Final = 27
"""The signal that a process ends by whose time is up; Windows has none of that name."""

OUT_OF_TIME_STATUS: Final = 75
"""The exit status if there was no time for the last cases."""

CASE_SHARE: Final = 0.5
"""The share of the remaining time that one case may take."""

MIN_CASE_SECONDS: Final = 0.001
"""A timer of zero would be no limit."""


class Case(msgspec.Struct, frozen=True):
    """What is to be judged: evidence as it came, and what random numbers are drawn from.

    Attributes:
        exercise: the id of the exercise.
        evidence: plain data, which may be anything.
        seed: what the submission's kernel drew its cases from.
        fresh: what the judge draws inputs from, where the kernel is not to have known them.
    """

    exercise: str
    evidence: Any
    seed: int
    fresh: int | None = None


class Reply(msgspec.Struct, frozen=True):
    """The verdict on a case.

    Attributes:
        verdict: that.
        spent: how much processor time this process has taken by then, from its start.
    """

    verdict: Verdict
    spent: float


def encode(case: Case) -> bytes | None:
    """A case as JSON, as it is sent and kept; None where it holds what JSON has no way to write."""
    try:
        return msgspec.json.encode(case)
    except (UnicodeError, RecursionError, msgspec.MsgspecError):
        return None


def replies(cases: bytes, seconds: float = JUDGE_CPU_SECONDS) -> Iterator[bytes]:
    """The verdicts on cases, as JSON. An error of ours is one of them, and costs no other.

    Args:
        cases: a list of cases, as JSON.
        seconds: how much processor time all of them may take; where one case takes too much, this
            process ends, and where there is none left, there are no more verdicts.
    """
    end = time.process_time() + seconds
    for case in msgspec.json.decode(cases, type=list[Case]):
        left = end - time.process_time()
        if left <= 0:
            return
        _end_after(max(CASE_SHARE * left, MIN_CASE_SECONDS))
        yield _reply(case)
    _end_after(0)


def _end_after(seconds: float) -> None:
    """End this process when all its threads have taken so much more time; 0 is never.

    The kernel does it, so it makes no difference whether Python gets a turn meanwhile.
    """
    if sys.platform != "win32":  # which has no such clock; there, only the far limit is left
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _reply(case: Case) -> bytes:
    exercise = find(case.exercise)
    try:
        return _line(_verdict(exercise, case))
    except Exception as error:
        return _line(failed(exercise, Fault.of(error)))


def _line(verdict: Verdict) -> bytes:
    return msgspec.json.encode(Reply(verdict, time.process_time()))


def _verdict(exercise: Exercise, case: Case) -> Verdict:
    try:
        read = evidence.from_json(case.evidence)
    except evidence.MalformedEvidenceError as error:
        return no_evidence(exercise, "malformed", str(error))
    return judge(exercise, read, case.seed, case.fresh)


def main(seconds: float = JUDGE_CPU_SECONDS) -> None:
    """Read cases, write verdicts."""
    written, came = sys.stdout.buffer, sys.stdin.buffer.read()
    done = 0
    with redirect_stdout(sys.stderr):  # nothing but verdicts is to stand there
        devices.emulate_devices(8)
        for reply in replies(came, seconds - time.process_time()):
            written.write(reply + b"\n")
            written.flush()
            done += 1
    if done < len(msgspec.json.decode(came, type=list[msgspec.Raw])):
        sys.exit(OUT_OF_TIME_STATUS)
