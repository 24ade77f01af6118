"""Reports in a real browser: nothing is clipped, overlaps, is too wide or faint."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from shardlings import communication
from tests.browser import THEMES, browser
from tests.helpers import mesh, sharding

pytestmark = pytest.mark.slow

GRID = {"x": 4, "y": 2}


@pytest.fixture(scope="module")
def page():
    with browser() as opened:
        yield opened


def put(shape, *spec):
    return jax.device_put(np.ones(shape, np.float32), sharding(*spec, **GRID))


def step(x, w_in, w_out):
    def loss(w_in, w_out):
        y = jax.nn.relu(x @ w_in) @ w_out
        return (y * y).mean()

    down_in, down_out = jax.grad(loss, (0, 1))(w_in, w_out)
    return w_in - down_in, w_out - down_out


def gather(w):
    return lax.all_gather(w, "x", axis=0, tiled=True)


def block(x, w):
    h = jnp.tanh(x @ gather(w["up"]))
    h = jnp.tanh(h @ gather(w["a_matrix_in_the_middle"]))
    return x + h @ gather(w["down"])


def model(params, x):
    out, _ = lax.scan(lambda x, w: (block(x, w), None), x, params)
    return lax.psum((out**2).sum(), ("x", "y"))


NAMES = ("up", "a_matrix_in_the_middle", "down")
PARAMETERS = {name: jax.P(None, "x") for name in NAMES}
FULLY_SHARDED = jax.shard_map(
    jax.grad(model), mesh=mesh(**GRID), in_specs=(PARAMETERS, jax.P(("x", "y"))),
    out_specs=PARAMETERS, check_vma=False,
)  # fmt: skip


def fully_sharded():
    shapes = ((24, 64, 256), (24, 256, 256), (24, 256, 64))
    params = {name: put(shape, None, "x") for name, shape in zip(NAMES, shapes, strict=True)}
    sizes = {128: 65_536, 64: 4096, 256: 16_384}
    return communication(FULLY_SHARDED, params, put((128, 64), ("x", "y")), scaled=sizes)


def two_layers():
    arguments = put((16, 32), "x"), put((32, 128), "x", "y"), put((128, 32), "y", "x")
    sizes = {16: 65_536, 32: 4_096, 128: 16_384}
    return communication(step, *arguments, machine="H100 100G Ethernet", scaled=sizes)


def in_bfloat16():
    def given(shape, *spec):
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=sharding(*spec, **GRID))

    def named(x, w_in, w_out):
        with jax.named_scope("a_block_of_a_decoder"):
            return step(x, w_in, w_out)

    return communication(
        named,
        given((8192, 1024), "x"),
        given((1024, 4096), "x", "y"),
        given((4096, 1024), "y", "x"),
    )


REPORTS = {
    "types": in_bfloat16,
    "parts": lambda: in_bfloat16().by_part(),
    "four rows": lambda: communication(lambda x: x + x.T, put((16, 16), "x", "y")),
    "two layers": two_layers,
    "a loop and helpers": fully_sharded,
    "steps": lambda: communication(lambda x: x + x.T, put((16, 16), "x", "y"), steps=True),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_has_no_visual_faults(page, name):
    drawn = REPORTS[name]()._repr_html_()
    for width in (1400, 500):
        for theme in THEMES:
            assert page.faults(drawn, width, theme) == [], (width, theme)


def test_a_timeline_is_as_wide_as_the_page(page):
    page.show(two_layers()._repr_html_(), width=500)
    right = page.page.evaluate(
        """() => Math.max(...[...document.querySelectorAll("svg[width='100%'] rect")]
             .map((rect) => rect.getBoundingClientRect().right))"""
    )
    assert right == pytest.approx(492, abs=1.5)
