"""Notebook 11: one program run by several processes, each with some of the devices."""

import math
from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from autograder.judge import AnyOf, Exercise, Expected, OnProcesses, Predicts
from autograder.processes import CaseArgument, ProcessCase, Spec, table_files

LINE: Final = (("x", 8),)
WIDE: Final = (("x", 4), ("y", 2))
TALL: Final = (("x", 2), ("y", 4))

SHUFFLED: Final = (0, 1, 5, 4, 3, 2, 6, 7)
"""An order of the devices in which each of two processes has rows that others stand between."""

Axes = tuple[tuple[str, int], ...]


def _seed(generator: np.random.Generator) -> int:
    return int(generator.integers(1 << 30))


# 11.1: which numbers a process has

NUMBERS: Final = 128


def _has(cell: str, right: int, **mistakes: Any) -> Predicts:
    spec, _, processes = cell.rpartition(", ")
    return Predicts(
        "here",
        cell,
        f"how many different numbers of an array of 16 × 8, laid out by {spec}, process 1 of "
        f"{processes} has",
        right,
        {name.replace("_", "-"): value for name, value in mistakes.items()},
    )


HERE: Final = Exercise(
    id="11.1",
    title="What a process has",
    afterwards="x.addressable_shards lists what is here, x.is_fully_addressable says whether it is "
    "all there is, and sharding.addressable_devices_indices_map(shape) says the same of an array "
    "that is still to be made.",
    requirements=(
        _has("P('x', 'y'), 2", 64, one_device=16, everything=128, rows=8),
        _has("P('x'), 2", 64, one_device=32, counts_copies=128, rows=8),
        _has("P('y'), 2", 128, fair_share=64, counts_copies=256, rows=16),
        _has("P(None, 'x'), 4", 32, counts_copies=64, everything=128, rows=16),
        _has("P('y', 'x'), 4", 32, one_device=16, one_axis=64, everything=128),
        _has("P('y'), 4", 128, fair_share=32, one_device=64, counts_copies=256, rows=16),
        _has("P(), 4", 128, fair_share=32, counts_copies=256, rows=16),
    ),
    hints=(
        "Draw the mesh: four rows of two devices, in order. Which of them are process 1's, where "
        "two processes have four devices each? And where four have two each?",
        "For each of its devices, which block is there? Two devices may have the same block, and "
        "that counts once.",
        "P('y') cuts the rows in two. Of the two devices in one row of the mesh, the first has the "
        "upper half, and the second the lower. How many rows of the mesh does a process have?",
    ),
    diagnoses={
        "other-prediction": "Which devices does process 1 have, and which block is on each of "
        "them? Count the numbers in these blocks, each number once.",
        "one-device": "That is what one of its devices has. A process has several.",
        "one-axis": "That would be so if only one axis cut the array, and here both do. At how "
        "many places along each is process 1?",
        "counts-copies": "That counts copies, too: some of the process's devices have the same "
        "block. How many different numbers are there?",
        "fair-share": "That is an even share for each process. But the axis x, along which the "
        "processes follow each other, does not cut this array.",
        "rows": "That is in how many of the rows process 1 has anything. Asked is how many "
        "numbers: how many does it have in each of these rows?",
        "everything": "That is the whole array. Does one of the axes that cut it lead from one "
        "process to another?",
    },
)

# 11.2: which lines work

WORDS: Final = ("works", "raises", "waits", "wrong numbers")


def _line(cell: str, right: str, **mistakes: Any) -> Predicts:
    return Predicts(
        "lines",
        cell,
        f"what happens when both processes run {cell}",
        right,
        {name.replace("_", "-"): value for name, value in mistakes.items()},
        words=WORDS,
    )


_NOT_AT_ALL: Final = AnyOf(("raises", "waits", "wrong numbers"))

_OF_ONE: Final = AnyOf(("works", "raises", "wrong numbers"))

