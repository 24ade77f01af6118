"""Check that a program too large to run is the program whose values were checked at small sizes.

Values can be checked only at sizes at which the program can be run, and costs count at the real
size, at which it is only compiled. A program could compute the right values at small sizes and
leave out work at the real one. Two measures prevent this:

- `refuse_another_program` compares the StableHLO of all sizes. Operations and operands have to be
  the same, and arrays may be larger only by products of the factors by which arguments are larger.
- `hide_sizes` keeps the compiler from evaluating a condition that depends on a size. For example,
  `jnp.ones(tokens).sum() > 500` depends on no argument, so the compiler would replace it by true or
  false, and drop the other branch with its collectives.

All such conditions begin with a constant, an iota, or an integer or truth value that is known for
all arguments (`i == i`). So each of these goes through an `optimization_barrier`, and the compiler
cannot know the value behind it. A loop that counts from one constant to another still sees these
constants, because otherwise its trip count would be unknown.
"""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, zip_longest
from math import prod
from pathlib import Path
from typing import Any, Final

import jax
from humanize import natural_list

import shardlings
from autograder.artifacts.program_checks import ProgramError, list_named_attributes
from shardlings.programs import requested

FUNCTION_ATTRIBUTES: Final = ("sym_name", "function_type")
"""Attributes that need no comparison: functions are compared by their position in the module, and
signatures through the types of their values."""

SIZE_ATTRIBUTES: Final = ("slice_sizes", "window_dimensions")
"""Attributes that may grow with the arguments' sizes."""

BOUND_ATTRIBUTES: Final = (
    "start_indices", "limit_indices", "edge_padding_low", "edge_padding_high",
)  # fmt: skip
"""Attributes that say where a part of an array begins or ends."""

MAX_FACTORS: Final = 4
"""A dimension may be the product of at most so many argument sizes."""

FLOAT_TYPE: Final = re.compile(r"(b?)f(\d+)(\w*)")
"""MLIR's names of floating-point types, such as `bf16` and `f8E4M3FN`."""

SOURCE_LINE: Final = re.compile(r'"([^"]+)":(\d{1,6}):\d+')
"""A file and a line in an MLIR location, such as `loc("f"("cell.py":7:11 to :18))`; the innermost
line comes first."""

PACKAGE_FOLDERS: Final = (Path(__file__).parents[1], Path(shardlings.__file__).parent)
"""Our packages' folders. A kernel that grades has the same files elsewhere."""

Sizes = tuple[int, ...]
"""One dimension's size in each of several programs."""


def refuse_another_program(
    modules: Sequence[Any], mesh: jax.sharding.Mesh, sizes: Sequence[Sizes]
) -> None:
    """Refuse programs that differ in more than their sizes, or that pack numbers into others.

    Args:
        modules: the programs' StableHLO, the one of the real size first.
        mesh: the mesh whose axes collectives are compared by.
        sizes: the size of each dimension of the arguments, in each program.

    Raises:
        ProgramError: the programs differ.
    """
    programs = [list(filter(_is_compared, walk(module))) for module in modules]
    _refuse_other_operations(programs, modules, mesh)
    _refuse_packing(programs[0])
    allowed_ratios = _product_ratios(sizes)
    for operations in zip(*programs, strict=True):
        _refuse_other_dimensions(operations, allowed_ratios)
        _refuse_other_parts(operations)


def _refuse_other_operations(
    programs: Sequence[Sequence[Any]], modules: Sequence[Any], mesh: jax.sharding.Mesh
) -> None:
    """Refuse programs that have other operations than the first, or request other collectives."""
    outlines = [_outline(operations) for operations in programs]
    requests = [
        [(c.kind, c.axes, c.times) for c in requested.read_collectives(module, mesh)]
        for module in modules
    ]
    if any(outline != outlines[0] for outline in outlines) or any(
        others != requests[0] for others in requests
    ):
        difference = _describe_first_difference(programs, outlines)
        raise ProgramError(
            "another-program",
            "At the real size this is another program than at the small sizes at which its values "
            f"are checked.{difference} Does your code branch on a size? JAX may also write an "
            "operation's derivative differently for other shapes.",
        )


