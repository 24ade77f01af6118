"""Explain wrong results of a Python function, by all cases together.

`explain_results` tries these in order:

1. a mistake that the exercise knows, which gives the same results (`_recognise_mistake`);
2. results of another type, such as a string for a number (`_explain_other_kind`);
3. results that are rounded, in another unit, or the same in all cases (`_explain_pattern`);
4. a sum of the right terms with wrong factors (`_explain_factors`).

If none holds, `_describe_wrong_cases` says in how many cases the results are wrong, and then the
first of these: which words a list has too often (`describe_wrong_counts`), how the results differ
alike in all wrong cases (`explain_differing_results`), or in those with the same last argument
(`_explain_by_last_argument`).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from humanize import natural_list

from autograder.evidence import plain
from autograder.judge.comparing_results import is_number, is_same, to_integers
from autograder.judge.comparing_values import Wrong
from autograder.judge.diagnoses import IGNORES_INPUTS, OTHER_FACTORS, OTHER_RESULT
from autograder.judge.exercise import ways_of
from autograder.judge.showing_results import (
    MAX_CALL_CHARACTERS,
    MAX_LINE_CHARACTERS,
    describe_kind,
    describe_returned_kind,
    shorten_floats,
    show_word,
)
from autograder.judge.wording import in_percent
from shardlings.documents import with_noun

FACTOR_TOLERANCE: Final = 1e-5
"""The tolerance for the factors of a sum, relative to the factor, and for those that are 0."""

MAX_CONDITION: Final = 100
"""The largest condition number of cases that determine the factors of a sum."""

NEARLY_RIGHT: Final = 0.02
"""The largest difference of numbers that may be rounded, as a part of what is expected."""

MAX_LISTED_CASES: Final = 6

MAX_WORDS: Final = 4
"""If the right results are no more different words than this, any other word is a slip."""

UNITS: Final = {10**digits: f"{10**digits:,} times" for digits in (3, 6, 9, 12)} | {
    10**-digits: f"1/{10**digits:,} of" for digits in (3, 6, 9, 12)
}
"""The factors between a unit and those with a prefix, in words."""

MAX_IN_UNITS: Final = 1e100
"""Numbers from here on are in no unit."""

MAX_DIGITS: Final = 12
"""The most digits after the point to which somebody rounds."""


@dataclass(frozen=True)
class Terms:
    """The terms of a sum that a function has to return, each with a factor.

    For example, the time of n messages, `n * (latency + size / bandwidth)`. A verdict can then say
    how often a learner's result counts each term.

    Attributes:
        given: describes the arguments that the factors depend on, such as `with 8 devices`. Some
            of the cases, one more than there are terms, have to agree in these.
        values: the terms by name, as functions of all arguments.
    """

    given: Callable[..., str]
    values: Mapping[str, Callable[..., float]]


def choose_shown_case(
    cases: Sequence[Any],
    results: Sequence[Mapping[str, Any]],
    reference: Callable[..., Any],
) -> tuple[Any, Any, Any] | None:
    """Return the first case whose number itself is wrong, with the result and the right one.

    A float that is right where an integer is expected proves nothing if numbers are wrong.
    """
    for case, result in zip(cases, results, strict=True):
        wanted = reference(*case)
        if "returned" in result and not is_same(to_integers(result["returned"]), wanted):
            return case, result["returned"], wanted
    return None


def explain_results(
    cases: Sequence[Any],
    results: Sequence[Mapping[str, Any]],
    *,
    reference: Callable[..., Any],
    mistakes: Mapping[str, Any],
    terms: Terms | None,
) -> Wrong:
    """Find the mistake that explains every result: a known one, or a general one.

    Args:
        cases: the lists of arguments.
        results: what the function did in each case.
        reference: returns the right result.
        mistakes: by diagnosis, functions with that mistake, or a `Mistake`.
        terms: what the result is the sum of, if it is such a sum.

    Returns:
        A diagnosis, and a sentence to precede the lesson on it.
    """
    actual = [result.get("returned") for result in results]
    right = [reference(*case) for case in cases]
    if diagnosis := _recognise_mistake(mistakes, cases, actual, right):
        return diagnosis, ""
    if explained := _explain_other_kind(actual, right) or _explain_pattern(actual, right):
        return explained
    factors = _explain_factors(terms, cases, actual, right)
    if factors:
        return OTHER_FACTORS, factors
    return OTHER_RESULT, _describe_wrong_cases(cases, actual, right)


def _recognise_mistake(
    mistakes: Mapping[str, Any], cases: Any, actual: Sequence[Any], right: Sequence[Any]
) -> str:
    """Return the diagnosis of the mistake that gives every result; empty if none does."""
    as_integers = [to_integers(each) for each in actual]
    is_right = _are_right_integers(actual, right)
    for candidates in (actual, as_integers):  # a mistake may come with floats for integers
        for diagnosis, mistaken in mistakes.items():
            for way in ways_of(mistaken):
                made = [way(*case) for case in cases]
                if not all(map(is_same, candidates, made)) or _are_zeros_unlike(candidates, made):
                    continue
                # Right numbers that came as floats may lie within the tolerance of a mistake, such
                # as sums in float32. Then it is that mistake only if its own results are right.
                if not is_right or _are_right_integers(made, right):
                    return diagnosis
    return ""


def _are_right_integers(results: Sequence[Any], right: Sequence[Any]) -> bool:
    """Check whether results are right once whole floats count as integers."""
    return all(is_same(to_integers(c), r) for c, r in zip(results, right, strict=True))


def _explain_other_kind(actual: Sequence[Any], right: Sequence[Any]) -> Wrong | None:
    """Explain results of a wrong type, such as a string in place of a number."""
    if all(c is None for c in actual):
        return "nothing-returned", "The function returns None. Does it end with a return? "
    if _are_right_integers(actual, right):
        return "floats", "The numbers are right, but some are floats; expected integers. "
    if all(isinstance(r, tuple | list) for r in right) and all(
        is_same([c], r) for c, r in zip(actual, right, strict=True)
    ):
        return "no-tuple", "The number is right, but it has to be in a tuple. "
    if all(isinstance(r, int | float) and c == str(r) for c, r in zip(actual, right, strict=True)):
        kind = "True or False" if isinstance(right[0], bool) else "a number"
        return "in-quotes", f"The result is right, but it is a string; expected {kind}. "
    foreign = [c for c in actual if c not in right]
    if foreign and all(isinstance(r, str) for r in right) and len(set(right)) <= MAX_WORDS:
        words = " or ".join(sorted(map(repr, set(right))))
        return "other-word", f"The function returns {show_word(foreign[0])}; expected {words}. "
    if not any(_is_of_one_kind(c, r) for c, r in zip(actual, right, strict=True)):
        got, expected = describe_returned_kind(actual[0]), describe_kind(right[0])
        if isinstance(right[0], bool):
            got, expected = show_word(actual[0]), "True or False"
        return "other-kind", f"The function returns {got}; expected {expected}. "
    return None


def _explain_pattern(actual: Sequence[Any], right: Sequence[Any]) -> Wrong | None:
    """Explain results that are rounded, in another unit, or the same in all cases."""
    if _are_rounded_down(actual, right):
        return "rounded-down-to-whole", (
            "Each result is the expected one, rounded down to a whole number. Does `//` stand "
            "where `/` should? "
        )
    if len(actual) > 1 and all(c == actual[0] for c in actual):  # tiny numbers may be close
        return IGNORES_INPUTS, (
            f"The function returns the same result in all {len(actual)} cases. Does it use what it "
            f"is given? "
        )
    if unit := _find_unit(actual, right):
        return "other-unit", f"Every result is {unit} what it should be. Is it in another unit? "
    if (digits := _find_digits(actual, right)) is not None:
        precision = f"{with_noun(digits, 'digit')} after the point" if digits else "a whole number"
        return "rounded", f"The result is rounded to {precision}; expected the exact one. "
    if _are_nearly_right(actual, right):
        return "nearly-right", (
            f"Each result is within {in_percent(NEARLY_RIGHT)} of the expected one. Is something "
            f"rounded, or tried in steps? "
        )
    return None


def _describe_wrong_cases(cases: Any, actual: Sequence[Any], right: Sequence[Any]) -> str:
    """Say in how many cases results are wrong, and what they have in common."""
    wrong = [(c, r) for c, r in zip(actual, right, strict=True) if not is_same(c, r)]
    sentence = f"The result is wrong in {len(wrong)} of {len(cases)} cases"
    counted = describe_wrong_counts(*wrong[0])
    how = "" if counted else explain_differing_results([(c, plain(r)) for c, r in wrong])
    if len(wrong) < len(cases):
        how = how.replace("it is always", "there it is always")
    how = how or ("" if counted else _explain_by_last_argument(cases, actual, right))
    if which := _list_wrong_cases(cases, actual, right):
        how = f"{how}, for {which}" if how else f"those for {which}"
    return f"{sentence}{f': {how}' * bool(how)}.{counted}"


def _are_nearly_right(actual: Sequence[Any], right: Sequence[Any]) -> bool:
    """Check whether all results are close to what is expected, where that is no integer."""
    return all(isinstance(r, float) for r in right) and all(
        is_number(c) and math.isclose(c, r, rel_tol=NEARLY_RIGHT)
        for c, r in zip(actual, right, strict=True)
    )


def _are_zeros_unlike(actual: Sequence[Any], made: Sequence[Any]) -> bool:
    """Check whether all results are 0 and a mistake's are not, if only just."""
    return all(is_number(c) and c == 0 for c in actual) and not all(m == 0 for m in made)


