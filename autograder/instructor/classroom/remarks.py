"""Remarks on a class beside its table: lateness, earlier attempts, names, outdated feedback pages.

nbgrader and `grading/submitted/` keep only a student's last submission. Of earlier ones,
`grading/attempts.json` keeps the score.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from nbgrader.api import Gradebook
from rich.console import Console

from autograder.instructor.classroom.roster import (
    COLUMNS,
    EVERYTHING,
    MOODLE_ID_PREFIX,
    ROSTER_FILE,
    Choice,
    ClassFacts,
)
from autograder.instructor.classroom.stale_grades import Bases, describe_changes
from autograder.instructor.classroom.submission_states import Failure, StateRow
from autograder.instructor.course import (
    TIMES_FILE,
    Course,
    in_words,
    near,
    printable,
    reason,
    zone_of,
)
from autograder.instructor.gradebook import shown_grades
from autograder.instructor.pages import shown_by

ATTEMPTS_FILE: Final = "attempts.json"


class Attempt(msgspec.Struct, frozen=True):
    """Something that was handed in and graded.

    Attributes:
        submission: what it was, in a few letters.
        score: what it has earned in the end.
        handed_in: when, as far as that is known.
    """

    submission: str
    score: float
    handed_in: datetime | None


Attempts = dict[str, dict[str, list[Attempt]]]
"""By student and assignment, in the order in which they were graded."""


def keep_attempts(course: Course, rows: Sequence[StateRow]) -> Attempts:
    """Keep what was graded since the last time, and tell of all that is kept.

    Args:
        course: where.
        rows: how its submissions stand; of what was graded elsewhere than here nothing is kept.
    """
    path, bases = course.grading / ATTEMPTS_FILE, Bases(course)
    attempts = _read(course)
    before = msgspec.json.encode(attempts)
    for row in rows:
        basis = bases.recorded(row.student, row.assignment) if row.graded else None
        if basis is None:
            continue
        theirs = attempts.setdefault(row.student, {}).setdefault(row.assignment, [])
        time = row.handed_in
        if theirs and theirs[-1].submission == basis.submission:  # its score may be another now
            last = theirs.pop()
            if not bases.is_current(row.student, row.assignment, last.submission):
                time = last.handed_in  # the time that is known now is of what came after it
        theirs.append(Attempt(basis.submission, row.total, time))
    now = msgspec.json.encode(attempts)
    if now != before:
        fresh = path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.format(now))
        fresh.replace(path)
    return attempts


def find_changed_scores(
    course: Course, rows: Sequence[StateRow]
) -> Iterator[tuple[StateRow, float]]:
    """Those of which the same submission has another score than what is kept, and that score.

    Args:
        course: where.
        rows: how its submissions stand, before they are kept.
    """
    attempts, bases = _read(course), Bases(course)
    for row in rows:
        basis = bases.recorded(row.student, row.assignment) if row.graded else None
        for last in attempts.get(row.student, {}).get(row.assignment, [])[-1:]:
            same = basis is not None and basis.submission == last.submission
            if same and last.score != row.total:
                yield row, last.score


def _read(course: Course) -> Attempts:
    try:
        return msgspec.json.decode((course.grading / ATTEMPTS_FILE).read_bytes(), type=Attempts)
    except (OSError, msgspec.MsgspecError):  # there is none, or it is no longer one
        return {}


def has_time_of_previous(attempts: Sequence[Attempt]) -> bool:
    """Whether the time that is known of the last attempt is that of the one before it."""
    times = [attempt.handed_in for attempt in attempts[-2:]]
    return len(times) == 2 and times[0] is not None and times[0] == times[1]


MAX_NAMED_PAGES: Final = 20


def find_outdated_pages(
    course: Course, submissions: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Those submissions whose page shows other scores, comments or times than the gradebook has.

    Raises:
        ClassError: the class's file, which says in which zone times are, cannot be understood.
    """
    about, zone = course.api.coursedir, str(zone_of(course.grading, course.assignments()))
    with Gradebook(about.db_url, about.course_id) as gradebook:
        for assignment in dict.fromkeys(assignment for _, assignment in submissions):
            now = shown_grades(gradebook, assignment, zone)
            for student in (s for s, a in submissions if a == assignment):
                page = course.feedback / student / assignment / f"{assignment}.html"
                if student in now and shown_by(page) != now[student]:
                    yield student, assignment


def renew_pages(
    course: Course,
    console: Console,
    without: Collection[tuple[str, str]] = (),
    choice: Choice = EVERYTHING,
) -> list[Failure]:
    """Make such pages anew, and say whose; those that could not be made.

    Args:
        course: where.
        console: what to write on.
        without: submissions whose page says that they could not be graded.
        choice: of whom, and of what.
    """
    renewed, failures = [], []
    submissions = [pair for pair in choice.of(course.submissions()) if pair not in without]
    for student, assignment in list(find_outdated_pages(course, submissions)):
        if not (course.autograded / student / assignment / f"{assignment}.ipynb").exists():
            continue
        done = course.api.generate_feedback(assignment, student, force=True)
        if done["success"]:
            renewed.append(f"{student} ({assignment})")
        else:
            why = f"no new feedback page. {reason(done)}"
            failures.append(Failure(student, assignment, why, theirs=False, was_graded=True))
    if renewed:
        more = len(renewed) - MAX_NAMED_PAGES
        said = ", ".join(renewed[:MAX_NAMED_PAGES]) + (f" and {more} more" if more > 0 else "")
        console.print(
            printable(
                f"Feedback pages that did not show what the gradebook has by now are new: {said}."
            ),
            markup=False,
            highlight=False,
        )
    return failures


