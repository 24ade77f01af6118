"""Calibration: the grader's test of itself, before it grades an assignment.

In: a course's configuration and an assignment. Out: nothing, or why the grader cannot be trusted
with it.

The assignment is released into a small course of its own, with its own gradebook. There its
solution is graded as any submission is, and has to earn every point; the released notebook has to
earn none; and no cell of either may end in an error. This happens once for each state of notebooks,
package, configuration and environment.

It also searches the sandbox for answers that a kernel could read. Copies of a course are hidden by
name and place (`sandbox/sandbox.py`); copies under any other name are found here, by their content.
"""

import copy
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import nbformat
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.exercises import BY_GRADE_ID, NOTEBOOKS
from autograder.instructor.course import NAMESPACE, reason
from autograder.instructor.pipeline import (
    Calibration,
    Record,
    State,
    facts_of,
    fingerprint_assignment,
    grade,
    keep_compiled,
    memory,
    remembered,
    submission_in,
    write_anew,
)
from autograder.instructor.sandbox import ExposedError, Sandbox, has_bubblewrap, sandbox_environment

MAX_SEARCHED_BYTES: Final = 2**19
"""Larger files are machine code or data."""

SEARCH_SECONDS: Final = 300
"""Time limit; a search takes a second or two."""

SEARCH: Final = f"""
import json, os, stat, sys
asked = json.load(sys.stdin)
words = [word.encode() for word in asked["words"]]
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [each for each in folders if each not in ("proc", "sys", "dev")]
    for name in files:
        if not name.endswith((".py", ".ipynb", ".md", ".txt", ".json")):
            continue
        path = os.path.join(folder, name)
        try:
            about = os.lstat(path)
            if stat.S_ISREG(about.st_mode) and about.st_size <= {MAX_SEARCHED_BYTES}:
                with open(path, "rb") as file:
                    text = file.read()
                solved = name == asked["notebook"] and b"BEGIN SOLUTION" in text
                if solved or any(word in text for word in words):
                    print(path)
        except OSError:
            pass
"""
"""The search, run in the sandbox by a Python without this package."""


def answers_in_reach(config: Config, assignment: str) -> list[str]:
    """The files in which a kernel could look up what is right in an assignment.

    Args:
        config: the configuration that submissions are graded by.
        assignment: its name.

    Raises:
        ExposedError: what is to be hidden cannot be.
        CalledProcessError: the search failed.
        TimeoutExpired: it took too long.
    """
    if not has_bubblewrap():
        return []  # without a sandbox, a submission can read every file
    asked = {"words": _words(assignment), "notebook": f"{assignment}.ipynb"}
    with tempfile.TemporaryDirectory() as nothing:
        done = subprocess.run(
            Sandbox(config=config).command(
                [sys.executable, "-I", "-S", "-c", SEARCH],
                sandbox_environment(),
                packages=Path(nothing),
            ),
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=SEARCH_SECONDS,
            check=True,
        )
    return done.stdout.splitlines()


def _words(assignment: str) -> list[str]:
    """Words that stand where an assignment's exercises are written, and nowhere else.

    They are the beginnings of hints: short enough to stand on one line of a program.
    """
    hints = (exercise.hints[0] for exercise in NOTEBOOKS.get(assignment, ()) if exercise.hints)
    return [hint[:30] for hint in hints if len(hint) >= 30 and hint[:30].isascii()]


SOLUTION: Final = "solution"
RELEASED: Final = "released"

LOG: Final = logging.getLogger("shardlings.calibration")
"""nbgrader's log of a trial, which is read and not shown, because it is nobody's submission."""

LOG.propagate = False
LOG.addHandler(logging.NullHandler())  # else Python writes warnings to the terminal all the same


class TrialError(RuntimeError):
    """A notebook could not be graded at all."""


@dataclass(frozen=True)
class GradedExample:
    """How a notebook of an assignment's own did.

    Attributes:
        scores: of each cell that is graded without anybody's help, its score and its points.
        error: the first error that a cell ended in, and which cell; empty where none did.
        seconds: how long grading it took in all.
        cells: how long each of its code cells ran, by notebook.
        notebooks: where it lies, graded, in the course.
    """

    scores: dict[str, tuple[float, float]]
    error: str
    seconds: float
    cells: dict[str, list[float]]
    notebooks: list[Path]


