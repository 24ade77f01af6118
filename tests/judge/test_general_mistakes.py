"""General mistakes are recognised, and nothing that only looks like one of them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder.artifacts import Argument
from autograder.exercises import Computes, Exercise, Mistake, PlacedLike, Returns
from autograder.judge import judge, verdict_as_text
from autograder.judge.explaining_factors import explain_change
from autograder.judge.explaining_results import explain_differing_results
from autograder.judge.running_programs import SampledRun
from tests.helpers import capture

LINES = (("x", 8),), (("x", 4),)


def asking(reference, *shapes, mistakes=None, patterns=None, dtypes=("float32",)):
    """An exercise on arrays sharded over x, on a mesh of eight and one of four devices."""
    arguments = tuple(
        tuple(
            Argument(
                (n * shape[0], *shape[1:]), axes, ("x",), dtype, "auto",
                scale=1.0 if dtype == "float32" else 5.0,
            )
            for shape, dtype in zip(shapes, dtypes * len(shapes), strict=False)
        )
        for axes in LINES
        for n in (axes[0][1],)
    )  # fmt: skip
    asked = Computes(
        "answer", "It must.", reference, arguments, mistakes or {}, patterns or {}, under_mesh=True
    )
    return Exercise("9.9", "Something", (asked,), ("Think.",))


def verdict_on(exercise, function):
    return judge(exercise, capture(exercise, {"answer": function}, 1), 1)


CUT, WHOLE = jax.P("x"), jax.P()


def by_device(body, out=WHOLE):
    return lambda x: jax.shard_map(body, in_specs=CUT, out_specs=out)(x)


def unchecked(body):
    return lambda x: jax.shard_map(body, in_specs=CUT, out_specs=WHOLE, check_vma=False)(x)


SAME = asking(lambda x: 1 * x, (3,))
WIDE = asking(lambda x: 1 * x, (3, 5))
PAIR = asking(lambda x: (1 * x, x.sum()), (3,))
LARGEST = asking(lambda x: x.max(), (3,))
PRODUCT = asking(lambda A, B: A @ B.T, (2, 6), (2, 6))  # noqa: N803  as notebooks have them
SQUARE = asking(lambda A: A @ A, (2, 8))  # noqa: N803


ROWS = asking(lambda x: np.tile(x, (len(x) // 3, 1)), (3,))


def rows_with_zeros(where):
    """Return all of x in each device's row, with zeros in the blocks that `where` selects."""

    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        blocks = lax.all_gather(mine, "x")
        return jnp.where(where(jnp.arange(n), i, n)[:, None], 0, blocks).reshape(1, -1)

    return by_device(body, CUT)


GRIDS = (("x", 4), ("y", 2)), (("x", 2), ("y", 4))


def on_grids(a, b):
    """An exercise on A @ B, on a mesh of 4 × 2 and one of 2 × 4 devices."""
    arguments = tuple(
        (Argument((16, 8), axes, a, mode="auto"), Argument((8, 16), axes, b, mode="auto"))
        for axes in GRIDS
    )
    product = Computes("answer", "It must.", lambda A, B: A @ B, arguments, {}, under_mesh=True)  # noqa: N803
    return Exercise("9.9", "Something", (product,), ("Think.",))


BOTH, BLOCKS = on_grids(("x", None), ()), on_grids((), (None, "y"))


def joined(out, change=lambda a: a, B=WHOLE):  # noqa: N803
    """A matmul in a shard_map, with these out_specs."""
    a = CUT if B == WHOLE else WHOLE
    return lambda A, V: jax.shard_map(  # noqa: N803
        lambda a, b: change(a @ b), in_specs=(a, B), out_specs=out
    )(A, V)


def placed_at(place):
    """Gather x, with each device's block in the place that `place` computes."""

    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        return lax.psum(jnp.zeros((n, mine.size)).at[place(i, n)].set(mine), "x").ravel()

    return by_device(body)


def stacked(mine):
    """All of x on each device, the blocks stacked."""
    n, i = lax.axis_size("x"), lax.axis_index("x")
    return lax.psum(jnp.zeros((n, mine.size)).at[i].set(mine), "x")


