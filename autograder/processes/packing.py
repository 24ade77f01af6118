"""Pack a notebook's function as bytes, with whatever it uses of the notebook."""

import contextlib
import inspect
import io
import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import cloudpickle
import jax
import msgspec

from autograder.errors import UsageError

MAX_FUNCTION_BYTES: Final = 1 << 20


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Refuses arrays on several devices, which would arrive as copies on one."""

    def reducer_override(self, obj: Any) -> Any:
        """What an object is pickled as."""
        if isinstance(obj, jax.Array) and len(obj.sharding.device_set) > 1:
            raise TypeError(
                f"an array is on {len(obj.sharding.device_set)} devices of this process"
            )
        return super().reducer_override(obj)


def pickled(thing: object) -> bytes:
    """An object as bytes, with functions of a notebook as they are written.

    Raises:
        Exception: it cannot be pickled; of any type.
    """
    file = io.BytesIO()
    _Pickler(file).dump(thing)
    return file.getvalue()


class PackedFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="function"):
    """A function as bytes, to be called in other processes.

    Whoever unpickles it runs its author's code, so nobody does but the workers.

    Attributes:
        pickled: the function, with whatever it uses of its notebook.
        file: what Python calls the cell that it was written in.
        cells: the lines of that cell, and of others that it uses, for messages that quote them.
    """

    pickled: bytes
    file: str
    cells: dict[str, tuple[str, ...]]


def pack(function: Callable[..., Any]) -> PackedFunction:
    """Pickle a function, with the cells that it comes from.

    Raises:
        UsageError: it cannot be pickled; the message says what of it, and what to do.
    """
    with _by_value():
        packed = PackedFunction(_sendable(function, function), file_of(function), _cells(function))
    if len(packed.pickled) > MAX_FUNCTION_BYTES:
        raise UsageError(
            f"{_name(function)} takes {len(packed.pickled):,} bytes with all that it uses of the "
            f"notebook, and at most {MAX_FUNCTION_BYTES:,} can be sent to other processes. Make "
            f"large arrays within the function."
        )
    return packed


@contextlib.contextmanager
def _by_value() -> Iterator[None]:
    """Pickle what modules beside the notebook define, since no other process may find them."""
    here, beside = Path.cwd(), []
    for name, module in list(sys.modules.items()):
        file = Path(str(getattr(module, "__file__", None) or "/"))
        own = name.partition(".")[0] in ("__main__", "autograder") or "site-packages" in file.parts
        if file.is_relative_to(here) and not own:
            beside.append(module)
    for module in beside:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in beside:
            cloudpickle.unregister_pickle_by_value(module)


def pack_arguments(function: Callable[..., Any], arguments: object) -> bytes:
    """Pickle what makes a function's arguments.

    Raises:
        UsageError: it cannot be pickled.
    """
    return _sendable(arguments, function)


def _sendable(thing: object, function: Callable[..., Any]) -> bytes:
    try:
        return pickled(thing)
    except Exception as error:
        culprit = _cannot_be_sent(function)
        which = f"It uses {culprit} of the notebook. " if culprit else ""
        raise UsageError(
            f"{_name(function)} cannot be sent to other processes: "
            f"{type(error).__name__}: {error}. {which}Meshes, shardings, devices, and arrays on "
            f"several devices belong to the process that made them: make them within the function."
        ) from error


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "The function"))


def _cannot_be_sent(function: Callable[..., Any]) -> str:
    """The name of what a function uses of its notebook that cannot be sent."""
    for name, value in _used(function).items():
        try:
            pickled(value)
        except Exception:
            return name
    return ""


def _used(function: Callable[..., Any]) -> dict[str, Any]:
    """What a function uses by name, of its notebook and of functions around it."""
    try:
        used = inspect.getclosurevars(inspect.unwrap(function))
    except (TypeError, ValueError):
        return {}
    return {**used.globals, **used.nonlocals}


def _cells(function: Callable[..., Any]) -> dict[str, tuple[str, ...]]:
    """The text of the cells that a function, and those that it uses, were written in."""
    cells: dict[str, tuple[str, ...]] = {}
    left: list[Any] = [function]
    while left:
        one = left.pop()
        file = file_of(one)
        if file and file not in cells:
            cells[file] = tuple(linecache.getlines(file))
            plain = (inspect.unwrap(each) for each in _used(one).values() if callable(each))
            left += [f for f in plain if isinstance(f, FunctionType) and f.__module__ == "__main__"]
    return cells


def file_of(function: Callable[..., Any]) -> str:
    """What Python calls the cell that a function was written in."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return str(getattr(code, "co_filename", ""))
