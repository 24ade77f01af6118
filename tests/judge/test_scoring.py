"""The share of an exercise's points that findings earn."""

import pytest

from autograder.evidence import Evidence, Piece, Unanswered, Value, plain
from autograder.exercises import EXERCISES, Computes, Donates, Exercise, PlacedLike, Predicts
from autograder.judge import Finding, judge, verdict_as_html, verdict_as_text
from autograder.judge.scoring import compute_share, explain_share

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
    earns = f"{score:.0%}" if score else "nothing"
    said = f"table earns {earns}: {right} of 4 entries {'is' if right == 1 else 'are'} right"
    said += ", which makes" if score else "; the same answer in each entry would get as many."
    assert (said in verdict_as_text(found)) == (0 < right < 4)


def test_the_score_of_a_table_is_explained_by_its_numbers():
    found = verdict(a=True, b=True, c=False, d=False)
    assert found.notes[0] == (
        "table earns 67%: 3 of 4 entries are right, which makes 1.67 of 2 groups with the same "
        "right answer; one group is deducted, so 0.67 of 1 count."
    )


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (
            {"a": True, "b": True, "c": False, "d": False},
            "You have 1.67 of 2 groups. One answer for all entries would get one, so it is "
            "deducted: 0.67 of 1 left.",
        ),
        (
            {"a": False, "b": True, "c": True, "d": True},
            "You have 0.67 of 2 groups. One answer for all entries would get one, so it is "
            "deducted: 0 of 1 left.",
        ),
    ],
)
def test_a_fold_says_how_many_groups_are_right_and_how_many_of_them_count(cells, says):
    found = verdict(**cells)
    assert found.notes[1].endswith(says)
    assert says not in verdict_as_text(found)
    assert says in verdict_as_html(found)


@pytest.mark.parametrize(
    ("cells", "score"),
    [
        ({"array": "v", "KiB": 48}, 1),
        ({"array": "v", "KiB": 12}, 1 / 2),
        ({"array": 48, "KiB": 48}, 1 / 2),
        ({"array": "q", "KiB": 12}, 0),
    ],
)
def test_nothing_is_deducted_where_no_answer_suits_two_entries(cells, score):
    entries = (("array", "v"), ("KiB", 48))
    requirements = tuple(Predicts("found", cell, f"{cell}?", right) for cell, right in entries)
    exercise = Exercise("9.9", "A name and a number", requirements, ("Think.",))
    found = judge(exercise, Evidence("9.9", {"found": Value(cells)}), 1)
    assert found.score == score
    assert "deducted" not in verdict_as_html(found)
    said = "found earns 50%: 1 of 2 entries is right.\n"
    assert (said in verdict_as_text(found)) == (score == 1 / 2)


def answer(name, **met):
    """Requirements on the values and the layout of an answer, and findings on them."""
    kinds = {"values": Computes(name, "", abs, ()), "layout": PlacedLike(name, "0 1", ((2,),))}
    return [
        (kinds[about], Finding(name, is_met, "", "", about=about)) for about, is_met in met.items()
    ]


@pytest.mark.parametrize(("is_slight", "share"), [(True, 0.5), (False, 0)])
def test_what_is_missed_by_little_costs_its_own_part(is_slight, share):
    judged = answer("f", values=True, layout=False)
    requirements, (values, layout) = zip(*judged, strict=True)
    exercise = Exercise("9.9", "", requirements, (), about=(Computes, PlacedLike), together=True)
    assert compute_share(exercise, (values, layout.but(is_slight=is_slight))) == share


@pytest.mark.parametrize(("is_together", "share"), [(False, 0.5), (True, 0)])
def test_what_is_earned_together_is_not_earned_in_part(is_together, share):
    judged = answer("f", values=True, layout=False)
    requirements, findings = zip(*judged, strict=True)
    exercise = Exercise(
        "9.9", "", requirements, (), about=(Computes, PlacedLike), together=is_together
    )
    assert compute_share(exercise, findings) == share


@pytest.mark.parametrize(
    ("judged", "says"),
    [
        (
            answer("a", values=True, layout=True) + answer("b", values=True, layout=False),
            ("The score of 50% is the mean of a (100%) and b (0%: values and layout count only "
             "together).",),
        ),
        (
            answer("a", values=True, layout=False),
            ("a earns nothing: values and layout count only together.",),
        ),
        (answer("a", values=True, layout=True) + answer("b", values=False, layout=False), ()),
    ],
)  # fmt: skip
def test_checks_in_the_table_that_earn_nothing_are_explained(judged, says):
    requirements, findings = zip(*judged, strict=True)
    exercise = Exercise("9.9", "", requirements, (), about=(Computes, PlacedLike), together=True)
    assert explain_share(exercise, findings) == says


@pytest.mark.parametrize(
    ("judged", "weights", "says"),
    [
        (answer("a", values=True, layout=True), {}, ()),
        (answer("a", values=False, layout=False), {}, ()),
        (
            answer("a", values=True, layout=False),
            {},
            ("a earns 25%: 0 of 75% for layout, and 25 of 25% for values.",),
        ),
        (
            answer("a", values=True, layout=True) + answer("b", values=False, layout=False),
            {},
            (),  # one of two is right, as the table says
        ),
        (
            answer("a", values=True, layout=True) + answer("b", values=True, layout=False),
            {},
            ("The score of 62% is the mean of a (100%) and b (25%).",
             "b: 0 of 75% for layout, and 25 of 25% for values."),
        ),
        (
            answer("a", values=True, layout=True) + answer("b", values=False, layout=False),
            {"a": 2},
            ("The score of 67% is the mean of a (100%, counted 2 times) and b (0%).",),
        ),
    ],
)  # fmt: skip
def test_a_score_that_does_not_follow_from_the_verdict_is_explained(judged, weights, says):
    requirements, findings = zip(*judged, strict=True)
    exercise = Exercise("9.9", "A title", requirements, ("Think.",), weights=weights)
    assert explain_share(exercise, findings) == says
    if says:
        assert f"{compute_share(exercise, findings):.0%}" in says[0]


@pytest.mark.parametrize(
    ("is_together", "reason"), [(True, " (earned only together)"), (False, "")]
)
def test_points_that_are_lost_with_others_are_explained(is_together, reason):
    judged = answer("f", values=True, layout=True)
    judged += [(Donates("f", 1, ""), Finding("f", False, "", "", about="donation"))]
    requirements, findings = zip(*judged, strict=True)
    exercise = Exercise(
        "9.9", "", requirements, (), about=(PlacedLike, Donates), together=is_together
    )
    earned, share = (0, 25) if is_together else (38, 62)
    assert explain_share(exercise, findings) == (
        f"f earns {share}%: {earned} of 75% for layout and donation{reason}, and 25 of 25% for "
        "values.",
    )


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
