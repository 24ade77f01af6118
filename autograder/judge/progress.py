"""Remember a learner's progress in a small file; show it, and show hints."""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from platformdirs import user_state_path

from autograder.atomic_files import write_atomically
from autograder.explanations import report_address
from autograder.judge.exercise import Exercise
from autograder.judge.prose import mark_up
from autograder.judge.report import COLOURS, MARKS
from autograder.judge.showing_verdicts import show_document
from shardlings.documents import (
    Bar,
    Content,
    Document,
    Heading,
    Link,
    Paragraph,
    Table,
    TableRow,
)

_in_memory: dict[str, str] = {}
"""The states that this kernel has seen, in case the file cannot be written."""

Notebooks = Mapping[str, Sequence[Exercise]]

HINT_COLOUR: Final = "#2f6fab"

SPELLINGS: Final = {"Fft": "FFT", "Pmap": "pmap", "Shard map": "shard_map"}
"""The spellings of names that begin titles, and would be capitalised like other words there."""

COLAB: Final = "https://colab.research.google.com/github/"
GITHUB: Final = "https://github.com/"


def progress_file() -> Path:
    """Return the file with the progress; `SHARDLINGS_STATE` in the environment sets its folder."""
    folder = os.environ.get("SHARDLINGS_STATE")
    return (Path(folder) if folder else user_state_path("shardlings")) / "progress.json"


def remember(exercise_id: str, state: str) -> None:
    """Remember a check's result. A right exercise stays right; unanswered ones are ignored."""
    if state == "unanswered" or recall_progress().get(exercise_id) == "right":
        return
    states = {**recall_progress(), exercise_id: state}
    _in_memory[exercise_id] = state
    path = progress_file()
    with suppress(OSError):  # the home folder is read-only; this kernel still remembers
        path.parent.mkdir(parents=True, exist_ok=True)
        # another kernel would read half of it as no progress
        write_atomically(path, json.dumps(states, indent=1, sort_keys=True).encode())


def recall_progress() -> dict[str, str]:
    """Return the state of each exercise that was checked: `right`, `partly` or `wrong`."""
    try:
        kept = json.loads(progress_file().read_text())
    except (OSError, ValueError):
        kept = {}
    known = kept if isinstance(kept, dict) else {}
    states = {str(key): str(state) for key, state in known.items()}
    return states | {key: s for key, s in _in_memory.items() if states.get(key) != "right"}


def show_hint(exercise: Exercise, number: int) -> None:
    """Show one of an exercise's hints, and whether there are more."""
    title = f"Hint {number + 1} of {len(exercise.hints)} for {exercise.id} {exercise.title}"
    call = f'hint("{exercise.id}")'
    if number + 1 < len(exercise.hints):
        more = f"Run {call} again for the next one."
    else:
        more = f"That was the last hint; {call} begins again with the first."
    hint = Paragraph(mark_up(exercise.hints[number]))
    show_document(Document((Heading(title), hint, Paragraph(mark_up(more))), edge=HINT_COLOUR))


def show_progress(notebooks: Notebooks) -> None:
    """Show how many exercises of each notebook are done, and list those of unfinished notebooks.

    Args:
        notebooks: the exercises of each notebook, by its name. One without exercises is not shown.
    """
    states = recall_progress()
    rows = tuple(
        _row(notebook, exercises, states) for notebook, exercises in notebooks.items() if exercises
    )
    show_document(Document((Table((), rows), Paragraph(_next(notebooks, states)))))


def title_of(notebook: str) -> str:
    """Return a notebook's title, such as `01 Sharding basics`."""
    number, _, name = notebook.partition("_")
    title = f"{name[:1].upper()}{name[1:].replace('_', ' ')}"
    for capitalised, spelling in SPELLINGS.items():
        title = re.sub(rf"^{capitalised}\b", spelling, title)
    return f"{number} {title}"


def link_to(notebook: str) -> str:
    """Return a notebook's address for links from other notebooks.

    That is a relative path, except in Colab, where no files lie beside a notebook.
    """
    path = f"{notebook}/{notebook}.ipynb"
    if "google.colab" in sys.modules and report_address().startswith(GITHUB):
        repository = report_address().removeprefix(GITHUB).rstrip("/")
        return f"{COLAB}{repository}/blob/main/course/{path}"
    return f"../{path}"


def _row(notebook: str, exercises: Sequence[Exercise], states: Mapping[str, str]) -> TableRow:
    """Return a notebook's row; below it are its exercises, if it was begun and is not done."""
    total = len(exercises)
    done = sum(states.get(exercise.id) == "right" for exercise in exercises)
    in_words = f"{done} of {total} done"
    bar = Bar(done / total, in_words, squares=total, colour=COLOURS["right"])
    below: tuple[str, ...] = ()
    if done < total and any(e.id in states for e in exercises):
        below = tuple(
            f"{MARKS[states.get(e.id, 'unanswered')]} {e.id} {e.title}" for e in exercises
        )
    return TableRow((_link(notebook), bar, in_words), below)


def _next(notebooks: Notebooks, states: Mapping[str, str]) -> Content:
    """Return the first exercise that is left to do, with a link to its notebook."""
    for notebook, exercises in notebooks.items():
        for exercise in exercises:
            if states.get(exercise.id) != "right":
                return (f"Next: {exercise.id} {exercise.title}, in ", _link(notebook))
    return "All exercises are done."


def _link(notebook: str) -> Link:
    return Link(title_of(notebook), link_to(notebook))
