"""Identical submissions are graded once, and the grade is entered for each student."""

import pytest

from autograder.instructor import pipeline
from autograder.instructor.__main__ import main
from autograder.instructor.classroom import grading
from autograder.instructor.classroom.grading import (
    _Dispatcher,
    fingerprint_contents,
    group_identical_submissions,
)
from autograder.instructor.pipeline import Submission
from tests.instructor.tiny_class import ASSIGNMENT, hand_in, log, scores, tiny_class

NOTEBOOK = {"a": b"{}"}


def submission(student, notebooks=NOTEBOOK, files=None, assignment="a", rejected_files=""):
    return Submission(student, assignment, notebooks, files or {}, rejected_files)


def test_each_is_graded_once_and_has_a_grade_and_a_page_of_their_own(tmp_path, capsys):
    root = tiny_class(tmp_path, 0)
    for student, answer in (("ann", "double = 2"), ("bob", "double = 2"), ("cy", "double = 1")):
        path = hand_in(root, student, answer)
        path.with_name("timestamp.txt").write_text(f"2026-11-20 10:0{len(student)}:00 UTC")
    assert main(["--root", str(root), "grade"]) == 0
    assert scores(root) == {"ann": 2, "bob": 2, "cy": 0}
    said = capsys.readouterr().out
    assert all(f"Grading {n}/3: " in said for n in (1, 2, 3))
    entered = {line["student"]: line for line in log(root) if line["step"] == "entered"}
    assert entered["bob"].pop("same_as") == "ann"
    assert not any("same_as" in line for line in entered.values())
    for student in ("ann", "bob"):
        page = root / "grading" / "feedback" / student / ASSIGNMENT / f"{ASSIGNMENT}.html"
        assert student in page.read_text()
    before = len(log(root))
    assert main(["--root", str(root), "grade"]) == 0
    assert not [line for line in log(root)[before:] if line["step"] == "begun"]


def test_who_hands_in_something_else_meanwhile_is_graded_for_that(tmp_path, monkeypatch):
    root = tiny_class(tmp_path, 0)
    hand_in(root, "ann", "double = 2")
    later = hand_in(root, "bob", "double = 2")
    enter = _Dispatcher.enter

    def entered(dispatcher, pair, found):
        if pair[0] == "ann":
            later.write_text(later.read_text().replace("double = 2", "double = 5"))
        return enter(dispatcher, pair, found)

    monkeypatch.setattr(grading._Dispatcher, "enter", entered)
    assert main(["--root", str(root), "grade"]) == 0
    assert scores(root) == {"ann": 2, "bob": 0}
    assert not [line for line in log(root) if "same_as" in line]


def test_who_cannot_be_read_any_more_costs_nobody_who_handed_in_the_same(tmp_path, monkeypatch):
    root, read = tiny_class(tmp_path, 0), []
    for student in ("ann", "bob"):
        hand_in(root, student, "double = 2")

    def read_submission(folder, student, *others):
        read.append(student)
        if student == "ann" and read.count("ann") > 1:  # when it is sent, not when compared
            raise PermissionError("closed")
        return pipeline.read_submission(folder, student, *others)

    monkeypatch.setattr(grading, "read_submission", read_submission)
    assert main(["--root", str(root), "grade"]) == 1
    assert scores(root)["bob"] == 2


def test_a_notebook_does_not_find_when_it_was_handed_in(tmp_path):
    root = tiny_class(tmp_path, 0)
    for student in ("ann", "bob"):
        path = hand_in(root, student, 'import os\ndouble = 1 + os.path.exists("timestamp.txt")')
    path.with_name("timestamp.txt").write_text("2026-11-20 10:00:00 UTC")
    assert main(["--root", str(root), "grade"]) == 0
    assert scores(root) == {"ann": 0, "bob": 0}
    assert [line["same_as"] for line in log(root) if "same_as" in line] == ["ann"]


def test_what_differs_in_anything_is_not_alike():
    one = submission("ann", files={"data.csv": b"1", "b.csv": b""})
    same = submission("bob", files={"b.csv": b"", "data.csv": b"1"})
    others = [
        submission("cy", files={"data.csv": b"1"}),
        submission("cy", files={"data.csv": b"2", "b.csv": b""}),
        submission("cy", files={"data.csv": b"", "b.csv": b"1"}),
        submission("cy", files={"data.csv": b"1", "b.tsv": b""}),
        submission("cy", {"a": b"{ }"}, one.files),
        submission("cy", {"b": b"{}"}, one.files),
        submission("cy", {"a": b"{}", **one.files}),
        submission("cy", files=one.files, assignment="b"),
        submission("cy", files=one.files, rejected_files="movie.mp4 was not taken"),
    ]
    assert fingerprint_contents(one) == fingerprint_contents(same)
    assert len({fingerprint_contents(each) for each in (one, *others)}) == 1 + len(others)


@pytest.mark.parametrize("error", [PermissionError, RuntimeError])
def test_what_cannot_be_read_is_like_nothing_else(error):
    def handed_in(student, assignment):
        if student != "ann":
            raise error
        return submission(student), None

    pairs = [("ann", "a"), ("bob", "a"), ("cy", "a")]
    assert group_identical_submissions(pairs, handed_in) == {pair: [] for pair in pairs}
