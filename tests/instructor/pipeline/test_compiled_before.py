"""The compilation cache: judges use it, and kernels see nothing of it."""

import os
import sys
import zlib

import pytest
from nbformat.v4 import new_code_cell
from traitlets.config import Config

from autograder.instructor import calibration
from autograder.instructor.authoring import fill_in_answers
from autograder.instructor.course import Course
from autograder.instructor.pipeline import begin_compiled, find_compiled, keep_compiled
from tests.instructor.room import Classroom, right_answers

pytestmark = pytest.mark.bubblewrap

ASSIGNMENT, EXERCISE = "03_constraints", "3.1"
"""The judge compiles what is answered to it."""

LOOKS = """
import os
import jax
print(jax.config.jax_compilation_cache_dir, os.path.exists("/compiled"), os.path.exists("/caches"))
"""


def contents(folder):
    return {f.relative_to(folder): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A course, and one student who answered an exercise."""
    root = tmp_path_factory.mktemp("course")
    room = Classroom.at(root, ASSIGNMENT, until=EXERCISE, calibrated=False)
    room.nbgrader("generate_assignment", ASSIGNMENT, "--create", "--force")
    right = right_answers(ASSIGNMENT)[EXERCISE]
    handed_in = fill_in_answers(room.released(), {EXERCISE: right})
    handed_in.cells.append(new_code_cell(LOOKS))
    room.hand_in_notebook("mallory", handed_in)
    api = Course(room.root).api
    calibration.calibrate(api.config, ASSIGNMENT, exposed=[])  # to search takes long
    return room


@pytest.fixture(scope="module")
def folder(room):
    (folder,) = (room.root / "grading" / "cache").iterdir()
    return folder


@pytest.fixture(scope="module")
def graded(room, folder):
    """The graded notebook, and the contents of the cache before and after."""
    there = contents(folder)
    room.nbgrader("autograde", ASSIGNMENT)
    return room.graded("mallory"), there, contents(folder)


def test_a_kernel_sees_no_cache(graded):
    notebook, before, after = graded
    assert before
    assert before == after
    assert [o.get("text") for o in notebook.cells[-1].outputs] == ["None False False\n"]


@pytest.mark.slow
def test_a_grade_is_the_same_without_the_cache(room, graded, folder):
    score, verdicts = room.scores()["mallory"], room.verdicts("mallory")
    folder.rename(folder.with_name("away"))
    room.nbgrader("autograde", ASSIGNMENT, "--force")
    folder.with_name("away").rename(folder)
    assert room.scores()["mallory"] == score
    assert score[EXERCISE] > 0
    assert room.verdicts("mallory") == verdicts


def test_a_cache_is_for_one_kind_of_machine(room, folder, monkeypatch):
    config = Course(room.root).api.config
    assert find_compiled(config, ASSIGNMENT) == str(folder)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0")
    assert find_compiled(config, ASSIGNMENT) == ""


def test_nothing_is_kept_of_a_calibration_that_compiled_nothing(tmp_path):
    keep_compiled(begin_compiled(tmp_path, ASSIGNMENT), tmp_path, ASSIGNMENT, "state")
    assert [*(tmp_path / "grading" / "cache").iterdir()] == []


def test_what_an_interrupted_calibration_left_is_not_kept(tmp_path):
    filled(tmp_path, ASSIGNMENT)
    assert [*begin_compiled(tmp_path, ASSIGNMENT).iterdir()] == []


def test_a_new_cache_replaces_that_of_the_same_assignment(tmp_path):
    for assignment, state in (("ps1", "first"), ("ps1.2", "first"), ("ps1", "second")):
        keep_compiled(filled(tmp_path, assignment), tmp_path, assignment, state)
    kept = sorted(cache.name.split("-")[0] for cache in (tmp_path / "grading" / "cache").iterdir())
    assert kept == ["ps1.2.first", "ps1.second"]


def course_is_world_writable(root, _):
    root.chmod(0o777)


def parent_is_world_writable(_, folder):
    folder.parent.chmod(0o757)


def cache_is_world_writable(_, folder):
    folder.chmod(0o777)


def program_is_world_writable(_, folder):
    (folder / "jit_f-0-cache").touch()
    (folder / "jit_f-0-cache").chmod(0o666)


def program_is_a_link(_, folder):
    (folder / "jit_f-0-cache").symlink_to("elsewhere")


def cache_is_a_link(_, folder):
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


def owner_is_another_user(root, _):
    os.chown(root / "grading", 12345, 12345)


@pytest.mark.parametrize(
    "spoil",
    [
        course_is_world_writable,
        parent_is_world_writable,
        cache_is_world_writable,
        program_is_world_writable,
        program_is_a_link,
        cache_is_a_link,
        pytest.param(
            owner_is_another_user,
            marks=pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away"),
        ),
    ],
)
def test_a_cache_that_somebody_else_could_have_written_is_not_used(tmp_path, monkeypatch, spoil):
    known = type("Known", (), {"fingerprint": "state"})
    module = sys.modules[keep_compiled.__module__]
    monkeypatch.setattr(module, "read_calibration", lambda file: known)
    keep_compiled(filled(tmp_path, ASSIGNMENT), tmp_path, ASSIGNMENT, "state")
    config = Config({"CourseDirectory": {"root": str(tmp_path)}})
    (folder,) = (tmp_path / "grading" / "cache").iterdir()
    assert find_compiled(config, ASSIGNMENT) == str(folder)
    spoil(tmp_path, folder)
    assert find_compiled(config, ASSIGNMENT) == ""


def filled(root, assignment):
    made = begin_compiled(root, assignment)
    (made / "jit_g-0-cache").write_bytes(zlib.compress(b"a program"))
    return made
