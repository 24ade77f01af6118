"""Ask for collectives by hand, and judge those that are written in the program itself."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autograder.evidence import Program
from autograder.judge.comparing_values import compare
from autograder.judge.exercise import Exercise, Order, Requirement
from autograder.judge.requirements_on_values import Computes, parameters
from autograder.judge.running_programs import added_to, asked_of, run_all, run_with_more
from autograder.judge.verdict import Finding
from autograder.judge.wording import between, given, of_unknown_length, with_article
from autograder.programs import Argument, Collective, ProgramError, Ran

FAMILY = {"reduce-scatter": "all-reduce"}
"""Kinds between which a compiler chooses: of an all-reduce it may keep a slice."""

WIDENED = 4
"""How many times as large XLA may make what is exchanged: it widens types of one byte to four."""

OUTSIDE = 4
"""How many operations for each number that it takes or gives a program may do outside of a body."""


@dataclass(frozen=True)
class Ask:
    """A collective that is to be asked for by hand.

    Attributes:
        kind: a canonical kind of collective, as `KINDS` has it.
        times: how often, over all of the kind, loops counted.
        axes: the mesh axes it is to run over; None for any.
        bytes: at most so many in one buffer on each device; None for any number.
        neighbours: of a permutation, whether each device has to send to one next to it.
    """

    kind: str
    times: int = 1
    axes: tuple[str, ...] | None = None
    bytes: int | None = None
    neighbours: bool = False

    def __str__(self) -> str:
        """Such as `7 collective-permutes over x of at most 64 bytes`."""
        number = f"{'a' if self.times == 1 else self.times} {self.kind}{'s' * (self.times != 1)}"
        if number.startswith("a all"):
            number = f"an{number[1:]}"
        axes = f" over {', '.join(self.axes)}" if self.axes is not None else ""
        return f"{number}{axes}" + (
            f" of at most {self.bytes:,} bytes" if self.bytes is not None else ""
        )


@dataclass(frozen=True)
class Requests(Requirement):
    """The program asks for just these collectives by hand, and for no others.

    Judged from what was written (the exported program), where `CommunicatesAtMost` is judged from
    what a compiler made of it.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this. Another requirement,
            `Computes`, has it exported.
        wanted: for each program that is judged, what it is to ask for.
        never: where it may ask for what it likes, the kinds that it may not.
        mapped: whether it has to be written with `shard_map`, so that the compiler adds nothing.
        some: and the kinds of which it has to ask for one at least.
        least: of each of these kinds, how often it has to be asked for at least; by default once.
        constrained: whether its result has to rest on a sharding constraint that replicates a
            value, or must not rest on any; None where both will do.
        made_of: the numbers of the arguments that this value has to be made of, from 0 on.
    """

    about: ClassVar = "collectives"
    order: ClassVar = Order.COSTS
    evidence: ClassVar = (Program,)

    answer: str
    wanted: tuple[tuple[Ask, ...], ...] = ()
    never: tuple[str, ...] = ()
    mapped: bool = True
    some: tuple[str, ...] = ()
    constrained: bool | None = None
    made_of: tuple[int, ...] = ()
    least: tuple[int, ...] = ()

    @property
    def asks(self) -> str:
        """What the first program is to ask for, in words."""
        if self.constrained is not None:
            how = "a" if self.constrained else "no"
            return f"{how} sharding constraint, and {self._by_hand}"
        return self._by_hand

    @property
    def _by_hand(self) -> str:
        if self.never:
            *most, last = self.never
            none = f"{', '.join(most)} or {last}" if most else last
            least = dict(zip(self.some, self.least, strict=False))
            kinds = (
                f"at least {least[kind]} {kind}s" if least.get(kind, 1) > 1 else with_article(kind)
                for kind in self.some
            )
            some = f", but {' and '.join(kinds)}" * bool(self.some)
            return f"{'a shard_map, with ' * self.mapped}no explicit {none}{some}"
        wanted = " and ".join(map(str, self.wanted[0]))
        return f"{wanted}, requested explicitly" if wanted else "no explicit collective"

    def judge(self, piece: Program, basis: Finding, exercise: Exercise, seed: int) -> Finding:
        """The finding for the collectives that programs ask for by hand."""
        return _judge_requests(self, piece, basis, exercise, seed)


def _judge_requests(
    requirement: Requests, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for the collectives that programs ask for by hand."""
    try:
        runs = run_all(exercise, requirement.answer, piece, seed)
    except ProgramError as refused:  # what XLA could not compile may never have been by hand
        if refused.mapped or not requirement.mapped:
            raise
        return _not_mapped(basis)
    lists = asked_of(exercise, requirement.answer)
    asked: list[tuple[Ran, Finding]] = []
    for i, ((_, ran), arguments) in enumerate(zip(runs, lists, strict=True)):
        if requirement.constrained is False and ran.constrained:
            return basis.problem(
                "constrained",
                "The result depends on a sharding constraint; here it must not.",
                came="a program with a constraint",
            )
        if requirement.constrained and not ran.constrained:
            return basis.problem(
                "no-constraint",
                "The result does not depend on a constrained intermediate value. Either the "
                "function has no jax.lax.with_sharding_constraint, or it constrains only an "
                "argument as it is given, or it does not use what the constraint returns.",
                came="a program without a constraint on an intermediate value",
            )
        if requirement.constrained and not any(
            made_of.issuperset(requirement.made_of) for made_of in ran.replicated
        ):
            names = parameters(exercise, requirement.answer)
            needed = " and ".join(names[number] for number in requirement.made_of)
            return basis.problem(
                "constraint-elsewhere",
                f"There is a constraint, but none that replicates a value computed from "
                f"{needed}. Is it on such a value, and does its spec name no axis?",
                came="a program with a constraint on another value, or with another spec",
            )
        if requirement.mapped and not ran.mapped:
            return _not_mapped(basis)
        if requirement.mapped and ran.outside > OUTSIDE * _numbers(ran, arguments):
            return _given(i, arguments, _outside(ran, basis))
        if requirement.never:
            found = refrain(ran.requested, requirement, basis)
        else:
            found = compare_requests(ran.requested, requirement.wanted[i], basis)
            if found.met:
                found = neighbourly(ran.requested, requirement.wanted[i], arguments, found)
        if not found.met:
            return _given(i, arguments, found)
        asked.append((ran, found))
    if not requirement.mapped or not asked:
        return asked[0][1] if asked else basis
    # From here on, programs are run with other numbers than their own.
    for ran, found in asked:
        if ran.requested and not ran.sure_to_end:
            return found.but(met=False).problem("unknown-times", _never_ending(ran.requested))
    first = _makes_a_difference(requirement, *asked[0], piece, exercise, seed)
    if not first.met:
        return first
    for i, ((ran, found), arguments) in enumerate(zip(asked, lists, strict=True)):
        added = _nothing_added(ran, added_to(exercise, requirement.answer, piece, i, seed), found)
        if not added.met:
            return _given(i, arguments, added)
    return first


