"""Notebooks such as nbgrader tests itself with: each is graded, or refused with a sentence.

They do what those in nbgrader's folders `nbgrader/tests/**/files` do (read on 2026-11-27), in as
few cells as possible.
"""

import csv

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.instructor.__main__ import main
from autograder.instructor.calibration import CalibrationError, calibrate
from autograder.instructor.course import Course
from tests.instructor.nbgrader_plugins.autotest_templates import TEMPLATES
from tests.instructor.room import UNCALIBRATED, configuration
from tests.instructor.tiny_class import about

KERNEL = {"kernelspec": {"name": "python3", "language": "python", "display_name": "P"}}
SOLUTION = "### BEGIN SOLUTION\na = 1\n### END SOLUTION"


def code(source, name="", **kinds):
    """Return a code cell, with nbgrader's metadata if it has a name."""
    return new_code_cell(source, metadata=about(name, **kinds) if name else {})


def text(source, name="", **kinds):
    """Return a Markdown cell, with nbgrader's metadata if it has a name."""
    return new_markdown_cell(source, metadata=about(name, **kinds) if name else {})


def checks(source, name="test", points=1):
    """Return a cell that is graded by running it."""
    return code(source, name, grade=True, locked=True, points=points)


def make_course(root):
    """Make a course without assignments, which grades without calibration."""
    (root / "nbgrader_config.py").write_text(f"{configuration()}{UNCALIBRATED}")
    return root


def write(root, assignment, cells, metadata=KERNEL, version=4):
    """Write an instructor's own notebook."""
    folder = root / "solutions" / assignment
    folder.mkdir(parents=True, exist_ok=True)
    notebook = nbformat.convert(new_notebook(cells=cells, metadata=metadata), version)
    nbformat.write(notebook, folder / f"{assignment}.ipynb", version=version)


