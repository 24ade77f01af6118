"""The roster of a class, `grading/roster.csv`, which an instructor writes or exports.

The gradebook's students are kept in step with it. A command can be limited to one assignment, one
student, or both (`Choice`).
"""

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from nbgrader.api import Gradebook, Student

from autograder.instructor.classroom.submission_states import StateRow
from autograder.instructor.course import (
    WITHDRAWN_FILE,
    Course,
    WrittenTableError,
    is_written,
    printable,
    read_table,
    read_time_zone,
    read_withdrawn,
    suggest_names,
    write_atomically,
)
from autograder.instructor.gradebook import is_server
from autograder.instructor.nbgrader_plugins import Times, load_times, settle_lateness
from autograder.instructor.pipeline import State
from shardlings.errors import ShortError

ROSTER_FILE: Final = "roster.csv"

MAX_ID_CHARACTERS: Final = 128
"""nbgrader's own limit for an id or a name."""

MAX_REPORTED_LINES: Final = 5

SPREADSHEET_NUMBER: Final = re.compile(r"\d([.,]\d+)?E\+\d+")
"""A long number as a spreadsheet writes it, with an exponent."""

PLATFORM_COLUMNS: Final = ("lms_user_id", "canvas_id", "moodle_id")
"""Columns with a learning platform's id; the first that is filled is nbgrader's `lms_user_id`."""

MOODLE_ID_PREFIX: Final = "moodle_id_"
"""The beginning of a column with Moodle's ids for one assignment, before the assignment's name."""

LOGIN_COLUMNS: Final = ("username", "login", "kaggle", "kaggle_id")
"""Columns with a name that a student's folder may have in a platform's zip file."""

COLUMNS: Final = (
    "id", "name", "first_name", "last_name", "email", "section", "sis_id", "canvas_login",
    *PLATFORM_COLUMNS, *LOGIN_COLUMNS,
)  # fmt: skip
"""The known columns; others are kept as they are."""

OTHER_NAMES: Final = {"student_id": "id", "student": "id", "e-mail": "email"}
"""Other names of columns."""


class RosterError(WrittenTableError):
    """The roster cannot be understood; the message says which lines, and what to do."""


@dataclass(frozen=True)
class Person:
    """Somebody in the class.

    Attributes:
        id: the name of their folder in `grading/submitted/`.
        name: their name in the roster; empty if it has none.
        email: their email address; empty if the roster has none.
        section: their section; empty if the roster has none.
        others: the cells of the roster's other columns, such as `canvas_id` and `moodle_id`, by
            the columns' names in lower case.
    """

    id: str
    name: str = ""
    email: str = ""
    section: str = ""
    others: Mapping[str, str] = field(default_factory=dict)

    def cell(self, column: str) -> str:
        """Return the cell in a column of the roster; empty if there is none."""
        known = {"id": self.id, "name": self.name, "email": self.email, "section": self.section}
        return known.get(column) or self.others.get(column, "")


def read_roster(course: Course, everybody: bool = False) -> list[Person]:
    """Read `grading/roster.csv`: the people of a class, in its order; none if it does not exist.

    Its first line names its columns: `id`, and any of `name` (or `first_name` and `last_name`),
    `email`, `section`, `canvas_id`, `moodle_id`, and others.

    Args:
        course: the course.
        everybody: whether to include students who have withdrawn.

    Raises:
        RosterError: it cannot be understood.
    """
    left_out = {} if everybody else read_withdrawn(course.grading)
    path = course.grading / ROSTER_FILE
    if not is_written(path):
        return []
    try:
        rows = read_table(path, ("id",), OTHER_NAMES)
    except WrittenTableError as error:
        raise RosterError(f"grading/{error}") from None
    people = [(line, _person(row)) for line, row in rows]
    errors = list(_find_errors(people))
    if errors:
        more = f" {len(errors) - MAX_REPORTED_LINES} more lines are like these." * (
            len(errors) > MAX_REPORTED_LINES
        )
        raise RosterError(f"grading/{ROSTER_FILE} {' '.join(errors[:MAX_REPORTED_LINES])}{more}")
    return [person for _, person in people if person.id not in left_out]


def _person(row: dict[str, str]) -> Person:
    names = [row.get("first_name", ""), row.get("last_name", "")]
    return Person(
        row.pop("id"),
        row.pop("name", "") or " ".join(filter(None, names)),
        row.pop("email", ""),
        row.pop("section", ""),
        row,
    )


def _find_errors(people: Sequence[tuple[int, Person]]) -> Iterator[str]:
    """Yield a sentence for each line that cannot be right."""
    seen: dict[str, int] = {}
    for line, person in people:
        why = _explain_bad_id(person.id)
        if why:
            yield f"line {line}: {why}"
        elif person.id in seen:
            yield (
                f"line {line}: the id {printable(person.id)} is also in line {seen[person.id]}. "
                f"Each student has one line."
            )
        elif any(len(text) > MAX_ID_CHARACTERS for text in (person.name, person.email)):
            limit = MAX_ID_CHARACTERS
            yield f"line {line}: the name or the address has more than {limit} characters."
        elif not all(text.isprintable() for text in (person.name, person.email, person.section)):
            yield f"line {line}: a cell has line breaks or other characters that cannot be shown."
        seen.setdefault(person.id, line)


