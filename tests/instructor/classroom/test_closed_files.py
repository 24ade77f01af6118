"""A submission without read permission is a row with a sentence, and the others are graded."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from autograder.instructor.course import find_notebook_problem
from shardlings.devices import environment
from tests.instructor.room import ASSIGNMENT, LAST, RIGHT, SHORT, Classroom

FILE = f"{ASSIGNMENT}.ipynb"
ORDINARY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""As an ordinary user: root, too, is then kept out of what is closed."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.getuid() == 0 and shutil.which("setpriv") is None, reason="nothing is closed to root"
    ),
]


def a_notebook(path):
    path.chmod(0)


def a_file_beside(path):
    path.with_name("data.csv").write_text("1,2")
    path.with_name("data.csv").chmod(0)


def a_folder_beside(path):
    path.with_name("data").mkdir(mode=0)


def a_submission(path):
    path.parent.chmod(0)


def a_link_to_nowhere(path):
    path.with_name("scratch.ipynb").symlink_to("/nowhere")


def a_pipe_beside(path):
    os.mkfifo(path.with_name("scratch.ipynb"))


CLOSED = "cannot be opened by the account that grades. Run chmod u+r on it, or hand it in again."
BROKEN = {
    a_notebook: f"{FILE} {CLOSED}",
    a_file_beside: f"data.csv {CLOSED}",
    a_folder_beside: f"data {CLOSED}",
    a_submission: f"{ASSIGNMENT} {CLOSED}",
    a_link_to_nowhere: "scratch.ipynb is a link. Hand in the file itself, and remove the link.",
    a_pipe_beside: "scratch.ipynb is neither a file nor a folder. Remove it.",
}


def type_in(room, *command):
    """The exit status of a command, what it says, and the table that it leaves."""
    kept = {name: value for name, value in os.environ.items() if name not in environment()}
    done = subprocess.run(
        [*(ORDINARY if os.getuid() == 0 else []), sys.executable, "-m", *command],
        cwd=room.root, env={**kept, "COLUMNS": "400"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    rows = (room.root / "grading" / "grades.csv").read_text("utf-8-sig").splitlines()[1:]
    table = {row.split(",")[0]: row.split(",")[2:5] for row in rows}
    return SimpleNamespace(status=done.returncode, said=done.stdout + done.stderr, table=table)


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A class that was graded, whose files were then closed: judged again, and graded again."""
    room = Classroom.at(tmp_path_factory.mktemp("course"), until=LAST)
    room.forget_the_others()
    paths = [(spoil, room.hand_in(spoil.__name__, RIGHT)) for spoil in BROKEN]
    room.hand_in("zz_next", RIGHT).with_name("scratch.ipynb").mkdir()
    assert type_in(room, "autograder.instructor", "grade").status == 0
    for spoil, path in paths:
        spoil(path)
    (room.root / "grading" / "submitted" / "closed").mkdir(mode=0)
    ids = "\n".join(["id", "closed", "zz_next", *(spoil.__name__ for spoil in BROKEN)])
    (room.root / "grading" / "roster.csv").write_text(ids)
    commands = ("regrade",), ("grade", "--again")
    ends = [type_in(room, "autograder.instructor", *command) for command in commands]
    plain = type_in(room, "nbgrader", "autograde", ASSIGNMENT, "--force")
    return SimpleNamespace(room=room, ends=ends, plain=plain)


@pytest.mark.parametrize("spoil", BROKEN, ids=lambda spoil: spoil.__name__)
def test_what_is_closed_is_a_row_and_a_sentence(graded, spoil):
    for end in graded.ends:
        said = " ".join(end.said.split())
        assert BROKEN[spoil] in said, said
        assert end.table[spoil.__name__] == ["broken", "", ""]
    if spoil is not a_submission:  # in which nbgrader says that it has found no notebook
        assert BROKEN[spoil] in graded.plain.said


def test_the_others_are_graded_and_nothing_has_failed(graded):
    points = str(float(sum(SHORT.values())))
    for end in graded.ends:
        assert end.status == 0, end.said
        assert end.table["zz_next"] == ["graded", points, points]
        assert "Traceback" not in end.said
        assert "submitted/closed was skipped: this account may not read it." in end.said
        assert end.table["closed"] == ["failed", "", ""], "nobody knows whether it is missing"
    assert graded.room.scores()["zz_next"] == SHORT


def test_what_is_closed_between_the_look_and_the_reading_is_a_sentence(tmp_path):
    folder = tmp_path / FILE
    folder.mkdir()
    why = find_notebook_problem(folder)
    assert why == f"{FILE} cannot be opened: Is a directory. Hand it in again."
