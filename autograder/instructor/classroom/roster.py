"""The roster of a class, `grading/roster.csv`, which an instructor writes or exports.

The gradebook's students are kept in step with it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from nbgrader.api import Gradebook, Student

from autograder.instructor.commands import printable
from autograder.instructor.course import (
    PLATFORM_COLUMNS,
    PLATFORM_ID_COLUMNS,
    Course,
    WrittenTableError,
    is_written,
    read_column_name,
    read_table,
    read_withdrawn,
)

ROSTER_FILE: Final = "roster.csv"

MAX_ID_CHARACTERS: Final = 128
"""nbgrader's own limit for an id or a name."""

MAX_REPORTED_LINES: Final = 5

SPREADSHEET_NUMBER: Final = re.compile(r"\d([.,]\d+)?E\+\d+")
"""A long number as a spreadsheet writes it, with an exponent."""

LOGIN_COLUMNS: Final = ("username", "login", "kaggle", "kaggle_id")
"""Columns with a name that a student's folder may have in a platform's zip file."""

COLUMNS: Final = (
    "id", "name", "first_name", "last_name", "email", "section", *PLATFORM_COLUMNS, *LOGIN_COLUMNS,
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
        """Return the cell in a column of the roster; empty if there is none.

        Args:
            column: the column's name, as the roster, `class.toml` or an assignment's name write it.
        """
        column = read_column_name(column)
        column = OTHER_NAMES.get(column, column)
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


def is_folder_name(name: str) -> bool:
    """Check whether a student's folder may be called so, on all usual systems."""
    return (
        0 < len(name) <= MAX_ID_CHARACTERS
        and name.isprintable()
        and not name.startswith(".")
        and not set(name) & set('/\\*?[]:"<>|')
    )


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
    if not is_folder_name(text):
        return (
            f"the id {shown} cannot be the name of a folder: it must not begin with a full stop, "
            f'nor have any of / \\ * ? [ ] : " < > | in it.'
        )
    return ""


def enter_roster(gradebook: Gradebook, people: Sequence[Person]) -> None:
    """Enter people into nbgrader's own table of students; nobody is removed from it.

    A cell that is empty clears what nbgrader has, unless it is empty for everybody: names or
    addresses that the roster does not have may come from elsewhere.

    Args:
        gradebook: an open gradebook; the changes are committed.
        people: the roster.
    """
    entries = {person.id: _nbgrader_attributes(person) for person in people}
    in_use = {name for entry in entries.values() for name, value in entry.items() if value}
    students = {student.id: student for student in gradebook.db.query(Student)}
    for person in people:
        student = students.get(person.id)
        if student is None:
            student = Student(id=person.id)
            gradebook.db.add(student)
        for attribute, value in entries[person.id].items():
            if attribute in in_use and (getattr(student, attribute) or "") != value:
                setattr(student, attribute, value or None)
    gradebook.db.commit()


def _nbgrader_attributes(person: Person) -> dict[str, Any]:
    first, last = person.others.get("first_name", ""), person.others.get("last_name", "")
    if not (first or last) and "," in person.name:
        last, _, first = (part.strip() for part in person.name.partition(","))
    elif not (first or last):
        first, _, last = person.name.rpartition(" ")
    ids = (person.others.get(column, "") for column in PLATFORM_ID_COLUMNS)
    return {
        "first_name": first,
        "last_name": last,
        "email": person.email,
        "lms_user_id": next(filter(None, ids), ""),
    }
