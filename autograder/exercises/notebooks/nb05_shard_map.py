"""Notebook 05: one program for each device, and explicit collectives.

A note for maintainers: what is asked for by hand is read from the exported program, so these
exercises depend on no compiler but in 5.7. Functions are judged under two meshes, of eight and of
four devices (`jax.set_mesh`), with blocks of different sizes, so that neither can be written in.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from autograder.artifacts import Argument
from autograder.judge import (
    CommunicatesAtMost,
    Computes,
    Exercise,
    Mistake,
    PlacedLike,
    Predicts,
    RequestedCollective,
    Requests,
    Returns,
)

SIZES: Final = (8, 4)
"""The sizes of the meshes that a function is judged on."""

BLOCK: Final = {8: 8, 4: 6}
"""The size of a vector's block, for each size of the mesh."""

MANY: Final = 64
"""The same on the smaller mesh, for extreme values."""

DEVICES: Final = {n * size: n for n, size in (*BLOCK.items(), (4, MANY))}
"""The number of devices that a vector is sharded over, by its length."""

STRIPS: Final = ("0 1 2 3 4 5 6 7", "0 1 2 3")
ROWS: Final = ("0\n1\n2\n3\n4\n5\n6\n7", "0\n1\n2\n3")


def _on_lines(*shapes: Any) -> tuple[tuple[Argument, ...], ...]:
    """Return, for each mesh size n, arguments whose first dimension is sharded over x."""
    return tuple(
        tuple(Argument(shape(n), (("x", n),), ("x",), mode="auto") for shape in shapes)
        for n in SIZES
    )


def _each(*asks: Any) -> tuple[tuple[RequestedCollective, ...], ...]:
    """Return, for each mesh, the collectives to request, from its size."""
    return tuple(tuple(ask(n) for ask in asks) for n in SIZES)


def _vector(n: int) -> tuple[int, ...]:
    return (n * BLOCK[n],)


def _rows(n: int) -> tuple[int, int]:
    """Return the shape of one row for each device, with columns that divide among them."""
    return (n, {8: 2, 4: 3}[n] * n)


def _placed(answer: str, pictures: tuple[str, str], shape: Any) -> PlacedLike:
    return PlacedLike(answer, pictures[0], tuple(map(shape, SIZES)), elsewhere=pictures[1:])


def _blocks(x: Any) -> list[Any]:
    """Return the blocks of a vector, or of an array with one row for each device."""
    return np.split(x, DEVICES[len(x)] if x.ndim == 1 else len(x))


def _cell(table: str, spec: str, right: Any, mistakes: Any) -> Predicts:
    asked = {
        "inside": f"the shape in the body, for in_specs {spec}",
        "outside": f"the shape of the result, for out_specs {spec}",
    }
    return Predicts(table, spec, asked[table], right, mistakes)


SHAPES: Final = Exercise(
    id="5.1",
    title="What a device sees",
    afterwards="In the body all devices run the same code on blocks of the same shape. Only "
    "lax.axis_index differs from device to device.",
    requirements=(
        _cell(
            "inside",
            "P('x', 'y')",
            (4, 8),
            {
                "global": (16, 16),
                "like-vmap": Mistake((), (16,)),
                "axes-exchanged": (8, 4),
                "how-many": (4, 2),
                "all-devices": (2, 2),
            },
        ),
        _cell(
            "inside",
            "P('x')",
            (4, 16),
            {
                "global": (16, 16),
                "like-vmap": (16,),
                "both-cut": (4, 8),
                "axes-exchanged": (8, 16),
                "other-dimension": (16, 4),
                "all-devices": (2, 16),
                "dimension-dropped": (4,),
                "how-many": (4, 1),
            },
        ),
        _cell(
            "inside",
            "P(None, ('x', 'y'))",
            (16, 2),
            {
                "global": (16, 16),
                "like-vmap": (16,),
                "other-dimension": (2, 16),
                "one-axis": (16, 4),
                "eight": Mistake(
                    (16, 8),
                    says="8 is the number of shards, or their size if only y sharded the "
                    "dimension. Both axes shard it, and the shape has the size of a shard.",
                ),
                "both-cut": (4, 8),
                "dimension-dropped": (2,),
                "sizes-added": (16, 3),
                "how-many": (1, 8),
            },
        ),
        _cell(
            "inside",
            "P()",
            (16, 16),
            {
                "both-cut": (4, 8),
                "like-vmap": Mistake((), (16,)),
                "all-devices": Mistake((2, 16), (16, 2), (2, 2)),
                "how-many": (1, 1),
            },
        ),
        _cell(
            "outside",
            "P('x', 'y')",
            (16, 16),
            {
                "still-inside": (4, 8),
                "axes-exchanged": (8, 32),
                "stacked": (4, 2, 4, 8),
                "how-many": (4, 2),
            },
        ),
        _cell(
            "outside",
            "P(('x', 'y'), None)",
            (32, 8),
            {
                "still-inside": (4, 8),
                "as-before": (16, 16),
                "other-dimension": (4, 64),
                "one-axis": Mistake((16, 8), (8, 8)),
                "sizes-added": (24, 8),
                "none-joined": Mistake(
                    (32, 16),
                    (32, 32),
                    (32, 64),
                    says="An entry None names no axis, and nothing is concatenated along that "
                    "dimension.",
                ),
                "stacked": (8, 4, 8),
                "how-many": (8, 1),
            },
        ),
        _cell(
            "outside",
            "P('y', 'x')",
            (8, 32),
            {
                "still-inside": (4, 8),
                "as-before": (16, 16),
                "stacked": (2, 4, 4, 8),
                "lengths-exchanged": Mistake(
                    (32, 8),
                    says="The two sizes are swapped: the first entry is about dimension 0 of the "
                    "blocks.",
                ),
                "how-many": (2, 4),
            },
        ),
    ),
    hints=(
        "In the body, an array has the shape of one device's block. in_specs shard it as the spec "
        "of a layout does.",
        "The rank stays the same. vmap removes a dimension; shard_map makes it shorter.",
        "out_specs put blocks together: each dimension has the block's size times the sizes of "
        "the axes in its entry.",
    ),
    diagnoses={
        "global": "This is the shape of the whole array. The body sees one device's block.",
        "like-vmap": "vmap removes a dimension. shard_map makes it shorter, and the rank stays.",
        "both-cut": "An entry shards only its own dimension, and only over the axes that it "
        "names. Over an axis that no entry names the array is replicated.",
        "axes-exchanged": "Are the sizes of the axes swapped? x has four devices, and y two.",
        "all-devices": "An entry shards over the axes that it names, not over all devices.",
        "dimension-dropped": "A dimension is missing. One that is not sharded keeps its size, and "
        "the rank stays.",
        "how-many": "Is this the number of blocks? A shape has the size of each dimension.",
        "other-dimension": "The first entry of the spec is about dimension 0, the second about "
        "dimension 1.",
        "one-axis": "The entry names two axes, and their sizes multiply.",
        "sizes-added": "The entry names two axes, and their sizes multiply.",
        "stacked": "Blocks are concatenated, not stacked: the rank stays.",
        "still-inside": "This is one device's block. Outside, the blocks are put together.",
        "as-before": "The result need not have the shape of the argument: only out_specs decide, "
        "and it matters in which entry an axis is.",
        "other-prediction": "Take one dimension after the other. Which axes does its entry name, "
        "and how many blocks do they make?",
        "outside: other-prediction": "The blocks of all devices are put together. Take one "
        "dimension after the other: how many blocks are side by side along it, and how long are "
        "they together?",
    },
)


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum()


NUMBERS: Final = (
    *_on_lines(_vector)[:1],
    (Argument((4 * MANY,), (("x", 4),), ("x",), mode="auto", scale=60.0, shift=-1000.0),),
)
"""A vector on each mesh; on the second, exp is 0 of all."""

LOW_NUMBERS: Final = (NUMBERS[0], tuple(a.but(shift=-3e6) for a in NUMBERS[1]))
"""The second vector is below anything that somebody would start a maximum from, except -inf."""

FAR_APART: Final = (NUMBERS[0], tuple(a.but(scale=5e6, shift=-25e6) for a in NUMBERS[1]))
"""In the second vector, the largest element is far below zero, and far above the others.

So `exp(x - logsumexp)` is right, too, although such numbers are coarse in float32.
"""

ARGUMENTS_OF_REDUCTIONS: Final = {"largest": LOW_NUMBERS, "softmax": FAR_APART}
"""The arguments in 5.2, unless they are `NUMBERS`."""


def _n(x: Any) -> Any:
    """Return the number of devices that a vector is sharded over, as a number of its type."""
    return np.float32(DEVICES[len(x)])


def _stacked(x: Any) -> Any:
    """Return the blocks of a vector as rows; a column has the same index in all blocks."""
    return np.stack(_blocks(x))


def _normal_exps(x: Any) -> Any:
    """Return exps after subtracting the maximum, with 0 for subnormal ones, as XLA has it."""
    e = np.exp(x - x.max())
    return np.where(e < np.finfo(e.dtype).tiny, np.zeros_like(e), e)


def _shifted_by_place(x: Any) -> Any:
    """Return exps after subtracting, at each index, the maximum over all blocks: a mistake."""
    return np.exp(_stacked(x) - _stacked(x).max(0))


