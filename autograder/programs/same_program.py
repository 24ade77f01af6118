"""Check that programs are the same but for their sizes.

The values of a program can be checked only where it can be run, which is at small sizes. So the
program that is too large to run has to be the same one: the same operations on the same operands,
with arrays that are larger by what the arguments are larger by. `hidden_sizes.py` does the rest: it
keeps the compiler from working out a choice that depends on a size.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise
from math import prod
from typing import Any, Final

import jax

from autograder.programs import requested
from autograder.programs.program_errors import ProgramError
from autograder.programs.understood import named_attributes

NAMES: Final = ("sym_name", "function_type")
"""Attributes that are compared in another way: functions by their place, types by their arrays."""

MAY_GROW: Final = ("slice_sizes", "window_dimensions")
"""Attributes that may be larger by what an argument is larger by."""

PARTS: Final = ("start_indices", "limit_indices", "edge_padding_low", "edge_padding_high")
"""Attributes that say where a part of an array begins or ends."""

MAX_FACTORS: Final = 4
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
        modules: their StableHLO, of the largest first.
        mesh: names the axes.
        sizes: the sizes of the arguments, each in all of the programs.

    Raises:
        ProgramError: they differ in more than that.
    """
    programs = [list(walk(module)) for module in modules]
    outlines = [_outline(operations) for operations in programs]
    by_hand = [
        [(c.kind, c.axes, c.times) for c in requested.read(module, mesh)] for module in modules
    ]
    if any(outline != outlines[0] for outline in outlines) or any(
        collectives != by_hand[0] for collectives in by_hand
    ):
        raise ProgramError(
            "another-program",
            "At the real size, the step is another program than at the small sizes at which "
            "its values are looked at. Does what it does depend on a size, or does JAX write the "
            "derivative of an operation in it otherwise for other shapes?",
        )
    wide = any("f64" in kind and shape for each in programs[0] for kind, shape in _arrays(each))
    if wide or any(each.name == "stablehlo.bitcast_convert" for each in programs[0]):
        raise ProgramError(
            "packs-numbers",
            "The step packs numbers into others (bitcast_convert_type), or has numbers of 64 bits. "
            "Each number that is sent is counted as a bfloat16, so neither is taken here.",
        )
    grown = _ratios(sizes)
    for same in zip(*programs, strict=True):
        for size in _sizes(same):
            if 0 in size or _ratio(size) not in grown:
                large, *small = size
                raise ProgramError(
                    "another-program",
                    f"A dimension of an array in the step is {large:,} at the real size, and "
                    f"{' and '.join(map(str, small))} at the small ones. That does not follow from "
                    f"the arguments' sizes. Is one written in, or does the step cut something off?",
                )
        for begins, ends, wholes in _parts(same):
            shares = {
                (Fraction(b, w), Fraction(e, w))
                for b, e, w in zip(begins, ends, wholes, strict=True)
            }
            if len(shares) > 1 and ({*begins}, {*ends}) != ({0}, {1}):
                raise ProgramError(
                    "another-program",
                    f"The step takes or makes a part of an array. At the real size, that is "
                    f"{begins[0]:,} to {ends[0]:,} of {wholes[0]:,}, and at a small one "
                    f"{begins[1]:,} to {ends[1]:,} of {wholes[1]:,}, which is another part. Is a "
                    f"size written in?",
                )


def coarser_types(module: Any) -> tuple[str, ...]:
    """Return the types of less than 32 bits that a program computes with, by JAX's names."""
    kinds = {kind for operation in walk(module) for kind, _ in _arrays(operation)}
    return tuple(name for short, name in COARSER.items() if short in kinds)


def walk(module: Any) -> Iterator[Any]:
    """Yield the operations of a module, each before those in its regions."""
    yield module.operation
    for region in module.operation.regions:
        for block in region.blocks:
            for operation in block.operations:
                yield from walk(operation)


def _ratio(size: Sizes) -> tuple[Fraction, ...]:
    """How much larger a size is in each program than in the next."""
    return tuple(Fraction(a, b) for a, b in pairwise(size))


def _ratios(sizes: Sequence[Sizes]) -> set[tuple[Fraction, ...]]:
    """How much larger products of sizes are."""
    distinct = {_ratio(size): size for size in sizes}.values()
    count = len(sizes[0])
    return {
        _ratio(tuple(prod(factor[i] for factor in factors) for i in range(count)))
        for number in range(MAX_FACTORS + 1)
        for factors in combinations_with_replacement(distinct, number)
    }


