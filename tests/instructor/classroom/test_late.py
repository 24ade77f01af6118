"""Due dates, extensions, penalties and who is missing: as an instructor writes them down."""

import csv
import datetime
import os
import re
import subprocess
import sys
from zoneinfo import ZoneInfo

import pytest
from nbgrader.api import Gradebook
from sqlalchemy import Engine, event

from autograder.instructor.__main__ import main
from autograder.instructor.course import ClassError, ClassRules, Course, read_class_file, read_times
from autograder.instructor.nbgrader_plugins import settle_lateness
from tests.instructor.classroom.plain_course import FIRST, SECOND, grades, hand_in, plain_course

RULES = """
timezone = "Europe/Berlin"

[due]
01_sums = 2026-10-12T23:59:00
02_products = 2999-12-31

[late]
per_day = 0.1
most = 0.5
zero_after_days = 14
grace_minutes = 15

[extensions.bob]
all = 7
"""

TIMES = """student,assignment,time
ann,01_sums,2026-10-12 22:00
ann,01_sums,2026-10-15 08:00
bob,01_sums,2026-10-15T06:00:00Z
cy,01_sums,2026-10-13 00:10
"""

ROSTER = "id,name\nann,Ann A\nbob,Bob B\ncy,Cy C\neve,Eve E\n"


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A class, graded: `dan` is not in the roster, and `eve` has handed in nothing."""
    room = plain_course(tmp_path_factory.mktemp("course") / "before")
    for student in ("ann", "bob", "cy", "dan"):
        hand_in(room, student)
    write(room, "class.toml", RULES)
    write(room, "handed_in.csv", TIMES)
    write(room, "roster.csv", ROSTER)
    assert main(["--root", str(room.root), "grade"]) == 0
    return room


@pytest.fixture
def report(room, capsys):
    """`make report`: what it says, in one line."""

    def command(status=0):
        assert main(["--root", str(room.root), "report"]) == status
        return " ".join(capsys.readouterr().out.split())

    return command


def write(room, name, text):
    (room.root / "grading" / name).write_text(text)


def scores(room, assignment=FIRST):
    """Of each student what counts, and what is taken off."""
    return {
        student: (row["score"], row["taken_off_for_being_late"])
        for (student, of), row in grades(room).items()
        if of == assignment
    }


def test_late_work_loses_what_the_class_says_and_nbgrader_says_the_same(room):
    assert scores(room) == {
        "ann": ("7.0", "3.0"),  # two days and eight hours: the third day has begun
        "bob": ("10.0", "0.0"),  # who has a week more
        "cy": ("10.0", "0.0"),  # eleven minutes, of fifteen that are not counted
        "dan": ("10.0", "0.0"),  # nothing is known of when
        "eve": ("", ""),
    }
    ann = grades(room)["ann", FIRST]
    assert (ann["due"], ann["handed_in"]) == (
        "2026-10-12T23:59:00+02:00",
        "2026-10-15T08:00:00+02:00",
    )
    assert ann["days_late"] == "2.334"
    assert grades(room)["bob", FIRST]["due"] == "2026-10-19T23:59:00+02:00"
    with (room.root / "grading" / "students.csv").open(newline="", encoding="utf-8-sig") as lines:
        rows = {row["student"]: row for row in csv.DictReader(lines)}
    of_ann, of_eve = rows["ann"], rows["eve"]
    assert (of_eve["score"], of_eve["points"]) == ("0.0", "10.0"), "it was due, and she never came"
    parts = [of_ann[name] for name in (FIRST, f"{FIRST} taken off", f"{FIRST} sum")]
    assert parts == ["7.0", "3.0", "10.0"]
    room.nbgrader("export", "--to", "exported.csv")
    with (room.root / "exported.csv").open(newline="", encoding="utf-8-sig") as lines:
        exported = {row["student_id"]: row for row in csv.DictReader(lines)}
    assert (exported["ann"]["score"], exported["ann"]["late_submission_penalty"]) == ("7.0", "3.0")
    assert exported["eve"]["last_name"] == "E"


CLOCKS_GO_BACK = """
timezone = "Europe/Berlin"

