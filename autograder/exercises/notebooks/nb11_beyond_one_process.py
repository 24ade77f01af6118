"""Notebook 11: one program on several processes, each with some of the devices."""

import math
from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from autograder.judge import Exercise, Expected, Mistake, OnProcesses, Predicts
from autograder.processes import CaseArgument, ProcessCase, Spec, table_files

LINE: Final = (("x", 8),)
WIDE: Final = (("x", 4), ("y", 2))
TALL: Final = (("x", 2), ("y", 4))

SHUFFLED: Final = (0, 1, 5, 4, 3, 2, 6, 7)
"""An order of the devices in which the rows of each of two processes are not contiguous."""

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
        f"how many different numbers of an array of 16 × 8 process 1 of {processes} has, with the "
        f"spec {spec}",
        right,
        {name.replace("_", "-"): value for name, value in mistakes.items()},
    )


HERE: Final = Exercise(
    id="11.1",
    title="What a process has",
    afterwards="x.addressable_shards lists the shards that this process can read, "
    "x.is_fully_addressable says whether these are all of them, and "
    "sharding.addressable_devices_indices_map(shape) lists the blocks for an array that does not "
    "exist yet.",
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
        "Draw the mesh: four rows of two devices, in order. Which of them belong to process 1 if "
        "each of two processes has four devices? And if each of four processes has two?",
        "For each device of process 1, which block does it hold? Two devices may hold the same "
        "block, which counts once.",
        "P('y') shards the rows into two halves. In each row of the mesh, the first device has "
        "the upper half and the second device the lower half. How many rows of the mesh does one "
        "process have?",
    ),
    diagnoses={
        "other-prediction": "Which devices does process 1 have, and which block does each of them "
        "hold? Count the numbers in these blocks, each number once.",
        "one-device": "This is what one of its devices has. A process has several.",
        "one-axis": "This would be right if only one axis sharded the array, but both do. At how "
        "many positions along each axis are the devices of process 1?",
        "counts-copies": "This counts replicas, too: some devices of the process hold the same "
        "block. How many different numbers are there?",
        "fair-share": "This is an even share for each process. But the processes follow each "
        "other along the axis x, which does not shard this array.",
        "rows": "This is the number of rows of which process 1 has anything. Expected: the number "
        "of numbers. How many does it have in each of these rows?",
        "everything": "This is the whole array. Does one of the axes that shard it lead from one "
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


_NOT_AT_ALL: Final = Mistake("raises", "waits", "wrong numbers")

_OF_ONE: Final = Mistake("works", "raises", "wrong numbers")

LINES: Final = Exercise(
    id="11.2",
    title="Which lines work",
    afterwards="The rule behind the table: all processes run every computation with an array, in "
    "the same order and with the same numbers. What concerns one process only, such as printing, "
    "may differ.",
    requirements=(
        _line("print(x)", "works", prints_the_shape=_NOT_AT_ALL),
        _line(
            "np.asarray(x)",
            "raises",
            not_all_here=Mistake("works", "wrong numbers"),
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
            not_even_an_error=Mistake("raises", "waits"),
        ),
    ),
    hints=(
        "For each line: which devices does it need, and do the processes that own them run it?",
        "x.sum() adds up numbers on all devices, so all processes must run it. Its result is a "
        "scalar that is replicated on every device.",
        "Try them: put a line into a function that makes x as above, and call it with "
        "on_processes. A function that waits is ended after five seconds.",
    ),
    diagnoses={
        "prints-the-shape": "If an array is not fully addressable, print shows its shape and "
        "dtype. Every process knows these, so nothing is computed or sent. Try it.",
        "row-for-all": "Both processes run x[0], a program on all eight devices. It replicates "
        "row 0 on every device, so np.asarray can read it in each process.",
        "own-shard": "x.addressable_shards are the shards on the process's own devices, so the "
        "process can read their data. It needs nothing from the other process.",
        "not-all-here": "np.asarray needs all of x in this process's memory. Half of x is on "
        "devices that this process cannot read, and np.asarray does not communicate.",
        "no-one-waits": "np.asarray does not communicate, so there is nothing to wait for. It "
        "only reads what this process has.",
        "asked-alone": "Only the first process runs this computation, and the numbers are on the "
        "devices of both. What do the devices of the other process do meanwhile?",
        "row-is-here": "Row 0 is on a device of the first process. But x[0] is a program on all "
        "eight devices, and the other process does not run it.",
        "printing-is-free": "Both processes compute the total, so both have it. Only the printing "
        "is done by one of them.",
        "one-program": "Each process asks for a different row. But they run one program together, "
        "on all devices. Can that program return two different rows?",
        "not-even-an-error": "Both processes run the line, so neither waits, and nothing checks "
        "that both ask for the same row. Try it, and look at the numbers.",
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
    "jax.make_array_from_callback(shape, sharding, read) make the same array. The first is "
    "convenient if each process has one contiguous block, the second if it is not obvious which "
    "blocks a process needs.",
    requirements=(
        OnProcesses(
            "make_array",
            "one array with all rows of the table, laid out by the sharding",
            _batches,
            _laid_out,
        ),
    ),
    hints=(
        "No process has all rows, and none needs them: each device needs its own block. Which "
        "rows are in it?",
        "jax.make_array_from_callback(shape, sharding, read) calls read(index) for each of the "
        "process's devices. The index is a tuple of slices: the device's block.",
        "rows[index] accepts such a tuple of slices, as any NumPy array does.",
    ),
    diagnoses={
        "not-here": "The sharding decides which rows a process needs: "
        "sharding.addressable_devices_indices_map(shape) lists the blocks of its devices.",
        "own-array": "An array from jnp.asarray, or one that a process puts on its own devices, "
        "does not exist for the other processes. jax.make_array_from_process_local_data and "
        "jax.make_array_from_callback make one array for all processes.",
        "split-dimension": "Is the array laid out by the `sharding` that the function was given? "
        "A mesh that the function makes itself is a different one.",
        "replicated-dimension": "Is the array laid out by the `sharding` that the function was "
        "given? A mesh that the function makes itself is a different one.",
        "other-rows": "Does the function read by the index that the sharding has for the device, "
        "or does it count devices? And if it passes the rows of a process together: does it pass "
        "each row once, although several devices hold it, and in the table's order?",
        "nothing-but-zeros": "Are the rows read from `rows`, and put into the result?",
        "off-by-a-factor": "Is something added up or averaged that should only be put into its "
        "position?",
        "rows-exchanged": "The device has the right rows, in a different order from the table's.",
        "other-numbers": "None of the rows on this device is a row of the table. Are they read "
        "from `rows`, and left unchanged?",
        "none": "Is a return missing?",
        "raised": "jax.make_array_from_callback takes the shape of the whole array, and a "
        "function that returns the block for an index. `rows` itself is not an array, but "
        "`rows[index]` is.",
        "block-shape": "Each device needs the block of its index, `rows[index]`. This index is "
        "the argument of the function that jax.make_array_from_callback calls, and "
        "sharding.addressable_devices_indices_map(shape) lists it for each device.",
        "dtype": "The dtype must stay that of the table.",
        "shape": "Does the array's shape depend on how many rows each process passed? A process "
        "must pass the rows that its devices hold, each row once: several of its devices may hold "
        "the same block, and so may devices of two processes.",
        "values": "Which rows did that process pass, and which ones does it need?",
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
    """Return the block of each device, in the order of the devices' numbers."""
    array = case.given[0]
    sharding = jax.NamedSharding(case.mesh(), jax.P(*array.spec))
    indices = sharding.devices_indices_map(array.shape)
    table = array.values()
    return [table[indices[device]] for device in jax.devices()]


def _in_a_row(case: ProcessCase) -> tuple[np.ndarray]:
    """Concatenate the blocks of all devices along dimension 1."""
    return (np.concatenate(_blocks(case), axis=1),)


def _refilled(case: ProcessCase) -> tuple[np.ndarray]:
    """Put all blocks one after another, truncated and reshaped to the shape of the array."""
    table = _table(case)
    return (np.ravel(_blocks(case))[: table.size].reshape(table.shape),)


def _added_up(case: ProcessCase, holders: Sequence[range]) -> tuple[np.ndarray]:
    """Add up what each group of devices holds, with zeros where it holds nothing."""
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
    """Concatenate each process's blocks, and stack the results along a new dimension."""
    blocks = np.array(_blocks(case))
    return (blocks.reshape(case.processes, -1, blocks.shape[-1]),)


HOST: Final = Exercise(
    id="11.4",
    title="Everything to every host",
    afterwards="This is seldom what you want, because all of the array must fit into every host's "
    "memory. To save an array, or to look at a part of it, each process can use its own shards. A "
    "jitted identity whose result is replicated, followed by np.asarray, does the same as "
    "process_allgather(x, tiled=True).",
    requirements=(
        OnProcesses(
            "to_host",
            "a NumPy array with all of x, in every process",
            _gathers,
            lambda case: (Expected(_table(case), host=True),),
            mistakes={
                "blocks-in-a-column": Mistake(
                    lambda case: (np.concatenate(_blocks(case)),),
                    says="These are the blocks of all devices, one below another. This is x only "
                    "if its rows alone are sharded and no block is replicated. Where in x is each "
                    "block?",
                ),
                "stacked": Mistake(
                    _stacked,
                    says="These are the blocks of each process, stacked along a new dimension. x "
                    "has no such dimension.",
                ),
                "blocks-in-a-row": Mistake(
                    _in_a_row,
                    says="These are the blocks of all devices, one beside another. Where in x is "
                    "each block?",
                ),
                "blocks-refilled": Mistake(
                    _refilled,
                    says="These are the numbers of all blocks, one block after another, reshaped "
                    "to the shape of x. Where in x is each block?",
                ),
                "copies-added": Mistake(
                    lambda case: _added_up(case, [range(i, i + 1) for i in range(8)]),
                    lambda case: _added_up(case, [*map(case.devices_of, range(case.processes))]),
                    says="A replicated block is added up, once for each replica. Expected: each "
                    "block once.",
                ),
                "transposed": Mistake(lambda case: (_table(case).T,), says="This is x transposed."),
            },
        ),
    ),
    hints=(
        "np.asarray(x) works if this process can read every number. So first let every device "
        "hold all of them. This is a layout like any other, and to change a layout is a "
        "computation, in which all processes take part.",
        "A jitted function can set the layout of its result: jax.jit(f, out_shardings=…). The "
        "mesh is x.sharding.mesh.",
        "jax.experimental.multihost_utils has a function for this, process_allgather. Look up its "
        "argument tiled: without it, arrays are stacked or rejected.",
    ),
    diagnoses={
        "not-addressable": "A line that reads x, or moves it to one device, can use only the data "
        "on this process's own devices. Some of these numbers are on devices of other processes.",
        "none": "Is a return missing?",
        "not-numpy": "np.asarray makes a NumPy array if this process can read all the numbers. "
        "Shards are blocks of x: can this process read each of them, and where in x is each block?",
        "differs-between-processes": "Each process has only the numbers of its own devices. The "
        "numbers of the others must be sent: which line does that?",
        "shape": "Is this the part of one process or one device, or a sum of such parts? "
        "Expected: all of x in every process.",
        "off-by-a-factor": "Is something added up or averaged that should only be put into its "
        "position?",
        "nothing-but-zeros": "Is anything of x written into the result?",
        "other-numbers": "None of these rows is a row of x. Are the numbers read from x, and left "
        "unchanged?",
        "rows-exchanged": "These are all rows of x, in a different order. A shard's `index` is "
        "the position of its block in x. process_allgather(x, tiled=True) puts each block there.",
        "values": "Which numbers of x are these, and are they at the same positions in the result "
        "as in x?",
        "on-devices": "Every device has all of x now, so np.asarray(x) works.",
    },
)

# 11.5: the same numbers on one, two and four processes

RATE: Final = 1 / 128


def _trainings(generator: np.random.Generator) -> Sequence[ProcessCase]:
    steps = 2 * int(generator.integers(2, 4))
    # Four processes have other batches, so that no answer may know their size or number. One and
    # two have the same, so that only the number of processes differs between them.
    return (
        _training(generator, 1, 24, steps),
        _training(generator, 2, 24, steps),
        _training(generator, 4, 16, 9 - steps),
    )


def _training(
    generator: np.random.Generator, processes: int, batch: int, steps: int
) -> ProcessCase:
    given = (
        CaseArgument("mesh"),
        CaseArgument("values", (4,), seed=_seed(generator)),
        CaseArgument("rows", (steps * batch, 5), ("x",), _seed(generator), batch),
        CaseArgument("number", number=batch),
    )
    return ProcessCase(processes, LINE, given)


def _batches_of(case: ProcessCase) -> np.ndarray:
    _, _, rows, size = case.given
    return rows.values().astype(np.float64).reshape(-1, size.number, 5)


def _batches_apart(case: ProcessCase) -> list[np.ndarray]:
    """Return, for each process, the rows of each batch that it can read."""
    return np.split(_batches_of(case), case.processes, axis=1)


def _first_again(case: ProcessCase) -> np.ndarray:
    """Return the first batch, repeated as often as there are batches."""
    batches = _batches_of(case)
    return np.repeat(batches[:1], len(batches), axis=0)


def _all_each_time(case: ProcessCase) -> np.ndarray:
    """Return all rows, repeated for each step."""
    batches = _batches_of(case)
    return np.repeat(batches.reshape(1, -1, 5), len(batches), axis=0)


def _at_once(case: ProcessCase) -> np.ndarray:
    """Return all rows as one batch."""
    return _batches_of(case).reshape(1, -1, 5)


def _trained(
    case: ProcessCase,
    steps: int | None = None,
    rate: float = RATE,
    batches: np.ndarray | None = None,
) -> np.ndarray:
    """Return the weights after `steps` steps, by default one on each batch of the table."""
    w = case.given[1].values().astype(np.float64)
    batches = _batches_of(case) if batches is None else batches
    for batch in batches[:steps]:
        x, y = batch[:, :4], batch[:, 4]
        w = w - rate * 2 * x.T @ (x @ w - y) / len(x)
    return w


def _by_sixteen(case: ProcessCase, steps: int | None = None) -> np.ndarray:
    """Return the weights after `steps` steps on 16 rows each, by default on all rows."""
    batches = _batches_of(case).reshape(-1, 16, 5)
    return _trained(case, steps, batches=batches)


def _from_the_start(case: ProcessCase) -> np.ndarray:
    """Return the weights after steps that all use the gradients at the initial weights."""
    start = _trained(case, 0)
    changes = [_trained(case, batches=batch[None]) - start for batch in _batches_of(case)]
    return np.asarray(start + np.sum(changes, axis=0))


def _gradients_for_weights(case: ProcessCase) -> np.ndarray:
    """Return the weights if each step returns its gradient as the new weights."""
    w = case.given[1].values().astype(np.float64)
    for batch in _batches_of(case):
        x, y = batch[:, :4], batch[:, 4]
        w = 2 * x.T @ (x @ w - y) / len(x)
    return w


TRAINING: Final = Exercise(
    id="11.5",
    title="The same numbers on one, two and four processes",
    afterwards="You can write it without mentioning processes. This is what one program on all "
    "devices means: the sharding decides which process holds which rows, and the compiler inserts "
    "the all-reduce of the gradient.",
    requirements=(
        OnProcesses(
            "train",
            "the weights after a step on each batch, the same in every process",
            _trainings,
            lambda case: (Expected(_trained(case)),),
            mistakes={
                "one-step-less": Mistake(
                    lambda case: (_trained(case, -1),),
                    says="These are the weights one step too early.",
                ),
                "one-step": Mistake(
                    lambda case: (_trained(case, 1),),
                    says="These are the weights after the first step.",
                ),
                "not-trained": Mistake(
                    lambda case: (_trained(case, 0),),
                    says="These are the initial weights. Is the new value kept?",
                ),
                "first-batch-again": Mistake(
                    lambda case: (_trained(case, batches=_first_again(case)),),
                    says="These are the weights after the right number of steps, all on the first "
                    "batch. Which rows are read in the second step?",
                ),
                "sixteen-rows": Mistake(
                    *(
                        lambda case, steps=steps: (_by_sixteen(case, steps),)
                        for steps in (None, 3, 4, 5)
                    ),
                    says="These are the weights after steps on 16 rows each. There were as many "
                    "in the example, but `batch` is another number here.",
                ),
                "all-rows-each-time": Mistake(
                    lambda case: (_trained(case, batches=_all_each_time(case)),),
                    says="Each step uses all rows of the table instead of those of its batch.",
                ),
                "one-large-batch": Mistake(
                    lambda case: (_trained(case, batches=_at_once(case)),),
                    says="These are the weights after one step on all rows at once.",
                ),
                "eight-times": Mistake(
                    lambda case: (_trained(case, rate=8 * RATE),),
                    says="The steps are eight times too large, and there are eight devices. Is "
                    "something added up over them that should be averaged?",
                ),
                "uphill": Mistake(
                    lambda case: (_trained(case, rate=-RATE),),
                    says="Each step goes up the gradient instead of down.",
                ),
                "gradients-at-the-start": Mistake(
                    lambda case: (_from_the_start(case),),
                    says="These are the weights if every step takes its gradient at the initial "
                    "weights. At which weights should the second step take it?",
                ),
                "last-batch-first": Mistake(
                    lambda case: (_trained(case, batches=_batches_of(case)[::-1]),),
                    says="These are the weights after a step on each batch in the opposite order, "
                    "the last one first.",
                ),
                "last-batch-alone": Mistake(
                    lambda case: (_trained(case, batches=_batches_of(case)[-1:]),),
                    says="These are the weights after one step, on the last batch, from the "
                    "initial weights. What happens to the steps before it?",
                ),
                "first-batch-skipped": Mistake(
                    lambda case: (_trained(case, batches=_batches_of(case)[1:]),),
                    says="These are the weights without the step on the first batch.",
                ),
                "two-steps-each": Mistake(
                    lambda case: (_trained(case, batches=np.repeat(_batches_of(case), 2, axis=0)),),
                    says="These are the weights after two steps on each batch.",
                ),
                "gradient-alone": Mistake(
                    lambda case: (_gradients_for_weights(case),),
                    says="Each step returns the gradient. The new weights are the old ones minus "
                    "RATE times the gradient.",
                ),
                "rate-forgotten": Mistake(
                    lambda case: (_trained(case, rate=1),),
                    says="These are the weights after steps with a rate of 1 instead of RATE.",
                ),
                "an-eighth": Mistake(
                    lambda case: (_trained(case, rate=RATE / 8),),
                    says="The steps are an eighth as large as expected. Is the gradient divided by "
                    "the number of devices once too often?",
                ),
                "divided-by-the-batch": Mistake(
                    lambda case: (_trained(case, rate=RATE / case.given[3].number),),
                    says="The steps are too small by the number of rows in a batch. Is a mean "
                    "divided by it again?",
                ),
                "sum-of-rows": Mistake(
                    lambda case: (_trained(case, rate=RATE * case.given[3].number),),
                    says="The steps are too large by the number of rows in a batch. Is the loss a "
                    "mean there, or a sum?",
                ),
                "sum-of-processes": Mistake(
                    lambda case: (_trained(case, rate=RATE * case.processes),),
                    says="The steps are too large by the number of processes. Are gradients added "
                    "up over them that should be averaged?",
                ),
                "averaged-at-the-end": Mistake(
                    lambda case: (
                        np.mean([_trained(case, batches=b) for b in _batches_apart(case)], axis=0),
                    ),
                    says="This is the average of the weights that each process has if it trains on "
                    "its own rows to the end. After the first step their weights differ, and the "
                    "next gradients are those of different weights. Each step needs the gradient "
                    "of its whole batch.",
                ),
                "one-process-alone": Mistake(
                    lambda case: (_trained(case, batches=_batches_apart(case)[0]),),
                    says="These are the weights that follow from the rows of process 0 alone. Each "
                    "step needs the gradient of its whole batch.",
                ),
            },
        ),
    ),
    hints=(
        "Batch number k is rows k * batch to (k + 1) * batch of the table. Each process can read "
        "those of them that its devices hold if the batch is sharded over x.",
        "make_array from 11.3 makes one array of a complete table. Here you need a part of the "
        "table: the rows of a block are k * batch further down.",
        "If the batch is one array, step is the same as on one process: "
        "jax.jit(jax.grad(loss))(w, batch) is the gradient over all of its rows, on every device.",
    ),
    diagnoses={
        "not-here": "Of each batch, a process can read only the rows that its devices hold if the "
        "batch is sharded over x. The other processes read the others.",
        "differs-between-processes": "Each process computed different weights. Did each take the "
        "gradient of its own rows only? Expected: the gradient of the whole batch.",
        "only-on-one-process": "So something depends on the number of processes. Is there a "
        "division, or a number of rows, that does?",
        "values": "Which rows does each step use, at which weights is its gradient taken, and how "
        "far does it go?",
        "none": "Is a return missing?",
        "number-of-results": "Expected: the weights alone.",
    },
)

# 11.6: a checkpoint


def _count(case: ProcessCase, spec: Spec) -> int:
    """Return the number of blocks of rows that a spec makes."""
    sizes, rows = dict(case.axes), spec[0]
    names = rows if isinstance(rows, tuple) else (rows,)
    return math.prod(sizes[name] for name in names if name)


def _saves(generator: np.random.Generator) -> Sequence[ProcessCase]:
    def case(axes: Axes, spec: Spec, processes: int = 2) -> ProcessCase:
        shape = (8 * int(generator.integers(2, 5)), 4)
        array = CaseArgument("array", shape, spec, _seed(generator))
        return ProcessCase(processes, axes, (CaseArgument("folder"), array))

    return (
        case(LINE, ("x",)),
        case(WIDE, ("x",)),
        case(WIDE, ("y",)),
        case(TALL, (("x", "y"),)),
        case(WIDE, (None,)),  # one block, replicated on every device
        case(TALL, ("y",), 4),  # two replicas of each block, in different processes
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
        case(2, LINE, ("x",), 3),  # blocks inside a file, and blocks that are in two files
        case(2, WIDE, (None, "x"), 8),  # all files in each block, whose names are not in order
    )


def _in_order_of_text(case: ProcessCase) -> tuple[np.ndarray]:
    files = table_files(_table(case), case.given[0].number)
    return (np.concatenate([files[name] for name in sorted(files)]),)


def _blocks_in_order_of_text(case: ProcessCase) -> tuple[np.ndarray]:
    """Return the array if each block has the parts of its files in the order of their names."""
    table, blocks = _table(case), _count(case, case.given[1].spec)
    size = len(table) // blocks
    files = table_files(np.arange(len(table)), case.given[0].number)
    numbers = np.concatenate([files[name] for name in sorted(files)])
    return (table[np.concatenate([numbers[numbers // size == i] for i in range(blocks)])],)


def _of_whole_files(case: ProcessCase) -> tuple[np.ndarray]:
    """Return the rows of files that are completely inside a block, and zeros elsewhere."""
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
    "that can be read in any layout. Each process writes the blocks that it holds, and of several "
    "replicas the one with replica_id 0.",
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
                "sorted-as-text": Mistake(_in_order_of_text, _blocks_in_order_of_text),
                "whole-files-alone": _of_whole_files,
            },
        ),
    ),
    hints=(
        "For saving: x.addressable_shards lists the blocks that this process can read. "
        "shard.index says which rows they are, shard.data has their values, and the replicas of a "
        "block have different numbers: `shard.replica_id`.",
        "For restoring, jax.make_array_from_callback(shape, sharding, read) asks for blocks, each "
        "by a tuple of slices. A block may be in several files, and may need only a part of each.",
        "The simplest read concatenates all files in the right order and returns whole[index]. "
        "The order is that of numbers: sorted as text, '12-16.npy' comes before '4-8.npy'.",
    ),
    diagnoses={
        "written-twice": "If a block is replicated, one replica must be written, and all "
        "processes must choose the same one. shard.replica_id numbers them.",
        "waits": "Each process saves on its own: it can read shard.data, and needs nothing from "
        "the others. A computation with x must be run by all processes.",
        "restore: file-not-found": "The files may have other blocks than `sharding` makes, so you "
        "cannot get their names from it. List the files that are there.",
        "restore: block-shape": "JAX gives both shapes: the one that it expected, and the one that "
        "came. Is the number of columns wrong? An index has two slices here, one for rows and one "
        "for columns. Is the number of rows wrong? A block may need rows of several files. The "
        "slice counts rows of the whole array, so for a single file subtract the file's own first "
        "row. If that makes the start negative, NumPy counts from the end.",
        "restore: raised": "The files may have other blocks than `sharding` makes: a block can be "
        "a part of one file, or have parts of several. Are all files of a block found? And if "
        "restore uses a name that save made: of `save`, only the files are left.",
        "restore: other-rows": "Are the files put together in the order of their rows? glob "
        "returns them in no particular order.",
        "restore: rows-exchanged": "The block has its own rows, in another order. Are the parts of "
        "a block put together in the order of their rows? glob returns files in no particular "
        "order.",
        "restore: whole-files-alone": "This is the result if a file is used only when all of its "
        "rows are in the block. A block can also be a part of a file, or have parts of several.",
        "restore: none": "Is a return missing?",
        "dtype": "The dtype must not change.",
        "none-in-a-name": "If rows are not sharded, shard.index[0] is slice(None), whose start "
        "and stop are None. slice.indices(length) gives numbers for any slice.",
        "files-missing": "Which process holds these rows, and what does it write?",
        "no-files": "Is anything written into the folder that the function was given?",
        "restore: sorted-as-text": "The rows are in a different order: the order of the files' "
        "names as text, in which '12-16.npy' comes before '4-8.npy'.",
        "restore: own-array": "jax.make_array_from_callback makes one array for all processes.",
    },
)

EXERCISES: Final = (HERE, LINES, BATCH, HOST, TRAINING, CHECKPOINT)
