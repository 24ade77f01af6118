"""The numbers of `docs/choosing.md`, and of the section of notebook 05 that it comes from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import P, lax

from shardlings import communication
from tests.conftest import ROOT
from tests.helpers import mesh, sharding

LINE = mesh(x=8)
PLACES = [
    (ROOT / "docs" / "choosing.md").read_text(),
    (ROOT / "solutions" / "05_shard_map" / "05_shard_map.md").read_text(),
]


def put(array, *spec):
    return jax.device_put(array, sharding(*spec, x=8))


ROWS = P("x")


def mapped(body, in_specs=ROWS, out_specs=ROWS):
    return jax.shard_map(body, mesh=LINE, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def enter(cache, entries, places):
    rows = jnp.arange(cache.shape[0])
    return cache.at[rows, places].set(entries)


CACHE = (
    put(jnp.zeros((8, 256, 64)), "x"),
    put(jnp.ones((8, 64)), "x"),
    put(jnp.arange(8), "x"),
)


def root(a):
    def is_unfinished(r):
        return jnp.any(jnp.abs(r * r - a) > 1e-3 * a)

    return lax.while_loop(is_unfinished, lambda r: (r + a / r) / 2, a)


def largest(logits):
    return lax.top_k(logits, 4)[0]


def largest_of_candidates(block):
    return largest(lax.all_gather(largest(block), "x", axis=1, tiled=True))


def call_back(x):
    return jax.pure_callback(np.asarray, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


LOGITS = put(jax.random.normal(jax.random.key(0), (16, 4096)), None, "x")


@pytest.mark.parametrize(
    ("function", "by_hand", "arguments", "bytes_of_both"),
    [
        (enter, mapped(enter), CACHE, (2_112, 0)),
        (root, mapped(root), (put(jnp.arange(1.0, 65.0), "x"),), (1, 0)),
        (largest, mapped(largest_of_candidates, P(None, "x"), P()), (LOGITS,), (262_144, 2_048)),
        (call_back, mapped(call_back), (put(jnp.ones((64, 16)), "x"),), (4_096, 0)),
    ],
    ids=["cache", "loop", "top-k", "callback"],
)
def test_who_knows_more_than_the_compiler_sends_less(function, by_hand, arguments, bytes_of_both):
    np.testing.assert_allclose(jax.jit(function)(*arguments), by_hand(*arguments), rtol=1e-3)
    reports = [communication(f, *arguments) for f in (function, by_hand)]
    assert tuple(report.bytes for report in reports) == bytes_of_both
    for amount in bytes_of_both:
        assert amount < 2 or all(f"{amount:,} bytes" in page for page in PLACES)


def test_a_loop_reduces_in_every_turn():
    (collective,) = communication(root, put(jnp.arange(1.0, 65.0), "x")).collectives
    assert (collective.kind, collective.times) == ("all-reduce", None)


def test_a_matmul_sends_the_same_in_both_ways():
    x, w = put(jnp.ones((64, 64)), None, "x"), put(jnp.ones((64, 64)), "x")

    def multiply(x, w):
        return lax.psum(x @ w, "x")

    both = jnp.dot, mapped(multiply, (P(None, "x"), P("x")), P())
    of_one, by_hand = (communication(f, x, w) for f in both)
    assert of_one.bytes == by_hand.bytes == 4 * 64 * 64
