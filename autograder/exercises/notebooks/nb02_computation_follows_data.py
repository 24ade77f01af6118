"""Notebook 02: what an operation does to layouts, and what it communicates.

The right answers of 2.1, 2.2, 2.4 and 2.7 are what XLA's CPU compiler does, those of 2.5 and 2.6
what JAX does. The bank has an answer to each that asks the installed JAX. If a new JAX does
better, that answer fails first: then update the table here and the notebook's prose. A TPU's
compiler (JAX 0.10.2, v5e) stays within the budgets of 2.2, 2.3 and 2.7, and gathers fewer bytes in
2.4, because it rounds the elements to bfloat16 first.
"""

from typing import Any, Final

import jax
import numpy as np

from autograder.judge import Budget, Exercise, Mistake, PlacedLike, Predicts, RunsWithinBudgets

P = jax.P

ONE_AXIS: Final = Mistake(P("x"), P("y"), P(None, "x"), P(None, "y"))
"""Specs that name one of the two axes."""

AFTER: Final = Exercise(
    id="2.1",
    title="Before and after",
    afterwards="On an Explicit mesh, `jax.typeof` shows the layout in an array's type, inside "
    "jit, too.",
    requirements=(
        *(
            Predicts(
                "layouts",
                op,
                f"the spec of {op}, where x has P('x', 'y')",
                right,
                mistakes
                | {
                    "layout-lost": Mistake(
                        P(),
                        says="A result is not gathered or replicated: each device keeps the block "
                        "that it computed.",
                    ),
                    "axis-lost": Mistake(
                        ONE_AXIS, says="Both axes shard x, and both shard the result."
                    ),
                },
            )
            for op, right, mistakes in (
                ("jnp.sin(x)", P("x", "y"), {"turned-for-nothing": P("y", "x")}),
                (
                    "x + v",
                    P("x", "y"),
                    {
                        "smaller-wins": Mistake(
                            P("y"),
                            says="v is broadcast over all rows. The result has the rank and the "
                            "layout of x.",
                        ),
                        "one-each": Mistake(
                            P(None, "y"),
                            says="Each device adds its part of v to its rows of x. The rows stay "
                            "sharded over x.",
                        ),
                        "turned-for-nothing": P("y", "x"),
                    },
                ),
                (
                    "x.T",
                    P("y", "x"),
                    {
                        "not-turned": Mistake(
                            P("x", "y"),
                            says="In a transpose the data stays on its devices, and dimension 0 "
                            "becomes dimension 1. Its mesh axis goes with it.",
                        )
                    },
                ),
                ("x[None]", P(None, "x", "y"), {"not-shifted": P("x", "y")}),
                (
                    "x.reshape(4, 4, 16)",
                    P("x", None, "y"),
                    {
                        "not-shifted": P("x", "y"),
                        "inner-part": Mistake(
                            P(None, "x", "y"),
                            says="Sixteen rows in four shards are four groups of four rows. "
                            "Sharding the outer of the two new dimensions gives these groups.",
                        ),
                        "axis-twice": Mistake(
                            P("x", "x", "y"),
                            P("x", "x", None),
                            P("x", "y", "y"),
                            says="A mesh axis can shard only one dimension of an array. Here it is "
                            "named twice.",
                        ),
                        "rows-lost": Mistake(
                            P(None, None, "y"),
                            says="x sharded the rows, and a reshape does not replicate them. The "
                            "rows are dimensions 0 and 1 now. Which of the two does x shard?",
                        ),
                    },
                ),
                (
                    "x[::-1]",
                    P("x", "y"),
                    {
                        "flip-turns": Mistake(
                            P("y", "x"),
                            says="No dimension changes its position: rows stay rows. Only the "
                            "values in each block change.",
                        )
                    },
                ),
            )
        ),
        *(
            Predicts(
                "communicates",
                op,
                f"whether {op} communicates, True or False",
                moves,
                {mistake: not moves},
            )
            for op, moves, mistake in (
                ("jnp.sin(x)", False, "elementwise-moves"),
                ("x + v", False, "broadcast-moves"),
                ("x.T", False, "transpose-moves"),
                ("x[None]", False, "elementwise-moves"),
                ("x.reshape(4, 4, 16)", False, "split-moves"),
                ("x[::-1]", True, "flip-stays"),
            )
        ),
    ),
    hints=(
        "Take one device and the block that it holds. Does it have everything it needs for its "
        "block of the result? Then nothing has to move.",
        "In a transpose, the result's block (j, i) depends only on the block (i, j), so it can "
        "stay on the same device. Which axis then shards dimension 0?",
        "Rows 0 to 3 are on devices 0 and 1. After `x[::-1]`, rows 0 to 3 are what rows 12 to 15 "
        "were, and the layout is the same as before. Which devices held those?",
    ),
    diagnoses={
        "transpose-moves": "Each device transposes the block that it has. This is another block "
        "of the result, and the result's spec says which.",
        "broadcast-moves": "Each device holds the columns of v that match its block of x: both "
        "are sharded over the same axis.",
        "not-shifted": "There is a new dimension now, and a spec has one entry for each "
        "dimension, in order. Which of the three is the new one, and what is its entry? A mesh "
        "axis stays with the data that it sharded before.",
        "turned-for-nothing": "No dimension changes its position here, so the axis that sharded "
        "dimension 0 shards dimension 0 of the result.",
        "other-prediction": "Take one device, and write down which elements of the result it can "
        "compute from what it holds. They stay there. Which mesh axis then shards which dimension?",
        "split-moves": "The first of the new dimensions has its shard boundaries where the old "
        "dimension had them.",
        "flip-stays": "The layout before and after is the same, but the last block is now the "
        "first. So the blocks change places. A layout alone does not tell you what an operation "
        "costs.",
        "elementwise-moves": "Each device has everything that it needs for its block of the "
        "result.",
    },
)

