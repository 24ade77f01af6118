"""Requirements on designs: layouts and the program for them, together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autograder.evidence import DesignPlan
from autograder.exercises.requirements_on_layouts import Timed
from autograder.exercises.requirements_on_programs import Arrays


@dataclass(frozen=True)
class Designs:
    """Layouts of a model's parameters and batch, and a training step, that make it fast.

    At small sizes the step is run, and its values have to be those of a reference: else nothing
    counts. At the real size, the first, it is compiled and never run. That it is the same step is
    looked at beside the second size and the last, which is not run either. How long it takes is
    modelled: what computing takes at the machine's full speed and then what sending takes, nothing
    at the same time, with floating-point numbers counted as bfloat16. The new parameters are left
    where the old ones were, since the next step takes them.

    Attributes:
        answer: the name, in the notebook, of the answer that must meet this.
        asks: what is to be designed, in a sentence.
        plan: the names of what is laid out, and the sizes, the real one first.
        reference: the new parameters, given the arrays that `plan.arguments` names.
        draw: the values of these for a small size, which are its shapes by name.
        mistakes: for each diagnosis, a function that makes that mistake and no other, or `AnyOf`
            several.
        machine: the name of a machine, as `programs.MACHINES` has it.
        cap: the most bytes of arguments that a device may hold.
        sends: the most bytes that a device may send in one step.
        work: the operations that a device has to do at least, at the real size.
        frontier: pairs of bytes held on each device and microseconds, the best that is known.
        given: the microseconds that earn nothing.
        shown: a design that learners know, to compare theirs with.
        of_own_tokens: for each part of the batch that a device may have, the new parameters if
            the gradient is that part's alone: what devices hold whose gradients are never summed.
    """

    answer: str
    asks: str
    plan: DesignPlan
    reference: Arrays
    draw: Callable[[np.random.Generator, Mapping[str, tuple[int, ...]]], list[np.ndarray]]
    machine: str
    cap: int
    sends: int
    work: int
    frontier: tuple[tuple[int, int], ...]
    given: int
    shown: Timed
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    of_own_tokens: Callable[..., Sequence[Sequence[Any]]] | None = None

    @property
    def best(self) -> int:
        """The fewest microseconds that are known to be enough within the cap."""
        return min(time for held, time in self.frontier if held <= self.cap)
