"""Require a function that several processes call together.

Evidence of blocks and values may be forged, so it is checked here. The judge knows which devices
each process has, since they are dealt out in order.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import jax
import numpy as np

from autograder.evidence import (
    Contents,
    LocalArray,
    ProcessesPlan,
    ProcessResult,
    Run,
    Runs,
    Shard,
    Shards,
    Value,
)
from autograder.judge.comparing_values import (
    Wrong,
    find_largest,
    format_pair,
    is_finite,
    measure_differences,
)
from autograder.judge.diagnoses import MALFORMED, WRONG_DTYPE, WRONG_SHAPE, WRONG_VALUES
from autograder.judge.exercise import Exercise, Mistake, Requirement, ways_of
from autograder.judge.explaining_factors import describe_factor
from autograder.judge.verdict import Finding
from autograder.processes import ProcessCase, Spec
from shardlings.layouts import Layout, Shape, find_difference


@dataclass(frozen=True)
class Expected:
    """One result that a function must return.

    For example, `Expected(table, spec=("x", None))`.

    Attributes:
        values: the values of the global array, or of a number.
        spec: the array's spec, on the case's mesh; None if each process must have all values.
        host: whether the values must be in the host's memory, as a NumPy array.
    """

    values: np.ndarray
    spec: Spec | None = None
    host: bool = False


@dataclass(frozen=True)
class OnProcesses(Requirement):
    """A function returns or writes the right thing when several processes call it together.

    For example, a NumPy array with the global values in every process:

        OnProcesses("to_host", "a NumPy …", cases, lambda case: (Expected(x(case), host=True),))

    Attributes:
        answer: the name of the answer in the notebook.
        asks: what the function must return or write, in words.
        cases: samples the calls from a generator: numbers of processes, meshes, arguments.
        reference: the results that the function must return in a case, in every process.
        files: if it must write files instead: the contents by file name. Each file must be written
            once, by any process.
        mistakes: for each diagnosis, the results of a function with that mistake and no other.
    """

    about: ClassVar = "processes"
    evidence: ClassVar = (Runs,)

    answer: str
    asks: str
    cases: Callable[[np.random.Generator], Sequence[ProcessCase]]
    reference: Callable[[ProcessCase], Sequence[Expected]] = lambda _: ()
    files: Callable[[ProcessCase], Mapping[str, np.ndarray]] | None = None
    mistakes: Mapping[str, Callable[[ProcessCase], Sequence[np.ndarray]] | Mistake] = field(
        default_factory=dict
    )

    def plan_capture(self, generator: np.random.Generator) -> ProcessesPlan:
        """Plan to call the function in each case, in each process."""
        return ProcessesPlan(tuple(self.cases(generator)))

    def judge(self, piece: Runs, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the results of the cases sampled from `seed` with the reference."""
        cases = list(self.cases(exercise.generator(seed)))
        right: list[ProcessCase] = []
        for case, run in zip(cases, piece.runs, strict=False):
            finding = finding.but(got="", made=None, target=None)
            try:
                run_finding = _judge_run(self, case, run, finding)
            except MalformedRunsError as error:
                return finding.problem(
                    MALFORMED, f"The submission does not fit this case: {error}."
                )
            if not run_finding.met:
                return _add_case(run_finding, case, right)
            right.append(case)
        if len(right) < len(cases):
            return finding.problem(MALFORMED, "The submission does not have a run for each case.")
        counts = " and ".join(f"{case}" for case in cases[-1:])
        return run_finding.but(
            got=f"the right result in all of {len(cases)} runs, the last by {counts}"
        )


IN_PROCESS: Final = "in process "
"""Begins a sentence about one process, which follows the description of the run."""


def _add_case(finding: Finding, case: ProcessCase, right: Sequence[ProcessCase]) -> Finding:
    """Add the case to a finding, and whether the result is right on a single process."""
    colon = ", " if finding.difference.startswith(IN_PROCESS) else ": "
    sentence = f"With {case}{colon}{finding.difference}" if finding.difference else ""
    fewer = [c for c in right if c.processes < case.processes]
    if finding.diagnosis == WRONG_VALUES and fewer and all(c.processes == 1 for c in fewer):
        return finding.but(
            diagnosis="only-on-one-process",
            difference=f"With one process, the result is right. {sentence}",
        )
    return finding.but(difference=sentence)