@pytest.mark.parametrize(
    ("exercise", "function", "diagnosis", "says"),
    [
        (SAME, by_device(stacked), "reshaped", "the first two dimensions should be one"),
        (SAME, lambda x: x[None], "reshaped", "a dimension of length 1 too many"),
        (SAME, lambda x: x.reshape(-1, 2, 2, 3), "reshaped", "in another shape"),
        (SAME, by_device(lambda a: 2 * stacked(a)), "shape", "returned float32[8,3]"),
        (LARGEST, lambda x: x.max(keepdims=True), "reshaped", "The number is right"),
        (WIDE, lambda x: x.T, "reshaped", "dimensions 0 and 1 are exchanged"),
        (WIDE, lambda x: 2 * x.T, "shape", "returned float32[5,24]"),
        (PAIR, lambda x: (x.sum(), x), "other-order-of-results", "in another order: 2, 1"),
        (PAIR, lambda x: {"whole": x, "sum": x.sum()}, "in-a-container", "returns them in a dict"),
        (PAIR, lambda x: (x.min(), x), "shape", "returned float32[]"),
        (PAIR, lambda x: (x, -x, x.sum()), "too-many-results", "Results 1 and 3 are right"),
        (WIDE, lambda x: (x, x.sum()), "too-many-results", "Result 1 is right"),
        (SAME, unchecked(lambda a: a), "not-joined", "Each device along x has its own block"),
        (SAME, unchecked(lambda a: 2 * a), "shape", "returned float32[3]"),
        (LARGEST, lambda x: x.min(keepdims=True), "shape", "returned float32[1]"),
        (
            LARGEST,
            by_device(lambda a: lax.pmax(a.max(keepdims=True), "x"), CUT),
            "copies-side-by-side",
            "One of them alone is the right result",
        ),
        (LARGEST, by_device(lambda a: a.max(keepdims=True), CUT), "shape", "returned float32[8]"),
        (LARGEST, by_device(lambda a: lax.pmin(a.max(), "x")), "own-results", "to the smallest"),
        (LARGEST, by_device(lambda a: lax.pmean(a.max(), "x")), "own-results", "averaged over x"),
        (
            LARGEST,
            by_device(lambda a: lax.psum(jnp.where(lax.axis_index("x") == 0, a.max(), 0), "x")),
            "own-results",
            "the first device alone",
        ),
        # near: nothing is reduced, so that it is not said that something is averaged
        (BOTH, lambda A, B: 2 * (A @ B), "off-by-a-factor", "2 times"),  # noqa: N803
        (BOTH, joined(jax.P("x", "y")), "copies-side-by-side", "along y in dimension 1"),
        (BOTH, joined(jax.P("y", "x")), "shape", "returned"),
        (BOTH, joined(jax.P("x", "y"), lambda a: a + lax.axis_index("y")), "shape", "returned"),
        (BLOCKS, joined(jax.P("y"), B=jax.P(None, "y")), "joined-elsewhere", "in dimension 0"),
        (BLOCKS, joined(jax.P("y"), lambda a: 2 * a, B=jax.P(None, "y")), "shape", "returned"),
        (ROWS, rows_with_zeros(lambda j, i, n: j == i), "misplaced", "the device's own number"),
        (ROWS, rows_with_zeros(lambda j, i, n: j == (i + 1) % n), "misplaced", "on device 0 block"),
        # near: of something else than the device's own largest
        (LARGEST, by_device(lambda a: lax.pmax(a[1], "x")), "values", "The values are wrong."),
        (SAME, placed_at(lambda i, n: (i + 1) % n), "misplaced", "one place too late"),
        (SAME, placed_at(lambda i, n: i - 1), "misplaced", "one place too early"),
        (SAME, placed_at(lambda i, n: n - 1 - i), "misplaced", "in the opposite order"),
        (SAME, placed_at(lambda i, n: i + 1), "misplaced", "zeros, and others are not in their"),
        # near: a block is right where it is, and another one is in no place of its own
        (SAME, lambda x: x.at[0].set(x[0] + x[1]), "values", "right but for the first element"),
        (SAME, lambda x: jnp.maximum(x, 0), "transformed", "be negative is 0"),
        (SAME, jnp.exp, "transformed", "the exponential of"),
        (SAME, lambda x: x + x * x, "values", "The values are wrong."),
        (SAME, lambda x: x + 7, "off-by-a-constant", "Every value is 7 too large."),
        (SAME, lambda x: x - 9e-4, "off-by-a-constant", "Every value is 0.0009 too small."),
        (SAME, lambda x: x + jnp.arange(len(x)), "values", "The values are wrong."),
        (PRODUCT, lambda A, B: B @ A.T, "transformed", "the transpose of"),  # noqa: N803
        (PRODUCT, lambda A, B: A @ -jnp.abs(B).T, "values", "values are wrong"),  # noqa: N803
        (PRODUCT, lambda A, B: A @ jnp.abs(B).T, "of-other-inputs", "values of B."),  # noqa: N803
        (PRODUCT, lambda A, B: A @ B[:, ::-1].T, "of-other-inputs", "dimension 1"),  # noqa: N803
    ],
)
def test_a_cause_is_named_where_it_gives_what_came(exercise, function, diagnosis, says):
    found = verdict_on(exercise, function)
    assert found.diagnoses == (diagnosis,)
    assert says in verdict_as_text(found)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda a: a.at[-1].add(1), "right but for the last element of each device's block."),
        (lambda a: a.at[0].add(1), "right but for the first element of each device's block."),
        (
            lambda a: a.at[jnp.array([0, -1])].add(1),
            "right but for the first and the last element of each device's block.",
        ),
        (
            lambda a: a.at[-(lax.axis_index("x") % 2)].add(1),
            "right but for the first or the last element of each device's block.",
        ),
        (lambda a: a.at[1].add(1), "The values are wrong."),
        (
            lambda a: a.at[0].add(lax.axis_index("x") == 0),
            "right but for the first element of the block on device 0.",
        ),
        (
            lambda a: a.at[1].add(lax.axis_index("x") >= 6),
            "wrong on devices 6 and 7, and right on the others.",
        ),
        (
            lambda a: a.at[1].add(lax.axis_index("x") < 7),
            "wrong on 7 of 8 devices, and right on the other one.",
        ),
        (
            lambda a: a.at[-1].add(lax.axis_index("x") < 7),
            "right but for the last element of the block on 7 of 8 devices.",
        ),
    ],
)
def test_it_is_said_where_values_are_wrong(change, says):
    exercise = asking(lambda x: 2 * x, (5,))
    found = verdict_on(exercise, by_device(lambda a: change(2 * a), jax.P("x")))
    assert found.diagnoses == ("values",)
    assert says in verdict_as_text(found)