class Trial:
    """A course in which an assignment's own notebooks are handed in.

    Args:
        coursedir: the course that they are from.
        config: its configuration.
        assignment: which.
        folder: where to make this one; what lies there is removed.

    Attributes:
        compiled: where what is compiled meanwhile is written down.
    """

    def __init__(self, coursedir: Any, config: Config, assignment: str, folder: Path) -> None:
        self.real, self.assignment, self.folder = coursedir, assignment, folder
        config = copy.deepcopy(config)
        config.CourseDirectory = Config(self._settings())
        config.CarefulAutograde.calibrate = False  # this is how it is done
        self.compiled = folder / "compiled"
        config.Sandbox.compiled = str(self.compiled)
        self.coursedir = CourseDirectory(config=config)
        self.api = NbGraderAPI(self.coursedir, config=config, log=LOG)

    def _settings(self) -> dict[str, Any]:
        """The real course's settings, with other places to write to."""
        real = self.real
        kept = {name: getattr(real, name) for name in real.trait_names(config=True)}
        within = self.folder.relative_to(real.root)
        return {
            **kept,
            "db_url": f"sqlite:///{self.folder / 'gradebook.db'}",
            "release_directory": str(within / "release"),
            "student_id": "*",
            "student_id_exclude": "",
            "notebook_id": "*",
        }

    def run(self) -> tuple[GradedExample, GradedExample]:
        """Grade the solution, and the released notebook.

        Raises:
            TrialError: one of them could not be graded; the message says which, and why.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        made = self.api.generate_assignment(self.assignment, force=True, create=True)
        if not made["success"]:
            raise TrialError(f"The solution cannot be released: {reason(made)}")
        # what a submission's kernel finds compiled is to have nothing of the solution in it
        self.api.config.Sandbox.filled_by = ["judges"]
        solution = self._graded(SOLUTION, self.real.source_directory)
        self.api.config.Sandbox.filled_by = ["kernels", "judges"]
        return solution, self._graded(RELEASED, self.real.release_directory)

    def _graded(self, student: str, directory: str) -> GradedExample:
        """Grade what a directory of the real course has for the assignment."""
        source = Path(self.real.format_path(directory, ".", self.assignment))
        if not source.is_dir():
            raise TrialError(f"There is no folder {source.relative_to(self.real.root)}.")
        facts = facts_of(self.coursedir, self.api.config, self.assignment)
        there = [name for name in facts.seconds if (source / f"{name}.ipynb").exists()]
        handed_in = submission_in(source, student, self.assignment, there, self.real.ignore)
        began = time.monotonic()
        done = grade(handed_in, facts)
        seconds = round(time.monotonic() - began, 3)
        if done.record.state is not State.GRADED:
            why = done.record.why.removeprefix("grading failed. ")
            raise TrialError(f"The {student} notebook cannot be graded: {why}")
        folder = self.folder / "autograded" / student / self.assignment
        folder.mkdir(parents=True)
        for name, text in done.notebooks.items():
            write_anew(folder / f"{name}.ipynb", text.encode())
        notebooks = {
            f"{name}.ipynb": nbformat.reads(text, 4) for name, text in done.notebooks.items()
        }
        return GradedExample(
            scores=dict(_scores(done.record, notebooks.values())),
            error=next((e for n in notebooks.values() for e in _errors(n, student)), ""),
            seconds=seconds,
            cells={name: _seconds(notebook) for name, notebook in notebooks.items()},
            notebooks=[(folder / name).relative_to(self.real.root) for name in notebooks],
        )


def _scores(record: Record, notebooks: Iterable[Any]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Scores and points of the cells that are graded by running them, by name."""
    found = {
        name: score for each in record.notebooks.values() for name, score in each.scores.items()
    }
    for cell in (cell for notebook in notebooks for cell in notebook.cells):
        about = cell.metadata.get("nbgrader", {})
        if about.get("grade") and cell.cell_type == "code" and not about.get("solution"):
            yield about["grade_id"], (found[about["grade_id"]] or 0.0, about["points"])


def _errors(notebook: Any, student: str) -> Iterator[str]:
    """What cells ended in that are not graded by it, nor left to be filled in by others."""
    asked = [cell for cell in notebook.cells if _name(cell)]
    if student == RELEASED and not all(map(_is_ours, asked)):
        return  # what others leave to be filled in may raise, and so may what rests on it
    for number, cell in enumerate(notebook.cells, 1):
        expected = "raises-exception" in cell.metadata.get("tags", [])
        if expected or cell.metadata.get("nbgrader", {}).get("grade"):
            continue
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                said = f"{output.ename}: {output.evalue}".splitlines()[0][:200]
                yield f"“{said}”, in cell {number}"


def _name(cell: Any) -> str:
    """Return nbgrader's name for a cell that is graded or to be filled in."""
    about = cell.metadata.get("nbgrader", {})
    return about.get("grade_id", "") if about.get("grade") or about.get("solution") else ""


