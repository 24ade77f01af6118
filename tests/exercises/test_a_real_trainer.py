"""Notebook 13's references agree with JAX, and its prose and tables with what JAX does."""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import NamedSharding, P, lax
from jax.sharding import AxisType, Mesh

from autograder.artifacts import sharding_of
from autograder.exercises import EXERCISES, FitsIn, Predicts
from autograder.exercises.notebooks import nb13_a_real_trainer as nb13
from autograder.judge import verdict_as_text, ways_of
from shardlings import communication
from tests.exercises.solutions import session_for, solution_of

SEEDS = range(10)


def names_for(exercise):
    """Return the notebook's names, with the solution's."""
    names = dict(session_for(exercise).names)
    exec(solution_of(exercise), names)
    return names


def put(array, *spec, mesh):
    return jax.device_put(np.float32(array), NamedSharding(mesh, P(*spec)))


def rebuild_mesh(*sizes, names=("data", "model"), devices=None):
    return jax.make_mesh(
        sizes, names[: len(sizes)], devices=devices, axis_types=(AxisType.Auto,) * len(sizes)
    )


# 13.1


@pytest.mark.parametrize("seed", SEEDS)
def test_each_part_of_the_rules_has_leaves(seed):
    leaves = nb13._sample_leaves(EXERCISES["13.1"].generator(seed))
    parts = [nb13._part_of(*leaf) for leaf in leaves]
    assert {part: parts.count(part) for part in {*parts}} == {
        "parameters": 21,
        "optimizer": 7,
        "stacked": 9,
        "sizes": 9,
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_leaves_with_sizes_that_do_not_divide_can_be_put_in_place(seed):
    for path, shape, sizes in nb13._sample_leaves(EXERCISES["13.1"].generator(seed)):
        spec = nb13.find_spec(path, shape, sizes)
        devices = np.array(jax.devices()[: int(np.prod([*sizes.values()]))])
        mesh = Mesh(devices.reshape([*sizes.values()]), tuple(sizes))
        NamedSharding(mesh, P(*spec)).shard_shape(shape)  # raises if a size does not divide
        assert nb13._explain_rule(spec, path, shape, sizes) is None


def rule_with(find_name=lambda path: path[-1], is_left=lambda n, axis, sizes: n % sizes[axis]):
    """Return a rule that finds the name, or tests in its own way whether an axis divides a size."""

    def rule(path, shape, sizes):
        axes = nb13.RULES.get(find_name(path), ())
        if len(shape) < 2 or not axes:
            return []
        pairs = zip(axes, shape[-2:], strict=True)
        last = [None if is_left(n, axis, sizes) else axis for axis, n in pairs]
        return [None] * (len(shape) - 2) + last

    return rule


def name_within(path):
    """Return the first name of the table that is anywhere in the path, also within a name."""
    return next((name for name in nb13.RULES if name in "/".join(map(str, path))), "")


SLIPS = {
    "none": (rule_with(), True),
    "any name": (rule_with(lambda path: next((n for n in path if n in nb13.RULES), "")), False),
    "part of a name": (rule_with(name_within), False),
    "one size": (rule_with(is_left=lambda n, axis, sizes: n % 2), False),
    "the largest": (rule_with(is_left=lambda n, axis, sizes: n % max(sizes.values())), False),
    "the example's": (
        rule_with(is_left=lambda n, axis, sizes: n % {"data": 4, "model": 2}[axis]),
        False,
    ),
    "the other axis": (
        rule_with(is_left=lambda n, axis, sizes: n % sizes[{"data": "model"}.get(axis, "data")]),
        False,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_way_to_overlook_a_part_of_the_rules_is_seen(slip, seed):
    rule, is_right = SLIPS[slip]
    leaves = nb13._sample_leaves(EXERCISES["13.1"].generator(seed))
    assert all(nb13._explain_rule(rule(*leaf), *leaf) is None for leaf in leaves) is is_right


def test_a_forged_spec_is_a_diagnosis():
    leaf = ("params", "embed"), (16, 16), {"data": 4, "model": 2}
    for forged in (None, 3, "data", {"of type": "P"}, [3], [[["data"]]], [None] * 5 + ["data"]):
        found = nb13._explain_rule(forged, *leaf)
        assert found is not None
        assert found[0] in {"no-spec", "too-many-entries"}


# 13.2


@pytest.fixture
def stages():
    first = rebuild_mesh(4, names=("x",), devices=jax.devices()[:4])
    second = rebuild_mesh(4, names=("y",), devices=jax.devices()[4:])
    a, b = np.ones((8, 4)), np.ones((8, 4))
    return put(a, "x", mesh=first), put(b, "y", mesh=second)


def on_all(name, order=1):
    return put(np.ones((8, 4)), name, mesh=Mesh(np.array(jax.devices())[::order], (name,)))


MEETINGS = {
    "a + b": lambda a, b: a + b,
    "a + numpy": lambda a, b: a + np.ones((8, 4), np.float32),
    "a + fresh": lambda a, b: a + jnp.ones((8, 4)),
    "a + placed": lambda a, b: a + jax.device_put(jnp.ones((8, 4)), jax.devices()[5]),
    "jit of both": lambda a, b: jax.jit(lambda a, b: (2 * a, 2 * b))(a, b),
    "moved": lambda a, b: jax.device_put(a, b.sharding) + b,
    "other axes": lambda a, b: put(np.ones((8, 4)), "data", mesh=rebuild_mesh(4, 2)) + on_all("z"),
    "other order": lambda a, b: on_all("x") + on_all("x", -1),
    "host": lambda a, b: jax.device_put(b, b.sharding.with_memory_kind("pinned_host")) + b,
}


@pytest.mark.parametrize("cell", nb13.MEETINGS)
def test_what_meets_is_what_jax_says(cell, stages):
    _, right, _ = nb13.MEETINGS[cell]
    if right == nb13.ERROR:
        with pytest.raises(ValueError, match=r"incompatible devices|memory_space"):
            MEETINGS[cell](*stages)
    else:
        MEETINGS[cell](*stages)


# 13.3


def test_a_step_that_says_nothing_is_compiled_twice():
    names = names_for("13.3")
    mesh = rebuild_mesh(4, 2)
    naive: Any = jax.jit(lambda *state: names["update"](*state))
    for step, compiled in ((naive, 2), (names["step"], 1)):
        state = (
            put(np.ones((64, 32)), "data", mesh=mesh),
            put(np.zeros((64, 32)), "data", mesh=mesh),
            jax.device_put(jnp.int32(0), NamedSharding(mesh, P())),
        )
        x = put(np.ones((128, 64)), "data", mesh=mesh)
        y = put(np.ones((128, 32)), "data", "model", mesh=mesh)
        with jax.set_mesh(mesh):
            for _ in range(5):
                state = step(*state, x, y)
        assert step._cache_size() == compiled


def test_a_jit_inside_of_a_step_is_no_donation_of_the_whole():
    """Called by itself it does donate, so a verdict may not say that it never does."""
    inside = (
        "def step(*state):\n    layouts = P('data'), P('data'), P()\n"
        "    kept = jax.jit(update, out_shardings=layouts, donate_argnums=(0, 1, 2))\n"
        "    return kept(*state)\n"
    )
    verdict = session_for("13.3").answer("13.3", inside, 1).verdict
    assert "As a whole program, step does not donate" in verdict_as_text(verdict)


def test_only_what_is_not_donated_is_said_to_be_in_memory_twice():
    some = solution_of("13.3").replace("donate_argnums=(0, 1, 2)", "donate_argnums=(0, 1)")
    assert some != solution_of("13.3")
    verdict = session_for("13.3").answer("13.3", some, 1).verdict
    assert "does not donate count: its old and new values are in" in verdict_as_text(verdict)


def test_zeros_like_under_jit_is_on_one_device():
    W = put(np.ones((64, 32)), "data", mesh=rebuild_mesh(4, 2))  # noqa: N806
    assert len(jax.jit(jnp.zeros_like)(W).devices()) == 1


# 13.4


def test_the_arrays_that_the_judge_knows_are_the_notebooks():
    names = session_for("13.4").names
    for name in nb13.CLOSED_NAMES:
        made = getattr(nb13, f"make_{name}")(*names[name].shape)
        np.testing.assert_allclose(np.asarray(names[name]), made, rtol=1e-6)


def test_a_constant_costs_what_the_table_says():
    names = session_for("13.4").names
    frozen = names["frozen"]
    x = names["put"](np.ones((16, 32, 64), np.float32), "data")
    passed = communication(lambda x, frozen: x @ frozen, x, frozen)
    closed = communication(lambda x: x @ frozen, x)
    assert frozen.addressable_shards[0].data.nbytes == 32 * 1024
    assert frozen.nbytes == 64 * 1024
    assert closed.flops == 2 * passed.flops


# 13.5


def test_the_wrong_constraint_costs_what_the_table_says():
    names = session_for("13.5").names
    with jax.set_mesh(names["mesh"]):
        report = communication(
            names["make_forward"](names["specs"]), names["tokens"], *names["model"]
        )
    extra = [c for c in report.collectives if c.kind == "all-to-all"]
    rest = [c for c in report.collectives if c.kind != "all-to-all"]
    (wanted,) = (
        each
        for each in EXERCISES["13.5"].requirements
        if isinstance(each, Predicts) and each.cell == "KiB"
    )
    assert sum(c.total_bytes for c in extra) == 1024 * wanted.right
    assert [c.kind for c in rest] == ["all-reduce", "all-reduce"]
    assert sum(c.total_bytes for c in rest) == 1024 * ways_of(wanted.mistakes["what-has-to-be"])[0]


# 13.6


@pytest.mark.parametrize("place", [0, 1])
def test_one_remedy_of_three_fits(place):
    names = names_for("13.6")
    axes, shape = nb13.GRIDS[place], nb13.PEAK_SHAPES[place]
    arguments = [
        jax.ShapeDtypeStruct(a.shape, jnp.float32, sharding=sharding_of(a))
        for a in nb13._peak_arguments(axes, shape)
    ]
    mesh = arguments[0].sharding.mesh
    limit = next(r.bytes for r in EXERCISES["13.6"].requirements if isinstance(r, FitsIn))[place]

    def microbatches(x, y, up, down):
        def split(a):
            parts = a.reshape(-1, 4, a.shape[1]).swapaxes(0, 1)
            return lax.with_sharding_constraint(parts, P(None, "data"))

        def add(total, batch):
            made = jax.grad(names["loss"], argnums=(0, 1))(up, down, *batch)
            return jax.tree.map(jnp.add, total, made), None

        nothing = jnp.zeros_like(up), jnp.zeros_like(down)
        return lax.scan(add, nothing, (split(x), split(y)))[0]

    with jax.set_mesh(mesh):
        kept, plain, parts = (
            communication(function, *arguments).peak_bytes
            for function in (names["gradients"], names["plain"], microbatches)
        )
    # the limit is not met by chance, and not missed by little
    assert 1.05 * kept < limit < 0.9 * parts < 0.95 * plain


# 13.7


def test_a_gradient_that_is_reduced_each_time_sends_eight_times_as_much():
    names = names_for("13.7")
    line = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    arguments = (
        jax.device_put(jnp.ones((32, 256)), NamedSharding(line, P())),
        jax.device_put(jnp.ones((8, 64, 32)), NamedSharding(line, P(None, "x"))),
        jax.device_put(jnp.ones((8, 64)), NamedSharding(line, P(None, "x"))),
    )
    with jax.set_mesh(line):
        naive = communication(names["reduced_each_time"], *arguments)
        once = communication(names["accumulate"], *arguments)
    assert naive.bytes == 8 * once.bytes == 8 * 4 * 32 * 256


@pytest.mark.parametrize("place", [0, 1])
def test_all_microbatches_at_once_do_not_fit(place):
    names = names_for("13.7")
    arguments = [
        jax.ShapeDtypeStruct(a.shape, jnp.float32, sharding=sharding_of(a))
        for a in nb13._accumulation_arguments(*nb13.ACCUMULATIONS[place])
    ]
    limit = next(r.bytes for r in EXERCISES["13.7"].requirements if isinstance(r, FitsIn))[place]

    def at_once(weights, *batches):
        x, y = (a.swapaxes(0, 1).reshape(-1, *a.shape[2:]) for a in batches)
        return len(batches[0]) * jax.grad(names["error"])(weights, x, y)

    with jax.set_mesh(arguments[0].sharding.mesh):
        looped, all_of_them = (
            communication(function, *arguments).peak_bytes
            for function in (names["accumulate"], at_once)
        )
    assert 1.15 * looped < limit < 0.97 * all_of_them


# 13.8 to 13.10


@pytest.mark.parametrize("seed", SEEDS)
def test_the_largest_are_those_of_jax(seed):
    rng = np.random.default_rng(seed)
    for logits in (rng.normal(size=(8, 512)).astype(np.float32), rng.integers(0, 40, (16, 256))):
        wanted = lax.top_k(jnp.asarray(logits), nb13.TOP)
        for ours, theirs in zip(nb13._best(logits), wanted, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_steps_fit_into_32_bits():
    limit = max(limit for _, _, limit in nb13.NUMBERS)
    steps, highest = [0, 0], 0
    for start in range(2, limit + 1):
        n, count = start, 0
        while n >= start:  # from a smaller number, the way is known
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
            highest = max(highest, n)
        steps.append(count + steps[n])
    assert highest < 2**31
    assert max(steps) == 350


def test_numbers_of_the_prose():
    assert nb13._collatz(6) == 8
    assert nb13._collatz(27) == 111
    row = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
    logits = put(np.ones((16, 4096)), None, "x", mesh=row)
    gathered = communication(lambda logits: lax.top_k(logits, 4), logits)
    assert gathered.bytes == 16 * 4096 * 4
    argmax = communication(lambda logits: jnp.argmax(logits, axis=1), logits)
    assert argmax.bytes == 1024
    assert len(communication(lambda logits: jnp.sort(logits, axis=1), logits).collectives) == 2


def test_a_callback_is_gathered_unless_it_is_mapped():
    names = session_for("13.8").names
    records = put(np.ones((64, 16)), "x", mesh=names["row"])
    assert communication(names["halve"], records).bytes == 64 * 16 * 4
    assert not communication(names["mapped"], records).collectives


def test_only_a_shard_map_needs_the_name_of_the_axis():
    both = rebuild_mesh(4, 2, names=("members", "model"))
    x = put(np.ones((8, 16, 32)), "members", mesh=both)
    W = put(np.ones((8, 32, 64)), "members", None, "model", mesh=both)  # noqa: N806

    def constrained(x, W):  # noqa: N803
        return lax.with_sharding_constraint(x @ W, P(None, "model"))

    multiply = session_for("13.10").names["multiply"]
    with jax.set_mesh(both):
        gathers = {
            (function.__name__, name): bool(
                communication(jax.vmap(function, spmd_axis_name=name), x, W).collectives
            )
            for function, name in product((constrained, multiply), (None, "members"))
        }
    assert [key for key, gathered in gathers.items() if gathered] == [("multiply", None)]
