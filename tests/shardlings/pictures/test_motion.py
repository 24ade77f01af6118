"""A collective in motion: what lies where, and when, is what its steps say."""

import re

import pytest

from shardlings.pictures import CollectivePicture, collective_as_html, collective_as_text
from shardlings.pictures.collective_motion import MOVE_SECONDS, motion_of, name_step
from shardlings.pictures.collective_pictures import MOTION_ROW_HEIGHT, ROW_GAP
from shardlings.pictures.collective_pieces import before_and_after, ring_steps

KINDS = (
    "all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute",
    "collective-broadcast",
)  # fmt: skip


def pairs_of(kind, size):
    ring = tuple((i, (i + 1) % size) for i in range(size))
    return ring if kind == "collective-permute" else ()


def lying_at(motion, seconds, on_right):
    """Return the pieces in slots at a time."""
    return {
        r.place: r.piece
        for r in motion.resting
        if r.on_right == on_right and r.moment.start <= seconds < r.moment.end
    }


def pieces_of(held):
    return {(i, k): piece for i, row in enumerate(held) for k, piece in enumerate(row) if piece}


@pytest.mark.parametrize("size", [2, 3, 4, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_after_each_step_the_slots_hold_what_the_step_says(kind, size):
    motion = motion_of(kind, size, pairs_of(kind, size))
    states = ring_steps(kind, size, pairs_of(kind, size))
    for number, state in enumerate(states):
        if kind == "collective-permute" and number == 0:
            continue  # nothing has arrived
        at = motion.step_moment(number).start + MOVE_SECONDS * (number > 0) + 0.1
        assert lying_at(motion, at, motion.has_two_grids) == pieces_of(state.held)


@pytest.mark.parametrize("size", [2, 3, 4, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_what_arrives_has_moved_from_its_sender(kind, size):
    motion = motion_of(kind, size, pairs_of(kind, size))
    first, _ = before_and_after(kind, size, pairs_of(kind, size))
    arrivals = [
        at for state in ring_steps(kind, size, pairs_of(kind, size)) for at in state.arrived
    ]
    assert sorted(moving.end for moving in motion.moving) == sorted(arrivals)
    for moving in motion.moving:
        just_before = moving.moment.start - 0.1
        source = pieces_of(first) if motion.has_two_grids else lying_at(motion, just_before, False)
        assert source[moving.start] == moving.piece


def test_an_all_reduce_is_a_reduce_scatter_and_then_an_all_gather():
    both, half = motion_of("all-reduce", 4), motion_of("reduce-scatter", 4)
    assert both.moving[: len(half.moving)] == half.moving
    assert both.steps == 2 * half.steps


def lines_above(kind, size=4, operation="add"):
    steps = motion_of(kind, size, pairs_of(kind, size)).steps
    return [name_step(kind, size, step, operation) for step in range(steps + 1)]


def test_at_first_a_device_passes_on_its_own_piece_and_then_what_it_received():
    assert lines_above("all-gather") == [
        "before",
        "step 1: each device passes on its own piece",
        "step 2: each device passes on what it received last",
        "step 3: each device passes on what it received last",
    ]


def test_what_goes_round_is_a_sum_only_if_it_is_added_up():
    assert lines_above("all-reduce", 2) == [
        "before",
        "step 1: each sum gains a piece as it goes round",
        "step 2: the finished sums go round",
    ]
    assert lines_above("all-reduce", 2, "minimum") == [
        "before",
        "step 1: each result gains a piece as it goes round",
        "step 2: the finished results go round",
    ]
    least = CollectivePicture("a", "", "all-reduce", ((0, 1),), operation="minimum", steps=True)
    assert not re.search(r"\bsums?\b", collective_as_html(least) + collective_as_text(least))


def drawn(kind, size=4, steps=True):
    pairs = pairs_of(kind, size)
    return CollectivePicture(kind, "", kind, (tuple(range(size)),), pairs, bytes=64, steps=steps)


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_picture_with_steps_moves(kind):
    assert "<animate" in collective_as_html(drawn(kind))
    assert "<animate" not in collective_as_html(drawn(kind, steps=False))


@pytest.mark.parametrize("size", [3, 4, 8])
@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
def test_in_a_ring_each_piece_moves_down_past_no_other_device(kind, size):
    ways = re.findall(r'values="0 0;0 0;([^;]*);', collective_as_html(drawn(kind, size)))
    assert ways
    assert set(ways) == {f"0 {MOTION_ROW_HEIGHT + ROW_GAP:g}"}


def test_there_is_no_script():
    assert "<script" not in "".join(collective_as_html(drawn(kind)) for kind in KINDS)
