"""Loops: how often the body of a compiled `while` runs.

XLA's CPU compiler notes it beside the loop; the TPU's does not, and it is worked out here for the
form that every `scan` and `fori_loop` has: a counter that starts at a constant, grows by a
constant, and is compared with a constant.
"""

from typing import Final

from autograder.programs.compiled.hlo import Computation, Instruction, Program, root

LARGEST: Final = 1 << 31
"""Where a counter of 32 bits would begin again."""


def trip_count(program: Program, around: Computation, loop: Instruction) -> int | None:
    """How often the body of a loop runs; None where the program does not tell.

    Args:
        program: the compiled program.
        around: the computation in which the loop stands.
        loop: the `while` instruction.
    """
    if loop.trips is not None:
        return loop.trips
    body, condition = program.called(loop), program.called(loop, 1)
    test = root(condition)
    if test.opcode != "compare" or test.comparison != "LT" or test.unsigned:
        return None
    compared, most = (condition[number] for number in test.operands)
    place, limit = _place(condition, compared), _constant(condition, most)
    start = _constant(around, _element(around, around[loop.operands[0]], place))
    step = _step(body, place)
    if start is None or limit is None or not step or step < 0 or limit + step >= LARGEST:
        return None
    return max(0, -((start - limit) // step))


def _place(computation: Computation, taken: Instruction) -> int | None:
    """Which of the values that a loop carries an instruction takes."""
    if taken.opcode != "get-tuple-element":
        return None
    carried = computation[taken.operands[0]]
    return taken.index if carried.opcode == "parameter" else None


def _element(computation: Computation, made: Instruction, place: int | None) -> Instruction | None:
    """What stands at a place of a tuple."""
    if made.opcode != "tuple" or place is None:
        return None
    return computation[made.operands[place]]


def _step(body: Computation, place: int | None) -> int | None:
    """What is added, each time round, to the value at a place."""
    added = _element(body, root(body), place)
    if added is None or added.opcode != "add":
        return None
    for one, other in (added.operands, added.operands[::-1]):
        if _place(body, body[one]) == place:
            return _constant(body, body[other])
    return None


def _constant(computation: Computation, instruction: Instruction | None) -> int | None:
    """The number that an instruction is, if it is one."""
    while instruction is not None and instruction.opcode == "copy":
        instruction = computation[instruction.operands[0]]
    if instruction is None or instruction.constant is None or len(instruction.constant) != 1:
        return None
    return instruction.constant[0]
