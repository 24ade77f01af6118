"""Capture functions, and designs, by exporting them as StableHLO.

A design is a pair: shardings of a model's parameters and batch, and a training step, which is
exported for arguments with these shardings.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from autograder import artifacts
from autograder.artifacts import Argument, describe_arguments
from autograder.evidence.data import (
    Design,
    NotCaptured,
    Piece,
    Placements,
    Program,
    Struct,
    Unanswered,
)
from autograder.evidence.placements import PlacementsPlan, Shape, capture_placements
from autograder.evidence.time_limits import DoesNotEndError, call_within_limit, explain_endless_call
from autograder.evidence.unsuitable_answers import describe_type, not_a_function
from autograder.explanations import (
    RAISED,
    copy_name,
    explain_error,
    insert_before_jax_message,
    is_jax_error_without_message,
)
from shardlings.errors import TheirError, theirs
from shardlings.layouts import Layout, LayoutError


class ProgramPlan(Struct, frozen=True, tag="program"):
    """A plan to capture a function as a `Program`.

    Attributes:
        arguments: the lists of arguments to export the function for.
        under_mesh: whether to trace the function in `jax.set_mesh` of the arguments' mesh.
    """

    arguments: tuple[tuple[Argument, ...], ...]
    under_mesh: bool

    def capture(self, name: str, answer: object) -> Piece:
        """Export a function for each list of arguments, or explain why it cannot be exported."""
        if not callable(answer):
            return not_a_function(answer)
        # Jitting a jitted function again would ignore its out_shardings.
        traced = answer if hasattr(answer, "lower") else copy_name(make_traceable(answer), answer)
        return export_answer(
            answer,
            [
                Export(
                    describe_arguments(arguments),
                    tuple(name for name, _ in arguments[0].axes),
                    partial(artifacts.export, traced, arguments, self.under_mesh),
                    partial(artifacts.find_donated_arguments, traced, arguments, self.under_mesh),
                    tuple(argument.dtype for argument in arguments),
                )
                for arguments in self.arguments
            ],
            name,
        )


class GradientPlan(Struct, frozen=True, tag="gradient"):
    """A plan to capture a function's forward and backward pass as a `Program`.

    Attributes:
        arguments: the lists of arguments to export the passes for.
    """

    arguments: tuple[tuple[Argument, ...], ...]

    def capture(self, name: str, answer: object) -> Piece:
        """Export both passes for each list of arguments, or explain why that cannot be done."""
        if not callable(answer):
            return not_a_function(answer)
        traced = copy_name(make_traceable(answer), answer)
        return export_answer(
            answer,
            [
                Export(
                    describe_arguments(arguments),
                    tuple(name for name, _ in arguments[0].axes),
                    partial(artifacts.export_passes, traced, arguments),
                )
                for arguments in self.arguments
            ],
            name,
        )


class Export(NamedTuple):
    """An export of a function, for one list of arguments.

    Attributes:
        arguments: the arguments, in words.
        axes: the names of their mesh's axes.
        export: exports the function, and returns the artifact.
        find_donated: returns the numbers of the arguments that the function donates.
        dtypes: the dtypes of the arguments; empty if they are those of all cases.
    """

    arguments: str
    axes: tuple[str, ...]
    export: Callable[[], bytes]
    find_donated: Callable[[], tuple[int, ...]] = tuple
    dtypes: tuple[str, ...] = ()


def make_traceable(answer: Callable[..., object]) -> Callable[..., object]:
    """Wrap a learner's function for tracing: errors raised in it are the learner's.

    The wrapper also raises if the function is still a stub, or returns a function.
    """

    def wrapper(*arguments: object) -> object:
        with theirs():
            result = answer(*arguments)
            if result is ...:
                raise NotImplementedError
            if callable(result) and not isinstance(result, jax.Array):
                raise ReturnsAFunctionError
        return result

    return wrapper


def export_answer(
    answer: Callable[..., Any], exports: Sequence[Export], name: str = "your function"
) -> Program | NotCaptured | Unanswered:
    """Export a learner's function for several lists of arguments.

    Args:
        answer: the learner's function.
        exports: the exports to make, with the notebook's own case first, if it has one.
        name: the name of the answer.
    """
    exported: list[bytes] = []
    donated: list[tuple[int, ...]] = []
    try:
        for export in exports:
            waits_for = f"JAX has not traced {name} for {export.arguments} yet"
            donated.append(call_within_limit(export.find_donated, waits_for))
            exported.append(call_within_limit(export.export, waits_for))
    except DoesNotEndError as error:
        arguments = exports[len(exported)].arguments
        what = f"While JAX traced {name} for {arguments}, it did not finish"
        return explain_endless_call(error, answer, what)
    except artifacts.ProgramError as error:
        return NotCaptured(error.diagnosis, str(error))
    except TheirError as raised:
        if is_stub(raised.error):
            return Unanswered()
        if isinstance(raised.error, ReturnsAFunctionError):
            return NotCaptured(
                "returns-a-function",
                "Your function returns another function. Call that one with its arguments, and "
                "return its result.",
            )
        failed = exports[len(exported)]
        diagnosis, sentence = explain_error(raised.error, answer, failed.axes)
        if not exported:
            return NotCaptured(diagnosis, sentence)
        only = " only" if len(exported) == 1 else ""
        sentence = (
            f"It compiles for {exports[0].arguments}{only}. For {failed.arguments}, "
            f"{_lower_first_letter(sentence)}"
        )
        if diagnosis in (RAISED, "does-not-reshape"):
            question = (
                "Is a size, a number of devices or a mesh written into it?"
                if failed.dtypes == exports[0].dtypes
                else "The dtypes are not those of the first case: does something work for "
                "those only?"
            )
            sentence = insert_before_jax_message(sentence, question)
        return NotCaptured("only-the-first", sentence)
    return Program(tuple(exported), tuple(donated) if any(donated) else ())


def is_stub(error: BaseException) -> bool:
    """Check whether an error is the wordless `NotImplementedError` of an unwritten function.

    JAX raises such errors too; they do not count.
    """
    if not isinstance(error, NotImplementedError) or str(error):
        return False
    return not is_jax_error_without_message(error)


class ReturnsAFunctionError(TypeError):
    """A learner's function returns a function, where an array is expected."""


