"""A function of a notebook's as bytes, with whatever it uses of the notebook."""

import inspect
import io
import linecache
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import cloudpickle
import jax

from autograder.errors import UsageError
from autograder.processes.worker import Job


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


def packed(
    function: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]], axes: Sequence[str]
) -> bytes:
    """A job as bytes, with the cells that it comes from and whatever of the notebook it uses.

    Raises:
        UsageError: something of it cannot be sent; it says what, and what to do.
    """
    try:
        return pickled(Job(function, arguments, file_of(function), _cells(function), tuple(axes)))
    except Exception as error:
        culprit = _cannot_be_sent(function)
        which = f"It uses {culprit} of the notebook. " if culprit else ""
        raise UsageError(
            f"{getattr(function, '__name__', 'The function')} cannot be sent to other processes: "
            f"{type(error).__name__}: {error}. {which}Meshes, shardings, devices, and arrays on "
            f"several devices belong to the process that made them: make them within the function."
        ) from error


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
