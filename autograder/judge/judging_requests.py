"""The judge's eye for what was written: the collectives that a program asks for by hand."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from autograder.evidence import Program
from autograder.exercises import Ask, Computes, Exercise, Requests
from autograder.judge.comparing_values import compare
from autograder.judge.naming import between, given
from autograder.judge.running_programs import added_to, asked_of, run_all, run_with_more
from autograder.judge.verdict import Finding
from autograder.programs import Argument, Collective, Ran

FAMILY = {"reduce-scatter": "all-reduce"}
"""Kinds between which a compiler chooses: of an all-reduce it may keep a slice."""

WIDENED = 4
"""How many times as large XLA may make what is exchanged: it widens types of one byte to four."""

OUTSIDE = 4
"""How many operations for each number that it takes or gives a program may do outside of a body."""


def judge_requests(
    requirement: Requests, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for the collectives that programs ask for by hand."""
    runs = run_all(exercise, requirement.answer, piece, seed)
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
                "The result does not depend on a constraint. Either the function has no "
                "jax.lax.with_sharding_constraint, or it constrains an argument as that came, or "
                "what the constraint returns is not used.",
                came="a program in which no constraint is on what it computes",
            )
        if requirement.mapped and not ran.mapped:
            return basis.problem(
                "no-shard-map",
                "The result is not computed inside a shard_map, so the compiler divided the work. "
                "Write what one device does.",
                came="a program for all devices at once",
            )
        if requirement.mapped and ran.outside > OUTSIDE * _numbers(ran, arguments):
            return _given(i, arguments, _outside(ran, basis))
        if requirement.never:
            found = _refrain(ran.requested, requirement, basis)
        else:
            found = _compare(ran.requested, requirement.wanted[i], basis)
            if found.met:
                found = _neighbourly(ran.requested, requirement.wanted[i], arguments, found)
        if not found.met:
            return _given(i, arguments, found)
        asked.append((ran, found))
    if not requirement.mapped or not asked:
        return asked[0][1] if asked else basis
    first = _makes_a_difference(requirement, *asked[0], piece, exercise, seed)
    if not first.met:
        return first
    for i, ((ran, found), arguments) in enumerate(zip(asked, lists, strict=True)):
        added = _nothing_added(ran, added_to(exercise, requirement.answer, piece, i, seed), found)
        if not added.met:
            return _given(i, arguments, added)
    return first


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
                f"The result does not depend on the {kind}: with several times as much going "
                f"into it, every number of the result stays the same. The result has to be made "
                f"from what is exchanged.",
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
        f"The compiler adds {_one(added[-1])}: an argument or the result is not laid out as "
        f"in_specs or out_specs say, or something is computed outside the body.",
    )


def _refrain(requested: Sequence[Collective], requirement: Requests, basis: Finding) -> Finding:
    """The finding for one program that may ask for anything but some kinds."""
    basis = basis.but(came=_listed(requested))
    bad = next((c for c in requested if c.kind in requirement.never), None)
    if bad is not None:
        return basis.problem(
            f"{bad.kind} by hand",
            f"The program asks for {_one(bad)}, which is not allowed in this exercise.",
        )
    missing = set(requirement.some) - {c.kind for c in requested}
    if missing:
        kind = min(missing)
        return basis.problem(f"no {kind}", f"The program must ask for {_a(kind)}, and does not.")
    return basis.but(met=True)


def _neighbourly(
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


def _compare(requested: Sequence[Collective], wanted: Sequence[Ask], basis: Finding) -> Finding:
    """The finding for one program."""
    basis = basis.but(came=_listed(requested))
    left_over = list(requested)
    for ask in wanted:
        mine = [c for c in left_over if c.kind == ask.kind and ask.axes in (None, c.axes)]
        left_over = [c for c in left_over if c not in mine]
        if not mine:
            elsewhere = next((c for c in left_over if c.kind == ask.kind), None)
            if elsewhere is not None:
                return basis.problem(
                    "other-axes",
                    f"The {ask.kind} runs {between(elsewhere)}; expected {ask}.",
                )
            return basis.problem(f"no {ask.kind}", f"The program must ask for {ask}, and does not.")
        if any(c.times is None for c in mine):
            return basis.problem(
                "unknown-times",
                f"How often the {ask.kind} runs is known only when the program runs; here it has "
                f"to be known before.",
            )
        times = sum(c.times or 0 for c in mine)
        if times != ask.times:
            diagnosis = (
                "one-too-many"
                if times == ask.times + 1
                else "too-often"
                if times > ask.times
                else "too-seldom"
            )
            over = f" over {', '.join(ask.axes)}" if ask.axes is not None else ""
            return basis.problem(
                diagnosis,
                f"Expected {ask.times} {_plural(ask.kind, ask.times)}{over}; the program has "
                f"{times}.",
            )
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
            f"The program also asks for {_one(extra)}, which the exercise does not need.",
        )
    return basis.but(met=True)


def _listed(requested: Sequence[Collective]) -> str:
    """What is requested, in words; what is alike, once."""
    counted: dict[str, int | None] = {}
    for c in requested:
        so_far = counted.get(_one(c), 0)
        counted[_one(c)] = None if so_far is None or c.times is None else so_far + c.times
    listed = ", ".join(
        name if times == 1 else f"{name}, {'some' if times is None else times} times"
        for name, times in counted.items()
    )
    return f"{listed}, written by hand" if listed else "no collective written by hand"


def _one(collective: Collective) -> str:
    return f"{_a(collective.kind)} {between(collective)} of {collective.bytes:,} bytes"


def _a(kind: str) -> str:
    return f"{'an' if kind.startswith('a') else 'a'} {kind}"


def _plural(kind: str, times: int) -> str:
    return kind if times == 1 else f"{kind}s"
