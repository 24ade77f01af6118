"""Right answers stay within their budgets on every supported JAX, and on a TPU.

Right answers to the exercises, compiled by each; `record.py` wrote them down.
"""

import math

import jax
import numpy as np
import pytest

from autograder.artifacts import Argument
from autograder.exercises import (
    NOTEBOOKS,
    CommunicatesAtMost,
    Computes,
    RunsWithinBudgets,
    find,
)
from autograder.judge import Finding, judge
from autograder.judge.requirements_on_costs import compare_with_budgets, compare_with_limits
from shardlings.layouts import Layout
from shardlings.programs import Report
from shardlings.programs.compiled import read_collectives, read_module
from tests.conftest import ROOT
from tests.helpers import capture, sharding

COMPILERS = ("0.8.2", "0.10.2", "0.12.0.1", "tpu-v5e-2x4")
GRID = (("x", 4), ("y", 2))


def axes_of(exercise, answer):
    """The mesh that the answer's arguments are laid out on."""
    for requirement in exercise.requirements:
        if isinstance(requirement, Computes) and requirement.answer == answer:
            return requirement.arguments[0][0].axes
    return GRID


BUDGETED = [
    # where the compiler decides; from notebook 05 on, all that is communicated is asked for by hand
    (exercise, requirement)
    for notebook in ("02_computation_follows_data", "03_constraints")
    for exercise in NOTEBOOKS[notebook]
    for requirement in exercise.requirements
    if isinstance(requirement, CommunicatesAtMost | RunsWithinBudgets)
]


RECORDINGS = ROOT / "tests" / "shardlings" / "programs" / "recorded"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_right_answer_stays_within_its_budget_whoever_compiles_it(compiler, subtests):
    for exercise, requirement in BUDGETED:
        with subtests.test(f"{exercise.id} {requirement.answer}"):
            folder = RECORDINGS / compiler / "answers"
            module = (folder / f"{exercise.id}-{requirement.answer}.pb").read_bytes()
            axes = axes_of(exercise, requirement.answer)
            sizes = [size for _, size in axes]
            devices = np.array(jax.devices()[: math.prod(sizes)]).reshape(sizes)
            mesh = jax.sharding.Mesh(devices, tuple(name for name, _ in axes))
            report = Report(tuple(read_collectives(read_module(module), mesh)), mesh, 0.0, 0)
            layouts = [Layout.of(jax.NamedSharding(mesh, jax.P()), (8,))] * 4
            finding = Finding(requirement.answer, False, "", "")
            found = compare_with_budgets(report, requirement.budgets[0], finding, "ABCD", layouts)
            assert found.met, f"{found.got}. {found.difference}"


def test_the_compilers_do_differ():
    """Otherwise one recording would be enough, and the budgets could be tighter."""
    name = "3.2-copied_auto.pb"
    modules = [(RECORDINGS / c / "answers" / name).read_bytes() for c in COMPILERS]
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    read = [
        [(c.kind, c.axes) for c in read_collectives(read_module(module), mesh)]
        for module in modules
    ]
    assert read[0] == [("all-gather", ("y",)), ("all-gather", ("x",))]
    assert read[-1] == [("all-gather", ("x", "y"))]


def test_devices_that_repeat_the_same_work_are_found_though_nothing_is_communicated():
    quiet = sharding(None, "x", x=4, y=2)  # replicated over y
    found = judge(find("2.2"), capture(find("2.2"), {"quiet": quiet}, 1), 1)
    (finding,) = (f for f in found.findings if f.answer == "quiet")
    assert finding.diagnosis == "repeated-work"
    assert "each device does 1/4 of the work, where 1/8 would be its share" in finding.difference
    spread = sharding(None, ("x", "y"), x=4, y=2)
    found = judge(find("2.2"), capture(find("2.2"), {"quiet": spread}, 1), 1)
    assert [f.met for f in found.findings if f.answer == "quiet"] == [True]


def test_a_limit_that_is_exceeded_for_other_sizes_names_them_beside_what_came():
    lists = [[Argument((n,), (("x", 8),), ("x",))] for n in (64, 32)]
    finding = Finding("f", False, "at most 100 bytes", "")
    found = compare_with_limits(
        (100, 50), (90, 60), lists, finding, "{} bytes", ("too-much", "It keeps {}, not {}.")
    )
    assert found.got.startswith("60 bytes, for float32[32]")
    assert found.expected == "at most 50 bytes"
    assert found.difference.startswith("For float32[32]")


def test_a_budget_that_is_exceeded_for_other_sizes_is_that_of_these():
    def most_likely(logits):
        return jax.lax.top_k(logits, 4) if len(logits) == 8 else by_blocks(logits)

    def by_blocks(logits):
        def body(own):
            values, places = jax.lax.top_k(own, 4)
            return values, places + jax.lax.axis_index("x") * own.shape[1]

        spec = jax.P(None, "x")
        values, places = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
        best, which = jax.lax.top_k(values, 4)
        return best, jax.numpy.take_along_axis(places, which, axis=1)

    found = judge(find("13.8"), capture(find("13.8"), {"most_likely": most_likely}, 1), 1)
    (finding,) = (f for f in found.findings if f.about == "communication")
    assert "at most 2,048 are allowed" in finding.difference
    assert "at most 2,048 bytes" in finding.expected


def test_of_several_layouts_only_the_wrong_ones_are_described():
    data = {"data": 8}
    whole, rows = sharding(**data), sharding("data", **data)
    for answer, shown in (
        ((whole,) * 5 + (rows,), "X: shape (64, 16), whole on devices 0 to 7. With your layouts"),
        ((whole,) * 4 + (rows,) * 2, "the layouts of W1, b1, W2, b2, X and Y, with which"),
    ):
        exercise = find("8.1")
        evidence = capture(exercise, {"data_parallel": answer}, 1)
        (finding,) = judge(exercise, evidence, 1).findings
        assert finding.got.startswith(shown)
