"""A released notebook as a page: exercises that can be linked to, folded hints, folded set-up.

Nothing is written into a notebook's file. What a page has besides comes from the exercises, when
the page is made.
"""

import html
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import nbformat

from autograder.documents import Document, Paragraph, as_html
from autograder.exercises import EXERCISES, Exercise
from autograder.judge import prose

ADDRESS: Final[str] = tomllib.loads(
    (Path(__file__).resolve().parent.parent / "pyproject.toml").read_text()
)["project"]["urls"]["Repository"]
"""Where the course lives."""

ON_THE_WEB: Final = f"{ADDRESS}/blob/main/"
"""What links to the repository's files begin with, in notebooks."""

LAUNCHERS: Final = {
    "colab": ("https://colab.research.google.com/github"
              f"/{ADDRESS.removeprefix('https://github.com/')}/blob/main/%s", None),
    "kaggle": (f"https://kaggle.com/kernels/welcome?src={ON_THE_WEB}%s", None),
    "repository": (f"{ADDRESS}%s", None),
}  # fmt: skip
"""Roles for links to where a notebook runs, as `sphinx.ext.extlinks` wants them."""

BADGE: Final = re.compile(r"\[!\[Open in Colab\]\([^)]*\)\]\(\S+?/(?P<path>course/[^\s)]+)\)")
"""A badge is a picture from elsewhere; the page has links of its own in its place."""

HEADING: Final = re.compile(r"^### Exercise (?P<id>[\w.]+)(?=:)", re.MULTILINE)
CHECK: Final = re.compile(r'^check\(\s*"(?P<id>[^"]+)"')


def read(text: str) -> Any:
    """Read a released notebook, and make it a page.

    Args:
        text: the notebook's file.

    Returns:
        The notebook, with the same code in the same order.
    """
    notebook = nbformat.reads(text, as_version=4)
    notebook.cells = [shown for cell in _folded(notebook.cells) for shown in _shown(cell)]
    return notebook


def _folded(cells: list[Any]) -> list[Any]:
    """The cells, those of the set-up folded: code that stands before the first section."""
    for cell in cells:
        if cell.cell_type == "markdown" and re.search(r"^## ", cell.source, re.MULTILINE):
            break
        if cell.cell_type == "code":
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
    return cells


def _shown(cell: Any) -> list[Any]:
    """A cell as the page has it, and what comes after it."""
    if cell.cell_type == "markdown":
        linked = BADGE.sub(_launchers, cell.source).replace(ON_THE_WEB, "../../")
        cell.source = HEADING.sub(lambda m: f"({make_anchor(m['id'])})=\n{m[0]}", linked)
    elif (found := CHECK.match(cell.source)) and found["id"] in EXERCISES:
        return [cell, nbformat.v4.new_markdown_cell(render_hints(EXERCISES[found["id"]]))]
    return [cell]


def make_anchor(exercise: str) -> str:
    """What a link to an exercise ends with: `exercise-1-1` for 1.1."""
    return f"exercise-{exercise.replace('.', '-')}"


def _launchers(badge: re.Match[str]) -> str:
    """Where a notebook can be opened, in place of its badge."""
    path = badge["path"]
    return (
        f"{{colab}}`Open in Colab <{path}>` {{kaggle}}`Open in Kaggle <{path}>` "
        f"{{download}}`Download <{path.rpartition('/')[2]}>`"
    )


def render_hints(exercise: Exercise) -> str:
    """An exercise's hints, folded: within each is the next."""
    page = ""
    for number, hint in reversed(list(enumerate(exercise.hints, 1))):
        title = f"Hint {number} of {len(exercise.hints)}"
        if number == 1:
            title += f" for {exercise.id} {exercise.title}"
        page = (
            f'<details class="hint"><summary>{html.escape(title)}</summary>'
            f"{as_html(Document((Paragraph(prose(hint)),)))}{page}</details>"
        )
    return page