OUTDATED = (
    "SchemaTooOldError: Outdated schema version: {} (expected 3). nbgrader update solutions/ps"
)
REFUSED = {
    "a graded Markdown cell that is no answer": (
        [text("Why?", "why", grade=True, points=1)],
        "ValidationError: Markdown grade cell 'why' is not marked as a solution cell",
    ),
    "no name": (
        [checks("assert 1", "-")], "ValidationError: grade_id is empty",
    ),
    "no points": (
        [code("assert 1", "test", grade=True)],
        "ValidationError: nbgrader cell 'test' does not have points",
    ),
    "negative points": (
        [checks("assert 1", points=-1)], "ValidationError: -1 is less than the minimum of 0",
    ),
    "one name twice": (
        [checks("assert 1"), text("Why?", "test", grade=True, solution=True, points=1)],
        "ValidationError: Duplicate grade id: test",
    ),
    "a solution in an ordinary cell": (
        [code(SOLUTION)],
        "RuntimeError: Solution region detected in a non-solution cell; please make sure all",
    ),
    "hidden tests in an ordinary cell": (
        [code("### BEGIN HIDDEN TESTS\nassert 1\n### END HIDDEN TESTS")],
        "RuntimeError: Hidden test region detected in a non-grade cell; please make sure all",
    ),
    "a directive in an ordinary cell": (
        [code("### AUTOTEST a")], "A cell that is no test has an AUTOTEST directive: '### AUTOTEST",
    ),
    "a solution without an end": (
        [code("### BEGIN SOLUTION\na = 1", "a", solution=True)],
        "RuntimeError: no end solution statement found",
    ),
    "a task in a code cell": (
        [code("a = 1", "task", task=True, locked=True, points=1)],
        "ValidationError: Task cells have to be markdown: a = 1",
    ),
    "a test of nothing": (
        [checks("# to be written")],
        "The test test has no code, so every submission would get its 1 point.",
    ),
    "nbgrader of 2015": ([code(SOLUTION, "a", solution=True)], OUTDATED.format(0)),
    "nbgrader 0.4": ([code(SOLUTION, "a", solution=True, schema_version=1)], OUTDATED.format(1)),
    "nbgrader 0.5": ([code(SOLUTION, "a", solution=True, schema_version=2)], OUTDATED.format(2)),
    "nbgrader of the future": (
        [code(SOLUTION, "a", solution=True, schema_version=10)],
        "SchemaTooNewError: Schema version is too new: 10 (expected 3)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_assignment_is_refused_with_a_sentence(tmp_path, name):
    cells, sentence = REFUSED[name]
    if name == "no name":
        cells[0].metadata["nbgrader"]["grade_id"] = ""
    if name == "nbgrader of 2015":
        del cells[0].metadata["nbgrader"]["schema_version"]
    make_course(tmp_path)
    write(tmp_path, "ps", cells)
    assert Course(tmp_path).try_release("ps").startswith(f"ps cannot be released: {sentence}")


BASE = [
    code(SOLUTION, "set_a", solution=True),
    checks("print('Success!')", "runs"),
    checks("assert a == 1", "is_one"),
    text("Because.", "essay", grade=True, solution=True, points=2),
    code("b = 2", "by_hand", grade=True, solution=True, points=3),
    code("print('Leave this.')", "read_only", locked=True),
    text("Do your best.\n\n=== BEGIN MARK SCHEME ===\n1\n=== END MARK SCHEME ===", "task",
         task=True, locked=True, points=2),
]  # fmt: skip
CHEAT = (
    "import IPython.core.interactiveshell as it\n"
    "it.InteractiveShell.showtraceback = lambda *args, **kwargs: None"
)
KINDS = [
    code("def sq(x):\n    ### BEGIN SOLUTION\n    return x * x\n    ### END SOLUTION", "sq",
         solution=True),
    checks("assert sq(1) == 1\n### BEGIN HIDDEN TESTS\nassert sq(3) == 9\n### END HIDDEN TESTS",
              "hidden"),
    checks("assert sq(2) == 5", "no_points", 0),
    checks("min(sq(2), 10) / 4", "partial", 2),
    checks("assert len(open('data.txt').read().split()) == 2", "reads", 10),
    code("open('side-effect.txt', 'w').write('x')\nfor i in range(2000):\n    print(i)"),
    code("def f():\n    f()\nf()"),
    code("import warnings\nwarnings.warn('careful')"),
    code("while True:\n    pass"),
    checks("import os\nassert os.getenv('NBGRADER_EXECUTION')", "is_graded"),
]  # fmt: skip
DIRECTIVES = [
    code("### BEGIN SOLUTION\na, b = 5, 'hello'\ndef f(x):\n    return x\n### END SOLUTION", "a",
         solution=True),
    checks("### AUTOTEST a; type(b)\n#AUTOTEST f(3)\nprint('and')\n### HASHED AUTOTEST b",
              "seen"),
    checks("### BEGIN HIDDEN TESTS\n### AUTOTEST f(4)\n### END HIDDEN TESTS", "unseen"),
]  # fmt: skip

# by assignment and student: the answers by cell, and the score of each test
SUBMISSIONS = {
    ("base", "unchanged"): ({}, {"runs": 1, "is_one": 0}),
    ("base", "changed"): (
        {"set_a": "a = 1", "essay": "So.", "by_hand": "b = 3"}, {"runs": 1, "is_one": 1},
    ),
    ("base", "tampered"): (
        {"is_one": "# assert a == 1", "read_only": "# x"}, {"runs": 1, "is_one": 0},
    ),
    ("base", "cheats"): ({"set_a": CHEAT}, {"runs": 1, "is_one": 0}),
    ("kinds", "right"): (
        {"sq": "def sq(x):\n    return x * x"},
        {"hidden": 1, "no_points": 0, "partial": 1, "reads": 10, "is_graded": 1},
    ),
    ("directives", "right"): (
        {"a": "a, b = 5, 'hello'\ndef f(x):\n    return x"}, {"seen": 1, "unseen": 1},
    ),
    ("directives", "wrong"): (
        {"a": "a, b = 5, 'Hello'\ndef f(x):\n    return 3"}, {"seen": 0, "unseen": 0},
    ),
    ("old", "right"): ({"set_a": "a = 1"}, {"is_one": 1}),
    ("empty", "anybody"): ({}, {}),
}  # fmt: skip


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A class in which all of these are handed in: the score and the mark of each cell."""
    root = make_course(tmp_path_factory.mktemp("course"))
    with (root / "nbgrader_config.py").open("a") as config:
        config.write("\nc.Execute.timeout = 1\n")
    (root / "autotests.yml").write_text(TEMPLATES)
    write(root, "base", BASE)
    write(root, "kinds", KINDS)
    (root / "solutions" / "kinds" / "data.txt").write_text("two words")
    write(root, "directives", DIRECTIVES)
    write(root, "old", [BASE[0], BASE[2]], metadata={}, version=3)
    write(root, "empty", [code("")])
    assert main(["--root", str(root), "release"]) == 0
    for (assignment, student), (answers, _) in SUBMISSIONS.items():
        path = root / "course" / assignment / f"{assignment}.ipynb"
        notebook = nbformat.read(path, 4)
        for cell in notebook.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            cell.source = answers.get(name, cell.source)
        if student == "tampered":
            notebook.cells = [
                text(cell.source, cell.metadata.nbgrader.grade_id)
                if cell.metadata.nbgrader.grade_id in ("set_a", "is_one")
                else cell
                for cell in notebook.cells
            ]
        folder = root / "grading" / "submitted" / student / assignment
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / path.name)
    assert main(["--root", str(root), "grade"]) == 0
    with (root / "grading" / "exercises.csv").open(newline="", encoding="utf-8-sig") as lines:
        return {
            (row["assignment"], row["student"], row["exercise"]): (
                float(row["score"]), row["needs_a_look"],
            )
            for row in csv.DictReader(lines)
        }  # fmt: skip


@pytest.mark.parametrize(("assignment", "student"), SUBMISSIONS)
def test_each_is_graded(graded, assignment, student):
    _, scores = SUBMISSIONS[assignment, student]
    assert {name: graded[assignment, student, name] for name in scores} == {
        name: (score, "") for name, score in scores.items()
    }


def test_essays_that_were_written_wait_for_a_person(graded):
    for student, mark in (("unchanged", ""), ("changed", "yes"), ("cheats", "")):
        for name in ("essay", "by_hand"):
            assert graded["base", student, name] == (0, mark)
        assert graded["base", student, "task"] == (0, "yes")


def test_a_solution_that_fails_its_own_tests_is_no_fault_of_the_installation(tmp_path):
    (tmp_path / "nbgrader_config.py").write_text(configuration())
    wrong = SOLUTION.replace("a = 1", "a = 2")
    write(tmp_path, "ps", [code(wrong, "set_a", solution=True), checks("assert a == 1", "is_one")])
    assert main(["--root", str(tmp_path), "release"]) == 0
    with pytest.raises(CalibrationError) as raised:
        calibrate(Course(tmp_path).api.config, "ps")
    assert str(raised.value).startswith(
        "Nothing of ps is graded, because its own solution does not pass its tests, so no student "
        "could. The solution does not get full marks: it gets 0 of 1 for is_one."
    )
    assert str(raised.value).endswith(
        "Fix the solution or the tests in solutions/, and grade again."
    )
