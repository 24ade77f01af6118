"""Explain an error that a learner's function raised while it was traced or compiled."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from autograder.errors.cell_lines import last_line, line_in_cell, their_error
from autograder.errors.jax_errors import meaning_of
from autograder.errors.messages import first_line, said

SAYS: Final = "JAX says: "
"""What JAX's own message begins with: it is the last that is said, after what it means."""


NOT_DIVIDED: Final = re.compile(
    r"parameter '(\w+)'[^\n]*? maps array axis (\d+) \(of size (\d+)\) to (mesh ax[^\n]*?), but "
)
"""What JAX says of an argument that cannot be sharded evenly, below its message's first line."""


def what_it_raised(
    error: BaseException, function: Callable[..., object], axes: Sequence[str]
) -> tuple[str, str]:
    """A diagnosis, and what is said: what it usually means, where it was raised, JAX's own words.

    Args:
        error: what was raised.
        function: the learner's function.
        axes: the names of the axes of the mesh that its arguments are on.
    """
    why, meaning = meaning_of(error)
    if not meaning:
        return why, f"Your function raised {their_error(error, function)}."
    where = line_in_cell(error, function)
    at = f" {where[:1].upper()}{where[1:]}." if where else ""
    if why == "unbound-axis" and not said(error):  # JAX has nothing to say, so we do
        quoted = re.findall(r"""['"](\w+)['"]""", last_line(error, function))
        strange = {*quoted} - {*axes}
        if len(strange) == 1:
            meaning = (
                f"A collective names the axis {strange.pop()!r}, which the mesh does not have."
            )
        return why, f"{meaning} {_axes(axes)}{at}"
    if why in ("unbound-axis", "unknown-axis"):
        meaning = f"{meaning} {_axes(axes)}"
    if why == "does-not-divide":
        meaning = f"{meaning}{_which_dimension(said(error))}"
    goes_on = said(error).strip().partition("\n")[0].rstrip().endswith(":")
    message = f"{first_line(error)}{' …' if goes_on else '.'}"
    return why, f"{meaning}{at} {SAYS}{type(error).__name__}: {message}"


def before_jaxs_words(told: str, sentence: str) -> str:
    """What is said with one more sentence of ours; JAX's own message stays the last."""
    ours, says, theirs = told.partition(f" {SAYS}")
    return f"{f'{ours} {sentence}'.strip()}{says}{theirs}"


def under_its_name(
    called: Callable[..., Any], function: Callable[..., object]
) -> Callable[..., Any]:
    """What calls a function, by that one's name: JAX's messages say what it has traced."""
    name = getattr(function, "__name__", None)
    if isinstance(name, str) and name.isidentifier():
        called.__name__ = called.__qualname__ = name
    return called


def _which_dimension(words: str) -> str:
    """Which argument of a `shard_map` cannot be sharded as in_specs says, where JAX says that."""
    found = NOT_DIVIDED.search(words)
    if found is None:
        return ""
    name, dimension, size, axes = found.groups()
    return f" Here in_specs shards dimension {dimension} of {name}, of size {size}, over {axes}."


def _axes(axes: Sequence[str]) -> str:
    """The axes that there are."""
    return f"The mesh has {'the axes' if len(axes) > 1 else 'one axis,'} {' and '.join(axes)}."
