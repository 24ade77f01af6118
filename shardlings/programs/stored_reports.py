"""Store the numbers of a report as JSON, and compare two reports.

    >>> stored = StoredReport.of(communication(step, params, batch))
    >>> StoredReport.from_json(stored.to_json()) == stored
    True

A stored report has what its table shows, and not the devices, so that one can be read on any
machine. Two reports are compared by the text of the lines of code, because an edit elsewhere moves
their numbers.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import jax
import msgspec

from shardlings.documents import (
    Block,
    Content,
    Document,
    Paragraph,
    ShownAsDocument,
    Small,
    Table,
    TableRow,
)
from shardlings.errors import ShortError, UsageError
from shardlings.programs.numbers_in_words import (
    BYTES,
    bytes_with_unit,
    choose_byte_unit,
    count_in_words,
)
from shardlings.programs.report import Report, place_of, source_of
from shardlings.programs.target_reports import TargetReports


class StoredReportError(ShortError, ValueError):
    """A text is not a stored report; the message says why."""


class StoredRow(msgspec.Struct, frozen=True):
    """A line of code, and one kind of collective that it causes.

    Attributes:
        place: the file and the number of the line, such as `train.py:31`; empty if unknown.
        source: the text of the line; empty if unknown.
        kind: the kind of collective.
        over: the mesh axes that it runs over, in words.
        arrays: the arrays that are communicated, in words.
        dtypes: their types, in words.
        runs: how often it runs; None if a loop's length is unknown.
        bytes: the bytes of the buffers on each device, in all runs.
        sent: the bytes that each device sends in all runs.
    """

    place: str
    source: str
    kind: str
    over: str
    arrays: str
    dtypes: str
    runs: int | None
    bytes: int
    sent: float

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The file, the line's text, the kind and the axes, by which rows are matched."""
        return self.place.rpartition(":")[0], self.source or self.place, self.kind, self.over


