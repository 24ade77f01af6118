"""Output during and after grading says each thing once, and how far grading is."""

import io

from rich.console import Console

from autograder.instructor.__main__ import main
from autograder.instructor.classroom.grading_progress import show_progress
from autograder.instructor.classroom.submission_states import Failure, describe_failures
from autograder.instructor.course import Course, find_first_exception
from autograder.instructor.course.course import find_misplaced_files
from tests.instructor.classroom import plain_course

FILE = f"{plain_course.FIRST}.ipynb"

CUT_OFF = "{}.ipynb cannot be read as a notebook: its JSON breaks off at line {}. Hand it in again."


def cut_off(student, assignment, line):
    return Failure(student, assignment, CUT_OFF.format(assignment, line), is_broken=True)


def test_seven_broken_notebooks_of_one_student_are_one_sentence():
    failures = [cut_off("emil", f"0{i}_name", 100 + i) for i in range(7)]
    (sentence, about), *others = describe_failures(failures)
    assert not others
    assert sentence == CUT_OFF.format("<assignment>", "").replace(" at line ", "")
    assert about == f"emil ({', '.join(f'0{i}_name' for i in range(7))})"


def test_students_who_did_the_same_are_listed_and_others_apart():
    link = Failure("ann", "01", "a is a link.", is_broken=True)
    both = [cut_off("ann", "02", 5), link, cut_off("bob", "01", 7)]
    assert [about for _, about in describe_failures(both)] == ["ann (02), bob (01)", ""]
    assert [sentence for sentence, _ in describe_failures(both)][1] == "ann, 01: a is a link."


def test_what_is_true_of_one_says_all_that_is_known():
    ((sentence, about),) = describe_failures([cut_off("emil", "01", 7)])
    assert sentence == f"emil, 01: {CUT_OFF.format('01', 7)}"
    assert not about


def test_names_cannot_move_the_cursor():
    for failures in (
        [cut_off("a\x1b[2J", "01", 7)],
        [cut_off(f"a\x1b[{i}J", "01", 7) for i in "12"],
    ):
        said = "".join("".join(pair) for pair in describe_failures(failures))
        assert "a␛[" in said
        assert "\x1b" not in said


def followed(terminal):
    """Return three items shown with progress, and the output."""
    said = io.StringIO()
    console = Console(file=said, width=60, force_terminal=terminal)
    return [*show_progress(console, "Grading", ["[/x]", "b", "c"], str.upper)], said.getvalue()


def test_without_a_terminal_each_is_a_line():
    items, said = followed(terminal=False)
    assert items == ["[/x]", "b", "c"]
    assert said.splitlines() == ["Grading 1/3: [/X]", "Grading 2/3: B", "Grading 3/3: C"]


def test_on_a_terminal_it_is_a_bar():
    items, said = followed(terminal=True)
    assert items == ["[/x]", "b", "c"]
    assert "━" in said
    assert "3/3" in said
    assert "2/3:" not in said


def test_of_nothing_nothing_is_said():
    said = io.StringIO()
    console = Console(file=said, force_terminal=True)
    assert not [*show_progress(console, "Making", [], str)]
    assert not said.getvalue()


def test_what_lies_elsewhere_is_a_whole_sentence(tmp_path):
    (tmp_path / "hal.ipynb").touch()
    (said,) = find_misplaced_files(tmp_path, ["01"])
    assert said.startswith("hal.ipynb is directly in grading/submitted/, and was skipped. A")
    (tmp_path / "ida.ipynb").touch()
    (said,) = find_misplaced_files(tmp_path, ["01"])
    assert "hal.ipynb, ida.ipynb are directly in grading/submitted/, and were skipped." in said


def test_a_copy_beside_the_notebook_is_asked_about(tmp_path):
    room = plain_course.plain_course(tmp_path, (plain_course.FIRST,))
    for student in ("ann", "bo"):
        plain_course.hand_in(room, student)
    folder = tmp_path / "grading" / "submitted" / "ann" / plain_course.FIRST
    for name in (
        "01_sums-Copy1.ipynb",
        "01_sums-Copy2.ipynb",
        ".01_sums-checkpoint.ipynb",
        "a.csv",
    ):
        (folder / name).touch()
    (said,) = Course(tmp_path).find_misplaced_files()
    assert said == (
        "Beside 01_sums.ipynb there are 01_sums-Copy1.ipynb of ann, 01_sums-Copy2.ipynb of ann. "
        "What is graded is 01_sums.ipynb, and a copy may be newer: ask which one counts, and leave "
        "only that."
    )


def test_names_of_folders_and_files_that_are_nearly_right_are_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    room = plain_course.plain_course(tmp_path, (plain_course.FIRST,))
    submitted = tmp_path / "grading" / "submitted"
    for student in ("ann", "bo", "cy", "dan ", "eve\n"):
        plain_course.hand_in(room, student)
    for student, name in (("ann", "01_Sums.IPYNB"), ("bo", f"{FILE}.txt"), ("cy", f"{FILE}\n")):
        folder = submitted / student / plain_course.FIRST
        (folder / FILE).rename(folder / name)
    assert main(["--root", str(tmp_path), "grade"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for student, name in (("ann", "01_Sums.IPYNB"), ("bo", f"{FILE}.txt"), ("cy", f"{FILE}␊")):
        assert (
            f"{student}, 01_sums: there is no {FILE} in the folder that was handed in, but {name}. "
            f"If that is it, rename it to {FILE}."
        ) in said
    assert "begins or ends with a space or a line break, or is not UTF-8. Rename it." in said
    assert "dan (01_sums), eve␊ (01_sums)" in said
    assert "Traceback" not in said


def test_a_traceback_of_nbgraders_is_told_by_its_last_line():
    error = "Traceback (most recent call last):\n  File x, line 1\na.b.SomeException: it is gone\n"
    assert find_first_exception({"error": error}) == "SomeException: it is gone"
    logged = {"log": "Oh\nautograder.x.RefusedError: no test", "error": error}
    assert find_first_exception(logged) == "no test"
