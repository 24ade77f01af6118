"""Ask for a program with few collectives, little memory or little work, and judge it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autograder import programs
from autograder.evidence import Program
from autograder.judge.exercise import Exercise, Order, Requirement
from autograder.judge.requirements_on_values import parameters
from autograder.judge.running_programs import asked_of, run_all
from autograder.judge.verdict import Finding
from autograder.judge.wording import between, given, of_unknown_length, with_article
from autograder.layouts import Layout
from autograder.programs import Argument, Collective, Ran, Report

Pair = tuple[str, tuple[str, ...]]
"""A kind of collective, and the axes that it runs over."""


@dataclass(frozen=True)
class Budget:
    """What may be communicated at most.

    Attributes:
        kind: a canonical kind of collective, as `KINDS` has it.
        axes: the mesh axes it may run over; None for any.
        bytes: at most so many on each device, over all collectives of the kind on these axes,
            loops counted; None for any number.
    """

    kind: str
    axes: tuple[str, ...] | None = None
    bytes: int | None = None


def allowed(budgets: Sequence[Budget]) -> str:
    """What budgets allow, in words."""
    return (
        "at most " * bool(budgets)
        + " and ".join(
            f"{'any number of' if b.bytes is None else f'{b.bytes:,}'} bytes by {b.kind}"
            + ("" if b.axes is None else f" over {', '.join(b.axes)}")
            for b in budgets
        )
        or "nothing"
    )


@dataclass(frozen=True)
class CommunicatesAtMost(Requirement):
    """The compiled program stays within budgets; with none, it communicates nothing.

    A budget is never a number of instructions: compilers combine and split them.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this. Another requirement,
            `Computes`, has it exported.
        budgets: for each program that is judged, what it may communicate.
    """

    about: ClassVar = "communication"
    order: ClassVar = Order.COSTS
    evidence: ClassVar = (Program,)

    answer: str
    budgets: tuple[tuple[Budget, ...], ...]

    @property
    def asks(self) -> str:
        """The first program's budgets, in words."""
        most = self.budgets[0]
        return f"a program that communicates {allowed(most)}" if most else "no collectives"

    def judge(self, piece: Program, basis: Finding, exercise: Exercise, seed: int) -> Finding:
        """The finding for what a program communicates, against its budgets."""
        return _judge_communication(self, piece, basis, exercise, seed)


@dataclass(frozen=True)
class FitsIn(Requirement):
    """The compiled program takes no more memory on a device than is given.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this. Another requirement,
            `Computes`, has it exported.
        bytes: for each program that is judged, the most it may hold on a device at once.
        gathers: for each program, how many pieces it has to gather and the bytes of one, where
            each is to be gathered by itself and then once more; nothing where that is not so.
    """

    about: ClassVar = "memory"
    order: ClassVar = Order.COSTS
    evidence: ClassVar = (Program,)

    answer: str
    bytes: tuple[int, ...]
    gathers: tuple[tuple[int, int], ...] = ()

    @property
    def asks(self) -> str:
        """The first program's limit, in words."""
        return f"a program that holds at most {self.bytes[0]:,} bytes on each device"

    def judge(self, piece: Program, basis: Finding, exercise: Exercise, seed: int) -> Finding:
        """The finding for the memory that a program takes."""
        return _judge_memory(self, piece, basis, exercise, seed)


@dataclass(frozen=True)
class WorksAtMost(Requirement):
    """No device does more than its share of the work.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this. Another requirement,
            `Computes`, has it exported.
        flops: for each program that is judged, the most floating-point operations on a device, by
            XLA's own count.
    """

    about: ClassVar = "work"
    order: ClassVar = Order.COSTS
    evidence: ClassVar = (Program,)

    answer: str
    flops: tuple[int, ...]

    @property
    def asks(self) -> str:
        """The first program's limit, in words."""
        return (
            f"a program in which each device does at most {self.flops[0]:,} floating-point "
            f"operations"
        )

    def judge(self, piece: Program, basis: Finding, exercise: Exercise, seed: int) -> Finding:
        """The finding for the operations that a device does."""
        return _judge_work(self, piece, basis, exercise, seed)


