"""What was compiled before, for whoever compiles the same again behind walls.

It is JAX's own cache of compiled programs. What lies there is machine code that is run as it is, so
it is written by trusted code alone: while the grader tests itself on a course's own notebooks
(`calibration/`). Whoever runs or judges a submission reads it, through a mount that cannot be
written to, and does not try to: JAX would warn of every program that is not there, in the middle of
somebody's outputs. Without walls there is none, for then it could be written by anybody.

Kernels and judges have one each. What the solution compiled is for judges; what a kernel can read
comes from the released notebook, in which there is nothing that is right.
"""

import contextlib
import importlib
import zlib
from pathlib import Path
from typing import Final, Literal

Reader = Literal["kernels", "judges"]
"""Who has a part of it, as its folder is called."""

READERS: Final[tuple[Reader, ...]] = ("kernels", "judges")

PLACE: Final = "/compiled"
"""Where it is found within walls: the same for all, for JAX may make it a part of its keys."""

ENDING: Final = "-cache"
"""How the names of JAX's files end, after a program's name and what it is known by."""

LARGEST: Final = 256 * 2**20
"""The most bytes that are kept for one assignment: a notebook's take a few."""

NEVER: Final = "1e9"
"""So many seconds a program must take to compile before it is written down."""


def bound(folder: Path, reader: Reader, fills: bool) -> list[str]:
    """What tells bubblewrap to show a part of it; nothing where there is none.

    Args:
        folder: where it lies.
        reader: whose part.
        fills: whether what runs there is trusted, and writes down what it compiles.
    """
    part = folder / reader
    if fills:
        part.mkdir(parents=True, exist_ok=True)
    if not part.is_dir():
        return []
    return ["--bind" if fills else "--ro-bind", str(part), PLACE]


def variables_for(reader: Reader, fills: bool) -> dict[str, str]:
    """The variables by which JAX finds it, writes to it or does not, and is silent.

    Args:
        reader: whose part.
        fills: whether what is compiled is to be written down.
    """
    return {
        "JAX_COMPILATION_CACHE_DIR": PLACE,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0" if fills else NEVER,
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
        # a program also knows which lines it came from. A notebook shows them (`communication`), so
        # there they are part of what is the same; no verdict speaks of them.
        "JAX_COMPILATION_CACHE_INCLUDE_METADATA_IN_KEY": "1" if reader == "kernels" else "0",
    }


def seal(folder: Path) -> None:
    """Leave nothing in a folder that was filled but whole programs, and not too many of them.

    Whoever wrote them may have been killed in the middle of one.
    """
    size = 0
    for file in folder.rglob("*"):
        if file.is_dir() and not file.is_symlink():
            continue
        if not _is_whole(file):
            file.unlink()
            continue
        size += file.stat().st_size
        if size > LARGEST:
            file.unlink()


def _is_whole(file: Path) -> bool:
    """Whether a file is one of JAX's, from its beginning to its end."""
    if file.is_symlink() or not file.is_file() or not file.name.endswith(ENDING):
        return False
    try:
        return bool(_unpacked(file.read_bytes()))
    except Exception:  # each library that packs has errors of its own
        return False


def _unpacked(packed: bytes) -> bytes:
    """What JAX packed, by the library that it takes: the first that there is."""
    for library in ("compression.zstd", "zstandard"):
        with contextlib.suppress(ImportError):
            return bytes(importlib.import_module(library).decompress(packed))
    return zlib.decompress(packed)
