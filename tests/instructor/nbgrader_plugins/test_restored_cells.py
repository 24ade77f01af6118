"""Cells that a submission lost, copied or changed are restored, and looked at where that matters.

A student's tags and metadata have no effect on what runs.
"""

import csv
import html
from copy import deepcopy

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell
from nbgrader.preprocessors import OverwriteCells

from autograder.instructor.__main__ import main
from autograder.instructor.nbgrader_plugins import release
from autograder.instructor.nbgrader_plugins.release import RestoreCells
from tests.instructor.classroom import plain_course
from tests.instructor.classroom.plain_course import FIRST
from tests.instructor.tiny_class import about

PICTURE = {"a.png": {"image/png": "AAAA"}}


UNANSWERED = "YOUR ANSWER HERE"
"""The text of an essay's cell in a release."""


def unanswered():
    """Return the base notebook: an answer, a test worth 10 points, and an essay worth 5."""
    test = about("sum", grade=True, locked=True, points=10)
    essay = about("essay", grade=True, solution=True, points=5)
    return new_notebook(
        cells=[
            new_code_cell("# YOUR CODE HERE", id="total", metadata=about("total", solution=True)),
            new_code_cell("assert total == 3", id="sum", metadata=test),
            new_markdown_cell(UNANSWERED, id="essay", metadata=essay),
        ],
        metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "P"}},
    )


def answered():
    """Return the notebook with a right answer and an essay."""
    notebook = unanswered()
    notebook.cells[0].source, notebook.cells[2].source = "total = 3", "Because."
    return notebook


def copy_of(cell, **changes):
    """Return a copy of a cell, as an editor makes it: with its metadata, and another id."""
    copy = deepcopy(cell)
    copy.update(id=f"{cell.id}-copy", **changes)
    return copy


def tags_the_test(cells):
    cells[0].source = "total = 4"
    cells[1].metadata["tags"] = ["skip-execution", "raises-exception"]


def answers_in_the_lower_copy(cells):
    cells.append(copy_of(cells[2]))
    cells[2].source = UNANSWERED


def answers_in_the_upper_copy(cells):
    cells.append(copy_of(cells[2], source=UNANSWERED))


def deletes_the_essay(cells):
    cells[2] = new_markdown_cell("Because.")


def deletes_the_test(cells):
    del cells[1]


def loses_all_metadata(cells):
    for index, cell in enumerate(cells):
        cell.metadata.clear()
        cell.id = f"new-{index}"


def loses_metadata_and_keeps_ids(cells):
    for cell in cells:
        cell.metadata.clear()


def copies_the_test_above(cells):
    cells.insert(0, copy_of(cells[1]))


def copies_the_answer_unanswered(cells):
    cells.insert(0, copy_of(cells[0], source="# YOUR CODE HERE"))


def makes_the_answer_markdown(cells):
    source = "total = 3\n\n![a](attachment:a.png)"
    changed = new_markdown_cell(source, id="total", metadata=cells[0].metadata)
    cells[0] = nbformat.from_dict({**changed, "attachments": PICTURE})


def makes_the_test_raw(cells):
    cells[1] = new_raw_cell("", id="sum", metadata=cells[1].metadata)


def makes_the_essay_code(cells):
    cells[2] = new_code_cell("Because.", id="essay", metadata=cells[2].metadata)


def makes_the_essay_raw_with_a_picture(cells):
    source = "Because ![a](attachment:a.png)"
    changed = new_raw_cell(source, id="essay", metadata=cells[2].metadata)
    cells[2] = nbformat.from_dict({**changed, "attachments": PICTURE})


COPIED = (
    "The cell essay is there 2 times, as cells 3 and 4. All of them are read when it is graded by "
    "hand."
)
LOST = "It has none of the assignment's cells, so all that are graded were added at its end."
PUT_BACK = "These tests were missing, and were run at the end: sum."
DELETED = "Missing cells were added at the end: essay. Their answers may be in other cells."

