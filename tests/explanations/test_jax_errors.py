"""Explanations of JAX's errors, each of which the installed version of JAX raises."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder.explanations import DIAGNOSES, diagnose_jax_error, explain_error
from tests.helpers import mesh

LINE = mesh(x=8)
TILES = jax.NamedSharding(mesh(x=4, y=2), jax.P("x", "y"))
EXPLICIT = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)


def mapped(body, in_specs="x", out_specs="x"):
    cut, join = (jax.P(*s) if isinstance(s, tuple) else jax.P(s) for s in (in_specs, out_specs))
    return lambda x: jax.shard_map(body, mesh=LINE, in_specs=cut, out_specs=join)(x)


def pencils(body):
    spec = jax.P("x", "y")
    return lambda x: jax.shard_map(
        body, mesh=mesh(x=4, y=2), in_specs=spec, out_specs=jax.P(None, ("x", "y"))
    )(x)


def insists(x):
    assert x is None


def from_callback(callback, size=8):
    """Return a function that makes an array with one number on each device."""
    where = jax.NamedSharding(LINE, jax.P("x"))
    return lambda _: jax.make_array_from_callback((size,), where, callback)


def unreduced(x):
    flat = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(flat):
        return jax.jit(lambda x: x + jax.reshard(x, jax.P(unreduced={"x"})))(
            jax.reshard(x, jax.P())
        )


def unreduced_elsewhere(x):
    """Name the axis over which the result is sharded, not the one that a matmul adds over."""
    rows, columns = (jax.NamedSharding(EXPLICIT, spec) for spec in (jax.P("x"), jax.P(None, "x")))
    parts = jax.NamedSharding(EXPLICIT, jax.P(unreduced={"y"}))
    with jax.set_mesh(EXPLICIT):
        return jax.jit(lambda x, y: jnp.dot(x, y, out_sharding=parts))(
            jax.device_put(x, columns), jax.device_put(x, rows)
        )


def unreduced_quotient(x):
    """Divide a sum before its parts are added up."""
    where = jax.NamedSharding(EXPLICIT, jax.P())
    with jax.set_mesh(EXPLICIT):
        return jax.jit(lambda x: jax.reshard(x, jax.P(unreduced={"x"})) / 2)(
            jax.device_put(x, where)
        )


def unreduced_operand(x):
    flat = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(flat):
        return jax.jit(lambda x: jax.reshard(x, jax.P(unreduced={"x"})) @ x)(x)


def nested(x):
    """Multiply by blocks of blocks, which are made along the same axis twice."""
    spec = jax.P(None, "x")

    def columns(b):
        return jax.shard_map(lambda b: x @ b, in_specs=spec, out_specs=spec)(b)

    with jax.set_mesh(LINE):
        mapped_twice = jax.shard_map(columns, in_specs=spec, out_specs=spec)
        return jax.jit(mapped_twice)(jnp.ones((16, 64)))


def mapped_over(axis):
    return jax.vmap(mapped(lambda a: a), spmd_axis_name=axis)


def carried(mine):
    return lax.fori_loop(0, 3, lambda i, c: c + mine.sum(), 0.0)[None]


def carrying(start, end):
    """Carry an array through a loop, which has one spec before a step and another one after it."""
    before, after = (jax.NamedSharding(EXPLICIT, spec) for spec in (start, end))

    def carried(x):
        begun = jax.reshard(x, before)
        return lax.scan(lambda carry, _: (jax.reshard(carry, after), None), begun, length=2)[0]

    return typed(carried)


def typed(function):
    blocks = jax.NamedSharding(EXPLICIT, jax.P("x", "y"))
    return lambda x: jax.jit(function)(jax.device_put(x, blocks))


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (mapped(lambda a: a.sum(), out_specs=()), "not-replicated"),
        (mapped(lambda a: lax.all_gather(a, "x"), out_specs=()), "not-replicated"),
        (mapped(carried), "varying-mismatch"),
        (mapped(lambda a: lax.pcast(a, "x", to="varying")), "varies-already"),
        (mapped(lambda a: lax.fori_loop(0, 2, lambda _, b: jnp.concatenate([b, b]), a)),
         "carry-changes"),
        (carrying(jax.P(), jax.P("x")), "carry-changes"),
        (carrying(jax.P(unreduced={"x"}), jax.P()), "carry-changes"),
        (carrying(jax.P(), jax.P(unreduced={"x"})), "carry-unreduced"),
        (mapped(lambda a: a, in_specs=("x", None, None)), "rank"),
        (mapped(lambda a: a.sum()), "rank"),
        (mapped(lambda a: lax.psum(a, "y")), "unbound-axis"),
        (mapped(lambda a: lax.all_gather(a, "y")), "unbound-axis"),
        (mapped(lambda a: lax.axis_index("y") + a), "unbound-axis"),
        (lambda x: lax.psum(x, "x"), "unbound-axis"),
        (mapped(lambda a: lax.all_to_all(a, "x", 1, 0)), "untiled"),
        (mapped(lambda a: lax.psum_scatter(a, "x")), "untiled"),
        (mapped(lambda a: lax.psum_scatter(a, "x", tiled=True)), "scatter-does-not-divide"),
        (jax.jit(lambda x: x[: x.sum().astype(int)]), "slice-at-run-time"),
        (jax.jit(lambda x: x[x > 0]), "mask-as-index"),
        (jax.jit(lambda x: lax.with_sharding_constraint(x, jax.P("x"))), "bare-spec"),
        (jax.jit(lambda x: lax.with_sharding_constraint(TILES, x)), "sharding-for-array"),
        (jax.jit(lambda x: lax.with_sharding_constraint(x, LINE)), "no-sharding"),
        (jax.jit(lambda x: jax.device_put(x, x.sharding)), "asks-for-sharding"),
        (lambda x: jnp.zeros(16, device=jax.P(unreduced={"x"})), "unreduced-elsewhere"),
        (lambda x: jax.jit(jax.jit(lambda a: a, static_argnums=0))(x), "static-argument"),
        (lambda x: jax.eval_shape(
            jax.jit(lambda a, seed: a + jax.random.key(seed), static_argnums=1),
            x, jax.ShapeDtypeStruct((), "uint32")),
         "static-argument"),
        (mapped(lambda a: lax.all_to_all(a[:4], "x", 0, 1, tiled=True)), "split-does-not-divide"),
        (pencils(lambda a: lax.all_to_all(a, ("x", "y"), 0, 1, tiled=True)),
         "split-over-several-axes"),
        (lambda x: jnp.fft.rfft(x + 1j), "real-input"),
        (mapped(lambda a: a + lax.all_gather(a, "x", tiled=True)), "shapes-do-not-fit"),
        (mapped(lambda a: a @ lax.all_gather(a, "x", tiled=True)[:3]), "blocks-do-not-fit"),
        (pencils(lambda a: lax.psum_scatter(lax.psum(a, "y"), ("x", "y"), tiled=True)),
         "same-along-an-axis"),
        (lambda x: mapped(lambda a: a)(x[:12]), "does-not-divide"),
        (mapped(lambda a: np.asarray(a)), "asks-for-numbers"),
        (mapped(lambda a: a if a.sum() > 0 else -a), "asks-for-numbers"),
        (mapped(lambda a: [a, -a][lax.axis_index("x") % 2]), "asks-for-numbers"),
        (typed(lambda x: x + x.T), "raised"),
        (typed(lambda x: x.T @ x[:, ::-1]), "ambiguous"),
        (typed(lambda x: jax.reshard(x, jax.P("x"))), "bare-spec"),
        (typed(lambda x: jnp.roll(x, 1, axis=1)), "untypable"),
        (typed(lambda x: jnp.sum(x, 0, out_sharding=jax.P())), "no-out-sharding"),  # type: ignore[call-arg]
        (typed(lambda x: lax.with_sharding_constraint(x, jax.NamedSharding(EXPLICIT, jax.P("y")))),
         "other-modes-verb"),
        (lambda x: jax.make_array_from_callback(
            x.shape, jax.NamedSharding(LINE, jax.P("x")), lambda index: np.ones(x.shape)),
         "block-shape"),
        (typed(lambda x: jnp.stack([x, x]).reshape(-1, x.shape[1])),
         "reshape-of-a-sharded-dimension"),
        (lambda x: jax.vmap(jnp.sum, "x")(x), "in-axes"),
        (lambda x: jax.vmap(jnp.add, (0,))(x, x), "in-axes-length"),
        (lambda x: x - x[:, :2].max(axis=1)[:3], "shapes-do-not-fit"),
        (from_callback(lambda index: None), "callback-returns-none"),
        (from_callback(lambda index: b"ab"), "callback-returns-no-array"),
        (from_callback(lambda index: [1.0]), "callback-returns-no-array"),
        (from_callback(lambda index: jnp.sin("x")), "raised"),  # type: ignore[arg-type]
        (from_callback(lambda index: np.ones(1), 12), "does-not-divide"),
        (lambda x: jax.shard_map(lambda a: [a], mesh=LINE, in_specs=jax.P("x"),
                                 out_specs=(jax.P("x"),))(x), "other-structure"),
        (lambda x: jax.jit(lambda x: (x, x), out_shardings=(TILES,) * 3)(x), "other-structure"),
        (lambda x: jax.jit(lambda x: (x, x), out_shardings=[TILES] * 2)(x), "other-structure"),
        (lambda x: jax.jit(jnp.sum, out_shardings=TILES)(x), "rank"),
        (unreduced, "one-side-unreduced"),
        (unreduced_elsewhere, "other-unreduced-axes"),
        (unreduced_operand, "unreduced-operand"),
        (unreduced_quotient, "unreduced-operand"),
        (lambda x: jnp.einsum("ij,ki->kj", x, x[:, :3]), "letter-of-two-lengths"),
        (nested, "nested-shard-map"),
        (lambda x: mapped_over("x")(x[None]), "axis-in-specs"),
        (insists, "raised"),
        (lambda x: undefined, "raised"),  # type: ignore[name-defined]  # noqa: F821
    ],
)  # fmt: skip
def test_an_error_of_jax_is_diagnosed(function, diagnosis):
    with pytest.raises(Exception) as raised:  # noqa: PT011  each is of another type
        jax.jit(function)(jnp.ones((16, 16))) if diagnosis == "asks-for-numbers" else function(
            jnp.ones((16, 16))
        )
    name, meaning = diagnose_jax_error(raised.value)
    assert name == diagnosis, raised.value
    assert name in DIAGNOSES
    assert bool(meaning) == (name != "raised")
    assert not meaning or meaning.removesuffix(")").endswith((".", "?"))


@pytest.mark.parametrize(
    ("body", "out_specs", "says"),
    [
        (lambda a: a.sum(), jax.P(), "The result of the body may differ from device to device "
         "along x and y, but"),
        (lambda a: lax.psum(a.sum(), "y"), jax.P(), "along x, but"),
        (lambda a: lax.psum(a, "y"), jax.P(None, "y"), "Is a reduction over x missing"),
        (lambda a: (a, a.sum()), (jax.P("x", "y"), jax.P()), "Result [1] of the body may differ"),
        (jnp.sum, jax.P(), "The result of `sum` may differ"),
        (lambda a: {"{0}": a.sum()}, {"{0}": jax.P()}, "Result ['{0}'] of the body may differ"),
    ],
)  # fmt: skip
def test_a_result_that_differs_is_named_with_its_axes_before_the_rule(body, out_specs, says):
    spec = jax.P("x", "y")
    function = jax.shard_map(body, mesh=mesh(x=4, y=2), in_specs=spec, out_specs=out_specs)
    with pytest.raises(ValueError, match="require replication") as raised:
        jax.jit(function)(jnp.ones((16, 16)))
    _, explanation = explain_error(raised.value, function, ["x", "y"])
    assert says in explanation
    assert explanation.index("lax.psum for a sum") < explanation.index("check_vma")


def summed(mine):
    return lax.fori_loop(0, 3, lambda i, c: lax.psum(c, "x"), mine.sum())[None]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (carried, "starts with a value that is the same on all devices along an axis, and a step"),
        (summed, "a step makes one that is the same on all devices, as a psum does."),
    ],
)
def test_it_is_said_which_of_a_carry_and_its_step_may_vary(body, says):
    with pytest.raises(TypeError) as raised:
        mapped(body)(jnp.ones((16, 16)))
    diagnosis, meaning = diagnose_jax_error(raised.value)
    assert diagnosis == "varying-mismatch"
    assert says in meaning


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (jax.jit(lambda x: (x, x), out_shardings=(TILES,) * 3), "3, and 2 are expected"),
        (jax.jit(lambda x: (x, x), out_shardings=[TILES] * 2),
         "out_shardings is a list where the function returns a tuple"),
        (jax.shard_map(lambda a: [a, a], mesh=LINE, in_specs=jax.P("x"),
                       out_specs=(jax.P("x"), jax.P("x"))),
         "out_specs is a tuple where the function returns a list"),
        (jax.jit(jnp.sum, out_shardings=TILES),
         "more entries (2) than its array has dimensions (0)"),
    ],
)  # fmt: skip
def test_out_shardings_that_do_not_fit_are_counted(function, says):
    """Some versions of JAX begin with a line of their own, which says nothing."""
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        function(jnp.ones((16, 16)))
    _, explanation = explain_error(raised.value, function, ["x", "y"])
    assert says in explanation
    assert "Mismatch details" not in explanation


def test_an_unknown_axis_is_named_with_the_axes_of_the_mesh():
    """JAX's own message is empty in some versions."""
    function = mapped(lambda a: lax.psum(a, "z"))
    with pytest.raises(Exception) as raised:  # noqa: PT011  it is of another type in each version
        function(jnp.ones((16, 16)))
    diagnosis, explanation = explain_error(raised.value, function, ["x", "y"])
    assert diagnosis == "unbound-axis"
    assert "The mesh has the axes x and y." in explanation
    assert (
        "'z'" in explanation or '"z"' in explanation or "z" in explanation.partition("lax.psum")[2]
    )
    assert "no message" not in explanation


