"""Notebook 07: from pmap to shard_map.

A note for maintainers: a function that `jax.pmap` has mapped cannot be exported for a judge, so
what is judged is its twin, and the notebook runs the old program beside it. That a twin costs no
more than what it replaces is held by `tests/test_pmap.py`, with what the notebook says of `pmap`.
Twins are judged under two meshes, of eight and of four devices, with blocks of different sizes.
"""

from typing import Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np

from autograder.judge import (
    AnyOf,
    Budget,
    CommunicatesAtMost,
    Computes,
    Exercise,
    PlacedLike,
    Predicts,
    RequestedCollective,
    Requests,
    RunsWithinBudgets,
)
from autograder.programs import Argument

SIZES: Final = (8, 4)
"""The sizes of the meshes that a function is judged on."""

STRIPS: Final = ("0 1 2 3 4 5 6 7", "0 1 2 3")
ROWS: Final = ("0\n1\n2\n3\n4\n5\n6\n7", "0\n1\n2\n3")
EVERYWHERE: Final = ("0,1,2,3,4,5,6,7", "0,1,2,3")


def _cut(shape: tuple[int, ...], n: int, **more: Any) -> Argument:
    """An argument cut along x in dimension 0, over n devices."""
    return Argument(shape, (("x", n),), ("x",), mode="auto", **more)


def _whole(shape: tuple[int, ...], n: int, **more: Any) -> Argument:
    """An argument of which each of n devices has a copy."""
    return Argument(shape, (("x", n),), (), mode="auto", **more)


def _placed(answer: str, pictures: tuple[str, str], *shapes: tuple[int, ...]) -> PlacedLike:
    return PlacedLike(answer, pictures[0], shapes, elsewhere=pictures[1:])


def _nothing(answer: str) -> Requests:
    """Written with shard_map, and no collective in it."""
    return Requests(answer, ((), ()))


def _convolved(x: Any, w: Any) -> Any:
    return np.stack([np.convolve(row, w, mode="valid") for row in x])


def _correlated(x: Any, w: Any) -> Any:
    return _convolved(x, w[::-1])


def _padded(x: Any, w: Any, mode: Literal["same", "full"]) -> Any:
    return np.stack([np.convolve(row, w, mode=mode) for row in x])


def _run_together(x: Any, w: Any) -> Any:
    """With the rows of a device convolved as if they were one."""
    devices = next(n for n, rows in ROWS_EACH.items() if n * rows == len(x))
    return _convolved(x.reshape(devices, -1), w)


def _run_together_and_cut(x: Any, w: Any) -> Any:
    """The same, cut into as many rows again, where that can be done."""
    together = _run_together(x, w)
    return together.reshape(len(x), -1) if together.size % len(x) == 0 else together


def _first_rows(x: Any, w: Any) -> Any:
    """With the first row of each device in place of all its rows."""
    devices = next(n for n, rows in ROWS_EACH.items() if n * rows == len(x))
    rows = len(x) // devices
    return np.repeat(_convolved(x[::rows], w), rows, axis=0)


