"""Schedules are run as their jobs allow, and orders that are none are explained."""

import itertools
import re
from typing import Any

import pytest

from autograder.artifacts import (
    chart_forward_pipeline,
    chart_fsdp,
    chart_overlap,
    chart_pipelines,
    chart_ring_attention,
    draw_forward_pipeline,
    draw_fsdp,
    draw_overlap,
    draw_pipelines,
    draw_ring_attention,
    explain_buckets,
    explain_orders,
    explain_waiting,
    run_overlap,
    run_pipeline,
    schedules,
)
from autograder.artifacts.schedules import OVERLAP_NUMBERS, ScheduledJob, run_jobs
from shardlings.pictures import gantt_as_html
from shardlings.pictures.svg import INK

ONE_BY_ONE = [["F0", "B0", "F1", "B1"]] * 2
MARK = "h0.8v4h-0.8z"
"""A mark on an axis."""

FORWARD_FIRST = [["F0", "F1", "B0", "B1"]] * 2


def test_a_job_starts_when_its_lane_and_its_needs_are_ready():
    computing = [ScheduledJob("a", 3), ScheduledJob("b", 1)]
    sending = [ScheduledJob("first", 2, ("a",)), ScheduledJob("second", 2, ("b",))]
    times = run_jobs([computing, sending])
    assert times == {"a": (0, 3), "b": (3, 4), "first": (3, 5), "second": (5, 7)}


def test_jobs_that_wait_for_each_other_never_start():
    assert run_jobs(
        [[ScheduledJob("a", 1, ("b",)), ScheduledJob("b", 1)], [ScheduledJob("c", 1)]]
    ) == {"c": (0, 1)}


def test_a_pipeline_takes_as_long_as_on_paper():
    one_by_one, forward_first = run_pipeline(ONE_BY_ONE), run_pipeline(FORWARD_FIRST)
    assert one_by_one.total == 2 * (1 + 1 + 2 + 2)  # each microbatch passes alone
    assert forward_first.total == (2 + 2 - 1) * 3
    assert forward_first.bubble == pytest.approx(1 / 3)
    assert (one_by_one.alive, forward_first.alive) == ([1, 1], [2, 2])


def test_no_stage_runs_two_jobs_at_once_and_none_before_what_it_needs():
    ran = run_pipeline(FORWARD_FIRST)
    for stage, order in enumerate(ran.orders):
        ends = [0.0] + [ran.times[stage, name][1] for name in order]
        assert all(ran.times[stage, n][0] >= end for n, end in zip(order, ends, strict=False))
    for name in ("F0", "F1"):
        assert ran.times[1, name][0] >= ran.times[0, name][1]
    for name in ("B0", "B1"):
        assert ran.times[0, name][0] >= ran.times[1, name][1]


@pytest.mark.parametrize(
    ("orders", "diagnosis"),
    [
        (None, "no-orders"),
        ("F0", "no-orders"),
        ([1, 2], "no-orders"),
        ([["F0", "B0"]], "number-of-stages"),
        ([["F0", "B0"], ["F0", "B1"]], "unknown-job"),
        ([["F0", "B0"], ["F0", ["B0"]]], "no-job"),
        ([["F0", "B0"], ["f0", "b0"]], "no-job"),
        ([["F0", "B0"], ["F0", "B0", None]], "no-job"),
        ([["F0", "B0"], ["F0", "B0", "F0"]], "job-twice"),
        ([["F0", "B0"], ["F0"]], "job-missing"),
        ([["F0", "B0"], ["B0"]], "forward-missing"),
    ],
)
def test_what_are_no_orders_is_explained(orders, diagnosis):
    problem = explain_orders(orders, stages=2, microbatches=1)
    assert problem is not None
    assert problem[0] == diagnosis


@pytest.mark.parametrize(
    ("jobs", "says"),
    [
        (["F0", "F1", "B0"], "Stage 0 runs F1 but no B1."),
        (["F0", "B0", "B1"], "Stage 0 runs B1 but no F1."),
        (["F0", "B0"], "Stage 0 never runs F1."),
    ],
)
def test_a_job_that_is_missing_is_named_beside_its_other_half(jobs, says):
    problem = explain_orders([jobs], stages=1, microbatches=2)
    assert problem is not None
    assert problem[1] == says


def test_orders_are_found_right():
    assert explain_orders(FORWARD_FIRST, stages=2, microbatches=2) is None


