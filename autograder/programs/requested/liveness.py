"""Find the operations of a StableHLO module that its results rest on.

Whatever a program's author writes beside the way from its arguments to its results is in the module
until a compiler drops it. Counted are operations that a result of `main` is made of: through calls
and composites, into loops (what a loop carries for itself alone is dead, too), branches, and the
bodies of `shard_map`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

CALLS: Final = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""Operations that are another function's doing, and the attribute that names it."""


class Liveness:
    """Which operations of a module are live.

    Args:
        symbols: the module's symbol table; `main` is where it begins.
    """

    def __init__(self, symbols: Any) -> None:
        self._symbols = symbols
        self._operations: set[Any] = set()
        self._values: set[Any] = set()
        self._callers: dict[str, list[Any]] = {}
        self._makes: dict[Any, list[Any]] = {}
        self._waiting: list[Any] = list(_returned(_body(symbols["main"])))
        while self._waiting:
            value = self._waiting.pop()
            if value not in self._values:
                self._values.add(value)
                for each in self._made_of(value):
                    self._waiting.append(each)
                    self._makes.setdefault(each, []).append(value)

    def __contains__(self, operation: Any) -> bool:
        """Whether a result of the program rests on an operation."""
        return operation.operation in self._operations

    def rest_on(self, values: Iterable[Any]) -> set[Any]:
        """The live values that are made of some of these, and these."""
        found: set[Any] = set()
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if value not in found:
                found.add(value)
                waiting += self._makes.get(value, ())
        return found

    def _made_of(self, value: Any) -> Iterator[Any]:
        """The values that one is made of, each a step nearer to the arguments."""
        from jax.extend.mlir import ir

        if isinstance(value.owner, ir.Block):
            yield from self._given(ir.BlockArgument(value))
            return
        operation, number = value.owner.operation, ir.OpResult(value).result_number
        self._operations.add(operation)
        if operation.name in CALLS:
            name = operation.attributes[CALLS[operation.name]].value
            function = _body(self._symbols[name])
            self._callers.setdefault(name, []).append(operation)
            yield _returned(function)[number]
            for place, argument in enumerate(function.arguments):
                if argument in self._values:
                    yield operation.operands[place]
        elif operation.name == "stablehlo.while":
            yield from self._carried(operation, number)
        elif operation.name in ("stablehlo.case", "stablehlo.if"):
            yield from operation.operands
            for region in operation.regions:
                yield _returned(region.blocks[0])[number]
        elif operation.name == "sdy.manual_computation":
            yield _returned(operation.regions[0].blocks[0])[number]
        else:
            yield from operation.operands

    def _given(self, argument: Any) -> Iterator[Any]:
        """What an argument of a block was given, by whoever runs the block."""
        operation, place = argument.owner.owner.operation, argument.arg_number
        if operation.name == "func.func":
            for call in self._callers.get(operation.attributes["sym_name"].value, []):
                yield call.operands[place]
        elif operation.name == "stablehlo.while":
            yield from self._carried(operation, place)
        elif operation.name == "sdy.manual_computation":
            yield operation.operands[place]

    def _carried(self, loop: Any, place: int) -> Iterator[Any]:
        """What a loop carries in one place: what it begins with, what each round makes of it.

        And the test that ends the loop, on which everything in it rests.
        """
        self._operations.add(loop)
        condition, body = (region.blocks[0] for region in loop.regions)
        yield loop.operands[place]
        yield _returned(body)[place]
        yield from _returned(condition)


def _body(function: Any) -> Any:
    """The one block of a function."""
    return function.operation.regions[0].blocks[0]


def _returned(block: Any) -> Any:
    """What a block gives to whoever runs it: the operands of its last operation."""
    return block.operations[len(block.operations) - 1].operands
