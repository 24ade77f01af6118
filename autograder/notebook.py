"""`check`, `hint`, `progress` and `target`, which a notebook calls. (`show` is in `shardlings`.)

In a student's own kernel, `check` captures an answer and judges it. A kernel that grades receives
plans, and has neither exercises nor a judge. There `check` publishes the evidence among the cell's
outputs, and the other three do nothing.
"""

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import jax

from autograder import evidence
from autograder.evidence import Plan, capture, known_plans
from autograder.explanations import Fault, explain_fault
from shardlings.errors import ShortError, UsageError
from shardlings.pictures import display_blocks, display_waiting

if TYPE_CHECKING:
    from autograder.exercises import Exercise

DEVICES: Final = 8
"""The number of devices that every notebook of the course needs."""

_hints_given: dict[str, int] = {}


class UnknownExercise(ShortError, LookupError):  # noqa: N818  learners read the name
    """There is no exercise with that id."""


class NotYet(ShortError, AssertionError):  # noqa: N818  learners read the name
    """An answer is not entirely right. Raised only when nbgrader runs the notebook."""


class NotJudged(ShortError, RuntimeError):  # noqa: N818  learners read the name
    """The autograder itself failed. Raised only when nbgrader or Shardlings runs the notebook."""


def check(exercise: str, *answer: object, **answers: object) -> None:
    """Judge an answer, and show it beside what the exercise asks for.

    A wrong or missing answer raises no error, so a notebook runs from top to bottom. But when
    nbgrader validates the notebook, or grades it without Shardlings' configuration, an answer that
    is not entirely right raises `NotYet`. When Shardlings grades the notebook, the answer is only
    captured here, and a separate process judges it.

    An error of the autograder's own is reported as such, and never counts against the answer.

    Args:
        exercise: the exercise's id, such as `"1.4"`.
        *answer: the answer, if the exercise asks for one thing.
        **answers: the answers by name, if it asks for several.

    Raises:
        UnknownExercise: there is no exercise with that id.
        UsageError: the answers differ in number or name from what the exercise asks for, or the
            process has too few devices.
        NotYet: the answer is not entirely right, and nbgrader runs the notebook.
        NotJudged: the autograder itself failed, and nbgrader or Shardlings runs the notebook.
    """
    try:
        plans = known_plans()
        if plans is None:
            _judge(exercise, answer, answers)
        elif exercise in plans:
            named = _by_name(plans[exercise], answer, answers)
            _publish(capture(plans[exercise], named))
        else:  # nbgrader gives a graded cell its points unless it raises an error
            raise UnknownExercise(
                f"{exercise!r} is not an exercise of this notebook, so nothing was submitted."
            )
    except ShortError:
        raise
    except Exception as error:  # an error of ours that did not even lead to a verdict
        _report_fault(Fault.of(error))


def _judge(exercise_id: str, answer: tuple[object, ...], answers: Mapping[str, object]) -> None:
    """Capture an answer, judge it, show the verdict and remember it."""
    exercise, seed = _find(exercise_id), secrets.randbits(32)
    from autograder.judge import judge, remember, show_verdict, verdict_in_lines

    plan = exercise.plan(seed)
    named = _by_name(plan, answer, answers)
    with _show_steps(exercise.id):
        captured = capture(plan, named)
        with evidence.announce_wait(f"JAX compiles and runs what you answered to {exercise.id}"):
            verdict = judge(exercise, captured, seed)
        show_verdict(verdict)
    if _is_run_by_nbgrader():
        if verdict.state == "failed":
            raise NotJudged(verdict_in_lines(verdict))
        if verdict.score < 1:
            raise NotYet(verdict_in_lines(verdict))
    elif verdict.state != "failed":
        remember(exercise.id, verdict.state)


@contextmanager
def _show_steps(exercise: str) -> Iterator[None]:
    """Show what a check is doing until its verdict replaces it, unless nbgrader runs it."""
    if _is_run_by_nbgrader():
        yield
        return
    running = f"running what you answered to {exercise}"
    with display_waiting(running) as tell, evidence.watch_steps(tell):
        yield


