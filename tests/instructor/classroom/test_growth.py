"""What a report reads of a gradebook grows no faster than the class.

SQLite counts the steps of its own machine, so nothing is timed.
"""

from sqlalchemy import event
from sqlalchemy.engine import Engine

from autograder.instructor.__main__ import main
from autograder.instructor.course import Course
from tests.instructor.classroom.plain_course import FIRST, SECOND, plain_course

SMALL, LARGE = 30, 120
CELLS = 4
STEPS = 100


def fill_gradebook(course, students):
    """Enter a submission of each student for each assignment, and make their folders."""
    with course.open_gradebook() as gradebook:
        for assignment in (FIRST, SECOND):
            gradebook.add_assignment(assignment)
            gradebook.add_notebook(assignment, assignment)
            for cell in range(CELLS):
                gradebook.add_grade_cell(
                    f"cell-{cell}", assignment, assignment, max_score=1, cell_type="code"
                )
        for student in range(students):
            gradebook.add_student(f"student-{student}")
            for assignment in (FIRST, SECOND):
                gradebook.add_submission(assignment, f"student-{student}")
                (course.submitted / f"student-{student}" / assignment).mkdir(parents=True)


def count_steps_of_report(root, students):
    """Return how many steps SQLite takes for a report on a class, in hundreds."""
    fill_gradebook(Course(plain_course(root).root), students)
    counted = 0

    def count():
        nonlocal counted
        counted += 1

    def watch(connection, _):
        connection.set_progress_handler(count, STEPS)

    event.listen(Engine, "connect", watch)
    try:
        assert main(["--root", str(root), "report"]) == 0
    finally:
        event.remove(Engine, "connect", watch)
    return counted


def test_a_report_on_four_times_as_many_students_reads_four_times_as_much(tmp_path):
    small = count_steps_of_report(tmp_path / "small", SMALL)
    large = count_steps_of_report(tmp_path / "large", LARGE)
    assert small < large < 1.2 * LARGE / SMALL * small
