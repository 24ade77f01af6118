"""Name the published time of a step of a collective that sends next to nothing."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Latency:
    """The time that one step of a collective takes on a machine, besides that of its bytes.

    Attributes:
        seconds: the time of a step that sends next to nothing.
        source: where it is published.
    """

    seconds: float
    source: str


LATENCIES: Final = {
    "TPU v5e": Latency(
        1e-6,
        "https://jax-ml.github.io/scaling-book/sharding/: a hop over a link takes around 1 µs",
    ),
    "H100 NVLink": Latency(
        3.4e-6,
        "NCCL, src/graph/tuning.cc: hwLat of a step of a ring over NVLink, protocol Simple",
    ),
    "H100 100G Ethernet": Latency(
        14e-6,
        "NCCL, src/graph/tuning.cc: hwLat of a step of a ring over a network, protocol Simple",
    ),
}
"""By the names in `MACHINES`. There is none for the TPU v5p: none was found that is published."""
