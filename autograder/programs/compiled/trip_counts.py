"""Loops: how often the body of a compiled `while` runs.

XLA's CPU compiler notes it beside the loop; the TPU's does not, and it is worked out here for the
form that every `scan` and `fori_loop` has: a counter that starts at a constant, grows by a
constant, and is compared with a constant.
"""

import json
from collections.abc import Mapping

from autograder.programs.compiled.hlo import Instruction, Program

Computation = Mapping[str, Instruction]


def trip_count(program: Program, computation: str, loop: Instruction) -> int | None:
    """How often the body of a loop runs; None where the program does not tell.

    Args:
        program: the compiled program.
        computation: the name of the computation in which the loop stands.
        loop: the `while` instruction.
    """
    noted = _noted(loop)
    if noted is not None:
        return noted
    around = program.computations[computation]
    condition, body = (
        program.computations.get(loop.attributes.get(key, "").removeprefix("%"), {})
        for key in ("condition", "body")
    )
    if not condition or not body:
        return None
    test = list(condition.values())[-1]
    counts_up = test.opcode == "compare" and test.attributes.get("direction") == "LT"
    if not counts_up or len(test.operands) != 2 or test.attributes.get("type") == "UNSIGNED":
        return None
    place, limit = _place(condition, test.operands[0]), _constant(condition, test.operands[1])
    start = _constant(around, _element(around, "".join(loop.operands[:1]), place))
    step = _step(body, place)
    if start is None or limit is None or not step or step < 0 or limit + step >= 1 << 31:
        return None
    return max(0, -((start - limit) // step))


def _noted(loop: Instruction) -> int | None:
    """What the compiler itself says of the loop."""
    try:
        return int(json.loads(loop.attributes["backend_config"])["known_trip_count"]["n"])
    except (KeyError, TypeError, ValueError):
        return None


def _place(computation: Computation, name: str) -> str | None:
    """Which of the values that a loop carries an instruction takes."""
    taken = computation.get(name)
    if taken is None or taken.opcode != "get-tuple-element":
        return None
    carried = computation.get(taken.operands[0]) if taken.operands else None
    if carried is None or carried.opcode != "parameter":
        return None
    return taken.attributes.get("index")


def _element(computation: Computation, name: str, place: str | None) -> str:
    """The name of what stands at a place of a tuple."""
    made = computation.get(name)
    if made is None or made.opcode != "tuple" or place is None:
        return ""
    return "".join(made.operands[int(place) :][:1])


def _step(body: Computation, place: str | None) -> int | None:
    """What is added, each time round, to the value at a place."""
    added = body.get(_element(body, list(body)[-1], place))
    if added is None or added.opcode != "add" or len(added.operands) != 2:
        return None
    for one, other in (added.operands, added.operands[::-1]):
        if _place(body, one) == place:
            return _constant(body, other)
    return None


def _constant(computation: Computation, name: str) -> int | None:
    """The number that an instruction is, if it is one."""
    instruction = computation.get(name)
    if instruction is not None and instruction.opcode == "copy":
        return _constant(computation, instruction.operands[0])
    if instruction is None or instruction.opcode != "constant":
        return None
    text = instruction.attributes.get("value", "")
    return int(text) if text.lstrip("-").isdigit() else None
