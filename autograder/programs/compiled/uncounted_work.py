"""Count the operations of single instructions, also those that XLA's count leaves out.

XLA counts a loop's body once, and of LAPACK's routines nothing. An instruction does two operations
for each pair of numbers that a product multiplies and adds, and one for each number that arithmetic
gives or a reduction takes. A triangular solve and a factorisation take what the textbook says
(G. H. Golub and C. F. Van Loan, *Matrix Computations*, sections 3.1 and 3.2).
"""

import math
import re
from typing import Final

from autograder.programs.compiled.collectives import runs
from autograder.programs.compiled.hlo import Computation, Instruction, Program

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


def work_left_out(program: Program) -> float | None:
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
