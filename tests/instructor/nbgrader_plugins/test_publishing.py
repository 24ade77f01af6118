"""A release has the tests that its directives ask for, and nothing of the solution."""

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from autograder.instructor.__main__ import main
from tests.instructor.classroom import plain_course
from tests.instructor.classroom.plain_course import FIRST
from tests.instructor.nbgrader_plugins.autotest_templates import TEMPLATES
from tests.instructor.tiny_class import about

ANSWER = new_code_cell(
    "### BEGIN SOLUTION\nsq = lambda x: x * x\n### END SOLUTION",
    id="sq",
    metadata=about("sq", solution=True),
)
EXPANDED = """import hashlib
assert repr(sq(3)) == "9", "sq(3) is wrong"
"""


def make_test(source):
    """Return a test cell."""
    metadata = about("test", grade=True, locked=True, points=10)
    return new_code_cell(source, id="test", metadata=metadata)


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A course of one assignment."""
    monkeypatch.setenv("COLUMNS", "500")
    return plain_course.plain_course(tmp_path, (FIRST,))


def write(room, *cells, **metadata):
    """Write the assignment's cells, and return its folder."""
    folder = room.root / "solutions" / FIRST
    notebook = nbformat.read(folder / f"{FIRST}.ipynb", 4)
    notebook.cells = list(cells)
    notebook.metadata.update(metadata)
    nbformat.write(notebook, folder / f"{FIRST}.ipynb")
    return folder


def release(room, capsys):
    """Release the assignment; return the exit status, and what is said, in one line."""
    status = main(["--root", str(room.root), "release"])
    return status, " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("folder", [".", f"solutions/{FIRST}"])
def test_directives_are_expanded_by_the_solution(room, capsys, folder):
    (room.root / folder / "autotests.yml").write_text(TEMPLATES)
    write(room, ANSWER, make_test("### AUTOTEST sq(3)\n### HASHED AUTOTEST sq(4)"))
    assert release(room, capsys)[0] == 0
    test = room.released().cells[1].source
    assert test.startswith(EXPANDED)
    assert "sq(4)" in test
    assert "16" not in test.partition("sq(4)")[2].partition('"')[0]
    assert "AUTOTEST" not in test
    exec("sq = lambda x: x * x\n" + test, {})
    with pytest.raises(AssertionError, match=r"sq\(4\) is wrong"):
        exec("sq = lambda x: x * 3\n" + test, {})


