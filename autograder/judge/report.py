"""Decide what to say about a verdict: the first cause, then its consequences.

The result is made of a document's blocks, so HTML, text and terminals say the same.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from humanize import natural_list

from autograder.explanations import explain_fault
from autograder.judge.diagnoses import (
    NOT_COUNTED,
    OTHER_BLOCKS_ENTER,
    OTHER_FORM,
    OTHER_RESULT,
    UNANSWERED,
    WRONG_DTYPE,
    WRONG_SHAPE,
    is_left_to_compiler,
    is_missing_collective,
    is_of_values_without_cause,
    is_without_evidence,
)
from autograder.judge.prose import mark_up
from autograder.judge.verdict import OF_THE_CHECK, Finding, Verdict
from shardlings.documents import (
    Badge,
    Block,
    Code,
    Content,
    Fold,
    Inline,
    Pairs,
    Paragraph,
    Table,
    TableRow,
)

EXPLAINED_FIRST: Final = ("values", "layout")
"""Requirements that are explained first: costs count once these are right."""

MARKS: Final = {"right": "✓", "partly": "◐", "wrong": "✗", "unanswered": "○", "failed": "⚠"}
FOLLOWS: Final = "–"
"""The mark of a requirement that counts only once another one is met."""

COLOURS: Final = {
    "right": "#067253", "partly": "#8a6000", "wrong": "#b54a00", "unanswered": "#6a6a6a",
    "failed": "#7a4390",
}  # fmt: skip
"""The states' colours: white on them has a contrast above 4.5."""

NUMBER: Final = re.compile(r"[-+\d.e]+")

MAX_COLUMNS: Final = 3
MAX_TABLE_CHARACTERS: Final = 46
"""With more columns, or wider ones, each mark has its column's name, so that the table fits into a
narrow window."""

COLUMN_GAP_CHARACTERS: Final = 2

MUST_BE: Final = re.compile(r"^(\w+(?:\([^()]*\))?) must be ")
"""The beginning of a requirement's sentence, which repeats the label `Expected`."""


def badge(state: str) -> Badge:
    """Return a state's mark on its colour."""
    return Badge(MARKS[state], COLOURS[state])


def state_of(finding: Finding) -> str:
    """Return the state of one requirement: a key of `MARKS`."""
    if finding.met:
        return "right"
    if finding.diagnosis == UNANSWERED:
        return "unanswered"
    return "partly" if finding.credit else "wrong"


def problems_of(findings: Sequence[Finding]) -> list[Finding]:
    """Return what is wrong with one answer, causes before consequences, without duplicates."""
    wrong = [f for f in findings if state_of(f) in ("wrong", "partly")]
    problems = [f for f in wrong if f.diagnosis != NOT_COUNTED]
    if any(f.about == "values" and f.diagnosis != WRONG_DTYPE for f in problems):
        # a wrong shape is explained once, for the values, where a mistake may be recognised
        problems = [f for f in problems if (f.about, f.diagnosis) != ("layout", WRONG_SHAPE)]
    is_unexplained = any(
        f.about == "values" and is_of_values_without_cause(f.diagnosis) for f in problems
    )
    causes = sorted(problems, key=partial(_rank, is_unexplained))
    alike = {(f.cell, f.diagnosis, f.difference): f for f in reversed(causes)}
    return [f for f in causes if any(f is kept for kept in alike.values())]


def _rank(is_unexplained: bool, finding: Finding) -> int:
    is_missing = finding.about == "collectives" and is_missing_collective(finding.diagnosis)
    is_cause = is_missing or finding.diagnosis == OTHER_BLOCKS_ENTER
    if is_left_to_compiler(finding.diagnosis) or (is_unexplained and is_cause):
        return -1
    return (
        EXPLAINED_FIRST.index(finding.about)
        if finding.about in EXPLAINED_FIRST
        else len(EXPLAINED_FIRST)
    )


@dataclass(frozen=True)
class VerdictReport:
    """A verdict's blocks, below its headline.

    Attributes:
        first: the first cause or, where nothing is wrong, what is right; it may be empty.
        rest: everything else about the answers.
        notes: how points are counted.
        way_on: a hint, or a sentence worth knowing.
    """

    first: tuple[Block, ...]
    rest: tuple[Block, ...] = ()
    notes: tuple[Block, ...] = ()
    way_on: tuple[Block, ...] = ()


