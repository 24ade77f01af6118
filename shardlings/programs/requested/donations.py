"""Read which arguments a program donates: their buffers are reused for its results."""

from typing import Any, Final

DONATES: Final = ("jax.buffer_donor", "tf.aliasing_output")
"""The attributes by which JAX marks a donated argument, before and after it chose the result."""


def find_donated_arguments(module: Any) -> frozenset[int]:
    """Return the numbers, from 0, of the arguments that an exported function donates.

    The function is what `main` calls with those arguments of `main` that it uses. A donation by a
    `jit` within the function has no effect, because only whole programs are given buffers.
    """
    from jax.extend.mlir import ir

    symbols = ir.SymbolTable(module.operation)
    main = symbols["main"].operation.regions[0].blocks[0]
    calls = [operation for operation in main.operations if operation.name == "func.call"]
    if len(calls) != 1:
        return frozenset()
    function = symbols[ir.FlatSymbolRefAttr(calls[0].attributes["callee"]).value]
    if "arg_attrs" not in function.attributes:
        return frozenset()
    of_arguments = map(ir.DictAttr, ir.ArrayAttr(function.attributes["arg_attrs"]))
    return frozenset(
        _find_argument(operand, list(main.arguments))
        for operand, attributes in zip(calls[0].operands, of_arguments, strict=True)
        if any(name in attributes for name in DONATES)
    )


def _find_argument(value: Any, arguments: list[Any]) -> int:
    """Return the number of the argument that is passed on, perhaps through sharding constraints."""
    while value not in arguments:
        value = value.owner.operands[0]
    return arguments.index(value)
