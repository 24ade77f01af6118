"""Exercises that come and go after somebody has handed in; and releases that fail, alone."""

import shutil
from types import SimpleNamespace

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.exercises import find
from autograder.instructor.__main__ import main
from tests.conftest import ROOT
from tests.instructor.room import ASSIGNMENT, RIGHT, Classroom, edit, grade_nothing

pytestmark = pytest.mark.slow

OTHER = "00_setup"
RELEASE = ("generate_assignment", ASSIGNMENT, "--force")


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A class of one, graded: its first notebook has one exercise, and the other one has none."""
    room = Classroom.at(tmp_path_factory.mktemp("course") / "before", until="1.1")
    for folder in (room.root / "solutions").iterdir():
        if folder.name not in (ASSIGNMENT, OTHER):
            shutil.rmtree(folder)
    grade_nothing(source(room, OTHER))
    add_to_the_other(room, "assert True")
    assert main(["--root", str(room.root), "release"]) == 0
    room.hand_in("early", {"1.1": RIGHT["1.1"]})
    Classroom(room.root, OTHER).hand_in("early", {})
    assert main(["--root", str(room.root), "grade"]) == 0
    return room


@pytest.fixture
def type_in(room, capsys):
    """A command of an instructor's, and what it says."""

    def command(*words):
        status = main(["--root", str(room.root), *words])
        return SimpleNamespace(status=status, said=" ".join(capsys.readouterr().out.split()))

    return command


def source(room, assignment=ASSIGNMENT):
    return room.root / "solutions" / assignment / f"{assignment}.ipynb"


def end_with(room, exercise):
    """Have the source end with an exercise, as that of this course has it."""
    notebook = nbformat.read(ROOT / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", 4)
    names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
    del notebook.cells[names.index(find(exercise).grade_id) + 1 :]
    nbformat.write(notebook, source(room))


def add_to_the_other(room, test, name="test"):
    """Add a cell to the other notebook that is graded by being run."""
    about = {"grade_id": name, "grade": True, "locked": True, "points": 1, "solution": False}
    metadata = {"nbgrader": {**about, "schema_version": 3, "task": False}}
    cell = nbformat.v4.new_code_cell(test, metadata=metadata, id=name)
    edit(source(room, OTHER), lambda data: data["cells"].append(cell))


def gradebook(room):
    return Gradebook(f"sqlite:///{room.root / 'grading' / 'gradebook.db'}")


def known(room):
    """Each cell of the notebook that the gradebook knows, and what it knows of its kinds."""
    with gradebook(room) as book:
        notebook = book.find_notebook(ASSIGNMENT, ASSIGNMENT)
        return {
            "graded": {cell.name: cell.max_score for cell in notebook.grade_cells},
            "solutions": {cell.name for cell in notebook.solution_cells},
            "sources": {cell.name for cell in notebook.source_cells},
        }


def lines(room):
    """Return each submission's state, score and points from `grades.csv`."""
    rows = (room.root / "grading" / "grades.csv").read_text("utf-8-sig").splitlines()[1:]
    return {tuple(row.split(",")[i] for i in (0, 1)): row.split(",")[2:5] for row in rows}


def files(room):
    course = room.root / "course"
    return {p.relative_to(course): p.read_bytes() for p in course.rglob("*") if p.is_file()}


def test_an_exercise_that_comes_is_everybodys_and_one_that_goes_is_nobodys(room, type_in):
    with gradebook(room) as book:  # what an instructor has written by hand
        comment = book.find_comment("ex-1-1", ASSIGNMENT, ASSIGNMENT, "early")
        comment.manual_comment = "Well done."
        book.db.commit()
    end_with(room, "1.2")
    done = type_in("grade")
    assert done.status == 0, done.said
    assert "1.2" in room.released().cells[-1].source
    assert room.scores() == {"early": {"1.1": 1, "1.2": 0}}
    assert lines(room)["early", ASSIGNMENT] == ["graded", "1.0", "2.0"]
    room.hand_in("late", RIGHT)
    assert type_in("grade").status == 0
    assert lines(room)["late", ASSIGNMENT] == ["graded", "2.0", "2.0"]
    with gradebook(room) as book:
        comment = book.find_comment("ex-1-1", ASSIGNMENT, ASSIGNMENT, "early")
        assert comment.comment == "Well done."
    end_with(room, "1.1")
    assert type_in("grade").status == 0
    assert known(room) == {
        "graded": {"ex-1-1-check": 1},
        "solutions": {"ex-1-1"},
        "sources": {"ex-1-1", "ex-1-1-check"},
    }
    assert room.scores() == {"early": {"1.1": 1}, "late": {"1.1": 1}}
    assert lines(room)["late", ASSIGNMENT] == ["graded", "1.0", "1.0"]


def test_plain_nbgrader_migrates_too_and_grades_what_is_there(room):
    end_with(room, "1.2")
    room.nbgrader(*RELEASE)
    with gradebook(room) as book:
        grade = book.find_grade("ex-1-2-check", ASSIGNMENT, ASSIGNMENT, "early")
        assert (grade.auto_score, grade.needs_manual_grade) == (None, True)
        assert book.find_grade("ex-1-1-check", ASSIGNMENT, ASSIGNMENT, "early").score == 1
    room.nbgrader("autograde", ASSIGNMENT, "--force")
    assert room.scores() == {"early": {"1.1": 1, "1.2": 0}}
    room.nbgrader("generate_feedback", ASSIGNMENT)


def test_what_was_graded_was_copied_before_its_cells_went(room):
    source_of_none = nbformat.read(source(room), 4)
    names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in source_of_none.cells]
    del source_of_none.cells[names.index("ex-1-1") :]
    nbformat.write(source_of_none, source(room))
    said = room.nbgrader(*RELEASE)
    assert "with their grades and comments: ex-1-1, ex-1-1-check" in said
    assert known(room)["graded"] == {}
    status, said = room.run("autograder.instructor", "restore")
    assert status == 0
    last = said.split("make restore FROM=")[1].strip()
    status, said = room.run("autograder.instructor", "restore", last)
    assert status == 0, said
    assert room.scores() == {"early": {"1.1": 1}}


