"""Draw what each of several processes has: its devices of a mesh, or its blocks of an array."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import jax
from humanize import natural_list

from autograder.errors import UsageError
from autograder.pictures import Picture


def share_picture(picture: Picture, processes: int) -> Iterator[Picture]:
    """Yield a picture for each process, in which what others have is without colour.

    Below a mesh it is said along which axes data crosses between processes.

    Args:
        picture: a mesh, or an array.
        processes: the number of processes, which own all devices in order, the same number each.

    Raises:
        UsageError: the devices cannot be shared by so many processes.
    """
    devices = jax.device_count()
    if type(processes) is not int or processes < 1 or devices % processes:
        raise UsageError(
            f"{devices} devices are shared by a number of processes that divides {devices}; "
            f"{processes!r} came."
        )
    each = devices // processes
    caption = _name_crossing_axes(picture, each) if picture.devices else picture.caption
    for process in range(processes):
        own = {
            place: tuple(device for device in holders if device // each == process)
            for place, holders in picture.labels.items()
        }
        others = frozenset(place for place, devices in own.items() if not devices)
        title = f"process {process}"
        yield replace(
            picture,
            title=f"{picture.title}, {title}" if picture.title else title,
            caption=caption,
            labels={place: devices or picture.labels[place] for place, devices in own.items()},
            pale=others,
            note="on other processes" if others else "",
            description=f"{picture.description} Process {process} has devices "
            f"{process * each} to {(process + 1) * each - 1}.",
        )


def _name_crossing_axes(picture: Picture, each: int) -> str:
    """Say along which axes of a mesh neighbours belong to different processes.

    Args:
        picture: the mesh.
        each: the number of devices of each process.
    """
    crossing: dict[bool, list[str]] = {True: [], False: []}
    for d, edge in enumerate(picture.edges):
        lines: dict[tuple[int, ...], set[int]] = {}
        for place in product(*map(range, picture.counts)):
            owners = {device // each for device in picture.labels[place]}
            lines.setdefault((*place[:d], *place[d + 1 :]), set()).update(owners)
        crossing[any(len(owners) > 1 for owners in lines.values())].append(edge.axis)
    sentences = [
        f"along {natural_list(crossing[True])}, data crosses between processes"
        if crossing[True]
        else "no data crosses between processes",
    ]
    if crossing[True] and crossing[False]:
        sentences.append(f"along {natural_list(crossing[False])}, it stays within one")
    return "; ".join(sentences)
