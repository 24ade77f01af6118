"""Who is in a class: `grading/roster.csv`, which an instructor writes or exports.

The gradebook is kept in step with it, and a command can be told to use only one assignment, one
student, or both.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from nbgrader.api import Gradebook, Student

from autograder.instructor.classroom.submission_states import StateRow
from autograder.instructor.course import Course, WrittenTableError, near, printable, read_table
from autograder.instructor.gradebook import is_server
from autograder.instructor.nbgrader_plugins import Times, settle_lateness, times_of
from autograder.instructor.pipeline import State

ROSTER_FILE: Final = "roster.csv"

MAX_ID_CHARACTERS: Final = 128
"""nbgrader's own limit for an id or a name."""

MAX_REPORTED_LINES: Final = 5

SPREADSHEET_NUMBER: Final = re.compile(r"\d([.,]\d+)?E\+\d+")
"""What a spreadsheet makes of a long number."""

PLATFORM_COLUMNS: Final = ("lms_user_id", "canvas_id", "moodle_id")
"""Columns of which nbgrader keeps one, too."""


MOODLE_ID_PREFIX: Final = "moodle_id_"
"""A column with Moodle's ids for one assignment begins so, and ends with its name."""

COLUMNS: Final = ("id", "name", "first_name", "last_name", "email", "section", *PLATFORM_COLUMNS)
"""Those of which something is made; others are kept."""


class RosterError(WrittenTableError):
    """The roster cannot be understood; the message says which lines, and what to do."""


@dataclass(frozen=True)
class Person:
    """Somebody in the class.

    Attributes:
        id: the name of their folder in `grading/submitted/`.
        name: as the roster writes it; empty where it says none.
        email: likewise.
        section: likewise.
        others: what stands in the roster's other columns, such as `canvas_id` and `moodle_id`, by
            their names in lower case.
    """

    id: str
    name: str = ""
    email: str = ""
    section: str = ""
    others: Mapping[str, str] = field(default_factory=dict)


def read_roster(course: Course) -> list[Person]:
    """The people of a class, in the order of `grading/roster.csv`; none where that is not there.

    Its first line names its columns: `id`, and any of `name` (or `first_name` and `last_name`),
    `email`, `section`, `canvas_id`, `moodle_id`, and others.

    Raises:
        RosterError: it cannot be understood.
    """
    path = course.grading / ROSTER_FILE
    if not path.exists():
        return []
    try:
        rows = read_table(path, ("id",), {"student_id": "id", "student": "id", "e-mail": "email"})
    except WrittenTableError as error:
        raise RosterError(f"grading/{error}") from None
    people = [(line, _person(row)) for line, row in rows]
    wrong = list(_wrong(people))
    if wrong:
        more = f" {len(wrong) - MAX_REPORTED_LINES} more lines are like these." * (
            len(wrong) > MAX_REPORTED_LINES
        )
        raise RosterError(f"grading/{ROSTER_FILE} {' '.join(wrong[:MAX_REPORTED_LINES])}{more}")
    return [person for _, person in people]


def _person(row: dict[str, str]) -> Person:
    both = [row.get("first_name", ""), row.get("last_name", "")]
    return Person(
        row.pop("id"),
        row.pop("name", "") or " ".join(filter(None, both)),
        row.pop("email", ""),
        row.pop("section", ""),
        row,
    )


def _wrong(people: Sequence[tuple[int, Person]]) -> Iterator[str]:
    """A sentence for each line that cannot be right."""
    seen: dict[str, int] = {}
    for line, person in people:
        why = _cannot_be_an_id(person.id)
        if why:
            yield f"line {line}: {why}"
        elif person.id in seen:
            yield (
                f"line {line}: the id {printable(person.id)} stands in line {seen[person.id]}, "
                f"too. Each student has one line."
            )
        elif any(len(text) > MAX_ID_CHARACTERS for text in (person.name, person.email)):
            most = MAX_ID_CHARACTERS
            yield f"line {line}: the name or the address has more than {most} characters."
        elif not all(text.isprintable() for text in (person.name, person.email, person.section)):
            yield f"line {line}: a cell has line breaks or other characters that cannot be shown."
        seen.setdefault(person.id, line)


def _cannot_be_an_id(text: str) -> str:
    """Why a text cannot be the name of a student's folder; empty where it can."""
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
        gradebook: an open one; what is entered is committed.
        people: the roster.
    """
    there = {student.id: student for student in gradebook.db.query(Student)}
    for person in people:
        student = there.get(person.id)
        if student is None:
            student = Student(id=person.id)
            gradebook.db.add(student)
        for attribute, value in _as_nbgrader_has_it(person).items():
            if value and getattr(student, attribute) != value:
                setattr(student, attribute, value)
    gradebook.db.commit()


def _as_nbgrader_has_it(person: Person) -> dict[str, Any]:
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
"""How many known names are listed where none is similar."""


class UnknownNameError(LookupError):
    """There is no such assignment or student; the message names those that are near."""


@dataclass(frozen=True)
class Choice:
    """What is asked for; all of it, where nothing is said.

    Attributes:
        assignment: its id; empty for all.
        student: likewise.
    """

    assignment: str = ""
    student: str = ""

    def has(self, student: str, assignment: str) -> bool:
        """Whether a submission is among what is asked for."""
        return self.student in ("", student) and self.assignment in ("", assignment)

    def of(self, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Of pairs of a student and an assignment, those that are asked for."""
        return [pair for pair in pairs if self.has(*pair)]


