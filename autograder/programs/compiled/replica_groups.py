"""Replica groups of a compiled program, in any of the forms that HLO writes."""

import math
import re
from typing import Any

import numpy as np

from autograder.programs.collective import Groups


def replica_groups(text: str, partitions: int) -> Groups:
    """The groups of partitions that talk to each other, from any of the forms HLO writes.

    `{{0,1},{2,3}}` lists them; `[2,4]<=[4,2]T(1,0)` counts through a transposed grid;
    `mesh['a'=4,'b'=2], device_ids=([4,2]T(1,0)) {'a':(2)2}` names axes of a mesh, or parts of one:
    `(2)2` is the two steps of an axis that has two larger ones before them.
    """
    text = text.strip()
    if text.startswith("mesh"):
        return _mesh_groups(text)
    if text.startswith("["):
        shape, _, source = text.partition("<=")
        return _rows(_counted(source).reshape(_numbers(shape)))
    groups = listed_groups(text)
    return groups or (tuple(range(partitions)),)


def _mesh_groups(text: str) -> Groups:
    head, _, rest = text.partition("]")
    sizes = {name: int(size) for name, size in re.findall(r"'([^']*)'=(\d+)", head)}
    order = re.search(r"device_ids=\((.*?)\) ", f"{rest} ")
    chosen = re.findall(r"'([^']*)'(?::\((\d+)\)(\d+))?", rest.rpartition("{")[2])
    devices = np.arange(math.prod(sizes.values()))
    if order:
        devices = _counted(order[1]).reshape(-1)
    dimensions: list[int] = []
    inner: list[int] = []
    for name, size in sizes.items():
        parts = [(int(before), int(own)) for n, before, own in chosen if n == name and own]
        if any(n == name and not own for n, _, own in chosen):
            parts = [(1, size)]
        done = 1
        for before, own in sorted(parts):
            dimensions += [before // done, own]
            inner.append(len(dimensions) - 1)
            done = before * own
        dimensions.append(size // done)
    grid = devices.reshape(dimensions)
    outer = [d for d in range(grid.ndim) if d not in inner]
    count = math.prod(dimensions[d] for d in inner)
    return _rows(grid.transpose(*outer, *inner).reshape(-1, count))


def _counted(text: str) -> np.ndarray[Any, Any]:
    """`[4,2]T(1,0)`: the numbers from 0 on in a grid, transposed."""
    shape, _, order = text.partition("T")
    grid = np.arange(math.prod(_numbers(shape))).reshape(_numbers(shape))
    return grid.transpose(_numbers(order)) if order else grid


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def listed_groups(text: str) -> Groups:
    """`{{0,1},{2,3}}`: of a permutation, pairs of source and target."""
    return tuple(_numbers(group) for group in re.findall(r"\{([\d, ]+)\}", text))


def _rows(grid: np.ndarray[Any, Any]) -> Groups:
    return tuple(tuple(int(i) for i in row) for row in grid)
