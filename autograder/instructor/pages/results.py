"""What became of each graded cell of a notebook, as its feedback page shows it."""

import functools
import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from autograder.exercises import BY_GRADE_ID, Exercise
from autograder.instructor.pages.clean_pages import markdown
from autograder.instructor.pages.shown_cells import raised, shown_cell
from autograder.judge import HEADLINES, MARKS, Parts, Verdict, headline, verdict_in_parts

WAITS: Final = "waits"
"""The state of what somebody has to grade by hand."""

SIGNS: Final = {**MARKS, WAITS: "?"}

MOST_RAISED: Final = 3
"""How many errors of the cells above a graded cell are said beside it."""

REMEMBERED: Final = 200
"""How many verdicts' pictures are remembered: many of a class have the same."""

EMPTY: Final = "No response."
"""What nbgrader comments where nobody has written anything; a verdict says it itself."""


@dataclass(frozen=True)
class Given:
    """What the gradebook has of a graded cell.

    Attributes:
        score: what counts.
        points: what it is worth.
        by_hand: what somebody has given; None where nobody has.
        extra: what somebody has given beyond.
        waits: whether somebody has to look at it.
    """

    score: float
    points: float
    by_hand: float | None = None
    extra: float = 0.0
    waits: bool = False


@dataclass(frozen=True)
class Raised:
    """An error that a cell ended with: the cell's place in the notebook, and the last line."""

    place: int
    last: str


@dataclass(frozen=True)
class Result:
    """What became of a graded cell.

    Attributes:
        anchor: what a link within the page leads to.
        state: `right`, `partly`, `wrong`, `unanswered`, `failed` or `waits`.
        short: what it is called where there is little room.
        name: what it is called, with how it stands.
        score: what counts.
        points: what it is worth.
        by_hand: whether it was judged, and somebody has given a score that counts instead.
        first: the first sentence, as HTML.
        pictures: as HTML.
        rest: all that is said besides, as HTML.
        said: what is to be known of the score, in sentences.
        comments: what somebody has written, as HTML.
        raised: the errors of the cells above it, and how many more there are.
        place: where the cell is in the notebook; None where it is not there.
    """

    anchor: str
    state: str
    short: str
    name: str
    score: float
    points: float
    by_hand: bool
    first: Markup
    pictures: Markup
    rest: Markup
    said: tuple[str, ...]
    comments: tuple[Markup, ...]
    raised: tuple[Raised, ...]
    more_raised: int
    place: int | None

    @property
    def sign(self) -> str:
        """The state as one character."""
        return SIGNS[self.state]


def results(
    cells: Sequence[Any],
    given: Mapping[str, Given],
    comments: Mapping[str, str],
    verdicts: Mapping[str, Verdict],
    room: dict[str, Any],
) -> Iterator[Result]:
    """The results of a notebook, in the order of its cells; what it does not have comes last.

    Args:
        cells: those of the graded notebook.
        given: what the gradebook has, by the names of graded cells.
        comments: what somebody has written, by the names of cells.
        verdicts: those that are kept, by the ids of exercises.
        room: what there is room for on the page.
    """
    left = dict(comments)
    errors: list[Raised] = []
    named = {_name(cell): place for place, cell in enumerate(cells) if _name(cell) in given}
    above = 0
    for name, place in [*named.items(), *((name, None) for name in given if name not in named)]:
        if place is not None:
            span = range(above, place if name in BY_GRADE_ID else place + 1)
            errors = [Raised(n, last) for n in span if (last := raised(cells[n]))]
            above = place + 1
            theirs = [_name(cells[n]) for n in range(span.start, place + 1)]
        else:
            errors, theirs = [], [name]
        exercise = BY_GRADE_ID.get(name)
        verdict = verdicts.get(exercise.id) if exercise else None
        written = [left.pop(each) for each in theirs if each in left]
        if verdict is not None:
            written = [words for words in written if words != EMPTY]
        cell = None if place is None else cells[place]
        first, pictures, rest = _parts(cell, verdict, given[name], room)
        words = html.unescape(Markup(first).striptags())
        errors = [error for error in errors if error.last not in words]  # it is said already
        yield Result(
            f"result-{name}",
            _state(verdict, given[name]),
            exercise.id if exercise else name,
            _called(name, cell, exercise, verdict, given[name]),
            given[name].score,
            given[name].points,
            verdict is not None and given[name].by_hand is not None,
            Markup(first),
            Markup(pictures),
            Markup(rest),
            tuple(_of_score(given[name], verdict)),
            tuple(Markup(markdown({"resources": room}, words)) for words in written),
            tuple(errors[:MOST_RAISED]),
            max(len(errors) - MOST_RAISED, 0),
            place,
        )


