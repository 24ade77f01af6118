"""Ask for the results of a plain function, or for predictions, and judge them."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Final

import jax
import numpy as np

from autograder.evidence import (
    ResultsPlan,
    TablePlan,
    Value,
    plain,
)
from autograder.judge.exercise import Exercise, Requirement
from autograder.judge.verdict import Finding

MAX_SHOWN_CHARACTERS: Final = 160
"""Of what a call returns."""

LONGEST_CALL: Final = 120
"""The most characters that are shown of a call; of a longer one, the middle is left out."""

LONG_NUMBER: Final = re.compile(r"(\d{8})\d{24,}(\d{8})")
"""A whole number of which nobody reads all digits."""

NOT_FINITE: Final = ("nan", "inf", "-inf")
"""What such numbers are as plain data, which has no others for them."""


@dataclass(frozen=True)
class Returns(Requirement):
    """A Python function gives the right result on cases drawn afresh each time.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what the function must return, in a sentence.
        cases: draws the argument lists, of plain data, from a random generator.
        reference: gives the right result.
        mistakes: for each diagnosis, a function that makes that mistake and no other, or `AnyOf`
            several. Where the order of a wrong list is left open, such a function returns
            `AnyOrder`.
    """

    about: ClassVar = "result"
    evidence: ClassVar = (Value,)
    runs_in_kernel: ClassVar = True

    answer: str
    asks: str
    cases: Callable[[np.random.Generator], Sequence[tuple[Any, ...]]]
    reference: Callable[..., Any]
    mistakes: Mapping[str, Any] = field(default_factory=dict)

    def plan_capture(self, generator: np.random.Generator) -> ResultsPlan:
        """What the function returns in each case."""
        return ResultsPlan.of(self.cases(generator))

    def judge(self, piece: Value, basis: Finding, exercise: Exercise, seed: int) -> Finding:
        """The finding for what the function returned in the cases drawn from `seed`."""
        return _judge_results(self, piece, basis, exercise, seed)


class AnyOf(tuple[Any, ...]):
    """Several predictions, or several functions, that one diagnosis explains."""

    __slots__ = ()


class AnyOrder(list[Any]):
    """A list of which only the entries matter, and how often each is there."""


def ways_of(mistake: Any) -> tuple[Any, ...]:
    """The predictions or functions that a diagnosis explains, of which there may be just one."""
    return tuple(mistake) if isinstance(mistake, AnyOf) else (mistake,)


@dataclass(frozen=True)
class Predicts(Requirement):
    """One cell of a table of predictions, judged by itself.

    Attributes:
        answer: the name, in the notebook, of the table: a dictionary.
        cell: the key of the cell.
        asks: what is to be predicted, in a sentence.
        right: the right prediction: a number, a string, a `jax.P`, or a list of such.
        mistakes: for each diagnosis, the prediction that it explains, or `AnyOf` several.
        tolerance: how far off a number may be, as a share of the right one.
        words: where a word is to be predicted, more of those that may be.
        tables: for each diagnosis, the whole table of someone who makes that mistake everywhere. It
            explains a wrong cell only where every cell that it names came out so.
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
        """The table."""
        return TablePlan()

    def judge(self, piece: Value, basis: Finding, exercise: Exercise, seed: int) -> Finding:
        """The finding for the cell."""
        return _judge_prediction(self, piece, basis)


