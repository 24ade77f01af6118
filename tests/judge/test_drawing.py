"""The pictures of a verdict."""

import pytest

from autograder.evidence import Evidence, Value, plain
from autograder.exercises import EXERCISES, Predicts
from autograder.judge import (
    Finding,
    RunsWithinBudgets,
    Verdict,
    judge,
    verdict_as_html,
    verdict_as_text,
)
from autograder.judge.showing_verdicts import pictures_of
from shardlings.layouts import Layout
from shardlings.pictures import GanttChart, JobBar
from tests.browser import THEMES, browser

COLUMNS, ROWS = Layout.parse("0 1 2 3"), Layout.parse("0\n1\n2\n3", (4, 4))
COLUMNS = COLUMNS.on((4, 4))


def finding(answer, made, target=COLUMNS):
    """A finding on a layout."""
    met = made == target
    return Finding(answer, met, "asked", "came", "" if met else "wrong", made=made, target=target)


def verdict(*findings):
    """A verdict with these findings."""
    return Verdict("1.1", "A title", findings, earned=float(all(f.met for f in findings)))


def titles(rows):
    return [[(p.title, p.code) for p in row] for row in rows]


def test_right_answers_are_drawn_once_side_by_side():
    rows = pictures_of(verdict(finding("a", COLUMNS), finding("b", COLUMNS)))
    assert titles(rows) == [[("Yours, as expected", "a"), ("Yours, as expected", "b")]]
    assert titles(pictures_of(verdict(finding("a", COLUMNS)))) == [[("Yours, as expected", "")]]


def test_where_something_is_wrong_what_is_right_is_not_drawn_again():
    found = verdict(finding("a", COLUMNS), finding("b", ROWS), finding("b", ROWS))
    assert titles(pictures_of(found)) == [[("Yours", "b"), ("Expected", "b")]]


def test_what_is_wrong_elsewhere_than_in_its_layout_is_not_drawn():
    costly = finding("a", COLUMNS).but(met=False, diagnosis="all-gather")
    assert pictures_of(verdict(costly)) == []


def test_on_a_page_that_is_handed_back_targets_are_drawn():
    assert titles(pictures_of(verdict(finding("a", None)), whole=True)) == [[("Expected", "")]]
    assert pictures_of(verdict(finding("a", None))) == []


def test_a_target_that_answers_share_is_drawn_once():
    drawn = {e: [title for title, _ in EXERCISES[e].targets()] for e in ("1.1", "3.3", "8.3")}
    assert drawn["1.1"] == ["1.1"]
    assert drawn["3.3"] == ["3.3 whole and together", "3.3 rows", "3.3 columns"]
    assert drawn["8.3"] == ["8.3"]


def test_targets_of_arguments_are_drawn_as_a_right_answer_has_them():
    (required,) = EXERCISES["8.1"].requirements
    assert isinstance(required, RunsWithinBudgets)
    counts = dict(zip(required.arguments, required.blocks, strict=True))
    drawn = EXERCISES["8.1"].targets()
    assert [title for title, _ in drawn] == ["8.1 W1", "8.1 X", "8.1 Y"]
    assert all(layout.counts == counts[title.removeprefix("8.1 ")] for title, layout in drawn)


def test_a_verdict_in_text_has_them_side_by_side():
    lines = verdict_as_text(verdict(finding("a", ROWS))).splitlines()
    (titles,) = [line for line in lines if line.startswith("Yours")]
    assert titles.endswith("Expected")


def chart(title):
    return GanttChart.of(title, {"stage 0": [JobBar("F0", "0", "#9ad2f2", 0, 1)]})


def charted(*answers):
    """A verdict whose findings have charts, of this and of what is expected."""
    charts = chart("yours"), chart("expected")
    return verdict(
        *(Finding(a, False, "asked", "came", "too-long", charts=charts) for a in answers)
    )


def test_what_an_answer_does_is_charted_beside_what_is_expected():
    assert "yours\n  stage 0: F0 0–1\nexpected\n" in verdict_as_text(charted("f"))
    assert verdict_as_html(charted("f")).count("<svg") == 2


def test_charts_name_their_answer_if_there_are_several():
    assert "f: yours\n" in verdict_as_text(charted("f", "g"))


@pytest.mark.parametrize("theme", THEMES)
def test_a_verdict_is_drawn_well(theme):
    pages = [
        verdict_as_html(found)
        for found in (
            charted("f", "g"),
            verdict(finding("a", COLUMNS)),
            verdict(finding("a", COLUMNS), finding("b", ROWS)),
        )
    ]
    with browser() as page:
        for drawn in pages:
            for width in (900, 500):
                assert page.faults(drawn, width, theme) == []


def all_that_is_asked(exercise, why):
    """A verdict on all functions of an exercise, every second of whose requirements is not met."""
    asked = [r for r in exercise.requirements if not isinstance(r, Predicts)]
    found = [Finding(r.answer, True, "", "", about=r.about) for r in asked]
    found[::2] = [
        f.but(met=False).problem("wrong", f"{i}: {why}") for i, f in enumerate(found[::2])
    ]
    return verdict(*found)


def test_each_exercises_table_fits_into_a_narrow_window_and_breaks_no_words():
    why = (
        "The result does not depend on a constrained intermediate value. Either the function has "
        "no jax.lax.with_sharding_constraint, or nothing is computed from what it returns."
    )
    with browser() as page:
        for exercise in EXERCISES.values():
            drawn = verdict_as_html(all_that_is_asked(exercise, why))
            assert page.faults(drawn, 500) == [], exercise.id


def half_right(exercise):
    """A verdict on a table in which two of three cells are right."""
    asked = EXERCISES[exercise]
    cells = [r for r in asked.requirements if isinstance(r, Predicts)]
    name, wrong = cells[0].answer, plain(cells[-1].right)
    table = {
        c.cell: plain(c.right) if i % 3 else wrong for i, c in enumerate(cells) if c.answer == name
    }
    return judge(asked, Evidence(exercise, {name: Value(table)}), 1)


@pytest.mark.parametrize("theme", THEMES)
def test_a_table_with_long_keys_has_room_for_its_explanations(theme):
    with browser() as page:
        for exercise in ("4.7", "11.2"):
            drawn = verdict_as_html(half_right(exercise))
            for width in (900, 500):
                assert page.faults(drawn, width, theme) == [], (exercise, width)
                lines = page.page.evaluate(
                    """() => [...document.querySelectorAll("td")].map((td) =>
                         td.textContent.length > 40 ? td.getBoundingClientRect().width : 999)"""
                )
                assert min(lines) > 300, (exercise, width)