LINES: Final = Exercise(
    id="11.2",
    title="Which lines work",
    afterwards="The rule behind the table: whatever computes with an array is done by all "
    "processes, in the same order and with the same numbers; whatever is a process's own affair, "
    "such as printing, may differ.",
    requirements=(
        _line("print(x)", "works", prints_the_shape=_NOT_AT_ALL),
        _line(
            "np.asarray(x)",
            "raises",
            not_all_here=AnyOf(("works", "wrong numbers")),
            no_one_waits="waits",
        ),
        _line("np.asarray(x[0])", "works", row_for_all=_NOT_AT_ALL),
        _line("np.asarray(x.addressable_shards[0].data)", "works", own_shard=_NOT_AT_ALL),
        _line("if first: print(x.sum())", "waits", asked_alone=_OF_ONE),
        _line("total = x.sum(); if first: print(total)", "works", printing_is_free=_NOT_AT_ALL),
        _line("if first: print(x[0])", "waits", row_is_here=_OF_ONE),
        _line(
            "x[8 * jax.process_index()]",
            "wrong numbers",
            one_program="works",
            not_even_an_error=AnyOf(("raises", "waits")),
        ),
    ),
    hints=(
        "For each line: which devices does it need, and do the processes that have them take part?",
        "x.sum() adds up numbers that are on all devices, so all processes have to ask for it. Its "
        "result is a scalar of which every device has a copy.",
        "Try them: put a line into a function that makes x as above, and call it with "
        "on_processes. A function that waits is ended after five seconds.",
    ),
    diagnoses={
        "prints-the-shape": "Of an array that is not all here, print shows the shape and the "
        "dtype. Every process knows these, so nothing has to be computed or sent. Try it.",
        "row-for-all": "Both processes run x[0], a program on all eight devices. It brings row 0 "
        "to every device, so each process has a copy of it, which np.asarray reads.",
        "own-shard": "x.addressable_shards are those on the process's own devices, so all numbers "
        "of their data are here. Nothing is needed of the other process.",
        "not-all-here": "np.asarray wants all of x in this process's memory. Half of x is on "
        "devices that this process cannot read, and np.asarray does not communicate.",
        "no-one-waits": "np.asarray does not communicate, so there is nothing to wait for: it "
        "looks at what is here.",
        "asked-alone": "Only the first process asks for this, and the numbers are on the devices "
        "of both. What do the other's devices do meanwhile?",
        "row-is-here": "Row 0 is on the first process's device. But x[0] is a program on all eight "
        "devices, and the other process does not run it.",
        "printing-is-free": "Both processes compute the total, and both have a copy of it then. "
        "Only printing is left to one of them.",
        "one-program": "Each process asks for another row. But they run one program together, on "
        "all devices: does that program know of two different rows?",
        "not-even-an-error": "Both processes run the line, so nobody waits, and nothing checks "
        "that both ask for the same. Try it, and look at the numbers.",
    },
)

# 11.3: an array from local data


def _batches(generator: np.random.Generator) -> Sequence[ProcessCase]:
    def case(
        processes: int, axes: Axes, rows: int, columns: int, order: tuple[int, ...] = ()
    ) -> ProcessCase:
        shape = (rows, columns)
        given = (
            CaseArgument("sharding", shape, ("x",)),
            CaseArgument("rows", shape, ("x",), _seed(generator)),
        )
        return ProcessCase(processes, axes, given, order)

    rows = 8 * int(generator.integers(2, 5))
    return (
        case(2, LINE, rows, 4),
        case(4, LINE, 16, 6),
        case(2, WIDE, 16, 3),
        case(4, TALL, 2 * rows, 4),
        case(2, LINE, rows, 5, SHUFFLED),
    )


def _table(case: ProcessCase) -> np.ndarray:
    return next(g for g in case.given if g.kind in ("rows", "array", "folder")).values()


def _laid_out(case: ProcessCase) -> tuple[Expected]:
    given = next(g for g in case.given if g.kind == "sharding")
    return (Expected(_table(case), given.spec),)