REDUCTIONS: Final = Exercise(
    id="2.2",
    title="Sums, with and without communication",
    afterwards="Each device adds up its own part first, so the all-reduce of a sum is small. That "
    "is why averaging a loss over a sharded batch costs almost nothing.",
    requirements=(
        RunsWithinBudgets(
            "quiet",
            "a sharding for which x.sum(0) communicates nothing, and all devices share the work",
            lambda x: x.sum(0),
            (((16, 16),), ((32, 64),)),
            budgets=((), ()),
        ),
        RunsWithinBudgets(
            "whole",
            "a sharding for which the result of x.sum(0) is replicated after one all-reduce, and "
            "all devices share the work",
            lambda x: x.sum(0),
            (((16, 16),), ((32, 64),)),
            budgets=((Budget("all-reduce", bytes=64),), (Budget("all-reduce", bytes=256),)),
            picture="0,1,2,3,4,5,6,7",
        ),
        *(
            Predicts(
                "bytes_reduced",
                op,
                f"the bytes that the all-reduce in {op} takes on each device, where x has "
                f"P('x', 'y')",
                right,
                mistakes,
            )
            for op, right, mistakes in (
                (
                    "x.mean(0)",
                    32,
                    {
                        "nothing-reduced": 0,
                        "whole-result": 64,
                        "other-axis": 16,
                        "elements": 8,
                        "before-summing": 128,
                        "on-the-wires": Mistake(
                            48,
                            says="This is what each of four devices sends in a ring. What counts "
                            "here is the buffer on one device.",
                        ),
                        "all-devices": Mistake(
                            256,
                            says="This is the total over all eight devices. What counts here is "
                            "one device.",
                        ),
                    },
                ),
                (
                    "x.mean(1)",
                    16,
                    {
                        "nothing-reduced": 0,
                        "whole-result": 64,
                        "other-axis": 32,
                        "elements": 4,
                        "before-summing": 128,  # or what all the devices have together
                    },
                ),
            )
        ),
    ),
    hints=(
        "`x.sum(0)` adds up each column. If a device holds complete columns, it needs nothing "
        "from the others.",
        "All eight devices must share the work. On the 4 × 2 mesh, a spec with only one axis "
        "replicates over the other, and replicas repeat the same work. An entry of a spec may be "
        "a tuple of axes.",
        "For the bytes: each device first adds up its own 4 × 8 block. How many partial sums does "
        "it have then? These are added across devices, and each has four bytes.",
    ),
    diagnoses={
        "all-reduce": "The columns are sharded, so the devices that hold parts of one have to add "
        "them up. The dimension that is summed is dimension 0.",
        "repeated-work": "The array is replicated over an axis that the spec does not name, and "
        "the replicas repeat the same work.",
        "one-device": "Seven devices have nothing to do.",
        "split-dimension": "Dimension 1 of x is sharded, so the sums are sharded, too. Expected: "
        "all sums on every device.",
        "nothing-reduced": "The dimension that is averaged is sharded, so no device holds "
        "everything that is added up.",
        "other-prediction": "Each device first adds up its own 4 × 8 block. How many partial sums "
        "does it have then, and how many bytes do they take?",
        "whole-result": "These are the bytes of the whole result. Each device reduces only the "
        "partial sums of its own columns or rows.",
        "other-axis": "x.mean(0) adds along dimension 0: a 4 × 8 block gives 8 numbers. x.mean(1) "
        "gives 4.",
        "elements": "This is the number of elements. Each has four bytes.",
        "before-summing": "This is the whole block. Each device adds up its own block first, and "
        "only the partial sums are added across devices.",
    },
)


