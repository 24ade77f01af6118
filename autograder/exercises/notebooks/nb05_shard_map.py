"""Notebook 05: one program for each device, and collectives by hand.

A note for maintainers: what is asked for by hand is read from the exported program, so these
exercises depend on no compiler but in 5.7 and 5.8. Functions are judged under two meshes, of eight
and of four devices (`jax.set_mesh`), so they must not have a mesh written into them.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from autograder.exercises.exercise import Exercise
from autograder.exercises.requirements_on_layouts import PlacedLike
from autograder.exercises.requirements_on_programs import (
    Ask,
    CommunicatesAtMost,
    Computes,
    Requests,
)
from autograder.exercises.requirements_on_values import Predicts, Returns
from autograder.programs import Argument

SIZES: Final = (8, 4)
"""The sizes of the meshes that a function is judged on."""


def _on_lines(*shapes: Any) -> tuple[tuple[Argument, ...], ...]:
    """For each mesh, arguments cut along x in their first dimension; a shape is made from n."""
    return tuple(
        tuple(Argument(shape(n), (("x", n),), ("x",), mode="auto") for shape in shapes)
        for n in SIZES
    )


def _each(*asks: Any) -> tuple[tuple[Ask, ...], ...]:
    """For each mesh, what is to be asked for, made from its size."""
    return tuple(tuple(ask(n) for ask in asks) for n in SIZES)


SHAPES: Final = Exercise(
    id="5.1",
    title="What a device sees",
    requirements=(
        *(
            Predicts("inside", spec, f"the shape in the body, for in_specs {spec}", right, mistakes)
            for spec, right, mistakes in (
                ("P('x', 'y')", (4, 8), {"global": (16, 16), "like-vmap": (16,)}),
                ("P('x')", (4, 16), {"global": (16, 16), "like-vmap": (16,), "both-cut": (4, 8)}),
                (
                    "P(None, ('x', 'y'))",
                    (16, 2),
                    {
                        "global": (16, 16),
                        "like-vmap": (16,),
                        "other-dimension": (2, 16),
                        "one-axis": (16, 8),
                    },
                ),
                ("P()", (16, 16), {"both-cut": (4, 8)}),
            )
        ),
        *(
            Predicts(
                "outside", spec, f"the shape of the result, for out_specs {spec}", right, mistakes
            )
            for spec, right, mistakes in (
                ("P('x', 'y')", (16, 16), {"still-inside": (4, 8), "other-dimension": (8, 32)}),
                (
                    "P(('x', 'y'), None)",
                    (32, 8),
                    {
                        "still-inside": (4, 8),
                        "as-before": (16, 16),
                        "other-dimension": (4, 64),
                        "one-axis": (16, 8),
                    },
                ),
                (
                    "P('y', 'x')",
                    (8, 32),
                    {"still-inside": (4, 8), "as-before": (16, 16), "other-dimension": (16, 16)},
                ),
            )
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
        "both-cut": "Only the axes that the spec names cut anything; along the others every device "
        "gets a copy.",
        "other-dimension": "An entry of the spec speaks of the dimension in its place: the first "
        "of dimension 0.",
        "one-axis": "The entry names two axes: their sizes multiply.",
        "still-inside": "That is one device's block. Outside, the blocks are put together.",
        "as-before": "What comes out need not have the shape of what went in: out_specs alone "
        "decides how the blocks are put together.",
    },
)


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max())
    return e / e.sum()


def _large(arguments: Any) -> Any:
    """The same arguments, with values on the last mesh that exp cannot take as they are."""
    *rest, last = arguments
    return (*rest, tuple(a.but(scale=100.0) for a in last))


def _blocks(x: Any) -> list[Any]:
    """The blocks of a vector that has eight elements on each device."""
    return np.split(x, len(x) // 8)


def _vector(n: int) -> tuple[int, ...]:
    return (8 * n,)


REDUCTIONS: Final = Exercise(
    id="5.2",
    title="To psum or not to psum",
    requirements=tuple(
        requirement
        for answer, asks, reference, count, mistakes in (
            (
                "total",
                "the sum of x",
                lambda x: x.sum(),
                1,
                {
                    "added-twice": lambda x: x.sum() * np.float32(len(x) // 8),
                    "mean-for-sum": lambda x: x.sum() / np.float32(len(x) // 8),
                },
            ),
            (
                "average",
                "the mean of x",
                lambda x: x.mean(),
                1,
                {"sum-of-means": lambda x: x.mean() * np.float32(len(x) // 8)},
            ),
            ("largest", "the largest element of x", lambda x: x.max(), 1, {}),
            (
                "softmax",
                "exp(x) / exp(x).sum(), safe for large x",
                _softmax,
                2,
                {
                    "each-for-itself": lambda x: np.concatenate(list(map(_softmax, _blocks(x)))),
                    "local-largest": lambda x: np.concatenate([
                        np.exp(b - b.max()) for b in _blocks(x)
                    ]) / sum(np.exp(b - b.max()).sum() for b in _blocks(x)),
                },
            ),
        )
        for requirement in (
            Computes(
                answer, f"{answer} must return {asks}.", reference,
                _large(_on_lines(_vector)), mistakes, under_mesh=True,
            ),
            Requests(
                answer,
                _each(lambda n, count=count: Ask("all-reduce", count, ("x",), 4)),
            ),
        )
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
        "not-replicated": "Each device knows its own part only, and out_specs promises one result.",
        "added-twice": "It is as many times too large as there are devices: what everybody has "
        "already was added up again.",
        "mean-for-sum": "It is as many times too small as there are devices: pmean for psum.",
        "sum-of-means": "A sum of the devices' means is as many times too large as there are "
        "devices.",
        "each-for-itself": "Each device made a softmax of its own block: the sum must be that of "
        "all of x.",
        "local-largest": "Each device took away its own largest element, so the exps are on "
        "different scales when they are added.",
        "sends-too-much": "Whole blocks are reduced across devices. Reduce the block to a number "
        "first.",
        "all-gather by hand": "The blocks are brought together. A number of each is enough.",
        "one-too-many": "What one all-reduce gives, everybody has: a second adds it up again.",
        "not-finite": "For large x, exp overflows: take away the largest element of all of x "
        "before exp.",
        "too-seldom": "A softmax needs two numbers of all of x: its largest element and the sum.",
    },
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


def _draw(generator: np.random.Generator) -> list[tuple[Any, ...]]:
    """Blocks of devices that can be cut into as many pieces as there are devices."""
    return [
        (generator.integers(0, 100, (n, n * pieces)).tolist(),)
        for n, pieces in ((2, 1), (2, 3), (4, 1), (4, 2), (3, 2))
    ]


def _draw_tiled(generator: np.random.Generator) -> list[tuple[Any, ...]]:
    return [(*case, tiled) for case in _draw(generator) for tiled in (True, False)]


MODELS: Final = Exercise(
    id="5.3",
    title="Collectives in NumPy",
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
            },
        ),
        Returns(
            "psum_scatter_ref",
            "psum_scatter_ref must return what each device holds after lax.psum_scatter, tiled.",
            cases=_draw,
            reference=_scattered,
            mistakes={
                "never-scattered": lambda blocks: _plain(
                    [np.sum(_arrays(blocks), axis=0)] * len(blocks)
                ),
                "never-summed": lambda blocks: _plain(
                    [np.split(b, len(blocks))[i] for i, b in enumerate(_arrays(blocks))]
                ),
            },
        ),
        Returns(
            "all_to_all_ref",
            "all_to_all_ref must return what each device holds after lax.all_to_all, tiled.",
            cases=_draw,
            reference=_exchanged,
            mistakes={
                "nothing-exchanged": lambda blocks: [list(b) for b in blocks],
                "never-joined": lambda blocks: [
                    [np.split(b, len(blocks))[i].tolist() for b in _arrays(blocks)]
                    for i in range(len(blocks))
                ],
                "gathered": lambda blocks: _gathered(blocks, True),
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
        "never-scattered": "That is psum: everybody has the whole sum. Each is to keep its piece.",
        "never-summed": "Each device has its piece of its own block: the blocks were not added up.",
        "nothing-exchanged": "Nothing has moved.",
        "never-joined": "The right pieces are in the right place; tiled joins them end to end.",
        "gathered": "That is all_gather: everybody has everything. Each is to get one piece of "
        "everybody.",
    },
)


def _rows(n: int) -> tuple[int, int]:
    return (n, 2 * n)


PARTS: Final = Exercise(
    id="5.4",
    title="An all-reduce, taken apart",
    requirements=(
        Computes(
            "sum_by_parts",
            "sum_by_parts(x) must give each device, in its row, the sum of all rows.",
            lambda x: np.broadcast_to(x.sum(0), x.shape),
            _on_lines(_rows),
            {"by-pieces": lambda x: np.tile(x.sum(1, keepdims=True), (1, x.shape[1]))},
            under_mesh=True,
        ),
        Requests(
            "sum_by_parts",
            _each(
                lambda n: Ask("reduce-scatter", 1, ("x",), 8 * n),
                lambda n: Ask("all-gather", 1, ("x",), 8 * n),
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
        "no reduce-scatter": "The sum is to be made by a reduce-scatter.",
        "no all-gather": "The pieces are to be brought together by an all-gather.",
        "by-pieces": "The columns of one row were added up, not the rows.",
        "untiled": "Here dimension 0 has size 1: take the row as a vector, or cut dimension 1.",
    },
)

RINGS: Final = Exercise(
    id="5.5",
    title="Round the ring",
    requirements=(
        Computes(
            "ring_all_gather",
            "ring_all_gather(x) must return, for each device, a row with all of x.",
            lambda x: np.tile(x, (len(x) // 8, 1)),
            _on_lines(_vector),
            {
                "wrong-order": lambda x: np.stack([
                    np.concatenate([_blocks(x)[(i - s) % len(_blocks(x))]
                                    for s in range(len(_blocks(x)))])
                    for i in range(len(_blocks(x)))
                ]),
            },
            under_mesh=True,
        ),
        Requests(
            "ring_all_gather", _each(lambda n: Ask("collective-permute", n - 1, ("x",), 32))
        ),
        Computes(
            "ring_reduce_scatter",
            "ring_reduce_scatter(x) must return the sum of the rows of x, a piece on each device.",
            lambda x: x.sum(0),
            _on_lines(_rows),
            {
                "wrong-piece": lambda x: np.roll(x.sum(0), 2),
                "wrong-piece-behind": lambda x: np.roll(x.sum(0), -2),
            },
            under_mesh=True,
        ),
        Requests(
            "ring_reduce_scatter", _each(lambda n: Ask("collective-permute", n - 1, ("x",), 8))
        ),
    ),
    hints=(
        "lax.ppermute(a, 'x', [(i, (i + 1) % n) for i in range(n)]) sends each device's array to "
        "the next. n is lax.axis_size('x'), the own number lax.axis_index('x').",
        "After s steps you hold the block of the device s places before you: number (i - s) % n. "
        "n blocks need n - 1 steps, as the own one is there already.",
        "For the reduce-scatter, send a growing sum round. Begin with your part for the device "
        "before you, and after s steps add your part for device (i - 1 - s) % n: in the end that "
        "is your own.",
    ),
    diagnoses={
        "one-too-many": "The own block needs no step: n - 1 bring the others. The last step's "
        "result is not used.",
        "too-often": "n - 1 steps are enough.",
        "all-gather by hand": "It is to be built of permutations.",
        "no collective-permute": "It is to be built of permutations.",
        "sends-too-much": "Only a block goes round, and not all that has been collected.",
        "wrong-order": "All blocks are there, in the order in which they came. Put each in its "
        "place: after s steps it is the one of device (i - s) % n.",
        "wrong-piece": "The sums are right, and each device holds that of its neighbour.",
        "wrong-piece-behind": "The sums are right, and each device holds that of its neighbour.",
    },
)  # fmt: skip

HALO: Final = Exercise(
    id="5.6",
    title="A halo of one",
    requirements=(
        Computes(
            "second_difference",
            "second_difference(x) must return np.roll(x, 1) - 2 * x + np.roll(x, -1).",
            lambda x: np.roll(x, 1) - 2 * x + np.roll(x, -1),
            _on_lines(_vector),
            {
                "open-ends": lambda x: (
                    np.concatenate([[0], x[:-1]]) - 2 * x + np.concatenate([x[1:], [0]])
                ).astype(x.dtype),
                "blocks-alone": lambda x: np.concatenate([
                    np.roll(b, 1) - 2 * b + np.roll(b, -1) for b in _blocks(x)
                ]),
                "halos-exchanged": lambda x: _with_halos(x, exchanged=True),
                "wrong-end": lambda x: _with_halos(x, ends=(0, -1)),
            },
            under_mesh=True,
        ),
        Requests(
            "second_difference", _each(lambda n: Ask("collective-permute", 2, ("x",), 4))
        ),
    ),
    hints=(
        "Within a block there is nothing to ask for. Only the first and the last element need a "
        "neighbour, and each a single number of it.",
        "Send your last element to the next device and your first to the one before: two "
        "permutations of arrays of one element (mine[-1:], mine[:1]).",
        "Join what came: jnp.concatenate([from_before, mine, from_next]) has two elements more, "
        "and from there it is plain NumPy.",
    ),
    diagnoses={
        "open-ends": "The vector is a ring: its last element is the first one's neighbour. Let the "
        "permutation close it.",
        "blocks-alone": "Each device made a ring of its own block.",
        "wrong-end": "The wrong ends were sent: the next device needs your last element, the one "
        "before your first.",
        "halos-exchanged": "What came from the device before stands behind, and the other way "
        "round.",
        "sends-too-much": "A single element is enough of each neighbour.",
        "all-gather by hand": "Everything is brought to everybody, where two numbers would do.",
        "no collective-permute": "The elements at the edges need their neighbours.",
    },
)  # fmt: skip


def _with_halos(x: Any, exchanged: bool = False, ends: tuple[int, int] = (-1, 0)) -> Any:
    """The second difference by halos: on the wrong sides, or of the wrong ends."""
    blocks = _blocks(x)
    made = []
    for i, block in enumerate(blocks):
        before = blocks[i - 1][ends[0]].reshape(1)
        after = blocks[(i + 1) % len(blocks)][ends[1]].reshape(1)
        if exchanged:
            before, after = after, before
        wide = np.concatenate([before, block, after])
        made.append(wide[:-2] - 2 * block + wide[2:])
    return np.concatenate(made)


def _matrices(n: int) -> tuple[int, int, int]:
    return (2 * n, 4, 4)


def _sides(n: int) -> tuple[int, int]:
    return (2 * n, 4)


def _solved(A: Any, b: Any) -> Any:  # noqa: N803  as the notebook has them
    return np.linalg.solve(A + 8 * np.eye(4, dtype=A.dtype), b[..., None])[..., 0]


SOLVES: Final = Exercise(
    id="5.7",
    title="Many systems, no words",
    requirements=(
        Computes(
            "solve_all",
            "solve_all(A, b) must return, for each i, the solution of (A[i] + 8 I) x = b[i].",
            _solved,
            _on_lines(_matrices, _sides),
            under_mesh=True,
        ),
        Requests("solve_all", ((), ())),
        CommunicatesAtMost("solve_all", ((), ())),
    ),
    hints=(
        "The systems have nothing to do with each other: each device solves its own, of which it "
        "has two.",
        "in_specs P('x') for both cut the batch. In the body, A has shape (2, 4, 4): all but the "
        "batch is whole.",
        "jnp.linalg.solve takes batches: solve(A, b[..., None])[..., 0]. Or vmap a solve of one "
        "system over the body's batch.",
    ),
    diagnoses={
        "shape": "Each device has more than one system. A[0] is only the first of its own.",
        "all-gather": "Something is brought to every device that the device has no use for: look "
        "at in_specs.",
        "all-gather by hand": "Nobody needs the others' systems.",
        "values": "Look at what is on the diagonal.",
    },
)

CHECKED: Final = Exercise(
    id="5.8",
    title="With the check on",
    requirements=(
        Computes(
            "everywhere",
            "everywhere(x) must be x.",
            lambda x: x,
            tuple((Argument((size,), (("x", 8),), ("x",), mode="auto"),) for size in (16, 64)),
            under_mesh=True,
        ),
        PlacedLike("everywhere", "0,1,2,3,4,5,6,7", ((16,), (64,))),
        Requests("everywhere", never=("all-gather",), mapped=False),
    ),
    hints=(
        "JAX cannot prove that what all_gather gives is the same everywhere, though it is. What "
        "gives the same to everybody for certain?",
        "psum does. Can you write a gather as a sum? Most terms would be zero.",
        "Each device puts its block in its place in a long vector of zeros "
        "(jax.lax.dynamic_update_slice, at axis_index times the block's size), and psum adds the "
        "vectors up. Or leave the body with P('x'), and lay the result out anew outside of it.",
    ),
    diagnoses={
        "not-replicated": "That is the check, and it is right to ask: find what it can prove.",
        "all-gather by hand": "No all_gather here: of what it gives JAX does not know that it is "
        "the same everywhere. Find something of which it does.",
        "nothing-moved": "x is still cut. On an Auto mesh jax.reshard and device_put inside of jit "
        "do nothing; with_sharding_constraint does.",
    },
)

EXERCISES: Final = (SHAPES, REDUCTIONS, MODELS, PARTS, RINGS, HALO, SOLVES, CHECKED)
