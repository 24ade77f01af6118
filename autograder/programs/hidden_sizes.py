"""Hide sizes from a compiler, so that no choice in a program can depend on one.

A compiler evaluates what rests on no argument: `jnp.ones(tokens).sum() > 500` becomes true or
false, and what the other choice would have needed is dropped, its collectives included. A program
that is compiled at a size at which it is never run could thus leave out there what it does where
its values are checked.

Such a number begins as a constant, as an iota, or as a whole number or truth value that is known
whatever the arguments are (`i == i`). So each of these goes through an `optimization_barrier`,
behind which a compiler knows nothing of it. A loop that counts from a constant to a constant still
sees these, or nobody would know how often it runs.
"""

from collections.abc import Iterator
from typing import Any, Final

from autograder.programs import requested

PARTS_OF_A_PROGRAM: Final = frozenset(
    {"builtin.module", "func.func", "sdy.manual_computation",
     "stablehlo.while", "stablehlo.case", "stablehlo.if"}
)  # fmt: skip
"""Operations whose regions hold more of the program, and not what is done to two numbers."""

PASS_ON: Final = PARTS_OF_A_PROGRAM | {"func.call", "stablehlo.composite"}
"""Operations whose results are made elsewhere in the program, and are hidden there."""


def hide_sizes(module: Any) -> None:
    """Put all that could tell a compiler a size behind an `optimization_barrier`.

    Args:
        module: a StableHLO module, which is changed.
    """
    operations = list(_operations(module.operation))
    counting = [
        use
        for operation in operations
        if operation.name == "stablehlo.while"
        for use in requested.counting(operation)
    ]
    for operation in operations:
        for value in _known(operation):
            _hide(value)
    for operation, place, value in counting:
        operation.operands[place] = value


def _operations(operation: Any) -> Iterator[Any]:
    """Yield an operation and all parts of the program in it."""
    yield operation
    if operation.name in PARTS_OF_A_PROGRAM:
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    yield from _operations(inner.operation)


def _known(operation: Any) -> Iterator[Any]:
    """Yield the values of an operation that a compiler might know whatever the arguments are."""
    if operation.name == "stablehlo.while":
        for region in operation.regions:
            yield from (each for each in region.blocks[0].arguments if not _is_float(each))
    of_floats = operation.name in PASS_ON or any(map(_is_float, operation.operands))
    yield from (each for each in operation.results if not (of_floats and _is_float(each)))


def _is_float(value: Any) -> bool:
    """Whether a value is an array of floating-point numbers."""
    from jax.extend.mlir import ir

    try:
        element = str(ir.RankedTensorType(value.type).element_type)
    except ValueError:  # it is no array
        return False
    return element.startswith(("f", "bf"))


def _hide(value: Any) -> None:
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    if isinstance(value.owner, ir.Block):
        place = ir.InsertionPoint.at_block_begin(value.owner)
    else:
        place = ir.InsertionPoint.after(value.owner)
    with value.context, ir.Location.unknown(), place:
        barrier: Any = stablehlo.optimization_barrier([value])
        hidden = getattr(barrier, "result", barrier)
    value.replace_all_uses_except(hidden, hidden.owner.operation)
