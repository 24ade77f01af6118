"""Cells of a released notebook that grading leaves out, and cells that always run."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.exercises import NOTEBOOKS
from autograder.instructor.course import NAMESPACE
from autograder.instructor.course.notebook_rewriting import find_read_names
from autograder.instructor.pipeline.demonstrations import TAG, find_demonstrations, find_unused
from tests.conftest import ROOT
from tests.exercises.solutions import BANKS, solution_of
from tests.instructor.room import ASSIGNMENT, LAST, RIGHT, SHORT, Classroom

TAGGED = {"tags": [TAG]}

ANSWER = {"grade_id": "ex-1-1", "solution": True}


def released(*sources):
    """Return a released notebook of demonstrations, and an answer's cell after them."""
    code = [new_code_cell(source, metadata=TAGGED) for source in sources]
    return new_notebook(cells=[*code, new_code_cell("...", metadata={"nbgrader": ANSWER})])


def left_out(answer, *sources, more=()):
    """Return the demonstrations that are left out for an answer and further cells of a student."""
    notebook = released(*sources)
    demonstrations = find_demonstrations(notebook)
    notebook.cells[-1].source = answer
    notebook.cells += map(new_code_cell, more)
    unused = find_unused(notebook.cells, demonstrations, read_names(notebook))
    return [notebook.cells[i].source for i in sorted(unused)]


def read_names(notebook):
    """Return the names that each code cell reads, by its source, as a reader finds them."""
    code = (cell.source for cell in notebook.cells if cell.cell_type == "code")
    found = {source: find_read_names(source) for source in code}
    return {source: None if names is None else frozenset(names) for source, names in found.items()}


def test_a_cell_that_no_answer_needs_is_left_out():
    assert left_out("f = x.sum", "y = jnp.ones(3)", "print(y)") == ["y = jnp.ones(3)", "print(y)"]


@pytest.mark.parametrize(
    "answer",
    ["f = y", "def f(x):\n    return x + y", "f = [y for _ in range(2)]", "class F:\n    a = y",
     "class F:\n    y = y", "def f():\n    class F:\n        y = y", "del (x, y)", "del [y]",
     "f = lambda x: lambda: y", "def f(x, z=y):\n    return x", "y += 1", "del y",
     "def f():\n    global y\n    y += 1", "f = [*y]", "f = f'{y}'"],
)  # fmt: skip
def test_a_cell_whose_name_an_answer_reads_runs(answer):
    assert left_out(answer, "y = jnp.ones(3)") == []


def test_a_name_of_the_answers_own_is_not_read():
    assert left_out("def f(y):\n    return y.sum()", "y = jnp.ones(3)") == ["y = jnp.ones(3)"]


def test_what_a_needed_cell_needs_runs_too():
    assert left_out("f = z", "y = jnp.ones(3)", "z = y + 1", "w = z + 1") == ["w = z + 1"]


def test_a_cell_that_the_student_changed_or_added_runs_and_so_does_what_it_reads():
    assert left_out("f = 1", "y = jnp.ones(3)", "w = 1", more=["print(y)"]) == ["w = 1"]


@pytest.mark.parametrize(
    "reaches",
    ["f = eval('y')", "f = globals()['y']", "f = g.__globals__['y']", "import sys", "%run other.py",
     "import IPython\nf = IPython.get_ipython().user_ns['y']", "f = Out[1]", "f = _", "f = _3",
     "!ls", "f = get_ipython().user_ns", "f?", "import builtins", "f = g._\uff3fglobals__",
     "from typing import get_type_hints\nf = get_type_hints(g)", "f = jax.live_arrays()",
     "(" * 300, f"f = '{'x' * 20_000}'"],
)  # fmt: skip
def test_nothing_is_left_out_if_a_student_may_read_any_name(reaches):
    assert left_out(reaches, "y = jnp.ones(3)") == []


def test_a_loop_over_a_name_that_is_not_used_reads_nothing_of_earlier_cells():
    assert left_out("for _ in range(3):\n    f = 1", "y = jnp.ones(3)") == ["y = jnp.ones(3)"]


def test_a_cell_without_the_tag_runs_and_so_does_what_it_reads():
    cells = new_code_cell("w = y"), new_code_cell("v = w", metadata=TAGGED)
    demonstrations = find_demonstrations(new_notebook(cells=[*cells]))
    assert find_unused(cells, demonstrations, {}) == {1}
    assert find_unused([new_code_cell("w = y")], demonstrations, {}) == frozenset()


def test_a_tag_that_a_student_writes_is_not_read():
    own = new_code_cell("f = 1", metadata=TAGGED)
    assert find_unused([own], {}, read_names(new_notebook(cells=[own]))) == frozenset()


def test_a_demonstration_that_is_no_python_runs():
    assert left_out("f = 1", "%matplotlib inline", "w = 1") == ["w = 1"]


