"""Copies of a gradebook: made before grades change, and only then; dated, few, and put back."""

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
    backups,
    put_back,
    trouble_in,
)
from tests.conftest import ROOT
from tests.instructor.room import Classroom

STUDENT = "ada"


def fill(url: str) -> None:
    """Have a gradebook with one student, who has handed in one exercise."""
    with Gradebook(url) as book:
        book.add_assignment("first")
        book.add_notebook("nb", "first")
        book.add_grade_cell("one", "nb", "first", max_score=4, cell_type="code")
        book.add_student(STUDENT)
        book.add_submission("first", STUDENT)


def give(url: str, score: float) -> None:
    """Give that student a score."""
    with Gradebook(url) as book:
        book.find_grade("one", "nb", "first", STUDENT).manual_score = score
        book.db.commit()


def given(url: str) -> float:
    """That score."""
    with Gradebook(url) as book:
        return float(book.find_grade("one", "nb", "first", STUDENT).manual_score)


def course_at(root: Path) -> Course:
    """A course in a folder, whose configuration has been read."""
    for file in ("nbgrader_config.py", "pyproject.toml"):
        shutil.copy(ROOT / file, root / file)
    course = Course(root)
    assert course.api
    course.grading.mkdir(exist_ok=True)
    return course


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Such a gradebook's file; nbgrader takes seconds to make one."""
    path = course_at(tmp_path_factory.mktemp("filled")).grading / "gradebook.db"
    fill(f"sqlite:///{path}")
    give(f"sqlite:///{path}", 1)
    return path


@pytest.fixture
def room(tmp_path, filled):
    """A class with a gradebook, in which nothing is ever run."""
    room = Classroom(tmp_path)
    shutil.copy(filled, course_at(tmp_path).grading)
    return room


def test_a_copy_is_made_of_grades_that_no_copy_has(room):
    course = Course(room.root)
    url = course.api.coursedir.db_url
    for _ in range(2):
        with course.alone():
            assert given(url) == 1
    with course.alone():
        give(url, 2)
        give(url, 3)
    (copy,) = backups(course.backups)
    assert given(f"sqlite:///{copy}") == 1
    assert re.fullmatch(r"gradebook-20\d\d-\d\d-\d\dT\d{6}\.db", copy.name)


@pytest.fixture
def type_in(room, capsys):
    """To give the instructor's command; its exit status, and what it says."""

    def type_in(*words: str) -> tuple[int, str]:
        return main(["--root", str(room.root), *words]), capsys.readouterr().out

    return type_in


def test_the_commands_name_copies_and_put_one_back(room, type_in):
    course = Course(room.root)
    url = course.api.coursedir.db_url
    assert "no copy" in type_in("restore")[1]
    with course.alone():
        give(url, 4)
    _, said = type_in("restore")
    (named,) = re.findall(r"grading/backups/\S+", said)
    status, said = type_in("restore", named)
    assert status == 0
    assert given(url) == 1
    (other,) = set(backups(course.backups)) - {room.root / named}
    assert other.name in said
    assert given(f"sqlite:///{other}") == 4


def test_a_copy_is_of_before_what_an_exercise_is_worth_changed(room):
    course = Course(room.root)
    url = course.api.coursedir.db_url
    with course.alone(), Gradebook(url) as book:
        book.find_grade_cell("one", "nb", "first").max_score = 9
        book.db.commit()
        book.find_grade("one", "nb", "first", STUDENT).manual_score = 9
        book.db.commit()
    (copy,) = backups(course.backups)
    with Gradebook(f"sqlite:///{copy}") as book:
        assert book.find_grade("one", "nb", "first", STUDENT).max_score == 4


