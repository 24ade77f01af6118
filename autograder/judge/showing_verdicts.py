"""Show verdicts with their pictures: as HTML, as text, and in a terminal."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from autograder.judge.report import COLOURS, MARKS, badge, report_on
from autograder.judge.trade_charts import attempts_as_html
from autograder.judge.verdict import Finding, Trade, Verdict
from autograder.judge.wording import in_ms, in_percent
from shardlings.documents import (
    Block,
    Document,
    Figure,
    Heading,
    Paragraph,
    as_html,
    as_rich,
    as_text,
)
from shardlings.layouts import YOURS, comparison_pictures
from shardlings.pictures import (
    Picture,
    blocks_as_html,
    blocks_for_terminal,
    display,
    gantt_as_html,
    gantt_as_text,
    pictures_as_text,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

HEADLINES: Final = {
    "right": "right",
    "partly": "partly right",
    "wrong": "not yet",
    "unanswered": "not answered yet",
    "failed": "not judged, and not your answer's fault",
}

ALL_RIGHT: Final = Paragraph("All of it is right.")
"""The first sentence where nothing is wrong and a table shows what is right."""

Attempts = Mapping[str, Sequence[Trade]]
"""The trades that were tried, for each answer that trades one thing for another."""

_attempts: Final[dict[str, dict[str, list[Trade]]]] = {}
"""The attempts in this kernel, by exercise and answer."""


def pictures_of(
    verdict: Verdict, whole: bool = False, title: str = YOURS
) -> list[Sequence[Picture]]:
    """Return rows of pictures: single pictures side by side, then a row for each comparison.

    Unless `whole`, only what is wrong is drawn, as long as something is.

    Args:
        verdict: the verdict.
        whole: whether to draw everything: what is right, too, and the target where an answer has
            no layout.
        title: the title of an answer's picture.
    """
    several = len({finding.answer for finding in verdict.findings}) > 1
    drawn = dict.fromkeys(
        (finding.answer, finding.made, finding.target)
        for finding in verdict.findings
        if finding.target and (whole or _is_telling(finding, verdict))
    )
    rows = [
        [
            replace(p, code=answer if several else "")
            for p in comparison_pictures(actual, target, title)
        ]
        for answer, actual, target in drawn
    ]
    single = [picture for row in rows if len(row) == 1 for picture in row]
    return [*([single] if single else []), *(row for row in rows if len(row) > 1)]


def _is_telling(finding: Finding, verdict: Verdict) -> bool:
    if finding.made is None:
        return False
    return verdict.state == "right" or (not finding.met and finding.made != finding.target)


def headline(verdict: Verdict) -> str:
    """Return one line: the mark, the exercise, and the verdict's state."""
    return f"{MARKS[verdict.state]} {_exercise_and_state(verdict)}"


def _exercise_and_state(verdict: Verdict, in_class: bool = True) -> str:
    if in_class or any(finding.credit for finding in verdict.findings):
        share = in_percent(verdict.score) if verdict.state == "partly" else ""
    else:
        share = _count_right(verdict)
    separator = " –" if verdict.title.endswith("?") else ":"
    state = f"{HEADLINES[verdict.state]} ({share})" if share else HEADLINES[verdict.state]
    return f"{verdict.exercise} {verdict.title}{separator} {state}"


def _count_right(verdict: Verdict) -> str:
    """Return how much has a ✓ in the tables: `2 of 10 entries`, `2 of 3 parts`, or nothing."""
    parts: dict[tuple[str, str], bool] = {}
    for finding in verdict.findings:
        part = finding.answer, finding.cell or finding.about
        parts[part] = parts.get(part, True) and finding.met
    right = sum(parts.values())
    noun = "entries" if all(finding.cell for finding in verdict.findings) else "parts"
    share = f"{right} of {len(parts)} {noun}"
    if verdict.state != "partly":  # after "not yet", the number might be that of mistakes
        share = f"{share} {'is' if right == 1 else 'are'} right"
    return share if 0 < right < len(parts) else ""


def list_sentences(verdict: Verdict) -> list[str]:
    """Return the lines below the headline, without pictures: the cause, the rest, the way on."""
    report = report_on(verdict)
    blocks = (*report.first, *report.rest, *report.notes, *report.way_on)
    return as_text(Document(blocks)).splitlines()


def verdict_document(
    verdict: Verdict,
    earlier: Attempts | None = None,
    whole: bool = False,
    in_class: bool = True,
) -> Document:
    """Return the verdict as a document.

    Args:
        verdict: the verdict.
        earlier: for each answer that trades one thing for another, the attempts before this one.
        whole: for a page that is read later, or printed: details are unfolded, and everything is
            drawn; see `pictures_of`.
        in_class: whether to say which score the answer earns, and why. Without a class, there are
            no points, and the headline counts what is right.
    """
    report = report_on(verdict, unfolded=whole)
    return Document(
        (
            Heading((badge(verdict.state), f" {_exercise_and_state(verdict, in_class)}")),
            *report.first,
            *_earlier_times(verdict, earlier or {}),
            *report.rest,
            *_trade_figures(verdict, earlier or {}),
            *_figures(pictures_of(verdict, whole)),
            *_chart_figures(verdict),
            *(report.notes if in_class else ()),
            *report.way_on,
        ),
        edge=COLOURS[verdict.state],
    )


def verdict_as_text(verdict: Verdict) -> str:
    """Return the whole verdict as plain text, with pictures."""
    return as_text(verdict_document(verdict))


