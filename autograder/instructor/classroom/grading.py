"""Grade a class: run and judge what is new, write feedback, and show the gradebook as a table.

Workers make the grades; this process enters them. Submissions that are the same to the byte, such
as the released notebook or a pair's, are graded once and entered for each student.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec
from nbgrader.api import Gradebook, MissingEntry
from rich.console import Console

from autograder.instructor.calibration import CalibrationError, calibrate
from autograder.instructor.classroom.grading_progress import GradingProgress, show_progress
from autograder.instructor.classroom.rebuilding import (
    convert_earlier_records,
    enter_missing_grades,
    start_rebuilding,
)
from autograder.instructor.classroom.reporting import report
from autograder.instructor.classroom.roster import (
    EVERYTHING,
    Choice,
    Person,
    check_class_files,
    enter_people,
    read_roster,
)
from autograder.instructor.classroom.stale_grades import (
    Bases,
    find_stale_grades,
    judge_stale_grades,
    print_reasons,
)
from autograder.instructor.classroom.submission_states import Failure, StateRow, read_states
from autograder.instructor.classroom.workers import (
    Pair,
    Workers,
    check_address,
    describe_risk,
    grade_in_pool,
)
from autograder.instructor.course import (
    Course,
    cannot_be_read,
    cannot_be_taken,
    printable,
    readable,
    reason,
    zone_of,
)
from autograder.instructor.nbgrader_plugins import enter, enter_failure, times_of, withdraw_scores
from autograder.instructor.pages import About, ungraded_page, write_page
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
from autograder.instructor.sandbox import Sandbox

LOCAL_WORKERS: Final = Workers()
"""Workers on this machine, one for each core."""


NOT_RELEASED: Final = "nothing of it is graded until its notebook can be released; see below."


NOT_RETRIED: Final = (
    "Nothing has changed since, so it was not tried again: make grade AGAIN=1 STUDENT=… tries it."
)
"""Told for a submission that failed on the same basis before."""


NOTHING_HANDED_IN: Final = (
    "Nothing has been handed in yet. Put notebooks in "
    "grading/submitted/<student>/<assignment>/<assignment>.ipynb, and grade again. If you want to "
    "see first what grading shows, make demo has five made-up students hand in, in a folder apart."
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
        course: where.
        console: what to write on.
        again: grade what has been graded, too.
        choice: what is released, graded and shown; the CSVs have all.
        workers: who grades.

    Returns:
        The exit status: 0, or 1 where grading itself failed. A broken submission is a row in the
        table, and no failure.

    Raises:
        ClassError: what is written of the class cannot be understood.
        SchedulerError: there can be no such scheduler, or none answers.
        NoSandboxError: there is no bubblewrap, and one is required.
    """
    if workers.scheduler:
        check_address(workers.scheduler)
    with course.alone(rebuilds=True):
        check_class_files(course)
        convert_earlier_records(course, console)
        rebuilt = start_rebuilding(course, console)
        if not rebuilt and not any(course.submitted.glob("[!.]*")):
            console.print(NOTHING_HANDED_IN, markup=False, highlight=False)
            return 0
        Sandbox(config=course.api.config).check()
        unreleased = _make_ready(course, console, EVERYTHING if rebuilt else choice)
        enter_people(course)
        enter_missing_grades(course, console)
        found = _grade_all(course, console, again, unreleased, choice, workers)
        failures = sorted(found, key=lambda f: (f.student, f.assignment))  # not as they came up
        bases = Bases(course, unreleased)
        failures = [_with_what_stands(bases, failure) for failure in failures]
        for failure in failures:
            if failure.theirs:
                _tell(course, failure)
                withdraw_scores(course, failure.student, failure.assignment)
        failures = report(course, console, failures, choice)
        for why in unreleased.values():
            console.print(printable(why), markup=False, highlight=False)
    return 0 if not unreleased and all(failure.theirs for failure in failures) else 1


def _with_what_stands(bases: Bases, failure: Failure) -> Failure:
    """The same, with whether the grade of before is one of what is handed in now."""
    is_ours = not failure.theirs
    was_graded = is_ours and bases.was_graded(failure.student, failure.assignment)
    return replace(failure, was_graded=was_graded)