MAX_LISTED_SUBMISSIONS: Final = 20
"""The CSVs have all of them."""


def list_remarks(
    course: Course, facts: ClassFacts, rows: Sequence[StateRow], choice: Choice = EVERYTHING
) -> Iterator[str]:
    """A sentence for each thing that is to be known."""
    rules = facts.times.rules
    for assignment in dict.fromkeys(row.assignment for row in rows):
        if due := facts.due.get(assignment):
            is_over = due < datetime.now(UTC)
            yield f"{assignment} {'was' if is_over else 'is'} due on {rules.shown(due)}."
    handed_in = [row for row in rows if row.is_handed_in]
    if untimed := [r for r in handed_in if r.assignment in facts.due and r.handed_in is None]:
        yield (
            f"When these were handed in is not known, so they do not count as late: "
            f"{_listed(untimed)}. grading/{TIMES_FILE} is where to say it."
        )
    if late := [row for row in handed_in if row.seconds_late > 0]:
        yield f"Late: {_listed(late, [_how_late(facts, row) for row in late])}."
    if changed := list(find_changed_scores(course, handed_in)):
        moved = [f"{row.total:g} points, {before:g} before" for row, before in changed]
        yield (
            f"These have another score than the last time, though nothing else was handed in: "
            f"{_listed([row for row, _ in changed], moved)}."
        )
    yield from _again(course, facts, handed_in)
    if since := list(_not_graded(course, handed_in)):
        yield (
            f"Handed in since they were graded, so what is shown is of before: {_listed(since)}. "
            f"make grade grades them."
        )
    for why, those in _outdated(course, handed_in).items():
        yield (
            f"{why}, so what is shown is of before: {_listed(those)}. make grade grades them anew."
        )
    if unknown := list(_unknown(course, handed_in)):
        yield (
            f"It was not noted what these grades rest on (nbgrader gave them by itself, their "
            f"files are gone, or something went wrong before that): {_listed(unknown)}. make "
            f"grade grades them anew."
        )
    if waiting := [row for row in handed_in if row.state == "waiting"]:
        yield f"Not graded yet: {_listed(waiting)}. make grade grades them."
    if broken := [row for row in handed_in if row.state == "broken"]:
        yield from _before(course, broken)
    yield from _gone(course, rows, choice)
    yield from _strangers(facts, handed_in)
    yield from _columns(facts)
    yield from _unknown_times(course, facts, rows)


def _again(course: Course, facts: ClassFacts, handed_in: Sequence[StateRow]) -> Iterator[str]:
    """Who has handed in more than once."""
    attempts, bases = keep_attempts(course, handed_in), Bases(course)
    several: list[StateRow] = []
    said: list[str] = []
    untimed: list[StateRow] = []
    for row in handed_in:
        theirs = attempts.get(row.student, {}).get(row.assignment, [])
        written = facts.times.written.get((row.student, row.assignment), ())
        pair = row.student, row.assignment
        has_the_last = bool(theirs) and bases.is_current(*pair, theirs[-1].submission)
        before = theirs[:-1] if has_the_last else theirs
        if max(len(theirs), len(written)) > 1:
            several.append(row)
            earned = f", {before[-1].score:g} points before" if before else ""
            said.append(f"{max(len(theirs), len(written))} times{earned}")
        if written and has_the_last and has_time_of_previous(theirs):
            untimed.append(row)
    if said:
        yield f"Handed in again, and the last one counts: {_listed(several, said)}."
    if untimed:
        yield (
            f"grading/{TIMES_FILE} has no other time since these handed in something else, so "
            f"the time "
            f"of before counts: {_listed(untimed)}."
        )


def _how_late(facts: ClassFacts, row: StateRow) -> str:
    """How late a submission is, and why that may be less, or cost less, than others expect."""
    said = in_words(row.seconds_late)
    if row.due != facts.due.get(row.assignment):
        said += " after the time of their extension"
    costs_nothing = row.graded and not row.late and facts.times.rules.late is not None
    return f"{said}, for which nothing is taken off" if costs_nothing else said


def _before(course: Course, broken: Sequence[StateRow]) -> Iterator[str]:
    """What was earned before by those whose last hand-in cannot be graded."""
    attempts = keep_attempts(course, ())
    earned = [(row, attempts.get(row.student, {}).get(row.assignment, [])) for row in broken]
    those = [(row, f"{theirs[-1].score:g} points") for row, theirs in earned if theirs]
    if those:
        rows, points = zip(*those, strict=True)
        yield (
            f"What these handed in last cannot be graded, so it has no score; what was graded "
            f"before had: {_listed(rows, points)}."
        )


