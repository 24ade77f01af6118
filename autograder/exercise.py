"""Exercises as data, and the requirements that they are composed of.

A requirement says what is asked and holds what a judge needs to know; it does not judge
(`autograder.judge` does) and it does not look at answers (`autograder.capture` does).
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import numpy as np

from autograder.layout import Layout, Shape

Arrays = Callable[..., Any]


@dataclass(frozen=True)
class PlacedLike:
    """Every device holds the block that a picture gives it.

    Met by an array or by a sharding; where `values` is given, by an array alone. What a function
    returns is judged the same way, where another requirement has it exported.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        picture: as `Layout.parse` reads it.
        shapes: the array's shape in elements, and further shapes to try the same sharding on.
        values: makes the values that the array must hold, of the first shape.
        elsewhere: where a function is judged on other meshes too, the pictures there, for each of
            the further shapes.
    """

    answer: str
    picture: str
    shapes: tuple[Shape, ...]
    values: Callable[[], np.ndarray] | None = None
    elsewhere: tuple[str, ...] = ()

    def of_program(self, number: int) -> "PlacedLike":
        """What is asked of a function's result when it is run on the arguments of this number."""
        if not self.elsewhere or number == 0:
            return self
        return PlacedLike(self.answer, self.elsewhere[number - 1], (self.shapes[number],))

    def target(self, shape: Shape | None = None) -> Layout:
        """The layout that is asked for, on the first shape or on another."""
        return Layout.parse(self.picture, self.shapes[0]).on(shape or self.shapes[0])


@dataclass(frozen=True)
class Returns:
    """A Python function gives the right result on cases drawn afresh each time.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what the function must return, in a sentence.
        cases: draws the argument lists, of plain data, from a random generator.
        reference: gives the right result.
        mistakes: for each diagnosis, a function that makes that mistake and no other.
    """

    answer: str
    asks: str
    cases: Callable[[np.random.Generator], Sequence[tuple[Any, ...]]]
    reference: Callable[..., Any]
    mistakes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Argument:
    """An array that a function under judgement is given: what it is, and how it is laid out.

    Attributes:
        shape: global shape, in elements.
        axes: the mesh's axis names and sizes, over the devices in order.
        spec: for each dimension the axes it is split over, as `jax.P` takes them.
        dtype: the NumPy name of its type.
        mode: the mode of every mesh axis.
        scale: how large its values are: they are drawn from a normal distribution, times this.
            Integers are drawn from 0 up to it.
    """

    shape: Shape
    axes: tuple[tuple[str, int], ...]
    spec: tuple[str | tuple[str, ...] | None, ...] = ()
    dtype: str = "float32"
    mode: Literal["explicit", "auto"] = "explicit"
    scale: float = 1.0

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        """Fresh values for it."""
        if np.issubdtype(self.dtype, np.integer):
            return generator.integers(0, int(self.scale), self.shape).astype(self.dtype)
        return np.asarray(self.scale * generator.standard_normal(self.shape)).astype(self.dtype)


def described(arguments: Sequence[Argument]) -> str:
    """Arguments in words: their shapes, and the mesh that they are on."""
    shapes = ", ".join(f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in arguments)
    axes = ", ".join(f"{name}={size}" for name, size in arguments[0].axes)
    return f"{shapes} on a mesh of {axes}"


@dataclass(frozen=True)
class Computes:
    """A function computes what a NumPy reference does, on inputs drawn when judging.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what the function must compute, in a sentence.
        reference: the same on NumPy arrays.
        arguments: one list of arguments for each program that is to be judged.
        mistakes: for each diagnosis, a function that makes that mistake and no other.
        under_mesh: whether the arguments' mesh is the current one (`jax.set_mesh`) while the
            function is traced, so that it may leave the mesh unsaid and serve several.
    """

    answer: str
    asks: str
    reference: Arrays
    arguments: tuple[tuple[Argument, ...], ...]
    mistakes: Mapping[str, Arrays] = field(default_factory=dict)
    under_mesh: bool = False