def _judge_communication(
    requirement: CommunicatesAtMost, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for what a program communicates, against its budgets."""
    first: Finding | None = None
    names = parameters(exercise, requirement.answer)
    runs = run_all(exercise, requirement.answer, piece, seed)
    lists = asked_of(exercise, requirement.answer)
    for (_, ran), budgets, arguments in zip(runs, requirement.budgets, lists, strict=True):
        layouts = [Layout.of(programs.placed(a), a.shape) for a in arguments]
        found = within_budgets(ran.report, budgets, basis, names, layouts)
        if not found.met:
            return found if first is None else found.but(difference=_given(arguments, found))
        first = first or found
    return first or basis


def _given(arguments: Sequence[Argument], found: Finding) -> str:
    """What is wrong, and with which arguments: where it was right with the first."""
    return given(arguments, found.difference)


def within_budgets(
    report: Report,
    budgets: Sequence[Budget],
    basis: Finding,
    names: Sequence[str],
    layouts: Sequence[Layout],
) -> Finding:
    """The finding for what one compiled program communicates.

    Args:
        report: what it communicates.
        budgets: what it may.
        basis: what is known of the finding.
        names: what to call each of the program's arguments.
        layouts: where each of them is.
    """
    moves = f"a program that communicates {communicated(report)}"
    basis = basis.but(came=moves if report.collectives else "no collectives")
    spent = _spent(report)
    left_over = _reduced(spent, budgets)
    counted_as_one = " (a reduce-scatter and an all-gather count as one)" * (left_over != spent)
    too_much = None
    for budget in budgets:
        matching = [
            pair for pair in left_over if pair[0] == budget.kind and budget.axes in (None, pair[1])
        ]
        unknown = [
            c for c in report.collectives if (c.kind, c.axes) in matching and c.times is None
        ]
        total = sum(left_over.pop(pair) for pair in matching)
        if budget.bytes is not None and unknown:
            return basis.problem(
                "unknown-times",
                of_unknown_length(budget.kind),
            )
        if budget.bytes is not None and total > budget.bytes and too_much is None:
            name = _said(report, matching[0]) if len(matching) == 1 else budget.kind
            too_much = basis.problem(
                "too-many-bytes",
                f"The compiled program moves {total:,} bytes on each device by {name}"
                f"{counted_as_one}; at most {budget.bytes:,} are allowed.",
            )
    if left_over:  # what nobody asked for says more than how much there is of the rest
        pair, moved = next(iter(left_over.items()))
        worst = max(
            (c for c in report.collectives if (c.kind, c.axes) == pair), key=lambda c: c.total_bytes
        )
        count = sum((c.kind, c.axes) == pair for c in report.collectives)
        said = (
            f"The compiled program has {with_article(_said(report, pair))} of {moved:,} bytes, "
            f"which is not allowed here."
            if count == 1
            else f"The compiled program has {_several(count, report, pair)}, {moved:,} bytes "
            f"together, which are not allowed here."
        )
        if len(left_over) > 1:
            total = sum(left_over.values())
            said += f" Everything that is not allowed moves {total:,} bytes together."
        return basis.problem(_name(*pair), said + _whose(worst, names, layouts, count > 1))
    if too_much is not None:
        return too_much
    return basis.but(met=True)


def _judge_memory(
    requirement: FitsIn, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for the memory that a program takes on each device."""
    programs = [ran for _, ran in run_all(exercise, requirement.answer, piece, seed)]
    found = _at_most(
        requirement.bytes,
        [ran.report.peak_bytes for ran in programs],
        asked_of(exercise, requirement.answer),
        basis,
        "{:,.0f} bytes on each device",
        (
            "too-much-memory",
            "The program holds {:,.0f} bytes at once on each device; at most {:,} are allowed.",
        ),
    )
    return found if found.met else _with_gathers(requirement, programs[0], found)


def _with_gathers(requirement: FitsIn, ran: Ran, found: Finding) -> Finding:
    """The finding for too much memory, with how much the program gathers at once, and how often.

    How often is counted in what it asks for: compilers differ in what they make of that.
    """
    gathers = [c for c in ran.report.collectives if c.kind == "all-gather"]
    by_hand = [c for c in ran.requested if c.kind == "all-gather"]
    unknown = any(c.times is None for c in by_hand)
    fits = ran.report.peak_bytes <= requirement.bytes[0]  # then another case does not
    if not requirement.gathers or not gathers or unknown or fits:
        return found
    number, piece = requirement.gathers[0]
    largest, total = max(c.bytes for c in gathers), sum(c.total_bytes for c in by_hand)
    if largest > piece:
        return found.problem(
            "gathered-at-once",
            f"{found.difference} It gathers {largest:,} bytes at once, and {piece:,} are enough.",
        )
    if 0 < total <= number * piece:
        return found.problem(
            "gathered-once",
            f"{found.difference} It gathers {total:,} bytes in total, each of them once.",
        )
    return found


def _judge_work(
    requirement: WorksAtMost, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for the operations that each device does."""
    reports = [ran.report for _, ran in run_all(exercise, requirement.answer, piece, seed)]
    if not all(math.isfinite(report.flops) for report in reports):
        return basis.problem(
            "unknown-times",
            "The program has a loop whose length is known only when it runs, so the work of each "
            "device cannot be computed.",
            came="a loop of unknown length",
        )
    return _at_most(
        requirement.flops,
        [report.flops for report in reports],
        asked_of(exercise, requirement.answer),
        basis,
        "{:,.0f} operations on each device",
        (
            "too-much-work",
            "Each device does {:,.0f} operations; at most {:,} are allowed. Is something computed "
            "more than once, or by several devices?",
        ),
    )


def _at_most(
    limits: Sequence[int],
    amounts: Sequence[float],
    lists: Sequence[Sequence[Argument]],
    basis: Finding,
    came: str,
    problem: tuple[str, str],
) -> Finding:
    """The finding for amounts of which each has a limit; of those within, the first is told."""
    for number, limit in enumerate(limits):
        if amounts[number] > limit:
            diagnosis, sentence = problem
            found = basis.problem(
                diagnosis,
                sentence.format(amounts[number], limit),
                came=came.format(amounts[number]),
            )
            return found.but(difference=_given(lists[number], found)) if number else found
    return basis.but(met=True, came=came.format(amounts[0]))


def communicated(report: Report) -> str:
    """What a program communicates, in words."""
    said = []
    for pair, moved in _spent(report).items():
        mine = [c for c in report.collectives if (c.kind, c.axes) == pair]
        # a loop of unknown length counts once
        one = " (with one turn of the loop)" * any(c.times is None for c in mine)
        said.append(f"{moved:,} bytes by {_several(len(mine), report, pair)}{one}")
    return " and ".join(said) or "nothing"


def _spent(report: Report) -> dict[Pair, int]:
    """The bytes of each kind of collective over each set of axes, the most first."""
    total: dict[Pair, int] = {}
    for c in report.collectives:
        total[c.kind, c.axes] = total.get((c.kind, c.axes), 0) + c.total_bytes
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _reduced(spent: dict[Pair, int], budgets: Sequence[Budget]) -> dict[Pair, int]:
    """The same, with a reduce-scatter and an all-gather as the all-reduce that they make together.

    Only where the budgets speak of an all-reduce and not of the two.
    """
    allowed = {budget.kind for budget in budgets}
    if "all-reduce" not in allowed or allowed & {"reduce-scatter", "all-gather"}:
        return spent
    merged = dict(spent)
    for _, axes in spent:
        scattered = merged.get(("reduce-scatter", axes), 0)
        if scattered and merged.get(("all-gather", axes)) == scattered:
            del merged["reduce-scatter", axes], merged["all-gather", axes]
            merged["all-reduce", axes] = merged.get(("all-reduce", axes), 0) + scattered
    return merged


def _whose(
    collective: Collective, names: Sequence[str], layouts: Sequence[Layout], several: bool
) -> str:
    """Which argument a collective takes, how that was laid out, and what the collective adds."""
    if collective.argument is None or not collective.traits.verb:
        return ""
    name, layout = names[collective.argument], layouts[collective.argument]
    if collective.bytes_in != math.prod(layout.block_shape) * _bytes_of(collective.dtypes):
        return ""  # another collective has been at work on it before
    which = f"The largest, of {collective.total_bytes:,} bytes," if several else "It"
    said = f" {which} {collective.traits.verb} {name}, which is laid out as {layout.describe()}"
    if collective.kind != "all-gather":
        return f"{said}."
    return f"{said}, and leaves {collective.bytes_out:,} bytes of it on each device."


def _bytes_of(dtypes: Sequence[str]) -> int:
    """The bytes of a number, by the name that XLA gives its type, such as `f32`."""
    bits = "".join(filter(str.isdigit, dtypes[0])) if dtypes else ""
    return int(bits) // 8 if bits else 1


def _name(kind: str, axes: tuple[str, ...]) -> str:
    """What is diagnosed: lessons, and the bank, know it by this name."""
    return f"{kind} over {', '.join(axes) or 'parts of axes'}"


def _said(report: Report, pair: Pair) -> str:
    """`all-gather over x`, or `all-gather between groups of two devices`."""
    groups = dict.fromkeys(between(c) for c in report.collectives if (c.kind, c.axes) == pair)
    if not groups:  # a reduce-scatter and an all-gather that count as one
        return _name(*pair)
    return f"{pair[0]} {' and '.join(groups)}"


def _several(count: int, report: Report, pair: Pair) -> str:
    """`all-gather over x`, or `2 all-gathers over x`."""
    kind, _ = pair
    said = _said(report, pair)
    return said if count == 1 else f"{count} {kind}s{said.removeprefix(kind)}"
