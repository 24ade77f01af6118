"""A report on a program: what it says to whom, what that costs, and which line caused it."""

import html
import io
import linecache
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jax

from autograder.pictures import Flow, bars_as_html, flows_as_html
from autograder.programs.collective import Collective, Groups
from autograder.programs.costs import MACHINES, seconds, wire_bytes

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
            infinite where a loop's count is unknown.
        peak_bytes: bytes on each device for arguments, results and what is between them.
        machine: the name of the machine that seconds are reckoned for, one of `cost.MACHINES`.
    """

    collectives: tuple[Collective, ...]
    mesh: jax.sharding.Mesh | None
    flops: float
    peak_bytes: int
    machine: str = MACHINE

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

    def rows(self) -> list[tuple[str, ...]]:
        """The table: kind, axes, times, bytes, time and line of each collective."""
        machine = MACHINES[self.machine]
        return [
            (
                c.kind,
                ", ".join(c.axes) or _groups(c),
                "?" if c.times is None else f"{'≤ ' if c.sometimes else ''}{c.times}",
                f"{c.bytes:,}",
                _time(seconds(c, machine)),
                _line(c),
            )
            for c in self.collectives
        ]

    def summary(self) -> str:
        """One line: how much is communicated, computed and held on each device."""
        said = (
            f"{len(self.collectives)} collective{'s' * (len(self.collectives) != 1)}, "
            f"{self.bytes:,} bytes"
            if self.collectives
            else "no communication"
        )
        return (
            f"{said}; on each device {_number(self.flops)} floating-point operations "
            f"and {self.peak_bytes:,} bytes of memory"
        )

    def lines(self) -> list[tuple[str, int]]:
        """The bytes that each line of code causes, the most first."""
        found: dict[str, int] = {}
        for c in self.collectives:
            found[_line(c)] = found.get(_line(c), 0) + c.total_bytes
        return sorted(found.items(), key=lambda pair: -pair[1])

    def __str__(self) -> str:
        """The table as text."""
        from rich.console import Console

        written = io.StringIO()
        console = Console(file=written, width=120, color_system=None, force_jupyter=False)
        console.print(self.__rich__())
        return written.getvalue().strip("\n")

    __repr__ = __str__

    def __rich__(self) -> "RenderableType":
        """The table for a terminal."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD)
        for i, name in enumerate(self._headings()):
            table.add_column(name, justify="right" if i in (2, 3, 4) else "left")
        for row in self.rows():
            table.add_row(*(Text(word) for word in row))
        return Group(*([table] if self.collectives else []), Text(self.summary()))

    def _repr_html_(self) -> str:
        """The table, a picture of who talks to whom, and a bar for each line of code."""
        summary = f"<div>{html.escape(self.summary())}</div>"
        if not self.collectives:
            return summary
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self._headings())
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(word)}</td>" for word in row) + "</tr>"
            for row in self.rows()
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div>{table}{self._flows()}{bars_as_html(self.lines(), 'bytes')}{summary}</div>"

    def _headings(self) -> tuple[str, ...]:
        return ("collective", "axes", "times", "bytes", f"on {self.machine}", "line")

    def _flows(self) -> str:
        ids = [d.id for d in self.mesh.devices.flat] if self.mesh is not None else []
        columns = self.mesh.devices.shape[-1] if self.mesh is not None else 8
        ids = ids or sorted({i for c in self.collectives for group in c.groups for i in group})
        kinds: dict[tuple[str, Groups], int] = {}
        for c in self.collectives:
            key = (f"{c.kind} over {', '.join(c.axes) or _groups(c)}", c.groups)
            kinds[key] = kinds.get(key, 0) + c.total_bytes
        return flows_as_html(
            [
                Flow(
                    title=name,
                    caption=f"{count:,} bytes",
                    ids=tuple(ids),
                    columns=columns,
                    links=_links(name, groups),
                )
                for (name, groups), count in kinds.items()
            ]
        )


def _links(name: str, groups: Groups) -> tuple[tuple[int, int], ...]:
    """Whom each device sends to: round a ring of its group, or where a permutation says."""
    if name.startswith("collective-permute"):
        return tuple((s, t) for s, t in groups if s != t)
    return tuple(
        (one, other)
        for group in groups
        for one, other in zip(group, (*group[1:], group[0]), strict=True)
        if one != other
    )


def _groups(collective: Collective) -> str:
    """Groups that are no axes of the mesh: their number and size."""
    if collective.kind == "collective-permute":
        return "pairs"
    return f"parts of axes ({len(collective.groups)} groups of {collective.size})"


def _number(flops: float) -> str:
    return f"{flops:,.0f}" if math.isfinite(flops) else "an unknown number of"


def _line(collective: Collective) -> str:
    """The line of code, as `file:line  source`; a notebook's cells are files without a name."""
    frame = collective.where
    if frame is None:
        return ""
    source = linecache.getline(frame.file, frame.line).strip()
    source = source if len(source) <= 60 else f"{source[:60]}…"
    file = Path(frame.file)
    place = f"line {frame.line}" if file.stem.isdigit() else f"{file.name}:{frame.line}"
    return f"{place}  {source}".rstrip()


def _time(value: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.2g} ns"
