"""Shardlings: how a JAX program lays its data out over devices, and what it communicates.

    >>> from shardlings import communication, emulate_devices, show

This package knows nothing of exercises and grades; `autograder`, which needs all of it, is above
it. `docs/architecture.md` describes the packages of both. They use these words:

- A *layout* says which device holds which *block* of an array.
- A *program* is a function in StableHLO or compiled. A *collective* is *requested* by the program
  or *compiled* by XLA.
- A *report* says what a program sends, keeps in memory and computes, by line of source code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shardlings.devices import emulate_devices
    from shardlings.layouts import playground, show
    from shardlings.programs import communication, read_dump

__all__ = ["communication", "emulate_devices", "playground", "read_dump", "show"]

_MODULES: Final = {
    "communication": "programs",
    "emulate_devices": "devices",
    "playground": "layouts",
    "read_dump": "programs",
    "show": "layouts",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used.

    Pytest imports this package for its plugin in every project where it is installed, and most of
    their tests need none of it, and no JAX.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(f"{__name__}.{_MODULES[name]}"), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
