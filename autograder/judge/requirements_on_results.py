"""Require the results of a plain Python function, or predictions in a table.

Results and predictions are plain data: numbers, strings, lists. They are compared in
`comparing_results.py`, and wrong results are explained in `explaining_results.py`.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import jax
import numpy as np

from autograder.evidence import (
    ResultsPlan,
    TablePlan,
    Value,
    plain,
)
from autograder.explanations import RAISED
from autograder.judge.comparing_results import NON_FINITE_NUMBERS, is_number, is_same
from autograder.judge.diagnoses import MALFORMED, OTHER_FORM, OTHER_RESULT, UNANSWERED
from autograder.judge.exercise import NOT_AS_PLANNED, Exercise, Requirement, ways_of
from autograder.judge.explaining_results import (
    Terms,
    choose_shown_case,
    explain_results,
    quote_miscounted_lines,
)
from autograder.judge.showing_results import (
    describe_returned_kind,
    shorten_call,
    shorten_floats,
    show_first_difference,
    show_plain,
)
from autograder.judge.verdict import Finding
from shardlings.pictures import GanttChart

NOT_SIGNIFICANT: Final = re.compile(r"""[\s"'`´‘’‚“”„]""")
"""Blanks and quotation marks, which do not count in a word that is predicted."""

OTHER_HYPHENS: Final = re.compile(r"[‐‑–−]")

JOINING_HYPHEN: Final = re.compile(r"(?<=[^\W\d_]{2})[-_](?=[^\W\d_]{2})")
"""Matches a hyphen between words; between single letters or digits, it may be a minus."""

FINAL_STOP: Final = re.compile(r"(?<=\w)[.,]$")


