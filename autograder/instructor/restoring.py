"""Give a submission's cells back what the gradebook knows of them."""

from typing import Any

from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor


class RestoreMetadata(NbGraderPreprocessor):
    """Restore the nbgrader metadata of every cell that the released notebook has.

    nbgrader believes a submission's own word on whether a cell is graded, and by whom: a check that
    claims to be a solution waits for a human for ever, or stops the batch. `OverwriteCells`, which
    comes after this, restores the sources.
    """

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Write what the gradebook has over what came."""
        about = resources["nbgrader"]
        with Gradebook(about["db_url"]) as gradebook:
            notebook = gradebook.find_notebook(about["notebook"], about["assignment"])
            points = {cell.name: cell.max_score for cell in notebook.grade_cells}
            solutions = {cell.name for cell in notebook.solution_cells}
            known = {cell.name: cell for cell in notebook.source_cells}
        for cell in nb.cells:
            mine = cell.metadata.get("nbgrader", {})
            source = known.get(mine.get("grade_id"))
            if source is None:
                continue
            mine.update(
                grade=source.name in points,
                solution=source.name in solutions,
                locked=source.locked,
                task=False,
                cell_type=source.cell_type,
                checksum=source.checksum,
            )
            mine.pop("points", None)
            if source.name in points:
                mine["points"] = points[source.name]
        return nb, resources
