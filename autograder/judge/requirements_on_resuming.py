"""Require that training continues after a kill as if nothing had happened.

Each interrupted call is followed by one in the same folder. The first is given only the batches
before the kill, and the second only those after it, so nobody can compute the losses after the kill
without what the first one saved. In some cases the batches are larger than all that may be saved,
so it has to be the state, and the steps before the kill cannot be made again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
from humanize import ordinal

from autograder.evidence import ProcessesPlan, ProcessResult, Run, Runs, Value
from autograder.judge.diagnoses import MALFORMED, NOT_COUNTED, NOT_FINITE, WRONG_VALUES
from autograder.judge.exercise import Exercise, Mistake, Requirement, ways_of
from autograder.judge.requirements_on_processes import (
    MalformedRunsError,
    check_parts,
    whole_array,
)
from autograder.judge.verdict import Finding
from autograder.processes import ProcessCase

TOLERANCE: Final = 5e-6
"""Relative to the largest loss. Computing in float32, in any order of summation, changes losses by
less than 1e-6, and saving the state as float16 by more than 1e-5.
"""

Continued = Callable[[ProcessCase, int], np.ndarray]
"""Returns the losses after a kill; its second argument is the number of steps in the checkpoint."""


@dataclass(frozen=True)
class Resumes(Requirement):
    """A function that trains continues after a kill, and returns the losses as without the kill.

    For example, `Resumes("train", "the losses go on …", cases, losses, {"begins-anew": …})`.

    Attributes:
        answer: the name of the answer in the notebook.
        asks: what must hold, in words.
        cases: samples the calls from a generator; all requirements on an answer have the same ones.
        losses: computes the losses of all steps in a case, without a kill.
        mistakes: for each diagnosis, the losses of a function with that mistake.
        max_saved_bytes: the most bytes of all files at a kill.
    """

    about: ClassVar[str] = "resuming"
    evidence: ClassVar = (Runs,)
    torn: ClassVar[bool] = False

    answer: str
    asks: str
    cases: Callable[[np.random.Generator], Sequence[ProcessCase]]
    losses: Callable[[ProcessCase], np.ndarray]
    mistakes: Mapping[str, Continued | Mistake] = field(default_factory=dict)
    max_saved_bytes: float = math.inf

    def plan_capture(self, generator: np.random.Generator) -> ProcessesPlan:
        """Plan to call the function in each case, and once more after each kill."""
        return ProcessesPlan(tuple(self.cases(generator)))

    def judge(self, piece: Runs, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the losses of the cases sampled from `seed` with those of training unharmed."""
        cases = list(self.cases(exercise.generator(seed)))
        not_yet = finding.problem(
            NOT_COUNTED, "This counts once training continues after a kill between steps."
        )
        for case, run in zip(cases, piece.runs, strict=False):
            if case.interruption is None or run.saved_bytes <= self.max_saved_bytes:
                continue
            if self.torn:
                return not_yet
            return finding.problem(
                "checkpoint-too-large",
                f"{describe_story(case)} The files in the folder had {run.saved_bytes:,} bytes "
                f"then; expected at most {self.max_saved_bytes:,}.",
            )
        judged = 0
        for case, run in zip(cases, piece.runs, strict=False):
            try:
                case_finding = self._judge_case(case, run, finding)
            except MalformedRunsError as error:
                return finding.problem(
                    MALFORMED, f"The submission does not fit this case: {error}."
                )
            if not case_finding.met and is_torn(case) == self.torn:
                return case_finding
            if not case_finding.met:
                break
            judged += 1
        if judged < sum(is_torn(case) <= self.torn for case in cases):
            if self.torn:
                return not_yet
            return finding.problem(MALFORMED, "The submission does not have a run for each case.")
        return finding.but(met=True, got="the losses go on as without the kill")

    def _judge_case(self, case: ProcessCase, run: Run, finding: Finding) -> Finding:
        """Judge one call, and the call after its kill."""
        if case.interruption is not None:
            _check_count(case, run.interrupted)
            killed = case.interruption.process
            if killed is None:
                for number, result in enumerate(run.interrupted):
                    if result.why not in ("", "stopped"):
                        sentence = f"In process {number}: {result.sentence}"
                        return finding.problem(result.why, sentence)
            elif run.interrupted[killed].why != "died":
                return _explain_survival(case, run.interrupted, finding)
        _check_count(case.call_after_kill(), run.results)
        story = describe_story(case)
        failed = [(i, result) for i, result in enumerate(run.results) if result.why]
        if failed:
            number, result = next(((i, r) for i, r in failed if r.why != "stopped"), failed[0])
            colon = f"{story} " if story else ""
            sentence = f"{colon}In process {number}: {result.sentence}"
            return finding.problem(*_explain_failure(case, run, result.why, number, sentence))
        arrays = [_read_losses(case, i, result, finding) for i, result in enumerate(run.results)]
        for array in arrays:
            if isinstance(array, Finding):
                return array
        losses = [array for array in arrays if isinstance(array, np.ndarray)]
        for number, own in enumerate(losses):
            if not np.isfinite(own).all():
                place = int(np.argmin(np.isfinite(own)))
                where = f"loss {place + 1} of {len(own)}"
                return finding.problem(
                    NOT_FINITE, f"{story} In process {number}, {where} is {own[place]}.".strip()
                )
        for number, other in enumerate(losses[1:], 1):
            if not is_close(other, losses[0]):
                return finding.problem(
                    "differs-between-processes",
                    f"{story} Process 0 and process {number} returned different losses.".strip(),
                )
        wrong = self._compare(case, losses[0])
        if wrong is None:
            return finding.but(met=True)
        diagnosis, sentence = wrong
        if is_torn(case) and diagnosis not in self.mistakes:
            diagnosis = "torn-checkpoint"
        return finding.problem(diagnosis, f"{story} {sentence}".strip())

    def _compare(self, case: ProcessCase, losses: np.ndarray) -> tuple[str, str] | None:
        """Return a diagnosis and a sentence if losses are wrong; None if they are right."""
        right = self.losses(case)
        firsts = _possible_first_steps(case)
        if any(is_close(losses, right[first:]) for first in firsts):
            return None
        if not is_killed(case) and firsts[0] and is_close(losses, right[firsts[0] - 1 :]):
            return "last-step-again", f"The second call made step {firsts[0] - 1} again."
        ways = [(name, way) for name, each in self.mistakes.items() for way in ways_of(each)]
        for name, way in ways:
            if any(is_close(losses, way(case, first)) for first in firsts):
                return name, _describe_losses(case, losses, right)
        if len(losses) not in [len(right) - first for first in firsts]:
            counts = " or ".join(f"{len(right) - first}" for first in reversed(firsts))
            return "other-number-of-losses", (
                f"This call returned {len(losses)} losses; expected {counts}, one for each step "
                f"that it makes."
            )
        return WRONG_VALUES, _describe_losses(case, losses, right)


