"""A page that takes too much time or room to make is made of plain text, elsewhere."""

import os

import pytest
from nbformat.v4 import new_code_cell

from autograder.instructor.pages import PageContents, SubmissionDetails, page_process
from autograder.instructor.pages.page_process import PageError, make_page, make_page_in_process

QUICK = [new_code_cell("x = 1")]
SLOW = [new_code_cell(("a." * 490 + "\n") * 33) for _ in range(2)]
"""Code that takes as long to highlight as any: a second on a fast machine, or several."""


def contents(cells):
    return PageContents(SubmissionDetails("ada", "a", "a"), cells, {}, {}, {})


@pytest.fixture(autouse=True)
def _own_process():
    """Start with no process, and leave none."""
    page_process.open_executor.cache_clear()
    yield
    page_process.open_executor().shutdown()
    page_process.open_executor.cache_clear()


def is_highlighted(page):
    return b'<span class="n">' in page


def test_a_page_is_made_in_another_process():
    page = make_page_in_process(contents(QUICK), b"") or b""
    assert is_highlighted(page)
    assert make_page_in_process(contents(QUICK), page) is None
    (process,) = page_process.open_executor()._pool._processes
    assert process != os.getpid()


def test_a_page_that_takes_too_long_is_plain_and_the_next_one_is_not(monkeypatch):
    monkeypatch.setattr(page_process, "PAGE_CPU_SECONDS", 0.4)
    page = make_page_in_process(contents([*QUICK, *SLOW]), b"") or b""
    assert b"a.a.a." in page
    assert not is_highlighted(page)
    assert is_highlighted(make_page_in_process(contents(QUICK), b""))


def test_a_page_for_which_there_is_no_time_is_an_error(monkeypatch):
    monkeypatch.setattr(page_process, "PAGE_CPU_SECONDS", 0.0001)
    with pytest.raises(PageError, match=r"the page takes more than 0\.0001 seconds to make"):
        make_page_in_process(contents(QUICK), b"")


def test_a_page_that_would_be_too_large_is_plain(monkeypatch):
    assert is_highlighted(make_page(contents(QUICK), b""))
    monkeypatch.setattr(page_process, "MAX_PAGE_BYTES", 1000)
    assert not is_highlighted(make_page(contents(QUICK), b""))
