"""A feedback page: what it says and in what order, and that it is one file and no more."""

import io
import os
import re
import sys
import unicodedata
from datetime import UTC, datetime, timedelta
from functools import partial
from html.parser import HTMLParser
from urllib.parse import urlparse
from zoneinfo import ZoneInfo

import msgspec
import pytest
from matplotlib.image import imread
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output, new_raw_cell

from autograder.exercises import find
from autograder.instructor.authoring import NotebookSession, bank, fill_in_answers
from autograder.instructor.commands import show_invisible_characters
from autograder.instructor.commands.messages import INVISIBLE
from autograder.instructor.gradebook import Mark
from autograder.instructor.pages import (
    SubmissionDetails,
    format_points,
    renew_page,
    ungraded_page,
    write_page,
)
from autograder.instructor.pages.feedback_page import PageContents, feedback_page
from autograder.instructor.pages.shown_cells import STAND_IN, without_paths
from autograder.judge import verdict_without_evidence
from tests.browser import FAULTS, browser
from tests.conftest import ROOT
from tests.exercises.solutions import try_known_answer
from tests.instructor.room import ASSIGNMENT, FULL, Classroom

NOW = datetime(2026, 11, 22, 21, 4, tzinfo=UTC)
ADA = SubmissionDetails(
    "ada",
    ASSIGNMENT,
    ASSIGNMENT,
    "Ada Lovelace",
    NOW,
    late_penalty=2,
    notes=("The kernel died, twice.",),
    score=4.5,
    points=24,
    due=NOW - timedelta(days=1, hours=5),
    lateness="1.2 days",
    zone=ZoneInfo("Europe/Berlin"),
)
LIBRARY = f"{sys.prefix}/lib/python3.11/site-packages/jax/_src/api.py"
RAISED = new_output(
    "error",
    ename="ValueError",
    evalue=f"\x1b[31mno <b>such</b>\nmesh\x1b[0m in {LIBRARY}",
    traceback=["Traceback", f"File {LIBRARY}:33, in f", "ValueError: no such mesh"],
)


def own(name, source="", new=new_code_cell, outputs=(), **kinds):
    """A graded cell of an instructor's own."""
    flags = {"grade": True, "solution": False, "task": False, "locked": False, **kinds}
    cell = new(source, metadata={"nbgrader": {"grade_id": name, "schema_version": 3, **flags}})
    if outputs:
        cell.outputs = list(outputs)
    return cell


@pytest.fixture(scope="module")
def verdicts():
    """1.1 is right, 1.2 wrong, and all the others were not answered."""
    known = bank.load(ROOT / "solutions" / ASSIGNMENT / "bank.py")
    path = ROOT / "course" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    chosen = [next(k for k in known if k.exercise == e and k.score == s)
              for e, s in (("1.1", 1), ("1.2", 0))]  # fmt: skip
    session = NotebookSession.at(path)
    found = {entry.exercise: try_known_answer(session, entry, 0)[0] for entry in chosen}
    left = [exercise for exercise in FULL if exercise not in found]
    return found | {
        e: verdict_without_evidence(find(e), "no-evidence", "It did not run.") for e in left
    }


@pytest.fixture(scope="module")
def cells():
    """A graded notebook, with cells of an instructor's own, and one that raised."""
    notebook = fill_in_answers(Classroom(ROOT).released(), {"1.2": "rows = mesh_that_is_not"})
    names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
    notebook.cells[names.index("ex-1-3")].outputs = [RAISED]
    return [
        *notebook.cells,
        own("essay", "Because of *it*.", new_markdown_cell, solution=True),
        own("draw", "Draw it.", new_markdown_cell, grade=False, task=True),
        own("test", "assert devices_there == 8", outputs=[RAISED]),
        own("passes", "assert True"),
    ]


@pytest.fixture(scope="module")
def given():
    """The gradebook's entries."""
    of_exercises = {find(e).grade_id: Mark(0, points) for e, points in FULL.items()}
    return of_exercises | {
        "ex-1-1-check": Mark(1, 1),
        "essay": Mark(2.5, 3, manual_score=2, extra_credit=0.5),
        "draw": Mark(0, 4, needs_a_look=True),
        "test": Mark(0, 2),
        "passes": Mark(1, 1),
        "gone": Mark(0, 1),
    }


COMMENTS = {
    "ex-1-2": "Look at the *axes* <script>PWNED</script>",
    "ex-1-3": "No response.",
    "essay": "Well said.",
}


@pytest.fixture(scope="module")
def page(cells, given, verdicts):
    """The page of all that."""
    return feedback_page(PageContents(ADA, cells, given, COMMENTS, verdicts))(NOW)