def _first_row_alone(x: Any, w: Any) -> Any:
    """With the first row of each device, and none of the others."""
    devices = next(n for n, rows in ROWS_EACH.items() if n * rows == len(x))
    return _convolved(x[:: len(x) // devices], w)


CONVOLVED_MISTAKES: Final[dict[str, Any]] = {
    "not-turned": _correlated,
    "same-mode": lambda x, w: _padded(x, w, "same"),
    "full-mode": lambda x, w: _padded(x, w, "full"),
}


SIGNALS: Final = ((8, 12, 3), (4, 9, 4))
"""The devices, how long a row is, and how long the window."""

ROWS_EACH: Final = {8: 2, 4: 3}
"""How many rows a device has, where it has several."""

CONVOLVE: Final = Exercise(
    id="7.1",
    title="The twin of a pmap",
    afterwards="pmap itself is made like this today. It is a shard_map over a mesh of its own, "
    "which takes the mapped dimension off each block and puts it back onto each result.",
    requirements=(
        Computes(
            "convolved",
            "convolved(x, w) must return each row of x, convolved with w.",
            _convolved,
            tuple((_cut((n, size), n), _whole((k,), n)) for n, size, k in SIGNALS),
            {
                **CONVOLVED_MISTAKES,
                "row-as-a-vector": lambda x, w: np.ravel(_convolved(x, w)),
                "rows-added": AnyOf(
                    (
                        lambda x, w: _convolved(x, w).sum(0, keepdims=True),
                        lambda x, w: _convolved(x, w).sum(0),
                    )
                ),
            },
            under_mesh=True,
        ),
        _nothing("convolved"),
        _placed("convolved", ROWS, *((n, size - k + 1) for n, size, k in SIGNALS)),
        Computes(
            "convolved_many",
            "convolved_many(x, w) must return each row of x, convolved with w.",
            _convolved,
            tuple((_cut((ROWS_EACH[n] * n, size), n), _whole((k,), n)) for n, size, k in SIGNALS),
            {
                **CONVOLVED_MISTAKES,
                "run-together": AnyOf(
                    (
                        _run_together,
                        lambda x, w: np.ravel(_run_together(x, w)),
                        _run_together_and_cut,
                    )
                ),
                "first-rows": _first_rows,
                "first-row-alone": _first_row_alone,
            },
            under_mesh=True,
        ),
        _nothing("convolved_many"),
        _placed(
            "convolved_many", ROWS, *((ROWS_EACH[n] * n, size - k + 1) for n, size, k in SIGNALS)
        ),
    ),
    hints=(
        "in_axes becomes in_specs: 0 is P('x'), which cuts dimension 0, and None is P(), which "
        "cuts nothing. out_axes is 0 unless you say otherwise, so out_specs is P('x').",
        "pmap gives the function a row. In shard_map the body has a block, of shape (1, …): "
        "mine[0] is the row, and [None] gives the result its dimension back.",
        "For several rows on a device, the block has shape (rows, …), and jax.vmap maps the "
        "function over these: vmap within a device, shard_map over the devices.",
    ),
    diagnoses={
        "rows-added": "The rows of all devices are added up. Each stays where it is: nothing is to "
        "be reduced.",
        "does-not-divide": "in_axes=(0, None) gave each device a row of x, and all of them the "
        "same w. Do in_specs say so of both?",
        "convolved_many: raised": "Does JAX speak of 1-dimensional inputs, or of inconsistent "
        "sizes? The body has a block of several rows and one window. jax.vmap maps the rows, and "
        "its in_axes has to say that the window is the same for all of them.",
        "raised": "Does JAX speak of 1-dimensional inputs? pmap gave the function a row. The body "
        "has a block of rows, of shape (1, 12) in the notebook's case: take its row. Or of "
        "inconsistent sizes? vmap maps all of its arguments, w too, unless in_axes says otherwise.",
        "row-as-a-vector": "Each device returns its row as a vector, and out_specs joins the "
        "vectors end to end. pmap gave each result its mapped dimension back; here the body has "
        "to do it.",
        "shape": "The body is given a block of rows, and returns a block of rows: pmap took the "
        "mapped dimension away and put it back, and here nobody does. Which of the two shapes' "
        "numbers differ? If there are too few rows, or too few dimensions, look at what the body "
        "returns for one block; if the rows are too long or too short, at what it convolves.",
        "same-mode": 'These are as long as the rows were. mode="valid" leaves out the places where '
        "the window reaches over an end; convolve, above, has it.",
        "full-mode": 'These are longer than the rows were. mode="valid" leaves out the places '
        "where the window reaches over an end; convolve, above, has it.",
        "does-not-reshape": "Are the rows of a block joined to one long row? Each is to be "
        "convolved by itself, and comes out shorter than it was.",
        "run-together": "The rows of each device were convolved as a single long row. Each is to "
        "be convolved by itself.",
        "first-rows": "Each device gives the result of its first row for all of its rows.",
        "first-row-alone": "Only the first row of each device's block is convolved, and a block "
        "has several rows here.",
        "not-replicated": "Here nothing is to be summed, since each device has rows of its own "
        "to return. Does out_specs say that they are cut along x?",
        "not-turned": "These are the sums of a window as it stands. A convolution turns it round; "
        "jnp.convolve does so.",
        "added-by-the-compiler": "in_axes=(0, None) cuts x and copies w. Do in_specs say the same?",
        "no-shard-map": "vmap alone has no word on devices. Map over the devices with shard_map.",
        "other-mesh": "Is there a pmap in it? Each pmap makes a mesh of its own.",
    },
)


def _normalised(x: Any, w: Any) -> Any:
    y = _convolved(x, w)
    return y / y.sum(0)


POSITIVE: Final = {"shift": 6.0}
"""Sums of these are far from zero, by which is divided."""


def _signals(n: int, size: int, k: int) -> tuple[Argument, ...]:
    """Rows and a window whose sums are far from zero: positive on eight devices, negative on four.

    Where all are positive, the sum of the absolute values would be right, too.
    """
    of_one_sign = POSITIVE if n == 8 else {**POSITIVE, "shift": -POSITIVE["shift"]}
    return _cut((n, size), n, **of_one_sign), _whole((k,), n, **POSITIVE)


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
    "sum-of-sizes": lambda x, w: (lambda y: y / np.abs(y).sum(0))(_convolved(x, w)),
    "times-the-reciprocals": lambda x, w: (lambda y: y * (1 / y).sum(0))(_convolved(x, w)),
    "divided-before": lambda x, w: _convolved(x / x.sum(0), w),
}

NORMALISE: Final = Exercise(
    id="7.2",
    title="One name, three maps",
    afterwards="A function that says psum over a name can be tried on one device, under vmap, and "
    "run on many, under shard_map, without a change. That is how one tests such code.",
    weights={"normalised": 3, "by_vmap": 1},
    requirements=(
        Computes(
            "normalised",
            "normalised(x, w) must convolve each row, and divide it, position by position, by the "
            "sum of all convolved rows.",
            _normalised,
            tuple(_signals(*each) for each in SIGNALS),
            {**NORMALISED_MISTAKES, "row-as-a-vector": lambda x, w: np.ravel(_normalised(x, w))},
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
            "by_vmap(x, w) must give the same, with vmap in place of shard_map.",
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
        "The function of one row stays as it is, psum and all. Only who maps it changes, and so "
        "who gives the axis its name.",
        "Under pmap and vmap, axis_name= gives the name. Under shard_map it is the mesh that has "
        "names, and here its axis is called x.",
        "Write a function of one row, with a psum over 'x'. vmap takes it as it is, with in_axes "
        "and axis_name. For shard_map, a body takes the row out of its block and calls it.",
    ),
    diagnoses={
        "sum-of-sizes": "The rows are divided by the sum of their absolute values; expected by "
        "their sum.",
        "times-the-reciprocals": "The rows are multiplied by the sum of the reciprocals, which is "
        "not the same as divided by the sum.",
        "over-positions": "Each row adds up to one by itself: the sum was taken over the positions "
        "of a row. psum adds up over devices, position by position, if you leave y as it is.",
        "over-everything": "All numbers together add up to one. The sum is to be taken over the "
        "devices alone, position by position.",
        "mean-for-sum": "It is as many times too large as there are rows: is a mean taken where "
        "the sum is needed?",
        "maximum-for-sum": "These rows are divided by the largest of all rows at each position. It "
        "should be their sum.",
        "roots-of-squares": "These rows are divided by the root of a sum of squares. It should be "
        "the sum of the rows themselves.",
        "not-divided": "These are the convolved rows themselves, divided by nothing.",
        "by-itself": "All numbers are 1: each row is divided by itself. Does the sum run over the "
        "body's block alone? That has only this device's row. Which function adds up what the "
        "other devices have?",
        "sum-alone": "That is the sum of all rows, on every device. Each device's own row is to be "
        "divided by it.",
        "upside-down": "That is upside down: the sum is divided by the row.",
        "multiplied": "Each row is multiplied by the sum of all rows. It should be divided.",
        "divided-before": "The rows are divided before they are convolved. It should be the "
        "convolved rows that are added up and divided.",
        "does-not-divide": "in_axes=(0, None) gave each device a row of x, and all of them the "
        "same w. Do in_specs say so of both?",
        "by_vmap: all-reduce by hand": "Is there a shard_map in it? vmap is to take its place: "
        "then the psum only names vmap's axis, and it is the compiler that adds the all-reduce.",
        "by_vmap: raised": "Does JAX speak of inconsistent sizes? vmap maps all of its arguments "
        "unless in_axes says otherwise, and w is the same for all rows.",
        "by_vmap: collective-permute": "Are the rows taken one by one, as by a Python loop over x? "
        "Each is on another device. vmap maps all rows at once, and each stays where it is.",
        "by_vmap: replicated": "Where rows are taken one by one and stacked again, they may no "
        "longer lie where they were. vmap leaves each on its device.",
        "unbound-axis": "axis_name='p' was how pmap was told the name. A shard_map takes the names "
        "of its mesh, and vmap takes axis_name=. Is the name in psum the same as there?",
        "added-by-the-compiler": "The compiler should have nothing to move. Is x cut, and w whole, "
        "in in_specs?",
        "sends-too-much": "What is added up has one number for each position of the convolved row.",
        "row-as-a-vector": "Each device returns its row as a vector, and out_specs joins the "
        "vectors end to end. pmap gave each result its mapped dimension back; here the body has "
        "to do it.",
        "normalised: not-replicated": "The rows differ from device to device, after the division "
        "too: only the sum is the same for all. Does out_specs say that the result is sharded?",
    },
)


def _nested(a: Any, mean: tuple[int, ...] = (1,), total: tuple[int, ...] = (0, 1, 2)) -> Any:
    """What the nested program gives, with the dimensions that it takes the mean and the sum of."""
    return (a - a.mean(mean, keepdims=True)) / np.sqrt((a * a).sum(total, keepdims=True))


def _nested_but(a: Any, numbers: str = "", length: str = "") -> Any:
    """The same with one step of it done otherwise: to the numbers, or for their length."""
    if numbers == "as they came":
        return a / np.sqrt((a * a).sum())
    numbers_came = a - (a.sum if numbers == "summed" else a.mean)(1, keepdims=True)
    if numbers == "mean of all of y":
        numbers_came = a - a.mean((1, 2), keepdims=True)
    if length == "of the numbers alone":
        return a / np.sqrt((a * a).sum()) - a.mean(1, keepdims=True)
    if length == "of the sum":
        return numbers_came / np.abs(a.sum())
    if length == "of sizes":
        return numbers_came / np.abs(a).sum()
    if length == "of the mean alone":
        return a - a.mean(1, keepdims=True) / np.sqrt((a * a).sum())
    if length == "none":
        return numbers_came
    if length == "without its root":
        return numbers_came / (a * a).sum()
    if length == "multiplied":
        return numbers_came * np.sqrt((a * a).sum())
    if length == "mean of the devices":
        return numbers_came / np.sqrt((a * a).sum(2).mean())
    if length == "means of the devices":
        return numbers_came / np.sqrt((a * a).mean(2).sum())
    if length == "by eight":
        return numbers_came / np.sqrt((a * a).sum() / 8)
    if length == "mean of all":
        return numbers_came / np.sqrt((a * a).mean())
    if length == "position by position":
        return numbers_came / np.sqrt((a * a).sum((0, 1)))
    if length == "without squares":
        return numbers_came / a.sum()
    if length == "of roots":
        return numbers_came / np.sqrt((a * a).sum(2)).sum()
    squares = (numbers_came if length == "of the centred" else a) ** 2
    return numbers_came / np.sqrt(squares.sum())


GRIDS: Final = ((4, 2, 6), (2, 2, 5))
"""The devices along x and along y, and how many numbers each has."""


def _on_grid(rows: int, columns: int, length: int) -> tuple[Argument, ...]:
    axes = (("x", rows), ("y", columns))
    return (Argument((rows, columns, length), axes, ("x", "y"), mode="auto"),)


NEST: Final = Exercise(
    id="7.3",
    title="pmap in pmap",
    afterwards="A mesh may have as many axes as you like: what used to be nested maps, each with a "
    "name, is one map over a mesh with all of the names.",
    requirements=(
        Computes(
            "unnested",
            "unnested(a) must give what the nested program was meant to give.",
            _nested,
            tuple(_on_grid(*each) for each in GRIDS),
            {
                "mean-over-x": lambda a: _nested(a, mean=(0,)),
                "mean-over-all": lambda a: _nested(a, mean=(0, 1)),
                "mean-of-own": lambda a: _nested(a, mean=(2,)),
                "sum-over-x": lambda a: _nested(a, total=(0, 2)),
                "sum-over-y": lambda a: _nested(a, total=(1, 2)),
                "own-sum": lambda a: _nested(a, total=(2,)),
                "sum-for-mean": lambda a: _nested_but(a, numbers="summed"),
                "length-of-centred": lambda a: _nested_but(a, length="of the centred"),
                "roots-summed": lambda a: _nested_but(a, length="of roots"),
                "no-length": lambda a: _nested_but(a, length="none"),
                "numbers-alone-divided": lambda a: _nested_but(a, length="of the numbers alone"),
                "sum-squared": lambda a: _nested_but(a, length="of the sum"),
                "sum-of-sizes": lambda a: _nested_but(a, length="of sizes"),
                "mean-alone-divided": lambda a: _nested_but(a, length="of the mean alone"),
                "root-forgotten": lambda a: _nested_but(a, length="without its root"),
                "multiplied": lambda a: _nested_but(a, length="multiplied"),
                "mean-of-squares": lambda a: _nested_but(a, length="mean of the devices"),
                "mean-of-all-squares": lambda a: _nested_but(a, length="mean of all"),
                "means-added": lambda a: _nested_but(a, length="means of the devices"),
                "divided-by-eight": lambda a: _nested_but(a, length="by eight"),
                "own-not-added": lambda a: _nested_but(a, length="position by position"),
                "not-squared": lambda a: _nested_but(a, length="without squares"),
                "mean-of-all-of-y": lambda a: _nested_but(a, numbers="mean of all of y"),
                "not-centred": lambda a: _nested_but(a, numbers="as they came"),
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
        "The two pmaps map two dimensions over two axes. Which spec cuts both dimensions at once?",
        "In the body there is a block of shape (1, 1, length). Collectives take the axes' names, "
        "one or several: lax.psum(s, ('x', 'y')).",
        "The mean is over y alone, and the sum of squares over both. Add the squares of your own "
        "numbers up before the psum, so that a single number goes over the wires.",
    ),
    diagnoses={
        "numbers-alone-divided": "The mean is taken away after the division; expected it before, "
        "so that the difference is divided.",
        "sum-squared": "The numbers are added up, and the sum is squared. It is the squares that "
        "are added up.",
        "sum-of-sizes": "The length is taken for the sum of the absolute values; it is the root of "
        "the sum of the squares.",
        "mean-alone-divided": "Only the mean is divided by the length; expected the difference to "
        "be divided.",
        "mean-over-x": "The mean is taken along x, and should be taken along y.",
        "mean-over-all": "The mean is taken over both axes. It is to be taken over y alone.",
        "mean-of-own": "The mean is taken over the numbers of one device. It should be taken over "
        "the devices along y, position by position.",
        "sum-over-x": "The squares are added up along x only; it should be over both axes.",
        "sum-over-y": "The squares are added up along y only; it should be over both axes.",
        "own-sum": "Each device divides by a sum of its own numbers. The squares of all devices "
        "should be added up.",
        "sum-for-mean": "From the numbers a sum over y is taken away, and it should be the mean.",
        "length-of-centred": "The numbers are divided by the length of what they are once centred. "
        "It should be the length of the numbers as they came: centre takes it first.",
        "roots-summed": "Each device takes the root of its own sum, and the roots are added up. "
        "The squares are to be added up over all devices, and the root is taken of that.",
        "no-length": "The numbers are centred, and divided by nothing.",
        "root-forgotten": "The numbers are divided by the sum of the squares. The length is the "
        "root of that.",
        "multiplied": "The numbers are multiplied by their length. They should be divided by it.",
        "mean-of-squares": "The squares of the devices are averaged, where they should be added "
        "up: is it a pmean in place of a psum?",
        "mean-of-all-squares": "The length is the root of a mean of all squares. It should be the "
        "root of their sum.",
        "means-added": "Under the root, each device takes the mean of its squares. It should be "
        "their sum, which the psum then adds to those of the others.",
        "divided-by-eight": "Under the root, the sum of the squares is divided by 8. The length is "
        "the root of the sum itself.",
        "own-not-added": "Each position has a length of its own here: the squares are added up "
        "over the devices, and those of one device not among themselves.",
        "not-squared": "The numbers are divided by their sum. The length is the root of the sum of "
        "their squares.",
        "mean-of-all-of-y": "The mean is taken over y and over the positions too. It should be a "
        "vector: a mean for each position.",
        "not-finite": "Is a root taken of a sum that can be negative? A sum of squares cannot.",
        "not-centred": "The numbers are divided by their length, and no mean is taken away.",
        "does-not-divide": "The first two dimensions of a are for the two axes of the mesh, one "
        "for each. Is that what the spec says?",
        "same-along-an-axis": "Do in_specs shard a over both axes?",
        "sends-too-much": "Of the squares, one number of each device is enough: add up your own "
        "before the psum.",
        "other-mesh": "Is there a pmap in it? Each pmap makes a mesh of its own.",
    },
)

RATE: Final = np.float32(0.1)
STEPS: Final = 10


def loss(w: Any, X: Any, y: Any) -> Any:  # noqa: N803
    """The mean squared error of a linear model."""
    return jnp.mean((X @ w - y) ** 2)


def descend(w: Any, X: Any, y: Any) -> Any:  # noqa: N803
    """One step of gradient descent."""
    return w - 0.1 * jax.grad(loss)(w, X, y)


def _gradient(w: Any, X: Any, y: Any) -> Any:  # noqa: N803
    return 2 * X.T @ (X @ w - y) / np.float32(len(y))


def _trained(w: Any, X: Any, y: Any, steps: int = STEPS, times: float = 1) -> Any:  # noqa: N803
    for _ in range(steps):
        w = w - np.float32(times) * RATE * _gradient(w, X, y)
    return w


EXAMPLES: Final = ((8, 64, 4), (4, 24, 6))
"""The devices, the examples, and the features."""

DEVICES: Final = {examples: n for n, examples, _ in EXAMPLES}
"""How many devices examples are cut over, by how many these are."""


def _data(n: int, examples: int, features: int) -> tuple[Argument, ...]:
    return (
        _whole((features,), n), _cut((examples, features), n), _cut((examples,), n),
    )  # fmt: skip


def _parameters(examples: tuple[int, int, int]) -> int:
    """The bytes of the parameters."""
    return 4 * examples[2]


FED: Final = ((64, 4), (128, 8))
"""The examples and features for which shardings are tried."""

REGRESSION: Final = Exercise(
    id="7.4",
    title="Three lines in place of pmap",
    afterwards="Ten steps are one program now. A lax.fori_loop has the step in it once, however "
    "often it runs; a loop in Python would have ten copies of it, and with a thousand steps you "
    "would wait for the compiler. Reporting the loss every so many steps is a second, outer loop.",
    about=(RunsWithinBudgets, CommunicatesAtMost),
    requirements=(
        RunsWithinBudgets(
            "layouts",
            "shardings (of w, of X, of y) for which each device holds, and works on, its own "
            "examples, and all that moves is the gradient",
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
                "one-step-less": lambda w, X, y: _trained(w, X, y, STEPS - 1),  # noqa: N803
                "one-step-more": lambda w, X, y: _trained(w, X, y, STEPS + 1),  # noqa: N803
                "mean-of-steps": AnyOf(
                    (
                        lambda w, X, y: np.mean(  # noqa: N803
                            [_trained(w, X, y, i + 1) for i in range(STEPS)], 0
                        ),
                        lambda w, X, y: np.mean(  # noqa: N803
                            [_trained(w, X, y, i) for i in range(STEPS)], 0
                        ),
                    )
                ),
                "one-step": lambda w, X, y: _trained(w, X, y, 1),  # noqa: N803
                "uphill": lambda w, X, y: _trained(w, X, y, times=-1),  # noqa: N803
                "as-many-times": lambda w, X, y: _trained(w, X, y, times=DEVICES[len(y)]),  # noqa: N803
                "rate-forgotten": lambda w, X, y: _trained(w, X, y, times=10),  # noqa: N803
                "sum-of-squares": lambda w, X, y: _trained(w, X, y, times=len(y)),  # noqa: N803
                "rate-of-a-hundredth": lambda w, X, y: _trained(w, X, y, times=0.1),  # noqa: N803
                "w-of-all-steps": AnyOf(
                    (
                        lambda w, X, y: np.stack(  # noqa: N803
                            [_trained(w, X, y, i + 1) for i in range(STEPS)]
                        ),
                        lambda w, X, y: np.stack(  # noqa: N803
                            [_trained(w, X, y, i) for i in range(STEPS)]
                        ),
                    )
                ),
                "gradient-taken-once": lambda w, X, y: (  # noqa: N803
                    w - np.float32(STEPS) * RATE * _gradient(w, X, y)
                ),
            },
            under_mesh=True,
        ),
        CommunicatesAtMost(
            "train",
            tuple((Budget("all-reduce", ("x",), STEPS * _parameters(e)),) for e in EXAMPLES),
        ),
        _placed("train", EVERYWHERE, *((features,) for *_, features in EXAMPLES)),
    ),
    hints=(
        "in_axes=None was for what every device has, and became copies; in_axes=0 was for what is "
        "cut. Which of the two is each of w, X and y?",
        "The examples are dimension 0 of X and of y. A spec without entries, P(), makes copies.",
        "lax.fori_loop(0, steps, lambda i, w: …, w) does the steps in the program. The compiler "
        "adds the all-reduces, since the mean goes over all examples.",
    ),
    diagnoses={
        "sum-of-squares": "The steps are as many times too large as there are examples: is the "
        "loss a sum, and not a mean?",
        "in-a-container": "Is it all that lax.scan returns? That is a pair: what was carried, and "
        "what was stacked.",
        "over-the-cap": "There is room for w, and for an eighth of X and of y. Are both of these "
        "cut, and along the examples?",
        "all-gather": "Nothing has to be collected where each device has whole examples, and the "
        "answers that go with them. Are X and y cut along the examples, and left so?",
        "too-many-bytes": "In each step only the gradient is to be added up, one number for each "
        "feature. Does w stay whole on every device, in the result too?",
        "one-step-less": "That is w after one step less.",
        "one-step-more": "That is w after one step more: is there one before the loop?",
        "mean-of-steps": "That is the mean of w over the steps; expected the last w.",
        "one-step": "That is w after one step.",
        "unbound-axis": "train is plain code on whole arrays, so no axis has a name in it. Is a "
        "pmean left in it? The compiler adds the all-reduce by itself.",
        "nothing-returned": "Or is it the second of the two things that lax.scan returns? The "
        "carry is the first.",
        "w-of-all-steps": "These are the w of all ten steps, stacked. Expected the last of them.",
        "does-not-fit": "A dimension of 4 is that of the features: dimension 0 of w, and "
        "dimension 1 of X. Every device needs all features, and has examples of its own.",
        "as-many-times": "In each step the gradient is as many times too large as there are "
        "devices. Plain code needs no shard_map here, and no collective. (In a shard_map, is it "
        "averaged after grad? grad by what all devices share has added up already.)",
        "other-mesh": "Is there a pmap in it? Each pmap makes a mesh of its own.",
        "uphill": "The gradient is added, and should be subtracted.",
        "rate-forgotten": "In each step the whole gradient is subtracted: where is the rate, 0.1?",
        "rate-of-a-hundredth": "In each step the rate is 0.01. It should be 0.1.",
        "gradient-taken-once": "All ten steps subtract the same gradient, that of the first w. "
        "Each step needs the gradient of the w that it has come to.",
    },
)


def _updated(w: Any, X: Any, y: Any, times: Any = 1) -> Any:  # noqa: N803
    return w - np.float32(times) * RATE * _gradient(w, X, y)


def _own(w: Any, X: Any, y: Any) -> Any:  # noqa: N803
    """With the gradient of device 0's examples alone."""
    mine = len(y) // DEVICES[len(y)]
    return _updated(w, X[:mine], y[:mine])


BELOW_ONE: Final = AnyOf((1 / 8, 1 / 64))
"""Ratios that are upside down, or of a gradient that was divided."""


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
    afterwards="Adam hides this mistake, since it divides a gradient by its own size; plain "
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
        _times("grad(mean_loss)(w)", 1, mean_forgotten=AnyOf((8, 64)), averaged_again=1 / 8),
        _times(
            "pmean(grad(loss)(varying(w)))", 1, summed_again=AnyOf((8, 64)), averaged_again=1 / 8
        ),
        _times(
            "psum(grad(loss)(varying(w)))", 8, summed_again=64, once_only=1, below_one=BELOW_ONE
        ),
        Computes(
            "update",
            "update(w, X, y) must be w - 0.1 * gradient, of the mean loss over all examples.",
            _updated,
            tuple(_data(*each) for each in EXAMPLES),
            {
                "as-many-times": lambda w, X, y: _updated(w, X, y, DEVICES[len(y)]),  # noqa: N803
                "squared": lambda w, X, y: _updated(w, X, y, DEVICES[len(y)] ** 2),  # noqa: N803
                "divided-twice": lambda w, X, y: _updated(w, X, y, 1 / DEVICES[len(y)]),  # noqa: N803
                "own-examples": _own,
                "gradient-alone": _gradient,
                "uphill": lambda w, X, y: _updated(w, X, y, -1),  # noqa: N803
                "rate-forgotten": lambda w, X, y: _updated(w, X, y, 10),  # noqa: N803
                "rate-of-a-hundredth": lambda w, X, y: _updated(w, X, y, 0.1),  # noqa: N803
                "rate-of-eight-tenths": lambda w, X, y: _updated(w, X, y, 8),  # noqa: N803
                "divided-by-eight": AnyOf(
                    (
                        lambda w, X, y: _updated(w, X, y, 1 / 8),  # noqa: N803
                        lambda w, X, y: _updated(w, X, y, DEVICES[len(y)] / 8),  # noqa: N803
                    )
                ),
            },
            under_mesh=True,
        ),
        Requests(
            "update",
            tuple(
                (RequestedCollective("all-reduce", 1, ("x",), _parameters(e)),) for e in EXAMPLES
            ),
        ),
        _placed("update", EVERYWHERE, *((features,) for *_, features in EXAMPLES)),
    ),
    hints=(
        "What comes out of grad by something that all devices share? Ask jax.typeof in the body: a "
        "value that varies has {V:x}, and one that was summed has not.",
        "A gradient by a shared w has been added up when you get it. So the mean has to be taken "
        "of the loss, before grad.",
        "Either give jax.grad a function that has taken the pmean of the loss already; or declare "
        "w as varying first, and then pmean of the gradient is what it was under pmap.",
    ),
    diagnoses={
        "as-in-pmap": "It was so under pmap, where each device had a w of its own. In shard_map "
        "all share w, and grad by it has added up over the devices already.",
        "mean-of-copies": "grad has added up over the devices already, so that all have the same "
        "sum. What does pmean make of numbers that are all alike?",
        "sum-of-copies": "psum of what all devices have alike is as many times as large as there "
        "are devices. What does grad give before that?",
        "mean-forgotten": "grad adds up what the devices contribute. But here the mean was taken "
        "before: it makes an eighth of each device's loss, and so of what the device contributes.",
        "too-often": "The gradient is added up once, by grad itself.",
        "once-only": "The right gradient is the mean of the devices' own gradients. What is their "
        "sum, and what is the psum of a number that all devices have?",
        "summed-again": "pcast makes of the shared w one that is each device's own, as it was "
        "under pmap. Then grad adds nothing up, and what each device gets is of its own loss.",
        "below-one": "A number below 1 says that the gradient is too small: one half of the right "
        "gradient would be 1/2. Is anything divided here, or is the ratio upside down?",
        "averaged-again": "The mean is taken once, and what it is taken of is not divided yet.",
        "as-many-times": "The gradient is as many times too large as there are devices. Is it a "
        "sum over the devices, where the mean is wanted? (After grad by a shared w has added up, "
        "pmean changes nothing.)",
        "squared": "The gradient is too large by the square of the number of devices. Does grad "
        "add it up, and a psum once more?",
        "divided-twice": "The gradient is as many times too small as there are devices. Is it "
        "divided by their number, and averaged besides?",
        "own-examples": "That is the gradient of the first device's examples alone.",
        "gradient-alone": "This is the gradient, and a right one. update has to return the new w: "
        "w - 0.1 * gradient.",
        "uphill": "The gradient is right, but it is added, and should be subtracted.",
        "rate-forgotten": "The step is ten times too long, as where the whole gradient is "
        "subtracted: where is the rate, 0.1?",
        "rate-of-a-hundredth": "The step is a tenth of what it should be, as with a rate of 0.01. "
        "The rate is 0.1.",
        "rate-of-eight-tenths": "The step is 8 times too large, on four devices as on eight, as "
        "with a rate of 0.8. The rate is 0.1. Is the 8 there to undo a division?",
        "divided-by-eight": "The step is too small on four devices, at least. Is anything "
        "divided by 8? The number of devices differs from case to case.",
        "other-mesh": "Is there a pmap in it? Each pmap makes a mesh of its own; and it is the "
        "twin that is asked for, with shard_map.",
        "copies-disagree": "Each device has another w now. Is check_vma off? With it on, JAX would "
        "have told you.",
        "not-replicated": "As far as JAX can tell, w differs from device to device afterwards. Is "
        "w declared as varying, and its gradient never averaged?",
        "one-too-many": "One all-reduce is enough. grad by what is shared brings one with it.",
    },
)


def _loss(w: Any, X: Any, y: Any) -> Any:  # noqa: N803
    return np.mean((X @ w - y) ** 2)


def _own_loss(w: Any, X: Any, y: Any) -> Any:  # noqa: N803
    mine = len(y) // DEVICES[len(y)]
    return _loss(w, X[:mine], y[:mine])


def _of_mean_residuals(w: Any, X: Any, y: Any) -> Any:  # noqa: N803
    """With the devices' residuals averaged before they are squared."""
    return np.mean((X @ w - y).reshape(DEVICES[len(y)], -1).mean(0) ** 2)


def _stacked_losses(w: Any, X: Any, y: Any) -> Any:  # noqa: N803
    """The right loss, once for each device."""
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
    "by_the_host": AnyOf(("all-reduce", "all-gather", "collective-permute"))
}

