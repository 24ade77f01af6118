"""Notebook 09: what is not as it seems.

A note for maintainers: nearly all of this depends on what JAX and XLA do today, and some of it is
known to be moving. `tests/test_moving.py` names, for each, the exercise to update when it changes.
"""

from typing import Any, Final

import jax
import numpy as np
from jax.sharding import Mesh

from autograder.exercises.exercise import Exercise
from autograder.exercises.requirements_on_layouts import PlacedLike
from autograder.exercises.requirements_on_programs import (
    Budget,
    CommunicatesAtMost,
    Computes,
    FitsIn,
)
from autograder.exercises.requirements_on_values import Predicts, Returns
from autograder.layouts import Layout
from autograder.programs import Argument

LINES: Final = (8, 4)
"""How many devices there are in a line: functions are judged on both."""

ROWS: Final = ("\n".join(map(str, range(8))), "\n".join(map(str, range(4))))
COLUMNS: Final = (" ".join(map(str, range(8))), " ".join(map(str, range(4))))


def _argument(shape: tuple[int, ...], n: int, *spec: str | None, **more: Any) -> Argument:
    return Argument(shape, (("x", n),), spec, mode="auto", **more)


def _seed(n: int) -> Argument:
    return _argument((), n, dtype="uint32", scale=2.0**31)


AUDIT: Final = Exercise(
    id="9.1",
    title="An audit of random numbers",
    requirements=(
        *(
            Predicts(
                "moved", case, f"the bytes that noisy moves on each device, {case}", right, mistakes
            )
            for case, right, mistakes in (
                (
                    "rows, flag off",
                    21504,
                    {"only-permutes": 5120, "only-gathers": 16384, "on-all-devices": 8 * 21504},
                ),
                ("rows, flag on", 0, {"still-moves": 21504}),
                ("columns, flag off", 0, {"any-layout": 21504}),
            )
        ),
        *(
            Predicts("same", case, f"whether the same numbers come, {case}", right, {name: wrong})
            for case, right, wrong, name in (
                ("flag off and flag on", False, True, "flag-harmless"),
                ("rows and columns, flag on", True, False, "layout-matters"),
                ("rows and columns, flag off", True, False, "layout-matters"),
            )
        ),
    ),
    hints=(
        "communication(noisy, seed, x).bytes, within `with jax.threefry_partitionable(…):`.",
        "Two kinds of collectives are in it with the flag off: count both. A look at one name in "
        "the program's text finds one of them.",
        "For the numbers: np.array_equal of what noisy makes of zeros, laid out in two ways.",
    ),
    diagnoses={
        "only-permutes": "These are the permutations alone: there are all-gathers besides.",
        "only-gathers": "These are the all-gathers alone: there are permutations besides.",
        "on-all-devices": "That is what all devices move together. On each it is an eighth.",
        "still-moves": "With the flag on each device draws its own numbers, and no others.",
        "any-layout": "It depends on the layout: each row is drawn whole.",
        "flag-harmless": "The two ways of drawing give other numbers from the same key.",
        "layout-matters": "The numbers are a function of key and shape. Where they are drawn "
        "changes what it costs, not what comes.",
    },
)

SHAPE: Final = (64, 512)


def _drawn(seed: Any) -> Any:
    return np.asarray(jax.random.normal(jax.random.key(seed), SHAPE) / 8)


