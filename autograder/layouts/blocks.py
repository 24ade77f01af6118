"""Blocks of an array: parse them from a picture in text, and name them in words."""

import numpy as np

Block = tuple[tuple[int, int], ...]
"""For each dimension, the first index and the one past the last, in elements."""

Shape = tuple[int, ...]


class LayoutError(ValueError):
    """A layout cannot be made from what came; the message says why and what to do."""


def devices_in_words(devices: tuple[int, ...]) -> str:
    """`device 3`, `devices 0 to 7`, `devices 0, 2, 4 and 6`."""
    if len(devices) == 1:
        return f"device {devices[0]}"
    if len(devices) > 2 and devices == tuple(range(devices[0], devices[-1] + 1)):
        return f"devices {devices[0]} to {devices[-1]}"
    return f"devices {' and '.join(', '.join(map(str, devices)).rsplit(', ', 1))}"


def grid_from_text(picture: str) -> np.ndarray:
    """The devices that hold each block of a picture in text: see `Layout.parse`."""
    planes: list[list[list[tuple[int, ...]]]] = [[]]
    for line in picture.strip().splitlines():
        if not line.strip():
            planes.append([])
            continue
        try:
            row = [tuple(int(device) for device in word.split(",")) for word in line.split()]
        except ValueError:
            raise LayoutError(
                f"A picture is made of device ids, as in '0,1  2,3'; the line {line.strip()!r} "
                f"holds something else."
            ) from None
        planes[-1].append(row)
    planes = [plane for plane in planes if plane]
    widths = {len(row) for plane in planes for row in plane}
    heights = {len(plane) for plane in planes}
    if len(widths) != 1 or len(heights) != 1:
        raise LayoutError("The rows of a picture, and its planes, must be of equal length.")
    grid = np.empty((len(planes), *heights, *widths), dtype=object)
    for index in np.ndindex(grid.shape):
        plane, row, column = index
        grid[index] = planes[plane][row][column]
    return grid[0] if len(planes) == 1 else grid


def by_counts(counts: Shape) -> str:
    """`2 × 4`."""
    return " × ".join(map(str, counts)) if counts else "1"