def _make_ready(course: Course, console: Console, choice: Choice) -> dict[str, str]:
    """Release what was handed in.

    Returns:
        Of each assignment that cannot be released, why.
    """
    handed_in = {assignment for _, assignment in choice.of(course.submissions())}
    return _release(course, console, sorted(handed_in))


def _release(course: Course, console: Console, assignments: Sequence[str]) -> dict[str, str]:
    with closing(show_progress(console, "Making", assignments, str)) as each:
        whys = {assignment: course.cannot_release(assignment) for assignment in each}
    return {assignment: why for assignment, why in whys.items() if why}


def _grade_all(
    course: Course,
    console: Console,
    again: bool,
    unreleased: Collection[str],
    choice: Choice,
    workers: Workers,
) -> Iterator[Failure]:
    """Grade what is to be graded; whatever cannot be."""
    bases = Bases(course, unreleased)

    @functools.cache  # what fails is tried again the next time, and not for each student
    def refusal(assignment: str) -> str:
        return NOT_RELEASED if assignment in unreleased else _refusal(course, console, assignment)

    stale = [] if again else list(find_stale_grades(course, bases, choice))
    print_reasons(console, stale)
    not_judged = {
        (f.student, f.assignment): f for f in judge_stale_grades(course, bases, stale, refusal)
    }

    to_grade: list[tuple[str, str]] = []

    def failure(student: str, assignment: str) -> Failure | None:
        """What keeps a submission from being graded; what has changed is to be, otherwise."""
        why = cannot_be_taken(course.submitted / student / assignment, assignment)
        if why:
            return Failure(student, assignment, why, theirs=True)
        found = not_judged.get((student, assignment))
        if found is not None or not (again or bases.changed(student, assignment)):
            return found
        why = "" if again else bases.failed_before(student, assignment)
        if why:
            return Failure(student, assignment, f"{why.rstrip('. ')}. {NOT_RETRIED}", theirs=False)
        why = refusal(assignment)
        if why:
            ours = Failure(student, assignment, why, theirs=False)
            return _broken(course, bases, student, assignment) or ours
        found = _misnamed(student, assignment)
        if found is None:
            to_grade.append((student, assignment))
        return found

    yield from _failures(choice.of(course.submissions()), failure)
    if again:  # so that whoever stops it can go on with what is left
        for pair in to_grade:
            bases.records.mark(*pair)
    yield from grade_submissions(course, console, bases, to_grade, workers)
    yield from find_broken_submissions(
        course, [pair for pair in course.submissions() if not choice.has(*pair)]
    )


def _failures(
    submissions: Iterable[tuple[str, str]], failure: Callable[[str, str], Failure | None]
) -> Iterator[Failure]:
    """What is found of submissions; one of which an error comes up costs no other."""
    for student, assignment in submissions:
        try:
            found = failure(student, assignment)
        except Exception as error:
            why = f"grading failed. {type(error).__name__}: {error}"
            found = Failure(student, assignment, why, theirs=False)
        if found is not None:
            yield found


def _refusal(course: Course, console: Console, assignment: str) -> str:
    """Why nothing of an assignment is to be graded here; empty where all is well."""

    def announce() -> None:
        console.print(f"Grading the course's own {assignment} first: does it get what it should?")

    try:
        calibrate(course.api.coursedir, course.api.config, assignment, announce)
    except CalibrationError as error:
        return str(error)
    return ""


def _misnamed(student: str, assignment: str) -> Failure | None:
    """What is wrong with a student's name, if nbgrader cannot find a folder of that name."""
    if any(character in student for character in "*?[]") or readable(student) != student:
        why = (
            "nbgrader cannot grade a folder whose name has *, ?, [ or ] in it, or is not UTF-8. "
            "Rename it."
        )
        return Failure(student, assignment, why, theirs=True)
    return None


def find_broken_submissions(
    course: Course, pairs: Iterable[tuple[str, str]] | None = None
) -> list[Failure]:
    """The submissions whose files cannot be graded; of all, where none are named."""
    among = course.submissions() if pairs is None else pairs
    return list(_failures(among, functools.partial(_broken, course, Bases(course))))


