"""Cells that are not the course's own count as nbgrader counts them: asserts, essays and tasks."""

import csv
import datetime
import re
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook

from autograder.instructor.__main__ import main
from autograder.instructor.classroom.submission_states import StateRow, SubmissionState
from autograder.instructor.gradebook import Mark
from autograder.instructor.pipeline import State
from tests.instructor.room import ASSIGNMENT, RIGHT, Classroom

BELIEVE = """
c.LockedAutograde.believe_timestamps = True
c.LateSubmissionPlugin.penalty_method = "zero"
"""


def about(name, points, **kinds):
    """Nbgrader's metadata of a cell that is graded."""
    flags = {"grade": True, "solution": False, "locked": False, "task": False, **kinds}
    return {"nbgrader": {"grade_id": name, "schema_version": 3, "points": points, **flags}}


OTHERS = (
    new_code_cell("assert len(jax.devices()) == devices_there", metadata=about("test", 2)),
    new_markdown_cell("Why?", metadata=about("essay", 3, solution=True)),
    new_markdown_cell("Draw it.", metadata=about("task", 4, grade=False, task=True, locked=True)),
)


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A class of two, graded; the notebook has one exercise, and cells of an instructor's own."""
    room = Classroom.at(tmp_path_factory.mktemp("course") / "before", until="1.1", calibrated=False)
    room.forget_the_others()
    room.grade_uncalibrated()
    path = room.root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    notebook = nbformat.read(path, 4)
    notebook.cells += [new_code_cell("devices_there = 8"), *OTHERS]
    nbformat.write(notebook, path)
    assert main(["--root", str(room.root), "release"]) == 0
    hand_in(room, "ann", {"1.1": RIGHT["1.1"]}, essay="Because.")
    hand_in(room, "bob", {}, devices_there=7)
    hand_in(room, "cid", {"1.1": "import os; os._exit(3)"})
    assert main(["--root", str(room.root), "grade"]) == 0
    return room


@pytest.fixture
def grade(room, capsys):
    """`make grade`: what it says."""

    def command():
        assert main(["--root", str(room.root), "grade"]) == 0
        return capsys.readouterr().out

    return command


def hand_in(room, student, answers, devices_there=8, essay=""):
    path = room.hand_in(student, answers)
    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:
        if cell.source == "devices_there = 8":
            cell.source = f"devices_there = {devices_there}"
        if essay and cell.metadata.get("nbgrader", {}).get("grade_id") == "essay":
            cell.source = essay
    nbformat.write(notebook, path)
    return path


def give(room, name, student="ann", **what):
    """Enter into the gradebook what somebody gives in Formgrader."""
    with Gradebook(f"sqlite:///{room.root / 'grading' / 'gradebook.db'}") as gradebook:
        grade = gradebook.find_grade(name, ASSIGNMENT, ASSIGNMENT, student)
        for attribute, value in {"needs_manual_grade": False, **what}.items():
            setattr(grade, attribute, value)
        gradebook.db.commit()


def table(room, file):
    """The lines of a CSV, by student, or by student and exercise."""
    with (room.root / "grading" / file).open(newline="", encoding="utf-8-sig") as lines:
        rows = [SimpleNamespace(**row) for row in csv.DictReader(lines)]
    return {(r.student, r.exercise) if hasattr(r, "exercise") else r.student: r for r in rows}


def exported(room):
    """Return each student's score, points and penalty in nbgrader's own CSV."""
    room.nbgrader("export", "--to", "exported.csv")
    with (room.root / "exported.csv").open(newline="", encoding="utf-8-sig") as lines:
        return {
            row["student_id"]: (row["score"], row["max_score"], row["late_submission_penalty"])
            for row in csv.DictReader(lines)
        }


def ours(room):
    """The same, of ours."""
    rows = table(room, "grades.csv").values()
    return {r.student: (r.score, r.points, r.taken_off_for_being_late) for r in rows}


