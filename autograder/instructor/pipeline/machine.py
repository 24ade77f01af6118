"""The machine that grades: its processor, and the versions of JAX."""

import hashlib
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Final

INSTRUCTION_FIELDS: Final = ("model name", "flags", "Features", "CPU part")
"""The fields of /proc/cpuinfo that determine which instructions a processor has."""


def read_jax_versions() -> list[str]:
    """Return the versions of JAX and jaxlib."""
    return [importlib.metadata.version(name) for name in ("jax", "jaxlib")]


def read_processor_model() -> str:
    """Return the processor's model; Python's `platform` only knows its family."""
    return next(iter(_read_processor(("model name",))), platform.processor())


def fingerprint_machine() -> str:
    """Compute a fingerprint of JAX, jaxlib and the processor's instructions."""
    fields = sorted(set(_read_processor(INSTRUCTION_FIELDS)))
    machine = json.dumps([*read_jax_versions(), platform.machine(), *fields])
    return hashlib.sha256(machine.encode()).hexdigest()


def _read_processor(fields: tuple[str, ...]) -> list[str]:
    """Return the lines of /proc/cpuinfo with some fields; none where there is no such file."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if line.startswith(fields)]
