"""Grade a class: run and judge new submissions, write feedback, and print the table.

Workers compute the grades, and this process enters them. Submissions that are identical to the
byte, such as the untouched notebook or one shared by a pair, are graded once and entered for each
student.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec
from nbgrader.api import MissingEntry
from rich.console import Console

from autograder.instructor.classroom.calibrating import Refusals
from autograder.instructor.classroom.choice import EVERYTHING, Choice
from autograder.instructor.classroom.class_facts import check_class_files, enter_people
from autograder.instructor.classroom.counting import mark_left_out
from autograder.instructor.classroom.grading_progress import GradingProgress, show_progress
from autograder.instructor.classroom.rebuilding import (
    enter_missing_grades,
    start_rebuilding,
)
from autograder.instructor.classroom.reporting import report
from autograder.instructor.classroom.roster import Person, read_roster
from autograder.instructor.classroom.stale_grades import (
    Bases,
    add_staleness,
    find_stale_grades,
    judge_stale_grades,
    print_reasons,
)
from autograder.instructor.classroom.submission_states import Failure, StateRow, read_states
from autograder.instructor.classroom.workers import (
    Pair,
    Pool,
    Workers,
    check_address,
    connect_to_scheduler,
    describe_risk,
    grade_in_pool,
    open_local_pool,
)
from autograder.instructor.commands import begin_sentence, escape_surrogates, printable
from autograder.instructor.course import (
    Course,
    GradebookError,
    find_notebook_problem,
    read_time_zone,
)
from autograder.instructor.nbgrader_plugins import enter, enter_failure, load_times, withdraw_scores
from autograder.instructor.pages import SubmissionDetails, renew_page, ungraded_page, write_page
from autograder.instructor.pipeline import (
    AssignmentFacts,
    Basis,
    Outcome,
    State,
    Submission,
    collect_facts,
    describe_failure,
    read_submission,
    solution_seconds,
)
from autograder.instructor.sandbox import Sandbox

LOCAL_WORKERS: Final = Workers()
"""Workers on this machine, one for each core."""

NOT_RETRIED: Final = (
    "Nothing has changed since, so it was not tried again: make grade AGAIN=1 STUDENT=… tries it."
)
"""Added to the reason of a submission that failed before on the same basis."""


NOTHING_HANDED_IN: Final = (
    "Nothing has been handed in yet. Put notebooks in "
    "grading/submitted/<student>/<assignment>/<assignment>.ipynb, and grade again. If you want to "
    "see first what grading shows, make demo has five made-up students hand in, in a separate "
    "folder."
)


def grade_class(
    course: Course,
    console: Console,
    again: bool = False,
    choice: Choice = EVERYTHING,
    workers: Workers = LOCAL_WORKERS,
) -> int:
    """Release the notebooks, grade what is new in `grading/submitted/`, and report.

    Args:
        course: the course.
        console: where output is printed.
        again: grade submissions again that already have a grade.
        choice: the submissions to release, grade and print; the CSVs have all of them.
        workers: the workers that grade.

    Returns:
        The exit status: 1 if the grader itself failed, else 0. A broken submission is a row in the
        table, and no failure.

    Raises:
        ClassError: one of the class's files cannot be understood.
        SchedulerError: the scheduler's address is not allowed, or it does not answer.
        NoSandboxError: bubblewrap is required and not installed.
    """
    if workers.scheduler:
        check_address(workers.scheduler)
    with course.hold_lock(rebuilds=True):
        check_class_files(course)
        rebuilt = start_rebuilding(course, console)
        if not rebuilt and not course.has_submitted_files():
            console.print(NOTHING_HANDED_IN, markup=False, highlight=False)
            return 0
        Sandbox(config=course.api.config).check()
        unreleased = _release_chosen(course, console, EVERYTHING if rebuilt else choice)
        enter_people(course)
        enter_missing_grades(course, console)
        bases = Bases(course, unreleased)
        graded = _grade_all(course, console, again, bases, choice, workers)
        failures = sorted(graded, key=lambda f: (f.student, f.assignment))
        failures = [
            replace(f, was_graded=not f.is_broken and bases.was_graded(f.student, f.assignment))
            for f in failures
        ]
        for failure in failures:
            if failure.is_broken:
                _write_failure_page(course, failure)
                withdraw_scores(course, failure.student, failure.assignment)
                bases.records.mark_broken(failure.student, failure.assignment, failure.why)
        failures = report(course, console, bases.without_exceptions(), failures, choice)
        for why in unreleased.values():
            console.print(printable(why), markup=False, highlight=False)
    return 0 if not unreleased and all(failure.is_broken for failure in failures) else 1


def _release_chosen(course: Course, console: Console, choice: Choice) -> dict[str, str]:
    """Release the assignments of the chosen submissions.

    Returns:
        The reason for each assignment that cannot be released.
    """
    submitted = {assignment for _, assignment in choice.select(course.submissions())}
    with closing(show_progress(console, "Making", sorted(submitted), str)) as shown:
        reasons = {assignment: course.try_release(assignment) for assignment in shown}
    return {assignment: why for assignment, why in reasons.items() if why}


def _grade_all(
    course: Course,
    console: Console,
    again: bool,
    bases: Bases,
    choice: Choice,
    workers: Workers,
) -> Iterator[Failure]:
    """Grade new and stale submissions, and yield the failures."""
    with open_local_pool(workers.count_local_workers()) as pool:
        refusals = Refusals(course, console, bases.unreleased, pool)
        stale = [] if again else list(find_stale_grades(course, bases, choice))
        print_reasons(console, stale)
        not_judged = {
            (f.student, f.assignment): f
            for f in judge_stale_grades(course, bases, stale, refusals.find, pool)
        }
        if stale:  # judging takes a while
            bases.read_again()
        to_grade: list[Pair] = []

        def failure(student: str, assignment: str) -> Failure | None:
            """Return why a submission cannot be graded, or put it into `to_grade`."""
            why = course.find_submission_problem(student, assignment)
            if why:
                return Failure(student, assignment, why, is_broken=True)
            earlier = not_judged.get((student, assignment))
            if earlier is not None or not (again or bases.find_changes(student, assignment)):
                return earlier
            why = "" if again else bases.find_earlier_failure(student, assignment)
            if why:
                why = f"{why.rstrip('. ')}. {NOT_RETRIED}"
                return Failure(student, assignment, why, is_broken=False)
            unusable = _check_name(student, assignment)
            if unusable is None:
                to_grade.append((student, assignment))
            return unusable

        yield from _failures(choice.select(course.submissions()), failure)
        refused = refusals.find({assignment for _, assignment in to_grade})
        not_read = [pair for pair in to_grade if refused[pair[1]]]
        to_grade = [pair for pair in to_grade if not refused[pair[1]]]
        yield from (Failure(*pair, refused[pair[1]], is_broken=False) for pair in not_read)
        if again:  # so that the next command goes on where an interrupted one stopped
            for pair in to_grade:
                bases.records.mark(*pair)
        if to_grade and workers.scheduler:
            if warning := describe_risk(workers.scheduler):
                console.print(
                    printable(warning), style="bold yellow", markup=False, highlight=False
                )
            with connect_to_scheduler(workers.scheduler) as scheduler:
                yield from grade_submissions(course, console, bases, to_grade, scheduler)
        else:
            yield from grade_submissions(course, console, bases, to_grade, pool)
    if to_grade:
        bases.read_again()
    not_read += [pair for pair in course.submissions() if not choice.has(*pair)]
    # a broken submission of a refused assignment is a second failure, because both are reported
    yield from find_broken_submissions(course, bases, not_read)


def _failures(
    submissions: Iterable[tuple[str, str]], failure: Callable[[str, str], Failure | None]
) -> Iterator[Failure]:
    """Yield the failures that a function finds; an error in one submission affects no other."""
    for student, assignment in submissions:
        try:
            problem = failure(student, assignment)
        except GradebookError:  # all others would be lost to the same
            raise
        except Exception as error:
            problem = Failure(student, assignment, describe_failure(error), is_broken=False)
        if problem is not None:
            yield problem


def _check_name(student: str, assignment: str) -> Failure | None:
    """Return a failure if nbgrader cannot find a folder with the student's name."""
    if (
        any(character in student for character in "*?[]")
        or student.strip() != student
        or escape_surrogates(student) != student
    ):
        why = (
            "nbgrader cannot grade a folder whose name has *, ?, [ or ] in it, begins or ends with "
            "a space or a line break, or is not UTF-8. Rename it."
        )
        return Failure(student, assignment, why, is_broken=True)
    return None


