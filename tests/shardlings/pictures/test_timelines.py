"""A timeline: each stretch as long as it takes, in program order, with a text alternative."""

import re
import xml.etree.ElementTree as ET

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from shardlings import communication
from shardlings.pictures import (
    COMPUTING,
    Stretch,
    Timeline,
    list_numbers,
    timeline_as_html,
    timeline_as_text,
)
from shardlings.pictures.timelines import BAR_HEIGHT, KIND_COLOURS
from shardlings.programs import MACHINES, communication_seconds
from tests.helpers import mesh, sharding

LINE = mesh(x=8)
LARGE = {16: 8192}


def report_on(function, spec=("x",), **options):
    mapped = jax.shard_map(
        function, mesh=LINE, in_specs=jax.P(*spec), out_specs=jax.P(*spec), check_vma=False
    )
    x = jax.device_put(np.ones((16, 16), np.float32), sharding(*spec, x=8))
    return communication(mapped, x, scaled=LARGE, **options)


def layer_by_layer(x):
    whole = lax.all_gather(x, "x", axis=0, tiled=True)
    y = x @ whole
    total = lax.psum(y, "x")
    z = jnp.tanh(total) @ whole.T
    return lax.ppermute(z, "x", [(i, (i + 1) % 8) for i in range(8)])


def stretches(report):
    ((_, found),) = report.timeline().bars
    return found


def test_stretches_are_in_program_order():
    report = report_on(layer_by_layer)
    assert [stretch.kind for stretch in stretches(report)] == [
        "all-gather", COMPUTING, "all-reduce", COMPUTING, "collective-permute",
    ]  # fmt: skip


def test_a_stretch_is_as_long_as_it_takes():
    report = report_on(layer_by_layer)
    found = stretches(report)
    sending = {c.kind: communication_seconds(c, MACHINES["TPU v5e"]) for c in report.collectives}
    for stretch in found:
        if stretch.kind != COMPUTING:
            assert stretch.seconds == pytest.approx(sending[stretch.kind])
    computing = sum(s.seconds for s in found if s.kind == COMPUTING)
    assert computing == pytest.approx(report.compute_seconds, rel=1e-3)


def test_a_loop_is_one_stretch_for_all_of_its_runs():
    def loop(x):
        def turn(carry, _):
            return jnp.tanh(carry @ lax.all_gather(x, "x", axis=0, tiled=True)), None

        return lax.scan(turn, x, None, length=5)[0]

    def sums(x):
        return lax.scan(lambda c, _: (lax.psum(c @ c.T @ c, "x"), None), x, None, length=5)[0]

    (summed,) = [s for s in stretches(report_on(sums)) if s.kind == "all-reduce"]
    assert summed.runs == "× 5"
    assert summed.seconds == pytest.approx(report_on(sums).communication_seconds)
    assert stretches(report_on(loop))[0].kind == "all-gather"


def test_devices_that_do_not_take_part_have_a_bar_of_their_own():
    report = report_on(lambda x: lax.ppermute(x @ x.T @ x, "x", [(i, i + 1) for i in range(3)]))
    (first, sending), (rest, waiting) = report.timeline().bars
    assert first == "Devices 0, 1, 2 and 3"
    assert rest == "Devices 4, 5, 6 and 7"
    assert [s.kind for s in sending] == [COMPUTING, "collective-permute"]
    assert [s.kind for s in waiting] == [COMPUTING, ""]
    assert "waiting" in str(report)


def test_a_program_of_unknown_length_has_none():
    def until(x):
        return lax.while_loop(lambda c: c.sum() < 100, lambda c: lax.psum(c, "x"), x)

    report = report_on(until)
    assert report.timeline() is None
    assert "if one thing is done after the other" not in str(report)


def test_a_small_program_has_no_bar():
    x = jax.device_put(np.ones((16, 16), np.float32), sharding("x", x=8))
    report = communication(lambda x: x + x.T, x)
    assert "if one thing is done after the other" not in str(report)


TIMELINE = Timeline(
    "Time on a machine: 4 ms",
    (
        (
            "Each of the 8 devices",
            (
                Stretch(COMPUTING, "", 1e-3, "1 ms"),
                Stretch("all-gather", "x", 2e-3, "2 ms", "× 24"),
                Stretch("all-reduce", "x, y", 1e-3, "1 ms"),
            ),
        ),
    ),
    ((COMPUTING, "1 ms"), ("all-gather", "2 ms"), ("all-reduce", "1 ms")),
)


