"""Results of plain functions, and tables: a cause is named only where it explains all of them."""

import math
from dataclasses import replace
from typing import Any

import pytest

from autograder.exercises import AnyOrder, Exercise, Mistake, Predicts, Returns, Terms
from autograder.judge import judge, verdict_as_text
from autograder.judge.requirements_on_results import is_predicted
from tests.helpers import capture

WORDS = (("a b a",), ("c a",), ("b c c c",))


def first_half(text: str) -> list[str]:
    return text.split()[: len(text.split()) // 2]


SPLIT = Exercise(
    "4.1",
    "Words",
    (
        Returns(
            "words",
            "words must return the words.",
            lambda rng: WORDS,
            str.split,
            {
                "each-once": lambda text: AnyOrder(set(text.split())),
                "half": Mistake(first_half, lambda text: first_half(text)[::-1]),
            },
        ),
    ),
    ("Think.",),
)

TABLE = Exercise(
    "4.7",
    "A table",
    tuple(
        Predicts(
            "table",
            cell,
            f"the value of {cell}",
            right,
            {"off-by-one": right + 1},
            tables={"added": {"two": Mistake(4, 5), "three": 6}},
        )
        for cell, right in (("two", 2), ("three", 3))
    ),
    ("Think.",),
)


def said(exercise: Exercise, **answers: Any) -> tuple[tuple[str, ...], str]:
    verdict = judge(exercise, capture(exercise, answers, 1), 1)
    return verdict.diagnoses, verdict_as_text(verdict)


@pytest.mark.parametrize("order", [sorted, lambda words: sorted(words, reverse=True), set])
def test_the_order_of_a_wrong_list_may_be_left_open(order: Any) -> None:
    assert said(SPLIT, words=lambda text: order(set(text.split())))[0] == ("each-once",)


@pytest.mark.parametrize("step", [1, -1])
def test_one_diagnosis_may_explain_several_functions(step: int) -> None:
    assert said(SPLIT, words=lambda text: first_half(text)[::step])[0] == ("half",)


def test_a_list_of_other_words_is_counted() -> None:
    diagnoses, text = said(SPLIT, words=lambda text: [*text.split(), "a"])
    assert diagnoses == ("other-result",)
    assert (
        "wrong in 3 of 3 cases. In the case below, the list has 'a' 3 times instead of 2." in text
    )


def test_a_list_in_another_order_is_said_to_be_that() -> None:
    diagnoses, text = said(SPLIT, words=lambda text: sorted(text.split()))
    assert diagnoses == ("other-result",)
    assert "in 2 of 3 cases: its entries are right, but each is one place too late." in text


def test_the_same_result_in_all_cases_is_no_claim_about_others() -> None:
    diagnoses, text = said(SPLIT, words=lambda text: ["a"])
    assert diagnoses == ("ignores-inputs",)
    assert "the same result in all 3 cases. Does it use what it is given?" in text


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (3, "The function returns a number; expected a list."),
        ("a b", "The function returns a string; expected a list."),
        ({"a": 1}, "The function returns something of type dict; expected a list."),
    ],
)
def test_a_result_of_another_type_is_named(result: Any, sentence: str) -> None:
    diagnoses, text = said(SPLIT, words=lambda text: result)
    assert diagnoses == ("other-kind",)
    assert sentence in text


@pytest.mark.parametrize(
    ("two", "three", "diagnoses"),
    [
        (4, 6, ("added",)),
        (5, 6, ("added",)),
        (4, 4, ("other-prediction", "off-by-one")),
        (3, 6, ("off-by-one", "other-prediction")),
        (2, 6, ("other-prediction",)),
    ],
)
def test_a_table_is_explained_by_a_mistake_that_explains_all_of_it(
    two: int, three: int, diagnoses: tuple[str, ...]
) -> None:
    assert said(TABLE, table={"two": two, "three": three})[0] == diagnoses


