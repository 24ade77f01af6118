"""A report on a program: its collectives, what they cost, and the lines that caused them."""

import linecache
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jax

from autograder.errors import UsageError
from autograder.pictures import CollectivePicture, Roofline
from autograder.programs.collective import Collective
from autograder.programs.costs import MACHINES, seconds, wire_bytes
from autograder.programs.exchanges import over_words, pictures_of
from autograder.programs.numbers_in_words import count_in_words, sized
from autograder.programs.report_pages import (
    report_as_html,
    report_as_text,
    report_for_terminal,
)
from autograder.programs.report_rooflines import Measured, roofline_of
from autograder.programs.shown_report import Row, Shown

if TYPE_CHECKING:
    from rich.console import RenderableType

MACHINE = "TPU v5e"
"""The machine that a report reckons time for, unless asked for another."""


@dataclass(frozen=True, repr=False)
class Report:
    """What a compiled program communicates, and what it takes on each device.

    Attributes:
        collectives: each collective, in the order of the program.
        mesh: the mesh whose axes they are named by, if there is one.
        flops: floating-point operations on each device, by XLA's own count, loops counted;
            infinite where nobody knows what a loop does, or how often.
        peak_bytes: bytes on each device for arguments, results and what is between them.
        machine: the name of the machine that seconds are reckoned for, one of `cost.MACHINES`.
        steps: whether the pictures show how a ring does it, step by step.
        scaled: which sizes took the place of which, in words, if any did.
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
        """The bytes that each device puts on its links, by the formulas of `programs.costs`.

        An all-reduce's buffer goes round twice, where the others' go once.
        """
        return round(sum((c.times or 1) * wire_bytes(c) for c in self.collectives))

    @property
    def bytes(self) -> int:
        """The bytes of all collectives on each device, loops counted."""
        return sum(collective.total_bytes for collective in self.collectives)

    @property
    def communicating(self) -> float:
        """The seconds that it takes to send all of it on the report's machine, and nothing else."""
        return sum(seconds(c, MACHINES[self.machine]) for c in self.collectives)

    @property
    def computing(self) -> float:
        """The seconds that it takes to compute all of it there, at the machine's full speed."""
        return self.flops / MACHINES[self.machine].flops

    def rows(self) -> list[Row]:
        """The table, those that are alike folded into one."""
        found: dict[Row, list[int]] = {}
        machine = MACHINES[self.machine]
        for c in self._as_written():
            row = Row(
                *_line(c),
                c.kind,
                over_words(c),
                c.times,
                c.sometimes,
                c.bytes,
                round(wire_bytes(c)),
                seconds(c, machine),
            )
            found.setdefault(row, []).append(1)
        return [_folded(row, len(same)) for row, same in found.items()]

    def pictures(self) -> list[CollectivePicture]:
        """A picture for each kind of exchange."""
        return pictures_of(self._as_written(), self.mesh, steps=self.steps)

    def roofline(self, name: str = "this program", /, **others: "Report") -> Roofline:
        """The roofline of the report's machine, and where this program and others are on it.

        `report.roofline("by rows", by_columns=other)` draws two programs. It takes times of large
        buffers, so it means most where a report is scaled up: `communication(f, x, scaled=…)`.

        Args:
            name: what this program is called in the picture.
            **others: reports on other programs for the same machine, by their names.

        Returns:
            A `Roofline`, which shows itself as a picture, and as text.

        Raises:
            UsageError: the name is none, an argument is no report, or a report is for another
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
        endless = any(c.times is None for c in self.collectives)
        sent = math.inf if endless else self.sent
        return Measured(name, self.flops, sent, self.computing, self.communicating)

    def summary(self) -> str:
        """One line: how much is communicated, computed and held on each device.

        What is sent is said where sizes were scaled up: there, it is what takes time.
        """
        sent = f" of buffers, {sized(self.sent)} sent" if self.scaled else ""
        said = (
            f"{len(self.collectives)} collective{'s' * (len(self.collectives) != 1)}, "
            f"{sized(self.bytes)}{sent}"
            if self.collectives
            else "no communication"
        )
        flops = count_in_words(self.flops) if math.isfinite(self.flops) else "an unknown number of"
        return (
            f"{said}; on each device {flops} floating-point operations "
            f"and {sized(self.peak_bytes)} of memory"
        )

    def lines(self) -> list[tuple[str, int]]:
        """The bytes that each line of code causes, the most first."""
        found: dict[str, int] = {}
        for c in self.collectives:
            line = "  ".join(_line(c)).strip()
            found[line] = found.get(line, 0) + c.total_bytes
        return sorted(found.items(), key=lambda pair: -pair[1])

    def __str__(self) -> str:
        """The table and the pictures as text."""
        return report_as_text(self._shown())

    __repr__ = __str__

    def __rich__(self) -> "RenderableType":
        """The same for a terminal."""
        return report_for_terminal(self._shown())

    def _repr_html_(self) -> str:
        """The table, and a picture of what each kind of collective does."""
        return report_as_html(self._shown())

    def _shown(self) -> Shown:
        return Shown(
            rows=self.rows(),
            bytes=self.bytes,
            sent=self.sent,
            summary=self.summary(),
            machine=self.machine,
            computing=self.computing,
            communicating=self.communicating,
            scaled=self.scaled,
            # at another size it does the same, which was drawn already
            pictures=self.pictures() if self.steps or not self.scaled else [],
        )

    def _as_written(self) -> list[Collective]:
        """The collectives in the order of the lines of code; a compiler's order may be any."""
        files = list(dict.fromkeys(c.where.file for c in self.collectives if c.where))
        return sorted(
            self.collectives,
            key=lambda c: (files.index(c.where.file), c.where.line) if c.where else (len(files), 0),
        )


def _folded(row: Row, count: int) -> Row:
    runs = None if row.runs is None else row.runs * count
    values = {**vars(row), "runs": runs, "seconds": row.seconds * count}
    return Row(**values)


def _line(collective: Collective) -> tuple[str, str]:
    """The line of code: its place, and itself; a notebook's cells are files without a name."""
    frame = collective.where
    if frame is None:
        return "", ""
    source = linecache.getline(frame.file, frame.line).strip()
    file = Path(frame.file)
    place = f"line {frame.line}" if file.stem.isdigit() else f"{file.name}:{frame.line}"
    return place, source
