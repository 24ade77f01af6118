"""A student's feedback page: the results first, and below them, folded, the notebook.

It is one file that loads nothing from elsewhere and runs no script, so it can be read on a phone,
in a dark theme, without a network and on paper. It is written only if its content changed, so the
files' times tell which pages are new.

A content security policy is the second line of defence, behind the cleaning. A feedback page needs
no script. Formgrader's pages have nbgrader's inline scripts and MathJax, so their policy cannot
forbid scripts; it does forbid framing, and loading from and sending to other places.
"""

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cache, partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlparse

from markupsafe import Markup
from pygments.formatters import HtmlFormatter

from autograder.instructor.commands import show_invisible_characters, write_atomically
from autograder.instructor.gradebook import Mark, ShownGrades
from autograder.instructor.pages.cell_results import Raised, is_judged, list_results
from autograder.instructor.pages.page_templates import render
from autograder.instructor.pages.shown_cells import find_error_line, render_cell
from autograder.judge import COLOURS, Verdict

FILES: Final = "sandbox; default-src 'none'; frame-ancestors 'none'"
"""The policy of files beside a notebook: should a browser show one as a page, it can do nothing."""

FEEDBACK: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
"""The policy of feedback pages."""


def formgrader_policy(mathjax: str) -> str:
    """Return the policy of Formgrader's pages, which load files of Formgrader's own.

    Args:
        mathjax: the address of MathJax.
    """
    origin = _origin(mathjax)
    return (
        f"default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval' {origin}; "
        f"style-src 'self' 'unsafe-inline' {origin}; font-src 'self' data: {origin}; "
        f"img-src 'self' data: {origin}; connect-src 'self'; base-uri 'none'; form-action 'self'; "
        f"frame-ancestors 'self'"
    )


def _origin(address: str) -> str:
    """Return the origin of an address, as a policy names it; empty for a relative address."""
    parts = urlparse(address)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""


WRITTEN: Final = re.compile(r'<meta name="date" content="([^"]{10,40})">')
"""Matches the time since which a page has had its content."""

SHOWS: Final = re.compile(r'<meta name="grades" content="(\w{64}) (\w{64})">')
"""Matches the digests of the grades that a page shows."""

HEAD_CHARACTERS: Final = 1000
"""The time and the digests are within this many characters of a page's beginning."""


def renew_page(old: bytes, page: Callable[[datetime], str]) -> bytes | None:
    """Return a new page; None if the present one has the same contents.

    Args:
        old: the present page; empty if there is none.
        page: makes the page; its argument is the time that the page shows.
    """
    old_time = _read_time(old.decode(errors="replace"))
    if old_time is not None and page(old_time).encode(errors="backslashreplace") == old:
        return None
    new = page(datetime.now().astimezone().replace(microsecond=0))
    return new.encode(errors="backslashreplace")


def write_page(path: Path, renew: Callable[[bytes], bytes | None]) -> bool:
    """Write a page, unless the file has this content already.

    Args:
        path: the file.
        renew: takes the present page, and returns the new one, or None if it is the same.

    Returns:
        Whether it was written.
    """
    if path.is_dir() and not path.is_symlink():  # somebody put a folder in its place
        shutil.rmtree(path)
    old = path.read_bytes() if path.exists() else b""
    new_page = renew(old)
    if new_page is None:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, new_page)
    return True


def _read_time(page: str) -> datetime | None:
    match = WRITTEN.search(page[:HEAD_CHARACTERS])
    try:
        return datetime.fromisoformat(match[1]) if match else None
    except ValueError:
        return None


def read_shown_grades(page: Path) -> ShownGrades | None:
    """Return the digests of the grades that a page shows; None if there is no page or no grade."""
    try:
        with page.open("rb") as file:
            match = SHOWS.search(file.read(HEAD_CHARACTERS).decode(errors="replace"))
    except FileNotFoundError:
        return None
    return ShownGrades(*match.groups()) if match else None


LIGHT, DARK = "friendly", "github-dark"
"""Pygments' styles for code, on a light and on a dark page."""


@dataclass(frozen=True)
class AssignmentTotals:
    """An assignment's notebooks, counted, and their scores added up, less any late penalty."""

    notebooks: int
    score: float
    points: float