def _judge_run(requirement: OnProcesses, case: ProcessCase, run: Run, finding: Finding) -> Finding:
    if len(run.results) != case.processes:
        raise MalformedRunsError("it has another number of processes")
    failed = [(i, r) for i, r in enumerate(run.results) if r.why]
    if failed:  # a process that was stopped because another failed says nothing
        number, result = next(((i, r) for i, r in failed if r.why != "stopped"), failed[0])
        raised = result.why not in ("stopped", "waits", "died", "too-slow", "too-large")
        where = f"{IN_PROCESS}{number}: " if raised and case.processes > 1 else ""
        return finding.problem(result.why, f"{where}{result.sentence}")
    if requirement.files is not None:
        wrong = _compare_files(run, requirement.files(case))
        return finding.problem(*wrong) if wrong else finding.but(met=True)
    expected = requirement.reference(case)
    for result in run.results:
        if len(result.parts) != len(expected):
            return finding.problem(
                "number-of-results",
                f"The function returned {_count_results(len(result.parts))}; expected "
                f"{_count_results(len(expected))}.",
            )
    part_finding = finding
    for place, wanted in enumerate(expected):
        part_finding = _judge_part(case, [r.parts[place] for r in run.results], wanted, finding)
        if not part_finding.met:
            mistake = _recognise_mistake(requirement, case, run.results)
            sentence = (
                part_finding.difference
                if part_finding.diagnosis == WRONG_SHAPE
                else "The values are wrong."
            )
            return part_finding.problem(mistake, sentence) if mistake else part_finding
    return part_finding


def _count_results(number: int) -> str:
    return "one result" if number == 1 else f"{number} results"


def _judge_part(
    case: ProcessCase,
    parts: Sequence[Shards | LocalArray | Value],
    wanted: Expected,
    finding: Finding,
) -> Finding:
    """Judge one result of a function: what each process has of it."""
    check_parts(case, parts)
    other_kind = _explain_other_kind(parts, wanted)
    if other_kind:
        return finding.problem(*other_kind)
    if wanted.spec is None:
        return _judge_whole_array(wanted.values, [whole_array(part) for part in parts], finding)
    for number, part in enumerate(parts):
        if not isinstance(part, Shards):
            if case.processes == 1:
                return finding.problem("own-array", _describe_single(part, wanted.values.shape))
            return finding.problem(
                "own-array",
                f"Process {number} returned {describe_part(part)}, which no other process knows "
                f"of; expected one jax.Array of shape {wanted.values.shape} over the devices of "
                f"all processes.",
            )
    shards = [part for part in parts if isinstance(part, Shards)]
    if any(part.shape != wanted.values.shape for part in shards):
        return finding.problem(
            WRONG_SHAPE,
            f"The array has shape {shards[0].shape}; expected {wanted.values.shape}, the global "
            f"shape.",
        )
    target = Layout.of(jax.NamedSharding(case.mesh(), jax.P(*wanted.spec)), wanted.values.shape)
    made = joint_layout(shards)
    with_layout = finding.but(
        expected=target.describe(), got=made.describe(), made=made, target=target
    )
    wrong_layout = find_difference(target, made)
    if wrong_layout is not None:
        return with_layout.problem(wrong_layout.diagnosis, wrong_layout.sentence)
    wrong = _explain_wrong_blocks(shards, wanted.values)
    return finding.problem(*wrong) if wrong else with_layout.but(met=True)


def _explain_other_kind(
    parts: Sequence[Shards | LocalArray | Value], wanted: Expected
) -> Wrong | None:
    """Explain a result that is None, or in another kind of array, or of another dtype."""
    for number, part in enumerate(parts):
        if part == Value(None):
            several = f"Process {number} returned None. Every process calls it."
            return "none", several if len(parts) > 1 else "The function returned None."
        if wanted.host and not isinstance(part, LocalArray):
            description = "a jax.Array" if isinstance(part, Shards) else describe_part(part)
            why = "on-devices" if isinstance(part, Shards) else "not-numpy"
            return why, (
                f"Process {number} returned {description}; expected a NumPy array, on the host."
            )
        dtype = _dtype(part)
        if dtype and (wanted.host or wanted.spec is not None) and dtype != wanted.values.dtype:
            return WRONG_DTYPE, f"The array has dtype {dtype}; expected {wanted.values.dtype}."
    return None


