"""The verdicts on a graded notebook, kept beside it: whoever shows them has nothing to judge."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from autograder.judge import Verdict

ENDING: Final = ".verdicts.json"
"""How the name of a file with verdicts ends, after its notebook's."""


def keep_verdicts(folder: Path, notebook: str, verdicts: Iterable[Verdict]) -> None:
    """Keep the verdicts on a notebook, in place of all that were kept before.

    Args:
        folder: where the graded notebook is.
        notebook: its name, without an ending.
        verdicts: one for each of its exercises.
    """
    path = folder / f"{notebook}{ENDING}"
    written = msgspec.json.encode(sorted(verdicts, key=lambda verdict: verdict.exercise))
    if path.exists() and path.read_bytes() == written:
        return
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(written)
    new.replace(path)  # whoever reads it finds the old ones, or all of the new ones


def kept_verdicts(folder: Path, notebook: str) -> dict[str, Verdict]:
    """The verdicts that are kept on a notebook, by the ids of their exercises.

    Args:
        folder: where the graded notebook is.
        notebook: its name, without an ending.

    Returns:
        Nothing, where it was graded by a version that kept none, or by one that wrote others.
    """
    try:
        written = (folder / f"{notebook}{ENDING}").read_bytes()
        verdicts = msgspec.json.decode(written, type=tuple[Verdict, ...])
    except (OSError, RecursionError, msgspec.MsgspecError):
        return {}
    return {verdict.exercise: verdict for verdict in verdicts}
