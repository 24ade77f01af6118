"""A worker is a function of what was handed in: it needs no course, and leaves none changed."""

import dataclasses
import json
import os
import shutil

import cloudpickle
import pytest

from autograder.instructor import walls
from autograder.instructor.course import Course
from autograder.instructor.nbgrader_plugins import CarefulAutograde
from autograder.instructor.worker import facts_of, outcome, submission_in
from tests.instructor.room import ASSIGNMENT, RIGHT, Classroom

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")

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
    facts = facts_of(CarefulAutograde(coursedir=api.coursedir, parent=api), ASSIGNMENT)
    travelling = cloudpickle.dumps((handed_in, facts))
    shutil.rmtree(room.root)
    return travelling


def test_it_is_graded_where_there_is_no_course(sent):
    handed_in, facts = cloudpickle.loads(sent)
    done = outcome(handed_in, facts)
    assert done.why == ""
    assert done.work is not None
    notebook = json.loads(done.work.notebooks[ASSIGNMENT])
    said = json.dumps(notebook)
    assert "1.1 Column strips: right" in said
    assert "evil.html had to stay away" in "".join(notebook["cells"][0]["source"]).replace(
        "Not everything beside the notebook was taken: ", ""
    )
    evidence = json.loads(done.work.kept[f"{ASSIGNMENT}.evidence.json"])
    assert [case["exercise"] for case in evidence] == ["1.1"]
    assert b"evil.html" in done.work.kept[f"{ASSIGNMENT}.note"]
    assert all(name.startswith(f"{ASSIGNMENT}.") for name in done.work.kept)
    assert f"{ASSIGNMENT}.ipynb" not in done.work.kept
    assert done.work.seconds > 0
    assert STUDENT.encode() not in facts.gradebook


def test_what_cannot_be_read_is_theirs(sent):
    handed_in, facts = cloudpickle.loads(sent)
    done = outcome(dataclasses.replace(handed_in, notebooks={ASSIGNMENT: b'{"cells": ['}), facts)
    assert done.theirs
    assert "NBGRADER_EXECUTION" not in os.environ
    assert "cannot be read as a notebook: its JSON breaks off" in done.why
    assert done.work is None


def raises(*_):
    raise ZeroDivisionError("planted")


@pytest.mark.parametrize("of_ours", ["error", "version", "walls"])
def test_what_is_ours_is_not_theirs_and_no_score(sent, of_ours, monkeypatch):
    handed_in, facts = cloudpickle.loads(sent)
    if of_ours == "error":
        monkeypatch.setattr("autograder.instructor.worker.working.read_apart", raises)
    elif of_ours == "version":
        facts = dataclasses.replace(facts, versions=("another",))
    else:
        monkeypatch.setattr(walls, "works", lambda: False)
    done = outcome(handed_in, facts, walled=True)
    expected = {
        "error": "grading failed. ZeroDivisionError: planted",
        "version": "OtherPackageError: This worker has another version of the package or of JAX",
        "walls": "NoSandboxError: There is no working bubblewrap here",
    }
    assert expected[of_ours] in done.why
    assert not done.theirs
    assert done.work is None
    assert "Traceback" in done.details
