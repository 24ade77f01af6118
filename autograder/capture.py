"""From answers to evidence, in the student's kernel."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from autograder import programs
from autograder.blame import Fault, TheirError, theirs
from autograder.errors import meaning_of, their_error
from autograder.evidence import (
    Contents,
    Evidence,
    MeshGrid,
    NotCaptured,
    Piece,
    Placement,
    Placements,
    Program,
    Unanswered,
    Value,
)
from autograder.exercise import (
    CommunicatesAtMost,
    Computes,
    Exercise,
    Feeds,
    FitsIn,
    PlacedLike,
    Predicts,
    Requests,
    Requirement,
    Returns,
    Trades,
    WorksAtMost,
    described,
)
from autograder.layout import Layout, LayoutError, refusal
from autograder.misfits import misfit, not_a_function, nothing
from autograder.plain import entries, plain

MAX_VALUE_BYTES: Final = 1 << 20
"""Exercises are small; a larger array is not what was asked for."""


def capture(exercise: Exercise, answers: Mapping[str, object], seed: int) -> Evidence:
    """Turn answers into evidence. Never raises for what an answer is or does.

    Nor is an answer blamed for what it is not: where an error is ours, its evidence is a `Fault`.

    Args:
        exercise: what was asked.
        answers: the answers by name.
        seed: what cases are drawn from, where a function is to be called in the kernel.
    """
    first_to_ask: dict[str, Requirement] = {}
    # What exports a function decides how it is captured; the rest is read off the program.
    read_off = (PlacedLike, CommunicatesAtMost, FitsIn, Requests, WorksAtMost)
    for requirement in sorted(exercise.requirements, key=lambda r: isinstance(r, read_off)):
        first_to_ask.setdefault(requirement.answer, requirement)
    return Evidence(
        exercise.id,
        {
            name: _captured(exercise, first_to_ask[name], answers.get(name, ...), seed)
            for name in exercise.answers
        },
    )


def _captured(exercise: Exercise, requirement: Requirement, answer: object, seed: int) -> Piece:
    try:
        with theirs():  # to look at an answer can run code of the learner's: a property, a repr
            return nothing(answer) or _capture(requirement, answer, exercise.generator(seed))
    except TheirError as raised:
        return NotCaptured(
            "strange", f"{type(answer).__name__} came, and looking at it raised {raised}."
        )
    except Exception as error:
        return Fault.of(error)


def _capture(requirement: Requirement, answer: object, generator: np.random.Generator) -> Piece:
    match requirement:
        case PlacedLike():
            return _capture_placement(requirement, answer)
        case Feeds():
            return _capture_placements(requirement.arguments, requirement.shapes[0], answer)
        case Trades():
            return _capture_placements(requirement.arguments, requirement.shapes, answer)
        case Returns():
            return _capture_results(requirement, answer, generator)
        case Computes():
            return _capture_program(requirement, answer)
        case Predicts():
            return _capture_table(answer)
        case CommunicatesAtMost() | FitsIn() | Requests() | WorksAtMost():
            raise TypeError(f"{type(requirement).__name__} goes with a Computes of the same answer")


def _capture_placement(requirement: PlacedLike, answer: object) -> Piece:
    if isinstance(answer, jax.Array) and not isinstance(answer, jax.core.Tracer):
        return _placement(answer)
    if isinstance(answer, jax.sharding.Sharding):
        if requirement.values is not None:
            return NotCaptured(
                "sharding-for-array",
                "The sharding alone came, and the array itself was asked for: "
                "jax.device_put(array, sharding) lays an array out by it.",
            )
        return _sharding(answer, requirement.shapes[0])
    return misfit(answer)


def _capture_placements(
    names: Sequence[str], shapes: Sequence[tuple[int, ...]], answer: object
) -> Piece:
    several = isinstance(answer, tuple | list) and not isinstance(answer, jax.P)
    answers = list(answer) if several else [answer]  # type: ignore[call-overload]
    if len(answers) != len(names):
        wanted = {1: "one sharding was", 2: "a pair of shardings was"}.get(
            len(names), f"{len(names)} shardings were"
        )
        return NotCaptured(
            "number-of-shardings",
            f"{len(answers)} came, and {wanted} asked for: of {' and of '.join(names)}.",
        )
    if all(part is ... for part in answers):
        return Unanswered()
    parts = []
    for name, part, shape in zip(names, answers, shapes, strict=True):
        is_laid_out = isinstance(part, jax.Array | jax.sharding.Sharding)
        if not is_laid_out or isinstance(part, jax.core.Tracer):
            found = misfit(part)
            return NotCaptured(found.why, f"{name}: {found.sentence}")
        sharding = part.sharding if isinstance(part, jax.Array) else part
        placed = _sharding(sharding, shape)
        if not isinstance(placed, Placement):
            return placed
        parts.append(placed)
    return Placements(tuple(parts))


def _placement(array: jax.Array) -> Piece:
    if array.is_deleted():
        return NotCaptured(
            "deleted", "The array was deleted (donated to jit, perhaps). Make it anew."
        )
    if array.nbytes > MAX_VALUE_BYTES:
        return NotCaptured(
            "too-large",
            f"The array has shape {array.shape} and takes {array.nbytes:,} bytes; "
            f"nothing here takes more than {MAX_VALUE_BYTES:,}.",
        )
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return NotCaptured(
            "keys",
            "An array of random keys came, and an array of numbers was asked for: "
            "jax.random.normal, for example, makes numbers from a key.",
        )
    placement = _sharding(array.sharding, array.shape)
    if not isinstance(placement, Placement):
        return placement
    with theirs():  # what computes it may only fail now that somebody reads it
        values = np.asarray(array)
    contents = Contents(array.shape, array.dtype.name, values.tobytes())
    return Placement(placement.mesh, placement.spec, contents)


def _sharding(sharding: jax.sharding.Sharding, shape: tuple[int, ...]) -> Placement | NotCaptured:
    if not isinstance(sharding, jax.NamedSharding):
        try:
            return Placement(*_mesh_of(Layout.of(sharding, shape)))
        except LayoutError as error:
            return NotCaptured("does-not-fit", str(error))
    refused = refusal(sharding)
    if refused or not isinstance(sharding.mesh, jax.sharding.Mesh):
        return NotCaptured("no-devices", refused)
    if getattr(sharding.spec, "unreduced", None):
        return NotCaptured(*programs.UNREDUCED)
    spec = entries(sharding.spec)
    if jax.P.UNCONSTRAINED in spec:
        return NotCaptured(
            "unconstrained",
            f"{sharding.spec} leaves a dimension to the compiler, so it names no blocks yet.",
        )
    mesh = sharding.mesh
    return Placement(
        MeshGrid(
            mesh.devices.shape,
            tuple(device.id for device in mesh.devices.flat),
            tuple(map(str, mesh.axis_names)),
            tuple(kind.name for kind in mesh.axis_types or ()),
        ),
        tuple(map(_axes_by_name, spec)),
    )


def _axes_by_name(part: Any) -> str | tuple[str, ...] | None:
    """One entry of a spec; JAX takes anything for an axis's name, and JSON takes strings."""
    return tuple(map(str, part)) if isinstance(part, tuple) else None if part is None else str(part)


