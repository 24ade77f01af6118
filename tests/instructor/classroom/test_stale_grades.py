"""A grade is made anew where what it rests on has changed, and only there."""

import shutil
from collections import Counter
from types import SimpleNamespace

import msgspec
import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder.instructor.__main__ import main
from autograder.instructor.classroom import grading, stale_grades
from autograder.instructor.classroom.stale_grades import ALL_PARTS, Bases, is_judging_enough
from autograder.instructor.course import Course
from autograder.instructor.nbgrader_plugins import CaptureEvidence
from autograder.instructor.pipeline import (
    Records,
    basis,
    fingerprint_assignment,
    fingerprint_submission,
)
from autograder.instructor.sandbox import JudgeFailedError
from tests.conftest import ROOT
from tests.helpers import copy_folder
from tests.instructor.room import (
    ASSIGNMENT,
    RIGHT,
    Classroom,
    edit,
)

CHECK = "ex-1-1-check"

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A class of two, graded; its notebook has one exercise and an assert, to be quick."""
    room = Classroom.at(tmp_path_factory.mktemp("course") / "before", until="1.1", calibrated=False)
    room.forget_the_others()
    room.grade_uncalibrated()
    source(room, add_an_assert)
    assert main(["--root", str(room.root), "release"]) == 0
    room.hand_in("right", {"1.1": RIGHT["1.1"]})
    room.hand_in("wrong", {"1.1": "columns = x"})
    assert main(["--root", str(room.root), "grade"]) == 0
    return room


@pytest.fixture
def type_in(room, monkeypatch, capsys):
    """A command of an instructor's: what it says, and whose notebooks it runs."""
    ran = []
    preprocess = CaptureEvidence.preprocess

    def run(self, nb, resources, **kwargs):
        student = resources["nbgrader"]["student"]
        ran.extend([student] * (student in ("right", "wrong")))  # and none of the course's own
        return preprocess(self, nb, resources, **kwargs)

    monkeypatch.setattr(CaptureEvidence, "preprocess", run)

    def command(*words):
        ran.clear()
        status = main(["--root", str(room.root), *words])
        said = " ".join(capsys.readouterr().out.split())
        return SimpleNamespace(status=status, said=said, ran=sorted(ran))

    return command


def stop(*_, **__):
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt


def source(room, change):
    """Change the cells of the source notebook, by name."""

    def change_cells(data):
        cells = {c["metadata"].get("nbgrader", {}).get("grade_id"): c for c in data["cells"]}
        change(data["cells"], cells)

    edit(room.root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", change_cells)


def add_an_assert(cells, _):
    about = {"grade_id": "shape", "grade": True, "locked": True, "points": 1, "solution": False}
    metadata = {"nbgrader": {**about, "schema_version": 3, "task": False}}
    test = nbformat.v4.new_code_cell("assert x.shape == (16, 16)", metadata=metadata, id="shape")
    cells.append(test)


def give(points, name=CHECK):
    """A change of the points of a cell."""

    def change(_, cells):
        cells[name]["metadata"]["nbgrader"]["points"] = points

    return change


def exercises(room):
    """Each line of the CSV: who, in which exercise, has how many of how many points."""
    lines = (room.root / "grading" / "exercises.csv").read_text("utf-8-sig").splitlines()[1:]
    return [tuple(line.split(",")[i] for i in (0, 2, 3, 4)) for line in lines]


def scores(room):
    """Return each student's score, points, and whether it needs a look, from the gradebook."""
    with Gradebook(f"sqlite:///{room.root / 'grading' / 'gradebook.db'}") as gradebook:
        return {
            name: (grade.score, grade.max_score, grade.needs_manual_grade)
            for name in ("right", "wrong")
            for grade in [gradebook.find_grade(CHECK, ASSIGNMENT, ASSIGNMENT, name)]
        }


def page(room, student):
    path = room.root / "grading" / "feedback" / student / ASSIGNMENT / f"{ASSIGNMENT}.html"
    return path.read_text()


def test_points_that_change_in_the_middle_are_everybodys_and_so_when_they_are_set_back(
    room, type_in, monkeypatch
):
    api = Course(room.root).api
    calibrated = fingerprint_assignment(api.coursedir, api.config, ASSIGNMENT)
    for points, before in ((6, 1), (3, 6)):
        source(room, give(points))
        with monkeypatch.context() as patch:
            patch.delattr(stale_grades, "judge_in_sandbox")  # nobody would say anything else of it
            done = type_in("grade")
        assert (done.status, done.ran) == (0, [])
        assert f"Since {ASSIGNMENT} was graded, points have changed. 2 of its" in done.said
        assert "submissions are given the new points, by the verdicts that were kept." in done.said
        assert ("right", "1.1", f"{points}.0", f"{points}.0") in exercises(room)
        others = f"({ASSIGNMENT}, {points + 1} points, {before + 1} before)"  # with the assert's
        assert f"for the same submission: right {others}. " in done.said
        assert "another score" not in type_in("report").said
        assert scores(room) == {"right": (points, points, False), "wrong": (0, points, False)}
        assert f">{points} / {points}</span>" in page(room, "right")
        assert f">0 / {points}</span>" in page(room, "wrong")
        assert type_in("regrade").said.count("; 0 have changed.") == 1
        assert fingerprint_assignment(api.coursedir, api.config, ASSIGNMENT) == calibrated
    done = type_in("grade")
    assert "Since" not in done.said
    assert not done.ran


def test_new_points_need_no_evidence(room, type_in):
    records = Records(Course(room.root).records)
    then = records.get("right", ASSIGNMENT)
    assert then is not None
    damaged = msgspec.structs.replace(then.notebooks[ASSIGNMENT], evidence=msgspec.Raw(b"{}"))
    kept = msgspec.structs.replace(then, notebooks={ASSIGNMENT: damaged})
    records.write("right", ASSIGNMENT, kept)
    source(room, give(6))
    done = type_in("grade")
    assert (done.status, done.ran) == (0, []), done.said
    assert ("right", "1.1", "6.0", "6.0") in exercises(room)


def test_points_that_plain_nbgrader_was_told_count_when_judged_again(room, type_in):
    source(room, give(6))
    room.nbgrader("generate_assignment", ASSIGNMENT, "--force")
    assert scores(room)["right"] == (1, 6, False)
    done = type_in("regrade")
    assert "2 submissions were judged again; 2 have changed." in done.said
    assert scores(room)["right"] == (6, 6, False)
    assert not type_in("grade").ran


@pytest.mark.slow
def test_points_of_a_cell_that_is_not_judged_here_are_given_by_running_it(room, type_in):
    source(room, give(4, "shape"))
    done = type_in("grade")
    assert done.ran == ["right", "wrong"]
    assert "cells of the notebook or files beside it have changed. 2 of its" in done.said
    assert "are run again." in done.said
    assert "<strong>5</strong> of 5 points" in page(room, "right")


def test_what_was_handed_in_is_read_once_and_again_after_grading(room, type_in, monkeypatch):
    read = Counter[str]()

    def count(folder):
        read[folder.parent.name] += 1
        return fingerprint_submission(folder)

    monkeypatch.setattr(stale_grades, "fingerprint_submission", count)
    assert not type_in("grade").ran
    assert read == {"right": 1, "wrong": 1}
    room.hand_in("wrong", RIGHT)
    assert type_in("grade").ran == ["wrong"]
    assert read["right"] == 1 + 2


def test_what_is_handed_in_while_others_are_judged_again_is_graded(room, type_in, monkeypatch):
    judge = stale_grades.judge_stale_grades

    def judge_while_somebody_hands_in(*arguments):
        yield from judge(*arguments)
        room.hand_in("wrong", RIGHT)

    monkeypatch.setattr(grading, "judge_stale_grades", judge_while_somebody_hands_in)
    source(room, give(6))
    assert type_in("grade").ran == ["wrong"]
    assert scores(room)["wrong"] == (6, 6, False)


PARTS = {
    "judge/scoring.py": {"judge"},
    "judge/exercise.py": {"judge"},
    "exercises/notebooks/nb01_sharding_basics.py": {"exercises"},
    "exercises/notebooks/nb02_computation_follows_data.py": set(),
    "instructor/classroom/grade_tables.py": set(),
    "evidence/plans.py": {"package"},
    "instructor/nbgrader_plugins/capture_evidence.py": {"package"},
}
"""The part of a grade's basis that changes if a module changes."""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return copy_folder(ROOT / "autograder", tmp_path_factory.mktemp("package") / "autograder")


@pytest.fixture
def another_judge(package, monkeypatch):
    """A judge that is another one from here on, and says the same."""
    monkeypatch.setattr(basis, "find_package_folders", lambda: (ROOT / "shardlings", package))
    module = package / "judge" / "scoring.py"
    text = module.read_text()
    module.write_text(f"{text}\n# Another.\n")
    yield
    module.write_text(text)


def test_another_place_of_the_same_package_changes_nothing(room, type_in, package, monkeypatch):
    monkeypatch.setattr(basis, "find_package_folders", lambda: (ROOT / "shardlings", package))
    assert "Since" not in type_in("grade").said


@pytest.mark.parametrize("module", PARTS)
def test_another_module_is_another_part_of_the_basis(before, package, module, monkeypatch):
    monkeypatch.setattr(basis, "find_package_folders", lambda: (ROOT / "shardlings", package))
    text = (package / module).read_text()
    (package / module).write_text(f"{text}\n# Another.\n")
    changed = Bases(Course(before.root)).find_changes("right", ASSIGNMENT)
    (package / module).write_text(text)
    assert changed == PARTS[module]


@pytest.mark.usefixtures("another_judge")
def test_another_judge_judges_the_evidence_that_was_kept(type_in):
    done = type_in("grade")
    assert (done.status, done.ran) == (0, [])
    assert "judged again from the evidence that was kept" in done.said


def test_only_another_judge_exercise_or_number_of_points_runs_nobodys_notebook():
    enough = {part for part in ALL_PARTS if is_judging_enough(frozenset({part}))}
    assert enough == {"judge", "exercises", "points"}
    assert not is_judging_enough(frozenset({"judge", "package"}))


def test_another_jax_is_run_with(room, type_in, monkeypatch):
    monkeypatch.setattr(basis, "read_jax_versions", lambda: ["99"])
    done = type_in("grade")
    assert done.ran == ["right", "wrong"]
    assert "JAX has changed" in done.said
    assert not type_in("grade").ran


def test_what_looks_at_something_else_is_run_again_and_not_judged(room, type_in, monkeypatch):
    """As where an exercise asks for arrays of other sizes: the kept evidence is of none of them."""
    current_basis = basis.current_basis

    def others(coursedir, assignment):
        return msgspec.structs.replace(current_basis(coursedir, assignment), plans="others")

    monkeypatch.setattr("autograder.instructor.classroom.stale_grades.current_basis", others)
    done = type_in("regrade")
    assert done.status == 0
    assert "0 submissions were judged again; 0 have changed." in done.said
    assert "2 were left as they were: their exercises now capture something else" in done.said
    assert type_in("grade").ran == ["right", "wrong"]
    assert "2 submissions were judged again; 0 have changed." in type_in("regrade").said


def test_who_could_not_be_judged_again_keeps_a_stale_grade_and_is_tried_the_next_time(
    room, type_in, another_judge, monkeypatch
):
    source(room, give(6))
    with monkeypatch.context() as patch:

        def fail(*_):
            raise JudgeFailedError("The machine is too busy.")

        patch.setattr(stale_grades, "judge_in_sandbox", fail)
        done = type_in("grade")
    assert (done.status, done.ran) == (1, [])
    assert "The old grade stays. JudgeFailedError: The machine is too busy." in done.said
    assert ("right", "1.1", "1.0", "6.0") in exercises(room)
    assert "These grades are out of date, because" in done.said
    assert type_in("grade").status == 0
    assert ("right", "1.1", "6.0", "6.0") in exercises(room)


def test_what_was_killed_before_its_page_was_made_has_one_the_next_time(
    room, type_in, another_judge, monkeypatch
):
    source(room, give(6))
    with monkeypatch.context() as patch:
        patch.setattr(Course, "make_feedback_page", stop)
        assert type_in("grade").status == 130
    assert ">1 / 1</span>" in page(room, "right")
    assert type_in("grade").status == 0
    assert ">6 / 6</span>" in page(room, "right")


def test_what_was_stopped_is_not_taken_for_what_there_was_before(room, type_in, monkeypatch):
    source(room, give(6))
    with monkeypatch.context() as patch:
        patch.setattr(Course, "make_feedback_page", stop)
        assert type_in("grade").status == 130
    source(room, give(1))
    assert "Renewed feedback pages: right" in (type_in("report").said)
    assert ">6 / 6</span>" in page(room, "right")
    assert type_in("grade").status == 0
    assert scores(room)["right"] == (1, 1, False)


def test_what_comes_while_another_is_judged_again_is_graded_too(room, type_in, monkeypatch):
    source(room, give(6))
    folder, finish = room.root / "grading" / "submitted", Course.make_feedback_page

    def somebody_hands_in(course, student, assignment):
        if student == "wrong":
            shutil.copytree(folder / "right", folder / "wrong", dirs_exist_ok=True)
        return finish(course, student, assignment)

    monkeypatch.setattr(Course, "make_feedback_page", somebody_hands_in)
    type_in("grade")
    type_in("grade")
    assert scores(room)["wrong"] == (6, 6, False)


def test_what_could_not_be_judged_again_is_told_of_by_a_report(room, type_in, monkeypatch):
    source(room, give(6))
    with monkeypatch.context() as patch:

        def fail(*_):
            raise JudgeFailedError("The machine is too busy.")

        patch.setattr(stale_grades, "enter_regraded", fail)
        assert type_in("grade").status == 1
    said = type_in("report").said
    assert "out of date, because points have changed: right (01_sharding_basics), wrong (" in said


def test_evidence_that_is_gone_is_made_anew(room, type_in):
    source(room, give(6))
    (room.root / "grading" / "records" / "right" / f"{ASSIGNMENT}.json").unlink()
    assert type_in("grade").ran == ["right"]
    assert scores(room)["right"] == (6, 6, False)


def test_a_score_of_somebodys_own_stands_and_is_to_be_looked_at(room, type_in):
    with Gradebook(f"sqlite:///{room.root / 'grading' / 'gradebook.db'}") as gradebook:
        for student in ("right", "wrong"):
            grade = gradebook.find_grade(CHECK, ASSIGNMENT, ASSIGNMENT, student)
            grade.manual_score, grade.needs_manual_grade = 0.5, False
        gradebook.db.commit()
    source(room, give(6))
    type_in("grade")
    assert scores(room) == {"right": (0.5, 6, True), "wrong": (0.5, 6, True)}
