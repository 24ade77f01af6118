"""A compiled program as instructions of HLO, the language of XLA's compilers."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from shardlings.collective_kinds import KINDS
from shardlings.programs.collective import Frame, Groups

MAX_COUNTED_WINDOW: Final = 1 << 20
"""A larger window of a convolution is assumed to lie on elements of the array everywhere."""

Shape = tuple[int, ...]

Array = tuple[str, Shape]
"""The type and the shape of an array on one device, as HLO has them."""


def bits_per_element(dtype: str) -> int:
    """Return the bits of one element; XLA names a type after them.

    Examples:
        >>> [bits_per_element(dtype) for dtype in ("f32", "bf16", "s4", "f8e4m3fn", "pred")]
        [32, 16, 4, 8, 8]

    Raises:
        ValueError: XLA has no type of this name.
    """
    if dtype == "pred":
        return 8
    if dtype in ("token", "opaque"):
        return 0
    match = re.fullmatch(r"(?:[suc]|b?f)(\d+)(?:e\d+m\d+\w*)?", dtype)
    if match is None:
        raise ValueError(f"XLA has no type of elements named {dtype!r}.")
    return int(match[1])


def count_bytes(dtype: str, shape: Shape) -> int:
    """Return the bytes of an array on one device."""
    return math.ceil(math.prod(shape) * bits_per_element(dtype) / 8)


@dataclass(frozen=True)
class WindowDimension:
    """A convolution's window along one dimension.

    Attributes:
        size: the number of its elements, which are the kernel's along this dimension.
        stride: how far it moves from one element of the result to the next.
        padding_low: the padding before the array, which may be negative.
        window_dilation: the distance between neighbouring elements of the window.
        base_dilation: the distance between neighbouring elements of the array, with holes between.
    """

    size: int
    stride: int
    padding_low: int
    window_dilation: int
    base_dilation: int

    def count_pairs(self, input_size: int, output_size: int) -> int:
        """Count the pairs of an element of the window and one of the result that use an input.

        Others fall on the padding, or on a hole.

        Args:
            input_size: the array's size along this dimension.
            output_size: the result's.
        """
        if self.size > MAX_COUNTED_WINDOW:
            return self.size * output_size
        # element k of the window, for element o of the result, is at element
        # (o * stride + shift[k]) / base_dilation of the array, if that is an integer
        shift = np.arange(self.size) * self.window_dilation - self.padding_low
        common = math.gcd(self.stride, self.base_dilation)
        period = self.base_dilation // common
        inverse = pow(self.stride // common, -1, period)
        first = -shift // common * inverse % period
        lowest = np.maximum(0, -(shift // self.stride))
        end = (input_size - 1) * self.base_dilation
        highest = np.minimum(output_size - 1, (end - shift) // self.stride)
        counts = (highest - first) // period - (lowest - 1 - first) // period
        return int(np.where(shift % common == 0, np.maximum(counts, 0), 0).sum())


@dataclass(frozen=True)
class Convolution:
    """The dimensions and the window of a convolution.

    A TPU's compiler writes every matmul as a convolution, and a batched matmul as one with a window
    over the batch, where all elements but one lie outside of the array or in a hole. So those
    that lie on an element have to be counted, as XLA does (`HandleConvolution` in its
    `hlo_cost_analysis.cc`).

    Attributes:
        window: the window along each spatial dimension.
        input_spatial: the first operand's spatial dimensions, in the order of the window's.
        output_spatial: the result's.
        input_batch: the first operand's batch dimension.
        input_features: the first operand's feature dimension, which is contracted.
        output_features: the result's feature dimension.
        feature_groups: the number of groups that the features are partitioned into.
        batch_groups: the number of groups that the batch is partitioned into.
    """

    window: tuple[WindowDimension, ...] = ()
    input_spatial: tuple[int, ...] = ()
    output_spatial: tuple[int, ...] = ()
    input_batch: int = 0
    input_features: int = 0
    output_features: int = 0
    feature_groups: int = 1
    batch_groups: int = 1

    def count_products(self, input_shape: Shape, output_shape: Shape) -> float:
        """Count the multiplications; each product is then added to a sum.

        Args:
            input_shape: the shape of the first operand.
            output_shape: the shape of the result.
        """
        pairs = math.prod(
            dimension.count_pairs(input_shape[d_in], output_shape[d_out])
            for dimension, d_in, d_out in zip(
                self.window, self.input_spatial, self.output_spatial, strict=True
            )
        )
        batch = input_shape[self.input_batch] // self.batch_groups
        contracted = input_shape[self.input_features] // self.feature_groups
        return float(pairs) * batch * contracted * output_shape[self.output_features]


@dataclass(frozen=True)
class Instruction:
    """One instruction of a computation.

    Attributes:
        number: its number, unique within the program.
        opcode: what it does, as HLO spells it.
        arrays: the type and the shape of each array in its result.
        operands: the numbers of its operands.
        called: the numbers of the computations that it names: a fusion's, the branches, or a
            loop's body and then its condition.
        index: the number of a parameter, or of the element that is taken from a tuple.
        constant: the integers of a constant that is not large; None for anything else.
        groups: the groups of partitions of a collective; the pairs of source and target of a
            permutation.
        comparison: the direction of a comparison, "LT" for "less than".
        is_unsigned: whether a comparison takes its operands to be unsigned.
        contracting: the contracting dimensions of the first operand of a `dot`, or of cuBLAS's.
        convolution: the dimensions and the window of a convolution.
        window: the sizes of the window of a `reduce-window`.
        sorted_along: the dimension along which a `sort` sorts.
        custom_call_target: the routine that a custom call runs.
        fft_lengths: the lengths of a Fourier transform.
        other_fields: everything else that decides what it computes, such as where a slice begins.
            It is equal for two instructions that compute the same from the same values.
        known_trip_count: how often a loop runs, if the compiler has noted it.
        stack: the lines of source that it comes from, the innermost first.
        name: the name of a parameter of the whole program, such as `params['w']`; empty for
            anything else.
        is_synchronous: whether a GPU starts a collective and waits for it at once.
        op_name: the path of JAX's names to what it comes from, such as
            `jit(step)/transpose(jvp(Decoder))/dot_general`; only of collectives, of elements of
            tuples, and of conversions.
    """

    number: int
    opcode: str
    arrays: tuple[Array, ...] = ()
    operands: tuple[int, ...] = ()
    called: tuple[int, ...] = ()
    index: int = 0
    constant: tuple[int, ...] | None = None
    groups: Groups = ()
    comparison: str = ""
    is_unsigned: bool = False
    contracting: tuple[int, ...] = ()
    convolution: Convolution | None = None
    window: Shape = ()
    sorted_along: tuple[int, ...] = ()
    custom_call_target: str = ""
    fft_lengths: tuple[int, ...] = ()
    other_fields: bytes = b""
    known_trip_count: int | None = None
    stack: tuple[Frame, ...] = ()
    name: str = ""
    is_synchronous: bool = False
    op_name: str = ""

    @property
    def array_bytes(self) -> tuple[int, ...]:
        """The bytes of each array in the result, on one device."""
        return tuple(count_bytes(*array) for array in self.arrays)

    @property
    def collective_kind(self) -> str | None:
        """The kind of collective that it is or starts, if any."""
        return collective_kind(self.opcode)


Computation = Mapping[int, Instruction]
"""Instructions by their numbers: operands before the instructions that use them, the root last."""


@dataclass(frozen=True)
class CompiledProgram:
    """A compiled program.

    Attributes:
        computations: each computation, by its number.
        entry: the number of the computation that runs first.
        partitions: the number of devices it was compiled for.
    """

    computations: Mapping[int, Computation] = field(default_factory=dict)
    entry: int = 0
    partitions: int = 1

    @cached_property
    def loops_by_body(self) -> Mapping[int, list[tuple[int, Instruction]]]:
        """The loops with each body: of each, its computation's number, and the instruction."""
        loops: dict[int, list[tuple[int, Instruction]]] = {}
        for number, computation in self.computations.items():
            for instruction in computation.values():
                if instruction.opcode == "while":
                    loops.setdefault(instruction.called[0], []).append((number, instruction))
        return loops

    def called(self, instruction: Instruction, which: int = 0) -> Computation:
        """Return a computation that an instruction calls, or an empty one if it calls none."""
        return self.computations[instruction.called[which]] if instruction.called[which:] else {}


def collective_kind(opcode: str) -> str | None:
    """Return the kind of collective that an instruction with this opcode is or starts, if any."""
    kind = opcode.removesuffix("-start")
    return kind if kind in KINDS else None


def find_root(computation: Computation) -> Instruction:
    """Return the instruction whose result is the computation's result."""
    return list(computation.values())[-1]
