"""The report on a class: what it says, whom it does not name, and that it can do nothing.

The class is made up, and written straight into files: nothing is graded here.
"""

import json
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote

import msgspec
import pytest

from autograder.exercises import find
from autograder.instructor.classroom.class_answers import (
    find_shared_mistakes,
    format_code,
)
from autograder.instructor.classroom.class_report import REPORT_FILE, count_totals, write_report
from autograder.instructor.classroom.roster import Person
from autograder.instructor.classroom.submission_states import (
    Failure,
    StateRow,
    read_kept_answers,
)
from autograder.instructor.course import Course
from autograder.instructor.gradebook import Mark
from autograder.instructor.pipeline import (
    GradedNotebook,
    Record,
    Records,
    State,
    encoded_verdicts,
)
from autograder.judge import Finding, Trade, Verdict
from shardlings.layouts import Layout
from tests.browser import FAULTS, browser
from tests.conftest import ROOT

ASSIGNMENT = "01_sharding_basics"
EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
TURNED = f"\u202e{EVIL}\u2066"
KNOWN, UNKNOWN = "transposed", "never-heard-of"
LESSON = find("1.1").lessons[KNOWN]


def right(exercise):
    findings = (Finding("columns", True, "asked", "came"),)
    return Verdict(exercise, find(exercise).title, findings, earned=1.0)


def wrong(exercise, diagnosis=KNOWN, said="These are rows.", earned=0.0):
    finding = Finding("columns", False, "asked", "came", diagnosis, said)
    return Verdict(exercise, find(exercise).title, (finding,), earned=earned)


def nothing(exercise):
    return wrong(exercise, "unanswered", "It has not been filled in yet.")


def grade(course, student, verdicts, codes=None, late=0.0, others=None, assignment=ASSIGNMENT):
    """A graded submission, as files and a row; with code of its own in each exercise's cell."""
    folder = course.autograded / student / assignment
    folder.mkdir(parents=True)
    found = GradedNotebook(verdicts=encoded_verdicts({v.exercise: v for v in verdicts}))
    record = Record(State.GRADED, notebooks={assignment: found})
    Records(course.records).write(student, assignment, record)
    cells = [
        {
            "source": (codes or {}).get(v.exercise, f"columns = {student!r}"),
            "metadata": {"nbgrader": {"grade_id": find(v.exercise).grade_id[: -len("-check")]}},
        }
        for v in verdicts
    ]
    (folder / f"{assignment}.ipynb").write_text(json.dumps({"cells": cells}))
    marks = {v.exercise: Mark(2 * v.earned, 2.0, 2 * v.earned) for v in verdicts} | (others or {})
    score, points = sum(m.score for m in marks.values()), sum(m.points for m in marks.values())
    return StateRow(
        student, assignment, State.GRADED, marks, score, points, late, seconds_late=late * 3600
    )


@pytest.fixture
def course(tmp_path):
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    (tmp_path / "grading").mkdir()
    return Course(tmp_path)


def page(course, rows, failures=(), people=()):
    return write_report(course, rows, failures, people, read_kept_answers(course, rows)).read_text()


