"""Exporters for nbgrader: grades and feedback in the formats of Canvas and Moodle.

In: a gradebook and feedback pages. Out: files that each platform imports. For example
`nbgrader export --exporter autograder.instructor.exporters.Canvas`.

Moodle gets two files for each assignment: a grading worksheet, and a zip file of feedback pages
with one folder for each student, named by Moodle's own rule and participant number.
"""

import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from nbgrader.plugins import ExportPlugin

from autograder.instructor.classroom import (
    Person,
    StateRow,
    read_class,
    write_csv,
)
from autograder.instructor.commands import list_some, printable, suggest_names, write_atomically
from autograder.instructor.course import (
    DROPPED,
    EXEMPT,
    MOODLE_ID_PREFIX,
    ClassError,
    ClassRules,
    Course,
    GradebookError,
    read_class_file,
)

MAX_NAMED_STUDENTS: Final = 10


class ClassExporter(ExportPlugin):
    """An exporter of a class's grades as `make grade` shows them, by nbgrader's own totals.

    Attributes:
        default: the path within the course that is written to without `--to`.
        rules: the rules in the class's file.
    """

    default: ClassVar = ""
    rules: ClassRules

    def __init__(self, **settings: Any) -> None:
        """End nbgrader with a sentence if the gradebook is damaged or gone.

        That cannot wait for `export`, because nbgrader opens the gradebook first: a damaged one
        ends in a traceback, and in place of a lost one it makes an empty one.
        """
        super().__init__(**settings)
        self.course = Course(Path(self.parent.coursedir.root))
        try:
            trouble = self.course.explain_trouble()
        except GradebookError as error:
            self.parent.fail(printable(str(error)))
        if trouble:
            self.parent.fail(printable(trouble))

    def export(self, gradebook: Any) -> None:
        """Write the chosen grades, or end nbgrader with the reason why that is impossible."""
        course = self.course
        target = Path(self.to) if self.to else course.root / self.default
        try:
            rows, people = read_class(course)
            self.rules = read_class_file(course.grading, course.assignments())
        except ClassError as error:
            self.parent.fail(printable(str(error)))
        students, assignments = _parse_names(self.student), _parse_names(self.assignment)
        all_rows = rows
        rows = [
            row
            for row in all_rows
            if (not students or row.student in students)
            and (not assignments or row.assignment in assignments)
        ]
        unknown = assignments - {row.assignment for row in rows}
        if misspelt := sorted(unknown - {*course.assignments()}):
            self.parent.fail(
                f"There is no assignment {', '.join(map(printable, misspelt))}."
                f"{suggest_names(misspelt[0], course.assignments())}"
            )
        if unknown:
            self.parent.fail(
                f"Nobody has handed in {', '.join(map(printable, sorted(unknown)))}, so there is "
                f"nothing to export of it."
            )
        known = {row.student for row in all_rows} | {person.id for person in people}
        if strangers := sorted(students - known):
            self.parent.fail(
                f"There is no student {', '.join(map(printable, strangers))}."
                f"{suggest_names(strangers[0], known)}"
            )
        ungraded = [f"{r.student} ({r.assignment})" for r in rows if not r.is_graded]
        self.warn_about("no grade, so nothing of that is exported", ungraded)
        closed = [name for name in course.find_closed_students() if name in (students or {name})]
        self.warn_about("a folder that cannot be read, so nothing of theirs is exported", closed)
        waiting = [f"{r.student} ({r.assignment})" for r in rows if r.needs_a_look]
        self.warn_about("a score that somebody has to check, and is exported as it is", waiting)
        stale = [f"{r.student} ({r.assignment})" for r in rows if r.out_of_date]
        self.warn_about("a grade that is out of date (make grade regrades it)", stale)
        if self.rules.best is not None or self.rules.weights is not None:
            self.log.info(
                "These are the scores of each assignment. What grading/class.toml says of weights "
                "and the best N is in grading/students.csv alone: set the same on the platform."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        people = [person for person in people if not students or person.id in students]
        self.write([row for row in rows if row.is_graded], people, target)
        self.log.info("Exported to %s", target)

    def write(self, rows: Sequence[StateRow], people: Sequence[Person], target: Path) -> None:
        """Write the platform's files.

        Args:
            rows: the chosen submissions that are graded.
            people: the chosen people of the roster; empty if there is no roster.
            target: the file or folder to write to.
        """
        raise NotImplementedError

    def warn_about(self, what: str, whom: Sequence[str]) -> None:
        """Log a warning about students or submissions, if there are any."""
        if whom:
            names = list_some([*map(printable, whom)], MAX_NAMED_STUDENTS)
            have = "1 has" if len(whom) == 1 else f"{len(whom)} have"
            self.log.warning("%s %s: %s.", have, what, names)

    def find_ids(
        self, people: Sequence[Person], column: str, is_number: bool = True
    ) -> dict[str, str]:
        """Find the platform's ids of students in a column of the roster.

        nbgrader ends with an error if an id is not a number and should be, or if two people have
        the same. Capital letters do not make a difference, because platforms ignore them.

        Returns:
            The ids by student, of those who have one.
        """
        ids = {p.id: p.cell(column) for p in people if p.cell(column)}
        malformed = [f"{student}: {id}" for student, id in ids.items() if not _is_id(id)]
        if malformed and is_number:
            self.parent.fail(
                f"grading/roster.csv: a {column} is a whole number. These are not: "
                f"{', '.join(map(printable, malformed[:MAX_NAMED_STUDENTS]))}."
            )
        counts = Counter(id.casefold() for id in ids.values())
        if twice := sorted(id for id, count in counts.items() if count > 1):
            self.parent.fail(
                f"grading/roster.csv: several people have the same {column}: "
                f"{', '.join(map(printable, twice[:MAX_NAMED_STUDENTS]))}. Grades would go to the "
                f"wrong one."
            )
        return ids


def _parse_names(arguments: Sequence[object]) -> set[str]:
    """Parse names such as `ada`, or lists such as `["ada", "bob"]`, as in nbgrader's help."""
    names = set[str]()
    for argument in map(str, arguments):
        as_list = re.fullmatch(r"\[(.*)\]", argument)
        parts = as_list[1].split(",") if as_list else [argument]
        names |= {part.strip(" \"'") for part in parts}
    return names - {""}


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit()


class Canvas(ClassExporter):
    """A CSV with a column for each assignment. Canvas ignores blank cells, those without a grade.

    Canvas finds students by their ids, or else by their logins, or else by their names. A namesake
    would get the grade then, so students without an id or login are left out. `[canvas]` in
    `class.toml` says which columns of the roster have them, and the numbers of assignments, by
    which Canvas knows them whatever their titles are. `EX` is Canvas's sign for what is excused.
    """

    default: ClassVar = "grading/exports/canvas.csv"

    def write(self, rows: Sequence[StateRow], people: Sequence[Person], target: Path) -> None:
        """Write the CSV."""
        points: dict[str, float] = {}
        scores: dict[str, dict[str, float]] = {}
        for row in rows:
            points[row.assignment] = max(row.points, points.get(row.assignment, 0.0))
            scores.setdefault(row.student, {})[row.assignment] = row.total
        for person in people:
            if any(self.rules.exclusion(person.id, assignment) for assignment in points):
                scores.setdefault(person.id, {})
        in_roster = {person.id: person for person in people}
        known = [in_roster.get(student) or Person(student) for student in scores]
        settings = self.rules.platforms.canvas
        everybody = [*known, *(person for person in people if person.id not in scores)]
        ids = self.find_ids(everybody, settings.id)
        sis_ids = self.find_ids(everybody, settings.sis_id, is_number=False)
        logins = self.find_ids(everybody, settings.login, is_number=False)
        unknown = [student for student in scores if student not in {*ids, *sis_ids, *logins}]
        if len(unknown) == len(scores) and scores:
            self.parent.fail(
                f"Canvas knows students by ids or logins, and grading/roster.csv has none in its "
                f"columns {settings.id}, {settings.sis_id} and {settings.login}. If the names of "
                f'the folders are the logins, write login = "id" below a line [canvas] in '
                f"grading/class.toml."
            )
        self.warn_about(
            f"no {settings.id}, {settings.sis_id} or {settings.login} in grading/roster.csv, so "
            f"Canvas would go by the name, and is left out",
            unknown,
        )
        if untitled := [a for a in points if a not in settings.assignments]:
            self.log.info(
                "Canvas makes a new assignment of %s, unless it has one of this title: "
                "[canvas.assignments] in grading/class.toml is where to say its number.",
                ", ".join(untitled),
            )
        titles = [
            f"{name} ({settings.assignments[name]})" if name in settings.assignments else name
            for name in points
        ]
        heading = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *titles]
        lines: list[list[object]] = [["    Points Possible", "", "", "", "", *points.values()]]
        for person in known:
            if person.id in unknown:
                continue
            cells = [
                "EX"
                if self.rules.exclusion(person.id, assignment)
                else scores[person.id].get(assignment, "")
                for assignment in points
            ]
            known_by = [column.get(person.id, "") for column in (ids, sis_ids, logins)]
            lines.append([person.name or person.id, *known_by, person.section, *cells])
        write_csv(target, heading, lines)