def _product(A: Any, B: Any) -> Any:
    return A @ B


MATMULS = (((16, 16), (16, 16)), ((32, 8), (8, 64)))

QUIET_PRODUCTS: Final = Exercise(
    id="2.3",
    title="Three matmuls without communication",
    afterwards="A replicated and B sharded over its columns is the first half of a "
    "tensor-parallel layer: it needs no communication, whatever the sizes.",
    requirements=tuple(
        RunsWithinBudgets(
            answer,
            f"shardings (of A, of B) for which A @ B comes out in {form}, and nothing is "
            f"communicated",
            _product,
            MATMULS,
            budgets=((), ()),
            picture=picture,
        )
        for answer, form, picture in (
            ("into_blocks", "blocks", "0 1\n2 3\n4 5\n6 7"),
            ("into_rows", "strips of rows", "0\n1\n2\n3\n4\n5\n6\n7"),
            ("into_columns", "strips of columns", "0 1 2 3 4 5 6 7"),
        )
    ),
    hints=(
        "Element (i, j) of the product needs all of row i of A and all of column j of B. Start "
        "from the picture: which rows and which columns does device 0 need?",
        "So neither A's dimension 1 nor B's dimension 0, the contracting dimensions, may be "
        "sharded. That leaves one entry to choose in each of the two specs.",
        "A's rows become the rows of the result, and B's columns its columns. What every device "
        "needs completely has the spec P(): it is replicated.",
    ),
    diagnoses={
        "all-reduce": "The contracting dimension is sharded: each device has a partial sum of "
        "every element, and these have to be added up.",
        "all-gather": "A device needs complete rows of A and complete columns of B, and gathers "
        "what it does not hold of them. Is the contracting dimension sharded? Or does one axis "
        "shard both A's rows and B's columns?",
        "fails": "JAX refuses a matmul of an array on an Explicit mesh with one on an Auto mesh, "
        "and one whose Explicit types do not fit. Are both on the same mesh?",
        "replicated": "There is no communication, but every device computes everything.",
        "replicated-dimension": "The result is replicated over an axis that shards neither A's "
        "rows nor B's columns, and each device has more than an eighth of the work.",
        "transposed": "A's rows become the result's rows, and B's columns its columns.",
        "grid": "A's rows become the result's rows, and B's columns its columns. The axes that "
        "shard these shard the result.",
        "device-order": "In which order do the devices follow each other in the picture's blocks? "
        "In a tuple, the last axis changes fastest from block to block.",
        "number-of-shardings": "An answer is a pair: a sharding for A and one for B.",
    },
)