def report_on(verdict: Verdict, unfolded: bool = False) -> VerdictReport:
    """Return what to say about a verdict.

    Args:
        verdict: the verdict.
        unfolded: whether details are unfolded, for a page that may be printed.
    """
    if verdict.fault is not None:
        happened, to_do = explain_fault(verdict.fault)
        return VerdictReport(_paragraphs([happened]), _paragraphs([to_do]))
    way_on = _paragraphs(_way_on(verdict))
    notes = _paragraphs(verdict.notes[:1])
    if verdict.notes[1:]:
        notes += (Fold("How this is counted", _paragraphs(verdict.notes[1:]), unfolded),)
    if verdict.findings and all(f.about == OF_THE_CHECK for f in verdict.findings):
        cause = _paragraphs([verdict.findings[0].difference])  # it is about no answer in particular
        return VerdictReport(cause, (), notes, way_on)
    answers: dict[str, list[Finding]] = {}
    for finding in verdict.findings:
        answers.setdefault(finding.answer, []).append(finding)
    problems = [p for findings in answers.values() for p in problems_of(findings)]
    first: tuple[Block, ...]
    rest: tuple[Block, ...]
    if problems:
        first = (Paragraph(_cause(problems, is_only=len(answers) == 1)),)
        rest = (*_expected_and_got(problems[0]), *_paragraphs(_other_lines(answers, problems)))
    else:
        lines = [*_unanswered(answers), *_other_lines(answers, problems)]
        first, rest = _paragraphs(lines[:1]), _paragraphs(lines[1:])
    rest += (*_tables(answers, problems), *_paragraphs(_legend(answers)))
    if len(answers) > 1:
        rest += tuple(_details(problems[1:], unfolded))
    return VerdictReport(first, rest, notes, way_on)


def _paragraphs(texts: Iterable[str]) -> tuple[Block, ...]:
    return tuple(Paragraph(mark_up(text)) for text in texts)


def _cause(problems: Sequence[Finding], is_only: bool) -> Content:
    """Return the first cause, which begins with the answer's name if there are several answers."""
    first = problems[0]
    if not first.cell or not first.got:
        if is_only or not first.answer:
            return mark_up(first.difference)
        return (Code(first.answer), *mark_up(f": {first.difference}"))
    cell = Code(f"{first.answer}[{first.cell!r}]")
    if first.diagnosis == OTHER_FORM:
        alike = sum(_is_like(p, first) for p in problems)
        if alike > 1:
            return mark_up(
                f"{alike} entries of {first.answer} have the wrong form. {first.difference}"
            )
        return (cell, *mark_up(f" has the wrong form. {first.difference}"))
    return (cell, *mark_up(f" is not {first.got}. {first.difference}".rstrip()))


def _is_like(one: Finding, other: Finding) -> bool:
    """Check whether two cells of a table have the same problem."""
    return (one.answer, one.diagnosis, one.difference) == (
        other.answer, other.diagnosis, other.difference,
    )  # fmt: skip


def _compared(finding: Finding) -> tuple[tuple[str, str], ...]:
    """Return the texts after `Expected` and `Got`; none if the problem's sentence says them."""
    if finding.cell or finding.got in ("", finding.expected):
        return ()
    expected = MUST_BE.sub(r"\1 is ", finding.expected)
    return (("Expected", _with_full_stop(expected)), ("Got", _with_full_stop(finding.got)))


def _expected_and_got(finding: Finding) -> tuple[Block, ...]:
    pairs = tuple((label, mark_up(text)) for label, text in _compared(finding))
    return (Pairs(pairs),) if pairs else ()


def _explanation_of(finding: Finding) -> tuple[str, ...]:
    """Return all that is said about a problem. Answers for which it is equal are explained once."""
    return (finding.difference, *(text for _, text in _compared(finding)))


def _unanswered(answers: dict[str, list[Finding]]) -> list[str]:
    """Return what is left to do where nothing is wrong, in one text."""
    empty = [n for n, fs in answers.items() if all(state_of(f) == "unanswered" for f in fs)]
    sentences = []
    if empty:
        have = "have" if len(empty) > 1 else "has"
        names = natural_list([f"`{name}`" for name in empty])
        sentences.append(f"{names} {have} not been filled in yet.")
    for name, findings in answers.items():
        left = sum(state_of(f) == "unanswered" for f in findings)
        if left and name not in empty:
            sentences.append(
                f"{left} {'entries' if left > 1 else 'entry'} of `{name}` "
                f"{'are' if left > 1 else 'is'} still to be filled in."
            )
    return [" ".join(sentences)] * bool(sentences)


