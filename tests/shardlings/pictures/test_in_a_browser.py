"""Pictures of blocks in a real browser: no part is clipped, overlapped, too wide or faint."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardlings.layouts import Layout, comparison_pictures
from shardlings.layouts.showing import pictures_to_show
from shardlings.pictures import blocks_as_html, display_table, displaying
from tests.browser import NARROW_CELL, THEMES, browser
from tests.helpers import mesh

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page():
    with browser() as opened:
        yield opened


def test_visual_faults_are_found(page):
    svg = '<svg width="50" height="20"><text x="30" y="15">much too long</text></svg>'
    assert any(fault.startswith("clipped") for fault in page.faults(svg))
    wide = '<div style="width:2000px">x</div>'
    assert any(fault.startswith("wider") for fault in page.faults(wide))
    twice = '<svg width="99" height="20"><text y="15">one</text><text y="15">two</text></svg>'
    assert any(fault.startswith("overlapping") for fault in page.faults(twice))
    faint = '<p style="color:#aaa">faint</p>'
    assert any(fault.startswith("contrast") for fault in page.faults(faint))
    assert page.faults("<p>plain</p>") == []


MODES = jax.sharding.AxisType
LINE, GRID, CUBE, PART = mesh(x=8), mesh(x=4, y=2), mesh(x=2, y=2, z=2), mesh(x=2, y=2)
BACKWARDS = jax.sharding.Mesh(np.array(jax.devices())[::-1], ("x",))
OF_FOUR = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2, 2, 1), tuple("abcd"))
ABSTRACT = jax.sharding.AbstractMesh((4, 2), ("x", "y"))
NAMED = mesh(data_parallel=4, an_axis_with_a_very_long_name=2)
MIXED = jax.make_mesh((4, 2), ("data", "model"), axis_types=(MODES.Explicit, MODES.Auto))
ALL = jax.P(("data_parallel", "an_axis_with_a_very_long_name"))


def on(grid, *spec, shape):
    """Return the layout of a spec on a mesh."""
    return Layout.of(jax.NamedSharding(grid, jax.P(*spec)), shape)


def placed(grid, *specs, shape):
    """Return the pictures that `show` draws for several specs."""
    return pictures_to_show(grid, specs, shape=shape)


def against(text, *spec, grid=GRID, shape=(16, 16)):
    """Return the pictures of a spec's layout and the expected one, which is given as text."""
    return comparison_pictures(on(grid, *spec, shape=shape), Layout.parse(text, shape))


COLUMNS = "0 1 2 3 4 5 6 7"
SQUARE, FLAT, DEEP, DEEPER = (16, 16), (16,), (8, 8, 8), (8, 8, 8, 8)
P = jax.P

