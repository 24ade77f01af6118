"""Require a layout: each device must hold the expected block."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from autograder import artifacts
from autograder.artifacts import describe_arguments
from autograder.evidence import (
    Contents,
    MeshGrid,
    Placement,
    PlacementPlan,
    Program,
)
from autograder.judge.comparing_values import format_pair, is_finite, widen
from autograder.judge.diagnoses import (
    CONSTRAINT_MOVES_NOTHING,
    MALFORMED,
    NOTHING_MOVED,
    WRONG_DTYPE,
    WRONG_SHAPE,
    WRONG_VALUES,
)
from autograder.judge.exercise import NOT_AS_PLANNED, Exercise, Order, Requirement, ways_of
from autograder.judge.running_programs import argument_lists_of, run_all
from autograder.judge.verdict import Finding
from autograder.judge.wording import with_arguments
from shardlings.layouts import Layout, LayoutError, Shape, find_difference


@dataclass(frozen=True)
class PlacedLike(Requirement):
    """Each device holds the block that a picture shows, in an array or a function's result.

    For example, `PlacedLike("strips", "0 1 2 3", ((16, 16),))`: four blocks of columns, on devices
    0 to 3.

    The answer is an array or a sharding; if `values` is given, it must be an array. If a `Computes`
    on the same answer exports a function, the function's result is judged.

    Attributes:
        answer: the name of the answer in the notebook.
        picture: the layout, as `Layout.parse` reads it.
        shapes: the array's shape, and further shapes that the same sharding must work for. For a
            function: the shape of the result for each list of arguments.
        values: makes the values that the array must hold, of the first shape.
        elsewhere: if the further lists of arguments are on other meshes, the picture for each.
        mistakes: for each diagnosis, the picture of a layout that it explains, of the first shape.
        stays: whether a function's result has to be on the mesh of its argument.
        drawn: whether the notebook draws the layout as the target, before there is an answer.
    """

    about: ClassVar = "layout"
    order: ClassVar = Order.LAYOUT
    evidence: ClassVar = (Placement, Program)

    answer: str
    picture: str
    shapes: tuple[Shape, ...]
    values: Callable[[], np.ndarray] | None = None
    elsewhere: tuple[str, ...] = ()
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    stays: bool = False
    drawn: bool = True

    def of_program(self, number: int) -> "PlacedLike":
        """Return the requirement on the function's result for one list of arguments."""
        shape = self.shapes[number] if number < len(self.shapes) else self.shapes[0]
        picture = self.elsewhere[number - 1] if self.elsewhere and number else self.picture
        mistakes = {} if self.elsewhere and number else self.mistakes
        return PlacedLike(self.answer, picture, (shape,), mistakes=mistakes)

    def target(self, shape: Shape | None = None) -> Layout:
        """Return the required layout, for the first shape or another."""
        return Layout.parse(self.picture, self.shapes[0]).on(shape or self.shapes[0])

    @property
    def asks(self) -> str:
        """The required layout, in words."""
        return self.target().describe()

    def plan_capture(self, generator: np.random.Generator) -> PlacementPlan:
        """Plan to capture an array, or a sharding for the first shape."""
        return PlacementPlan(self.shapes[0], self.values is not None)

    def pictured(self) -> Layout | None:
        """Return the required layout, unless it would give the answer away."""
        return self.target() if self.drawn else None

    def judge(
        self, piece: Placement | Program, finding: Finding, exercise: Exercise, seed: int
    ) -> Finding:
        """Compare the layout of an array, a sharding or a function's result with the picture."""
        if isinstance(piece, Program):
            finding = _judge_output_layout(self, piece, finding, exercise, seed)
            if finding.made is not None and finding.made.shape not in self.shapes:
                return finding  # a wrong shape of a result is explained for its values
        elif argument_lists_of(exercise, self.answer):
            return finding.problem(*NOT_AS_PLANNED)
        else:
            finding = _judge_placement(self, piece, finding)
        return _recognise_other_answer(finding, exercise)


def _judge_placement(requirement: PlacedLike, piece: Placement, finding: Finding) -> Finding:
    """Judge a placement, for each shape of the requirement."""
    contents = piece.contents
    if contents is None and requirement.values is not None:
        return finding.problem(MALFORMED, "The evidence lacks the array's values.")
    try:
        sharding = rebuild(piece)
        layout = Layout.of(sharding, contents.shape if contents else requirement.shapes[0])
    except LayoutError as error:
        return finding.problem(
            "does-not-fit", str(error), got=f"a sharding with the spec {_spec(piece)}"
        )
    finding = finding.but(got=layout.describe(), made=layout)
    shapes = [layout.shape, *(s for s in requirement.shapes if s != layout.shape)]
    for shape in shapes:
        try:
            layout = Layout.of(sharding, shape)
        except LayoutError as error:
            return finding.problem(
                "does-not-fit",
                f"The same sharding must work for an array of shape {shape} too. {error}",
            )
        shape_finding = judge_layout(requirement, layout, finding)
        if not shape_finding.met:
            return shape_finding
    if contents is not None and requirement.values is not None:
        wrong = _compare_contents(contents, requirement.values())
        if wrong is not None:
            return finding.problem(*wrong)
    return finding.but(met=True)


