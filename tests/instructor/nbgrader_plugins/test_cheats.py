"""A submission with no right answer scores nothing, whatever else it does."""

import json
import textwrap

import pytest

from autograder import evidence
from autograder.evidence import Contents, Evidence, MeshGrid, Placement
from tests.conftest import some_of
from tests.instructor.room import ASSIGNMENT, LAST, RIGHT, SHORT, Classroom

CHEATS = {
    "blanks_later_cells": """
        def blank(lines):
            return [] if any("check(" in line for line in lines) else lines
        get_ipython().input_transformers_cleanup.append(blank)
    """,
    "strips_asserts": """
        import ast
        class Strip(ast.NodeTransformer):
            def visit_Assert(self, node):
                return ast.Pass()
            def visit_Raise(self, node):
                return ast.Pass()
        get_ipython().ast_transformers.append(Strip())
    """,
    "replaces_check": """
        import autograder, autograder.notebook
        autograder.check = autograder.notebook.check = lambda *_, **__: None
        check = autograder.check
        get_ipython().events.register(
            "pre_run_cell", lambda *_: get_ipython().user_ns.update(check=lambda *_, **__: None))
    """,
    "replaces_the_module": """
        import sys, types
        fake = types.ModuleType("autograder")
        fake.check = lambda *_, **__: 100
        fake.show = fake.hint = fake.progress = fake.target = lambda *_, **__: None
        fake.emulate_devices = lambda n: []
        for name in [n for n in sys.modules if n.startswith("autograder")]:
            sys.modules[name] = fake
        sys.modules["autograder"] = fake
    """,
    "makes_everything_equal": """
        import numpy, jax, shardlings.layouts, shardlings.layouts.differences as differences
        numpy.allclose = numpy.array_equal = lambda *_, **__: True
        jax.sharding.NamedSharding.__eq__ = lambda *_: True
        jax.sharding.NamedSharding.is_equivalent_to = lambda *_: True
        shardlings.layouts.Layout.__eq__ = lambda *_: True
        shardlings.layouts.find_difference = differences.find_difference = lambda *_: None
    """,
    "judges_itself": """
        import os, autograder.notebook as n
        from autograder.evidence import plans
        plans._given = None
        os.environ.pop("NBGRADER_EXECUTION", None)
        n.judge = lambda *_: None
    """,
    "forges_outputs": """
        from IPython.display import display, HTML
        def forge(*_):
            display({"text/plain": "1000"}, raw=True)
            display(HTML("<b>1.1 Column strips: right</b>"))
            for i in ("1.1", "1.2"):
                display({"application/vnd.shardlings.evidence+json":
                         {"exercise": i, "answers": {}, "score": 1, "state": "right"}}, raw=True)
                display({"application/vnd.shardlings.verdict+json":
                         {"exercise": i, "findings": [], "score": 1}}, raw=True)
            get_ipython().displayhook(1000)
            print("1000.0")
        get_ipython().events.register("post_run_cell", forge)
    """,
    "returns_points": """
        import builtins
        get_ipython().events.register(
            "pre_run_cell", lambda *_: get_ipython().user_ns.update(check=lambda *_, **__: 3))
    """,
}


def forged_placements():
    """Evidence of the right form, made by hand, for layouts that nobody was asked for."""
    everywhere = Placement(
        MeshGrid((8,), tuple(range(8)), ("x",)), (None, None),
        Contents((16, 16), "float32", bytes(1024)),
    )  # fmt: skip
    made = [
        evidence.to_json(Evidence(exercise, {answer: everywhere}))
        for exercise, answer in (("1.1", "columns"), ("1.2", "blocks"))
    ]
    return f"""
from IPython.display import display
import json
pieces = json.loads({json.dumps(json.dumps(made))})
def forge(*_):
    for piece in pieces:
        display({{{evidence.MIME_TYPE!r}: piece}}, raw=True)
get_ipython().events.register("post_run_cell", forge)
"""


PLACES = some_of(["at_the_top", "late"], at_least=1)


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """All the cheats in one class, and an honest student among them."""
    room = Classroom.at(tmp_path_factory.mktemp("course"), until=LAST)
    room.nbgrader("generate_assignment", ASSIGNMENT, "--force")
    for name, code in ((name, textwrap.dedent(CHEATS[name])) for name in CHEATS):
        if "at_the_top" in PLACES:
            room.hand_in(f"{name}_at_the_top", {}, first=code)
        if "late" in PLACES:
            room.hand_in(f"{name}_late", {"1.1": f"columns = x\n{code}"})
    room.hand_in("forges_placements", {}, first=forged_placements())
    room.hand_in("honest", {"1.1": RIGHT["1.1"]})
    _rewrite_metadata(room.hand_in("rewrites_metadata", {"1.1": "columns = x"}))
    _rewrite_checks(room.hand_in("rewrites_checks", {}))
    room.nbgrader("autograde", ASSIGNMENT, "--create")
    return room


def _rewrite_metadata(path):
    """Graded cells that claim to be somebody's to grade by hand, and worth more."""
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        if about.get("grade"):
            about.update(grade=about["grade_id"] != "ex-1-1-check", solution=True, points=1000)
    path.write_text(json.dumps(notebook))


def _rewrite_checks(path):
    notebook = json.loads(path.read_text())
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade"):
            cell["source"] = "pass"
    path.write_text(json.dumps(notebook))


STUDENTS = [
    *(f"{name}_{place}" for name in CHEATS for place in PLACES),
    "forges_placements", "rewrites_metadata", "rewrites_checks",
]  # fmt: skip


@pytest.mark.parametrize("student", STUDENTS)
def test_a_cheat_scores_nothing(room, student):
    assert room.scores()[student] == dict.fromkeys(SHORT, 0)


def test_the_honest_student_beside_them_keeps_the_point(room):
    assert room.scores()["honest"] == {"1.1": 1, "1.2": 0}


@pytest.mark.parametrize("place", PLACES)
def test_a_blanked_check_says_that_nothing_was_handed_in(room, place):
    said = room.verdicts(f"blanks_later_cells_{place}")["ex-1-1-check"]
    assert 'check("1.1", …) did not run, so nothing was handed in.' in said
