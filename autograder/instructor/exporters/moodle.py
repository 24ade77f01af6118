"""Grades and feedback for Moodle, as an assignment there takes them.

For each assignment there are two files: a grading worksheet, and a zip of feedback pages in which
each is in a folder of the name that Moodle itself gives it, with the student's participant number.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from autograder.instructor.classroom import OF_ONE_ASSIGNMENT, Person, Row, write_csv
from autograder.instructor.course import Course, printable
from autograder.instructor.exporters.class_exporter import ClassExporter

HEADING: Final = (
    "Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade",
    "Grade can be changed", "Last modified (grade)", "Feedback comments",
)  # fmt: skip
"""What Moodle writes above a worksheet; it finds its columns by these words."""

IN_NAMES: Final = re.compile(r"""[_/\\:*?"<>|\s]+""")
"""What is a blank in a folder's name: Moodle takes it apart at underscores."""

LONGEST: Final = 60


class Moodle(ClassExporter):
    """For each assignment, a worksheet, and a zip of the feedback pages.

    Moodle finds students by participant numbers, which stand in the worksheet that can be
    downloaded there. Each assignment has its own: those of `06_shard_map_matmul` are in the
    roster's column `moodle_id_06_shard_map_matmul`. A column `moodle_id` serves where there is
    none.
    """

    default: ClassVar = "grading/exports/moodle"

    def write(
        self, course: Course, rows: Sequence[Row], people: Sequence[Person], to: Path
    ) -> None:
        """Write the files of each assignment."""
        assignments = dict.fromkeys(row.assignment for row in rows)
        ids_of = {assignment: self._ids(people, assignment) for assignment in assignments}
        if not any(ids_of.values()):
            self.parent.fail(
                "Moodle knows students by their participant numbers, and grading/roster.csv has no "
                "column moodle_id with any. The worksheet that Moodle lets you download has them "
                "(“Participant 123”)."
            )
        known = {person.id: person for person in people}
        to.mkdir(parents=True, exist_ok=True)
        for assignment, ids in ids_of.items():
            theirs = [row for row in rows if row.assignment == assignment]
            self.say_of(
                f"no moodle_id in grading/roster.csv, so nothing of {assignment} is exported",
                [row.student for row in theirs if row.student not in ids],
            )
            mine = [row for row in theirs if row.student in ids]
            if not mine:
                continue
            write_csv(to / f"{assignment}.csv", HEADING, _worksheet(mine, known, ids))
            pages = self._write_pages(course, mine, known, ids, to / f"{assignment}-feedback.zip")
            self.say_of(f"no feedback page of {assignment} yet", pages)

    def _ids(self, people: Sequence[Person], assignment: str) -> Mapping[str, str]:
        """The participant numbers that people have in an assignment."""
        return self.ids(people, f"{OF_ONE_ASSIGNMENT}{assignment}") or self.ids(people, "moodle_id")

    def _write_pages(
        self,
        course: Course,
        rows: Sequence[Row],
        known: Mapping[str, Person],
        ids: Mapping[str, str],
        to: Path,
    ) -> list[str]:
        """Write the zip; who has no page."""
        missing = []
        with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as zipped:
            for row in rows:
                name = f"{row.assignment}.html"
                page = course.feedback / row.student / row.assignment / name
                if page.is_symlink() or not page.is_file():
                    missing.append(row.student)
                    continue
                folder = f"{_named(known[row.student])}_{ids[row.student]}_assignfeedback_file_"
                zipped.write(page, f"{folder}/{name}")
        return missing


def _worksheet(
    rows: Sequence[Row], known: Mapping[str, Person], ids: Mapping[str, str]
) -> Iterator[tuple[object, ...]]:
    for row in rows:
        person = known[row.student]
        yield (
            f"Participant {ids[row.student]}", person.name or row.student, person.email, "",
            row.total, row.points, "Yes", "", "",
        )  # fmt: skip


def _named(person: Person) -> str:
    """What a folder is called after somebody: Moodle shows it, and does not look at it."""
    return IN_NAMES.sub(" ", printable(person.name or person.id))[:LONGEST].strip(" .") or "student"
