"""Notebook 13: a trainer that lasts, from rules for its parameters to the memory at its peak.

The limits of 13.6 and 13.7 depend on the compiler; `tests/exercises/test_a_real_trainer.py` fails
when it does better. All other budgets follow from the exercises.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import combinations
from typing import Any, Final

import jax
import numpy as np

from autograder.artifacts import Adjustment, Argument
from autograder.judge import (
    Budget,
    CommunicatesAtMost,
    Computes,
    Donates,
    Exercise,
    FitsIn,
    KeepsLayouts,
    Mistake,
    PlacedLike,
    Predicts,
    Satisfies,
)
from shardlings.layouts import Layout, LayoutError, find_difference

Axes = tuple[tuple[str, int], ...]

GRIDS: Final[tuple[Axes, ...]] = ((("data", 4), ("model", 2)), (("data", 2), ("model", 4)))
"""The meshes of most exercises. Functions are judged on both."""

# 13.1

Path = tuple[str | int, ...]
Spec = list[str | None]

RULES: Final[Mapping[str, tuple[str, str]]] = {
    "embed": ("model", "data"),
    "query": ("data", "model"),
    "key": ("data", "model"),
    "value": ("data", "model"),
    "out": ("model", "data"),
    "up": ("data", "model"),
    "down": ("model", "data"),
}
"""The mesh axes for the last two dimensions of a leaf, by the last name in its path."""


def find_spec(path: Path, shape: Sequence[int], sizes: Mapping[str, int]) -> Spec:
    """Return the spec of a leaf as a list, with an entry for each dimension."""
    rule = RULES.get(str(path[-1]), ())
    if len(shape) < len(rule) or not rule:
        return [None] * len(shape)
    entries = [None] * (len(shape) - len(rule)) + list(rule)
    return [
        axis if axis is not None and size % sizes[axis] == 0 else None
        for axis, size in zip(entries, shape, strict=True)
    ]


def _sample_leaves(generator: np.random.Generator) -> list[tuple[Path, tuple[int, ...], Any]]:
    """Sample the paths and shapes of leaves, and a mesh for each, from simple to intricate."""
    sizes: list[dict[str, int]] = [
        {"data": 4, "model": 2},
        {"data": 2, "model": 4},
        {"model": 4, "data": 2},
    ]

    def choose(*options: Any) -> Any:
        return options[int(generator.integers(len(options)))]

    def even() -> int:
        return 8 * int(generator.integers(1, 9))

    leaves: list[tuple[Path, tuple[int, ...]]] = []
    for name in RULES:
        layer: Path = () if name == "embed" else ("layers", int(generator.integers(12)))
        part: Path = {"up": ("mlp",), "down": ("mlp",), "embed": ()}.get(name, ("attention",))
        leaves.append((("params", *layer, *part, name), (even(), even())))
    leaves += [
        (("params", "layers", int(generator.integers(12)), "norm", "scale"), (even(),)),
        (("params", "layers", int(generator.integers(12)), "mlp", "bias"), (even(),)),
        (("params", "head", "table"), (even(), even())),
        # names that only contain one of the table's, or have it further up
        (("params", "head", choose("lookup", "keys", "outer")), (even(), even())),
        (("params", choose("embed", "value"), "positions"), (even(), even())),
        # too few dimensions, whatever the name
        (("params", "layers", int(generator.integers(12)), "attention", choose(*RULES)), (even(),)),
        (("params", "head", choose(*RULES)), ()),
    ]
    # the optimizer's state
    moment = choose("mu", "nu")
    leaves += [
        (
            (
                "optimizer",
                moment,
                "layers",
                int(generator.integers(12)),
                "mlp",
                choose("up", "down"),
            ),
            (even(), even()),
        ),
        (("optimizer", moment, "embed"), (even(), even())),
        (("optimizer", moment, "layers", int(generator.integers(12)), "norm", "scale"), (even(),)),
        (("optimizer", "count"), ()),
        (
            (
                "optimizer",
                "rows",
                "layers",
                int(generator.integers(12)),
                "mlp",
                choose("up", "down"),
            ),
            (even(),),
        ),
        (("optimizer", "placeholder", choose("up", "query", "embed")), ()),
    ]
    # layers that are stacked for a scan
    leaves += [
        (("params", "blocks", "mlp", name), (choose(8, 12, 16), even(), even()))
        for name in ("up", "down")
    ]
    leaves += [
        (("optimizer", moment, "blocks", "attention", "query"), (choose(8, 16), even(), even())),
        (("params", "blocks", "norm", "scale"), (choose(8, 16), even())),
        (("params", "blocks", "attention", "value"), (choose(5, 7, 9), even(), even())),
        # a stack has three dimensions, whatever the names above it
        (("params", choose("decoder", "stages"), "mlp", choose("up", "down")), (8, even(), even())),
        (("optimizer", moment, choose("encoder", "stack"), "out"), (12, even(), even())),
        # and whether there is a number among them
        (("params", "stages", int(generator.integers(4)), "mlp", "up"), (8, even(), even())),
        (("optimizer", moment, "stages", 0, "attention", "key"), (12, even(), even())),
        (("params", "head", choose("out", "down")), (even(), even())),
    ]
    # sizes that do not divide
    odd = choose(7, 9, 11, 13)
    leaves += [
        (("params", "embed"), (50_257, even())),
        (("params", "layers", 0, "attention", "key"), (even(), odd)),
        (("params", "layers", 1, "mlp", "down"), (even(), odd)),
        (("params", "layers", 2, "attention", "value"), (odd, odd + 2)),
        (("params", "blocks", "attention", "key"), (6, even(), odd)),
    ]
    on_meshes = [(path, shape, sizes[i % len(sizes)]) for i, (path, shape) in enumerate(leaves)]
    # each axis divides 12, 20 and 28, and all devices together do not
    four = choose(12, 20, 28)
    # one axis divides 6, and the other one does not
    return [
        *on_meshes,
        (("params", "layers", 6, "attention", "value"), (four, even()), sizes[0]),
        (("params", "layers", 3, "mlp", "up"), (6, four), sizes[1]),
        (("params", "layers", 4, "attention", "query"), (even(), 6), sizes[0]),
        (("params", "layers", 7, "mlp", "down"), (four, 6), sizes[2]),
        # one index on each device, along one dimension or both
        (("params", "layers", 8, "mlp", "up"), (4, four), sizes[0]),
        (("params", "layers", 8, "mlp", "down"), (four, 4), sizes[0]),
        (("params", "layers", 9, "attention", "out"), (2, 4), sizes[0]),
        (("params", "layers", 5, "attention", "out"), (6, 10), sizes[1]),
        # a slot of the optimizer with another name than the usual ones, and letters of names
        (
            ("optimizer", choose("trace", "ema", "slow"), "layers", 2, "mlp", choose("up", "down")),
            (even(), even()),
            sizes[1],
        ),
        (("params", "head", choose("e", "v", "k", "u")), (even(), even()), sizes[2]),
        # a name that only ends with one of the table's
        (("params", "head", choose("cleanup", "layout", "pos_embed")), (even(), even()), sizes[0]),
    ]


def _part_of(path: Path, shape: Sequence[int], sizes: Mapping[str, int]) -> str:
    """Return which part of 13.1 a leaf belongs to."""
    rule = RULES.get(str(path[-1]), ())
    if len(shape) >= 2 and any(
        size % sizes[axis] or size == sizes[axis]
        for axis, size in zip(rule, shape[-2:], strict=False)
    ):
        return "sizes"
    if "blocks" in path or len(shape) > 2:
        return "stacked"
    return "optimizer" if path[0] == "optimizer" else "parameters"


def _entries_of(result: Any) -> list[tuple[str, ...]] | None:
    """Return a spec's entries as tuples of axes; None if the result is no spec."""
    if not isinstance(result, list):
        return None
    entries = []
    for entry in result:
        names = [] if entry is None else [entry] if isinstance(entry, str) else entry
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return None
        entries.append(tuple(names))
    return entries


def _layout_of(
    entries: Sequence[tuple[str, ...]], shape: Sequence[int], sizes: Mapping[str, int]
) -> Layout:
    count = int(np.prod([*sizes.values()]))
    mesh = jax.sharding.Mesh(
        np.array(jax.devices()[:count]).reshape([*sizes.values()]), tuple(sizes)
    )
    return Layout.of(jax.NamedSharding(mesh, jax.P(*entries)), tuple(shape))


def _explain_rule(
    result: Any, path: Path, shape: Sequence[int], sizes: Mapping[str, int]
) -> tuple[str, str] | None:
    """Explain what is wrong with the spec of one leaf."""
    leaf = f"The leaf is {path}, with the shape {tuple(shape)}, on a mesh of {dict(sizes)}."
    entries = _entries_of(result)
    if entries is None:
        return "no-spec", f"Expected a partition spec, such as P('data', None) or P(). {leaf}"
    named = [axis for entry in entries for axis in entry]
    unknown = [axis for axis in named if axis not in sizes]
    if unknown:
        return "unknown-axis", f"The mesh has no axis {unknown[0]!r}. {leaf}"
    if len({*named}) < len(named):
        return "axis-twice", f"The spec names an axis twice. {leaf}"
    if len(entries) > len(shape):
        return (
            "too-many-entries",
            f"The spec has more entries ({len(entries)}) than the leaf has dimensions "
            f"({len(shape)}). JAX raises an error for such a spec, even if the entries are None. "
            f"{leaf}",
        )
    wanted = find_spec(path, shape, sizes)
    slip = _name_other_sizes(entries, wanted, path, shape, sizes)
    if slip is not None:
        return slip, leaf
    for i, (entry, size) in enumerate(zip(entries, shape, strict=False)):
        count = int(np.prod([sizes[axis] for axis in entry]))
        if size % count:
            return (
                "does-not-divide",
                f"Dimension {i} has the size {size}, which {count} devices do not divide. {leaf}",
            )
    right = _layout_of([() if axis is None else (axis,) for axis in wanted], shape, sizes)
    try:
        made = _layout_of(entries, shape, sizes)
    except LayoutError as error:
        return "does-not-fit", f"{error} {leaf}"
    found = find_difference(right, made)
    if found is None:
        return None
    slip = _name_slip(entries, wanted, shape)
    if slip == "layers-sharded":
        return slip, leaf  # the lesson says more than the blocks do
    if slip == "small-leaf-sharded":
        return slip, f"{leaf} {_say_why_replicated(path, shape)}"
    if slip == "left-replicated" and path[0] == "optimizer":
        leaf += " The same rules serve the parameters and the optimizer's moments."
    return slip, f"{found.sentence} {leaf}"


def _say_why_replicated(path: Path, shape: Sequence[int]) -> str:
    """Say why the table shards no dimension of a leaf, whatever the sizes are."""
    if str(path[-1]) not in RULES:
        return f"The last name of its path, {path[-1]!r}, is in no row of the table."
    if len(shape) < 2:
        count = ("no dimension", "one dimension")[len(shape)]
        return f"The table's rows are for the last two dimensions, and the leaf has {count}."
    return "Neither dimension can be divided by its axis."


def _with_exchanged_sizes(path: Path, shape: Sequence[int], sizes: Mapping[str, int]) -> Spec:
    return find_spec(path, shape, {"data": sizes["model"], "model": sizes["data"]})


def _with_all_devices(path: Path, shape: Sequence[int], sizes: Mapping[str, int]) -> Spec:
    return find_spec(path, shape, dict.fromkeys(sizes, int(np.prod([*sizes.values()]))))