@dataclass(frozen=True)
class Budget:
    """What may be communicated at most.

    Attributes:
        kind: a canonical kind of collective, as `collectives.KINDS` has it.
        axes: the mesh axes it may run over; None for any.
        bytes: at most so many on each device, over all collectives of the kind on these axes,
            loops counted; None for any number.
    """

    kind: str
    axes: tuple[str, ...] | None = None
    bytes: int | None = None


def allowed(budgets: Sequence[Budget]) -> str:
    """What budgets allow, in words."""
    return (
        "at most " * bool(budgets)
        + " and ".join(
            f"{'any number of' if b.bytes is None else f'{b.bytes:,}'} bytes by {b.kind}"
            + ("" if b.axes is None else f" over {', '.join(b.axes)}")
            for b in budgets
        )
        or "nothing"
    )


@dataclass(frozen=True)
class CommunicatesAtMost:
    """The compiled program stays within budgets; with none, it communicates nothing.

    A budget is never a number of instructions: compilers combine and split them.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this. Another requirement,
            `Computes`, has it exported.
        budgets: for each program that is judged, what it may communicate.
    """

    answer: str
    budgets: tuple[tuple[Budget, ...], ...]

    @property
    def asks(self) -> str:
        """The first program's budgets, in words."""
        return f"a program that communicates {allowed(self.budgets[0])}"


@dataclass(frozen=True)
class FitsIn:
    """The compiled program takes no more memory on a device than is given.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this. Another requirement,
            `Computes`, has it exported.
        bytes: for each program that is judged, the most it may hold on a device at once.
    """

    answer: str
    bytes: tuple[int, ...]

    @property
    def asks(self) -> str:
        """The first program's limit, in words."""
        return f"a program that holds at most {self.bytes[0]:,} bytes on each device"


@dataclass(frozen=True)
class Ask:
    """A collective that is to be asked for by hand.

    Attributes:
        kind: a canonical kind of collective, as `collectives.KINDS` has it.
        times: how often, over all of the kind, loops counted.
        axes: the mesh axes it is to run over; None for any.
        bytes: at most so many in one buffer on each device; None for any number.
    """

    kind: str
    times: int = 1
    axes: tuple[str, ...] | None = None
    bytes: int | None = None

    def __str__(self) -> str:
        """Such as `7 collective-permutes over x of at most 64 bytes`."""
        number = f"{'a' if self.times == 1 else self.times} {self.kind}{'s' * (self.times != 1)}"
        if number.startswith("a all"):
            number = f"an{number[1:]}"
        axes = f" over {', '.join(self.axes)}" if self.axes is not None else ""
        return f"{number}{axes}" + (
            f" of at most {self.bytes:,} bytes" if self.bytes is not None else ""
        )


@dataclass(frozen=True)
class Requests:
    """The program asks for just these collectives by hand, and for no others.

    Judged from what was written (the exported program), where `CommunicatesAtMost` is judged from
    what a compiler made of it.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this. Another requirement,
            `Computes`, has it exported.
        wanted: for each program that is judged, what it is to ask for.
        never: where it may ask for what it likes, the kinds that it may not.
        mapped: whether it has to be written with `shard_map`, so that the compiler adds nothing.
    """

    answer: str
    wanted: tuple[tuple[Ask, ...], ...] = ()
    never: tuple[str, ...] = ()
    mapped: bool = True

    @property
    def asks(self) -> str:
        """What the first program is to ask for, in words."""
        if self.never:
            return f"by hand, no {' and no '.join(self.never)}"
        return f"by hand: {' and '.join(map(str, self.wanted[0])) or 'nothing'}"


@dataclass(frozen=True)
class WorksAtMost:
    """No device does more than its share of the work.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this. Another requirement,
            `Computes`, has it exported.
        flops: for each program that is judged, the most floating-point operations on a device, by
            XLA's own count.
    """

    answer: str
    flops: tuple[int, ...]

    @property
    def asks(self) -> str:
        """The first program's limit, in words."""
        return (
            f"a program in which each device does at most {self.flops[0]:,} floating-point "
            f"operations"
        )


