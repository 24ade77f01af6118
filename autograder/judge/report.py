"""Order what a verdict says: one cause first, and what only follows from it below.

Text, terminals and notebooks say the same; how they draw it is `rendering`'s.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from autograder.errors import explanation
from autograder.judge.verdict import OF_THE_CHECK, Finding, Verdict

NOT_BY_HAND: Final = ("no-shard-map", "outside-the-body", "makes-no-difference")
"""What is found where a program leaves to the compiler what it was to do by hand."""

NOT_COUNTED: Final = "not-counted-yet"

ORDER: Final = ("values", "layout")
"""What has to be right before what costs is looked at."""

UNEXPLAINED: Final = ("values", "not-finite")
"""Diagnoses of wrong values that name no cause: a collective that is missing may well be it."""

OF_SHAPES: Final = ("shape", "reshaped", "copies-side-by-side", "joined-elsewhere")
"""Diagnoses that say that a result has another shape."""

MISSING: Final = ("no ", "too-seldom")
"""How the names of diagnoses begin that say that a collective is missing."""
MARKS: Final = {"right": "✓", "partly": "◐", "wrong": "✗", "unanswered": "○", "failed": "⚠"}
FOLLOWS: Final = "–"
"""The mark of what counts only once something else is right."""

MUST_BE: Final = re.compile(r"^(\w+(?:\([^()]*\))?) must be ")
"""What begins a sentence of what is asked, and says twice what `Expected` has said."""


def state_of(finding: Finding) -> str:
    """How one requirement stands: a state of `MARKS`."""
    if finding.met:
        return "right"
    if finding.diagnosis == "unanswered":
        return "unanswered"
    return "partly" if finding.credit else "wrong"


def problems_of(findings: Sequence[Finding]) -> list[Finding]:
    """What is wrong with one answer, causes before what may follow from them, each once."""
    wrong = [f for f in findings if state_of(f) in ("wrong", "partly")]
    found = [f for f in wrong if f.diagnosis != NOT_COUNTED]
    if {"values", "layout"} <= {f.about for f in found if f.diagnosis in OF_SHAPES}:
        # that the shape is wrong is said of the values, and once is enough
        found = [f for f in found if (f.about, f.diagnosis) != ("layout", "shape")]
    unexplained = any(f.about == "values" and f.diagnosis in UNEXPLAINED for f in found)
    causes = sorted(found, key=partial(_rank, unexplained))
    alike = {(f.cell, f.diagnosis, f.difference): f for f in reversed(causes)}
    return [f for f in causes if any(f is kept for kept in alike.values())]


def _rank(unexplained: bool, finding: Finding) -> int:
    missing = finding.about == "collectives" and finding.diagnosis.startswith(MISSING)
    if finding.diagnosis in NOT_BY_HAND or (unexplained and missing):
        return -1
    return ORDER.index(finding.about) if finding.about in ORDER else len(ORDER)


@dataclass(frozen=True)
class VerdictRow:
    """One row of a table: its name, its cells, and in a line why it is not right."""

    name: str
    state: str
    cells: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True)
class Table:
    """Answers and what is asked of them, or predictions and what became of them."""

    columns: tuple[str, ...]
    rows: tuple[VerdictRow, ...]


@dataclass(frozen=True)
class VerdictReport:
    """What is said of a verdict.

    Attributes:
        cause: what is wrong first, in a sentence or two; empty where all is right.
        where: what the cause begins with, if that is code: an answer, or a cell of a table.
        compared: what was expected and what came, with their labels.
        below: what else is to be said of the same answer, a line each.
        tables: what became of each answer, where there are several, and of each prediction.
        legend: what a mark in the tables means that does not say it by itself.
        details: of each answer whose problem a table tells: what was expected, and what came.
        afterwards: what is to be known of the points, and the way on.
    """

    cause: str = ""
    where: str = ""
    compared: tuple[tuple[str, str], ...] = ()
    below: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    legend: str = ""
    details: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    afterwards: tuple[str, ...] = ()


def report(verdict: Verdict) -> VerdictReport:
    """What is to be said of a verdict."""
    if verdict.fault is not None:
        happened, to_do = explanation(verdict.fault)
        return VerdictReport(happened, below=(to_do,))
    if verdict.findings and all(f.about == OF_THE_CHECK for f in verdict.findings):
        cause = verdict.findings[0].difference  # which is no answer's own
        return VerdictReport(cause, afterwards=(*verdict.notes, *_way_on(verdict)))
    answers: dict[str, list[Finding]] = {}
    for finding in verdict.findings:
        answers.setdefault(finding.answer, []).append(finding)
    problems = [p for findings in answers.values() for p in problems_of(findings)]
    first = problems[0] if problems else None
    alone = len(answers) == 1
    plain = {name: fs for name, fs in answers.items() if not any(f.cell for f in fs)}
    return VerdictReport(
        _cause(first, problems, alone) if first else _to_do(answers),
        _where(first, alone) if first else "",
        _compared(first) if first else (),
        tuple(_below(answers, problems)),
        tuple(_tables(answers, plain, problems)),
        _legend(answers),
        tuple((p.answer, _compared(p)) for p in problems[1:] if not alone and _compared(p)),
        (*verdict.notes, *_way_on(verdict)),
    )


def _cause(first: Finding, problems: Sequence[Finding], alone: bool) -> str:
    """The first cause, in a sentence, with the name of its answer where there are several."""
    where = _where(first, alone)
    if not first.cell or not first.came:
        return f"{where}: {first.difference}" if where else first.difference
    alike = [p for p in problems if _is_like(p, first)]
    if first.diagnosis == "other-form" and len(alike) > 1:
        return f"{len(alike)} cells of {first.answer} have the wrong form. {first.difference}"
    if first.diagnosis == "other-form":
        return f"{where} has the wrong form. {first.difference}"
    return f"{where} is not {first.came}. {first.difference}".strip()


def _where(first: Finding, alone: bool) -> str:
    """What a cause is of: a cell, or an answer where there are several."""
    if first.cell and first.came:
        return f"{first.answer}[{first.cell!r}]"
    return "" if alone else first.answer


def _is_like(one: Finding, other: Finding) -> bool:
    """Whether the same is wrong with two cells of a table."""
    return (one.answer, one.diagnosis, one.difference) == (
        other.answer, other.diagnosis, other.difference,
    )  # fmt: skip


def _compared(finding: Finding) -> tuple[tuple[str, str], ...]:
    """What was expected and what came; nothing where the sentence has said it."""
    if finding.cell or not finding.came:
        return ()
    asked = MUST_BE.sub(r"\1 is ", finding.asked)
    return (("Expected", _stop(asked)), ("Got", _stop(finding.came)))


def _whole(finding: Finding) -> tuple[str, ...]:
    """All that is said of what is wrong: only what agrees in all of it is as for another answer."""
    return (finding.difference, *(said for _, said in _compared(finding)))


def _to_do(answers: dict[str, list[Finding]]) -> str:
    """What is left to do where nothing is wrong: what has not been filled in."""
    empty = [n for n, fs in answers.items() if all(state_of(f) == "unanswered" for f in fs)]
    said = []
    if empty:
        said = [f"{_and(empty)} {'have' if len(empty) > 1 else 'has'} not been filled in yet."]
    for name, findings in answers.items():
        left = sum(state_of(f) == "unanswered" for f in findings)
        if left and name not in empty:
            said.append(
                f"{left} cell{'s' * (left > 1)} of {name} {'are' if left > 1 else 'is'} still to "
                f"be filled in."
            )
    return " ".join(said)


def _below(answers: dict[str, list[Finding]], problems: Sequence[Finding]) -> list[str]:
    """What else is said of the only answer: what is right, what else is wrong, what follows.

    Where there are several, the table has it.
    """
    every = [f for fs in answers.values() for f in fs]
    if all(f.met for f in every):
        lines = []
        for name, findings in answers.items():
            if any(f.cell for f in findings):
                cells = "both" if len(findings) == 2 else f"all {len(findings)} cells"
                lines.append(f"{name}: {cells} are right.")
            elif len(answers) == 1:
                lines.append(f"Right: {'; '.join(dict.fromkeys(f.came for f in findings))}.")
        return lines
    if len(answers) > 1:
        return []
    if any(f.cell for f in every):
        return []
    follow = [f for f in every if f.diagnosis == NOT_COUNTED]
    lines = [f"Also: {p.difference}" for p in problems[1:]]
    right = [f.about for f in every if f.met]
    if right:
        lines.append(f"Right already: {_and(right)}.")
    if follow:
        names = _and([f.about for f in follow])
        verb = "count" if len({f.about for f in follow}) > 1 or names.endswith("s") else "counts"
        waits = follow[0].difference.removeprefix("This counts ")
        lines.append(f"{names[:1].upper()}{names[1:]} {verb} {waits}")
    return lines


def _tables(
    answers: dict[str, list[Finding]],
    plain: dict[str, list[Finding]],
    problems: Sequence[Finding],
) -> list[Table]:
    """A row for each answer, where there are several; and for each cell of a table."""
    first = problems[0] if problems else None
    shown = [p for findings in plain.values() for p in problems_of(findings)[:1]]
    said = {_whole(p): p.answer for p in reversed(shown)}
    untouched = all(state_of(f) == "unanswered" for fs in answers.values() for f in fs)
    if untouched:
        return []
    tables = []
    if plain and len(answers) > 1:
        columns = tuple(dict.fromkeys(f.about for fs in plain.values() for f in fs))
        rows = [_row(name, fs, columns, first, said) for name, fs in plain.items()]
        tables.append(Table(("", *columns, ""), tuple(rows)))
    for name, findings in answers.items():
        is_table = name not in plain and not all(f.met for f in findings)
        if is_table and any(state_of(f) != "unanswered" for f in findings):
            tables.append(Table((name, "yours", "", ""), tuple(_cells(findings, first))))
    return tables


def _row(
    name: str,
    findings: Sequence[Finding],
    columns: Sequence[str],
    first: Finding | None,
    said: dict[tuple[str, ...], str],
) -> VerdictRow:
    """What became of one answer."""
    by_weight = sorted(findings, key=lambda f: (not f.met, f.diagnosis != NOT_COUNTED))
    marks = {
        f.about: FOLLOWS if f.diagnosis == NOT_COUNTED else MARKS[state_of(f)] for f in by_weight
    }
    problems = problems_of(findings)
    why = ""
    if problems:
        why = problems[0].difference
        if problems[0].diagnosis == "other-result":  # without an example, it says too little
            why += f" Got {problems[0].came}; expected {problems[0].asked}."
        if first is not None and name == first.answer:
            why = "see above"
        elif said[_whole(problems[0])] != name:
            why = f"as for {said[_whole(problems[0])]}"
    elif not all(f.met for f in findings):
        why = "not filled in yet"
    states = {state_of(f) for f in findings}
    state = states.pop() if len(states) == 1 else "wrong" if problems else "partly"
    return VerdictRow(name, state, tuple(marks.get(column, "") for column in columns), why)


def _cells(findings: Sequence[Finding], first: Finding | None) -> list[VerdictRow]:
    """What became of each prediction; what is alike about several is said at the first of them."""
    rows, told = [], dict[tuple[str, str], str]()
    for f in findings:
        state = state_of(f)
        why = ""
        if state == "wrong" and f.difference:
            key = f.diagnosis, f.difference
            why = f"as for {told[key]}" if key in told else f.difference
            if first is not None and _is_like(f, first):
                why = "see above"
            told.setdefault(key, f.cell)
        yours = "" if state == "unanswered" else f.came
        rows.append(VerdictRow(f.cell, state, (yours, MARKS[state]), why))
    return rows


def _legend(answers: dict[str, list[Finding]]) -> str:
    """What the mark of what follows means, where a table has it."""
    follow = any(f.diagnosis == NOT_COUNTED for fs in answers.values() for f in fs)
    said = f"{FOLLOWS} is judged once the cells to its left are right."
    return said * (follow and len(answers) > 1)


def _way_on(verdict: Verdict) -> list[str]:
    """Where to go from here: a hint, or a sentence worth knowing."""
    if verdict.state == "right":
        return [f"Worth knowing: {verdict.afterwards}"] * bool(verdict.afterwards)
    nothing = {"no-evidence", "kernel-died", "other-exercise", "did-not-finish"}
    if nothing & {*verdict.diagnoses}:
        return []
    return [f'Stuck? hint("{verdict.exercise}") helps.']


def _and(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = dict.fromkeys(words)
    return f"{', '.join(most)} and {last}" if most else last


def _stop(words: str) -> str:
    return words if words.endswith((".", "!", "?", "…")) else f"{words}."
