"""The names that a notebook imports: check, hint, progress, show, target."""

import os
import secrets
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import jax
import numpy as np

from autograder import drawing, evidence, feedback, holdings, inside, journal
from autograder.blame import Fault, explanation
from autograder.capture import capture
from autograder.errors import ShortError
from autograder.exercise import Exercise, pictured
from autograder.exercises import NOTEBOOKS, UnknownExerciseError, find
from autograder.judge import judge
from autograder.layout import Layout, LayoutError
from autograder.verdict import Trade, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

SEED_VARIABLE: Final = "SHARDLINGS_GRADING_SEED"
"""Set, by what grades, in kernels that only capture evidence; what cases are drawn from."""

DEVICES: Final = 8
"""How many devices every notebook of the course has."""

_hints_given: dict[str, int] = {}
_attempts: dict[str, dict[str, list[Trade]]] = {}


class UsageError(ShortError, TypeError):
    """One of the course's functions was called with something that it cannot use."""


class UnknownExercise(ShortError, UnknownExerciseError):  # noqa: N818  what a learner reads
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
        _check(exercise, answer, answers)
    except ShortError:
        raise
    except Exception as error:  # nothing else of ours looked after it: not even words are drawn
        _say_whose_fault(Fault.of(error))


def _check(exercise: str, answer: tuple[object, ...], answers: Mapping[str, object]) -> None:
    asked = _find(exercise)
    named = _by_name(asked, answer, answers)
    if jax.device_count() < DEVICES:
        raise UsageError(
            f"The exercises need {DEVICES} devices, and this process has {jax.device_count()}. "
            f"Restart the kernel, and run the notebook's first cells before anything else: "
            f"emulate_devices({DEVICES}) is there."
        )
    grading_seed = os.environ.get(SEED_VARIABLE)
    if grading_seed is not None:
        _publish(capture(asked, named, int(grading_seed)))
        return
    seed = secrets.randbits(32)
    verdict = judge(asked, capture(asked, named, seed), seed)
    earlier = _attempts.setdefault(asked.id, {})
    page = feedback.page(verdict, earlier)
    _display(page, feedback.text(verdict), lambda: feedback.renderable(verdict))
    for finding in verdict.findings:
        if finding.trade is not None:
            earlier.setdefault(finding.answer, []).append(finding.trade)
    if _is_run_by_nbgrader():
        if verdict.state == "failed":
            raise NotJudged(_without_pictures(verdict))
        if verdict.score < 1:
            raise NotYet(_without_pictures(verdict))
    elif verdict.state != "failed":
        journal.record(asked.id, verdict.state)


def _say_whose_fault(fault: Fault) -> None:
    """Say that the autograder failed; where nbgrader runs the notebook, it is not to go unseen."""
    words = "\n".join(explanation(fault))
    if _is_run_by_nbgrader() or SEED_VARIABLE in os.environ:
        raise NotJudged(words) from None
    _say(words)


def _is_run_by_nbgrader() -> bool:
    return os.environ.get("NBGRADER_EXECUTION") in ("validate", "autograde")


def hint(exercise: str) -> None:
    """Show the next hint for an exercise: the first are gentle, the last is nearly the answer.

    Args:
        exercise: the exercise's id, such as `"1.4"`.

    Raises:
        UnknownExercise: there is no such exercise.
    """
    asked = _find(exercise)
    number = _hints_given.get(asked.id, 0)
    if number == len(asked.hints):
        _say(f"{asked.id}: those were all {number} hints; from the start again.")
        number = 0
    _hints_given[asked.id] = number + 1
    place = f"hint {number + 1} of {len(asked.hints)}"
    _say(f"{asked.id} {asked.title}, {place}: {asked.hints[number]}")


def progress() -> None:
    """Show how many exercises are done; and of the notebooks that were begun, which are left."""
    states = journal.load()
    lines = []
    for notebook, exercises in NOTEBOOKS.items():
        marks = [(e, feedback.MARKS[states.get(e.id, "unanswered")]) for e in exercises]
        done = sum(states.get(e.id) == "right" for e in exercises)
        lines.append(f"{notebook}: {done} of {len(exercises)} done")
        if done < len(exercises) and any(e.id in states for e in exercises):
            lines += [f"  {mark} {e.id} {e.title}" for e, mark in marks]
    _say("\n".join(lines))


def target(exercise: str) -> None:
    """Draw what an exercise asks for.

    Args:
        exercise: the exercise's id, such as `"1.4"`.

    Raises:
        UnknownExercise: there is no such exercise.
        UsageError: the exercise asks for something that cannot be drawn.
    """
    asked = _find(exercise)
    pictures = [drawn for r in asked.requirements if (drawn := pictured(r)) is not None]
    if not pictures:
        raise UsageError(f"Exercise {asked.id} asks for no layout, so there is nothing to draw.")
    _draw(
        [
            r.target().panel(asked.id if len(pictures) == 1 else f"{asked.id} {r.answer}")
            for r in pictures
        ]
    )


