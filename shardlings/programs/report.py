"""A report on a program: its collectives, what they cost, their lines and their pictures."""

import linecache
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, zip_longest
from pathlib import Path
from textwrap import shorten
from typing import Any, Final

from humanize import natural_list

from shardlings.collective_kinds import KINDS, CollectiveKind
from shardlings.documents import (
    Block,
    Code,
    Content,
    Document,
    Figure,
    Paragraph,
    ShownAsDocument,
    Small,
    Table,
    TableRow,
    as_html,
    as_text,
    with_noun,
)
from shardlings.errors import UsageError
from shardlings.pictures import (
    CollectivePicture,
    Roofline,
    Timeline,
    collective_as_html,
    collective_as_text,
    list_numbers,
    timeline_as_html,
    timeline_as_text,
)
from shardlings.programs.closed_over import ClosedOver
from shardlings.programs.code_lines import lines_of
from shardlings.programs.collective import (
    INT8_SPEED,
    MACHINES,
    Collective,
    Frame,
    MeshLike,
    communication_seconds,
    count_sent_bytes,
    take_costliest_branches,
)
from shardlings.programs.collective_pictures import axes_in_words, pictures_of
from shardlings.programs.communication_limits import (
    Limits,
    find_exceeded,
    read_axes,
    read_limits,
)
from shardlings.programs.numbers_in_words import (
    BYTES,
    Unit,
    bytes_with_unit,
    choose_byte_unit,
    choose_time_unit,
    count_in_words,
    runs_in_words,
    time_in_words,
)
from shardlings.programs.parts_reports import PartsReport
from shardlings.programs.report_rooflines import MIN_SECONDS, Measured, roofline_of
from shardlings.programs.report_timelines import in_program_order, timeline_of

MACHINE: Final = "TPU v5e"
"""The default machine for times."""

MAX_PICTURES: Final = 8
"""The largest number of collectives that are drawn below a table."""

MAX_HELPERS: Final = 2
"""The largest number of nested helpers whose lines are shown: the innermost ones."""

MAX_CLOSED_OVER: Final = 3
"""The largest number of arrays that a function closes over of which a report speaks."""

MAX_SHAPES: Final = 2
"""The largest number of shapes that are listed for arrays that are communicated together."""

MAX_HELPER_CHARACTERS: Final = 70
"""The length to which a helper's line is shortened."""

KEY: Final = (
    "In the pictures, each row is one device of the group with the thick outline. A letter is the "
    "block that one device starts with: a is the first row's, b the second row's."
)

USUAL_TYPE: Final = "float32"
"""A table in which all is of this type has no column for types."""

TYPES: Final = {"s": "int", "u": "uint", "f": "float", "bf": "bfloat", "c": "complex"}
"""JAX's names of HLO's types, which are followed by the bits."""

NO_LINE: Final = "from a line that the compiler does not name"

ONE_BRANCH: Final = (
    "Only one branch of a conditional runs at a time, so the sums count the branch that costs most."
)

KEY_TO_SUMS: Final = " The coloured strip under a sum says whose data are in it."


@dataclass(frozen=True)
class ReportRow:
    """A row of the table: one collective, or several that are alike.

    Attributes:
        lines: the line of code to look at, and then those of the helpers that it calls.
        kind: the kind of collective.
        arrays: the arrays that are communicated: the names that are known, and the shapes.
        dtypes: the types of what is communicated, in words.
        over: the mesh axes that it runs over, or its groups.
        runs: how often it runs; None if a loop's count is unknown.
        is_conditional: whether `runs` is only an upper bound.
        bytes: the bytes of the buffers on each device, in all runs.
        sent: the bytes that each device sends in all runs.
        seconds: the time of all runs on the report's machine.
        numbers: the numbers of the collectives, in the order of the program.
    """

    lines: tuple[Frame, ...]
    kind: str
    arrays: str
    dtypes: str
    over: str
    runs: int | None
    is_conditional: bool
    bytes: int
    sent: float
    seconds: float
    numbers: tuple[int, ...]

    @property
    def runs_in_words(self) -> str:
        """How often it runs, as the table shows it; empty for once."""
        return runs_in_words(self.runs, self.is_conditional)

    @property
    def line(self) -> Content:
        """The line of code below its place, and below it, smaller, the helpers' lines."""
        first, *helpers = self.lines
        place, source = place_of(first), source_of(first)
        below = [
            part
            for helper in helpers[-MAX_HELPERS:]
            for part in (" ", Small(f"→ {place_of(helper)} {_shortened(source_of(helper))}"))
        ]
        return (Small(place), " ", Code(source), *below) if source else (Small(place), *below)

    @property
    def what(self) -> tuple[str | Small, ...]:
        """The kind of collective, and below it the arrays."""
        return (self.kind, " ", Small(self.arrays)) if self.arrays else (self.kind,)

    @property
    def numbered(self) -> Content:
        """`what`, after the collectives' numbers in the timeline: `(1, 4) all-reduce`."""
        return (f"({list_numbers(self.numbers)}) ", *self.what) if self.numbers else self.what

    def write(self, unit: Unit, amount: float) -> Content:
        """Return an amount of all runs, and below it, smaller, that of each run.

        Args:
            unit: the unit of the column.
            amount: the amount, in bytes.
        """
        total = unit.write(amount)
        if self.runs is None:
            return total, " ", Small("(one run)")
        if self.runs < 2:
            return total
        return total, " ", Small(f"({unit.write(amount / self.runs)} each)")