def _are_rounded_down(actual: Sequence[Any], right: Sequence[Any]) -> bool:
    """Check whether all results are what `//` makes of small numbers, of which some are fractions.

    `_find_digits` recognises it of large ones.
    """
    return (
        all(map(is_number, (*actual, *right)))
        and not all(abs(r) > 10 for r in right)
        and all(map(math.isfinite, right))
        and all(c == math.floor(r) for c, r in zip(actual, right, strict=True))
    )


def _find_unit(actual: Sequence[Any], right: Sequence[Any]) -> str:
    """Return the power of 1,000 by which all results are off, in words; empty if there is none."""
    if len(set(map(repr, right))) < 2 or not all(map(is_number, (*actual, *right))):
        return ""
    if any(abs(number) >= MAX_IN_UNITS for number in (*actual, *right)):
        return ""  # an integer may be too large for a float
    pairs = list(zip(actual, right, strict=True))
    for factor, words in UNITS.items():
        if all(r and math.isclose(c, factor * r, rel_tol=1e-9) for c, r in pairs):
            return words
    return ""


def _find_digits(actual: Sequence[Any], right: Sequence[Any]) -> int | None:
    """Return to how many digits after the point results are rounded; None if they are not.

    That small numbers are whole says little.
    """
    if not all(map(is_number, (*actual, *right))) or not all(map(math.isfinite, right)):
        return None
    if _are_rounded(actual, right):
        return 0
    for digits in range(MAX_DIGITS + 1):
        unit = 10.0**-digits
        for rounded in (round, math.floor, math.ceil):
            if (digits or all(abs(r) > 10 for r in right)) and all(
                math.isclose(c, rounded(r / unit) * unit, rel_tol=1e-9, abs_tol=1e-3 * unit)
                for c, r in zip(actual, right, strict=True)
            ):
                return digits
    return None