def test_a_bar_is_to_scale():
    page = ET.fromstring(f"<div>{timeline_as_html(TIMELINE)}</div>")
    svg = "{http://www.w3.org/2000/svg}"
    rects = [r for r in page.iter(f"{svg}rect") if r.get("x")]
    assert [(r.get("x"), r.get("width")) for r in rects] == [
        ("0.000%", "25.000%"), ("25.000%", "50.000%"), ("75.000%", "25.000%"),
    ]  # fmt: skip
    assert [r.get("fill") for r in rects] == [
        KIND_COLOURS[kind] for kind in (COMPUTING, "all-gather", "all-reduce")
    ]


def test_a_bar_has_a_text_alternative():
    said = (
        "computing 1 ms, then all-gather over x × 24, 2 ms in all, then all-reduce over x, y 1 ms"
    )
    assert f'aria-label="Each of the 8 devices, in order: {said}."' in timeline_as_html(TIMELINE)
    text = timeline_as_text(TIMELINE)
    assert text.splitlines()[0] == "Time on a machine: 4 ms"
    assert f"Each of the 8 devices: {said}" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 90


def drawn(*stretches):
    """Return a timeline's labels in the bar, and its numbers below."""
    page = timeline_as_html(Timeline("Time", (("The device", stretches),), ()))
    words = re.findall(r'<text [^>]* y="([^"]*)"[^>]*>([^<]*)</text>', page)
    inside = [text for y, text in words if float(y) < BAR_HEIGHT]
    return inside, [text for y, text in words if float(y) > BAR_HEIGHT]


def sending(number, seconds):
    return Stretch("all-gather", "x", seconds, "1 s", number=number)


def test_two_stretches_of_the_same_kind_have_different_numbers():
    assert drawn(sending(1, 1), sending(2, 2)) == (["(1) all-gather", "(2) all-gather"], [])


def test_a_short_stretch_has_its_number_alone_and_a_shorter_one_below_the_bar():
    assert drawn(sending(1, 90), sending(2, 10), Stretch(COMPUTING, "", 90, "1 s")) == (
        ["(1) all-gather", "2", "computing"], [],
    )  # fmt: skip
    between = [Stretch(COMPUTING, "", 90, "1 s")] * 2
    assert drawn(between[0], sending(1, 1), between[1]) == (["computing"] * 2, ["1"])


def test_numbers_below_the_bar_that_would_overlap_are_listed_together():
    many = [sending(number, 1) for number in range(1, 6)]
    assert drawn(*many, sending(6, 900), sending(7, 1))[1] == ["1–5", "7"]


def test_numbers_in_a_row_are_a_range():
    assert list_numbers([1, 4]) == "1, 4"
    assert list_numbers([1, 2, 5, 6, 7]) == "1, 2, 5–7"
    assert list_numbers(range(1, 24, 2)) == "1, 3, 5, …, 23"


def test_a_row_of_the_table_has_the_numbers_of_its_stretches():
    def twice(x):
        for _ in range(2):
            whole = lax.all_gather(x, "x", axis=0, tiled=True)
            x = lax.psum(jnp.tanh(x @ whole), "x")
        return x

    report = report_on(twice)
    order = [(s.number, s.kind) for s in stretches(report) if s.number]
    assert order == [(1, "all-gather"), (2, "all-reduce"), (3, "all-gather"), (4, "all-reduce")]
    for row in report.rows():
        assert row.numbers == tuple(number for number, kind in order if kind == row.kind)
    for written in (str(report), re.sub("<[^>]*>", "", report._repr_html_())):
        assert "(1, 3) all-gather" in written
        assert "(2, 4) all-reduce" in written


def test_without_a_timeline_or_with_a_single_collective_there_are_no_numbers():
    x = jax.device_put(np.ones((16, 16), np.float32), sharding("x", x=8))
    for report in (
        report_on(lambda x: lax.psum(x @ x.T @ x, "x")),
        communication(lambda x: (x + x.T, x.sum()), x),
    ):
        assert "(1)" not in str(report)
    with pytest.raises(AssertionError) as caught:
        report_on(layer_by_layer).at_most({})
    assert "all-gather" in str(caught.value)
    assert "(1)" not in str(caught.value)


def test_the_colours_of_kinds_stand_out_from_both_themes():
    for colour in KIND_COLOURS.values():
        own = luminance(colour)
        for page in ("#ffffff", "#111111"):
            dark, light = sorted((own, luminance(page)))
            assert (light + 0.05) / (dark + 0.05) >= 3, (colour, page)


def luminance(colour):
    """Return a colour's relative luminance, as WCAG defines it."""
    parts = [int(part, 16) / 255 for part in re.findall("..", colour.removeprefix("#"))]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
