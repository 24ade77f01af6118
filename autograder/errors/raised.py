"""What is said of an error that a learner's function raised while it was compiled."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from autograder.errors.jax_errors import meaning_of
from autograder.errors.messages import line_in_cell, said, their_error


def what_it_raised(
    error: BaseException, function: Callable[..., object], axes: Sequence[str]
) -> tuple[str, str]:
    """A diagnosis, and what is said: what was raised, where, and what it usually means.

    Args:
        error: what was raised.
        function: the learner's function.
        axes: the names of the axes of the mesh that its arguments are on.
    """
    why, meaning = meaning_of(error)
    raised = f"Your function raised {their_error(error, function)}."
    if why == "unbound-axis" and not said(error):  # JAX has nothing to say, so we do
        where = line_in_cell(error, function)
        strange = {*re.findall(r"""['"](\w+)['"]""", where)} - {*axes}
        if len(strange) == 1:
            meaning = (
                f"A collective names the axis {strange.pop()!r}, which the mesh does not have."
            )
        here = f" ({where})" if where else ""
        return why, f"{meaning.removesuffix('.')}{here}. {_axes(axes)}"
    if why in ("unbound-axis", "unknown-axis"):
        meaning = f"{meaning} {_axes(axes)}"
    return why, f"{raised} {meaning}".strip()


def under_its_name(
    called: Callable[..., Any], function: Callable[..., object]
) -> Callable[..., Any]:
    """What calls a function, by that one's name: JAX's messages say what it has traced."""
    name = getattr(function, "__name__", None)
    if isinstance(name, str) and name.isidentifier():
        called.__name__ = called.__qualname__ = name
    return called


def _axes(axes: Sequence[str]) -> str:
    """The axes that there are."""
    return f"The mesh has {'the axes' if len(axes) > 1 else 'one axis,'} {' and '.join(axes)}."