@pytest.mark.parametrize(
    ("count", "step", "says"),
    [
        (16, 1, "These pairs go up to device 15, but the axis of this ppermute has fewer than 16"),
        (8, 0, "Each device may send once and receive once."),
    ],
)
def test_pairs_beyond_the_axis_are_told_from_pairs_that_collide(count, step, says):
    pairs = [(i, (i + 1) % count * step) for i in range(count)]
    function = mapped(lambda a: lax.ppermute(a, "x", pairs))
    with pytest.raises(ValueError, match="must be unique") as raised:
        jax.jit(function)(jnp.ones((16, 16)))
    diagnosis, meaning = diagnose_jax_error(raised.value)
    assert diagnosis == "wrong-pairs"
    assert says in meaning


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ([(i, i + 1) for i in range(8)], "names device 8, but the axis has fewer devices"),
        ([(i - 9, i) for i in range(8)], "names a device, but the axis has fewer devices"),
    ],
)
def test_a_pair_with_a_device_that_the_axis_lacks_is_named(pairs, says):
    function = mapped(lambda a: lax.ppermute(a, "x", pairs))
    with pytest.raises(IndexError) as raised:
        jax.jit(function).trace(jnp.ones((16, 16))).lower()  # whose traceback JAX does not cut
    diagnosis, meaning = diagnose_jax_error(raised.value)
    assert diagnosis == "wrong-pairs"
    assert says in meaning
    assert diagnose_jax_error(IndexError("list index out of range")) == ("raised", "")