def test_every_graded_cell_counts_with_nbgraders_own_totals(room, grade):
    said = grade()
    assert ours(room) == exported(room)
    assert ours(room) == {
        "ann": ("3.0", "10.0", "0.0"),
        "bob": ("0.0", "10.0", "0.0"),
        "cid": ("0.0", "10.0", "0.0"),  # whose tests never ran
    }
    lines = [line.split() for line in said.partition(f"\n\n{ASSIGNMENT}\n")[2].splitlines()]
    assert lines[0] == ["student", "total", "1.1", "test", "essay", "task"]
    assert lines[1] == ["points", "10", "1", "2", "3", "4"]
    assert ["ann", "3?", "✓", "✓", "0?", "0?"] in lines
    assert ["bob", "0?", "0", "0", "0", "0?"] in lines  # who wrote no essay has none of its points
    assert "? is where a cell needs manual grading" in said
    cells = table(room, "exercises.csv")
    assert [name for student, name in cells if student == "ann"] == ["1.1", "test", "essay", "task"]
    assert cells["ann", "test"].score == "2.0"
    assert cells["bob", "test"].needs_a_look == cells["bob", "essay"].needs_a_look == ""
    assert cells["ann", "essay"].needs_a_look == cells["ann", "task"].needs_a_look == "yes"


def test_the_report_and_csvs_are_made_by_each_grading_and_by_a_command_of_their_own(
    room, grade, capsys
):
    said = grade()
    page = room.root / "grading" / "report" / "index.html"
    assert "Report on the class: grading/report/index.html" in said
    for part in ("3 submissions are graded", "1.1 Column strips", "ann: essay, task", "1 waiting"):
        assert part in " ".join(page.read_text().split())
    assert f"../feedback/ann/{ASSIGNMENT}/{ASSIGNMENT}.html#result-ex-1-1-check" in page.read_text()
    cells = table(room, "exercises.csv")
    assert (cells["ann", "1.1"].answer, cells["ann", "1.1"].diagnoses) == ("right", "")
    assert (cells["bob", "1.1"].answer, cells["ann", "essay"].answer) == ("unanswered", "waiting")
    ann = vars(table(room, "students.csv")["ann"])
    assert (ann["score"], ann[ASSIGNMENT], ann[f"{ASSIGNMENT} test"]) == ("3.0", "3.0", "2.0")
    page.unlink()
    give(room, "essay", "bob", manual_score=3, extra_credit=1)
    assert main(["--root", str(room.root), "report"]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = [line[:3] for line in lines if line[:3] in ("ann", "bob")]
    assert begin[:2] == ["ann", "bob"]  # and below the table there are sentences
    assert page.exists()


def test_what_is_given_by_hand_and_beyond_counts_at_once(room, grade):
    give(room, "essay", manual_score=2.5)
    give(room, "task", manual_score=4, extra_credit=1)
    give(room, "ex-1-1-check", extra_credit=0.5)
    said = " ".join(grade().split())
    assert ours(room) == exported(room)
    assert ours(room)["ann"] == ("11.0", "10.0", "0.0")
    assert "ann 11 1.5 ✓ 2.5 5 " in said
    essay, task = (table(room, "exercises.csv")["ann", name] for name in ("essay", "task"))
    assert (essay.score, essay.by_hand, essay.extra_credit, essay.needs_a_look) == (
        "2.5", "2.5", "0.0", "",
    )  # fmt: skip
    assert (task.score, task.by_hand, task.extra_credit) == ("5.0", "4.0", "1.0")
    assert table(room, "grades.csv")["ann"].needs_a_look == ""


def test_what_formgrader_was_given_is_on_the_next_page_and_no_other_page_is_written(room):
    pages = {
        student: room.root / "grading" / "feedback" / student / ASSIGNMENT / f"{ASSIGNMENT}.html"
        for student in ("ann", "bob", "cid")
    }
    before = pages["bob"].stat()
    give(room, "essay", manual_score=2.5)
    with Gradebook(f"sqlite:///{room.root / 'grading' / 'gradebook.db'}") as gradebook:
        comment = gradebook.find_comment("essay", ASSIGNMENT, ASSIGNMENT, "ann")
        comment.manual_comment = "Well *said*."
        gradebook.db.commit()
    assert "Because." in pages["ann"].read_text()
    room.nbgrader("generate_feedback", ASSIGNMENT)
    for said in ("Well <em>said</em>.", "Given by hand: 2.5 of 3.", ">2.5 / 3</span>"):
        assert said in pages["ann"].read_text()
    after = pages["bob"].stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    said = re.sub("<[^>]+>", "", pages["cid"].read_text())
    assert "did not run to its end, because the kernel died in it or before it." in said
    assert "ended with an error: NotRun" not in said
    assert "The test passed." in pages["ann"].read_text()
    assert "The test passed." not in said


@pytest.mark.slow  # by day, test_late.py compares with nbgrader
def test_what_is_taken_off_for_being_late_is_seen_and_is_nbgraders(room, grade):
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + BELIEVE)
    with Gradebook(f"sqlite:///{room.root / 'grading' / 'gradebook.db'}") as gradebook:
        gradebook.update_or_create_assignment(ASSIGNMENT, duedate="2026-01-01 00:00:00 UTC")
    late = room.root / "grading" / "submitted" / "ann" / ASSIGNMENT / "timestamp.txt"
    late.write_text(str(datetime.datetime(2026, 1, 2)))
    said = grade()
    assert ours(room) == exported(room)
    assert ours(room)["ann"] == ("0.0", "10.0", "3.0")
    lines = [line.split() for line in said.partition(f"\n\n{ASSIGNMENT}\n")[2].splitlines()]
    assert lines[0] == ["student", "total", "late", "1.1", "test", "essay", "task"]
    assert ["ann", "0?", "-3", "✓", "✓", "0?", "0?"] in lines