def judge_layout(
    requirement: PlacedLike, layout: Layout, finding: Finding, case: int = 0
) -> Finding:
    """Compare one layout with the required one, in one of the requirement's cases."""
    finding = finding.but(got=layout.describe(), made=layout)
    if layout.shape not in requirement.shapes:
        shape = requirement.shapes[case if case < len(requirement.shapes) else 0]
        target = requirement.target(shape)
        return finding.but(expected=target.describe()).problem(
            WRONG_SHAPE, f"Got an array of shape {layout.shape}; expected {shape}.", target=target
        )
    target = requirement.target(layout.shape)
    finding = finding.but(expected=target.describe())
    difference = find_difference(target, layout)
    if difference is None:
        return finding.but(met=True)
    pictures = [
        (n, picture) for n, each in requirement.mistakes.items() for picture in ways_of(each)
    ]
    for name, picture in pictures:
        if layout == Layout.parse(picture, requirement.shapes[0]).on(layout.shape):
            return finding.problem(name, difference.sentence, target=target)
    return finding.problem(difference.diagnosis, difference.sentence, target=target)


def _recognise_other_answer(finding: Finding, exercise: Exercise) -> Finding:
    """Say so if a wrong layout is the one that another answer should have.

    A lesson of the exercise on the diagnosis takes precedence.
    """
    has_lesson = {finding.diagnosis, f"{finding.answer}: {finding.diagnosis}"} & set(
        exercise.lessons
    )
    if finding.met or finding.made is None or has_lesson:
        return finding
    for other in exercise.requirements:
        if isinstance(other, PlacedLike) and other.answer != finding.answer:
            # each shape may have a picture of its own
            wanted = map(other.of_program, range(len(other.shapes)))
            if any(
                w.shapes[0] == finding.made.shape and w.target() == finding.made for w in wanted
            ):
                return finding.problem(
                    "of-another-name", f"This is the layout that {other.answer} should have."
                )
    return finding


def rebuild_mesh(placement: Placement) -> jax.sharding.Mesh:
    """Build the mesh that a placement describes, from the devices of this process.

    Raises:
        LayoutError: the mesh is not valid; for example, a device is missing.
    """
    grid = placement.mesh
    devices = {device.id: device for device in jax.devices()}
    missing = sorted(set(grid.ids) - devices.keys())
    if missing:
        raise LayoutError(
            f"The mesh has device {missing[0]}, and this process has {len(devices)}: the first "
            f"cell's emulate_devices(8) must run before anything else."
        )
    is_full = len(set(grid.ids)) == len(grid.ids) == math.prod(grid.shape)
    if not grid.ids or not is_full:
        raise LayoutError("The mesh must have each of its devices exactly once.")
    array, modes = np.array([devices[i] for i in grid.ids]), _modes(grid)
    try:
        return jax.sharding.Mesh(array.reshape(grid.shape), grid.names, axis_types=modes)
    except Exception as error:  # JAX raises errors of many types here
        raise LayoutError(f"The mesh is not valid: {error}") from error


def _modes(grid: MeshGrid) -> tuple[jax.sharding.AxisType, ...] | None:
    """Return the mode of each axis; None, for Auto, if the evidence has no valid ones."""
    kinds = {kind.name: kind for kind in jax.sharding.AxisType}
    if len(grid.modes) != len(grid.names) or not set(grid.modes) <= {"Auto", "Explicit"}:
        return None
    return tuple(kinds[mode] for mode in grid.modes)


def rebuild(placement: Placement) -> jax.NamedSharding:
    """Build the sharding that a placement describes, on the devices of this process.

    Raises:
        LayoutError: the mesh or the spec is not valid; for example, an axis is used twice.
    """
    mesh = rebuild_mesh(placement)
    try:
        return jax.NamedSharding(mesh, jax.P(*placement.spec))
    except Exception as error:  # JAX raises errors of many types here
        raise LayoutError(f"The spec does not fit the mesh: {error}") from error


def _spec(piece: Placement) -> str:
    return f"P({', '.join(map(repr, piece.spec))})"


