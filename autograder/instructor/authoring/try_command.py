"""`make try FILE=…`: what comes back for an answer, before it stands in a bank."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import jupytext
from rich.console import Console

from autograder.devices import emulate_devices
from autograder.exercises import NOTEBOOKS, find
from autograder.instructor.authoring.answer_runner import Sitting, Tried
from autograder.judge import Verdict, verdict_for_terminal

SEED: Final = 20260101
"""What cases are drawn from, so that to try twice is to see the same."""

ALMOST: Final = 1e-3
"""How far a score may be from what a bank says: it writes thirds with a few digits."""


class NothingToTryError(ValueError):
    """A file holds no answer that could be tried; the message says why."""


def try_answers(root: Path, console: Console, path: Path, exercise_id: str = "") -> int:
    """Show the verdict on each answer in a file, pictures too, and the bank's line for it.

    Args:
        root: the course's folder.
        console: what to write on.
        path: a file as a bank is one, or with the code of one answer and nothing else.
        exercise_id: the exercise that is answered where the file does not say so.

    Returns:
        The exit status: 1 where the file says of an answer what does not come back.

    Raises:
        NothingToTryError: there is no answer in the file, or nothing says to which exercise.
        UnknownExerciseError: there is no such exercise.
        CellError: a cell of the notebook itself raises.
    """
    emulate_devices(8)
    sittings: dict[str, Sitting] = {}
    claims = []
    for about, code in _answers(path):
        mine = str(about.get("exercise", exercise_id))
        if not mine:
            raise NothingToTryError(
                f"Nothing says which exercise {path} answers: add ID=1.1, or start the file with "
                f'a line such as  # %% rows exercise="1.1"'
            )
        find(mine)
        notebook = next(n for n, asked in NOTEBOOKS.items() if mine in {e.id for e in asked})
        if notebook not in sittings:
            place = root / "solutions" / notebook / f"{notebook}.ipynb"
            with redirect_stdout(io.StringIO()):  # what the notebook shows is not asked for
                sittings[notebook] = Sitting.at(place)
        tried = sittings[notebook].answer(mine, code, SEED)
        _tell(console, str(about.get("title", path.stem)), mine, tried)
        if "score" in about:
            claims.append((about, tried.verdict))
    return _compare(console, claims)


def _answers(path: Path) -> list[tuple[dict[str, Any], str]]:
    """The answers in a file: what is said of each, and its code."""
    try:
        notebook = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent")
    except (OSError, UnicodeDecodeError) as error:
        raise NothingToTryError(f"{path} cannot be read: {error}") from None
    cells = [c for c in notebook.cells if c.cell_type == "code" and c.source.strip()]
    if not cells:
        raise NothingToTryError(f"There is no code in {path}.")
    return [(dict(cell.metadata), cell.source) for cell in cells]


def _tell(console: Console, title: str, exercise_id: str, tried: Tried) -> None:
    """Show one verdict."""
    console.rule(title, align="left")
    if tried.raised is not None:
        said = f"The cell raised {type(tried.raised).__name__}: {tried.raised}"
        console.print(said, markup=False, highlight=False)
    console.print(verdict_for_terminal(tried.verdict))
    if tried.verdict.fault is None:
        line = f'# %% {title} exercise="{exercise_id}" {_in_the_bank(tried.verdict)}'
        console.print(f"\nIn the bank: {line}", markup=False, highlight=False, soft_wrap=True)


def _in_the_bank(verdict: Verdict) -> str:
    """A verdict as the line of an entry says it."""
    diagnoses = f" diagnoses={json.dumps(list(verdict.diagnoses))}" * bool(verdict.diagnoses)
    return f"score={round(verdict.score, 4):g}{diagnoses}"


def _compare(console: Console, claims: list[tuple[dict[str, Any], Verdict]]) -> int:
    """Say which answers come back otherwise than the file says; 1 where any does."""
    wrong = [
        (about, verdict)
        for about, verdict in claims
        if verdict.fault is not None
        or abs(verdict.score - float(about["score"])) > ALMOST
        or verdict.diagnoses != tuple(about.get("diagnoses", ()))
    ]
    for about, verdict in wrong:
        came = "no verdict" if verdict.fault is not None else _in_the_bank(verdict)
        said = f"{about.get('title')}: the bank says otherwise. What comes back: {came}"
        console.print(said, markup=False, highlight=False, soft_wrap=True)
    if claims and not wrong:
        number = "The answer comes" if len(claims) == 1 else f"All {len(claims)} answers come"
        console.print(f"\n{number} back as the bank says.", highlight=False)
    return 1 if wrong else 0
