"""What the course's own notebooks compiled: kernels find it, learn nothing, and leave nothing."""

import os
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from traitlets.config import Config

from autograder.instructor.authoring import answered
from autograder.instructor.calibration import calibrate
from autograder.instructor.course import Course
from autograder.instructor.pipeline import compiled_before, keep_compiled
from tests.instructor.room import ASSIGNMENT, RIGHT, Classroom

pytestmark = pytest.mark.bubblewrap

SECRET = """
import jax
def secret_of_the_solution(x):
    return x + 41
jax.block_until_ready(jax.jit(secret_of_the_solution)(x))
"""

LISTENS = """
from jax import monitoring
heard = []
monitoring.register_event_listener(lambda name, **_: heard.append(name.rsplit("/", 1)[-1]))
"""

COMPILES = """
import jax
def mine(x):
    return 3 * x - 17
print(jax.jit(mine)(4), heard.count("cache_hits") > 0)
"""

MEDDLES = """
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
    """A course whose solution compiles something that has a name, and a class of one."""
    room = Classroom.at(tmp_path_factory.mktemp("course"), until="1.1", calibrated=False)
    path = room.root / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    notebook = nbformat.read(path, 4)
    names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
    cell = notebook.cells[names.index("ex-1-1")]
    cell.source = cell.source.replace("### END SOLUTION", f"{SECRET}### END SOLUTION")
    nbformat.write(notebook, path)
    room.nbgrader("generate_assignment", ASSIGNMENT, "--create", "--force")
    handed_in = answered(room.released(), {"1.1": RIGHT["1.1"]})
    handed_in.cells.insert(2, new_code_cell(LISTENS))
    handed_in.cells += [new_code_cell(COMPILES), new_code_cell(MEDDLES)]
    room.hand_in_notebook("mallory", handed_in)
    api = Course(room.root).api
    calibrate(api.coursedir, api.config, ASSIGNMENT)
    return room


@pytest.fixture(scope="module")
def folder(room):
    (folder,) = (room.root / "grading" / "cache" / ASSIGNMENT).iterdir()
    return folder


@pytest.fixture(scope="module")
def graded(room, folder):
    """The graded notebook, and what there was of what is compiled before and after."""
    there = contents(folder)
    room.nbgrader("autograde", ASSIGNMENT)
    return room.graded("mallory"), there, contents(folder)


def test_a_kernel_finds_what_was_compiled_and_says_nothing_where_it_does_not(graded):
    *_, compiles, _ = graded[0].cells
    assert [o.get("text") for o in compiles.outputs] == ["-5 True\n"]


def test_a_kernel_writes_nothing_there(graded):
    notebook, before, after = graded
    said = "".join(o.get("text", "") for o in notebook.cells[-1].outputs)
    assert said.count("Read-only file system") >= 2
    assert before == after


def test_a_kernel_sees_nothing_that_the_solution_compiled(graded, folder):
    said = "".join(o.get("text", "") for o in graded[0].cells[-1].outputs)
    assert "jit_" in said
    assert "secret" not in said
    held = b"".join(contents(folder / "kernels").values())
    assert not any("secret" in name.name for name in contents(folder))
    assert held


def test_a_grade_is_the_same_where_nothing_was_compiled_before(room, graded, folder):
    score, verdicts = room.scores()["mallory"], room.verdicts("mallory")
    folder.rename(folder.with_name("away"))
    room.nbgrader("autograde", ASSIGNMENT, "--force")
    folder.with_name("away").rename(folder)
    assert room.scores()["mallory"] == score == {"1.1": 1}
    assert room.verdicts("mallory") == verdicts


def test_it_belongs_to_one_kind_of_machine(room, folder, monkeypatch):
    config = Course(room.root).api.config
    assert compiled_before(config, ASSIGNMENT) == str(folder)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0")
    assert compiled_before(config, ASSIGNMENT) == ""


def test_a_jax_that_warns_of_each_program_that_it_finds_has_none(tmp_path, monkeypatch):
    keep_compiled(filled(tmp_path), tmp_path, ASSIGNMENT, "state")
    assert (tmp_path / "grading" / "cache" / ASSIGNMENT).exists()
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.8.2")
    keep_compiled(filled(tmp_path), tmp_path, "other", "state")
    assert not (tmp_path / "grading" / "cache" / "other").exists()


def is_anybodys(root, _):
    root.chmod(0o777)


def is_in_a_folder_of_anybodys(_, folder):
    folder.parent.chmod(0o757)


def has_a_part_that_is_anybodys(_, folder):
    (folder / "judges").chmod(0o777)


def has_a_program_that_is_anybodys(_, folder):
    (folder / "judges" / "jit_f-0-cache").touch()
    (folder / "judges" / "jit_f-0-cache").chmod(0o666)


def has_a_program_that_is_a_link(_, folder):
    (folder / "judges" / "jit_f-0-cache").symlink_to("elsewhere")


def is_a_link(_, folder):
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


def is_somebody_elses(root, _):
    os.chown(root / "grading", 12345, 12345)


@pytest.mark.parametrize(
    "spoil",
    [
        is_anybodys,
        is_in_a_folder_of_anybodys,
        has_a_part_that_is_anybodys,
        has_a_program_that_is_anybodys,
        has_a_program_that_is_a_link,
        is_a_link,
        pytest.param(
            is_somebody_elses,
            marks=pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away"),
        ),
    ],
)
def test_machine_code_that_somebody_else_could_have_put_there_is_not_loaded(
    tmp_path, monkeypatch, spoil
):
    known = type("Known", (), {"fingerprint": "state"})
    module = sys.modules[keep_compiled.__module__]
    monkeypatch.setattr(module, "remembered", lambda file: known)
    keep_compiled(filled(tmp_path), tmp_path, ASSIGNMENT, "state")
    config = Config({"CourseDirectory": {"root": str(tmp_path)}})
    (folder,) = (tmp_path / "grading" / "cache" / ASSIGNMENT).iterdir()
    assert compiled_before(config, ASSIGNMENT) == str(folder)
    spoil(tmp_path, folder)
    assert compiled_before(config, ASSIGNMENT) == ""


def filled(folder):
    (folder / "filled" / "judges").mkdir(parents=True, exist_ok=True)
    return folder / "filled"