def _explain_bad_id(text: str) -> str:
    """Return why a text cannot be the name of a student's folder; empty if it can."""
    shown = printable(text)
    if not text:
        return "there is no id. It is the name of the student's folder in grading/submitted/."
    if SPREADSHEET_NUMBER.fullmatch(text):
        return (
            f"the id {shown} is a number that a spreadsheet has shortened. Format the column as "
            f"text, and enter the ids again."
        )
    if len(text) > MAX_ID_CHARACTERS:
        return f"the id has more than {MAX_ID_CHARACTERS} characters."
    if not text.isprintable() or text.startswith(".") or set(text) & set('/\\*?[]:"<>|'):
        return (
            f"the id {shown} cannot be the name of a folder: it must not begin with a full stop, "
            f'nor have any of / \\ * ? [ ] : " < > | in it.'
        )
    return ""


def enter_roster(gradebook: Gradebook, people: Sequence[Person]) -> None:
    """Enter people into nbgrader's own table of students; nobody is removed from it.

    Args:
        gradebook: an open gradebook; the changes are committed.
        people: the roster.
    """
    students = {student.id: student for student in gradebook.db.query(Student)}
    for person in people:
        student = students.get(person.id)
        if student is None:
            student = Student(id=person.id)
            gradebook.db.add(student)
        for attribute, value in _nbgrader_attributes(person).items():
            if value and getattr(student, attribute) != value:
                setattr(student, attribute, value)
    gradebook.db.commit()


def _nbgrader_attributes(person: Person) -> dict[str, Any]:
    first, last = person.others.get("first_name", ""), person.others.get("last_name", "")
    if not (first or last) and "," in person.name:
        last, _, first = (part.strip() for part in person.name.partition(","))
    elif not (first or last):
        first, _, last = person.name.rpartition(" ")
    ids = (person.others.get(column, "") for column in PLATFORM_COLUMNS)
    return {
        "first_name": first,
        "last_name": last,
        "email": person.email,
        "lms_user_id": next(filter(None, ids), ""),
    }


MAX_NAMED: Final = 12
"""The most known names that are listed if none is similar."""


class UnknownNameError(ShortError, LookupError):
    """There is no such assignment or student; the message names similar ones."""


