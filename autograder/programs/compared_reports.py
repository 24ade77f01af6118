"""Compare what a CPU's and a TPU's compiler make of one program."""

import html
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autograder.programs.numbers_in_words import sized
from autograder.programs.report import Report

if TYPE_CHECKING:
    from rich.console import RenderableType


TILE_BYTES: Final = 1 << 24
"""Below so many bytes, padding to tiles explains a difference in memory."""


@dataclass(frozen=True, repr=False)
class ComparedReports:
    """A program as it is compiled for the CPU here, and as it is compiled for a TPU.

    Attributes:
        cpu: what the CPU's compiler made of it.
        tpu: what the TPU's made of it.
        target: the topology of the TPUs.
    """

    cpu: Report
    tpu: Report
    target: str

    def differences(self) -> str:
        """What the TPU's compiler does in another way, in sentences."""
        return " ".join(_differences(self.cpu, self.tpu))

    def __str__(self) -> str:
        """Both tables beneath each other, and what differs."""
        (here, cpu), (there, tpu) = self._named()
        return f"{here}\n\n{cpu}\n\n{there}\n\n{tpu}\n\n{self.differences()}"

    __repr__ = __str__

    def __rich__(self) -> "RenderableType":
        """The same for a terminal."""
        from rich.console import Group
        from rich.text import Text

        parts: list[RenderableType] = []
        for name, report in self._named():
            parts += [Text(name, style="bold"), report]
        return Group(*parts, Text(self.differences()))

    def _repr_html_(self) -> str:
        """Both tables, side by side where there is room, and what differs."""
        shown = "".join(
            f'<div><div style="font-weight:600;margin:8px 0 0">{html.escape(name)}</div>'
            f"{report._repr_html_()}</div>"
            for name, report in self._named()
        )
        return (
            f'<div><div style="display:flex;flex-wrap:wrap;gap:0 40px">{shown}</div>'
            f'<div style="margin:8px 0">{html.escape(self.differences())}</div></div>'
        )

    def _named(self) -> list[tuple[str, Report]]:
        there = f"Compiled for {self.target}, by the TPU's own compiler"
        return [("Compiled for the CPU here", self.cpu), (there, self.tpu)]


def _differences(cpu: Report, tpu: Report) -> Iterator[str]:
    if not cpu.collectives and not tpu.collectives:
        yield "Neither compiler has the devices communicate."
    elif _essence(cpu) == _essence(tpu):
        yield "Both compilers make the same collectives, of the same bytes."
    else:
        sent = f"{sized(tpu.sent)} in place of {sized(cpu.sent)}"
        yield (
            f"The TPU's compiler makes {_amount(tpu)}, where the CPU's makes {_amount(cpu)}; each "
            f"device sends {sent if tpu.sent != cpu.sent else 'as much'}."
        )
    narrow = sum("bf16" in c.dtypes for c in tpu.collectives)
    if narrow and not cpu.scaled and not any("bf16" in c.dtypes for c in cpu.collectives):
        yield (
            f"On the TPU, {_of(narrow, tpu)} numbers of two bytes each (bfloat16); on the CPU, "
            f"none has."
        )
    if _permutes(tpu) and not _permutes(cpu):
        yield (
            "There are collective-permutes on the TPU alone: with them, blocks are passed on step "
            "by step, and one can be computed with while the next is on its way."
        )
    halves = sum(c.asynchronous for c in tpu.collectives)
    if halves:
        yield f"On the TPU, {_of(halves, tpu)} a beginning and an end, and other work in between."
    if cpu.peak_bytes < tpu.peak_bytes < TILE_BYTES:
        yield (
            "Small arrays take more memory on a TPU, which keeps a matrix in tiles of 8 by 128 "
            "numbers or more."
        )


def _essence(report: Report) -> Counter[tuple[object, ...]]:
    return Counter((c.kind, c.axes, c.bytes_in, c.bytes_out, c.times) for c in report.collectives)


def _amount(report: Report) -> str:
    """`4 all-gathers and 1 all-reduce, of 2,816 bytes`, each counted as often as it runs."""
    counts: Counter[str] = Counter()
    for c in report.collectives:
        counts[c.kind] += 1 if c.times is None else c.times
    *most, last = [f"{n:,} {kind}{'s' * (n != 1)}" for kind, n in counts.items()] or ["none"]
    listed = f"{', '.join(most)} and {last}" if most else last
    return f"{listed}, of {sized(report.bytes)}" if counts else listed


def _of(some: int, report: Report) -> str:
    """`2 of 4 collectives have`; here each is one, however often a loop runs it."""
    most = len(report.collectives)
    if some == most:
        return {1: "the collective has", 2: "both collectives have"}.get(
            most, f"all {most} collectives have"
        )
    return f"{some} of {most} collectives {'has' if some == 1 else 'have'}"


def _permutes(report: Report) -> bool:
    return any(c.traits.in_pairs for c in report.collectives)
