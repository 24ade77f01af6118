"""The settings of learning platforms in `class.toml`, and their columns in the roster.

What a platform's files and tables mean is in a module of its own in `collecting/`.
"""

from typing import Final

import msgspec

ANY_PLATFORM_COLUMN: Final = "lms_user_id"
"""The roster's column with a student's number on any platform."""

MOODLE_ID_PREFIX: Final = "moodle_id_"
"""The beginning of a column with Moodle's ids for one assignment, before the assignment's name."""


class CanvasSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The columns of the roster with what Canvas knows students by, and Canvas's assignments.

    The attributes are the settings of `[canvas]` in `class.toml`.

    Attributes:
        id: the column with Canvas's own number of each student, its `ID`.
        sis_id: the column with Canvas's `SIS User ID`.
        login: the column with Canvas's `SIS Login ID`.
        assignments: Canvas's number of each assignment.
    """

    id: str = "canvas_id"
    sis_id: str = "sis_id"
    login: str = "canvas_login"
    assignments: dict[str, int] = {}


class MoodleSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of `[moodle]` in `class.toml`.

    Attributes:
        id: the roster's column with Moodle's participant numbers.
    """

    id: str = "moodle_id"


class CollectSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of `[collect]` in `class.toml`.

    Attributes:
        names: how a platform names files in its zip files; see `NamePattern` in `collecting`.
    """

    names: str = ""


class PlatformSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tables of `class.toml` that are about learning platforms.

    Attributes:
        canvas: the roster's columns with Canvas's ids, and Canvas's ids of assignments.
        moodle: the roster's column with Moodle's ids.
        collect: how a platform names the files in its zip files.
    """

    canvas: CanvasSettings = CanvasSettings()
    moodle: MoodleSettings = MoodleSettings()
    collect: CollectSettings = CollectSettings()


PLATFORM_SETTINGS_SHOULD_BE: Final = {
    "canvas": 'a line [canvas], with lines such as login = "email" below it',
    "canvas.id": 'a column of the roster, in quotation marks, such as "canvas_id"',
    "canvas.sis_id": 'a column of the roster, in quotation marks, such as "sis_id"',
    "canvas.login": 'a column of the roster, in quotation marks, such as "email"',
    "canvas.assignments": "a line [canvas.assignments], with lines such as 01_sums = 4711 below it",
    "moodle": 'a line [moodle], with a line such as id = "moodle_id" below it',
    "moodle.id": 'a column of the roster, in quotation marks, such as "moodle_id"',
    "collect": 'a line [collect], with a line such as names = "{student}_{file}" below it',
    "collect.names": 'a form of names in quotation marks, such as "{student}_{file}"',
}
"""A description of each of these settings, for error messages."""

PLATFORM_VALUES_SHOULD_BE: Final = {"canvas.assignments": "a whole number, such as 4711"}
"""A description of the values in tables whose keys are assignments."""

PLATFORM_ID_COLUMNS: Final = (ANY_PLATFORM_COLUMN, CanvasSettings().id, MoodleSettings().id)
"""Columns with a learning platform's id; the first that is filled is nbgrader's `lms_user_id`."""

PLATFORM_COLUMNS: Final = (CanvasSettings().sis_id, CanvasSettings().login, *PLATFORM_ID_COLUMNS)
"""All columns of platforms, but for those that begin with `MOODLE_ID_PREFIX`."""
