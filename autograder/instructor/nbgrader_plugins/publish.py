"""From a notebook with solutions to the one that students open."""

import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode


class Publish(NbGraderPreprocessor):
    """Write the repository's address into a notebook, and unpair it from its text twin."""

    pyproject = Unicode("pyproject.toml", help="Where the repository's address stands.").tag(
        config=True
    )

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Replace `{{repository}}` and `{{repository_name}}` in every cell."""
        nb.metadata.pop("jupytext", None)
        if any("{{repository" in cell.source for cell in nb.cells):  # a course need not have one
            address = repository(Path(self.pyproject))
            for cell in nb.cells:
                named = cell.source.replace("{{repository}}", address)
                cell.source = named.replace("{{repository_name}}", urlparse(address).path[1:])
        return nb, resources


def repository(pyproject: Path) -> str:
    """The address of the course's repository, from `pyproject.toml`."""
    address: str = tomllib.loads(pyproject.read_text())["project"]["urls"]["Repository"]
    return address.removesuffix("/")