[due]
01_sums = 2026-10-24T20:00:00
02_products = 2026-10-20

[late]
per_day = 0.1

[extensions.bob]
all = 7
"""
"""On 25 October 2026, after the first assignment is due and before Bob's second one is."""


def test_a_day_late_is_a_day_by_the_clock_also_where_the_clock_changes(room, report):
    for student in ("ann", "bob"):
        hand_in(room, student, SECOND)
    assert main(["--root", str(room.root), "grade"]) == 0
    write(room, "class.toml", CLOCKS_GO_BACK)
    write(room, "handed_in.csv", """student,assignment,time
ann,01_sums,2026-10-25 19:30
cy,01_sums,2026-10-25 20:18
ann,02_products,2026-10-27 23:30
bob,02_products,2026-10-27 23:30
""")  # fmt: skip
    said = report()
    rows = grades(room)
    assert scores(room)["ann"] == ("9.0", "1.0"), "24 and a half hours, which are one day"
    assert scores(room)["cy"] == ("8.0", "2.0"), "the second day has begun"
    assert [rows[who, FIRST]["days_late"] for who in ("ann", "cy")] == ["1.0", "1.0125"]
    assert "ann (01_sums, 1 day)" in said
    page = room.root / "grading" / "feedback" / "cy" / FIRST / f"{FIRST}.html"
    assert "1 day and 18 minutes later" in page.read_text(), "so the second day counts"
    assert rows["bob", SECOND]["due"] == "2026-10-27T23:59:59+01:00", "until the end of that day"
    assert scores(room, SECOND)["bob"] == ("10.0", "0.0")
    assert scores(room, SECOND)["ann"] == ("3.0", "7.0")


@pytest.mark.parametrize(("zone", "shown"), [("Etc/GMT-14", "+14"), ("Etc/GMT+12", "-12")])
def test_what_is_made_today_is_dated_in_the_zone_of_the_class(room, report, zone, shown):
    write(room, "class.toml", RULES.replace("Europe/Berlin", zone))
    report()
    page = (room.root / "grading" / "report" / "index.html").read_text()
    here = datetime.datetime.now(ZoneInfo(zone))
    [made] = re.findall(r"Made on (\S+) \S+ (\S+),", page)
    days = {f"{here - datetime.timedelta(minutes=5):%Y-%m-%d}", f"{here:%Y-%m-%d}"}
    assert made[0] in days
    assert made[1] == shown
    assert main(["--root", str(room.root), "withdraw", "--student", "dan"]) == 0
    withdrawn = (room.root / "grading" / "withdrawn.csv").read_text().splitlines()[1]
    assert withdrawn.removeprefix("dan,") in days


HOUR, DAY = 3600, 24 * 3600


@pytest.mark.parametrize(
    ("due", "handed_in", "seconds"),
    [
        ("2026-10-24T20:00", "2026-10-24T19:59", 0),
        ("2026-10-24T20:00", "2026-10-24T20:10", 600),
        ("2026-10-24T20:00", "2026-10-25T19:30", DAY),
        ("2026-10-24T20:00", "2026-10-25T20:01", DAY + 60),
        ("2026-10-24T20:00", "2026-10-26T19:00", 2 * DAY - HOUR),
        ("2026-03-28T20:00", "2026-03-29T19:00", 22 * HOUR),  # the clock goes forward that night
        ("2026-03-28T20:00", "2026-03-29T20:30", DAY + HOUR / 2),
        ("2026-03-29T01:59:59", "2026-03-29T03:00", 1),
        ("2026-10-25T02:50", "2026-10-25T02:05+01:00", 900),  # the hour that comes twice
        ("2026-10-25T02:05+01:00", "2026-10-25T02:50+02:00", 0),
    ],
)
def test_lateness_counts_days_of_the_calendar_and_real_minutes(due, handed_in, seconds):
    zone = ZoneInfo("Europe/Berlin")
    times = [datetime.datetime.fromisoformat(time) for time in (due, handed_in)]
    times = [time if time.tzinfo else time.replace(tzinfo=zone) for time in times]
    assert ClassRules(zone).seconds_late(*times) == seconds
    assert ClassRules(zone).seconds_late(None, times[1]) == 0
    assert ClassRules(zone).seconds_late(times[0], None) == 0


