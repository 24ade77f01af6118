"""The places in the course that `docs/` names: exercises, and headings of notebooks."""

import re

import jupytext

from autograder.exercises import EXERCISES
from tests.conftest import ROOT


def headings(text):
    return set(re.findall(r"^##+ (.+)$", text, re.MULTILINE))


def places():
    """Everything that a row may name."""
    found = set(EXERCISES)
    for path in (ROOT / "solutions").glob("*/*.ipynb"):
        number = path.stem.partition("_")[0]
        cells = jupytext.read(path).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        found |= {f"{number}: {heading}" for heading in headings(text)}
    page = (ROOT / "docs" / "what_moved.md").read_text()
    moved = headings(page) | set(re.findall(r"^\| (`[^`|]+`) \|", page, re.MULTILINE))
    return found | {f"What moved: {heading}" for heading in moved}
