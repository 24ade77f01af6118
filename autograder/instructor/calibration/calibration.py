"""Before anything of an assignment is graded, the grader has to pass a test of its own.

The assignment's solution goes through all that submissions go through, and has to get every point;
the released notebook has to get none; and no cell of either may end in an error. It is done once
for each state of notebooks, package, configuration and environment.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from traitlets.config import Config

from autograder.exercises import BY_GRADE_ID
from autograder.instructor.calibration.answers_in_reach import answers_in_reach
from autograder.instructor.calibration.trial_grading import Graded, Trial, TrialError
from autograder.instructor.pipeline import (
    Calibration,
    fingerprint_assignment,
    keep_compiled,
    memory,
    remembered,
)
from autograder.instructor.walls import ExposedError

ALMOST: Final = 1e-6
"""How far from all of its points a score may be that is a sum of parts."""

FEW: Final = 3
"""How many files are named of those that give answers away."""


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


def _of_solution(graded: Graded) -> Iterator[str]:
    """What is wrong with how the solution did, in sentences."""
    short = {name: (s, p) for name, (s, p) in graded.scores.items() if s < p - ALMOST}
    if short:
        yield f"The solution does not get full marks: it gets {_listed(short)}."
    yield from _of_error(graded, "solution")
    if short or graded.error:
        yield _where(graded)


def _of_released(graded: Graded) -> Iterator[str]:
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


def _of_error(graded: Graded, which: str) -> Iterator[str]:
    if graded.error:
        yield f"The first error in the {which} is {graded.error}."


def _listed(scores: dict[str, tuple[float, float]]) -> str:
    """Scores in words: those of the course's exercises by number, others by their cells' names."""
    called = {name: BY_GRADE_ID[name].id if name in BY_GRADE_ID else name for name in scores}
    return ", ".join(
        f"{score:g} of {points:g} for {called[name]}" for name, (score, points) in scores.items()
    )


def _where(graded: Graded) -> str:
    return f"To see why, open {', '.join(map(str, graded.notebooks))}."


def _exposed(assignment: str, files: list[str]) -> str:
    return (
        f"Nothing of {assignment} is graded, because what is right in it can be read where "
        f"submissions run, in {', '.join(files[:FEW])}{' and others' * (len(files) > FEW)}. "
        f"Kernels see all of Python's folders: remove the copy, or grade from a virtual "
        f"environment that has none."
    )


def _refused(assignment: str, why: str) -> CalibrationError:
    return CalibrationError(
        f"Nothing of {assignment} is graded, because grading does not get the course's own "
        f"notebooks right here, so it would wrong the students too. {why}"
    )