def verdict_in_lines(verdict: Verdict) -> str:
    """Return the verdict in short lines, because `nbgrader validate` cuts long ones."""
    wrapped = [textwrap.fill(line, 80, subsequent_indent="  ") for line in list_sentences(verdict)]
    return "\n".join([f"{headline(verdict)}.", *wrapped])


def verdict_for_terminal(verdict: Verdict) -> "RenderableType":
    """Return the verdict for a terminal."""
    return as_rich(verdict_document(verdict))


def verdict_as_html(verdict: Verdict, earlier: Attempts | None = None, whole: bool = False) -> str:
    """Return the verdict as HTML; see `verdict_document`."""
    return as_html(verdict_document(verdict, earlier, whole))


def show_document(document: Document) -> None:
    """Show a document, in a notebook or in a terminal."""
    display(as_html(document), as_text(document), lambda: as_rich(document))


def show_verdict(verdict: Verdict) -> None:
    """Show a verdict to a learner, in a notebook or in a terminal."""
    earlier = _attempts.setdefault(verdict.exercise, {})
    show_document(verdict_document(verdict, earlier, in_class=False))
    for finding in verdict.findings:
        if finding.trade is not None:
            earlier.setdefault(finding.answer, []).append(finding.trade)


class VerdictParts(NamedTuple):
    """A verdict as HTML, in the parts that feedback pages have places for.

    Attributes:
        first: the first cause, or what is right; it may be empty.
        pictures: the answers, and the expected layouts; it may be empty.
        rest: everything else; it may be empty.
    """

    first: str
    pictures: str
    rest: str


def verdict_in_parts(verdict: Verdict, way_on: bool = True, title: str = YOURS) -> VerdictParts:
    """Return the verdict as HTML in parts, with all details, for a page that is read later.

    Args:
        verdict: the verdict.
        way_on: whether to say how to go on; a page on which somebody has given another score
            leaves it out.
        title: the title of an answer's picture; the answer may be somebody else's.
    """
    report = report_on(verdict, unfolded=True)
    first: tuple[Block, ...] = report.first
    if not first and verdict.state == "right":
        first = (ALL_RIGHT,)
    layouts = pictures_of(verdict, whole=True, title=title)
    pictures = (*_figures(layouts), *_chart_figures(verdict), *_trade_figures(verdict, {}))
    rest = (*report.rest, *report.notes, *(report.way_on if way_on else ()))
    return VerdictParts(*(as_html(Document(blocks)) for blocks in (first, pictures, rest)))


def _figures(rows: Sequence[Sequence[Picture]]) -> Iterator[Figure]:
    for row in rows:
        yield Figure(
            html=partial(blocks_as_html, row),
            text=partial(pictures_as_text, row),
            rich=partial(blocks_for_terminal, row),
        )


def _earlier_times(verdict: Verdict, earlier: Attempts) -> Iterator[Paragraph]:
    """Yield how long each trade's most expensive item took in the last attempt."""
    for finding in verdict.findings:
        attempts = earlier.get(finding.answer, ())
        if finding.trade is None or finding.credit is None or not attempts:
            continue
        before = attempts[-1]
        earlier_items = dict(before.items)
        items = finding.trade.items
        if not (earlier_items and items) or _times_by_kind(before) == _times_by_kind(finding.trade):
            continue  # there are none, or this is the same attempt again
        (name, took), *_ = items
        kind = _kind_of(name)
        if name not in earlier_items and kind in _times_by_kind(before):
            # the axes may only be called otherwise
            name, took = f"the {kind}s together", _times_by_kind(finding.trade)[kind]
            earlier_items[name] = _times_by_kind(before)[kind]
        in_all = f"and everything {_cost_in_ms(before.costs)}"
        if name not in earlier_items:
            largest, largest_took = before.items[0]
            had = f"there was no {name}; {largest} took {_cost_in_ms(largest_took)}"
            yield Paragraph(f"In your last attempt, {had}, {in_all}.")
        elif earlier_items[name] == took:
            yield Paragraph(f"In your last attempt, {name} took as long, {in_all}.")
        else:
            then = _cost_in_ms(earlier_items[name])
            yield Paragraph(f"In your last attempt, {name} took {then}, {in_all}.")


def _kind_of(item: str) -> str:
    """Return the kind of collective of an item such as `all-gather of x over data`."""
    return item.partition(" ")[0]


def _times_by_kind(trade: Trade) -> dict[str, int]:
    """Add up the times of items of one kind: their names contain those of mesh axes."""
    times: dict[str, int] = {}
    for name, took in trade.items:
        times[_kind_of(name)] = times.get(_kind_of(name), 0) + took
    return times


def _cost_in_ms(microseconds: int) -> str:
    """Return a cost of a trade that has items: these costs are in microseconds."""
    return in_ms(microseconds / 1e6)


def _trade_figures(verdict: Verdict, earlier: Attempts) -> Iterator[Figure]:
    """Yield a chart for each trade: the attempts, the latest last, and the best that is known."""
    for finding in verdict.findings:
        last = finding.trade
        if last is not None:
            attempts = [*earlier.get(finding.answer, ()), last]
            yield Figure(partial(attempts_as_html, finding.answer, attempts))


def _chart_figures(verdict: Verdict) -> Iterator[Figure]:
    """Yield the charts of each finding, on one scale."""
    several = len({finding.answer for finding in verdict.findings}) > 1
    for finding in verdict.findings:
        if finding.charts:
            charts = [
                replace(chart, title=f"{finding.answer}: {chart.title}") if several else chart
                for chart in finding.charts
            ]
            yield Figure(partial(gantt_as_html, charts), partial(gantt_as_text, charts))
