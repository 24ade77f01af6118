"""Times that platforms report: taken if a line says whose and when, and refused otherwise.

Moodle's worksheet has the columns and the times of
https://github.com/moodle/moodle/tree/main/public/mod/assign/feedback/offline, and Canvas's table
the fields of https://developerdocs.instructure.com/services/canvas/resources/submissions, both read
on 2026-11-25.
"""

import json
import os
import shutil
import zipfile
from datetime import UTC, datetime, timedelta

import pytest

from autograder.instructor.__main__ import main
from tests.instructor.classroom import plain_course
from tests.instructor.collecting.empty_class import FIRST, NOTEBOOK, SECOND, Class

HEADING = (
    "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,"
    "Last modified (submission),Last modified (grade),Feedback comments"
)
ROSTER = (
    "id,name,email,moodle_id,canvas_id",
    "ann,Ann Lee,ann@x.edu,11,101",
    "bo,Bo Yun,bo@x.edu,12,102",
    "cy,Cy Ode,,,103",
)
ZONE = 'timezone = "Europe/Berlin"\n'


def line(number, name, email, time):
    """A line of Moodle's worksheet."""
    return f'Participant {number},{name},{email},Submitted,,10.00,Yes,"{time}",-,'


@pytest.fixture
def room(tmp_path, capsys, monkeypatch):
    """A class with a roster and a time zone."""
    monkeypatch.setenv("COLUMNS", "400")
    room = Class(tmp_path, capsys)
    room.roster(*ROSTER)
    (tmp_path / "grading" / "class.toml").write_text(f"{ZONE}[canvas.assignments]\n{FIRST} = 900\n")
    return room


def write(room, lines, encoding="utf-8"):
    """Write a table."""
    path = room.root / "times.csv"
    path.write_bytes("\n".join(lines).encode(encoding))
    return path


def taken(room):
    """What is known now: times by student, of the first assignment."""
    path = room.root / "grading" / "collected_times.json"
    known = json.loads(path.read_bytes()) if path.exists() else {}
    return {student: of[FIRST].get("time") for student, of in known.items()}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(
    "time",
    ["Wednesday, 10 June 2026, 2:14 PM", "Wednesday, June 10, 2026, 2:14 PM", "2026-06-10 14:14"],
)
def test_moodles_worksheet_is_read_as_platforms_and_excel_save_it(room, encoding, time):
    path = write(room, [HEADING, line(11, "Ann Lee", "ann@x.edu", time)], encoding)
    status, said = room.collect(path, "--assignment", FIRST)
    assert (status, taken(room)) == (0, {"ann": "2026-06-10T12:14:00Z"})
    assert "times.csv: 1 time taken." in said


def test_semicolons_and_those_who_have_not_submitted(room):
    lines = [line(11, "Ann Lee", "ann@x.edu", "2026-06-10 14:14"), line(12, "Bo Yun", "", "-")]
    path = write(room, [text.replace(",", ";") for text in (HEADING, *lines)], "utf-16")
    assert room.collect(path, "--assignment", FIRST)[0] == 0
    assert taken(room) == {"ann": "2026-06-10T12:14:00Z"}


def test_the_numbers_of_the_assignment_itself_are_moodles(room):
    room.roster(f"id,name,moodle_id,moodle_id_{FIRST}", "ann,Ann Lee,11,21", "bo,Bo Yun,21,11")
    path = write(room, [HEADING, line(21, "Participant", "", "2026-06-10 14:14")])
    assert room.collect(path, "--assignment", FIRST)[0] == 0
    assert taken(room) == {"ann": "2026-06-10T12:14:00Z"}


FUTURE = "2999-06-10 14:14"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (line(12, "Ann Lee", "bo@x.edu", FUTURE), "is in the future. Is the timezone"),
        (line(12, "Bo", "ann@x.edu", "2026-06-10 14:14"), "are of different people"),
        (line(99, "Bo Yun", "", "2026-06-10 14:14"), "for whom grading/roster.csv has 12."),
        (line(99, "Bo Yun", "z@x.edu", "2026-06-10 14:14"), "is not bo, for whom"),
        (line(99, '"=HYPERLINK(""x"")"', "", "2026-06-10 14:14"), "nobody has this name."),
        (line(12, "Bo", "", "Mittwoch, 10. Juni 2026, 14:14"), "Set Moodle to English"),
        (line(12, "Bo", "", "Monday, 10 June 2026, 2:14 PM"), "was a Wednesday"),
        (line(12, "Bo", "", "=NOW()"), "a time should be written as Wednesday, 10 June 2026"),
    ],
)
def test_a_bad_line_is_refused_with_its_number_and_the_others_count(room, bad, said):
    path = write(room, [HEADING, bad, line(99, "Cy Ode", "", "2026-06-10 14:14")])
    status, told = room.collect(path, "--assignment", FIRST)
    assert "times.csv, line 2: " in told
    assert said in told
    assert (status, taken(room)) == (0, {"cy": "2026-06-10T12:14:00Z"})


