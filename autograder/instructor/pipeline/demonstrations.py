"""Demonstrations: a released notebook's own cells, which grading runs only if an answer needs them.

Everybody has the same cells that demonstrate something, and in some notebooks a kernel spends most
of its time there. Whoever writes a notebook gives such cells the tag `demonstration`: nothing that
is graded needs them, but for the names that they bind. A cell with the tag is left out if no cell
that runs reads such a name. Tags count in the released notebook alone, and only released text is
parsed here; the process that reads a student's notebook says which names it reads.
"""

import symtable
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from autograder.instructor.course import WORD, list_read_names

TAG: Final = "demonstration"


class Demonstration(NamedTuple):
    """A released notebook's own cell.

    Attributes:
        read_names: the names that it reads from the notebook.
        bound_names: the names that it binds there; None if it always runs.
    """

    read_names: frozenset[str]
    bound_names: frozenset[str] | None


Demonstrations = Mapping[str, Demonstration]
"""A released notebook's own cells, by their source."""

ReadNames = Mapping[str, frozenset[str] | None]
"""The names that each cell reads, by its source; None if it may read any."""


def find_demonstrations(notebook: Any) -> Demonstrations:
    """Return a released notebook's own cells, with the names that each of them reads and binds.

    Args:
        notebook: the notebook as it was released.
    """
    return {
        cell.source: _describe(cell.source, TAG in cell.metadata.get("tags", ()))
        for cell in notebook.cells
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader")
    }


def _describe(source: str, is_tagged: bool) -> Demonstration:
    try:
        symbols = symtable.symtable(source, "cell", "exec").get_symbols()
        reads = frozenset(list_read_names(source))
    except SyntaxError:  # a magic, for example
        return Demonstration(frozenset(WORD.findall(source)), None)
    bound = (s.get_name() for s in symbols if s.is_assigned() or s.is_imported())
    return Demonstration(reads, frozenset(bound) if is_tagged else None)


def find_unused(
    cells: Sequence[Any], demonstrations: Demonstrations, read: ReadNames
) -> frozenset[int]:
    """Return the indices of a submission's cells that grading can leave out.

    Args:
        cells: the cells of the submitted notebook.
        demonstrations: the released cells of this notebook.
        read: the names that each submitted cell reads. A cell that is not in it, because its text
            was restored, may read every word of its text.
    """
    unused, needed = dict[int, Demonstration](), set[str]()
    for index, cell in enumerate(cells):
        if cell.cell_type != "code":
            continue
        known = None if cell.metadata.get("nbgrader") else demonstrations.get(cell.source)
        if known is not None and known.bound_names is not None:
            unused[index] = known
        elif known is not None:
            needed |= known.read_names
        elif cell.source not in read:
            needed |= {*WORD.findall(cell.source)}
        elif (names := read[cell.source]) is None:
            return frozenset()
        else:
            needed |= names
    while used := {
        i: each for i, each in unused.items() if each.bound_names and each.bound_names & needed
    }:
        for index, demonstration in used.items():
            del unused[index]
            needed |= demonstration.read_names
    return frozenset(unused)