def _not_mapped(basis: Finding) -> Finding:
    """The finding where all of the work is left to the compiler."""
    return basis.problem(
        "no-shard-map",
        "The result is not computed inside a shard_map, so the compiler divided the work. "
        "Write what one device does.",
        came="a program for all devices at once",
    )


def _never_ending(requested: Sequence[Collective]) -> str:
    """What is said of a program with a loop that might never end."""
    unknown = next((c for c in requested if c.times is None), None)
    if unknown is not None:
        return of_unknown_length(unknown.kind)
    return (
        "The program has a loop whose length is known only when it runs. The check tries the "
        "program with other numbers in its collectives, too, and with these such a loop might "
        "never end."
    )


def _numbers(ran: Ran, arguments: Sequence[Argument]) -> int:
    """How many numbers a program takes and gives."""
    taken = sum(math.prod(argument.shape) for argument in arguments)
    return taken + sum(output.size for output in ran.outputs[0])


def _outside(ran: Ran, basis: Finding) -> Finding:
    """The finding where work is done outside of the body of a `shard_map`."""
    much = f"{ran.outside:,.0f} operations are" if math.isfinite(ran.outside) else "Some work is"
    return basis.problem(
        "outside-the-body",
        f"{much} done outside the body of a shard_map, or in one whose axis_names leave out an "
        f"axis. There the compiler decides which device does what. Write what one device does.",
        came="a program that does its work outside shard_map",
    )


