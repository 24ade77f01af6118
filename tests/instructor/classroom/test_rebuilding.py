"""The gradebook is made again from the records and its newest copy, whatever became of it."""

import re
import shutil

import pytest
from nbgrader.api import Gradebook

from autograder.instructor import gradebook
from autograder.instructor.__main__ import main
from autograder.instructor.classroom import grading, rebuilding
from autograder.instructor.course import REBUILDING_FILE, Course
from autograder.instructor.gradebook import GradebookError, open_gradebook
from autograder.instructor.nbgrader_plugins import entering
from tests.conftest import some_of
from tests.instructor.room import Classroom
from tests.instructor.tiny_class import ASSIGNMENT, hand_in, scores, tiny_class

STUDENTS = ("ann", "bob", "cy")


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """Three are graded, and two of them have a score by hand; Bob has handed in again since."""
    root = tiny_class(tmp_path_factory.mktemp("class") / "before", 0)
    for student, number in zip(STUDENTS, (2, 2, 3), strict=True):
        hand_in(root, student, f"double = {number}  # of {student}")
    assert main(["--root", str(root), "grade"]) == 0
    by_hand(root, "ann", 1.5)
    by_hand(root, "bob", 0.5)
    assert main(["--root", str(root), "grade"]) == 0  # which copies that
    path = root / "grading" / "submitted" / "bob" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    path.write_text(path.read_text().replace("double = 2", "double = 5"))
    assert main(["--root", str(root), "grade"]) == 0
    return root


@pytest.fixture
def graded(before, tmp_path):
    """A copy of it."""
    return shutil.copytree(before, tmp_path / "course")


@pytest.fixture
def make(graded, capsys, monkeypatch):
    """An instructor's command: its exit status, and what it says."""
    monkeypatch.setenv("COLUMNS", "400")  # or a line ends within a path that is long here

    def make(*words):
        capsys.readouterr()
        status = main(["--root", str(graded), *words])
        return status, " ".join(capsys.readouterr().out.split())

    return make


def by_hand(root, student, score):
    with Gradebook(f"sqlite:///{root / 'grading' / 'gradebook.db'}") as book:
        grade = book.find_grade("test", ASSIGNMENT, ASSIGNMENT, student)
        grade.manual_score, grade.needs_manual_grade = score, False
        book.find_comment("double", ASSIGNMENT, ASSIGNMENT, student).manual_comment = "Well done."
        book.db.commit()


def entered(root):
    """Return each student's automatic score, manual score, whether it needs a look, and comment."""
    with Gradebook(f"sqlite:///{root / 'grading' / 'gradebook.db'}") as book:
        found = {}
        for student in STUDENTS:
            grade = book.find_grade("test", ASSIGNMENT, ASSIGNMENT, student)
            comment = book.find_comment("double", ASSIGNMENT, ASSIGNMENT, student)
            found[student] = (
                grade.auto_score, grade.manual_score, bool(grade.needs_manual_grade),
                comment.manual_comment,
            )  # fmt: skip
        return found


WAS = {
    "ann": (2.0, 1.5, False, "Well done."),
    "bob": (0.0, 0.5, True, "Well done."),
    "cy": (0.0, None, False, None),
}


def is_deleted(path):
    path.unlink()


def is_empty(path):
    path.write_bytes(b"")


def is_made_anew(path):
    """Any command of nbgrader makes an empty gradebook if there is none."""
    path.unlink()
    with Gradebook(f"sqlite:///{path}"):
        pass


def is_cut_off(path):
    path.write_bytes(path.read_bytes()[:20_000])


def is_another_file(path):
    path.write_text("An essay. " * 1000)


@pytest.mark.parametrize(
    "spoil", [is_made_anew, *some_of([is_deleted, is_empty, is_cut_off, is_another_file])]
)
def test_what_was_graded_and_given_by_hand_is_there_again(graded, make, spoil):
    assert entered(graded) == WAS
    path = graded / "grading" / "gradebook.db"
    tables = {p: p.read_bytes() for p in (graded / "grading").glob("*.csv")}
    spoil(path)
    status, said = make("report")
    assert status == 1
    assert "make grade makes it again, from what was graded and from its newest sound copy" in said
    assert make("report", "--student", "ann")[1] == said
    assert {p: p.read_bytes() for p in tables} == tables, "no table is written over with blanks"
    _, said = make("restore")
    assert "make grade makes it again, from what was graded" in said
    assert re.search(r"gradebook-\S+\.db \d.* by hand", said)
    exporting = ("export", "--exporter=autograder.instructor.exporters.Canvas")
    said = Classroom(graded).nbgrader(*exporting, check=False)
    assert said.endswith("since then have to be entered again.\n")
    assert "Traceback" not in said
    assert path.exists() == (spoil is not is_deleted), "no empty gradebook hides the loss"
    status, said = make("grade")
    assert status == 0
    assert "It is made again from its copy of" in said
    assert "Grading " not in said, "nobody's notebook is run again"
    assert entered(graded) == WAS
    assert {p: p.read_bytes() for p in tables} == tables
    kept = [*path.parent.glob("gradebook.db.damaged-*")]
    assert len(kept) == (spoil is not is_deleted)