def _are_rounded(actual: Sequence[Any], right: Sequence[Any]) -> bool:
    """Check whether results are fractions rounded to whole numbers, each up or down.

    A result that should be whole may have come out a little smaller, and is then one less.
    """
    pairs = [(c, r, abs(r - round(r)) < 1e-9 * abs(r)) for c, r in zip(actual, right, strict=True)]
    return not all(is_whole for *_, is_whole in pairs) and all(
        abs(r) > 10 and float(c).is_integer() and abs(c - r) <= (1 if is_whole else 1 - 1e-6)
        for c, r, is_whole in pairs
    )


def _explain_factors(
    terms: Terms | None, cases: Any, actual: Sequence[Any], right: Sequence[Any]
) -> str:
    """Say which terms of a sum have wrong factors; empty if the results are no such sums."""
    if terms is None or not all(isinstance(c, int | float) for c in actual):
        return ""
    groups: dict[str, list[int]] = {}
    for number, case in enumerate(cases):
        groups.setdefault(terms.given(*case), []).append(number)
    for given, numbers in groups.items():
        if len(numbers) <= len(terms.values):
            continue
        values = np.array([[f(*cases[i]) for f in terms.values.values()] for i in numbers])
        sums = [[results[i] for i in numbers] for results in (actual, right)]
        factors, wanted = (_find_factors(values, each) for each in sums)
        given = f"{given[:1].upper()}{given[1:]}"
        if factors is None:
            listed = natural_list([f"one factor times {name}" for name in terms.values])
            a_sum = "a sum of " * (len(terms.values) > 1)
            return f"{given}, the result is not {a_sum}{listed}. "
        if not all(_determine_factors(values, each) for each in sums):
            continue
        differ = [
            f"{name} counts {_format_times(one)} (expected: {_format_times(other)})"
            for name, one, other in zip(terms.values, factors, wanted or factors, strict=True)
            if not math.isclose(one, other, rel_tol=FACTOR_TOLERANCE, abs_tol=FACTOR_TOLERANCE)
        ]
        if differ:
            return f"{given}, {', and '.join(differ)}. "
    return ""


