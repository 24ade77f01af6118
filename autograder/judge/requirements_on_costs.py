"""Limit what a compiled program communicates, holds and computes on each device.

`CommunicatesAtMost`, `FitsIn` and `WorksAtMost` judge what the compiler made. `Requests` (in
`requirements_on_requests.py`) judges which collectives the program's author requested.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from autograder import artifacts
from autograder.artifacts import Argument, ProgramRun, describe_arguments
from autograder.evidence import Program
from autograder.judge.diagnoses import UNKNOWN_TIMES, name_compiled_collective
from autograder.judge.exercise import Exercise, Order, Requirement
from autograder.judge.requirements_on_values import argument_names_of
from autograder.judge.running_programs import argument_lists_of, run_all
from autograder.judge.verdict import Finding
from autograder.judge.wording import (
    describe_groups,
    explain_unknown_length,
    in_bytes,
    with_arguments,
    with_article,
)
from shardlings.layouts import Layout
from shardlings.programs import Collective, Report, take_costliest_branches, write_apart

SLIGHTLY_MORE: Final = 2
"""A program that sends up to so many times the allowed bytes does what it should, if not well."""

KindAndAxes = tuple[str, tuple[str, ...]]
"""A kind of collective, and the mesh axes that it runs over."""


@dataclass(frozen=True)
class Budget:
    """The most that a program may communicate by one kind of collective, or by all together.

    For example, `Budget("all-reduce", ("x",), bytes=64)`.

    Attributes:
        kind: the kind of collective, a key of `KINDS`; None for all kinds together.
        axes: the mesh axes that it may run over; None for any.
        bytes: the most bytes on each device, summed over all collectives of this kind on these
            axes and over the turns of loops; None for any number.
    """

    kind: str | None
    axes: tuple[str, ...] | None = None
    bytes: int | None = None

    @property
    def name(self) -> str:
        """The kind, in words."""
        return self.kind or "all collectives together"

    def is_for(self, kind: str, axes: tuple[str, ...]) -> bool:
        """Check whether it is for a kind of collective that runs over these axes."""
        return self.kind in (None, kind) and self.axes in (None, axes)


def describe_budgets(budgets: Sequence[Budget]) -> str:
    """Describe budgets: `at most 64 bytes by all-reduce over x`, or `nothing`."""
    described = []
    for budget in budgets:
        amount = "any number of" if budget.bytes is None else f"at most {budget.bytes:,}"
        axes = "" if budget.axes is None else f" over {', '.join(budget.axes)}"
        described.append(f"{amount} bytes by {budget.name}{axes}")
    return " and ".join(described) or "nothing"


def _describe_allowed(budgets: Sequence[Budget]) -> str:
    if not budgets:
        return "no collectives"
    return f"a program that communicates {describe_budgets(budgets)}"


@dataclass(frozen=True)
class CommunicatesAtMost(Requirement):
    """The compiled program communicates no more than its budgets allow; without any, nothing.

    For example, `CommunicatesAtMost("step", ((Budget("collective-permute", ("x",), bytes=8),),))`.
    Budgets limit bytes and not the number of collectives, because compilers combine and split
    collectives.

    Attributes:
        answer: the name of the answer in the notebook. A `Computes` on the same answer exports it.
        budgets: the budgets for each list of arguments of that `Computes`.
    """

    about: ClassVar = "communication"
    order: ClassVar = Order.COSTS
    evidence: ClassVar = (Program,)

    answer: str
    budgets: tuple[tuple[Budget, ...], ...]

    @property
    def asks(self) -> str:
        """The budgets for the first list of arguments, in words."""
        return _describe_allowed(self.budgets[0])

    def judge(self, piece: Program, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the compiled collectives with the budgets."""
        first: Finding | None = None
        names = argument_names_of(exercise, self.answer)
        runs = run_all(exercise, self.answer, piece, seed)
        lists = argument_lists_of(exercise, self.answer)
        for (_, ran), budgets, arguments in zip(runs, self.budgets, lists, strict=True):
            layouts = [Layout.of(artifacts.sharding_of(a), a.shape) for a in arguments]
            program_finding = compare_with_budgets(ran.report, budgets, finding, names, layouts)
            if not program_finding.met:
                if first is None:
                    return program_finding
                difference = with_arguments(arguments, program_finding.difference)
                return program_finding.but(
                    difference=difference, expected=_describe_allowed(budgets)
                )
            combined = describe_combined(ran.requested, ran.report.collectives)
            first = first or program_finding.but(got=f"{program_finding.got}{combined}")
        return first or finding