@dataclass(frozen=True)
class ResumesAfterTornWrites(Resumes):
    """The same if a process is killed while it writes a checkpoint.

    For example, `ResumesAfterTornWrites("train", "the losses go on …", cases, losses)`.
    """

    about: ClassVar[str] = "resuming after a torn write"
    torn: ClassVar[bool] = True


def is_torn(case: ProcessCase) -> bool:
    """Check whether a case has a kill during a write."""
    return case.interruption is not None and case.interruption.change > 0


def is_killed(case: ProcessCase) -> bool:
    """Check whether a case has a kill; without one, the first call may have returned."""
    return case.interruption is not None and case.interruption.process is not None


def is_close(losses: np.ndarray, others: np.ndarray) -> bool:
    """Check whether losses are equal, up to rounding."""
    if losses.shape != others.shape:
        return False
    scale = float(np.abs(others).max(initial=0))
    return bool(np.allclose(losses, others, rtol=0, atol=TOLERANCE * scale))


def describe_story(case: ProcessCase) -> str:
    """Tell who was killed, when, and who continued; empty if nobody was killed."""
    kill = case.interruption
    if kill is None:
        return ""
    if kill.process is None:
        return f"The first call made {kill.step} steps, and the second was asked for more."
    who = f"Process {kill.process} of {case.processes}" if case.processes > 1 else "The process"
    when = f"when it read batch {kill.step}"
    if kill.change:
        when = (
            f"when it changed the folder for the {ordinal(kill.change)} time after it read batch "
            f"{kill.step - 1}, or else when it read batch {kill.step}"
        )
    more = f"{kill.resumed_by} processes" if kill.resumed_by > 1 else "one process"
    return f"{who} was killed {when}, and {more} continued."


