"""Notebook 00 says what its innocent line costs, and what the repaired one does."""

from autograder.exercises import EXERCISES
from shardlings import communication
from tests.conftest import ROOT
from tests.exercises.solutions import session_for

TEXT = " ".join((ROOT / "solutions" / "00_setup" / "00_setup.md").read_text().split())


def test_the_innocent_line_costs_what_the_notebook_says():
    names = session_for("0.1").names
    matrix, blocks = names["matrix"], names["blocks"]

    def repaired(m):
        return m + names["with_sharding_constraint"](m.T, blocks)

    before, after = (communication(f, matrix) for f in (names["innocent"], repaired))
    block = matrix.nbytes // 8
    assert f"four bytes, {block} bytes" in TEXT
    assert f"lacks of the matrix, {8 * block:,} - {block} = {7 * block:,} bytes, twice" in TEXT
    assert before.sent == 2 * 7 * block
    assert f"So a device sends up to {after.sent} bytes" in TEXT
    assert after.sent == block // 2 + block  # half of a block, and a whole one
    lesson = EXERCISES["0.1"].afterwards
    assert f"sends {before.sent:,} bytes." in lesson
    assert "saves eight ninths of them" in lesson
    assert round(9 * (1 - after.sent / before.sent)) == 8
    assert [c.bytes for c in after.collectives] == [512, 512]
    assert round(before.sent / after.sent) == 9
    assert [c.kind for c in before.collectives] == ["all-gather"] * 4
    assert "The four steps are *all-gathers*" in TEXT
    assert 6 < before.peak_bytes / after.peak_bytes < 7
    assert before.flops / after.flops == 8
    assert "for which the devices send only a ninth of the bytes" in TEXT
    assert "a device sends nine times the bytes, needs more than six times the memory" in TEXT
    assert "and does eight times the work" in TEXT


def test_each_place_of_the_constraint_is_as_good():
    names = session_for("0.1").names
    matrix, constrain = names["matrix"], names["with_sharding_constraint"]
    answers = (
        lambda m: m + constrain(m.T, names["blocks"]),
        lambda m: constrain(m + m.T, names["blocks"]),
        lambda m: constrain(m, names["blocks"]) + m.T,
    )
    assert len({communication(answer, matrix).sent for answer in answers}) == 1
