"""What is to be known of a class beside its table: times, hand-ins, grades of before, and names."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from nbgrader.api import Gradebook

from autograder.instructor.classroom.attempts import (
    has_the_time_of_before,
    keep_attempts,
    scored_otherwise,
)
from autograder.instructor.classroom.choice import EVERYTHING, Choice
from autograder.instructor.classroom.roll_call import Facts
from autograder.instructor.classroom.roster import COLUMNS, OF_ONE_ASSIGNMENT, ROSTER
from autograder.instructor.classroom.submission_states import Row
from autograder.instructor.classroom.what_changed import Bases, told
from autograder.instructor.course import TIMES, Course, in_words, near

MOST_LISTED: Final = 20
"""How many submissions a sentence lists; the CSVs have all."""


def remarks(
    course: Course, facts: Facts, rows: Sequence[Row], choice: Choice = EVERYTHING
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
            f"{_listed(untimed)}. grading/{TIMES} is where to say it."
        )
    if late := [row for row in handed_in if row.seconds_late > 0]:
        yield f"Late: {_listed(late, [_how_late(facts, row) for row in late])}."
    if changed := list(scored_otherwise(course, handed_in)):
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


def _again(course: Course, facts: Facts, handed_in: Sequence[Row]) -> Iterator[str]:
    """Who has handed in more than once."""
    attempts, bases = keep_attempts(course, handed_in), Bases(course)
    several: list[Row] = []
    said: list[str] = []
    untimed: list[Row] = []
    for row in handed_in:
        theirs = attempts.get(row.student, {}).get(row.assignment, [])
        written = facts.times.written.get((row.student, row.assignment), ())
        pair = row.student, row.assignment
        has_the_last = bool(theirs) and bases.is_of_now(*pair, theirs[-1].submission)
        before = theirs[:-1] if has_the_last else theirs
        if max(len(theirs), len(written)) > 1:
            several.append(row)
            earned = f", {before[-1].score:g} points before" if before else ""
            said.append(f"{max(len(theirs), len(written))} times{earned}")
        if written and has_the_last and has_the_time_of_before(theirs):
            untimed.append(row)
    if said:
        yield f"Handed in again, and the last one counts: {_listed(several, said)}."
    if untimed:
        yield (
            f"grading/{TIMES} has no other time since these handed in something else, so the time "
            f"of before counts: {_listed(untimed)}."
        )


def _how_late(facts: Facts, row: Row) -> str:
    """How late a submission is, and why that may be less, or cost less, than others expect."""
    said = in_words(row.seconds_late)
    if row.due != facts.due.get(row.assignment):
        said += " after the time of their extension"
    costs_nothing = row.graded and not row.late and facts.times.rules.late is not None
    return f"{said}, for which nothing is taken off" if costs_nothing else said


def _before(course: Course, broken: Sequence[Row]) -> Iterator[str]:
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


def _gone(course: Course, rows: Sequence[Row], choice: Choice) -> Iterator[str]:
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


def _columns(facts: Facts) -> Iterator[str]:
    """Columns of the roster that nothing is made of, and are called almost as others are."""
    found = dict.fromkeys(column for person in facts.people for column in person.others)
    for column in found:
        is_known = column in COLUMNS or column.startswith(OF_ONE_ASSIGNMENT)
        if not is_known and (meant := near(column, COLUMNS, 0.75)):
            yield f"grading/{ROSTER} has a column {column}, which is not known.{meant}"


def _strangers(facts: Facts, handed_in: Sequence[Row]) -> Iterator[str]:
    """Who is named elsewhere and not in the roster, where there is one."""
    known = [person.id for person in facts.people]
    if not known:
        return
    for student in sorted({row.student for row in handed_in}.difference(known)):
        yield f"{student} has handed in, and is not in grading/{ROSTER}.{near(student, known)}"
    for student in sorted(set(facts.times.rules.extensions or {}).difference(known)):
        yield (
            f"grading/class.toml has an extension for {student}, who is not in grading/{ROSTER}."
            f"{near(student, known)}"
        )


def _unknown_times(course: Course, facts: Facts, rows: Sequence[Row]) -> Iterator[str]:
    """What the times that are written down name, and nobody knows."""
    everybody = {person.id for person in facts.people} | {row.student for row in rows}
    known = sorted(everybody.union(student for student, _ in course.submissions()))
    assignments, said = course.assignments(), set[str]()
    for student, assignment in facts.times.written:
        if student not in known:
            said.add(
                f"grading/{TIMES} has a time of {student}, who has handed in nothing"
                f"{' and is not in grading/' + ROSTER if facts.people else ''}."
                f"{near(student, known)}"
            )
        if assignment not in assignments:
            said.add(
                f"grading/{TIMES} has a time of {assignment}, and there is no such assignment."
                f"{near(assignment, assignments)}"
            )
    lines = sorted(said)
    yield from lines[:MOST_LISTED]
    if len(lines) > MOST_LISTED:
        yield f"There are {len(lines) - MOST_LISTED} more lines like these in grading/{TIMES}."


def _not_graded(course: Course, rows: Sequence[Row]) -> Iterator[Row]:
    """Those that have a grade, of something that was handed in before."""
    bases = Bases(course)
    for row in rows:
        pair = row.student, row.assignment
        if row.graded and bases.then(*pair) is not None and not bases.is_graded(*pair):
            yield row


def _outdated(course: Course, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Those whose grade of what was handed in last is to be made anew, by why that is."""
    bases, found = Bases(course), dict[str, list[Row]]()
    for row in rows:
        pair = row.student, row.assignment
        if not row.graded:
            continue
        if bases.records.is_marked(*pair):
            found.setdefault("Grading these anew was stopped, or failed", []).append(row)
        elif bases.is_graded(*pair) and (changed := bases.changed(*pair)):
            found.setdefault(f"Since these were graded, {told(changed)}", []).append(row)
    return found


def _unknown(course: Course, rows: Sequence[Row]) -> Iterator[Row]:
    """Those of whose grade it cannot be told what it is of, nor that it is to be made anew."""
    bases = Bases(course)
    for row in rows:
        pair = row.student, row.assignment
        if row.graded and bases.then(*pair) is None and not bases.records.is_marked(*pair):
            yield row


def _listed(rows: Sequence[Row], about: Sequence[str] = ()) -> str:
    """Students and assignments, with what there is to say of each."""
    said = [
        f"{row.student} ({', '.join([row.assignment, *more])})"
        for row, *more in zip(rows, *([about] if about else []), strict=True)
    ]
    return _cut(said)


def _cut(said: Sequence[str]) -> str:
    """The first of many, and how many more there are."""
    others = len(said) - MOST_LISTED
    return ", ".join(said[:MOST_LISTED]) + (f" and {others} more" if others > 0 else "")