def test_what_changes_no_grade_uses_up_no_copy(room, type_in):
    course = Course(room.root)
    url = course.api.coursedir.db_url
    with course.alone(), Gradebook(url) as book:
        book.update_or_create_student("bob", first_name="Bob")
        book.find_submission("first", STUDENT).timestamp = datetime(2026, 11, 1)
        book.db.commit()
    with course.alone():
        give(url, 4)
    copies = backups(course.backups)
    for _ in range(3):
        status, said = type_in("restore", str(copies[-1]))
        assert status == 0
    assert len(backups(course.backups)) == len(copies) + 1, "of before the first restore"
    assert str(backups(course.backups)[-1].relative_to(room.root)) in said.split("before is in")[1]


DAMAGES = {
    "is empty": b"",
    "is damaged: file is not a database": b"An essay. " * 1000,
    "has not all of nbgrader's tables": None,
}


@pytest.mark.parametrize("trouble", DAMAGES)
def test_a_damaged_copy_is_marked_and_not_put_back(room, type_in, trouble):
    course = Course(room.root)
    url = course.api.coursedir.db_url
    with course.alone():
        give(url, 4)
    (copy,) = backups(course.backups)
    copy.unlink()
    damage = DAMAGES[trouble]
    if damage is None:
        with closing(sqlite3.connect(copy)) as book:
            book.execute("CREATE TABLE grade (id INT)")
    else:
        copy.write_bytes(damage)
    _, said = type_in("restore")
    assert f"(it {trouble}, and cannot be put back)" in " ".join(said.split())
    status, said = type_in("restore", copy.name)
    assert status == 1
    assert f"that could be put back: it {trouble}." in " ".join(said.split())
    assert given(url) == 4


def test_a_damaged_gradebook_is_never_a_copy_and_is_kept_when_another_is_put_back(room, type_in):
    course = Course(room.root)
    url, path = course.api.coursedir.db_url, course.grading / "gradebook.db"
    with course.alone():
        give(url, 4)
    (copy,) = backups(course.backups)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert trouble_in(path)
    with pytest.raises(GradebookError, match="cannot be copied to"):
        back_up(url, course.backups)
    for command in ("report", "regrade", "feedback"):
        status, said = type_in(command)
        assert status == 1
        assert "make grade makes it again." in " ".join(said.split())
    assert backups(course.backups) == [copy]
    status, said = type_in("restore", copy.name)
    assert status == 0
    assert given(url) == 1
    (kept,) = course.grading.glob("gradebook.db.damaged-*")
    assert kept.name in said


def test_what_is_no_gradebook_is_not_put_back(room, tmp_path, type_in):
    url = Course(room.root).api.coursedir.db_url
    (tmp_path / "essay.db").write_text("An essay. " * 1000)
    with pytest.raises(
        GradebookError, match="is no gradebook that could be put back: it is damaged"
    ):
        put_back(tmp_path / "essay.db", url)
    status, said = type_in("restore", "nowhere.db")
    assert status == 1
    assert "There is no file nowhere.db" in said
    assert given(url) == 1


def test_there_are_few_of_them_and_of_old_days_one_each(room, tmp_path):
    url, folder = Course(room.root).api.coursedir.db_url, tmp_path / "backups"
    folder.mkdir()
    for day in range(1, 29):
        for hour in ("09", "17"):
            old = folder / f"gradebook-2026-01-{day:02}T{hour}0000.db"
            old.write_bytes(b"")
            _date(old, 1_000_000 + 86_400 * day + 3600 * int(hour))
    for score in range(3):
        give(url, score)
        assert back_up(url, folder)
    names = [path.name for path in backups(folder)]
    assert len(names) == 30
    assert len([name for name in names[:10] if name.startswith("gradebook-2026-01-2")]) == 7
    days = [name[:20] for name in names[10:]]
    assert len(set(days)) == len(days) == 20


def _date(path: Path, seconds: float) -> None:
    os.utime(path, (seconds, seconds))


def test_a_gradebook_without_grades_is_not_copied(tmp_path, filled):
    path = tmp_path / "gradebook.db"
    url, folder = f"sqlite:///{path}", tmp_path / "backups"
    assert back_up(url, folder) is None
    shutil.copy(filled, path)
    with Gradebook(url) as book:
        book.remove_student(STUDENT)
    assert back_up(url, folder) is None
