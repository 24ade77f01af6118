"""Requirements on values: results of a plain function, and predictions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Returns:
    """A Python function gives the right result on cases drawn afresh each time.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what the function must return, in a sentence.
        cases: draws the argument lists, of plain data, from a random generator.
        reference: gives the right result.
        mistakes: for each diagnosis, a function that makes that mistake and no other, or `AnyOf`
            several. Where the order of a wrong list is left open, such a function returns
            `AnyOrder`.
    """

    answer: str
    asks: str
    cases: Callable[[np.random.Generator], Sequence[tuple[Any, ...]]]
    reference: Callable[..., Any]
    mistakes: Mapping[str, Any] = field(default_factory=dict)


class AnyOf(tuple[Any, ...]):
    """Several predictions, or several functions, that one diagnosis explains."""

    __slots__ = ()


class AnyOrder(list[Any]):
    """A list of which only the entries matter, and how often each is there."""


def ways_of(mistake: Any) -> tuple[Any, ...]:
    """The predictions or functions that a diagnosis explains, of which there may be just one."""
    return tuple(mistake) if isinstance(mistake, AnyOf) else (mistake,)


@dataclass(frozen=True)
class Predicts:
    """One cell of a table of predictions, judged by itself.

    Attributes:
        answer: the name, in the notebook, of the table: a dictionary.
        cell: the key of the cell.
        asks: what is to be predicted, in a sentence.
        right: the right prediction: a number, a string, a `jax.P`, or a list of such.
        mistakes: for each diagnosis, the prediction that it explains, or `AnyOf` several.
        tolerance: how far off a number may be, as a share of the right one.
        words: where a word is to be predicted, more of those that may be.
        tables: for each diagnosis, the whole table of someone who makes that mistake everywhere. It
            explains a wrong cell only where every cell that it names came out so.
    """

    answer: str
    cell: str
    asks: str
    right: Any
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 0.0
    words: tuple[str, ...] = ()
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
