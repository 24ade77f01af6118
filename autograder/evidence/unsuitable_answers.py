"""Explain why an answer is missing, or of the wrong kind."""

import jax
import numpy as np

from autograder.evidence.data import NotCaptured, Unanswered


def missing_answer(answer: object) -> Unanswered | NotCaptured | None:
    """Return evidence that there is no answer, or None if there is one."""
    if answer is ...:
        return Unanswered()
    if answer is None:
        return NotCaptured(
            "none",
            "The answer is None. Often a function has no `return`, or the cell assigns the result "
            "of a call such as show(), which returns nothing.",
        )
    return None


def not_an_array(answer: object, expected: str = "a jax.Array or a sharding") -> NotCaptured:
    """Explain that an answer is neither a `jax.Array` nor a sharding."""
    if isinstance(answer, jax.core.Tracer):
        return NotCaptured(
            "tracer",
            "Got a tracer: an array inside jit, which is not on any device yet. Check what the "
            "jitted function returns.",
        )
    if isinstance(answer, np.ndarray | np.generic):
        return NotCaptured(
            "numpy",
            "Got a NumPy array, which is in the host's memory and on no device; expected a "
            "jax.Array. jax.device_put(array, sharding) puts it on devices.",
        )
    if isinstance(answer, jax.P):
        return NotCaptured(
            "spec-alone",
            f"Got only a spec, {answer}. A spec names mesh axes but no devices: "
            f"jax.NamedSharding(mesh, spec) joins it to a mesh.",
        )
    if isinstance(answer, jax.sharding.Mesh):
        return NotCaptured(
            "mesh-alone",
            "Got only a mesh. A mesh arranges devices, and does not say how an array is sharded: "
            "jax.NamedSharding(mesh, spec) does.",
        )
    if callable(answer):
        kind = "class" if isinstance(answer, type) else "function"
        return NotCaptured(
            "function",
            f"Got the {kind} {getattr(answer, '__name__', 'you wrote')} itself; expected what it "
            f"returns. Call it.",
        )
    return NotCaptured(
        "type",
        f"Got {describe_type(answer)}; expected {expected}.",
    )


def not_a_function(answer: object) -> NotCaptured:
    """Explain that an answer is not a function."""
    kind = "an array" if isinstance(answer, jax.Array) else describe_type(answer)
    return NotCaptured(
        "not-a-function",
        f"Got {kind}; expected a function, that is, its name without parentheses.",
    )


def describe_type(value: object) -> str:
    """Return the name of a value's type with its article, such as `a list` or `an int`."""
    # not `type(value).__name__`, which a metaclass may define: that is the learner's code
    name = type.__dict__["__name__"].__get__(type(value))
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
