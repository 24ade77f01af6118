"""`RunsFast`: credit by the distance from the best known time, and answers that are rejected."""

from typing import Any

import jax
import pytest
from msgspec.structs import replace

from autograder.exercises import Exercise, RunsFast
from autograder.judge import Trade, judge, verdict_as_html, verdict_as_text
from shardlings.programs import MACHINES
from tests.helpers import capture, sharding

FRONTIER = ((3 * 2**20, 300), (8 * 2**20, 100))
MODES = jax.sharding.AxisType


def asked(**changes: Any) -> Exercise:
    requirement: dict[str, Any] = {
        "answer": "layout",
        "asks": "shardings of x and w",
        "function": lambda x, w: x @ w,
        "shapes": ((2048, 1024), (1024, 2048)),
        "machine": "TPU v5e",
        "cap": 6 * 2**20,
        "frontier": FRONTIER,
        "given": 1000,
    }
    return Exercise("4.8", "A product", (RunsFast(**requirement | changes),), ("Think.",))


def verdict(x, w, exercise=None, **mesh):
    mesh = mesh or {"x": 4, "y": 2}
    exercise = exercise or asked()
    placed = [sharding(*x, **mesh), sharding(*w, **mesh)]
    return judge(exercise, capture(exercise, {"layout": placed}, 1), 1)


def test_the_time_is_computing_and_then_communicating():
    v5e = MACHINES["TPU v5e"]
    found = verdict((("x", "y"),), ())
    computing = 2 * 2048 * 1024 * 2048 / 8 / v5e.flops
    held = 2 * (2048 * 1024 // 8 + 1024 * 2048)
    took = round(1e6 * computing)
    trade = Trade(held, took, 6 * 2**20, FRONTIER, "microseconds", computing=took, goal=300)
    assert replace(found.findings[0].trade, items=()) == trade
    assert found.findings[0].trade.items == (("computing", took),)
    assert found.score == 1  # it is faster than what was known to be within the cap


def test_what_is_sent_takes_time():
    found = verdict(("x", "y"), ("x", "y"), asked(frontier=((2**20, 1),)))
    assert found.diagnoses == ("waits-for-data",)
    assert 0 < found.score < 1
    assert "communicates for" in verdict_as_text(found)


LAYOUTS: Any = ((("x", "y"), ("x", "y")), (("x",), (None, "x")))


def test_different_scores_are_told_differently():
    slow = asked(given=1000, frontier=((2**20, 1),), machine="H100 100G Ethernet")
    rows, columns = (verdict_as_text(verdict(x, w, slow)) for x, w in LAYOUTS)
    for said in (rows, columns):
        assert "The largest item is the all-" in said
    assert rows.splitlines()[1] != columns.splitlines()[1]


def test_enough_earns_everything():
    slow = verdict(("x", "y"), ("x", "y"), asked(frontier=((2**20, 1),)))
    took = slow.findings[0].trade.costs
    assert 0 < slow.score < 1
    enough = asked(frontier=((2**20, 1),), enough=took)
    assert verdict(("x", "y"), ("x", "y"), enough).score == 1


def test_repeated_work_takes_time():
    found = verdict(("x",), (), asked(frontier=((2**20, 1),)))
    assert found.diagnoses == ("works-too-much",)
    assert "On TPU v5e it takes " in verdict_as_text(found)


def test_beyond_the_cap_there_is_no_credit():
    found = verdict((), ())
    assert found.diagnoses == ("over-the-cap",)
    assert found.score == 0
    assert "holds 8,192 KiB" in verdict_as_text(found)


def test_what_the_notebook_shows_earns_nothing():
    took = verdict(("x",), ()).findings[0].trade.costs
    assert verdict(("x",), (), asked(given=took, frontier=((2**20, 1),))).score == 0


@pytest.mark.parametrize("mode", [MODES.Auto, MODES.Explicit])
def test_the_mode_of_the_mesh_does_not_matter(mode):
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(mode,) * 2)
    spec = jax.NamedSharding(mesh, jax.P(None, ("x", "y")))
    other = jax.NamedSharding(mesh, jax.P(("x", "y")))
    exercise = asked(frontier=((2**20, 1),))
    found = judge(exercise, capture(exercise, {"layout": [spec, other]}, 1), 1)
    assert found.diagnoses == ("waits-for-data",)


def test_several_meshes_are_refused_in_a_sentence():
    placed = [sharding("x", x=4, y=2), sharding("x", x=8)]
    exercise = asked()
    found = judge(exercise, capture(exercise, {"layout": placed}, 1), 1)
    assert found.diagnoses == ("several-meshes",)
    assert "Use one mesh for all of the shardings." in verdict_as_text(found)


def test_a_loop_of_unknown_length_has_no_time():
    def until(x, w):
        return jax.lax.while_loop(lambda x: x.sum() > 0, lambda x: x - 1, x)

    found = verdict(("x", "y"), ("x", "y"), asked(function=until))
    assert found.diagnoses == ("unknown-times",)


def test_attempts_are_drawn_in_milliseconds():
    page = verdict_as_html(verdict(("x",), (), asked(frontier=((2**20, 1),))))
    assert page.count('role="img"') == 1
    assert "The best that is known: 1,048,576 held, 0.00 ms." in page


def test_got_is_one_line_without_raw_bytes():
    (finding,) = verdict(("x", "y"), ("x", "y"), asked(frontier=((2**20, 1),))).findings
    assert finding.got == "1,024 KiB held and 2,048 KiB sent by each device, and 0.03 ms in all"


SLOW: Any = {"frontier": ((2**20, 1),), "machine": "H100 100G Ethernet",
             "given": 9200}  # fmt: skip


def test_the_largest_item_is_named_and_what_the_attempt_before_had_there():
    found = verdict(("x", "y"), ("x", "y"), asked(**SLOW))
    trade = found.findings[0].trade
    name, took = trade.items[0]

    def said_after(*items):
        earlier = replace(trade, costs=9_200, items=items)
        return " ".join(verdict_as_html(found, {"layout": [earlier]}).split())

    assert f"The largest item is the {name}, with {took / 1e3:.2f} ms." in said_after()
    assert "In your last attempt" not in said_after()
    assert (
        f"In your last attempt, there was no {name}; all-to-all over x took 9.00 ms, and "
        f"everything 9.20 ms."
    ) in said_after(("all-to-all over x", 9_000), ("computing", 200))
    assert f"In your last attempt, {name} took as long, and everything 9.20 ms." in said_after(
        (name, took)
    )
    assert f"In your last attempt, {name} took 9.00 ms, and everything 9.20 ms." in said_after(
        ("computing", 9_100), (name, 9_000)
    )


def test_attempts_are_compared_whatever_the_axes_are_called():
    found = verdict(("x", "y"), ("x", "y"), asked(**SLOW))
    trade = found.findings[0].trade
    (name, took), *others = trade.items
    kind = name.split()[0]

    def said_after(*items):
        return verdict_as_html(found, {"layout": [replace(trade, items=items)]})

    assert "In your last attempt" not in said_after((f"{kind} over rows", took), *others)
    assert f"In your last attempt, the {kind}s together took 9.04 ms" in said_after(
        (f"{kind} over rows", 9_000), *others
    )


def test_a_first_attempt_is_compared_with_none():
    assert "In your last attempt" not in verdict_as_text(
        verdict(("x",), (None, "x"), asked(**SLOW))
    )
