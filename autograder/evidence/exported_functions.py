"""Export a learner's function, or say why it cannot be exported."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from autograder import programs
from autograder.errors import (
    TheirError,
    before_jaxs_words,
    theirs,
    under_its_name,
    what_it_raised,
    wordless_of_jax,
)
from autograder.evidence.data import (
    Design,
    NotCaptured,
    Piece,
    Placements,
    Program,
    Struct,
    Unanswered,
)
from autograder.evidence.placements import PlacementsPlan, Shape, placements
from autograder.evidence.time_limits import DoesNotEndError, does_not_end, limited
from autograder.evidence.unsuitable_answers import a_type, not_a_function
from autograder.layouts import Layout, LayoutError
from autograder.programs import Argument, described


class ProgramPlan(Struct, frozen=True, tag="program"):
    """A function becomes a `Program`.

    Attributes:
        arguments: the lists of arguments that it is exported for, once for each.
        under_mesh: whether the arguments' mesh is the current one while it is traced.
    """

    arguments: tuple[tuple[Argument, ...], ...]
    under_mesh: bool

    def capture(self, name: str, answer: object) -> Piece:
        """A function, exported for each list of arguments; or why it cannot be."""
        if not callable(answer):
            return not_a_function(answer)
        # To jit what is jitted again would undo its out_shardings.
        traced = answer if hasattr(answer, "lower") else under_its_name(calling(answer), answer)
        return exported(
            answer,
            [
                Export(
                    described(arguments),
                    tuple(name for name, _ in arguments[0].axes),
                    partial(programs.export, traced, arguments, self.under_mesh),
                )
                for arguments in self.arguments
            ],
            name,
        )


class Export(NamedTuple):
    """One thing that a function is exported for.

    Attributes:
        given: the arguments, in words.
        axes: the names of the axes of the mesh that they are on.
        export: does it.
    """

    given: str
    axes: tuple[str, ...]
    export: Callable[[], bytes]


def calling(answer: Callable[..., object]) -> Callable[..., object]:
    """What calls a learner's function where JAX traces it, and minds what comes back."""

    def called(*arguments: object) -> object:
        with theirs():
            result = answer(*arguments)
            if result is ...:
                raise NotImplementedError
            if callable(result) and not isinstance(result, jax.Array):
                raise ReturnsAFunctionError
        return result

    return called


def exported(
    answer: Callable[..., Any], exports: Sequence[Export], name: str = "your function"
) -> Program | NotCaptured | Unanswered:
    """A function as evidence.

    Args:
        answer: the learner's function.
        exports: what it is exported for, the case that the notebook shows first.
        name: the name of the answer.
    """
    artifacts: list[bytes] = []
    try:
        for each in exports:
            waits_for = f"JAX has not traced {name} for {each.given} yet"
            artifacts.append(limited(each.export, waits_for))
    except DoesNotEndError as error:
        given = exports[len(artifacts)].given
        what = f"While JAX traced {name} for {given}, it did not come to an end"
        return does_not_end(error, answer, what)
    except programs.ProgramError as error:
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
        failed = exports[len(artifacts)]
        why, said = what_it_raised(raised.error, answer, failed.axes)
        why_it_raised = why
        if artifacts:
            why = "only-the-first"
            given = f"For {failed.given}, {_going_on(said)}"
            said = f"It compiles for the notebook's own case only. {given}"
            if why_it_raised in ("raised", "does-not-reshape"):
                said = before_jaxs_words(
                    said, "Is a size, a number of devices or a mesh written into it?"
                )
        return NotCaptured(why, said)
    return Program(tuple(artifacts))


def is_stub(error: BaseException) -> bool:
    """Whether it is what a function that is still to be written raises, and not JAX's own."""
    if not isinstance(error, NotImplementedError) or str(error):
        return False
    return not wordless_of_jax(error)


class ReturnsAFunctionError(TypeError):
    """What a learner's function returns is to be called first."""


def _going_on(sentence: str) -> str:
    """A sentence that goes on where another word has begun it; `JAX` stays what it is."""
    begins_a_name = sentence[:2].isalpha() and sentence[:2].isupper()
    return sentence if begins_a_name else f"{sentence[0].lower()}{sentence[1:]}"


