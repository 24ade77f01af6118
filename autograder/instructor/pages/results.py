"""The result of each graded cell, and the notebook's cells as HTML, for a feedback page.

Outputs hide the grader's own paths behind `…`.
"""

import functools
import html
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup
from nbconvert.filters import strip_ansi

import autograder
from autograder.exercises import BY_GRADE_ID, EXERCISES, Exercise
from autograder.instructor.course import BASE64, PICTURE_TYPES, without_controls
from autograder.instructor.pages.clean_pages import (
    clean_within,
    coloured,
    has_room,
    markdown,
    printed,
)
from autograder.judge import HEADLINES, MARKS, Parts, Verdict, headline, verdict_in_parts
from autograder.pictures import blocks_as_html

PATH: Final = re.compile(r"(?<![\w.…])(?:[A-Za-z]:)?[/\\][^\s\"'`<>|:;,()\[\]]+")
"""What may be an absolute path."""

INSTALLED: Final = re.compile(r".*(?:(?:site|dist)-packages|lib[/\\]python3[^/\\]*)(?=[/\\])")
"""How a path begins that leads to Python's own modules, or to installed ones, on any machine."""

MIN_FOLDERS: Final = 2
"""A path of the grader's own has at least so many folders; `/` and `/tmp` are anybody's."""


def _own() -> tuple[str, ...]:
    """The grader's own folders, the longest first."""
    places = {
        sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path.home()), os.getcwd(),
        str(Path(autograder.__file__).parent.parent), tempfile.gettempdir(),
    }  # fmt: skip
    places |= {os.path.realpath(place) for place in places}
    return tuple(
        sorted((p for p in places if len(Path(p).parts) > MIN_FOLDERS), key=len, reverse=True)
    )


STAND_IN: Final = "/a/folder/of/the/graders"
"""Written for one whose path has a space, in which a path in a text would seem to end."""

OWN_PATHS: Final = (*_own(), STAND_IN)


def without_paths(text: str) -> str:
    """Text in which no path says where the grader keeps anything; what a path ends in stays."""
    for place in OWN_PATHS:
        if " " in place:
            text = text.replace(place, STAND_IN)
    return PATH.sub(_shortened, text)


def _shortened(found: re.Match[str]) -> str:
    path = found[0]
    installed = INSTALLED.match(path)
    if installed:
        return f"…{path[installed.end() :]}"
    own = next((place for place in OWN_PATHS if path.startswith(place)), "")
    return f"…{path[len(own) :]}" if own else path


TARGET: Final = re.compile(r"^target\(\"([^\"]{1,20})\"\)", re.MULTILINE)
"""Where a notebook has a target drawn; a kernel that grades has none to draw."""

HEADING: Final = re.compile(r"<(/?)h([1-6])\b")
BELOW: Final = 2
"""How much lower headings are than in the notebook, where they stand below those of the page."""

PICTURELESS: Final = re.compile(r'<img alt="([^"<>]*)">')
"""A picture that would be asked for elsewhere, and is not."""

MAX_TARGETS: Final = 200
"""A student could ask for the same picture again and again."""

LONG_WORDS: Final = 500
"""How many characters of an error are said where it is not shown with its traceback."""

RICH: Final = (
    "text/html",
    "image/svg+xml",
    *PICTURE_TYPES,
    "text/markdown",
    "text/latex",
    "text/plain",
)
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
    if kind in PICTURE_TYPES:
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
        if name in EXERCISES and room["targets"] <= MAX_TARGETS:
            pictures = [layout.picture(title) for title, layout in EXERCISES[name].targets()]
            yield blocks_as_html(pictures) if pictures else ""


WAITS: Final = "waits"
"""The state of what somebody has to grade by hand."""

SIGNS: Final = {**MARKS, WAITS: "?"}

MAX_ERRORS_ABOVE: Final = 3
"""How many errors of the cells above are told beside a graded cell."""

REMEMBERED: Final = 200
"""How many verdicts' pictures are remembered: many of a class have the same."""

EMPTY: Final = "No response."
"""What nbgrader comments where nobody has written anything; a verdict says it itself."""


@dataclass(frozen=True)
class GradebookEntry:
    """What the gradebook has of a graded cell.

    Attributes:
        score: what counts.
        points: what it is worth.
        by_hand: what somebody has given; None where nobody has.
        extra: what somebody has given beyond.
        waits: whether somebody has to look at it.
    """

    score: float
    points: float
    by_hand: float | None = None
    extra: float = 0.0
    waits: bool = False


@dataclass(frozen=True)
class Raised:
    """An error that a cell ended with: the cell's place in the notebook, and the last line."""

    place: int
    last: str


@dataclass(frozen=True)
class CellResult:
    """What became of a graded cell.

    Attributes:
        anchor: what a link within the page leads to.
        state: `right`, `partly`, `wrong`, `unanswered`, `failed` or `waits`.
        short: what it is called where there is little room.
        name: what it is called, with how it stands.
        score: what counts.
        points: what it is worth.
        by_hand: whether it was judged, and somebody has given a score that counts instead.
        first: the first sentence, as HTML.
        pictures: as HTML.
        rest: all that is said besides, as HTML.
        said: what is to be known of the score, in sentences.
        comments: what somebody has written, as HTML.
        raised: the errors of the cells above it, and how many more there are.
        place: where the cell is in the notebook; None where it is not there.
    """

    anchor: str
    state: str
    short: str
    name: str
    score: float
    points: float
    by_hand: bool
    first: Markup
    pictures: Markup
    rest: Markup
    said: tuple[str, ...]
    comments: tuple[Markup, ...]
    raised: tuple[Raised, ...]
    more_raised: int
    place: int | None

    @property
    def sign(self) -> str:
        """The state as one character."""
        return SIGNS[self.state]


