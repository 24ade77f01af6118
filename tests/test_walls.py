"""Imports run one way, and importing the package is cheap: DESIGN.md's walls."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import autograder
from tests.conftest import ROOT

# Each module may import those on the lines above it, and not those on its own line.
LAYERS = [
    ["drawing", "errors", "hlo", "journal", "replica_groups", "tested"],
    ["blame"],
    ["plain"],
    ["flows", "holdings", "inside"],
    ["loops", "reduce_scatter"],
    ["origins"],
    ["collectives"],
    ["cost", "requested"],
    ["communication"],
    ["devices"],
    ["layout"],
    ["difference"],
    ["exercise"],
    ["programs"],
    [
        "exercises.computation_follows_data",
        "exercises.constraints",
        "exercises.neural_networks",
        "exercises.shard_map",
        "exercises.shard_map_matmul",
        "exercises.sharding_basics",
        "exercises.sharp_bits",
    ],
    ["exercises"],
    ["evidence"],
    ["misfits", "verdict"],
    ["capture"],
    ["judge_functions", "judge_layouts"],
    ["judge_programs"],
    ["judge_costs", "judge_requests"],
    ["judge_feeds"],
    ["judge", "tradeoff"],
    ["feedback"],
    ["notebook"],
    ["__init__"],
]
FLOOR = {name: floor for floor, names in enumerate(LAYERS) for name in names}


def name_of(path: Path) -> str:
    """`exercises.sharding_basics` for its file; `exercises` for its `__init__`."""
    parts = path.relative_to(ROOT / "autograder").with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    """The package's own modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{a.name}" for a in node.names} | {node.module}
    mine = {name.removeprefix("autograder.") for name in found if name.startswith("autograder.")}
    own = {name_of(path)}  # a package's modules are named through it
    return {name for name in mine if name in FLOOR or name.startswith("instructor")} - own


STUDENTS = [p for p in (ROOT / "autograder").rglob("*.py") if "instructor" not in p.parts]


@pytest.mark.parametrize("path", STUDENTS, ids=name_of)
def test_imports_run_one_way(path):
    for name in imported(path):
        assert not name.startswith("instructor"), "nothing imports the instructor's half"
        assert FLOOR[name] < FLOOR[name_of(path)], f"{name_of(path)} reaches back to {name}"


def test_every_module_has_its_floor():
    assert {name_of(path) for path in STUDENTS} == set(FLOOR)


def test_importing_starts_no_backend_and_no_server():
    code = (
        "import sys, autograder, jax\n"
        "heavy = {'nbgrader', 'dask', 'jupyter_server', 'matplotlib', 'rich', 'IPython'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "jax.config.update('jax_num_cpu_devices', 3)\n"  # refused once a backend runs
        "print(len(jax.devices()))\n"
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n3\n"


def test_the_names_that_a_notebook_imports():
    assert set(autograder.__all__) == {
        "check", "communication", "emulate_devices", "hint", "progress", "show", "target",
    }  # fmt: skip
    for name in autograder.__all__:
        words = getattr(autograder, name).__doc__
        assert words, f"{name} has no docstring"
        if name != "progress":
            assert "Args:" in words
            assert "Raises:" in words


def test_every_public_name_has_a_docstring():
    bare = []
    for path in (ROOT / "autograder").rglob("*.py"):
        tree = ast.parse(path.read_text())
        if not ast.get_docstring(tree):
            bare.append(str(path))
        inner = {
            id(node)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef)
            for node in ast.walk(function)
            if node is not function
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                public = not node.name.startswith("_") and id(node) not in inner
                if public and not ast.get_docstring(node) and not _is_override(node):
                    bare.append(f"{path.name}: {node.name}")
    assert not bare


def _is_override(node: ast.AST) -> bool:
    """Overloads and properties of a private class speak for themselves."""
    decorators = {ast.unparse(d) for d in getattr(node, "decorator_list", [])}
    return bool(decorators & {"overload", "property"})