EVERYTHING: Final = Choice()


def choose(course: Course, assignment: str = "", student: str = "") -> Choice:
    """What is asked for by names, once it is known that there are such.

    Raises:
        UnknownNameError: there are not.
        RosterError: it cannot be looked up in the roster.
    """
    if assignment and assignment not in (there := course.assignments()):
        raise UnknownNameError(f"There is no assignment {_said(assignment, there)}")
    if student and student not in (known := _students(course)):
        if not known:
            raise UnknownNameError(
                f"There is no student {printable(student)}: nobody has handed in, and there is no "
                f"grading/roster.csv."
            )
        raise UnknownNameError(f"There is no student {_said(student, known)}")
    return Choice(assignment, student)


def _students(course: Course) -> list[str]:
    """Everybody who has handed in, is in the roster, or has a grade."""
    handed_in = {student for student, _ in course.submissions()}
    handed_in |= {folder.parent.name for folder in course.submitted.glob("*/*") if folder.is_dir()}
    return sorted(handed_in | {person.id for person in read_roster(course)} | _graded(course))


def _graded(course: Course) -> set[str]:
    about = course.api.coursedir
    if not is_server(about.db_url) and not (course.grading / "gradebook.db").exists():
        return set()  # else nbgrader would make one
    with Gradebook(about.db_url, about.course_id) as gradebook:
        return {student.id for student in gradebook.students}


def _said(name: str, there: Collection[str]) -> str:
    question = near(name, there)
    all_of_them = f" There are {', '.join(map(printable, there))}." if there else ""
    return f"{printable(name)}.{question or (all_of_them if len(there) <= MAX_NAMED else '')}"


@dataclass(frozen=True)
class ClassFacts:
    """Who is in a class, and when what is due.

    Attributes:
        people: the roster, in its order; empty where there is none.
        times: when things were handed in, by the instructor's word.
        due: when each assignment is due for all, where that is known.
        points: the most points that there are for each assignment.
    """

    people: Sequence[Person]
    times: Times
    due: dict[str, datetime]
    points: dict[str, float]

    def due_for(self, student: str, assignment: str) -> datetime | None:
        """When an assignment is due for somebody, with the extension that they have."""
        due = self.due.get(assignment)
        more = self.times.rules.extension(student, assignment, due)
        return due if due is None or more is None else due + more


def check_class_files(course: Course) -> None:
    """See to it that what an instructor wrote of a class can be understood, before it is needed.

    Raises:
        ClassError: it cannot.
    """
    read_roster(course)
    times_of(course)


def enter_people(course: Course) -> list[Person]:
    """Enter the roster into the gradebook, from which pages have their names; who is in it.

    Raises:
        RosterError: it cannot be understood.
    """
    people, about = read_roster(course), course.api.coursedir
    with Gradebook(about.db_url, about.course_id) as gradebook:
        enter_roster(gradebook, people)
    return people


def enter_roster_and_times(course: Course) -> ClassFacts:
    """Enter the roster and all times into the gradebook, and find penalties for being late anew.

    Raises:
        ClassError: what is written of the class cannot be understood.
    """
    people, about = enter_people(course), course.api.coursedir
    settle_lateness(course)
    times = times_of(course)
    with Gradebook(about.db_url, about.course_id) as gradebook:
        due = {each.name: each.duedate.replace(tzinfo=UTC)
               for each in gradebook.assignments if each.duedate is not None}  # fmt: skip
        points = {each.name: float(each.max_score) for each in gradebook.assignments}
    return ClassFacts(people, times, {**due, **(times.rules.due or {})}, points)


def add_times(facts: ClassFacts, rows: Sequence[StateRow]) -> Iterator[StateRow]:
    """The same rows, those also with their times that nbgrader has no submission of."""
    for row in rows:
        naive = facts.times.handed_in(row.student, row.assignment)
        if row.graded or naive is None:
            yield row
            continue
        came, due = naive.replace(tzinfo=UTC), facts.due_for(row.student, row.assignment)
        late = max((came - due).total_seconds(), 0.0) if due is not None else 0.0
        yield replace(row, handed_in=came, due=due, seconds_late=late)


def find_missing_submissions(
    facts: ClassFacts, rows: Sequence[StateRow], now: datetime
) -> Iterator[StateRow]:
    """A row for each of the roster who has not handed in what others have, or what was due.

    Args:
        facts: the class.
        rows: of what was handed in.
        now: what is due later is awaited, and not missing.
    """
    there = {(row.student, row.assignment) for row in rows}
    due = [assignment for assignment, when in facts.due.items() if when < now]
    for assignment in sorted({row.assignment for row in rows}.union(due)):
        for person in facts.people:
            if (person.id, assignment) not in there:
                until = facts.due_for(person.id, assignment)
                state = State.MISSING if until is None or until < now else State.AWAITED
                points = facts.points.get(assignment, 0.0)
                yield StateRow(person.id, assignment, state, points=points, due=until)
