"""Read when submissions arrived from the tables of learning platforms.

Moodle: the grading worksheet, with the columns `Identifier`, `Full name`, `Email address` and
`Last modified (submission)`, in English. Its times have no zone: they are in that of the person who
downloaded it.
Canvas: the fields of its API's submissions: `user_id`, `submitted_at`, and perhaps `assignment_id`
and `late`. Its times are in UTC.

A line that cannot be understood is refused with a sentence, and the others count.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from autograder.instructor.classroom import MOODLE_ID_PREFIX, Person
from autograder.instructor.collecting.sorting import Owners
from autograder.instructor.commands import printable
from autograder.instructor.course import (
    ClassError,
    ClassRules,
    CollectedTime,
    parse_time,
    read_table,
)

MOODLE_TIME: Final = "last_modified_(submission)"
CANVAS_TIME: Final = "submitted_at"

MOODLE_FORMS: Final = (
    "%A, %d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M", "%A, %B %d, %Y, %I:%M %p",
    "%d %B %Y, %I:%M %p", "%d %B %Y, %H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S",
)  # fmt: skip
"""The forms of Moodle's times that are read: British, American, and as spreadsheets save them."""

MOODLE_EXAMPLES: Final = "Wednesday, 10 June 2026, 2:14 PM or 2026-06-10 14:14"

NOT_SUBMITTED: Final = ("", "-")

CLOCK_TOLERANCE: Final = timedelta(minutes=5)


class TimesError(RuntimeError):
    """A line or a table of times cannot be understood; the message says what was expected."""


