"""Play a collective step by step, as an SVG that moves by itself.

SMIL moves it, so there is no script and no server. What moves is hidden, unless a style sheet shows
it: on screens, and only for readers who have not asked their system for less motion. In print, and
on pages that keep no style sheets, there are only the static pictures beside it. It stands in a
`<details>`, which stops it when it is closed.
"""

import html
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from shardlings.collective_kinds import KINDS, CollectiveKind
from shardlings.pictures.collective_pieces import (
    ALL_TO_ALL_KINDS,
    Held,
    Piece,
    Step,
    before_and_after,
    explain_ring_of_sums,
    find_senders,
    ring_steps,
)
from shardlings.pictures.svg import Point, svg_element, svg_image

CLASS: Final = "shardlings-motion"

SHOWN: Final = (
    "<style>@media screen and (prefers-reduced-motion: no-preference)"
    f"{{.{CLASS}{{display:block!important}}}}</style>"
)
"""Shows what moves to readers who have not asked for less motion."""

MOVE_SECONDS: Final = 1.2
REST_SECONDS: Final = 0.9
LAST_REST_SECONDS: Final = 2.5


@dataclass(frozen=True)
class Moment:
    """An interval of the animation in which something is seen.

    Attributes:
        start: in seconds from the beginning.
        end: in seconds from the beginning.
    """

    start: float
    end: float


@dataclass(frozen=True)
class Resting:
    """A piece that lies in a slot for a while.

    Attributes:
        place: the position of the device in the group, and the slot.
        moment: how long it lies there.
        on_right: whether it is in the right one of two grids.
    """

    piece: Piece
    place: tuple[int, int]
    moment: Moment
    on_right: bool = False


@dataclass(frozen=True)
class Moving:
    """A piece on its way from one device's slot to another's.

    Attributes:
        start: the position of the sender in the group, and the slot.
        end: the position of the receiver in the group, and the slot.
        moment: how long it moves.
    """

    piece: Piece
    start: tuple[int, int]
    end: tuple[int, int]
    moment: Moment


@dataclass(frozen=True)
class Motion:
    """A collective in time.

    Attributes:
        before: what each device has to begin with.
        has_two_grids: whether pieces move from a grid to another one, rather than within one.
        steps: the number of steps.
        seconds: how long it takes, until it begins again.
        resting: the pieces in slots, and when.
        moving: the pieces on their way, and when.
        outlined: the slots in which something has just arrived, and how long that is shown.
    """

    before: Held
    has_two_grids: bool
    steps: int
    seconds: float
    resting: tuple[Resting, ...]
    moving: tuple[Moving, ...]
    outlined: tuple[tuple[tuple[int, int], Moment], ...]

    def step_moment(self, step: int) -> Moment:
        """Return when a step is shown; step 0 is the state before."""
        return Moment(_begins(step), _begins(step + 1) if step < self.steps else self.seconds)


def motion_of(kind: str, size: int, pairs: tuple[tuple[int, int], ...] = ()) -> Motion:
    """Return a collective of a group in time.

    Args:
        kind: HLO's name of the collective, such as `"all-gather"`.
        size: the number of devices in the group.
        pairs: for a permutation, pairs of a sender and a receiver, as positions in the group.
    """
    has_two_grids = kind in (*ALL_TO_ALL_KINDS, CollectiveKind.COLLECTIVE_PERMUTE)
    states = ring_steps(kind, size, pairs)
    before, _ = before_and_after(kind, size, pairs)
    steps = len(states) - 1
    seconds = _begins(steps) + MOVE_SECONDS + LAST_REST_SECONDS
    resting = []
    if has_two_grids:
        resting += [
            Resting(piece, place, Moment(0, seconds)) for place, piece in _pieces(before) if piece
        ]
        if kind == CollectiveKind.COLLECTIVE_PERMUTE:  # nothing is there before it arrives
            empty = tuple((None,) for _ in states[0].held)
            states = (Step(empty, frozenset(), states[0].share), *states[1:])
    resting += _resting(states, seconds, has_two_grids)
    return Motion(
        before if has_two_grids else states[0].held,
        has_two_grids,
        steps,
        seconds,
        tuple(resting),
        tuple(_moving(kind, states, before, pairs, has_two_grids)),
        tuple(
            (place, Moment(_arrives(step), _begins(step + 1) if step < steps else seconds))
            for step, state in enumerate(states)
            for place in sorted(state.arrived)
        ),
    )


def _begins(step: int) -> float:
    """Return when a step begins to move; step 0 is the state before."""
    return REST_SECONDS * (step > 0) + max(0, step - 1) * (MOVE_SECONDS + REST_SECONDS)


def _arrives(step: int) -> float:
    return _begins(step) + MOVE_SECONDS * (step > 0)