def find_broken_submissions(
    course: Course, bases: Bases, pairs: Iterable[tuple[str, str]] | None = None
) -> list[Failure]:
    """Return the submissions whose files cannot be graded.

    Args:
        course: the course.
        bases: the bases of its grades.
        pairs: the submissions to check, as students and assignments; by default, all.
    """
    pairs = course.submissions() if pairs is None else pairs
    return list(_failures(pairs, functools.partial(_check_files, course, bases)))


def _check_files(course: Course, bases: Bases, student: str, assignment: str) -> Failure | None:
    """Return a failure if a submission's files cannot be graded.

    A notebook that is unchanged since it was graded is not read again.
    """
    folder = course.submitted / student / assignment
    why = course.find_submission_problem(student, assignment)
    if not why and not bases.is_graded(student, assignment):
        names = sorted(path.name for path in (course.solutions / assignment).glob("*.ipynb"))
        here = [folder / name for name in names if (folder / name).exists()]
        why = next(filter(None, (find_notebook_problem(p, course.api.config) for p in here)), "")
    return Failure(student, assignment, why, is_broken=True) if why else None


def _write_failure_page(course: Course, failure: Failure) -> None:
    """Write a feedback page that says why a submission could not be graded."""
    about = SubmissionDetails(
        escape_surrogates(failure.student),
        failure.assignment,
        failure.assignment,
        _full_name(course, escape_surrogates(failure.student)),
        zone=read_time_zone(course.grading, course.assignments()),
    )
    page = ungraded_page(about, begin_sentence(failure.why))
    folder = course.feedback / failure.student / failure.assignment
    renew = functools.partial(renew_page, page=page)
    path = folder / f"{failure.assignment}.html"
    write_page(path, renew)
    for other in folder.glob("*.html"):
        if other != path and other.is_file():
            other.unlink()  # of a notebook of the earlier submission


