"""Limit what a program communicates, in a test of one's own."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral
from typing import Final, NamedTuple, SupportsIndex

from humanize import natural_list

from shardlings.collective_kinds import KINDS
from shardlings.errors import UsageError
from shardlings.programs.collective import Collective, take_costliest_branches
from shardlings.programs.collective_pictures import axes_in_words
from shardlings.programs.numbers_in_words import (
    BINARY_UNITS,
    BYTES,
    Unit,
    choose_byte_unit,
    write_apart,
)

DECIMAL_UNITS: Final = tuple(
    Unit(name, float(1000**power)) for power, name in enumerate(("kB", "MB", "GB", "TB"), start=1)
)

UNITS: Final = {
    **{unit.name: unit for unit in (BYTES, *BINARY_UNITS, *DECIMAL_UNITS)},
    "byte": BYTES,
}
"""Units that a limit may have."""

SIZE: Final = re.compile(r"(?P<number>(\d+|\d{1,3}([,_]\d{3})+)(\.\d+)?)\s*(?P<unit>[A-Za-z]+)")

Limits = Mapping[str, SupportsIndex | str]
"""The most bytes for each kind of collective: a number, or a size such as `"4 MiB"`."""


class ByteLimit(NamedTuple):
    """A number of bytes, and the unit in which it was written."""

    bytes: int
    unit: Unit


def read_limits(limits: Limits) -> dict[str, ByteLimit]:
    """Return the most bytes for each kind of collective.

    Raises:
        UsageError: a kind or a size is unknown.
    """
    if not isinstance(limits, Mapping):
        raise UsageError(
            f"at_most expects a dictionary of the most bytes for each kind of collective, such as "
            f'{{"all-reduce": "4 MiB"}}, but got {type(limits).__name__}.'
        )
    for kind in limits:
        if kind not in KINDS:
            near = get_close_matches(str(kind), KINDS, n=1, cutoff=0.4)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise UsageError(
                f"There is no collective {kind!r}; there are {natural_list([*KINDS])}.{meant}"
            )
    return {kind: _read_size(kind, size) for kind, size in limits.items()}


def _read_size(kind: str, size: object) -> ByteLimit:
    is_bool = isinstance(size, bool)
    if isinstance(size, Integral) and not is_bool and int(size) >= 0:
        return ByteLimit(int(size), choose_byte_unit([int(size)]))
    written = SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if written is None or written["unit"] not in UNITS:
        raise UsageError(
            f'A limit is a number of bytes, or a size such as "4 MiB", "512 KiB" or "2 GB"; the '
            f"one for {kind} is {size!r}.{' A comma separates thousands.' * (',' in str(size))}"
        )
    unit = UNITS[written["unit"]]
    return ByteLimit(round(float(re.sub("[,_]", "", written["number"])) * unit.size), unit)


def read_axes(over: str | Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    """Return the mesh axes that a limit is for; none if it is for all collectives.

    Args:
        over: an axis, several, or None.
        known: the axes of the program's mesh.

    Raises:
        UsageError: the mesh has no such axis.
    """
    axes = () if over is None else (over,) if isinstance(over, str) else tuple(over)
    for axis in axes:
        if axis not in known:
            has = f"its axes are {natural_list([*map(repr, known)])}" if known else "it has none"
            raise UsageError(
                f"over={axis!r} is not an axis of the program's mesh: {has}. If the program has "
                f"another mesh, pass it: communication(…, mesh=mesh)."
            )
    return axes


def find_exceeded(
    collectives: Sequence[Collective], limits: Mapping[str, ByteLimit], axes: Sequence[str]
) -> Iterator[tuple[str, list[Collective]]]:
    """Yield each limit that a program exceeds.

    Args:
        collectives: the program's collectives.
        limits: the most bytes of buffers for each kind; other kinds may not occur.
        axes: the mesh axes that the limits are for; none if they are for all collectives. A
            collective that runs over no whole axes may run over any part of them, so it counts.

    Yields:
        A sentence that says what is too much, and the collectives that add up to it, the largest
        first.
    """
    counted = [c for c in collectives if not axes or not c.axes or set(c.axes) & set(axes)]
    for kind in dict.fromkeys(c.kind for c in counted):
        alike = sorted((c for c in counted if c.kind == kind), key=lambda c: -c.total_bytes)
        unknown = [c for c in alike if c.times is None]
        alike = take_costliest_branches(alike, lambda c: c.total_bytes)
        moved = sum(c.total_bytes for c in alike)
        over = natural_list(list(dict.fromkeys(map(axes_in_words, alike))))
        unit = limits[kind].unit if kind in limits else choose_byte_unit([moved])
        most = limits[kind].bytes if kind in limits else 0
        written, allowed = write_apart(moved, most, unit.write_with_name, BYTES.write_with_name)
        communicates = f"{written} on each device by {kind} over {over}"
        if kind not in limits:
            yield f"The program communicates {communicates}, which no limit allows.", alike
        elif unknown:
            yield (
                f"The program communicates by {kind} over {over} in a loop whose length is known "
                f"only when it runs, so it cannot be limited.",
                unknown,
            )
        elif moved > most:
            yield f"The program communicates {communicates}; at most {allowed} are allowed.", alike