def _lower_first_letter(sentence: str) -> str:
    """Lower a sentence's first letter, unless the first word is an acronym such as `JAX`."""
    is_acronym = sentence[:2].isalpha() and sentence[:2].isupper()
    return sentence if is_acronym else f"{sentence[0].lower()}{sentence[1:]}"


class DesignPlan(Struct, frozen=True, tag="design"):
    """A plan to capture shardings of parameters and batch, and a training step, as a `Design`.

    The model's parameters are a list of layers, each a dictionary of arrays. The step takes the
    parameters, a batch and its targets, and returns new parameters.

    Attributes:
        parameters: the names of a layer's arrays.
        layers: the number of layers.
        batch: the name of the sharding of the batch, and of its targets.
        sizes: the sizes to export the step for: each has the shapes, in elements, of a layer's
            arrays and of the batch.
    """

    parameters: tuple[str, ...]
    layers: int
    batch: str
    sizes: tuple[tuple[Shape, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the shardings."""
        return (*self.parameters, self.batch)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The name of the sharding of each array that the step takes."""
        return (*self.parameters * self.layers, self.batch, self.batch)

    def capture(self, name: str, answer: object) -> Piece:
        """Capture a pair of shardings and a step, or explain why it cannot be captured."""
        return capture_design(self, answer)


def capture_design(plan: DesignPlan, answer: object) -> Piece:
    """Capture a pair of shardings and a step, or explain why it cannot be captured."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return NotCaptured(
            "not-a-design",
            f"Got {describe_type(answer)}; expected a pair: a dictionary of shardings, and a "
            f"function.",
        )
    layouts, step = answer
    if layouts is ... or step is ...:
        return Unanswered()
    if not isinstance(layouts, dict):
        return NotCaptured(
            "not-a-dictionary",
            f"The first of the pair is {describe_type(layouts)}; expected a dictionary, with a "
            f"sharding for each of {', '.join(plan.names)}.",
        )
    if not callable(step):
        not_captured = not_a_function(step)
        return NotCaptured(not_captured.why, f"The second of the pair: {not_captured.sentence}")
    not_complete = _check_names(plan, layouts)
    if not_complete is not None:
        return not_complete
    shardings = [layouts[name] for name in plan.names]
    placements = capture_placements(PlacementsPlan(plan.names, plan.sizes[0]), shardings)
    if not isinstance(placements, Placements):
        return placements
    not_exportable = _check_shardings(plan, shardings)
    if not_exportable is not None:
        return not_exportable
    program = _export_step(plan, dict(zip(plan.names, shardings, strict=True)), step)
    return Design(placements, program) if isinstance(program, Program) else program


def _check_names(
    plan: DesignPlan, layouts: Mapping[object, object]
) -> Unanswered | NotCaptured | None:
    """Explain which names are missing from a dictionary of shardings, or are too many."""
    missing, extra = set(plan.names) - set(layouts), set(layouts) - set(plan.names)
    if missing or extra:
        problems = [f"it lacks {_join_names(missing)}"] * bool(missing)
        problems += [f"it has {_join_names(extra)}"] * bool(extra)
        return NotCaptured(
            "other-names",
            f"layouts has to have a sharding for each of {', '.join(plan.names)}, and nothing "
            f"else; {', and '.join(problems)}.",
        )
    unanswered = [name for name in plan.names if layouts[name] is ...]
    if len(unanswered) == len(plan.names):
        return Unanswered()
    if unanswered:
        sentence = f"layouts[{unanswered[0]!r}] has not been filled in yet."
        return NotCaptured("partly-filled-in", sentence)
    return None


def _check_shardings(plan: DesignPlan, shardings: Sequence[Any]) -> NotCaptured | None:
    """Explain why a step cannot be exported for shardings.

    Each has to be a `NamedSharding` on a mesh of devices and to fit every size, and all have to be
    on one mesh.
    """
    for i, (name, sharding) in enumerate(zip(plan.names, shardings, strict=True)):
        is_named = isinstance(sharding, jax.NamedSharding)
        if not is_named or not isinstance(sharding.mesh, jax.sharding.Mesh):
            return NotCaptured(
                "not-by-name",
                f"layouts[{name!r}] is {describe_type(sharding)}; expected a NamedSharding, on a "
                f"mesh that jax.make_mesh gives.",
            )
        for size in plan.sizes:
            try:
                Layout.of(sharding, size[i])
            except LayoutError as error:
                return NotCaptured("does-not-fit", f"layouts[{name!r}]: {error}")
    if len({sharding.mesh for sharding in shardings}) > 1:
        return NotCaptured("several-meshes", "Use one mesh for all of the shardings.")
    return None


def _join_names(names: set[Any]) -> str:
    return " and ".join(sorted(repr(name) for name in names))


def _export_step(
    plan: DesignPlan, shardings: Mapping[str, jax.NamedSharding], step: Callable[..., object]
) -> Program | Unanswered | NotCaptured:
    """Export a step for each size, as a function from arrays to arrays."""
    mesh: Any = shardings[plan.batch].mesh
    flat_step = copy_name(_flatten_step(plan, step), step)
    exports = []
    for size in plan.sizes:
        shapes = dict(zip(plan.names, size, strict=True))
        structs = [
            jax.ShapeDtypeStruct(shapes[name], np.float32, sharding=shardings[name])
            for name in plan.arguments
        ]
        exports.append(
            Export(
                f"a batch of shape {shapes[plan.batch]}",
                tuple(map(str, mesh.axis_names)),
                partial(artifacts.export_laid_out, flat_step, structs, mesh),
            )
        )
    return export_answer(step, exports, "step")


def _flatten_step(plan: DesignPlan, step: Callable[..., object]) -> Callable[..., object]:
    """Wrap a step as a function that takes arrays, and returns the new parameters as arrays."""
    wrapped, count = make_traceable(step), len(plan.parameters)

    def flat_step(*arrays: Any) -> object:
        *parameters, batch, targets = arrays
        layers = [parameters[i : i + count] for i in range(0, len(parameters), count)]
        layers_by_name = [dict(zip(plan.parameters, layer, strict=True)) for layer in layers]
        new_layers = wrapped(layers_by_name, batch, targets)
        return _flatten_layers(plan, new_layers, arrays)

    return flat_step


def _flatten_layers(plan: DesignPlan, result: object, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arrays of a step's result, in order.

    Raises:
        ProgramError: the result does not have the structure and shapes of the parameters.
    """
    layers = result if isinstance(result, list | tuple) else ()
    has_structure = len(layers) == plan.layers and all(
        isinstance(layer, dict) and set(layer) == set(plan.parameters) for layer in layers
    )
    arrays = [layer[name] for layer in layers for name in plan.parameters] if has_structure else []
    shapes: list[Shape] = [array.shape for array in arguments[: len(arrays)]]
    if not has_structure or [getattr(array, "shape", None) for array in arrays] != shapes:
        raise artifacts.ProgramError(
            "not-the-parameters",
            f"The step has to return the new parameters, and nothing else, in the form of those "
            f"that it was given: a list of {plan.layers} dictionaries, each with "
            f"{', '.join(plan.parameters)}.",
        )
    return tuple(arrays)
