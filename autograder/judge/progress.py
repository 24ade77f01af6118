"""Remember a learner's progress in a small file; show it, the next hint and what is left."""

import html
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from platformdirs import user_state_path

from autograder.errors import address
from autograder.judge.exercise import Exercise
from autograder.judge.rendering import COLOURS, words
from autograder.judge.report import MARKS
from autograder.pictures import display

if TYPE_CHECKING:
    from rich.console import RenderableType

_in_memory: dict[str, str] = {}
Notebooks = Mapping[str, Sequence[Exercise]]

HINT: Final = "#2f6fab"
"""The colour of a hint's edge."""

SPELT: Final = {"Fft": "FFT", "Pmap": "pmap", "Shard map": "shard_map"}
"""How names are spelt that the titles of notebooks begin with."""

COLAB: Final = "https://colab.research.google.com/github/"
GITHUB: Final = "https://github.com/"


def path() -> Path:
    """Where progress is kept; the variable `SHARDLINGS_STATE` names another folder."""
    folder = os.environ.get("SHARDLINGS_STATE")
    return (Path(folder) if folder else user_state_path("shardlings")) / "progress.json"


def remember(exercise_id: str, state: str) -> None:
    """Remember how a check came out. What was right once stays so; an empty cell is no check."""
    if state == "unanswered" or remembered().get(exercise_id) == "right":
        return
    states = {**remembered(), exercise_id: state}
    _in_memory[exercise_id] = state
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        path().write_text(json.dumps(states, indent=1, sort_keys=True))
    except OSError:
        pass  # a read-only home: this kernel still remembers


def remembered() -> dict[str, str]:
    """The state of each exercise that was checked: `right`, `partly`, `wrong`, `unanswered`."""
    try:
        kept = json.loads(path().read_text())
    except (OSError, ValueError):
        kept = {}
    known = kept if isinstance(kept, dict) else {}
    return {**{str(key): str(state) for key, state in known.items()}, **_in_memory}


def show_hint(exercise: Exercise, number: int) -> None:
    """Show one of an exercise's hints, and whether there are more."""
    place = f"Hint {number + 1} of {len(exercise.hints)} for {exercise.id} {exercise.title}"
    hint, call = exercise.hints[number], f'hint("{exercise.id}")'
    if number + 1 < len(exercise.hints):
        more = f"Run {call} again for the next one."
    else:
        more = f"That was the last hint; {call} begins again with the first."
    page = (
        f'<div style="border-left:4px solid {HINT};padding:2px 0 2px 12px">'
        f'<div style="font-weight:600">{html.escape(place)}</div>'
        f'<div style="margin:4px 0">{words(hint)}</div><div>{words(more)}</div></div>'
    )
    text = f"{place}\n{hint}\n{more}"
    display(page, text, lambda: _plain(text))


def show_progress(notebooks: Notebooks) -> None:
    """Show how many exercises are done; and of the notebooks that were begun, which are left.

    Args:
        notebooks: the exercises of each, by its name.
    """
    text = "\n".join(_in_lines(notebooks))
    rows = "".join(_rows(notebooks))
    page = f'<table style="border-collapse:collapse;margin:4px 0"><tbody>{rows}</tbody></table>'
    display(f"{page}{_next(notebooks)}", text, lambda: _plain(text))


def title_of(notebook: str) -> str:
    """A notebook's name as one reads it: `01 Sharding basics`."""
    number, _, name = notebook.partition("_")
    title = f"{name[:1].upper()}{name[1:].replace('_', ' ')}"
    for capital, spelt in SPELT.items():
        title = re.sub(rf"^{capital}\b", spelt, title)
    return f"{number} {title}"


def link_to(notebook: str) -> str:
    """Where a notebook is, seen from another: in Colab, where no file lies beside it, its page."""
    path = f"{notebook}/{notebook}.ipynb"
    if "google.colab" in sys.modules and address().startswith(GITHUB):
        repository = address().removeprefix(GITHUB).rstrip("/")
        return f"{COLAB}{repository}/blob/main/course/{path}"
    return f"../{path}"


def _done(exercises: Sequence[Exercise], states: dict[str, str]) -> int:
    return sum(states.get(exercise.id) == "right" for exercise in exercises)


def _in_lines(notebooks: Notebooks) -> Iterator[str]:
    states, width = remembered(), max(map(len, map(title_of, notebooks)))
    for notebook, exercises in notebooks.items():
        done = _done(exercises, states)
        bar = "■" * done + "□" * (len(exercises) - done)
        yield f"{title_of(notebook):<{width}}  {bar}  {done} of {len(exercises)} done"
        if done < len(exercises) and any(e.id in states for e in exercises):
            for e in exercises:
                yield f"  {MARKS[states.get(e.id, 'unanswered')]} {e.id} {e.title}"


def _rows(notebooks: Notebooks) -> Iterator[str]:
    """A row for each notebook, with a bar; and below those that were begun, their exercises."""
    states, cell = remembered(), "text-align:left;vertical-align:middle;padding:3px 16px 3px 0"
    for notebook, exercises in notebooks.items():
        done, of = _done(exercises, states), len(exercises)
        yield (
            f'<tr><td style="{cell}">{_link(notebook)}</td><td style="{cell}">'
            f'<div style="width:120px;background-color:rgba(128,128,128,.3)">'
            f'<div style="height:8px;width:{done / of:.0%};background-color:{COLOURS["right"]}">'
            f"</div></div></td>"
            f'<td style="{cell}">{done} of {of} done</td></tr>'
        )
        if done < of and any(e.id in states for e in exercises):
            each = "<br>".join(
                f"{MARKS[states.get(e.id, 'unanswered')]} {e.id} {html.escape(e.title)}"
                for e in exercises
            )
            yield f'<tr><td colspan="3" style="{cell};padding-left:16px">{each}</td></tr>'


def _next(notebooks: Notebooks) -> str:
    """The first exercise that is left to do, with a link to its notebook."""
    states, said = remembered(), "All exercises are done."
    left = ((n, e) for n, es in notebooks.items() for e in es if states.get(e.id) != "right")
    for notebook, exercise in left:
        title = html.escape(exercise.title)
        said = f"Next: {exercise.id} {title}, in {_link(notebook)}"
        break
    return f'<div style="margin:6px 0">{said}</div>'


def _link(notebook: str) -> str:
    named = html.escape(title_of(notebook))
    return f'<a href="{link_to(notebook)}" style="color:inherit">{named}</a>'


def _plain(text: str) -> "RenderableType":
    from rich.text import Text

    return Text(text)
