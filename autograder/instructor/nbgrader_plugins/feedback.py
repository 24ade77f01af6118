"""Make feedback pages and release them through nbgrader's exchange.

A page is made from the graded notebook, its record and the gradebook, and written only if it
changed. A released page's name is a hash of the secret that was submitted with the notebook, so
only that student can fetch it. nbgrader stops at the first submission without a secret; here the
pages of the others are released.
"""

import filecmp
import functools
import shutil
import stat
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import nbformat
from nbgrader.api import Gradebook
from nbgrader.apps import api, generatefeedbackapp
from nbgrader.converters import GenerateFeedback, NbGraderException
from nbgrader.exchange.default import ExchangeReleaseFeedback
from nbgrader.utils import check_directory, notebook_hash

from autograder.instructor.commands import describe_duration, printable
from autograder.instructor.course import (
    EXCHANGE_FILES,
    ClassError,
    ClassRules,
    Course,
    read_class_file,
)
from autograder.instructor.gradebook import Mark, as_utc, fingerprint_shown_grades
from autograder.instructor.nbgrader_plugins.autograde import escape_log
from autograder.instructor.pages import (
    AssignmentTotals,
    PageContents,
    SubmissionDetails,
    make_page_in_process,
    write_page,
)
from autograder.instructor.pipeline import GradedNotebook, Records, is_note


class SelfContainedFeedback(GenerateFeedback):
    """Makes feedback pages that load nothing from elsewhere, and writes those that changed."""

    def start(self) -> None:
        """Make the chosen pages.

        Raises:
            NbGraderException: the class's file, which sets the time zone, has a mistake.
        """
        escape_log(self.log)
        self.course = Course(Path(self.coursedir.root))
        try:
            self.rules = read_class_file(self.course.grading, self.course.assignments())
        except ClassError as error:
            self.log.error(str(error))
            raise NbGraderException(str(error)) from None
        super().start()

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        """Return whether to make a submission's pages, even if there are pages already."""
        return student_id not in (self.coursedir.student_id_exclude or "").split(",")

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """Copy the files that `nbgrader release_feedback` needs, and remove outdated pages."""
        source, folder = (
            Path(format_path(assignment_id, student_id))
            for format_path in (self._format_source, self._format_dest)
        )
        folder.mkdir(parents=True, exist_ok=True)
        for name in EXCHANGE_FILES:
            new, old = source / name, folder / name
            if new.is_file() and not (old.is_file() and filecmp.cmp(new, old, shallow=False)):
                old.unlink(missing_ok=True)  # it may be read-only
                shutil.copyfile(new, old)
        if self.coursedir.notebook_id == "*":
            pages = {f"{Path(notebook).stem}.html" for notebook in self.notebooks}
            for page in folder.glob("*.html"):
                if page.name not in pages and page.is_file():
                    page.unlink()  # its notebook is no longer part of the submission

    def convert_single_notebook(self, notebook_filename: str) -> None:
        """Make the page of a graded notebook."""
        names = self.init_single_notebook_resources(notebook_filename)["nbgrader"]
        path, folder = (
            Path(notebook_filename),
            Path(self._format_dest(names["assignment"], names["student"])),
        )
        record = Records(self.course.records).get(names["student"], names["assignment"])
        notebook_record = record.notebooks.get(names["notebook"]) if record is not None else None
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            contents = _read_contents(
                gradebook, path, names, self.rules, notebook_record or GradedNotebook()
            )
        renew = functools.partial(make_page_in_process, contents)
        is_new = write_page(folder / f"{path.stem}.html", renew)
        self.log.info("%s %s", "Wrote" if is_new else "Nothing is new in", folder / path.stem)


IS_OLD: Final = "*(on what was handed in before)* "
"""Begins a comment that was there before the submission, as Markdown."""


def _read_contents(
    gradebook: Any, path: Path, names: Any, rules: ClassRules, notebook_record: GradedNotebook
) -> PageContents:
    """Read everything that is on the page of a graded notebook."""
    # read first, so that a change made meanwhile is noticed the next time
    zone, (assignment, student_id) = rules.zone or UTC, (names["assignment"], names["student"])
    shown = fingerprint_shown_grades(
        gradebook, assignment, str(zone), student_id, rules.describe_counting
    )
    graded = nbformat.read(path, 4)

    def is_old_comment(comment: Any) -> bool:
        text = comment.manual_comment
        return bool(text) and notebook_record.old_comments.get(comment.name) == text

    book = gradebook.find_submission_notebook(
        names["notebook"], names["assignment"], names["student"]
    )
    submission = book.assignment
    student = submission.student
    due, handed_in = (when and as_utc(when) for when in (submission.duedate, submission.timestamp))
    marks = {grade.name: Mark.of(grade) for grade in book.grades}
    comments = {
        comment.name: f"{IS_OLD * is_old_comment(comment)}{comment.comment}"
        for comment in book.comments
        if comment.comment
    }
    details = SubmissionDetails(
        student.id,
        names["assignment"],
        names["notebook"],
        " ".join(filter(None, (student.first_name, student.last_name))),
        handed_in,
        book.late_submission_penalty or 0.0,
        (*notebook_record.notes, *rules.describe_counting(student_id, assignment)),
        book.score,
        book.max_score,
        due,
        describe_duration(rules.seconds_late(due, handed_in)),
        zone,
        shown.get(student_id),
        _add_up(submission) if len(submission.notebooks) > 1 else None,
    )
    cells = [cell for cell in graded.cells if not is_note(cell)]
    return PageContents(details, cells, marks, comments, notebook_record.verdicts_by_exercise())