WORKSHEET_HEADING: Final = (
    "Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade",
    "Grade can be changed", "Last modified (grade)", "Feedback comments",
)  # fmt: skip
"""The headings of Moodle's worksheets, by which it finds the columns."""

NOT_IN_NAMES: Final = re.compile(r"""[_/\\:*?"<>|\s]+""")
"""Replaced by a space in a folder's name, which Moodle splits at underscores."""

MAX_NAME_CHARACTERS: Final = 60


class Moodle(ClassExporter):
    """A grading worksheet and a zip of the feedback pages for each assignment.

    Moodle finds students by participant numbers, which are in the worksheet that Moodle lets you
    download. Each assignment has its own: those of `06_shard_map_matmul` are in the roster's column
    `moodle_id_06_shard_map_matmul`. Without such a column, `moodle_id` is used.
    """

    default: ClassVar = "grading/exports/moodle"

    def write(self, rows: Sequence[StateRow], people: Sequence[Person], target: Path) -> None:
        """Write the files of each assignment."""
        column = self.rules.platforms.moodle.id
        left_out = [row for row in rows if row.left_out in (EXEMPT, DROPPED)]
        self.warn_about(
            "a score that does not count, and is left out",
            [f"{row.student} ({row.assignment})" for row in left_out],
        )
        rows = [row for row in rows if row not in left_out]
        assignments = dict.fromkeys(row.assignment for row in rows)
        ids_of = {
            assignment: self._participant_numbers(people, assignment) for assignment in assignments
        }
        if not any(ids_of.values()):
            self.parent.fail(
                "Moodle knows students by their participant numbers, and grading/roster.csv has no "
                f"column {column} with any. The worksheet that Moodle lets you download has them "
                "(“Participant 123”)."
            )
        known = {person.id: person for person in people}
        target.mkdir(parents=True, exist_ok=True)
        for assignment, ids in ids_of.items():
            of_assignment = [row for row in rows if row.assignment == assignment]
            self.warn_about(
                f"no {column} in grading/roster.csv, so nothing of {assignment} is exported",
                [row.student for row in of_assignment if row.student not in ids],
            )
            with_id = [row for row in of_assignment if row.student in ids]
            if not with_id:
                continue
            lines = _worksheet(with_id, known, ids)
            write_csv(target / f"{assignment}.csv", WORKSHEET_HEADING, lines)
            pages_file = target / f"{assignment}-feedback.zip"
            without_page = self._write_pages(with_id, known, ids, pages_file)
            self.warn_about(f"no feedback page of {assignment} yet", without_page)
        self.log.info(
            "When you upload a worksheet, tick “Allow updating records that have been modified "
            "more recently in Moodle than in the spreadsheet”: without it, Moodle skips everybody "
            "who has a grade or a feedback file already, and changed grades do not arrive."
        )

    def _participant_numbers(self, people: Sequence[Person], assignment: str) -> Mapping[str, str]:
        """Find the participant numbers of an assignment, by student."""
        return self.find_ids(people, f"{MOODLE_ID_PREFIX}{assignment}") or self.find_ids(
            people, self.rules.platforms.moodle.id
        )

    def _write_pages(
        self,
        rows: Sequence[StateRow],
        known: Mapping[str, Person],
        ids: Mapping[str, str],
        zip_file: Path,
    ) -> list[str]:
        """Write the zip, and return the students who have no page."""
        missing = []
        contents = io.BytesIO()
        with zipfile.ZipFile(contents, "w", zipfile.ZIP_DEFLATED) as zipped:
            for row in rows:
                made = sorted((self.course.feedback / row.student / row.assignment).glob("*.html"))
                pages = [page for page in made if page.is_file() and not page.is_symlink()]
                if not pages:
                    missing.append(row.student)
                    continue
                folder = (
                    f"{_folder_name(known[row.student])}_{ids[row.student]}_assignfeedback_file_"
                )
                for page in pages:  # one for each notebook
                    zipped.write(page, f"{folder}/{page.name}")
        write_atomically(zip_file, contents.getvalue())
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
    """Return the beginning of a student's folder in the zip; Moodle shows it and ignores it."""
    return (
        NOT_IN_NAMES.sub(" ", printable(person.name or person.id))[:MAX_NAME_CHARACTERS].strip(" .")
        or "student"
    )