BATCH: Final = Exercise(
    id="11.3",
    title="An array from what each process reads",
    afterwards="jax.make_array_from_process_local_data(sharding, mine) and "
    "jax.make_array_from_callback(shape, sharding, read) make the same array. The first is handy "
    "where each process has one piece, the second where it takes thought to find which pieces.",
    requirements=(
        OnProcesses(
            "make_array",
            "one array, laid out by the sharding, with all rows of the table",
            _batches,
            _laid_out,
        ),
    ),
    hints=(
        "Nobody has all rows, and nobody needs them: each device needs its own block. Which rows "
        "are those?",
        "jax.make_array_from_callback(shape, sharding, read) calls read(index) for each of the "
        "process's devices, where index is a tuple of slices: the device's block.",
        "rows[index] takes such a tuple of slices, as any NumPy array does.",
    ),
    diagnoses={
        "not-here": "Which rows a process needs follows from the sharding: "
        "sharding.addressable_devices_indices_map(shape) lists its devices' blocks.",
        "own-array": "An array made by jnp.asarray, or put on one's own devices, is known to no "
        "other process. jax.make_array_from_process_local_data and jax.make_array_from_callback "
        "make arrays that all share.",
        "split-dimension": "Is the array laid out by the `sharding` that the function was given? A "
        "mesh that the function makes by itself is another one.",
        "replicated-dimension": "Is the array laid out by the `sharding` that the function was "
        "given? A mesh that the function makes by itself is another one.",
        "other-rows": "Does the function read by the index that the sharding has for the device, "
        "or by a count of its own? And where it gives the rows of a process together, does it give "
        "each row once, though several devices hold it, and in the table's order?",
        "nothing-but-zeros": "Are the rows read from `rows`, and put into what is returned?",
        "off-by-a-factor": "Is something added up, or averaged, that should only be put in its "
        "place?",
        "rows-exchanged": "The device has the right rows in another order than the table's.",
        "other-numbers": "None of the rows on this device is a row of the table. Are they read "
        "from `rows`, and left as they are?",
        "none": "Is a return missing?",
        "raised": "jax.make_array_from_callback takes the shape of the whole array, and a function "
        "that returns the block of an index. `rows` itself is not an array; `rows[index]` is.",
        "block-shape": "Each device gets the block of its index, `rows[index]`. The index is what "
        "jax.make_array_from_callback calls its function with, or what "
        "sharding.addressable_devices_indices_map(shape) has for the device.",
        "dtype": "The numbers are to stay what they are in the table.",
        "shape": "Does the array's shape follow from how many rows each process gave? Which rows a "
        "process has to give follows from the blocks of its devices, each row once, and not from "
        "the process's number: two processes may need the same rows.",
        "values": "Which rows did that process give, and which ones does it need?",
    },
)

# 11.4: back to the host


def _gathers(generator: np.random.Generator) -> Sequence[ProcessCase]:
    def case(processes: int, axes: Axes, shape: tuple[int, ...], spec: Spec) -> ProcessCase:
        return ProcessCase(processes, axes, (CaseArgument("array", shape, spec, _seed(generator)),))

    columns = 8 * int(generator.integers(1, 3))
    return (
        case(2, LINE, (16, 3), ("x",)),
        case(4, TALL, (8, columns), (None, ("y", "x"))),
        case(2, WIDE, (8, 4), ("y", "x")),
        case(2, WIDE, (6, 4), ("y",)),
    )


def _blocks(case: ProcessCase) -> list[np.ndarray]:
    """The block of each device, in the order of their numbers."""
    array = case.given[0]
    sharding = jax.NamedSharding(case.mesh(), jax.P(*array.spec))
    indices = sharding.devices_indices_map(array.shape)
    table = array.values()
    return [table[indices[device]] for device in jax.devices()]


def _in_a_row(case: ProcessCase) -> tuple[np.ndarray]:
    """All blocks, one beside another."""
    return (np.concatenate(_blocks(case), axis=1),)


def _refilled(case: ProcessCase) -> tuple[np.ndarray]:
    """The blocks of all devices one after another, cut to the shape of the array."""
    table = _table(case)
    return (np.ravel(_blocks(case))[: table.size].reshape(table.shape),)


def _added_up(case: ProcessCase, holders: Sequence[range]) -> tuple[np.ndarray]:
    """Add up each group's blocks, with zeros wherever a group holds nothing."""
    array = case.given[0]
    indices = jax.NamedSharding(case.mesh(), jax.P(*array.spec)).devices_indices_map(array.shape)
    count = np.zeros(array.shape, np.float32)
    for devices in holders:
        held = np.zeros(array.shape, bool)
        for i in devices:
            held[indices[jax.devices()[i]]] = True
        count += held
    return (count * array.values(),)


def _stacked(case: ProcessCase) -> tuple[np.ndarray]:
    """Each process's blocks, one below another, stacked in a dimension more."""
    blocks = np.array(_blocks(case))
    return (blocks.reshape(case.processes, -1, blocks.shape[-1]),)


