"""Capture what a function returns and writes when several processes call it."""

import re
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import cloudpickle
import msgspec
import numpy as np

from autograder.evidence.data import (
    Contents,
    File,
    LocalArray,
    NotCaptured,
    Piece,
    ProcessResult,
    Run,
    Runs,
    Shard,
    Shards,
    Struct,
    Unanswered,
    Value,
)
from autograder.evidence.results import plain
from autograder.evidence.steps import announce_steps
from autograder.evidence.unsuitable_answers import not_a_function
from autograder.processes import (
    AddressableShards,
    Interruption,
    PackedFunction,
    ProcessCase,
    ProcessOutcome,
    ResultEncoding,
    ResultNotSendableError,
    pack,
    run,
    write_files,
    written_files,
)
from shardlings.errors import TheirError, UsageError, theirs

MAX_ARRAY_BYTES: Final = 1 << 18
"""The exercises' arrays are smaller."""

RETRIED_DIAGNOSES: Final = ("died", "waits")
"""Diagnoses that may be the machine's fault, so the function is called once more."""

MAX_FILES: Final = 64

STUB: Final = ProcessResult((Value(plain(...)),))
"""The result of a function that is still a stub."""


class ProcessesPlan(Struct, frozen=True, tag="processes"):
    """A plan to call a function in several processes at once, and capture the results as `Runs`.

    Attributes:
        cases: the calls. A grading kernel has none: there the function itself becomes evidence, and
            the grader calls it with inputs that no kernel knows.
    """

    cases: tuple[ProcessCase, ...]

    def capture(self, name: str, answer: object) -> Piece:
        """Call a function in several processes; without cases, capture the function itself."""
        function = pack_answer(answer)
        if self.cases and isinstance(function, PackedFunction):
            return capture_runs(self, function)
        return function


def pack_answer(answer: object) -> Piece:
    """Pack a function for other processes, or explain why it cannot be packed."""
    if not callable(answer):
        return not_a_function(answer)
    try:
        return pack(answer)
    except UsageError as error:
        return NotCaptured("cannot-be-sent", str(error))


def capture_runs(plan: ProcessesPlan, function: PackedFunction) -> Piece:
    """Call a function in several processes, case by case, up to the first call that fails."""
    runs: list[Run] = []
    for case in announce_steps(plan.cases, _describe_step):
        try:
            run_of_case = _run_case(function, case)
            results = run_of_case.results or run_of_case.interrupted
            if any(result.why in RETRIED_DIAGNOSES for result in results):
                run_of_case = _run_case(function, case)
        except UsageError as error:
            return NotCaptured("cannot-be-sent", str(error))
        results = run_of_case.results
        if results and all(result == STUB for result in results):
            return Unanswered()
        runs.append(run_of_case)
        if not results or any(result.why for result in results):
            break
    return Runs(tuple(runs))


def _describe_step(case: ProcessCase) -> str:
    return f"running {case.processes} process{'es' * (case.processes != 1)}"


