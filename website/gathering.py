"""Gather the site's pages in one folder, as Sphinx needs them.

They have the same paths as in the repository, so that links between them work on GitHub and on the
site. A copy keeps its file's modification time, by which Sphinx finds what has changed.
"""

import shutil
from pathlib import Path
from typing import Final

PAGES: Final = ("README.md", "docs/*.md", "docs/pictures/*", "course/*/*.ipynb")
"""The pages in the repository. Those in this folder are put beside the README."""


def gather(root: Path, into: Path) -> None:
    """Copy new and changed pages, and remove pages that no longer exist.

    Args:
        root: the repository.
        into: the folder that Sphinx reads.
    """
    website = root / "website"
    pages = {path.relative_to(root): path for pattern in PAGES for path in root.glob(pattern)}
    pages |= {path.relative_to(website): path for path in website.glob("*.md")}
    for copy in [path for path in into.rglob("*") if path.is_file()]:
        if copy.relative_to(into) not in pages:
            copy.unlink()
    for name, path in pages.items():
        copy = into / name
        if not copy.exists() or copy.stat().st_mtime != path.stat().st_mtime:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
