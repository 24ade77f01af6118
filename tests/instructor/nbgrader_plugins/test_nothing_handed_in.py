"""A check without evidence is explained in sentences that are true and end once."""

import pytest
from nbformat.v4 import new_code_cell, new_output

from autograder.exercises import find
from autograder.instructor.nbgrader_plugins.capture_evidence import KernelDeath
from autograder.instructor.nbgrader_plugins.judge_evidence import _explain_missing_evidence
from autograder.judge import verdict_as_text


def told(*outputs, died=None, is_too_large=False, exercise="1.1"):
    """Return the explanation for a check that published no evidence."""
    cell = new_code_cell("check(…)", outputs=list(outputs))
    return verdict_as_text(_explain_missing_evidence(find(exercise), cell, died, is_too_large))


@pytest.mark.parametrize("end", ["", ".", "!", "?", ". "])
def test_an_error_is_told_with_one_full_stop(end):
    said = " ".join(
        told(new_output("error", ename="E", evalue=f"nothing is handed in{end}")).split()
    )
    assert f"ended with E: nothing is handed in{end.strip() or '.'} Often the cell above" in said


def test_evidence_that_was_too_large_is_not_told_as_a_check_that_did_not_run():
    said = " ".join(told(is_too_large=True).split())
    assert "The evidence of this check is too large to be kept" in said
    assert "did not run" not in said


def test_where_a_notebook_was_ended_it_is_said_why():
    said = " ".join(told(died=KernelDeath(3, "3 cells did not end in their time")).split())
    assert "(it was killed: 3 cells did not end in their time)" in said


def test_a_check_that_did_not_end_is_said_of_none_of_its_answers():
    exercise = find("1.7")
    assert len({requirement.answer for requirement in exercise.requirements}) > 1
    said = told(new_output("error", ename="KeyboardInterrupt", evalue=""), exercise="1.7")
    assert "The check did not end in the time that a cell has" in said
    assert "as for" not in said
    for requirement in exercise.requirements:
        assert requirement.answer not in said
