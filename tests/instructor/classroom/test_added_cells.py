"""An essay and a task that are added after students have handed in can be graded by hand."""

import nbformat
from nbformat.v4 import new_markdown_cell
from nbgrader.api import Gradebook

from autograder.instructor.__main__ import main
from tests.instructor.tiny_class import ASSIGNMENT, about, hand_in, tiny_class

ADDED = {
    "essay": new_markdown_cell(
        "Say why.", id="essay", metadata=about("essay", grade=True, solution=True, points=3)
    ),
    "task": new_markdown_cell(
        "Draw it.", id="task", metadata=about("task", task=True, locked=True, points=3)
    ),
}


def test_they_have_their_cells_and_what_is_given_for_them_counts(tmp_path, capsys):
    root = tiny_class(tmp_path, 0)
    hand_in(root, "ann", "double = 2")
    assert main(["--root", str(root), "grade"]) == 0
    source = root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    notebook = nbformat.read(source, 4)
    notebook.cells += ADDED.values()
    nbformat.write(notebook, source)
    assert main(["--root", str(root), "grade"]) == 0
    graded = root / "grading" / "autograded" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    cells = [c.metadata.get("nbgrader", {}).get("grade_id") for c in nbformat.read(graded, 4).cells]
    assert cells == [None, "double", "test", *ADDED]  # below a note that says what was added
    row = "ann,tiny,graded,2.0,8.0"
    assert row in (root / "grading" / "grades.csv").read_text("utf-8-sig")
    with Gradebook(f"sqlite:///{root / 'grading' / 'gradebook.db'}") as book:
        for name, points in (("essay", 2.5), ("task", 1.5)):
            grade = book.find_grade(name, ASSIGNMENT, ASSIGNMENT, "ann")
            assert grade.needs_manual_grade, "its answer may be in another cell"
            grade.manual_score, grade.needs_manual_grade = points, False
        book.db.commit()
    capsys.readouterr()
    assert main(["--root", str(root), "report"]) == 0
    assert "?" not in capsys.readouterr().out
    assert "ann,tiny,graded,6.0,8.0" in (root / "grading" / "grades.csv").read_text("utf-8-sig")
