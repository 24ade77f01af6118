"""Gantt charts have one scale, and say in words what they draw."""

import re

import pytest

from shardlings.pictures import GanttChart, JobBar, gantt_as_html, gantt_as_text
from shardlings.pictures.gantt_charts import LABEL_SIZE
from tests.browser import THEMES, browser


def chart(title, *ends):
    starts = (0, *ends)
    bars = [JobBar(f"job {end}", str(end), "#c2c2c2", s, end)
            for s, end in zip(starts, ends, strict=False)]  # fmt: skip
    return GanttChart.of(title, {"lane": bars, "idle": []}, ("a remark",))


def test_all_charts_have_one_scale():
    paths = re.findall(r' d="(.*?)"', gantt_as_html([chart("short", 5), chart("long", 10)]))
    width_of_short, width_of_long = (float(re.findall(r"h([\d.]+)", path)[0]) for path in paths)
    assert 2 * (width_of_short + 1) == width_of_long + 1


def test_a_label_is_drawn_only_where_there_is_room():
    page = gantt_as_html([chart("two", 1, 1000)])
    assert ">1000<" in page
    assert ">1<" not in page


def test_labels_are_no_smaller_than_nine_pixels_on_a_page_500_pixels_wide():
    stages = GanttChart.of("pipeline", {"stage 3": chart("", 1, 2).bars["lane"]})
    (width,) = map(int, re.findall(r'<svg[^>]* width="(\d+)"', gantt_as_html([stages])))
    cell = 348  # of a notebook, on such a page
    assert LABEL_SIZE * min(1, cell / width) >= 9


def test_text_and_alternative_text_say_when_jobs_run():
    charts = [chart("a <title>", 2, 3)]
    assert "lane: job 2 0–2, job 3 2–3" in gantt_as_text(charts)
    assert "idle: nothing" in gantt_as_text(charts)
    page = gantt_as_html(charts)
    assert "a &lt;title&gt;. lane: job 2 0–2, job 3 2–3; idle: nothing." in page


def test_bars_that_are_no_times_have_no_times_in_words():
    places = GanttChart.of("places", chart("", 1).bars, is_timed=False)
    assert "lane: job 1\n" in gantt_as_text([places])


def test_a_chart_without_jobs_is_its_title():
    assert "<svg" not in gantt_as_html([GanttChart.of("nothing yet", {})])


@pytest.mark.parametrize("theme", THEMES)
def test_a_browser_shows_all_of_a_chart_on_wide_and_narrow_pages(theme):
    page = gantt_as_html([chart("several jobs", 3, 4, 9, 20)])
    with browser() as opened:
        assert not [fault for width in (900, 400) for fault in opened.faults(page, width, theme)]
