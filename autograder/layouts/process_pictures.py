"""Draw what each of several processes has: its devices of a mesh, or its blocks of an array."""

from dataclasses import replace
from itertools import product

import jax
from humanize import natural_list

from autograder.errors import UsageError
from autograder.layouts.layout import devices_in_words
from autograder.pictures import Picture


def share_picture(picture: Picture, processes: int) -> list[Picture]:
    """Return a picture for each process; the devices or blocks of others are without colour.

    The caption of a mesh says along which axes data crosses between processes.

    Args:
        picture: a mesh, or an array.
        processes: the number of processes, which own all devices in order, the same number each.

    Raises:
        UsageError: the devices cannot be shared by so many processes.
    """
    count = jax.device_count()
    if type(processes) is not int or processes < 1 or count % processes:
        raise UsageError(
            f"{count} devices are shared by a number of processes that divides {count}; "
            f"{processes!r} came."
        )
    each = count // processes
    caption = _name_crossing_axes(picture, each) if picture.is_mesh else picture.caption
    pictures = []
    for process in range(processes):
        devices = tuple(range(process * each, (process + 1) * each))
        own = {
            place: tuple(device for device in holders if device in devices)
            for place, holders in picture.labels.items()
        }
        others = frozenset(place for place, holders in own.items() if not holders)
        title = f"process {process}"
        part = replace(
            picture,
            title=f"{picture.title}, {title}" if picture.title else title,
            caption=caption,
            labels={place: holders or picture.labels[place] for place, holders in own.items()},
            pale=others,
            note="on other processes" if others else "",
            description=f"{picture.description} Process {process} has {devices_in_words(devices)}.",
        )
        pictures.append(part)
    return pictures


def _name_crossing_axes(picture: Picture, each: int) -> str:
    """Say along which axes of a mesh neighbours belong to different processes.

    Args:
        picture: the mesh.
        each: the number of devices of each process.
    """
    crossing: list[str] = []
    staying: list[str] = []
    for d, edge in enumerate(picture.edges):
        owners_along: dict[tuple[int, ...], set[int]] = {}
        for place in product(*map(range, picture.counts)):
            owners = {device // each for device in picture.labels[place]}
            owners_along.setdefault((*place[:d], *place[d + 1 :]), set()).update(owners)
        crosses = any(len(owners) > 1 for owners in owners_along.values())
        (crossing if crosses else staying).append(edge.axis)
    sentences = [
        f"along {natural_list(crossing)}, data crosses between processes"
        if crossing
        else "no data crosses between processes",
    ]
    if crossing and staying:
        sentences.append(f"along {natural_list(staying)}, it stays within one")
    return "; ".join(sentences)