@pytest.mark.parametrize(
    ("orders", "needs"),
    [
        ([["B0", "F0"], ["F0", "B0"]], "stage 0 has B0 before its own F0."),
        ([["F0", "F1", "B0", "B1"], ["F1", "B1", "B0", "F0"]], "stage 1 has B0 before its own F0."),
        (
            [["F0", "B0", "F1", "B1"], ["F1", "B1", "F0", "B0"]],
            "stage 0 waits with B0 for B0 of stage 1, which waits with F1 for F1 of stage 0.",
        ),
        (
            [["F0", "B0"], ["F0", "B0"], ["B0", "F0"]],
            "never ends: stage 2 has B0 before its own F0.",
        ),
    ],
)
def test_who_waits_forever_is_said(orders, needs):
    ran = run_pipeline(orders)
    assert needs in explain_waiting(ran)
    assert ran.waiting


def test_a_chart_says_what_it_cannot_draw():
    number: Any = 3
    drawn = str(chart_pipelines(mine=..., yours=[["F0"]], theirs=number, never=[["B0", "F0"]]))
    assert "mine: not filled in yet" in drawn
    assert "yours: Stage 0 runs F0 but no B0." in drawn
    assert "theirs: The result must be a list" in drawn
    assert "never ends" in drawn


def test_a_chart_has_each_job_and_when_it_runs():
    drawn = chart_pipelines(all_forward_first=FORWARD_FIRST)
    assert "stage 0: F0 0–1, F1 1–2, B0 5–7, B1 7–9" in str(drawn)
    assert "stage 1: F0 1–2, F1 2–3, B0 3–5, B1 5–7" in str(drawn)
    assert "waits 33%" in str(drawn)
    assert gantt_as_html(drawn.charts).count("<svg") == 1


def test_each_call_in_a_cell_is_displayed_at_once_and_only_once(monkeypatch):
    shown: list[tuple[str, str]] = []
    monkeypatch.setattr(schedules, "display", lambda page, text, _: shown.append((page, text)))
    drawn: list[Any] = [
        draw_pipelines(one=[["F0", "B0"]]),  # type: ignore[func-returns-value]
        draw_pipelines(two=FORWARD_FIRST),  # type: ignore[func-returns-value]
        draw_overlap([2], [4], 1, 4, mine=[1]),  # type: ignore[func-returns-value]
        draw_fsdp(2),  # type: ignore[func-returns-value]
        draw_forward_pipeline(2, 2),  # type: ignore[func-returns-value]
        draw_ring_attention(2),  # type: ignore[func-returns-value]
    ]
    assert drawn == [None] * 6  # a last expression that is None displays nothing
    assert [page.count("<svg") for page, _ in shown] == [1] * 6
    assert shown[1][1] == str(chart_pipelines(two=FORWARD_FIRST))


def test_in_a_terminal_a_schedule_is_printed_as_it_is(capsys):
    draw_pipelines(mine=[["F0", "B0"]], other=[["F0[/red]"]])
    assert (
        capsys.readouterr().out.split()
        == str(chart_pipelines(mine=[["F0", "B0"]], other=[["F0[/red]"]])).split()
    )


def test_a_bucket_is_reduced_when_its_gradients_and_the_link_are_ready():
    ran = run_overlap([2, 2, 2], [4, 4, 4], [2, 1], latency=1, bandwidth=4)
    assert list(ran.computing) == [(0, 2), (2, 4), (4, 6)]
    assert list(ran.sending) == [(4, 7), (7, 9)]
    assert ran.exposed == 3


@pytest.mark.parametrize(
    ("buckets", "diagnosis"),
    [
        (3, "no-buckets"),
        ([[1, 2]], "no-buckets"),
        ([3, 0], "no-buckets"),
        ([1.0, 2], "no-buckets"),
        ([True, 2], "no-buckets"),
        ([1, 1], "number-of-layers"),
        ([], "number-of-layers"),
    ],
)
def test_what_is_no_choice_of_buckets_is_explained(buckets, diagnosis):
    problem = explain_buckets(buckets, 3)
    assert problem is not None
    assert problem[0] == diagnosis


def test_a_chart_of_buckets_says_what_is_exposed():
    drawn = chart_overlap([2, 2, 2], [4, 4, 4], 1, 4, two=[2, 1], mine=..., wrong=[1])
    assert "exposed: 3 of 9 ms" in str(drawn)
    assert "reducing: bucket 0 4–6, bucket 0 exposed 6–7, bucket 1 exposed 7–9" in str(drawn)
    assert "mine: not filled in yet" in str(drawn)
    assert "wrong: The sum of the buckets is 1, and the number of layers 3." in str(drawn)


