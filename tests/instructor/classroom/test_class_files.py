"""The CSVs and the report are written again if anything that they show has changed, else not."""

import pytest

from autograder.instructor.__main__ import main
from autograder.instructor.classroom import class_files
from autograder.instructor.course import Course
from autograder.instructor.pipeline import Records
from tests.instructor.tiny_class import ASSIGNMENT, hand_in, tiny_class

NAMES = ("grades.csv", "exercises.csv", "students.csv", "report/index.html")


@pytest.fixture
def root(tmp_path):
    root = tiny_class(tmp_path / "course", 0)
    hand_in(root, "ann", "double = 2")
    assert main(["--root", str(root), "grade"]) == 0
    return root


def read(root):
    """When each file was written, and what it says."""
    paths = [root / "grading" / name for name in NAMES]
    return [(path.stat().st_mtime_ns, path.read_text()) for path in paths]


def reported(root):
    assert main(["--root", str(root), "report"]) == 0
    return read(root)


def test_nothing_is_written_again_if_nothing_has_changed(root, capsys):
    before = read(root)
    capsys.readouterr()
    assert main(["--root", str(root), "grade"]) == 0
    assert read(root) == before
    said = " ".join(capsys.readouterr().out.split())
    assert all(name in said for name in ("grades.csv", "exercises.csv", "students.csv"))
    assert "Report on the class: " in said


def give_by_hand(root):
    course = Course(root)
    with course.open_gradebook() as gradebook:
        (notebook,) = gradebook.find_submission(ASSIGNMENT, "ann").notebooks
        notebook.grades[0].manual_score = 1.5
        gradebook.db.commit()


def change_the_record(root):
    records = Records(root / "grading" / "records")
    path = records.path("ann", ASSIGNMENT)
    path.write_bytes(path.read_bytes().replace(b'"seconds":', b'"seconds":1'))


def writing(name, text):
    return lambda root: (root / "grading" / name).write_text(text)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(give_by_hand, id="a score by hand"),
        pytest.param(lambda root: hand_in(root, "bob", "double = 3"), id="a submission"),
        pytest.param(writing("roster.csv", "student\nann\nzoe\n"), id="the roster"),
        pytest.param(writing("class.toml", 'timezone = "Asia/Tokyo"\n'), id="rules"),
        pytest.param(change_the_record, id="a record"),
        pytest.param(writing("students.csv", "mine"), id="a CSV"),
        pytest.param(lambda root: (root / "grading" / "grades.csv").unlink(), id="no CSV"),
        pytest.param(writing("written.json", "{"), id="damage"),
    ],
)
def test_they_are_written_again_if_this_has_changed(root, change):
    before = read(root)
    change(root)
    after = reported(root)
    assert all(new > old for (new, _), (old, _) in zip(after, before, strict=True))
    assert "mine" not in after[2][1]


def test_they_are_written_again_by_another_template(root, tmp_path, monkeypatch):
    before = read(root)
    monkeypatch.setattr(class_files, "TEMPLATE", tmp_path / "no template")
    assert all(new > old for (new, _), (old, _) in zip(reported(root), before, strict=True))


def test_damaged_attempts_are_set_aside_and_said(root, capsys):
    path = root / "grading" / "attempts.json"
    path.write_text('{"ann"')
    capsys.readouterr()
    assert main(["--root", str(root), "report"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "grading/attempts.json is damaged, and is now grading/attempts.json.damaged." in said
    assert (root / "grading" / "attempts.json.damaged").read_text() == '{"ann"'
    assert "ann" in path.read_text()
