"""Capture what several processes returned and wrote."""

import re
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import cloudpickle
import msgspec
import numpy as np

from autograder.errors import TheirError, UsageError, theirs
from autograder.evidence.data import (
    Contents,
    File,
    NotCaptured,
    OwnArray,
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
from autograder.evidence.unsuitable_answers import not_a_function
from autograder.processes import (
    AddressableShards,
    CannotLeaveError,
    Form,
    PackedFunction,
    ProcessCase,
    ProcessOutcome,
    files_written,
    pack,
    run,
    write_files,
)

MAX_ARRAY_BYTES: Final = 1 << 18
"""Those of the exercises have less."""

MAYBE_THE_MACHINES: Final = ("died",)
"""What may have befallen a process by no fault of the function's: it is called once more."""

MAX_FILES: Final = 64


class ProcessesPlan(Struct, frozen=True, tag="processes"):
    """A function is called by several processes at once, and what they return becomes `Runs`.

    Attributes:
        cases: the calls; none where the grader is to call it, with data that no kernel knows. Then
            the function itself becomes evidence.
    """

    cases: tuple[ProcessCase, ...]

    def capture(self, name: str, answer: object) -> Piece:
        """Call a function in several processes, or hand it in where the grader is to call it."""
        function = packed(answer)
        if self.cases and isinstance(function, PackedFunction):
            return runs(self, function)
        return function


def packed(answer: object) -> Piece:
    """A function as bytes, for processes to call; or why it will not do."""
    if not callable(answer):
        return not_a_function(answer)
    try:
        return pack(answer)
    except UsageError as error:
        return NotCaptured("cannot-be-sent", str(error))


def runs(plan: ProcessesPlan, function: PackedFunction) -> Piece:
    """Call a function in several processes, case by case, up to the first call that fails."""
    made: list[Run] = []
    for case in plan.cases:
        with tempfile.TemporaryDirectory() as folder:
            write_files(case, Path(folder))
            try:
                outcomes = _outcomes(function, case, Path(folder))
                if any(outcome.why in MAYBE_THE_MACHINES for outcome in outcomes):
                    outcomes = _outcomes(function, case, Path(folder))
            except UsageError as error:
                return NotCaptured("cannot-be-sent", str(error))
            if all(outcome.came is ... and not outcome.why for outcome in outcomes):
                return Unanswered()
            made.append(Run(tuple(map(_result, outcomes)), _files(case, Path(folder))))
        if any(outcome.why for outcome in outcomes):
            break
    return Runs(tuple(made))


def _outcomes(function: PackedFunction, case: ProcessCase, folder: Path) -> list[ProcessOutcome]:
    def arguments(process: int) -> bytes:
        return bytes(cloudpickle.dumps(partial(case.share_of(process).arguments, folder)))

    axes = [name for name, _ in case.axes]
    outcomes = run(function, case.processes, arguments, axes=axes, form=DATA)
    for outcome in outcomes:  # where the files are is nobody's business
        outcome.said = re.sub(rf"{re.escape(str(folder))}/(common|process \d)", "…", outcome.said)
    return outcomes


def _result(outcome: ProcessOutcome) -> ProcessResult:
    if outcome.why:
        return ProcessResult(why=outcome.why, sentence=outcome.said)
    if outcome.came is ...:
        return ProcessResult((Value(plain(...)),))
    assert isinstance(outcome.came, ProcessResult)
    if outcome.came.why == "too-large":
        said = (
            f"Process {outcome.process} returned an array of more than {MAX_ARRAY_BYTES:,} bytes."
        )
        return ProcessResult(why="too-large", sentence=said)
    return outcome.came


def write_result(came: Any) -> bytes:
    """Turn what a function returned into plain data, in the process that called it."""
    if came is ...:
        return b""
    several = came if isinstance(came, tuple) else (came,)
    if any(_too_large(part) for part in several):
        return msgspec.msgpack.encode(ProcessResult(why="too-large"))
    try:
        with theirs():  # to look at what was returned can run code of the learner's
            return msgspec.msgpack.encode(ProcessResult(tuple(map(_part, several))))
    except TheirError as raised:
        raise CannotLeaveError(
            f"What your function returns cannot be looked at: {raised}."
        ) from raised.error


def read_result(written: bytes) -> Any:
    """Read what `write_result` wrote; it may be forged."""
    return msgspec.msgpack.decode(written, type=ProcessResult) if written else ...


DATA: Final = Form(write_result, read_result)
"""Plain data, so that the parent runs no code that a worker sends."""


def _too_large(part: Any) -> bool:
    if isinstance(part, AddressableShards):
        return sum(data.nbytes for _, _, data in part.shards) > MAX_ARRAY_BYTES
    return isinstance(part, np.ndarray) and part.nbytes > MAX_ARRAY_BYTES


def _part(part: Any) -> Shards | OwnArray | Value:
    if isinstance(part, AddressableShards):
        shards = (Shard(device, block, _contents(data)) for device, block, data in part.shards)
        return Shards(part.shape, part.dtype, tuple(shards))
    if isinstance(part, np.ndarray | np.generic) and part.dtype.kind in "biufc":
        return OwnArray(_contents(np.asarray(part)))
    return Value(plain(part))


def _contents(array: np.ndarray) -> Contents:
    return Contents(array.shape, array.dtype.name, array.tobytes())


def _files(case: ProcessCase, folder: Path) -> tuple[File, ...]:
    written = files_written(folder, case.processes)[: MAX_FILES + 1]
    return tuple(_file(name, path) for name, path in written)


def _file(name: str, path: Path) -> File:
    """A file as `np.load` reads it. It may be anything."""
    name = name.encode(errors="replace").decode()
    try:
        if path.stat().st_size > MAX_ARRAY_BYTES:
            return File(name, None, f"It has more than {MAX_ARRAY_BYTES:,} bytes.")
        array = np.load(path, allow_pickle=False)
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufc":
            return File(name, None, "It does not hold one array of numbers.")
        return File(name, _contents(array))
    except Exception as error:  # NumPy has an error type for each way in which it is none
        return File(name, None, f"np.load cannot read it: {type(error).__name__}.")
