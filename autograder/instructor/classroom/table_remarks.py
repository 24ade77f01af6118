"""Remarks below a class's table: lateness, earlier attempts, stale grades, unknown names."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from autograder.instructor.classroom.attempts import Attempt, Attempts
from autograder.instructor.classroom.choice import Choice
from autograder.instructor.classroom.class_facts import ClassFacts
from autograder.instructor.classroom.roster import COLUMNS, ROSTER_FILE
from autograder.instructor.classroom.stale_grades import Bases
from autograder.instructor.classroom.submission_states import StateRow
from autograder.instructor.commands import describe_duration, list_some, suggest_names
from autograder.instructor.course import MOODLE_ID_PREFIX, TIMES_FILE, Course
from shardlings.documents import with_noun

MAX_LISTED_SUBMISSIONS: Final = 20
"""The number of submissions that a remark names; the CSVs have all of them."""


def list_remarks(
    course: Course,
    bases: Bases,
    facts: ClassFacts,
    rows: Sequence[StateRow],
    choice: Choice,
    attempts: Attempts,
    changed: Sequence[tuple[StateRow, float]],
) -> Iterator[str]:
    """Yield a sentence for each thing about a class that its instructor should know.

    Args:
        course: the course.
        bases: the bases of its grades.
        facts: the class's roster and times.
        rows: the state of its submissions.
        choice: the submissions that were asked for.
        attempts: all attempts of the class.
        changed: the submissions whose scores have changed, with their earlier scores.
    """
    submitted = [row for row in rows if row.is_handed_in]
    yield from _remark_on_due_dates(facts, rows)
    yield from _remark_on_doubtful_times(facts, submitted)
    yield from _remark_on_doubtful_scores(submitted)
    yield from _remark_on_lateness(facts, submitted)
    yield from _remark_on_changed_scores(changed)
    yield from _remark_on_resubmissions(facts, submitted, attempts, bases)
    yield from _remark_on_stale_grades(rows)
    yield from _remark_on_ungraded(submitted, attempts)
    yield from _remark_on_removed(course, facts, rows, choice)
    yield from _remark_on_strangers(course, facts, submitted, choice)
    yield from _remark_on_columns(facts)
    yield from _remark_on_weights(facts, rows)
    yield from _remark_on_unknown_times(course, facts, rows, choice)


def describe_other_stale_grades(rows: Iterable[StateRow]) -> str:
    """Return a sentence about stale grades that were not asked for; empty if there are none.

    It names nobody, because a command for one student may be run while that student looks on.
    """
    count = sum(bool(row.out_of_date) for row in rows)
    if not count:
        return ""
    grades, them = ("grade is", "it") if count == 1 else ("grades are", "them")
    return (
        f"{count} other {grades} out of date, also in the CSVs and in exports. make report says "
        f"why; make grade, without STUDENT= and ASSIGNMENT=, regrades {them}."
    )


def _remark_on_due_dates(facts: ClassFacts, rows: Sequence[StateRow]) -> Iterator[str]:
    """Say when each assignment is or was due."""
    for assignment in dict.fromkeys(row.assignment for row in rows):
        if due := facts.due.get(assignment):
            is_or_was = "was" if due < datetime.now(UTC) else "is"
            yield f"{assignment} {is_or_was} due on {facts.times.rules.format_time(due)}."


def _remark_on_doubtful_times(facts: ClassFacts, submitted: Sequence[StateRow]) -> Iterator[str]:
    """Point out submissions whose time is not known, or is in the future."""
    if untimed := [r for r in submitted if r.assignment in facts.due and r.handed_in is None]:
        yield (
            f"When these were handed in is not known, so they do not count as late: "
            f"{_list_rows(untimed)}. grading/{TIMES_FILE} is the place to enter it."
        )
    now = datetime.now(UTC)
    if future := [row for row in submitted if row.handed_in is not None and row.handed_in > now]:
        yield (
            f"The times of these are in the future: {_list_rows(future)}. Is the year right, and "
            f"the timezone in grading/class.toml?"
        )


def _remark_on_doubtful_scores(submitted: Sequence[StateRow]) -> Iterator[str]:
    """Point out cells with more points than there are, with less than 0, or with no score."""
    marks = [(row, name, mark) for row in submitted for name, mark in row.marks.items()]
    too_many = [
        (row, f"{name}: {mark.score - mark.extra_credit:g} of {mark.points:g}")
        for row, name, mark in marks
        if mark.score - mark.extra_credit > mark.points
    ]
    if too_many:
        yield (
            f"These have more points than there are, without extra credit: "
            f"{_list_with_details(too_many)}."
        )
    negative = [(row, f"{name}: {mark.score:g}") for row, name, mark in marks if mark.score < 0]
    if negative:
        yield f"These have less than 0 points: {_list_with_details(negative)}."
    unscored = [
        (row, name) for row, name, mark in marks if mark.has_no_score and not mark.needs_a_look
    ]
    if unscored:
        yield (
            f"These have no score, count as 0, and are marked as looked at. A program may have "
            f"entered what is not a number (NaN): {_list_with_details(unscored)}."
        )


def _remark_on_lateness(facts: ClassFacts, submitted: Sequence[StateRow]) -> Iterator[str]:
    """Say who is late, and whom only the platform marks as late."""
    if late := [row for row in submitted if row.seconds_late > 0]:
        yield f"Late: {_list_with_details((row, _describe_lateness(facts, row)) for row in late)}."
    marked = [
        row
        for row in submitted
        if not row.seconds_late and facts.times.by_platform(row.student, row.assignment).marked_late
    ]
    if marked:
        yield (
            f"The platform marks these as late, and by the times and due dates here they are not, "
            f"so nothing is deducted: {_list_rows(marked)}. grading/{TIMES_FILE} is where to say "
            f"when they came."
        )


def _describe_lateness(facts: ClassFacts, row: StateRow) -> str:
    """Describe how late a submission is, with an extension or a missing penalty, if any."""
    lateness = describe_duration(row.seconds_late)
    if row.due != facts.due.get(row.assignment):
        lateness += " after the time of their extension"
    is_free = row.is_graded and not row.late_penalty and facts.times.rules.late is not None
    return f"{lateness}, for which nothing is deducted" if is_free else lateness


def _remark_on_changed_scores(changed: Sequence[tuple[StateRow, float]]) -> Iterator[str]:
    """Say whose score is another than the last time, for the same submission."""
    if changed:
        moved = [
            (row, f"{with_noun(row.total, 'point')}, {before:g} before") for row, before in changed
        ]
        yield (
            f"These have another score than the last time, for the same submission: "
            f"{_list_with_details(moved)}."
        )


def _remark_on_resubmissions(
    facts: ClassFacts, submitted: Sequence[StateRow], attempts: Attempts, bases: Bases
) -> Iterator[str]:
    """Say who has submitted more than once."""
    several: list[tuple[StateRow, str]] = []
    untimed: list[StateRow] = []
    for row in submitted:
        pair = row.student, row.assignment
        graded = attempts.get(row.student, {}).get(row.assignment, [])
        times, collected = facts.times.written.get(pair, ()), facts.times.by_platform(*pair)
        has_last = bool(graded) and bases.is_current(*pair, graded[-1].submission)
        before = graded[:-1] if has_last else graded
        count = max(len(graded), len(times))
        if count > 1:
            earned = f", {with_noun(before[-1].score, 'point')} before" if before else ""
            several.append((row, f"{count} times{earned}"))
        is_known = bool(times) or collected.time is not None
        is_same = is_known and has_last and _has_time_of_previous(graded)
        if is_same or (collected.replaced and not times):
            untimed.append(row)
    if several:
        yield f"Handed in again, and the last one counts: {_list_with_details(several)}."
    if untimed:
        yield (
            f"grading/{TIMES_FILE} has no new time for these, who handed in something else since, "
            f"so their earlier time counts: {_list_rows(untimed)}."
        )


def _has_time_of_previous(attempts: Sequence[Attempt]) -> bool:
    """Check whether the last attempt's time is that of the attempt before it."""
    times = [attempt.handed_in for attempt in attempts[-2:]]
    return len(times) == 2 and times[0] is not None and times[0] == times[1]


