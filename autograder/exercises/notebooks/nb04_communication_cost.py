"""Notebook 04: what a compiled program communicates, and what that costs.

Every right number here follows from the ring formulas, from the machines in `programs.MACHINES`, or
from what `communication` reads. `tests/exercises/test_communication_cost.py` repeats the arithmetic
with the installed JAX. 4.1 is the notebook's bonus, so it comes last in `EXERCISES`, too.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, combinations
from typing import Any, Final

import jax
import numpy as np

from autograder.judge import AnyOrder, Exercise, Mistake, Predicts, Returns, RunsFast
from shardlings.programs import BFLOAT16, MACHINES

COLLECTIVES: Final = (
    "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute",
)  # fmt: skip

ELEMENT: Final = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "f64": 8}
"""Bytes per element of each HLO element type."""

INSTRUCTION: Final = re.compile(r"^\s*(?:ROOT )?%(\S+) = (?:\(.*?\)|\S+) ([\w-]+)\(", re.MULTILINE)
"""Match an instruction, with its name and its opcode as groups."""


# 4.1: the text of a compiled program


def _type(rng: np.random.Generator) -> str:
    """Sample the type of an array, such as `f32[16,8]{1,0}`."""
    sizes = rng.integers(1, 17, int(rng.integers(0, 4)))
    order = f"{{{','.join(map(str, reversed(range(len(sizes)))))}}}" if len(sizes) else ""
    return f"{rng.choice(list(ELEMENT))}[{','.join(map(str, sizes))}]{order}"


def _types(rng: np.random.Generator, several: bool) -> str:
    if not several:
        return _type(rng)
    return f"({', '.join(_type(rng) for _ in range(int(rng.integers(2, 4))))})"


def _groups(rng: np.random.Generator, form: int, size: int) -> str:
    """Write groups of `size` devices in one of the forms that XLA has for them."""
    confused = (size, size // 2) if form == 3 else (size,)  # the size of an axis in this form
    count = int(rng.choice([count for count in (2, 4, 8) if count not in confused]))
    if form == 0:
        listed = np.arange(8, 16).reshape(-1, size)
        if size == 2:  # neither the number of digits nor the largest device says the size
            listed = 2 + np.arange(16).reshape(2, -1).T
        return f"{{{','.join('{' + ','.join(map(str, group)) + '}' for group in listed)}}}"
    if form == 1:
        return f"[{count},{size}]<=[{count * size}]"
    if form == 2:  # for large groups, no number of the second pair is the number of groups
        rows = size // 2 if size > 2 else size
        return f"[{count},{size}]<=[{rows},{count * size // rows}]T(1,0)"
    if form == 3:  # along two axes of three
        return f"mesh['a'={size // 2},'b'={count},'c'=2] {{'a','c'}}"
    return f"mesh['a'={count},'data'={size}] {{'data'}}"  # one name is in the other


def _lines(rng: np.random.Generator) -> list[tuple[str]]:
    """Sample lines of collectives, two sizes of each form, short enough for a verdict."""
    made, sizes = [], {1: (4, 16), 2: (2, 32), 3: (4, 8)}
    for form in rng.permutation(5).tolist():
        for size in sizes.get(form, (2, 4)):
            kind = str(rng.choice(COLLECTIVES[:2]))
            made.append(
                f"%{kind}.{rng.integers(1, 90)} = f32[{rng.integers(2, 60)}]{{0}} {kind}(%p.0), "
                f"replica_groups={_groups(rng, form, size)}"
            )
    return [(line,) for line in made]


def _programs(rng: np.random.Generator) -> list[tuple[str]]:
    """Sample three programs. Each lacks kinds that the others have, so the right lists differ."""
    first, second, third, *_ = map(str, rng.permutation(COLLECTIVES))
    return [
        (_program(rng, lacks, lines),)
        for lacks, lines in (({first}, 7), ({second}, 5), ({third, first}, 9))
    ]


def _program(rng: np.random.Generator, lacks: set[str], lines: int) -> str:
    """Sample a program with every kind of line that can be mistaken for another.

    Args:
        rng: the generator that samples the program.
        lacks: the kinds of collectives that the program only mentions.
        lines: the number of collectives, besides three that are always there.
    """
    has = [kind for kind in COLLECTIVES if kind not in lacks]
    more = map(str, rng.choice(has, lines - len(has)))
    sure = list(map(str, rng.permutation([*has, *more])))
    number = iter(rng.permutation(90).tolist())
    blocks, added = [], f"add.{next(number)}"
    last = f"  ROOT {_instruction(rng, 'last', sure.pop(), added, several=False).strip()}"
    for kind in sure:
        blocks.append([_instruction(rng, f"{kind}.{next(number)}", kind)])
    halved = [kind for kind in has if kind in ("all-gather", "all-reduce", "collective-permute")]
    for kind in map(str, rng.choice(halved, 2)):
        start = f"{kind}-start.{next(number)}"
        blocks.append(
            [
                _instruction(rng, start, f"{kind}-start"),
                _instruction(rng, f"{kind}-done.{next(number)}", f"{kind}-done", start),
            ]
        )
    blocks[0] = [_instruction(rng, f"{sure[0]}.{next(number)}", sure[0], several=True)]
    a, b, c, d = str(rng.choice(has)), *map(str, rng.permutation(COLLECTIVES)[:2]), min(lacks)
    blocks += [
        [_instruction(rng, f"psum.{next(number)}", a)],  # a collective with another name
        [_instruction(rng, f"{b}.{next(number)}", "copy")],  # no collective, with the name of one
        [_instruction(rng, f"fusion.{next(number)}", "fusion", f"{c}.1")],
        [_instruction(rng, added, "add", note=f"jit(f)/the {d}(x)")],
    ]
    order = rng.permutation(len(blocks))
    body = [line for i in order for line in blocks[i]]
    return "\n".join(
        [
            "HloModule jit_f, is_scheduled=true, num_partitions=8",
            "",
            "ENTRY %main (param.0: f32[16,8]) -> f32[16,8] {",
            "  %param.0 = f32[16,8]{1,0} parameter(0)",
            *body,
            last,
            "}",
        ]
    )


def _instruction(
    rng: np.random.Generator,
    name: str,
    opcode: str,
    operand: str = "param.0",
    note: str = "f",
    several: bool | None = None,
) -> str:
    is_tuple = bool(rng.integers(2)) if several is None else several
    operands = f"%{operand}, %{operand}" if is_tuple else f"%{operand}"
    has_groups = opcode.removesuffix("-start") in COLLECTIVES[:-1]
    groups = ", replica_groups=[2,4]<=[8]" * has_groups
    typed = _types(rng, several=is_tuple)
    return f'  %{name} = {typed} {opcode}({operands}){groups}, metadata={{op_name="{note}"}}'


def _kind(opcode: str) -> str:
    return opcode.removesuffix("-start").removesuffix("-done")


def _opcodes(text: str) -> list[str]:
    return [opcode for _, opcode in INSTRUCTION.findall(text)]


def _kinds(text: str) -> list[str]:
    once = [_kind(opcode) for opcode in _opcodes(text) if not opcode.endswith("-done")]
    return [kind for kind in once if kind in COLLECTIVES]


def _list_collective_lines(text: str) -> list[str]:
    """List the lines of collectives up to their operands, and of two halves the first one's."""
    lines = (line.strip() for line in text.splitlines() if _kinds(line))
    return [f"{line.partition('), ')[0]})" for line in lines]


def _both_halves(text: str) -> list[str]:
    return [_kind(opcode) for opcode in _opcodes(text) if _kind(opcode) in COLLECTIVES]


def _drop_lines(text: str, left_out: Iterable[str]) -> list[str]:
    """Return the lines of a program that contain none of these words."""
    return [row for row in text.splitlines() if not any(word in row for word in left_out)]


def _left_out(*words: str) -> list[tuple[str, ...]]:
    """List all subsets of these words, the empty one first.

    A learner who counts collectives by one wrong rule may miss lines by another: many regular
    expressions do not match a line that begins with `ROOT`.
    """
    return [tuple(some) for i in range(len(words) + 1) for some in combinations(words, i)]


def _mentions(text: str, left_out: Iterable[str] = (), once: bool = False) -> list[str]:
    """List the kinds that lines mention: all of them, or the first of each line."""
    mentioned = ([k for k in COLLECTIVES if k in row] for row in _drop_lines(text, left_out))
    return [kind for kinds in mentioned for kind in kinds[: 1 if once else None]]


def _right_of_equals(text: str, left_out: Iterable[str] = (), once: bool = False) -> list[str]:
    """List the kinds that are mentioned to the right of the equals sign."""
    rows = (row.partition(" = ")[2] for row in text.splitlines())
    return _mentions("\n".join(rows), left_out, once)


def _mentioned_calls(
    text: str,
    half: str = "(?:-start)?",
    arrange: Callable[[list[str]], list[str]] = lambda kinds: kinds,
) -> list[str]:
    """List the kinds that a parenthesis follows, arranged in this way."""
    return arrange(re.findall(rf"({'|'.join(COLLECTIVES)}){half}\(", text))


def _by_kind(kinds: list[str]) -> list[str]:
    return sorted(kinds, key=COLLECTIVES.index)


def _in_any_order(half: str) -> Mistake:
    """Return the readings of what a parenthesis follows: in order, by kind or by the alphabet."""
    return Mistake(
        partial(_mentioned_calls, half=half),
        *(partial(_mentioned_calls, half=half, arrange=how) for how in (_by_kind, sorted)),
    )


def _words(text: str) -> list[str]:
    return [kind for kind in COLLECTIVES for _ in range(text.count(kind))]


def _after_percent(text: str, left_out: Iterable[str] = ()) -> list[str]:
    """List the kinds with which the name of an instruction or an operand begins."""
    return re.findall(rf"%({'|'.join(COLLECTIVES)})", "\n".join(_drop_lines(text, left_out)))


def _read_without(
    read: Callable[[str], list[str]], text: str, left_out: Iterable[str]
) -> list[str]:
    """Read a program without the lines that contain one of these words."""
    return read("\n".join(_drop_lines(text, left_out)))


def _missing(read: Callable[[str], list[str]], *words: str) -> Mistake:
    """Return the readings that miss the lines with one or several of these words."""
    return Mistake(
        *(partial(_read_without, read, left_out=some) for some in _left_out(*words) if some)
    )


def _by_name(text: str) -> list[str]:
    names = [re.split(r"\.|-start|-done", name)[0] for name, _ in INSTRUCTION.findall(text)]
    return [name for name in names if name in COLLECTIVES]


def _names_too(text: str, choose: Callable[[list[str]], list[str]]) -> list[str]:
    """List the kinds in the names and in the opcodes of instructions.

    Args:
        text: the program.
        choose: which kinds of a line count: that of its name comes first, then that of its opcode.
    """
    listed = []
    for name, opcode in INSTRUCTION.findall(text):
        kinds = [re.split(r"\.|-start|-done", name)[0], _kind(opcode)]
        listed += choose([kind for kind in kinds if kind in COLLECTIVES])
    return listed


def _first_kind(kinds: list[str]) -> list[str]:
    return kinds[:1]


def _last_kind(kinds: list[str]) -> list[str]:
    return kinds[-1:]


def _sizes(text: str) -> list[tuple[str, list[int]]]:
    """Return the element type and the sizes of each array in a type."""
    return [
        (element, [int(size) for size in sizes.split(",") if size])
        for element, sizes in re.findall(r"(\w+)\[([\d,]*)\]", text)
    ]


def _bytes_of(text: str, width: Callable[[str], int] = ELEMENT.__getitem__) -> int:
    return int(sum(width(element) * np.prod(sizes, dtype=int) for element, sizes in _sizes(text)))


def _scalars_are_nothing(text: str) -> int:
    return int(
        sum(
            ELEMENT[element] * np.prod(sizes, dtype=int) for element, sizes in _sizes(text) if sizes
        )
    )


def _sizes_added(text: str, scalar: int) -> int:
    """Return the bytes of a type if the sizes are added instead of multiplied."""
    return sum(ELEMENT[element] * (sum(sizes) or scalar) for element, sizes in _sizes(text))


