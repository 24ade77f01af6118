"""`grade` needs a submission and facts, but no course."""

import dataclasses
import errno
import json
import os
import shutil

import cloudpickle
import pytest
from sqlalchemy.exc import OperationalError

from autograder.instructor.course import Course
from autograder.instructor.course.reading_submissions import ReaderFailedError
from autograder.instructor.nbgrader_plugins.judge_evidence import NotGradedError
from autograder.instructor.pipeline import (
    State,
    collect_facts,
    describe_failure,
    grade,
    read_submission,
)
from autograder.instructor.pipeline.grading import is_transient
from autograder.instructor.sandbox import (
    JudgeFailedError,
    MachineError,
    NoSandboxError,
    NotObservedError,
)
from tests.helpers import pretend_bubblewrap
from tests.instructor.room import ASSIGNMENT, RIGHT, Classroom

STUDENT = "hypatia"
"""A name that is searched for in bytes; some of its letters are not hexadecimal digits."""


@pytest.fixture(scope="module")
def pickled(tmp_path_factory):
    """A pickled submission with its assignment's facts; their course has been deleted.

    Beside the notebook are a forged evidence file and an HTML page.
    """
    room = Classroom.at(tmp_path_factory.mktemp("course") / "here", until="1.1")
    course = Course(room.root)
    course.release(ASSIGNMENT)
    path = room.hand_in(STUDENT, {"1.1": RIGHT["1.1"]})
    path.with_name(f"{ASSIGNMENT}.evidence.json").write_text("[]")
    path.with_name("evil.html").write_text("<script>")
    api = course.api
    submission = read_submission(path.parent, STUDENT, ASSIGNMENT, [ASSIGNMENT], [])
    facts = collect_facts(api.coursedir, api.config, ASSIGNMENT)
    data = cloudpickle.dumps((submission, facts))
    shutil.rmtree(room.root)
    return data


def test_a_submission_is_graded_without_its_course(pickled):
    submission, facts = cloudpickle.loads(pickled)
    done = grade(submission, facts)
    assert done.record.state is State.GRADED, done.record.why
    notebook = json.loads(done.notebooks[ASSIGNMENT])
    said = json.dumps(notebook)
    assert "1.1 Column strips: right" in said
    assert "evil.html had to be left out" in "".join(notebook["cells"][0]["source"]).replace(
        "Not everything beside the notebook was taken: ", ""
    )
    found = done.record.notebooks[ASSIGNMENT]
    assert [case.exercise for case in found.cases()] == ["1.1"]
    assert [*found.verdicts_by_exercise()] == ["1.1"]
    assert found.scores == {"ex-1-1-check": 1}
    assert "evil.html" in found.notes[0]
    assert done.record.seconds > 0
    assert STUDENT.encode() not in facts.gradebook


def test_a_submission_that_is_graded_twice_gets_the_same_verdicts_and_evidence(pickled):
    submission, facts = cloudpickle.loads(pickled)
    first, second = (grade(submission, facts).record.notebooks[ASSIGNMENT] for _ in range(2))
    assert first == second
    (case,) = first.cases()
    others = dataclasses.replace(facts, secret=b"another class's")
    (other,) = grade(submission, others).record.notebooks[ASSIGNMENT].cases()
    assert (other.seed, other.fresh) != (case.seed, case.fresh)


def test_an_unreadable_notebook_is_a_broken_submission(pickled):
    submission, facts = cloudpickle.loads(pickled)
    done = grade(dataclasses.replace(submission, notebooks={ASSIGNMENT: b'{"cells": ['}), facts)
    assert done.record.state is State.BROKEN
    assert "NBGRADER_EXECUTION" not in os.environ
    assert "cannot be read as a notebook: its JSON breaks off" in done.record.why
    assert not done.notebooks


def test_a_variable_of_the_caller_is_as_it_was(pickled, monkeypatch):
    submission, facts = cloudpickle.loads(pickled)
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    grade(dataclasses.replace(submission, notebooks={ASSIGNMENT: b"{"}), facts)
    assert os.environ["NBGRADER_EXECUTION"] == "validate"


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (MemoryError(), True),
        (SystemError("AST constructor recursion depth mismatch"), True),
        (MachineError("The kernel died twice."), True),
        (NoSandboxError("bubblewrap is not there."), True),
        (JudgeFailedError("No judge can start."), True),
        (ReaderFailedError("No notebook can be read."), True),
        (caused(NotGradedError("1.1", "no time"), NotObservedError("no time")), True),
        (OperationalError("SELECT", {}, Exception("database is locked")), True),
        (RuntimeError("can't start new thread"), True),
        (NotGradedError("1.1", "ZeroDivisionError"), False),
        (RuntimeError("planted"), False),
    ],
    ids=repr,
)
def test_only_a_bug_of_ours_is_sure_to_come_again(error, expected):
    assert is_transient(error) == expected


def fail(*_):
    raise ZeroDivisionError("planted")


def test_a_reason_is_one_line_however_long_the_error_is():
    assert describe_failure(OSError("no\nroom\n")) == "grading failed. OSError: no"
    assert describe_failure(KeyError()) == "grading failed. KeyError:"


@pytest.mark.parametrize("our_error", ["error", "version", "no sandbox"])
def test_our_errors_do_not_blame_the_submission(pickled, our_error, monkeypatch):
    submission, facts = cloudpickle.loads(pickled)
    pretend_bubblewrap(monkeypatch, our_error != "no sandbox")
    if our_error == "error":
        monkeypatch.setattr("autograder.instructor.pipeline.grading.read_in_sandbox", fail)
    elif our_error == "version":
        facts = dataclasses.replace(facts, versions=("another",))
    done = grade(submission, facts, sandboxed=True)
    expected = {
        "error": "grading failed. ZeroDivisionError: planted",
        "version": "OtherPackageError: This worker has another version of the package or of JAX",
        "no sandbox": "NoSandboxError: Nothing is graded, because there is no working bubblewrap",
    }
    assert expected[our_error] in done.record.why
    assert done.record.state is State.FAILED
    assert done.is_final == (our_error == "error")
    assert not done.record.notebooks
    assert "Traceback" in done.details
