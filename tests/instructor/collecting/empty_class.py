"""A class that nobody has handed in to, and zip files for it."""

import io
import shutil
import zipfile
from pathlib import Path

import pytest

from autograder.instructor.__main__ import main
from tests.conftest import ROOT

FIRST, SECOND = "01_sharding_basics", "03_constraints"
NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


class Class:
    """A course in which nothing is run, and its submissions."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.capsys = root, capsys
        for name in (FIRST, SECOND):
            for folder in ("solutions", "course"):
                shutil.copytree(ROOT / folder / name, root / folder / name)
        for file in ("nbgrader_config.py", "pyproject.toml"):
            shutil.copy(ROOT / file, root / file)

    def collect(self, path: Path, *options: str) -> tuple[int, str]:
        """Give the command; its exit status, and what it says on one line."""
        status = main(["--root", str(self.root), "collect", str(path), *options])
        return status, " ".join(self.capsys.readouterr().out.split())

    def there(self) -> dict[str, str]:
        """Return the collected files' contents, by path."""
        place = self.root / "grading" / "submitted"
        files = (path for path in place.rglob("*") if path.is_file())
        return {str(path.relative_to(place)): path.read_text() for path in files}

    def zipped(self, files: dict[str, str | bytes], name: str = "all.zip") -> Path:
        """Pack files."""
        path = self.root / name
        path.write_bytes(packed(files))
        return path

    def roster(self, *lines: str) -> None:
        """Write the roster."""
        (self.root / "grading").mkdir(exist_ok=True)
        (self.root / "grading" / "roster.csv").write_text("\n".join(lines))


def packed(files: dict[str, str | bytes]) -> bytes:
    """An archive."""
    inside = io.BytesIO()
    with zipfile.ZipFile(inside, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return inside.getvalue()
