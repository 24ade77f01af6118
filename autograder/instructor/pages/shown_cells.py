"""The cells of a graded notebook as HTML: what stands in them, and what they said."""

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from nbconvert.filters import strip_ansi

from autograder.exercises import EXERCISES, pictured
from autograder.instructor.course import BASE64, PICTURES, without_controls
from autograder.instructor.pages.clean_pages import clean_within, markdown
from autograder.instructor.pages.grader_paths import without_paths
from autograder.instructor.pages.page_room import coloured, has_room, printed
from autograder.pictures import blocks_as_html

TARGET: Final = re.compile(r"^target\(\"([^\"]{1,20})\"\)", re.MULTILINE)
"""Where a notebook has a target drawn; a kernel that grades has none to draw."""

HEADING: Final = re.compile(r"<(/?)h([1-6])\b")
BELOW: Final = 2
"""How much lower headings are than in the notebook, where they stand below those of the page."""

PICTURELESS: Final = re.compile(r'<img alt="([^"<>]*)">')
"""A picture that would be asked for elsewhere, and is not."""

MOST_TARGETS: Final = 200
"""How many targets are drawn on a page, at most: somebody may ask for the same again and again."""

LONG_WORDS: Final = 500
"""How many characters of an error are said where it is not shown with its traceback."""

RICH: Final = ("text/html", "image/svg+xml", *PICTURES, "text/markdown", "text/latex", "text/plain")
"""The forms of what a cell shows, the best first."""


def shown_cell(
    cell: Any, room: dict[str, Any], is_judged: bool = False, outputs_alone: bool = False
) -> str:
    """A cell as HTML.

    Args:
        cell: a cell of a graded notebook.
        room: what there is room for on its page: nbconvert's resources, as `page_room` reads them.
        is_judged: whether what it shows and is worth stands elsewhere: a check with a verdict.
        outputs_alone: whether what stands in it is left out.
    """
    context = {"resources": room, "cell": cell}
    if cell.cell_type == "markdown":
        return _below(markdown(context, cell.source))
    if cell.cell_type != "code":
        return f"<pre>{html.escape(cell.source)}</pre>"
    outputs = [o for o in cell.outputs if not is_judged or o.output_type == "stream"]
    has_source = cell.source.strip() and not outputs_alone
    parts = [coloured(context, cell.source) if has_source else ""]
    parts += [_output(output, context) for output in outputs]
    return "".join([*parts, *_targets(cell.source, room)])


def _below(cleaned: str) -> str:
    """Clean HTML as a part of a page: headings below the page's, and words for lost pictures."""
    lower = HEADING.sub(lambda found: f"<{found[1]}h{min(int(found[2]) + BELOW, 6)}", cleaned)
    return PICTURELESS.sub(r"<em>\1</em>", lower)


def raised(cell: Any) -> str:
    """The last line of the error that a cell ended with, as text; empty where it ended well."""
    errors = [o for o in cell.get("outputs", []) if o.output_type == "error"]
    return _last_line(errors[0])[:LONG_WORDS] if errors else ""


def _last_line(error: Mapping[str, Any]) -> str:
    name, value = str(error.get("ename", "")), str(error.get("evalue", ""))
    said = strip_ansi(f"{name}: {value}" if value.strip() else name)
    return without_paths(" ".join(without_controls(said.replace("\n", " ")).split()))


def _output(output: Any, context: Mapping[str, Any]) -> str:
    """What a cell has said, as HTML."""
    if output.output_type == "stream":
        return f'<pre class="said">{_text(output.get("text", ""), context)}</pre>'
    if output.output_type == "error":
        lines = "\n".join(map(str, output.get("traceback", [])))
        last = html.escape(_last_line(output))
        if not has_room(context, 0):
            return f'<pre class="raised">{last}</pre>'
        return (
            f'<pre class="raised">{last}</pre><details><summary>Where it was raised</summary>'
            f'<pre class="said">{_text(lines, context)}</pre></details>'
        )
    data = output.get("data", {})
    kind = next((kind for kind in RICH if kind in data), "")
    text = str(data.get(kind, ""))
    if not text.strip():
        return ""
    return f'<div class="shown">{_rich(kind, text, context)}</div>'


def _rich(kind: str, text: str, context: Mapping[str, Any]) -> str:
    if kind in PICTURES:
        fits = BASE64.fullmatch(text) and has_room(context, 0)
        name = "a picture that this cell has made"
        return f'<img alt="{name}" src="data:{kind};base64,{text}">' * bool(fits)
    if kind in ("text/html", "image/svg+xml"):
        return clean_within(context, text)
    if kind == "text/markdown":
        return markdown({**context, "cell": {}}, text)
    return f"<pre>{_text(text, context)}</pre>"


def _text(text: str, context: Mapping[str, Any]) -> str:
    """What was printed, in the colours that it asked for, and without the grader's paths."""
    return printed(context, without_paths(str(text)))


def _targets(source: str, room: dict[str, Any]) -> Iterator[str]:
    """The targets that a cell draws for whoever runs it."""
    for name in TARGET.findall(source):
        room["targets"] = room.get("targets", 0) + 1
        if name in EXERCISES and room["targets"] <= MOST_TARGETS:
            asked = [drawn for r in EXERCISES[name].requirements if (drawn := pictured(r))]
            titles = [name if len(asked) == 1 else f"{name} {r.answer}" for r in asked]
            pictures = [r.target().picture(t) for r, t in zip(asked, titles, strict=True)]
            yield blocks_as_html(pictures) if pictures else ""