def test_an_own_function_with_the_name_of_jaxs_is_not_taken_for_it():
    def _pcollectives_lowering_common(perm):
        return [][perm]

    with pytest.raises(IndexError) as raised:
        _pcollectives_lowering_common(8)
    assert diagnose_jax_error(raised.value) == ("raised", "")


@jax.jit
def adds_to_a_shape(x, n):
    return x + jax.eval_shape(lambda a: a.sum(), x) + n


@partial(jax.jit, static_argnums=1)
def counts_to(x, n):
    return x + sum(range(n))


@partial(jax.jit, static_argnums=1)
def passes_on(x, n):
    replicated = (jax.P(), jax.P())
    return jax.shard_map(lambda a, b: a + b, mesh=LINE, in_specs=replicated, out_specs=jax.P())(
        x, n
    )


@pytest.mark.parametrize(
    ("function", "is_told_of_blocks"),
    [
        (lambda x: x + x[:, :3], False),
        (lambda x: x.reshape(3, 3), False),
        (mapped(lambda a: a + lax.all_gather(a, "x", tiled=True)), True),
        (mapped(lambda a: a.reshape(3, 3)), True),
        (lambda _: jnp.ones(3) + jnp.ones(4), False),
        (lambda *_: jnp.ones(4).reshape(3), True),  # nothing shows where it is
    ],
)
def test_blocks_are_left_out_where_no_array_is_one(function, is_told_of_blocks):
    with pytest.raises(Exception) as raised:  # noqa: PT011  each is of another type
        function(jnp.ones((16, 16)))
    _, meaning = diagnose_jax_error(raised.value)
    assert meaning
    assert ("shard_map" in meaning) == is_told_of_blocks
    assert not {"[", "]"} & {*meaning}


