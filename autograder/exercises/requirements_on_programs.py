"""Requirements on programs: values, collectives, requests, memory and work."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autograder.programs import Argument

Arrays = Callable[..., Any]


@dataclass(frozen=True)
class Computes:
    """A function computes what a NumPy reference does, on inputs drawn when judging.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what the function must compute, in a sentence.
        reference: the same on NumPy arrays.
        arguments: one list of arguments for each program that is to be judged.
        mistakes: for each diagnosis, a function that makes that mistake and no other, or `AnyOf`
            several: then each program's values are those of one of them.
        under_mesh: whether the arguments' mesh is the current one (`jax.set_mesh`) while the
            function is traced, so that it may leave the mesh unsaid and serve several.
        blocks: for each program that is a matmul, into how many blocks A's rows, the contracted
            dimension and B's columns are cut; nothing where no one cuts them so.
    """

    answer: str
    asks: str
    reference: Arrays
    arguments: tuple[tuple[Argument, ...], ...]
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    under_mesh: bool = False
    blocks: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Budget:
    """What may be communicated at most.

    Attributes:
        kind: a canonical kind of collective, as `KINDS` has it.
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
        most = self.budgets[0]
        return f"a program that communicates {allowed(most)}" if most else "no collectives"


@dataclass(frozen=True)
class Ask:
    """A collective that is to be asked for by hand.

    Attributes:
        kind: a canonical kind of collective, as `KINDS` has it.
        times: how often, over all of the kind, loops counted.
        axes: the mesh axes it is to run over; None for any.
        bytes: at most so many in one buffer on each device; None for any number.
        neighbours: of a permutation, whether each device has to send to one next to it.
    """

    kind: str
    times: int = 1
    axes: tuple[str, ...] | None = None
    bytes: int | None = None
    neighbours: bool = False

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
        some: and the kinds of which it has to ask for one at least.
        least: of each of these kinds, how often it has to be asked for at least; by default once.
        constrained: whether its result has to rest on a sharding constraint that replicates a
            value, or must not rest on any; None where both will do.
        made_of: the numbers of the arguments that this value has to be made of, from 0 on.
    """

    answer: str
    wanted: tuple[tuple[Ask, ...], ...] = ()
    never: tuple[str, ...] = ()
    mapped: bool = True
    some: tuple[str, ...] = ()
    constrained: bool | None = None
    made_of: tuple[int, ...] = ()
    least: tuple[int, ...] = ()

    @property
    def asks(self) -> str:
        """What the first program is to ask for, in words."""
        if self.constrained is not None:
            how = "a" if self.constrained else "no"
            return f"{how} sharding constraint, and {self._by_hand}"
        return self._by_hand

    @property
    def _by_hand(self) -> str:
        if self.never:
            *most, last = self.never
            none = f"{', '.join(most)} or {last}" if most else last
            least = dict(zip(self.some, self.least, strict=False))
            kinds = (
                f"at least {least[kind]} {kind}s" if least.get(kind, 1) > 1 else f"an {kind}"
                for kind in self.some
            )
            some = f", but {' and '.join(kinds)}," * bool(self.some)
            return f"{'a shard_map, with ' * self.mapped}no {none}{some} by hand"
        wanted = " and ".join(map(str, self.wanted[0]))
        return f"{wanted}, written by hand" if wanted else "no collective written by hand"


@dataclass(frozen=True)
class FitsIn:
    """The compiled program takes no more memory on a device than is given.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this. Another requirement,
            `Computes`, has it exported.
        bytes: for each program that is judged, the most it may hold on a device at once.
        gathers: for each program, how many pieces it has to gather and the bytes of one, where
            each is to be gathered by itself and then once more; nothing where that is not so.
    """

    answer: str
    bytes: tuple[int, ...]
    gathers: tuple[tuple[int, int], ...] = ()

    @property
    def asks(self) -> str:
        """The first program's limit, in words."""
        return f"a program that holds at most {self.bytes[0]:,} bytes on each device"


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