def _explain_wrong_blocks(shards: Sequence[Shards], wanted: np.ndarray) -> Wrong | None:
    """Explain wrong values in an array whose layout is right.

    Args:
        shards: each process's part of the array.
        wanted: the right values of the whole array.
    """
    blocks = [
        (
            array_of(shard.contents),
            wanted[tuple(slice(start, stop) for start, stop in shard.block)],
        )
        for part in shards
        for shard in part.shards
    ]
    if any(describe_worst_value(actual, right) for actual, right in blocks):
        differ = explain_all_values(*zip(*blocks, strict=True))
        if differ:
            return differ[0], f"The layout is right. {differ[1]}"
    for part in shards:
        for shard in part.shards:
            block = tuple(slice(start, stop) for start, stop in shard.block)
            values = array_of(shard.contents)
            worst = describe_worst_value(values, wanted[block])
            start = find_rows(values, wanted, shard.block) if worst else None
            if start is not None:
                return "other-rows", (
                    f"The layout is right, but device {shard.device} holds the numbers of "
                    f"{_rows(start, len(values))} of the global array; expected "
                    f"{_rows(shard.block[0][0], len(values))}."
                )
            if worst:
                diagnosis = diagnose_rows(values, wanted, block) or WRONG_VALUES
                return diagnosis, f"The layout is right. On device {shard.device}, {worst}"
    return None


def _describe_single(part: LocalArray | Value, expected: Shape) -> str:
    """Say what the only process returned in place of an array on all its devices."""
    made = describe_part(part)
    if isinstance(part, LocalArray):
        made = f"an array of shape {part.contents.shape} that is NumPy's, or on one device alone"
    return f"The function returned {made}; expected a jax.Array of shape {expected} on the mesh."


def _rows(start: int, count: int) -> str:
    """Return `rows 4 to 7`, the last one included."""
    return f"row {start}" if count == 1 else f"rows {start} to {start + count - 1}"


