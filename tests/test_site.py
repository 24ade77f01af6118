"""The course on the web: nothing solved is in it, its links lead somewhere, and all can read it.

The site is built once here, by `make site`'s own command; the runs of its notebooks are kept for
the next time.
"""

import functools
import html
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

import autograder
import shardlings
from autograder.exercises import EXERCISES, NOTEBOOKS
from tests.browser import THEMES, browser
from tests.conftest import ROOT

pytest.importorskip("myst_nb", reason="the site is built where its extra is installed")
from bs4 import BeautifulSoup

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.access(ROOT, os.W_OK), reason="the site is built in the checkout"),
]

SITE = ROOT / "site"
WIDTHS = (400, 900, 1400)
COURSE = sorted(path.stem for path in (ROOT / "course").glob("*/*.ipynb"))
FRONT, CHEATS, PLAYGROUND = "index.html", "docs/cheat_sheet.html", "playground.html"
FIRST, FIFTH, EIGHTH = (f"course/{COURSE[i]}/{COURSE[i]}.html" for i in (1, 5, 8))
LOOKED_AT = (FRONT, FIRST, FIFTH, EIGHTH, "docs/what_moved.html", CHEATS, PLAYGROUND)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHORT = 20
"""Lines with fewer characters are not compared, because anybody could write them."""


@pytest.fixture(scope="module", autouse=True)
def site():
    """The site, built; a warning would have been an error."""
    build = [sys.executable, "-m", "website"]
    os.environ.pop("NBGRADER_EXECUTION", None)  # in which a check would raise
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return SITE


@functools.cache
def page(path: Path) -> Any:
    """A page, parsed; each is read by several tests."""
    return BeautifulSoup(path.read_text(), "html.parser")


def pages():
    """All the pages there are."""
    return sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)


def notebook_page(name):
    return page(SITE / "course" / name / f"{name}.html")


def packed(text):
    """Without white space, which pages have otherwise than files."""
    return re.sub(r"\s+", "", text)


def released():
    """Return the texts that anybody may read: released notebooks, pages and hints."""
    sources = [*ROOT.glob("course/*/*.ipynb"), *ROOT.glob("docs/*.md"), *ROOT.glob("website/*.md")]
    texts = [
        "\n".join(cell.source for cell in nbformat.read(path, 4).cells)
        if path.suffix == ".ipynb"
        else path.read_text()
        for path in [*sources, ROOT / "README.md"]
    ]
    hints = (hint for e in EXERCISES.values() for hint in e.hints)
    written = packed("\n".join([*texts, *hints]))
    return written + written.replace("`", "")  # pages show code without them


def solved():
    """Each line that says an answer: in a solution, or in the bank."""
    for path in ROOT.glob("solutions/*/*.ipynb"):
        for cell in nbformat.read(path, 4).cells:
            for answer in re.findall(
                r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cell.source, re.DOTALL
            ):
                yield from answer.splitlines()
    for path in ROOT.glob("solutions/*/bank.py"):
        yield from path.read_text().splitlines()


def test_nothing_solved_is_on_the_site():
    anybodys = released()
    telling = {packed(line) for line in solved()}
    telling = {line for line in telling if len(line) >= SHORT and line not in anybodys}
    assert len(telling) > 1000
    everywhere = pages()
    for path in SITE.rglob("*"):
        if path.suffix in (".html", ".js", ".ipynb", ".txt", ".md"):
            text = path.read_text()
            shown = packed(page(path).get_text() if path in everywhere else html.unescape(text))
            assert not [line for line in telling if line in shown], path


