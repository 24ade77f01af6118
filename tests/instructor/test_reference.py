"""docs/reference.md names all that it lists: an ending or a column cannot be added in silence."""

import re

import pytest

from autograder.instructor.classroom import roster
from autograder.instructor.classroom.grade_tables import AVERAGE, FULL_SIGN, NO_SCORE_SIGN
from autograder.instructor.course.accepted_files import ACCEPTED_SUFFIXES
from autograder.instructor.pipeline import State
from tests.conftest import ROOT


def section(heading):
    """Return the text of a section of the reference."""
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_it_lists_the_endings_of_files_that_are_accepted():
    listed = re.findall(r"`(\.\w+)`", section("What is taken from a submission"))
    assert sorted(listed) == sorted(ACCEPTED_SUFFIXES)


def test_it_lists_the_rosters_columns():
    rows = re.findall(r"^\| (.+?) \|", section("The roster's columns"), re.MULTILINE)
    listed = {name for row in rows[1:] for name in re.findall(r"`([^`]+)`", row)}
    assert listed - {*roster.OTHER_NAMES} == {*roster.COLUMNS, "moodle_id_<assignment>"}
    assert listed >= {*roster.OTHER_NAMES}


@pytest.mark.parametrize("word", [*State, AVERAGE, FULL_SIGN, NO_SCORE_SIGN])
def test_it_explains_the_words_of_the_table(word):
    assert word in section("The table")
