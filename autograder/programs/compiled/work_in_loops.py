"""Work in loops: XLA's count of floating-point operations takes a loop's body once.

What the further rounds do is counted here, from the instructions: two operations for each pair of
numbers that a product multiplies and adds, one for each number that arithmetic gives or a reduction
takes.
"""

import math
from typing import Final

from autograder.programs.compiled.collectives import runs
from autograder.programs.compiled.hlo import Computation, Instruction, Program

ARITHMETIC: Final = frozenset(
    {"add", "subtract", "multiply", "divide", "maximum", "minimum", "negate", "power", "sqrt",
     "rsqrt", "exponential", "log", "tanh", "sine", "cosine", "logistic"}
)  # fmt: skip


def work_of_further_rounds(program: Program) -> float | None:
    """The operations of all rounds of all loops but the first; None where a count is unknown."""
    total = 0.0
    for number, times, _ in runs(program):
        computation = program.computations[number]
        each = sum(_operations(computation, instruction) for instruction in computation.values())
        if each and times is None:
            return None
        total += max(0, (times or 1) - 1) * each
    return total


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
    if instruction.opcode == "convolution":
        ((_, kernel),) = taken[1].arrays
        return 2.0 * given * _size(kernel)
    return 0.0


def _size(dimensions: tuple[int, ...]) -> float:
    return float(math.prod(dimensions))
