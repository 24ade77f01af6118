"""Withdraw a student from a class, or take that back."""

import csv
import io
from datetime import datetime

from autograder.instructor.classroom.choice import UnknownNameError, add_suggestion, choose
from autograder.instructor.commands import printable, write_atomically
from autograder.instructor.course import (
    WITHDRAWN_FILE,
    Course,
    compose_name,
    read_time_zone,
    read_withdrawals,
)


def withdraw(course: Course, student: str, back: bool) -> str:
    """Write into `grading/withdrawn.csv` that a student has left the class, or has come back.

    Nothing else is changed: submissions, grades and pages stay where they are.

    Returns:
        A sentence about what has changed.

    Raises:
        UnknownNameError: there is no such student, or no such student has withdrawn.
        ClassError: the file cannot be understood.
    """
    student = compose_name(student)
    rows, shown = read_withdrawals(course.grading), printable(student)
    withdrawn = [row["student"] for row in rows]
    if back:
        if student not in withdrawn:
            raise UnknownNameError(
                f"grading/{WITHDRAWN_FILE} does not have {add_suggestion(student, withdrawn)}"
            )
        rows = [row for row in rows if row["student"] != student]
        said = f"{shown} is in the class again."
    else:
        if not student:
            raise UnknownNameError("Say who: make withdraw STUDENT=ann.")
        choose(course, student=student)
        zone = read_time_zone(course.grading, course.assignments())
        rows.append({"student": student, "since": f"{datetime.now(zone):%Y-%m-%d}"})
        said = (
            f"{shown} has withdrawn, and is left out of tables, CSVs, exports and the report from "
            f"now on. Grades and submissions are kept."
        )
    table = io.StringIO()
    columns = dict.fromkeys(["student", "since", *(name for row in rows for name in row)])
    writer = csv.DictWriter(table, columns, restval="")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(course.grading / WITHDRAWN_FILE, table.getvalue().encode())
    return f"{said} make report shows the class."
