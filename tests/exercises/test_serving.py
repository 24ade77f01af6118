"""Notebook 14's numbers are measured, and its best layouts are the best that compile."""

import math
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest
from jax import P

from autograder.evidence import capture
from autograder.exercises import EXERCISES, MovesFewBytes
from autograder.exercises.notebooks import nb14_serving as nb14
from autograder.judge import judge
from shardlings import communication
from shardlings.programs import MACHINES
from tests.exercises.solutions import session_for, solution_of
from tests.helpers import sharding

V5E = MACHINES["TPU v5e"]


def cases(exercise, answer, seed=0):
    asked: Any = next(r for r in EXERCISES[exercise].requirements if r.answer == answer)
    return asked.cases(EXERCISES[exercise].generator(seed))


def arrays(shapes, specs, **axes):
    return [
        jax.ShapeDtypeStruct(shape, np.float32, sharding=sharding(*spec, **axes))
        for shape, spec in zip(shapes, specs, strict=True)
    ]


# 14.1


def test_the_examples_of_the_prompt_are_right():
    assert nb14._cache_bytes(32, 8, 128, 8192) == 2**30
    seconds = nb14._step_seconds(1, 8 * 10**9, 10**9, V5E.flops, V5E.memory)
    assert round(1e3 * seconds, 1) == 20.8
    batch = nb14._compute_bound_from(8 * 10**9, 0, V5E.flops, V5E.memory)
    assert batch is not None
    assert round(batch, 1) == 240.5
    assert round(V5E.flops / V5E.memory) == 241


def test_with_long_contexts_a_chip_reads_so_many_caches_a_second():
    batch, cache = 2**40, 10**9
    seconds = nb14._step_seconds(batch, 8 * 10**9, cache, V5E.flops, V5E.memory)
    assert round(batch / seconds) == round(V5E.memory / cache) == 819


@pytest.mark.parametrize("seed", range(20))
def test_some_steps_read_longer_some_compute_longer_and_some_always_read_longer(seed):
    bound = {
        nb14._computing(b, w, f) > nb14._reading(b, w, c, m)
        for b, w, c, f, m in cases("14.1", "step_seconds", seed)
    }
    assert bound == {True, False}
    froms = [
        nb14._compute_bound_from(*model) for model in cases("14.1", "compute_bound_from", seed)
    ]
    assert None in froms
    assert any(froms)
    fitting = [nb14._most_requests(*each) for each in cases("14.1", "most_requests", seed)]
    assert min(fitting) == 0
    assert max(fitting) > 1


# 14.2

LAID_OUT = {
    # bytes sent: the specs of q and of the cache on a mesh of 4 by 2, for one request
    544: (P(None, None, "y"), P(None, "x", "y")),
    1088: (P(), P(None, ("x", "y"))),
    32768: (P(None, None, "y"), P(None, None, "y", "x")),
}


@pytest.mark.parametrize("moved", LAID_OUT)
def test_one_request_costs_what_the_exercise_says(moved):
    q, cache = LAID_OUT[moved]
    given = arrays(nb14.ONE, (q, cache, cache), x=4, y=2)
    assert communication(nb14.attend, *given).bytes == moved


def test_the_best_of_one_request_is_the_best_of_all_that_fit():
    (asked,) = (r for r in EXERCISES["14.2"].requirements if isinstance(r, MovesFewBytes))
    sizes = {"x": 4, "y": 2}

    def shardings(shape):
        for spec in product((None, "x", "y"), repeat=len(shape)):
            used = [name for name in spec if name]
            fits = all(
                n % (sizes[name] if name else 1) == 0 for n, name in zip(shape, spec, strict=True)
            )
            if fits and len(set(used)) == len(used):
                yield spec

    q_shape, cache_shape, _ = nb14.ONE
    caches = [s for s in shardings(cache_shape) if len([name for name in s if name]) == 2]
    moved = [
        communication(nb14.attend, *arrays(nb14.ONE, (q, cache, cache), **sizes)).bytes
        for q, cache in product(shardings(q_shape), caches)
    ]
    assert min(moved) == asked.best == min(LAID_OUT)


# 14.4

REACHED = {
    # tokens, bytes held and bytes moved: the specs of x, up and down on a mesh of 2 by 4
    (16, 34_816, 10_240): (P(None, "y"), P("y", "x"), P("x", "y")),
    (16, 36_864, 8_192): (P(None, "x"), P("x", "y"), P("y", "x")),
    (1024, 98_304, 262_144): (P(("x", "y")), P(("x", "y")), P(("x", "y"))),
}


@pytest.mark.parametrize("point", REACHED)
def test_each_point_of_both_frontiers_is_reached(point):
    tokens, held, moved = point
    few, many = (r for r in EXERCISES["14.4"].requirements if isinstance(r, MovesFewBytes))
    asked = few if tokens == 16 else many
    given = arrays(asked.shapes, REACHED[point], x=2, y=4)
    assert held == sum(4 * math.prod(a.sharding.shard_shape(a.shape)) for a in given)
    assert communication(nb14.mlp, *given).bytes == moved
    assert (held, moved) in asked.frontier
    assert held <= asked.cap


# 14.5


def test_candidates_are_as_small_as_the_exercise_says():
    assert 128_000 * 256 * 4 == 125 * 2**20
    assert 8 * 50 * 256 * (4 + 4) == 800 * 2**10


def test_rows_of_several_devices_are_sampled_and_all_of_the_best_matter():
    for arguments in (nb14._sampling_arguments(*sizes) for sizes in nb14.SAMPLED):
        generator = np.random.default_rng(0)
        drawn = [a.sample(generator) for a in arguments]
        tokens = nb14._sample(*drawn)
        assert len(set(tokens // nb14._width(drawn[0]))) > 2
        assert len(set(nb14._place_among_best(*drawn))) > min(2, drawn[1].shape[1] - 1)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("fewer", [lambda k, devices: k - 1, lambda k, devices: k // 2])
def test_some_row_has_all_of_its_best_on_one_device_and_the_last_one_wins(fewer, seed):
    drawn = [
        a.sample(np.random.default_rng(seed)) for a in nb14._sampling_arguments(*nb14.SAMPLED[-1])
    ]
    wrong = nb14._sampled_from_few(fewer, *drawn) != nb14._sample(*drawn)
    assert wrong.any()


def test_the_budget_of_the_prompt_is_that_of_its_sizes():
    devices, rows, _, candidates = nb14.SAMPLED[0]
    assert (devices, rows, candidates) == (8, 32, 8)
    assert devices * rows * candidates * (4 + 4) == 16_384


# all


@pytest.mark.parametrize("exercise", ["14.1", "14.2", "14.3", "14.4", "14.5", "14.6"])
@pytest.mark.parametrize("seed", range(3))
def test_solutions_are_right_for_many_seeds(exercise, seed):
    names = dict(session_for(exercise).names)
    exec(solution_of(exercise), names)
    asked = EXERCISES[exercise]
    evidence = capture(asked.plan(seed), {name: names[name] for name in asked.answers})
    assert judge(asked, evidence, seed).score == 1
