"""Notebook 09: what is not as it seems.

A note for maintainers: nearly all of this depends on what JAX and XLA do today, and some of it is
known to be moving. `tests/test_moving.py` names, for each, the exercise to update when it changes.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax
import numpy as np
from jax.sharding import Mesh

from autograder.judge import (
    AnyOf,
    Budget,
    CommunicatesAtMost,
    Computes,
    Exercise,
    FitsIn,
    PlacedLike,
    Predicts,
    Returns,
)
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
    afterwards="The flag is jax_threefry_partitionable, and it is on by default since JAX 0.5: the "
    "same key gave other numbers before.",
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
                        "only-permutes": 5120,
                        "only-gathers": 16384,
                        "on-all-devices": 8 * 21504,
                        "an-eighth": 21504 // 8,
                        "own-part": 2048,
                        "sent": 19456,
                        "counted": AnyOf((2, 6)),
                        "memory": 21576,
                        "flag-forgotten": 0,
                    },
                ),
                ("rows, flag on", 0, {"still-moves": AnyOf((21504, 19456, 16384, 5120, 2048))}),
                ("columns, flag off", 0, {"any-layout": AnyOf((21504, 19456, 16384, 5120, 2048))}),
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
        "other-prediction": "Measure it with communication, while the flag is set as the cell "
        "says. Expected the sum over all collectives.",
        "only-permutes": "So much is in the permutations: there are all-gathers besides.",
        "only-gathers": "So much is in the all-gathers (and in the array): there are permutations "
        "besides.",
        "on-all-devices": "That is what all devices move together. On each it is an eighth.",
        "an-eighth": "The report's bytes are those of each device already, so do not divide them.",
        "own-part": "That is the size of a device's block of the array. To draw it takes more than "
        "that to be moved: what does the report say?",
        "sent": "That is what a device puts on its wires, the report's `.sent`; expected its "
        "`.bytes`.",
        "counted": "Is that the number of collectives, or of their kinds? Expected the bytes that "
        "they move.",
        "memory": "That is the memory that a device needs, and not what moves.",
        "flag-forgotten": "That is so with the flag on, as it is where nobody sets it: is it off "
        "while this is measured?",
        "still-moves": "With the flag on each device draws its own numbers, and no others.",
        "any-layout": "With the flag off it depends on the layout: cut into columns, each device "
        "works out more than its part, and nothing moves.",
        "flag-harmless": "The two ways of drawing give other numbers from the same key.",
        "layout-matters": "The numbers are a function of key and shape. The layout changes what "
        "drawing them costs, not what they are.",
    },
)

SHAPE: Final = (64, 512)


def _drawn(
    seed: Any,
    draw: Callable[..., Any] = jax.random.normal,
    key: Callable[[Any], Any] = lambda key: key,
) -> Any:
    return np.asarray(draw(key(jax.random.key(seed)), SHAPE) / 8)


def _drawn_in_parts(n: int, key: Callable[[Any, int, int], Any], seed: Any) -> Any:
    """What comes of each of n devices drawing its own columns, from the key of its number."""
    shape = SHAPE[0], SHAPE[1] // n
    parts = [np.asarray(jax.random.normal(key(seed, i, n), shape) / 8) for i in range(n)]
    return np.concatenate(parts, axis=1)


INITIALISED: Final = Exercise(
    id="9.2",
    title="Born in place",
    afterwards="Large models are initialised like this, so that no device ever holds a whole "
    "matrix; and checkpoints are restored in the same way, block by block.",
    requirements=(
        Computes(
            "initialise",
            "initialise(seed) must be jax.random.normal(jax.random.key(seed), (64, 512)) / 8.",
            _drawn,
            tuple((_seed(n),) for n in LINES),
            {
                "uniform": lambda seed: _drawn(seed, draw=jax.random.uniform),
                "drawn-transposed": lambda seed: np.asarray(
                    jax.random.normal(jax.random.key(seed), SHAPE[::-1]).T / 8
                ),
                "another-key": AnyOf(
                    (
                        lambda seed: _drawn(seed, key=lambda k: jax.random.split(k)[0]),
                        lambda seed: _drawn(seed, key=lambda k: jax.random.split(k)[1]),
                        lambda seed: _drawn(seed, key=lambda k: jax.random.fold_in(k, 0)),
                    )
                ),
                "a-key-for-each-part": AnyOf(
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
                "same-part-everywhere": AnyOf(
                    tuple(
                        partial(_drawn_in_parts, n, lambda seed, i, n: jax.random.key(seed))
                        for n in LINES
                    )
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
        "Say where the array is to be in the program that makes it, and each device makes its "
        "part.",
        "Two ways: jax.jit(init, out_shardings=P(…)), called in your function; or "
        "with_sharding_constraint on what is drawn.",
        "Draw the whole shape, from the one key: the compiler cuts up the drawing.",
    ),
    diagnoses={
        "too-much-memory": "That is more than a device's part, and what making it takes. Is all of "
        "it made on each device, and cut then?",
        "replicated": "All of it is on every device in the end. Does the program that draws the "
        "numbers say where they are to be? (Within a program, with Auto axes, jax.device_put does "
        "nothing.)",
        "values": "The same key and the same shape give the same numbers, however they are laid "
        "out. Parts drawn from keys of their own are other numbers.",
        "uniform": "These are numbers of jax.random.uniform, and those of jax.random.normal are "
        "asked for.",
        "drawn-transposed": "The array is drawn with its shape the other way round, and then "
        "transposed. The same key gives other numbers for another shape.",
        "another-key": "The numbers are drawn from a key that was split or folded. The key itself "
        "is asked for, jax.random.key(seed).",
        "a-key-for-each-part": "Each device draws its part from a key of its own. That gives other "
        "numbers than drawing the whole shape from the one key, and they change with the number "
        "of devices.",
        "same-part-everywhere": "Every device draws the same part, from the same key: the columns "
        "repeat. Draw the whole shape, and say how it is to be laid out.",
        "transposed": "Cut the columns.",
    },
)

NOISES: Final = ((8, 8, 4), (4, 5, 6))
"""The devices, the rows of one device, and the columns."""


def _own_key(seed: Any, i: int) -> Any:
    return jax.random.fold_in(jax.random.key(seed), i)


def _noise(
    seed: Any, x: Any, key: Any = _own_key, draw: Any = jax.random.normal, rows: int = 0
) -> Any:
    """For each device's rows the numbers of a key of their own, from which so many are drawn."""
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
    """Each device draws noise of the shape of x from its own key, and keeps its own rows of it."""
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
    title="Noise of one's own",
    afterwards="This noise depends on how many devices there are. Where results must not change "
    "with the mesh, fold in the number of the row instead.",
    requirements=(
        Computes(
            "noisy_rows",
            "noisy_rows(seed, x) must be x plus noise: on device i along x, the numbers of "
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
        "In a body, the same line runs on all devices: the same key, the same shape, the same "
        "numbers.",
        "What differs from device to device is lax.axis_index('x').",
        "jax.random.fold_in(key, number) makes a new key of a key and a number.",
    ),
    diagnoses={
        "same-key": "All devices add the same noise, that of the seed's own key: each is to have a "
        "key of its own.",
        "drawn-whole": "That is one drawing for all of x, as the compiler would cut it up. Here "
        "each device is to have a key of its own.",
        "x-forgotten": "The noise is right; add x to it.",
        "subtracted": "The noise is right, and to be added: it is taken off x.",
        "multiplied": "The noise is right, and to be added: x is multiplied by it.",
        "folded-twice": "The device's place is folded into the key twice.",
        "counted-from-one": "The devices are counted from 1: the first one along x is number 0.",
        "added-to-the-seed": "The device's place is added to the seed: such keys are those of "
        "other seeds, too. It is to be folded into the seed's key.",
        "the-other-way-round": "The seed is folded into a key of the device's place. It has to be "
        "the other way round.",
        "uniform": "The keys are right, but the noise is from jax.random.uniform; expected "
        "jax.random.normal.",
        "one-row-for-all": "Each device adds one row of noise to all of its rows: each number of x "
        "is to have noise of its own.",
        "seed-ignored": "That is the noise of seed 0, whatever the seed is.",
        "key-for-each-row": "You use a key for each row, by its number; expected a key for each "
        "device, by its place.",
        "own-drawing-sliced": "The keys are right, but each device draws noise of the shape of x "
        "and adds a slice of that. Expected noise of the shape of its block.",
        "values": "Is the number folded in the device's place along x, counted from 0, and is the "
        "noise of jax.random.normal, for the whole block?",
        "ignores-inputs": "Is a seed written into it? Then the noise is the same every time.",
        "replicated": "out_specs is to put the rows together as they came.",
    },
)

