"""Notebook 07: from pmap to shard_map.

The judge cannot export a function mapped by `jax.pmap`, so learners submit its twin, and the
notebook runs the old program for comparison. `tests/test_pmap.py` checks that no twin communicates
more than the old program, and that what the notebook says about `pmap` is true. Twins are judged on
two meshes, of eight and of four devices, with blocks of different sizes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np

from autograder.artifacts import Argument
from autograder.judge import (
    Budget,
    CommunicatesAtMost,
    Computes,
    Donates,
    Exercise,
    KeepsLayouts,
    Mistake,
    PlacedLike,
    Predicts,
    RequestedCollective,
    Requests,
    RunsWithinBudgets,
)

SIZES: Final = (8, 4)
"""The sizes of the meshes on which a function is judged."""

STRIPS: Final = ("0 1 2 3 4 5 6 7", "0 1 2 3")
ROWS: Final = ("0\n1\n2\n3\n4\n5\n6\n7", "0\n1\n2\n3")
EVERYWHERE: Final = ("0,1,2,3,4,5,6,7", "0,1,2,3")


def _sharded(shape: tuple[int, ...], n: int, **more: Any) -> Argument:
    """Return an argument whose dimension 0 is sharded over n devices."""
    return Argument(shape, (("x", n),), ("x",), mode="auto", **more)


def _replicated(shape: tuple[int, ...], n: int, **more: Any) -> Argument:
    """Return an argument that is replicated on n devices."""
    return Argument(shape, (("x", n),), (), mode="auto", **more)


def _placed(answer: str, pictures: tuple[str, str], *shapes: tuple[int, ...]) -> PlacedLike:
    return PlacedLike(answer, pictures[0], shapes, elsewhere=pictures[1:])


def _no_collectives(answer: str) -> Requests:
    """Require a shard_map without explicit collectives."""
    return Requests(answer, ((), ()))


def _convolved(x: Any, w: Any) -> Any:
    return np.stack([np.convolve(row, w, mode="valid") for row in x])


def _correlated(x: Any, w: Any) -> Any:
    return _convolved(x, w[::-1])


def _padded(x: Any, w: Any, mode: Literal["same", "full"]) -> Any:
    return np.stack([np.convolve(row, w, mode=mode) for row in x])


def _run_together(x: Any, w: Any) -> Any:
    """Convolve the rows of each device as one long row: a mistake."""
    devices = next(n for n, rows in ROWS_EACH.items() if n * rows == len(x))
    return _convolved(x.reshape(devices, -1), w)


def _run_together_and_split(x: Any, w: Any) -> Any:
    """Split the result of `_run_together` into as many rows as x has, if it divides: a mistake."""
    together = _run_together(x, w)
    return together.reshape(len(x), -1) if together.size % len(x) == 0 else together


def _first_rows(x: Any, w: Any) -> Any:
    """Use the first row of each device in place of all its rows: a mistake."""
    devices = next(n for n, rows in ROWS_EACH.items() if n * rows == len(x))
    rows = len(x) // devices
    return np.repeat(_convolved(x[::rows], w), rows, axis=0)


def _first_row_alone(x: Any, w: Any) -> Any:
    """Return only the first row of each device: a mistake."""
    devices = next(n for n, rows in ROWS_EACH.items() if n * rows == len(x))
    return _convolved(x[:: len(x) // devices], w)


CONVOLVED_MISTAKES: Final[dict[str, Any]] = {
    "not-turned": _correlated,
    "same-mode": lambda x, w: _padded(x, w, "same"),
    "full-mode": lambda x, w: _padded(x, w, "full"),
}


SIGNALS: Final = ((8, 12, 3), (4, 9, 4))
"""For each case: the number of devices, the length of a row, and that of the window."""

ROWS_EACH: Final = {8: 2, 4: 3}
"""The rows on each device in `convolved_many`, by the number of devices."""

CONVOLVE: Final = Exercise(
    id="7.1",
    title="The twin of a pmap",
    afterwards="pmap itself works like this today: it is a shard_map over its own mesh, which "
    "removes the mapped dimension from each block and adds it back to each result.",
    requirements=(
        Computes(
            "convolved",
            "convolved(x, w) must return each row of x convolved with w.",
            _convolved,
            tuple((_sharded((n, size), n), _replicated((k,), n)) for n, size, k in SIGNALS),
            {
                **CONVOLVED_MISTAKES,
                "row-as-a-vector": Mistake(
                    lambda x, w: np.ravel(_convolved(x, w)),
                    says="Each device returns its row as a vector, and out_specs concatenate the "
                    "vectors. pmap added the mapped dimension to each result; in shard_map the "
                    "body has to do it.",
                ),
                "rows-added": Mistake(
                    lambda x, w: _convolved(x, w).sum(0, keepdims=True),
                    lambda x, w: _convolved(x, w).sum(0),
                    says="The rows of all devices are added up. Nothing must be reduced: each row "
                    "stays on its device.",
                ),
            },
            under_mesh=True,
        ),
        _no_collectives("convolved"),
        _placed("convolved", ROWS, *((n, size - k + 1) for n, size, k in SIGNALS)),
        Computes(
            "convolved_many",
            "convolved_many(x, w) must return each row of x convolved with w.",
            _convolved,
            tuple(
                (_sharded((ROWS_EACH[n] * n, size), n), _replicated((k,), n))
                for n, size, k in SIGNALS
            ),
            {
                **CONVOLVED_MISTAKES,
                "run-together": Mistake(
                    _run_together,
                    lambda x, w: np.ravel(_run_together(x, w)),
                    _run_together_and_split,
                    says="The rows of each device were convolved as one long row. Each row must be "
                    "convolved by itself.",
                ),
                "first-rows": Mistake(
                    _first_rows,
                    says="Each device returns the result for its first row in place of all of its "
                    "rows.",
                ),
                "first-row-alone": Mistake(
                    _first_row_alone,
                    says="Only the first row of each device's block is convolved, and a block has "
                    "several rows here.",
                ),
            },
            under_mesh=True,
        ),
        _no_collectives("convolved_many"),
        _placed(
            "convolved_many", ROWS, *((ROWS_EACH[n] * n, size - k + 1) for n, size, k in SIGNALS)
        ),
    ),
    hints=(
        "in_axes becomes in_specs: 0 becomes P('x'), which shards dimension 0, and None becomes "
        "P(), which replicates. out_axes is 0 by default, so out_specs are P('x').",
        "Under pmap the function gets a row. In shard_map the body gets a block of shape (1, …): "
        "block[0] is the row, and [None] adds the dimension to the result.",
        "With several rows on a device, the block has shape (rows, …), and jax.vmap maps the "
        "function over them: vmap within a device, shard_map over the devices.",
    ),
    diagnoses={
        "does-not-divide": "in_axes=(0, None) gave each device one row of x, and all devices the "
        "same w. Do in_specs say this about both?",
        "convolved_many: raised": "Does JAX mention 1-dimensional inputs, or inconsistent sizes? "
        "The body gets a block of several rows, and one window. jax.vmap maps the rows, and its "
        "in_axes must say that all rows use the same window.",
        "raised": "Does JAX mention 1-dimensional inputs? Under pmap the function got a row. The "
        "body gets a block of rows, here of shape (1, 12), and has to take the row out of it. "
        "Does it mention inconsistent sizes? vmap maps all of its arguments, w too, unless "
        "in_axes says otherwise.",
        "shape": "The body gets a block of rows and must return a block of rows, because "
        "shard_map does not remove and add the mapped dimension as pmap did. Which sizes of the "
        "two shapes differ? With too few rows, or too few dimensions, look at what the body "
        "returns for one block. With rows that are too long or too short, look at what it "
        "convolves.",
        "same-mode": 'These rows are as long as those of x. mode="valid", as in convolve above, '
        "leaves out the positions where the window reaches over an end.",
        "full-mode": 'These rows are longer than those of x. mode="valid", as in convolve above, '
        "leaves out the positions where the window reaches over an end.",
        "does-not-reshape": "Are the rows of a block concatenated to one long row? Each row must "
        "be convolved by itself, and becomes shorter.",
        "not-replicated": "Nothing has to be summed here, because each device returns its own "
        "rows. Do out_specs say that the result is sharded over x?",
        "not-turned": "This is a correlation: the window was not reversed. A convolution reverses "
        "it, and so does jnp.convolve.",
        "added-by-the-compiler": "in_axes=(0, None) shards x and replicates w. Do in_specs say "
        "the same?",
        "no-shard-map": "vmap alone does not run rows on different devices. Map over the devices "
        "with shard_map.",
        "other-mesh": "Is there a pmap in it?",
    },
)


def _normalised(x: Any, w: Any) -> Any:
    y = _convolved(x, w)
    return y / y.sum(0)


POSITIVE: Final = {"shift": 6.0}
"""Sample numbers whose sums are far from zero, so that they can be divisors."""


def _signals(n: int, size: int, k: int) -> tuple[Argument, ...]:
    """Return rows and a window with sums far from zero, negative ones on four devices.

    If all were positive, the sum of absolute values would be right, too.
    """
    of_one_sign = POSITIVE if n == 8 else {**POSITIVE, "shift": -POSITIVE["shift"]}
    return _sharded((n, size), n, **of_one_sign), _replicated((k,), n, **POSITIVE)


NORMALISED_MISTAKES: Final[dict[str, Any]] = {
    "over-positions": lambda x, w: (lambda y: y / y.sum(1, keepdims=True))(_convolved(x, w)),
    "over-everything": lambda x, w: (lambda y: y / y.sum())(_convolved(x, w)),
    "mean-for-sum": lambda x, w: (lambda y: y / y.mean(0))(_convolved(x, w)),
    "maximum-for-sum": lambda x, w: (lambda y: y / y.max(0))(_convolved(x, w)),
    "roots-of-squares": lambda x, w: (lambda y: y / np.sqrt((y * y).sum(0)))(_convolved(x, w)),
    "not-divided": _convolved,
    "by-itself": lambda x, w: np.ones_like(_convolved(x, w)),
    "sum-alone": lambda x, w: (lambda y: np.broadcast_to(y.sum(0), y.shape))(_convolved(x, w)),
    "upside-down": lambda x, w: (lambda y: y.sum(0) / y)(_convolved(x, w)),
    "multiplied": lambda x, w: (lambda y: y * y.sum(0))(_convolved(x, w)),
    "subtracted": lambda x, w: (lambda y: y - y.sum(0))(_convolved(x, w)),
    "sum-of-sizes": lambda x, w: (lambda y: y / np.abs(y).sum(0))(_convolved(x, w)),
    "times-the-reciprocals": lambda x, w: (lambda y: y * (1 / y).sum(0))(_convolved(x, w)),
    "divided-before": lambda x, w: _convolved(x / x.sum(0), w),
}

NORMALISE: Final = Exercise(
    id="7.2",
    title="One name, three maps",
    afterwards="A function with a psum over a name can be tested on one device under vmap, and "
    "run on many devices under shard_map, unchanged.",
    weights={"normalised": 3, "by_vmap": 1},
    requirements=(
        Computes(
            "normalised",
            "normalised(x, w) must convolve each row and divide it, position by position, by the "
            "sum of all convolved rows.",
            _normalised,
            tuple(_signals(*each) for each in SIGNALS),
            {
                **NORMALISED_MISTAKES,
                "row-as-a-vector": Mistake(
                    lambda x, w: np.ravel(_normalised(x, w)),
                    says="Each device returns its row as a vector, and out_specs concatenate the "
                    "vectors. pmap added the mapped dimension to each result; in shard_map the "
                    "body has to do it.",
                ),
            },
            under_mesh=True,
        ),
        Requests(
            "normalised",
            tuple(
                (RequestedCollective("all-reduce", 1, ("x",), 4 * (s - k + 1)),)
                for _, s, k in SIGNALS
            ),
        ),
        _placed("normalised", ROWS, *((n, size - k + 1) for n, size, k in SIGNALS)),
        Computes(
            "by_vmap",
            "by_vmap(x, w) must return the same as normalised(x, w), with vmap.",
            _normalised,
            tuple(_signals(*each) for each in SIGNALS),
            NORMALISED_MISTAKES,
            under_mesh=True,
        ),
        CommunicatesAtMost(
            "by_vmap",
            tuple((Budget("all-reduce", ("x",), 4 * (s - k + 1)),) for _, s, k in SIGNALS),
        ),
        Requests("by_vmap", ((), ()), mapped=False),
        _placed("by_vmap", ROWS, *((n, size - k + 1) for n, size, k in SIGNALS)),
    ),
    hints=(
        "The function of one row stays the same, with its psum. Only the map around it changes, "
        "and so does the source of the axis name.",
        "Under pmap and vmap, axis_name= sets the name. Under shard_map the mesh has names, and "
        "here its axis is called x.",
        "Write a function of one row with a psum over 'x'. vmap can map it directly, with in_axes "
        "and axis_name. For shard_map, write a body that takes the row out of its block and calls "
        "the function.",
    ),
    diagnoses={
        "sum-of-sizes": "The rows are divided by the sum of their absolute values. Divide by "
        "their sum.",
        "times-the-reciprocals": "The rows are multiplied by the sum of the reciprocals. This is "
        "not the same as dividing by the sum.",
        "over-positions": "Each row adds up to one by itself, so the sum runs over the positions "
        "of a row. psum adds up over devices, position by position, if you pass it all of y.",
        "over-everything": "All elements together add up to one. The sum must run over the "
        "devices only, position by position.",
        "mean-for-sum": "The result is too large by the number of rows: is it divided by the mean "
        "instead of the sum?",
        "maximum-for-sum": "The rows are divided by their maximum at each position. Divide by "
        "their sum.",
        "roots-of-squares": "The rows are divided by the root of a sum of squares. Divide by the "
        "sum of the rows themselves.",
        "not-divided": "These are the convolved rows, not divided by anything.",
        "by-itself": "All elements are 1, so each row is divided by itself. Does the sum run over "
        "the body's block only? The block contains only this device's row. Which function adds up "
        "the rows of all devices?",
        "sum-alone": "This is the sum of all rows, on every device. Divide each device's own row "
        "by it.",
        "upside-down": "This is the reciprocal: the sum is divided by the row.",
        "multiplied": "Each row is multiplied by the sum of all rows. Divide by it.",
        "subtracted": "The sum of all rows is subtracted from each row. Divide by it.",
        "divided-before": "The rows are divided before they are convolved. Convolve first, then "
        "add up the convolved rows and divide.",
        "does-not-divide": "in_axes=(0, None) gave each device one row of x, and all devices the "
        "same w. Do in_specs say this about both?",
        "by_vmap: explicit all-reduce": "Is there a shard_map in it? by_vmap has vmap in its "
        "place: then psum only refers to vmap's axis, and the compiler adds the all-reduce.",
        "by_vmap: raised": "Does JAX mention inconsistent sizes? vmap maps all of its arguments "
        "unless in_axes says otherwise, and w is the same for all rows.",
        "by_vmap: collective-permute": "Is there a Python loop over the rows of x? Each row is on "
        "another device. vmap maps all rows at once, and each row stays on its device.",
        "by_vmap: replicated": "Are rows taken one by one and stacked again? Then the result may "
        "have another layout. vmap leaves each row on its device.",
        "unbound-axis": "axis_name='p' gave pmap the name. shard_map uses the names of its mesh, "
        "and vmap has axis_name=. Is the name in psum the same as there?",
        "added-by-the-compiler": "The compiler should have nothing to move. Do in_specs say that "
        "x is sharded and w replicated?",
        "sends-too-much": "The all-reduce needs one element for each position of the convolved "
        "row.",
        "normalised: not-replicated": "The rows still differ from device to device after the "
        "division: only the sum is the same everywhere. Do out_specs say that the result is "
        "sharded?",
    },
)


def _nested(a: Any, mean: tuple[int, ...] = (1,), total: tuple[int, ...] = (0, 1, 2)) -> Any:
    """Return the result of the nested program, for given dimensions of the mean and of the sum."""
    return (a - a.mean(mean, keepdims=True)) / np.sqrt((a * a).sum(total, keepdims=True))


def _nested_but(a: Any, numbers: str = "", norm: str = "") -> Any:
    """Return the result with one mistake: in the centred numbers, or in their norm."""
    if numbers == "not centred":
        return a / np.sqrt((a * a).sum())
    centred = a - (a.sum if numbers == "summed" else a.mean)(1, keepdims=True)
    if numbers == "mean of all of y":
        centred = a - a.mean((1, 2), keepdims=True)
    if norm == "of the numbers alone":
        return a / np.sqrt((a * a).sum()) - a.mean(1, keepdims=True)
    if norm == "of the sum":
        return centred / np.abs(a.sum())
    if norm == "of sizes":
        return centred / np.abs(a).sum()
    if norm == "of the mean alone":
        return a - a.mean(1, keepdims=True) / np.sqrt((a * a).sum())
    if norm == "none":
        return centred
    if norm == "without its root":
        return centred / (a * a).sum()
    if norm == "multiplied":
        return centred * np.sqrt((a * a).sum())
    if norm == "mean of the devices":
        return centred / np.sqrt((a * a).sum(2).mean())
    if norm == "means of the devices":
        return centred / np.sqrt((a * a).mean(2).sum())
    if norm == "by eight":
        return centred / np.sqrt((a * a).sum() / 8)
    if norm == "mean of all":
        return centred / np.sqrt((a * a).mean())
    if norm == "position by position":
        return centred / np.sqrt((a * a).sum((0, 1)))
    if norm == "without squares":
        return centred / a.sum()
    if norm == "of roots":
        return centred / np.sqrt((a * a).sum(2)).sum()
    squares = (centred if norm == "of the centred" else a) ** 2
    return centred / np.sqrt(squares.sum())


GRIDS: Final = ((4, 2, 6), (2, 2, 5))
"""For each case: the devices along x and along y, and the length of a vector."""


def _on_grid(rows: int, columns: int, length: int) -> tuple[Argument, ...]:
    axes = (("x", rows), ("y", columns))
    return (Argument((rows, columns, length), axes, ("x", "y"), mode="auto"),)


NEST: Final = Exercise(
    id="7.3",
    title="pmap in pmap",
    afterwards="A mesh can have any number of axes. Maps that used to be nested, each with a "
    "name, become one map over a mesh with all of these names.",
    requirements=(
        Computes(
            "unnested",
            "unnested(a) must return what the nested program should have returned.",
            _nested,
            tuple(_on_grid(*each) for each in GRIDS),
            {
                "mean-over-x": Mistake(
                    lambda a: _nested(a, mean=(0,)),
                    says="The mean is taken over x. It should be taken over y.",
                ),
                "mean-over-all": Mistake(
                    lambda a: _nested(a, mean=(0, 1)),
                    says="The mean is taken over both axes. It should be taken over y only.",
                ),
                "mean-of-own": Mistake(
                    lambda a: _nested(a, mean=(2,)),
                    says="The mean is taken over the elements of one device. It should be taken "
                    "over the devices along y, position by position.",
                ),
                "sum-over-x": Mistake(
                    lambda a: _nested(a, total=(0, 2)),
                    says="The squares are added up over x only. They should be added up over both "
                    "axes.",
                ),
                "sum-over-y": Mistake(
                    lambda a: _nested(a, total=(1, 2)),
                    says="The squares are added up over y only. They should be added up over both "
                    "axes.",
                ),
                "own-sum": Mistake(
                    lambda a: _nested(a, total=(2,)),
                    says="Each device uses only its own squares. The squares of all devices should "
                    "be added up.",
                ),
                "sum-for-mean": Mistake(
                    lambda a: _nested_but(a, numbers="summed"),
                    says="The sum over y is subtracted. It should be the mean over y.",
                ),
                "length-of-centred": Mistake(
                    lambda a: _nested_but(a, norm="of the centred"),
                    says="The vectors are divided by the norm of the centred vectors. Divide by "
                    "the norm of the original ones, as centre does.",
                ),
                "roots-summed": Mistake(
                    lambda a: _nested_but(a, norm="of roots"),
                    says="Each device takes the root of its own sum, and the roots are added up. "
                    "First add up the squares of all devices, then take the root.",
                ),
                "no-length": Mistake(
                    lambda a: _nested_but(a, norm="none"),
                    says="The vectors are centred but not divided by anything.",
                ),
                "numbers-alone-divided": Mistake(
                    lambda a: _nested_but(a, norm="of the numbers alone"),
                    says="The mean is subtracted after the division. Subtract it first, and divide "
                    "the difference.",
                ),
                "sum-of-sizes": Mistake(
                    lambda a: _nested_but(a, norm="of sizes"),
                    says="The vectors are divided by the sum of absolute values. The norm is the "
                    "root of the sum of squares.",
                ),
                "mean-alone-divided": Mistake(
                    lambda a: _nested_but(a, norm="of the mean alone"),
                    says="Only the mean is divided by the norm. Divide the difference.",
                ),
                "root-forgotten": Mistake(
                    lambda a: _nested_but(a, norm="without its root"),
                    says="The vectors are divided by the sum of squares. The norm is the root of "
                    "it.",
                ),
                "multiplied": Mistake(
                    lambda a: _nested_but(a, norm="multiplied"),
                    says="The vectors are multiplied by the norm. Divide by it.",
                ),
                "mean-of-squares": Mistake(
                    lambda a: _nested_but(a, norm="mean of the devices"),
                    says="The sums of squares of the devices are averaged. They should be added "
                    "up: is there a pmean in place of a psum?",
                ),
                "mean-of-all-squares": Mistake(
                    lambda a: _nested_but(a, norm="mean of all"),
                    says="The vectors are divided by the root of the mean of all squares. It "
                    "should be the root of their sum.",
                ),
                "means-added": Mistake(
                    lambda a: _nested_but(a, norm="means of the devices"),
                    says="Under the root, each device contributes the mean of its squares. It "
                    "should contribute their sum, and psum adds up these sums.",
                ),
                "divided-by-eight": Mistake(
                    lambda a: _nested_but(a, norm="by eight"),
                    says="Under the root, the sum of squares is divided by 8. The norm is the root "
                    "of the sum itself.",
                ),
                "own-not-added": Mistake(
                    lambda a: _nested_but(a, norm="position by position"),
                    says="Each position has its own norm here: the squares are added up over the "
                    "devices, but not within a device.",
                ),
                "not-squared": Mistake(
                    lambda a: _nested_but(a, norm="without squares"),
                    lambda a: _nested_but(a, norm="of the sum"),
                    says="The elements are added up without being squared first. Square each "
                    "element, and add up the squares; the norm is the root of their sum.",
                ),
                "mean-of-all-of-y": Mistake(
                    lambda a: _nested_but(a, numbers="mean of all of y"),
                    says="The mean is taken over y and over the positions. It should be a vector, "
                    "with a mean for each position.",
                ),
                "not-centred": Mistake(
                    lambda a: _nested_but(a, numbers="not centred"),
                    says="The vectors are divided by their norm, but no mean is subtracted.",
                ),
            },
            under_mesh=True,
        ),
        Requests(
            "unnested",
            tuple(
                (
                    RequestedCollective("all-reduce", 1, ("x", "y"), 4),
                    RequestedCollective("all-reduce", 1, ("y",), 4 * length),
                )
                for *_, length in GRIDS
            ),
        ),
    ),
    hints=(
        "The two pmaps map two dimensions over two axes. Which spec shards both dimensions at "
        "once?",
        "In the body the block has shape (1, 1, length). Collectives take the name of one axis or "
        "of several: lax.psum(s, ('x', 'y')).",
        "The mean runs over y only, and the sum of squares over both axes. Add up the squares of "
        "your own elements before the psum, so that each device contributes a single number.",
    ),
    diagnoses={
        "not-finite": "Is the root taken of a sum that can be negative? A sum of squares cannot "
        "be.",
        "does-not-divide": "The first two dimensions of a are sharded over the two mesh axes, one "
        "each. Does the spec say this?",
        "same-along-an-axis": "Do in_specs shard a over both axes?",
        "sends-too-much": "One number from each device is enough for the sum of squares: add up "
        "your own before the psum.",
        "other-mesh": "Is there a pmap in it?",
    },
)

RATE: Final = np.float32(0.1)
STEPS: Final = 10


def loss(w: Any, X: Any, y: Any) -> Any:
    """Return the mean squared error of a linear model."""
    return jnp.mean((X @ w - y) ** 2)


def descend(w: Any, X: Any, y: Any) -> Any:
    """Return w after one step of gradient descent."""
    return w - 0.1 * jax.grad(loss)(w, X, y)


def _gradient(w: Any, X: Any, y: Any) -> Any:
    return 2 * X.T @ (X @ w - y) / np.float32(len(y))


def _trained(w: Any, X: Any, y: Any, steps: int = STEPS, times: float = 1) -> Any:
    for _ in range(steps):
        w = w - np.float32(times) * RATE * _gradient(w, X, y)
    return w


EXAMPLES: Final = ((8, 64, 4), (4, 24, 6))
"""For each case: the number of devices, of examples, and of features."""

DEVICES: Final = {examples: n for n, examples, _ in EXAMPLES}
"""The number of devices, by the number of examples."""


def _data(n: int, examples: int, features: int) -> tuple[Argument, ...]:
    return (
        _replicated((features,), n), _sharded((examples, features), n), _sharded((examples,), n),
    )  # fmt: skip


def _parameter_bytes(examples: tuple[int, int, int]) -> int:
    """Return the bytes of the parameters."""
    return 4 * examples[2]


FED: Final = ((64, 4), (128, 8))
"""The numbers of examples and features with which `layouts` is checked."""

REGRESSION: Final = Exercise(
    id="7.4",
    title="Three lines in place of pmap",
    afterwards="Ten steps are one program now. lax.fori_loop contains the step once, however "
    "often it runs. A Python loop would trace ten of them, and with a thousand steps you would "
    "wait for the compiler. To report the loss every so many steps, write a second, outer loop.",
    about=(RunsWithinBudgets, CommunicatesAtMost),
    requirements=(
        RunsWithinBudgets(
            "layouts",
            "shardings (of w, of X, of y) with which each device holds and works on its own "
            "examples, and only the gradient moves",
            descend,
            tuple(((k,), (b, k), (b,)) for b, k in FED),
            tuple((Budget("all-reduce", bytes=4 * k),) for _, k in FED),
            caps=tuple(4 * (k + b * k // 8 + b // 8) for b, k in FED),
        ),
        Computes(
            "train",
            f"train(w, X, y) must return w after {STEPS} steps of descend.",
            _trained,
            tuple(_data(*each) for each in EXAMPLES),
            {
                "one-step-less": Mistake(
                    lambda w, X, y: _trained(w, X, y, STEPS - 1),
                    says="This is w after one step too few.",
                ),
                "one-step-more": Mistake(
                    lambda w, X, y: _trained(w, X, y, STEPS + 1),
                    says="This is w after one step too many: is there one before the loop?",
                ),
                "mean-of-steps": Mistake(
                    lambda w, X, y: np.mean([_trained(w, X, y, i + 1) for i in range(STEPS)], 0),
                    lambda w, X, y: np.mean([_trained(w, X, y, i) for i in range(STEPS)], 0),
                    says="This is the mean of w over the steps. Expected: the last w.",
                ),
                "one-step": Mistake(
                    lambda w, X, y: _trained(w, X, y, 1), says="This is w after one step."
                ),
                "uphill": Mistake(
                    lambda w, X, y: _trained(w, X, y, times=-1),
                    says="The gradient is added. Subtract it.",
                ),
                "as-many-times": Mistake(
                    lambda w, X, y: _trained(w, X, y, times=DEVICES[len(y)]),
                    says="In each step the gradient is too large by the number of devices. Plain "
                    "code needs no shard_map and no collective here. (In a shard_map, is the "
                    "gradient averaged after grad? The gradient with respect to a replicated value "
                    "is already summed.)",
                ),
                "rate-forgotten": Mistake(
                    lambda w, X, y: _trained(w, X, y, times=10),
                    says="In each step the complete gradient is subtracted: where is the rate, "
                    "0.1?",
                ),
                "sum-of-squares": Mistake(
                    lambda w, X, y: _trained(w, X, y, times=len(y)),
                    says="The steps are too large by the number of examples: is the loss a sum "
                    "instead of a mean?",
                ),
                "half": Mistake(
                    lambda w, X, y: _trained(w, X, y, times=0.5),
                    says="In each step the gradient is half as large as it should be. The "
                    "derivative of a square has a factor of 2.",
                ),
                "y-left-out": Mistake(
                    lambda w, X, y: _trained(w, X, 0 * y),
                    says="These are ten steps with zeros in place of y.",
                ),
                "from-zeros": Mistake(
                    lambda w, X, y: _trained(0 * w, X, y),
                    says="The steps begin with zeros. Begin with the given w.",
                ),
                "rate-of-a-hundredth": Mistake(
                    lambda w, X, y: _trained(w, X, y, times=0.1),
                    says="In each step the rate is 0.01. It should be 0.1.",
                ),
                "w-of-all-steps": Mistake(
                    lambda w, X, y: np.stack([_trained(w, X, y, i + 1) for i in range(STEPS)]),
                    lambda w, X, y: np.stack([_trained(w, X, y, i) for i in range(STEPS)]),
                    says="These are the w of all ten steps, stacked. Expected: the last of them.",
                ),
                "gradient-taken-once": Mistake(
                    lambda w, X, y: w - np.float32(STEPS) * RATE * _gradient(w, X, y),
                    says="All ten steps subtract the same gradient, that of the first w. Each step "
                    "needs the gradient at the current w.",
                ),
            },
            under_mesh=True,
        ),
        CommunicatesAtMost(
            "train",
            tuple((Budget("all-reduce", ("x",), STEPS * _parameter_bytes(e)),) for e in EXAMPLES),
        ),
        _placed("train", EVERYWHERE, *((features,) for *_, features in EXAMPLES)),
    ),
    hints=(
        "in_axes=None was for values that every device has: they are now replicated. in_axes=0 "
        "was for values with one row for each device: they are now sharded. Which of the two is "
        "each of w, X and y?",
        "The examples are dimension 0 of X and of y. A spec without entries, P(), replicates.",
        "lax.fori_loop(0, steps, lambda i, w: …, w) runs the steps in the program. The compiler "
        "adds the all-reduces, because the loss is a mean over all examples.",
    ),
    diagnoses={
        "in-a-container": "Is this everything that lax.scan returns? It returns a pair: the "
        "carry, and the stacked outputs.",
        "over-the-cap": "A device has memory for w, and for an eighth of X and of y. Are X and y "
        "both sharded over their examples, and over all eight devices?",
        "all-gather": "Nothing has to be gathered if each device has complete examples and their "
        "targets. Are X and y sharded over their examples, and do they stay so?",
        "too-many-bytes": "In each step only the gradient should be added up, one number for each "
        "feature. Is w replicated, in the result too?",
        "unbound-axis": "train is plain code on global arrays, in which no axis has a name. Is "
        "there a pmean in it? The compiler adds the all-reduce by itself.",
        "nothing-returned": "Or is it the second of the two values that lax.scan returns? The "
        "carry is the first.",
        "does-not-fit": "A dimension of size 4 is the features: dimension 0 of w, and dimension 1 "
        "of X. Every device needs all features, and has its own examples.",
        "other-mesh": "Is there a pmap in it?",
    },
)


def _updated(w: Any, X: Any, y: Any, times: Any = 1) -> Any:
    return w - np.float32(times) * RATE * _gradient(w, X, y)


def _update_from_own_examples(w: Any, X: Any, y: Any) -> Any:
    """Use the gradient of device 0's examples only: a mistake."""
    mine = len(y) // DEVICES[len(y)]
    return _updated(w, X[:mine], y[:mine])


