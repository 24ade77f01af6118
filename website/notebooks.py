"""Turn a released notebook into a page, with anchors for exercises, and folded hints and set-up.

The notebook's file is not changed; hints come from the exercises.
"""

import html
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import nbformat

from autograder.exercises import EXERCISES, Exercise
from autograder.judge import mark_up
from shardlings.documents import Document, Paragraph, as_html

ADDRESS: Final[str] = tomllib.loads(
    (Path(__file__).resolve().parent.parent / "pyproject.toml").read_text()
)["project"]["urls"]["Repository"]
"""The repository's URL."""

FILES_ADDRESS: Final = f"{ADDRESS}/blob/main/"
"""The beginning of links to the repository's files in notebooks."""

LAUNCHERS: Final = {
    "colab": ("https://colab.research.google.com/github"
              f"/{ADDRESS.removeprefix('https://github.com/')}/blob/main/%s", None),
    "kaggle": (f"https://kaggle.com/kernels/welcome?src={FILES_ADDRESS}%s", None),
    "binder": ("https://mybinder.org/v2/gh"
               f"/{ADDRESS.removeprefix('https://github.com/')}/main?labpath=%s", None),
    "codespaces": (f"https://codespaces.new/{ADDRESS.removeprefix('https://github.com/')}%s", None),
    "repository": (f"{ADDRESS}%s", None),
}  # fmt: skip
"""Roles for links to where notebooks open and to the repository, for `sphinx.ext.extlinks`."""

BADGE: Final = re.compile(r"\[!\[Open in Colab\]\([^)]*\)\]\(\S+?/(?P<path>course/[^\s)]+)\)")
"""The Colab badge, which the page replaces by links, because its picture is from elsewhere."""

HEADING: Final = re.compile(r"^### Exercise (?P<id>[\w.]+)(?=:)", re.MULTILINE)
CHECK: Final = re.compile(r'^check\(\s*"(?P<id>[^"]+)"')


def read(text: str) -> Any:
    """Read a released notebook as a page.

    Args:
        text: the text of the notebook's file.

    Returns:
        The notebook, with the same code in the same order.
    """
    notebook = nbformat.reads(text, as_version=4)
    notebook.cells = [shown for cell in _fold_setup(notebook.cells) for shown in _page_cells(cell)]
    return notebook


def _fold_setup(cells: list[Any]) -> list[Any]:
    """Fold the code before the first section."""
    for cell in cells:
        if cell.cell_type == "markdown" and re.search(r"^## ", cell.source, re.MULTILINE):
            break
        if cell.cell_type == "code":
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
    return cells


def _page_cells(cell: Any) -> list[Any]:
    """Return a cell as the page shows it, followed by the hints if it is a check."""
    if cell.cell_type == "markdown":
        linked = BADGE.sub(_launchers, cell.source).replace(FILES_ADDRESS, "../../")
        cell.source = HEADING.sub(lambda m: f"({make_anchor(m['id'])})=\n{m[0]}", linked)
    elif (match := CHECK.match(cell.source)) and match["id"] in EXERCISES:
        return [cell, nbformat.v4.new_markdown_cell(render_hints(EXERCISES[match["id"]]))]
    return [cell]


def make_anchor(exercise: str) -> str:
    """Return the anchor of an exercise: `exercise-1-1` for 1.1."""
    return f"exercise-{exercise.replace('.', '-')}"


def _launchers(badge: re.Match[str]) -> str:
    """Return links to open a notebook in Colab or Kaggle or download it, in place of its badge."""
    path = badge["path"]
    return (
        f"{{colab}}`Open in Colab <{path}>` {{kaggle}}`Open in Kaggle <{path}>` "
        f"{{download}}`Download <{path.rpartition('/')[2]}>`"
    )


def render_hints(exercise: Exercise) -> str:
    """Render an exercise's hints as folds, each inside the one before."""
    page = ""
    for number, hint in reversed(list(enumerate(exercise.hints, 1))):
        title = f"Hint {number} of {len(exercise.hints)}"
        if number == 1:
            title += f" for {exercise.id} {exercise.title}"
        page = (
            f'<details class="hint"><summary>{html.escape(title)}</summary>'
            f"{as_html(Document((Paragraph(mark_up(hint)),)))}{page}</details>"
        )
    return page
