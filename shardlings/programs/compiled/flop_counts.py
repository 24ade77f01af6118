"""Count the floating-point operations of a compiled program.

An instruction does two operations for each pair of numbers that a matmul or a convolution
multiplies and adds (eight for complex numbers), and one for each number that arithmetic returns or
a reduction takes, once for each of its windows. Sorting n numbers takes n comparisons for each
factor of two in n. A Fourier transform, a triangular solve and a factorisation count as in
textbooks (for the latter two: G. H. Golub and C. F. Van Loan, *Matrix Computations*, sections 3.1
and 3.2).

XLA's own count (`cost_analysis`) counts a loop's body once, and LAPACK's routines as nothing. It
also counts duplicates: compilers duplicate cheap work, and XLA's CPU compiler puts a copy of a
producer into each fusion that needs it, from JAX 0.12 on so often that a program can seem to do
sixteen times its work. So here each value gets a number, decided by what computes it from which
numbers (*value numbering*). The work for a value counts once, or once in each round of a loop.
"""

import math
import re
from collections.abc import Callable, Hashable
from typing import Final

from shardlings.programs.compiled.hlo import (
    CompiledProgram,
    Computation,
    Instruction,
    Shape,
    find_root,
)
from shardlings.programs.compiled.run_counts import CALLS, count_runs, trip_count

ARITHMETIC: Final = frozenset(
    {"add", "subtract", "multiply", "divide", "maximum", "minimum", "negate", "power", "sqrt",
     "rsqrt", "exponential", "log", "tanh", "sine", "cosine", "logistic"}
)  # fmt: skip

LAPACK: Final = re.compile(r"lapack_[sdcz](?P<name>getrf|trsm)_ffi")
"""The routines that `jnp.linalg.solve` calls on a CPU, for each type of number."""

LIBRARIES: Final = re.compile(r"lapack_|cusolver_|__cublas\$|__cudnn\$")
"""The first letters of library routines that compute much. On a GPU, they do most matmuls."""

FFT_FLOPS: Final = 8
"""Operations of a Fourier transform for each number and each factor of two of its length."""

TPU_KERNEL: Final = "tpu_custom_call"
"""The custom call by which a TPU's compiler runs a kernel of its own, such as for attention."""

INT8: Final = frozenset({"s8", "u8"})

NEVER_EQUAL: Final = ("rng", "infeed", "recv", "while", "conditional")
"""Instructions of which no two have the same value, or which are counted one by one."""

_Value = int


def count_flops_xla_omits(program: CompiledProgram) -> float | None:
    """Count the operations that XLA's own count leaves out.

    Returns:
        Their number; None if a loop's trip count is unknown, or the work in each of its rounds.
    """
    total = 0.0
    for runs in count_runs(program):
        computation = program.computations[runs.computation]
        instructions = computation.values()
        routines = sum(_routine_flops(computation, each) for each in instructions)
        others = sum(_array_flops(computation, each) for each in instructions)
        if math.isinf(routines) or (routines + others and runs.times is None):
            return None
        if runs.times != 1 and any(each.custom_call_target == TPU_KERNEL for each in instructions):
            return None
        times = 1 if runs.times is None else runs.times
        total += times * routines + max(0, times - 1) * others
    return total


def count_flops(program: CompiledProgram) -> float | None:
    """Count the floating-point operations that one device does, each value's once.

    Returns:
        Their number; None where only the running program knows it, or a library's routine.
    """
    counting = _Counting(program)
    counting.run(program.entry, (), 1)
    return counting.total if math.isfinite(counting.total) else None


def count_int8_operations(program: CompiledProgram) -> float:
    """Count the operations of products of integers of 8 bits, which chips do faster than others.

    They are part of what `count_flops` counts. Where a loop's length is unknown, there are none.
    """
    is_without = not any(
        dtype in INT8
        for computation in program.computations.values()
        for instruction in computation.values()
        for dtype, _ in instruction.arrays
    )
    if is_without:
        return 0.0

    def count_int8(computation: Computation, instruction: Instruction) -> float:
        if instruction.opcode not in ("dot", "convolution"):
            return 0.0
        types = {
            dtype for operand in instruction.operands for dtype, _ in computation[operand].arrays
        }
        return _array_flops(computation, instruction) if types <= INT8 else 0.0

    counting = _Counting(program, count_int8)
    counting.run(program.entry, (), 1)
    return counting.total if math.isfinite(counting.total) else 0.0