def words(page):
    """Return a page's text without its markup."""
    text = re.sub(r"<style>.*?</style>|<title>.*?</title>", " ", page, flags=re.DOTALL)
    return " ".join(re.sub("<[^>]+>", "", text).split())


@pytest.mark.parametrize(
    ("points", "text"),
    [(2, "2"), (0, "0"), (10, "10"), (4 / 3, "1.33"), (0.5, "0.5"), (12345.67, "12345.67")],
)
def test_points_are_shown_with_at_most_two_decimals(points, text):
    assert format_points(points) == text


def test_results_come_first_and_the_notebook_is_folded_below(page):
    results, _, notebook = page.partition('<details class="notebook">')
    said = words(results)
    order = ["Ada Lovelace (ada)", "22 November 2026, 22:04 CET",
             "2.5 of 24 points so far; 4 more are still to be graded", "Results",
             "✓ 1.1 Column strips: right 1 / 1", "✗ 1.2 Blocks on a grid: not yet 0 / 1",
             "Written answer essay 2.5 / 3"]  # fmt: skip
    assert sorted(map(said.index, order)) == [said.index(each) for each in order]
    assert "4.5 were earned, and 2 are deducted because it was submitted late." in said
    assert "It was due on 21 November 2026, 17:04 CET, and was submitted 1.2 days later." in said
    assert "Graded 22 November 2026, 22:04 CET" in said
    assert "The kernel died, twice." in said
    assert results.count("<svg") >= 3, "1.1's, and 1.2's beside what was expected"
    assert "holds which block" in words(notebook)
    assert "holds which block" not in said
    assert '<meta name="viewport" content="width=device-width' in results
    assert '<html lang="en">' in results


def test_the_bar_is_of_the_pages_own_colours_in_the_dark_too(page):
    (bar,) = re.findall(r"\.total progress \{([^}]*)\}", page)
    assert "appearance: none" in bar
    assert "background: var(--line)" in bar
    assert "::-webkit-progress-bar { background: var(--line)" in page


def test_what_somebody_has_given_and_written_is_there(page):
    said = words(page)
    assert "Given by hand: 2 of 3. Of its score, 0.5 is extra credit. Comment Well said." in said
    assert "<blockquote" in page
    assert "Look at the <em>axes</em>" in page
    assert "? Task draw 0 / 4 This is graded by hand, and has no score yet." in said
    assert "Test passes 1 / 1 The test passed." in said
    assert "Test gone 0 / 1 This cell is not in what was handed in." in said
    assert "No response." not in said, "the verdict says it"


def test_where_a_score_was_given_by_hand_what_the_check_found_stands_apart(cells, given, verdicts):
    changed = given | {"ex-1-2-check": Mark(1, 1, manual_score=1)}
    result = feedback_page(PageContents(ADA, cells, changed, {}, verdicts))(NOW).partition(
        'id="result-ex-1-2'
    )[2]
    said = words(f'<article id="{result.partition("</article>")[0]}')
    assert said.startswith("✓ 1.2 Blocks on a grid: right 1 / 1 Given by hand: 1 of 1.")
    by_hand, _, found = said.partition(" What the check found: ")
    assert "Judging it found 0." in by_hand
    assert found
    assert "Stuck?" not in found


def test_where_a_cell_raised_its_last_line_is_there_and_no_path_of_the_graders(page):
    results, _, notebook = page.partition('<details class="notebook">')
    last = "ValueError: no <b>such</b> mesh in …/jax/_src/api.py"
    escaped = last.replace("<", "&lt;").replace(">", "&gt;")
    assert results.count(f"ended with an error: <code>{escaped}</code>") == 2
    assert escaped in notebook
    assert "…/jax/_src/api.py:33, in f" in notebook
    for place in (sys.prefix, os.getcwd(), "site-packages"):
        assert place not in page


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"in {LIBRARY}.", "in …/jax/_src/api.py."),
        ("/opt/x/lib/python3.12/site-packages/numpy/a.py:3", "…/numpy/a.py:3"),
        ("'/usr/lib/python3.11/json/decoder.py'", "'…/json/decoder.py'"),
        (r"C:\Users\me\env\Lib\site-packages\jax\a.py", r"…\jax\a.py"),
        (f"{os.getcwd()}/data.csv", "…/data.csv"),
        ("1/2 and a/b at https://docs.jax.dev/x", "1/2 and a/b at https://docs.jax.dev/x"),
        ("/home/mine/data.csv", "/home/mine/data.csv"),
    ],
)
def test_paths_lose_what_is_the_graders(said, shown):
    assert without_paths(said) == shown


def test_a_path_of_the_graders_may_have_spaces(monkeypatch):
    own = ("/home/me/my course/.venv", "/home/me/my course", STAND_IN)
    monkeypatch.setattr("autograder.instructor.pages.shown_cells.OWN_PATHS", own)
    said = f"{own[0]}/lib/python3.11/site-packages/jax/a.py and {own[1]}/data.csv"
    assert without_paths(said) == "…/jax/a.py and …/data.csv"


