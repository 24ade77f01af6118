"""Read the rules that an instructor writes for a class.

`grading/class.toml` has due dates, extensions, the late penalty, and what counts in the total. An
extension that is removed from the file no longer counts. Without a table `[due]`, due dates are the
gradebook's, as set in Formgrader or by `nbgrader db assignment add`.
"""

import math
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo

import msgspec

from autograder.instructor.commands import printable, suggest_names
from autograder.instructor.course.platform_settings import (
    PLATFORM_SETTINGS_SHOULD_BE,
    PLATFORM_VALUES_SHOULD_BE,
    PlatformSettings,
)
from autograder.instructor.course.written_tables import ClassError, is_written

CLASS_FILE: Final = "class.toml"

ALL_ASSIGNMENTS: Final = "all"
"""Used in place of an assignment's name, for an extension that holds for all of them."""

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
    "exempt": 'a line [exempt], with lines such as ann = ["01_sharding_basics"] below it',
    "drop": 'a line [drop], with lines such as ann = ["01_sharding_basics"] below it',
    "weights": "a line [weights], with lines such as 01_sharding_basics = 2 below it",
    "best": "how many assignments count, 1 or more, above the first line in brackets",
    **PLATFORM_SETTINGS_SHOULD_BE,
}
"""A description of each setting, for error messages."""

VALUES_SHOULD_BE: Final = {
    "exempt": 'a list of assignments, such as ["01_sharding_basics"]',
    "drop": 'a list of assignments, such as ["01_sharding_basics"]',
    "weights": "a number, 0 or more, such as 2",
    **PLATFORM_VALUES_SHOULD_BE,
}
"""A description of the values in tables whose keys are students or assignments."""