def _pieces(held: Held) -> Iterator[tuple[tuple[int, int], Piece | None]]:
    for member, slots in enumerate(held):
        for slot, piece in enumerate(slots):
            yield (member, slot), piece


def _resting(states: tuple[Step, ...], seconds: float, on_right: bool) -> Iterator[Resting]:
    """Yield the pieces in slots, each as long as it lies there."""
    for place, _ in _pieces(states[0].held):
        lying = [state.held[place[0]][place[1]] for state in states]
        first = 0
        for number in range(1, len(lying) + 1):
            if number < len(lying) and lying[number] == lying[first]:
                continue
            piece = lying[first]
            if piece is not None:
                # what is sent on leaves at once; a sum replaces it when the other part arrives
                is_sent_on = number < len(lying) and lying[number] is None
                end = _begins(number) if is_sent_on else _arrives(number)
                moment = Moment(_arrives(first), end if number < len(lying) else seconds)
                yield Resting(piece, place, moment, on_right)
            first = number


def _moving(
    kind: str,
    states: tuple[Step, ...],
    before: Held,
    pairs: tuple[tuple[int, int], ...],
    has_two_grids: bool,
) -> Iterator[Moving]:
    """Yield the pieces that are sent, and when."""
    for number, (last, state) in enumerate(pairwise(states), start=1):
        sender_of = find_senders(kind, state, pairs)
        moment = Moment(_begins(number), _arrives(number))
        for member, slot in sorted(state.arrived):
            sender = sender_of[member]
            start = (sender, member if kind in ALL_TO_ALL_KINDS else slot)
            piece = (before if has_two_grids else last.held)[sender][start[1]]
            assert piece is not None
            yield Moving(piece, start, (member, slot), moment)


# As SVG


def show_during(content: str, moment: Moment, seconds: float, extra: str = "") -> str:
    """Return markup that is seen only in one moment of an animation.

    Args:
        content: the markup.
        moment: when it is seen.
        seconds: how long the animation takes.
        extra: markup of other animations of the same content.
    """
    shown = [("inline", 0.0)] if moment.start == 0 else [("none", 0.0)]
    shown += [("inline", moment.start / seconds)] * (moment.start > 0)
    shown += [("none", moment.end / seconds)] * (moment.end < seconds)
    animation = (
        ""
        if len(shown) == 1
        else svg_element(
            "animate",
            attributeName="display",
            values=";".join(value for value, _ in shown),
            keyTimes=";".join(f"{time:.4g}" for _, time in shown),
            calcMode="discrete",
            dur=f"{seconds:g}s",
            repeatCount="indefinite",
        )
    )
    return svg_element("g", content + animation + extra, display=shown[0][0])


def move_during(way: Point, moment: Moment, seconds: float) -> str:
    """Return the animation of a translation.

    Args:
        way: how far to the right, and how far down.
        moment: when.
        seconds: how long the whole animation takes.
    """
    times = (0.0, moment.start / seconds, moment.end / seconds, 1.0)
    points = ((0, 0), (0, 0), way, way)
    return svg_element(
        "animateTransform",
        attributeName="transform",
        type="translate",
        values=";".join(f"{x:g} {y:g}" for x, y in points),
        keyTimes=";".join(f"{time:.4g}" for time in times),
        calcMode="spline",
        keySplines="0 0 1 1;.4 0 .4 1;0 0 1 1",
        dur=f"{seconds:g}s",
        repeatCount="indefinite",
    )


def name_step(kind: str, size: int, step: int, operation: str = "add") -> str:
    """Return the line above a step, such as `step 2: each device passes on what it received last`.

    Args:
        kind: HLO's name of the collective, such as `"all-gather"`.
        size: the number of devices in the group.
        step: the number of the step; step 0 is the state before.
        operation: HLO's name of the operation that combines data, such as `"maximum"`.
    """
    if step == 0:
        return "before"
    if kind == CollectiveKind.ALL_GATHER:
        passed = "its own piece" if step == 1 else "what it received last"
        return f"step {step}: each device passes on {passed}"
    if not KINDS[kind].reduces:
        return f"step {step}"
    growing, going = explain_ring_of_sums(operation)
    return f"step {step}: {growing if step < size else going}"


def motion_in_details(
    svg: str,
    width: float,
    height: float,
    description: str,
) -> str:
    """Return what moves in a `<details>`, hidden where it must not move.

    Args:
        svg: the markup of the animation.
        width: in pixels.
        height: in pixels.
        description: the text alternative.
    """
    image = svg_image(
        svg,
        description,
        viewBox=f"0 0 {width:g} {height:g}",
        font_family="sans-serif",
        style=f"width:{width:g}px;max-width:100%;height:auto;display:block",
    )
    summary = html.escape("In motion (close to stop)")
    return (
        f'{SHOWN}<div class="{CLASS}" style="display:none"><details open="" '
        f'style="margin:4px 0"><summary>{summary}</summary>{image}</details></div>'
    )