def test_a_factor_that_is_the_number_of_devices_is_said_to_be_it():
    total = asking(lambda x: x.sum(), (3,))
    found = verdict_on(total, by_device(lambda a: lax.psum(lax.psum(a.sum(), "x"), "x")))
    assert "the number of devices along x: is something added up over x" in verdict_as_text(found)
    # one draw's factor is not another's
    found = verdict_on(total, lambda x: x.sum() ** 2)
    assert found.diagnoses == ("transformed",)


def test_a_diagnosis_may_explain_several_mistakes_a_different_one_in_each_case():
    twice, thrice = (lambda x, by=by: x + by * x * x for by in (2, 3))
    exercise = asking(lambda x: 1 * x, (3,), mistakes={"squared": Mistake(twice, thrice)})
    both = verdict_on(exercise, lambda x: x + (2 if len(x) == 24 else 3) * x * x)
    assert both.diagnoses == ("squared",)
    neither = verdict_on(exercise, lambda x: x + (2 if len(x) == 24 else 4) * x * x)
    assert neither.diagnoses == ("values",)


@pytest.mark.parametrize(
    ("made", "diagnosis"),
    [
        (lambda x: -abs(x) - x * x, "negative"),
        (lambda x: -abs(x) - x * x if len(x) == 24 else x + x * x, "values"),
        (lambda x: -abs(x) - x * x if len(x) == 24 else -abs(x)[1:], "values"),
        (lambda x: jnp.inf * x if len(x) == 24 else -abs(x), "not-finite"),
    ],
)
def test_a_pattern_has_to_be_in_all_wrong_results(made, diagnosis):
    def is_negative(inputs, output):
        return bool((output - inputs[0] < 0).all()) and output.shape == inputs[0].shape

    exercise = asking(lambda x: 1 * x, (3,), patterns={"negative": is_negative})
    assert verdict_on(exercise, made).diagnoses == (diagnosis,)


