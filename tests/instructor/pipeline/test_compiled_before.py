"""The compilation cache: kernels use it, learn nothing from it, and cannot change it."""

import os
import sys
from unittest import mock

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from traitlets.config import Config

from autograder.instructor import calibration
from autograder.instructor.authoring import fill_in_answers
from autograder.instructor.course import Course
from autograder.instructor.pipeline import find_compiled, keep_compiled
from tests.instructor.room import ASSIGNMENT, RIGHT, Classroom

pytestmark = pytest.mark.bubblewrap

SECRET = """
import jax
def secret_of_the_solution(x):
    return x + 41
jax.block_until_ready(jax.jit(secret_of_the_solution)(x))
"""

COUNTS_EVENTS = """
from jax import monitoring
events = []
monitoring.register_event_listener(lambda name, **_: events.append(name.rsplit("/", 1)[-1]))
"""

COMPILES = """
import jax
def mine(x):
    return 3 * x - 17
print(jax.jit(mine)(4), events.count("cache_hits") > 0)
"""

TAMPERS = """
import os
place = jax.config.jax_compilation_cache_dir
print(sorted({name.split("-")[0] for name in os.listdir(place)}))
for name in ("jit_mine-0-cache", os.listdir(place)[0]):
    try:
        open(os.path.join(place, name), "wb").write(b"mine")
    except OSError as error:
        print(error.strerror)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
print(jax.jit(lambda x: mine(x) * 5)(4))
"""


def contents(folder):
    return {f.relative_to(folder): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A course whose solution compiles a function with a known name, and one student."""
    room = Classroom.at(tmp_path_factory.mktemp("course"), until="1.1", calibrated=False)
    path = room.root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    notebook = nbformat.read(path, 4)
    names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
    cell = notebook.cells[names.index("ex-1-1")]
    cell.source = cell.source.replace("### END SOLUTION", f"{SECRET}### END SOLUTION")
    nbformat.write(notebook, path)
    room.nbgrader("generate_assignment", ASSIGNMENT, "--create", "--force")
    handed_in = fill_in_answers(room.released(), {"1.1": RIGHT["1.1"]})
    handed_in.cells.insert(2, new_code_cell(COUNTS_EVENTS))
    handed_in.cells += [new_code_cell(COMPILES), new_code_cell(TAMPERS)]
    room.hand_in_notebook("mallory", handed_in)
    api = Course(room.root).api
    with mock.patch.object(calibration, "find_exposed_answers", return_value=[]):  # it takes long
        calibration.calibrate(api.config, ASSIGNMENT)
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


def test_a_kernel_uses_the_cache_and_prints_no_warning(graded):
    *_, compiles, _ = graded[0].cells
    assert [o.get("text") for o in compiles.outputs] == ["-5 True\n"]


def test_a_kernel_cannot_write_to_the_cache(graded):
    notebook, before, after = graded
    said = "".join(o.get("text", "") for o in notebook.cells[-1].outputs)
    assert said.count("Read-only file system") >= 2
    assert before == after


def test_a_kernel_cannot_see_programs_of_the_solution(graded, folder):
    said = "".join(o.get("text", "") for o in graded[0].cells[-1].outputs)
    assert "jit_" in said
    assert "secret" not in said
    held = b"".join(contents(folder / "kernels").values())
    assert not any("secret" in name.name for name in contents(folder))
    assert held


@pytest.mark.slow
def test_a_grade_is_the_same_without_the_cache(room, graded, folder):
    score, verdicts = room.scores()["mallory"], room.verdicts("mallory")
    folder.rename(folder.with_name("away"))
    room.nbgrader("autograde", ASSIGNMENT, "--force")
    folder.with_name("away").rename(folder)
    assert room.scores()["mallory"] == score == {"1.1": 1}
    assert room.verdicts("mallory") == verdicts


def test_a_cache_is_for_one_kind_of_machine(room, folder, monkeypatch):
    config = Course(room.root).api.config
    assert find_compiled(config, ASSIGNMENT) == str(folder)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0")
    assert find_compiled(config, ASSIGNMENT) == ""


def test_a_jax_that_warns_about_cached_programs_has_no_cache(tmp_path, monkeypatch):
    keep_compiled(filled(tmp_path), tmp_path, ASSIGNMENT, "state")
    (kept,) = (tmp_path / "grading" / "cache").iterdir()
    assert kept.name.startswith(f"{ASSIGNMENT}.")
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.8.2")
    keep_compiled(filled(tmp_path), tmp_path, "other", "state")
    assert [*(tmp_path / "grading" / "cache").iterdir()] == [kept]


def test_a_new_cache_replaces_that_of_the_same_assignment(tmp_path):
    for assignment, state in (("ps1", "first"), ("ps1.2", "first"), ("ps1", "second")):
        keep_compiled(filled(tmp_path), tmp_path, assignment, state)
    kept = sorted(cache.name.split("-")[0] for cache in (tmp_path / "grading" / "cache").iterdir())
    assert kept == ["ps1.2.first", "ps1.second"]


def course_is_world_writable(root, _):
    root.chmod(0o777)


def parent_is_world_writable(_, folder):
    folder.parent.chmod(0o757)


def subfolder_is_world_writable(_, folder):
    (folder / "judges").chmod(0o777)


def program_is_world_writable(_, folder):
    (folder / "judges" / "jit_f-0-cache").touch()
    (folder / "judges" / "jit_f-0-cache").chmod(0o666)


def program_is_a_link(_, folder):
    (folder / "judges" / "jit_f-0-cache").symlink_to("elsewhere")


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
        subfolder_is_world_writable,
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
    keep_compiled(filled(tmp_path), tmp_path, ASSIGNMENT, "state")
    config = Config({"CourseDirectory": {"root": str(tmp_path)}})
    (folder,) = (tmp_path / "grading" / "cache").iterdir()
    assert find_compiled(config, ASSIGNMENT) == str(folder)
    spoil(tmp_path, folder)
    assert find_compiled(config, ASSIGNMENT) == ""


def filled(folder):
    (folder / "filled" / "judges").mkdir(parents=True, exist_ok=True)
    return folder / "filled"
