"""Show a report: as HTML in a notebook, as text, and for a terminal."""

import html
import io
from typing import TYPE_CHECKING, Final

from autograder.collective_kinds import KINDS
from autograder.pictures import (
    collective_as_html,
    collective_as_text,
)
from autograder.programs.numbers_in_words import bytes_in_words, time_in_words

if TYPE_CHECKING:
    from rich.console import RenderableType
import math
from dataclasses import dataclass

from autograder.pictures import CollectivePicture, bars_as_html

MIN_SECONDS: Final = 1e-6
"""Below it, a machine takes longer to start sending than to send."""
MAX_PICTURES: Final = 8
"""Of one program."""

KEY: Final = (
    "In the pictures, a row is a device of the group with the thick outline, and a letter is what "
    "that device has to begin with."
)

STRIPS: Final = "The coloured strip under a sum says whose data are in it."

CELL: Final = "text-align:left;vertical-align:top;padding:4px 12px 4px 0"
NUMBER: Final = "text-align:right;vertical-align:top;padding:4px 0 4px 12px;white-space:nowrap"


@dataclass(frozen=True)
class ReportRow:
    """A line of the table: one collective, or several that are alike.

    Attributes:
        place: the file and the line of code that caused it, or a cell's line.
        source: that line, whole.
        kind: the kind of collective.
        over: the mesh axes that it runs over, or its groups.
        runs: how often it runs; None where a loop's count is unknown.
        sometimes: whether it runs that often at most.
        bytes: of the whole buffer on each device, in one run.
        sent: the bytes that each device sends in one run.
        seconds: what all runs take on the report's machine.
    """

    place: str
    source: str
    kind: str
    over: str
    runs: int | None
    sometimes: bool
    bytes: int
    sent: int
    seconds: float

    @property
    def times(self) -> str:
        """How often it runs, in a table: nothing for once."""
        if self.runs is None:
            return "× ?"
        if self.sometimes:
            return f"× {self.runs} at most"
        return f"× {self.runs:,}" if self.runs != 1 else ""


@dataclass(frozen=True)
class ShownReport:
    """All that is shown of a report.

    Attributes:
        rows: the table.
        bytes: of all buffers on each device, in all runs.
        sent: the bytes that each device sends in all runs.
        summary: the report in a line.
        machine: the machine that times are reckoned for.
        computing: the seconds that computing takes there; infinite where nobody knows.
        communicating: the seconds that sending takes there.
        scaled: which sizes took the place of which, in words, if any did.
        pictures: one for each kind of exchange.
    """

    rows: list[ReportRow]
    bytes: int
    sent: int
    summary: str
    machine: str
    computing: float
    communicating: float
    scaled: str
    pictures: list[CollectivePicture]


def is_timed(report: ShownReport) -> bool:
    """Whether sending takes long enough for a time to mean anything."""
    return report.communicating >= MIN_SECONDS


def times_in_words(report: ShownReport) -> str:
    """What computing and communicating take on the report's machine, where that means anything."""
    if not is_timed(report) and not report.scaled:
        if not report.rows:
            return ""
        return (
            f"On {report.machine}, sending takes less than a microsecond: starting a message "
            f"costs more than sending it."
        )
    computing, communicating = report.computing, report.communicating
    if not math.isfinite(computing):
        return (
            f"On {report.machine}, communicating takes {time_in_words(communicating)}; how long "
            f"arithmetic takes is unknown, for nobody knows how much a loop does."
        )
    said = (
        f"On {report.machine}, arithmetic takes {time_in_words(computing)} and communicating "
        f"{time_in_words(communicating)}"
    )
    if max(computing, communicating) < MIN_SECONDS:
        return f"{said}. Starting either takes longer."
    if communicating > computing:
        return f"{said}. Even if both happen at once, the devices wait for data."
    return f"{said}. If both happen at once, communication is hidden behind arithmetic."


def times_as_html(report: ShownReport) -> str:
    """Two bars and a sentence; where nothing takes a microsecond, the sentence."""
    said = times_in_words(report)
    if not said:
        return ""
    amounts = [
        (name, amount, time_in_words(amount))
        for name, amount in (
            ("arithmetic", report.computing), ("communicating", report.communicating),
        )
        if math.isfinite(amount)
    ]  # fmt: skip
    worth = (
        max(report.computing, report.communicating) >= MIN_SECONDS and "and communicating" in said
    )
    bars = bars_as_html(amounts) if worth else ""
    return f'<div style="margin:8px 0">{bars}<div>{html.escape(said)}</div></div>'


