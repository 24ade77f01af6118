"""Notebook 11's exercise on resuming: training that is killed, and continues number for number."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from autograder.judge import Continued, Exercise, Mistake, Resumes, ResumesAfterTornWrites
from autograder.processes import CaseArgument, Interruption, ProcessCase

LINE: Final = (("x", 8),)
WIDE: Final = (("x", 4), ("y", 2))

FEATURES: Final = 16

LATE: Final = 14
"""The step of a kill between two steps. By then the last file in alphabetical order, of step 9, is
not the newest, and a function that saves every third, fourth or fifth step has lost several. One
that saves every second step has lost one, by then or by an early kill, whose step is odd.
"""

MAX_SAVED_BYTES: Final = 100_000
"""Enough for a checkpoint of each of 14 steps, and not for three large batches, even as bytes."""

RATE: Final = 0.1
MEAN_KEPT: Final = 0.9
SQUARE_KEPT: Final = 0.99
EPSILON: Final = 0.1
"""Large for Adam, so that a slope of zero does not become a step by rounding."""

State = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The weights, the mean of the gradients, and the mean of their squares."""


def _interrupted_trainings(generator: np.random.Generator) -> Sequence[ProcessCase]:
    step, other = int(generator.choice((3, 5))), 4
    # Of small batches, the losses show each digit of the state. Large ones cannot be saved.
    small, large = (8 * int(generator.integers(low, high)) for low, high in ((2, 4), (384, 448)))
    seed = int(generator.integers(1 << 30))

    def case(
        processes: int, axes: tuple[tuple[str, int], ...], kill: Interruption | None = None
    ) -> ProcessCase:
        steps = (kill.step if kill else LATE) + 3
        batch = large if kill and kill.change else small
        given = (
            CaseArgument("shared-folder"),
            CaseArgument("mesh"),
            CaseArgument("batches", (steps * batch, FEATURES + 1), ("x",), seed, batch),
            CaseArgument("number", number=steps),
        )
        return ProcessCase(processes, axes, given, interruption=kill)

    return (
        case(2, LINE),
        case(2, WIDE, Interruption(LATE, process=1, resumed_by=4)),
        case(2, LINE, Interruption(step, process=None)),
        case(2, LINE, Interruption(step, process=0, change=1, resumed_by=2)),
        case(2, LINE, Interruption(other, process=1, change=1, resumed_by=2)),
        case(1, WIDE, Interruption(other, process=0, change=2, resumed_by=1)),
        case(1, LINE, Interruption(step, process=0, change=3, resumed_by=1)),
        case(1, LINE, Interruption(step, process=0, change=4, resumed_by=1)),
    )


def _batches_of(case: ProcessCase) -> np.ndarray:
    table = case.given[2]
    return table.values().astype(np.float64).reshape(-1, table.batch, FEATURES + 1)


def _step(state: State, count: int, batch: np.ndarray) -> tuple[State, float]:
    """Return the state after one step of Adam, and the loss before it.

    Args:
        state: the state before the step.
        count: the number of steps before it.
        batch: the rows of the batch.
    """
    w, mean, square = state
    x, y = batch[:, :-1], batch[:, -1]
    off = x @ w - y
    slope = 2 * x.T @ off / len(x)
    mean = MEAN_KEPT * mean + (1 - MEAN_KEPT) * slope
    square = SQUARE_KEPT * square + (1 - SQUARE_KEPT) * slope**2
    mean_now = mean / (1 - MEAN_KEPT ** (count + 1))
    square_now = square / (1 - SQUARE_KEPT ** (count + 1))
    return (w - RATE * mean_now / (np.sqrt(square_now) + EPSILON), mean, square), np.mean(off**2)


def _state_after(case: ProcessCase, steps: int) -> State:
    zeros = np.zeros(FEATURES)
    state = (zeros, zeros, zeros)
    for count, batch in enumerate(_batches_of(case)[:steps]):
        state, _ = _step(state, count, batch)
    return state


