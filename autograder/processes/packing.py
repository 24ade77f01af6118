"""Pickle a function of a notebook, with whatever it uses of the notebook."""

import contextlib
import dis
import inspect
import io
import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import cloudpickle
import jax
import msgspec

from autograder.processes.disks import Ask
from shardlings.errors import UsageError, owner_of_globals

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

    Unpickling it runs its author's code, so only child processes do.

    Attributes:
        pickled: the function, with whatever it uses of its notebook.
        file: the file name in its code, which for a notebook names the cell that defines it.
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
        try:
            pickled = _pickle(function)
        except Exception as error:
            culprit = _find_unpicklable(function)
            reason = f"It uses {culprit} of the notebook. " if culprit else ""
            raise UsageError(_explain_unpicklable(_name_of(function), error, reason)) from error
        packed = PackedFunction(pickled, _source_file(function), _read_cells(function))
    if len(pickled) > MAX_FUNCTION_BYTES:
        raise UsageError(
            f"{_name_of(function)} takes {len(pickled):,} bytes with all that it uses of "
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
        and sys.modules.get(module.__name__) is module  # cloudpickle refuses any other
    }
    for module in local_modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in local_modules:
            cloudpickle.unregister_pickle_by_value(module)


def pack_arguments(
    function: Callable[..., Any], arguments: Callable[[Ask], tuple[Any, ...]]
) -> bytes:
    """Pickle a function that returns another function's arguments.

    Args:
        function: the function that is called with the arguments, for the error message.
        arguments: returns the arguments, in each process, where it is given a way to ask for what
            is on a disk.

    Raises:
        UsageError: they cannot be pickled.
    """
    try:
        with _local_modules_by_value():
            return _pickle(arguments)
    except Exception as error:
        name = f"An argument of {_name_of(function)}"
        raise UsageError(_explain_unpicklable(name, error)) from error


def _explain_unpicklable(name: str, error: Exception, reason: str = "") -> str:
    return (
        f"{name} cannot be sent to other processes: {type(error).__name__}: {error}. {reason}"
        f"Meshes, shardings, devices, and arrays on several devices belong to the process that "
        f"made them: make them within the function."
    )


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
    """Return the globals and closure variables that a function and those in it use, by name."""
    unwrapped = inspect.unwrap(function)
    if isinstance(unwrapped, MethodType):
        unwrapped = unwrapped.__func__
    if not isinstance(unwrapped, FunctionType):
        return {}
    loaded = {
        instruction.argval
        for code in _code_objects(unwrapped.__code__)
        for instruction in dis.get_instructions(code)
        if instruction.opname == "LOAD_GLOBAL"
    }
    used = {name: value for name, value in unwrapped.__globals__.items() if name in loaded}
    for name, cell in zip(unwrapped.__code__.co_freevars, unwrapped.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not assigned yet
            used[name] = cell.cell_contents
    return used


def _code_objects(code: CodeType) -> Iterator[CodeType]:
    """Yield a function's code, and that of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_objects(constant)


def _read_cells(function: Callable[..., Any]) -> dict[str, tuple[str, ...]]:
    """Return the lines of the cells that define a function and the functions that it uses."""
    functions: list[Any] = [function]
    for user in functions:  # grows while it is read
        used = (inspect.unwrap(v) for v in _used_names(user).values() if callable(v))
        functions += [
            f
            for f in used
            if isinstance(f, FunctionType) and f.__module__ == "__main__" and f not in functions
        ]
    files = dict.fromkeys(filter(None, map(_source_file, functions)))
    return {file: tuple(linecache.getlines(file)) for file in files}


def _source_file(function: Callable[..., Any]) -> str:
    """Return the file name in a function's code, which names its cell; empty if it has no code."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return str(getattr(code, "co_filename", ""))