@pytest.mark.parametrize(
    ("function", "diagnosis"),
    [
        (counts_to, "static-argument"),
        (passes_on, "static-argument"),
        (adds_to_a_shape, "raised"),
    ],
)
def test_a_static_argument_is_named_only_if_there_is_one(function, diagnosis):
    struct = jax.ShapeDtypeStruct((), "int32")
    with pytest.raises(TypeError, match="ShapeDtypeStruct") as raised:
        function.lower(struct, struct)
    assert explain_error(raised.value, function, ["x"])[0] == diagnosis


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        (jax.P(None, "x"), "dimension 1 of w, of size 3, over mesh axis 'x' (of size 4)"),
        (jax.P(("x", "y")), "dimension 0 of w, of size 12, over mesh axes ('x', 'y')"),
    ],
)
def test_a_dimension_that_cannot_be_sharded_is_named(spec, where):
    def function(x, w):
        return jax.shard_map(
            lambda block, w: block,
            mesh=mesh(x=4, y=2),
            in_specs=(jax.P("x"), spec),
            out_specs=jax.P("x"),
        )(x, w)

    with pytest.raises(ValueError, match="evenly divi") as raised:
        function(jnp.ones(8), jnp.ones((12, 3)))
    diagnosis, explanation = explain_error(raised.value, function, ["x", "y"])
    assert diagnosis == "does-not-divide"
    assert f"Here in_specs shards {where}" in explanation


