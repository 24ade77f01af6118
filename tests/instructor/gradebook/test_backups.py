"""Copies of a gradebook: made before grades change, and only then; dated, few, and put back."""

import os
import re
import shutil
from datetime import datetime
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder.instructor.__main__ import main
from autograder.instructor.course import Course
from autograder.instructor.gradebook import GradebookError, back_up, backed_up, backups, put_back
from tests.conftest import ROOT
from tests.instructor.room import Classroom

pytestmark = [
    pytest.mark.instructor,
    # nbgrader's sessions; it says this of each new submission, and nothing is wrong
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
]

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
    """A course in a folder, whose configuration has been read: it says where `alembic` is."""
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


def test_a_copy_is_made_before_grades_change_and_only_then(room):
    course = Course(room.root)
    url = course.api.coursedir.db_url
    with course.alone():
        assert given(url) == 1
        give(url, 1)  # which changes nothing
    assert backups(course.backups) == []
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
    assert backups(course.backups) == []
    with course.alone():
        give(url, 4)
    (first,) = backups(course.backups)
    for _ in range(3):
        status, said = type_in("restore", str(first))
        assert status == 0
    assert len(backups(course.backups)) == 2, "before the change, and before the first restore"
    assert str(first.relative_to(room.root)) in said.split("What it was before is in")[1]


def test_what_is_no_gradebook_is_not_put_back(room, tmp_path, type_in):
    url = Course(room.root).api.coursedir.db_url
    (tmp_path / "essay.db").write_text("An essay. " * 1000)
    with pytest.raises(GradebookError, match="is no gradebook"):
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
    with backed_up(url, folder), Gradebook(url) as book:
        book.add_student(STUDENT)
    assert not backups(folder)
