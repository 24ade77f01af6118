"""XLA's types of elements, and how many bits they have."""

from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import pytest

from shardlings import communication
from shardlings.programs import requested
from shardlings.programs.compiled.hlo import bits_per_element, count_bytes
from tests.helpers import mesh, sharding


@pytest.mark.parametrize("bits", [2, 4])
def test_integers_have_the_bits_that_their_names_say(bits):
    assert bits_per_element(f"s{bits}") == ml_dtypes.iinfo(f"int{bits}").bits
    assert bits_per_element(f"u{bits}") == ml_dtypes.iinfo(f"uint{bits}").bits


@pytest.mark.parametrize(
    "dtype", ["float8_e4m3", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float16"]
)
def test_floats_have_the_bits_that_their_names_say(dtype):
    name = dtype.replace("float", "f").replace("_", "")
    assert bits_per_element(name) == ml_dtypes.finfo(dtype).bits


def test_names_that_say_nothing_of_bits():
    assert bits_per_element("pred") == 8
    assert bits_per_element("token") == bits_per_element("opaque") == 0


@pytest.mark.parametrize("name", ["", "f", "float32", "tuple8", "f8e", "32"])
def test_an_unknown_type_is_refused(name):
    with pytest.raises(ValueError, match="no type of elements"):
        bits_per_element(name)


@pytest.mark.parametrize(("size", "expected"), [(1, 1), (2, 1), (3, 2), (64, 32)])
def test_two_integers_of_four_bits_share_a_byte(size, expected):
    assert count_bytes("s4", (size,)) == expected


def test_both_readings_of_a_program_count_the_same_bytes_of_small_integers():
    @partial(jax.shard_map, mesh=mesh(x=8), in_specs=jax.P("x"), out_specs=jax.P(), check_vma=False)
    def gather(block):
        return jax.lax.all_gather(block, "x", tiled=True)

    x = jax.ShapeDtypeStruct((72,), jnp.int4, sharding=sharding("x", x=8))
    report = communication(gather, x)
    module = jax.jit(gather).lower(x).compiler_ir()
    (collective,) = requested.read_collectives(module, mesh(x=8))
    assert report.bytes == collective.bytes == 36
