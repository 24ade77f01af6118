"""Ask for a function that several processes call together, and judge what came of it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import jax
import numpy as np

from autograder.evidence import (
    Contents,
    OwnArray,
    ProcessesPlan,
    ProcessResult,
    Run,
    Runs,
    Shard,
    Shards,
    Value,
)
from autograder.judge.comparing_values import Wrong
from autograder.judge.exercise import Exercise, Requirement
from autograder.judge.explaining_values import describe_factor
from autograder.judge.requirements_on_results import AnyOf, ways_of
from autograder.judge.verdict import Finding
from autograder.layouts import Layout, Shape, difference
from autograder.processes import ProcessCase, Spec


@dataclass(frozen=True)
class Expected:
    """What a function is to return, or one part of it.

    Attributes:
        values: of the whole array, or of a number.
        spec: how the array is to be laid out over all devices, on the case's mesh; None where each
            process is to have all of the values for itself.
        host: whether it is to have them in the host's memory, as NumPy's array.
    """

    values: np.ndarray
    spec: Spec | None = None
    host: bool = False


@dataclass(frozen=True)
class OnProcesses(Requirement):
    """A function does what is asked when several processes call it together.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what the function must return or write, in a sentence.
        cases: draws the calls from a random generator: numbers of processes, meshes, arguments.
        reference: what it is to return in a case, part for part; the same in every process.
        files: where it is to write instead, the files that all processes are to write together,
            each once, by name.
        mistakes: for each diagnosis, what a function returns that makes that mistake and no other.
    """

    about: ClassVar = "processes"
    evidence: ClassVar = (Runs,)

    answer: str
    asks: str
    cases: Callable[[np.random.Generator], Sequence[ProcessCase]]
    reference: Callable[[ProcessCase], Sequence[Expected]] = lambda _: ()
    files: Callable[[ProcessCase], Mapping[str, np.ndarray]] | None = None
    mistakes: Mapping[str, Callable[[ProcessCase], Sequence[np.ndarray]] | AnyOf] = field(
        default_factory=dict
    )

    def plan_capture(self, generator: np.random.Generator) -> ProcessesPlan:
        """What the function returns in each case, in each process."""
        return ProcessesPlan(tuple(self.cases(generator)))

    def judge(self, piece: Runs, basis: Finding, exercise: Exercise, seed: int) -> Finding:
        """The finding for what came of the cases drawn from `seed`."""
        return _judge_runs(self, piece, basis, exercise, seed)


def _judge_runs(
    requirement: OnProcesses, piece: Runs, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for what came of the cases drawn from `seed`."""
    cases = list(requirement.cases(exercise.generator(seed)))
    right: list[ProcessCase] = []
    for case, run in zip(cases, piece.runs, strict=False):
        basis = basis.but(came="", made=None, target=None)
        try:
            found = _judge_run(requirement, case, run, basis)
        except MalformedRunsError as error:
            return basis.problem("malformed", f"The submission does not fit this case: {error}.")
        if not found.met:
            return _with_the_case(found, case, right)
        right.append(case)
    if len(right) < len(cases):
        return basis.problem("malformed", "The submission does not have a run for each case.")
    counts = " and ".join(f"{case}" for case in cases[-1:])
    return found.but(came=f"the right result in all of {len(cases)} runs, the last by {counts}")


def _with_the_case(found: Finding, case: ProcessCase, right: Sequence[ProcessCase]) -> Finding:
    """A finding with the case that it is of, and whether fewer processes had it right."""
    said = f"With {case}: {found.difference}" if found.difference else ""
    fewer = [c for c in right if c.processes < case.processes]
    if found.diagnosis == "values" and fewer and all(c.processes == 1 for c in fewer):
        return found.but(
            diagnosis="only-on-one-process",
            difference=f"With one process, the result is right. {said}",
        )
    return found.but(difference=said)


