"""Sentences that begin with a name."""

import pytest

from autograder.instructor.commands import begin_sentence


@pytest.mark.parametrize(
    ("clause", "sentence"),
    [
        ("the folder has no notebook", "The folder has no notebook"),
        ("hw.ipynb cannot be read", "hw.ipynb cannot be read"),
        ("part_b: is empty", "part_b: is empty"),
        ("a/b is a link", "a/b is a link"),
        ("empty.", "Empty."),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_unless_a_file_does(clause, sentence):
    assert begin_sentence(clause) == sentence
