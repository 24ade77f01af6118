"""Bytes on the wire and seconds, against figures worked out by hand and by playing the ring."""

from dataclasses import replace

import numpy as np
import pytest

from shardlings.collective_kinds import KINDS
from shardlings.programs import (
    LATENCIES,
    MACHINES,
    Collective,
    Report,
    communication_seconds,
    wire_bytes,
)
from shardlings.programs import report as report_module
from shardlings.programs.collective import INT8_SPEED
from shardlings.programs.report_timelines import timeline_of
from tests.helpers import mesh

MIB = 1 << 20


def collective(kind, size, bytes_in, bytes_out, times=1):
    return Collective(kind, ("x",), (tuple(range(size)),), bytes_in, bytes_out, times)


@pytest.mark.parametrize(
    ("made", "sent"),
    [
        (collective("all-reduce", 4, 4 * MIB, 4 * MIB), 6 * MIB),
        (collective("all-gather", 4, MIB, 4 * MIB), 3 * MIB),
        (collective("reduce-scatter", 4, 4 * MIB, MIB), 3 * MIB),
        (collective("all-to-all", 4, 4 * MIB, 4 * MIB), 3 * MIB),
        (collective("ragged-all-to-all", 4, 4 * MIB, 8 * MIB), 3 * MIB),
        (collective("collective-permute", 2, MIB, MIB), MIB),
        (collective("collective-broadcast", 4, MIB, MIB), MIB),
    ],
)
def test_bytes_on_the_wire(made, sent):
    assert wire_bytes(made) == sent


@pytest.mark.parametrize(
    ("int8", "bfloat16"),
    [(393, 197), (918, 459), (3_958 / 2, 1_979 / 2)],  # TPU v5e, TPU v5p, H100 without sparsity
)
def test_products_of_bytes_are_as_fast_as_published(int8, bfloat16):
    assert pytest.approx(int8 / bfloat16, rel=0.01) == INT8_SPEED


@pytest.mark.parametrize("n", [2, 3, 8])
def test_a_ring_that_is_played_sends_what_the_formula_says(n):
    """Gather by passing blocks on until everybody has all of them; count what device 0 sends."""
    block = 100
    held = [{d: np.full(block, d)} for d in range(n)]
    passed = list(range(n))
    sent = 0
    while any(len(h) < n for h in held):
        sent += block
        passed = [passed[(d - 1) % n] for d in range(n)]
        for d in range(n):
            held[d][passed[d]] = np.full(block, passed[d])
    assert wire_bytes(collective("all-gather", n, block, n * block)) == pytest.approx(sent)
    assert wire_bytes(collective("all-reduce", n, n * block, n * block)) == pytest.approx(2 * sent)


def test_every_kind_has_a_cost_that_grows_with_its_runs():
    for kind in KINDS:
        once = collective(kind, 8, 1000, 1000)
        often = collective(kind, 8, 1000, 1000, times=7)
        for machine in MACHINES.values():
            assert (
                0
                < 7 * communication_seconds(once, machine)
                == pytest.approx(communication_seconds(often, machine))
            )


@pytest.mark.parametrize(("times", "sent"), [(0, 0), (1, 3 * MIB), (5, 15 * MIB), (None, 3 * MIB)])
def test_what_is_sent_depends_on_the_number_of_runs(times, sent):
    report = Report((collective("all-gather", 4, MIB, 4 * MIB, times),), None, 0.0, 0)
    assert report.sent == sent
    assert [row.sent for row in report.rows()] == [sent]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [(1, "1 more kind of exchange is not drawn."), (2, "2 more kinds of exchange are not drawn.")],
)
def test_a_report_says_how_many_exchanges_are_not_drawn(more, sentence, monkeypatch):
    kinds = ("all-reduce", "all-gather", "reduce-scatter")
    monkeypatch.setattr(report_module, "MAX_PICTURES", len(kinds) - more)
    collectives = tuple(collective(kind, 4, 16, 16) for kind in kinds)
    assert sentence in str(Report(collectives, mesh(x=4), 0.0, 0))


def test_computing_that_is_not_drawn_is_not_in_the_legend():
    gather = replace(collective("all-gather", 8, MIB, 8 * MIB), work_before=0.5)
    for computing, legend in ((1e-3, ["computing", "all-gather"]), (1e-9, ["all-gather"])):
        timeline = timeline_of([gather], computing, MACHINES["TPU v5e"], range(8))
        assert timeline is not None
        assert [kind for kind, _ in timeline.totals] == legend


def test_machines_follow_from_what_their_sources_publish():
    both_ways, ports, used = 400e9, 4, 2
    assert MACHINES["TPU v5e"].link == both_ways / 2 / ports * used
    both_ways, ports = 1200e9, 6
    assert MACHINES["TPU v5p"].link == both_ways / 2 / ports * used
    assert MACHINES["H100 NVLink"].link == 900e9 / 2
    assert MACHINES["H100 100G Ethernet"].link == 100e9 / 8
    for machine in MACHINES.values():
        assert machine.source


def test_gathering_a_gibibyte_takes_about_ten_milliseconds_on_v5e():
    made = collective("all-gather", 16, (1 << 30) // 16, 1 << 30)
    assert communication_seconds(made, MACHINES["TPU v5e"]) == pytest.approx(0.01, rel=0.02)


def test_latencies_are_what_their_sources_publish():
    # "sending any buffer under 4.5e10 * 1e-6 = 45kB will be latency bound": TPU v5e, one direction
    assert 4.5e10 * LATENCIES["TPU v5e"].seconds == pytest.approx(45e3)
    microseconds_of_rings = {"NVLink": (0.6, 1.9, 3.4), "network": (2.7, 4.0, 14.0)}
    """NCCL's hwLat, for the protocols LL, LL128 and Simple."""
    assert LATENCIES["H100 NVLink"].seconds * 1e6 == microseconds_of_rings["NVLink"][2]
    assert LATENCIES["H100 100G Ethernet"].seconds * 1e6 == microseconds_of_rings["network"][2]
    assert set(LATENCIES) < set(MACHINES)
