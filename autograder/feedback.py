"""Verdicts as words and pictures: text, rich tables for a terminal, HTML for a notebook."""

import html
from typing import TYPE_CHECKING, Final

from autograder import drawing
from autograder.verdict import Finding, Verdict

if TYPE_CHECKING:
    from rich.console import RenderableType

HEADLINES: Final = {
    "right": "right",
    "partly": "partly right",
    "wrong": "not yet",
    "unanswered": "not answered yet",
}
MARKS: Final = {"right": "✓", "partly": "◐", "wrong": "✗", "unanswered": "○"}
# Darker shades of the palette in `drawing`, with enough contrast on white and on black.
COLOURS: Final = {
    "right": "#0b8a68", "partly": "#b07a00", "wrong": "#d0560a", "unanswered": "#7a7a7a",
}  # fmt: skip


def headline(verdict: Verdict) -> str:
    """One line: the mark, the exercise and how it stands."""
    met = sum(finding.met for finding in verdict.findings)
    share = f" ({met} of {len(verdict.findings)})" if verdict.state == "partly" else ""
    return (
        f"{MARKS[verdict.state]} {verdict.exercise} {verdict.title}: "
        f"{HEADLINES[verdict.state]}{share}"
    )


def sentences(verdict: Verdict) -> list[str]:
    """What was asked, what came and the difference, of each finding, in words."""
    said = []
    for finding in verdict.findings:
        name = f"{finding.answer}: " if len(verdict.findings) > 1 else ""
        if finding.met:
            said.append(f"{name}Right: {finding.came}.")
        elif finding.diagnosis == "unanswered":
            said.append(f"{name}Asked: {_stop(finding.asked)}\n{finding.difference}")
        else:
            said.append(
                f"{name}Asked: {_stop(finding.asked)}\nCame: {_stop(finding.came)}\n"
                f"Difference: {finding.difference}"
            )
    return said


def text(verdict: Verdict) -> str:
    """The whole verdict as plain text, pictures too."""
    parts = [headline(verdict), *sentences(verdict)]
    for finding in _to_draw(verdict):
        for panel in _panels(finding, len(verdict.findings) > 1):
            parts.append(f"{panel.title}:\n{drawing.plain(panel)}")
    return "\n".join(parts)


def renderable(verdict: Verdict) -> "RenderableType":
    """The verdict for a terminal."""
    from rich.console import Group
    from rich.text import Text

    return Group(
        Text(headline(verdict), style="bold"),
        *(Text(sentence) for sentence in sentences(verdict)),
        *(
            drawing.renderable(_panels(finding, len(verdict.findings) > 1))
            for finding in _to_draw(verdict)
        ),
    )


def page(verdict: Verdict) -> str:
    """The verdict as HTML, for a notebook and for nbgrader's feedback page."""
    colour = COLOURS[verdict.state]
    pictures = "".join(
        drawing.svg(_panels(finding, len(verdict.findings) > 1)) for finding in _to_draw(verdict)
    )
    return (
        f'<div style="border-left:4px solid {colour};padding:2px 0 2px 12px">'
        f'<div style="font-weight:600;color:{colour}">{html.escape(headline(verdict))}</div>'
        + "".join(_finding(f, several=len(verdict.findings) > 1) for f in verdict.findings)
        + f"{pictures}</div>"
    )


def _finding(finding: Finding, several: bool) -> str:
    """The sentences of one finding; its answer's name and mark go before, where there are more."""
    state = "right" if finding.met else "wrong"
    rows = [("Asked", finding.asked), ("Came", finding.came), ("Difference", finding.difference)]
    if finding.met:
        rows = [("Right", finding.came)]
    elif finding.diagnosis == "unanswered":
        state, rows = "unanswered", [("Asked", finding.asked), ("", finding.difference)]
    name = f"<div>{MARKS[state]} <code>{html.escape(finding.answer)}</code></div>"
    return name * several + "".join(
        f"<div>{f'<b>{label}</b>: ' if label else ''}{html.escape(words)}</div>"
        for label, words in rows
    )


def _to_draw(verdict: Verdict) -> list[Finding]:
    return [finding for finding in verdict.findings if finding.target and finding.made]


def _panels(finding: Finding, several: bool) -> list[drawing.Panel]:
    """What the answer made beside what was asked."""
    name = f" ({finding.answer})" if several else ""
    panels = []
    if finding.made is not None:
        panels.append(finding.made.panel(f"Yours{name}"))
    if finding.target is not None:
        panels.append(finding.target.panel(f"Asked{name}"))
    return panels


def _stop(words: str) -> str:
    return words if words.endswith((".", "!", "?", "…")) else f"{words}."
