"""A gradebook that cannot be read now is not damaged: commands wait or stop, and move nothing."""

import errno
import fcntl
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from nbgrader.api import Gradebook
from nbgrader.server_extensions.formgrader.handlers import BaseHandler

from autograder.instructor.__main__ import main
from autograder.instructor.classroom import grading, stale_grades
from autograder.instructor.classroom.attempts import ATTEMPTS_FILE
from autograder.instructor.course import REBUILDING_FILE, Course, read_withdrawn
from autograder.instructor.gradebook import (
    GradebookError,
    back_up,
    backups,
    connections,
    find_damage,
    hold_folder_lock,
    list_all_backups,
    rename_damaged,
    restore_backup,
)
from autograder.instructor.pipeline import Records, calibration_file, read_calibration
from tests.conftest import some_of
from tests.instructor.tiny_class import ASSIGNMENT, hand_in, scores, tiny_class

MANUAL_SCORE, COMMENT = 1.5, "Well said."

BROKEN = "no notebook"


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """Ann and Bob are graded, Ann's score was then given by hand, and there is a backup of that."""
    root = tiny_class(tmp_path_factory.mktemp("class") / "before", 0)
    for student in ("ann", "bob"):
        hand_in(root, student, f"double = 2  # of {student}")
    assert main(["--root", str(root), "grade"]) == 0
    with Gradebook(f"sqlite:///{root / 'grading' / 'gradebook.db'}") as book:
        grade = book.find_grade("test", ASSIGNMENT, ASSIGNMENT, "ann")
        grade.manual_score, grade.needs_manual_grade = MANUAL_SCORE, False
        book.find_comment("double", ASSIGNMENT, ASSIGNMENT, "ann").manual_comment = COMMENT
        book.db.commit()
    assert main(["--root", str(root), "report"]) == 0
    return root


@pytest.fixture
def root(before, tmp_path, monkeypatch):
    """A copy of it, for whose gradebook nobody waits in silence."""
    monkeypatch.setattr(connections, "SILENT_LOCK_SECONDS", 0)
    return shutil.copytree(before, tmp_path / "course")


