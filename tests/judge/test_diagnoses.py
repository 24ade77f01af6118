"""Names of diagnoses, what can be asked about them, and the lessons that they lead to."""

import pytest

from autograder.judge import Exercise, lesson_on
from autograder.judge.diagnoses import (
    NO_SHARD_MAP,
    TOO_SELDOM,
    is_explicit_collective,
    is_missing_collective,
    name_compiled_collective,
    name_explicit_collective,
    name_missing_collective,
)
from shardlings.collective_kinds import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_and_an_explicit_collective_are_told_apart(kind):
    missing, explicit = name_missing_collective(kind), name_explicit_collective(kind)
    compiled = name_compiled_collective(kind, ("x",))
    assert [*map(is_missing_collective, (missing, explicit, compiled))] == [True, False, False]
    assert [*map(is_explicit_collective, (missing, explicit, compiled))] == [False, True, False]


def test_too_few_collectives_are_missing_ones_but_a_missing_shard_map_is_not():
    assert is_missing_collective(TOO_SELDOM)
    assert not is_missing_collective(NO_SHARD_MAP)


LESSONS = Exercise(
    "9.9",
    "Lessons",
    (),
    (),
    {
        "all-reduce over x": "on x",
        "all-reduce": "general",
        "h: all-reduce": "of h",
        "shape": "on shapes",
    },
)


@pytest.mark.parametrize(
    ("answer", "diagnosis", "lesson"),
    [
        ("g", "all-reduce over x", "on x"),
        ("g", "all-reduce over y", "general"),
        ("h", "all-reduce over x", "of h"),
        ("g", "reshaped", "on shapes"),
        ("g", "values", ""),
    ],
)
def test_the_most_specific_lesson_counts_and_the_answers_own_first(answer, diagnosis, lesson):
    assert lesson_on(LESSONS, answer, diagnosis) == lesson
