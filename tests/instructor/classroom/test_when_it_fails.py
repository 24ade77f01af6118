"""A failure or a stop loses nothing, and no old grade counts as new."""

import errno
import math
import shutil
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.utils import temp_attrs
from sqlalchemy.exc import OperationalError

from autograder.instructor import gradebook
from autograder.instructor.__main__ import main
from autograder.instructor.classroom import rebuilding
from autograder.instructor.classroom.stale_grades import Bases
from autograder.instructor.course import Course
from autograder.instructor.gradebook import (
    GradebookError,
    list_all_backups,
    open_gradebook,
    read_backup_time,
)
from autograder.instructor.nbgrader_plugins import CaptureEvidence, entering
from autograder.instructor.nbgrader_plugins.autograde import LockedAutograde
from autograder.instructor.pipeline import Records
from tests.conftest import some_of
from tests.instructor.room import Classroom
from tests.instructor.tiny_class import ASSIGNMENT, about, hand_in, notebook, scores, tiny_class


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """Ann and Bob are graded, each with two points of two."""
    root = tiny_class(tmp_path_factory.mktemp("class") / "before", 0)
    for student in ("ann", "bob"):
        hand_in(root, student, f"double = 2  # of {student}")
    assert main(["--root", str(root), "grade"]) == 0
    return root


@pytest.fixture
def graded(before, tmp_path):
    """A copy of it."""
    return shutil.copytree(before, tmp_path / "course")


@pytest.fixture
def make(capsys):
    """An instructor's command: its exit status, and what it says."""

    def make(root, *words):
        capsys.readouterr()
        status = main(["--root", str(root), *words])
        return status, " ".join(capsys.readouterr().out.split())

    return make


def change(root, student, answer):
    """Have somebody hand in something else."""
    path = root / "grading" / "submitted" / student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    nbformat.write(notebook(answer), path)


def by_hand(root, student, **given):
    """Give something by hand, as Formgrader does."""
    with Gradebook(f"sqlite:///{root / 'grading' / 'gradebook.db'}") as book:
        grade = book.find_grade("test", ASSIGNMENT, ASSIGNMENT, student)
        for name, value in given.items():
            setattr(grade, name, value)
        grade.needs_manual_grade = False
        book.db.commit()


def waits_for_a_look(root, student):
    with Gradebook(f"sqlite:///{root / 'grading' / 'gradebook.db'}") as book:
        grade = book.find_grade("test", ASSIGNMENT, ASSIGNMENT, student)
        return bool(grade.needs_manual_grade)


def row(root, student):
    lines = (root / "grading" / "grades.csv").read_text("utf-8-sig").splitlines()
    return next(line for line in lines if line.startswith(f"{student},"))


