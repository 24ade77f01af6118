"""Errors that are planted in our own code: in which function, and in which check it is called."""

from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder import communication, exercises, show
from autograder.exercise import Exercise, PlacedLike
from autograder.layout import Layout
from autograder.verdict import Finding
from tests.helpers import sharding

X = np.arange(256, dtype=np.float32).reshape(16, 16)
Answers = dict[str, Any]


def strips() -> Answers:
    """What 1.1 asks for."""
    return {"columns": jax.device_put(X, sharding(None, "x", x=8))}


def unplaced() -> Answers:
    """A NumPy array for 1.1."""
    return {"columns": X}


def rows() -> Answers:
    """The usual mistake in 1.1."""
    return {"columns": jax.device_put(X, sharding("x", x=8))}


def functions() -> Answers:
    """Functions for 1.7 that give something."""
    return dict.fromkeys(("shard_shape", "bytes_total", "holders"), lambda *_: 0)


def raises() -> Answers:
    """Functions for 1.7 that raise an error of the learner's."""
    return dict.fromkeys(("shard_shape", "bytes_total", "holders"), lambda *_: [][0])


def looks() -> Answers:
    """Functions for 1.7 that look at an array with tools of ours, in passing."""

    def look(*_: object) -> int:
        x = jax.device_put(X, sharding("x", x=8))
        show(x, values=True)
        report = communication(lambda x: x.sum(), x)
        return len(str(report) + report._repr_html_())

    return dict.fromkeys(("shard_shape", "bytes_total", "holders"), look)


def turned() -> Answers:
    """What 3.1 asks for."""
    blocks = sharding("y", "x", x=4, y=2)
    return {"turned": lambda x: lax.with_sharding_constraint(jnp.sin(x), blocks)}


def summed() -> Answers:
    """The right numbers for 3.4."""
    return {"spread_sum": lambda x: x.sum(0)}


def iterate() -> Answers:
    """What 6.9 asks for: a loop and a collective; with a look at what a device holds."""

    def iterate(a, v):
        def body(a, v):
            show(v)
            v, _ = lax.scan(lambda v, _: (jnp.tanh(a @ v / 4), None), v, None, length=5)
            return lax.psum(v.sum(), "x") / (v.size * lax.axis_size("x"))

        spec = jax.P(None, "x")
        return jax.shard_map(body, in_specs=(jax.P(), spec), out_specs=jax.P())(a, v)

    return {"iterate": iterate}


def audit() -> Answers:
    """What 2.7 asks for."""
    return {"audit": {"bytes": 2816, "spec": jax.P()}, "cheap": sharding(None, "x", x=8)}


def trades() -> Answers:
    """Shardings for 6.8 that move something."""
    return dict.fromkeys(("roomy", "tight"), [sharding("x", "y", x=4, y=2)] * 4)


def layers() -> Answers:
    """Shardings for 8.1, of whatever arguments."""
    (asked,) = exercises.find("8.1").requirements
    return {asked.answer: (sharding(x=8),) * len(asked.arguments)}  # type: ignore[union-attr]


def reference(exercise: str) -> Callable[[], Any]:
    """What an exercise's first requirement compares with."""
    return lambda: getattr(exercises.find(exercise).requirements[0], "reference")  # noqa: B009


