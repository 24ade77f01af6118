"""Charts of both packages in a real browser: no part is clipped, overlapped, too wide or faint."""

import pytest

from autograder.judge import Trade, class_tradeoff_as_html
from autograder.judge.trade_charts import attempts_as_html
from shardlings.pictures import Roofline, RooflinePoint
from tests.browser import THEMES, browser

pytestmark = pytest.mark.slow

MIB = 2**20
TRAINING = Trade(
    0,
    0,
    72 * MIB,
    ((66 * MIB, 11_020),),
    "microseconds",
    max_sent=1_000_000_000,
    max_communicating=10_000,
)
LAYOUTS = Trade(
    0, 0, 100 * MIB, ((48 * MIB, 22_900), (96 * MIB, 14_800)), "microseconds", goal=17_500
)
MOVES = Trade(0, 0, 12_000, ((8_192, 24_576), (10_240, 20_480), (45_056, 0)))


def tried(limits, *attempts):
    """Attempts that hold so many MiB and take so many microseconds."""
    return [limits.at(held * MIB, costs, 7_171) for held, costs in attempts]


FIRST = tried(TRAINING, (66, 15_100))
MANY = tried(
    TRAINING, (66, 23_100), (66, 15_100), (66, 14_100), (90, 12_100), (66, 12_100), (66, 12_090)
)


def roofline(*points):
    """A roofline with programs of these intensities."""
    drawn = tuple(
        RooflinePoint(f"program {x:g}", "line", x, top, 0.6 * top, ("1", "2", "3"))
        for x in points
        for top in [min(197e12, 1e11 * x)]
    )
    limits = (
        "on the slope, sending is the limit: 100 GB a second",
        "on the flat part, computing: 197 trillion operations a second",
        "they meet at 1,970 operations for each byte",
    )
    return Roofline("TPU v5e", 197e12, 1e11, "The roof.", limits, drawn)


CHARTS = {
    "a first training step": lambda: attempts_as_html("design", FIRST),
    "many training steps": lambda: attempts_as_html("design", MANY),
    "a class": lambda: class_tradeoff_as_html(
        [(str(i), each) for i, each in enumerate(MANY, 1)], FIRST
    ),
    "layouts": lambda: attempts_as_html("layout", tried(LAYOUTS, (48, 57_800), (96, 17_500))),
    "moves": lambda: attempts_as_html("tight", [MOVES.at(16_384, 36_864), MOVES.at(8_192, 32_000)]),
    "a roofline": lambda: roofline(683, 2_341, 4_097)._repr_html_(),
    "a roofline with programs in one place": lambda: roofline(100, 100, 101, 1e5)._repr_html_(),
}


@pytest.fixture(scope="module")
def page():
    with browser() as opened:
        yield opened


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", CHARTS)
def test_charts_have_no_visual_faults(page, name, theme):
    drawn = CHARTS[name]()
    for width in (1400, 500):
        assert page.faults(drawn, width, theme) == [], width


@pytest.mark.parametrize("name", CHARTS)
def test_lines_and_markers_stand_out_from_the_page_in_both_themes(page, name):
    for theme in THEMES:
        page.show(CHARTS[name](), theme=theme)
        assert page.page.evaluate(FAINT_LINES) == [], theme


@pytest.mark.parametrize("name", CHARTS)
def test_type_is_at_least_nine_pixels_high_in_jupyterlab_on_500(page, name):
    assert page.smallest_type(CHARTS[name]()) >= 9


FAINT_LINES = r"""
() => {
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255;
      return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const parsed = (c) => (c.match(/[\d.]+/g) || []).map(Number);
  const back = light(parsed(getComputedStyle(document.body).backgroundColor).slice(0, 3));
  return [...document.querySelectorAll("#output path[stroke]")].filter((path) => {
    const style = getComputedStyle(path), front = parsed(style.stroke);
    if (front.length < 3) return false;
    const own = light(front.slice(0, 3)), [l, d] = own > back ? [own, back] : [back, own];
    return (l + 0.05) / (d + 0.05) < 3;
  }).map((path) => path.getAttribute("stroke"));
}
"""
