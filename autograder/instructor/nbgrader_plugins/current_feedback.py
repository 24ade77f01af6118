"""What feedback pages show of the gradebook, noted, so that those that no longer do are renewed."""

from datetime import tzinfo
from pathlib import Path
from typing import Final

from nbgrader.api import Gradebook
from nbgrader.converters import GenerateFeedback

from autograder.instructor.gradebook import Shown, shown_grades

SHOWN: Final = "grades.shown"
"""The file, beside a graded notebook, that says which scores and comments its page shows."""


class CurrentFeedback(GenerateFeedback):
    """Notes beside a graded notebook which scores and comments its page shows."""

    zone: tzinfo

    def look_up(self, assignment_id: str, student_id: str) -> None:
        """Look up what a page is going to show."""
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            # before the page is made: what is changed meanwhile will be seen the next time
            now = shown_grades(gradebook, assignment_id, str(self.zone), student_id)
        self.shows = now.get(student_id)

    def set_permissions(self, assignment_id: str, student_id: str) -> None:
        """Note what was shown: this is the last that nbgrader does of a page."""
        super().set_permissions(assignment_id, student_id)
        file = Path(self._format_source(assignment_id, student_id), SHOWN)
        file.unlink(missing_ok=True)  # nbgrader leaves it read-only
        file.write_text("\n".join(self.shows or ()))


def shown_then(folder: Path) -> Shown | None:
    """Of a folder with a graded notebook, what its page shows; None where that is not known."""
    try:
        everything, scores = (folder / SHOWN).read_text().split("\n")
    except (OSError, UnicodeError, ValueError):  # or it is of an earlier version
        return None
    return Shown(everything, scores)


def outdate(folder: Path) -> None:
    """Of a folder with a graded notebook, note that its page shows something else by now."""
    (folder / SHOWN).unlink(missing_ok=True)


def is_behind(folder: Path, now: Shown | None) -> bool:
    """Whether the page of a graded notebook shows something else than the gradebook has."""
    return now is not None and shown_then(folder) != now


def has_other_scores(folder: Path, now: Shown | None) -> bool:
    """Whether the scores, when a page was made, were others than those that there are."""
    then = shown_then(folder)
    return then is None or now is None or then.scores != now.scores
