"""Answers of another kind than was asked for, and what is said of each."""

import jax
import numpy as np

from autograder.evidence.data import NotCaptured, Unanswered


def nothing(answer: object) -> Unanswered | NotCaptured | None:
    """What to say where there is no answer at all; None where there is one."""
    if answer is ...:
        return Unanswered()
    if answer is None:
        return NotCaptured(
            "none",
            "The answer is None. Often a function lacks its `return`, or the cell assigns what "
            "a call such as show() gives back, which is nothing.",
        )
    return None


def misfit(answer: object, wanted: str = "a jax.Array or a sharding") -> NotCaptured:
    """Why something that is neither an array on devices nor a sharding will not do."""
    if isinstance(answer, jax.core.Tracer):
        return NotCaptured(
            "tracer",
            "A tracer came: an array inside jit, which is on no device yet. Hand in what the "
            "jitted function returns.",
        )
    if isinstance(answer, np.ndarray | np.generic):
        return NotCaptured(
            "numpy",
            "A NumPy array came, which lives in the host's memory: no device holds it. "
            "jax.device_put(array, sharding) puts it on devices.",
        )
    if isinstance(answer, jax.P):
        return NotCaptured(
            "spec-alone",
            f"The spec {answer} came alone. A spec names mesh axes and no devices: "
            f"jax.NamedSharding(mesh, spec) joins it to a mesh.",
        )
    if isinstance(answer, jax.sharding.Mesh):
        return NotCaptured(
            "mesh-alone",
            "A mesh came alone. It says where the devices stand, not how an array is cut: "
            "jax.NamedSharding(mesh, spec) does.",
        )
    if callable(answer):
        kind = "class" if isinstance(answer, type) else "function"
        return NotCaptured(
            "function",
            f"The {kind} {getattr(answer, '__name__', 'you wrote')} itself came: "
            f"call it, and hand in what it returns.",
        )
    return NotCaptured(
        "type",
        f"{type(answer).__name__} came, and {wanted} was asked for.",
    )


def not_a_function(answer: object) -> NotCaptured:
    """Why something that cannot be called will not do where a function was asked for."""
    kind = "an array" if isinstance(answer, jax.Array) else type(answer).__name__
    return NotCaptured(
        "not-a-function",
        f"A function was asked for, and {kind} came: hand in the function's name, uncalled.",
    )