def test_of_a_long_text_the_lines_in_question_are_shown() -> None:
    case = ("one\n  the first all-gather here\ntwo\nan all-reduce\nanother all-gather",)
    asked = Returns(
        "kinds",
        "kinds must return them.",
        lambda rng: (case,),
        lambda text: ["all-gather", "all-reduce", "all-gather"],
        {},
    )
    exercise = Exercise("4.1", "Kinds", (asked,), ("Think.",))
    _, text = said(exercise, kinds=lambda text: ["all-gather", "all-reduce"])
    text = " ".join(text.split())
    assert "the first all-gather here`; `another all-gather`" in text
    assert "`an all-reduce`" not in text


@pytest.mark.parametrize(
    ("right", "result", "expected", "got"),
    [(1 / 3, 2 / 3, "0.333333", "0.666667"), (0.1, 0.1000004, "0.1", "0.1000004")],
)
def test_long_floats_are_rounded_where_they_differ_nevertheless(
    right: float, result: float, expected: str, got: str
) -> None:
    asks = Returns("part", "part must return it.", lambda rng: [(1e15,)], lambda x: right)
    _, text = said(Exercise("4.1", "A part", (asks,), ("Think.",)), part=lambda x: result)
    assert f"Expected: {expected} from part(1e+15), one of 1 cases." in text
    assert f"Got:      {got}\n" in text


def test_a_misspelt_word_is_quoted_although_other_results_are_right() -> None:
    cases = [(number,) for number in range(4)]
    asks = Returns("size", "size must be odd or even.", lambda rng: cases, parity)
    _, text = said(Exercise("4.1", "A word", (asks,), ("Think.",)), size=misspelt_parity)
    assert "The function returns 'evn'; expected 'even' or 'odd'." in text


def parity(number: int) -> str:
    return "odd" if number % 2 else "even"


def misspelt_parity(number: int) -> str:
    return parity(number).replace("even", "evn")


def test_the_case_that_is_shown_proves_the_mistake() -> None:
    """In the first case, the number is right but for being a float."""
    exercise = Exercise(
        "1.7",
        "Bytes",
        (
            Returns(
                "total",
                "total must return the bytes of all devices.",
                lambda rng: [(8,), (6,)],
                lambda devices: 4 * devices,
                {"eight-devices": lambda devices: 32},
            ),
        ),
        ("Think.",),
    )
    diagnoses, text = said(exercise, total=lambda devices: 32.0)
    assert diagnoses == ("eight-devices",)
    assert "Expected: 24 from total(6)" in text


def steps(n: int, latency: float, size: float) -> float:
    return 2 * (n - 1) * latency + (n - 1) / n * size


MACHINES = [(8, 1.0, 20.0), (8, 3.0, 1.0), (8, 0.5, 7.0), (4, 1.0, 1.0)]

TIMES = Exercise(
    "12.1",
    "Times",
    (
        Returns(
            "time",
            "time must return the time.",
            lambda rng: MACHINES,
            steps,
            terms=Terms(
                lambda n, latency, size: f"with {n} devices",
                {"latency": lambda n, latency, size: latency, "size": lambda n, _, size: size},
            ),
        ),
    ),
    ("Think.",),
)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda n, latency, size: steps(n, latency / 2, size),
         "With 8 devices, latency counts 7 times (expected: 14 times)."),
        (lambda n, latency, size: size,
         "latency counts not at all (expected: 14 times), and size counts once (expected: 0.875"),
        (lambda n, latency, size: latency * size,
         "With 8 devices, the result is not a sum of one factor times latency and one factor times "
         "size"),
        (lambda n, latency, size: steps(n, latency, size) + (n == 4), "wrong in 1 of 4 cases"),
        (lambda n, latency, size: steps(n, 1e6 * latency, 1e6 * size),
         "Every result is 1,000,000 times what it should be. Is it in another unit?"),
        (lambda n, latency, size: steps(n, latency, size) / 1000, "is 1/1,000 of what it should"),
        (lambda n, latency, size: "long", "The function returns a string; expected a number"),
        (lambda n, latency, size: float("inf"), "The function returns inf; expected a number"),
    ],
)  # fmt: skip
def test_how_often_each_term_of_a_sum_counts_is_named(made: Any, says: str) -> None:
    assert says in said(TIMES, time=made)[1]


