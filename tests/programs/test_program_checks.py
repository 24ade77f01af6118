"""What cannot be read is refused, whatever it would have been."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.xla_metadata import set_xla_metadata

from autograder import programs
from autograder.programs import Argument
from autograder.programs.program_checks import ATTRIBUTE_NAME, refuse_unknown_operations
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


def test_complex_numbers_are_understood():
    ran = run(lambda a: ((2 + 1j) * jnp.fft.ifft(jnp.fft.fft(a * (1 - 2j)))).real)
    assert np.allclose(ran.outputs[0][0], 4)


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
    assert ATTRIBUTE_NAME.fullmatch(key)


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
            refuse_unknown_operations(module)


def in_each_other(depth, times=1):
    """A program in whose attributes a list lies in a list, and so on, so many times in each."""
    listed = "1 : i64"
    for _ in range(depth):
        listed = f"[{', '.join([listed] * times)}]"
    return FORGED_ATTRIBUTE % listed


FORGED_ATTRIBUTE = """
module @m attributes {jax.notes = %s} {
  func.func public @main(%%arg0: tensor<4xf32>) -> tensor<4xf32> {
    return %%arg0 : tensor<4xf32>
  }
}
"""


def shared(depth):
    """A program with a list that is twice in a list, which is twice in one, and so on."""
    from jax.extend.mlir import ir

    module = ir.Module.parse(FORGED_ATTRIBUTE % "1 : i64")
    listed = module.operation.attributes["jax.notes"]
    for _ in range(depth):
        listed = ir.ArrayAttr.get([listed, listed])
    module.operation.attributes["jax.notes"] = ir.DictAttr.get({"a": listed})
    return module


@pytest.mark.parametrize(
    ("make", "refused"),
    [
        (
            lambda ir: ir.Module.parse(in_each_other(1000)),
            "an attribute 'jax.notes' of more than 20 lists in each",
        ),
        (lambda ir: ir.Module.parse(in_each_other(17, 2)), "more than 100,000 attributes in lists"),
        (lambda ir: shared(18), "more than 100,000 attributes in lists in it"),
        (lambda ir: shared(40), "more than 100,000 attributes in lists"),
    ],
)
def test_attributes_that_are_deep_or_large_are_refused_at_once(make, refused):
    from jax.extend.mlir import ir
    from jax.interpreters import mlir

    began = time.process_time()
    with mlir.make_ir_context(), pytest.raises(programs.ProgramError, match=refused) as raised:
        refuse_unknown_operations(make(ir))
    assert raised.value.diagnosis == "not-understood"
    assert time.process_time() - began < 10


def test_lists_as_jax_has_them_are_understood():
    from jax.extend.mlir import ir
    from jax.interpreters import mlir

    with mlir.make_ir_context():
        refuse_unknown_operations(ir.Module.parse(in_each_other(4, 10)))
