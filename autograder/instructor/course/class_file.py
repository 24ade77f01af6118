"""Read what an instructor wrote about a class: `class.toml`, `handed_in.csv`, and other tables.

`grading/class.toml` has due dates, extensions and the late penalty. An extension that is removed
from the file no longer counts. Without a table `[due]`, due dates are the gradebook's, as set in
Formgrader or by `nbgrader db assignment add`.

`grading/handed_in.csv` has submission times. Students can write any time into a submission's
`timestamp.txt`, so only this file's times count.

CSV files are read as spreadsheets and platforms save them: with or without a byte-order mark,
separated by commas, semicolons or tabs. A line that cannot be understood refuses the whole file,
with its number, because half a roster would be half a class.
"""

import csv
import difflib
import io
import math
import re
import tomllib
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo

import msgspec

from autograder.instructor.course.names import printable

CLASS_FILE: Final = "class.toml"

ALL_ASSIGNMENTS: Final = "all"
"""Stands in place of an assignment: the same extension for each."""

DAY_SECONDS: Final = 24 * 60 * 60


SHOULD_BE: Final = {
    "timezone": 'a name in quotation marks, such as "Europe/Berlin"',
    "due": "a line [due], with lines such as 01_sharding_basics = 2026-10-12T23:59:00 below it",
    "late": "a line [late], with lines such as per_day = 0.1 below it",
    "late.per_day": "a share of what was earned, from 0 to 1, such as 0.1 for ten percent",
    "late.most": "a share of what was earned, from 0 to 1, such as 0.5 for half of it",
    "late.zero_after_days": "a number of days, 0 or more",
    "late.grace_minutes": "a number of minutes, 0 or more",
    "extensions": "a line such as [extensions.ann] for each student, with lines below it",
}
"""What each setting is, for whoever wrote another thing."""


class ClassError(ValueError):
    """What is written of a class cannot be understood; the message says where, and what to do."""


class Late(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is taken off of what somebody earned, for being late.

    Attributes:
        per_day: which share for each day that has begun.
        most: which share at most.
        zero_after_days: after how many days all of it; None for never.
        grace_minutes: how late is not late yet.
    """

    per_day: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    most: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    zero_after_days: Annotated[float, msgspec.Meta(ge=0)] | None = None
    grace_minutes: Annotated[float, msgspec.Meta(ge=0)] = 0.0

    def share(self, seconds: float) -> float:
        """Which share of a score is taken off, so many seconds after it was due."""
        if seconds <= self.grace_minutes * 60:
            return 0.0
        if self.zero_after_days is not None and seconds > self.zero_after_days * DAY_SECONDS:
            return 1.0
        return min(self.most, self.per_day * math.ceil(seconds / DAY_SECONDS))


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file, before its dates are understood."""

    timezone: str = ""
    due: dict[str, Any] | None = None
    late: Late | None = None
    extensions: dict[str, dict[str, Any]] | None = None


@dataclass(frozen=True)
class ClassRules:
    """What a class's file says; nothing, where there is none.

    Attributes:
        zone: in which its times are said.
        due: when each assignment is due; None where the file leaves that to the gradebook.
        late: what lateness costs; None where the file leaves that to nbgrader's configuration.
        extensions: of each student, for each assignment or for all, how much longer, or until when;
            None where there is no file.
    """

    zone: tzinfo | None = None
    due: Mapping[str, datetime] | None = None
    late: Late | None = None
    extensions: Mapping[str, Mapping[str, timedelta | datetime]] | None = None

    def extension(self, student: str, assignment: str, due: datetime | None) -> timedelta | None:
        """How much longer somebody has than all others; None where not longer."""
        theirs = (self.extensions or {}).get(student, {})
        more = theirs.get(assignment, theirs.get(ALL_ASSIGNMENTS))
        if isinstance(more, datetime):
            more = more - due if due is not None else None
        return more if more is not None and more > timedelta() else None

    def shown(self, when: datetime) -> str:
        """A time as the class reads it."""
        return f"{when.astimezone(self.zone or UTC):%Y-%m-%d %H:%M %Z}"


def read_class_file(grading: Path, assignments: Collection[str]) -> ClassRules:
    """What `class.toml` says in the folder of a class.

    Args:
        grading: the folder.
        assignments: the ids that there are.

    Raises:
        ClassError: it cannot be understood.
    """
    path = grading / CLASS_FILE
    if not path.exists():
        return ClassRules()
    try:
        written = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8-sig")), _Written)
        zone = _zone(written.timezone)
        due = None
        if written.due is not None:
            _known(written.due, assignments, "[due]")
            due = {name: moment(value, zone, f"due.{name}") for name, value in written.due.items()}
        extensions = {}
        for student, theirs in (written.extensions or {}).items():
            _known(
                [name for name in theirs if name != ALL_ASSIGNMENTS],
                assignments,
                f"[extensions.{student}]",
            )
            extensions[student] = {
                name: _extension(value, zone, f"extensions.{student}.{name}")
                for name, value in theirs.items()
            }
    except msgspec.ValidationError as error:
        raise ClassError(f"grading/{CLASS_FILE}: {printable(_meant(str(error)))}") from None
    except tomllib.TOMLDecodeError as error:
        raise ClassError(
            f"grading/{CLASS_FILE} cannot be read as TOML: {printable(str(error))}. A time is "
            f"written as "
            f"2026-10-12T23:59:00, and a whole day as 2026-10-12. The README has an example of "
            f"such a file."
        ) from None
    except (ClassError, OSError, UnicodeDecodeError, ValueError) as error:
        raise ClassError(f"grading/{CLASS_FILE}: {printable(str(error))}") from None
    return ClassRules(zone, due, written.late, extensions)


def zone_of(grading: Path, assignments: Collection[str]) -> tzinfo:
    """The time zone in which times of a class are shown: that of its file, or UTC.

    Raises:
        ClassError: the file cannot be understood.
    """
    return read_class_file(grading, assignments).zone or UTC


def _meant(said: str) -> str:
    """What is wrong with a setting, and what it should be, by msgspec's word for it."""
    said, _, where = said.partition(" - at `$")
    where = where.strip(".`")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", said, re.DOTALL)
    if unknown is None:
        setting = where.partition("[")[0]
        return f"{setting} should be {SHOULD_BE.get(setting, 'something else')}."
    names = (Late if where == "late" else _Written).__struct_fields__
    return (
        f"there is no setting {where + '.' if where else ''}{unknown[1]}."
        f"{near(unknown[1], names)} There are {', '.join(names)}."
    )


def moment(value: Any, zone: tzinfo | None, where: str) -> datetime:
    """The moment that a written time means.

    Args:
        value: a time with or without a zone, or a date, which is over when its day is.
        zone: of times that name none.
        where: it stands, for whoever reads the message.

    Raises:
        ClassError: it means none.
    """
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time(23, 59, 59))
    if not isinstance(value, datetime):
        raise ClassError(
            f"{where} should be a time, such as 2026-10-12T23:59:00 without quotation marks, and "
            f"is {value!r}."
        )
    if value.tzinfo is None and zone is None:
        raise ClassError(
            f"{where} says {value.isoformat(' ')}, and not in which time zone. Write a line such "
            f'as timezone = "Europe/Berlin" at the top of grading/{CLASS_FILE}.'
        )
    when: datetime = value if value.tzinfo is not None else value.replace(tzinfo=zone)
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise ClassError(f"{where} says {value.isoformat(' ')}, which is no time.") from None


