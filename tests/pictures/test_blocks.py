"""Pictures: SVG, figures and text, of every rank."""

import xml.etree.ElementTree as ET

import pytest
from rich.console import Console

from autograder.layouts import Layout
from autograder.pictures import blocks_as_figure, blocks_as_html, blocks_for_terminal
from autograder.pictures.block_geometry import SHARED, Tile
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
def test_every_coloured_shape_lies_inside_its_picture(rank):
    page = ET.fromstring(blocks_as_html([LAYOUTS[rank].picture()]))
    for picture in page.iter("{http://www.w3.org/2000/svg}svg"):
        left, top, width, height = map(float, picture.get("viewBox", "").split())
        for polygon in picture.iter("{http://www.w3.org/2000/svg}polygon"):
            for point in polygon.get("points", "").split():
                x, y = map(float, point.split(","))
                assert left <= x <= left + width
                assert top <= y <= top + height


@pytest.mark.parametrize("rank", LAYOUTS)
def test_terminals_and_figures_get_the_same_labels(rank):
    panel = LAYOUTS[rank].picture("title")
    text = _printed(panel)
    figure = blocks_as_figure([panel, panel])
    drawn = [text.get_text() for axes in figure.axes for text in axes.texts]
    for holders in LAYOUTS[rank].grid.values():
        label = "0–7" if len(holders) == 8 else ",".join(map(str, holders))
        assert label in text
        assert label in drawn
    figure.canvas.draw()


def _printed(panel):
    console = Console(width=200)
    with console.capture() as captured:
        console.print(blocks_for_terminal([panel]))
    return captured.get()


def test_a_copied_block_has_a_chip_for_each_holder_and_is_not_striped():
    tile = Tile(((0, 0), (10, 0), (10, 10), (0, 10)), (2, 5))
    whole, first, second = tile.fills()
    assert whole[1] == SHARED
    assert first[1] != second[1]
    assert min(y for _, y in first[0]) > 5