def _other_lines(answers: dict[str, list[Finding]], problems: Sequence[Finding]) -> list[str]:
    """Return what is right, and what else is wrong with the only answer, a line each.

    Where there are several answers, a table shows what is wrong with each.
    """
    every = [f for fs in answers.values() for f in fs]
    if all(f.met for f in every):
        lines = []
        for name, findings in answers.items():
            if any(f.cell for f in findings):
                cells = "both" if len(findings) == 2 else f"all {len(findings)} entries"
                lines.append(f"{name}: {cells} are right.")
            elif len(answers) == 1:
                lines.append(f"Right: {'; '.join(dict.fromkeys(f.got for f in findings))}.")
        return lines
    if len(answers) > 1 or any(f.cell for f in every):
        return []
    lines = [f"Also: {p.difference}" for p in problems[1:]]
    met = [f for f in every if f.met]
    wrong = {p.about for p in problems}  # of two requirements of one name, one may be met
    if right := dict.fromkeys(f.about for f in met if f.about not in wrong):
        lines.append(f"Right already: {natural_list(right)}.")
    elif met:
        lines.append(f"Right already: {len(met)} of {len(every)} requirements.")
    follow = [f for f in every if f.diagnosis == NOT_COUNTED]
    if follow:
        abouts = dict.fromkeys(f.about for f in follow)
        names = natural_list(abouts)
        verb = "count" if len(abouts) > 1 or names.endswith("s") else "counts"
        condition = follow[0].difference.removeprefix("This counts ")
        lines.append(f"{names[:1].upper()}{names[1:]} {verb} {condition}")
    return lines


def _tables(answers: dict[str, list[Finding]], problems: Sequence[Finding]) -> Iterator[Block]:
    """Yield a table of the answers if there are several, and one for each answer with cells."""
    if all(state_of(f) == "unanswered" for fs in answers.values() for f in fs):
        return
    first = problems[0] if problems else None
    plain = {name: fs for name, fs in answers.items() if not any(f.cell for f in fs)}
    if plain and len(answers) > 1:
        shown = [p for findings in plain.values() for p in problems_of(findings)[:1]]
        explained: dict[tuple[str, ...], str] = {(p.difference,): p.answer for p in reversed(shown)}
        explained |= {_explanation_of(p): p.answer for p in reversed(shown)}
        columns = tuple(dict.fromkeys(f.about for findings in plain.values() for f in findings))
        is_wide = _is_too_wide([*plain], columns)
        rows = (_row(name, fs, columns, first, explained, is_wide) for name, fs in plain.items())
        yield Table(() if is_wide else ("", *columns), tuple(rows))
    cells_explained: dict[tuple[str, str], Finding] = {}
    for name, findings in answers.items():
        has_wrong_cells = name not in plain and not all(f.met for f in findings)
        if has_wrong_cells and any(state_of(f) != "unanswered" for f in findings):
            cell_rows = tuple(_cell_rows(findings, first, cells_explained))
            yield Table((name, "yours", "", ""), cell_rows)


def _is_too_wide(names: Sequence[str], columns: Sequence[str]) -> bool:
    """Check whether a table with a column for each mark is too wide for a narrow window."""
    characters = max(map(len, names)) + sum(
        len(column) + COLUMN_GAP_CHARACTERS for column in columns
    )
    is_wide = characters + COLUMN_GAP_CHARACTERS > MAX_TABLE_CHARACTERS
    return is_wide or len(columns) > MAX_COLUMNS


def _mark(state: str) -> Inline:
    """Return a state's mark; only problems stand out."""
    return badge(state) if state in ("wrong", "partly") else MARKS[state]


def _follows(finding: Finding, problems: Sequence[Finding]) -> bool:
    """Check whether a requirement of an answer could not be judged because of another problem.

    A program that raises an error misses all its requirements, and has one cross for that error.

    Args:
        finding: the requirement's finding.
        problems: the answer's problems.
    """
    if finding.diagnosis == NOT_COUNTED:
        return True
    is_cause = any(finding is problem for problem in problems)
    cause = finding.diagnosis, finding.difference
    repeats = any((p.diagnosis, p.difference) == cause for p in problems if not p.cell)
    return state_of(finding) == "wrong" and repeats and not is_cause