def _is_ours(cell: Any) -> bool:
    return bool({_name(cell), f"{_name(cell)}-check"} & BY_GRADE_ID.keys())


def _seconds(notebook: Any) -> list[float]:
    """How long each code cell ran that was run by `CaptureEvidence`."""
    took = (cell.metadata.get(NAMESPACE, {}).get("seconds") for cell in notebook.cells)
    return [seconds for seconds in took if seconds is not None]


ALMOST: Final = 1e-6
"""How far from all of its points a score may be that is a sum of parts."""

MAX_NAMED_FILES: Final = 3


class CalibrationError(RuntimeError):
    """The grader fails its own test; the message says at what, and how to see why."""


def calibrate(
    coursedir: Any, config: Config, assignment: str, announce: Callable[[], None] = lambda: None
) -> None:
    """See that the solution gets every point here, and the released notebook none.

    What was passed is remembered in `grading/calibration/`, and the graded notebooks are kept
    there; what they compiled is kept in `grading/cache/`. What was failed is tried again.

    Args:
        coursedir: nbgrader's `CourseDirectory` of the course.
        config: the configuration that submissions are graded by.
        assignment: its name.
        announce: what to do where it is not remembered, before it begins: it takes a while.

    Raises:
        CalibrationError: it is not so.
    """
    if config.CarefulAutograde.get("calibrate") is False:
        return
    file = memory(Path(coursedir.root), assignment)
    state, last = fingerprint_assignment(coursedir, config, assignment), remembered(file)
    if last is not None and last.fingerprint == state:
        return
    announce()
    try:
        exposed = answers_in_reach(config, assignment)
        if exposed:
            raise CalibrationError(_exposed(assignment, exposed))
        trial = Trial(coursedir, config, assignment, file.with_suffix(""))
        solution, released = trial.run()
    except CalibrationError:
        raise
    except (TrialError, ExposedError) as error:
        raise _refused(assignment, str(error)) from None
    except Exception as error:  # whatever it is, it would have been everybody's
        raise _refused(assignment, f"{type(error).__name__}: {error}") from error
    troubles = list(_of_solution(solution)) or list(_of_released(released))
    if troubles:
        raise _refused(assignment, " ".join(troubles))
    keep_compiled(trial.compiled, Path(coursedir.root), assignment, state)
    file.write_bytes(msgspec.json.encode(Calibration(state, solution.seconds, solution.cells)))


def _of_solution(graded: GradedExample) -> Iterator[str]:
    """What is wrong with how the solution did, in sentences."""
    short = {name: (s, p) for name, (s, p) in graded.scores.items() if s < p - ALMOST}
    if short:
        yield f"The solution does not get full marks: it gets {_listed(short)}."
    yield from _of_error(graded, "solution")
    if short or graded.error:
        yield _where(graded)


def _of_released(graded: GradedExample) -> Iterator[str]:
    """What is wrong with how the released notebook did, with nothing filled in."""
    given = {
        name: (score, points)
        for name, (score, points) in graded.scores.items()
        if name in BY_GRADE_ID and score > 0  # what others ask may be right as it stands
    }
    if given:
        yield f"The released notebook, with nothing filled in, gets {_listed(given)}."
    yield from _of_error(graded, "released notebook")
    if given or graded.error:
        yield _where(graded)


def _of_error(graded: GradedExample, which: str) -> Iterator[str]:
    if graded.error:
        yield f"The first error in the {which} is {graded.error}."


def _listed(scores: dict[str, tuple[float, float]]) -> str:
    """Scores in words: those of the course's exercises by number, others by their cells' names."""
    called = {name: BY_GRADE_ID[name].id if name in BY_GRADE_ID else name for name in scores}
    return ", ".join(
        f"{score:g} of {points:g} for {called[name]}" for name, (score, points) in scores.items()
    )


def _where(graded: GradedExample) -> str:
    return f"To see why, open {', '.join(map(str, graded.notebooks))}."


def _exposed(assignment: str, files: list[str]) -> str:
    return (
        f"Nothing of {assignment} is graded, because what is right in it can be read where "
        f"submissions run, in "
        f"{', '.join(files[:MAX_NAMED_FILES])}{' and others' * (len(files) > MAX_NAMED_FILES)}. "
        f"Kernels see all of Python's folders: remove the copy, or grade from a virtual "
        f"environment that has none."
    )


def _refused(assignment: str, why: str) -> CalibrationError:
    return CalibrationError(
        f"Nothing of {assignment} is graded, because grading does not get the course's own "
        f"notebooks right here, so it would wrong the students too. {why}"
    )
