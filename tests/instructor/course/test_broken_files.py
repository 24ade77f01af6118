"""Broken submissions: each is a row in the table, with a sentence that says what to do."""

import html
import io
import json
import os
import re
from pathlib import Path

import nbformat
import pytest
from rich.console import Console

from autograder.instructor.classroom import grading
from autograder.instructor.course import Course, is_accepted_file
from tests.conftest import some_of
from tests.instructor.course.broken_files import REFUSED, missing
from tests.instructor.room import ASSIGNMENT, LAST, RIGHT, Classroom


def byte_order_mark(path):
    path.write_text(path.read_text(), encoding="utf-8-sig")


def windows_lines(path):
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def windows_lines_in_cells(path):
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r\n")
    path.write_text(json.dumps(notebook))


def an_older_format(path):
    notebook = nbformat.convert(nbformat.read(path, 4), 3)
    nbformat.write(notebook, path, version=3)


def another_beside(path):
    path.with_name("scratch.ipynb").write_text("{}")


def shuffled(path):
    notebook = json.loads(path.read_text())
    first, rest = notebook["cells"][:5], notebook["cells"][5:]
    answers = {
        c["metadata"]["nbgrader"]["grade_id"]: c for c in rest if "nbgrader" in c["metadata"]
    }
    moved = [c for name, c in answers.items() if name.endswith("-check")]
    notebook["cells"] = first + [c for c in rest if c not in moved] + moved[::-1]
    path.write_text(json.dumps(notebook))


def as_colab_saves_it(path):
    notebook = json.loads(path.read_text())
    notebook["metadata"]["colab"] = {"provenance": []}
    for cell in notebook["cells"]:
        about = cell["metadata"].pop("nbgrader", None)
        cell["metadata"].update({"id": cell.pop("id"), "colab": {"base_uri": "here"}})
        if about:
            cell["metadata"]["nbgrader"] = about
    notebook["nbformat_minor"] = 0
    path.write_text(json.dumps(notebook))


def as_kaggle_saves_it(path):
    notebook = json.loads(path.read_text())
    notebook["metadata"] = {"kernelspec": notebook["metadata"]["kernelspec"], "kaggle": {}}
    notebook["nbformat_minor"] = 4
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
        cell["metadata"] = {
            "_uuid": cell.pop("id"), "_cell_guid": "b1076dfc", "trusted": True,
            "execution": {"iopub.status.busy": "2026-01-01T00:00:00Z"},
        }  # fmt: skip
    path.write_text(json.dumps(notebook))


def as_vs_code_saves_it(path):
    notebook = json.loads(path.read_text())
    notebook["metadata"] = {"language_info": {"name": "python"}, "vscode": {"interpreter": {}}}
    for cell in notebook["cells"]:
        cell["metadata"] = {"vscode": {"languageId": "python"}}
    path.write_text(json.dumps(notebook, indent=1))


def as_an_old_vs_code_saves_it(path):
    as_vs_code_saves_it(path)
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        del cell["id"]
    notebook["nbformat_minor"] = 2
    path.write_text(json.dumps(notebook))


ACCEPTED = some_of([
    windows_lines, windows_lines_in_cells, an_older_format, another_beside, shuffled,
    as_colab_saves_it, as_kaggle_saves_it, as_vs_code_saves_it, as_an_old_vs_code_saves_it,
    byte_order_mark,
])  # fmt: skip


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A class of all of these: the exit status, the output, the pages and the table by student."""
    room = Classroom.at(tmp_path_factory.mktemp("course"), until=LAST)
    room.forget_the_others()
    for spoil in [*REFUSED, *ACCEPTED]:
        spoil(room.hand_in(spoil.__name__, RIGHT))
    room.hand_in(os.fsdecode(b"ren\xe9e"), RIGHT)
    said = io.StringIO()
    status = grading.grade_class(Course(room.root), Console(file=said, width=400))
    rows = (room.root / "grading" / "grades.csv").read_text("utf-8-sig").splitlines()[1:]
    pages = {
        path.parts[-3]: html.unescape(path.read_text(encoding="utf-8"))
        for path in (room.root / "grading" / "feedback").glob("*/*/*.html")
    }
    return status, said.getvalue(), pages, {row.split(",")[0]: row.split(",")[2:5] for row in rows}


@pytest.mark.parametrize("spoil", REFUSED, ids=lambda spoil: spoil.__name__)
def test_a_broken_submission_is_a_row_and_a_sentence(graded, spoil):
    _, said, pages, rows = graded
    assert rows[spoil.__name__] == ["broken", "", ""]
    assert "could not be graded" in pages[spoil.__name__]
    assert REFUSED[spoil].casefold() in pages[spoil.__name__].casefold()
    assert len(re.findall(rf"\b{spoil.__name__}(?:, {ASSIGNMENT}: | \({ASSIGNMENT}\))", said)) == 1


def test_a_sentence_for_several_submissions_is_printed_once(graded):
    lines = [line.rstrip() for line in graded[1].splitlines()]
    both = lines.index(f"    a_long_number ({ASSIGNMENT}), brackets ({ASSIGNMENT})")
    said = f"{ASSIGNMENT}.ipynb cannot be read as a notebook: it is not a notebook's JSON."
    assert lines[both - 1] == said
    assert f"missing, {ASSIGNMENT}: {REFUSED[missing]}" in lines


@pytest.mark.parametrize("spoil", ACCEPTED, ids=lambda spoil: spoil.__name__)
def test_changes_by_editors_cost_no_points(graded, spoil):
    rows = graded[-1]
    assert rows[spoil.__name__] == ["graded", "2.0", "2.0"]


def test_a_student_whose_name_is_not_utf_8_is_a_row(graded):
    _, said, _, rows = graded
    assert rows[r"ren\udce9e"] == ["broken", "", ""]
    assert "or is not UTF-8. Rename it." in said


def test_broken_submissions_do_not_make_the_command_fail(graded):
    assert graded[0] == 0


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("data.json", True),
        ("inputs/evidence.json", True),
        ("a.b.csv", True),
        (".e.evidence.json", False),
        (".data.csv", False),
        ("inputs/.data.csv", False),
        (".inputs/data.csv", False),
        ("X.JSON", True),
        ("x.graded", False),
    ],
)
def test_hidden_files_and_unknown_types_are_rejected(name, taken):
    assert is_accepted_file(Path(name)) is taken
