"""Which student somebody is whom a learning platform names: by the roster, where there is one."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from autograder.instructor.classroom import OF_ONE_ASSIGNMENT, Person
from autograder.instructor.collecting.platforms import Owned
from autograder.instructor.course import printable

UNWANTED: Final = set('/\\*?[]:"<>|')
"""What the name of a student's folder may not have in it."""

LONGEST: Final = 128
"""The most characters of a student's id, which are nbgrader's."""

NUMBERS: Final = {"Canvas": ("canvas_id", "lms_user_id"), "Moodle": ("moodle_id", "lms_user_id")}
"""The columns of a roster that have a platform's number of somebody."""


class UnknownOwnerError(RuntimeError):
    """It cannot be said whose a file is; the message says why."""


class Owners:
    """Knows the students of a class.

    Args:
        people: the roster; where it is empty, students are called as the platform calls them.
    """

    def __init__(self, people: Sequence[Person]) -> None:
        self.people = people
        self.ids = {unicodedata.normalize("NFC", person.id): person.id for person in people}
        self.by_number: dict[tuple[str, str], set[str]] = {}
        self.numbers: dict[tuple[str, str], set[str]] = {}
        self.by_name: dict[str, set[str]] = {}
        for person in people:
            for platform in NUMBERS:
                for number in _numbers(person, platform):
                    self.by_number.setdefault((platform, number), set()).add(person.id)
                    self.numbers.setdefault((platform, person.id), set()).add(number)
            for name in _names(person):
                self.by_name.setdefault(name, set()).add(person.id)

    def knows(self, owned: Owned) -> bool:
        """Whether somebody in the roster is called so."""
        return _key(owned.name) in self.by_name

    def has_number(self, student: str, platform: str, number: str) -> bool:
        """Whether the roster says that a student has this number on a platform."""
        return number in self.numbers.get((platform, student), ())

    def id_of(self, owned: Owned) -> str:
        """The id of the student whose a file is.

        Raises:
            UnknownOwnerError: nobody is called so, or more than one is.
        """
        if not self.people:
            return _own_name(owned)
        shown = printable(owned.name)
        if owned.user:
            mine = self.by_number.get((owned.platform, owned.user), set())
            if len(mine) == 1:
                return next(iter(mine))
            shown = f"{shown} ({owned.platform}'s number {owned.user})"
        exact = self.ids.get(unicodedata.normalize("NFC", owned.name))
        if exact is not None and owned.platform == "folders":
            return exact
        found = self.by_name.get(_key(owned.name), set())
        if len(found) > 1:
            # Moodle's number is another one in each assignment, so it finds nobody by itself
            them = {one for one in found if self.has_number(one, owned.platform, owned.participant)}
            found = them or found
        if len(found) > 1:
            raise UnknownOwnerError(
                f"the roster has more than one {shown}. A column {owned.platform.lower()}_id would "
                f"tell them apart, or put it into their folder yourself."
            )
        if not found:
            raise UnknownOwnerError(f"nobody in the roster is called {shown}.")
        student = next(iter(found))
        others = self.numbers.get((owned.platform, student), set())
        if owned.user and others and owned.user not in others:
            raise UnknownOwnerError(
                f"{shown} is called like {printable(student)}, whose number there is "
                f"{printable(' or '.join(sorted(others)))} by the roster."
            )
        return student


def _numbers(person: Person, platform: str) -> Iterator[str]:
    """A platform's numbers of somebody; Moodle has one for each assignment."""
    for column, said in person.others.items():
        is_one = column in NUMBERS[platform] or (
            platform == "Moodle" and column.startswith(OF_ONE_ASSIGNMENT)
        )
        if is_one and said.strip():
            yield said.strip()


def _own_name(owned: Owned) -> str:
    """What somebody's folder is called where there is no roster: as on the platform.

    Raises:
        UnknownOwnerError: no folder can be called so.
    """
    name = unicodedata.normalize("NFC", owned.name)
    name = f"{name}_{owned.user}" if owned.user else name
    if (
        not name.isprintable()
        or name.startswith(".")
        or set(name) & UNWANTED
        or not 0 < len(name) <= LONGEST
    ):
        raise UnknownOwnerError(
            f"no folder can be called {printable(name)[:LONGEST]!r}. A roster "
            f"(grading/roster.csv) would say who that is."
        )
    return name


def _names(person: Person) -> Iterator[str]:
    """What a platform may call somebody, without all that is no letter or digit."""
    yield _key(person.id)
    yield from (_key(person.email), _key(person.email.partition("@")[0])) if person.email else ()
    for column in ("username", "login", "kaggle", "kaggle_id"):
        if person.others.get(column):
            yield _key(person.others[column])
    parts = person.name.replace(",", " ").split()
    for first in range(len(parts)):  # first name first, or last name first
        yield _key("".join(parts[first:] + parts[:first]))


def _key(name: str) -> str:
    """A name's letters and digits. Accents go from Latin letters; elsewhere, marks are vowels."""
    kept, latin = [], True
    for c in unicodedata.normalize("NFKD", name).casefold():
        if c.isalnum():
            kept.append(c)
            latin = unicodedata.name(c, "LATIN").startswith("LATIN")
        elif not latin and unicodedata.category(c) in ("Mn", "Mc"):
            kept.append(c)
    return "".join(kept)
