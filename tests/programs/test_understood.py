"""What cannot be read is refused, whatever it would have been."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.xla_metadata import set_xla_metadata

from autograder import programs
from autograder.programs import Argument
from autograder.programs.understood import KEY, refuse_what_is_not_understood
from tests.helpers import mesh

ARGUMENTS = (Argument((16, 16), (("x", 4), ("y", 2)), ("x", "y"), mode="auto"),)
VALUES = [[np.ones((16, 16), np.float32)]]


def noted(**notes):
    """A program that gathers all, with notes on the way."""

    def program(a):
        with set_xla_metadata(**notes):
            b = jnp.sin(a)
        return jax.lax.with_sharding_constraint(b + 0, jax.P())

    return program


def run(function):
    with jax.set_mesh(mesh(x=4, y=2)):
        artifact = programs.export(function, ARGUMENTS, under_mesh=True)
    return programs.run(artifact, ARGUMENTS, VALUES)


def test_a_note_with_a_plain_name_is_no_harm():
    ran = run(noted(my_note='anything "\n}\n here'))
    assert {c.kind for c in ran.report.collectives} == {"all-gather"}
    assert len(ran.report.collectives) == 2


@pytest.mark.parametrize(
    "key",
    ['a"\n}\nb', "a\nb", "a}", "a=b", "é", "a b", "1a", "a" * 300, '"', "a\\", "a,b", "a{"],
)
def test_a_name_that_could_end_a_computation_is_refused(key):
    with pytest.raises(programs.ProgramError, match="The program has an attribute ") as raised:
        run(noted(**{key: "c"}))
    assert raised.value.diagnosis == "not-understood"


def test_a_name_without_letters_is_refused_by_whoever_sees_it_first():
    with pytest.raises(programs.ProgramError) as raised:
        run(noted(**{"": "c"}))
    assert raised.value.diagnosis in ("not-understood", "fails")


@pytest.mark.parametrize("key", ["jax.result_info", "mhlo.num_partitions", "_xla_x", "a-b.c_d1"])
def test_names_as_jax_has_them_are_understood(key):
    assert KEY.fullmatch(key)


SENT = """
module @m {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %token = stablehlo.create_token : !stablehlo.token
    %sent = "stablehlo.send"(%arg0, %token) {
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, is_host_transfer = false
    } : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    return %arg0 : tensor<4xf32>
  }
}
"""
OF_REPLICAS = """
module @m {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_reduce"(%arg0) <{
      replica_groups = dense<0> : tensor<1x1xi64>,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
    }> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
MADE_UP = """
module @m {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = arith.addf %arg0, %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
FORGED = """
module @m {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = sdy.named_computation<"n">(%arg0) (%arg1: tensor<4xf32>) {
      sdy.return %arg1 : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (FORGED, "named_computation', which holds others"),
        (SENT, "an operation 'stablehlo.send'"),
        (MADE_UP, "an operation 'arith.addf'"),
        (OF_REPLICAS, "'stablehlo.all_reduce' between others than it names"),
    ],
)
def test_operations_that_nobody_here_knows_are_refused(text, refused):
    from jax.extend.mlir import ir
    from jax.interpreters import mlir

    with mlir.make_ir_context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        with pytest.raises(programs.ProgramError, match=refused):
            refuse_what_is_not_understood(module)
