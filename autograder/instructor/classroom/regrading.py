"""Judge a class again, from the evidence that was kept: nobody's code is run in a kernel again."""

import copy
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import nbformat
from nbgrader.api import Gradebook
from rich.console import Console

from autograder.exercises import EXERCISES
from autograder.instructor.classroom.grading import broken, report
from autograder.instructor.course import Course, printable, reason
from autograder.instructor.nbgrader_plugins import JudgeEvidence, NotGradedError, write_verdict
from autograder.instructor.walls import Case, NoSandboxError, Sandbox, judge_apart
from autograder.judge import Verdict

CORES: Final = os.cpu_count() or 1
"""How many judges are at work, each on one submission."""


@dataclass(frozen=True)
class Graded:
    """A graded submission, and what was handed in."""

    student: str
    assignment: str
    folder: Path
    cases: tuple[Case, ...]

    @property
    def notebook(self) -> Path:
        """The graded notebook."""
        return self.folder / f"{self.assignment}.ipynb"


def regrade_class(course: Course, console: Console) -> int:
    """Judge all kept evidence anew, and write what has changed.

    Exercises that handed in no evidence keep what they have. The inputs are the same as before, so
    where neither exercises nor judge have changed, no score does. Where an error of ours keeps a
    submission from being judged, it keeps its grade and its page.

    Returns:
        The exit status: 0, or 1 where a submission could not be judged or looked at. One that is
        broken is a row in the table, and no failure.

    """
    with course.alone():
        return _regrade_all(course, console)


def _regrade_all(course: Course, console: Console) -> int:
    graded = list(_kept(course, console))
    changed = failed = 0
    with Gradebook(course.api.coursedir.db_url, course.api.coursedir.course_id) as gradebook:
        for one, judged in zip(graded, _judged(graded, course.api.config), strict=True):
            try:
                is_new = _write(gradebook, one, judged.result())
            except NoSandboxError:
                raise
            except Exception as error:  # one submission's failure is its own
                gradebook.db.rollback()
                failed += 1
                said = f"{one.student}, {one.assignment}: the old grade stays. "
                said += f"{type(error).__name__}: {error}"
                console.print(printable(said), markup=False)
                continue
            if is_new:
                changed += 1
                done = course.api.generate_feedback(one.assignment, one.student, force=True)
                if not done["success"]:
                    said = f"{one.student}, {one.assignment}: no feedback page. {reason(done)}"
                    console.print(printable(said), markup=False)
    unusable = broken(course)
    report(course, console, unusable)
    console.print(f"{len(graded)} submissions were judged again; {changed} have changed.")
    if failed:
        console.print(f"{failed} of them could not be judged, and are as they were.")
    return 1 if failed or not all(failure.theirs for failure in unusable) else 0


def _kept(course: Course, console: Console) -> Iterator[Graded]:
    """Every graded submission whose evidence is there."""
    for path in sorted(course.autograded.glob("*/*/*.evidence.json")):
        folder = path.parent
        try:
            cases = msgspec.json.decode(path.read_bytes(), type=tuple[Case, ...])
        except msgspec.MsgspecError as error:
            said = f"{path.relative_to(course.root)} cannot be read: {error}"
            console.print(printable(said), markup=False)
            continue
        known = tuple(case for case in cases if case.exercise in EXERCISES)
        yield Graded(folder.parent.name, folder.name, folder, known)


def _judged(graded: list[Graded], config: Any) -> Iterator[Future[list[Verdict]]]:
    """The verdicts on each submission, or why there are none.

    A process of its own for each: what a submission does to its judge is done to nobody else's.
    """
    seconds, room = JudgeEvidence(config=config).seconds, Sandbox(config=config)
    with ThreadPoolExecutor(CORES) as pool:
        yield from [pool.submit(judge_apart, one.cases, seconds, room) for one in graded]


def _write(gradebook: Any, one: Graded, verdicts: list[Verdict]) -> bool:
    """Enter verdicts into a graded notebook and into the gradebook; whether any is another.

    Raises:
        NotGradedError: one of them is that judging failed.
    """
    notebook = nbformat.read(one.notebook, 4)
    before = copy.deepcopy(notebook)
    cells = {c.metadata.get("nbgrader", {}).get("grade_id"): c for c in notebook.cells}
    for verdict in verdicts:
        if verdict.fault is not None:
            raise NotGradedError(verdict.exercise, verdict.fault)
        name = EXERCISES[verdict.exercise].grade_id
        grade = gradebook.find_grade(name, one.assignment, one.assignment, one.student)
        write_verdict(cells[name], verdict, grade.cell.max_score)
        grade.auto_score = round(verdict.score * grade.cell.max_score, 4)
    if notebook == before:
        gradebook.db.rollback()
        return False
    one.notebook.unlink()  # nbgrader leaves it read-only
    nbformat.write(notebook, one.notebook)
    gradebook.db.commit()
    return True
