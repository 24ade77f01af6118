"""The designs of a class, by time and memory, in exercises that trade one for the other."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from autograder.instructor.classroom.grade_table import number
from autograder.instructor.classroom.kept_answers import Submission
from autograder.judge import Trade, Verdict
from autograder.pictures import class_tradeoff_as_html

BEYOND_A_BUDGET: Final = ("over-the-cap", "sends-too-much")
"""The diagnoses of designs that compute what is asked, and are beyond a budget."""

DISCOVERY: Final = 0.99
"""A design is called faster than the best known one if it takes at most this share of its time."""


@dataclass(frozen=True)
class Design:
    """One design, and how many have it.

    Attributes:
        place: its place by time; a dash where it is beyond a budget.
        count: how many submissions have this design.
        time: what it takes, in words.
        held: what it holds on each device, in words.
        score: the share of the points that it earns.
        remark: that it is beyond a budget, or faster than the best known design.
    """

    place: str
    count: int
    time: str
    held: str
    score: str
    remark: str


@dataclass(frozen=True)
class Designs:
    """The designs of a class, the fastest first and those beyond a budget last; names nobody.

    Attributes:
        picture: the designs beside the best known ones.
        rows: one for each design.
    """

    picture: Markup
    rows: Sequence[Design]


def designs_of(name: str, submissions: Sequence[Submission]) -> Designs | None:
    """The designs that a class handed in for an exercise; None where it is about no trade."""
    found: Counter[tuple[bool, int, int, float]] = Counter()
    known: Trade | None = None
    for submission in submissions:
        verdict = submission.verdicts.get(name)
        trade = _trade(verdict)
        if verdict is None or trade is None or trade.unit != "microseconds":
            continue
        is_beyond = any(d in BEYOND_A_BUDGET for d in verdict.diagnoses)
        found[is_beyond, trade.costs, trade.held, verdict.score] += 1
        known = trade
    if known is None:
        return None
    rows: list[Design] = []
    running: list[tuple[str, tuple[int, int]]] = []
    beyond: list[tuple[int, int]] = []
    faster = 0
    for (is_beyond, time, held, score), count in sorted(found.items()):
        place, remark = str(faster + 1), "faster than was known" * _is_new(known, time)
        if is_beyond:
            place, remark = "–", "beyond a budget"
            beyond.append((held, time))
        else:
            running.append((place, (held, time)))
        faster += count
        times, bytes_held = f"{time / 1e3:,.2f} ms", f"{held / 2**20:,.0f} MiB"
        rows.append(Design(place, count, times, bytes_held, number(score), remark))
    picture = class_tradeoff_as_html(running, beyond, known.cap, known.frontier, known.unit)
    return Designs(Markup(picture), rows)


def _trade(verdict: Verdict | None) -> Trade | None:
    findings = verdict.findings if verdict is not None else ()
    return next((finding.trade for finding in findings if finding.trade is not None), None)


def _is_new(known: Trade, time: int) -> bool:
    return time < DISCOVERY * min(costs for held, costs in known.frontier if held <= known.cap)