def _add_up(submission: Any) -> AssignmentTotals:
    total = max(0.0, submission.score - (submission.late_submission_penalty or 0.0))
    return AssignmentTotals(len(submission.notebooks), total, submission.max_score)


def install_feedback() -> None:
    """Make nbgrader use `SelfContainedFeedback`."""
    generatefeedbackapp.GenerateFeedback = api.GenerateFeedback = SelfContainedFeedback


SECRET_FILE: Final = EXCHANGE_FILES[1]

MAX_SECRET_BYTES: Final = 1000


class ReleaseNewFeedback(ExchangeReleaseFeedback):
    """Releases new pages, and logs the students whose pages cannot be released."""

    def copy_files(self) -> None:
        """Release the pages of students who submitted through the exchange, if the pages are new.

        nbgrader could exclude the others only as a list separated by commas, and a student's name
        may contain a comma, so the pages are copied here.
        """
        course, coursedir = Course(Path(self.coursedir.root)), self.coursedir
        wanted = coursedir.student_id if coursedir.student_id else "*"
        excluded = (coursedir.student_id_exclude or "").split(",")
        released_folder = Path(self.dest_path)
        unreleased, unchanged = [], []
        for folder in sorted(
            Path(coursedir.root, coursedir.feedback_directory).glob(
                f"{wanted}/{coursedir.assignment_id}"
            )
        ):
            student, pages = folder.parent.name, sorted(folder.glob("*.html"))
            if student in excluded or not pages:
                continue
            secret = _read_secret(folder, course.submitted / student / folder.name)
            if not secret:
                unreleased.append(student)
                continue
            names = {page: notebook_hash(secret=secret, notebook_id=page.stem) for page in pages}
            if all(
                _is_released(page, released_folder / f"{name}.html") for page, name in names.items()
            ):
                unchanged.append(student)
                continue
            for page, name in names.items():
                temporary = released_folder / f"{name}-tmp.html"  # as nbgrader names it
                shutil.copy(page, temporary)
                temporary.replace(released_folder / f"{name}.html")
            self.log.info("The feedback of %s was released.", printable(student))
        if unchanged:
            students = printable(", ".join(unchanged))
            self.log.info("The pages of these students are released already: %s", students)
        if unreleased:
            self.log.warning(
                "The feedback of these students was not released, because their submissions did "
                "not come through nbgrader's exchange, or came without the secret and the time "
                "that it puts beside a notebook, so they cannot fetch it there: %s. Their pages "
                "are in %s.",
                printable(", ".join(unreleased)),
                coursedir.feedback_directory,
            )


def list_unreleased_students(course: Course, assignment: str, wanted: str = "*") -> list[str]:
    """Return the students whose pages cannot be released, as they did not use the exchange.

    Args:
        course: the course.
        assignment: the assignment's name.
        wanted: a student's name, or a pattern of names.
    """
    return [
        folder.parent.name
        for folder in sorted(course.feedback.glob(f"{wanted}/{assignment}"))
        if any(folder.glob("*.html"))
        and not _read_secret(folder, course.submitted / folder.parent.name / folder.name)
    ]


def explain_missing_exchange(course: Course) -> str:
    """Explain that there is no usable exchange; empty if there is one."""
    exchange = ReleaseNewFeedback(coursedir=course.api.coursedir, parent=course.api)
    if check_directory(exchange.root, write=True, execute=True):
        return ""
    return (
        f"There is no exchange: {exchange.root} is not there, or cannot be written to. Make a "
        f"folder that the whole class can write to, and name it at the end of nbgrader_config.py: "
        f'c.Exchange.root = "/the/folder"'
    )


def _is_released(page: Path, released: Path) -> bool:
    """Check whether a page has been released and has not changed since."""
    return released.is_file() and filecmp.cmp(page, released, shallow=False)


def _read_secret(folder: Path, submitted: Path) -> str:
    """Return a submission's secret; empty if a file that releasing its pages needs is missing.

    Files that are not beside the pages yet are copied from the submission.
    """
    texts = {}
    for name in EXCHANGE_FILES:
        text = _read_small_file(folder / name)
        if not text:
            text = _read_small_file(submitted / name)
            if not text:
                return ""
            (folder / name).unlink(missing_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        texts[name] = text
    return texts[SECRET_FILE]


def _read_small_file(path: Path) -> str:
    """Return the text of a small file; empty if it is missing, too large, a link, or not text."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SECRET_BYTES:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return ""
