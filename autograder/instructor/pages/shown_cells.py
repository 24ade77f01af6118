"""A notebook's cells as HTML, for a feedback page.

What students wrote is cleaned, and outputs hide the grader's own paths behind `…`.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup
from nbconvert.filters import strip_ansi

from autograder.exercises import EXERCISES
from autograder.instructor.commands import show_control_characters
from autograder.instructor.course import BASE64, NAMESPACE, PICTURE_TYPES
from autograder.instructor.pages.clean_pages import (
    clean_within,
    has_room,
    highlight_code,
    render_markdown,
    render_printed_text,
)
from autograder.instructor.pages.page_templates import render
from autograder.instructor.sandbox import find_package_folders
from shardlings.pictures import blocks_as_html

PATH: Final = re.compile(r"(?<![\w.…])(?:[A-Za-z]:)?[/\\][^\s\"'`<>|:;,()\[\]]+")
"""Matches what may be an absolute path."""

INSTALLED: Final = re.compile(r".*(?:(?:site|dist)-packages|lib[/\\]python3[^/\\]*)(?=[/\\])")
"""Matches the beginning of a path to Python's own modules, or to installed ones."""

MIN_FOLDERS: Final = 2
"""The grader's own paths are deeper than this; `/` and `/tmp` are anybody's."""


def _own_paths() -> tuple[str, ...]:
    """Return the grader's own folders, the longest first."""
    places = {
        sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path.home()), os.getcwd(),
        *(str(folder.parent) for folder in find_package_folders()), tempfile.gettempdir(),
    }  # fmt: skip
    places |= {os.path.realpath(place) for place in places}
    return tuple(
        sorted((p for p in places if len(Path(p).parts) > MIN_FOLDERS), key=len, reverse=True)
    )


STAND_IN: Final = "/a/folder/of/the/graders"
"""Replaces an own path that has a space, where `PATH` would end."""

OWN_PATHS: Final = (*_own_paths(), STAND_IN)


def without_paths(text: str) -> str:
    """Return a text without the grader's own folders: of their paths, only the end stays."""
    for place in OWN_PATHS:
        if " " in place:
            text = text.replace(place, STAND_IN)
    return PATH.sub(_shortened, text)


def _shortened(match: re.Match[str]) -> str:
    path = match[0]
    installed = INSTALLED.match(path)
    if installed:
        return f"…{path[installed.end() :]}"
    own = next((place for place in OWN_PATHS if path.startswith(place)), "")
    return f"…{path[len(own) :]}" if own else path


TARGET: Final = re.compile(r"^target\(\"([^\"]{1,20})\"\)", re.MULTILINE)
"""Matches a call that draws a target, which a grading kernel cannot do."""

MAX_TARGETS: Final = 200
"""The most targets on a page: a student could ask for the same one again and again."""

HEADING: Final = re.compile(r"<(/?)h([1-6])\b")
HEADING_SHIFT: Final = 2
"""A notebook's headings are this many levels lower on the page, below the page's own."""

IMG_WITHOUT_SOURCE: Final = re.compile(r'<img alt="([^"<>]*)">')
"""Matches a picture whose address was removed by the cleaning."""

MAX_ERROR_CHARACTERS: Final = 500
"""The most characters of an error that is shown without its traceback."""

PREFERRED_TYPES: Final = (
    "text/html",
    "image/svg+xml",
    *PICTURE_TYPES,
    "text/markdown",
    "text/latex",
    "text/plain",
)
"""MIME types of an output, the best first."""


@dataclass(frozen=True)
class CellPart:
    """A part of a cell, as `cell.html.j2` renders it.

    Attributes:
        kind: `html` (the source, or a target), `display`, `picture` or `text` (outputs),
            `render_printed_text`, `error`, `raw` (a raw cell's text), or `unused`.
        content: HTML; of a picture its base64, of an error its last line, of a raw cell its text.
        detail: the picture's type, or the error's traceback.
    """

    kind: str
    content: str
    detail: str = ""