def _with_longer_dimensions(path: Path, shape: Sequence[int], sizes: Mapping[str, int]) -> Spec:
    """Return the spec that shards only the dimensions that are longer than their axis."""
    entries = zip(find_spec(path, shape, sizes), shape, strict=True)
    return [axis if axis and size > sizes[axis] else None for axis, size in entries]


def _with_axes_by_order(path: Path, shape: Sequence[int], sizes: Mapping[str, int]) -> Spec:
    """Return the spec that takes the first axis of `sizes` for `data`, whatever its name."""
    names = dict(zip(("data", "model"), sizes, strict=True))
    spec = find_spec(path, shape, {name: sizes[axis] for name, axis in names.items()})
    return [names[axis] if axis else None for axis in spec]


def _with_division_reversed(path: Path, shape: Sequence[int], sizes: Mapping[str, int]) -> Spec:
    """Return the spec that shards the dimensions whose size divides that of the axis."""
    entries = zip(find_spec(path, shape, dict.fromkeys(sizes, 1)), shape, strict=True)
    return [axis if axis and sizes[axis] % size == 0 else None for axis, size in entries]


def _with_division_negated(path: Path, shape: Sequence[int], sizes: Mapping[str, int]) -> Spec:
    """Return the spec that shards the dimensions that the axis does not divide."""
    entries = zip(find_spec(path, shape, dict.fromkeys(sizes, 1)), shape, strict=True)
    return [axis if axis and size % sizes[axis] else None for axis, size in entries]


def _by_last_name_but_one(
    path: Path, shape: Sequence[int], sizes: Mapping[str, int], longer_than: int = 1
) -> Spec:
    return find_spec(path[:-1] if len(path) > longer_than else path, shape, sizes)


RULES_WITH_A_SLIP: Final[Mapping[str, Callable[..., Spec]]] = {
    "sizes-exchanged": _with_exchanged_sizes,
    "sizes-of-all-devices": _with_all_devices,
    "one-index-each": _with_longer_dimensions,
}
"""Rules with one slip, which the spec of a single leaf may show."""


RULES_OF_ALL_LEAVES: Final[tuple[tuple[str, Callable[..., Spec]], ...]] = (
    *RULES_WITH_A_SLIP.items(),
    ("order-of-sizes", _with_axes_by_order),
    ("division-reversed", _with_division_reversed),
    ("division-reversed", _with_division_negated),
    ("last-name-but-one", _by_last_name_but_one),
    ("last-name-but-one", partial(_by_last_name_but_one, longer_than=2)),
)
"""Rules with one slip, which the specs of all leaves together may show."""


def _name_other_sizes(
    entries: Sequence[tuple[str, ...]],
    wanted: Spec,
    path: Path,
    shape: Sequence[int],
    sizes: Mapping[str, int],
) -> str | None:
    """Say which rule with a slip gives this spec, if it shards a dimension at all."""
    got = [*entries, *[()] * (len(shape) - len(entries))]
    for slip, rule in RULES_WITH_A_SLIP.items():
        made = rule(path, shape, sizes)
        if any(made) and made != wanted and got == [(axis,) if axis else () for axis in made]:
            return slip
    return None


def _name_slip(
    entries: Sequence[tuple[str, ...]], wanted: Sequence[str | None], shape: Sequence[int]
) -> str:
    """Name the likeliest slip behind a spec that is valid, and another one than expected."""
    got = [*entries, *[()] * (len(shape) - len(entries))]
    right = [() if axis is None else (axis,) for axis in wanted]
    if len(shape) > 2 and got[0]:
        return "layers-sharded"
    if not any(right):
        return "small-leaf-sharded"
    if not any(got):
        return "left-replicated" if all(right[-2:]) else "gave-up"
    if sum(map(bool, got)) < sum(map(bool, right)):
        return "one-axis-only"
    swapped = {"data": "model", "model": "data"}
    if [tuple(swapped.get(a, a) for a in entry) for entry in got] == right:
        return "axes-swapped"
    return "other-layout"


def _explain_part(part: str, result: Any, *leaf: Any) -> tuple[str, str] | None:
    return _explain_rule(result, *leaf) if _part_of(*leaf) == part else None


def _relate_leaves(
    slip: str, leaf: tuple[Any, ...], results: Sequence[tuple[Any, tuple[Any, ...]]]
) -> str:
    """Name a slip by the specs of all leaves, where those of one may have several causes."""
    for name, rule in RULES_OF_ALL_LEAVES:
        if all(_is_spec(result, rule(*other), other) for result, other in results):
            return name
    if slip != "gave-up":
        return slip
    # each leaf with the number of dimensions that are sharded, and that of those to be sharded
    counts = [
        (other, sum(map(bool, _entries_of(result) or ())), sum(map(bool, find_spec(*other))))
        for result, other in results
    ]
    gives_up = all(not got for _, got, right in counts if right == 1)
    same = [got for (path, *_), got, right in counts if right == 2 and path[-1] == leaf[0][-1]]
    return slip if gives_up and all(same) else "left-replicated"


def _is_spec(result: Any, spec: Spec, leaf: tuple[Any, ...]) -> bool:
    """Check whether a result is this spec, with or without its last entries if they are empty."""
    entries = _entries_of(result)
    if entries is None or len(entries) > len(leaf[1]):
        return False
    got = [*entries, *[()] * (len(spec) - len(entries))]
    return got == [(axis,) if axis else () for axis in spec]


SPEC_RULES: Final = Exercise(
    id="13.1",
    title="Rules for a tree of parameters",
    afterwards="Libraries have such rules, too. MaxText's, which it calls logical axis rules, are "
    "for names of dimensions in place of names of arrays. A test that fails for a large leaf "
    "without a rule is worth as much as the rules.",
    requirements=tuple(
        Satisfies(
            "rule",
            asks,
            _sample_leaves,
            partial(_explain_part, part),
            relate=_relate_leaves,
            shown_as=jax.P,
        )
        for part, asks in (
            ("parameters", "rule returns the spec of each parameter, by the table"),
            ("optimizer", "rule returns the spec of each leaf of the optimizer's state"),
            ("stacked", "rule shards a stack by the table, in its last two dimensions alone"),
            ("sizes", "rule shards no dimension that the axis does not divide, and all others"),
        )
    ),
    hints=(
        "Only the last name in a path matters, wherever the leaf stands. Which leaves have no "
        "rule?",
        "The table is for a leaf's last two dimensions. How many `None`s come first, if a leaf has "
        "three dimensions? And which leaves have fewer than two?",
        "When you have an axis for each dimension, replace it by `None` where "
        "`size % sizes[axis]` is not 0. The other dimension keeps its axis.",
    ),
    diagnoses={
        "too-many-entries": "P() replicates a leaf with any number of dimensions. Layers in a list "
        "are not stacked, and an optimizer may keep a vector, or a number, under a matrix's name.",
        "does-not-divide": "`device_put` raises an error for such a spec. Write `None` for this "
        "dimension. (If an entry is left out, the next one takes its place.)",
        "sizes-exchanged": "This is the rule's spec for a mesh whose axes have each other's sizes. "
        "Does `rule` take the size of the dimension's own axis, and from `sizes`?",
        "sizes-of-all-devices": "This is the rule's spec if each dimension had to be divided by "
        "the number of all devices. How many blocks does one axis make?",
        "layers-sharded": "The first dimension of a stack counts layers. A scan takes one layer "
        "in each turn, so each turn would have to fetch it from the device that has it.",
        "small-leaf-sharded": "Expected: a spec that replicates it.",
        "left-replicated": "A rule of the table is for this leaf. Replicated, it takes its whole "
        "size on each device.",
        "division-reversed": "All leaves have the specs of a rule that tests divisibility the "
        "wrong way round. What does your test give for a dimension of 8 and an axis of 4?",
        "last-name-but-one": "All leaves have the specs of a rule that looks at the last name but "
        "one in a path. Which name is in the table?",
        "one-axis-only": "This leaf can be sharded over both axes.",
        "gave-up": "One dimension cannot be sharded, and the other one can: each is decided by "
        "itself.",
        "one-index-each": "A dimension that is as long as its axis is divided as well: each device "
        "has one of its indices.",
        "order-of-sizes": "On meshes whose first axis is `data`, all leaves are right. Does `rule` "
        "take the names of axes from the order of `sizes`?",
        "axes-swapped": "The two axes are exchanged. In which row of the table is "
        "this leaf's name?",
        "unknown-axis": "Use the names that are in `sizes`.",
    },
)

# 13.2

WORKS: Final = "works"
ERROR: Final = "error"

MEETINGS: Final[Mapping[str, tuple[str, str, str]]] = {
    "a + b": ("a + b, on two meshes", ERROR, "moves-by-itself"),
    "a + numpy": ("a + an array of NumPy", WORKS, "numpy-has-a-place"),
    "a + fresh": ("a + jnp.ones(…), which nobody has placed", WORKS, "fresh-has-a-place"),
    "a + placed": ("a + an array that was put on device 5", ERROR, "placed-follows"),
    "jit of both": ("a jitted function that returns 2 a and 2 b", ERROR, "two-meshes-in-one"),
    "moved": ("device_put of a to b's sharding, plus b", WORKS, "never-leaves"),
    "other axes": (
        "two arrays on the same devices, whose meshes have other axes",
        WORKS,
        "names-must-agree",
    ),
    "other order": ("two arrays on the same devices, in another order", ERROR, "order-is-free"),
    "host": ("an array in pinned_host plus one on the devices", ERROR, "host-follows"),
}
"""For each cell of 13.2: what it is about, what comes of it, and the diagnosis if not so."""

MEETS: Final = Exercise(
    id="13.2",
    title="What meets in one program",
    afterwards="One program runs on one list of devices, in one order. So a pipeline whose stages "
    "have meshes of their own is several programs, and Python hands arrays from one to the next; "
    "that is slower to write than the `shard_map` of 8.8, and lets the stages differ.",
    requirements=(
        *(
            Predicts(
                "meets",
                cell,
                what,
                right,
                {name: ERROR if right == WORKS else WORKS},
            )
            for cell, (what, right, name) in MEETINGS.items()
        ),
        PlacedLike(
            "arrived",
            "4,5 \n 6,7",
            ((16, 8),),
            lambda: np.arange(128, dtype=np.float32).reshape(16, 8),
        ),
    ),
    weights={"meets": 2},
    hints=(
        "Each operation is a program of its own, and a program has one list of devices. Which of "
        "the two sides has devices already?",
        "An array that you have placed is committed: it never moves by itself. One that JAX made "
        "without being asked where is not, and follows the others. Axis names mean nothing to a "
        "program on Auto axes; the order of its devices does.",
        "For `arrived`: a mesh of four devices with two axes, made of `jax.devices()[4:]`, and a "
        "spec that shards the rows over one of them.",
    ),
    diagnoses={
        "moves-by-itself": "Both arrays are committed to devices of their own, and no program has "
        "both. JAX raises an error, and copies nothing by itself.",
        "numpy-has-a-place": "An array of NumPy has no devices, so it goes where the others are.",
        "fresh-has-a-place": "Without a current mesh and without `device=`, an array of `jnp` is "
        "on a device, but not committed to it. It follows the others.",
        "placed-follows": "`device_put` with a device commits the array to it.",
        "two-meshes-in-one": "Although a and b never touch, they are arguments of one program, and "
        "this has one list of devices.",
        "never-leaves": "`device_put` is the way from one mesh to another; it is no program.",
        "names-must-agree": "On Auto axes it matters which devices have which blocks. The names "
        "of axes need not agree.",
        "order-is-free": "The order of devices is a part of a program: it says which device has "
        "number 0. These two arrays disagree.",
        "host-follows": "Memories do not mix, either. `device_put` brings the array back first.",
        "devices-extra": "`jax.make_mesh` uses all devices unless `devices=` says which.",
        "other-devices": "The mesh of the second stage has the other four devices.",
    },
)

