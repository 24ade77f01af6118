"""Records that cannot be read, and files beside a graded notebook that are called like one."""

import io
import tracemalloc
from concurrent.futures import Executor, Future
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from rich.console import Console

from autograder.evidence import Evidence, Unanswered, to_json
from autograder.exercises import find
from autograder.instructor.classroom import regrading, stale_grades
from autograder.instructor.classroom.workers import Pool
from autograder.instructor.course import Course
from autograder.instructor.pipeline import GradedNotebook, Record, Records, State, record
from autograder.instructor.sandbox import Case
from autograder.judge import verdict_without_evidence

ASSIGNMENT = "04_communication_cost"


@pytest.fixture
def course(tmp_path):
    """Two submissions of which evidence was kept."""
    course = Course(tmp_path)
    for student in ("bob", "cleo"):
        folder = course.autograded / student / ASSIGNMENT
        folder.mkdir(parents=True)
        (folder / f"{ASSIGNMENT}.ipynb").write_text("{}")
        case = Case("4.8", to_json(Evidence("4.8", {"layout": Unanswered()})), 1)
        found = GradedNotebook(evidence=msgspec.Raw(msgspec.json.encode((case,))))
        kept = Record(State.GRADED, notebooks={ASSIGNMENT: found})
        Records(course.records).write(student, ASSIGNMENT, kept)
    return course


def read_kept_evidence(course):
    """Return the students whose evidence can be read, and the output about the others."""
    said = Console(file=io.StringIO(), width=200)
    students = [student for student, _ in regrading.find_kept_evidence(course, said)]
    assert isinstance(said.file, io.StringIO)
    return students, " ".join(said.file.getvalue().split())


@pytest.mark.parametrize("name", [".e.json", "records.json", f"{ASSIGNMENT}.evidence.json"])
def test_what_a_student_calls_evidence_is_not_read(course, name):
    folder = course.autograded / "cleo" / ASSIGNMENT
    for written in (b"[]", b"[" * 20_000):
        (folder / name).write_bytes(written)
        assert read_kept_evidence(course) == (["bob", "cleo"], "")


DAMAGED = {
    "nested": (b'{"state":"graded","notebooks":{"n":{"scores":' + b"[" * 20_000, ""),
    "cut off": (b'{"state":"graded"', "Input data was truncated"),
    "another form": (b'{"state":"graded","format_version":2}', "Invalid enum value 2"),
    "another state": (b'{"state":"splendid"}', "Invalid enum value 'splendid'"),
    "large": (b"{}", "is larger than 1 bytes"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_record_that_is_damaged_costs_nobody_else(course, monkeypatch, damage):
    written, why = DAMAGED[damage]
    Records(course.records).path("cleo", ASSIGNMENT).write_bytes(written)
    if damage == "large":
        monkeypatch.setattr(record, "MAX_RECORD_BYTES", 1)
        assert read_kept_evidence(course)[0] == []
        return
    students, said = read_kept_evidence(course)
    assert (
        f"cleo, {ASSIGNMENT} is not judged again: {ASSIGNMENT}.json cannot be read: {why}" in said
    )
    assert students == ["bob"]
    assert Records(course.records).get("cleo", ASSIGNMENT) is None


def test_new_verdicts_are_kept_where_another_version_wrote_those_of_before():
    exercise = find("4.8")
    case = Case("4.8", to_json(Evidence("4.8", {"layout": Unanswered()})), 1)
    evidence = msgspec.Raw(msgspec.json.encode((case,)))
    before = GradedNotebook(verdicts=msgspec.Raw(b"[{}]"), evidence=evidence)
    other = GradedNotebook()
    record_of = Record(State.GRADED, notebooks={ASSIGNMENT: before, "other": other})
    new = verdict_without_evidence(exercise, "no-evidence", "There is none.")
    after = stale_grades._with_verdicts(record_of, [new])
    assert after.notebooks[ASSIGNMENT].verdicts_by_exercise() == {"4.8": new}
    assert after.notebooks["other"].verdicts_by_exercise() == {}


def test_looking_at_a_class_keeps_no_evidence_in_memory(course):
    large = GradedNotebook(evidence=msgspec.Raw(b'["' + b"0" * 2**20 + b'"]'))
    students = [f"student-{number}" for number in range(20)]
    for student in students:
        kept = Record(State.GRADED, notebooks={ASSIGNMENT: large})
        Records(course.records).write(student, ASSIGNMENT, kept)
    records = Records(course.records)
    tracemalloc.start()
    try:
        assert not any(records.is_marked(student, ASSIGNMENT) for student in students)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2**20


class LateExecutor(Executor):
    """An executor whose calls end when somebody waits for the first of them."""

    def __init__(self):
        self.waiting: list[LateFuture] = []
        self.most = 0

    def submit(self, function, /, *arguments, **named):
        future = LateFuture(self)
        self.waiting.append(future)
        self.most = max(self.most, len(self.waiting))
        return future


class LateFuture(Future[Any]):
    """A future that its executor fills when it is asked."""

    def __init__(self, executor):
        super().__init__()
        self.executor = executor

    def result(self, timeout=None):
        self.executor.waiting.remove(self)
        return []


def test_evidence_is_read_when_its_turn_to_be_judged_comes(course, monkeypatch):
    for number in range(20):
        student = f"student-{number}"
        folder = course.autograded / student / ASSIGNMENT
        folder.mkdir(parents=True)
        (folder / f"{ASSIGNMENT}.ipynb").write_text("{}")
        kept = Records(course.records).get("bob", ASSIGNMENT)
        assert kept is not None
        Records(course.records).write(student, ASSIGNMENT, kept)
    monkeypatch.setattr(stale_grades, "enter_regraded", lambda *_: False)
    monkeypatch.setattr(Course, "api", SimpleNamespace(config=None))
    bases: Any = SimpleNamespace(for_assignment=lambda _: SimpleNamespace(points={}))
    executor, pairs = LateExecutor(), list(Records(course.records).all())
    judged = list(stale_grades.judge_again(course, bases, pairs, Pool(executor, lambda: 2)))
    assert judged == [stale_grades.JudgedAgain(*pair, is_new=False) for pair in pairs]
    assert executor.most == 5  # two for each worker, and the one that is read
