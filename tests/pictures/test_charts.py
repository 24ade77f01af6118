"""The words in a chart of attempts."""

import re

from autograder.pictures import Limits, TradePoint, attempts_as_html

MIB = 2**20
TRAINING = Limits(
    72 * MIB, ((66 * MIB, 2_284),), "microseconds", sent=960 * MIB, communicating=2_237
)
KEPT, HELD_TOO_MUCH, SENT_TOO_MUCH = (
    TradePoint(66 * MIB, 3_190, 1_428),
    TradePoint(156 * MIB, 2_267, 1_428),
    TradePoint(66 * MIB, 4_976, 1_428),
)


LAYOUTS = Limits(100 * MIB, ((48 * MIB, 22_900), (96 * MIB, 14_800)), "microseconds", goal=17_500)


def said(*attempts, limits=TRAINING):
    """Return the texts in a chart of training steps."""
    return set(re.findall(r">([^<>]+)</text>", attempts_as_html("design", attempts, limits)))


def test_a_fast_step_that_holds_or_sends_too_much_does_not_look_like_one_that_counts():
    assert "yours, in order: over a budget" not in said(KEPT)
    for other in (HELD_TOO_MUCH, SENT_TOO_MUCH):
        assert "yours, in order: over a budget" in said(KEPT, other)


def test_budgets_have_the_unit_of_the_exercise():
    assert said(KEPT) >= {"shaded: over 960 MiB sent", "over 72 MiB"}
    assert "over 100 MiB or 17.5 ms" in said(KEPT, limits=LAYOUTS)


def test_a_slow_attempt_is_at_the_top_edge_and_does_not_stretch_the_chart():
    texts = said(KEPT, TradePoint(48 * MIB, 412_000), limits=LAYOUTS)
    assert "2: 412 ms ↑" in texts
    assert max(float(text) for text in texts if text.isdecimal()) < 200


def test_each_line_of_equal_time_has_its_name():
    named = {text for text in said(KEPT) if re.fullmatch(r"\d+ ms", text)}
    assert named == {"3 ms", "4 ms", "5 ms"}
