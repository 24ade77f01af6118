"""The programs that a TPU's compiler makes of the course's solutions can be read; needs libtpu."""

from importlib.util import find_spec

import jax
import numpy as np
import pytest

from autograder.artifacts import override_mesh, sharding_of
from autograder.artifacts.exporting import forget_meshes
from autograder.exercises import EXERCISES, Computes
from autograder.instructor.authoring.exercise_stubs import find_cell
from shardlings.programs.compiled import count_flops_xla_omits, read_collectives, read_module
from shardlings.programs.tpu_process import ENVIRONMENT, compile_for_topology
from shardlings.programs.tpu_programs import export_for_tpus
from tests.exercises.solutions import session_for, solution_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("libtpu") is None,
        reason='a TPU\'s compiler is not installed: pip install ".[tpu]"',
    ),
]
TARGETS = {8: "v5e:2x4", 4: "v5e:2x2", 1: "v5e:1x1"}
ASKED = [
    pytest.param(exercise.id, requirement, id=f"{exercise.id} {requirement.answer}")
    for exercise in EXERCISES.values()
    for requirement in exercise.requirements
    if isinstance(requirement, Computes)
]


def answer_to(exercise_id, name):
    """Return the function that an exercise's solution defines."""
    session = session_for(exercise_id)
    names = dict(session.names)
    code = f"{find_cell(session.notebook, exercise_id).source}\n{solution_of(exercise_id)}"
    with session.restored():
        exec(compile(code, f"<{exercise_id}>", "exec"), names)
    return names[name]


@pytest.mark.parametrize(("exercise_id", "requirement"), ASKED)
def test_a_solutions_programs_are_read(exercise_id, requirement, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    function = answer_to(exercise_id, requirement.answer)
    for arguments in requirement.arguments:
        structs = [
            jax.ShapeDtypeStruct(a.shape, np.dtype(a.dtype), sharding=sharding_of(a))
            for a in arguments
        ]
        mesh = structs[0].sharding.mesh
        under = jax.set_mesh(mesh) if requirement.under_mesh else override_mesh(mesh)
        with forget_meshes(function), under:
            artifact, layouts, devices = export_for_tpus(function, structs, {})
        program = read_module(compile_for_topology(TARGETS[devices], artifact, layouts).module)
        found = read_collectives(program, mesh)
        assert all(c.times is not None for c in found), found
        assert count_flops_xla_omits(program) is not None
    assert jax.devices()[0].platform == "cpu"
    assert len(jax.devices()) == 8
