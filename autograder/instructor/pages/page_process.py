"""Make feedback pages in a process of their own, within limits of time and size.

Students wrote most of a page, and the libraries that highlight code and render Markdown take
quadratic time for some texts. A page that takes too long is made once more with everything that
students wrote as plain text. The process that has the gradebook only waits.
"""

import contextlib
import functools
import signal
from concurrent.futures import BrokenExecutor, Future
from typing import Final

from autograder.instructor.commands import ProcessExecutor
from autograder.instructor.pages.clean_pages import MAX_TAGS, TAG_COUNT_KEY
from autograder.instructor.pages.feedback_page import PageContents, feedback_page, renew_page

PAGE_CPU_SECONDS: Final = 20
"""The CPU time for a page; one of this course takes less than a second."""

PAGE_PATIENCE: Final = 10
"""The time limit of a page by the clock, as a multiple of its CPU time."""

MAX_PAGE_BYTES: Final = 2**25
"""The largest page, unless it is plain; one of this course has less than 2**20 bytes."""


class PageError(RuntimeError):
    """A page cannot be made within its limits, not even of plain text."""


def make_page(contents: PageContents, old: bytes, is_plain: bool = False) -> bytes | None:
    """Make a feedback page.

    Args:
        contents: everything that is on it.
        old: the present page.
        is_plain: whether to show everything that the student wrote as plain text.

    Returns:
        The page; None if the present one has the same contents.
    """
    resources = {TAG_COUNT_KEY: MAX_TAGS} if is_plain else {}
    new = renew_page(old, feedback_page(contents, resources))
    if new is not None and len(new) > MAX_PAGE_BYTES and not is_plain:
        return make_page(contents, old, is_plain=True)
    return new


def make_page_in_process(contents: PageContents, old: bytes) -> bytes | None:
    """Make a feedback page in another process; of plain text if that takes too long.

    Raises:
        PageError: even that takes too long.
    """
    for is_plain in (False, True):
        made: Future[bytes | None] = open_executor().submit(
            _make_page_in_time, PAGE_CPU_SECONDS, contents, old, is_plain
        )
        with contextlib.suppress(BrokenExecutor):  # its time was up
            return made.result()
    raise PageError(f"the page takes more than {PAGE_CPU_SECONDS} seconds to make.")


def _make_page_in_time(
    cpu_seconds: float, contents: PageContents, old: bytes, is_plain: bool
) -> bytes | None:
    """Make a page, and end this process if it takes too long."""
    _limit_seconds(cpu_seconds, PAGE_PATIENCE * cpu_seconds)
    made = make_page(contents, old, is_plain)
    _limit_seconds(0, 0)
    return made


def _limit_seconds(cpu_seconds: float, seconds: float) -> None:
    """End this process after so much CPU time, or time by the clock; 0: never."""
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        signal.setitimer(signal.ITIMER_REAL, seconds)


@functools.cache
def open_executor() -> ProcessExecutor:
    """Open the process that makes pages, one after another."""
    return ProcessExecutor(1)