def _publish(captured: evidence.Evidence) -> None:
    """Publish evidence among the cell's outputs, from where the grader reads it."""
    from IPython.display import display

    text = f"{captured.exercise}: handed in"
    display({evidence.MIME_TYPE: evidence.to_json(captured), "text/plain": text}, raw=True)


def _report_fault(fault: Fault) -> None:
    """Print that the autograder failed, or raise an error that a grader cannot overlook."""
    message = "\n".join(explain_fault(fault))
    if _is_run_by_nbgrader() or evidence.is_grading():
        raise NotJudged(message) from None
    print(message)


def _is_run_by_nbgrader() -> bool:
    return os.environ.get("NBGRADER_EXECUTION") in ("validate", "autograde")


def hint(exercise: str) -> None:
    """Show the next hint for an exercise. The first is gentle, and the last is nearly the answer.

    Args:
        exercise: the exercise's id, such as `"1.4"`.

    Raises:
        UnknownExercise: there is no exercise with that id.
    """
    if known_plans() is not None:
        return
    definition = _find(exercise)
    if not definition.hints:
        print(f"Exercise {definition.id} has no hints.")
        return
    number = _hints_given.get(definition.id, 0) % len(definition.hints)
    _hints_given[definition.id] = number + 1
    from autograder.judge import show_hint

    show_hint(definition, number)


def progress() -> None:
    """Show how many exercises are done, and which are left in the notebooks that you have begun."""
    if known_plans() is not None:
        return
    exercises = _import_exercises()
    from autograder.judge import show_progress

    show_progress(exercises.NOTEBOOKS)


def target(exercise: str) -> None:
    """Draw the layouts that an exercise asks for.

    Args:
        exercise: the exercise's id, such as `"1.4"`.

    Raises:
        UnknownExercise: there is no exercise with that id.
        UsageError: the exercise has no target to draw.
    """
    if known_plans() is not None:
        return
    definition = _find(exercise)
    targets = definition.targets()
    if not targets:
        raise UsageError(f"Exercise {definition.id} has no target to draw.")
    display_blocks([layout.picture(title) for title, layout in targets])


def _find(exercise: str) -> "Exercise":
    exercises = _import_exercises()
    try:
        return cast("Exercise", exercises.find(exercise))
    except exercises.UnknownExerciseError as error:
        raise UnknownExercise(str(error)) from None


def _import_exercises() -> Any:
    """Import the exercises, which a kernel that grades does not have.

    Raises:
        UsageError: this kernel grades, and has lost its plans.
    """
    try:
        import autograder.exercises as exercises  # `from` would raise an error of another type
    except ModuleNotFoundError as error:
        if error.name != "autograder.exercises":
            raise
        raise UsageError(
            "This kernel was started to grade, and its plans are gone, so nothing is handed in. "
            "Restart the kernel, and run the notebook again."
        ) from None
    return exercises


def _by_name(
    plan: Plan, answer: tuple[object, ...], answers: Mapping[str, object]
) -> Mapping[str, object]:
    """Return the answers by the names in their plan.

    Raises:
        UsageError: they differ from the plan in number or name, or there are too few devices.
    """
    names = tuple(plan.answers)
    if len(answer) == len(names) == 1 and not answers:
        answers, answer = {names[0]: answer[0]}, ()
    if answer or set(answers) != set(names):
        call = names[0] if len(names) == 1 else ", ".join(f"{name}={name}" for name in names)
        raise UsageError(
            f'Exercise {plan.exercise} is checked by check("{plan.exercise}", {call}).'
        )
    if jax.device_count() < DEVICES:
        raise UsageError(
            f"The exercises need {DEVICES} devices, and this process has {jax.device_count()}. "
            f"Restart the kernel, and run the notebook's first cells before anything else: "
            f"emulate_devices({DEVICES}) is there."
        )
    return answers