@pytest.mark.parametrize("other", [1, 1 + 1e-4])
def test_factors_that_the_cases_do_not_determine_are_not_named(other: float) -> None:
    cases = [(8, 1.0, 20.0), (8, 3.0, 60.0), (8, 0.5, 10.0 * other)]
    (asked,) = TIMES.requirements
    assert isinstance(asked, Returns)
    exercise = replace(TIMES, requirements=(replace(asked, cases=lambda rng: cases),))
    text = said(exercise, time=lambda n, latency, size: size)[1]
    assert "wrong in 3 of 3 cases" in text
    assert " counts " not in text
    text = said(exercise, time=lambda n, latency, size: size + (size == 60))[1]
    assert "the result is not a sum" in text


def test_of_several_requirements_of_one_name_it_is_said_how_many_are_met() -> None:
    def asking_for(number: int) -> Returns:
        asks = f"twice({number}) must be {2 * number}."
        return Returns("twice", asks, lambda rng: [(number,)], lambda n: 2 * n)

    exercise = Exercise("4.1", "Twice", tuple(map(asking_for, (3, 5, 7))), ("Think.",))
    assert "Right already: 1 of 3 requirements." in said(exercise, twice=lambda n: n + 3)[1]


@pytest.mark.parametrize(
    ("made", "diagnosis"),
    [
        (lambda n: n / 7 * 1.015, "nearly-right"),
        (lambda n: n / 7 * (0.985 if n == 30 else 1), "nearly-right"),
        (lambda n: n / 7 * 1.03, "other-result"),
        (lambda n: n / 7 * (1.005 if n == 100 else 1.5), "other-result"),
    ],
)
def test_numbers_that_are_nearly_right_are_called_so(made: Any, diagnosis: str) -> None:
    asks = Returns("part", "part must return it.", lambda rng: [(30,), (100,)], lambda n: n / 7)
    diagnoses, text = said(Exercise("4.1", "Parts", (asks,), ("Think.",)), part=made)
    assert diagnoses == (diagnosis,)
    says = "Each result is within 2% of the expected one. Is something rounded, or tried in steps?"
    assert (says in text) == (diagnosis == "nearly-right")


def test_rounded_numbers_may_be_one_less_where_they_should_be_whole() -> None:
    asks = Returns("part", "part must return it.", lambda rng: [(100,), (700,)], lambda n: n / 7)
    exercise = Exercise("4.1", "Parts", (asks,), ("Think.",))
    assert said(exercise, part=lambda n: int(n / 7 - 1e-9))[0] == ("rounded",)
    assert said(exercise, part=lambda n: int(n / 7 - 1))[0] == ("other-result",)


