"""Notebook 09: sharp bits.

Nearly all of this depends on what JAX and XLA do today, and some of it is known to change.
`tests/test_moving.py` names, for each such behaviour, the exercise to update when it changes.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax
import numpy as np
from jax.sharding import Mesh

from autograder.artifacts import Argument
from autograder.judge import (
    Budget,
    CommunicatesAtMost,
    Computes,
    Exercise,
    FitsIn,
    Mistake,
    PlacedLike,
    Predicts,
    Returns,
)
from shardlings.layouts import Layout

LINES: Final = (8, 4)
"""The numbers of devices in a line. Functions are judged on both."""

ROWS: Final = ("\n".join(map(str, range(8))), "\n".join(map(str, range(4))))
COLUMNS: Final = (" ".join(map(str, range(8))), " ".join(map(str, range(4))))


def _argument(shape: tuple[int, ...], n: int, *spec: str | None, **more: Any) -> Argument:
    return Argument(shape, (("x", n),), spec, mode="auto", **more)


def _seed(n: int) -> Argument:
    return _argument((), n, dtype="uint32", scale=2.0**31)


AUDIT: Final = Exercise(
    id="9.1",
    title="An audit of random numbers",
    afterwards="jax_threefry_partitionable is on by default since JAX 0.5. Before that, the same "
    "key gave other numbers.",
    requirements=(
        *(
            Predicts(
                "moved", case, f"the bytes that noisy moves on each device, {case}", right, mistakes
            )
            for case, right, mistakes in (
                (
                    "rows, flag off",
                    21504,
                    {
                        "only-permutes": Mistake(
                            5120,
                            says="These are the bytes of the permutations only. There are "
                            "all-gathers, too.",
                        ),
                        "only-gathers": Mistake(
                            16384,
                            says="These are the bytes of the all-gathers only (and of the array). "
                            "There are permutations, too.",
                        ),
                        "on-all-devices": Mistake(
                            8 * 21504,
                            says="This is the total over all devices. Each of them moves an "
                            "eighth.",
                        ),
                        "an-eighth": Mistake(
                            21504 // 8,
                            says="The report's bytes are already those of one device, so do not "
                            "divide them.",
                        ),
                        "own-part": Mistake(
                            2048,
                            says="This is the size of a device's block of the array. Drawing it "
                            "moves more than that. What does the report show?",
                        ),
                        "sent": Mistake(
                            19456,
                            says="This is what a device sends, the report's `.sent`. Expected: its "
                            "`.bytes`.",
                        ),
                        "counted": Mistake(
                            2,
                            6,
                            says="Is this the number of collectives, or of their kinds? Expected: "
                            "the bytes that they move.",
                        ),
                        "memory": Mistake(
                            21576,
                            says="This is the memory that a device needs. Expected: the bytes that "
                            "it moves.",
                        ),
                        "flag-forgotten": Mistake(
                            0,
                            says="This is right with the flag on, which is the default. Is it off "
                            "while you measure?",
                        ),
                    },
                ),
                (
                    "rows, flag on",
                    0,
                    {
                        "still-moves": Mistake(
                            21504,
                            19456,
                            16384,
                            5120,
                            2048,
                            says="With the flag on, each device draws its own numbers and no "
                            "others.",
                        )
                    },
                ),
                (
                    "columns, flag off",
                    0,
                    {
                        "any-layout": Mistake(
                            21504,
                            19456,
                            16384,
                            5120,
                            2048,
                            says="With the flag off, it depends on the layout. If the columns are "
                            "sharded, each device computes more than its part, and nothing moves.",
                        )
                    },
                ),
            )
        ),
        *(
            Predicts("same", case, f"whether the values are the same, {case}", right, {name: wrong})
            for case, right, wrong, name in (
                ("flag off and flag on", False, True, "flag-harmless"),
                ("rows and columns, flag on", True, False, "layout-matters"),
                ("rows and columns, flag off", True, False, "layout-matters"),
            )
        ),
    ),
    hints=(
        "Use `communication(noisy, seed, x).bytes` inside `with jax.threefry_partitionable(…):`.",
        "With the flag off there are two kinds of collectives. Count both. If you search the "
        "program's text for one name, you find only one of them.",
        "For the values: apply noisy to zeros in both layouts, and compare with np.array_equal.",
    ),
    diagnoses={
        "other-prediction": "Measure it with communication, with the flag set as the cell says. "
        "Expected: the sum over all collectives.",
        "flag-harmless": "The flag selects one of two algorithms, and they give different numbers "
        "for the same key.",
        "layout-matters": "The numbers are a function of key and shape. The layout changes what a "
        "draw costs, not its values.",
    },
)

SHAPE: Final = (64, 512)


def _drawn(
    seed: Any,
    draw: Callable[..., Any] = jax.random.normal,
    key: Callable[[Any], Any] = lambda key: key,
) -> Any:
    return np.asarray(draw(key(jax.random.key(seed)), SHAPE) / 8)


def _drawn_with_flag_off(seed: Any) -> Any:
    with jax.threefry_partitionable(False):
        return _drawn(seed)


def _drawn_in_parts(n: int, key: Callable[[Any, int, int], Any], seed: Any) -> Any:
    """Draw the columns of each of n devices from its own key."""
    shape = SHAPE[0], SHAPE[1] // n
    parts = [np.asarray(jax.random.normal(key(seed, i, n), shape) / 8) for i in range(n)]
    return np.concatenate(parts, axis=1)


INITIALISED: Final = Exercise(
    id="9.2",
    title="Initialise in place",
    afterwards="Large models are initialised in this way, so that no device ever holds a complete "
    "matrix. Checkpoints are restored in the same way, block by block.",
    requirements=(
        Computes(
            "initialise",
            "initialise(seed) must be jax.random.normal(jax.random.key(seed), (64, 512)) / 8.",
            _drawn,
            tuple((_seed(n),) for n in LINES),
            {
                "uniform": Mistake(
                    lambda seed: _drawn(seed, draw=jax.random.uniform),
                    says="These are numbers of jax.random.uniform. Expected: jax.random.normal.",
                ),
                "drawn-transposed": Mistake(
                    lambda seed: np.asarray(
                        jax.random.normal(jax.random.key(seed), SHAPE[::-1]).T / 8
                    ),
                    says="You draw the transposed shape, and transpose the result. For another "
                    "shape, the same key gives other numbers.",
                ),
                "flag-off": Mistake(
                    _drawn_with_flag_off,
                    says="These are the numbers with jax_threefry_partitionable off. Leave it on, "
                    "as it is by default.",
                ),
                "another-key": Mistake(
                    lambda seed: _drawn(seed, key=lambda k: jax.random.split(k)[0]),
                    lambda seed: _drawn(seed, key=lambda k: jax.random.split(k)[1]),
                    lambda seed: _drawn(seed, key=lambda k: jax.random.fold_in(k, 0)),
                    says="The numbers are drawn from a key that was split or folded. Expected: "
                    "jax.random.key(seed) itself.",
                ),
                "a-key-for-each-part": Mistake(
                    *(
                        tuple(
                            partial(_drawn_in_parts, n, own)
                            for n in LINES
                            for own in (
                                lambda seed, i, n: jax.random.fold_in(jax.random.key(seed), i),
                                lambda seed, i, n: jax.random.key(seed + np.uint32(i)),
                                lambda seed, i, n: jax.random.split(jax.random.key(seed), n)[i],
                            )
                        )
                    ),
                    says="Each device draws its part from its own key. This gives other numbers "
                    "than drawing the whole shape from one key, and they change with the number of "
                    "devices.",
                ),
                "same-part-everywhere": Mistake(
                    *(
                        tuple(
                            partial(_drawn_in_parts, n, lambda seed, i, n: jax.random.key(seed))
                            for n in LINES
                        )
                    ),
                    says="Every device draws the same part from the same key, so the columns "
                    "repeat. Draw the whole shape, and ask for its layout.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike("initialise", COLUMNS[0], (SHAPE,) * 2, elsewhere=COLUMNS[1:]),
        CommunicatesAtMost("initialise", ((),) * 2),
        FitsIn("initialise", tuple(4 * 4 * SHAPE[0] * SHAPE[1] // n + 32768 for n in LINES)),
    ),
    about=(FitsIn,),
    hints=(
        "Ask for the layout in the program that makes the array. Then each device makes only its "
        "part.",
        "There are two ways: call jax.jit(init, out_shardings=P(…)) in your function, or apply "
        "with_sharding_constraint to what you draw.",
        "Draw the whole shape from the one key. The compiler distributes the draw.",
    ),
    diagnoses={
        "too-much-memory": "This is more memory than a device needs for its part. Does each "
        "device make the whole array, and drop most of it afterwards?",
        "replicated": "In the end the array is replicated. Does the program that draws the "
        "numbers ask for a layout? (Inside jit, with Auto axes, jax.device_put does nothing.)",
        "values": "The same key and the same shape give the same numbers in every layout. Are "
        "they drawn by jax.random.normal, from one key, and divided by 8?",
        "transposed": "The rows are sharded. Expected: the columns.",
    },
)

NOISES: Final = ((8, 8, 4), (4, 5, 6))
"""The number of devices, the rows on each, and the columns."""


def _own_key(seed: Any, i: int) -> Any:
    return jax.random.fold_in(jax.random.key(seed), i)


def _noise(
    seed: Any, x: Any, key: Any = _own_key, draw: Any = jax.random.normal, rows: int = 0
) -> Any:
    """Draw the noise of each device's rows from its own key, or only `rows` of them, broadcast."""
    n = {n * own: n for n, own, _ in NOISES}[len(x)]
    shape = len(x) // n, x.shape[1]
    drawn = [draw(key(seed, i), (rows or shape[0], shape[1])) for i in range(n)]
    return np.concatenate([np.broadcast_to(each, shape) for each in drawn])


