"""One assignment, or one student; nothing handed in; who grades as root."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from rich.console import Console

from autograder.instructor.__main__ import CALLED_BY_MAKE, main
from autograder.instructor.classroom import report_class
from autograder.instructor.classroom.workers import Workers
from autograder.instructor.course import Course
from autograder.instructor.pipeline import Records, collect_facts
from tests.conftest import ROOT
from tests.instructor.classroom.plain_course import FIRST, SECOND, grades, hand_in, plain_course
from tests.instructor.room import UNCALIBRATED, edit

LOGINS = '[canvas]\nlogin = "id"\n'
"""A `class.toml` that says that the folders' names are the logins in Canvas."""


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A class of two: `bob`'s second attempt, and the other assignment, are not graded."""
    room = plain_course(tmp_path_factory.mktemp("course") / "before")
    for student in ("ann", "bob"):
        hand_in(room, student)
        hand_in(room, student, SECOND)
    assert main(["--root", str(room.root), "grade", "--assignment", FIRST]) == 0
    hand_in(room, "bob", total="4")
    return room


def double_points(notebook):
    notebook["cells"][1]["metadata"]["nbgrader"]["points"] = 20


@pytest.fixture
def command(room, capsys):
    """A command: its exit status, and what it says in one line."""

    def run(*arguments):
        status = main(["--root", str(room.root), *arguments])
        return status, " ".join(capsys.readouterr().out.split())

    return run


def states(room):
    """Return the state and score of each submission in the CSV."""
    return {pair: (row["state"], row["score"]) for pair, row in grades(room).items()}


def test_the_reference_names_each_file_of_a_class(room):
    (room.root / "grading" / "class.toml").write_text(LOGINS)
    room.nbgrader("export", "--exporter=autograder.instructor.exporters.Canvas")
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    table = text.partition("\n## Files\n")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    named = {name.split("/")[0] for cell in first_cells for name in re.findall(r"`(.+?)`", cell)}
    there = {path.name for path in (room.root / "grading").glob("[!.]*")}
    assert "attempts.json" in there
    assert there <= named


def test_attempts_are_kept_even_if_nobody_reads_the_report(room, monkeypatch):
    attempts = room.root / "grading" / "attempts.json"
    before = attempts.read_text()
    attempts.unlink()

    def close(*_, **__):
        raise BrokenPipeError  # as `make report | head` does

    console = Console()
    monkeypatch.setattr(console, "print", close)
    with pytest.raises(BrokenPipeError):
        report_class(Course(room.root), console)
    assert attempts.read_text() == before


def test_one_assignment_alone_is_released_and_graded(room):
    assert states(room) == {
        ("ann", FIRST): ("graded", "10.0"),
        ("bob", FIRST): ("graded", "10.0"),
        ("ann", SECOND): ("waiting", ""),
        ("bob", SECOND): ("waiting", ""),
    }
    assert not (room.root / "course" / SECOND).exists()


def test_one_student_alone_is_graded_and_shown_and_the_csv_keeps_all(room, command):
    hand_in(room, "ann", total="5")
    status, said = command("grade", "--assignment", FIRST, "--student", "bob")
    assert status == 0
    assert "bob 0 0" in said
    assert "ann" not in said
    assert states(room)["bob", FIRST] == ("graded", "0.0")
    assert states(room)["ann", FIRST] == ("graded", "10.0")
    assert states(room)["ann", SECOND] == ("waiting", "")


def test_a_report_says_what_has_not_been_graded_yet(command):
    status, said = command("report")
    assert status == 0
    assert (
        "because something else was handed in since: bob (01_sums). make grade regrades them."
        in said
    )
    assert "Not graded yet: ann (02_products), bob (02_products). make grade grades them." in said
    assert "bob" not in command("report", "--student", "ann")[1]


