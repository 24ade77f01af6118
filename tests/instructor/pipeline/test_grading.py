"""A worker is a function of what was handed in: it needs no course, and leaves none changed."""

import dataclasses
import json
import os
import shutil

import cloudpickle
import pytest

from autograder.instructor.course import Course
from autograder.instructor.pipeline import State, facts_of, grade, submission_in
from tests.helpers import pretend_bubblewrap
from tests.instructor.room import ASSIGNMENT, RIGHT, Classroom

STUDENT = "hypatia"
"""Whose name is looked for in bytes, so it has letters that no hexadecimal id can have."""


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """A submission and its assignment's facts, as they travel; the course that they are of is gone.

    Beside the notebook lie a forged file of evidence, and a page.
    """
    room = Classroom.at(tmp_path_factory.mktemp("course") / "here", until="1.1")
    course = Course(room.root)
    course.release(ASSIGNMENT)
    path = room.hand_in(STUDENT, {"1.1": RIGHT["1.1"]})
    path.with_name(f"{ASSIGNMENT}.evidence.json").write_text("[]")
    path.with_name("evil.html").write_text("<script>")
    api = course.api
    handed_in = submission_in(path.parent, STUDENT, ASSIGNMENT, [ASSIGNMENT], [])
    facts = facts_of(api.coursedir, api.config, ASSIGNMENT)
    travelling = cloudpickle.dumps((handed_in, facts))
    shutil.rmtree(room.root)
    return travelling


def test_it_is_graded_where_there_is_no_course(sent):
    handed_in, facts = cloudpickle.loads(sent)
    done = grade(handed_in, facts)
    assert done.record.state is State.GRADED, done.record.why
    notebook = json.loads(done.notebooks[ASSIGNMENT])
    said = json.dumps(notebook)
    assert "1.1 Column strips: right" in said
    assert "evil.html had to stay away" in "".join(notebook["cells"][0]["source"]).replace(
        "Not everything beside the notebook was taken: ", ""
    )
    found = done.record.notebooks[ASSIGNMENT]
    assert [case.exercise for case in found.cases()] == ["1.1"]
    assert [*found.verdicts_by_exercise()] == ["1.1"]
    assert found.scores == {"ex-1-1-check": 1}
    assert "evil.html" in found.notes[0]
    assert done.record.seconds > 0
    assert STUDENT.encode() not in facts.gradebook


def test_what_cannot_be_read_is_theirs(sent):
    handed_in, facts = cloudpickle.loads(sent)
    done = grade(dataclasses.replace(handed_in, notebooks={ASSIGNMENT: b'{"cells": ['}), facts)
    assert done.record.state is State.BROKEN
    assert "NBGRADER_EXECUTION" not in os.environ
    assert "cannot be read as a notebook: its JSON breaks off" in done.record.why
    assert not done.notebooks


def raises(*_):
    raise ZeroDivisionError("planted")


@pytest.mark.parametrize("of_ours", ["error", "version", "no sandbox"])
def test_what_is_ours_is_not_theirs_and_no_score(sent, of_ours, monkeypatch):
    handed_in, facts = cloudpickle.loads(sent)
    if of_ours == "error":
        monkeypatch.setattr("autograder.instructor.pipeline.grading.read_apart", raises)
    elif of_ours == "version":
        facts = dataclasses.replace(facts, versions=("another",))
    else:
        pretend_bubblewrap(monkeypatch, False)
    done = grade(handed_in, facts, sandboxed=True)
    expected = {
        "error": "grading failed. ZeroDivisionError: planted",
        "version": "OtherPackageError: This worker has another version of the package or of JAX",
        "no sandbox": "NoSandboxError: Nothing is graded, because there is no working bubblewrap",
    }
    assert expected[of_ours] in done.record.why
    assert done.record.state is State.FAILED
    assert done.is_final == (of_ours == "error")
    assert not done.record.notebooks
    assert "Traceback" in done.details