def test_notebooks_that_can_be_downloaded_are_those_that_were_released():
    found = sorted(SITE.rglob("*.ipynb"))
    assert [path.stem for path in sorted(found, key=lambda p: p.stem)] == COURSE
    for path in found:
        assert path.read_bytes() == (ROOT / "course" / path.stem / path.name).read_bytes()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_each_exercise_is_there_unanswered_and_its_hints_are_folded(name):
    shown = notebook_page(name)
    text = shown.get_text()
    for exercise in NOTEBOOKS[name]:
        assert shown.find(id=f"exercise-{exercise.id.replace('.', '-')}")
        verdicts = re.findall(rf"{re.escape(f'{exercise.id} {exercise.title}')}(?::| –) (.*)", text)
        assert [words[:16] for words in verdicts] == ["not answered yet"]
    hints = shown.select("details.hint")
    assert len(hints) == sum(len(exercise.hints) for exercise in NOTEBOOKS[name])
    assert not any(hint.has_attr("open") for hint in hints)
    outermost = [hint for hint in hints if not hint.find_parent("details")]
    assert len(outermost) == len(NOTEBOOKS[name])


@pytest.mark.parametrize("name", COURSE)
def test_a_notebook_can_be_opened_elsewhere_and_leads_on(name):
    shown = notebook_page(name)
    places = [a["href"] for a in shown.select("article a[href]")]
    for service in ("https://colab.research.google.com/", "https://kaggle.com/"):
        assert any(p.startswith(service) and p.endswith(f"{name}.ipynb") for p in places)
    folded = shown.select("div.tag_hide-input details")
    assert "%pip install" in folded[0].get_text()
    number = COURSE.index(name)
    for neighbour in COURSE[max(number - 1, 0) : number] + COURSE[number + 1 : number + 2]:
        links = shown.select(".prev-next-area a[href]")
        assert any(link["href"].endswith(f"{neighbour}.html") for link in links)


@functools.cache
def anchors(path):
    shown = page(path)
    return {e[key] for key in ("id", "name") for e in shown.find_all(attrs={key: True})}


def test_every_link_within_the_site_leads_somewhere():
    dead = []
    for path in pages():
        for link in page(path).find_all(href=True):
            place = urlsplit(link["href"])
            if place.scheme or place.netloc:
                continue
            to = (path.parent / unquote(place.path)).resolve() if place.path else path
            fragment = unquote(place.fragment)
            there = to.exists() and (not fragment or fragment in anchors(to))
            if not there:
                dead.append(f"{path.relative_to(SITE)}: {link['href']}")
    assert not dead


def test_nothing_is_fetched_from_elsewhere():
    for path in pages():
        shown = page(path)
        fetched = [e["src"] for e in shown.find_all(src=True)]
        fetched += [
            e["href"] for e in shown.find_all("link", rel=["stylesheet", "preload", "icon"])
        ]
        for place in fetched:
            address = urlsplit(place)
            assert address.scheme in ("", "data"), f"{path}: {place[:200]}"
            assert address.scheme or (path.parent / unquote(address.path)).exists(), place
    for path in SITE.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(https?:)?//|@import\s+['\"]http", path.read_text())


def test_every_picture_has_its_text():
    for path in pages():
        for picture in page(path).find_all("img"):
            words = picture.get("alt") or ""
            assert " " in words, f"{path.name}: {picture.get('src', '')[:80]} has {words!r}"
        for drawn in page(path).find_all("svg"):
            if drawn.find_parent("svg"):  # the outer one has the words for all of it
                continue
            said = drawn.get("aria-label") or drawn.find("title")
            assert said or drawn.get("aria-hidden") == "true", f"{path.name}: {str(drawn)[:200]}"


@pytest.fixture(scope="module")
def opened():
    with browser() as shown:
        yield shown.page


