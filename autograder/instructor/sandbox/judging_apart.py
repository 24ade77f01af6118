"""Judge a submission's evidence in a process that has seen no student's code.

One process judges one submission's evidence. If it dies, a new one continues with the next case.
Its limit is processor time. If the machine made a judge wait very long, that is the machine's
failure, and never a wrong answer.
"""

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from autograder import devices
from autograder.errors import remark_on_version
from autograder.exercises import find
from autograder.instructor.sandbox.judge_process import (
    ALARM,
    CASE_SHARE,
    JUDGE_CPU_SECONDS,
    OUT_OF_TIME_STATUS,
    Case,
    Reply,
    encode,
)
from autograder.instructor.sandbox.sandbox import Sandbox, sandbox_environment
from autograder.instructor.sandbox.warm_process import SERVERS, Finished
from autograder.judge import Verdict, no_evidence

JUDGE_PATIENCE: Final = 5
"""How many times its processor time a judge may take by the clock."""

RENDEZVOUS_SECONDS: Final = {"warn_stuck": 3, "terminate": 12}
"""How long XLA's collectives wait until all devices have come: until it warns, and from then on
until it ends the process. By default these are 20 and 40 seconds. The collectives of the exercises
take milliseconds, and less than two seconds on a core that fifteen others are at work on."""

NEVER_MET: Final = re.compile(
    r"Termination timeout for `(?P<kind>[a-z -]+?) RendezvousKey.*"
    r"Expected (?P<all>\d+) threads to join the rendezvous, but only (?P<some>\d+)"
)
"""What XLA writes when it ends a process in which a collective waited for devices in vain."""

JUDGE: Final = (sys.executable, "-P", "-s", "-m", "autograder.instructor.sandbox")
"""The command that judges, without what it is to do."""

CONTROL_CASE: Final = Case("1.1", {}, 0)
"""Any judge can judge it; if that fails, the machine is at fault."""


class JudgeFailedError(RuntimeError):
    """The judge's process failed. This is no verdict: the submission is to be graded again."""


@dataclass(frozen=True)
class Judged:
    """What a judge's process has left.

    Attributes:
        verdicts: those on its first cases, or on all of them.
        spent: how much processor time it took, or may have taken.
        ended: what ended it before it was done, in a sentence; empty where it was done.
        too_slow: whether that was the time that one case may take.
        over: whether there was no time for the next case.
        never_met: if it was a collective that not all devices reached, what is said of it.
    """

    verdicts: list[Verdict]
    spent: float
    ended: str = ""
    too_slow: bool = False
    over: bool = False
    never_met: str = ""


def judge_apart(
    cases: Sequence[Case], seconds: float = JUDGE_CPU_SECONDS, sandbox: Sandbox | None = None
) -> list[Verdict]:
    """Judge one submission's evidence in a process of its own.

    A case that ends its judge costs its own points. It is tried a second time, for it may have been
    the machine, unless its time was up or a collective waited for devices that never came. What
    there is no time left for is not judged.

    Args:
        cases: what to judge.
        seconds: how much processor time all of it may take.
        sandbox: what it runs in.

    Raises:
        JudgeFailedError: a process ended without verdicts, and it was not for what it was given.
    """
    room, until = sandbox or Sandbox(), time.monotonic() + JUDGE_PATIENCE * seconds
    sent = {number: encode(case) for number, case in enumerate(cases)}
    made = {n: _unwritable(cases[n]) for n, encoded in sent.items() if encoded is None}
    waiting = [(number, encoded) for number, encoded in sent.items() if encoded is not None]
    suspect, any_judged, left = -1, False, seconds
    while waiting:
        judged = _judged([encoded for _, encoded in waiting], left, until, room)
        left -= judged.spent
        for verdict in judged.verdicts:
            made[waiting.pop(0)[0]] = verdict
        if judged.over:
            made |= {number: _no_time(cases[number], seconds) for number, _ in waiting}
        if judged.over or not waiting:
            break
        if not any_judged and not judged.verdicts:
            _see_that_a_judge_can_be_had(seconds, room)
        any_judged, first = True, waiting[0][0]
        if judged.too_slow or judged.never_met or suspect == first:
            made[first] = _deadly(cases[first], judged)
            waiting.pop(0)
        suspect = first
    return [made[number] for number in range(len(cases))]


def _see_that_a_judge_can_be_had(seconds: float, room: Sandbox) -> None:
    """See that it is not the machine that ends every judge.

    Raises:
        JudgeFailedError: it is.
    """
    until = time.monotonic() + JUDGE_PATIENCE * seconds
    judged = _judged([msgspec.json.encode(CONTROL_CASE)], seconds, until, room)
    if judged.ended or judged.over:
        raise JudgeFailedError(judged.ended or "No judge can start in the time that it has.")


def _unwritable(case: Case) -> Verdict:
    return no_evidence(
        find(case.exercise), "malformed", "The evidence holds what cannot be written down."
    )


def _deadly(case: Case, judged: Judged) -> Verdict:
    if judged.never_met:
        return no_evidence(find(case.exercise), "deadlock", judged.never_met)
    return no_evidence(
        find(case.exercise),
        "kills-the-judge",
        f"Judging it did not come to an end: {judged.ended.splitlines()[0]} Is there a loop that "
        f"does not end, or an array that is far too large?",
    )


