"""JAX's compilation cache in the sandbox.

The cache holds machine code, so only trusted code writes it: the judge, while a calibration judges
the assignment's own notebooks. Later judges read it through a read-only mount. JAX is also
configured not to write, because it would warn about every program that it cannot store. Kernels
have none, because it holds the solution's programs. Without bubblewrap there is no cache, because
any process could write to it.
"""

import contextlib
import importlib
import zlib
from pathlib import Path
from typing import Final

from autograder.sandboxed import CACHE_MOUNT, CACHES_MOUNT

CACHE_SUFFIX: Final = "-cache"
"""The end of the names of JAX's cache files."""

MAX_CACHE_BYTES: Final = 256 * 2**20
"""The limit for one assignment; a notebook needs a few MB."""

NEVER_SECONDS: Final = "1e9"
"""A compile time that no program reaches, so JAX stores none."""


def bind_cache(folder: Path, fills: bool, forks: bool) -> list[str]:
    """Return the bubblewrap options that show a cache; nothing if there is none.

    Args:
        folder: the cache, outside the sandbox.
        fills: whether the process is trusted and writes to the cache.
        forks: whether it forks for tasks of all assignments; then it gets the folder with their
            caches, and each task its own cache from there.
    """
    if fills:
        folder.mkdir(parents=True, exist_ok=True)
    if forks:
        bind = "--bind" if fills else "--ro-bind-try"
        return [bind, str(folder.parent), CACHES_MOUNT, "--dir", CACHE_MOUNT]
    if not folder.is_dir():
        return []
    return ["--bind" if fills else "--ro-bind", str(folder), CACHE_MOUNT]


def configure_cache(fills: bool) -> dict[str, str]:
    """Return the environment variables that configure JAX's compilation cache.

    Args:
        fills: whether the process writes to the cache.
    """
    return {
        "JAX_COMPILATION_CACHE_DIR": CACHE_MOUNT,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0" if fills else NEVER_SECONDS,
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
        # the source lines of a program, which no verdict mentions
        "JAX_COMPILATION_CACHE_INCLUDE_METADATA_IN_KEY": "0",
    }


def prune_cache(folder: Path) -> None:
    """Remove everything from a filled cache but complete programs, up to the size limit.

    The process that wrote them may have been killed in the middle of one.
    """
    size = 0
    for file in folder.rglob("*"):
        if file.is_dir() and not file.is_symlink():
            continue
        if not _is_complete(file):
            file.unlink()
            continue
        size += file.stat().st_size
        if size > MAX_CACHE_BYTES:
            file.unlink()


def _is_complete(file: Path) -> bool:
    """Check whether a file is a complete entry of JAX's cache."""
    if file.is_symlink() or not file.is_file() or not file.name.endswith(CACHE_SUFFIX):
        return False
    try:
        return bool(_decompress(file.read_bytes()))
    except Exception:  # each compression library has its own errors
        return False


def _decompress(compressed: bytes) -> bytes:
    """Decompress a cache entry with the library that JAX uses: the first that is installed."""
    for library in ("compression.zstd", "zstandard"):
        with contextlib.suppress(ImportError):
            return bytes(importlib.import_module(library).decompress(compressed))
    return zlib.decompress(compressed)
