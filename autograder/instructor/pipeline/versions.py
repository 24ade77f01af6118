"""Whether another machine has what this one grades with."""

import functools
import platform
from pathlib import Path

import autograder
from autograder.instructor.pipeline.basis import _jax
from autograder.instructor.pipeline.fingerprint import fingerprint_files


@functools.cache  # what runs is what was there when it was imported
def versions() -> tuple[str, ...]:
    """The package, in a few letters, JAX's version and Python's."""
    folder = Path(autograder.__file__).parent
    python = ".".join(platform.python_version_tuple()[:2])
    return fingerprint_files(folder.rglob("*.py"), folder), _jax(), python