BELOW_ONE: Final = Mistake(1 / 8, 1 / 64)
"""Inverted ratios, or those of a gradient that was divided."""


def _times(cell: str, right: int, **mistakes: Any) -> Predicts:
    return Predicts(
        "times",
        cell,
        f"how many times the right gradient {cell} gives, on eight devices",
        right,
        {name.replace("_", "-"): value for name, value in mistakes.items()},
    )


TRAP: Final = Exercise(
    id="7.5",
    title="The gradient that is eight times too large",
    afterwards="Adam hides this mistake, because it divides a gradient by its own size. Plain "
    "gradient descent diverges, or learns eight times as fast as you think.",
    requirements=(
        _times("grad(loss)(w)", 8, as_in_pmap=1, too_often=64, below_one=BELOW_ONE),
        _times("pmean(grad(loss)(w))", 8, mean_of_copies=1, too_often=64, below_one=BELOW_ONE),
        _times(
            "psum(grad(loss)(w))",
            64,
            sum_of_copies=8,
            once_only=1,
            too_often=512,
            below_one=BELOW_ONE,
        ),
        _times("grad(mean_loss)(w)", 1, mean_forgotten=Mistake(8, 64), averaged_again=1 / 8),
        _times(
            "pmean(grad(loss)(varying(w)))", 1, summed_again=Mistake(8, 64), averaged_again=1 / 8
        ),
        _times(
            "psum(grad(loss)(varying(w)))", 8, summed_again=64, once_only=1, below_one=BELOW_ONE
        ),
        Computes(
            "update",
            "update(w, X, y) must be w - 0.1 * gradient, for the mean loss over all examples.",
            _updated,
            tuple(_data(*each) for each in EXAMPLES),
            {
                "as-many-times": Mistake(
                    lambda w, X, y: _updated(w, X, y, DEVICES[len(y)]),
                    says="The gradient is too large by the number of devices. Is it a sum over the "
                    "devices instead of the mean? (The gradient with respect to a shared w is "
                    "already summed, and pmean does not change it.)",
                ),
                "squared": Mistake(
                    lambda w, X, y: _updated(w, X, y, DEVICES[len(y)] ** 2),
                    says="The gradient is too large by the square of the number of devices. Does "
                    "grad add it up, and then a psum, too?",
                ),
                "divided-twice": Mistake(
                    lambda w, X, y: _updated(w, X, y, 1 / DEVICES[len(y)]),
                    says="The gradient is too small by the number of devices. Is it averaged and "
                    "also divided by their number?",
                ),
                "own-examples": Mistake(
                    _update_from_own_examples,
                    says="This is the gradient for the first device's examples only.",
                ),
                "gradient-alone": Mistake(
                    _gradient,
                    says="This is the right gradient. update must return the new w: w - 0.1 * "
                    "gradient.",
                ),
                "uphill": Mistake(
                    lambda w, X, y: _updated(w, X, y, -1),
                    says="The gradient is right, but it is added. Subtract it.",
                ),
                "rate-forgotten": Mistake(
                    lambda w, X, y: _updated(w, X, y, 10),
                    says="The step is ten times too large, as if the complete gradient were "
                    "subtracted: where is the rate, 0.1?",
                ),
                "rate-of-a-hundredth": Mistake(
                    lambda w, X, y: _updated(w, X, y, 0.1),
                    says="The step is ten times too small, as with a rate of 0.01. The rate is "
                    "0.1.",
                ),
                "rate-of-eight-tenths": Mistake(
                    lambda w, X, y: _updated(w, X, y, 8),
                    says="The step is 8 times too large, on four devices as on eight, as with a "
                    "rate of 0.8. The rate is 0.1. Is there an 8 to undo a division?",
                ),
                "divided-by-eight": Mistake(
                    lambda w, X, y: _updated(w, X, y, 1 / 8),
                    lambda w, X, y: _updated(w, X, y, DEVICES[len(y)] / 8),
                    says="The step is too small, at least on four devices. Is anything divided by "
                    "8? The number of devices differs from case to case.",
                ),
            },
            under_mesh=True,
        ),
        Requests(
            "update",
            tuple(
                (RequestedCollective("all-reduce", 1, ("x",), _parameter_bytes(e)),)
                for e in EXAMPLES
            ),
        ),
        _placed("update", EVERYWHERE, *((features,) for *_, features in EXAMPLES)),
    ),
    hints=(
        "What does grad return with respect to a value that all devices share? Ask jax.typeof in "
        "the body: a value that varies has {V:x} in its type, and one that was summed does not.",
        "The gradient with respect to a shared w is already summed when you get it. So take the "
        "mean of the loss, before grad.",
        "Either give jax.grad a function that takes the pmean of the loss, or declare w as "
        "varying first. Then the pmean of the gradient is the same as under pmap.",
    ),
    diagnoses={
        "as-in-pmap": "This is right under pmap, where each device has its own w. In shard_map "
        "all devices share w, and its gradient is already summed over the devices.",
        "mean-of-copies": "The gradient is already summed over the devices, so all of them have "
        "the same sum. What is the pmean of values that are all equal?",
        "sum-of-copies": "The psum of a value that all devices have is that value times their "
        "number. What does grad give before that?",
        "mean-forgotten": "grad adds up what the devices contribute. But here the mean comes "
        "first, so each device's loss counts an eighth, and so does its contribution.",
        "too-often": "The gradient is added up once, by grad itself.",
        "once-only": "The right gradient is the mean of the devices' own gradients. What is their "
        "sum, and what is the psum of a value that all devices have?",
        "summed-again": "pcast turns the shared w into one that each device has for itself, as "
        "under pmap. Then grad adds nothing up, and each device gets the gradient of its own loss.",
        "below-one": "A number below 1 means that the gradient is too small: half of the right "
        "gradient would be 1/2. Is anything divided here, or is the ratio upside down?",
        "averaged-again": "Only the mean divides by the number of devices, and it is taken once.",
        "other-mesh": "Is there a pmap in it? Expected: its twin with shard_map.",
        "copies-disagree": "Each device has a different w now. Is check_vma off? With it on, JAX "
        "would have raised an error.",
        "not-replicated": "As far as JAX can prove, the new w differs from device to device. Is w "
        "declared as varying, and its gradient never averaged?",
        "one-too-many": "One all-reduce is enough. The gradient with respect to a shared value "
        "contains one already.",
    },
)


