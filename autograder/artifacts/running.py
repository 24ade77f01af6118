"""Compile and run programs that were exported in another process.

When one runs, it can only do what StableHLO's operations and a few known custom calls do; a
callback into Python is not among these.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import jax
import numpy as np

from autograder.artifacts.arguments import (
    Argument,
    override_mesh,
    rebuild_mesh,
    sharding_of,
    sharding_on_prime_axes,
)
from autograder.artifacts.endless_loops import MAX_TURNS, has_endless_loop
from autograder.artifacts.loading import load
from autograder.artifacts.program_checks import (
    ProgramError,
    refuse_custom_calls,
    refuse_unknown_operations,
    refuse_unreduced,
)
from autograder.artifacts.program_sizes import short_float_types
from autograder.explanations import JAX_SAYS
from shardlings.errors import first_line
from shardlings.programs import (
    MACHINE,
    Collective,
    Report,
    communication,
    requested,
)
from shardlings.programs.compiled import has_unrunnable_fft, read_collectives, read_executable
from shardlings.programs.requested import Spec

Inputs = Sequence[np.ndarray]
"""One array for each argument."""

Change = Callable[[Any, jax.sharding.Mesh], None]
"""A function that modifies a program's StableHLO, and names its mesh axes by a mesh."""

TRANSFORM_IN_OTHER_ORDER: Final = (
    "error-of-xla",
    "XLA compiles this program for a CPU and then fails to run it, by an error of its own: its "
    "Fourier transform works only on arrays in row-major order, and the compiler chose another "
    "order for one. This does not tell whether your values are right. It usually happens where "
    "the result of a transform is gathered or scattered along another dimension than the first: "
    "gather first and transform then, or exchange with an all-to-all, after which the transform "
    "runs.",
)
"""Diagnosis and message for a program that fails in XLA's Fourier transform."""

SAME_BOUNDS: Final = (
    "Give the loop the same bounds on all devices, for example the largest that any of them needs, "
    "and where a device has nothing left to do, have jnp.where keep its old values."
)
SAME_DECISION: Final = (
    "Let all devices decide alike: compute the condition of a value that is the same on all of "
    "them, such as a lax.psum or lax.pmax, {over}, of what each of them has."
)
"""Advice on a loop that may run longer on some devices: the first one if only `lax.axis_index`
decides how long, the second one if the values in a block do.
"""


@dataclass(frozen=True)
class ProgramRun:
    """The results of running a program, and what is known about the program.

    Attributes:
        outputs: its flattened outputs for each list of inputs.
        container: the type of the outputs' outermost container, such as `tuple`; empty if the
            output is one array.
        report: its communication, operations and memory.
        requested: the collectives that it requests, inside `shard_map`.
        has_shard_map: whether it contains a `shard_map`.
        specs: the specs with which `shard_map`s take its arguments, each with the number of the
            argument.
        is_constrained: whether its result depends on a sharding constraint.
        replicated: for each constraint that replicates a value on which the result depends, the
            numbers of the arguments from which that value is computed.
        donated: the numbers, from 0, of the arguments whose buffers it donates to its results.
        other_meshes: descriptions of the meshes of constraints that are not on the arguments' mesh.
        outside: the number of operations outside of any `shard_map`; infinity if unknown.
        always_terminates: whether its loops end for all inputs. If not, it must not be run on
            inputs other than the exercise's.
        short_float_types: its floating-point types of less than 32 bits.
    """

    outputs: tuple[list[jax.Array], ...]
    container: str
    report: Report
    requested: tuple[Collective, ...]
    has_shard_map: bool
    specs: tuple[tuple[int, Spec], ...]
    is_constrained: bool
    replicated: tuple[frozenset[int], ...]
    donated: frozenset[int]
    other_meshes: tuple[str, ...]
    outside: float
    always_terminates: bool
    short_float_types: tuple[str, ...]


