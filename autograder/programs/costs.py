"""What a collective costs: bytes on the wire by the ring formulas, and seconds on named machines.

In a ring of `n` devices each passes on, `n - 1` times, one `n`-th of the whole buffer `V`. An
all-gather, a reduce-scatter and an all-to-all therefore send `(n - 1) / n * V` from each device; an
all-reduce is a reduce-scatter and then an all-gather, so twice that; a permutation and a broadcast
send the buffer once. (Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
Operations in MPICH", 2005, section 4.) Latency is left out: these are times of large buffers.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from autograder.programs.collective import Collective


@dataclass(frozen=True)
class Machine:
    """A machine, by its published speeds, each for one chip.

    Attributes:
        name: what it is called.
        link: bytes a second that a chip sends while it passes a buffer round a ring along one
            mesh axis.
        flops: floating-point operations a second, bfloat16, dense.
        memory: bytes a second from its own memory.
        source: where the numbers are published.
    """

    name: str
    link: float
    flops: float
    memory: float
    source: str


MACHINES: Final = {
    machine.name: machine
    for machine in (
        # 400 GB/s between chips, both ways together, over four ports: 50 GB/s out of each. A ring
        # along one axis of the torus goes both ways round, out of two ports.
        Machine("TPU v5e", 100e9, 197e12, 819e9, "https://docs.cloud.google.com/tpu/docs/v5e"),
        # 1,200 GB/s, both ways together, over six ports: 100 GB/s out of each, two of them used.
        Machine("TPU v5p", 200e9, 459e12, 2765e9, "https://docs.cloud.google.com/tpu/docs/v5p"),
        # NVLink's 900 GB/s are both ways together; the operations are without sparsity.
        Machine(
            "H100 NVLink", 450e9, 989e12, 3350e9, "https://www.nvidia.com/en-us/data-center/h100/"
        ),
        # The same chip where all that leaves it goes through one port of 100 Gbit/s.
        Machine("H100 100G Ethernet", 12.5e9, 989e12, 3350e9, "IEEE 802.3bj-2014: 100 Gbit/s"),
    )
}
"""Machines by name. A test says for each that its numbers follow from what its source publishes."""


def no_such_machine(name: object) -> str:
    """What is said where a machine is asked for that there is none of."""
    listed = ", ".join(map(repr, MACHINES))
    if not isinstance(name, str):
        return f"A machine is asked for by its name, one of {listed}; {type(name).__name__} came."
    known = {each.lower(): each for each in MACHINES}
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    meant = f" Did you mean {known[near[0]]!r}?" if near else ""
    return f"There is no machine {name!r} here; there are {listed}.{meant}"


def wire_bytes(collective: Collective) -> float:
    """The bytes that one device sends in one run of a collective, by the ring formulas above.

    What a ragged all-to-all sends is decided when it runs; this is the most that it can.
    """
    passes, n = collective.traits.ring_passes, collective.size
    return passes * (n - 1) / n * collective.bytes if passes else float(collective.bytes)


def seconds(collective: Collective, machine: Machine) -> float:
    """The time that all runs of a collective take on a machine, its links busy with nothing else.

    Args:
        collective: what is sent; a loop whose count is unknown counts once.
        machine: one of `MACHINES`, or one of your own.
    """
    times = 1 if collective.times is None else collective.times
    return times * wire_bytes(collective) / machine.link
