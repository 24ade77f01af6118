"""Pages that show what strangers wrote: feedback pages, and what Formgrader may show.

In: a graded notebook, its verdicts, and its cells' grades. Out: one HTML page that loads nothing
from elsewhere and runs no script; and, for nbgrader's own pages, filters that clean them and a
content security policy.
"""

from autograder.instructor.pages.cell_results import NO_RESPONSE
from autograder.instructor.pages.clean_pages import FILTERS, clean
from autograder.instructor.pages.feedback_page import (
    FILES,
    AssignmentTotals,
    PageContents,
    SubmissionDetails,
    formgrader_policy,
    read_shown_grades,
    renew_page,
    ungraded_page,
    write_page,
)
from autograder.instructor.pages.page_process import make_page_in_process
from autograder.instructor.pages.page_templates import format_points

__all__ = [
    "FILES",
    "FILTERS",
    "NO_RESPONSE",
    "AssignmentTotals",
    "PageContents",
    "SubmissionDetails",
    "clean",
    "format_points",
    "formgrader_policy",
    "make_page_in_process",
    "read_shown_grades",
    "renew_page",
    "ungraded_page",
    "write_page",
]