@dataclass(frozen=True)
class Choice:
    """The submissions that a command was asked for.

    Attributes:
        assignment: the only assignment; empty for all.
        student: the only student; empty for all.
    """

    assignment: str = ""
    student: str = ""

    def has(self, student: str, assignment: str) -> bool:
        """Check whether a submission is chosen."""
        return self.student in ("", student) and self.assignment in ("", assignment)

    def of(self, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the chosen ones of pairs of a student and an assignment."""
        return [pair for pair in pairs if self.has(*pair)]


EVERYTHING: Final = Choice()


def choose(course: Course, assignment: str = "", student: str = "") -> Choice:
    """Make a choice, once it is known that the assignment and the student exist.

    Raises:
        UnknownNameError: one of them does not exist.
        RosterError: the roster cannot be understood.
    """
    if assignment and assignment not in (known := course.assignments()):
        raise UnknownNameError(
            course.explain_misnamed(assignment)
            or f"There is no assignment {_with_suggestion(assignment, known)}"
        )
    if student and student in read_withdrawn(course.grading):
        raise UnknownNameError(
            f"{printable(student)} has withdrawn. BACK=1 takes that back: "
            f"make withdraw STUDENT={printable(student)} BACK=1."
        )
    if student and student not in (known := _students(course)):
        if not known:
            raise UnknownNameError(
                f"There is no student {printable(student)}: nobody has handed in, and there is no "
                f"grading/roster.csv."
            )
        raise UnknownNameError(f"There is no student {_with_suggestion(student, known)}")
    return Choice(assignment, student)


def withdraw(course: Course, student: str, back: bool) -> str:
    """Write into `grading/withdrawn.csv` that a student has left the class, or has come back.

    Nothing else is changed: submissions, grades and pages stay where they are.

    Returns:
        A sentence about what has changed.

    Raises:
        UnknownNameError: there is no such student, or no such student has withdrawn.
        ClassError: the file cannot be understood.
    """
    withdrawn, shown = read_withdrawn(course.grading), printable(student)
    if back:
        if student not in withdrawn:
            raise UnknownNameError(
                f"grading/{WITHDRAWN_FILE} does not have {_with_suggestion(student, withdrawn)}"
            )
        del withdrawn[student]
        said = f"{shown} is in the class again."
    else:
        if not student:
            raise UnknownNameError("Say who: make withdraw STUDENT=ann.")
        choose(course, student=student)
        zone = read_time_zone(course.grading, course.assignments())
        withdrawn[student] = f"{datetime.now(zone):%Y-%m-%d}"
        said = (
            f"{shown} has withdrawn, and is left out of tables, CSVs, exports and the report from "
            f"now on. Grades and submissions are kept."
        )
    table = io.StringIO()
    csv.writer(table).writerows([("student", "since"), *withdrawn.items()])
    write_atomically(course.grading / WITHDRAWN_FILE, table.getvalue().encode())
    return f"{said} make report shows the class."


def _students(course: Course) -> list[str]:
    """Return the ids of all who have submitted, are in the roster, or have a grade."""
    handed_in = {student for student, _ in course.submissions()}
    handed_in |= {folder.parent.name for folder in course.submitted.glob("*/*") if folder.is_dir()}
    in_roster = {person.id for person in read_roster(course)}
    return sorted(handed_in | in_roster | _students_in_gradebook(course))


def _students_in_gradebook(course: Course) -> set[str]:
    coursedir = course.api.coursedir
    if not is_server(coursedir.db_url) and not (course.grading / "gradebook.db").exists():
        return set()  # opening the gradebook would create one
    if course.trouble():  # reported by the command itself
        return set()
    with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        return {student.id for student in gradebook.students}


def _with_suggestion(name: str, known: Collection[str]) -> str:
    question = suggest_names(name, known)
    all_names = f" There are {', '.join(map(printable, known))}." if known else ""
    return f"{printable(name)}.{question or (all_names if len(known) <= MAX_NAMED else '')}"


@dataclass(frozen=True)
class ClassFacts:
    """The roster, the times and the due dates of a class.

    Attributes:
        people: the roster, in its order; empty if there is none.
        times: when submissions were handed in, as the instructor recorded it.
        due: the due date of each assignment that has one, without extensions.
        points: the maximum score of each assignment.
        withdrawn: the students who have left the class.
    """

    people: Sequence[Person]
    times: Times
    due: dict[str, datetime]
    points: dict[str, float]
    withdrawn: Collection[str] = ()

    def due_for(self, student: str, assignment: str) -> datetime | None:
        """Return when an assignment is due for a student, with their extension, if any."""
        due = self.due.get(assignment)
        extension = self.times.rules.extension(student, assignment, due)
        return due if due is None or extension is None else due + extension


def check_class_files(course: Course) -> None:
    """Check that the roster and the class's file can be understood, before anything is graded.

    Raises:
        ClassError: one of them cannot.
    """
    read_roster(course)
    load_times(course)


def enter_people(course: Course) -> list[Person]:
    """Enter the roster into the gradebook, from which feedback pages take names; return it.

    Raises:
        RosterError: it cannot be understood.
    """
    people, coursedir = read_roster(course), course.api.coursedir
    with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        enter_roster(gradebook, people)
    return people


def enter_roster_and_times(course: Course) -> ClassFacts:
    """Enter the roster and all times into the gradebook, and compute late penalties again.

    Raises:
        ClassError: one of the class's files cannot be understood.
    """
    people, coursedir = enter_people(course), course.api.coursedir
    settle_lateness(course)
    times = load_times(course)
    with Gradebook(coursedir.db_url, coursedir.course_id) as gradebook:
        due = {a.name: a.duedate.replace(tzinfo=UTC)
               for a in gradebook.assignments if a.duedate is not None}  # fmt: skip
        points = {a.name: float(a.max_score) for a in gradebook.assignments}
    due |= times.rules.due or {}
    return ClassFacts(people, times, due, points, [*read_withdrawn(course.grading)])


def add_times(facts: ClassFacts, rows: Sequence[StateRow]) -> Iterator[StateRow]:
    """Yield the rows with their lateness, and with times where nbgrader has no submission."""
    for row in rows:
        naive, source = facts.times.find(row.student, row.assignment)
        row = replace(row, time_from=source)
        if not row.graded and naive is not None:
            due = facts.due_for(row.student, row.assignment)
            row = replace(row, handed_in=naive.replace(tzinfo=UTC), due=due)
        yield replace(row, seconds_late=facts.times.rules.seconds_late(row.due, row.handed_in))


def find_missing_submissions(
    facts: ClassFacts, rows: Sequence[StateRow], now: datetime, closed: Collection[str] = ()
) -> Iterator[StateRow]:
    """Yield a row for each submission that somebody in the roster has not made.

    Args:
        facts: the class's roster and due dates.
        rows: the rows of submissions. Their assignments are expected from everybody in the
            roster, as are those whose due date is over.
        now: the current time; a submission that is due later is awaited, and not missing.
        closed: the students whose folders may not be read here, so that nobody knows.
    """
    submitted = {(row.student, row.assignment) for row in rows}
    due = [assignment for assignment, when in facts.due.items() if when < now]
    for assignment in sorted({row.assignment for row in rows}.union(due)):
        for person in facts.people:
            if (person.id, assignment) not in submitted:
                until = facts.due_for(person.id, assignment)
                is_due = until is None or until < now
                state = State.MISSING if is_due else State.AWAITED
                if person.id in closed:
                    state = State.FAILED
                points = facts.points.get(assignment, 0.0)
                yield StateRow(person.id, assignment, state, points=points, due=until)