def is_judged(cell: Any, verdicts: Mapping[str, Verdict]) -> bool:
    """Whether a cell is a check on which there is a verdict."""
    exercise = BY_GRADE_ID.get(_name(cell))
    return exercise is not None and exercise.id in verdicts


def _name(cell: Any) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def _state(verdict: Verdict | None, given: Given) -> str:
    """How a cell stands; what somebody has given by hand has the last word."""
    if given.by_hand is None and (verdict is not None or given.waits):
        return verdict.state if verdict is not None else WAITS
    return "right" if given.score >= given.points else "partly" if given.score > 0 else "wrong"


def _called(
    name: str, cell: Any, exercise: Exercise | None, verdict: Verdict | None, given: Given
) -> str:
    """What a cell is called, and, where it is judged, how it stands."""
    if verdict is not None and given.by_hand is None:
        return headline(verdict).partition(" ")[2]
    if exercise is not None:
        stands = HEADLINES.get(_state(verdict, given))
        return f"{exercise.id} {exercise.title}{f': {stands}' if stands else ''}"
    about = {} if cell is None else cell.metadata["nbgrader"]
    kind = "Test"
    if about.get("task"):
        kind = "Task"
    elif about.get("solution"):
        kind = "Written answer" if cell.cell_type == "markdown" else "Code"
    return f"{kind} {name}"


def _parts(
    cell: Any,
    verdict: Verdict | None,
    given: Given,
    room: dict[str, Any],
) -> Parts:
    """What is said of a cell, and drawn."""
    if verdict is not None:
        return _drawn(verdict, given.by_hand is None)
    if cell is None:
        return Parts("<p>This cell is not in what was handed in.</p>", "", "")
    about = cell.metadata["nbgrader"]
    if about.get("solution") or about.get("task"):
        waits = given.waits and given.by_hand is None
        first = "<p>This is graded by hand, and has no score yet.</p>" if waits else ""
        return Parts(first, "", f'<div class="answer">{shown_cell(cell, room)}</div>')
    if BY_GRADE_ID.get(_name(cell)) is not None:  # graded by a version that kept no verdicts
        return Parts(shown_cell(cell, room, outputs_alone=True), "", "")
    if raised(cell):
        return Parts("", "", "")  # the error is said
    passed = given.score >= given.points
    return Parts("<p>The test passed.</p>" if passed else "", "", "")


@functools.lru_cache(REMEMBERED)
def _drawn(verdict: Verdict, way_on: bool) -> Parts:
    return verdict_in_parts(verdict, way_on)


def _of_score(given: Given, verdict: Verdict | None) -> Iterator[str]:
    """What is to be known of a score, in sentences."""
    if given.by_hand is not None:
        yield f"Given by hand: {_number(given.by_hand)} of {_number(given.points)}."
        if verdict is not None:
            yield f"Judging it found {_number(verdict.score * given.points)}."
    if given.extra:
        yield f"Of its score, {_number(given.extra)} is extra credit."
    if given.waits and given.by_hand is not None:
        yield "It has been graded again since, so somebody will look at that score again."
    elif given.waits and verdict is not None:
        yield "Somebody will look at it, too."


def _number(number: float) -> str:
    return f"{round(number, 2):g}"
