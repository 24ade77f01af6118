"""A report on a program: its collectives, what they cost, their lines and their pictures."""

import linecache
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Final

import jax

from autograder.collective_kinds import KINDS
from autograder.documents import (
    Bar,
    Block,
    Code,
    Content,
    Document,
    Figure,
    Heading,
    Paragraph,
    ShownAsDocument,
    Small,
    Table,
    TableRow,
    as_html,
)
from autograder.errors import UsageError
from autograder.pictures import (
    CollectivePicture,
    Roofline,
    collective_as_html,
    collective_as_text,
)
from autograder.programs.collective import MACHINES, Collective, communication_seconds, wire_bytes
from autograder.programs.collective_pictures import axes_in_words, pictures_of
from autograder.programs.numbers_in_words import (
    bytes_in_words,
    bytes_with_unit,
    count_in_words,
    time_in_words,
)
from autograder.programs.report_rooflines import MIN_SECONDS, Measured, roofline_of

MACHINE: Final = "TPU v5e"
"""The default machine for times."""

MAX_PICTURES: Final = 8

KEY: Final = (
    "In the pictures, a row is a device of the group with the thick outline, and a letter is what "
    "that device has to begin with."
)

KEY_TO_SUMS: Final = " The coloured strip under a sum says whose data are in it."


