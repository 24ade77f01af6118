"""Exporters for nbgrader: grades and feedback in the formats of Canvas, Gradescope and Moodle.

In: a gradebook and pages. Out: files that each platform imports. For example
`nbgrader export --exporter autograder.instructor.exporters.Canvas`.

Moodle gets two files for each assignment: a grading worksheet, and a zip file of feedback pages
with one folder for each student, named by Moodle's own rule and participant number. Gradescope gets
a `results.json` for each submission.
"""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from nbgrader.plugins import ExportPlugin

from autograder.exercises import EXERCISES
from autograder.instructor.classroom import (
    MOODLE_ID_PREFIX,
    Person,
    StateRow,
    SubmissionState,
    read_class,
    read_kept_answers,
    write_csv,
)
from autograder.instructor.course import Course, WrittenTableError, near, printable
from autograder.judge import headline, sentences

MAX_NAMED_STUDENTS = 10


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
            rows, people = read_class(course)
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
        self.warn_about("no grade, so nothing of that is exported", ungraded)
        waiting = [f"{r.student} ({r.assignment})" for r in rows if r.needs_a_look]
        self.warn_about("a score that waits for somebody's look, and is exported as it is", waiting)
        to.parent.mkdir(parents=True, exist_ok=True)
        people = [person for person in people if not students or person.id in students]
        self.write(course, [row for row in rows if row.graded], people, to)
        self.log.info("Exported to %s", to)

    def write(
        self, course: Course, rows: Sequence[StateRow], people: Sequence[Person], to: Path
    ) -> None:
        """Write it.

        Args:
            course: whose class.
            rows: the graded submissions that were asked for.
            people: those of the roster that were asked for; nobody, where there is none.
            to: where to.
        """
        raise NotImplementedError

    def warn_about(self, what: str, whom: Sequence[str]) -> None:
        """Say something of some, where there are any."""
        if whom:
            named = ", ".join(map(printable, whom[:MAX_NAMED_STUDENTS]))
            more = (
                f" and {len(whom) - MAX_NAMED_STUDENTS} more"
                if len(whom) > MAX_NAMED_STUDENTS
                else ""
            )
            have = "1 has" if len(whom) == 1 else f"{len(whom)} have"
            self.log.warning("%s %s: %s%s.", have, what, named, more)

    def find_ids(self, people: Sequence[Person], column: str) -> dict[str, str]:
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
                f"{', '.join(map(printable, strange[:MAX_NAMED_STUDENTS]))}."
            )
        if len({*found.values()}) < len(found):
            twice = sorted({i for i in found.values() if [*found.values()].count(i) > 1})
            self.parent.fail(
                f"grading/roster.csv: several people have the same {column}: "
                f"{', '.join(twice[:MAX_NAMED_STUDENTS])}. Grades would go to the wrong one."
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


class Canvas(ClassExporter):
    """A CSV with a column for each assignment; what has no grade is blank, and stays as it is.

    Canvas finds students by the ids in the column `canvas_id` of the roster, and where there are
    none, by the logins in `canvas_login`, or else by the names of their folders.
    """

    default: ClassVar = "grading/exports/canvas.csv"

    def write(
        self, course: Course, rows: Sequence[StateRow], people: Sequence[Person], to: Path
    ) -> None:
        """Write the CSV."""
        known, ids = {person.id: person for person in people}, self.find_ids(people, "canvas_id")
        points: dict[str, float] = {}
        scores: dict[str, dict[str, float]] = {}
        for row in rows:
            points[row.assignment] = max(row.points, points.get(row.assignment, 0.0))
            scores.setdefault(row.student, {})[row.assignment] = row.total
        self.warn_about("no canvas_id in grading/roster.csv", [s for s in scores if s not in ids])
        heading = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *points]
        lines: list[list[object]] = [["    Points Possible", "", "", "", "", *points.values()]]
        for student, theirs in scores.items():
            person = known.get(student) or Person(student)
            about = [person.name or student, ids.get(student, ""), person.others.get("sis_id", "")]
            login = person.others.get("canvas_login") or student
            graded = [theirs.get(assignment, "") for assignment in points]
            lines.append([*about, login, person.section, *graded])
        write_csv(to, heading, lines)


RESULTS_FILE: Final = "results.json"