def test_paths_are_looked_for_in_a_time_that_grows_no_faster_than_the_text():
    assert without_paths("/lib/python3" * 80_000).startswith("…")
    assert without_paths("/" * 10**6).startswith("/")


class Asking(HTMLParser):
    """Reads a page, and keeps what runs, what is asked for, and what is sent."""

    def __init__(self):
        super().__init__()
        self.found, self.links = [], []

    def handle_starttag(self, tag, attributes):
        if tag in {"script", "link", "iframe", "object", "embed", "form", "base", "video", "audio"}:
            self.found.append(tag)
        for name, value in attributes:
            if tag == "a" and name == "href":
                self.links.append(value)
            elif (
                name.startswith("on")
                or name in {"srcset", "href", "action", "background"}
                or (name == "src" and not value.startswith("data:image/"))
            ):
                self.found.append((name, value))


STRANGE = "<img src=x onerror=PWNED><script>PWNED</script>"


@pytest.mark.parametrize("made", ["graded", "ungraded"])
def test_a_page_runs_nothing_and_asks_for_nothing(cells, given, verdicts, made):
    about = SubmissionDetails(STRANGE, STRANGE, STRANGE, STRANGE, notes=(STRANGE,))
    hostile = [
        new_markdown_cell(f"![x](https://evil.example/x.png) {STRANGE}\n\n# A heading"),
        new_code_cell(
            f'target("1.1")\ntarget("{STRANGE}")',
            outputs=[
                new_output("display_data", data={"text/html": f"{STRANGE}<link href=//e>"}),
                new_output("display_data", data={"image/svg+xml": f"<svg>{STRANGE}</svg>"}),
                new_output("display_data", data={"image/png": '"><script>PWNED</script>'}),
                new_output("stream", name="stdout", text=STRANGE),
                new_output("error", ename=STRANGE, evalue=STRANGE, traceback=[STRANGE]),
            ],
        ),
    ]
    made_of = {STRANGE: Mark(0, 1), **given}
    page = (
        feedback_page(
            PageContents(about, [*hostile, *cells], made_of, {STRANGE: STRANGE}, verdicts)
        )
        if made == "graded"
        else ungraded_page(about, STRANGE)
    )(NOW)
    asking = Asking()
    asking.feed(page)
    assert not asking.found
    assert all(link.startswith("#") or urlparse(link).scheme == "https" for link in asking.links)
    assert "url(" not in page.partition("</style>")[0]
    assert "@import" not in page
    head = page.index("<meta http-equiv")
    assert head < 50, "the policy stands before all that it is for"
    assert "default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;; img-src data:;" in page
    assert "PWNED" in page, "what is text may stay"


def test_in_the_notebook_the_target_is_drawn_which_the_graders_kernel_did_not(verdicts, given):
    cell = new_code_cell('target("1.2")')
    drawn = feedback_page(PageContents(ADA, [cell], {}, {}, {}))(NOW)
    assert "<svg" in drawn.partition('<details class="notebook">')[2]
    assert "<svg" not in feedback_page(PageContents(ADA, [new_code_cell("x = 1")], {}, {}, {}))(NOW)


def test_a_notebook_graded_by_an_earlier_version_has_its_verdicts_all_the_same(given):
    shown = new_output("display_data", data={"text/html": "<b>1.1 Column strips: right</b>"})
    check = own("ex-1-1-check", 'check("1.1", columns)', outputs=[shown], locked=True)
    page = feedback_page(PageContents(ADA, [check], {"ex-1-1-check": Mark(1, 1)}, {}, {}))(NOW)
    assert "<b>1.1 Column strips: right</b>" in page.partition('<details class="notebook">')[0]


def test_a_page_of_what_could_not_be_graded_looks_like_the_others(page):
    broken = ungraded_page(
        SubmissionDetails("bob", ASSIGNMENT, ASSIGNMENT), "It is not a notebook's JSON."
    )(NOW)
    assert f"{ASSIGNMENT} could not be graded Student bob" in words(broken)
    assert "It is not a notebook&#39;s JSON." in broken
    assert broken.partition("<title>")[0] == page.partition("<title>")[0]
    styles = [each.partition("<style>")[2].partition("</style>")[0] for each in (page, broken)]
    assert styles[0] == styles[1] != ""


UNSEEN = "\x1b[2J \x07 \u202e \u2066 \u200f \x9b \ufeff"