def _find_factors(values: np.ndarray, results: Sequence[float]) -> list[float] | None:
    """Return the factors with which terms add up to results; None if there are none."""
    sums = np.array(results, float)
    if not np.isfinite(sums).all() or not sums.all():
        return None
    # as parts of the results, so that each case counts equally
    factors = np.linalg.lstsq(values / sums[:, None], np.ones(len(sums)), rcond=None)[0]
    is_sum = np.allclose(values @ factors, sums, rtol=FACTOR_TOLERANCE, atol=0)
    return [float(factor) for factor in factors] if is_sum else None


def _determine_factors(values: np.ndarray, results: Sequence[float]) -> bool:
    """Check whether no other factors would give the same results.

    If two terms have nearly the same ratio in all cases, one factor can make up for the other.
    """
    parts = values / np.array(results, float)[:, None]
    lengths = np.linalg.norm(parts, axis=0)
    if not lengths.all():
        return False
    singular = np.linalg.svd(parts / lengths, compute_uv=False)
    return bool(singular[0] < MAX_CONDITION * singular[-1])


def _format_times(factor: float) -> str:
    if abs(factor) < FACTOR_TOLERANCE:
        return "not at all"
    return "once" if math.isclose(factor, 1) else f"{factor:.5g} times"


def _list_wrong_cases(cases: Any, actual: Sequence[Any], right: Sequence[Any]) -> str:
    """List the arguments of wrong results that are bools, of which a single one says little.

    Long arguments are not listed: nobody would read them.
    """
    if not all(isinstance(each, bool) for each in (*actual, *right)):
        return ""
    wrong = [case for case, c, r in zip(cases, actual, right, strict=True) if c is not r]
    shown = [", ".join(map(repr, case)) for case in sorted(wrong, key=_sorting_key_of)]
    listed = natural_list([f"({each})" for each in shown])
    is_short = len(wrong) <= MAX_LISTED_CASES and len(listed) <= MAX_CALL_CHARACTERS
    return listed if is_short else ""


def _sorting_key_of(case: Sequence[Any]) -> list[tuple[bool, float, str]]:
    """Return a key that sorts numbers by size, and all other arguments by their text.

    The same argument may be a number in one case and a list in another.
    """
    return [
        (False, value, "") if isinstance(value, int | float) else (True, 0, repr(value))
        for value in case
    ]


def _explain_by_last_argument(
    cases: Sequence[Sequence[Any]], actual: Sequence[Any], right: Sequence[Any]
) -> str:
    """Say how results differ in the wrong cases whose last argument is True, or is False."""
    for flag in (True, False):
        chosen = [
            (c, plain(r))
            for case, c, r in zip(cases, actual, right, strict=True)
            if case and case[-1] is flag and not is_same(c, r)
        ]
        how = explain_differing_results(chosen) if chosen else ""
        if how:
            return f"where the last argument is {flag}, {how}"
    return ""


def _is_of_one_kind(actual: Any, right: Any) -> bool:
    """Check whether two results are both numbers, or both lists, and so on."""
    if isinstance(actual, str) and len(actual) > 18 and actual.lstrip("-").isdigit():
        return is_number(right)  # evidence has large integers as strings
    return describe_kind(actual).replace("tuple", "list") == describe_kind(right).replace(
        "tuple", "list"
    )


Pairs = Sequence[tuple[Any, Any]]
"""A wrong result and the right one, as plain data, for each case in which they differ."""

MAX_QUOTED_LINES: Final = 6


def explain_differing_results(pairs: Pairs) -> str:
    """Say how results differ from the right ones, if they do so alike in all cases; else empty."""
    explanations = (
        _explain_kinds,
        _explain_lengths,
        _explain_order,
        _explain_inner_lengths,
        _explain_numbers,
        _explain_bools,
    )
    return next(filter(None, (explain(pairs) for explain in explanations)), "")