class Gradescope(ClassExporter):
    """In a folder for each student and assignment, the results that Gradescope shows."""

    default: ClassVar = "grading/exports/gradescope"

    def write(
        self, course: Course, rows: Sequence[StateRow], people: Sequence[Person], to: Path
    ) -> None:
        """Write them."""
        for submission in read_kept_answers(course, rows):
            row = submission.row
            folder = to / row.student / row.assignment
            folder.mkdir(parents=True, exist_ok=True)
            written = json.dumps(_results(submission), indent=1)  # which escapes what is not ASCII
            (folder / RESULTS_FILE).write_text(written, encoding="utf-8")


def _results(submission: SubmissionState) -> dict[str, Any]:
    row = submission.row
    results: dict[str, Any] = {
        "score": row.total,
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "output_format": "text",
        "tests": [*_tests(submission)],
    }
    if row.late:
        results["output"] = f"{row.late:g} points were taken off for being late."
    return results


def _tests(submission: SubmissionState) -> Iterator[dict[str, Any]]:
    """What is said of each graded cell."""
    for name, mark in submission.row.marks.items():
        verdict, known = submission.verdicts.get(name), EXERCISES.get(name)
        said = [headline(verdict), *sentences(verdict)] if verdict else []
        passed = "passed" if mark.score >= mark.points else "failed"
        yield {
            "number": name if known else "",
            "name": known.title if known else printable(name),
            "score": mark.score,
            "max_score": mark.points,
            **({} if mark.needs_a_look else {"status": passed}),
            "output": "\n".join(said),
            "output_format": "text",
            "visibility": "visible",
        }


WORKSHEET_HEADING: Final = (
    "Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade",
    "Grade can be changed", "Last modified (grade)", "Feedback comments",
)  # fmt: skip
"""What Moodle writes above a worksheet; it finds its columns by these words."""

NOT_IN_NAMES: Final = re.compile(r"""[_/\\:*?"<>|\s]+""")
"""What is a blank in a folder's name: Moodle takes it apart at underscores."""

MAX_NAME_CHARACTERS: Final = 60


class Moodle(ClassExporter):
    """For each assignment, a worksheet, and a zip of the feedback pages.

    Moodle finds students by participant numbers, which stand in the worksheet that can be
    downloaded there. Each assignment has its own: those of `06_shard_map_matmul` are in the
    roster's column `moodle_id_06_shard_map_matmul`. A column `moodle_id` serves where there is
    none.
    """

    default: ClassVar = "grading/exports/moodle"

    def write(
        self, course: Course, rows: Sequence[StateRow], people: Sequence[Person], to: Path
    ) -> None:
        """Write the files of each assignment."""
        assignments = dict.fromkeys(row.assignment for row in rows)
        ids_of = {
            assignment: self._participant_numbers(people, assignment) for assignment in assignments
        }
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
            self.warn_about(
                f"no moodle_id in grading/roster.csv, so nothing of {assignment} is exported",
                [row.student for row in theirs if row.student not in ids],
            )
            mine = [row for row in theirs if row.student in ids]
            if not mine:
                continue
            write_csv(to / f"{assignment}.csv", WORKSHEET_HEADING, _worksheet(mine, known, ids))
            pages = self._write_pages(course, mine, known, ids, to / f"{assignment}-feedback.zip")
            self.warn_about(f"no feedback page of {assignment} yet", pages)

    def _participant_numbers(self, people: Sequence[Person], assignment: str) -> Mapping[str, str]:
        """The participant numbers that people have in an assignment."""
        return self.find_ids(people, f"{MOODLE_ID_PREFIX}{assignment}") or self.find_ids(
            people, "moodle_id"
        )

    def _write_pages(
        self,
        course: Course,
        rows: Sequence[StateRow],
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
                folder = (
                    f"{_folder_name(known[row.student])}_{ids[row.student]}_assignfeedback_file_"
                )
                zipped.write(page, f"{folder}/{name}")
        return missing


def _worksheet(
    rows: Sequence[StateRow], known: Mapping[str, Person], ids: Mapping[str, str]
) -> Iterator[tuple[object, ...]]:
    for row in rows:
        person = known[row.student]
        yield (
            f"Participant {ids[row.student]}", person.name or row.student, person.email, "",
            row.total, row.points, "Yes", "", "",
        )  # fmt: skip


def _folder_name(person: Person) -> str:
    """What a folder is called after somebody: Moodle shows it, and does not look at it."""
    return (
        NOT_IN_NAMES.sub(" ", printable(person.name or person.id))[:MAX_NAME_CHARACTERS].strip(" .")
        or "student"
    )