# 13.3

STEP_SHAPES: Final = ((128, 64, 32), (64, 32, 48))
"""Examples, features, and outputs."""


def _momentum(
    W: Any,
    moment: Any,
    count: Any,
    x: Any,
    y: Any,
) -> tuple[Any, Any, Any]:
    """Return the state after one step of gradient descent with momentum."""
    gradient = 2 * x.T @ (x @ W - y) / y.size
    moment = 0.9 * moment + gradient
    return W - 0.1 * moment, moment, count + 1


def _step_arguments(axes: Axes, shape: tuple[int, int, int]) -> tuple[Argument, ...]:
    batch, features, outputs = shape
    place = partial(Argument, axes=axes, mode="auto")
    return (
        place((features, outputs), spec=("data",)),
        place((features, outputs), spec=("data",), scale=0.1),
        place((), dtype="int32", scale=50),
        place((batch, features), spec=("data",)),
        place((batch, outputs), spec=("data", "model")),
    )


STATE: Final = Exercise(
    id="13.3",
    title="A step that keeps its layouts",
    afterwards="A trainer's test can check both: `step._cache_size()` is 1 after five steps, and "
    "the layouts that come out are those that went in. Flax and optax make states whose leaves "
    "drift in just this way, if they are initialised without `out_shardings`.",
    requirements=(
        Computes(
            "step",
            "step(W, moment, count, x, y) must return what update returns.",
            _momentum,
            tuple(map(_step_arguments, GRIDS, STEP_SHAPES)),
            {
                "count-kept": Mistake(
                    lambda W, moment, count, x, y: (*_momentum(W, moment, count, x, y)[:2], count),
                    says="The count is returned as it came. Add 1 to it.",
                ),
            },
            under_mesh=True,
            results=("W", "moment", "count"),
        ),
        KeepsLayouts("step"),
        Donates("step", 3),
    ),
    about=(KeepsLayouts, Donates),
    hints=(
        "What does `update` leave open? Print `.sharding.spec` of what comes out of "
        "`jax.jit(update)`.",
        "`jax.jit` takes `out_shardings`: one for each result. Under a current mesh, these may be "
        "specs.",
        "`jax.jit(update, out_shardings=(P('data'), …, …), donate_argnums=…)`: the second is like "
        "the first, and a count is replicated. The arguments 0, 1 and 2 are the state.",
    ),
    diagnoses={
        "values": "Compare it with update line by line: the gradient, the new moment, W less 0.1 "
        "times the new moment, the count.",
        "not-donated": "The old value is of no use after a step. `donate_argnums`, in a jit of the "
        "whole step, gives its memory to the new one, if this has the same layout.",
        "donates-too-much": "The examples are not part of the state: no result takes their place, "
        "and a loader may still need them.",
        "split-dimension": "Which layout does your program state for this result? A spec with "
        "`model` in it is another one, and so may be a sharding on the notebook's own mesh of "
        "4 × 2. If it states none, the compiler chooses, and takes `model` for the columns, as in "
        "the targets. `out_shardings` states one, and so does `with_sharding_constraint`, but not "
        "`in_shardings`, nor `device_put` in a compiled program.",
        "replicated": "Each device has all of it now, and the next step is compiled again.",
    },
)

# 13.4

CLOSED_NAMES: Final = ("frozen", "positions", "prior")

FEATURE_SHAPES: Final = ((16, 32, 64, 256), (8, 32, 64, 256))
"""Sequences, positions, features, and features afterwards."""


