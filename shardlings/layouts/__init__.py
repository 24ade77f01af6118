"""Layouts: which device holds which block of an array, and how two layouts differ.

In: arrays, shardings and shapes, or a picture in text. Out: a `Layout`, which is equal to another
if every device holds the same block; the most informative `Difference` between two layouts, in
words for a learner; and pictures.
"""

from shardlings.layouts.differences import YOURS, Difference, comparison_pictures, find_difference
from shardlings.layouts.layout import (
    Block,
    Layout,
    LayoutError,
    Shape,
    spec_entries,
    why_no_layout,
)
from shardlings.layouts.playground import playground
from shardlings.layouts.showing import device_local_picture, show

__all__ = [
    "YOURS",
    "Block",
    "Difference",
    "Layout",
    "LayoutError",
    "Shape",
    "comparison_pictures",
    "device_local_picture",
    "find_difference",
    "playground",
    "show",
    "spec_entries",
    "why_no_layout",
]