def _explain_kinds(pairs: Pairs) -> str:
    """Recognise results of another kind: numbers for lists, or lists nested differently."""
    if all(isinstance(c, list) and is_number(r) for c, r in pairs):
        return "it is a list or tuple, and should be one number"
    if not all(isinstance(r, list) for _, r in pairs):
        return ""
    if all(is_number(c) for c, _ in pairs):
        return "it is one number, and should be a list or tuple"
    if not all(isinstance(c, list) for c, _ in pairs):
        return ""
    if not any(c for c, _ in pairs):
        return "it is empty"
    actual, wanted = ({_measure_depth(pair[i]) for pair in pairs} for i in (0, 1))
    if len(wanted) == len(actual) == 1 and actual != wanted:
        more = max(actual) > max(wanted)
        return f"its lists are nested {'more' if more else 'less'} deeply than they should be"
    return ""


def _explain_lengths(pairs: Pairs) -> str:
    """Recognise results with too many entries, or too few."""
    if not all(isinstance(c, list) and isinstance(r, list) for c, r in pairs):
        return ""
    if all(len(c) == len(r) for c, r in pairs):
        return ""
    actual, wanted = next((c, r) for c, r in pairs if len(c) != len(r))
    entries = "entry" if len(actual) == 1 else "entries"
    if all(len(c) == 1 for c, _ in pairs):
        return "it has a single entry" + " each time" * (len(pairs) > 1)
    if all(len(c) == len(r) - 1 for c, r in pairs):
        return f"it has one entry too few, such as {len(actual)} {entries} for {len(wanted)}"
    if all(len(c) == len(r) + 1 for c, r in pairs):
        return f"it has one entry too many, such as {len(actual)} {entries} for {len(wanted)}"
    if all(not _remove_entries(r, c) for c, r in pairs):
        return "it has all the right entries, and others too"
    if all(not _remove_entries(c, r) for c, r in pairs):
        return "its entries are right, but some are missing"
    return ""


def _remove_entries(entries: list[Any], others: list[Any]) -> list[Any]:
    """Return the entries without as many of each as there are among the others."""
    left = list(entries)
    for each in others:
        if each in left:
            left.remove(each)
    return left


ORDERS: Final[dict[str, Callable[[list[Any]], list[Any]]]] = {
    "its entries are right, but in the opposite order": lambda r: r[::-1],
    "its entries are right, but each is one place too late": lambda r: r[-1:] + r[:-1],
    "its entries are right, but each is one place too early": lambda r: r[1:] + r[:1],
    "each of its entries is what the first one should be": lambda r: r[:1] * len(r),
    "each entry has the right numbers, but in the opposite order": lambda r: [
        each[::-1] if isinstance(each, list) else each for each in r
    ],
}
"""Wrong orders of entries."""


def _explain_order(pairs: Pairs) -> str:
    """Recognise the right entries or numbers in wrong places."""
    if not all(isinstance(c, list) and isinstance(r, list) for c, r in pairs):
        return ""
    for words, order in ORDERS.items():
        if all(c == order(r) for c, r in pairs):
            return words
    if all(_sort_texts(c) == _sort_texts(r) for c, r in pairs):
        return "its entries are right, but in another order"
    if not all(_is_nested(c) and _is_nested(r) and len(c) == len(r) for c, r in pairs):
        return ""
    if all(_sort_texts(a) == _sort_texts(b) for c, r in pairs for a, b in zip(c, r, strict=True)):
        return "each entry has the right numbers, but in another order"
    if all(_sort_texts(_flatten(c)) == _sort_texts(_flatten(r)) for c, r in pairs):
        return "the right numbers are in it, but in other places"
    return ""


def _explain_inner_lengths(pairs: Pairs) -> str:
    """Recognise entries that are too long or too short."""
    if not all(_is_nested(c) and _is_nested(r) and len(c) == len(r) for c, r in pairs):
        return ""
    lengths = [(len(a), len(b)) for c, r in pairs for a, b in zip(c, r, strict=True)]
    differing = [(actual, wanted) for actual, wanted in lengths if actual != wanted]
    if not differing:
        return ""
    actual, wanted = differing[0]
    numbers = "number" if actual == 1 else "numbers"
    return f"an entry has {actual} {numbers}, for example, and should have {wanted}"