@dataclass(frozen=True)
class Returns(Requirement):
    """A Python function returns the right results on randomly sampled cases.

    For example, `Returns("double", "double(n) must be 2 * n.", cases, lambda n: 2 * n)`, where
    `cases(rng)` returns lists of arguments such as `[(3,), (17,)]`.

    Attributes:
        answer: the name of the answer in the notebook.
        asks: what the function must return, in a sentence.
        cases: samples argument lists, of plain data, from a generator.
        reference: returns the right result.
        mistakes: for each diagnosis, a function with that mistake and no other, or a `Mistake`.
            If the mistake leaves the order of a list open, it returns `AnyOrder`.
        draw: draws a result and the right one, for the same arguments; None if there is nothing to
            draw.
        terms: what the result is the sum of; None if it is no such sum.
        lines: for a long text whose result is a list, the line that each entry comes from.
    """

    about: ClassVar = "result"
    evidence: ClassVar = (Value,)
    runs_in_kernel: ClassVar = True

    answer: str
    asks: str
    cases: Callable[[np.random.Generator], Sequence[tuple[Any, ...]]]
    reference: Callable[..., Any]
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    draw: Callable[..., tuple[GanttChart, ...]] | None = None
    terms: Terms | None = None
    lines: Callable[[str], Sequence[str]] | None = None

    def plan_capture(self, generator: np.random.Generator) -> ResultsPlan:
        """Plan to call the function in each case."""
        return ResultsPlan.of(self.cases(generator))

    def judge(self, piece: Value, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the results of the cases sampled from `seed` with the reference."""
        cases = self.cases(exercise.generator(seed))
        results = read_results(piece, len(cases))
        if results is None:
            return finding.problem(*NOT_AS_PLANNED)
        for case, result in zip(cases, results, strict=True):
            if "error" in result:
                call = shorten_call(self._write_call(case))
                sentence = f"Your function raised {result['error']}. The call was {call}."
                return finding.problem(RAISED, sentence, got="")
            right = self.reference(*case)
            if not is_same(result.get("returned"), right):
                diagnosis, sentence = explain_results(
                    cases,
                    results,
                    reference=self.reference,
                    mistakes=self.mistakes,
                    terms=self.terms,
                )
                if diagnosis == OTHER_RESULT:
                    sentence += quote_miscounted_lines(case, result.get("returned"), right)
                shown = choose_shown_case(cases, results, self.reference)
                case, returned, right = shown or (case, result.get("returned"), right)
                finding = self._show_difference(case, returned, right, len(cases), finding)
                return finding.problem(diagnosis, sentence)
        return finding.but(met=True, got=f"the right result in all of {len(cases)} cases")

    def _show_difference(
        self, case: tuple[Any, ...], returned: Any, right: Any, count: int, finding: Finding
    ) -> Finding:
        """Show what one of `count` cases returned beside the right result."""
        expected, got = show_plain(right, right), show_plain(returned, right)
        if (shortened := shorten_floats(expected)) != shorten_floats(got):
            expected, got = shortened, shorten_floats(got)
        lines = self.lines(*case) if self.lines is not None else ()
        if lines or expected.endswith("…") or got.endswith("…"):
            expected, got = show_first_difference(returned, right, lines) or (expected, got)
        # a line says more than both ends of its text
        source = f"{self.answer}(…)" if lines else shorten_call(self._write_call(case))
        return finding.but(
            expected=f"{expected} from {source}, one of {count} cases",
            got=got,
            charts=self.draw(returned, *case) if self.draw else (),
        )

    def _write_call(self, case: tuple[Any, ...]) -> str:
        return f"{self.answer}({', '.join(map(repr, case))})"


def read_results(piece: Value, count: int) -> list[dict[str, Any]] | None:
    """Return what a function did in each of so many cases; None if evidence has another form."""
    results = piece.value
    if not isinstance(results, list) or len(results) != count:
        return None
    return results if all(isinstance(result, dict) for result in results) else None


@dataclass(frozen=True)
class Predicts(Requirement):
    """One cell of a table of predictions has the right value.

    For example:

        Predicts("layouts", "x.T", "the spec of x.T", P("y", "x"), {"not-turned": P("x", "y")})

    Attributes:
        answer: the name of the table, a dictionary, in the notebook.
        cell: the key of the cell.
        asks: what is to be predicted, in words.
        right: the right prediction: a number, a string, a `jax.P`, or a list of these.
        mistakes: for each diagnosis, the prediction that it explains, or a `Mistake`.
        tolerance: the relative error that a number may have.
        words: if `right` is a word, further words that a learner may choose from.
        tables: for each diagnosis, the cells of someone who makes that mistake everywhere. The
            diagnosis is given only if all these cells have these values, and at least two are
            wrong: right values may be among them, where several are.
    """

    about: ClassVar = "prediction"
    evidence: ClassVar = (Value,)

    answer: str
    cell: str
    asks: str
    right: Any
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 0.0
    words: tuple[str, ...] = ()
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def plan_capture(self, generator: np.random.Generator) -> TablePlan:
        """Plan to capture the table."""
        return TablePlan()

    def judge(self, piece: Value, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the cell with the right prediction, and with the known mistakes."""
        table = piece.value if isinstance(piece.value, dict) else {}
        if self.cell not in table:
            return finding.problem(MALFORMED, f"The table has no cell {self.cell!r}.")
        actual = table[self.cell]
        if actual == plain(...):
            return finding.problem(
                UNANSWERED, f"The cell {self.cell!r} has not been filled in yet."
            )
        finding = finding.but(got=shorten_floats(show_plain(actual, self.right)))
        if is_predicted(self, actual):
            return finding.but(met=True)
        wrong = {
            each.cell
            for each in exercise.requirements
            if isinstance(each, Predicts)
            and each.answer == self.answer
            and not is_predicted(each, table.get(each.cell))
        }
        for diagnosis, cells in self.tables.items():
            if len(wrong & {*cells}) > 1 and all(
                _explains(cells[cell], table.get(cell), self.tolerance) for cell in cells
            ):
                return finding.problem(diagnosis, "")
        for diagnosis, mistake in self.mistakes.items():
            if _explains(mistake, actual, self.tolerance):
                return finding.problem(diagnosis, "")
        expected = _expected_form(self, actual)
        if expected:
            words = isinstance(actual, str) and isinstance(self.right, str)
            got = repr(actual[:40]) if words else describe_returned_kind(actual)
            return finding.problem(OTHER_FORM, f"Expected {expected}; got {got}.")
        return finding.problem("other-prediction", "")


def is_predicted(requirement: Predicts, actual: Any) -> bool:
    """Check whether a prediction, as plain data, is right."""
    return _is_same_prediction(actual, requirement.right, requirement.tolerance)


def _explains(mistake: Any, actual: Any, tolerance: float) -> bool:
    """Check whether a mistake explains a prediction."""
    return any(_is_same_prediction(actual, each, tolerance) for each in ways_of(mistake))


def _is_same_prediction(actual: Any, wanted: Any, tolerance: float) -> bool:
    if is_number(actual) and is_number(wanted):
        return math.isclose(actual, wanted, rel_tol=max(tolerance, 1e-9))
    if isinstance(actual, str) and isinstance(wanted, str):
        return _keep_significant(actual) == _keep_significant(wanted)
    if isinstance(wanted, jax.P):
        return is_same(_without_trailing_nones(actual), _without_trailing_nones(plain(wanted)))
    return is_same(actual, plain(wanted))


def _without_trailing_nones(entries: Any) -> Any:
    """Return a spec's entries without trailing `None`s, which change nothing."""
    while isinstance(entries, list) and entries and entries[-1] is None:
        entries = entries[:-1]
    return entries


def _expected_form(requirement: Predicts, actual: Any) -> str:
    """Describe the expected kind of prediction, if this one is of another kind; else empty."""
    right = requirement.right
    quotes = " without quotes" * isinstance(actual, str)
    if isinstance(right, bool):
        return "" if isinstance(actual, bool) else f"True or False{quotes}"
    if is_number(right) and actual in NON_FINITE_NUMBERS:
        return "a finite number"
    if is_number(right):
        return "" if is_number(actual) else f"a number{quotes}"
    if isinstance(right, str):
        mistakes = [word for each in requirement.mistakes.values() for word in ways_of(each)]
        named = [word for word in mistakes if isinstance(word, str)]
        words = dict.fromkeys([right, *named, *requirement.words])
        known = isinstance(actual, str) and _keep_significant(actual) in map(
            _keep_significant, words
        )
        # a number is not of another kind if a known mistake is a number
        numbers = is_number(actual) and any(map(is_number, mistakes))
        if known or numbers:
            return ""
        if len(words) == 1:  # a list of one would give the answer away
            or_number = "a number, or " * any(map(is_number, mistakes))
            return f"{or_number}the word that the question asks for"
        return f"one of {', '.join(sorted(map(repr, words)))}"
    if isinstance(right, jax.P):
        entries = actual if isinstance(actual, list) else [0]
        names = all(e is None or isinstance(e, str | list) for e in entries)
        return "" if names else f"a spec such as P('x', None){quotes}"
    return "" if isinstance(actual, list) else "a tuple"


def _keep_significant(text: str) -> str:
    """Return what of a text decides whether it is right: not case, blanks, quotes or a full stop.

    A hyphen or underscore between words does not count, so that `allgather` and `All_Gather` are
    `all-gather`. All other signs do: `12` is not `1/2`, and `<` is not `>=`.
    """
    kept = NOT_SIGNIFICANT.sub("", OTHER_HYPHENS.sub("-", text.casefold()))
    return JOINING_HYPHEN.sub("", FINAL_STOP.sub("", kept))