def _run_case(function: PackedFunction, case: ProcessCase) -> Run:
    """Call a function in a case; if it is interrupted, once more in the same folder.

    It is called once more only if the process was killed that had to be, or if all processes
    returned where none had to be.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        interrupted: tuple[ProcessResult, ...] = ()
        saved_bytes = 0
        write_files(case, folder)
        if case.interruption is not None:
            interrupted = _call_together(function, case, folder)
            if not _has_ended_as_planned(case.interruption, interrupted):
                return Run((), interrupted=interrupted)
            written = [path for path in folder.rglob("*") if not path.is_dir()]
            saved_bytes = sum(path.lstat().st_size for path in written)
        results = _call_together(function, case.call_after_kill(), folder)
        return Run(results, _read_files(case, folder), interrupted, saved_bytes)


def _has_ended_as_planned(interruption: Interruption, results: Sequence[ProcessResult]) -> bool:
    """Check whether the process was killed that had to be, or all returned if none had to be."""
    if interruption.process is None:
        return not any(result.why for result in results)
    return results[interruption.process].why == "died"


def _call_together(
    function: PackedFunction, case: ProcessCase, folder: Path
) -> tuple[ProcessResult, ...]:
    def arguments(process: int) -> bytes:
        return bytes(cloudpickle.dumps(partial(case.share_of(process).arguments, folder)))

    axes = [name for name, _ in case.axes]
    disks = [case.disks_of(process) for process in range(case.processes)]
    outcomes = run(function, case.processes, arguments, axes=axes, encoding=PLAIN_DATA, disks=disks)
    for outcome in outcomes:  # hide where the files are
        outcome.sentence = re.sub(
            rf"{re.escape(str(folder))}/(common|shared|process \d)", "…", outcome.sentence
        )
    return tuple(map(_process_result, outcomes))


def _process_result(outcome: ProcessOutcome) -> ProcessResult:
    if outcome.why:
        return ProcessResult(why=outcome.why, sentence=outcome.sentence)
    if outcome.result is ...:
        return STUB
    assert isinstance(outcome.result, ProcessResult)
    if outcome.result.why == "too-large":
        sentence = (
            f"Process {outcome.process} returned an array of more than {MAX_ARRAY_BYTES:,} bytes."
        )
        return ProcessResult(why="too-large", sentence=sentence)
    return outcome.result


def write_result(result: Any) -> bytes:
    """Encode a function's result as plain data, in the process that called it."""
    if result is ...:
        return b""
    parts = result if isinstance(result, tuple) else (result,)
    if any(_is_too_large(part) for part in parts):
        return msgspec.msgpack.encode(ProcessResult(why="too-large"))
    try:
        with theirs():  # Looking at the result can run the learner's code.
            return msgspec.msgpack.encode(ProcessResult(tuple(map(_to_data, parts))))
    except TheirError as raised:
        raise ResultNotSendableError(
            f"The result of your function cannot be read: {raised}."
        ) from raised.error


def read_result(written: bytes) -> Any:
    """Decode what `write_result` wrote; it may be forged."""
    return msgspec.msgpack.decode(written, type=ProcessResult) if written else ...


PLAIN_DATA: Final = ResultEncoding(write_result, read_result)
"""The encoding as plain data. Unpickling in the parent would run code that a child sends."""


def _is_too_large(part: Any) -> bool:
    if isinstance(part, AddressableShards):
        return sum(data.nbytes for _, _, data in part.shards) > MAX_ARRAY_BYTES
    return isinstance(part, np.ndarray) and part.nbytes > MAX_ARRAY_BYTES


def _to_data(part: Any) -> Shards | LocalArray | Value:
    if isinstance(part, AddressableShards):
        shards = (Shard(device, block, _contents(data)) for device, block, data in part.shards)
        return Shards(part.shape, part.dtype, tuple(shards))
    if isinstance(part, np.ndarray | np.generic) and part.dtype.kind in "biufc":
        return LocalArray(_contents(np.asarray(part)))
    return Value(plain(part))


def _contents(array: np.ndarray) -> Contents:
    return Contents(array.shape, array.dtype.name, array.tobytes())


def _read_files(case: ProcessCase, folder: Path) -> tuple[File, ...]:
    files = written_files(folder, case.processes)[: MAX_FILES + 1]
    return tuple(_read_file(name, path) for name, path in files)


def _read_file(name: str, path: Path) -> File:
    """Read a file with `np.load`; its contents may be anything."""
    name = name.encode(errors="replace").decode()
    try:
        if path.stat().st_size > MAX_ARRAY_BYTES:
            return File(name, None, f"It has more than {MAX_ARRAY_BYTES:,} bytes.")
        array = np.load(path, allow_pickle=False)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufc":
            return File(name, None, "It does not hold one array of numbers.")
        return File(name, _contents(array))
    except Exception as error:  # NumPy raises many types of error for malformed files
        return File(name, None, f"np.load cannot read it: {type(error).__name__}.")
