"""The report on a class: one page that an instructor opens, prints, and shows to others.

In: how a class stands, its roster, and the records of what was graded. Out:
`grading/report/index.html`, one file that has no scripts and asks for nothing elsewhere. No code
that was handed in is run for it, or taken apart.
"""

from autograder.instructor.classroom.class_report.report_page import REPORT, write_report

__all__ = ["REPORT", "write_report"]
