"""Calibration: the grader's test of itself before it grades an assignment.

`calibrate` raises `CalibrationError` if the grader cannot be trusted with an assignment.

The assignment is released into a temporary course with its own gradebook. There its solution is
graded like any submission, and has to earn every point; the released notebook has to earn none for
the course's own exercises. No cell that runs may end in an error, except tests, and cells of a
released notebook with answers of an instructor's own. All cells of the solution run, and of the
released notebook those that run in a submission. This is repeated only if notebooks, package,
configuration or environment change.

Calibration also searches the sandbox for answers that a kernel could read. The sandbox hides copies
of a course by name and place (`sandbox/hidden_copies.py`); copies under any other name are found
here, by their content.
"""

import copy
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import nbformat
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.exercises import BY_GRADE_ID, NOTEBOOKS
from autograder.instructor.commands import write_atomically
from autograder.instructor.course import NAMESPACE, find_first_exception
from autograder.instructor.pipeline import (
    GRADING_FAILED,
    Calibration,
    Record,
    State,
    begin_compiled,
    calibration_file,
    collect_facts,
    fingerprint_assignment,
    grade,
    keep_compiled,
    read_calibration,
    read_submission,
)
from autograder.instructor.sandbox import (
    ExposedError,
    Sandbox,
    has_bubblewrap,
    read_sandbox_environment,
)
from shardlings.errors import ShortError

MAX_SEARCHED_BYTES: Final = 2**19
"""Larger files are not searched, because they are machine code or data."""

HINTS: Final = "hints"
"""The word that each file has in which exercises are defined, as they are in this package."""

SEARCH_SECONDS: Final = 300
"""The time limit for a search, which usually takes a second or two."""

SEARCH: Final = f"""
import json, os, stat, sys
words = {{name: [w.encode() for w in asked] for name, asked in json.load(sys.stdin).items()}}
notebooks = {{name + ".ipynb": name for name in words}}
is_for_texts = any(words.values())
for folder, folders, files in os.walk("/"):
    if folder == "/":
        folders[:] = [each for each in folders if each not in ("proc", "sys", "dev")]
    for name in files:
        may_define = is_for_texts and name.endswith((".py", ".ipynb", ".md", ".txt", ".json"))
        if not may_define and name not in notebooks:
            continue
        path = os.path.join(folder, name)
        try:
            about = os.lstat(path)
            if not stat.S_ISREG(about.st_mode) or about.st_size > {MAX_SEARCHED_BYTES}:
                continue
            with open(path, "rb") as file:
                text = file.read()
        except OSError:
            continue
        exposed = {{notebooks[name]}} if name in notebooks and b"BEGIN SOLUTION" in text else set()
        if b"{HINTS}" in text:  # few files have it, and to look for all texts takes long
            exposed |= {{each for each, asked in words.items() if any(w in text for w in asked)}}
        for each in exposed:
            print(json.dumps([each, path]))
"""
"""The search, which a Python without this package runs in the sandbox."""


def find_exposed_answers(config: Config, assignments: Collection[str]) -> dict[str, list[str]]:
    """Return the files in the sandbox in which a kernel could read answers, by assignment.

    Args:
        config: the configuration with which submissions are graded.
        assignments: the names of the assignments. To search for all takes as long as for one.

    Raises:
        ExposedError: a copy of the course cannot be hidden.
        CalledProcessError: the search failed.
        TimeoutExpired: the search took too long.
    """
    exposed: dict[str, list[str]] = {assignment: [] for assignment in assignments}
    if not has_bubblewrap() and not Sandbox(config=config).has_other_user:
        return exposed  # without a sandbox, a submission can read every file
    with tempfile.TemporaryDirectory() as empty_folder:
        finished = subprocess.run(
            Sandbox(config=config).command(
                [sys.executable, "-I", "-S", "-c", SEARCH],
                read_sandbox_environment(),
                packages=Path(empty_folder),
            ),
            input=json.dumps({each: _identifying_texts(each) for each in assignments}),
            capture_output=True,
            text=True,
            timeout=SEARCH_SECONDS,
            check=True,
        )
    for assignment, path in map(json.loads, finished.stdout.splitlines()):
        exposed[assignment].append(path)
    return exposed


def _identifying_texts(assignment: str) -> list[str]:
    """Return text that occurs only where an assignment's exercises are defined.

    It is the beginning of hints, which is short enough not to be split over lines of a program.
    """
    hints = (exercise.hints[0] for exercise in NOTEBOOKS.get(assignment, ()) if exercise.hints)
    return [hint[:30] for hint in hints if len(hint) >= 30 and hint[:30].isascii()]