def run(
    artifact: bytes,
    arguments: Sequence[Argument],
    samples: Sequence[Inputs],
    change: Change | None = None,
) -> ProgramRun:
    """Compile an exported program here and run it.

    Args:
        artifact: a program that `export` returned; it may be forged, and is checked first.
        arguments: the arguments for which the exercise has the program exported.
        samples: one or several lists of inputs.
        change: a function that modifies the StableHLO before it is compiled.

    Raises:
        ProgramError: it is malformed, too large, was exported for other arguments, contains
            unknown operations or calls, or fails.
    """
    program = load(artifact, arguments)
    mesh = rebuild_mesh(arguments[0])
    try:
        return compile_and_run(
            program.call, [sharding_of(a) for a in arguments], samples, mesh, change
        )
    except ProgramError as refused:
        if refused.diagnosis != "fails":
            raise
        # JAX describes the result's layout on the arguments' mesh, which is not always possible:
        # blocks of 2 by 4 have no spec on a mesh of 4 by 2. A constraint on another mesh leads to
        # such layouts; where the function itself is run, JAX knows that mesh.
        with suppress(ProgramError):
            return compile_and_run(
                program.call, [sharding_on_prime_axes(a) for a in arguments], samples, mesh, change
            )
        raise


def compile_and_run(
    function: Callable[..., Any],
    shardings: Sequence[jax.sharding.Sharding],
    samples: Sequence[Inputs],
    mesh: jax.sharding.Mesh,
    change: Change | None = None,
) -> ProgramRun:
    """Compile a function for arguments with given shardings, and run it.

    Args:
        function: an exported program's `call`, or a function of an exercise that is known to
            compile for good shardings.
        shardings: the arguments' shardings.
        samples: one or several lists of inputs.
        mesh: the mesh by which axes are named.
        change: a function that modifies the StableHLO before it is compiled.

    Raises:
        ProgramError: it contains unknown operations or calls, or fails.
    """
    inputs_and_shardings = [list(zip(inputs, shardings, strict=True)) for inputs in samples]
    with override_mesh(mesh):
        with _errors_refuse_program():
            values = [[jax.device_put(v, s) for v, s in pairs] for pairs in inputs_and_shardings]
        lowered, module = lower(function, values[0])
        if change is not None:
            change(module, mesh)
        has_shard_map = requested.has_shard_map(module)
        compiled = compile_lowered(lowered, has_shard_map)
        if has_unrunnable_fft(compiled.runtime_executable()):
            raise ProgramError(*TRANSFORM_IN_OTHER_ORDER, has_shard_map)
        _refuse_deadlock(module, mesh, has_shard_map)
        if not requested.is_sure_to_end(module):
            _refuse_endless_loop(function, inputs_and_shardings, mesh, change, has_shard_map)
        with _errors_refuse_program(has_shard_map):
            outputs = tuple(jax.tree.leaves(jax.block_until_ready(compiled(*v))) for v in values)
        refuse_unreduced(outputs[0])
        return ProgramRun(
            outputs=outputs,
            container=container_name(lowered.out_tree),
            report=report_as_compiled(compiled, mesh),
            requested=tuple(requested.read_collectives(module, mesh)),
            has_shard_map=has_shard_map,
            specs=requested.find_specs_of_arguments(module),
            is_constrained=requested.is_constrained(module),
            replicated=requested.find_arguments_of_replicated_values(module),
            donated=requested.find_donated_arguments(module),
            other_meshes=tuple(requested.other_meshes(module, mesh)),
            outside=requested.count_flops_outside_shard_map(module),
            always_terminates=requested.is_sure_to_end(module),
            short_float_types=short_float_types(module),
        )


def _refuse_deadlock(module: Any, mesh: jax.sharding.Mesh, has_shard_map: bool) -> None:
    """Refuse a program in which devices may wait for each other until XLA ends the process.

    Raises:
        ProgramError: it has a collective that some devices need not reach.
    """
    unreached = requested.find_unreached_collective(module, mesh)
    if unreached is None:
        return
    kind, axes = unreached.collective.kind, unreached.collective.axes
    over = f"over {' and '.join(axes)}" if axes else "between devices"
    collective = f"{'an' if kind.startswith('a') else 'a'} {kind} {over}"
    from_index = requested.Source.INDEX in unreached.sources
    from_shards = requested.Source.SHARDS in unreached.sources
    sources = ["lax.axis_index"] * from_index + ["the values in a device's own block"] * from_shards
    what = f"computed from {' and '.join(sources)}, so it can differ between devices"
    if unreached.is_in_loop:
        advice = SAME_DECISION if from_shards else SAME_BOUNDS
        sentence = (
            f"There is {collective} in a loop, and how often the loop runs is {what}. A device "
            f"that leaves the loop early takes no part in the later {kind}s, and the others wait "
            f"there for it forever. {advice.format(over=over)}"
        )
    else:
        sentence = (
            f"There is {collective} in a branch (of lax.cond or lax.switch), and which branch is "
            f"taken is {what}. The devices that take another branch never come to it, and the "
            f"others wait there for them forever. Call the collective outside of the branches, on "
            f"all devices, and let each device choose between the results afterwards."
        )
    raise ProgramError(
        "deadlock", f"This program can hang, so it was not run. {sentence}", has_shard_map
    )


