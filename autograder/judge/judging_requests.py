"""The judge's eye for what was written: the collectives that a program asks for by hand."""

from collections import Counter
from collections.abc import Sequence

from autograder.evidence import Program
from autograder.exercises import Ask, Exercise, Requests
from autograder.judge.judging_values import asked_of, rests_on, run_all
from autograder.judge.verdict import Finding
from autograder.programs import Argument, Collective, Ran, described

FAMILY = {"reduce-scatter": "all-reduce"}
"""Kinds between which a compiler chooses: of an all-reduce it may keep a slice."""


def judge_requests(
    requirement: Requests, piece: Program, basis: Finding, exercise: Exercise, seed: int
) -> Finding:
    """The finding for the collectives that programs ask for by hand."""
    runs = run_all(exercise, requirement.answer, piece, seed)
    lists = asked_of(exercise, requirement.answer)
    asked: list[tuple[Ran, Finding]] = []
    for i, ((_, ran), arguments) in enumerate(zip(runs, lists, strict=True)):
        if requirement.mapped and not ran.mapped:
            return basis.problem(
                "no-shard-map",
                "There is no shard_map in it: the compiler cut it up. Write what one device does.",
                came="a program for all devices at once",
            )
        if requirement.never:
            found = _refrain(ran.requested, requirement.never, basis)
        else:
            found = _compare(ran.requested, requirement.wanted[i], basis)
        if not found.met:
            return _given(arguments, found)
        asked.append((ran, found))
    if not requirement.mapped or not asked:
        return asked[0][1] if asked else basis
    first = _makes_a_difference(requirement, *asked[0], piece, exercise, seed)
    if not first.met:
        return first
    for (ran, found), arguments in zip(asked, lists, strict=True):
        added = _nothing_added(ran, found)
        if not added.met:
            return _given(arguments, added)
    return first


def _given(arguments: Sequence[Argument], found: Finding) -> Finding:
    return found.but(difference=f"Given {described(arguments)}: {found.difference}")


def _makes_a_difference(
    requirement: Requests, ran: Ran, found: Finding, piece: Program, exercise: Exercise, seed: int
) -> Finding:
    """The finding, unless the result would be the same if a collective had carried more."""
    wanted = [(ask.kind, ask.axes) for ask in requirement.wanted[0]] if requirement.wanted else []
    asked = wanted or [(kind, None) for kind in dict.fromkeys(c.kind for c in ran.requested)]
    for kind, axes in asked:
        if not rests_on(exercise, requirement.answer, piece, kind, axes, seed):
            return found.but(met=False).problem(
                "makes-no-difference",
                f"The result rests on no {kind}: with three times as much going into it, every "
                f"number of the result stays the same. What is exchanged has to be what the "
                f"result is made of.",
            )
    return found


def _nothing_added(ran: Ran, found: Finding) -> Finding:
    """The finding, unless the compiler had to add what was not asked for.

    A compiler merges what was asked for, and may keep a slice of an all-reduce; it never moves more
    than was asked for unless something outside of the body has to be moved.
    """
    asked, moved = Counter[str](), Counter[str]()
    for c in ran.requested:
        asked[FAMILY.get(c.kind, c.kind)] += c.total_bytes
    for c in ran.report.collectives:
        moved[FAMILY.get(c.kind, c.kind)] += c.total_bytes
    more = {kind for kind, count in moved.items() if count > asked[kind]}
    added = [c for c in ran.report.collectives if FAMILY.get(c.kind, c.kind) in more]
    if not added:
        return found
    return found.but(met=False).problem(
        "added-by-the-compiler",
        f"The compiler adds {_one(added[-1])}: an argument or the result is laid out otherwise "
        f"than in_specs or out_specs say, or something is done outside of the body.",
    )


def _refrain(requested: Sequence[Collective], never: Sequence[str], basis: Finding) -> Finding:
    """The finding for one program that may ask for anything but some kinds."""
    basis = basis.but(came=f"by hand: {_listed(requested)}")
    bad = next((c for c in requested if c.kind in never), None)
    if bad is not None:
        return basis.problem(f"{bad.kind} by hand", f"{_capital(_one(bad))} is off-limits here.")
    return basis.but(met=True)


def _compare(requested: Sequence[Collective], wanted: Sequence[Ask], basis: Finding) -> Finding:
    """The finding for one program."""
    basis = basis.but(came=f"by hand: {_listed(requested)}")
    left_over = list(requested)
    for ask in wanted:
        mine = [c for c in left_over if c.kind == ask.kind and ask.axes in (None, c.axes)]
        left_over = [c for c in left_over if c not in mine]
        if not mine:
            elsewhere = next((c for c in left_over if c.kind == ask.kind), None)
            if elsewhere is not None:
                return basis.problem(
                    "other-axes",
                    f"The {ask.kind} runs over {_axes(elsewhere)}; asked for: {ask}.",
                )
            return basis.problem(f"no {ask.kind}", f"Asked for, and missing: {ask}.")
        if any(c.times is None for c in mine):
            return basis.problem("unknown-times", f"How often the {ask.kind} runs is left open.")
        times = sum(c.times or 0 for c in mine)
        if times != ask.times:
            diagnosis = (
                "one-too-many"
                if times == ask.times + 1
                else "too-often"
                if times > ask.times
                else "too-seldom"
            )
            return basis.problem(
                diagnosis, f"{ask.times} {_plural(ask.kind, ask.times)} wanted; it has {times}."
            )
        largest = max(c.bytes for c in mine)
        if ask.bytes is not None and largest > ask.bytes:
            return basis.problem(
                "sends-too-much",
                f"The {ask.kind} is of {largest:,} bytes, and {ask.bytes:,} would do.",
            )
    if left_over:
        extra = left_over[0]
        return basis.problem(
            f"{extra.kind} by hand",
            f"{_capital(_one(extra))} was not asked for.",
        )
    return basis.but(met=True)


def _listed(requested: Sequence[Collective]) -> str:
    """What is requested, in words; what is alike, once."""
    counted: dict[str, int | None] = {}
    for c in requested:
        so_far = counted.get(_one(c), 0)
        counted[_one(c)] = None if so_far is None or c.times is None else so_far + c.times
    return (
        ", ".join(
            name if times == 1 else f"{name}, {'some' if times is None else times} times"
            for name, times in counted.items()
        )
        or "nothing"
    )


def _one(collective: Collective) -> str:
    article = "an" if collective.kind.startswith("a") else "a"
    return f"{article} {collective.kind} over {_axes(collective)} of {collective.bytes:,} bytes"


def _axes(collective: Collective) -> str:
    return ", ".join(collective.axes) or "parts of axes"


def _plural(kind: str, times: int) -> str:
    return kind if times == 1 else f"{kind}s"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
