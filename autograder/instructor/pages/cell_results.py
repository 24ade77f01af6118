"""The result of each graded cell, for a feedback page."""

import functools
import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from autograder.exercises import BY_GRADE_ID, Exercise
from autograder.instructor.course import NOT_RUN
from autograder.instructor.gradebook import Mark
from autograder.instructor.pages.clean_pages import render_markdown
from autograder.instructor.pages.page_templates import format_points
from autograder.instructor.pages.shown_cells import find_error_line, render_cell
from autograder.judge import HEADLINES, MARKS, Verdict, VerdictParts, headline, verdict_in_parts
from shardlings.documents import Document, Paragraph, as_html

WAITS: Final = "waits"
"""The state of a cell that has to be graded manually."""

SIGNS: Final = {**MARKS, WAITS: "?"}

MAX_ERRORS_ABOVE: Final = 3
"""The most errors of the cells above that are listed beside a graded cell."""

MAX_CACHED_VERDICTS: Final = 200
"""Verdicts whose HTML is cached, because many of a class are the same."""

NO_RESPONSE: Final = "No response."
"""nbgrader's own comment on an empty answer, which a verdict already says."""


@dataclass(frozen=True)
class Raised:
    """An error that a cell ended with.

    Attributes:
        place: the cell's index in the notebook.
        last: the error's last line.
    """

    place: int
    last: str

    @property
    def is_not_run(self) -> bool:
        """True if the kernel had died before the cell had run to its end."""
        return self.last.startswith(f"{NOT_RUN}: ")


@dataclass(frozen=True)
class CellResult:
    """The result of a graded cell.

    Attributes:
        anchor: the target of links within the page.
        state: `right`, `partly`, `wrong`, `unanswered`, `failed` or `waits`.
        short: a short name.
        name: the name, with the state in words.
        score: the score that counts.
        points: the most that the cell is worth.
        is_graded_by_hand: whether an instructor's score replaces the judge's.
        first: the first sentence, as HTML.
        pictures: the pictures, as HTML.
        rest: everything else, as HTML.
        said: sentences about the score.
        comments: the instructors' comments, as HTML.
        raised: errors of the cells above.
        more_raised: how many more cells above ended with an error.
        place: the cell's index in the notebook; None if the notebook lacks it.
    """

    anchor: str
    state: str
    short: str
    name: str
    score: float
    points: float
    is_graded_by_hand: bool
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


def list_results(
    cells: Sequence[Any],
    marks: Mapping[str, Mark],
    comments: Mapping[str, str],
    verdicts: Mapping[str, Verdict],
    resources: dict[str, Any],
) -> Iterator[CellResult]:
    """Yield a notebook's results in the order of its cells; missing cells come last.

    Args:
        cells: the graded notebook's cells.
        marks: the gradebook's marks, by the names of graded cells.
        comments: instructors' comments, by the names of cells.
        verdicts: the kept verdicts, by the ids of exercises.
        resources: nbconvert's resources, which count the tags on the page.
    """
    left = dict(comments)
    errors: list[Raised] = []
    named = {_name(cell): place for place, cell in enumerate(cells) if _name(cell) in marks}
    next_place = 0
    for name, place in [*named.items(), *((name, None) for name in marks if name not in named)]:
        if place is not None:
            span = range(next_place, place if name in BY_GRADE_ID else place + 1)
            errors = [Raised(n, last) for n in span if (last := find_error_line(cells[n]))]
            next_place = place + 1
            theirs = [_name(cells[n]) for n in range(span.start, place + 1)]
        else:
            errors, theirs = [], [name]
        exercise = BY_GRADE_ID.get(name)
        verdict = verdicts.get(exercise.id) if exercise else None
        written = [left.pop(each) for each in theirs if each in left]
        if verdict is not None:
            written = [text for text in written if text != NO_RESPONSE]
        cell = None if place is None else cells[place]
        first, pictures, rest = _parts(cell, verdict, marks[name], resources)
        first_words = html.unescape(Markup(first).striptags())
        errors = [error for error in errors if error.last not in first_words]
        yield CellResult(
            f"result-{name}",
            _state(verdict, marks[name]),
            exercise.id if exercise else name,
            _name_and_state(name, cell, exercise, verdict, marks[name]),
            marks[name].score,
            marks[name].points,
            verdict is not None and marks[name].manual_score is not None,
            Markup(first),
            Markup(pictures),
            Markup(rest),
            tuple(_about_score(marks[name], verdict)),
            tuple(Markup(render_markdown({"resources": resources}, text)) for text in written),
            tuple(errors[:MAX_ERRORS_ABOVE]),
            max(len(errors) - MAX_ERRORS_ABOVE, 0),
            place,
        )


def is_judged(cell: Any, verdicts: Mapping[str, Verdict]) -> bool:
    """Check whether a cell is a check that has a verdict."""
    exercise = BY_GRADE_ID.get(_name(cell))
    return exercise is not None and exercise.id in verdicts


def _name(cell: Any) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def _state(verdict: Verdict | None, mark: Mark) -> str:
    """Return a cell's state; an instructor's score has the last word."""
    if mark.manual_score is None and (verdict is not None or mark.needs_a_look):
        return verdict.state if verdict is not None else WAITS
    return "right" if mark.score >= mark.points else "partly" if mark.score > 0 else "wrong"


def _name_and_state(
    name: str, cell: Any, exercise: Exercise | None, verdict: Verdict | None, mark: Mark
) -> str:
    """Return a cell's name and, if it is judged, its state."""
    if verdict is not None and mark.manual_score is None:
        return headline(verdict).partition(" ")[2]
    if exercise is not None:
        stands = HEADLINES.get(_state(verdict, mark))
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
    mark: Mark,
    resources: dict[str, Any],
) -> VerdictParts:
    """Return the parts of a cell's result, as HTML."""
    if verdict is not None:
        return _verdict_parts(verdict, mark.manual_score is None)
    if cell is None:
        return VerdictParts(_sentence("This cell is not in what was handed in."), "", "")
    about = cell.metadata["nbgrader"]
    if about.get("solution") or about.get("task"):
        is_waiting = mark.needs_a_look and mark.manual_score is None
        first = _sentence("This is graded by hand, and has no score yet.") if is_waiting else ""
        return VerdictParts(first, "", render_cell(cell, resources))
    if BY_GRADE_ID.get(_name(cell)) is not None:  # its record is lost
        return VerdictParts(render_cell(cell, resources, is_source_hidden=True), "", "")
    if find_error_line(cell):
        return VerdictParts("", "", "")  # the page lists the error
    has_passed = mark.score >= mark.points
    return VerdictParts(_sentence("The test passed.") if has_passed else "", "", "")


def _sentence(text: str) -> str:
    return as_html(Document((Paragraph(text),)))


@functools.lru_cache(MAX_CACHED_VERDICTS)
def _verdict_parts(verdict: Verdict, way_on: bool) -> VerdictParts:
    return verdict_in_parts(verdict, way_on)


def _about_score(mark: Mark, verdict: Verdict | None) -> Iterator[str]:
    """Yield sentences about a score."""
    if mark.manual_score is not None:
        yield f"Given by hand: {format_points(mark.manual_score)} of {format_points(mark.points)}."
        if verdict is not None:
            yield f"Judging it found {format_points(verdict.score * mark.points)}."
    if mark.extra_credit:
        yield f"Of its score, {format_points(mark.extra_credit)} is extra credit."
    if mark.needs_a_look and mark.manual_score is not None:
        yield "It has been graded again since, so somebody will look at that score again."
    elif mark.needs_a_look and verdict is not None:
        yield "Somebody will look at it, too."
