"""Answers with the same programs have one fingerprint, and if they are right, one verdict."""

import dataclasses
import time
from functools import partial

import jax
import jax.numpy as jnp
import msgspec
import pytest
from jax import export
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import sdy, stablehlo

from autograder import evidence
from autograder.artifacts import Argument
from autograder.evidence import capture
from autograder.exercises import EXERCISES, Computes, Exercise, find
from autograder.judge import fingerprint_answer
from tests.conftest import some_of
from tests.exercises.solutions import BANKS, session_at, try_known_answer

ARGUMENT = Argument((8, 4), (("x", 4), ("y", 2)), ("x", None))
EXERCISE = Exercise(
    "1.1", "Sums", (Computes("f", "f(a) must be the sum.", lambda a: a.sum(), ((ARGUMENT,),)),), ()
)


def fingerprint(function, exercise=EXERCISE):
    """Return the fingerprint of a function as an answer to an exercise."""
    return fingerprint_answer(exercise, capture(exercise.plan(1), {"f": function}))


def total(a):
    return jnp.sum(a)


def test_names_and_lines_do_not_matter():
    def my_sum(block):
        # a comment
        result = block.sum()
        return result

    assert fingerprint(total) == fingerprint(my_sum) != ""


@pytest.mark.parametrize(
    "other",
    [lambda a: a.sum() + 0.1, lambda a: a.sum() * 1e-9, lambda a: a.mean(), jax.jit(lambda a: a),
     lambda a: a.sum()[None], lambda a: (a.sum(),), lambda a: a.sum().astype(jnp.bfloat16)],
)  # fmt: skip
def test_what_a_program_does_matters(other):
    assert fingerprint(other) != fingerprint(total)


def test_a_long_constant_matters_in_each_of_its_numbers():
    numbers = jnp.arange(4096.0)
    others = numbers.at[2000].set(1)
    assert fingerprint(lambda a: a.sum() + numbers) != fingerprint(lambda a: a.sum() + others)


def test_donations_matter_that_the_program_does_not_show():
    """JAX leaves a donation that no result fits into out of the exported program."""
    captured = capture(EXERCISE.plan(1), {"f": total})
    (piece,) = captured.answers.values()
    donated = msgspec.structs.replace(piece, donated=((0,),))
    other = msgspec.structs.replace(captured, answers={"f": donated})
    assert fingerprint_answer(EXERCISE, other) not in (fingerprint(total), "")


def test_a_layout_matters():
    argument = Argument((8, 4), (("x", 4), ("y", 2)), ("x", None), mode="auto")
    asked = Computes("f", "f(a) must be a + 1.", lambda a: a + 1, ((argument,),))
    exercise = Exercise("1.1", "Sums", (asked,), ())
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    specs = [jax.P("x"), jax.P("y"), jax.P("x", "y"), jax.P(("x", "y"))]
    prints = {
        fingerprint(partial(jax.lax.with_sharding_constraint, shardings=sharding), exercise)
        for sharding in (jax.NamedSharding(mesh, spec) for spec in specs)
    }
    assert len(prints - {""}) == len(specs)


def test_the_exercise_matters():
    other = Exercise("1.2", "Sums", EXERCISE.requirements, ())
    assert fingerprint(total) != fingerprint(total, other)
    of_another = capture(EXERCISE.plan(1), {"f": total})
    assert fingerprint_answer(other, of_another) != fingerprint(total), "it would be taken for it"


@pytest.mark.parametrize("answer", [..., 3, lambda a: 1 / 0])
def test_an_answer_without_a_program_has_none(answer):
    assert fingerprint(answer) == ""


def test_a_program_that_is_judged_as_something_else_has_none():
    """An artifact may be forged so that it can be read in two ways."""
    exercise = find("12.8")
    program = capture(EXERCISE.plan(1), {"f": total}).answers["f"]
    forged = evidence.Evidence(exercise.id, dict.fromkeys(exercise.answers, program))
    assert fingerprint_answer(exercise, forged) == ""


def test_attributes_of_exponential_size_are_not_written_out():
    piece = capture(EXERCISE.plan(1), {"f": total}).answers["f"]
    assert isinstance(piece, evidence.Program)
    forged = evidence.Program(tuple(map(with_large_attribute, piece.artifacts)))
    began = time.process_time()
    assert fingerprint_answer(EXERCISE, evidence.Evidence("1.1", {"f": forged})) == ""
    assert time.process_time() - began < 10


def with_large_attribute(artifact):
    """Return an exported program whose module has a list of lists, of 2**40 entries."""
    program = export.deserialize(bytearray(artifact))
    with ir.Context() as context:
        stablehlo.register_dialect(context)
        sdy.register_dialect(context)
        module = stablehlo.deserialize_portable_artifact(context, program.mlir_module_serialized)
        listed: ir.Attribute = ir.StringAttr.get("x")
        for _ in range(40):
            listed = ir.ArrayAttr.get([listed, listed])
        module.operation.attributes["jax.notes"] = listed
        version = stablehlo.get_minimum_version()
        portable = stablehlo.serialize_portable_artifact(module, version, True)
    return bytes(dataclasses.replace(program, mlir_module_serialized=portable).serialize())


def test_functions_that_ran_in_the_kernel_have_none():
    exercise = find("1.7")
    functions = dict.fromkeys(exercise.answers, lambda *_: 0)
    assert fingerprint_answer(exercise, capture(exercise.plan(1), functions)) == ""


@pytest.mark.parametrize("name", BANKS)
def test_the_verdict_on_a_right_answer_is_the_same_with_any_inputs_and_in_other_lines(name):
    known = [entry for entry in BANKS[name] if entry.score == 1]
    for entry in some_of(known):
        exercise = EXERCISES[entry.exercise]
        verdict, data = try_known_answer(session_at(name), entry, 1)
        if fingerprint := fingerprint_answer(exercise, evidence.from_json(data)):
            below = dataclasses.replace(entry, code="# a line\n" * 7 + entry.code)
            other, moved = try_known_answer(session_at(name), below, 2)
            assert fingerprint_answer(exercise, evidence.from_json(moved)) == fingerprint
            assert other.score == verdict.score
            assert without_counts(other) == without_counts(verdict)


def without_counts(verdict):
    """Return a verdict's findings without what came.

    In JAX 0.8, the compiler may combine one all-reduce more with another where lines differ.
    """
    return [finding.but(got="") for finding in verdict.findings]
