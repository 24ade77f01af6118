"""Manual grades are on the next feedback page, and pages reach the students they are for."""

import shutil

import nbformat
import pytest
from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI

from autograder.instructor.__main__ import main
from autograder.instructor.course import Course
from autograder.instructor.nbgrader_plugins.feedback import ReleaseNewFeedback
from tests.conftest import ROOT
from tests.instructor.classroom.plain_course import FIRST, add_an_essay, hand_in, plain_course
from tests.instructor.room import Classroom
from tests.instructor.tiny_class import ASSIGNMENT as TINY
from tests.instructor.tiny_class import hand_in as hand_in_tiny
from tests.instructor.tiny_class import tiny_class


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """Ada and Bob are graded, Eve's file is broken; Ada and Eve handed in through the exchange."""
    room = plain_course(tmp_path_factory.mktemp("by_hand"))
    add_an_essay(room)
    for student in ("ada", "bob", "eve"):
        hand_in(room, student)
    submitted = room.root / "grading" / "submitted"
    (submitted / "eve" / FIRST / f"{FIRST}.ipynb").write_text("{")
    for student in ("ada", "eve"):
        folder = submitted / student / FIRST
        (folder / "timestamp.txt").write_text("2026-11-01 10:00:00 UTC")
        (folder / "submission_secret.txt").write_text(f"secret of {student}")
    assert main(["--root", str(room.root), "grade"]) == 0
    return room


@pytest.fixture
def by_hand(before, tmp_path):
    """A copy of that class, which the test may change."""
    shutil.copytree(before.root, tmp_path / "course", symlinks=True)
    return Classroom(tmp_path / "course")


def page(room: Classroom, student: str) -> str:
    """A feedback page."""
    folder = room.root / "grading" / "feedback" / student / FIRST
    return (folder / f"{FIRST}.html").read_text()


def give(room: Classroom, student: str, score: float, comment: str) -> None:
    """Give a score and a comment, as Formgrader does."""
    api = Course(room.root).api
    with Gradebook(api.coursedir.db_url, api.coursedir.course_id) as gradebook:
        gradebook.find_grade("essay", FIRST, FIRST, student).manual_score = score
        gradebook.find_comment("essay", FIRST, FIRST, student).manual_comment = comment
        gradebook.db.commit()


@pytest.mark.slow
def test_make_grade_has_pages_made_anew_that_are_behind(by_hand):
    give(by_hand, "bob", 0.5, "A brave attempt.")
    status, said = by_hand.run("autograder.instructor", "grade")
    assert status == 0
    assert f"Renewed feedback pages: bob ({FIRST})." in " ".join(said.split())
    assert "A brave attempt." in page(by_hand, "bob")
    _, said = by_hand.run("autograder.instructor", "grade")
    assert "Renewed feedback pages" not in said


def test_nbgrader_makes_them_anew_without_being_forced_to(by_hand):
    give(by_hand, "ada", 0.25, "See me about this.")
    by_hand.nbgrader("generate_feedback", FIRST)
    assert "See me about this." in page(by_hand, "ada")


def test_a_broken_submission_keeps_nobodys_page_from_being_released(by_hand):
    give(by_hand, "ada", 0.25, "See me about this.")
    by_hand.nbgrader("generate_feedback", FIRST)
    exchange = by_hand.root / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    said = by_hand.nbgrader("release_feedback", FIRST, f"--Exchange.root={exchange}")
    pages = [p.read_text() for p in (exchange / "shardlings" / "feedback").glob("*.html")]
    assert len(pages) == 2
    assert any("could not be graded" in text for text in pages)
    assert any("See me about this." in text for text in pages)
    assert "was not released" in said
    assert "bob" in said.split("was not released")[1]
    assert "Traceback" not in said
    released = {p: p.stat() for p in (exchange / "shardlings" / "feedback").glob("*.html")}
    give(by_hand, "ada", 0.75, "We have talked.")
    by_hand.nbgrader("generate_feedback", FIRST)
    said = by_hand.nbgrader("release_feedback", FIRST, f"--Exchange.root={exchange}")
    new = [p for p, before in released.items() if p.stat().st_ino != before.st_ino]
    assert ["We have talked." in p.read_text() for p in new] == [True], "what has changed, alone"
    assert "The pages of these students are released already: eve" in said


