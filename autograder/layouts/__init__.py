"""Layouts: which device holds which block of an array, and how two layouts differ.

In: arrays, shardings and shapes, or a picture in text. Out: `Layout`, a value that compares by
what every device holds; the most telling `Difference` between two, in a learner's words; and
pictures.
"""

from autograder.layouts.differences import YOURS, Difference, compared, difference
from autograder.layouts.layout import Block, Layout, LayoutError, Shape, devices_in_words, refusal
from autograder.layouts.showing import device_local_picture, show
from autograder.layouts.specs import entries

__all__ = [
    "YOURS",
    "Block",
    "Difference",
    "Layout",
    "LayoutError",
    "Shape",
    "compared",
    "device_local_picture",
    "devices_in_words",
    "difference",
    "entries",
    "refusal",
    "show",
]
