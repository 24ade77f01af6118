"""Verdicts in the records that a class keeps."""

import msgspec

from autograder.judge import Finding, Trade, Verdict
from shardlings.layouts import Layout
from shardlings.pictures import GanttChart, JobBar


def test_a_verdict_with_all_its_pictures_can_be_remembered():
    """Pages remember the verdicts that they have shown, by their hash."""
    chart = GanttChart.of("yours", {"device 0": [JobBar("gather", "1", "#9ad2f2", 0, 1)]})
    trade = Trade(held=8, costs=2, cap=16, frontier=((8, 1),), items=(("all-gather", 2),))
    strips = Layout.parse("0 1")
    drawn = Finding("f", False, "", "", charts=(chart,), trade=trade, target=strips, made=strips)
    verdict = Verdict("1.1", "Strips", (drawn,))
    read = msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict)
    assert hash(read) == hash(verdict)
    assert read == verdict