def _refuse_packing(operations: Sequence[Any]) -> None:
    """Refuse a program that could pack several numbers into one that is counted as a bfloat16."""
    has_f64 = any(
        "f64" in dtype and shape  # a Python number may be a scalar of 64 bits, if JAX allows them
        for operation in operations
        for dtype, shape in _result_arrays(operation)
    )
    if has_f64 or any(operation.name == "stablehlo.bitcast_convert" for operation in operations):
        raise ProgramError(
            "packs-numbers",
            "The step packs numbers into others (bitcast_convert_type), or has floating-point "
            "numbers of 64 bits. Each number that is sent is counted as a bfloat16, so neither is "
            "allowed here.",
        )


def _refuse_other_dimensions(
    operations: Sequence[Any], allowed_ratios: set[tuple[Fraction, ...]]
) -> None:
    """Refuse an operation with a dimension that does not follow from the arguments' sizes."""
    for size in _result_sizes(operations):
        if 0 in size or _ratios(size) not in allowed_ratios:
            large, *small = (f"{each:,}" for each in size)
            raise ProgramError(
                "another-program",
                f"A dimension of an array in the step{_line(operations[0])} is {large} at the "
                f"real size, and {natural_list(small)} at the small ones. That does not follow "
                f"from the arguments' sizes. Is one written in, or does the step cut "
                f"something off?",
            )


def _refuse_other_parts(operations: Sequence[Any]) -> None:
    """Refuse an operation on a part of an array that is another part at another size.

    A compiler drops what a slice leaves out, so it has to be the same part at each size.
    """
    for real, *small_parts in zip(*map(_array_parts, operations), strict=True):
        for part in small_parts:
            if not _is_same_part(real, part):
                raise ProgramError(
                    "another-program",
                    f"The step takes or makes a part of an array{_line(operations[0])}. At the "
                    f"real size, that is {_describe_part(real)}, and at a small one "
                    f"{_describe_part(part)}, which is another part. Is a size written in?",
                )


def short_float_types(module: Any) -> tuple[str, ...]:
    """Return the floating-point types of less than 32 bits in a program, by their names in JAX."""
    dtypes = {dtype for operation in walk(module) for dtype, _ in _result_arrays(operation)}
    names = []
    for match in filter(None, map(FLOAT_TYPE.fullmatch, sorted(dtypes))):
        b, bits, suffix = match.groups()
        if int(bits) < 32:
            names.append(f"{b}float{bits}" + (f"_{suffix.lower()}" if suffix else ""))
    return tuple(names)


def walk(module: Any) -> Iterator[Any]:
    """Yield the operations of a module, each before those in its regions."""
    yield module.operation
    for region in module.operation.regions:
        for block in region.blocks:
            for operation in block.operations:
                yield from walk(operation)


def _is_compared(operation: Any) -> bool:
    """Check whether an operation is compared: all are, except constants that are scalars.

    JAX writes equal constants once. So two numbers that follow from sizes are a single constant at
    a size at which they are equal, and two constants at other sizes.
    """
    return not (operation.name == "stablehlo.constant" and not _shape(operation.results[0]))


def _ratios(size: Sizes) -> tuple[Fraction, ...]:
    """Return the ratio of a size in each program to the size in the next program."""
    return tuple(Fraction(a, b) for a, b in pairwise(size))


def _product_ratios(sizes: Sequence[Sizes]) -> set[tuple[Fraction, ...]]:
    """Return the ratios of all products of up to `MAX_FACTORS` sizes."""
    ratios = {_ratios(size) for size in sizes}
    constant = _ratios((1,) * len(sizes[0]))
    return {
        tuple(prod(each) for each in zip(constant, *factors, strict=True))
        for number in range(MAX_FACTORS + 1)
        for factors in combinations_with_replacement(ratios, number)
    }


SCALAR_CONSTANT: Final = -1
"""Stands for an operand that is a number written into the program."""

Outline = tuple[str, tuple[int, ...], tuple[str, ...], tuple[tuple[str, int], ...]]
"""An operation without its sizes: its name, operands' numbers, attributes, and types of values."""


def _outline(operations: Sequence[Any]) -> list[Outline]:
    """Return a program without its sizes and without constants that are scalars.

    Values are numbered in program order, so two outlines are equal only if each operation has the
    same operands in both.
    """
    functions = {
        operation.attributes["sym_name"].value: number
        for number, operation in enumerate(operations)
        if operation.name == "func.func"
    }
    numbers: dict[Any, int] = {}
    outline: list[Outline] = []
    for operation in operations:
        operands = tuple(numbers.get(operand, SCALAR_CONSTANT) for operand in operation.operands)
        new_values = [*operation.results]
        for region in operation.regions:
            for block in region.blocks:
                new_values += block.arguments
        for value in new_values:
            numbers[value] = len(numbers)
        types = tuple((dtype, len(shape)) for dtype, shape in map(_dtype_and_shape, new_values))
        attributes = tuple(_sizeless_attributes(operation, functions))
        outline.append((operation.name, operands, attributes, types))
    return outline


