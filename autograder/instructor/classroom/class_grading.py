"""Grade what is to be graded of a class: workers make the grades, and this process enters them."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any

import msgspec
from rich.console import Console

from autograder.instructor.classroom.handed_in_alike import alike, fingerprint
from autograder.instructor.classroom.how_far import HowFar
from autograder.instructor.classroom.schedulers import warning_of
from autograder.instructor.classroom.side_by_side import Pair, Workers, graded
from autograder.instructor.classroom.ungraded import Failure
from autograder.instructor.classroom.what_changed import Bases
from autograder.instructor.course import Course, printable, reason
from autograder.instructor.nbgrader_plugins import enter, enter_failure, times_of
from autograder.instructor.pipeline import (
    Basis,
    Facts,
    Outcome,
    State,
    Submission,
    facts_of,
    submission_in,
    usual_seconds,
)


def grade_submissions(
    course: Course, console: Console, bases: Bases, pairs: Sequence[Pair], workers: Workers
) -> Iterator[Failure]:
    """Grade submissions, those first that take longest; what could not be graded.

    Args:
        course: where.
        console: what to show on how far it is.
        bases: what the grades rest on.
        pairs: students, and what they handed in; nothing of it is known to be broken.
        workers: who grades.

    Raises:
        SchedulerError: the workers' scheduler is not to be used, or cannot be.
    """
    if not pairs:
        return
    if warning := warning_of(workers.scheduler):
        console.print(printable(warning), style="bold yellow", markup=False, highlight=False)
    usual = {assignment: usual_seconds(course.root, assignment) for _, assignment in pairs}
    ordered = sorted(pairs, key=lambda pair: -usual[pair[1]])
    post = _Post(course, bases)
    log = course.grading / "logs" / f"{datetime.now():%Y-%m-%dT%H-%M-%S}.jsonl"
    how_far = HowFar(console, {pair: usual[pair[1]] for pair in ordered}, log)
    with how_far:
        while ordered:
            same = alike(ordered, post.handed_in)
            ordered = []  # but for those who hand in something else while this goes on
            with closing(graded([*same], post.handed_in, workers, how_far.begun)) as outcomes:
                for pair, found in outcomes:
                    failures = [_entered(post, how_far, pair, found)]
                    for other in same[pair]:
                        if post.is_as(other, pair):
                            how_far.begun(other)
                            failures.append(_entered(post, how_far, other, found, pair[0]))
                        else:
                            ordered.append(other)
                    yield from filter(None, failures)


def _entered(
    post: "_Post", how_far: HowFar, pair: Pair, found: Outcome, same_as: str = ""
) -> Failure | None:
    """Enter what became of a submission, or of another student's that is the same; and say so."""
    failure = post.entered(pair, found)
    how_far.ended(pair, **_about(found, failure, same_as))
    return failure


class _Post:
    """What goes out to workers, and what comes in."""

    def __init__(self, course: Course, bases: Bases) -> None:
        self.course, self.bases = course, bases
        self.facts = functools.cache(
            functools.partial(facts_of, course.api.coursedir, course.api.config)
        )
        self.sent: dict[Pair, tuple[str, Basis]] = {}

    def handed_in(self, student: str, assignment: str) -> tuple[Submission, Facts]:
        """What a worker is sent."""
        self.sent.pop((student, assignment), None)  # what was read before is not what is sent
        basis, facts = self.bases.now(student, assignment), self.facts(assignment)
        submission = self._read(student, assignment)
        self.sent[student, assignment] = fingerprint(submission), basis
        return submission, facts

    def _read(self, student: str, assignment: str) -> Submission:
        facts, folder = self.facts(assignment), self.course.submitted / student / assignment
        there = [name for name in facts.seconds if (folder / f"{name}.ipynb").exists()]
        ignored = self.course.api.coursedir.ignore
        return submission_in(folder, student, assignment, there, ignored)

    def is_as(self, other: Pair, pair: Pair) -> bool:
        """Whether somebody's submission is now what another's was when it was sent."""
        try:
            self.handed_in(*other)
        except Exception:  # it is told of in its turn
            return False
        return pair in self.sent and self.sent[other][0] == self.sent[pair][0]

    def entered(self, pair: Pair, found: Outcome) -> Failure | None:
        """Enter what became of a submission; an error costs no other."""
        student, assignment = pair
        _, basis = self.sent.get(pair, ("", None))  # it may be that it could not even be read
        record = msgspec.structs.replace(found.record, basis=basis)
        if record.state is not State.GRADED:
            return self._not_graded(pair, found, basis)
        try:
            submission, facts = self._read(student, assignment), self.facts(assignment)
            found = dataclasses.replace(found, record=record)
            enter(self.course, times_of(self.course), submission, facts, found)
        except Exception as error:
            why = f"grading failed. {type(error).__name__}: {error}"
            return Failure(student, assignment, why, theirs=False)
        done = self.course.api.generate_feedback(assignment, student, force=True)
        if done["success"]:
            return None
        return Failure(student, assignment, f"no feedback page. {reason(done)}", theirs=False)

    def _not_graded(self, pair: Pair, found: Outcome, basis: Basis | None) -> Failure:
        """Keep why it has no grade."""
        enter_failure(self.course, *pair, found, basis)
        return Failure(*pair, found.record.why, theirs=found.record.state is State.BROKEN)


def _about(found: Outcome, failure: Failure | None, same_as: str) -> dict[str, Any]:
    """What is written down of a submission; what it took, once for all that are the same."""
    about: dict[str, Any] = {}
    if same_as:
        about["same_as"] = same_as
    elif found.record.state is State.GRADED:
        about["seconds"] = found.record.seconds
    if found.where and not same_as:
        about["worker"] = found.where
    if failure is not None:
        about |= {"why": failure.why, "theirs": failure.theirs}
    if found.details:
        about["details"] = found.details
    return about
