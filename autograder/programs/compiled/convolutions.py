"""Count the pairs of numbers that a convolution multiplies and adds.

A TPU's compiler writes every matrix product as a convolution, and a product of many matrices as one
with a window over their number, in which all places but one are outside of the array or in a hole.
So the places that count have to be counted, as XLA itself does (`HandleConvolution` in its
`hlo_cost_analysis.cc`).
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

MAX_COUNTED_WINDOW: Final = 1 << 20
"""Larger windows are taken to lie on an element everywhere."""


Shape = tuple[int, ...]


@dataclass(frozen=True)
class Span:
    """A window along one dimension.

    Attributes:
        size: its places.
        stride: how far it moves each time.
        before: the padding before the array, which may be negative.
        dilation: the distance between its places.
        apart: the distance between the elements of the array, with holes between them.
    """

    size: int
    stride: int
    before: int
    dilation: int
    apart: int

    def places(self, taken: int, given: int) -> int:
        """How many pairs of a place of the window and one of the result lie on an element.

        Args:
            taken: the array's size.
            given: the result's.
        """
        if self.size > MAX_COUNTED_WINDOW:
            return self.size * given
        # the element below place k for result o is (o * stride + shift[k]) / apart, if it is whole
        shift = np.arange(self.size) * self.dilation - self.before
        common = math.gcd(self.stride, self.apart)
        period = self.apart // common
        inverse = pow(self.stride // common, -1, period)
        first = -shift // common * inverse % period
        lowest = np.maximum(0, -(shift // self.stride))
        highest = np.minimum(given - 1, ((taken - 1) * self.apart - shift) // self.stride)
        found = (highest - first) // period - (lowest - 1 - first) // period
        return int(np.where(shift % common == 0, np.maximum(found, 0), 0).sum())


@dataclass(frozen=True)
class Convolution:
    """A convolution's dimensions, by their numbers.

    Attributes:
        spans: the window along each spatial dimension.
        taken: the first operand's spatial dimensions, in the order of the window's.
        given: the result's.
        batch: the first operand's dimension that counts examples.
        features: its dimension that is added up over.
        made: the result's dimension that counts features.
        feature_groups: into how many groups the features are cut.
        batch_groups: and the examples.
    """

    spans: tuple[Span, ...] = ()
    taken: Shape = ()
    given: Shape = ()
    batch: int = 0
    features: int = 0
    made: int = 0
    feature_groups: int = 1
    batch_groups: int = 1

    def products(self, taken: Shape, given: Shape) -> float:
        """How many pairs of numbers it multiplies and adds.

        Args:
            taken: the shape of its first operand.
            given: the shape of its result.
        """
        places = math.prod(
            span.places(taken[one], given[other])
            for span, one, other in zip(self.spans, self.taken, self.given, strict=True)
        )
        examples = taken[self.batch] // self.batch_groups
        added_up = taken[self.features] // self.feature_groups
        return float(places) * examples * added_up * given[self.made]
