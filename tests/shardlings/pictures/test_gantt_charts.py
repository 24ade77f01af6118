"""Gantt charts have one scale, and say in words what they draw."""

import re
from dataclasses import replace

import pytest

from shardlings.pictures import GanttChart, JobBar, gantt_as_html, gantt_as_text
from shardlings.pictures.gantt_charts import LABEL_SIZE
from shardlings.pictures.svg import INK
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


@pytest.mark.parametrize(("start", "end", "side"), [(0, 1, "right"), (99, 100, "left")])
def test_the_label_of_a_lanes_only_bar_is_beside_it_where_there_is_no_room_on_it(start, end, side):
    yours = [JobBar("your time", "12.34", "#e0afca", start, end)]
    long = [JobBar("expected", "100", "#c2c2c2", 0, 100)]
    page = gantt_as_html([GanttChart.of("times", {"expected": long, "yours": yours})])
    ((left, _, width),) = [box for box in boxes_in(page) if box[2] < 10]
    (label,) = map(float, re.findall(r'<text x="([\d.]+)" y="[\d.]+">12.34<', page))
    text_anchor_start = re.findall(r'<g fill="currentColor" text-anchor="start".*?</g>', page)
    text_anchor_start += re.findall(r'<g text-anchor="start" fill="currentColor".*?</g>', page)
    assert any(">12.34<" in group for group in text_anchor_start)
    assert (label > left + width) == (side == "right")
    several = GanttChart.of("times", {"expected": long, "yours": yours * 2})
    assert ">12.34<" not in gantt_as_html([several])


def test_a_bar_that_is_cut_off_says_that_it_goes_on():
    whole = JobBar("your time", "252.3", "#e0afca", 0, 252.3)
    cut_off = GanttChart.of("times", {"yours": [replace(whole, drawn_until=100)]})
    assert cut_off.end == 100
    page = gantt_as_html([cut_off])
    assert ">252.3 →<" in page
    assert "yours: your time 0–252.3 (drawn until 100)" in page
    (path,) = re.findall(r' d="(.*?)"', page)
    assert path.count("l") == 2  # the two slanted lines of an arrow head
    all_of_it = GanttChart.of("times", {"yours": [replace(whole, drawn_until=300)]})
    assert all_of_it.end == 252.3
    page = gantt_as_html([all_of_it])
    assert "→" not in page
    assert "drawn until" not in page
    assert "l" not in re.findall(r' d="(.*?)"', page)[0]


def test_no_gap_separates_the_parts_of_one_job():
    first, second = chart("", 1, 2).bars["lane"]

    def gap(**options):
        bars = [replace(first, **options), second]
        page = gantt_as_html([GanttChart.of("parts", {"lane": bars})])
        boxes = re.findall(r"M([\d.]+),[\d.]+h([\d.]+)", page)
        (left, width), (right, _) = [tuple(map(float, box)) for box in boxes]
        return right - left - width

    assert gap() == pytest.approx(1)
    assert gap(joins_next=True) == pytest.approx(0)


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


def test_charts_of_one_scale_have_axes_with_the_same_steps():
    both = [replace(chart(name, end), axis="time, ms") for name, end in (("a", 3), ("b", 15))]
    page = gantt_as_html(both)
    assert page.count(">time, ms<") == 2
    short, long = page.split(">b<")
    assert re.findall(r">(\d+)</text>", short) == ["3", "0", "2"]  # the first is the bar's label
    assert re.findall(r">(\d+)</text>", long) == [
        *("15", "0", "2", "4", "6", "8"),
        *("10", "12", "14"),
    ]
    assert ">0<" not in gantt_as_html([chart("without an axis", 3)])


def test_each_number_of_the_axis_is_below_its_mark_or_left_out():
    both = [replace(chart(name, end), axis="step") for name, end in (("long", 18), ("short", 12))]
    long, short = gantt_as_html(both).split(">short<")
    for drawn, last in ((long, 16), (short, 12)):  # 18 would be over the edge of the chart
        numbers = "".join(re.findall(r'<g text-anchor="middle" fill="currentColor".*?</g>', drawn))
        places = [float(place) for place in re.findall(r'<text x="([\d.]+)"', numbers)]
        assert [int(number) for number in re.findall(r">(\d+)<", numbers)] == [
            *range(0, last + 1, 2)
        ]
        assert places == pytest.approx([places[0] + 40 * i for i in range(len(places))], abs=0.11)
        assert drawn.count("h0.8v4h-0.8z") == len(places)  # and no mark without a number


def pipeline(jobs, **options):
    """A chart of jobs of one and of two units of time in turn."""
    ends = (sum(1 + i % 2 for i in range(job + 1)) for job in range(jobs))
    bars = [JobBar(f"job {i}", str(i), "#c2c2c2", end - 1 - i % 2, end)
            for i, end in enumerate(ends)]  # fmt: skip
    return GanttChart.of("pipeline", {"lane": bars}, axis="time, units", **options)


def numbers_in(page, colour):
    """The centred numbers of a colour: labels are in ink, an axis in the colour of the page."""
    groups = re.findall(rf'<g text-anchor="middle" fill="{colour}".*?</g>', page)
    return [int(number) for number in re.findall(r">(\d+)</text>", "".join(groups))]


def test_a_long_chart_continues_in_rows_where_every_label_has_room():
    page = gantt_as_html([pipeline(48, may_wrap=True)])  # 72 units of time
    assert sorted(numbers_in(page, INK)) == [*range(48)]
    assert page.count(">lane<") == 4
    assert int(re.findall(r'<svg[^>]* width="(\d+)"', page)[0]) < 450
    assert numbers_in(gantt_as_html([pipeline(48)]), INK) == []


