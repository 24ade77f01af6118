"""Judge the requested collectives: those written in the program itself."""

import math
from collections import Counter
from collections.abc import Sequence

from autograder.evidence import Program
from autograder.exercises import Computes, Exercise, Requests
from autograder.judge.comparing_requests import compare_requests, neighbourly, one, refrain
from autograder.judge.comparing_values import compare
from autograder.judge.judging_values import parameters
from autograder.judge.naming import given, of_unknown_length
from autograder.judge.running_programs import added_to, asked_of, run_all, run_with_more
from autograder.judge.verdict import Finding
from autograder.programs import Argument, Collective, ProgramError, Ran

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
                "The result does not depend on a constraint of anything that the function "
                "computes. Either it has no jax.lax.with_sharding_constraint, or it constrains "
                "only an argument as that came, or what the constraint returns is not used.",
                came="a program in which no constraint is on what it computes",
            )
        if requirement.constrained and not any(
            made_of.issuperset(requirement.made_of) for made_of in ran.replicated
        ):
            names = parameters(exercise, requirement.answer)
            needed = " and ".join(names[number] for number in requirement.made_of)
            return basis.problem(
                "constraint-elsewhere",
                f"There is a constraint, but none that replicates a value made of {needed}. Is "
                f"it on such a value, and does its spec name no axis?",
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
        f"The compiler adds {one(added[-1])}: an argument or the result is not laid out as "
        f"in_specs or out_specs say, or something is computed outside the body.",
    )
