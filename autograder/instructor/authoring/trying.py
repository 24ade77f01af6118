"""`make try FILE=…`: show the verdict on an answer before it goes into a bank.

A notebook's cells run in this process, without a kernel and without a sandbox, so this is only for
answers that you wrote yourself.
"""

import copy
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
from rich.console import Console

from autograder.evidence import Evidence, begin_cell, capture, end_cell
from autograder.exercises import NOTEBOOKS, find
from autograder.instructor.authoring import bank
from autograder.instructor.authoring.exercise_stubs import find_cell, get_grade_id, remove_solution
from autograder.judge import Verdict, judge, name_cell, verdict_for_terminal
from shardlings.devices import emulate_devices
from shardlings.errors import ShortError


class CellError(ShortError, RuntimeError):
    """A cell of the notebook itself raises an error; the message says which cell and error."""


class NothingToTryError(ShortError, ValueError):
    """A file has no answer that could be tried; the message says why."""


@dataclass(frozen=True)
class TriedAnswer:
    """The outcome of trying an answer.

    Attributes:
        verdict: the verdict that `check` shows.
        evidence: the evidence that grading would judge.
        raised: the error that the answer's cell raised, if it did.
    """

    verdict: Verdict
    evidence: Evidence
    raised: Exception | SystemExit | None


@dataclass(frozen=True)
class NotebookSession:
    """A notebook without solutions whose cells have run, except for its checks.

    Attributes:
        notebook: the notebook, as nbformat reads it.
        names: the namespace of its cells.
        given: what the namespace had before the cell of each exercise, by the cell's name.
    """

    notebook: Any
    names: dict[str, Any]
    given: dict[str, dict[str, Any]]

    @classmethod
    def at(cls, path: Path) -> "NotebookSession":
        """Run a notebook's cells, except for its checks, as a learner without answers does.

        Args:
            path: the notebook, released or with its solutions, which are removed.

        Raises:
            CellError: a cell raises an error.
        """
        notebook = nbformat.read(path, 4)
        names: dict[str, Any] = {"__name__": "__main__"}
        given: dict[str, dict[str, Any]] = {}
        for cell in notebook.cells:
            cell.source = remove_solution(cell.source)
            if cell.cell_type == "code" and not _is_check(cell) and "%pip" not in cell.source:
                if name := get_grade_id(cell):
                    given[name] = dict(names)
                try:
                    exec(compile(cell.source, f"<{cell.id}>", "exec"), names)
                except Exception as error:
                    raise CellError(
                        f"The cell {cell.id!r} of {path.name} raised {type(error).__name__}: "
                        f"{error} Nothing can be tried before that cell runs."
                    ) from error
                if name:  # unanswered, it replaces what later cells use
                    names.update(given[name])
        return cls(notebook, names, given)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Undo changes to the notebook's names, dicts and lists afterwards, for the next answer.

        A copy would not do: the notebook's functions read the originals, as in a class.
        """
        own = [self.names]
        for names in (self.names, *self.given.values()):
            own += [value for name, value in names.items() if name != "__builtins__"]
        before = [(each, each.copy()) for each in own if isinstance(each, dict | list)]
        try:
            yield
        finally:
            for each, content in before:
                each.clear()
                each.update(content) if isinstance(each, dict) else each.extend(content)

    def answer(self, exercise_id: str, code: str, seed: int) -> TriedAnswer:
        """Try an answer, placed below the code that the exercise's cell was released with.

        Args:
            exercise_id: the exercise.
            code: the code that a learner would write.
            seed: the seed for cases and inputs.

        Raises:
            NoSolutionError: the notebook has no cell for the exercise.
            NothingToTryError: the code is not Python.
        """
        exercise = find(exercise_id)
        cell = find_cell(self.notebook, exercise_id)
        source = f"{cell.source}\n{code}"
        check_cell = next(c for c in self.notebook.cells if get_grade_id(c) == exercise.grade_id)
        captured: list[Evidence] = []

        def check(_: str, *answer: object, **answers: object) -> None:
            named = answers or dict(zip(exercise.answers, answer, strict=True))
            captured.append(capture(exercise.plan(seed), named))

        try:
            code_of_cell = compile(source, f"<{exercise_id}>", "exec")
        except SyntaxError as error:
            raise NothingToTryError(
                f"The cell of {exercise_id} cannot run, so it makes nothing to check. "
                f"{type(error).__name__}: {error}."
            ) from error
        raised = None
        with self.restored():
            self.names.clear()  # a class runs cells in order, so later ones have defined nothing
            self.names.update(self.given[get_grade_id(cell)])
            begin_cell(source, self.names)
            try:
                exec(code_of_cell, self.names)
            # as in a notebook: the next cell runs all the same
            except (Exception, SystemExit) as error:
                raised = error
            end_cell(source, self.names, raised)
            exec(check_cell.source, {**self.names, "check": check})
            end_cell(source, self.names, None)  # the next answer stands in a notebook of its own
        return TriedAnswer(judge(exercise, captured[0], seed), captured[0], raised)


def _is_check(cell: Any) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("grade"))


def fill_in_answers(notebook: Any, answers: dict[str, str]) -> Any:
    """Return a copy of a released notebook with answers below the code that its cells have.

    Args:
        notebook: the notebook, as nbformat reads it.
        answers: the code by exercise id. Answers without a cell in the notebook are left out.
    """
    filled = copy.deepcopy(notebook)
    names = {name_cell(i): code for i, code in answers.items()}
    for cell in filled.cells:
        if get_grade_id(cell) in names:
            cell.source = f"{cell.source}\n{names[get_grade_id(cell)]}"
    return filled


SEED: Final = 20260101
"""The seed for `make try`, fixed so that repeated runs use the same cases."""


def try_answers(root: Path, console: Console, path: Path, exercise_id: str = "") -> int:
    """Show the verdict on each answer in a file, with pictures, and the line that a bank needs.

    Args:
        root: the course's folder.
        console: where output is printed.
        path: a file in a bank's format, or with the code of one answer and nothing else.
        exercise_id: the exercise, for answers for which the file does not name one.

    Returns:
        The exit status: 1 if the verdict on an answer differs from the file's, else 0.

    Raises:
        NothingToTryError: there is no answer in the file, or the exercise is not known.
        UnknownExerciseError: there is no such exercise.
        CellError: a cell of the notebook itself raises an error.
    """
    emulate_devices(8)
    sessions: dict[str, NotebookSession] = {}
    claims = []
    for cell in _read_answers(path):
        answered_id = str(cell.metadata.setdefault("exercise", exercise_id))
        if not answered_id:
            raise NothingToTryError(
                f"Nothing says which exercise {path} answers: add ID=1.1, or start the file with "
                f'a line such as  # %% rows exercise="1.1"'
            )
        find(answered_id)
        notebook = next(n for n, es in NOTEBOOKS.items() if answered_id in {e.id for e in es})
        if notebook not in sessions:
            notebook_path = root / "solutions" / notebook / f"{notebook}.ipynb"
            with redirect_stdout(io.StringIO()):  # the output of the notebook's own cells
                sessions[notebook] = NotebookSession.at(notebook_path)
        tried = sessions[notebook].answer(answered_id, cell.source, SEED)
        _show(console, str(cell.metadata.get("title", path.stem)), answered_id, tried)
        if "score" in cell.metadata:
            claims.append((bank.read_entry(cell, path), tried.verdict))
    return _compare(console, claims)


def _read_answers(path: Path) -> list[Any]:
    """Read the answers in a file: jupytext's cell of each."""
    import jupytext  # takes a third of a second, and grading a class needs it nowhere

    try:
        notebook = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent")
    except (OSError, UnicodeDecodeError) as error:
        raise NothingToTryError(f"{path} cannot be read: {error}") from None
    cells = [c for c in notebook.cells if c.cell_type == "code" and c.source.strip()]
    if not cells:
        raise NothingToTryError(f"There is no code in {path}.")
    return cells