@dataclass(frozen=True)
class SubmissionDetails:
    """Facts about a submission that are on its page, but not in its notebook.

    Attributes:
        notebook: the notebook's name, without a suffix.
        name: the student's name; empty if unknown.
        handed_in: the time of submission, if known.
        late_penalty: the late penalty, in points.
        notes: sentences about the whole submission.
        score: the score before the late penalty, as nbgrader counts it.
        points: the maximum score, as nbgrader counts it, including exercises that were added
            after the submission.
        due: the student's due date, if known.
        lateness: the time between due date and submission, in words.
        zone: the time zone of the page's times.
        shown_grades: digests of the grades that the page shows; None if it has no grade.
        totals: the whole assignment, if it has other notebooks than this one.
    """

    student: str
    assignment: str
    notebook: str
    name: str = ""
    handed_in: datetime | None = None
    late_penalty: float = 0.0
    notes: tuple[str, ...] = ()
    score: float = 0.0
    points: float = 0.0
    due: datetime | None = None
    lateness: str = ""
    zone: tzinfo = UTC
    shown_grades: ShownGrades | None = None
    totals: AssignmentTotals | None = None


@dataclass(frozen=True)
class PageContents:
    """Everything that is on a feedback page.

    Attributes:
        about: facts about the submission.
        cells: the graded notebook's cells.
        marks: the gradebook's marks, by the names of graded cells.
        comments: instructors' comments, by the names of cells.
        verdicts: the kept verdicts, by the ids of exercises.
    """

    about: SubmissionDetails
    cells: Sequence[Any]
    marks: Mapping[str, Mark]
    comments: Mapping[str, str]
    verdicts: Mapping[str, Verdict]


@dataclass(frozen=True)
class FoldedCell:
    """A cell in the folded notebook: its index, its HTML, and the anchor of its result."""

    place: int
    html: Markup
    result_anchor: str


def feedback_page(
    contents: PageContents, resources: dict[str, Any] | None = None
) -> Callable[[datetime], str]:
    """Return a function that makes a graded notebook's feedback page, given the page's time.

    Args:
        contents: everything that is on the page, except the time.
        resources: nbconvert's resources, which count the tags on the page.
    """
    about, cells, verdicts = contents.about, contents.cells, contents.verdicts
    resources = {} if resources is None else resources
    results = tuple(list_results(cells, contents.marks, contents.comments, verdicts, resources))
    anchors = {result.place: result.anchor for result in results}
    folded_cells = [
        FoldedCell(
            place,
            render_cell(cell, resources, is_judged=is_judged(cell, verdicts)),
            anchors.get(place, ""),
        )
        for place, cell in enumerate(cells)
    ]
    last = max((r.place for r in results if r.place is not None), default=-1)
    raised_after_last = [
        Raised(n, error)
        for n in range(last + 1, len(cells))
        if (error := find_error_line(cells[n]))
    ]
    return partial(
        _page,
        about=about,
        results=results,
        after=raised_after_last,
        folded_cells=folded_cells,
        total=max(about.score - about.late_penalty, 0),
        why="",
    )


def ungraded_page(about: SubmissionDetails, why: str) -> Callable[[datetime], str]:
    """Return a function that makes the page of an ungraded submission, given the page's time.

    Args:
        about: facts about the submission.
        why: why it could not be graded, in a sentence.
    """
    return partial(_page, about=about, results=(), folded_cells=(), why=why)


def _page(time: datetime, **facts: Any) -> str:
    page = render("feedback.html.j2", since=time, policy=FEEDBACK, style=_style(), **facts)
    return show_invisible_characters(page)


@cache
def _style() -> Markup:
    style = (Path(__file__).parent / "feedback.css").read_text(encoding="utf-8")
    colours = "\n".join(f".{state} {{ --state: {colour} }}" for state, colour in COLOURS.items())
    dark = f"@media screen and (prefers-color-scheme: dark) {{\n{_code(DARK)}\n}}"
    return Markup(f"{style}\n{colours}\n{_code(LIGHT)}\n{dark}")


def _code(style: str) -> str:
    """Return the CSS of highlighted code, without a background."""
    formatter = HtmlFormatter(style=style, nobackground=True)
    return str(formatter.get_style_defs(".highlight"))
