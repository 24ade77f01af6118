"""A class's designs side by side: places, ties, who has none and why, and what is said without."""

import io
import re
import shutil

import msgspec
import pytest
from rich.console import Console

from autograder.evidence import Evidence, Unanswered, from_json, to_json
from autograder.exercises import EXERCISES
from autograder.instructor.__main__ import main
from autograder.instructor.classroom import judging_again, leaderboard, regrading, stale_grades
from autograder.instructor.classroom.leaderboard import Entry, LeaderboardError, show_leaderboard
from autograder.instructor.classroom.ungraded import Failure
from autograder.instructor.course import Course
from autograder.instructor.walls import Case, JudgeFailedError
from autograder.judge import Trade, judge
from tests.conftest import ROOT
from tests.helpers import capture, sharding

ASSIGNMENT = "04_communication_cost"
ASKED = EXERCISES["4.8"]


def layout(*specs, **mesh):
    """Shardings of x, w_in and w_out."""
    return [sharding(*spec, **(mesh or {"x": 4, "y": 2})) for spec in specs]


BEST = layout(("y",), ("y", "x"), (("x", "y"),))
SLOW = layout(("x", "y"), ("x", "y"), ("x", "y"))
COPIES = layout((("x", "y"),), (), ())
TWO_MESHES = layout(("y",), ("y", "x")) + layout(("x",), x=8)


@pytest.fixture
def course(tmp_path):
    """A course with two notebooks, and nobody in it."""
    for name in (ASSIGNMENT, "11_beyond_one_process"):
        shutil.copytree(ROOT / "solutions" / name, tmp_path / "solutions" / name)
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    return Course(tmp_path)


def hand_in(course, student, evidence=None, assignment=ASSIGNMENT):
    """A submission; with evidence, one that was graded."""
    (course.submitted / student / assignment).mkdir(parents=True)
    if evidence is not None:
        folder = course.autograded / student / assignment
        folder.mkdir(parents=True)
        cases = tuple(Case(e.exercise, to_json(e), 1) for e in evidence)
        (folder / f"{assignment}.evidence.json").write_bytes(msgspec.json.encode(cases))


def answered(shardings):
    return [capture(ASKED, {"layout": shardings}, 1)]


def judged_here(cases, seconds, room):
    """The verdicts, without a process for each; on some, there are none."""
    if any(case.seed < 0 for case in cases):
        raise JudgeFailedError("The judge's process ended.")
    return [judge(EXERCISES[c.exercise], from_json(c.evidence), c.seed) for c in cases]


@pytest.fixture
def group(course, monkeypatch):
    """One of each kind of submission."""
    monkeypatch.setattr(judging_again, "judge_apart", judged_here)
    broken = [Failure("flo", ASSIGNMENT, "it is no notebook", theirs=True)]
    monkeypatch.setattr(leaderboard, "broken", lambda course: broken)
    for student, shardings in {
        "bob": BEST, "Ada": BEST, "cleo": SLOW, "<dan>": COPIES, "gil": TWO_MESHES,
    }.items():  # fmt: skip
        hand_in(course, student, answered(shardings))
    hand_in(course, "eve", [Evidence("4.8", {"layout": Unanswered()})])
    hand_in(course, "ivy", [Evidence("4.1", {"reader": Unanswered()})])
    hand_in(course, "flo")
    hand_in(course, "hal")
    return course


def say():
    return Console(file=io.StringIO(), width=120)


def shown(course, exercise="4.8", anonymous=False):
    console = say()
    status = show_leaderboard(course, console, exercise, anonymous)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    page = (course.grading / f"leaderboard-{exercise}.html").read_text()
    return status, [line for line in lines if line], page


def test_places_ties_and_why_somebody_has_none(group):
    status, (_, heading, _, *rows, where), page = shown(group)
    assert status == 0
    assert heading == ["place", "student", "time", "held", "score", "how", "it", "stands"]
    assert [row[:2] for row in rows] == [
        ["1", "Ada"], ["1", "bob"], ["3", "cleo"], ["–", "<dan>"], ["–", "flo"], ["–", "ivy"],
        ["–", "hal"], ["–", "gil"], ["–", "eve"],
    ]  # fmt: skip
    said = {row[1]: " ".join(row[2:]) for row in rows}
    assert said["bob"] == "14.81 ms 96 MiB 1 in the running"
    assert said["cleo"].endswith("48 MiB 0.37 in the running")
    assert said["<dan>"].endswith("272 MiB 0 beyond a budget")
    assert said["gil"] == "0 not right yet"
    others = [said[name] for name in ("flo", "ivy", "hal", "eve")]
    assert others == ["broken", "no answer", "not graded yet", "unanswered"]
    assert where == ["With", "a", "picture:", "grading/leaderboard-4.8.html"]
    assert page.count("<img") == 1
    assert "<td>1</td><td>bob</td><td>14.81 ms</td>" in page
    assert "&lt;dan&gt;" in page
    assert "<dan>" not in page
    assert "In the running: 100,663,296 held, 14.8 ms; 50,331,648 held," in page
    assert "Beyond a budget: 285,212,672 held," in page


