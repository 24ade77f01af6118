"""The cells of an exercise: what is handed out, what stands for the solution, what is checked."""

from typing import Any, Final

from nbformat.v4 import new_code_cell, new_markdown_cell

BEGIN: Final = "### BEGIN SOLUTION\n"
END: Final = "### END SOLUTION"

TO_WRITE: Final = "(to be written)"
"""Stands wherever somebody still has to write something; a test of the course looks for it."""


class NoSolutionError(LookupError):
    """A notebook lacks a solution; the message says of which exercise."""


def grade_id(cell: Any) -> str:
    """What nbgrader calls a cell; empty where it has no name for it."""
    name: str = cell.metadata.get("nbgrader", {}).get("grade_id", "")
    return name


def cell_of(notebook: Any, exercise_id: str) -> Any:
    """The cell that a learner fills in.

    Raises:
        NoSolutionError: there is none.
    """
    name = f"ex-{exercise_id.replace('.', '-')}"
    for cell in notebook.cells:
        if grade_id(cell) == name:
            return cell
    raise NoSolutionError(f"The notebook has no cell {name!r}.")


def solution(source: str) -> str:
    """What stands between the solution's marks in a cell."""
    return source.partition(BEGIN)[2].partition(END)[0].rstrip()


def unsolved(source: str) -> str:
    """A cell without its solution, as learners get it, but for the comment in its place."""
    before, _, rest = source.partition(BEGIN)
    return f"{before}{rest.partition(END)[2].lstrip()}".rstrip()


def new_cells(exercise_id: str) -> list[Any]:
    """The cells of a new exercise: a prompt, its target, a cell to fill in, and a check."""
    name = f"ex-{exercise_id.replace('.', '-')}"
    common = {"schema_version": 3, "task": False}
    to_fill_in = {"grade": False, "grade_id": name, "locked": False, "solution": True, **common}
    checked = {
        "cell_type": "code", "grade": True, "grade_id": f"{name}-check", "locked": True,
        "points": 1, "solution": False, **common,
    }  # fmt: skip
    return [
        new_markdown_cell(
            f"### Exercise {exercise_id}: a few words {TO_WRITE}\n\n"
            f"Say what is to be made, and why somebody would want it. {TO_WRITE}",
            id=f"{name}-prompt",
        ),
        new_code_cell(f'target("{exercise_id}")', id=f"{name}-target"),
        new_code_cell(
            f"answer = ...  # a NamedSharding\n{BEGIN}answer = ...\n{END}",
            id=name,
            metadata={"nbgrader": to_fill_in},
        ),
        new_code_cell(
            f'check("{exercise_id}", answer)', id=f"{name}-check", metadata={"nbgrader": checked}
        ),
    ]
