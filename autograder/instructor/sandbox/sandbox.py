"""The sandbox for strangers' code: bubblewrap where there is one, and limits everywhere.

A process in it sees the system and Python's packages, read-only, and a temporary folder: no
network, no other files, no other processes. It has no user and no capabilities, and everything that
it starts ends with it.

Compiled programs. JAX's compilation cache holds machine code, so only trusted code writes it: the
grader during calibration. Kernels and judges read it through a read-only mount and are told not to
write, because JAX would warn about every program that is missing. Without bubblewrap there is no
cache, since any process could write to it. Judges have the solution's programs; kernels have only
those of the released notebook, which contain nothing that is right.

Other copies. A kernel can read all of Python's folders, where a second copy of the answers may be:
in the installed package, in a checkout made by pip (`src/`), in a course that somebody put beside
Python's files. These folders are searched for the name of a course's package, and for courses.
"""

import contextlib
import functools
import importlib
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from traitlets import Bool, Int, List, Unicode
from traitlets.config import LoggingConfigurable

import autograder
from autograder.exercises import folders_of_courses, parts_of_courses
from autograder.instructor.sandbox.bubblewrap import (
    HOME,
    NO_SANDBOX,
    SCRATCH_FOLDERS,
    bubblewrap,
    has_bubblewrap,
    has_call_filter,
    prefixes,
    sandbox_options,
)
from autograder.instructor.sandbox.call_filter import filter_bytes
from autograder.instructor.sandbox.warm_process import SERVERS, WarmProcess
from autograder.sandboxed import Setting

Reader = Literal["kernels", "judges"]
"""Who has a part of it, as its folder is called."""

READERS: Final[tuple[Reader, ...]] = ("kernels", "judges")

PLACE: Final = "/compiled"
"""Its path inside the sandbox: the same for all, because JAX may make it a part of its keys."""

ENDING: Final = "-cache"
"""How the names of JAX's files end, after a program's name and what it is known by."""

MAX_CACHE_BYTES: Final = 256 * 2**20
"""For one assignment; a notebook needs a few MB."""

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
        if size > MAX_CACHE_BYTES:
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


COURSE: Final = "nbgrader_config.py"
"""What a course's own folder has in it."""

CHECKOUT: Final = (COURSE, "pyproject.toml", "setup.py", ".git")
"""What a folder has in it from which a package is installed."""

MAX_SEARCH_DEPTH: Final = 6
"""Folders; `/usr/local/lib/python3.11/dist-packages` has five."""


class ExposedError(RuntimeError):
    """What is right can be seen where submissions run; the message says where and what to do."""


def hiding(prefixes: Sequence[Path]) -> list[str]:
    """What tells bubblewrap to hide all other copies in the folders that a kernel sees.

    Raises:
        ExposedError: one of these folders lies in what is to be hidden.
    """
    names = frozenset({autograder.__name__, *(folder.name for folder in folders_of_courses())})
    found = dict.fromkeys([*_copies(tuple(prefixes), names), *_parts(prefixes)])
    for place in found:
        for prefix in prefixes:
            if prefix.is_relative_to(place):
                raise ExposedError(
                    f"{prefix}, where Python lies, is in a course's own folder ({place}), so what "
                    f"runs there sees the course's answers and grades. Make the virtual "
                    f"environment in a folder of its own, such as {place / '.venv'}, or move the "
                    f"course."
                )
    outermost = [p for p in found if not any(other in found for other in p.parents)]
    return [part for place in outermost for part in _hidden(place)]


def _hidden(place: Path) -> list[str]:
    if place.is_dir():
        return ["--tmpfs", str(place), "--remount-ro", str(place)]
    return ["--ro-bind", "/dev/null", str(place)]


def _parts(prefixes: Sequence[Path]) -> Iterator[Path]:
    """What else other courses have installed, beside the packages that their exercises are in."""
    for part in parts_of_courses():
        if part.exists() and any(part.is_relative_to(prefix) for prefix in prefixes):
            yield part