@dataclass(frozen=True, repr=False)
class Report(ShownAsDocument):
    """What a compiled program communicates, and what it costs on each device.

    Attributes:
        collectives: the collectives, in the order of the program.
        mesh: the mesh that names their axes, if there is one.
        flops: floating-point operations on each device, in all runs of loops; infinite if a loop's
            trip count is unknown, or the work of a library's routine.
        peak_bytes: bytes on each device for arguments, results, temporaries and constants; 0 if
            they are unknown.
        machine: the name of the machine that times are for, a key of `MACHINES`.
        steps: whether the pictures show each step on a ring.
        scaled: which sizes were replaced by which, in words; empty if none were.
        closed_over: the sharded or large arrays that the function closes over.
        int8_operations: the part of `flops` that multiplies integers of 8 bits.
        source: where the program is from, in words; empty if it was compiled here.
        is_unoptimised: whether it has none yet of the collectives that the compiler adds.
    """

    collectives: tuple[Collective, ...]
    mesh: MeshLike | None
    flops: float
    peak_bytes: int
    machine: str = MACHINE
    steps: bool = False
    scaled: str = ""
    closed_over: tuple[ClosedOver, ...] = ()
    int8_operations: float = 0.0
    source: str = ""
    is_unoptimised: bool = False

    @property
    def sent(self) -> int:
        """The bytes that each device sends in all runs, on rings.

        An all-reduce sends its buffer around the ring twice, the other collectives once.
        """
        return round(_add_up(self.collectives, count_sent_bytes))

    @property
    def bytes(self) -> int:
        """The bytes of all collectives' buffers on each device, in all runs."""
        return round(_add_up(self.collectives, _buffers))

    @property
    def communication_seconds(self) -> float:
        """The seconds that sending takes on the report's machine."""
        return _add_up(self.collectives, self._seconds)

    @property
    def compute_seconds(self) -> float:
        """The seconds that computing takes on the report's machine, at its peak."""
        slow = self.flops - self.int8_operations * (1 - 1 / INT8_SPEED)
        return slow / MACHINES[self.machine].flops

    def rows(self) -> list[ReportRow]:
        """Return the table's rows; collectives that are alike share one."""
        alike: dict[tuple[Any, ...], list[Collective]] = {}
        for lines, c in self._as_written():
            arrays = (c.shapes, c.results, types_in_words(c.dtypes))
            key = (lines, c.kind, axes_in_words(c), c.times, c.is_conditional, c.bytes, arrays)
            alike.setdefault(key, []).append(c)
        numbers = {id(c): n for n, c in enumerate(in_program_order(self._timed()), 1)}
        return [
            ReportRow(
                lines,
                kind=kind,
                arrays=arrays_in_words(same),
                dtypes=types_in_words(same[0].dtypes),
                over=over,
                runs=None
                if times is None
                else times * len(take_costliest_branches(same, _buffers)),
                is_conditional=is_conditional,
                bytes=round(_add_up(same, _buffers)),
                sent=_add_up(same, count_sent_bytes),
                seconds=_add_up(same, self._seconds),
                numbers=tuple(sorted(numbers[id(c)] for c in same if id(c) in numbers)),
            )
            for (lines, kind, over, times, is_conditional, *_), same in alike.items()
        ]

    def timeline(self) -> Timeline | None:
        """Return where the time goes, in program order; None if it is unknown."""
        devices = [device.id for device in self.mesh.devices.flat] if self.mesh is not None else []
        return timeline_of(self._timed(), self.compute_seconds, MACHINES[self.machine], devices)

    def _timed(self) -> list[Collective]:
        """Return the collectives whose time counts: of branches, those of the dearest."""
        return take_costliest_branches(self.collectives, self._seconds)

    def _seconds(self, collective: Collective) -> float:
        return communication_seconds(collective, MACHINES[self.machine])

    def by_part(self, depth: int | None = None) -> PartsReport:
        """Return what each part of the model sends, forward, backward and recomputed.

        Args:
            depth: how many names of a path to a part are kept, such as two of
                `Decoder / block_0 / down`, 1 or more; None for all.

        Returns:
            A `PartsReport`, which is displayed as a table, the largest part first.

        Raises:
            UsageError: the depth is no such number.
        """
        if depth is not None and not (isinstance(depth, int) and depth >= 1):
            raise UsageError(
                f"by_part expects how many names of a path to keep, 1 or more, or None for all, "
                f"but got {depth!r}."
            )
        return PartsReport.of(self.collectives, self.machine, depth, self.source)

    def pictures(self) -> list[CollectivePicture]:
        """Return a picture for each kind of exchange."""
        collectives = [c for _, c in self._as_written()]
        return pictures_of(collectives, self.mesh, steps=self.steps)

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
                "The first argument is this program's name in the picture; other reports are "
                'passed as keywords: report.roofline("by rows", by_columns=other).'
            )
        for other, report in others.items():
            if not isinstance(report, Report):
                raise UsageError(
                    f"{other} must be a report, such as communication(f, x) returns, and it is "
                    f"of type {type(report).__name__}."
                )
            if report.machine != self.machine:
                raise UsageError(
                    f"A roofline shows one machine: this report is for {self.machine}, and "
                    f"{other} for {report.machine}. Make {other} with "
                    f"communication(…, machine={self.machine!r})."
                )
        if name in others:
            raise UsageError(f"Two programs are called {name!r}; each needs a name of its own.")
        programs = {name: self, **others}
        return roofline_of(
            [report._measured(called) for called, report in programs.items()],
            MACHINES[self.machine],
        )

    def at_most(self, limits: Limits, *, over: str | Sequence[str] | None = None) -> bool:
        """Assert that the program communicates no more than this, in a test.

        `assert communication(step, params, batch).at_most({"all-reduce": "4 MiB"}, over="data")`
        holds if over the mesh axis `data` there are only all-reduces, and their buffers have at
        most 4 MiB together on each device. `at_most({})` allows no communication at all.

        Args:
            limits: the most bytes of buffers for each kind of collective, summed over all of them
                and over the runs of loops: the column *bytes*. A kind without a limit is not
                allowed.
            over: the mesh axis that the limits are for, or several. Collectives over others do not
                count; those over these and others do. None for all collectives.

        Returns:
            True, so that it can stand in an `assert`.

        Raises:
            AssertionError: the program communicates more; the message has the line of code that
                communicates most, and the report's table.
            UsageError: a kind, a size or an axis is unknown, or the program was dumped before it
                was optimised.
        """
        __tracebackhide__ = True  # so that pytest shows the line of the test
        if self.is_unoptimised:
            raise UsageError(
                "This program was dumped before it was optimised, and has none of the collectives "
                "that the compiler adds. Limit what was dumped after it: "
                "….after_optimizations.hlo.pb."
            )
        most = read_limits(limits)
        axes = read_axes(over, self.mesh.axis_names if self.mesh is not None else ())
        exceeded = list(find_exceeded(self.collectives, most, axes))
        if exceeded:
            raise AssertionError("\n".join(self._complaint(exceeded)))
        return True

    def _complaint(self, exceeded: Sequence[tuple[str, list[Collective]]]) -> Iterator[str]:
        """Yield what is too much, the lines of code that cause most of it, and the table."""
        lines = dict(zip(map(id, self.collectives), lines_of(self.collectives), strict=True))
        for sentence, (largest, *others) in exceeded:
            part = f"Most of it, {bytes_with_unit(largest.total_bytes)}," if others else "It"
            shown = lines[id(largest)]
            yield sentence
            if not shown:
                yield f"{part} comes from a line that the compiler does not name."
                continue
            yield f"{part} comes from this line:"
            yield from (f"    {place_of(frame)}  {source_of(frame)}" for frame in shown)
            arrays = arrays_in_words([largest])
            yield f"    {largest.kind} of {arrays}" if arrays else f"    {largest.kind}"
        table = Document((self._table(self.rows()), Paragraph(self.summary())))
        yield from ("", *as_text(table).splitlines())

    def _measured(self, name: str) -> Measured:
        is_unknown = any(c.times is None for c in self.collectives)
        sent = math.inf if is_unknown else self.sent
        return Measured(name, self.flops, sent, self.compute_seconds, self.communication_seconds)

    def summary(self) -> str:
        """Return one line: what is communicated, computed and held on each device.

        What is sent is included if sizes were scaled up, because it determines the time.
        """
        sent = f" of buffers, {bytes_with_unit(self.sent)} sent" if self.scaled else ""
        communicated = (
            f"{with_noun(len(self.collectives), 'collective')}, {bytes_with_unit(self.bytes)}{sent}"
            if self.collectives
            else "no communication"
        )
        flops = count_in_words(self.flops) if math.isfinite(self.flops) else "an unknown number of"
        memory = f"{bytes_with_unit(self.peak_bytes)} of memory at the peak"
        where = "on all devices together" if self.is_unoptimised else "on each device"
        return (
            f"{communicated}; {where} {flops} floating-point operations and "
            f"{memory if self.peak_bytes else 'an unknown amount of memory'}"
        )

    def document(self) -> Document:
        """Return the report as a document: the table, times, and a picture for each exchange."""
        blocks: list[Block] = []
        if self.source:
            blocks.append(Paragraph(Small(self.source)))
        if self.scaled:
            sizes = f"{self.scaled}, floating-point numbers as bfloat16"
            blocks.append(Paragraph(Small(f"Scaled up, and not run: {sizes}.")))
        timeline, rows = [*self._time()], self.rows()
        numbered = bool(timeline) and len(self.collectives) > 1
        blocks += [*timeline, self._table(rows, numbered=numbered)] if rows else timeline
        if any(c.branches for c in self.collectives):
            blocks.append(Paragraph(Small(ONE_BRANCH)))
        if widened := [c for c in self.collectives if c.widened]:
            blocks.append(Paragraph(Small(explain_widened(widened))))
        blocks += [Paragraph(self.summary()), *self._conclusion()]
        if self._is_timed() and MACHINES[self.machine].torus:
            blocks.append(Paragraph(Small(" ".join(self._assumptions()))))
        blocks += map(Paragraph, map(explain_closed_over, self.closed_over[:MAX_CLOSED_OVER]))
        if more := len(self.closed_over[MAX_CLOSED_OVER:]):
            blocks.append(Paragraph(f"It closes over {more} more such array{'s' * (more > 1)}."))
        # the report at the original size has drawn the same exchanges
        pictures = self.pictures() if self.steps or not self.scaled else []
        return Document((*blocks, *_figures(pictures)))

    def _is_timed(self) -> bool:
        """Check whether sending takes long enough for its time to mean anything."""
        return self.communication_seconds >= MIN_SECONDS

    def _assumptions(self) -> Iterator[str]:
        """Yield what times in a torus assume of these collectives."""
        yield (
            f"On {self.machine}, each mesh axis is assumed to be a ring in a torus of "
            f"{MACHINES[self.machine].torus} dimensions; along an open row of chips, sending takes "
            f"up to twice as long."
        )
        moved = {c.kind for c in self.collectives}
        if any(len(c.axis_sizes) > 1 and not c.traits.has_pairs for c in self.collectives):
            yield "Over two axes, the links of both work at once."
        if CollectiveKind.COLLECTIVE_PERMUTE in moved:
            yield "A permutation waits for its busiest link, which sends in one direction."
        if moved & {CollectiveKind.ALL_TO_ALL, CollectiveKind.RAGGED_ALL_TO_ALL}:
            yield "In an all-to-all, chips pass on what is for others."

    def _time(self) -> Iterator[Block]:
        """Yield the timeline, if sending takes long enough for its time to mean anything."""
        timeline = self.timeline() if self._is_timed() else None
        if timeline is not None:
            yield Figure(
                html=partial(timeline_as_html, timeline), text=partial(timeline_as_text, timeline)
            )

    def _table(self, rows: list[ReportRow], *, numbered: bool = False) -> Table:
        """Return the table, with the numbers that the collectives have in the timeline above."""
        repeats, is_timed = any(row.runs_in_words for row in rows), self._is_timed()
        size, time = (
            choose_byte_unit([self.bytes, self.sent]),
            choose_time_unit([self.communication_seconds]),
        )
        columns = ["line and collective", "type", "over", "times"]
        columns += ["bytes" if size == BYTES else f"bytes, in {size.name}", f"sent, in {size.name}"]
        columns += [f"on {self.machine}, in {time.name}"]
        is_typed = any(row.dtypes != USUAL_TYPE for row in rows)
        is_shown = (True, is_typed, True, repeats, True, True, is_timed)
        shown = []
        for before, row in zip([None, *rows], rows, strict=False):
            is_same = before is not None and before.lines == row.lines
            what = row.numbered if numbered else row.what
            cells: list[Content] = [what, row.dtypes, row.over, row.runs_in_words]
            cells += [row.write(size, row.bytes), row.write(size, row.sent)]
            cells += [time.write(row.seconds)]
            line: tuple[Content, ...] = () if is_same or not row.lines else (row.line,)
            if not row.lines and before is not None and before.lines:
                line = (Small(NO_LINE),)
            shown.append(TableRow(tuple(compress(cells, is_shown)), above=line))
        if len(rows) > 1:
            cells = ["all together", "", "", "", size.write(self.bytes), size.write(self.sent)]
            cells += [time.write(self.communication_seconds)]
            shown.append(TableRow(tuple(compress(cells, is_shown)), is_bold=True))
        align = "".join(compress("lllrrrr", is_shown))
        return Table(tuple(compress(columns, is_shown)), tuple(shown), align)

    def _conclusion(self) -> Iterator[Block]:
        """Yield what computing and communicating take, where that means anything."""
        if any(c.times is None for c in self.collectives):
            yield Paragraph(
                f"How long communicating takes on {self.machine} is unknown, because the length of "
                f"a loop is. The table counts one run of each collective in this loop."
            )
            return
        if not self._is_timed() and not self.scaled:
            if self.collectives:
                yield Paragraph(
                    f"On {self.machine}, sending takes less than a microsecond: starting a message "
                    f"costs more than sending it."
                )
            return
        computing, communicating = self.compute_seconds, self.communication_seconds
        if not math.isfinite(computing):
            yield Paragraph(
                f"On {self.machine}, communicating takes {time_in_words(communicating)}. How long "
                f"computing takes is unknown: the program does not say how often a loop runs, or "
                f"how much a library's routine computes."
            )
            return
        if max(computing, communicating) < MIN_SECONDS:
            conclusion = "Both take less time than it takes to start them."
        elif communicating > computing:
            conclusion = "Even if both happen at once, the devices wait for data."
        else:
            conclusion = "If both happen at once, communication is hidden behind computing."
        yield Paragraph(
            f"On {self.machine}, computing takes {time_in_words(computing)} and communicating "
            f"{time_in_words(communicating)}. {conclusion}"
        )

    def _as_written(self) -> list[tuple[tuple[Frame, ...], Collective]]:
        """Return the collectives and their lines, in the order of the lines."""
        pairs = list(zip(lines_of(self.collectives), self.collectives, strict=True))
        files = list(dict.fromkeys(frame.file for lines, _ in pairs for frame in lines))

        def place(pair: tuple[tuple[Frame, ...], Collective]) -> list[tuple[int, int]]:
            places = [(files.index(frame.file), frame.line) for frame in pair[0]]
            return places or [(len(files), 0)]

        return sorted(pairs, key=place)


