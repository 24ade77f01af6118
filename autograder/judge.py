"""The judge: from an exercise and evidence to a verdict.

The same code judges in a student's kernel, for feedback at once, and in a clean process, for a
grade. It believes nothing that evidence says about itself: layouts are rebuilt, programs are
compiled and run here, cases are drawn here.
"""

import math
from functools import lru_cache, singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from autograder import programs
from autograder.difference import difference
from autograder.evidence import (
    Contents,
    Evidence,
    NotCaptured,
    Piece,
    Placement,
    Program,
    Struct,
    Unanswered,
    Value,
)
from autograder.exercise import Argument, Computes, Exercise, PlacedLike, Requirement, Returns
from autograder.layout import Layout, LayoutError

ROUNDING = 16
"""How many units in the last place, scaled by the largest value, a computation may be off."""


class Finding(Struct, frozen=True):
    """What became of one requirement.

    Attributes:
        answer: the name of the answer it speaks of.
        met: whether the requirement holds.
        asked: what was asked, in words.
        came: what came back, in words.
        diagnosis: what is wrong, as a short name; empty where nothing is.
        difference: what is wrong, in words; empty where nothing is.
        target: the layout asked for, where there is one to draw.
        made: the layout that came, where there is one to draw.
    """

    answer: str
    met: bool
    asked: str
    came: str
    diagnosis: str = ""
    difference: str = ""
    target: Layout | None = None
    made: Layout | None = None


class Verdict(Struct, frozen=True):
    """What a judge says of one exercise: a finding for each requirement."""

    exercise: str
    title: str
    findings: tuple[Finding, ...]

    @property
    def score(self) -> float:
        """The share of the requirements that are met, from 0 to 1."""
        return sum(finding.met for finding in self.findings) / len(self.findings)

    @property
    def diagnoses(self) -> tuple[str, ...]:
        """The names of what is wrong, each once."""
        return tuple(dict.fromkeys(f.diagnosis for f in self.findings if f.diagnosis))

    @property
    def state(self) -> str:
        """`right`, `partly`, `wrong` or `unanswered`."""
        if self.diagnoses == ("unanswered",) and not self.score:
            return "unanswered"
        return "right" if self.score == 1 else "partly" if self.score else "wrong"


def judge(exercise: Exercise, evidence: Evidence, seed: int) -> Verdict:
    """Judge evidence against what an exercise asks.

    Args:
        exercise: what was asked.
        evidence: what left the student's kernel; it may be forged.
        seed: what fresh inputs are drawn from. Where the kernel had cases to run, the same that
            it was given.
    """
    if evidence.exercise != exercise.id:
        return no_evidence(exercise, "other-exercise", f"It speaks of {evidence.exercise!r}.")
    return Verdict(
        exercise.id,
        exercise.title,
        tuple(
            _finding(exercise, requirement, evidence.answers.get(requirement.answer), seed)
            for requirement in exercise.requirements
        ),
    )


def no_evidence(exercise: Exercise, diagnosis: str, sentence: str) -> Verdict:
    """The verdict where there is nothing to judge, for a reason that `sentence` gives."""
    return Verdict(
        exercise.id,
        exercise.title,
        tuple(
            Finding(r.answer, False, asked(r), "nothing that can be judged", diagnosis, sentence)
            for r in exercise.requirements
        ),
    )


@singledispatch
def asked(requirement: Requirement) -> str:
    """What a requirement asks, in words."""
    return requirement.asks  # type: ignore[union-attr]


@asked.register
def _(requirement: PlacedLike) -> str:
    kind = "the array" if requirement.values is not None else "a layout"
    return f"{kind} of {requirement.target().describe()}"


def _finding(
    exercise: Exercise, requirement: Requirement, piece: Piece | None, seed: int
) -> Finding:
    """The finding for one requirement, with what the exercise has to say of its diagnosis."""
    target = requirement.target() if isinstance(requirement, PlacedLike) else None
    basis = Finding(requirement.answer, False, asked(requirement), "nothing", target=target)
    match piece:
        case Unanswered():
            found = _problem(
                basis, "unanswered", f"{requirement.answer} is still as it was handed out."
            )
        case NotCaptured(why, sentence):
            found = _problem(
                basis, why or "not-captured", sentence, came="an answer of another kind"
            )
        case Placement() | Program() | Value():
            found = _judge(requirement, piece, basis, exercise, seed)
        case None:
            found = _problem(basis, "malformed", "The evidence holds no such answer.")
    lesson = exercise.diagnoses.get(found.diagnosis, "")
    return _replace(found, difference=f"{found.difference} {lesson}".strip())


def _problem(basis: Finding, diagnosis: str, sentence: str, **changes: Any) -> Finding:
    return _replace(basis, diagnosis=diagnosis, difference=sentence, **changes)


def _replace(finding: Finding, **changes: Any) -> Finding:
    return msgspec.structs.replace(finding, **changes)