def _describe_first_difference(
    programs: Sequence[Sequence[Any]], outlines: Sequence[Sequence[Outline]]
) -> str:
    """Say which operation is the first that differs; empty if only groups of collectives do."""
    for operations, outline in zip(programs[1:], outlines[1:], strict=True):
        pairs = enumerate(zip_longest(outlines[0], outline))
        place = next((i for i, (real, small) in pairs if real != small), None)
        if place is not None:
            real, small = (
                _operation_in_words(programs[0], place),
                _operation_in_words(operations, place),
            )
            if "`call`" in f"{real} {small}":
                return ""  # of a library's function, whose line need not be where they differ
            if real == small:
                return f" The first difference is in {real}."
            return f" The first difference is {real} at the real size, and {small} at a small one."
    return ""


def _operation_in_words(operations: Sequence[Any], place: int) -> str:
    """Return an operation's name and line, such as `reduce` (line 7)."""
    if place >= len(operations):
        return "the end of the program"
    name = operations[place].name.rpartition(".")[2]
    return f"`{name}`{_line(operations[place])}"


def _line(operation: Any) -> str:
    """Return the learner's line that an operation is from, in brackets; empty if it is unknown.

    Beyond the first of our own lines there are only those of the cell that calls `check`.
    """
    lines = SOURCE_LINE.findall(str(operation.location))
    file, line = next((pair for pair in lines if "-packages/" not in pair[0]), ("", ""))
    return f" (line {line})" if line and not _is_ours(file) else ""


def _is_ours(file: str) -> bool:
    path = file.replace("\\", "/")
    tails = [(own, path.rpartition(f"/{own.name}/")) for own in PACKAGE_FOLDERS]
    return any(separator and (own / tail).exists() for own, (_, separator, tail) in tails)


def _sizeless_attributes(operation: Any, functions: dict[str, int]) -> Iterator[str]:
    """Yield an operation's attributes, as text, without sizes and constants."""
    from jax.extend.mlir import ir

    for name, attribute in list_named_attributes(operation.attributes):
        if isinstance(attribute, ir.FlatSymbolRefAttr) and attribute.value in functions:
            # by number: the function's name depends on what JAX traced before
            yield f"{name}={functions[attribute.value]}"
        elif name in (*SIZE_ATTRIBUTES, *BOUND_ATTRIBUTES):
            yield f"{name}: {len(_integers(operation, name))}"
        elif name not in FUNCTION_ATTRIBUTES and not (
            operation.name == "stablehlo.constant" and name == "value"
        ):
            yield f"{name}={attribute}"


def _result_sizes(operations: Sequence[Any]) -> Iterator[Sizes]:
    """Yield the size of each dimension of an operation's results.

    Args:
        operations: the operation, in each program.
    """
    for arrays in zip(*map(_result_arrays, operations), strict=True):
        yield from zip(*(shape for _, shape in arrays), strict=True)
    for name in SIZE_ATTRIBUTES:
        yield from zip(*(_integers(operation, name) for operation in operations), strict=True)


ArrayPart = tuple[int, int, int]
"""Begin and end of an array's part along a dimension, and the length of the dimension."""


def _array_parts(operation: Any) -> Iterator[ArrayPart]:
    """Yield the parts of arrays that a slice, a pad or a concatenation takes or makes."""
    if operation.name == "stablehlo.slice":
        begins, ends = (_integers(operation, name) for name in ("start_indices", "limit_indices"))
        yield from zip(begins, ends, _shape(operation.operands[0]), strict=True)
    elif operation.name == "stablehlo.pad":
        low, high = (_integers(operation, f"edge_padding_{side}") for side in ("low", "high"))
        for before, after, length in zip(low, high, _shape(operation.results[0]), strict=True):
            yield before, length - after, length
    elif operation.name == "stablehlo.concatenate":
        dimension, begin = int(operation.attributes["dimension"]), 0
        for operand in operation.operands:
            end = begin + _shape(operand)[dimension]
            yield begin, end, _shape(operation.results[0])[dimension]
            begin = end


