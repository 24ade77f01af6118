"""The class report: one HTML file without scripts, which loads nothing from elsewhere.

It has a heat map of students and exercises, whose cells link to feedback pages. Its charts are
tables whose bars are CSS, so they are read by everybody and fit every width.
"""

import datetime
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final
from urllib.parse import quote

from autograder.exercises import EXERCISES, NOTEBOOKS
from autograder.instructor.classroom.class_answers import (
    Answer,
    ClassDesigns,
    Diagnosis,
    SharedMistakes,
    choose_answers,
    collect_designs,
    count_diagnoses,
    find_shared_mistakes,
    find_unexplained_answers,
    list_exercises,
    make_candidate,
)
from autograder.instructor.classroom.roster import Person
from autograder.instructor.classroom.submission_states import (
    STATES,
    Failure,
    StateRow,
    SubmissionState,
)
from autograder.instructor.commands import describe_duration, printable, write_atomically
from autograder.instructor.course import Course, read_time_zone
from autograder.instructor.pages import format_points
from autograder.judge import mark_up
from shardlings.documents import template_environment

MAX_BARS: Final = 12
"""The most bars of a histogram."""


@dataclass(frozen=True)
class TotalsBar:
    """A bar of the histogram of totals.

    Attributes:
        points: from which total to which, in words.
        count: the number of submissions.
        percent: the bar's length, of the longest one's.
    """

    points: str
    count: int
    percent: float


def count_totals(totals: Sequence[float], points: float) -> list[TotalsBar]:
    """Count how many submissions have which total; empty if none is graded.

    Args:
        totals: the total of each graded submission.
        points: the maximum score.
    """
    if not totals:
        return []
    most = max(1, math.ceil(max(points, *totals)))
    step = math.ceil(most / MAX_BARS)
    counts = [0] * math.ceil(most / step)
    for total in totals:
        counts[min(len(counts) - 1, int(total / step + 1e-9))] += 1
    return [
        TotalsBar(f"{step * i} to {step * (i + 1)}", count, 100 * count / max(counts))
        for i, count in enumerate(counts)
    ]


@dataclass(frozen=True)
class HeatMapCell:
    """A cell of the heat map: an answer to an exercise.

    Attributes:
        text: the score, or a sign.
        tenths: the share of the points in tenths, which gives the colour; None for no colour.
        words: the cell in words.
        page: a link to the answer's result on its feedback page; empty if there is no page.
    """

    text: str
    tenths: int | None
    words: str
    page: str = ""


@dataclass(frozen=True)
class HeatMapRow:
    """A row of the heat map: a student's submission.

    Attributes:
        name: the student's name; empty if unknown.
        page: a link to the feedback page; empty if there is none.
        total: the score, or the state of a submission without one.
        cells: a cell for each exercise.
    """

    student: str
    name: str
    page: str
    total: str
    cells: tuple[HeatMapCell, ...]


def heat_map_rows(
    course: Course,
    rows: Sequence[StateRow],
    submissions: Sequence[SubmissionState],
    exercises: Sequence[str],
    known: Mapping[str, str],
    here: Path,
) -> Iterator[HeatMapRow]:
    """Yield the rows of the heat map, the best first; those without a grade last.

    Args:
        course: the course, which has the feedback pages.
        rows: the states of an assignment's submissions.
        submissions: the graded submissions.
        exercises: the columns.
        known: students' names, by their ids.
        here: the report's folder, from which links start.
    """
    graded = {s.row.student: s for s in submissions}
    for row in sorted(rows, key=lambda r: (not r.is_graded, -r.total, r.student.casefold())):
        submission, page = graded.get(row.student), _link_page(course, row, here)
        yield HeatMapRow(
            printable(row.student),
            printable(known.get(row.student, "")),
            page,
            format_points(row.total) if row.is_graded else row.state,
            tuple(_make_heat_map_cell(name, submission, page) for name in exercises),
        )


