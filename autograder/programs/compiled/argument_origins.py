"""Find which argument a collective takes, if nothing was computed before it."""

from autograder.collective_kinds import CollectiveKind
from autograder.programs.compiled.hlo import Instruction, Program
from autograder.programs.compiled.reduce_scatters import MOVES

GATHERING = tuple(kind for kind in CollectiveKind if not kind.reduces)
MOVING = (
    *MOVES, *GATHERING, *(f"{kind}-start" for kind in GATHERING),
    *(f"{kind}-done" for kind in GATHERING), "transpose", "slice", "optimization-barrier",
)  # fmt: skip


def arguments_of(program: Program, computation: int) -> dict[int, int | None]:
    """For each instruction, the number of the parameter whose data it gives as it came, if any.

    Parameters are those of the compiled program, from which unused arguments may be gone. Each
    instruction is looked at once: operands stand before what takes them.

    Args:
        program: the compiled program.
        computation: the number of the computation whose instructions are asked about.
    """
    found: dict[int, int | None] = {}
    if computation != program.entry:
        return found
    for number, instruction in program.computations[computation].items():
        if instruction.opcode == "parameter":
            found[number] = instruction.index
        elif len(instruction.operands) == 1 and _only_moves(program, instruction):
            found[number] = found.get(instruction.operands[0])
    return found


def _only_moves(program: Program, instruction: Instruction) -> bool:
    """Whether an instruction gives on what it takes, and computes nothing."""
    if instruction.opcode != "fusion":
        return instruction.opcode in MOVING
    steps = [i for i in program.called(instruction).values() if i.opcode != "parameter"]
    return len(instruction.operands) == 1 and all(step.opcode in MOVING for step in steps)