@pytest.fixture
def make(root, capsys):
    """Return a function that runs a command: its exit status, and what it says."""

    def make(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        status = main(["--root", str(root), *words])
        said = capsys.readouterr()
        return status, " ".join(f"{said.out} {said.err}".split())

    return make


def gradebook(root: Path) -> Path:
    """Return the gradebook's file."""
    return root / "grading" / "gradebook.db"


def manual_grades(path: Path) -> tuple[float, str]:
    """Return what somebody gave Ann by hand."""
    with Gradebook(f"sqlite:///{path}") as book:
        grade = book.find_grade("test", ASSIGNMENT, ASSIGNMENT, "ann")
        comment = book.find_comment("double", ASSIGNMENT, ASSIGNMENT, "ann")
        return grade.manual_score, comment.manual_comment


def moved(root: Path) -> list[str]:
    """Return the names of gradebooks that were moved away, or are half made."""
    names = (path.name for path in (root / "grading").glob("gradebook*"))
    return [name for name in names if name != "gradebook.db"]


@pytest.fixture
def locked(root):
    """Return a function that locks the gradebook, as another program does, and one that unlocks."""
    with closing(sqlite3.connect(gradebook(root), isolation_level=None)) as other:
        yield lambda: other.execute("BEGIN EXCLUSIVE"), lambda *_: other.execute("ROLLBACK")


def break_submission(root: Path, student: str) -> None:
    """Have a student hand in what is no notebook."""
    folder = root / "grading" / "submitted" / student / ASSIGNMENT
    (folder / f"{ASSIGNMENT}.ipynb").write_text(BROKEN)


COMMANDS = ("report", "feedback", "regrade", "grade", "restore")


@pytest.mark.parametrize("command", some_of(COMMANDS, at_least=2))
def test_a_command_waits_for_a_lock_and_says_so(root, make, locked, monkeypatch, command):
    lock, unlock = locked
    lock()
    monkeypatch.setattr(connections, "sleep", unlock)
    status, said = make(command)
    assert status == 0, said
    assert "gradebook.db is locked by another program. Waiting for up to 600 seconds" in said
    assert not moved(root)
    assert manual_grades(gradebook(root)) == (MANUAL_SCORE, COMMENT)


@pytest.mark.parametrize("command", some_of(COMMANDS, at_least=2))
def test_a_lock_that_stays_stops_the_command(root, make, locked, monkeypatch, command):
    lock, unlock = locked
    lock()
    monkeypatch.setattr(connections, "LOCK_SECONDS", 0)
    status, said = make(command)
    unlock()
    assert status == 1
    assert "is still locked by another program" in said
    assert "run the same command again" in said
    assert "damaged" not in said
    assert not moved(root)
    assert manual_grades(gradebook(root)) == (MANUAL_SCORE, COMMENT)


def enter_locked(monkeypatch, lock, name):
    """Have the gradebook be locked when an outcome is about to be entered, and only then."""
    enter = getattr(grading, name)

    def enter_under_lock(*arguments: object) -> None:
        lock()
        enter(*arguments)

    monkeypatch.setattr(grading, name, enter_under_lock)


@pytest.mark.parametrize("name", ["enter", "enter_failure"])
def test_an_outcome_is_entered_when_the_lock_is_gone(root, make, locked, monkeypatch, name):
    lock, unlock = locked
    if name == "enter":
        hand_in(root, "cy", "double = 2  # of cy")
    else:
        break_submission(root, "ann")
    enter_locked(monkeypatch, lock, name)
    monkeypatch.setattr(connections, "sleep", unlock)
    status, said = make("grade")
    assert status == 0, said
    assert "Waiting for up to 600 seconds" in said
    assert scores(root) == ({"ann": 2, "bob": 2, "cy": 2} if name == "enter" else
                            {"ann": None, "bob": 2})  # fmt: skip
    assert manual_grades(gradebook(root)) == (MANUAL_SCORE, COMMENT)
    assert not moved(root)


@pytest.mark.parametrize("name", ["enter", "enter_failure"])
def test_a_lock_that_stays_stops_grading_and_the_next_run_goes_on(
    root, make, locked, monkeypatch, name
):
    lock, unlock = locked
    if name == "enter":
        hand_in(root, "cy", "double = 2  # of cy")
    else:
        break_submission(root, "ann")
    with monkeypatch.context() as patch:
        enter_locked(patch, lock, name)
        patch.setattr(connections, "LOCK_SECONDS", 0)
        status, said = make("grade")
    unlock()
    assert status == 1
    assert "is still locked by another program, so nothing more is entered" in said
    assert "grading failed" not in said
    status, said = make("grade")
    assert status == 0, said
    assert scores(root) == ({"ann": 2, "bob": 2, "cy": 2} if name == "enter" else
                            {"ann": None, "bob": 2})  # fmt: skip
    assert manual_grades(gradebook(root)) == (MANUAL_SCORE, COMMENT)


def test_nbgrader_autograde_waits_too(root, locked, monkeypatch):
    lock, unlock = locked
    hand_in(root, "cy", "double = 2  # of cy")
    course = Course(root)
    api = course.api
    lock()
    with monkeypatch.context() as patch:
        patch.setattr(connections, "LOCK_SECONDS", 0)
        done = api.autograde(ASSIGNMENT, "cy")
    assert not done["success"]
    assert "is still locked by another program" in done["log"]
    assert not moved(root)
    monkeypatch.setattr(connections, "sleep", unlock)
    assert api.autograde(ASSIGNMENT, "cy")["success"]
    assert scores(root) == {"ann": 2, "bob": 2, "cy": 2}


def test_formgrader_saves_scores_again_after_one_that_met_a_lock(root, locked, monkeypatch):
    lock, unlock = locked
    assert Course(root).api
    monkeypatch.setattr(connections, "LOCK_SECONDS", 0)

    def save(score: float) -> None:
        """Save a score as one of Formgrader's requests does; they share a session."""
        try:
            book.find_grade("test", ASSIGNMENT, ASSIGNMENT, "ann").manual_score = score
            book.db.commit()
        finally:
            BaseHandler.on_finish(handler)

    with Gradebook(f"sqlite:///{gradebook(root)}") as book:
        handler = SimpleNamespace(settings={"nbgrader_gradebook": book})
        save(1)
        lock()
        with pytest.raises(GradebookError, match="is still locked"):
            save(2)
        unlock()
        with closing(sqlite3.connect(gradebook(root), isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            with pytest.raises(GradebookError, match="is still locked"):
                save(2)
        save(0.5)
    assert manual_grades(gradebook(root)) == (0.5, COMMENT)


ERRORS = {
    "SQLITE_CANTOPEN": "unable to open database file",
    "SQLITE_PERM": "access permission denied",
    "SQLITE_READONLY": "attempt to write a readonly database",
    "SQLITE_READONLY_ROLLBACK": "attempt to write a readonly database",
    "SQLITE_IOERR_READ": "disk I/O error",
    "SQLITE_FULL": "database or disk is full",
}


def fail_at(monkeypatch: pytest.MonkeyPatch, statement: str, name: str) -> None:
    """Have SQLite refuse each statement that begins with something."""
    execute = connections.PatientCursor.execute

    def refuse(self: connections.PatientCursor, *arguments: str) -> object:
        if arguments[0].startswith(statement):
            error = sqlite3.OperationalError(ERRORS[name])
            error.sqlite_errorcode = getattr(sqlite3, name)
            raise error
        return execute(self, *arguments)

    monkeypatch.setattr(connections.PatientCursor, "execute", refuse)


def test_a_commit_waits_until_another_program_has_read(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "SILENT_LOCK_SECONDS", 0)
    path = tmp_path / "gradebook.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as reader,
        closing(connections.connect(path)) as writer,
    ):
        reader.execute("CREATE TABLE grade (score)")
        writer.execute("INSERT INTO grade VALUES (1)")
        reader.execute("BEGIN")
        assert reader.execute("SELECT * FROM grade").fetchall() == []
        monkeypatch.setattr(connections, "sleep", lambda _: reader.execute("ROLLBACK"))
        writer.commit()
        assert reader.execute("SELECT * FROM grade").fetchall() == [(1,)]


def test_formgrader_waits_for_a_lock_for_ten_seconds_only(tmp_path, monkeypatch, capsys):
    app = SimpleNamespace(initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "jupyter_server.serverapp", SimpleNamespace(ServerApp=app))
    monkeypatch.setattr(connections, "SILENT_LOCK_SECONDS", 0)
    path = tmp_path / "gradebook.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        closing(connections.connect(path)) as book,
    ):
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(connections, "sleep", lambda _: other.execute("ROLLBACK"))
        book.execute("SELECT * FROM sqlite_master")
    assert "Waiting for up to 10 seconds until it is free" in capsys.readouterr().err


def test_several_rows_wait_until_another_program_has_written(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "SILENT_LOCK_SECONDS", 0)
    path = tmp_path / "gradebook.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        closing(connections.connect(path)) as writer,
    ):
        other.execute("CREATE TABLE grade (score)")
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(connections, "sleep", lambda _: other.execute("ROLLBACK"))
        writer.cursor().executemany("INSERT INTO grade VALUES (?)", [(1,), (2,)])
        writer.commit()
        assert other.execute("SELECT * FROM grade").fetchall() == [(1,), (2,)]


