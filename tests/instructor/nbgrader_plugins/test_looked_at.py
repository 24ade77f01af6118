"""A manual score needs another look if anything it was given for has changed."""

import shutil

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook

from autograder.instructor.__main__ import main
from tests.conftest import some_of
from tests.instructor.tiny_class import ASSIGNMENT, about, hand_in, tiny_class

PROMPT = new_markdown_cell("Why two?", id="prompt", metadata=about("prompt", locked=True))
ESSAY = new_markdown_cell(
    "Because.", id="essay", metadata=about("essay", grade=True, solution=True, points=3)
)
BY_HAND = ("essay", "test")


class Room:
    """A class of one, whose essay and test are to have scores by hand."""

    def __init__(self, root):
        self.root = root
        self.source = root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
        submitted = root / "grading" / "submitted"
        self.handed_in = submitted / "ann" / ASSIGNMENT / self.source.name
        self.beside = self.handed_in.with_name("data.txt")

    def gradebook(self):
        return Gradebook(f"sqlite:///{self.root / 'grading' / 'gradebook.db'}")

    def change(self, path, change):
        notebook = nbformat.read(path, 4)
        change(notebook.cells)
        nbformat.write(notebook, path)

    def cell(self, path, name, **attributes):
        """Change one cell of a notebook."""

        def change(cells):
            (cell,) = [cell for cell in cells if cell.metadata.nbgrader.grade_id == name]
            cell.update(attributes)

        self.change(path, change)

    def grade(self, *words):
        assert main(["--root", str(self.root), "grade", *words]) == 0

    def asked(self):
        """The names of the cells that somebody is to look at, of those with scores by hand."""
        with self.gradebook() as book:
            grades = book.find_submission_notebook(ASSIGNMENT, ASSIGNMENT, "ann").grades
            assert {g.name for g in grades if g.manual_score == 1} == {*BY_HAND}
            return {g.name for g in grades if g.name in BY_HAND and g.needs_manual_grade}


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """The class, graded, with scores by hand."""
    room = Room(tiny_class(tmp_path_factory.mktemp("before"), 0))
    hand_in(room.root, "ann", "double = 2\nprint(open('data.txt').read())")
    room.beside.write_text("1")
    for path in (room.source, room.handed_in):
        room.change(path, lambda cells: cells.extend([PROMPT, ESSAY]))
    room.grade()
    with room.gradebook() as book:
        for name in BY_HAND:
            grade = book.find_grade(name, ASSIGNMENT, ASSIGNMENT, "ann")
            grade.manual_score, grade.needs_manual_grade = 1, False
        book.db.commit()
    return room


@pytest.fixture
def room(before, tmp_path):
    """A copy of it."""
    shutil.copytree(before.root, tmp_path / "course")
    return Room(tmp_path / "course")


def test_who_has_looked_need_not_again_though_a_cell_is_added_or_all_is_graded_anew(room):
    another = new_code_cell("assert True", id="more", metadata=about("more", grade=True, points=1))
    room.change(room.source, lambda cells: cells.insert(0, another))
    room.grade()
    assert room.asked() == set()
    room.grade("--again")
    assert room.asked() == set()


CHANGES = {
    "answer": lambda room: room.cell(room.handed_in, "essay", source="It is so."),
    "picture in it": lambda room: room.cell(
        room.handed_in, "essay", attachments={"a.png": {"image/png": "AAAA"}}
    ),
    "another cell": lambda room: room.change(
        room.handed_in, lambda cells: cells.append(new_markdown_cell("See here instead."))
    ),
    "file beside it": lambda room: room.beside.write_text("2"),
    "what is asked": lambda room: room.cell(room.source, "prompt", source="Why not three?"),
    "a file of the course's own": lambda room: room.source.with_name("table.txt").write_text("9"),
}


@pytest.mark.parametrize("name", some_of(list(CHANGES)))
def test_where_anything_is_handed_in_or_asked_otherwise_all_are_to_be_looked_at(room, name):
    CHANGES[name](room)
    room.grade()
    assert room.asked() == {*BY_HAND}


def test_another_test_asks_for_no_other_look_at_an_essay(room):
    room.cell(room.source, "test", source="assert double > 1")
    room.grade()
    assert room.asked() == {"test"}


def test_other_points_are_looked_at(room):
    points = about("essay", grade=True, solution=True, points=10)
    room.cell(room.source, "essay", metadata=nbformat.from_dict(points))
    room.grade()
    assert room.asked() == {"essay"}


@pytest.mark.parametrize("found", ["{", None], ids=repr)
def test_where_the_earlier_notebook_cannot_be_read_all_are_to_be_looked_at(room, found):
    graded = room.root / "grading" / "autograded" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    graded.unlink()
    if found is not None:
        graded.write_text(found)
    room.grade("--again")
    assert room.asked() == {*BY_HAND}


def test_a_score_that_was_given_for_an_earlier_hand_in_is_looked_at_when_it_is_restored(room):
    room.cell(room.handed_in, "essay", source="It is so.")
    room.grade()
    (before,) = (room.root / "grading" / "backups").iterdir()
    assert main(["--root", str(room.root), "restore", str(before)]) == 0
    assert room.asked() == {*BY_HAND}
    room.grade()
    assert room.asked() == {*BY_HAND}
