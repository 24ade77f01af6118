"""The learning platforms, each with its forms of names and times; in `class.toml`, one more form.

To add a platform, write a subclass of `Platform` here, and add it to `PLATFORMS`. Its exporter of
grades, which nbgrader loads by its name, is in `exporters.py`.
"""

import re
from collections.abc import Collection, Mapping, Set
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Final

from autograder.instructor.classroom import Person
from autograder.instructor.collecting.owners import (
    Arrival,
    OwnedFile,
    Owners,
    Platform,
    TimesError,
)
from autograder.instructor.commands import printable
from autograder.instructor.course import ANY_PLATFORM_COLUMN, MOODLE_ID_PREFIX, ClassRules

NOT_SUBMITTED: Final = ("", "-")
"""Cells of a table of times that say that nothing was submitted."""


class CanvasPlatform(Platform):
    """Canvas.

    Names: `doejane_LATE_12345_67890_notebook-1.ipynb`: the letters of the name, the student's
    number, the file's number, and a counter if it was submitted again; for anonymous grading
    `LATE_anon_Ab3Xz_67890_notebook.ipynb` (`lib/content_zipper.rb` of canvas-lms, read on
    2026-11-27).

    Times: the fields of its API's submissions: `user_id`, `submitted_at`, and perhaps
    `assignment_id` and `late`. They are in UTC.
    """

    name = "Canvas"
    times_table = "Canvas's submissions"
    times_columns = frozenset({"user_id", "submitted_at"})
    times_columns_described = "Canvas's submissions have user_id and submitted_at"
    tells_assignment = True

    NAME: Final = re.compile(
        r"(?:(?P<late_anonymous>LATE_)?(?P<anonymous>anon_[A-Za-z0-9]+)"
        r"|(?P<name>[^_/]+)_(?P<late>LATE_)?(?P<user>\d+))"
        r"_(?P<number>\d+)_(?P<file>[^/]+)"
    )

    def parse_owner(self, name: PurePosixPath) -> OwnedFile | None:
        """Parse a file's name in an archive."""
        found = self.NAME.fullmatch(name.parts[0])
        if found is None:
            return None
        # a name with several parts is that of a file in a nested archive
        file = PurePosixPath(*(name.parts[1:] or (found["file"],)))
        anonymous = found["anonymous"]
        return OwnedFile(
            self,
            anonymous or found["name"],
            "" if anonymous else found["user"],
            file,
            int(found["number"][:18]),
            late=bool(found["late"] or found["late_anonymous"]),
            anonymous=bool(anonymous),
        )

    def name_id_column(self, rules: ClassRules) -> str:
        """Return the column that `[canvas]` in `class.toml` names."""
        return rules.platforms.canvas.id

    def find_numbers(self, person: Person, rules: ClassRules, assignment: str) -> Set[str]:
        """Return the person's number, which is the same in each assignment."""
        return _read_cells(person, {rules.platforms.canvas.id, ANY_PLATFORM_COLUMN})

    def parse_arrival(
        self, row: Mapping[str, str], assignment: str, rules: ClassRules
    ) -> Arrival | None:
        """Parse a submission of the API."""
        text = row["submitted_at"]
        if text in NOT_SUBMITTED:
            return None
        names = {str(id): name for name, id in rules.platforms.canvas.assignments.items()}
        of_line = row.get("assignment_id", "")
        found = names.get(of_line) if of_line else assignment
        if not found:
            raise TimesError(
                f"it is not known which assignment Canvas's {printable(of_line) or 'line'} is. "
                f"[canvas.assignments] in grading/class.toml says it"
                f"{'' if of_line else ', or ASSIGNMENT='}."
            )
        if assignment not in ("", found):
            return None
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise TimesError(
                f"submitted_at should be written as 2026-10-12T21:59:00Z, and is "
                f"{printable(text)!r}."
            ) from None
        is_late = row["late"].casefold() == "true" if row.get("late") else None
        return Arrival(found, time, row["user_id"], is_late=is_late)

    def find_student(self, arrival: Arrival, owners: Owners, submitted: Collection[str]) -> str:
        """Find the student by number; without a roster, it ends the name of the folder."""
        number, column = arrival.number, owners.rules.platforms.canvas.id
        found = owners.find_ids_numbered(self, number, arrival.assignment)
        if not owners.people:
            found = {student for student in submitted if student.endswith(f"_{number}")}
        if len(found) != 1 or not number:
            raise TimesError(
                f"user_id {printable(number)!r} is nobody's {column} or {ANY_PLATFORM_COLUMN} in "
                f"grading/roster.csv, or that of several people."
            )
        return found.pop()


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
        found = self.NAME.fullmatch(str(name))
        if found is None:
            return None
        file = PurePosixPath(found["file"])
        return OwnedFile(self, found["name"].strip(), "", file, participant=found["user"])

    def name_id_column(self, rules: ClassRules) -> str:
        """Return the column that `[moodle]` in `class.toml` names."""
        return rules.platforms.moodle.id

    def find_numbers(self, person: Person, rules: ClassRules, assignment: str) -> Set[str]:
        """Return the person's number in an assignment, or those that may be it."""
        if own := self.find_certain_numbers(person, rules, assignment):
            return own
        columns = {rules.platforms.moodle.id, ANY_PLATFORM_COLUMN}
        if not assignment:
            columns |= {name for name in person.others if name.startswith(MOODLE_ID_PREFIX)}
        return _read_cells(person, columns)

    def find_certain_numbers(self, person: Person, rules: ClassRules, assignment: str) -> Set[str]:
        """Return the person's number in the column of this assignment alone."""
        return _read_cells(person, {f"{MOODLE_ID_PREFIX}{assignment}"})

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
        certain = [found for found in (by_number, by_email) if found]
        found = set.intersection(*certain) if certain else named
        if len(found) != 1:
            known_by = "number or address" if certain else "name"
            why = f"nobody has this {known_by}"
            if found:
                why = f"{len(found)} people have this {known_by}"
            elif certain:
                why = "the number and the address are of different people in grading/roster.csv"
            raise TimesError(f"it does not say whose time it is, {shown}: {why}.")
        (student,) = found
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


