"""What counts in a total: exemptions, dropped scores, weights, the best N; who has withdrawn."""

import csv
import unicodedata
from datetime import UTC, datetime

import msgspec
import pytest
from nbgrader.api import Gradebook

from autograder.instructor.__main__ import main
from autograder.instructor.classroom import StateRow
from autograder.instructor.classroom.counting import compute_percentage, mark_left_out
from autograder.instructor.classroom.grade_tables import tabulate_students
from autograder.instructor.course import ClassError, ClassRules, Course, class_file, read_class_file
from autograder.instructor.gradebook import Mark
from autograder.instructor.pipeline import State
from tests.instructor.classroom.plain_course import FIRST, SECOND, grades, hand_in, plain_course

DUE = f"[due]\n{FIRST} = 2026-01-01T12:00:00Z\n{SECOND} = 2026-01-01T12:00:00Z\n"
ROSTER = "id,name\nann,Ann A\nbo,Bo B\ncy,Cy C\n"


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A class, graded: of the second assignment, `bo` is wrong and `cy` has handed in nothing."""
    room = plain_course(tmp_path_factory.mktemp("course") / "before")
    for student in ("ann", "bo", "cy"):
        hand_in(room, student)
    hand_in(room, "ann", SECOND)
    hand_in(room, "bo", SECOND, total="0")
    (room.root / "grading" / "roster.csv").write_text(ROSTER)
    (room.root / "grading" / "class.toml").write_text(DUE)
    assert main(["--root", str(room.root), "grade"]) == 0
    return room


@pytest.fixture
def run(room, capsys):
    """A command: what it says, in one line."""

    def command(*arguments, status=0, rules=""):
        if rules:
            (room.root / "grading" / "class.toml").write_text(f"{rules}\n{DUE}")
        assert main(["--root", str(room.root), *arguments]) == status
        return " ".join(capsys.readouterr().out.split())

    return command


def students(room):
    """The lines of `students.csv`, by student."""
    path = room.root / "grading" / "students.csv"
    with path.open(newline="", encoding="utf-8-sig") as lines:
        return {row["student"]: row for row in csv.DictReader(lines)}


def totals(room):
    """Of each student the points, the percentage and what does not count."""
    return {
        student: (row["score"], row["points"], row["percent"], row["does_not_count"])
        for student, row in students(room).items()
    }


def nbgrader_scores(room):
    """The gradebook's scores."""
    with Gradebook(f"sqlite:///{room.root / 'grading' / 'gradebook.db'}") as gradebook:
        return {(s.student_id, a.name): s.score for a in gradebook.assignments
                for s in a.submissions}  # fmt: skip


def page(room, student, assignment):
    """A feedback page."""
    path = room.root / "grading" / "feedback" / student / assignment / f"{assignment}.html"
    return path.read_text()


def test_an_exemption_and_a_drop_reach_tables_csvs_pages_and_report(room, run):
    scores = nbgrader_scores(room)
    assert totals(room)["cy"] == ("10.0", "20.0", "50.0", "")
    said = run("report", rules=f'[exempt]\ncy = ["{SECOND}"]\n[drop]\nbo = ["{SECOND}"]')
    assert "bo 0†" in said
    assert "cy exempt –" in said
    assert "† is where a score does not count in the student's total." in said
    assert grades(room)["cy", SECOND]["state"] == "exempt"
    assert grades(room)["bo", SECOND]["does_not_count"] == "dropped"
    assert totals(room) == {
        "ann": ("20.0", "20.0", "100.0", ""),
        "bo": ("10.0", "10.0", "100.0", f"{SECOND} (dropped)"),
        "cy": ("10.0", "10.0", "100.0", f"{SECOND} (exempt)"),
    }
    assert "This assignment does not count in your total." in page(room, "bo", SECOND)
    report = (room.root / "grading" / "report" / "index.html").read_text()
    assert "no verdicts are kept" not in report, "a notebook without exercises of ours has none"
    assert "bo (Bo B): dropped" in report
    assert nbgrader_scores(room) == scores, "nbgrader's own scores stay"
    run("report", rules="# nothing")
    assert "does not count" not in page(room, "bo", SECOND)


def test_weights_and_the_best_n_decide_the_percentage(room, run):
    run("report", rules=f"[weights]\n{FIRST} = 3\n{SECOND} = 1")
    assert {who: row["percent"] for who, row in students(room).items()} == {
        "ann": "100.0", "bo": "75.0", "cy": "75.0",
    }  # fmt: skip
    assert "this assignment has 3 of 4 parts." in page(room, "ann", FIRST)
    run("report", rules="best = 1")
    assert totals(room)["bo"] == ("10.0", "10.0", "100.0", f"{SECOND} (not among the best 1)")
    assert totals(room)["cy"][2:] == ("100.0", f"{SECOND} (not among the best 1)")
    assert "the best 1 count." in page(room, "bo", SECOND)
    said = run("report", rules=f"[weights]\n{FIRST} = 1")
    assert f"has [weights] and none of {SECOND}, so it does not count." in said