def _loss(w: Any, X: Any, y: Any) -> Any:
    return np.mean((X @ w - y) ** 2)


def _own_loss(w: Any, X: Any, y: Any) -> Any:
    mine = len(y) // DEVICES[len(y)]
    return _loss(w, X[:mine], y[:mine])


def _of_mean_residuals(w: Any, X: Any, y: Any) -> Any:
    """Average the devices' residuals before they are squared: a mistake."""
    return np.mean((X @ w - y).reshape(DEVICES[len(y)], -1).mean(0) ** 2)


def _stacked_losses(w: Any, X: Any, y: Any) -> Any:
    """Return the right loss once for each device: a mistake."""
    return np.full(DEVICES[len(y)], _loss(w, X, y))


KINDS: Final = ("nothing", "all-reduce", "all-gather", "collective-permute")


def _moves(cell: str, right: str, **mistakes: Any) -> Predicts:
    return Predicts(
        "moves",
        cell,
        f"what {cell} moves between devices",
        right,
        {name.replace("_", "-"): value for name, value in mistakes.items()},
        words=KINDS,
    )


INDEXED: Final[dict[str, Any]] = {
    "not_free": "nothing", "no_gather": "all-gather", "one_receiver": "collective-permute",
}  # fmt: skip
AVERAGED: Final = {"copies_unknown": "nothing", "no_gather": "all-gather"}
READ: Final[dict[str, Any]] = {
    "by_the_host": Mistake("all-reduce", "all-gather", "collective-permute")
}

