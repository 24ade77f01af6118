"""Compare a program as it is compiled for a CPU and for a TPU."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from humanize import natural_list

from shardlings.documents import (
    Document,
    Heading,
    Paragraph,
    ShownAsDocument,
    SideBySide,
    with_noun,
)
from shardlings.programs.communication_limits import Limits
from shardlings.programs.numbers_in_words import bytes_with_unit
from shardlings.programs.parts_reports import PartsReport
from shardlings.programs.report import Report

TILE_BYTES: Final = 1 << 24
"""Up to this many bytes, padding to tiles explains a difference in memory."""


@dataclass(frozen=True, repr=False)
class TargetReports(ShownAsDocument):
    """Reports on a program compiled for the CPU here, and for a TPU.

    Attributes:
        cpu: the report on what the CPU's compiler made; None if it refused the program.
        tpu: the report on what the TPU's compiler made.
        target: the topology of the TPUs.
        refusal: why the CPU's compiler refused the program; empty if it did not.
    """

    cpu: Report | None
    tpu: Report
    target: str
    refusal: str = ""

    def at_most(self, limits: Limits, *, over: str | Sequence[str] | None = None) -> bool:
        """Assert that the program for the TPU communicates no more than this, in a test.

        See `Report.at_most`, which `.cpu` has as well.
        """
        __tracebackhide__ = True
        return self.tpu.at_most(limits, over=over)

    def by_part(self, depth: int | None = None) -> PartsReport:
        """Return what each part of the model sends on the TPU; see `Report.by_part`."""
        return self.tpu.by_part(depth)

    def differences(self) -> str:
        """Return sentences on what the TPU's compiler does differently."""
        if self.cpu is None:
            return f"There is no program for the CPU here to compare it with. {self.refusal}"
        return " ".join(_differences(self.cpu, self.tpu))

    def document(self) -> Document:
        """Return both reports side by side, and the differences."""
        tpu = f"Compiled for {self.target}, by the TPU's own compiler"
        if self.cpu is None:
            blocks = self.tpu.document().blocks
            return Document((Heading(tpu), *blocks, Paragraph(self.differences())))
        named = (("Compiled for the CPU here", self.cpu), (tpu, self.tpu))
        reports = [Document((Heading(n), *report.document().blocks)) for n, report in named]
        return Document((SideBySide(tuple(reports)), Paragraph(self.differences())))


def _differences(cpu: Report, tpu: Report) -> Iterator[str]:
    if not cpu.collectives and not tpu.collectives:
        yield "Neither compiler has the devices communicate."
    elif _collective_counts(cpu) == _collective_counts(tpu):
        yield "Both compilers make the same collectives, of the same bytes."
    else:
        sent = f"{bytes_with_unit(tpu.sent)} in place of {bytes_with_unit(cpu.sent)}"
        yield (
            f"The TPU's compiler makes {_amount(tpu)}, where the CPU's makes {_amount(cpu)}; each "
            f"device sends {sent if tpu.sent != cpu.sent else 'as much'}."
        )
    narrow = sum("bf16" in c.dtypes for c in tpu.collectives)
    if narrow and not cpu.scaled and not any("bf16" in c.dtypes for c in cpu.collectives):
        yield (
            f"On the TPU, {_share_of(narrow, tpu)} numbers of two bytes each (bfloat16); on the "
            f"CPU, none has."
        )
    if _permutes(tpu) and not _permutes(cpu):
        yield (
            "There are collective-permutes on the TPU alone: with them, blocks are passed on step "
            "by step, and one can be computed with while the next is on its way."
        )
    asynchronous = sum(c.is_asynchronous for c in tpu.collectives)
    if asynchronous:
        yield (
            f"On the TPU, {_share_of(asynchronous, tpu)} a beginning and an end, and other work in "
            f"between."
        )
    if cpu.peak_bytes < tpu.peak_bytes < TILE_BYTES:
        yield (
            "Small arrays take more memory on a TPU, which keeps a matrix in tiles of 8 by 128 "
            "numbers or more."
        )


def _collective_counts(report: Report) -> Counter[tuple[object, ...]]:
    return Counter((c.kind, c.axes, c.bytes_in, c.bytes_out, c.times) for c in report.collectives)


def _amount(report: Report) -> str:
    """Return `4 all-gathers and 1 all-reduce, of 2,816 bytes`, counting each run."""
    counts: Counter[str] = Counter()
    for c in report.collectives:
        counts[c.kind] += c.counted_times
    if not counts:
        return "none"
    named = [with_noun(n, kind) for kind, n in counts.items()]
    return f"{natural_list(named)}, of {bytes_with_unit(report.bytes)}"


def _share_of(some: int, report: Report) -> str:
    """Return `2 of 4 collectives have`, counting each collective once."""
    total = len(report.collectives)
    if some == total:
        return {1: "the collective has", 2: "both collectives have"}.get(
            total, f"all {total} collectives have"
        )
    return f"{some} of {total} collectives {'has' if some == 1 else 'have'}"


def _permutes(report: Report) -> bool:
    return any(c.traits.has_pairs for c in report.collectives)
