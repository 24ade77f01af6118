"""`make exercise ID=…`: write the stubs of a new exercise; find an exercise's cell in a notebook.

An exercise has three parts: an `Exercise` in its notebook's module, cells in the notebook and its
text twin, and entries in the bank. The stubs fail every test until somebody fills them in.
"""

import ast
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.exercises import EXERCISES, NOTEBOOKS, module_of
from autograder.judge import name_cell
from shardlings.errors import ShortError

SOLUTION_BEGIN: Final = "### BEGIN SOLUTION\n"
SOLUTION_END: Final = "### END SOLUTION"

PLACEHOLDER: Final = "(to be written)"
"""Marks text that an author still has to write; a test of the course looks for it."""


class NoSolutionError(LookupError):
    """A notebook has no cell for an exercise; the message names the cell."""


def get_grade_id(cell: Any) -> str:
    """Return nbgrader's name for a cell; empty if it has none."""
    name: str = cell.metadata.get("nbgrader", {}).get("grade_id", "")
    return name


def find_cell(notebook: Any, exercise_id: str) -> Any:
    """Find the cell that a learner fills in.

    Raises:
        NoSolutionError: the notebook has no cell for the exercise.
    """
    name = name_cell(exercise_id)
    for cell in notebook.cells:
        if get_grade_id(cell) == name:
            return cell
    raise NoSolutionError(f"The notebook has no cell {name!r}.")


def extract_solution(source: str) -> str:
    """Return the code between a cell's solution marks."""
    return source.partition(SOLUTION_BEGIN)[2].partition(SOLUTION_END)[0].rstrip()


def remove_solution(source: str) -> str:
    """Return a cell's source without its solution, nearly as learners get it."""
    before, _, rest = source.partition(SOLUTION_BEGIN)
    return f"{before}{rest.partition(SOLUTION_END)[2].lstrip()}".rstrip()


def make_exercise_cells(exercise_id: str) -> list[Any]:
    """Make the cells of a new exercise: a prompt, its target, a cell to fill in, and a check."""
    name = name_cell(exercise_id)
    common = {"schema_version": 3, "task": False}
    to_fill_in = {"grade": False, "grade_id": name, "locked": False, "solution": True, **common}
    checked = {
        "cell_type": "code", "grade": True, "grade_id": f"{name}-check", "locked": True,
        "points": 1, "solution": False, **common,
    }  # fmt: skip
    return [
        new_markdown_cell(
            f"### Exercise {exercise_id}: a few words {PLACEHOLDER}\n\n"
            f"Say what is to be made, and why somebody would want it. {PLACEHOLDER}",
            id=f"{name}-prompt",
        ),
        new_code_cell(f'target("{exercise_id}")', id=f"{name}-target"),
        new_code_cell(
            f"answer = ...  # a NamedSharding\n{SOLUTION_BEGIN}answer = ...\n{SOLUTION_END}",
            id=name,
            metadata={"nbgrader": to_fill_in},
        ),
        new_code_cell(
            f'check("{exercise_id}", answer)', id=f"{name}-check", metadata={"nbgrader": checked}
        ),
    ]


EXERCISE_ID: Final = re.compile(r"([a-z]*\d+)\.(\d+)")
"""An exercise's id, such as `1.9`, or `heat1.9` in a course with ids of its own."""

EXERCISE_STUB: Final = f"""\
{{name}}: Final = Exercise(
    id="{{id}}",
    title="{{id}} {PLACEHOLDER}",
    afterwards="What is worth knowing once one has it right. {PLACEHOLDER}.",
    requirements=(PlacedLike("answer", "0 1 2 3 4 5 6 7", ((16, 16), (8, 64))),),
    hints=(
        "A gentle hint. {PLACEHOLDER}.",
        "One that says more. {PLACEHOLDER}.",
        "One that is nearly the answer. {PLACEHOLDER}.",
    ),
    diagnoses={{{{}}}},
)

"""

BANK_STUB: Final = f"""\

# %% {{id}}: right, and unlike the solution {PLACEHOLDER} exercise="{{id}}" score=1
answer = ...

# %% {{id}}: wrong in one way {PLACEHOLDER} exercise="{{id}}" score=0 diagnoses=["one-device"]
answer = ...

# %% {{id}}: wrong in another {PLACEHOLDER} exercise="{{id}}" score=0 diagnoses=["transposed"]
answer = ...

# %% {{id}}: wrong in a third {PLACEHOLDER} exercise="{{id}}" score=0 diagnoses=["replicated"]
answer = ...
"""


class StubError(ShortError, ValueError):
    """Stubs cannot be written; the message says why and what to do."""


@dataclass(frozen=True)
class StubFiles:
    """The files that an exercise's stubs are written to."""

    module: Path
    notebook: Path
    bank: Path