def _noisy(seed: Any, x: Any, **how: Any) -> Any:
    return x + _noise(seed, x, **how)


def _key_for_each_row(seed: Any, x: Any) -> Any:
    keys = [_own_key(seed, i) for i in range(len(x))]
    return x + np.stack([np.asarray(jax.random.normal(key, x.shape[1:])) for key in keys])


def _own_drawing_sliced(seed: Any, x: Any) -> Any:
    """Add noise of the shape of x from each device's own key, of which it uses its own rows."""
    n = {n * own: n for n, own, _ in NOISES}[len(x)]
    drawn = [np.asarray(jax.random.normal(_own_key(seed, i), x.shape)) for i in range(n)]
    rows = np.split(np.arange(len(x)), n)
    return x + np.concatenate([noise[own] for noise, own in zip(drawn, rows, strict=True)])


NOISE_MISTAKES: Final = {
    "x-forgotten": _noise,
    "subtracted": lambda seed, x: x - _noise(seed, x),
    "multiplied": lambda seed, x: x * _noise(seed, x),
    "folded-twice": lambda seed, x: _noisy(
        seed, x, key=lambda s, i: jax.random.fold_in(_own_key(s, i), i)
    ),
    "same-key": lambda seed, x: _noisy(seed, x, key=lambda s, _: jax.random.key(s)),
    "drawn-whole": lambda seed, x: x + np.asarray(jax.random.normal(jax.random.key(seed), x.shape)),
    "counted-from-one": lambda seed, x: _noisy(seed, x, key=lambda s, i: _own_key(s, i + 1)),
    "added-to-the-seed": lambda seed, x: _noisy(
        seed, x, key=lambda s, i: jax.random.key(s + np.uint32(i))
    ),
    "the-other-way-round": lambda seed, x: _noisy(seed, x, key=lambda s, i: _own_key(i, s)),
    "uniform": lambda seed, x: _noisy(seed, x, draw=jax.random.uniform),
    "one-row-for-all": lambda seed, x: _noisy(seed, x, rows=1),
    "seed-ignored": lambda seed, x: _noisy(np.uint32(0), x),
    "key-for-each-row": _key_for_each_row,
    "own-drawing-sliced": _own_drawing_sliced,
}

NOISE: Final = Exercise(
    id="9.3",
    title="Different noise on each device",
    afterwards="This noise depends on the number of devices. If results must not change with the "
    "mesh, fold in the number of the row instead.",
    requirements=(
        Computes(
            "noisy_rows",
            "noisy_rows(seed, x) must be x plus noise: on device i along x, drawn from the key "
            "jax.random.fold_in(jax.random.key(seed), i).",
            _noisy,
            tuple((_seed(n), _argument((own * n, m), n, "x")) for n, own, m in NOISES),
            NOISE_MISTAKES,
            under_mesh=True,
        ),
        PlacedLike(
            "noisy_rows",
            ROWS[0],
            tuple((own * n, m) for n, own, m in NOISES),
            elsewhere=ROWS[1:],
        ),
        CommunicatesAtMost("noisy_rows", ((),) * 2),
    ),
    hints=(
        "In a body, all devices run the same line: with the same key and the same shape, they "
        "draw the same numbers.",
        "What differs from device to device is lax.axis_index('x').",
        "jax.random.fold_in(key, number) makes a new key from a key and a number.",
    ),
    diagnoses={
        "same-key": "All devices add the same noise, from the key of the seed. Expected: a "
        "different key on each device.",
        "drawn-whole": "This is one draw for all of x, distributed over the devices. Expected: a "
        "different key on each device.",
        "x-forgotten": "The noise is right. Add x to it.",
        "subtracted": "The noise is right, but it is subtracted from x. Expected: added.",
        "multiplied": "The noise is right, but x is multiplied by it. Expected: added.",
        "folded-twice": "The device's position is folded into the key twice.",
        "counted-from-one": "The devices are counted from 1. The first one along x has the number "
        "0.",
        "added-to-the-seed": "The device's position is added to the seed. Such keys are also "
        "those of other seeds. Fold the position into the seed's key.",
        "the-other-way-round": "The seed is folded into a key of the device's position. Expected: "
        "the other way round.",
        "uniform": "The keys are right, but the noise is from jax.random.uniform. Expected: "
        "jax.random.normal.",
        "one-row-for-all": "Each device adds the same row of noise to all of its rows. Expected: "
        "different noise for each element of x.",
        "seed-ignored": "This is the noise of seed 0, whatever the seed is.",
        "key-for-each-row": "You use a key for each row. Expected: a key for each device.",
        "own-drawing-sliced": "The keys are right, but each device draws noise of the shape of x "
        "and adds a slice of it. Expected: noise of the shape of its block.",
        "values": "Is the number that you fold in the device's position along x, counted from 0? "
        "Is the noise from jax.random.normal, with the shape of the block?",
        "ignores-inputs": "Is a seed written into the function? Then the noise is the same every "
        "time.",
        "replicated": "The result is replicated. out_specs must be the layout of x.",
    },
)