def _make_heat_map_cell(name: str, submission: SubmissionState | None, page: str) -> HeatMapCell:
    if submission is None or name not in submission.row.marks:
        return HeatMapCell("–", None, "no grade")
    known = EXERCISES.get(name)
    there = f"{page}#result-{quote(known.grade_id if known else name)}" if page else ""
    mark, state = submission.row.marks[name], submission.state(name)
    words = f"{state}, {format_points(mark.score)} of {format_points(mark.points)}"
    if state in ("unanswered", "waiting"):
        return HeatMapCell("○" if state == "unanswered" else "?", None, words, there)
    share = mark.score / mark.points if mark.points else 0.0
    text = "✓" if 0 < mark.points == mark.score else format_points(mark.score)
    return HeatMapCell(text, round(min(max(share, 0.0), 1.0) * 10), words, there)


def _link_page(course: Course, row: StateRow, here: Path) -> str:
    """Return the link from the report to a feedback page; empty if there is none."""
    page = course.feedback / row.student / row.assignment / f"{row.assignment}.html"
    try:
        if not page.is_file():
            return ""
    except (OSError, ValueError):
        return ""
    way = os.path.relpath(page, here)
    return "/".join(quote(os.fsencode(part), safe="") for part in Path(way).parts)


REPORT_FILE: Final = "report/index.html"

TEMPLATE: Final = Path(__file__).with_name("class_report.html.jinja")

MAX_CANDIDATES: Final = 5
"""The most answers to an exercise that are listed as candidates for the bank."""

MAX_DIAGNOSES: Final = 12
MAX_ALIKE: Final = 40

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'"


@dataclass(frozen=True)
class ExercisePart:
    """The report on an exercise."""

    name: str
    title: str
    points: str
    counts: dict[str, int]
    diagnoses: Sequence[Diagnosis]
    more_diagnoses: int
    designs: ClassDesigns | None
    answers: Sequence[Answer]
    candidates: Sequence[Answer]
    more_candidates: int


@dataclass(frozen=True)
class AssignmentPart:
    """The report on an assignment."""

    name: str
    students_by_status: dict[str, Sequence[str]]
    summary: str
    totals: Sequence[TotalsBar]
    exercises: Sequence[ExercisePart]
    heat_map: Sequence[HeatMapRow]
    shared_mistakes: Sequence[SharedMistakes]
    more_shared_mistakes: int
    without_verdicts: int


def write_report(
    course: Course,
    rows: Sequence[StateRow],
    failures: Sequence[Failure],
    people: Sequence[Person],
    submissions: Sequence[SubmissionState],
) -> Path:
    """Write the class report, from what is kept: no submission is run or parsed.

    Args:
        course: the course.
        rows: the states of its submissions.
        failures: submissions that could not be graded.
        people: the roster; empty if there is none.
        submissions: the graded submissions, with their verdicts and code.

    Returns:
        The report's path.

    Raises:
        ClassError: the class's file cannot be understood.
    """
    assignments = dict.fromkeys(row.assignment for row in rows)
    parts = [
        _report_assignment(
            course,
            name,
            [row for row in rows if row.assignment == name],
            failures,
            people,
            [s for s in submissions if s.row.assignment == name],
        )
        for name in assignments
    ]
    zone = read_time_zone(course.grading, course.assignments())
    templates = template_environment(TEMPLATE.parent)
    templates.filters["mark_up"] = mark_up
    page = templates.get_template(TEMPLATE.name).render(
        parts=parts,
        roster=len(people),
        policy=POLICY,
        states=STATES,
        made=f"{datetime.datetime.now(zone):%Y-%m-%d %H:%M %Z}",
    )
    path = course.grading / REPORT_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page.encode(errors="backslashreplace"))
    return path


def _report_assignment(
    course: Course,
    name: str,
    rows: Sequence[StateRow],
    failures: Sequence[Failure],
    people: Sequence[Person],
    submissions: Sequence[SubmissionState],
) -> AssignmentPart:
    exercises = list_exercises(submissions)
    every = [*people, *(Person(row.student) for row in rows)]
    names = [text for p in every for text in (p.id, p.name, p.email.partition("@")[0])]
    parts = [_report_exercise(e, submissions, names) for e in exercises]
    totals = [s.row.total for s in submissions]
    points = max((s.row.points for s in submissions), default=0.0)
    alike = find_shared_mistakes(submissions)
    known, here = {p.id: p.name for p in people}, (course.grading / REPORT_FILE).parent
    return AssignmentPart(
        name,
        _list_students_by_status(rows, failures, known),
        _summarise_totals(totals, points),
        count_totals(totals, points),
        parts,
        [*heat_map_rows(course, rows, submissions, [*exercises], known, here)],
        [_printable(each) for each in alike[:MAX_ALIKE]],
        max(0, len(alike) - MAX_ALIKE),
        sum(not s.verdicts for s in submissions) if NOTEBOOKS.get(name) else 0,
    )


