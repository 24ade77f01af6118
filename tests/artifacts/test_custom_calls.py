"""A custom call is accepted only if it is exactly what JAX would write."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.mlir import ir
from jax.interpreters import mlir

from autograder.artifacts import ProgramError
from autograder.artifacts.program_checks import read_custom_calls, refuse_custom_calls

A = jax.ShapeDtypeStruct((4, 4), np.float32)
B = jax.ShapeDtypeStruct((4, 1), np.float32)
BATCH = jax.ShapeDtypeStruct((16, 4, 4), np.float32)


def lowered(function, *arguments):
    return jax.jit(function).lower(*arguments).compiler_ir("stablehlo")


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (jnp.linalg.solve, (A, B)),
        (jnp.linalg.solve, (BATCH, jax.ShapeDtypeStruct((16, 4, 3), np.float32))),
        (jax.vmap(lambda a: jnp.linalg.solve(a, a[0])), (BATCH,)),
        (jnp.linalg.inv, (A,)),
        (jnp.linalg.det, (BATCH,)),
        (lambda a, b: jax.scipy.linalg.solve_triangular(a, b, trans=1, lower=True), (A, B)),
    ],
)
def test_calls_that_jax_writes_to_solve_equations_are_accepted(function, arguments):
    module = lowered(function, *arguments)
    assert read_custom_calls(module)
    refuse_custom_calls(module)


@pytest.mark.parametrize(
    "function",
    [jnp.linalg.cholesky, jnp.linalg.qr, jnp.linalg.svd, jnp.linalg.eigh],
    ids=lambda f: f.__name__,
)
def test_routines_that_no_exercise_needs_are_refused(function):
    with pytest.raises(
        ProgramError, match=r"Of linear algebra, only jnp\.linalg\.solve is accepted"
    ):
        refuse_custom_calls(lowered(function, A))


def triangular_solve(attributes, matrix="4x4xf32", right="4x1xf32", result="4x1xf32"):
    """Return a module with one call of a triangular solve, forged but consistent for MLIR."""
    sizes = re.findall(r"\d+(?=x)", f"{matrix} {right} {result}")
    rule = ", ".join(f"{name}={size}" for name, size in zip("ijklmn", sizes, strict=True))
    attributes = attributes.replace("i=4, j=4, k=4, l=1, m=4, n=1", rule)
    types = f"(tensor<{matrix}>, tensor<{right}>) -> tensor<{result}>"
    return f"""func.func public @main(%a: tensor<{matrix}>, %b: tensor<{right}>) {{
      %0 = stablehlo.custom_call @lapack_strsm_ffi(%a, %b) {attributes} : {types}
      return
    }}"""


ALIASES = (
    "#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 1, "
    "operand_tuple_indices = []>"
)
NO_ALIASES = {ALIASES: ""}
FORGED = {
    "a larger result": {"result": "900x1xf32", **NO_ALIASES},
    "a larger right-hand side": {"right": "900x1xf32", **NO_ALIASES},
    "larger on both sides": {"right": "900x1xf32", "result": "900x1xf32"},
    "a smaller matrix": {"matrix": "2x2xf32"},
    "another type": {"matrix": "4x4xi32"},
    "a huge matrix": {"matrix": "99999999x4xf32"},
    "another layout": {"result_layouts = [dense<[0, 1]>": "result_layouts = [dense<[1, 0]>"},
    "an unknown code": {"uplo = 85": "uplo = 77"},
    "another sharding rule": {", custom>": ">"},
    "an attribute that Python cannot read": {
        "sdy.sharding_rule": "odd = dense<(1.0,2.0)> : tensor<complex<f32>>, sdy.sharding_rule"
    },
    "a side effect": {'backend_config = "",': 'backend_config = "", has_side_effect = true,'},
}


@pytest.mark.parametrize("forged", [{}, *FORGED.values()], ids=["as it is", *FORGED])
def test_a_call_that_jax_would_not_write_is_refused(forged):
    written = str(lowered(jax.scipy.linalg.solve_triangular, A, B))
    (attributes,) = re.findall(r"@lapack_strsm_ffi\(.*?\) (\{.*\}) : ", written)
    types = {}
    for old, new in forged.items():
        if old in ("matrix", "right", "result"):
            types[old] = new
        else:
            assert old in attributes
            attributes = attributes.replace(old, new)
    with mlir.make_ir_context():
        module = ir.Module.parse(triangular_solve(attributes, **types))
        if not forged:
            refuse_custom_calls(module)
            return
        with pytest.raises(ProgramError, match="in a way in which JAX would not"):
            refuse_custom_calls(module)


TOP_K = """func.func public @main(%a: tensor<4x8xf32>) {
  %0:2 = stablehlo.custom_call @mhlo.topk(%a) {
    mhlo.attributes = {k = 2 : i64}, mhlo.version = 1 : i64
  } : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return
}"""
FORGED_TOP_K = {
    "as it is": {},
    "a larger result": {"tensor<4x2xi32>": "tensor<900x2xi32>"},
    "more than there are": {"k = 2": "k = 9", "tensor<4x2x": "tensor<4x9x"},
    "another number": {"k = 2": "k = 3"},
    "another type": {"4x2xf32": "4x2xf64"},
    "another version": {"mhlo.version = 1": "mhlo.version = 2"},
    "a further attribute": {"{k = 2 : i64}": "{k = 2 : i64, odd = 1 : i64}"},
    "a side effect": {"mhlo.version = 1 : i64": "mhlo.version = 1 : i64, has_side_effect = true"},
    "a further operand": {"(%a)": "(%a, %a)", "} : (": "} : (tensor<4x8xf32>, "},
}


@pytest.mark.parametrize("forged", FORGED_TOP_K.values(), ids=FORGED_TOP_K)
def test_only_the_call_that_an_older_jax_exports_for_top_k_is_accepted(forged):
    text = TOP_K
    for old, new in forged.items():
        assert old in text
        text = text.replace(old, new)
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        if not forged:
            refuse_custom_calls(module)
            return
        with pytest.raises(ProgramError, match=r"calls the routine 'mhlo\.topk'"):
            refuse_custom_calls(module)