def _show(console: Console, title: str, exercise_id: str, tried: TriedAnswer) -> None:
    console.rule(title, align="left")
    if tried.raised is not None:
        sentence = f"The cell raised {type(tried.raised).__name__}: {tried.raised}"
        console.print(sentence, markup=False, highlight=False)
    console.print(verdict_for_terminal(tried.verdict))
    if tried.verdict.fault is None:
        line = f'# %% {title} exercise="{exercise_id}" {_bank_metadata(tried.verdict)}'
        console.print(f"\nIn the bank: {line}", markup=False, highlight=False, soft_wrap=True)


def _bank_metadata(verdict: Verdict) -> str:
    """Write a verdict as in the line of a bank's entry."""
    diagnoses = f" diagnoses={json.dumps(list(verdict.diagnoses))}" * bool(verdict.diagnoses)
    return f"score={round(verdict.score, 4):g}{diagnoses}"


def _compare(console: Console, claims: list[tuple[bank.KnownAnswer, Verdict]]) -> int:
    """Print which verdicts differ from the file's, and return the exit status: 1 if any does."""
    wrong = [(entry, verdict) for entry, verdict in claims if not entry.agrees_with(verdict)]
    for entry, verdict in wrong:
        actual = "no verdict" if verdict.fault is not None else _bank_metadata(verdict)
        sentence = f"{entry.title}: the bank says otherwise. What comes back: {actual}"
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    if claims and not wrong:
        number = "The answer comes" if len(claims) == 1 else f"All {len(claims)} answers come"
        console.print(f"\n{number} back as the bank says.", highlight=False)
    return 1 if wrong else 0
