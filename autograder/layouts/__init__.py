"""Layouts: which device holds which block of an array, and how two layouts differ.

In: arrays, shardings and shapes, or a picture in text. Out: `Layout`, a value that compares by
what every device holds; the most telling `Difference` between two, in a learner's words; and
pictures.
"""

from autograder.layouts.blocks import Block, LayoutError, Shape, devices_in_words
from autograder.layouts.compared_pictures import YOURS, compared
from autograder.layouts.device_local import device_local_picture
from autograder.layouts.differences import Difference, difference
from autograder.layouts.layout import Layout
from autograder.layouts.showing import show
from autograder.layouts.specs import entries
from autograder.layouts.unfit_shardings import refusal

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
