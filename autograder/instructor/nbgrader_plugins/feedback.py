"""Make feedback pages and release them through nbgrader's exchange.

A page is made from the graded notebook, its record and the gradebook, and written only if it
changed. Releasing gives each page to whoever knows the secret that was submitted with the notebook.
nbgrader stops at the first page without one; here the others are released.
"""

import filecmp
import shutil
import stat
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Final

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import api, generatefeedbackapp
from nbgrader.converters import GenerateFeedback, NbGraderException
from nbgrader.exchange.default import ExchangeReleaseFeedback
from nbgrader.utils import check_directory, notebook_hash

from autograder.instructor.course import (
    EXCHANGE_FILES,
    ClassError,
    Course,
    in_words,
    printable,
    zone_of,
)
from autograder.instructor.gradebook import shown_grades
from autograder.instructor.nbgrader_plugins.autograde import keep_printable
from autograder.instructor.pages import About, GradebookEntry, feedback_page, write_page
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
        for name in EXCHANGE_FILES:  # `nbgrader release_feedback` reads no more beside a page
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
        grade.name: GradebookEntry(
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


SECRET: Final = EXCHANGE_FILES[1]

MAX_SECRET_BYTES: Final = 1000


class CarefulReleaseFeedback(ExchangeReleaseFeedback):
    """Releases the pages that can be, and are new, and names those that cannot."""

    def copy_files(self) -> None:
        """Release, without those who did not hand in through the exchange, or have their page.

        nbgrader leaves students out by their names with commas between them, and a name may have a
        comma. So the pages are copied here.
        """
        course, about = Course(Path(self.coursedir.root)), self.coursedir
        wanted = about.student_id if about.student_id else "*"
        excluded = (about.student_id_exclude or "").split(",")
        there = Path(self.dest_path)
        left, same = [], []
        for folder in sorted(
            Path(about.root, about.feedback_directory).glob(f"{wanted}/{about.assignment_id}")
        ):
            student, pages = folder.parent.name, sorted(folder.glob("*.html"))
            if student in excluded or not pages:
                continue
            secret = _secret(folder, course.submitted / student / folder.name)
            if not secret:
                left.append(student)
                continue
            names = {page: notebook_hash(secret=secret, notebook_id=page.stem) for page in pages}
            if all(_is_same(page, there / f"{name}.html") for page, name in names.items()):
                same.append(student)
                continue
            for page, name in names.items():
                beside = there / f"{name}-tmp.html"  # as nbgrader names it
                shutil.copy(page, beside)
                beside.replace(there / f"{name}.html")
            self.log.info("The feedback of %s was released.", printable(student))
        if same:
            said = printable(", ".join(same))
            self.log.info("Of these students, the pages are there as they are: %s", said)
        if left:
            self.log.warning(
                "The feedback of these students was not released, because what they handed in did "
                "not come through nbgrader's exchange, or not with the secret and the time that "
                "it puts beside a notebook, so they cannot fetch it there: %s. Their pages are in "
                "%s.",
                printable(", ".join(left)),
                about.feedback_directory,
            )


def cannot_fetch(course: Course, assignment: str, wanted: str = "*") -> list[str]:
    """The students who have a page that is not released: they did not use the exchange.

    Args:
        course: whose pages.
        assignment: of what.
        wanted: of whom.
    """
    return [
        folder.parent.name
        for folder in sorted(course.feedback.glob(f"{wanted}/{assignment}"))
        if any(folder.glob("*.html"))
        and not _secret(folder, course.submitted / folder.parent.name / folder.name)
    ]


def no_exchange(course: Course) -> str:
    """Why nothing can be released to anybody: there is no exchange; empty where there is."""
    exchange = CarefulReleaseFeedback(coursedir=course.api.coursedir, parent=course.api)
    if check_directory(exchange.root, write=True, execute=True):
        return ""
    return (
        f"There is no exchange: {exchange.root} is not there, or cannot be written to. Make a "
        f"folder that the whole class can write to, and name it at the end of nbgrader_config.py: "
        f'c.Exchange.root = "/the/folder"'
    )


def _is_same(page: Path, released: Path) -> bool:
    """Whether a page has been released as it is."""
    return released.is_file() and filecmp.cmp(page, released, shallow=False)


def _secret(folder: Path, handed_in: Path) -> str:
    """The secret that a page goes by; empty where anything is missing that releasing it takes.

    What is not beside the page yet is put there from what was handed in.
    """
    found = {}
    for name in EXCHANGE_FILES:
        text = _text(folder / name)
        if not text:
            text = _text(handed_in / name)
            if not text:
                return ""
            (folder / name).unlink(missing_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        found[name] = text
    return found[SECRET]


def _text(path: Path) -> str:
    """What a small file holds; empty where it is none, or holds no text."""
    try:
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_SECRET_BYTES:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return ""
