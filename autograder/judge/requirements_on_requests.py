"""Require explicit collectives, and judge those that a program requests.

They are read from the exported program, as its author wrote it. `CommunicatesAtMost` (in
`requirements_on_costs.py`) judges the compiled ones.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import jax
import numpy as np
from humanize import natural_list

from autograder.artifacts import Argument, ProgramError, ProgramRun, sharding_of
from autograder.evidence import Program
from autograder.judge.comparing_values import compare
from autograder.judge.diagnoses import (
    ADDED_BY_COMPILER,
    GATHERED_BEFORE_BODY,
    MAKES_NO_DIFFERENCE,
    NO_SHARD_MAP,
    OTHER_BLOCKS_ENTER,
    OUTSIDE_THE_BODY,
    TOO_SELDOM,
    UNKNOWN_TIMES,
    is_explicit_collective,
    name_explicit_collective,
    name_missing_collective,
)
from autograder.judge.exercise import Exercise, Order, Requirement
from autograder.judge.requirements_on_values import Computes, argument_names_of
from autograder.judge.running_programs import (
    argument_lists_of,
    find_added_collectives,
    run_all,
    run_with_scaled_collective,
)
from autograder.judge.verdict import Finding
from autograder.judge.wording import (
    describe_groups,
    explain_unknown_length,
    in_bytes,
    with_arguments,
    with_article,
)
from shardlings.documents import with_noun
from shardlings.programs import Collective, groups_along
from shardlings.programs.requested import Spec

COUNTED_AS: Final = {"reduce-scatter": "all-reduce"}
"""Kinds that are counted as another, because compilers may replace them: a reduce-scatter, for
example, by an all-reduce and a slice."""

MAX_WIDENING: Final = 4
"""XLA may move up to so many times the requested bytes, because it widens 1-byte types to 4."""

MAX_OPERATIONS_OUTSIDE: Final = 4
"""The most operations outside a `shard_map`, for each element of the arguments and results."""

COMMON_KINDS: Final = (
    "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute",
)  # fmt: skip
"""The kinds of collective for which a description says whether they are allowed."""


@dataclass(frozen=True)
class RequestedCollective:
    """An explicit collective that a program has to request.

    For example, `RequestedCollective("collective-permute", 7, ("x",), bytes=64, neighbours=True)`.

    Attributes:
        kind: the kind of collective, a key of `KINDS`.
        times: how often the program runs it, loops counted.
        axes: the mesh axes that it must run over; None for any.
        bytes: the most bytes in one buffer on each device; None for any number.
        neighbours: for a permutation: whether each device must send to one of its two neighbours
            in the ring along the mesh axes over which the permutation runs.
        dtype: the type of the numbers that it sends, as HLO names it; empty for any.
    """

    kind: str
    times: int = 1
    axes: tuple[str, ...] | None = None
    bytes: int | None = None
    neighbours: bool = False
    dtype: str = ""

    def __str__(self) -> str:
        """Return `7 collective-permutes over x of at most 64 bytes`, for example."""
        number = f"{'a' if self.times == 1 else self.times} {self.kind}{'s' * (self.times != 1)}"
        if number.startswith("a all"):
            number = f"an{number[1:]}"
        axes = f" over {', '.join(self.axes)}" if self.axes is not None else ""
        most = f" of at most {self.bytes:,} bytes" if self.bytes is not None else ""
        return f"{number}{axes}{most}" + (f" of {self.dtype}" if self.dtype else "")


@dataclass(frozen=True)
class Requests(Requirement):
    """The program requests exactly these explicit collectives, and its result depends on them.

    For example, `Requests("softmax", ((RequestedCollective("all-reduce", 2, ("x",), bytes=4),),))`.
    With `never`, every kind that it does not list is allowed: `Requests("turned",
    never=("all-gather",))`.

    Attributes:
        answer: the name of the answer in the notebook. A `Computes` on the same answer exports it.
        wanted: the collectives that it has to request, for each list of arguments.
        never: instead of `wanted`, the kinds that it must not request; all others are allowed.
        mapped: whether the work must be done inside a `shard_map`, so that the compiler adds no
            collectives.
        at_least: with `never`, how often kinds that it has to request must run, at the least: for
            example, `{"all-gather": 11, "all-reduce": 1}`.
        constrained: whether the result must depend on a sharding constraint that replicates an
            intermediate value (True), or must not depend on any constraint (False); None for
            either.
        made_of: with `constrained=True`, the numbers, from 0, of the arguments that the
            constrained value must be computed from.
    """

    about: ClassVar = "collectives"
    order: ClassVar = Order.COSTS
    evidence: ClassVar = (Program,)

    answer: str
    wanted: tuple[tuple[RequestedCollective, ...], ...] = ()
    never: tuple[str, ...] = ()
    mapped: bool = True
    at_least: Mapping[str, int] = field(default_factory=dict)
    constrained: bool | None = None
    made_of: tuple[int, ...] = ()

    @property
    def asks(self) -> str:
        """The collectives for the first list of arguments, in words."""
        if self.constrained is not None:
            how = "a" if self.constrained else "no"
            return f"{how} sharding constraint, and {self._collectives}"
        return self._collectives

    @property
    def _collectives(self) -> str:
        if self.never:
            if not self.at_least:
                allowed = [f"{kind}s" for kind in COMMON_KINDS if kind not in self.never]
                return f"a shard_map that requests only {natural_list(allowed)}"
            needed = (
                f"at least {times} {kind}s" if times > 1 else with_article(kind)
                for kind, times in self.at_least.items()
            )
            *most, last = self.never
            others = f"{', '.join(most)} or {last}" if most else last
            return f"a shard_map that requests {natural_list(needed)}, and no {others}"
        wanted = " and ".join(map(str, self.wanted[0]))
        return f"{wanted}, requested explicitly" if wanted else "no explicit collective"

    def judge(self, piece: Program, finding: Finding, exercise: Exercise, seed: int) -> Finding:
        """Compare the requested collectives, and check that the result depends on them."""
        try:
            runs = run_all(exercise, self.answer, piece, seed)
        except ProgramError as refused:  # it does not compile; does it have a shard_map at all?
            if refused.has_shard_map or not self.mapped:
                raise
            return _report_no_shard_map(finding)
        lists = argument_lists_of(exercise, self.answer)
        judged: list[tuple[ProgramRun, Finding]] = []
        for i, ((_, ran), arguments) in enumerate(zip(runs, lists, strict=True)):
            program_finding = self._judge_program(i, ran, arguments, exercise, finding)
            if not program_finding.met:
                return program_finding
            judged.append((ran, program_finding))
        if not self.mapped or not judged:
            return judged[0][1] if judged else finding
        # From here on, programs run with changed numbers, with which a while loop may never end.
        for ran, program_finding in judged:
            if ran.requested and not ran.always_terminates:
                return program_finding.but(met=False).problem(
                    UNKNOWN_TIMES, _explain_unknown_end(ran.requested)
                )
        first = _check_difference(self, *judged[0], piece, exercise, seed)
        if not first.met:
            return first
        names = argument_names_of(exercise, self.answer)
        for i, ((ran, program_finding), arguments) in enumerate(zip(judged, lists, strict=True)):
            remaining = find_added_collectives(exercise, self.answer, piece, i, seed)
            added = _check_nothing_added(
                ran, remaining, dict(zip(names, arguments, strict=True)), program_finding
            )
            if not added.met:
                return _add_arguments(i, arguments, added)
        return first

    def lacks_collectives(self, finding: Finding) -> bool:
        """Check whether kinds are missing that have to run at least so often."""
        return bool(self.at_least) and not finding.met

    def is_needlessly_explicit(self, finding: Finding) -> bool:
        """Check for an explicit collective where the compiler should add the collectives."""
        return not self.mapped and is_explicit_collective(finding.diagnosis)

    def _judge_program(
        self,
        number: int,
        ran: ProgramRun,
        arguments: Sequence[Argument],
        exercise: Exercise,
        finding: Finding,
    ) -> Finding:
        """Judge what one program requests, and where; not yet whether its result depends on it."""
        if self.constrained is False and ran.is_constrained:
            return finding.problem(
                "constrained",
                "The result depends on a sharding constraint; here it must not.",
                got="a program with a constraint",
            )
        if self.constrained and not ran.is_constrained:
            return finding.problem(
                "no-constraint",
                "The result does not depend on a constrained intermediate value. Either the "
                "function has no jax.lax.with_sharding_constraint, or it constrains only an "
                "argument as it is given, or it does not use what the constraint returns.",
                got="a program without a constraint on an intermediate value",
            )
        if self.constrained and not any(
            made_of.issuperset(self.made_of) for made_of in ran.replicated
        ):
            names = argument_names_of(exercise, self.answer)
            needed = " and ".join(names[i] for i in self.made_of)
            return finding.problem(
                "constraint-elsewhere",
                f"There is a constraint, but none that replicates a value computed from "
                f"{needed}. Is it on such a value, and does its spec name no axis?",
                got="a program with a constraint on another value, or with another spec",
            )
        if self.mapped and not ran.has_shard_map:
            return _report_no_shard_map(finding)
        if self.mapped and ran.outside > MAX_OPERATIONS_OUTSIDE * _count_elements(ran, arguments):
            return _add_arguments(number, arguments, _report_work_outside(ran, finding))
        if self.never:
            finding = check_excluded_kinds(ran.requested, self, finding)
        else:
            finding = compare_requests(ran.requested, self.wanted[number], finding)
            if finding.met:
                finding = check_neighbours(ran.requested, self.wanted[number], arguments, finding)
        if not finding.met:
            names = argument_names_of(exercise, self.answer)
            finding = _name_gathered_arguments(finding, ran, names)
            return _add_arguments(number, arguments, finding)
        return finding


def _name_gathered_arguments(finding: Finding, ran: ProgramRun, names: Sequence[str]) -> Finding:
    """Say which arguments the compiler gathers before the body, if an all-gather is missing."""
    gathered = {c.argument for c in ran.report.collectives if c.kind == "all-gather"} - {None}
    if finding.diagnosis != name_missing_collective("all-gather") or not gathered:
        return finding
    listed = natural_list([name for i, name in enumerate(names) if i in gathered])
    return finding.problem(
        GATHERED_BEFORE_BODY,
        f"{finding.difference} Instead, the compiler gathers {listed}. Do in_specs replicate "
        f"{'them' if len(gathered) > 1 else 'it'}, so that the body gets more than a device's own "
        f"block?",
    )


def _report_no_shard_map(finding: Finding) -> Finding:
    """Return the finding for a program without a `shard_map`."""
    return finding.problem(
        NO_SHARD_MAP,
        "The result is not computed inside a shard_map, so the compiler divided the work. "
        "Write what one device does.",
        got="a program for all devices at once",
    )


def _explain_unknown_end(requested: Sequence[Collective]) -> str:
    """Return the sentence for a program with a loop that might never end."""
    unknown = next((c for c in requested if c.times is None), None)
    if unknown is not None:
        return explain_unknown_length(unknown.kind)
    return (
        "The program has a loop whose length is known only when it runs. The check tries the "
        "program with other numbers in its collectives, too, and with these such a loop might "
        "never end."
    )


def _count_elements(ran: ProgramRun, arguments: Sequence[Argument]) -> int:
    """Count the elements of a program's arguments and results."""
    taken = sum(math.prod(argument.shape) for argument in arguments)
    return taken + sum(output.size for output in ran.outputs[0])


