"""Give a submission's cells back what the gradebook knows of them."""

from typing import Any

from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor


class RestoreCells(NbGraderPreprocessor):
    """Restore the nbgrader metadata of every cell that the released notebook has.

    nbgrader believes a submission's own word on whether a cell is graded, by whom and for how many
    points, and stops at a cell that is there twice or not at all. Here a cell is known by its
    `grade_id`, or, where an editor dropped its metadata, by its cell id, which is the same; a
    second cell of that name, or one of an unknown name, becomes an ordinary cell; and a graded cell
    that is missing, be it a check, an essay or a task that was added since, is added at the end.
    `OverwriteCells`, which comes after this, restores sources.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Write what the gradebook has over what came."""
        about = resources["nbgrader"]
        with Gradebook(about["db_url"]) as gradebook:
            notebook = gradebook.find_notebook(about["notebook"], about["assignment"])
            graded = {cell.name for cell in notebook.grade_cells}
            tasks = {cell.name for cell in notebook.task_cells}
            points = {c.name: c.max_score for c in (*notebook.grade_cells, *notebook.task_cells)}
            solutions = {cell.name for cell in notebook.solution_cells}
            known = {
                cell.name: {
                    "grade_id": cell.name,
                    "grade": cell.name in graded,
                    "solution": cell.name in solutions,
                    "locked": cell.locked,
                    "task": cell.name in tasks,
                    "cell_type": cell.cell_type,
                    "checksum": cell.checksum,
                    "schema_version": 3,
                    **({"points": points[cell.name]} if cell.name in points else {}),
                }
                for cell in notebook.source_cells
            }
            sources = {cell.name: cell.source for cell in notebook.source_cells}
        missing = dict(known)
        named = [cell for cell in nb.cells if _name(cell) in known]
        for cell in nb.cells:
            name = _name(cell)
            if name not in known and cell.get("id") in known and not _has(named, cell["id"]):
                name = cell["id"]
            cell.metadata.pop("nbgrader", None)
            if name in missing:
                cell.metadata["nbgrader"] = missing.pop(name)
        for name, metadata in missing.items():
            if metadata["grade"] or metadata["task"]:
                new = new_code_cell if metadata["cell_type"] == "code" else new_markdown_cell
                nb.cells.append(new(sources[name], metadata={"nbgrader": metadata}))
        return nb, resources


def _name(cell: Any) -> str | None:
    """The name that a cell's metadata gives it, if that is a name at all."""
    about = cell.metadata.get("nbgrader")
    name = about.get("grade_id") if isinstance(about, dict) else None
    return name if isinstance(name, str) else None


def _has(cells: list[Any], name: str) -> bool:
    return any(_name(cell) == name for cell in cells)
