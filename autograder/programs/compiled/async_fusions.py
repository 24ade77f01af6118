"""Collectives that a TPU runs in the background, named by several fusions and run once.

A TPU's compiler begins a large collective in one fusion, with a custom call beside it, goes on with
it in fusions that compute something else, and ends it in another, with a custom call again. Each of
them names the collective, with the same operand handed from one to the next.
"""

from typing import Final

from autograder.collective_kinds import KINDS
from autograder.programs.compiled.hlo import Computation, Instruction, Program, root

BEGINS: Final = "AsyncCollectiveStart"


def goes_on(program: Program, computation: Computation) -> dict[int, int]:
    """For each collective that goes on in a fusion of a computation, the one that it began as.

    Both by their numbers; what begins is there as well, as itself. That it is the same is seen by
    its operand: the second of the fusions takes it from the first, which hands it on as it came.

    Args:
        program: the compiled program.
        computation: the one whose fusions are asked about.
    """
    found: dict[int, int] = {}
    handed_on: dict[tuple[int, int], Instruction] = {}
    for fusion in computation.values():
        if fusion.opcode != "fusion":
            continue
        steps = program.called(fusion)
        for each in steps.values():
            if each.opcode not in KINDS or len(each.operands) != 1:
                continue
            taken = steps[each.operands[0]]
            if _is_begun(steps, each):
                found[each.number] = each.number
                handed_on[fusion.number, 0] = each
            elif taken.opcode == "parameter":
                source = computation[fusion.operands[taken.index]]
                if source.opcode != "get-tuple-element":
                    continue
                earlier = handed_on.get((source.operands[0], source.index))
                if earlier is not None and _alike(earlier, each):
                    found[each.number] = found[earlier.number]
                    for place, number in enumerate(root(steps).operands):
                        if number == taken.number:
                            handed_on[fusion.number, place] = each
    return found


def _is_begun(steps: Computation, collective: Instruction) -> bool:
    """Whether a collective begins where it stands: what begins it hands its operand on, first."""
    last = root(steps)
    return last.target == BEGINS and collective.number in last.operands


def _alike(one: Instruction, other: Instruction) -> bool:
    return (one.opcode, one.arrays, one.groups) == (other.opcode, other.arrays, other.groups)
