"""Origins: which of a program's arguments a collective takes, where nothing was computed before."""

from autograder.hlo import Instruction, Program
from autograder.reduce_scatter import MOVES

GATHERING = ("all-gather", "all-to-all", "collective-permute", "collective-broadcast")
MOVING = (
    *MOVES, *GATHERING, *(f"{kind}-start" for kind in GATHERING),
    *(f"{kind}-done" for kind in GATHERING), "transpose", "slice", "optimization-barrier",
)  # fmt: skip


def argument_of(program: Program, computation: str, instruction: Instruction) -> int | None:
    """The number of the parameter whose data an instruction takes as it came, moved at most.

    Parameters are those of the compiled program, from which unused arguments may be gone.

    Args:
        program: the compiled program.
        computation: the name of the computation in which the instruction stands.
        instruction: the collective.
    """
    names = program.computations[computation]
    if computation != program.entry or len(instruction.operands) != 1:
        return None
    taken = names.get(instruction.operands[0])
    while taken is not None and taken.operands:
        if taken.opcode == "parameter":
            return int(taken.operands[0])
        if not _only_moves(program, taken) or len(taken.operands) > 1:
            return None
        taken = names.get(taken.operands[0])
    return None


def _only_moves(program: Program, instruction: Instruction) -> bool:
    """Whether an instruction gives on what it takes, and computes nothing."""
    if instruction.opcode != "fusion":
        return instruction.opcode in MOVING
    inside = program.computations.get(instruction.called[0] if instruction.called else "", {})
    steps = [i for i in inside.values() if i.opcode != "parameter"]
    return len(instruction.operands) == 1 and all(step.opcode in MOVING for step in steps)