def _remark_on_stale_grades(rows: Sequence[StateRow]) -> Iterator[str]:
    """Say which grades are out of date, and why."""
    for why in dict.fromkeys(row.out_of_date for row in rows if row.out_of_date):
        stale = [row for row in rows if row.out_of_date == why]
        yield (
            f"These grades are out of date, because {why}: {_list_rows(stale)}. make grade "
            f"regrades them."
        )


def _remark_on_ungraded(submitted: Sequence[StateRow], attempts: Attempts) -> Iterator[str]:
    """Say which submissions wait to be graded, and what broken ones and earlier attempts count."""
    if waiting := [row for row in submitted if row.state == "waiting"]:
        yield f"Not graded yet: {_list_rows(waiting)}. make grade grades them."
    broken = [row for row in submitted if row.state == "broken"]
    if broken:
        yield (
            "What is broken counts in no total until something else is handed in. What is missing "
            "counts 0 once it was due."
        )
    scores = [
        (row, with_noun(graded[-1].score, "point"))
        for row in broken
        if (graded := attempts.get(row.student, {}).get(row.assignment, []))
    ]
    if scores:
        yield (
            f"What these handed in last cannot be graded, so it has no score; what was graded "
            f"before had: {_list_with_details(scores)}."
        )


def _remark_on_removed(
    course: Course, facts: ClassFacts, rows: Sequence[StateRow], choice: Choice
) -> Iterator[str]:
    """Say whose grades are in the gradebook though their files are gone."""
    submissions = set(course.submissions())
    known = {*facts.withdrawn, *course.find_closed_students()}
    for assignment in dict.fromkeys(row.assignment for row in rows):
        with course.open_gradebook() as gradebook:
            graded = gradebook.assignment_submissions(assignment)
            pairs = [(submission.student_id, assignment) for submission in graded]
            chosen = choice.select(pair for pair in pairs if pair not in submissions)
            removed = sorted({student for student, _ in chosen} - known)
        if removed:
            names = list_some(removed, MAX_LISTED_SUBMISSIONS)
            yield (
                f"The gradebook has grades of {assignment} of these, who have nothing of it in "
                f"grading/submitted/ any more; they are not shown: {names}."
            )


