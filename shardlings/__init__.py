"""Shardlings: how a JAX program lays its data out over devices, and what it communicates.

    >>> from shardlings import communication, emulate_devices, show

This package knows nothing of exercises and grades; `autograder`, which needs all of it, is above
it. `docs/architecture.md` describes the packages of both. They use these words:

- A *layout* says which device holds which *block* of an array.
- A *program* is a function in StableHLO or compiled. A *collective* is *requested* by the program
  or *compiled* by XLA.
- A *report* says what a program sends, keeps in memory and computes, by line of source code.
"""

from shardlings.devices import emulate_devices
from shardlings.layouts import playground, show
from shardlings.programs import communication

__all__ = ["communication", "emulate_devices", "playground", "show"]
