"""A document as HTML, as text and for a terminal."""

import io
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from shardlings.documents import (
    Badge,
    Bar,
    Code,
    Document,
    Figure,
    Fold,
    Heading,
    Link,
    Pairs,
    Paragraph,
    Small,
    Table,
    TableRow,
    as_html,
    as_rich,
    as_text,
)
from tests.browser import THEMES, browser
from tests.shardlings.documents.every_part import DOCUMENT, LONG

WIDE = "P(None, ('x', 'y'))"

TEXT = """\
✗ Not <yet>
The array `x` is replicated. JAX says: no & yes
Expected: P('x')
Got:      something else
line                                                         bytes
x.sum()                                                         16
line 3 jax.device_put(x, sharding)  # a long comment a long  2,816
comment a long comment a long comment a long comment
  ✓ one
  ○ two
all together                                                 2,832
arithmetic  ■■□□□□□□  3 ms

drawn
left

right
"""


def words(element):
    return " ".join("".join(element.itertext()).split())


def on_terminal(document):
    from rich.console import Console

    written = io.StringIO()
    Console(file=written, width=100, color_system=None).print(as_rich(document))
    return written.getvalue()


def test_a_document_as_text():
    assert as_text(DOCUMENT) == TEXT


def test_a_document_as_html_is_one_well_formed_element():
    page = ET.fromstring(as_html(DOCUMENT))
    assert page.get("style", "").startswith("border-left:4px solid #b54a00")
    shown = words(page)
    assert shown.startswith("✗ Not <yet> The array x is replicated. JAX says: no & yes")
    for line in TEXT.splitlines()[5:11]:
        assert all(word in shown for word in line.split())
    assert shown.endswith("Details See there")
    assert [code.text for code in page.iter("code")] == ["x", "P('x')", "x.sum()", LONG]
    assert [link.get("href") for link in page.iter("a")] == ["../there"]
    # JupyterLab shows a link by its colour alone, and this one has the colour of the text
    assert all("text-decoration:underline" in link.get("style", "") for link in page.iter("a"))
    assert [bar.get("aria-label") for bar in page.iter("{http://www.w3.org/2000/svg}svg")] == [
        "3 ms"
    ]


def test_a_document_on_a_terminal_says_what_its_text_says():
    assert on_terminal(DOCUMENT).split() == TEXT.split()


def test_rich_wraps_a_wide_table_and_draws_a_figure():
    table = Table(("line", ""), (TableRow((Code("a" * 150), "b")),))
    document = Document((table, Figure(lambda: "", lambda: "text", lambda: "drawn for Rich")))
    shown = on_terminal(document)
    assert max(map(len, shown.splitlines())) <= 100
    assert "drawn for Rich" in shown
    assert "text" not in shown


def test_numbers_are_aligned_to_the_right():
    table = Table(("axis", "bytes"), (TableRow(("x", "8")), TableRow(("y", "1,024"))), align="lr")
    document = Document((table,))
    assert as_text(document).splitlines() == ["axis  bytes", "x         8", "y     1,024"]
    assert on_terminal(document).splitlines()[1].rstrip().endswith("8")
    assert as_html(document).count("text-align:right") == 3


def test_a_line_break_in_the_last_column_stays_in_its_column():
    table = Table(("axis", "notes"), (TableRow(("x", "one\ntwo")),))
    assert as_text(Document((table,))).splitlines() == ["axis  notes", "x     one", "      two"]


def test_pairs_may_be_empty():
    assert as_text(Document((Pairs(()),))) == ""


def test_a_figure_is_drawn_only_in_the_form_that_is_rendered():
    def fails():
        raise AssertionError

    assert as_text(Document((Figure(fails, lambda: "drawn"),))) == "drawn"
    assert as_text(Document((Figure(fails),))) == ""
    assert "drawn" in as_html(Document((Figure(lambda: "drawn", fails, fails),)))


@pytest.mark.parametrize("is_open", [True, False])
def test_a_fold_is_open_where_it_is_to_be_printed(is_open):
    page = ET.fromstring(as_html(Document((Fold("More", (Paragraph("details"),), is_open),))))
    (fold,) = page.iter("details")
    assert (fold.get("open") is not None) == is_open
    assert words(fold) == "More details"