ROWS_OF_BINGO: Final = {
    # specs of A and B: the collective, its bytes on each device, and mistakes about these
    "P('x') @ P(None, 'y')": ("nothing", 0, {"for-nothing": 256, "whole-for-nothing": 1024}),
    "P('x') @ P('x')": (
        "all-gather",
        1024,
        {"sent-not-kept": 256, "gathered-on-the-wires": 768, "all-devices": 8192},
    ),
    "P(None, 'x') @ P('x')": (
        "all-reduce",
        1024,
        {
            "counted-twice": 2048, "own-share": 256, "reduced-on-the-wires": 1536,
            "all-devices": 8192,
        },
    ),
    "P('x', 'y') @ P('y')": (
        "all-reduce",
        256,
        {
            "counted-twice": 512, "own-block": 128, "whole-array": 1024, "elements": 64,
            "all-devices": 2048,
        },
    ),
    "P('x', 'y') @ P(None, 'y')": (
        "all-gather",
        256,
        {"whole-array": 1024, "before-the-gather": 128, "elements": 64, "all-devices": 2048},
    ),
    "P('x', 'y') @ P('x', 'y')": (
        "all-gather",
        768,
        {"only-one": 512, "only-other": 256, "elements": 192, "both-whole": 2048,
         "all-devices": 6144},
    ),
    "P('x') @ P('y')": (
        "all-reduce",
        256,
        {"counted-twice": 512, "gathers-instead": 1024, "elements": 64, "all-devices": 2048},
    ),
    "P(None, 'x') @ P(None, 'x')": (
        "all-gather",
        1024,
        {"sent-not-kept": 256, "gathered-on-the-wires": 768, "all-devices": 8192},
    ),
}  # fmt: skip


def _mistaken(row: str) -> dict[str, str]:
    """Return the diagnosis of each wrong kind of collective in a row of the table."""
    kind, _, mistaken_sizes = ROWS_OF_BINGO[row]
    wrong = {
        "nothing": {"moves-for-nothing": "all-gather", "adds-for-nothing": "all-reduce"},
        "all-gather": {"added-not-gathered": "all-reduce", "thought-quiet": "nothing"},
        "all-reduce": {"gathered-not-added": "all-gather", "thought-quiet": "nothing"},
    }
    if "gathers-instead" in mistaken_sizes:  # only one contracting dimension is sharded
        wrong["all-reduce"] = {"gathers-instead": "all-gather", "thought-quiet": "nothing"}
    return wrong[kind]


