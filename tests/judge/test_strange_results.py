"""Results that nobody expects, in all cases or in a later one, are wrong, and no fault of ours.

What explains wrong values looks at the results of every case, and those of a later one may be of
another number, type and shape than those of the first.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder.artifacts import Argument
from autograder.exercises import Computes, Differentiates, Exercise, PlacedLike
from autograder.judge import judge, verdict_as_text
from tests.helpers import capture

LINES = (("x", 8),), (("x", 4),)
GRIDS = (("x", 4), ("y", 2)), (("x", 2), ("y", 4))
VECTORS = tuple((Argument((3 * axes[0][1],), axes, ("x",), mode="auto"),) for axes in LINES)
PAIRS = tuple(vectors * 2 for vectors in VECTORS)
SQUARES = tuple((Argument((32, 32), axes, ("x", "y"), mode="auto"),) * 2 for axes in GRIDS)


def asking(*requirements):
    return Exercise("9.9", "Something", requirements, ("Think.",))


def computing(reference, arguments=VECTORS, **settings):
    return Computes("answer", "It must.", reference, arguments, under_mesh=True, **settings)


# an exercise, and a function that is right
ASKED = {
    "real": (
        asking(computing(lambda x: 1 * x), PlacedLike("answer", "0 1 2 3 4 5 6 7", ((24,),))),
        lambda x: 1 * x,
    ),
    "unsigned": (
        asking(computing(lambda x: (x > 0).astype(np.uint8))),
        lambda x: (x > 0).astype(jnp.uint8),
    ),
    "complex": (asking(computing(lambda x: np.complex64(1j) * x)), lambda x: 1j * x),
    "two": (asking(computing(lambda x: (1 * x, x.sum()))), lambda x: (1 * x, x.sum())),
    "change": (
        asking(computing(lambda w, g: w - np.float32(0.5) * g, PAIRS)),
        lambda w, g: w - 0.5 * g,
    ),
    "product": (
        asking(computing(np.matmul, SQUARES, blocks=((4, 2, 2), (2, 2, 4)))),
        lambda a, b: jax.lax.with_sharding_constraint(a @ b, jax.P("x", "y")),
    ),
    "gradients": (
        asking(Differentiates("answer", "It must.", jnp.sin, VECTORS)),
        lambda x: jnp.sin(x),
    ),
}

STRANGE = {
    "none": lambda a: (),
    "several": lambda a: (a, a, a.sum()),
    "empty": lambda a: a.ravel()[:0],
    "truth": lambda a: a > 0,
    "unsigned": lambda a: a.real.astype(jnp.uint8),
    "complex": lambda a: a + 1j,
    "infinite": lambda a: jnp.full_like(a, jnp.inf, jnp.promote_types(a.dtype, jnp.float32)),
    "nan": lambda a: jnp.full_like(a, jnp.nan, jnp.promote_types(a.dtype, jnp.float32)),
    "scalar": lambda a: a.sum(),
    "short": lambda a: a if jnp.iscomplexobj(a) else a.astype(jnp.bfloat16),
}  # fmt: skip

FIRST = {
    "right": lambda a: a,
    "nearly": lambda a: (1.001 * a).astype(a.dtype),
    "twice": lambda a: a + a,
    "more": lambda a: (a + 7).astype(a.dtype),
}
"""What is made of each result, if that is explained by what is made of all of them."""


def of_first(results):
    return jax.tree.leaves(results)[0]


def make_answers(right, strange):
    """Yield functions that return strange results always, or in later cases only."""
    yield lambda *inputs: strange(of_first(right(*inputs)))
    for change in FIRST.values():

        def answer(*inputs, change=change):
            axes = jax.sharding.get_abstract_mesh().shape
            is_first = inputs[0].shape == (24,) or (axes.get("x") == 4 and "y" in axes)
            results = right(*inputs)
            return jax.tree.map(change, results) if is_first else strange(of_first(results))

        yield answer


@pytest.mark.filterwarnings("error:Casting complex values")
@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("asked", ASKED)
def test_strange_results_are_no_fault_of_ours(asked, strange):
    exercise, right = ASKED[asked]
    for answer in make_answers(right, STRANGE[strange]):
        judged = judge(exercise, capture(exercise, {"answer": answer}, 1), 1)
        assert judged.fault is None
        words = verdict_as_text(judged)
        assert "is nan" not in words
        assert "is inf" not in words
