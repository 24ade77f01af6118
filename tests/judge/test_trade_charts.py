"""The words in a chart of attempts."""

import re

import pytest

pytest.importorskip("matplotlib", reason="charts are drawn where matplotlib is installed")
from autograder.judge import Trade
from autograder.judge.trade_charts import BEST, attempts_as_html, class_tradeoff_as_html
from shardlings.pictures import CHART_COLOUR

MIB = 2**20
TRAINING = Trade(
    0,
    0,
    72 * MIB,
    ((66 * MIB, 2_284),),
    "microseconds",
    max_sent=960 * MIB,
    max_communicating=2_237,
)
KEPT, HELD_TOO_MUCH, SENT_TOO_MUCH = (
    (66 * MIB, 3_190, 1_428),
    (156 * MIB, 2_267, 1_428),
    (66 * MIB, 4_976, 1_428),
)


LAYOUTS = Trade(
    0, 0, 100 * MIB, ((48 * MIB, 22_900), (96 * MIB, 14_800)), "microseconds", goal=17_500
)


def chart_of(*attempts, limits):
    """Return the chart of attempts, of which each is what it holds, costs and computes."""
    return attempts_as_html("design", [limits.at(*attempt) for attempt in attempts])


def said(*attempts, limits=TRAINING):
    """Return the texts in a chart of training steps."""
    return set(re.findall(r">([^<>]+)</text>", chart_of(*attempts, limits=limits)))


def paths(page, colour):
    """Return the markup of a chart's paths that are drawn in a colour."""
    return re.findall(rf'<path [^>]*stroke="{colour}"[^>]*>', page)


def markers(page):
    """Return whether each marker of an attempt is hollow; those of the legend are the last."""
    return ['fill-opacity="0"' in path for path in paths(page, CHART_COLOUR) if "translate" in path]


def ends(path):
    """Return the horizontal positions at which a line begins and ends."""
    places = re.findall(r"([\d.]+) [\d.]+", path.split('"')[1])
    return float(places[0]), float(places[-1])


def test_the_best_that_is_known_ends_at_the_budget_if_nothing_is_known_beyond_it():
    beyond = chart_of((384 * MIB, 11_100), limits=LAYOUTS)
    budget, _ = ends(paths(beyond, CHART_COLOUR)[0])
    assert ends(paths(beyond, BEST)[0])[1] == budget


def test_the_best_that_is_known_goes_on_to_what_is_known_beyond_the_budget():
    moves = Trade(0, 0, 12_000, ((8_192, 24_576), (10_240, 20_480), (45_056, 0)))
    chart = chart_of((16_384, 36_864), limits=moves)
    budget, _ = ends(paths(chart, CHART_COLOUR)[0])
    assert ends(paths(chart, BEST)[0])[1] > budget + 50


@pytest.mark.parametrize("limits", [LAYOUTS, TRAINING])
def test_only_the_latest_attempt_is_filled(limits):
    legend = [True, False]
    three = chart_of(KEPT, KEPT, KEPT, limits=limits)
    assert markers(three)[:5] == [True, True, False, *legend]
    if limits.max_sent:  # what each holds is a chart of its own
        assert markers(three)[5:] == [True, True, False]
    assert ">yours, in order</text>" in three
    assert ">your latest</text>" in three


def test_a_single_attempt_is_the_latest():
    assert "yours, in order" not in said(KEPT, limits=LAYOUTS)
    assert "your latest: over a budget" in said(HELD_TOO_MUCH)


def test_all_choices_of_a_class_are_filled():
    page = class_tradeoff_as_html([(rank, LAYOUTS.at(*KEPT)) for rank in "12"], [])
    assert not any(markers(page))


def test_the_legend_shows_the_edge_of_the_shaded_area():
    chart = chart_of(KEPT, limits=LAYOUTS)
    *_, swatch = (path for path in paths(chart, CHART_COLOUR) if "dash" in path)
    left, right = ends(swatch)
    assert right - left < 15


def test_a_fast_step_that_holds_or_sends_too_much_does_not_look_like_one_that_counts():
    assert "yours, in order: over a budget" not in said(KEPT, KEPT)
    for other in (HELD_TOO_MUCH, SENT_TOO_MUCH):
        assert "yours, in order: over a budget" in said(other, KEPT)


def test_budgets_have_the_unit_of_the_exercise():
    assert said(KEPT) >= {"shaded: over 960 MiB sent", "over 72 MiB"}
    assert "shaded: over 100 MiB or 17.5 ms" in said(KEPT, limits=LAYOUTS)


def test_a_slow_attempt_is_at_the_top_edge_and_does_not_stretch_the_chart():
    texts = said(KEPT, (48 * MIB, 412_000), limits=LAYOUTS)
    assert {"2 ↑", "above the chart (↑): 2: 412 ms"} <= texts
    assert max(float(text) for text in texts if text.isdecimal()) < 200


def test_of_many_slow_attempts_the_first_costs_are_listed():
    slow = [(48 * MIB, cost) for cost in (412_000, 413_000, 414_000, 415_000)]
    texts = said(KEPT, *slow, limits=LAYOUTS)
    assert "above the chart (↑): 2: 412, 3: 413, 4: 414, … ms" in texts


COMPUTED_TWICE = (66 * MIB, 3_690, 1_928)


def test_each_line_of_equal_time_has_its_name():
    named = {text for text in said(KEPT, COMPUTED_TWICE) if re.fullmatch(r"\d+ ms", text)}
    assert named == {"3 ms", "4 ms", "5 ms"}


def test_attempts_that_compute_equally_long_are_drawn_in_order_and_not_on_one_vertical():
    assert "ms in all" in said(KEPT, SENT_TOO_MUCH)
    assert "1.43 ms of computing" in said(KEPT, SENT_TOO_MUCH)
    assert "ms of computing" in said(KEPT, COMPUTED_TWICE)
