"""Find the types that a program requests, where a CPU computes in wider ones.

XLA's CPU compiler computes in float32 in place of bfloat16, in float16 in place of 8-bit floats,
and in int8 in place of int4. It converts a collective's operands, and its results back, and in
between twice as many bytes are sent as on a machine that has the type. Such a conversion is XLA's
own: the program's are named after JAX's primitive.
"""

from collections.abc import Iterator
from typing import Final

from shardlings.programs.compiled.hlo import Instruction, bits_per_element, find_root
from shardlings.programs.compiled.reduce_scatters import MOVES, Scope

REARRANGES: Final = (
    *MOVES, "transpose", "slice", "dynamic-slice", "broadcast", "pad", "concatenate", "reverse",
    "optimization-barrier",
)  # fmt: skip
"""The opcodes whose result has data of their first operand."""

MAX_STEPS: Final = 50
"""The most instructions that are followed from a collective to a conversion."""


def find_requested_type(scope: Scope, operand: int, result: Instruction | None) -> str:
    """Return the type of what goes into a collective, as the program requests it.

    XLA converts what comes out back, and that shows it. Where it leaves that out, because the
    program converts to the wider type anyway, the conversion before has no name. One that has is
    not decisive: the program's own get the name of what they are merged with.

    Args:
        scope: the scope of the collective.
        operand: the number of its operand.
        result: the instruction whose value is the operand's result; None if there is none.
    """
    ((dtype, _), *_) = scope.computation[operand].arrays
    after = set(_types_after(scope, result, MAX_STEPS)) if result is not None else set()
    type_after = after.pop() if len(after) == 1 else None
    narrow = type_after or _type_before(scope, operand, MAX_STEPS) or dtype
    return narrow if bits_per_element(narrow) < bits_per_element(dtype) else dtype


def _is_widening(instruction: Instruction) -> bool:
    """Check whether an instruction is a conversion of XLA's own, which no program asks for."""
    is_asked_for = instruction.op_name.endswith("convert_element_type")
    return instruction.opcode == "convert" and not is_asked_for


def _type_before(scope: Scope, number: int, steps: int) -> str | None:
    """Return the type of a value before a conversion without a name; None if there is none."""
    step = scope.computation[number]
    if not steps:
        return None
    if step.opcode == "convert":
        return None if step.op_name else scope.computation[step.operands[0]].arrays[0][0]
    if step.opcode == "fusion":
        inner = scope.inside(step)
        return _type_before(inner, find_root(inner.computation).number, steps - 1)
    if step.opcode == "parameter" and scope.outer and scope.caller:
        if scope.caller.opcode != "fusion":
            return None
        return _type_before(scope.outer, scope.caller.operands[step.index], steps - 1)
    return _type_before(scope, step.operands[0], steps - 1) if step.opcode in REARRANGES else None


def _types_after(scope: Scope, value: Instruction, steps: int) -> Iterator[str | None]:
    """Yield the type that XLA converts each use of a value to; None for a use of another kind."""
    users = scope.users(value.number) if steps else []
    if not users:
        yield None
    for user in users:
        if user.opcode == "convert":
            yield user.arrays[0][0] if _is_widening(user) else None
        elif user.opcode == "fusion":
            fusion, parameters = scope.enter(user, value.number)
            for parameter in parameters:
                yield from _types_after(fusion, parameter, steps - 1)
        elif user.opcode in REARRANGES and user.operands[0] == value.number:
            yield from _types_after(scope, user, steps - 1)
        else:
            yield None
