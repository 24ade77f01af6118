"""Draw what each of several processes has: its devices of a mesh, or its blocks of an array."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import jax
from humanize import natural_list

from shardlings.errors import UsageError
from shardlings.layouts.layout import devices_in_words
from shardlings.pictures import Picture, Place


def share_picture(picture: Picture, processes: int) -> list[Picture]:
    """Return a mesh with a frame around each process's devices, or an array once per process.

    The caption of a mesh says along which axes data crosses between processes. Of an array, the
    blocks of other processes are without colour.

    Args:
        picture: a mesh, or an array.
        processes: the number of processes, which own all devices in order, the same number each.

    Raises:
        UsageError: the devices cannot be shared by so many processes, or the mesh is abstract.
    """
    count = jax.device_count()
    if type(processes) is not int or processes < 1 or count % processes:
        raise UsageError(
            f"{count} devices can be shared by a number of processes that divides {count}, but got "
            f"{processes!r}."
        )
    if picture.is_mesh and not all(picture.labels.values()):
        raise UsageError(
            "An abstract mesh has no devices that processes could share. Show it without "
            "processes, or show a mesh of devices."
        )
    each = count // processes
    owned = [tuple(range(start, start + each)) for start in range(0, count, each)]
    if picture.is_mesh:
        return [_frame_processes(picture, owned)]
    return [_picture_of_process(picture, *each) for each in enumerate(owned)]


def _frame_processes(picture: Picture, owned: Sequence[tuple[int, ...]]) -> Picture:
    """Return a mesh with the process of each place.

    Args:
        picture: the mesh.
        owned: the devices of each process.
    """
    each = len(owned[0])
    owners = {place: holders[0] // each for place, holders in picture.labels.items()}
    has = [
        f"process {process} has {devices_in_words(devices)}"
        for process, devices in enumerate(owned)
    ]
    says = f"{natural_list(has).capitalize()}. {_name_crossing_axes(picture, owners)}"
    return replace(
        picture, caption=says, description=f"{picture.description} {says}", processes=owners
    )


def _picture_of_process(picture: Picture, process: int, devices: tuple[int, ...]) -> Picture:
    """Return an array of which only one process's blocks are in colour."""
    own = {
        place: tuple(device for device in holders if device in devices)
        for place, holders in picture.labels.items()
    }
    others = frozenset(place for place, holders in own.items() if not holders)
    title = f"process {process}"
    return replace(
        picture,
        title=f"{picture.title}, {title}" if picture.title else title,
        labels={place: holders or picture.labels[place] for place, holders in own.items()},
        pale=others,
        note="on other processes" if others else "",
        description=f"{picture.description} Process {process} has {devices_in_words(devices)}.",
    )


def _name_crossing_axes(picture: Picture, owners: Mapping[Place, int]) -> str:
    """Say along which axes of a mesh neighbours belong to different processes.

    Args:
        picture: the mesh.
        owners: the process at each place.
    """
    crossing: list[str] = []
    staying: list[str] = []
    for d, edge in enumerate(picture.edges):
        owners_along: dict[Place, set[int]] = {}
        for place, owner in owners.items():
            owners_along.setdefault((*place[:d], *place[d + 1 :]), set()).add(owner)
        crosses = any(len(each) > 1 for each in owners_along.values())
        (crossing if crosses else staying).append(edge.axis)
    if not crossing:  # a mesh of one process's devices
        return "No data crosses between processes."
    stays = f", and along {natural_list(staying)} it stays within one" if staying else ""
    return f"Along {natural_list(crossing)}, data crosses between processes{stays}."