TABLES: Final = ((8, (17, 16)), (4, (33, 8)), (8, (24, 12)))
"""The number of devices, and the shape of a table of words."""


DEVICES: Final = tuple((shape, n) for n, shape in TABLES)


def _spread(table: Any) -> Any:
    return np.pad(table, ((0, -len(table) % 8), (0, 0)))


VOCABULARIES: Final = (
    # the number of devices, the rows of the padded table, its width, the number of examples, the
    # scale of `hidden`, and the range of the number of words
    (8, 24, 16, 8, 1.0, (17, 24)),
    (4, 40, 8, 6, 30.0, (20, 40)),  # exp overflows
    (8, 8, 16, 16, 3e7, (1, 2)),  # one word, and for some examples its logit is far below 0
)


def _vocabulary(
    n: int, rows: int, width: int, examples: int, scale: float, words: tuple[int, int]
) -> tuple[Argument, ...]:
    least, end = words
    return (
        _argument((examples, width), n, scale=scale),
        _argument((rows, width), n, "x"),
        _argument((), n, dtype="int32", scale=end - least, shift=least),
    )


def _exponentials(logits: Any) -> Any:
    return np.exp(logits - logits.max(1, keepdims=True))


def _softmax(logits: Any) -> Any:
    return _exponentials(logits) / _exponentials(logits).sum(1, keepdims=True)


def _softmax_with(
    taken_off: Callable[[Any, Any], Any], hidden: Any, padded: Any, words: Any
) -> Any:
    """Return the softmax over the words, subtracting something other than their largest logit."""
    logits = hidden @ padded.T
    exponentials = np.exp(logits - taken_off(logits, words))
    exponentials[exponentials < np.finfo(np.float32).tiny] = 0  # as XLA has it
    exponentials = _masked(exponentials, words, 0)
    return exponentials / exponentials.sum(1, keepdims=True)


def _log_softmax(logits: Any) -> Any:
    shifted = logits - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def _masked(logits: Any, words: Any, value: float) -> Any:
    return np.where(np.arange(logits.shape[1]) < words, logits, np.float32(value))


def _softmax_of_own_words(value: float, after: bool, hidden: Any, padded: Any, words: Any) -> Any:
    """Return the softmax of each device over its own words.

    Args:
        value: The logit of the padding.
        after: Whether the padding's probabilities are set to zero.
        hidden: The hidden layer, with a row for each example.
        padded: The padded table.
        words: The number of its rows that are words.
    """
    n = {rows: n for n, rows, *_ in VOCABULARIES}[len(padded)]
    logits = np.split(_masked(hidden @ padded.T, words, value), n, axis=1)
    made = np.concatenate([_softmax(own) for own in logits], axis=1)
    return _masked(made, words, 0) if after else made


def _masked_by(value: float, hidden: Any, padded: Any, words: Any) -> Any:
    return _softmax(_masked(hidden @ padded.T, words, value))


_probabilities: Final = partial(_masked_by, -np.inf)


def _first_words_only(most: int, hidden: Any, padded: Any, words: Any) -> Any:
    """Count no more than so many words: a mistake."""
    return _probabilities(hidden, padded, min(words, most))


def _with_own_largest(hidden: Any, padded: Any, words: Any) -> Any:
    """Return the softmax where each device subtracts the largest of its own logits: a mistake."""
    n = {rows: n for n, rows, *_ in VOCABULARIES}[len(padded)]
    parts = np.split(hidden @ padded.T, n, axis=1)
    exponentials = _masked(np.concatenate([*map(_exponentials, parts)], axis=1), words, 0)
    return exponentials / exponentials.sum(1, keepdims=True)


def _with_one_sum(hidden: Any, padded: Any, words: Any) -> Any:
    """Divide by the sum over all examples: a mistake."""
    exponentials = _exponentials(_masked(hidden @ padded.T, words, -np.inf))
    return exponentials / exponentials.sum()