def _compare_contents(contents: Contents, wanted: np.ndarray) -> tuple[str, str] | None:
    if contents.shape != wanted.shape:
        return (
            WRONG_SHAPE,
            f"Got an array of shape {contents.shape}; expected {wanted.shape}.",
        )
    if contents.dtype != wanted.dtype.name:
        return (
            WRONG_DTYPE,
            f"Got an array of dtype {contents.dtype}; expected {wanted.dtype.name}.",
        )
    if len(contents.data) != wanted.nbytes:
        return MALFORMED, "The evidence's bytes do not fill the shape that it names."
    actual = np.frombuffer(contents.data, wanted.dtype).reshape(wanted.shape)
    if np.array_equal(actual, wanted):
        return None
    place = tuple(int(i) for i in np.argwhere(actual != wanted)[0])
    got, right = format_pair(actual[place], wanted[place], at_least=6)
    return (
        WRONG_VALUES,
        f"Every block is in its place, but {_describe_change(actual, wanted)}the value at {place} "
        f"is {got}; expected {right}.",
    )


def _describe_change(actual: np.ndarray, wanted: np.ndarray) -> str:
    """Say how an array was changed before it was placed, if that is easily recognised."""
    if not actual.any():
        return "the array is all zeros: "
    if wanted.ndim == 2 and actual.shape == wanted.T.shape and np.array_equal(actual, wanted.T):
        return "the array is transposed: "
    for d in range(wanted.ndim):
        if np.array_equal(actual, np.flip(wanted, d)):
            return f"the array is in the opposite order along dimension {d}: "
    if arithmetic := _describe_arithmetic(actual, wanted):
        return arithmetic
    if np.array_equal(np.sort(actual, axis=None), np.sort(wanted, axis=None)):
        return "its values are in another order: "
    return ""


def _describe_arithmetic(actual: np.ndarray, wanted: np.ndarray) -> str:
    """Say what all values were multiplied by, or what was added to all of them."""
    if wanted.dtype == bool or np.iscomplexobj(wanted) or not is_finite(actual):
        return ""
    if jnp.issubdtype(wanted.dtype, jnp.integer):  # unsigned ones have no negative differences
        actual, wanted = widen(actual), widen(wanted)
    with np.errstate(over="ignore"):
        factors = np.unique(actual[wanted != 0] / wanted[wanted != 0])
        steps = np.unique(actual - wanted)
    if factors.size == 1 and np.isfinite(factors[0]) and not actual[wanted == 0].any():
        return f"every value is {factors[0]:.6g} times what it should be: "
    if steps.size == 1 and np.isfinite(steps[0]) and steps[0]:
        return f"every value is {abs(steps[0]):.6g} too {'large' if steps[0] > 0 else 'small'}: "
    return ""


def _judge_output_layout(
    requirement: PlacedLike, piece: Program, finding: Finding, exercise: Exercise, seed: int
) -> Finding:
    """Judge the layout of a program's result, for each list of arguments."""
    first: Finding | None = None
    runs = run_all(exercise, requirement.answer, piece, seed)
    lists = argument_lists_of(exercise, requirement.answer)
    for number, ((_, ran), arguments) in enumerate(zip(runs, lists, strict=True)):
        if len(ran.outputs[0]) != 1:
            return finding.problem(WRONG_SHAPE, "The function has to return one array.")
        layout = Layout.of(ran.outputs[0][0])
        wanted = requirement.of_program(number)
        case_finding = judge_layout(wanted, layout, finding, number)
        argument_layouts = [Layout.of(artifacts.sharding_of(a), a.shape) for a in arguments]
        is_moved = layout not in argument_layouts or ran.report.collectives
        if not (case_finding.met or is_moved or case_finding.diagnosis == WRONG_SHAPE):
            sentence = "The result has the layout of the argument: nothing was moved."
            # on Explicit axes, every operation has one
            if ran.is_constrained and arguments[0].mode == "auto":
                sentence += " There is a sharding constraint, and it changes no layout."
                return case_finding.problem(CONSTRAINT_MOVES_NOTHING, sentence)
            return case_finding.problem(NOTHING_MOVED, sentence)
        if not case_finding.met and first is not None and requirement.elsewhere:
            return case_finding.problem(
                "only-the-first",
                f"The layout is right for {describe_arguments(lists[0])}. "
                f"{with_arguments(arguments, case_finding.difference)}",
            )
        if not case_finding.met:
            return case_finding
        if requirement.stays and ran.other_meshes:
            axes = ", ".join(f"{name}={size}" for name, size in arguments[0].axes)
            return case_finding.but(met=False).problem(
                "another-mesh",
                f"The blocks are where they should be, but the function names a mesh of "
                f"{ran.other_meshes[0]}, and its argument is on a mesh of {axes}.",
            )
        first = first or case_finding
    return first or finding
