"""Find the students whom learning platforms mean, with the help of the roster.

`Platform` is the base class of the learning platforms, which are listed in `platforms.py`.
"""

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final

from autograder.instructor.classroom import (
    LOGIN_COLUMNS,
    MAX_ID_CHARACTERS,
    Person,
    is_folder_name,
)
from autograder.instructor.commands import printable
from autograder.instructor.course import ClassRules, compose_name

NOT_SUBMITTED: Final = ("", "-")
"""Cells of a table of times that say that nothing was submitted."""


class TimesError(RuntimeError):
    """A line or a table of times cannot be understood; the message says what was expected."""


class Platform:
    """A learning platform: what the names in its zip files mean, and its table of times.

    A new platform is a subclass in a module of its own, and one of `PLATFORMS` in `platforms.py`.

    Attributes:
        times_table: the name of its table of times of arrival.
        times_columns: the columns by which that table is recognised; none if there is no such
            table.
        times_columns_described: a clause that says how to get a table with these columns.
        tells_assignment: whether a line of the table can say which assignment it is of.
    """

    name: str
    times_table: str = ""
    times_columns: Set[str] = frozenset()
    times_columns_described: str = ""
    tells_assignment: bool = False

    def name_id_column(self, rules: ClassRules) -> str:
        """Return the name of the roster's column with the students' numbers.

        It is empty if the names of this platform's files have no numbers.
        """
        return ""

    def advise_on_namesakes(self, rules: ClassRules) -> str:
        """Return a sentence on how to tell apart students of the same name."""
        column = self.name_id_column(rules)
        if not column:
            return "Put each into a folder that is named by their id."
        return (
            f"A column {column} in the roster would tell them apart, or put each into a folder "
            f"that is named by their id."
        )

    def advise_on_unsure_number(self, assignment: str) -> str:
        """Return a sentence on how to make the roster sure of a number.

        Only a platform whose `find_certain_numbers` differs from `find_numbers` is asked.

        Args:
            assignment: the assignment; empty if it is not known.
        """
        raise NotImplementedError

    def parse_owner(self, name: PurePosixPath) -> "OwnedFile | None":
        """Parse a file's name in an archive; None if this platform has not written it.

        The platform writes the beginning of the name; the rest may be written by a student.
        """
        raise NotImplementedError

    def find_numbers(self, person: Person, rules: ClassRules, assignment: str) -> Set[str]:
        """Return the numbers that a person may have on this platform, according to the roster.

        Args:
            person: the person.
            rules: the rules of the class, which name the roster's columns.
            assignment: the assignment; empty if it is not known.
        """
        return frozenset()

    def find_certain_numbers(self, person: Person, rules: ClassRules, assignment: str) -> Set[str]:
        """Return the person's numbers, if the roster is sure of all of them."""
        return self.find_numbers(person, rules, assignment)

    def parse_arrival(
        self, row: Mapping[str, str], assignment: str, rules: ClassRules
    ) -> "Arrival | None":
        """Parse a line of the table of times; None if it has no time, or is of another assignment.

        Args:
            row: the line's cells, by column.
            assignment: the only assignment to read; empty if the table has to say it.
            rules: the rules of the class, with the platform's numbers of assignments.

        Raises:
            TimesError: the line cannot be understood.
        """
        raise NotImplementedError

    def find_student(self, arrival: "Arrival", owners: "Owners", submitted: Collection[str]) -> str:
        """Return the id of the student whom a line of the table of times is about.

        Args:
            arrival: the line.
            owners: the roster, with the rules of the class.
            submitted: the students who have submitted the assignment, for a class without a roster.

        Raises:
            TimesError: it is not certain whom the line is about.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Arrival:
    """A line of a platform's table: a submission, and when it arrived.

    Attributes:
        time: when it arrived; without a time zone if the platform gives none.
        number: the student's number on the platform.
        email: the student's address; empty if the table has none.
        name: the student's name; empty if the table has none.
        is_late: whether the platform marks it as late; None if its table does not say.
    """

    assignment: str
    time: datetime
    number: str
    email: str = ""
    name: str = ""
    is_late: bool | None = None


@dataclass(frozen=True)
class OwnedFile:
    """A file's owner and name, as the platform encodes them in its name in the archive.

    Attributes:
        platform: the learning platform.
        name: the student's name, as the platform writes it.
        user: the student's number on the platform; empty if the name has none.
        participant: the student's number in this assignment alone; empty if the name has none.
        file: the file's name, without the platform's prefix.
        order: sorts a student's files of one name by the time of submission.
        is_late: whether the platform marks it as late.
        is_anonymous: whether the platform gives a name that it made up, for anonymous grading.
    """

    platform: Platform
    name: str
    user: str
    file: PurePosixPath
    order: int = 0
    is_late: bool = False
    participant: str = ""
    is_anonymous: bool = False

    @property
    def number(self) -> str:
        """The student's number, on the platform or in this assignment alone."""
        return self.user or self.participant


def read_cells(person: Person, columns: Set[str]) -> Set[str]:
    """Return what a person has in some columns of the roster, without empty cells."""
    return {person.cell(column).strip() for column in columns} - {""}


class UnknownOwnerError(RuntimeError):
    """The student who owns a file cannot be determined; the message says why."""


