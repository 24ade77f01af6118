"""Calibrate assignments side by side before a class is graded, and say why some are refused."""

from collections.abc import Collection, Mapping
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from autograder.instructor.calibration import (
    CalibrationError,
    calibrate,
    find_exposed_answers,
    recall_calibration,
)
from autograder.instructor.classroom.workers import Pool
from autograder.instructor.course import Course

NOT_RELEASED: Final = "nothing of it is graded until its notebook can be released; see below."


class Refusals:
    """The reasons why assignments cannot be graded here, each found once for a command.

    Args:
        course: the course.
        console: where calibrations are announced.
        unreleased: the assignments whose notebooks cannot be released.
        pool: the workers that calibrate.
    """

    def __init__(
        self, course: Course, console: Console, unreleased: Collection[str], pool: Pool
    ) -> None:
        self.course, self.console, self.pool = course, console, pool
        self._known = dict.fromkeys(unreleased, NOT_RELEASED)

    def find(self, assignments: Collection[str]) -> dict[str, str]:
        """Calibrate assignments side by side; return why each is refused, or an empty string."""
        new = sorted(assignment for assignment in assignments if assignment not in self._known)
        for assignment, calibration in self._start(new).items():
            self._known[assignment], passing = _wait_for(calibration)
            if passing:
                self.console.print(Text(passing))
        return {assignment: self._known[assignment] for assignment in assignments}

    def _start(self, assignments: Collection[str]) -> "dict[str, Future[str]]":
        """Have workers calibrate the assignments that are not calibrated."""
        config, running = self.course.api.config, {}
        recalled = {each: recall_calibration(config, each) for each in assignments}
        to_calibrate = [each for each, passing in recalled.items() if passing is None]
        for assignment in to_calibrate:
            self.console.print(
                f"Grading the solution of {assignment} first, to check that grading works here."
            )
        exposed = self._find_exposed(to_calibrate)
        for assignment, passing in recalled.items():
            if passing is None:
                running[assignment] = self.pool.executor.submit(
                    _calibrate_in_worker, self.course.root, config, assignment, exposed[assignment]
                )
            else:
                running[assignment] = Future()
                running[assignment].set_result(passing)
        return running

    def _find_exposed(self, assignments: Collection[str]) -> Mapping[str, list[str] | None]:
        """Have a worker search for the answers of all assignments at once.

        Returns:
            The files found for each assignment; None if the search failed.
        """
        if not assignments:
            return {}
        course, submit = self.course, self.pool.executor.submit
        try:
            return submit(_search_in_worker, course.root, course.api.config, assignments).result()
        except Exception:  # each calibration searches by itself then, and says why it cannot
            return dict.fromkeys(assignments)


def _search_in_worker(
    root: Path, config: Any, assignments: Collection[str]
) -> dict[str, list[str]]:
    """Search where submissions run, which may be another machine."""
    _ = Course(root).api  # loads the course's nbgrader_config.py, which replaces parts of nbgrader
    return find_exposed_answers(config, assignments)


def _calibrate_in_worker(
    root: Path, config: Any, assignment: str, exposed: list[str] | None
) -> str:
    """Calibrate an assignment in another process, in which parts of nbgrader are replaced first."""
    course = Course(root)
    _ = course.api  # loads the course's nbgrader_config.py, which replaces them
    with course.within_callers_lock():
        return calibrate(config, assignment, exposed)


def _wait_for(calibration: "Future[str]") -> tuple[str, str]:
    """Return the reason for which a calibration failed, and what it says; either may be empty."""
    try:
        passing = calibration.result()
    except CalibrationError as error:
        return str(error), ""
    except BrokenExecutor:
        return "the worker that graded its solution died. Did the machine run out of memory?", ""
    return "", passing
