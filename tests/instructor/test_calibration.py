"""Nobody is graded if the course's own notebooks are not graded right, and the message says why."""

import csv
import io
import json
import re
import shutil

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from rich.console import Console

import autograder
from autograder.instructor import calibration
from autograder.instructor.__main__ import main
from autograder.instructor.calibration import (
    CalibrationError,
    GradedExample,
    TrialCourse,
    TrialError,
    calibrate,
)
from autograder.instructor.classroom import calibrating, grading
from autograder.instructor.course import Course
from autograder.instructor.pipeline import basis, time_limit
from autograder.instructor.pipeline.demonstrations import TAG
from autograder.instructor.sandbox import has_bubblewrap, sandbox
from tests.conftest import ROOT
from tests.helpers import pretend_bubblewrap
from tests.instructor import tiny_class
from tests.instructor.room import ASSIGNMENT, RIGHT, UNCALIBRATED, Classroom, grade_nothing

NO_PACKAGE = """
from autograder.instructor.pipeline import basis, time_limit
from autograder.instructor.sandbox import sandbox
sandbox._bind_only_packages_in = lambda folder: []
"""


def source(room):
    return room.root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"


def change(room, edit):
    """Edit the source notebook."""
    notebook = nbformat.read(source(room), 4)
    edit(notebook)
    nbformat.write(notebook, source(room))


def answer(notebook):
    """The cell with the solution to 1.1."""
    (cell,) = (
        c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "ex-1-1"
    )
    return cell


def has_no_package_in_its_kernels(room):
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + NO_PACKAGE)


def has_a_wrong_solution(room):
    def edit(notebook):
        answer(notebook).source = "### BEGIN SOLUTION\ncolumns = x\n### END SOLUTION"

    change(room, edit)


def gives_an_answer_away(room):
    def edit(notebook):
        answer(notebook).source = f"### BEGIN SOLUTION\npass\n### END SOLUTION\n{RIGHT['1.1']}"

    change(room, edit)


def has_a_cell_that_raises(room):
    change(room, lambda notebook: notebook.cells.append(new_code_cell("1 / 0", id="raises")))