TABLES: Final = ((8, (17, 16)), (4, (33, 8)), (8, (24, 12)))
"""The devices, and the shape of a table of words."""


DEVICES: Final = tuple((shape, n) for n, shape in TABLES)


def _spread(table: Any) -> Any:
    return np.pad(table, ((0, -len(table) % 8), (0, 0)))


VOCABULARIES: Final = (
    # the devices, the rows of the padded table, its width, the examples, how large what is hidden
    # is, and which numbers of words there may be
    (8, 24, 16, 8, 1.0, (17, 24)),
    (4, 40, 8, 6, 30.0, (20, 40)),  # exp overflows
    (8, 8, 16, 16, 30_000.0, (1, 2)),  # one word, and for some examples its logit is far below 0
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


def _softmax_by_hand(
    taken_off: Callable[[Any, Any], Any], hidden: Any, padded: Any, words: Any
) -> Any:
    """The softmax of the words, with something other than their largest logit taken off."""
    logits = hidden @ padded.T
    exponentials = _masked(np.exp(logits - taken_off(logits, words)), words, 0)
    return exponentials / exponentials.sum(1, keepdims=True)


def _log_softmax(logits: Any) -> Any:
    shifted = logits - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def _masked(logits: Any, words: Any, value: float) -> Any:
    return np.where(np.arange(logits.shape[1]) < words, logits, np.float32(value))


def _softmax_of_own_words(value: float, after: bool, hidden: Any, padded: Any, words: Any) -> Any:
    """Each device takes the softmax over its own words.

    Args:
        value: the logit of the padding.
        after: whether the padding's probabilities are set to zero.
        hidden: what is hidden of each example.
        padded: the padded table.
        words: how many of its rows are words.
    """
    n = {rows: n for n, rows, *_ in VOCABULARIES}[len(padded)]
    logits = np.split(_masked(hidden @ padded.T, words, value), n, axis=1)
    made = np.concatenate([_softmax(own) for own in logits], axis=1)
    return _masked(made, words, 0) if after else made


def _masked_by(value: float, hidden: Any, padded: Any, words: Any) -> Any:
    return _softmax(_masked(hidden @ padded.T, words, value))


_probabilities: Final = partial(_masked_by, -np.inf)


UNEVEN: Final = Exercise(
    id="9.4",
    title="Seventeen words on eight devices",
    afterwards="Vocabularies are padded in practice too, often to a multiple of 128: for the "
    "devices, and for their matrix units.",
    requirements=(
        Computes(
            "spread",
            "spread(table) must be the table, with rows of zeros up to the next multiple of 8.",
            _spread,
            tuple((_argument(shape, n),) for n, shape in TABLES),
            {
                "silently-copied": lambda table: table,
                "padded-with-others": AnyOf(
                    (
                        lambda table: np.pad(
                            table, ((0, -len(table) % 8), (0, 0)), constant_values=1
                        ),
                        lambda table: np.pad(table, ((0, -len(table) % 8), (0, 0)), "edge"),
                        lambda table: np.resize(table, _spread(table).shape),
                    )
                ),
                "in-front": lambda table: np.roll(_spread(table), -len(table) % 8, 0),
                "always-more": lambda table: np.pad(table, ((0, 8 - len(table) % 8), (0, 0))),
                "columns-too": lambda table: np.pad(table, (0, -len(table) % 8)),
                "multiple-of-devices": lambda table: np.pad(
                    table, ((0, -len(table) % dict(DEVICES)[table.shape]), (0, 0))
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
                "padding-counts": lambda hidden, padded, words: _softmax(hidden @ padded.T),
                "padding-like-zeros": lambda hidden, padded, words: _softmax(
                    _masked(hidden @ padded.T, words, 0)
                ),
                "masked-too-late": lambda hidden, padded, words: _masked(
                    _softmax(hidden @ padded.T), words, 0
                ),
                "zeros-then-masked": lambda hidden, padded, words: _masked(
                    _softmax(_masked(hidden @ padded.T, words, 0)), words, 0
                ),
                "a-word-too-many": lambda hidden, padded, words: _probabilities(
                    hidden, padded, words + 1
                ),
                "own-words": AnyOf(
                    tuple(
                        partial(_softmax_of_own_words, value, after)
                        for value in (-np.inf, -1e30)
                        for after in (False, True)
                    )
                ),
                "over-the-examples": AnyOf(
                    (
                        lambda hidden, padded, words: _masked(
                            _softmax((hidden @ padded.T).T).T, words, 0
                        ),
                        lambda hidden, padded, words: (
                            _softmax(_masked(hidden @ padded.T, words, -np.inf).T).T
                        ),
                        lambda hidden, padded, words: (
                            _softmax(_masked(hidden @ padded.T, words, -1e30).T).T
                        ),
                    )
                ),
                "a-word-too-few": lambda hidden, padded, words: _probabilities(
                    hidden, padded, words - 1
                ),
                "not-divided": lambda hidden, padded, words: _exponentials(
                    _masked(hidden @ padded.T, words, -np.inf)
                ),
                "logits-alone": AnyOf(
                    (
                        lambda hidden, padded, words: hidden @ padded.T,
                        lambda hidden, padded, words: _masked(hidden @ padded.T, words, 0),
                        lambda hidden, padded, words: _masked(hidden @ padded.T, words, -np.inf),
                    )
                ),
                "logarithms": lambda hidden, padded, words: _log_softmax(
                    _masked(hidden @ padded.T, words, -np.inf)
                ),
                "largest-not-taken-off": partial(_softmax_by_hand, lambda logits, words: 0),
                "largest-of-the-padding": partial(
                    _softmax_by_hand, lambda logits, words: logits.max(1, keepdims=True)
                ),
                "minus-a-number": AnyOf(
                    tuple(partial(_masked_by, -(10.0**digits)) for digits in (2, 3, 4))
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
        "17 does not divide by 8, and 24 does: jnp.pad the table with rows of zeros, and ask for "
        "it along x then. In Python, -17 % 8 is 7.",
        "Whatever stands in a row of the padding, it has a logit, and would take its part. What "
        "logit has no part at all?",
        "jnp.where(jnp.arange(rows) < words, logits, -jnp.inf), before the softmax.",
    ),
    diagnoses={
        "probabilities: too-many-bytes": "Softmax needs two numbers for each example, its largest "
        "logit and its sum, and takes off the largest by itself. Is a maximum taken besides?",
        "silently-copied": "The table came back as it was. A constraint that does not divide ends "
        "in a copy on every device, and raises no error: pad first, then constrain.",
        "in-front": "The rows of zeros stand in front of the words: they come after them.",
        "always-more": "A multiple of 8 has been padded, too: 24 words need no padding.",
        "replicated": "There is a copy of it on every device: is it asked for along x?",
        "padding-counts": "All rows of the padded table get a part of the probability, those of "
        "the padding too. Only `words` says which rows are words; anything may stand in the "
        "others. In the body of a shard_map: does the number of a row count the rows of the "
        "devices before it?",
        "largest-not-taken-off": "exp overflows: a row's largest logit has to be taken off before.",
        "largest-of-the-padding": "What is taken off before exp is the largest logit of all rows, "
        "those of the padding too. Where that is far above the words', every exp is 0.",
        "own-words": "On each device, the probabilities of its own words add up to 1. Those of all "
        "words together should: what do you divide by?",
        "columns-too": "Columns were added, too; expected more rows only. (Given a single pair, "
        "jnp.pad pads every dimension.)",
        "multiple-of-devices": "The rows are padded to a multiple of the number of devices; "
        "expected a multiple of 8, on four devices too.",
        "slice-at-run-time": "The result has a column for each row of padded anyway.",
        "padding-like-zeros": "The padding has a logit of 0, and exp(0) is 1: it still gets a part "
        "of the probability.",
        "zeros-then-masked": "The padding has a logit of 0, and takes its part of the sum before "
        "it is set to zero: the rest does not add up to 1. Its logit is to be minus infinity.",
        "a-word-too-many": "One row too many counts as a word: the words are rows 0 to words - 1.",
        "minus-a-number": "The padding has a finite logit, such as -1,000. There are words with "
        "smaller ones.",
        "masked-too-late": "The padding took its part before it was set to zero: the rest does "
        "not add up to 1.",
        "over-the-examples": "The softmax is over the examples; it has to be over the words.",
        "a-word-too-few": "The last word counts as padding: the words are rows 0 to words - 1.",
        "not-divided": "These are the exponentials: expected each divided by its row's sum.",
        "logits-alone": "These are the logits: the softmax is missing.",
        "logarithms": "These are the logarithms of the probabilities.",
        "padded-with-others": "The rows that were added are not zeros.",
        "not-finite": "There are four places to look: exp overflows where the row's largest logit "
        "is not taken off first; all of a row becomes 0 where more than that is taken off, such as "
        "a logit of the padding; on a device that has nothing but padding the largest is minus "
        "infinity, if it is not taken over all devices; and there the sum of exp is 0, if it is "
        "not added up over all devices.",
        "collective-permute": "Rows have changed their device. Were they cut before they were "
        "padded? Then the borders of the blocks have to move.",
        "all-gather": "Something is collected that can stay cut. Is it asked for whole, or does a "
        "constraint not divide?",
        "spread: all-to-all": "Rows are laid out anew. Are the rows of zeros put below the table "
        "by a concatenation? The compiler may cut its parts before it joins them. Where a whole "
        "copy goes through jnp.pad, each device just keeps its own rows.",
        "does-not-divide": "shard_map and jit's own shardings refuse what does not divide: pad "
        "first.",
        "spread: shape": "The next multiple of 8, whatever the number of words and of devices; 24 "
        "words need no padding.",
        "probabilities: shape": "There is a row for each example, and a column for each row of "
        "padded.",
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
    afterwards="It costs nothing to look: jax.typeof in Explicit mode, or an array's sharding "
    "after the program ran, shows whether you got what you asked for.",
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

TALL: Final = (
    (8, (64, 32), (0, 64)),
    (4, (20, 12), (19, 20)),
    (4, (4, 8), (3, 4)),
    (8, (16, 4), (1, 2)),  # device 0 has it, so that zeros are told from a forgotten offset
)
"""The devices, the shape of x, and which rows are asked for."""


def _blocks(x: Any) -> Any:
    """The rows of each device, in a list."""
    return np.split(x, {shape[0]: n for n, shape, _ in TALL}[len(x)])


def _begins(x: Any, i: Any, *, also_first: bool = False) -> bool:
    """Whether row i is the first of a block; of the first block only where that is said."""
    return bool(i % len(_blocks(x)[0]) == 0 and (i > 0 or also_first))


def _shifted(x: Any) -> Any:
    return np.concatenate([np.zeros_like(x[:1]), x[:-1]])


def _begun_with(x: Any, rows: Any) -> Any:
    """What comes of shifting each block by itself, and beginning each with one of these rows."""
    shifted = [np.concatenate([r, b[:-1]]) for r, b in zip(rows, _blocks(x), strict=True)]
    return np.concatenate(shifted)


def _from_owner_by_devices(x: Any, i: Any) -> Any:
    """The row, if who has it is found by dividing i by the number of devices."""
    blocks = _blocks(x)
    owner = int(i) // len(blocks)
    return blocks[owner][i % len(blocks[0])] if owner < len(blocks) else np.zeros_like(x[0])


def _with_before(x: Any, edge: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
    """Each block, with the edge of the block before it, or zeros."""
    blocks = _blocks(x)
    edges = [edge(block) for block in blocks]
    return [*zip([0 * edges[0], *edges[:-1]], blocks, strict=True)]


INDEXING: Final = Exercise(
    id="9.6",
    title="One row, and one row further",
    afterwards="Embedding tables that are cut by rows are read like this: each device looks for "
    "the row among its own, gives zeros where it has none, and a sum brings the row to all.",
    requirements=(
        Computes(
            "row",
            "row(x, i) must be x[i].",
            lambda x, i: x[i],
            tuple(
                (
                    _argument(s, n, "x"),
                    _argument((), n, dtype="int32", scale=end - least, shift=least),
                )
                for n, s, (least, end) in TALL
            ),
            {
                "mean-for-sum": lambda x, i: x[i] / np.float32(len(_blocks(x))),
                "rows-joined": lambda x, i: np.concatenate(
                    [x[i] * np.float32(i // len(b) == k) for k, b in enumerate(_blocks(x))]
                ),
                "nothing-below-zero": lambda x, i: np.maximum(x[i], 0),
                "a-row-of-each": lambda x, i: sum(b[i % len(b)] for b in _blocks(x)),
                "offset-forgotten": lambda x, i: sum(
                    b[i] if i < len(b) else 0 * b[0] for b in _blocks(x)
                ),
                "next-row": AnyOf(
                    (
                        lambda x, i: x[min(i + 1, len(x) - 1)],
                        lambda x, i: np.roll(x, -1, axis=0)[i],
                        lambda x, i: np.concatenate([x[1:], 0 * x[:1]])[i],
                        lambda x, i: np.concatenate([x[1:], np.full_like(x[:1], np.nan)])[i],
                    )
                ),
                "row-before": AnyOf((lambda x, i: x[i - 1], lambda x, i: _shifted(x)[i])),
                "owner-by-devices": _from_owner_by_devices,
                "row-of-the-block": lambda x, i: _blocks(x)[0][i % len(_blocks(x)[0])],
                "a-row-too-many": lambda x, i: x[i] + (x[i - 1] if _begins(x, i) else 0),
                "last-row-lost": lambda x, i: x[i] * np.float32(i < len(x) - 1),
                "first-row-lost": lambda x, i: (
                    x[i] * np.float32(not _begins(x, i, also_first=True))
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
                "goes-round": lambda x: np.roll(x, 1, 0),
                "within-blocks": lambda x: np.concatenate([*map(_shifted, _blocks(x))]),
                "by-a-block": lambda x: np.concatenate([0 * _blocks(x)[0], *_blocks(x)[:-1]]),
                "columns-shifted": AnyOf(
                    (
                        lambda x: np.pad(x, ((0, 0), (1, 0)))[:, :-1],
                        lambda x: np.roll(x, 1, axis=1),
                        lambda x: np.concatenate(
                            [
                                np.concatenate([c, b[:, :-1]], axis=1)
                                for c, b in _with_before(x, lambda block: block[:, -1:])
                            ]
                        ),
                    )
                ),
                "first-of-each-dropped": lambda x: np.concatenate(
                    [
                        np.concatenate([r, b[1:]])
                        for r, b in _with_before(x, lambda block: block[-1:])
                    ]
                ),
                "wrong-row-zeros": lambda x: np.concatenate([x[-1:], x[:-2], 0 * x[:1]]),
                "first-row-twice": lambda x: np.concatenate([x[:1], x[:-1]]),
                "first-row-only": lambda x: np.concatenate([0 * x[:1], x[1:]]),
                "two-rows-further": lambda x: _shifted(_shifted(x)),
                "other-way": lambda x: np.concatenate([x[1:], np.zeros_like(x[:1])]),
                "from-the-block-after": lambda x: _begun_with(
                    x, [*(b[-1:] for b in _blocks(x)[1:]), np.zeros_like(x[:1])]
                ),
                "first-row-sent": lambda x: _begun_with(
                    x, [np.zeros_like(x[:1]), *(b[:1] for b in _blocks(x)[:-1])]
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
        "x[i], with an i that is known only when it runs, brings all of x together. What can each "
        "device say about row i by itself?",
        "Rows times 0 or 1, added up: jnp.where(jnp.arange(len(x)) == i, …), and a sum over the "
        "rows. (jnp.take knows of it too.) For the shift: all but one row stay on their device.",
        "jnp.roll moves what crosses a border, and nothing else. Then set row 0 to zero, with a "
        "mask or with .at.",
    ),
    diagnoses={
        "all-gather": "Nothing has to be collected. Are many rows brought together, to look one of "
        "them up or to move them by one?",
        "row: too-many-bytes": "One row is enough. What has each device to say about row i, before "
        "anything is exchanged?",
        "shifted: too-many-bytes": "One row of each block goes to another device. Is the rest of "
        "the block sent, too?",
        "all-to-all": "Rows are laid out anew. Is there a concatenation of parts that are not cut "
        "alike?",
        "collective-permute": "Rows are handed on, where only row i is wanted.",
        "reduce-scatter": "The sum is cut. Do you ask for the row along x? Every device should "
        "have all of it.",
        "rows-joined": "One device returns x[i] and the others return zeros, and out_specs puts "
        "these one after the other. Expected x[i] alone, on every device.",
        "mean-for-sum": "It is as many times too small as there are devices, as where a mean is "
        "taken: all devices but one have only zeros to add.",
        "nothing-below-zero": "What is below zero has become 0, as where a maximum is taken of the "
        "row and of zeros.",
        "a-row-of-each": "Each device has added a row of its own. A device that does not have row "
        "i should add zeros.",
        "offset-forgotten": "Row i is right where device 0 has it, and zeros elsewhere. Is it "
        "looked for by a number that starts at 0 on every device? The rows of device 1 come after "
        "those of device 0: what has to be subtracted from i there?",
        "row: nothing-but-zeros": "Does any device find row i, and is what it finds handed on?",
        "a-row-too-many": "Where row i is the first of its block, the last row of the block before "
        "is added to it. How far does a block go?",
        "first-row-lost": "A row that is the first of its block comes back as zeros. Where does a "
        "block begin?",
        "last-row-lost": "The last row of all comes back as zeros.",
        "row: values": "Which device has row i, by its place and the length of its block, and does "
        "anybody else add anything to it?",
        "goes-round": "The last row has come round to the first place; expected zeros there.",
        "columns-shifted": "The columns are shifted; expected the rows.",
        "wrong-row-zeros": "The last row is set to zero; expected zeros in row 0.",
        "first-row-twice": "Row 0 is still there; expected zeros in its place.",
        "first-row-only": "Row 0 is set to zero, and nothing else has moved.",
        "two-rows-further": "All rows have moved by two; expected one.",
        "next-row": "That is row i + 1.",
        "row-before": "That is row i - 1.",
        "row-of-the-block": "That is a row of device 0, the one at row i's place in a block. Which "
        "device has row i?",
        "other-way": "Down, not up: row 0 of x becomes row 1.",
        "from-the-block-after": "Each block begins with the last row of the block after it, and is "
        "to begin with that of the block before. Are the pairs of the ppermute (to, from)? They "
        "are to be (from, to).",
        "first-row-sent": "Each block begins with the first row of the block before: it is that "
        "block's last row that has to cross.",
        "within-blocks": "Each block is shifted by itself. Its first row has to be the last row of "
        "the block before.",
        "first-of-each-dropped": "Of each block the first row is dropped, and the others stay "
        "where they are. It is the last row that leaves a block.",
        "owner-by-devices": "Which device has row i is found by dividing i by the number of "
        "devices. Divide by the rows of a block.",
        "by-a-block": "All rows have moved by a whole block: they are to move by one row.",
    },
)

CUBES: Final = (((4, 2), (16, 16, 16)), ((2, 4), (24, 16, 8)))
"""The sizes of a mesh, and the shape of x."""


def _axes_exchanged(x: Any) -> Any:
    """What comes of moving the axes by hand, y before x: the blocks of one are in the other's."""
    n, m = next(mesh for mesh, shape in CUBES if shape == x.shape)
    a, b, c = x.shape
    return x.reshape(a, m, n, b // 8, c).swapaxes(1, 2).reshape(a, b, c)


def _cut_once_more(x: Any) -> Any:
    """What comes of cutting dimension 2 up further along x, where it was to become whole."""
    (n, _) = next(mesh for mesh, shape in CUBES if shape == x.shape)
    a, b, c = x.shape
    return x.reshape(a, b, n, n, -1).transpose(0, 3, 2, 1, 4).reshape(a, n * n * b, c // n**2)


PATHS: Final = Exercise(
    id="9.7",
    title="Two hops are shorter",
    afterwards="When XLA finds no direct way from one layout to another, it copies the whole array "
    "everywhere. Its warning about an involuntary full rematerialization says so.",
    requirements=(
        Computes(
            "rearranged",
            "rearranged(x) must have the values of x.",
            lambda x: x,
            tuple(
                (Argument(shape, (("x", n), ("y", m)), ("y", None, "x"), mode="auto"),)
                for (n, m), shape in CUBES
            ),
            {
                "axes-exchanged": _axes_exchanged,
                "transposed-by-hand": lambda x: x.swapaxes(1, 2),
                "cut-once-more": _cut_once_more,
            },
            under_mesh=True,
        ),
        PlacedLike("rearranged", ROWS[0], tuple(shape for _, shape in CUBES)),
        CommunicatesAtMost(
            "rearranged",
            tuple((Budget("all-to-all", bytes=2 * 4 * math.prod(s) // 8),) for _, s in CUBES),
        ),
    ),
    about=(CommunicatesAtMost,),
    hints=(
        "An all-to-all moves one axis from one dimension to another. How many have to move here?",
        "Constrain it to something in between first, and then to P(None, ('x', 'y'), None).",
        "In between, everything has to be cut into eight, or somebody holds more than a share. "
        "Move x or y, and leave the other where it is.",
    ),
    diagnoses={
        "all-gather": "Somewhere on the way devices collect what others hold. Is there a layout in "
        "between? (If not, the compiler says so itself, and calls it an involuntary full "
        "rematerialization.) Is everything cut into eight there, and does each step move an axis "
        "to one other dimension?",
        "too-many-bytes": "Two moves are enough, and each moves as much as a device holds. Does a "
        "step move both axes, or is one axis moved twice?",
        "collective-permute": "Blocks change places. Do the axes arrive in another order than they "
        "are wanted in, or is a mesh named that is not the current one?",
        "nothing-moved": "The function asked for no layout, or its request had no effect.",
        "transformed": "Is anything done to x, other than to lay it out?",
        "axes-exchanged": "All blocks are there, in other places: where you move axes by hand, the "
        "order in which you do decides the order in which they lie.",
        "transposed-by-hand": "x is transposed. It is to stay as it is, and be laid out anew.",
        "cut-once-more": "Dimension 2 has been cut up further along x, and dimension 1 has become "
        "longer. Of an all_to_all, split_axis is the dimension that is cut up, and concat_axis the "
        "one that becomes whole.",
        "device-order": "In which order do x and y cut dimension 1, and in which order should "
        "they?",
        "grid": "Cut dimension 1 along both x and y.",
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
    """For each device of a mesh, in the mesh's order, its id and its block."""
    placed = _sharding(described).devices_indices_map(shape)
    ids = np.array(described[0]).ravel().tolist()
    blocks = {
        device.id: [slice(*p.indices(size)) for p, size in zip(placed[device], shape, strict=True)]
        for device in jax.devices()
        if device in placed
    }
    return [(i, blocks[i]) for i in ids]


def _agree(one: Described, other: Described, shape: tuple[int, ...]) -> bool:
    """Whether the first one's devices have the same blocks in the second, whatever others have."""
    there = dict(_blocks_of(other, shape))
    return all(there.get(i) == block for i, block in _blocks_of(one, shape))


def _filled(spec: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A spec with an entry for each dimension."""
    return (*spec, *[None] * (len(shape) - len(spec)))


def _pairs(generator: np.random.Generator) -> list[tuple[Described, Described, tuple[int, ...]]]:
    """Pairs of which each can be told from the others only by the blocks, in any order."""
    order = generator.permutation(8)
    while (order == np.arange(8)).any() or (order[:4] < 4).all():
        order = generator.permutation(8)
    plain, mixed = np.arange(8).tolist(), order.tolist()
    grid, turned = np.reshape(order, (4, 2)).tolist(), np.reshape(order, (4, 2)).T.tolist()
    wide = np.reshape(order, (2, 4)).tolist()
    pairs: list[tuple[int, Described, Described]] = [
        # written alike, in one and in two dimensions
        (1, (mixed, ("x",), ("x",)), (mixed, ("x",), ("x",))),
        (2, (grid, ("x", "y"), ("y", "x")), (grid, ("x", "y"), ("y", "x"))),
        # the same spec, on devices in another order
        (1, (plain, ("x",), ("x",)), (mixed, ("x",), ("x",))),
        (3, (plain, ("x",), (None, "x")), (mixed, ("x",), (None, "x"))),
        # but for device 0
        (2, (plain, ("x",), ("x",)), ([0, *plain[:0:-1]], ("x",), ("x",))),
        # but for two devices, of which device 0 is one
        (2, (plain, ("x",), ("x",)), ([1, 0, *plain[2:]], ("x",), ("x",))),
        # other names
        (2, (mixed, ("x",), (None, "x")), (mixed, ("i",), (None, "i"))),
        # None left out
        (3, (grid, ("x", "y"), ("x",)), (grid, ("x", "y"), ("x", None, None))),
        # the mesh turned, and the spec's names with it
        (3, (grid, ("x", "y"), ("x", None, "y")), (turned, ("x", "y"), ("y", None, "x"))),
        # the mesh turned, and the spec not
        (2, (grid, ("x", "y"), ("x", "y")), (turned, ("x", "y"), ("x", "y"))),
        # one axis in two parts
        (1, (mixed, ("x",), ("x",)), (wide, ("a", "b"), (("a", "b"),))),
        (4, (mixed, ("x",), (None, "x")), (wide, ("a", "b"), (None, ("b", "a")))),
        # copies on all devices, whatever their order
        (2, (plain, ("x",), ()), (mixed, ("x",), (None, None))),
        # the same copies, on fewer devices
        (2, (plain[:4], ("x",), ()), (plain, ("x",), ())),
        (3, (plain, ("x",), ()), (plain[:4], ("x",), ())),
        # another block in the last dimension alone, and in the last but one
        (3, (grid, ("x", "y"), ("x", None, "y")), (grid, ("x", "y"), ("x", None, None))),
        (4, (mixed, ("x",), (None, None, None, "x")), (mixed, ("x",), (None, None, "x", None))),
        # copies, and none
        (2, (grid, ("x", "y"), ("x", None)), (grid, ("x", "y"), ("x", "y"))),
    ]
    return [
        (*pairs[i][1:], tuple(8 * int(size) for size in generator.integers(1, 4, pairs[i][0])))
        for i in generator.permutation(len(pairs))
    ]


SAME: Final = Exercise(
    id="9.8",
    title="The same layout?",
    afterwards="JAX's own one.is_equivalent_to(other, ndim) comes near: it ignores the names of "
    "axes, but asks for the devices in the same order, where yours looks at the blocks.",
    requirements=(
        Returns(
            "same_layout",
            "same_layout(one, other, shape) must return True or False: whether both put the same "
            "blocks of an array of that shape on the same devices.",
            cases=_pairs,
            reference=_same,
            mistakes={
                "specs": AnyOf(
                    (
                        lambda one, other, shape: one[2] == other[2],
                        lambda one, other, shape: (
                            _filled(one[2], shape) == _filled(other[2], shape)
                        ),
                    )
                ),
                "meshes": AnyOf(
                    (
                        lambda one, other, shape: one[0] == other[0],
                        lambda one, other, shape: one[:2] == other[:2],
                        lambda one, other, shape: (
                            np.ravel(one[0]).tolist() == np.ravel(other[0]).tolist()
                        ),
                    )
                ),
                "mesh-shapes": lambda one, other, shape: (
                    dict(_sharding(one).mesh.shape) == dict(_sharding(other).mesh.shape)
                    and _sharding(one).shard_shape(shape) == _sharding(other).shard_shape(shape)
                ),
                "order-and-shapes": lambda one, other, shape: (
                    np.ravel(one[0]).tolist() == np.ravel(other[0]).tolist()
                    and _sharding(one).shard_shape(shape) == _sharding(other).shard_shape(shape)
                ),
                "first-two-dimensions": lambda one, other, shape: (
                    {i: block[:2] for i, block in _blocks_of(one, shape)}
                    == {i: block[:2] for i, block in _blocks_of(other, shape)}
                ),
                "any-device": lambda one, other, shape: any(
                    dict(_blocks_of(other, shape)).get(i) == block
                    for i, block in _blocks_of(one, shape)
                ),
                "last-dimension": lambda one, other, shape: (
                    {i: block[-1] for i, block in _blocks_of(one, shape)}
                    == {i: block[-1] for i, block in _blocks_of(other, shape)}
                ),
                "equal": lambda one, other, shape: _sharding(one) == _sharding(other),
                "equivalent": lambda one, other, shape: _sharding(one).is_equivalent_to(
                    _sharding(other), len(shape)
                ),
                "block-shapes": lambda one, other, shape: (
                    _sharding(one).shard_shape(shape) == _sharding(other).shard_shape(shape)
                ),
                "device-sets": lambda one, other, shape: (
                    _sharding(one).device_set == _sharding(other).device_set
                ),
                "order-alone": AnyOf(
                    (
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
                    )
                ),
                "common-devices": lambda one, other, shape: all(
                    block == dict(_blocks_of(other, shape)).get(i, block)
                    for i, block in _blocks_of(one, shape)
                ),
                "devices-of-one": _agree,
                "devices-of-the-other": lambda one, other, shape: _agree(other, one, shape),
                "first-dimension": lambda one, other, shape: (
                    {i: block[0] for i, block in _blocks_of(one, shape)}
                    == {i: block[0] for i, block in _blocks_of(other, shape)}
                ),
                "filled-up": lambda one, other, shape: (
                    (*one[:2], _filled(one[2], shape)) == (*other[:2], _filled(other[2], shape))
                ),
                "blocks-of-zeros": lambda one, other, shape: (
                    dict.fromkeys(np.ravel(one[0]).tolist(), _sharding(one).shard_shape(shape))
                    == dict.fromkeys(
                        np.ravel(other[0]).tolist(), _sharding(other).shard_shape(shape)
                    )
                ),
                "one-device": lambda one, other, shape: (
                    dict(_blocks_of(one, shape)).get(0) == dict(_blocks_of(other, shape)).get(0)
                ),
                "the-opposite": lambda one, other, shape: not _same(one, other, shape),
                "always": lambda one, other, shape: True,
                "never": lambda one, other, shape: False,
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
        "specs": "You seem to compare specs. The same spec on another mesh is another layout, and "
        "different specs may give the same one.",
        "meshes": "That is what comes of comparing the meshes. The spec says which block each of "
        "their devices has, and another mesh may put the same blocks on the same devices.",
        "mesh-shapes": "That is what comes of comparing the meshes' shapes and those of the "
        "blocks. Which device has which block?",
        "order-and-shapes": "That is what comes of comparing the devices in the meshes' order, and "
        "the blocks' shapes. Two meshes in different orders may put the same blocks on the same "
        "devices.",
        "first-two-dimensions": "That is what comes of comparing the first two dimensions of the "
        "blocks. An array may have up to four.",
        "any-device": "That is what comes of asking whether any device has the same block in both. "
        "All of them must.",
        "last-dimension": "That is what comes of comparing the slices of the last dimension alone. "
        "In the other dimensions the blocks may differ.",
        "equal": "That is what comes of comparing with ==, shardings or what they are made of: it "
        "asks for the same mesh, the same names and the same spelling of the spec.",
        "equivalent": "That is what comes of is_equivalent_to. It does not look at names, but asks "
        "for the devices in the same order, even where the blocks end up in the same places.",
        "block-shapes": "That is what comes of comparing which blocks there are, or their shapes. "
        "They may be on other devices.",
        "device-sets": "That is what comes of comparing which devices there are. They may hold "
        "other blocks.",
        "order-alone": "That is what comes of comparing the blocks in the order of each mesh, and "
        "not device by device.",
        "common-devices": "That is what comes of looking only at devices that both of them have. "
        "A layout on four devices is not one on eight.",
        "devices-of-one": "That is what comes of looking only at the devices of the first one. The "
        "other may have more of them, and a layout on four devices is not one on eight.",
        "devices-of-the-other": "That is what comes of looking only at the devices of the other "
        "one. The first may have more of them, and a layout on eight devices is not one on four.",
        "first-dimension": "That is what comes of comparing the slices of dimension 0 alone. In "
        "the other dimensions the blocks may differ.",
        "filled-up": "That is what comes of comparing the meshes, the names of their axes and the "
        "specs, filled up with None. Another mesh and other names may put the same blocks on the "
        "same devices.",
        "blocks-of-zeros": "That is what comes of comparing which blocks there are, whoever holds "
        "them; or which devices there are and how large their blocks are. Which part of the array "
        "does each device hold?",
        "one-device": "You seem to look at device 0 only. The others may hold other blocks.",
        "the-opposite": "Every answer is the opposite of what it should be.",
        "always": "It is True every time.",
        "never": "It is False every time.",
    },
)

EXERCISES: Final[tuple[Exercise, ...]] = (
    AUDIT, INITIALISED, NOISE, UNEVEN, NO_OPS, INDEXING, PATHS, SAME,
)  # fmt: skip
