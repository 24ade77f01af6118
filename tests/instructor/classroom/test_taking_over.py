"""A class that the version before records has graded keeps its grades, and its scores by hand."""

from types import SimpleNamespace

import msgspec
import pytest
from nbgrader.api import Gradebook

from autograder.instructor.__main__ import main
from autograder.instructor.classroom.rebuilding import REGRADE_PREFIX, SHOWN_FILE
from autograder.instructor.course import Course
from autograder.instructor.pipeline import Records
from tests.instructor.tiny_class import ASSIGNMENT, scores, tiny_class, wanted

pytestmark = pytest.mark.slow

STUDENT = "student-01"


def as_it_was(root):
    """Keep what is in the records as the version before kept it, and no records."""
    course = Course(root)
    records = Records(course.records)
    for student, assignment in list(records.all()):
        record = records.get(student, assignment)
        assert record is not None
        folder = course.autograded / student / assignment
        found = record.notebooks[assignment]
        (folder / f"{assignment}.evidence.json").write_bytes(bytes(found.evidence))
        (folder / f"{assignment}.verdicts.json").write_bytes(bytes(found.verdicts))
        (folder / f"{assignment}.note").write_text("Cell 3 said much.\n")
        (folder / f"{assignment}.graded").write_bytes(msgspec.json.encode(record.basis))
        (folder / SHOWN_FILE).write_text("0\n0")
        records.path(student, assignment).unlink()


@pytest.fixture
def kept(tmp_path, capsys):
    """A class of three with one score by hand, as it was; an instructor's command in it."""
    root = tiny_class(tmp_path, 3)
    assert main(["--root", str(root), "grade"]) == 0
    with Gradebook(f"sqlite:///{root / 'grading' / 'gradebook.db'}") as book:
        grade = book.find_grade("test", ASSIGNMENT, ASSIGNMENT, STUDENT)
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        comment = book.find_comment("double", ASSIGNMENT, ASSIGNMENT, STUDENT)
        comment.manual_comment = "Well done."
        book.db.commit()
    as_it_was(root)

    def make(*words):
        capsys.readouterr()
        status = main(["--root", str(root), *words])
        return status, " ".join(capsys.readouterr().out.split())

    return SimpleNamespace(root=root, make=make)


@pytest.mark.parametrize("command", ["report", "regrade", "grade", "feedback"])
def test_it_is_taken_over_once_and_nobody_is_graded_again(kept, command):
    status, said = kept.make(command)
    assert status == 0
    assert "3 submissions were graded by an earlier version." in said
    assert "Grading " not in said
    assert scores(kept.root) == wanted(3)
    with Gradebook(f"sqlite:///{kept.root / 'grading' / 'gradebook.db'}") as book:
        grade = book.find_grade("test", ASSIGNMENT, ASSIGNMENT, STUDENT)
        assert (grade.manual_score, bool(grade.needs_manual_grade)) == (1.5, False)
        comment = book.find_comment("double", ASSIGNMENT, ASSIGNMENT, STUDENT)
        assert comment.manual_comment == "Well done."
    folder = kept.root / "grading" / "autograded" / STUDENT / ASSIGNMENT
    assert [path.name for path in folder.iterdir()] == [f"{ASSIGNMENT}.ipynb"]
    record = Records(kept.root / "grading" / "records").get(STUDENT, ASSIGNMENT)
    assert record is not None
    assert record.notebooks[ASSIGNMENT].scores == {"test": 2}
    assert record.notebooks[ASSIGNMENT].notes == ("Cell 3 said much.",)
    assert "earlier version" not in kept.make(command)[1]


@pytest.mark.parametrize("spoil", [REGRADE_PREFIX.encode(), b"graded by nbgrader: ", b"{"])
def test_what_was_to_be_graded_anew_still_is(kept, spoil):
    folder = kept.root / "grading" / "autograded" / STUDENT / ASSIGNMENT
    path = folder / f"{ASSIGNMENT}.graded"
    path.write_bytes(spoil + path.read_bytes())
    _, said = kept.make("grade")
    assert f"Grading 1/1: {STUDENT}, {ASSIGNMENT}" in said
    assert scores(kept.root) == wanted(3)


def test_what_a_student_has_named_like_it_is_not_taken_over(kept):
    folder = kept.root / "grading" / "autograded" / STUDENT / ASSIGNMENT
    (folder / f"{ASSIGNMENT}.graded").unlink()  # which no student's file can be called
    (folder / f"{ASSIGNMENT}.verdicts.json").write_text('[{"exercise":"1.1","earned":1}]')
    _, said = kept.make("grade")
    assert "2 submissions were graded by an earlier version." in said
    assert f"Grading 1/1: {STUDENT}, {ASSIGNMENT}" in said