def _judge_results(
    requirement: Returns, piece: Value, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for the results that a function gave on the cases drawn from `seed`."""
    cases = requirement.cases(exercise.generator(seed))
    results = piece.value
    if not isinstance(results, list) or len(results) != len(cases):
        return basis.problem("malformed", "The submission does not have a result for each case.")
    if not all(isinstance(result, dict) for result in results):
        return basis.problem("malformed", "The submission does not have a result for each case.")
    for case, result in zip(cases, results, strict=True):
        call = f"{requirement.answer}({', '.join(map(repr, case))})"
        if "error" in result:
            said = f"Your function raised {result['error']}. The call was {_called(call)}."
            return basis.problem("raised", said, came="")
        wanted = requirement.reference(*case)
        if not _same(result.get("came"), wanted):
            diagnosis, said = _which_mistake(requirement, cases, results)
            if diagnosis == "other-result":
                said += lines_in_question(case, result.get("came"), wanted)
            return basis.problem(
                diagnosis,
                said,
                asked=f"{_shown(wanted, wanted)} from {_called(call)}, one of {len(cases)} cases",
                came=_shown(result.get("came"), wanted),
            )
    return basis.but(met=True, came=f"the right result in all of {len(cases)} cases")


def _judge_prediction(requirement: Predicts, piece: Value, basis: Finding) -> Finding:
    """The finding for one cell of a table of predictions."""
    table = piece.value if isinstance(piece.value, dict) else {}
    if requirement.cell not in table:
        return basis.problem("malformed", f"The table has no cell {requirement.cell!r}.")
    came = table[requirement.cell]
    if came == plain(...):
        return basis.problem(
            "unanswered", f"The cell {requirement.cell!r} has not been filled in yet."
        )
    basis = basis.but(came=_shown(came, requirement.right))
    if is_predicted(requirement, came):
        return basis.but(met=True)
    for diagnosis, cells in requirement.tables.items():
        if all(_explains(cells[cell], table.get(cell), requirement.tolerance) for cell in cells):
            return basis.problem(diagnosis, "")
    for diagnosis, mistake in requirement.mistakes.items():
        if _explains(mistake, came, requirement.tolerance):
            return basis.problem(diagnosis, "")
    wanted = _form(requirement, came)
    if wanted:
        words = isinstance(came, str) and isinstance(requirement.right, str)
        got = repr(came[:40]) if words else _kind(came)
        return basis.problem("other-form", f"Expected {wanted}; got {got}.")
    return basis.problem("other-prediction", "")


def is_predicted(requirement: Predicts, came: Any) -> bool:
    """Whether a prediction, as plain data, is the right one."""
    return _predicted(came, requirement.right, requirement.tolerance)


def _explains(mistake: Any, came: Any, tolerance: float) -> bool:
    """Whether a prediction is what a mistake gives, or one of several that it may give."""
    return any(_predicted(came, each, tolerance) for each in ways_of(mistake))


def _predicted(came: Any, wanted: Any, tolerance: float) -> bool:
    if _is_number(came) and _is_number(wanted):
        return math.isclose(came, wanted, rel_tol=max(tolerance, 1e-9))
    if isinstance(came, str) and isinstance(wanted, str):
        return _letters(came) == _letters(wanted)
    if isinstance(wanted, jax.P):
        return _same(_without_last_nones(came), _without_last_nones(plain(wanted)))
    return _same(came, plain(wanted))


def _without_last_nones(entries: Any) -> Any:
    """A spec's entries without the `None`s at its end, which change nothing."""
    while isinstance(entries, list) and entries and entries[-1] is None:
        entries = entries[:-1]
    return entries


def _form(requirement: Predicts, came: Any) -> str:
    """What kind of thing is to be predicted, where something of another kind came."""
    right = requirement.right
    quotes = " without quotes" * isinstance(came, str)
    if isinstance(right, bool):
        return "" if isinstance(came, bool) else f"True or False{quotes}"
    if _is_number(right) and came in NOT_FINITE:
        return "a finite number"
    if _is_number(right):
        return "" if _is_number(came) else f"a number{quotes}"
    if isinstance(right, str):
        mistakes = [word for each in requirement.mistakes.values() for word in ways_of(each)]
        named = [word for word in mistakes if isinstance(word, str)]
        words = dict.fromkeys([right, *named, *requirement.words])
        known = isinstance(came, str) and _letters(came) in map(_letters, words)
        # where a number can be mistaken for the right word, a number is no other form
        numbers = _is_number(came) and any(map(_is_number, mistakes))
        if known or numbers:
            return ""
        if len(words) == 1:  # to list it would give the answer away
            or_number = "a number, or " * any(map(_is_number, mistakes))
            return f"{or_number}the word that the question asks for"
        return f"one of {', '.join(sorted(map(repr, words)))}"
    if isinstance(right, jax.P):
        entries = came if isinstance(came, list) else [0]
        names = all(e is None or isinstance(e, str | list) for e in entries)
        return "" if names else f"a spec such as P('x', None){quotes}"
    return "" if isinstance(came, list) else "a tuple"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _letters(word: str) -> str:
    """A word without its hyphens and capitals."""
    return "".join(letter for letter in word.lower() if letter.isalnum())


def _which_mistake(requirement: Returns, cases: Any, results: Any) -> tuple[str, str]:
    """What explains every result: a known mistake, or one that any function can have.

    Returns:
        A diagnosis, and what is to be said of it besides a lesson.
    """
    came = [result.get("came") for result in results]
    right = [requirement.reference(*case) for case in cases]
    whole = [_whole(each) for each in came]
    is_right = all(_same(w, r) for w, r in zip(whole, right, strict=True))
    for results_or_whole in (came, whole):  # a mistake may come with floats for integers
        for diagnosis, mistaken in requirement.mistakes.items():
            for way in ways_of(mistaken):
                made = [way(*case) for case in cases]
                if not all(_same(c, m) for c, m in zip(results_or_whole, made, strict=True)):
                    continue
                # floats that are right are near to some that are not, such as sums in float32
                if not is_right or all(
                    _same(_whole(m), r) for m, r in zip(made, right, strict=True)
                ):
                    return diagnosis, ""
    if all(c is None for c in came):
        return "nothing-returned", "The function returns None. Does it end with a return? "
    if is_right:
        return "floats", "The numbers are right, but some are floats; expected integers. "
    if all(isinstance(r, tuple | list) for r in right) and all(
        _same([c], r) for c, r in zip(came, right, strict=True)
    ):
        return "no-tuple", "The number is right, but it has to be in a tuple. "
    if all(isinstance(r, int | float) and c == str(r) for c, r in zip(came, right, strict=True)):
        kind = "True or False" if isinstance(right[0], bool) else "a number"
        return "in-quotes", f"The result is right, but it is a string; expected {kind}. "
    if all(isinstance(r, str) for r in right) and not set(map(str, came)) & set(right):
        words = " or ".join(sorted(map(repr, set(right))))
        return "other-word", f"The function returns something else than one of {words}. "
    if not any(_is_of_one_kind(c, r) for c, r in zip(came, right, strict=True)):
        got, expected = _kind(came[0]), _kind(right[0])
        return "other-kind", f"The function returns {got}; expected {expected}. "
    if len(came) > 1 and all(_same(c, came[0]) for c in came):
        return "ignores-inputs", (
            f"The function returns the same result in all {len(cases)} cases. Does it use what it "
            f"is given? "
        )
    wrong = [(c, r) for c, r in zip(came, right, strict=True) if not _same(c, r)]
    said = f"The result is wrong in {len(wrong)} of {len(cases)} cases"
    counted = too_many_and_too_few(*wrong[0])
    how = "" if counted else how_results_differ([(c, plain(r)) for c, r in wrong])
    how = how or ("" if counted else _how_some_differ(cases, came, right))
    return "other-result", f"{said}{f': {how}' * bool(how)}.{counted}"


def _how_some_differ(
    cases: Sequence[Sequence[Any]], came: Sequence[Any], right: Sequence[Any]
) -> str:
    """Say how results differ in the wrong cases whose last argument is True, or else False."""
    for flag in (True, False):
        chosen = [
            (c, plain(r))
            for case, c, r in zip(cases, came, right, strict=True)
            if case[-1] is flag and not _same(c, r)
        ]
        how = how_results_differ(chosen) if chosen else ""
        if how:
            return f"where the last argument is {flag}, {how}"
    return ""


def _is_of_one_kind(came: Any, right: Any) -> bool:
    """Whether two results are both numbers, or both lists, and so on."""
    if isinstance(came, str) and len(came) > 18 and came.lstrip("-").isdigit():
        return _is_number(right)  # evidence writes large whole numbers as text
    return _kind(came).replace("tuple", "list") == _kind(right).replace("tuple", "list")


def _whole(value: Any) -> Any:
    """The same, with floats that are whole numbers as these."""
    if isinstance(value, list | tuple):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _same(came: Any, wanted: Any) -> bool:
    """Equal, as plain data: numbers by value, tuples and lists alike."""
    if isinstance(wanted, AnyOrder):
        return isinstance(came, list) and sorted(map(repr, came)) == sorted(map(repr, wanted))
    if isinstance(wanted, tuple | list):
        return (
            isinstance(came, tuple | list)
            and len(came) == len(wanted)
            and all(_same(c, w) for c, w in zip(came, wanted, strict=True))
        )
    if isinstance(wanted, float) and isinstance(came, int | float):
        return math.isclose(came, wanted, rel_tol=1e-6, abs_tol=1e-12)
    return type(came) is type(wanted) and bool(came == wanted)


def _as_asked(value: Any, right: Any, lists: bool = False) -> Any:
    """Plain data with its lists as what is right has in their place: lists or tuples.

    Where that has neither, they are what they are in.
    """
    if not isinstance(value, list | tuple):
        return value
    lists = isinstance(right, list) if isinstance(right, list | tuple) else lists
    within = right if isinstance(right, list | tuple) and right else [None]
    parts = [_as_asked(v, within[min(i, len(within) - 1)], lists) for i, v in enumerate(value)]
    return parts if lists else tuple(parts)


def _cut(text: str) -> str:
    """A text, or as much of it as a reader compares by eye; of long numbers, both ends."""
    text = LONG_NUMBER.sub(r"\1…\2", text)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"


def _called(call: str) -> str:
    """A call, or its beginning and its end."""
    call = LONG_NUMBER.sub(r"\1…\2", call)
    return call if len(call) <= LONGEST_CALL else f"{call[:70]} … {call[-30:]}"


def _kind(value: Any) -> str:
    """What kind of thing came, in words."""
    if value in NOT_FINITE:
        return str(value)
    if isinstance(value, dict):
        return f"something of type {value.get('of type')}"
    kinds = {bool: "a bool", int: "a number", float: "a number", str: "a string", list: "a list"}
    kinds[tuple] = "a tuple"
    return kinds.get(type(value), "None")


def _shown(value: Any, right: Any = None) -> str:
    """What came, as it was written: a spec or a list, where one is right; else lists are tuples.

    Evidence has only lists, so what is right tells which of the two a learner was asked for.
    """
    if isinstance(value, dict):
        return f"something of type {value.get('of type')}"
    if isinstance(right, jax.P) and isinstance(value, list):
        entries = (tuple(e) if isinstance(e, list) else e for e in value)
        return f"P({', '.join(map(repr, entries))})"
    return _cut(repr(_as_asked(value, right)))


Pairs = Sequence[tuple[Any, Any]]
"""What came and what is right, as plain data, for each case in which they differ."""
LONGEST_LINE: Final = 120
"""The most characters that are shown of a line."""

MAX_SHOWN_LINES: Final = 6


def how_results_differ(pairs: Pairs) -> str:
    """Say how results differ from the right ones, if in all these cases alike; else nothing."""
    looks = (_kinds, _lengths, _orders, _inner_lengths, _numbers, _bools)
    return next(filter(None, (look(pairs) for look in looks)), "")


def _kinds(pairs: Pairs) -> str:
    """Whether results are of another kind: numbers for lists, or lists nested otherwise."""
    if all(isinstance(c, list) and _is_number(r) for c, r in pairs):
        return "it is a list or tuple, and should be one number"
    if not all(isinstance(r, list) for _, r in pairs):
        return ""
    if all(_is_number(c) for c, _ in pairs):
        return "it is one number, and should be a list or tuple"
    if not all(isinstance(c, list) for c, _ in pairs):
        return ""
    if not any(c for c, _ in pairs):
        return "it is empty"
    came, wanted = ({_depth(pair[i]) for pair in pairs} for i in (0, 1))
    if len(wanted) == len(came) == 1 and came != wanted:
        more = max(came) > max(wanted)
        return f"its lists are nested {'more' if more else 'less'} deeply than they should be"
    return ""


def _lengths(pairs: Pairs) -> str:
    """Whether there are more entries, or fewer, in every case."""
    if not all(isinstance(c, list) and isinstance(r, list) for c, r in pairs):
        return ""
    if all(len(c) == len(r) for c, r in pairs):
        return ""
    came, wanted = next((c, r) for c, r in pairs if len(c) != len(r))
    entries = "entry" if len(came) == 1 else "entries"
    if all(len(c) == 1 for c, _ in pairs):
        return "it has a single entry each time"
    if all(len(c) == len(r) - 1 for c, r in pairs):
        return f"it has one entry too few, such as {len(came)} {entries} for {len(wanted)}"
    if all(len(c) == len(r) + 1 for c, r in pairs):
        return f"it has one entry too many, such as {len(came)} {entries} for {len(wanted)}"
    if all(each in c for c, r in pairs for each in r):
        return "it has all the right entries, and others too"
    if all(each in r for c, r in pairs for each in c):
        return "its entries are right, but some are missing"
    return ""


ORDERS: Final[dict[str, Callable[[list[Any]], list[Any]]]] = {
    "its entries are right, but in the opposite order": lambda r: r[::-1],
    "its entries are right, but each is one place too late": lambda r: r[-1:] + r[:-1],
    "its entries are right, but each is one place too early": lambda r: r[1:] + r[:1],
    "each of its entries is what the first one should be": lambda r: r[:1] * len(r),
    "each entry is right, but in the opposite order": lambda r: [
        each[::-1] if isinstance(each, list) else each for each in r
    ],
}
"""Orders in which entries can have been put, in words."""


def _orders(pairs: Pairs) -> str:
    """Whether the right entries or numbers are there, in other places."""
    if not all(isinstance(c, list) and isinstance(r, list) for c, r in pairs):
        return ""
    for words, order in ORDERS.items():
        if all(c == order(r) for c, r in pairs):
            return words
    if all(_sorted(c) == _sorted(r) for c, r in pairs):
        return "its entries are right, but in another order"
    if not all(_nested(c) and _nested(r) and len(c) == len(r) for c, r in pairs):
        return ""
    if all(_sorted(a) == _sorted(b) for c, r in pairs for a, b in zip(c, r, strict=True)):
        return "each entry has the right numbers, but in another order"
    if all(_sorted(_flat(c)) == _sorted(_flat(r)) for c, r in pairs):
        return "the right numbers are in it, but in other places"
    return ""


def _inner_lengths(pairs: Pairs) -> str:
    """Whether entries are too long or too short."""
    if not all(_nested(c) and _nested(r) and len(c) == len(r) for c, r in pairs):
        return ""
    lengths = [(len(a), len(b)) for c, r in pairs for a, b in zip(c, r, strict=True)]
    off = [(came, wanted) for came, wanted in lengths if came != wanted]
    if not off:
        return ""
    came, wanted = off[0]
    numbers = "number" if came == 1 else "numbers"
    return f"an entry has {came} {numbers}, for example, and should have {wanted}"


def _numbers(pairs: Pairs) -> str:
    """Whether every number is off by a factor, or by as much."""
    if not all(_shape(c) == _shape(r) for c, r in pairs):
        return ""
    numbers = [
        (a, b) for c, r in pairs for a, b in zip(_flat(c), _flat(r), strict=True)
    ]  # fmt: skip
    if not numbers or not all(_is_number(n) and math.isfinite(n) for pair in numbers for n in pair):
        return ""
    step, *others = {a - b for a, b in numbers}
    if not others:
        return f"every number is {abs(step)} too {'large' if step > 0 else 'small'}"
    factors = {Fraction(a) / Fraction(b) for a, b in numbers if b}
    if len(factors) == 1 and all(a == 0 for a, b in numbers if not b):
        by = factors.pop()
        if by.denominator == 1:
            return f"every number is {by.numerator} times what it should be"
        if by.numerator == 1:
            return f"every number is 1/{by.denominator} of what it should be"
    if all(a <= b for a, b in numbers):
        return "numbers are too small, and none is too large"
    if all(a >= b for a, b in numbers):
        return "numbers are too large, and none is too small"
    return ""


def _bools(pairs: Pairs) -> str:
    """Whether it is True each time where it should not be, or False."""
    for value in (True, False):
        if all(c is value and r is (not value) for c, r in pairs):
            return f"it is {value} there, and should be {not value}"
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _nested(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, list) for each in value)


