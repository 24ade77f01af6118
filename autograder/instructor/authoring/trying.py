"""`make try FILE=…`: show the verdict on an answer before it goes into a bank.

A notebook's cells run in a namespace of their own, without a kernel and without a sandbox: only for
answers that you wrote yourself.
"""

import copy
import io
import json
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jupytext
import nbformat
from rich.console import Console

from autograder.devices import emulate_devices
from autograder.evidence import Evidence, capture
from autograder.exercises import NOTEBOOKS, find
from autograder.instructor.authoring.exercise_stubs import cell_of, get_grade_id, remove_solution
from autograder.judge import Verdict, judge, verdict_for_terminal


class CellError(RuntimeError):
    """A cell of the notebook itself raises; the message says which, and what."""


@dataclass(frozen=True)
class Trial:
    """The outcome of trying an answer.

    Attributes:
        verdict: what `check` says to it.
        evidence: what would be handed in.
        raised: the error that the answer's cell ended in, if it did.
    """

    verdict: Verdict
    evidence: Evidence
    raised: Exception | None


@dataclass(frozen=True)
class Sitting:
    """A notebook with nothing filled in, and all its cells run but those of exercises.

    Attributes:
        notebook: as nbformat reads it.
        names: what its cells have defined.
    """

    notebook: Any
    names: dict[str, Any]

    @classmethod
    def at(cls, path: Path) -> "Sitting":
        """Run what a notebook shows, released or with its solutions, up to its end.

        Raises:
            CellError: a cell that learners are only to run raises an error.
        """
        notebook = nbformat.read(path, 4)
        names: dict[str, Any] = {"__name__": "__main__"}
        for cell in notebook.cells:
            cell.source = remove_solution(cell.source)
            if cell.cell_type == "code" and not get_grade_id(cell) and "%pip" not in cell.source:
                try:
                    exec(compile(cell.source, f"<{cell.id}>", "exec"), names)
                except Exception as error:
                    raise CellError(
                        f"The cell {cell.id!r} of {path.name} raised {type(error).__name__}: "
                        f"{error} Nothing can be tried before that cell runs."
                    ) from error
        return cls(notebook, names)

    def answer(self, exercise_id: str, code: str, seed: int) -> Trial:
        """Try code placed below the code that the exercise's cell was released with.

        Args:
            exercise_id: the exercise that it answers.
            code: what a learner would write.
            seed: what cases and inputs are drawn from.

        Raises:
            NoSolutionError: the notebook has no cell for the exercise.
        """
        exercise, names = find(exercise_id), dict(self.names)
        source = f"{cell_of(self.notebook, exercise_id).source}\n{code}"
        checked = next(c for c in self.notebook.cells if get_grade_id(c) == exercise.grade_id)
        handed_in: list[Evidence] = []

        def check(_: str, *answer: object, **answers: object) -> None:
            named = answers or dict(zip(exercise.answers, answer, strict=True))
            handed_in.append(capture(exercise.plan(seed), named))

        raised = None
        try:
            exec(compile(source, f"<{exercise_id}>", "exec"), names)
        except Exception as error:  # as in a notebook: the next cell runs all the same
            raised = error
        exec(checked.source, {**names, "check": check})
        return Trial(judge(exercise, handed_in[0], seed), handed_in[0], raised)


def answered(notebook: Any, answers: dict[str, str]) -> Any:
    """A released notebook with its cells filled in, as a learner would: below what is there.

    Args:
        notebook: as nbformat reads it.
        answers: code by exercise id; those that the notebook has no cell for are left out.
    """
    filled = copy.deepcopy(notebook)
    names = {f"ex-{i.replace('.', '-')}": code for i, code in answers.items()}
    for cell in filled.cells:
        if get_grade_id(cell) in names:
            cell.source = f"{cell.source}\n{names[get_grade_id(cell)]}"
    return filled


SEED: Final = 20260101
"""What cases are drawn from, so that to try twice is to see the same."""

SCORE_TOLERANCE: Final = 1e-3
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


def _tell(console: Console, title: str, exercise_id: str, tried: Trial) -> None:
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
        or abs(verdict.score - float(about["score"])) > SCORE_TOLERANCE
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