BINGO: Final = Exercise(
    id="2.4",
    title="Matmul bingo",
    afterwards="The book How to Scale Your Model sorts sharded matmuls into four cases: no "
    "contracting dimension is sharded, one is, both are, or one axis shards both outer "
    "dimensions. The rows of your table are examples.",
    requirements=(
        *(
            Predicts(
                "kinds",
                row,
                f"the kind of collective in {row}",
                kind,
                _mistaken(row),
                words=("nothing", "all-gather", "all-reduce"),
            )
            for row, (kind, _, _) in ROWS_OF_BINGO.items()
        ),
        *(
            Predicts(
                "sizes",
                row,
                f"the bytes on each device in {row}",
                size,
                (
                    {
                        "thought-it-quiet": Mistake(
                            0,
                            says="0 is for rows in which nothing moves. What does device 0 lack "
                            "for its block of the result, or which devices have the other partial "
                            "sums?",
                        )
                    }
                    if size
                    else {}
                )
                | mistakes,
            )
            for row, (_, size, mistakes) in ROWS_OF_BINGO.items()
        ),
    ),
    hints=(
        "For each pair, ask which axis shards the contracting dimension (A's dimension 1, B's "
        "dimension 0). If it is the same axis in both, each device multiplies what it has, and "
        "partial sums are added. If no axis shards it in either, nothing moves.",
        "If an axis shards it in only one matrix: does the same axis shard the other dimension of "
        "the other matrix? Then gather. If not, the other matrix can be sliced for free and "
        "partial sums added, if that moves fewer bytes.",
        "A complete matrix of this table has 16 × 16 × 4 = 1,024 bytes. Which axes still shard it "
        "after the gather? For an all-reduce: which axes shard A's rows and B's columns, and so "
        "the part of the result that a device adds up? Divide by the sizes of these axes: 4 for "
        "x, 2 for y.",
    ),
    diagnoses={
        "moves-for-nothing": "Each device has complete rows of A and complete columns of B.",
        "adds-for-nothing": "The contracting dimension is not sharded in A or in B, so there are "
        "no partial sums.",
        "gathered-not-added": "One axis shards the contracting dimension of both, so each device "
        "can multiply what it holds. What is missing then?",
        "added-not-gathered": "One axis shards the contracting dimension of one matrix, and the "
        "rows or columns that the other one gives to the result. So the devices along it compute "
        "different parts of the result, and have no sums in common.",
        "thought-quiet": "Which parts of A and B does device 0 hold? Try to compute its block of "
        "the result from these.",
        "for-nothing": "Each device has complete rows of A and complete columns of B, so nothing "
        "moves.",
        "whole-for-nothing": "Each device has complete rows of A and complete columns of B, so "
        "nothing moves, and no device needs all of a matrix.",
        "sent-not-kept": "256 is what a device held before the gather, in bytes, and also the "
        "number of elements that it holds afterwards. What counts is the buffer that the gather "
        "produces, in bytes.",
        "before-the-gather": "This is what a device held before the gather. As much arrives, and "
        "the buffer that counts holds both.",
        "gathered-on-the-wires": "This is what each device sends in a ring: three quarters of the "
        "buffer. What counts here is the buffer that the gather produces.",
        "reduced-on-the-wires": "This is what each device sends in a ring: one and a half times "
        "the buffer. What counts here is the buffer itself.",
        "all-devices": "This is the total over all eight devices. What counts here is one device.",
        "counted-twice": "An all-reduce counts once here, with the buffer that it adds up.",
        "own-block": "This is a device's block of A. What counts is what is added up: the partial "
        "sums of the result.",
        "own-share": "Each device has a partial sum for every element of the result, and all of "
        "them are added up.",
        "elements": "This is the number of elements. Each has four bytes.",
        "whole-array": "These are the bytes of a complete matrix. But the axis x shards A's rows, "
        "and so the result's rows. How many of them does one device work on?",
        "gathers-instead": "Gathering B takes the bytes of a complete matrix. Slicing A is free, "
        "and adding partial sums then costs less. How many rows of the result does one device "
        "work on?",
        "both-whole": "These are the bytes of two complete matrices. Each device needs complete "
        "rows of A and complete columns of B, but not all of them. Which axis still shards A "
        "after its gather, and which one B?",
        "only-one": "Both matrices are gathered. 512 are the bytes of B alone after its gather "
        "(and what a device sends in a ring for both).",
        "only-other": "Both matrices are gathered. 256 are the bytes of A alone after its gather "
        "(and what a device held of both before).",
        "other-prediction": "Start from the kind of collective. What is gathered or added up, and "
        "which axes still shard it? A complete matrix has 1,024 bytes.",
    },
)


def summed() -> np.ndarray:
    """Return the values of the notebook's `y + z`."""
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    return x + x * x


Y_ROWS: Final = "0\n1\n2\n3"
Z_ROWS: Final = "4\n5\n6\n7"

