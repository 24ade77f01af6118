"""The report as a page: one file, without scripts, that asks for nothing elsewhere."""

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

import jinja2
from markupsafe import Markup

from autograder.exercises import EXERCISES
from autograder.instructor.classroom.class_report.alike_mistakes import Alike, alike_in_mistakes
from autograder.instructor.classroom.class_report.class_answers import (
    Answer,
    candidate,
    two_answers,
)
from autograder.instructor.classroom.class_report.class_designs import Designs, designs_of
from autograder.instructor.classroom.class_report.class_diagnoses import (
    Diagnosis,
    diagnoses,
    exercises_of,
    unexplained,
)
from autograder.instructor.classroom.class_report.class_pictures import histogram, shares
from autograder.instructor.classroom.class_report.heat_map import Line, lines_of
from autograder.instructor.classroom.class_report.item_statistics import (
    item_rest_in_words,
    too_few_for_some,
)
from autograder.instructor.classroom.grade_table import number
from autograder.instructor.classroom.kept_answers import STATES, Submission
from autograder.instructor.classroom.roster import Person
from autograder.instructor.classroom.submission_states import Row
from autograder.instructor.classroom.ungraded import Failure
from autograder.instructor.course import Course, printable

REPORT: Final = "report/index.html"
"""Where the page is, in a class's folder."""

MOST_CANDIDATES: Final = 5
"""How many answers to an exercise are shown as candidates for the bank; how many more is said."""

MOST_DIAGNOSES: Final = 12
MOST_ALIKE: Final = 40

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"


@dataclass(frozen=True)
class ExercisePart:
    """What the page says of an exercise."""

    name: str
    title: str
    points: str
    counts: dict[str, int]
    correlation: str
    diagnoses: Sequence[Diagnosis]
    more_diagnoses: int
    designs: Designs | None
    answers: Sequence[Answer]
    candidates: Sequence[Answer]
    more_candidates: int


@dataclass(frozen=True)
class AssignmentPart:
    """What the page says of an assignment."""

    name: str
    who: dict[str, Sequence[str]]
    summary: str
    totals: Markup
    shares: Markup
    exercises: Sequence[ExercisePart]
    too_few: str
    lines: Sequence[Line]
    alike: Sequence[Alike]
    more_alike: int
    without_verdicts: int


def write_report(
    course: Course,
    rows: Sequence[Row],
    failures: Sequence[Failure],
    people: Sequence[Person],
    submissions: Sequence[Submission],
) -> Path:
    """Write the report on a class; nothing that was handed in is run, or taken apart.

    Args:
        course: whose class.
        rows: how its submissions stand.
        failures: those that have no grade.
        people: the roster; nobody, where there is none.
        submissions: the graded ones, with what is kept of them.

    Returns:
        Where the page is.
    """
    assignments = dict.fromkeys(row.assignment for row in rows)
    parts = [
        _assignment(
            course,
            name,
            [row for row in rows if row.assignment == name],
            failures,
            people,
            [s for s in submissions if s.row.assignment == name],
        )
        for name in assignments
    ]
    room = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = room.get_template("class_report.html.jinja").render(
        parts=parts,
        roster=len(people),
        policy=POLICY,
        made=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
    )
    path = course.grading / REPORT
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # were it a link, what it leads to would be written
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path


def _assignment(
    course: Course,
    name: str,
    rows: Sequence[Row],
    failures: Sequence[Failure],
    people: Sequence[Person],
    submissions: Sequence[Submission],
) -> AssignmentPart:
    exercises = exercises_of(submissions)
    every = [*people, *(Person(row.student) for row in rows)]
    names = [text for p in every for text in (p.id, p.name, p.email.partition("@")[0])]
    parts = [_exercise(e, submissions, names) for e in exercises]
    totals = [s.row.total for s in submissions]
    points = max((s.row.points for s in submissions), default=0.0)
    alike = alike_in_mistakes(submissions)
    known, here = {p.id: p.name for p in people}, (course.grading / REPORT).parent
    return AssignmentPart(
        name,
        _who(rows, failures, known),
        _summary(totals, points),
        histogram(totals, points),
        shares({printable(part.name): part.counts for part in parts}),
        parts,
        too_few_for_some([*exercises], submissions),
        [*lines_of(course, rows, submissions, [*exercises], known, here)],
        [_printable(each) for each in alike[:MOST_ALIKE]],
        max(0, len(alike) - MOST_ALIKE),
        sum(not s.verdicts for s in submissions),
    )