def test_who_is_missing_late_unknown_or_handed_in_again_is_said(room, report):
    assert grades(room)["eve", FIRST]["state"] == "missing"
    said = report()
    assert "student total late sum points 10 10" in said
    assert "ann 7 -3 ✓ bob 10 ✓ cy 10 late ✓ dan 10 ✓ eve missing –" in said
    assert "01_sums was due on 2026-10-12 23:59 CEST." in said
    assert (
        "Late: ann (01_sums, 2 days, 8 hours and 1 minute), cy (01_sums, 11 minutes, for which "
        "nothing is deducted)."
    ) in said
    assert "is not known, so they do not count as late: dan (01_sums)." in said
    assert "Handed in again, and the last one counts: ann (01_sums, 2 times)." in said
    assert "dan has handed in, and is not in grading/roster.csv." in said


def test_what_is_due_is_missing_even_where_nobody_has_handed_it_in(room, report):
    write(room, "class.toml", RULES.replace("2999-12-31", "2026-01-01"))
    said = report()
    assert "02_products was due on 2026-01-01 23:59 CET." in said
    assert grades(room)["ann", SECOND]["state"] == grades(room)["eve", SECOND]["state"] == "missing"
    write(room, "class.toml", RULES.replace("2026-10-12", "2999-12-30"))
    report()
    assert ("ann", SECOND) not in grades(room)
    assert grades(room)["eve", FIRST]["state"] == "awaited"


def test_formgrader_lists_what_is_graded_as_graded_whatever_times_are_written(room):
    api = Course(room.root).api
    assert {"ann", "bob", "cy"} <= api.get_autograded_students(FIRST)
    [ann] = [each for each in api.get_submissions(FIRST) if each["student"] == "ann"]
    assert (ann["autograded"], ann["score"], ann["timestamp"]) == (True, 10, "2026-10-15T06:00:00")


def test_another_due_date_or_rule_counts_at_once_and_reaches_the_page(room, report):
    page = room.root / "grading" / "feedback" / "ann" / FIRST / f"{FIRST}.html"
    others = page.parents[2] / "bob" / FIRST / f"{FIRST}.html"
    page.unlink()
    bobs = others.stat().st_mtime_ns
    write(room, "class.toml", RULES.replace("= 14", "= 2"))
    said = report()
    assert "for the same submission: ann (01_sums, 0 points, 7 before). " in said
    assert scores(room)["ann"] == ("0.0", "10.0")
    said = " ".join(page.read_text().split())
    assert ">15 October 2026, 08:00 CEST</time>" in said
    assert (
        "It was due on 12 October 2026, 23:59 CEST, and was submitted 2 days, 8 hours and 1 "
        "minute later." in said
    )
    assert others.stat().st_mtime_ns == bobs
    write(room, "class.toml", RULES.replace("0.1", "0.9"))
    report()
    assert scores(room)["ann"] == ("5.0", "5.0")
    write(room, "class.toml", RULES.replace("01_sums", "#"))
    report()
    assert scores(room)["ann"] == ("10.0", "0.0")