class Owners:
    """Finds the student who owns a file.

    Args:
        people: the roster; if it is empty, students are named as the platform names them.
        rules: the rules of the class, which name the roster's columns.
    """

    def __init__(self, people: Sequence[Person], rules: ClassRules) -> None:
        self.people, self.rules = people, rules
        self.by_id = {compose_name(person.id): person for person in people}
        self.by_name: dict[str, set[str]] = {}
        for person in people:
            for name in {*_names(person)} - {""}:  # "-" may stand for a name that is unknown
                self.by_name.setdefault(name, set()).add(person.id)

    def knows(self, owned: OwnedFile) -> bool:
        """Check whether the roster has a student of this name or id."""
        return bool(self.find_ids_named(owned.name)) or compose_name(owned.name) in self.by_id

    def find_ids_named(self, name: str) -> set[str]:
        """Return the ids of the students who have a name, if it has letters or digits."""
        return self.by_name.get(_key(name), set())

    def find_ids_numbered(self, platform: Platform, number: str, assignment: str) -> set[str]:
        """Return the ids of the students who have a platform's number; none without a number."""
        return {
            person.id
            for person in self.people
            if number and number in platform.find_numbers(person, self.rules, assignment)
        }

    def has_number(self, student: str, owned: OwnedFile, assignment: str) -> bool:
        """Check whether a student has a file's number, according to the roster."""
        person = self.by_id.get(compose_name(student))
        if person is None:
            return False
        return owned.number in owned.platform.find_numbers(person, self.rules, assignment)

    def id_of(self, owned: OwnedFile, assignment: str = "") -> str:
        """Return the id of the student who owns a file.

        A number that only one student has decides. Moodle's numbers differ between assignments, so
        one that the roster does not have for this assignment must not be against the name.

        Args:
            owned: the file.
            assignment: its assignment; empty if that is not known.

        Raises:
            UnknownOwnerError: no student has this name or number, or several have.
        """
        if not self.people:
            return _id_without_roster(owned)
        shown, number = printable(owned.name), owned.number
        if number:
            shown = f"{shown} ({owned.platform.name}'s number {number})"
        named = self.find_ids_named(owned.name)
        numbered = {p.id for p in self.people if self.has_number(p.id, owned, assignment)}
        if len(numbered) > 1:  # the same number in two assignments
            numbered &= named
        if len(numbered) == 1:
            (student,) = numbered
            is_certain = bool(self._find_certain_numbers(student, owned.platform, assignment))
            if named and student not in named and not is_certain:
                raise UnknownOwnerError(
                    f"{shown} has the number of {printable(student)} in grading/roster.csv, and "
                    f"the name of {_join(named)}. "
                    f"{owned.platform.advise_on_unsure_number(assignment)}"
                )
            return student
        exact = self.by_id.get(compose_name(owned.name))
        if exact is not None and not number:
            return exact.id
        if owned.is_anonymous:
            return _id_without_roster(owned)
        if len(named) > 1:
            raise UnknownOwnerError(
                f"the roster has more than one {shown}. "
                f"{owned.platform.advise_on_namesakes(self.rules)}"
            )
        if not named:
            has_number = ", or has this number" if number else ""
            raise UnknownOwnerError(f"nobody in the roster is called {shown}{has_number}.")
        (student,) = named
        others = self._find_certain_numbers(student, owned.platform, assignment)
        if number and others and number not in others:
            raise UnknownOwnerError(
                f"The name of {shown} is that of {printable(student)}, whose number in the roster "
                f"is {_join(others)}."
            )
        return student

    def _find_certain_numbers(self, student: str, platform: Platform, assignment: str) -> Set[str]:
        """Return a student's numbers on a platform, if the roster is sure of all of them."""
        person = self.by_id[compose_name(student)]
        return platform.find_certain_numbers(person, self.rules, assignment)


def _join(names: Iterable[str]) -> str:
    return printable(" or ".join(sorted(names)))


def _id_without_roster(owned: OwnedFile) -> str:
    """Return the name of a student's folder if there is no roster: their name on the platform.

    Raises:
        UnknownOwnerError: no folder can have that name.
    """
    name = compose_name(owned.name)
    name = f"{name}_{owned.user}" if owned.user else name
    if not is_folder_name(name):
        raise UnknownOwnerError(
            f"no folder can be called {printable(name)[:MAX_ID_CHARACTERS]!r}. A roster "
            f"(grading/roster.csv) would say who that is."
        )
    return name


def _names(person: Person) -> Iterator[str]:
    """Yield the names that a platform may have for a person, as `_key` returns them."""
    yield _key(person.id)
    yield from (_key(person.email), _key(person.email.partition("@")[0])) if person.email else ()
    for column in LOGIN_COLUMNS:
        if person.cell(column):
            yield _key(person.cell(column))
    parts = person.name.replace(",", " ").split()
    for first in range(len(parts)):  # first name first, or last name first
        yield _key("".join(parts[first:] + parts[:first]))


def _key(name: str) -> str:
    """Return a name's letters and digits, in lower case and without accents; empty without any."""
    kept, is_latin = [], True
    for c in unicodedata.normalize("NFKD", name).casefold():
        if c.isalnum():
            kept.append(c)
            is_latin = unicodedata.name(c, "LATIN").startswith("LATIN")
        elif not is_latin and unicodedata.category(c) in ("Mn", "Mc"):  # marks may be vowels
            kept.append(c)
    return "".join(kept)
