"""The verdict on an answer with several mistakes names the cause first, and each mistake once."""

import jax
import numpy as np
import pytest

from autograder import artifacts, evidence
from autograder.artifacts import Argument, ProgramError
from autograder.exercises import Budget, Computes, Exercise, PlacedLike, Requests
from autograder.judge import Finding, judge, running_programs
from autograder.judge.report import problems_of
from autograder.judge.requirements_on_costs import (
    compare_with_budgets,
    describe_budgets,
    describe_combined,
    describe_communication,
)
from shardlings.layouts import Layout
from shardlings.programs import Collective, Report
from tests.helpers import capture, mesh


def found(about, diagnosis):
    return Finding("answer", False, "", "", about=about).problem(diagnosis, f"{diagnosis}.")


@pytest.mark.parametrize(
    ("values", "first"),
    [("values", "no all-reduce"), ("not-finite", "no all-reduce"), ("once-too-often", "values")],
)
def test_a_missing_collective_is_told_before_values_that_say_no_cause(values, first):
    findings = [found("values", values), found("collectives", "no all-reduce")]
    assert first in (problems_of(findings)[0].diagnosis, problems_of(findings)[0].about)
    assert len(problems_of(findings)) == 2


def test_a_wrong_shape_is_told_once():
    findings = [found("values", "shape"), found("layout", "shape")]
    assert problems_of(findings) == findings[:1]
    findings = [found("values", "a-known-mistake"), found("layout", "shape")]
    assert problems_of(findings) == findings[:1]
    findings = [found("values", "dtype"), found("layout", "shape")]
    assert problems_of(findings) == findings


def gathered(groups, times=1):
    return Collective("all-gather", (), groups, 512, 1024, times)


def test_collectives_between_groups_of_two_sizes_are_not_told_as_of_one():
    pairs, fours = ((0, 1), (2, 3)), ((0, 1, 2, 3), (4, 5, 6, 7))
    report = Report((gathered(pairs), gathered(fours)), mesh(x=8), 0.0, 0)
    assert describe_communication(report) == (
        "2,048 bytes by 2 all-gathers between groups of two devices and between groups of four "
        "devices"
    )


def test_of_a_loop_of_unknown_length_one_turn_is_counted_and_that_is_said():
    report = Report((gathered(((0, 1),), None),), mesh(x=8), 0.0, 0)
    assert describe_communication(report).endswith("devices (with one turn of the loop)")


def test_a_compiler_that_combines_collectives_is_said_to_do_so():
    groups = ((0, 1),)
    two, three = [gathered(groups)] * 2, [gathered(groups, 3)]
    assert describe_combined(three, two) == (
        " (the compiler combined some of the 3 all-gathers that are requested)"
    )
    assert describe_combined(two, two) == describe_combined([], two) == ""


ARGUMENTS = tuple((Argument((n,), (("x", 8),), ("x",), mode="auto"),) for n in (16, 32))
DOUBLE = Exercise(
    "10.9",
    "Twice",
    (
        Computes("answer", "It must be 2 x.", lambda x: 2 * x, ARGUMENTS, under_mesh=True),
        PlacedLike("answer", "0 1 2 3 4 5 6 7", ((16,), (32,))),
        Requests("answer", ((), ())),
    ),
    ("Write it.",),
)


@jax.jit
def pairs(x):
    return x.reshape(-1, 2)


def test_of_a_result_of_another_shape_the_layout_is_not_told_as_that_of_something_else():
    shape = PlacedLike("other", "0\n1\n2\n3\n4\n5\n6\n7", ((8, 2),))
    exercise = Exercise("10.9", "Twice", (*DOUBLE.requirements[:2], shape), ("Write it.",))
    for answer in (lambda x: jax.lax.with_sharding_constraint(pairs(x), jax.P("x")), lambda x: x):
        captured = capture(exercise, {"answer": answer}, 1)
        diagnoses = judge(exercise, captured, 1).diagnoses
        assert "of-another-name" not in diagnoses


def test_values_that_are_wrong_for_some_samples_are_shown_for_these():
    def reference(x, i):
        return np.where(i < 2, x, np.float32(0))

    arguments = (ARGUMENTS[0][0], Argument((), (("x", 8),), (), "int32", mode="auto", scale=4))
    asks = Computes("answer", "It must be x or 0.", reference, (arguments,), under_mesh=True)
    exercise = Exercise("10.9", "Some", (asks,), ("Write it.",))
    for seed in range(4):
        answer = {"answer": lambda x, i: x * np.float32(1.0000001)}  # right up to rounding
        verdict = judge(exercise, capture(exercise, answer, seed), seed)
        assert verdict.score or "it should be 0," in verdict.findings[0].got