def _report_work_outside(ran: ProgramRun, finding: Finding) -> Finding:
    """Return the finding for a program that does work outside a `shard_map`."""
    work = f"{ran.outside:,.0f} operations are" if math.isfinite(ran.outside) else "Some work is"
    return finding.problem(
        OUTSIDE_THE_BODY,
        f"{work} done outside the body of a shard_map, or in one whose axis_names leave out an "
        f"axis. There the compiler decides which device does what. Write what one device does.",
        got="a program that does its work outside shard_map",
    )


def _add_arguments(number: int, arguments: Sequence[Argument], finding: Finding) -> Finding:
    """Add the arguments to a finding, unless they are the first ones, which the notebook shows."""
    return (
        finding.but(difference=with_arguments(arguments, finding.difference)) if number else finding
    )


def _check_difference(
    requirement: Requests,
    ran: ProgramRun,
    finding: Finding,
    piece: Program,
    exercise: Exercise,
    seed: int,
) -> Finding:
    """Check that the result depends on each collective, by scaling the collective's input.

    Otherwise a program could request a collective, ignore its result, and still be right.
    """
    wanted = [(ask.kind, ask.axes) for ask in requirement.wanted[0]] if requirement.wanted else []
    kinds = wanted or [(kind, None) for kind in dict.fromkeys(c.kind for c in ran.requested)]
    arguments = argument_lists_of(exercise, requirement.answer)[0]
    values = (r for r in exercise.requirements if isinstance(r, Computes))
    reference = next(r.reference for r in values if r.answer == requirement.answer)
    (samples, _), *_ = run_all(exercise, requirement.answer, piece, seed)
    for kind, axes in kinds:
        scaled = run_with_scaled_collective(piece.artifacts[0], arguments, kind, axes, seed)
        if scaled is not None and compare(reference, samples[0], scaled.outputs[0]) is None:
            return finding.but(met=False).problem(
                MAKES_NO_DIFFERENCE,
                f"The result does not depend on the {kind}: scaling its input does not change the "
                f"result. Compute the result from what the {kind} returns.",
            )
    return finding


