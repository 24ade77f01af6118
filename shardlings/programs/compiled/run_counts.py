"""Work out how often each computation of a compiled program runs.

XLA's CPU compiler notes the trip count of a loop beside it. A TPU's compiler does not, so there it
is worked out from the loop itself (`counting_loops`).
"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Final, NamedTuple

from shardlings.programs.compiled.hlo import (
    CompiledProgram,
    Computation,
    Instruction,
    bits_per_element,
    find_root,
)
from shardlings.programs.compiled.reading_modules import UnreadableProgramError
from shardlings.programs.counting_loops import LoopValue, find_counter

CALLS: Final = ("fusion", "call", "async-start")
"""The opcodes that run the computations they name, once."""

NAMES_AGAIN: Final = ("async-update", "async-done")
"""The opcodes that name the computation which an `async-start` runs."""


class ComputationRuns(NamedTuple):
    """The number of runs of a computation for one run of the instruction that calls it.

    Attributes:
        computation: the computation's number.
        times: how often it runs; None where only the running program knows.
        branches: the branches that it is in, the outermost first: of each, a number of the
            conditional, and the branch's own. Only one branch of a conditional runs.
    """

    computation: int
    times: int | None
    branches: tuple[tuple[int, int], ...] = ()


def count_runs(program: CompiledProgram) -> Iterator[ComputationRuns]:
    """Yield how often each computation runs, once for each place that calls it.

    Raises:
        UnreadableProgramError: an instruction of an unknown kind calls a collective.
    """
    waiting, conditionals = [ComputationRuns(program.entry, 1)], count()
    while waiting:
        runs = waiting.pop(0)
        yield runs
        computation = program.computations[runs.computation]
        for instruction in computation.values():
            if instruction.opcode == "while":
                turns = trip_count(program, computation, instruction)
                # the condition runs once more than the body
                for called, extra in zip(instruction.called, (0, 1), strict=True):
                    times = None
                    if runs.times is not None and turns is not None:
                        times = runs.times * (turns + extra)
                    waiting.append(ComputationRuns(called, times, runs.branches))
            elif instruction.opcode == "conditional":
                number = next(conditionals)
                waiting += [
                    ComputationRuns(called, runs.times, (*runs.branches, (number, branch)))
                    for branch, called in enumerate(instruction.called)
                ]
            elif instruction.opcode in CALLS:
                waiting += [runs._replace(computation=called) for called in instruction.called]
            elif instruction.opcode not in NAMES_AGAIN and _calls_collective(program, instruction):
                raise UnreadableProgramError(f"A {instruction.opcode!r} calls a collective.")


def _calls_collective(program: CompiledProgram, instruction: Instruction) -> bool:
    """Check for a collective in the computations that an instruction calls, directly or not."""
    waiting, seen = list(instruction.called), set[int]()
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen.add(number)
            for step in program.computations[number].values():
                if step.collective_kind is not None:
                    return True
                waiting += step.called
    return False


def trip_count(program: CompiledProgram, around: Computation, loop: Instruction) -> int | None:
    """Return how often the body of a loop runs; None where only the running program knows.

    Args:
        program: the compiled program.
        around: the computation that contains the loop.
        loop: the `while` instruction.
    """
    if loop.known_trip_count is not None:
        return loop.known_trip_count
    body, condition = program.called(loop), program.called(loop, 1)
    test, compared = _unfuse(program, (condition, find_root(condition)))
    updated, initial = find_root(body), around[loop.operands[0]]
    if test.opcode != "compare" or not updated.opcode == initial.opcode == "tuple":
        return None
    counter = find_counter(
        partial(_describe, program),
        compared=compared,
        initial=_operands(around, initial),
        updated=_operands(body, updated),
        comparison=test.comparison,
    )
    if counter is None or counter.start is None or counter.limit is None or counter.last is None:
        return None
    lowest, highest = _range_of(body[updated.operands[counter.position]].arrays[0][0])
    lowest = 0 if test.is_unsigned else lowest
    if not all(lowest <= n <= highest for n in (counter.start, counter.limit, counter.last)):
        return None  # the counter would overflow, or a number was misread
    return counter.trip_count


def _range_of(dtype: str) -> tuple[int, int]:
    """Return the lowest and the highest number of an integer type; an empty range for another."""
    if not re.fullmatch(r"[su]\d+", dtype):
        return 0, -1
    bits = bits_per_element(dtype)
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_Value = tuple[Computation, Instruction]
"""An instruction, as a value, and the computation that contains it."""


def _operands(computation: Computation, instruction: Instruction) -> list[_Value]:
    return [(computation, computation[number]) for number in instruction.operands]


def _unfuse(program: CompiledProgram, value: _Value) -> tuple[Instruction, list[_Value]]:
    """Return the instruction that computes a value, be it in a fusion, and its operands."""
    computation, instruction = value
    if instruction.opcode != "fusion":
        return instruction, _operands(computation, instruction)
    steps = program.called(instruction)
    root = find_root(steps)
    return root, [
        (computation, computation[instruction.operands[step.index]])
        if step.opcode == "parameter"
        else (steps, step)
        for step in (steps[number] for number in root.operands)
    ]


def _describe(program: CompiledProgram, value: _Value) -> LoopValue:
    """Describe a value for `find_counter`. A copy counts as the value that it copies."""
    computation, instruction = value
    while instruction.opcode == "copy":
        instruction = computation[instruction.operands[0]]
    computing, operands = _unfuse(program, (computation, instruction))
    if computing.opcode in ("add", "subtract"):
        return LoopValue(addends=operands, is_difference=computing.opcode == "subtract")
    if instruction.opcode == "get-tuple-element":
        is_carried = computation[instruction.operands[0]].opcode == "parameter"
        return LoopValue(carried=instruction.index if is_carried else None)
    if instruction.constant is not None and len(instruction.constant) == 1:
        return LoopValue(constant=instruction.constant[0])
    return LoopValue()
