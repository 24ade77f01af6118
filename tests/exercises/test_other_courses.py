"""Exercises of other courses are found through entry points."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from autograder.exercises import other_courses
from autograder.exercises.catalogue import module_of
from tests.conftest import ROOT, some_of

EXERCISES = """
from autograder.exercises import Exercise, PlacedLike

EXERCISES = (Exercise("{id}", "t", (PlacedLike("a", "0 1", ((2,),)),), ("h",)),)
"""


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Install a course: an entry point, and a module with some text."""

    def install(name, value, text):
        (tmp_path / "their_course").mkdir(exist_ok=True)
        (tmp_path / "their_course" / "__init__.py").write_text("")
        (tmp_path / "their_course" / "asked.py").write_text(text)
        (tmp_path / "their_module.py").write_text(text)
        about = tmp_path / "their_course-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-course\nVersion: 1\n")
        (about / "entry_points.txt").write_text(f"[{other_courses.GROUP}]\n{name} = {value}\n")
        return tmp_path

    return install


def python(code, *paths):
    """Return the output of a new Python process, or the last line of its error."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {list(map(str, paths))}\n{code}"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    return done.stdout or done.stderr.strip().splitlines()[-1]


def test_another_courses_exercises_are_found(course):
    path = course("01_theirs", "their_course.asked:EXERCISES", EXERCISES.format(id="their1.1"))
    said = python(
        "from autograder.exercises import NOTEBOOKS, find, folders_of_courses\n"
        "print(find('their1.1').title, list(NOTEBOOKS)[-1], *folders_of_courses())",
        path,
    )
    assert said == f"t 01_theirs {path / 'their_course'}\n"


@pytest.mark.parametrize(
    ("name", "value", "text", "said"),
    some_of([
        ("01_theirs", "their_course.asked:EXERCISES", EXERCISES.format(id="1.1"),
         "Two installed courses both have 1.1. The names of notebooks and exercises must"),
        ("01_sharding_basics", "their_course.asked:EXERCISES", EXERCISES.format(id="their1.1"),
         "Two installed courses both have 01_sharding_basics."),
        ("01_theirs", "their_course.asked:EXERCISES", "1 / 0", "cannot be loaded: division by"),
        ("01_theirs", "their_course.asked:EXERCISES", "EXERCISES = 3", "has to be a tuple of auto"),
        ("01_theirs", "their_course.asked:MORE", "EXERCISES = ()", "cannot be loaded: module"),
    ], 2),
)  # fmt: skip
def test_what_cannot_be_taken_is_said(course, name, value, text, said):
    path = course(name, value, text)
    came = python("import autograder.exercises", path)
    assert "CourseError" in came
    assert said in came


def test_a_course_has_to_be_a_package(course):
    path = course("01_theirs", "their_module:EXERCISES", EXERCISES.format(id="their1.1"))
    came = python("import autograder.exercises as e; e.folders_of_courses()", path)
    assert "'their_module', which 01_theirs of shardlings.exercises names, has to be a" in came


STEPS = """
from autograder.exercises import Computes, Exercise
from autograder.artifacts import Argument
from their_course.conserves import Conserves

GIVEN = (Argument((8,), (("x", 8),), ("x",)),)
EXERCISES = (Exercise("their1.1", "A step", (
    Computes("step", "It must return some numbers.", lambda u: u - u + u, (GIVEN,)),
    Conserves("step"),
), ("h",)),)
"""

JUDGED = """
from shardlings.devices import emulate_devices
emulate_devices(8)
from autograder.evidence import capture
from autograder.exercises import find
from autograder.judge import judge
for step in (lambda u: u, lambda u: 2 * u):
    verdict = judge(find("their1.1"), capture(find("their1.1").plan(1), {"step": step}), 1)
    print([(finding.about, finding.diagnosis) for finding in verdict.findings], verdict.score)
"""


def test_another_course_can_have_a_kind_of_requirement_of_its_own(course):
    path = course("01_theirs", "their_course.asked:EXERCISES", STEPS)
    page = (ROOT / "docs" / "authoring.md").read_text()
    code = page.partition("python aside=heat_course/conserves.py")[2].partition("`" * 3)[0]
    (path / "their_course" / "conserves.py").write_text(code)
    right, wrong = python(JUDGED, path).splitlines()
    assert right == "[('values', ''), ('conservation', '')] 1.0"
    assert "('conservation', 'lost')" in wrong


def test_modules_are_found_by_the_notebooks_name(monkeypatch):
    assert module_of("05_shard_map") == "autograder.exercises.notebooks.nb05_shard_map"
    entry = EntryPoint("01_theirs", "their_course.asked:EXERCISES", other_courses.GROUP)
    monkeypatch.setattr(other_courses, "_entries", lambda: (entry,))
    assert module_of("01_theirs") == "their_course.asked"