class Parsed(HTMLParser):
    """A page as a browser reads it: its elements, and its words."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.within = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.within.append(tag)

    def handle_endtag(self, tag):
        while self.within and self.within.pop() != tag:
            pass

    def handle_data(self, data):
        if "style" not in self.within:
            self.words.append(data)

    @property
    def said(self):
        return " ".join(" ".join(self.words).split())


def of_class(course, size=24):
    """A class with something of everything; s00 is the worst."""
    return [
        grade(
            course,
            f"s{i:02}",
            [(right if i > size // 2 else wrong)("1.1"), (right if i % 3 else nothing)("1.2")],
            {"1.1": f"columns = put({i})", "1.2": f"blocks = put({i % 2})"},
        )
        for i in range(size)
    ]


@pytest.mark.parametrize(
    ("totals", "points", "bars"),
    [
        ([0.5, 1, 2.9, 3], 3, {"0 to 1": 1, "1 to 2": 1, "2 to 3": 2}),
        ([0, 12.9, 13], 13, {"0 to 2": 1, "12 to 14": 2}),
        ([1.5], 1, {"1 to 2": 1}),  # with extra credit
        ([0], 0, {"0 to 1": 1}),
        ([], 13, {}),
    ],
)
def test_totals_are_counted_in_bars_of_whole_points(totals, points, bars):
    counted = count_totals(totals, points)
    assert {bar.points: bar.count for bar in counted if bar.count} == bars
    assert len(counted) <= 12
    assert not counted or max(bar.percent for bar in counted) == 100


def test_it_says_who_handed_in_is_missing_late_broken_and_waits(course):
    waits = {"essay": Mark(0, 3, None, None, 0, needs_a_look=True)}
    rows = [
        replace(grade(course, "ada", [right("1.1")], late=1.0), out_of_date="points have changed"),
        grade(course, "bob", [wrong("1.1", earned=0.5)], others=waits),
        StateRow("cyd", ASSIGNMENT, State.BROKEN),
        StateRow("dan", ASSIGNMENT, State.FAILED),
        StateRow("eve", ASSIGNMENT, State.MISSING),
        StateRow("flo", ASSIGNMENT, State.AWAITED),
    ]
    failures = [
        Failure("cyd", ASSIGNMENT, "it is no notebook.", is_broken=True),
        Failure("dan", ASSIGNMENT, "grading failed. OSError: the disk", is_broken=False),
    ]
    people = [Person("eve", "Eve Sample"), Person("bob", "Bob Sample")]
    said = Parsed(page(course, rows, failures, people)).said
    assert said.index("Students and exercises") < said.index("Exercises ")
    for counted in (
        "eve (Eve Sample)",
        "4 handed in", "1 missing", "1 late", "1 broken", "1 failed", "1 to look at",
        "ada: 1 hour, 1 deducted", "1 out of date", "ada: points have changed",
        "cyd: it is no notebook.", "bob (Bob Sample): essay",
        "dan: grading failed. OSError: the disk", "2 submissions are graded.",
    ):  # fmt: skip
        assert counted in said
    assert "0 right" not in said
    assert "1 right, 1 partly" in said
    assert "– missing" in Parsed(page(course, rows[:2])).said, "nobody knows, without a roster"


def design(costs, held, score=1.0, diagnosis=""):
    """A verdict on 4.8 for a design that takes so many microseconds and holds so many MiB."""
    frontier = ((48 * 2**20, 43_000), (96 * 2**20, 14_810))
    trade = Trade(held * 2**20, costs, 128 * 2**20, frontier, "microseconds")
    finding = Finding("layout", not diagnosis, "asked", "came", diagnosis, trade=trade)
    return Verdict("4.8", find("4.8").title, (finding,), earned=score)


def test_designs_are_ranked_without_names(course):
    rows = [
        grade(course, "ada", [design(14_810, 96)]),
        grade(course, "bob", [design(14_810, 96)]),
        grade(course, "cyd", [design(43_000, 48, 0.37)]),
        grade(course, "dan", [design(9_000, 272, 0.0, "over-the-cap")]),
        grade(course, "eve", [design(14_000, 100)]),
        grade(course, "flo", [Verdict("4.8", find("4.8").title, (), earned=0.0)]),
    ]
    parsed = Parsed(page(course, rows))
    begin = parsed.said.index("Designs, the fastest first")
    said = parsed.said[begin : parsed.said.index("Wrong in the same rare way", begin)]
    for row in (
        "1 1 14.00 ms 100 MiB 1 faster than was known",
        "2 2 14.81 ms 96 MiB 1",
        "4 1 43.00 ms 48 MiB 0.37",
        "– 1 9.00 ms 272 MiB 0 beyond a budget",
    ):
        assert row in said
    assert not [name for name in ("ada", "bob", "cyd", "dan", "eve", "flo") if name in said]


def test_it_says_of_an_exercise_how_it_went_and_what_to_teach(course):
    said = Parsed(page(course, of_class(course))).said
    assert "11 right, 13 wrong" in said
    assert f"13 × {KNOWN} {LESSON}" in said
    assert "16 right, 8 unanswered" in said
    assert "One that is right columns = put(13)" in said
    assert f"One with a frequent mistake: {KNOWN} columns = put(0)" in said
    assert "Another one that is right blocks = put(0)" in said
    assert "candidates for the bank" not in said


def test_what_somebody_else_made_is_not_called_yours(course):
    expected, made = Layout.parse("0 1 2 3"), Layout.parse("3 2 1 0")
    finding = Finding("columns", False, "asked", "came", KNOWN, LESSON, expected, made)
    title = find("1.1").title
    rows = [grade(course, "ada", [Verdict("1.1", title, (finding,))], {"1.1": "columns = 1"})]
    said = Parsed(page(course, rows)).said
    assert "Made: shape (1, 4)" in said
    assert "Yours" not in said


def test_wrong_answers_that_nothing_specific_is_said_of_are_candidates(course):
    rows = [
        grade(course, "a", [wrong("1.1", UNKNOWN, "It is `odd < 3`.")], {"1.1": "columns = odd"}),
        grade(course, "b", [wrong("1.1")], {"1.1": "columns = rows"}),
        grade(course, "c", [wrong("1.1", "timeout", "It did not end.")]),
        grade(course, "d", [nothing("1.1")]),
    ]
    written = page(course, rows)
    said = Parsed(written).said
    assert "no lesson of the exercise is on: 1, candidates for the bank columns = odd" in said
    assert f"1 × {UNKNOWN} (the exercise has no lesson on it) For example: It is " in said
    assert written.count("<code>odd &lt; 3</code>") == 2  # code in a sentence is marked up
    assert "`" not in said


def test_a_message_of_jax_is_shown_with_its_code(course):
    message = "It raises an error. JAX says: TypeError: `mul` got shapes (4,) and (3,)."
    written = page(course, [grade(course, "a", [wrong("1.1", UNKNOWN, message)])])
    assert "It raises an error. JAX says: TypeError: <code>mul</code> got shapes (4,) " in written


def test_what_is_shown_of_the_class_names_nobody(course):
    people = [Person("u1", "Ada Lovelace", "countess@example.edu"), Person("u2", "Bo")]
    rows = [
        grade(course, "u1", [right("1.1")], {"1.1": "columns = 1  # by LOVELACE"}),
        grade(course, "u2", [right("1.1")], {"1.1": "countess = 2"}),
        grade(course, "u3", [right("1.1")], {"1.1": "columns = 3  # it works bold"}),
    ]
    said = Parsed(page(course, rows, (), people)).said
    assert "LOVELACE" not in said
    assert "countess" not in said
    assert "One that is right columns = 3 # it works bold" in said


def test_who_made_the_same_rare_mistake_is_named_and_the_cause_is_not(course):
    odd = [wrong("1.1", said="Rare."), wrong("1.2", said="Rarer.")]
    rows = [
        *(grade(course, f"o{i:02}", [wrong("1.1"), right("1.2")]) for i in range(20)),
        grade(course, "ada", odd, {"1.1": "columns  = 7", "1.2": "blocks = 1"}),
        grade(course, "bob", odd, {"1.1": "columns = 7", "1.2": "blocks = 2"}),
    ]
    (alike,) = find_shared_mistakes(read_kept_answers(course, rows))
    assert (alike.students, alike.exercises, alike.same_code) == (
        ("ada", "bob"), ("1.1", "1.2"), ("1.1",),
    )  # fmt: skip
    said = Parsed(page(course, rows)).said
    assert "ada and bob: 1.1, 1.2 (the same code but for blanks in 1.1)" in said
    assert "That says nothing of how it came about" in said


def test_in_a_small_class_two_alike_in_one_exercise_are_no_wonder(course):
    rows = [grade(course, name, [wrong("1.1"), right("1.2")]) for name in ("ada", "bob", "cyd")]
    assert find_shared_mistakes(read_kept_answers(course, rows)) == []
    assert "There are no such answers." in Parsed(page(course, rows)).said


def test_whatever_strangers_write_is_words(course):
    marks = {f"cell {EVIL}": Mark(1, 2, 1)}
    student = EVIL.replace("/", "∕")  # no folder has that in its name
    rows = [
        grade(course, student, [wrong("1.1", said=TURNED)], {"1.1": f"x = '{TURNED}'"}, 0, marks),
        grade(course, "a'\" onmouseover=alert(3) b", [wrong("1.1", UNKNOWN, TURNED)]),
        StateRow("cyd\x1b[2J", ASSIGNMENT, State.BROKEN),
    ]
    failures = [Failure("cyd\x1b[2J", ASSIGNMENT, EVIL, is_broken=True)]
    written = page(course, rows, failures, [Person(student, EVIL)])
    parsed = Parsed(written)
    tags = {tag for tag, _ in parsed.elements}
    assert not tags & {"script", "img", "iframe", "object", "embed", "form", "link", "base"}
    names = {name for _, attributes in parsed.elements for name in attributes}
    assert not [name for name in names if name.startswith("on")]
    assert EVIL in parsed.said
    assert "\x1b" not in written
    assert not {"\u202e", "\u2066"} & {*written}


def test_it_asks_for_nothing_elsewhere_and_says_so_to_browsers(course):
    parsed = Parsed(page(course, of_class(course)))
    policy = next(a["content"] for tag, a in parsed.elements if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    for _, attributes in parsed.elements:
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert (attributes.get(name) or "#").startswith(("#", "../feedback/", "data:image/"))


def test_names_and_scores_lead_to_feedback_pages_whatever_they_are_called(course):
    student = "é #1?%2f & <b>"
    (row,) = rows = [grade(course, student, [right("1.1")])]
    there = course.feedback / student / ASSIGNMENT / f"{ASSIGNMENT}.html"
    there.parent.mkdir(parents=True)
    there.write_text("page")
    parsed = Parsed(page(course, rows))
    ways = [a["href"] for tag, a in parsed.elements if tag == "a" and "feedback" in a["href"]]
    assert len(ways) == 1 + len(row.marks)
    for way in ways:
        path, _, anchor = way.partition("#")
        assert ((course.grading / REPORT_FILE).parent / unquote(path)).resolve() == there
        assert anchor in ("", "result-ex-1-1-check")
    there.unlink()
    assert "feedback/" not in "".join(
        a.get("href", "") for _, a in Parsed(page(course, rows)).elements
    )


@pytest.mark.parametrize("size", [0, 1, 60])
def test_it_works_for_a_class_of_any_size(course, size):
    rows = of_class(course, size)
    said = Parsed(page(course, rows)).said
    if not size:
        assert "Nothing has been handed in yet." in said
    if size == 1:
        assert "One submission is graded: 0 of 4 points." in said
    assert all(row.student in said for row in rows)


def test_what_an_earlier_version_graded_is_said_to_have_no_verdicts(course):
    rows = of_class(course, 3)
    records = Records(course.records)
    found = GradedNotebook(verdicts=msgspec.Raw(b"[{}]"))
    records.write("s01", ASSIGNMENT, Record(State.GRADED, notebooks={ASSIGNMENT: found}))
    assert "Of 1 of them no verdicts are kept" in Parsed(page(course, rows)).said


def test_a_link_in_its_place_is_not_followed(course, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    (course.grading / REPORT_FILE).parent.mkdir()
    (course.grading / REPORT_FILE).symlink_to(mine)
    page(course, of_class(course, 1))
    assert mine.read_text() == "mine"


def test_long_code_is_cut_and_what_cannot_be_seen_is_shown():
    assert format_code("a\x1b[2J\tb") == "a␛[2J   b"
    lines = format_code("\n".join(map(str, range(100))) + "\n" + "x" * 1000).split("\n")
    assert lines[-1] == "… and 61 more lines"
    assert len(format_code("x" * 1000)) < 210


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_read_on_a_phone_in_light_and_in_dark(course, scheme):
    where = write_report(course, rows := of_class(course), [], [], read_kept_answers(course, rows))
    with browser() as chromium:
        said, asked = [], []
        chromium.page.on("console", lambda message: said.append(message.text))
        chromium.page.on("request", lambda request: asked.append(request.url))
        chromium.page.emulate_media(color_scheme=scheme)
        chromium.page.set_viewport_size({"width": 400, "height": 900})
        chromium.page.goto(where.as_uri())
        assert chromium.page.evaluate("document.documentElement.scrollWidth") == 400
        faults = chromium.page.evaluate(FAULTS.replace("#output", "body"))
        assert not [fault for fault in faults if fault.startswith(("contrast", "overlapping"))]
        assert (said, asked) == ([], [where.as_uri()])