def _full_name(course: Course, student: str) -> str:
    """Return a student's first and last name; empty if the gradebook does not have them."""
    with course.open_gradebook() as gradebook:
        try:
            entry = gradebook.find_student(student)
        except MissingEntry:  # no submission of theirs was ever graded
            return ""
        return " ".join(filter(None, (entry.first_name, entry.last_name)))


def read_class(course: Course) -> tuple[list[StateRow], list[Person]]:
    """Read the state of all submissions, and the roster, without grading or writing anything.

    Raises:
        ClassError: one of the class's files cannot be understood.
    """
    bases = Bases(course)
    rows = add_staleness(bases, read_states(course, find_broken_submissions(course, bases)))
    return mark_left_out(load_times(course).rules, rows), read_roster(course)


def grade_submissions(
    course: Course, console: Console, bases: Bases, pairs: Sequence[Pair], pool: Pool
) -> Iterator[Failure]:
    """Grade submissions, those that take longest first, and yield the failures.

    Args:
        course: the course.
        console: where progress is shown.
        bases: the bases of the grades.
        pairs: the submissions to grade, as students and assignments; none is known to be broken.
        pool: the workers that grade.
    """
    if not pairs:
        return
    assignments = {assignment for _, assignment in pairs}
    usual = {assignment: solution_seconds(course.root, assignment) for assignment in assignments}
    ordered = sorted(pairs, key=lambda pair: -usual[pair[1]])
    dispatcher = _Dispatcher(course, bases)
    log = course.grading / "logs" / f"{datetime.now():%Y-%m-%dT%H-%M-%S}.jsonl"
    progress = GradingProgress(console, {pair: usual[pair[1]] for pair in ordered}, log)
    with progress:
        while ordered:
            same = group_identical_submissions(ordered, dispatcher.read)
            ordered = []  # graded once more: those who submit something else meanwhile
            with closing(grade_in_pool([*same], dispatcher.read, pool, progress.begin)) as outcomes:
                for pair, outcome in outcomes:
                    failures = [_enter(dispatcher, progress, pair, outcome)]
                    for other in same[pair]:
                        if dispatcher.is_still_same(other, pair):
                            progress.begin(other)
                            failures.append(_enter(dispatcher, progress, other, outcome, pair[0]))
                        else:
                            ordered.append(other)
                    yield from filter(None, failures)


def _enter(
    dispatcher: "_Dispatcher",
    progress: GradingProgress,
    pair: Pair,
    outcome: Outcome,
    same_as: str = "",
) -> Failure | None:
    """Enter a submission's outcome, log it, and return the failure, if it is one."""
    failure = dispatcher.enter(pair, outcome)
    progress.end(pair, **_log_fields(outcome, failure, same_as))
    return failure


