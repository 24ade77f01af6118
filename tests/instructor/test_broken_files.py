"""What arrives in place of a notebook: each is a row, and a sentence that says what to do."""

import html
import io
import json

import nbformat
import pytest
from rich.console import Console

from autograder.instructor import grading
from autograder.instructor.course import Course
from tests.instructor.classroom import ASSIGNMENT, RIGHT, Classroom

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
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


SENTENCES = {
    missing: f"there is no {FILE} in the folder that was handed in.",
    renamed: f"but my homework (2).ipynb. If that is it, rename it to {FILE}.",
    a_folder: f"{FILE} is a folder. Hand in the notebook's own file.",
    a_link: f"{FILE} is a link. Hand in the file itself, and remove the link.",
    a_link_beside: "data.csv is a link. Hand in the file itself, and remove the link.",
    enormous: f"{FILE} has 50 MB, and 20 are taken. Clear its outputs, and hand it in again.",
    cut_off: "It was probably cut off on the way, and has to be handed in again.",
    empty: f"{FILE} cannot be read as a notebook: its JSON breaks off at line 1.",
    utf_16: "cannot be read as a notebook: it is not UTF-8 text from byte 0 on.",
    byte_order_mark: "it starts with a byte order mark; save it as UTF-8 without one.",
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


FORGIVEN = [
    windows_lines, windows_lines_in_cells, an_older_format, another_beside, shuffled,
    as_colab_saves_it,
]  # fmt: skip


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """One class of all of these: the exit status, what was said, the table by student."""
    room = Classroom.at(tmp_path_factory.mktemp("course"))
    room.forget_the_others()
    for spoil in [*SENTENCES, *FORGIVEN]:
        spoil(room.hand_in(spoil.__name__, RIGHT))
    said = io.StringIO()
    status = grading.grade_class(Course(room.root), Console(file=said, width=400))
    rows = (room.root / "grading" / "grades.csv").read_text().splitlines()[1:]
    pages = {
        path.parts[-3]: html.unescape(path.read_text(encoding="utf-8"))
        for path in (room.root / "grading" / "feedback").glob("*/*/*.html")
    }
    return status, said.getvalue(), pages, {row.split(",")[0]: row.split(",")[2:] for row in rows}


@pytest.mark.parametrize("spoil", SENTENCES, ids=lambda spoil: spoil.__name__)
def test_what_cannot_be_graded_is_a_row_and_a_sentence(graded, spoil):
    _, said, pages, rows = graded
    assert rows[spoil.__name__] == ["broken", "", ""]
    assert "could not be graded" in pages[spoil.__name__]
    assert SENTENCES[spoil].casefold() in pages[spoil.__name__].casefold()
    line = next(line for line in said.splitlines() if line.startswith(f"{spoil.__name__}, "))
    assert SENTENCES[spoil] in line


@pytest.mark.parametrize("spoil", FORGIVEN, ids=lambda spoil: spoil.__name__)
def test_what_editors_do_costs_nothing(graded, spoil):
    rows = graded[-1]
    assert rows[spoil.__name__] == ["graded", "13.0", "13.0"]


def test_broken_submissions_are_no_failure_of_grading(graded):
    assert graded[0] == 0