class StudentFolders(Platform):
    """Kaggle, and others: a folder for each student, with the student's name or id."""

    name = "folders"

    def parse_owner(self, name: PurePosixPath) -> OwnedFile | None:
        """Parse a file's name in an archive; None if it is in no folder."""
        if len(name.parts) < 2:
            return None
        return OwnedFile(self, name.parts[0].strip(), "", PurePosixPath(*name.parts[1:]))


class NamePattern(Platform):
    """The file names of a platform without a grammar of its own here, from `class.toml`.

    In a pattern, `{student}` is an id, a login or a name in the roster, `{file}` the student's own
    name of a file, `{any}` anything, and `{time:%Y-%m-%d}` a time in a form of `strptime`, by which
    resubmissions are sorted. Each but `{file}` is within one folder's or file's name, and as short
    as possible, because students write what follows it.

    Args:
        text: the pattern.

    Raises:
        ValueError: it is no pattern; the message says why.
    """

    name = "class.toml"
    PART: Final = re.compile(r"\{([^{}]*)\}")

    def __init__(self, text: str) -> None:
        parts = self.PART.split(text)
        names = [part.partition(":")[0] for part in parts[1::2]]
        unknown = {*names} - {"student", "file", "any", "time"}
        is_ambiguous = any(names.count(name) != 1 for name in ("student", "file"))
        if unknown or is_ambiguous or names.count("time") > 1:
            raise ValueError(
                "it should have {student} and {file} once each, at most one {time:…} such as "
                "{time:%Y-%m-%d-%H-%M-%S}, and otherwise {any} and what is the same in all names"
            )
        self.time_form = next((p.partition(":")[2] for p in parts[1::2] if p[:4] == "time"), "")
        shapes = {"file": "(?P<file>.+)", "student": "(?P<student>[^/]+?)", "any": "[^/]+?"}
        shapes["time"] = "(?P<time>[^/]+?)"
        self.expression = re.compile(
            "".join(
                re.escape(part) if index % 2 == 0 else shapes[part.partition(":")[0]]
                for index, part in enumerate(parts)
            )
        )

    def parse_owner(self, name: PurePosixPath) -> OwnedFile | None:
        """Parse a file's name in an archive; None if it is not of this form."""
        found = self.expression.fullmatch(str(name))
        if found is None:
            return None
        time = datetime.min
        if self.time_form:
            try:
                time = datetime.strptime(found["time"], self.time_form)
                if time.tzinfo is not None:
                    time = time.astimezone(UTC).replace(tzinfo=None)
            except (ValueError, OverflowError):
                return None
        # not .timestamp(): this machine's zone may be another, and may skip an hour
        seconds = (time - datetime.min) // timedelta(seconds=1)
        student, file = found["student"].strip(), PurePosixPath(found["file"])
        return OwnedFile(self, student, "", file, seconds)


FOLDERS: Final = StudentFolders()

PLATFORMS: Final[tuple[Platform, ...]] = (MoodlePlatform(), CanvasPlatform(), FOLDERS)
"""The first one that understands a name decides."""


def parse_owner(name: PurePosixPath, pattern: NamePattern | None = None) -> OwnedFile | None:
    """Parse a file's name in an archive; None if it does not name a student.

    Args:
        name: the name.
        pattern: the form of the names, if the class has one of its own.
    """
    platforms = PLATFORMS if pattern is None else (pattern,)
    return next(filter(None, (platform.parse_owner(name) for platform in platforms)), None)


def _read_cells(person: Person, columns: Set[str]) -> Set[str]:
    return {person.cell(column).strip() for column in columns} - {""}
