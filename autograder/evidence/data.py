"""The kinds of evidence: the plain data that leaves a student's kernel.

Plain data, which says nothing about right or wrong. `autograder.evidence.capturing` makes it from
answers, in the student's kernel; the judge reads it from JSON, which may be forged, so reading is
strict. What a piece's type cannot say of it, such as whether there is a mesh like that, the judge
finds out.
"""

from typing import Annotated, Any, Final

import msgspec

from autograder.errors import Fault
from autograder.processes import PackedFunction

MIME_TYPE: Final = "application/vnd.shardlings.evidence+json"
"""The media type under which evidence travels in a cell's outputs."""


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A record that JSON is read into strictly."""


MAX_VALUE_DEPTH: Final = 8
"""Deeper than any table that `capture` makes."""

Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]


class MeshGrid(Struct, frozen=True):
    """A mesh as data: which device stands where, and what the axes are called.

    Attributes:
        shape: the number of devices along each axis.
        ids: the devices' ids in row-major order.
        names: the axes' names.
        modes: `Auto`, `Explicit` or `Manual` for each axis.
    """

    shape: tuple[Size, ...]
    ids: tuple[Size, ...]
    names: tuple[str, ...]
    modes: tuple[str, ...] = ()


class Contents(Struct, frozen=True):
    """What an array holds: its shape, its dtype's NumPy name, and its bytes in row-major order."""

    shape: tuple[Size, ...]
    dtype: str
    data: bytes


class Placement(Struct, frozen=True, tag="placement"):
    """Where an array's blocks are: mesh and spec, and the contents if it was an array."""

    mesh: MeshGrid
    spec: tuple[str | tuple[str, ...] | None, ...]
    contents: Contents | None = None


class Placements(Struct, frozen=True, tag="placements"):
    """A placement for each argument of a function."""

    parts: tuple[Placement, ...]


class Program(Struct, frozen=True, tag="program"):
    """A function, exported once for each list of argument layouts that the exercise names."""

    artifacts: tuple[bytes, ...]


class Design(Struct, frozen=True, tag="design"):
    """Layouts, and a function exported for arguments laid out so: once for each size."""

    layouts: Placements
    step: Program


class Value(Struct, frozen=True, tag="value"):
    """Numbers, strings and tables of them: what `autograder.evidence.results` makes.

    Raises:
        ValueError: it is anything else, such as numbers beyond 64 bits, or tables in tables in
            tables without end.
    """

    value: Any

    def __post_init__(self) -> None:
        """Look at all of it, for it may be forged."""
        if not _is_plain(self.value, MAX_VALUE_DEPTH):
            raise ValueError("a value holds what no answer's value holds")


class Shard(Struct, frozen=True):
    """A block of an array, on one device by its number: an interval for each dimension."""

    device: Size
    block: tuple[tuple[Size, Size], ...]
    contents: Contents


class Shards(Struct, frozen=True, tag="shards"):
    """What one process holds of an array that several share."""

    shape: tuple[Size, ...]
    dtype: str
    shards: tuple[Shard, ...]


class OwnArray(Struct, frozen=True, tag="array"):
    """An array of one process's own: NumPy's, or on one device."""

    contents: Contents


class ProcessResult(Struct, frozen=True):
    """What a function returned in one process; or why it did not, in a word and in a sentence."""

    parts: tuple[Shards | OwnArray | Value, ...] = ()
    why: str = ""
    sentence: str = ""


class File(Struct, frozen=True):
    """A file that a process wrote: what `np.load` reads in it, or why it cannot."""

    name: str
    contents: Contents | None
    sentence: str = ""


class Run(Struct, frozen=True):
    """One call of a function by several processes: a result for each, and the files they wrote."""

    results: tuple[ProcessResult, ...]
    files: tuple[File, ...] = ()


class Runs(Struct, frozen=True, tag="observed-runs"):
    """A function, called by several processes for each case; the last call may have failed.

    When a class is graded, the grader starts these processes, and no kernel's word is taken.
    """

    runs: tuple[Run, ...]


class Unanswered(Struct, frozen=True, tag="unanswered"):
    """The cell is as it was handed out."""


class NotCaptured(Struct, frozen=True, tag="not-captured"):
    """An answer that no evidence could be made of: why in a word, and in a sentence."""

    why: str
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
"""What became of one answer; a `Fault` says that the capturing of it failed, by no fault of it."""


class Evidence(Struct, frozen=True):
    """All that leaves the kernel about one exercise: a piece for each answer, by name."""

    exercise: str
    answers: dict[str, Piece]


class MalformedEvidenceError(ValueError):
    """Evidence is not in the form that `capture` gives it."""


def to_json(evidence: Evidence) -> Any:
    """Evidence as the plain objects that JSON has."""
    return msgspec.to_builtins(evidence)


def from_json(data: object) -> Evidence:
    """Evidence from plain objects, checked.

    Raises:
        MalformedEvidenceError: it has another form.
    """
    try:
        return msgspec.convert(data, Evidence)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MalformedEvidenceError(f"The evidence has the wrong form: {error}") from error


def _is_plain(value: object, depth: int) -> bool:
    """Whether a value is of numbers that a computer counts in, strings, and tables of them."""
    match value:
        case int():  # truth values too
            return abs(value) < 1 << 63
        case None | float() | str():
            return True
        case list():
            return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
        case dict():
            return depth > 0 and all(
                isinstance(key, str) and _is_plain(item, depth - 1) for key, item in value.items()
            )
    return False
