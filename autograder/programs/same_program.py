"""Whether two programs are the same but for their sizes; and a large one that knows no sizes.

What a program computes is known only where it can be run, which is where it is small. So a large
one has to be the same program: operation by operation, with arrays that are larger by what the
arguments are larger by. That is not all, since numbers in a program may be sizes, too, and a
compiler that knows them can tell which of two ways is taken. So it is not told them.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise
from math import prod
from typing import Any, Final

import jax

from autograder.programs import requested
from autograder.programs.program_errors import ProgramError

ALIKE: Final = (
    "all_gather_dim", "broadcast_dimensions", "call_target_name", "concat_dimension", "dimensions",
    "dot_dimension_numbers", "in_shardings", "iota_dimension", "manual_axes", "mhlo.sharding",
    "out_shardings", "permutation", "replica_groups", "scatter_dimension", "sdy.sharding",
    "sharding", "source_target_pairs", "split_count", "split_dimension",
)  # fmt: skip
"""The attributes of an operation that say nothing of sizes: between whom, and along what."""

MOST_FACTORS: Final = 4
"""How many of the arguments' sizes the size of an array may be a product of."""

COARSER: Final = {"bf16": "bfloat16", "f16": "float16"}
"""Types of floating-point numbers of less than 32 bits, as a program has them and as JAX does."""

Sizes = tuple[int, ...]
"""One size, in each of several programs."""


def refuse_another_program(
    modules: Sequence[Any], mesh: jax.sharding.Mesh, sizes: Sequence[Sizes]
) -> None:
    """Refuse programs that are not the same but for sizes, or that pack numbers into others.

    Args:
        modules: their StableHLO.
        mesh: what names the axes.
        sizes: the sizes of the arguments, each in all of the programs.

    Raises:
        ProgramError: they differ in more than that.
    """
    outlines = [_outline(module, mesh) for module in modules]
    if any(outline != outlines[0] for outline in outlines):
        raise ProgramError(
            "another-program",
            "At the real size, the step is another program than at the small sizes at which "
            "its values are looked at. Does what it does depend on a size?",
        )
    operations = {operation[0] for operation in outlines[0][0]}
    wide = any("f64" in kind and shape for kind, shape in _all_arrays(modules[0]))
    if "stablehlo.bitcast_convert" in operations or wide:
        raise ProgramError(
            "packs-numbers",
            "The step packs numbers into others (bitcast_convert_type), or has numbers of 64 bits. "
            "Each number that is sent is counted as a bfloat16, so neither is taken here.",
        )
    grown = _ratios(sizes)
    for arrays in zip(*map(_all_arrays, modules), strict=True):
        for size in zip(*(shape for _, shape in arrays), strict=True):
            if 0 in size or _ratio(size) not in grown:
                large, *small = size
                raise ProgramError(
                    "another-program",
                    f"A dimension of an array in the step is {large:,} at the real size, and "
                    f"{' and '.join(map(str, small))} at the small ones. That does not follow from "
                    f"the arguments' sizes. Is one written in, or does the step cut something off?",
                )


def coarser_types(module: Any) -> tuple[str, ...]:
    """The types of floating-point numbers of less than 32 bits that a program computes with."""
    kinds = {kind for kind, _ in _all_arrays(module)}
    return tuple(name for short, name in COARSER.items() if short in kinds)


def hide_sizes(module: Any, smaller: Any) -> None:
    """Keep a compiler from knowing numbers that come from a size: it could work out choices.

    Args:
        module: the program's StableHLO, which is changed.
        smaller: that of the same program for a smaller size.
    """
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    for one, other in zip(_walk(module), _walk(smaller), strict=True):
        if one.name not in ("stablehlo.constant", "stablehlo.iota"):
            continue
        if one.name == "stablehlo.constant" and _said_by(one) == _said_by(other):
            continue
        with module.context, ir.Location.unknown(), ir.InsertionPoint(one):
            copy = one.operation.clone()
            made = stablehlo.optimization_barrier([copy.results[0]])
            one.results[0].replace_all_uses_with(getattr(made, "result", made))


def _said_by(constant: Any) -> str:
    """A constant's number, where it has one in all places; else all of it."""
    from jax.extend.mlir import ir

    value = ir.DenseElementsAttr(constant.attributes["value"])
    return str(value.get_splat_value()) if value.is_splat else str(value)


def _ratio(size: Sizes) -> tuple[Fraction, ...]:
    """How much larger a size is in each program than in the next."""
    return tuple(Fraction(a, b) for a, b in pairwise(size))


def _ratios(sizes: Sequence[Sizes]) -> set[tuple[Fraction, ...]]:
    """How much larger products of sizes are."""
    distinct = {_ratio(size): size for size in sizes}.values()
    count = len(sizes[0])
    return {
        _ratio(tuple(prod(factor[i] for factor in factors) for i in range(count)))
        for number in range(MOST_FACTORS + 1)
        for factors in combinations_with_replacement(distinct, number)
    }


def _outline(module: Any, mesh: jax.sharding.Mesh) -> tuple[list[Any], list[Any]]:
    """A program without its sizes: its operations, and what it asks for by hand, and how often."""
    walked = _walk(module)
    functions = [str(o.attributes["sym_name"]) for o in walked if "sym_name" in o.attributes]
    operations = [(o.name, *_called(o, functions), *_attributes(o), *_types(o)) for o in walked]
    by_hand = [(c.kind, c.axes, c.times) for c in requested.read(module, mesh)]
    return operations, by_hand


def _walk(module: Any) -> list[Any]:
    """All operations of a program, in order."""
    from jax.extend.mlir import ir

    operations: list[Any] = []

    def visit(operation: Any) -> Any:
        operations.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return operations


def _called(operation: Any, functions: Sequence[str]) -> Iterator[int]:
    """Which function an operation calls, by its place: JAX numbers names by what it met before."""
    if "callee" in operation.attributes:
        yield functions.index(f'"{operation.attributes["callee"].value}"')


def _attributes(operation: Any) -> Iterator[str]:
    """What the attributes say that have nothing to do with sizes."""
    for name in ALIKE:
        if name in operation.attributes:
            yield f"{name}={operation.attributes[name]}"


def _types(operation: Any) -> Iterator[tuple[str, int]]:
    """For each array that an operation makes, the type of its numbers and how many dimensions."""
    for kind, shape in _arrays(operation):
        yield kind, len(shape)


def _all_arrays(module: Any) -> Iterator[tuple[str, list[int]]]:
    """The element type and the shape of each array in a program."""
    for operation in _walk(module):
        yield from _arrays(operation)


def _arrays(operation: Any) -> Iterator[tuple[str, list[int]]]:
    """The element type and the shape of each array that an operation makes."""
    from jax.extend.mlir import ir

    for result in operation.results:
        try:
            shaped = ir.RankedTensorType(result.type)
        except ValueError:  # it makes no array
            yield str(result.type), []
        else:
            yield str(shaped.element_type), list(shaped.shape)
