"""`show`: what a notebook calls to draw which device holds which block."""

from typing import TYPE_CHECKING, Literal, overload

import jax
import numpy as np

from autograder.errors import UsageError
from autograder.layouts.blocks import LayoutError
from autograder.layouts.device_local import device_local_picture
from autograder.layouts.layout import Layout
from autograder.pictures import Picture, blocks_as_figure, display_blocks, display_holdings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@overload
def show(
    *things: object,
    shape: tuple[int, ...] | None = None,
    figure: Literal[True],
    values: bool = False,
    **named: object,
) -> "Figure": ...
@overload
def show(
    *things: object,
    shape: tuple[int, ...] | None = None,
    figure: Literal[False] = False,
    values: bool = False,
    **named: object,
) -> None: ...
def show(
    *things: object,
    shape: tuple[int, ...] | None = None,
    figure: bool = False,
    values: bool = False,
    **named: object,
) -> "Figure | None":
    """Draw which device holds which block; several things side by side.

    In the body of `jax.shard_map`, an array is what one device holds of it, and is drawn so: its
    shape, and which devices hold the same.

    Args:
        *things: arrays, or shardings, or layouts, of rank 0 to 4.
        shape: the global shape, in elements, that shardings are drawn for.
        figure: return a matplotlib figure instead of showing.
        values: write the numbers that each device holds, of small arrays, in place of a picture.
        **named: more of them, with a title each.

    Raises:
        UsageError: nothing was given, or something that has no layout.
    """
    if not things and not named:
        raise UsageError("show draws an array, or a sharding and a shape; nothing came.")
    titled = [*(("", thing) for thing in things), *named.items()]
    if values:
        display_holdings([(title, _held(thing)) for title, thing in titled])
        return None
    pictures = [_picture(title, thing, shape) for title, thing in titled]
    if figure:
        return blocks_as_figure(pictures)
    display_blocks(pictures)
    return None


def _picture(title: str, thing: object, shape: tuple[int, ...] | None) -> Picture:
    """The picture of one thing to show; what is wrong with it is said of its title."""
    if isinstance(thing, jax.core.Tracer):
        drawn = device_local_picture(title, thing)
        if drawn is None:
            raise UsageError(
                "This is an array inside of jit, which is on no device yet: show it after the "
                "program ran. (In the body of shard_map, show draws what a device holds of it.)"
            )
        return drawn
    try:
        layout = Layout.of(thing, shape)
    except LayoutError as error:
        raise UsageError(f"{title}: {error}" if title else str(error)) from None
    if len(layout.shape) > 4:
        raise UsageError(f"show draws up to rank 4; an array of shape {layout.shape} came.")
    return layout.picture(title)


def _held(thing: object) -> dict[int, np.ndarray]:
    """What each device holds of an array, by the device's id."""
    if not isinstance(thing, jax.Array) or isinstance(thing, jax.core.Tracer):
        kind = type(thing).__name__
        raise UsageError(f"show(…, values=True) writes the numbers that arrays hold; {kind} came.")
    return {shard.device.id: np.asarray(shard.data) for shard in thing.addressable_shards}
