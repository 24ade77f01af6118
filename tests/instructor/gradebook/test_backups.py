"""Backups of a gradebook: when they are made, how many are kept, and how one is restored."""

import os
import re
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder.instructor.__main__ import main
from autograder.instructor.course import Course
from autograder.instructor.gradebook import (
    GradebookError,
    back_up,
    find_damage,
    list_all_backups,
    restore_backup,
)
from tests.conftest import ROOT
from tests.instructor.room import Classroom

STUDENT = "ada"


def make_gradebook(url: str) -> None:
    """Make a gradebook with one student and one submission."""
    with Gradebook(url) as book:
        book.add_assignment("first")
        book.add_notebook("nb", "first")
        book.add_grade_cell("one", "nb", "first", max_score=4, cell_type="code")
        book.add_student(STUDENT)
        book.add_submission("first", STUDENT)


def set_score(url: str, score: float) -> None:
    """Give the student a score."""
    with Gradebook(url) as book:
        book.find_grade("one", "nb", "first", STUDENT).manual_score = score
        book.db.commit()


def score_in(url: str) -> float:
    """Return the student's score."""
    with Gradebook(url) as book:
        return float(book.find_grade("one", "nb", "first", STUDENT).manual_score)


def course_at(root: Path) -> Course:
    """Make a course in a folder, and read its configuration."""
    for file in ("nbgrader_config.py", "pyproject.toml"):
        shutil.copy(ROOT / file, root / file)
    course = Course(root)
    assert course.api
    course.grading.mkdir(exist_ok=True)
    return course


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A gradebook's file, made once, because nbgrader takes seconds to make one."""
    path = course_at(tmp_path_factory.mktemp("filled")).grading / "gradebook.db"
    make_gradebook(f"sqlite:///{path}")
    set_score(f"sqlite:///{path}", 1)
    return path


@pytest.fixture
def room(tmp_path, filled):
    """A class with a gradebook, in which no notebook is run."""
    room = Classroom(tmp_path)
    shutil.copy(filled, course_at(tmp_path).grading)
    return room


def test_a_backup_is_made_if_no_backup_has_the_grades(room):
    course = Course(room.root)
    url = course.api.coursedir.db_url
    for _ in range(2):
        with course.hold_lock():
            assert score_in(url) == 1
    with course.hold_lock():
        set_score(url, 2)
        set_score(url, 3)
    (copy,) = list_all_backups(course.backups)
    assert score_in(f"sqlite:///{copy}") == 1
    assert re.fullmatch(r"gradebook-20\d\d-\d\d-\d\dT\d{6}-\d{6}\.db", copy.name)


@pytest.fixture
def type_in(room, capsys):
    """Return a function that runs an instructor's command and returns its status and output."""

    def type_in(*words: str) -> tuple[int, str]:
        return main(["--root", str(room.root), *words]), capsys.readouterr().out

    return type_in


def test_restore_lists_backups_and_restores_one(room, type_in):
    course = Course(room.root)
    url = course.api.coursedir.db_url
    said = " ".join(type_in("restore")[1].split())
    assert "gradebook.db is sound." in said
    assert "no copy" in said
    with course.hold_lock():
        set_score(url, 4)
    _, said = type_in("restore")
    (named,) = re.findall(r"^  (\S+)", said, re.MULTILINE)
    status, said = type_in("restore", named)
    assert status == 0
    assert score_in(url) == 1
    newest, *older = list_all_backups(course.backups)
    assert score_in(f"sqlite:///{newest}") == 1, "a rebuild begins from what was restored"
    (other,) = set(older) - {course.backups / named}
    assert other.name in said
    assert score_in(f"sqlite:///{other}") == 4


def test_restore_keeps_the_oldest_backup_until_it_is_restored(room, type_in):
    course = Course(room.root)
    url = course.api.coursedir.db_url
    with course.hold_lock():
        set_score(url, 4)
    (copy,) = list_all_backups(course.backups)
    oldest = copy.rename(course.backups / "gradebook-2026-01-01T000000-000000.db")
    for number in range(1, 60):
        day, hour = divmod(number, 24)
        name = f"gradebook-2026-01-{day + 1:02}T{hour:02}0000-000000.db"
        (course.backups / name).write_bytes(b"")
    status, said = type_in("restore", oldest.name)
    assert (status, score_in(url)) == (0, 1), said
    assert oldest.exists()


def test_a_backup_is_made_before_points_change(room):
    course = Course(room.root)
    url = course.api.coursedir.db_url
    with course.hold_lock(), Gradebook(url) as book:
        book.find_grade_cell("one", "nb", "first").max_score = 9
        book.db.commit()
        book.find_grade("one", "nb", "first", STUDENT).manual_score = 9
        book.db.commit()
    (copy,) = list_all_backups(course.backups)
    with Gradebook(f"sqlite:///{copy}") as book:
        assert book.find_grade("one", "nb", "first", STUDENT).max_score == 4