UNREPLICATE: Final = Exercise(
    id="7.6",
    title="One replica of eight",
    afterwards="A checkpoint needs none of this: libraries such as Orbax write sharded arrays "
    "directly, one replica of each block.",
    requirements=(
        _moves("stacked[0]", "all-reduce", **INDEXED),
        _moves("stacked.addressable_data(0)[0]", "nothing", **READ),
        _moves("np.asarray(stacked)[0]", "nothing", **READ),
        _moves("jax.tree.map(lambda p: p[0], {'w': stacked})", "all-reduce", **INDEXED),
        _moves("stacked.mean(0)", "all-reduce", **AVERAGED),
        PlacedLike("fetched", "0", ((6,),), values=lambda: np.arange(6, dtype=np.float32)),
        Computes(
            "mean_loss",
            "mean_loss(w, X, y) must be the mean loss over all examples, one number.",
            _loss,
            tuple(_data(*each) for each in EXAMPLES),
            {
                "sum-of-means": Mistake(
                    lambda w, X, y: np.float32(DEVICES[len(y)]) * _loss(w, X, y),
                    says="The loss is too large by the number of devices: their means are added "
                    "up.",
                ),
                "own-examples": Mistake(
                    _own_loss, says="This is the loss of the first device's examples only."
                ),
                "averaged-too-early": Mistake(
                    _of_mean_residuals,
                    lambda w, X, y: np.mean(X @ w - y) ** 2,
                    says="The residuals are averaged before they are squared. Average their "
                    "squares.",
                ),
                "sum-of-squares": Mistake(
                    lambda w, X, y: np.float32(len(y)) * _loss(w, X, y),
                    says="This is the sum of the squares of all examples. The loss is their mean.",
                ),
                "mean-of-sums": Mistake(
                    lambda w, X, y: np.float32(len(y) // DEVICES[len(y)]) * _loss(w, X, y),
                    says="Each device adds up the squares of its examples, and these sums are "
                    "averaged. Each device should take a mean, as loss does.",
                ),
                "not-squared": Mistake(
                    lambda w, X, y: np.mean(X @ w - y),
                    lambda w, X, y: np.mean(np.abs(X @ w - y)),
                    says="This is the mean of the residuals, or of their absolute values. The loss "
                    "is the mean of their squares.",
                ),
                "stacked-losses": Mistake(
                    _stacked_losses,
                    says="There is one loss for each device, and each of them is right. "
                    "out_specs=P() returns it once, if the body returns one number.",
                ),
                "own-losses": Mistake(
                    lambda w, X, y: np.mean(
                        ((X @ w - y) ** 2).reshape(DEVICES[len(y)], -1), axis=1
                    ),
                    says="There is one loss for each device, of its own examples. Average them "
                    "over the devices; then out_specs can return one number for all.",
                ),
            },
            under_mesh=True,
        ),
        Requests("mean_loss", (((RequestedCollective("all-reduce", 1, ("x",), 4)),),) * 2),
        _placed("mean_loss", EVERYWHERE, (), ()),
    ),
    hints=(
        "An index is an operation like any other: it runs on all devices, and its result is on "
        "all of them. Can you read what is already there, without computing?",
        "addressable_data(0) is the block of the first device, as an array on that device. Its "
        "shape is (1, 6), so its row 0 is the replica.",
        "out_axes=None of pmap becomes out_specs=P(): the body returns one number that is the "
        "same on all devices, and there is no leading dimension to remove with an index.",
    ),
    diagnoses={
        "not-free": "stacked is one array over eight devices, and so is the result. The first row "
        "is on one device, and all eight need it.",
        "no-gather": "All devices need one row, or one sum, and not all rows. Which collective "
        "gives them just that? (For a row, the devices that do not have it can contribute zeros.)",
        "by-the-host": "The host reads from its own devices. No device sends anything to another.",
        "one-receiver": "In a permutation, each sender has one receiver. All eight devices need "
        "this row.",
        "copies-unknown": "You know that the eight replicas are equal, and JAX does not. It "
        "averages rows on eight devices.",
        "fetched: shape": "One replica is a vector of six numbers. A block of stacked has the "
        "shape (1, 6), and each index of an array removes one dimension.",
        "fetched: devices-extra": "The result of an index or a mean of stacked is on all devices. "
        "Is there one? Or does a device_put name all devices?",
        "fetched: values": "Is this one of the replicas, unchanged?",
        "not-replicated": "Each device has the loss of its own examples. How do you combine them "
        "into one number? (The result of all_gather counts as varying, although every device has "
        "the same. The result of pmean does not.)",
        "added-by-the-compiler": "The body's own all-reduce already combines the losses. Are they "
        "stacked after that, one for each device, and one of them indexed outside?",
        "one-too-many": "After one all-reduce, every device has the mean.",
    },
)


def _pair_sums(x: Any) -> Any:
    return np.repeat(x.reshape(-1, 2, x.shape[1]).sum(1), 2, axis=0)


def _by_halves(x: Any) -> Any:
    """Add rows that are half the array apart, as P(("y", "x")) does: a mistake."""
    return np.tile(x.reshape(2, -1, x.shape[1]).sum(0), (2, 1))


def _faded(x: Any, factor: float = 0.5) -> Any:
    """Return the last total, which is halved before each column is added."""
    total = np.zeros(len(x), x.dtype)
    for column in x.T:
        total = np.float32(factor) * total + column
    return total


TABLES: Final = ((8, 6), (4, 5))
"""For each case: the number of devices, with one row each, and of columns."""


SEVERAL: Final = ((8, 8, 6), (4, 12, 5))
"""For each case: the number of devices, of rows, and of columns."""


def _tables() -> tuple[tuple[Argument, ...], ...]:
    return tuple((_sharded((n, k), n),) for n, k in TABLES)


def _pairs() -> tuple[tuple[Argument, ...], ...]:
    """Return the tables on meshes whose axis y runs over a pair."""
    return tuple(
        (Argument((n, k), (("x", n // 2), ("y", 2)), (("x", "y"),), mode="auto"),)
        for n, k in TABLES
    )


CLINIC: Final = Exercise(
    id="7.7",
    title="The clinic",
    afterwards="Most of these repairs are one line. In a migration, the time goes into what "
    "raises no error: the gradient of 7.5, and the index of 7.6.",
    requirements=(
        Computes(
            "new_params",
            "new_params(p, g) must be p - 0.1 * g.",
            lambda p, g: p - RATE * g,
            tuple((_sharded((n, k), n), _sharded((n, k), n)) for n, k in TABLES),
            {
                "uphill": Mistake(
                    lambda p, g: p + RATE * g, says="The step is added. Subtract it."
                ),
                "rate-forgotten": Mistake(
                    lambda p, g: p - g, says="The complete g is subtracted. Where is the rate, 0.1?"
                ),
                "gradients-averaged": Mistake(
                    lambda p, g: p - RATE * g.mean(0),
                    lambda p, g: p - RATE * g.mean(1, keepdims=True),
                    says="The rows of g are averaged. Each element of p needs its own element of "
                    "g.",
                ),
                "rate-of-a-hundredth": Mistake(
                    lambda p, g: p - np.float32(0.01) * g,
                    says="A hundredth of g is subtracted. The rate is 0.1.",
                ),
                "all-times-the-rate": Mistake(
                    lambda p, g: RATE * (p - g),
                    says="p is multiplied by the rate, too. Only g should be.",
                ),
            },
            under_mesh=True,
        ),
        CommunicatesAtMost("new_params", ((), ())),
        _placed("new_params", ROWS, *TABLES),
        PlacedLike("copies", EVERYWHERE[0], ((6,),), values=lambda: np.arange(6, dtype=np.float32)),
        Computes(
            "row_sums",
            "row_sums(x) must be x.sum(1).",
            lambda x: x.sum(1),
            _tables(),
            {
                "largest-for-sum": Mistake(
                    lambda x: x.max(1),
                    says="These are the maxima of the rows. Expected: their sums.",
                ),
                "first-number": Mistake(
                    lambda x: x[:, 0],
                    says="This is the first number of each row. Add up all numbers of the row.",
                ),
                "summed-over-devices": Mistake(
                    lambda x: x.sum(),
                    lambda x: x.sum(keepdims=True).ravel(),
                    lambda x: np.full(len(x), x.sum()),
                    says="This is the sum of all numbers on all devices. Expected: one sum for "
                    "each row. Each device has its complete row.",
                ),
            },
            under_mesh=True,
        ),
        _no_collectives("row_sums"),
        _placed("row_sums", STRIPS, *((n,) for n, _ in TABLES)),
        Computes(
            "centred",
            "centred(x) must be x minus the mean of its rows.",
            lambda x: x - x.mean(0),
            _tables(),
            {
                "own-mean": Mistake(
                    lambda x: x - x.mean(1, keepdims=True),
                    says="Each row is centred on its own mean. Subtract the mean of all rows.",
                ),
                "turned": Mistake(
                    lambda x: x.mean(0) - x,
                    says="The sign is wrong: the rows are subtracted from their mean.",
                ),
                "mean-of-another-size": Mistake(
                    lambda x: x - 2 * x.mean(0),
                    lambda x: x - x.mean(0) / np.float32(len(x)),
                    says="A multiple or a fraction of the mean is subtracted. Expected: the mean.",
                ),
                "sum-for-mean": Mistake(
                    lambda x: x - x.sum(0),
                    says="The sum of all rows is subtracted. It should be their mean.",
                ),
                "mean-of-all": Mistake(
                    lambda x: x - x.mean(),
                    says="The mean of all elements is subtracted. It should be the mean of the "
                    "rows, position by position.",
                ),
                "own-row": Mistake(
                    lambda x: np.zeros_like(x),
                    says="Everything is zero: each row is centred on itself. Take the mean over "
                    "the rows of all devices.",
                ),
                "mean-alone": Mistake(
                    lambda x: np.broadcast_to(x.mean(0), x.shape),
                    says="This is the mean of the rows, on every device. Subtract it from the "
                    "device's own row.",
                ),
                "normalised-too": Mistake(
                    lambda x: (x - x.mean(0)) / x.std(0),
                    lambda x: (x - x.mean(0)) / np.sqrt((x * x).mean(0)),
                    lambda x: (x - x.mean(0)) / x.std(1, keepdims=True),
                    says="The rows are also divided by something. Only subtract the mean.",
                ),
            },
            under_mesh=True,
        ),
        Requests(
            "centred",
            tuple((RequestedCollective("all-reduce", 1, ("x",), 4 * k),) for _, k in TABLES),
        ),
        Computes(
            "pair_sums",
            "pair_sums(x) must return, in each device's row, the sum of its pair's rows.",
            _pair_sums,
            _pairs(),
            {
                "all-summed": Mistake(
                    lambda x: np.broadcast_to(x.sum(0), x.shape),
                    says="Every device has the sum of all rows. Which mesh axis runs over one pair "
                    "only?",
                ),
                "doubled": Mistake(
                    lambda x: 2 * x,
                    says="Every row is doubled: each device adds its own row instead of its "
                    "partner's. If the rows are sharded over P('x') only, both devices of a pair "
                    "have the same rows. They are sharded over both axes, P(('x', 'y')).",
                ),
                "not-summed": Mistake(
                    lambda x: x, says="These are the original rows: nothing was added up."
                ),
                "partner-alone": Mistake(
                    lambda x: x.reshape(-1, 2, x.shape[1])[:, ::-1].reshape(x.shape),
                    says="Each device has the row of the other device of its pair. Add its own.",
                ),
                "other-order": Mistake(
                    _by_halves,
                    says="The added rows are half the array apart. P(('y', 'x')) distributes the "
                    "rows in another order, in which neighbours along y do not hold neighbouring "
                    "rows.",
                ),
                "other-groups": Mistake(
                    lambda x: (
                        np.concatenate(
                            [
                                np.broadcast_to(part.sum(0), part.shape)
                                for part in x.reshape(-1, 2, x.shape[1]).swapaxes(0, 1)
                            ]
                        )
                        .reshape(2, -1, x.shape[1])
                        .swapaxes(0, 1)
                        .reshape(x.shape)
                    ),
                    says="These are the sums over the devices along x. A pair is along y.",
                ),
            },
            under_mesh=True,
        ),
        Requests(
            "pair_sums",
            tuple((RequestedCollective("all-reduce", 1, ("y",), 4 * k),) for _, k in TABLES),
        ),
        Computes(
            "faded",
            "faded(x) must return, for each row, the last total = 0.5 * total + number.",
            _faded,
            tuple((_sharded((rows, k), n),) for n, rows, k in SEVERAL),
            {
                "backward": Mistake(
                    lambda x: _faded(x[:, ::-1]),
                    says="The numbers are used from the last to the first. It should be from the "
                    "first to the last.",
                ),
                "first-left-out": Mistake(
                    lambda x: _faded(x[:, 1:]), says="The first number of each row is left out."
                ),
                "first-twice": Mistake(
                    lambda x: _faded(np.concatenate([x[:, :1], x], axis=1)),
                    says="The first number of each row counts twice: the total begins with it, and "
                    "the first step adds it again.",
                ),
                "last-left-out": Mistake(
                    lambda x: _faded(x[:, :-1]), says="The last number of each row is left out."
                ),
                "number-halved": Mistake(
                    lambda x: x.sum(1) * np.float32(0.5),
                    says="The new number is halved. Halve the total instead.",
                ),
                "first-row-of-each": Mistake(
                    lambda x: _faded(x[:: {rows: rows // n for n, rows, _ in SEVERAL}[len(x)]]),
                    says="A device returns the total of its first row only, and it may have "
                    "several rows.",
                ),
                "total-doubled": Mistake(
                    lambda x: _faded(x, 2), says="The total is doubled. Expected: halved."
                ),
                "last-number-alone": Mistake(
                    lambda x: x[:, -1],
                    says="This is the last number of each row. Add it to half of the total so far.",
                ),
                "never-halved": Mistake(
                    lambda x: x.sum(1), says="The numbers are added up, and nothing is halved."
                ),
                "halved-too-late": Mistake(
                    lambda x: np.float32(0.5) * _faded(x),
                    says="The new number is halved together with the total. Halve the total first, "
                    "then add the number.",
                ),
            },
            under_mesh=True,
        ),
        _no_collectives("faded"),
        _placed("faded", STRIPS, *((rows,) for _, rows, _ in SEVERAL)),
    ),
    hints=(
        "The cell above calls each of the six and prints the beginning of JAX's message. Two "
        "errors have no message: look there for a name, or an argument, that only pmap had. The "
        "cheat sheet has most of the others.",
        "If a name is gone, its docstring or What moved names the replacement. If a body is "
        "refused: which rank does it return, which axis does it name, which type does the carry "
        "have?",
        "In the order of the list: the module for trees; a spec that names no axis; a sum that "
        "keeps a dimension; the mesh's own name; the axis of the pairs; zeros cast to varying.",
    ),
    diagnoses={
        "copies: shape": "Expected: one array of six numbers, replicated on every device. "
        "(device_put_replicated stacked the replicas, because pmap needs a dimension to map. "
        "shard_map and jit do not.)",
        "devices-unused": "Every device must have a replica. Does the mesh have all eight?",
        "row_sums: rank": "The sum of a block's only row has no dimension left that P('x') could "
        "shard. Keep one.",
        "shape": "What does the body return for one block, and how do out_specs put the blocks "
        "together?",
        "row_sums: not-replicated": "Nothing has to be summed over the devices: each has its own "
        "row. Do out_specs say that the result is sharded?",
        "row_sums: shape": "Expected: one number for each row. How many does each device return, "
        "and in how many dimensions?",
        "unbound-axis": "Under pmap you chose the axis_name. In shard_map the mesh names its "
        "axes, and here the name is x. (JAX's own message is empty.)",
        "pair_sums: raised": "Is axis_index_groups still there? shard_map does not support it: a "
        "group is an axis of the mesh.",
        "varying-mismatch": "The carry of a loop keeps its type. This one starts as zeros, which "
        "are the same on all devices, and varies after one step. How do you declare zeros as "
        "varying?",
        "no-shard-map": "Repair the function and keep its shard_map.",
    },
)

STATEFUL: Final = ((8, 32, 6), (4, 24, 5))
"""For each case of 7.8: the number of devices, of examples, and of features."""

SHARES: Final = {examples: n for n, examples, _ in STATEFUL}
"""The number of devices in 7.8, by the number of examples."""

KEPT: Final = 0.75
"""The probability with which dropout keeps a number."""


def _own_key(seed: Any, i: int, n: int = 0) -> Any:
    return jax.random.fold_in(jax.random.key(seed), i)


def _masks(
    X: Any,
    seed: Any,
    key: Callable[[Any, int, int], Any] = _own_key,
    repeated: int | None = None,
    kept: float = KEPT,
) -> Any:
    """Draw what each device keeps of its examples, with a key of the seed, its index and n.

    Along a dimension that is repeated, the mask is the same: a mistake.
    """
    n = SHARES[len(X)]
    shape = [len(X) // n, X.shape[1]]
    drawn_shape = [1 if d == repeated else size for d, size in enumerate(shape)]
    drawn = [jax.random.bernoulli(key(seed, i, n), kept, drawn_shape) for i in range(n)]
    return np.concatenate([np.broadcast_to(each, shape) for each in drawn])


def _whole_mask(X: Any, seed: Any) -> Any:
    """Draw one mask for the whole batch: a mistake."""
    return np.asarray(jax.random.bernoulli(jax.random.key(seed), KEPT, X.shape))


def _own_means(X: Any) -> Any:
    """Return, for each example, the mean of its device's examples."""
    n = SHARES[len(X)]
    return np.repeat(X.reshape(n, -1, X.shape[1]).mean(1), len(X) // n, axis=0)


def _stateful(
    w: Any,
    mean: Any,
    X: Any,
    y: Any,
    seed: Any,
    masks: Callable[[Any, Any], Any] | None = _masks,
    centre: Callable[[Any, Any], Any] = lambda X, mean: X.mean(0),
    times: Callable[[int], float] = lambda n: 1,
    sums: bool = False,
    old: float = 0.9,
    mean_of: Callable[[Any], Any] = lambda X: X.mean(0),
    divisor: float = KEPT,
) -> tuple[Any, Any]:
    """Do a step of training with dropout and a running mean; options make mistakes.

    Args:
        w: the weights.
        mean: the running mean.
        X: the examples.
        y: their targets.
        seed: the seed of the step.
        masks: returns what is kept of the examples, given these and the seed; None: everything.
        centre: returns what is subtracted from the examples, given these and the running mean.
        times: returns a factor of the gradient, given the number of devices.
        sums: whether the batch's mean is a sum over the devices.
        old: the share of the old running mean in the new one.
        mean_of: returns the batch's mean.
        divisor: the number by which kept numbers are divided.
    """
    n = SHARES[len(X)]
    batch = mean_of(X) * (n if sums else 1)
    centred = X - (batch if sums else centre(X, mean))
    inputs = np.where(masks(X, seed), centred / np.float32(divisor), 0) if masks else centred
    gradient = np.float32(times(n)) * _gradient(w, inputs, y)
    new = np.float32(old) * mean + np.float32(1 - old) * batch
    return w - RATE * gradient, new


def _always(times: float) -> Callable[[int], float]:
    return lambda n: times


def _of_one_mean(w: Any, mean: Any, X: Any, y: Any, seed: Any) -> tuple[Any, Any]:
    """Use one mean for all features: a mistake."""
    of_all = np.full(X.shape[1], X.mean(), X.dtype)
    return _stateful(w, mean, X, y, seed, centre=lambda *_: of_all, mean_of=lambda _: of_all)


def _dropped_first(
    w: Any,
    mean: Any,
    X: Any,
    y: Any,
    seed: Any,
    of_dropped: bool,
) -> tuple[Any, Any]:
    """Drop numbers before the mean is subtracted, the mean of what is left or of X: a mistake."""
    dropped = np.where(_masks(X, seed), X / np.float32(KEPT), 0)
    source = dropped if of_dropped else X
    new_w, _ = _stateful(w, mean, dropped, y, seed, masks=None, centre=lambda *_: source.mean(0))
    _, new_mean = _stateful(w, mean, source, y, seed)
    return new_w, new_mean


def _arguments_with_state(n: int, examples: int, features: int) -> tuple[Argument, ...]:
    return (
        _replicated((features,), n),
        _replicated((features,), n),
        _sharded((examples, features), n, shift=1.0),
        _sharded((examples,), n),
        _replicated((), n, dtype="uint32", scale=2.0**31),
    )


STATE: Final = Exercise(
    id="7.8",
    title="A step that keeps its state",
    afterwards="Real trainers have more state, such as an optimizer's moments, and donate all of "
    "it: otherwise each step needs memory for two states at once.",
    requirements=(
        Computes(
            "train_step",
            "train_step(w, mean, X, y, seed) must return the new w and the new mean, with device "
            "i's own dropout mask.",
            _stateful,
            tuple(_arguments_with_state(*each) for each in STATEFUL),
            {
                "same-mask": Mistake(
                    *(
                        partial(_stateful, masks=partial(_masks, key=key))
                        for key in (
                            lambda seed, i, n: jax.random.key(seed),
                            lambda seed, i, n: _own_key(seed, n),
                            lambda seed, i, n: _own_key(seed, 0),
                        )
                    ),
                    says="All devices drop the same numbers of their blocks, because they use the "
                    "same key. Expected on device i: jax.random.fold_in(jax.random.key(seed), i).",
                ),
                "another-key": Mistake(
                    *(
                        partial(_stateful, masks=partial(_masks, key=key))
                        for key in (
                            lambda seed, i, n: jax.random.key(seed + np.uint32(i)),
                            lambda seed, i, n: _own_key(seed, i + 1),
                            lambda seed, i, n: _own_key(i, seed),
                        )
                    ),
                    says="The devices have different masks, but from other keys. Expected on "
                    "device i: jax.random.fold_in(jax.random.key(seed), i).",
                ),
                "one-mask-for-all-rows": Mistake(
                    partial(_stateful, masks=partial(_masks, repeated=0)),
                    says="A device's mask has one row here, for all of its examples. Expected: "
                    "each number of its block is dropped, or not, by itself.",
                ),
                "one-mask-for-all": Mistake(
                    partial(_stateful, masks=_whole_mask),
                    says="This is one mask for the whole batch. Each device should draw the mask "
                    "of its own block, from its own key.",
                ),
                "three-quarters-dropped": Mistake(
                    partial(_stateful, masks=partial(_masks, kept=0.25), divisor=0.25),
                    partial(_stateful, masks=partial(_masks, kept=0.25)),
                    says="Three quarters of the numbers are dropped here, and a quarter is kept. "
                    "Expected: the other way round.",
                ),
                "no-dropout": Mistake(partial(_stateful, masks=None), says="Nothing is dropped."),
                "own-mean": Mistake(
                    partial(_stateful, centre=lambda X, mean: _own_means(X)),
                    says="The new mean is right, but each device subtracts the mean of its own "
                    "examples. Expected: the mean over the whole batch.",
                ),
                "running-mean-subtracted": Mistake(
                    partial(_stateful, centre=lambda X, mean: mean),
                    says="The running mean is subtracted from the examples. In training, it is the "
                    "mean of this batch.",
                ),
                "new-mean-subtracted": Mistake(
                    partial(
                        _stateful,
                        centre=lambda X, mean: np.float32(0.9) * mean + np.float32(0.1) * X.mean(0),
                    ),
                    says="The new running mean is subtracted from the examples. In training, it is "
                    "the mean of this batch.",
                ),
                "not-centred": Mistake(
                    partial(_stateful, centre=lambda X, mean: 0),
                    says="The mean of the batch is not subtracted from the examples.",
                ),
                "dropped-first": Mistake(
                    *(
                        partial(_dropped_first, of_dropped=of_dropped)
                        for of_dropped in (True, False)
                    ),
                    says="The mean is subtracted after dropout, so numbers that are dropped become "
                    "the mean with a minus sign. Subtract it first, so that they become zero.",
                ),
                "sum-for-mean": Mistake(
                    partial(_stateful, sums=True),
                    says="The devices' means are added up. Expected: their mean.",
                ),
                "shares-exchanged": Mistake(
                    partial(_stateful, old=0.1),
                    says="The new mean has a tenth of the old one, and nine tenths of the batch's. "
                    "Expected: the other way round.",
                ),
                "one-mean-alone": Mistake(
                    *(partial(_stateful, old=old) for old in (0.0, 1.0)),
                    says="The new mean is the batch's mean alone, or the old mean as it was. "
                    "Expected: 0.9 times the old one, and 0.1 times the batch's.",
                ),
                "as-many-times": Mistake(
                    partial(_stateful, times=lambda n: n),
                    says="The gradient is too large by the number of devices. Is a sum taken where "
                    "a mean is needed? Or is the mean taken after grad, of the gradient with "
                    "respect to a shared w, which is already summed (7.5)?",
                ),
                "divided-twice": Mistake(
                    partial(_stateful, times=lambda n: 1 / n),
                    says="The gradient is too small by the number of devices. Is it averaged and "
                    "also divided by their number?",
                ),
                "uphill": Mistake(
                    partial(_stateful, times=lambda n: -1),
                    says="The gradient is added. A step goes against it.",
                ),
                "other-rate": Mistake(
                    *(partial(_stateful, times=_always(times)) for times in (10, 0.1, 0.01)),
                    says="The gradient is multiplied by another rate than 0.1.",
                ),
                "half": Mistake(
                    partial(_stateful, times=_always(0.5)),
                    says="The gradient is half as large as it should be.",
                ),
                "scaled-twice": Mistake(
                    partial(_stateful, divisor=KEPT**2),
                    says="The numbers that dropout keeps are divided by 0.75 twice: dropout itself "
                    "does it already.",
                ),
                "not-scaled": Mistake(
                    partial(_stateful, divisor=1),
                    says="The numbers that dropout keeps are not divided by 0.75, the share that "
                    "is kept.",
                ),
                "one-mean-for-all": Mistake(
                    _of_one_mean, says="This is one mean for all features. Expected: one for each."
                ),
            },
            under_mesh=True,
            results=("w", "mean"),
        ),
        KeepsLayouts("train_step", "a new w and a new mean, replicated as the old ones are"),
        Requests(
            "train_step",
            tuple(
                (RequestedCollective("all-reduce", 2, ("x",), 4 * features),)
                for *_, features in STATEFUL
            ),
        ),
        Donates("train_step", 2, "a jitted function that donates w and mean, and nothing else"),
    ),
    hints=(
        "Begin with the body of old_step. What is different in a shard_map: the first dimension "
        "of w, the keys, and the gradient of a value that all devices share?",
        "The mean of the batch is a pmean over 'x' of the block's means. The key of a device is "
        "`jax.random.fold_in(jax.random.key(seed), lax.axis_index('x'))`. The pmean of the loss "
        "belongs inside grad (7.5).",
        "Put `@partial(jax.jit, donate_argnums=(0, 1))` above train_step, and the shard_map in "
        "it, with in_specs (P(), P(), P('x'), P('x'), P()) and out_specs (P(), P()).",
    ),
    diagnoses={
        "not-donated": "Is train_step itself the result of jax.jit, with donate_argnums? "
        "(A jit in a function does not donate the arguments of that function, and none donates an "
        "argument that it does not use.)",
        "donates-too-much": "The examples are used again in the next epoch, and the seed costs "
        "nothing.",
        "not-replicated": "A statistic of a device's own share differs from device to device. "
        "What makes it the mean over the whole batch?",
        "no all-reduce": "Two values are combined over the devices: the mean of the batch, and the "
        "gradient. Does each device work on its own examples alone, or on those of all devices?",
        "too-seldom": "There is one all-reduce for the statistics, and one for the gradient. Does "
        "each device keep statistics of its own examples? Or is one of the two computed outside of "
        "the shard_map, where the compiler adds its all-reduce?",
        "one-too-many": "Two all-reduces are enough: one for the statistics, and one for the "
        "gradient, which grad adds up by itself.",
        "no-shard-map": "Without a shard_map there are no devices to draw masks of their own.",
        "other-mesh": "Is there a pmap in it?",
        "static-argument": "With a static seed, each new seed would compile the step again.",
    },
    about=(Requests, Donates),
    together=True,
)

EXERCISES: Final = (CONVOLVE, NORMALISE, NEST, REGRESSION, TRAP, UNREPLICATE, CLINIC, STATE)