def test_two_lines_of_one_student_and_names_that_differ_in_case_are_refused(room):
    room.roster("id,name", "ann,Ann Lee")
    lines = [line(1, name, "", "2026-06-10 14:14") for name in ("Ann Lee", "ann lee")]
    status, said = room.collect(write(room, [HEADING, *lines]), "--assignment", FIRST)
    assert (status, taken(room)) == (1, {})
    assert "times.csv, line 3: 2 lines are of ann" in said


def test_a_line_without_a_number_is_nobodys_who_has_none(room):
    room.roster("id,name,moodle_id", "ann,Ann Lee,11", "bo,Bo Yun,")
    path = write(room, [HEADING, ",Ann Lee,,Submitted,,10.00,Yes,2026-06-10 14:14,-,"])
    room.collect(path, "--assignment", FIRST)
    assert [*taken(room)] == ["ann"]


@pytest.mark.parametrize("name", ["", "-", "…"])
def test_a_line_without_a_name_is_nobodys_who_has_none(room, name):
    room.roster("id,name,moodle_id", "ann,-,11", "bo,Bo Yun,12")
    lines = [HEADING, line("", name, "", "2026-06-10 14:14")]
    status, said = room.collect(write(room, lines), "--assignment", FIRST)
    assert status == 1
    assert "nobody has this name" in said


def test_a_number_that_two_people_have_is_said_to_be_so(room):
    room.roster("id,name,moodle_id", "ann,Ann Lee,11", "bo,Bo Yun,11")
    path = write(room, [HEADING, line(11, "Ann Lee", "", "2026-06-10 14:14")])
    status, said = room.collect(path, "--assignment", FIRST)
    assert status == 1
    assert "2 people have this number or address" in said


@pytest.mark.parametrize("platform", ["canvas", "moodle"])
def test_the_number_on_any_platform_names_whose_time_it_is(room, platform):
    room.roster("id,name,lms_user_id", "ann,Ann Lee,11", "bo,Bo Yun,12")
    lines = [HEADING, line(12, "B. Y.", "", "2026-06-10 14:14")]
    if platform == "canvas":
        lines = ["user_id,submitted_at", "12,2026-06-10T12:14:00Z"]
    room.collect(write(room, lines), "--assignment", FIRST)
    assert [*taken(room)] == ["bo"]


def test_two_tables_of_times_are_refused(room):
    path = write(room, ["user_id,submitted_at", "101,2026-06-10T12:14:00Z"])
    status, said = room.collect(path, "--assignment", FIRST, "--times", str(path))
    assert status == 1
    assert "FROM= and TIMES= both name a table of times: give one of them." in said


@pytest.mark.parametrize(
    ("lines", "arguments", "said"),
    [
        ([HEADING], (), "has no line below the names of its columns."),
        ([HEADING, line(1, "a", "", "-")], (), "does not say which assignment it is of"),
        (["Teilnehmer,Name", "1,2"], ("--assignment", FIRST), "has no times that are known"),
        (["a\0b"], ("--assignment", FIRST), "is no text"),
    ],
)
def test_what_is_no_table_of_times_is_refused(room, lines, arguments, said):
    status, told = room.collect(write(room, lines), *arguments)
    assert (status, taken(room)) == (1, {})
    assert f"No times were taken. times.csv {said}" in told


def test_canvas_knows_assignments_and_students_by_number(room):
    lines = [
        "user_id,assignment_id,submitted_at,late",
        "101,900,2026-06-10T12:14:00Z,false",
        "102,901,2026-06-10T12:14:00Z,false",
        "103,900,,false",
        "104,900,2026-06-10T12:14:00Z,true",
        "102,900,10.06.2026,true",
    ]
    status, said = room.collect(write(room, lines))
    assert (status, taken(room)) == (0, {"ann": "2026-06-10T12:14:00Z"})
    assert "line 3: it is not known which assignment Canvas's 901 is." in said
    assert "line 5: user_id '104' is nobody's canvas_id" in said
    assert "line 6: submitted_at should be written as 2026-10-12T21:59:00Z" in said


def test_canvas_times_of_an_unknown_assignment_are_of_none(room):
    lines = [
        "user_id,assignment_id,submitted_at",
        "101,,2026-06-10T12:14:00Z",
        "102,901,2026-06-10T12:14:00Z",
    ]
    status, said = room.collect(write(room, lines), "--assignment", FIRST)
    assert (status, taken(room)) == (0, {"ann": "2026-06-10T12:14:00Z"})
    assert "line 3: it is not known which assignment Canvas's 901 is." in said