def test_a_score_by_hand_that_hides_a_better_new_answer_is_said(room, grade):
    give(room, "test", "bob", manual_score=0.5)
    give(room, "essay", manual_score=1)
    hand_in(room, "bob", {"1.1": RIGHT["1.1"]})
    hand_in(room, "ann", {}, essay="Because of that.")
    said = " ".join(grade().split())
    assert (
        f"bob, {ASSIGNMENT}: test has 0.5 points by hand, from before it was last graded. That "
        "counts, of now 2, until somebody looks at it; without it, there would be 2 now, which is "
        "more."
    ) in said
    assert f"ann, {ASSIGNMENT}: essay has 1 point by hand, from before it was last graded." in said
    assert said.count("from before") == 2
    assert ours(room)["bob"] == ("1.5", "10.0", "0.0")
    give(room, "test", "bob", manual_score=None)
    assert "bob, " not in " ".join(grade().split()).partition("Feedback")[0].partition("Formgr")[2]


@pytest.mark.parametrize(
    ("unanswered", "score", "by_hand", "state"),
    [
        (("sum", "product"), 0.0, None, "unanswered"),
        (("sum",), 0.0, None, "wrong"),
        (("sum", "product"), 0.0, 0.0, "wrong"),
        (("sum", "product"), 1.0, None, "partly"),
    ],
)
def test_a_test_of_cells_that_nobody_changed_is_unanswered(
    tmp_path, unanswered, score, by_hand, state
):
    answer = {"points": 0, "grade": False, "solution": True}
    cells = [
        new_code_cell("assert first", metadata=about("above", 2)),
        new_code_cell("# YOUR CODE HERE", metadata=about("sum", **answer)),
        new_code_cell("# YOUR CODE HERE", metadata=about("product", **answer)),
        new_code_cell("assert product == 2", metadata=about("other", 2)),
        new_code_cell("assert total == 3", metadata=about("test", 2)),
    ]
    path = tmp_path / "hw.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    marks = {"test": Mark(score, 2.0, score, by_hand), "above": Mark(0.0, 2.0, 0.0)}
    row = StateRow("ann", "hw", State.GRADED, marks)
    submission = SubmissionState(row, {}, unanswered, path)
    assert submission.state("test") == state
    assert submission.state("above") == "wrong"