HOST: Final = Exercise(
    id="11.4",
    title="Everything to every host",
    afterwards="It is seldom what one wants: all of the array has to fit into every host's memory. "
    "To save it, or to look at some of it, each process can deal with its own shards.",
    requirements=(
        OnProcesses(
            "to_host",
            "a NumPy array with all of x, in every process",
            _gathers,
            lambda case: (Expected(_table(case), host=True),),
            mistakes={
                "blocks-in-a-column": lambda case: (np.concatenate(_blocks(case)),),
                "stacked": _stacked,
                "blocks-in-a-row": _in_a_row,
                "blocks-refilled": _refilled,
                "copies-added": AnyOf(
                    (
                        lambda case: _added_up(case, [range(i, i + 1) for i in range(8)]),
                        lambda case: _added_up(
                            case, [*map(case.devices_of, range(case.processes))]
                        ),
                    )
                ),
                "transposed": lambda case: (_table(case).T,),
            },
        ),
    ),
    hints=(
        "np.asarray(x) works where every number is here. So first have every device hold all of "
        "them; that is a layout like any other, and making it is a computation, in which all "
        "processes take part.",
        "A jitted function may say how its result is laid out: jax.jit(f, out_shardings=…). The "
        "mesh is x.sharding.mesh.",
        "jax.experimental.multihost_utils has a function for it, process_allgather. Mind its "
        "argument tiled: without it, arrays are stacked, or refused.",
    ),
    diagnoses={
        "not-addressable": "A line that reads x, or moves it to one device, can only use what is "
        "on this process's own devices, and some of these numbers are on the other processes'.",
        "none": "Is a return missing?",
        "not-numpy": "np.asarray makes one of an array whose numbers are all here. Shards are "
        "blocks of x: is each of them here, and where in x does it lie?",
        "differs-between-processes": "Each process knows the numbers that are here. The others' "
        "have to be sent: which line does that?",
        "shape": "Is that the part that one process or one device has, or a sum of such parts? "
        "Every process is to have all of x.",
        "blocks-in-a-column": "These are the blocks of all devices, one below another. That is x "
        "where rows alone are cut, and each block is on one device. Where does each block lie in "
        "x?",
        "stacked": "These are the blocks of each process, stacked along a dimension of their own. "
        "x has no such dimension.",
        "blocks-in-a-row": "These are the blocks of all devices, one beside another. Where does "
        "each block lie in x?",
        "blocks-refilled": "These are the numbers of all blocks, one block after another, reshaped "
        "to the shape of x. Where does each block lie in x?",
        "copies-added": "A block of which there are several copies is added up, once for each of "
        "them. It should be in the result once.",
        "off-by-a-factor": "Is something added up, or averaged, that should only be put in its "
        "place?",
        "nothing-but-zeros": "Is anything of x written into it?",
        "transposed": "That is x transposed.",
        "other-numbers": "None of the rows that came is a row of x. Are the numbers read from x, "
        "and left as they are?",
        "rows-exchanged": "All rows of x are there, in another order. Where a shard's block lies "
        "in x is its `index`; process_allgather(x, tiled=True) puts each block there.",
        "values": "Which of the numbers of x are these, and do they lie in the result where they "
        "lie in x?",
        "on-devices": "Now that every device has all of x, np.asarray(x) works.",
    },
)

# 11.5: the same numbers on one, two and four processes

RATE: Final = 1 / 128


def _trainings(generator: np.random.Generator) -> Sequence[ProcessCase]:
    batch = 8 * int(generator.integers(2, 4))  # not 8, or it is also the number of devices
    steps = int(generator.integers(3, 6))
    table, weights = _seed(generator), _seed(generator)
    return tuple(
        ProcessCase(
            processes,
            LINE,
            (
                CaseArgument("mesh"),
                CaseArgument("values", (4,), seed=weights),
                CaseArgument("rows", (steps * batch, 5), ("x",), table, batch),
                CaseArgument("number", number=batch),
            ),
        )
        for processes in (1, 2, 4)
    )


def _batches_of(case: ProcessCase) -> np.ndarray:
    _, _, rows, size = case.given
    return rows.values().astype(np.float64).reshape(-1, size.number, 5)


def _batches_apart(case: ProcessCase) -> list[np.ndarray]:
    """For each process, the rows of each batch that it can read."""
    return np.split(_batches_of(case), case.processes, axis=1)