def _go_on(case: ProcessCase, state: State, first: int, counted: int | None = None) -> np.ndarray:
    """Return the losses of the steps from `first` on.

    Args:
        case: the call.
        state: the state before step `first`.
        first: the number of the first step.
        counted: the number of steps by which Adam's bias is corrected at first; by default `first`.
    """
    losses = []
    for count, batch in enumerate(_batches_of(case)[first:], first if counted is None else counted):
        state, loss = _step(state, count, batch)
        losses.append(loss)
    return np.array(losses)


def _losses(case: ProcessCase) -> np.ndarray:
    return _go_on(case, _state_after(case, 0), 0)


def _forget_moments(case: ProcessCase, first: int) -> np.ndarray:
    weights, mean, square = _state_after(case, first)
    return _go_on(case, (weights, 0 * mean, 0 * square), first)


def _shift(by: int) -> Continued:
    """Return the losses if the saved number of steps is wrong by `by`."""
    return lambda case, first: _go_on(case, _state_after(case, first), max(first + by, 0))


def _save_before(case: ProcessCase, first: int) -> np.ndarray:
    """Return the losses if each saved state is that before the step whose number it has."""
    return _go_on(case, _state_after(case, max(first - 1, 0)), first)


def _count_anew(case: ProcessCase, first: int) -> np.ndarray:
    return _go_on(case, _state_after(case, first), first, 0)


def _lose_later(case: ProcessCase, first: int) -> np.ndarray:
    """Return each loss with the weights after its step."""
    state, losses = _state_after(case, first), []
    for count, batch in enumerate(_batches_of(case)[first:], first):
        state, _ = _step(state, count, batch)
        losses.append(np.mean((batch[:, :-1] @ state[0] - batch[:, -1]) ** 2))
    return np.array(losses)


def _keep_part(shards: slice) -> Continued:
    """Return the losses if only some of each array was saved, with zeros elsewhere."""

    def losses(case: ProcessCase, first: int) -> np.ndarray:
        kept = np.zeros(FEATURES)
        kept[shards] = 1
        w, mean, square = (kept * array for array in _state_after(case, first))
        return _go_on(case, (w, mean, square), first)

    return losses


def _mix(old: slice) -> Continued:
    """Return the losses if some shards of each array are those of the step before."""

    def losses(case: ProcessCase, first: int) -> np.ndarray:
        w, mean, square = (np.array(array) for array in _state_after(case, first))
        for array, before in zip((w, mean, square), _state_after(case, first - 1), strict=True):
            array[old] = before[old]
        return _go_on(case, (w, mean, square), first)

    return losses


