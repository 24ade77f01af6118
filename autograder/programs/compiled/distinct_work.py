"""Count the operations of a compiled program, however the compiler arranged them.

A compiler duplicates cheap work: XLA's CPU compiler puts a copy of a producer into each fusion that
needs it, and from JAX 0.12 on so often that a program can seem to do sixteen times what it was
asked. Those copies compute the same value from the same values. So each value is given a number,
by what computes it, from which numbers (*value numbering*), and its work counts once, or once in
each round of a loop.

XLA counts a loop's body once, and of LAPACK's routines nothing. An instruction does two operations
for each pair of numbers that a product multiplies and adds, and one for each number that arithmetic
gives or a reduction takes. A triangular solve and a factorisation take what the textbook says
(G. H. Golub and C. F. Van Loan, *Matrix Computations*, sections 3.1 and 3.2).
"""

import math
import re
from collections.abc import Hashable
from typing import Final

from autograder.programs.compiled.collectives import runs
from autograder.programs.compiled.hlo import CompiledProgram, Computation, Instruction, root
from autograder.programs.compiled.trip_counts import trip_count

ARITHMETIC: Final = frozenset(
    {"add", "subtract", "multiply", "divide", "maximum", "minimum", "negate", "power", "sqrt",
     "rsqrt", "exponential", "log", "tanh", "sine", "cosine", "logistic"}
)  # fmt: skip

ROUTINES: Final = re.compile(r"lapack_[sdcz](?P<name>getrf|trsm)_ffi")
"""The routines that `jnp.linalg.solve` calls on a CPU, in each type of number."""


FFT_OPERATIONS: Final = 8
"""For each number and each factor of two of its length."""

OPAQUE: Final = "tpu_custom_call"
"""Where a TPU's compiler has a routine of its own for what it found, such as attention."""
RUN_HERE: Final = ("fusion", "call", "async-start")
"""Instructions that run the computation that they name, on their own operands."""

NEVER_ALIKE: Final = ("rng", "infeed", "recv", "while", "conditional")
"""Instructions of which two are never the same value, or are looked at one by one."""

Value = int


def work_left_out(program: CompiledProgram) -> float | None:
    """The operations that XLA's own count leaves out.

    None where nobody knows them: a loop's rounds are unknown, or what it does in each.
    """
    total = 0.0
    for number, times, _ in runs(program):
        computation = program.computations[number]
        routines = sum(_of_routine(computation, each) for each in computation.values())
        others = sum(_operations(computation, each) for each in computation.values())
        if routines + others and times is None:
            return None
        if times != 1 and any(each.target == OPAQUE for each in computation.values()):
            return None
        rounds = 1 if times is None else times
        total += rounds * routines + max(0, rounds - 1) * others
    return total


def work_of(computation: Computation, instruction: Instruction) -> float:
    """The operations of one instruction, without those of the computations that it calls."""
    if instruction.opcode == "fft":
        logarithms = math.prod(int(math.log2(size)) for size in instruction.lengths)
        ((_, dimensions), *_) = computation[instruction.operands[0]].arrays
        return FFT_OPERATIONS * logarithms * _size(dimensions)
    return _of_routine(computation, instruction) + _operations(computation, instruction)


def _of_routine(computation: Computation, instruction: Instruction) -> float:
    """The operations of a routine of LAPACK's; none for any other instruction."""
    routine = ROUTINES.fullmatch(instruction.target)
    if routine is None:
        return 0.0
    taken = [computation[number].arrays[0][1] for number in instruction.operands]
    matrix = taken[0]
    if routine["name"] == "getrf":
        return 2 / 3 * _size(matrix) * min(matrix[-2:])
    return matrix[-1] * _size(taken[1])


def _operations(computation: Computation, instruction: Instruction) -> float:
    """The operations of one instruction, without those of the computations that it calls."""
    given = sum(_size(dimensions) for _, dimensions in instruction.arrays)
    if instruction.opcode in ARITHMETIC:
        return given
    taken = [computation[number] for number in instruction.operands]
    if instruction.opcode == "reduce":
        return sum(_size(dimensions) for array in taken for _, dimensions in array.arrays)
    if instruction.opcode == "dot":
        ((_, dimensions),) = taken[0].arrays
        return 2.0 * given * math.prod(dimensions[d] for d in instruction.contracting)
    if instruction.convolution is not None:
        ((_, dimensions),), ((_, made),) = taken[0].arrays, instruction.arrays
        return 2.0 * instruction.convolution.products(dimensions, made)
    return 0.0