@dataclass(frozen=True)
class ReportRow:
    """A row of the table: one collective, or several that are alike.

    Attributes:
        place: the file and line of the code that causes it, or a cell's line.
        source: that line of code.
        kind: the kind of collective.
        over: the mesh axes that it runs over, or its groups.
        runs: how often it runs; None if a loop's count is unknown.
        sometimes: whether `runs` is only an upper bound.
        bytes: the bytes of the buffer on each device, in one run.
        sent: the bytes that each device sends in one run.
        seconds: the time of all runs on the report's machine.
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
        """How often it runs, as the table shows it; empty for once."""
        if self.runs is None:
            return "× ?"
        if self.sometimes:
            return f"× {self.runs} at most"
        return f"× {self.runs:,}" if self.runs != 1 else ""

    @property
    def line(self) -> Content:
        """The line of code, below its place."""
        return (Small(self.place), " ", Code(self.source)) if self.source else Small(self.place)


@dataclass(frozen=True, repr=False)
class Report(ShownAsDocument):
    """What a compiled program communicates, and what it costs on each device.

    Attributes:
        collectives: the collectives, in the order of the program.
        mesh: the mesh that names their axes, if there is one.
        flops: floating-point operations on each device by XLA's count, in all runs of loops;
            infinite if the count of a loop is unknown.
        peak_bytes: bytes on each device for arguments, results and temporaries.
        machine: the name of the machine that times are for, a key of `MACHINES`.
        steps: whether the pictures show each step on a ring.
        scaled: which sizes were replaced by which, in words; empty if none were.
    """

    collectives: tuple[Collective, ...]
    mesh: jax.sharding.Mesh | None
    flops: float
    peak_bytes: int
    machine: str = MACHINE
    steps: bool = False
    scaled: str = ""

    @property
    def sent(self) -> int:
        """The bytes that each device sends in all runs, on rings.

        An all-reduce sends its buffer around the ring twice, the other collectives once.
        """
        return round(sum((c.times or 1) * wire_bytes(c) for c in self.collectives))

    @property
    def bytes(self) -> int:
        """The bytes of all collectives' buffers on each device, in all runs."""
        return sum(collective.total_bytes for collective in self.collectives)

    @property
    def communicating(self) -> float:
        """The seconds that sending takes on the report's machine."""
        return sum(communication_seconds(c, MACHINES[self.machine]) for c in self.collectives)

    @property
    def computing(self) -> float:
        """The seconds that computing takes on the report's machine, at its peak."""
        return self.flops / MACHINES[self.machine].flops

    def rows(self) -> list[ReportRow]:
        """Return the table's rows; collectives that are alike share one."""
        found: dict[ReportRow, list[int]] = {}
        machine = MACHINES[self.machine]
        for c in self._as_written():
            row = ReportRow(
                *_line(c),
                kind=c.kind,
                over=axes_in_words(c),
                runs=c.times,
                sometimes=c.sometimes,
                bytes=c.bytes,
                sent=round(wire_bytes(c)),
                seconds=communication_seconds(c, machine),
            )
            found.setdefault(row, []).append(1)
        return [_folded(row, len(same)) for row, same in found.items()]

    def pictures(self) -> list[CollectivePicture]:
        """Return a picture for each kind of exchange."""
        return pictures_of(self._as_written(), self.mesh, steps=self.steps)

    def roofline(self, name: str = "this program", /, **others: "Report") -> Roofline:
        """Return the roofline of the report's machine, with this program and others on it.

        `report.roofline("by rows", by_columns=other)` draws two programs. Times are those of large
        buffers, so it is most useful for a report that is scaled up:
        `communication(f, x, scaled=…)`.

        Args:
            name: this program's name in the picture.
            **others: reports on other programs for the same machine, by their names.

        Returns:
            A `Roofline`, which shows itself as a picture, and as text.

        Raises:
            UsageError: the name is empty, an argument is not a report, or a report is for another
                machine.
        """
        if not isinstance(name, str) or not name.strip():
            raise UsageError(
                "What comes first is the name of this program in the picture; other reports have "
                'their names before them: report.roofline("by rows", by_columns=other).'
            )
        for other, report in others.items():
            if not isinstance(report, Report):
                raise UsageError(
                    f"{other} is to be a report, as communication(f, x) gives one; "
                    f"{type(report).__name__} came."
                )
            if report.machine != self.machine:
                raise UsageError(
                    f"A roofline is that of one machine: this report is for {self.machine}, and "
                    f"{other} for {report.machine}. communication(…, machine={self.machine!r}) "
                    f"makes one for the same."
                )
        if name in others:
            raise UsageError(f"Two programs are called {name!r}; each needs a name of its own.")
        programs = {name: self, **others}
        return roofline_of(
            [report._measured(called) for called, report in programs.items()],
            MACHINES[self.machine],
        )

    def _measured(self, name: str) -> Measured:
        is_unknown = any(c.times is None for c in self.collectives)
        sent = math.inf if is_unknown else self.sent
        return Measured(name, self.flops, sent, self.computing, self.communicating)

    def summary(self) -> str:
        """Return one line: what is communicated, computed and held on each device.

        What is sent is included if sizes were scaled up, because it determines the time.
        """
        sent = f" of buffers, {bytes_with_unit(self.sent)} sent" if self.scaled else ""
        communicated = (
            f"{len(self.collectives)} collective{'s' * (len(self.collectives) != 1)}, "
            f"{bytes_with_unit(self.bytes)}{sent}"
            if self.collectives
            else "no communication"
        )
        flops = count_in_words(self.flops) if math.isfinite(self.flops) else "an unknown number of"
        return (
            f"{communicated}; on each device {flops} floating-point operations "
            f"and {bytes_with_unit(self.peak_bytes)} of memory"
        )

    def lines(self) -> list[tuple[str, int]]:
        """Return the bytes that each line of code causes, the most first."""
        found: dict[str, int] = {}
        for c in self.collectives:
            line = "  ".join(_line(c)).strip()
            found[line] = found.get(line, 0) + c.total_bytes
        return sorted(found.items(), key=lambda pair: -pair[1])

    def document(self) -> Document:
        """Return the report as a document: the table, times, and a picture for each exchange."""
        blocks: list[Block] = []
        if self.scaled:
            sizes = f"{self.scaled}, floating-point numbers as bfloat16"
            blocks.append(Heading(f"Scaled up, and not run: {sizes}."))
        rows = self.rows()
        blocks += [self._table(rows)] if rows else []
        blocks += [Paragraph(self.summary()), *self._times()]
        # at another size the program does the same, and that has been drawn
        pictures = self.pictures() if self.steps or not self.scaled else []
        return Document((*blocks, *_figures(pictures)))

    def _is_timed(self) -> bool:
        """Check whether sending takes long enough for its time to mean anything."""
        return self.communicating >= MIN_SECONDS

    def _table(self, rows: list[ReportRow]) -> Table:
        repeats, is_timed = any(row.times for row in rows), self._is_timed()
        amounts = ["bytes each", "sent each"] if repeats else ["bytes", "sent"]
        columns = ["line", "collective", "over", "times", *amounts, f"on {self.machine}"]
        is_shown = (True, True, True, repeats, True, True, is_timed)
        shown = []
        for above, row in zip([None, *rows], rows, strict=False):
            is_same = above is not None and (above.place, above.source) == (row.place, row.source)
            cells: list[Content] = ["" if is_same else row.line, row.kind, row.over, row.times]
            cells += _amounts(row.bytes, row.sent, row.seconds)
            shown.append(TableRow(tuple(compress(cells, is_shown))))
        if len(rows) > 1 or rows[0].runs != 1:
            cells = ["all together", "", "", ""]
            cells += _amounts(self.bytes, self.sent, self.communicating)
            shown.append(TableRow(tuple(compress(cells, is_shown)), is_bold=True))
        align = "".join(compress("lllrrrr", is_shown))
        return Table(tuple(compress(columns, is_shown)), tuple(shown), align)

    def _times(self) -> Iterator[Block]:
        """Yield what computing and communicating take, with bars, where that means anything."""
        if not self._is_timed() and not self.scaled:
            if self.collectives:
                yield Paragraph(
                    f"On {self.machine}, sending takes less than a microsecond: starting a message "
                    f"costs more than sending it."
                )
            return
        computing, communicating = self.computing, self.communicating
        if not math.isfinite(computing):
            yield Paragraph(
                f"On {self.machine}, communicating takes {time_in_words(communicating)}; how long "
                f"arithmetic takes is unknown, for nobody knows how much a loop does."
            )
            return
        longest = max(computing, communicating)
        if longest < MIN_SECONDS:
            conclusion = "Starting either takes longer."
        elif communicating > computing:
            conclusion = "Even if both happen at once, the devices wait for data."
        else:
            conclusion = "If both happen at once, communication is hidden behind arithmetic."
        if longest >= MIN_SECONDS:
            amounts = (("arithmetic", computing), ("communicating", communicating))
            bars = [(name, Bar(t / longest, name), time_in_words(t)) for name, t in amounts]
            yield Table((), tuple(map(TableRow, bars)))
        yield Paragraph(
            f"On {self.machine}, arithmetic takes {time_in_words(computing)} and communicating "
            f"{time_in_words(communicating)}. {conclusion}"
        )

    def _as_written(self) -> list[Collective]:
        """Return the collectives in the order of the lines of code, not the compiler's."""
        files = list(dict.fromkeys(c.where.file for c in self.collectives if c.where))
        return sorted(
            self.collectives,
            key=lambda c: (files.index(c.where.file), c.where.line) if c.where else (len(files), 0),
        )