SOLUTION: Final = "solution"
RELEASED: Final = "released"

LOG: Final = logging.getLogger("shardlings.calibration")
"""nbgrader's log of a trial, which is not shown, because it is about nobody's submission."""

LOG.propagate = False
LOG.addHandler(logging.NullHandler())  # else Python still writes warnings to the terminal


class TrialError(RuntimeError):
    """The solution or the released notebook could not be graded at all."""


@dataclass(frozen=True)
class GradedExample:
    """The graded solution or released notebook of an assignment.

    Attributes:
        scores: the score and the points of each automatically graded cell, by the names of its
            notebook and the cell.
        error: the first error of a cell, with the cell's number; empty if no cell had one.
        seconds: how long grading took.
        cells: how long each code cell ran, in seconds, by notebook.
        notebooks: the paths of the graded notebooks, relative to the course's folder.
    """

    scores: dict[tuple[str, str], tuple[float, float]]
    error: str
    seconds: float
    cells: dict[str, list[float]]
    notebooks: list[Path]


class TrialCourse:
    """A temporary course in which an assignment's solution and released notebook are graded.

    Args:
        coursedir: nbgrader's `CourseDirectory` of the real course.
        config: the real course's configuration.
        assignment: the assignment's name.
        folder: the folder for the temporary course, which is emptied first.

    Attributes:
        compiled: the folder for programs that are compiled meanwhile.
    """

    def __init__(self, coursedir: Any, config: Config, assignment: str, folder: Path) -> None:
        self.real, self.assignment, self.folder = coursedir, assignment, folder
        config = copy.deepcopy(config)
        config.CourseDirectory = Config(self._settings())
        config.LockedAutograde.calibrate = False  # else calibration would calibrate itself
        self.compiled = begin_compiled(Path(coursedir.root), assignment)
        config.Sandbox.compiled = str(self.compiled)
        config.Sandbox.fills_compiled = True
        self.coursedir = CourseDirectory(config=config)
        self.api = NbGraderAPI(self.coursedir, config=config, log=LOG)

    def _settings(self) -> dict[str, Any]:
        """Return the real course's settings, with other folders to write to."""
        coursedir = self.real
        kept = {name: getattr(coursedir, name) for name in coursedir.trait_names(config=True)}
        relative = self.folder.relative_to(coursedir.root)
        return {
            **kept,
            "db_url": f"sqlite:///{self.folder / 'gradebook.db'}",
            "release_directory": str(relative / "release"),
            "student_id": "*",
            "student_id_exclude": "",
            "notebook_id": "*",
        }

    def run(self) -> tuple[GradedExample, GradedExample]:
        """Grade the solution and the released notebook, and return both.

        Raises:
            TrialError: one of them could not be graded; the message says which, and why.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        result = self.api.generate_assignment(self.assignment, force=True, create=True)
        if not result["success"]:
            raise TrialError(f"The solution cannot be released: {find_first_exception(result)}")
        capturing = self.api.config.CaptureEvidence
        as_configured = capturing.get("demonstrations", False)
        capturing.demonstrations = True  # one that fails is found here
        solution = self._grade(SOLUTION, self.real.source_directory)
        capturing.demonstrations = as_configured
        return solution, self._grade(RELEASED, self.real.release_directory)

    def _grade(self, student: str, directory: str) -> GradedExample:
        """Grade the assignment's notebooks in a directory of the real course.

        Args:
            student: the name under which they are graded.
            directory: the directory, as nbgrader's configuration names it.
        """
        source = Path(self.real.format_path(directory, ".", self.assignment))
        if not source.is_dir():
            raise TrialError(f"There is no folder {source.relative_to(self.real.root)}.")
        facts = collect_facts(self.coursedir, self.api.config, self.assignment)
        notebooks_to_grade = [
            name for name in facts.time_limits if (source / f"{name}.ipynb").exists()
        ]
        submission = read_submission(
            source, student, self.assignment, notebooks_to_grade, self.real.ignore
        )
        started = time.monotonic()
        outcome = grade(submission, facts)
        seconds = round(time.monotonic() - started, 3)
        if outcome.record.state is not State.GRADED:
            why = outcome.record.why.removeprefix(GRADING_FAILED)
            raise TrialError(f"The {student} notebook cannot be graded: {why}")
        folder = self.folder / "autograded" / student / self.assignment
        folder.mkdir(parents=True)
        for name, text in outcome.notebooks.items():
            write_atomically(folder / f"{name}.ipynb", text.encode())
        notebooks = {name: nbformat.reads(text, 4) for name, text in outcome.notebooks.items()}
        return GradedExample(
            scores=dict(_read_scores(outcome.record, notebooks)),
            error=next((e for n in notebooks.values() for e in _find_errors(n, student)), ""),
            seconds=seconds,
            cells={f"{name}.ipynb": _read_cell_seconds(n) for name, n in notebooks.items()},
            notebooks=[
                (folder / f"{name}.ipynb").relative_to(self.real.root) for name in notebooks
            ],
        )


def _read_scores(
    record: Record, notebooks: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, str], tuple[float, float]]]:
    """Yield the names, score and points of each cell that is graded by running it."""
    cells = ((book, cell) for book, notebook in notebooks.items() for cell in notebook.cells)
    for book, cell in cells:
        metadata = cell.metadata.get("nbgrader", {})
        if metadata.get("grade") and cell.cell_type == "code" and not metadata.get("solution"):
            name = metadata["grade_id"]
            score = record.notebooks[book].scores[name]
            yield (book, name), (score or 0.0, metadata["points"])


def _find_errors(notebook: Any, student: str) -> Iterator[str]:
    """Yield the unexpected errors of a notebook's cells, in words.

    Graded cells may end in an error, since that is how tests fail.
    """
    answer_cells = [cell for cell in notebook.cells if _read_grade_id(cell)]
    if student == RELEASED and not all(map(_is_ours, answer_cells)):
        return  # an instructor's unsolved cells may raise, and so may the cells that use them
    for number, cell in enumerate(notebook.cells, 1):
        is_expected = "raises-exception" in cell.metadata.get("tags", [])
        if is_expected or cell.metadata.get("nbgrader", {}).get("grade"):
            continue
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                message = f"{output.ename}: {output.evalue}".splitlines()[0][:200]
                yield f"“{message}”, in cell {number}"


def _read_grade_id(cell: Any) -> str:
    """Return nbgrader's name for a cell that is graded or to be filled in."""
    metadata = cell.metadata.get("nbgrader", {})
    return metadata.get("grade_id", "") if metadata.get("grade") or metadata.get("solution") else ""