def _check_nothing_added(
    ran: ProgramRun,
    added: Sequence[Collective],
    arguments: Mapping[str, Argument],
    finding: Finding,
) -> Finding:
    """Check that the compiler had to add no collectives to the requested ones.

    A collective counts as added if it remains after the requested ones are removed. A program that
    defeats this test is recognised because it moves more bytes than it requests. (Compilers merge
    requested collectives, and move more bytes only for types that they have to widen.)
    """
    requested, moved = Counter[str](), Counter[str]()
    for c in ran.requested:
        requested[COUNTED_AS.get(c.kind, c.kind)] += MAX_WIDENING * c.total_bytes
    for c in ran.report.collectives:
        moved[COUNTED_AS.get(c.kind, c.kind)] += c.total_bytes
    too_many = {kind for kind, count in moved.items() if count > requested[kind]}
    added = added or [
        c for c in ran.report.collectives if COUNTED_AS.get(c.kind, c.kind) in too_many
    ]
    if not added:
        return finding
    taken = [*arguments.items()]
    other = [*dict.fromkeys(taken[i][0] for i, spec in ran.specs if _has_more(spec, taken[i][1]))]
    why = (
        f"in_specs give the body other blocks of {natural_list(other)} than a device has."
        if other
        else "an argument or the result is not laid out as in_specs or out_specs say, or "
        "something is computed outside the body."
    )
    return finding.but(met=False).problem(
        OTHER_BLOCKS_ENTER if other else ADDED_BY_COMPILER,
        f"The compiler adds {describe_collective(added[-1])}: {why}",
    )