def test_a_pattern_sees_all_results():
    def has_right_sum(inputs, results):
        return bool(np.allclose(results[1], inputs[0].sum(), rtol=1e-4, atol=1e-4))

    exercise = asking(lambda x: (1 * x, x.sum()), (3,), patterns={"right-sum": has_right_sum})
    assert verdict_on(exercise, lambda x: (x + x * x, x.sum())).diagnoses == ("right-sum",)
    assert verdict_on(exercise, lambda x: (x + x * x, x.max())).diagnoses == ("values",)


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ([([2, 1], [1, 2]), ([5, 4], [4, 5])], "in the opposite order"),
        (
            [([[2, 1], [4, 3]], [[1, 2], [3, 4]])],
            "each entry has the right numbers, but in the opposite order",
        ),
        ([([3, 1, 2], [1, 2, 3])], "one place too late"),
        ([([1], [1, 2]), ([4], [4, 5, 6])], "it has a single entry each time"),
        ([([1, 2], [1, 2, 3]), ([1], [1, 2])], "one entry too few, such as 2 entries for 3"),
        ([(6, 2), (9, 3)], "it is always 3 times what it should be"),
        ([(3, 2), (4, 3)], "it is always 1 too large"),
        ([(3, 2)], "it is 1 too large"),
        ([(10440, 5220.0)], "it is 5220 too large"),
        ([([3, 4], [2, 3])], "every number is 1 too large"),
        ([([6, 9], [2, 3])], "every number is 3 times what it should be"),
        ([(3, 2), (6, 3)], "it is always too large"),
        ([([3, 1], [2, 1]), ([6], [3])], "every wrong number is too large"),
        ([(3, 2), (1, 3)], ""),
        ([(3, [3]), (4, [4])], "it is one number"),
        ([([3], 3), ([4], 4)], "should be one number"),
        ([(True, False)], "it is True there, and should be False"),
        ([(True, False), (False, True)], ""),
        ([([[1], [2, 3]], [[1, 2], [3, 4]])], "an entry has 1 number, for example"),
        ([([[[1]]], [[1]]), ([[[2]]], [[2]])], "nested more deeply"),
        ([(0.3, 0.1), (1.2, 0.4), (0.0, 0)], "it is always 3 times"),
        ([(0.1, 0.3), (0.7, 2.1)], "it is always 1/3 of"),
        ([(1e-9, 3), (2e-9, 6)], "it is always too small"),
        ([(10**12 + 1, 10**12), (10**12 + 2, 10**12)], "it is always too large"),
        ([("a", 1), (None, 2)], ""),
        ([(float("nan"), 1.0)], ""),
        ([({"of type": "x"}, [1])], ""),
        ([([], [1, 2])], "it is empty"),
        ([([1, 2], [1, 1, 2, 2]), ([3], [3, 3, 3])], "its entries are right, but some are missing"),
        ([([1, 2, 2, 2], [1, 2]), ([1, 3, 3], [3])], "it has all the right entries, and others"),
    ],
)
def test_it_is_said_how_results_of_plain_functions_differ(pairs, says):
    said = explain_differing_results(pairs)
    assert says in said
    assert bool(says) == bool(said)


def test_a_result_in_quotes_is_told_from_a_wrong_one():
    asked = Returns(
        "answer", "It must.", lambda generator: [(i,) for i in range(4)], lambda i: i % 2 == 0
    )
    exercise = Exercise("9.9", "Even", (asked,), ("Think.",))
    found = judge(exercise, capture(exercise, {"answer": lambda i: str(i % 2 == 0)}, 1), 1)
    assert found.diagnoses == ("in-quotes",)
    assert "expected True or False" in verdict_as_text(found)


COUNT = asking(lambda x: np.int32(80) + (x > 0).sum(dtype=np.int32), (3,))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_count_whose_exponential_is_too_large_warns_nobody():
    own_counts = by_device(lambda mine: (mine > 0).sum(dtype=jnp.int32)[None], CUT)
    assert verdict_on(COUNT, own_counts).diagnoses[0] == "shape"


def test_a_count_that_is_the_same_for_two_inputs_proves_nothing():
    seven = verdict_on(COUNT, lambda x: (0 * (x > 9).sum() + 7).astype(jnp.int32))
    assert seven.diagnoses[0] == "values"
    assert verdict_on(LARGEST, lambda x: 0 * x.max() + 3).diagnoses[0] == "ignores-inputs"


def test_a_single_zero_is_no_array_that_was_never_filled_in():
    found = verdict_on(COUNT, lambda x: (0 * x).sum().astype(jnp.int32))
    assert found.diagnoses[0] == "nothing-but-zeros"
    assert "never filled in" not in verdict_as_text(found)


COMPLEX = asking(lambda x: np.complex64(1j) * x, (3,))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "made", [lambda x: jnp.stack([x, x]), lambda x: x[::-1], lambda x: x.sum(), lambda x: x[1:]]
)
def test_real_numbers_for_complex_ones_warn_nobody(made):
    assert verdict_on(COMPLEX, made).diagnoses[0] in ("shape", "dtype", "reshaped")


EVEN = asking(lambda x: np.abs(x) + 1, (3,))


def test_a_mistake_whose_results_are_right_is_none():
    """The values are right for -x as well, and a little off."""
    found = verdict_on(EVEN, lambda x: (jnp.abs(x) + 1) * 1.0001)
    assert found.diagnoses[0] != "of-other-inputs"