UNREPLICATE: Final = Exercise(
    id="7.6",
    title="One replica of eight",
    afterwards="For a checkpoint you need neither: libraries such as Orbax write arrays as they "
    "are laid out, one copy of each block.",
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
                "sum-of-means": lambda w, X, y: np.float32(DEVICES[len(y)]) * _loss(w, X, y),  # noqa: N803
                "own-examples": _own_loss,
                "averaged-too-early": _of_mean_residuals,
                "sum-of-squares": lambda w, X, y: np.float32(len(y)) * _loss(w, X, y),  # noqa: N803
                "mean-of-sums": lambda w, X, y: (  # noqa: N803
                    np.float32(len(y) // DEVICES[len(y)]) * _loss(w, X, y)
                ),
                "not-squared": AnyOf(
                    (
                        lambda w, X, y: np.mean(X @ w - y),  # noqa: N803
                        lambda w, X, y: np.mean(np.abs(X @ w - y)),  # noqa: N803
                    )
                ),
                "stacked-losses": _stacked_losses,
                "own-losses": lambda w, X, y: np.mean(  # noqa: N803
                    ((X @ w - y) ** 2).reshape(DEVICES[len(y)], -1), axis=1
                ),
            },
            under_mesh=True,
        ),
        Requests("mean_loss", (((RequestedCollective("all-reduce", 1, ("x",), 4)),),) * 2),
        _placed("mean_loss", EVERYWHERE, (), ()),
    ),
    hints=(
        "An index is an operation like any other: it runs on all devices, and its result belongs "
        "to all of them. What if you do not compute at all, and read what is there?",
        "addressable_data(0) is the block of the first device, as an array on that device: shape "
        "(1, 6), so its row 0 is the copy.",
        "out_axes=None of pmap is out_specs=P(): the body returns one number that is the same for "
        "all, and there is no leading dimension that somebody would have to index away.",
    ),
    diagnoses={
        "not-free": "stacked is one array over eight devices, and so is what comes of it. The "
        "first row is on one device, and all of them are to have it.",
        "no-gather": "Only one row is wanted of all, or one sum: what the compiler sends is an "
        "all-reduce. Where a row is wanted, devices that do not have it add zeros.",
        "by-the-host": "The host reads from its own devices. No device sends another anything.",
        "one-receiver": "A permutation has one receiver for each sender, and all eight devices are "
        "to have this row.",
        "copies-unknown": "You know that the eight copies are equal, and JAX does not. It averages "
        "rows that are on eight devices.",
        "fetched: shape": "One copy has six numbers. What addressable_data gives is a block, and "
        "still has the mapped dimension.",
        "fetched: devices-extra": "The copy is on other devices too, and should be on device 0 "
        "alone: an index gives an array that belongs to all devices.",
        "fetched: values": "Is that one of the copies, as it stands?",
        "averaged-too-early": "The residuals of the devices were averaged before they were "
        "squared. Their squares are to be averaged.",
        "sum-of-squares": "The squares of all examples are added up. The loss is their mean.",
        "mean-of-sums": "Each device adds up the squares of its examples, and these sums are "
        "averaged. Each device should take a mean, as loss does.",
        "not-squared": "The residuals are averaged as they are, or their absolute values. The loss "
        "is the mean of their squares.",
        "stacked-losses": "These are as many losses as there are devices, one for each, and each "
        "of them is right. out_specs=P() returns it once, for a body that returns one number.",
        "own-losses": "These are as many losses as there are devices, each of its own examples. "
        "Average them over the devices; then out_specs can return one number for all.",
        "sum-of-means": "It is as many times too large as there are devices: their means are "
        "added up.",
        "own-examples": "That is the loss of the first device's examples alone.",
        "not-replicated": "Each device has the loss of its own examples. What makes one number of "
        "them? (What all_gather gives counts as varying, though every device has the same; pmean "
        "gives what JAX knows to be alike.)",
        "added-by-the-compiler": "The loss is made into one by the body's own all-reduce. Is it "
        "stacked after that, one for each device, and one of them taken outside?",
        "one-too-many": "After one all-reduce every device has the mean.",
    },
)


