"""Add up the bytes that each part of a model sends: forward, backward and recomputed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from shardlings.documents import (
    Block,
    Content,
    Document,
    Fold,
    Paragraph,
    ShownAsDocument,
    Small,
    Table,
    TableRow,
    with_noun,
)
from shardlings.programs.collective import (
    MACHINES,
    Collective,
    communication_seconds,
    count_sent_bytes,
    take_costliest_branches,
)
from shardlings.programs.compiled import count_bytes
from shardlings.programs.model_parts import OUTSIDE, PASSES, find_part, find_pass
from shardlings.programs.numbers_in_words import BYTES, choose_byte_unit, choose_time_unit
from shardlings.programs.report_rooflines import MIN_SECONDS

MAX_PARTS: Final = 12
"""The most parts that are listed; the others are folded."""

WITHOUT_A_NAME: Final = "outside of any part"

NO_NAMES: Final = (
    "No part of this model has a name here. jax.named_scope gives one, as Flax's Linen, Haiku and "
    "Equinox do; a class of NNX has one if it is called."
)


class ModelPart(NamedTuple):
    """A part of a model, and what it communicates on each device.

    Attributes:
        path: the names that lead to it, the outermost first.
        sent: the bytes that a device sends, by the pass in which it does.
        seconds: the time that sending takes.
    """

    path: tuple[str, ...]
    sent: dict[str, float]
    seconds: float

    @property
    def name(self) -> str:
        """Its path, such as `Decoder / block_0 / down`."""
        return " / ".join(self.path) or WITHOUT_A_NAME

    @property
    def all_sent(self) -> float:
        """The bytes that a device sends in all passes."""
        return sum(self.sent.values())


@dataclass(frozen=True, repr=False)
class PartsReport(ShownAsDocument):
    """A report that adds up collectives by part of the model.

    Attributes:
        parts: the parts, the one that sends most first.
        machine: the name of the machine that times are for.
        source: where the program is from, in words; empty if it was compiled here.
    """

    parts: tuple[ModelPart, ...]
    machine: str
    source: str = ""

    @classmethod
    def of(
        cls,
        collectives: Sequence[Collective],
        machine: str,
        depth: int | None = None,
        source: str = "",
    ) -> "PartsReport":
        """Add up collectives by part.

        Args:
            collectives: those of a program.
            machine: the name of a machine.
            depth: how many names of a path are kept; None for all.
            source: where the program is from, in words.
        """
        parts: dict[tuple[str, ...], ModelPart] = {}
        for c in take_costliest_branches(collectives, count_sent_bytes):
            seconds = communication_seconds(c, MACHINES[machine])
            for op_name, share in _shares(c):
                path = find_part(op_name, c.stack)[:depth]
                part = parts.get(path, ModelPart(path, {}, 0.0))
                where = find_pass(op_name)
                sent = part.sent | {where: part.sent.get(where, 0.0) + share * count_sent_bytes(c)}
                parts[path] = ModelPart(path, sent, part.seconds + share * seconds)
        ordered = sorted(parts.values(), key=lambda part: -part.all_sent)
        return cls(tuple(ordered), machine, source)

    def document(self) -> Document:
        """Return a table, the largest part first."""
        blocks: list[Block] = [Paragraph(Small(self.source))] if self.source else []
        if not self.parts:
            return Document((*blocks, Paragraph("No communication.")))
        shown, folded = self.parts[:MAX_PARTS], self.parts[MAX_PARTS:]
        blocks.append(self._table(shown, folded))
        if folded:
            blocks.append(Fold(with_noun(len(folded), "other"), (self._table(folded),)))
        if not any(part.path for part in self.parts):
            blocks.append(Paragraph(Small(NO_NAMES)))
        return Document(tuple(blocks))

    def _table(self, parts: Sequence[ModelPart], others: Sequence[ModelPart] = ()) -> Table:
        passes = [name for name in PASSES if any(name in part.sent for part in self.parts)]
        is_split = passes != [OUTSIDE]
        size = choose_byte_unit([sum(part.all_sent for part in self.parts)])
        seconds = sum(part.seconds for part in self.parts)
        time, is_timed = choose_time_unit([seconds]), seconds >= MIN_SECONDS

        def row(name: str, some: Iterable[ModelPart]) -> tuple[Content, ...]:
            some = list(some)
            amounts = [sum(part.sent.get(each, 0.0) for part in some) for each in passes]
            cells: list[Content] = [name]
            cells += [size.write(amount) if amount else "" for amount in amounts] * is_split
            cells.append(size.write(sum(amounts)))
            cells += [time.write(sum(part.seconds for part in some))] * is_timed
            return tuple(cells)

        rows = [TableRow(row(part.name, [part])) for part in parts]
        if others:
            rows.append(TableRow(row(with_noun(len(others), "other"), others)))
        if len(parts) > 1:
            rows.append(TableRow(row("all together", [*parts, *others]), is_bold=True))
        columns = ["part of the model", *passes * is_split]
        columns.append("sent" if size == BYTES else f"sent, in {size.name}")
        columns += [f"on {self.machine}, in {time.name}"] * is_timed
        return Table(tuple(columns), tuple(rows), "l" + "r" * (len(columns) - 1))


def _shares(collective: Collective) -> Iterator[tuple[str, float]]:
    """Yield for each input the path of JAX's names, and the share that it has of the bytes."""
    sizes = [count_bytes(*each) for each in zip(collective.dtypes, collective.shapes, strict=True)]
    if len(sizes) != len(collective.op_names) or not sum(sizes):
        yield next(iter(collective.op_names), ""), 1.0
        return
    for op_name, size in zip(collective.op_names, sizes, strict=True):
        yield op_name, size / sum(sizes)
