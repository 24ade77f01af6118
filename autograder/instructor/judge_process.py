"""The judge in a clean process, which has seen no student's code.

`python -I -m autograder.instructor.judge_process` reads a list of cases from standard input and
writes a list of verdicts. It starts without the caller's environment, user packages or folder.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from autograder import devices, evidence
from autograder.exercises import find
from autograder.judge import judge, no_evidence
from autograder.verdict import Verdict

SECONDS: Final = 120
"""How long one submission's evidence may take to judge."""


class Case(msgspec.Struct, frozen=True):
    """What is to be judged: evidence as it came, and the seed that its kernel was given."""

    exercise: str
    evidence: Any
    seed: int


class JudgeFailedError(RuntimeError):
    """The judge's process failed. This is no verdict: the submission is to be graded again."""


def judge_apart(cases: Sequence[Case], seconds: float = SECONDS) -> list[Verdict]:
    """Judge evidence in a process of its own.

    Args:
        cases: what to judge.
        seconds: the time after which the process is given up.

    Raises:
        JudgeFailedError: the process ended without verdicts.
    """
    if not cases:
        return []
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-m", "autograder.instructor.judge_process"],
            input=msgspec.json.encode(cases),
            capture_output=True,
            timeout=seconds,
            env={**kept, **devices.environment()},
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


def _verdict(case: Case) -> Verdict:
    exercise = find(case.exercise)
    try:
        read = evidence.from_json(case.evidence)
    except evidence.MalformedEvidenceError as error:
        return no_evidence(exercise, "malformed", str(error))
    try:
        return judge(exercise, read, case.seed)
    except Exception as error:  # forged evidence must not take the others' verdicts with it
        return no_evidence(
            exercise, "strange", f"The judge cannot make sense of it: {type(error).__name__}."
        )


def main() -> None:
    """Read cases, write verdicts."""
    cases = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Case])
    devices.emulate_devices(8)
    sys.stdout.buffer.write(msgspec.json.encode([_verdict(case) for case in cases]))


if __name__ == "__main__":
    main()