def test_integers_that_are_nearly_right_are_not_called_rounded() -> None:
    asks = Returns("sent", "sent must return it.", lambda rng: [(300,), (1000,)], lambda n: n)
    diagnoses, _ = said(Exercise("4.1", "Bytes", (asks,), ("Think.",)), sent=lambda n: n + n // 300)
    assert diagnoses == ("other-result",)


def test_tiny_results_that_differ_are_not_called_the_same() -> None:
    asks = Returns("tiny", "tiny must return it.", lambda rng: [(1,), (2,)], float)
    diagnoses, _ = said(Exercise("4.1", "Tiny", (asks,), ("Think.",)), tiny=lambda n: n * 1e-14)
    assert diagnoses == ("other-result",)


@pytest.mark.parametrize("rounded", [int, round, math.floor, lambda size: float(math.ceil(size))])
def test_a_result_that_is_rounded_is_named(rounded: Any) -> None:
    asks = Returns("size", "size must return it.", lambda rng: [(3,), (7,)], lambda n: n * 12.3)
    exercise = Exercise("4.1", "A size", (asks,), ("Think.",))
    assert said(exercise, size=lambda n: rounded(n * 12.3))[0] == ("rounded",)
    assert said(exercise, size=lambda n: n * 12)[0] != ("rounded",)


def test_it_is_said_to_how_many_digits_a_result_is_rounded() -> None:
    asks = Returns(
        "size", "size must return it.", lambda rng: [(3,), (7,), (9,)], lambda n: n / 7e3
    )
    exercise = Exercise("4.1", "A size", (asks,), ("Think.",))
    says = "The result is rounded to 5 digits after the point"
    assert says in said(exercise, size=lambda n: round(n / 7e3, 5))[1]
    assert said(exercise, size=lambda n: n / 7.1e3)[0] != ("rounded",)


def test_wrong_bools_are_listed_with_their_arguments() -> None:
    cases = [(number,) for number in range(5)]
    asks = Returns("odd", "odd must say it.", lambda rng: cases, lambda n: n % 2 == 1)
    _, text = said(Exercise("4.1", "Odd", (asks,), ("Think.",)), odd=lambda n: n > 2)
    assert "The result is wrong in 2 of 5 cases: those for (1) and (4)." in text


def test_wrong_bools_are_listed_though_their_arguments_are_of_different_kinds() -> None:
    cases = [([[0, 1], [2, 3]],), (10,), ([0, 1],), (9,)]
    asks = Returns("deep", "deep must say it.", lambda rng: cases, lambda ids: ids == cases[0][0])
    _, text = said(Exercise("4.1", "Deep", (asks,), ("Think.",)), deep=lambda ids: ids != 9)
    assert "for (10) and ([0, 1])." in text
    asks = Returns("no", "no must be False.", lambda rng: cases, lambda ids: False)
    _, text = said(Exercise("4.1", "No", (asks,), ("Think.",)), no=lambda ids: isinstance(ids, int))
    assert "for (9) and (10)." in text


def test_wrong_bools_with_long_arguments_are_counted_only() -> None:
    cases = [([*range(i, i + 40)],) for i in range(4)]
    asks = Returns("first", "first must say it.", lambda rng: cases, lambda ids: ids[0] == 0)
    _, text = said(Exercise("4.1", "First", (asks,), ("Think.",)), first=lambda ids: ids[0] < 2)
    assert "The result is wrong in 1 of 4 cases: it is True there, and should be False." in text


@pytest.mark.parametrize(
    ("change", "expected", "got"),
    [
        (lambda words: [*words[:50], "z", *words[51:]], "'b' as entry 51 of 60", "'z' as entry 51"),
        (lambda words: words[:50], "'b' as entry 51 of 60", "50 entries"),
        (lambda words: [*words, "z"], "60 entries", "'z' as entry 61 of 61"),
    ],
)
def test_of_long_lists_the_first_entry_that_differs_is_shown(
    change: Any, expected: str, got: str
) -> None:
    text = "\n".join(["a"] * 50 + ["b"] * 10)
    exercise = Exercise(
        "4.1",
        "Lines",
        (Returns("words", "", lambda rng: [(text,)], str.split, lines=str.splitlines),),
        ("Think.",),
    )
    _, shown = said(exercise, words=lambda text: change(text.split()))
    assert f"Expected: {expected}" in shown
    assert f"Got:      {got}" in shown


@pytest.mark.parametrize("unit", [1024, 100, 1, 10**400])
def test_a_factor_that_is_no_power_of_1000_is_no_unit(unit: int) -> None:
    asks = Returns("size", "size must return it.", lambda rng: [(3,), (7,)], lambda n: 2 * n)
    exercise = Exercise("4.1", "A size", (asks,), ("Think.",))
    assert "other-unit" not in said(exercise, size=lambda n: 2 * n * unit)[0]


@pytest.mark.parametrize(("word", "shown"), [("yes", "'yes'"), (1, "a number")])
def test_what_comes_in_place_of_a_bool_is_shown(word: Any, shown: str) -> None:
    asks = Returns("odd", "odd must say it.", lambda rng: [(3,), (4,)], lambda n: n % 2 == 1)
    exercise = Exercise("4.1", "Odd", (asks,), ("Think.",))
    _, text = said(exercise, odd=lambda n: word if n % 2 else "no")
    assert f"The function returns {shown}; expected True or False." in text


@pytest.mark.parametrize(
    ("right", "came", "shown"),
    [
        (None, math.inf, "inf"),
        (2.5, -math.inf, "-inf"),
        ((2, 2.5), (2, math.nan), "(2, nan)"),
        ("finite", "inf", "'inf'"),
    ],
)
def test_a_number_that_is_not_finite_has_no_quotes(right: Any, came: Any, shown: str) -> None:
    asks = Returns("end", "end must return it.", lambda rng: [(3,), (4,)], lambda n: right)
    exercise = Exercise("4.1", "An end", (asks,), ("Think.",))
    assert f"Got:      {shown}." in said(exercise, end=lambda n: came)[1]


def test_a_table_of_which_one_entry_is_wrong_is_no_mistake_made_everywhere() -> None:
    tables = {"added": {"two": Mistake(4, 2), "three": 6}}
    cells = tuple(
        Predicts("table", cell, f"the value of {cell}", right, tables=tables)
        for cell, right in (("two", 2), ("three", 3))
    )
    exercise = Exercise("4.7", "A table", cells, ("Think.",))
    assert said(exercise, table={"two": 2, "three": 6})[0] != ("added",)
    assert said(exercise, table={"two": 4, "three": 6})[0] == ("added",)


def test_zero_is_no_known_mistake_whose_results_are_nearly_zero() -> None:
    tiny = Returns(
        "size",
        "size(n) must return a million times n.",
        lambda rng: [(n,) for n in (1, 2, 3)],
        lambda n: 1e6 * n,
        {"divided": Mistake(lambda n: 1e-14 * n, says="It is divided.")},
    )
    exercise = Exercise("4.2", "A size", (tiny,), ("Think.",))
    assert said(exercise, size=lambda n: 0.0)[0] == ("ignores-inputs",)
    assert said(exercise, size=lambda n: 1e-14 * n)[0] == ("divided",)


@pytest.mark.parametrize("entry", [["data"], ("data", object())])
def test_what_evidence_keeps_alike_is_not_told_apart(entry: Any) -> None:
    asks = Predicts("best", "it", "the best", "data", words=("data", "rows"))
    _, text = said(Exercise("4.1", "The best", (asks,), ("Think.",)), best={"it": entry})
    assert "Expected one of 'data', 'rows'; got a list, a tuple or a spec." in text
    assert "of type" not in text
    assert ("<object>" in text) == (len(entry) > 1)


@pytest.mark.parametrize(
    ("right", "same", "others"),
    [
        ("1/2", ("1 / 2", "'1/2'"), ("12", "1:2", "-1/2", "")),
        (">=", ('">="', " >= "), ("<", "", ">", "=>")),
        ("x-y", ("X - Y",), ("xy", "x+y")),
        ("12", ("12.", "“12”"), ("1/2", "-12")),
        ("all-gather", ("All_Gather", "allgather", "all gather", "all‑gather."), ("all+gather",)),
        ("a faster network", ("A faster  network.",), ("a faster net",)),
    ],
)
def test_signs_of_a_predicted_word_count_but_not_case_blanks_and_quotes(right, same, others):
    asks = Predicts("table", "cell", "the cell", right)
    assert [is_predicted(asks, actual) for actual in (right, *same)] == [True] * (1 + len(same))
    assert [is_predicted(asks, actual) for actual in others] == [False] * len(others)
