"""A `shard_map` that was made once serves every mesh, before and after it is handed in."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder.programs import Argument, export, run
from tests.helpers import mesh

MESHES = [(("x", 4),), (("x", 8),)]
ARGUMENTS = [(Argument((16,), axes, ("x",), mode="auto"),) for axes in MESHES]


@partial(jax.shard_map, in_specs=jax.P("x"), out_specs=jax.P())
def decorated(a):
    return lax.psum(a.sum(), "x")


made = jax.shard_map(lambda a: lax.psum(a.sum(), "x"), in_specs=jax.P("x"), out_specs=jax.P())
held = {"f": [made]}


@jax.jit
def jitted(x):
    return made(x)


def called(x):
    return decorated(x)


def called_within(x):
    return (lambda y: made(y))(x)


def by_default(x, f=made):
    return f(x)


class Held:
    def __init__(self):
        self.f = made

    def __call__(self, x):
        return self.f(x)


Held.__module__ = "__main__"
held_by = Held()


def looked_up(x):
    return held["f"][0](x)


@pytest.mark.parametrize(
    "function",
    [
        decorated,
        jitted,
        called,
        called_within,
        by_default,
        held_by,
        held_by.__call__,
        looked_up,
        partial(lambda f, x: f(x), made),
    ],
)
def test_it_serves_each_mesh_in_turn(function):
    mine = jnp.arange(16.0)
    with jax.set_mesh(mesh(x=2)):
        assert function(mine) == 120  # as a learner tries it first
    for arguments in ARGUMENTS:
        values = [np.arange(16, dtype=np.float32)]
        artifact = export(function, arguments, under_mesh=True)
        (output,) = run(artifact, arguments, [values]).outputs[0]
        assert output == 120
    with jax.set_mesh(mesh(x=2)):
        assert function(mine) == 120


def test_a_mesh_that_was_given_stays():
    given = jax.shard_map(
        lambda a: 2 * a, mesh=mesh(x=8), in_specs=jax.P("x"), out_specs=jax.P("x")
    )
    export(given, ARGUMENTS[1], under_mesh=True)
    with pytest.raises(Exception, match="should match the mesh passed"):
        export(given, ARGUMENTS[0], under_mesh=True)


def test_what_refers_to_itself_ends():
    def function(x):
        return knot[0] is knot and x

    knot: list[object] = []
    knot.append(knot)
    export(function, ARGUMENTS[0])
