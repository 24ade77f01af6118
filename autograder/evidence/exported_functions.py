"""Export a learner's function, or say why it cannot be exported."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax

from autograder import programs
from autograder.errors import (
    TheirError,
    before_jaxs_words,
    theirs,
    under_its_name,
    what_it_raised,
    wordless_of_jax,
)
from autograder.evidence.data import NotCaptured, Piece, Program, Struct, Unanswered
from autograder.evidence.time_limits import DoesNotEndError, does_not_end, limited
from autograder.evidence.unsuitable_answers import not_a_function
from autograder.programs import Argument, described


class ProgramPlan(Struct, frozen=True, tag="program"):
    """A function becomes a `Program`.

    Attributes:
        arguments: the lists of arguments that it is exported for, once for each.
        under_mesh: whether the arguments' mesh is the current one while it is traced.
    """

    arguments: tuple[tuple[Argument, ...], ...]
    under_mesh: bool

    def capture(self, name: str, answer: object) -> Piece:
        """A function, exported for each list of arguments; or why it cannot be."""
        if not callable(answer):
            return not_a_function(answer)
        # To jit what is jitted again would undo its out_shardings.
        traced = answer if hasattr(answer, "lower") else under_its_name(calling(answer), answer)
        return exported(
            answer,
            [
                Export(
                    described(arguments),
                    tuple(name for name, _ in arguments[0].axes),
                    partial(programs.export, traced, arguments, self.under_mesh),
                )
                for arguments in self.arguments
            ],
            name,
        )


class Export(NamedTuple):
    """One thing that a function is exported for.

    Attributes:
        given: the arguments, in words.
        axes: the names of the axes of the mesh that they are on.
        export: does it.
    """

    given: str
    axes: tuple[str, ...]
    export: Callable[[], bytes]


def calling(answer: Callable[..., object]) -> Callable[..., object]:
    """What calls a learner's function where JAX traces it, and minds what comes back."""

    def called(*arguments: object) -> object:
        with theirs():
            result = answer(*arguments)
            if result is ...:
                raise NotImplementedError
            if callable(result) and not isinstance(result, jax.Array):
                raise ReturnsAFunctionError
        return result

    return called


def exported(
    answer: Callable[..., Any], exports: Sequence[Export], name: str = "your function"
) -> Program | NotCaptured | Unanswered:
    """A function as evidence.

    Args:
        answer: the learner's function.
        exports: what it is exported for, the case that the notebook shows first.
        name: the name of the answer.
    """
    artifacts: list[bytes] = []
    try:
        for each in exports:
            waits_for = f"JAX has not traced {name} for {each.given} yet"
            artifacts.append(limited(each.export, waits_for))
    except DoesNotEndError as error:
        given = exports[len(artifacts)].given
        what = f"While JAX traced {name} for {given}, it did not come to an end"
        return does_not_end(error, answer, what)
    except programs.ProgramError as error:
        return NotCaptured(error.diagnosis, str(error))
    except TheirError as raised:
        if is_stub(raised.error):
            return Unanswered()
        if isinstance(raised.error, ReturnsAFunctionError):
            return NotCaptured(
                "returns-a-function",
                "Your function returns another function. Call that one with its arguments, and "
                "return its result.",
            )
        failed = exports[len(artifacts)]
        why, said = what_it_raised(raised.error, answer, failed.axes)
        why_it_raised = why
        if artifacts:
            why = "only-the-first"
            given = f"For {failed.given}, {_going_on(said)}"
            said = f"It compiles for the notebook's own case only. {given}"
            if why_it_raised in ("raised", "does-not-reshape"):
                said = before_jaxs_words(
                    said, "Is a size, a number of devices or a mesh written into it?"
                )
        return NotCaptured(why, said)
    return Program(tuple(artifacts))


def is_stub(error: BaseException) -> bool:
    """Whether it is what a function that is still to be written raises, and not JAX's own."""
    if not isinstance(error, NotImplementedError) or str(error):
        return False
    return not wordless_of_jax(error)


class ReturnsAFunctionError(TypeError):
    """What a learner's function returns is to be called first."""


def _going_on(sentence: str) -> str:
    """A sentence that goes on where another word has begun it; `JAX` stays what it is."""
    begins_a_name = sentence[:2].isalpha() and sentence[:2].isupper()
    return sentence if begins_a_name else f"{sentence[0].lower()}{sentence[1:]}"