def _judge_run(requirement: OnProcesses, case: ProcessCase, run: Run, basis: Finding) -> Finding:
    if len(run.results) != case.processes:
        raise MalformedRunsError("it has another number of processes")
    failed = [(i, r) for i, r in enumerate(run.results) if r.why]
    if failed:  # what was stopped for another's error is no finding
        number, result = next(((i, r) for i, r in failed if r.why != "stopped"), failed[0])
        raised = result.why not in ("stopped", "waits", "died", "too-slow", "too-large")
        where = f"In process {number}: " if raised and case.processes > 1 else ""
        return basis.problem(result.why, f"{where}{result.sentence}")
    if requirement.files is not None:
        wrong = _wrong_files(run, requirement.files(case))
        return basis.problem(*wrong) if wrong else basis.but(met=True)
    expected = requirement.reference(case)
    for result in run.results:
        if len(result.parts) != len(expected):
            return basis.problem(
                "number-of-results",
                f"The function returned {_count_results(len(result.parts))}; expected "
                f"{_count_results(len(expected))}.",
            )
    found = basis
    for place, wanted in enumerate(expected):
        found = _judge_part(case, [r.parts[place] for r in run.results], wanted, basis)
        if not found.met:
            named = _known_mistake(requirement, case, run.results)
            said = found.difference if found.diagnosis == "shape" else ""
            return found.problem(named, said) if named else found
    return found


def _count_results(number: int) -> str:
    return "one result" if number == 1 else f"{number} results"


def _judge_part(
    case: ProcessCase,
    parts: Sequence[Shards | OwnArray | Value],
    wanted: Expected,
    basis: Finding,
) -> Finding:
    """The finding for one of the things that a function is to return: what each process has."""
    look_at(case, parts)
    for number, part in enumerate(parts):
        if part == Value(None):
            return basis.problem("none", f"Process {number} returned None. Every process calls it.")
        if wanted.host and not isinstance(part, OwnArray):
            came = "a jax.Array" if isinstance(part, Shards) else part_in_words(part)
            why = "on-devices" if isinstance(part, Shards) else "not-numpy"
            return basis.problem(
                why, f"Process {number} returned {came}; expected a NumPy array, on the host."
            )
        dtype = _dtype(part)
        if dtype and (wanted.host or wanted.spec is not None) and dtype != wanted.values.dtype:
            return basis.problem(
                "dtype", f"The array has dtype {dtype}; expected {wanted.values.dtype}."
            )
    if wanted.spec is None:
        return _judge_whole(wanted.values, [whole(part) for part in parts], basis)
    for number, part in enumerate(parts):
        if not isinstance(part, Shards):
            came = part_in_words(part)
            return basis.problem(
                "own-array",
                f"Process {number} returned {came}, which no other process knows of; expected one "
                f"jax.Array of shape {wanted.values.shape} over the devices of all processes.",
            )
    shards = [part for part in parts if isinstance(part, Shards)]
    if any(part.shape != wanted.values.shape for part in shards):
        return basis.problem(
            "shape",
            f"The array has shape {shards[0].shape}; expected {wanted.values.shape}, the global "
            f"shape.",
        )
    target = Layout.of(jax.NamedSharding(case.mesh(), jax.P(*wanted.spec)), wanted.values.shape)
    made = joint_layout(shards)
    given = basis
    basis = basis.but(asked=target.describe(), came=made.describe(), made=made, target=target)
    other = difference(target, made)
    if other is not None:
        return basis.problem(other.diagnosis, other.sentence)
    blocks = [
        (
            array_of(shard.contents),
            wanted.values[tuple(slice(start, stop) for start, stop in shard.block)],
        )
        for part in shards
        for shard in part.shards
    ]
    if any(how_far_off(came, right) for came, right in blocks):
        differ = how_values_differ(*zip(*blocks, strict=True))
        if differ:
            return given.problem(differ[0], f"The layout is right. {differ[1]}")
    for part in shards:
        for shard in part.shards:
            block = tuple(slice(start, stop) for start, stop in shard.block)
            values = array_of(shard.contents)
            off = how_far_off(values, wanted.values[block])
            start = rows_like(values, wanted.values, shard.block) if off else None
            if start is not None:
                return given.problem(
                    "other-rows",
                    f"The layout is right, but device {shard.device} holds the numbers of "
                    f"{_rows(start, len(values))} of the global array; expected "
                    f"{_rows(shard.block[0][0], len(values))}.",
                )
            if off:
                said = f"The layout is right. On device {shard.device}, {off}"
                named = how_rows_differ(values, wanted.values, block)
                return given.problem(named or "values", said)
    return basis.but(met=True)