@pytest.mark.parametrize("by_hand", [False, True])
def test_what_xla_cannot_compile_and_nobody_wrote_by_hand_is_told_so(monkeypatch, by_hand):
    tries = []

    def fails(*_):
        tries.append(1)
        raise ProgramError("fails", "JAX refuses the program: INTERNAL.", by_hand)

    def answer(x):
        return 2 * x + by_hand

    monkeypatch.setattr(artifacts, "run", fails)
    running_programs._run_or_error.cache_clear()
    captured = capture(DOUBLE, {"answer": answer}, 1)
    assert isinstance(captured, evidence.Evidence)
    diagnoses = judge(DOUBLE, captured, 1).diagnoses
    running_programs._run_or_error.cache_clear()
    assert diagnoses == (("fails",) if by_hand else ("fails", "no-shard-map"))
    assert len(tries) == 1  # the three requirements share it


def test_a_program_says_whether_it_is_by_hand_though_it_cannot_be_compiled(monkeypatch):
    def refused(*_, **__):
        raise RuntimeError("INTERNAL: RET_CHECK failure\n*** Begin stack trace ***\n\n")

    artifact = artifacts.export(lambda x: 2 * x, ARGUMENTS[0])
    monkeypatch.setattr(jax.stages.Lowered, "compile", refused)
    with pytest.raises(ProgramError, match=r"RET_CHECK failure\.$") as caught:
        artifacts.run(artifact, ARGUMENTS[0], [[np.zeros(16, np.float32)]])
    assert not caught.value.has_shard_map


def halves(times=1, size=512):
    """Return a reduce-scatter and an all-gather over `x`, which an all-reduce consists of."""
    groups = ((0, 1, 2, 3, 4, 5, 6, 7),)
    return Report(
        tuple(
            Collective(kind, ("x",), groups, size, size, times)
            for kind in ("reduce-scatter", "all-gather")
        ),
        mesh(x=8),
        0.0,
        0,
    )


@pytest.mark.parametrize(
    ("report", "axes", "diagnosis"),
    [
        (halves(), ("x",), ""),
        (halves(), None, ""),
        (halves(), ("y",), "all-gather over x"),  # a budget for other axes
        (halves(times=None), ("x",), "all-gather over x"),  # in a loop of unknown length
        (halves(size=4096), ("x",), "too-many-bytes"),
    ],
)
def test_two_halves_count_as_an_all_reduce_only_within_its_budget(report, axes, diagnosis):
    finding = Finding("answer", False, "", "")
    layouts = [Layout.of(jax.NamedSharding(report.mesh, jax.P()), (8,))]
    found = compare_with_budgets(report, [Budget("all-reduce", axes, 1024)], finding, "x", layouts)
    assert (found.met, found.diagnosis) == (not diagnosis, diagnosis)
    assert ("count as one" in found.difference) == (diagnosis == "too-many-bytes")


@pytest.mark.parametrize(("bytes_", "met"), [(1024, True), (1023, False)])
def test_one_budget_may_be_for_all_kinds_together(bytes_, met):
    report, finding = halves(), Finding("answer", False, "", "")
    layouts = [Layout.of(jax.NamedSharding(report.mesh, jax.P()), (8,))]
    found = compare_with_budgets(report, [Budget(None, bytes=bytes_)], finding, "x", layouts)
    assert found.met == met
    words = "moves 1,024 bytes on each device by all collectives together; at most 1,023"
    assert (words in found.difference) != met


@pytest.mark.parametrize(
    ("budgets", "words"),
    [
        ([], "nothing"),
        ([Budget("all-gather", ("x",))], "any number of bytes by all-gather over x"),
        ([Budget(None, bytes=64)], "at most 64 bytes by all collectives together"),
        (
            [Budget("all-reduce", bytes=1024), Budget("all-gather", ("x", "y"), 8)],
            "at most 1,024 bytes by all-reduce and at most 8 bytes by all-gather over x, y",
        ),
    ],
)
def test_budgets_are_described(budgets, words):
    assert describe_budgets(budgets) == words