def test_without_names_nobody_is_named(group):
    _, (_, _, _, *rows, _), page = shown(group, anonymous=True)
    assert [" ".join(row[1:3]) for row in rows] == [f"design {n}" for n in range(1, 10)]
    words = re.sub(r"base64,[^\"']*", "", page)  # in which three letters come by chance
    assert "design 9" in words
    assert not [name for name in ("Ada", "bob", "cleo", "dan", "eve") if name in words]


def test_who_is_faster_than_was_known_is_told_so():
    frontier = ((2, 1000), (9, 10))
    for costs, said in ((985, "in the running, faster than was known"), (995, "in the running")):
        assert Entry("ada", "in the running", Trade(1, costs, 5, frontier)).cells[-1] == said
    beyond = Entry("ada", "beyond a budget", Trade(6, 10, 5, frontier))
    assert beyond.cells[-1] == "beyond a budget"


def test_where_judging_fails_the_others_are_shown(group):
    case = Case("4.8", {}, -1)
    folder = group.autograded / "hal" / ASSIGNMENT
    folder.mkdir(parents=True)
    (folder / f"{ASSIGNMENT}.evidence.json").write_bytes(msgspec.json.encode((case,)))
    status, rows, _ = shown(group)
    assert status == 1
    assert ["–", "hal", "failed"] in rows
    assert ["hal:", "JudgeFailedError:", "The", "judge's", "process", "ended."] in rows
    assert any(row[:2] == ["1", "bob"] for row in rows)


@pytest.mark.parametrize("name", [".e.evidence.json", "data.evidence.json", ".EVIDENCE.JSON"])
def test_what_a_student_calls_evidence_is_not_read(group, name):
    expected = shown(group)
    folder = group.autograded / "cleo" / ASSIGNMENT
    mine = (group.autograded / "bob" / ASSIGNMENT / f"{ASSIGNMENT}.evidence.json").read_bytes()
    (folder / name).write_bytes(mine)
    assert shown(group) == expected
    (folder / name).write_bytes(b"[" * 20_000)
    assert shown(group) == expected
    ((stale,),) = [stale_grades._evidence(group, "cleo", ASSIGNMENT)]
    assert stale.notebook == folder / f"{ASSIGNMENT}.ipynb"


@pytest.mark.parametrize(
    ("written", "why"),
    [(b'[{"evidence":' + b"[" * 20_000, "nested too deeply"), (b"[]", "larger than 1 bytes")],
)
def test_evidence_that_no_one_could_have_handed_in_costs_nobody_else(
    group, monkeypatch, written, why
):
    path = group.autograded / "cleo" / ASSIGNMENT / f"{ASSIGNMENT}.evidence.json"
    path.write_bytes(written)
    if written == b"[]":
        monkeypatch.setattr(judging_again, "LARGEST", 1)
    said = say()
    left = list(regrading.kept(group, said))
    assert f"cannot be read: It is {why}" in " ".join(said.file.getvalue().split())
    assert "cleo" not in [one.student for one in left]
    assert stale_grades._evidence(group, "cleo", ASSIGNMENT) == ()


def test_the_judge_is_behind_the_walls(course, monkeypatch):
    monkeypatch.setattr(leaderboard, "broken", lambda course: [])
    exercise = EXERCISES["11.7"]
    empty = [Evidence("11.7", {name: Unanswered() for name in exercise.answers})]
    hand_in(course, "eve", empty, "11_beyond_one_process")
    console = say()
    assert show_leaderboard(course, console) == 0
    assert "11.7 Design a training step" in console.file.getvalue()
    assert "unanswered" in console.file.getvalue()
    assert "<img" not in (course.grading / "leaderboard-11.7.html").read_text()


def test_where_there_is_nothing_to_show_it_is_said_what_to_do(course, capsys, monkeypatch):
    with pytest.raises(LeaderboardError, match="Nobody has handed in 11_beyond_one_process yet"):
        shown(course, "")
    with pytest.raises(LeaderboardError, match=r"The answers to 4.1 cannot be ranked.* 4.8, 11.7"):
        shown(course, "4.1")
    monkeypatch.setenv("COLUMNS", "400")
    root = str(course.root)
    assert main(["--root", root, "leaderboard", "--exercise", "4.8"]) == 1
    assert "`make grade` grades them." in capsys.readouterr().out
    assert main(["--root", root, "leaderboard", "--exercise", "4.9"]) == 1
    assert "There is no exercise '4.9'." in capsys.readouterr().out
    monkeypatch.setattr(leaderboard, "broken", lambda course: [])
    hand_in(course, "hal")
    assert main(["--root", root, "leaderboard", "--exercise", "4.8", "--anonymous"]) == 0
    assert "`make grade` grades them; then there is something to show." in capsys.readouterr().out
