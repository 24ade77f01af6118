"""Shardlings: what a notebook of the course imports."""

from autograder.communication import communication
from autograder.devices import emulate_devices
from autograder.notebook import check, hint, progress, show, target

__all__ = ["check", "communication", "emulate_devices", "hint", "progress", "show", "target"]
