"""Matplotlib's figures become plain SVG in the colours of a page, for any page."""

import io
import re
import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("IPython", reason="notebooks run where IPython is installed")
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import select_figure_formats

from shardlings.pictures import displaying, figure_as_html
from shardlings.pictures.figures import MAX_SVG_CHARACTERS, shown_figure_as_html
from tests.shardlings.pictures.some_figure import some_figure


@pytest.fixture
def figure():
    """A figure with all that is drawn otherwise on a page."""
    return some_figure()


def test_black_is_the_colour_of_the_page_and_there_is_no_background(figure):
    page = figure_as_html(figure)
    assert not re.search(r"#000000|#ffffff|black|white", page)
    assert page.count("currentColor") > 10
    assert "#d55e00" in page


def test_words_stay_words_and_lines_stay_within_the_axes(figure):
    root = ET.fromstring(figure_as_html(figure))
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"falls & rises", "a < b"} <= set(texts)
    clipped = root.findall(".//{http://www.w3.org/2000/svg}svg")
    assert clipped
    assert all(part.get("viewBox", "").split()[2:] == [part.get("width"), part.get("height")]
               for part in clipped)  # fmt: skip


def test_its_description_is_its_label_or_else_its_titles(figure):
    assert ET.fromstring(figure_as_html(figure)).get("aria-label") == (
        "A figure: $10^3$ steps, a < b, falls & rises"
    )
    figure.set_label("A line that rises")
    assert ET.fromstring(figure_as_html(figure)).get("aria-label") == "A line that rises"


def test_the_figure_itself_stays_as_it_was(figure):
    def drawn():
        written = io.BytesIO()
        figure.savefig(written, format="png")
        return written.getvalue()

    before = drawn()
    figure_as_html(figure)
    assert drawn() == before


def test_a_figure_of_many_points_stays_a_png(figure):
    assert len(shown_figure_as_html(figure) or "") in range(1, MAX_SVG_CHARACTERS)
    figure.axes[0].plot(range(3_000), range(3_000), "o")
    assert shown_figure_as_html(figure) is None


def test_a_notebook_shows_every_figure_like_this(figure, monkeypatch):
    shell = InteractiveShell()
    shell.kernel = None
    monkeypatch.setattr(displaying, "_shell", lambda: shell)
    displaying.show_figures_in_page_colours()
    select_figure_formats(shell, {"png"})  # as matplotlib does before the first figure
    shown, _ = shell.display_formatter.format(figure)
    assert shown["text/html"] == figure_as_html(figure)
    assert "text/html" not in shell.display_formatter.format(3)[0]