UNEVEN: Final = Exercise(
    id="9.4",
    title="Seventeen words on eight devices",
    afterwards="Real vocabularies are padded, too, often to a multiple of 128, because of the "
    "devices and their matrix units.",
    requirements=(
        Computes(
            "spread",
            "spread(table) must be the table with rows of zeros up to the next multiple of 8.",
            _spread,
            tuple((_argument(shape, n),) for n, shape in TABLES),
            {
                "silently-copied": Mistake(
                    lambda table: table,
                    says="The table is unchanged. A constraint that does not divide ends in "
                    "replication, and raises no error. Pad first, then constrain.",
                ),
                "padded-with-others": Mistake(
                    lambda table: np.pad(table, ((0, -len(table) % 8), (0, 0)), constant_values=1),
                    lambda table: np.pad(table, ((0, -len(table) % 8), (0, 0)), "edge"),
                    lambda table: np.resize(table, _spread(table).shape),
                    says="The rows that you added are not zeros.",
                ),
                "in-front": Mistake(
                    lambda table: np.roll(_spread(table), -len(table) % 8, 0),
                    says="The rows of zeros are in front of the words. Expected: after them.",
                ),
                "always-more": Mistake(
                    lambda table: np.pad(table, ((0, 8 - len(table) % 8), (0, 0))),
                    says="You add 8 rows even if their number is a multiple of 8. 24 words need no "
                    "padding.",
                ),
                "columns-too": Mistake(
                    lambda table: np.pad(table, (0, -len(table) % 8)),
                    says="You added columns, too. Expected: only rows. (If you give jnp.pad one "
                    "pair, it pads every dimension.)",
                ),
                "multiple-of-devices": Mistake(
                    lambda table: np.pad(
                        table, ((0, -len(table) % dict(DEVICES)[table.shape]), (0, 0))
                    ),
                    says="The rows are padded to a multiple of the number of devices. Expected: a "
                    "multiple of 8, on four devices, too.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "spread",
            ROWS[0],
            tuple(_spread(np.zeros(shape)).shape for _, shape in TABLES),
            elsewhere=(ROWS[1], ROWS[0]),
        ),
        CommunicatesAtMost("spread", ((),) * 3),
        Computes(
            "probabilities",
            "probabilities(hidden, padded, words) must be softmax(hidden @ padded[:words].T), with "
            "columns of zeros for the other rows of padded.",
            _probabilities,
            tuple(_vocabulary(*sizes) for sizes in VOCABULARIES),
            {
                "padding-counts": Mistake(
                    lambda hidden, padded, words: _softmax(hidden @ padded.T),
                    says="All rows of the padded table get a share of the probability, including "
                    "the padding. Only `words` tells which rows are words; the others may hold "
                    "anything. If you use shard_map: does the number of a row include the rows of "
                    "the devices before it?",
                ),
                "padding-like-zeros": Mistake(
                    lambda hidden, padded, words: _softmax(_masked(hidden @ padded.T, words, 0)),
                    says="The padding has a logit of 0, and exp(0) is 1, so it still gets a share "
                    "of the probability.",
                ),
                "masked-too-late": Mistake(
                    lambda hidden, padded, words: _masked(_softmax(hidden @ padded.T), words, 0),
                    says="The padding gets a share before it is set to zero, so the rest does not "
                    "add up to 1.",
                ),
                "zeros-then-masked": Mistake(
                    lambda hidden, padded, words: _masked(
                        _softmax(_masked(hidden @ padded.T, words, 0)), words, 0
                    ),
                    says="The padding has a logit of 0, and gets a share of the sum before it is "
                    "set to zero. So the rest does not add up to 1. Which logit has no share?",
                ),
                "a-word-too-many": Mistake(
                    lambda hidden, padded, words: _probabilities(hidden, padded, words + 1),
                    says="One row too many counts as a word. The words are rows 0 to words - 1.",
                ),
                "own-words": Mistake(
                    *(
                        tuple(
                            partial(_softmax_of_own_words, value, after)
                            for value in (-np.inf, -1e30)
                            for after in (False, True)
                        )
                    ),
                    says="On each device, the probabilities of its own words add up to 1. Those of "
                    "all words together should. What do you divide by?",
                ),
                "over-the-examples": Mistake(
                    lambda hidden, padded, words: _masked(
                        _softmax((hidden @ padded.T).T).T, words, 0
                    ),
                    lambda hidden, padded, words: (
                        _softmax(_masked(hidden @ padded.T, words, -np.inf).T).T
                    ),
                    lambda hidden, padded, words: (
                        _softmax(_masked(hidden @ padded.T, words, -1e30).T).T
                    ),
                    says="The softmax is over the examples. Expected: over the words.",
                ),
                "a-word-too-few": Mistake(
                    lambda hidden, padded, words: _probabilities(hidden, padded, words - 1),
                    says="The last word counts as padding. The words are rows 0 to words - 1.",
                ),
                "not-divided": Mistake(
                    lambda hidden, padded, words: _exponentials(
                        _masked(hidden @ padded.T, words, -np.inf)
                    ),
                    says="These are the exponentials. Divide each by its row's sum.",
                ),
                "logits-alone": Mistake(
                    lambda hidden, padded, words: hidden @ padded.T,
                    lambda hidden, padded, words: _masked(hidden @ padded.T, words, 0),
                    lambda hidden, padded, words: _masked(hidden @ padded.T, words, -np.inf),
                    says="These are the logits. The softmax is missing.",
                ),
                "logarithms": Mistake(
                    lambda hidden, padded, words: _log_softmax(
                        _masked(hidden @ padded.T, words, -np.inf)
                    ),
                    says="These are the logarithms of the probabilities.",
                ),
                "largest-not-taken-off": Mistake(
                    partial(_softmax_with, lambda logits, words: 0),
                    says="exp overflows. Subtract a row's largest logit first.",
                ),
                "largest-of-the-padding": Mistake(
                    partial(_softmax_with, lambda logits, words: logits.max(1, keepdims=True)),
                    says="Before exp you subtract the largest logit of all rows, including the "
                    "padding. If that is far above those of the words, every exp is 0.",
                ),
                "words-written-in": Mistake(
                    *(partial(_first_words_only, most) for most in (17, 24)),
                    *(
                        lambda hidden, padded, words, most=most: _probabilities(
                            hidden, padded, most
                        )
                        for most in (17, 24)
                    ),
                    says="Is the number of words, such as 17, written into the function? It is the "
                    "argument `words`.",
                ),
                "local-largest": Mistake(
                    _with_own_largest,
                    says="Each device subtracts its own largest logit, so the exponentials have "
                    "different scales when they are added up. Subtract the largest of all "
                    "devices.",
                ),
                "one-sum-for-all": Mistake(
                    _with_one_sum,
                    says="The exponentials of all examples are added up. Each example has a sum of "
                    "its own.",
                ),
                "minus-a-number": Mistake(
                    *(partial(_masked_by, -(10.0**digits)) for digits in range(2, 8)),
                    says="The padding has a finite logit, such as -1,000. Some words have smaller "
                    "ones.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "probabilities",
            COLUMNS[0],
            tuple((examples, rows) for _, rows, _, examples, *_ in VOCABULARIES),
            elsewhere=(COLUMNS[1], COLUMNS[0]),
        ),
        CommunicatesAtMost(
            "probabilities",
            tuple(
                (Budget("all-reduce", ("x",), 2 * 4 * examples),)
                for _, _, _, examples, *_ in VOCABULARIES
            ),
        ),
    ),
    about=(CommunicatesAtMost,),
    hints=(
        "17 is not a multiple of 8, and 24 is. Pad the table with rows of zeros (jnp.pad), and "
        "then shard it over x. In Python, -17 % 8 is 7.",
        "Whatever a row of padding holds, it has a logit, and gets a share of the probability. "
        "Which logit has no share at all?",
        "jnp.where(jnp.arange(rows) < words, logits, -jnp.inf), before the softmax.",
    ),
    diagnoses={
        "probabilities: too-many-bytes": "A softmax needs two numbers for each example, its "
        "largest logit and its sum. Does each device reduce its own words to one number before "
        "the devices combine theirs? And is a maximum computed that jax.nn.softmax subtracts "
        "anyway?",
        "replicated": "The result is replicated. Do you ask for a layout that is sharded over x?",
        "slice-at-run-time": "You need no slice: the result has a column for each row of padded.",
        "not-finite": "There are four places to look. Does exp overflow because the row's largest "
        "logit is not subtracted? Is a row all 0 because more than that is subtracted, such as a "
        "logit of the padding? On a device with nothing but padding, the largest is minus "
        "infinity: do you take it over all devices? And the sum of exp is 0 there: do you add it "
        "up over all devices?",
        "collective-permute": "Rows have changed their device. Did you shard them before you "
        "padded? Then the boundaries of the blocks have to move.",
        "all-gather": "Something is gathered that can stay sharded. Do you ask for a replicated "
        "array, or does a constraint not divide?",
        "spread: all-to-all": "The rows get a new layout. Do you add the rows of zeros by a "
        "concatenation? The compiler may shard its parts before it joins them. With jnp.pad of a "
        "replicated table, each device just keeps its own rows.",
        "does-not-divide": "shard_map and the shardings of jit refuse sizes that do not divide. "
        "Pad first.",
        "spread: shape": "Expected: the next multiple of 8, for every number of words and of "
        "devices. 24 words need no padding.",
        "probabilities: shape": "Expected: a row for each example, and a column for each row of "
        "padded.",
    },
)

STEPS: Final = {
    # the request of each step, whether it takes effect, and the diagnosis of the wrong answer
    "constrain_explicit": ("with_sharding_constraint to P(), Explicit axes", False, "wrong-verb"),
    "constrain_auto": ("with_sharding_constraint to P(), Auto axes", True, "right-verb"),
    "reshard_auto": ("jax.reshard to P(), Auto axes", False, "wrong-verb"),
    "reshard_explicit": ("jax.reshard to P(), Explicit axes", True, "right-verb"),
    "put_auto": ("jax.device_put to P('y', 'x') in jit, Auto axes", False, "put-in-jit"),
    "put_explicit": ("jax.device_put to P('y', 'x') in jit, Explicit axes", True, "put-explicit"),
    "uneven": ("a constraint of 17 rows to P('x') on 8 devices", False, "uneven"),
}

REQUESTS: Final = Exercise(
    id="9.5",
    title="Which requests take effect?",
    afterwards="It costs nothing to look: jax.typeof in Explicit mode, or an array's sharding "
    "after the program ran, shows whether you got what you asked for.",
    requirements=(
        *(
            Predicts(
                "obeyed", step, f"True or False: {what} takes effect", right, {name: not right}
            )
            for step, (what, right, name) in STEPS.items()
        ),
        *(
            Predicts(
                "still_cut",
                step,
                f"True or False: after a constraint to {spec}, dimension 0 is still sharded over x",
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
        "Look at the result: show(before=argument, after=jax.jit(step)(argument)).",
        "Each mode has its own verb. For P(), which names no axis, the verb of the other mode "
        "raises no error.",
        "None in a spec is a request: do not shard this dimension. P.UNCONSTRAINED requests "
        "nothing.",
    ),
    diagnoses={
        "wrong-verb": "This is the verb of the other mode. For P(), which names no axis, it "
        "raises no error and does nothing.",
        "right-verb": "This is the verb for this mode, and it replicates the array.",
        "put-in-jit": "Inside jit, with Auto axes, device_put is ignored.",
        "put-explicit": "With Explicit axes the layout is part of the type, and device_put "
        "changes the type, inside jit, too.",
        "uneven": "The result is replicated: an array whose last block is shorter cannot leave a "
        "program.",
        "none-is-a-wish": "None asks for dimension 0 to be unsharded. So the devices along x "
        "gather it.",
        "open-is-open": "An unconstrained dimension stays as it is, and dimension 1 is sharded "
        "over y already.",
    },
)

TALL: Final = (
    (8, (64, 32), (33, 39)),  # neither the first row of a block nor the last
    (4, (20, 12), (19, 20)),
    (4, (4, 8), (3, 4)),
    (8, (16, 4), (1, 2)),  # row 1 is on device 0, which distinguishes zeros from a forgotten offset
)
"""The number of devices, the shape of x, and the range of the row's index."""


def _blocks(x: Any) -> Any:
    """Return a list of the blocks of all devices."""
    return np.split(x, {shape[0]: n for n, shape, _ in TALL}[len(x)])


def _begins(x: Any, i: Any, *, also_first: bool = False) -> bool:
    """Check whether row i is the first of a block. Row 0 counts only if `also_first`."""
    return bool(i % len(_blocks(x)[0]) == 0 and (i > 0 or also_first))


def _shifted(x: Any) -> Any:
    return np.concatenate([np.zeros_like(x[:1]), x[:-1]])


def _begun_with(x: Any, rows: Any) -> Any:
    """Shift each block by itself, and put one of these rows in front of each."""
    shifted = [np.concatenate([r, b[:-1]]) for r, b in zip(rows, _blocks(x), strict=True)]
    return np.concatenate(shifted)


def _from_owner_by_devices(x: Any, i: Any) -> Any:
    """Return the row that is found by dividing i by the number of devices."""
    blocks = _blocks(x)
    owner = int(i) // len(blocks)
    return blocks[owner][i % len(blocks[0])] if owner < len(blocks) else np.zeros_like(x[0])


def _row_of_owner(x: Any, i: Any, at: Callable[[int, int], int]) -> Any:
    """Return a row of the block that has row i; its place follows from i and the block's size."""
    size = len(_blocks(x)[0])
    return _blocks(x)[int(i) // size][at(int(i), size)]


def _with_before(x: Any, edge: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
    """Return each block with the edge of the block before it (zeros for the first one)."""
    blocks = _blocks(x)
    edges = [edge(block) for block in blocks]
    return [*zip([0 * edges[0], *edges[:-1]], blocks, strict=True)]


INDEXING: Final = Exercise(
    id="9.6",
    title="One row, and a shift by one row",
    afterwards="Lookups in an embedding table that is sharded over its rows work like this: each "
    "device looks for the row among its own, contributes zeros if it does not have it, and a sum "
    "gives the row to all.",
    requirements=(
        Computes(
            "row",
            "row(x, i) must be x[i].",
            lambda x, i: x[i],
            tuple(
                (
                    # on four devices, a maximum over -1,000 and the like is not one over -inf
                    _argument(s, n, "x", scale=1e6 if n == 4 else 1.0),
                    _argument((), n, dtype="int32", scale=end - least, shift=least),
                )
                for n, s, (least, end) in TALL
            ),
            {
                "mean-for-sum": Mistake(
                    lambda x, i: x[i] / np.float32(len(_blocks(x))),
                    says="The result is too small by the number of devices, as with a mean: all "
                    "devices but one contribute zeros.",
                ),
                "rows-joined": Mistake(
                    lambda x, i: np.concatenate(
                        [x[i] * np.float32(i // len(b) == k) for k, b in enumerate(_blocks(x))]
                    ),
                    says="One device returns x[i] and the others return zeros, and out_specs "
                    "concatenates them. Expected: only x[i], on every device.",
                ),
                "nothing-below-zero": Mistake(
                    lambda x, i: np.maximum(x[i], 0),
                    *(
                        lambda x, i, fill=-(10.0**digits): np.maximum(x[i], np.float32(fill))
                        for digits in range(7)
                    ),
                    says="All smaller numbers have become 0 or another number, as with a maximum "
                    "of the row and this number.",
                ),
                "a-row-of-each": Mistake(
                    lambda x, i: sum(b[i % len(b)] for b in _blocks(x)),
                    says="Each device adds a row of its own. A device that does not have row i "
                    "must contribute zeros.",
                ),
                "offset-forgotten": Mistake(
                    lambda x, i: sum(b[i] if i < len(b) else 0 * b[0] for b in _blocks(x)),
                    says="Row i is right if device 0 has it, and zero otherwise. Do all devices "
                    "number their rows from 0? The rows of device 1 come after those of device 0. "
                    "What must be subtracted from i there?",
                ),
                "next-row": Mistake(
                    lambda x, i: x[min(i + 1, len(x) - 1)],
                    lambda x, i: np.roll(x, -1, axis=0)[i],
                    lambda x, i: np.concatenate([x[1:], 0 * x[:1]])[i],
                    lambda x, i: np.concatenate([x[1:], np.full_like(x[:1], np.nan)])[i],
                    says="This is row i + 1.",
                ),
                "row-before": Mistake(
                    lambda x, i: x[i - 1], lambda x, i: _shifted(x)[i], says="This is row i - 1."
                ),
                "owner-by-devices": Mistake(
                    _from_owner_by_devices,
                    says="You divide i by the number of devices to find the device with row i. "
                    "Divide by the rows of a block.",
                ),
                "row-of-the-block": Mistake(
                    lambda x, i: _blocks(x)[0][i % len(_blocks(x)[0])],
                    says="This is a row of device 0, at the position of row i in its block. Which "
                    "device has row i?",
                ),
                "another-row-of-the-block": Mistake(
                    *(
                        lambda x, i, at=at: _row_of_owner(x, i, at)
                        for at in (
                            lambda i, size: min(i, size - 1),
                            lambda i, size: i % size - 1,
                            lambda i, size: (i + 1) % size,
                            lambda i, size: size - 1 - i % size,
                            lambda i, size: 0,
                        )
                    ),
                    says="This is a row of the right device, but another one. Which row of its "
                    "block is row i?",
                ),
                "a-row-too-many": Mistake(
                    lambda x, i: x[i] + (x[i - 1] if _begins(x, i) else 0),
                    says="If row i is the first of its block, the last row of the block before is "
                    "added to it. Where does a block end?",
                ),
                "last-row-lost": Mistake(
                    lambda x, i: x[i] * np.float32(i < len(x) - 1),
                    says="The last row of x comes back as zeros.",
                ),
                "first-row-lost": Mistake(
                    lambda x, i: x[i] * np.float32(not _begins(x, i, also_first=True)),
                    says="The first row of each block comes back as zeros. Where does a block "
                    "begin?",
                ),
            },
            under_mesh=True,
        ),
        CommunicatesAtMost(
            "row", tuple((Budget("all-reduce", ("x",), 4 * s[1]),) for _, s, _ in TALL)
        ),
        Computes(
            "shifted",
            "shifted(x) must have row i - 1 of x as its row i, and zeros as its row 0.",
            _shifted,
            tuple((_argument(s, n, "x"),) for n, s, _ in TALL),
            {
                "goes-round": Mistake(
                    lambda x: np.roll(x, 1, 0),
                    says="The last row has wrapped around to row 0. Expected: zeros there.",
                ),
                "within-blocks": Mistake(
                    lambda x: np.concatenate([*map(_shifted, _blocks(x))]),
                    says="Each block is shifted by itself. Its first row must be the last row of "
                    "the block before.",
                ),
                "by-a-block": Mistake(
                    lambda x: np.concatenate([0 * _blocks(x)[0], *_blocks(x)[:-1]]),
                    says="All rows have moved by a whole block. Expected: by one row.",
                ),
                "columns-shifted": Mistake(
                    lambda x: np.pad(x, ((0, 0), (1, 0)))[:, :-1],
                    lambda x: np.roll(x, 1, axis=1),
                    lambda x: np.concatenate(
                        [
                            np.concatenate([c, b[:, :-1]], axis=1)
                            for c, b in _with_before(x, lambda block: block[:, -1:])
                        ]
                    ),
                    says="The columns are shifted. Expected: the rows.",
                ),
                "first-of-each-dropped": Mistake(
                    lambda x: np.concatenate(
                        [
                            np.concatenate([r, b[1:]])
                            for r, b in _with_before(x, lambda block: block[-1:])
                        ]
                    ),
                    says="The first row of each block is dropped, and the others stay where they "
                    "are. Which row must leave a block?",
                ),
                "put-at-the-end": Mistake(
                    lambda x: np.concatenate(
                        [
                            np.concatenate([b[1:], r])
                            for r, b in _with_before(x, lambda block: block[-1:])
                        ]
                    ),
                    says="Each block has moved up, and ends with the last row of the block before. "
                    "This row comes first.",
                ),
                "wrong-row-zeros": Mistake(
                    lambda x: np.concatenate([x[-1:], x[:-2], 0 * x[:1]]),
                    says="The last row is set to zero. Expected: zeros in row 0.",
                ),
                "first-row-twice": Mistake(
                    lambda x: np.concatenate([x[:1], x[:-1]]),
                    says="Row 0 is still there. Expected: zeros in its place.",
                ),
                "first-row-only": Mistake(
                    lambda x: np.concatenate([0 * x[:1], x[1:]]),
                    says="Row 0 is set to zero, but no row has moved.",
                ),
                "two-rows-further": Mistake(
                    lambda x: _shifted(_shifted(x)),
                    says="All rows have moved by two. Expected: by one.",
                ),
                "other-way": Mistake(
                    lambda x: np.concatenate([x[1:], np.zeros_like(x[:1])]),
                    says="The rows have moved up. Expected: down, so that row 0 of x becomes row "
                    "1.",
                ),
                "from-the-block-after": Mistake(
                    lambda x: _begun_with(
                        x, [*(b[-1:] for b in _blocks(x)[1:]), np.zeros_like(x[:1])]
                    ),
                    says="Each block begins with the last row of the block after it. Expected: of "
                    "the block before. Are the pairs of your ppermute (to, from)? They must be "
                    "(from, to).",
                ),
                "first-row-sent": Mistake(
                    lambda x: _begun_with(
                        x, [np.zeros_like(x[:1]), *(b[:1] for b in _blocks(x)[:-1])]
                    ),
                    says="Each block begins with the first row of the block before. Which of its "
                    "rows must cross?",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike(
            "shifted", ROWS[0], tuple(s for _, s, _ in TALL), elsewhere=(ROWS[1], ROWS[1], ROWS[0])
        ),
        CommunicatesAtMost(
            "shifted",
            tuple((Budget("collective-permute", ("x",), 4 * s[1]),) for _, s, _ in TALL),
        ),
    ),
    about=(CommunicatesAtMost,),
    hints=(
        "x[i], with an i that is known only at run time, gathers all of x. What does each device "
        "know about row i by itself?",
        "Multiply each row by 0 or 1, and add them up: jnp.where(jnp.arange(len(x)) == i, …), and "
        "a sum over the rows. (jnp.take can do this, too.) For the shift: all rows but one stay "
        "on their device.",
        "jnp.roll moves only what crosses a boundary of a block. Then set row 0 to zero, with a "
        "mask or with .at.",
    ),
    diagnoses={
        "all-gather": "Nothing needs to be gathered. Do you gather many rows to look up one of "
        "them, or to move them by one?",
        "row: too-many-bytes": "One row is enough. What does each device know about row i before "
        "they communicate?",
        "shifted: too-many-bytes": "One row of each block goes to another device. Do you send the "
        "rest of the block, too?",
        "all-to-all": "The rows get a new layout. Do you concatenate parts with different layouts?",
        "collective-permute": "You send rows on, but only row i is needed.",
        "reduce-scatter": "The sum is sharded. Do you ask for the row to be sharded over x? "
        "Expected: all of it on every device.",
        "row: nothing-but-zeros": "Does any device find row i, and do the others get it?",
        "row: values": "Which device has row i, and which row of its block is it? Does any other "
        "device add something to it?",
    },
)

VOLUMES: Final = (((4, 2), (16, 16, 16)), ((2, 4), (24, 16, 8)))
"""The shape of a mesh, and the shape of x."""


def _axes_exchanged(x: Any) -> Any:
    """Return x as if the axes were moved by explicit all-to-alls in the wrong order, y before x."""
    n, m = next(mesh for mesh, shape in VOLUMES if shape == x.shape)
    a, b, c = x.shape
    return x.reshape(a, m, n, b // 8, c).swapaxes(1, 2).reshape(a, b, c)


def _sharded_further(x: Any) -> Any:
    """Return x as if an all-to-all sharded dimension 2 further over x, instead of unsharding it."""
    (n, _) = next(mesh for mesh, shape in VOLUMES if shape == x.shape)
    a, b, c = x.shape
    return x.reshape(a, b, n, n, -1).transpose(0, 3, 2, 1, 4).reshape(a, n * n * b, c // n**2)


PATHS: Final = Exercise(
    id="9.7",
    title="When two steps are cheaper than one",
    afterwards="If XLA finds no direct way from one layout to another, it replicates the whole "
    "array first. This is what its warning about an involuntary full rematerialization means.",
    requirements=(
        Computes(
            "rearranged",
            "rearranged(x) must have the values of x.",
            lambda x: x,
            tuple(
                (Argument(shape, (("x", n), ("y", m)), ("y", None, "x"), mode="auto"),)
                for (n, m), shape in VOLUMES
            ),
            {
                "axes-exchanged": Mistake(
                    _axes_exchanged,
                    says="All blocks are there, but in other places. If you use explicit "
                    "all-to-alls, the order in which you move the axes decides their order in the "
                    "result.",
                ),
                "transposed-by-hand": Mistake(
                    lambda x: x.swapaxes(1, 2),
                    says="x is transposed. Expected: the values of x, in another layout.",
                ),
                "cut-once-more": Mistake(
                    _sharded_further,
                    says="Dimension 2 is sharded further over x, and dimension 1 has become "
                    "longer. In an all_to_all, split_axis is the dimension that becomes sharded, "
                    "and concat_axis the one that is put together.",
                ),
            },
            under_mesh=True,
        ),
        PlacedLike("rearranged", ROWS[0], tuple(shape for _, shape in VOLUMES)),
        CommunicatesAtMost(
            "rearranged",
            tuple((Budget("all-to-all", bytes=2 * 4 * math.prod(s) // 8),) for _, s in VOLUMES),
        ),
    ),
    about=(CommunicatesAtMost,),
    hints=(
        "An all-to-all moves one axis from one dimension to another. How many axes have to move "
        "here?",
        "First constrain x to a layout in between, and then to P(None, ('x', 'y'), None).",
        "In between, the array must have eight blocks, or some device holds more than its share. "
        "Move x or y, and leave the other where it is.",
    ),
    diagnoses={
        "all-gather": "Somewhere on the way devices gather the blocks of others. Is there a "
        "layout in between? (If not, XLA warns about an involuntary full rematerialization.) Does "
        "the array have eight blocks there, and does each step move an axis to one other "
        "dimension?",
        "too-many-bytes": "Two steps are enough, and each moves as much as a device holds. Does a "
        "step move both axes, or do you move an axis twice?",
        "collective-permute": "Blocks change places. Do the axes arrive in another order than "
        "they should, or do you name a mesh that is not the current one?",
        "nothing-moved": "The function asked for no layout, or its request had no effect.",
        "transformed": "Do you do anything to x besides changing its layout?",
        "device-order": "In which order do x and y shard dimension 1, and in which order should "
        "they?",
        "grid": "Dimension 1 must be sharded over both x and y.",
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


def _blocks_of(described: Described, shape: tuple[int, ...]) -> list[tuple[int, list[slice]]]:
    """Return the id and the block of each device, in the mesh's order."""
    placed = _sharding(described).devices_indices_map(shape)
    ids = np.array(described[0]).ravel().tolist()
    blocks = {
        device.id: [slice(*p.indices(size)) for p, size in zip(placed[device], shape, strict=True)]
        for device in jax.devices()
        if device in placed
    }
    return [(i, blocks[i]) for i in ids]


def _agree(one: Described, other: Described, shape: tuple[int, ...]) -> bool:
    """Check whether the devices of `one` have the same blocks in `other`."""
    there = dict(_blocks_of(other, shape))
    return all(there.get(i) == block for i, block in _blocks_of(one, shape))


def _equivalent_or_replicated(one: Described, other: Described, shape: tuple[int, ...]) -> bool:
    """Accept all pairs of replicated layouts, and ask JAX about the others: a mistake."""
    a, b = _sharding(one), _sharding(other)
    both = a.is_fully_replicated and b.is_fully_replicated
    return both or a.is_equivalent_to(b, len(shape))


def _filled(spec: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return a spec with an entry for each dimension."""
    return (*spec, *[None] * (len(shape) - len(spec)))


def _pairs(generator: np.random.Generator) -> list[tuple[Described, Described, tuple[int, ...]]]:
    """Return pairs of shardings that only a comparison of blocks gets all right."""
    order = generator.permutation(8)
    while (order == np.arange(8)).any() or (order[:4] < 4).all():
        order = generator.permutation(8)
    plain, mixed = np.arange(8).tolist(), order.tolist()
    grid, turned = np.reshape(order, (4, 2)).tolist(), np.reshape(order, (4, 2)).T.tolist()
    wide = np.reshape(order, (2, 4)).tolist()
    pairs: list[tuple[int, Described, Described]] = [
        # written in the same way, in one and in two dimensions
        (1, (mixed, ("x",), ("x",)), (mixed, ("x",), ("x",))),
        (2, (grid, ("x", "y"), ("y", "x")), (grid, ("x", "y"), ("y", "x"))),
        # the same spec, on devices in another order
        (1, (plain, ("x",), ("x",)), (mixed, ("x",), ("x",))),
        (3, (plain, ("x",), (None, "x")), (mixed, ("x",), (None, "x"))),
        # the same on device 0, but not on the others
        (2, (plain, ("x",), ("x",)), ([0, *plain[:0:-1]], ("x",), ("x",))),
        # different only on two devices, one of which is device 0
        (2, (plain, ("x",), ("x",)), ([1, 0, *plain[2:]], ("x",), ("x",))),
        # other names
        (2, (mixed, ("x",), (None, "x")), (mixed, ("i",), (None, "i"))),
        # None left out
        (3, (grid, ("x", "y"), ("x",)), (grid, ("x", "y"), ("x", None, None))),
        # the mesh and the spec transposed
        (3, (grid, ("x", "y"), ("x", None, "y")), (turned, ("x", "y"), ("y", None, "x"))),
        # only the mesh transposed
        (2, (grid, ("x", "y"), ("x", "y")), (turned, ("x", "y"), ("x", "y"))),
        # one axis, and two axes of the same devices
        (1, (mixed, ("x",), ("x",)), (wide, ("a", "b"), (("a", "b"),))),
        (4, (mixed, ("x",), (None, "x")), (wide, ("a", "b"), (None, ("b", "a")))),
        # replicated over all devices, in different orders
        (2, (plain, ("x",), ()), (mixed, ("x",), (None, None))),
        # replicated over all devices, and over fewer
        (2, (plain[:4], ("x",), ()), (plain, ("x",), ())),
        (3, (plain, ("x",), ()), (plain[:4], ("x",), ())),
        # different only in the last dimension, and in the last two
        (3, (grid, ("x", "y"), ("x", None, "y")), (grid, ("x", "y"), ("x", None, None))),
        (4, (mixed, ("x",), (None, None, None, "x")), (mixed, ("x",), (None, None, "x", None))),
        # replicated over an axis, and not
        (2, (grid, ("x", "y"), ("x", None)), (grid, ("x", "y"), ("x", "y"))),
    ]
    return [
        (*pairs[i][1:], tuple(8 * int(size) for size in generator.integers(1, 4, pairs[i][0])))
        for i in generator.permutation(len(pairs))
    ]


SAME: Final = Exercise(
    id="9.8",
    title="The same layout?",
    afterwards="JAX's own one.is_equivalent_to(other, ndim) is similar: it ignores the names of "
    "axes, but wants the devices in the same order. Yours looks at the blocks.",
    requirements=(
        Returns(
            "same_layout",
            "same_layout(one, other, shape) must return True or False: whether both put the same "
            "blocks of an array of that shape on the same devices.",
            cases=_pairs,
            reference=_same,
            mistakes={
                "specs": Mistake(
                    lambda one, other, shape: one[2] == other[2],
                    lambda one, other, shape: _filled(one[2], shape) == _filled(other[2], shape),
                    says="It looks as if you compare specs. The same spec on another mesh is "
                    "another layout, and different specs may be the same one.",
                ),
                "meshes": Mistake(
                    lambda one, other, shape: one[0] == other[0],
                    lambda one, other, shape: one[:2] == other[:2],
                    lambda one, other, shape: (
                        np.ravel(one[0]).tolist() == np.ravel(other[0]).tolist()
                    ),
                    says="This is what a comparison of the meshes gives. The spec decides which "
                    "block each device has, and another mesh may put the same blocks on the same "
                    "devices.",
                ),
                "mesh-shapes": Mistake(
                    lambda one, other, shape: (
                        dict(_sharding(one).mesh.shape) == dict(_sharding(other).mesh.shape)
                        and _sharding(one).shard_shape(shape) == _sharding(other).shard_shape(shape)
                    ),
                    says="This is what a comparison of the shapes of meshes and blocks gives. "
                    "Which device has which block?",
                ),
                "order-and-shapes": Mistake(
                    lambda one, other, shape: (
                        np.ravel(one[0]).tolist() == np.ravel(other[0]).tolist()
                        and _sharding(one).shard_shape(shape) == _sharding(other).shard_shape(shape)
                    ),
                    says="This is what a comparison of the meshes' devices, in order, and of the "
                    "blocks' shapes gives. Two meshes in different orders may put the same blocks "
                    "on the same devices.",
                ),
                "first-two-dimensions": Mistake(
                    lambda one, other, shape: (
                        {i: block[:2] for i, block in _blocks_of(one, shape)}
                        == {i: block[:2] for i, block in _blocks_of(other, shape)}
                    ),
                    says="This is what a comparison of the first two dimensions of the blocks "
                    "gives. An array may have up to four.",
                ),
                "any-device": Mistake(
                    lambda one, other, shape: any(
                        dict(_blocks_of(other, shape)).get(i) == block
                        for i, block in _blocks_of(one, shape)
                    ),
                    says="This is true if any device has the same block in both. All devices must.",
                ),
                "last-dimension": Mistake(
                    lambda one, other, shape: (
                        {i: block[-1] for i, block in _blocks_of(one, shape)}
                        == {i: block[-1] for i, block in _blocks_of(other, shape)}
                    ),
                    says="This is what a comparison of the slices of the last dimension gives. The "
                    "blocks may differ in the other dimensions.",
                ),
                "equal": Mistake(
                    lambda one, other, shape: _sharding(one) == _sharding(other),
                    says="This is what == gives, on shardings or on their parts. It wants the same "
                    "mesh, the same names and the same spelling of the spec.",
                ),
                "equivalent": Mistake(
                    lambda one, other, shape: _sharding(one).is_equivalent_to(
                        _sharding(other), len(shape)
                    ),
                    says="This is what is_equivalent_to gives. It ignores names, but wants the "
                    "devices in the same order, even if the blocks are on the same devices.",
                ),
                "equivalent-or-replicated": Mistake(
                    _equivalent_or_replicated,
                    lambda one, other, shape: (
                        _equivalent_or_replicated(one, other, shape)
                        and _sharding(one).device_set == _sharding(other).device_set
                    ),
                    says="This is what is_equivalent_to gives, with a case of its own for "
                    "replicated arrays. is_equivalent_to wants the devices in the same order, even "
                    "if the blocks are on the same devices.",
                ),
                "block-shapes": Mistake(
                    lambda one, other, shape: (
                        _sharding(one).shard_shape(shape) == _sharding(other).shard_shape(shape)
                    ),
                    says="This is what a comparison of the set of blocks, or of their shapes, "
                    "gives. The blocks may be on other devices.",
                ),
                "device-sets": Mistake(
                    lambda one, other, shape: (
                        _sharding(one).device_set == _sharding(other).device_set
                    ),
                    says="This is what a comparison of the sets of devices gives. They may hold "
                    "other blocks.",
                ),
                "order-alone": Mistake(
                    lambda one, other, shape: (
                        [block for _, block in _blocks_of(one, shape)]
                        == [block for _, block in _blocks_of(other, shape)]
                    ),
                    lambda one, other, shape: all(
                        a == b
                        for (_, a), (_, b) in zip(
                            _blocks_of(one, shape), _blocks_of(other, shape), strict=False
                        )
                    ),
                    says="This is what a comparison of the blocks in the order of each mesh gives. "
                    "Compare them device by device.",
                ),
                "common-devices": Mistake(
                    lambda one, other, shape: all(
                        block == dict(_blocks_of(other, shape)).get(i, block)
                        for i, block in _blocks_of(one, shape)
                    ),
                    says="This looks only at devices that both shardings have. A layout on four "
                    "devices is not one on eight.",
                ),
                "devices-of-one": Mistake(
                    _agree,
                    says="This looks only at the devices of the first sharding. The other may have "
                    "more, and a layout on four devices is not one on eight.",
                ),
                "devices-of-the-other": Mistake(
                    lambda one, other, shape: _agree(other, one, shape),
                    says="This looks only at the devices of the other sharding. The first may have "
                    "more, and a layout on eight devices is not one on four.",
                ),
                "first-dimension": Mistake(
                    lambda one, other, shape: (
                        {i: block[0] for i, block in _blocks_of(one, shape)}
                        == {i: block[0] for i, block in _blocks_of(other, shape)}
                    ),
                    says="This is what a comparison of the slices of dimension 0 gives. The blocks "
                    "may differ in the other dimensions.",
                ),
                "filled-up": Mistake(
                    lambda one, other, shape: (
                        (*one[:2], _filled(one[2], shape)) == (*other[:2], _filled(other[2], shape))
                    ),
                    says="This is what a comparison of meshes, axis names and specs gives, with "
                    "the specs filled up with None. Another mesh with other names may put the same "
                    "blocks on the same devices.",
                ),
                "blocks-of-zeros": Mistake(
                    lambda one, other, shape: (
                        dict.fromkeys(np.ravel(one[0]).tolist(), _sharding(one).shard_shape(shape))
                        == dict.fromkeys(
                            np.ravel(other[0]).tolist(), _sharding(other).shard_shape(shape)
                        )
                    ),
                    says="This is what a comparison of the set of blocks gives, or one of the "
                    "devices and the sizes of their blocks. Which part of the array does each "
                    "device hold?",
                ),
                "one-device": Mistake(
                    lambda one, other, shape: (
                        dict(_blocks_of(one, shape)).get(0) == dict(_blocks_of(other, shape)).get(0)
                    ),
                    says="It looks as if you compare only device 0. The others may hold other "
                    "blocks.",
                ),
                "the-opposite": Mistake(
                    lambda one, other, shape: not _same(one, other, shape),
                    says="Every answer is the opposite of what it should be.",
                ),
                "always": Mistake(
                    lambda one, other, shape: True, says="The answer is always True."
                ),
                "never": Mistake(
                    lambda one, other, shape: False, says="The answer is always False."
                ),
            },
        ),
    ),
    hints=(
        "A spec says which axis shards which dimension. It does not say which devices the mesh "
        "has, or in what order.",
        "A sharding knows which part of an array each device holds.",
        "sharding.devices_indices_map(shape) is a dictionary from devices to slices. You can "
        "compare two of them with ==.",
    ),
    diagnoses={},
)

EXERCISES: Final[tuple[Exercise, ...]] = (
    AUDIT, INITIALISED, NOISE, UNEVEN, REQUESTS, INDEXING, PATHS, SAME,
)  # fmt: skip
