"""Notebook 05: one program for each device, and collectives by hand.

A note for maintainers: what is asked for by hand is read from the exported program, so these
exercises depend on no compiler but in 5.7. Functions are judged under two meshes, of eight and of
four devices (`jax.set_mesh`), with blocks of different sizes, so that neither can be written in.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from autograder.judge import (
    AnyOf,
    Ask,
    CommunicatesAtMost,
    Computes,
    Exercise,
    PlacedLike,
    Predicts,
    Requests,
    Returns,
)
from autograder.programs import Argument

SIZES: Final = (8, 4)
"""The sizes of the meshes that a function is judged on."""

BLOCK: Final = {8: 8, 4: 6}
"""How many elements each device has of a vector, on each of the meshes."""

MANY: Final = 64
"""How many it has on the smaller mesh where the values are to be extreme."""

DEVICES: Final = {n * size: n for n, size in (*BLOCK.items(), (4, MANY))}
"""How many devices a vector is cut over, by its length."""

STRIPS: Final = ("0 1 2 3 4 5 6 7", "0 1 2 3")
ROWS: Final = ("0\n1\n2\n3\n4\n5\n6\n7", "0\n1\n2\n3")


def _on_lines(*shapes: Any) -> tuple[tuple[Argument, ...], ...]:
    """For each mesh, arguments cut along x in their first dimension; a shape is made from n."""
    return tuple(
        tuple(Argument(shape(n), (("x", n),), ("x",), mode="auto") for shape in shapes)
        for n in SIZES
    )


def _each(*asks: Any) -> tuple[tuple[Ask, ...], ...]:
    """For each mesh, what is to be asked for, made from its size."""
    return tuple(tuple(ask(n) for ask in asks) for n in SIZES)


def _vector(n: int) -> tuple[int, ...]:
    return (n * BLOCK[n],)


def _rows(n: int) -> tuple[int, int]:
    """A row for each device, with columns for each of them to have some of the sum."""
    return (n, {8: 2, 4: 3}[n] * n)


def _placed(answer: str, pictures: tuple[str, str], shape: Any) -> PlacedLike:
    return PlacedLike(answer, pictures[0], tuple(map(shape, SIZES)), elsewhere=pictures[1:])


def _blocks(x: Any) -> list[Any]:
    """The blocks of a vector, or of one row for each device."""
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
    afterwards="In the body all devices run the same code on blocks of the same shape: only "
    "lax.axis_index tells one from another.",
    requirements=(
        _cell(
            "inside", "P('x', 'y')", (4, 8),
            {
                "global": (16, 16), "like-vmap": AnyOf(((), (16,))), "axes-exchanged": (8, 4),
                "how-many": (4, 2), "all-devices": (2, 2),
            },
        ),
        _cell(
            "inside", "P('x')", (4, 16),
            {
                "global": (16, 16), "like-vmap": (16,), "both-cut": (4, 8),
                "axes-exchanged": (8, 16), "other-dimension": (16, 4), "all-devices": (2, 16),
                "dimension-dropped": (4,), "how-many": (4, 1),
            },
        ),
        _cell(
            "inside", "P(None, ('x', 'y'))", (16, 2),
            {
                "global": (16, 16), "like-vmap": (16,), "other-dimension": (2, 16),
                "one-axis": (16, 4), "eight": (16, 8), "both-cut": (4, 8),
                "dimension-dropped": (2,),
                "sizes-added": (16, 3), "how-many": (1, 8),
            },
        ),
        _cell(
            "inside", "P()", (16, 16),
            {"both-cut": (4, 8), "like-vmap": AnyOf(((), (16,))),
                "all-devices": AnyOf(((2, 16), (16, 2), (2, 2))), "how-many": (1, 1),},
        ),
        _cell(
            "outside", "P('x', 'y')", (16, 16),
            {
                "still-inside": (4, 8), "axes-exchanged": (8, 32), "stacked": (4, 2, 4, 8),
                "how-many": (4, 2),
            },
        ),
        _cell(
            "outside", "P(('x', 'y'), None)", (32, 8),
            {
                "still-inside": (4, 8), "as-before": (16, 16), "other-dimension": (4, 64),
                "one-axis": AnyOf(((16, 8), (8, 8))), "sizes-added": (24, 8),
                "none-joined": AnyOf(((32, 16), (32, 32), (32, 64))), "stacked": (8, 4, 8),
                "how-many": (8, 1),
            },
        ),
        _cell(
            "outside", "P('y', 'x')", (8, 32),
            {
                "still-inside": (4, 8), "as-before": (16, 16), "stacked": (2, 4, 4, 8),
                "lengths-exchanged": (32, 8),
                "how-many": (2, 4),
            },
        ),
    ),
    hints=(
        "In the body, an array has the shape of one device's block. in_specs cut, as a layout's "
        "spec does.",
        "The rank stays. It is vmap that takes a dimension away; shard_map divides it.",
        "out_specs put blocks together: each dimension of the block, times the sizes of the axes "
        "that its entry names.",
    ),
    diagnoses={
        "global": "That is the whole array. The body sees one device's block of it.",
        "like-vmap": "vmap takes a dimension away; shard_map makes it smaller, and the rank stays.",
        "both-cut": "An entry cuts its own dimension and no other, and only along the axes that it "
        "names; along an axis that no entry names every device gets a copy.",
        "axes-exchanged": "Are the sizes of the axes exchanged? x has four devices, and y two.",
        "all-devices": "An entry cuts by the axes that it names, and not by all devices.",
        "dimension-dropped": "A dimension is missing. One that is not sharded stays as long as it "
        "is, and the rank stays.",
        "lengths-exchanged": "These are the two lengths in the opposite order: the first entry "
        "is about dimension 0 of the blocks.",
        "how-many": "Is that the number of blocks? The shape says how long each dimension is.",
        "other-dimension": "An entry of the spec speaks of the dimension in its place: the first "
        "of dimension 0.",
        "one-axis": "The entry names two axes, and both count: their sizes multiply.",
        "eight": "8 is the number of parts, or the length of a part if y alone cut the dimension. "
        "Both axes cut it, and the shape has the length of a part.",
        "sizes-added": "The entry names two axes: their sizes multiply.",
        "none-joined": "Where the entry is None, no axis is named, and nothing is put together "
        "along that dimension.",
        "stacked": "Blocks are put end to end and not stacked: the rank stays.",
        "still-inside": "That is one device's block. Outside, the blocks are put together.",
        "as-before": "The result need not have the shape of the argument: out_specs alone decide, "
        "and it matters in which entry an axis stands.",
        "other-prediction": "Go through it dimension by dimension: which axes does its entry name, "
        "and how many blocks do these make?",
    },
)  # fmt: skip


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum()


NUMBERS: Final = (
    *_on_lines(_vector)[:1],
    (Argument((4 * MANY,), (("x", 4),), ("x",), mode="auto", scale=60.0, shift=-1000.0),),
)
"""A vector on each mesh; on the second, exp is 0 of all, and too large of the differences."""


def _n(x: Any) -> Any:
    """How many devices a vector is cut over, as a number of its type."""
    return np.float32(DEVICES[len(x)])


def _stacked(x: Any) -> Any:
    """The blocks of a vector, one in each row: a column has the same place of all blocks."""
    return np.stack(_blocks(x))


def _normal_exps(x: Any) -> Any:
    """Exps shifted by the largest number; XLA computes with 0 where one is subnormal."""
    e = np.exp(x - x.max())
    return np.where(e < np.finfo(e.dtype).tiny, np.zeros_like(e), e)


def _shifted_by_place(x: Any) -> Any:
    """Exps where each place is shifted by the largest number in that place of all blocks."""
    return np.exp(_stacked(x) - _stacked(x).max(0))


REDUCTIONS: Final = Exercise(
    id="5.2",
    title="To psum or not to psum",
    afterwards="JAX has no derivative of lax.pmax. A softmax that is to be differentiated passes "
    "its block's maximum through lax.stop_gradient before the pmax.",
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
                        "added-twice": lambda x: x.sum() * _n(x),
                        "mean-for-sum": lambda x: x.sum() / _n(x),
                        "mean-of-all": lambda x: x.mean(),
                        "first-elements": AnyOf(
                            (
                                lambda x: sum(b[0] for b in _blocks(x)),
                                lambda x: sum(b[-1] for b in _blocks(x)),
                            )
                        ),
                        "one-sum-each": lambda x: np.stack([b.sum() for b in _blocks(x)]),
                        "sum-of-largest": lambda x: sum(b.max() for b in _blocks(x)),
                        "place-by-place": AnyOf(
                            (lambda x: _stacked(x).sum(0), lambda x: _stacked(x).mean(0))
                        ),
                    },
                ),
                (
                    "average",
                    "the mean of x",
                    lambda x: x.mean(),
                    1,
                    {
                        "sum-of-means": lambda x: x.mean() * _n(x),
                        "sum-for-mean": lambda x: x.sum(),
                        "mean-of-sums": lambda x: x.sum() / _n(x),
                        "divided-twice": AnyOf(
                            (
                                lambda x: x.mean() / np.float32(len(_blocks(x)[0])),
                                lambda x: x.mean() * _n(x) / np.float32(len(_blocks(x)[0])),
                                lambda x: x.mean() / _n(x),
                            )
                        ),
                        "first-elements": AnyOf(
                            (
                                lambda x: sum(b[0] for b in _blocks(x)) / _n(x),
                                lambda x: sum(b[-1] for b in _blocks(x)) / _n(x),
                            )
                        ),
                        "fixed-divisor": AnyOf(
                            tuple(
                                lambda x, by=by: x.sum() / np.float32(by)
                                for by in (8, 16, 32, 64, 128, 256)
                            )
                        ),
                        "place-by-place": AnyOf(
                            (
                                lambda x: _stacked(x).mean(0),
                                lambda x: _stacked(x).sum(0),
                                lambda x: _stacked(x).sum(0) / np.float32(len(_blocks(x)[0])),
                                lambda x: _stacked(x).sum(0) / np.float32(len(x)),
                            )
                        ),
                        "median": AnyOf(
                            (
                                lambda x: np.median(x).astype(x.dtype),
                                lambda x: np.mean([np.median(b) for b in _blocks(x)]).astype(
                                    x.dtype
                                ),
                            )
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
                        "at-least-zero": lambda x: x.max(initial=0),
                        "first-elements": AnyOf(
                            (
                                lambda x: max(b[0] for b in _blocks(x)),
                                lambda x: max(b[-1] for b in _blocks(x)),
                            )
                        ),
                        "smallest": lambda x: x.min(),
                        "place-by-place": AnyOf(
                            (lambda x: _stacked(x).max(0), lambda x: _stacked(x).sum(0))
                        ),
                        "blocks-added-first": lambda x: _stacked(x).sum(0).max(),
                        "largest-of-others": AnyOf(
                            (
                                lambda x: max(b.min() for b in _blocks(x)),
                                lambda x: max(b.sum() for b in _blocks(x)),
                                lambda x: max(b.mean() for b in _blocks(x)),
                            )
                        ),
                    },
                ),
                (
                    "softmax",
                    "exp(x) / exp(x).sum(), safe for large x",
                    _softmax,
                    2,
                    {
                        "each-for-itself": lambda x: np.concatenate([
                            _softmax(b) for b in _blocks(x)
                        ]),
                        "local-largest": lambda x: np.concatenate([
                            np.exp(b - b.max()) for b in _blocks(x)
                        ]) / sum(np.exp(b - b.max()).sum() for b in _blocks(x)),
                        "divisor-for-each-place": AnyOf(
                            (
                                lambda x: np.ravel(
                                    _normal_exps(_stacked(x)) / _normal_exps(_stacked(x)).sum(0)
                                ),
                                lambda x: np.ravel(
                                    _shifted_by_place(x) / _shifted_by_place(x).sum(0)
                                ),
                            )
                        ),
                        "largest-for-each-place": lambda x: np.ravel(
                            _shifted_by_place(x) / _shifted_by_place(x).sum()
                        ),
                        "difference-turned": lambda x: (
                            np.exp(x.max() - x) / np.exp(x.max() - x).sum()
                        ),
                        "largest-divided-by": lambda x: (
                            np.exp(x / x.max()) / np.exp(x / x.max()).sum()
                        ),
                        "never-divided": lambda x: np.exp(x - x.max()),
                        "exp-of-the-sum": lambda x: (
                            np.exp(x - x.max()) / np.exp((x - x.max()).sum())
                        ),
                        "no-exp-above": AnyOf(
                            (
                                lambda x: (x - x.max()) / np.exp(x - x.max()).sum(),
                                lambda x: x / np.exp(x - x.max()).sum(),
                            )
                        ),
                        "logarithm": lambda x: x - x.max() - np.log(np.exp(x - x.max()).sum()),
                        "multiplied": lambda x: np.exp(x - x.max()) * np.exp(x - x.max()).sum(),
                        "divided-by-the-sum-of-x": lambda x: np.exp(x - x.max()) / x.sum(),
                        "shifted-once-only": AnyOf(
                            (
                                lambda x: np.exp(x) / np.exp(x - x.max()).sum(),
                                lambda x: np.exp(x - x.max()) / np.exp(x).sum(),
                            )
                        ),
                        "divided-by-the-largest": lambda x: np.exp(x - x.max()) / max(
                            np.exp(b - x.max()).sum() for b in _blocks(x)
                        ),
                    },
                ),
            )
            for requirement in (
                Computes(
                    answer, f"{answer} must return {asks}.", reference, NUMBERS, mistakes,
                    under_mesh=True,
                ),
                Requests(answer, _each(lambda n, count=count: Ask("all-reduce", count, ("x",), 4))),
            )
        ),
        PlacedLike("softmax", STRIPS[0], ((64,), (4 * MANY,)), elsewhere=STRIPS[1:]),
    ),
    hints=(
        "In the body you have one block. Reduce it to a number first, with jnp, and let the "
        "devices talk about numbers only.",
        "lax.psum adds, lax.pmean takes the mean, lax.pmax the largest; each over an axis of the "
        "mesh, and each gives the same to everybody.",
        "softmax needs the largest element of all of x, so that no exp overflows, and then the sum "
        "of all exps: two numbers, two all-reduces.",
    ),
    diagnoses={
        "not-replicated": "out_specs promise one result for all. Which collective makes one of "
        "what the devices have?",
        "added-twice": "It is too large by the number of devices: do you add up something that "
        "every device has already?",
        "mean-for-sum": "It is too small by the number of devices: do you take a mean instead of "
        "the sum?",
        "mean-of-all": "That is the mean of all elements.",
        "sum-of-means": "It is as many times too large as there are devices: are the devices' "
        "means added up?",
        "sum-for-mean": "That is the sum of all elements.",
        "mean-of-sums": "It is the sum of all elements, divided by the number of devices. By what "
        "is it to be divided?",
        "sum-of-largest": "The largest elements of all blocks are added up.",
        "at-least-zero": "Where all elements are negative, zero comes back, which is none of them.",
        "first-elements": "Of each block only one element is used, the first or the last. Reduce "
        "the block to one number with jnp first: mine.sum(), mine.mean() or mine.max().",
        "total: sum-of-largest": "The largest elements of all blocks are added up. Which number of "
        "its block should each device bring?",
        "blocks-added-first": "The blocks are added up, place by place, before the largest is "
        "taken. Which numbers are to be compared?",
        "difference-turned": "x is subtracted from the largest element. It is the other way round.",
        "largest-divided-by": "x is divided by the largest element, which is to be subtracted.",
        "place-by-place": "The blocks are combined place by place, so a vector comes out, as long "
        "as one block. Each device has to make one number of its block before the devices combine "
        "theirs.",
        "divisor-for-each-place": "Each place of a block is divided by the sum over the same place "
        "of all blocks. The divisor has to be one number: add up all exps of a block first.",
        "largest-for-each-place": "From each place the largest number in the same place of all "
        "blocks is subtracted, so the exps are on different scales when they are added up. "
        "Subtract one number everywhere: the largest of all of x.",
        "divided-twice": "The sum is divided by one number too many, or by another than the number "
        "of all elements. The mean of a block is divided already, so only the number of devices "
        "is left; the sum of a block is not.",
        "largest-of-others": "The largest is taken of the wrong numbers: what each device brings "
        "is its block's smallest element, its sum or its mean, where the largest is needed.",
        "one-sum-each": "These are the sums of the devices' blocks, one for each device. They "
        "still have to be added up.",
        "fixed-divisor": "The sum is divided by the same number on both meshes. Divide it by the "
        "number of elements of x, which is not always the same.",
        "median": "A median is taken where the mean is asked for.",
        "smallest": "That is the smallest element of x.",
        "exp-of-the-sum": "The divisor is zero. Is the sum taken before exp? The sum has to be of "
        "the exps.",
        "no-exp-above": "The divisor is right, but exp is missing above the line.",
        "never-divided": "These are the exps. What is left is to divide them by their sum.",
        "logarithm": "This is the logarithm of the softmax.",
        "multiplied": "The exps are multiplied by their sum. They should be divided by it.",
        "divided-by-the-sum-of-x": "The exps are divided by the sum of x. They should be divided "
        "by the sum of the exps.",
        "shifted-once-only": "The largest element is subtracted only above the line, or only below "
        "it. Use the same exps in both places.",
        "divided-by-the-largest": "The exps are divided by the largest of the blocks' sums. The "
        "sum of all of them is needed.",
        "each-for-itself": "Each block adds up to one by itself: the sum must be that of all of x.",
        "local-largest": "From each block its own largest element is taken away, so the exps are "
        "on different scales when they are added.",
        "sends-too-much": "More than one number of each device is reduced. Make one number of the "
        "block first.",
        "all-gather by hand": "An all-gather brings all of the data to every device. An all-reduce "
        "of one number is enough here.",
        "one-too-many": "After an all-reduce, every device has the result. Which of yours is not "
        "needed?",
        "not-finite": "exp overflows for a large number, and is zero for a very negative one. "
        "Subtract the largest element of all of x before exp.",
        "too-seldom": "A softmax needs two numbers of all of x: its largest element and the sum.",
    },
    about=(Requests,),
)  # fmt: skip

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
    """Numbers dealt out to n devices as cards are, in place of cut."""
    return [list(numbers[i::n]) for i in range(n)]


def _of_length_n(numbers: Sequence[int], n: int) -> list[list[int]]:
    """Pieces as long as there are devices, in place of as many."""
    return [list(numbers[i * n : (i + 1) * n]) for i in range(n)]


def _added(blocks: Numbers) -> list[int]:
    return [sum(column) for column in zip(*blocks, strict=True)]


def _exchanged_by(cut: Callable[[Sequence[int], int], Any]) -> Callable[[Numbers], Any]:
    return lambda blocks: [
        [number for block in blocks for number in cut(block, len(blocks))[i]]
        for i in range(len(blocks))
    ]


def _cut_up(blocks: Numbers, device: int, piece: int) -> Any:
    """One piece of a device's block, which is cut into as many as there are devices."""
    return np.split(np.array(blocks[device]), len(blocks))[piece]