AMISS: dict[str, tuple[str, bytes | None]] = {
    "not_text": ("submission_secret.txt", b"\xff\xfe"),
    "nothing": ("submission_secret.txt", b""),
    "endless": ("submission_secret.txt", b"x" * 10_000),
    "no_time": ("timestamp.txt", b"\xff"),
    "no,secret": ("submission_secret.txt", None),
}


def test_what_one_hands_in_for_a_secret_keeps_nobodys_page_from_being_released(tmp_path, caplog):
    for file in ("nbgrader_config.py", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path / file)
    for student in ("ada", *AMISS, "zoe", "secret", "z,a"):
        folder = tmp_path / "grading" / "feedback" / student / FIRST
        folder.mkdir(parents=True)
        (folder / f"{FIRST}.html").write_text(f"the page of {student}")
        files: dict[str, bytes | None] = {
            "timestamp.txt": b"2026-11-01 10:00:00 UTC",
            "submission_secret.txt": f"secret of {student}".encode(),
        }
        if student in AMISS:
            files.update([AMISS[student]])
        for name, contents in files.items():
            if contents is not None:
                (folder / name).write_bytes(contents)
    (tmp_path / "exchange").mkdir()
    (tmp_path / "exchange").chmod(0o777)
    api = Course(tmp_path).api
    api.config.Exchange.root = str(tmp_path / "exchange")
    api.coursedir.assignment_id, api.coursedir.student_id = FIRST, "*"
    ReleaseNewFeedback(coursedir=api.coursedir, config=api.config).start()
    pages = (tmp_path / "exchange" / "shardlings" / "feedback").iterdir()
    assert {page.read_text() for page in pages} == {
        f"the page of {student}" for student in ("ada", "zoe", "secret", "z,a")
    }
    (said,) = [r.getMessage() for r in caplog.records if "was not released" in r.getMessage()]
    assert all(student in said for student in AMISS)


# nbgrader leaves open the file with the time that it shows
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_make_feedback_says_whose_pages_are_not_in_the_exchange(tmp_path, monkeypatch, capsys):
    room = plain_course(tmp_path)
    feedback = tmp_path / "grading" / "feedback"
    for student in ("ada", "bob"):
        hand_in(room, student)
        for folder in (feedback, tmp_path / "grading" / "autograded"):
            (folder / student / FIRST).mkdir(parents=True)
        (feedback / student / FIRST / f"{FIRST}.html").write_text(student)
        nbformat.write(
            new_notebook(), tmp_path / "grading" / "autograded" / student / FIRST / f"{FIRST}.ipynb"
        )
    through = tmp_path / "grading" / "submitted" / "ada" / FIRST
    (through / "timestamp.txt").write_text("2026-11-01 10:00:00 UTC")
    (through / "submission_secret.txt").write_text("secret of ada")
    made = {"success": True}
    monkeypatch.setattr(NbGraderAPI, "generate_feedback", lambda *_, **__: made)

    def released() -> str:
        assert main(["--root", str(tmp_path), "feedback", "--release"]) == 1
        return " ".join(capsys.readouterr().out.split())

    said = released()
    assert "Nothing is in the exchange. There is no exchange: /" in said
    assert "c.Exchange.root =" in said
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    with (tmp_path / "nbgrader_config.py").open("a") as config:
        config.write(f"\nc.Exchange.root = {str(exchange)!r}\n")
    said = released()
    assert f"{FIRST}: the pages of bob are not in the exchange, because what they handed in" in said
    assert said.endswith("<student>/<assignment>/, and 1 of them in the exchange.")
    assert len([*(exchange / "shardlings" / "feedback").glob("*.html")]) == 1


def test_a_page_that_said_why_nothing_could_be_graded_goes_when_the_same_comes_back(tmp_path):
    root = tiny_class(tmp_path, 0)
    handed_in = hand_in_tiny(root, "ann", "double = 2")
    page = root / "grading" / "feedback" / "ann" / TINY / f"{TINY}.html"
    assert main(["--root", str(root), "grade"]) == 0
    graded = "2 / 2" in page.read_text()
    handed_in.rename(handed_in.with_name("away.ipynb"))
    main(["--root", str(root), "grade"])
    assert (graded, "2 / 2" in page.read_text()) == (True, False)
    handed_in.with_name("away.ipynb").rename(handed_in)
    assert main(["--root", str(root), "grade"]) == 0
    assert "2 / 2" in page.read_text()
