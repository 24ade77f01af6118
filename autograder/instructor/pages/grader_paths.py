"""Where the grader's files lie is nobody's business: paths in what a cell said begin with `…`."""

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

import autograder

PATH: Final = re.compile(r"(?<![\w.…])(?:[A-Za-z]:)?[/\\][^\s\"'`<>|:;,()\[\]]+")
"""What may be an absolute path."""

INSTALLED: Final = re.compile(r".*(?:(?:site|dist)-packages|lib[/\\]python3[^/\\]*)(?=[/\\])")
"""How a path begins that leads to Python's own modules, or to installed ones, on any machine."""

LEAST: Final = 2
"""How many folders a place has at least that is the grader's own; `/` and `/tmp` are anybody's."""


def _own() -> tuple[str, ...]:
    """The grader's own folders, the longest first."""
    places = {
        sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path.home()), os.getcwd(),
        str(Path(autograder.__file__).parent.parent), tempfile.gettempdir(),
    }  # fmt: skip
    places |= {os.path.realpath(place) for place in places}
    return tuple(sorted((p for p in places if len(Path(p).parts) > LEAST), key=len, reverse=True))


OWN: Final = _own()


def without_paths(text: str) -> str:
    """Text in which no path says where the grader keeps anything; what a path ends in stays."""
    return PATH.sub(_shortened, text)


def _shortened(found: re.Match[str]) -> str:
    path = found[0]
    installed = INSTALLED.match(path)
    if installed:
        return f"…{path[installed.end() :]}"
    own = next((place for place in OWN if path.startswith(place)), "")
    return f"…{path[len(own) :]}" if own else path
