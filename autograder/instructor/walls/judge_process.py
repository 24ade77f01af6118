"""The judge in a clean process, which has seen no student's code.

`python -P -s -m autograder.instructor.walls` reads a list of cases from standard input and
writes a list of verdicts. It starts without the caller's environment, user packages or folder.
"""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any, Final

import msgspec

from autograder import devices, evidence
from autograder.errors import Fault
from autograder.exercises import Exercise, find
from autograder.instructor.walls.sandbox import Sandbox, environment
from autograder.judge import Verdict, failed, judge, no_evidence

SECONDS: Final = 120
"""How long one submission's evidence may take to judge."""


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


CONTROL: Final = Case("1.1", {}, 0)
"""What any judge can judge: where this fails, it is the machine that is at fault."""


class JudgeFailedError(RuntimeError):
    """The judge's process failed. This is no verdict: the submission is to be graded again."""


def judge_apart(
    cases: Sequence[Case], seconds: float = SECONDS, sandbox: Sandbox | None = None
) -> list[Verdict]:
    """Judge evidence in a process of its own.

    Where that process dies or does not end, each case is judged in one of its own, so that a
    program that kills its judge costs nobody else's points.

    Args:
        cases: what to judge.
        seconds: the time after which a process is given up.
        sandbox: what it runs in.

    Raises:
        JudgeFailedError: the process ended without verdicts, and it was not for what it was given.
    """
    room = sandbox or Sandbox()
    sent = [(case, encode(case)) for case in cases]
    readable = [(case, encoded) for case, encoded in sent if encoded is not None]
    try:
        verdicts = iter(_judged([encoded for _, encoded in readable], seconds, room))
    except JudgeFailedError:
        _judged([msgspec.json.encode(CONTROL)], seconds, room)
        verdicts = iter([_judged_alone(case, encoded, seconds, room) for case, encoded in readable])
    return [
        next(verdicts)
        if encoded is not None
        else no_evidence(
            find(case.exercise), "malformed", "The evidence holds what cannot be written down."
        )
        for case, encoded in sent
    ]


def encode(case: Case) -> bytes | None:
    """A case as JSON, as it is sent and kept; None where it holds what JSON has no way to write."""
    try:
        return msgspec.json.encode(case)
    except (UnicodeError, RecursionError, msgspec.MsgspecError):
        return None


def _judged_alone(case: Case, encoded: bytes, seconds: float, room: Sandbox) -> Verdict:
    """The verdict on one case of several that no judge survived together."""
    try:
        return _judged([encoded], min(seconds, SECONDS), room)[0]
    except JudgeFailedError as error:
        return no_evidence(
            find(case.exercise),
            "kills-the-judge",
            f"Judging it did not come to an end: {str(error).splitlines()[0]} Is there a loop "
            f"that does not end, or an array that is far too large?",
        )


def _judged(cases: Sequence[bytes], seconds: float, room: Sandbox) -> list[Verdict]:
    """The verdicts of one process, on cases as JSON.

    Raises:
        JudgeFailedError: it died, took too long, or did not reply as it should.
    """
    if not cases:
        return []
    variables = {**environment(), **devices.environment()}
    command = [sys.executable, "-P", "-s", "-m", "autograder.instructor.walls"]
    try:
        done = subprocess.run(
            room.command(command, variables),
            input=b"[" + b",".join(cases) + b"]",
            capture_output=True,
            timeout=seconds,
            env=variables,
            check=True,
        )
        return msgspec.json.decode(done.stdout, type=list[Verdict])
    except subprocess.TimeoutExpired:
        raise JudgeFailedError(f"The judge took more than {seconds:.0f} seconds.") from None
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().splitlines()[-8:]
        raise JudgeFailedError(
            f"The judge's process ended with status {error.returncode}: " + "\n".join(last)
        ) from None
    except msgspec.MsgspecError as error:
        raise JudgeFailedError(f"The judge's reply cannot be read: {error}") from None


def replies(cases: bytes) -> bytes:
    """The verdicts on cases, both as JSON. An error of ours is one of them, and costs no other."""
    read = msgspec.json.decode(cases, type=list[Case])
    return b"[" + b",".join(map(_reply, read)) + b"]"


def _reply(case: Case) -> bytes:
    exercise = find(case.exercise)
    try:
        return msgspec.json.encode(_verdict(exercise, case))
    except Exception as error:
        return msgspec.json.encode(failed(exercise, Fault.of(error)))


def _verdict(exercise: Exercise, case: Case) -> Verdict:
    try:
        read = evidence.from_json(case.evidence)
    except evidence.MalformedEvidenceError as error:
        return no_evidence(exercise, "malformed", str(error))
    return judge(exercise, read, case.seed, case.fresh)


def main() -> None:
    """Read cases, write verdicts."""
    with redirect_stdout(sys.stderr):  # nothing but verdicts is to stand there
        devices.emulate_devices(8)
        made = replies(sys.stdin.buffer.read())
    sys.stdout.buffer.write(made)