def _first_again(case: ProcessCase) -> np.ndarray:
    """The first batch, as often as there are batches."""
    batches = _batches_of(case)
    return np.repeat(batches[:1], len(batches), axis=0)


def _all_each_time(case: ProcessCase) -> np.ndarray:
    """All rows in each step."""
    batches = _batches_of(case)
    return np.repeat(batches.reshape(1, -1, 5), len(batches), axis=0)


def _at_once(case: ProcessCase) -> np.ndarray:
    """All rows, as one batch."""
    return _batches_of(case).reshape(1, -1, 5)


def _trained(
    case: ProcessCase,
    steps: int | None = None,
    rate: float = RATE,
    batches: np.ndarray | None = None,
) -> np.ndarray:
    """The weights after so many steps, by default one on each batch of the table."""
    w = case.given[1].values().astype(np.float64)
    batches = _batches_of(case) if batches is None else batches
    for batch in batches[:steps]:
        x, y = batch[:, :4], batch[:, 4]
        w = w - rate * 2 * x.T @ (x @ w - y) / len(x)
    return w


def _from_the_start(case: ProcessCase) -> np.ndarray:
    """The weights after steps that all use the gradients at the first weights."""
    start = _trained(case, 0)
    changes = [_trained(case, batches=batch[None]) - start for batch in _batches_of(case)]
    return np.asarray(start + np.sum(changes, axis=0))


def _gradients_for_weights(case: ProcessCase) -> np.ndarray:
    """Train with each gradient taken for the new weights."""
    w = case.given[1].values().astype(np.float64)
    for batch in _batches_of(case):
        x, y = batch[:, :4], batch[:, 4]
        w = 2 * x.T @ (x @ w - y) / len(x)
    return w