def test_of_all_errors_of_sqlite_two_say_that_a_file_is_damaged():
    kinds: dict[type[BaseException], set[int]] = {}
    for code in range(sqlite3.SQLITE_ERROR, sqlite3.SQLITE_NOTADB + 1):
        error = sqlite3.DatabaseError("what?")
        error.sqlite_errorcode = code | 1 << 8  # with a detail, as SQLite gives it
        explained = connections.explain_errors(Path("gradebook.db"))
        with pytest.raises((GradebookError, sqlite3.Error)) as caught, explained:
            raise error
        kinds.setdefault(caught.type, set()).add(code)
    assert kinds[connections.DamagedError] == {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
    # these must not be taken for tables that nbgrader has not created yet
    assert kinds[GradebookError] == {
        sqlite3.SQLITE_AUTH, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY,
    }  # fmt: skip


PLACES = ("PRAGMA integrity_check", "SELECT 1 FROM submitted_assignment", "UPDATE grade SET")
"""Statements of the check at a command's start, of the backup, and of entering a score."""


@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_the_machine_are_no_damage(root, monkeypatch, name):
    course = Course(root)
    sentence = f"could not be read or written: {ERRORS[name]}."
    with monkeypatch.context() as patch:
        fail_at(patch, "PRAGMA", name)
        for command in (course.find_trouble, course.hold_lock(rebuilds=True).__enter__):
            with pytest.raises(GradebookError, match=sentence):
                command()
    with monkeypatch.context() as patch:
        fail_at(patch, "SELECT 1", name)
        with pytest.raises(GradebookError, match=sentence):
            course.hold_lock(rebuilds=True).__enter__()
    assert not moved(root)
    assert not course.find_trouble()


@pytest.mark.parametrize(("statement", "name"), [*zip(PLACES, some_of([*ERRORS]), strict=False)])
def test_errors_of_the_machine_stop_grading_and_the_next_run_goes_on(
    root, make, monkeypatch, statement, name
):
    path = root / "grading" / "submitted" / "bob" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    path.write_text(path.read_text().replace("double = 2", "double = 3"))
    with monkeypatch.context() as patch:
        fail_at(patch, statement, name)
        status, said = make("grade")
    assert status == 1
    assert f"could not be read or written: {ERRORS[name]}." in said
    assert "grading failed" not in said
    assert "damaged" not in said
    assert not moved(root)
    assert manual_grades(gradebook(root)) == (MANUAL_SCORE, COMMENT)
    status, said = make("grade")
    assert status == 0, said
    assert scores(root) == {"ann": 2, "bob": 0}


HALF_WRITTEN = """
import os, sqlite3, sys
book = sqlite3.connect(sys.argv[1])
book.execute("PRAGMA cache_size = 1")
book.execute("UPDATE grade SET manual_score = 0")
book.execute("UPDATE source_cell SET source = zeroblob(20000)")
os._exit(1)
"""
"""Write more than fits into memory, so that SQLite writes to the file, and be killed."""


def half_write(path: Path) -> None:
    """Leave a gradebook as a program does that is killed while it writes."""
    subprocess.run([sys.executable, "-c", HALF_WRITTEN, str(path)], check=False)
    assert path.with_name("gradebook.db-journal").exists()


def test_what_a_killed_program_had_half_written_is_taken_back(root, make):
    half_write(gradebook(root))
    status, said = make("report")
    assert status == 0, said
    assert not moved(root)
    assert manual_grades(gradebook(root)) == (MANUAL_SCORE, COMMENT)


def test_a_damaged_gradebook_is_moved_with_its_journal(root, make):
    half_write(gradebook(root))
    gradebook(root).write_bytes(BROKEN.encode() * 1000)
    rename_damaged(gradebook(root))
    journal, kept = sorted(moved(root), key=len, reverse=True)
    assert journal == f"{kept}-journal"
    status, said = make("grade")
    assert status == 0, said
    assert not find_damage(gradebook(root))
    assert manual_grades(gradebook(root)) == (MANUAL_SCORE, COMMENT)


def test_a_program_that_has_the_gradebook_open_goes_on_with_the_restored_one(root):
    url = f"sqlite:///{gradebook(root)}"
    copy, *_ = list_all_backups(Course(root).backups)
    with Gradebook(url) as formgrader:
        grade = formgrader.find_grade("test", ASSIGNMENT, ASSIGNMENT, "ann")
        grade.manual_score = 0.5
        formgrader.db.commit()
        restore_backup(copy, url)
        assert grade.manual_score == MANUAL_SCORE
        grade.manual_score = 0.25
        formgrader.db.commit()
    assert manual_grades(gradebook(root))[0] == 0.25


def test_a_folder_of_backups_that_cannot_be_read_is_not_empty(root, make, monkeypatch):
    gradebook(root).write_bytes(BROKEN.encode() * 1000)
    listed = os.listdir

    def refuse(folder: Path) -> list[str]:
        if str(folder).endswith("backups"):
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return listed(folder)

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", refuse)
        status, said = make("grade")
    assert status == 1
    assert "Permission denied" in said
    assert not moved(root)
    assert make("grade")[0] == 0
    assert manual_grades(gradebook(root)) == (MANUAL_SCORE, COMMENT)


def test_a_newest_backup_that_cannot_be_read_is_not_passed_over(root, make, monkeypatch):
    gradebook(root).write_bytes(BROKEN.encode() * 1000)
    newest = list_all_backups(Course(root).backups)[0]
    with closing(sqlite3.connect(newest, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(connections, "LOCK_SECONDS", 0)
        status, said = make("grade")
    assert status == 1
    assert "is still locked by another program" in said
    assert not moved(root)


@pytest.mark.timeout(300, method="thread")  # SQLite itself would wait for ever, without signals
def test_a_gradebook_that_is_locked_while_it_is_copied_is_not_changed(root, locked, monkeypatch):
    lock, unlock = locked
    url, folder = f"sqlite:///{gradebook(root)}", root / "others"
    monkeypatch.setattr(connections, "LOCK_SECONDS", 0)
    monkeypatch.setattr(backups, "has_grades", lambda url: True)
    lock()
    with pytest.raises(GradebookError, match=r"No grade is changed.*database is locked"):
        back_up(url, folder)
    unlock()


def test_a_copy_that_is_damaged_is_not_kept(root, monkeypatch):
    folder = root / "others"
    monkeypatch.setattr(backups, "find_damage", lambda path: "is damaged")
    with pytest.raises(GradebookError, match=r"No grade is changed.*the copy is damaged"):
        back_up(f"sqlite:///{gradebook(root)}", folder)
    assert not [*folder.iterdir()]


def make_unreadable(path: Path) -> None:
    """Replace a file by what nobody can read, root included: a link to itself."""
    path.unlink()
    path.symlink_to(path.name)


def test_a_record_that_cannot_be_read_is_not_missing(root, make):
    path = Records(Course(root).records).path("ann", ASSIGNMENT)
    kept = path.read_bytes()
    make_unreadable(path)
    status, said = make("grade")
    assert status == 1
    assert "Too many levels of symbolic links" in said
    path.unlink()
    path.write_bytes(kept)
    assert make("grade")[0] == 0
    assert manual_grades(gradebook(root)) == (MANUAL_SCORE, COMMENT)


def test_a_record_whose_disk_fails_while_it_is_read_is_not_missing(root, monkeypatch):
    def fail(_: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(OSError, match="Input/output error"):
        Records(root / "grading" / "records").get("ann", ASSIGNMENT)


@pytest.mark.parametrize("command", ["grade", "report"])
def test_a_folder_of_submissions_that_cannot_be_read_is_not_empty(root, make, command):
    submitted = root / "grading" / "submitted"
    submitted.rename(root / "elsewhere")
    submitted.symlink_to(submitted.name)
    status, said = make(command)
    assert status == 1
    assert "Too many levels of symbolic links" in said


def test_earlier_attempts_that_cannot_be_read_are_not_missing(root, make):
    make_unreadable(root / "grading" / ATTEMPTS_FILE)
    status, said = make("report")
    assert status == 1
    assert "Too many levels of symbolic links" in said


def test_a_calibration_that_cannot_be_read_is_not_missing(tmp_path):
    file = calibration_file(tmp_path, ASSIGNMENT)
    assert read_calibration(file) is None
    file.parent.mkdir(parents=True)
    file.symlink_to(file.name)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        read_calibration(file)


def test_records_that_cannot_be_read_do_not_make_a_lost_gradebook_a_new_one(root, make):
    records = root / "grading" / "records"
    records.rename(root / "elsewhere")
    records.symlink_to(records.name)
    gradebook(root).unlink()
    status, said = make("grade")
    assert status == 1
    assert "grading/ could not be read or written" in said
    assert not gradebook(root).exists()


DISK_ERRORS = (
    "EACCES", "EDQUOT", "EIO", "ELOOP", "ENOLCK", "ENOSPC", "ENOTDIR", "EPERM", "EROFS", "ESTALE",
)  # fmt: skip


@pytest.mark.parametrize("name", DISK_ERRORS)
def test_an_error_of_the_disk_stops_a_command_with_a_sentence(make, monkeypatch, name):
    number = getattr(errno, name)

    def fail(*_: object) -> int:
        raise OSError(number, "planted")

    monkeypatch.setattr("autograder.instructor.__main__._run", fail)
    status, said = make("grade")
    assert status == 1
    assert f"read or written: [Errno {number}] planted. What was graded is kept" in said


@pytest.mark.parametrize(
    ("names", "said_of"),
    [
        (["grading/records"], "grading/"),
        (["grading"], "grading/"),
        (["solutions", None, "grading/new"], "grading/"),
        (["solutions"], "{root}/solutions"),
        (["grading_notes"], "{root}/grading_notes"),
        (["/nowhere/record.json"], "/nowhere/record.json"),
        ([b"/nowhere/record.json"], "/nowhere/record.json"),
        ([3], "A file"),
        ([], "A file"),
    ],
)
def test_an_error_of_the_disk_is_of_the_file_that_it_names(root, make, monkeypatch, names, said_of):
    def fail(*_: object) -> int:
        paths = [str(root / name) if isinstance(name, str) else name for name in names]
        raise OSError(errno.EACCES, "planted", *paths)

    monkeypatch.setenv("COLUMNS", "600")
    monkeypatch.setattr("autograder.instructor.__main__._run", fail)
    status, said = make("report")
    assert status == 1
    assert said.startswith(f"{said_of.format(root=root)} could not be read or written: ")
    assert "planted" in said


def test_a_disk_without_locks_does_not_say_that_another_command_is_at_work(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="No locks"), hold_folder_lock(tmp_path / ".lock"):
        pass


@pytest.mark.parametrize(
    "name", ["class.toml", "roster.csv", "handed_in.csv", "withdrawn.csv", "collected_times.json"]
)
def test_a_class_file_on_a_disk_that_is_not_there_is_not_missing(root, make, name):
    (root / "grading" / name).symlink_to("/nowhere/at/all")
    status, said = make("report")
    assert status == 1
    assert f"grading/{name}" in said
    assert "No such file or directory" in said


def test_a_class_file_in_a_folder_that_cannot_be_read_is_not_missing(tmp_path):
    folder = tmp_path / "grading"
    folder.symlink_to(folder.name)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        read_withdrawn(folder)


def test_a_time_of_a_backup_that_cannot_be_read_is_not_missing(root, make):
    marker = root / "grading" / REBUILDING_FILE
    marker.symlink_to(marker.name)
    status, said = make("grade")
    assert status == 1
    assert "Too many levels of symbolic links" in said
    assert marker.is_symlink()


@pytest.mark.parametrize(
    ("command", "module", "name"),
    [
        ("report", Course, "find_submission_problem"),
        ("regrade", stale_grades, "enter_regraded"),
    ],
)
def test_an_error_of_the_gradebook_is_no_failure_of_each_submission(
    make, monkeypatch, command, module, name
):
    def fail(*_: object) -> None:
        raise GradebookError("planted")

    monkeypatch.setattr(module, name, fail)
    status, said = make(command)
    assert status == 1
    assert said.endswith("planted")
    assert "GradebookError" not in said


def test_a_mistake_in_the_class_file_keeps_nobody_from_restoring(root, make):
    (root / "grading" / "class.toml").write_text("what?")
    status, said = make("restore")
    assert status == 0
    assert "when they were made (in UTC;" in said
    status, said = make("restore", re.findall(r"FROM=(\S+)", said)[0])
    assert status == 0
    assert "What was graded since is entered by the next make grade. grading/class.toml" in said
    assert (root / "grading" / REBUILDING_FILE).exists()


def test_an_unreadable_time_of_a_backup_has_every_manual_score_checked(root, make):
    (root / "grading" / REBUILDING_FILE).write_text("what?")
    with closing(sqlite3.connect(gradebook(root))) as book:  # as if a rebuild had been stopped
        book.execute("UPDATE grade SET auto_score = NULL, manual_score = NULL, extra_credit = 0.5")
        book.commit()
    status, said = make("grade")
    assert status == 0, said
    assert "ann, tiny: test has extra credit of 0.5, from before it was last graded." in said