@functools.cache
def _copies(prefixes: tuple[Path, ...], names: frozenset[str]) -> tuple[Path, ...]:
    """The packages of some names, and the courses, in folders; a whole checkout where it is one."""
    return tuple(
        copy for prefix in prefixes for copy in _within(prefix, (prefix,), names) if copy.exists()
    )


def _within(folder: Path, above: tuple[Path, ...], names: frozenset[str]) -> Iterator[Path]:
    """The copies in a folder.

    Args:
        folder: where to look.
        above: it, and the folders that it is in, from where it began.
        names: those of the packages.
    """
    try:
        with os.scandir(folder) as entries:
            there = {e.name: e.is_dir(follow_symlinks=False) for e in entries}
    except OSError:  # who may not look into it runs the kernels, too
        return
    if COURSE in there:
        yield folder
        return
    if "__init__.py" in there:  # what is in a package has another name
        return
    for name, is_folder in there.items():
        if is_folder and name in names:
            yield _checkout(above) or folder / name
        elif is_folder and len(above) < MAX_SEARCH_DEPTH:
            yield from _within(folder / name, (*above, folder / name), names)


def _checkout(above: tuple[Path, ...]) -> Path | None:
    """The outermost folder of a checkout that a package is in; None where it is in none.

    An environment that was made in somebody's project is no checkout of what is installed in it,
    so that is one only if the package is where a checkout has it.
    """
    for folder in above:
        near = folder != above[0] or folder in above[-2:]
        if near and any((folder / name).exists() for name in CHECKOUT):
            return folder
    return None


PACKAGES: Final = "/shardlings"
"""The path of this package inside the sandbox; Python looks there before anywhere else.

Left to itself it would look where the package is installed. From an editable installation that is
another checkout than the one at work, if that is what the current folder holds, and it has no
place in the sandbox.
"""


class NoSandboxError(RuntimeError):
    """There is no bubblewrap, and without one nothing is to run."""