def look(opened, name, theme="light", width=1400, asked=""):
    """Open a page as it is without a server."""
    opened.set_viewport_size({"width": width, "height": 1000})
    # else colours would still be on their way from one theme to the other
    opened.emulate_media(color_scheme=theme, reduced_motion="reduce")
    opened.goto((SITE / name).as_uri() + asked)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_formula_has_a_vertical_scroll_bar(opened, width):
    look(opened, "course/10_fft_and_solvers/10_fft_and_solvers.html", width=width)
    bars = opened.evaluate(
        """() => [...document.querySelectorAll("div.formula")].map((f) =>
             getComputedStyle(f).overflowY == "hidden" || f.scrollHeight <= f.clientHeight)"""
    )
    assert bars
    assert all(bars)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_scrolls_sideways(opened, width):
    every = [path.relative_to(SITE) for path in pages()]
    for name in every if width == min(WIDTHS) else LOOKED_AT:
        look(opened, name, width=width)
        wide = opened.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} wide"


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", LOOKED_AT)
def test_everybody_can_read_it(opened, name, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    coloured = name in (
        FRONT,
        FIFTH,
        CHEATS,
        PLAYGROUND,
    )  # with all the colours; it takes long to compare them
    if not coloured and theme == "dark":
        pytest.skip("in the dark there are other colours, and nothing else")
    look(opened, name, theme)
    rules = {"color-contrast": {"enabled": coloured}}
    found = axe.run(opened, options={"resultTypes": ["violations"], "rules": rules})
    grave = [v for v in found.response["violations"] if v["impact"] in ("serious", "critical")]
    assert not [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in grave]


SMALLEST = """
() => {
  const points = (pixels) => pixels * 0.75;
  const words = [...document.querySelectorAll("article *")].filter((e) => e.checkVisibility()
    && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()));
  const sizes = words.map((e) => points(parseFloat(getComputedStyle(e).fontSize)));
  const shrunk = [...document.querySelectorAll("article img")].map((e) =>
    [e.src.split("/").pop(), points(e.getBoundingClientRect().width / e.naturalWidth)]);
  return [Math.min(...sizes), shrunk];
}
"""
"""The size in points of a page's smallest letters, and of a pixel in each of its pictures."""


@pytest.mark.parametrize("theme", THEMES)
def test_the_cheat_sheet_is_printed_on_two_sides_of_a4_and_legible(opened, theme):
    look(opened, CHEATS, theme)
    pdf = opened.pdf(prefer_css_page_size=True)
    assert re.findall(rb"/MediaBox \[0 0 (\d+)\.\d+ (\d+)\.", pdf) == [(b"594", b"841")] * 2
    opened.emulate_media(media="print")
    letters, pictures = opened.evaluate(SMALLEST)
    opened.emulate_media(media="null")
    assert round(letters, 2) >= 7
    assert len(pictures) > 10
    for name, pixel in pictures:
        svg = (ROOT / "docs" / "pictures" / name).read_text()
        sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', svg)]
        assert round(min(sizes) * pixel, 2) >= 7, name


def test_the_search_finds_without_a_server(opened):
    look(opened, "search.html", asked="?q=reduce-scatter")
    opened.wait_for_selector("#search-results li", timeout=20_000)
    assert opened.locator("#search-results li").count() > 1


def test_pictures_have_the_colours_of_the_page(opened):
    colours = "getComputedStyle(document.querySelector('.output.text_html')).{}"
    for theme in THEMES:
        look(opened, FIRST, theme)
        behind = opened.evaluate(colours.format("backgroundColor"))
        assert behind == "rgba(0, 0, 0, 0)", theme
        page_ink = opened.evaluate("getComputedStyle(document.querySelector('article')).color")
        assert opened.evaluate(colours.format("color")) == page_ink, theme


def test_all_that_a_notebook_imports_is_described():
    described = {e["id"] for e in page(SITE / "api.html").select("dt.sig[id]")}
    libraries = (autograder, shardlings)
    assert described == {f"{each.__name__}.{name}" for each in libraries for name in each.__all__}


def test_where_it_is_published_is_said_alike():
    address = PROJECT["project"]["urls"]["Documentation"]
    for page in ("README.md", "docs/cheat_sheet.md"):
        assert f"]({address}" in (ROOT / page).read_text()
    owner, name = PROJECT["project"]["urls"]["Repository"].split("/")[-2:]
    assert address == f"https://{owner}.github.io/{name}/"


def test_a_second_build_reads_nothing_anew():
    def read():
        kept = (ROOT / "build" / "site" / "doctrees").rglob("*.doctree")
        return {path: path.stat().st_mtime_ns for path in kept}

    before = read()
    subprocess.run([sys.executable, "-m", "website"], cwd=ROOT, check=True)
    assert before == read() != {}