def _size(dimensions: tuple[int, ...]) -> float:
    return float(math.prod(dimensions))


def operations(program: CompiledProgram) -> float | None:
    """Count the floating-point operations of one device.

    Two for each pair of numbers that a product multiplies and adds, one for each number that
    arithmetic makes or that a reduction takes, and what a Fourier transform, a triangular solve
    and a factorisation take by the textbook.

    Returns:
        Their number; None where it is known only when the program runs.
    """
    counting = _Counting(program)
    counting.run(program.entry, (), 1)
    return counting.total if math.isfinite(counting.total) else None


class _Counting:
    """One count of a program's operations."""

    def __init__(self, program: CompiledProgram) -> None:
        self.program, self.total = program, 0.0
        self._values: dict[Hashable, Value] = {}
        self._elements: dict[Value, tuple[Value, ...]] = {}
        self._ran: dict[tuple[int, tuple[Value, ...]], Value] = {}

    def run(self, number: int, given: tuple[Value, ...], times: float) -> Value:
        """Count a computation's work on some values, so many times; say what value it makes."""
        if (number, given) in self._ran:
            return self._ran[number, given]
        computation = self.program.computations[number]
        made: dict[int, Value] = {}
        for each in computation.values():
            taken = tuple(made[operand] for operand in each.operands)
            if each.opcode == "parameter" and each.index < len(given):
                made[each.number] = given[each.index]
            elif each.opcode in RUN_HERE:
                made[each.number] = self.run(each.called[0], taken, times)
            elif each.opcode == "get-tuple-element" and taken[0] in self._elements:
                made[each.number] = self._elements[taken[0]][each.index]
            else:
                made[each.number], is_new = self._value(each, taken)
                if is_new:
                    self._count(number, each, times)
            if each.opcode == "tuple":
                self._elements[made[each.number]] = taken
        self._ran[number, given] = made[root(computation).number]
        return self._ran[number, given]

    def _value(self, each: Instruction, taken: tuple[Value, ...]) -> tuple[Value, bool]:
        """The number of the value that an instruction makes, and whether it is a new one."""
        if each.opcode in (*NEVER_ALIKE, "parameter"):
            return self._new(), True
        inside = tuple(map(self._form, each.called))
        key = (each.opcode, each.arrays, each.index, each.form, taken, inside)
        if key in self._values:
            return self._values[key], False
        self._values[key] = self._new()
        return self._values[key], True

    def _new(self) -> Value:
        self._values[object()] = len(self._values)
        return len(self._values) - 1

    def _count(self, number: int, each: Instruction, times: float) -> None:
        computation = self.program.computations[number]
        if each.opcode == "while":
            rounds = trip_count(self.program, computation, each)
            for called, more in zip(each.called, (0, 1), strict=True):
                self._count_apart(called, times * (math.inf if rounds is None else rounds + more))
        elif each.opcode == "conditional":
            branches = []
            for called in each.called:
                before = self.total
                self._count_apart(called, times)
                branches.append(self.total - before)
                self.total = before
            self.total += max(branches, default=0.0)
        else:
            self.total += times * work_of(computation, each)

    def _count_apart(self, number: int, times: float) -> None:
        """Count a loop's or a branch's computation, of which no value is one of those around it."""
        before, self.total = self.total, 0.0
        self.run(number, (self._new(),), 1)
        self.total = before + (times * self.total if self.total else 0.0)

    def _form(self, number: int) -> Hashable:
        """What a computation does to two numbers, for a reduction; the same in each copy of it."""
        made: dict[int, Hashable] = {}
        for each in self.program.computations[number].values():
            inside = tuple(made[operand] for operand in each.operands)
            called = tuple(map(self._form, each.called))
            made[each.number] = (each.opcode, each.arrays, each.index, each.form, inside, called)
        return made[root(self.program.computations[number]).number]
