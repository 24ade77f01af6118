"""A compiled program as instructions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from autograder.programs.collective import Frame, Groups
from autograder.programs.compiled.convolutions import Convolution

BYTES = {
    "pred": 1, "s1": 0.125, "u1": 0.125, "s2": 0.25, "u2": 0.25, "s4": 0.5, "u4": 0.5,
    "s8": 1, "u8": 1, "s16": 2, "u16": 2, "s32": 4, "u32": 4, "s64": 8, "u64": 8,
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "c64": 8, "c128": 16,
    "f4e2m1fn": 0.5, "f8e3m4": 1, "f8e4m3": 1, "f8e4m3fn": 1, "f8e4m3fnuz": 1,
    "f8e4m3b11fnuz": 1, "f8e5m2": 1, "f8e5m2fnuz": 1, "f8e8m0fnu": 1,
    "token": 0, "opaque": 0,
}  # fmt: skip
"""Bytes that an element of each HLO type takes; tokens and opaque values take none."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of a computation.

    Attributes:
        number: its number, which no other instruction of the program has.
        opcode: what it does, as HLO spells it.
        arrays: the type and dimensions of each array in its result.
        operands: the numbers of what it takes.
        called: the computations that it names: a fusion's inside, branches, a loop's body and
            then its condition.
        index: which of a computation's parameters it is, or which of a tuple's elements it takes.
        constant: the whole numbers of a constant that is not large; None of anything else.
        groups: of a collective, the partitions that talk to each other; of a permutation, pairs of
            source and target.
        comparison: the direction of a comparison, "LT" for one.
        unsigned: whether a comparison takes its numbers to be without a sign.
        contracting: the dimensions of its first operand that a product adds up over.
        convolution: of a convolution, its dimensions and its window.
        target: of a custom call, the routine that it calls.
        lengths: of a Fourier transform, its lengths.
        form: all else that it says of what it computes, such as where a slice begins, in whatever
            words; two instructions that compute the same from the same values have the same.
        trips: how often the compiler itself says that a loop runs.
        stack: the lines of source that it comes from, the innermost first.
    """

    number: int
    opcode: str
    arrays: tuple[tuple[str, tuple[int, ...]], ...] = ()
    operands: tuple[int, ...] = ()
    called: tuple[int, ...] = ()
    index: int = 0
    constant: tuple[int, ...] | None = None
    groups: Groups = ()
    comparison: str = ""
    unsigned: bool = False
    contracting: tuple[int, ...] = ()
    convolution: Convolution | None = None
    target: str = ""
    lengths: tuple[int, ...] = ()
    form: bytes = b""
    trips: int | None = None
    stack: tuple[Frame, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of each array in the result, on one device."""
        return tuple(int(math.prod(shape) * BYTES[dtype]) for dtype, shape in self.arrays)


Computation = Mapping[int, Instruction]
"""Instructions by their numbers, operands before what takes them; the root is the last."""


@dataclass(frozen=True)
class CompiledProgram:
    """A compiled program.

    Attributes:
        computations: each computation, by its number.
        entry: the number of the computation that runs first.
        partitions: how many devices it was compiled for.
    """

    computations: Mapping[int, Computation] = field(default_factory=dict)
    entry: int = 0
    partitions: int = 1

    def called(self, instruction: Instruction, which: int = 0) -> Computation:
        """A computation that an instruction calls; an empty one where it calls none."""
        return self.computations[instruction.called[which]] if instruction.called[which:] else {}


def root(computation: Computation) -> Instruction:
    """The instruction whose result is the computation's."""
    return list(computation.values())[-1]
