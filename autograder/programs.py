"""Functions that travel: exported in one process, compiled and run in another.

An exported program is StableHLO: data, not Python. Loading one runs nothing of its author's, and
what it may do when it runs is limited to StableHLO's own operations and an allow-list of custom
calls; a call back into Python is not on the list.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import jax
import numpy as np

from autograder import requested
from autograder.blame import TheirError, theirs
from autograder.collectives import Collective
from autograder.communication import Report, communication
from autograder.errors import first_line
from autograder.exercise import Argument

ALLOWED_CUSTOM_CALLS: Final = frozenset(
    {
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "shape_assertion",
        "cu_threefry2x32",
        "cu_threefry2x32_ffi",
        "cpu_threefry2x32",
        "mhlo.topk",
        "stablehlo.dynamic_top_k",
        "lapack_sgetrf_ffi",
        "lapack_dgetrf_ffi",
        "lapack_strsm_ffi",
        "lapack_dtrsm_ffi",
        "lapack_spotrf_ffi",
        "lapack_dpotrf_ffi",
        "lapack_sgeqrf_ffi",
        "lapack_dgeqrf_ffi",
        "lapack_sorgqr_ffi",
        "lapack_dorgqr_ffi",
        "lapack_ssyevd_ffi",
        "lapack_dsyevd_ffi",
        "lapack_sgesdd_ffi",
        "lapack_dgesdd_ffi",
    }
)
"""Custom calls that JAX's own functions make and that reach nothing outside the program."""

QUICKLY: Final[dict[str, str | bool]] = {"xla_backend_optimization_level": "0"}
"""How programs are compiled that run twice and never again.

Collectives, layouts and memory are settled before machine code is made, so that need not be good.
"""

Inputs = Sequence[np.ndarray]

UNREDUCED: Final = (
    "unreduced",
    "The result is still unreduced: each device holds a part of every sum, and the parts have to "
    "be added up before anybody can read it. jax.reshard does that.",
)
"""The diagnosis of what is still to be added up, and the sentence."""

NOT_EXPORTABLE: Final = (
    "JAX traced your function, and then could not make a program of it that can be handed in: {}. "
    "Most often there is a call back to Python in it, such as jax.debug.print: take that out, and "
    "check again."
)
"""What is said where a function can be traced and not exported."""

MAX_ARTIFACT_BYTES: Final = 1 << 20
"""An exported exercise takes a few kilobytes; what is much larger carries its answer in it."""


class ProgramError(ValueError):
    """An exported program cannot be judged; `diagnosis` names why, in a word or two."""

    def __init__(self, diagnosis: str, sentence: str) -> None:
        super().__init__(sentence)
        self.diagnosis = diagnosis


def mesh_of(argument: Argument) -> jax.sharding.Mesh:
    """The mesh that an argument is to be laid out on, over the first devices in order."""
    names = tuple(name for name, _ in argument.axes)
    sizes = tuple(size for _, size in argument.axes)
    kind = {"explicit": jax.sharding.AxisType.Explicit, "auto": jax.sharding.AxisType.Auto}
    return jax.make_mesh(sizes, names, axis_types=(kind[argument.mode],) * len(names))


def placed(argument: Argument) -> jax.NamedSharding:
    """The sharding that an argument is to have."""
    return jax.NamedSharding(mesh_of(argument), jax.P(*argument.spec))


def export(
    function: Callable[..., Any], arguments: Sequence[Argument], under_mesh: bool = False
) -> bytes:
    """Export a function for one list of argument layouts.

    Args:
        function: what to export.
        arguments: what it is to be given.
        under_mesh: whether their mesh is the current one while it is traced.

    Raises:
        ProgramError: it can be traced, but its results are none to hand in.
        TheirError: it cannot be traced or exported; what the function or JAX raised is in it.
    """
    from jax import export as jax_export

    structs = [
        jax.ShapeDtypeStruct(a.shape, np.dtype(a.dtype), sharding=placed(a)) for a in arguments
    ]
    mesh = mesh_of(arguments[0])
    with jax.set_mesh(mesh) if under_mesh else current(mesh):
        with theirs():
            jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
            results = jax.tree.leaves(jax.eval_shape(jitted, *structs))
        _refuse_unreduced(results)
        try:
            with theirs():
                exported = jax_export.export(jitted)(*structs)
            _refuse_other_mode(results, arguments[0].mode)  # after all that JAX itself refuses
            with theirs():
                return bytes(exported.serialize())
        except TheirError as refused:
            if isinstance(refused.error, NotImplementedError):
                raise ProgramError("not-exportable", NOT_EXPORTABLE.format(refused)) from refused
            raise