def _add_up(collectives: Sequence[Collective], cost: Callable[[Collective], float]) -> float:
    """Add up what collectives cost, where each conditional takes its dearest branch."""
    return sum(map(cost, take_costliest_branches(collectives, cost)))


def _buffers(collective: Collective) -> float:
    return collective.total_bytes


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
        others = "1 more kind of exchange is" if more == 1 else f"{more} more kinds of exchange are"
        yield Paragraph(f"{others} not drawn.")


def arrays_in_words(same: Sequence[Collective]) -> str:
    """Return the arrays that equal collectives communicate: `w (16, 64) → (64, 64)`.

    A name is that of an argument of the program. Shapes are those on one device.
    """
    names = list(dict.fromkeys(name for c in same for name in c.names if name))
    is_each_named = all(name for c in same for name in c.names)
    named = natural_list(names[:1] if len(names) > 2 else names) if is_each_named else ""
    named += f" and {len(names) - 1} more" if named and len(names) > 2 else ""
    shapes = [_shape_in_words(*pair) for pair in zip_longest(same[0].shapes, same[0].results)]
    listed = [f"{n} × {shape}" if n > 1 else shape for shape, n in Counter(shapes).items()]
    if len(shapes) > 1 and not is_combined(same[0]):
        listed = [f"in {len(shapes)} pieces of {shape}" for shape in dict.fromkeys(shapes)]
    elif len(listed) > MAX_SHAPES:
        listed = [f"{len(shapes)} arrays"]
    combined = ", combined" * is_combined(same[0])
    return f"{named} {natural_list(listed) if listed else ''}".strip() + combined