def _has_more(spec: Spec, argument: Argument) -> bool:
    """Check whether a device's block by a spec has numbers that the device does not hold."""
    sizes = dict(argument.axes)
    counts = [math.prod(sizes.get(axis, math.inf) for axis in axes) for axes in spec]
    if any(length % count for length, count in zip(argument.shape, counts, strict=True)):
        return False  # the axes are those of another mesh
    held = sharding_of(argument)
    wanted = jax.NamedSharding(held.mesh, jax.P(*spec))
    own, asked = (each.devices_indices_map(argument.shape) for each in (held, wanted))
    return any(
        not {*range(length)[wanted_part]} <= {*range(length)[own_part]}
        for device, block in asked.items()
        for length, wanted_part, own_part in zip(argument.shape, block, own[device], strict=True)
    )


def check_excluded_kinds(
    requested: Sequence[Collective], requirement: Requests, finding: Finding
) -> Finding:
    """Judge the collectives of one program that may request any, except for some kinds."""
    finding = finding.but(got=_describe_collectives(requested))
    excluded = next((c for c in requested if c.kind in requirement.never), None)
    if excluded is not None:
        return finding.problem(
            name_explicit_collective(excluded.kind),
            f"The program requests {describe_collective(excluded)}, which is not allowed in this "
            f"exercise.",
        )
    missing = requirement.at_least.keys() - {c.kind for c in requested}
    if missing:
        kind = min(missing)
        return finding.problem(
            name_missing_collective(kind),
            f"The program must request {with_article(kind)}, and does not.",
        )
    for kind, least in requirement.at_least.items():
        times = [c.times for c in requested if c.kind == kind]
        if least > 1 and None in times:
            return finding.problem(UNKNOWN_TIMES, explain_unknown_length(kind))
        together = sum(1 if each is None else each for each in times)
        if together < least:
            return finding.problem(
                TOO_SELDOM,
                f"The program runs {with_noun(together, kind)}; at least {least} are needed.",
            )
    return finding.but(met=True)