@overload
def show(
    *things: object,
    shape: tuple[int, ...] | None = None,
    figure: Literal[True],
    values: bool = False,
    **named: object,
) -> "Figure": ...
@overload
def show(
    *things: object,
    shape: tuple[int, ...] | None = None,
    figure: Literal[False] = False,
    values: bool = False,
    **named: object,
) -> None: ...
def show(
    *things: object,
    shape: tuple[int, ...] | None = None,
    figure: bool = False,
    values: bool = False,
    **named: object,
) -> "Figure | None":
    """Draw which device holds which block; several things side by side.

    In the body of `jax.shard_map`, an array is what one device holds of it, and is drawn so: its
    shape, and which devices hold the same.

    Args:
        *things: arrays, or shardings, or layouts, of rank 0 to 4.
        shape: the global shape, in elements, that shardings are drawn for.
        figure: return a matplotlib figure instead of showing.
        values: write the numbers that each device holds, of small arrays, in place of a picture.
        **named: more of them, with a title each.

    Raises:
        UsageError: nothing was given, or something that has no layout.
    """
    if not things and not named:
        raise UsageError("show draws an array, or a sharding and a shape; nothing came.")
    titled: list[tuple[str, object]] = [("", thing) for thing in things]
    titled += list(named.items())
    if values:
        _display_holdings(titled)
        return None
    panels = [_panel(title, thing, shape) for title, thing in titled]
    if figure:
        return drawing.figure(panels)
    _draw(panels)
    return None


def _panel(title: str, thing: object, shape: tuple[int, ...] | None) -> drawing.Panel:
    """The picture of one thing to show; what is wrong with it is said of its title."""
    if isinstance(thing, jax.core.Tracer):
        drawn = inside.panel(title, thing)
        if drawn is None:
            raise UsageError(
                "This is an array inside of jit, which is on no device yet: show it after the "
                "program ran. (In the body of shard_map, show draws what a device holds of it.)"
            )
        return drawn
    try:
        layout = Layout.of(thing, shape)
    except LayoutError as error:
        raise UsageError(f"{title}: {error}" if title else str(error)) from None
    if len(layout.shape) > 4:
        raise UsageError(f"show draws up to rank 4; an array of shape {layout.shape} came.")
    return layout.panel(title)


def _display_holdings(titled: list[tuple[str, object]]) -> None:
    rows = []
    for title, thing in titled:
        if not isinstance(thing, jax.Array) or isinstance(thing, jax.core.Tracer):
            raise UsageError(
                f"show(…, values=True) writes the numbers that arrays hold; "
                f"{type(thing).__name__} came."
            )
        blocks = {shard.device.id: np.asarray(shard.data) for shard in thing.addressable_shards}
        rows.append((title, blocks))
    _display(holdings.page(rows), holdings.plain(rows), lambda: holdings.renderable(rows))


def _find(exercise: str) -> Exercise:
    try:
        return find(exercise)
    except UnknownExerciseError as error:
        raise UnknownExercise(str(error)) from None


def _by_name(
    exercise: Exercise, answer: tuple[object, ...], answers: Mapping[str, object]
) -> Mapping[str, object]:
    if not answer and set(answers) == set(exercise.answers):
        return answers
    if len(answer) == len(exercise.answers) == 1 and not answers:
        return {exercise.answers[0]: answer[0]}
    names = exercise.answers
    call = names[0] if len(names) == 1 else ", ".join(f"{name}={name}" for name in names)
    raise UsageError(f'Exercise {exercise.id} is checked by check("{exercise.id}", {call}).')


def _publish(captured: evidence.Evidence) -> None:
    from IPython.display import display

    display(
        {
            evidence.MIME: evidence.to_json(captured),
            "text/plain": f"{captured.exercise}: handed in",
        },
        raw=True,
    )


def _without_pictures(verdict: Verdict) -> str:
    """The verdict in lines that are short enough for `nbgrader validate`, which cuts long ones."""
    lines = [line for words in feedback.sentences(verdict) for line in words.splitlines()]
    wrapped = [textwrap.fill(line, 80, subsequent_indent="  ") for line in lines]
    return "\n".join([f"{feedback.headline(verdict)}.", *wrapped])


def _draw(panels: list[drawing.Panel]) -> None:
    plain = "\n\n".join(f"{p.title}\n{drawing.plain(p)}".strip() for p in panels)
    _display(drawing.svg(panels), plain, lambda: drawing.renderable(panels))


def _say(words: str) -> None:
    print(words)


def _display(page: str, plain: str, terminal: Any) -> None:
    """HTML where a notebook is listening, with the same in text; rich tables in a terminal."""
    if _in_notebook():
        from IPython.display import display

        display({"text/html": page, "text/plain": plain}, raw=True)
    else:
        from rich.console import Console

        made: RenderableType = terminal()
        Console().print(made)


def _in_notebook() -> bool:
    import sys

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