def _arrays_multiplied(text: str) -> int:
    """Return the product of the bytes of a tuple's arrays, instead of their sum."""
    return math.prod(map(_bytes_of, re.findall(r"\w+\[[\d,]*\]", text)))


def _first_array(text: str) -> int:
    return _bytes_of(text.split("]")[0] + "]")


def _groups_of(line: str) -> tuple[int, int]:
    """Return the number of groups, and the number of devices in each."""
    groups = line.partition("replica_groups=")[2]
    if groups.startswith("mesh"):
        axes, _, along = groups.partition("]")
        sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", axes)}
        named = re.findall(r"'(\w+)'", along.partition("}")[0])
        size = math.prod(sizes[name] for name in named)
        return math.prod(sizes.values()) // size, size
    if groups.startswith("["):
        count, listed = groups[1:].partition("]")[0].split(",")
        return int(count), int(listed)
    each = groups[1:].partition("}}")[0].split("},")
    return len(each), len(each[0].split(","))


def _group_size(line: str) -> int:
    return _groups_of(line)[1]


def _number_of_groups(line: str) -> int:
    return _groups_of(line)[0]


def _all_devices(line: str) -> int:
    return math.prod(_groups_of(line))


FORMS: Final = ("{", "[", "mesh")
"""The beginning of groups in each form: in full, in brackets, and along the axes of a mesh."""


def _mistake_in(line: str, forms: Sequence[str], mistaken: Callable[[str], int]) -> int:
    """Return the size of a group, with a mistake only if the groups are in one of these forms."""
    mine = line.partition("replica_groups=")[2].startswith(tuple(forms))
    return mistaken(line) if mine else _group_size(line)


def _in_forms(mistaken: Callable[[str], int], *forms: str) -> Mistake:
    """Return the functions that make this mistake in one or several of these forms."""
    some = chain.from_iterable(combinations(forms, i + 1) for i in range(len(forms)))
    return Mistake(*(partial(_mistake_in, forms=each, mistaken=mistaken) for each in some))


def _axis_size(line: str, end: int, named: bool) -> int:
    """Return the size of the first or last mesh axis, of all axes or of those in braces."""
    axes, _, along = line.partition("replica_groups=")[2].partition("]")
    sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", axes)}
    names = re.findall(r"'(\w+)'", along.partition("}")[0]) if named else list(sizes)
    return sizes[names[end]]


def _number_of_groups_if_transposed(line: str) -> int:
    """Return the number of groups where a `T` follows, and else the devices in each."""
    return _groups_of(line)[0 if "T(" in line else 1]


def _of_order(line: str, place: int) -> int:
    """Return the first or the last number in the brackets after the arrow."""
    return int(line.partition("<=[")[2].partition("]")[0].split(",")[place])


def _first_digit(line: str) -> int:
    """Return the first digit of the size of groups in brackets."""
    return int(str(_group_size(line))[0])


def _number_of_axes(line: str) -> int:
    """Return how many axes of a mesh a group lies along."""
    along = line.partition("replica_groups=")[2].partition("]")[2]
    return len(re.findall(r"'(\w+)'", along.partition("}")[0]))


def _first_sizes(text: str) -> int:
    """Return the bytes of a type of whose arrays only the first size counts."""
    return sum(ELEMENT[element] * math.prod(sizes[:1]) for element, sizes in _sizes(text))


def _axes_added(line: str) -> int:
    """Return the sum of the sizes of the axes that a group lies along, instead of their product."""
    axes, _, along = line.partition("replica_groups=")[2].partition("]")
    sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", axes)}
    return sum(sizes[name] for name in re.findall(r"'(\w+)'", along.partition("}")[0]))


def _all_axes_added(line: str) -> int:
    """Return the sum of the sizes of all axes of a mesh."""
    return sum(map(int, re.findall(r"=(\d+)", line.partition("mesh[")[2].partition("]")[0])))


def _whole_mesh_or_number(line: str, forms: Sequence[str]) -> int:
    """Return the size of a whole mesh, and in these other forms the number of groups."""
    groups = line.partition("replica_groups=")[2]
    if groups.startswith("mesh"):
        return _all_devices(line)
    return _mistake_in(line, forms, _number_of_groups)


def _second_number(line: str) -> int:
    return int(re.findall(r"\d+", line.partition("replica_groups=")[2])[1])


def _last_pair(line: str) -> int:
    """Return the second number of the last pair in brackets, which may be the devices' order."""
    return int(re.findall(r"\[(\d+),(\d+)\]", line)[-1][1])


def _a_type_of_each(rng: np.random.Generator) -> list[tuple[str]]:
    several = [(_types(rng, several=True),) for _ in range(4)]
    some = [("f32[]",), ("bf16[4,2]{1,0}",), ("(f32[3]{0}, s8[40]{0}, bf16[2]{0})",)]
    some.append(("(f32[8]{0}, f32[8]{0})",))  # equal arrays count each
    return [*some, *several, *((_type(rng),) for _ in range(3))]


READER: Final = Exercise(
    id="4.1",
    title="A reader of collectives",
    afterwards="communication() does not read this text, because a program can hide things in it. "
    "XLA has the same program as a protocol buffer, in which opcodes and groups are fields and "
    "not words.",
    requirements=(
        Returns(
            "kinds",
            "kinds must return the kind of each collective that runs, in the order of the text.",
            _programs,
            _kinds,
            {
                "substring": Mistake(
                    *(
                        partial(_mentions, left_out=some, once=once)
                        for some in _left_out("ROOT", "-done")
                        for once in (False, True)
                    ),
                    says="This counts every line that mentions a collective, and also names, "
                    "operands and what is in quotes. What runs is the opcode.",
                ),
                "right-of-equals": Mistake(
                    *(
                        partial(_right_of_equals, left_out=some, once=once)
                        for some in _left_out("-done")
                        for once in (False, True)
                    ),
                    says="This counts everything to the right of the equals sign, operands and "
                    "notes as well as the opcode. What runs is the opcode alone.",
                ),
                "both-halves": Mistake(
                    _both_halves,
                    lambda text: sorted(_both_halves(text)),
                    lambda text: _by_kind(_both_halves(text)),
                    says="A collective in two halves, -start and -done, runs once. It is counted "
                    "twice here.",
                ),
                "both-halves-with-the-suffix": Mistake(
                    lambda text: [
                        opcode for opcode in _opcodes(text) if _kind(opcode) in COLLECTIVES
                    ],
                    says="A collective in two halves is in the text twice, as its -start and as "
                    "its -done. It runs once, and its kind has no suffix.",
                ),
                "done-for-a-kind": Mistake(
                    lambda text: [
                        opcode
                        for opcode in _opcodes(text)
                        if _kind(opcode) in COLLECTIVES and not opcode.endswith("-start")
                    ],
                    says="All of them are there. A collective in two halves is listed as its "
                    "-done. Expected: its kind, which has no suffix.",
                ),
                "in-quotes-too": Mistake(
                    _in_any_order("(?:-start)?"),
                    says="This also counts what is in quotes, if a parenthesis follows. That is a "
                    "note for people: only the word after the type says what runs.",
                ),
                "in-quotes-both-halves": Mistake(
                    _in_any_order("(?:-start|-done)?"),
                    says="This also counts what is in quotes, if a parenthesis follows, and it "
                    "counts a collective in two halves, -start and -done, twice.",
                ),
                "in-quotes-no-halves": Mistake(
                    _in_any_order(""),
                    says="This also counts what is in quotes, if a parenthesis follows, and it "
                    "misses collectives in two halves, -start and -done.",
                ),
                "asynchronous-missed": Mistake(
                    lambda text: [o for o in _opcodes(text) if o in COLLECTIVES],
                    says="Collectives in two halves, -start and -done, are missing. They run, too, "
                    "once each.",
                ),
                "with-the-suffix": Mistake(
                    lambda text: [
                        opcode
                        for opcode in _opcodes(text)
                        if _kind(opcode) in COLLECTIVES and not opcode.endswith("-done")
                    ],
                    says="All of them are there. The kind of an all-gather-start is all-gather.",
                ),
                "names-too": Mistake(
                    *(
                        partial(_read_without, partial(_names_too, choose=choose), left_out=some)
                        for choose in (list, _first_kind, _last_kind)
                        for some in _left_out("ROOT", "-done")
                    ),
                    says="The names of instructions count here, too, such as that of the copy in "
                    "SAMPLE, %all-to-all.5. What runs is the opcode.",
                ),
                "by-name": Mistake(
                    _by_name,
                    _missing(_by_name, "ROOT"),
                    says="This goes by the names of instructions, to the left of the equals sign, "
                    "and counts each half. The compiler chooses names as it likes.",
                ),
                "by-name-once": Mistake(
                    *(
                        partial(_read_without, _by_name, left_out=(*some, half))
                        for half in ("-done.", "-start.")
                        for some in ((), ("ROOT",))
                    ),
                    says="This goes by the names of instructions, to the left of the equals sign. "
                    "The compiler chooses names as it likes: what runs is the opcode.",
                ),
                "after-percent": Mistake(
                    *(
                        partial(_after_percent, left_out=some)
                        for some in _left_out("ROOT", "-done")
                    ),
                    says="This counts every name after a %, those of operands as well. A name does "
                    "not say what an instruction does: what runs is the opcode.",
                ),
                "words-counted": Mistake(
                    _words,
                    says="This is how often the words are in the text. What runs is the opcode.",
                ),
                "root-missed": Mistake(
                    _missing(_kinds, "ROOT"),
                    says="One collective is missing: that of the last line, which begins with "
                    "ROOT, and whose name and operand are others than those of SAMPLE's first "
                    "lines.",
                ),
                "tuples-missed": Mistake(
                    _missing(_kinds, " = ("),
                    _missing(_both_halves, " = ("),
                    says="Collectives whose type is a tuple, in parentheses, are missing. These "
                    "have several operands.",
                ),
                "root-and-tuples-missed": Mistake(
                    partial(_read_without, _kinds, left_out=("ROOT", " = (")),
                    says="Two sorts of lines are missing: those whose type is a tuple, in "
                    "parentheses, and the last line of a program, which begins with ROOT.",
                ),
                "root-missed-both-halves": Mistake(
                    _missing(_both_halves, "ROOT"),
                    says="The last line of a program, which begins with ROOT, is missing. And a "
                    "collective in two halves, -start and -done, is counted twice.",
                ),
                "each-kind-once": Mistake(
                    lambda text: AnyOrder(set(_kinds(text))),
                    says="This lists each kind once. Expected: each collective as often as it "
                    "runs.",
                ),
                "by-kind": Mistake(
                    lambda text: _by_kind(_kinds(text)),
                    says="All of them are there, sorted by kind. Expected: the order of the text.",
                ),
                "in-alphabetical-order": Mistake(
                    lambda text: sorted(_kinds(text)),
                    says="All of them are there, in alphabetical order. Expected: the order of the "
                    "text.",
                ),
                "how-many": Mistake(
                    lambda text: len(_kinds(text)),
                    says="This is the number of collectives. Expected: a list of their kinds.",
                ),
            },
            lines=_list_collective_lines,
        ),
        Returns(
            "bytes_of",
            "bytes_of must return the number of bytes of a type.",
            _a_type_of_each,
            _bytes_of,
            {
                "elements": Mistake(
                    partial(_bytes_of, width=lambda _: 1),
                    says="This is the number of elements. Expected: bytes, so multiply by those of "
                    "the element type.",
                ),
                "four-bytes": Mistake(
                    partial(_bytes_of, width=lambda _: 4),
                    says="Every element has four bytes here. A bf16 has two, and a pred one.",
                ),
                "bits": Mistake(
                    lambda text: 8 * _bytes_of(text), says="These are bits. Expected: bytes."
                ),
                "scalars-are-nothing": Mistake(
                    _scalars_are_nothing,
                    says="An array without sizes, such as f32[], has one element. It counts "
                    "nothing here.",
                ),
                "first-of-tuple": Mistake(
                    _first_array,
                    says="This counts only the first array of a tuple. Add up all of them.",
                ),
                "largest-of-tuple": Mistake(
                    lambda text: max(map(_bytes_of, re.findall(r"\w+\[[\d,]*\]", text))),
                    says="This counts only the largest array of a tuple. Add up all of them.",
                ),
                "arrays-multiplied": Mistake(
                    _arrays_multiplied,
                    says="The bytes of a tuple's arrays are multiplied here, so two arrays of 10 "
                    "bytes would have 100.",
                ),
                "one-size": Mistake(
                    _first_sizes,
                    says="Only the first size of each array counts here. The number of elements is "
                    "the product of all sizes.",
                ),
                "sizes-added": Mistake(
                    *(partial(_sizes_added, scalar=scalar) for scalar in (0, 1)),
                    says="The sizes of an array are added here, so a 4 × 2 array would have 6 "
                    "elements.",
                ),
            },
        ),
        Returns(
            "group_size",
            "group_size must return the number of devices in one group.",
            _lines,
            _group_size,
            {
                "number-of-groups": Mistake(
                    _number_of_groups,
                    says="This is the number of groups. Expected: the number of devices in each.",
                ),
                "number-of-groups-in-brackets": Mistake(
                    _in_forms(_number_of_groups, "["),
                    says="For groups in brackets, as in [2,4]<=[8], this is the number of groups. "
                    "Expected: the number of devices in each.",
                ),
                "number-of-groups-if-transposed": Mistake(
                    _number_of_groups_if_transposed,
                    says="Where T(1,0) follows, this is the number of groups. The T is about the "
                    "order of the devices: with it and without it, the first pair of brackets is "
                    "[groups, devices in each].",
                ),
                "number-of-groups-in-full": Mistake(
                    _in_forms(_number_of_groups, "{"),
                    says="For groups in full, as in {{0,1},{2,3}}, this is the number of groups. "
                    "Expected: the number of devices in each.",
                ),
                "number-of-groups-of-a-mesh": Mistake(
                    _in_forms(_number_of_groups, "mesh"),
                    says="For groups along the axes of a mesh, this is the number of groups. "
                    "Expected: the number of devices in each.",
                ),
                "number-of-groups-in-some-forms": Mistake(
                    _in_forms(_number_of_groups, *FORMS),
                    says="In some of the forms, this is the number of groups. Expected: the number "
                    "of devices in each.",
                ),
                "whole-mesh": Mistake(
                    _in_forms(_all_devices, "mesh"),
                    says="For groups along the axes of a mesh, this is the size of the whole mesh. "
                    "The braces after it name the axes that a group lies along.",
                ),
                "all-devices": Mistake(
                    _all_devices,
                    says="This is the number of devices in all groups together. Expected: the "
                    "number in one group.",
                ),
                "all-devices-in-some-forms": Mistake(
                    _in_forms(_all_devices, *FORMS),
                    says="In some of the forms, this is the number of devices in all groups "
                    "together. Expected: the number in one group.",
                ),
                "one-axis": Mistake(
                    *(
                        _in_forms(partial(_axis_size, end=end, named=True), "mesh")
                        for end in (0, -1)
                    ),
                    says="For groups along the axes of a mesh, the braces may name several axes. "
                    "Only one of them counts here.",
                ),
                "any-axis": Mistake(
                    *(
                        _in_forms(partial(_axis_size, end=end, named=False), "mesh")
                        for end in (0, -1)
                    ),
                    says="For groups along the axes of a mesh, this is the size of an axis, but "
                    "not of the axes that the braces name.",
                ),
                "order-of-devices": Mistake(
                    *(_in_forms(partial(_of_order, place=place), "[") for place in (0, -1)),
                    says="What follows the arrow <= gives the order of the devices, and not how "
                    "many are in a group.",
                ),
                "one-digit": Mistake(
                    _in_forms(_first_digit, "["),
                    says="For groups in brackets, this is the first digit of the number of "
                    "devices. The number may have several.",
                ),
                "number-of-axes": Mistake(
                    _in_forms(_number_of_axes, "mesh"),
                    says="For groups along the axes of a mesh, this is how many axes the braces "
                    "name. Expected: the product of their sizes.",
                ),
                "sizes-of-axes-added": Mistake(
                    _in_forms(_axes_added, "mesh"),
                    says="For groups along the axes of a mesh, this adds the sizes of the axes "
                    "that the braces name. The number of devices in a group is the product of "
                    "these sizes.",
                ),
                "all-axes-added": Mistake(
                    _in_forms(_all_axes_added, "mesh"),
                    says="For groups along the axes of a mesh, this adds the sizes of all axes of "
                    "the mesh. Which of them do the braces name, and how many devices do these "
                    "make?",
                ),
                "whole-mesh-and-number-of-groups": Mistake(
                    *(
                        partial(_whole_mesh_or_number, forms=forms)
                        for forms in (("{",), ("[",), ("{", "["))
                    ),
                    says="Two things: for groups along the axes of a mesh, this is the size of the "
                    "whole mesh; and in another form, it is the number of groups. Expected: the "
                    "number of devices in each.",
                ),
                "second-number": Mistake(
                    _second_number,
                    says="This is the second number after `replica_groups=`, whatever the form. Is "
                    "it the number of devices in a group in all three forms?",
                ),
                "last-brackets": Mistake(
                    _in_forms(_last_pair, "["),
                    says="For groups in brackets, a second pair of brackets may follow the arrow "
                    "<=. It gives the order of the devices; the groups are in the first pair.",
                ),
            },
        ),
    ),
    hints=(
        "An instruction's opcode follows its type: `%name = type opcode(…)`. Its name, its "
        "operands and what is in quotes may contain anything. A line has only one opcode, and a "
        "regular expression that begins at the start of the line (`re.MULTILINE`) finds it.",
        "A type is one array, or several in parentheses: `(?:\\(.*?\\)|\\S+)` matches both. Of "
        "the two halves, -start and -done, count one, and remove the suffix.",
        "For bytes_of, `re.findall` with two groups, one for an element type and one for what is "
        "in brackets, finds all arrays; no sizes at all are one element. For group_size, look at "
        "what follows `replica_groups=`: in brackets, [groups,devices in each]; in braces, count "
        "the first group; after mesh, multiply the sizes of the axes that the braces name.",
    ),
    diagnoses={},
)