@dataclass(frozen=True)
class Feeds:
    """Shardings for the arguments of a given function: laid out so, it runs as cheaply as is asked.

    The answer is a sharding, or one for each argument. The function is compiled for them with Auto
    axes, so that the compiler decides the rest, and every device must do its share of the work:
    copies on all devices would silence any program.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what is to be laid out, in a sentence.
        function: what the arguments are given to.
        shapes: the arguments' shapes, in elements, for each time that it is to be tried.
        budgets: for each of these, what the program may communicate.
        picture: where the result is to be, as `Layout.parse` reads it; empty for anywhere.
        caps: for each, the most bytes of arguments that a device may hold; empty for any number.
    """

    answer: str
    asks: str
    function: Arrays
    shapes: tuple[tuple[Shape, ...], ...]
    budgets: tuple[tuple[Budget, ...], ...]
    picture: str = ""
    caps: tuple[int, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the function's arguments."""
        return tuple(inspect.signature(self.function).parameters)

    def result(self) -> PlacedLike | None:
        """What is asked of the function's result, if anything is."""
        if not self.picture:
            return None
        results = (
            jax.eval_shape(self.function, *(jax.ShapeDtypeStruct(s, np.float32) for s in shapes))
            for shapes in self.shapes
        )
        return PlacedLike(self.answer, self.picture, tuple(result.shape for result in results))


@dataclass(frozen=True)
class Trades:
    """Shardings for the arguments of a given function, that hold little and move little.

    There is no one right answer: holding more saves moving. Within a cap on what may be held,
    credit is given by how near the answer comes to the least that is known to be moved.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what is to be laid out, in a sentence.
        function: what the arguments are given to.
        shapes: the arguments' shapes, in elements.
        cap: the most bytes of arguments that a device may hold.
        frontier: pairs of bytes held and bytes moved on each device, the best that is known.
        slack: so many bytes are as good as none, when answers are compared.
    """

    answer: str
    asks: str
    function: Arrays
    shapes: tuple[Shape, ...]
    cap: int
    frontier: tuple[tuple[int, int], ...]
    slack: int

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the function's arguments."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def best(self) -> int:
        """The least that is known to be moved within the cap."""
        return min(moved for held, moved in self.frontier if held <= self.cap)


@dataclass(frozen=True)
class Predicts:
    """One cell of a table of predictions, judged by itself.

    Attributes:
        answer: the name, in the notebook, of the table: a dictionary.
        cell: the key of the cell.
        asks: what is to be predicted, in a sentence.
        right: the right prediction: a number, a string, a `jax.P`, or a list of such.
        mistakes: for each diagnosis, the prediction that it explains.
        tolerance: how far off a number may be, as a share of the right one.
        words: where a word is to be predicted, more of those that may be.
    """

    answer: str
    cell: str
    asks: str
    right: Any
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 0.0
    words: tuple[str, ...] = ()


Requirement = (
    PlacedLike
    | Returns
    | Computes
    | CommunicatesAtMost
    | Requests
    | FitsIn
    | WorksAtMost
    | Feeds
    | Trades
    | Predicts
)


def pictured(requirement: Requirement) -> PlacedLike | None:
    """What is drawn of a requirement: the layout asked for, or that of a function's result."""
    if isinstance(requirement, Feeds):
        return requirement.result()
    return requirement if isinstance(requirement, PlacedLike) else None


@dataclass(frozen=True)
class Exercise:
    """One exercise of the course.

    Attributes:
        id: such as `1.4`; the notebook's graded cell is then called `ex-1-4-check`.
        title: a few words.
        requirements: what must hold; each counts the same.
        hints: from gentle to nearly there, never the answer.
        diagnoses: for the name of each known difference, what it usually means here.
    """

    id: str
    title: str
    requirements: tuple[Requirement, ...]
    hints: tuple[str, ...]
    diagnoses: Mapping[str, str] = field(default_factory=dict)

    @property
    def answers(self) -> tuple[str, ...]:
        """The names of the answers it asks for, as the notebook has them."""
        return tuple(dict.fromkeys(requirement.answer for requirement in self.requirements))

    @property
    def grade_id(self) -> str:
        """What nbgrader calls the notebook's graded cell."""
        return f"ex-{self.id.replace('.', '-')}-check"

    def generator(self, seed: int) -> np.random.Generator:
        """The source of this exercise's random cases for one judging."""
        return np.random.default_rng([seed, *self.id.encode()])