Outline = tuple[str, tuple[int, ...], tuple[str, ...], tuple[tuple[str, int], ...]]
"""An operation without its sizes: its name, its operands' numbers, its attributes, its types."""


def _outline(operations: Sequence[Any]) -> list[Outline]:
    """Return a program without its sizes.

    Values are numbered in the order in which they are made, so that two outlines are equal only if
    each operation takes the same values in both.
    """
    functions = {
        operation.attributes["sym_name"].value: number
        for number, operation in enumerate(operations)
        if operation.name == "func.func"
    }
    numbers: dict[Any, int] = {}
    outline: list[Outline] = []
    for operation in operations:
        taken = tuple(numbers[operand] for operand in operation.operands)
        made = [*operation.results]
        for region in operation.regions:
            for block in region.blocks:
                made += block.arguments
        numbers.update((value, len(numbers) + i) for i, value in enumerate(made))
        types = tuple((kind, len(shape)) for kind, shape in map(_array, made))
        outline.append((operation.name, taken, (*_attributes(operation, functions),), types))
    return outline


def _attributes(operation: Any, functions: dict[str, int]) -> Iterator[str]:
    """Yield what the attributes of an operation say that has nothing to do with sizes."""
    from jax.extend.mlir import ir

    for name, attribute in named_attributes(operation.attributes):
        if isinstance(attribute, ir.FlatSymbolRefAttr) and attribute.value in functions:
            yield f"{name}={functions[attribute.value]}"  # JAX numbers names by what it met before
        elif name in (*MAY_GROW, *PARTS):
            yield f"{name}: {len(_numbers(operation, name))}"
        elif name not in NAMES and not (operation.name == "stablehlo.constant" and name == "value"):
            yield f"{name}={attribute}"


def _sizes(same: Sequence[Any]) -> Iterator[Sizes]:
    """Yield each dimension of the arrays that an operation makes, in all programs."""
    for arrays in zip(*map(_arrays, same), strict=True):
        yield from zip(*(shape for _, shape in arrays), strict=True)
    for name in MAY_GROW:
        yield from zip(*(_numbers(each, name) for each in same), strict=True)


def _parts(same: Sequence[Any]) -> Iterator[tuple[Sizes, Sizes, Sizes]]:
    """Yield, of each part of an array, where it begins and ends and how large the whole is.

    A compiler drops what a slice leaves out, so no operation may take another part of an array at
    another size. Each of the three has a number for each program.
    """
    for parts in zip(*map(_parts_of, same), strict=True):
        begins, ends, wholes = zip(*parts, strict=True)
        yield begins, ends, wholes


def _parts_of(operation: Any) -> Iterator[tuple[int, int, int]]:
    """Yield where a slice is in its operand, and where operands are in what is made of them."""
    if operation.name == "stablehlo.slice":
        begins, ends = (_numbers(operation, name) for name in ("start_indices", "limit_indices"))
        yield from zip(begins, ends, _shape(operation.operands[0]), strict=True)
    elif operation.name == "stablehlo.pad":
        low, high = (_numbers(operation, f"edge_padding_{side}") for side in ("low", "high"))
        for before, after, whole in zip(low, high, _shape(operation.results[0]), strict=True):
            yield before, whole - after, whole
    elif operation.name == "stablehlo.concatenate":
        along, begin = int(operation.attributes["dimension"]), 0
        for operand in operation.operands:
            end = begin + _shape(operand)[along]
            yield begin, end, _shape(operation.results[0])[along]
            begin = end


def _numbers(operation: Any, name: str) -> list[int]:
    """The numbers in an attribute that lists some; none where there is no such attribute."""
    return [*map(int, operation.attributes[name])] if name in operation.attributes else []


def _shape(value: Any) -> list[int]:
    return _array(value)[1]


def _arrays(operation: Any) -> Iterator[tuple[str, list[int]]]:
    """Yield the element type and the shape of each array that an operation makes."""
    return map(_array, operation.results)


def _array(value: Any) -> tuple[str, list[int]]:
    """The element type and the shape of a value; of one that is no array, its type."""
    from jax.extend.mlir import ir

    try:
        shaped = ir.RankedTensorType(value.type)
    except ValueError:
        return str(value.type), []
    return str(shaped.element_type), list(shaped.shape)