PICTURES = {
    "a mesh of one axis": lambda: pictures_to_show(LINE),
    "a mesh of two axes": lambda: pictures_to_show(GRID),
    "a mesh of three axes": lambda: pictures_to_show(CUBE),
    "a mesh of four axes": lambda: pictures_to_show(OF_FOUR),
    "many meshes": lambda: pictures_to_show(BACKWARDS, PART, ABSTRACT, NAMED, titled=MIXED),
    "an array on one device": lambda: pictures_to_show(jnp.ones(SQUARE)),
    "a scalar": lambda: placed(GRID, P(), shape=()),
    "vectors": lambda: placed(GRID, P("x"), P("y"), P(None), P(("x", "y")), shape=FLAT),
    "columns": lambda: placed(LINE, P(None, "x"), shape=SQUARE),
    "five specs": lambda: placed(
        GRID, P("x", "y"), P("y", "x"), P("x", None), P(None, "x"), P(None, "y"), shape=SQUARE
    ),
    "copies": lambda: placed(GRID, P("x"), P(), shape=SQUARE),
    "titles": lambda: pictures_to_show(
        GRID, {"a title": P("x"), "a longer one": P("y")}, shape=SQUARE
    ),
    "a part": lambda: placed(PART, P("x", "y"), shape=SQUARE),
    "long names": lambda: placed(NAMED, ALL, P(None, *ALL), shape=SQUARE),
    "very flat and very high": lambda: placed(GRID, P("x", "y"), shape=(4, 4096))
    + placed(GRID, P("x", "y"), shape=(4096, 2)),
    "three dimensions": lambda: placed(CUBE, P("x", "y", "z"), shape=DEEP),
    "slabs": lambda: placed(LINE, P("x"), P(None, "x"), P(None, None, "x"), shape=DEEP),
    "copies in three dimensions": lambda: placed(GRID, P("x"), P(), P(("x", "y")), shape=DEEP),
    "four dimensions": lambda: placed(CUBE, P("x", "y", None, "z"), P(), shape=DEEPER),
    "four dimensions, one sharded": lambda: placed(LINE, P("x"), P(None, "x"), shape=DEEPER),
    "right": lambda: against(COLUMNS, None, ("x", "y")),
    "rows for columns": lambda: against(COLUMNS, ("x", "y")),
    "another order": lambda: against(COLUMNS, None, ("y", "x")),
    "copies for blocks": lambda: against(COLUMNS, None, "x"),
    "another shape": lambda: comparison_pictures(
        on(LINE, "x", shape=FLAT), Layout.parse(COLUMNS, SQUARE)
    ),
    "wrong in three dimensions": lambda: comparison_pictures(
        on(CUBE, "x", "z", "y", shape=DEEP), on(CUBE, "x", "y", "z", shape=DEEP)
    ),
    "slabs of another dimension": lambda: comparison_pictures(
        on(LINE, None, "x", shape=DEEP), on(LINE, "x", shape=DEEP)
    ),
    "wrong in four dimensions": lambda: comparison_pictures(
        on(CUBE, "x", "z", None, "y", shape=DEEPER), on(CUBE, "x", "y", None, "z", shape=DEEPER)
    ),
    "a target alone": lambda: comparison_pictures(None, Layout.parse(COLUMNS, SQUARE)),
}  # fmt: skip


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", PICTURES)
def test_blocks_have_no_visual_faults(page, name, theme):
    drawn = blocks_as_html(PICTURES[name]())
    for width in (900, 500):
        assert page.faults(drawn, width, theme) == [], width


@pytest.mark.parametrize("name", PICTURES)
def test_labels_are_at_least_nine_pixels_high_in_jupyterlab_on_500(page, name):
    assert page.smallest_type(blocks_as_html(PICTURES[name]())) >= 9


@pytest.mark.parametrize("name", ["rows for columns", "wrong in three dimensions"])
def test_two_pictures_have_one_top_edge_and_one_scale(page, name):
    page.show(blocks_as_html(PICTURES[name]()))
    yours, expected = page.page.evaluate(
        """() => [...document.querySelectorAll("svg")].map((svg) => {
             const boxes = [...svg.querySelectorAll("polygon")].map((p) => p.getBBox()),
               right = Math.max(...boxes.map((b) => b.x + b.width)),
               bottom = Math.max(...boxes.map((b) => b.y + b.height));
             return [svg.getBoundingClientRect().top, Math.min(...boxes.map((b) => b.y)),
                     right - Math.min(...boxes.map((b) => b.x)), bottom].map(Math.round); })"""
    )
    assert yours == expected


def test_a_picture_that_is_too_wide_is_shrunk_in_proportion(page):
    drawn = blocks_as_html(PICTURES["four dimensions, one sharded"]())
    page.show(drawn, width=300)
    sizes = page.page.evaluate(
        """() => [...document.querySelectorAll("svg")].map((svg) => {
             const at = svg.getBoundingClientRect(), box = svg.viewBox.baseVal;
             return [at.width, at.height, box.width, box.height]; })"""
    )
    for width, height, inner_width, inner_height in sizes:
        assert width <= 300
        assert width / height == pytest.approx(inner_width / inner_height, rel=0.02)


def test_no_word_of_a_table_breaks_in_a_narrow_cell(page, monkeypatch):
    shown = []
    monkeypatch.setattr(displaying, "display", lambda html, *_: shown.append(html))
    rows = [("FSDP by the compiler", "0.030975", 2320, 32_291), ("replicated", "0.03", 18_448, 0)]
    display_table(("", "loss at the end", "bytes held", "bytes sent"), rows)
    assert page.faults(shown[0], NARROW_CELL) == []
