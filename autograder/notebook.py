"""`check`, `hint`, `progress` and `target`, which a notebook calls. (`show` is in `layouts`.)

In a student's own kernel, `check` captures and judges. A kernel that grades is sent plans, and has
neither an exercise nor a judge: an answer is captured there, and leaves as evidence;
`hint`, `progress` and `target` do nothing.
"""

import os
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import jax

from autograder import evidence
from autograder.errors import Fault, ShortError, UsageError, explanation
from autograder.evidence import Plan, capture, told
from autograder.pictures import display_blocks

if TYPE_CHECKING:
    from autograder.exercises import Exercise

DEVICES: Final = 8
"""How many devices every notebook of the course has."""

_hints_given: dict[str, int] = {}


class UnknownExercise(ShortError, LookupError):  # noqa: N818  it is what a learner reads
    """There is no exercise of that name."""


class NotYet(ShortError, AssertionError):  # noqa: N818  it is what a learner reads
    """A check that did not find everything right, where nbgrader runs the notebook."""


class NotJudged(ShortError, RuntimeError):  # noqa: N818  it is what a learner reads
    """A check that failed by an error of the autograder's own, where nbgrader runs the notebook."""


def check(exercise: str, *answer: object, **answers: object) -> None:
    """Judge an answer, and show what it made beside what was asked.

    Nothing is raised for a wrong answer, or for none, so that a notebook runs from top to bottom.
    Where nbgrader validates the notebook, or grades it with a configuration of its own, a verdict
    that is not wholly right is raised as `NotYet`. Where Shardlings grades it, nothing is judged
    here: the evidence leaves the kernel, and a clean process judges it.

    An error of the autograder's own is never told as one of the answer's: it is said whose it is,
    and what to do.

    Args:
        exercise: the exercise's id, such as `"1.4"`.
        *answer: the answer, where the exercise asks for one thing.
        **answers: the answers by name, where it asks for several.

    Raises:
        UnknownExercise: there is no such exercise.
        UsageError: the answers are not as many, or not named as, the exercise asks; or devices
            are missing.
        NotYet: see above.
        NotJudged: the autograder itself failed, where nbgrader runs the notebook.
    """
    try:
        plans = told()
        if plans is None:
            _judge(exercise, answer, answers)
        elif exercise in plans:
            named = _by_name(plans[exercise], answer, answers)
            _hand_in(capture(plans[exercise], named))
        else:  # to nbgrader, a graded cell that ends well has earned its points
            raise UnknownExercise(f"{exercise!r} is not asked for here: nothing was handed in.")
    except ShortError:
        raise
    except Exception as error:  # nothing else of ours looked after it: not even words are drawn
        _say_whose_fault(Fault.of(error))


def _judge(exercise: str, answer: tuple[object, ...], answers: Mapping[str, object]) -> None:
    """Capture and judge, and show the verdict."""
    asked, seed = _find(exercise), secrets.randbits(32)
    from autograder.judge import judge, remember, show_verdict, verdict_in_lines

    plan = asked.plan(seed)
    named = _by_name(plan, answer, answers)
    captured = capture(plan, named)
    with evidence.announced(f"JAX compiles and runs what you answered to {asked.id}"):
        verdict = judge(asked, captured, seed)
    show_verdict(verdict)
    if _is_run_by_nbgrader():
        if verdict.state == "failed":
            raise NotJudged(verdict_in_lines(verdict))
        if verdict.score < 1:
            raise NotYet(verdict_in_lines(verdict))
    elif verdict.state != "failed":
        remember(asked.id, verdict.state)


def _hand_in(captured: evidence.Evidence) -> None:
    """Have evidence leave the kernel, among the cell's outputs."""
    from IPython.display import display as publish

    said = f"{captured.exercise}: handed in"
    publish({evidence.MIME_TYPE: evidence.to_json(captured), "text/plain": said}, raw=True)


def _say_whose_fault(fault: Fault) -> None:
    """Say that the autograder failed; where nbgrader runs the notebook, it is not to go unseen."""
    words = "\n".join(explanation(fault))
    if _is_run_by_nbgrader() or evidence.is_grading():
        raise NotJudged(words) from None
    print(words)


def _is_run_by_nbgrader() -> bool:
    return os.environ.get("NBGRADER_EXECUTION") in ("validate", "autograde")


def hint(exercise: str) -> None:
    """Show the next hint for an exercise: the first are gentle, the last is nearly the answer.

    Args:
        exercise: the exercise's id, such as `"1.4"`.

    Raises:
        UnknownExercise: there is no such exercise.
    """
    if told() is not None:
        return
    asked = _find(exercise)
    number = _hints_given.get(asked.id, 0)
    number %= len(asked.hints)
    _hints_given[asked.id] = number + 1
    from autograder.judge import show_hint

    show_hint(asked, number)


def progress() -> None:
    """Show how many exercises are done; and of the notebooks that were begun, which are left."""
    if told() is not None:
        return
    known = _exercises()
    from autograder.judge import show_progress

    show_progress(known.NOTEBOOKS)


def target(exercise: str) -> None:
    """Draw what an exercise asks for.

    Args:
        exercise: the exercise's id, such as `"1.4"`.

    Raises:
        UnknownExercise: there is no such exercise.
        UsageError: the exercise asks for something that cannot be drawn.
    """
    if told() is not None:
        return
    asked = _find(exercise)
    targets = asked.targets()
    if not targets:
        raise UsageError(f"Exercise {asked.id} asks for no layout, so there is nothing to draw.")
    display_blocks([layout.picture(title) for title, layout in targets])


def _find(exercise: str) -> "Exercise":
    known = _exercises()
    try:
        return cast("Exercise", known.find(exercise))
    except known.UnknownExerciseError as error:
        raise UnknownExercise(str(error)) from None


def _exercises() -> Any:
    try:
        import autograder.exercises as known
    except ModuleNotFoundError as error:
        if error.name != "autograder.exercises":
            raise
        raise UsageError(
            "This kernel was started to grade, and its plans are gone, so nothing is handed in. "
            "Restart the kernel, and run the notebook again."
        ) from None
    return known


def _by_name(
    plan: Plan, answer: tuple[object, ...], answers: Mapping[str, object]
) -> Mapping[str, object]:
    """The answers by the names that a plan has for them."""
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
