"""Build the site into `site/`, which is left as it was if Sphinx warns about anything.

This works from any working directory. With arguments for Sphinx, such as another builder, the
output stays in `build/site/`.
"""

import shutil
import sys
from pathlib import Path
from typing import Final

from sphinx.cmd.build import main

from website.gathering import gather

ROOT: Final = Path(__file__).resolve().parent.parent
BUILD: Final = ROOT / "build" / "site"
"""Has executed notebooks and parsed pages, which make the next build fast."""

SPHINX_ARGUMENTS: Final = (
    *("--fail-on-warning", "--keep-going", "--quiet", "--jobs", "2"),
    *("--conf-dir", str(ROOT / "website"), "--doctree-dir", str(BUILD / "doctrees")),
)

if __name__ == "__main__":
    gather(ROOT, BUILD / "pages")
    output = BUILD / ("besides" if sys.argv[1:] else "html")
    failed = main([*SPHINX_ARGUMENTS, *sys.argv[1:], str(BUILD / "pages"), str(output)])
    if not failed and not sys.argv[1:]:
        shutil.rmtree(ROOT / "site", ignore_errors=True)
        shutil.copytree(BUILD / "html", ROOT / "site")
    sys.exit(failed)