def _explain_numbers(pairs: Pairs) -> str:
    """Recognise numbers that are all off by the same factor or difference."""
    if not all(_shape_of(c) == _shape_of(r) for c, r in pairs):
        return ""
    numbers = [
        (a, b) for c, r in pairs for a, b in zip(_flatten(c), _flatten(r), strict=True)
    ]  # fmt: skip
    if not numbers or not all(is_number(n) and math.isfinite(n) for pair in numbers for n in pair):
        return ""
    are_plain = all(is_number(c) for c, _ in pairs)
    in_each_case = "it is" if len(pairs) == 1 else "it is always"
    whose = in_each_case if are_plain else "every number is"
    step, *others = {a - b for a, b in numbers}
    if not others:
        by_much = shorten_floats(repr(to_integers(abs(step))))
        return f"{whose} {by_much} too {'large' if step > 0 else 'small'}"
    factors = [a / b for a, b in numbers if b]
    same = all(math.isclose(each, factors[0], rel_tol=1e-9) for each in factors)
    same = same and not math.isclose(factors[0] if factors else 1, 1, rel_tol=1e-9)
    if same and all(a == 0 for a, b in numbers if not b):
        fraction = Fraction(factors[0]).limit_denominator(10**6)
        is_close = math.isclose(fraction, factors[0], rel_tol=1e-9)
        if is_close and fraction.denominator == 1:
            return f"{whose} {fraction.numerator} times what it should be"
        if is_close and fraction.numerator == 1:
            return f"{whose} 1/{fraction.denominator} of what it should be"
    whose = in_each_case if are_plain else "every wrong number is"
    if all(a <= b for a, b in numbers):
        return f"{whose} too small"
    if all(a >= b for a, b in numbers):
        return f"{whose} too large"
    return ""


def _explain_bools(pairs: Pairs) -> str:
    """Recognise that it is always True where it should be False, or the other way round."""
    for value in (True, False):
        if all(c is value and r is (not value) for c, r in pairs):
            return f"it is {value} there, and should be {not value}"
    return ""


def _is_nested(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, list) for each in value)


def _sort_texts(entries: list[Any]) -> list[str]:
    """Return the entries' representations, sorted."""
    return sorted(map(repr, entries))


def _flatten(value: Any) -> list[Any]:
    """Flatten nested lists."""
    if isinstance(value, list):
        return [each for inner in value for each in _flatten(inner)]
    return [value]


def _measure_depth(value: Any) -> int:
    return 1 + max(map(_measure_depth, value), default=0) if isinstance(value, list) else 0


def _shape_of(value: Any) -> Any:
    return [_shape_of(each) for each in value] if isinstance(value, list) else 0


def quote_miscounted_lines(case: Sequence[Any], actual: Any, right: Any) -> str:
    """Quote the lines of a long text that mention a word counted too often or too rarely.

    A call with a long text is shortened, so the miscounted lines may not be visible in it.
    """
    if not describe_wrong_counts(actual, right):
        return ""
    texts = [each for each in case if isinstance(each, str) and each.count("\n") > 1]
    counted, wanted = Counter(actual), Counter(right)
    word = next((w for w in dict.fromkeys([*right, *actual]) if counted[w] != wanted[w]), "")
    lines = [line.strip() for text in texts for line in text.splitlines() if word in line]
    if not word or not lines:
        return ""
    shown = "; ".join(f"`{line[:MAX_LINE_CHARACTERS]}`" for line in lines[:MAX_QUOTED_LINES])
    more = f" and {len(lines) - MAX_QUOTED_LINES} more" if len(lines) > MAX_QUOTED_LINES else ""
    return f" The lines that mention {word!r} are {shown}{more}."


def describe_wrong_counts(actual: Any, right: Any) -> str:
    """Say which words are in a list too often or too rarely; empty if none is."""
    lists = isinstance(actual, list) and isinstance(right, list)
    if not lists or not all(isinstance(each, str) for each in [*actual, *right]):
        return ""
    counted, wanted = Counter(actual), Counter(right)
    differ = [word for word in dict.fromkeys([*right, *actual]) if counted[word] != wanted[word]]
    if not differ:
        return ""
    miscounted = (
        f"{word!r} {counted[word]} times instead of {wanted[word]}" for word in differ[:3]
    )
    return f" In the case below, the list has {', '.join(miscounted)}."
