"""A report on a program: its collectives, what they cost, their lines and their pictures."""

import linecache
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jax

from autograder.errors import UsageError
from autograder.pictures import CollectivePicture, Roofline
from autograder.programs.collective import MACHINES, Collective, seconds, wire_bytes
from autograder.programs.numbers_in_words import count_in_words, sized
from autograder.programs.report_pages import (
    ReportRow,
    ShownReport,
    report_as_html,
    report_as_text,
    report_for_terminal,
)
from autograder.programs.report_rooflines import Measured, roofline_of

if TYPE_CHECKING:
    from rich.console import RenderableType
from collections.abc import Iterator, Sequence

import numpy as np

from autograder.pictures import DrawnMesh
from autograder.programs.collective import Groups

MACHINE = "TPU v5e"
"""The machine that a report reckons time for, unless asked for another."""


def pictures_of(
    collectives: Sequence[Collective], mesh: jax.sharding.Mesh | None, *, steps: bool = False
) -> list[CollectivePicture]:
    """A picture for each kind of exchange in a program, those alike in one.

    Args:
        collectives: those of a program.
        mesh: the mesh that names their axes.
        steps: whether to draw how a ring does each.
    """
    if mesh is not None:
        known = {device.id for device in mesh.devices.flat}
        talking = {device for c in collectives for group in c.groups for device in group}
        mesh = mesh if talking <= known else None  # it is not what the program runs on
    alike: dict[tuple[str, Groups, str], list[Collective]] = {}
    for c in collectives:
        alike.setdefault((c.kind, c.groups, c.operation), []).append(c)
    return [_picture(same, mesh, steps) for same in alike.values()]


def over_words(collective: Collective) -> str:
    """What it runs over: `x`, or, where no axes of the mesh make its groups, how many they are."""
    if collective.axes:
        return ", ".join(collective.axes)
    if collective.traits.in_pairs:
        return f"{len(collective.groups)} pairs"
    return f"{len(collective.groups)} groups of {collective.size}"


def _picture(
    same: Sequence[Collective], mesh: jax.sharding.Mesh | None, steps: bool
) -> CollectivePicture:
    first = same[0]
    groups: Groups = first.groups
    pairs: tuple[tuple[int, int], ...] = ()
    if first.traits.in_pairs:
        groups, pairs = permuting(first, mesh)
    over = f"over {over_words(first)}" if first.axes else f"in {over_words(first)}"
    return CollectivePicture(
        title=f"{first.kind} {over}",
        caption=" ".join(_said(same, groups, pairs)),
        kind=first.kind,
        groups=groups,
        pairs=pairs,
        mesh=_grid(first, mesh, groups),
        operation=first.operation,
        bytes=first.bytes,
        steps=steps,
    )


def _said(same: Sequence[Collective], groups: Groups, pairs: Groups) -> Iterator[str]:
    """What the picture shows, in sentences."""
    first, size = same[0], len(groups[0])
    kind = first.traits
    yield kind.adds if kind.reduces and first.operation == "add" else kind.does
    if kind.in_pairs and len(pairs) < size:
        yield "A device that receives nothing gets zeros."
    if len(groups) > 1:
        others = len(groups) - 1
        counted = "the other does" if others == 1 else f"the {others} others do"
        yield f"Drawn for one group; {counted} the same."
    runs = sum(c.times or 0 for c in same)
    if len(same) > 1 or runs > 1:
        yield f"The program does this {runs:,} times." if all(c.times for c in same) else ""
    else:
        sends = "A message has" if kind.in_pairs else "Each device sends"
        yield f"{sends} {round(wire_bytes(first)):,} bytes."


def permuting(
    collective: Collective, mesh: jax.sharding.Mesh | None
) -> tuple[Groups, tuple[tuple[int, int], ...]]:
    """The groups within which a permutation moves, and its pairs by their places in a group.

    The groups are the lines along the axes that it runs over, where the same happens in each; else
    all devices are one group.

    Args:
        collective: a permutation, with the ids of devices.
        mesh: the mesh that names its axes.
    """
    sent = [(source, target) for source, target in collective.groups]
    taking_part = sorted({device for pair in sent for device in pair})
    lines: Groups = (tuple(taking_part),)
    if mesh is not None:
        ids = np.array([device.id for device in mesh.devices.flat]).reshape(mesh.devices.shape)
        inner = [d for d, name in enumerate(mesh.axis_names) if name in collective.axes]
        outer = [d for d in range(ids.ndim) if d not in inner]
        size = math.prod(ids.shape[d] for d in inner)
        cut = ids.transpose(*outer, *inner).reshape(-1, size)
        lines = tuple(tuple(int(i) for i in line) for line in cut)
        patterns = {_within(line, sent) for line in lines}
        if len(patterns) > 1:
            lines = (tuple(int(i) for i in ids.flat),)
    return lines, tuple(sorted(_within(lines[0], sent)))


def _within(line: Sequence[int], sent: Sequence[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """The pairs within a line, by places."""
    place = {device: i for i, device in enumerate(line)}
    return frozenset((place[a], place[b]) for a, b in sent if a in place and b in place)


def _grid(collective: Collective, mesh: jax.sharding.Mesh | None, groups: Groups) -> DrawnMesh:
    if mesh is None:
        ids = tuple(sorted({device for group in groups for device in group}))
        return DrawnMesh(ids, (len(ids),))
    ids = tuple(device.id for device in mesh.devices.flat)
    return DrawnMesh(ids, mesh.devices.shape, mesh.axis_names, collective.axes)


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

    def rows(self) -> list[ReportRow]:
        """The table, those that are alike folded into one."""
        found: dict[ReportRow, list[int]] = {}
        machine = MACHINES[self.machine]
        for c in self._as_written():
            row = ReportRow(
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

    def _shown(self) -> ShownReport:
        return ShownReport(
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


def _folded(row: ReportRow, count: int) -> ReportRow:
    runs = None if row.runs is None else row.runs * count
    values = {**vars(row), "runs": runs, "seconds": row.seconds * count}
    return ReportRow(**values)


def _line(collective: Collective) -> tuple[str, str]:
    """The line of code: its place, and itself; a notebook's cells are files without a name."""
    frame = collective.where
    if frame is None:
        return "", ""
    source = linecache.getline(frame.file, frame.line).strip()
    file = Path(frame.file)
    place = f"line {frame.line}" if file.stem.isdigit() else f"{file.name}:{frame.line}"
    return place, source