def test_a_restored_cell_may_read_every_word_of_its_text():
    notebook = released("y = jnp.ones(3)")
    demonstrations = find_demonstrations(notebook)
    notebook.cells[-1].source = "check('1.1', y)"
    assert find_unused(notebook.cells, demonstrations, {}) == frozenset()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_released_notebooks_have_cells_that_are_left_out(name):
    notebook = nbformat.read(ROOT / "course" / name / f"{name}.ipynb", 4)
    unused = find_unused(notebook.cells, find_demonstrations(notebook), read_names(notebook))
    assert unused
    assert not any(notebook.cells[index].metadata.get("nbgrader") for index in unused)


NOT_RUN = "Not run here: nothing that is graded needs this cell."

PROBE = "print('this cell', 'runs')"
"""A demonstration of an instructor's own."""


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A classroom whose notebook has a cell that no answer needs, and three submissions."""
    room = Classroom.at(tmp_path_factory.mktemp("course") / "here", until=LAST, calibrated=False)
    path = room.root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    notebook = nbformat.read(path, 4)
    notebook.cells.insert(4, new_code_cell(PROBE, id="probe", metadata=TAGGED))
    nbformat.write(notebook, path)
    room.grade_uncalibrated()
    room.nbgrader("generate_assignment", ASSIGNMENT, "--create", "--force")
    room.hand_in("ann", RIGHT)
    room.hand_in("bob", RIGHT, first="names = [*globals()]")
    room.hand_in("dan", RIGHT, first="raise ValueError('Is it because a cell did not run?')")
    beside = room.hand_in("cleo", RIGHT).with_name("helpers.py")
    beside.write_text("import __main__")
    room.nbgrader("autograde", ASSIGNMENT)
    room.nbgrader("generate_feedback", ASSIGNMENT)
    return room


def printed_by_probe(room, student):
    """Return what the probe has printed in a graded notebook."""
    probe = next(cell for cell in room.graded(student).cells if cell.source == PROBE)
    return "".join(output.text for output in probe.outputs)


def test_a_submission_gets_its_points_without_the_cells_that_no_answer_needs(room):
    assert printed_by_probe(room, "ann") == ""
    assert room.scores()["ann"] == SHORT


def test_its_page_says_which_cells_did_not_run(room):
    cells = room.graded("ann").cells
    unused = [cell for cell in cells if cell.metadata.get(NAMESPACE, {}).get("unused")]
    page = room.root / "grading" / "feedback" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.html"
    without_targets = [cell for cell in unused if not cell.source.startswith("target(")]
    assert page.read_text().count(NOT_RUN) == len(without_targets)
    assert 1 < len(without_targets) < len(unused)


@pytest.mark.parametrize("student", ["bob", "cleo", "dan"])
def test_everything_runs_for_a_student_who_may_read_any_name_or_whose_cell_fails(room, student):
    assert printed_by_probe(room, student) == "this cell runs\n"
    assert room.scores()[student] == SHORT


def test_everything_runs_if_the_configuration_says_so(room):
    with (room.root / "nbgrader_config.py").open("a") as config:
        config.write("\nc.CaptureEvidence.demonstrations = True\n")
    room.nbgrader("autograde", ASSIGNMENT, "--student", "ann", "--force")
    assert printed_by_probe(room, "ann") == "this cell runs\n"
    assert room.scores()["ann"] == SHORT


@pytest.fixture(scope="module", params=NOTEBOOKS)
def whole(request, tmp_path_factory):
    """A class of one notebook: all its solutions, and the banks' first and last wrong answers."""
    room = Classroom.at(tmp_path_factory.mktemp(request.param), request.param, calibrated=False)
    room.forget_the_others()
    room.grade_uncalibrated()
    room.nbgrader("generate_assignment", room.assignment, "--create", "--force")
    ids = [exercise.id for exercise in NOTEBOOKS[room.assignment]]
    known = [entry for entry in BANKS[room.assignment] if entry.score < 1]
    wrong = {each: [entry.code for entry in known if entry.exercise == each] for each in ids}
    room.hand_in("ann", {each: solution_of(each) for each in ids})
    room.hand_in("ben", {each: wrong[each][0] for each in ids})
    room.hand_in("cleo", {each: wrong[each][-1] for each in ids})
    room.nbgrader("autograde", room.assignment)
    room.nbgrader("generate_feedback", room.assignment)
    return room


@pytest.mark.slow
def test_solutions_get_full_marks_without_demonstrations(whole):
    graded = whole.graded("ann").cells
    exercises = NOTEBOOKS[whole.assignment]
    by_name = {c.metadata.nbgrader.grade_id: c for c in graded if c.metadata.get("nbgrader")}
    points = {each.id: by_name[each.grade_id].metadata.nbgrader.points for each in exercises}
    assert whole.scores()["ann"] == pytest.approx(points)
    assert any(cell.metadata.get(NAMESPACE, {}).get("unused") for cell in graded)


@pytest.mark.slow
@pytest.mark.parametrize("student", ["ann", "ben", "cleo"])
def test_every_notebook_gets_a_page_with_its_verdicts(whole, student):
    """Verdicts with all kinds of pictures, from every notebook, have a place on pages."""
    pages = whole.root / "grading" / "feedback" / student / whole.assignment
    page = (pages / f"{whole.assignment}.html").read_text()
    assert page.count('<span class="score" aria-label=') == len(NOTEBOOKS[whole.assignment])
