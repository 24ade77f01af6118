"""One class, graded by plain `nbgrader autograde`: what is handed in to harm whoever grades it."""

import socket
import subprocess
import sys
import time
from types import SimpleNamespace
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook

from autograder.instructor.authoring import fill_in_answers
from autograder.instructor.course import Course
from autograder.instructor.pipeline import Records
from tests.instructor.room import ASSIGNMENT, LAST, RIGHT, SHORT, Classroom, edit

PAGE = f"{ASSIGNMENT}.html"
KEPT = (f"{ASSIGNMENT}.json",)


def many_braces(path):
    edit(path, lambda n: n["cells"][0]["metadata"].update(x="HERE"))
    path.write_bytes(path.read_bytes().replace(b'"HERE"', b"[" + b"{}," * 2**20 + b"{}]"))


def many_cells(path):
    cell = {"cell_type": "code", "source": "", "metadata": {}, "outputs": []}
    edit(path, lambda n: n["cells"].extend([cell] * 5000))


def brackets(path):
    path.write_bytes(b"[" * (19 * 2**20))


def broken_text(path):
    path.write_bytes(path.read_bytes() + b"\xff" * 2**20)


REFUSED = {
    many_cells: "cells, and 500 are taken.",
    brackets: "it is not a notebook's JSON.",
    broken_text: "it is not UTF-8 text from byte",
}


def one_picture_very_often(path):
    cell = new_markdown_cell("![x](attachment:x)" * 480)
    cell["attachments"] = {"x": {"image/png": "A" * 2**20}}
    edit(path, lambda n: n["cells"].append(cell))


def a_picture_in_the_text(path):
    source = f"![x](data:image/png;base64,{'A' * 2**19}) ![y](data:image/webp;base64,AAAA)"
    edit(path, lambda n: n["cells"].append(new_markdown_cell(source)))


def half_a_character(path):
    edit(path, lambda n: n["cells"].append(new_markdown_cell("\ud83d")))


def a_time_that_is_none(path):
    path.with_name("timestamp.txt").write_text("9" * 60)


def a_time_that_is_binary(path):
    path.with_name("timestamp.txt").write_bytes(b"\xff\x00" * 5000)


def a_time_long_ago(path):
    path.with_name("timestamp.txt").write_text("1970-01-01 00:00:00 UTC")


def a_folder_for_a_page(path):
    for name in (PAGE, *KEPT, f"{ASSIGNMENT}.ipynb.d"):
        path.with_name(name).mkdir()
        path.with_name(name).joinpath("x.txt").write_text("x")


def pages_beside(path):
    for name in ("evil.html", "evil.svg", "evil.js", "evil.xml", "evil.HTM", "none"):
        path.with_name(name).write_text("<script>PWNED</script>")
    path.with_name("data").mkdir()
    path.with_name("data").joinpath("a.csv").write_text("1,2")


def a_name_with_escapes(path):
    for kind in ("csv", "html"):
        path.with_name(f"\x1b[2Jx.{kind}").write_text("1")


TAKEN = {
    "odd_cells": (
        a_picture_in_the_text, one_picture_very_often, half_a_character, a_time_that_is_none,
        many_braces,
    ),
    "odd_files": (a_folder_for_a_page, a_name_with_escapes, a_time_that_is_binary),
    "files_with_pages": (pages_beside, a_time_long_ago),
}  # fmt: skip
"""Functions that spoil a submission or what lies beside it, by student."""

LISTS = """
import json, os
def say(*_):
    message = {"type": "Stream", "name": "stdout", "text": ["a", "b"]}
    os.write(get_ipython().channel._file, json.dumps(message).encode() + b"\\n")
get_ipython().events.register("post_run_cell", say)
"""
LOUD = """
for size in (10**6, 10**5, 10**4, 10**3, 200):
    for _ in range(10):
        print("x" * size, flush=True)
"""
RUN = """
import resource, runpy, sys
sys.argv = ["nbgrader", *sys.argv[1:]]
try:
    runpy.run_module("nbgrader", run_name="__main__")
finally:
    print("HELD", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
"""nbgrader's command, which says how many MB it held at most: it alone, and not what it started."""


