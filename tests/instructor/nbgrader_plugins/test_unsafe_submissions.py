"""Plain nbgrader is as careful as `make grade`: it follows nothing and waits for nothing."""

import fcntl
import os
import sqlite3
from contextlib import closing

import pytest

from autograder.instructor.pipeline import Records, State
from tests.instructor.room import Classroom
from tests.instructor.tiny_class import ASSIGNMENT, hand_in, scores, tiny_class

FILE = f"{ASSIGNMENT}.ipynb"
SOLUTION = f"../../../../solutions/{ASSIGNMENT}/{FILE}"
RIGHT = "double = 2"


def links_to_the_solution(path):
    path.unlink()
    path.symlink_to(SOLUTION)


def has_a_link_beside(path):
    path.with_name("notes.txt").symlink_to(SOLUTION)


def links_to_a_folder(path):
    path.with_name("all").symlink_to("/etc")


def hands_in_a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def has_a_pipe_beside(path):
    os.mkfifo(path.with_name("timestamp.txt"))


def hands_in_a_hole(path):
    with path.with_name("data.bin").open("wb") as file:
        file.truncate(2**42)


REFUSED = {
    links_to_the_solution: f"{FILE} is a link.",
    has_a_link_beside: "notes.txt is a link.",
    links_to_a_folder: "all is a link.",
    hands_in_a_pipe: f"{FILE} is neither a file nor a folder.",
    has_a_pipe_beside: "timestamp.txt is neither a file nor a folder.",
    hands_in_a_hole: "what was handed in has more than 100 MB.",
}


SKIPPED = "it is graded already"


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    room = Classroom(tiny_class(tmp_path_factory.mktemp("course"), 0), ASSIGNMENT)
    room.nbgrader("generate_assignment", ASSIGNMENT)
    hand_in(room.root, "a_neighbour", RIGHT)
    room.nbgrader("autograde", ASSIGNMENT, "--create")
    for spoil in REFUSED:
        spoil(hand_in(room.root, spoil.__name__, RIGHT))
    half = hand_in(room.root, "hands_in_half", RIGHT)
    half.write_text(half.read_text()[:500])
    hand_in(room.root, "zz_next", RIGHT).with_name("scratch.ipynb").write_text("{")
    return room


@pytest.fixture(scope="module")
def said(room):
    """Grade the others, and return the output."""
    return room.nbgrader("autograde", ASSIGNMENT, "--create", check=False)


@pytest.mark.parametrize("spoil", REFUSED, ids=lambda spoil: spoil.__name__)
def test_what_it_would_follow_or_wait_for_is_refused(room, said, spoil):
    assert f"NbGraderException: {REFUSED[spoil]}" in said
    assert spoil.__name__ not in scores(room.root)
    assert not (room.root / "grading" / "autograded" / spoil.__name__ / ASSIGNMENT).exists()


def test_the_others_are_graded(room, said):
    assert scores(room.root) == {"a_neighbour": 2, "zz_next": 2}


def test_what_cannot_be_read_has_a_sentence_and_no_score(room, said):
    assert f"{FILE} cannot be read as a notebook: its JSON breaks off at line" in said
    assert "hands_in_half" not in scores(room.root)
    record = Records(room.root / "grading" / "records").get("hands_in_half", ASSIGNMENT)
    assert record is not None
    assert record.state is State.BROKEN


def test_the_gradebook_was_copied_before(room, said):
    copy = min((room.root / "grading" / "backups").iterdir())  # the first
    with closing(sqlite3.connect(copy)) as book:
        students = [name for (name,) in book.execute("SELECT student_id FROM submitted_assignment")]
    assert students == ["a_neighbour"]


def test_an_earlier_result_outlives_a_refusal(room, said):
    graded = room.root / "grading" / "autograded" / "a_neighbour" / ASSIGNMENT / FILE
    before = graded.read_bytes()
    link = room.root / "grading" / "submitted" / "a_neighbour" / ASSIGNMENT / "notes.txt"
    link.symlink_to("/etc/hostname")
    told = room.nbgrader("autograde", ASSIGNMENT, "--student", "a_neighbour", "--force")
    link.unlink()
    assert f"a_neighbour, {ASSIGNMENT} is left as it was graded: notes.txt is a link." in told
    assert scores(room.root)["a_neighbour"] == 2
    assert graded.read_bytes() == before


def test_a_graded_notebook_that_is_gone_is_made_again(room, said):
    graded = room.root / "grading" / "autograded" / "zz_next" / ASSIGNMENT / FILE
    graded.unlink()
    told = room.nbgrader("autograde", ASSIGNMENT, "--student", "zz_next")
    assert SKIPPED not in told
    assert graded.exists()
    assert SKIPPED in room.nbgrader("autograde", ASSIGNMENT, "--student", "zz_next")


def test_two_gradings_at_once_are_one(room, said):
    with (room.root / "grading" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        busy = room.nbgrader("autograde", ASSIGNMENT, "--force", check=False)
    assert "Another command is at work in this folder." in busy
    assert scores(room.root)["zz_next"] == 2