COMMITTED: Final = Exercise(
    id="2.5",
    title="Committed or not",
    afterwards="This matters for jit with `in_shardings`, too: an uncommitted argument is moved "
    "there, and a committed one that is elsewhere is an error.",
    requirements=(
        *(
            Predicts("committed", value, f"whether {value} is committed", right, mistakes)
            for value, right, mistakes in (
                (
                    "jnp.arange(16)",
                    False,
                    {
                        "made-is-placed": Mistake(
                            True,
                            says="It is on device 0 only because it has to be somewhere. You did "
                            "not put it there.",
                        )
                    },
                ),
                (
                    "jax.device_put(x)",
                    False,
                    {
                        "put-nowhere": Mistake(
                            True,
                            says="Without a device or a sharding, device_put does not commit the "
                            "array. It may still move.",
                        )
                    },
                ),
                (
                    "jax.device_put(x, jax.devices()[0])",
                    True,
                    {
                        "put-somewhere": Mistake(
                            False, says="A device was named, even if the array was there before."
                        )
                    },
                ),
                (
                    "jnp.sin(y)",
                    True,
                    {
                        "what-comes-of-it": Mistake(
                            False,
                            says="y was put somewhere, and what is computed from y stays there.",
                        )
                    },
                ),
                (
                    "jnp.ones_like(y)",
                    True,
                    {
                        "like-means-where": Mistake(
                            False,
                            says="In today's JAX, ones_like and similar functions use the layout "
                            "of their argument, whatever older texts say.",
                        )
                    },
                ),
                (
                    "jnp.zeros(y.shape)",
                    False,
                    {
                        "a-shape-is-no-place": Mistake(
                            True, says="A shape is two numbers and does not say where y is."
                        )
                    },
                ),
                (
                    "y + x",
                    True,
                    {
                        "one-is-enough": Mistake(
                            False,
                            says="x moves to where y is, and the result is as committed as y.",
                        )
                    },
                ),
            )
        ),
        PlacedLike(
            "here", Y_ROWS, ((16, 16),), values=summed, mistakes={"the-other-array": Z_ROWS}
        ),
        PlacedLike(
            "there", Z_ROWS, ((16, 16),), values=summed, mistakes={"the-other-array": Y_ROWS}
        ),
        PlacedLike("everywhere", "0\n1\n2\n3\n4\n5\n6\n7", ((16, 16),), values=summed),
    ),
    hints=(
        "An array is committed if you said where it must be: by `device_put` with a device or a "
        "sharding, or by a computation with such an array.",
        "`jax.device_put(z, y.sharding)` gives z the layout of y. It can move an array from any "
        "devices to any others.",
        "For everywhere, make a sharding on a mesh of all eight devices, and move both arrays "
        "there, or their sum.",
    ),
    diagnoses={
        "one-device": "device_put with a single device does not distribute an array. Did yours "
        "come back from NumPy? Then it has no layout until you give it one.",
        "devices-unused": "Every device with a number in the picture must hold a strip.",
        "devices-extra": "The sum must stay on the devices of one of the two arrays.",
        "the-other-array": "These are the devices of the other array.",
        "device-order": "In a tuple, the last axis changes fastest from block to block.",
        "replicated": "The array is replicated. Expected: different rows on each device.",
        "replicated-dimension": "The array is replicated over an axis that the spec does not "
        "name. Into how many shards do the axes that it names partition the rows?",
        "grid": "Dimension 0 must be sharded, and dimension 1 must not.",
        "values": "The result must be the sum y + z: move one of the two, then add.",
    },
)

CASES: Final = {
    "a": ("raises", "disjoint-devices"),
    "b": ("raises", "order-counts"),
    "c": ("runs", "names-must-match"),
    "d": ("runs", "forms-must-match"),
    "e": ("raises", "names-are-types"),
    "f": ("raises", "same-axis-twice"),
    "g": ("raises", "modes-mixed"),
    "h": ("runs", "uncommitted-follows"),
    "i": ("raises", "committed-stays"),
}
"""The right answer to each case of 2.6, and the diagnosis of the wrong one."""

CLINIC: Final = Exercise(
    id="2.6",
    title="The disagreement clinic",
    afterwards="The rule is about one program. Between programs, `jax.device_put` moves committed "
    "arrays, too, from any devices to any others.",
    requirements=tuple(
        Predicts(
            "diagnosis",
            case,
            f"what becomes of case {case}, 'runs' or 'raises'",
            right,
            {mistake: "raises" if right == "runs" else "runs"},
        )
        for case, (right, mistake) in CASES.items()
    ),
    hints=(
        "One program runs on one list of devices. First ask: are the two arrays on the same "
        "devices, in the same order?",
        "With Auto axes a mesh is only a way to describe a layout; the compiler sees devices and "
        "blocks. With Explicit axes the mesh, with its names, is part of the type.",
        "An uncommitted array moves to wherever it is needed. A committed one stays, on whatever "
        "device it is.",
    ),
    diagnoses={
        "disjoint-devices": "No device holds parts of both, and JAX does not move committed "
        "arrays by itself.",
        "order-counts": "These are the same devices in a different order. One program needs one "
        "order.",
        "names-must-match": "With Auto axes, names do not matter: both arrays have the same "
        "blocks on the same devices.",
        "forms-must-match": "With Auto axes, any two meshes with the same devices in the same "
        "order can be combined. The compiler moves one array to fit the other.",
        "names-are-types": "The axis names differ, and on Explicit meshes they are part of the "
        "arrays' types.",
        "same-axis-twice": "The mesh is the same, but x shards dimension 0 of one array and "
        "dimension 1 of the other, and the type of the sum would name it twice. With Auto axes "
        "this runs.",
        "modes-mixed": "An Explicit mesh is part of an array's type, so it can be combined only "
        "with itself. An Auto mesh is not, which is why c and d run.",
        "uncommitted-follows": "The second array is uncommitted, so it moves to where it is "
        "needed.",
        "committed-stays": "It was put on device 0, so it is committed there, and the other array "
        "is on eight devices.",
    },
)