def _is_same_part(one: ArrayPart, other: ArrayPart) -> bool:
    """Check whether two parts are the same share of their arrays, or both the first element."""
    (begin, end, length), (other_begin, other_end, other_length) = one, other
    if (begin, end) == (other_begin, other_end) == (0, 1):
        # Where the first element is the only one, a program that takes it leaves nothing out.
        return (length == 1) == (other_length == 1)
    return (Fraction(begin, length), Fraction(end, length)) == (
        Fraction(other_begin, other_length), Fraction(other_end, other_length)
    )  # fmt: skip


def _describe_part(part: ArrayPart) -> str:
    begin, end, length = part
    return f"{begin:,} to {end:,} of {length:,}"


def _integers(operation: Any, name: str) -> list[int]:
    """Return the integers in an attribute; none if the operation has no such attribute."""
    return [*map(int, operation.attributes[name])] if name in operation.attributes else []


def _shape(value: Any) -> list[int]:
    return _dtype_and_shape(value)[1]


def _result_arrays(operation: Any) -> Iterator[tuple[str, list[int]]]:
    """Yield the element type and shape of each result of an operation."""
    return map(_dtype_and_shape, operation.results)


def _dtype_and_shape(value: Any) -> tuple[str, list[int]]:
    """Return a value's element type and shape; if it is not an array, its type and no shape."""
    from jax.extend.mlir import ir

    try:
        array_type = ir.RankedTensorType(value.type)
    except ValueError:
        return str(value.type), []
    return str(array_type.element_type), list(array_type.shape)


CONTROL_FLOW_OPERATIONS: Final = frozenset(
    {"builtin.module", "func.func", "sdy.manual_computation",
     "stablehlo.while", "stablehlo.case", "stablehlo.if"}
)  # fmt: skip
"""Operations whose regions contain parts of the program. The regions of others, such as a reduce,
say how to combine two numbers."""

PASSES_VALUES_ON: Final = CONTROL_FLOW_OPERATIONS | {"func.call", "stablehlo.composite"}
"""Operations whose floating-point results are computed, and hidden, elsewhere in the program."""


def hide_sizes(module: Any) -> None:
    """Hide all values that a compiler could derive from a size.

    Args:
        module: a StableHLO module, which is modified.
    """
    operations = list(_program_operations(module.operation))
    counting_uses = [
        use
        for operation in operations
        if operation.name == "stablehlo.while"
        for use in requested.list_counter_operands(operation)
    ]
    for operation in operations:
        for value in _known_values(operation):
            _hide(value)
    for operation, index, value in counting_uses:
        operation.operands[index] = value


def _program_operations(operation: Any) -> Iterator[Any]:
    """Yield an operation and those in it, without the regions that combine two numbers."""
    yield operation
    if operation.name in CONTROL_FLOW_OPERATIONS:
        for region in operation.regions:
            for block in region.blocks:
                for inner in block.operations:
                    yield from _program_operations(inner.operation)


def _known_values(operation: Any) -> Iterator[Any]:
    """Yield an operation's values that a compiler might know without knowing the arguments."""
    if operation.name == "stablehlo.while":
        for region in operation.regions:
            yield from (value for value in region.blocks[0].arguments if not _is_float(value))
    # A float that is computed from floats depends on an argument, or on a value that is hidden.
    has_known_floats = not (
        operation.name in PASSES_VALUES_ON or any(map(_is_float, operation.operands))
    )
    yield from (value for value in operation.results if has_known_floats or not _is_float(value))


def _is_float(value: Any) -> bool:
    """Check whether a value is an array of floating-point numbers."""
    dtype, _ = _dtype_and_shape(value)
    return FLOAT_TYPE.fullmatch(dtype) is not None


def _hide(value: Any) -> None:
    """Replace all uses of a value by an `optimization_barrier` of it."""
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import stablehlo

    if isinstance(value.owner, ir.Block):
        insertion_point = ir.InsertionPoint.at_block_begin(value.owner)
    else:
        insertion_point = ir.InsertionPoint.after(value.owner)
    with value.context, ir.Location.unknown(), insertion_point:
        barrier: Any = stablehlo.optimization_barrier([value])
        hidden = getattr(barrier, "result", barrier)  # if it is the operation, its result
    value.replace_all_uses_except(hidden, hidden.owner.operation)
