"""A page is written only where it says something else than the one that is there.

So whatever copies pages further, for students or to a learning platform, sees by their times which
are new. A page says since when it has been so; that alone makes no page another one.
"""

import re
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from autograder.instructor.gradebook import Shown

WRITTEN: Final = re.compile(r'<meta name="date" content="([^"]{10,40})">')
"""Where a page says since when it has been as it is."""

SHOWS: Final = re.compile(r'<meta name="grades" content="(\w{64}) (\w{64})">')
"""Where a page says what of the gradebook it shows."""

WHERE: Final = 1000
"""Within how many characters from a page's beginning it says these."""


def write_page(path: Path, page: Callable[[datetime], str]) -> bool:
    """Write a page, unless it is there already.

    Args:
        path: where to.
        page: the page, of a time.

    Returns:
        Whether it was written.
    """
    if path.is_dir() and not path.is_symlink():  # an earlier version copied folders of any name
        shutil.rmtree(path)
    there = path.read_bytes() if path.exists() else b""
    since = _since(there.decode(errors="replace"))
    if since is not None and page(since).encode(errors="backslashreplace") == there:
        return False
    made = page(datetime.now().astimezone().replace(microsecond=0))
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(made.encode(errors="backslashreplace"))
    new.replace(path)  # whoever opens it finds the old page, or the whole of the new one
    return True


def _since(page: str) -> datetime | None:
    found = WRITTEN.search(page[:WHERE])
    try:
        return datetime.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def shown_by(page: Path) -> Shown | None:
    """What of the gradebook a page shows; None where there is none, or it shows no grade."""
    try:
        with page.open("rb") as file:
            found = SHOWS.search(file.read(WHERE).decode(errors="replace"))
    except OSError:
        return None
    return Shown(*found.groups()) if found else None
