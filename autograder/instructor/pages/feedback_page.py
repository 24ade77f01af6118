"""A student's feedback page: the results first, and below them, folded, the notebook.

It is one file that asks for nothing elsewhere and runs nothing: it reads the same on a phone, in
the dark, without a network and on paper.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup
from pygments.formatters import HtmlFormatter

from autograder.instructor.course import printable
from autograder.instructor.gradebook import Shown
from autograder.instructor.pages.page_policies import FEEDBACK
from autograder.instructor.pages.results import Given, Raised, is_judged, results
from autograder.instructor.pages.shown_cells import raised, shown_cell
from autograder.judge import COLOURS, Verdict

HERE: Final = Path(__file__).parent

LIGHT, DARK = "friendly", "github-dark"
"""Pygments' styles for code, of which each can be read on its ground."""


@dataclass(frozen=True)
class About:
    """What a page says besides what is in the notebook.

    Attributes:
        student: the student's id.
        assignment: the assignment's id.
        notebook: the notebook's name, without an ending.
        name: the student's name, where somebody has entered one.
        handed_in: when it was handed in, where that is known.
        late: what is taken off for being late.
        notes: what is to be known of the whole, in sentences.
        score: what all of it earned, before what is taken off, as nbgrader counts it.
        points: the most that there is, as nbgrader counts it: an exercise that was added after this
            was handed in counts, too.
        due: when it was due for this student, where that is known.
        how_late: how much later it was handed in, in words.
        zone: in which the page's times are.
        shows: what of the gradebook the page shows, in a few letters; None where it has no grade.
    """

    student: str
    assignment: str
    notebook: str
    name: str = ""
    handed_in: datetime | None = None
    late: float = 0.0
    notes: tuple[str, ...] = ()
    score: float = 0.0
    points: float = 0.0
    due: datetime | None = None
    how_late: str = ""
    zone: tzinfo = UTC
    shows: Shown | None = None


@dataclass(frozen=True)
class LessonCell:
    """A cell as the folded lesson has it."""

    place: int
    shown: Markup
    leads_to: str


def feedback_page(
    about: About,
    cells: Sequence[Any],
    given: Mapping[str, Given],
    comments: Mapping[str, str],
    verdicts: Mapping[str, Verdict],
) -> Callable[[datetime], str]:
    """The feedback page of a graded notebook, once it is known since when it has been so.

    Args:
        about: whose and of what.
        cells: those of the graded notebook.
        given: what the gradebook has, by the names of graded cells.
        comments: what somebody has written, by the names of cells.
        verdicts: those that are kept, by the ids of exercises.
    """
    room: dict[str, Any] = {}
    found = tuple(results(cells, given, comments, verdicts, room))
    anchors = {result.place: result.anchor for result in found}
    lesson = [
        LessonCell(
            place,
            Markup(shown_cell(cell, room, is_judged=is_judged(cell, verdicts))),
            anchors.get(place, ""),
        )
        for place, cell in enumerate(cells)
    ]
    last = max((r.place for r in found if r.place is not None), default=-1)
    after = [Raised(n, said) for n in range(last + 1, len(cells)) if (said := raised(cells[n]))]
    return functools.partial(
        _page,
        about=about,
        results=found,
        after=after,
        lesson=lesson,
        total=max(about.score - about.late, 0),
        why="",
    )


def ungraded_page(about: About, why: str) -> Callable[[datetime], str]:
    """The page of what could not be graded, once it is known since when it has been so.

    Args:
        about: whose and of what.
        why: why that is, in a sentence.
    """
    return functools.partial(_page, about=about, results=(), lesson=(), why=why)


def _page(since: datetime, **facts: Any) -> str:
    return _template().render(since=since, **facts)


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FileSystemLoader(HERE),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"number": _number, "day": _day, "line": printable}
    style = (HERE / "feedback.css").read_text(encoding="utf-8")
    colours = "\n".join(f".{state} {{ --state: {colour} }}" for state, colour in COLOURS.items())
    environment.globals |= {
        "policy": FEEDBACK,
        "style": Markup(f"{style}\n{colours}\n{_code(LIGHT)}\n{_dark(_code(DARK))}"),
    }
    return environment.get_template("feedback.html.j2")


def _code(style: str) -> str:
    """The styles of coloured code; its ground is the page's."""
    formatter = HtmlFormatter(style=style, nobackground=True)
    return str(formatter.get_style_defs(".highlight"))


def _dark(style: str) -> str:
    return f"@media screen and (prefers-color-scheme: dark) {{\n{style}\n}}"


def _number(number: float) -> str:
    return f"{round(number, 2):g}"


def _day(time: datetime, zone: tzinfo) -> str:
    there = time.astimezone(zone)
    return f"{there.day} {there:%B %Y, %H:%M %Z}"