def test_other_times_reach_the_page_even_where_no_more_is_taken_off(room, report):
    pages = {
        who: room.root / "grading" / "feedback" / who / FIRST / f"{FIRST}.html"
        for who in ("ann", "bob", "cy")
    }
    bobs = pages["bob"].stat().st_mtime_ns
    write(room, "class.toml", RULES.replace("2026-10-12T23:59", "2026-10-13T00:30"))
    write(room, "handed_in.csv", TIMES.replace("00:10", "00:20"))
    report()
    assert scores(room)["ann"] == ("7.0", "3.0")
    assert "It was due on 13 October 2026, 00:30 CEST" in " ".join(pages["ann"].read_text().split())
    assert ">13 October 2026, 00:20 CEST</time>" in pages["cy"].read_text()
    assert pages["bob"].stat().st_mtime_ns == bobs


def test_what_is_taken_off_follows_a_score_by_hand(room, report):
    with Gradebook(f"sqlite:///{room.root / 'grading' / 'gradebook.db'}") as gradebook:
        gradebook.find_grade("sum", FIRST, FIRST, "ann").manual_score = 5
        gradebook.db.commit()
    report()
    assert scores(room)["ann"] == ("3.5", "1.5")


def test_another_attempt_counts_and_what_the_one_before_had_is_said(room, report):
    hand_in(room, "bob", total="4")
    hand_in(room, "ann", total="3 + 0")
    assert main(["--root", str(room.root), "grade", "--student", "ann"]) == 0
    said = report()
    assert "the last one counts: ann (01_sums, 2 times, 7 points before)." in said
    assert (
        "no new time for these, who handed in something else since, so their earlier time" in said
    )
    assert "counts: ann (01_sums). " in said
    assert "nothing else was handed in" not in said
    write(room, "handed_in.csv", TIMES + "ann,01_sums,2026-10-16 08:00\n")
    said = report()
    assert "the last one counts: ann (01_sums, 3 times, 7 points before)." in said
    assert "no new time for these" not in said
    assert scores(room)["ann"] == ("6.0", "4.0")


def test_a_wrong_name_among_the_times_is_said_with_what_is_near(room, report):
    write(room, "handed_in.csv", TIMES + "nobody;01_sums;2026-10-12\n".replace(";", ","))
    said = report()
    assert "handed_in.csv has a time of nobody, who has handed in nothing and is not in" in said
    write(room, "handed_in.csv", TIMES + "amn,01_sum,2026-10-12\neve,01_sums,2026-10-12\n")
    said = report()
    assert "handed_in.csv has a time of amn, who has handed in nothing and is not in" in said
    assert "grading/roster.csv. Is it ann" in said
    assert "has a time of 01_sum, and there is no such assignment. Is it 01_sums?" in said
    assert "has a time of eve" not in said


def test_a_report_before_what_came_is_graded_leaves_each_its_own_time_and_points(room, report):
    hand_in(room, "ann", total="3 + 0")
    write(room, "handed_in.csv", TIMES + "ann,01_sums,2026-10-16 08:00\n")
    assert "the last one counts: ann (01_sums, 3 times, 6 points before)." in report()
    assert main(["--root", str(room.root), "grade", "--student", "ann"]) == 0
    assert "no new time for these" not in report()


def test_a_broken_late_hand_in_has_no_page_of_the_one_before(room):
    page = room.root / "grading" / "feedback" / "ann" / FIRST / f"{FIRST}.html"
    notebook = room.root / "grading" / "submitted" / "ann" / FIRST / f"{FIRST}.ipynb"
    assert "submitted late" in page.read_text()
    write(room, "handed_in.csv", f"{TIMES}ann,01_sums,2026-10-17 08:00\n")
    there = notebook.read_bytes()
    notebook.write_text("{")
    main(["--root", str(room.root), "grade"])
    assert "submitted late" not in page.read_text()
    assert re.search("Looked at</dt>.* CES?T</time>", page.read_text()), "in the class's time zone"
    notebook.write_bytes(there)
    main(["--root", str(room.root), "grade"])
    assert "submitted late" in page.read_text()


