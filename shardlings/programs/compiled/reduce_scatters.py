"""Recognise reduce-scatters: all-reduces of which each device uses only its own slice.

XLA's CPU compiler never emits a reduce-scatter by itself, nor does a TPU's for small arrays. It
emits an all-reduce, and then each device takes its slice. That is the same collective if, within
each group, all devices take different slices, which together are the whole array. Which slice a
device takes follows from the instructions that compute its offset from the partition's number, also
where a loop carries the offset along unchanged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from shardlings.programs.collective import Groups
from shardlings.programs.compiled.hlo import (
    CompiledProgram,
    Computation,
    Instruction,
    find_root,
)

MOVES: Final = (
    "bitcast", "copy", "copy-start", "copy-done", "reshape", "get-tuple-element", "convert",
)  # fmt: skip
"""The opcodes that hand on their operand's data as it is."""

INTEGER_ARITHMETIC: Final[Mapping[str, Callable[..., Any]]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "negate": np.negative,
    "divide": lambda a, b: np.trunc(a / b).astype(int), "remainder": np.fmod,
    "minimum": np.minimum, "maximum": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "shift-right-logical": np.right_shift, "shift-left": np.left_shift,
}  # fmt: skip
"""XLA's operations on integers; its division rounds towards zero."""

INTEGERS: Final = {
    f"{sign}{bits}": np.dtype(f"{kind}{bits}")
    for sign, kind in (("s", "int"), ("u", "uint"))
    for bits in (8, 16, 32, 64)
}
"""The integer types, whose numbers wrap around."""

COMPARISONS: Final = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
    "EQ": np.equal, "NE": np.not_equal,
}  # fmt: skip

MAX_STEPS: Final = 150
"""The most instructions that are followed to compute one offset, or from an all-reduce to its uses.

JAX emits about a dozen. An offset that takes more steps is unknown.
"""


@dataclass(frozen=True)
class Scope:
    """A computation: where numbers of instructions apply.

    Attributes:
        caller: the fusion that calls it, or the loop whose body it is; None for another.
        outer: the scope of the caller.
    """

    program: CompiledProgram
    computation: Computation
    caller: Instruction | None = None
    outer: "Scope | None" = None

    @classmethod
    def of(cls, program: CompiledProgram, number: int) -> "Scope":
        """Return the scope of a computation that no fusion calls."""
        computation, loops = program.computations[number], program.loops_by_body.get(number, [])
        if len(loops) != 1:
            return cls(program, computation)
        ((around, loop),) = loops
        return cls(program, computation, loop, cls.of(program, around))

    def initial_value(self, element: Instruction) -> "tuple[Scope, int] | None":
        """Return where a loop's element that no turn changes comes from; None if there is none.

        Args:
            element: an element of the body's parameter.
        """
        if self.caller is None or self.outer is None or self.caller.opcode != "while":
            return None
        updated = find_root(self.computation)
        initial = self.outer.computation[self.caller.operands[0]]
        if not updated.opcode == initial.opcode == "tuple":
            return None
        kept = self.computation[updated.operands[element.index]]
        is_kept = kept.opcode == "get-tuple-element" and kept.index == element.index
        if not is_kept or self.computation[kept.operands[0]].opcode != "parameter":
            return None
        return self.outer, initial.operands[element.index]

    def inside(self, fusion: Instruction) -> "Scope":
        """Return the scope within a fusion."""
        return Scope(self.program, self.program.called(fusion), fusion, self)

    def enter(self, fusion: Instruction, number: int) -> "tuple[Scope, list[Instruction]]":
        """Return the scope within a fusion, and its parameters for a value; it may have several."""
        inner = self.inside(fusion)
        return inner, [
            each
            for each in inner.computation.values()
            if each.opcode == "parameter" and fusion.operands[each.index] == number
        ]

    def users(self, number: int) -> list[Instruction]:
        """Return the instructions that use the result of another."""
        return self._users.get(number, [])

    @cached_property
    def _users(self) -> dict[int, list[Instruction]]:
        users: dict[int, list[Instruction]] = {}
        for instruction in self.computation.values():
            for operand in instruction.operands:
                users.setdefault(operand, []).append(instruction)
        return users


_Offsets = bytes
"""The first index of each partition's slice, along each dimension, to be compared with others."""


def keeps_own_slice(scope: Scope, all_reduce: Instruction, groups: Groups) -> bool:
    """Check whether each device uses only a slice that no other device in its group uses.

    Args:
        scope: the scope of the all-reduce.
        all_reduce: the all-reduce.
        groups: the partitions that reduce together.
    """
    slices = set(_find_slices(scope, all_reduce, groups))
    return len(slices) == 1 and None not in slices


def _find_slices(
    scope: Scope, value: Instruction, groups: Groups, steps: int = MAX_STEPS
) -> list[_Offsets | None]:
    """Return the slices that each use of a value takes; None for a use of another kind."""
    if not steps:
        return [None]
    slices: list[_Offsets | None] = []
    for user in scope.users(value.number):
        if user.opcode in MOVES:
            slices += _find_slices(scope, user, groups, steps - 1)
        elif user.opcode == "fusion":
            fusion, parameters = scope.enter(user, value.number)
            for parameter in parameters:
                slices += _find_slices(fusion, parameter, groups, steps - 1)
        elif user.opcode == "dynamic-slice" and user.operands[0] == value.number:
            slices.append(_find_offsets(scope, user, value, groups))
        else:
            slices.append(None)
    return slices or [None]


