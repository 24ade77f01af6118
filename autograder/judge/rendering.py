"""Render a report as text, for a terminal, and as HTML.

The HTML has no colours of its own for words, so that it can be read in light and dark themes, and
no style that nbgrader's feedback pages would take out.
"""

import html
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from autograder.judge.report import MARKS, Table, VerdictReport, VerdictRow

if TYPE_CHECKING:
    from rich.console import RenderableType

# Darker shades of the palette in `autograder.pictures`: white on them has a contrast above 4.5.
COLOURS: Final = {
    "right": "#067253", "partly": "#8a6000", "wrong": "#b54a00", "unanswered": "#6a6a6a",
    "failed": "#7a4390",
}  # fmt: skip

MAX_ONE_LINE_CHARACTERS: Final = 40

UNBROKEN: Final = 24
"""How long code in a sentence may be, to stand on one line."""

LEFT: Final = "text-align:left;vertical-align:top"
CODE_IN_PROSE: Final = re.compile(
    r"`([^`]+)`|\b((?:hint|check)\(\"[^\"]+\"[^)]*\)|P\([^()]*(?:\([^()]*\)[^()]*)*\))"
)
"""What is code in a sentence: what stands between backticks, calls of ours, and specs."""

QUOTED: Final = re.compile(
    r"(?:(?<= of the cell: )|(?<= of another cell: ))`(.+?)`(?=\)?(?:\.|$)|, which led to )"
)
"""A line of the learner's: it is code as a whole, whatever is in it or before it."""

SAYS: Final = "JAX says: "
"""What JAX's own message begins with, which ends what is said."""

ASIDE: Final = "display:block;font-size:0.9em;opacity:.8"


def report_in_lines(report: VerdictReport) -> list[str]:
    """A report as lines of plain text."""
    lines = [report.cause] * bool(report.cause)
    lines += [f"{label + ':':<{len('Expected:')}} {words}" for label, words in report.compared]
    lines += report.below
    for table in report.tables:
        lines += _in_columns(table)
    lines += [report.legend] * bool(report.legend)
    return [*lines, *report.afterwards]


def report_for_terminal(report: VerdictReport) -> "Iterator[RenderableType]":
    """A report for a terminal: what is wide is wrapped where it stands."""
    from rich.table import Table as Columns
    from rich.text import Text

    if report.cause:
        yield Text(report.cause)
    if report.compared:
        compared = Columns.grid(padding=(0, 1))
        for label, words in report.compared:
            compared.add_row(Text(f"{label}:", style="bold"), Text(words))
        yield compared
    yield from map(Text, report.below)
    for table in report.tables:
        columns = Columns(box=None, pad_edge=False, header_style="dim")
        for name in table.columns:
            columns.add_column(Text(name), overflow="fold")
        for row in table.rows:
            columns.add_row(*map(Text, (row.name, *row.cells, row.why)))
        yield columns
    if report.legend:
        yield Text(report.legend, style="dim")
    yield from map(Text, report.afterwards)


def badge(state: str) -> str:
    """The mark of a state, on its colour."""
    return (
        f'<span style="background-color:{COLOURS[state]};padding:0 0.4em">'
        f'<b style="color:#fff">{MARKS[state]}</b></span>'
    )


def report_as_html(report: VerdictReport, unfolded: bool = False) -> Iterator[str]:
    """A report as HTML, a piece at a time.

    Args:
        report: what is to be said.
        unfolded: whether the details stand open, for a page that may be printed.
    """
    if report.cause:
        rest = report.cause.removeprefix(report.where)
        at = report.where and rest != report.cause
        where = f"<code>{html.escape(report.where)}</code>" if at else ""
        yield f'<div style="margin:4px 0">{where}{words(rest)}</div>'
    if report.compared:
        yield _compared(report.compared)
    yield from (f'<div style="margin:4px 0">{words(line)}</div>' for line in report.below)
    yield from map(_table, report.tables)
    if report.legend:
        yield f'<div style="margin:4px 0">{words(report.legend)}</div>'
    if report.details:
        names = dict.fromkeys(f"<code>{html.escape(answer)}</code>" for answer, _ in report.details)
        yield f'<details{" open" * unfolded} style="margin:4px 0">'
        yield f"<summary>Expected and got, for {', '.join(names)}</summary>"
        for answer, compared in report.details:
            if len(names) > 1:
                yield f'<div style="margin:6px 0 0 0"><code>{html.escape(answer)}</code></div>'
            yield _compared(compared)
        yield "</details>"