def test_nothing_is_said_of_a_student_who_has_withdrawn(room, run):
    scores = nbgrader_scores(room)
    (room.root / "grading" / "handed_in.csv").write_text(
        f"student,assignment,time\nbo,{FIRST},2026-01-01 13:00 UTC\n"
    )
    rules = f"[extensions.bo]\n{FIRST} = 1"
    assert "bo has withdrawn" in run("withdraw", "--student", "bo", rules=rules)
    said = run("grade")
    assert "bo" not in said.replace("gradebook", "").split()
    assert not any(f" {word} " in f" {said} " for word in ("bo:", "bo,", "(bo"))
    assert set(students(room)) == {"ann", "cy"}
    assert ("bo", FIRST) not in grades(room)
    assert "Bo B" not in (room.root / "grading" / "report" / "index.html").read_text()
    assert nbgrader_scores(room) == scores, "the gradebook keeps what it has"
    assert "bo has withdrawn. BACK=1 takes that back" in run("report", "--student", "bo", status=1)
    assert "bo is in the class again." in run("withdraw", "--student", "bo", "--back")
    run("report")
    assert set(students(room)) == {"ann", "bo", "cy"}


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_that_macos_has_decomposed_withdraws(room, run, form):
    submitted = room.root / "grading" / "submitted"
    (submitted / "bo").rename(submitted / unicodedata.normalize("NFD", "zoë"))
    assert "zoë has withdrawn" in run("withdraw", "--student", unicodedata.normalize(form, "zoë"))
    course = Course(room.root)
    assert not [name for name, _ in course.submissions() if name.startswith("zo")]
    assert not any("zo" in sentence for sentence in course.find_misplaced_files())
    run("withdraw", "--student", unicodedata.normalize("NFD", "zoë"), "--back")
    assert [name for name, _ in course.submissions() if name.startswith("zo")]


def test_withdrawing_keeps_the_columns_that_an_instructor_added(room, run):
    path = room.root / "grading" / "withdrawn.csv"
    path.write_text("student,since,reason\ncy,2026-10-01,moved away\n")
    run("withdraw", "--student", "bo")
    header, cy, bo = path.read_text().splitlines()
    assert (header, cy) == ("student,since,reason", "cy,2026-10-01,moved away")
    assert bo.startswith("bo,20")
    run("withdraw", "--student", "bo", "--back")
    assert path.read_text().splitlines() == [header, cy]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Say who: make withdraw STUDENT=ann."),
        (("--student", "Bo"), "There is no student Bo. Is it bo?"),
        (("--student", "bo", "--back"), "grading/withdrawn.csv does not have bo."),
    ],
)
def test_whom_nobody_knows_cannot_withdraw(run, arguments, said):
    assert said in run("withdraw", *arguments, status=1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[exempt]\nann = ["01_sum"]', "[exempt], ann names 01_sum, and there is no such"),
        ("[weights]\n01_sum = 1", "[weights] names 01_sum, and there is no such assignment. Is it"),
        ("weights = 2", "weights should be a line [weights], with lines such as"),
        ("[weights]\n01_sums = -1", "each value below [weights] should be a number, 0 or more"),
        ('[exempt]\nann = "01_sums"', "each value below [exempt] should be a list of assignments"),
        ("[drop]\nann = [1]", "each value below [drop] should be a list of assignments"),
        ('[canvas.assignments]\n01_sums = "a"', "below [canvas.assignments] should be a whole"),
        ("[canvas]\nlogin = 5", "canvas.login should be a column of the roster, in quotation"),
        ("best = 0", "best should be how many assignments count, 1 or more"),
        ('[drop]\nann = "01_sums"', "each value below [drop] should be a list of assignments"),
    ],
)
def test_a_rule_that_means_nothing_is_refused(tmp_path, text, said):
    (tmp_path / "class.toml").write_text(text)
    with pytest.raises(ClassError) as refused:
        read_class_file(tmp_path, [FIRST, SECOND])
    assert said in str(refused.value)


def name_settings(kind, table=""):
    """Yield the name of each setting of a type, such as `late.per_day`."""
    for setting in getattr(kind, "fields", ()):
        name = f"{table}{setting.encode_name}"
        yield name
        for inner in getattr(setting.type, "types", (setting.type,)):  # those of a union
            yield from name_settings(inner, f"{name}.")


def test_it_is_said_of_each_setting_what_it_should_be():
    settings = msgspec.inspect.type_info(class_file._ClassToml)
    assert {*name_settings(settings)} == class_file.SHOULD_BE.keys()


def test_missing_work_is_the_first_that_the_best_n_leave_out():
    rows = [
        StateRow("ann", "a", State.MISSING, points=10, due=datetime(2026, 1, 1, tzinfo=UTC)),
        *(StateRow("ann", name, State.GRADED, score=score, points=10)
          for name, score in (("b", 10), ("c", 4), ("d", 7))),
    ]  # fmt: skip
    counted = mark_left_out(ClassRules(best=3), rows)
    assert [row.assignment for row in counted if row.is_counted] == ["b", "c", "d"]
    assert compute_percentage(ClassRules(), counted) == 70.0


def test_an_essay_that_waits_is_marked_where_it_may_be_one_of_the_best():
    waits = {"essay": Mark(0.0, 5.0, needs_a_look=True)}
    rows = [
        StateRow("ann", "a", State.GRADED, waits, score=1, points=10),
        StateRow("ann", "b", State.GRADED, score=9, points=10),
    ]
    for rules, mark in (
        (ClassRules(best=1), "yes"),
        (ClassRules(), "yes"),
        (ClassRules(weights={"a": 0, "b": 1}), ""),
        (ClassRules(drop={"ann": ("a",)}), ""),
    ):
        heading, (line,) = tabulate_students(mark_left_out(rules, rows), [], rules)
        assert dict(zip(heading, line, strict=True))["needs_a_look"] == mark
