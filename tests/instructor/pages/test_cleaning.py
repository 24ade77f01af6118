"""Students' HTML is shown without scripts, in feedback pages and in Formgrader."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.instructor.authoring import NotebookSession, bank, fill_in_answers
from autograder.instructor.pages.clean_pages import (
    LONG_HTML,
    LONG_MARKDOWN,
    clean,
    render_markdown,
)
from autograder.judge import verdict_as_html
from shardlings.documents import Document, Table, TableRow, as_html
from shardlings.pictures import (
    CollectivePicture,
    Stretch,
    Timeline,
    collective_as_html,
    figure_as_html,
    timeline_as_html,
)
from tests.conftest import ROOT
from tests.exercises.solutions import try_known_answer
from tests.instructor.room import ASSIGNMENT, RIGHT, Classroom
from tests.shardlings.documents.every_part import DOCUMENT
from tests.shardlings.pictures.some_figure import some_figure

RUNS = [
    "<script>PWNED</script>",
    "<img src=x onerror=PWNED>",
    "<svg onload=PWNED><script>PWNED</script></svg>",
    "<a href='javascript:PWNED'>here</a>",
    "<a href='data:text/html,<script>PWNED</script>'>here</a>",
    "<iframe srcdoc='<script>PWNED</script>'></iframe>",
    "<svg><foreignObject><iframe src='//PWNED'></iframe></foreignObject></svg>",
    "<svg><style><img title='</style><img src=x onerror=PWNED>'></style></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 "
    "onerror=PWNED&gt;'>",
    "<form action='//PWNED'><button>Submit</button></form>",
    "<div style='position:fixed;background:url(//PWNED)'>over all</div>",
    "<img src='https://PWNED/seen'>",
    "<svg><image href='//PWNED'/><image href='data:text/html;base64,PWNED'/></svg>",
    "<svg><image xlink:href='//PWNED' onload='PWNED'/></svg>",
    "<meta http-equiv=refresh content='0;url=//PWNED'><base href='//PWNED'>",
    "<a href='//evil'><div class='modal' style='display:block'>PWNED</div></a>",
    "<div style='margin:-900px;width:9000px'>PWNED</div>",
    "<link rel=stylesheet href='//PWNED'>",
    "<a href='//PWNED'>here</a>",
    "<a href='files/evil.html'>here</a>",
    "<a href='/formgrader/evil.html'>here</a>",
    "<a href=' \nevil.html'>here</a>",
    "<a href='https:evil.html'>here</a>",
    "<a href='http:/evil.html'>here</a>",
    "<a href='mailto:evil.html'>here</a>",
    "<div style='margin:calc((0px) - (900px))'>here</div>",
    "<div style='margin:c\\61lc(0px - 900px)'>here</div>",
    "<div style='padding:999px 2px'>here</div>",
    "<div style='margin:1px -900px !important'>here</div>",
    "<div style='width:var(--calc);height:min(1px,999px);margin:env(calc)'>here</div>",
    "<div style='margin:999vw;padding:1e9px;gap:99em;font-size:999px'>here</div>",
]
LIVE = ("<script", "onerror=", "onload=", "javascript:", "<iframe", "<form", "//PWNED", "<style",
        "position", "text/html", "<meta", "<base", "<link", "modal", "-900", "evil.html", "calc",
        "999", "1e9", "99em")  # fmt: skip


class Tags(HTMLParser):
    """Reads a page, and keeps what a browser acts on: no text, and no title, which is text too."""

    def __init__(self, page):
        super().__init__()
        self.live = ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        acts = (
            f"{name}={value if name not in ('alt', 'title') else ''}" for name, value in attributes
        )
        self.live += f"<{tag} {' '.join(acts)}"


@pytest.mark.parametrize("attack", RUNS)
def test_what_could_run_or_load_is_gone(attack):
    for shown in (clean(attack), clean(attack.encode())):
        live = Tags(shown).live.casefold()
        assert not [each for each in LIVE if each.casefold() in live], shown


def test_links_to_elsewhere_and_within_the_page_and_plain_styles_stay():
    for kept in (
        '<a href="https://docs.jax.dev/en/latest/">here</a>',
        '<a href="#ex-1-1">here</a>',
        '<p style="text-align:left;padding:2px 0 2px 12px;width:50%">x</p>',
        '<div style="border-left:4px solid #a1b2c3;margin:0;color:rgb(1, 2, 3)">x</div>',
    ):
        assert clean(kept) == kept


def test_no_block_is_lower_than_what_is_in_it():
    """Contents that do not fit into a block's height would be drawn over the next block."""
    picture = '<img src="data:image/png;base64,AAAA">'
    shown = clean(f'<div style="height:0;background-color:red">{picture}</div>')
    assert shown == f'<div style="min-height:0;background-color:red">{picture}</div>'
    assert clean(shown) == shown