def _refuse_unreduced(results: Sequence[Any]) -> None:
    """What is still unreduced has no values: JAX neither prints nor, in part, exports it."""
    if any(getattr(getattr(r.sharding, "spec", None), "unreduced", None) for r in results):
        raise ProgramError(*UNREDUCED)


def _refuse_other_mode(results: Sequence[Any], mode: str) -> None:
    """A result whose type speaks the other mode's language is of no use to the program around it.

    The blocks are where they were asked for, and an exported program does not tell the modes apart
    on every version of JAX, so this is said here, where the function is traced, and nowhere else.
    """
    explicit = jax.sharding.AxisType.Explicit
    typed = [
        r.sharding is not None and explicit in (r.sharding.mesh.axis_types or ()) for r in results
    ]
    if any(t != (mode == "explicit") for t in typed):
        came = "Auto" if mode == "explicit" else "Explicit"
        raise ProgramError(
            "other-mode",
            f"The argument came on a mesh with {mode.title()} axes, and the result is on one with "
            f"{came} axes: the language was changed on the way, and what comes after would not "
            f"understand it. Take the mesh that the argument is on.",
        )


def current(mesh: jax.sharding.Mesh) -> AbstractContextManager[object]:
    """Makes a mesh the current one, where another is: a learner may have set one for good."""
    if jax.sharding.get_abstract_mesh().empty:
        return nullcontext()
    return jax.set_mesh(mesh)


@dataclass(frozen=True)
class Ran:
    """What an exported program did when it was compiled and run here.

    Attributes:
        outputs: what it returned for each draw of its inputs, flattened.
        report: what it communicates, and what it takes on each device.
        requested: the collectives that it asks for by hand.
        mapped: whether there is a `shard_map` in it.
    """

    outputs: tuple[list[jax.Array], ...]
    report: Report
    requested: tuple[Collective, ...]
    mapped: bool


def run(artifact: bytes, arguments: Sequence[Argument], draws: Sequence[Inputs]) -> Ran:
    """Compile an exported program here and run it.

    Args:
        artifact: what `export` made; it may be forged, and is checked first.
        arguments: what the exercise gives the program.
        draws: their values, once or several times.

    Raises:
        ProgramError: it is malformed, too large, made for other arguments, calls out, or fails.
    """
    program, takes = _load(artifact)
    if takes != [(a.shape, np.dtype(a.dtype)) for a in arguments]:
        raise ProgramError("arguments", "The program was exported for other arguments than asked.")
    mesh = mesh_of(arguments[0])
    try:
        return execute(program.call, [placed(a) for a in arguments], draws, mesh)
    except ProgramError as refused:
        if refused.diagnosis != "fails":
            raise
        # JAX describes the result's layout by the arguments' mesh, and not every layout can be
        # described so: blocks of 2 by 4 have no name on a mesh of 4 by 2. (A constraint on a mesh
        # of its own is how it comes about; where the function itself is run, JAX looks there.)
        with suppress(ProgramError):
            return execute(program.call, [_finely_placed(a) for a in arguments], draws, mesh)
        raise


def _finely_placed(argument: Argument) -> jax.NamedSharding:
    """The same sharding, on a mesh whose axes have prime sizes: it can describe many more."""
    factors = {
        name: [(f"{name}.{i}", prime) for i, prime in enumerate(_prime_factors(size))]
        for name, size in argument.axes
    }
    axes = [axis for split in factors.values() for axis in split]
    mesh = jax.make_mesh(
        tuple(size for _, size in axes),
        tuple(name for name, _ in axes),
        axis_types=(jax.sharding.AxisType.Auto,) * len(axes),
    )
    spec = [
        tuple(name for whole in _names(entry) for name, _ in factors[whole])
        for entry in argument.spec
    ]
    return jax.NamedSharding(mesh, jax.P(*spec))


