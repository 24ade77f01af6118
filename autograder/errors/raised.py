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
        here = f" ({where})" if where else ""
        return why, f"{meaning.removesuffix('.')}{here}. {_axes(axes, where)}"
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


def _axes(axes: Sequence[str], line: str = "") -> str:
    """The axes that there are; and the one that there is not, where a line names only one."""
    there = f"The mesh has {'the axes' if len(axes) > 1 else 'one axis,'} {' and '.join(axes)}."
    strange = {*re.findall(r"""['"](\w+)['"]""", line)} - {*axes}
    return f"There is no axis {strange.pop()!r}. {there}" if len(strange) == 1 else there