def test_names_are_on_the_first_page_and_on_the_next_when_they_change(room, report):
    page = room.root / "grading" / "feedback" / "eve" / FIRST / f"{FIRST}.html"
    hand_in(room, "eve")
    write(room, "roster.csv", "id,nmae,name\neve,,Evelyn E\n")
    assert main(["--root", str(room.root), "grade"]) == 0
    assert "Evelyn E" in page.read_text()
    assert "has a column nmae, which is not known. Is it name?" in report()
    write(room, "roster.csv", "id,name\neve,Eve-Lynn E\n")
    assert main(["--root", str(room.root), "feedback"]) == 0
    assert "Eve-Lynn E" in page.read_text()
    (room.root / "grading" / "submitted" / "eve" / FIRST / f"{FIRST}.ipynb").write_text("{")
    assert main(["--root", str(room.root), "grade"]) == 0
    assert "could not be graded" in page.read_text()
    assert "Eve-Lynn E" in page.read_text()


def test_a_report_whose_reader_stops_reading_writes_its_files(room):
    """As in `make report | head -1`, where the first line is that there is no bubblewrap."""
    files = [room.root / "grading" / f"{name}.csv" for name in ("grades", "exercises", "students")]
    for file in files:
        file.unlink(missing_ok=True)
    command = f"'{sys.executable}' -m autograder.instructor --root '{room.root}' report | true"
    without = {**os.environ, "PATH": "/nowhere"}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=without)
    assert "Traceback" not in done.stderr
    assert all(file.exists() for file in files)


def test_times_are_known_also_of_what_has_no_grade(room, report):
    hand_in(room, "eve")
    write(
        room,
        "handed_in.csv",
        f"{TIMES}eve,01_sums,2026-10-14 08:00\ndan,01_sums,2026-10-12 08:00\n",
    )
    (room.root / "grading" / "submitted" / "dan" / FIRST / f"{FIRST}.ipynb").write_text("{")
    said = report()
    assert "is not known" not in said
    assert "eve (01_sums, 1 day, 8 hours and 1 minute)" in said
    assert grades(room)["eve", FIRST]["days_late"] == "1.334"
    assert grades(room)["dan", FIRST]["handed_in"] == "2026-10-12T08:00:00+02:00"
    assert "it has no score; what was graded before had: dan (01_sums, 10 points)." in said


def test_where_the_class_has_no_file_due_dates_are_nbgraders_own(room, report):
    (room.root / "grading" / "class.toml").unlink()
    room.nbgrader("db", "assignment", "add", FIRST, "--duedate", "2026-10-14 00:00:00 UTC")
    write(room, "handed_in.csv", "student,assignment,time\nann,01_sums,2026-10-15T00:00:00Z\n")
    said = report()
    assert "01_sums was due on 2026-10-14 00:00 UTC. " in said
    assert "Late: ann (01_sums, 1 day)." in said
    assert scores(room)["ann"] == ("10.0", "0.0")


def test_plain_nbgrader_believes_the_instructor_and_not_the_student(room):
    folder = room.root / "grading" / "submitted" / "ann" / FIRST
    (folder / "timestamp.txt").write_text("1970-01-01 00:00:00 UTC")
    with Gradebook(f"sqlite:///{room.root / 'grading' / 'gradebook.db'}") as gradebook:
        gradebook.update_or_create_submission(FIRST, "ann", timestamp=None)
        gradebook.update_or_create_assignment(FIRST, duedate=None)
    said = room.nbgrader("autograde", FIRST, "--student", "ann", "--force")
    assert said.count("You are root") == (os.geteuid() == 0)
    with Gradebook(f"sqlite:///{room.root / 'grading' / 'gradebook.db'}") as gradebook:
        ann = gradebook.find_submission(FIRST, "ann")
        assert ann.timestamp == datetime.datetime(2026, 10, 15, 6)
        assert ann.late_submission_penalty == 3


