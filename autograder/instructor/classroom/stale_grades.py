"""Find stale grades, whose basis changed, and regrade them with as little work as possible.

If only points changed, the kept verdicts are rescored. If exercises or the judge changed, the kept
evidence is judged again. Otherwise the notebook runs again, as after a new submission.
"""

import functools
import os
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from humanize import natural_list
from msgspec.structs import replace
from rich.console import Console

from autograder.exercises import EXERCISES
from autograder.instructor.classroom.roster import EVERYTHING, Choice
from autograder.instructor.classroom.submission_states import Failure
from autograder.instructor.course import Course, cannot_be_taken, reason
from autograder.instructor.nbgrader_plugins import JudgeEvidence, NotGradedError, enter_judged
from autograder.instructor.pipeline import (
    JUDGED,
    Basis,
    Record,
    Records,
    UnreadableRecordError,
    compiled_before,
    encoded_verdicts,
    fingerprint_submission,
    of_grades,
)
from autograder.instructor.sandbox import Case, NoSandboxError, Sandbox, judge_apart
from autograder.judge import Verdict

ALL_PARTS: Final = frozenset(Basis.__struct_fields__)

CHANGED_IN_WORDS: Final = {
    "submission": "what was handed in has changed",
    "cells": "cells of the notebook or files beside it have changed",
    "plans": "what exercises look at has changed",
    "package": "the package has changed",
    "jax": "JAX has changed",
    "exercises": "exercises have changed",
    "judge": "the judge has changed",
    "points": "points have changed",
}


class Bases:
    """What the grades of a course rest on, once its notebooks are released.

    Args:
        course: the course; nothing of it is released again while this is in use.
        unreleased: the assignments of which a new release could not be made. What the grades of
            these rest on is as it was, until one can.
    """

    def __init__(self, course: Course, unreleased: Collection[str] = ()) -> None:
        self.course, self.unreleased = course, unreleased
        self.records = Records(course.records)
        self.of_assignment = functools.cache(functools.partial(of_grades, course.api.coursedir))

    def now(self, student: str, assignment: str) -> Basis:
        """What a grade would rest on that was made now."""
        submission = self._handed_in(student, assignment)
        return msgspec.structs.replace(self.of_assignment(assignment), submission=submission)

    def then(self, student: str, assignment: str) -> Basis | None:
        """What a grade rests on; None where there is no grade, or it is to be made anew."""
        record = self.records.get(student, assignment)
        graded = self.course.autograded / student / assignment / f"{assignment}.ipynb"
        if record is None or record.again or not graded.exists():
            return None
        return record.basis

    def failed_before(self, student: str, assignment: str) -> str:
        """Why just this could not be graded when it was last tried; empty where it was not."""
        record = self.records.get(student, assignment)
        if record is None or record.tried is None:
            return ""
        try:
            return record.why if record.tried == self.now(student, assignment) else ""
        except OSError:
            return ""

    def changed(self, student: str, assignment: str) -> frozenset[str]:
        """The names of what has changed since the grade was made; all, where there is none."""
        then = self.then(student, assignment)
        if then is None:
            return ALL_PARTS
        if assignment in self.unreleased:
            return frozenset() if self.is_graded(student, assignment) else ALL_PARTS
        return frozenset(then.changed(self.now(student, assignment)))

    def is_graded(self, student: str, assignment: str) -> bool:
        """Whether it is what was handed in now that has a grade."""
        then = self.then(student, assignment)
        return then is not None and self.is_of_now(student, assignment, then.submission)

    def was_graded(self, student: str, assignment: str) -> bool:
        """Whether what is handed in now was graded, of the same points, though it is to be anew."""
        record = self.records.get(student, assignment)
        graded = self.course.autograded / student / assignment / f"{assignment}.ipynb"
        if record is None or record.basis is None or not graded.exists():
            return False
        try:
            now = self.now(student, assignment)
        except OSError:
            return False
        return not record.basis.changed(now) & {"submission", "cells", "points"}

    def is_of_now(self, student: str, assignment: str, submission: str) -> bool:
        """Whether what was handed in now is a submission that is known in a few letters."""
        try:
            return submission == self._handed_in(student, assignment)
        except OSError:  # what may not be read now is not what was
            return False

    def asked_otherwise(self, student: str, assignment: str) -> bool:
        """Whether it is known that a grade's evidence is of something else than is asked now."""
        then = self.then(student, assignment)
        return then is not None and then.plans != self.of_assignment(assignment).plans

    def _handed_in(self, student: str, assignment: str) -> str:
        return fingerprint_submission(self.course.submitted / student / assignment)


def is_judging_enough(changed: frozenset[str]) -> bool:
    """Whether it is enough to judge the evidence again."""
    return bool(changed) and changed <= JUDGED


def describe_changes(changed: frozenset[str]) -> str:
    """What has changed, in words."""
    return natural_list([words for name, words in CHANGED_IN_WORDS.items() if name in changed])


MAX_JUDGES: Final = os.cpu_count() or 1
"""How many judges run at once."""


