"""Notebook 00 says what its innocent line costs, and what the repaired one does."""

import jax

from autograder.exercises import EXERCISES
from shardlings import communication
from tests.conftest import ROOT
from tests.exercises.solutions import sitting_for

TEXT = " ".join((ROOT / "solutions" / "00_setup" / "00_setup.md").read_text().split())


def test_the_innocent_line_costs_what_the_notebook_says():
    names = sitting_for("0.1").names
    matrix, blocks = names["matrix"], names["blocks"]

    def repaired(m):
        return m + names["with_sharding_constraint"](m.T, blocks)

    before, after = (communication(f, matrix) for f in (names["innocent"], repaired))
    assert f"four bytes, {after.bytes // 2} bytes" in TEXT
    assert "two steps of 512 bytes" in TEXT
    assert f"so {after.bytes:,} bytes are enough" in TEXT
    rows = jax.device_put(matrix, jax.NamedSharding(names["grid"], jax.P("x")))
    assert f"rows alone, {communication(names['innocent'], rows).bytes:,} bytes" in TEXT
    lesson = EXERCISES["0.1"].afterwards
    assert f"needs {before.bytes:,} bytes, and yours at most {after.bytes:,}" in lesson
    assert [c.bytes for c in after.collectives] == [512, 512]
    assert before.bytes / after.bytes == 11
    assert [c.kind for c in before.collectives] == ["all-gather"] * 4
    assert "The four steps are *all-gathers*" in TEXT
    assert 6 < before.peak_bytes / after.peak_bytes < 7
    assert before.flops / after.flops == 8
    assert "with an eleventh of the bytes" in TEXT
    assert "exchanges eleven times the bytes, needs more than six times the memory" in TEXT
    assert "each device do eight times the work" in TEXT