# 4.2: bytes sent

PASSES: Final = {
    "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1, "all-reduce": 2,
}  # fmt: skip


def _sent(kind: str, n: int, size: int, reduced: int = 2, in_a_ring: bool = False) -> float:
    if kind == "collective-permute" and not in_a_ring:
        return float(size)
    return (reduced if kind == "all-reduce" else 1) * (n - 1) / n * size


def _sent_among(kind: str, n: int, size: int, devices: int) -> float:
    """Return the bytes sent among so many devices, whatever n is."""
    return _sent(kind, devices, size)


def _exchange_and_permutation(kind: str, n: int, size: int) -> float:
    """Return the bytes sent, with the formulas of these two kinds exchanged."""
    other = {"all-to-all": "collective-permute", "collective-permute": "all-to-all"}
    return _sent(other.get(kind, kind), n, size)


def _times_n(kind: str, n: int, size: int, reduced: int = 2, permuted: str = "once") -> float:
    """Return the bytes sent if each of n - 1 steps sent a whole buffer."""
    if kind == "collective-permute" and permuted == "once":
        return float(size)
    return n * _sent(kind, n, size, reduced, in_a_ring=permuted == "in a ring")


def _one_piece(
    kind: str,
    n: int,
    size: int,
    passes: dict[str, int],
    permuted: Callable[[int, int], float],
    parts: Callable[[int], int] = lambda n: n,
) -> float:
    """Return the bytes sent if a ring had one step each time round, or its pieces another size."""
    if kind == "collective-permute":
        return float(permuted(n, size))
    return passes.get(kind, 1) * size / parts(n)


def _sent_but_for(
    wrong: str, instead: Callable[[int, int], float], kind: str, n: int, size: int
) -> float:
    """Return the bytes sent, with another formula for one of the kinds."""
    return instead(n, size) if kind == wrong else _sent(kind, n, size)


def _sample_sent(rng: np.random.Generator) -> list[tuple[str, int, int]]:
    # Not 2, for which n - 1 is 1 and different mistakes give the same result.
    counts = rng.permutation([4, 8, 16, 32, 64])
    return [
        (kind, int(n), int(n * rng.integers(1, 1000) * 4))
        for kind, n in zip([*COLLECTIVES, "all-reduce", "all-to-all"], [*counts, 3, 3], strict=True)
    ]


MIB: Final = 2**20

WHOLE_BUFFERS: Final = {
    "buffer": {
        "gather along x": 64,
        "gather along x and y": 128,
        "add up along x": 64,
        "exchange along x": 32,
    },
    "my-block": {"gather along x": 16, "gather along x and y": 16},
}
"""The buffers and blocks in MiB. One of them alone could also be what is sent along y."""


