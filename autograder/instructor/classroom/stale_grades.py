"""Find stale grades, whose basis has changed, and regrade them with as little work as possible.

If only points changed, the kept verdicts are rescored. If exercises or the judge changed, the kept
evidence is judged again. Otherwise the notebook runs again, as after a new submission.
"""

import copy
import dataclasses
import functools
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from humanize import natural_list
from msgspec.structs import replace
from rich.console import Console

from autograder.exercises import EXERCISES
from autograder.instructor.classroom.choice import EVERYTHING, Choice
from autograder.instructor.classroom.submission_states import Failure, StateRow
from autograder.instructor.classroom.workers import Pool
from autograder.instructor.course import (
    Course,
    GradebookError,
)
from autograder.instructor.nbgrader_plugins import JudgeEvidence, NotGradedError, enter_regraded
from autograder.instructor.pipeline import (
    REJUDGEABLE,
    Basis,
    Record,
    Records,
    UnreadableRecordError,
    current_basis,
    encoded_verdicts,
    find_compiled,
    fingerprint_submission,
)
from autograder.instructor.sandbox import Case, NoSandboxError, Sandbox, judge_in_sandbox
from autograder.judge import Verdict

ALL_PARTS: Final = frozenset(Basis.__struct_fields__)

CHANGED_IN_WORDS: Final = {
    "submission": "the submission has changed",
    "cells": "cells of the notebook or files beside it have changed",
    "plans": "what exercises capture has changed",
    "package": "the package has changed",
    "jax": "JAX has changed",
    "exercises": "exercises have changed",
    "judge": "the judge has changed",
    "points": "points have changed",
}


class Bases:
    """The bases of a course's grades, as recorded and as they would be now.

    What was handed in is read once, and compared with the records, until `read_again`.

    Args:
        course: the course. Its notebooks have been released, and are not released again while
            this is in use.
        unreleased: assignments whose current notebooks could not be released. Their grades do not
            become stale until they can.
    """

    def __init__(self, course: Course, unreleased: Collection[str] = ()) -> None:
        self.course, self.unreleased = course, unreleased
        self.records = Records(course.records)
        self.for_assignment = functools.cache(
            functools.partial(current_basis, course.api.coursedir)
        )
        self.read_again()

    def read_again(self) -> None:
        """Forget what was handed in and graded, which may be something else meanwhile."""
        self._seen = functools.cache(self._fingerprint)
        self._changes = functools.cache(self._find_changes)

    def without_exceptions(self) -> "Bases":
        """Return the bases by which grades of unreleased notebooks can be stale, too."""
        if not self.unreleased:
            return self
        bases = copy.copy(self)
        bases.unreleased = ()
        bases._changes = functools.cache(bases._find_changes)
        return bases

    def current(self, student: str, assignment: str) -> Basis:
        """Read a submission's files, and return the basis that a grade would have now."""
        submission = self._fingerprint(student, assignment)
        return msgspec.structs.replace(self.for_assignment(assignment), submission=submission)

    def recorded(self, student: str, assignment: str) -> Basis | None:
        """Return the recorded basis of a grade; None without one, or if it has to be regraded."""
        record = self.records.head(student, assignment)
        if record is None or record.is_due_again:
            return None
        return record.basis if self.course.has_graded_notebook(student, assignment) else None

    def find_earlier_failure(self, student: str, assignment: str) -> str:
        """Return why grading failed on exactly the current basis; empty if it did not."""
        record = self.records.head(student, assignment)
        if record is None or record.failed_basis is None:
            return ""
        try:
            return record.why if record.failed_basis == self.current(student, assignment) else ""
        except OSError:
            return ""

    def find_changes(self, student: str, assignment: str) -> frozenset[str]:
        """Return the parts of the basis that changed since grading; all, without a grade."""
        return self._changes(student, assignment)

    def _find_changes(self, student: str, assignment: str) -> frozenset[str]:
        recorded = self.recorded(student, assignment)
        if recorded is None:
            return ALL_PARTS
        if assignment in self.unreleased:
            return frozenset() if self.is_graded(student, assignment) else ALL_PARTS
        submission = self._seen(student, assignment)
        now = msgspec.structs.replace(self.for_assignment(assignment), submission=submission)
        return frozenset(recorded.changed(now))

    def is_graded(self, student: str, assignment: str) -> bool:
        """Check whether the current submission has a grade."""
        recorded = self.recorded(student, assignment)
        return recorded is not None and self.is_current(student, assignment, recorded.submission)

    def was_graded(self, student: str, assignment: str) -> bool:
        """Check whether the current submission was graded, even if it has to be regraded."""
        last = self._find_last(student, assignment)
        return last is not None and self.is_current(student, assignment, last.submission)

    def is_current(self, student: str, assignment: str, submission: str) -> bool:
        """Check whether a fingerprint is that of the current submission."""
        try:
            return submission == self._seen(student, assignment)
        except OSError:  # a submission that cannot be read now could be read when it was graded
            return False

    def has_other_plans(self, student: str, assignment: str) -> bool:
        """Check whether a grade's evidence was captured with other plans than the current ones."""
        recorded = self.recorded(student, assignment)
        return recorded is not None and recorded.plans != self.for_assignment(assignment).plans

    def _find_last(self, student: str, assignment: str) -> Basis | None:
        """Return the basis of the last grade whose notebook is kept; None if there is none."""
        record = self.records.head(student, assignment)
        is_kept = record is not None and self.course.has_graded_notebook(student, assignment)
        return record.basis if record is not None and is_kept else None

    def _fingerprint(self, student: str, assignment: str) -> str:
        return fingerprint_submission(self.course.submitted / student / assignment)