def _is_ours(cell: Any) -> bool:
    return bool({_read_grade_id(cell), f"{_read_grade_id(cell)}-check"} & BY_GRADE_ID.keys())


def _read_cell_seconds(notebook: Any) -> list[float]:
    """Return how long each code cell ran, as `CaptureEvidence` measured it."""
    times = (cell.metadata.get(NAMESPACE, {}).get("seconds") for cell in notebook.cells)
    return [seconds for seconds in times if seconds is not None]


SCORE_TOLERANCE: Final = 1e-6
"""The difference allowed between a full score and all points, because it is a rounded sum."""

MAX_NAMED_FILES: Final = 3


class CalibrationError(ShortError, RuntimeError):
    """The grader fails its own test; the message says where, and how to find out why."""


def recall_calibration(config: Config, assignment: str) -> str | None:
    """Return what `calibrate` returned for an assignment as it is now; None if it has to run.

    Args:
        config: the configuration with which submissions are graded.
        assignment: the assignment's name.
    """
    if config.LockedAutograde.get("calibrate") is False:
        return ""
    coursedir = CourseDirectory(config=config)
    last = read_calibration(calibration_file(Path(coursedir.root), assignment))
    state = fingerprint_assignment(coursedir, config, assignment)
    return last.passing if last is not None and last.fingerprint == state else None


