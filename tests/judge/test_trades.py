"""`MovesFewBytes`: credit by the distance from the best known bytes, and the picture of it."""

import jax
import pytest

from autograder import check
from autograder.evidence import Placements
from autograder.exercises import EXERCISES, Exercise, MovesFewBytes
from autograder.judge import (
    Trade,
    judge,
    requirements_on_given_functions,
    showing_verdicts,
    verdict_as_html,
    verdict_as_text,
)
from tests.helpers import capture, sharding

FRONTIER = ((1024, 2816), (2048, 512), (8192, 0))
EXERCISE = Exercise(
    "6.8",
    "A trade",
    (
        MovesFewBytes(
            "answer", "a sharding", lambda x: x + x.T, ((32, 32),), cap=2048, frontier=FRONTIER,
            slack=512,
        ),
    ),
    ("Think.",),
)  # fmt: skip


def verdict(*spec, exercise=EXERCISE):
    return judge(exercise, capture(exercise, {"answer": sharding(*spec, x=4, y=2)}, 1), 1)


def test_the_best_that_is_known_earns_everything():
    found = verdict(("x", "y"))
    assert found.score == 1
    assert found.findings[0].trade == Trade(512, 512, 2048, FRONTIER)


def test_credit_falls_with_what_is_moved():
    found = verdict("x")
    assert found.findings[0].trade == Trade(1024, 1024, 2048, FRONTIER)
    assert found.score == pytest.approx((512 + 512) / (1024 + 512), abs=1e-3)
    assert found.state == "partly"
    assert found.diagnoses == ("could-move-less",)
    assert "With at most 2,048 bytes of the arguments on each, 512 are enough." in verdict_as_text(
        found
    )


def test_who_holds_less_than_half_of_what_may_be_held_is_told_so():
    roomy = MovesFewBytes(
        "answer", "a sharding", lambda x: x + x.T, ((32, 32),), 4096, FRONTIER, slack=512
    )
    found = verdict("x", exercise=Exercise("6.8", "A trade", (roomy,), ("Think.",)))
    assert found.diagnoses == ("room-left",)
    assert "may hold 4,096 bytes of the arguments, and holds 1,024." in verdict_as_text(found)


def test_beyond_the_cap_there_is_no_credit():
    found = verdict()
    assert found.score == 0
    assert found.diagnoses == ("over-the-cap",)
    assert (
        "may hold 2,048 bytes of the arguments; with your shardings it holds 4,096 bytes."
        in verdict_as_text(found)
    )


def test_beyond_the_frontier_is_no_more_than_everything():
    easy = MovesFewBytes("answer", "a sharding", lambda x: x + 1, ((32, 32),), 2048, FRONTIER, 512)
    exercise = Exercise("6.8", "A trade", (easy,), ("Think.",))
    assert verdict("x", exercise=exercise).score == 1


def test_every_attempt_is_drawn_and_said():
    earlier = [Trade(512, 4096, 2048, FRONTIER)]
    page = verdict_as_html(verdict("x"), {"answer": earlier})
    assert page.count('role="img"') == 1
    assert "Yours: 512 held, 4,096 moved; 1,024 held, 1,024 moved." in page
    assert "The best that is known: 1,024 held, 2,816 moved" in page
    assert "answer: at most 2,048 bytes may be held." in page


def test_a_notebook_remembers_the_attempts(monkeypatch):
    monkeypatch.setattr(showing_verdicts, "_attempts", {})
    shardings = [sharding(*spec, x=4, y=2) for spec in (("x",), (None, "y"), ("y",), (None, "y"))]
    check(
        "6.8",
        roomy=shardings,
        tight=...,
    )
    check("6.8", roomy=shardings, tight=shardings)
    attempts = showing_verdicts._attempts["6.8"]
    moved = {name: [t.costs for t in trades] for name, trades in attempts.items()}
    assert moved == {"roomy": [4096, 4096], "tight": [4096]}
    assert jax.device_count() == 8


CHAIN = MovesFewBytes(
    "answer", "two shardings", lambda a, b: a @ b, ((16, 16), (16, 16)), cap=2048,
    frontier=((768, 256), (2048, 0)), slack=64,
)  # fmt: skip


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        ((("x", None), ("x", None)), "Another sharding of b alone is enough"),
        (((None, "x"), (None, "x")), "Another sharding of a alone is enough"),
    ],
)
def test_the_one_sharding_is_named_whose_change_saves_most(specs, said):
    exercise = Exercise("6.8", "A trade", (CHAIN,), ("Think.",))
    shardings = [sharding(*spec, x=4, y=2) for spec in specs]
    found = judge(exercise, capture(exercise, {"answer": shardings}, 1), 1)
    assert found.state != "right"
    assert said in verdict_as_text(found)


@pytest.mark.parametrize(("moved", "is_advised"), [(700, True), (500, False)])
def test_a_change_is_advised_if_it_saves_half_of_what_can_be_saved(moved, is_advised, monkeypatch):
    """Here the best that is known moves 0 bytes, and each change of one sharding gets to 300."""
    monkeypatch.setattr(requirements_on_given_functions, "_moved_bytes", lambda *_: 300)
    exercise = Exercise("6.8", "A trade", (CHAIN,), ("Think.",))
    shardings = [sharding("x", None, x=4, y=2)] * 2
    piece = capture(exercise, {"answer": shardings}, 1).answers["answer"]
    assert isinstance(piece, Placements)
    said = requirements_on_given_functions.suggest_one_change(CHAIN, piece.parts, moved)
    assert bool(said) == is_advised
    assert said == "" or said.endswith("is enough to get down to 300 bytes.")


def test_an_attempt_of_the_judges_that_the_compiler_refuses_is_left_out():
    """XLA refuses some programs whose arguments are on meshes of transposed sizes."""
    exercise = EXERCISES["14.2"]
    g, h = {"x": 4, "y": 2}, {"y": 2, "x": 4}
    cache = sharding(None, "x", "y", **g)
    answers = {"many": None, "few": None, "one": [sharding(None, None, "y", **h), cache, cache]}
    found = judge(exercise, capture(exercise, answers, 1), 1)
    assert found.fault is None
    assert "could-move-less" in found.diagnoses


def test_what_is_worse_with_longer_dimensions_is_told_with_their_bytes():
    """An all-reduce of a row appears for the longer dimensions only."""
    function = MovesFewBytes(
        "answer", "a sharding", lambda x: x.sum(axis=0) if len(x) > 32 else x.sum(axis=1),
        ((32, 32),), 2048, ((2048, 0),), slack=512,
    )  # fmt: skip
    found = verdict("x", exercise=Exercise("6.8", "A trade", (function,), ("Think.",)))
    said = verdict_as_text(found)
    assert found.score < 1
    assert "If every dimension is twice as long, each device moves 256 bytes." in said
    assert "Got: 4,096 bytes held, 256 bytes moved on each device" in " ".join(said.split())


def test_what_is_wrong_in_the_notebooks_own_case_comes_before_what_is_worse_in_a_larger_one():
    function = MovesFewBytes(
        "answer", "a sharding",
        lambda x: (x + x.T).sum(axis=0) if len(x) > 32 else x.sum(axis=0), ((32, 32),), 2048,
        ((2048, 0),), slack=512,
    )  # fmt: skip
    found = verdict("x", exercise=Exercise("6.8", "A trade", (function,), ("Think.",)))
    said = " ".join(verdict_as_text(found).split())
    own, larger = "each device moves 128 bytes", "If every dimension is twice as long"
    assert 0 <= said.find(own) < said.find(larger), said