def test_one_command_takes_the_files_and_their_times(room):
    file = room.zipped({f"Ann Lee_11_assignsubmission_file_/{FIRST}.ipynb": NOTEBOOK})
    times = write(room, [HEADING, line(11, "Ann Lee", "ann@x.edu", "2026-06-10 14:14")])
    status, _ = room.collect(file, "--assignment", FIRST, "--times", str(times))
    assert (status, taken(room)) == (0, {"ann": "2026-06-10T12:14:00Z"})
    assert "There is no file no.csv" in room.collect(file, "--times", "no.csv")[1]
    assert SECOND not in json.dumps(room.there())


@pytest.mark.parametrize(
    ("late", "stays"), [({}, True), ({"late": "true"}, True), ({"late": "false"}, False)]
)
def test_a_table_without_marks_of_lateness_keeps_those_of_the_zip_file(room, late, stays):
    room.collect(room.zipped({f"leeann_LATE_101_5_{FIRST}.ipynb": NOTEBOOK}))
    row = {"user_id": "101", "submitted_at": "2026-06-10T12:14:00Z", **late}
    times = write(room, [",".join(row), ",".join(row.values())])
    assert room.collect(times, "--assignment", FIRST)[0] == 0
    known = json.loads((room.root / "grading" / "collected_times.json").read_bytes())
    assert known["ann"][FIRST].get("marked_late", False) == stays


@pytest.fixture
def graded(tmp_path, capsys):
    """A class of one, graded, whose platform said that she was in time."""
    room = plain_course.plain_course(tmp_path)
    grading = tmp_path / "grading"
    plain_course.hand_in(room, "ann", plain_course.FIRST)
    (grading / "roster.csv").write_text("id,name,canvas_id\nann,Ann Lee,101\n")
    (grading / "class.toml").write_text(f"[due]\n{plain_course.FIRST} = 2026-06-10T12:30:00Z\n")
    times = tmp_path / "t.csv"
    times.write_text("user_id,submitted_at\n101,2026-06-10T12:14:00Z\n")
    assert main(["--root", str(tmp_path), "collect", str(times), "--assignment", "01_sums"]) == 0
    assert main(["--root", str(tmp_path), "grade"]) == 0
    return room


def report(room, capsys):
    """`make report`: what it says, in one line."""
    capsys.readouterr()
    assert main(["--root", str(room.root), "report"]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_late_resubmission_without_a_new_time_is_not_silently_in_time(graded, capsys):
    row = plain_course.grades(graded)["ann", "01_sums"]
    assert row["time_from"] == "Canvas's submissions t.csv, line 2"
    assert row["handed_in"] == "2026-06-10T12:14:00+00:00"
    submission = graded.root / "grading" / "submitted" / "ann" / "01_sums"
    (submission / "timestamp.txt").write_text("1999-01-01 00:00:00 UTC")
    notebook = (submission / "01_sums.ipynb").read_text().replace("1 + 2", "2 + 1")
    archive = graded.root / "again.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("leeann_LATE_101_5_01_sums.ipynb", notebook)
    assert main(["--root", str(graded.root), "collect", str(archive)]) == 0
    said = report(graded, capsys)
    assert "The platform marks these as late, and by the times and due dates here they" in said
    assert "so their earlier time counts: ann (01_sums)." in said
    (graded.root / "grading" / "handed_in.csv").write_text(
        "student,assignment,time\nann,01_sums,2026-06-11 12:30 UTC\n"
    )
    said = report(graded, capsys)
    assert "Late: ann (01_sums, 1 day" in said
    assert "earlier time counts" not in said
    assert plain_course.grades(graded)["ann", "01_sums"]["time_from"] == "grading/handed_in.csv"


def test_the_exchanges_time_is_its_file_systems_and_not_the_students(tmp_path):
    room = plain_course.plain_course(tmp_path)
    plain_course.hand_in(room, "ann")
    handed_in = tmp_path / "grading" / "submitted" / "ann" / "01_sums"
    inbound = tmp_path / "exchange" / "shardlings" / "inbound"
    inbound.mkdir(parents=True)
    folder = inbound / "ann+01_sums+2020-01-01 00:00:00 UTC"
    shutil.move(handed_in, folder)
    (folder / "timestamp.txt").write_text("2020-01-01 00:00:00 UTC")
    for path in (*folder.iterdir(), folder):
        os.utime(path, (0, 0))
    room.nbgrader("collect", "01_sums", f"--Exchange.root={tmp_path / 'exchange'}")
    known = json.loads((tmp_path / "grading" / "collected_times.json").read_bytes())
    found = known["ann"]["01_sums"]
    when = datetime.fromisoformat(found["time"])
    assert abs(datetime.now(UTC) - when) < timedelta(minutes=10)
    assert found["source"].startswith("nbgrader's exchange")
    assert (handed_in / "01_sums.ipynb").exists()