class Sandbox(LoggingConfigurable):
    """How strangers' code is run. The defaults are safe for a notebook of this course."""

    required = Bool(True, help="Refuse to run anything where there is no bubblewrap.").tag(
        config=True
    )
    memory = Int(
        8 * 2**30, help="The most bytes that a process may address, and that all may hold."
    ).tag(config=True)
    seconds = Int(
        600,
        help="How long a whole notebook may run, in place of twenty times what its solution took.",
    ).tag(config=True)
    scratch = Int(256 * 2**20, help="The most bytes that may be written to files.").tag(config=True)
    processes = Int(64, help="The most processes.").tag(config=True)
    threads = Int(2048, help="The most threads of all processes.").tag(config=True)
    open_files = Int(1024, help="The most files open at once.").tag(config=True)
    cpu_seconds = Int(900, help="The most seconds of processor time of a process.").tag(config=True)
    compiled = Unicode(
        "",
        help="The folder with what was compiled before, which can be read in the sandbox; see "
        "`sandbox/sandbox.py`. Calibration fills one for each assignment.",
    ).tag(config=True)
    filled_by = List(
        Unicode(),
        help="Which of `kernels` and `judges` write down in it what they compile. For trusted code "
        "alone: whatever is written there is run when others are graded.",
    ).tag(config=True)

    def check(self) -> None:
        """See that there is a sandbox, or that none is required.

        Raises:
            NoSandboxError: there is none.
        """
        if self.required and not has_bubblewrap():
            raise NoSandboxError(NO_SANDBOX)

    def command(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        packages: Path | None = None,
        reader: Reader | None = None,
        forks: bool = False,
    ) -> list[str]:
        """Return a command that runs another one within limits, in bubblewrap if there is one.

        Args:
            command: what to run.
            environment: all the variables that it is to have.
            packages: the folder in which it is to find this package, where that is not to be the
                one at work; then no other copy of it can be seen.
            reader: whose part of what was compiled before it may use, if any.
            forks: whether it makes sandboxes within this one, and filters system calls there.

        Raises:
            NoSandboxError: there is no bubblewrap, and `required` is set.
            ExposedError: another copy can be seen, and cannot be hidden.
        """
        self.check()
        if not has_bubblewrap():
            return self._limited(command)
        seen = _packages() if packages is None else _packages_in(packages)
        variables = {**environment, "HOME": HOME, "TMPDIR": "/tmp", "PYTHONPATH": PACKAGES}
        if reader is not None and self.compiled:
            fills = reader in self.filled_by
            shown = bound(Path(self.compiled), reader, fills)
            variables |= variables_for(reader, fills) if shown else {}
            seen += shown
        known = [part for pair in variables.items() for part in ("--setenv", *pair)]
        entered = [*bubblewrap(filtered=not forks), *sandbox_options(self.scratch, seen, forks)]
        return self._limited([*entered, "--chdir", HOME, "--clearenv", *known, "--", *command])

    def warm(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        packages: Path | None = None,
        reader: Reader | None = None,
    ) -> WarmProcess | None:
        """A process that has imported everything and forks for each task; None if there is none.

        Args:
            command: what starts it; see `sandboxed/fork_server.py`.
            environment: all the variables that it is to have.
            packages: as for `command`; the folder has to stay as long as the process does.
            reader: whose part of what was compiled before it may use, if any.
        """
        if not (has_bubblewrap() and has_call_filter()):
            return None
        # a child has its own empty /tmp, which would hide a Python that is installed below it
        if any(str(prefix).startswith(f"{f}/") for prefix in prefixes() for f in SCRATCH_FOLDERS):
            return None
        server = self.command(command, environment, packages, reader, forks=True)
        setting = Setting(filter_bytes(), SCRATCH_FOLDERS, self.scratch)
        return SERVERS.get(server, environment, setting)

    def _limited(self, command: Sequence[str]) -> list[str]:
        """The same command under a shell's limits, where there is a shell; no limit is required.

        A function to call between fork and exec would do it without a shell, and JAX, which has
        threads, warns of every fork.
        """
        if not Path("/bin/sh").exists():
            return list(command)
        wanted = {
            "v": self.memory // 1024,
            "f": self.scratch // 512,
            "n": self.open_files,
            "t": self.cpu_seconds,
            "c": 0,
        }
        set_each = " ".join(f"ulimit -{kind} {most} 2>/dev/null;" for kind, most in wanted.items())
        limited = ["/bin/sh", "-c", f'{set_each} exec "$@"', "sh", *command]
        return _while_this_lives(limited)


def _while_this_lives(command: Sequence[str]) -> list[str]:
    """A command that is killed soon after this process is, whenever that happens.

    bubblewrap dies with who started it, but for its first few milliseconds; so somebody looks.
    """
    look = f"while kill -0 {os.getpid()} && kill -0 $$; do sleep 1; done; kill -9 $child"
    run = (
        # an interrupt, which goes to all of a group, is for the command
        f"trap '' INT; exec 3<&0; \"$@\" <&3 3<&- & child=$!; exec 3<&-; "
        f"({look}) <&- >&- 2>&- & wait $child; status=$?; kill $!; exit $status"
    )
    return ["/bin/sh", "-c", run, "sh", *command]


def _packages() -> list[str]:
    """The package at work, and those that other courses' exercises are in; nothing beside them."""
    folders = (Path(autograder.__file__).parent, *folders_of_courses())
    return [part for f in folders for part in ("--ro-bind", str(f), f"{PACKAGES}/{f.name}")]


def _packages_in(folder: Path) -> list[str]:
    """Packages in a folder; and nothing where others of their names may be."""
    return ["--ro-bind", str(folder), PACKAGES, *hiding(prefixes())]


def sandbox_environment() -> dict[str, str]:
    """The variables that what runs in a sandbox needs of one's own."""
    kept = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")
    return {name: os.environ[name] for name in kept if name in os.environ}