def report_as_html(report: ShownReport) -> str:
    """The table, what it takes on a machine, and a picture for each kind of exchange."""
    summary = f'<div style="margin:4px 0">{html.escape(report.summary)}</div>'
    shown = report.pictures[:MAX_PICTURES]
    drawn = "".join(map(collective_as_html, shown, [None, *shown]))
    sums = f" {STRIPS}" * any(KINDS[p.kind].reduces for p in shown)
    key = f'<div style="margin:12px 0 0">{KEY}{sums}</div>' if drawn else ""
    return (
        f"<div>{_scaled(report)}{_table(report)}{summary}{times_as_html(report)}{key}{drawn}"
        f"{_left_out(report)}</div>"
    )


def report_as_text(report: ShownReport) -> str:
    """The same in text, with the pictures as tables."""
    from rich.console import Console

    written = io.StringIO()
    console = Console(file=written, width=120, color_system=None, force_jupyter=False)
    console.print(report_for_terminal(report))
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()).strip("\n")


def report_for_terminal(report: ShownReport) -> "RenderableType":
    """The same for a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = [Text(_scaled_in_words(report))] if report.scaled else []
    rows = report.rows
    if rows:
        table = Table(box=SIMPLE_HEAD)
        for name in _headings(report, rows):
            left = name in ("line", "collective", "over")
            table.add_column(name, justify="left" if left else "right", overflow="fold")
        for row in rows:
            line = f"{row.place}  {row.source}".strip()
            table.add_row(*(Text(word) for word in (line, *_words(report, row, rows))))
        parts.append(table)
    parts.append(Text(report.summary))
    parts += [Text(said) for said in (times_in_words(report),) if said]
    parts += [
        Text(f"\n{collective_as_text(picture)}") for picture in report.pictures[:MAX_PICTURES]
    ]
    return Group(*parts)


def _table(report: ShownReport) -> str:
    rows = report.rows
    if not rows:
        return ""
    left = ("line", "collective", "over")
    head = "".join(
        f'<th style="{CELL if name in left else NUMBER};white-space:normal">'
        f"{html.escape(name)}</th>"
        for name in _headings(report, rows)
    )
    body = "".join(
        f'<tr><td style="{CELL};overflow-wrap:anywhere">{_code(row, above)}</td>'
        + "".join(
            f'<td style="{CELL if i < 2 else NUMBER}">{html.escape(word)}</td>'
            for i, word in enumerate(_words(report, row, rows))
        )
        + "</tr>"
        for row, above in zip(rows, [None, *rows], strict=False)
    )
    total = _total(report, rows)
    return (
        f'<table style="border-collapse:collapse;margin:0;table-layout:auto"><thead><tr>{head}'
        f"</tr></thead><tbody>{body}{total}</tbody></table>"
    )


def _code(row: ReportRow, above: ReportRow | None) -> str:
    """The line of code, whole; nothing where it stands in the row above."""
    if above is not None and (row.place, row.source) == (above.place, above.source):
        return ""
    place, source = html.escape(row.place), html.escape(row.source)
    return f'<div style="opacity:.75">{place}</div><code>{source}</code>'


def _total(report: ShownReport, rows: list[ReportRow]) -> str:
    """The sums of what is sent, where there is more than one run."""
    if len(rows) == 1 and rows[0].runs == 1:
        return ""
    words = ["all together", "", "", *([""] if _repeats(rows) else [])]
    words += [bytes_in_words(report.bytes), bytes_in_words(report.sent)]
    words += [time_in_words(report.communicating)] if is_timed(report) else []
    return (
        "<tr>"
        + "".join(
            f'<td style="{CELL if i < 3 else NUMBER};font-weight:600">{html.escape(word)}</td>'
            for i, word in enumerate(words)
        )
        + "</tr>"
    )


def _headings(report: ShownReport, rows: list[ReportRow]) -> list[str]:
    times = ["times"] if _repeats(rows) else []
    taken = [f"on {report.machine}"] if is_timed(report) else []
    return ["line", "collective", "over", *times, "bytes", "sent", *taken]


def _words(report: ShownReport, row: ReportRow, rows: list[ReportRow]) -> list[str]:
    """What stands in a row of the table, but for the line of code."""
    times = [row.times] if _repeats(rows) else []
    taken = [time_in_words(row.seconds)] if is_timed(report) else []
    bytes_and_sent = [bytes_in_words(row.bytes), bytes_in_words(row.sent)]
    return [row.kind, row.over, *times, *bytes_and_sent, *taken]


def _repeats(rows: list[ReportRow]) -> bool:
    return any(row.times for row in rows)


def _scaled(report: ShownReport) -> str:
    if not report.scaled:
        return ""
    return f'<div style="margin:4px 0"><b>{html.escape(_scaled_in_words(report))}</b></div>'


def _scaled_in_words(report: ShownReport) -> str:
    return f"Scaled up, and not run: {report.scaled}, floating-point numbers as bfloat16."


def _left_out(report: ShownReport) -> str:
    more = len(report.pictures) - MAX_PICTURES
    return f"<div>{more} more kinds of exchange are not drawn.</div>" if more > 0 else ""