REFUSED = {
    "no templates": (
        (ANSWER, make_test("### AUTOTEST sq(3)")), False,
        "It has AUTOTEST directives, and there is no autotests.yml with their templates",
    ),
    "no test": (
        (ANSWER, new_code_cell("# AUTOTEST sq(3)")), True,
        "A cell that is no test has an AUTOTEST directive: '# AUTOTEST sq(3)'.",
    ),
    "an error": (
        (ANSWER, make_test("### AUTOTEST cube(3)")), True,
        "because the solution raises an error: NameError: name 'cube' is not defined",
    ),
    "nothing but comments": (
        (ANSWER, make_test("# is sq right?\n\n  # nobody knows")), False,
        "The test test has no code, so every submission would get its 10 points.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_test_that_would_run_nothing_is_refused(room, capsys, name):
    cells, has_templates, why = REFUSED[name]
    if has_templates:
        (room.root / "autotests.yml").write_text(TEMPLATES)
    write(room, *cells)
    status, said = release(room, capsys)
    assert status == 1
    assert f"{FIRST} cannot be released: " in said
    assert why in said
    assert not (room.root / "course" / FIRST).exists()


def test_pictures_and_metadata_of_the_solution_are_not_released(room, capsys):
    pictures = {f"{name}.png": {"image/png": "AAAA"} for name in ("asked", "my plot", "secret")}
    essay = new_markdown_cell(
        "Describe ![](attachment:asked.png) and ![](attachment:my%20plot.png).\n\n"
        "### BEGIN SOLUTION\n![](attachment:secret.png)\n### END SOLUTION",
        id="essay",
        metadata=about("essay", grade=True, solution=True, points=5),
    )
    task = new_markdown_cell(
        "Draw.\n\n=== BEGIN MARK SCHEME ===\n![](attachment:secret.png)\n=== END MARK SCHEME ===",
        id="task",
        metadata=about("task", task=True, locked=True, points=5),
    )
    for cell in (essay, task):
        cell["attachments"] = pictures
    code = new_code_cell("1 + 1", id="code", metadata={"papermill": {"secret": 1}, "tags": ["a"]})
    code.outputs = [new_output("stream", text="secret")]
    write(room, essay, task, code, widgets={"state": "secret"}, papermill={"secret": 1})
    assert release(room, capsys)[0] == 0
    notebook = room.released()
    assert "secret" not in json.dumps(notebook)
    assert [*notebook.cells[0].attachments] == ["asked.png", "my plot.png"]
    assert notebook.cells[2].metadata.tags == ["a"]
    assert notebook.metadata.keys() == {"kernelspec"}


DOCUMENTED = '\n%time\ndef f(x):\n    """Say x.\n\n    Twice."""\n'

STUBS = {
    "def f(x):\n    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION": (
        "def f(x):\n    # YOUR CODE HERE\n    raise NotImplementedError()"
    ),
    "%time\nfor _ in ():\n\t### BEGIN SOLUTION\n\tpass\n\t### END SOLUTION\nprint()": (
        "%time\nfor _ in ():\n\t# YOUR CODE HERE\n\traise NotImplementedError()\nprint()"
    ),
    "def f(x):\n    y = ...\n    ### BEGIN SOLUTION\n    y = x\n    ### END SOLUTION": (
        "def f(x):\n    y = ...\n    # YOUR CODE HERE"
    ),
    "### BEGIN SOLUTION\nx = 1\n### END SOLUTION": "# YOUR CODE HERE",
    "y = 2\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION": "y = 2\n# YOUR CODE HERE",
    "def f():\n    return ...\n\n\n### BEGIN SOLUTION\nf = 1\n### END SOLUTION\n": (
        "def f():\n    return ..."
    ),
    f"{DOCUMENTED}\n    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION": (
        f"{DOCUMENTED}\n    # YOUR CODE HERE\n    raise NotImplementedError()"
    ),
    f"{DOCUMENTED}\n    ### BEGIN SOLUTION\n    y = x\n    ### END SOLUTION\n    return y": (
        f"{DOCUMENTED}\n    # YOUR CODE HERE\n    return y"
    ),
}


@pytest.mark.parametrize("source", STUBS)
def test_a_stub_can_be_run(room, capsys, source):
    write(room, new_code_cell(source, id="f", metadata=about("f", solution=True)))
    assert release(room, capsys)[0] == 0
    released = nbformat.read(room.root / "course" / FIRST / f"{FIRST}.ipynb", 4)
    assert released.cells[0].source == STUBS[source]


def test_a_file_with_the_solution_beside_the_notebook_is_not_released(room, capsys):
    twin = write(room, ANSWER, make_test("assert sq(3) == 9")) / f"{FIRST}.py"
    twin.write_text(f"# %%\n{ANSWER.source}\n")
    status, said = release(room, capsys)
    assert status == 1
    assert f"{FIRST}.py has BEGIN SOLUTION in it" in said
    assert not (room.root / "course" / FIRST).exists()


@pytest.mark.parametrize("command", ["release", "report"])
def test_a_folder_of_notebooks_that_is_no_assignment_is_named_with_the_rule(room, capsys, command):
    plain_course.hand_in(room, "ann")
    folder = room.root / "solutions" / "ps1"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.ipynb").write_text("{}")
    assert main(["--root", str(room.root), command]) == 0
    assert (
        "solutions/ps1 was skipped: an assignment has a notebook of its own name, ps1.ipynb, "
        "and there are a.ipynb, b.ipynb. Rename one of them, or give each a folder of its own "
        "name."
    ) in " ".join(capsys.readouterr().out.split())
