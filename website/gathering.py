"""The site's pages in one folder, as Sphinx wants them; each is written in one place only.

They stand there as they stand in the repository, so that what links from one to another on GitHub
does so on the site. A copy keeps its file's time, by which Sphinx sees what has changed.
"""

import shutil
from pathlib import Path
from typing import Final

PAGES: Final = ("README.md", "docs/*.md", "course/*/*.ipynb")
"""What comes from the repository; what lies in this folder goes beside README."""


def gather(root: Path, into: Path) -> None:
    """Copy what is new or has changed, and remove what has gone.

    Args:
        root: the repository.
        into: the folder that Sphinx reads.
    """
    own = root / "website"
    wanted = {path.relative_to(root): path for pattern in PAGES for path in root.glob(pattern)}
    wanted |= {path.relative_to(own): path for path in own.glob("*.md")}
    for copy in [path for path in into.rglob("*") if path.is_file()]:
        if copy.relative_to(into) not in wanted:
            copy.unlink()
    for place, path in wanted.items():
        copy = into / place
        if not copy.exists() or copy.stat().st_mtime != path.stat().st_mtime:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
