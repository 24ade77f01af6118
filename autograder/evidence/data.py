"""The kinds of evidence, as data classes, and their JSON.

`capture` makes evidence from answers, in the student's kernel. The judge reads it from JSON, which
may be forged, so reading checks every type. What types cannot express, such as whether a mesh's
devices exist, the judge checks itself.
"""

from typing import Annotated, Any, Final

import msgspec

from autograder.explanations import Fault
from autograder.processes import PackedFunction

MIME_TYPE: Final = "application/vnd.shardlings.evidence+json"
"""The MIME type of evidence in a cell's outputs."""


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base class of records that are read from JSON; unknown fields are an error."""


MAX_VALUE_DEPTH: Final = 8
"""The deepest nesting of lists and dictionaries in a `Value`; `capture` needs less."""

MAX_STRING_CHARACTERS: Final = 10_000
"""The longest string in a `Value`."""

Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]

Name = Annotated[str, msgspec.Meta(max_length=200)]
"""A name, such as a mesh axis's or a diagnosis."""


class MeshGrid(Struct, frozen=True):
    """A mesh as plain data.

    Attributes:
        shape: the number of devices along each mesh axis.
        ids: the devices' ids in row-major order.
        names: the names of the mesh axes.
        modes: `Auto`, `Explicit` or `Manual` for each mesh axis.
    """

    shape: tuple[Size, ...]
    ids: tuple[Size, ...]
    names: tuple[Name, ...]
    modes: tuple[Name, ...] = ()


class Contents(Struct, frozen=True):
    """An array's shape, its dtype's NumPy name, and its values as bytes in row-major order."""

    shape: tuple[Size, ...]
    dtype: Name
    data: bytes


class Placement(Struct, frozen=True, tag="placement"):
    """The mesh and spec of an array or a sharding, with the array's contents."""

    mesh: MeshGrid
    spec: tuple[Name | tuple[Name, ...] | None, ...]
    contents: Contents | None = None


class Placements(Struct, frozen=True, tag="placements"):
    """A placement for each argument of a function."""

    parts: tuple[Placement, ...]


class Program(Struct, frozen=True, tag="program"):
    """A function, exported once for each list of arguments in the plan.

    Attributes:
        artifacts: the exported programs.
        donated: for each of them, the numbers, from 0, of the arguments that its `jit` donates. Of
            these, a program names only those that a result fits into. Empty if none is jitted.
    """

    artifacts: tuple[bytes, ...]
    donated: tuple[tuple[int, ...], ...] = ()


class Design(Struct, frozen=True, tag="design"):
    """Shardings, and a training step exported for arguments with them, once for each size."""

    layouts: Placements
    step: Program


class Value(Struct, frozen=True, tag="value"):
    """Numbers, strings, and lists and dictionaries of them, as `plain` returns them.

    Raises:
        ValueError: the value is anything else, has an integer of more than 64 bits or a string of
            more than `MAX_STRING_CHARACTERS`, or is nested deeper than `MAX_VALUE_DEPTH`.
    """

    value: Any

    def __post_init__(self) -> None:
        """Check the whole value, because it may be forged."""
        if not _is_plain(self.value, MAX_VALUE_DEPTH):
            raise ValueError(
                f"a Value must be plain data: 64-bit numbers, strings of at most "
                f"{MAX_STRING_CHARACTERS:,} characters, and lists and dictionaries at most "
                f"{MAX_VALUE_DEPTH} deep"
            )


class Shard(Struct, frozen=True):
    """The block of an array on one device: the device's number, and an interval per dimension."""

    device: Size
    block: tuple[tuple[Size, Size], ...]
    contents: Contents


class Shards(Struct, frozen=True, tag="shards"):
    """The shards of a global array that one process holds."""

    shape: tuple[Size, ...]
    dtype: Name
    shards: tuple[Shard, ...]


class LocalArray(Struct, frozen=True, tag="array"):
    """An array that belongs to one process: NumPy's, or a `jax.Array` on one device."""

    contents: Contents


class ProcessResult(Struct, frozen=True):
    """A function's results in one process, or a diagnosis and a sentence if there are none."""

    parts: tuple[Shards | LocalArray | Value, ...] = ()
    why: Name = ""
    sentence: str = ""


class File(Struct, frozen=True):
    """A file that a process wrote: the array that `np.load` reads, or why it cannot."""

    name: str
    contents: Contents | None
    sentence: str = ""


class Run(Struct, frozen=True):
    """One call of a function by several processes: the result of each, and the files written.

    Attributes:
        results: the result of each process; of the second call, if the first was interrupted.
        files: the files that they wrote.
        interrupted: the result of each process in a call that was interrupted by a kill.
        saved_bytes: the size of all files that they had written when one was killed.
    """

    results: tuple[ProcessResult, ...]
    files: tuple[File, ...] = ()
    interrupted: tuple[ProcessResult, ...] = ()
    saved_bytes: int = 0


class Runs(Struct, frozen=True, tag="observed-runs"):
    """The runs of a function that several processes call, one per case, up to the first failure.

    When a class is graded, the grader starts these processes, and rejects runs from a kernel.
    """

    runs: tuple[Run, ...]


class Unanswered(Struct, frozen=True, tag="unanswered"):
    """An answer that is still `...`, as in the stub."""


class NotCaptured(Struct, frozen=True, tag="not-captured"):
    """An answer that could not be captured: a diagnosis, and a sentence for the learner."""

    why: Name
    sentence: str


Piece = (
    Placement
    | Placements
    | Program
    | Design
    | PackedFunction
    | Runs
    | Value
    | Unanswered
    | NotCaptured
    | Fault
)
"""The evidence of one answer. A `Fault` means that capturing failed by an error of ours."""


class Evidence(Struct, frozen=True):
    """All evidence of one exercise: a piece for each answer, by the answer's name."""

    exercise: Name
    answers: dict[Name, Piece]


class MalformedEvidenceError(ValueError):
    """Evidence does not have the form that `capture` gives it."""


def to_json(evidence: Evidence) -> Any:
    """Convert evidence to the plain objects that JSON has."""
    return msgspec.to_builtins(evidence)


def from_json(data: object) -> Evidence:
    """Read evidence from plain objects, strictly.

    Raises:
        MalformedEvidenceError: it has another form.
    """
    try:
        return msgspec.convert(data, Evidence)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MalformedEvidenceError(f"The evidence has the wrong form: {error}") from error


def _is_plain(value: object, depth: int) -> bool:
    """Check whether a value consists of 64-bit numbers, strings, lists and dictionaries."""
    match value:
        case int():  # and bool, which is a subclass
            return abs(value) < 1 << 63
        case str():
            return len(value) <= MAX_STRING_CHARACTERS
        case None | float():
            return True
        case list():
            return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
        case dict():
            return depth > 0 and all(
                isinstance(key, str) and _is_plain([key, item], depth)
                for key, item in value.items()
            )
    return False