def results(
    cells: Sequence[Any],
    given: Mapping[str, GradebookEntry],
    comments: Mapping[str, str],
    verdicts: Mapping[str, Verdict],
    room: dict[str, Any],
) -> Iterator[CellResult]:
    """The results of a notebook, in the order of its cells; what it does not have comes last.

    Args:
        cells: those of the graded notebook.
        given: what the gradebook has, by the names of graded cells.
        comments: what somebody has written, by the names of cells.
        verdicts: those that are kept, by the ids of exercises.
        room: what there is room for on the page.
    """
    left = dict(comments)
    errors: list[Raised] = []
    named = {_name(cell): place for place, cell in enumerate(cells) if _name(cell) in given}
    above = 0
    for name, place in [*named.items(), *((name, None) for name in given if name not in named)]:
        if place is not None:
            span = range(above, place if name in BY_GRADE_ID else place + 1)
            errors = [Raised(n, last) for n in span if (last := raised(cells[n]))]
            above = place + 1
            theirs = [_name(cells[n]) for n in range(span.start, place + 1)]
        else:
            errors, theirs = [], [name]
        exercise = BY_GRADE_ID.get(name)
        verdict = verdicts.get(exercise.id) if exercise else None
        written = [left.pop(each) for each in theirs if each in left]
        if verdict is not None:
            written = [words for words in written if words != EMPTY]
        cell = None if place is None else cells[place]
        first, pictures, rest = _parts(cell, verdict, given[name], room)
        words = html.unescape(Markup(first).striptags())
        errors = [error for error in errors if error.last not in words]  # it is said already
        yield CellResult(
            f"result-{name}",
            _state(verdict, given[name]),
            exercise.id if exercise else name,
            _called(name, cell, exercise, verdict, given[name]),
            given[name].score,
            given[name].points,
            verdict is not None and given[name].by_hand is not None,
            Markup(first),
            Markup(pictures),
            Markup(rest),
            tuple(_of_score(given[name], verdict)),
            tuple(Markup(markdown({"resources": room}, words)) for words in written),
            tuple(errors[:MAX_ERRORS_ABOVE]),
            max(len(errors) - MAX_ERRORS_ABOVE, 0),
            place,
        )


def is_judged(cell: Any, verdicts: Mapping[str, Verdict]) -> bool:
    """Whether a cell is a check on which there is a verdict."""
    exercise = BY_GRADE_ID.get(_name(cell))
    return exercise is not None and exercise.id in verdicts


def _name(cell: Any) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def _state(verdict: Verdict | None, given: GradebookEntry) -> str:
    """How a cell stands; what somebody has given by hand has the last word."""
    if given.by_hand is None and (verdict is not None or given.waits):
        return verdict.state if verdict is not None else WAITS
    return "right" if given.score >= given.points else "partly" if given.score > 0 else "wrong"


def _called(
    name: str, cell: Any, exercise: Exercise | None, verdict: Verdict | None, given: GradebookEntry
) -> str:
    """What a cell is called, and, where it is judged, how it stands."""
    if verdict is not None and given.by_hand is None:
        return headline(verdict).partition(" ")[2]
    if exercise is not None:
        stands = HEADLINES.get(_state(verdict, given))
        return f"{exercise.id} {exercise.title}{f': {stands}' if stands else ''}"
    about = {} if cell is None else cell.metadata["nbgrader"]
    kind = "Test"
    if about.get("task"):
        kind = "Task"
    elif about.get("solution"):
        kind = "Written answer" if cell.cell_type == "markdown" else "Code"
    return f"{kind} {name}"


def _parts(
    cell: Any,
    verdict: Verdict | None,
    given: GradebookEntry,
    room: dict[str, Any],
) -> Parts:
    """What is said of a cell, and drawn."""
    if verdict is not None:
        return _drawn(verdict, given.by_hand is None)
    if cell is None:
        return Parts("<p>This cell is not in what was handed in.</p>", "", "")
    about = cell.metadata["nbgrader"]
    if about.get("solution") or about.get("task"):
        waits = given.waits and given.by_hand is None
        first = "<p>This is graded by hand, and has no score yet.</p>" if waits else ""
        return Parts(first, "", f'<div class="answer">{shown_cell(cell, room)}</div>')
    if BY_GRADE_ID.get(_name(cell)) is not None:  # graded by a version that kept no verdicts
        return Parts(shown_cell(cell, room, outputs_alone=True), "", "")
    if raised(cell):
        return Parts("", "", "")  # the error is said
    passed = given.score >= given.points
    return Parts("<p>The test passed.</p>" if passed else "", "", "")


@functools.lru_cache(REMEMBERED)
def _drawn(verdict: Verdict, way_on: bool) -> Parts:
    return verdict_in_parts(verdict, way_on)


def _of_score(given: GradebookEntry, verdict: Verdict | None) -> Iterator[str]:
    """What is to be known of a score, in sentences."""
    if given.by_hand is not None:
        yield f"Given by hand: {_number(given.by_hand)} of {_number(given.points)}."
        if verdict is not None:
            yield f"Judging it found {_number(verdict.score * given.points)}."
    if given.extra:
        yield f"Of its score, {_number(given.extra)} is extra credit."
    if given.waits and given.by_hand is not None:
        yield "It has been graded again since, so somebody will look at that score again."
    elif given.waits and verdict is not None:
        yield "Somebody will look at it, too."


def _number(number: float) -> str:
    return f"{round(number, 2):g}"
