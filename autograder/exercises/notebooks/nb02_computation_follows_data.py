"""Notebook 02: what an operation does to layouts, and what it communicates.

A note for maintainers: the tables of 2.1, 2.2, 2.4 and 2.7 say what XLA's CPU compiler does, those
of 2.5 and 2.6 what JAX does. For each of them the bank has an answer that asks, on the JAX that
runs; where a new one does better, that answer fails first: update the table, and the notebook's
words about it. A TPU's compiler (JAX 0.10.2, v5e) stays within the budgets of 2.2, 2.3 and 2.7, and
gathers fewer bytes in 2.4: it rounds what it multiplies to bfloat16 first.
"""

from typing import Any, Final

import jax
import numpy as np

from autograder.judge import AnyOf, Budget, Exercise, Feeds, PlacedLike, Predicts

P = jax.P

ONE_AXIS: Final = AnyOf((P("x"), P("y"), P(None, "x"), P(None, "y")))
"""Specs that name one of the two axes."""

AFTER: Final = Exercise(
    id="2.1",
    title="Before and after",
    afterwards="On an Explicit mesh you need not predict: `jax.typeof` shows the layout in an "
    "array's type, inside jit too.",
    requirements=(
        *(
            Predicts(
                "layouts",
                op,
                f"the spec of {op}, where x has P('x', 'y')",
                right,
                mistakes | {"layout-lost": P(), "axis-lost": ONE_AXIS},
            )
            for op, right, mistakes in (
                ("jnp.sin(x)", P("x", "y"), {"turned-for-nothing": P("y", "x")}),
                (
                    "x + v",
                    P("x", "y"),
                    {
                        "smaller-wins": P("y"),
                        "one-each": P(None, "y"),
                        "turned-for-nothing": P("y", "x"),
                    },
                ),
                ("x.T", P("y", "x"), {"not-turned": P("x", "y")}),
                ("x[None]", P(None, "x", "y"), {"not-shifted": P("x", "y")}),
                (
                    "x.reshape(4, 4, 16)",
                    P("x", None, "y"),
                    {
                        "not-shifted": P("x", "y"),
                        "inner-part": P(None, "x", "y"),
                        "axis-twice": AnyOf(
                            (P("x", "x", "y"), P("x", "x", None), P("x", "y", "y"))
                        ),
                        "rows-lost": P(None, None, "y"),
                    },
                ),
                ("x[::-1]", P("x", "y"), {"flip-turns": P("y", "x")}),
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
        "Take one device and the block that it holds. Does it have all it needs for its block of "
        "the result? Then nothing has to move.",
        "For a transpose: the result's block (j, i) is made of the block (i, j) alone, so it can "
        "stay on the same device. Which axis then lies along dimension 0?",
        "Rows 0 to 3 are on devices 0 and 1. After `x[::-1]`, rows 0 to 3 are what rows 12 to 15 "
        "were, and the layout is the same as before. Who had those?",
    ),
    diagnoses={
        "not-turned": "Nothing moves in a transpose: the data stays where it is, and what was "
        "dimension 0 is dimension 1 now. So its axis goes along.",
        "transpose-moves": "Each device transposes the block that it has. Its block of the result "
        "is another one, and the spec says which.",
        "smaller-wins": "v is spread over all rows; the result has the rank and the layout of x.",
        "one-each": "What each device adds to its rows of x are its columns of v: the rows stay "
        "cut along x.",
        "broadcast-moves": "Each device holds the columns of v that go with its block of x: they "
        "are laid out along the same axis.",
        "not-shifted": "There is a new dimension now, and a spec has an entry for each, in order. "
        "Which of the three is the new one, and what does its entry say? The axes stay with the "
        "data that they cut before.",
        "layout-lost": "A result is not collected or copied: each device keeps the block that it "
        "computed.",
        "axis-lost": "Both axes shard x, and both shard the result.",
        "turned-for-nothing": "No dimension changes its place here: what cut dimension 0 before "
        "cuts dimension 0 of the result.",
        "other-prediction": "Take one device, and write down which elements of the result it can "
        "make of what it holds: those stay there. Which mesh axis then cuts which dimension?",
        "axis-twice": "An axis can shard one dimension of an array only. Here it is named twice.",
        "rows-lost": "x sharded the rows, and a reshape does not replicate them. The rows are "
        "dimensions 0 and 1 now: which of the two does x shard?",
        "inner-part": "Sixteen rows cut into four are four groups of four: a cut of the outer of "
        "the two new dimensions.",
        "split-moves": "The first of the new dimensions is cut just where the old one was.",
        "flip-turns": "No dimension changes its place: rows stay rows. What changes is which "
        "numbers a block holds.",
        "flip-stays": "The layout before and after is the same, and so the blocks have to change "
        "places: what was last is first now. A layout alone does not tell you what an operation "
        "cost.",
        "elementwise-moves": "What each device needs for its block of the result, it has.",
    },
)

REDUCTIONS: Final = Exercise(
    id="2.2",
    title="Sums, with and without communication",
    afterwards="Each device adds up its own part first, so the all-reduce of a sum is small. That "
    "is why the loss of a batch that is cut over many devices costs almost nothing to "
    "average.",
    requirements=(
        Feeds(
            "quiet",
            "a sharding for which x.sum(0) communicates nothing, and all devices share the work",
            lambda x: x.sum(0),
            (((16, 16),), ((32, 64),)),
            budgets=((), ()),
        ),
        Feeds(
            "whole",
            "a sharding for which x.sum(0) ends up whole on every device after one all-reduce, and "
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
                        "on-the-wires": 48,
                        "all-devices": 256,
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
        "`x.sum(0)` adds up what stands in a column. If a column is whole on one device, that "
        "device needs nothing from the others.",
        "All eight devices should share the work. On the 4 × 2 mesh a spec that names one "
        "axis makes copies along the other, and copies do the same work twice. An entry of a spec "
        "may be a tuple of axes.",
        "For the bytes: each device first adds up its own block of 4 × 8. How many partial sums "
        "does it hold then? It is these that are added across devices, four bytes each.",
    ),
    diagnoses={
        "all-reduce": "Columns that are cut have to be added across the devices that hold their "
        "parts: the dimension that is summed is dimension 0.",
        "repeated-work": "An axis that the spec does not name makes copies.",
        "one-device": "Seven devices wait.",
        "split-dimension": "If dimension 1 of x is cut, the sums stay cut; here every device "
        "should have all of them.",
        "nothing-reduced": "The dimension that is averaged is cut, so no device holds all of what "
        "is added up.",
        "on-the-wires": "That is what each of four devices sends in a ring. What counts here is "
        "the buffer on each device that is added up.",
        "all-devices": "That is what all eight devices have together; what counts here is one "
        "device.",
        "other-prediction": "Each device first adds up its own block of 4 × 8. How many partial "
        "sums does it then hold, and how many bytes do they take?",
        "whole-result": "These are the bytes of the whole result. Each device reduces only the "
        "part that its own columns or rows give.",
        "other-axis": "x.mean(0) adds along dimension 0: of a block of 4 × 8, 8 numbers remain. "
        "x.mean(1) leaves 4.",
        "elements": "That is the number of elements; each takes four bytes.",
        "before-summing": "That is the whole block. Each device adds up its own first, and only "
        "what remains is added across devices.",
    },
)


def _product(A: Any, B: Any) -> Any:  # noqa: N803  as the notebook has them
    return A @ B


MATMULS = (((16, 16), (16, 16)), ((32, 8), (8, 64)))

QUIET_PRODUCTS: Final = Exercise(
    id="2.3",
    title="Three products without communication",
    afterwards="A on every device and B in strips of columns is the first half of a "
    "tensor-parallel layer: without communication, whatever the sizes.",
    requirements=tuple(
        Feeds(
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
        "Element (i, j) of the product needs row i of A and column j of B, each whole. Start from "
        "the picture: which rows and which columns does device 0 need?",
        "So neither A's dimension 1 nor B's dimension 0, the two that are multiplied and added "
        "up, may be cut. That leaves one entry to choose in each of the two specs.",
        "A's rows become the rows of the result, B's columns its columns. What every device needs "
        "is laid out by P(): a copy on each device.",
    ),
    diagnoses={
        "all-reduce": "The contracted dimension is cut: each device gets only a part of every sum, "
        "and the parts have to be added up.",
        "all-gather": "A device needs whole rows of A and whole columns of B; what it does not "
        "hold of them, it has to fetch. Is the contracted dimension sharded? Or does one axis "
        "shard both A's rows and B's columns?",
        "fails": "A product of an array on an Explicit mesh with one on an Auto mesh is refused, "
        "and so is one whose Explicit types do not go together. Are both on the same mesh?",
        "replicated": "There is no communication, but every device computes everything.",
        "replicated-dimension": "An axis that cuts neither A's rows nor B's columns makes copies "
        "of the result, and each device then has more than an eighth of the work to do.",
        "transposed": "A's rows become the result's rows, and B's columns its columns.",
        "grid": "A's rows become the result's rows, and B's columns its columns: what cuts these "
        "cuts the result.",
        "device-order": "In which order do the blocks of the picture go through the devices? Where "
        "an entry is a tuple, its last name changes fastest from block to block.",
        "number-of-shardings": "An answer is a pair: a sharding for A, and one for B.",
    },
)

ROWS_OF_BINGO: Final = {
    # what A and B are laid out by: the collective, its bytes on each device, mistakes about them
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
    """What each wrong kind of collective shows of a row of the table."""
    kind, _, mistaken_sizes = ROWS_OF_BINGO[row]
    wrong = {
        "nothing": {"moves-for-nothing": "all-gather", "adds-for-nothing": "all-reduce"},
        "all-gather": {"added-not-gathered": "all-reduce", "thought-quiet": "nothing"},
        "all-reduce": {"gathered-not-added": "all-gather", "thought-quiet": "nothing"},
    }
    if "gathers-instead" in mistaken_sizes:  # only one of the two is cut where they meet
        wrong["all-reduce"] = {"gathers-instead": "all-gather", "thought-quiet": "nothing"}
    return wrong[kind]


BINGO: Final = Exercise(
    id="2.4",
    title="Matmul bingo",
    afterwards="The book How to Scale Your Model sorts sharded products into four cases (nothing "
    "contracted is cut, one factor is, both are, one axis cuts both outer dimensions), and "
    "your rows are examples of them.",
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
                ({"thought-it-quiet": 0} if size else {}) | mistakes,
            )
            for row, (_, size, mistakes) in ROWS_OF_BINGO.items()
        ),
    ),
    hints=(
        "Ask of each pair: along which axis is the contracted dimension cut (A's dimension 1, B's "
        "dimension 0)? By the same axis in both: each device multiplies what it has, and the parts "
        "are added. If no axis cuts it in either, nothing moves.",
        "If an axis cuts it in one of the two only: does the same axis cut a surviving dimension "
        "of the other? Then gather. If not, the other can be sliced to fit, for free, and the "
        "parts are added, if that moves fewer bytes.",
        "A whole array of this table has 16 × 16 × 4 = 1,024 bytes. Which axes still cut the array "
        "after the gather? For an all-reduce: which axes cut A's rows and B's columns, and so the "
        "part of the result that a device adds up? Divide by the sizes of these axes: 4 for x, 2 "
        "for y.",
    ),
    diagnoses={
        "moves-for-nothing": "Each device has whole rows of A and whole columns of B.",
        "adds-for-nothing": "The contracted dimension is whole in A and in B: no sum is in parts.",
        "gathered-not-added": "One axis shards the contracted dimension of both, so each device "
        "can multiply what it holds. What is missing then?",
        "added-not-gathered": "One axis shards the contracted dimension of one array, and the rows "
        "or columns that the other gives to the result. So the devices along it compute different "
        "parts of the result, and have no sums in common.",
        "thought-quiet": "Which parts of A and of B does device 0 hold? Try to compute its block "
        "of the result from these.",
        "thought-it-quiet": "0 is for where nothing moves. What does device 0 lack for its block "
        "of the result, or who has the other parts of its sums?",
        "for-nothing": "Each device has whole rows of A and whole columns of B, so nothing moves.",
        "whole-for-nothing": "Each device has whole rows of A and whole columns of B, so nothing "
        "moves, and no device needs all of an array.",
        "sent-not-kept": "256 is what a device held before the gather, in bytes, and also the "
        "number of elements that it holds after it. What counts is the buffer that the gather "
        "leaves behind, in bytes.",
        "before-the-gather": "That is what a device held before; as much comes in, and what "
        "counts is the buffer that holds both.",
        "gathered-on-the-wires": "That is what each device sends in a ring: three quarters of the "
        "buffer. What counts here is the buffer that the gather leaves behind.",
        "reduced-on-the-wires": "That is what each device sends in a ring: one and a half times "
        "the buffer. What counts here is what is added up: the buffer.",
        "all-devices": "That is what all eight devices have together; what counts here is one "
        "device.",
        "counted-twice": "An all-reduce counts once here, with the buffer that is added up, though "
        "it is made of two halves.",
        "own-block": "That is a device's block of A. What counts is what is added up: the partial "
        "sums for the result.",
        "own-share": "Each device has a partial sum for every element of the result, and all of "
        "them are added up.",
        "elements": "That is the number of elements; each takes four bytes.",
        "whole-array": "Those are the bytes of a whole array. But the axis x shards A's rows, and "
        "so the result's: how many of these rows does one device work on?",
        "gathers-instead": "To gather B takes the bytes of a whole array. It costs less to slice "
        "A, which is free, to multiply, and to add partial sums: how many rows of the result does "
        "one device work on?",
        "both-whole": "Those are the bytes of both arrays whole. Each device needs whole rows of "
        "A and whole columns of B, but not all of them: which axis still shards A after its "
        "gather, and which one B?",
        "only-one": "Both arrays are gathered. 512 are the bytes of B alone, afterwards (and what "
        "a device sends in a ring, for both).",
        "only-other": "Both arrays are gathered. 256 are the bytes of A alone, afterwards (and "
        "what a device held of both before).",
        "other-prediction": "Start from the kind of collective. What is gathered, or added up, and "
        "which axes still shard that? A whole array has 1,024 bytes.",
    },
)


def summed() -> np.ndarray:
    """What the notebook's `y + z` has to hold."""
    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    return x + x * x


Y_ROWS: Final = "0\n1\n2\n3"
Z_ROWS: Final = "4\n5\n6\n7"

COMMITTED: Final = Exercise(
    id="2.5",
    title="Committed or not",
    afterwards="It matters for jit with `in_shardings`, too: an uncommitted argument is moved to "
    "where they say, and a committed one that is elsewhere is an error.",
    requirements=(
        *(
            Predicts("committed", value, f"whether {value} is committed", right, mistakes)
            for value, right, mistakes in (
                ("jnp.arange(16)", False, {"made-is-placed": True}),
                ("jax.device_put(x)", False, {"put-nowhere": True}),
                ("jax.device_put(x, jax.devices()[0])", True, {"put-somewhere": False}),
                ("jnp.sin(y)", True, {"what-comes-of-it": False}),
                ("jnp.ones_like(y)", True, {"like-means-where": False}),
                ("jnp.zeros(y.shape)", False, {"a-shape-is-no-place": True}),
                ("y + x", True, {"one-is-enough": False}),
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
        "An array is committed if somebody said where it is to be: `device_put` with a place, or a "
        "computation on an array that was.",
        "`jax.device_put(z, y.sharding)` lays z out as y is. It may move an array from any devices "
        "to any others.",
        "For everywhere, a mesh of all eight is needed; both arrays go onto it, or their sum does.",
    ),
    diagnoses={
        "made-is-placed": "It is on device 0 only because it has to be somewhere; you did not "
        "place it there.",
        "what-comes-of-it": "y was placed, and what is computed from it stays with it.",
        "put-nowhere": "device_put without a place promises nothing: the array may still go "
        "wherever a computation needs it.",
        "put-somewhere": "A place was named, even if it is the one where the array was anyway.",
        "like-means-where": "In today's JAX, ones_like and its kin take the layout of their "
        "argument too, whatever older texts say.",
        "a-shape-is-no-place": "A shape is two numbers; nothing in it says where y is.",
        "one-is-enough": "x goes to where y is, and the result is as committed as y.",
        "one-device": "device_put to a single device does not spread an array. Did yours come "
        "back from NumPy? Then it has no layout until you give it one.",
        "devices-unused": "Every device that has a number in the picture is to hold a strip.",
        "devices-extra": "It was to stay on the devices of one of the two arrays.",
        "the-other-array": "Those are the devices of the other array.",
        "device-order": "Where an entry of a spec is a tuple, its last name changes fastest from "
        "block to block.",
        "replicated": "The array is replicated; expected a different strip of rows on each.",
        "replicated-dimension": "Along an axis that the spec does not name, devices hold copies. "
        "Into how many strips do the axes that it names cut the rows?",
        "grid": "Strips of rows mean that dimension 0 is cut and dimension 1 is whole.",
        "values": "The result has to be the sum y + z: move one of the two, then add.",
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
"""What becomes of each case of the notebook's clinic, and what the other answer shows."""

CLINIC: Final = Exercise(
    id="2.6",
    title="The disagreement clinic",
    afterwards="The rule is about one program. Between programs, `jax.device_put` moves committed "
    "arrays too, from any devices to any others.",
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
        "One program runs on one list of devices. Ask first: do the two arrays live on the same "
        "devices, in the same order?",
        "With Auto axes a mesh is only a way to write a layout down; the compiler sees devices "
        "and blocks. With Explicit axes the mesh, with its names, is part of the type.",
        "An array that was never placed goes wherever it is needed. One that was placed, on "
        "whatever device, stays.",
    ),
    diagnoses={
        "disjoint-devices": "No device holds parts of both, and JAX does not move committed arrays "
        "on its own.",
        "order-counts": "These are the same devices, in a different order; one program needs one "
        "order.",
        "names-must-match": "With Auto axes names are only names: both arrays are cut into the "
        "same blocks, on the same devices.",
        "forms-must-match": "With Auto axes any two meshes of the same devices in the same order "
        "go together; the compiler moves one array to fit the other.",
        "names-are-types": "The axis names differ, and on Explicit meshes they are part of the "
        "arrays' types.",
        "same-axis-twice": "The mesh is the same, but x cuts dimension 0 of the one and dimension "
        "1 of the other; the type of the sum would have it twice. With Auto axes it would run.",
        "modes-mixed": "An Explicit mesh is part of an array's type, so it goes only with itself. "
        "Auto meshes are no part of it, which is why c and d run.",
        "uncommitted-follows": "The second array was never placed, so it goes where it is needed.",
        "committed-stays": "It was placed on device 0 on purpose, as far as JAX knows, and the "
        "other array is on eight.",
    },
)


def _symmetric(x: Any) -> Any:
    return x + x.T


DISASTER: Final = Exercise(
    id="2.7",
    title="The hidden disaster",
    afterwards="You turned strips by an all-to-all. It is also the step on which distributed "
    "Fourier transforms spend most of their communication.",
    requirements=(
        Predicts(
            "audit",
            "bytes",
            "the bytes of all collectives in x + x.T on each device, where x has P('x', 'y')",
            2816,
            {
                "free": 0,
                "one-line": 1024,
                "one-axis": 1536,
                "other-axis": 1280,
                "on-the-wires": 1792,
                "elements": 704,
                "all-devices": 8 * 2816,
            },
        ),
        Predicts(
            "audit",
            "spec",
            "the spec of x + x.T, where x has P('x', 'y')",
            P(),
            {"kept": P("x", "y"), "turned": P("y", "x")},
        ),
        Feeds(
            "cheap",
            "a sharding for which x + x.T communicates at most 128 bytes on each device, and all "
            "devices share the work",
            _symmetric,
            (((16, 16),), ((32, 32),)),
            budgets=((Budget("all-to-all", bytes=128),), (Budget("all-to-all", bytes=512),)),
        ),
    ),
    hints=(
        "`communication(symmetric, block)` reads the program, and its `.bytes` adds up what all "
        "collectives move. `symmetric(block).sharding.spec` is the spec of the result.",
        "Where x is cut into strips, x.T is cut into strips the other way. To turn rows into "
        "columns each device sends a piece of its strip to each other: an all-to-all.",
        "Both axes of the mesh have to cut the same dimension; which one does not matter.",
    ),
    diagnoses={
        "free": "A transpose is free and an addition is free, but here they want the same array in "
        "two layouts.",
        "one-line": "There are several collectives; add up all of them.",
        "one-axis": "These are the collectives over x alone.",
        "other-axis": "These are the collectives over y alone.",
        "kept": "Ask the result itself. Two layouts met, and the compiler chose neither.",
        "turned": "Ask the result itself. Two layouts met, and the compiler chose neither.",
        "on-the-wires": "That is what a device puts on its wires (`.sent`). What counts here are "
        "the bytes of the buffers (`.bytes`).",
        "elements": "That is the number of elements; each takes four bytes.",
        "all-devices": "That is what all eight devices have together; what counts here is one "
        "device.",
        "other-prediction": "Ask the compiler: what do communication(symmetric, block) and the "
        "sharding of symmetric(block) say?",
        "too-many-bytes": "Are there as many strips as devices? An axis that is not named makes "
        "copies, and larger strips to exchange.",
        "fails": "On an Explicit mesh, x and x.T can be added only if both have the same layout, "
        "and JAX does not guess. The exercise needs an Auto mesh.",
        "all-gather": "Is x in blocks? A block and its mirror image lie on different devices, and "
        "the compiler sees no better way than to bring everything everywhere.",
        "repeated-work": "Copying avoids communication, but every device then does all the work. "
        "Cut x so that each of the eight devices holds a different strip.",
    },
    weights={"cheap": 2},
)

EXERCISES: Final = (AFTER, REDUCTIONS, QUIET_PRODUCTS, BINGO, COMMITTED, CLINIC, DISASTER)