def test_the_first_chart_of_buckets_says_what_the_numbers_are():
    drawn = str(chart_overlap([2, 2], [4, 4], 1, 4, mine=..., two=[1, 1], one=[2]))
    assert drawn.count(OVERLAP_NUMBERS) == 1
    assert drawn.index("two") < drawn.index(OVERLAP_NUMBERS) < drawn.index("one")


def test_only_the_parts_of_one_bucket_are_joined():
    (chart,) = chart_overlap([2, 3], [8, 8], 2, 4, uneven=[1, 1]).charts
    bars = chart.bars["reducing"]
    assert [(bar.name, bar.joins_next) for bar in bars] == [
        *(("bucket 0", True), ("bucket 0 exposed", False)),
        ("bucket 1 exposed", False),
    ]
    assert not any(bar.joins_next for bar in chart.bars["computing"])


def test_exposed_time_has_a_colour_of_its_own_in_a_chart_of_buckets():
    (chart,) = chart_overlap([2, 2, 2], [4, 4, 4], 1, 4, three=[1, 1, 1]).charts
    meanings = dict(chart.legend)
    assert len(meanings) == len({*meanings.values()}) == 3
    shown = [(bar.label, meanings[bar.colour]) for bar in chart.bars["reducing"]]
    hidden, exposed = "reducing, hidden", "reducing, exposed"
    assert shown == [("0", hidden), ("1", hidden), ("2", exposed)]
    (cut,) = chart_overlap([2, 2], [4, 8], 1, 4, uneven=[1, 1]).charts
    assert [(b.label, b.start, b.end) for b in cut.bars["reducing"]] == [("0", 2, 4), ("1", 4, 7)]
    (cut,) = chart_overlap([2, 3], [8, 8], 2, 4, uneven=[1, 1]).charts
    assert [(b.label, b.start, b.end) for b in cut.bars["reducing"]] == [
        *(("0", 2, 5), ("0", 5, 6)),  # a piece without a number would look like a bucket
        ("1", 6, 10),
    ]


def test_a_device_holds_one_whole_layer_at_a_time_in_fsdp():
    (chart,) = chart_fsdp(3).charts
    held = [bar for lane, bars in chart.bars.items() if lane.startswith("holds") for bar in bars]
    held.sort(key=lambda bar: bar.start)
    assert all(bar.end <= after.start for bar, after in itertools.pairwise(held))
    assert [bar.name for bar in chart.bars["sends"]] == [
        *("gather 0", "gather 1", "gather 2"),
        *("gather 2", "reduce 2", "gather 1", "reduce 1", "gather 0", "reduce 0"),
    ]
    colours = {bar.colour for bars in chart.bars.values() for bar in bars}
    assert colours == {colour for colour, _ in chart.legend}
    assert chart.axis
    for bar in chart.bars["computes"]:  # between the gather and the end of its layer
        layer = chart.bars[f"holds layer {bar.label}"]
        assert any(each.start < bar.start and bar.end == each.end for each in layer)


def test_in_a_forward_pipeline_each_microbatch_is_one_stage_further_in_each_step():
    (chart,) = chart_forward_pipeline(stages=8, microbatches=10).charts
    assert chart.end == 17  # as the text of notebook 08 says
    at_work = [
        sum(b.start <= t < b.end for bs in chart.bars.values() for b in bs) for t in range(17)
    ]
    assert at_work.count(8) == 3
    for stage, bars in enumerate(chart.bars.values()):
        assert [(bar.label, bar.start) for bar in bars] == [(str(m), stage + m) for m in range(10)]


def test_half_of_the_blocks_in_a_ring_are_masked_and_each_device_has_each_once():
    (chart,) = chart_ring_attention(4).charts
    assert all(sorted(bar.label for bar in bars) == list("0123") for bars in chart.bars.values())
    for step in range(4):  # no two devices have the same block
        assert len({bars[step].label for bars in chart.bars.values()}) == 4
    counting, half, masked = (colour for colour, _ in chart.legend)
    for device, bars in enumerate(chart.bars.values()):
        colours = [bar.colour for bar in bars]
        assert colours[0] == half
        assert (colours.count(counting), colours.count(masked)) == (device, 3 - device)


@pytest.mark.parametrize("chart", [chart_forward_pipeline(2, 7), chart_ring_attention(8)])
def test_the_number_of_a_step_is_below_the_middle_of_its_boxes(chart):
    page = gantt_as_html(chart.charts)

    def places_in(colour: str) -> list[str]:
        groups = re.findall(rf'<g text-anchor="middle" fill="{colour}".*?</g>', page)
        return re.findall(r'<text x="([\d.]+)"', "".join(groups))

    numbers = places_in("currentColor")
    assert len(numbers) == 8
    assert {*numbers} == {*places_in(INK)}
    assert MARK not in page
