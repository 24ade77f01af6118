"""Graded submissions, judged again from the evidence that was kept: nobody's code is run again."""

import os
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from autograder.exercises import EXERCISES
from autograder.instructor.classroom.what_changed import Bases
from autograder.instructor.course import Course, reason
from autograder.instructor.nbgrader_plugins import JudgeEvidence, NotGradedError, enter_judged
from autograder.instructor.pipeline import (
    Record,
    Records,
    UnreadableRecordError,
    compiled_before,
    encoded_verdicts,
)
from autograder.instructor.walls import Case, NoSandboxError, Sandbox, judge_apart
from autograder.judge import Verdict

CORES: Final = os.cpu_count() or 1
"""How many judges are at work, each on one submission."""


@dataclass(frozen=True)
class Graded:
    """A graded submission, and what it handed in.

    Attributes:
        student: whose.
        assignment: which.
        record: what is kept of it.
        cases: the evidence of all its notebooks; nothing, where it is not to be judged.
    """

    student: str
    assignment: str
    record: Record
    cases: tuple[Case, ...] = ()


@dataclass(frozen=True)
class Again:
    """What became of judging a submission again.

    Attributes:
        graded: which.
        is_new: whether anything of its grade is another.
        why: what went wrong, in a sentence; empty if nothing did.
    """

    graded: Graded
    is_new: bool
    why: str = ""


def evidence_of(
    course: Course, student: str, assignment: str, is_judged: bool = True
) -> Graded | None:
    """What was kept of a graded submission: all is judged again, or nothing.

    Args:
        course: where.
        student: who handed it in.
        assignment: what they handed in.
        is_judged: whether it is to be judged, and not only given other points.

    Returns:
        Nothing, where no grade is kept.

    Raises:
        UnreadableRecordError: it cannot be read.
    """
    record = Records(course.records).read(student, assignment)
    if record is None or not record.notebooks:
        return None
    for name in record.notebooks:
        if not (course.autograded / student / assignment / f"{name}.ipynb").exists():
            raise UnreadableRecordError(f"there is no graded {name}.ipynb.")
    if not is_judged:
        return Graded(student, assignment, record)
    cases = tuple(case for found in record.notebooks.values() for case in found.cases())
    if any(map(_is_of_a_kernels_processes, cases)):
        raise UnreadableRecordError(
            "An earlier version made it, in which a kernel handed in the results of several "
            "processes. The grader runs these itself now: grade the submission again."
        )
    return Graded(student, assignment, record, cases)


def _is_of_a_kernels_processes(case: Case) -> bool:
    """Whether evidence has results of processes that the kernel started, and not the grader."""
    answers = case.evidence.get("answers") if isinstance(case.evidence, dict) else None
    pieces = answers.values() if isinstance(answers, dict) else ()
    return any(isinstance(piece, dict) and piece.get("type") == "runs" for piece in pieces)


def judge_again(
    course: Course, bases: Bases, graded: Sequence[Graded], all_pages: bool = False
) -> Iterator[Again]:
    """Judge each submission's evidence, and enter verdicts where they, or points, are others.

    Exercises that handed in no evidence keep what they have. The inputs are the same as before, so
    where neither exercises nor judge nor points have changed, no score does. Where an error of ours
    keeps a submission from being judged, it keeps its grade and its page.

    Args:
        course: where.
        bases: what its grades rest on.
        graded: what to judge.
        all_pages: make pages of what has stayed the same, too: what was judged again may have been
            killed before it came to that.

    Raises:
        NoSandboxError: nothing is to be judged here.
    """
    with closing(judged(graded, course.api.config)) as each:
        for one, verdicts in zip(graded, each, strict=True):
            pair = one.student, one.assignment
            try:
                now = bases.of_assignment(one.assignment)
                record = _with_verdicts(one.record, _without_faults(verdicts.result()))
                if record.basis is not None:
                    record = replace(record, basis=record.basis.but_judged_by(now))
                is_new = enter_judged(course, *pair, record, now.points)
            except NoSandboxError:
                raise
            except Exception as error:  # one submission's failure is its own
                is_begun = bases.records.is_marked(*pair)
                what = "it is to be graded anew" if is_begun else "the old grade stays"
                yield Again(one, False, f"{what}. {type(error).__name__}: {error}")
                continue
            yield Again(one, is_new, _page(course, *pair) if is_new or all_pages else "")


def judged(graded: Sequence[Graded], config: Any) -> Generator[Future[list[Verdict]]]:
    """The verdicts on each submission, or why there are none.

    A process of its own for each: what a submission does to its judge is done to nobody else's.
    """
    seconds = JudgeEvidence(config=config).seconds
    rooms = {
        assignment: Sandbox(config=config, compiled=compiled_before(config, assignment))
        for assignment in {one.assignment for one in graded}
    }
    pool = ThreadPoolExecutor(CORES)
    try:
        yield from [
            pool.submit(_verdicts, one.cases, seconds, rooms[one.assignment]) for one in graded
        ]
    finally:  # whoever stops it is not kept waiting for the rest
        pool.shutdown(wait=False, cancel_futures=True)


def _verdicts(cases: Sequence[Case], seconds: float, room: Sandbox) -> list[Verdict]:
    known = [case for case in cases if case.exercise in EXERCISES]
    return judge_apart(known, seconds, room) if known else []


def _without_faults(verdicts: list[Verdict]) -> list[Verdict]:
    """The same verdicts.

    Raises:
        NotGradedError: one of them is that judging failed.
    """
    for verdict in verdicts:
        if verdict.fault is not None:
            raise NotGradedError(verdict.exercise, verdict.fault)
    return verdicts


def _with_verdicts(record: Record, verdicts: Sequence[Verdict]) -> Record:
    """A record with other verdicts, each in the notebook that handed in its evidence."""
    new = {verdict.exercise: verdict for verdict in verdicts}
    notebooks = {}
    for name, found in record.notebooks.items():
        kept = found.verdicts_by_exercise()
        judged = {case.exercise for case in found.cases()} & new.keys()
        kept |= {exercise: new[exercise] for exercise in judged}
        notebooks[name] = replace(found, verdicts=encoded_verdicts(kept))
    return replace(record, notebooks=notebooks)


def _page(course: Course, student: str, assignment: str) -> str:
    """Make a feedback page; what went wrong, if anything did."""
    done = course.api.generate_feedback(assignment, student, force=True)
    return "" if done["success"] else f"no feedback page. {reason(done)}"