def write_stubs(root: Path, exercise_id: str, notebook: str = "") -> StubFiles:
    """Write the stubs of a new exercise.

    Args:
        root: the course's folder.
        exercise_id: the new exercise's id, such as `1.9`.
        notebook: the notebook's assignment id; by default the notebook whose exercise ids begin
            like this one.

    Returns:
        The files that were written to.

    Raises:
        StubError: the exercise exists already, or there is no notebook or module for it.
    """
    match = EXERCISE_ID.fullmatch(exercise_id)
    if match is None:
        raise StubError(
            f"{exercise_id!r} is not the id of an exercise: that is two numbers such as 1.9, with "
            f"letters before them in a course with ids of its own, such as heat1.9."
        )
    if exercise_id in EXERCISES:
        raise StubError(
            f"There is an exercise {exercise_id} already: {EXERCISES[exercise_id].title}."
        )
    notebook = notebook or _find_notebook(match[1])
    if notebook not in NOTEBOOKS:
        raise StubError(
            f"There is no notebook {notebook!r}. Say first which module has its exercises: by an "
            f"entry point in pyproject.toml, or, in this course itself, by a line in "
            f"autograder/exercises/catalogue.py. docs/authoring.md says how."
        )
    import jupytext  # takes a third of a second, and grading a class needs it nowhere

    folder = root / "solutions" / notebook
    files = StubFiles(
        _find_module(notebook, root), folder / f"{notebook}.ipynb", folder / "bank.py"
    )
    module = _with_exercise(files.module.read_text(), exercise_id, files.module)
    with_cells = _with_cells(files.notebook, exercise_id, notebook)
    folder.mkdir(parents=True, exist_ok=True)
    files.module.write_text(module)
    jupytext.write(with_cells, files.notebook)
    jupytext.write(with_cells, files.notebook.with_suffix(".md"), fmt="md:myst")
    with files.bank.open("a") as file:
        if not file.tell():
            file.write(f"# %% [markdown]\n# Known answers to the exercises of {notebook}.\n")
        file.write(BANK_STUB.format(id=exercise_id))
    return files


def _find_notebook(prefix: str) -> str:
    """Find the notebook with exercises whose ids have a prefix."""
    for notebook, exercises in NOTEBOOKS.items():
        if any(exercise.id.startswith(f"{prefix}.") for exercise in exercises):
            return notebook
    raise StubError(
        f"No notebook has an exercise whose id begins with {prefix!r}. Say which one this is the "
        f"first of: --notebook 01_its_name, or, with make, NOTEBOOK=01_its_name."
    )


def _find_module(notebook: str, root: Path) -> Path:
    """Find the file of the module with a notebook's exercises; it must be in the course."""
    name = module_of(notebook)
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise StubError(f"There is no module {name} for the exercises of {notebook}.")
    path = Path(spec.origin).resolve()
    if root.resolve() not in path.parents:
        raise StubError(
            f"The exercises of {notebook} are in {path}, which is not in {root}. Where that is a "
            f"copy that was installed, install the course with `pip install -e .`"
        )
    return path


def _with_exercise(source: str, exercise_id: str, path: Path) -> str:
    """Return a module's source with the stub of an exercise, also in its tuple `EXERCISES`."""
    name = f"EXERCISE_{exercise_id.upper().replace('.', '_')}"
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        value = getattr(node, "value", None)
        if names == ["EXERCISES"] and isinstance(value, ast.Tuple):
            lines = source.splitlines(keepends=True)
            elements = [*map(ast.unparse, value.elts), name]
            elements_source = "".join(f"    {element},\n" for element in elements)
            head = lines[node.lineno - 1].partition("=")[0].rstrip()
            return "".join([
                *_with_imports(source, lines[: node.lineno - 1]),
                EXERCISE_STUB.format(name=name, id=exercise_id),
                f"{head} = (\n{elements_source})\n",
                *lines[node.end_lineno :],
            ])  # fmt: skip
    raise StubError(f"{path} has no tuple EXERCISES to add an exercise to.")


def _with_imports(source: str, lines: list[str]) -> list[str]:
    """Return the first lines of a module with the imports that a stub needs."""
    imports = [n for n in ast.parse(source).body if isinstance(n, ast.Import | ast.ImportFrom)]
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    missing = sorted({"Exercise", "PlacedLike"} - imported)
    if not missing:
        return lines
    end = imports[-1].end_lineno or 0 if imports else 1
    needed = f"from autograder.exercises import {', '.join(missing)}\n"
    return [*lines[:end], *([] if "autograder" in lines[end - 1] else ["\n"]), needed, *lines[end:]]


def _with_cells(path: Path, exercise_id: str, name: str) -> Any:
    """Return a notebook with the cells of a new exercise after its last exercise."""
    notebook = nbformat.read(path, 4) if path.exists() else _new_notebook(name)
    names = [get_grade_id(cell) for cell in notebook.cells]
    checks = [i for i, grade_id in enumerate(names) if grade_id.endswith("-check")]
    ends = (i for i, c in enumerate(notebook.cells) if c.source.startswith("## Remember"))
    place = max(checks) + 1 if checks else next(ends, len(notebook.cells))
    notebook.cells[place:place] = make_exercise_cells(exercise_id)
    return notebook


def _new_notebook(name: str) -> Any:
    """Make a notebook with what every notebook of a course has: a title, a setup, and an end."""
    notebook = new_notebook(
        cells=[
            new_markdown_cell(f"# {name}: a few words {PLACEHOLDER}", id="title"),
            new_code_cell(
                "import jax\nimport jax.numpy as jnp\nfrom jax import NamedSharding, P\n"
                "from jax.sharding import AxisType\n\n"
                "from autograder import check, hint, progress, target\n"
                "from shardlings import emulate_devices, show\n\n"
                "devices = emulate_devices(8)",
                id="setup",
            ),
            new_markdown_cell(f"## Remember\n\n- {PLACEHOLDER}", id="remember"),
        ]
    )
    notebook.metadata = {
        "jupytext": {"formats": "ipynb,md:myst"},
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    }
    return notebook
