"""The bank of known answers: code that learners really write, and the verdict it must get.

Each notebook's bank is `solutions/<assignment>/bank.py`, a notebook in jupytext's percent format.
Each cell is one answer, placed below the code that the exercise's cell was released with. The line
that starts a cell names the exercise, the score and the diagnoses.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from autograder.exercises import find
from autograder.judge import Verdict

SCORE_TOLERANCE: Final = 1e-3
"""The difference allowed from an entry's score, which writes thirds with a few digits."""


class BankError(ValueError):
    """An entry of a bank lacks something; the message says which and what."""


@dataclass(frozen=True)
class KnownAnswer:
    """An entry of a bank.

    Attributes:
        exercise: the id of the exercise.
        title: what kind of answer it is.
        code: the code that a learner would write into the exercise's cell.
        score: the score that it must get, from 0 to 1.
        diagnoses: the diagnoses that it must get.
        naive: whether it computes the right values without doing what the exercise is about.
        near: diagnoses that it could be mistaken for, and must not get.
    """

    exercise: str
    title: str
    code: str
    score: float
    diagnoses: tuple[str, ...]
    naive: bool = False
    near: tuple[str, ...] = ()

    def agrees_with(self, verdict: Verdict) -> bool:
        """Check whether a verdict has the score and the diagnoses that the answer must get."""
        return (
            verdict.fault is None
            and verdict.diagnoses == self.diagnoses
            and abs(verdict.score - self.score) <= SCORE_TOLERANCE
        )


def load(path: Path) -> list[KnownAnswer]:
    """Read one notebook's bank.

    Raises:
        BankError: an entry has no exercise or no score.
    """
    import jupytext  # takes a third of a second, and grading a class needs it nowhere

    return [
        read_entry(cell, path)
        for cell in jupytext.read(path, fmt="py:percent").cells
        if cell.cell_type == "code"
    ]


def read_entry(cell: Any, path: Path) -> KnownAnswer:
    """Read one entry, a cell of jupytext's notebook of the file.

    Raises:
        BankError: the entry has no exercise or no score.
    """
    metadata = cell.metadata
    title = metadata.get("title", "an entry without a title")
    missing = [key for key in ("exercise", "score") if key not in metadata]
    if missing:
        raise BankError(f"{path}: {title!r} lacks {' and '.join(missing)}.")
    find(str(metadata["exercise"]))  # raises an error if there is no such exercise
    return KnownAnswer(
        str(metadata["exercise"]),
        title,
        cell.source,
        float(metadata["score"]),
        tuple(metadata.get("diagnoses", ())),
        bool(metadata.get("naive", False)),
        tuple(metadata.get("near", ())),
    )