TRAINING: Final = Exercise(
    id="11.5",
    title="The same numbers on one, two and four processes",
    afterwards="It can be written without a word of processes. That is what one program on all "
    "devices means: who holds which rows is the sharding's affair, and the gradient's all-reduce "
    "is the compiler's.",
    requirements=(
        OnProcesses(
            "train",
            "the weights after a step on each batch, the same in every process",
            _trainings,
            lambda case: (Expected(_trained(case)),),
            mistakes={
                "one-step-less": lambda case: (_trained(case, -1),),
                "one-step": lambda case: (_trained(case, 1),),
                "not-trained": lambda case: (_trained(case, 0),),
                "first-batch-again": lambda case: (_trained(case, batches=_first_again(case)),),
                "all-rows-each-time": lambda case: (_trained(case, batches=_all_each_time(case)),),
                "one-large-batch": lambda case: (_trained(case, batches=_at_once(case)),),
                "eight-times": lambda case: (_trained(case, rate=8 * RATE),),
                "uphill": lambda case: (_trained(case, rate=-RATE),),
                "gradients-at-the-start": lambda case: (_from_the_start(case),),
                "last-batch-first": lambda case: (_trained(case, batches=_batches_of(case)[::-1]),),
                "last-batch-alone": lambda case: (_trained(case, batches=_batches_of(case)[-1:]),),
                "first-batch-skipped": lambda case: (
                    _trained(case, batches=_batches_of(case)[1:]),
                ),
                "two-steps-each": lambda case: (
                    _trained(case, batches=np.repeat(_batches_of(case), 2, axis=0)),
                ),
                "gradient-alone": lambda case: (_gradients_for_weights(case),),
                "rate-forgotten": lambda case: (_trained(case, rate=1),),
                "an-eighth": lambda case: (_trained(case, rate=RATE / 8),),
                "divided-by-the-batch": lambda case: (
                    _trained(case, rate=RATE / case.given[3].number),
                ),
                "sum-of-rows": lambda case: (_trained(case, rate=RATE * case.given[3].number),),
                "sum-of-processes": lambda case: (_trained(case, rate=RATE * case.processes),),
                "averaged-at-the-end": lambda case: (
                    np.mean([_trained(case, batches=b) for b in _batches_apart(case)], axis=0),
                ),
                "one-process-alone": lambda case: (
                    _trained(case, batches=_batches_apart(case)[0]),
                ),
            },
        ),
    ),
    hints=(
        "Batch number k is rows k * batch to (k + 1) * batch of the table. Of these, each process "
        "can read those that its devices hold where the batch is cut over x.",
        "make_array from 11.3 makes one array of a whole table. Here it is a piece of one: the "
        "rows of a block are k * batch further down.",
        "With the batch as one array, step is the same as on one process: "
        "jax.jit(jax.grad(loss))(w, batch) is the gradient over all rows of it, on every device.",
    ),
    diagnoses={
        "not-here": "Of each batch, a process has those rows alone that its devices hold, where "
        "the batch is cut over x. The others' are read by the others.",
        "differs-between-processes": "Each process came to weights of its own. Did each take the "
        "gradient of its own rows alone? It has to be that of the whole batch.",
        "only-on-one-process": "So something in it depends on how many processes there are. Is "
        "there a division, or a number of rows, that does?",
        "one-step-less": "Those are the weights one step too early.",
        "one-step": "Those are the weights after the first step.",
        "not-trained": "Those are the weights that it started with. Is the new value kept?",
        "first-batch-again": "Those are the weights after as many steps on the first batch. Which "
        "rows are read in the second step?",
        "gradients-at-the-start": "Those are the weights if every step takes its gradient at the "
        "weights that training began with. At which weights should the second step take it?",
        "last-batch-first": "Those are the weights after a step on each batch in the opposite "
        "order, the last one first.",
        "last-batch-alone": "Those are the weights after one step, on the last batch, from the "
        "weights that training began with. What becomes of the steps before it?",
        "first-batch-skipped": "Those are the weights without the step on the first batch.",
        "two-steps-each": "Those are the weights after two steps on each batch.",
        "gradient-alone": "Each step returns the gradient. The new weights are the old ones minus "
        "RATE times the gradient.",
        "rate-forgotten": "Those are the weights after steps with a rate of 1, and not RATE.",
        "an-eighth": "The steps are an eighth as large as they should be. Is the gradient divided "
        "by the number of devices once too often?",
        "divided-by-the-batch": "The steps are too small by the number of rows in a batch. Is a "
        "mean divided by it again?",
        "values": "Which rows does each step use, at which weights is its gradient taken, and how "
        "far does it go?",
        "all-rows-each-time": "Each step uses all rows of the table, and not those of its batch.",
        "one-large-batch": "Those are the weights after one step on all rows at once.",
        "eight-times": "The steps are eight times too large, as many times as there are devices. "
        "Is something added up over them that should be averaged?",
        "none": "Is a return missing?",
        "uphill": "Each step goes up the gradient, not down.",
        "sum-of-rows": "The steps are as many times too large as a batch has rows. Is the loss a "
        "mean there, or a sum?",
        "sum-of-processes": "The steps are as many times too large as there are processes. Are "
        "gradients added up over them that should be averaged?",
        "averaged-at-the-end": "That is the average of what each process comes to if it trains on "
        "its own rows to the end. After the first step their weights differ, and the next "
        "gradients are those of different weights. Each step needs the gradient of its whole "
        "batch.",
        "one-process-alone": "Those are the weights that follow from process 0's rows alone. Each "
        "step needs the gradient of its whole batch.",
        "number-of-results": "The weights alone are asked for.",
    },
)

# 11.6: a checkpoint


def _count(case: ProcessCase, spec: Spec) -> int:
    """How many blocks a spec cuts rows into."""
    sizes, rows = dict(case.axes), spec[0]
    names = rows if isinstance(rows, tuple) else (rows,)
    return math.prod(sizes[name] for name in names if name)


def _saves(generator: np.random.Generator) -> Sequence[ProcessCase]:
    def case(axes: Axes, spec: Spec) -> ProcessCase:
        shape = (8 * int(generator.integers(2, 5)), 4)
        array = CaseArgument("array", shape, spec, _seed(generator))
        return ProcessCase(2, axes, (CaseArgument("folder"), array))

    return (
        case(LINE, ("x",)),
        case(WIDE, ("x",)),
        case(WIDE, ("y",)),
        case(TALL, (("x", "y"),)),
        case(WIDE, (None,)),  # one block, of which each device has a copy
    )


def _saved(case: ProcessCase) -> dict[str, np.ndarray]:
    array = case.given[1]
    return table_files(array.values(), _count(case, array.spec))