def _mesh_of(layout: Layout) -> tuple[MeshGrid, tuple[str, ...]]:
    """A mesh and spec that give a layout, for shardings that have none of their own."""
    names = tuple(f"d{axis}" for axis in range(len(layout.counts)))
    ids = tuple(device for holders in layout.grid.values() for device in holders)
    return MeshGrid((*layout.counts, layout.copies), ids, (*names, "copies")), names


def _capture_results(requirement: Returns, answer: object, generator: np.random.Generator) -> Piece:
    if not callable(answer):
        return not_a_function(answer)
    results = [_call(answer, case) for case in requirement.cases(generator)]
    if all(result.get("came", 0) is ... for result in results):
        return Unanswered()
    return Value([{key: plain(value) for key, value in result.items()} for result in results])


def _call(function: Callable[..., object], case: tuple[Any, ...]) -> dict[str, Any]:
    arguments = copy.deepcopy(case)  # it may change what it is given
    try:
        with theirs():
            return {"came": function(*arguments)}
    except TheirError as raised:
        if _is_stub(raised.error):
            return {"came": ...}
        return {"error": their_error(raised.error, function)}


def _capture_table(answer: object) -> Piece:
    if not isinstance(answer, dict):
        return NotCaptured(
            "not-a-table",
            f"{type(answer).__name__} came, and the table, a dictionary, was asked for.",
        )
    if all(value is ... for value in answer.values()):
        return Unanswered()
    return Value({str(plain(key)): plain(value) for key, value in answer.items()})


def _capture_program(requirement: Computes, answer: object) -> Piece:
    if not callable(answer):
        return not_a_function(answer)

    def filled_in(*arguments: object) -> object:
        with theirs():
            result = answer(*arguments)
            if result is ...:
                raise NotImplementedError
            if callable(result) and not isinstance(result, jax.Array):
                raise TypeError("it returns a function, and not what that function gives: call it")
        return result

    # To jit what is jitted again would undo its out_shardings.
    traced = answer if hasattr(answer, "lower") else filled_in
    artifacts: list[bytes] = []
    try:
        for arguments in requirement.arguments:
            artifacts.append(programs.export(traced, arguments, requirement.under_mesh))
    except programs.ProgramError as error:
        return NotCaptured(error.diagnosis, str(error))
    except TheirError as raised:
        if _is_stub(raised.error):
            return Unanswered()
        why, meaning = meaning_of(raised.error)
        said = f"Your function raised {their_error(raised.error, answer)}."
        if artifacts:
            arguments = requirement.arguments[len(artifacts)]
            why = "only-the-first"
            said = f"It serves the case in the prompt. Given {described(arguments)}: {said}"
        return NotCaptured(why, f"{said} {meaning}".strip())
    return Program(tuple(artifacts))


def _is_stub(error: BaseException) -> bool:
    """Whether it is what a function that is still to be written raises; JAX's own say more."""
    return isinstance(error, NotImplementedError) and not str(error)