# the text of the essay's own cell, whether it needs a look, and the note
CASES = {
    answers_in_the_lower_copy: ("Because.", True, COPIED),
    answers_in_the_upper_copy: ("Because.", True, COPIED),
    deletes_the_essay: (UNANSWERED, True, DELETED),
    deletes_the_test: ("Because.", False, PUT_BACK),
    loses_all_metadata: (UNANSWERED, True, LOST),
    loses_metadata_and_keeps_ids: ("Because.", False, ""),
    copies_the_test_above: ("Because.", False, ""),
    copies_the_answer_unanswered: ("Because.", False, ""),
    makes_the_answer_markdown: ("Because.", False, ""),
    makes_the_test_raw: ("Because.", False, ""),
    makes_the_essay_code: ("Because.", False, ""),
    makes_the_essay_raw_with_a_picture: ("Because ![a](attachment:a.png)", False, ""),
}
GRADED_TOGETHER = {
    "ann": (tags_the_test, answers_in_the_lower_copy),
    "bo": (deletes_the_essay, copies_the_test_above),
    "cy": (loses_all_metadata,),
    "di": (makes_the_answer_markdown, makes_the_essay_code),
}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A course with the notebook, released."""
    room = plain_course.plain_course(tmp_path_factory.mktemp("course"), (FIRST,))
    nbformat.write(unanswered(), room.root / "solutions" / FIRST / f"{FIRST}.ipynb")
    assert main(["--root", str(room.root), "release"]) == 0
    return room


@pytest.fixture(scope="module")
def graded(room):
    """The course with graded submissions, one of them as released, with a byte-order mark."""
    for student, changes in GRADED_TOGETHER.items():
        notebook = answered()
        for change in changes:
            change(notebook.cells)
        room.hand_in_notebook(student, notebook)
    path = room.hand_in_notebook("ed", unanswered())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert main(["--root", str(room.root), "grade"]) == 0
    return room


def restore(room, change):
    """Restore the cells of a changed submission; return it, and what is said of it."""
    notebook = answered()
    change(notebook.cells)
    database = f"sqlite:///{room.root / 'grading' / 'gradebook.db'}"
    names = {"notebook": FIRST, "assignment": FIRST, "db_url": database}
    notebook, resources = RestoreCells().preprocess(notebook, {"nbgrader": names})
    notebook, _ = OverwriteCells().preprocess(notebook, {"nbgrader": names})
    return notebook, resources["shardlings"]


@pytest.mark.parametrize("change", CASES, ids=lambda change: change.__name__)
def test_each_cell_of_the_release_is_there_once_and_of_its_type(room, change):
    text, needs_a_look, note = CASES[change]
    notebook, found = restore(room, change)
    nbformat.validate(notebook)
    known = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    cells = {cell.metadata.nbgrader.grade_id: cell for cell in known}
    assert len(cells) == len(known)
    assert [cell.cell_type for _, cell in sorted(cells.items())][:2] == ["markdown", "code"]
    assert cells["essay"].source == text
    assert cells["sum"].source == "assert total == 3"
    assert "total" not in cells or cells["total"].source.startswith("total = 3")
    assert found["needs_a_look"] == ({"essay"} if needs_a_look else set())
    assert " ".join(found["notes"]).startswith(note)
    assert bool(found["notes"]) == bool(note)


def test_a_test_that_was_changed_is_named_and_run_as_released(room):
    database = f"sqlite:///{room.root / 'grading' / 'gradebook.db'}"
    names = {"nbgrader": {"notebook": FIRST, "assignment": FIRST, "db_url": database}}
    released = nbformat.read(room.root / "course" / FIRST / f"{FIRST}.ipynb", 4)
    released.cells[0].source = "total = 4"  # an answer is there to be changed
    _, resources = RestoreCells().preprocess(deepcopy(released), deepcopy(names))
    assert resources["shardlings"]["notes"] == []
    released.cells[1].source = "assert True"
    notebook, resources = RestoreCells().preprocess(released, names)
    (note,) = resources["shardlings"]["notes"]
    assert note.startswith("These tests were changed before it was handed in: sum. They were run")
    notebook, _ = OverwriteCells().preprocess(notebook, names)
    assert notebook.cells[1].source == "assert total == 3"


def test_code_that_is_graded_by_hand_is_looked_at_as_essays_are(monkeypatch):
    plot = about("plot", grade=True, solution=True, points=5)
    cell = new_code_cell("plot()", id="plot", metadata=plot)
    known = {"plot": {**plot["nbgrader"], "cell_type": "code"}}
    monkeypatch.setattr(release, "_read_known_cells", lambda _: (known, {"plot": ""}))
    for cells in ([cell, copy_of(cell)], []):
        _, resources = RestoreCells().preprocess(new_notebook(cells=cells), {"nbgrader": {}})
        assert resources["shardlings"]["needs_a_look"] == {"plot"}


def test_a_picture_stays_where_the_type_has_pictures_and_goes_where_it_has_none(room):
    for change, is_kept in (
        (makes_the_answer_markdown, False),
        (makes_the_essay_raw_with_a_picture, True),
    ):
        notebook, _ = restore(room, change)
        assert any("attachments" in cell for cell in notebook.cells) == is_kept
        assert [cell.id for cell in notebook.cells] == ["total", "sum", "essay"]


def rows(room):
    """Return the score and the mark of each cell in `exercises.csv`, by student and cell."""
    with (room.root / "grading" / "exercises.csv").open(newline="", encoding="utf-8-sig") as lines:
        return {
            (row["student"], row["exercise"]): (float(row["score"]), row["needs_a_look"])
            for row in csv.DictReader(lines)
        }


def test_scores_and_marks(graded):
    found = rows(graded)
    tests = {student: found[student, "sum"] for student in (*GRADED_TOGETHER, "ed")}
    assert tests == {"ann": (0, ""), "bo": (10, ""), "cy": (10, ""), "di": (10, ""), "ed": (0, "")}
    essays = {student: found[student, "essay"] for student in (*GRADED_TOGETHER, "ed")}
    assert essays == {**dict.fromkeys(GRADED_TOGETHER, (0, "yes")), "ed": (0, "")}


def test_both_texts_and_the_note_are_shown(graded, capsys):
    capsys.readouterr()
    assert main(["--root", str(graded.root), "report"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for student, note in (("ann", COPIED), ("bo", DELETED), ("cy", LOST)):
        page = graded.root / "grading" / "feedback" / student / FIRST / f"{FIRST}.html"
        text = html.unescape(page.read_text())
        assert "Because." in text
        assert UNANSWERED in text
        assert "No response." not in text, "the answer may be in the other cell"
        assert note in " ".join(text.split())
        assert note in graded.graded(student).cells[0].source
        assert f"{student}, {FIRST}: {note}" in said