def _rows(start: int, count: int) -> str:
    """Some rows in words: `rows 4 to 7`; the last is counted in."""
    return f"row {start}" if count == 1 else f"rows {start} to {start + count - 1}"


def _judge_whole(wanted: np.ndarray, came: Sequence[np.ndarray | str], basis: Finding) -> Finding:
    """The finding where each process is to have all of the values."""
    for number, array in enumerate(came):
        if isinstance(array, str):
            return basis.problem("not-whole", f"Process {number} returned {array}.")
        if array.shape != wanted.shape:
            return basis.problem(
                "shape", f"Process {number} has shape {array.shape}; expected {wanted.shape}."
            )
    arrays = [array for array in came if not isinstance(array, str)]
    for number, array in enumerate(arrays[1:], 1):
        if not np.allclose(array, arrays[0], rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            return basis.problem(
                "differs-between-processes",
                f"Process 0 and process {number} returned different values; expected the same ones "
                f"in every process.",
            )
    off = how_far_off(arrays[0], wanted)
    if off and wanted.ndim > 1:
        differ = how_values_differ(arrays, [wanted] * len(arrays))
        if differ:
            return basis.problem(*differ)
        named = how_rows_differ(arrays[0], wanted, [slice(None)] * wanted.ndim)
        if named:
            return basis.problem(named, off[:1].upper() + off[1:])
    return basis.problem("values", off[:1].upper() + off[1:]) if off else basis.but(met=True)


def _known_mistake(
    requirement: OnProcesses, case: ProcessCase, results: Sequence[ProcessResult]
) -> str:
    """The diagnosis whose mistake explains all that came, if there is one."""
    came = [
        all_that_came([r.parts[place] for r in results]) for place in range(len(results[0].parts))
    ]
    right = [each.values for each in requirement.reference(case)]
    ways = [(name, way) for name, each in requirement.mistakes.items() for way in ways_of(each)]
    for diagnosis, mistaken in ways:
        would = [np.asarray(array) for array in mistaken(case)]
        if not any(map(how_far_off, would, right)):
            continue  # this case does not show that mistake, so it is another
        if len(would) == len(came) and all(
            arrays and not any(how_far_off(array, other) for array in arrays)
            for arrays, other in zip(came, would, strict=True)
        ):
            return diagnosis
    return ""


def _wrong_files(run: Run, wanted: Mapping[str, np.ndarray]) -> Wrong | None:
    """What is wrong with the files that processes wrote, if anything is."""
    names = [file.name for file in run.files]
    twice = sorted({name for name in names if names.count(name) > 1})
    strange = sorted(set(names) - set(wanted))
    missing = [name for name in wanted if name not in names]
    if not names:
        return "no-files", "No process wrote a file."
    spans = [name for name in strange if _several_blocks(name, wanted)]
    if spans:
        return "several-blocks", (
            f"{spans[0]} has the rows of several blocks; expected a file for each block, such as "
            f"{next(iter(wanted))}."
        )
    nones = [name for name in strange if "None" in name]
    if nones:
        return "none-in-a-name", (
            f"A file is called {nones[0]!r}; expected names such as {next(iter(wanted))!r}."
        )
    if strange:
        return "other-files", (
            f"A file is called {strange[0]!r}; expected names such as {next(iter(wanted))!r}, for "
            f"the rows from the first number up to the second."
        )
    if twice and any(len({f.contents for f in run.files if f.name == name}) > 1 for name in twice):
        return "numbered-from-zero", (
            f"Several processes wrote {twice[0]}, with different rows in it. The name has "
            f"the rows' numbers in the global array, which are in shard.index[0]."
        )
    if twice:
        return "written-twice", (
            f"{len(twice)} of {len(wanted)} files were written by more than one process: "
            f"{', '.join(twice[:4])}{' …' * (len(twice) > 4)}."
        )
    if missing:
        return "files-missing", (
            f"{len(missing)} of {len(wanted)} files were written by no process: "
            f"{', '.join(missing[:4])}{' …' * (len(missing) > 4)}."
        )
    for file in run.files:
        if file.contents is None:
            return "unreadable", f"{file.name}: {file.sentence}"
        if file.contents.dtype != wanted[file.name].dtype:
            came = file.contents.dtype
            return "dtype", f"{file.name} has dtype {came}; expected {wanted[file.name].dtype}."
        off = how_far_off(array_of(file.contents), wanted[file.name])
        if off:
            return "values", f"In {file.name}, {off}"
    return None


def _several_blocks(name: str, wanted: Mapping[str, np.ndarray]) -> bool:
    """Whether a file's name is from one block's first row to the last of a later one."""
    first, _, last = name.partition("-")
    starts = [block.partition("-")[0] for block in wanted]
    ends = [block.partition("-")[2] for block in wanted]
    return first in starts and last in ends


def _dtype(part: Shards | OwnArray | Value) -> str:
    """The dtype of an array, by its name; nothing where there is none."""
    match part:
        case Shards(_, dtype, _):
            return dtype
        case OwnArray(contents):
            return contents.dtype
    return ""


MAX_NUMBERS: Final = 1 << 16
"""In one array; those of the exercises have less."""

MAX_DIMENSIONS: Final = 4
TOLERANCE: Final = 1e-5
"""Relative to the largest value."""


class MalformedRunsError(Exception):
    """The evidence is none that `capture` makes."""


def whole(part: Shards | OwnArray | Value) -> np.ndarray | str:
    """An array that one process has all of; or what it has instead, in words."""
    match part:
        case OwnArray(contents):
            return array_of(contents)
        case Value(int() | float() as value):
            return np.asarray(float(value))
        case Value(list() as value):
            try:
                return np.asarray(value, np.float64)
            except (ValueError, TypeError, OverflowError):
                return "a list that is not an array of numbers"
        case Shards(shape, _, shards):
            for shard in shards:
                if shard.block == tuple((0, size) for size in shape):
                    return array_of(shard.contents)
            return f"an array of shape {shape}, of which it has only some blocks"
    return part_in_words(part)


def look_at(case: ProcessCase, parts: Sequence[Shards | OwnArray | Value]) -> None:
    """Look at what each process has: blocks of one array, on devices of its own.

    Raises:
        MalformedRunsError: it is anything else.
    """
    shared = [(i, part) for i, part in enumerate(parts) if isinstance(part, Shards)]
    if shared and not any(part.shards for _, part in shared):
        raise MalformedRunsError("an array is on no device")
    for process, part in shared:
        if math.prod(part.shape) > MAX_NUMBERS or len(part.shape) > MAX_DIMENSIONS:
            raise MalformedRunsError("an array is too large")
        for shard in part.shards:
            _look_at_shard(shard, part.shape)
        devices = [shard.device for shard in part.shards]
        if not set(devices) <= set(case.devices_of(process)) or len(set(devices)) < len(devices):
            raise MalformedRunsError("a device belongs to another process, or is there twice")


def _look_at_shard(shard: Shard, shape: Shape) -> None:
    if len(shard.block) != len(shape):
        raise MalformedRunsError("a block has other dimensions than its array")
    intervals = zip(shard.block, shape, strict=True)
    if not all(start <= stop <= size for (start, stop), size in intervals):
        raise MalformedRunsError("a block is outside of its array")
    if tuple(stop - start for start, stop in shard.block) != shard.contents.shape:
        raise MalformedRunsError("a block's values have another shape")


def joint_layout(parts: Sequence[Shards]) -> Layout:
    """The layout that all processes' blocks make together."""
    blocks = {shard.device: shard.block for part in parts for shard in part.shards}
    return Layout.from_blocks(parts[0].shape, blocks)


def array_of(contents: Contents) -> np.ndarray:
    """What evidence says an array holds."""
    try:
        dtype = np.dtype(contents.dtype)
        if dtype.kind not in "biufc":
            raise TypeError
        return np.frombuffer(contents.data, dtype).reshape(contents.shape)
    except (TypeError, ValueError) as error:
        raise MalformedRunsError("bytes do not fill an array") from error


def rows_like(block: np.ndarray, whole: np.ndarray, place: Sequence[tuple[int, int]]) -> int | None:
    """The first of those rows of an array whose numbers a block holds, if there are such rows.

    Args:
        block: what a device holds.
        whole: the array.
        place: where in it the block lies, of which all but the rows counts.
    """
    if not block.size or block.shape != tuple(stop - start for start, stop in place):
        return None
    _, *others = (slice(start, stop) for start, stop in place)
    rows = len(block)
    starts = range(len(whole) - rows + 1)
    return next((i for i in starts if np.array_equal(whole[i : i + rows, *others], block)), None)


def all_that_came(parts: Sequence[Shards | OwnArray | Value]) -> list[np.ndarray]:
    """An array as each process has it, or put together from the blocks of all of them."""
    wholes = [whole(part) for part in parts]
    arrays = [whole for whole in wholes if not isinstance(whole, str)]
    if len(arrays) == len(parts):
        return arrays
    shared = [part for part in parts if isinstance(part, Shards)]
    if len(shared) < len(parts) or len({part.shape for part in shared}) > 1:
        return []
    put_together = np.full(shared[0].shape, np.nan)
    for part in shared:
        for shard in part.shards:
            block = tuple(slice(start, stop) for start, stop in shard.block)
            put_together[block] = array_of(shard.contents)
    return [put_together]


def part_in_words(part: Shards | OwnArray | Value) -> str:
    """What kind of thing a process handed in."""
    match part:
        case OwnArray(contents):
            return f"an array of its own, of shape {contents.shape}"
        case Value(None):
            return "None"
        case Value(dict() as value):
            return f"something of type {value.get('of type')}"
        case Value(value):
            return f"{'an' if isinstance(value, int) else 'a'} {type(value).__name__}"
    return "an array"


def how_values_differ(came: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> Wrong | None:
    """Say whether all values are zeros, or off by one factor.

    Args:
        came: blocks as they came, of all processes.
        wanted: for each, what it should hold.
    """
    if not any(block.any() for block in came):
        return "nothing-but-zeros", "All values are zeros."
    values = np.concatenate([np.ravel(block).astype(np.float64) for block in came])
    right = np.concatenate([np.ravel(block).astype(np.float64) for block in wanted])
    if not right.any() or not np.isfinite(values).all() or np.iscomplexobj(came[0]):
        return None
    found = float(values @ right / (right @ right))
    if not found or np.max(np.abs(values - found * right)) > TOLERANCE * np.max(np.abs(values)):
        return None
    return "off-by-a-factor", f"Every value is {describe_factor(found)} what it should be."


def how_rows_differ(came: np.ndarray, wanted: np.ndarray, place: Sequence[slice]) -> str:
    """Name what a block of a table has in place of its rows; nothing where it has some of them.

    Args:
        came: the block.
        wanted: the whole table.
        place: where in the table the block lies.
    """
    if came.ndim != 2 or came.shape != wanted[tuple(place)].shape:
        return ""
    rows = sorted(map(tuple, came.tolist()))
    if rows == sorted(map(tuple, wanted[tuple(place)].tolist())):
        return "rows-exchanged"
    table = set(map(tuple, wanted[:, place[1]].tolist()))
    return "other-numbers" if not table & set(rows) else ""


def how_far_off(came: np.ndarray, wanted: np.ndarray) -> str:
    """Which value is furthest off, in words; nothing where all are near enough."""
    if came.shape != wanted.shape:
        return f"the block has shape {came.shape}; expected {wanted.shape}."
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    with np.errstate(invalid="ignore"):
        off = np.abs(came.astype(np.complex128) - wanted)
    if not off.size or bool((off <= TOLERANCE * scale).all()):
        return ""
    place = np.unravel_index(int(np.nanargmax(np.where(np.isnan(off), np.inf, off))), off.shape)
    at = f"the value at {tuple(map(int, place))}" if place else "the value"
    return f"{at} is {came[place]:g}; expected {wanted[place]:g}."