class StoredReport(msgspec.Struct, frozen=True):
    """The numbers of a report.

    Attributes:
        rows: the rows of its table.
        bytes: the bytes of all collectives' buffers on each device.
        sent: the bytes that each device sends.
        peak_bytes: the bytes of memory on each device at the peak; None if unknown.
        flops: the floating-point operations on each device; None if unknown.
        jax: the version of JAX that compiled the program; empty if it was dumped elsewhere.
        scaled: which sizes were replaced by which, in words; empty if none were.
        is_unoptimised: whether it has none yet of the collectives that the compiler adds.
        format_version: the version of this format, in files `schema`.
    """

    rows: tuple[StoredRow, ...]
    bytes: int
    sent: int
    peak_bytes: int | None
    flops: float | None
    jax: str
    scaled: str = ""
    is_unoptimised: bool = False
    format_version: Literal[1] = msgspec.field(default=1, name="schema")

    @classmethod
    def of(cls, report: Report | TargetReports) -> "StoredReport":
        """Return the numbers of a report, for a target those of the program for it."""
        report = report.tpu if isinstance(report, TargetReports) else report
        rows = [
            StoredRow(
                place_of(row.lines[0]) if row.lines else "",
                source_of(row.lines[0]) if row.lines else "",
                row.kind,
                row.over,
                row.arrays,
                row.dtypes,
                row.runs,
                row.bytes,
                row.sent,
            )
            for row in report.rows()
        ]
        return cls(
            tuple(rows),
            report.bytes,
            report.sent,
            report.peak_bytes or None,
            report.flops if math.isfinite(report.flops) else None,
            "" if report.source else jax.__version__,
            report.scaled,
            report.is_unoptimised,
        )

    @classmethod
    def from_json(cls, text: str) -> "StoredReport":
        """Read a stored report.

        Raises:
            StoredReportError: the text is not a stored report, or one of another version.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise StoredReportError(
                f"This is not a report that this version of shardlings stored: {error}. Store it "
                f"again."
            ) from None

    def to_json(self) -> str:
        """Return the report as JSON that people can read and compare line by line."""
        return msgspec.json.format(msgspec.json.encode(self)).decode() + "\n"


TOTALS: Final = {
    "bytes": "buffers of collectives", "sent": "bytes that are sent",
    "peak_bytes": "memory at the peak",
    "flops": "floating-point operations",
}  # fmt: skip
"""The numbers of a whole program that must not grow, in words."""


MIN_SHOWN_SHARE: Final = 0.01
"""A growth by less than this share is told as an amount."""


@dataclass(frozen=True)
class Change:
    """A line of code and a kind of collective, in two reports.

    Attributes:
        before: its rows in the first report.
        now: its rows in the second.
    """

    before: tuple[StoredRow, ...]
    now: tuple[StoredRow, ...]

    @property
    def row(self) -> StoredRow:
        """A row that describes it, in the second report if it is there."""
        return (*self.now, *self.before)[0]

    @property
    def bytes(self) -> tuple[int, int]:
        """The bytes of the buffers, in both reports."""
        return sum(row.bytes for row in self.before), sum(row.bytes for row in self.now)

    @property
    def arrays(self) -> str:
        """The arrays that are communicated, and those before if they were others."""
        arrays = [", ".join(dict.fromkeys(r.arrays for r in each)) for each in self._both()]
        before, now = arrays
        if not (before and now) or before == now:
            return now or before
        return f"{now}, before: {before}"

    def _both(self) -> tuple[tuple[StoredRow, ...], tuple[StoredRow, ...]]:
        return self.before, self.now

    @property
    def what(self) -> str:
        """The change in a word: new, gone, larger, smaller, or same."""
        before, now = self.bytes
        if not self.before or not self.now:
            return "new" if self.now else "gone"
        return "larger" if now > before else "smaller" if now < before else "same"


@dataclass(frozen=True, repr=False)
class ReportComparison(ShownAsDocument):
    """Two reports, line by line.

    Attributes:
        before: the first.
        now: the second.
    """

    before: StoredReport
    now: StoredReport

    def changes(self) -> list[Change]:
        """Return what each line of code communicates in both reports, the largest growth first."""
        keys = dict.fromkeys(row.key for row in (*self.now.rows, *self.before.rows))
        changes = [
            Change(*(tuple(r for r in each.rows if r.key == key) for each in self._both()))
            for key in keys
        ]
        return sorted(changes, key=lambda change: change.bytes[0] - change.bytes[1])

    def find_growth(self, tolerance: float = 0.0) -> list[str]:
        """Return a sentence for each number of the whole program that has grown.

        Args:
            tolerance: the growth that is allowed, as a share: 0.02 for two per cent.
        """
        return [*self._grown(tolerance)]

    def document(self) -> Document:
        """Return a table of what has changed, and the numbers of both programs."""
        changes = [change for change in self.changes() if change.what != "same"]
        blocks: list[Block] = [self._table(changes)] if changes else []
        same = len(self.changes()) - len(changes)
        if same:
            other = "other " * bool(changes)
            blocks.append(
                Paragraph(
                    f"1 {other}collective is the same as before."
                    if same == 1
                    else f"{same} {other}collectives are the same as before."
                )
            )
        blocks.append(Paragraph(self._totals()))
        if self.before.jax and self.now.jax and self.before.jax != self.now.jax:
            blocks.append(
                Paragraph(
                    f"They were compiled by JAX {self.before.jax} and {self.now.jax}, and another "
                    f"compiler may communicate differently."
                )
            )
        return Document(tuple(blocks))

    def _both(self) -> tuple[StoredReport, StoredReport]:
        return self.before, self.now

    def _grown(self, tolerance: float) -> Iterator[str]:
        unknown = [sum(row.runs is None for row in each.rows) for each in self._both()]
        if unknown[1] > unknown[0]:
            yield (
                "The length of a loop with a collective is not known any more, so the bytes of its "
                "rows are those of one turn."
            )
        for name, words in TOTALS.items():
            before, now = (getattr(each, name) for each in self._both())
            if before is None or now is None:
                if before is not None:
                    is_one = name == "peak_bytes"
                    yield f"The {words} {'is' if is_one else 'are'} not known any more."
                continue
            if now > before * (1 + tolerance):
                written = count_in_words if name == "flops" else bytes_with_unit
                factor, more = now / before if before else math.inf, written(now - before)
                if factor < 1 + MIN_SHOWN_SHARE:
                    share = f", {more} more"
                elif factor < 2:
                    share = f", {factor - 1:.0%} more"
                else:
                    share = f", {factor:,.1f} times" if before else ""
                yield f"{words.capitalize()}: {written(before)} before, {written(now)} now{share}."

    def _table(self, changes: Sequence[Change]) -> Table:
        unit = choose_byte_unit([float(size) for change in changes for size in change.bytes])
        what = "bytes" if unit == BYTES else f"bytes, in {unit.name}"
        rows = []
        for change in changes:
            row = change.row
            line: tuple[Content, ...] = ()
            if row.place:
                line = ((Small(row.place), " ", row.source),)
            cells: tuple[Content, ...] = (
                change.what, f"{row.kind} {change.arrays}".strip(), row.over,
                *(unit.write(size) for size in change.bytes),
            )  # fmt: skip
            rows.append(TableRow(cells, above=line))
        headings = ("", "line and collective", "over", f"{what}, before", "now")
        return Table(headings, tuple(rows), "lllrr")

    def _totals(self) -> str:
        flops = [
            "unknown" if each.flops is None else count_in_words(each.flops) for each in self._both()
        ]
        buffers = [bytes_with_unit(each.bytes) for each in self._both()]
        memory = [
            "an unknown amount" if each.peak_bytes is None else bytes_with_unit(each.peak_bytes)
            for each in self._both()
        ]
        return (
            f"All together, before and now: {buffers[0]} and {buffers[1]} of buffers; {memory[0]} "
            f"and {memory[1]} of memory at the peak; {flops[0]} and {flops[1]} floating-point "
            f"operations on each device."
        )


def compare(
    before: Report | TargetReports | StoredReport, now: Report | TargetReports | StoredReport
) -> ReportComparison:
    """Compare what two programs communicate, or one before and after a change.

    Args:
        before: a report, or a stored one; of a report with a target, the program for it counts.
        now: another.

    Returns:
        A `ReportComparison`, which is displayed as a table of what is new, gone, larger or smaller.

    Raises:
        UsageError: only one of them is of a program that was optimised, or they are scaled to
            other sizes.
    """
    first, second = (
        each if isinstance(each, StoredReport) else StoredReport.of(each) for each in (before, now)
    )
    if first.is_unoptimised != second.is_unoptimised:
        raise UsageError(
            "Only one of these programs was optimised before it was dumped, and the other has none "
            "of the collectives that the compiler adds. Compare two dumps of one kind, such as "
            "….after_optimizations.hlo.pb."
        )
    if first.scaled != second.scaled:
        sizes = [each.scaled or "as they are" for each in (first, second)]
        raise UsageError(
            f"These reports are of different sizes: {sizes[0]}, and {sizes[1]}. Compare reports "
            f"with the same `scaled`."
        )
    return ReportComparison(first, second)