HALVES: Final = (slice(0, FEATURES // 2), slice(FEATURES // 2, FEATURES))
"""The features of each of two processes."""

MISTAKES: Final[dict[str, Continued | Mistake]] = {
    "optimizer-forgotten": _forget_moments,
    "step-again": _shift(-1),
    "step-skipped": Mistake(_shift(1), _save_before),
    "count-begins-anew": _count_anew,
    "loss-after-its-step": _lose_later,
    "one-process-saved": Mistake(*map(_keep_part, HALVES)),
    "two-steps-mixed": Mistake(*map(_mix, HALVES)),
}

RESUME: Final = Exercise(
    id="11.8",
    title="Resume as if nothing had happened",
    afterwards="Orbax's CheckpointManager works like this: it writes into a folder with a "
    "temporary name, waits for all processes, and then one of them renames the folder. In "
    "training at scale, the state of the data loader and the random keys are saved, too.",
    requirements=(
        Resumes(
            "train_or_resume",
            "after a kill between two steps, the losses go on number for number",
            _interrupted_trainings,
            _losses,
            MISTAKES,
            MAX_SAVED_BYTES,
        ),
        ResumesAfterTornWrites(
            "train_or_resume",
            "the same after a kill in the middle of saving",
            _interrupted_trainings,
            _losses,
            MISTAKES,
            MAX_SAVED_BYTES,
        ),
    ),
    hints=(
        "What does step number k depend on? The weights, the two moments, the number k, and batch "
        "k. The first four have to be in the checkpoint, and the number says which batch is next.",
        "The simplest checkpoint is one file: to_host from 11.4 collects each array in every "
        "process, and process 0 alone writes them by np.savez, together with the number of steps. "
        "Every process reads the file at the start, if it is there.",
        "A process can be killed in the middle of np.savez. So write a file with another name, "
        "and rename it when it is complete: os.replace(new, old) replaces the old file at once. A "
        "reader finds the old file or the new one, and never a part.",
        "If each process writes a file of its own, one may be killed before its rename and the "
        "other after it. Then the files are from two different steps. One of the processes has to "
        "decide, after all have written.",
    ),
    diagnoses={
        "checkpoint-too-large": "The state is three arrays of 16 numbers. If the batches are saved "
        "in its place, their steps have to be made again, and at most one step may be.",
        "nothing-saved": "A killed process saves nothing any more. Is a checkpoint complete after "
        "each step, and not only at the end? And is each batch read when its step begins, and not "
        "earlier?",
        "new-processes": "Each process has to find all of the state, also one with a number that "
        "no process had before. Which files does it read, and what if they are not there?",
        "optimizer-forgotten": "These are the losses if the weights are restored and Adam's "
        "moments begin at zero. Which arrays of the state are in the checkpoint?",
        "last-step-again": "Nothing was killed here. Is a checkpoint saved after each step, also "
        "after the last one, and before the function returns?",
        "step-again": "A step is made twice: training goes on with a state that has one step more "
        "behind it than its number says. Which number is saved with a state, and can a kill come "
        "between the two?",
        "step-skipped": "A batch is left out: the loop begins, or counts, with a larger number "
        "than that of the steps that the saved state has behind it. Or is the state saved as it "
        "was before the step?",
        "count-begins-anew": "The batches go on, but the number that adam is called with begins "
        "at zero again.",
        "one-process-saved": "Only the shards of one process were saved, and the others are zero. "
        "Which process can read which shards, and who writes them?",
        "loss-after-its-step": "Each loss is that of the weights after its step. Expected: the "
        "loss before it, which adam returns.",
        "two-steps-mixed": "Some shards are those after this step, and others those of the step "
        "before. One process had replaced its file, and the other had not. Who decides that the "
        "checkpoint is complete, and when?",
        "begins-anew": "Training goes back too far. Is a checkpoint saved after each step? Is the "
        "newest one found (in alphabetical order, step-10 comes before step-9), is the number of "
        "steps in it, and does the loop begin there? Is each batch read when its step begins, and "
        "not earlier?",
        "torn-checkpoint": "The process was to be killed while it changed the folder. At that "
        "moment, which checkpoint could the next call read? Is one saved after each "
        "step, before the next batch is read? And is a complete one there at every moment, until "
        "the next one is complete?",
        "values": "Is all of the state saved, and each number with all of its digits? (A float16 "
        "has three.) Does each call of adam have the number of its step?",
        "not-finite": "Adam takes the root of the mean of the squares, which is never negative, "
        "and divides by numbers that are 0 for a step -1. Is each array restored from its own "
        "entry of the checkpoint, and are steps counted from 0?",
        "not-addressable": "A process can read only its own shards: collect the array first, as "
        "in 11.4, or have each process save what it has.",
        "file-not-found": "Does this file exist at that moment, whatever the number of processes "
        "is? If all of them rename or remove a file of the same name, only the first one finds it.",
        "other-number-of-losses": "Return the losses of this call's own steps, without those "
        "before a kill. Is the last step made?",
        "not-a-list": "float(value) turns a loss into a number. It is on all devices, so every "
        "process can do this.",
        "waits": "All processes run every computation with an array, also one that only collects "
        "it for the checkpoint. Does one process do that alone?",
    },
)

RESUMING: Final = (RESUME,)
