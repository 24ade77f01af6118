"""The share of an exercise's points that findings earn."""

import pytest

from autograder.evidence import Evidence, Piece, Unanswered, Value, plain
from autograder.exercises import EXERCISES, Exercise, Predicts
from autograder.judge import judge, verdict_as_text

TABLE = Exercise(
    "9.9",
    "A table",
    tuple(
        Predicts("table", cell, f"Is it so in {cell}?", right)
        for cell, right in (("a", True), ("b", True), ("c", True), ("d", False))
    ),
    ("Think.",),
)


def verdict(**cells):
    return judge(TABLE, Evidence("9.9", {"table": Value(cells)}), 1)


@pytest.mark.parametrize(
    ("cells", "score"),
    [
        ({"a": True, "b": True, "c": True, "d": False}, 1),
        ({"a": True, "b": True, "c": True, "d": True}, 0),
        ({"a": False, "b": False, "c": False, "d": False}, 0),
        ({"a": True, "b": True, "c": False, "d": False}, 2 / 3),  # of the one kind all, 2/3 of it
        ({"a": False, "b": False, "c": False, "d": True}, 0),
    ],
)
def test_a_table_counts_beyond_one_answer_for_all(cells, score):
    found = verdict(**cells)
    assert found.score == pytest.approx(score)
    right = sum(found.met for found in found.findings)
    said = f"table: {right} of 4 cells {'is' if right == 1 else 'are'} right, which earns"
    assert (said in verdict_as_text(found)) == (0 < right < 4)


TABLES = [
    exercise
    for exercise in EXERCISES.values()
    if any(isinstance(r, Predicts) for r in exercise.requirements)
]


@pytest.mark.parametrize("exercise", TABLES, ids=lambda exercise: exercise.id)
def test_one_answer_in_every_cell_earns_less_than_a_fifth(exercise):
    cells = [r for r in exercise.requirements if isinstance(r, Predicts)]
    for constant in {repr(cell.right): plain(cell.right) for cell in cells}.values():
        answers: dict[str, Piece] = dict.fromkeys(exercise.answers, Unanswered())
        for answer in {cell.answer for cell in cells}:
            answers[answer] = Value({c.cell: constant for c in cells if c.answer == answer})
        assert judge(exercise, Evidence(exercise.id, answers), 1).score < 1 / 5
