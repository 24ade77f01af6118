"""Pictures of collectives in a real browser: no part is clipped, overlapped, too wide or faint."""

from dataclasses import replace

import pytest

from shardlings.pictures import CollectivePicture, DrawnMesh, collective_as_html
from shardlings.pictures.collective_motion import motion_of
from shardlings.pictures.collective_pictures import (
    COLUMN_NAME_HEIGHT,
    HEADING_HEIGHT,
    MOTION_ROW_HEIGHT,
    ROW_GAP,
)
from tests.browser import FAULTS, THEMES, browser

pytestmark = pytest.mark.slow

KINDS = (
    "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute",
    "collective-broadcast",
)  # fmt: skip

IDS = tuple(range(8))
MESHES = {
    "pairs": (DrawnMesh(IDS, (4, 2), ("x", "y"), ("y",)), ((0, 1), (2, 3), (4, 5), (6, 7))),
    "fours": (DrawnMesh(IDS, (4, 2), ("x", "y"), ("x",)), ((0, 2, 4, 6), (1, 3, 5, 7))),
    "a line": (DrawnMesh(IDS, (8,), ("x",), ("x",)), (IDS,)),
    "long names": (DrawnMesh(IDS, (2, 4), ("batch", "model"), ("batch", "model")), (IDS,)),
    "a cube": (DrawnMesh(IDS, (2, 2, 2), ("x", "y", "z"), ("x",)), tuple(zip(IDS, IDS[4:]))),  # noqa: B905
    "no mesh": (DrawnMesh(IDS, (8,)), ((0, 3), (1, 4), (2, 5))),
}


@pytest.fixture(scope="module")
def page():
    with browser() as opened:
        yield opened


def picture(kind, name):
    mesh, groups = MESHES[name]
    size = len(groups[0])
    pairs = tuple((i, (i + 1) % size) for i in range(size)) if "permute" in kind else ()
    caption = "What it does is said here."
    return CollectivePicture(
        f"{kind} over x", caption, kind, groups, pairs, mesh, bytes=1 << 20, steps=True
    )


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [900, 500])
@pytest.mark.parametrize("name", MESHES)
def test_a_collective_has_no_visual_faults(page, name, width, theme):
    for kind in KINDS:
        assert page.faults(collective_as_html(picture(kind, name)), width, theme) == [], kind


STROKES = """
() => [...document.querySelectorAll("#output svg path[stroke-width='2']")]
  .map((path) => getComputedStyle(path).stroke.match(/[\\d.]+/g).slice(0, 3).map(Number))
"""


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("kind", ["all-gather", "all-reduce", "reduce-scatter", "all-to-all"])
def test_arrived_data_has_a_visible_outline_in_both_themes(page, kind, theme):
    without_a_mesh = replace(picture(kind, "fours"), mesh=None)
    page.show(collective_as_html(without_a_mesh), theme=theme)
    strokes = page.page.evaluate(STROKES)
    assert len(strokes) >= 12  # four devices in three steps
    back = [int(THEMES[theme][0][i : i + 2], 16) for i in (1, 3, 5)]
    for stroke in strokes:
        dark, light = sorted(map(luminance, (stroke, back)))
        assert (light + 0.05) / (dark + 0.05) >= 3


def luminance(colour):
    """Return a colour's relative luminance, as WCAG defines it."""
    parts = [c / 255 for c in colour]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in MESHES if name != "a line"])
def test_before_and_after_are_beside_the_mesh(page, name, kind):
    page.show(collective_as_html(replace(picture(kind, name), steps=False)), width=900)
    tops = page.page.evaluate(
        "() => [...document.querySelectorAll('svg')].map((s) => s.getBoundingClientRect().top)"
    )
    assert len(set(tops)) == 1


def test_the_same_mesh_is_drawn_once():
    first, second = picture("all-gather", "fours"), picture("all-to-all", "fours")
    mesh_image = 'aria-label="The mesh'
    assert mesh_image in collective_as_html(second)
    assert mesh_image not in collective_as_html(second, above=first)
    assert mesh_image in collective_as_html(second, above=picture("all-gather", "pairs"))


@pytest.mark.parametrize("operation", ["maximum", "multiply", "and"])
def test_other_operations_than_sums_have_no_visual_faults(page, operation):
    for size in (2, 3, 8, 9):
        drawn = CollectivePicture(
            "all-reduce", "", "all-reduce", (tuple(range(size)),), operation=operation, steps=True
        )
        assert page.faults(collective_as_html(drawn)) == []


@pytest.mark.parametrize("name", MESHES)
@pytest.mark.parametrize("kind", KINDS)
def test_labels_can_be_read_in_jupyterlab_on_500(page, name, kind):
    """The motion of an all-to-all has two grids side by side."""
    least = 7 if kind == "all-to-all" else 8.7
    assert page.smallest_type(collective_as_html(picture(kind, name))) >= least


