"""Plain nbgrader in a fresh clone; and a release that fails, or is killed, destroys nothing."""

import shutil
import signal

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.instructor.__main__ import main
from tests.instructor.room import ASSIGNMENT, Classroom

RELEASE = ("generate_assignment", ASSIGNMENT, "--force")
BREAKS = """
import os
from nbgrader.preprocessors import NbGraderPreprocessor
class Breaks(NbGraderPreprocessor):
    def preprocess(self, nb, resources):
        {how}
c.GenerateAssignment.preprocessors.append(Breaks)
"""


def raises(room):
    """A preprocessor raises."""
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + BREAKS.format(how="raise OSError('the disk is full')"))


def is_interrupted(room):
    """Somebody presses Ctrl-C."""
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + BREAKS.format(how="raise KeyboardInterrupt"))


def is_killed(room):
    """The process is killed."""
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + BREAKS.format(how="os.kill(os.getpid(), 9)"))


def has_a_broken_source(room):
    """The source is cut off."""
    source = room.root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    source.write_text(source.read_text()[:5000])


def has_no_gradebook(room):
    """The gradebook cannot be opened."""
    shutil.rmtree(room.root / "grading", ignore_errors=True)
    (room.root / "grading" / "gradebook.db").mkdir(parents=True)


FAILS = {
    raises: "the disk is full",
    has_a_broken_source: "Notebook does not appear to be JSON",
    has_no_gradebook: "gradebook.db is damaged: it is a folder.",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A checkout with an assignment released; to make its gradebook takes the longest."""
    room = Classroom.at(tmp_path_factory.mktemp("made") / "checkout", calibrated=False)
    room.nbgrader(*RELEASE)
    return room


@pytest.fixture
def room(made, tmp_path):
    """One like it, of one's own."""
    shutil.copytree(made.root, tmp_path / "checkout")
    return Classroom(tmp_path / "checkout")


def files(room):
    """All that is released, by name."""
    course = room.root / "course"
    return {p.relative_to(course): p.read_bytes() for p in course.rglob("*") if p.is_file()}


def test_plain_nbgrader_works_in_a_fresh_clone(tmp_path):
    fresh = Classroom.at(tmp_path / "checkout", calibrated=False)
    before = files(fresh)
    fresh.nbgrader("generate_assignment", ASSIGNMENT)
    assert files(fresh) == before
    with Gradebook(f"sqlite:///{fresh.root / 'grading' / 'gradebook.db'}") as gradebook:
        notebook = gradebook.find_notebook(ASSIGNMENT, ASSIGNMENT)
        assert {cell.name: cell.max_score for cell in notebook.grade_cells}["ex-1-1-check"] == 1


def test_what_was_released_is_not_released_again_unless_that_is_asked(room):
    before = files(room)
    source = room.root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    source.write_text("{")
    assert "Skipping existing assignment" in room.nbgrader("generate_assignment", ASSIGNMENT)
    assert files(room) == before


@pytest.mark.parametrize("fail", FAILS, ids=lambda fail: fail.__name__)
def test_a_release_that_fails_leaves_what_was_there(room, fail):
    before = files(room)
    fail(room)
    assert FAILS[fail] in room.nbgrader(*RELEASE, check=False)
    assert files(room) == before


def test_a_release_that_is_interrupted_leaves_what_was_there(room):
    before = files(room)
    is_interrupted(room)
    with pytest.raises(KeyboardInterrupt):
        room.nbgrader(*RELEASE)
    assert files(room) == before


def test_a_release_that_is_killed_leaves_what_was_there(room):
    before = files(room)
    is_killed(room)
    status, _ = room.run("nbgrader", *RELEASE)
    assert status == -signal.SIGKILL
    left = {name: data for name, data in files(room).items() if name.parts[0][0] != "."}
    assert left == before


@pytest.mark.parametrize("command", ["release", "grade"])
def test_so_do_the_commands_that_release_first(room, command, capsys):
    before = files(room)
    room.forget_the_others()
    room.hand_in("ada", {})
    raises(room)
    assert main(["--root", str(room.root), command]) == 1
    assert f"{ASSIGNMENT} cannot be released: OSError: the disk is full" in " ".join(
        capsys.readouterr().out.split()
    )
    assert files(room) == before


def test_what_a_killed_release_left_is_in_nobodys_way(room):
    left = room.root / "course" / f".{ASSIGNMENT}.new"
    before = files(room)
    left.mkdir()
    (left / "half.ipynb").write_text("{")
    room.nbgrader(*RELEASE)
    assert files(room) == before


def test_a_release_is_new_as_a_whole(room):
    """A cell that was added is there, a file that was added, too, and one that went is gone."""
    folder = room.root / "course" / ASSIGNMENT
    (folder / "old.csv").write_text("")
    source = room.root / "solutions" / ASSIGNMENT
    (source / "data").mkdir()
    (source / "data" / "new.csv").write_text("1,2")
    notebook = nbformat.read(source / f"{ASSIGNMENT}.ipynb", 4)
    notebook.cells.append(nbformat.v4.new_markdown_cell("One more thing.", id="more"))
    nbformat.write(notebook, source / f"{ASSIGNMENT}.ipynb")
    room.nbgrader(*RELEASE)
    assert room.released().cells[-1].source == "One more thing."
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert names == {f"{ASSIGNMENT}.ipynb", "data/new.csv"}
    assert (folder / "data" / "new.csv").read_text() == "1,2"
