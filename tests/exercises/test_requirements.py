"""Requirements on what a program communicates and holds, and on predictions."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder import evidence
from autograder.artifacts import Argument
from autograder.exercises import (
    EXERCISES,
    Budget,
    CommunicatesAtMost,
    Computes,
    Exercise,
    FitsIn,
    Predicts,
)
from autograder.judge import judge, verdict_as_text
from autograder.judge.wording import in_bytes
from tests.helpers import capture, sharding

GRID = (("x", 4), ("y", 2))


def block(size, mode="auto"):
    return (Argument((size, size), GRID, ("x", "y"), mode=mode),)


DISASTER = Exercise(
    id="9.1",
    title="The hidden disaster",
    requirements=(
        Computes("answer", "It must return x + x.T.", lambda x: x + x.T, (block(16), block(32))),
        CommunicatesAtMost(
            "answer",
            (
                (Budget("all-to-all", bytes=128), Budget("collective-permute", bytes=128)),
                (Budget("all-to-all", bytes=512), Budget("collective-permute", bytes=512)),
            ),
        ),
        FitsIn("answer", (1024, 4096)),
    ),
    hints=("One constraint is enough.",),
    diagnoses={"all-gather over x": "Every device collects whole columns."},
)


def verdict(exercise, answer, seed=3):
    captured = capture(exercise, {exercise.answers[0]: answer}, seed)
    return judge(
        exercise, evidence.from_json(json.loads(json.dumps(evidence.to_json(captured)))), seed
    )


def constrained(x):
    grid = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    turned = jax.lax.with_sharding_constraint(x.T, jax.NamedSharding(grid, jax.P("x", "y")))
    return x + turned


NAMED = [
    requirement
    for exercise in EXERCISES.values()
    for requirement in exercise.requirements
    if isinstance(requirement, Computes) and requirement.results
]


@pytest.mark.parametrize("named", NAMED, ids=lambda named: named.answer)
def test_each_result_has_a_name_if_one_has(named):
    generator = np.random.default_rng(0)
    results = named.reference(*(each.sample(generator) for each in named.arguments[0]))
    assert len(jax.tree.leaves(results)) == len(named.results)


def test_one_constraint_stays_within_the_budget():
    found = verdict(DISASTER, constrained)
    assert found.score == 1, verdict_as_text(found)
    assert "by all-to-all between groups of two devices" in found.findings[1].got


def test_the_innocent_program_is_told_what_it_gathers():
    found = verdict(DISASTER, lambda x: x + x.T)
    assert [finding.met for finding in found.findings] == [True, False, False]
    assert found.diagnoses == ("all-gather over x", "too-much-memory")
    said = verdict_as_text(found)
    assert (
        "a program that communicates at most 128 bytes by all-to-all and at most 128 bytes by"
        in said
    )
    assert (
        "The compiled program has 2 all-gathers over x, 1,536 bytes together, which are not "
        "allowed here. What is not allowed moves 2,816 bytes in all. "
        "Every device collects whole columns."
    ) in said  # the largest takes what another one has gathered, and not x as it was
    assert "Got:      a program that communicates 1,536 bytes by 2 all-gathers over x and" in said
    assert "Also: The program holds 2,688 bytes at once on each device; at most 1,024" in said


ROW_SUM = Exercise(
    id="9.2",
    title="A sum that stays at home",
    requirements=(
        Computes("answer", "It must return x.sum(1).", lambda x: x.sum(1), (block(16),)),
        CommunicatesAtMost("answer", ((Budget("all-reduce", ("y",), 16),),)),
    ),
    hints=("Over which axis?",),
)


@pytest.mark.parametrize(
    ("function", "score", "diagnoses"),
    [
        (lambda x: x.sum(1), 1, ()),
        (lambda x: x.sum(0), 0, ("of-other-inputs", "all-reduce over x")),
        (lambda x: jnp.stack([x, 2 * x]).sum(2)[0], 0.25, ("too-many-bytes",)),
        (lambda x: x.sum(1) + 0 * x.max(0)[0], 0.25, ("all-reduce over x",)),
        (lambda x: jnp.ones(16), 0, ("ignores-inputs", "not-counted-yet")),
        (lambda x: jnp.zeros(16), 0, ("nothing-but-zeros", "not-counted-yet")),
        (lambda x: x.sum(1) / 0, 0, ("not-finite", "not-counted-yet")),
    ],
)
def test_budgets_are_by_kind_axes_and_bytes(function, score, diagnoses):
    found = verdict(ROW_SUM, function)
    assert found.score == score, verdict_as_text(found)
    assert set(found.diagnoses) == set(diagnoses)


@pytest.mark.parametrize(("most", "diagnoses"), [(80, ()), (79, ("too-many-bytes",))])
def test_bytes_beyond_the_budget_are_counted_with_loops(most, diagnoses):
    def often(x):
        def step(total, _):
            return total + (x * total[:, None]).sum(1), None

        return jax.lax.scan(step, jnp.ones(16), None, length=5)[0]

    def reference(x):
        total = np.ones(16, np.float32)
        for _ in range(5):
            total = total + (x * total[:, None]).sum(1)
        return total

    exercise = Exercise(
        "9.3",
        "A loop",
        (
            Computes("answer", "It must repeat.", reference, (block(16),)),
            CommunicatesAtMost("answer", ((Budget("all-reduce", None, most),),)),
        ),
        ("Count.",),
    )
    found = verdict(exercise, often)
    assert found.diagnoses == diagnoses
    assert found.findings[1].got == "a program that communicates 80 bytes by all-reduce over y"


TABLE = Exercise(
    id="9.4",
    title="Predictions",
    requirements=(
        Predicts(
            "table", "x.T", "the spec of x.T", jax.P("y", "x"), {"not-turned": jax.P("x", "y")}
        ),
        Predicts("table", "bytes", "bytes moved", 2816, {"forgot-twice": 1408}, tolerance=0.01),
        Predicts("table", "kind", "the collective", "all-reduce", words=("all-gather",)),
    ),
    hints=("Compile it.",),
    diagnoses={"not-turned": "A transpose turns the layout too."},
)

P_AS_TEXT = "P('y', 'x')"
GRID_SHARDING = sharding("y", "x", x=4, y=2)


@pytest.mark.parametrize(
    ("table", "score", "diagnoses"),
    [
        ({"x.T": jax.P("y", "x"), "bytes": 2816, "kind": "all-reduce"}, 1, ()),
        ({"x.T": jax.P("y", "x", None), "bytes": 2820.0, "kind": "all-reduce"}, 1, ()),
        ({"x.T": ("y", "x"), "bytes": np.int64(2816), "kind": "all-reduce"}, 1, ()),
        (
            {"x.T": jax.P("x", "y"), "bytes": 1408, "kind": ...},
            0,
            ("not-turned", "forgot-twice", "unanswered"),
        ),
        ({"x.T": P_AS_TEXT, "bytes": True, "kind": "gather"}, 0, ("other-form",)),
        ({"x.T": jax.P("x"), "bytes": 7, "kind": "All_Gather"}, 0, ("other-prediction",)),
        ({"x.T": GRID_SHARDING, "bytes": 2816, "kind": "AllReduce"}, 1, ()),
        ({"x.T": jax.P("y", "x")}, 1 / 3, ("malformed",)),  # no other entry is of its kind
        ({"x.T": ..., "bytes": ..., "kind": ...}, 0, ("unanswered",)),
        ([1, 2], 0, ("not-a-table",)),
    ],
)
def test_each_cell_is_judged_by_itself(table, score, diagnoses):
    found = verdict(TABLE, table)
    assert found.score == pytest.approx(score)
    assert found.diagnoses == diagnoses


def test_a_prediction_that_shows_a_misconception_is_told_so():
    found = verdict(TABLE, {"x.T": jax.P("x", "y"), "bytes": 2816, "kind": "all-reduce"})
    said = verdict_as_text(found)
    assert "table['x.T'] is not P('x', 'y'). A transpose turns the layout too." in said


def test_a_loop_of_unknown_length_has_no_price():
    """Otherwise a collective in a `while_loop` would count only once."""

    def often(x):
        def step(state):
            count, total = state
            return count + 1, total + (x * total[:, None]).sum(1)

        rounds = jnp.where(jnp.isfinite(x[0, 0]), 1, 2)
        return jax.lax.while_loop(lambda s: s[0] < rounds, step, (0, 0 * x.sum(1)))[1] + x.sum(1)

    exercise = Exercise(
        "9.5",
        "A loop",
        (
            Computes("answer", "It must sum.", lambda x: x.sum(1), (block(16),)),
            CommunicatesAtMost("answer", ((Budget("all-reduce", None, 64),),)),
        ),
        ("Count.",),
    )
    found = verdict(exercise, often)
    assert found.diagnoses == ("unknown-times",)
    assert "known only when it runs" in found.findings[1].difference


def test_a_reduce_scatter_and_an_all_gather_are_an_all_reduce_where_one_is_allowed():
    def by_parts(x):
        grid = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
        body = lambda v: jax.lax.all_gather(  # noqa: E731
            jax.lax.psum_scatter(v.sum(1), "y", tiled=True), "y", tiled=True
        )
        return jax.shard_map(
            body, mesh=grid, in_specs=jax.P("x", "y"), out_specs=jax.P("x"), check_vma=False
        )(x)

    assert verdict(ROW_SUM, by_parts).score == 1


@pytest.mark.parametrize(("number", "said"), [(1, "1 byte"), (0, "0 bytes"), (1024, "1,024 bytes")])
def test_bytes_are_counted_in_english(number, said):
    assert in_bytes(number) == said
