"""Scores given by hand: nobody has to look again at what is the same.

Whenever a submission is graded anew, nbgrader wants another look at each of its cells that has a
score by hand. That is right where somebody has handed in again; but whoever has read four hundred
essays, and then adds an exercise, has read them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """What there is to look at in a cell."""

    points: float | None
    kind: str
    source: str
    attachments: Any
    outputs: Any


def cells_of(notebook: Any) -> dict[str, Cell]:
    """The cells of a graded notebook that the assignment knows, by their names."""
    named = [(cell.metadata.get("nbgrader") or {}, cell) for cell in notebook.cells]
    return {
        about["grade_id"]: Cell(
            about.get("points"),
            cell.cell_type,
            cell.source,
            cell.get("attachments"),
            cell.get("outputs"),
        )
        for about, cell in named
        if about.get("grade_id")
    }


def is_asked_the_same(before: Mapping[str, Cell], now: Mapping[str, Cell]) -> bool:
    """Whether a notebook's cells ask what they asked before: that may stand in any of them."""
    both = before.keys() & now.keys()
    return bool(before) and all(now[name].source == before[name].source for name in both)
