"""A report draws its roofline: its points follow from what sending and computing take."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from shardlings import communication
from shardlings.errors import UsageError
from shardlings.programs import MACHINES, communication_seconds
from tests.helpers import mesh, sharding

LINE = {"x": 8}
LARGE = {16: 8192}


def put(*spec):
    return jax.device_put(np.ones((16, 16), np.float32), sharding(*spec, **LINE))


def product(spec, other, machine="TPU v5e", scaled=LARGE):
    return communication(jnp.dot, put(*spec), put(*other), machine=machine, scaled=scaled)


@pytest.mark.parametrize("machine", MACHINES)
def test_its_points_are_what_sending_and_computing_take(machine):
    report = product((None, "x"), ("x",), machine)
    (point,) = report.roofline().points
    speeds = MACHINES[machine]
    sending = sum(communication_seconds(c, speeds) for c in report.collectives)
    computing = report.flops / speeds.flops
    assert point.together == pytest.approx(report.flops / max(sending, computing))
    assert point.apart == pytest.approx(report.flops / (sending + computing))
    assert point.intensity == pytest.approx(report.flops / report.sent)
    roof = min(speeds.flops, speeds.link * report.flops / report.sent)
    assert point.together == pytest.approx(roof)
    assert roof / 2 <= point.apart < roof


def test_the_ridge_is_where_sending_takes_as_long_as_computing():
    drawn = product((None, "x"), ("x",)).roofline()
    assert drawn.ridge == pytest.approx(1970)
    assert drawn.ridge / drawn.peak == pytest.approx(1 / drawn.link)


def test_each_program_has_a_line_of_its_own():
    drawn = product((None, "x"), ("x",)).roofline("reduced", quiet=product(("x",), ()))
    roof, reduced, quiet = str(drawn).splitlines()
    assert roof == (
        "The roofline of communication on TPU v5e: a chip computes at most 197 trillion operations "
        "a second and sends at most 100 GB a second. The ridge is at 1,970 operations for each "
        "byte: with fewer, the links are the limit."
    )
    assert reduced == (
        "reduced: 137 billion operations and 224 MiB sent on each device, 585 operations for each "
        "byte, so the links are the limit. If computing and sending happen at once, 58.5 trillion "
        "operations a second (30% of the peak, in 2.35 ms); if one waits for the other, 45.1 "
        "trillion (23%, in 3.05 ms)."
    )
    assert quiet == (
        "quiet: 137 billion operations on each device, and nothing is sent: 100% of the peak, "
        "in 698 µs."
    )
    assert product((None, "x"), ("x",)).roofline().points[0].line.startswith("this program: 137")


def test_in_a_torus_bytes_count_as_often_as_they_occupy_the_links_of_an_axis():
    both = {"x": 4, "y": 2}
    x, w = (jax.device_put(np.ones((16, 16), np.float32), sharding(*s, **both))
            for s in ((None, ("x", "y")), (("x", "y"),)))  # fmt: skip
    report = communication(jnp.dot, x, w, scaled=LARGE)
    (point,) = report.roofline().points
    assert point.intensity == pytest.approx(2 * report.flops / report.sent)
    assert (
        "224 MiB sent on each device, which takes as long as 112 MiB in a ring along one axis"
        in (point.line)
    )
    said = " ".join(str(report).split())
    assert "each mesh axis is assumed to be a ring in a torus of 2 dimensions" in said
    assert "Over two axes, the links of both work at once." in said
    behind_a_switch = communication(jnp.dot, x, w, scaled=LARGE, machine="H100 NVLink")
    assert "in a ring" not in behind_a_switch.roofline().points[0].line
    assert "torus" not in str(behind_a_switch)


def test_it_is_an_image():
    pytest.importorskip("matplotlib")
    assert 'role="img"' in product((None, "x"), ("x",)).roofline()._repr_html_()


def until(a):
    """A loop whose count nobody knows."""
    body = jax.shard_map(
        lambda a: lax.while_loop(lambda c: c.sum() < 100, lambda c: lax.psum(c, "x"), a),
        mesh=mesh(**LINE), in_specs=jax.P("x"), out_specs=jax.P("x"), check_vma=False,
    )  # fmt: skip
    return body(a)


def test_what_has_no_place_is_told_in_words():
    turned = communication(lambda x: lax.with_sharding_constraint(x, sharding(None, "x", **LINE)),
                           put("x"), scaled=LARGE)  # fmt: skip
    endless, nothing = communication(until, put("x")), communication(lambda x: x, put("x"))
    drawn = turned.roofline("turned", endless=endless, nothing=nothing)
    assert drawn.points == ()
    assert drawn.remarks == (
        "turned: not drawn, for it does no floating-point operations; it sends 14 MiB from each "
        "device, which takes 336 µs.",
        "endless: not drawn, because it is unknown how often a loop in it runs, or what it does "
        "there, and so how much it computes or sends.",
        "nothing: not drawn, for it neither computes nor sends anything.",
    )
    assert "<svg" not in drawn._repr_html_()


def test_of_what_is_small_it_is_said_that_starting_takes_longer():
    small = product((None, "x"), ("x",), scaled=None).roofline()
    assert small.remarks[-1].startswith("At these sizes, starting a message takes longer than")
    assert math.isfinite(small.points[0].intensity)
    assert not product((None, "x"), ("x",)).roofline().remarks


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda r: r.roofline(r), "The first argument is this program's name in the picture"),
        (lambda r: r.roofline(" "), "The first argument is this"),
        (
            lambda r: r.roofline("rows", other=3),
            "other must be a report, such as communication(f, x)",
        ),
        (lambda r: r.roofline("rows", rows=r), "Two programs are called 'rows'"),
        (
            lambda r: r.roofline("rows", far=product(("x",), (), "H100 NVLink")),
            "Make far with communication(…, machine='TPU v5e')",
        ),
    ],
)
def test_misuse_gets_a_sentence(call, says):
    with pytest.raises(UsageError) as raised:
        call(product(("x",), ()))
    assert says in str(raised.value)
