"""Releasing feedback through nbgrader's exchange: one page that cannot go keeps no other from it.

A page goes to whoever knows the secret that was handed in with the notebook. nbgrader ends where
one was not, or is no text, or where the notebook could not be graded, so that it was not copied.
"""

import filecmp
import shutil
import stat
from pathlib import Path
from typing import Final

from nbgrader.exchange.default import ExchangeReleaseFeedback
from nbgrader.utils import check_directory, notebook_hash

from autograder.instructor.course import EXCHANGED, Course, printable

SECRET: Final = EXCHANGED[1]

LONGEST: Final = 1000
"""The most bytes of such a file."""


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
    for name in EXCHANGED:
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
        if not stat.S_ISREG(about.st_mode) or about.st_size > LONGEST:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return ""
