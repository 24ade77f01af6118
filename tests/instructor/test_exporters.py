"""Exports, by nbgrader's command: as platforms take them, with nobody's grade gone to another."""

import codecs
import contextlib
import csv
import errno
import shutil
import zipfile

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import ExportApp

from autograder.exercises import find
from autograder.instructor.classroom.stale_grades import Bases
from autograder.instructor.course import Course, GradebookError
from autograder.instructor.pipeline import GradedNotebook, Record, State, encoded_verdicts
from autograder.judge import Finding, Verdict
from tests.conftest import ROOT
from tests.instructor.room import Classroom

A, B = "01_sharding_basics", "02_computation_follows_data"
EXPORTERS = "autograder.instructor.exporters"
ROSTER = """id,name,email,section,canvas_id,moodle_id
ada,Ada_Lovelace/../x,ada@example.edu,A,101,7001
=bob,=HYPERLINK("x"),+bob@example.edu,@B,102,7002
cyd,Cyd,cyd@example.edu,B,,
eve,Eve,eve@example.edu,B,104,7004
"""
CODE = "columns = x  # <b>&</b>"


def verdict(exercise, is_right):
    finding = Finding("columns", is_right, "strips", "rows", "" if is_right else "transposed", CODE)
    earned = 1.0 if is_right else 0.5
    return Verdict(exercise, find(exercise).title, (finding,), earned=earned)


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A class of four in two assignments, written straight into files and the gradebook."""
    room = Classroom(tmp_path_factory.mktemp("course"), A)
    (room.root / "grading").mkdir()
    shutil.copy(ROOT / "nbgrader_config.py", room.root)
    course = Course(room.root)
    for assignment in (A, B):
        shutil.copytree(ROOT / "solutions" / assignment, course.solutions / assignment)
    bases = Bases(course)
    empty = nbformat.v4.new_notebook()
    with Gradebook(course.api.coursedir.db_url, course.api.coursedir.course_id) as gradebook:
        for assignment, exercises in {A: ("1.1", "1.2"), B: ("2.1",)}.items():
            gradebook.add_assignment(assignment)
            gradebook.add_notebook(assignment, assignment)
            for exercise in exercises:
                gradebook.add_grade_cell(
                    find(exercise).grade_id, assignment, assignment, max_score=2, cell_type="code"
                )
            for student in ("ada", "=bob", "cyd"):
                if (student, assignment) == ("cyd", B):
                    continue
                gradebook.update_or_create_student(student)
                handed_in = gradebook.add_submission(assignment, student)
                (course.submitted / student / assignment).mkdir(parents=True)
                path = course.submitted / student / assignment / f"{assignment}.ipynb"
                nbformat.write(empty, path)
                folder = course.autograded / student / assignment
                folder.mkdir(parents=True)
                verdicts = {e: verdict(e, is_right=student != "ada") for e in exercises}
                (folder / f"{assignment}.ipynb").write_text("{}")
                for grade in handed_in.notebooks[0].grades:
                    grade.auto_score = 1.0 if student == "ada" else 2.0
                    grade.needs_manual_grade = False
                if student == "ada" and assignment == A:
                    handed_in.notebooks[0].late_submission_penalty = 0.5
                gradebook.db.commit()
                found = GradedNotebook(verdicts=encoded_verdicts(verdicts))
                basis = bases.current(student, assignment)
                record = Record(State.GRADED, basis=basis, notebooks={assignment: found})
                bases.records.write(student, assignment, record)
    broken = course.submitted / "dan" / A / f"{A}.ipynb"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    for student, assignment in (("ada", A), ("=bob", A)):
        page = course.feedback / student / assignment / f"{assignment}.html"
        page.parent.mkdir(parents=True)
        page.write_text(f"page of {student}")
    (course.grading / "roster.csv").write_text(ROSTER)
    return room


@pytest.fixture
def export(room, monkeypatch, capfd):
    """`nbgrader export`, in this process: what it says."""

    def command(exporter, *arguments, status=0):
        monkeypatch.chdir(room.root)
        ExportApp.clear_instance()
        app = ExportApp.instance()
        app.initialize([f"--exporter={EXPORTERS}.{exporter}", *arguments])
        with contextlib.ExitStack() as stack:
            ended = stack.enter_context(pytest.raises(SystemExit)) if status else None
            app.start()
        assert ended is None or ended.value.code == status
        ExportApp.clear_instance()
        return capfd.readouterr().err

    return command


def table(path):
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.reader(file))


def test_canvas_finds_each_student_and_blank_stays_blank(room, export, monkeypatch):
    monkeypatch.setattr(Course, "find_closed_students", lambda _: ["zoe"])
    said = export("Canvas", "--to", "new/c.csv")
    assert "1 has a folder that cannot be read, so nothing of theirs is exported: zoe" in said
    assert table(room.root / "new" / "c.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", A, B],
        ["    Points Possible", "", "", "", "", "4.0", "2.0"],
        ['\'=HYPERLINK("x")', "102", "", "", "'@B", "4.0", "2.0"],
        ["Ada_Lovelace/../x", "101", "", "", "A", "1.5", "1.0"],
    ]
    assert "1 has no grade, so nothing of that is exported: dan" in said
    assert "Unwritable" not in said, "of an exchange that nobody asked for"
    assert "so Canvas would go by the name, and is left out: cyd" in said


CLASS = f"""
[exempt]
eve = ["{A}"]
[drop]
ada = ["{B}"]
[canvas]
login = "email"
[canvas.assignments]
{A} = 4711
"""


@pytest.fixture
def rules(room):
    """Write `class.toml` for one test."""
    path = room.root / "grading" / "class.toml"
    yield path.write_text
    path.unlink()


def test_canvas_gets_its_own_numbers_logins_and_what_is_excused(room, rules, export):
    # The columns and `Title (id)` are as Canvas exports and imports them, `EX` is its sign for
    # excused: https://github.com/instructure/canvas-lms/blob/master/lib/gradebook_importer.rb,
    # read on 2026-11-25. It accepts a byte-order mark.
    rules(CLASS)
    said = export("Canvas", "--to", "rules.csv")
    heading, _, *lines = table(room.root / "rules.csv")
    assert heading[5:] == [f"{A} (4711)", B]
    assert f"Canvas makes a new assignment of {B}, unless" in said
    assert {line[1]: line[3:4] + line[5:] for line in lines} == {
        "102": ["'+bob@example.edu", "4.0", "2.0"],
        "101": ["ada@example.edu", "1.5", "EX"],
        "": ["cyd@example.edu", "4.0", ""],
        "104": ["eve@example.edu", "EX", ""],
    }
    assert (room.root / "rules.csv").read_bytes().startswith(codecs.BOM_UTF8)


def test_moodle_leaves_out_what_does_not_count_and_says_what_to_tick(room, rules, export):
    # https://github.com/moodle/moodle/blob/main/public/mod/assign/feedback/offline/locallib.php,
    # read on 2026-11-25: a grade that Moodle has changed later than the worksheet says is skipped.
    rules(CLASS)
    said = export("Moodle", "--to", "m2")
    assert "1 has a score that does not count, and is left out: ada" in said
    assert [line[0] for line in table(room.root / "m2" / f"{B}.csv")[1:]] == ["Participant 7002"]
    assert "tick “Allow updating records that have been modified more recently" in said


def test_moodle_gets_a_worksheet_and_feedback_in_folders_that_it_takes_apart(room, export):
    said = export("Moodle", "--assignment", f'["{A}"]')
    heading, *lines = table(room.root / "grading" / "exports" / "moodle" / f"{A}.csv")
    assert {"Identifier", "Grade", "Last modified (grade)"} <= set(heading)
    of = [dict(zip(heading, line, strict=True)) for line in lines]
    assert [(o["Identifier"], o["Grade"], o["Maximum Grade"]) for o in of] == [
        ("Participant 7002", "4.0", "4.0"), ("Participant 7001", "1.5", "4.0"),
    ]  # fmt: skip
    assert of[0]["Full name"] == '\'=HYPERLINK("x")'
    assert of[0]["Email address"] == "'+bob@example.edu"
    with zipfile.ZipFile(
        room.root / "grading" / "exports" / "moodle" / f"{A}-feedback.zip"
    ) as zipped:
        pages = {name: zipped.read(name).decode() for name in zipped.namelist()}
    assert sorted(pages.values()) == ["page of =bob", "page of ada"]
    for name, page in pages.items():
        folder, file = name.split("/")  # one folder, whatever somebody is called
        _, number, *plugin = folder.split("_")
        assert plugin == ["assignfeedback", "file", ""], "before 4.1, Moodle wants the last _"
        assert page.endswith({"7001": "ada", "7002": "=bob"}[number])
        assert file == f"{A}.html"
    assert f"1 has no moodle_id in grading/roster.csv, so nothing of {A} is exported: cyd" in said
    assert not (room.root / "grading" / "exports" / "moodle" / f"{B}.csv").exists()


def test_moodle_gets_the_feedback_pages_of_all_notebooks(room, export):
    folder = room.root / "grading" / "feedback" / "ada" / A
    second, link = folder / "second.html", folder / "link.html"
    second.write_text("second page of ada")
    link.symlink_to(room.root / "grading" / "roster.csv")
    export("Moodle", "--assignment", f'["{A}"]', "--to", "all")
    second.unlink()
    link.unlink()
    with zipfile.ZipFile(room.root / "all" / f"{A}-feedback.zip") as zipped:
        names = [name.split("/")[1] for name in zipped.namelist() if "_7001_" in name]
    assert names == [f"{A}.html", "second.html"]


def test_an_export_that_fails_leaves_the_earlier_files_whole(room, export, monkeypatch):
    def fill_the_disk(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    export("Moodle", "--to", "whole")
    folder = room.root / "whole"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for module, name in ((zipfile.ZipFile, "write"), (csv, "writer")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fill_the_disk)
            with pytest.raises(OSError, match="No space left"):
                export("Moodle", "--to", "whole")
        ExportApp.clear_instance()
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_moodles_numbers_may_be_others_in_each_assignment(room, export):
    roster = room.root / "grading" / "roster.csv"
    before = roster.read_text()
    roster.write_text(f"id,moodle_id,moodle_id_{B}\nada,7001,9001\n=bob,7002,\n")
    said = export("Moodle", "--to", "m")
    roster.write_text(before)
    numbers = {a: [line[0] for line in table(room.root / "m" / f"{a}.csv")[1:]] for a in (A, B)}
    assert numbers == {A: ["Participant 7002", "Participant 7001"], B: ["Participant 9001"]}
    assert f"1 has no moodle_id in grading/roster.csv, so nothing of {B} is exported: =bob" in said


def test_moodles_numbers_may_be_in_another_column(room, rules, export):
    rules('[moodle]\nid = "ours"\n')
    roster = room.root / "grading" / "roster.csv"
    before = roster.read_text()
    roster.write_text("id,ours\nada,7001\n=bob,\n")
    said = export("Moodle", "--assignment", f'["{A}"]', "--to", "ours")
    roster.write_text(before)
    assert f"2 have no ours in grading/roster.csv, so nothing of {A} is exported: =bob, cyd" in said


@pytest.mark.parametrize(
    ("exporter", "roster", "said"),
    [
        ("Moodle", "id\nada\n", "has no column moodle_id with any"),
        ("Moodle", "id,moodle_id\nada,Participant 7\n", "a moodle_id is a whole number"),
        ("Canvas", "id,canvas_id\nada,7\n=bob,7\n", "several people have the same canvas_id: 7"),
        ("Canvas", "id,canvas_login\nada,AL\n=bob,al\n", "have the same canvas_login: al."),
        ("Canvas", "id,canvas_login\nada,al\neve,al\n", "have the same canvas_login: al."),
        ("Canvas", "id\nada\n", "Canvas knows students by ids or logins"),
        ("Canvas", "name\nada\n", "`id`"),
    ],
)
def test_what_could_give_a_grade_to_another_is_refused(room, export, exporter, roster, said):
    kept = room.root / "grading" / "roster.csv"
    before = kept.read_text()
    kept.write_text(roster)
    try:
        told = export(exporter, "--to", "no", status=1)
    finally:
        kept.write_text(before)
    assert said in told
    assert not (room.root / "no").exists()


def test_a_gradebook_that_cannot_be_read_now_is_a_sentence(export, monkeypatch):
    def fail(*_):
        raise GradebookError("planted")

    monkeypatch.setattr(Course, "explain_trouble", fail)
    said = export("Canvas", "--to", "no", status=1)
    assert "planted" in said
    assert "Traceback" not in said


def test_an_assignment_that_nobody_handed_in_is_refused(export, monkeypatch):
    monkeypatch.setattr(Course, "assignments", lambda _: [A, B, "09_other"])
    told = export("Canvas", "--assignment", '["09_other"]', "--to", "no", status=1)
    assert "Nobody has handed in 09_other" in told


def test_an_assignment_that_there_is_not_is_refused_with_the_nearest(export):
    told = export("Canvas", "--assignment", '["01_sharing_basics"]', "--to", "no", status=1)
    assert "There is no assignment 01_sharing_basics. Is it 01_sharding_basics?" in told
