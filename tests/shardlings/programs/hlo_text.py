"""A second, independent reader of compiled programs, for tests: it parses their text.

`shardlings.programs.compiled` reads the serialised module instead. Both must find the same in
recorded programs, in random ones and in every answer of a bank. Never use this one for grading: XLA
does not escape all names in the text, so a name can end a computation.
"""

import functools
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from shardlings.programs.collective import Frame, Groups
from shardlings.programs.compiled.hlo import CompiledProgram, Instruction, collective_kind

ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([0-9,<=?]*)\]")
INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([^\s=]+) = ")
COMPUTATION = re.compile(r"(?:ENTRY )?%?([^\s(]+) .*\{$")
TABLE_ROW = re.compile(r'(\d+) (?:"(.*)"|\{(.*)\})$')

NAMED = ("convert", "get-tuple-element")

NOT_COMPARED = (
    "metadata", "backend_config", "calls", "to_apply", "body", "condition", "true_computation",
    "false_computation", "branch_computations", "called_computations", "sharding", "kind", "index",
    "frontend_attributes", "control-predecessors", "origin",
)  # fmt: skip
"""Attributes that do not decide what an instruction computes, or are read separately."""


@dataclass(frozen=True)
class Line:
    """One instruction of a computation, as text.

    Attributes:
        name: its name within the program.
        opcode: what it does, as HLO spells it.
        arrays: the type and dimensions of each array in its result.
        operands: the names of its operands.
        attributes: the attributes after the operands, by name, and the `value` of a constant.
    """

    name: str
    opcode: str
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    operands: tuple[str, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def called(self) -> tuple[str, ...]:
        """The computations that it names: a loop's body, a fusion's computation, a branch."""
        names: list[str] = []
        for key in ("calls", "to_apply", "body", "condition", "true_computation",
                    "false_computation", "branch_computations", "called_computations"):  # fmt: skip
            text = self.attributes.get(key, "").strip("{}")
            names += [name.strip().removeprefix("%") for name in text.split(",") if name.strip()]
        return tuple(names)


@dataclass
class Text:
    """A compiled program, as text.

    Attributes:
        computations: the instructions of each computation, by its name, the root last.
        entry: the name of the computation that runs first.
        tables: the files, functions, locations and stack frames that instructions refer to.
    """

    computations: dict[str, dict[str, Line]] = field(default_factory=dict)
    entry: str = ""
    tables: dict[str, dict[int, str]] = field(default_factory=dict)

    def stack(self, instruction: Line) -> tuple[Frame, ...]:
        """Return the lines of source that an instruction comes from, the innermost first."""
        metadata = attributes_of(instruction.attributes.get("metadata", "")[1:-1], separator=" ")
        frames = []
        number = int(metadata.get("stack_frame_id", 0))
        seen: set[int] = set()
        while number and number not in seen:
            seen.add(number)
            row = attributes_of(self.tables.get("StackFrames", {}).get(number, ""), separator=" ")
            location = int(row.get("file_location_id", 0))
            place = attributes_of(
                self.tables.get("FileLocations", {}).get(location, ""), separator=" "
            )
            if place:
                frames.append(
                    Frame(
                        self.tables["FileNames"][int(place["file_name_id"])],
                        int(place["line"]),
                        self.tables["FunctionNames"][int(place["function_name_id"])],
                    )
                )
            number = int(row.get("parent_frame_id", 1)) - 1  # XLA prints the number after it
        if not frames and "source_file" in metadata:
            file = metadata["source_file"].strip('"')
            frames.append(Frame(file, int(metadata.get("source_line", 0)), ""))
        return tuple(frames)


def parse(text: str) -> Text:
    """Parse the text of a compiled program, in time proportional to its length."""
    program = Text()
    computation: dict[str, Line] | None = None
    table: dict[int, str] | None = None
    root = ""
    for line in text.splitlines():
        if computation is not None:
            if line.startswith("}"):
                if root in computation:
                    computation[root] = computation.pop(root)
                computation, root = None, ""
            else:
                instruction = _instruction(line)
                if instruction is not None:
                    computation[instruction.name] = instruction
                    if line.lstrip().startswith("ROOT "):
                        root = instruction.name
        elif line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            table = program.tables.setdefault(line, {})
        elif table is not None and (row := TABLE_ROW.match(line)):
            table[int(row[1])] = row[2] if row[2] is not None else row[3]
        elif (header := COMPUTATION.match(line)) and "->" in line:
            table = None
            computation = program.computations.setdefault(header[1], {})
            if line.startswith("ENTRY "):
                program.entry = header[1]
    return program


def _instruction(line: str) -> Line | None:
    """Parse one line of a computation; None for a line that continues a constant."""
    head = INSTRUCTION.match(line)
    if head is None:
        return None
    shape_end = _end_of_shape(line, head.end())
    opcode_end = line.find("(", shape_end)
    if opcode_end < 0:
        return None
    close = _matching(line, opcode_end)
    shape = line[head.end() : shape_end]
    opcode = line[shape_end:opcode_end].strip()
    inside = line[opcode_end + 1 : close]
    attributes = attributes_of(line[close + 1 :].lstrip(", "))
    if opcode == "constant":
        attributes, inside = {**attributes, "value": inside}, ""
    return Line(
        name=head[1],
        opcode=opcode,
        arrays=tuple(
            (dtype, tuple(int(size.strip("<=?") or 0) for size in sizes.split(",") if size))
            for dtype, sizes in ARRAY.findall(shape)
        ),
        operands=tuple(_name(word) for word in pieces(inside, ",") if word),
        attributes=attributes,
    )


@functools.lru_cache(2**16)  # a program's rows of locations are asked for by every instruction
def attributes_of(text: str, separator: str = ",") -> Mapping[str, str]:
    """Parse `name=value` pairs, whose values may contain separators in brackets and quotes."""
    found: dict[str, str] = {}
    last = ""
    for piece in pieces(text, separator):
        name, equals, value = piece.partition("=")
        if equals and re.fullmatch(r"[a-z_]+", name) and name != "device_ids":
            found[name] = value
            last = name
        elif last:  # `replica_groups=mesh[...], device_ids=(...) {...}` is one value
            found[last] += f"{separator}{piece}"
    return found


def pieces(text: str, separator: str) -> Iterator[str]:
    """Split a text at the separators that are outside of brackets and quotes."""
    start = depth = 0
    for i, char in _outside_quotes(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == separator and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


def _outside_quotes(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield each character outside of strings, with its index. A backslash escapes in a string."""
    quoted = escaped = False
    for i in range(start, len(text)):
        char = text[i]
        if quoted:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                quoted = False
        elif char == '"':
            quoted = True
        else:
            yield i, char


def _matching(text: str, opening: int) -> int:
    """Return the index of the bracket that closes the one at `opening`."""
    depth = 0
    for i, char in _outside_quotes(text, opening):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:
            return i
    return len(text)


def _end_of_shape(line: str, start: int) -> int:
    """Return where the type of an instruction's result ends: at a space outside of brackets."""
    depth = 0
    for i, char in _outside_quotes(line, start):
        depth += (char in "([{") - (char in ")]}")
        if char == " " and depth == 0:
            return i
    return len(line)


def _name(operand: str) -> str:
    """Return the name of an operand, which may have a type and comments before it."""
    return re.sub(r"/\*.*?\*/", "", operand).split()[-1].removeprefix("%")


def program_of_text(text: str) -> CompiledProgram:
    """Read a compiled program from its text."""
    written = parse(text)
    header = text.split("\n", 1)[0]
    numbers = (
        re.search(rf"\b{name}=(\d+)", header) for name in ("num_partitions", "replica_count")
    )
    partitions = max([int(number[1]) for number in numbers if number], default=1)
    names = [(c, i) for c, lines in written.computations.items() for i in lines]
    number = {name: place for place, name in enumerate(names)}
    places = {name: place for place, name in enumerate(written.computations)}
    return CompiledProgram(
        {
            places[name]: {
                number[name, line.name]: _read(written, name, line, number, places, partitions)
                for line in lines.values()
            }
            for name, lines in written.computations.items()
        },
        places[written.entry],
        partitions,
    )


def _read(written, computation, line, number, places, partitions):
    attributes, plain = line.attributes, line.opcode in ("parameter", "constant")
    pairs, groups = attributes.get("source_target_pairs"), attributes.get("replica_groups")
    called = [places[name] for name in line.called if name in places]
    collective = collective_kind(line.opcode)
    return Instruction(
        number=number[computation, line.name],
        opcode=line.opcode,
        arrays=line.arrays,
        operands=() if plain else tuple(number[computation, name] for name in line.operands),
        called=tuple(called),
        index=int(line.operands[0] if line.opcode == "parameter" else attributes.get("index", 0)),
        constant=_integers(attributes["value"]) if line.opcode == "constant" else None,
        groups=listed_groups(pairs) if pairs else replica_groups(groups or "{}", partitions),
        comparison=attributes.get("direction", ""),
        is_unsigned=attributes.get("type") == "UNSIGNED",
        contracting=_numbers(attributes.get("lhs_contracting_dims", "")),
        window=_window_sizes(attributes) if line.opcode == "reduce-window" else (),
        sorted_along=_numbers(attributes.get("dimensions", "")) if line.opcode == "sort" else (),
        custom_call_target=attributes.get("custom_call_target", "").strip('"'),
        fft_lengths=_numbers(attributes.get("fft_length", "")),
        other_fields=repr(
            [pair for pair in sorted(attributes.items()) if pair[0] not in NOT_COMPARED]
        ).encode(),
        known_trip_count=_trip_count(attributes.get("backend_config", "")),
        stack=written.stack(line),
        name=_parameter_name(attributes) if line.opcode == "parameter" else "",
        op_name=_op_name(attributes) if collective or line.opcode in NAMED else "",
    )


def _window_sizes(attributes: Mapping[str, str]) -> tuple[int, ...]:
    window = attributes_of(attributes.get("window", "")[1:-1], separator=" ")
    return _numbers(window.get("size", ""))


def _op_name(attributes: Mapping[str, str]) -> str:
    """Return JAX's name of an operation, without the backslashes that XLA writes in text."""
    metadata = attributes_of(attributes.get("metadata", "")[1:-1], separator=" ")
    name = metadata.get("op_name", "").removeprefix('"').removesuffix('"')
    return re.sub(rb"\\([0-7]{3}|.)", _unescape, name.encode()).decode(errors="backslashreplace")


def _unescape(escaped: re.Match[bytes]) -> bytes:
    if len(escaped[1]) == 3:
        return bytes([int(escaped[1], 8)])
    return {b"n": b"\n", b"t": b"\t", b"r": b"\r"}.get(escaped[1], escaped[1])


def _parameter_name(attributes: Mapping[str, str]) -> str:
    """Return JAX's name of a parameter, in which it has escaped quotation marks once more."""
    return _op_name(attributes).replace("\\'", "'")


def _integers(value: str) -> tuple[int, ...] | None:
    """Return the numbers of a constant, if all are integers."""
    words = re.findall(r"[^\s,{}]+", value)
    whole = all(re.fullmatch(r"-?\d+", word) for word in words)
    return tuple(map(int, words)) if words and whole else None


def _trip_count(configuration: str) -> int | None:
    try:
        return int(json.loads(configuration)["known_trip_count"]["n"])
    except (KeyError, TypeError, ValueError):
        return None


def replica_groups(text: str, partitions: int) -> Groups:
    """Read a collective's groups of partitions from any of the forms that HLO has for them.

    `{{0,1},{2,3}}` lists them; `[2,4]<=[4,2]T(1,0)` counts through a transposed grid;
    `mesh['a'=4,'b'=2], device_ids=([4,2]T(1,0)) {'a':(2)2}` names axes of a mesh, or parts of one:
    `(2)2` is the part of size 2 that comes after a part of size 2.
    """
    text = text.strip()
    if text.startswith("mesh"):
        return _mesh_groups(text)
    if text.startswith("["):
        shape, _, source = text.partition("<=")
        return _rows(_transposed_grid(source).reshape(_numbers(shape)))
    groups = listed_groups(text)
    return groups or (tuple(range(partitions)),)


def _mesh_groups(text: str) -> Groups:
    head, _, rest = text.partition("]")
    sizes = {name: int(size) for name, size in re.findall(r"'([^']*)'=(\d+)", head)}
    order = re.search(r"device_ids=\((.*?)\) ", f"{rest} ")
    chosen = re.findall(r"'([^']*)'(?::\((\d+)\)(\d+))?", rest.rpartition("{")[2])
    devices = np.arange(math.prod(sizes.values()))
    if order:
        devices = _transposed_grid(order[1]).reshape(-1)
    dimensions: list[int] = []
    places: dict[int, int] = {}
    for name, size in sizes.items():
        parts = [
            (int(before or 1), int(own or size), place)
            for place, (n, before, own) in enumerate(chosen)
            if n == name
        ]
        done = 1
        for before, own, place in sorted(parts):
            dimensions += [before // done, own]
            places[place] = len(dimensions) - 1
            done = before * own
        dimensions.append(size // done)
    inner = [places[place] for place in sorted(places)]  # in the order in which axes are named
    grid = devices.reshape(dimensions)
    outer = [d for d in range(grid.ndim) if d not in inner]
    count = math.prod(dimensions[d] for d in inner)
    return _rows(grid.transpose(*outer, *inner).reshape(-1, count))


def _transposed_grid(text: str) -> np.ndarray:
    """Return the numbers from 0 on in a transposed grid, such as `[4,2]T(1,0)`."""
    shape, _, order = text.partition("T")
    grid = np.arange(math.prod(_numbers(shape))).reshape(_numbers(shape))
    return grid.transpose(_numbers(order)) if order else grid


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def listed_groups(text: str) -> Groups:
    """Read listed groups, or the pairs of a permutation, such as `{{0,1},{2,3}}`."""
    return tuple(_numbers(group) for group in re.findall(r"\{([\d, ]+)\}", text))


def _rows(grid: np.ndarray) -> Groups:
    return tuple(tuple(int(i) for i in row) for row in grid)
