"""Requirements on layouts: of an answer, and of the arguments of a given function."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import jax
import numpy as np

from autograder.exercises.requirements_on_programs import Arrays, Budget
from autograder.layouts import Layout, Shape


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
        mistakes: for each diagnosis, the picture of a layout that it explains, of the first shape.
        stays: whether what a function returns has to be on the mesh of its argument.
    """

    answer: str
    picture: str
    shapes: tuple[Shape, ...]
    values: Callable[[], np.ndarray] | None = None
    elsewhere: tuple[str, ...] = ()
    mistakes: Mapping[str, str] = field(default_factory=dict)
    stays: bool = False

    def of_program(self, number: int) -> "PlacedLike":
        """What is asked of a function's result when it is run on the arguments of this number."""
        shape = self.shapes[number] if number < len(self.shapes) else self.shapes[0]
        picture = self.elsewhere[number - 1] if self.elsewhere and number else self.picture
        mistakes = {} if self.elsewhere and number else self.mistakes
        return PlacedLike(self.answer, picture, (shape,), mistakes=mistakes)

    def target(self, shape: Shape | None = None) -> Layout:
        """The layout that is asked for, on the first shape or on another."""
        return Layout.parse(self.picture, self.shapes[0]).on(shape or self.shapes[0])


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
        mistakes: for each diagnosis of what is over the cap, into how many blocks each dimension of
            each argument is cut where it explains that.
        blocks: into how many blocks a right answer cuts each dimension of each argument; with it,
            a verdict says which arguments are not laid out so, where they are few.
    """

    answer: str
    asks: str
    function: Arrays
    shapes: tuple[tuple[Shape, ...], ...]
    budgets: tuple[tuple[Budget, ...], ...]
    picture: str = ""
    caps: tuple[int, ...] = ()
    mistakes: Mapping[str, tuple[Shape, ...]] = field(default_factory=dict)
    blocks: tuple[Shape, ...] = ()

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
        given: the bytes moved by what the notebook shows, which earns nothing; 0 where it shows
            nothing.
    """

    answer: str
    asks: str
    function: Arrays
    shapes: tuple[Shape, ...]
    cap: int
    frontier: tuple[tuple[int, int], ...]
    slack: int
    given: int = 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the function's arguments."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def best(self) -> int:
        """The least that is known to be moved within the cap."""
        return min(moved for held, moved in self.frontier if held <= self.cap)


@dataclass(frozen=True)
class Timed:
    """A program that a learner has seen, with which an attempt is compared.

    Attributes:
        name: what it is called in a sentence.
        items: the microseconds of `computing`, and of each kind of collective.
    """

    name: str
    items: Mapping[str, int]

    @property
    def total(self) -> int:
        """The microseconds of all of it, one thing after the other."""
        return sum(self.items.values())


@dataclass(frozen=True)
class RunsIn:
    """Shardings for the arguments of a given function, that hold little and make it fast.

    The function is compiled at a real size and never run. How long it takes is modelled: what
    computing takes at the machine's full speed and then what sending takes, nothing at the same
    time, with floating-point numbers counted as bfloat16.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what is to be laid out, in a sentence.
        function: what the arguments are given to.
        shapes: the arguments' shapes, in elements.
        machine: the name of a machine, as `programs.MACHINES` has it.
        cap: the most bytes of arguments that a device may hold.
        frontier: pairs of bytes held on each device and microseconds, the best that is known.
        shown: the layout that the notebook shows, which earns nothing.
        enough: the microseconds that earn everything; 0 for those of the best that is known.
    """

    answer: str
    asks: str
    function: Arrays
    shapes: tuple[Shape, ...]
    machine: str
    cap: int
    frontier: tuple[tuple[int, int], ...]
    shown: Timed
    enough: int = 0

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the function's arguments."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def given(self) -> int:
        """The microseconds that earn nothing."""
        return self.shown.total

    @property
    def best(self) -> int:
        """The microseconds that earn everything."""
        return self.enough or min(time for held, time in self.frontier if held <= self.cap)