REDUCTIONS: Final = Exercise(
    id="5.2",
    title="To psum or not to psum",
    afterwards="JAX has no derivative of lax.pmax. A differentiable softmax passes its block's "
    "maximum through lax.stop_gradient before the pmax.",
    requirements=(
        *(
            requirement
            for answer, asks, reference, count, mistakes in (
                (
                    "total",
                    "the sum of x",
                    lambda x: x.sum(),
                    1,
                    {
                        "added-twice": Mistake(
                            lambda x: x.sum() * _n(x),
                            says="The result is too large by the number of devices: do you add up "
                            "something that every device has already?",
                        ),
                        "mean-for-sum": Mistake(
                            lambda x: x.sum() / _n(x),
                            says="The result is too small by the number of devices: do you take a "
                            "mean instead of a sum?",
                        ),
                        "mean-of-all": Mistake(
                            lambda x: x.mean(), says="This is the mean of all elements."
                        ),
                        "first-elements": Mistake(
                            lambda x: sum(b[0] for b in _blocks(x)),
                            lambda x: sum(b[-1] for b in _blocks(x)),
                        ),
                        "one-sum-each": Mistake(
                            lambda x: np.stack([b.sum() for b in _blocks(x)]),
                            says="These are the sums of the blocks, one for each device. They "
                            "still have to be added up.",
                        ),
                        "sum-of-largest": lambda x: sum(b.max() for b in _blocks(x)),
                        "place-by-place": Mistake(
                            lambda x: _stacked(x).sum(0), lambda x: _stacked(x).mean(0)
                        ),
                    },
                ),
                (
                    "average",
                    "the mean of x",
                    lambda x: x.mean(),
                    1,
                    {
                        "sum-of-means": Mistake(
                            lambda x: x.mean() * _n(x),
                            says="The result is too large by the number of devices: are the "
                            "devices' means added up?",
                        ),
                        "sum-for-mean": Mistake(
                            lambda x: x.sum(), says="This is the sum of all elements."
                        ),
                        "mean-of-sums": Mistake(
                            lambda x: x.sum() / _n(x),
                            says="This is the sum of all elements divided by the number of "
                            "devices. What should it be divided by?",
                        ),
                        "divided-twice": Mistake(
                            lambda x: x.mean() / np.float32(len(_blocks(x)[0])),
                            lambda x: x.mean() * _n(x) / np.float32(len(_blocks(x)[0])),
                            lambda x: x.mean() / _n(x),
                            says="The sum is divided by one number too many, or by another number "
                            "than that of all elements. The mean of a block is divided already, so "
                            "only the number of devices is left.",
                        ),
                        "first-elements": Mistake(
                            lambda x: sum(b[0] for b in _blocks(x)) / _n(x),
                            lambda x: sum(b[-1] for b in _blocks(x)) / _n(x),
                        ),
                        "fixed-divisor": Mistake(
                            *(
                                tuple(
                                    lambda x, by=by: x.sum() / np.float32(by)
                                    for by in (8, 16, 32, 64, 128, 256)
                                )
                            ),
                            says="The sum is divided by the same number on both meshes. Divide by "
                            "the number of elements of x, which differs.",
                        ),
                        "place-by-place": Mistake(
                            lambda x: _stacked(x).mean(0),
                            lambda x: _stacked(x).sum(0),
                            lambda x: _stacked(x).sum(0) / np.float32(len(_blocks(x)[0])),
                            lambda x: _stacked(x).sum(0) / np.float32(len(x)),
                        ),
                        "median": Mistake(
                            lambda x: np.median(x).astype(x.dtype),
                            lambda x: np.mean([np.median(b) for b in _blocks(x)]).astype(x.dtype),
                            says="This is a median. Expected: the mean.",
                        ),
                    },
                ),
                (
                    "largest",
                    "the largest element of x",
                    lambda x: x.max(),
                    1,
                    {
                        "sum-of-largest": lambda x: sum(b.max() for b in _blocks(x)),
                        "starts-too-high": Mistake(
                            lambda x: x.max(initial=0),
                            *(
                                lambda x, start=-(10.0**digits): x.max(initial=start)
                                for digits in range(7)
                            ),
                            says="The maximum includes a number that is no element of x, such as "
                            "zero or -1,000. If all elements are smaller, the result is this "
                            "number.",
                        ),
                        "first-elements": Mistake(
                            lambda x: max(b[0] for b in _blocks(x)),
                            lambda x: max(b[-1] for b in _blocks(x)),
                        ),
                        "smallest": Mistake(
                            lambda x: x.min(), says="This is the smallest element of x."
                        ),
                        "place-by-place": Mistake(
                            lambda x: _stacked(x).max(0), lambda x: _stacked(x).sum(0)
                        ),
                        "blocks-added-first": Mistake(
                            lambda x: _stacked(x).sum(0).max(),
                            says="The blocks are added up, element by element, before the maximum "
                            "is taken. Which numbers should be compared?",
                        ),
                        "largest-of-others": Mistake(
                            lambda x: max(b.min() for b in _blocks(x)),
                            lambda x: max(b.sum() for b in _blocks(x)),
                            lambda x: max(b.mean() for b in _blocks(x)),
                            says="The maximum is taken of the wrong numbers: each device "
                            "contributes its block's minimum, sum or mean. Contribute its maximum.",
                        ),
                    },
                ),
                (
                    "softmax",
                    "exp(x) / exp(x).sum(), safe for large x",
                    _softmax,
                    2,
                    {
                        "each-for-itself": Mistake(
                            lambda x: np.concatenate([_softmax(b) for b in _blocks(x)]),
                            lambda x: np.concatenate(
                                [
                                    e / e.sum()
                                    for e in np.split(np.exp(x - x.max()), DEVICES[len(x)])
                                ]
                            ),
                            says="Each block adds up to one by itself. The sum must be that of all "
                            "of x.",
                        ),
                        "local-largest": Mistake(
                            lambda x: (
                                np.concatenate([np.exp(b - b.max()) for b in _blocks(x)])
                                / sum(np.exp(b - b.max()).sum() for b in _blocks(x))
                            ),
                            says="Each block's own maximum is subtracted, so the exps have "
                            "different scales when they are added up.",
                        ),
                        "divisor-for-each-place": Mistake(
                            lambda x: np.ravel(
                                _normal_exps(_stacked(x)) / _normal_exps(_stacked(x)).sum(0)
                            ),
                            lambda x: np.ravel(_shifted_by_place(x) / _shifted_by_place(x).sum(0)),
                            says="Each element is divided by the sum over the same position in all "
                            "blocks. The divisor must be one number: add up all exps of a block "
                            "first.",
                        ),
                        "largest-for-each-place": Mistake(
                            lambda x: np.ravel(_shifted_by_place(x) / _shifted_by_place(x).sum()),
                            says="The maximum over the same position in all blocks is subtracted "
                            "from each element, so the exps have different scales when they are "
                            "added up. Subtract one number everywhere: the largest element of x.",
                        ),
                        "difference-turned": Mistake(
                            lambda x: np.exp(x.max() - x) / np.exp(x.max() - x).sum(),
                            says="x is subtracted from the largest element. It should be the other "
                            "way round.",
                        ),
                        "largest-divided-by": Mistake(
                            lambda x: np.exp(x / x.max()) / np.exp(x / x.max()).sum(),
                            says="x is divided by the largest element. Subtract it.",
                        ),
                        "never-divided": Mistake(
                            lambda x: np.exp(x - x.max()),
                            says="These are the exps. Divide them by their sum.",
                        ),
                        "exp-of-the-sum": Mistake(
                            lambda x: np.exp(x - x.max()) / np.exp((x - x.max()).sum()),
                            says="The divisor is zero. Is the sum taken before exp? It must be the "
                            "sum of the exps.",
                        ),
                        "no-exp-above": Mistake(
                            lambda x: (x - x.max()) / np.exp(x - x.max()).sum(),
                            lambda x: x / np.exp(x - x.max()).sum(),
                            says="The divisor is right, but the numerator lacks the exp.",
                        ),
                        "logarithm": Mistake(
                            lambda x: x - x.max() - np.log(np.exp(x - x.max()).sum()),
                            says="This is the logarithm of the softmax.",
                        ),
                        "multiplied": Mistake(
                            lambda x: np.exp(x - x.max()) * np.exp(x - x.max()).sum(),
                            says="The exps are multiplied by their sum. Divide by it.",
                        ),
                        "divided-by-the-sum-of-x": Mistake(
                            lambda x: np.exp(x - x.max()) / x.sum(),
                            says="The exps are divided by the sum of x. Divide by the sum of the "
                            "exps.",
                        ),
                        "shifted-once-only": Mistake(
                            lambda x: np.exp(x) / np.exp(x - x.max()).sum(),
                            lambda x: np.exp(x - x.max()) / np.exp(x).sum(),
                            says="The largest element is subtracted only in the numerator, or only "
                            "in the denominator. Use the same exps in both.",
                        ),
                        "divided-by-the-largest": Mistake(
                            lambda x: (
                                np.exp(x - x.max())
                                / max(np.exp(b - x.max()).sum() for b in _blocks(x))
                            ),
                            says="The exps are divided by the largest of the blocks' sums. Divide "
                            "by the sum of all of them.",
                        ),
                    },
                ),
            )
            for requirement in (
                Computes(
                    answer,
                    f"{answer} must return {asks}.",
                    reference,
                    ARGUMENTS_OF_REDUCTIONS.get(answer, NUMBERS),
                    mistakes,
                    under_mesh=True,
                ),
                Requests(
                    answer,
                    _each(lambda n, k=count: RequestedCollective("all-reduce", k, ("x",), 4)),
                ),
            )
        ),
        PlacedLike("softmax", STRIPS[0], ((64,), (4 * MANY,)), elsewhere=STRIPS[1:]),
    ),
    hints=(
        "In the body you have one block. First reduce it to one number with jnp, and exchange "
        "only such numbers.",
        "lax.psum adds, lax.pmean takes the mean, and lax.pmax the maximum, over an axis of the "
        "mesh. Every device gets the result.",
        "softmax needs the largest element of all of x, so that no exp overflows, and then the sum "
        "of all exps: two numbers, two all-reduces.",
    ),
    diagnoses={
        "not-replicated": "out_specs promise the same result on every device. Which collective "
        "gives every device the same?",
        "sum-of-largest": "The maxima of all blocks are added up.",
        "first-elements": "Only one element of each block is used, the first or the last. Reduce "
        "the block to one number with jnp first: block.sum(), block.mean() or block.max().",
        "total: sum-of-largest": "The maxima of all blocks are added up. Which number should each "
        "device contribute?",
        "place-by-place": "The blocks are combined element by element, so the result is a vector "
        "as long as one block. Each device has to reduce its block to one number before the "
        "devices combine theirs.",
        "sends-too-much": "Each device sends more than one number. Reduce the block to one number "
        "first.",
        "explicit all-gather": "An all-gather brings all data to every device. An all-reduce of "
        "one number is enough here.",
        "one-too-many": "After an all-reduce, every device has the result. Which of yours is not "
        "needed?",
        "not-finite": "exp overflows for a large number, and is zero for a very negative one. "
        "Subtract the largest element of all of x before exp. Is a number that is no element of x "
        "included in that maximum?",
        "too-seldom": "A softmax needs two numbers of all of x: its largest element, and the sum "
        "of the exps. Is one of them computed outside the body, where the compiler adds its "
        "all-reduce, or from one block only?",
    },
    about=(Requests,),
)