def _restores(generator: np.random.Generator) -> Sequence[ProcessCase]:
    def case(processes: int, axes: Axes, spec: Spec, files: int) -> ProcessCase:
        shape = (8 * files * int(generator.integers(2, 5)) // math.gcd(8, files), 8)
        given = (
            CaseArgument("folder", shape, seed=_seed(generator), number=files),
            CaseArgument("sharding", shape, spec),
            CaseArgument("shape", shape),
        )
        return ProcessCase(processes, axes, given)

    return (
        case(4, LINE, ("x",), 8),  # a file for each block
        case(4, TALL, ("x", "y"), 8),  # several files in each block
        case(2, LINE, ("x",), 3),  # blocks within a file, and blocks that are in two of them
        case(2, WIDE, (None, "x"), 2),
    )


def _in_order_of_text(case: ProcessCase) -> tuple[np.ndarray]:
    files = table_files(_table(case), case.given[0].number)
    return (np.concatenate([files[name] for name in sorted(files)]),)


def _of_whole_files(case: ProcessCase) -> tuple[np.ndarray]:
    """Of each block the rows of those files that lie wholly inside of it, and zeros elsewhere."""
    table, sharding = _table(case), case.given[1]
    size = len(table) // _count(case, sharding.spec)
    made = np.zeros_like(table)
    for name, rows in table_files(table, case.given[0].number).items():
        start, stop = map(int, name.removesuffix(".npy").split("-"))
        if start // size == (stop - 1) // size:
            made[start:stop] = rows
    return (made,)


CHECKPOINT: Final = Exercise(
    id="11.6",
    title="A checkpoint written by two and read by four",
    afterwards="Orbax does the same, with many arrays at once, in the background, and in a format "
    "that can be read in any layout. Each process writes what it holds, each block once.",
    requirements=(
        OnProcesses(
            "save",
            "a file for each block of rows, written once",
            _saves,
            files=_saved,
        ),
        OnProcesses(
            "restore",
            "the array that the files hold, laid out by the sharding",
            _restores,
            _laid_out,
            mistakes={
                "sorted-as-text": _in_order_of_text,
                "whole-files-alone": _of_whole_files,
            },
        ),
    ),
    hints=(
        "For saving: x.addressable_shards lists the blocks that are here. shard.index says which "
        "rows, shard.data has them, and of several copies, each has a different "
        "`shard.replica_id`.",
        "For restoring, jax.make_array_from_callback(shape, sharding, read) asks for blocks, each "
        "by a tuple of slices. The files that a block lies in may be several, and of each it may "
        "need a part.",
        "The simplest read puts all files together in the right order, and returns "
        "whole[index]. The order is that of numbers: '12-16.npy' comes before '4-8.npy' where "
        "names are sorted as text.",
    ),
    diagnoses={
        "written-twice": "Where there are copies of a block, one of them has to be chosen to be "
        "written, so that all processes choose the same: shard.replica_id numbers them.",
        "waits": "Saving is each process's own affair: shard.data is here, and needs nobody else. "
        "To compute with x, all processes have to do the same.",
        "restore: file-not-found": "The files may be cut in another way than `sharding` cuts, so "
        "their names do not follow from it: look which files there are.",
        "restore: block-shape": "An index has two slices here, one for rows and one for columns. "
        "Are both used? The first counts rows of the whole array: where one file alone is cut by "
        "it, the file's own first row has to be taken off.",
        "restore: raised": "Files may be cut in another way than `sharding` cuts: a block can be a "
        "part of one file, or have parts of several. And only files are left from `save`: does "
        "restore use anything else of it?",
        "restore: other-rows": "Are the files put together in the order of their rows? glob gives "
        "them in no particular order.",
        "restore: whole-files-alone": "These are the numbers that come if a file is used only "
        "where all of its rows are in the block. A block can also be a part of a file, or have "
        "parts of several.",
        "restore: none": "Is a return missing?",
        "dtype": "The numbers are to stay what they are.",
        "none-in-a-name": "Where rows are not cut, shard.index[0] is slice(None), whose start and "
        "stop are None. slice.indices(length) gives numbers for any slice.",
        "files-missing": "Which process holds these rows, and what does it write?",
        "no-files": "Is anything written into the folder that the function was given?",
        "restore: sorted-as-text": "The rows are in another order: that in which the files' names "
        "are sorted as text, where '12-16.npy' comes before '4-8.npy'.",
        "restore: own-array": "jax.make_array_from_callback makes an array that all processes "
        "share.",
    },
)

EXERCISES: Final = (HERE, LINES, BATCH, HOST, TRAINING, CHECKPOINT)