class Late(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The penalty for a late submission, as a share of its score.

    The attributes are the settings of `[late]` in `class.toml`.

    Attributes:
        per_day: the share that is deducted for each day, or part of a day.
        most: the largest share that is deducted.
        zero_after_days: the number of days after which the score is 0; None for never.
        grace_minutes: how late a submission may be without a penalty.
    """

    per_day: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    most: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    zero_after_days: Annotated[float, msgspec.Meta(ge=0)] | None = None
    grace_minutes: Annotated[float, msgspec.Meta(ge=0)] = 0.0

    def share(self, seconds: float) -> float:
        """Return the share of a score that is deducted for being so many seconds late."""
        if seconds <= self.grace_minutes * 60:
            return 0.0
        if self.zero_after_days is not None and seconds > self.zero_after_days * DAY_SECONDS:
            return 1.0
        return min(self.most, self.per_day * math.ceil(seconds / DAY_SECONDS))


class _ClassToml(PlatformSettings, frozen=True, forbid_unknown_fields=True):
    """The contents of `class.toml`, before dates are parsed."""

    timezone: str = ""
    due: dict[str, Any] | None = None
    late: Late | None = None
    extensions: dict[str, dict[str, Any]] | None = None
    exempt: dict[str, list[str]] = msgspec.field(default_factory=dict)
    drop: dict[str, list[str]] = msgspec.field(default_factory=dict)
    weights: dict[str, Annotated[float, msgspec.Meta(ge=0)]] | None = None
    best: Annotated[int, msgspec.Meta(ge=1)] | None = None


EXEMPT: Final = "exempt"
DROPPED: Final = "dropped"


@dataclass(frozen=True)
class ClassRules:
    """The rules in `class.toml`; without that file, all are None.

    Attributes:
        zone: the time zone of times in the file.
        due: the due date of each assignment; None if due dates are in the gradebook.
        late: the penalty for late submissions; None if nbgrader's configuration decides.
        extensions: for each student, by assignment or for `all`: either the additional time or the
            new due date. None if there is no file.
        exempt: by student, the assignments from which they are exempt.
        drop: by student, the assignments whose scores do not count for them.
        weights: the weight of each assignment in the total; None if its points are its weight.
        best: how many of a student's assignments count, the best ones; None for all.
        platforms: the settings of learning platforms.
    """

    zone: tzinfo | None = None
    due: Mapping[str, datetime] | None = None
    late: Late | None = None
    extensions: Mapping[str, Mapping[str, timedelta | datetime]] | None = None
    exempt: Mapping[str, Collection[str]] = field(default_factory=dict)
    drop: Mapping[str, Collection[str]] = field(default_factory=dict)
    weights: Mapping[str, float] | None = None
    best: int | None = None
    platforms: PlatformSettings = field(default_factory=PlatformSettings)

    def exclusion(self, student: str, assignment: str) -> str:
        """Return why an assignment does not count for a student: `exempt`, `dropped` or empty."""
        for reason, by_student in ((EXEMPT, self.exempt), (DROPPED, self.drop)):
            if {assignment, ALL_ASSIGNMENTS} & {*by_student.get(student, ())}:
                return reason
        return ""

    def describe_counting(self, student: str, assignment: str) -> tuple[str, ...]:
        """Return sentences for the student about how an assignment counts in their total."""
        reason = self.exclusion(student, assignment)
        if reason == EXEMPT:
            return ("You are exempt from this assignment, so it does not count in your total.",)
        if reason:
            return ("This assignment does not count in your total.",)
        sentences = []
        if self.weights is not None:
            sum_of_weights = sum(self.weights.values())
            sentences.append(
                f"In your total, this assignment has {self.weights.get(assignment, 0):g} of "
                f"{sum_of_weights:g} parts."
            )
        if self.best is not None:
            sentences.append(f"Of all your assignments, the best {self.best} count.")
        return tuple(sentences)

    def extension(self, student: str, assignment: str, due: datetime | None) -> timedelta | None:
        """Return a student's additional time for an assignment; None if there is none."""
        by_assignment = (self.extensions or {}).get(student, {})
        extension = by_assignment.get(assignment, by_assignment.get(ALL_ASSIGNMENTS))
        if extension is None or due is None:
            return None
        if isinstance(extension, timedelta):  # days later, at the same time by the class's clock
            extension = due.astimezone(self.zone or UTC) + extension
        additional = extension.astimezone(UTC) - due
        return additional if additional > timedelta() else None

    def seconds_late(self, due: datetime | None, handed_in: datetime | None) -> float:
        """Return how late a submission is, in seconds; 0 if it is not, or if a time is not known.

        Days are days on the class's calendar, each counted as 24 hours: what is due at 20:00 is one
        day late until 20:00 on the next day, although a clock may change that night.
        """
        if due is None or handed_in is None:
            return 0.0
        zone = self.zone or UTC
        local_due, local_time = (
            when.astimezone(zone).replace(tzinfo=None) for when in (due, handed_in)
        )
        on_calendar = (local_time - local_due).total_seconds()
        if on_calendar > DAY_SECONDS:
            return on_calendar
        elapsed = handed_in.astimezone(UTC) - due.astimezone(UTC)
        return max(0.0, min(elapsed.total_seconds(), DAY_SECONDS))

    def format_time(self, when: datetime) -> str:
        """Format a time in the class's time zone."""
        return f"{when.astimezone(self.zone or UTC):%Y-%m-%d %H:%M %Z}"


def read_class_file(grading: Path, assignments: Collection[str]) -> ClassRules:
    """Read `class.toml`; without it, return rules that are all None.

    Args:
        grading: the class's folder, `grading/`.
        assignments: the names of all assignments.

    Raises:
        ClassError: the file cannot be understood.
    """
    path = grading / CLASS_FILE
    if not is_written(path):
        return ClassRules()
    try:
        written = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8-sig")), _ClassToml)
        zone = _time_zone(written.timezone)
        due = None
        if written.due is not None:
            _refuse_unknown_assignments(written.due, assignments, "[due]")
            due = {
                name: parse_time(value, zone, f"due.{name}") for name, value in written.due.items()
            }
        extensions = {}
        for student, by_assignment in (written.extensions or {}).items():
            _refuse_unknown_assignments(
                [name for name in by_assignment if name != ALL_ASSIGNMENTS],
                assignments,
                f"[extensions.{student}]",
            )
            extensions[student] = {
                name: _parse_extension(value, zone, f"extensions.{student}.{name}")
                for name, value in by_assignment.items()
            }
        for table, by_student in (("exempt", written.exempt), ("drop", written.drop)):
            for student, names in by_student.items():
                named = [name for name in names if name != ALL_ASSIGNMENTS]
                _refuse_unknown_assignments(named, assignments, f"[{table}], {student}")
        _refuse_unknown_assignments(written.weights or {}, assignments, "[weights]")
        canvas_ids = written.canvas.assignments
        _refuse_unknown_assignments(canvas_ids, assignments, "[canvas.assignments]")
        if len({*canvas_ids.values()}) < len(canvas_ids):
            raise ClassError("[canvas.assignments] has the same number for two assignments.")
    except msgspec.ValidationError as error:
        explained = _explain_invalid_setting(str(error))
        raise ClassError(f"grading/{CLASS_FILE}: {printable(explained)}") from None
    except tomllib.TOMLDecodeError as error:
        raise ClassError(
            f"grading/{CLASS_FILE} cannot be read as TOML: {printable(str(error))}. A time is "
            f"written as 2026-10-12T23:59:00, and a whole day as 2026-10-12. "
            f"docs/running_a_class.md has an example of such a file."
        ) from None
    except (ClassError, OSError, UnicodeDecodeError, ValueError) as error:
        raise ClassError(f"grading/{CLASS_FILE}: {printable(str(error))}") from None
    return ClassRules(
        zone, due, written.late, extensions,
        written.exempt, written.drop, written.weights, written.best,
        msgspec.convert(written, PlatformSettings, from_attributes=True),
    )  # fmt: skip


def read_time_zone(grading: Path, assignments: Collection[str]) -> tzinfo:
    """Return the time zone in which a class's times are shown: its file's, or UTC.

    Raises:
        ClassError: the file cannot be understood.
    """
    return read_class_file(grading, assignments).zone or UTC


def _explain_invalid_setting(message: str) -> str:
    """Turn msgspec's error message into a sentence that says what the setting should be."""
    problem, _, where = message.partition(" - at `$")
    where = where.strip(".`")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", problem, re.DOTALL)
    if unknown is None:
        setting, is_value, _ = where.partition("[")
        if is_value and setting in VALUES_SHOULD_BE:
            return f"each value below [{setting}] should be {VALUES_SHOULD_BE[setting]}."
        return f"{setting} should be {SHOULD_BE.get(setting, 'something else')}."
    tables = {"late": Late}
    tables |= {table.name: table.type for table in msgspec.structs.fields(PlatformSettings)}
    names = tables.get(where, _ClassToml).__struct_fields__
    return (
        f"there is no setting {where + '.' if where else ''}{unknown[1]}."
        f"{suggest_names(unknown[1], names)} There are {', '.join(names)}."
    )


def parse_time(value: Any, zone: tzinfo | None, where: str) -> datetime:
    """Convert a time from a file to UTC.

    Args:
        value: a time with or without a time zone, or a date, which means the end of that day.
        zone: the time zone of times without one.
        where: the place in the file, for error messages.

    Raises:
        ClassError: it is not a time, or its time zone is unknown.
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
        raise ClassError(f"{where} says {value.isoformat(' ')}, which is out of range.") from None


def _time_zone(name: str) -> tzinfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (OSError, KeyError, ValueError):  # ZoneInfo raises these for unknown names
        raise ClassError(
            f"timezone = {name!r} is not known here. It should be one such as Europe/Berlin or UTC."
        ) from None


def _refuse_unknown_assignments(
    names: Collection[str], assignments: Collection[str], where: str
) -> None:
    for name in names:
        if name not in assignments:
            meant = suggest_names(name, assignments)
            raise ClassError(
                f"{where} names {name}, and there is no such assignment.{meant} "
                f"There are {', '.join(assignments)}."
            )


def _parse_extension(value: Any, zone: tzinfo | None, where: str) -> timedelta | datetime:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= 3660:
            raise ClassError(f"{where} should be a number of days, and is {value!r}.")
        return timedelta(days=value)
    try:
        return parse_time(value, zone, where)
    except ClassError as error:
        raise ClassError(f"{error} A number means so many days more.") from None
