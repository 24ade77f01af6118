"""Split a function's gradient into a forward and a backward pass, and see what passes between them.

The forward pass returns the function's value, and every array that the backward pass needs. The
backward pass takes these arrays and the gradient of the value, and returns the gradients of the
arguments. Each is a program of its own, so no compiler can merge what the backward pass computes
again with what the forward pass has computed: its operations are those that were requested.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import jax
import msgspec
import numpy as np

from autograder.artifacts.arguments import Argument, rebuild_mesh, sharding_of
from autograder.artifacts.exporting import export_laid_out, structs_of
from autograder.artifacts.loading import load
from autograder.artifacts.program_checks import IN_A_CONTAINER, MALFORMED, ProgramError
from autograder.artifacts.running import Inputs, ProgramRun, compile_and_run
from shardlings.programs import communication

NOT_TWO_PASSES: Final = "The submission is not a forward and a backward pass."


@dataclass(frozen=True)
class BackwardCosts:
    """The cost of a backward pass.

    Attributes:
        saved: the arrays that the forward pass keeps for it, without the arguments.
        flops: the floating-point operations of the backward pass.
    """

    saved: tuple[jax.ShapeDtypeStruct, ...]
    flops: float

    @property
    def bytes(self) -> int:
        """The bytes of all saved arrays together."""
        return sum(each.size * each.dtype.itemsize for each in self.saved)


@dataclass(frozen=True)
class GradientRun:
    """A forward and a backward pass, and their results.

    Attributes:
        samples: for each sample the arguments, and the gradient of the value.
        ran: the forward pass, with the value and the gradients of the arguments as its outputs.
        costs: what the backward pass costs.
    """

    samples: list[list[np.ndarray]]
    ran: ProgramRun
    costs: BackwardCosts


def split_gradient(
    function: Callable[..., Any],
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the forward and the backward pass of a function that returns one array.

    The backward pass can be called after the forward pass.
    """
    structure: list[Any] = []

    def forward(*arguments: Any) -> tuple[Any, ...]:
        value, pull_back = jax.vjp(function, *arguments)
        if not isinstance(value, jax.Array):
            raise ProgramError(
                IN_A_CONTAINER,
                f"The function returns a {type(value).__name__}; expected one array.",
            )
        saved, structure[:] = jax.tree.flatten(pull_back)[0], [jax.tree.structure(pull_back)]
        return value, *saved

    def backward(of_value: Any, *saved: Any) -> Any:
        return jax.tree.unflatten(structure[0], saved)(of_value)

    return forward, backward


def measure_backward(function: Callable[..., Any], *arguments: Any) -> BackwardCosts:
    """Return what the backward pass of a function costs, for arguments on one device.

    Args:
        function: a function of arrays that returns one array.
        *arguments: its arguments, of JAX or NumPy.
    """
    forward, backward = split_gradient(function)
    value, *saved = jax.jit(forward)(*arguments)
    compiled = jax.jit(backward).lower(value, *saved).compile()
    return BackwardCosts(_without_arguments(saved, arguments), communication(compiled).flops)


def export_passes(function: Callable[..., Any], arguments: Sequence[Argument]) -> bytes:
    """Export a function's forward and backward pass, as one artifact.

    Args:
        function: the function.
        arguments: its arguments.

    Raises:
        ProgramError: it can be traced, but its results cannot be judged.
        TheirError: it cannot be traced or exported, for an error of the learner's.
    """
    from jax import export as jax_export

    mesh, structs = rebuild_mesh(arguments[0]), structs_of(arguments)
    forward, backward = split_gradient(function)
    first = export_laid_out(forward, structs, mesh)
    everywhere = jax.NamedSharding(mesh, jax.P())
    passed_on = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=everywhere)
        for aval in jax_export.deserialize(bytearray(first)).out_avals
    ]
    return msgspec.msgpack.encode((first, export_laid_out(backward, passed_on, mesh)))


def run_passes(
    artifact: bytes, arguments: Sequence[Argument], samples: Sequence[Inputs], seed: int
) -> GradientRun:
    """Run a forward pass, and a backward pass with nothing but what the first one returned.

    Args:
        artifact: what `export_passes` returned; it may be forged.
        arguments: the arguments for which the exercise has the function exported.
        samples: one or several lists of inputs.
        seed: the seed for the gradients of the value.

    Raises:
        ProgramError: the passes are malformed, or one of them cannot be run.
    """
    try:
        first, second = msgspec.msgpack.decode(artifact, type=tuple[bytes, bytes])
    except msgspec.MsgspecError as error:
        raise ProgramError(MALFORMED, NOT_TWO_PASSES) from error
    mesh = rebuild_mesh(arguments[0])
    forward = compile_and_run(
        load(first, arguments).call, [sharding_of(a) for a in arguments], samples, mesh
    )
    if not forward.outputs[0]:
        raise ProgramError(MALFORMED, NOT_TWO_PASSES)
    generator = np.random.default_rng(seed)
    of_values = [
        generator.standard_normal(value.shape).astype(value.dtype) for value, *_ in forward.outputs
    ]
    passed = [
        [of_value, *map(np.asarray, saved)]
        for of_value, (_, *saved) in zip(of_values, forward.outputs, strict=True)
    ]
    structs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in passed[0]]
    everywhere = [jax.NamedSharding(mesh, jax.P())] * len(structs)
    backward = compile_and_run(load(second, structs).call, everywhere, passed, mesh)
    outputs = tuple(
        [value, *gradients]
        for (value, *_), gradients in zip(forward.outputs, backward.outputs, strict=True)
    )
    saved = _without_arguments(passed[0][1:], samples[0])
    return GradientRun(
        samples=[[*inputs, gradient] for inputs, gradient in zip(samples, of_values, strict=True)],
        ran=replace(forward, outputs=outputs, container="tuple"),
        costs=BackwardCosts(saved, backward.report.flops),
    )


def _without_arguments(
    saved: Sequence[Any], arguments: Sequence[Any]
) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Return the saved arrays that take memory of their own, by their values.

    An argument, or an entry of its first dimension, is there anyway. An array that is saved twice
    takes memory once.
    """
    # compared as bytes: 0.0 and -0.0 are equal, so their signs could hold data
    known = [np.asarray(each) for each in arguments]
    own: list[jax.ShapeDtypeStruct] = []
    for array in map(np.asarray, saved):
        parts = [
            part
            for each in known
            for part in (each, *(each if each.ndim > array.ndim else ()))
            if part.shape == array.shape and part.dtype == array.dtype
        ]
        if not any(part.tobytes() == array.tobytes() for part in parts):
            known.append(array)
            own.append(jax.ShapeDtypeStruct(array.shape, array.dtype))
    return tuple(own)
