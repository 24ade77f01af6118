"""Find out how often the body of a compiled `while` runs.

XLA's CPU compiler notes it beside the loop; the TPU's does not, and it is worked out here for the
form that every `scan` and `fori_loop` has: a counter that starts at a constant, grows by a
constant, and is compared with a constant.
"""

from typing import Final

from autograder.programs.compiled.hlo import CompiledProgram, Computation, Instruction, root

MAX_COUNT: Final = 1 << 31
"""A counter of 32 bits would wrap around here."""


def trip_count(program: CompiledProgram, around: Computation, loop: Instruction) -> int | None:
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
    if test.opcode != "compare" or test.comparison != "LT":
        return None
    compared, most = (condition[number] for number in test.operands)
    place, limit = _place(condition, compared), _constant(condition, most)
    start = _constant(around, _element(around, around[loop.operands[0]], place))
    step = _step(body, place)
    if start is None or limit is None or not step or step < 0 or limit + step >= MAX_COUNT:
        return None
    if test.unsigned and min(start, limit) < 0:
        return None  # numbers without a sign are never so; what else this is, nobody knows
    return max(0, -((start - limit) // step))


def _place(computation: Computation, taken: Instruction) -> int | None:
    """Which of the values that a loop carries an instruction takes."""
    taken = _copied(computation, taken)
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
    made = _element(body, root(body), place)
    added = None if made is None else _copied(body, made)
    if added is None or added.opcode != "add":
        return None
    for one, other in (added.operands, added.operands[::-1]):
        if _place(body, body[one]) == place:
            return _constant(body, body[other])
    return None


def _constant(computation: Computation, instruction: Instruction | None) -> int | None:
    """The number that an instruction is, if it is one."""
    if instruction is None:
        return None
    constant = _copied(computation, instruction).constant
    return constant[0] if constant is not None and len(constant) == 1 else None


def _copied(computation: Computation, instruction: Instruction) -> Instruction:
    """What an instruction is a copy of, if it is one; else itself."""
    while instruction.opcode == "copy":
        instruction = computation[instruction.operands[0]]
    return instruction
