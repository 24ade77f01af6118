"""Lower and compile anything that JAX can lower.

That is a function, jitted or not; what `jax.jit`, `equinox.filter_jit` or `flax.nnx.jit` returns;
and the stages on the way to a program: a `Traced`, a `Lowered` or a `Compiled`, or a library's
object around one of these.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from types import MethodType
from typing import Any, Final, NamedTuple

import jax

from shardlings.errors import ShortError, TheirError, describe_error, first_line, theirs


class CommunicationError(ShortError, ValueError):
    """The communication of a function cannot be reported; the message says why and what to do."""


INNER_STAGES: Final = ("lowered", "compiled")
"""The attributes in which libraries keep JAX's own stage, as Equinox does."""


def as_stage(thing: Any) -> jax.stages.Traced | jax.stages.Lowered | jax.stages.Compiled | None:
    """Return the stage of a program that something is, or has inside; None if it is another thing.

    Args:
        thing: any object.
    """
    if isinstance(thing, jax.stages.Traced | jax.stages.Lowered | jax.stages.Compiled):
        return thing
    if isinstance(thing, type) or has_lowering(thing):
        return None
    for name in INNER_STAGES:
        inner = getattr(thing, name, None)
        if isinstance(inner, jax.stages.Lowered | jax.stages.Compiled):
            return inner
    return None


def has_lowering(function: Any) -> bool:
    """Check whether a function is jitted, so that it has a way of its own to be lowered.

    An object may have a field called `lower`, and a bound method has its function's, unbound.
    """
    return (
        callable(getattr(function, "lower", None))
        and hasattr(function, "__wrapped__")
        and not isinstance(function, MethodType)
    )


class Call(NamedTuple):
    """A function and its arguments."""

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def unbind(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
    """Return a jitted function with all of its arguments, also those that are bound to it.

    Otherwise an array that a partial or a method holds would be a constant of another program than
    the one that runs.
    """
    while True:
        if isinstance(function, functools.partial) and has_lowering(function.func):
            args, kwargs = (*function.args, *args), {**function.keywords, **kwargs}
            function = function.func
        elif has_lowering(getattr(function, "__func__", None)) and hasattr(function, "__self__"):
            function, args = function.__func__, (function.__self__, *args)
        else:
            return Call(function, args, kwargs)


def as_jitted(function: Any) -> Any:
    """Return a function that can be lowered."""
    if has_lowering(function):
        return function
    if "lower" not in getattr(function, "__dict__", {}) and _is_hashable(function):
        return jax.jit(function)

    # `jax.jit` hashes what it is given, and copies an object's fields, of which one that is called
    # `lower` would hide its own
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return jax.jit(call)


class RefusedError(CommunicationError):
    """The compiler of the devices here refuses a program, which another one may take."""


class Compilation(NamedTuple):
    """A compiled function.

    Attributes:
        compiled: the compiled program.
        jaxpr: the function's closed jaxpr; None if it was not traced here.
    """

    compiled: jax.stages.Compiled
    jaxpr: Any = None


def _is_hashable(thing: Any) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True


def compile_function(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Compilation:
    """Compile a function for its arguments, or what is left to do of a stage.

    Args:
        function: a function, or a stage, whose arguments are known already.
        args: the function's arguments.
        kwargs: those that are given by name.

    Raises:
        CommunicationError: it cannot be compiled.
    """
    stage = as_stage(function)
    if isinstance(stage, jax.stages.Compiled):
        return Compilation(stage)
    if stage is None and not callable(function):
        raise CommunicationError(
            f"communication expects a function to compile, but got {type(function).__name__}. "
            f"Pass the function and its arguments: communication(f, x)."
        )
    if stage is None and not args and not kwargs and _wants_arguments(function):
        raise CommunicationError(
            "What a program communicates depends on how its arguments are laid out. Pass them, "
            "too: communication(f, x)."
        )
    try:
        stage = _trace(function, args, kwargs) if stage is None else stage
        with theirs():
            lowered = stage.lower() if isinstance(stage, jax.stages.Traced) else stage
    except TheirError as raised:
        message = describe_error(raised.error, function)
        raise CommunicationError(f"Your function raised {message}") from raised.error
    try:
        with _lines_in_cache_keys():
            compiled = as_stage(lowered.compile())
    except Exception as error:  # the compiler raises many types
        other = ELSEWHERE if first_line(error).startswith("UNIMPLEMENTED") else ""
        raise RefusedError(f"The compiler refused it: {first_line(error)}{other}") from error
    if not isinstance(compiled, jax.stages.Compiled):
        raise CommunicationError(
            f"The compiled form of {type(function).__name__} cannot be read. Pass the function "
            f"that it jits: communication(lambda x: f(x), x)."
        )
    return Compilation(compiled, stage.jaxpr if isinstance(stage, jax.stages.Traced) else None)


ELSEWHERE: Final = ". A TPU may support it: communication(…, target=…) asks its compiler."
"""Follows the refusal of an operation that this compiler lacks."""

LINES_IN_KEYS: Final = "jax_compilation_cache_include_metadata_in_key"


@contextmanager
def _lines_in_cache_keys() -> Iterator[None]:
    """Keep a persistent compilation cache from returning a program with the lines of another edit.

    Programs that differ in nothing but their lines share an entry by default.
    """
    before = getattr(jax.config, LINES_IN_KEYS)
    jax.config.update(LINES_IN_KEYS, True)
    try:
        yield
    finally:
        jax.config.update(LINES_IN_KEYS, before)


def _trace(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Trace a function, or lower it if that is all that its library can do."""
    function, args, kwargs = unbind(function, args, kwargs)
    with theirs():
        jitted = as_jitted(function)
    if isinstance(jitted, jax.stages.Wrapped) and hasattr(jitted, "trace"):
        with theirs():
            traced = jitted.trace(*args, **kwargs)
        if isinstance(traced, jax.stages.Traced):
            return traced
    with theirs():
        return jitted.lower(*args, **kwargs)


def refuse_shared_names(function: Any, options: Mapping[str, bool]) -> None:
    """Check that no option that is given could be meant for a parameter of the function.

    Args:
        function: the function.
        options: the names of the options, and whether each of them is given.

    Raises:
        CommunicationError: the function has a parameter of that name, too.
    """
    bound = function.keywords if isinstance(function, functools.partial) else {}
    for name in _parameters(function).keys() & options.keys() - bound.keys():
        if options[name]:
            raise CommunicationError(
                f"{name} is a parameter of your function, and an option of communication. Bind "
                f"yours first: communication(functools.partial(f, {name}=…), …)."
            )


def suggest_option(kwargs: Mapping[str, Any], function: Any, options: Mapping[str, bool]) -> str:
    """Return a sentence about a misspelt option; empty if there is none."""
    parameters = _parameters(function)
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return ""
    for name in kwargs.keys() - parameters.keys():
        if near := get_close_matches(name, options, n=1):
            return f" Did you mean communication's own {near[0]}=?"
    return ""


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _wants_arguments(function: Callable[..., Any]) -> bool:
    return any(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in _parameters(function).values()
    )