@pytest.mark.parametrize("command", ["grade", "release"])
def test_a_notebook_that_cannot_be_released_costs_no_other_assignment(room, type_in, command):
    kept, cells = files(room), lines(room)
    source(room, OTHER).write_text("{")
    end_with(room, "1.2")
    room.hand_in("late", RIGHT)
    done = type_in(command)
    assert done.status == 1
    assert f"{OTHER} cannot be released: " in done.said
    assert "1.2" in room.released().cells[-1].source
    other = room.root.joinpath("course", OTHER, f"{OTHER}.ipynb").relative_to(room.root / "course")
    assert files(room)[other] == kept[other]
    if command == "grade":
        assert lines(room)["late", ASSIGNMENT] == ["graded", "1.0", "2.0"]
        assert lines(room)["early", OTHER] == cells["early", OTHER]
        Classroom(room.root, OTHER).hand_in("late", {})
        again = type_in("grade")
        assert again.status == 1
        assert lines(room)["late", OTHER] == ["failed", "", ""]
        assert lines(room)["early", OTHER] == cells["early", OTHER]


SECOND_FAILS = """
from nbgrader.preprocessors import NbGraderPreprocessor
class Breaks(NbGraderPreprocessor):
    def preprocess(self, nb, resources):
        if resources["nbgrader"]["notebook"] == "second":
            raise OSError("the disk is full")
        return nb, resources
c.GenerateAssignment.preprocessors.append(Breaks)
"""
NO_PLACE = """
from autograder.instructor.nbgrader_plugins import release
def no_place(*_):
    raise OSError("the disk is full")
release._replace = no_place
"""


@pytest.mark.parametrize("failure", [SECOND_FAILS, NO_PLACE], ids=["makes", "moves"])
def test_a_release_that_fails_in_part_is_none_in_the_gradebook_either(room, failure):
    for folder in ("submitted", "autograded", "records"):
        shutil.rmtree(room.root / "grading" / folder)
    (room.root / "grading" / "gradebook.db").unlink()
    shutil.copy(source(room), source(room).with_name("second.ipynb"))
    room.nbgrader(*RELEASE)
    before = files(room), known(room)
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + failure)
    end_with(room, "1.2")
    _, said = room.run("nbgrader", *RELEASE)
    assert "the disk is full" in said
    assert (files(room), known(room)) == before
