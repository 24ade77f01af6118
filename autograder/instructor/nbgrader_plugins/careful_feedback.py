"""Feedback pages, made by one template: by `nbgrader generate_feedback`, Formgrader and `make`.

Everything that a page says is kept: the graded notebook, its record, and what the gradebook has.
So a page is made at once, and whenever it is asked for; it is written only where it has become
another one.
"""

import filecmp
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import api, generatefeedbackapp
from nbgrader.converters import GenerateFeedback, NbGraderException

from autograder.instructor.course import (
    EXCHANGED,
    ClassError,
    Course,
    in_words,
    zone_of,
)
from autograder.instructor.gradebook import shown_grades
from autograder.instructor.nbgrader_plugins.printable_log import keep_printable
from autograder.instructor.pages import About, Given, feedback_page, write_page
from autograder.instructor.pipeline import GradedNotebook, Records, is_told


class CarefulFeedback(GenerateFeedback):
    """Makes pages that ask for nothing elsewhere, and writes those that are new."""

    def start(self) -> None:
        """Make the pages that were asked for.

        Raises:
            NbGraderException: the class's file, which says in which zone its times are, is wrong.
        """
        keep_printable(self.log)
        self.course = Course(Path(self.coursedir.root))
        try:
            self.zone = zone_of(self.course.grading, self.course.assignments())
        except ClassError as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None
        super().start()

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        """Whether a submission's pages are to be made: whatever pages there are already."""
        return student_id not in (self.coursedir.student_id_exclude or "").split(",")

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """Copy what `nbgrader release_feedback` needs, where it is not there yet."""
        source, folder = (
            Path(place(assignment_id, student_id))
            for place in (self._format_source, self._format_dest)
        )
        folder.mkdir(parents=True, exist_ok=True)
        for name in EXCHANGED:  # `nbgrader release_feedback` reads no more beside a page
            new, old = source / name, folder / name
            if new.is_file() and not (old.is_file() and filecmp.cmp(new, old, shallow=False)):
                old.unlink(missing_ok=True)  # it may be read-only
                shutil.copyfile(new, old)
        if self.coursedir.notebook_id == "*":
            pages = {f"{Path(notebook).stem}.html" for notebook in self.notebooks}
            for page in folder.glob("*.html"):
                if page.name not in pages and page.is_file():
                    page.unlink()  # of a notebook that is no part of it any more

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """Make the page of a graded notebook."""
        about = self.init_single_notebook_resources(notebook_filename)["nbgrader"]
        path, folder = (
            Path(notebook_filename),
            Path(self._format_dest(about["assignment"], about["student"])),
        )
        record = Records(self.course.records).get(about["student"], about["assignment"])
        found = record.notebooks.get(about["notebook"]) if record is not None else None
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            page = _page(gradebook, path, about, self.zone, found or GradedNotebook())
        is_new = write_page(folder / f"{path.stem}.html", page)
        self.log.info("%s %s", "Wrote" if is_new else "Nothing is new in", folder / path.stem)


def _page(
    gradebook: Any, path: Path, about: Any, zone: tzinfo, found: GradedNotebook
) -> Callable[[datetime], str]:
    """The page of a graded notebook."""
    # first: what is changed while it is made will be seen the next time
    shown = shown_grades(gradebook, about["assignment"], str(zone), about["student"])
    graded = nbformat.read(path, 4)
    book = gradebook.find_submission_notebook(
        about["notebook"], about["assignment"], about["student"]
    )
    submission = book.assignment
    student = submission.student
    given = {
        grade.name: Given(
            grade.score or 0.0,
            grade.max_score,
            grade.manual_score,
            grade.extra_credit or 0.0,
            grade.needs_manual_grade,
        )
        for grade in book.grades
    }
    comments = {comment.name: comment.comment for comment in book.comments if comment.comment}
    facts = About(
        student.id,
        about["assignment"],
        about["notebook"],
        " ".join(filter(None, (student.first_name, student.last_name))),
        _in_utc(submission.timestamp),
        book.late_submission_penalty or 0.0,
        found.notes,
        book.score,
        book.max_score,
        _in_utc(submission.duedate),
        in_words(submission.total_seconds_late),
        zone,
        shown.get(about["student"]),
    )
    cells = [cell for cell in graded.cells if not is_told(cell)]
    return feedback_page(facts, cells, given, comments, found.verdicts_by_exercise())


def _in_utc(time: datetime | None) -> datetime | None:
    """A time of the gradebook's, which is in UTC and does not say so."""
    return time and time.replace(tzinfo=UTC)


def install_feedback() -> None:
    """Have nbgrader make feedback pages so."""
    generatefeedbackapp.GenerateFeedback = api.GenerateFeedback = CarefulFeedback