def afterwards_as_html(report: VerdictReport) -> Iterator[str]:
    """What comes last: how points are counted, and the way on."""
    yield from (f'<div style="margin:6px 0 0 0">{words(line)}</div>' for line in report.afterwards)


def words(text: str) -> str:
    """A sentence as HTML, with what is code in it set as code, and JAX's own message small."""
    ours, says, theirs = text.partition(SAYS)
    # every other one is a quoted line
    parts = [
        _code(part) if i % 2 else _with_names(part) for i, part in enumerate(QUOTED.split(ours))
    ]
    if says:
        parts.append(f'<span style="{ASIDE}">{SAYS}{html.escape(theirs)}</span>')
    return "".join(parts)


def _with_names(text: str) -> str:
    parts, last = [], 0
    for found in CODE_IN_PROSE.finditer(text):
        code = found[1] or found[2]
        parts += [html.escape(text[last : found.start()]), _code(code, UNBROKEN)]
        last = found.end()
    return "".join([*parts, html.escape(text[last:])])


def _code(text: str, unbroken: int = 0) -> str:
    """Code, on one line if it is short; JupyterLab breaks code wherever its cell is narrow."""
    style = ' style="white-space:nowrap"' if len(text) <= unbroken else ""
    return f"<code{style}>{html.escape(text)}</code>"


def _in_columns(table: Table) -> Iterator[str]:
    """A table as lines whose columns stand below each other; the last is as long as it is."""
    written = [table.columns, *((row.name, *row.cells, row.why) for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*written, strict=True)]
    for cells in written:
        yield "  ".join(f"{c:<{w}}" for c, w in zip(cells, widths, strict=True)).rstrip()


def _compared(pairs: Sequence[tuple[str, str]]) -> str:
    rows = "".join(
        f'<tr><td style="{LEFT};padding:1px 12px 1px 0;font-weight:600">{label}</td>'
        f'<td style="{LEFT};padding:1px 0">{words(said)}</td></tr>'
        for label, said in pairs
    )
    return f'<table style="border-collapse:collapse;margin:4px 0"><tbody>{rows}</tbody></table>'


def _table(table: Table) -> str:
    """A table of answers or of predictions, of which what is wrong catches the eye."""
    head = "".join(
        f'<th style="{LEFT};padding:2px 14px 2px 0;font-weight:600">{html.escape(name)}</th>'
        for name in table.columns
    )
    rows = "".join(f"<tr>{''.join(_row(row))}</tr>" for row in table.rows)
    return (
        f'<table style="border-collapse:collapse;margin:6px 0"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _row(row: VerdictRow) -> Iterator[str]:
    marks = {mark: state for state, mark in MARKS.items()}
    cell = f'<td style="{LEFT};padding:2px 14px 2px 0">'
    yield f"{cell}{_code(row.name, MAX_ONE_LINE_CHARACTERS)}</td>"
    for said in row.cells:
        state = marks.get(said, "right")
        stands_out = state in ("wrong", "partly")
        shown = badge(state) if stands_out else html.escape(said)
        is_mark = said in marks or len(said) < 2
        yield f"{cell}{shown if is_mark else _code(said, MAX_ONE_LINE_CHARACTERS)}</td>"
    yield f'<td style="{LEFT};padding:2px 0">{words(row.why)}</td>'