class Planting(NamedTuple):
    """Where an error is planted: a function of ours, and a check in which it is called."""

    module: str
    function: str | Callable[[], Any]
    exercise: str
    answers: Callable[[], Answers]

    def __str__(self) -> str:
        """Its name in the list of tests."""
        function = self.function if isinstance(self.function, str) else self.exercise
        return f"{self.module}-{function}"

    def named(self) -> Answers:
        """The answers, under the names that the exercise has for them."""
        made, names = self.answers(), exercises.EXERCISES[self.exercise].answers
        return made if set(made) == set(names) else dict(zip(names, made.values(), strict=False))

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the function raise, wherever it was imported to: it stays, and has other code."""
        module, place = import_module(f"autograder.{self.module}"), self.function
        function = getattr(module, place) if isinstance(place, str) else place()
        assert function.__module__ == module.__name__
        # some are asked for the names of their parameters
        monkeypatch.setattr(function, "__signature__", signature(function), raising=False)
        monkeypatch.setattr(function, "__code__", planted.__code__)


PLANTINGS = [
    Planting("capture", "_capture_placement", "1.1", strips),
    Planting("capture", "_capture_program", "3.1", turned),
    Planting("collectives", "read", "3.1", turned),
    Planting("communication", "_peak_bytes", "3.1", turned),
    Planting("cost", "seconds", "1.7", looks),
    Planting("difference", "difference", "1.1", rows),
    Planting("drawing", "svg", "1.1", rows),
    Planting("errors", "their_error", "1.7", raises),
    Planting("evidence", "_is_plain", "1.7", functions),
    Planting("exercise", lambda: Exercise.generator, "1.1", strips),
    Planting("exercise", lambda: PlacedLike.target, "1.1", strips),
    Planting("exercises", "find", "1.1", strips),
    Planting("exercises.computation_follows_data", lambda: given("2.7"), "2.7", audit),
    Planting("exercises.constraints", reference("3.4"), "3.4", summed),
    Planting("exercises.neural_networks", lambda: given("8.1"), "8.1", layers),
    Planting("exercises.shard_map", reference("5.3"), "5.3", functions),
    Planting("exercises.shard_map_matmul", reference("6.9"), "6.9", iterate),
    Planting("exercises.sharding_basics", "numbers", "1.1", strips),
    Planting("exercises.sharp_bits", reference("9.8"), "9.8", functions),
    Planting("feedback", "page", "1.1", strips),
    Planting("feedback", "headline", "1.1", rows),
    Planting("flows", "flows", "1.7", looks),
    Planting("hlo", "parse", "3.1", turned),
    Planting("holdings", "plain", "1.7", looks),
    Planting("inside", "panel", "6.9", iterate),
    Planting("journal", "record", "1.1", strips),
    Planting("judge", "asked", "1.1", strips),
    Planting("judge_costs", "judge_communication", "3.1", turned),
    Planting("judge_feeds", "judge_feeds", "2.7", audit),
    Planting("judge_functions", "judge_prediction", "2.7", audit),
    Planting("judge_layouts", "judge_placement", "1.1", strips),
    Planting("judge_programs", "judge_values", "3.1", turned),
    Planting("judge_requests", "judge_requests", "6.9", iterate),
    Planting("layout", "refusal", "1.1", strips),
    Planting("layout", lambda: Layout.describe, "1.1", strips),
    Planting("loops", "trip_count", "6.9", iterate),
    Planting("misfits", "nothing", "1.1", strips),
    Planting("misfits", "misfit", "1.1", unplaced),
    Planting("notebook", "_by_name", "1.1", strips),
    Planting("origins", "arguments_of", "6.9", iterate),
    Planting("plain", "plain", "2.7", audit),
    Planting("programs", "export", "3.1", turned),
    Planting("programs", "_load", "3.1", turned),
    Planting("programs", "_refuse_calls", "3.1", turned),
    Planting("reduce_scatter", "keeps_own_slice", "6.9", iterate),
    Planting("replica_groups", "read", "6.9", iterate),
    Planting("requested", "read", "3.1", turned),
    Planting("requested", "trip_count", "6.9", iterate),
    Planting("tradeoff", "plot", "6.8", trades),
    Planting("verdict", lambda: Finding.but, "1.1", strips),
]
ELSEWHERE = {
    "__init__": "it only passes names on",
    "blame": "it is what tells of errors, and asked below",
    "devices": "it is done before there is an answer",
    "tested": "it says what is said below",
}
"""Modules that neither capture nor judge nor show a verdict, and why nothing is planted there."""


def given(exercise: str) -> Any:
    """The function that shardings are to be found for."""
    asked = exercises.find(exercise).requirements
    return next(r.function for r in asked if hasattr(r, "function"))


def planted(*_: object, **__: object) -> None:
    """What every planting does."""
    raise ZeroDivisionError("planted")