SENT: Final = Exercise(
    id="4.2",
    title="Bytes sent",
    afterwards="Rings send the fewest bytes possible, which matters for large buffers. Trees "
    "start fewer messages, which is better for small ones.",
    requirements=(
        Returns(
            "sent",
            "sent(kind, n, size) must return the bytes that one device sends.",
            _sample_sent,
            _sent,
            {
                "reduced-once": Mistake(
                    partial(_sent, reduced=1),
                    says="An all-reduce goes round the ring twice: first the pieces are added up, "
                    "and then the sums are gathered.",
                ),
                "one-formula": Mistake(
                    partial(_sent, reduced=1, in_a_ring=True),
                    says="All five kinds have the same formula here. Which of them goes round the "
                    "ring twice, and in which does a device send its whole buffer?",
                ),
                "whole-buffer-once": Mistake(
                    lambda kind, n, size: float(size),
                    says="This is the size of the buffer, whatever the kind. How much of it does a "
                    "device send round a ring?",
                ),
                "whole-buffer": Mistake(
                    lambda kind, n, size: float(PASSES.get(kind, 1) * size),
                    lambda kind, n, size: (
                        _sent(kind, n, size) if kind == "all-reduce" else float(size)
                    ),
                    lambda kind, n, size: (
                        _sent(kind, n, size)
                        if kind == "all-to-all"
                        else float(PASSES.get(kind, 1) * size)
                    ),
                    says="A device does not send its own piece to itself: of n pieces, n - 1 "
                    "travel.",
                ),
                "twice-for-one": Mistake(
                    *(
                        partial(_sent_but_for, kind, lambda n, size: 2 * (n - 1) / n * size)
                        for kind in ("all-gather", "reduce-scatter", "all-to-all")
                    ),
                    says="One of the other kinds goes round the ring twice here. Only an "
                    "all-reduce does.",
                ),
                "once-per-hop": Mistake(
                    *(
                        partial(_sent_but_for, "all-to-all", instead)
                        for instead in (
                            lambda n, size: (n - 1) / 2 * size,
                            lambda n, size: n * n // 4 / n * size,  # the shorter way round
                            lambda n, size: n / 4 * size,
                            lambda n, size: (n - 1) / n * size * (n // 2),
                        )
                    ),
                    says="In an all-to-all, a piece counts here once for each link that it passes "
                    "on its way round a ring. Expected: each piece once, for the device that it "
                    "comes from.",
                ),
                "all-devices": Mistake(
                    lambda kind, n, size: n * _sent(kind, n, size),
                    says="This is what all n devices send together. Expected: what one of them "
                    "sends.",
                ),
                "one-piece": Mistake(
                    *(
                        partial(_one_piece, passes=passes, permuted=permuted)
                        for passes in (PASSES, {})
                        for permuted in (lambda n, size: size / n, lambda n, size: size)
                    ),
                    lambda kind, n, size: (
                        size / n
                        if kind not in ("all-reduce", "collective-permute")
                        else _sent(kind, n, size)
                    ),
                ),
                "n-minus-one-pieces": Mistake(
                    *(
                        partial(_one_piece, passes=passes, parts=lambda n: n - 1, permuted=permuted)
                        for passes in (PASSES, {})
                        for permuted in (lambda n, size: size / (n - 1), lambda n, size: size)
                    ),
                    says="A ring of n devices cuts the buffer into n pieces, of which a device "
                    "sends n - 1. This is one of n - 1 pieces.",
                ),
                "permuted-piece": Mistake(
                    partial(_sent_but_for, "collective-permute", lambda n, size: size / n),
                    says="In a permutation each device sends its whole buffer, and not one n-th.",
                ),
                "block-for-buffer": Mistake(
                    *(partial(_times_n, permuted=permuted) for permuted in ("once", "in a ring")),
                    says="This would be right if size were a device's block before the gather. It "
                    "is the whole buffer, and a block is one n-th of it.",
                ),
                "block-and-reduced-once": Mistake(
                    *(
                        partial(_times_n, reduced=1, permuted=permuted)
                        for permuted in ("once", "in a ring", "n times")
                    ),
                    says="Two things: size is the whole buffer, not the block that a device begins "
                    "with; and an all-reduce goes round the ring twice.",
                ),
                "whole-buffers": Mistake(
                    lambda kind, n, size: {
                        "all-reduce": 2.0 * size,
                        "collective-permute": 1.0 * size,
                    }.get(kind, (n - 1.0) * size),
                    says="Whole buffers are sent here. In each of n - 1 steps, a device sends one "
                    "n-th of the buffer; an all-reduce has twice as many steps.",
                ),
                "exchange-and-permutation": Mistake(
                    _exchange_and_permutation,
                    says="The formulas of two kinds are exchanged: all-to-all and "
                    "collective-permute. In which of them does a device keep a piece?",
                ),
                "same-for-every-n": Mistake(
                    *(partial(_sent_among, devices=devices) for devices in (2, 4, 8)),
                    says="n does not count here. This would be right for groups of one size only.",
                ),
                "permuted-in-a-ring": Mistake(
                    partial(_sent, in_a_ring=True),
                    says="In a permutation each device sends its whole buffer once, to one other "
                    "device.",
                ),
                "whole-buffer-for-one": Mistake(
                    *(partial(_sent_but_for, kind, lambda n, size: float(size)) for kind in PASSES),
                    says="For the kind below, this is the whole buffer. Of its n pieces, a device "
                    "keeps one and sends n - 1; in an all-reduce, twice.",
                ),
                "one-piece-exchanged": partial(
                    _sent_but_for, "all-to-all", lambda n, size: size / n
                ),
                "whole-buffer-twice": partial(
                    _sent_but_for, "all-reduce", lambda n, size: 2.0 * size
                ),
                "block-for-one": Mistake(
                    *(
                        partial(_sent_but_for, kind, lambda n, size: (n - 1.0) * size)
                        for kind in PASSES
                    ),
                    says="For the kind below, this takes size for one device's block. It is the "
                    "whole buffer, and a block is one n-th of it.",
                ),
                "block-for-buffer-in-one-ring": Mistake(
                    lambda kind, n, size: (
                        _sent(kind, n, size) * (n if PASSES.get(kind) == 1 else 1)
                    ),
                    says="The all-reduce and the permutation are right. For the others, a device "
                    "sends a whole buffer in each of n - 1 steps here. In a ring it sends one n-th "
                    "of it.",
                ),
                "pieces": Mistake(
                    lambda kind, n, size: PASSES.get(kind, 0) * (n - 1) or 1,
                    says="This is the number of pieces that a device sends. How many bytes does "
                    "each have?",
                ),
            },
        ),
        *(
            Predicts(
                "mib",
                cell,
                f"the MiB that each device sends to {cell}",
                right,
                {
                    **mistakes,
                    "bytes": Mistake(
                        right * MIB, says="These are bytes. Expected: MiB, of 1,048,576 bytes each."
                    ),
                    "megabytes": Mistake(
                        *(round(right * MIB / 1e6, digits) for digits in (0, 1, 6)),
                        says="These are MB, of 1,000,000 bytes each. Expected: MiB, of 1,048,576.",
                    ),
                },
                tolerance=1e-3,
                tables={name: cells for name, cells in WHOLE_BUFFERS.items() if cell in cells},
            )
            for cell, right, mistakes in (
                (
                    "gather along x",
                    48,
                    {
                        "twice": 96,
                        "half": Mistake(
                            24,
                            says="This would be right for a buffer of half the size. After the "
                            "gather, how much of the array does one device have?",
                        ),
                        "buffer": 64,
                        "my-block": 12,
                        "my-block-or-along-y": Mistake(
                            16,
                            says="Is this a device's own block, or what a gather along y would "
                            "send? Along x, four devices have a block each, and in the end each "
                            "device has all four.",
                        ),
                        "all": 384,
                        "eight-in-a-group": Mistake(56, 112),
                    },
                ),
                (
                    "gather along x and y",
                    112,
                    {
                        "buffer": 128,
                        "my-block": Mistake(16, 14),
                        "all": 896,
                        "twice": 224,
                        "four-in-a-group": Mistake(
                            96,
                            48,
                            says="This would be right for groups of four. How many devices gather "
                            "along x and y together?",
                        ),
                        "buffer-along-x": Mistake(
                            56,
                            says="This would be right for a buffer of 64 MiB. How much of the "
                            "array does one device have after a gather along x and y?",
                        ),
                        "one-axis-alone": Mistake(
                            64,
                            says="This is what the second gather adds, along y alone. Expected: "
                            "both together.",
                        ),
                        "two-gathers": Mistake(
                            160,
                            says="Is this the sum of the gather along x alone and of the one along "
                            "x and y? Expected: the second one.",
                        ),
                    },
                ),
                (
                    "add up along x",
                    96,
                    {
                        "once-or-half": Mistake(
                            48,
                            says="Does the buffer go round the ring once here? An all-reduce goes "
                            "round twice. Or is this for a buffer of 32 MiB? How much of the array "
                            "does a device have?",
                        ),
                        "buffer-or-along-y": Mistake(
                            64,
                            says="Is this the size of the buffer, or what an all-reduce along y "
                            "would send? Along x there are four devices, and the buffer goes "
                            "round their ring twice.",
                        ),
                        "whole-buffer-twice": 128,
                        "twice": 192,
                        "all": 768,
                        "divided-by-both-axes": 24,
                        "eight-in-a-group": Mistake(112, 224),
                    },
                ),
                (
                    "exchange along x",
                    24,
                    {
                        "buffer": 32,
                        "whole-array": Mistake(
                            96,
                            says="This counts the whole array. The buffer is what one device has "
                            "of it.",
                        ),
                        "one-piece-exchanged": 8,
                        "twice-or-once-per-hop": Mistake(
                            48,
                            says="This is twice as much. Does each piece count for every device "
                            "that it passes through, or for two rounds? In an all-to-all each "
                            "piece counts once. Or is this for a buffer of twice the size?",
                        ),
                        "all": 192,
                        "quarter-of-the-buffer": Mistake(
                            6,
                            says="This would be right for a buffer of 8 MiB. The buffer is "
                            "everything that one device has of the array. How much is that here?",
                        ),
                        "divided-by-both-axes": 12,
                        "eight-in-a-group": Mistake(28, 14, 112),
                    },
                ),
            )
        ),
    ),
    hints=(
        "Look at the ring: in each step a device sends one n-th of the buffer, and it takes n - 1 "
        "steps until every device has everything.",
        "An all-reduce goes round the ring twice: once to add up, once to gather the sums. A "
        "permutation sends the buffer once, however many devices there are.",
        "For the table, find the buffer on one device first. After a gather of P('x', 'y') along "
        "x, a device has one of the two halves of the array along y.",
    ),
    diagnoses={
        "whole-buffer-twice": "An all-reduce goes round the ring twice, and each time n - 1 of n "
        "pieces travel, not the whole buffer.",
        "one-piece": "This is one step of the ring. There are n - 1 of them.",
        "one-piece-exchanged": "This is one of the pieces that a device sends in an all-to-all. It "
        "sends one to each of n - 1 others.",
        "eight-in-a-group": "This would be right for groups of eight. How many devices are there "
        "along x alone?",
        "twice": "This would be right for a buffer of twice the size. The buffer is what one "
        "device has of the array; for a gather, after it.",
        "buffer": "This is the size of the buffer, which communication(…) reports as .bytes. How "
        "much of it does a device send?",
        "my-block": "A device's own block is what it starts with. In the end it has passed on all "
        "of the buffer but one piece.",
        "divided-by-both-axes": "This would be right for a buffer of 16 MiB, an eighth of the "
        "array. Here only one of the two axes shards it. How much of it does one device have?",
        "all": "This is what eight devices send together. Expected: what one of them sends.",
    },
)


# 4.3: loops


def _not_so(right: int, passes: int = 2) -> dict[str, Any]:
    """Return mistakes about any loop with a known number of iterations, on eight devices."""
    return {
        "sent": passes * 7 / 8 * right, "all-devices": 8 * right, "loop-unknown": "unknown",
        "counted": right / 4,
        **({"reduced-twice": 2 * right} if passes == 2 else {}),
    }  # fmt: skip


def _of_v(means: int) -> dict[str, Any]:
    """Return mistakes about a loop that takes `means` means and maxima of `v`."""
    return {"all-of-v": Mistake(512, 512 * means), "block-of-v": Mistake(64, 64 * means)}


def _of_v_on_sixteen(means: int) -> dict[str, Any]:
    return {"all-of-v": Mistake(*(2 * 15 / 16 * 512 * times for times in (1, means)))}


def _ring(right: float, passes: int) -> dict[str, Any]:
    """Return mistakes about what each of sixteen devices sends in any loop."""
    buffers = right / passes / 15 * 16
    return {
        "moved-not-sent": Mistake(buffers, passes * buffers),
        "on-eight": passes * buffers * 7 / 8,
        "twice-on-eight": 2 * passes * buffers * 7 / 8,
        "passes": (3 - passes) * buffers * 15 / 16,
        "all-devices": 16 * right,
        "half-of-it": right / 2 if passes == 1 else (),
        "loop-unknown": "unknown",
        "counted": Mistake(right / 4, buffers / 4),
    }


ON_SIXTEEN: Final = {
    "fraction-lost": {"centred": 42, "nested": 90}, "counted": {"centred": 7, "nested": 15},
}  # fmt: skip
"""The bytes sent if 7.5 is rounded down to 6, and how many all-reduces there are.

In nested, 90 alone could also lack the maximum, and 15 alone could be one iteration.
"""


LOOPS: Final = Exercise(
    id="4.3",
    title="What a loop communicates",
    afterwards="XLA's own cost_analysis counts a loop's body once, however often it runs. "
    "communication() reads the number of iterations and multiplies.",
    requirements=(
        *(
            Predicts("moved", cell, f"the bytes that {cell} moves on each device", right, mistakes)
            for cell, right, mistakes in (
                ("centred", 28, {"body-once": 4, **_of_v(7), **_not_so(28)}),
                (
                    "written_out",
                    28,
                    {
                        "written-once": Mistake(
                            4,
                            says="Is this one iteration? There is no loop in this program: Python "
                            "unrolled it, and each of the seven means is there by itself.",
                        ),
                        **_of_v(7),
                        **_not_so(28),
                    },
                ),
                (
                    "nested",
                    60,
                    {
                        "inner-loop-only": 48,
                        "outer-loop-only": 24,
                        "body-once": 8,
                        "maximum-alone": 12,
                        "one-loop-forgotten": Mistake(
                            20,
                            28,
                            32,
                            says="One loop is inside the other, so multiply their iterations.",
                        ),
                        "maximum-once": 52,
                        "maximum-too-often": 96,
                        **_of_v(15),
                        **_not_so(60),
                    },
                ),
                (
                    "same_weights",
                    1024,
                    {
                        "not-moved-out": 5120,
                        "its-block": Mistake(128, 640),
                        "not-at-all": 0,
                        **_not_so(1024, passes=1),
                        "counted": Mistake(256, 1, 5),
                    },
                ),
                (
                    "other_weights",
                    5120,
                    {
                        "body-once": 1024,
                        "its-block": Mistake(128, 640),
                        "gathers-a": Mistake(
                            10240,
                            says="This is twice as much. Does it count a gather of a, too? For its "
                            "rows of a @ w, a device needs its own rows of a, and all of w.",
                        ),
                        **_not_so(5120, passes=1),
                        "counted": Mistake(1280, 5),
                    },
                ),
                (
                    "until_small",
                    "unknown",
                    {
                        "counted-once": Mistake(
                            4,
                            says="This is one iteration. The compiler does not know how many there "
                            "are.",
                        ),
                        "nobody-knows": Mistake(
                            0,
                            24,
                            28,
                            32,
                            says="The number of iterations depends on the numbers in v, which the "
                            "compiler does not know.",
                        ),
                    },
                ),
            )
        ),
        *(
            Predicts(
                "on_sixteen",
                cell,
                f"the bytes that each of sixteen devices sends in {cell}",
                right,
                mistakes,
                tolerance=1e-3,
                tables={name: cells for name, cells in ON_SIXTEEN.items() if cell in cells},
            )
            for cell, right, mistakes in (
                (
                    "centred",
                    52.5,
                    {
                        "body-once": 7.5,
                        "fraction-lost": Mistake(
                            42,
                            says="Is 2 · 15/16 · 4 bytes 6 here? It is 7.5: `//` leaves out the "
                            "half.",
                        ),
                        "half-left-out": 52,
                        **_of_v_on_sixteen(7),
                        **_ring(52.5, passes=2),
                    },
                ),
                (
                    "nested",
                    112.5,
                    {
                        "inner-loop-only": 90,
                        "one-loop-forgotten": Mistake(37.5, 52.5, 60),
                        "maximum-alone": 22.5,
                        "outer-loop-only": 45,
                        "body-once": 15,
                        "half-left-out": 112,
                        "maximum-once": 97.5,
                        "maximum-too-often": 180,
                        **_of_v_on_sixteen(15),
                        **_ring(112.5, passes=2),
                    },
                ),
                (
                    "same_weights",
                    960,
                    {
                        "not-moved-out": 4800,
                        "its-block": Mistake(64, 320, 60, 300, 120, 600),
                        "not-at-all": 0,
                        **_ring(960, passes=1),
                        "counted": Mistake(240, 256, 1, 5),
                    },
                ),
                (
                    "other_weights",
                    4800,
                    {
                        "body-once": 960,
                        "its-block": Mistake(64, 320, 60, 300, 120, 600),
                        **_ring(4800, passes=1),
                        "counted": Mistake(1200, 1280, 5),
                    },
                ),
            )
        ),
    ),
    hints=(
        "Which collective runs in one iteration, over how many bytes, and how many iterations run?",
        "For a loop in a loop: what is in the inner one runs 3 · 4 times, and what is only in the "
        "outer one 3 times.",
        "communication(centred, v) shows how often each collective runs; × ? means unknown, and "
        "its sums count one iteration. In same_weights, does the gathered array change between "
        "iterations? For sixteen devices, which of the buffers get larger? Your `sent` of 4.2 does "
        "the rest.",
    ),
    diagnoses={
        "body-once": "Is this one iteration? The compiled program contains the body of a loop "
        "once, and it runs in every iteration.",
        "half-left-out": "The half is missing. Does your `sent` divide with `//`? A modelled "
        "number of bytes need not be whole.",
        "sent": "This is what a device sends. Expected: the bytes of the buffers.",
        "all-devices": "This is the total over all devices. Expected: the bytes of one of them.",
        "counted": "Is this a number of collectives, or of elements? Expected: bytes.",
        "reduced-twice": "This counts the buffer of an all-reduce twice. It goes round the ring "
        "twice, which counts in what is sent. Here each buffer counts once.",
        "all-of-v": "This counts all 512 bytes of v. For a mean, each device adds up its own "
        "numbers first. How many partial sums does it have then?",
        "block-of-v": "This counts a device's 64 bytes of v. For a mean, each device adds up its "
        "own numbers first. How many partial sums does it have then?",
        "loop-unknown": "The number of iterations of this loop is known: it is in the program.",
        "inner-loop-only": "Is this only the mean? There is also a maximum, once in each "
        "iteration of the outer loop.",
        "maximum-alone": "Is this only the maximum? There is also a mean, in each iteration of the "
        "inner loop.",
        "not-at-all": "The gather is moved out of the loop, and still runs once, before it.",
        "outer-loop-only": "Does the inner loop count once here? It has four iterations in "
        "each iteration of the outer one.",
        "maximum-once": "Does the maximum count once here? It is in the outer loop, which has "
        "three iterations.",
        "maximum-too-often": "Does the maximum count in each iteration of the inner loop here? "
        "It comes after that loop, in the outer one.",
        "not-moved-out": "The weights are the same in each iteration. The compiler gathers them "
        "once, before the loop.",
        "its-block": "This is a device's block of the weights. The buffer is what the device has "
        "after the gather: all of the 16 × 16.",
        "moved-not-sent": "These are the bytes of the buffers, or a multiple of them. How much of "
        "a buffer does one of sixteen devices send?",
        "half-of-it": "This is half as much. Does the buffer get smaller with sixteen devices? A "
        "device's block does. After the all-gather each device has all of the weights, as with "
        "eight.",
        "on-eight": "This is what each of eight devices sends. Expected: what each of sixteen "
        "sends.",
        "twice-on-eight": "Is this twice what each of eight devices sends? Of a buffer, a device "
        "sends (n - 1) / n, which is hardly more with sixteen devices than with eight.",
        "passes": "How large are the pieces on sixteen devices, and how often do they go round "
        "the ring? In an all-gather they go round once, and in an all-reduce twice.",
    },
)


# 4.4: each device's share of the work


def _of_the_share(right: float, fair: float = 1 / 8) -> dict[str, Any]:
    """Return the same share in other units, and the shares of a learner who guesses."""
    said: dict[str, Any] = {"percent": 100 * right, "operations": 2 * 64**3 * right}
    if right < 1:
        said |= {"upside-down": 1 / right, "all-of-it": 1}
    return said if right == fair else {"always-an-eighth": fair, **said}


def _of_512(right: float, **mistakes: Any) -> dict[str, Any]:
    """Return mistakes about a share on the mesh of 512 devices."""
    said = _of_the_share(right, 1 / 512)
    if "always-an-eighth" in said:
        said["always-a-512th"] = said.pop("always-an-eighth")
    return {name.replace("_", "-"): value for name, value in mistakes.items()} | said


ON_512: Final = {
    "axes-mixed-up": {"rows over x, columns over y": 1 / 32, "columns over z, rows over z": 1 / 16},
    "sizes-of-the-grid": {
        "rows over y, a copy": 1 / 2,
        "a copy, columns over y and z": 1 / 8,
        "rows over x, columns over y": 1 / 8,
        "rows over x and z, columns over y": 1 / 32,
    },
}
"""The shares if z has size 16, and if x and y have the sizes 4 and 2 of the small mesh.

Some of them alone could also come from an axis that counts twice, or not at all.
"""


SHARES: Final = Exercise(
    id="4.4",
    title="A device's share of the work",
    afterwards="In a profile, repeated work looks like work. Only each device's share shows that "
    "it was not needed.",
    requirements=(
        *(
            Predicts(
                "share",
                cell,
                f"the share of one device with {cell}",
                right,
                {**mistakes, **_of_the_share(right)},
                tolerance=0.05,
            )
            for cell, right, mistakes in (
                (
                    "rows over x and y, a copy",
                    1 / 8,
                    {"axes-added": 1 / 6, "one-axis-left-out": Mistake(1 / 4, 1 / 2)},
                ),
                ("rows over x, a copy", 1 / 4, {"other-axis": 1 / 2}),
                (
                    "a copy, a copy",
                    1,
                    {
                        "copies-share-nothing": Mistake(
                            1 / 2,
                            1 / 4,
                            says="Both matrices are replicated. Which part of the work could a "
                            "device leave to another?",
                        ),
                        "all-devices": Mistake(
                            8,
                            says="This is the work of all eight devices together. Expected: the "
                            "share that one of them computes.",
                        ),
                        "no-work": Mistake(
                            0,
                            says="There is work without communication. What does a device compute "
                            "if both matrices are replicated?",
                        ),
                    },
                ),
                ("a copy, columns over y", 1 / 2, {"other-axis": 1 / 4}),
                (
                    "columns over x, rows over x",
                    1 / 4,
                    {
                        "terms-are-shared": Mistake(
                            1,
                            says="Each element of the result is a sum, and each device has only "
                            "some of its terms. The all-reduce adds up the partial sums.",
                        ),
                        "other-axis": 1 / 2,
                        "quarter-counted-twice": Mistake(
                            1 / 16,
                            says="Does the same axis count twice here? The columns of A and the "
                            "rows of B are the same terms of each sum, so sharding both divides "
                            "these terms only once.",
                        ),
                    },
                ),
                (
                    "blocks, blocks",
                    1 / 8,
                    {
                        "all-blocks": Mistake(
                            1 / 64,
                            1 / 16,
                            1 / 32,
                            says="Each device computes one block of the result, and each element "
                            "of it needs all 64 terms. How many blocks are there?",
                        ),
                        "axes-added": 1 / 6,
                        "gathered-first": Mistake(
                            1,
                            says="The devices do not gather all of both matrices here, so each can "
                            "compute only a part of the result.",
                        ),
                        "one-dimension-alone": Mistake(
                            1 / 4,
                            1 / 2,
                            says="The result is sharded in both dimensions: its rows like those of "
                            "A, and its columns like those of B. Do both count here?",
                        ),
                    },
                ),
                (
                    "rows over four devices, a copy",
                    1 / 4,
                    {
                        "only-four": Mistake(
                            1 / 8,
                            says="This would be so if eight devices shared the rows. How many take "
                            "part here?",
                        ),
                        "half-of-the-rows": Mistake(
                            1 / 2,
                            says="This would be half of the rows for each device. In how many "
                            "blocks are they, if four devices take part?",
                        ),
                    },
                ),
            )
        ),
        *(
            Predicts(
                "on_512",
                cell,
                f"the share of one of 512 devices with {cell}",
                right,
                mistakes,
                tolerance=0.01,
                tables={name: cells for name, cells in ON_512.items() if cell in cells},
            )
            for cell, right, mistakes in (
                (
                    "rows over y, a copy",
                    1 / 8,
                    _of_512(1 / 8, axes_mixed_up=Mistake(1 / 16, 1 / 4), sizes_of_the_grid=1 / 2),
                ),
                (
                    "a copy, columns over y and z",
                    1 / 32,
                    _of_512(
                        1 / 32,
                        axes_added=1 / 12,
                        axes_mixed_up=Mistake(1 / 64, 1 / 128),
                        one_axis_left_out=Mistake(1 / 8, 1 / 4),
                    ),
                ),
                (
                    "rows over x, columns over y",
                    1 / 128,
                    _of_512(
                        1 / 128,
                        axes_added=1 / 24,
                        one_axis_left_out=Mistake(1 / 16, 1 / 8),
                        axes_mixed_up=Mistake(1 / 64, 1 / 32),
                    ),
                ),
                (
                    "rows over x and z, columns over y",
                    1 / 512,
                    _of_512(
                        1 / 512,
                        axes_added=Mistake(1 / 28, 1 / 160),
                        one_axis_left_out=Mistake(1 / 64, 1 / 8, 1 / 128),
                        sizes_of_the_grid=1 / 32,
                    ),
                ),
                (
                    "columns over z, rows over z",
                    1 / 4,
                    _of_512(
                        1 / 4,
                        terms_are_shared=1,
                        quarter_counted_twice=1 / 16,
                        axes_mixed_up=1 / 8,
                    ),
                ),
            )
        ),
    ),
    hints=(
        "The complete matmul takes 2 · 64 · 64 · 64 operations. Which part of the result does one "
        "device compute, and does it add up all 64 terms of each element, or some of them?",
        "Two devices with the same blocks compute the same numbers, and neither saves the other "
        "any work. For the large mesh: along which of its axes do devices hold the same blocks of "
        "both matrices?",
        "communication(product, *cases['blocks, blocks']).flops is the number of operations of "
        "one device, and `whole` is that of the complete matmul.",
    ),
    diagnoses={
        "all-of-it": "This is all of the work. One of the matrices is sharded, so no device has "
        "to do all of it.",
        "percent": "This is in per cent. Expected: a share, such as 1/2.",
        "operations": "This is the number of operations. Divide it by that of the complete matmul.",
        "upside-down": "This is upside down. Expected: a share, of at most 1.",
        "always-an-eighth": "This would be a fair share. Does every device do a different part of "
        "the work?",
        "always-a-512th": "This would be a fair share among 512. Does every device do a different "
        "part of the work?",
        "other-axis": "This would be right for the other axis. Here axis x has size 4, and y has "
        "2.",
        "axes-mixed-up": "Are the axes mixed up? Here axis x has size 16, y has 8 and z has 4.",
        "sizes-of-the-grid": "Are these the sizes of the 4 × 2 mesh? On the mesh of 512 devices, "
        "axis x has size 16, y has 8 and z has 4.",
        "axes-added": "Are the sizes of the axes added? The number of blocks over several axes is "
        "the product of their sizes.",
        "one-axis-left-out": "Does only one of the two matrices count here, or only one of "
        "several axes? Every axis that shards rows or columns makes a device's part of the result "
        "smaller.",
    },
)


# 4.5: when is communication the bound?


def _rows(n: int, flops: float, link: float, passes: float = 2, work: float = 6) -> float:
    """Return the rows per device at which the matmuls take as long as the all-reduce."""
    return passes * (n - 1) / n * BFLOAT16 * flops / (work * link)


def _width(n: int, flops: float, link: float, passes: float = 2, work: float = 4) -> float:
    """Return the hidden width at which two matmuls take as long as the all-reduce after them."""
    return passes * (n - 1) / n * BFLOAT16 * flops / link * n / work


def _width_of_fraction(n: int, flops: float, link: float, devices: int) -> float:
    """Return the width if a ring sent the same fraction of a buffer for every n."""
    return _width(devices, flops, link) * n / devices


def _table_mistakes(what: str, flops: float, link: float) -> dict[str, Any]:
    """Return mistakes about one of the two numbers, on eight devices of a machine."""
    if what == "width":
        right = _width(8, flops, link)
        return {
            "machine-upside-down": _width(8, link, flops), "backward-too": right / 3,
            "rows-for-width": _rows(8, flops, link),
            "whole-buffers": 8 * right,
            "fraction-of-other-n": _width_of_fraction(8, flops, link, 4),
            "width-of-one-of-four": Mistake(
                _width(4, flops, link) / 4,
                says="Is this the width of one device's part, and among four devices? Expected: "
                "all of F, on eight devices.",
            ),
        }  # fmt: skip
    right = _rows(8, flops, link)
    return {
        "width-for-rows": _width(8, flops, link),
        "machine-upside-down": _rows(8, link, flops),
        "one-product": 3 * right,
        "two-products": 3 / 2 * right,
        "four-products": 3 / 4 * right,
        "all-rows": 8 * right,
    }


def _sample_machines(rng: np.random.Generator) -> list[tuple[int, float, float]]:
    """Sample machines that do not exist, with round numbers."""
    counts = rng.permutation([2, 4, 8, 16])
    return [
        (int(n), float(rng.integers(10, 1000)) * 1e12, float(rng.integers(10, 900)) * 1e9)
        for n in counts
    ]


BOUNDS: Final = Exercise(
    id="4.5",
    title="Where communication takes over",
    afterwards="These two numbers are why large models are trained with batches of millions of "
    "rows, and why tensor parallelism stays inside one machine.",
    requirements=(
        Returns(
            "rows",
            "rows(n, flops, link) must return the rows on each device at which computing takes as "
            "long as communicating.",
            _sample_machines,
            _rows,
            {
                "all-rows": Mistake(
                    lambda n, flops, link: n * _rows(n, flops, link),
                    says="This is n times as much. Is it the batch of all n devices together, and "
                    "not the rows on each? Or does each step of the ring send a whole buffer here, "
                    "and not one n-th of it?",
                ),
                "reduced-once": partial(_rows, passes=1),
                "twice-as-much": partial(_rows, passes=4),
                "one-product": Mistake(partial(_rows, work=2), says="This counts only one matmul."),
                "two-products": Mistake(
                    partial(_rows, work=4),
                    says="This counts two matmuls. There are three: the forward pass, the gradient "
                    "of the weights, and the gradient of the input.",
                ),
                "four-products": Mistake(
                    partial(_rows, work=8),
                    says="This counts four matmuls. There are three: the forward pass, the "
                    "gradient of the weights, and the gradient of the input.",
                ),
                "n-left-out": lambda n, flops, link: _rows(n, flops, link) * n / (n - 1),
                "same-for-every-n": Mistake(
                    lambda n, flops, link: _rows(2, flops, link),
                    lambda n, flops, link: _rows(4, flops, link),
                    lambda n, flops, link: _rows(8, flops, link),
                ),
                "upside-down": lambda n, flops, link: 1 / _rows(n, flops, link),
                "machine-upside-down": lambda n, flops, link: (
                    _rows(n, flops, link) * (link / flops) ** 2
                ),
            },
        ),
        Returns(
            "width",
            "width(n, flops, link) must return the hidden width at which computing takes as long "
            "as communicating.",
            _sample_machines,
            _width,
            {
                "whole-buffers": Mistake(
                    lambda n, flops, link: _width(n, flops, link) * n,
                    says="This is n times as much. In each step of a ring a device sends one n-th "
                    "of the buffer. Is it the whole buffer here? Or does each device do all of the "
                    "work?",
                ),
                "width-of-a-device": Mistake(
                    lambda n, flops, link: _width(n, flops, link) / n,
                    says="This is the width of one device's part. Expected: all of F.",
                ),
                "backward-too": Mistake(
                    *(partial(_width, work=work) for work in (12, 6)),
                    says="This counts more matmuls. Expected: the forward pass alone, with one "
                    "matmul for each of the two layers.",
                ),
                "reduced-once": partial(_width, passes=1),
                "twice-as-much": partial(_width, passes=4),
                "n-left-out": lambda n, flops, link: _width(n, flops, link) * n / (n - 1),
                "same-for-every-n": Mistake(
                    lambda n, flops, link: _width(2, flops, link),
                    lambda n, flops, link: _width(4, flops, link),
                    lambda n, flops, link: _width(8, flops, link),
                ),
                "fraction-of-other-n": Mistake(
                    *(partial(_width_of_fraction, devices=devices) for devices in (4, 8, 2, 16)),
                ),
                "upside-down": lambda n, flops, link: 1 / _width(n, flops, link),
                "machine-upside-down": lambda n, flops, link: (
                    _width(n, flops, link) * (link / flops) ** 2
                ),
            },
        ),
        *(
            Predicts(
                "on_machines",
                f"{what}, {name}",
                f"the {what} on eight of {name}",
                formula(8, MACHINES[name].flops, MACHINES[name].link),
                {
                    "four-devices": Mistake(
                        formula(4, MACHINES[name].flops, MACHINES[name].link),
                        says="This would be right for four devices. Expected: the number for "
                        "eight.",
                    ),
                    "n-left-out": formula(8, MACHINES[name].flops, MACHINES[name].link) * 8 / 7,
                    "reduced-once": formula(8, MACHINES[name].flops, MACHINES[name].link) / 2,
                    "twice-as-much": formula(8, MACHINES[name].flops, MACHINES[name].link) * 2,
                    "upside-down": 1 / formula(8, MACHINES[name].flops, MACHINES[name].link),
                    "another-machine": Mistake(
                        *(
                            formula(8, other.flops, other.link)
                            for other in MACHINES.values()
                            if other is not MACHINES[name]
                        ),
                        says="This would be right for another machine. Which one does this row "
                        "name?",
                    ),
                    **_table_mistakes(what, MACHINES[name].flops, MACHINES[name].link),
                    "flops-over-link": Mistake(
                        MACHINES[name].flops / MACHINES[name].link,
                        says="This is flops / link. What are the operations and the bytes, and "
                        "when do both take equally long?",
                    ),
                    "too-few-digits": Mistake(
                        *(
                            float(f"{formula(8, MACHINES[name].flops, MACHINES[name].link):.{d}e}")
                            for d in (0, 1)
                        ),
                        says="This is rounded too much: give at least three digits.",
                    ),
                    "power-of-ten": Mistake(
                        *(
                            formula(8, MACHINES[name].flops, MACHINES[name].link) * 10.0**digits
                            for digits in (-3, -2, -1, 1, 2, 3)
                        ),
                        says="The digits are right, but not their place before the point. Is there "
                        "a slip in a power of ten?",
                    ),
                    # with eight devices, one part in eight is the same number as bits for bytes
                    ("width-of-a-device" if what == "width" else "bits-for-bytes"): formula(
                        8, MACHINES[name].flops, MACHINES[name].link * 8
                    ),
                },
                tolerance=0.01,
            )
            for what, formula, name in (
                ("rows", _rows, "TPU v5e"),
                ("rows", _rows, "H100 100G Ethernet"),
                ("width", _width, "TPU v5e"),
                ("width", _width, "H100 NVLink"),
            )
        ),
    ),
    weights={"on_machines": 0.5},
    hints=(
        "Write down both times. Computing: the operations of one device, divided by flops. "
        "Communicating: the bytes that one device sends, by your formula of 4.2, divided by link. "
        "Then set them equal.",
        "For rows: three matmuls of 2 · rows · D · F operations each, and an all-reduce of D · F "
        "numbers of 2 bytes. D and F cancel.",
        "For width: two matmuls of 2 · rows · D · (F / n) operations each, and an all-reduce of "
        "rows · D numbers of 2 bytes. What cancels now?",
    ),
    diagnoses={
        "reduced-once": "This is half as much. An all-reduce goes round the ring twice, and a "
        "number has two bytes. Does one of these two count once here?",
        "on_machines: reduced-once": "This is half as much. An all-reduce goes round the ring "
        "twice, and a number has two bytes. Does one of these two count once here? Or is the link "
        "another one than that of `MACHINES`?",
        "rows: twice-as-much": "This is twice as much. Does a number have four bytes here, or a "
        "term of a matmul one operation?",
        "width: twice-as-much": "This is twice as much. Does a number have four bytes here, or a "
        "term of a matmul one operation, or is one of the two matmuls left out?",
        "on_machines: twice-as-much": "This is twice as much. Does a number have four bytes here, "
        "or a term of a matmul one operation? Does a width count only one of the two matmuls? Or "
        "is the link another one than that of `MACHINES`?",
        "same-for-every-n": "n does not count here. This would be right for one number of devices "
        "only, such as four.",
        "fraction-of-other-n": "The fraction of the buffer that a ring sends, (n - 1)/n, is that "
        "of another number of devices here. For four devices it is 3/4, for eight 7/8.",
        "n-left-out": "A ring of n devices sends (n - 1)/n of the buffer each time round.",
        "upside-down": "This is upside down: one divided by the right number.",
        "machine-upside-down": "Are flops and link exchanged here? The faster a device computes, "
        "the more work it needs to be busy for as long as it sends; the faster its link, the less.",
        "rows-for-width": "This is the number of rows. Expected: the width.",
        "width-for-rows": "This is the width. Expected: the number of rows.",
        "bits-for-bytes": "Is the link in bits here? MACHINES has bytes per second.",
    },
)


# 4.6: gather the weights, or add up partial sums


Ways = Callable[..., tuple[float, float]]


def _gathering(b: int, d: int, f: int, n: int, flops: float, link: float) -> tuple[float, float]:
    """Return the seconds of computing and of communicating if the weights are gathered."""
    return 2 * b * d * f / flops, _sent("all-gather", n, BFLOAT16 * d * f) / link


def _adding_up(b: int, d: int, f: int, n: int, flops: float, link: float) -> tuple[float, float]:
    """Return the seconds of computing and of communicating if partial sums are added up."""
    return 2 * b * d * f / n / flops, _sent("all-reduce", n, BFLOAT16 * b * f) / link


def _faster(
    *case: Any,
    time: Callable[[tuple[float, float]], float] = sum,
    gathering: Ways = _gathering,
    adding_up: Ways = _adding_up,
) -> str:
    return "gather" if time(gathering(*case)) < time(adding_up(*case)) else "add up"


def _times(computing: float, communicating: float, way: Ways) -> Ways:
    """Return `way` with its two times multiplied by these factors."""

    def other(*case: Any) -> tuple[float, float]:
        one, two = way(*case)
        return computing * one, communicating * two

    return other


def _work_exchanged(*case: Any) -> str:
    n = case[3]
    return _faster(
        *case, gathering=_times(1 / n, 1, _gathering), adding_up=_times(n, 1, _adding_up)
    )


def _n_left_out(*case: Any, of_gathering: bool = True, of_adding_up: bool = True) -> str:
    whole = case[3] / (case[3] - 1)
    return _faster(
        *case,
        gathering=_times(1, whole if of_gathering else 1, _gathering),
        adding_up=_times(1, whole if of_adding_up else 1, _adding_up),
    )


def _of_four_bytes(*case: Any) -> str:
    return _faster(*case, gathering=_times(1, 2, _gathering), adding_up=_times(1, 2, _adding_up))


def _other_way(*case: Any) -> str:
    return "add up" if _faster(*case) == "gather" else "gather"


def _block_gathered(*case: Any) -> str:
    return _faster(*case, gathering=_times(1, 1 / case[3], _gathering))


def _block_sent_once(*case: Any) -> str:
    return _faster(*case, gathering=_times(1, 1 / (case[3] - 1), _gathering))


def _input_added_up(*case: Any) -> str:
    _, d, f, *_ = case
    return _faster(*case, adding_up=_times(1, d / f, _adding_up))


def _bytes_exchanged(*case: Any) -> str:
    one, other = _gathering(*case), _adding_up(*case)
    return "gather" if one[0] + other[1] < other[0] + one[1] else "add up"


def _passes_exchanged(*case: Any) -> str:
    return _faster(
        *case, gathering=_times(1, 2, _gathering), adding_up=_times(1, 1 / 2, _adding_up)
    )


def _fewer_bytes_exchanged(*case: Any) -> str:
    fewer = _faster(*case, time=lambda times: times[1])
    return "add up" if fewer == "gather" else "gather"


def _bytes_alone_reduced_once(*case: Any) -> str:
    return _faster(*case, time=lambda times: times[1], adding_up=_times(1, 1 / 2, _adding_up))


def _buffers_compared(*case: Any) -> str:
    whole = case[3] / (case[3] - 1)
    return _faster(
        *case, gathering=_times(1, whole, _gathering), adding_up=_times(1, whole / 2, _adding_up)
    )


def _work_times_n(*case: Any) -> str:
    return _faster(*case, adding_up=_times(case[3] ** 2, 1, _adding_up))


CHOICES: Final[dict[str, Callable[..., str]]] = {
    "always-gather": lambda *case: "gather",
    "always-add-up": lambda *case: "add up",
    "exchanged": _other_way,
    "bytes-alone": partial(_faster, time=lambda times: times[1]),
    "bytes-alone-reduced-once": _bytes_alone_reduced_once,
    "reduced-once": partial(_faster, adding_up=_times(1, 1 / 2, _adding_up)),
    "twice-as-long": _of_four_bytes,
    "n-left-out": _n_left_out,
    "n-left-out-of-gathering": partial(_n_left_out, of_adding_up=False),
    "n-left-out-of-adding-up": partial(_n_left_out, of_gathering=False),
    "work-exchanged": _work_exchanged,
    "buffers-for-bytes": _buffers_compared,
    "work-times-n": _work_times_n,
    "bytes-exchanged": _bytes_exchanged,
    "passes-exchanged": _passes_exchanged,
    "half-as-long": partial(
        _faster, gathering=_times(1, 1 / 2, _gathering), adding_up=_times(1, 1 / 2, _adding_up)
    ),
    "block-of-weights": _block_gathered,
    "all-in-each-step-of-both": lambda *case: _faster(
        *case, gathering=_times(1, case[3], _gathering), adding_up=_times(1, case[3], _adding_up)
    ),
    "all-in-each-step": lambda *case: _faster(*case, gathering=_times(1, case[3], _gathering)),
    "all-of-the-result-in-each-step": lambda *case: _faster(
        *case, adding_up=_times(1, case[3], _adding_up)
    ),
    "gathered-twice": partial(_faster, gathering=_times(1, 2, _gathering)),
    "block-sent-once": _block_sent_once,
    "input-for-result": _input_added_up,
    "bytes-alone-exchanged": _fewer_bytes_exchanged,
    "at-the-same-time": partial(_faster, time=max),
    "piece-of-the-result": lambda *case: _faster(
        *case, adding_up=_times(1, 1 / case[3], _adding_up)
    ),
}
"""The answer that each mistake leads to."""


TOLD_APART: Final = 3
"""The least number of cases that distinguish a mistake from the right answer and from others."""

ANY_CASES: Final = 24
"""The number of further cases, so that an unrelated rule does not match a mistake by chance."""


def _sample_choices(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Sample cases that distinguish every mistake from the right answer and from the others."""
    judges = [_faster, *CHOICES.values()]
    alike = dict.fromkeys(combinations(range(len(judges)), 2), TOLD_APART)
    chosen = list(_choices(rng, ANY_CASES))
    for case in _choices(rng, 5000):
        said = [judge(*case) for judge in judges]
        told = [(one, other) for one, other in alike if said[one] != said[other]]
        if told:
            chosen.append(case)
            for pair in told:
                alike[pair] -= 1
                if not alike[pair]:
                    del alike[pair]
        if not alike:
            break
    return chosen


def _choices(rng: np.random.Generator, count: int) -> Iterator[tuple[Any, ...]]:
    """Sample sizes and machines for which one way is faster by at least 3 per cent."""
    machines = list(MACHINES.values())
    for _ in range(count):
        b, d, f = (int(2 ** rng.uniform(7, 16)) for _ in range(3))
        n = int(2 ** rng.integers(1, 5))
        machine = machines[int(rng.integers(len(machines)))]
        case = b, d, f, n, machine.flops, machine.link
        one, other = sum(_gathering(*case)), sum(_adding_up(*case))
        if not 0.97 < one / other < 1.03:
            yield case


CROSSOVER: Final = Exercise(
    id="4.6",
    title="Move the weights, or the results?",
    afterwards="Gathering sends less from d/2 rows on, but every device then does all of the "
    "work. Notebook 08 gathers weights, too, and shards the batch as well, so that no work is "
    "repeated.",
    requirements=(
        Returns(
            "same_bytes",
            "same_bytes(d, f, n) must return the rows at which both ways send equally many bytes.",
            lambda rng: [
                (int(2 * rng.integers(8, 4096) + 1), int(2 * rng.integers(8, 4096)), n)
                for n in (2, 4, 8, 16)
            ],
            lambda d, f, n: float(d / 2),
            {
                "rounded-down": Mistake(
                    lambda d, f, n: d // 2,
                    lambda d, f, n: round(d / 2),
                    says="Half of an odd number is not a whole number. Do not round it.",
                ),
                "reduced-once": Mistake(
                    lambda d, f, n: float(d),
                    says="An all-reduce goes round the ring twice, so it sends twice as much as an "
                    "all-gather with a buffer of the same size.",
                ),
                "input-for-result": Mistake(
                    lambda d, f, n: float(f / 2),
                    says="Does this add up the input, rows × d? What is added up is the result, "
                    "rows × f.",
                ),
                "n-in-one": Mistake(
                    lambda d, f, n: d / 2 * (n - 1) / n,
                    says="Both ways send (n - 1)/n of something, so n cancels.",
                ),
                "n-in-one-and-reduced-once": Mistake(
                    lambda d, f, n: d / n,
                    lambda d, f, n: d * (n - 1) / n,
                    lambda d, f, n: d * n / (n - 1),
                    says="Both ways send (n - 1)/n of something, so n cancels; and an all-reduce "
                    "goes round the ring twice.",
                ),
                "n-in-the-other": Mistake(
                    lambda d, f, n: d / 2 * n / (n - 1),
                    says="Both ways send (n - 1)/n of something, so n cancels.",
                ),
                "block-of-weights": Mistake(
                    lambda d, f, n: d / 2 / n,
                    says="This is a device's block of the weights, which is what it has. What goes "
                    "round the ring is all of them, d × f.",
                ),
                "upside-down": Mistake(
                    lambda d, f, n: float(2 * d),
                    says="This is four times as much. Which buffer goes round the ring twice, that "
                    "of the weights or that of the result?",
                ),
                "times-n": Mistake(
                    lambda d, f, n: float(d * n / 2),
                    says="This is n times as much. Both ways send (n - 1)/n of a whole buffer. Is "
                    "the result, rows × f, divided by n here?",
                ),
            },
        ),
        Returns(
            "faster",
            "faster(rows, d, f, n, flops, link) must return 'gather' or 'add up', whichever is "
            "faster.",
            _sample_choices,
            _faster,
            CHOICES,
        ),
    ),
    hints=(
        "What does each way send? Gathering: all of the weights, d × f. Adding up: the result, "
        "rows × f, and an all-reduce goes round the ring twice. A number has two bytes.",
        "What does each way compute? A device that has gathered the weights does the complete "
        "matmul. A device that adds up partial sums does one n-th of it.",
        "For each way: operations / flops + bytes sent / link. The smaller sum is faster.",
    ),
    diagnoses={
        "twice-as-long": "Sending takes twice as long here, or computing half as long. Does a "
        "number have two bytes, and a term of a matmul two operations?",
        "half-as-long": "Sending takes half as long here, or computing twice as long. Does a "
        "number have two bytes?",
        "bytes-alone-exchanged": "This goes by the bytes alone, and names the way that sends more "
        "of them.",
        "n-left-out": "A ring of n devices sends (n - 1)/n of the buffer each time round.",
        "n-left-out-of-gathering": "The gather takes too long here. Do all of the weights count? "
        "A device has its own block already: it sends (n - 1)/n of them.",
        "n-left-out-of-adding-up": "The all-reduce takes too long here. Each of its two passes "
        "sends (n - 1)/n of the result.",
        "work-exchanged": "A device that gathers the weights does the complete matmul, and one "
        "that adds up does one n-th of it. Here it is the other way round.",
        "buffers-for-bytes": "This goes by the buffers. A device sends less than a buffer in one "
        "pass round a ring, and an all-reduce takes two.",
        "work-times-n": "The arithmetic of adding up is multiplied by n here. A device does one "
        "n-th of the matmul, and one that gathers does all of it.",
        "bytes-exchanged": "The bytes of the two ways are exchanged: gathering sends the weights, "
        "d × f, and adding up the result, rows × f.",
        "passes-exchanged": "The weights go round the ring twice here, and the result once. "
        "Which of the two collectives is a reduce-scatter and an all-gather?",
        "block-sent-once": "Each device sends only its own block of the weights here, once. In a "
        "ring it also passes on those of the others: n - 1 blocks in all.",
        "all-in-each-step": "All of the weights count n - 1 times here. In each step of a ring, a "
        "device passes on one n-th of them.",
        "all-in-each-step-of-both": "In each step of a ring, a device sends one n-th of the "
        "buffer, and here all of it: n - 1 buffers in place of (n - 1)/n of one.",
        "all-of-the-result-in-each-step": "All of the result counts in each step here. In a step "
        "of a ring, a device sends one n-th of it.",
        "gathered-twice": "The weights go round the ring twice here. A gather takes one pass: an "
        "all-reduce takes two.",
        "piece-of-the-result": "The bytes of the result are divided by n here. Each device has a "
        "partial sum of the whole result, rows × f.",
        "bytes-alone-reduced-once": "This goes by the bytes alone, and counts those of an "
        "all-reduce once. It goes round the ring twice; and a device that gathers the weights "
        "does the complete matmul, while one that adds up does one n-th of it.",
        "bytes-alone": "This goes by the bytes alone, or counts the same arithmetic for both "
        "ways. A device that gathers the weights does the complete matmul, and one that adds up "
        "does one n-th of it.",
        "at-the-same-time": "This would be so if computing and communicating happened at the same "
        "time. Here they happen one after the other, so add the two times.",
        "exchanged": "This is the slower way, in every case.",
        "always-gather": "This is 'gather' in every case.",
        "always-add-up": "This is 'add up' in every case.",
    },
)


# 4.7 and 4.8: a training step


def step(x: Any, w_in: Any, w_out: Any) -> Any:
    """Return the weights of a block of two layers after one training step."""

    def loss(w_in: Any, w_out: Any) -> Any:
        y = jax.nn.relu(x @ w_in) @ w_out
        return (y * y).mean()

    down_in, down_out = jax.grad(loss, (0, 1))(w_in, w_out)
    return w_in - down_in, w_out - down_out


BATCHES: Final = (1_024, 65_536, 524_288)

FASTEST: Final = {
    1_024: {"H100 100G Ethernet": "copies"},
    65_536: {"TPU v5e": "data", "TPU v5p": "data"},  # where both axes' links work at once
    524_288: {},
}
"""For each batch, the machines on which the fastest layout is not that of `USUALLY`."""

USUALLY: Final = {1_024: "tensor", 65_536: "both", 524_288: "data"}

LAYOUTS: Final = ("copies", "data", "tensor", "both")


def fastest(machine: str, batch: int) -> str:
    """Return the fastest layout for a batch on a machine."""
    return FASTEST[batch].get(machine, USUALLY[batch])


def _mistakes(machine: str, batch: int) -> dict[str, Any]:
    right = fastest(machine, batch)
    if batch == BATCHES[0]:
        named: dict[str, Any] = {"weights-are-heavy": Mistake("data", "both")}
        named |= {
            "copies-cost-work" if right == "tensor" else "work-is-cheap": (
                "copies" if right == "tensor" else "tensor"
            )
        }
        return named
    if right == "data" and batch == BATCHES[1]:
        return {
            "copies-cost-work": "copies",
            "axes-share": "both",
            "twice-the-weights": "tensor",
        }
    if batch == BATCHES[1]:
        return {"copies-cost-work": "copies", "one-axis-alone": Mistake("data", "tensor")}
    return {"copies-cost-work": "copies", "activations-are-heavy": Mistake("tensor", "both")}


def times_of(
    batch: int, grid: tuple[int, int], flops: float, link: float, axes_at_once: int = 1
) -> dict[str, tuple[float, float]]:
    """Return the seconds of computing and of communicating of `step`, for each layout.

    Args:
        batch: the number of rows of the whole batch.
        grid: the number of devices along x and along y.
        flops: the operations per second of one device.
        link: the bytes per second that one device sends along an axis.
        axes_at_once: 2 if an all-reduce over both axes uses the links of both at once.
    """
    along_x, along_y = grid
    n, work = along_x * along_y, 10 * batch * 4_096 * 16_384 / flops
    weights, rows = 2 * 4_096 * 16_384 * BFLOAT16, batch * 4_096 * BFLOAT16

    def added_up(devices: int, size: float) -> float:
        return 2 * (devices - 1) / devices * size / link

    both = added_up(along_x, weights / along_y) + added_up(along_y, rows / along_x)
    return {
        "copies": (work, 0.0),
        "data": (work / n, added_up(n, weights) / axes_at_once),
        "tensor": (work / n, added_up(n, rows) / axes_at_once),
        "both": (work / n, both),
    }


def _at_the_same_time(machine: str, batch: int) -> Mistake:
    """Return the layouts that are fastest if a device computes while it sends."""
    chip = MACHINES[machine]
    times = times_of(batch, (4, 2), chip.flops, chip.link, 2 if chip.torus else 1)
    took = {name: max(each) for name, each in times.items()}
    return Mistake(*(name for name in LAYOUTS if took[name] < 1.001 * min(took.values())))


def cell_of(machine: str, batch: int) -> str:
    """Name a cell of the tables, such as `TPU v5e, 1,024 rows`."""
    return f"{machine}, {batch:,} rows"


def _in_one_ring(machine: str, batch: int) -> str:
    """Return the layout that is fastest if every all-reduce goes round one ring."""
    chip = MACHINES[machine]
    times = times_of(batch, (4, 2), chip.flops, chip.link)
    return min(times, key=lambda name: sum(times[name]))


ALL_ALIKE: Final[dict[str, dict[str, Any]]] = {
    "in-one-ring": {
        cell_of(machine, batch): _in_one_ring(machine, batch)
        for batch in BATCHES
        for machine in MACHINES
    },
    "at-the-same-time": {
        cell_of(machine, batch): _at_the_same_time(machine, batch)
        for batch in BATCHES
        for machine in MACHINES
    },
}

POD: Final = (32, 8)
"""The shape of the mesh of 256 devices."""

MADE_UP: Final = {"fast links": (200e12, 100e9), "slow links": (800e12, 10e9)}
"""Operations and bytes per second of one device, on machines that do not exist."""

POD_BATCHES: Final = (1_024, 12_288, 524_288)


def fastest_on(machine: str, batch: int, grid: tuple[int, int] = POD) -> str:
    """Return the fastest layout for a batch on a machine that does not exist."""
    took = {name: sum(each) for name, each in times_of(batch, grid, *MADE_UP[machine]).items()}
    return min(took, key=took.__getitem__)


def _mistakes_on(machine: str, batch: int) -> dict[str, Any]:
    right = fastest_on(machine, batch)
    named = {
        "copies-cost-work": "copies",
        "work-is-cheap-on-slow-links": "tensor" if right == "copies" else "",
        "activations-travel": "tensor" if batch > POD_BATCHES[0] else "",
        "all-of-the-weights": "data" if batch == POD_BATCHES[2] else "",
        "weights-travel": "data" if batch == POD_BATCHES[1] else Mistake("data", "both"),
    }
    return {name: said for name, said in named.items() if said and said != right}


ON_OTHER_MESHES: Final = {
    name: {
        cell_of(machine, batch): fastest_on(machine, batch, grid)
        for machine in MADE_UP
        for batch in POD_BATCHES
    }
    for name, grid in (("as-on-eight", (4, 2)), ("as-on-8-by-32", POD[::-1]))
}


STRATEGIES: Final = Exercise(
    id="4.7",
    title="Four layouts, three batches, four machines",
    afterwards="The fastest layout changed with the batch on every machine. With 1,024 rows it is "
    "another one on the slow network, because repeated work saves bytes; with 65,536 rows it is "
    "another one on the TPUs, because one all-reduce uses the links of both axes.",
    requirements=(
        *(
            Predicts(
                "fastest",
                cell_of(machine, batch),
                f"the fastest layout on {machine} with {batch:,} rows",
                fastest(machine, batch),
                _mistakes(machine, batch),
                words=LAYOUTS,
                tables=ALL_ALIKE,
            )
            for batch in BATCHES
            for machine in MACHINES
        ),
        *(
            Predicts(
                "on_256",
                cell_of(machine, batch),
                f"the fastest layout on 256 devices with {machine} and {batch:,} rows",
                fastest_on(machine, batch),
                _mistakes_on(machine, batch),
                words=LAYOUTS,
                tables=ON_OTHER_MESHES,
            )
            for machine in MADE_UP
            for batch in POD_BATCHES
        ),
    ),
    weights={"on_256": 2},
    hints=(
        "For a prediction: what does each layout send, the gradients of the weights or the "
        "activations? Which of the two grows with the number of rows? And which layout repeats "
        "work?",
        "For the four machines, ask seconds(name, rows, machine): the smallest of four, twelve "
        "times. For 256 devices, write down what each layout computes, and what its all-reduces "
        "add up: how large is the buffer, and over how many devices?",
        "data adds up the gradients of all weights over all devices, and tensor the whole batch, "
        "rows × 4,096. both does both: a buffer of an eighth of the weights along x, and one of a "
        "32nd of the batch along y.",
    ),
    diagnoses={
        "weights-are-heavy": "With 1,024 rows, the activations are small compared with the "
        "weights. This layout adds up the gradients of the weights.",
        "copies-cost-work": "copies sends nothing, but every device does all of the work, and not "
        "its share of it. Is that not slower here?",
        "work-is-cheap": "On this slow network, the 14 MiB that tensor parallelism sends take "
        "longer than all of the work on each device.",
        "one-axis-alone": "With 65,536 rows, both the activations and the weights are large. One "
        "layout sends less of each.",
        "in-one-ring": "Every one of your entries would be right if each all-reduce went round one "
        "ring. In a torus, an all-reduce over both axes uses the links of both at once.",
        "axes-share": "This sends the fewest bytes, and on the H100s it is the fastest. On a TPU, "
        "each of its two all-reduces uses the links of one axis, while those of the other are "
        "idle. Which layouts have one all-reduce, over both axes, and which of them sends less?",
        "twice-the-weights": "With 65,536 rows, the activations that this adds up are twice as "
        "large as the weights.",
        "activations-are-heavy": "With 524,288 rows, the activations are by far the largest. "
        "Which layout never sends any, and still shares the work?",
        "at-the-same-time": "Every one of your entries would be right if computing and "
        "communicating happened at the same time, where only the longer of the two counts. Here "
        "they happen one after the other, so add the two times.",
        "as-on-eight": "All of your entries would be right on eight devices, 4 × 2. On 32 × 8, "
        "what does each device compute, and how large are the buffers that it adds up?",
        "as-on-8-by-32": "All of your entries would be right on a mesh of 8 × 32. Here x has size "
        "32 and y has 8. Which of them shards the weights, and which the rows? Or do the gradients "
        "of only one matrix count here, or is the batch added up in the backward pass, too?",
        "activations-travel": "tensor adds up the whole batch, rows × 4,096, over all devices. "
        "Which layout adds up only a part of it?",
        "all-of-the-weights": "data adds up the gradients of all weights over all devices. both "
        "adds up an eighth of them, and a 32nd of the batch: less in all.",
        "weights-travel": "This adds up the gradients of the weights, or of a part of them. Does "
        "another layout send less here, with this number of rows?",
        "work-is-cheap-on-slow-links": "With links as slow as these, adding up the batch takes "
        "longer than all of the work on each device: an all-reduce sends nearly twice the batch.",
    },
)

SHAPES: Final = ((16_384, 4_096), (4_096, 16_384), (16_384, 4_096))

CAP: Final = 100 * MIB

FRONTIER: Final = (
    # Bytes held on each device, and the least microseconds for them, over all layouts within the
    # cap on a 2 × 2 × 2 mesh and the 729 layouts on a 4 × 2 mesh.
    (50_331_648, 21_522), (67_108_864, 18_838), (100_663_296, 14_812),
)  # fmt: skip

GIVEN: Final = 38_971
"""The microseconds of the layout that the notebook shows, everything in rows. They earn nothing."""

ENOUGH: Final = 17_500
"""The microseconds that earn everything; the best known layouts take 14.8 ms."""

DECISION: Final = Exercise(
    id="4.8",
    title="A step within a budget",
    afterwards="Compilers can search, too: systems such as Alpa and Automap look for layouts with "
    "a cost model like this one.",
    requirements=(
        RunsFast(
            "layout",
            "shardings (of x, of w_in, of w_out) that hold at most 100 MiB on each device, and for "
            "which step takes at most 17.5 ms",
            step,
            SHAPES,
            "H100 100G Ethernet",
            CAP,
            FRONTIER,
            GIVEN,
            ENOUGH,
        ),
    ),
    hints=(
        "Each of the three arrays has 128 MiB in bfloat16. A replicated one exceeds the budget; a "
        "half and two eighths are within it.",
        "On this network, sending takes most of the time. step_report lists what is sent, row by "
        "row: which array is gathered, and which partial sums are added up?",
        "Rows of x sharded over the short axis are a good start. Weights can be sharded over both "
        "axes in two dimensions, P('x', 'y') or P('y', 'x'), or in one, P(('x', 'y')) or P(None, "
        "('x', 'y')). Try them in turn, and with the axes of a tuple in the other order.",
    ),
    diagnoses={
        "over-the-cap": "A replicated array has 128 MiB, a half of one 64, a quarter 32, and an "
        "eighth 16.",
        "waits-for-data": "Which of the three shardings causes it? step_report(layout, 16_384, "
        "'H100 100G Ethernet') has a row for each collective.",
        "devices-unused": "All eight devices must take part.",
        "one-device": "All eight devices must take part.",
    },
)

EXERCISES: Final = (
    SENT, LOOPS, SHARES, BOUNDS, CROSSOVER, STRATEGIES, DECISION, READER,
)  # fmt: skip
