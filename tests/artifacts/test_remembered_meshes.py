"""A `shard_map` without a mesh can be exported for several meshes, and called before and after."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder.artifacts import Argument, export, run
from tests.helpers import mesh

MESHES = [(("x", 4),), (("x", 8),)]
ARGUMENTS = [(Argument((16,), axes, ("x",), mode="auto"),) for axes in MESHES]


@partial(jax.shard_map, in_specs=jax.P("x"), out_specs=jax.P())
def decorated(a):
    return lax.psum(a.sum(), "x")


mapped = jax.shard_map(lambda a: lax.psum(a.sum(), "x"), in_specs=jax.P("x"), out_specs=jax.P())
table = {"f": [mapped]}


@jax.jit
def jitted(x):
    return mapped(x)


def call(x):
    return decorated(x)


def call_in_lambda(x):
    return (lambda y: mapped(y))(x)


def call_default(x, f=mapped):
    return f(x)


class CallableObject:
    def __init__(self):
        self.f = mapped

    def __call__(self, x):
        return self.f(x)


CallableObject.__module__ = "__main__"
instance = CallableObject()


def look_up(x):
    return table["f"][0](x)


@pytest.mark.parametrize(
    "function",
    [
        decorated,
        jitted,
        call,
        call_in_lambda,
        call_default,
        instance,
        instance.__call__,
        look_up,
        partial(lambda f, x: f(x), mapped),
    ],
)
def test_a_function_can_be_exported_for_several_meshes(function):
    values_here = jnp.arange(16.0)
    with jax.set_mesh(mesh(x=2)):
        assert function(values_here) == 120  # as a learner tries it first
    for arguments in ARGUMENTS:
        values = [np.arange(16, dtype=np.float32)]
        artifact = export(function, arguments, under_mesh=True)
        (output,) = run(artifact, arguments, [values]).outputs[0]
        assert output == 120
    with jax.set_mesh(mesh(x=2)):
        assert function(values_here) == 120


def test_a_mesh_that_was_passed_stays():
    given = jax.shard_map(
        lambda a: 2 * a, mesh=mesh(x=8), in_specs=jax.P("x"), out_specs=jax.P("x")
    )
    export(given, ARGUMENTS[1], under_mesh=True)
    with pytest.raises(Exception, match="should match the mesh passed"):
        export(given, ARGUMENTS[0], under_mesh=True)


def test_circular_references_are_searched_once():
    def function(x):
        return circle[0] is circle and x

    circle: list[object] = []
    circle.append(circle)
    export(function, ARGUMENTS[0])