def files_of(root, student):
    """Return a student's graded notebooks and feedback pages, by name."""
    folders = [root / "grading" / name / student for name in ("autograded", "feedback")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {p.name: p.read_bytes() for p in files}


def no_server(*_):
    raise OperationalError("UPDATE", {}, Exception("server closed the connection"))


def stop(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("error", "status"), some_of([(stop, 130), (no_server, 1)], at_least=1))
def test_what_was_never_graded_is_no_zero(tmp_path, make, monkeypatch, error, status):
    root = tiny_class(tmp_path, 0)
    hand_in(root, "ann", "double = 2")
    with monkeypatch.context() as patch:
        patch.setattr(entering, "enter_scores", error)
        assert make(root, "grade")[0] == status
    _, said = make(root, "report")
    assert "Not graded yet: ann (tiny). make grade grades them." in said
    assert row(root, "ann").startswith("ann,tiny,waiting,,")


def test_an_error_leaves_what_was_graded_and_says_so(graded, make, monkeypatch):
    by_hand(graded, "ann", manual_score=1.5)
    make(graded, "grade")
    there = files_of(graded, "ann")
    with monkeypatch.context() as patch:
        patch.setattr(entering, "enter_scores", no_server)
        assert make(graded, "grade", "--again", "--student", "ann")[0] == 1
    assert files_of(graded, "ann") == there
    _, said = make(graded, "report")
    assert "out of date, because regrading them was stopped, or failed: ann" in said
    assert make(graded, "grade")[0] == 0
    assert not waits_for_a_look(graded, "ann"), "it was looked at, and is the same"


def test_a_change_of_points_is_marked_once_it_is_released(graded, make):
    path = graded / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    path.write_text(path.read_text().replace('"points": 2', '"points": 3'))
    assert "is out of date" not in make(graded, "report")[1]
    assert make(graded, "release")[0] == 0
    assert "* is where a grade is out of date" in make(graded, "report")[1]
    assert make(graded, "grade")[0] == 0
    assert "is out of date" not in make(graded, "report")[1]


@pytest.mark.usefixtures("in_this_process")
def test_all_that_was_to_be_graded_anew_is_graded_by_whoever_goes_on(graded, make, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(CaptureEvidence, "preprocess", stop)
        assert make(graded, "grade", "--again")[0] == 130
    assert "Grading 2/2: " in make(graded, "grade")[1]
    assert "Grading " not in make(graded, "grade")[1]


@pytest.mark.parametrize("when", some_of(["stage_folder", "move_into_place"], at_least=1))
def test_a_full_disk_leaves_the_grade_of_before_and_says_of_what_it_is(
    graded, make, monkeypatch, when
):
    change(graded, "ann", "double = 3")
    there = files_of(graded, "ann")

    def no_space(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(entering, when, no_space)
        status, said = make(graded, "grade")
    assert status == 1
    assert "No space left on device" in said
    assert files_of(graded, "ann") == there
    _, said = make(graded, "report")
    assert "because regrading them was stopped, or failed: ann (tiny)" in said
    assert make(graded, "grade")[0] == 0
    assert scores(graded)["ann"] == 0


def no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def fail_times(monkeypatch, times, *, error):
    """Have the next runs of notebooks fail, so many of them."""
    failures, preprocess = iter([error] * times), CaptureEvidence.preprocess

    def fail_first(self, nb, resources):
        if error := next(failures, None):
            error()
        return preprocess(self, nb, resources)

    monkeypatch.setattr(CaptureEvidence, "preprocess", fail_first)


def test_what_the_machine_failed_is_tried_again_at_the_end_of_a_run(graded, make, monkeypatch):
    for student in ("ann", "bob"):
        change(graded, student, f"double = 3  # of {student}")
    fail_times(monkeypatch, 1, error=no_space)
    status, said = make(graded, "grade")
    assert status == 0, said
    assert "Grading 2/2: ann, tiny" in said, "it was the last, and Bob was graded meanwhile"
    assert scores(graded) == {"ann": 0, "bob": 0}


def test_what_the_machine_failed_twice_is_tried_again_by_the_next_run(graded, make, monkeypatch):
    change(graded, "ann", "double = 3")
    fail_times(monkeypatch, 2, error=no_space)
    status, said = make(graded, "grade")
    assert status == 1
    assert "grading failed. OSError: [Errno 28] No space left on device" in said
    assert make(graded, "grade")[0] == 0
    assert scores(graded)["ann"] == 0


def test_a_class_file_that_is_wrong_costs_no_graded_notebook(graded, monkeypatch):
    there = files_of(graded, "ann")
    (graded / "grading" / "class.toml").write_text(f"[due]\n{ASSIGNMENT} = 2026-10-12T23:59:00\n")
    course = Course(graded)
    with temp_attrs(course.api.coursedir, assignment_id=ASSIGNMENT, student_id="*"):
        grading = LockedAutograde(coursedir=course.api.coursedir, parent=course.api, force=True)
        with pytest.raises(Exception, match="not in which time zone"):
            grading.start()
    assert files_of(graded, "ann") == there


@pytest.mark.parametrize(
    "when", some_of(["stage_folder", "move_into_place", "enter_scores"], at_least=2)
)
def test_whenever_it_is_stopped_everybody_has_their_own_files_and_all_of_them(
    graded, monkeypatch, when
):
    there = {student: files_of(graded, student) for student in ("ann", "bob")}
    monkeypatch.setattr(entering, when, stop)
    course = Course(graded)
    with temp_attrs(course.api.coursedir, assignment_id=ASSIGNMENT, student_id="*"):
        grading = LockedAutograde(coursedir=course.api.coursedir, parent=course.api, force=True)
        with pytest.raises(KeyboardInterrupt):
            grading.start()
    assert {student: files_of(graded, student) for student in there} == there


def test_what_was_made_takes_the_place_of_what_there_was_or_nothing_does(tmp_path, monkeypatch):
    graded = tmp_path / "graded"
    for folder, name in ((graded, "old"), (entering.stage_folder(graded, keep_files=False), "new")):
        folder.mkdir()
        (folder / name).touch()
    rename = Path.rename

    def stopped(self, to):
        if self == entering.name_staging_folder(graded):
            raise KeyboardInterrupt
        return rename(self, to)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", stopped)
        with pytest.raises(KeyboardInterrupt):
            entering.move_into_place(graded)
    assert [path.name for path in graded.iterdir()] == ["old"]
    entering.move_into_place(graded)
    assert [path.name for path in graded.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["graded"]


def test_a_restore_that_is_stopped_leaves_no_grade_on_what_it_does_not_rest_on(
    graded, make, monkeypatch
):
    change(graded, "ann", "double = 3")
    assert make(graded, "grade")[0] == 0
    [copy] = gradebook.list_all_backups(graded / "grading" / "backups")

    def stopped_after(path, url):
        gradebook.restore_backup(path, url)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rebuilding, "restore_backup", stopped_after)
        assert make(graded, "restore", str(copy))[0] == 130
    assert scores(graded)["ann"] == 2, "which is of what was handed in before"
    assert make(graded, "grade")[0] == 0
    assert scores(graded)["ann"] == 0


def test_no_grade_changes_that_was_not_copied_before(graded, make):
    copies = graded / "grading" / "backups"
    shutil.rmtree(copies, ignore_errors=True)
    copies.touch()
    for student in ("ann", "bob"):
        change(graded, student, "double = 3")
    status, said = make(graded, "grade")
    assert status == 1
    assert "because the gradebook cannot be copied to" in said
    assert scores(graded) == {"ann": 2, "bob": 2}


def test_pages_follow_the_time_zone_and_times_that_were_entered_when_it_stopped(
    graded, make, monkeypatch
):
    page = graded / "grading" / "feedback" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.html"
    times = graded / "grading" / "handed_in.csv"
    times.write_text("student,assignment,time\nann,tiny,2026-10-12 22:30 UTC\n")
    make(graded, "report")
    assert "12 October 2026, 22:30 UTC" in page.read_text()
    (graded / "grading" / "class.toml").write_text('timezone = "Europe/Berlin"\n')
    make(graded, "report")
    assert "13 October 2026, 00:30 CEST" in page.read_text()
    times.write_text("student,assignment,time\nann,tiny,2026-10-14 22:30 UTC\n")
    with monkeypatch.context() as patch:
        patch.setattr("autograder.instructor.classroom.reporting.renew_pages", stop)
        assert make(graded, "report")[0] == 130
    make(graded, "report")
    assert "15 October 2026, 00:30 CEST" in page.read_text()


def test_extra_credit_for_what_was_handed_in_before_is_asked_about(graded, make):
    by_hand(graded, "ann", extra_credit=1)
    assert make(graded, "grade", "--again", "--student", "ann")[0] == 0
    assert not waits_for_a_look(graded, "ann"), "it is for what it was given for"
    change(graded, "ann", "double = 3")
    _, said = make(graded, "grade")
    assert "ann, tiny: test has extra credit of 1, from before it was last graded." in said
    assert waits_for_a_look(graded, "ann")


def test_what_nbgrader_has_graded_is_not_asked_about_when_it_is_graded_again(graded, make):
    course = Course(graded)
    assert course.api.autograde(ASSIGNMENT, "ann", force=True)["success"]
    _, said = make(graded, "report")
    assert "There is no record of" not in said
    assert "stopped, or failed" not in said
    by_hand(graded, "ann", manual_score=1.5)
    assert make(graded, "grade")[0] == 0
    assert not waits_for_a_look(graded, "ann")


def second(answer):
    """Another notebook of the same assignment."""
    other = notebook(answer)
    for cell, name in zip(other.cells, ("double2", "test2"), strict=True):
        kinds = cell.metadata.nbgrader
        cell.metadata = about(name, **{k: v for k, v in kinds.items() if k != "grade_id"})
    return other


@pytest.fixture(scope="module")
def before_of_two(tmp_path_factory):
    """A class whose assignment has two notebooks; Ann's are graded."""
    root = tiny_class(tmp_path_factory.mktemp("class") / "of_two", 0)
    source = second("### BEGIN SOLUTION\ndouble = 2\n### END SOLUTION")
    nbformat.write(source, root / "solutions" / ASSIGNMENT / "second.ipynb")
    hand_in(root, "ann", "double = 2")
    handed_in = root / "grading" / "submitted" / "ann" / ASSIGNMENT
    nbformat.write(second("double = 2"), handed_in / "second.ipynb")
    assert main(["--root", str(root), "grade"]) == 0
    return root


@pytest.fixture
def of_two(before_of_two, tmp_path):
    """A copy of it."""
    return shutil.copytree(before_of_two, tmp_path / "course")


def test_a_score_by_hand_of_a_notebook_that_is_left_out_is_asked_about(of_two, make):
    with Gradebook(f"sqlite:///{of_two / 'grading' / 'gradebook.db'}") as book:
        grade = book.find_grade("test2", "second", ASSIGNMENT, "ann")
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        book.db.commit()
    (of_two / "grading" / "submitted" / "ann" / ASSIGNMENT / "second.ipynb").unlink()
    _, said = make(of_two, "grade")
    assert "second/test2 has 1.5 points by hand, from before it was last graded." in said
    assert "ann, tiny: Not handed in, and so without points: second.ipynb." in said
    page = of_two / "grading" / "feedback" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.html"
    assert "Not handed in, and so without points: second.ipynb." in page.read_text()
    assert ">tiny has 2 notebooks, with 3.5 of 4 points in all.<" in page.read_text()
    Path(of_two, "grading", "class.toml").write_text("")
    with Gradebook(f"sqlite:///{of_two / 'grading' / 'gradebook.db'}") as book:
        grade = book.find_grade("test2", "second", ASSIGNMENT, "ann")
        grade.manual_score, grade.needs_manual_grade = None, False
        book.db.commit()
    make(of_two, "report")
    cells = (of_two / "grading" / "exercises.csv").read_text("utf-8-sig")
    assert "ann,tiny,second/test2,0.0,2.0,,0.0,,unanswered," in cells


def test_a_notebook_that_was_not_chosen_at_first_is_graded_by_the_next_make_grade(of_two, make):
    records = Course(of_two).records
    shutil.rmtree(records)
    shutil.rmtree(of_two / "grading" / "autograded")
    Classroom(of_two).nbgrader("autograde", ASSIGNMENT, f"--notebook={ASSIGNMENT}", "--create")
    record = Records(records).get("ann", ASSIGNMENT)
    assert record is not None
    assert [*record.notebooks] == [ASSIGNMENT]
    assert record.is_due_again
    make(of_two, "grade")
    record = Records(records).get("ann", ASSIGNMENT)
    assert record is not None
    assert {*record.notebooks} == {ASSIGNMENT, "second"}
    assert not record.is_due_again


def test_states_and_notes_are_of_the_notebook_that_they_are_about(of_two, make):
    folder = of_two / "grading" / "submitted" / "ann" / ASSIGNMENT
    released = nbformat.read(of_two / "course" / ASSIGNMENT / "second.ipynb", 4)
    changed = [c for c in released.cells if c.metadata.get("nbgrader", {}).get("grade")]
    changed[0].source = "assert True"
    nbformat.write(released, folder / "second.ipynb")
    _, said = make(of_two, "grade")
    assert "ann, tiny: second.ipynb: These tests were changed before it was handed in" in said
    cells = (of_two / "grading" / "exercises.csv").read_text("utf-8-sig")
    assert "ann,tiny,second/test2,0.0,2.0,,0.0,,unanswered," in cells
    assert "ann,tiny,test,2.0,2.0,,0.0,,right," in cells


def test_a_notebook_that_was_only_renamed_is_no_copy_of_another(of_two, make):
    folder = of_two / "grading" / "submitted" / "ann" / ASSIGNMENT
    (folder / "second.ipynb").rename(folder / "second (1).ipynb")
    _, said = make(of_two, "grade")
    assert "until they are renamed: second (1).ipynb of ann (to second.ipynb)." in said
    assert "a copy may be newer" not in said
    shutil.copy(folder / "second (1).ipynb", folder / "second.ipynb")
    _, said = make(of_two, "grade")
    assert "Beside second.ipynb there is second (1).ipynb of ann." in said
    assert "until they are renamed" not in said


def test_another_notebook_that_cannot_be_read_is_broken_for_every_command(of_two, make):
    folder = of_two / "grading" / "submitted" / "ann" / ASSIGNMENT
    (folder / "second.ipynb").write_text("{")
    for command in ("grade", "report", "grade", "report"):
        _, said = make(of_two, command)
        assert "second.ipynb cannot be read as a notebook" in said, command
        assert row(of_two, "ann").startswith("ann,tiny,broken,")


def test_a_comment_on_what_was_handed_in_before_says_so(of_two, make):
    page = of_two / "grading" / "feedback" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.html"

    def comment(text):
        with Gradebook(f"sqlite:///{of_two / 'grading' / 'gradebook.db'}") as book:
            book.find_comment("double", ASSIGNMENT, ASSIGNMENT, "ann").manual_comment = text
            book.db.commit()
        make(of_two, "report")

    comment("What of zero?")
    assert "What of zero?" in page.read_text()
    assert "on what was handed in before" not in page.read_text()
    change(of_two, "ann", "double = 2 * 1")
    make(of_two, "grade")
    make(of_two, "grade", "--again")
    assert "<em>(on what was handed in before)</em> What of zero?" in page.read_text()
    comment("Better.")
    assert "on what was handed in before" not in page.read_text()


def test_who_hands_in_another_notebook_alone_is_asked_for_all(of_two, make):
    pages = of_two / "grading" / "feedback" / "ann" / ASSIGNMENT
    assert {page.name for page in pages.iterdir()} == {f"{ASSIGNMENT}.html", "second.html"}
    (of_two / "grading" / "submitted" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb").unlink()
    _, said = make(of_two, "grade")
    assert (
        "there is no tiny.ipynb in the folder that was handed in, only second.ipynb. Hand in all "
        "of them together."
    ) in said
    assert row(of_two, "ann").startswith("ann,tiny,broken,")
    assert "What is broken counts in no total until something else is handed in." in said
    assert [page.name for page in pages.iterdir()] == [f"{ASSIGNMENT}.html"]


@pytest.mark.parametrize("is_there", [True, False], ids=["cut off", "gone"])
def test_what_is_whole_again_waits_until_it_is_graded(graded, make, is_there):
    """Its scores were withdrawn, so the gradebook has a sum that lacks them."""
    path = graded / "grading" / "submitted" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    whole, before = path.read_text(), row(graded, "ann")
    if is_there:
        path.write_text(whole[: len(whole) // 2])
    else:
        path.unlink()
    assert make(graded, "grade")[0] == 0
    assert row(graded, "ann").startswith("ann,tiny,broken,")
    path.write_text(whole)
    page = graded / "grading" / "feedback" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.html"
    shown = page.read_text()
    assert make(graded, "report")[0] == 0
    assert row(graded, "ann").startswith("ann,tiny,waiting,")
    assert page.read_text() == shown
    assert make(graded, "grade")[0] == 0
    assert row(graded, "ann") == before


def test_a_cell_that_the_time_limit_stops_is_named(graded, make):
    config = graded / "nbgrader_config.py"
    config.write_text(config.read_text() + "\nc.CaptureEvidence.timeout = 1\n")
    hand_in(graded, "eve", "while True: pass")
    _, said = make(graded, "grade")
    assert "eve, tiny: The time limit stopped cell 1." in said
    page = graded / "grading" / "feedback" / "eve" / ASSIGNMENT / f"{ASSIGNMENT}.html"
    assert "KeyboardInterrupt: the cell was stopped after 1 second" in page.read_text()


def test_a_submission_is_not_taken_for_judged_again_where_some_of_it_could_not_be(of_two, make):
    records = Records(Course(of_two).records)
    then = records.get("ann", ASSIGNMENT)
    assert then is not None
    assert then.basis is not None
    other = msgspec.structs.replace(then.basis, judge="another")
    damaged = msgspec.structs.replace(then.notebooks["second"], evidence=msgspec.Raw(b"{}"))
    notebooks = {**then.notebooks, "second": damaged}
    records.write(
        "ann", ASSIGNMENT, msgspec.structs.replace(then, basis=other, notebooks=notebooks)
    )
    _, said = make(of_two, "regrade")
    assert "ann, tiny is not judged again: its evidence cannot be read" in said
    assert Bases(Course(of_two)).find_changes("ann", ASSIGNMENT) == {"judge"}


def test_who_is_graded_and_has_nothing_there_any_more_is_named(graded, make):
    shutil.rmtree(graded / "grading" / "submitted" / "bob")
    _, said = make(graded, "report")
    assert "The gradebook has grades of tiny of these, who have nothing of it in" in said
    assert "they are not shown: bob." in said
    _, said = make(graded, "report", "--student", "ann")
    assert "they are not shown" not in said


def test_a_page_that_cannot_be_renewed_costs_no_grade(graded, make, monkeypatch):
    by_hand(graded, "ann", manual_score=1.5)

    def fail(*_):
        raise PermissionError("It may not be written.")

    monkeypatch.setattr("autograder.instructor.nbgrader_plugins.feedback.write_page", fail)
    status, said = make(graded, "report")
    assert status == 1
    assert "ann, tiny: no new feedback page. PermissionError: It may not be written." in said
    assert row(graded, "ann").startswith("ann,tiny,graded,1.5,")


def test_what_is_graded_and_has_lost_its_files_is_named(graded, make):
    shutil.rmtree(graded / "grading" / "autograded" / "ann" / ASSIGNMENT)
    _, said = make(graded, "report")
    assert "went wrong before that): ann (tiny). make grade regrades them." in said


def test_a_restore_runs_nothing_again_and_leaves_no_grade_out_of_date(graded, make):
    by_hand(graded, "bob", manual_score=1.5)
    make(graded, "report")
    copy, *_ = list_all_backups(graded / "grading" / "backups")
    change(graded, "ann", "double = 3")
    assert make(graded, "grade")[0] == 0
    times = graded / "grading" / "handed_in.csv"
    times.write_text("student,assignment,time\nann,tiny,2026-10-12 22:30 UTC\n")
    status, said = make(graded, "restore", str(copy))
    assert status == 0
    assert "The grades of 1 submission were entered again from the records." in said
    assert scores(graded) == {"ann": 0, "bob": 2}
    assert not waits_for_a_look(graded, "bob"), "his score by hand is of the same answer"
    assert "out of date" not in make(graded, "report")[1]
    assert "Grading " not in make(graded, "grade")[1]


def test_a_rule_for_somebody_unknown_is_pointed_out_without_a_roster_too(graded, make):
    rules = "[extensions.annn]\nall = 3\n\n[extensions.ann]\nall = 3\n"
    (graded / "grading" / "class.toml").write_text(rules)
    said = "grading/class.toml has a rule for annn, who has handed in nothing."
    assert said in make(graded, "report")[1]
    assert "annn" not in make(graded, "report", "--student", "ann")[1], "ann may look on"


def test_scores_below_0_and_scores_that_are_none_are_pointed_out(graded, make):
    by_hand(graded, "ann", manual_score=-1)
    by_hand(graded, "bob", auto_score=None, manual_score=math.nan)
    _, said = make(graded, "report")
    assert "These have less than 0 points: ann (tiny, test: -1)." in said
    assert "These have no score, count as 0, and are marked as looked at." in said
    assert "not a number (NaN): bob (tiny, test)." in said


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_program_cannot_enter_a_score_that_is_no_number(graded, score):
    with open_gradebook(graded / "grading" / "gradebook.db") as book:
        grade = book.find_grade("test", ASSIGNMENT, ASSIGNMENT, "ann")
        with pytest.raises(GradebookError, match=f"The score {score} of test is not a number."):
            grade.manual_score = score
        grade.manual_score = None


def test_a_command_for_one_student_names_nobody_elses_files(graded, make):
    for student in ("ann", "bob"):
        folder = graded / "grading" / "submitted" / student
        shutil.copy(folder / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", folder / ASSIGNMENT / "copy.ipynb")
        (folder / "Tiny").mkdir()
    _, said = make(graded, "report", "--student", "ann")
    assert "Beside tiny.ipynb there is copy.ipynb of ann." in said
    assert "submitted/ann/Tiny was skipped" in said
    assert "bob" not in said
    assert "submitted/bob/Tiny was skipped" in make(graded, "report")[1]


def test_backups_are_listed_with_their_scores_by_hand_on_lines_that_fit(graded, make, capsys):
    (graded / "grading" / "class.toml").write_text('timezone = "Asia/Tokyo"\n')
    by_hand(graded, "bob", manual_score=1.5)
    make(graded, "report")
    copy = list_all_backups(graded / "grading" / "backups")[0]
    when = read_backup_time(copy).astimezone(ZoneInfo("Asia/Tokyo"))
    assert main(["--root", str(graded), "restore"]) == 0
    said = capsys.readouterr().out
    line = f"  {copy.name}  {when:%d %b %Y, %H:%M:%S}  1 by hand"
    assert line in said.splitlines()
    assert len(line) < 80
    assert "(in Asia/Tokyo; the names are in UTC)" in " ".join(said.split())
