"""Forged evidence of any form gets a verdict, and never raises an error in the judge."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder import evidence
from autograder.evidence import (
    Contents,
    Design,
    Evidence,
    MalformedEvidenceError,
    MeshGrid,
    NotCaptured,
    Piece,
    Placement,
    Placements,
    Program,
    Unanswered,
    Value,
)
from autograder.exercises import (
    EXERCISES,
    Exercise,
    MovesFewBytes,
    Predicts,
    Returns,
    RunsFast,
    RunsWithinBudgets,
    TrainsFast,
)
from autograder.explanations import Fault
from autograder.judge import judge, verdict_as_html, verdict_as_text, verdict_for_terminal
from tests.conftest import some_of

SIZES = st.one_of(st.integers(0, 9), st.sampled_from([16, 64, 1 << 31]))
NAMES = st.one_of(st.sampled_from(["x", "y", "z", ""]), st.text(max_size=3))
SHAPES = st.lists(SIZES, max_size=6).map(tuple)
GRIDS = st.sampled_from([(8,), (4, 2), (2, 4), (2, 2, 2), (4,), (1,), (8, 1)])
MODES = st.sampled_from(["Auto", "Explicit", "Manual", "?"])
ENTRIES = st.one_of(st.none(), NAMES, st.lists(NAMES, max_size=3).map(tuple))
ANYTHING = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 63) + 1, (1 << 63) - 1),
        st.floats(),
        st.text(max_size=9),
        st.sampled_from([0, 1, 1.0, "nothing", {"of type": "ellipsis"}]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@st.composite
def meshes(draw: st.DrawFn) -> MeshGrid:
    """Mostly valid meshes of eight devices, and sometimes anything else."""
    if draw(st.integers(0, 3)) == 0:
        names, modes = draw(st.lists(NAMES)), draw(st.lists(MODES))
        return MeshGrid(draw(SHAPES), draw(SHAPES), tuple(names), tuple(modes))
    shape = draw(GRIDS)
    ids = draw(st.permutations(range(8)))[: math.prod(shape)]
    modes = draw(st.lists(MODES, min_size=len(shape), max_size=len(shape)))
    return MeshGrid(shape, tuple(ids), ("x", "y", "z")[: len(shape)], tuple(modes))


CONTENTS = st.builds(
    Contents,
    st.just((16, 16)) | SHAPES,
    st.sampled_from(["float32", "int32", "bfloat16", "object", "key<fry>"]) | st.text(),
    st.just(bytes(1024)) | st.binary(max_size=64),
)
PLACEMENTS = st.builds(
    Placement, meshes(), st.lists(ENTRIES, max_size=5).map(tuple), st.none() | CONTENTS
)
KINDS = st.one_of(
    PLACEMENTS,
    st.builds(Placements, st.lists(PLACEMENTS, max_size=4).map(tuple)),
    st.builds(Program, st.lists(st.binary(max_size=99), max_size=3).map(tuple)),
    st.builds(Value, ANYTHING),
    st.just(Unanswered()),
    st.builds(NotCaptured, st.text(max_size=20), st.text()),
)


def pieces(exercise: Exercise, answer: str) -> st.SearchStrategy[Piece]:
    """Evidence for an answer; half of it is of the type that the requirement accepts."""
    for requirement in exercise.requirements:
        if requirement.answer != answer:
            continue
        if isinstance(requirement, RunsWithinBudgets | MovesFewBytes | RunsFast):
            count = len(requirement.arguments)
            several = st.lists(PLACEMENTS, min_size=count, max_size=count)
            return st.builds(Placements, several.map(tuple)) | KINDS
        if isinstance(requirement, TrainsFast):
            count, sizes = len(requirement.plan.names), len(requirement.plan.sizes)
            several = st.lists(PLACEMENTS, min_size=count, max_size=count)
            programs = st.lists(st.binary(max_size=99), min_size=sizes, max_size=sizes)
            return KINDS | st.builds(
                Design,
                st.builds(Placements, several.map(tuple)),
                st.builds(Program, programs.map(tuple)),
            )
        if isinstance(requirement, Predicts):
            cells = [r.cell for r in exercise.requirements if isinstance(r, Predicts)]
            return st.builds(Value, st.fixed_dictionaries(dict.fromkeys(cells, ANYTHING))) | KINDS
        if isinstance(requirement, Returns):
            count = len(requirement.cases(exercise.generator(1)))
            result = st.dictionaries(st.sampled_from(["returned", "error", ""]), ANYTHING)
            results = st.lists(result | ANYTHING, min_size=count, max_size=count)
            return st.builds(Value, results) | KINDS
    return KINDS


@pytest.mark.parametrize("exercise", some_of([*EXERCISES.values()]), ids=lambda e: e.id)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_evidence_is_an_error_of_the_judges(exercise, data):
    answers = {name: data.draw(pieces(exercise, name), name) for name in exercise.answers}
    verdict = judge(exercise, Evidence(exercise.id, answers), seed=1)
    assert verdict.fault is None, verdict.fault
    assert 0 <= verdict.score <= 1
    assert exercise.title in verdict_as_text(verdict)
    assert exercise.id in verdict_as_html(verdict)
    assert verdict_for_terminal(verdict)


@pytest.mark.parametrize("value", [1 << 63, -(10**400), {"a": {"b": 10**30}}, [[[[[[[[[]]]]]]]]]])
def test_values_that_no_answer_can_have_are_refused_where_they_are_read(value):
    data = {"exercise": "2.7", "answers": {"audit": {"type": "value", "value": value}}}
    with pytest.raises(
        MalformedEvidenceError, match="a Value must be plain data: 64-bit numbers, strings"
    ):
        evidence.from_json(data)


def test_who_says_that_we_failed_gets_no_score():
    said = Fault("ZeroDivisionError", "mine", "autograder.evidence.plans, line 1")
    verdict = judge(EXERCISES["1.1"], Evidence("1.1", {"columns": said}), seed=1)
    assert verdict.state == "failed"
    assert verdict.fault == said