def _folded(row: ReportRow, count: int) -> ReportRow:
    """Return one row for several that are alike."""
    runs = None if row.runs is None else row.runs * count
    return replace(row, runs=runs, seconds=row.seconds * count)


def _amounts(buffers: float, sent: float, taken: float) -> list[str]:
    return [bytes_in_words(buffers), bytes_in_words(sent), time_in_words(taken)]


def _figures(pictures: list[CollectivePicture]) -> Iterator[Block]:
    """Yield the pictures with their key, as far as there is room for them."""
    shown = pictures[:MAX_PICTURES]
    if shown:
        key = KEY + KEY_TO_SUMS * any(KINDS[p.kind].reduces for p in shown)
        # in text, pictures have neither outlines nor strips
        yield Figure(html=partial(as_html, Document((Paragraph(key),))))
    for above, picture in zip([None, *shown], shown, strict=False):
        yield Figure(
            html=partial(collective_as_html, picture, above),
            text=partial(collective_as_text, picture),
        )
    more = len(pictures) - len(shown)
    if more:
        yield Paragraph(f"{more} more kinds of exchange are not drawn.")


def _line(collective: Collective) -> tuple[str, str]:
    """Return the place and the text of the line of code that causes a collective."""
    frame = collective.where
    if frame is None:
        return "", ""
    source = linecache.getline(frame.file, frame.line).strip()
    file = Path(frame.file)
    # a notebook's cells are files whose names are numbers
    place = f"line {frame.line}" if file.stem.isdigit() else f"{file.name}:{frame.line}"
    return place, source