def _names(entry: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The mesh axes that one entry of a spec names."""
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


def _prime_factors(size: int) -> list[int]:
    """`[2, 2, 3]` for 12."""
    for prime in range(2, size + 1):
        if size % prime == 0:
            return [prime, *_prime_factors(size // prime)]
    return []


def execute(
    function: Callable[..., Any],
    shardings: Sequence[jax.sharding.Sharding],
    draws: Sequence[Inputs],
    mesh: jax.sharding.Mesh,
) -> Ran:
    """Compile a function for arrays as they are laid out, and run it.

    Args:
        function: what to run: an exported program's `call`, or a function of an exercise, of which
            it is known that it compiles where its arguments are laid out well.
        shardings: how its arguments are laid out.
        draws: their values, once or several times.
        mesh: what to name axes by.

    Raises:
        ProgramError: it calls out, or fails.
    """
    _prepare_linear_algebra()
    laid_out = [list(zip(inputs, shardings, strict=True)) for inputs in draws]
    with current(mesh):
        with _refused():
            values = [[jax.device_put(v, s) for v, s in pairs] for pairs in laid_out]
            lowered = jax.jit(function).lower(*values[0])
        module = lowered.compiler_ir("stablehlo")
        _refuse_calls(module)
        with _refused():
            compiled = lowered.compile(compiler_options=QUICKLY)
            outputs = tuple(jax.tree.leaves(jax.block_until_ready(compiled(*v))) for v in values)
        _refuse_unreduced(outputs[0])
        report = communication(compiled, mesh=mesh)
        by_hand = tuple(requested.read(module, mesh))
        return Ran(outputs, report, by_hand, requested.is_mapped(module))


@contextmanager
def _refused() -> Iterator[None]:
    """A place in which nothing but JAX is at work on a program, so that its errors are refusals.

    Nothing else is to be done there: an error in what is ours would be told as one of the program.
    """
    try:
        yield
    except Exception as error:  # they come in many types
        raise ProgramError("fails", f"JAX refuses the program: {first_line(error)}") from error


def _refuse_calls(module: Any) -> None:
    strange = custom_calls(module) - ALLOWED_CUSTOM_CALLS
    if strange:
        raise ProgramError(
            "custom-call",
            f"The program calls {min(strange)!r}, which is outside of what a program may call "
            f"here: it must compute its result with JAX's own operations.",
        )


@cache
def _prepare_linear_algebra() -> None:
    """Have JAX find LAPACK, which it does when a program that needs it is lowered here.

    One that was exported elsewhere is not, and to call what was never found kills the process.
    """
    jax.jit(jax.numpy.linalg.inv).lower(jax.ShapeDtypeStruct((1, 1), np.float32))


def custom_calls(module: Any) -> set[str]:
    """The targets of the custom calls in a StableHLO module, read from its operations."""
    from jax.extend.mlir import ir

    targets: set[str] = set()

    def visit(operation: Any) -> Any:
        if operation.name.endswith("custom_call"):
            targets.add(ir.StringAttr(operation.attributes["call_target_name"]).value)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return targets


def _load(artifact: bytes) -> tuple[Any, list[tuple[tuple[int | None, ...], Any]]]:
    """An exported program, and the shape and dtype of each argument that it says it takes.

    Where a size is a symbol it is None, for symbols cannot be compared with every number.
    """
    from jax import export as jax_export

    if len(artifact) > MAX_ARTIFACT_BYTES:
        raise ProgramError(
            "too-large",
            f"The exported program takes {len(artifact):,} bytes; at most {MAX_ARTIFACT_BYTES:,} "
            f"are taken. Arrays from outside the function are part of it: pass them as arguments.",
        )
    try:
        program = jax_export.deserialize(bytearray(artifact))
        return program, [
            (tuple(size if isinstance(size, int) else None for size in aval.shape), aval.dtype)
            for aval in program.in_avals
        ]
    except Exception as error:  # flatbuffers and MLIR raise what they like on malformed bytes
        raise ProgramError("malformed", "The exported program cannot be read.") from error
