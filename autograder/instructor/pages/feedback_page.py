"""A student's feedback page: the results first, and below them, folded, the notebook.

It is one file that loads nothing from elsewhere and runs no script: it reads the same on a phone,
in the dark, without a network and on paper. It is written only if its content changed, so whoever
copies pages further can see by their times which are new.

A content security policy is the second line of defence, behind the cleaning. A feedback page needs
no script. Formgrader's pages have nbgrader's inline scripts and MathJax, so their policy cannot
forbid scripts; it does forbid loading and sending anything elsewhere, and being framed.
"""

import functools
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlparse

import jinja2
from markupsafe import Markup
from pygments.formatters import HtmlFormatter

from autograder.instructor.course import printable
from autograder.instructor.gradebook import ShownGrades
from autograder.instructor.pages.results import (
    GradebookEntry,
    Raised,
    is_judged,
    raised,
    results,
    shown_cell,
)
from autograder.judge import COLOURS, Verdict

FILES: Final = "sandbox; default-src 'none'; frame-ancestors 'none'"
"""Of what lies beside a notebook: if a browser takes it for a page, it can do nothing at all."""


FEEDBACK: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
"""Of a feedback page, which is one file and runs nothing."""


def of_formgrader(mathjax: str) -> str:
    """The policy of Formgrader's pages, which come with files of its own.

    Args:
        mathjax: the address of what shows formulas.
    """
    there = _origin(mathjax)
    return (
        f"default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval' {there}; "
        f"style-src 'self' 'unsafe-inline' {there}; font-src 'self' data: {there}; "
        f"img-src 'self' data: {there}; connect-src 'self'; base-uri 'none'; form-action 'self'; "
        f"frame-ancestors 'self'"
    )


def _origin(address: str) -> str:
    """Where an address is: the part that a policy names; nothing where it is our own."""
    parts = urlparse(address)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""


WRITTEN: Final = re.compile(r'<meta name="date" content="([^"]{10,40})">')
"""Where a page says since when it has been as it is."""

SHOWS: Final = re.compile(r'<meta name="grades" content="(\w{64}) (\w{64})">')
"""Where a page says what of the gradebook it shows."""

HEAD_CHARACTERS: Final = 1000
"""Digests stand within so many characters of a page's beginning."""


def write_page(path: Path, page: Callable[[datetime], str]) -> bool:
    """Write a page, unless it is there already.

    Args:
        path: where to.
        page: the page, of a time.

    Returns:
        Whether it was written.
    """
    if path.is_dir() and not path.is_symlink():  # an earlier version copied folders of any name
        shutil.rmtree(path)
    there = path.read_bytes() if path.exists() else b""
    since = _since(there.decode(errors="replace"))
    if since is not None and page(since).encode(errors="backslashreplace") == there:
        return False
    made = page(datetime.now().astimezone().replace(microsecond=0))
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(made.encode(errors="backslashreplace"))
    new.replace(path)  # whoever opens it finds the old page, or the whole of the new one
    return True


def _since(page: str) -> datetime | None:
    found = WRITTEN.search(page[:HEAD_CHARACTERS])
    try:
        return datetime.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def shown_by(page: Path) -> ShownGrades | None:
    """What of the gradebook a page shows; None where there is none, or it shows no grade."""
    try:
        with page.open("rb") as file:
            found = SHOWS.search(file.read(HEAD_CHARACTERS).decode(errors="replace"))
    except OSError:
        return None
    return ShownGrades(*found.groups()) if found else None


TEMPLATES: Final = Path(__file__).parent

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
    shows: ShownGrades | None = None


@dataclass(frozen=True)
class LessonCell:
    """A cell as the folded lesson has it."""

    place: int
    shown: Markup
    leads_to: str


def feedback_page(
    about: About,
    cells: Sequence[Any],
    given: Mapping[str, GradebookEntry],
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
        loader=jinja2.FileSystemLoader(TEMPLATES),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"number": _number, "day": _day, "line": printable}
    style = (TEMPLATES / "feedback.css").read_text(encoding="utf-8")
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