KEPT = f"grading/calibration/{ASSIGNMENT}/autograded"
OF_SOLUTION = f"To see why, open {KEPT}/solution/{ASSIGNMENT}/{ASSIGNMENT}.ipynb."
OF_RELEASED = f"To see why, open {KEPT}/released/{ASSIGNMENT}/{ASSIGNMENT}.ipynb."
CAUSES = {
    has_no_package_in_its_kernels: ("(ModuleNotFoundError: No module named 'autograder'))"),
    has_a_wrong_solution: (
        f"The solution does not get full marks: it gets 0 of 1 for 1.1. {OF_SOLUTION}"
    ),
    gives_an_answer_away: (
        f"The released notebook, with nothing filled in, gets 1 of 1 for 1.1. {OF_RELEASED}"
    ),
    has_a_cell_that_raises: (
        "The first error in the solution is “ZeroDivisionError: division by zero”, in cell"
    ),
}


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A calibrated course; its assignment has one exercise, to be quick."""
    room = Classroom.at(tmp_path_factory.mktemp("course") / "before", until="1.1")
    room.forget_the_others()
    return room


@pytest.fixture
def course(before, tmp_path):
    """A copy of it."""
    shutil.copytree(before.root, tmp_path / "course")
    return Classroom(tmp_path / "course")


@pytest.fixture(scope="module")
def graded(before, tmp_path_factory):
    """Another copy, with a class of one, graded."""
    root = tmp_path_factory.mktemp("course") / "graded"
    shutil.copytree(before.root, root)
    room = Classroom(root)
    room.hand_in("early", {"1.1": RIGHT["1.1"]})
    status, said = grade(room)
    assert status == 0, said
    return room


@pytest.fixture
def room(graded, tmp_path):
    """A copy of that, in which somebody else hands in."""
    shutil.copytree(graded.root, tmp_path / "room")
    room = Classroom(tmp_path / "room")
    room.hand_in("late", {"1.1": RIGHT["1.1"]})
    return room


def grade(room, again=False):
    """Grade as `make grade` does; return its exit status and output."""
    said = io.StringIO()
    status = grading.grade_class(Course(room.root), Console(file=said, width=1000), again)
    return status, said.getvalue()


def calibrated(room, assignment=ASSIGNMENT):
    api = Course(room.root).api
    calibrate(api.config, assignment)


@pytest.mark.parametrize("all_run", [False, True])
def test_the_released_notebook_runs_as_submissions_do_and_the_solution_whole(course, all_run):
    def end_with_a_demonstration(notebook):
        demonstration = new_code_cell("print('shown')", metadata={"tags": [TAG]})
        notebook.cells += [demonstration, new_code_cell("print('at the end')")]

    change(course, end_with_a_demonstration)
    with (course.root / "nbgrader_config.py").open("a") as config:
        config.write(f"\nc.CaptureEvidence.demonstrations = {all_run}\n")
    Course(course.root).release(ASSIGNMENT)
    calibrated(course)

    def printed(which):
        path = course.root / KEPT / which / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
        outputs = [cell.outputs for cell in nbformat.read(path, 4).cells[-2:]]
        return ["".join(output.get("text", "") for output in each) for each in outputs]

    assert printed("solution") == ["shown\n", "at the end\n"]
    *shown, last = printed("released")
    assert last == "at the end\n"
    assert (shown == ["shown\n"]) is all_run


@pytest.fixture
def no_trial(monkeypatch):
    """To try the solution fails, and nothing is searched, which takes seconds."""

    def refuse(_):
        raise TrialError("It was tried.")

    monkeypatch.setattr(TrialCourse, "run", refuse)
    for module in (calibration, calibrating):
        monkeypatch.setattr(
            module, "find_exposed_answers", lambda _, names: dict.fromkeys(names, ())
        )


@pytest.mark.slow
@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
@pytest.mark.usefixtures("in_this_process")
def test_nobody_is_graded_and_it_is_said_why(room, cause, monkeypatch):
    if cause is has_no_package_in_its_kernels and not has_bubblewrap():
        pytest.skip("there is no bubblewrap here")
    monkeypatch.setattr(
        sandbox, "_bind_only_packages_in", sandbox._bind_only_packages_in
    )  # what the configuration changes
    cause(room)
    status, said = grade(room, again=True)
    assert status == 1
    assert said.count(f"Nothing of {ASSIGNMENT} is graded, because") == 1
    assert CAUSES[cause] in said, said
    lines = (room.root / "grading" / "grades.csv").read_text("utf-8-sig").splitlines()
    rows = [(row["student"], row["state"], row["score"]) for row in csv.DictReader(lines)]
    assert rows == [("early", "graded", "1.0"), ("late", "failed", "")]  # a grade of before stands
    for name in re.findall(r"open (\S+\.ipynb)", said):
        assert nbformat.read(room.root / name, 4).cells
    with pytest.raises(AssertionError, match=re.escape(CAUSES[cause])):  # its status is not 0
        room.nbgrader("autograde", ASSIGNMENT, "--force")
    assert room.scores() == {"early": {"1.1": 1}}
    assert "1.1 Column strips: right" in room.verdicts("early")["ex-1-1-check"]
    page = room.root / "grading" / "feedback" / "early" / ASSIGNMENT / f"{ASSIGNMENT}.html"
    assert "1.1 Column strips: right" in page.read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_it_is_tried_once_in_a_run_and_again_in_the_next(room, monkeypatch):
    tried = []

    def fail(trial):
        tried.append(trial.assignment)
        raise TrialError("No luck.")

    monkeypatch.setattr(TrialCourse, "run", fail)
    change(room, lambda notebook: notebook.cells.append(new_markdown_cell("One more.", id="more")))
    for times in (1, 2):
        status, said = grade(room, again=True)
        assert (status, tried) == (1, [ASSIGNMENT] * times)
        assert said.count("No luck.") == 1
    done = Course(room.root).api.autograde(ASSIGNMENT, "late")  # as Formgrader does it
    assert not done["success"]
    assert "No luck." in done["error"]
    assert room.scores() == {"early": {"1.1": 1}}


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_another_assignment_is_graded(room, monkeypatch):
    def fail(trial):
        raise TrialError("No luck.")

    shutil.copytree(ROOT / "solutions" / "00_setup", room.root / "solutions" / "00_setup")
    folder = room.root / "grading" / "submitted" / "late" / "00_setup"
    shutil.copytree(ROOT / "course" / "00_setup", folder)
    grade_nothing(room.root / "solutions" / "00_setup" / "00_setup.ipynb")
    monkeypatch.setattr(TrialCourse, "run", fail)
    status, said = grade(room)
    assert "Nothing of 00_setup is graded" in said
    assert status == 1
    assert room.scores() == {"early": {"1.1": 1}, "late": {"1.1": 1}}


def test_what_was_passed_is_remembered_and_says_how_long_it_took(course, no_trial):
    (course.root / "solutions" / ASSIGNMENT / "bank.py").write_text("")  # not what kernels see
    calibrated(course)
    memory = course.root / "grading" / "calibration" / f"{ASSIGNMENT}.json"
    about = json.loads(memory.read_text())
    code = [c for c in nbformat.read(source(course), 4).cells if c.cell_type == "code"]
    assert len(about["cells"][f"{ASSIGNMENT}.ipynb"]) == len(code)
    assert sum(about["cells"][f"{ASSIGNMENT}.ipynb"]) < about["seconds"]
    cells = about["cells"][f"{ASSIGNMENT}.ipynb"]
    asked = Course(course.root).api.config, ASSIGNMENT, ASSIGNMENT
    assert time_limit(*asked) == max(60, round(20 * sum(cells)))
    memory.write_text(memory.read_text()[:50])
    with pytest.raises(CalibrationError, match="It was tried"):
        calibrated(course)


def another_solution(room, _):
    change(room, lambda notebook: notebook.cells.append(new_markdown_cell("One more.", id="more")))


def another_release(room, _):
    (room.root / "course" / ASSIGNMENT / "data.csv").write_text("1,2")


def another_configuration(room, _):
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + "\nc.Execute.timeout = 7\n")


def another_package(room, monkeypatch):
    package = shutil.copytree(ROOT / "autograder", room.root / "elsewhere" / "autograder")
    monkeypatch.setattr(autograder, "__path__", [str(package)])


def another_library(_, monkeypatch):
    known = basis._installed_packages()[1:]
    monkeypatch.setattr(basis, "_installed_packages", lambda: known)


def no_bubblewrap(_, monkeypatch):
    pretend_bubblewrap(monkeypatch, not has_bubblewrap())


STATES = [
    another_solution, another_release, another_configuration, another_package, another_library,
    no_bubblewrap,
]  # fmt: skip


@pytest.mark.parametrize("become", STATES, ids=lambda become: become.__name__)
def test_another_state_is_calibrated_anew(course, become, no_trial, monkeypatch):
    become(course, monkeypatch)
    with pytest.raises(CalibrationError, match="It was tried"):
        calibrated(course)


def test_limits_on_the_command_line_are_another_state(course, no_trial):
    api = Course(course.root).api
    api.config.Sandbox.seconds = 7
    with pytest.raises(CalibrationError, match="It was tried"):
        calibrate(api.config, ASSIGNMENT)


def about(name, **kinds):
    """Nbgrader's metadata of a cell."""
    flags = {"grade": False, "solution": False, "locked": False, "task": False}
    return {"nbgrader": {"grade_id": name, "schema_version": 3, **flags, **kinds}}