WRONG = {
    "due = 3": "due should be a line [due], with lines such as",
    "[du]": "there is no setting du. Is it due? There are timezone, due, late, extensions, "
    "exempt, drop, weights, best, canvas, moodle, collect.",
    "[due]\n01_sum = 2026-10-12T10:00:00Z": "there is no such assignment. Is it 01_sums?",
    "[due]\n01_sums = 2026-10-12T10:00:00": "and not in which time zone",
    '[due]\n01_sums = "tomorrow"': "without quotation marks, and is 'tomorrow'",
    'timezone = "Berlin"': "timezone = 'Berlin' is not known here",
    'timezone = "../../etc/passwd"': "is not known here",
    "[late]\nper_day = 10": "late.per_day should be a share of what was earned, from 0 to 1,",
    "[extensions.ann]\n01_sums = true": "A number means so many days more.",
    "[extensions.ann]\n01_sums = -3": "should be a number of days, and is -3",
    "[extensions.ann]\nall = nan": "should be a number of days, and is nan",
    "[late]\nperday = 0.1": "there is no setting late.perday. Is it per_day? There are per_day, ",
    "[extensions]\nann = 3": "extensions should be a line such as [extensions.ann]",
    "x =": "cannot be read as TOML: Invalid value",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_class_file_that_is_wrong_is_a_sentence(tmp_path, text):
    (tmp_path / "class.toml").write_text(text)
    with pytest.raises(ClassError, match=r"^grading/class\.toml\b") as error:
        read_class_file(tmp_path, [FIRST, SECOND])
    assert WRONG[text] in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("student,time\n", "has no column `assignment`"),
        (
            "student,assignment,time\nann,01_sums,12.10.2026\n",
            "line 2: time should be written as year-month-day",
        ),
        ("student,assignment,time\nann,01_sums,2026-10-12 10:00\n", "not in which time zone"),
        ("student,assignment,time\nann,01_sums,10\n", "should be written as"),
    ],
)
def test_times_that_are_wrong_are_a_sentence(tmp_path, text, said):
    (tmp_path / "handed_in.csv").write_text(text)
    with pytest.raises(ClassError, match=r"^grading/handed_in\.csv") as error:
        read_times(tmp_path)
    assert said in str(error.value)


def test_a_class_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "class.toml").write_text('timezone = "Europe/Berlin"', encoding="utf-8-sig")
    assert read_class_file(tmp_path, [FIRST]).zone == ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("time", ["10:00 UTC", "10:00Z", "10:00:00 utc", "12:00+02:00"])
def test_a_time_may_say_that_it_is_in_utc(tmp_path, time):
    (tmp_path / "handed_in.csv").write_text(
        f"student,assignment,time\nann,01_sums,2026-10-12 {time}\n"
    )
    (when,) = read_times(tmp_path)["ann", FIRST]
    assert when == datetime.datetime(2026, 10, 12, 10, tzinfo=datetime.UTC)


@pytest.mark.parametrize("command", ["grade", "regrade", "report"])
def test_nothing_is_touched_where_the_class_is_described_wrongly(room, capsys, command):
    write(room, "class.toml", RULES.replace("per_day", "per_week"))
    gradebook = (room.root / "grading" / "gradebook.db").read_bytes()
    assert main(["--root", str(room.root), command]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said.endswith(
        "grading/class.toml: there is no setting late.per_week. Is it per_day? There are per_day, "
        "most, zero_after_days, grace_minutes."
    )
    assert (room.root / "grading" / "gradebook.db").read_bytes() == gradebook


def test_penalties_of_a_class_that_is_in_time_are_read_in_one_query(room):
    write(room, "handed_in.csv", "student,assignment,time\n")
    course = Course(room.root)
    settle_lateness(course)
    asked = []

    def note(connection, cursor, statement, *_):
        asked.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        settle_lateness(course)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert len([statement for statement in asked if "late_submission_penalty" in statement]) == 1
