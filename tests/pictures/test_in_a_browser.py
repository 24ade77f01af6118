"""Each kind of picture, in a real browser: nothing clipped, overlapping, too wide or faint."""

import pytest

from autograder.layouts import Layout
from autograder.pictures import blocks_as_html
from tests.browser import THEMES, browser


@pytest.fixture(scope="module")
def page():
    with browser() as opened:
        yield opened


def test_what_is_wrong_is_found(page):
    svg = '<svg width="50" height="20"><text x="30" y="15">much too long</text></svg>'
    assert any(fault.startswith("clipped") for fault in page.faults(svg))
    wide = '<div style="width:2000px">x</div>'
    assert any(fault.startswith("wider") for fault in page.faults(wide))
    twice = '<svg width="99" height="20"><text y="15">one</text><text y="15">two</text></svg>'
    assert any(fault.startswith("overlapping") for fault in page.faults(twice))
    faint = '<p style="color:#aaa">faint</p>'
    assert any(fault.startswith("contrast") for fault in page.faults(faint))
    assert page.faults("<p>plain</p>") == []


LAYOUTS = {
    "columns": "0 1 2 3 4 5 6 7",
    "a grid": "0 1 2 3\n4 5 6 7",
    "copies": "0,1,2,3  4,5,6,7",
    "a part": "0 2\n4 6",
}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_drawn_well(page, name, theme):
    picture = Layout.parse(LAYOUTS[name]).picture(name)
    assert page.faults(blocks_as_html([picture]), 900, theme) == []