Numbers = Sequence[Sequence[int]]


def _arrays(blocks: Numbers) -> list[Any]:
    return [np.array(block) for block in blocks]


def _plain(arrays: Any) -> Any:
    return [np.asarray(a).tolist() for a in arrays]


def _gathered(blocks: Numbers, tiled: bool) -> Any:
    whole = np.concatenate(_arrays(blocks)) if tiled else np.stack(_arrays(blocks))
    return _plain([whole] * len(blocks))


def _scattered(blocks: Numbers) -> Any:
    return _plain(np.split(np.sum(_arrays(blocks), axis=0), len(blocks)))


def _exchanged(blocks: Numbers) -> Any:
    pieces = [np.split(block, len(blocks)) for block in _arrays(blocks)]
    return _plain([np.concatenate([mine[i] for mine in pieces]) for i in range(len(blocks))])


def _dealt(numbers: Sequence[int], n: int) -> list[list[int]]:
    """Deal a block's numbers out to n devices like cards: a mistake."""
    return [list(numbers[i::n]) for i in range(n)]


def _of_length_n(numbers: Sequence[int], n: int) -> list[list[int]]:
    """Split a block into pieces of n numbers, instead of n pieces: a mistake."""
    return [list(numbers[i * n : (i + 1) * n]) for i in range(n)]


def _added(blocks: Numbers) -> list[int]:
    return [sum(column) for column in zip(*blocks, strict=True)]


def _exchanged_by(cut: Callable[[Sequence[int], int], Any]) -> Callable[[Numbers], Any]:
    return lambda blocks: [
        [number for block in blocks for number in cut(block, len(blocks))[i]]
        for i in range(len(blocks))
    ]


def _cut_up(blocks: Numbers, device: int, piece: int) -> Any:
    """Return one piece of a device's block, of as many as there are devices."""
    return np.split(np.array(blocks[device]), len(blocks))[piece]


def _exchanged_in_place(blocks: Numbers) -> Any:
    """Write the results into the list that is still being read: a mistake."""
    blocks = [list(block) for block in blocks]
    size = len(blocks[0]) // len(blocks)
    for i in range(len(blocks)):
        blocks[i] = [n for block in blocks for n in block[i * size : (i + 1) * size]]
    return blocks


def _summed_in_float32(blocks: Numbers) -> Any:
    return np.sum(np.array(blocks, np.float32), axis=0)


def _in_float32(blocks: Numbers) -> Any:
    return [np.array(block, np.float32) for block in blocks]


def _in_float32_and_back(blocks: Numbers) -> Any:
    return [block.astype(np.int64) for block in _in_float32(blocks)]


def _from_its_number(numbers: Sequence[int], n: int, length: int) -> list[list[int]]:
    """Return, for each of n devices, a piece that begins at the device's number: a mistake."""
    return [list(numbers[i : i + length]) for i in range(n)]


def _in_32_bits(blocks: Numbers) -> Any:
    """Return the last 32 bits of each number, which are all that JAX's integers hold."""
    return [np.array(block, np.int64).astype(np.int32).astype(np.int64) for block in blocks]


LARGE: Final = 10**12
"""More than 32 bits hold, and so more than JAX does."""