def explain_closed_over(array: ClosedOver) -> str:
    """Say what becomes of an array that a function closes over, and what to do."""
    size = bytes_with_unit(array.bytes)
    axes = natural_list(list(array.axes))
    sharded = f" Outside of the program it is sharded over {axes}." if axes else ""
    where = f" It is used in {place_of(array.where)}." if array.where is not None else ""
    return (
        f"The function closes over an array of {array.dtype} {array.shape}, which makes it a "
        f"constant of the program: every device holds all of its {size}.{sharded}{where} Pass it "
        f"as an argument."
    )


def explain_widened(collectives: Sequence[Collective]) -> str:
    """Return a sentence on the types that CPUs send in place of those that are counted."""
    pairs = dict.fromkeys(
        (types_in_words((asked,)), types_in_words((made,)))
        for c in collectives
        for asked, made in zip(c.dtypes, c.widened, strict=True)
        if asked != made
    )
    instead = natural_list([f"{made} in place of {asked}" for asked, made in pairs])
    return (
        f"XLA's CPU compiler sends {instead}. The table counts the types that the program "
        f"requests, as TPUs and GPUs send them; memory at the peak is that of the CPU's program."
    )


def types_in_words(dtypes: Sequence[str]) -> str:
    """Return the names that JAX has for HLO's types: `bfloat16`, or `bfloat16, int32`."""
    return ", ".join(dict.fromkeys(map(_type_in_words, dtypes)))