def _row(
    name: str,
    findings: Sequence[Finding],
    columns: Sequence[str],
    first: Finding | None,
    explained: dict[tuple[str, ...], str],
    is_wide: bool,
) -> TableRow:
    """Return the row of one answer.

    Args:
        name: the answer's name.
        findings: its findings.
        columns: what requirements are about, a column each.
        first: the problem that is explained above the table.
        explained: for each explanation, with and without its details, the first answer that has
            it.
        is_wide: whether there is one column, in which each mark has its column's name.
    """
    problems = problems_of(findings)
    # of several findings in a column, a problem is shown
    by_weight = sorted(findings, key=lambda f: (not f.met, not _follows(f, problems)))
    marks = {f.about: FOLLOWS if _follows(f, problems) else _mark(state_of(f)) for f in by_weight}
    why = ""
    if problems:
        why = problems[0].difference
        same = explained[_explanation_of(problems[0])]
        alike = explained[(why,)]
        example = f"Got {problems[0].got}; expected {problems[0].expected}."
        if problems[0].expected.startswith(f"{name}("):  # it says what the answer is to be
            example = f"Got {problems[0].got}."
        if alike != name and problems[0].got:
            why = f"as for {alike}. {example}"
        elif problems[0].diagnosis == OTHER_RESULT:  # without an example, it says too little
            why += f" {example}"
        if first is not None and name == first.answer:
            why = "see above"
        elif same != name:
            why = f"as for {same}"
        # a column that is marked as wrong is explained, too
        others = [p for p in problems[1:] if p.about != problems[0].about]
        if others:
            why = " ".join((_with_full_stop(why), *(f"Also: {p.difference}" for p in others)))
    elif not all(f.met for f in findings):
        why = "not filled in yet"
    # beside the other columns, there is too little room for sentences
    below = (mark_up(why),) if why else ()
    if is_wide and all(state_of(f) == "unanswered" for f in findings):
        return TableRow(((Code(name), f": {MARKS['unanswered']} {why}"),))
    if is_wide:
        named = [(", ", f"{about} ", marks[about]) for about in columns if about in marks]
        listed = [part for parts in named for part in parts][1:]
        return TableRow(((Code(name), ": ", *listed),), below)
    return TableRow((Code(name), *(marks.get(column, "") for column in columns)), below)


def _name_cell(cell: Finding, other: Finding) -> str:
    """Name a cell in a sentence on another one: by its key, or with its answer's name."""
    key = cell.cell if cell.cell.isidentifier() else f'"{cell.cell}"'
    return key if cell.answer == other.answer else f"{cell.answer}[{cell.cell!r}]"


def _cell_rows(
    findings: Sequence[Finding],
    first: Finding | None,
    explained: dict[tuple[str, str], Finding],
) -> Iterator[TableRow]:
    """Yield the row of each cell of a prediction; cells alike are explained once.

    Args:
        findings: the findings of one answer.
        first: the problem that is explained above the tables.
        explained: for each explanation, the first cell that has it; this adds those of `findings`.
    """
    for f in findings:
        state, why = state_of(f), ""
        if state == "wrong" and f.difference:
            key = f.diagnosis, f.difference
            same = explained.get(key)
            why = f.difference
            if same is not None:
                why = f"as for {_name_cell(same, f)}"
            is_first = first is not None and _is_like(f, first)
            # below the sentence of another row, "above" would seem to mean that one
            if is_first and (key not in explained or len(explained) == 1):
                why = "see above"
            explained.setdefault(key, f)
        value = Code(f.got) if f.got and state != "unanswered" else ""
        # a column beside long keys is too narrow for sentences
        is_sentence = why == f.difference != ""
        cells = (Code(f.cell), value, _mark(state), "" if is_sentence else why)
        yield TableRow(cells, (mark_up(why),) if is_sentence else ())


def _legend(answers: dict[str, list[Finding]]) -> list[str]:
    follow = any(_follows(f, problems_of(fs)) for fs in answers.values() for f in fs if not f.cell)
    legend = f"{FOLLOWS} is judged once the rest of its row is right."
    return [legend] * (follow and len(answers) > 1)


def _details(problems: Sequence[Finding], unfolded: bool) -> Iterator[Fold]:
    """Yield `Expected` and `Got` for each answer whose problem is in the table."""
    compared = [(p.answer, block) for p in problems for block in _expected_and_got(p)]
    names = dict.fromkeys(name for name, _ in compared)
    if not names:
        return
    listed = [part for name in names for part in (", ", Code(name))][1:]
    blocks: list[Block] = []
    for name in names:
        heading = [Paragraph(Code(name))] if len(names) > 1 else []
        blocks += [*heading, *(block for answer, block in compared if answer == name)]
    yield Fold(("Expected and got, for ", *listed), tuple(blocks), unfolded)


def _way_on(verdict: Verdict) -> list[str]:
    """Return the way on: a hint, or a sentence worth knowing."""
    if verdict.state == "right":
        return [f"Worth knowing: {verdict.afterwards}"] * bool(verdict.afterwards)
    if any(map(is_without_evidence, verdict.diagnoses)):
        return []
    return [f'Stuck? hint("{verdict.exercise}") helps.']


def _with_full_stop(words: str) -> str:
    """Return words with a full stop, except for a number, to which it would seem to belong."""
    is_number = NUMBER.fullmatch(words) is not None
    return words if is_number or words.endswith((".", "!", "?", "…")) else f"{words}."