def test_no_invisible_characters_of_strangers_are_on_a_page(verdicts):
    entities = "".join(f"&#{ord(c)};" for c in UNSEEN if c != "\x1b")
    shown = [
        new_output("stream", name="stdout", text=UNSEEN),
        new_output("display_data", data={"text/html": f"<b title='{entities}'>{entities}</b>"}),
        new_output("display_data", data={"text/plain": UNSEEN}),
        new_output("display_data", data={"text/markdown": f"*{entities}* {UNSEEN}"}),
        new_output("error", ename=UNSEEN, evalue=UNSEEN, traceback=[UNSEEN]),
    ]
    cells = [
        own("code", f"'{UNSEEN}'", outputs=shown),
        new_code_cell(f"'{UNSEEN}'  # {'x' * 2000}"),
        new_markdown_cell(f"{UNSEEN} {entities}"),
        new_markdown_cell(UNSEEN * 2000),
        new_raw_cell(UNSEEN),
    ]
    finding = verdicts["1.2"].findings[0].but(difference=UNSEEN, got=UNSEEN)
    forged = msgspec.structs.replace(verdicts["1.2"], findings=(finding,))
    about = SubmissionDetails(UNSEEN, UNSEEN, UNSEEN, UNSEEN, notes=(UNSEEN,))
    given = {"code": Mark(0, 1), find("1.2").grade_id: Mark(0, 1)}
    page = feedback_page(PageContents(about, cells, given, {"code": UNSEEN}, {"1.2": forged}))(NOW)
    assert INVISIBLE.findall(page) == []
    assert "\u241b[2J" in page, "a symbol takes their place"


DIRECTIONS = ("LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
"""The bidirectional classes of Unicode for characters that set the direction of text."""


def test_every_character_that_changes_the_direction_of_text_is_replaced():
    marks = [c for c in map(chr, range(2**16)) if unicodedata.bidirectional(c) in DIRECTIONS]
    marks += "\u061c\u200e\u200f"
    assert len(marks) == 12
    assert show_invisible_characters("".join(marks)) == "\ufffd" * 12


def test_only_so_much_code_is_highlighted():
    many = [new_code_cell(f"# {'x' * 400}\n" * 30) for _ in range(8)]
    about = SubmissionDetails("a", "a", "a")
    assert feedback_page(PageContents(about, many, {}, {}, {}))(NOW).count('class="c1"') == 5 * 30
    long_line = new_code_cell(f"x = 1\n{'a.' * 2**13}")
    long_cell = new_code_cell("x = 1\n" * 6000)
    for cell in (long_line, long_cell):
        assert 'class="n"' not in feedback_page(PageContents(about, [cell], {}, {}, {}))(NOW)


def test_a_page_is_written_only_where_it_is_another_one(tmp_path):
    path = tmp_path / "ada" / "page.html"
    pages = {
        why: ungraded_page(SubmissionDetails("ada", "a", "a"), why) for why in ("Once.", "Twice.")
    }
    say = {why: partial(renew_page, page=page) for why, page in pages.items()}
    assert write_page(path, say["Once."])
    long_ago = datetime(2020, 1, 2, 3, 4, tzinfo=UTC)
    path.write_text(pages["Once."](long_ago), encoding="utf-8")
    path.chmod(0o444)  # as nbgrader leaves it
    before = path.stat()
    assert not write_page(path, say["Once."])
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert write_page(path, say["Twice."])
    assert "Twice." in path.read_text(encoding="utf-8")
    assert "2020" not in path.read_text(encoding="utf-8")
    path.write_text("of an earlier version")
    assert write_page(path, say["Once."])
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]


def test_a_folder_of_a_pages_name_is_no_obstacle(tmp_path):
    (tmp_path / "page.html" / "in it").mkdir(parents=True)
    page = ungraded_page(SubmissionDetails("a", "a", "a"), "No.")
    assert write_page(tmp_path / "page.html", partial(renew_page, page=page))
    assert (tmp_path / "page.html").is_file()


def test_it_is_read_on_a_phone_and_in_the_dark(page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    asked = []
    with browser() as opened:
        shown = opened.page
        shown.on("request", lambda request: asked.append(request.url))
        for scheme in ("light", "dark"):
            shown.emulate_media(color_scheme=scheme)
            shown.set_viewport_size({"width": 400, "height": 800})
            shown.goto(path.as_uri())
            shown.evaluate("document.querySelector('main').id = 'output'")
            faults = shown.evaluate(FAULTS)  # words that wrap have boxes that overlap
            assert not [fault for fault in faults if not fault.startswith("overlapping: <A>")]
            shown.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            assert shown.evaluate("document.documentElement.scrollWidth") == 400
            bar = imread(io.BytesIO(shown.locator("progress").screenshot()))
            empty = bar[bar.shape[0] // 2, -20, :3].mean()
            assert (empty < 0.4) == (scheme == "dark"), "its empty part is as dark as the page"
    assert {urlparse(url).scheme for url in asked} == {"file"}