def _exchanged_in_place(blocks: Numbers) -> Any:
    """What comes of writing results into the list whose blocks are still to be read."""
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
    """For each of n devices a piece that begins at the device's number."""
    return [list(numbers[i : i + length]) for i in range(n)]


def _in_32_bits(blocks: Numbers) -> Any:
    """What is left of large numbers in JAX, whose integers have 32 bits."""
    return [np.array(block, np.int64).astype(np.int32).astype(np.int64) for block in blocks]


LARGE: Final = 10**12
"""More than 32 bits hold, and so more than JAX does."""


def _draw(generator: np.random.Generator) -> list[tuple[Any, ...]]:
    """Blocks of devices that can be cut into as many pieces as there are devices."""
    return [
        (generator.integers(-most, most, (n, n * pieces)).tolist(),)
        for n, pieces, most in (
            (2, 1, 100), (2, 3, 100), (4, 1, 100), (4, 2, 100), (3, 2, LARGE),
        )
    ]  # fmt: skip


def _draw_tiled(generator: np.random.Generator) -> list[tuple[Any, ...]]:
    return [(*case, tiled) for case in _draw(generator) for tiled in (True, False)]


MODELS: Final = Exercise(
    id="5.3",
    title="Collectives in NumPy",
    afterwards="The all-to-all transposes a table of pieces, one row for each device. So if you do "
    "it twice, you have what you began with.",
    requirements=(
        Returns(
            "all_gather_ref",
            "all_gather_ref must return what each device holds after lax.all_gather.",
            cases=_draw_tiled,
            reference=_gathered,
            mistakes={
                "always-tiled": lambda blocks, tiled: _gathered(blocks, True),
                "never-tiled": lambda blocks, tiled: _gathered(blocks, False),
                "tiled-for-untiled": lambda blocks, tiled: _gathered(blocks, not tiled),
                "only-one-device": lambda blocks, tiled: _gathered(blocks, tiled)[0],
                "two-devices": lambda blocks, tiled: _gathered(blocks[:2], tiled),
                "own-first": lambda blocks, tiled: [
                    _gathered(blocks[i:] + blocks[:i], tiled)[0] for i in range(len(blocks))
                ],
                "own-twice": lambda blocks, tiled: [
                    _gathered([block, *blocks], tiled)[0] for block in blocks
                ],
                "own-left-out": lambda blocks, tiled: [
                    _gathered(blocks[:i] + blocks[i + 1 :], tiled)[0] for i in range(len(blocks))
                ],
                "own-repeated": lambda blocks, tiled: [
                    _gathered([block] * len(blocks), tiled)[0] for block in blocks
                ],
                "single-entry": AnyOf(
                    (
                        lambda blocks, tiled: _gathered(blocks, tiled)[:1],
                        lambda blocks, tiled: _gathered(blocks, True)[:1],
                        lambda blocks, tiled: _gathered(blocks, False)[:1],
                        lambda blocks, tiled: _gathered(blocks, tiled)[: 1 if tiled else None],
                        lambda blocks, tiled: _gathered(blocks, tiled)[: None if tiled else 1],
                    )
                ),
                "nothing-exchanged": lambda blocks, tiled: [list(block) for block in blocks],
                "float32": AnyOf(
                    (
                        lambda blocks, tiled: _gathered(_in_float32(blocks), tiled),
                        lambda blocks, tiled: _gathered(_in_float32_and_back(blocks), tiled),
                    )
                ),
                "numbers-in-turn": AnyOf(
                    (
                        lambda blocks, tiled: (
                            [(np.ravel(blocks, "F") if tiled else np.transpose(blocks)).tolist()]
                            * len(blocks)
                        ),
                        lambda blocks, tiled: (
                            [(np.ravel(blocks) if tiled else np.transpose(blocks)).tolist()]
                            * len(blocks)
                        ),
                    )
                ),
                "one-list": lambda blocks, tiled: [number for block in blocks for number in block],
                "untiled-missing": lambda blocks, tiled: _gathered(blocks, True) if tiled else None,
                "list-times-n": AnyOf(
                    (
                        lambda blocks, tiled: (
                            blocks * len(blocks) if tiled else _gathered(blocks, False)
                        ),
                        lambda blocks, tiled: blocks * len(blocks),
                    )
                ),
                "first-block-alone": lambda blocks, tiled: (
                    [list(blocks[0]) if tiled else [list(blocks[0])]] * len(blocks)
                ),
                "32-bits": lambda blocks, tiled: _gathered(_in_32_bits(blocks), tiled),
            },
        ),
        Returns(
            "psum_scatter_ref",
            "psum_scatter_ref must return what each device holds after lax.psum_scatter, tiled.",
            cases=_draw,
            reference=_scattered,
            mistakes={
                "never-scattered": lambda blocks: [_added(blocks)] * len(blocks),
                "never-summed": lambda blocks: _plain(
                    [np.split(b, len(blocks))[i] for i, b in enumerate(_arrays(blocks))]
                ),
                "one-list": _added,
                "two-devices": lambda blocks: _scattered(blocks[:2]),
                "dealt-out": lambda blocks: _dealt(_added(blocks), len(blocks)),
                "added-twice": lambda blocks: [
                    [len(blocks) * number for number in piece] for piece in _scattered(blocks)
                ],
                "mean-for-sum": AnyOf(
                    (
                        lambda blocks: [
                            [number / len(blocks) for number in piece]
                            for piece in _scattered(blocks)
                        ],
                        lambda blocks: [
                            [number // len(blocks) for number in piece]
                            for piece in _scattered(blocks)
                        ],
                    )
                ),
                "largest-for-sum": lambda blocks: _plain(
                    np.split(np.max(_arrays(blocks), axis=0), len(blocks))
                ),
                "sums-of-blocks": lambda blocks: [[sum(block)] for block in blocks],
                "one-number-each": lambda blocks: [[n] for n in _added(blocks)[: len(blocks)]],
                "first-piece-for-all": lambda blocks: _scattered(blocks)[:1] * len(blocks),
                "own-left-out": lambda blocks: [
                    (np.array(piece) - _cut_up(blocks, i, i)).tolist()
                    for i, piece in enumerate(_scattered(blocks))
                ],
                "first-left-out": lambda blocks: _plain(
                    np.split(np.sum(_arrays(blocks[1:]), axis=0), len(blocks))
                ),
                "own-pieces-added": lambda blocks: _plain(
                    [np.sum(np.split(b, len(blocks)), axis=0) for b in _arrays(blocks)]
                ),
                "pieces-of-n": lambda blocks: _of_length_n(_added(blocks), len(blocks)),
                "pieces-begin-at-the-number": AnyOf(
                    (
                        lambda blocks: _from_its_number(
                            _added(blocks), len(blocks), len(blocks[0]) // len(blocks)
                        ),
                        lambda blocks: _from_its_number(_added(blocks), len(blocks), len(blocks)),
                    )
                ),
                "nothing-exchanged": lambda blocks: [list(b) for b in blocks],
                "float32": AnyOf(
                    (
                        lambda blocks: _plain(np.split(_summed_in_float32(blocks), len(blocks))),
                        lambda blocks: _plain(
                            np.split(_summed_in_float32(blocks).astype(np.int64), len(blocks))
                        ),
                    )
                ),
                "32-bits": lambda blocks: _plain(
                    np.split(sum(_in_32_bits(blocks)).astype(np.int32), len(blocks))
                ),
            },
        ),
        Returns(
            "all_to_all_ref",
            "all_to_all_ref must return what each device holds after lax.all_to_all, tiled.",
            cases=_draw,
            reference=_exchanged,
            mistakes={
                "two-devices": lambda blocks: _exchanged(blocks[:2]),
                "own-piece-alone": lambda blocks: _plain(
                    [_cut_up(blocks, i, i) for i in range(len(blocks))]
                ),
                "nothing-exchanged": lambda blocks: [list(b) for b in blocks],
                "columns": lambda blocks: np.transpose(blocks).tolist(),
                "pieces-begin-at-the-number": lambda blocks: [
                    [n for b in blocks for n in b[i : i + len(b) // len(blocks)]]
                    for i in range(len(blocks))
                ],
                "exchanged-and-added": lambda blocks: _scattered(blocks),
                "devices-backwards": lambda blocks: _plain(
                    [
                        np.concatenate([_cut_up(blocks, j, i) for j in range(len(blocks))[::-1]])
                        for i in range(len(blocks))
                    ]
                ),
                "own-left-out": lambda blocks: _plain(
                    [
                        np.concatenate(
                            [_cut_up(blocks, j, i) for j in range(len(blocks)) if j != i]
                        )
                        for i in range(len(blocks))
                    ]
                ),
                "first-of-each-piece": lambda blocks: [
                    [int(_cut_up(blocks, j, i)[0]) for j in range(len(blocks))]
                    for i in range(len(blocks))
                ],
                "overwritten": _exchanged_in_place,
                "blocks-rotated": AnyOf(
                    (
                        lambda blocks: [*blocks[1:], blocks[0]],
                        lambda blocks: [blocks[-1], *blocks[:-1]],
                    )
                ),
                "never-joined": lambda blocks: [
                    [np.split(b, len(blocks))[i].tolist() for b in _arrays(blocks)]
                    for i in range(len(blocks))
                ],
                "gathered": lambda blocks: _gathered(blocks, True),
                "one-list": lambda blocks: np.ravel(_exchanged(blocks)).tolist(),
                "transposed-numbers": lambda blocks: (
                    np.array(blocks).T.reshape(len(blocks), -1).tolist()
                ),
                "one-number-each": lambda blocks: [
                    [block[i] for block in blocks] for i in range(len(blocks))
                ],
                "dealt-out": _exchanged_by(_dealt),
                "pieces-of-n": _exchanged_by(_of_length_n),
                "float32": AnyOf(
                    (
                        lambda blocks: _exchanged(_in_float32(blocks)),
                        lambda blocks: _exchanged(_in_float32_and_back(blocks)),
                    )
                ),
                "32-bits": lambda blocks: _exchanged(_in_32_bits(blocks)),
            },
        ),
    ),
    hints=(
        "blocks[i] is what device i holds before. Build a list whose entry i is what device i "
        "holds afterwards.",
        "all_gather: everybody gets everything, joined end to end if tiled, stacked if not. "
        "psum_scatter: add all blocks up, cut the sum into as many pieces as there are devices, "
        "and give device i piece i.",
        "all_to_all: each device cuts its block into pieces. Device i gets piece i of everybody, "
        "joined in the order of the devices.",
    ),
    diagnoses={
        "always-tiled": "Without tiled, the blocks are stacked, in a new dimension of their own.",
        "never-tiled": "With tiled, the blocks are joined end to end, and the rank stays.",
        "tiled-for-untiled": "The two are exchanged: tiled joins, untiled stacks.",
        "only-one-device": "This is what one device holds; the list has an entry for each.",
        "two-devices": "There is an entry for each of the first two devices, and there may be "
        "more of them.",
        "own-first": "Each device has all blocks, but begins with its own. They are in the order "
        "of the devices on every device.",
        "own-twice": "Each device has its own block twice: it is among all blocks already.",
        "own-left-out": "A block is left out: a device's own block counts as well as the others'.",
        "first-left-out": "The first block is left out, on every device.",
        "own-pieces-added": "Each device adds up the pieces of its own block. Add up the blocks, "
        "number by number; each device keeps one piece of that.",
        "own-repeated": "Each device has its own block again and again, and none of the others'.",
        "single-entry": "There is one entry, and there should be one for each device, even where "
        "they are equal.",
        "numbers-in-turn": "The numbers of the blocks are taken in turn, one from each. A gather "
        "leaves blocks as they are.",
        "first-block-alone": "There is only the first device's block: does the return stand inside "
        "the loop?",
        "untiled-missing": "With tiled, the result is right. Without it, the function returns "
        "None: does each branch return something?",
        "list-times-n": "`blocks * n` repeats the entries of the list, so that it is n times as "
        "long. Each entry should be all that one device holds.",
        "float32": "The numbers pass through float32, which keeps about seven digits: the last "
        "digits of large numbers are lost.",
        "blocks-rotated": "Each device has the whole block of its neighbour. In an all-to-all it "
        "gets one piece from every device.",
        "added-twice": "Every number is as many times too large as there are devices: is it added "
        "up twice?",
        "mean-for-sum": "Every number is as many times too small as there are devices: that is the "
        "mean of the blocks.",
        "largest-for-sum": "In each place there is the largest of the blocks' numbers. It should "
        "be their sum.",
        "own-piece-alone": "Each device has a piece of its own block, and nothing else. Device i "
        "gets piece i of every block.",
        "sums-of-blocks": "The numbers of each block are added up. Add the blocks to each other, "
        "place by place.",
        "psum_scatter_ref: one-number-each": "Device i is given number i of the sum, and no more. "
        "Cut the sum into as many pieces as there are devices; a piece may have several numbers.",
        "first-piece-for-all": "Every device has the first piece of the sum. Device i is to have "
        "piece i.",
        "columns": "These are the columns of the table of blocks: a list for each number of a "
        "block. Cut each block into as many pieces as there are devices.",
        "pieces-begin-at-the-number": "Your piece i begins at number i. It should begin at i times "
        "the length of a piece.",
        "exchanged-and-added": "The pieces that a device receives are added up. In an all-to-all "
        "they stay as they are, joined end to end.",
        "devices-backwards": "The pieces are right, and joined in the opposite order of the "
        "devices.",
        "first-of-each-piece": "Of each piece only the first number has come.",
        "overwritten": "The results are written into the list that is still being read: after the "
        "first step, device 0's block is another one. Does `out = blocks` make a copy?",
        "one-list": "All numbers are there, in one list; expected a list with an entry for each "
        "device.",
        "never-scattered": "That is psum: every device has the whole sum. Each should keep only "
        "its piece.",
        "never-summed": "Each device has its piece of its own block: the blocks were not added up.",
        "nothing-exchanged": "These are the blocks as they came: nothing was exchanged.",
        "never-joined": "The right pieces are in the right place; tiled joins them end to end.",
        "gathered": "That is all_gather: every device has everything. Each should get one piece "
        "from every device.",
        "transposed-numbers": "It is the numbers that are transposed, one by one. What is "
        "exchanged are pieces, of as many numbers as a block has for each device.",
        "one-number-each": "Device i is given number i of each block, and no more. What is "
        "exchanged are pieces, of as many numbers as a block has for each device.",
        "dealt-out": "The numbers are dealt out one by one, like cards. A piece is a stretch of "
        "numbers that stand side by side.",
        "pieces-of-n": "The length of your pieces is the number of devices. It is the number of "
        "pieces that has to be the number of devices.",
        "32-bits": "Of each number only the last 32 bits are left. Is JAX at work? NumPy's "
        "integers have 64.",
    },
)

PARTS: Final = Exercise(
    id="5.4",
    title="An all-reduce, taken apart",
    afterwards="In a ring of n devices, each of the two halves sends (n - 1)/n of the buffer from "
    "every device. So an all-reduce sends nearly twice the buffer, however many devices there "
    "are.",
    requirements=(
        Computes(
            "sum_by_parts",
            "sum_by_parts(x) must give each device, in its row, the sum of all rows.",
            lambda x: np.broadcast_to(x.sum(0), x.shape),
            _on_lines(_rows),
            {
                "by-pieces": lambda x: np.tile(x.sum(1, keepdims=True), (1, x.shape[1])),
                "mean-for-sum": lambda x: np.broadcast_to(x.mean(0), x.shape),
                "added-twice": lambda x: np.broadcast_to(x.sum(0) * len(x), x.shape).astype(
                    x.dtype
                ),
                "own-row": lambda x: x * np.float32(len(x)),
                "one-number": lambda x: np.full_like(x, x.sum()),
                "pieces-as-rows": lambda x: np.tile(x.sum(0).reshape(len(x), -1), (len(x), 1)),
                "row-as-a-vector": lambda x: np.tile(x.sum(0), len(x)),
                "pieces-not-joined": lambda x: np.tile(
                    x.sum(0).reshape(1, len(x), -1), (len(x), 1, 1)
                ),
                "row-once": lambda x: x.sum(0, keepdims=True),
            },
            under_mesh=True,
        ),
        Requests(
            "sum_by_parts",
            _each(
                lambda n: Ask("reduce-scatter", 1, ("x",), 4 * _rows(n)[1]),
                lambda n: Ask("all-gather", 1, ("x",), 4 * _rows(n)[1]),
            ),
        ),
    ),
    hints=(
        "After the first of the two, each device has a finished piece of the sum; after the "
        "second, everybody has all pieces.",
        "lax.psum_scatter(…, tiled=True) cuts dimension 0, so give it the row as a vector: the "
        "block has shape (1, columns).",
        "psum_scatter the vector, all_gather what comes, both tiled, and give it its leading "
        "dimension back with [None].",
    ),
    diagnoses={
        "one-number": "The sum of all elements is in every place: pieces are added up to one "
        "number. Each place has a sum of its own, over the rows.",
        "no reduce-scatter": "Compute the sum with a reduce-scatter.",
        "no all-gather": "Collect the pieces with an all-gather.",
        "by-pieces": "The columns of one row are added up, and not the rows.",
        "mean-for-sum": "It is as many times too small as there are devices: that is the mean of "
        "the rows.",
        "own-row": "Each device has its own row, multiplied by the number of devices. Are the rows "
        "gathered first, and scattered afterwards? It is the other way round: first the sum is "
        "scattered, and then its pieces are gathered.",
        "added-twice": "It is too large by the number of devices: do you add up a sum that every "
        "device has already?",
        "shape": "The block has one row and all columns, and so has what each device returns. What "
        "shape does it have after each of the two steps?",
        "in-pieces": "One of each does: all columns can go at once.",
        "pieces-as-rows": "On each device, the pieces of the sum lie below each other, one in "
        "each row. They belong side by side, in one row. Along which dimension does all_gather "
        "join, if it is not told?",
        "row-as-a-vector": "Each device returns its row as a vector, and out_specs joins the "
        "vectors end to end. The block that the body is given has two dimensions; so should the "
        "one that it returns.",
        "pieces-not-joined": "The pieces are stacked in a dimension of their own. Joined end to "
        "end, they make the row: is tiled=True set?",
        "row-once": "The sum is there once, for all devices together. The result has a row for "
        "each device, as x has: do out_specs say that?",
        "not-replicated": "Do out_specs promise one result for all devices, as P() does? The "
        "result has a row for each device, as x has. (After a psum_scatter and an all_gather all "
        "devices have the same, but JAX cannot tell.)",
        "untiled": "In the body there is one row with all columns, and the columns have to be cut. "
        "Which dimension do you scatter, and is tiled=True set?",
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
    """What comes of adding, in step s, part (i - 1 - s) % n before the sum is sent on."""
    parts, n = _pieces(x)
    growing = [parts[i, (i - 1) % n] for i in range(n)]
    for s in range(1, n):
        grown = [growing[i] + parts[i, (i - 1 - s) % n] for i in range(n)]
        growing = [grown[(i - 1) % n] for i in range(n)]
    return np.concatenate(growing)


def _part_sent(x: Any) -> Any:
    """What comes of sending a part in each step, and adding what comes to a sum that stays."""
    parts, n = _pieces(x)
    growing = [parts[i, (i - 1) % n] for i in range(n)]
    for s in range(1, n):
        growing = [growing[i] + parts[(i - 1) % n, (i - 2 - s) % n] for i in range(n)]
    return np.concatenate(growing)


def _added_again(x: Any) -> Any:
    """The result where each step sends on all that was collected, and adds what arrives."""
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
    afterwards="Ring attention is this ring with attention in the middle: keys and values go "
    "round, while each device keeps its own queries.",
    requirements=(
        Computes(
            "ring_all_gather",
            "ring_all_gather(x) must return, for each device, a row with all of x.",
            lambda x: np.tile(x, (DEVICES[len(x)], 1)),
            _on_lines(_vector),
            {
                "wrong-order": lambda x: _collected(x, lambda i, j, n: (i - j) % n),
                "against-the-ring": lambda x: _collected(x, lambda i, j, n: (2 * i - j) % n),
                "open-ring": lambda x: _collected(x, lambda i, j, n: j if j <= i else None),
                "one-is-missing": lambda x: _collected(
                    x, lambda i, j, n: None if j == (i + 1) % n else j
                ),
                "at-its-number": _at_place,
                "added-again": _added_again,
                "own-block-again": AnyOf(
                    (
                        lambda x: _collected(x, lambda i, j, n: i if j == i else (i - 1) % n),
                        lambda x: _collected(x, lambda i, j, n: i if j == 0 else (i - 1) % n),
                    )
                ),
                "row-as-a-vector": lambda x: np.tile(x, DEVICES[len(x)]),
                "blocks-as-rows": lambda x: np.tile(np.stack(_blocks(x)), (DEVICES[len(x)], 1)),
            },
            under_mesh=True,
        ),
        _placed("ring_all_gather", ROWS, lambda n: (n, n * BLOCK[n])),
        Requests(
            "ring_all_gather",
            _each(lambda n: Ask("collective-permute", n - 1, ("x",), 4 * BLOCK[n], True)),
        ),
        Computes(
            "ring_reduce_scatter",
            "ring_reduce_scatter(x) must return the sum of the rows of x, a piece on each device.",
            lambda x: x.sum(0),
            _on_lines(_rows),
            {
                "wrong-piece": lambda x: _summed(x, lambda i, j, n: (i - 1) % n),
                "wrong-piece-behind": lambda x: _summed(x, lambda i, j, n: (i + 1) % n),
                "against-the-ring": lambda x: _summed(x, lambda i, j, n: (2 * j - i) % n),
                "open-ring": lambda x: _summed(x, lambda i, j, n: i if j <= i else None),
                "one-is-missing": lambda x: _summed(
                    x, lambda i, j, n: None if j == (i + 1) % n else (i + 1) % n
                ),
                "same-piece-always": AnyOf(
                    (
                        lambda x: _summed(x, lambda i, j, n: j),
                        lambda x: _summed(x, lambda i, j, n: i if j == (i + 1) % n else j),
                    )
                ),
                "first-does-not-belong": AnyOf(
                    (
                        lambda x: _summed(
                            x, lambda i, j, n: i if j == (i + 1) % n else (i + 1) % n
                        ),
                        lambda x: _summed(
                            x, lambda i, j, n: i if j == (i + 1) % n else (i - 1) % n
                        ),
                        lambda x: _summed(
                            x, lambda i, j, n: (i + 1) % n if j == (i + 1) % n else i
                        ),
                    )
                ),
                "counted-upwards": AnyOf(
                    (
                        lambda x: _summed(x, lambda i, j, n: (i + 2 * ((j - i - 1) % n)) % n),
                        lambda x: _summed(
                            x,
                            lambda i, j, n: (
                                i if j == (i + 1) % n else (i + 1 + 2 * ((j - i - 1) % n)) % n
                            ),
                        ),
                    )
                ),
                "same-part-on-all": lambda x: _summed(x, lambda i, j, n: (j - i - 1) % n),
                "last-part-alone": lambda x: _summed(x, lambda i, j, n: i if j == i else None),
                "added-before-sending": _added_before_sending,
                "never-added": lambda x: _summed(
                    x, lambda i, j, n: i if j == (i + 1) % n else None
                ),
                "part-sent": _part_sent,
                "own-part-missing": lambda x: _summed(x, lambda i, j, n: None if j == i else i),
                "own-part-twice": lambda x: (
                    x.sum(0) + _summed(x, lambda i, j, n: i if j == i else None)
                ),
                "two-places-off": AnyOf(
                    (
                        lambda x: _summed(x, lambda i, j, n: (i + 2) % n),
                        lambda x: _summed(x, lambda i, j, n: (i - 2) % n),
                    )
                ),
            },
            under_mesh=True,
        ),
        _placed("ring_reduce_scatter", STRIPS, lambda n: (_rows(n)[1],)),
        Requests(
            "ring_reduce_scatter",
            _each(lambda n: Ask("collective-permute", n - 1, ("x",), 4 * _rows(n)[1] // n, True)),
        ),
    ),
    hints=(
        "lax.ppermute(a, 'x', [(i, (i + 1) % n) for i in range(n)]) sends each device's array to "
        "the next. n is lax.axis_size('x'), and this device's number i is lax.axis_index('x').",
        "What arrives after s steps on device i comes from device (i - s) % n. n blocks need n - 1 "
        "steps, since its own is already there. The number i is traced, and cannot index a Python "
        "list, but an array can be indexed with it: pieces[place], out.at[place].set(block).",
        "For the reduce-scatter, send a growing sum round. Begin with your part for the device "
        "before you, and after s steps add your part for device (i - 1 - s) % n: in the end that "
        "is your own.",
    ),
    diagnoses={
        "own-part-missing": "Each sum lacks the part of the device that ends up with it: add that "
        "device's own part to what arrives last.",
        "one-too-many": "What a device has itself need not come to it: n - 1 steps bring the rest.",
        "too-often": "What a device has itself need not come to it: n - 1 steps bring the rest.",
        "too-seldom": "There are n - 1 other devices, and each step comes from one further away.",
        "all-gather by hand": "Use only permutations.",
        "no collective-permute": "Use permutations.",
        "sends-too-much": "In each step one block, or one piece of the sum, is enough.",
        "not-to-the-neighbour": "What is further away comes on from neighbour to neighbour.",
        "wrong-order": "All blocks are there, in the order in which they came. Put each in its "
        "place: after s steps it is the one of device (i - s) % n.",
        "wrong-piece": "The sums are right, and each device holds that of its neighbour.",
        "wrong-piece-behind": "The sums are right, and each device holds that of its neighbour.",
        "against-the-ring": "The permutation goes one way round, and the places are counted the "
        "other way.",
        "open-ring": "What should come round from the last device to the first is zero: who is "
        "sent nothing holds zeros. Is there a pair for everybody?",
        "row-as-a-vector": "Each device returns all of x, but as a vector, and out_specs joins the "
        "vectors end to end. Expected a row for each device: what shape should the body return?",
        "blocks-as-rows": "Each device returns the blocks below each other, one in each row. "
        "Expected one row on each device, with the blocks side by side.",
        "one-is-missing": "What should come from the device furthest away has not come: is a step "
        "missing?",
        "own-block-again": "In every step the block of the device before has come again. Send on "
        "what was received last, and not the device's own block each time.",
        "added-again": "In each step all that a device has collected is sent on, and what arrives "
        "is added to it, so the same block is added several times. Send on only what arrived last.",
        "same-piece-always": "Each device adds the same part in every step. The sum that passes by "
        "is another device's each time: after s steps on device i it is that of device "
        "(i - 1 - s) % n.",
        "first-does-not-belong": "The part with which the sum begins and those that are added "
        "later belong to different pieces. If device i begins with part (i - 1) % n, it adds part "
        "(i - 1 - s) % n after s steps.",
        "counted-upwards": "The number of the part grows with the steps, and it should fall: what "
        "arrives after s steps comes from s devices further back.",
        "same-part-on-all": "In each step the part has the same number on every device, that of "
        "the step. Which part is added depends on the device's own number, too.",
        "last-part-alone": "Of each sum only the device's own part is there, which comes last. Add "
        "it to what has arrived.",
        "added-before-sending": "The device's part is added before the sum is sent on. Of which "
        "device is the sum at that moment? Send first, and add to what has arrived.",
        "never-added": "Each device has just the part of its neighbour that was sent first: what "
        "arrives is sent on, and nothing is added to it.",
        "part-sent": "In each step a single part is sent, and the sum stays where it is. Send the "
        "sum itself, so that it grows from device to device.",
        "own-part-twice": "The sums are right, but each device has added its own part twice.",
        "two-places-off": "The sums are right, and each device holds that of the device two "
        "places further on or back.",
        "at-its-number": "Each block begins at the number of its device, so that they overlap. The "
        "block of device i begins at i times the size of a block.",
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
"""What each element and its two neighbours count in the second difference."""


def _closed(a: Any) -> Any:
    return np.roll(a, 1) - 2 * a + np.roll(a, -1)


def _with_halos(x: Any, compute: Callable[[Any], Any]) -> Any:
    """What is computed of each block with its halos on, joined end to end."""
    blocks, n = _blocks(x), len(_blocks(x))
    wide = [
        np.concatenate([blocks[i - 1][-1:], block, blocks[(i + 1) % n][:1]])
        for i, block in enumerate(blocks)
    ]
    return np.concatenate([compute(each) for each in wide])


HALO: Final = Exercise(
    id="5.6",
    title="A halo of one",
    afterwards="Weather models exchange halos at every step. Some exchange wider ones less often, "
    "because starting a message costs more than a few more numbers in it.",
    requirements=(
        Computes(
            "second_difference",
            "second_difference(x) must return np.roll(x, 1) - 2 * x + np.roll(x, -1).",
            lambda x: np.roll(x, 1) - 2 * x + np.roll(x, -1),
            _on_lines(_vector),
            {
                "open-ends": lambda x: _differences(x, closed=(False, False)),
                "open-at-the-end": lambda x: _differences(x, closed=(True, False)),
                "open-at-the-start": lambda x: _differences(x, closed=(False, True)),
                "blocks-alone": lambda x: np.concatenate([
                    np.roll(b, 1) - 2 * b + np.roll(b, -1) for b in _blocks(x)
                ]),
                "halos-exchanged": lambda x: _differences(x, (1, 0), (-1, -1)),
                "wrong-end": lambda x: _differences(x, (-1, 0), (1, -1)),
                "wrong-way-round": lambda x: _differences(x, (1, -1), (-1, 0)),
                "one-way": lambda x: _differences(x, (-1, -1), (-1, 0)),
                "other-sign": lambda x: 2 * x - np.roll(x, 1) - np.roll(x, -1),
                "whole-blocks": lambda x: (
                    np.roll(x, len(_blocks(x)[0])) - 2 * x + np.roll(x, -len(_blocks(x)[0]))
                ),
                "once-itself": lambda x: np.roll(x, 1) - x + np.roll(x, -1),
                "one-end-wrong": AnyOf(
                    (
                        lambda x: _differences(x, after=(1, -1)),
                        lambda x: _differences(x, before=(-1, 0)),
                    )
                ),
                "one-halo-twice": AnyOf(
                    (
                        lambda x: _differences(x, after=(-1, -1)),
                        lambda x: _differences(x, before=(1, 0)),
                    )
                ),
                "own-element-as-halo": AnyOf(
                    (
                        lambda x: _differences(x, after=(0, -1)),
                        lambda x: _differences(x, before=(0, 0)),
                        lambda x: _differences(x, (0, 0), (0, -1)),
                    )
                ),
                "closed-for-itself": AnyOf(
                    (
                        lambda x: _differences(x, after=(0, 0)),
                        lambda x: _differences(x, before=(0, -1)),
                    )
                ),
                "two-devices-away": AnyOf(
                    (
                        lambda x: _differences(x, after=(2, 0)),
                        lambda x: _differences(x, before=(-2, -1)),
                        lambda x: _differences(x, (-2, -1), (2, 0)),
                    )
                ),
                "second-from-the-edge": AnyOf(
                    (
                        lambda x: _differences(x, after=(1, 1)),
                        lambda x: _differences(x, before=(-1, -2)),
                        lambda x: _differences(x, (-1, -2), (1, 1)),
                    )
                ),
                "halo-left-on": AnyOf(
                    (
                        lambda x: _with_halos(x, lambda wide: _closed(wide)),
                        lambda x: _with_halos(x, lambda wide: np.convolve(wide, CURVE, "same")),
                        lambda x: _with_halos(
                            x, lambda wide: np.pad(np.convolve(wide, CURVE, "valid"), 1)
                        ),
                    )
                ),
                "never-received": AnyOf(
                    (
                        lambda x: _without_halos(x, 0, None),
                        lambda x: _without_halos(x, None, 0),
                    )
                ),
                "halo-on-top": lambda x: _edges(x, lambda own, halo: own + halo),
                "halo-as-result": lambda x: _edges(x, lambda own, halo: halo),
                "sum-of-three": lambda x: np.roll(x, 1) + 2 * x + np.roll(x, -1),
                "all-added": lambda x: np.roll(x, 1) + x + np.roll(x, -1),
                "neighbour-taken-away": AnyOf(
                    (
                        lambda x: np.roll(x, 1) - 2 * x - np.roll(x, -1),
                        lambda x: np.roll(x, -1) - 2 * x - np.roll(x, 1),
                    )
                ),
                "four-times-itself": lambda x: np.roll(x, 1) - 4 * x + np.roll(x, -1),
                "first-difference": AnyOf(
                    (lambda x: x - np.roll(x, 1), lambda x: np.roll(x, -1) - x)
                ),
                "neighbours-alone": AnyOf(
                    (
                        lambda x: np.roll(x, -1) - np.roll(x, 1),
                        lambda x: np.roll(x, 1) - np.roll(x, -1),
                        lambda x: np.roll(x, 1) + np.roll(x, -1),
                        lambda x: (np.roll(x, 1) + np.roll(x, -1)) / 2,
                        lambda x: (np.roll(x, -1) - np.roll(x, 1)) / 2,
                    )
                ),
                "twice-a-neighbour": AnyOf(
                    (
                        lambda x: np.roll(x, 1) - 2 * np.roll(x, -1) + x,
                        lambda x: np.roll(x, -1) - 2 * np.roll(x, 1) + x,
                    )
                ),
            },
            under_mesh=True,
        ),
        Requests(
            "second_difference", _each(lambda n: Ask("collective-permute", 2, ("x",), 4))
        ),
    ),
    hints=(
        "Within a block there is nothing to ask for. Only the first and the last element need a "
        "neighbour, and each needs a single number from it.",
        "Send your last element to the next device and your first to the one before: two "
        "permutations of arrays of one element (mine[-1:], mine[:1]).",
        "Join what came: jnp.concatenate([from_before, mine, from_next]) has two elements more, "
        "and from there it is plain NumPy.",
    ),
    diagnoses={
        "whole-blocks": "Each element is compared with those in its place in the neighbours' "
        "blocks: that shifts x by a whole block, and not by one element.",
        "open-ends": "The vector is a ring: its last element is the first one's neighbour. Is "
        "there a pair that closes it?",
        "open-at-the-end": "The ring is closed on one side only: the last element takes a zero "
        "for its right neighbour, which is the first.",
        "open-at-the-start": "The ring is closed on one side only: the first element takes a zero "
        "for its left neighbour, which is the last.",
        "blocks-alone": "Each block is closed to a ring of its own.",
        "wrong-end": "The wrong ends were sent: the next device needs your last element, the one "
        "before your first.",
        "halos-exchanged": "The number from the device before is placed after the block, and the "
        "other way round.",
        "wrong-way-round": "The right ends were sent, each in the wrong direction: the last "
        "element came from the device after, the first from the one before.",
        "one-way": "Both numbers came from the device before. One of the two permutations has to "
        "go the other way.",
        "other-sign": "The sign is turned.",
        "once-itself": "The element itself is taken away once, and it counts twice.",
        "one-end-wrong": "One of the two numbers is from the wrong end of the neighbour's block: "
        "from the device before its last is needed, from the device after its first.",
        "one-halo-twice": "The same number is used at both ends of the block. One end needs a "
        "number from the device before, the other one from the device after.",
        "own-element-as-halo": "Where the neighbour's number is needed, the block's own element at "
        "that edge stands once more. Is what the permutation brought put there?",
        "closed-for-itself": "One end of the block takes its number from the block's own other "
        "end, and not from the neighbour.",
        "two-devices-away": "A number has come from the device after the next one. Look at the "
        "pairs: the neighbour of device i is i + 1.",
        "second-from-the-edge": "What was sent is the element next to the edge, and not the one at "
        "the edge.",
        "halo-left-on": "Each device returns two elements more than its block has: the halos are "
        "still there. They are needed for the computation only.",
        "never-received": "One of the two halos is zero on every device: do the pairs of its "
        "permutation send to each device?",
        "halo-on-top": "Within the block, the ends have been closed to a ring, and the "
        "neighbour's number is added on top. It is to take the place of the block's other end.",
        "halo-as-result": "At the ends of the block the result is the number that came, and "
        "nothing has been computed with it.",
        "sum-of-three": "Twice the element is added, and should be taken away.",
        "all-added": "All three are added up. Twice the element itself should be taken away.",
        "neighbour-taken-away": "One of the two neighbours is taken away. Both are added.",
        "four-times-itself": "The element itself is taken away four times, and should be taken "
        "away twice.",
        "first-difference": "That is the first difference: each element and one neighbour.",
        "neighbours-alone": "Only the two neighbours are in it. Each is added, and twice the "
        "element itself is taken away.",
        "twice-a-neighbour": "A neighbour is taken away twice, where the element itself should be: "
        "are the slices shifted by one?",
        "sends-too-much": "One element from each neighbour is enough.",
        "too-often": "A device needs one number from either side, so two permutations do.",
        "all-gather by hand": "An all-gather sends data from every device to every device. A "
        "device needs only one number from each neighbour.",
        "no collective-permute": "The elements at the edges of a block have neighbours on other "
        "devices, and a permutation is what brings these. (Is x rolled or indexed outside the "
        "body? There the compiler sends them.)",
    },
)  # fmt: skip

SYSTEMS: Final = {8: 2, 4: 3}
"""How many systems each device has, on each of the meshes."""


def _matrices(n: int) -> tuple[int, int, int]:
    return (SYSTEMS[n] * n, 4, 4)


def _sides(n: int) -> tuple[int, int]:
    return _matrices(n)[:2]


def _solved(A: Any, b: Any, eight: float = 8, everywhere: bool = False) -> Any:  # noqa: N803
    added = np.ones_like(A) if everywhere else np.eye(A.shape[-1], dtype=A.dtype)
    return np.linalg.solve(A + np.float32(eight) * added, b[..., None])[..., 0]


def _sides_by_device(A: Any, b: Any) -> Any:  # noqa: N803
    """The solutions with the sides that begin at the device's number."""
    n = next(n for n in SIZES if _matrices(n) == A.shape)
    starts = np.repeat(np.arange(n), len(A) // n)
    return _solved(A, b[starts + np.arange(len(A)) % (len(A) // n)])


def _first_matrices(A: Any, b: Any) -> Any:  # noqa: N803
    """The solutions where each device uses the first of its matrices for all of its sides."""
    n = next(n for n in SIZES if _matrices(n) == A.shape)
    own = len(A) // n
    return _solved(A[np.arange(len(A)) // own * own], b)


def _first_sides(A: Any, b: Any) -> Any:  # noqa: N803
    """The solutions where each device uses the first of its sides for all of its systems."""
    n = next(n for n in SIZES if _matrices(n) == A.shape)
    own = len(A) // n
    return _solved(A, b[np.arange(len(A)) // own * own])


def _by_diagonals(A: Any, b: Any) -> Any:  # noqa: N803
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
                "eight-everywhere": lambda A, b: _solved(A, b, everywhere=True),  # noqa: N803
                "eight-forgotten": lambda A, b: _solved(A, b, eight=0),  # noqa: N803
                "one-for-eight": lambda A, b: _solved(A, b, eight=1),  # noqa: N803
                "transposed-systems": lambda A, b: _solved(A.swapaxes(1, 2), b),  # noqa: N803
                "others-sides": _sides_by_device,
                "eight-taken-away": lambda A, b: _solved(A, b, eight=-8),  # noqa: N803
                "eight-times-the-matrix": lambda A, b: _solved(8 * A, b, eight=1),  # noqa: N803
                "diagonal-alone": _by_diagonals,
                "multiplied": lambda A, b: np.einsum(  # noqa: N803
                    "nij,nj->ni", A + 8 * np.eye(4, dtype=A.dtype), b
                ),
                "eight-added-later": lambda A, b: _solved(A, b, eight=0) + 8,  # noqa: N803
                "first-matrix-for-all": _first_matrices,
                "first-side-for-all": _first_sides,
                "matrix-left-out": lambda A, b: b / np.float32(8),  # noqa: N803
                "an-eighth-for-eight": lambda A, b: _solved(A, b, eight=1 / 8),  # noqa: N803
                "eight-as-a-factor": lambda A, b: _solved(8 * A, b, eight=0),  # noqa: N803
            },
            under_mesh=True,
        ),
        Requests("solve_all", ((), ())),
        CommunicatesAtMost("solve_all", ((), ())),
    ),
    hints=(
        "The systems have nothing to do with each other: each device solves its own, of which it "
        "has several.",
        "in_specs P('x') for both cut the batch. In the body, A has the shape of some of the "
        "systems: all but the batch is whole.",
        "jnp.linalg.solve takes batches: solve(A, b[..., None])[..., 0]. Or vmap a solve of one "
        "system over the body's batch.",
    ),
    diagnoses={
        "shape": "Each device has several systems, and of each the solution is a vector: what "
        "shape does the body return?",
        "all-gather": "Something is brought to every device, and no device needs the others' "
        "systems.",
        "all-gather by hand": "No device needs another's systems.",
        "raised": "Does JAX speak of shapes for solve? Compare them: in the body, A and b should "
        "have as many systems each, so in_specs should shard both. And each system's side is a "
        "vector, while solve, for many systems at once, expects the sides as matrices.",
        "eight-everywhere": "8 is added to every element. I has ones on the diagonal alone.",
        "eight-forgotten": "These are the solutions of A[i] x = b[i].",
        "one-for-eight": "These are the solutions of (A[i] + I) x = b[i].",
        "eight-taken-away": "These are the solutions of (A[i] - 8 I) x = b[i].",
        "eight-times-the-matrix": "These are the solutions of (8 A[i] + I) x = b[i].",
        "diagonal-alone": "Only the diagonal of 8 A[i] is left of each matrix: `*` multiplies "
        "element by element. I is added, 8 times.",
        "multiplied": "b[i] is multiplied by A[i] + 8 I. Look for the x that gives b[i].",
        "eight-added-later": "8 is added to the solutions of A[i] x = b[i]. 8 I belongs to the "
        "matrix.",
        "first-matrix-for-all": "Each device solves all of its systems with the first of its "
        "matrices. Every system has one of its own.",
        "first-side-for-all": "Each device solves all of its systems with the first of its sides. "
        "Every system has one of its own.",
        "matrix-left-out": "That is b / 8: A is not in it.",
        "an-eighth-for-eight": "These are the solutions of (A[i] + I / 8) x = b[i].",
        "eight-as-a-factor": "These are the solutions of 8 A[i] x = b[i]. 8 I is added to A[i].",
        "transposed-systems": "These are the solutions with each matrix transposed.",
        "others-sides": "The systems are solved with sides that belong to others: the first of a "
        "device is taken at the device's number, and each device has several.",
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


CHECKED: Final = Exercise(
    id="5.8",
    title="With the VMA check on",
    afterwards="In a ring, this all-reduce sends twice what an all-gather would: the price of a "
    "result whose type says that it is the same everywhere.",
    requirements=(
        Computes(
            "everywhere",
            "everywhere(x) must be x.",
            lambda x: x,
            _on_lines(_vector),
            {
                "at-its-number": _overlapping,
                "all-at-the-start": lambda x: np.concatenate(
                    [sum(_blocks(x)), *map(np.zeros_like, _blocks(x)[1:])]
                ),
                "blocks-added": lambda x: sum(_blocks(x)),
                "on-top-of-each-other": lambda x: np.tile(sum(_blocks(x)), DEVICES[len(x)]),
                "mean-for-sum": lambda x: x / _n(x),
                "backwards": lambda x: np.concatenate(_blocks(x)[::-1]),
                "one-place-too-far": _one_place_too_far,
                "counted-from-the-end": _from_the_end,
                "smallest-for-sum": lambda x: np.minimum(x, 0),
                "order-of-arrival": lambda x: np.tile(sum(_blocks(x)) / _n(x), DEVICES[len(x)]),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "everywhere",
            "0,1,2,3,4,5,6,7",
            tuple(map(_vector, SIZES)),
            elsewhere=("0,1,2,3",),
        ),
        Requests("everywhere", never=("all-gather",), some=("all-reduce",)),
    ),
    hints=(
        "JAX cannot prove that what all_gather gives is the same everywhere, though it is. What "
        "gives the same to everybody for certain?",
        "psum does. Can you write a gather as a sum? Most terms would be zero.",
        "Each device puts its block in its place in a long vector of zeros "
        "(jax.lax.dynamic_update_slice, at axis_index times the block's size), and psum adds the "
        "vectors up.",
    ),
    diagnoses={
        "not-replicated": "JAX cannot tell that the result is the same everywhere. Find a "
        "collective whose result it can.",
        "all-gather by hand": "After an all_gather, JAX cannot tell that its result is the same "
        "everywhere. Find a collective whose result it can.",
        "no all-reduce": "JAX knows that an all-reduce gives every device the same. Do you collect "
        "x in another way, or outside the body? Is check_vma off?",
        "nothing-moved": "x is still cut, as it came.",
        "added-by-the-compiler": "Collect x in the body, with a collective that you write.",
        "at-its-number": "Each block begins at the number of its device, so that they overlap. How "
        "many elements stand before the block of device i?",
        "all-at-the-start": "Every device puts its block at the start, so that the sum of all "
        "blocks is there, and the rest is zeros. Where does the block of device i belong?",
        "blocks-added": "These are the blocks added to each other, so the result is only as long "
        "as one of them. Before they are added up, each block needs a place of its own.",
        "on-top-of-each-other": "In every place there is the sum of all blocks. Before they are "
        "added up, each device is to have its own block in its place, and zeros in all others.",
        "mean-for-sum": "It is as many times too small as there are devices: is a mean taken where "
        "a sum is needed?",
        "backwards": "The blocks are in the opposite order.",
        "one-place-too-far": "Each block stands one block too far on, and the last two are on top "
        "of each other at the end, where lax.dynamic_update_slice puts what does not fit. Count "
        "devices from 0.",
        "counted-from-the-end": "The blocks are put in their places from the end, and the first "
        "two are on top of each other there. How many blocks stand before that of device i?",
        "smallest-for-sum": "Wherever a value should be positive it is 0; the others are right. Is "
        "a minimum taken, of the blocks and the zeros about them?",
        "order-of-arrival": "In every place there is the mean of all blocks. Before they are "
        "averaged, each block has to be in its own place: not the blocks in another order on each "
        "device, and not a device's own block in every place.",
        "shape": "The result has to be as long as x. How long is what each device returns, is a "
        "length written into the code, and do out_specs put copies end to end?",
    },
    about=(Requests,),
)

EXERCISES: Final = (SHAPES, REDUCTIONS, MODELS, PARTS, RINGS, HALO, SOLVES, CHECKED)