def _given(number: int, arguments: Sequence[Argument], found: Finding) -> Finding:
    """A finding, with the arguments that it is for where they are not those of the notebook."""
    return found.but(difference=given(arguments, found.difference)) if number else found


def _makes_a_difference(
    requirement: Requests, ran: Ran, found: Finding, piece: Program, exercise: Exercise, seed: int
) -> Finding:
    """The finding, unless the result would be the same if a collective had carried more.

    A program can ask for a collective and make nothing of it: its values are right all the same.
    """
    wanted = [(ask.kind, ask.axes) for ask in requirement.wanted[0]] if requirement.wanted else []
    asked = wanted or [(kind, None) for kind in dict.fromkeys(c.kind for c in ran.requested)]
    arguments = asked_of(exercise, requirement.answer)[0]
    values = (r for r in exercise.requirements if isinstance(r, Computes))
    reference = next(r.reference for r in values if r.answer == requirement.answer)
    (draws, _), *_ = run_all(exercise, requirement.answer, piece, seed)
    for kind, axes in asked:
        more = run_with_more(piece.artifacts[0], arguments, kind, axes, seed)
        if more is not None and compare(reference, draws[0], more.outputs[0]) is None:
            return found.but(met=False).problem(
                "makes-no-difference",
                f"The result does not depend on the {kind}: when its input is multiplied, every "
                f"number of the result stays the same. Compute the result from what the {kind} "
                f"returns.",
            )
    return found


def _nothing_added(ran: Ran, added: Sequence[Collective], found: Finding) -> Finding:
    """The finding, unless the compiler had to add what was not asked for.

    That is what it still communicates with all that was asked for taken out; and where a program
    was made so that this cannot be seen, it moves more than it asks for. (A compiler merges what
    was asked for, and may keep a slice of an all-reduce; it moves more only where it has no
    arithmetic for a type, and takes one of four bytes.)
    """
    asked, moved = Counter[str](), Counter[str]()
    for c in ran.requested:
        asked[FAMILY.get(c.kind, c.kind)] += WIDENED * c.total_bytes
    for c in ran.report.collectives:
        moved[FAMILY.get(c.kind, c.kind)] += c.total_bytes
    more = {kind for kind, count in moved.items() if count > asked[kind]}
    added = added or [c for c in ran.report.collectives if FAMILY.get(c.kind, c.kind) in more]
    if not added:
        return found
    return found.but(met=False).problem(
        "added-by-the-compiler",
        f"The compiler adds {one(added[-1])}: an argument or the result is not laid out as "
        f"in_specs or out_specs say, or something is computed outside the body.",
    )


def refrain(requested: Sequence[Collective], requirement: Requests, basis: Finding) -> Finding:
    """The finding for one program that may ask for anything but some kinds."""
    basis = basis.but(came=_listed(requested))
    bad = next((c for c in requested if c.kind in requirement.never), None)
    if bad is not None:
        return basis.problem(
            f"{bad.kind} by hand",
            f"The program requests {one(bad)}, which is not allowed in this exercise.",
        )
    missing = set(requirement.some) - {c.kind for c in requested}
    if missing:
        kind = min(missing)
        return basis.problem(
            f"no {kind}", f"The program must request {with_article(kind)}, and does not."
        )
    for kind, least in zip(requirement.some, requirement.least, strict=False):
        times = [c.times for c in requested if c.kind == kind]
        together = sum(filter(None, times))
        if None not in times and together < least:
            return basis.problem(
                "too-seldom",
                f"The program runs {together} {kind}{'s' * (together != 1)}; at least {least} are "
                f"needed.",
            )
    return basis.but(met=True)


def neighbourly(
    requested: Sequence[Collective],
    wanted: Sequence[Ask],
    arguments: Sequence[Argument],
    found: Finding,
) -> Finding:
    """The finding, unless a permutation that is to go round a ring goes further than one step."""
    lengths = [length for _, length in arguments[0].axes]
    names = [name for name, _ in arguments[0].axes]
    for ask in wanted:
        for c in requested if ask.neighbours else ():
            if c.kind != ask.kind or len(c.axes) != 1:
                continue
            axis = names.index(c.axes[0])
            for source, target in c.groups:
                here, there = (np.unravel_index(each, lengths)[axis] for each in (source, target))
                if (int(there) - int(here)) % lengths[axis] not in (1, lengths[axis] - 1):
                    return found.but(met=False).problem(
                        "not-to-the-neighbour",
                        f"A {c.kind} sends from device {source} to device {target}. In a ring each "
                        f"device sends only to its neighbour.",
                    )
    return found


