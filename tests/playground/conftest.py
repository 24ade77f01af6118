"""The playground in a real browser, opened from disk, and its answers to many cases at once."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import browser
from tests.conftest import ROOT

STATIC = ROOT / "website" / "_static" / "playground"

Ask = Callable[..., Any]


@pytest.fixture(scope="package")
def playground_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with the playground and nothing else."""
    theme_package = pytest.importorskip("pydata_sphinx_theme", reason="it is the site's theme")
    from website.playground import render_playground

    theme = Path(theme_package.__file__).parent / "theme/pydata_sphinx_theme/static/styles"
    styles = "".join(
        f"<link rel='stylesheet' href='{(theme / name).as_uri()}'>"
        for name in ("theme.css", "pydata-sphinx-theme.css")
    )
    path = tmp_path_factory.mktemp("playground") / "playground.html"
    path.write_text(
        "<!doctype html><html lang='en' data-theme='light'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'><title>Playground</title>"
        f"{styles}<body><main id='output' style='margin:12px'><h1>Playground</h1>"
        f"{render_playground(STATIC.as_uri())}</main></body></html>"
    )
    return path


@pytest.fixture(scope="package")  # two browsers in one process cannot be open at once
def opened(playground_file: Path) -> Iterator[Any]:
    """The page in a browser. An error in a script fails the test that caused it."""
    with browser() as shown:
        shown.page.goto(playground_file.as_uri())
        yield shown.page


@pytest.fixture
def page(opened: Any, playground_file: Path) -> Iterator[Any]:
    """The page as it is when it is opened without a state."""
    errors: list[Any] = []

    def remember(error: Any) -> None:
        errors.append(error)

    opened.on("pageerror", remember)
    opened.set_viewport_size({"width": 1000, "height": 1000})
    opened.goto("about:blank")
    opened.goto(playground_file.as_uri())
    yield opened
    opened.remove_listener("pageerror", remember)
    assert not errors


@pytest.fixture(scope="package")
def ask(opened: Any) -> Ask:
    """Call a function of the scripts with many lists of arguments; return its results.

    A refusal comes back as `{"refusal": its message}`.
    """

    def call(function: str, cases: list[Any]) -> list[Any]:
        assert re.fullmatch(r"[\w.]+|\(.*\) =>.*", function, re.DOTALL)
        answers: list[Any] = opened.evaluate(
            """([source, cases]) => {
              const f = eval(source);
              return cases.map((args) => {
                try { return f(...args); } catch (error) {
                  if (!(error instanceof layouts.Refusal)) throw error;
                  return {refusal: error.message};
                }
              });
            }""",
            [function, cases],
        )
        return answers

    return call