@dataclass(frozen=True)
class TimesTable:
    """Finds the submission that each line of a platform's table is about.

    Attributes:
        path: the table.
        assignment: the assignment's name; empty if the table has to say it.
        owners: finds students by their names.
        rules: the rules of the class, with its time zone and the columns of ids.
        submissions: the submissions that were collected, as students and assignments.
    """

    path: Path
    assignment: str
    owners: Owners
    rules: ClassRules
    submissions: Collection[tuple[str, str]]

    def read(
        self, now: datetime, refuse: Callable[[str], None]
    ) -> dict[tuple[str, str], CollectedTime]:
        """Return the time of each student and assignment.

        Args:
            now: the current time; later times are refused.
            refuse: called with a sentence about each line that is refused.

        Raises:
            TimesError: it is no such table.
            WrittenTableError: it is no table.
        """
        rows = read_table(self.path, ())
        columns = {*rows[0][1]} if rows else set()
        if {"identifier", MOODLE_TIME} <= columns:
            if not self.assignment:
                raise TimesError(
                    f"{self.path.name} does not say which assignment it is of. Add "
                    f"ASSIGNMENT=01_sharding_basics, or whichever it is."
                )
            parse = self._parse_moodle
        elif {"user_id", CANVAS_TIME} <= columns:
            parse = self._parse_canvas
        else:
            raise TimesError(
                f"{self.path.name} has no times that are known. Moodle's grading worksheet has the "
                f"columns Identifier and Last modified (submission), if Moodle is set to English "
                f"when you download it; Canvas's submissions have user_id and submitted_at."
            )
        found: list[tuple[int, tuple[str, str], CollectedTime]] = []
        for line, row in rows:
            where = f"{printable(self.path.name)}, line {line}"
            try:
                for pair, collected in parse(row, where):
                    if collected.time is not None and collected.time > now + CLOCK_TOLERANCE:
                        raise TimesError(
                            f"{self.rules.shown(collected.time)} is in the future. Is the timezone "
                            f"in grading/class.toml that of the platform?"
                        )
                    found.append((line, pair, collected))
            except (TimesError, ClassError) as error:
                refuse(str(error) if str(error).startswith(where) else f"{where}: {error}")
        counts = Counter(pair for _, pair, _ in found)
        for line, pair, _ in found:
            if counts[pair] > 1:
                refuse(
                    f"{printable(self.path.name)}, line {line}: {counts[pair]} lines are of "
                    f"{printable(pair[0])} and {pair[1]}, so none of them counts. Each has one."
                )
        return {pair: collected for _, pair, collected in found if counts[pair] == 1}

    def _parse_moodle(
        self, row: dict[str, str], where: str
    ) -> Iterator[tuple[tuple[str, str], CollectedTime]]:
        """Yield the submission and the time of a line of Moodle's worksheet, if it has a time."""
        text = " ".join(row[MOODLE_TIME].split())
        if text in NOT_SUBMITTED:
            return
        time = parse_time(_parse_moodle_time(text), self.rules.zone, where)
        number = row["identifier"].rpartition(" ")[2]
        student = self._find_moodle_student(
            number, row.get("email_address", ""), row.get("full_name", "")
        )
        yield (student, self.assignment), CollectedTime(time, f"Moodle's worksheet {where}")

    def _find_moodle_student(self, number: str, email: str, name: str) -> str:
        """Find a student by number, address and name, none of which may be somebody else's.

        Students can change the name that Moodle shows, so it decides only if the roster has neither
        their number nor their address.
        """
        shown = f"{printable(name)} ({printable(email or number)})"
        named = self.owners.find_names(name)
        if not self.owners.people:
            named = {student for student, of in self.submissions if of == self.assignment} & {name}
        by_number = {p.id for p in self.owners.people if self._number(p) == number}
        by_email = {
            p.id for p in self.owners.people if email and p.email.casefold() == email.casefold()
        }
        certain = [found for found in (by_number, by_email) if found]
        found = set.intersection(*certain) if certain else named
        if len(found) != 1:
            why = (
                "the number and the address are of different people in grading/roster.csv"
                if certain
                else f"{len(found) or 'no'} student{'s are' if len(found) > 1 else ' is'} called so"
            )
            raise TimesError(f"it does not say whose time it is, {shown}: {why}.")
        (student,) = found
        person = next((p for p in self.owners.people if p.id == student), Person(student))
        others = [
            known
            for known, given in ((self._number(person), number), (person.email, email))
            if known and given and known.casefold() != given.casefold()
        ]
        if others:
            raise TimesError(
                f"{shown} is not {printable(student)}, for whom grading/roster.csv has "
                f"{printable(others[0])}."
            )
        return student

    def _number(self, person: Person) -> str:
        """Return a person's number in Moodle for this assignment; empty if it is not known."""
        own = person.others.get(f"{MOODLE_ID_PREFIX}{self.assignment}", "")
        return own or person.cell(self.rules.moodle.id)

    def _parse_canvas(
        self, row: dict[str, str], where: str
    ) -> Iterator[tuple[tuple[str, str], CollectedTime]]:
        """Yield the submission and the time of a line of Canvas's table, if it has a time."""
        text, number = row[CANVAS_TIME], row["user_id"]
        if text in NOT_SUBMITTED:
            return
        names = {str(id): name for name, id in self.rules.canvas.assignments.items()}
        of_line = row.get("assignment_id", "")
        assignment = names.get(of_line, self.assignment)
        if not assignment:
            raise TimesError(
                f"it is not known which assignment Canvas's {printable(of_line) or 'line'} is. "
                f"[canvas.assignments] in grading/class.toml says it, or ASSIGNMENT=."
            )
        if self.assignment not in ("", assignment):
            return
        try:
            written = datetime.fromisoformat(text)
        except ValueError:
            raise TimesError(
                f"submitted_at should be written as 2026-10-12T21:59:00Z, and is "
                f"{printable(text)!r}."
            ) from None
        time = parse_time(written, self.rules.zone, where)
        found = {p.id for p in self.owners.people if p.cell(self.rules.canvas.id) == number}
        if not self.owners.people:
            pairs = [pair for pair in self.submissions if pair[1] == assignment]
            found = {student for student, _ in pairs if student.endswith(f"_{number}")}
        if len(found) != 1 or not number:
            raise TimesError(
                f"user_id {printable(number)!r} is nobody's {self.rules.canvas.id} in "
                f"grading/roster.csv, or that of several people."
            )
        is_late = row.get("late", "").casefold() == "true"
        yield (
            (found.pop(), assignment),
            CollectedTime(time, f"Canvas's submissions {where}", is_late),
        )


def _parse_moodle_time(text: str) -> datetime:
    """Parse a time as Moodle writes it in English.

    Raises:
        TimesError: it is in another form, or the day of the week is not that of the date.
    """
    for form in MOODLE_FORMS:
        try:
            when = datetime.strptime(text, form)
        except ValueError:
            continue
        if form.startswith("%A") and not text.startswith(f"{when:%A}"):
            raise TimesError(f"{printable(text)} was a {when:%A}, so something is wrong with it.")
        return when
    raise TimesError(
        f"a time should be written as {MOODLE_EXAMPLES}, and is {printable(text)!r}. Set Moodle to "
        f"English, and download the worksheet again."
    )
