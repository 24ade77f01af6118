"""Programs made by hand and handed in: each is a zero with a reason, and harms no judge."""

import textwrap

import pytest

from tests.instructor.room import Classroom, right_answers

pytestmark = pytest.mark.slow

ASSIGNMENT = "03_constraints"
FORGE = """
import jax, jax.numpy as jnp, numpy as np
from jax import export
from IPython.display import display
from autograder import evidence

asked = evidence.known_plans()["3.1"].answers["turned"].arguments

def structs(shape=None):
    from autograder.artifacts import sharding_of
    for each in asked:
        yield [
            jax.ShapeDtypeStruct(shape or a.shape, a.dtype, sharding=sharding_of(a)) for a in each
        ]

def exported(function, *allowed, shape=None):
    checks = [export.DisabledSafetyCheck.custom_call(name) for name in allowed]
    return [bytes(export.export(jax.jit(function), disabled_checks=checks)(*s).serialize())
            for s in structs(shape)]

def hand_in(*_):
    pieces = evidence.Evidence("3.1", {"turned": evidence.Program(tuple(ARTIFACTS))})
    display({evidence.MIME_TYPE: evidence.to_json(pieces)}, raw=True)
"""
ARTIFACTS = {
    "nonsense": ("[b'no program', b'none either']", "The exported program cannot be read."),
    "cut_off": (
        "[a[: len(a) // 2] for a in exported(jnp.sin)]",
        "The exported program cannot be read.",
    ),
    "one_for_two": ("exported(jnp.sin)[:1]", "does not have a program for each list of arguments"),
    "oversized": ("[bytes(4_000_000)] * 2", "`turned` has not been filled in yet."),
    "too_large_to_hear": ("[bytes(9_000_000)] * 2", "`turned` has not been filled in yet."),
    "a_custom_call": (
        "exported(lambda x: jax.ffi.ffi_call('hostile', jax.ShapeDtypeStruct(x.shape, x.dtype))(x),"
        " 'hostile')",
        "which an answer may not use",
    ),
    "a_callback": (
        "exported(lambda x: jax.ffi.ffi_call('xla_ffi_python_cpu_callback', "
        "jax.ShapeDtypeStruct(x.shape, x.dtype))(x), 'xla_ffi_python_cpu_callback')",
        "which an answer may not use",
    ),
    "other_shapes": ("exported(jnp.sin, shape=(8, 8))", "exported for other arguments than those"),
    "endless": (
        "exported(lambda x: jax.lax.while_loop(lambda c: c.sum() < np.inf, lambda c: c * 0, x))",
        "still running after 5,000 turns",
    ),
    "endless_inside_of_endless": (
        "exported(lambda x: jax.lax.while_loop(lambda c: c.sum() < np.inf, lambda c: "
        "jax.lax.while_loop(lambda c: c.sum() < np.inf, lambda c: c * 0, c), x))",
        "Judging it did not finish",
    ),
    "greedy": (
        "exported(lambda x: x + jnp.sort(jnp.arange(2**37) % 7)[0].astype(x.dtype))",
        "Out of memory allocating",
    ),
}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    room = Classroom.at(tmp_path_factory.mktemp("course"), ASSIGNMENT, until="3.1")
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + "\nc.JudgeEvidence.seconds = 12\n")
    room.nbgrader("generate_assignment", ASSIGNMENT, "--force")
    for name, (artifacts, _) in ARTIFACTS.items():
        code = FORGE.replace("ARTIFACTS", artifacts)
        answer = f"{code}\nget_ipython().events.register('post_run_cell', hand_in)"
        room.hand_in(name, {"3.1": textwrap.dedent(answer)})
    room.hand_in("honest", {"3.1": right_answers(ASSIGNMENT)["3.1"]})
    room.nbgrader("autograde", ASSIGNMENT, "--create")
    return room


@pytest.mark.parametrize("name", ARTIFACTS)
def test_a_forged_program_is_a_zero_with_a_reason(room, name):
    assert set(room.scores()[name].values()) == {0}
    assert ARTIFACTS[name][1] in room.verdicts(name)["ex-3-1-check"]


def test_the_honest_answer_beside_them_counts(room):
    assert room.scores()["honest"]["3.1"] > 0