def test_new_points_for_one_student_leave_stale_grades_that_are_marked_everywhere(room, command):
    edit(room.root / "solutions" / FIRST / f"{FIRST}.ipynb", double_points)
    _, said = command("grade", "--student", "bob", "--assignment", FIRST)
    assert "1 other grade is out of date, also in the CSVs and in exports." in said
    assert "make grade, without STUDENT= and ASSIGNMENT=, regrades it." in said
    rows = grades(room)
    assert rows["bob", FIRST]["out_of_date"] == ""
    assert rows["ann", FIRST]["out_of_date"].startswith("cells of the notebook")
    assert "ann 10* 10 bob 0 0" in command("report", "--assignment", FIRST)[1]
    (room.root / "grading" / "class.toml").write_text(LOGINS)
    exported = room.nbgrader("export", "--exporter=autograder.instructor.exporters.Canvas")
    assert "1 has a grade that is out of date (make grade regrades it): ann (01_sums)" in exported
    _, said = command("grade", "--assignment", FIRST)
    assert "ann 20 ✓" in said
    assert "out of date" not in said


def test_regrading_one_assignment_leaves_others(command):
    assert "0 submissions were judged again" in command("regrade", "--assignment", SECOND)[1]


def test_feedback_is_made_again_for_whom_it_is_asked(room, command):
    pages = room.root / "grading" / "feedback"
    shutil.rmtree(pages)
    status, said = command("feedback", "--student", "ann")
    assert status == 0
    assert said == "1 feedback page stands in grading/feedback/<student>/<assignment>/."
    assert [page.parent.parent.name for page in pages.rglob("*.html")] == ["ann"]
    assert "Nothing of that has been graded yet" in command("feedback", "--assignment", SECOND)[1]


def test_feedback_that_cannot_be_released_is_said(room, command):
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + "\nc.Exchange.root = '/nowhere'\n")
    status, said = command("feedback", "--release")
    assert status == 1
    assert "Nothing is in the exchange. There is no exchange: /nowhere is not there" in said


@pytest.mark.parametrize("name", ["grade", "regrade", "release", "feedback", "report"])
def test_unknown_names_are_a_sentence_with_those_that_are_near(room, command, name):
    status, said = command(name, "--assignment", "01_sum")
    assert status == 1
    assert said.endswith("There is no assignment 01_sum. Is it 01_sums?")
    assert command(name, "--assignment", "zzz")[1].endswith("There are 01_sums, 02_products.")
    status, said = command(name, "--student", "anne\x1b[2J")
    assert status == 1
    assert said.endswith("There is no student anne␛[2J. Is it ann?")


def make(room, *typed, bin):
    """Run `make` in the class's folder, with the Python that is in a folder."""
    of_ours = ["-f", str(ROOT / "Makefile"), "-o", ".venv/installed", f"BIN={bin}"]
    return subprocess.run(
        ["make", "--no-print-directory", *of_ours, *typed],
        cwd=room.root, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("typed", ["ANONYMOUS=1", "STUDNET=ann"])
def test_a_variable_that_is_misspelt_is_a_sentence(room, typed):
    done = make(room, "grade", typed, bin=Path(sys.executable).parent)
    assert done.returncode == 2
    name = typed.partition("=")[0]
    assert f"{name}= is not known. There are ASSIGNMENT= STUDENT= " in done.stderr
    assert states(room)["ann", SECOND] == ("waiting", "")


@pytest.mark.parametrize(
    ("typed", "missing"),
    [
        (["gradescope"], "ASSIGNMENT= is missing."),
        (["exercise"], "ID= is missing."),
        (["try"], "FILE= is missing."),
        (["collect"], "FROM= is missing."),
        ([], "the following arguments are required: command."),
        (["grade-one"], "the following arguments are required: --assignment."),
    ],
)
def test_what_is_missing_is_named_as_it_is_typed(capsys, typed, missing):
    """`make` calls all commands but grade-one, so what is typed is a variable of `make`."""
    with pytest.raises(SystemExit, match="2"):
        main(typed)
    assert capsys.readouterr().err.startswith(missing)


def test_make_calls_the_commands_that_name_its_variables():
    called = re.findall(r"-m autograder\.instructor ([a-z-]+)", (ROOT / "Makefile").read_text())
    assert sorted(called) == sorted(CALLED_BY_MAKE)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("grade", "WORKERS=two"), "WORKERS: the number of workers is 1 or more, but got 'two'"),
        (("grade", "WORKERS=0"), "WORKERS: the number of workers is 1 or more, but got '0'"),
    ],
)
def test_a_value_that_is_misspelt_is_a_sentence_and_nothing_is_done(
    room, tmp_path, capsys, typed, said
):
    python = tmp_path / "python"  # says with what arguments it was started
    python.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    python.chmod(0o755)
    _, package, *arguments = make(room, *typed, bin=tmp_path).stdout.splitlines()
    assert package == "autograder.instructor"
    with pytest.raises(SystemExit, match="2"):
        main(["--root", str(room.root), *arguments])
    error = capsys.readouterr().err
    assert said in error
    assert "usage" not in error
    assert states(room)["ann", SECOND] == ("waiting", "")


