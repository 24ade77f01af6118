"""`make demo` and `make grade`: a class, a table, and an exit status that means something."""

import io
import os
import shutil

import nbformat
import pytest
from nbgrader.api import Gradebook
from rich.console import Console

from autograder.exercises import NOTEBOOKS
from autograder.instructor.__main__ import main
from autograder.instructor.authoring import find_cell
from autograder.instructor.classroom import demonstration_class as demonstration
from autograder.instructor.classroom import grading
from autograder.instructor.course import Course
from tests.conftest import ROOT
from tests.instructor.classroom.plain_course import plain_course
from tests.instructor.room import ASSIGNMENT, Classroom

# nbgrader runs in this process here, and its sessions say this of each new submission


def grade(root, **how):
    """The exit status and what was said."""
    said = io.StringIO()
    console = Console(file=said, width=160)
    status = grading.grade_class(Course(root), console, **how)
    return status, said.getvalue()


def grades(root):
    """The lines of the CSV, a submission each."""
    return (root / "grading" / "grades.csv").read_text("utf-8-sig").splitlines()[1:]


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """The demonstration class, graded; there is a class already that it has nothing to do with."""
    root = Classroom.at(tmp_path_factory.mktemp("course")).root
    (root / "grading" / "submitted" / "ann").mkdir(parents=True)
    said = io.StringIO()
    status = demonstration.demonstrate(Course(root), Console(file=said, width=160))
    return root, status, said.getvalue()


@pytest.fixture
def graded(before, tmp_path):
    """The same, for a test that may change it."""
    root, status, said = before
    shutil.copytree(root, tmp_path / "course", symlinks=True)
    return tmp_path / "course" / "demo", status, said


@pytest.fixture
def released(tmp_path):
    """A course with one released assignment."""
    for folder in ("solutions", "course"):
        shutil.copytree(ROOT / folder / ASSIGNMENT, tmp_path / folder / ASSIGNMENT)
    return Course(tmp_path)


def test_an_exercise_without_wrong_answers_in_the_bank_is_left_unanswered(released):
    path = released.solutions / ASSIGNMENT / "bank.py"
    first, *entries = path.read_text().split("# %%")
    kept = [entry for entry in entries if 'exercise="1.2"' not in entry.partition("\n")[0]]
    assert len(kept) < len(entries)
    path.write_text("# %%".join([first, *kept]))
    demonstration.hand_in_notebooks(released, [ASSIGNMENT])

    def read_answer(student, exercise):
        notebook = released.submitted / student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
        return find_cell(nbformat.read(notebook, 4), exercise).source

    for student in ("ben-typical-mistakes", "cleo-other-mistakes"):
        for exercise, is_same in (("1.2", True), ("1.3", False)):
            untouched = read_answer("dana-untouched", exercise)
            assert (read_answer(student, exercise) == untouched) == is_same


def test_a_missing_bank_is_a_sentence(released):
    (released.solutions / ASSIGNMENT / "bank.py").unlink()
    with pytest.raises(demonstration.DemonstrationError, match=r"There is no .*bank\.py,"):
        demonstration.hand_in_notebooks(released, [ASSIGNMENT])


@pytest.mark.slow
def test_five_students_hand_in_to_a_course_apart(graded, monkeypatch):
    root, status, said = graded
    assert status == 0
    students = sorted(p.name for p in (root / "grading" / "submitted").iterdir())
    assert students == sorted(demonstration.STUDENTS)
    assert "Five made-up students hand in: 01_sharding_basics, 06_shard_map_matmul." in said
    lines = said.partition("\n01_sharding_basics\n")[2].splitlines()
    table = [line.split() for line in lines]
    assert ["ada-all-right", "13", *"✓✓✓✓✓✓✓✓"] in table
    assert ["dana-untouched", "0", *"00000000"] in table
    assert ["emil-broken", "broken", *"––––––––"] in table
    assert f"ada-all-right,{ASSIGNMENT},graded,13.0,13.0,0.0,,,,,,," in grades(root)
    assert f"dana-untouched,{ASSIGNMENT},graded,0.0,13.0,0.0,,,,,,," in grades(root)
    assert said.count("its JSON breaks off") == 1
    assert "    emil-broken (01_sharding_basics, 06_shard_map_matmul)" in said
    assert "grading/grades.csv" in said
    assert (root / "grading" / "feedback" / "ada-all-right" / ASSIGNMENT).is_dir()
    rows = (root / "grading" / "exercises.csv").read_text("utf-8-sig").splitlines()
    assert "ada-all-right,01_sharding_basics,1.7,3.0,3.0,,0.0,,right," in rows


@pytest.mark.slow
def test_a_demonstration_leaves_the_class_and_the_course_alone(graded):
    real = graded[0].parent
    submitted = real / "grading" / "submitted"
    assert [path.name for path in submitted.rglob("*")] == ["ann"]
    assert not (real / "grading" / "gradebook.db").exists()
    assert not (real / "grading" / "feedback").exists()


