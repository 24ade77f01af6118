"""`show(…, processes=2)`: what each process has, and what crosses between processes."""

import pytest

from autograder import show
from autograder.errors import UsageError
from autograder.layouts.process_pictures import share_picture
from autograder.layouts.showing import pictures_to_show
from autograder.pictures import blocks_as_html
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
def test_each_device_is_in_colour_in_the_picture_of_its_process(processes):
    each = 8 // processes
    for thing in (mesh(x=4, y=2), mesh(x=8)):
        parts = shared(thing, processes)
        assert [p.title for p in parts] == [f"process {i}" for i in range(processes)]
        assert [coloured(p) for p in parts] == [
            list(range(i * each, (i + 1) * each)) for i in range(processes)
        ]


def test_of_a_block_with_several_copies_a_process_has_its_own():
    parts = shared(sharding("y", x=4, y=2), 2, shape=(16, 4))
    assert [list(p.labels.values()) for p in parts] == [[(0, 2), (1, 3)], [(4, 6), (5, 7)]]
    assert all(not p.pale and not p.note for p in parts)


@pytest.mark.parametrize(
    ("axes", "processes", "says"),
    [
        ({"x": 2, "y": 4}, 2, "along x, data crosses between processes; along y, it stays within"),
        ({"x": 2, "y": 4}, 4, "along x and y, data crosses between processes"),
        ({"x": 8}, 1, "no data crosses between processes"),
    ],
)
def test_below_a_mesh_it_is_said_along_which_axes_data_crosses(axes, processes, says):
    assert shared(mesh(**axes), processes)[0].caption.startswith(says)


def test_what_is_said_below_all_pictures_is_said_once():
    page = blocks_as_html(shared(mesh(x=2, y=4), 4))
    assert page.count("along x and y, data crosses between processes") == 1
    assert page.count("without colour: on other processes") == 1
    assert page.index("process 3") < page.index("without colour")


def test_its_text_alternative_says_which_devices_a_process_has():
    for thing, more in ((mesh(x=8), {}), (sharding("x", x=8), {"shape": 8})):
        says = [shared(thing, processes, **more)[-1].description for processes in (2, 8)]
        assert says[0].endswith(". Process 1 has devices 4 to 7.")
        assert says[1].endswith(". Process 7 has device 7.")


def test_a_number_of_processes_that_cannot_share_the_devices_is_refused():
    for processes in (3, 0, 16):
        with pytest.raises(UsageError, match="a number of processes that divides 8"):
            show(mesh(x=8), processes=processes)


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_they_have_no_visual_faults(theme):
    things = (mesh(x=2, y=4), mesh(x=8))
    with browser() as page:
        for drawn in [blocks_as_html(shared(thing, n)) for thing in things for n in (2, 4)]:
            for width in (1400, 500):
                assert page.faults(drawn, width, theme) == []
