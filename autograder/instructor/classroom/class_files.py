"""What is written of a class besides its gradebook: CSVs, and the report."""

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

from autograder.instructor.classroom.class_report import write_report
from autograder.instructor.classroom.grade_csvs import write_csvs
from autograder.instructor.classroom.kept_answers import kept_answers
from autograder.instructor.classroom.roster import read_roster
from autograder.instructor.classroom.submission_states import Row
from autograder.instructor.classroom.ungraded import Failure
from autograder.instructor.course import Course
from autograder.instructor.nbgrader_plugins import times_of


def write_class_files(
    course: Course, rows: Sequence[Row], failures: Sequence[Failure]
) -> list[tuple[str, Path]]:
    """Write them all anew; what each is, and where.

    Args:
        course: whose class.
        rows: how all of its submissions stand.
        failures: those that have no grade.

    Raises:
        ClassError: what is written of the class cannot be understood.
    """
    people, submissions = read_roster(course), kept_answers(course, rows)
    zone = times_of(course).rules.zone or UTC
    written = write_csvs(course.grading, rows, people, submissions, zone)
    page = write_report(course, rows, failures, people, submissions)
    return [("Report on the class", page), *written]
