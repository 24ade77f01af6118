"""Find loops that do not end, before a program runs.

XLA cannot be stopped: in a notebook, a `while_loop` that never ends would wait until the kernel is
restarted. So a program whose loops might not end first runs with a counter in each of them, which
ends the loop after `MAX_TURNS`. The results of a loop that was ended in this way are replaced by a
mark. If another mark gives other results, the loop was still running.

Loops that hold other such loops, of which none ends, run for too long all the same.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import jax
import numpy as np

from shardlings.programs import requested

MAX_TURNS: Final = 5_000
"""The turns after which a loop counts as one that does not end; the exercises' take hundreds."""

MARKS: Final = (1, 2)
"""The numbers that mark the results of a loop that was ended."""


def has_endless_loop(
    compile_with: Callable[[Callable[[Any], None]], jax.stages.Compiled],
    samples: Sequence[Callable[[], Sequence[jax.Array]]],
) -> bool:
    """Check whether a loop of a program is still running after `MAX_TURNS`, for some inputs.

    Args:
        compile_with: compiles the program, with a change of its StableHLO module.
        samples: make the program's arguments, which it may donate.
    """
    one, other = (compile_with(partial(stop_loops, mark=mark)) for mark in MARKS)
    for sample in samples:
        results = _run(one, sample)
        # sums may differ from run to run
        if results != _run(other, sample) and results == _run(one, sample):
            return True
    return False


def _run(compiled: jax.stages.Compiled, sample: Callable[[], Sequence[jax.Array]]) -> list[bytes]:
    """Return the bytes of each block of the results."""
    results = jax.tree.leaves(jax.block_until_ready(compiled(*sample())))
    return [np.asarray(s.data).tobytes() for result in results for s in result.addressable_shards]


def stop_loops(module: Any, mark: int) -> None:
    """End each loop of a module that might not end after `MAX_TURNS`, and mark its results.

    Args:
        module: a StableHLO module, which is modified.
        mark: the number that replaces all elements of the results of a loop that was ended.
    """
    for loop in requested.list_loops_that_may_not_end(module):
        _stop_loop(loop, mark)


def _stop_loop(loop: Any, mark: int) -> None:
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    with loop.context, ir.Location.unknown():
        count_type = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
        less = stablehlo.ComparisonDirectionAttr.get("LT")

        def constant(number: int, type: Any = count_type) -> Any:
            element = type.element_type
            is_float = isinstance(element, ir.FloatType)
            attribute = (ir.FloatAttr if is_float else ir.IntegerAttr).get(element, number)
            return stablehlo.constant(ir.DenseElementsAttr.get_splat(type, attribute))

        def is_within_limit(count: Any) -> Any:
            return stablehlo.compare(count, constant(MAX_TURNS), less)

        with ir.InsertionPoint(loop):
            limited = ir.Operation.create(
                "stablehlo.while",
                results=[*(result.type for result in loop.results), count_type],
                operands=[*loop.operands, constant(0)],
                regions=2,
            )
        for old, new in zip(loop.regions, limited.regions, strict=True):
            old.blocks[0].append_to(new)
        condition, body = (region.blocks[0] for region in limited.regions)

        count = condition.add_argument(count_type, ir.Location.unknown())
        end = condition.operations[len(condition.operations) - 1].operation
        with ir.InsertionPoint(end):
            goes_on = stablehlo.and_(end.operands[0], is_within_limit(count))
        end.operands[0] = goes_on

        count = body.add_argument(count_type, ir.Location.unknown())
        end = body.operations[len(body.operations) - 1].operation
        with ir.InsertionPoint(end):
            stablehlo.return_([*end.operands, stablehlo.add(count, constant(1))])
        end.erase()

        with ir.InsertionPoint(loop):
            has_ended = is_within_limit(limited.results[len(loop.results)])
            results: Any = zip(loop.results, limited.results, strict=False)
            for result, value in results:
                element, marked = value.type.element_type, value
                if isinstance(element, ir.FloatType | ir.IntegerType):
                    number = mark % 2 if str(element) == "i1" else mark
                    with_mark = constant(number, ir.RankedTensorType(value.type))
                    marked = stablehlo.select(has_ended, value, with_mark)
                result.replace_all_uses_with(marked)
        loop.erase()