def _broken(course: Course, bases: Bases, student: str, assignment: str) -> Failure | None:
    """What is wrong with a submission's files themselves, if anything.

    What was graded as it is could be read then, and is not read again.
    """
    folder = course.submitted / student / assignment
    why = cannot_be_taken(folder, assignment)
    if not why and not bases.is_graded(student, assignment):
        why = cannot_be_read(folder / f"{assignment}.ipynb", course.api.config)
    return Failure(student, assignment, why, theirs=True) if why else None


def _tell(course: Course, failure: Failure) -> None:
    """A feedback page for what could not be graded, where the student looks for one."""
    about = About(
        readable(failure.student),
        failure.assignment,
        failure.assignment,
        _name(course, readable(failure.student)),
        zone=zone_of(course.grading, course.assignments()),
    )
    page = ungraded_page(about, f"{failure.why[:1].upper()}{failure.why[1:]}")
    folder = course.feedback / failure.student / failure.assignment
    write_page(folder / f"{failure.assignment}.html", page)


def _name(course: Course, student: str) -> str:
    """What a student is called, where somebody has entered it."""
    about = course.api.coursedir
    with Gradebook(about.db_url, about.course_id) as gradebook:
        try:
            known = gradebook.find_student(student)
        except MissingEntry:  # who has handed in nothing that could be graded
            return ""
        return " ".join(filter(None, (known.first_name, known.last_name)))


def read_class(course: Course) -> tuple[list[StateRow], list[Person]]:
    """How all submissions stand, and the roster; nothing is graded, and nothing is written.

    Raises:
        RosterError: the roster cannot be understood.
    """
    return read_states(course, find_broken_submissions(course)), read_roster(course)


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
    if warning := describe_risk(workers.scheduler):
        console.print(printable(warning), style="bold yellow", markup=False, highlight=False)
    usual = {assignment: usual_seconds(course.root, assignment) for _, assignment in pairs}
    ordered = sorted(pairs, key=lambda pair: -usual[pair[1]])
    dispatcher = _Dispatcher(course, bases)
    log = course.grading / "logs" / f"{datetime.now():%Y-%m-%dT%H-%M-%S}.jsonl"
    progress = GradingProgress(console, {pair: usual[pair[1]] for pair in ordered}, log)
    with progress:
        while ordered:
            same = group_identical_submissions(ordered, dispatcher.handed_in)
            ordered = []  # but for those who hand in something else while this goes on
            with closing(
                grade_in_pool([*same], dispatcher.handed_in, workers, progress.begin)
            ) as outcomes:
                for pair, found in outcomes:
                    failures = [_entered(dispatcher, progress, pair, found)]
                    for other in same[pair]:
                        if dispatcher.is_as(other, pair):
                            progress.begin(other)
                            failures.append(_entered(dispatcher, progress, other, found, pair[0]))
                        else:
                            ordered.append(other)
                    yield from filter(None, failures)


def _entered(
    dispatcher: "_Dispatcher",
    progress: GradingProgress,
    pair: Pair,
    found: Outcome,
    same_as: str = "",
) -> Failure | None:
    """Enter what became of a submission, or of another student's that is the same; and say so."""
    failure = dispatcher.entered(pair, found)
    progress.end(pair, **_about(found, failure, same_as))
    return failure


class _Dispatcher:
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


def group_identical_submissions(
    pairs: Sequence[Pair], handed_in: Callable[[str, str], tuple[Submission, Facts]]
) -> dict[Pair, list[Pair]]:
    """Students and assignments, each with those after it who handed in the same.

    Args:
        pairs: all of them, in the order that is kept.
        handed_in: reads what one of them handed in.
    """
    found: dict[object, list[Pair]] = {}
    for pair in pairs:
        try:
            key: object = fingerprint(handed_in(*pair)[0])
        except Exception:  # what cannot be read is like nothing else, and is told of in its turn
            key = pair
        found.setdefault(key, []).append(pair)
    return {first: others for first, *others in found.values()}


def fingerprint(submission: Submission) -> str:
    """What was handed in, in a few letters, whoever it was."""
    digest = hashlib.sha256(repr((submission.assignment, submission.not_taken)).encode())
    for kind in (submission.notebooks, submission.files):
        digest.update(repr(len(kind)).encode())
        for name, held in sorted(kind.items()):
            digest.update(repr((name, len(held))).encode())
            digest.update(held)
    return digest.hexdigest()