def _sample_blocks(generator: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample blocks whose size is a multiple of the number of devices."""
    return [
        (generator.integers(-most, most, (n, n * pieces)).tolist(),)
        for n, pieces, most in (
            (2, 1, 100), (2, 3, 100), (4, 1, 100), (4, 2, 100), (3, 2, LARGE),
        )
    ]  # fmt: skip


def _sample_tiled(generator: np.random.Generator) -> list[tuple[Any, ...]]:
    return [(*case, tiled) for case in _sample_blocks(generator) for tiled in (True, False)]


MODELS: Final = Exercise(
    id="5.3",
    title="Collectives in NumPy",
    afterwards="An all-to-all transposes a table of pieces that has one row for each device. So "
    "doing it twice gives back the original.",
    requirements=(
        Returns(
            "all_gather_ref",
            "all_gather_ref must return what each device holds after lax.all_gather.",
            cases=_sample_tiled,
            reference=_gathered,
            mistakes={
                "always-tiled": Mistake(
                    lambda blocks, tiled: _gathered(blocks, True),
                    says="Without tiled, the blocks are stacked in a new dimension.",
                ),
                "never-tiled": Mistake(
                    lambda blocks, tiled: _gathered(blocks, False),
                    says="With tiled, the blocks are concatenated, and the rank stays.",
                ),
                "tiled-for-untiled": Mistake(
                    lambda blocks, tiled: _gathered(blocks, not tiled),
                    says="The two are swapped: tiled concatenates, untiled stacks.",
                ),
                "only-one-device": Mistake(
                    lambda blocks, tiled: _gathered(blocks, tiled)[0],
                    says="This is what one device holds. The list needs an entry for each device.",
                ),
                "two-devices": lambda blocks, tiled: _gathered(blocks[:2], tiled),
                "own-first": Mistake(
                    lambda blocks, tiled: [
                        _gathered(blocks[i:] + blocks[:i], tiled)[0] for i in range(len(blocks))
                    ],
                    says="Each device begins with its own block. The blocks must be in the order "
                    "of the devices on every device.",
                ),
                "own-twice": Mistake(
                    lambda blocks, tiled: [
                        _gathered([block, *blocks], tiled)[0] for block in blocks
                    ],
                    says="Each device has its own block twice: it is among all blocks already.",
                ),
                "own-left-out": lambda blocks, tiled: [
                    _gathered(blocks[:i] + blocks[i + 1 :], tiled)[0] for i in range(len(blocks))
                ],
                "own-repeated": Mistake(
                    lambda blocks, tiled: [
                        _gathered([block] * len(blocks), tiled)[0] for block in blocks
                    ],
                    says="Each device has its own block several times, and no other block.",
                ),
                "single-entry": Mistake(
                    lambda blocks, tiled: _gathered(blocks, tiled)[:1],
                    lambda blocks, tiled: _gathered(blocks, True)[:1],
                    lambda blocks, tiled: _gathered(blocks, False)[:1],
                    lambda blocks, tiled: _gathered(blocks, tiled)[: 1 if tiled else None],
                    lambda blocks, tiled: _gathered(blocks, tiled)[: None if tiled else 1],
                    says="There is one entry. There must be one for each device, even if they are "
                    "equal.",
                ),
                "nothing-exchanged": lambda blocks, tiled: [list(block) for block in blocks],
                "float32": Mistake(
                    lambda blocks, tiled: _gathered(_in_float32(blocks), tiled),
                    lambda blocks, tiled: _gathered(_in_float32_and_back(blocks), tiled),
                ),
                "numbers-in-turn": Mistake(
                    lambda blocks, tiled: (
                        [(np.ravel(blocks, "F") if tiled else np.transpose(blocks)).tolist()]
                        * len(blocks)
                    ),
                    lambda blocks, tiled: (
                        [(np.ravel(blocks) if tiled else np.transpose(blocks)).tolist()]
                        * len(blocks)
                    ),
                    says="The elements of the blocks are interleaved. A gather keeps each block "
                    "together.",
                ),
                "one-list": lambda blocks, tiled: [number for block in blocks for number in block],
                "untiled-missing": Mistake(
                    lambda blocks, tiled: _gathered(blocks, True) if tiled else None,
                    says="With tiled, the result is right. Without it, the function returns None: "
                    "does each branch return something?",
                ),
                "list-times-n": Mistake(
                    lambda blocks, tiled: (
                        blocks * len(blocks) if tiled else _gathered(blocks, False)
                    ),
                    lambda blocks, tiled: blocks * len(blocks),
                    says="`blocks * n` repeats the entries of the list, so that it is n times as "
                    "long. Each entry must be everything that one device holds.",
                ),
                "first-block-alone": Mistake(
                    lambda blocks, tiled: (
                        [list(blocks[0]) if tiled else [list(blocks[0])]] * len(blocks)
                    ),
                    says="This is only the first device's block. Is the return inside the loop?",
                ),
                "32-bits": lambda blocks, tiled: _gathered(_in_32_bits(blocks), tiled),
            },
        ),
        Returns(
            "psum_scatter_ref",
            "psum_scatter_ref must return what each device holds after lax.psum_scatter, tiled.",
            cases=_sample_blocks,
            reference=_scattered,
            mistakes={
                "never-scattered": Mistake(
                    lambda blocks: [_added(blocks)] * len(blocks),
                    says="This is psum: every device has the complete sum. Each should keep only "
                    "its piece.",
                ),
                "never-summed": Mistake(
                    lambda blocks: _plain(
                        [np.split(b, len(blocks))[i] for i, b in enumerate(_arrays(blocks))]
                    ),
                    says="Each device has its piece of its own block: the blocks were not added "
                    "up.",
                ),
                "one-list": _added,
                "two-devices": lambda blocks: _scattered(blocks[:2]),
                "dealt-out": lambda blocks: _dealt(_added(blocks), len(blocks)),
                "added-twice": Mistake(
                    lambda blocks: [
                        [len(blocks) * number for number in piece] for piece in _scattered(blocks)
                    ],
                    says="Every number is too large by the number of devices: is it added up "
                    "twice?",
                ),
                "mean-for-sum": Mistake(
                    lambda blocks: [
                        [number / len(blocks) for number in piece] for piece in _scattered(blocks)
                    ],
                    lambda blocks: [
                        [number // len(blocks) for number in piece] for piece in _scattered(blocks)
                    ],
                    says="Every number is too small by the number of devices: this is the mean of "
                    "the blocks.",
                ),
                "largest-for-sum": Mistake(
                    lambda blocks: _plain(np.split(np.max(_arrays(blocks), axis=0), len(blocks))),
                    says="Each element is the maximum over the blocks. Expected: their sum.",
                ),
                "sums-of-blocks": Mistake(
                    lambda blocks: [[sum(block)] for block in blocks],
                    says="The elements of each block are added up. Add the blocks to each other, "
                    "element by element.",
                ),
                "one-number-each": lambda blocks: [[n] for n in _added(blocks)[: len(blocks)]],
                "first-piece-for-all": Mistake(
                    lambda blocks: _scattered(blocks)[:1] * len(blocks),
                    says="Every device has the first piece of the sum. Device i must get piece i.",
                ),
                "own-left-out": lambda blocks: [
                    (np.array(piece) - _cut_up(blocks, i, i)).tolist()
                    for i, piece in enumerate(_scattered(blocks))
                ],
                "first-left-out": Mistake(
                    lambda blocks: _plain(
                        np.split(np.sum(_arrays(blocks[1:]), axis=0), len(blocks))
                    ),
                    says="The first block is left out on every device.",
                ),
                "own-pieces-added": Mistake(
                    lambda blocks: _plain(
                        [np.sum(np.split(b, len(blocks)), axis=0) for b in _arrays(blocks)]
                    ),
                    says="Each device adds up the pieces of its own block. Add up the blocks, "
                    "element by element; each device keeps one piece of the result.",
                ),
                "pieces-of-n": lambda blocks: _of_length_n(_added(blocks), len(blocks)),
                "pieces-begin-at-the-number": Mistake(
                    lambda blocks: _from_its_number(
                        _added(blocks), len(blocks), len(blocks[0]) // len(blocks)
                    ),
                    lambda blocks: _from_its_number(_added(blocks), len(blocks), len(blocks)),
                ),
                "nothing-exchanged": lambda blocks: [list(b) for b in blocks],
                "float32": Mistake(
                    lambda blocks: _plain(np.split(_summed_in_float32(blocks), len(blocks))),
                    lambda blocks: _plain(
                        np.split(_summed_in_float32(blocks).astype(np.int64), len(blocks))
                    ),
                ),
                "32-bits": Mistake(
                    lambda blocks: _plain(
                        np.split(sum(_in_32_bits(blocks)).astype(np.int32), len(blocks))
                    ),
                    lambda blocks: _plain(np.split(sum(_in_32_bits(blocks)), len(blocks))),
                ),
            },
        ),
        Returns(
            "all_to_all_ref",
            "all_to_all_ref must return what each device holds after lax.all_to_all, tiled.",
            cases=_sample_blocks,
            reference=_exchanged,
            mistakes={
                "two-devices": lambda blocks: _exchanged(blocks[:2]),
                "own-piece-alone": Mistake(
                    lambda blocks: _plain([_cut_up(blocks, i, i) for i in range(len(blocks))]),
                    says="Each device has a piece of its own block, and nothing else. Device i "
                    "gets piece i of every block.",
                ),
                "nothing-exchanged": lambda blocks: [list(b) for b in blocks],
                "columns": Mistake(
                    lambda blocks: np.transpose(blocks).tolist(),
                    says="These are the columns of the table of blocks, a list for each element of "
                    "a block. Split each block into as many pieces as there are devices.",
                ),
                "pieces-begin-at-the-number": lambda blocks: [
                    [n for b in blocks for n in b[i : i + len(b) // len(blocks)]]
                    for i in range(len(blocks))
                ],
                "exchanged-and-added": Mistake(
                    lambda blocks: _scattered(blocks),
                    says="The pieces that a device receives are added up. An all-to-all "
                    "concatenates them unchanged.",
                ),
                "devices-backwards": Mistake(
                    lambda blocks: _plain(
                        [
                            np.concatenate(
                                [_cut_up(blocks, j, i) for j in range(len(blocks))[::-1]]
                            )
                            for i in range(len(blocks))
                        ]
                    ),
                    says="The pieces are right, but concatenated in the opposite order of the "
                    "devices.",
                ),
                "own-left-out": lambda blocks: _plain(
                    [
                        np.concatenate(
                            [_cut_up(blocks, j, i) for j in range(len(blocks)) if j != i]
                        )
                        for i in range(len(blocks))
                    ]
                ),
                "first-of-each-piece": Mistake(
                    lambda blocks: [
                        [int(_cut_up(blocks, j, i)[0]) for j in range(len(blocks))]
                        for i in range(len(blocks))
                    ],
                    says="Only the first element of each piece was sent.",
                ),
                "overwritten": Mistake(
                    _exchanged_in_place,
                    says="The results are written into the list that is still being read, so "
                    "device 0's block has changed after the first step. Does `out = blocks` make a "
                    "copy?",
                ),
                "blocks-rotated": Mistake(
                    lambda blocks: [*blocks[1:], blocks[0]],
                    lambda blocks: [blocks[-1], *blocks[:-1]],
                    says="Each device has the complete block of its neighbour. In an all-to-all it "
                    "gets one piece from every device.",
                ),
                "never-joined": Mistake(
                    lambda blocks: [
                        [np.split(b, len(blocks))[i].tolist() for b in _arrays(blocks)]
                        for i in range(len(blocks))
                    ],
                    says="The right pieces are in the right order. With tiled, concatenate them.",
                ),
                "gathered": Mistake(
                    lambda blocks: _gathered(blocks, True),
                    says="This is all_gather: every device has everything. Each should get one "
                    "piece from every device.",
                ),
                "one-list": lambda blocks: np.ravel(_exchanged(blocks)).tolist(),
                "transposed-numbers": Mistake(
                    lambda blocks: np.array(blocks).T.reshape(len(blocks), -1).tolist(),
                    says="The elements are transposed one by one. Devices exchange pieces, of as "
                    "many elements as a block has for each device.",
                ),
                "one-number-each": lambda blocks: [
                    [block[i] for block in blocks] for i in range(len(blocks))
                ],
                "dealt-out": _exchanged_by(_dealt),
                "pieces-of-n": _exchanged_by(_of_length_n),
                "float32": Mistake(
                    lambda blocks: _exchanged(_in_float32(blocks)),
                    lambda blocks: _exchanged(_in_float32_and_back(blocks)),
                ),
                "32-bits": lambda blocks: _exchanged(_in_32_bits(blocks)),
            },
        ),
    ),
    hints=(
        "blocks[i] is what device i holds before. Build a list whose entry i is what device i "
        "holds afterwards.",
        "all_gather: every device gets all blocks, concatenated if tiled, stacked if not. "
        "psum_scatter: add all blocks up, split the sum into as many pieces as there are devices, "
        "and give device i piece i.",
        "all_to_all: each device splits its block into pieces. Device i gets piece i of every "
        "device, concatenated in the order of the devices.",
    ),
    diagnoses={
        "two-devices": "There is an entry for each of the first two devices, and there may be "
        "more devices.",
        "own-left-out": "A device's own block is left out. It counts, too.",
        "float32": "The numbers pass through float32, which keeps about seven digits: the last "
        "digits of large numbers are lost.",
        "psum_scatter_ref: one-number-each": "Device i gets only element i of the sum. Split the "
        "sum into as many pieces as there are devices; a piece may have several elements.",
        "pieces-begin-at-the-number": "Your piece i begins at element i. It should begin at i "
        "times the length of a piece.",
        "one-list": "All numbers are there, in one list. Expected: a list with an entry for each "
        "device.",
        "nothing-exchanged": "These are the original blocks: nothing was exchanged.",
        "one-number-each": "Device i gets only element i of each block. Devices exchange pieces, "
        "of as many elements as a block has for each device.",
        "dealt-out": "The elements are dealt out one by one, like cards. A piece consists of "
        "neighbouring elements.",
        "pieces-of-n": "The length of your pieces is the number of devices. The number of pieces "
        "should be the number of devices.",
        "32-bits": "Only the last 32 bits of each number are left. Do you use JAX? NumPy's "
        "integers have 64 bits.",
    },
)

PARTS: Final = Exercise(
    id="5.4",
    title="An all-reduce, taken apart",
    afterwards="In a ring of n devices, each of the two halves sends (n - 1)/n of the buffer from "
    "every device. So an all-reduce sends almost twice the buffer, however many devices there are.",
    requirements=(
        Computes(
            "sum_by_parts",
            "sum_by_parts(x) must give each device, in its row, the sum of all rows.",
            lambda x: np.broadcast_to(x.sum(0), x.shape),
            _on_lines(_rows),
            {
                "by-pieces": Mistake(
                    lambda x: np.tile(x.sum(1, keepdims=True), (1, x.shape[1])),
                    says="The columns of one row are added up. Add up the rows.",
                ),
                "mean-for-sum": Mistake(
                    lambda x: np.broadcast_to(x.mean(0), x.shape),
                    says="The result is too small by the number of devices: this is the mean of "
                    "the rows.",
                ),
                "added-twice": Mistake(
                    lambda x: np.broadcast_to(x.sum(0) * len(x), x.shape).astype(x.dtype),
                    says="The result is too large by the number of devices: do you add up a sum "
                    "that every device has already?",
                ),
                "own-row": Mistake(
                    lambda x: x * np.float32(len(x)),
                    says="Each device has its own row, multiplied by the number of devices. Are "
                    "the rows gathered first and scattered afterwards? Do it the other way round: "
                    "scatter the sum, then gather its pieces.",
                ),
                "one-number": Mistake(
                    lambda x: np.full_like(x, x.sum()),
                    says="Every element is the sum of all elements: pieces are added up to one "
                    "number. Each column has a sum of its own, over the rows.",
                ),
                "pieces-as-rows": Mistake(
                    lambda x: np.tile(x.sum(0).reshape(len(x), -1), (len(x), 1)),
                    says="On each device the pieces of the sum are the rows of a matrix. They "
                    "should be one row. Which dimension does all_gather use by default?",
                ),
                "row-as-a-vector": Mistake(
                    lambda x: np.tile(x.sum(0), len(x)),
                    says="Each device returns its row as a vector, and out_specs concatenate the "
                    "vectors. The block that the body gets has two dimensions, and the one that it "
                    "returns needs two, too.",
                ),
                "pieces-not-joined": Mistake(
                    lambda x: np.tile(x.sum(0).reshape(1, len(x), -1), (len(x), 1, 1)),
                    says="The pieces are stacked in a new dimension. Concatenated, they are the "
                    "row: is tiled=True set?",
                ),
                "row-once": Mistake(
                    lambda x: x.sum(0, keepdims=True),
                    says="The sum is there once, for all devices together. The result needs a row "
                    "for each device, like x: do out_specs say that?",
                ),
            },
            under_mesh=True,
        ),
        Requests(
            "sum_by_parts",
            _each(
                lambda n: RequestedCollective("reduce-scatter", 1, ("x",), 4 * _rows(n)[1]),
                lambda n: RequestedCollective("all-gather", 1, ("x",), 4 * _rows(n)[1]),
            ),
        ),
    ),
    hints=(
        "After the first half, each device has a complete piece of the sum. After the second, "
        "every device has all pieces.",
        "lax.psum_scatter(…, tiled=True) splits dimension 0, so give it the row as a vector: the "
        "block has shape (1, columns).",
        "Apply psum_scatter to the vector and all_gather to the result, both tiled, and add the "
        "leading dimension again with [None].",
    ),
    diagnoses={
        "no reduce-scatter": "Compute the sum with a reduce-scatter.",
        "no all-gather": "Gather the pieces with an all-gather.",
        "shape": "The block has one row and all columns, and so must what each device returns. "
        "What is the shape after each of the two steps?",
        "in-pieces": "One collective of each kind is enough for all columns.",
        "not-replicated": "Do out_specs promise one result for all devices, as P() does? The "
        "result has a row for each device, like x. (After a psum_scatter and an all_gather all "
        "devices have the same, but JAX cannot prove it.)",
        "untiled": "In the body there is one row with all columns, and the columns have to be "
        "split. Which dimension do you scatter, and is tiled=True set?",
        "scatter-does-not-divide": "In the body there is one row with all columns, and the columns "
        "have to be split.",
    },
)


def _collected(x: Any, source: Callable[[int, int, int], int | None]) -> Any:
    """A row for each device i of n; at place j the block of device source(i, j, n), or zeros."""
    blocks = _blocks(x)
    n = len(blocks)
    empty = np.zeros_like(blocks[0])
    sources = [[source(i, j, n) for j in range(n)] for i in range(n)]
    return np.stack(
        [np.concatenate([empty if s is None else blocks[s] for s in row]) for row in sources]
    )


def _summed(x: Any, piece: Callable[[int, int, int], int | None]) -> Any:
    """On each device i of n a sum over all devices j of their piece(i, j, n), or of nothing."""
    n = len(x)
    pieces = x.reshape(n, n, -1)
    empty = np.zeros_like(pieces[0, 0])
    chosen = [[piece(i, j, n) for j in range(n)] for i in range(n)]
    return np.concatenate(
        [sum(empty if p is None else pieces[j, p] for j, p in enumerate(row)) for row in chosen]
    )


def _pieces(x: Any) -> tuple[Any, int]:
    """The pieces of each device's row, and how many devices there are."""
    return x.reshape(len(x), len(x), -1), len(x)


def _added_before_sending(x: Any) -> Any:
    """Add part (i - 1 - s) % n in step s before the sum is sent: a mistake."""
    parts, n = _pieces(x)
    growing = [parts[i, (i - 1) % n] for i in range(n)]
    for s in range(1, n):
        grown = [growing[i] + parts[i, (i - 1 - s) % n] for i in range(n)]
        growing = [grown[(i - 1) % n] for i in range(n)]
    return np.concatenate(growing)


def _part_sent(x: Any) -> Any:
    """Send a part in each step, and add what arrives to a sum that stays: a mistake."""
    parts, n = _pieces(x)
    growing = [parts[i, (i - 1) % n] for i in range(n)]
    for s in range(1, n):
        growing = [growing[i] + parts[(i - 1) % n, (i - 2 - s) % n] for i in range(n)]
    return np.concatenate(growing)


def _added_again(x: Any) -> Any:
    """Send everything that was collected in each step, and add what arrives: a mistake."""
    blocks = _blocks(x)
    n = len(blocks)
    rows = np.zeros((n, n, len(blocks[0])), x.dtype)
    rows[np.arange(n), np.arange(n)] = blocks
    for _ in range(n - 1):
        rows = rows + np.roll(rows, 1, axis=0)
    return rows.reshape(n, -1)


def _at_place(x: Any) -> Any:
    """Blocks written, as they arrive, at the number of their device, not that many blocks on."""
    blocks = _blocks(x)
    n, size = len(blocks), len(blocks[0])
    made = np.zeros((n, len(x)), x.dtype)
    for i in range(n):
        for s in range(n):
            start = (i - s) % n
            made[i, start : start + size] = blocks[start]
    return made


RINGS: Final = Exercise(
    id="5.5",
    title="Round the ring",
    afterwards="Ring attention is this ring with attention in each step: keys and values travel "
    "round it, while each device keeps its own queries.",
    requirements=(
        Computes(
            "ring_all_gather",
            "ring_all_gather(x) must return, for each device, a row with all of x.",
            lambda x: np.tile(x, (DEVICES[len(x)], 1)),
            _on_lines(_vector),
            {
                "wrong-order": Mistake(
                    lambda x: _collected(x, lambda i, j, n: (i - j) % n),
                    says="All blocks are there, in the order in which they arrived. Put each at "
                    "its own index: the block of step s is that of device (i - s) % n.",
                ),
                "against-the-ring": lambda x: _collected(x, lambda i, j, n: (2 * i - j) % n),
                "open-ring": lambda x: _collected(x, lambda i, j, n: j if j <= i else None),
                "one-is-missing": lambda x: _collected(
                    x, lambda i, j, n: None if j == (i + 1) % n else j
                ),
                "at-its-number": Mistake(
                    _at_place,
                    says="Each block begins at the number of its device, so that blocks overlap. "
                    "The block of device i begins at i times the size of a block.",
                ),
                "added-again": Mistake(
                    _added_again,
                    says="Each step sends everything that a device has collected and adds what "
                    "arrives, so the same block is added several times. Send only what arrived "
                    "last.",
                ),
                "own-block-again": Mistake(
                    lambda x: _collected(x, lambda i, j, n: i if j == i else (i - 1) % n),
                    lambda x: _collected(x, lambda i, j, n: i if j == 0 else (i - 1) % n),
                    says="Every step brings the block of the previous device again. Send what was "
                    "received last, not the device's own block each time.",
                ),
                "row-as-a-vector": Mistake(
                    lambda x: np.tile(x, DEVICES[len(x)]),
                    says="Each device returns all of x, but as a vector, and out_specs concatenate "
                    "the vectors. Expected: a row for each device. What shape should the body "
                    "return?",
                ),
                "blocks-as-rows": Mistake(
                    lambda x: np.tile(np.stack(_blocks(x)), (DEVICES[len(x)], 1)),
                    says="Each device returns the blocks as the rows of a matrix. Expected: one "
                    "row on each device, with the blocks concatenated.",
                ),
            },
            under_mesh=True,
        ),
        _placed("ring_all_gather", ROWS, lambda n: (n, n * BLOCK[n])),
        Requests(
            "ring_all_gather",
            _each(
                lambda n: RequestedCollective(
                    "collective-permute", n - 1, ("x",), 4 * BLOCK[n], True
                )
            ),
        ),
        Computes(
            "ring_reduce_scatter",
            "ring_reduce_scatter(x) must return the sum of the rows of x, a piece on each device.",
            lambda x: x.sum(0),
            _on_lines(_rows),
            {
                "wrong-piece": Mistake(
                    lambda x: _summed(x, lambda i, j, n: (i - 1) % n),
                    says="The sums are right, but each device holds that of its neighbour.",
                ),
                "wrong-piece-behind": Mistake(
                    lambda x: _summed(x, lambda i, j, n: (i + 1) % n),
                    says="The sums are right, but each device holds that of its neighbour.",
                ),
                "against-the-ring": lambda x: _summed(x, lambda i, j, n: (2 * j - i) % n),
                "open-ring": lambda x: _summed(x, lambda i, j, n: i if j <= i else None),
                "one-is-missing": lambda x: _summed(
                    x, lambda i, j, n: None if j == (i + 1) % n else (i + 1) % n
                ),
                "same-piece-always": Mistake(
                    lambda x: _summed(x, lambda i, j, n: j),
                    lambda x: _summed(x, lambda i, j, n: i if j == (i + 1) % n else j),
                    says="Each device adds the same part in every step. Each step's sum belongs to "
                    "another device: in step s, device i adds its part for device (i - 1 - s) % n.",
                ),
                "first-does-not-belong": Mistake(
                    lambda x: _summed(x, lambda i, j, n: i if j == (i + 1) % n else (i + 1) % n),
                    lambda x: _summed(x, lambda i, j, n: i if j == (i + 1) % n else (i - 1) % n),
                    lambda x: _summed(x, lambda i, j, n: (i + 1) % n if j == (i + 1) % n else i),
                    says="The first part of the sum and the parts that are added later belong to "
                    "different pieces. If device i begins with part (i - 1) % n, it adds part (i - "
                    "1 - s) % n in step s.",
                ),
                "counted-upwards": Mistake(
                    lambda x: _summed(x, lambda i, j, n: (i + 2 * ((j - i - 1) % n)) % n),
                    lambda x: _summed(
                        x,
                        lambda i, j, n: (
                            i if j == (i + 1) % n else (i + 1 + 2 * ((j - i - 1) % n)) % n
                        ),
                    ),
                    says="The index of the part grows with the steps, and it should fall: what "
                    "arrives in step s comes from s devices back.",
                ),
                "same-part-on-all": Mistake(
                    lambda x: _summed(x, lambda i, j, n: (j - i - 1) % n),
                    says="In each step, every device uses the part with the number of the step. "
                    "The index depends on the device's own number, too.",
                ),
                "last-part-alone": Mistake(
                    lambda x: _summed(x, lambda i, j, n: i if j == i else None),
                    says="Each sum consists of the device's own part only, which comes last. Add "
                    "it to what has arrived.",
                ),
                "added-before-sending": Mistake(
                    _added_before_sending,
                    says="The device's part is added before the sum is sent. Whose sum is it at "
                    "that moment? Send first, then add to what has arrived.",
                ),
                "never-added": Mistake(
                    lambda x: _summed(x, lambda i, j, n: i if j == (i + 1) % n else None),
                    says="Each device has only the part of its neighbour that was sent first: what "
                    "arrives is sent on, and nothing is added to it.",
                ),
                "part-sent": Mistake(
                    _part_sent,
                    says="Each step sends a single part, and the sum stays on its device. Send the "
                    "sum itself, so that it grows from device to device.",
                ),
                "own-part-missing": Mistake(
                    lambda x: _summed(x, lambda i, j, n: None if j == i else i),
                    says="Each sum lacks the part of the device that keeps it: add that device's "
                    "own part to what arrives last.",
                ),
                "first-part-missing": Mistake(
                    lambda x: _summed(x, lambda i, j, n: None if j == (i + 1) % n else i),
                    says="Each sum lacks the part of the device where it begins. Does it begin "
                    "with zeros?",
                ),
                "own-part-twice": Mistake(
                    lambda x: x.sum(0) + _summed(x, lambda i, j, n: i if j == i else None),
                    says="The sums are right, except that each device has added its own part "
                    "twice.",
                ),
                "two-places-off": Mistake(
                    lambda x: _summed(x, lambda i, j, n: (i + 2) % n),
                    lambda x: _summed(x, lambda i, j, n: (i - 2) % n),
                    says="The sums are right, but each device holds that of a device two positions "
                    "away.",
                ),
            },
            under_mesh=True,
        ),
        _placed("ring_reduce_scatter", STRIPS, lambda n: (_rows(n)[1],)),
        Requests(
            "ring_reduce_scatter",
            _each(
                lambda n: RequestedCollective(
                    "collective-permute", n - 1, ("x",), 4 * _rows(n)[1] // n, True
                )
            ),
        ),
    ),
    hints=(
        "lax.ppermute(a, 'x', [(i, (i + 1) % n) for i in range(n)]) sends each device's array to "
        "the next one. n is lax.axis_size('x'), and this device's number i is lax.axis_index('x').",
        "What arrives on device i in step s comes from device (i - s) % n. n blocks need n - 1 "
        "steps, since a device's own block is there already. The number i is traced and cannot "
        "index a Python list, but it can index an array: pieces[index], out.at[index].set(block).",
        "For the reduce-scatter, send a growing sum. Begin with your part for the device before "
        "you, and in step s add your part for device (i - 1 - s) % n. In the last step that is "
        "your own.",
    ),
    diagnoses={
        "one-too-many": "n - 1 steps bring the blocks of all other devices. Does a block arrive "
        "that is there already, such as the device's own?",
        "too-often": "n - 1 steps bring the blocks of all other devices. Do blocks arrive that are "
        "there already?",
        "ring_reduce_scatter: one-too-many": "A sum that begins with a part and grows at each "
        "device needs n - 1 steps. Does it begin with zeros, or return to where it began?",
        "ring_reduce_scatter: too-often": "A sum that begins with a part and grows at each device "
        "needs n - 1 steps.",
        "ring_reduce_scatter: too-seldom": "A sum grows by one part in each step, and n - 1 parts "
        "have to be added to the first one.",
        "ring_reduce_scatter: one-is-missing": "Each device has the sum that belongs to its "
        "neighbour, and one part of it is missing: is a step missing?",
        "too-seldom": "There are n - 1 other devices, and each step brings the block of the next "
        "one further away.",
        "explicit all-gather": "Use only permutations.",
        "no collective-permute": "Use permutations.",
        "sends-too-much": "In each step one block, or one piece of the sum, is enough.",
        "not-to-the-neighbour": "Blocks from further away are passed on from neighbour to "
        "neighbour.",
        "against-the-ring": "The permutation goes one way round the ring, and the indices are "
        "counted the other way.",
        "open-ring": "What should go from the last device to the first is zero: a device that is "
        "no pair's target gets zeros. Is there a pair for every device?",
        "one-is-missing": "The block of the device that is furthest away has not arrived: is a "
        "step missing?",
    },
    about=(Requests,),
)


def _differences(
    x: Any,
    before: tuple[int, int] = (-1, -1),
    after: tuple[int, int] = (1, 0),
    closed: tuple[bool, bool] = (True, True),
) -> Any:
    """The second difference by halos; for each halo the neighbour that it is of, and which end.

    Where the ring is not closed on a side, the halo is zero there.
    """
    blocks = _blocks(x)
    n = len(blocks)
    made = []
    for i, block in enumerate(blocks):
        halos = [
            blocks[(i + step) % n][end] if shut or 0 <= i + step < n else 0
            for (step, end), shut in zip((before, after), closed, strict=True)
        ]
        wide = np.concatenate([halos[:1], block, halos[1:]]).astype(x.dtype)
        made.append(wide[:-2] - 2 * block + wide[2:])
    return np.concatenate(made)


def _without_halos(x: Any, before: float | None, after: float | None) -> Any:
    """The second difference where a halo is zero on every device; the other one is as it is."""
    made = _differences(x)
    blocks, n = _blocks(x), len(_blocks(x))
    size = len(blocks[0])
    for i in range(n):
        if before is not None:
            made[i * size] -= blocks[i - 1][-1]
        if after is not None:
            made[(i + 1) * size - 1] -= blocks[(i + 1) % n][0]
    return made


def _edges(x: Any, put: Callable[[Any, Any], Any]) -> Any:
    """Each block's own second difference, closed for itself, where halos are put on its ends."""
    blocks = _blocks(x)
    made = []
    for i, block in enumerate(blocks):
        own = np.roll(block, 1) - 2 * block + np.roll(block, -1)
        own[0] = put(own[0], blocks[i - 1][-1])
        own[-1] = put(own[-1], blocks[(i + 1) % len(blocks)][0])
        made.append(own)
    return np.concatenate(made)


CURVE: Final = np.array([1, -2, 1], np.float32)
"""The factors of an element and its two neighbours in the second difference."""


def _closed(a: Any) -> Any:
    return np.roll(a, 1) - 2 * a + np.roll(a, -1)


def _with_halos(x: Any, compute: Callable[[Any], Any]) -> Any:
    """Apply a function to each block with its halos, and concatenate the results."""
    blocks, n = _blocks(x), len(_blocks(x))
    wide = [
        np.concatenate([blocks[i - 1][-1:], block, blocks[(i + 1) % n][:1]])
        for i, block in enumerate(blocks)
    ]
    return np.concatenate([compute(each) for each in wide])


HALO: Final = Exercise(
    id="5.6",
    title="A halo of one",
    afterwards="Weather models exchange halos in every step. Some exchange wider ones less often, "
    "because starting a message costs more than making it a little longer.",
    requirements=(
        Computes(
            "second_difference",
            "second_difference(x) must return np.roll(x, 1) - 2 * x + np.roll(x, -1).",
            lambda x: np.roll(x, 1) - 2 * x + np.roll(x, -1),
            _on_lines(_vector),
            {
                "open-ends": Mistake(
                    lambda x: _differences(x, closed=(False, False)),
                    says="The ends must wrap around: the last element is the neighbour of the "
                    "first. Is there a pair that closes the ring?",
                ),
                "open-at-the-end": Mistake(
                    lambda x: _differences(x, closed=(True, False)),
                    says="The ring is closed on one side only: the last element uses a zero in "
                    "place of its right neighbour, which is the first.",
                ),
                "open-at-the-start": Mistake(
                    lambda x: _differences(x, closed=(False, True)),
                    says="The ring is closed on one side only: the first element uses a zero in "
                    "place of its left neighbour, which is the last.",
                ),
                "blocks-alone": Mistake(
                    lambda x: np.concatenate(
                        [np.roll(b, 1) - 2 * b + np.roll(b, -1) for b in _blocks(x)]
                    ),
                    says="Each block wraps around by itself.",
                ),
                "halos-exchanged": Mistake(
                    lambda x: _differences(x, (1, 0), (-1, -1)),
                    says="The number from the previous device is placed after the block, and the "
                    "other way round.",
                ),
                "wrong-end": Mistake(
                    lambda x: _differences(x, (-1, 0), (1, -1)),
                    says="The wrong ends were sent: the next device needs your last element, the "
                    "previous one your first.",
                ),
                "wrong-way-round": Mistake(
                    lambda x: _differences(x, (1, -1), (-1, 0)),
                    says="The right ends were sent, each in the wrong direction: the last element "
                    "came from the next device, the first from the previous one.",
                ),
                "one-way": Mistake(
                    lambda x: _differences(x, (-1, -1), (-1, 0)),
                    says="Both numbers came from the previous device. One of the two permutations "
                    "has to go the other way.",
                ),
                "other-sign": Mistake(
                    lambda x: 2 * x - np.roll(x, 1) - np.roll(x, -1), says="The sign is reversed."
                ),
                "whole-blocks": Mistake(
                    lambda x: (
                        np.roll(x, len(_blocks(x)[0])) - 2 * x + np.roll(x, -len(_blocks(x)[0]))
                    ),
                    says="Each element is compared with those at the same index in the neighbours' "
                    "blocks: this shifts x by a whole block, and not by one element.",
                ),
                "once-itself": Mistake(
                    lambda x: np.roll(x, 1) - x + np.roll(x, -1),
                    says="The element itself is subtracted once. It counts twice.",
                ),
                "one-end-wrong": Mistake(
                    lambda x: _differences(x, after=(1, -1)),
                    lambda x: _differences(x, before=(-1, 0)),
                    says="One of the two numbers is from the wrong end of the neighbour's block: "
                    "from the previous device you need its last, from the next device its first.",
                ),
                "one-halo-twice": Mistake(
                    lambda x: _differences(x, after=(-1, -1)),
                    lambda x: _differences(x, before=(1, 0)),
                    says="The same number is used at both ends of the block. One end needs a "
                    "number from the previous device, the other one from the next.",
                ),
                "own-element-as-halo": Mistake(
                    lambda x: _differences(x, after=(0, -1)),
                    lambda x: _differences(x, before=(0, 0)),
                    lambda x: _differences(x, (0, 0), (0, -1)),
                    says="In place of the neighbour's number, the block's own edge element is used "
                    "again. Is the result of the permutation put there?",
                ),
                "closed-for-itself": Mistake(
                    lambda x: _differences(x, after=(0, 0)),
                    lambda x: _differences(x, before=(0, -1)),
                    says="One end of the block uses the block's own other end, and not the "
                    "neighbour's number.",
                ),
                "two-devices-away": Mistake(
                    lambda x: _differences(x, after=(2, 0)),
                    lambda x: _differences(x, before=(-2, -1)),
                    lambda x: _differences(x, (-2, -1), (2, 0)),
                    says="A number came from a device two positions away. Look at the pairs: the "
                    "neighbour of device i is i + 1.",
                ),
                "second-from-the-edge": Mistake(
                    lambda x: _differences(x, after=(1, 1)),
                    lambda x: _differences(x, before=(-1, -2)),
                    lambda x: _differences(x, (-1, -2), (1, 1)),
                    says="The element next to the edge was sent, and not the one at the edge.",
                ),
                "halo-left-on": Mistake(
                    lambda x: _with_halos(x, lambda wide: _closed(wide)),
                    lambda x: _with_halos(x, lambda wide: np.convolve(wide, CURVE, "same")),
                    lambda x: _with_halos(
                        x, lambda wide: np.pad(np.convolve(wide, CURVE, "valid"), 1)
                    ),
                    says="Each device returns two more elements than its block has: the halos are "
                    "still there. Only the computation needs them.",
                ),
                "never-received": Mistake(
                    lambda x: _without_halos(x, 0, None),
                    lambda x: _without_halos(x, None, 0),
                    says="One of the two halos is zero on every device: do the pairs of its "
                    "permutation include every device?",
                ),
                "halo-on-top": Mistake(
                    lambda x: _edges(x, lambda own, halo: own + halo),
                    says="The block wraps around by itself, and the neighbour's number is added to "
                    "that. It should replace the block's other end.",
                ),
                "halo-as-result": Mistake(
                    lambda x: _edges(x, lambda own, halo: halo),
                    says="At the ends of the block, the result is the received number itself.",
                ),
                "sum-of-three": Mistake(
                    lambda x: np.roll(x, 1) + 2 * x + np.roll(x, -1),
                    says="Twice the element is added. Subtract it.",
                ),
                "all-added": Mistake(
                    lambda x: np.roll(x, 1) + x + np.roll(x, -1),
                    says="All three are added up. Subtract twice the element itself.",
                ),
                "neighbour-taken-away": Mistake(
                    lambda x: np.roll(x, 1) - 2 * x - np.roll(x, -1),
                    lambda x: np.roll(x, -1) - 2 * x - np.roll(x, 1),
                    says="One of the two neighbours is subtracted. Add both.",
                ),
                "four-times-itself": Mistake(
                    lambda x: np.roll(x, 1) - 4 * x + np.roll(x, -1),
                    says="The element itself is subtracted four times. Expected: twice.",
                ),
                "first-difference": Mistake(
                    lambda x: x - np.roll(x, 1),
                    lambda x: np.roll(x, -1) - x,
                    says="This is the first difference: each element and one neighbour.",
                ),
                "neighbours-alone": Mistake(
                    lambda x: np.roll(x, -1) - np.roll(x, 1),
                    lambda x: np.roll(x, 1) - np.roll(x, -1),
                    lambda x: np.roll(x, 1) + np.roll(x, -1),
                    lambda x: (np.roll(x, 1) + np.roll(x, -1)) / 2,
                    lambda x: (np.roll(x, -1) - np.roll(x, 1)) / 2,
                    says="This is the sum of the two neighbours. Subtract twice the element "
                    "itself.",
                ),
                "twice-a-neighbour": Mistake(
                    lambda x: np.roll(x, 1) - 2 * np.roll(x, -1) + x,
                    lambda x: np.roll(x, -1) - 2 * np.roll(x, 1) + x,
                    says="Twice a neighbour is subtracted instead of twice the element itself: are "
                    "the slices shifted by one?",
                ),
            },
            under_mesh=True,
        ),
        Requests(
            "second_difference",
            _each(lambda n: RequestedCollective("collective-permute", 2, ("x",), 4)),
        ),
    ),
    hints=(
        "Inside a block nothing is missing. Only the first and the last element need a neighbour, "
        "and each needs a single number from it.",
        "Send your last element to the next device and your first to the previous one: two "
        "permutations of arrays with one element (block[-1:], block[:1]).",
        "Put them together: jnp.concatenate([from_before, block, from_next]) has two more "
        "elements, and the rest is plain NumPy.",
    ),
    diagnoses={
        "sends-too-much": "One element from each neighbour is enough.",
        "too-often": "A device needs one number from each side, so two permutations are enough.",
        "explicit all-gather": "An all-gather sends data from every device to every device. A "
        "device needs only one number from each neighbour.",
        "no collective-permute": "The elements at the edges of a block have neighbours on other "
        "devices, and a permutation fetches them. (Is x rolled or indexed outside the body? There "
        "the compiler sends them.)",
    },
)

SYSTEMS: Final = {8: 2, 4: 3}
"""The number of systems on each device, for each size of the mesh."""


def _matrices(n: int) -> tuple[int, int, int]:
    return (SYSTEMS[n] * n, 4, 4)


def _sides(n: int) -> tuple[int, int]:
    return _matrices(n)[:2]


def _solved(A: Any, b: Any, eight: float = 8, everywhere: bool = False) -> Any:
    added = np.ones_like(A) if everywhere else np.eye(A.shape[-1], dtype=A.dtype)
    return np.linalg.solve(A + np.float32(eight) * added, b[..., None])[..., 0]


def _sides_by_device(A: Any, b: Any) -> Any:
    """The solutions with the sides that begin at the device's number."""
    n = next(n for n in SIZES if _matrices(n) == A.shape)
    starts = np.repeat(np.arange(n), len(A) // n)
    return _solved(A, b[starts + np.arange(len(A)) % (len(A) // n)])


def _first_matrices(A: Any, b: Any) -> Any:
    """The solutions where each device uses the first of its matrices for all of its sides."""
    n = next(n for n in SIZES if _matrices(n) == A.shape)
    own = len(A) // n
    return _solved(A[np.arange(len(A)) // own * own], b)


def _first_sides(A: Any, b: Any) -> Any:
    """The solutions where each device uses the first of its sides for all of its systems."""
    n = next(n for n in SIZES if _matrices(n) == A.shape)
    own = len(A) // n
    return _solved(A, b[np.arange(len(A)) // own * own])


def _by_diagonals(A: Any, b: Any) -> Any:
    """The solutions where each matrix is multiplied by 8 I element by element."""
    return b / (8 * np.diagonal(A, axis1=1, axis2=2))


SOLVES: Final = Exercise(
    id="5.7",
    title="Many small systems",
    afterwards="Independent problems are the best case of all: they scale to as many devices as "
    "there are problems.",
    requirements=(
        Computes(
            "solve_all",
            "solve_all(A, b) must return, for each i, the solution of (A[i] + 8 I) x = b[i].",
            _solved,
            _on_lines(_matrices, _sides),
            {
                "eight-everywhere": Mistake(
                    lambda A, b: _solved(A, b, everywhere=True),
                    says="8 is added to every element. I has ones only on the diagonal.",
                ),
                "eight-forgotten": Mistake(
                    lambda A, b: _solved(A, b, eight=0),
                    says="These are the solutions of A[i] x = b[i].",
                ),
                "one-for-eight": Mistake(
                    lambda A, b: _solved(A, b, eight=1),
                    says="These are the solutions of (A[i] + I) x = b[i].",
                ),
                "transposed-systems": Mistake(
                    lambda A, b: _solved(A.swapaxes(1, 2), b),
                    says="These are the solutions with each matrix transposed.",
                ),
                "others-sides": Mistake(
                    _sides_by_device,
                    says="The systems are solved with the right-hand sides of other systems: a "
                    "device's first system is looked up at the device's number, though each device "
                    "has several.",
                ),
                "eight-taken-away": Mistake(
                    lambda A, b: _solved(A, b, eight=-8),
                    says="These are the solutions of (A[i] - 8 I) x = b[i].",
                ),
                "eight-times-the-matrix": Mistake(
                    lambda A, b: _solved(8 * A, b, eight=1),
                    says="These are the solutions of (8 A[i] + I) x = b[i].",
                ),
                "diagonal-alone": Mistake(
                    _by_diagonals,
                    says="Only the diagonal of 8 A[i] is left of each matrix: `*` multiplies "
                    "element by element. Add 8 I.",
                ),
                "multiplied": Mistake(
                    lambda A, b: np.einsum("nij,nj->ni", A + 8 * np.eye(4, dtype=A.dtype), b),
                    says="b[i] is multiplied by A[i] + 8 I. Find the x that gives b[i].",
                ),
                "eight-added-later": Mistake(
                    lambda A, b: _solved(A, b, eight=0) + 8,
                    says="8 is added to the solutions of A[i] x = b[i]. Add 8 I to the matrix.",
                ),
                "first-matrix-for-all": Mistake(
                    _first_matrices,
                    says="Each device solves all of its systems with its first matrix. Every "
                    "system has its own.",
                ),
                "first-side-for-all": Mistake(
                    _first_sides,
                    says="Each device solves all of its systems with its first right-hand side. "
                    "Every system has its own.",
                ),
                "matrix-left-out": Mistake(
                    lambda A, b: b / np.float32(8), says="This is b / 8: A is not used."
                ),
                "an-eighth-for-eight": Mistake(
                    lambda A, b: _solved(A, b, eight=1 / 8),
                    says="These are the solutions of (A[i] + I / 8) x = b[i].",
                ),
                "eight-as-a-factor": Mistake(
                    lambda A, b: _solved(8 * A, b, eight=0),
                    says="These are the solutions of 8 A[i] x = b[i]. Add 8 I to A[i].",
                ),
            },
            under_mesh=True,
        ),
        Requests("solve_all", ((), ())),
        CommunicatesAtMost("solve_all", ((), ())),
    ),
    hints=(
        "The systems are independent: each device solves its own, of which it has several.",
        "in_specs of P('x') for both shard the batch. In the body, A and b contain some of the "
        "systems, each of them complete.",
        "jnp.linalg.solve takes batches: solve(A, b[..., None])[..., 0]. Or vmap a solve of one "
        "system over the batch in the body.",
    ),
    diagnoses={
        "shape": "Each device has several systems, and the solution of each is a vector. What "
        "shape does the body return?",
        "all-gather": "Something is gathered onto every device, though no device needs the "
        "others' systems.",
        "explicit all-gather": "No device needs another's systems.",
        "raised": "Does JAX complain about shapes in solve? Compare them: in the body, A and b "
        "must have the same number of systems, so in_specs should shard both. And each right-hand "
        "side is a vector, while solve, for many systems at once, expects right-hand sides as "
        "matrices.",
    },
)


def _overlapping(x: Any) -> Any:
    """The sum where each block is put at its device's number, not that many blocks on."""
    blocks = _blocks(x)
    made = np.zeros_like(x)
    for i, block in enumerate(blocks):
        made[i : i + len(block)] += block
    return made


def _one_place_too_far(x: Any) -> Any:
    """The sum where each block is put a block too far on, and the last ones at the end."""
    blocks = _blocks(x)
    made, size = np.zeros_like(x), len(blocks[0])
    for i, block in enumerate(blocks):
        start = min((i + 1) * size, len(x) - size)
        made[start : start + size] += block
    return made


def _from_the_end(x: Any) -> Any:
    """The sum where the block of device i begins n - i blocks on, and the first at the end."""
    blocks = _blocks(x)
    made, size = np.zeros_like(x), len(blocks[0])
    for i, block in enumerate(blocks):
        start = min((len(blocks) - i) * size, len(x) - size)
        made[start : start + size] += block
    return made


LARGE_NUMBERS: Final = tuple(
    (argument.but(scale=scale),)
    for (argument,), scale in zip(_on_lines(_vector), (1.0, 1e6), strict=True)
)
"""A vector on each mesh, where a maximum over -1,000 and the like is not a maximum over -inf."""


CHECKED: Final = Exercise(
    id="5.8",
    title="With the VMA check on",
    afterwards="In a ring, this all-reduce sends twice as much as an all-gather. That is the "
    "price of a result whose type says that it is the same everywhere.",
    requirements=(
        Computes(
            "everywhere",
            "everywhere(x) must be x.",
            lambda x: x,
            LARGE_NUMBERS,
            {
                "at-its-number": Mistake(
                    _overlapping,
                    says="Each block begins at the number of its device, so that blocks overlap. "
                    "How many elements come before the block of device i?",
                ),
                "all-at-the-start": Mistake(
                    lambda x: np.concatenate(
                        [sum(_blocks(x)), *map(np.zeros_like, _blocks(x)[1:])]
                    ),
                    says="Every device writes its block at the start, so the sum of all blocks is "
                    "there, and the rest is zeros. Where does the block of device i belong?",
                ),
                "blocks-added": Mistake(
                    lambda x: sum(_blocks(x)),
                    says="The blocks are added to each other, so the result is only as long as one "
                    "of them. Before they are added up, each block needs its own position in a "
                    "longer vector.",
                ),
                "on-top-of-each-other": Mistake(
                    lambda x: np.tile(sum(_blocks(x)), DEVICES[len(x)]),
                    says="Every position has the sum of all blocks. Before they are added up, each "
                    "device must have its own block in one position, and zeros in all others.",
                ),
                "mean-for-sum": Mistake(
                    lambda x: x / _n(x),
                    says="The result is too small by the number of devices: is it a mean where a "
                    "sum is needed?",
                ),
                "backwards": Mistake(
                    lambda x: np.concatenate(_blocks(x)[::-1]),
                    says="The blocks are in the opposite order.",
                ),
                "one-place-too-far": Mistake(
                    _one_place_too_far,
                    says="Each block is one block too far along, and the last two overlap at the "
                    "end, where lax.dynamic_update_slice puts what does not fit. Count devices "
                    "from 0.",
                ),
                "counted-from-the-end": Mistake(
                    _from_the_end,
                    says="The positions are counted from the end, and the first two blocks overlap "
                    "there. How many blocks come before that of device i?",
                ),
                "smallest-for-sum": Mistake(
                    lambda x: np.minimum(x, 0),
                    says="Every value that should be positive is 0; the others are right. Is a "
                    "minimum taken over blocks and zeros?",
                ),
                "filled-with-ones": Mistake(
                    lambda x: x + _n(x) - 1,
                    says="Every value is too large by the number of the other devices: do their "
                    "vectors have ones in its position? They should have zeros.",
                ),
                "largest-for-sum": Mistake(
                    lambda x: np.maximum(x, 0),
                    *(
                        lambda x, fill=-(10.0**digits): np.maximum(x, np.float32(fill))
                        for digits in range(7)
                    ),
                    says="The smallest values are all the same number, and the others are right. "
                    "Is a maximum taken over blocks and this number? A value may be smaller.",
                ),
                "order-of-arrival": Mistake(
                    lambda x: np.tile(sum(_blocks(x)) / _n(x), DEVICES[len(x)]),
                    says="Every position has the mean of all blocks. Before they are averaged, "
                    "each block must be in its own position: not in another order on each device, "
                    "and not a device's own block in every position.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "everywhere",
            "0,1,2,3,4,5,6,7",
            tuple(map(_vector, SIZES)),
            elsewhere=("0,1,2,3",),
        ),
        Requests("everywhere", never=("all-gather",), at_least={"all-reduce": 1}),
    ),
    hints=(
        "JAX cannot prove that the result of all_gather is the same everywhere, though it is. For "
        "which collective can it?",
        "For psum. Can you write a gather as a sum? Most terms would be zero.",
        "Each device writes its block into a long vector of zeros at its own position "
        "(jax.lax.dynamic_update_slice, at axis_index times the block's size), and psum adds the "
        "vectors up.",
    ),
    diagnoses={
        "not-replicated": "JAX cannot prove that the result is the same everywhere. Find a "
        "collective for which it can.",
        "explicit all-gather": "After an all_gather, JAX cannot prove that its result is the same "
        "everywhere. Find a collective for which it can.",
        "no all-reduce": "JAX knows that an all-reduce gives every device the same. Do you gather "
        "x in another way, or outside the body? Is check_vma off?",
        "nothing-moved": "x is still sharded, as it was.",
        "added-by-the-compiler": "Gather x in the body, with a collective that you write.",
        "shape": "The result must be as long as x. How long is what each device returns, is a "
        "size hard-coded, and do out_specs concatenate replicas?",
    },
    about=(Requests,),
)

EXERCISES: Final = (SHAPES, REDUCTIONS, MODELS, PARTS, RINGS, HALO, SOLVES, CHECKED)
