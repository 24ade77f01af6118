"""The text of a compiled program, read instruction by instruction.

`compiled.as_text()` is the one form of a compiled program that every supported version of JAX
gives. It holds names of the learner's choosing (functions, scopes, files), so nothing is ever
searched for in it: each line is taken apart by its grammar, and an opcode is what stands where
opcodes stand.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from autograder.programs.collective import Frame

BYTES = {
    "pred": 1, "s4": 0.5, "u4": 0.5, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "s32": 4, "u32": 4,
    "s64": 8, "u64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "c64": 8, "c128": 16,
    "f8e4m3fn": 1, "f8e5m2": 1, "f8e4m3": 1, "f8e4m3fnuz": 1, "f8e5m2fnuz": 1, "f8e4m3b11fnuz": 1,
}  # fmt: skip
"""Bytes that an element of each HLO type takes; tokens and opaque values take none."""

ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([0-9,<=?]*)\]")
INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([^\s=]+) = ")
COMPUTATION = re.compile(r"(?:ENTRY )?%?([^\s(]+) .*\{$")
TABLE_ROW = re.compile(r'(\d+) (?:"(.*)"|\{(.*)\})$')


@dataclass(frozen=True)
class Instruction:
    """One instruction of a computation.

    Attributes:
        name: its name within the program.
        opcode: what it does, as HLO spells it.
        arrays: the type and dimensions of each array in its result.
        operands: the names of what it takes.
        attributes: what follows the operands, by name, as text; of a constant, its `value` too.
    """

    name: str
    opcode: str
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    operands: tuple[str, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of each array in the result, on one device."""
        sizes = []
        for dtype, dimensions in self.arrays:
            count = 1
            for size in dimensions:
                count *= size
            sizes.append(int(count * BYTES.get(dtype, 0)))
        return tuple(sizes)

    @property
    def called(self) -> tuple[str, ...]:
        """The computations that it names: a loop's body, a fusion's inside, a branch."""
        names: list[str] = []
        for key in ("calls", "to_apply", "body", "condition", "true_computation",
                    "false_computation", "branch_computations", "called_computations"):  # fmt: skip
            text = self.attributes.get(key, "").strip("{}")
            names += [name.strip().removeprefix("%") for name in text.split(",") if name.strip()]
        return tuple(names)


@dataclass
class Program:
    """A compiled program.

    Attributes:
        computations: the instructions of each computation, by its name; its root is the last.
        entry: the name of the computation that runs first.
        tables: the files, functions, locations and stack frames that instructions refer to.
    """

    computations: dict[str, dict[str, Instruction]] = field(default_factory=dict)
    entry: str = ""
    tables: dict[str, dict[int, str]] = field(default_factory=dict)

    def stack(self, instruction: Instruction) -> tuple[Frame, ...]:
        """The lines of source that an instruction comes from, the innermost first."""
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
            number = int(row.get("parent_frame_id", 0))
        if not frames and "source_file" in metadata:
            file = metadata["source_file"].strip('"')
            frames.append(Frame(file, int(metadata.get("source_line", 0)), ""))
        return tuple(frames)


def parse(text: str) -> Program:
    """Read the text of a compiled program, in time that grows with its length."""
    program = Program()
    computation: dict[str, Instruction] | None = None
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


def _instruction(line: str) -> Instruction | None:
    """One line of a computation; None for what continues a constant."""
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
    return Instruction(
        name=head[1],
        opcode=opcode,
        arrays=tuple(
            (dtype, tuple(int(size.strip("<=?") or 0) for size in sizes.split(",") if size))
            for dtype, sizes in ARRAY.findall(shape)
        ),
        operands=tuple(_name(word) for word in pieces(inside, ",") if word),
        attributes=attributes,
    )


def attributes_of(text: str, separator: str = ",") -> dict[str, str]:
    """`name=value` pairs; a value may hold separators within brackets and quotes."""
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
    """The parts of a text between separators that stand outside of brackets and quotes."""
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
    """Each character that is in no string, with its place. Strings escape with backslashes."""
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
    """Where the bracket that opens at a place is closed."""
    depth = 0
    for i, char in _outside_quotes(text, opening):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:
            return i
    return len(text)


def _end_of_shape(line: str, start: int) -> int:
    """Where the type of an instruction's result ends: at a space outside of brackets."""
    depth = 0
    for i, char in _outside_quotes(line, start):
        depth += (char in "([{") - (char in ")]}")
        if char == " " and depth == 0:
            return i
    return len(line)


def _name(operand: str) -> str:
    """The name in an operand, which may come with its type and with comments."""
    return re.sub(r"/\*.*?\*/", "", operand).split()[-1].removeprefix("%")