def _remark_on_strangers(
    course: Course, facts: ClassFacts, submitted: Sequence[StateRow], choice: Choice
) -> Iterator[str]:
    """Point out students who are not in the roster; without one, who have handed in nothing."""
    known, lack = [person.id for person in facts.people], f"is not in grading/{ROSTER_FILE}"
    for student in sorted({row.student for row in submitted}.difference(known)) if known else ():
        meant = suggest_names(student, known)
        yield f"{student} has handed in, and {lack}.{meant}"
    if not known:
        known = sorted({student for student, _ in course.submissions()})
        lack = "has handed in nothing"
    known += facts.withdrawn
    rules = facts.times.rules
    for student in sorted(
        {*(rules.extensions or {}), *rules.exempt, *rules.drop}.difference(known)
    ):
        if choice.student in ("", student):
            yield (
                f"grading/class.toml has a rule for {student}, who {lack}."
                f"{suggest_names(student, known)}"
            )


def _remark_on_columns(facts: ClassFacts) -> Iterator[str]:
    """Point out unknown columns of the roster whose names are almost those of known ones."""
    columns = dict.fromkeys(column for person in facts.people for column in person.others)
    for column in columns:
        is_known = column in COLUMNS or column.startswith(MOODLE_ID_PREFIX)
        if not is_known and (meant := suggest_names(column, COLUMNS, 0.75)):
            yield f"grading/{ROSTER_FILE} has a column {column}, which is not known.{meant}"


def _remark_on_weights(facts: ClassFacts, rows: Sequence[StateRow]) -> Iterator[str]:
    """Point out graded assignments that have no weight, if others have one."""
    weights = facts.times.rules.weights
    if weights is None:
        return
    for assignment in dict.fromkeys(row.assignment for row in rows if row.is_graded):
        if assignment not in weights:
            yield (
                f"grading/class.toml has [weights] and none of {assignment}, so it does not count. "
                f"A line {assignment} = 0 says that this is meant."
            )


def _remark_on_unknown_times(
    course: Course, facts: ClassFacts, rows: Sequence[StateRow], choice: Choice
) -> Iterator[str]:
    """Point out recorded times whose student or assignment does not exist."""
    named = {person.id for person in facts.people} | {row.student for row in rows}
    known = sorted(named.union(student for student, _ in course.submissions()))
    assignments, sentences = course.assignments(), set[str]()
    for student, assignment in facts.times.written:
        if choice.student not in ("", student):
            continue
        if student not in known and student not in facts.withdrawn:
            sentences.add(
                f"grading/{TIMES_FILE} has a time of {student}, who has handed in nothing"
                f"{' and is not in grading/' + ROSTER_FILE if facts.people else ''}."
                f"{suggest_names(student, known)}"
            )
        if assignment not in assignments:
            sentences.add(
                f"grading/{TIMES_FILE} has a time of {assignment}, and there is no such assignment."
                f"{suggest_names(assignment, assignments)}"
            )
    lines = sorted(sentences)
    yield from lines[:MAX_LISTED_SUBMISSIONS]
    if len(lines) > MAX_LISTED_SUBMISSIONS:
        more = len(lines) - MAX_LISTED_SUBMISSIONS
        yield f"There are {more} more lines like these in grading/{TIMES_FILE}."


def _list_rows(rows: Iterable[StateRow]) -> str:
    """List students and assignments."""
    names = [f"{row.student} ({row.assignment})" for row in rows]
    return list_some(names, MAX_LISTED_SUBMISSIONS)


def _list_with_details(details: Iterable[tuple[StateRow, str]]) -> str:
    """List students and assignments, each with a detail."""
    names = [f"{row.student} ({row.assignment}, {detail})" for row, detail in details]
    return list_some(names, MAX_LISTED_SUBMISSIONS)