def _judge_whole_array(
    wanted: np.ndarray, actual: Sequence[np.ndarray | str], finding: Finding
) -> Finding:
    """Judge a result of which each process must have all values."""
    for number, array in enumerate(actual):
        if isinstance(array, str):
            return finding.problem("not-whole", f"Process {number} returned {array}.")
        if array.shape != wanted.shape:
            return finding.problem(
                WRONG_SHAPE, f"Process {number} has shape {array.shape}; expected {wanted.shape}."
            )
    arrays = [array for array in actual if not isinstance(array, str)]
    for number, array in enumerate(arrays[1:], 1):
        if not np.allclose(array, arrays[0], rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            return finding.problem(
                "differs-between-processes",
                f"Process 0 and process {number} returned different values; expected the same ones "
                f"in every process.",
            )
    worst = describe_worst_value(arrays[0], wanted)
    if worst and wanted.ndim > 1:
        differ = explain_all_values(arrays, [wanted] * len(arrays))
        if differ:
            return finding.problem(*differ)
        diagnosis = diagnose_rows(arrays[0], wanted, [slice(None)] * wanted.ndim)
        if diagnosis:
            return finding.problem(diagnosis, worst[:1].upper() + worst[1:])
    return (
        finding.problem(WRONG_VALUES, worst[:1].upper() + worst[1:])
        if worst
        else finding.but(met=True)
    )


def _recognise_mistake(
    requirement: OnProcesses, case: ProcessCase, results: Sequence[ProcessResult]
) -> str:
    """Return the diagnosis of the known mistake that explains all results; empty if none does."""
    actual = [
        assembled_arrays([r.parts[place] for r in results])
        for place in range(len(results[0].parts))
    ]
    right = [each.values for each in requirement.reference(case)]
    ways = [(name, way) for name, each in requirement.mistakes.items() for way in ways_of(each)]
    for diagnosis, mistaken in ways:
        expected = [np.asarray(array) for array in mistaken(case)]
        if not any(map(describe_worst_value, expected, right)):
            continue  # in this case, the mistake makes no difference
        if len(expected) == len(actual) and all(
            arrays and not any(describe_worst_value(array, other) for array in arrays)
            for arrays, other in zip(actual, expected, strict=True)
        ):
            return diagnosis
    return ""


def _compare_files(run: Run, wanted: Mapping[str, np.ndarray]) -> Wrong | None:
    """Compare the files that the processes wrote with the expected ones."""
    names = [file.name for file in run.files]
    twice = sorted({name for name in names if names.count(name) > 1})
    unexpected = sorted(set(names) - set(wanted))
    missing = [name for name in wanted if name not in names]
    if not names:
        return "no-files", "No process wrote a file."
    spans = [name for name in unexpected if _spans_several_blocks(name, wanted)]
    if spans:
        return "several-blocks", (
            f"{spans[0]} has the rows of several blocks; expected a file for each block, such as "
            f"{next(iter(wanted))}."
        )
    nones = [name for name in unexpected if "None" in name]
    if nones:
        return "none-in-a-name", (
            f"A file is called {nones[0]!r}; expected names such as {next(iter(wanted))!r}."
        )
    if unexpected:
        return "other-files", (
            f"A file is called {unexpected[0]!r}; expected names such as {next(iter(wanted))!r}, "
            f"for the rows from the first number up to the second."
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
            actual = file.contents.dtype
            return (
                WRONG_DTYPE,
                f"{file.name} has dtype {actual}; expected {wanted[file.name].dtype}.",
            )
        worst = describe_worst_value(array_of(file.contents), wanted[file.name])
        if worst:
            return WRONG_VALUES, f"In {file.name}, {worst}"
    return None


def _spans_several_blocks(name: str, wanted: Mapping[str, np.ndarray]) -> bool:
    """Check whether a file's name gives one block's first row and a later block's last row."""
    first, _, last = name.partition("-")
    starts = [block.partition("-")[0] for block in wanted]
    ends = [block.partition("-")[2] for block in wanted]
    return first in starts and last in ends


def _dtype(part: Shards | LocalArray | Value) -> str:
    """Return the name of an array's dtype; empty if it has none."""
    match part:
        case Shards(_, dtype, _):
            return dtype
        case LocalArray(contents):
            return contents.dtype
    return ""


MAX_ELEMENTS: Final = 1 << 16
"""The largest array that evidence may have; those of the exercises are smaller."""

MAX_DIMENSIONS: Final = 4
TOLERANCE: Final = 1e-5
"""Relative to the largest value."""


class MalformedRunsError(Exception):
    """The evidence is not of a form that `capture` produces."""


def whole_array(part: Shards | LocalArray | Value) -> np.ndarray | str:
    """Return an array that one process has all of, or describe what it has instead."""
    match part:
        case LocalArray(contents):
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
    return describe_part(part)


def check_parts(case: ProcessCase, parts: Sequence[Shards | LocalArray | Value]) -> None:
    """Check that the processes have blocks of one array, each on its own devices.

    Raises:
        MalformedRunsError: the evidence is not of this form.
    """
    shared = [(i, part) for i, part in enumerate(parts) if isinstance(part, Shards)]
    if shared and not any(part.shards for _, part in shared):
        raise MalformedRunsError("an array is on no device")
    for process, part in shared:
        if math.prod(part.shape) > MAX_ELEMENTS or len(part.shape) > MAX_DIMENSIONS:
            raise MalformedRunsError("an array is too large")
        for shard in part.shards:
            _check_shard(shard, part.shape)
        devices = [shard.device for shard in part.shards]
        if not set(devices) <= set(case.devices_of(process)) or len(set(devices)) < len(devices):
            raise MalformedRunsError("a device belongs to another process, or is there twice")


def _check_shard(shard: Shard, shape: Shape) -> None:
    if len(shard.block) != len(shape):
        raise MalformedRunsError("a block has other dimensions than its array")
    intervals = zip(shard.block, shape, strict=True)
    if not all(start <= stop <= size for (start, stop), size in intervals):
        raise MalformedRunsError("a block is outside of its array")
    if tuple(stop - start for start, stop in shard.block) != shard.contents.shape:
        raise MalformedRunsError("a block's values have another shape")


def joint_layout(parts: Sequence[Shards]) -> Layout:
    """Return the layout of the blocks of all processes."""
    blocks = {shard.device: shard.block for part in parts for shard in part.shards}
    return Layout.from_blocks(parts[0].shape, blocks)


def array_of(contents: Contents) -> np.ndarray:
    """Return an array from evidence.

    Raises:
        MalformedRunsError: its bytes do not fill it.
    """
    try:
        dtype = np.dtype(contents.dtype)
        if dtype.kind not in "biufc":
            raise TypeError
        return np.frombuffer(contents.data, dtype).reshape(contents.shape)
    except (TypeError, ValueError) as error:
        raise MalformedRunsError("bytes do not fill an array") from error


def find_rows(block: np.ndarray, whole: np.ndarray, place: Sequence[tuple[int, int]]) -> int | None:
    """Find the rows of an array that a block holds, and return the number of the first.

    Args:
        block: the values on a device.
        whole: the global array.
        place: the block's place in it; all dimensions except the first count.
    """
    if not block.size or block.shape != tuple(stop - start for start, stop in place):
        return None
    _, *others = (slice(start, stop) for start, stop in place)
    rows = len(block)
    starts = range(len(whole) - rows + 1)
    return next((i for i in starts if np.array_equal(whole[i : i + rows, *others], block)), None)


def assembled_arrays(parts: Sequence[Shards | LocalArray | Value]) -> list[np.ndarray]:
    """Return the array of each process, or the one assembled from the blocks of all of them."""
    wholes = [whole_array(part) for part in parts]
    arrays = [whole for whole in wholes if not isinstance(whole, str)]
    if len(arrays) == len(parts):
        return arrays
    shared = [part for part in parts if isinstance(part, Shards)]
    if len(shared) < len(parts) or len({part.shape for part in shared}) > 1:
        return []
    assembled = np.full(shared[0].shape, np.nan)
    for part in shared:
        for shard in part.shards:
            block = tuple(slice(start, stop) for start, stop in shard.block)
            assembled[block] = array_of(shard.contents)
    return [assembled]


def describe_part(part: Shards | LocalArray | Value) -> str:
    """Describe what a process returned."""
    match part:
        case LocalArray(contents):
            return f"an array of its own, of shape {contents.shape}"
        case Value(None):
            return "None"
        case Value(dict() as value):
            return f"something of type {value.get('of type')}"
        case Value(value):
            return f"{'an' if isinstance(value, int) else 'a'} {type(value).__name__}"
    return "an array"


def explain_all_values(actual: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> Wrong | None:
    """Say whether all values are zeros, or off by one factor.

    Args:
        actual: the blocks of all processes.
        wanted: for each, the values that it should hold.
    """
    if not any(block.any() for block in actual):
        return "nothing-but-zeros", "All values are zeros."
    values = np.concatenate([np.ravel(block).astype(np.float64) for block in actual])
    right = np.concatenate([np.ravel(block).astype(np.float64) for block in wanted])
    if not right.any() or np.iscomplexobj(actual[0]) or actual[0].dtype == bool:
        return None
    if not is_finite(values) or not is_finite(right):
        return None
    factor = float(values @ right / (right @ right))
    if not factor or np.max(np.abs(values - factor * right)) > TOLERANCE * np.max(np.abs(values)):
        return None
    return "off-by-a-factor", f"Every value is {describe_factor(factor)} what it should be."


def diagnose_rows(actual: np.ndarray, wanted: np.ndarray, place: Sequence[slice]) -> str:
    """Return the diagnosis for a block that has its rows in another order, or other numbers.

    Args:
        actual: the block.
        wanted: the global array.
        place: the block's place in it.
    """
    if actual.ndim != 2 or actual.shape != wanted[tuple(place)].shape:
        return ""
    rows = sorted(map(tuple, actual.tolist()))
    if rows == sorted(map(tuple, wanted[tuple(place)].tolist())):
        return "rows-exchanged"
    table = set(map(tuple, wanted[:, place[1]].tolist()))
    return "other-numbers" if not table & set(rows) else ""


def describe_worst_value(actual: np.ndarray, wanted: np.ndarray) -> str:
    """Describe the value that is furthest off; empty if all are close enough."""
    if actual.shape != wanted.shape:
        return f"the block has shape {actual.shape}; expected {wanted.shape}."
    scale = find_largest(wanted, at_least=1)  # a mistake may make anything
    differences = measure_differences(actual, wanted)
    if not differences.size or bool((differences <= TOLERANCE * scale).all()):
        return ""
    place = np.unravel_index(int(differences.argmax()), differences.shape)
    where = f"the value at {tuple(map(int, place))}" if place else "the value"
    if wanted.dtype == bool:
        return f"{where} is {actual[place]}; expected {wanted[place]}."
    got, right = format_pair(actual[place], wanted[place], at_least=6)
    return f"{where} is {got}; expected {right}."