def _paired(x: Any) -> Any:
    return np.repeat(x.reshape(-1, 2, x.shape[1]).sum(1), 2, axis=0)


def _by_halves(x: Any) -> Any:
    """With the devices in the order of P(("y", "x")): a device's pair is half the rows away."""
    return np.tile(x.reshape(2, -1, x.shape[1]).sum(0), (2, 1))


def _halved_away(x: Any) -> Any:
    """The halves of what came before, and the next column; the last of it."""
    total = np.zeros(len(x), x.dtype)
    for column in x.T:
        total = np.float32(0.5) * total + column
    return total


TABLES: Final = ((8, 6), (4, 5))
"""The devices, one row each, and the columns."""


SEVERAL: Final = ((8, 8, 6), (4, 12, 5))
"""The devices, the rows, and the columns: a device may have several rows."""


def _tables() -> tuple[tuple[Argument, ...], ...]:
    return tuple((_cut((n, k), n),) for n, k in TABLES)


def _pairs() -> tuple[tuple[Argument, ...], ...]:
    """The same on a mesh of pairs."""
    return tuple(
        (Argument((n, k), (("x", n // 2), ("y", 2)), (("x", "y"),), mode="auto"),)
        for n, k in TABLES
    )


CLINIC: Final = Exercise(
    id="7.7",
    title="The clinic",
    afterwards="Most of these are one line. What takes time in a migration is what raises nothing: "
    "the gradient of 7.5, and the index of 7.6.",
    requirements=(
        Computes(
            "new_params",
            "new_params(p, g) must be p - 0.1 * g.",
            lambda p, g: p - RATE * g,
            tuple((_cut((n, k), n), _cut((n, k), n)) for n, k in TABLES),
            {
                "uphill": lambda p, g: p + RATE * g,
                "rate-forgotten": lambda p, g: p - g,
                "gradients-averaged": AnyOf(
                    (
                        lambda p, g: p - RATE * g.mean(0),
                        lambda p, g: p - RATE * g.mean(1, keepdims=True),
                    )
                ),
                "rate-of-a-hundredth": lambda p, g: p - np.float32(0.01) * g,
                "all-times-the-rate": lambda p, g: RATE * (p - g),
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
                "largest-for-sum": lambda x: x.max(1),
                "first-number": lambda x: x[:, 0],
                "summed-over-devices": AnyOf(
                    (
                        lambda x: x.sum(),
                        lambda x: x.sum(keepdims=True).ravel(),
                        lambda x: np.full(len(x), x.sum()),
                    )
                ),
            },
            under_mesh=True,
        ),
        _nothing("row_sums"),
        _placed("row_sums", STRIPS, *((n,) for n, _ in TABLES)),
        Computes(
            "centred",
            "centred(x) must be x less the mean of its rows.",
            lambda x: x - x.mean(0),
            _tables(),
            {
                "own-mean": lambda x: x - x.mean(1, keepdims=True),
                "turned": lambda x: x.mean(0) - x,
                "mean-of-another-size": AnyOf(
                    (
                        lambda x: x - 2 * x.mean(0),
                        lambda x: x - x.mean(0) / np.float32(len(x)),
                    )
                ),
                "sum-for-mean": lambda x: x - x.sum(0),
                "mean-of-all": lambda x: x - x.mean(),
                "own-row": lambda x: np.zeros_like(x),
                "mean-alone": lambda x: np.broadcast_to(x.mean(0), x.shape),
                "normalised-too": AnyOf(
                    (
                        lambda x: (x - x.mean(0)) / x.std(0),
                        lambda x: (x - x.mean(0)) / np.sqrt((x * x).mean(0)),
                    )
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
            "pair_sums(x) must give each device, in its row, the sum of its pair's rows.",
            _paired,
            _pairs(),
            {
                "all-summed": lambda x: np.broadcast_to(x.sum(0), x.shape),
                "doubled": lambda x: 2 * x,
                "not-summed": lambda x: x,
                "partner-alone": lambda x: x.reshape(-1, 2, x.shape[1])[:, ::-1].reshape(x.shape),
                "other-order": _by_halves,
                "other-groups": lambda x: (
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
            },
            under_mesh=True,
        ),
        Requests(
            "pair_sums",
            tuple((RequestedCollective("all-reduce", 1, ("y",), 4 * k),) for _, k in TABLES),
        ),
        Computes(
            "faded",
            "faded(x) must be, for each row, the last of total = 0.5 * total + number.",
            _halved_away,
            tuple((_cut((rows, k), n),) for n, rows, k in SEVERAL),
            {
                "backward": lambda x: _halved_away(x[:, ::-1]),
                "first-left-out": lambda x: _halved_away(x[:, 1:]),
                "first-twice": lambda x: _halved_away(np.concatenate([x[:, :1], x], axis=1)),
                "last-left-out": lambda x: _halved_away(x[:, :-1]),
                "number-halved": lambda x: x.sum(1) * np.float32(0.5),
                "never-halved": lambda x: x.sum(1),
                "halved-too-late": lambda x: np.float32(0.5) * _halved_away(x),
            },
            under_mesh=True,
        ),
        _nothing("faded"),
        _placed("faded", STRIPS, *((rows,) for _, rows, _ in SEVERAL)),
    ),
    hints=(
        "The cell above calls each of the six and prints what JAX says first. Two errors come "
        "without a word; look there for a name, or an argument, that was pmap's own. The cheat "
        "sheet has most of the others.",
        "Where a name is gone, its docstring or What moved says what took its place. Where a body "
        "is refused: which rank does it return, which axis does it name, which type has a carry?",
        "In the order of the list: the module for trees; a spec that names no axis; a sum that "
        "keeps a dimension; the mesh's own name; the axis of the pairs; zeros cast to vary.",
    ),
    diagnoses={
        "gradients-averaged": "The rows of g are averaged. Each number of p goes with its own of "
        "g.",
        "uphill": "The step is added, and should be subtracted.",
        "rate-forgotten": "All of g is subtracted. Where is the rate, 0.1?",
        "rate-of-a-hundredth": "A hundredth of g is subtracted. The rate is 0.1.",
        "all-times-the-rate": "p is multiplied by the rate as well. The rate is for g alone.",
        "copies: shape": "Expected one array of six numbers, with a copy on each device. (For "
        "pmap, which needs a dimension to map, device_put_replicated stacked the copies. shard_map "
        "and jit need no such dimension.)",
        "devices-unused": "Every device should have a copy. Is the mesh one of all eight?",
        "row_sums: rank": "The sum of a block's only row has no dimension left that P('x') could "
        "cut. Keep one.",
        "shape": "What does the body return for a block, and how do out_specs put the devices' "
        "results together again?",
        "row_sums: not-replicated": "Nothing is to be summed over the devices: each has a row of "
        "its own, and out_specs says how the results are cut.",
        "row_sums: shape": "There is to be one number for each row. How many does a device give, "
        "and in how many dimensions?",
        "unbound-axis": "pmap's axis_name was yours to choose. In shard_map the mesh names its "
        "axes, and here that is x. (JAX's own message is empty.)",
        "turned": "The sign is turned: the rows are taken off their mean.",
        "mean-of-another-size": "A multiple or a part of the mean is taken off: expected the mean.",
        "own-mean": "Each row is centred on its own mean, and should be on the mean of all rows.",
        "mean-of-all": "The mean of all numbers is taken away. It should be the mean of the rows, "
        "position by position.",
        "own-row": "Everything is zero: each row is centred on itself. The mean is to be taken "
        "over the rows of all devices.",
        "mean-alone": "That is the mean of the rows, on every device. It should be taken away from "
        "the device's own row.",
        "normalised-too": "The rows are divided besides. Centring only takes their mean away.",
        "sum-for-mean": "A sum over all rows is taken away, and it should be their mean.",
        "all-summed": "Every device has the sum of all rows. Which axis of the mesh runs over a "
        "pair alone?",
        "other-groups": "The sums are those of the devices along x. A pair is along y.",
        "doubled": "Every row is doubled: each device adds its own row, and not its partner's. "
        "With rows cut by P('x') alone, both devices of a pair have the same rows; they are cut by "
        "both axes, P(('x', 'y')).",
        "not-summed": "These are the rows as they came: nothing was added up.",
        "partner-alone": "Each device has the row of the other device of its pair. Its own is to "
        "be added.",
        "largest-for-sum": "These are the largest numbers of the rows. Their sums are wanted.",
        "first-number": "These are the first numbers of the rows. All numbers of a row are to be "
        "added up.",
        "other-order": "Rows half the array apart were added up. P(('y', 'x')) gives out the rows "
        "in another order, in which neighbours along y do not get neighbouring rows.",
        "pair_sums: raised": "Is axis_index_groups still there? shard_map has none: a group is an "
        "axis of the mesh.",
        "varying-mismatch": "A loop's carry keeps its type. This one starts as zeros, which are "
        "the same everywhere, and varies after one step. How do you declare zeros as varying?",
        "backward": "The numbers are taken from the last to the first; it should be from the first "
        "to the last.",
        "first-left-out": "The first number of each row does not count here.",
        "first-twice": "The first number of each row counts twice: the total begins with it, and "
        "the first step adds it again.",
        "summed-over-devices": "That is the sum of all numbers, of all devices together. Expected "
        "one sum for each row, and each device has all of its own row.",
        "last-left-out": "The last number of each row does not count here.",
        "number-halved": "The number is halved. It should be what came before it, the total.",
        "never-halved": "The numbers are added up, and nothing is halved.",
        "halved-too-late": "The number is halved with the total. Halve the total, and then add the "
        "number.",
        "no-shard-map": "Mend what is there, and keep its shard_map.",
    },
)

EXERCISES: Final = (CONVOLVE, NORMALISE, NEST, REGRESSION, TRAP, UNREPLICATE, CLINIC)
