"""Requirements on functions that several processes call together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autograder.exercises.requirements_on_values import AnyOf
from autograder.processes import ProcessCase, Spec


@dataclass(frozen=True)
class Expected:
    """What a function is to return, or one part of it.

    Attributes:
        values: of the whole array, or of a number.
        spec: how the array is to be laid out over all devices, on the case's mesh; None where each
            process is to have all of the values for itself.
        host: whether it is to have them in the host's memory, as NumPy's array.
    """

    values: np.ndarray
    spec: Spec | None = None
    host: bool = False


@dataclass(frozen=True)
class OnProcesses:
    """A function does what is asked when several processes call it together.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what the function must return or write, in a sentence.
        cases: draws the calls from a random generator: numbers of processes, meshes, arguments.
        reference: what it is to return in a case, part for part; the same in every process.
        files: where it is to write instead, the files that all processes are to write together,
            each once, by name.
        mistakes: for each diagnosis, what a function returns that makes that mistake and no other.
    """

    answer: str
    asks: str
    cases: Callable[[np.random.Generator], Sequence[ProcessCase]]
    reference: Callable[[ProcessCase], Sequence[Expected]] = lambda _: ()
    files: Callable[[ProcessCase], Mapping[str, np.ndarray]] | None = None
    mistakes: Mapping[str, Callable[[ProcessCase], Sequence[np.ndarray]] | AnyOf] = field(
        default_factory=dict
    )