STEP = asking(lambda w, g: w - np.float32(0.5) * g, (3,), (3,))
SUMS = asking(lambda x: (x + 1, x * 2, -x), (3,))
CENTRED = asking(lambda x: x - x.mean(), (3,))


@pytest.mark.parametrize(
    ("rate", "says"),
    [
        (2, "4 times"), (0.125, "1/4 of"), (-0.5, ""), (6.7, ""), (0.5 / 13.4, ""),
        (63.8, "128 times"), (0.5 / 64, "1/64 of"),
    ],
)  # fmt: skip
def test_a_change_of_an_argument_by_too_much_or_too_little_is_named(rate, says):
    found = verdict_on(STEP, lambda w, g: w - rate * g)
    words = verdict_as_text(found)
    assert ("The change of w is" in words) is bool(says)
    assert not says or f"The change of w is about {says} what it should be." in words
    assert (found.diagnoses[0] == "other-change") is bool(says)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_change_is_explained_only_if_every_case_returns_one_array(count):
    w, g = np.ones((2, 3), np.float32)
    output = jnp.asarray(w - 2 * g)
    runs: list[Any] = [SimpleNamespace(outputs=([output] * number,)) for number in (1, count)]
    cases = [SampledRun([[w, g]], ran) for ran in runs]
    explained = explain_change(lambda w, g: w - g / 2, ["here", "there"], cases, ["w", "g"])
    assert (explained is not None) is (count == 1)


def test_a_factor_that_differs_from_input_to_input_is_named():
    found = verdict_on(CENTRED, lambda x: (x - x.mean()) / x.sum())
    assert found.diagnoses[0] == "off-by-varying-factors"
    assert verdict_on(CENTRED, lambda x: 2 * x - x.mean()).diagnoses[0] != found.diagnoses[0]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda x: (x * 2, -x, x + 1), "All results are right, but they come in another order"),
        (lambda x: (x + 1, x * 2, x * x), "Of 3 results, result 3 is wrong, and the others are"),
        (lambda x: (x + 1, x, x * x), "result 2 and result 3 are wrong, and the other is right"),
        (lambda x: (x, x, x), "The values are wrong"),
    ],
)
def test_which_of_several_results_are_wrong_is_said(made, says):
    assert says in verdict_as_text(verdict_on(SUMS, made))


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda x: (x * 2, -x, x + 1), "they come in another order: twice, minus, more."),
        (lambda x: (x + 1, x, x * x), "Of 3 results, twice and minus are wrong, and the other is"),
        (lambda x: (x + 1, x * 2, x * x), " of minus on device"),
        (lambda x: (x + 1, x * 2, (-x).astype(jnp.bfloat16)), "the dtype of minus is bfloat16"),
        (lambda x: (x + 1, x * 2, -x, x), "Results 1, 2 and 3 are right."),
    ],
)
def test_results_that_have_names_are_named(made, says):
    (requirement,) = SUMS.requirements
    assert isinstance(requirement, Computes)
    named = replace(SUMS, requirements=(replace(requirement, results=("more", "twice", "minus")),))
    assert says in verdict_as_text(verdict_on(named, made))


def test_a_constraint_that_moves_nothing_is_told_from_none():
    asked = Exercise(
        "9.9", "", (*SAME.requirements, PlacedLike("answer", "0,1,2,3,4,5,6,7", ((24,),))), ("",)
    )  # fmt: skip
    spec = jax.P("x")
    constrained = lambda x: lax.with_sharding_constraint(1 * x, spec)  # noqa: E731
    assert "constraint-moves-nothing" in verdict_on(asked, constrained).diagnoses
    assert "nothing-moved" in verdict_on(asked, lambda x: 1 * x).diagnoses


def test_a_lesson_follows_all_that_is_said_of_an_error_in_general():
    sines = Computes(
        "answer", "answer(x) must be sin(x).", np.sin, ((Argument((8,), (("x", 8),), ("x",)),),)
    )
    exercise = Exercise(
        "9.9", "", (sines,), ("Think.",), diagnoses={"other-modes-verb": "This is the lesson."}
    )
    said = verdict_as_text(
        verdict_on(exercise, lambda x: lax.with_sharding_constraint(x, jax.typeof(x).sharding))
    )
    parts = ("is for Auto axes", "Look at the mode", "This is the lesson.", "JAX says: ")
    places = [" ".join(said.split()).index(part) for part in parts]
    assert places == sorted(places)
