"""Rooflines: their programs are drawn on them, and they are readable in every theme and as text."""

import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("matplotlib", reason="charts are drawn where matplotlib is installed")
from matplotlib.backends.backend_agg import FigureCanvasAgg

from shardlings.pictures import Roofline, RooflinePoint

PEAK, LINK = 197e12, 100e9
INF = float("inf")


def point(name, intensity, peak=PEAK):
    together = min(peak, LINK * intensity)
    cells = (f"{intensity:,.4g}", "50%", "30%")
    return RooflinePoint(name, f"{name}: a line", intensity, together, together / 1.5, cells)


def roofline(*points, remarks=()):
    return Roofline("TPU v5e", PEAK, LINK, "The roof.", ("above", "words"), points, remarks)


FIVE = [("rows", 1e3), ("columns", 1e3), ("blocks", 1e5), ("quiet", INF), ("silent", INF)]
CASES = {
    "five": FIVE,
    "one far to the left": [("left", 1e-3)],
    "one far to the right": [("right", 1e12)],
    "far apart": [("left", 1e-3), ("right", 1e12), ("quiet", INF)],
    "a long name": [("long " * 40, 1e3)],
    "what looks like mathematics": [("$\\frac{$ & <b>", 1e3)],
    "twelve": [(f"program {i}", 10.0**i) for i in range(12)],
}


@pytest.fixture
def drawn():
    """Return a function that draws a roofline and returns its figure and renderer."""

    def drawn(picture):
        figure = picture.figure()
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        return figure, canvas.get_renderer()

    return drawn


@pytest.mark.parametrize("case", CASES)
def test_no_text_overlaps_another_or_leaves_the_picture(case, drawn):
    figure, renderer = drawn(roofline(*(point(*each) for each in CASES[case])))
    (axes,), (legend,) = figure.axes, figure.legends
    words = [*axes.texts, *legend.get_texts(), axes.title, axes.xaxis.label, axes.yaxis.label]
    boxes = [text.get_window_extent(renderer) for text in words]
    for text, box in zip(words, boxes, strict=True):
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, text  # noqa: PT018
        assert box.y0 >= 0 and box.y1 <= figure.bbox.y1, text  # noqa: PT018
    for number, box in enumerate(boxes):
        others = boxes[number + 1 :]
        assert not box.count_overlaps(others), words[number]
    marks = [
        tuple(line.get_transform().transform((x, y)))
        for line in axes.lines
        if line.get_marker() not in ("None", "")
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]
    for text in axes.texts:
        box = text.get_window_extent(renderer).padded(3)
        assert not [mark for mark in marks if box.contains(*mark)], text


def test_each_program_has_a_marker_on_the_roof_and_a_dash_where_it_is_if_one_waits(drawn):
    figure, _ = drawn(roofline(*(point(*each) for each in FIVE)))
    (axes,) = figure.axes
    on_roof = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
    dashes = [line for line in axes.lines if line.get_marker() == "_" and len(line.get_xdata())]
    assert [len(on_roof), len(dashes)] == [5, 3]
    assert min(d.get_markersize() for d in dashes) > 2 * max(m.get_markersize() for m in on_roof)
    edge = axes.patches[0].get_x()  # programs to the right of it send nothing
    right = [line for line in on_roof if line.get_xdata()[0] > edge]
    assert [line.get_ydata()[0] for line in right] == [PEAK, PEAK]
    assert len({line.get_xdata()[0] for line in right}) == 2


def test_programs_in_one_place_are_numbered_in_one_place(drawn):
    figure, _ = drawn(roofline(*(point(*each) for each in FIVE)))
    numbers = [text.get_text() for text in figure.axes[0].texts if text.get_fontweight() == "bold"]
    assert numbers == ["1, 2", "3", "4", "5"]
    figure, _ = drawn(roofline(*(point(name, 1e3) for name in "abcde")))
    numbers = [text.get_text() for text in figure.axes[0].texts if text.get_fontweight() == "bold"]
    assert numbers == ["1, …, 5"]


def test_the_description_has_a_line_for_each_program():
    picture = roofline(*(point(*each) for each in FIVE), remarks=("moves: not drawn",))
    lines = str(picture).splitlines()
    assert lines == ["The roof.", *(f"{name}: a line" for name, _ in FIVE), "moves: not drawn"]
    assert repr(picture) == str(picture)
    page = ET.fromstring(picture._repr_html_())
    (image,) = (element for element in page if element.get("role") == "img")
    assert " ".join(image.attrib["aria-label"].split()) == " ".join(lines)
    rows = [["".join(cell.itertext()) for cell in row] for row in page.iter("tr")]
    assert rows[1] == ["1", "rows", "1,000", "50%", "30%"]
    (remark,) = page.findall("p")
    assert "".join(remark.itertext()) == "moves: not drawn"


def test_without_programs_there_is_only_text():
    page = ET.fromstring(roofline(remarks=("moves: <not> drawn",))._repr_html_())
    assert ["".join(line.itertext()) for line in page] == ["The roof.", "moves: <not> drawn"]