def compare_requests(
    requested: Sequence[Collective], wanted: Sequence[Ask], basis: Finding
) -> Finding:
    """The finding for one program."""
    basis = basis.but(came=_listed(requested))
    left_over = list(requested)
    for ask in wanted:
        mine = [c for c in left_over if c.kind == ask.kind and ask.axes in (None, c.axes)]
        left_over = [c for c in left_over if c not in mine]
        if not mine:
            alike = [c for c in left_over if c.kind == ask.kind]
            elsewhere = next((c for c in alike if _is_beyond(c, requested, wanted)), None)
            if elsewhere is None and alike:
                return basis.problem(
                    "one-missing",
                    f"The program requests {with_article(ask.kind)} {between(alike[0])}. It must "
                    f"request {ask}, too, and does not.",
                )
            if elsewhere is not None:
                return basis.problem(
                    "other-axes",
                    f"The {ask.kind} runs {between(elsewhere)}; expected {ask}.",
                )
            return basis.problem(f"no {ask.kind}", f"The program must request {ask}, and does not.")
        if any(c.times is None for c in mine):
            return basis.problem(
                "unknown-times",
                f"The {ask.kind} is in a loop whose length is known only when it runs. Here the "
                f"number of collectives has to be known before.",
            )
        times = sum(c.times or 0 for c in mine)
        together = sum(c.total_bytes for c in mine)
        if times > ask.times and ask.bytes is not None and together == ask.times * ask.bytes:
            return basis.problem(
                "in-pieces",
                f"Expected {_times(ask)}; the program has {times}, which carry {together:,} bytes "
                f"together. {'One' if ask.times == 1 else ask.times} can carry as many.",
            )
        if times != ask.times:
            diagnosis = (
                "one-too-many"
                if times == ask.times + 1
                else "too-often"
                if times > ask.times
                else "too-seldom"
            )
            return basis.problem(diagnosis, f"Expected {_times(ask)}; the program has {times}.")
        largest = max(c.bytes for c in mine)
        if ask.bytes is not None and largest > ask.bytes:
            return basis.problem(
                "sends-too-much",
                f"The {ask.kind} carries {largest:,} bytes; {ask.bytes:,} are enough.",
            )
    if left_over:
        extra = left_over[0]
        return basis.problem(
            f"{extra.kind} by hand",
            f"The program also requests {one(extra)}, which the exercise does not need.",
        )
    return basis.but(met=True)


def _is_beyond(
    collective: Collective, requested: Sequence[Collective], wanted: Sequence[Ask]
) -> bool:
    """Whether there are more of a collective, over its axes, than there are to be."""
    kind, axes = collective.kind, collective.axes
    there = sum(c.times or 1 for c in requested if (c.kind, c.axes) == (kind, axes))
    return there > sum(ask.times for ask in wanted if ask.kind == kind and ask.axes in (None, axes))


def _times(ask: Ask) -> str:
    """How many are asked for: `1 all-to-all over x`."""
    over = f" over {', '.join(ask.axes)}" if ask.axes is not None else ""
    return f"{ask.times} {ask.kind}{'s' * (ask.times != 1)}{over}"


def _listed(requested: Sequence[Collective]) -> str:
    """What is requested, in words; what is alike, once."""
    counted: dict[str, int | None] = {}
    for c in requested:
        so_far = counted.get(one(c), 0)
        counted[one(c)] = None if so_far is None or c.times is None else so_far + c.times
    listed = ", ".join(
        name if times == 1 else f"{name}, {'some' if times is None else times} times"
        for name, times in counted.items()
    )
    return f"{listed}, requested explicitly" if listed else "no explicit collective"


def one(collective: Collective) -> str:
    """A collective in words: `an all-gather over x of 64 bytes`."""
    return f"{with_article(collective.kind)} {between(collective)} of {collective.bytes:,} bytes"