@dataclass(frozen=True)
class GradedSubmission:
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
class JudgedAgain:
    """What became of judging a submission again.

    Attributes:
        graded: which.
        is_new: whether anything of its grade is another.
        why: what went wrong, in a sentence; empty if nothing did.
    """

    graded: GradedSubmission
    is_new: bool
    why: str = ""


def read_evidence(
    course: Course, student: str, assignment: str, is_judged: bool = True
) -> GradedSubmission | None:
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
        return GradedSubmission(student, assignment, record)
    cases = tuple(case for found in record.notebooks.values() for case in found.cases())
    if any(map(_is_of_a_kernels_processes, cases)):
        raise UnreadableRecordError(
            "An earlier version made it, in which a kernel handed in the results of several "
            "processes. The grader runs these itself now: grade the submission again."
        )
    return GradedSubmission(student, assignment, record, cases)


def _is_of_a_kernels_processes(case: Case) -> bool:
    """Whether evidence has results of processes that the kernel started, and not the grader."""
    answers = case.evidence.get("answers") if isinstance(case.evidence, dict) else None
    pieces = answers.values() if isinstance(answers, dict) else ()
    return any(isinstance(piece, dict) and piece.get("type") == "runs" for piece in pieces)


def judge_again(
    course: Course, bases: Bases, graded: Sequence[GradedSubmission], all_pages: bool = False
) -> Iterator[JudgedAgain]:
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
    with closing(judge_in_processes(graded, course.api.config)) as each:
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
                yield JudgedAgain(one, False, f"{what}. {type(error).__name__}: {error}")
                continue
            yield JudgedAgain(one, is_new, _page(course, *pair) if is_new or all_pages else "")


def judge_in_processes(
    graded: Sequence[GradedSubmission], config: Any
) -> Generator[Future[list[Verdict]]]:
    """The verdicts on each submission, or why there are none.

    A process of its own for each: what a submission does to its judge is done to nobody else's.
    """
    seconds = JudgeEvidence(config=config).seconds
    rooms = {
        assignment: Sandbox(config=config, compiled=compiled_before(config, assignment))
        for assignment in {one.assignment for one in graded}
    }
    pool = ThreadPoolExecutor(MAX_JUDGES)
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


ONLY_POINTS: Final = frozenset({"points"})
"""If nothing else changed, the kept verdicts are rescored."""


@dataclass(frozen=True)
class StaleGrade:
    """A grade that is to be made anew.

    Attributes:
        changed: the names of what has changed of what it rests on.
        evidence: what to judge, where that is enough; None where it is run again. Where only
            points have changed, it has no cases, and nothing is judged.
    """

    student: str
    assignment: str
    changed: frozenset[str]
    evidence: GradedSubmission | None


def find_stale_grades(
    course: Course, bases: Bases, choice: Choice = EVERYTHING
) -> Iterator[StaleGrade]:
    """Those of submissions that have stayed the same."""
    for student, assignment in choice.of(course.submissions()):
        if cannot_be_taken(course.submitted / student / assignment, assignment):
            continue
        changed = bases.changed(student, assignment)
        if changed and "submission" not in changed:
            evidence = None
            if is_judging_enough(changed):
                with suppress(UnreadableRecordError):
                    evidence = read_evidence(course, student, assignment, changed != ONLY_POINTS)
            yield StaleGrade(student, assignment, changed, evidence)


def print_reasons(console: Console, stale: Sequence[StaleGrade]) -> None:
    """Say what becomes of grades that somebody may have seen already, and why."""
    alike: dict[tuple[str, bool, frozenset[str]], int] = {}
    for one in stale:
        key = one.assignment, bool(one.evidence), one.changed
        alike[key] = alike.get(key, 0) + 1
    for (assignment, is_judged, changed), count in alike.items():
        again = "judged again from the evidence that was kept" if is_judged else "run again"
        if changed == ONLY_POINTS:
            again = "given the new points, by the verdicts that were kept"
        console.print(
            f"Since {assignment} was graded, {describe_changes(changed)}. "
            f"{count} of its submissions {'is' if count == 1 else 'are'} {again}.",
            highlight=False,
        )


def judge_stale_grades(
    course: Course, bases: Bases, stale: Sequence[StaleGrade], refusal: Callable[[str], str]
) -> Iterator[Failure]:
    """Judge those again for which it is enough; whatever could not be.

    Args:
        course: where.
        bases: what its grades rest on.
        stale: the grades.
        refusal: why nothing of an assignment is to be graded here; empty where all is well.
    """
    judged = [one for one in stale if one.evidence]
    refused = {one.assignment: refusal(one.assignment) for one in judged}
    for one in judged:
        if refused[one.assignment]:
            yield Failure(one.student, one.assignment, refused[one.assignment], theirs=False)
    graded = [one.evidence for one in judged if one.evidence and not refused[one.assignment]]
    for again in judge_again(course, bases, graded, all_pages=True):
        if again.why:
            yield Failure(again.graded.student, again.graded.assignment, again.why, theirs=False)
