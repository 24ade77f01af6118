"""Judge a submission's evidence in a process that never runs a student's Python.

One process judges all evidence of one submission. If it dies, a new process judges the remaining
cases. Its limit is CPU time. If a busy machine keeps a judge waiting for too long,
`JudgeFailedError` is raised, and no answer is marked as wrong.
"""

import re
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from autograder.exercises import find
from autograder.instructor.sandbox.judge_process import (
    CASE_SHARE,
    CONTROL,
    JUDGE_CPU_SECONDS,
    OUT_OF_TIME_STATUS,
    SIGPROF_NUMBER,
    Case,
    Reply,
    encode_case,
)
from autograder.instructor.sandbox.sandbox import Sandbox, read_sandbox_environment
from autograder.instructor.sandbox.shortages import MachineError
from autograder.instructor.sandbox.warm_process import SERVERS, FinishedTask
from autograder.judge import MALFORMED, Verdict, verdict_without_evidence
from shardlings import devices
from shardlings.errors import version_warning

JUDGE_PATIENCE: Final = 5
"""The limit of a judge's time by the clock, in multiples of its limit in CPU time."""

RENDEZVOUS_SECONDS: Final = {"warn_stuck": 3, "terminate": 12}
"""XLA's time limits for a collective that waits for all devices: until it warns, and from then
until it ends the process. The defaults are 20 and 40 seconds. The exercises' collectives take
milliseconds, and less than two seconds on a core that fifteen other processes use."""

DEADLOCK_MESSAGE: Final = re.compile(
    r"Termination timeout for `(?P<kind>[a-z -]+?) RendezvousKey.*"
    r"Expected (?P<all>\d+) threads to join the rendezvous, but only (?P<some>\d+)"
)
"""XLA's message when it ends a process because some devices never reached a collective."""

JUDGE_COMMAND: Final = (sys.executable, "-P", "-s", "-m", "autograder.instructor.sandbox")
"""The command that starts a judge; its argument follows."""

CONTROL_CASE: Final = Case(CONTROL, {}, 0)
"""A case that every working judge can judge; if one cannot, the machine is at fault."""


TIMES_RIGHT: Final = 2
"""The number of judgements, each with other inputs, after which an answer is taken for right."""


class JudgedAnswer(NamedTuple):
    """The last verdict on answers with one fingerprint, and how often they were right.

    Attributes:
        verdict: the last verdict.
        times_right: how often it was right; 0 once it was not, because then it depends on inputs.
    """

    verdict: Verdict
    times_right: int


JUDGED: Final = OrderedDict[str, JudgedAnswer]()
"""The answers that this process's judges have judged, by fingerprint, the last used at the end.

Only full marks are passed on, so nothing that a judge replies can harm another answer.
"""

MAX_JUDGED: Final = 2**12
"""The most answers in `JUDGED`."""


class JudgeFailedError(MachineError):
    """The judge's process failed, so there is no verdict, and the submission must be regraded."""


@dataclass(frozen=True)
class JudgeRun:
    """The outcome of one judge's process.

    Attributes:
        verdicts: the verdicts on its first cases, or on all of them.
        spent: the CPU time that it used, or may have used, in seconds.
        reason: why it ended early, in a sentence; empty if it judged every case.
        is_too_slow: whether it ended early because one case took more than its share of the time.
        is_out_of_time: whether no time was left for the next case.
        deadlock: an explanation, if it ended early because some devices never reached a collective.
        log: the last lines that it wrote before that, for whoever looks after the machine.
    """

    verdicts: list[Verdict]
    spent: float
    reason: str = ""
    is_too_slow: bool = False
    is_out_of_time: bool = False
    deadlock: str = ""
    log: str = ""


