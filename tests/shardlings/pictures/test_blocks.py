"""Pictures of blocks: SVG, figures and text, for every rank."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from rich.console import Console

from shardlings.layouts import Layout, comparison_pictures
from shardlings.pictures import (
    blocks_as_figure,
    blocks_as_html,
    blocks_for_terminal,
    pictures_as_text,
)
from shardlings.pictures.block_pictures import (
    CUBE_BACK,
    CUBE_SIDE,
    SHARED,
    Scene,
    Tile,
    add_cube,
    scenes_of,
)
from tests.helpers import sharding

LAYOUTS = {
    0: Layout.of(sharding(x=8), ()),
    1: Layout.of(sharding("y", x=4, y=2), (16,)),
    2: Layout.of(sharding("x", "y", x=4, y=2), (16, 16)),
    3: Layout.of(sharding("x", "y", "z", x=2, y=2, z=2), (8, 8, 8)),
    4: Layout.of(sharding("x", "y", None, "z", x=2, y=2, z=2), (8, 8, 8, 8)),
}


@pytest.mark.parametrize("rank", LAYOUTS)
def test_svg_is_well_formed_and_has_a_text_alternative(rank):
    layout = LAYOUTS[rank]
    page = ET.fromstring(blocks_as_html([layout.picture("<mine>"), layout.picture()]))
    pictures = page.findall(".//{http://www.w3.org/2000/svg}svg")
    assert len(pictures) == 2
    for picture in pictures:
        assert picture.get("role") == "img"
        assert layout.describe() in picture.get("aria-label", "")
        words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
        for holders in layout.grid.values():
            assert ",".join(map(str, holders)) in words or "0–7" in words


@pytest.mark.parametrize("rank", LAYOUTS)
def test_no_polygon_leaves_its_picture(rank):
    page = ET.fromstring(blocks_as_html([LAYOUTS[rank].picture()]))
    for picture in page.iter("{http://www.w3.org/2000/svg}svg"):
        left, top, width, height = map(float, picture.get("viewBox", "").split())
        for polygon in picture.iter("{http://www.w3.org/2000/svg}polygon"):
            for point in polygon.get("points", "").split():
                x, y = map(float, point.split(","))
                assert left <= x <= left + width
                assert top <= y <= top + height


@pytest.mark.parametrize("rank", LAYOUTS)
def test_terminals_and_figures_have_every_label(rank):
    picture = LAYOUTS[rank].picture("title")
    text = _printed(picture)
    for holders in LAYOUTS[rank].grid.values():
        assert _label(holders) in text
    pytest.importorskip("matplotlib")
    figure = blocks_as_figure([picture, picture])
    drawn = [text.get_text() for axes in figure.axes for text in axes.texts]
    for holders in LAYOUTS[rank].grid.values():
        assert _label(holders) in drawn
    figure.canvas.draw()


def _label(holders):
    return "0–7" if len(holders) == 8 else ",".join(map(str, holders))


def _printed(picture):
    console = Console(width=200)
    with console.capture() as captured:
        console.print(blocks_for_terminal([picture]))
    return captured.get()


def test_a_replicated_block_has_a_chip_for_each_device_at_its_lower_edge():
    tile = Tile(((0, 0), (10, 0), (10, 10), (0, 10)), (2, 5))
    whole, first, second = tile.fills()
    assert whole[1] == SHARED
    assert first[1] != second[1]
    assert min(y for _, y in first[0]) > 5


def test_a_picture_in_text_has_axis_names_and_a_star_at_each_wrong_block():
    made, asked = Layout.of(sharding("x", "y", x=4, y=2), (16, 16)), "0 1\n3 2\n4 5\n6 7"
    yours, expected = comparison_pictures(made, Layout.parse(asked, (16, 16)))
    text = pictures_as_text([yours, expected])
    assert text.splitlines()[:4] == [
        "Yours                                     Expected",
        "↓ dim 0: x   → dim 1: y                   ↓ dim 0   → dim 1",
        "0  1                                      · ·",
        "2* 3*                                     3 2",
    ]
    assert "*: blocks that belong on other devices" in text
    assert "·: blocks that you have right" in text
    assert "2*" in _printed(yours)
    assert str(made) == "0 1\n2 3\n4 5\n6 7", "the text that `parse` reads has no marks"


def test_an_array_of_wrong_blocks_has_one_outline():
    yours, _ = comparison_pictures(LAYOUTS[2], Layout.parse("0 1 2 3 4 5 6 7", (16, 16)))
    (scene,) = scenes_of([yours])
    assert len(scene.outlines) == 1
    assert not [tile for tile in scene.tiles if tile.is_wrong]
    assert "*" not in pictures_as_text([yours])
    assert "dashed: sharded differently" in blocks_as_html([yours])


def test_arrays_of_one_shape_are_drawn_in_one_size():
    few, many = (Layout.of(sharding(*s, x=4, y=2), (8, 8)).picture() for s in ((), (("x", "y"),)))
    sizes = {
        (tile[-1][1] - tile[0][1])
        for scene in scenes_of([few, many])
        for tile in [[p for each in scene.tiles for p in each.points]]
    }
    assert len(sizes) == 1


def test_specs_beside_titles_are_code_and_axis_names_are_escaped():
    picture = Layout.of(sharding("<b>", **{"<b>": 8}), (8,)).picture("t", 'P("<b>")')
    page = blocks_as_html([picture])
    assert "<code>P(&quot;&lt;b&gt;&quot;)</code>" in page
    assert "<b>" not in page


def test_a_scalar_is_drawn_beside_a_sharded_vector():
    number = Layout.of(sharding(x=8), ()).picture("one number")
    vector = Layout.of(sharding("x", x=8), (8,)).picture("a vector")
    text = pictures_as_text([number, vector])
    assert "one number" in text
    assert "→ dim 0" in text


DEEP_LAYOUTS = {
    "in eight": ((64, 64, 4), {"x": 2, "y": 2, "z": 2}, ("x", "y", "z")),
    "thin and in slabs": ((8, 64, 64), {"x": 8}, ("x",)),
    "flat": ((64, 8, 64), {"x": 4, "y": 2}, (None, "y", "x")),
    "in copies": ((16, 64, 64), {"x": 4, "y": 2}, ("y",)),
}


@pytest.mark.parametrize("name", DEEP_LAYOUTS)
def test_every_visible_block_of_a_3d_array_has_a_label(name):
    shape, axes, spec = DEEP_LAYOUTS[name]
    picture = Layout.of(sharding(*spec, **axes), shape).picture()
    add_cube(scene := Scene(), picture)
    last = picture.counts[2] - 1
    visible = {
        holders for (i, j, k), holders in picture.labels.items() if i == 0 or j == 0 or k == last
    }
    assert {tile.ids for tile in scene.tiles if tile.label} == visible


@pytest.mark.parametrize("shape", [(64, 64, 40), (64, 16, 64), (8, 64, 32)])
def test_a_3d_array_is_drawn_to_scale(shape):
    add_cube(scene := Scene(), Layout.of(sharding(x=8), shape).picture())
    front, top, _ = (np.ptp(tile.points, axis=0) for tile in scene.tiles)  # widths and heights
    assert np.divide(shape[1:], front[::-1]).tolist() == pytest.approx([64 / CUBE_SIDE] * 2)
    assert shape[0] / (top[1] / CUBE_BACK[1]) == pytest.approx(64 / CUBE_SIDE)