def _sorted(entries: list[Any]) -> list[str]:
    """Entries of any kind, in an order of their own."""
    return sorted(map(repr, entries))


def _flat(value: Any) -> list[Any]:
    """All that is in lists within lists, one after the other."""
    if isinstance(value, list):
        return [each for inner in value for each in _flat(inner)]
    return [value]


def _depth(value: Any) -> int:
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _shape(value: Any) -> Any:
    return [_shape(each) for each in value] if isinstance(value, list) else 0


def lines_in_question(case: Sequence[Any], came: Any, right: Any) -> str:
    """List the lines of a long text that mention a word counted too often or too seldom.

    A call with such a text is shown in part only, and nobody can see what was read wrong in it.
    """
    if not too_many_and_too_few(came, right):
        return ""
    texts = [each for each in case if isinstance(each, str) and each.count("\n") > 1]
    counted, wanted = Counter(came), Counter(right)
    word = next((w for w in dict.fromkeys([*right, *came]) if counted[w] != wanted[w]), "")
    lines = [line.strip() for text in texts for line in text.splitlines() if word in line]
    if not word or not lines:
        return ""
    shown = "; ".join(f"`{line[:LONGEST_LINE]}`" for line in lines[:MAX_SHOWN_LINES])
    more = f" and {len(lines) - MAX_SHOWN_LINES} more" if len(lines) > MAX_SHOWN_LINES else ""
    return f" The lines that mention {word!r} are {shown}{more}."


def too_many_and_too_few(came: Any, right: Any) -> str:
    """Say how often words are in a list, where that is not as often as it should be."""
    lists = isinstance(came, list) and isinstance(right, list)
    if not lists or not all(isinstance(each, str) for each in [*came, *right]):
        return ""
    counted, wanted = Counter(came), Counter(right)
    differ = [word for word in dict.fromkeys([*right, *came]) if counted[word] != wanted[word]]
    if not differ:
        return ""
    off = (f"{word!r} {counted[word]} times instead of {wanted[word]}" for word in differ[:3])
    return f" In the case below, the list has {', '.join(off)}."
