"""Verdicts as words and pictures: text, rich tables for a terminal, HTML for a notebook."""

import html
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autograder.errors import explanation
from autograder.judge.drawing import pictures_of
from autograder.judge.verdict import Finding, Trade, Verdict
from autograder.pictures import (
    blocks_as_html,
    blocks_for_terminal,
    display,
    pictures_as_text,
    tradeoff_as_html,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

HEADLINES: Final = {
    "right": "right",
    "partly": "partly right",
    "wrong": "not yet",
    "unanswered": "not answered yet",
    "failed": "not judged, and not your answer's fault",
}
MARKS: Final = {"right": "✓", "partly": "◐", "wrong": "✗", "unanswered": "○", "failed": "⚠"}
# Darker shades of the palette in `autograder.pictures`, with enough contrast on white and on black.
COLOURS: Final = {
    "right": "#0b8a68", "partly": "#b07a00", "wrong": "#d0560a", "unanswered": "#7a7a7a",
    "failed": "#8a4f9e",
}  # fmt: skip


_attempts: Final[dict[str, dict[str, list[Trade]]]] = {}
"""For each exercise and answer that trades one thing for another, what was tried in this kernel."""


def headline(verdict: Verdict) -> str:
    """One line: the mark, the exercise and how it stands."""
    share = f" ({verdict.score:.0%})" if verdict.state == "partly" else ""
    return (
        f"{MARKS[verdict.state]} {verdict.exercise} {verdict.title}: "
        f"{HEADLINES[verdict.state]}{share}"
    )


def sentences(verdict: Verdict) -> list[str]:
    """What was asked, what came and the difference, of each finding, in words.

    The cells of a table that are right, or still empty, are said together.
    """
    several = len(verdict.findings) > 1
    return [
        "".join(f"{heading}: " for heading in [group.heading] if several)
        + "\n".join(f"{label}: {words}" if label else words for label, words in group.rows)
        for group in _groups(verdict)
    ]


@dataclass(frozen=True)
class _Group:
    """What is said together: of one finding, or of several cells of a table alike."""

    heading: str
    state: str
    rows: tuple[tuple[str, str], ...]


def _groups(verdict: Verdict) -> list[_Group]:
    """What is to be said, in the order of the answers; what is alike about an answer, once."""
    if verdict.fault is not None:
        happened, to_do = explanation(verdict.fault)
        return [_Group(verdict.exercise, "failed", (("", happened), ("", to_do)))]
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in verdict.findings:
        state = _state(finding)
        wrong = (finding.cell, finding.diagnosis, finding.difference) if state == "wrong" else ()
        alike.setdefault((finding.answer, state, *wrong), []).append(finding)
    order = {name: i for i, name in enumerate(f.answer for f in verdict.findings)}
    groups = sorted(alike.values(), key=lambda findings: order[findings[0].answer])
    counted = [_Group("Points", verdict.state, (("", note),)) for note in verdict.notes]
    return [*(_group(findings) for findings in groups), *counted]


def _group(findings: list[Finding]) -> _Group:
    """What is said of findings that are alike."""
    first, state = findings[0], _state(findings[0])
    if first.cell and state != "wrong":
        label = {"right": "Right", "unanswered": "Still to fill in"}[state]
        return _Group(first.answer, state, ((label, "; ".join(f.cell for f in findings)),))
    if state == "right":
        return _Group(first.answer, state, (("Right", f"{'; '.join(f.came for f in findings)}."),))
    heading = f"{first.answer}[{first.cell!r}]" if first.cell else first.answer
    asked = tuple(("Asked", _stop(f.asked)) for f in findings)
    if state == "unanswered":
        return _Group(heading, state, (*asked, ("", first.difference)))
    came = tuple(("Came", _stop(words)) for words in dict.fromkeys(f.came for f in findings))
    return _Group(heading, state, (*asked, *came, ("Difference", first.difference)))


def _state(finding: Finding) -> str:
    if finding.met:
        return "right"
    return "unanswered" if finding.diagnosis == "unanswered" else "wrong"


def verdict_as_text(verdict: Verdict) -> str:
    """The whole verdict as plain text, pictures too."""
    parts = [headline(verdict), *sentences(verdict)]
    return "\n".join([*parts, *map(pictures_as_text, pictures_of(verdict))])


def verdict_in_lines(verdict: Verdict) -> str:
    """The verdict in lines that are short enough for `nbgrader validate`, which cuts long ones."""
    lines = [line for words in sentences(verdict) for line in words.splitlines()]
    wrapped = [textwrap.fill(line, 80, subsequent_indent="  ") for line in lines]
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
        *(Text(sentence) for sentence in sentences(verdict)),
        *map(blocks_for_terminal, pictures_of(verdict)),
    )


def verdict_as_html(
    verdict: Verdict, earlier: Mapping[str, Sequence[Trade]] | None = None, whole: bool = False
) -> str:
    """The verdict as HTML, for a notebook and for nbgrader's feedback page.

    Args:
        verdict: what the judge says.
        earlier: for each answer that trades one thing for another, the attempts before this one.
        whole: whether targets are drawn, too, of answers of which there is no picture.
    """
    colour = COLOURS[verdict.state]
    pictures = "".join(map(blocks_as_html, pictures_of(verdict, whole)))
    return (
        f'<div style="border-left:4px solid {colour};padding:2px 0 2px 12px">'
        f'<div style="font-weight:600">{html.escape(headline(verdict))}</div>'
        + "".join(_block(group, several=len(verdict.findings) > 1) for group in _groups(verdict))
        + "".join(
            _trades(f.answer, [*(earlier or {}).get(f.answer, ()), f.trade])
            for f in verdict.findings
            if f.trade is not None
        )
        + f"{pictures}</div>"
    )


def _block(group: _Group, several: bool) -> str:
    """The sentences of a group; its heading and mark go before, where there are more."""
    name = f"<div>{MARKS[group.state]} <code>{html.escape(group.heading)}</code></div>"
    return name * several + "".join(
        f"<div>{f'<b>{label}</b>: ' if label else ''}{html.escape(words)}</div>"
        for label, words in group.rows
    )


def _trades(answer: str, trades: Sequence[Trade]) -> str:
    """The attempts at a trade, the latest last, beside the best that is known."""
    attempts, last = [(trade.held, trade.moved) for trade in trades], trades[-1]
    return tradeoff_as_html(answer, attempts, last.cap, last.frontier)


def _stop(words: str) -> str:
    return words if words.endswith((".", "!", "?", "…")) else f"{words}."