@pytest.mark.slow
def test_what_others_ask_is_theirs(room):
    """Stubs that raise, asserts that pass on nothing, and essays; but a solution is a solution."""
    folder = room.root / "solutions" / "others"
    folder.mkdir()
    stub = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION"
    raises = "raise NotImplementedError()"
    test = about("test", grade=True, locked=True, points=2)
    cells = [
        new_code_cell(stub, metadata=about("double", solution=True)),
        new_code_cell(raises, metadata={"tags": ["raises-exception"]}),
        new_code_cell("print(double(2))"),
        new_code_cell("assert double(2) == 4", metadata=test),
        new_code_cell("assert True", metadata=about("free", grade=True, locked=True, points=1)),
        new_markdown_cell("Why?", metadata=about("why", grade=True, solution=True, points=3)),
        new_code_cell("42", metadata=about("how", grade=True, solution=True, points=3)),
    ]
    kernel = nbformat.read(source(room), 4).metadata
    notebook = new_notebook(cells=cells, metadata=kernel)
    nbformat.write(notebook, folder / "others.ipynb")
    Course(room.root).release("others")
    calibrated(room, "others")
    cells[0].source = stub.replace("2 * x", "3 * x")
    nbformat.write(notebook, folder / "others.ipynb")
    with pytest.raises(CalibrationError, match=r"it gets 0 of 2 for test\. To see why"):
        calibrated(room, "others")


def test_a_solution_fails_a_test_that_has_the_name_of_a_test_in_another_notebook(tmp_path):
    root = tiny_class.tiny_class(tmp_path, 0)
    config = root / "nbgrader_config.py"
    config.write_text(config.read_text().removesuffix(UNCALIBRATED))
    (root / "grading" / "calibration").mkdir(parents=True)
    wrong = tiny_class.notebook(tiny_class.SOURCE.replace("2", "3"))
    nbformat.write(wrong, root / "solutions" / "tiny" / "another.ipynb")
    course = Course(root)
    course.release("tiny")
    with pytest.raises(CalibrationError, match=r"it gets 0 of 2 for test\. To see why"):
        calibrate(course.api.config, "tiny")


@pytest.mark.usefixtures("in_this_process")
def test_a_test_that_passes_untouched_is_named_now_and_when_it_is_remembered(
    tmp_path, monkeypatch, capsys
):
    root = tiny_class.tiny_class(tmp_path, 0)
    config = root / "nbgrader_config.py"
    config.write_text(config.read_text().removesuffix(UNCALIBRATED))
    tiny_class.hand_in(root, "ann", "double = 3")
    (root / "grading" / "calibration").mkdir()
    graded = GradedExample({("tiny", "test"): (2.0, 2.0)}, "", 1.0, {"tiny.ipynb": [1.0]}, [])
    trials = iter([(graded, graded)])
    monkeypatch.setattr(TrialCourse, "run", lambda self: next(trials))
    sentence = (
        "tiny as it is released, with nothing filled in, gets 2 of 2 for test. If you do not want "
        "that, write these tests so that they fail without an answer."
    )
    for _ in range(2):
        assert main(["--root", str(root), "grade", "--again"]) == 0
        assert sentence in " ".join(capsys.readouterr().out.split())
    monkeypatch.setattr(TrialCourse, "run", lambda self: (graded, graded))
    assert sentence in Course(root).api.autograde("tiny", "ann")["log"]
