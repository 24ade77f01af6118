"""Bytes are those of the types that a program requests, where CPUs compute in wider ones."""

import math

import jax
import jax.numpy as jnp
import pytest
from jax import P, lax

from shardlings import communication
from shardlings.programs import MACHINES
from shardlings.programs.compiled import read_collectives, read_executable
from shardlings.programs.report import types_in_words
from tests.helpers import mesh, sharding

GRID = mesh(x=8)


def blocks(dtype, *spec, shape=(64, 64)):
    """Return an argument in blocks on eight devices."""
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding(*spec, x=8))


def by_hand(body, to=None):
    """Return a function of rows that the devices run on their own ones."""
    return jax.shard_map(
        body, mesh=GRID, in_specs=P("x"), out_specs=P() if to is None else to, check_vma=False
    )


def add_and_turn(a):
    return jnp.sin(lax.psum(jnp.cos(a + a) * a, "x")) * 3 + a


def gathered_product(a, b):
    return lax.with_sharding_constraint(a, sharding(x=8)) @ b


NEXT = [(i, (i + 1) % 8) for i in range(8)]

ALIKE = {
    "a sum": (by_hand(lambda a: lax.psum(a, "x")), 8 * 64),
    "a gathering": (by_hand(lambda a: lax.all_gather(a, "x", tiled=True)), 64 * 64),
    "gathered, then converted": (
        by_hand(lambda a: lax.all_gather(a, "x", tiled=True).astype("float32")),
        64 * 64,
    ),
    "a turn": (by_hand(lambda a: lax.ppermute(a, "x", NEXT), P("x")), 8 * 64),
    "an exchange": (by_hand(lambda a: lax.all_to_all(a, "x", 1, 0, tiled=True), P("x")), 8 * 64),
    "a scattered sum": (
        by_hand(lambda a: lax.psum_scatter(a, "x", tiled=True), P("x")),
        8 * 64,
    ),
    "between other steps": (by_hand(add_and_turn, P("x")), 8 * 64),
    "the compiler's maximum": (lambda a: a.max(0), 64),
}
"""Programs that send numbers of their argument's type, and how many."""


@pytest.mark.parametrize("program", ALIKE)
@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("float32", 32), ("bfloat16", 16), ("float16", 16), ("float8_e4m3fn", 8), ("int8", 8)],
)
def test_bytes_are_those_of_the_type_that_is_requested(program, dtype, bits):
    if dtype == "int8" and program == "between other steps":
        return  # the sine of an integer is a float32
    function, numbers = ALIKE[program]
    (found,) = communication(function, blocks(dtype, "x")).collectives
    assert types_in_words(found.dtypes) == dtype
    assert found.bytes == numbers * bits // 8
    assert bool(found.widened) == (dtype in ("bfloat16", "float8_e4m3fn"))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float16", "int8"])
@pytest.mark.parametrize(
    "body",
    [
        lambda a: lax.psum(a.astype("float32"), "x").astype(a.dtype),
        lambda a: lax.all_gather(a.astype("float32"), "x", tiled=True),
    ],
)
def test_what_the_program_converts_by_itself_counts_as_converted(body, dtype):
    (found,) = communication(by_hand(body), blocks(dtype, "x")).collectives
    assert (found.dtypes, found.widened) == (("f32",), ())


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_products_add_up_in_the_type_that_they_are_to_have(dtype):
    a, b = blocks(dtype, None, "x"), blocks(dtype, "x")

    def wide(a, b):
        return jnp.dot(a, b, preferred_element_type="float32")

    (narrow,), (other,) = (communication(f, a, b).collectives for f in (jnp.dot, wide))
    assert types_in_words(narrow.dtypes) == dtype
    assert other.dtypes == ("f32",)
    (gathered,) = communication(gathered_product, blocks(dtype, "x"), a).collectives
    assert types_in_words(gathered.dtypes) == dtype
    assert gathered.kind == "all-gather"


def layer(x, weights):
    """A layer with a norm in float32, as models have it."""
    wide = x.astype(jnp.float32)
    normal = x * lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5).astype(x.dtype)
    scores = jnp.einsum("bqd,bkd->bqk", normal @ weights["q"], normal)
    x = x + jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores), normal)
    return x + jax.nn.gelu(normal @ weights["up"]) @ weights["down"], None


def train(weights, x):
    def loss(weights):
        return (lax.scan(jax.checkpoint(layer), x, weights)[0].astype(jnp.float32) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return value, jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradient)


def test_a_training_step_in_bfloat16_sends_bfloat16_but_for_what_is_in_float32():
    def given(shape, *spec):
        return jax.ShapeDtypeStruct(shape, "bfloat16", sharding=sharding(*spec, d=4, m=2))

    weights = {
        "q": given((3, 64, 64), None, "d", "m"),
        "up": given((3, 64, 128), None, "d", "m"),
        "down": given((3, 128, 64), None, "m", "d"),
    }
    report = communication(train, weights, given((8, 16, 64), "d"))
    assert len(report.collectives) > 8
    wide = [c for c in report.collectives if set(c.dtypes) != {"bf16"}]
    assert all(math.prod(shape) <= 2 * 16 for c in wide for shape in c.shapes), "means and losses"
    assert len(wide) < len(report.collectives) / 2
    text = str(report)
    assert heading_of(text)[3:5] == ["type", "over"]
    assert "XLA's CPU compiler sends float32 in place of bfloat16. The table counts the" in text


def heading_of(text):
    (heading,) = (line for line in text.splitlines() if line.startswith("line and collective"))
    return heading.split()


def test_a_report_of_float32_alone_has_no_column_for_types():
    text = str(communication(lambda a: a.sum(), blocks("float32", "x")))
    assert heading_of(text)[3] == "over"
    assert "compiler sends" not in text


def test_other_machines_send_what_they_are_compiled_to_send():
    function, numbers = ALIKE["a sum"]
    compiled = jax.jit(function).lower(blocks("bfloat16", "x")).compile()
    program = read_executable(compiled.runtime_executable())
    (sent,), (asked,) = (read_collectives(program, is_emulated=e) for e in (False, True))
    assert (sent.bytes, asked.bytes) == (4 * numbers, 2 * numbers)


def test_products_of_bytes_take_half_the_time():
    def product(a, b):
        return jnp.dot(a, b, preferred_element_type=jnp.int32)

    report = communication(product, blocks("int8", "x"), blocks("int8"))
    assert report.int8_operations == report.flops == 2 * 8 * 64 * 64
    assert report.compute_seconds == pytest.approx(
        report.flops / 2 / MACHINES[report.machine].flops
    )
    floats = communication(product, blocks("bfloat16", "x"), blocks("bfloat16"))
    assert floats.int8_operations == 0


@pytest.mark.parametrize(
    ("hlo", "jax_name"),
    [
        (("f32", "f32"), "float32"), (("bf16", "s32"), "bfloat16, int32"), (("pred",), "bool"),
        (("f8e4m3fn",), "float8_e4m3fn"), (("u8",), "uint8"), (("c64",), "complex64"),
    ],
)  # fmt: skip
def test_types_have_the_names_that_jax_gives_them(hlo, jax_name):
    assert types_in_words(hlo) == jax_name
