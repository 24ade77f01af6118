"""Compare the requested collectives with those that the exercise asks for."""

from collections.abc import Sequence

import numpy as np

from autograder.exercises import Ask, Requests
from autograder.judge.naming import between
from autograder.judge.verdict import Finding
from autograder.programs import Argument, Collective


def refrain(requested: Sequence[Collective], requirement: Requests, basis: Finding) -> Finding:
    """The finding for one program that may ask for anything but some kinds."""
    basis = basis.but(came=_listed(requested))
    bad = next((c for c in requested if c.kind in requirement.never), None)
    if bad is not None:
        return basis.problem(
            f"{bad.kind} by hand",
            f"The program asks for {one(bad)}, which is not allowed in this exercise.",
        )
    missing = set(requirement.some) - {c.kind for c in requested}
    if missing:
        kind = min(missing)
        return basis.problem(f"no {kind}", f"The program must ask for {_a(kind)}, and does not.")
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
                    f"The program asks for {_a(ask.kind)} {between(alike[0])}. It must ask for "
                    f"{ask}, too, and does not.",
                )
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
            f"The program also asks for {one(extra)}, which the exercise does not need.",
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
    return f"{listed}, written by hand" if listed else "no collective written by hand"


def one(collective: Collective) -> str:
    """A collective in words: `an all-gather over x of 64 bytes`."""
    return f"{_a(collective.kind)} {between(collective)} of {collective.bytes:,} bytes"


def _a(kind: str) -> str:
    return f"{'an' if kind.startswith('a') else 'a'} {kind}"
