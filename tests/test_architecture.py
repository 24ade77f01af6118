"""Packages, their public APIs, and imports that go one way. See `docs/architecture.md`."""

import ast
import builtins
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import autograder
import shardlings
from tests.conftest import ROOT
from tests.modules import GRADER, LIBRARY, MODULES, PACKAGES, STUDENTS, name_of

COMMANDS = (LIBRARY, GRADER, "__main__", "pytest_plugin", "instructor.__main__")
"""The modules above all packages, which only call them."""


def package_of(module: str) -> str:
    """Return the package of a module: `shardlings.programs` for `shardlings.programs.report`."""
    return module if module in PACKAGES else module.rpartition(".")[0]


def imports(module: str) -> Iterator[tuple[str, str]]:
    """Yield what a module imports of our packages, anywhere: pairs of a module and a name."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in (LIBRARY, GRADER):
                    yield alias.name, ""
        elif isinstance(node, ast.ImportFrom) and is_ours(base := node.module or ""):
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                in_package = inner in MODULES and base in (LIBRARY, GRADER, package_of(module))
                is_module = inner in PACKAGES or in_package
                yield (inner, "") if is_module else (base, alias.name)


def is_ours(module: str) -> bool:
    """Check whether a module is one of ours."""
    return module.partition(".")[0] in (LIBRARY, GRADER)


def public_names(package: str) -> list[str]:
    """Read a package's `__all__` without importing it, since nbgrader may not be installed."""
    for node in ast.parse(MODULES[package].read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


def depends() -> dict[str, set[str]]:
    """Return the packages that each package imports from; subpackages belong to their package.

    Modules that are in no package count as packages, and so do the two at the top.
    """

    def box(module: str) -> str:
        """The box in the diagram; no package has the same name in both."""
        top, *parts = module.split(".")
        return ".".join(parts[:2] if parts[:1] == ["instructor"] else parts[:1]) or top

    graph: dict[str, set[str]] = {}
    for module in MODULES:
        targets = graph.setdefault(box(module), set())
        targets |= {box(other) for other, _ in imports(module)} - {box(module)}
    # importing one of the two itself only serves to find its folder
    return {package: targets - {LIBRARY, GRADER} for package, targets in graph.items()}


def needed(graph: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Return the arrows that do not follow from others."""
    below: dict[str, set[str]] = {}
    for package in TopologicalSorter(graph).static_order():
        below[package] = {far for near in graph[package] for far in {near, *below[near]}}
    return {
        (package, near)
        for package, targets in graph.items()
        for near in targets
        if not any(near in below[other] for other in targets)
    }


def private_imports(module: str) -> Iterator[str]:
    """Yield what a module imports from another package that is not in that package's API."""
    importer = package_of(module)
    for other, name in imports(module):
        package = package_of(other)
        if (
            importer == package
            or importer.startswith(f"{package}.")
            or (importer not in (LIBRARY, GRADER) and other.startswith(f"{importer}."))
        ):
            continue  # the same package, one around it, or one in it
        if other not in PACKAGES and package not in (LIBRARY, GRADER):
            yield f"{module} imports {other}: import from {package} instead"
        elif name and other in PACKAGES and name not in public_names(other):
            yield f"{module} imports {name}: it is not in the __all__ of {other}"


def test_packages_import_only_public_names_of_each_other():
    private = [found for module in MODULES for found in private_imports(module)]
    assert not private, "\n".join(private)


def test_no_two_classes_have_the_same_name():
    classes = [
        node.name
        for path in MODULES.values()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    twice = [name for name, times in Counter(classes).items() if times > 1]
    assert not twice, f"two classes are named {', '.join(twice)}: rename one of them"


VERBS = re.findall(
    r"\w+",
    """
    add announce assign back begin bind block build calibrate call capture chart check choose clean
    close collect compare compose compile compute configure connect convert copy count decode
    demonstrate derive describe diagnose differentiate display draw emulate encode end enter escape
    explain export extract fill find fingerprint forget format get give grade group hand has hide
    highlight hint hold index insert install is iterate judge keep keeps kill list load lower make
    mark measure move name number observe open override pack parse pickle prepare print prune quote
    read rebuild recall recognise reenter refuse regrade remember remove rename render renew replace
    report restore rewrite run sample scale serialise serve settle share shorten show sort split
    stage start stop suggest swap summarise tabulate take transform try unbind unwrap walk watch
    widen withdraw write
    """,
)
"""The verbs with which functions begin, and `is`, `has` and `keeps` of those that return a bool."""

NOUNS = re.findall(
    r"\w+",
    """
    assembled_arrays assigned_names auto_axes badge before_and_after bytes_with_unit
    calibration_file cell_lines collective_kind communication communication_baseline
    communication_seconds comparison_pictures container_name crash_warning current_basis
    device_colour device_local_picture encoded_verdicts environment failed_outcome failed_verdict
    feedback_page first_line formgrader_policy frame_owner free_port gradebook_file headline
    heat_map_rows inline_parts inset instruction_flops joint_layout
    known_plans last_cell_line last_line live_operations main mesh_picture mime_bundle
    missing_answer modification_times module_elsewhere nested_unknown_fields
    not_a_function not_an_array other_meshes permutation_groups piece_label plain plain_text
    pytest_addoption
    playground pool_size printable progress progress_file ring_steps short_float_types
    solution_seconds spec_entries
    svg_element svg_image svg_number svg_points table_files target template_environment
    text_width time_limit transaction trip_count ungraded_page
    unknown_fields verdict_document verdict_without_evidence version_warning whole_array
    why_no_layout wire_bytes written_files
    """,
)
"""Functions that are named for what they return, because the field has a noun for it."""

FORMS = re.compile(r"(as|to|from|in|with|without|on)_|.*_(as|in|of|for|per|on|to|along|at)(_|$)")
"""The names of functions that return something in another form: `blocks_as_html`."""


def test_functions_begin_with_a_verb():
    functions = [
        node.name
        for path in MODULES.values()
        if "notebooks" not in path.parts  # what exercises ask for may have any name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    named_otherwise = {
        name
        for name in functions
        if name.partition("_")[0] not in VERBS and not FORMS.match(name) and name not in NOUNS
    }
    assert not named_otherwise, "begin with a verb, or add a new one to VERBS in this file"
    assert set(NOUNS) <= set(functions), "NOUNS in this file has functions that are gone"


PREPOSITIONS = re.findall(
    r"\w+",
    """
    along as_ at beside between beyond by for_ from_ in_ into of off on onto per to under via with_
    within without
    """,
)
"""Names that do not say which thing they are; `over` is a parameter of the library."""


def test_no_variable_is_named_by_a_bare_preposition():
    named = [
        f"{module}: {name}"
        for module, path in MODULES.items()
        if not module.startswith(f"{GRADER}.exercises.notebooks")  # of many a short function
        for node in ast.walk(ast.parse(path.read_text()))
        for name in bound_names(node)
        if name in PREPOSITIONS
    ]
    assert not named, "\n".join(["give these the name of a thing:", *named])


def bound_names(node: ast.AST) -> list[str]:
    """Return the name that a node of a syntax tree binds to a value: of a variable or parameter."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return [name]
    return []


def test_imports_between_modules_have_no_cycle():
    graph = {m: {other for other, _ in imports(m)} - {m} for m in MODULES if m not in PACKAGES}
    graph = {m: {other for other in others if other in graph} for m, others in graph.items()}
    assert list(TopologicalSorter(graph).static_order())


def test_student_modules_import_nothing_from_instructor():
    for path in STUDENTS:
        below = [m for m, _ in imports(name_of(path)) if m.startswith(f"{GRADER}.instructor")]
        assert not below, f"{path} runs on a student's machine, which has no nbgrader"


def test_the_library_knows_nothing_of_the_grader():
    for module in MODULES:
        if module.partition(".")[0] == LIBRARY:
            above = [m for m, _ in imports(module) if m.partition(".")[0] == GRADER]
            assert not above, f"{module} is in the library, which is below: move one of them"


def test_the_library_is_tested_without_the_grader():
    tests = sorted((ROOT / "tests" / LIBRARY).rglob("*.py"))
    assert tests
    of_the_grader = re.compile(rf"^\s*(?:from|import) {GRADER}\b", re.MULTILINE)
    assert [path.name for path in tests if of_the_grader.search(path.read_text())] == []


def test_the_modules_of_a_grading_kernel_import_neither_exercises_nor_judge():
    for path in STUDENTS:
        module = name_of(path)
        hidden = (f"{GRADER}.exercises", f"{GRADER}.judge")
        if module == f"{GRADER}.notebook" or module.startswith(hidden):
            continue
        absent = {m for m, _ in imports(module) if m.startswith(hidden)}
        assert not absent, f"{path} runs in grading kernels, where solutions must not be"


def test_the_diagram_shows_the_imports_between_packages():
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawn = set(re.findall(r"^\s*([\w.]+) --> ([\w.]+)$", page, re.MULTILINE))
    wanted = needed({p: targets for p, targets in depends().items() if p not in COMMANDS})
    names = {a.removeprefix("instructor."): a for pair in wanted for a in pair}
    assert {(names[a], names[b]) for a, b in drawn} == wanted, (
        "change the diagram in docs/architecture.md, or the imports: they differ"
    )


def test_the_docstring_of_a_package_says_what_goes_in_and_out():
    docstrings = {p: ast.get_docstring(ast.parse(MODULES[p].read_text())) or "" for p in PACKAGES}
    silent = [p for p, text in docstrings.items() if not {"In:", "Out:"} <= set(text.split())]
    assert set(silent) == {*COMMANDS[:2], f"{GRADER}.instructor"}, (
        "write In: and Out: into each package's docstring"
    )


def test_tests_mirror_the_packages():
    tests = {p.parent.relative_to(ROOT / "tests") for p in (ROOT / "tests").rglob("test_*.py")}
    subpackages = f"{LIBRARY}.programs."  # which are tested together
    packages = {
        p.removeprefix(f"{GRADER}.").replace(".", "/")
        for p in PACKAGES - {GRADER, f"{GRADER}.instructor", f"{GRADER}.exercises.notebooks"}
        if not p.startswith(subpackages)
    }
    others = {".", "instructor", "playground"}  # the last is a page of the website
    assert {str(folder) for folder in tests} - others == packages, (
        "a package's tests are in the folder of its name below tests/"
    )


def test_no_module_of_tests_imports_a_test_module():
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                base = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                modules = [f"{base}{alias.name}" for alias in node.names]
                tests = [name for name in modules if re.match(r"tests\..*\btest_", name)]
                assert not tests, f"{path} imports {tests}: share it in a module like room.py"


def test_importing_starts_no_backend_and_imports_nothing_heavy():
    code = (
        "import sys, autograder, shardlings, jax\n"
        "heavy = {'nbgrader', 'dask', 'jupyter_server', 'matplotlib', 'rich', 'IPython',"
        "         'jinja2'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "jax.config.update('jax_num_cpu_devices', 3)\n"  # refused once a backend runs
        "print(len(jax.devices()))\n"
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n3\n", "import it inside the function that needs it"


def test_a_test_run_that_needs_nothing_of_the_library_imports_no_jax():
    code = (
        "import sys, shardlings.pytest_plugin\n"
        "print('jax' in sys.modules, set(shardlings.__all__) <= set(dir(shardlings)))\n"
        "from shardlings import communication, emulate_devices, playground, read_dump, show\n"
        "print(communication.__name__, 'jax' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\ncommunication True\n"
    with pytest.raises(AttributeError, match="has no attribute 'comunication'"):
        shardlings.comunication  # noqa: B018


def test_importing_instructor_does_not_import_lark():
    """`jsonschema` would use it to build parsers that nothing needs, which takes a second."""
    code = (
        "import sys, autograder.instructor, nbformat\n"
        "print({'jsonschema', 'lark'} & set(sys.modules))\n"
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "{'jsonschema'}\n"


def test_the_names_that_a_notebook_imports():
    library = {"communication", "emulate_devices", "playground", "read_dump", "show"}
    assert set(shardlings.__all__) == library
    assert set(autograder.__all__) == {"check", "hint", "on_processes", "progress", "target"}
    public = [(top, name) for top in (shardlings, autograder) for name in top.__all__]
    for top, name in public:
        words = getattr(top, name).__doc__
        assert words, f"{name} has no docstring"
        if name != "progress":
            assert "Args:" in words
            assert "Raises:" in words


def test_every_public_name_has_a_docstring():
    undocumented = []
    for path in MODULES.values():
        tree = ast.parse(path.read_text())
        if not ast.get_docstring(tree):
            undocumented.append(str(path))
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
                    undocumented.append(f"{path.name}: {node.name}")
    assert not undocumented, "write a docstring, or begin the name with an underscore"


ATTRIBUTE = re.compile(r"^    (\w+(?:, \w+)*): ", re.MULTILINE)


@pytest.mark.parametrize("name", MODULES)
def test_attributes_that_a_docstring_describes_are_those_of_the_class(name):
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if not isinstance(node, ast.ClassDef):
            continue
        _, _, text = (ast.get_docstring(node) or "").partition("Attributes:\n")
        text, _, _ = text.partition("\n\n")
        described = {each for names in ATTRIBUTE.findall(text) for each in names.split(", ")}
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        names |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
        names |= {each.name for each in ast.walk(node) if isinstance(each, ast.FunctionDef)}
        assert described <= names, f"{node.name} has no {described - names}"


def _is_override(node: ast.AST) -> bool:
    """Check for overloads and properties, which need no docstring of their own."""
    decorators = {ast.unparse(d) for d in getattr(node, "decorator_list", [])}
    return bool(decorators & {"overload", "property"})


CALLED = re.compile(r"(?<![\w.'\"])([A-Z][a-z]\w+)\(")
"""A class that an example calls, such as `RunsFast(`."""


def test_the_classes_that_examples_call_exist():
    known, called = set(dir(builtins)), dict[str, str]()
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.ClassDef():
                    known.add(node.name)
                case ast.alias():
                    known.add((node.asname or node.name).rpartition(".")[2])
                case ast.Attribute():
                    known.add(node.attr)
                case ast.Constant(value=str() as words):
                    called |= dict.fromkeys(CALLED.findall(words), name)
    assert {"RunsFast", "RequestedCollective"} <= set(called)
    assert {word: module for word, module in called.items() if word not in known} == {}


def test_every_module_is_linted():
    """A folder that is excluded by name may have namesakes: there are two of `course/`."""
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed")
    done = subprocess.run(
        [ruff, "check", "--show-files", "."], cwd=ROOT, capture_output=True, text=True, check=True
    )
    linted = {Path(line) for line in done.stdout.splitlines()}
    folders = (LIBRARY, GRADER, "tests")
    modules = {path for folder in folders for path in (ROOT / folder).rglob("*.py")}
    assert not modules - linted, "pyproject.toml excludes modules from ruff"