def is_judging_enough(changed: frozenset[str]) -> bool:
    """Check whether it is enough to judge the evidence again."""
    return bool(changed) and changed <= REJUDGEABLE


def describe_changes(changed: frozenset[str]) -> str:
    """Describe in words which parts of a basis changed."""
    return natural_list([words for name, words in CHANGED_IN_WORDS.items() if name in changed])


def read_evidence(course: Course, student: str, assignment: str) -> tuple[Case, ...] | None:
    """Return the evidence of all notebooks of a graded submission; None if it has no grade.

    Raises:
        UnreadableRecordError: the record, or any of its evidence, cannot be used.
    """
    record = _read_graded(course, student, assignment)
    if record is None:
        return None
    return tuple(case for notebook in record.notebooks.values() for case in notebook.cases())


def _read_graded(course: Course, student: str, assignment: str) -> Record | None:
    """Read the record of a graded submission; return None if it has no grade.

    Raises:
        UnreadableRecordError: the record cannot be used.
    """
    record = Records(course.records).read(student, assignment)
    if record is None or not record.notebooks:
        return None
    for name in record.notebooks:
        if not (course.autograded / student / assignment / f"{name}.ipynb").exists():
            raise UnreadableRecordError(f"there is no graded {name}.ipynb.")
    return record


@dataclass(frozen=True)
class JudgedAgain:
    """The outcome of judging a submission again.

    Attributes:
        is_new: whether its grade changed.
        why: the error, in a sentence; empty if there was none.
    """

    student: str
    assignment: str
    is_new: bool
    why: str = ""


def judge_again(
    course: Course,
    bases: Bases,
    graded: Iterable[tuple[str, str]],
    pool: Pool,
    rescored: Collection[tuple[str, str]] = (),
    all_pages: bool = False,
) -> Iterator[JudgedAgain]:
    """Judge the evidence of each submission again, and enter verdicts and points that changed.

    Exercises without evidence keep their verdicts. The inputs are the same as before, so no score
    changes unless exercises, judge or points did. If judging fails, the submission keeps its grade
    and its page. Evidence is read when its turn comes, because a class's does not fit into memory.

    Args:
        course: the course.
        bases: the bases of its grades.
        graded: the graded submissions, as students and assignments.
        pool: the workers that judge.
        rescored: those of them whose verdicts are kept, and only get other points.
        all_pages: make the feedback pages of unchanged grades, too, because an earlier run may
            have been killed between entering a grade and making its page.

    Raises:
        GradebookError: the gradebook cannot be read or written.
        NoSandboxError: there is no sandbox to judge in, and one is required.
    """
    judging: deque[tuple[tuple[str, str], Future[list[Verdict]]]] = deque()
    for pair in graded:
        judging.append((pair, _start_judging(course, pair, pool, is_judged=pair not in rescored)))
        if len(judging) > pool.ahead * (pool.count_workers() or 1):
            yield _enter_judged(course, bases, *judging.popleft(), all_pages)
    for pair, judged in judging:
        yield _enter_judged(course, bases, pair, judged, all_pages)