def _type_in_words(dtype: str) -> str:
    letters = dtype.rstrip("0123456789")
    if letters in TYPES:
        return f"{TYPES[letters]}{dtype.removeprefix(letters)}"
    if short := re.fullmatch(r"f(\d)(e\d+m\d+\w*)", dtype):
        return f"float{short[1]}_{short[2]}"
    return "bool" if dtype == "pred" else dtype


def is_combined(collective: Collective) -> bool:
    """Check whether the compiler has combined several that come from one line.

    The inputs of an all-to-all may be the pieces of one array.
    """
    return len(collective.shapes) > 1 and collective.kind != CollectiveKind.ALL_TO_ALL


def _shape_in_words(before: tuple[int, ...] | None, after: tuple[int, ...] | None) -> str:
    shape = "one number" if before == () else f"{before}"
    return f"{shape} → {after}" if after not in (None, before) else shape


def place_of(frame: Frame) -> str:
    """Return where a line of code is: `train.py:31`, or `line 7` of a notebook's cell."""
    file = Path(frame.file)
    # ipykernel names a notebook's cells as /tmp/ipykernel_71/2408.py
    is_cell = file.stem.isdigit() and file.parent.name.startswith("ipykernel_")
    return f"line {frame.line}" if is_cell else f"{file.name}:{frame.line}"


def source_of(frame: Frame) -> str:
    """Return the text of a line of code; empty if its file cannot be read."""
    return linecache.getline(frame.file, frame.line).strip()


def _shortened(source: str) -> str:
    return shorten(source, MAX_HELPER_CHARACTERS, placeholder=" …")
