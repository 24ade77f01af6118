"""Bytes on the wire and seconds, against figures worked out by hand and by playing the ring."""

import math
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
from shardlings.programs.collective import INT8_SPEED, name_axes
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


def gathered(kind, sizes, block, **more):
    """Return a collective over axes of these sizes, with a block of so many bytes before it."""
    n = math.prod(sizes)
    bytes_out = {"all-gather": n * block, "all-to-all": block, "collective-permute": block}[kind]
    groups = (tuple(range(n)),)
    return Collective(kind, ("x",), groups, block, bytes_out, axis_sizes=sizes, **more)


TORUS, SWITCH = MACHINES["TPU v5p"], MACHINES["H100 NVLink"]


@pytest.mark.parametrize(("n", "ratio"), [(4, 1 / 3), (8, 2 / 7), (16, 4 / 15)])
def test_in_a_ring_an_all_to_all_takes_about_a_quarter_of_an_all_gather(n, ratio):
    """The Scaling Book has V / W for gathering, and V / (4 W) here; we count n - 1 blocks of n."""
    seconds = [
        communication_seconds(gathered(kind, (n,), MIB), TORUS)
        for kind in ("all-to-all", "all-gather")
    ]
    assert seconds[0] / seconds[1] == pytest.approx(ratio)
    assert seconds[0] / (seconds[1] * n / (n - 1)) == pytest.approx(1 / 4)


@pytest.mark.parametrize("n", range(2, 10))
def test_an_all_to_all_takes_as_long_as_its_pieces_occupy_the_links_of_a_ring(n):
    """Send each piece the shorter way round, half each way if both are as long; count them."""
    carried = np.zeros((2, n))  # for each direction, the pieces on the link after each device
    for source in range(n):
        for steps in range(1, n):
            for direction, way in ((0, steps), (1, n - steps)):
                share = 1.0 if 2 * way < n else 0.5 if 2 * way == n else 0.0
                for step in range(way):
                    at = source + step if direction == 0 else source - step - 1
                    carried[direction, at % n] += share
    one_way = TORUS.link / 2
    seconds = carried.max() * MIB / one_way
    assert communication_seconds(gathered("all-to-all", (n,), n * MIB), TORUS) == pytest.approx(
        seconds
    )


def test_axes_of_a_torus_share_the_work_and_those_behind_a_switch_do_not():
    one, two, three = (gathered("all-gather", sizes, MIB) for sizes in ((64,), (8, 8), (4, 4, 4)))
    for machine, times in (
        (SWITCH, (1, 1, 1)),
        (TORUS, (1, 2, 3)),
        (MACHINES["TPU v5e"], (1, 2, 2)),
    ):
        seconds = communication_seconds(one, machine)
        assert seconds / communication_seconds(two, machine) == pytest.approx(times[1])
        assert seconds / communication_seconds(three, machine) == pytest.approx(times[2])


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_an_all_reduce_takes_twice_as_long_as_an_all_gather(machine):
    reduced = replace(gathered("all-gather", (4, 4), MIB), kind="all-reduce")
    gather = gathered("all-gather", (4, 4), MIB)
    assert communication_seconds(reduced, machine) == pytest.approx(
        2 * communication_seconds(gather, machine)
    )


def test_over_two_axes_of_a_torus_the_longer_one_bounds_an_all_to_all():
    seconds = {
        sizes: communication_seconds(gathered("all-to-all", sizes, MIB), TORUS)
        for sizes in ((8,), (2, 8), (8, 8))
    }
    assert len(set(seconds.values())) == 1


@pytest.mark.parametrize(
    ("axes", "shift", "passes"),
    [
        ({"x": 8}, {"x": 1}, 2),
        ({"x": 8}, {"x": 7}, 2),
        ({"x": 8}, {"x": 3}, 6),
        ({"x": 8}, {"x": 4}, 4),
        ({"x": 4, "y": 2}, {"x": 1}, 2),
        ({"x": 4, "y": 2}, {"y": 1}, 1),
        ({"x": 4, "y": 2}, {"x": 1, "y": 1}, 2),
    ],
)
def test_a_shift_uses_one_direction_of_a_ring(axes, shift, passes):
    numbers = np.arange(8).reshape(*axes.values())
    moved = np.roll(numbers, list(shift.values()), [list(axes).index(axis) for axis in shift])
    pairs = tuple(zip(numbers.flat, moved.flat, strict=True))
    sent = Collective("collective-permute", (), pairs, MIB, MIB)
    sent = name_axes(sent, mesh(**axes), range(8))
    assert sent.axes == tuple(shift)
    assert communication_seconds(sent, TORUS) == pytest.approx(passes * MIB / TORUS.link)
    assert communication_seconds(sent, SWITCH) == pytest.approx(MIB / SWITCH.link)


@pytest.mark.parametrize(
    ("pairs", "passes"),
    [
        (((0, 3),), 2),  # one block, on three links
        (((0, 4),), 1),  # half of it each way
        (((0, 1), (1, 2)), 2),
        (((0, 2), (1, 3)), 4),  # both pass the link from 1 to 2
        (tuple((i, 7 - i) for i in range(8)), 4),
    ],
)
def test_blocks_that_share_a_link_wait_for_one_another(pairs, passes):
    sent = name_axes(Collective("collective-permute", (), pairs, MIB, MIB), mesh(x=8), range(8))
    assert communication_seconds(sent, TORUS) == pytest.approx(passes * MIB / TORUS.link)


def test_more_mesh_axes_than_a_torus_has_share_its_links():
    v5e = MACHINES["TPU v5e"]
    three, two = (gathered("all-to-all", sizes, MIB) for sizes in ((2, 2, 2), (4, 2)))
    assert communication_seconds(three, v5e) == communication_seconds(two, v5e)
    # not less than half of all pieces through the middle of a torus of 4 x 2
    assert communication_seconds(three, v5e) == pytest.approx(MIB / v5e.link)


def test_a_swap_of_two_chips_takes_as_long_as_a_gather_over_both():
    swapped = name_axes(
        Collective("collective-permute", (), ((0, 1), (1, 0)), MIB, MIB), mesh(x=2), range(2)
    )
    gather = gathered("all-gather", (2,), MIB)
    assert communication_seconds(swapped, TORUS) == communication_seconds(gather, TORUS)