def judge_in_sandbox(
    cases: Sequence[Case], seconds: float = JUDGE_CPU_SECONDS, sandbox: Sandbox | None = None
) -> list[Verdict]:
    """Judge one submission's evidence in a separate process.

    A case that kills its judge loses only its own points. It is tried a second time, because the
    machine may have been at fault, unless its time was up or devices never reached a collective.
    Cases for which no time is left get a verdict that says so.

    Args:
        cases: the evidence to judge.
        seconds: the CPU time for all of it.
        sandbox: the sandbox for the judge.

    Raises:
        JudgeFailedError: a process failed, and the evidence was not the reason.
    """
    sandbox, deadline = sandbox or Sandbox(), time.monotonic() + JUDGE_PATIENCE * seconds
    encoded_cases = {number: encode_case(case) for number, case in enumerate(cases)}
    verdicts = {
        n: _explain_unwritable(cases[n]) for n, encoded in encoded_cases.items() if encoded is None
    }
    waiting = [
        (number, encoded) for number, encoded in encoded_cases.items() if encoded is not None
    ]
    suspect, is_machine_fine, seconds_left = -1, False, seconds
    while waiting:
        run = _run_and_read_judge(
            [encoded for _, encoded in waiting], seconds_left, deadline, sandbox
        )
        seconds_left -= run.spent
        for verdict in run.verdicts:
            verdicts[waiting.pop(0)[0]] = verdict
        if run.is_out_of_time:
            verdicts |= {number: _explain_no_time(cases[number], seconds) for number, _ in waiting}
        if run.is_out_of_time or not waiting:
            break
        first = waiting[0][0]
        is_explained = run.is_too_slow or bool(run.deadlock)
        if is_explained or suspect == first:
            # Verdicts show that judges start here. Whether programs run is open until one has, so
            # an unexplained death is not the answer's fault yet.
            if not is_machine_fine and not (is_explained and run.verdicts):
                _check_that_judges_work(seconds, sandbox)
                is_machine_fine = True
            verdicts[first] = _explain_death(cases[first], run)
            waiting.pop(0)
        suspect = first
    return [verdicts[number] for number in range(len(cases))]


def _check_that_judges_work(seconds: float, sandbox: Sandbox) -> None:
    """Judge the control case.

    Raises:
        JudgeFailedError: even that fails, so the machine ends every judge.
    """
    deadline = time.monotonic() + JUDGE_PATIENCE * seconds
    run = _run_and_read_judge([msgspec.json.encode(CONTROL_CASE)], seconds, deadline, sandbox)
    if run.reason or run.is_out_of_time:
        why = run.reason or "No judge can start in the time that it has."
        raise JudgeFailedError(f"{why} Its last lines:\n{run.log}" if run.log else why)


def _explain_unwritable(case: Case) -> Verdict:
    return verdict_without_evidence(
        find(case.exercise), MALFORMED, "The evidence cannot be written as JSON."
    )


def _explain_death(case: Case, run: JudgeRun) -> Verdict:
    if run.deadlock:
        return verdict_without_evidence(find(case.exercise), "deadlock", run.deadlock)
    return verdict_without_evidence(
        find(case.exercise),
        "kills-the-judge",
        f"Judging it did not finish: {run.reason} Is there a loop that does not end, or an array "
        f"that is far too large?",
    )


def _explain_deadlock(error_output: str) -> str:
    """Explain, to the learner, that some devices never reached a collective.

    Args:
        error_output: the error output of a judge's process that has ended.

    Returns:
        The explanation; empty if the process ended for another reason.
    """
    match = DEADLOCK_MESSAGE.search(error_output)
    if match is None:
        return ""
    kind = match["kind"].replace(" ", "-")
    kind = f"{'an' if kind.startswith('a') else 'a'} {kind}"
    return (
        f"The program hangs: only {match['some']} of {match['all']} devices reached {kind}, and "
        f"waited there for the others. Every device has to run the same collectives in the same "
        f"order. Is there a collective in a branch of lax.cond, or in a loop, that depends on the "
        f"device (lax.axis_index) or on the values in its block? Call the collective outside of "
        f"the branch, on all devices, or give the loop the same number of rounds on each of them."
    )


def _judge_environment() -> dict[str, str]:
    """Return the environment variables of a judge's process.

    XLA ends a process that sets a flag which it does not know. So the flags are set for versions of
    JAX that were tested, and no others; there, a collective that hangs takes a minute.
    """
    variables = {**read_sandbox_environment(), **devices.environment()}
    if not version_warning():
        flags = (
            f"--xla_cpu_collective_call_{name}_timeout_seconds={seconds}"
            for name, seconds in RENDEZVOUS_SECONDS.items()
        )
        variables["XLA_FLAGS"] = " ".join([variables["XLA_FLAGS"], *flags])
    return variables


def _explain_no_time(case: Case, seconds: float) -> Verdict:
    return verdict_without_evidence(
        find(case.exercise),
        "no-time-left",
        f"It was not judged: judging this notebook took more than {seconds:.0f} seconds of CPU "
        f"time. Is there a loop that does not end, here or in another answer?",
    )