MOVES = ".shardlings-motion"

FREEZE = """(seconds) => document.querySelectorAll("svg").forEach(
    (svg) => { svg.pauseAnimations(); svg.setCurrentTime(seconds); })"""

MOVED = """() => [...document.querySelectorAll(".shardlings-motion svg g")]
    .map((g) => JSON.stringify(g.getBoundingClientRect())).join()"""


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("kind", KINDS)
def test_between_its_steps_an_animation_has_no_visual_faults(page, kind, theme):
    drawn = picture(kind, "fours")
    motion = motion_of(kind, 4, drawn.pairs)
    page.show(collective_as_html(drawn), 500, theme)
    for step in range(motion.steps + 1):
        page.page.evaluate(FREEZE, motion.step_moment(step).end - 0.1)
        assert page.page.evaluate(FAULTS) == [], step


@pytest.mark.parametrize("kind", KINDS)
def test_an_animation_moves(page, kind):
    page.show(collective_as_html(picture(kind, "fours")))
    page.page.evaluate(FREEZE, 1.3)
    once = page.page.evaluate(MOVED)
    page.page.evaluate(FREEZE, 1.6)
    assert page.page.evaluate(MOVED) != once


@pytest.mark.parametrize("kind", KINDS)
def test_what_moves_is_outlined_because_it_moves_over_its_own_colour(page, kind):
    drawn = picture(kind, "fours")
    first = motion_of(kind, 4, drawn.pairs).moving[0].moment
    page.show(collective_as_html(drawn))
    page.page.evaluate(FREEZE, (first.start + first.end) / 2)
    outlined = page.page.evaluate(
        f"""[...document.querySelectorAll("{MOVES} svg path[stroke-width='2']")]
          .filter((path) => path.getBoundingClientRect().width > 0).length"""
    )
    assert outlined >= 1  # one path outlines all that moves in one direction


AROUND_THE_GRID = """([top, bottom]) => {
  const svg = document.querySelector(".shardlings-motion svg"), box = svg.getBoundingClientRect();
  const seen = new Set();
  for (let x = 1; x < box.width; x += 4)
    for (const y of [top - 2, bottom + 2])
      seen.add(document.elementFromPoint(box.left + x, box.top + y).tagName);
  return [...seen]; }"""


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
def test_what_leaves_the_grid_at_the_bottom_is_not_seen_outside_of_it(page, kind):
    drawn = picture(kind, "fours")
    motion = motion_of(kind, 4)
    page.show(collective_as_html(drawn), 500)
    top = HEADING_HEIGHT + COLUMN_NAME_HEIGHT * ("reduce" in kind)
    bottom = top + 4 * (MOTION_ROW_HEIGHT + ROW_GAP) - ROW_GAP
    for moving in motion.moving:
        page.page.evaluate(FREEZE, (moving.moment.start + moving.moment.end) / 2)
        assert page.page.evaluate(AROUND_THE_GRID, [top, bottom]) == ["svg"]


LABELS = """(selector) => [...new Set([...document.querySelectorAll(`${selector} text`)]
    .map((text) => text.textContent))].filter((text) => !text.startsWith("step"))"""


@pytest.mark.parametrize("name", MESHES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_animation_fills_the_cell_and_has_the_labels_of_the_steps(page, kind, name):
    page.show(collective_as_html(picture(kind, name)), 900)
    grid = page.page.evaluate(
        f"""Math.max(...[...document.querySelectorAll("{MOVES} svg rect, {MOVES} svg path")].map(
          (e) => e.getBoundingClientRect().right))"""
    )
    assert (160 if kind == "collective-broadcast" else 270) < grid < 800  # it has one column
    moving = page.page.evaluate(LABELS, MOVES)
    still = page.page.evaluate(LABELS, "#output > div:not(:has(details))")
    assert set(moving) - {"before"} <= {*still, *(f"piece {number}" for number in range(8))}


@pytest.mark.parametrize("media", [{"reduced_motion": "reduce"}, {"media": "print"}])
def test_nothing_moves_in_print_or_for_readers_who_want_less_motion(page, media):
    page.show(collective_as_html(picture("all-reduce", "fours")))
    assert page.page.locator(MOVES).is_visible()
    try:
        page.page.emulate_media(**media)
        assert not page.page.locator(MOVES).is_visible()
        assert page.page.get_by_text("step by step").is_visible()
    finally:
        page.page.emulate_media(media="screen", reduced_motion="no-preference")


def test_an_animation_stops_when_it_is_closed(page):
    page.show(collective_as_html(picture("all-reduce", "fours")))
    assert page.page.locator(f"{MOVES} details > svg").is_visible()
    page.page.locator(f"{MOVES} summary").click()
    assert not page.page.locator(f"{MOVES} details > svg").is_visible()