def _never_met(error_output: str) -> str:
    """What is said of a collective that some devices reached and others did not.

    Args:
        error_output: what the judge's process wrote before it ended.

    Returns:
        Nothing, where it did not end of that.
    """
    found = NEVER_MET.search(error_output)
    if found is None:
        return ""
    kind = found["kind"].replace(" ", "-")
    kind = f"{'an' if kind.startswith('a') else 'a'} {kind}"
    return (
        f"The program hangs: only {found['some']} of {found['all']} devices reached {kind}, and "
        f"waited there for the others. Every device has to run the same collectives in the same "
        f"order. Is there a collective in a branch of lax.cond, or in a loop, that depends on the "
        f"device (lax.axis_index) or on the values in its block? Call the collective outside of "
        f"the branch, on all devices, or give the loop the same number of rounds on each of them."
    )


def _variables() -> dict[str, str]:
    """The environment variables of a judge's process.

    XLA ends a process that sets a flag which it does not know. So the flags are set for versions of
    JAX that were tested, and no others; there, a collective that hangs takes a minute.
    """
    variables = {**sandbox_environment(), **devices.environment()}
    if not remark_on_version():
        flags = (
            f"--xla_cpu_collective_call_{name}_timeout_seconds={seconds}"
            for name, seconds in RENDEZVOUS_SECONDS.items()
        )
        variables["XLA_FLAGS"] = " ".join([variables["XLA_FLAGS"], *flags])
    return variables


def _no_time(case: Case, seconds: float) -> Verdict:
    return no_evidence(
        find(case.exercise),
        "no-time-left",
        f"It was not judged, because the {seconds:.0f} seconds of processor time were over in "
        f"which all of a notebook is judged. Is there a loop that does not end, here or in another "
        f"answer?",
    )


def _judged(cases: Sequence[bytes], seconds: float, until: float, room: Sandbox) -> Judged:
    """What one process makes of cases, given as JSON, within some processor time.

    Raises:
        JudgeFailedError: it did not reply as it should, or has not got its time by the clock.
    """
    try:
        done = _run_judge(cases, seconds, max(until - time.monotonic(), 0), room)
    except subprocess.TimeoutExpired:
        raise JudgeFailedError(
            f"The judge did not get its {seconds:.0f} seconds of processor time in "
            f"{JUDGE_PATIENCE} "
            f"times as long. Judge it again, when the machine has less to do."
        ) from None
    replies = _replies(done.stdout)
    verdicts, spent = [reply.verdict for reply in replies], replies[-1].spent if replies else 0.0
    if done.status == OUT_OF_TIME_STATUS:
        return Judged(verdicts, seconds, over=True)
    if not done.status and len(verdicts) != len(cases):
        raise JudgeFailedError(f"The judge gave {len(verdicts)} verdicts on {len(cases)} cases.")
    if not done.status:
        return Judged(verdicts, spent)
    before_it = spent
    spent += CASE_SHARE * max(seconds - spent, 0)  # what the case could take that ended it
    if done.status == -ALARM:
        return Judged(verdicts, spent, "It took more than its share of the time.", too_slow=True)
    written = done.stderr.decode(errors="replace").strip()
    never_met = _never_met(written)
    if never_met:  # it slept: what it had of its time is left to the others
        spent = min(spent, max(before_it, done.cpu_seconds))
    why = f"The judge's process ended with status {done.status}: "
    ended = why + "\n".join(written.splitlines()[-8:])
    return Judged(verdicts, spent, ended, never_met=never_met)


def _run_judge(cases: Sequence[bytes], seconds: float, timeout: float, room: Sandbox) -> Finished:
    """Have one process judge cases: a fork of one that is warm, or else a new one.

    Raises:
        TimeoutExpired: it did not end in time, by the clock.
    """
    variables, came = _variables(), b"[" + b",".join(cases) + b"]"
    server = room.warm([*JUDGE, "forks"], variables, reader="judges")
    if server is not None:
        try:
            return server.run([f"{seconds:.3f}"], came, timeout)
        except OSError:  # it was killed, perhaps for memory: this time without it
            SERVERS.forget(server)
    had = _cpu_seconds_of_children()
    done = subprocess.run(
        room.command([*JUDGE, f"{seconds:.3f}"], variables, reader="judges"),
        input=came,
        capture_output=True,
        timeout=timeout,
        env=variables,
        check=False,
    )
    used = _cpu_seconds_of_children() - had
    status = done.returncode
    status = status if status <= 128 else 128 - status  # a shell says it the other way
    return Finished(status, done.stdout, done.stderr, used)


def _cpu_seconds_of_children() -> float:
    """The processor time of all processes that were started here and have ended, if known.

    Others may be judged at the same time, so the difference of two is the most that one has taken.
    """
    if sys.platform == "win32":
        return 0.0
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _replies(written: bytes) -> list[Reply]:
    """What a judge wrote down to the end of a line.

    Raises:
        JudgeFailedError: what it wrote are no replies.
    """
    lines = written.split(b"\n")[:-1]  # after the last line's end there is nothing, or half a line
    try:
        return [msgspec.json.decode(line, type=Reply) for line in lines]
    except msgspec.MsgspecError as error:
        raise JudgeFailedError(f"The judge's reply cannot be read: {error}") from None
