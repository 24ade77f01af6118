"""The whole nbgrader loop, by its own commands: release, validate, autograde, feedback, export."""

import re
import shutil

import msgspec
import nbformat
import pytest

from autograder.instructor.pipeline import Records
from autograder.instructor.sandbox import judge_in_sandbox
from tests.conftest import ROOT
from tests.instructor.room import (
    ASSIGNMENT,
    RIGHT,
    Classroom,
)

POINTS = {"1.1": 1, "1.6": 2}
MIXED = {**RIGHT, "1.1": "columns = x", "1.6": "first = NamedSharding(grid, P(('x', 'y')))"}
NOISY = """
import sys, warnings
warnings.warn("a warning that somebody's library gives")
print("a line on stderr", file=sys.stderr)
"""


def released(root):
    """A course whose notebook has two exercises, to be quick."""
    others = ("1.2", "1.3", "1.4", "1.5")  # on which 1.6 does not depend
    room = Classroom.at(root, until="1.6", without=others, calibrated=False)
    room.grade_uncalibrated()
    room.nbgrader("generate_assignment", ASSIGNMENT, "--force")
    return room


def source(root):
    return root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A class of five, graded once."""
    room = released(tmp_path_factory.mktemp("course"))
    room.hand_in_notebook("solution", nbformat.read(source(room.root), 4))
    room.hand_in("untouched", {})
    room.hand_in("mixed", MIXED)
    room.hand_in("noisy", {k: v + NOISY for k, v in RIGHT.items()}, first=NOISY)
    path = room.hand_in("noisy_checks", RIGHT)
    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:  # an extension that prints wherever a cell runs
        if "emulate_devices" in cell.source:
            cell.source += (
                "\nimport sys\nget_ipython().events.register("
                "'pre_run_cell', lambda *_: print('noise', file=sys.stderr))"
            )
    nbformat.write(notebook, path)
    room.nbgrader("autograde", ASSIGNMENT, "--create")
    return room


@pytest.mark.parametrize("assignment", ["00_setup", ASSIGNMENT])
def test_release_makes_what_is_committed(tmp_path, assignment):
    room = Classroom.at(tmp_path, assignment, calibrated=False)
    room.nbgrader("generate_assignment", assignment, "--force")
    made, committed = (root / "course" / assignment for root in (room.root, ROOT))
    for path in committed.iterdir():
        assert (made / path.name).read_bytes() == path.read_bytes(), "run `make release`"


@pytest.mark.parametrize("student", ["solution", "noisy", "noisy_checks"])
def test_right_answers_have_full_marks_whatever_is_printed(room, student):
    assert room.scores()[student] == POINTS


def test_the_untouched_notebook_has_none_and_no_cell_in_error(room):
    assert room.scores()["untouched"] == dict.fromkeys(POINTS, 0)
    path = room.root / "grading" / "autograded" / "untouched" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    for cell in nbformat.read(path, 4).cells:
        assert not [o for o in cell.get("outputs", []) if o.output_type == "error"], cell.source
    assert "`columns` has not been filled in yet." in room.verdicts("untouched")["ex-1-1-check"]


def test_partial_credit_is_saved(room):
    assert room.scores()["mixed"] == {**POINTS, "1.1": 0, "1.6": 0.6667}


def test_the_message_and_the_score_reach_the_feedback_page(room):
    room.nbgrader("generate_feedback", ASSIGNMENT)
    folder = room.root / "grading" / "feedback" / "mixed" / ASSIGNMENT
    page = (folder / f"{ASSIGNMENT}.html").read_text()
    said = re.sub("<[^>]+>", "", page)
    assert "✗ 1.1 Column strips: not yet" in said
    assert "The array is not sharded: all of it is on device 0" in said
    assert "◐ 1.6 Two mesh axes on one dimension: partly right (33%)" in said
    assert "0.67 / 2" in said
    assert 'role="img"' in page
    assert [p.name for p in folder.iterdir()] == [f"{ASSIGNMENT}.html"]


def test_export(room):
    room.nbgrader("export", "--to", "grades.csv")
    rows = (room.root / "grades.csv").read_text("utf-8-sig").splitlines()
    (mixed,) = (row for row in rows if ",mixed," in row and ASSIGNMENT in row)
    assert ",0.6667," in mixed
    assert mixed.endswith(",3.0")


def test_evidence_is_kept_and_judges_the_same_again(room):
    record = Records(room.root / "grading" / "records").get("mixed", ASSIGNMENT)
    assert record is not None
    found = record.notebooks[ASSIGNMENT]
    verdicts = judge_in_sandbox(found.cases())
    points = {v.exercise: v.score * POINTS[v.exercise] for v in verdicts}
    assert points == pytest.approx(room.scores()["mixed"], abs=1e-4)
    assert found.verdicts_by_exercise() == {verdict.exercise: verdict for verdict in verdicts}
    old = msgspec.structs.replace(found, verdicts=msgspec.Raw(b"[{}]"))
    assert old.verdicts_by_exercise() == {}, "as an earlier version wrote them"


def test_nothing_of_a_solution_or_the_bank_is_where_submissions_run(room):
    for folder in ("course", "grading/autograded"):
        files = [p for p in (room.root / folder).rglob("*") if p.is_file()]
        assert {p.suffix for p in files} <= {".ipynb"}
        for path in files:
            if "solution" in path.parts:
                continue
            text = path.read_text()
            assert "BEGIN SOLUTION" not in text
            assert "diagnoses=" not in text


def test_validate_says_what_check_says(room, tmp_path):
    path = tmp_path / f"{ASSIGNMENT}.ipynb"
    shutil.copy(room.root / "grading" / "submitted" / "mixed" / ASSIGNMENT / path.name, path)
    said = " ".join(room.run("nbgrader", "validate", str(path))[1].split())
    assert "VALIDATION FAILED ON 2 CELL(S)!" in said
    assert "NotYet: ✗ 1.1 Column strips: not yet." in said
    assert "The array is not sharded: all of it is on device 0" in said
    assert "AssertionError" not in said


@pytest.mark.slow
def test_the_solutions_validate(room):
    for assignment in ("00_setup", ASSIGNMENT):
        path = ROOT / "solutions" / assignment / f"{assignment}.ipynb"
        status, said = room.run("nbgrader", "validate", str(path))
        assert status == 0
        assert "Success! Your notebook passes all the tests." in said


def test_plain_nbgrader_still_scores(tmp_path):
    """Without the preprocessors a failed check raises, so a wrong answer scores nothing."""
    room = released(tmp_path)
    config = room.root / "nbgrader_config.py"
    config.write_text(f"{config.read_text()}\ndel c.Autograde.autograde_preprocessors\n")
    room.hand_in("mixed", MIXED)
    room.hand_in("untouched", {})
    room.nbgrader("autograde", ASSIGNMENT, "--create")
    assert room.scores()["mixed"] == {**POINTS, "1.1": 0, "1.6": 0}
    assert room.scores()["untouched"] == dict.fromkeys(POINTS, 0)