def _who(
    rows: Sequence[Row], failures: Sequence[Failure], names: Mapping[str, str]
) -> dict[str, Sequence[str]]:
    """List who handed in, who is late and so on, with a remark on each where there is one.

    Args:
        rows: how the submissions of an assignment stand.
        failures: those that have no grade.
        names: of everybody in the roster, by their id.
    """
    why = {(f.student, f.assignment): f.why for f in failures}
    handed_in = [row for row in rows if row.is_handed_in]
    there = {row.student for row in handed_in} | {r.student for r in rows if r.state == "awaited"}
    awaited = [*(row.student for row in rows), *names]

    def named(student: str) -> str:
        return f"{student} ({names[student]})" if names.get(student) else student

    def told(row: Row) -> str:
        reason = " ".join(why.get((row.student, row.assignment), "").split())
        return printable(named(row.student) + f": {reason}" * bool(reason))

    return {
        "handed in": [told(row) for row in handed_in],
        "missing": [printable(named(s)) for s in dict.fromkeys(awaited) if s not in there],
        "late": [
            printable(named(row.student) + _lateness(row))
            for row in rows
            if row.seconds_late or row.late
        ],
        "broken": [told(row) for row in rows if row.state == "broken"],
        "failed": [told(row) for row in rows if row.state == "failed"],
        "to look at": [
            printable(f"{named(row.student)}: {', '.join(waiting)}")
            for row in rows
            for waiting in [[n for n, mark in row.marks.items() if mark.needs_a_look]]
            if waiting
        ],
    }


def _lateness(row: Row) -> str:
    """By how much somebody was late, and what that costs."""
    days, rest = divmod(int(row.seconds_late), 24 * 3600)
    when = f"{days} d {rest // 3600} h" if days else f"{rest // 3600} h {rest % 3600 // 60} min"
    cost = f", {number(row.late)} taken off" if row.late else ""
    return f": {when}{cost}"


def _summary(totals: Sequence[float], points: float) -> str:
    if not totals:
        return "Nothing of it is graded yet."
    if len(totals) == 1:
        return f"One submission is graded: {number(totals[0])} of {number(points)} points."
    return (
        f"{len(totals)} submissions are graded. Of {number(points)} points, they have "
        f"{number(fmean(totals))} on average; half of them have {number(median(totals))} or more, "
        f"the least is {number(min(totals))}, and the most {number(max(totals))}."
    )


def _exercise(name: str, submissions: Sequence[Submission], names: Sequence[str]) -> ExercisePart:
    mine = [s for s in submissions if name in s.row.marks]
    states = Counter(s.state(name) for s in mine)
    found = diagnoses(name, mine)
    without_diagnosis = unexplained(name, mine)
    known = EXERCISES.get(name)
    return ExercisePart(
        printable(name),
        known.title if known else "",
        number(mine[0].row.marks[name].points),
        {state: states[state] for state in STATES if states[state]},
        item_rest_in_words(name, mine),
        found[:MOST_DIAGNOSES],
        max(0, len(found) - MOST_DIAGNOSES),
        designs_of(name, mine),
        two_answers(name, mine, found, names),
        [candidate(name, s) for s in without_diagnosis[:MOST_CANDIDATES]],
        max(0, len(without_diagnosis) - MOST_CANDIDATES),
    )


def _printable(alike: Alike) -> Any:
    students = tuple(map(printable, alike.students))
    exercises = tuple(map(printable, alike.exercises))
    return Alike(students, exercises, tuple(map(printable, alike.same_code)))