def render_cell(
    cell: Any, resources: dict[str, Any], is_judged: bool = False, is_source_hidden: bool = False
) -> Markup:
    """Return a cell as HTML.

    Args:
        cell: a cell of a graded notebook.
        resources: nbconvert's resources, which count the tags on the page; see `has_room`.
        is_judged: whether the cell's verdict is shown elsewhere on the page, and not here.
        is_source_hidden: whether only the outputs are shown.
    """
    return render("cell.html.j2", parts=[*_parts(cell, resources, is_judged, is_source_hidden)])


def _parts(
    cell: Any, resources: dict[str, Any], is_judged: bool, is_source_hidden: bool
) -> Iterator[CellPart]:
    context = {"resources": resources, "cell": cell}
    if cell.cell_type == "markdown":
        yield CellPart("html", _fit_into_page(render_markdown(context, cell.source)))
    elif cell.cell_type != "code":
        yield CellPart("raw", cell.source)
    else:
        if cell.source.strip() and not is_source_hidden:
            yield CellPart("html", Markup(highlight_code(context, cell.source)))
        # a target is shown whether or not its cell ran
        if cell.metadata.get(NAMESPACE, {}).get("unused") and not TARGET.search(cell.source):
            yield CellPart("unused", "")
        for output in cell.outputs:
            if output.output_type == "stream":
                yield CellPart("printed", _text(output.get("text", ""), context))
            elif not is_judged:
                yield from _output(output, context)
        yield from _targets(cell.source, resources)


def _fit_into_page(cleaned: str) -> Markup:
    """Lower the headings of clean HTML, and replace lost pictures by their descriptions."""

    def lowered(heading: re.Match[str]) -> str:
        return f"<{heading[1]}h{min(int(heading[2]) + HEADING_SHIFT, 6)}"

    return Markup(IMG_WITHOUT_SOURCE.sub(r"<em>\1</em>", HEADING.sub(lowered, cleaned)))


def find_error_line(cell: Any) -> str:
    """Return the last line of the error that a cell ended with; empty if it ended well."""
    errors = [o for o in cell.get("outputs", []) if o.output_type == "error"]
    return _last_line(errors[0])[:MAX_ERROR_CHARACTERS] if errors else ""


def _last_line(error: Mapping[str, Any]) -> str:
    name, value = str(error.get("ename", "")), str(error.get("evalue", ""))
    text = strip_ansi(f"{name}: {value}" if value.strip() else name)
    return without_paths(" ".join(show_control_characters(text.replace("\n", " ")).split()))


def _output(output: Any, context: Mapping[str, Any]) -> Iterator[CellPart]:
    if output.output_type == "error":
        lines = "\n".join(map(str, output.get("traceback", [])))
        traceback = _text(lines, context) if has_room(context, 0) else ""
        yield CellPart("error", _last_line(output), traceback)
        return
    data = output.get("data", {})
    kind = next((kind for kind in PREFERRED_TYPES if kind in data), "")
    text = str(data.get(kind, ""))
    if not text.strip():
        return
    if kind in PICTURE_TYPES:
        if BASE64.fullmatch(text) and has_room(context, 0):
            yield CellPart("picture", Markup(text), kind)
    elif kind in ("text/html", "image/svg+xml"):
        yield CellPart("display", Markup(clean_within(context, text)))
    elif kind == "text/markdown":
        yield CellPart("display", Markup(render_markdown({**context, "cell": {}}, text)))
    else:
        yield CellPart("text", _text(text, context))


def _text(text: str, context: Mapping[str, Any]) -> Markup:
    """Return printed text as HTML, in the colours that it asked for, without own paths."""
    return Markup(render_printed_text(context, without_paths(str(text))))


def _targets(source: str, resources: dict[str, Any]) -> Iterator[CellPart]:
    """Yield the targets that a cell draws for the student who runs it."""
    for name in TARGET.findall(source):
        resources["targets"] = resources.get("targets", 0) + 1
        if name in EXERCISES and resources["targets"] <= MAX_TARGETS:
            pictures = [layout.picture(title) for title, layout in EXERCISES[name].targets()]
            if pictures:
                yield CellPart("html", Markup(blocks_as_html(pictures)))