def test_without_a_sound_copy_it_is_said_that_what_was_given_by_hand_is_lost(graded, make):
    (graded / "grading" / "gradebook.db").unlink()
    for copy in gradebook.list_all_backups(graded / "grading" / "backups"):
        copy.write_bytes(b"damaged")
    status, said = make("grade")
    assert status == 0
    assert (
        "There is no intact backup of it: any scores and comments that somebody gave by hand"
        in said
    )
    assert "The grades of 3 submissions were entered again from the records." in said
    assert scores(graded) == {"ann": 2, "bob": 0, "cy": 0}


GOES_ON = {
    "restore_backup": "make grade makes it again, from what was graded",
    "reenter_record": "stopped before its end, so its scores are old. make grade goes on with it.",
}


@pytest.mark.parametrize("when", GOES_ON)
def test_who_goes_on_after_a_stop_asks_about_the_same(graded, make, monkeypatch, when):
    """Ann's score by hand was for what she had handed in before, which had the same score."""
    path = graded / "grading" / "submitted" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    path.write_text(path.read_text().replace("double = 2", "double = 1 + 1"))
    assert make("grade")[0] == 0
    was = WAS | {"ann": (2.0, 1.5, True, "Well done.")}
    assert entered(graded) == was
    (graded / "grading" / "gradebook.db").unlink()

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rebuilding, when, stop)
        assert make("grade")[0] == 130
    files = [p for p in (graded / "grading").rglob("*") if p.suffix in (".csv", ".html")]
    shown = {p: p.read_bytes() for p in files}
    for command in ("report", "feedback", "regrade"):
        status, said = make(command)
        assert status == 1
        assert GOES_ON[when] in said
    assert {p: p.read_bytes() for p in shown} == shown, "no old score is shown as a new one"
    assert make("grade")[0] == 0
    assert entered(graded) == was
    assert not (graded / "grading" / REBUILDING_FILE).exists()


def test_a_class_that_has_graded_nothing_needs_no_gradebook(tmp_path):
    root = tiny_class(tmp_path, 1)
    (root / "grading" / "gradebook.db").touch()
    assert not Course(root).find_trouble()
    assert main(["--root", str(root), "grade"]) == 0


def test_what_fails_on_purpose_keeps_no_score(graded, make):
    """Ann hands in what cannot be read; nbgrader's own export has no score of it, either."""
    path = graded / "grading" / "submitted" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    good = path.read_text()
    path.write_text("{")
    _, said = make("grade")
    assert "cannot be read as a notebook" in said
    assert entered(graded)["ann"] == (None, 1.5, True, "Well done.")
    path.write_text(good)
    assert make("grade")[0] == 0
    assert scores(graded)["ann"] == 2


@pytest.mark.usefixtures("in_this_process")
def test_what_failed_is_not_tried_again_unasked_and_keeps_no_old_score(graded, make, monkeypatch):
    path = graded / "grading" / "submitted" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    path.write_text(path.read_text().replace("double = 2", "double = 4"))
    tried = []

    def fails(*_):
        tried.append("ann")
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("autograder.instructor.pipeline.grading._grade", fails)
    status, said = make("grade")
    assert status == 1
    assert "ZeroDivisionError: planted" in said
    assert entered(graded)["ann"] == (None, 1.5, True, "Well done.")
    status, said = make("grade")
    assert (status, tried) == (1, ["ann"])
    assert (
        "ZeroDivisionError: planted. Nothing has changed since, so it was not tried again" in said
    )
    assert "ann,tiny,failed,," in (graded / "grading" / "grades.csv").read_text("utf-8-sig")
    make("grade", "--again", "--student", "ann")
    assert tried == ["ann", "ann"]
    monkeypatch.undo()
    path.write_text(path.read_text().replace("double = 4", "double = 2"))
    assert make("grade")[0] == 0
    assert scores(graded)["ann"] == 2


@pytest.mark.parametrize(
    ("module", "name"),
    some_of(
        [
            (entering, "move_into_place"),
            (grading, "load_times"),
            (grading, "enter_people"),
            (grading, "report"),
        ],
        at_least=2,
    ),
)
def test_a_gradebook_that_is_deleted_while_grading_is_missed_and_made_again(
    graded, make, monkeypatch, module, name
):
    was, file = getattr(module, name), graded / "grading" / "gradebook.db"

    def delete(*arguments):
        done = was(*arguments)
        file.unlink(missing_ok=True)
        return done

    with monkeypatch.context() as patch:
        patch.setattr(module, name, delete)
        status, said = make("grade", "--again")
    assert status == 1
    assert "gradebook.db was deleted, or moved away, while this command was at work." in said
    assert "make grade makes it again, from what was graded and from its newest sound copy" in said
    assert not file.exists(), "nothing takes its place, until it is made again"
    assert "gradebook.db is not there. It is made again" in make("grade")[1]
    assert [grades[:2] + grades[3:] for grades in entered(graded).values()] == [
        grades[:2] + grades[3:] for grades in WAS.values()
    ]


@pytest.mark.parametrize("state", ["is not there", "is empty", "has no grades"])
def test_scores_are_entered_by_a_program_into_no_empty_gradebook(tmp_path, state):
    path = tmp_path / "gradebook.db"
    if state == "is empty":
        path.touch()
    if state == "has no grades":
        Gradebook(f"sqlite:///{path}").close()
    with pytest.raises(GradebookError, match=f"{state}. Give its path"), open_gradebook(path):
        pass


def test_a_program_enters_scores(graded):
    with open_gradebook(graded / "grading" / "gradebook.db") as book:
        book.find_grade("test", ASSIGNMENT, ASSIGNMENT, "cy").manual_score = 1
        book.db.commit()
    assert entered(graded)["cy"][1] == 1