def _possible_first_steps(case: ProcessCase) -> list[int]:
    """Return the steps with which a call may begin: after a kill, one step may be made again."""
    if case.interruption is None:
        return [0]
    if case.interruption.process is None:
        return [case.interruption.step]
    return [case.interruption.step - 1, case.interruption.step]


def _describe_losses(case: ProcessCase, losses: np.ndarray, right: np.ndarray) -> str:
    """Compare two losses of one step in words: those that differ most, of the steps in both."""
    common = min(len(losses), len(right))
    otherwise = "without the kill" if is_killed(case) else "in one call"
    if not common:
        step = len(right) - 1
        return f"The loss of step {step} is missing; {otherwise}, it is {right[-1]:.8g}."
    back = common - int(np.argmax(np.abs(losses[-common:] - right[-common:])))
    step = len(right) - back
    return f"The loss of step {step} is {losses[-back]:.8g}; {otherwise}, it is {right[-back]:.8g}."


def _explain_failure(
    case: ProcessCase, run: Run, why: str, number: int, sentence: str
) -> tuple[str, str]:
    """Return a diagnosis and a sentence about a call in which a process failed.

    Args:
        case: the call.
        run: its evidence.
        why: the process's own diagnosis.
        number: the process's number.
        sentence: what the process says.
    """
    if is_torn(case):
        return "torn-checkpoint", sentence
    if case.interruption is not None and not run.saved_bytes:
        end = "at the kill" if is_killed(case) else "at its end"
        return "nothing-saved", f"{sentence} No file in the folder had any content {end}."
    if case.interruption is not None and number >= case.processes:
        return "new-processes", (
            f"{sentence} There was no process {number} before: "
            f"{case.interruption.resumed_by} processes read what {case.processes} wrote."
        )
    return why, sentence


def _check_count(case: ProcessCase, results: Sequence[ProcessResult]) -> None:
    if len(results) != case.processes:
        raise MalformedRunsError("it has another number of processes")


def _explain_survival(
    case: ProcessCase, results: Sequence[ProcessResult], finding: Finding
) -> Finding:
    """Explain why the process was not killed that had to be."""
    assert case.interruption is not None
    failed = [(i, r) for i, r in enumerate(results) if r.why and r.why != "stopped"]
    if failed:
        number, result = failed[0]
        return finding.problem(result.why, f"In process {number}: {result.sentence}")
    step, process = case.interruption.step, case.interruption.process
    return finding.problem(
        "stops-early",
        f"Process {process} was to be killed when it read batch {step}, and it returned without "
        f"reading it; there are {case.given[-1].number} steps.",
    )


def _read_losses(
    case: ProcessCase, number: int, result: ProcessResult, finding: Finding
) -> np.ndarray | Finding:
    """Return the losses that a process returned, or say what it returned instead."""
    story = describe_story(case)
    if len(result.parts) != 1:
        array: np.ndarray | str = f"{len(result.parts)} results"
    elif result.parts == (Value(None),):
        return finding.problem("none", f"{story} Process {number} returned None.".strip())
    else:
        check_parts(case.call_after_kill(), result.parts)
        array = whole_array(result.parts[0])
    if isinstance(array, str) or array.ndim != 1 or array.dtype.kind not in "iuf":
        was = array if isinstance(array, str) else f"an array of shape {array.shape}"
        return finding.problem(
            "not-a-list",
            f"{story} Process {number} returned {was}; expected a list of numbers, such as "
            f"[float(value), …].".strip(),
        )
    return array.astype(np.float64)