def make_positions(length: int, width: int) -> np.ndarray:
    """Return the table of positions that the notebook has: sines and cosines."""
    angles = np.arange(length)[:, None] / 10_000 ** (np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def make_frozen(width: int, features: int) -> np.ndarray:
    """Return the frozen weights that the notebook has."""
    generator = np.random.default_rng(13)
    return np.asarray(generator.standard_normal((width, features)) / width**0.5, np.float32)


def make_prior(features: int) -> np.ndarray:
    """Return the prior that the notebook has: the logarithm of Zipf's law."""
    return -np.log1p(np.arange(features)).astype(np.float32)


def _features(x: Any, frozen: Any, positions: Any, prior: Any) -> Any:
    return np.tanh((x + positions) @ frozen) + prior


def _features_closing_over(
    closed: Sequence[str], x: Any, frozen: Any, positions: Any, prior: Any
) -> Any:
    """Use the notebook's arrays for some of the arguments."""
    return _features(
        x,
        make_frozen(*frozen.shape) if "frozen" in closed else frozen,
        make_positions(*positions.shape) if "positions" in closed else positions,
        make_prior(*prior.shape) if "prior" in closed else prior,
    )


def _feature_arguments(axes: Axes, shape: tuple[int, ...]) -> tuple[Argument, ...]:
    batch, length, width, features = shape
    place = partial(Argument, axes=axes, mode="auto")
    return (
        place((batch, length, width), spec=("data",)),
        place((width, features), spec=(None, "model"), scale=width**-0.5),
        place((length, width)),
        place((features,), spec=("model",)),
    )


CLOSED_TABLES: Final = {"numbers": {"as an argument": 8, "closed over": 16}}
"""The cells of someone who counts numbers in place of bytes."""

CLOSED_OVER: Final = Exercise(
    id="13.4",
    title="Three arrays that are closed over",
    afterwards="JAX warns when constants of more than 2 GB are captured, and with "
    "`jax_use_simplified_jaxpr_constants` it passes them as arguments by itself; their layout is "
    "still not yours. What a step reads belongs in its arguments.",
    requirements=(
        Computes(
            "features",
            "features(x, frozen, positions, prior) must be tanh((x + positions) @ frozen) + prior, "
            "of these four arguments.",
            _features,
            tuple(map(_feature_arguments, GRIDS, FEATURE_SHAPES)),
            {
                f"closed-over-{name}": partial(_features_closing_over, (name,))
                for name in CLOSED_NAMES
            }
            | {
                "closed-over-several": Mistake(
                    *(
                        partial(_features_closing_over, names)
                        for count in (2, 3)
                        for names in combinations(CLOSED_NAMES, count)
                    ),
                    says="With other arguments, more than one of the three arrays is still the "
                    "notebook's: they are constants of your program.",
                ),
                "prior-inside": Mistake(
                    lambda x, frozen, positions, prior: np.tanh((x + positions) @ frozen + prior),
                    says="The prior is added before tanh. Expected: afterwards.",
                ),
                "prior-missing": Mistake(
                    lambda x, frozen, positions, prior: _features(x, frozen, positions, 0 * prior),
                    says="The prior is not added.",
                ),
                "tanh-missing": Mistake(
                    lambda x, frozen, positions, prior: (x + positions) @ frozen + prior,
                    says="tanh is missing.",
                ),
                "positions-after-tanh": Mistake(
                    lambda x, frozen, positions, prior: (
                        np.tanh(x @ frozen) + positions @ frozen + prior
                    ),
                    says="The positions' part of the product is added after tanh. Expected: "
                    "before.",
                ),
                "positions-multiplied": Mistake(
                    lambda x, frozen, positions, prior: np.tanh((x * positions) @ frozen) + prior,
                    says="The examples are multiplied by the positions. Add these.",
                ),
                "first-position": Mistake(
                    lambda x, frozen, positions, prior: _features(x, frozen, positions[:1], prior),
                    says="All positions of a sequence get the row of the first one. Each has its "
                    "own.",
                ),
                "prior-multiplied": Mistake(
                    lambda x, frozen, positions, prior: (
                        _features(x, frozen, positions, 0 * prior) * prior
                    ),
                    says="The result is multiplied by the prior. Add it.",
                ),
                "positions-missing": Mistake(
                    lambda x, frozen, positions, prior: _features(x, frozen, 0 * positions, prior),
                    says="The positions are not added.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "features",
            "0 1 \n\n 2 3 \n\n 4 5 \n\n 6 7",
            tuple((b, t, f) for b, t, _, f in FEATURE_SHAPES),
            elsewhere=("0 1 2 3 \n\n 4 5 6 7",),
        ),
        CommunicatesAtMost("features", ((), ())),
        FitsIn("features", (250_000, 150_000)),
        Predicts(
            "cost",
            "as an argument",
            "the KiB of frozen on each device, as an argument",
            32,
            {
                "whole": Mistake(
                    64,
                    says="This is all of it. As an argument it keeps its layout, P(None, 'model').",
                ),
                "over-all": 8,
                "over-data": Mistake(
                    16, says="`frozen` is sharded over `model` alone, which has two devices."
                ),
                "in-bytes": 32_768,
                "in-kilobytes": Mistake(32.768, 33),
                "in-mebibytes": 1 / 32,
                "peak-memory": 128,
            },
            tables=CLOSED_TABLES,
        ),
        Predicts(
            "cost",
            "closed over",
            "the KiB of frozen on each device, closed over",
            64,
            {
                "still-sharded": Mistake(
                    32, says="A constant is in the program, and each device runs the whole program."
                ),
                "on-all-together": Mistake(512, says="This is the sum over all eight devices."),
                "in-bytes": 65_536,
                "over-all": 8,
                "in-kilobytes": Mistake(65.536, 66),
                "in-mebibytes": 1 / 16,
                "peak-memory": Mistake(224, 192, 128),
                "difference-of-peaks": Mistake(
                    96,
                    says="This is the difference of the two peaks: 32 KiB more of `frozen`, and 64 "
                    "more of the result, whose columns are no longer sharded. Expected: `frozen` "
                    "alone.",
                ),
                "numbers": 16,
            },
            tables=CLOSED_TABLES,
        ),
        Predicts(
            "cost",
            "work",
            "how many times as much each device computes, if it is closed over",
            2,
            {
                "same-work": Mistake(
                    1,
                    says="Which block of the result does a device compute, if it has all columns "
                    "of `frozen`? Look at the layout of the result.",
                ),
                "all-devices": Mistake(
                    8,
                    says="As an argument, `frozen` has its columns sharded over two devices, and x "
                    "its sequences over four. Which of the two is lost if `frozen` is a constant?",
                ),
                "of-data": 4,
                "half": Mistake(
                    0.5,
                    says="This is divided the other way round.",
                ),
                "operations": Mistake(
                    2_097_152,
                    4_194_304,
                    2_097_153,
                    4_194_305,
                    says="These are operations. Expected: how many times as many there are.",
                ),
            },
        ),
    ),
    weights={"features": 2},
    hints=(
        "A name in a function's body is an argument of its own, or it comes from somewhere else. "
        "There are three ways in: from the notebook, from the function around it, and from a "
        "default.",
        "`jax.jit` makes arguments of what the caller passes, and constants of all the rest, also "
        "of defaults that nobody passes.",
        "Write `def features(x, frozen, positions, prior):`, with nothing around it, and use these "
        "four names only. For the table: a constant has no sharding.",
    ),
    diagnoses={
        "closed-over-frozen": "With other arguments, the result is that of the notebook's "
        "`frozen`: it is a constant of your program.",
        "closed-over-positions": "With other arguments, the result is that of the notebook's "
        "`positions`: is it a constant of your program, or do you compute it? Here it is an "
        "argument.",
        "closed-over-prior": "With other arguments, the result is that of the notebook's `prior`: "
        "it is a constant of your program. A default that nobody passes is one, too.",
        "too-much-memory": "Is an array still a constant of the program, which every device holds "
        "whole? Or is an argument, or the result, replicated?",
        "peak-memory": "Is this the program's memory at the peak, of all its arrays? Expected: "
        "`frozen` alone.",
        "over-all": "Eight devices do not have eight different blocks. Which axis is `frozen` "
        "sharded over, and how many devices does this axis have?",
        "numbers": "Is this the number of elements? Each has four bytes.",
        "of-data": "`frozen` is sharded over `model`, which has two devices. How many of them "
        "compute the same columns, if each has all of `frozen`?",
        "in-bytes": "This is the number of bytes. Expected: KiB.",
        "in-kilobytes": "A KiB has 1,024 bytes, and not 1,000.",
        "in-mebibytes": "These are MiB. Expected: KiB.",
    },
)

# 13.5

LAYERS: Final = 12

MODEL_SHAPES: Final = ((8, 16, 32, 4, 4, 128), (4, 8, 16, 4, 2, 64))
"""Sequences, positions, features, heads, the size of a head, and hidden features."""


def _softmax(scores: Any) -> Any:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _forward(
    x: Any, qkv: Any, out: Any, up: Any, down: Any, order: str = "qkv", scaled: bool = True
) -> Any:
    """Compute the transformer of the notebook, with NumPy."""
    for layer in range(len(qkv)):
        made = dict(zip("qkv", np.einsum("btd,jdhe->jbthe", x, qkv[layer]), strict=True))
        q, k, v = (made[name] for name in order)
        scores = np.einsum("bqhe,bkhe->bhqk", q, k)
        if scaled:
            scores = scores / np.float32(q.shape[-1] ** 0.5)
        attended = np.einsum("bhqk,bkhe->bqhe", _softmax(scores), v)
        x = x + np.einsum("bthe,hed->btd", attended, out[layer])
        x = x + np.maximum(x @ up[layer], 0) @ down[layer]
    return x


def _model_arguments(axes: Axes, shape: tuple[int, ...]) -> tuple[Argument, ...]:
    batch, length, width, heads, head, hidden = shape
    place = partial(Argument, axes=axes, mode="auto", scale=0.2 * width**-0.5)
    return (
        place((batch, length, width), spec=("data",), scale=1.0),
        place((LAYERS, 3, width, heads, head), spec=(None, None, None, "model")),
        place((LAYERS, heads, head, width), spec=(None, "model")),
        place((LAYERS, width, hidden), spec=(None, None, "model")),
        place((LAYERS, hidden, width), spec=(None, "model")),
    )


def _reduced_bytes(axes: Axes, shape: tuple[int, ...]) -> int:
    """Return the bytes of the two all-reduces in each layer, over all layers."""
    batch, length, width, *_ = shape
    return LAYERS * 2 * 4 * batch // dict(axes)["data"] * length * width


GATHER: Final = Exercise(
    id="13.5",
    title="One wrong spec in twelve layers",
    afterwards="q, k and v come out of one einsum as one array. So all three were exchanged, and "
    "only v came back: three times the bytes at a line that nobody suspects. `shardlings` has a "
    "pytest fixture, `baseline`, that keeps a report: with one exchange more the test fails, and "
    "names the line.",
    requirements=(
        Predicts(
            "found",
            "array",
            "the array with the wrong spec",
            "v",
            {
                "follows-the-first": Mistake(
                    "q", "k", says="q and k get the layout that they have already."
                ),
                "in-the-mlp": Mistake(
                    "h", says="The spec of h is as it should be: hidden features over `model`."
                ),
                "the-residual": Mistake(
                    "x",
                    says="The spec of x is as it should be: it makes the sum complete, once after "
                    "each part.",
                ),
            },
            words=("q", "k", "v", "x", "h"),
        ),
        Predicts(
            "found",
            "KiB",
            "the KiB that this spec costs on each device",
            LAYERS * (3 + 1),
            {
                "one-layer": Mistake(
                    3 + 1, 3, 1, says="Is this for one layer? The scan has twelve turns."
                ),
                "first-only": Mistake(
                    LAYERS * 3,
                    says="The array is brought into the wrong layout, and back from it as well.",
                ),
                "way-back-only": Mistake(
                    LAYERS * 1,
                    says="The array is brought back, and into the wrong layout as well: together "
                    "with two others, because one einsum makes all three.",
                ),
                "both-ways-alike": Mistake(
                    LAYERS * (3 + 3),
                    says="Is this the way into the wrong layout, twice? The report has a row of "
                    "its own for the way back.",
                ),
                "all-collectives": Mistake(
                    LAYERS * (3 + 1 + 4 + 4),
                    says="The two all-reduces are needed, and stay. Count the bytes of the other "
                    "rows.",
                ),
                "what-has-to-be": Mistake(
                    LAYERS * (4 + 4), says="These are the two all-reduces, which stay."
                ),
                "layers-twice": Mistake(
                    LAYERS * LAYERS * (3 + 1),
                    LAYERS * LAYERS * 3,
                    says="The report's column counts all twelve turns already.",
                ),
                "in-bytes": Mistake(
                    LAYERS * (3 + 1) * 1024, says="This is the number of bytes. Expected: KiB."
                ),
                "in-kilobytes": Mistake(
                    1.024 * LAYERS * (3 + 1), 49, says="A KiB has 1,024 bytes, and not 1,000."
                ),
                "sent-by-all": Mistake(
                    LAYERS * (1.5 + 0.5 + 4 + 4),
                    says="This is what all rows send. Expected: the column of bytes, of the rows "
                    "that disappear.",
                ),
                "sent": Mistake(
                    1.5 + 0.5,
                    LAYERS * (1.5 + 0.5),
                    LAYERS * 1.5,
                    LAYERS * 0.5,
                    says="Is this the column of what is sent, or the share of one of several "
                    "arrays in a row? Expected: whole rows, in the report's column of bytes.",
                ),
                "of-all-devices": Mistake(
                    LAYERS * (3 + 1) * 8,
                    says="This is the sum over all eight devices. The report is about one.",
                ),
            },
        ),
        Computes(
            "forward",
            "forward(x, qkv, out, up, down) must be the transformer, as it was handed out.",
            _forward,
            tuple(map(_model_arguments, GRIDS, MODEL_SHAPES)),
            {
                "keys-and-values-swapped": Mistake(
                    partial(_forward, order="qvk"), says="Keys and values are swapped."
                ),
                "not-scaled": Mistake(
                    partial(_forward, scaled=False),
                    says="The scores are not divided by the square root of a head's size any more.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "forward",
            "0,1 \n\n 2,3 \n\n 4,5 \n\n 6,7",
            tuple((b, t, d) for b, t, d, *_ in MODEL_SHAPES),
            elsewhere=("0,1,2,3 \n\n 4,5,6,7",),
            drawn=False,
        ),
        CommunicatesAtMost(
            "forward",
            tuple(
                (Budget("all-reduce", ("model",), _reduced_bytes(axes, shape)),)
                for axes, shape in zip(GRIDS, MODEL_SHAPES, strict=True)
            ),
        ),
    ),
    about=(CommunicatesAtMost,),
    weights={"forward": 2},
    hints=(
        "A layer needs two all-reduces over `model`: one after `out`, and one after `down`. The "
        "report has more. Which lines does it give for those, and how often do they run?",
        "An exchange brings an array from one layout to another. Which of the five arrays are made "
        "or used in the lines of the two exchanges?",
        "Heads are sharded over `model`, in all arrays that have heads. One spec has `model` at "
        "another dimension, so the array is exchanged to it, and back.",
    ),
    diagnoses={
        "all-to-all": "An exchange is left. Which array is brought from blocks of heads to others?",
        "all-gather": "Something is gathered that was sharded over `model`. `communication` of "
        "your `forward` names the line: is its array's spec that of heads (q, k and v), of hidden "
        "features (h), or of x?",
        "all-gather over data": "The examples are sharded over `data`. Which spec leaves `data` "
        "out? A dimension for which a spec has no axis is gathered.",
        "all-gather over parts of axes": "The check runs on two meshes. Does a spec bring the "
        "notebook's mesh with it, which is right in the first case only?",
    },
)

# 13.6

PEAK_SHAPES: Final = ((512, 64, 256), (256, 32, 512))
"""Examples, features, and hidden features."""


def _differentiate(
    x: Any,
    y: Any,
    up: Any,
    down: Any,
    rows: slice = slice(None),
    factor: float = 1.0,
    residual: bool = True,
    slope: Callable[[Any], Any] = lambda errors: 2 * errors,
) -> tuple[Any, Any]:
    """Return the gradients of the squared error of a residual network, with NumPy.

    Args:
        x: the examples.
        y: the targets.
        up: the first weights of each layer.
        down: the second weights of each layer.
        rows: the examples that count.
        factor: a factor of the loss.
        residual: whether each layer adds its input to its output.
        slope: the derivative of an example's loss by its error.
    """
    inputs, hidden = [np.asarray(x[rows], float)], []
    for layer in range(len(up)):
        hidden.append(np.tanh(inputs[-1] @ up[layer]))
        inputs.append(residual * inputs[-1] + hidden[-1] @ down[layer])
    back = factor * slope(inputs[-1] - y[rows])
    ups, downs = np.zeros(up.shape), np.zeros(down.shape)
    for layer in reversed(range(len(up))):
        downs[layer] = hidden[layer].T @ back
        inner = (back @ down[layer].T) * (1 - hidden[layer] ** 2)
        ups[layer] = inputs[layer].T @ inner
        back = residual * back + inner @ up[layer].T
    return ups.astype(np.float32), downs.astype(np.float32)


def _peak_arguments(axes: Axes, shape: tuple[int, ...]) -> tuple[Argument, ...]:
    batch, width, hidden = shape
    # with smaller weights, a network without residual connections would have no gradient
    place = partial(Argument, axes=axes, mode="auto", scale=0.5 * width**-0.5)
    return (
        place((batch, width), spec=("data",), scale=1.0),
        place((batch, width), spec=("data",), scale=1.0),
        place((LAYERS, width, hidden), spec=(None, None, "model")),
        place((LAYERS, hidden, width), spec=(None, "model")),
    )


def _gradient_budget(axes: Axes, shape: tuple[int, ...]) -> tuple[Budget, ...]:
    """Return what a gradient sends: two sums in each layer, and the gradients once."""
    batch, width, hidden = shape
    sizes = dict(axes)
    sums = 4 * LAYERS * 2 * width * hidden // sizes["model"]
    return (
        Budget("all-reduce", ("model",), LAYERS * 2 * 4 * batch // sizes["data"] * width),
        Budget("all-reduce", ("data",), sums),
    )


PEAK_TABLES: Final = {
    "numbers": {"weights": 192, "gradients": 192, "inputs": 96, "hidden": 192},
    "axes-swapped": {"weights": 384, "gradients": 384, "inputs": 768, "hidden": 768},
    "on-all-together": {"weights": 6144, "gradients": 6144, "inputs": 3072, "hidden": 6144},
}
"""The tables of someone who makes one mistake everywhere."""

PEAK: Final = Exercise(
    id="13.6",
    title="What is at the peak?",
    afterwards="12.8 lets you choose what to keep in a layer. If the inputs of the layers alone "
    "are too much, microbatches are next, and they cost an array of sums as large as the weights.",
    requirements=(
        *(
            Predicts(
                "peak",
                cell,
                f"the KiB of {what} on each device, at the peak",
                right,
                {
                    **wrong,
                    "in-bytes": Mistake(
                        1024 * right, says="This is the number of bytes. Expected: KiB."
                    ),
                    "in-mebibytes": Mistake(right / 1024, says="These are MiB. Expected: KiB."),
                    "in-kilobytes": Mistake(
                        1.024 * right,
                        round(1.024 * right),
                        says="A KiB has 1,024 bytes, and not 1,000.",
                    ),
                    # of hidden features, this is the whole array: `whole-activations`
                    **({"on-all-together": 8 * right} if cell != "hidden" else {}),
                },
                tables=PEAK_TABLES,
            )
            for cell, what, right, wrong in (
                (
                    "weights",
                    "all weights",
                    768,
                    {"whole-weights": 1536, "one-kind": 384, "one-layer": 64, "over-all": 192},
                ),
                (
                    "gradients",
                    "all gradients",
                    768,
                    {
                        "whole-weights": 1536,
                        "one-kind": 384,
                        "one-layer": 64,
                        "over-all": 192,
                        "whole-and-twice": Mistake(
                            3072,
                            says="This is twice as much as all weights have. A weight has one "
                            "gradient, and gradients are sharded over `model`, as weights are.",
                        ),
                    },
                ),
                (
                    "inputs",
                    "the inputs of all layers",
                    384,
                    {
                        "whole-activations": 1536,
                        "one-layer": 32,
                        "over-all": 192,
                        "numbers": 96,
                        "thirteen": Mistake(
                            416,
                            13 * 128,
                            says="These are thirteen arrays. How many of them are inputs of a "
                            "layer?",
                        ),
                        "over-the-other": Mistake(
                            768,
                            says="Two devices share the inputs here. Which mesh axis shards "
                            "examples, and how many devices does it have?",
                        ),
                    },
                ),
                (
                    "hidden",
                    "the hidden features of all layers",
                    768,
                    {
                        "whole-activations": 6144,
                        "one-layer": 64,
                        "numbers": 192,
                        "not-over-model": Mistake(
                            1536,
                            says="The hidden features are sharded over `model` as well. Or does "
                            "this count the derivative of tanh, too, which is the fifth kind?",
                        ),
                        "not-over-data": Mistake(
                            3072, says="The examples are sharded over `data` as well."
                        ),
                        "as-large-as-inputs": Mistake(
                            384,
                            says="An input has 64 features and is whole over `model`. How many "
                            "hidden features does a device have?",
                        ),
                    },
                ),
            )
        ),
        Computes(
            "gradients",
            "gradients(x, y, up, down) must be the gradients with respect to up and down.",
            _differentiate,
            tuple(map(_peak_arguments, GRIDS, PEAK_SHAPES)),
            {
                "mean": Mistake(
                    lambda x, y, up, down: _differentiate(x, y, up, down, factor=1 / y.size),
                    says="The gradient is that of a mean. Expected: that of the sum of the "
                    "squares.",
                ),
                "mean-over-rows": Mistake(
                    lambda x, y, up, down: _differentiate(x, y, up, down, factor=1 / len(y)),
                    says="The gradient is divided by the number of examples. Expected: that of the "
                    "sum of the squares.",
                ),
                "all-zeros": Mistake(
                    lambda x, y, up, down: (0 * up, 0 * down),
                    says="The gradients are zeros. Does the loss depend on up and down?",
                ),
                "no-residual": Mistake(
                    partial(_differentiate, residual=False),
                    says="These are the gradients of layers that do not add their input `x`.",
                ),
                "not-squared": Mistake(
                    partial(_differentiate, slope=np.ones_like),
                    partial(_differentiate, slope=np.sign),
                    says="These are the gradients of a sum of errors that are not squared.",
                ),
                "half-the-batch": Mistake(
                    *(
                        partial(_differentiate, rows=rows)
                        for rows in (slice(None, None, 2), slice(1, None, 2))
                    ),
                    says="Only every second example counts.",
                ),
                "without-targets": Mistake(
                    lambda x, y, up, down: _differentiate(x, 0 * y, up, down),
                    says="These are the gradients for targets that are zeros. Is y in the loss?",
                ),
                "compared-with-inputs": Mistake(
                    lambda x, y, up, down: _differentiate(x, x, up, down),
                    says="These are the gradients if x stands in the place of y: the result is "
                    "compared with its own input.",
                ),
                "targets-added": Mistake(
                    lambda x, y, up, down: _differentiate(x, -y, up, down),
                    says="The targets are added. Expected: they are subtracted.",
                ),
                "half": Mistake(
                    partial(_differentiate, factor=0.5),
                    says="The gradient is half as large as it should be.",
                ),
            },
            under_mesh=True,
            results=("the gradient of up", "the gradient of down"),
        ),
        KeepsLayouts("gradients", "gradients with the layouts of up and down", "up"),
        CommunicatesAtMost("gradients", tuple(map(_gradient_budget, GRIDS, PEAK_SHAPES))),
        FitsIn("gradients", (2_420_000, 1_400_000)),
    ),
    about=(FitsIn, CommunicatesAtMost),
    together=True,
    weights={"gradients": 2},
    hints=(
        "Weights are arguments, and gradients are results: they are there in any case. What else "
        "has twelve layers?",
        "The backward pass needs each layer's input and hidden features. Which of the two can be "
        "computed from the other, and how large are they? Microbatches need a sum of gradients as "
        "large as the gradients.",
        "`jax.checkpoint` around the function that `lax.scan` calls keeps each layer's input, and "
        "nothing else.",
    ),
    diagnoses={
        "too-much-memory": "Which arrays with twelve layers are still there in the backward pass? "
        "(With a checkpoint around all layers, the backward pass first computes all of them again, "
        "and keeps it all. And of a loop in Python the compiler may keep more than of a `scan`.)",
        **dict.fromkeys(
            (
                "all-gather over data",
                "collective-permute over data",
                "all-reduce over parts of axes",
            ),
            "Are the examples split into microbatches, by a reshape or by slices? Consecutive "
            "examples are on few devices, so a microbatch of them has to be sent: either spread, "
            "or all of it to each device, and then the devices of `data` repeat each other's work. "
            "A sum of gradients is held as well.",
        ),
        "all-gather over model": "Something is sharded over `model` that each device then needs "
        "whole: the layers' inputs, in each layer and in both passes, or the gradients that you "
        "return?",
        "too-many-bytes": "What is sent beyond what `plain` sends: the gradients, in each turn of "
        "a loop over microbatches (13.7); the sums of a forward pass that runs once more; or a "
        "loss, which is a sum over all examples, too?",
        "whole-weights": "Weights and gradients are sharded over `model`. Or is something counted "
        "twice?",
        "one-kind": "Is this up alone, or is it divided by the devices of `data`? There are up and "
        "down, and both are sharded over `model`.",
        "numbers": "Are these numbers? Each has four bytes.",
        "axes-swapped": "Weights are divided by the devices of `data` here, and inputs by those of "
        "`model`. It is the other way round.",
        "one-layer": "This is for one layer. At the peak all twelve are there.",
        "on-all-together": "This is the sum over all eight devices. How much does one hold?",
        "over-all": "Is this divided by all eight devices? Along which mesh axes is this array "
        "sharded?",
        "whole-activations": "The examples are sharded over `data`.",
    },
)

# 13.7

ACCUMULATIONS: Final = ((8, (8, 64, 32), 256), (4, (6, 32, 16), 128))
"""Devices; microbatches, examples and features; and hidden features."""


def _accumulate(
    W: Any,
    X: Any,
    Y: Any,
    which: slice = slice(None),
    factor: float = 1.0,
    average: bool = False,
) -> Any:
    """Return the sum of the gradients of all microbatches, with NumPy.

    Args:
        W: the weights.
        X: the examples of each microbatch.
        Y: their targets.
        which: the microbatches that count.
        factor: a factor of the sum.
        average: whether an example's result is the mean of its features in place of their sum.
    """
    total = np.zeros(W.shape)
    for x, y in zip(X[which], Y[which], strict=True):
        hidden = np.asarray(x, float) @ W
        share = 1 / hidden.shape[1] if average else 1.0
        back = 2 * share * (share * np.tanh(hidden).sum(axis=1) - y) / len(y)
        total += x.T @ (back[:, None] * (1 - np.tanh(hidden) ** 2))
    return (factor * total).astype(np.float32)


def _add_losses(W: Any, X: Any, Y: Any) -> Any:
    """Add the errors themselves to each element of a sum."""
    errors = [np.mean((np.tanh(x @ W).sum(axis=1) - y) ** 2) for x, y in zip(X, Y, strict=True)]
    return np.full_like(W, sum(errors))


def _devices_of(X: Any) -> int:
    return next(n for n, shape, _ in ACCUMULATIONS if shape == X.shape)


def _accumulation_arguments(n: int, shape: tuple[int, ...], hidden: int) -> tuple[Argument, ...]:
    place = partial(Argument, axes=(("x", n),))
    return (
        place((shape[-1], hidden), scale=shape[-1] ** -0.5),
        place(shape, spec=(None, "x")),
        place(shape[:2], spec=(None, "x")),
    )


ACCUMULATION: Final = Exercise(
    id="13.7",
    title="Add up first, reduce once",
    afterwards="`unreduced` is part of a value's type, so a function that needs the complete sum "
    "raises an error in place of being wrong. 8.7 does the same with `shard_map`.",
    requirements=(
        Computes(
            "accumulate",
            "accumulate(W, X, Y) must be the sum of the gradients of all microbatches.",
            _accumulate,
            tuple(_accumulation_arguments(*case) for case in ACCUMULATIONS),
            {
                "first-microbatch": Mistake(
                    partial(_accumulate, which=slice(0, 1)),
                    says="Only the first microbatch counts.",
                ),
                "last-microbatch": Mistake(
                    partial(_accumulate, which=slice(-1, None)),
                    says="Only the last microbatch counts.",
                ),
                "first-missing": Mistake(
                    partial(_accumulate, which=slice(1, None)),
                    says="The first microbatch is missing.",
                ),
                "last-missing": Mistake(
                    partial(_accumulate, which=slice(None, -1)),
                    says="The last microbatch is missing.",
                ),
                "losses": Mistake(
                    _add_losses,
                    says="This is the sum of the errors themselves, and not of their gradients.",
                ),
                "first-twice": Mistake(
                    lambda W, X, Y: _accumulate(W, X, Y) + _accumulate(W, X, Y, which=slice(0, 1)),
                    says="The first microbatch counts twice: the sum begins with it, and the loop "
                    "adds it again.",
                ),
                "mean": Mistake(
                    lambda W, X, Y: _accumulate(W, X, Y, factor=1 / len(X)),
                    says="The result is the mean over the microbatches. Expected: the sum.",
                ),
                "mean-of-features": Mistake(
                    partial(_accumulate, average=True),
                    says="An example's result is the mean over dimension 1 here. In `error`, it is "
                    "the sum.",
                ),
                "once-per-device": Mistake(
                    lambda W, X, Y: _accumulate(W, X, Y, factor=_devices_of(X)),
                    says="The result is too large by the number of devices. Is each error divided "
                    "by the examples of one device only, or is a complete sum added up once more?",
                ),
                "once-per-pair-of-devices": Mistake(
                    lambda W, X, Y: _accumulate(W, X, Y, factor=_devices_of(X) ** 2),
                    says="The result is too large by the square of the number of devices. Is each "
                    "error divided by the examples of one device only, and is a complete sum added "
                    "up once more? (In a `shard_map`, the gradient of a replicated W is complete, "
                    "unless W is made varying first.)",
                ),
                "divided-by-devices": Mistake(
                    lambda W, X, Y: _accumulate(W, X, Y, factor=1 / _devices_of(X)),
                    says="The result is divided by the number of devices.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "accumulate",
            "0,1,2,3,4,5,6,7",
            tuple((shape[-1], hidden) for _, shape, hidden in ACCUMULATIONS),
            elsewhere=("0,1,2,3",),
            drawn=False,
        ),
        CommunicatesAtMost(
            "accumulate",
            tuple(
                (Budget("all-reduce", ("x",), 4 * shape[-1] * hidden),)
                for _, shape, hidden in ACCUMULATIONS
            ),
        ),
        FitsIn("accumulate", (142_000, 42_000)),
    ),
    about=(CommunicatesAtMost, FitsIn),
    together=True,
    hints=(
        "Which operation makes the gradient complete in each turn? It is the transpose of one in "
        "the forward pass: of W's way to all devices.",
        "Say once, before the loop, that W is on all devices and that its gradient may stay "
        "unreduced: `jax.sharding.reshard(W, P(reduced={'x'}))`. What type does the sum start "
        "with, then?",
        "The carry starts as zeros that are resharded to `P(unreduced={'x'})`, and after the loop "
        "the sum is resharded to `P()`.",
    ),
    diagnoses={
        "too-many-bytes": "How often is the gradient reduced, or how many gradients at once? The "
        "sum of all of them is reduced once, after the loop. (In a `shard_map` that checks "
        "what varies, the gradient of a replicated W is reduced in each turn, unless `lax.pcast` "
        "makes W varying before. Or is there a psum or a pmean in the turn itself?)",
        "too-much-memory": "What is in memory for all microbatches at once: what their forward "
        "passes keep, or their gradients? In a `scan`, each gradient is added to the sum before "
        "the next microbatch begins.",
        "all-to-all": "Examples move from device to device. Each device has a part of every "
        "microbatch. Does a reshape join microbatches, or split them?",
        "reshape-of-a-sharded-dimension": "Are microbatches put together here? Each device has a "
        "part of every one, and a loop over them leaves these parts where they are.",
        "nothing-returned": "If the sum comes from lax.scan: it returns a pair, the last carry and "
        "what the turns return beside it. Which of the two is the sum?",
        "reduce-scatter": "A reduce-scatter leaves a part of the sum on each device. Expected: one "
        "all-reduce, after the loop, which leaves all of it on each.",
    },
)

# 13.8

TOP: Final = 4

LOGITS: Final = ((8, (16, 4096), "float32"), (4, (8, 40_960), "float32"), (8, (16, 256), "int32"))
"""Devices, the logits' shape, and their dtype. Integers have ties."""


def _best(logits: Any, last: bool = False) -> tuple[Any, Any]:
    """Return the largest logits of each row and their places, the first place for a tie."""
    if last:
        places = np.argsort(logits, axis=1, kind="stable")[:, ::-1][:, :TOP]
    else:
        places = np.argsort(-logits, axis=1, kind="stable")[:, :TOP]
    return np.take_along_axis(logits, places, axis=1), places.astype(np.int32)


def _devices_for(logits: Any) -> int:
    return next(n for n, shape, _ in LOGITS if shape == logits.shape)


def _best_in_blocks(logits: Any) -> tuple[Any, Any]:
    values, places = _best(logits)
    return values, places % (logits.shape[1] // _devices_for(logits))


def _best_of_candidates(logits: Any) -> tuple[Any, Any]:
    """Return places among the candidates of all devices in place of those among the logits."""
    n = _devices_for(logits)
    blocks = logits.reshape(len(logits), n, -1)
    candidates = np.sort(blocks, axis=2)[:, :, ::-1][:, :, :TOP].reshape(len(logits), -1)
    return _best(candidates)


def _best_looked_up(look_up: Callable[[Any, Any], Any], logits: Any) -> tuple[Any, Any]:
    """Look the indices up among all candidates in some way, by the places of the best."""
    values, indices = (np.concatenate(each, axis=1) for each in _find_candidates(logits))
    best, where = _best(values)
    return best, look_up(indices.astype(np.int32), where)


def _best_of_each(logits: Any, keep: int) -> tuple[Any, Any]:
    """Keep fewer candidates for each device than are asked for."""
    n = _devices_for(logits)
    kept = np.full(logits.shape, -np.inf)
    for i, row in enumerate(logits):
        for block in np.split(np.arange(len(row)), n):
            best = block[np.argsort(-row[block], kind="stable")[:keep]]
            kept[i, best] = row[best]
    values, places = _best(kept)
    return values.astype(logits.dtype), places


def _smallest(logits: Any) -> tuple[Any, Any]:
    places = np.argsort(logits, axis=1, kind="stable")[:, :TOP].astype(np.int32)
    return np.take_along_axis(logits, places, axis=1), places


def _ascending(logits: Any) -> tuple[Any, Any]:
    values, places = _best(logits)
    return values[:, ::-1], places[:, ::-1]


def _in_order_of_places(logits: Any, of_devices: bool = False) -> tuple[Any, Any]:
    values, places = _best(logits)
    width = logits.shape[1] // _devices_for(logits) if of_devices else 1
    order = np.argsort(places // width, axis=1, kind="stable")
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(places, order, axis=1)


def _find_candidates(logits: Any) -> tuple[list[Any], list[Any]]:
    """Return the best logits of each device, and their places in the row."""
    n = _devices_for(logits)
    best = [_best(part) for part in np.split(logits, n, axis=1)]
    block = logits.shape[1] // n
    return [each for each, _ in best], [each + i * block for i, (_, each) in enumerate(best)]


def _last_of_candidates(logits: Any) -> tuple[Any, Any]:
    """Sort candidates in ascending order, and return the last ones."""
    values, places = (np.concatenate(each, axis=1) for each in _find_candidates(logits))
    last = np.argsort(values, axis=1, kind="stable")[:, -TOP:]
    chosen = np.take_along_axis(places, last, axis=1).astype(np.int32)
    return np.take_along_axis(values, last, axis=1), chosen


def _best_with_offset_of_candidates(logits: Any) -> tuple[Any, Any]:
    """Count candidates in place of logits before a device's block."""
    values, places = _best(logits)
    block = logits.shape[1] // _devices_for(logits)
    return values, (places % block + places // block * TOP).astype(np.int32)


def _best_with_offset_of_rows(logits: Any) -> tuple[Any, Any]:
    """Count all logits of a row before a device's block, and not those of the blocks before it."""
    values, places = _best(logits)
    block = logits.shape[1] // _devices_for(logits)
    return values, (places % block + places // block * logits.shape[1]).astype(np.int32)


def _best_with_offset(logits: Any, step: Callable[[Any], int]) -> tuple[Any, Any]:
    """Count from another number of places for each device's block."""
    values, places = _best(logits)
    block = logits.shape[1] // _devices_for(logits)
    return values, (places % block + places // block * step(logits)).astype(np.int32)


def _best_with_offset_of_place(logits: Any) -> tuple[Any, Any]:
    """Take a candidate's place among those of its device for the number of the device."""
    values, places = _best(logits)
    block = logits.shape[1] // _devices_for(logits)
    candidates = np.concatenate(_find_candidates(logits)[1], axis=1)
    which = (candidates[:, None, :] == places[:, :, None]).argmax(axis=2)
    return values, (places % block + which % TOP * block).astype(np.int32)


def _best_with_blocks_backwards(logits: Any) -> tuple[Any, Any]:
    values, places = _best(logits)
    block = logits.shape[1] // _devices_for(logits)
    last = _devices_for(logits) - 1
    return values, ((last - places // block) * block + places % block).astype(np.int32)


def _best_of_each_place(logits: Any) -> tuple[Any, Any]:
    """Take the maximum over devices of the j-th logits, and that of their places."""
    values, places = _find_candidates(logits)
    return np.max(values, axis=0), np.max(places, axis=0).astype(np.int32)


def _best_by_value(logits: Any) -> tuple[Any, Any]:
    """Look the places up by value, so that equal logits have the same place."""
    values, _ = _best(logits)
    places = np.argmax(logits[:, None, :] == values[:, :, None], axis=2)
    return values, places.astype(np.int32)


def _best_of_mixed_rows(logits: Any) -> tuple[Any, Any]:
    """Reshape what is gathered along a new first dimension as if it were along the last."""
    values, places = (np.stack(each).reshape(len(logits), -1) for each in _find_candidates(logits))
    chosen, which = _best(values)
    return chosen, np.take_along_axis(places, which, axis=1).astype(np.int32)


def _best_with_largest_places(logits: Any) -> tuple[Any, Any]:
    """Return the largest places of candidates in place of those of the largest logits."""
    places = np.concatenate(_find_candidates(logits)[1], axis=1)
    return _best(logits)[0], np.sort(places, axis=1)[:, ::-1][:, :TOP].astype(np.int32)


def _best_with_first_places(logits: Any) -> tuple[Any, Any]:
    """Return the places of the first device's candidates."""
    return _best(logits)[0], _find_candidates(logits)[1][0].astype(np.int32)


def _choose(logits: Any, last_in_block: bool, last_of_all: bool) -> tuple[Any, Any]:
    """Choose in each block, and then of all candidates; of equal ones, the first or the last."""
    n = _devices_for(logits)
    block = logits.shape[1] // n
    found = [_best(part, last_in_block) for part in np.split(logits, n, axis=1)]
    values = np.concatenate([best for best, _ in found], axis=1)
    places = np.concatenate([at + i * block for i, (_, at) in enumerate(found)], axis=1)
    best, which = _best(values, last_of_all)
    return best, np.take_along_axis(places, which, axis=1).astype(np.int32)


LAST_OF_TIES: Final = tuple(
    partial(_choose, last_in_block=in_block, last_of_all=of_all)
    for in_block, of_all in ((True, False), (False, True), (True, True))
)
"""Ways to take a later place among equal logits."""


def _best_by_rounds(logits: Any, mask: int, looked_up: bool) -> tuple[Any, Any]:
    """Find the largest logits one after the other, and put a mask in place of each.

    Args:
        logits: the logits.
        mask: what replaces a logit that is found.
        looked_up: whether the values are looked up in the logits without masks.
    """
    left, rows = logits.copy(), np.arange(len(logits))
    values, places = np.zeros((len(logits), TOP), logits.dtype), []
    for i in range(TOP):
        places.append(left.argmax(axis=1))
        values[:, i] = (logits if looked_up else left)[rows, places[i]]
        left[rows, places[i]] = mask
    return values, np.stack(places, axis=1).astype(np.int32)


def _best_values(logits: Any) -> tuple[Any, Any]:
    """Return the largest four different values of each row, and the first place of each.

    The lowest number of its type masks a value; from a row of masks, argmax takes the first place.
    """
    is_integer = np.issubdtype(logits.dtype, np.integer)
    lowest = np.iinfo(logits.dtype).min if is_integer else -np.inf
    left, values, places = logits.copy(), [], []
    for _ in range(TOP):
        values.append(left.max(axis=1))
        places.append(left.argmax(axis=1))
        left[left == values[-1][:, None]] = lowest
    return np.stack(values, axis=1), np.stack(places, axis=1).astype(np.int32)


def _logits_argument(devices: int, shape: tuple[int, int], dtype: str) -> Argument:
    """Return the logits: row 0 has its largest four on the last device, and row 1 none above -20.

    Log-probabilities are as small as those of row 1.
    """
    last = shape[1] - shape[1] // devices
    return Argument(
        shape,
        (("x", devices),),
        (None, "x"),
        dtype,
        mode="auto",
        scale=40 if dtype == "int32" else 1.0,
        adjustments=(
            Adjustment(((0, 1), (last, last + TOP)), add=100),
            Adjustment(((1, 2),), add=-150),
        ),
    )


SELECTION: Final = Exercise(
    id="13.8",
    title="The largest four of a sharded row",
    afterwards="Beam search and sampling from the most likely tokens begin with this.",
    requirements=(
        Computes(
            "most_likely",
            "most_likely(logits) must be the largest four logits of each row, the largest first, "
            "and their indices.",
            _best,
            tuple((_logits_argument(*each),) for each in LOGITS),
            {
                "places-in-blocks": Mistake(
                    _best_in_blocks,
                    says="The logits are the right ones, and their indices are those within a "
                    "block.",
                ),
                "places-of-candidates": Mistake(
                    _best_of_candidates,
                    says="The logits are the right ones, and their indices are those among the "
                    "candidates. Where in the row is each candidate?",
                ),
                "last-of-ties": Mistake(
                    partial(_best, last=True),
                    *LAST_OF_TIES,
                    says="Among equal logits, the smallest index counts, as for `lax.top_k`.",
                ),
                "too-few-candidates": Mistake(
                    *(partial(_best_of_each, keep=k) for k in (1, 2, 3)),
                    says="All four may be on one device. How many candidates does each device have "
                    "to send?",
                ),
                "masked-by-a-number": Mistake(
                    *(
                        partial(_best_by_rounds, mask=mask, looked_up=looked_up)
                        for mask in (0, -1, -10, -100)
                        for looked_up in (False, True)
                    ),
                    says="In a row of small logits, the largest one comes again. Does a number "
                    "take the place of what is chosen already? Which number is below all logits?",
                ),
                "each-value-once": Mistake(
                    _best_values,
                    says="Several of the largest four may be equal. Here each value comes once "
                    "only.",
                ),
                "smallest": Mistake(_smallest, says="These are the smallest ones."),
                "ascending": Mistake(
                    _ascending, _last_of_candidates, says="The largest one comes first."
                ),
                "in-order-of-places": Mistake(
                    _in_order_of_places,
                    partial(_in_order_of_places, of_devices=True),
                    says="These are the right four, in the order of their indices or devices. The "
                    "largest one comes first.",
                ),
                "offset-of-candidates": Mistake(
                    _best_with_offset_of_candidates,
                    says="The logits are the right ones. A device's first index depends on how "
                    "many logits come before its block, and not on how many candidates.",
                ),
                "offset-of-devices": Mistake(
                    partial(_best_with_offset, step=_devices_for),
                    says="The logits are the right ones. A device's first index depends on how "
                    "many logits come before its block, and not on how many devices.",
                ),
                "offset-of-dimension-0": Mistake(
                    partial(_best_with_offset, step=len),
                    says="The logits are the right ones. `block.shape[0]` counts rows. How many "
                    "columns come before a device's block?",
                ),
                "offset-of-rows": Mistake(
                    _best_with_offset_of_rows,
                    says="The logits are the right ones, and indices lie beyond the row. How many "
                    "logits come before a device's block? In the body, `block.shape` is that of "
                    "one block.",
                ),
                "offset-of-place": Mistake(
                    _best_with_offset_of_place,
                    says="The logits are the right ones, and within their blocks, so are the "
                    "indices. Which device does candidate i of all come from, if each has four?",
                ),
                "offset-of-next-block": Mistake(
                    lambda logits: (
                        _best(logits)[0],
                        _best(logits)[1] + np.int32(logits.shape[1] // _devices_for(logits)),
                    ),
                    says="The logits are the right ones, and each index is one block too far. How "
                    "many logits come before the block of device 0?",
                ),
                "blocks-backwards": Mistake(
                    _best_with_blocks_backwards,
                    says="The logits are the right ones, and blocks are counted from the last "
                    "device. Which device has the first columns?",
                ),
                "first-device-alone": Mistake(
                    lambda logits: _best(logits[:, : logits.shape[1] // _devices_for(logits)]),
                    says="These are the largest of device 0's columns. Choose among the candidates "
                    "of all devices.",
                ),
                "indices-of-row-0": Mistake(
                    partial(_best_looked_up, lambda indices, where: indices[0][where]),
                    says="The logits are the right ones, and every row has its indices looked up "
                    "among the candidates of row 0. `jnp.take_along_axis` takes each row's own.",
                ),
                "places-of-row-0": Mistake(
                    partial(_best_looked_up, lambda indices, where: indices[:, where[0]]),
                    says="The logits are the right ones, and every row has its indices looked up "
                    "at the places of row 0. `jnp.take_along_axis` takes each row's own.",
                ),
                "columns-of-all-rows": Mistake(
                    partial(_best_looked_up, lambda indices, where: indices[:, where]),
                    says="`indices[:, places]` takes these columns from all rows. "
                    "`jnp.take_along_axis` takes a row's places in this row.",
                ),
                "rows-for-places": Mistake(
                    partial(
                        _best_looked_up,
                        lambda indices, where: indices[np.minimum(where, len(indices) - 1)],
                    ),
                    says="`indices[places]` takes whole rows. `jnp.take_along_axis` takes a row's "
                    "places in this row.",
                ),
                "indices-sorted": Mistake(
                    lambda logits: (_best(logits)[0], np.sort(_best(logits)[1], axis=1)),
                    says="These are the right logits, and the right indices in another order. Each "
                    "index belongs to the logit in its place.",
                ),
                "maximum-of-each-place": Mistake(
                    _best_of_each_place,
                    says="Of the first candidates of all devices this takes the largest, and of "
                    "the second ones. Where are the best two of a row, if one device has both?",
                ),
                "largest-places": Mistake(
                    _best_with_largest_places,
                    says="The logits are the right ones, and the indices are the four largest "
                    "numbers among the candidates' indices. Which of these belong to the logits?",
                ),
                "places-of-device-0": Mistake(
                    _best_with_first_places,
                    says="The logits are the right ones, and the indices are those of the "
                    "candidates of device 0. Which of all indices belong to the logits?",
                ),
                "place-of-equal": Mistake(
                    _best_by_value,
                    says="Equal logits get the same index here. Each has one of its own.",
                ),
                "rows-mixed": Mistake(
                    _best_of_mixed_rows,
                    says="The candidates of different rows are mixed. Along which dimension does "
                    "`all_gather` put the devices' blocks together? (`tiled=True`, with `axis=`.)",
                ),
            },
            under_mesh=True,
            results=("the array of logits", "the array of indices"),
        ),
        CommunicatesAtMost(
            "most_likely",
            # a value and a place for each candidate, twice: there are many ways to choose
            tuple((Budget(None, bytes=2 * 2 * 4 * s[0] * n * TOP),) for n, s, _ in LOGITS),
        ),
    ),
    about=(CommunicatesAtMost,),
    hints=(
        "The largest four of a row are among the largest four of its blocks. How many candidates "
        "is that?",
        "In a `shard_map`: `lax.top_k` of the block gives indices within the block. What do you "
        "have to add to them, and what do you need of the other devices?",
        "Return values and indices of each block, put together along dimension 1. Outside of the "
        "`shard_map`, take `lax.top_k` of the values, and look up the indices with "
        "`jnp.take_along_axis`. `lax.axis_index('x')` times a block's size is its first index.",
    ),
    diagnoses={
        "shape": "Return four logits of each row, and their four indices. If a row of yours has "
        "more: are these the candidates of all devices? Choose four of them. If there are more "
        "rows: do out_specs join the devices' blocks along the rows? (If there is an "
        "all_gather: it adds a dimension for the devices, unless `tiled=True` puts blocks together "
        "along dimension `axis`.)",
        "too-many-bytes": "Four candidates of each device, with their indices, are enough. Does "
        "each device choose them from its own columns, in a `shard_map`, and no more than four?",
        "not-replicated": "The body may as well return each device's candidates. What comes after "
        "them can stand outside of it.",
        "other-structure": "lax.top_k may return a list.",
        "dtype": "Are the results in their order, the logits first and then their indices?",
    },
)

# 13.9

NUMBERS: Final = ((8, 64, 1000), (4, 48, 100_000), (8, 16, 100))
"""Devices, how many numbers there are, and their limit."""


MOST_TURNS: Final = 351
"""The steps of the slowest number up to 100,000, and one more."""

SLOWEST: Final = 77_031
"""This number, the only one of 350 steps, is among the numbers up to 100,000."""

ROUNDED: Final = 32_767
"""This one is among them, too: its way leads to odd numbers above 2**24, which no float32 is."""


@cache
def _collatz(n: int) -> int:
    steps = 0
    while n > 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def _collatz_short(n: int) -> int:
    """Count (3 n + 1) / 2 as one step."""
    steps = 0
    while n > 1:
        n, steps = (n // 2 if n % 2 == 0 else (3 * n + 1) // 2), steps + 1
    return steps


def _collatz_in(dtype: Any, n: int) -> int:
    """Count the steps of a number that is kept in a dtype which is too small for some."""
    number, steps = np.array(n).astype(dtype)[()], 0
    with np.errstate(over="ignore"):
        while number > 1 and steps < MOST_TURNS:
            is_even = number % dtype(2) == 0
            number = dtype(number / dtype(2)) if is_even else dtype(3) * number + dtype(1)
            steps += 1
    return steps


def _stop_after(turns: int, n: int) -> int:
    return min(_collatz(n), turns)


def _for_each(count: Callable[[int], int], numbers: Any) -> Any:
    return np.array([count(int(n)) for n in numbers], np.int32)


def _of_slowest(numbers: Any, blocks: int) -> Any:
    """Count for each number the steps of the slowest one in its block."""
    steps = _for_each(_collatz, numbers).reshape(blocks, -1)
    return np.repeat(steps.max(axis=1), steps.shape[1])


def _until_first(numbers: Any, blocks: int) -> Any:
    """Count steps until the first number in a block has arrived."""
    steps = _for_each(_collatz, numbers).reshape(blocks, -1)
    return np.minimum(steps, steps.min(axis=1, keepdims=True)).ravel()


def _until_number_0(numbers: Any, blocks: int) -> Any:
    """Count steps until the number in front of a block has arrived."""
    steps = _for_each(_collatz, numbers).reshape(blocks, -1)
    return np.minimum(steps, steps[:, :1]).ravel()


def _numbers_argument(devices: int, count: int, limit: int) -> Argument:
    places = {count // 2: SLOWEST, count // 4: ROUNDED}
    included = [Adjustment(((at, at + 1),), add=n, keep=False) for at, n in places.items()]
    return Argument(
        (count,),
        (("x", devices),),
        ("x",),
        "int32",
        mode="auto",
        scale=limit,
        shift=1,
        adjustments=tuple(included) if limit > SLOWEST else (),
    )


def _blocks_of(numbers: Any) -> int:
    return next(n for n, count, _ in NUMBERS if count == len(numbers))


def _is_one_count_for_each_device(given: Sequence[Any], made: Any) -> bool:
    """Check whether all numbers of a device have the same count, and it is enough for each."""
    (numbers,) = given
    if made.shape != numbers.shape or (made < _for_each(_collatz, numbers)).any():
        return False
    blocks = made.reshape(_blocks_of(numbers), -1)
    return bool((blocks == blocks[:, :1]).all())


LOOPS: Final = Exercise(
    id="13.9",
    title="Loops of different lengths",
    afterwards="`jax.random.gamma` has such a loop inside, and so do adaptive solvers: each waits "
    "for the slowest number of all devices, and asks all of them in every turn.",
    requirements=(
        Computes(
            "count_steps",
            "count_steps(numbers) must be the number of steps from each number to 1.",
            partial(_for_each, _collatz),
            tuple((_numbers_argument(*each),) for each in NUMBERS),
            {
                "of-the-slowest": Mistake(
                    lambda numbers: _of_slowest(numbers, 1),
                    lambda numbers: _of_slowest(numbers, _blocks_of(numbers)),
                    says="A number that has arrived at 1 goes on being counted, until the slowest "
                    "one has arrived.",
                ),
                "too-few-turns": Mistake(
                    *(
                        partial(_for_each, partial(_stop_after, turns))
                        for turns in range(8, MOST_TURNS)
                    ),
                    says="Some numbers are not at 1 yet when the loop ends. How many turns does a "
                    "number take that you have not seen?",
                ),
                "two-steps-as-one": Mistake(
                    partial(_for_each, _collatz_short),
                    says="An odd number takes two steps to (3 n + 1) / 2.",
                ),
                "ends-with-the-first": Mistake(
                    lambda numbers: _until_first(numbers, 1),
                    lambda numbers: _until_first(numbers, _blocks_of(numbers)),
                    says="The loop ends as soon as one number has arrived.",
                ),
                "ends-with-number-0": Mistake(
                    lambda numbers: _until_number_0(numbers, 1),
                    lambda numbers: _until_number_0(numbers, _blocks_of(numbers)),
                    says="The loop ends as soon as the first number of a block has arrived. Which "
                    "numbers does its condition look at?",
                ),
                "numbers-at-the-end": Mistake(
                    np.ones_like,
                    says="These are the numbers at the end, which are all 1. The steps are the "
                    "other half of the loop's state.",
                ),
                "rounded-on-the-way": Mistake(
                    partial(_for_each, partial(_collatz_in, np.float32)),
                    says="Some numbers are rounded on their way, because a float32 has no odd "
                    "numbers above 16,777,216. Which dtype do they have?",
                ),
                "too-large-on-the-way": Mistake(
                    partial(_for_each, partial(_collatz_in, np.int16)),
                    lambda numbers: _for_each(_collatz, numbers).astype(np.int8).astype(np.int32),
                    says="Some numbers or counts are too large for their dtype, and begin again "
                    "at the smallest one. Which dtype do they have?",
                ),
                "one-too-many": Mistake(
                    lambda numbers: _for_each(_collatz, numbers) + 1,
                    says="One step too many is counted.",
                ),
                "one-too-few": Mistake(
                    lambda numbers: np.maximum(_for_each(_collatz, numbers) - 1, 0),
                    says="One step is not counted.",
                ),
            },
            {
                "all-turns-counted": Mistake(
                    _is_one_count_for_each_device,
                    says="All numbers of a device have the same count. Does a number that has "
                    "arrived at 1 go on being counted, in all turns that are left? Count a turn "
                    "only while the number is above 1.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "count_steps",
            "0 1 2 3 4 5 6 7",
            tuple((count,) for _, count, _ in NUMBERS),
            elsewhere=("0 1 2 3", "0 1 2 3 4 5 6 7"),
        ),
        CommunicatesAtMost("count_steps", ((), (), ())),
        FitsIn("count_steps", (10_000,) * 3),
        *(
            Predicts(
                "agree",
                cell,
                f"True or False: the devices have to agree, {what}",
                right,
                {name: not right},
            )
            for cell, what, right, name in (
                ("rows of their own", "if each finds roots of its own rows", False, "no-need"),
                ("sums inside", "if each turn has a psum", True, "would-hang"),
                (
                    "batch-sharded text",
                    "if each writes its own sequences, with all weights",
                    False,
                    "no-need-for-text",
                ),
                (
                    "tensor-parallel text",
                    "if all write the same sequences, each with its part of the weights",
                    True,
                    "would-hang-for-text",
                ),
            )
        ),
    ),
    about=(CommunicatesAtMost, FitsIn),
    together=True,
    weights={"count_steps": 2},
    hints=(
        "Which program decides whether there is another turn, and which numbers does it look at?",
        "Inside a `shard_map`, `jnp.any` looks at the device's own numbers.",
        "Write the loop for one block, as you have it, and map it over the mesh: with which specs "
        "does each device have its own numbers, and return their steps? For the table: what "
        "happens to a collective if one device has left the loop?",
    ),
    diagnoses={
        "all-gather over x": "Each device needs its own numbers only. Does a spec, a `lax.map` or "
        "a scan bring all numbers to each device?",
        "too-much-memory": "Is a table of all numbers in the program, which each device has? Or "
        "does a scan keep what it has in each turn?",
        "count_steps: values": "What does your function count for the numbers 1, 2, 3 and 6? Their "
        "steps are 0, 1, 7 and 8. (By the rule alone, 1 goes on to 4, 2 and 1 again.)",
        "endless-loop": "What becomes of the number 1? By the rule alone, it goes on to 4, 2 and 1 "
        "again.",
        "all-reduce": "In a loop: do all devices agree whether there is another turn, because the "
        "condition looks at all numbers, or because vmap has made one loop of many? Outside a "
        "loop: is a maximum or a sum taken of all numbers, or of all counts?",
        "no-need": "Nothing in a row depends on others, so a device may stop when its rows are "
        "done.",
        "no-need-for-text": "With all weights and its own sequences, a device needs nothing of "
        "others.",
        "would-hang": "A device that has left the loop does not take part in the sum, and all "
        "others wait for it for ever.",
        "would-hang-for-text": "Each token needs all parts of the weights, so there are sums in "
        "each turn. Who has left the loop is missing in them.",
    },
)

# 13.10

MEMBERS: Final = (
    ((("members", 4), ("model", 2)), (8, 16, 32, 64)),
    ((("members", 2), ("model", 4)), (4, 8, 16, 32)),
    ((("members", 4), ("model", 2)), (12, 24, 48, 96)),
)
"""Meshes; and members, examples, features and outputs."""


def _ensemble(x: Any, W: Any, active: bool = True) -> Any:
    made = x @ W
    return np.tanh(made) if active else made


def _members_together(array: Any, whole: bool) -> Any:
    """Put the members of all devices, or of each device, into a dimension of their own."""
    groups = next(dict(axes)["members"] for axes, s in MEMBERS if s[0] == len(array))
    return array.reshape(1 if whole else groups, -1, *array.shape[1:])


def _first_of(array: Any, whole: bool) -> Any:
    """Give all members, of all devices or of each, what the first one has."""
    together = _members_together(array, whole)
    return np.broadcast_to(together[:, :1], together.shape).reshape(array.shape)


def _sum_of(array: Any, whole: bool) -> Any:
    """Give all members, of all devices or of each, the sum of what they have."""
    together = _members_together(array, whole)
    return np.broadcast_to(together.sum(1, keepdims=True), together.shape).reshape(array.shape)


ENSEMBLE: Final = Exercise(
    id="13.10",
    title="vmap over a mesh axis",
    afterwards="For operations that the compiler partitions, `spmd_axis_name` does nothing. To the "
    "spec of a `with_sharding_constraint` it adds the axis. A `shard_map` says which dimension is "
    "sharded over what, so `vmap` has to be told about the one that it adds.",
    requirements=(
        Computes(
            "ensemble",
            "ensemble(x, W) must be multiply(x[i], W[i]) for each member i.",
            _ensemble,
            tuple(
                (
                    Argument((m, b, d), axes, ("members",), mode="auto"),
                    Argument((m, d, f), axes, ("members", None, "model"), mode="auto"),
                )
                for axes, (m, b, d, f) in MEMBERS
            ),
            {
                "not-active": Mistake(
                    partial(_ensemble, active=False),
                    says="These are the products themselves: `multiply` ends with tanh.",
                ),
                "active-too-early": Mistake(
                    lambda x, W: np.tanh(x) @ W,
                    says="tanh is applied to the examples. In `multiply`, it is applied to the "
                    "product.",
                ),
                "weights-of-first-member": Mistake(
                    *(
                        lambda x, W, active=active, whole=whole: _ensemble(
                            x, _first_of(W, whole), active
                        )
                        for active in (True, False)
                        for whole in (True, False)
                    ),
                    says="All members, or all those of a device, get the weights of the first "
                    "one. Each has its own.",
                ),
                "examples-of-first-member": Mistake(
                    *(
                        lambda x, W, whole=whole: _ensemble(_first_of(x, whole), W)
                        for whole in (True, False)
                    ),
                    says="All members, or all those of a device, get the examples of the first "
                    "one. Each has its own.",
                ),
                "weights-added": Mistake(
                    *(
                        lambda x, W, whole=whole: _ensemble(x, _sum_of(W, whole))
                        for whole in (True, False)
                    ),
                    says="The weights of all members, or of all those of a device, are added up. "
                    "Each has its own.",
                ),
                "active-twice": Mistake(
                    lambda x, W: np.tanh(_ensemble(x, W)),
                    says="tanh is applied twice: `multiply` ends with it.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "ensemble",
            "0 1 \n\n 2 3 \n\n 4 5 \n\n 6 7",
            tuple((m, b, f) for _, (m, b, _, f) in MEMBERS),
            elsewhere=("0 1 2 3 \n\n 4 5 6 7", "0 1 \n\n 2 3 \n\n 4 5 \n\n 6 7"),
        ),
        CommunicatesAtMost("ensemble", ((), (), ())),
    ),
    about=(PlacedLike, CommunicatesAtMost),
    together=True,
    hints=(
        "`multiply` names the axes for the dimensions that it sees. `vmap` adds one in "
        "front. Which "
        "axis does the `shard_map` take for it?",
        "Read the docstring of `jax.vmap` down to its last argument.",
        "`jax.vmap(multiply, spmd_axis_name=…)` with the name of the mesh axis that shards "
        "members.",
    ),
    diagnoses={
        "all-gather over members": "Each device fetches all members. Is there a `lax.map` or a "
        "scan over them? It takes one member after the other, on all devices. Or, with `vmap`, "
        "which mesh axis shards the "
        "dimension that counts them, in the specs that your program has? (`axis_name` says nothing "
        "about it: it is a name for collectives.)",
        "all-reduce over members": "A member's result needs its own examples and weights only. Are "
        "members added up? Or is there an index such as `x[i]`, in a loop or without one? Member i "
        "is on some of the devices only, so it is sent to all.",
        "all-reduce over model": "Are products added up over `model`? Not the rows of W are "
        "sharded over it, but the columns, and a device has all that its columns need.",
        "shape": "`multiply` takes the examples and the weights of one member: does your program "
        "map both over the members? If members are missing: a device has several of them. Does it "
        "compute one on each? (In a `shard_map` of yours: do `in_specs` and `out_specs` shard "
        "members over `members`, and columns over `model`?)",
        "not-joined": "Members are sharded over `members`, and columns over `model`.",
        "all-to-all over model": "Is W taken by its rows? Its columns are sharded over `model`.",
        "in-axes": "Which argument of `vmap` is meant?",
        "raised": "Does JAX mention sizes or an axis? (The meshes have the axes `members` and "
        "`model`.) `multiply` takes the examples and the "
        "weights of one member. Which dimension of each argument counts members, and which axis of "
        "the mesh shards it?",
        "all-gather over model": "Nobody needs all columns: a device returns its own.",
        "blocks-do-not-fit": "`multiply` takes the examples and the weights of one member. Does "
        "your `vmap` map both arguments over their members?",
    },
)

EXERCISES: Final = (
    SPEC_RULES,
    MEETS,
    STATE,
    CLOSED_OVER,
    GATHER,
    PEAK,
    ACCUMULATION,
    SELECTION,
    LOOPS,
    ENSEMBLE,
)