def _start_judging(
    course: Course, pair: tuple[str, str], pool: Pool, is_judged: bool
) -> "Future[list[Verdict]]":
    """Have a worker judge a submission's evidence; an error of reading it is the outcome, too."""
    verdicts: Future[list[Verdict]] = Future()
    try:
        cases = read_evidence(course, *pair) if is_judged else None
        if cases:
            return pool.executor.submit(_judge, course.api.config, pair[1], cases)
        verdicts.set_result([])
    except Exception as error:
        verdicts.set_exception(error)
    return verdicts


def _enter_judged(
    course: Course,
    bases: Bases,
    pair: tuple[str, str],
    judged: "Future[list[Verdict]]",
    all_pages: bool,
) -> JudgedAgain:
    """Enter new verdicts and points into the gradebook, the graded notebooks and the record."""
    try:
        verdicts = _without_faults(judged.result())
        current = bases.for_assignment(pair[1])
        kept = _read_graded(course, *pair)
        if kept is None:
            raise UnreadableRecordError("its record is gone.")
        record = _with_verdicts(kept, verdicts)
        if record.basis is not None:
            record = replace(record, basis=record.basis.rejudged_with(current))
        is_new = enter_regraded(course, *pair, record, current.points)
    except (GradebookError, NoSandboxError):
        raise
    except Exception as error:  # the other submissions are judged all the same
        is_marked = bases.records.is_marked(*pair)
        consequence = "it will be graded again" if is_marked else "the old grade stays"
        return JudgedAgain(*pair, False, f"{consequence}. {type(error).__name__}: {error}")
    why = course.make_feedback_page(*pair) if is_new or all_pages else ""
    return JudgedAgain(*pair, is_new, why and f"no feedback page. {why}")


def _judge(config: Any, assignment: str, cases: Sequence[Case]) -> list[Verdict]:
    """Judge evidence; this is called in a worker."""
    known = [case for case in cases if case.exercise in EXERCISES]
    sandbox = Sandbox(config=config, compiled=find_compiled(config, assignment))
    seconds = JudgeEvidence(config=config).seconds
    return judge_in_sandbox(known, seconds, sandbox) if known else []


def _without_faults(verdicts: list[Verdict]) -> list[Verdict]:
    """Return the verdicts, once none of them is a fault of the judge.

    Raises:
        NotGradedError: one of them is.
    """
    for verdict in verdicts:
        if verdict.fault is not None:
            raise NotGradedError(verdict.exercise, verdict.fault)
    return verdicts


def _with_verdicts(record: Record, verdicts: Sequence[Verdict]) -> Record:
    """Return a record with new verdicts, each in the notebook that its evidence is from."""
    if not verdicts:  # rescoring needs no evidence, which may be damaged
        return record
    new = {verdict.exercise: verdict for verdict in verdicts}
    notebooks = {}
    for name, notebook in record.notebooks.items():
        merged = notebook.verdicts_by_exercise()
        judged = {case.exercise for case in notebook.cases()} & new.keys()
        merged |= {exercise: new[exercise] for exercise in judged}
        notebooks[name] = replace(notebook, verdicts=encoded_verdicts(merged))
    return replace(record, notebooks=notebooks)


ONLY_POINTS: Final = frozenset({"points"})
"""The change for which the kept verdicts are only rescored."""


