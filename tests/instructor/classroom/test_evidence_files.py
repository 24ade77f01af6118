"""Files that are called like kept evidence, or hold what nobody could have handed in."""

import io

import msgspec
import pytest
from rich.console import Console

from autograder.evidence import Evidence, Unanswered, to_json
from autograder.instructor.classroom import judging_again, regrading, stale_grades
from autograder.instructor.course import Course
from autograder.instructor.walls import Case

ASSIGNMENT = "04_communication_cost"


@pytest.fixture
def course(tmp_path):
    """Two submissions of which evidence was kept."""
    course = Course(tmp_path)
    for student in ("bob", "cleo"):
        folder = course.autograded / student / ASSIGNMENT
        folder.mkdir(parents=True)
        case = Case("4.8", to_json(Evidence("4.8", {"layout": Unanswered()})), 1)
        (folder / f"{ASSIGNMENT}.evidence.json").write_bytes(msgspec.json.encode((case,)))
    return course


def kept(course):
    """Whose evidence can be read, and what is said of the others'."""
    said = Console(file=io.StringIO(), width=200)
    students = [one.student for one in regrading.kept(course, said)]
    assert isinstance(said.file, io.StringIO)
    return students, " ".join(said.file.getvalue().split())


@pytest.mark.parametrize("name", [".e.evidence.json", "data.evidence.json", ".EVIDENCE.JSON"])
def test_what_a_student_calls_evidence_is_not_read(course, name):
    folder = course.autograded / "cleo" / ASSIGNMENT
    expected = stale_grades._evidence(course, "cleo", ASSIGNMENT)
    for written in (b"[]", b"[" * 20_000):
        (folder / name).write_bytes(written)
        assert kept(course) == (["bob", "cleo"], "")
        assert stale_grades._evidence(course, "cleo", ASSIGNMENT) == expected


@pytest.mark.parametrize(
    ("written", "why"),
    [(b'[{"evidence":' + b"[" * 20_000, "nested too deeply"), (b"[]", "larger than 1 bytes")],
)
def test_evidence_that_no_one_could_have_handed_in_costs_nobody_else(
    course, monkeypatch, written, why
):
    path = course.autograded / "cleo" / ASSIGNMENT / f"{ASSIGNMENT}.evidence.json"
    path.write_bytes(written)
    if written == b"[]":
        monkeypatch.setattr(judging_again, "LARGEST", 1)
    students, said = kept(course)
    assert f"cannot be read: It is {why}" in said
    assert "cleo" not in students
    assert stale_grades._evidence(course, "cleo", ASSIGNMENT) == ()