def _gone(course: Course, rows: Sequence[StateRow], choice: Choice) -> Iterator[str]:
    """Whose grade is in the gradebook, and whose files are not there any more."""
    about, there = course.api.coursedir, set(course.submissions())
    for assignment in dict.fromkeys(row.assignment for row in rows):
        with Gradebook(about.db_url, about.course_id) as gradebook:
            graded = gradebook.assignment_submissions(assignment)
            theirs = [(submission.student_id, assignment) for submission in graded]
            gone = sorted(who for who, _ in choice.of(pair for pair in theirs if pair not in there))
        if gone:
            yield (
                f"The gradebook has grades of {assignment} of these, who have nothing of it in "
                f"grading/submitted/ any more; they are not shown: {_cut(gone)}."
            )


def _columns(facts: ClassFacts) -> Iterator[str]:
    """Columns of the roster that nothing is made of, and are called almost as others are."""
    found = dict.fromkeys(column for person in facts.people for column in person.others)
    for column in found:
        is_known = column in COLUMNS or column.startswith(MOODLE_ID_PREFIX)
        if not is_known and (meant := near(column, COLUMNS, 0.75)):
            yield f"grading/{ROSTER_FILE} has a column {column}, which is not known.{meant}"


def _strangers(facts: ClassFacts, handed_in: Sequence[StateRow]) -> Iterator[str]:
    """Who is named elsewhere and not in the roster, where there is one."""
    known = [person.id for person in facts.people]
    if not known:
        return
    for student in sorted({row.student for row in handed_in}.difference(known)):
        yield f"{student} has handed in, and is not in grading/{ROSTER_FILE}.{near(student, known)}"
    for student in sorted(set(facts.times.rules.extensions or {}).difference(known)):
        yield (
            f"grading/class.toml has an extension for {student}, who is not in "
            f"grading/{ROSTER_FILE}."
            f"{near(student, known)}"
        )


def _unknown_times(course: Course, facts: ClassFacts, rows: Sequence[StateRow]) -> Iterator[str]:
    """What the times that are written down name, and nobody knows."""
    everybody = {person.id for person in facts.people} | {row.student for row in rows}
    known = sorted(everybody.union(student for student, _ in course.submissions()))
    assignments, said = course.assignments(), set[str]()
    for student, assignment in facts.times.written:
        if student not in known:
            said.add(
                f"grading/{TIMES_FILE} has a time of {student}, who has handed in nothing"
                f"{' and is not in grading/' + ROSTER_FILE if facts.people else ''}."
                f"{near(student, known)}"
            )
        if assignment not in assignments:
            said.add(
                f"grading/{TIMES_FILE} has a time of {assignment}, and there is no such assignment."
                f"{near(assignment, assignments)}"
            )
    lines = sorted(said)
    yield from lines[:MAX_LISTED_SUBMISSIONS]
    if len(lines) > MAX_LISTED_SUBMISSIONS:
        more = len(lines) - MAX_LISTED_SUBMISSIONS
        yield f"There are {more} more lines like these in grading/{TIMES_FILE}."


def _not_graded(course: Course, rows: Sequence[StateRow]) -> Iterator[StateRow]:
    """Those that have a grade, of something that was handed in before."""
    bases = Bases(course)
    for row in rows:
        pair = row.student, row.assignment
        if row.graded and bases.recorded(*pair) is not None and not bases.is_graded(*pair):
            yield row


def _outdated(course: Course, rows: Sequence[StateRow]) -> dict[str, list[StateRow]]:
    """Those whose grade of what was handed in last is to be made anew, by why that is."""
    bases, found = Bases(course), dict[str, list[StateRow]]()
    for row in rows:
        pair = row.student, row.assignment
        if not row.graded:
            continue
        if bases.records.is_marked(*pair):
            found.setdefault("Grading these anew was stopped, or failed", []).append(row)
        elif bases.is_graded(*pair) and (changed := bases.find_changes(*pair)):
            found.setdefault(f"Since these were graded, {describe_changes(changed)}", []).append(
                row
            )
    return found


def _unknown(course: Course, rows: Sequence[StateRow]) -> Iterator[StateRow]:
    """Those of whose grade it cannot be told what it is of, nor that it is to be made anew."""
    bases = Bases(course)
    for row in rows:
        pair = row.student, row.assignment
        if row.graded and bases.recorded(*pair) is None and not bases.records.is_marked(*pair):
            yield row


def _listed(rows: Sequence[StateRow], about: Sequence[str] = ()) -> str:
    """Students and assignments, with what there is to say of each."""
    said = [
        f"{row.student} ({', '.join([row.assignment, *more])})"
        for row, *more in zip(rows, *([about] if about else []), strict=True)
    ]
    return _cut(said)


def _cut(said: Sequence[str]) -> str:
    """The first of many, and how many more there are."""
    others = len(said) - MAX_LISTED_SUBMISSIONS
    return ", ".join(said[:MAX_LISTED_SUBMISSIONS]) + (f" and {others} more" if others > 0 else "")