@dataclass(frozen=True)
class StaleGrade:
    """A grade whose basis has changed.

    Attributes:
        changed: the names of the parts of the basis that changed.
        has_to_run: whether its notebook has to run again; if not, it is enough to judge the kept
            evidence, or to rescore the verdicts if only points changed.
    """

    student: str
    assignment: str
    changed: frozenset[str]
    has_to_run: bool


def find_stale_grades(
    course: Course, bases: Bases, choice: Choice = EVERYTHING
) -> Iterator[StaleGrade]:
    """Yield the stale grades of submissions that are themselves unchanged."""
    for student, assignment in choice.select(course.submissions()):
        try:
            if course.find_submission_problem(student, assignment):
                continue
            changed = bases.find_changes(student, assignment)
        except OSError:  # reported when the submission's turn comes
            continue
        if changed and "submission" not in changed:
            is_enough = is_judging_enough(changed) and _has_evidence(
                course, student, assignment, is_judged=changed != ONLY_POINTS
            )
            yield StaleGrade(student, assignment, changed, has_to_run=not is_enough)


def _has_evidence(course: Course, student: str, assignment: str, is_judged: bool) -> bool:
    """Check whether what judging again needs can be read; rescoring needs no evidence."""
    read = read_evidence if is_judged else _read_graded
    try:
        return read(course, student, assignment) is not None
    except UnreadableRecordError:
        return False


def add_staleness(bases: Bases, rows: Iterable[StateRow]) -> Iterator[StateRow]:
    """Yield the rows, with `out_of_date` set in those whose grade is stale."""
    for row in rows:
        why = _explain_staleness(bases, row.student, row.assignment) if row.is_graded else ""
        yield dataclasses.replace(row, out_of_date=why)


def _explain_staleness(bases: Bases, student: str, assignment: str) -> str:
    """Return why a grade is stale, as a clause; empty if it is not."""
    if bases.records.is_marked(student, assignment):
        return "regrading them was stopped, or failed"
    if bases.recorded(student, assignment) is None:
        return (
            "there is no record of what they depend on (nbgrader gave them by itself, their files "
            "are gone, or something went wrong before that)"
        )
    try:
        changed = bases.find_changes(student, assignment)
    except OSError:  # it could be read when it was graded
        changed = frozenset({"submission"})
    if "submission" in changed:
        return "something else was handed in since"
    return describe_changes(changed)


def print_reasons(console: Console, stale: Sequence[StaleGrade]) -> None:
    """Print why grades are stale, and how they are regraded: students may have seen them."""
    counts = Counter((grade.assignment, grade.has_to_run, grade.changed) for grade in stale)
    for (assignment, has_to_run, changed), count in counts.items():
        action = "run again" if has_to_run else "judged again from the evidence that was kept"
        if changed == ONLY_POINTS:
            action = "given the new points, by the verdicts that were kept"
        console.print(
            f"Since {assignment} was graded, {describe_changes(changed)}. "
            f"{count} of its submissions {'is' if count == 1 else 'are'} {action}.",
            highlight=False,
        )


def judge_stale_grades(
    course: Course,
    bases: Bases,
    stale: Sequence[StaleGrade],
    find_refusals: Callable[[Collection[str]], Mapping[str, str]],
    pool: Pool,
) -> Iterator[Failure]:
    """Judge again, or rescore, the stale grades for which that is enough; yield the failures.

    Args:
        course: the course.
        bases: the bases of its grades.
        stale: the stale grades.
        find_refusals: returns why each assignment cannot be graded here; empty if it can.
        pool: the workers that judge.
    """
    judged = [grade for grade in stale if not grade.has_to_run]
    refused = find_refusals({grade.assignment for grade in judged})
    for grade in judged:
        if why := refused[grade.assignment]:
            yield Failure(grade.student, grade.assignment, why, is_broken=False)
    allowed = [grade for grade in judged if not refused[grade.assignment]]
    rescored = {(g.student, g.assignment) for g in allowed if g.changed == ONLY_POINTS}
    graded = [(grade.student, grade.assignment) for grade in allowed]
    for again in judge_again(course, bases, graded, pool, rescored, all_pages=True):
        if again.why:
            yield Failure(again.student, again.assignment, again.why, is_broken=False)
