"""Build the site into `site/`; a warning is an error, and leaves the site there as it was.

The folders are the repository's, wherever this is called from. Where Sphinx is told more, such as
to use another builder, what it makes is no site, and stays in `build/site/`.
"""

import shutil
import sys
from pathlib import Path
from typing import Final

from sphinx.cmd.build import main

from website.gathering import gather

ROOT: Final = Path(__file__).resolve().parent.parent
KEPT: Final = ROOT / "build" / "site"
"""What makes the next build quick: runs of notebooks, and pages as they were read."""

SPHINX: Final = (
    *("--fail-on-warning", "--keep-going", "--quiet", "--jobs", "2"),
    *("--conf-dir", str(ROOT / "website"), "--doctree-dir", str(KEPT / "doctrees")),
)

if __name__ == "__main__":
    gather(ROOT, KEPT / "pages")
    made = KEPT / ("besides" if sys.argv[1:] else "html")
    failed = main([*SPHINX, *sys.argv[1:], str(KEPT / "pages"), str(made)])
    if not failed and not sys.argv[1:]:
        shutil.rmtree(ROOT / "site", ignore_errors=True)
        shutil.copytree(KEPT / "html", ROOT / "site")
    sys.exit(failed)