def find_work_before(program: CompiledProgram) -> dict[int, float]:
    """Map each collective to the share of the program's operations that come before it.

    What a loop's body does before a collective counts as often as the loop runs, so that all runs
    of the collective are together.

    Returns:
        Shares from 0 to 1, by the numbers of the instructions; nothing if the length of a loop is
        unknown.
    """
    counting = _Counting(program)
    counting.run(program.entry, (), 1)
    if not math.isfinite(counting.total):
        return {}
    total = counting.total or 1.0
    return {number: before / total for number, before in counting.before.items()}


def instruction_flops(computation: Computation, instruction: Instruction) -> float:
    """Count the operations of one instruction, without the computations that it calls."""
    if instruction.opcode == "fft":
        logarithms = math.prod(int(math.log2(size)) for size in instruction.fft_lengths)
        ((_, shape), *_) = computation[instruction.operands[0]].arrays
        return FFT_FLOPS * logarithms * _size(shape)
    routine = _routine_flops(computation, instruction)
    return routine + _array_flops(computation, instruction)


def _routine_flops(computation: Computation, instruction: Instruction) -> float:
    """Count the operations of a library's routine: infinitely many if it is none that we know.

    Any other instruction has 0.
    """
    if instruction.opcode == "custom-call" and instruction.contracting:
        ((_, shape), *_) = computation[instruction.operands[0]].arrays
        ((_, output), *_) = instruction.arrays  # the others are room to work in
        contracted = math.prod(shape[d] for d in instruction.contracting)
        return _product_flops(instruction) * _size(output) * contracted
    routine = LAPACK.fullmatch(instruction.custom_call_target)
    if routine is None:
        return math.inf if LIBRARIES.match(instruction.custom_call_target) else 0.0
    shapes = [computation[number].arrays[0][1] for number in instruction.operands]
    matrix = shapes[0]
    if routine["name"] == "getrf":
        return 2 / 3 * _size(matrix) * min(matrix[-2:])
    return matrix[-1] * _size(shapes[1])


def _array_flops(computation: Computation, instruction: Instruction) -> float:
    """Count the operations of arithmetic, a reduction, a sort, a matmul or a convolution."""
    output_size = sum(_size(shape) for _, shape in instruction.arrays)
    if instruction.opcode in ARITHMETIC:
        return output_size
    operands = [computation[number] for number in instruction.operands]
    if instruction.opcode == "reduce":
        return sum(_size(shape) for operand in operands for _, shape in operand.arrays)
    if instruction.opcode == "reduce-window":
        return output_size * math.prod(instruction.window)
    if instruction.opcode == "sort":
        ((_, shape), *_) = operands[0].arrays
        lengths = (shape[d] for d in instruction.sorted_along)
        return _size(shape) * sum(math.ceil(math.log2(max(length, 1))) for length in lengths)
    if instruction.opcode == "dot":
        ((_, shape),) = operands[0].arrays
        products = output_size * math.prod(shape[d] for d in instruction.contracting)
        return _product_flops(instruction) * products
    if instruction.convolution is not None:
        ((_, input_shape),), ((_, output_shape),) = operands[0].arrays, instruction.arrays
        products = instruction.convolution.count_products(input_shape, output_shape)
        return _product_flops(instruction) * products
    return 0.0


def _product_flops(instruction: Instruction) -> float:
    """Return the operations of one multiplication and addition; a complex one is four real."""
    return 8.0 if instruction.arrays[0][0].startswith("c") else 2.0


def _size(shape: Shape) -> float:
    return float(math.prod(shape))


