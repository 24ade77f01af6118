"""Pages that show what strangers wrote: a student's feedback page, and what Formgrader may show.

In: a graded notebook, the verdicts on it, and what the gradebook says of its cells. Out: one page
of HTML, which asks for nothing elsewhere and runs nothing; and, for pages that nbgrader makes, what
cleans them and which policy they name.
"""

from autograder.instructor.pages.clean_pages import FILTERS, clean
from autograder.instructor.pages.feedback_page import (
    FILES,
    About,
    feedback_page,
    of_formgrader,
    shown_by,
    ungraded_page,
    write_page,
)
from autograder.instructor.pages.results import Given

__all__ = [
    "FILES",
    "FILTERS",
    "About",
    "Given",
    "clean",
    "feedback_page",
    "of_formgrader",
    "shown_by",
    "ungraded_page",
    "write_page",
]