def test_a_number_with_an_exponent_stays_on_one_line():
    page = as_html(Document((Paragraph("from f(8, 1.3e-05, 2), made-up"),)))
    assert '(8, <span style="white-space:nowrap">1.3e-05,</span> 2), made-up</p>' in page


def test_nothing_is_rendered_as_nothing():
    assert as_html(Document(())) == as_text(Document(())) == ""


def test_what_strangers_write_is_escaped():
    evil = "<script>alert('x')</script>\"><img src=x>"
    blocks = (
        Paragraph((evil, Code(evil), Small(evil), Badge(evil, evil), Link(evil, evil))),
        Pairs(((evil, evil),)),
        Table((evil,), (TableRow((Bar(1, evil),), below=(evil,)),)),
        Fold(evil, (Heading(evil),)),
    )
    page = ET.fromstring(as_html(Document(blocks, edge=evil)))
    assert not {"script", "img"} & {element.tag for element in page.iter()}


def test_importing_imports_neither_jinja_nor_rich():
    code = "import sys, shardlings.documents; print({'jinja2', 'rich', 'jax'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout in ("set()\n", "{'jax'}\n")  # the whole package is imported first


KEYS = ("P('x', 'y'), 2", "total = x.sum(); if first: print(total)", "x.addressable_shards[0].data")
SENTENCE = "Both processes compute the total, so both have it. Only one of them prints it, if any."

ENTRIES = """
() => [...document.querySelectorAll("td:nth-child(3)")].map((mark) => {
  const [key, value] = [...mark.parentNode.querySelectorAll("code")];
  return {lines: key.getClientRects().length + value.getClientRects().length,
          distance: mark.getBoundingClientRect().left - value.getBoundingClientRect().right,
          right: mark.getBoundingClientRect().right}; })
"""


def entries(page, keys, value, width):
    """Return where the entries of a table of predictions and their marks are, in pixels."""
    rows = (TableRow((Code(key), Code(value), "✓", "see above"), below=(SENTENCE,)) for key in keys)
    page.show(as_html(Document((Table(("t", "yours", "", ""), tuple(rows)),))), width)
    return page.page.evaluate(ENTRIES)


@pytest.mark.slow
def test_values_stand_on_one_line_where_they_fit_and_marks_are_in_view_where_they_do_not():
    with browser() as page:
        assert {entry["lines"] for entry in entries(page, KEYS, "'wrong numbers'", 900)} == {2}
        assert {entry["lines"] for entry in entries(page, KEYS[:1], WIDE, 440)} == {2}
        narrow = entries(page, KEYS, "'wrong numbers'", 380)
    assert max(entry["lines"] for entry in narrow) > 2
    assert max(entry["right"] for entry in narrow) < 380


@pytest.mark.slow
def test_a_sentence_below_a_row_does_not_move_its_mark_away_from_its_entry():
    with browser() as page:
        for keys in (KEYS, KEYS[:1], ("a", "b")):
            (distance,) = {entry["distance"] for entry in entries(page, keys, "16", 1400)}
            assert distance < 100


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [900, 400])
def test_a_document_is_drawn_well(theme, width):
    with browser() as page:
        assert page.faults(as_html(DOCUMENT), width, theme) == []


@pytest.mark.slow
def test_a_long_word_in_a_sentence_breaks_where_it_would_widen_a_table():
    word = "replica_groups=mesh['a'=4,'data'=2]"
    table = Table(("", "result", ""), (TableRow((Code("group_size"), "✗", f"It is {word} here.")),))
    with browser() as page:
        page.show(as_html(Document((table,))), 380)
        width = page.page.evaluate("document.querySelector('table').getBoundingClientRect().width")
    assert width < 380


@pytest.mark.parametrize(
    ("about", "striped"),
    [({}, True), ({"below": ("A sentence.",)}, False), ({"above": ("line 3",)}, False)],
)
def test_a_stripe_of_jupyterlab_does_not_end_within_a_sentence(about, striped):
    rows = (TableRow(("one", "2"), **about), TableRow(("two", "3")))
    said = as_html(Document((Table(("a", "b"), rows),)))
    body = said[said.index("<tbody>") :]
    assert body.count("<tr") == 2 + len(about)
    assert body.count('<tr style="background-color:transparent">') == (not striped) * (
        2 + len(about)
    )
