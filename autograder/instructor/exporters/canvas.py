"""Grades for Canvas, as its gradebook imports them."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from autograder.instructor.classroom import Person, Row, write_csv
from autograder.instructor.course import Course
from autograder.instructor.exporters.class_exporter import ClassExporter


class Canvas(ClassExporter):
    """A CSV with a column for each assignment; what has no grade is blank, and stays as it is.

    Canvas finds students by the ids in the column `canvas_id` of the roster, and where there are
    none, by the logins in `canvas_login`, or else by the names of their folders.
    """

    default: ClassVar = "grading/exports/canvas.csv"

    def write(
        self, course: Course, rows: Sequence[Row], people: Sequence[Person], to: Path
    ) -> None:
        """Write the CSV."""
        known, ids = {person.id: person for person in people}, self.ids(people, "canvas_id")
        points: dict[str, float] = {}
        scores: dict[str, dict[str, float]] = {}
        for row in rows:
            points[row.assignment] = max(row.points, points.get(row.assignment, 0.0))
            scores.setdefault(row.student, {})[row.assignment] = row.total
        self.say_of("no canvas_id in grading/roster.csv", [s for s in scores if s not in ids])
        heading = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *points]
        lines: list[list[object]] = [["    Points Possible", "", "", "", "", *points.values()]]
        for student, theirs in scores.items():
            person = known.get(student) or Person(student)
            about = [person.name or student, ids.get(student, ""), person.others.get("sis_id", "")]
            login = person.others.get("canvas_login") or student
            graded = [theirs.get(assignment, "") for assignment in points]
            lines.append([*about, login, person.section, *graded])
        write_csv(to, heading, lines)
