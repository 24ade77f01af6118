"""Canvas: the names in its zip files, its numbers of students, and its submissions' times."""

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
from autograder.instructor.course import ANY_PLATFORM_COLUMN, ClassRules


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
        match = self.NAME.fullmatch(name.parts[0])
        if match is None:
            return None
        # a name with several parts is that of a file in a nested archive
        file = PurePosixPath(*(name.parts[1:] or (match["file"],)))
        anonymous = match["anonymous"]
        return OwnedFile(
            self,
            anonymous or match["name"],
            "" if anonymous else match["user"],
            file,
            int(match["number"][:18]),
            is_late=bool(match["late"] or match["late_anonymous"]),
            is_anonymous=bool(anonymous),
        )

    def name_id_column(self, rules: ClassRules) -> str:
        """Return the column that `[canvas]` in `class.toml` names."""
        return rules.platforms.canvas.id

    def find_numbers(self, person: Person, rules: ClassRules, assignment: str) -> Set[str]:
        """Return the person's number, which is the same in each assignment."""
        return read_cells(person, {rules.platforms.canvas.id, ANY_PLATFORM_COLUMN})

    def parse_arrival(
        self, row: Mapping[str, str], assignment: str, rules: ClassRules
    ) -> Arrival | None:
        """Parse a submission of the API."""
        text = row["submitted_at"]
        if text in NOT_SUBMITTED:
            return None
        names_by_id = {str(id): name for name, id in rules.platforms.canvas.assignments.items()}
        assignment_id = row.get("assignment_id", "")
        assignment_of_row = names_by_id.get(assignment_id) if assignment_id else assignment
        if not assignment_of_row:
            raise TimesError(
                f"it is not known which assignment Canvas's {printable(assignment_id) or 'line'} "
                f"is. [canvas.assignments] in grading/class.toml says it"
                f"{'' if assignment_id else ', or ASSIGNMENT='}."
            )
        if assignment not in ("", assignment_of_row):
            return None
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise TimesError(
                f"submitted_at should be written as 2026-10-12T21:59:00Z, and is "
                f"{printable(text)!r}."
            ) from None
        is_late = row["late"].casefold() == "true" if row.get("late") else None
        return Arrival(assignment_of_row, time, row["user_id"], is_late=is_late)

    def find_student(self, arrival: Arrival, owners: Owners, submitted: Collection[str]) -> str:
        """Find the student by number; without a roster, it ends the name of the folder."""
        number, column = arrival.number, owners.rules.platforms.canvas.id
        students = owners.find_ids_numbered(self, number, arrival.assignment)
        if not owners.people:
            students = {student for student in submitted if student.endswith(f"_{number}")}
        if len(students) != 1 or not number:
            raise TimesError(
                f"user_id {printable(number)!r} is nobody's {column} or {ANY_PLATFORM_COLUMN} in "
                f"grading/roster.csv, or that of several people."
            )
        return students.pop()