@pytest.mark.slow
def test_only_what_was_handed_in_is_made_and_entered(graded):
    with Gradebook(f"sqlite:///{graded[0] / 'grading' / 'gradebook.db'}") as gradebook:
        assert {a.name for a in gradebook.assignments} == set(demonstration.QUICK_ASSIGNMENTS)


@pytest.mark.slow
def test_the_whole_demonstration_has_every_notebook(graded, monkeypatch):
    assert demonstration.choose_assignments(Course(graded[0]), whole=True) == list(NOTEBOOKS)
    asked = []
    monkeypatch.setattr(
        "autograder.instructor.__main__.demonstrate", lambda *a: asked.append(a[2:])
    )
    main(["--root", str(graded[0]), "demo", "--all"])
    main(["--root", str(graded[0]), "demo"])
    assert asked == [(True,), (False,)]


def test_who_handed_in_something_else_gets_no_company(tmp_path):
    root = plain_course(tmp_path).root
    (root / "grading" / "submitted" / "ann" / "01-sums").mkdir(parents=True)
    status, said = grade(root)
    assert status == 0
    assert "submitted/ann/01-sums was skipped" in said
    assert [folder.name for folder in (root / "grading" / "submitted").iterdir()] == ["ann"]


@pytest.mark.slow
def test_what_is_graded_is_not_graded_again_until_it_changes(graded):
    root, _, first = graded
    notebook = (
        root / "grading" / "autograded" / "dana-untouched" / ASSIGNMENT / (f"{ASSIGNMENT}.ipynb")
    )
    before = notebook.stat().st_mtime_ns
    status, said = grade(root)
    assert status == 0
    assert notebook.stat().st_mtime_ns == before
    assert "made-up students" not in said
    table = "\n01_sharding_basics\n"
    assert said.partition(table)[2] == first.partition(table)[2] != ""
    submitted = root / "grading" / "submitted" / "dana-untouched" / ASSIGNMENT
    right = root / "grading" / "submitted" / "ada-all-right" / ASSIGNMENT / notebook.name
    (submitted / notebook.name).write_text(right.read_text())
    grade(root)
    assert sum(f",{ASSIGNMENT},graded,13.0,13.0" in row for row in grades(root)) == 2


@pytest.mark.slow
def test_a_resubmission_counts_whatever_its_time_says(graded):
    root, _, _ = graded
    submitted = root / "grading" / "submitted"
    late = submitted / "dana-untouched" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    late.write_text(late.read_text().replace("x, in eight column", "X, in eight column"))
    os.utime(late, (0, 0))
    before = (root / "grading" / "autograded" / "dana-untouched" / ASSIGNMENT).stat().st_mtime_ns
    grade(root)
    after = (root / "grading" / "autograded" / "dana-untouched" / ASSIGNMENT).stat().st_mtime_ns
    assert after > before


@pytest.mark.slow
def test_a_submission_that_broke_since_has_no_score_of_old(graded):
    root, _, _ = graded
    path = root / "grading" / "submitted" / "ben-typical-mistakes" / ASSIGNMENT
    (path / f"{ASSIGNMENT}.ipynb").write_text('{"nbformat": "[/x]", "cells"')
    (root / "grading" / "submitted" / "ann" / "01-sharding-basics").mkdir(parents=True)
    (root / "grading" / "submitted" / "bob [late]" / ASSIGNMENT).mkdir(parents=True)
    status, said = grade(root)
    assert status == 0
    rows = grades(root)
    assert f"ben-typical-mistakes,{ASSIGNMENT},broken,,,,,,,,,," in rows
    assert f"bob [late],{ASSIGNMENT},broken,,,,,,,,,," in rows
    assert "bob [late]" in said
    assert "there is no 01_sharding_basics.ipynb in the folder" in said or "Rename it." in said
    assert "submitted/ann/01-sharding-basics was skipped" in said
    exercises = (root / "grading" / "exercises.csv").read_text("utf-8-sig")
    assert f"ben-typical-mistakes,{ASSIGNMENT}," not in exercises


@pytest.mark.slow
def test_notebooks_that_cannot_be_made_are_one_sentence(graded, capsys):
    root, _, _ = graded
    stray = root / "solutions" / ASSIGNMENT / "Untitled.ipynb"
    stray.write_text("{}")
    assert main(["--root", str(root), "grade"]) == 1
    stray.unlink()
    said = " ".join(capsys.readouterr().out.split())
    assert "01_sharding_basics cannot be released:" in said
    assert "Cannot modify existing assignment" in said


@pytest.mark.slow
def test_grading_that_fails_is_not_a_zero_and_not_a_success(tmp_path, monkeypatch):
    room = Classroom.at(tmp_path)
    room.hand_in("somebody", {})
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + "\nc.JudgeEvidence.seconds = 0\n")
    status, said = grade(room.root)
    assert status == 1
    assert "somebody" in said
    assert "JudgeFailedError: The judge got less than its 0 seconds of" in said


def test_the_command_wants_the_courses_folder(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--root", str(tmp_path), "grade"])
    assert (
        "has no nbgrader_config.py; give the course's folder as --root" in capsys.readouterr().err
    )
