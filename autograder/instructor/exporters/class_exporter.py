"""What all exporters have in common: whose class it is, and what of it was asked for."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from nbgrader.plugins import ExportPlugin

from autograder.instructor.classroom import Person, Row, class_as_it_stands
from autograder.instructor.course import Course, WrittenTableError, near, printable

MOST_NAMED = 10
"""How many students are named who cannot be exported; how many more is said."""


class ClassExporter(ExportPlugin):
    """An exporter of a class as `make grade` shows it, by nbgrader's own totals.

    Attributes:
        default: where in the course it writes to if `--to` does not say.
    """

    default: ClassVar = ""

    def export(self, gradebook: Any) -> None:
        """Write what was asked for, or end with what keeps it from being written."""
        course = Course(Path(self.parent.coursedir.root))
        to = Path(self.to) if self.to else course.root / self.default
        try:
            rows, people = class_as_it_stands(course)
        except WrittenTableError as error:
            self.parent.fail(printable(str(error)))
        students, assignments = _chosen(self.student), _chosen(self.assignment)
        everybody = rows
        rows = [
            row
            for row in everybody
            if (not students or row.student in students)
            and (not assignments or row.assignment in assignments)
        ]
        unknown = assignments - {row.assignment for row in rows}
        if unknown:
            self.parent.fail(
                f"Nobody has handed in {', '.join(map(printable, sorted(unknown)))}, so there is "
                f"nothing to export of it."
            )
        known = {row.student for row in everybody} | {person.id for person in people}
        if strangers := sorted(students - known):
            self.parent.fail(
                f"There is no student {', '.join(map(printable, strangers))}."
                f"{near(strangers[0], known)}"
            )
        ungraded = [f"{r.student} ({r.assignment})" for r in rows if not r.graded]
        self.say_of("no grade, so nothing of that is exported", ungraded)
        waiting = [f"{r.student} ({r.assignment})" for r in rows if r.needs_a_look]
        self.say_of("a score that waits for somebody's look, and is exported as it is", waiting)
        to.parent.mkdir(parents=True, exist_ok=True)
        people = [person for person in people if not students or person.id in students]
        self.write(course, [row for row in rows if row.graded], people, to)
        self.log.info("Exported to %s", to)

    def write(
        self, course: Course, rows: Sequence[Row], people: Sequence[Person], to: Path
    ) -> None:
        """Write it.

        Args:
            course: whose class.
            rows: the graded submissions that were asked for.
            people: those of the roster that were asked for; nobody, where there is none.
            to: where to.
        """
        raise NotImplementedError

    def say_of(self, what: str, whom: Sequence[str]) -> None:
        """Say something of some, where there are any."""
        if whom:
            named = ", ".join(map(printable, whom[:MOST_NAMED]))
            more = f" and {len(whom) - MOST_NAMED} more" if len(whom) > MOST_NAMED else ""
            have = "1 has" if len(whom) == 1 else f"{len(whom)} have"
            self.log.warning("%s %s: %s%s.", have, what, named, more)

    def ids(self, people: Sequence[Person], column: str) -> dict[str, str]:
        """The platform's ids of people, by the names of their folders; those that have one.

        It ends here where an id cannot be one, or where two people have the same.
        """
        found = {p.id: p.others[column] for p in people if p.others.get(column)}
        strange = [
            f"{student}: {theirs}" for student, theirs in found.items() if not _is_id(theirs)
        ]
        if strange:
            self.parent.fail(
                f"grading/roster.csv: a {column} is a whole number. These are none: "
                f"{', '.join(map(printable, strange[:MOST_NAMED]))}."
            )
        if len({*found.values()}) < len(found):
            twice = sorted({i for i in found.values() if [*found.values()].count(i) > 1})
            self.parent.fail(
                f"grading/roster.csv: several people have the same {column}: "
                f"{', '.join(twice[:MOST_NAMED])}. Grades would go to the wrong one."
            )
        return found


def _chosen(names: Sequence[object]) -> set[str]:
    """What was asked for: `ada`, or `["ada", "bob"]`, as nbgrader's help has it; all if nothing."""
    chosen = set[str]()
    for name in map(str, names):
        listed = re.fullmatch(r"\[(.*)\]", name)
        parts = listed[1].split(",") if listed else [name]
        chosen |= {part.strip(" \"'") for part in parts}
    return chosen - {""}


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit()