def test_a_verdict_keeps_its_words_and_its_pictures():
    known = bank.load(ROOT / "solutions" / ASSIGNMENT / "bank.py")
    wrong = next(each for each in known if each.exercise == "1.1" and each.score == 0)
    session = NotebookSession.at(ROOT / "course" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb")
    page = verdict_as_html(try_known_answer(session, wrong, 0)[0])
    shown = clean(page)
    assert "1.1 Column strips: not yet" in shown
    assert "border-left" in shown
    for tag in (
        "<svg",
        "<polygon",
        "<text",
        "<tspan",
        "<path",
        "-opacity",
        "dasharray",
        'viewBox="',
        'fill="#',
        "max-width",
    ):
        assert shown.count(tag) == page.count(tag) > 0


def test_markdown_keeps_its_form_and_its_formulas():
    shown = render_markdown({}, "# A *mesh* is a `grid`\n\n- of $a < b$\n\n| x |\n|---|\n| 1 |\n")
    for kept in ("<h1", "<em>mesh</em>", "<code>grid</code>", "<li>", "$a &lt; b$", "<td>1</td>"):
        assert kept in shown
    assert "<script" not in render_markdown({}, "<script>PWNED</script>")


def test_a_pasted_picture_is_shown_and_one_that_is_missing_loses_nothing():
    pasted = {"cell": {"attachments": {"a.png": {"image/png": "AAAA"}}}}
    assert 'src="data:image/png;base64,AAAA"' in render_markdown(pasted, "![a](attachment:a.png)")
    missing = "see ![b](attachment:b.png)"
    assert render_markdown(pasted, missing) == f"<pre>{missing}</pre>"
    assert render_markdown({}, missing) == f"<pre>{missing}</pre>"


def test_a_large_picture_is_shown_with_the_words_around_it():
    pasted = {"cell": {"attachments": {"my picture.png": {"image/png": "A" * 2**20}}}}
    for how in (
        "![a](attachment:my%20picture.png)",
        "![a][r]\n\n[r]: attachment:my%20picture.png",
        '<img src="attachment:my picture.png" alt="a">',
    ):
        shown = render_markdown(pasted, f"Look: {how}\n\n*well*")
        assert f'src="data:image/png;base64,{"A" * 2**20}"' in shown
        assert "Look: " in shown
        assert "<em>well</em>" in shown


def test_no_way_to_refer_to_a_picture_makes_a_page_of_gigabytes():
    pasted = {"cell": {"attachments": {"a": {"image/png": "A" * 2**20}}}}
    for how in (
        "![][r]",
        "![](attachment\\:a)",
        "![](&#97;ttachment:a)",
        "<img src='attachment:a'>",
    ):
        source = (how + " ") * ((LONG_MARKDOWN - 30) // (len(how) + 1)) + "\n\n[r]: attachment:a"
        assert render_markdown(pasted, source).count("A" * 2**20) == 8


def test_a_picture_that_is_none_is_not_shown():
    for forms in ({"text/html": "AAAA"}, {"image/png": '"><script>PWNED</script>'}):
        shown = render_markdown({"cell": {"attachments": {"a": forms}}}, "![x](attachment:a)")
        assert shown == '<p><img alt="x"></p>\n' or "<script" not in shown.replace("&lt;", "")
        assert "PWNED" not in shown


def test_what_opens_again_in_each_block_is_not_parsed():
    """An unclosed paragraph has a parser open each of these again, in each paragraph after it."""
    opened = "".join(f"<b title={number}>" for number in range(1000))
    cleaned = clean(f"<p>{opened}</p>{'<p>x' * 1000}")
    assert cleaned.startswith("<pre>&lt;p&gt;&lt;b title=0&gt;")
    assert len(cleaned) < 100_000
    assert clean("<p><b>bold</b></p>") == "<p><b>bold</b></p>"


def test_what_is_nested_very_deep_is_not_parsed():
    assert clean("<div>" * 20_001) == f"<pre>{'&lt;div&gt;' * 20_001}</pre>"
    assert clean("<div>" * 100) == "<div>" * 100 + "</div>" * 100


def test_what_is_very_long_is_not_parsed():
    long = "\\begin{a}" * LONG_MARKDOWN
    assert render_markdown({}, long) == f"<pre>{long}</pre>"
    shown = clean("<b>" * LONG_HTML)
    assert shown == f"<em>{3 * LONG_HTML:,} characters of HTML are too many to be shown.</em>"


class Live(HTMLParser):
    """Reads a page, and counts its scripts; what a stranger made live is kept."""

    def __init__(self):
        super().__init__()
        self.scripts, self.strange, self.inside = 0, [], False

    def handle_starttag(self, tag, attributes):
        self.inside = tag == "script"
        self.scripts += self.inside
        self.strange += [pair for pair in attributes if pair[0].startswith("on")]

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside and "PWNED" in data:
            self.strange.append(data)


SHOWS = """
from IPython.display import *
display(HTML("<script>PWNED</script>said"), Javascript("PWNED"), Markdown("<script>PWNED</script>"))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg" onload="PWNED"/>'))
size = {"image/png": {"width": "1 onerror=PWNED"}}
display({"image/png": "AAAA"}, raw=True, metadata=size)
"""


def test_a_feedback_page_has_no_script_of_the_students(tmp_path):
    room = Classroom.at(tmp_path, until="1.1")
    notebook = fill_in_answers(room.released(), {"1.1": RIGHT["1.1"]})
    notebook.cells[2:2] = [
        new_markdown_cell("some *words*\n\n<script>PWNED</script>"),
        new_code_cell(SHOWS),
    ]
    room.hand_in_notebook("somebody", notebook)
    room.nbgrader("generate_assignment", ASSIGNMENT, "--force")
    room.nbgrader("autograde", ASSIGNMENT, "--create")
    room.nbgrader("generate_feedback", ASSIGNMENT)
    folder = room.root / "grading" / "feedback" / "somebody" / ASSIGNMENT
    page = (folder / f"{ASSIGNMENT}.html").read_text()
    for shown in ("<em>words</em>", "said", "1.1 Column strips: right", "<polygon", ">SVG<"):
        assert shown in page
    found = Live()
    found.feed(page)
    assert found.scripts == 0
    assert not found.strange
    policy = page.partition('<meta http-equiv="Content-Security-Policy" content="')
    assert policy[0].endswith("<head>\n")
    assert policy[2].startswith("default-src &#39;none&#39;; style-src")
    assert "script-src" not in policy[2].partition('"')[0]
    assert "form-action &#39;none&#39;" in policy[2].partition('"')[0]


def test_code_that_stands_on_one_line_does_so_on_a_feedback_page():
    code = '<code style="white-space:nowrap">P(None, x)</code>'
    assert clean(code) == code


def test_a_block_may_be_as_wide_as_what_it_is_in_and_no_wider():
    assert clean('<div style="min-width:100%">x</div>') == '<div style="min-width:100%">x</div>'
    for width in ("200%", "999px", "max(100%, 90em)"):
        assert "width" not in clean(f'<div style="min-width:{width}">x</div>')


def test_a_sentence_below_a_row_may_be_wider_than_its_table():
    rows = (TableRow(("f", "✗"), below=("A sentence that is longer than its row is wide.",)),)
    page = as_html(Document((Table((), rows),)))
    assert "cqw" in page
    for style in re.findall(r'style="[^"]*"', page):
        assert style in clean(page)
    assert "width" not in clean('<div style="width:min(99em, 900cqw)">x</div>')


def test_cleaning_keeps_the_styles_and_tables_of_a_document():
    page = as_html(DOCUMENT)
    for found in (r'style="[^"]*"', r"<(?:table|th|td|details|svg|rect|code)\b"):
        assert re.findall(found, clean(page)) == re.findall(found, page)


def test_of_a_collective_in_motion_only_the_static_pictures_are_kept():
    drawn = CollectivePicture(
        "all-reduce", "", "all-reduce", (tuple(range(8)),), bytes=64, steps=True
    )
    cleaned = clean(collective_as_html(drawn))
    assert "<animate" not in cleaned
    assert "<style" not in cleaned
    assert '<div style="display:none"><details' in cleaned
    assert "step 14" in cleaned


def test_a_timeline_is_kept_to_scale():
    stretches = (Stretch("computing", "", 1, "1 s"), Stretch("all-gather", "x", 3, "3 s"))
    timeline = Timeline("Time", (("The device", stretches),), (("computing", "1 s"),))
    cleaned = clean(timeline_as_html(timeline))
    assert re.search(r'<rect [^>]*x="25.000%"[^>]* width="75.000%"', cleaned)
    assert "The device, in order: computing 1 s, then all-gather over x 3 s." in cleaned


def test_a_figure_is_shown_whole():
    page = figure_as_html(some_figure())
    tags = [element.tag for element in ET.fromstring(page).iter()]
    cleaned = ET.fromstring(clean(page).replace("&nbsp;", " "))
    assert [element.tag for element in cleaned.iter()] == tags
    assert not re.search(r"<(use|defs|style|clipPath|metadata)|url\(|id=", page)
    kept = {name for element in cleaned.iter() for name in element.attrib}
    assert {"stroke-dasharray", "transform", "d", "viewBox", "href"} <= kept
