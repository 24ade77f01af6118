"""Place a program's computing and its collectives in time, one after the other."""

import math
from collections.abc import Iterator, Sequence

from humanize import natural_list

from shardlings.pictures import COMPUTING, Stretch, Timeline
from shardlings.programs.collective import Collective, Machine, communication_seconds
from shardlings.programs.collective_pictures import axes_in_words
from shardlings.programs.numbers_in_words import runs_in_words, time_in_words
from shardlings.programs.report_rooflines import MIN_SECONDS


def in_program_order(collectives: Sequence[Collective]) -> list[Collective]:
    """Return collectives in the order in which they run, which is that of their numbers."""
    return sorted(collectives, key=lambda c: c.work_before or 0)


def timeline_of(
    collectives: Sequence[Collective], computing: float, machine: Machine, devices: Sequence[int]
) -> Timeline | None:
    """Return the timeline of a program, or None if its time is unknown.

    Whatever a loop repeats is drawn once, as one stretch for all of its runs: its computing, and
    each of its collectives.

    Args:
        collectives: the program's collectives.
        computing: the seconds of computing on each device.
        machine: the machine.
        devices: the ids of all devices of the program; if it is empty, those of its collectives.
    """
    if not math.isfinite(computing) or any(
        c.work_before is None or c.times is None for c in collectives
    ):
        return None
    in_order = in_program_order(collectives)
    taking_part = [{device for group in c.groups for device in group} for c in in_order]
    devices = devices or sorted(set().union(*taking_part))
    alike: dict[tuple[bool, ...], list[int]] = {}
    for device in devices:
        alike.setdefault(tuple(device in those for those in taking_part), []).append(device)
    total = computing + sum(communication_seconds(c, machine) for c in in_order)
    return Timeline(
        f"Time on {machine.name}, if one thing is done after the other: {time_in_words(total)}",
        tuple(
            (_name(ids, len(devices)), tuple(_stretches(in_order, takes_part, computing, machine)))
            for takes_part, ids in alike.items()
        ),
        tuple(_totals(in_order, computing, machine)),
    )


def _stretches(
    collectives: Sequence[Collective],
    takes_part: Sequence[bool],
    computing: float,
    machine: Machine,
) -> Iterator[Stretch]:
    """Yield what devices that take part in the same collectives do, one thing after the other.

    Computing that takes no measurable time is left out. A single collective needs no number.
    """
    done = 0.0
    for number, (c, is_taking_part) in enumerate(zip(collectives, takes_part, strict=True), 1):
        before = c.work_before or 0.0
        if (before - done) * computing >= MIN_SECONDS:
            yield _computing((before - done) * computing)
            done = before
        seconds = communication_seconds(c, machine)
        # a stretch without a kind is a wait for the others
        kind, over = (c.kind, axes_in_words(c)) if is_taking_part else ("", "")
        yield Stretch(
            kind,
            over,
            seconds,
            time_in_words(seconds),
            runs_in_words(c.times, c.is_conditional),
            number * (len(collectives) > 1),
        )
    if (1 - done) * computing >= MIN_SECONDS:
        yield _computing((1 - done) * computing)


def _computing(seconds: float) -> Stretch:
    return Stretch(COMPUTING, "", seconds, time_in_words(seconds))


def _totals(
    collectives: Sequence[Collective], computing: float, machine: Machine
) -> Iterator[tuple[str, str]]:
    """Yield the time of computing, if it is drawn, and of each kind of collective."""
    spent = {COMPUTING: computing} if computing >= MIN_SECONDS else {}
    for c in collectives:
        spent[c.kind] = spent.get(c.kind, 0.0) + communication_seconds(c, machine)
    for kind, seconds in spent.items():
        yield kind, time_in_words(seconds)


def _name(ids: Sequence[int], count: int) -> str:
    """Return `Each of the 8 devices`, or `Devices 0, 1, 2 and 3`."""
    if len(ids) == count:
        return "The device" if count == 1 else f"Each of the {count} devices"
    return f"Device{'s' * (len(ids) > 1)} {natural_list([*map(str, ids)])}"