def _symmetric(x: Any) -> Any:
    return x + x.T


DISASTER: Final = Exercise(
    id="2.7",
    title="The hidden disaster",
    afterwards="Your all-to-all turns rows into columns. Distributed Fourier transforms spend "
    "most of their communication on this step.",
    requirements=(
        Predicts(
            "audit",
            "bytes",
            "the bytes of all collectives in x + x.T on each device, where x has P('x', 'y')",
            2816,
            {
                "free": Mistake(
                    0,
                    says="A transpose is free and an addition is free, but this sum needs the same "
                    "array in two layouts.",
                ),
                "one-line": Mistake(
                    1024, says="There are several collectives. Add up all of them."
                ),
                "one-axis": Mistake(1536, says="These are only the collectives over x."),
                "other-axis": Mistake(1280, says="These are only the collectives over y."),
                "on-the-wires": Mistake(
                    1792,
                    says="This is what a device sends (`.sent`). What counts here are the bytes of "
                    "the buffers (`.bytes`).",
                ),
                "elements": Mistake(
                    704, says="This is the number of elements. Each has four bytes."
                ),
                "all-devices": Mistake(
                    8 * 2816,
                    says="This is the total over all eight devices. What counts here is one "
                    "device.",
                ),
            },
        ),
        Predicts(
            "audit",
            "spec",
            "the spec of x + x.T, where x has P('x', 'y')",
            P(),
            {
                "kept": Mistake(
                    P("x", "y"),
                    says="Ask the result itself. The two arguments had different layouts, and the "
                    "compiler chose neither.",
                ),
                "turned": Mistake(
                    P("y", "x"),
                    says="Ask the result itself. The two arguments had different layouts, and the "
                    "compiler chose neither.",
                ),
            },
        ),
        RunsWithinBudgets(
            "cheap",
            "a sharding for which x + x.T communicates at most 128 bytes on each device, and all "
            "devices share the work",
            _symmetric,
            (((16, 16),), ((32, 32),)),
            budgets=((Budget("all-to-all", bytes=128),), (Budget("all-to-all", bytes=512),)),
        ),
    ),
    hints=(
        "`communication(symmetric, block)` reads the compiled program, and its `.bytes` is the "
        "sum over all collectives. The result's spec is `jax.jit(symmetric)(block).sharding.spec`.",
        "If x is sharded over its rows, x.T is sharded over its columns. To turn rows into "
        "columns, each device sends a piece to each other device: an all-to-all.",
        "Both mesh axes have to shard the same dimension. Which dimension does not matter.",
    ),
    diagnoses={
        "other-prediction": "Ask the compiler: what are communication(symmetric, block).bytes and "
        "jax.jit(symmetric)(block).sharding.spec?",
        "too-many-bytes": "Are there as many shards as devices? An axis that the spec does not "
        "name replicates, so each device has larger pieces to exchange.",
        "fails": "On an Explicit mesh, x and x.T can be added only if both have the same layout. "
        "The exercise needs an Auto mesh.",
        "all-gather": "Are both dimensions of x sharded? Then a block and its transpose are on "
        "different devices, and the compiler gathers everything onto every device.",
        "repeated-work": "Replication avoids communication, but every device then does all the "
        "work. Shard x so that each of the eight devices holds a different strip.",
    },
    weights={"cheap": 2},
)

EXERCISES: Final = (AFTER, REDUCTIONS, QUIET_PRODUCTS, BINGO, COMMITTED, CLINIC, DISASTER)