class DesignPlan(Struct, frozen=True, tag="design"):
    """Layouts of a model's parameters and batch, and a training step, become a `Design`.

    The model's parameters are a list of layers, each a dictionary of arrays; the step takes them,
    a batch and what is wanted for it, and returns new parameters.

    Attributes:
        parameters: the names of a layer's arrays.
        layers: how many layers there are.
        batch: the name of the layout of the batch, and of what is wanted for it.
        sizes: the sizes to export the step for: for each, the shapes of a layer's arrays, in
            elements, and that of the batch.
    """

    parameters: tuple[str, ...]
    layers: int
    batch: str
    sizes: tuple[tuple[Shape, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What is to be laid out, by name."""
        return (*self.parameters, self.batch)

    @property
    def arguments(self) -> tuple[str, ...]:
        """For each array that the step is given, the name of its layout."""
        return (*self.parameters * self.layers, self.batch, self.batch)

    def capture(self, name: str, answer: object) -> Piece:
        """A pair of layouts and a step as evidence; or why it will not do."""
        return design(self, answer)


def design(plan: DesignPlan, answer: object) -> Piece:
    """A pair of layouts and a step as evidence; or why it will not do."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return NotCaptured(
            "not-a-design",
            f"Got {a_type(answer)}; expected a pair: a dictionary of shardings, and a function.",
        )
    layouts, step = answer
    if layouts is ... or step is ...:
        return Unanswered()
    if not isinstance(layouts, dict):
        return NotCaptured(
            "not-a-dictionary",
            f"The first of the pair is {a_type(layouts)}; expected a dictionary, with a sharding "
            f"for each of {', '.join(plan.names)}.",
        )
    if not callable(step):
        found = not_a_function(step)
        return NotCaptured(found.why, f"The second of the pair: {found.sentence}")
    refused = _refused(plan, layouts)
    if refused is not None:
        return refused
    parts = [layouts[name] for name in plan.names]
    placed = placements(PlacementsPlan(plan.names, plan.sizes[0]), parts)
    if not isinstance(placed, Placements):
        return placed
    misfit = _misfit(plan, parts)
    if misfit is not None:
        return misfit
    program = _program(plan, dict(zip(plan.names, parts, strict=True)), step)
    return Design(placed, program) if isinstance(program, Program) else program


def _refused(plan: DesignPlan, layouts: Mapping[object, object]) -> Unanswered | NotCaptured | None:
    """What is to be said of the names in a dictionary of layouts, if anything is."""
    lacks, more = set(plan.names) - set(layouts), set(layouts) - set(plan.names)
    if lacks or more:
        said = [f"it lacks {_listed(lacks)}"] * bool(lacks)
        said += [f"it has {_listed(more)}"] * bool(more)
        return NotCaptured(
            "other-names",
            f"layouts has to have a sharding for each of {', '.join(plan.names)}, and nothing "
            f"else; {', and '.join(said)}.",
        )
    left = [name for name in plan.names if layouts[name] is ...]
    if len(left) == len(plan.names):
        return Unanswered()
    if left:
        sentence = f"layouts[{left[0]!r}] has not been filled in yet."
        return NotCaptured("partly-filled-in", sentence)
    return None


def _misfit(plan: DesignPlan, parts: Sequence[Any]) -> NotCaptured | None:
    """Why a step cannot be exported for layouts: they do not fit every size, or are on two meshes.

    It is for shardings by name, on a mesh of devices.
    """
    for number, (name, part) in enumerate(zip(plan.names, parts, strict=True)):
        if not isinstance(part, jax.NamedSharding) or not isinstance(part.mesh, jax.sharding.Mesh):
            return NotCaptured(
                "not-by-name",
                f"layouts[{name!r}] is {a_type(part)}; expected a NamedSharding, on a mesh that "
                f"jax.make_mesh gives.",
            )
        for size in plan.sizes:
            try:
                Layout.of(part, size[number])
            except LayoutError as error:
                return NotCaptured("does-not-fit", f"layouts[{name!r}]: {error}")
    if len({part.mesh for part in parts}) > 1:
        return NotCaptured("several-meshes", "Use one mesh for all of the shardings.")
    return None


def _listed(names: set[Any]) -> str:
    return " and ".join(sorted(repr(name) for name in names))


def _program(
    plan: DesignPlan, shardings: Mapping[str, jax.NamedSharding], step: Callable[..., object]
) -> Program | Unanswered | NotCaptured:
    """The step, exported for each size, with all that it takes and gives one after the other."""
    mesh: Any = shardings[plan.batch].mesh
    flat = under_its_name(_of_arrays(plan, step), step)
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
                partial(programs.export_laid_out, flat, structs, mesh),
            )
        )
    return exported(step, exports, "step")


def _of_arrays(plan: DesignPlan, step: Callable[..., object]) -> Callable[..., object]:
    """A step as a function of arrays, which gives arrays: the new parameters in their order."""
    called, count = calling(step), len(plan.parameters)

    def of_arrays(*arrays: Any) -> object:
        *parameters, batch, wanted = arrays
        layers = [parameters[i : i + count] for i in range(0, len(parameters), count)]
        given = [dict(zip(plan.parameters, layer, strict=True)) for layer in layers]
        made = called(given, batch, wanted)
        return _in_order(plan, made, arrays)

    return of_arrays


def _in_order(plan: DesignPlan, made: object, given: Sequence[Any]) -> tuple[Any, ...]:
    """What a step gave, as arrays.

    Raises:
        ProgramError: it is not new parameters, as the ones that it was given.
    """
    layers = made if isinstance(made, list | tuple) else ()
    fits = len(layers) == plan.layers and all(
        isinstance(layer, dict) and set(layer) == set(plan.parameters) for layer in layers
    )
    arrays = [layer[name] for layer in layers for name in plan.parameters] if fits else []
    shapes: list[Shape] = [array.shape for array in given[: len(arrays)]]
    if not fits or [getattr(array, "shape", None) for array in arrays] != shapes:
        raise programs.ProgramError(
            "not-the-parameters",
            f"The step has to return the new parameters, and nothing else, in the form of those "
            f"that it was given: a list of {plan.layers} dictionaries, each with "
            f"{', '.join(plan.parameters)}.",
        )
    return tuple(arrays)