def check_neighbours(
    requested: Sequence[Collective],
    wanted: Sequence[RequestedCollective],
    arguments: Sequence[Argument],
    finding: Finding,
) -> Finding:
    """Check that each device sends to a neighbour in the ring along a permutation's mesh axes.

    A ring along several axes has its devices in the mesh's order.
    """
    names, lengths = zip(*arguments[0].axes, strict=True)
    devices = np.arange(math.prod(lengths)).reshape(lengths)
    for ask in wanted:
        for c in requested:
            if not ask.neighbours or c.kind != ask.kind or ask.axes not in (None, c.axes):
                continue
            rings = groups_along(devices, [names.index(axis) for axis in c.axes])
            neighbours = {
                pair for ring in rings for pair in zip(ring, ring[1:] + ring[:1], strict=True)
            }
            for source, target in c.groups:
                if source == target or not {(source, target), (target, source)} & neighbours:
                    return finding.but(met=False).problem(
                        "not-to-the-neighbour",
                        f"A {c.kind} sends from device {source} to device {target}. In a ring each "
                        f"device sends only to its neighbour.",
                    )
    return finding


def compare_requests(
    requested: Sequence[Collective], wanted: Sequence[RequestedCollective], finding: Finding
) -> Finding:
    """Compare one program's requested collectives with the wanted ones."""
    finding = finding.but(got=_describe_collectives(requested))
    left_over = list(requested)
    for ask in wanted:
        alike = [c for c in left_over if c.kind == ask.kind and ask.axes in (None, c.axes)]
        left_over = [c for c in left_over if c not in alike]
        ask_finding = (
            _compare_alike(ask, alike, finding)
            if alike
            else _explain_missing(ask, left_over, requested, wanted, finding)
        )
        if not ask_finding.met:
            return ask_finding
    if left_over:
        extra = left_over[0]
        return finding.problem(
            name_explicit_collective(extra.kind),
            f"The program also requests {describe_collective(extra)}, which the exercise does not "
            f"need.",
        )
    return finding.but(met=True)