def near(name: str, names: Collection[str], how_near: float = 0.5) -> str:
    """A question that names what is nearly the same; empty where nothing is."""
    found = difflib.get_close_matches(name, names, 3, how_near)
    found = found or [other for other in names if name and other.startswith(name)][:3]
    return f" Is it {' or '.join(map(printable, found))}?" if found else ""


def in_words(seconds: float) -> str:
    """A time in words, in the largest unit that it has one of."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            number = f"{seconds / length:.1f}".removesuffix(".0")
            return f"{number} {unit}{'' if number == '1' else 's'}"
    return "less than a minute"


def _zone(name: str) -> tzinfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (OSError, KeyError, ValueError):  # which it raises of names that are none
        raise ClassError(
            f"timezone = {name!r} is not known here. It should be one such as Europe/Berlin or UTC."
        ) from None


def _known(names: Collection[str], assignments: Collection[str], where: str) -> None:
    for name in names:
        if name not in assignments:
            raise ClassError(
                f"{where} names {name}, and there is no such assignment.{near(name, assignments)} "
                f"There are {', '.join(assignments)}."
            )


def _extension(value: Any, zone: tzinfo | None, where: str) -> timedelta | datetime:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= 3660:
            raise ClassError(f"{where} should be a number of days, and is {value!r}.")
        return timedelta(days=value)
    try:
        return moment(value, zone, where)
    except ClassError as error:
        raise ClassError(f"{error} A number means so many days more.") from None


MAX_TABLE_BYTES: Final = 2**22
"""A table of four hundred students has some forty thousand."""

SEPARATORS: Final = ",;\t"
"""What may stand between columns: spreadsheets choose it by the country they are in."""


class WrittenTableError(ClassError):
    """A table cannot be understood; the message says where and what to do about it."""


def read_table(
    path: Path, needed: Collection[str], also_called: Mapping[str, str] | None = None
) -> list[tuple[int, dict[str, str]]]:
    """Read a table whose first line names its columns.

    Args:
        path: of the file.
        needed: the columns that there must be. Names are compared without regard to case, and
            with underscores for blanks.
        also_called: other names of columns, each with the one that is meant.

    Returns:
        Of each row that is not empty the number of its line, and what stands in each column.

    Raises:
        WrittenTableError: it cannot be read, or understood.
    """
    lines = list(io.StringIO(_text(path), newline=""))  # which ends lines at line breaks alone
    first = 1
    if lines and lines[0].lower().startswith("sep="):  # what a spreadsheet is told so
        lines, first = lines[1:], 2
    if not lines or not lines[0].strip():
        raise WrittenTableError(
            f"{path.name} does not begin with the names of its columns. Its first line should have "
            f"{_listed(needed)}."
        )
    separator = max(SEPARATORS, key=lines[0].count)
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        rows = [(reader.line_num + first - 1, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise WrittenTableError(
            f"{path.name} cannot be read from line {reader.line_num + first - 1} on: {error}."
        ) from None
    (_, columns), *rows = rows
    names = _names(path, [(also_called or {}).get(name, name) for name in _words(columns)], needed)
    for line, row in rows:
        if len(row) > len(names) and any(row[len(names) :]):
            raise WrittenTableError(
                f"{path.name}, line {line}: there are {len(row)} cells, and {len(names)} columns. "
                f"If a name has a {_word(separator)} in it, put it in quotation marks."
            )
    return [(line, dict(zip(names, _filled(row, len(names)), strict=True)))
            for line, row in rows if any(row)]  # fmt: skip


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TABLE_BYTES + 1)
    except OSError as error:
        raise WrittenTableError(f"{path.name} cannot be opened: {error.strerror}.") from None
    if len(data) > MAX_TABLE_BYTES:
        raise WrittenTableError(
            f"{path.name} has more than {MAX_TABLE_BYTES // 2**20} MB, and is no table of a class."
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WrittenTableError(
            f"{path.name} is not in UTF-8 (line {line} is the first that is not), so its names "
            f'would come out wrong. Save it again as "CSV UTF-8".'
        ) from None
    if "\0" in text:
        raise WrittenTableError(f"{path.name} is no text. Save it as a CSV, not as a workbook.")
    return unicodedata.normalize("NFC", text)


def _words(columns: Sequence[str]) -> list[str]:
    return ["_".join(column.lower().split()) for column in columns]


def _names(path: Path, columns: Sequence[str], needed: Collection[str]) -> list[str]:
    """The names of columns; those without one at the end are not there."""
    names = list(columns)
    while names and not names[-1]:
        names.pop()
    missing = [name for name in needed if name not in names]
    if missing:
        raise WrittenTableError(
            f"{path.name} has no column {_listed(missing)}. Its first line should name its "
            f"columns, and has: {_listed([printable(name) for name in names])}."
        )
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise WrittenTableError(
            f"{path.name} has several columns called {_listed([printable(n) for n in twice])}. "
            f"Keep one of them."
        )
    return names


def _filled(row: Sequence[str], columns: int) -> list[str]:
    return [*row[:columns], *[""] * (columns - len(row))]


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _word(separator: str) -> str:
    return {",": "comma", ";": "semicolon"}.get(separator, "tab")


TIMES_FILE: Final = "handed_in.csv"

UTC_SUFFIX: Final = re.compile(r"\s*(UTC|Z)$", re.IGNORECASE)
"""How a time says that it is in UTC."""

COLUMNS: Final = ("student", "assignment", "time")


def written_when(grading: Path) -> tuple[int, ...]:
    """When what an instructor wrote of times was last written, to see that it is as it was."""
    files = (grading / name for name in (CLASS_FILE, TIMES_FILE))
    return tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)


def read_times(
    grading: Path, zone: tzinfo | None = None
) -> Mapping[tuple[str, str], tuple[datetime, ...]]:
    """When each student handed in each assignment, in order; a line of the file for each time.

    Args:
        grading: the class's folder.
        zone: of times that name none.

    Raises:
        ClassError: the file cannot be understood.
    """
    path = grading / TIMES_FILE
    if not path.exists():
        return {}
    try:
        rows = read_table(path, COLUMNS, {"id": "student", "student_id": "student"})
    except WrittenTableError as error:
        raise ClassError(f"grading/{error}") from None
    times: dict[tuple[str, str], set[datetime]] = {}
    for line, row in rows:
        where = f"grading/{TIMES_FILE}, line {line}: time"
        try:
            written = datetime.fromisoformat(UTC_SUFFIX.sub("+00:00", row["time"]))
        except ValueError:
            raise ClassError(
                f"{where} should be written as year-month-day hours:minutes, such as 2026-10-12 "
                f"23:59 where the class is, or 2026-10-12 21:59 UTC, and is {row['time']!r}. "
                f"Spreadsheets have it as the format of a column, yyyy-mm-dd hh:mm."
            ) from None
        pair = row["student"], row["assignment"]
        times.setdefault(pair, set()).add(moment(written, zone, where))
    return {pair: tuple(sorted(theirs)) for pair, theirs in times.items()}