def _list_students_by_status(
    rows: Sequence[StateRow], failures: Sequence[Failure], names: Mapping[str, str]
) -> dict[str, Sequence[str]]:
    """List who handed in, who is late and so on, with remarks.

    Args:
        rows: the states of an assignment's submissions.
        failures: submissions that could not be graded.
        names: the names of everybody in the roster, by their ids.
    """
    why = {(f.student, f.assignment): f.why for f in failures}
    submitted = [row for row in rows if row.is_handed_in]
    there = {row.student for row in rows if row.state != "missing"}
    awaited = [*(row.student for row in rows), *names]

    def named(student: str) -> str:
        return f"{student} ({names[student]})" if names.get(student) else student

    def with_reason(row: StateRow) -> str:
        reason = " ".join(why.get((row.student, row.assignment), "").split())
        return printable(named(row.student) + f": {reason}" * bool(reason))

    left_out = [printable(f"{named(row.student)}: {row.left_out}") for row in rows if row.left_out]
    return {
        "handed in": [with_reason(row) for row in submitted],
        "missing": [printable(named(s)) for s in dict.fromkeys(awaited) if s not in there],
        "late": [
            printable(named(row.student) + _describe_lateness(row))
            for row in rows
            if row.seconds_late or row.late_penalty
        ],
        "broken": [with_reason(row) for row in rows if row.state == "broken"],
        "failed": [with_reason(row) for row in rows if row.state == "failed"],
        "out of date": [
            printable(f"{named(row.student)}: {row.out_of_date}") for row in rows if row.out_of_date
        ],
        "to look at": [
            printable(f"{named(row.student)}: {', '.join(waiting)}")
            for row in rows
            for waiting in [[n for n, mark in row.marks.items() if mark.needs_a_look]]
            if waiting
        ],
        **({"not counted": left_out} if left_out else {}),
    }


def _describe_lateness(row: StateRow) -> str:
    """Return how late a submission is, and its penalty."""
    penalty = f", {format_points(row.late_penalty)} deducted" if row.late_penalty else ""
    return f": {describe_duration(row.seconds_late)}{penalty}"


def _summarise_totals(totals: Sequence[float], points: float) -> str:
    if not totals:
        return "Nothing of it is graded yet."
    all_points = f"{format_points(points)} point{'s' * (points != 1)}"
    if len(totals) == 1:
        return f"One submission is graded: {format_points(totals[0])} of {all_points}."
    return (
        f"{len(totals)} submissions are graded. Of {all_points}, they have "
        f"{format_points(fmean(totals))} on average; half of them have "
        f"{format_points(median(totals))} or more, the least is {format_points(min(totals))}, "
        f"and the most {format_points(max(totals))}."
    )


def _report_exercise(
    name: str, submissions: Sequence[SubmissionState], names: Sequence[str]
) -> ExercisePart:
    mine = [s for s in submissions if name in s.row.marks]
    states = Counter(s.state(name) for s in mine)
    diagnoses = count_diagnoses(name, mine)
    without_diagnosis = find_unexplained_answers(name, mine)
    known = EXERCISES.get(name)
    return ExercisePart(
        printable(name),
        known.title if known else "",
        format_points(mine[0].row.marks[name].points),
        {state: states[state] for state in STATES if states[state]},
        diagnoses[:MAX_DIAGNOSES],
        max(0, len(diagnoses) - MAX_DIAGNOSES),
        collect_designs(name, mine),
        choose_answers(name, mine, diagnoses, names),
        [make_candidate(name, s) for s in without_diagnosis[:MAX_CANDIDATES]],
        max(0, len(without_diagnosis) - MAX_CANDIDATES),
    )


def _printable(alike: SharedMistakes) -> Any:
    students = tuple(map(printable, alike.students))
    exercises = tuple(map(printable, alike.exercises))
    return SharedMistakes(students, exercises, tuple(map(printable, alike.same_code)))
