"""`make exercise ID=…`: write the stubs of a new exercise; find an exercise's cell in a notebook.

An exercise has three parts: an `Exercise` in its notebook's module, cells in the notebook and its
text twin, and entries in the bank. The stubs fail every test until somebody fills them in.
"""

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.atomic_files import write_atomically
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


NOT_CODE: Final = frozenset({
    tokenize.COMMENT, tokenize.ENDMARKER, tokenize.NEWLINE, tokenize.NL,
})  # fmt: skip


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
    folder = root / "solutions" / notebook
    files = StubFiles(
        _find_module(notebook, root), folder / f"{notebook}.ipynb", folder / "bank.py"
    )
    source = files.module.read_text(encoding="utf-8")
    with_cells = _with_cells(files.notebook, exercise_id, notebook)
    contents = {
        files.module: _with_exercise(source, exercise_id, files.module),
        files.notebook: _write_notebook(with_cells, "ipynb"),
        files.notebook.with_suffix(".md"): _write_notebook(with_cells, "md:myst"),
        files.bank: _with_bank_entries(files.bank, exercise_id, notebook),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in contents.items():
        write_atomically(path, text.encode())
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
            statement = ast.get_source_segment(source, node) or ""
            elements = ast.get_source_segment(source, value) or ""
            rest = "".join(lines[node.lineno - 1 :]).removeprefix(statement)
            start = node.lineno - 1
            while start and lines[start - 1].startswith("#"):  # a comment on the tuple
                start -= 1
            return "".join([
                *_with_imports(source, lines[:start]),
                EXERCISE_STUB.format(name=name, id=exercise_id),
                *lines[start : node.lineno - 1],
                statement.removesuffix(elements), _with_element(elements, name), rest or "\n",
            ])  # fmt: skip
    raise StubError(f"{path} has no tuple EXERCISES to add an exercise to.")


def _with_element(elements: str, name: str) -> str:
    """Return the source of a tuple with one more element; its comments and lines are kept."""
    if not elements.startswith("("):
        elements = f"({elements})"
    inside = elements[1:-1]
    if "\n" not in inside:  # each on its line
        parsed = ast.parse(elements, mode="eval").body
        assert isinstance(parsed, ast.Tuple)
        sources = [ast.get_source_segment(elements, element) for element in parsed.elts]
        inside = "".join(f"\n    {source}," for source in sources)
    else:
        inside = _with_last_comma(inside.rstrip())
    return f"({inside}\n    {name},\n)"


def _with_last_comma(lines: str) -> str:
    """Return the lines of a tuple's elements with a comma after the last, before any comment."""
    tokens = list(tokenize.generate_tokens(io.StringIO(f"({lines}\n)").readline))
    *_, last, _ = [token for token in tokens if token.type not in NOT_CODE]
    if last.string in (",", "("):
        return lines
    row, column = last.end
    before = lines.split("\n")
    column -= row == 1  # for the parenthesis
    before[row - 1] = f"{before[row - 1][:column]},{before[row - 1][column:]}"
    return "\n".join(before)


def _with_imports(source: str, lines: list[str]) -> list[str]:
    """Return the first lines of a module with the imports that a stub needs."""
    imports = [n for n in ast.parse(source).body if isinstance(n, ast.Import | ast.ImportFrom)]
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    missing = sorted({"Exercise", "PlacedLike"} - imported)
    if not missing:
        return lines
    needed = f"from autograder.exercises import {', '.join(missing)}\n"
    if not lines:  # the tuple is the first that there is
        return [needed, "\n"]
    end = imports[-1].end_lineno or 0 if imports else 1
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


def _with_bank_entries(path: Path, exercise_id: str, name: str) -> str:
    """Return a notebook's bank with the entries of a new exercise at its end."""
    heading = f"# %% [markdown]\n# Known answers to the exercises of {name}.\n"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return f"{text or heading}{BANK_STUB.format(id=exercise_id)}"


def _write_notebook(notebook: Any, form: str) -> str:
    """Write a notebook as a text in one of jupytext's formats."""
    import jupytext  # takes a third of a second, and grading a class needs it nowhere

    text = io.StringIO()
    jupytext.write(notebook, text, fmt=form)
    return text.getvalue()


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