def test_commands_that_change_no_grade_make_no_backup(room, type_in):
    course = Course(room.root)
    url = course.api.coursedir.db_url
    with course.hold_lock(), Gradebook(url) as book:
        book.update_or_create_student("bob", first_name="Bob")
        book.find_submission("first", STUDENT).timestamp = datetime(2026, 11, 1)
        book.db.commit()
    with course.hold_lock():
        set_score(url, 4)
    copies = list_all_backups(course.backups)
    for _ in range(3):
        status, said = type_in("restore", str(copies[-1]))
        assert status == 0
    newest, *_ = found = list_all_backups(course.backups)
    assert len(found) == len(copies) + 2, "of before the first restore, and of after it"
    assert str(newest.relative_to(room.root)) in said.split("is kept as")[1]


DAMAGES = {
    "is empty": b"",
    "is damaged: file is not a database": b"An essay. " * 1000,
    "has not all of nbgrader's tables": None,
}


@pytest.mark.parametrize("trouble", DAMAGES)
def test_a_damaged_backup_is_marked_and_not_restored(room, type_in, trouble):
    course = Course(room.root)
    url = course.api.coursedir.db_url
    with course.hold_lock():
        set_score(url, 4)
    (copy,) = list_all_backups(course.backups)
    copy.unlink()
    damage = DAMAGES[trouble]
    if damage is None:
        with closing(sqlite3.connect(copy)) as book:
            book.execute("CREATE TABLE grade (id INT)")
    else:
        copy.write_bytes(damage)
    _, said = type_in("restore")
    assert f"it {trouble}" in " ".join(said.split())
    status, said = type_in("restore", copy.name)
    assert status == 1
    assert f"that could be put back: it {trouble}." in " ".join(said.split())
    assert score_in(url) == 4


def test_a_damaged_gradebook_is_not_backed_up_and_is_kept_by_restore(room, type_in):
    course = Course(room.root)
    url, path = course.api.coursedir.db_url, course.grading / "gradebook.db"
    with course.hold_lock():
        set_score(url, 4)
    (copy,) = list_all_backups(course.backups)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert find_damage(path)
    with pytest.raises(GradebookError, match="cannot be copied to"):
        back_up(url, course.backups)
    for command in ("report", "regrade", "feedback"):
        status, said = type_in(command)
        assert status == 1
        assert "make grade makes it again" in " ".join(said.split())
    assert list_all_backups(course.backups) == [copy]
    status, said = type_in("restore", copy.name)
    assert status == 0
    assert score_in(url) == 1
    (kept,) = course.grading.glob("gradebook.db.damaged-*")
    assert kept.name in said


def test_a_file_that_is_not_a_gradebook_is_not_restored(room, tmp_path, type_in):
    url = Course(room.root).api.coursedir.db_url
    (tmp_path / "essay.db").write_text("An essay. " * 1000)
    with pytest.raises(
        GradebookError, match="is no gradebook that could be put back: it is damaged"
    ):
        restore_backup(tmp_path / "essay.db", url)
    status, said = type_in("restore", "nowhere.db")
    assert status == 1
    assert "There is no file nowhere.db" in said
    status, said = type_in("restore", "grading")
    assert (status, "grading is a folder." in said) == (1, True)
    assert score_in(url) == 1


def test_the_last_thirty_backups_are_kept_and_one_for_each_earlier_day(room, tmp_path):
    """All files have the same time, as after copying the folder: names tell which is newer."""
    url, folder = Course(room.root).api.coursedir.db_url, tmp_path / "backups"
    folder.mkdir()
    for day in range(1, 29):
        for hour in ("09", "17"):
            (folder / f"gradebook-2026-01-{day:02}T{hour}0000-000000.db").write_bytes(b"")
    for score in range(3):
        set_score(url, score)
        assert back_up(url, folder)
    for path in folder.iterdir():
        os.utime(path, (1_000_000, 1_000_000))
    names = [path.name for path in list_all_backups(folder)]
    assert names == sorted(names, reverse=True)
    assert len([name for name in names[:30] if name.startswith("gradebook-2026-01-")]) == 27
    days = [name[:20] for name in names[30:]]
    assert len(set(days)) == len(days) == 15
    newest, older, *_ = (folder / name for name in names)
    assert score_in(f"sqlite:///{newest}") == 2
    assert score_in(f"sqlite:///{older}") == 1


def test_a_gradebook_without_grades_is_not_backed_up(tmp_path, filled):
    path = tmp_path / "gradebook.db"
    url, folder = f"sqlite:///{path}", tmp_path / "backups"
    assert back_up(url, folder) is None
    shutil.copy(filled, path)
    with Gradebook(url) as book:
        book.remove_student(STUDENT)
    assert back_up(url, folder) is None