ONES = {shape: jnp.ones(shape) for shape in ((2, 24), (2, 16), (3, 16), (128, 3))}
"""Operands that are local variables of the lambdas below."""


@pytest.mark.parametrize(
    ("multiply", "named"),
    [
        (lambda a: np.ones((2, 64)) @ a, ""),  # one operand has no name
        (lambda a, left=ONES[2, 24]: left @ a, ""),  # 24 is not a multiple of 16 / 8
        (lambda a, left=ONES[2, 16]: jnp.dot(jnp.tanh(left), a), ""),
        (lambda a, left=ONES[3, 16]: left @ a, "`a` has 2 of 16 rows"),
        (lambda a, left=ONES[3, 16]: jnp.dot(left, a), "`left` has all 16 columns"),
        (lambda a, right=ONES[128, 3]: a @ right, "`a` has 16 of 128 columns"),
    ],
)
def test_an_operand_that_was_not_gathered_is_named(multiply, named):
    function = mapped(multiply)
    with pytest.raises(TypeError, match="contracting") as raised:
        function(jnp.ones((16, 16)))
    diagnosis, explanation = explain_error(raised.value, function, ["x"])
    assert diagnosis == ("not-gathered" if named else "blocks-do-not-fit")
    assert named in explanation


def test_an_operand_without_elements_is_no_error_of_ours():
    def function(x):
        nothing = x[:, :0]
        return nothing @ x

    with pytest.raises(TypeError, match="contracting") as raised:
        function(jnp.ones((16, 16)))
    diagnosis, explanation = explain_error(raised.value, function, ["x"])
    assert diagnosis == "blocks-do-not-fit"
    assert "`return nothing @ x`" in explanation


@pytest.mark.parametrize(
    ("reshape", "diagnosis", "said"),
    [
        (lambda x: np.zeros(3).reshape(2, 6), "does-not-reshape", "3 elements into the shape (2,"),
        (lambda x: np.zeros(21).reshape(18), "does-not-reshape", "(18,), which has 18."),
        (lambda x: np.frombuffer(bytes(6), np.float32), "bytes-left-over", "elements where bytes"),
    ],
)
def test_an_error_of_numpy_is_not_told_as_one_of_jax(reshape, diagnosis, said):
    with pytest.raises(ValueError, match="size") as raised:
        reshape(0)
    found, explanation = explain_error(raised.value, reshape, ["x"])
    assert found == diagnosis
    assert said in explanation
    assert "JAX says" not in explanation
    assert "shard_map" not in explanation