def _explain_missing(
    ask: RequestedCollective,
    left_over: Sequence[Collective],
    requested: Sequence[Collective],
    wanted: Sequence[RequestedCollective],
    finding: Finding,
) -> Finding:
    """Return the finding on a wanted collective that the program does not request."""
    same_kind = [c for c in left_over if c.kind == ask.kind]
    elsewhere = next((c for c in same_kind if _is_surplus(c, requested, wanted)), None)
    if elsewhere is None and same_kind:
        return finding.problem(
            "one-missing",
            f"The program requests {with_article(ask.kind)} "
            f"{describe_groups(same_kind[0])}. It must request {ask}, too, and does not.",
        )
    if elsewhere is not None:
        return finding.problem(
            "other-axes",
            f"The {ask.kind} runs {describe_groups(elsewhere)}; expected {ask}.",
        )
    return finding.problem(
        name_missing_collective(ask.kind), f"The program must request {ask}, and does not."
    )


def _compare_alike(
    ask: RequestedCollective, alike: Sequence[Collective], finding: Finding
) -> Finding:
    """Compare how often, with how many bytes and in which type a wanted collective runs.

    Args:
        ask: the wanted collective.
        alike: the program's collectives of its kind over its axes, at least one.
        finding: the finding to start from.
    """
    if any(c.times is None for c in alike):
        return finding.problem(
            UNKNOWN_TIMES,
            f"The {ask.kind} is in a loop whose length is known only when it runs. Here the "
            f"number of collectives has to be known beforehand.",
        )
    times = sum(c.times or 0 for c in alike)
    together = sum(c.total_bytes for c in alike)
    if times > ask.times and ask.bytes is not None and together == ask.times * ask.bytes:
        return finding.problem(
            "in-pieces",
            f"Expected {_times(ask)}; the program requests {times}, which carry {together:,} bytes "
            f"together. {'One' if ask.times == 1 else ask.times} can carry as many.",
        )
    if times != ask.times:
        diagnosis = (
            "one-too-many"
            if times == ask.times + 1
            else "too-often"
            if times > ask.times
            else TOO_SELDOM
        )
        return finding.problem(
            diagnosis,
            f"Expected {_times(ask)}; the program requests {times}.",
            is_slight=diagnosis == "one-too-many",
        )
    largest = max(c.bytes for c in alike)
    if ask.bytes is not None and largest > ask.bytes:
        return finding.problem(
            "sends-too-much",
            f"The {ask.kind} carries {largest:,} bytes; {ask.bytes:,} are enough.",
        )
    types = {dtype for c in alike for dtype in c.dtypes}
    if ask.dtype and types != {ask.dtype}:
        return finding.problem(
            "other-type",
            f"The {ask.kind} carries numbers of the type {natural_list(sorted(types))}, as XLA "
            f"calls it; expected {ask.dtype}.",
        )
    return finding.but(met=True)


def _is_surplus(
    collective: Collective, requested: Sequence[Collective], wanted: Sequence[RequestedCollective]
) -> bool:
    """Check whether the program has more collectives like this one than are wanted."""
    kind, axes = collective.kind, collective.axes
    there = sum(c.counted_times for c in requested if (c.kind, c.axes) == (kind, axes))
    return there > sum(ask.times for ask in wanted if ask.kind == kind and ask.axes in (None, axes))


def _times(ask: RequestedCollective) -> str:
    """Return the wanted number: `1 all-to-all over x`."""
    axes = f" over {', '.join(ask.axes)}" if ask.axes is not None else ""
    return f"{with_noun(ask.times, ask.kind)}{axes}"


def _describe_collectives(requested: Sequence[Collective]) -> str:
    """Describe the requested collectives; equal ones once, with their number."""
    counted: dict[str, int | None] = {}
    for c in requested:
        so_far = counted.get(describe_collective(c), 0)
        counted[describe_collective(c)] = (
            None if so_far is None or c.times is None else so_far + c.times
        )
    listed = ", ".join(
        name
        if times == 1
        else f"{name}, {'an unknown number of' if times is None else times} times"
        for name, times in counted.items()
    )
    return f"{listed}, requested explicitly" if listed else "no explicit collective"


def describe_collective(collective: Collective) -> str:
    """Return `an all-gather over x of 64 bytes`."""
    groups = describe_groups(collective)
    return f"{with_article(collective.kind)} {groups} of {in_bytes(collective.bytes)}"