class _Counting:
    """A count of a program's operations, by value numbering.

    Args:
        program: the program.
        count: returns the operations that one instruction of a computation does.
    """

    def __init__(
        self,
        program: CompiledProgram,
        count: Callable[[Computation, Instruction], float] = instruction_flops,
    ) -> None:
        self.program, self.total, self.count_one = program, 0.0, count
        self.before: dict[int, float] = {}  # the operations before each collective
        self._values: dict[Hashable, _Value] = {}
        self._elements: dict[_Value, tuple[_Value, ...]] = {}
        self._results: dict[tuple[int, tuple[_Value, ...]], _Value] = {}

    def run(self, number: int, arguments: tuple[_Value, ...], times: float) -> _Value:
        """Count a computation that runs some times on some arguments; return its result."""
        if (number, arguments) in self._results:
            return self._results[number, arguments]
        computation = self.program.computations[number]
        values: dict[int, _Value] = {}
        for each in computation.values():
            operands = tuple(values[operand] for operand in each.operands)
            if each.collective_kind is not None:
                self.before.setdefault(each.number, self.total)
            if each.opcode == "parameter" and each.index < len(arguments):
                values[each.number] = arguments[each.index]
            elif each.opcode in CALLS:
                values[each.number] = self.run(each.called[0], operands, times)
            elif each.opcode == "get-tuple-element" and operands[0] in self._elements:
                values[each.number] = self._elements[operands[0]][each.index]
            else:
                values[each.number], is_new = self._number_value(each, operands)
                if is_new:
                    self._count(computation, each, times)
            if each.opcode == "tuple":
                self._elements[values[each.number]] = operands
        self._results[number, arguments] = values[find_root(computation).number]
        return self._results[number, arguments]

    def _number_value(
        self, instruction: Instruction, operands: tuple[_Value, ...]
    ) -> tuple[_Value, bool]:
        """Return the number of the value that an instruction computes, and whether it is new."""
        if instruction.opcode in (*NEVER_EQUAL, "parameter"):
            return self._new_value(), True
        key = (*self._key(instruction), operands)
        if key in self._values:
            return self._values[key], False
        self._values[key] = self._new_value()
        return self._values[key], True

    def _new_value(self) -> _Value:
        self._values[object()] = len(self._values)
        return len(self._values) - 1

    def _count(self, computation: Computation, instruction: Instruction, times: float) -> None:
        if instruction.opcode == "while":
            count = trip_count(self.program, computation, instruction)
            # the condition runs once more than the body
            for called, extra in zip(instruction.called, (0, 1), strict=True):
                self._count_inner(called, times * (math.inf if count is None else count + extra))
        elif instruction.opcode == "conditional":
            branches = []
            for called in instruction.called:
                before = self.total
                self._count_inner(called, times)
                branches.append(self.total - before)
                self.total = before
            self.total += max(branches, default=0.0)
        else:
            self.total += times * self.count_one(computation, instruction)

    def _count_inner(self, number: int, times: float) -> None:
        """Count a loop's or a branch's computation, whose values are none of those around it."""
        before, self.total = self.total, 0.0
        known = set(self.before)
        self.run(number, (self._new_value(),), 1)
        for inner in self.before.keys() - known:
            self.before[inner] = before + (
                times * self.before[inner] if self.before[inner] else 0.0
            )
        self.total = before + (times * self.total if self.total else 0.0)

    def _key(self, instruction: Instruction) -> tuple[Hashable, ...]:
        """Return what an instruction does, apart from the values that it does it to."""
        called = tuple(map(self._describe_computation, instruction.called))
        fields = (instruction.opcode, instruction.arrays, instruction.index)
        return (*fields, instruction.other_fields, called)

    def _describe_computation(self, number: int) -> Hashable:
        """Describe what a reduction's computation does, equally for each copy of it."""
        computation = self.program.computations[number]
        descriptions: dict[int, Hashable] = {}
        for each in computation.values():
            operands = tuple(descriptions[operand] for operand in each.operands)
            descriptions[each.number] = (*self._key(each), operands)
        return descriptions[find_root(computation).number]
