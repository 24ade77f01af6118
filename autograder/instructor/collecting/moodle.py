"""Moodle: the names in its zip files, its numbers of students, and its worksheet's times."""

import re
from collections.abc import Collection, Mapping, Set
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final

from autograder.instructor.classroom import Person
from autograder.instructor.collecting.owners import (
    NOT_SUBMITTED,
    Arrival,
    OwnedFile,
    Owners,
    Platform,
    TimesError,
    read_cells,
)
from autograder.instructor.commands import printable
from autograder.instructor.course import ANY_PLATFORM_COLUMN, MOODLE_ID_PREFIX, ClassRules


class MoodlePlatform(Platform):
    """Moodle.

    Names: `Jane Doe_4711_assignsubmission_file/notebook.ipynb`, with one more `_` before 2022, or
    the same without a folder. The number differs between assignments. A group's name may stand
    before the student's, and `Participant` in place of it.

    Times: the grading worksheet, with the columns `Identifier`, `Full name`, `Email address` and
    `Last modified (submission)`, in English. They have no zone: they are in that of the person who
    downloaded it.
    """

    name = "Moodle"
    times_table = "Moodle's worksheet"
    times_columns = frozenset({"identifier", "last_modified_(submission)"})
    times_columns_described = (
        "Moodle's grading worksheet has the columns Identifier and Last modified (submission), if "
        "Moodle is set to English when you download it"
    )

    NAME: Final = re.compile(
        r"(?P<name>[^_/]+)_(?P<user>\d+)_assignsubmission_[a-z]+(?:_/?|/)(?P<file>.+)"
    )
    TIME_FORMS: Final = (
        "%A, %d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M", "%A, %B %d, %Y, %I:%M %p",
        "%d %B %Y, %I:%M %p", "%d %B %Y, %H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S",
    )  # fmt: skip
    """British, American, and as spreadsheets save them."""

    def parse_owner(self, name: PurePosixPath) -> OwnedFile | None:
        """Parse a file's name in an archive."""
        match = self.NAME.fullmatch(str(name))
        if match is None:
            return None
        file = PurePosixPath(match["file"])
        return OwnedFile(self, match["name"].strip(), "", file, participant=match["user"])

    def name_id_column(self, rules: ClassRules) -> str:
        """Return the column that `[moodle]` in `class.toml` names."""
        return rules.platforms.moodle.id

    def advise_on_unsure_number(self, assignment: str) -> str:
        """Name the column with the numbers of an assignment."""
        return (
            f"A column {MOODLE_ID_PREFIX}{assignment or '<assignment>'} with this assignment's "
            f"numbers would decide."
        )

    def find_numbers(self, person: Person, rules: ClassRules, assignment: str) -> Set[str]:
        """Return the person's number in an assignment, or those that may be it."""
        if own := self.find_certain_numbers(person, rules, assignment):
            return own
        columns = {rules.platforms.moodle.id, ANY_PLATFORM_COLUMN}
        if not assignment:
            columns |= {name for name in person.others if name.startswith(MOODLE_ID_PREFIX)}
        return read_cells(person, columns)

    def find_certain_numbers(self, person: Person, rules: ClassRules, assignment: str) -> Set[str]:
        """Return the person's number in the column of this assignment alone."""
        return read_cells(person, {f"{MOODLE_ID_PREFIX}{assignment}"})

    def parse_arrival(
        self, row: Mapping[str, str], assignment: str, rules: ClassRules
    ) -> Arrival | None:
        """Parse a line of the worksheet."""
        text = " ".join(row["last_modified_(submission)"].split())
        if text in NOT_SUBMITTED:
            return None
        number = row["identifier"].rpartition(" ")[2]
        email, name = row.get("email_address", ""), row.get("full_name", "")
        return Arrival(assignment, self._parse_time(text), number, email, name)

    def _parse_time(self, text: str) -> datetime:
        """Parse a time as Moodle writes it in English.

        Raises:
            TimesError: it is in another form, or the day of the week is not that of the date.
        """
        for form in self.TIME_FORMS:
            try:
                when = datetime.strptime(text, form)
            except ValueError:
                continue
            if form.startswith("%A") and not text.startswith(f"{when:%A}"):
                raise TimesError(
                    f"{printable(text)} was a {when:%A}, so something is wrong with it."
                )
            return when
        raise TimesError(
            f"a time should be written as Wednesday, 10 June 2026, 2:14 PM or 2026-06-10 14:14, "
            f"and is {printable(text)!r}. Set Moodle to English, and download the worksheet again."
        )

    def find_student(self, arrival: Arrival, owners: Owners, submitted: Collection[str]) -> str:
        """Find the student by number, address and name, none of which may be somebody else's.

        Students can change the name that Moodle shows, so it decides only if the roster has neither
        their number nor their address.
        """
        number, email, name = arrival.number, arrival.email, arrival.name
        shown = f"{printable(name)} ({printable(email or number)})"
        named = owners.find_ids_named(name)
        if not owners.people:
            named = {*submitted} & {name}
        by_number = owners.find_ids_numbered(self, number, arrival.assignment)
        by_email = {p.id for p in owners.people if email and p.email.casefold() == email.casefold()}
        certain = [ids for ids in (by_number, by_email) if ids]
        students = set.intersection(*certain) if certain else named
        if len(students) != 1:
            known_by = "number or address" if certain else "name"
            why = f"nobody has this {known_by}"
            if students:
                why = f"{len(students)} people have this {known_by}"
            elif certain:
                why = "the number and the address are of different people in grading/roster.csv"
            raise TimesError(f"it does not say whose time it is, {shown}: {why}.")
        (student,) = students
        person = next((p for p in owners.people if p.id == student), Person(student))
        numbers = sorted(self.find_numbers(person, owners.rules, arrival.assignment))
        others = [
            known
            for known, given in ((numbers, number), ([person.email], email))
            if any(known) and given and given.casefold() not in map(str.casefold, known)
        ]
        if others:
            raise TimesError(
                f"{shown} is not {printable(student)}, for whom grading/roster.csv has "
                f"{printable(others[0][0])}."
            )
        return student