def _find_offsets(
    scope: Scope, dynamic_slice: Instruction, value: Instruction, groups: Groups
) -> _Offsets | None:
    """Return where each partition's slice begins; None unless each group's make up the whole.

    Slices of equal size do so if they are as many as there is room for, and each is in a place of
    its own, counted in slices.
    """
    group_size = max(map(len, groups))
    if sum(dynamic_slice.array_bytes) * group_size != sum(value.array_bytes):
        return None
    if len(value.arrays) != 1:
        return None
    partitions = max(max(group) for group in groups) + 1
    slice_shape, shape = dynamic_slice.arrays[0][1], value.arrays[0][1]
    starts = [_evaluate(scope, number, partitions, {}) for number in dynamic_slice.operands[1:]]
    if any(start is None for start in starts) or len(starts) != len(shape):
        return None
    # a slice that would reach over the end begins earlier
    offsets = np.stack(
        [
            np.broadcast_to(np.clip(np.ravel(start), 0, size - slice_size), partitions)
            for start, slice_size, size in zip(starts, slice_shape, shape, strict=True)
            if start is not None
        ],
        axis=1,
    )
    places, remainders = np.divmod(offsets, np.maximum(slice_shape, 1))
    if remainders.any():
        return None
    pieces = np.floor_divide(shape, np.maximum(slice_shape, 1))
    numbers = np.ravel_multi_index(tuple(places.T), tuple(pieces)) if shape else places.sum(axis=1)
    if any(len({*numbers[list(group)].tolist()}) < len(group) for group in groups):
        return None  # two of them overlap
    return offsets.tobytes()


_Known = dict[tuple[int, int, int], npt.NDArray[Any] | None]
"""The values that are known already, because many instructions use the same ones.

The keys are a computation, the instruction that calls it, and one of its instructions.
"""


def _evaluate(scope: Scope, number: int, partitions: int, known: _Known) -> npt.NDArray[Any] | None:
    """Return the value of an instruction on each partition; None where it is unknown.

    Args:
        scope: the scope of the instruction.
        number: the instruction's number.
        partitions: the number of partitions.
        known: the values of instructions that were followed before.
    """
    caller = scope.caller.number if scope.caller is not None else -1
    key = id(scope.computation), caller, number
    if key not in known and len(known) < MAX_STEPS:
        known[key] = None
        known[key] = _compute(scope, number, partitions, known)
    return known.get(key)


def _compute(scope: Scope, number: int, partitions: int, known: _Known) -> npt.NDArray[Any] | None:
    instruction = scope.computation[number]

    def operand(i: int) -> npt.NDArray[Any] | None:
        return _evaluate(scope, instruction.operands[i], partitions, known)

    opcode = instruction.opcode
    if opcode == "partition-id":
        return np.arange(partitions)
    if opcode == "replica-id":  # JAX makes programs of many partitions and one replica
        return np.zeros(partitions, int)
    if opcode == "constant":
        if instruction.constant is None or len(instruction.constant) != 1:
            return None  # a table, which a dynamic-slice reads (below)
        return np.full(partitions, instruction.constant[0])
    if opcode == "parameter" and scope.outer and scope.caller and scope.caller.opcode == "fusion":
        argument = scope.caller.operands[instruction.index]
        return _evaluate(scope.outer, argument, partitions, known)
    if opcode == "get-tuple-element":
        source = scope.computation[instruction.operands[0]]
        initial = scope.initial_value(instruction) if source.opcode == "parameter" else None
        return _evaluate(*initial, partitions, known) if initial is not None else None
    if opcode in (*MOVES, "broadcast"):
        value = operand(0)
        if value is not None and value.dtype == bool and instruction.arrays[0][0] != "pred":
            return value.astype(int)  # a Boolean that is converted to a number
        return None if value is None else _wrap(value, instruction)
    if opcode == "dynamic-slice" and len(instruction.operands) == 2:
        table, index = _find_table(scope, instruction.operands[0]), operand(1)
        if table is None or index is None:
            return None
        return np.take(table, index, mode="clip")
    if opcode == "fusion":  # of its operands, some may be tables
        fusion = scope.inside(instruction)
        return _evaluate(fusion, find_root(fusion.computation).number, partitions, known)
    values = [operand(i) for i in range(len(instruction.operands))]
    inputs = [value for value in values if value is not None]
    if len(inputs) < len(values):
        return None
    if opcode == "clamp":
        return np.asarray(np.clip(inputs[1], inputs[0], inputs[2]))
    if opcode == "select":
        return np.where(inputs[0], inputs[1], inputs[2])
    if opcode == "compare" and instruction.comparison in COMPARISONS:
        return np.asarray(COMPARISONS[instruction.comparison](*inputs))
    if opcode in INTEGER_ARITHMETIC:
        if opcode in ("divide", "remainder") and not inputs[1].all():
            return None
        return _wrap(np.asarray(INTEGER_ARITHMETIC[opcode](*inputs)), instruction)
    return None


def _wrap(value: npt.NDArray[Any], instruction: Instruction) -> npt.NDArray[Any]:
    """Return integers as an instruction's type holds them."""
    dtype = INTEGERS.get(instruction.arrays[0][0])
    return value if dtype is None or value.dtype == bool else value.astype(dtype).astype(np.int64)


def _find_table(scope: Scope, number: int) -> npt.NDArray[Any] | None:
    """Return a constant list of numbers, which may be passed to the fusion; None if unknown."""
    for _ in range(MAX_STEPS):
        instruction = scope.computation[number]
        is_fused = scope.caller is not None and scope.caller.opcode == "fusion"
        if instruction.opcode == "parameter" and is_fused and scope.caller and scope.outer:
            number, scope = scope.caller.operands[instruction.index], scope.outer
        elif instruction.opcode in MOVES:
            number = instruction.operands[0]
        else:
            return np.array(instruction.constant) if instruction.constant else None
    return None