class _Dispatcher:
    """Reads the submissions that workers grade, and enters the outcomes that come back.

    It remembers the fingerprint and the basis of each submission that it sent.
    """

    def __init__(self, course: Course, bases: Bases) -> None:
        self.course, self.bases = course, bases
        self.facts = functools.cache(
            functools.partial(collect_facts, course.api.coursedir, course.api.config)
        )
        self.sent: dict[Pair, tuple[str, Basis]] = {}

    def read(self, student: str, assignment: str) -> tuple[Submission, AssignmentFacts]:
        """Read a submission and the facts of its assignment, to send them to a worker."""
        self.sent.pop((student, assignment), None)  # in case reading it fails this time
        basis, facts = self.bases.current(student, assignment), self.facts(assignment)
        submission = self._read(student, assignment)
        self.sent[student, assignment] = fingerprint_contents(submission), basis
        return submission, facts

    def _read(self, student: str, assignment: str) -> Submission:
        facts, folder = self.facts(assignment), self.course.submitted / student / assignment
        notebooks = [name for name in facts.time_limits if (folder / f"{name}.ipynb").exists()]
        ignored = self.course.api.coursedir.ignore
        return read_submission(folder, student, assignment, notebooks, ignored)

    def is_still_same(self, other: Pair, pair: Pair) -> bool:
        """Check whether a submission is now identical to what another was when it was sent."""
        try:
            self.read(*other)
        except Exception:  # reported when it is graded itself
            return False
        return pair in self.sent and self.sent[other][0] == self.sent[pair][0]

    def enter(self, pair: Pair, outcome: Outcome) -> Failure | None:
        """Enter a submission's outcome; an error affects no other submission."""
        student, assignment = pair
        _, basis = self.sent.get(pair, ("", None))  # not there if it could not be read
        record = msgspec.structs.replace(outcome.record, basis=basis)
        if record.state is not State.GRADED:
            enter_failure(self.course, *pair, outcome, basis)
            return Failure(*pair, record.why, is_broken=record.state is State.BROKEN)
        try:
            submission, facts = self._read(student, assignment), self.facts(assignment)
            outcome = dataclasses.replace(outcome, record=record)
            enter(self.course, load_times(self.course), submission, facts, outcome)
        except GradebookError:
            raise
        except Exception as error:
            return Failure(student, assignment, describe_failure(error), is_broken=False)
        if why := self.course.make_feedback_page(student, assignment):
            return Failure(student, assignment, f"no feedback page. {why}", is_broken=False)
        return None


def _log_fields(outcome: Outcome, failure: Failure | None, same_as: str) -> dict[str, Any]:
    """Return what is logged of a submission; its seconds once for all identical submissions."""
    fields: dict[str, Any] = {}
    if same_as:
        fields["same_as"] = same_as
    elif outcome.record.state is State.GRADED:
        fields["seconds"] = outcome.record.seconds
    if outcome.worker and not same_as:
        fields["worker"] = outcome.worker
    if failure is not None:
        fields |= {"why": failure.why, "theirs": failure.is_broken}
    if outcome.details:
        fields["details"] = outcome.details
    return fields


def group_identical_submissions(
    pairs: Sequence[Pair], read: Callable[[str, str], tuple[Submission, AssignmentFacts]]
) -> dict[Pair, list[Pair]]:
    """Group submissions that are identical to the byte.

    Args:
        pairs: the submissions, as students and assignments.
        read: reads a submission and the facts of its assignment.

    Returns:
        The first submission of each group, with the others of the group, in the given order.
    """
    groups: dict[object, list[Pair]] = {}
    for pair in pairs:
        try:
            key: object = fingerprint_contents(read(*pair)[0])
        except Exception:  # one that cannot be read is in no group, and reported in its turn
            key = pair
        groups.setdefault(key, []).append(pair)
    return {first: others for first, *others in groups.values()}


def fingerprint_contents(submission: Submission) -> str:
    """Return a hash of a submission's assignment and files, without its student."""
    digest = hashlib.sha256(repr((submission.assignment, submission.rejected_files)).encode())
    for kind in (submission.notebooks, submission.files):
        digest.update(repr(len(kind)).encode())
        for name, content in sorted(kind.items()):
            digest.update(repr((name, len(content))).encode())
            digest.update(content)
    return digest.hexdigest()
