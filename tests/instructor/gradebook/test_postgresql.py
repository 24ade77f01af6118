"""A gradebook on a server: several processes use it, and no password is shown."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook
from sqlalchemy import make_url, text

from autograder.instructor.__main__ import main
from autograder.instructor.course import Course
from autograder.instructor.gradebook import (
    ADDRESS_VARIABLE,
    BusyError,
    GradebookError,
    hide_secrets,
    hold_server_lock,
    list_all_backups,
    parse_address,
)
from autograder.instructor.nbgrader_plugins import entering
from tests.instructor.classroom.plain_course import FIRST, add_an_essay, hand_in, plain_course
from tests.instructor.gradebook.server import PASSWORD, QUOTED, programs, server
from tests.instructor.room import Classroom

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(programs() is None, reason="there is no PostgreSQL here"),
]

STUDENTS = ("ada", "bob")
MANUAL_GRADES = 8
"""The number of scores and comments that somebody gives while a class is graded."""


@pytest.fixture(scope="module")
def address():
    """A server's address, as an instructor types it."""
    with server() as url:
        yield url


@pytest.fixture(scope="module")
def room(address, tmp_path_factory):
    """A class that is graded into a server's gradebook."""
    room = plain_course(tmp_path_factory.mktemp("postgresql"))
    add_an_essay(room)
    for student in STUDENTS:
        hand_in(room, student)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(ADDRESS_VARIABLE, address)
        patched.setenv("PGPASSWORD", "")
        status, said = room.run("autograder.instructor", "grade")
        assert status == 0, said
        room.said = said
        room.url = Course(room.root).api.coursedir.db_url
        yield room


def book(room: Classroom) -> Gradebook:
    """Open the gradebook as Formgrader does."""
    return Gradebook(room.url, "shardlings")  # type: ignore[attr-defined]


def scores(room: Classroom) -> dict[str, float]:
    """Return each student's score."""
    with book(room) as opened:
        return {s.student.id: s.score for s in opened.assignment_submissions(FIRST)}


def grade_manually(room: Classroom, student: str, failed: list[BaseException]) -> None:
    """Give extra credit and comments, one after the other, as Formgrader does."""
    try:
        for number in range(1, MANUAL_GRADES + 1):
            with book(room) as opened:
                opened.find_grade("sum", FIRST, FIRST, student).extra_credit = number
                comment = opened.find_comment("essay", FIRST, FIRST, student)
                comment.manual_comment = f"No. {number}"
                opened.db.commit()
    except BaseException as error:
        failed.append(error)


def test_grades_are_on_the_server_and_the_password_is_nowhere(room):
    assert scores(room) == dict.fromkeys(STUDENTS, 10)
    assert not (room.root / "grading" / "gradebook.db").exists()
    assert PASSWORD not in room.said
    assert QUOTED not in room.said
    for path in (p for p in (room.root / "grading").rglob("*") if p.is_file()):
        assert PASSWORD.encode() not in path.read_bytes(), path
        assert QUOTED.encode() not in path.read_bytes(), path


def test_manual_grades_that_are_given_during_grading_are_kept(room, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    for file in ("nbgrader_config.py", "pyproject.toml"):  # another machine has another folder
        (tmp_path / "elsewhere" / file).write_bytes((room.root / file).read_bytes())
    failed: list[BaseException] = []
    writers = [
        threading.Thread(target=grade_manually, args=(room, student, failed))
        for student in STUDENTS
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "autograder.instructor", "grade", "--again"],
        cwd=room.root,
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as grading:
        assert grading.stdout is not None
        begun = []
        for line in grading.stdout:
            begun.append(line)
            if line.startswith("Grading"):
                break
        with pytest.raises(BusyError, match="Somebody else is grading into postgresql://teacher@"):
            Course(tmp_path / "elsewhere").hold_lock().__enter__()
        for writer in writers:
            writer.start()
        said = "".join(begun) + grading.stdout.read()
    for writer in writers:
        writer.join()
    assert (grading.returncode, failed) == (0, []), said
    assert scores(room) == dict.fromkeys(STUDENTS, 10 + MANUAL_GRADES)
    with book(room) as opened:
        for student in STUDENTS:
            comment = opened.find_comment("essay", FIRST, FIRST, student)
            assert comment.manual_comment == f"No. {MANUAL_GRADES}"


def test_a_gradebook_on_a_server_is_not_backed_up(room, capsys, tmp_path):
    course = Course(room.root)
    assert list_all_backups(course.backups) == []
    (tmp_path / "gradebook.db").touch()
    assert main(["--root", str(room.root), "restore", str(tmp_path / "gradebook.db")]) == 1
    assert "pg_dump and pg_restore" in " ".join(capsys.readouterr().out.split())


def test_a_server_that_cannot_be_reached_is_reported(room, address, capsys, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "")  # so that what the commands set is undone
    wrong = make_url(address).set(password="guessed").render_as_string(hide_password=False)
    monkeypatch.setenv(ADDRESS_VARIABLE, wrong)
    assert main(["--root", str(room.root), "regrade"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "cannot be reached" in said
    assert "password authentication failed" in said
    assert "guessed" not in said
    monkeypatch.setenv(ADDRESS_VARIABLE, "postgresql:/teacher:guessed")
    assert main(["--root", str(room.root), "regrade"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "DB= is not the address of a database" in said
    assert "guessed" not in said


def test_addresses(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "")
    taken = parse_address("postgres://me:se%40cret@db.example:5433/grades?sslmode=require")
    assert taken == "postgresql+psycopg://me@db.example:5433/grades?sslmode=require"
    assert os.environ["PGPASSWORD"] == "se@cret"
    assert (
        hide_secrets("postgresql://me:secret@db/grades?password=secret")
        == "postgresql://me@db/grades"
    )
    taken = parse_address("postgresql://me:other@db/grades?password=s%40crets&sslmode=require")
    assert taken == "postgresql+psycopg://me@db/grades?sslmode=require"
    assert os.environ["PGPASSWORD"] == "s@crets"
    with pytest.raises(GradebookError, match="DB= has sslpassword in it") as raised:
        parse_address("postgresql://me@db/grades?sslpassword=hidden")
    assert "hidden" not in str(raised.value)
    with pytest.raises(GradebookError, match="begins with mysql://"):
        parse_address("mysql://me:secret@db/grades")
    with hold_server_lock(f"sqlite:///{Path(os.devnull)}"):
        pass


def test_a_server_that_goes_away_stops_grading_with_a_sentence(room, capsys, monkeypatch):
    enter_scores = entering.enter_scores

    def lose_server(gradebook: Any, *arguments: Any) -> None:
        enter_scores(gradebook, *arguments)
        gradebook.db.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    before = scores(room)
    hand_in(room, STUDENTS[0], total="4")
    with monkeypatch.context() as patch:
        patch.setattr(entering, "enter_scores", lose_server)
        assert main(["--root", str(room.root), "grade"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "cannot be reached" in said
    assert "grading failed" not in said
    assert scores(room) == before
    hand_in(room, STUDENTS[0])
    assert main(["--root", str(room.root), "grade"]) == 0
    assert scores(room) == before
