"""The values of an array that a layout requires: how they were changed is said only if it is so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder.exercises import Exercise, PlacedLike
from autograder.judge import judge, verdict_as_text
from tests.helpers import capture, sharding

NUMBERS = np.arange(1, 17).reshape(8, 2)


def verdict_on(actual, wanted):
    """Judge an array by rows on eight devices."""
    rows = "\n".join(map(str, range(8)))
    placed = PlacedLike("rows", rows, (wanted.shape,), values=lambda: wanted)
    exercise = Exercise("9.9", "Something", (placed,), ("Think.",))
    answer = jax.device_put(actual, sharding("x", x=8))
    return judge(exercise, capture(exercise, {"rows": answer}, 1), 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("change", "dtype", "says"),
    [
        (lambda a: a - 1, "uint8", "every value is 1 too small: "),
        (lambda a: a + 1, "uint8", "every value is 1 too large: "),
        (lambda a: 3 * a, "uint32", "every value is 3 times what it should be: "),
        (lambda a: a - 1, "int32", "every value is 1 too small: "),
        (lambda a: a - 1, "bfloat16", "every value is 1 too small: "),
        (lambda a: -a, "float32", "every value is -1 times what it should be: "),
        (lambda a: a / 0, "float32", ""),
        (lambda a: a * np.nan, "float32", ""),
        (lambda a: a + 3e38, "float32", "every value is 3e+38 too large: "),
        (lambda a: a + 1j, "complex64", ""),
        (lambda a: a[:, ::-1], "int32", "the array is in the opposite order along dimension 1: "),
        (lambda a: a.reshape(2, 8).T, "int32", "its values are in another order: "),
        (lambda a: a % 3, "int32", ""),
    ],
)
def test_a_change_of_all_values_is_named_if_it_is_one(change, dtype, says):
    wanted = NUMBERS.astype(dtype)
    with np.errstate(all="ignore"):
        actual = change(wanted).astype(dtype)
    judged = verdict_on(actual, wanted)
    assert judged.diagnoses == ("values",)
    assert f"Every block is in its place, but {says}the value at (" in verdict_as_text(judged)


@pytest.mark.parametrize("change", [np.logical_not, np.zeros_like, np.ones_like])
def test_wrong_truth_values_are_no_fault(change):
    wanted = NUMBERS % 3 == 0
    judged = verdict_on(jnp.asarray(change(wanted)), wanted)
    assert judged.diagnoses == ("values",)