def calibrate(config: Config, assignment: str, exposed: list[str] | None = None) -> str:
    """Check that the solution gets every point on this machine, and the released notebook none.

    An instructor's own tests may pass in the released notebook, and are named.

    A success is remembered in `grading/calibration/`, together with the graded notebooks; compiled
    programs are kept in `grading/cache/`. A failure is not remembered.

    Args:
        config: the configuration with which submissions are graded.
        assignment: the assignment's name.
        exposed: the files in which a kernel could read the answers, where they were found already.

    Returns:
        A sentence about tests that also pass in the released notebook; empty if there are none.

    Raises:
        CalibrationError: the check failed.
    """
    if (passing := recall_calibration(config, assignment)) is not None:
        return passing
    coursedir = CourseDirectory(config=config)
    file = calibration_file(Path(coursedir.root), assignment)
    state = fingerprint_assignment(coursedir, config, assignment)
    try:
        if exposed is None:
            exposed = find_exposed_answers(config, [assignment])[assignment]
        if exposed:
            raise CalibrationError(_explain_exposed(assignment, exposed))
        trial = TrialCourse(coursedir, config, assignment, file.with_suffix(""))
        solution, released = trial.run()
    except CalibrationError:
        raise
    except (TrialError, ExposedError) as error:
        raise _describe_failure(assignment, str(error)) from None
    except Exception as error:  # any error here would affect every submission
        raise _describe_failure(assignment, f"{type(error).__name__}: {error}") from error
    problems = list(_check_solution(solution)) or list(_check_released(released))
    if problems:
        raise _describe_failure(assignment, " ".join(problems), _fails_own_tests(solution))
    passing = _describe_passing_tests(assignment, released)
    keep_compiled(trial.compiled, Path(coursedir.root), assignment, state)
    calibration = Calibration(state, solution.seconds, solution.cells, passing)
    write_atomically(file, msgspec.json.encode(calibration))
    return passing


def _check_solution(graded: GradedExample) -> Iterator[str]:
    """Yield what is wrong with the graded solution, in sentences."""
    short = _list_short(graded)
    if short:
        yield f"The solution does not get full marks: it gets {_list_scores(short)}."
    yield from _report_error(graded, "solution")
    if short or graded.error:
        yield _say_where_to_look(graded)


def _fails_own_tests(solution: GradedExample) -> bool:
    """Check whether an instructor's own tests fail in their own solution, and none of ours do."""
    short = _list_short(solution)
    return bool(short) and not any(name in BY_GRADE_ID for _, name in short)


def _list_short(solution: GradedExample) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the scores that are below their cells' points, with these, by the cells' names."""
    scores = solution.scores.items()
    return {names: (s, p) for names, (s, p) in scores if s < p - SCORE_TOLERANCE}


def _check_released(graded: GradedExample) -> Iterator[str]:
    """Yield what is wrong with the graded released notebook, in sentences."""
    scored = {
        (book, name): (score, points)
        for (book, name), (score, points) in graded.scores.items()
        if name in BY_GRADE_ID and score > 0  # an instructor's own tests may pass as released
    }
    if scored:
        yield f"The released notebook, with nothing filled in, gets {_list_scores(scored)}."
    yield from _report_error(graded, "released notebook")
    if scored or graded.error:
        yield _say_where_to_look(graded)


def _describe_passing_tests(assignment: str, released: GradedExample) -> str:
    """Return a sentence about the tests that the released notebook passes; empty if none."""
    scored = {names: score for names, score in released.scores.items() if score[0] > 0}
    if not scored:
        return ""
    return (
        f"{assignment} as it is released, with nothing filled in, gets {_list_scores(scored)}. If "
        f"you do not want that, write these tests so that they fail without an answer."
    )


def _report_error(graded: GradedExample, which: str) -> Iterator[str]:
    if graded.error:
        yield f"The first error in the {which} is {graded.error}."


def _list_scores(scores: dict[tuple[str, str], tuple[float, float]]) -> str:
    """List scores in words: exercises of the course by number, other cells by name."""
    labels = {name: BY_GRADE_ID[name].id if name in BY_GRADE_ID else name for _, name in scores}
    return ", ".join(
        f"{score:g} of {points:g} for {labels[name]}"
        for (_, name), (score, points) in scores.items()
    )


def _say_where_to_look(graded: GradedExample) -> str:
    return f"To see why, open {', '.join(map(str, graded.notebooks))}."


def _explain_exposed(assignment: str, files: list[str]) -> str:
    return (
        f"Nothing of {assignment} is graded, because its answers can be read where submissions "
        f"run, in "
        f"{', '.join(files[:MAX_NAMED_FILES])}{' and others' * (len(files) > MAX_NAMED_FILES)}. "
        f"Kernels see all of Python's folders: remove the copy, or grade from a virtual "
        f"environment that has none."
    )


def _describe_failure(assignment: str, why: str, fails_own_tests: bool = False) -> CalibrationError:
    if fails_own_tests:
        return CalibrationError(
            f"Nothing of {assignment} is graded, because its own solution does not pass its tests, "
            f"so no student could. {why} Fix the solution or the tests in solutions/, and grade "
            f"again."
        )
    return CalibrationError(
        f"Nothing of {assignment} is graded, because the course's own notebooks do not get the "
        f"scores here that they should get, so students would be graded wrongly, too. {why}"
    )
