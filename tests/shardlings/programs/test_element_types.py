"""XLA's types of elements, and how many bits they have."""

import ml_dtypes
import pytest

from shardlings.programs.compiled.hlo import bits_per_element


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
