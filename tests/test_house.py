"""The house: rooms, their faces, and imports that run one way. See `docs/architecture.md`."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import autograder
from tests.conftest import ROOT

COMMANDS = ("autograder", "instructor.__main__")
"""What stands above all rooms, and only calls them."""


def name_of(path: Path) -> str:
    """`judge.costs` for its file, `judge` for the room's face, and nothing for the package's."""
    parts = path.relative_to(ROOT / "autograder").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted((ROOT / "autograder").rglob("*.py"))}
FACES = {name for name, path in MODULES.items() if path.name == "__init__.py"}
STUDENTS = [p for n, p in MODULES.items() if n not in FACES and not n.startswith("instructor")]
"""The modules that a student's kernel runs."""


def room_of(module: str) -> str:
    """The room that a module is in: `programs.compiled` for `programs.compiled.hlo`."""
    return module if module in FACES else module.rpartition(".")[0]


def imports(module: str) -> Iterator[tuple[str, str]]:
    """What a module imports of the package, anywhere in it: pairs of a module and a name."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "autograder":
                    yield alias.name.removeprefix("autograder").removeprefix("."), ""
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("autograder"):
            base = (node.module or "").removeprefix("autograder").removeprefix(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".removeprefix(".")
                whole = inner in FACES or (inner in MODULES and base in ("", room_of(module)))
                yield (inner, "") if whole else (base, alias.name)


def shown_by(face: str) -> list[str]:
    """What a face shows; it is read and not imported, since nbgrader need not be here."""
    for node in ast.parse(MODULES[face].read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


def depends() -> dict[str, set[str]]:
    """For each room, those that it imports from; what is within a room's own rooms is its own.

    The package's two modules that are in no room are rooms here, and so is the package itself.
    """

    def whole(module: str) -> str:
        parts = module.split(".")
        return ".".join(parts[:2] if parts[0] == "instructor" else parts[:1]) or "autograder"

    found: dict[str, set[str]] = {}
    for module in MODULES:
        own = found.setdefault(whole(module), set())
        own |= {whole(other) for other, _ in imports(module)} - {whole(module)}
    # `import autograder` is for the place where the package lies, and for nothing in it
    return {room: rooms - {"autograder"} for room, rooms in found.items()}


def needed(graph: dict[str, set[str]]) -> set[tuple[str, str]]:
    """The arrows that do not follow from others."""
    below: dict[str, set[str]] = {}
    for room in TopologicalSorter(graph).static_order():
        below[room] = {far for near in graph[room] for far in {near, *below[near]}}
    return {
        (room, near)
        for room, rooms in graph.items()
        for near in rooms
        if not any(near in below[other] for other in rooms)
    }


def reaches_past_a_face(module: str) -> Iterator[str]:
    """What a module imports that its own room does not have, and that no face shows."""
    inside = room_of(module)
    for other, name in imports(module):
        room = room_of(other)
        if (
            inside == room
            or inside.startswith(f"{room}.")
            or (inside and other.startswith(f"{inside}."))
        ):
            continue  # its own room, or one that it is in, or that is in it
        if other not in FACES and room:
            yield f"{module} imports {other}: import from {room} instead"
        elif name and other in FACES and name not in shown_by(other):
            yield f"{module} imports {name}: it is not in the __all__ of {other}"


def test_nothing_reaches_past_a_face():
    assert [found for module in MODULES for found in reaches_past_a_face(module)] == []


def test_no_two_classes_have_the_same_name():
    classes = [
        node.name
        for path in sorted((ROOT / "autograder").rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    assert [name for name, times in Counter(classes).items() if times > 1] == []


def test_no_module_imports_itself_in_the_end():
    graph = {m: {other for other, _ in imports(m)} - {m} for m in MODULES if m not in FACES}
    graph = {m: {other for other in others if other in graph} for m, others in graph.items()}
    assert list(TopologicalSorter(graph).static_order())


def test_the_students_half_imports_nothing_of_the_instructors():
    for path in STUDENTS:
        assert not [m for m, _ in imports(name_of(path)) if m.startswith("instructor")]


def test_what_a_grading_kernel_has_does_not_need_the_rest():
    """It has neither exercises nor a judge, so nothing there is imported before it is used."""
    for path in STUDENTS:
        module = name_of(path)
        if module == "notebook" or module.startswith(("exercises.", "judge.")):
            continue
        assert not {m.partition(".")[0] for m, _ in imports(module)} & {"exercises", "judge"}


def test_the_diagram_shows_who_imports_from_whom():
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawn = set(re.findall(r"^\s*([\w.]+) --> ([\w.]+)$", page, re.MULTILINE))
    wanted = needed({r: rooms for r, rooms in depends().items() if r not in COMMANDS})
    names = {a.removeprefix("instructor."): a for pair in wanted for a in pair}
    assert {(names[a], names[b]) for a, b in drawn} == wanted


def test_a_room_says_what_is_in_it():
    words = {r: ast.get_docstring(ast.parse(MODULES[r].read_text())) or "" for r in FACES}
    silent = [r for r, said in words.items() if not {"In:", "Out:"} <= set(said.split())]
    assert set(silent) == {"", "instructor"}, "what comes in and goes out stands in a docstring"


def test_tests_mirror_the_rooms():
    tests = {p.parent.relative_to(ROOT / "tests") for p in (ROOT / "tests").rglob("test_*.py")}
    rooms = {r.replace(".", "/") for r in FACES if "." not in r or r.startswith("instructor.")}
    assert {str(folder) for folder in tests} - {".", "instructor"} == rooms - {"", "instructor"}


def test_importing_starts_no_backend_and_no_server():
    code = (
        "import sys, autograder, jax\n"
        "heavy = {'nbgrader', 'dask', 'jupyter_server', 'matplotlib', 'rich', 'IPython',"
        "         'jinja2'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "jax.config.update('jax_num_cpu_devices', 3)\n"  # refused once a backend runs
        "print(len(jax.devices()))\n"
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n3\n"


def test_no_command_waits_for_parsers_that_nothing_needs():
    """`lark` makes them for `jsonschema`, and takes a second."""
    code = (
        "import sys, autograder.instructor, nbformat\n"
        "print({'jsonschema', 'lark'} & set(sys.modules))\n"
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "{'jsonschema'}\n"


def test_the_names_that_a_notebook_imports():
    assert set(autograder.__all__) == {
        "check", "communication", "emulate_devices", "hint", "on_processes", "progress", "show",
        "target",
    }  # fmt: skip
    for name in autograder.__all__:
        words = getattr(autograder, name).__doc__
        assert words, f"{name} has no docstring"
        if name != "progress":
            assert "Args:" in words
            assert "Raises:" in words


def test_every_public_name_has_a_docstring():
    bare = []
    for path in MODULES.values():
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


def test_every_module_is_linted():
    """A folder that is left out by its name may have namesakes: `course/` has two."""
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is only where everything is tested")
    done = subprocess.run(
        [ruff, "check", "--show-files", "."], cwd=ROOT, capture_output=True, text=True, check=True
    )
    looked_at = {Path(line) for line in done.stdout.splitlines()}
    written = {path for folder in ("autograder", "tests") for path in (ROOT / folder).rglob("*.py")}
    assert not written - looked_at
