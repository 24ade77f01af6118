"""Unknown operations and attributes of a program are refused."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.xla_metadata import set_xla_metadata

from autograder import artifacts
from autograder.artifacts import Argument
from autograder.artifacts.program_checks import (
    ATTRIBUTE_NAME,
    refuse_unknown_operations,
    refuse_unreduced,
)
from tests.helpers import mesh

ARGUMENTS = (Argument((16, 16), (("x", 4), ("y", 2)), ("x", "y"), mode="auto"),)
VALUES = [[np.ones((16, 16), np.float32)]]


def with_metadata(**metadata):
    """Return a function that replicates its result, with XLA metadata on an operation."""

    def program(a):
        with set_xla_metadata(**metadata):
            b = jnp.sin(a)
        return jax.lax.with_sharding_constraint(b + 0, jax.P())

    return program


def run(function):
    with jax.set_mesh(mesh(x=4, y=2)):
        artifact = artifacts.export(function, ARGUMENTS, under_mesh=True)
    return artifacts.run(artifact, ARGUMENTS, VALUES)


def test_the_gradient_of_integers_is_no_fault_of_ours():
    slope = jax.grad(lambda positions: positions.sum() * 1.0, allow_int=True)(jnp.arange(4))
    assert not hasattr(slope, "sharding")  # a float0, with which this failed
    with pytest.raises(artifacts.ProgramError, match="with respect to integers"):
        refuse_unreduced([slope])


def test_metadata_with_a_plain_name_is_accepted():
    ran = run(with_metadata(my_note='anything "\n}\n here'))
    assert {c.kind for c in ran.report.collectives} == {"all-gather"}
    assert len(ran.report.collectives) == 2


def test_complex_numbers_are_accepted():
    ran = run(lambda a: ((2 + 1j) * jnp.fft.ifft(jnp.fft.fft(a * (1 - 2j)))).real)
    assert np.allclose(ran.outputs[0][0], 4)


@pytest.mark.parametrize(
    "key",
    ['a"\n}\nb', "a\nb", "a}", "a=b", "é", "a b", "1a", "a" * 300, '"', "a\\", "a,b", "a{"],
)
def test_a_name_that_could_end_a_computation_in_hlo_text_is_refused(key):
    with pytest.raises(artifacts.ProgramError, match="it contains an attribute ") as raised:
        run(with_metadata(**{key: "c"}))
    assert raised.value.diagnosis == "not-understood"


def test_an_empty_name_is_refused():
    with pytest.raises(artifacts.ProgramError) as raised:
        run(with_metadata(**{"": "c"}))
    assert raised.value.diagnosis in ("not-understood", "fails")


@pytest.mark.parametrize("key", ["jax.result_info", "mhlo.num_partitions", "_xla_x", "a-b.c_d1"])
def test_names_that_jax_uses_are_accepted(key):
    assert ATTRIBUTE_NAME.fullmatch(key)


SENDS = """
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
REDUCES_OVER_REPLICAS = """
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
UNKNOWN_DIALECT = """
module @m {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = arith.addf %arg0, %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""
UNKNOWN_REGION = """
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
        (UNKNOWN_REGION, "named_computation' that contains other operations"),
        (SENDS, "an operation 'stablehlo.send'"),
        (UNKNOWN_DIALECT, "an operation 'arith.addf'"),
        (REDUCES_OVER_REPLICAS, "'stablehlo.all_reduce' without global device ids"),
    ],
)
def test_unknown_operations_are_refused(text, refused):
    from jax.extend.mlir import ir
    from jax.interpreters import mlir

    with mlir.make_ir_context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        with pytest.raises(artifacts.ProgramError, match=refused):
            refuse_unknown_operations(module)


def nested_lists(depth, times=1):
    """Return a module whose attributes have lists in lists, `times` copies at each level."""
    listed = "1 : i64"
    for _ in range(depth):
        listed = f"[{', '.join([listed] * times)}]"
    return NOTES % listed


NOTES = """
module @m attributes {jax.notes = %s} {
  func.func public @main(%%arg0: tensor<4xf32>) -> tensor<4xf32> {
    return %%arg0 : tensor<4xf32>
  }
}
"""


def module_with_shared_lists(depth):
    """Return a module with a list that contains the same list twice, and so on."""
    from jax.extend.mlir import ir

    module = ir.Module.parse(NOTES % "1 : i64")
    listed = module.operation.attributes["jax.notes"]
    for _ in range(depth):
        listed = ir.ArrayAttr.get([listed, listed])
    module.operation.attributes["jax.notes"] = ir.DictAttr.get({"a": listed})
    return module


@pytest.mark.parametrize(
    ("make", "refused"),
    [
        (
            lambda ir: ir.Module.parse(nested_lists(1000)),
            "an attribute 'jax.notes' nested more than 20 levels deep",
        ),
        (lambda ir: ir.Module.parse(nested_lists(17, 2)), "more than 100,000 nested attributes"),
        (
            lambda ir: module_with_shared_lists(18),
            "it contains more than 100,000 nested attributes",
        ),
        (lambda ir: module_with_shared_lists(40), "more than 100,000 nested attributes"),
    ],
)
def test_deeply_nested_or_large_attributes_are_refused_quickly(make, refused):
    from jax.extend.mlir import ir
    from jax.interpreters import mlir

    began = time.process_time()
    with mlir.make_ir_context(), pytest.raises(artifacts.ProgramError, match=refused) as raised:
        refuse_unknown_operations(make(ir))
    assert raised.value.diagnosis == "not-understood"
    assert time.process_time() - began < 10


def test_lists_nested_as_deeply_as_in_jax_are_accepted():
    from jax.extend.mlir import ir
    from jax.interpreters import mlir

    with mlir.make_ir_context():
        refuse_unknown_operations(ir.Module.parse(nested_lists(4, 10)))