@dataclass(frozen=True)
class FitsIn(Requirement):
    """The compiled program's peak memory on a device is limited.

    For example, `FitsIn("step", (1024,))`.

    Attributes:
        answer: the name of the answer in the notebook. A `Computes` on the same answer exports it.
        bytes: the most bytes that a device may hold at once, for each list of arguments.
        gathers: for each list of arguments, a number of pieces and the bytes of one, if pieces
            (the parameters of each layer) have to be gathered one at a time, and again for the
            backward pass. A verdict then says if several were gathered together, or if none was
            gathered a second time.
    """

    about: ClassVar = "memory"
    order: ClassVar = Order.COSTS
    evidence: ClassVar = (Program,)

    answer: str
    bytes: tuple[int, ...]
    gathers: tuple[tuple[int, int], ...] = ()

    @property
    def asks(self) -> str:
        """The limit for the first list of arguments, in words."""
        return f"a program that holds at most {in_bytes(self.bytes[0])} on each device"

    def judge(self, piece: Program, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the peak memory with the limit."""
        runs = [ran for _, ran in run_all(exercise, self.answer, piece, seed)]
        finding = compare_with_limits(
            self.bytes,
            [ran.report.peak_bytes for ran in runs],
            argument_lists_of(exercise, self.answer),
            finding,
            "{} bytes on each device",
            (
                "too-much-memory",
                "The program holds {} bytes at once on each device; at most {} are allowed.",
            ),
        )
        return finding if finding.met else _explain_gathers(self, runs[0], finding)


@dataclass(frozen=True)
class WorksAtMost(Requirement):
    """The floating-point operations of each device are limited, so that the work is shared.

    For example, `WorksAtMost("matmul", (2 * 64**3 // 8,))` for a matmul on eight devices.

    Attributes:
        answer: the name of the answer in the notebook. A `Computes` on the same answer exports it.
        flops: the most floating-point operations on a device, as XLA counts them, for each list of
            arguments.
    """

    about: ClassVar = "work"
    order: ClassVar = Order.COSTS
    evidence: ClassVar = (Program,)

    answer: str
    flops: tuple[int, ...]

    @property
    def asks(self) -> str:
        """The limit for the first list of arguments, in words."""
        return (
            f"a program in which each device does at most {self.flops[0]:,} floating-point "
            f"operations"
        )

    def judge(self, piece: Program, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the operations on each device with the limit."""
        reports = [ran.report for _, ran in run_all(exercise, self.answer, piece, seed)]
        if not all(math.isfinite(report.flops) for report in reports):
            return finding.problem(
                UNKNOWN_TIMES,
                "The program has a loop whose length is known only when it runs, so the work of "
                "each device cannot be computed.",
                got="a loop of unknown length",
            )
        return compare_with_limits(
            self.flops,
            [report.flops for report in reports],
            argument_lists_of(exercise, self.answer),
            finding,
            "{} operations on each device",
            (
                "too-much-work",
                "Each device does {} operations; at most {} are allowed. Is something "
                "computed more than once, or by several devices?",
            ),
        )


def compare_with_budgets(
    report: Report,
    budgets: Sequence[Budget],
    finding: Finding,
    names: Sequence[str],
    layouts: Sequence[Layout],
) -> Finding:
    """Compare one compiled program's collectives with its budgets.

    Args:
        report: the compiled program's collectives.
        budgets: what it may communicate.
        finding: the finding to start from.
        names: the names of the program's arguments.
        layouts: the layouts of the arguments.
    """
    described = f"a program that communicates {describe_communication(report)}"
    finding = finding.but(got=described if report.collectives else "no collectives")
    spent = _bytes_by_kind(report)
    left_over = _join_all_reduces(report, spent, budgets)
    joined = "" if left_over == spent else " (a reduce-scatter and an all-gather count as one)"
    too_much, is_slight = None, True
    for budget in budgets:
        matching = [pair for pair in left_over if budget.is_for(*pair)]
        unknown = [
            c for c in report.collectives if (c.kind, c.axes) in matching and c.times is None
        ]
        total = sum(left_over.pop(pair) for pair in matching)
        if budget.bytes is not None and unknown:
            return finding.problem(UNKNOWN_TIMES, explain_unknown_length(unknown[0].kind))
        if budget.bytes is not None and total > SLIGHTLY_MORE * budget.bytes:
            is_slight = False
        if budget.bytes is not None and total > budget.bytes and too_much is None:
            name = _describe_kind(report, matching[0]) if len(matching) == 1 else budget.name
            too_much = finding.problem(
                "too-many-bytes",
                f"The compiled program moves {in_bytes(total)} on each device by {name}"
                f"{joined if budget.kind == 'all-reduce' else ''}; at most {budget.bytes:,} are "
                f"allowed.",
            )
    if left_over:  # a collective without a budget matters more than one that exceeds its budget
        pair, moved = next(iter(left_over.items()))
        worst = max(
            (c for c in report.collectives if (c.kind, c.axes) == pair), key=lambda c: c.total_bytes
        )
        count = _count(report, pair)
        sentence = "The compiled program has " + (
            f"{with_article(_describe_kind(report, pair))} of {in_bytes(moved)}, which is not "
            f"allowed here."
            if count == 1
            else f"{_describe_several(report, pair)}, {in_bytes(moved)} together, which are not "
            f"allowed here."
        )
        if worst.times is None:
            sentence += f" {'One' if count > 1 else 'It'} is in a loop, and runs in each turn."
        if len(left_over) > 1:
            total = sum(left_over.values())
            sentence += f" What is not allowed moves {in_bytes(total)} in all."
        return finding.problem(
            name_compiled_collective(*pair),
            sentence + _describe_argument(worst, names, layouts, count > 1),
        )
    if too_much is not None:
        return too_much.but(is_slight=is_slight)
    return finding.but(met=True)


def _explain_gathers(requirement: FitsIn, ran: ProgramRun, finding: Finding) -> Finding:
    """Add how much the program gathers at once, or that it gathers only once.

    The total is that of the requested gathers, because compilers combine them differently.
    """
    gathers = [c for c in ran.report.collectives if c.kind == "all-gather"]
    requested = [c for c in ran.requested if c.kind == "all-gather"]
    unknown = any(c.times is None for c in requested)
    # with the first list of arguments the program may fit, and not with a later one
    fits = ran.report.peak_bytes <= requirement.bytes[0]
    if not requirement.gathers or not gathers or unknown or fits:
        return finding
    pieces, piece_bytes = requirement.gathers[0]
    largest, total = max(c.bytes for c in gathers), sum(c.total_bytes for c in requested)
    if largest > piece_bytes:
        return finding.problem(
            "gathered-at-once",
            f"{finding.difference} It gathers {in_bytes(largest)} at once, and {piece_bytes:,} are "
            f"enough.",
        )
    if 0 < total <= pieces * piece_bytes:
        return finding.problem(
            "gathered-once",
            f"{finding.difference} It gathers {in_bytes(total)} in total, each of them once.",
        )
    return finding


def write_whole(number: float) -> str:
    """Return a number without decimals: `1,024`."""
    return f"{number:,.0f}"


def compare_with_limits(
    limits: Sequence[float],
    amounts: Sequence[float],
    lists: Sequence[Sequence[Argument]],
    finding: Finding,
    got: str,
    problem: tuple[str, str],
    formats: Sequence[Callable[[float], str]] = (write_whole, "{:,}".format),
) -> Finding:
    """Compare amounts with their limits.

    Args:
        limits: the most that is allowed, for each list of arguments.
        amounts: what there is, likewise.
        lists: the lists of arguments.
        finding: the finding to start from.
        got: describes an amount.
        problem: the diagnosis, and a sentence on an amount and its limit.
        formats: ways to write both numbers, coarse ones first; see `write_apart`.
    """
    for number, limit in enumerate(limits):
        if amounts[number] > limit:
            diagnosis, sentence = problem
            amount, allowed = write_apart(amounts[number], limit, *formats)
            exceeded = finding.problem(
                diagnosis, sentence.format(amount, allowed), got=got.format(amount)
            )
            if not number:
                return exceeded
            return exceeded.but(
                difference=with_arguments(lists[number], exceeded.difference),
                expected=f"at most {got.format(allowed)}",
                got=f"{exceeded.got}, for {describe_arguments(lists[number])}",
            )
    return finding.but(met=True, got=got.format(formats[0](amounts[0])))


def describe_communication(report: Report) -> str:
    """Describe what a program communicates: `64 bytes by all-reduce over x`, or `nothing`."""
    items = []
    for pair, moved in _bytes_by_kind(report).items():
        alike = [c for c in report.collectives if (c.kind, c.axes) == pair]
        # a loop of unknown length counts once
        once = " (with one turn of the loop)" * any(c.times is None for c in alike)
        items.append(f"{in_bytes(moved)} by {_describe_several(report, pair)}{once}")
    return " and ".join(items) or "nothing"


def describe_combined(requested: Sequence[Collective], compiled: Sequence[Collective]) -> str:
    """Say that the compiler combined explicit collectives of a kind; empty if it did not."""
    for kind in dict.fromkeys(c.kind for c in compiled):
        counts = [
            sum(c.counted_times for c in each if c.kind == kind) for each in (requested, compiled)
        ]
        if counts[0] > counts[1]:
            return f" (the compiler combined some of the {counts[0]} {kind}s that are requested)"
    return ""


def _bytes_by_kind(report: Report) -> dict[KindAndAxes, int]:
    """Sum the bytes of each kind of collective over each set of axes, largest first."""
    alike: dict[KindAndAxes, list[Collective]] = {}
    for c in report.collectives:
        alike.setdefault((c.kind, c.axes), []).append(c)
    total = {
        pair: sum(c.total_bytes for c in take_costliest_branches(each, lambda c: c.total_bytes))
        for pair, each in alike.items()
    }
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _join_all_reduces(
    report: Report, spent: dict[KindAndAxes, int], budgets: Sequence[Budget]
) -> dict[KindAndAxes, int]:
    """Replace a reduce-scatter and an all-gather of equally many bytes by an all-reduce.

    This happens only over axes for which there is a budget for all-reduces, if there is none for
    reduce-scatters and all-gathers, and if it is known how often each of them runs.
    """
    if {budget.kind for budget in budgets} & {"reduce-scatter", "all-gather"}:
        return spent
    allowed = [budget.axes for budget in budgets if budget.kind == "all-reduce"]
    unknown = {c.axes for c in report.collectives if c.times is None}
    merged = dict(spent)
    for axes in {axes for _, axes in spent} - unknown:
        scattered = merged.get(("reduce-scatter", axes), 0)
        if (
            scattered
            and (axes in allowed or None in allowed)
            and merged.get(("all-gather", axes)) == scattered
        ):
            del merged["reduce-scatter", axes], merged["all-gather", axes]
            merged["all-reduce", axes] = merged.get(("all-reduce", axes), 0) + scattered
    return merged


def _describe_argument(
    collective: Collective, names: Sequence[str], layouts: Sequence[Layout], is_one_of_several: bool
) -> str:
    """Say which argument a collective communicates, its layout, and what a gather makes of it."""
    if collective.argument is None or not collective.traits.verb:
        return ""
    name, layout = names[collective.argument], layouts[collective.argument]
    if sum(map(math.prod, collective.shapes)) != math.prod(layout.block_shape):
        return ""  # another collective has changed it before
    which = f"The largest, of {in_bytes(collective.total_bytes)}," if is_one_of_several else "It"
    sentence = (
        f" {which} {collective.traits.verb} `{name}`, which is laid out as {layout.describe()}"
    )
    if collective.kind != "all-gather":
        return f"{sentence}."
    return f"{sentence}, and leaves {in_bytes(collective.bytes_out)} of it on each device."


def _describe_kind(report: Report, pair: KindAndAxes) -> str:
    """Return `all-gather over x`, or `all-gather between groups of two devices`."""
    groups = dict.fromkeys(
        describe_groups(c) for c in report.collectives if (c.kind, c.axes) == pair
    )
    if not groups:  # a reduce-scatter and an all-gather that count as one
        return name_compiled_collective(*pair)
    return f"{pair[0]} {' and '.join(groups)}"


def _count(report: Report, pair: KindAndAxes) -> int:
    return sum((c.kind, c.axes) == pair for c in report.collectives)


def _describe_several(report: Report, pair: KindAndAxes) -> str:
    """Return `all-gather over x`, or `2 all-gathers over x`."""
    (kind, _), count = pair, _count(report, pair)
    words = _describe_kind(report, pair)
    return words if count == 1 else f"{count} {kind}s{words.removeprefix(kind)}"
