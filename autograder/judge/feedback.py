"""Show verdicts, with their pictures: as text, as rich tables, as HTML in a notebook."""

import html
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from autograder.judge.rendering import (
    COLOURS,
    afterwards_as_html,
    badge,
    report_as_html,
    report_for_terminal,
    report_in_lines,
)
from autograder.judge.report import MARKS, VerdictReport, report
from autograder.judge.verdict import Trade, Verdict
from autograder.layouts import YOURS
from autograder.pictures import (
    blocks_as_html,
    blocks_for_terminal,
    display,
    pictures_as_text,
    tradeoff_as_html,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

from autograder.judge.verdict import Finding
from autograder.layouts import compared
from autograder.pictures import Picture

HEADLINES: Final = {
    "right": "right",
    "partly": "partly right",
    "wrong": "not yet",
    "unanswered": "not answered yet",
    "failed": "not judged, and not your answer's fault",
}

ALL_RIGHT: Final = "<div>All of it is right.</div>"
"""What is said first where nothing is wrong, and a table has what is right."""

_attempts: Final[dict[str, dict[str, list[Trade]]]] = {}
"""For each exercise and answer that trades one thing for another, what was tried in this kernel."""


def pictures_of(
    verdict: Verdict, whole: bool = False, made: str = YOURS
) -> list[Sequence[Picture]]:
    """Rows of pictures: what is drawn once, side by side; and a row for each answer beside its own.

    As long as something is wrong, that alone is drawn; and what is all right is drawn once.

    Args:
        verdict: what the judge says.
        whole: whether all is drawn that can be, targets of answers too that cannot be drawn.
        made: what a picture of what was made is called.
    """
    several = len({finding.answer for finding in verdict.findings}) > 1
    drawn = dict.fromkeys(
        (finding.answer, finding.made, finding.target)
        for finding in verdict.findings
        if finding.target and (whole or _is_telling(finding, verdict))
    )
    rows = [
        [replace(p, code=answer if several else "") for p in compared(came, target, made)]
        for answer, came, target in drawn
    ]
    single = [picture for row in rows if len(row) == 1 for picture in row]
    return [*([single] if single else []), *(row for row in rows if len(row) > 1)]


def _is_telling(finding: Finding, verdict: Verdict) -> bool:
    if finding.made is None:
        return False
    return verdict.state == "right" or (not finding.met and finding.made != finding.target)


def headline(verdict: Verdict) -> str:
    """One line: the mark, the exercise and how it stands."""
    share = f" ({verdict.score:.0%})" if verdict.state == "partly" else ""
    return (
        f"{MARKS[verdict.state]} {verdict.exercise} {verdict.title}: "
        f"{HEADLINES[verdict.state]}{share}"
    )


def sentences(verdict: Verdict) -> list[str]:
    """What is said below the headline, line by line: the first cause, then the rest."""
    return report_in_lines(report(verdict))


def verdict_as_text(verdict: Verdict) -> str:
    """The whole verdict as plain text, pictures too."""
    parts = [headline(verdict), *sentences(verdict)]
    return "\n".join([*parts, *map(pictures_as_text, pictures_of(verdict))])


def verdict_in_lines(verdict: Verdict) -> str:
    """The verdict in lines that are short enough for `nbgrader validate`, which cuts long ones."""
    wrapped = [textwrap.fill(line, 80, subsequent_indent="  ") for line in sentences(verdict)]
    return "\n".join([f"{headline(verdict)}.", *wrapped])


def show_verdict(verdict: Verdict) -> None:
    """Show a verdict, in a notebook or in a terminal."""
    earlier = _attempts.setdefault(verdict.exercise, {})
    page = verdict_as_html(verdict, earlier)
    display(page, verdict_as_text(verdict), lambda: verdict_for_terminal(verdict))
    for finding in verdict.findings:
        if finding.trade is not None:
            earlier.setdefault(finding.answer, []).append(finding.trade)


def verdict_for_terminal(verdict: Verdict) -> "RenderableType":
    """The verdict for a terminal."""
    from rich.console import Group
    from rich.text import Text

    return Group(
        Text(headline(verdict), style="bold"),
        *report_for_terminal(report(verdict)),
        *map(blocks_for_terminal, pictures_of(verdict)),
    )


def verdict_as_html(
    verdict: Verdict, earlier: Mapping[str, Sequence[Trade]] | None = None, whole: bool = False
) -> str:
    """The verdict as HTML, for a notebook and for nbgrader's feedback page.

    Args:
        verdict: what the judge says.
        earlier: for each answer that trades one thing for another, the attempts before this one.
        whole: for a page that is read later, or printed: details stand open, and targets are
            drawn, too, of answers of which there is no picture.
    """
    pictures = "".join(map(blocks_as_html, pictures_of(verdict, whole)))
    _, _, said = headline(verdict).partition(" ")
    told = report(verdict)
    return (
        f'<div style="border-left:4px solid {COLOURS[verdict.state]};padding:2px 0 2px 12px">'
        f'<div style="font-weight:600">{badge(verdict.state)} {html.escape(said)}</div>'
        + "".join(report_as_html(told, unfolded=whole))
        + "".join(
            _trades(f.answer, [*(earlier or {}).get(f.answer, ()), f.trade])
            for f in verdict.findings
            if f.trade is not None
        )
        + f"{pictures}{''.join(afterwards_as_html(told))}</div>"
    )


class Parts(NamedTuple):
    """A verdict as HTML, in parts that a page has places of its own for.

    Attributes:
        first: the first cause, or what is right, in a sentence or two; it may be empty.
        pictures: what was made, and what was asked for.
        rest: all that is said besides; it may be empty.
    """

    first: str
    pictures: str
    rest: str


def verdict_in_parts(verdict: Verdict, way_on: bool = True, made: str = YOURS) -> Parts:
    """The verdict as HTML, in parts, for a page that is read later: all that can be is drawn.

    Args:
        verdict: what the judge says.
        way_on: whether to say where to go from here; there is no need where somebody has settled
            the score by hand.
        made: what a picture of what was made is called: the answer may be somebody else's.
    """
    told = report(verdict)
    if not way_on:
        told = replace(told, afterwards=verdict.notes)
    if told.cause:
        first, rest = VerdictReport(told.cause, told.where), replace(told, cause="")
    else:
        first, rest = VerdictReport(below=told.below[:1]), replace(told, below=told.below[1:])
    return Parts(
        "".join(report_as_html(first)) or ALL_RIGHT * (verdict.state == "right"),
        "".join(map(blocks_as_html, pictures_of(verdict, whole=True, made=made)))
        + "".join(_trades(f.answer, [f.trade]) for f in verdict.findings if f.trade is not None),
        "".join([*report_as_html(rest, unfolded=True), *afterwards_as_html(told)]),
    )


def _trades(answer: str, trades: Sequence[Trade]) -> str:
    """The attempts at a trade, the latest last, beside the best that is known."""
    attempts, last = [(trade.held, trade.costs) for trade in trades], trades[-1]
    return tradeoff_as_html(answer, attempts, last.cap, last.frontier, last.unit)
