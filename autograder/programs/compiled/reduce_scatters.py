"""Recognise all-reduces of which each device uses only its own slice: reduce-scatters.

XLA's CPU compiler never emits a reduce-scatter by itself, nor does the TPU's on small arrays; it
writes an all-reduce, and then each device takes its slice. That is the same collective where,
within each group, every device takes another slice, and all slices together are the whole. Which
slice a device takes is worked out from the instructions that compute its offset from the
partition's number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from autograder.programs.compiled.hlo import CompiledProgram, Computation, Instruction, root

MOVES = (
    "bitcast", "copy", "copy-start", "copy-done", "reshape", "get-tuple-element", "convert",
)  # fmt: skip
ARITHMETIC = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.floor_divide,
    "remainder": np.remainder, "minimum": np.minimum, "maximum": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "shift-right-logical": np.right_shift, "shift-left": np.left_shift,
}  # fmt: skip
COMPARISONS = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
    "EQ": np.equal, "NE": np.not_equal,
}  # fmt: skip


MAX_STEPS: Final = 150
"""How many instructions are looked at to work out one offset, and how many moves are followed: JAX
makes a dozen. What takes more is unknown, as is what takes the same values again and again."""


@dataclass(frozen=True)
class Scope:
    """A computation, and the fusion that calls it, if one does: names are looked up from here."""

    program: CompiledProgram
    computation: Computation
    caller: Instruction | None = None
    outer: "Scope | None" = None

    def inside(self, fusion: Instruction) -> "Scope":
        """The scope within a fusion."""
        return Scope(self.program, self.program.called(fusion), fusion, self)

    def users(self, number: int) -> list[Instruction]:
        """The instructions that take the result of another."""
        return self._users.get(number, [])

    @cached_property
    def _users(self) -> dict[int, list[Instruction]]:
        users: dict[int, list[Instruction]] = {}
        for instruction in self.computation.values():
            for operand in instruction.operands:
                users.setdefault(operand, []).append(instruction)
        return users


Slices = tuple[tuple[int, ...], ...]
"""Where the slice of each partition begins."""


def keeps_own_slice(
    scope: Scope, reduced: Instruction, groups: tuple[tuple[int, ...], ...]
) -> bool:
    """Whether every device uses only a slice of an all-reduce that no other in its group uses.

    Args:
        scope: where the all-reduce stands.
        reduced: the all-reduce.
        groups: the partitions that reduce together.
    """
    slices = set(_slices(scope, reduced, groups))
    return len(slices) == 1 and None not in slices


def _slices(
    scope: Scope, reduced: Instruction, groups: tuple[tuple[int, ...], ...], left: int = MAX_STEPS
) -> list[Slices | None]:
    """The slices that each use of a result takes; None for a use of another kind."""
    if not left:
        return [None]
    found: list[Slices | None] = []
    for user in scope.users(reduced.number):
        if user.opcode in MOVES:
            found += _slices(scope, user, groups, left - 1)
        elif user.opcode == "fusion":
            within = scope.inside(user)
            place = user.operands.index(reduced.number)
            parameters = [
                i
                for i in within.computation.values()
                if i.opcode == "parameter" and i.index == place
            ]
            into = _slices(within, parameters[0], groups, left - 1) if parameters else [None]
            found += into
        elif user.opcode == "dynamic-slice" and user.operands[0] == reduced.number:
            found.append(_own_slices(scope, user, reduced, groups))
        else:
            found.append(None)
    return found or [None]


def _own_slices(
    scope: Scope, cut: Instruction, whole: Instruction, groups: tuple[tuple[int, ...], ...]
) -> Slices | None:
    """Where each partition's slice begins, if those of each group are apart, and all of it."""
    parts = max(map(len, groups))
    if sum(cut.sizes) * parts != sum(whole.sizes) or len(whole.arrays) != 1:
        return None
    partitions = max(max(group) for group in groups) + 1
    sizes, room = cut.arrays[0][1], whole.arrays[0][1]
    offsets = [
        _value(scope, number, partitions, iter(range(MAX_STEPS))) for number in cut.operands[1:]
    ]
    if any(offset is None for offset in offsets) or len(offsets) != len(room):
        return None
    begins = tuple(
        tuple(
            # a slice that would reach over the end begins earlier
            min(max(int(np.ravel(o)[p if np.size(o) > 1 else 0]), 0), whole_size - size)
            for o, size, whole_size in zip(offsets, sizes, room, strict=True)
            if o is not None
        )
        for p in range(partitions)
    )
    for group in groups:
        for one, other in combinations((begins[p] for p in group), 2):
            if all(abs(a - b) < size for a, b, size in zip(one, other, sizes, strict=True)):
                return None
    return begins


def _value(
    scope: Scope, number: int, partitions: int, steps: Iterator[int]
) -> npt.NDArray[Any] | None:
    """What an instruction gives on each partition: one value for each; None where unknown.

    Args:
        scope: where it stands.
        number: the instruction.
        partitions: how many partitions there are.
        steps: the instructions that may still be looked at, this one among them.
    """
    if next(steps, None) is None:
        return None
    instruction = scope.computation[number]

    def operand(i: int) -> npt.NDArray[Any] | None:
        return _value(scope, instruction.operands[i], partitions, steps)

    opcode = instruction.opcode
    if opcode == "partition-id":
        return np.arange(partitions)
    if opcode == "replica-id":  # JAX makes programs of many partitions and one replica
        return np.zeros(partitions, int)
    if opcode == "constant":
        if instruction.constant is None or len(instruction.constant) != 1:
            return None  # a table: read by the dynamic-slice below
        return np.full(partitions, instruction.constant[0])
    if opcode == "parameter" and scope.caller is not None and scope.outer is not None:
        return _value(scope.outer, scope.caller.operands[instruction.index], partitions, steps)
    if opcode in (*MOVES, "broadcast"):
        value = operand(0)
        # what is true or false becomes a number where it is converted to one
        truth = value is not None and value.dtype == bool and instruction.arrays[0][0] != "pred"
        return value.astype(int) if value is not None and truth else value
    if opcode == "dynamic-slice" and len(instruction.operands) == 2:
        table, place = _table(scope, instruction.operands[0]), operand(1)
        if table is None or place is None:
            return None
        return np.take(table, place, mode="clip")
    values = [operand(i) for i in range(len(instruction.operands))]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if opcode == "clamp":
        return np.asarray(np.clip(known[1], known[0], known[2]))
    if opcode == "select":
        return np.where(known[0], known[1], known[2])
    if opcode == "compare" and instruction.comparison in COMPARISONS:
        return np.asarray(COMPARISONS[instruction.comparison](*known))
    if opcode in ARITHMETIC:
        return np.asarray(ARITHMETIC[opcode](*known))
    if opcode == "fusion":
        within = scope.inside(instruction)
        return _value(within, root(within.computation).number, partitions, steps)
    return None


def _table(scope: Scope, number: int) -> npt.NDArray[Any] | None:
    """A constant list of numbers, here or where a fusion was given it."""
    for _ in range(MAX_STEPS):
        instruction = scope.computation[number]
        if instruction.opcode == "parameter" and scope.caller and scope.outer:
            number, scope = scope.caller.operands[instruction.index], scope.outer
        elif instruction.opcode in MOVES:
            number = instruction.operands[0]
        else:
            return np.array(instruction.constant) if instruction.constant else None
    return None
