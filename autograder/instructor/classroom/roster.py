"""Who is in a class: `grading/roster.csv`, which an instructor writes or exports."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from nbgrader.api import Gradebook, Student

from autograder.instructor.course import Course, WrittenTableError, printable, read_table

ROSTER: Final = "roster.csv"

LONGEST: Final = 128
"""The most characters of an id or a name: nbgrader's own."""

MOST_SAID: Final = 5
"""How many lines are complained of at once."""

SHORTENED: Final = re.compile(r"\d([.,]\d+)?E\+\d+")
"""What a spreadsheet makes of a long number."""

OF_PLATFORMS: Final = ("lms_user_id", "canvas_id", "moodle_id")
"""Columns one of which nbgrader keeps, too."""


OF_ONE_ASSIGNMENT: Final = "moodle_id_"
"""How columns begin that have Moodle's numbers of people in one assignment, whose name follows."""

COLUMNS: Final = ("id", "name", "first_name", "last_name", "email", "section", *OF_PLATFORMS)
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
    path = course.grading / ROSTER
    if not path.exists():
        return []
    try:
        rows = read_table(path, ("id",), {"student_id": "id", "student": "id", "e-mail": "email"})
    except WrittenTableError as error:
        raise RosterError(f"grading/{error}") from None
    people = [(line, _person(row)) for line, row in rows]
    wrong = list(_wrong(people))
    if wrong:
        more = f" {len(wrong) - MOST_SAID} more lines are like these." * (len(wrong) > MOST_SAID)
        raise RosterError(f"grading/{ROSTER} {' '.join(wrong[:MOST_SAID])}{more}")
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
        elif any(len(text) > LONGEST for text in (person.name, person.email)):
            yield f"line {line}: the name or the address has more than {LONGEST} characters."
        elif not all(text.isprintable() for text in (person.name, person.email, person.section)):
            yield f"line {line}: a cell has line breaks or other characters that cannot be shown."
        seen.setdefault(person.id, line)


def _cannot_be_an_id(text: str) -> str:
    """Why a text cannot be the name of a student's folder; empty where it can."""
    shown = printable(text)
    if not text:
        return "there is no id. It is the name of the student's folder in grading/submitted/."
    if SHORTENED.fullmatch(text):
        return (
            f"the id {shown} is a number that a spreadsheet has shortened. Format the column as "
            f"text, and enter the ids again."
        )
    if len(text) > LONGEST:
        return f"the id has more than {LONGEST} characters."
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
    ids = (person.others.get(column, "") for column in OF_PLATFORMS)
    return {
        "first_name": first,
        "last_name": last,
        "email": person.email,
        "lms_user_id": next(filter(None, ids), ""),
    }