INITIALISED: Final = Exercise(
    id="9.2",
    title="Born in place",
    requirements=(
        Computes(
            "initialise",
            "initialise(seed) must be jax.random.normal(jax.random.key(seed), (64, 512)) / 8.",
            _drawn,
            tuple((_seed(n),) for n in LINES),
            under_mesh=True,
        ),
        PlacedLike("initialise", COLUMNS[0], (SHAPE,) * 2, elsewhere=COLUMNS[1:]),
        CommunicatesAtMost("initialise", ((),) * 2),
        FitsIn("initialise", tuple(4 * 4 * SHAPE[0] * SHAPE[1] // n + 32768 for n in LINES)),
    ),
    hints=(
        "Say where the array is to be in the program that makes it, and each device makes its "
        "part.",
        "Two ways: jax.jit(init, out_shardings=P(…)), called in your function; or "
        "with_sharding_constraint on what is drawn.",
        "Draw the whole shape, from the one key: the compiler cuts up the drawing.",
    ),
    diagnoses={
        "too-much-memory": "Each device makes all of it, where it was to make its part.",
        "replicated": "Each device makes all of it, and keeps it. What is moved after it was made "
        "has been somewhere, whole; and within a jitted program, with Auto axes, jax.device_put "
        "does not even move it.",
        "values": "The same key and the same shape give the same numbers, however they are laid "
        "out. Parts drawn from keys of their own are other numbers.",
        "transposed": "The columns are to be cut.",
    },
)

OWN: Final = 8
"""The rows of one device."""


def _noisy(seed: Any, x: Any, *, one_key: bool = False) -> Any:
    """x, and for each device's rows the numbers of a key of their own."""
    key = jax.random.key(seed)
    keys = [key if one_key else jax.random.fold_in(key, i) for i in range(len(x) // OWN)]
    noise = [np.asarray(jax.random.normal(k, (OWN, x.shape[1]))) for k in keys]
    return x + np.concatenate(noise)


NOISE: Final = Exercise(
    id="9.3",
    title="Noise of one's own",
    requirements=(
        Computes(
            "noisy_rows",
            "noisy_rows(seed, x) must be x plus noise: on device i along x, the numbers of "
            "jax.random.fold_in(jax.random.key(seed), i).",
            _noisy,
            tuple((_seed(n), _argument((OWN * n, 4), n, "x")) for n in LINES),
            {
                "x-forgotten": lambda seed, x: _noisy(seed, np.zeros_like(x)),
                "same-key": lambda seed, x: _noisy(seed, x, one_key=True),
                "drawn-whole": lambda seed, x: (
                    x + np.asarray(jax.random.normal(jax.random.key(seed), x.shape))
                ),
            },
            under_mesh=True,
        ),
        PlacedLike("noisy_rows", ROWS[0], ((OWN * 8, 4), (OWN * 4, 4)), elsewhere=ROWS[1:]),
        CommunicatesAtMost("noisy_rows", ((),) * 2),
    ),
    hints=(
        "In a body, the same line runs on all devices: the same key, the same shape, the same "
        "numbers.",
        "What differs from device to device is lax.axis_index('x').",
        "jax.random.fold_in(key, number) makes a new key of a key and a number.",
    ),
    diagnoses={
        "same-key": "All devices add the same noise: they all draw from the same key.",
        "drawn-whole": "That is one drawing for all of x, as the compiler would cut it up. Here "
        "each device is to have a key of its own.",
        "x-forgotten": "The noise is right, and x is to be added to it.",
        "values": "Is the number folded in the device's place along x, counted from 0, and is the "
        "noise of jax.random.normal?",
        "ignores-inputs": "A seed written into the function gives the same noise every time.",
        "replicated": "out_specs is to put the rows together as they came.",
    },
)

VOCABULARIES: Final = ((8, 17, 1.0), (4, 33, 1.0), (8, 24, 30.0))
"""The devices, the words, and how large what is hidden is: with the last, exp overflows."""

PADDED: Final = (24, 40, 24)


def _logits(hidden: Any, table: Any) -> Any:
    padding = -len(table) % 8
    return np.pad(hidden @ table.T, ((0, 0), (0, padding)))


def _softmax(logits: Any) -> Any:
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


def _probabilities(hidden: Any, table: Any) -> Any:
    logits = _logits(hidden, table)
    logits[:, len(table) :] = -np.inf
    return _softmax(logits)


def _masked_after(hidden: Any, table: Any) -> Any:
    made = _softmax(_logits(hidden, table))
    made[:, len(table) :] = 0
    return made


UNEVEN: Final = Exercise(
    id="9.4",
    title="Seventeen words on eight devices",
    requirements=(
        Computes(
            "spread",
            "spread(table) must be the table, with rows of zeros up to the next multiple of 8.",
            lambda table: np.pad(table, ((0, -len(table) % 8), (0, 0))),
            tuple((_argument((v, 16), n),) for n, v, _ in VOCABULARIES),
            {"silently-copied": lambda table: table},
            under_mesh=True,
        ),
        PlacedLike("spread", ROWS[0], tuple((p, 16) for p in PADDED), elsewhere=(ROWS[1], ROWS[0])),
        CommunicatesAtMost("spread", ((),) * 3),
        Computes(
            "probabilities",
            "probabilities(hidden, table) must be softmax(hidden @ table.T), with columns of zeros "
            "up to the next multiple of 8.",
            _probabilities,
            tuple(
                (_argument((8, 16), n, scale=scale), _argument((v, 16), n))
                for n, v, scale in VOCABULARIES
            ),
            {
                "padding-counts": lambda hidden, table: _softmax(_logits(hidden, table)),
                "masked-too-late": _masked_after,
            },
            under_mesh=True,
        ),
        PlacedLike(
            "probabilities",
            COLUMNS[0],
            tuple((8, p) for p in PADDED),
            elsewhere=(COLUMNS[1], COLUMNS[0]),
        ),
        CommunicatesAtMost("probabilities", ((Budget("all-reduce", ("x",), 2 * 4 * 8),),) * 3),
    ),
    hints=(
        "17 does not divide by 8, and 24 does: jnp.pad the table with rows of zeros, and ask for "
        "it along x then. In Python, -17 % 8 is 7.",
        "A row of zeros has the logit 0, and exp(0) is 1: the padding would take its part. What "
        "logit has no part at all?",
        "jnp.where(jnp.arange(padded) < words, logits, -jnp.inf), before the softmax; and a "
        "constraint on the padded table or on the logits.",
    ),
    diagnoses={
        "silently-copied": "17 rows came back, on every device: a constraint that does not divide "
        "ends in copies, without a word. Pad first, constrain then.",
        "replicated": "It is padded, and a copy on every device: ask for it along x.",
        "padding-counts": "The padding has a logit of 0, and gets a part of the probability.",
        "masked-too-late": "The padding took its part before it was set to zero: the rest does "
        "not add up to 1.",
        "not-finite": "exp overflows where the row's largest logit is not taken off first; and on "
        "a device that has nothing but padding the largest is minus infinity: take it over all "
        "devices.",
        "collective-permute": "Rows were cut into uneven blocks, and padded then: the blocks' "
        "borders had to move. Pad first.",
        "all-gather": "The words are brought together: constrain the table or the logits to lie "
        "along x, and leave the softmax to the compiler.",
        "does-not-divide": "shard_map and jit's own shardings refuse what does not divide: pad "
        "first.",
        "shape": "The next multiple of 8, whatever the number of words and of devices; 24 words "
        "need no padding.",
    },
)

STEPS: Final = {
    # what each step asks, whether that is what comes out, what it is to think otherwise
    "constrain_explicit": ("with_sharding_constraint to P(), Explicit axes", False, "wrong-verb"),
    "constrain_auto": ("with_sharding_constraint to P(), Auto axes", True, "right-verb"),
    "reshard_auto": ("jax.reshard to P(), Auto axes", False, "wrong-verb"),
    "reshard_explicit": ("jax.reshard to P(), Explicit axes", True, "right-verb"),
    "put_auto": ("jax.device_put to P('y', 'x') in jit, Auto axes", False, "put-in-jit"),
    "put_explicit": ("jax.device_put to P('y', 'x') in jit, Explicit axes", True, "put-explicit"),
    "uneven": ("a constraint of 17 rows to P('x') on 8 devices", False, "uneven"),
}

NO_OPS: Final = Exercise(
    id="9.5",
    title="Said, and not done",
    requirements=(
        *(
            Predicts("obeyed", step, f"True or False: {what} is obeyed", right, {name: not right})
            for step, (what, right, name) in STEPS.items()
        ),
        *(
            Predicts(
                "still_cut",
                step,
                f"True or False: after a constraint to {spec}, dimension 0 is still cut along x",
                right,
                {name: not right},
            )
            for step, spec, right, name in (
                ("none", "P(None, 'y')", False, "none-is-a-wish"),
                ("unconstrained", "P(P.UNCONSTRAINED, 'y')", True, "open-is-open"),
            )
        ),
    ),
    hints=(
        "Look at what comes out: show(before=argument, after=jax.jit(step)(argument)).",
        "Each mode has its own verb. With P(), the other mode's verb has no axis to complain of.",
        "None in a spec is a wish: whole along this dimension. P.UNCONSTRAINED is none.",
    ),
    diagnoses={
        "wrong-verb": "P() names no axis, so the verb of the other mode finds nothing to object "
        "to, and nothing to do.",
        "right-verb": "This is the verb for this mode, and it makes copies.",
        "put-in-jit": "Within jit, with Auto axes, device_put is dropped.",
        "put-explicit": "With Explicit axes a layout is part of the type, and device_put changes "
        "the type, within jit too.",
        "uneven": "What comes out is a copy on every device: an array whose last block is short "
        "cannot leave a program.",
        "none-is-a-wish": "None asks for dimension 0 to be whole: the devices along x collect it.",
        "open-is-open": "What is unconstrained stays as it is, and along y it lies already.",
    },
)

TABLES: Final = ((8, (64, 32)), (4, (32, 16)))
"""The devices, and the shape of x."""


def _shifted(x: Any) -> Any:
    return np.concatenate([np.zeros_like(x[:1]), x[:-1]])


INDEXING: Final = Exercise(
    id="9.6",
    title="One row, and one row further",
    requirements=(
        Computes(
            "row",
            "row(x, i) must be x[i].",
            lambda x, i: x[i],
            tuple(
                (_argument(s, n, "x"), _argument((), n, dtype="int32", scale=s[0]))
                for n, s in TABLES
            ),
            under_mesh=True,
        ),
        CommunicatesAtMost(
            "row", tuple((Budget("all-reduce", ("x",), 4 * s[1]),) for _, s in TABLES)
        ),
        Computes(
            "shifted",
            "shifted(x) must have row i - 1 of x as its row i, and zeros as its row 0.",
            _shifted,
            tuple((_argument(s, n, "x"),) for n, s in TABLES),
            {
                "goes-round": lambda x: np.roll(x, 1, 0),
                "other-way": lambda x: np.concatenate([x[1:], np.zeros_like(x[:1])]),
            },
            under_mesh=True,
        ),
        PlacedLike("shifted", ROWS[0], tuple(s for _, s in TABLES), elsewhere=ROWS[1:]),
        CommunicatesAtMost(
            "shifted",
            tuple((Budget("collective-permute", ("x",), 4 * s[1]),) for _, s in TABLES),
        ),
    ),
    hints=(
        "x[i], with an i that is known only when it runs, brings all of x together. What can each "
        "device say about row i by itself?",
        "Rows times 0 or 1, added up: jnp.where(jnp.arange(len(x)) == i, …), and a sum over the "
        "rows. (jnp.take knows of it too.) For the shift: all but one row stay on their device.",
        "jnp.roll moves what crosses a border, and nothing else. Then set row 0 to zero, with a "
        "mask or with .at.",
    ),
    diagnoses={
        "all-gather": "Everybody gets all rows, to look one of them up, or to move them by one.",
        "too-many-bytes": "One row is enough.",
        "all-to-all": "A concatenation of blocks of odd sizes lays all rows out anew.",
        "collective-permute": "Rows are handed about, where only row i is wanted.",
        "goes-round": "The last row has come round to the first place: there zeros were asked for.",
        "other-way": "Down, not up: row 0 of x becomes row 1.",
    },
)

GRIDS: Final = ((4, 2), (2, 4))
CUBE: Final = (16, 16, 16)

PATHS: Final = Exercise(
    id="9.7",
    title="Two hops are shorter",
    requirements=(
        Computes(
            "rearranged",
            "rearranged(x) must have the values of x.",
            lambda x: x,
            tuple(
                (Argument(CUBE, (("x", n), ("y", m)), ("y", None, "x"), mode="auto"),)
                for n, m in GRIDS
            ),
            under_mesh=True,
        ),
        PlacedLike("rearranged", ROWS[0], (CUBE,) * 2),
        CommunicatesAtMost("rearranged", ((Budget("all-to-all", bytes=4096),),) * 2),
    ),
    hints=(
        "An all-to-all moves one axis from one dimension to another. How many have to move here?",
        "Constrain it to something in between first, and then to P(None, ('x', 'y'), None).",
        "In between, everything has to be cut into eight, or somebody holds more than a share. "
        "Move x or y, and leave the other where it is.",
    ),
    diagnoses={
        "all-gather": "Somewhere on the way x is brought together. If there is nothing in between, "
        "the compiler says so itself, and calls it an involuntary full rematerialization; if "
        "there is, an axis has no dimension there, and so there are copies.",
        "too-many-bytes": "Two moves are enough, each of a device's own 2,048 bytes.",
        "collective-permute": "The two axes arrive in the other order, and blocks have to change "
        "places.",
        "nothing-moved": "Nothing was asked for, or it had no effect.",
        "values": "All blocks are there, in other places: where you move axes by hand, the order "
        "in which you do decides the order in which they lie.",
        "grid": "Dimension 1 is to be cut along x and along y.",
    },
)

Described = tuple[Any, tuple[str, ...], tuple[Any, ...]]
"""A sharding as plain data: the mesh's grid of device ids, its axis names, a spec."""


def _sharding(described: Described) -> jax.NamedSharding:
    ids, names, spec = described
    devices = {device.id: device for device in jax.devices()}
    grid = np.vectorize(devices.__getitem__, otypes=[object])(np.array(ids))
    return jax.NamedSharding(Mesh(grid, names), jax.P(*spec))


def _same(one: Described, other: Described, shape: tuple[int, ...]) -> bool:
    return Layout.of(_sharding(one), shape) == Layout.of(_sharding(other), shape)


def _pairs(generator: np.random.Generator) -> list[tuple[Described, Described, tuple[int, ...]]]:
    """Pairs of which each can be told from the others only by the blocks."""
    order = generator.permutation(8)
    while (order == np.arange(8)).all():
        order = generator.permutation(8)
    plain, mixed = np.arange(8).tolist(), order.tolist()
    grid, turned = np.reshape(order, (4, 2)).tolist(), np.reshape(order, (4, 2)).T.tolist()
    wide = np.reshape(order, (2, 4)).tolist()
    shape = tuple(8 * int(generator.integers(1, 5)) for _ in range(2))
    pairs: list[tuple[Described, Described]] = [
        # the same spec, on devices in another order
        ((plain, ("x",), ("x",)), (mixed, ("x",), ("x",))),
        # other names
        ((mixed, ("x",), (None, "x")), (mixed, ("i",), (None, "i"))),
        # None left out
        ((grid, ("x", "y"), ("x",)), (grid, ("x", "y"), ("x", None))),
        # the mesh turned, and the spec's names with it
        ((grid, ("x", "y"), ("x", "y")), (turned, ("x", "y"), ("y", "x"))),
        # the mesh turned, and the spec not
        ((grid, ("x", "y"), ("x", "y")), (turned, ("x", "y"), ("x", "y"))),
        # one axis in two parts
        ((mixed, ("x",), ("x",)), (wide, ("a", "b"), (("a", "b"),))),
        ((mixed, ("x",), ("x",)), (wide, ("a", "b"), (("b", "a"),))),
        # copies on all devices, whatever their order
        ((plain, ("x",), ()), (mixed, ("x",), (None, None))),
        # the same copies, on fewer devices
        ((plain[:4], ("x",), ()), (plain, ("x",), ())),
        ((plain, ("x",), ()), (plain[:4], ("x",), ())),
        # copies, and none
        ((grid, ("x", "y"), ("x", None)), (grid, ("x", "y"), ("x", "y"))),
    ]
    return [(one, other, shape) for one, other in pairs]


SAME: Final = Exercise(
    id="9.8",
    title="The same layout?",
    requirements=(
        Returns(
            "same_layout",
            "same_layout(one, other, shape) must return True or False: whether both put the same "
            "blocks of an array of that shape on the same devices.",
            cases=_pairs,
            reference=_same,
            mistakes={
                "specs": lambda one, other, shape: one[2] == other[2],
                "equal": lambda one, other, shape: _sharding(one) == _sharding(other),
                "equivalent": lambda one, other, shape: _sharding(one).is_equivalent_to(
                    _sharding(other), len(shape)
                ),
                "block-shapes": lambda one, other, shape: (
                    _sharding(one).shard_shape(shape) == _sharding(other).shard_shape(shape)
                ),
            },
        ),
    ),
    hints=(
        "A spec says how axes lie along dimensions, and nothing of which devices the mesh has, and "
        "in what order.",
        "A sharding can tell for each device which part of an array it holds.",
        "sharding.devices_indices_map(shape) is a dictionary: from devices to slices. Two of them "
        "can be compared with ==.",
    ),
    diagnoses={
        "specs": "That is what comes of comparing the specs. The same spec on another mesh is "
        "another layout, and other specs may be the same one.",
        "equal": "That is what comes of comparing shardings with ==. It asks for the same mesh, "
        "the same names and the same spelling of the spec.",
        "equivalent": "That is what comes of is_equivalent_to. It does not look at names, but asks "
        "for the devices in the same order, even where the blocks end up in the same places.",
        "block-shapes": "Blocks of the same shape may be on other devices, or other blocks.",
    },
)

EXERCISES: Final[tuple[Exercise, ...]] = (
    AUDIT, INITIALISED, NOISE, UNEVEN, NO_OPS, INDEXING, PATHS, SAME,
)  # fmt: skip