def _refuse_endless_loop(
    function: Callable[..., Any],
    samples: Sequence[Sequence[tuple[np.ndarray, jax.sharding.Sharding]]],
    mesh: jax.sharding.Mesh,
    change: Change | None,
    has_shard_map: bool,
) -> None:
    """Refuse a program with a loop that does not end for these inputs.

    A program that cannot be compiled with limited loops is not refused.

    Raises:
        ProgramError: a loop is still running after `MAX_TURNS`.
    """

    def place(sample: Sequence[tuple[np.ndarray, jax.sharding.Sharding]]) -> list[jax.Array]:
        return [jax.device_put(value, sharding) for value, sharding in sample]

    def compile_with(limit: Callable[[Any], None]) -> jax.stages.Compiled:
        def anew(*arguments: Any) -> Any:  # of a function that is known, JAX keeps what it compiled
            return function(*arguments)

        lowered, module = lower(anew, place(samples[0]))
        if change is not None:
            change(module, mesh)
        limit(module)
        return compile_lowered(lowered, has_shard_map)

    is_endless = False
    with suppress(ProgramError), _errors_refuse_program(has_shard_map):
        is_endless = has_endless_loop(compile_with, [partial(place, each) for each in samples])
    if is_endless:
        raise ProgramError(
            "endless-loop",
            f"A lax.while_loop of this program is still running after {MAX_TURNS:,} turns, so it "
            f"was stopped. Does the loop's condition become false on each device?",
            has_shard_map,
        )


def report_as_compiled(
    compiled: jax.stages.Compiled, mesh: jax.sharding.Mesh, machine: str = MACHINE
) -> Report:
    """Report on a compiled program, with the bytes of the types that it was compiled to send.

    A report for its author counts narrower types where the program requests them and only a CPU
    widens them. Which conversions are the CPU's is told by names, which a stranger can forge.
    """
    report = communication(compiled, mesh=mesh, machine=machine)
    if not any(c.widened for c in report.collectives):
        return report
    program = read_executable(compiled.runtime_executable())
    return replace(report, collectives=tuple(read_collectives(program, report.mesh)))


def container_name(structure: Any) -> str:
    """Return the type name of a pytree's outermost container; empty if the tree is one leaf."""
    node = structure.node_data()
    return "" if node is None else str(node[0].__name__)


def lower(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, Any]:
    """Lower a function for its arguments, and check the StableHLO.

    Returns:
        The lowered function and its StableHLO module.

    Raises:
        ProgramError: JAX refuses it, or it contains unknown operations or calls.
    """
    with _errors_refuse_program():
        jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
        lowered = jitted.lower(*arguments)
    module = lowered.compiler_ir("stablehlo")
    refuse_unknown_operations(module)
    refuse_custom_calls(module)
    return lowered, module


def compile_lowered(lowered: Any, has_shard_map: bool = True) -> jax.stages.Compiled:
    """Compile a lowered program.

    Args:
        lowered: the program.
        has_shard_map: whether it contains a `shard_map`; True if that is unknown.

    Raises:
        ProgramError: the compiler refuses it.
    """
    with _errors_refuse_program(has_shard_map):
        compiled: jax.stages.Compiled = lowered.compile()
    return compiled


@contextmanager
def _errors_refuse_program(has_shard_map: bool = True) -> Iterator[None]:
    """Turn JAX's errors within a `with` block into a `ProgramError`.

    The block must contain calls of JAX only, because an error in our own code would be reported as
    an error of the program.

    Args:
        has_shard_map: whether the program contains a `shard_map`; True if that is unknown.
    """
    try:
        yield
    except Exception as error:  # JAX raises many types
        raise ProgramError(
            "fails", f"JAX refuses the program. {JAX_SAYS}{first_line(error)}.", has_shard_map
        ) from error