def test_a_chart_has_no_more_rows_than_its_labels_need():
    def rows(*charts):
        return gantt_as_html([replace(each, may_wrap=True) for each in charts]).count(">lane<")

    assert rows(pipeline(6)) == 1
    assert rows(pipeline(48), pipeline(6)) == 4 + 1  # on one scale
    assert rows(pipeline(4000)) == 1  # four rows would show no more of its labels
    assert gantt_as_html([pipeline(48, may_wrap=True), pipeline(48)]).count(">lane<") == 2


def count_rows(*charts):
    """The number of rows of each chart, each of which has a lane called `lane`."""
    page = gantt_as_html([replace(each, may_wrap=True) for each in charts])
    return [drawn.count(">lane<") for drawn in page.split("<svg")[1:]]


def boxes_in(page):
    """The left, top and width of each bar."""
    path = r"M([\d.]+),([\d.]+)h([\d.]+)v[\d.]+h-"
    drawn = re.findall(r'<path d="([^"]*)" fill="#', page)
    return [tuple(map(float, box)) for d in drawn for box in re.findall(path, d)]


def one_by_one(microbatches, stages=4):
    """A pipeline of which only one stage works at a time."""
    names = [*(f"stage {stage}" for stage in range(1, stages)), "lane"]
    lanes: dict[str, list[JobBar]] = {name: [] for name in names}
    for m in range(microbatches):
        start = 3 * stages * m
        for i, bars in enumerate(lanes.values()):
            end = start + 3 * stages - 2 * i
            bars.append(JobBar(f"F{m}", str(m), "#9ad2f2", start + i, start + i + 1))
            bars.append(JobBar(f"B{m}", str(m), "#f0c566", end - 2, end))
    return GanttChart.of("one by one", lanes, axis="time, units")


def staggered(jobs):
    """Two lanes of jobs of two units; the second starts later, so that one always runs."""
    lanes = {
        name: [JobBar(f"job {i}", str(i % 10), "#9ad2f2", 2 * i + j, 2 * i + j + 2)
               for i in range(jobs)]
        for j, name in enumerate(("lane", "later"))
    }  # fmt: skip
    return GanttChart.of("staggered", lanes, axis="time, units")


def test_a_chart_that_fits_in_one_row_is_not_wrapped_because_another_is_longer():
    assert count_rows(one_by_one(6), staggered(13)) == [3, 1]  # 72 and 27 units of time


def test_rows_are_about_equally_long():
    charts = [replace(each, may_wrap=True) for each in (one_by_one(6), staggered(13))]
    long, _ = gantt_as_html(charts).split(">staggered<")
    tops: dict[float, list[float]] = {
        top: [] for _, top, _ in sorted(boxes_in(long), key=lambda box: box[1])
    }
    for left, top, width in boxes_in(long):
        tops[top].append(left + width)
    lanes = [max(ends) for ends in tops.values()]
    ends = [max(lanes[row : row + 4]) for row in range(0, len(lanes), 4)]
    assert len(ends) == 3
    assert max(ends) - min(ends) < 1  # three rows of 24 units, though 27 fit in a row


@pytest.mark.parametrize("chart", [one_by_one(6), staggered(50), pipeline(48)])
def test_no_job_is_cut_between_rows(chart):
    page = gantt_as_html([replace(chart, may_wrap=True)])
    assert page.count(">lane<") > 1
    bars = [bar for bars in chart.bars.values() for bar in bars]
    boxes = boxes_in(page)
    assert len(boxes) == len(bars)
    widths = sorted(width + 1 for _, _, width in boxes)  # with the gap to the next bar
    durations = sorted(bar.end - bar.start for bar in bars)
    pixels = widths[-1] / durations[-1]
    assert widths == pytest.approx([pixels * each for each in durations], abs=0.2)
    assert sorted(numbers_in(page, INK)) == sorted(int(bar.label) for bar in bars)


def test_each_number_of_the_axis_is_in_one_row():
    page = gantt_as_html([pipeline(48, may_wrap=True)])
    numbers = numbers_in(page, "currentColor")
    assert numbers == [*range(0, 72, 2)]  # 72 would be over the edge


def test_a_legend_takes_as_many_rows_as_it_needs():
    def height(legend):
        drawn = gantt_as_html([replace(chart("a", 3), legend=legend)])
        assert all(f">{meaning}<" in drawn for _, meaning in legend)
        return int(re.findall(r'viewBox="0 0 \d+ (\d+)"', drawn)[0])

    one = height((("#9ad2f2", "forward pass"),))
    assert one > height(())
    assert height((("#9ad2f2", "what has a long name " * 2), ("#c2c2c2", "and another " * 3))) > one


@pytest.mark.parametrize("theme", THEMES)
def test_a_browser_shows_all_of_a_chart_on_wide_and_narrow_pages(theme):
    legend = (("#9ad2f2", "forward pass"), ("#c2c2c2", "backward pass"))
    drawn = replace(chart("several jobs", 3, 4, 9, 20), axis="time, ms", legend=legend)
    pages = [gantt_as_html([drawn])]
    for end in (0.000123, 0.91, 17, 118, 9_999, 2.5e6):  # whose numbers have room on the axis
        pages.append(gantt_as_html([replace(chart("long", end), axis="time, ms")]))
    pages.append(gantt_as_html([pipeline(jobs, may_wrap=True) for jobs in (4, 48, 70)]))
    with browser() as opened:
        for page in pages:
            assert not [w for width in (900, 400) for w in opened.faults(page, width, theme)]