@singledispatch
def _judge(
    requirement: object, piece: Piece, basis: Finding, exercise: Exercise, seed: int
) -> Finding:  # pragma: no cover
    raise TypeError(f"no judgement is defined for {type(requirement).__name__}")


# --- placed like ---------------------------------------------------------------------------------


@_judge.register
def _(
    requirement: PlacedLike, piece: Piece, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    if isinstance(piece, Placement):
        return _judge_placement(requirement, piece, basis)
    try:
        runs = _runs(exercise, requirement.answer, piece, seed)
    except programs.ProgramError as error:
        return _problem(basis, error.diagnosis, str(error))
    for _, outputs in runs:
        if len(outputs) != 1:
            return _problem(basis, "shape", "One array was to be returned.")
        found = _placed(requirement, Layout.of(outputs[0]), basis)
        if not found.met:
            return found
    return found


def _judge_placement(requirement: PlacedLike, piece: Placement, basis: Finding) -> Finding:
    contents = piece.contents
    if contents is None and requirement.values is not None:
        return _problem(basis, "malformed", "The evidence lacks the array's values.")
    try:
        sharding = rebuild(piece)
        made = Layout.of(sharding, contents.shape if contents else requirement.shapes[0])
    except LayoutError as error:
        return _problem(
            basis, "does-not-fit", str(error), came=f"a sharding with the spec {_spec(piece)}"
        )
    basis = _replace(basis, came=made.describe(), made=made)
    shapes = [made.shape, *(s for s in requirement.shapes if s != made.shape)]
    for shape in shapes:
        try:
            made = Layout.of(sharding, shape)
        except LayoutError as error:
            return _problem(
                basis, "does-not-fit", f"The same sharding must serve shape {shape} too. {error}"
            )
        found = _placed(requirement, made, basis)
        if not found.met:
            return found
    if contents is not None and requirement.values is not None:
        wrong = _compare_contents(contents, requirement.values())
        if wrong is not None:
            return _problem(basis, *wrong)
    return _replace(basis, met=True)


def _placed(requirement: PlacedLike, made: Layout, basis: Finding) -> Finding:
    """The finding for one layout that came."""
    came = _replace(basis, came=made.describe(), made=made)
    if made.shape not in requirement.shapes:
        return _problem(
            came,
            "shape",
            f"The array's shape is {made.shape}, and {requirement.shapes[0]} was asked for.",
        )
    target = requirement.target(made.shape)
    found = difference(target, made)
    if found is None:
        return _replace(came, met=True)
    return _problem(came, found.diagnosis, found.sentence, target=target)


def rebuild(placement: Placement) -> jax.NamedSharding:
    """The sharding that a placement describes, on the devices of this process.

    Raises:
        LayoutError: it is none: devices missing or twice, axes unknown or used twice.
    """
    grid = placement.mesh
    devices = {device.id: device for device in jax.devices()}
    missing = sorted(set(grid.ids) - devices.keys())
    if missing:
        raise LayoutError(
            f"The mesh has device {missing[0]}, and this process has {len(devices)}: the first "
            f"cell's emulate_devices(8) must run before anything else."
        )
    if len(set(grid.ids)) < len(grid.ids) or len(grid.ids) != math.prod(grid.shape):
        raise LayoutError("The mesh's devices do not fill its grid once each.")
    array = np.array([devices[i] for i in grid.ids]).reshape(grid.shape)
    try:
        return jax.NamedSharding(jax.sharding.Mesh(array, grid.names), jax.P(*placement.spec))
    except Exception as error:  # JAX has an error type for each way in which they can differ
        raise LayoutError(f"The mesh and the spec do not go together: {error}") from error


def _spec(piece: Placement) -> str:
    return f"P({', '.join(map(repr, piece.spec))})"


def _compare_contents(contents: Contents, wanted: np.ndarray) -> tuple[str, str] | None:
    if contents.dtype != wanted.dtype.name:
        return (
            "dtype",
            f"The array's dtype is {contents.dtype}, and {wanted.dtype.name} was asked for.",
        )
    if len(contents.data) != wanted.nbytes or contents.shape != wanted.shape:
        return "malformed", "The evidence's bytes do not fill the shape that it names."
    came = np.frombuffer(contents.data, wanted.dtype).reshape(wanted.shape)
    if np.array_equal(came, wanted):
        return None
    place = tuple(int(i) for i in np.argwhere(came != wanted)[0])
    return (
        "values",
        f"Every block is in its place, but the numbers changed: at {place} there is "
        f"{came[place]}, and {wanted[place]} was to stay. Laying an array out computes nothing.",
    )


# --- returns -------------------------------------------------------------------------------------


@_judge.register
def _(requirement: Returns, piece: Piece, basis: Finding, exercise: Exercise, seed: int) -> Finding:
    cases = requirement.cases(exercise.generator(seed))
    results = piece.value if isinstance(piece, Value) else None
    if not isinstance(results, list) or len(results) != len(cases):
        return _problem(basis, "malformed", "A result for each case was needed.")
    for case, result in zip(cases, results, strict=True):
        if not isinstance(result, dict):
            return _problem(basis, "malformed", "A result for each case was needed.")
        call = f"{requirement.answer}({', '.join(map(repr, case))})"
        if "error" in result:
            return _problem(
                basis, "raised", f"{call} raised it.", came=f"an error of yours: {result['error']}"
            )
        wanted = requirement.reference(*case)
        if not _same(result.get("came"), wanted):
            return _problem(
                basis,
                _which_mistake(requirement, cases, results),
                f"This is the first that is wrong of {len(cases)} cases, drawn afresh each time.",
                asked=f"{basis.asked} Here: {call} is {_shown(wanted)}",
                came=_shown(result.get("came")),
            )
    return _replace(basis, met=True, came=f"the right result in all of {len(cases)} cases")


def _which_mistake(requirement: Returns, cases: Any, results: Any) -> str:
    """The known mistake that explains every result, or `other-result`."""
    for diagnosis, mistaken in requirement.mistakes.items():
        if all(
            _same(result.get("came"), mistaken(*case))
            for case, result in zip(cases, results, strict=True)
        ):
            return diagnosis
    return "other-result"


def _same(came: Any, wanted: Any) -> bool:
    """Equal, as plain data: numbers by value, tuples and lists alike."""
    if isinstance(wanted, tuple | list):
        return (
            isinstance(came, tuple | list)
            and len(came) == len(wanted)
            and all(_same(c, w) for c, w in zip(came, wanted, strict=True))
        )
    if isinstance(wanted, float) and isinstance(came, int | float):
        return math.isclose(came, wanted, rel_tol=1e-6, abs_tol=1e-12)
    return type(came) is type(wanted) and bool(came == wanted)


def _shown(value: Any) -> str:
    text = repr(tuple(value)) if isinstance(value, list) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


# --- computes ------------------------------------------------------------------------------------


@_judge.register
def _(
    requirement: Computes, piece: Piece, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    try:
        runs = _runs(exercise, requirement.answer, piece, seed)
    except programs.ProgramError as error:
        return _problem(basis, error.diagnosis, str(error), came="a program that cannot be judged")
    for inputs, outputs in runs:
        wrong = _compare_outputs(outputs, jax.tree.leaves(requirement.reference(*inputs)))
        if wrong is not None:
            came = ", ".join(map(_typed, outputs)) or "nothing"
            return _problem(basis, *wrong, came=came)
    return _replace(basis, met=True, came="the right values on every input tried")


Run = tuple[list[np.ndarray], list[jax.Array]]


def _runs(exercise: Exercise, answer: str, piece: Piece, seed: int) -> list[Run]:
    """What each program that was handed in made of fresh inputs: pairs of inputs and outputs."""
    asked_for = [r for r in exercise.requirements if isinstance(r, Computes) and r.answer == answer]
    arguments = asked_for[0].arguments if asked_for else ()
    artifacts = piece.artifacts if isinstance(piece, Program) else ()
    if not artifacts or len(artifacts) != len(arguments):
        raise programs.ProgramError(
            "malformed", "A program for each list of arguments was needed, and something else came."
        )
    return [_run(*pair, seed) for pair in zip(artifacts, arguments, strict=True)]


@lru_cache(maxsize=16)  # several requirements look at the same run
def _run(artifact: bytes, arguments: tuple[Argument, ...], seed: int) -> Run:
    generator = np.random.default_rng(seed)
    inputs = [generator.standard_normal(a.shape).astype(a.dtype) for a in arguments]
    return inputs, programs.run(artifact, arguments, inputs)


def _compare_outputs(outputs: list[jax.Array], wanted: list[Any]) -> tuple[str, str] | None:
    if [o.shape for o in outputs] != [w.shape for w in wanted]:
        return "shape", f"{', '.join(map(_typed, wanted))} was asked for."
    for output, value in zip(outputs, wanted, strict=True):
        if jnp.issubdtype(output.dtype, jnp.inexact) != jnp.issubdtype(value.dtype, jnp.inexact):
            return "dtype", f"The dtype is {output.dtype.name}; {value.dtype.name} was asked for."
        came = np.asarray(output)
        inexact = jnp.issubdtype(came.dtype, jnp.inexact)
        scale = float(np.max(np.abs(value), initial=1)) * math.sqrt(max(value.size, 1))
        eps = float(jnp.finfo(came.dtype).eps) if inexact else 0.0  # type: ignore[no-untyped-call]
        allowed = ROUNDING * eps * scale
        off = float(np.max(np.abs(came.astype(value.dtype) - value), initial=0))
        if not off <= allowed:  # so that NaN is off
            return "values", f"On fresh inputs the values are off by up to {off:.3g}."
    return None


def _typed(array: Any) -> str:
    return f"{array.dtype.name}[{','.join(map(str, array.shape))}]"
