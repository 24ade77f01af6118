"""The judge's process, which never runs a student's Python.

`python -P -s -m autograder.instructor.sandbox 120` reads cases (`Work`) from standard input and
writes one line with the verdict on each case as soon as it is known, so a case that kills the
process costs no other case. 120 is its limit in seconds of CPU time, not clock time, so a
busy machine costs no points. It starts without the caller's environment, user packages or folder.
"""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any, Final

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from autograder import evidence
from autograder.exercises import Exercise, find
from autograder.explanations import Fault
from autograder.judge import (
    MALFORMED,
    Verdict,
    failed_verdict,
    fingerprint_answer,
    judge,
    verdict_without_evidence,
)
from autograder.sandboxed import IMPORTED_BY_JAX
from shardlings import devices

JUDGE_CPU_SECONDS: Final = 120
"""Processor time for judging one submission's evidence."""

SIGPROF_NUMBER: Final = 27
"""SIGPROF, which ends the process when a case's time is up; Windows does not define it."""

OUT_OF_TIME_STATUS: Final = 75
"""The exit status if no time was left for the last cases."""

CASE_SHARE: Final = 0.5
"""The share of the remaining time that one case may take."""

MIN_CASE_SECONDS: Final = 0.001
"""The least time for one case, because a timer of zero would set no limit."""

IMPORTED: Final = (*IMPORTED_BY_JAX, "jax.extend.mlir.dialects.sdy", "scipy.linalg")
"""Modules that JAX imports when a program is first judged."""

CONTROL: Final = "control"
"""In place of an exercise's id: a case that any judge can judge, with a program of our own."""


class Case(msgspec.Struct, frozen=True):
    """Evidence to judge, with the seeds of its inputs.

    Attributes:
        exercise: the id of the exercise.
        evidence: untrusted plain data from the kernel.
        seed: the seed from which the kernel's inputs were sampled.
        fresh: the seed for inputs that the kernel could not know.
    """

    exercise: str
    evidence: Any
    seed: int
    fresh: int | None = None


class Work(msgspec.Struct, frozen=True):
    """Cases for a judge, and what it need not judge.

    Attributes:
        cases: the evidence to judge.
        right: fingerprints of answers that are known to be right, and are not judged.
    """

    cases: list[Case]
    right: frozenset[str] = frozenset()


class Reply(msgspec.Struct, frozen=True):
    """The verdict on a case.

    Attributes:
        verdict: the verdict; None if the answer is known to be right.
        spent: the CPU time that this process has used since its start, in seconds.
        fingerprint: the answer's fingerprint; empty if it has none.
    """

    verdict: Verdict | None
    spent: float
    fingerprint: str = ""


MAX_EVIDENCE_DEPTH: Final = 64
"""The deepest nesting in evidence. Python 3.14 writes JSON that is too deep for it to read."""


def encode_case(case: Case) -> bytes | None:
    """Return a case as JSON, to be sent and kept; None if JSON cannot express its evidence."""
    level = [case.evidence]
    for _ in range(MAX_EVIDENCE_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, list | dict)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    if level:
        return None
    try:
        return msgspec.json.encode(case)
    except (UnicodeError, RecursionError, msgspec.MsgspecError):
        return None


def judge_cases(work: bytes, seconds: float = JUDGE_CPU_SECONDS) -> Iterator[bytes]:
    """Judge cases, and yield each reply as JSON; an internal error affects only its own case.

    Args:
        work: the cases, as JSON of a `Work`.
        seconds: the CPU time for all of them. If one case uses more than its share, this
            process is killed; if no time is left, the remaining cases get no reply.
    """
    deadline = time.process_time() + seconds
    decoded = msgspec.json.decode(work, type=Work)
    for case in decoded.cases:
        seconds_left = deadline - time.process_time()
        if seconds_left <= 0:
            return
        _limit_cpu_seconds(max(CASE_SHARE * seconds_left, MIN_CASE_SECONDS))
        yield msgspec.json.encode(_judge_case(case, decoded.right))
    _limit_cpu_seconds(0)


def _limit_cpu_seconds(seconds: float) -> None:
    """End this process once its threads have used so much more CPU time; 0: never.

    The operating system ends it, even if Python's interpreter never gets a turn meanwhile.
    """
    if sys.platform != "win32":  # Windows has no such timer; there, only the caller's limit holds
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _judge_case(case: Case, right: frozenset[str]) -> Reply:
    if case.exercise == CONTROL:
        _run_program()
        case = Case("1.1", {}, 0)
    exercise = find(case.exercise)
    try:
        return _judge_evidence(exercise, case, right)
    except Exception as error:
        return Reply(failed_verdict(exercise, Fault.of(error)), time.process_time())


def _run_program() -> None:
    """Compile and run a program on eight devices, which takes what judging most cases takes."""
    rows = jax.NamedSharding(jax.make_mesh((8,), ("x",)), jax.P("x"))
    jax.block_until_ready(jax.jit(jnp.sum)(jax.device_put(np.arange(8), rows)))


def _judge_evidence(exercise: Exercise, case: Case, right: frozenset[str]) -> Reply:
    try:
        captured = evidence.from_json(case.evidence)
    except evidence.MalformedEvidenceError as error:
        verdict = verdict_without_evidence(exercise, MALFORMED, str(error))
        return Reply(verdict, time.process_time())
    fingerprint = fingerprint_answer(exercise, captured)
    if fingerprint in right:
        return Reply(None, time.process_time(), fingerprint)
    verdict = judge(exercise, captured, case.seed, case.fresh)
    return Reply(verdict, time.process_time(), fingerprint)


def main(seconds: float = JUDGE_CPU_SECONDS) -> None:
    """Read cases from standard input, and write replies to standard output."""
    output, work = sys.stdout.buffer, sys.stdin.buffer.read()
    judged = 0
    with redirect_stdout(sys.stderr):  # standard output is for replies only
        devices.emulate_devices(8)
        for reply in judge_cases(work, seconds - time.process_time()):
            output.write(reply + b"\n")
            output.flush()
            judged += 1
    if judged < len(msgspec.json.decode(work, type=Work).cases):
        sys.exit(OUT_OF_TIME_STATUS)
