"""The bank of known answers: what learners really write, and the verdict each must get.

Each notebook's bank is `solutions/<assignment>/bank.py`, a notebook in jupytext's percent format. A
cell is one answer, placed below the code that the exercise's cell was released with. The line that
starts a cell names the exercise, the score and the diagnoses.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext

from autograder.exercises import find


class BankError(ValueError):
    """An entry of a bank lacks something; the message says which and what."""


@dataclass(frozen=True)
class Known:
    """A known answer.

    Attributes:
        exercise: the id of the exercise it answers.
        title: what kind of answer it is.
        code: what a learner would write into the exercise's cell.
        score: what must come back, from 0 to 1.
        diagnoses: the names of what is wrong with it.
        naive: whether it computes the right values, and leaves alone what the exercise is about.
        near: the names of what could be thought to be wrong with it, and is not.
    """

    exercise: str
    title: str
    code: str
    score: float
    diagnoses: tuple[str, ...]
    naive: bool = False
    near: tuple[str, ...] = ()


def load(path: Path) -> list[Known]:
    """Read one notebook's bank.

    Raises:
        BankError: an entry is not whole.
    """
    return [
        _known(cell, path)
        for cell in jupytext.read(path, fmt="py:percent").cells
        if cell.cell_type == "code"
    ]


def _known(cell: Any, path: Path) -> Known:
    about = cell.metadata
    title = about.get("title", "an entry without a title")
    missing = [key for key in ("exercise", "score") if key not in about]
    if missing:
        raise BankError(f"{path}: {title!r} lacks {' and '.join(missing)}.")
    find(str(about["exercise"]))
    return Known(
        str(about["exercise"]),
        title,
        cell.source,
        float(about["score"]),
        tuple(about.get("diagnoses", ())),
        bool(about.get("naive", False)),
        tuple(about.get("near", ())),
    )