def nbgrader(room, *arguments):
    """The exit status, what was said, and how many MB the grading process held at most."""
    file = room.root / "run.py"
    file.write_text(RUN)
    status, said = room.run("run", *arguments)
    held = int(said.rpartition("HELD ")[2].split()[0])
    return status, said, held


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The class, and what was seen of grading it."""
    room = Classroom.at(tmp_path_factory.mktemp("course"), until=LAST)
    room.nbgrader("generate_assignment", ASSIGNMENT, "--force")
    room.hand_in("aa_first", RIGHT)
    alone = nbgrader(room, "autograde", ASSIGNMENT, "--create")[2]
    for spoil in REFUSED:
        spoil(room.hand_in(spoil.__name__, RIGHT))
    for student, spoils in TAKEN.items():
        reads = "print(open('data/a.csv').read())" if pages_beside in spoils else ""
        path = room.hand_in(student, RIGHT, first=reads)
        for spoil in spoils:
            spoil(path)
    room.hand_in("text_as_lists", RIGHT, first=LISTS)
    loud = fill_in_answers(room.released(), RIGHT)
    loud.cells[2:2] = [new_code_cell(LOUD) for _ in range(12)]
    room.hand_in_notebook("loud", loud)
    room.hand_in("zz_next", RIGHT)
    _, said, held = nbgrader(room, "autograde", ASSIGNMENT, "--create")
    feedback = nbgrader(room, "generate_feedback", ASSIGNMENT)
    return SimpleNamespace(room=room, alone=alone, said=said, held=held, feedback=feedback)


@pytest.fixture(scope="module")
def room(graded):
    return graded.room


@pytest.mark.parametrize("spoil", REFUSED, ids=lambda spoil: spoil.__name__)
def test_what_is_too_much_to_read_is_refused_in_a_sentence(graded, room, spoil):
    assert REFUSED[spoil] in graded.said
    assert set(room.scores().get(spoil.__name__, {}).values()) <= {None}


@pytest.mark.parametrize("student", TAKEN)
def test_what_is_beside_an_answer_costs_it_nothing(room, student):
    assert room.scores()[student] == SHORT
    assert (room.root / "grading" / "feedback" / student / ASSIGNMENT / PAGE).is_file()


def test_the_others_are_graded_as_alone(room):
    assert room.scores()["aa_first"] == room.scores()["zz_next"] == SHORT


def test_whoever_grades_holds_little_more_than_for_an_honest_class(graded):
    assert graded.held - graded.alone < 300
    assert graded.feedback[2] - graded.alone < 300
    assert graded.feedback[0] == 0, graded.feedback[1]


def test_a_students_time_counts_only_where_the_instructor_says_so(room):
    gradebook = f"sqlite:///{room.root / 'grading' / 'gradebook.db'}"
    with Gradebook(gradebook) as found:
        for student in TAKEN:
            assert found.find_submission(ASSIGNMENT, student).timestamp is None
    believing = "--LockedAutograde.believe_timestamps=True"
    student = "files_with_pages"  # a_time_long_ago is among its files
    room.nbgrader("autograde", ASSIGNMENT, "--student", student, "--force", believing)
    with Gradebook(gradebook) as found:
        assert found.find_submission(ASSIGNMENT, student).timestamp.year == 1970


def test_what_browsers_open_is_not_copied_and_that_is_said(graded, room):
    folder = room.root / "grading" / "autograded" / "files_with_pages" / ASSIGNMENT
    kept = {path.name for path in folder.rglob("*") if path.is_file()}
    assert kept == {f"{ASSIGNMENT}.ipynb", "a.csv", "timestamp.txt"}
    record = Records(Course(room.root).records).get("files_with_pages", ASSIGNMENT)
    assert record is not None
    notebook = room.graded("files_with_pages")
    assert notebook.cells[3].outputs[0].text == "1,2\n"
    for said in (graded.said, notebook.cells[0].source, record.notebooks[ASSIGNMENT].notes[0]):
        assert "evil.HTM, evil.html, evil.js, evil.svg, evil.xml and 1 more had to be left" in said


def test_a_picture_that_is_shown_too_often_is_left_out_and_that_is_said(room):
    said = room.graded("odd_cells").cells[0].source
    assert "Pictures that were pasted into it are left out from cell" in said


def test_a_picture_in_the_text_is_shown_and_it_is_said_where_one_is_not(room):
    feedback = room.root / "grading" / "feedback" / "odd_cells" / ASSIGNMENT
    page = (feedback / PAGE).read_text()
    assert f'src="data:image/png;base64,{"A" * 2**19}"' in page
    assert "(A picture is left out here: PNG, JPEG and GIF are shown.)" in page


def test_evidence_of_whoever_prints_much_is_kept(room):
    assert room.scores()["loud"] == SHORT


def test_text_that_is_a_list_is_not_kept(room):
    assert room.scores()["text_as_lists"] == SHORT
    outputs = [o for cell in room.graded("text_as_lists").cells for o in cell.get("outputs", ())]
    assert "ab" not in [output.text for output in outputs if output.output_type == "stream"]


def test_no_name_moves_the_cursor(graded):
    assert "␛[2Jx.html" in graded.said
    for said in (graded.said, graded.feedback[1]):
        assert "\x1b[2J" not in said


def answer(address):
    """Wait until a server has started, and return its answer."""
    for _ in range(240):
        try:
            with urlopen(address) as reply:
                return reply.headers, reply.read().decode()
        except URLError as error:
            if isinstance(error, HTTPError):
                raise
            time.sleep(0.25)
    raise TimeoutError(address)


def test_formgrader_names_its_policy_and_serves_no_file_as_a_page(room):
    with Gradebook(f"sqlite:///{room.root / 'grading' / 'gradebook.db'}") as gradebook:
        of = gradebook.find_submission_notebook(ASSIGNMENT, ASSIGNMENT, "files_with_pages").id
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (room.root / "server.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root",
             "--IdentityProvider.token=t", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
             "--ServerApp.jpserver_extensions={'nbgrader.server_extensions.formgrader': True}"],
            cwd=room.root, stdout=log, stderr=log,
        )  # fmt: skip
    base = f"http://127.0.0.1:{port}/formgrader/submissions/{of}"
    try:
        headers, shown = answer(f"{base}/?token=t")
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert policy.endswith("base-uri 'none'; form-action 'self'; frame-ancestors 'self'")
        assert "1.1 Column strips: right" in shown
        headers, shown = answer(f"{base}/data/a.csv?token=t")
        assert headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
        assert headers["Content-Disposition"] == "attachment"
        assert shown == "1,2"
    finally:
        server.terminate()
        server.wait(timeout=60)
