"""Place programs on the roofline of a machine: operations against bytes sent.

A chip computes at most so many operations a second, and sends at most so many bytes a second. A
program that computes `i` operations for each byte that it sends can therefore reach `min(peak, link
× i)` operations a second if it does both at once: that is the roof. (In a torus, a byte counts as
often as it occupies the links of an axis.) If one waits for the other, it
reaches its operations divided by the sum of both times, which is at least half of that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shardlings.pictures import Roofline, RooflinePoint
from shardlings.programs.collective import Machine
from shardlings.programs.numbers_in_words import (
    bandwidth_in_words,
    bytes_with_unit,
    count_in_words,
    time_in_words,
)

MIN_SECONDS: Final = 1e-6
"""Below this, starting a message takes longer than sending it."""

LATENCY: Final = (
    "At these sizes, starting a message takes longer than sending it, which a roofline leaves out; "
    "communication(…, scaled={16: 8192}) asks about larger ones."
)


@dataclass(frozen=True)
class Measured:
    """A program's costs on a machine.

    Attributes:
        name: the program's name.
        flops: operations on each device; infinite if unknown.
        sent: bytes that each device sends; infinite if unknown.
        compute_seconds: the seconds that computing takes.
        communication_seconds: the seconds that sending takes.
    """

    name: str
    flops: float
    sent: float
    compute_seconds: float
    communication_seconds: float


def roofline_of(programs: Sequence[Measured], machine: Machine) -> Roofline:
    """Place programs on the roofline of a machine.

    Args:
        programs: the programs, with different names.
        machine: the machine.
    """
    drawn = [program for program in programs if _is_drawn(program)]
    remarks = [_why_not_drawn(program) for program in programs if not _is_drawn(program)]
    if any(0 < program.communication_seconds < MIN_SECONDS for program in drawn):
        remarks.append(LATENCY)
    peak, link = f"{count_in_words(machine.flops)} operations", bandwidth_in_words(machine.link)
    ridge = f"{_count(machine.flops / machine.link)} operations for each byte"
    return Roofline(
        machine.name,
        machine.flops,
        machine.link,
        f"The roofline of communication on {machine.name}: a chip computes at most {peak} a second "
        f"and sends at most {link} a second. The ridge is at {ridge}: with fewer, the links are "
        f"the limit.",
        (
            f"on the slope, sending is the limit: {link} a second",
            f"on the flat part, computing: {peak} a second",
            f"they meet at {ridge}",
        ),
        tuple(_point(program, machine) for program in drawn),
        tuple(remarks),
    )


def _is_drawn(program: Measured) -> bool:
    return program.flops > 0 and math.isfinite(program.flops) and math.isfinite(program.sent)


def _why_not_drawn(program: Measured) -> str:
    """Return why a program has no place in the picture."""
    if not (math.isfinite(program.flops) and math.isfinite(program.sent)):
        return (
            f"{program.name}: not drawn, because it is unknown how often a loop in it runs, or "
            f"what it does there, and so how much it computes or sends."
        )
    if not program.sent:
        return f"{program.name}: not drawn, for it neither computes nor sends anything."
    return (
        f"{program.name}: not drawn, for it does no floating-point operations; it sends "
        f"{bytes_with_unit(program.sent)} from each device, which takes "
        f"{time_in_words(program.communication_seconds)}."
    )


def _point(program: Measured, machine: Machine) -> RooflinePoint:
    both = max(program.compute_seconds, program.communication_seconds)
    one_after_another = program.compute_seconds + program.communication_seconds
    together, apart = program.flops / both, program.flops / one_after_another
    flops = f"{program.name}: {count_in_words(program.flops)} operations"
    if not program.communication_seconds:
        reached = f"{_percent(1)} of the peak"
        return RooflinePoint(
            program.name,
            f"{flops} on each device, and nothing is sent: {reached}, in {time_in_words(both)}.",
            math.inf,
            together,
            apart,
            ("sends nothing", _percent(1), "–"),
        )
    occupied = program.communication_seconds * machine.link
    sent = f"{bytes_with_unit(program.sent)} sent on each device"
    if not math.isclose(occupied, program.sent, rel_tol=1e-2):
        sent += f", which takes as long as {bytes_with_unit(occupied)} in a ring along one axis"
    intensity = program.flops / occupied
    ratio = f"{_count(intensity)} operations for each byte"
    if math.isclose(program.communication_seconds, program.compute_seconds, rel_tol=1e-2):
        limit = "sending takes as long as computing"
    elif program.communication_seconds > program.compute_seconds:
        limit = "the links are the limit"
    else:
        limit = "arithmetic is the limit"
    best, worst = _percent(together / machine.flops), _percent(apart / machine.flops)
    return RooflinePoint(
        program.name,
        f"{flops} and {sent}, {ratio}, so {limit}. If "
        f"computing and sending happen at once, {count_in_words(together)} operations a second "
        f"({best} of the peak, in {time_in_words(both)}); if one waits for the other, "
        f"{count_in_words(apart)} ({worst}, in {time_in_words(one_after_another)}).",
        intensity,
        together,
        apart,
        (_count(intensity), best, worst),
    )


def _count(number: float) -> str:
    """Return a count such as `1,970` or `0.25`."""
    return count_in_words(number) if number >= 10 else f"{number:.2g}"


def _percent(fraction: float) -> str:
    """Return a percentage such as `34%` or `0.34%`."""
    if fraction < 1e-4:
        return "under 0.01%"
    return f"{100 * fraction:.0f}%" if fraction >= 0.1 else f"{100 * fraction:.2g}%"