def _run_and_read_judge(
    cases: Sequence[bytes], seconds: float, deadline: float, sandbox: Sandbox
) -> JudgeRun:
    """Judge cases in one process.

    Args:
        cases: the cases, as JSON.
        seconds: the limit in CPU time.
        deadline: the limit by the clock, as `time.monotonic()`.
        sandbox: the sandbox for the judge.

    Raises:
        JudgeFailedError: its replies are malformed, or it did not get its CPU time by the
            deadline.
    """
    # a calibration shows that judging works, and fills the cache of compiled programs
    known = {} if sandbox.fills_compiled else JUDGED
    right = {f: each.verdict for f, each in known.items() if each.times_right >= TIMES_RIGHT}
    work = b'{"cases":[%b],"right":%b}' % (b",".join(cases), msgspec.json.encode([*right]))
    patience = max(deadline - time.monotonic(), 0)
    try:
        finished = _run_judge(work, seconds, patience, sandbox)
    except subprocess.TimeoutExpired:
        raise JudgeFailedError(
            f"The judge got less than its {seconds:.0f} seconds of CPU time within {patience:.0f} "
            f"seconds. Judge it again, when the machine has less to do."
        ) from None
    replies = _read_replies(finished.stdout)
    verdicts = [_verdict_of(reply, right) for reply in replies]
    spent = replies[-1].spent if replies else 0.0
    if finished.status == OUT_OF_TIME_STATUS:
        return JudgeRun(verdicts, seconds, is_out_of_time=True)
    if not finished.status and len(verdicts) != len(cases):
        raise JudgeFailedError(f"The judge gave {len(verdicts)} verdicts on {len(cases)} cases.")
    if not finished.status:
        return JudgeRun(verdicts, spent)
    spent_before = spent
    spent += CASE_SHARE * max(seconds - spent, 0)  # the most that the case that ended it could use
    if finished.status == -SIGPROF_NUMBER:
        return JudgeRun(
            verdicts, spent, "It took more than its share of the time.", is_too_slow=True
        )
    error_output = finished.stderr.decode(errors="replace").strip()
    deadlock = _explain_deadlock(error_output)
    if deadlock:  # the process slept in the collective, so it used less than the case's share
        spent = min(spent, max(spent_before, finished.cpu_seconds))
    reason = f"The judge's process ended with status {finished.status}."
    log = "\n".join(error_output.splitlines()[-8:])
    return JudgeRun(verdicts, spent, reason, deadlock=deadlock, log=log)


def _verdict_of(reply: Reply, right: Mapping[str, Verdict]) -> Verdict:
    """Return the verdict of a judge's reply, and remember it.

    Args:
        reply: the reply.
        right: the verdicts on right answers that the judge was told of.

    Raises:
        JudgeFailedError: it says that an answer is known to be right, and it is not.
    """
    verdict = reply.verdict or right.get(reply.fingerprint)
    if verdict is None:
        raise JudgeFailedError("The judge gave no verdict on an answer that it takes for known.")
    if reply.fingerprint and verdict.fault is None:
        before = JUDGED.pop(reply.fingerprint, None)
        is_right = verdict.score == 1 and (before is None or before.times_right > 0)
        times = before.times_right + 1 if before else 1
        JUDGED[reply.fingerprint] = JudgedAnswer(verdict, times if is_right else 0)
        if len(JUDGED) > MAX_JUDGED:
            JUDGED.popitem(last=False)
    return verdict


def _run_judge(work: bytes, seconds: float, timeout: float, sandbox: Sandbox) -> FinishedTask:
    """Run one judge's process: a fork of a warm server, or else a new process.

    Raises:
        TimeoutExpired: it did not end within `timeout` seconds by the clock.
    """
    variables = _judge_environment()
    server = sandbox.get_warm_server([*JUDGE_COMMAND, "forks"], variables, cached=True)
    if server is not None:
        try:
            cache = sandbox.find_task_cache()
            return server.run([f"{seconds:.3f}"], work, timeout, cache)
        except OSError:  # the server hung, or was killed, perhaps for memory, so do without it
            SERVERS.forget(server)
    seconds_before = _cpu_seconds_of_children()
    done = subprocess.run(
        sandbox.command([*JUDGE_COMMAND, f"{seconds:.3f}"], variables, cached=True),
        input=work,
        capture_output=True,
        timeout=timeout,
        env=variables,
        check=False,
    )
    seconds_used = _cpu_seconds_of_children() - seconds_before
    status = done.returncode
    # a shell reports a signal as 128 plus its number, subprocess as minus its number
    status = status if status <= 128 else 128 - status
    return FinishedTask(status, done.stdout, done.stderr, seconds_used)


def _cpu_seconds_of_children() -> float:
    """Return the CPU time of all ended children of this process; 0 on Windows.

    Other judges may run at the same time, so a difference of two results is only an upper bound
    on what one of them used.
    """
    if sys.platform == "win32":
        return 0.0
    import resource

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _read_replies(output: bytes) -> list[Reply]:
    """Read the complete lines of a judge's output.

    Raises:
        JudgeFailedError: a line is not a reply.
    """
    lines = output.split(b"\n")[:-1]  # the last part is empty, or half a line
    try:
        return [msgspec.json.decode(line, type=Reply) for line in lines]
    except msgspec.MsgspecError as error:
        raise JudgeFailedError(f"The judge's reply cannot be read: {error}") from None
