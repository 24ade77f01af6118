"""`show(…, processes=2)`: what each process has, and what crosses between processes."""

import jax
import numpy as np
import pytest

from shardlings import show
from shardlings.errors import UsageError
from shardlings.layouts.process_pictures import share_picture
from shardlings.layouts.showing import pictures_to_show
from shardlings.pictures import blocks_as_html, pictures_as_text
from shardlings.pictures.block_pictures import scenes_of
from tests.browser import THEMES, browser
from tests.helpers import mesh, sharding


def shared(thing, processes, **more):
    (picture,) = pictures_to_show(thing, **more)
    return share_picture(picture, processes)


def coloured(picture):
    """The devices in colour, of one process's picture."""
    return sorted(
        device
        for place, holders in picture.labels.items()
        if place not in picture.pale
        for device in holders
    )


@pytest.mark.parametrize("processes", [2, 4, 8])
def test_each_block_is_in_colour_in_the_picture_of_its_process(processes):
    each = 8 // processes
    parts = shared(sharding("x", x=8), processes, shape=(8,))
    assert [p.title for p in parts] == [f"process {i}" for i in range(processes)]
    assert [coloured(p) for p in parts] == [
        list(range(i * each, (i + 1) * each)) for i in range(processes)
    ]


@pytest.mark.parametrize(
    ("axes", "processes", "frames", "links"),
    [
        ({"x": 2, "y": 4}, 2, 2, 4),
        ({"x": 2, "y": 4}, 4, 4, 6),
        ({"x": 8}, 8, 8, 7),
        ({"x": 2, "y": 2, "z": 2}, 4, 4, 4),
    ],
)
def test_a_mesh_has_a_frame_for_each_process_and_its_links_show_what_crosses(
    axes, processes, frames, links
):
    (scene,) = scenes_of(shared(mesh(**axes), processes))
    assert (len(scene.frames), len(scene.links)) == (frames, links)


@pytest.mark.parametrize(
    ("order", "links"), [([0, 4, 1, 5, 2, 6, 3, 7], 6), ([0, 4, 1, 5, 2, 3, 6, 7], 6)]
)
def test_devices_of_a_process_that_are_no_rectangle_have_no_frame(order, links):
    devices = np.array(jax.devices())[order].reshape(2, 4)
    (scene,) = scenes_of(shared(jax.sharding.Mesh(devices, ("x", "y")), 2))
    assert not scene.frames
    assert len(scene.links) == links


def test_of_a_block_with_several_copies_a_process_has_its_own():
    parts = shared(sharding("y", x=4, y=2), 2, shape=(16, 4))
    assert [list(p.labels.values()) for p in parts] == [[(0, 2), (1, 3)], [(4, 6), (5, 7)]]
    assert all(not p.pale and not p.note for p in parts)


@pytest.mark.parametrize(
    ("axes", "processes", "says"),
    [
        ({"x": 2, "y": 4}, 2, "Along x, data crosses between processes, and along y it stays"),
        ({"x": 2, "y": 4}, 4, "Along x and y, data crosses between processes."),
        ({"x": 4}, 2, "No data crosses between processes."),
    ],
)
def test_below_a_mesh_it_is_said_along_which_axes_data_crosses(axes, processes, says):
    (picture,) = shared(mesh(**axes), processes)
    assert says in picture.caption
    assert says in pictures_as_text([picture])


def test_what_is_said_below_all_pictures_is_said_once():
    page = blocks_as_html(shared(sharding("x", x=8), 4, shape=(8,)))
    assert page.count("without colour: on other processes") == 1
    assert page.index("process 3") < page.index("without colour")


def test_its_text_alternative_says_which_devices_a_process_has():
    for thing, more in ((mesh(x=8), {}), (sharding("x", x=8), {"shape": 8})):
        says = [shared(thing, processes, **more)[-1].description for processes in (2, 8)]
        crosses = " Along x, data crosses between processes." if not more else ""
        assert says[0].endswith(f"rocess 1 has devices 4 to 7.{crosses}")
        assert says[1].endswith(f"rocess 7 has device 7.{crosses}")


def test_a_number_of_processes_that_cannot_share_the_devices_is_refused():
    for processes in (3, 0, 16):
        with pytest.raises(UsageError, match="a number of processes that divides 8"):
            show(mesh(x=8), processes=processes)


def test_an_abstract_mesh_has_no_devices_to_share():
    with pytest.raises(UsageError, match="An abstract mesh has no devices"):
        show(mesh(x=8).abstract_mesh, processes=2)


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_they_have_no_visual_faults(theme):
    things = (mesh(x=2, y=4), mesh(x=8))
    with browser() as page:
        for drawn in [blocks_as_html(shared(thing, n)) for thing in things for n in (2, 4)]:
            for width in (1400, 500):
                assert page.faults(drawn, width, theme) == []