@pytest.mark.parametrize(
    ("target", "variable", "option"),
    [
        ("grade", "AGAIN", "--again"),
        ("demo", "ALL", "--all"),
        ("feedback", "RELEASE", "--release"),
    ],
)
@pytest.mark.parametrize("value", ["1", "yes", "0", "no", ""])
def test_zero_and_no_mean_no_in_make(target, variable, option, value):
    done = subprocess.run(
        ["make", "-n", "-C", str(ROOT), "-o", ".venv/installed", target, f"{variable}={value}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (option in done.stdout.split()) == (value in ("1", "yes"))


@pytest.mark.parametrize("number", ["two", "-1", "1.5"])
def test_a_default_number_of_workers_that_is_none_is_a_sentence(command, monkeypatch, number):
    monkeypatch.setenv("SHARDLINGS_WORKERS", number)
    status, said = command("grade", "--again", "--assignment", FIRST)
    assert status == 1
    message = "SHARDLINGS_WORKERS is the number of workers on this machine, a whole number, and not"
    assert message in said


def test_an_empty_default_number_of_workers_is_one_on_each_core(monkeypatch):
    monkeypatch.setenv("SHARDLINGS_WORKERS", "")
    assert Workers().count_local_workers() >= 1


def test_a_scheduler_that_is_none_is_refused_before_anything_is_to_be_graded_anew(room, command):
    status, said = command("grade", "--again", "--scheduler", "foo")
    assert (status, "foo is not the address of a scheduler." in said) == (1, True)
    assert not Records(Course(room.root).records).is_marked("ann", FIRST)


def test_with_nothing_graded_nothing_is_judged_again(tmp_path, capsys):
    plain_course(tmp_path)
    assert main(["--root", str(tmp_path), "regrade"]) == 0
    assert "Nothing has been graded yet, so there is" in " ".join(capsys.readouterr().out.split())


@pytest.fixture
def wrong_solution(room):
    """Make a solution wrong, in a class that calibrates."""
    configuration = room.root / "nbgrader_config.py"
    configuration.write_text(configuration.read_text().replace(UNCALIBRATED, ""))
    source = room.root / "solutions" / FIRST / f"{FIRST}.ipynb"
    source.write_text(source.read_text().replace("total = 1 + 2", "total = 1 + 3"))


@pytest.mark.slow
@pytest.mark.usefixtures("wrong_solution")
def test_a_grade_of_what_is_handed_in_stands_where_the_course_itself_is_not_graded_right(
    room, command
):
    status, said = command("grade", "--again", "--assignment", FIRST)
    assert status == 1
    assert "its own solution does not pass its tests, so no student could" in said
    assert states(room)["ann", FIRST] == ("graded", "10.0")
    assert states(room)["bob", FIRST] == ("failed", ""), "who handed in something else"
    assert "ann (01_sums), bob (01_sums)" in said, "of whom it is said"


@pytest.mark.slow
@pytest.mark.usefixtures("wrong_solution")
def test_a_failed_calibration_is_reported_even_if_every_new_submission_is_broken(room, command):
    (room.root / "grading" / "submitted" / "bob" / FIRST / f"{FIRST}.ipynb").write_text("{")
    status, said = command("grade", "--student", "bob")
    assert status == 1
    assert f"bob, {FIRST}: Nothing of {FIRST} is graded, because its own solution does not" in said
    assert f"bob, {FIRST}: {FIRST}.ipynb cannot be read as a notebook" in said
    assert states(room)["bob", FIRST] == ("broken", "")


def test_who_is_in_the_roster_alone_is_known(room, command):
    (room.root / "grading" / "roster.csv").write_text("id,name\neve,Eve\n")
    assert "eve missing" in command("report", "--student", "eve")[1]


def test_who_is_in_a_gradebook_elsewhere_alone_is_known(room, command, tmp_path):
    moved = tmp_path / "class.db"
    (room.root / "grading" / "gradebook.db").rename(moved)
    config = room.root / "nbgrader_config.py"
    config.write_text(f"{config.read_text()}\nc.CourseDirectory.db_url = 'sqlite:///{moved}'\n")
    with Gradebook(f"sqlite:///{moved}") as gradebook:
        gradebook.add_student("zoe")
    status, said = command("report", "--student", "zoe")
    assert status == 0
    assert "There is no student" not in said


def test_a_release_is_of_one_assignment_and_for_everybody(room, command):
    status, said = command("release", "--assignment", SECOND)
    assert (status, said) == (0, "course/02_products/02_products.ipynb")
    assert "leave the student out" in command("release", "--student", "ann")[1]


@pytest.mark.parametrize("name", ["grade", "report"])
def test_with_nothing_handed_in_nothing_is_made(tmp_path, capsys, name):
    room = plain_course(tmp_path)
    assert main(["--root", str(room.root), name]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Nothing has been handed in yet." in said
    assert "make demo has five made-up students hand in" in said
    assert "Feedback pages" not in said
    assert not (room.root / "grading" / "submitted").exists()
    assert not (room.root / "course").exists()


@pytest.mark.parametrize(("user", "times"), [(0, 1), (1000, 0)])
def test_root_is_warned_once(tmp_path, capsys, monkeypatch, user, times):
    room = plain_course(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    main(["--root", str(room.root), "grade"])
    assert capsys.readouterr().out.count("You are root") == times


def test_a_folder_that_is_somebodys_is_not_made_a_demonstration(tmp_path, capsys):
    room = plain_course(tmp_path)
    (room.root / "demo" / "grading" / "submitted" / "ann").mkdir(parents=True)
    (room.root / "demo" / "talk.odp").touch()
    assert main(["--root", str(room.root), "demo"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "something else in it: grading/submitted/ann, talk.odp. Move that elsewhere" in said
    assert not (room.root / "demo" / "solutions").exists()


@pytest.mark.parametrize("kind", ["file", "link to nowhere"])
def test_a_demonstration_replaces_no_file_of_its_name(tmp_path, capsys, kind):
    root = plain_course(tmp_path).root
    if kind == "file":
        (root / "demo").write_text("mine")
    else:
        (root / "demo").symlink_to("/nowhere/at/all")
    assert main(["--root", str(root), "demo"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said.endswith("demo is not a folder. Move it elsewhere.")
    assert kind != "file" or (root / "demo").read_text() == "mine"


@pytest.mark.parametrize("name", ["solutions", "course", "grading"])
def test_a_file_in_place_of_a_folder_of_the_demonstration_is_something_else(tmp_path, capsys, name):
    root = plain_course(tmp_path).root
    (root / "demo").mkdir()
    (root / "demo" / name).touch()
    assert main(["--root", str(root), "demo"]) == 1
    assert f"something else in it: {name}." in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("nothing", "There is no folder {solutions}, which should have the notebooks"),
        ("file", "There is no folder {solutions}, which should have the notebooks"),
        ("empty folder", "No notebook in {solutions} has exercises"),
    ],
)
def test_a_demonstration_without_solutions_is_a_sentence(
    tmp_path, capsys, monkeypatch, kind, expected
):
    monkeypatch.setenv("COLUMNS", "600")
    root = plain_course(tmp_path).root
    solutions = root / "solutions"
    shutil.rmtree(solutions)
    if kind == "file":
        solutions.touch()
    elif kind == "empty folder":
        solutions.mkdir()
    assert main(["--root", str(root), "demo"]) == 1
    assert expected.format(solutions=solutions) in capsys.readouterr().out
    assert not (root / "demo").exists()


def test_workers_are_not_told_where_the_gradebook_is(room):
    api = Course(room.root).api
    facts = collect_facts(api.coursedir, api.config, FIRST)
    assert "db_url" not in facts.config.CourseDirectory
    assert facts.config.CourseDirectory.root == str(room.root)
    assert api.config.CourseDirectory.db_url.endswith("gradebook.db")
