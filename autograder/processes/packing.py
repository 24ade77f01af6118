"""Pickle a function of a notebook, with whatever it uses of the notebook."""

import contextlib
import inspect
import io
import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import cloudpickle
import jax
import msgspec

from autograder.errors import UsageError, owner_of_globals

MAX_FUNCTION_BYTES: Final = 1 << 20


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Refuses arrays on several devices, because pickling gathers them on one."""

    def reducer_override(self, obj: Any) -> Any:
        """Refuse such an array; pickle any other object as cloudpickle does."""
        if isinstance(obj, jax.Array) and len(obj.sharding.device_set) > 1:
            raise TypeError(
                f"an array is on {len(obj.sharding.device_set)} devices of this process"
            )
        return super().reducer_override(obj)


def _pickle(value: object) -> bytes:
    """Pickle an object, with the code of a notebook's functions.

    Raises:
        Exception: it cannot be pickled; the error may be of any type.
    """
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


class PackedFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="function"):
    """A pickled function, to be called in other processes.

    Unpickling it runs its author's code, so only workers do.

    Attributes:
        pickled: the function, with whatever it uses of its notebook.
        file: Python's name of the cell that defines it.
        cells: the lines of that cell, and of other cells that it uses, so that error messages can
            quote them.
    """

    pickled: bytes
    file: str
    cells: dict[str, tuple[str, ...]]


def pack(function: Callable[..., Any]) -> PackedFunction:
    """Pickle a function, with the text of the cells that define it.

    Raises:
        UsageError: it cannot be pickled; the message says which object cannot, and what to do.
    """
    with _local_modules_by_value():
        pickled = _pickle_for(function, function)
        packed = PackedFunction(pickled, _source_file(function), _read_cells(function))
    if len(packed.pickled) > MAX_FUNCTION_BYTES:
        raise UsageError(
            f"{_name_of(function)} takes {len(packed.pickled):,} bytes with all that it uses of "
            f"the notebook, and at most {MAX_FUNCTION_BYTES:,} can be sent to other processes. "
            f"Make large arrays within the function."
        )
    return packed


@contextlib.contextmanager
def _local_modules_by_value() -> Iterator[None]:
    """Pickle the code of modules beside the notebook: other processes may not find them."""
    here, registered = Path.cwd(), cloudpickle.list_registry_pickle_by_value()
    local_modules = {
        module
        for module in list(sys.modules.values())
        if isinstance(module, ModuleType)
        and Path(getattr(module, "__file__", None) or "/").is_relative_to(here)
        and owner_of_globals(vars(module)) == "theirs"
        and module.__name__ not in {"__main__", *registered}
    }
    for module in local_modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in local_modules:
            cloudpickle.unregister_pickle_by_value(module)


def pack_arguments(function: Callable[..., Any], arguments: object) -> bytes:
    """Pickle what makes a function's arguments.

    Args:
        function: the function, for the error message.
        arguments: a function that returns the arguments.

    Raises:
        UsageError: it cannot be pickled.
    """
    return _pickle_for(function, arguments)


def _pickle_for(function: Callable[..., Any], value: object) -> bytes:
    """Pickle a function, or its arguments, or explain why they cannot be sent.

    Raises:
        UsageError: they cannot be pickled.
    """
    try:
        return _pickle(value)
    except Exception as error:
        culprit = _find_unpicklable(function)
        which = f"It uses {culprit} of the notebook. " if culprit else ""
        raise UsageError(
            f"{_name_of(function)} cannot be sent to other processes: "
            f"{type(error).__name__}: {error}. {which}Meshes, shardings, devices, and arrays on "
            f"several devices belong to the process that made them: make them within the function."
        ) from error


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "The function"))


def _find_unpicklable(function: Callable[..., Any]) -> str:
    """Return the first name that a function uses whose value cannot be pickled; empty if none."""
    for name, value in _used_names(function).items():
        try:
            _pickle(value)
        except Exception:
            return name
    return ""


def _used_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the globals and closure variables that a function uses, by name."""
    try:
        used = inspect.getclosurevars(inspect.unwrap(function))
    except (TypeError, ValueError):
        return {}
    return {**used.globals, **used.nonlocals}


def _read_cells(function: Callable[..., Any]) -> dict[str, tuple[str, ...]]:
    """Return the lines of the cells that define a function and the functions that it uses."""
    cells: dict[str, tuple[str, ...]] = {}
    waiting: list[Any] = [function]
    while waiting:
        user = waiting.pop()
        file = _source_file(user)
        if file and file not in cells:
            cells[file] = tuple(linecache.getlines(file))
            used = (inspect.unwrap(v) for v in _used_names(user).values() if callable(v))
            waiting += [
                f for f in used if isinstance(f, FunctionType) and f.__module__ == "__main__"
            ]
    return cells


def _source_file(function: Callable[..., Any]) -> str:
    """Return Python's name of the cell that defines a function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return str(getattr(code, "co_filename", ""))
