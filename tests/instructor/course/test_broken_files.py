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
from tests.instructor.room import ASSIGNMENT, LAST, RIGHT, Classroom

FILE = f"{ASSIGNMENT}.ipynb"


def missing(path):
    path.unlink()


def renamed(path):
    path.rename(path.with_name("my homework (2).ipynb"))


def a_folder(path):
    path.unlink()
    path.mkdir()


def a_link(path):
    path.unlink()
    path.symlink_to("/etc/hostname")


def a_link_beside(path):
    path.with_name("data.csv").symlink_to("/etc/hostname")


def enormous(path):
    path.write_text(path.read_text() + " " * 50 * 2**20)


def cut_off(path):
    text = path.read_text()
    path.write_text(text[: len(text) // 2])


def empty(path):
    path.write_bytes(b"")


def utf_16(path):
    path.write_text(path.read_text(), encoding="utf-16")


def byte_order_mark(path):
    path.write_text(path.read_text(), encoding="utf-8-sig")


def a_list(path):
    path.write_text("[1, 2]")


def no_cells(path):
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}}))


def a_long_number(path):
    digits = "1" * 5000
    path.write_text(f'{{"nbformat": 4, "nbformat_minor": 5, "metadata": {digits}, "cells": []}}')


def no_text(path):
    path.write_text('{"nbformat": "\\ud800", "cells": []}')


def brackets(path):
    path.write_text("[" * 200_000)


def another_alphabet(path):
    path.rename(path.with_name(os.fsdecode(b"devoir_\xe9.ipynb")))


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_hole_beside(path):
    with path.with_name("data.bin").open("wb") as file:
        file.truncate(2**43)


def deep_folders(path):
    here = os.getcwd()
    os.chdir(path.parent)
    for _ in range(900):
        os.mkdir("d" * 50)
        os.chdir("d" * 50)
    os.chdir(here)


def many_files(path):
    for number in range(1001):
        path.with_name(f"{number}").touch()


def a_novel(path):
    notebook = json.loads(path.read_text())
    notebook["cells"].append({**notebook["cells"][0], "id": "novel", "source": "word " * 2**18})
    path.write_text(json.dumps(notebook))


REFUSED = {
    a_long_number: f"{FILE} cannot be read as a notebook: it is not a notebook's JSON.",
    no_text: f"{FILE} cannot be read as a notebook:",
    brackets: f"{FILE} cannot be read as a notebook: it is not a notebook's JSON.",
    another_alphabet: rf"but devoir_\udce9.ipynb. If that is it, rename it to {FILE}.",
    a_pipe: f"{FILE} is neither a file nor a folder. Remove it.",
    a_hole_beside: "what was handed in has more than 100 MB. Hand in the notebook alone.",
    deep_folders: "the folders that were handed in are too deep. Hand in the notebook alone.",
    many_files: "more than 1,000 files were handed in. Hand in the notebook alone.",
    a_novel: "characters, and 262,144 are taken.",
    missing: f"there is no {FILE} in the folder that was handed in.",
    renamed: f"but my homework (2).ipynb. If that is it, rename it to {FILE}.",
    a_folder: f"{FILE} is a folder. Hand in the notebook's own file.",
    a_link: f"{FILE} is a link. Hand in the file itself, and remove the link.",
    a_link_beside: "data.csv is a link. Hand in the file itself, and remove the link.",
    enormous: f"{FILE} has 50 MB, and 20 are taken. Clear its outputs, and hand it in again.",
    cut_off: "It was probably cut off on the way, and has to be handed in again.",
    empty: f"{FILE} cannot be read as a notebook: its JSON breaks off at line 1.",
    utf_16: "cannot be read as a notebook: it is not UTF-8 text from byte 0 on.",
    a_list: f"{FILE} cannot be read as a notebook:",
    no_cells: f"{FILE} cannot be read as a notebook:",
}


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
