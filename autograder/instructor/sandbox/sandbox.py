"""The sandbox for untrusted code: bubblewrap if it is installed, and limits in any case.

A process in it sees the system's and Python's files, read-only, and temporary folders: no network,
no other files, no other processes. It has no user and no capabilities, and everything that it
starts ends with it.

The compilation cache. JAX's compilation cache holds machine code, so only trusted code writes it:
the grader, during calibration. Kernels and judges read it through a read-only mount. JAX is also
configured not to write, because it would warn about every program that it cannot store. Without
bubblewrap there is no cache, because any process could write to it. Judges have the solution's
programs; kernels have only those of the released notebook, which contain no answers.

Other copies of the answers. A kernel can read all of Python's folders. A second copy of the answers
may be there: in the installed package, in a checkout made by pip (`src/`), or in a course that
somebody put beside Python's files. These folders are searched for courses, and for packages with
the names of courses' packages; what is found is hidden.
"""

import contextlib
import functools
import importlib
import os
import subprocess
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from traitlets import Bool, Int, List, Unicode
from traitlets.config import LoggingConfigurable

import autograder
import shardlings
from autograder.exercises import folders_of_courses, parts_of_courses
from autograder.instructor.sandbox.bubblewrap import (
    HOME,
    NO_SANDBOX_ERROR,
    SCRATCH_FOLDERS,
    build_bubblewrap_command,
    build_sandbox_options,
    has_bubblewrap,
    has_call_filter,
    list_visible_folders,
)
from autograder.instructor.sandbox.call_filter import read_filter
from autograder.instructor.sandbox.warm_process import SERVERS, WarmProcess
from autograder.sandboxed import CACHE_MOUNT, CACHES_MOUNT, TaskSettings
from shardlings.errors import ShortError

Reader = Literal["kernels", "judges"]
"""The processes that read a part of the compilation cache; also the name of that part's folder."""

CACHE_SUFFIX: Final = "-cache"
"""The end of the names of JAX's cache files."""

MAX_CACHE_BYTES: Final = 256 * 2**20
"""The limit for one assignment; a notebook needs a few MB."""

NEVER_SECONDS: Final = "1e9"
"""A compile time that no program reaches, so JAX stores none."""


def bind_cache(folder: Path, reader: Reader, fills: bool, forks: bool) -> list[str]:
    """Return the bubblewrap options that show a reader's part of the cache; nothing if it has none.

    Args:
        folder: the folder of the cache, outside the sandbox.
        reader: the part.
        fills: whether the process is trusted and writes to the cache.
        forks: whether it forks for tasks of all assignments; then it gets the folder with their
            caches, and each task its own cache from there.
    """
    if forks and not fills:
        return ["--ro-bind-try", str(folder.parent), CACHES_MOUNT, "--dir", CACHE_MOUNT]
    part = folder / reader
    if fills:
        part.mkdir(parents=True, exist_ok=True)
    if not part.is_dir():
        return []
    return ["--bind" if fills else "--ro-bind", str(part), CACHE_MOUNT]


def configure_cache(reader: Reader, fills: bool) -> dict[str, str]:
    """Return the environment variables that configure JAX's compilation cache.

    Args:
        reader: the part of the cache.
        fills: whether the process writes to the cache.
    """
    return {
        "JAX_COMPILATION_CACHE_DIR": CACHE_MOUNT,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0" if fills else NEVER_SECONDS,
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
        # A program's metadata includes the source lines that it came from. A notebook shows them
        # (`communication`), so in a kernel they have to match; verdicts do not mention them.
        "JAX_COMPILATION_CACHE_INCLUDE_METADATA_IN_KEY": "1" if reader == "kernels" else "0",
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


MAX_THREADS: Final = 600 + 20 * (os.cpu_count() or 1)
"""The default limit on threads. On two cores, notebook 11 starts 425 in eight processes, and the
others up to 85. Libraries start up to three more for each core in each process."""

COURSE_FILE: Final = "nbgrader_config.py"
"""The file that marks a course's folder."""

CHECKOUT_FILES: Final = (COURSE_FILE, "pyproject.toml", "setup.py", ".git")
"""Files that mark a folder from which a package is installed."""

MAX_SEARCH_DEPTH: Final = 6
"""The most levels of folders to search; `/usr/local/lib/python3.11/dist-packages` has five."""


class ExposedError(RuntimeError):
    """Answers are visible where submissions run; the message says where, and what to do."""


def hide_copies(folders: Sequence[Path]) -> list[str]:
    """Return the bubblewrap options that hide all other copies of the answers.

    Args:
        folders: the folders that a kernel sees.

    Raises:
        ExposedError: one of these folders lies inside a copy, so the copy cannot be hidden.
    """
    names = frozenset({autograder.__name__, *(folder.name for folder in folders_of_courses())})
    found = dict.fromkeys([*_find_copies(tuple(folders), names), *_find_parts(folders)])
    for copy in found:
        for folder in folders:
            if folder.is_relative_to(copy):
                raise ExposedError(
                    f"{folder}, where Python lies, is in a course's own folder ({copy}), so what "
                    f"runs there sees the course's answers and grades. Make the virtual "
                    f"environment in a folder of its own, such as {copy / '.venv'}, or move the "
                    f"course."
                )
    outermost = [path for path in found if not any(parent in found for parent in path.parents)]
    return [option for path in outermost for option in _hide(path)]


def _hide(path: Path) -> list[str]:
    if path.is_dir():
        return ["--tmpfs", str(path), "--remount-ro", str(path)]
    return ["--ro-bind", "/dev/null", str(path)]


def _find_parts(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the other parts of installed courses that a kernel could see."""
    for part in parts_of_courses():
        if part.exists() and any(part.is_relative_to(folder) for folder in folders):
            yield part


@functools.cache
def _find_copies(folders: tuple[Path, ...], names: frozenset[str]) -> tuple[Path, ...]:
    """Return the courses, and the packages with some names, in folders that a kernel sees.

    If a package is part of a checkout, the whole checkout is returned.
    """
    return tuple(
        copy for folder in folders for copy in _search(folder, (folder,), names) if copy.exists()
    )


def _search(folder: Path, above: tuple[Path, ...], names: frozenset[str]) -> Iterator[Path]:
    """Search a folder for copies, and yield them.

    Args:
        folder: the folder to search.
        above: the folders from the start of the search down to this one, which is the last.
        names: the names of packages to find.
    """
    try:
        with os.scandir(folder) as entries:
            found = {e.name: e.is_dir(follow_symlinks=False) for e in entries}
    except OSError:  # kernels run as the same user, so they cannot read it either
        return
    if COURSE_FILE in found:
        yield folder
        return
    if "__init__.py" in found:  # inside another package, a folder is not a top-level package
        return
    for name, is_folder in found.items():
        if is_folder and name in names:
            yield _find_checkout(above) or folder / name
        elif is_folder and len(above) < MAX_SEARCH_DEPTH:
            yield from _search(folder / name, (*above, folder / name), names)


def _find_checkout(above: tuple[Path, ...]) -> Path | None:
    """Return the outermost folder of the checkout that a package is in; None if there is none.

    A virtual environment may have been made inside somebody's project, which is not a checkout of
    the packages installed there. So the first folder of the search counts only if the package is
    directly in it, or one level below.
    """
    for folder in above:
        is_near = folder != above[0] or folder in above[-2:]
        if is_near and any((folder / name).exists() for name in CHECKOUT_FILES):
            return folder
    return None


PACKAGES: Final = "/shardlings"
"""The folder with this package inside the sandbox, which comes first on Python's search path.

Otherwise Python would import the installed package. With an editable installation that may be
another checkout than the running one, which is not visible in the sandbox.
"""


class NoSandboxError(ShortError, RuntimeError):
    """There is no working bubblewrap, and `Sandbox.required` is set."""


class Sandbox(LoggingConfigurable):
    """The sandbox's limits, as nbgrader's configuration sets them.

    The defaults are safe for a notebook of this course.
    """

    required = Bool(True, help="Refuse to run anything where there is no bubblewrap.").tag(
        config=True
    )
    memory = Int(
        8 * 2**30, help="The most bytes that a process may address, and that all may hold."
    ).tag(config=True)
    seconds = Int(
        600,
        help="How long a whole notebook may run, if not twenty times as long as its solution.",
    ).tag(config=True)
    scratch = Int(256 * 2**20, help="The most bytes that may be written to files.").tag(config=True)
    processes = Int(64, help="The most processes.").tag(config=True)
    threads = Int(MAX_THREADS, help="The most threads of all processes.").tag(config=True)
    open_files = Int(1024, help="The most files open at once.").tag(config=True)
    cpu_seconds = Int(900, help="The most seconds of CPU time of a process.").tag(config=True)
    uid = Int(
        0,
        help="Where there is no bubblewrap and root grades: the number of a user of their own that "
        "submissions run as. All processes of that user are killed after each notebook.",
    ).tag(config=True)
    compiled = Unicode(
        "",
        help="The folder of the compilation cache, which can be read in the sandbox; see "
        "`sandbox/sandbox.py`. Calibration fills one for each assignment.",
    ).tag(config=True)
    filled_by = List(
        Unicode(),
        help="Which of `kernels` and `judges` write the programs that they compile to it. Only for "
        "trusted code, because these programs run when other submissions are graded.",
    ).tag(config=True)

    def check(self) -> None:
        """Check that there is a sandbox, unless none is required.

        Raises:
            NoSandboxError: there is none.
        """
        if self.required and not has_bubblewrap():
            raise NoSandboxError(NO_SANDBOX_ERROR)

    def command(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        packages: Path | None = None,
        reader: Reader | None = None,
        forks: bool = False,
    ) -> list[str]:
        """Return a command that runs another one within limits, in bubblewrap if it is installed.

        Args:
            command: the command to run.
            environment: its whole environment.
            packages: a folder with a copy of this package to import instead of the running one;
                then all other copies are hidden.
            reader: the part of the compilation cache that it may use, if any.
            forks: whether it makes nested sandboxes, and loads the filter of system calls there.

        Raises:
            NoSandboxError: there is no bubblewrap, and `required` is set.
            ExposedError: another copy is visible, and cannot be hidden.
        """
        self.check()
        if not has_bubblewrap():
            return self._limit(command if packages is None else [*self._as_other_user(), *command])
        visible = _bind_packages() if packages is None else _bind_only_packages_in(packages)
        variables = {**environment, "HOME": HOME, "TMPDIR": "/tmp", "PYTHONPATH": PACKAGES}
        if reader is not None and self.compiled:
            fills = reader in self.filled_by
            cache = bind_cache(Path(self.compiled), reader, fills, forks)
            variables |= configure_cache(reader, fills) if cache else {}
            visible += cache
        set_variables = [option for pair in variables.items() for option in ("--setenv", *pair)]
        options = build_sandbox_options(self.scratch, visible, forks)
        sandboxed = [
            *build_bubblewrap_command(filtered=not forks),
            *options,
            "--chdir",
            HOME,
            "--clearenv",
        ]
        return self._limit([*sandboxed, *set_variables, "--", *command])

    def get_warm_server(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        packages: Path | None = None,
        reader: Reader | None = None,
    ) -> WarmProcess | None:
        """Return a warm server that forks for each task, starting it if need be; None if it cannot.

        Args:
            command: the command that starts it; see `sandboxed/fork_server.py`.
            environment: its whole environment.
            packages: as for `command`; the folder must exist as long as the server does.
            reader: the part of the compilation cache that it may use, if any.
        """
        if not (has_bubblewrap() and has_call_filter()):
            return None
        server = self.command(command, environment, packages, reader, forks=True)
        kept = [
            str(folder)
            for folder in list_visible_folders()
            if any(folder.is_relative_to(scratch) for scratch in SCRATCH_FOLDERS)
        ]
        setting = TaskSettings(read_filter(), SCRATCH_FOLDERS, self.scratch, tuple(kept))
        return SERVERS.get(server, environment, setting)

    def find_task_cache(self, reader: Reader) -> str:
        """Return which of the caches that a warm server has a task reads; empty for none."""
        part = Path(self.compiled, reader)
        is_shared = self.compiled and reader not in self.filled_by and part.is_dir()
        return str(part.relative_to(part.parent.parent)) if is_shared else ""

    @property
    def has_other_user(self) -> bool:
        """Whether another user takes the place of bubblewrap."""
        return bool(self.uid) and not has_bubblewrap()

    def _as_other_user(self) -> list[str]:
        """Return the command prefix that runs a command as the submissions' user, if there is one.

        A program that would gain rights by its file's set-user-ID bit does not.
        """
        ids = [f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        return ["setpriv", *ids, "--no-new-privs"] if self.has_other_user else []

    def end_processes(self) -> None:
        """Kill all processes of the submissions' user, also those that left their parents."""
        if self.has_other_user:
            kill_all = ["/bin/sh", "-c", "kill -9 -1"]  # all that this user may signal, but itself
            subprocess.run([*self._as_other_user(), *kill_all], capture_output=True, check=False)

    def _limit(self, command: Sequence[str]) -> list[str]:
        """Return a command that runs another one under a shell's `ulimit`s, if there is a shell.

        A limit that cannot be set is skipped. `subprocess` could set them between fork and exec,
        but JAX, which has threads, warns about every fork.
        """
        if not Path("/bin/sh").exists():
            return list(command)
        limits = {
            "v": self.memory // 1024,
            "f": self.scratch // 512,
            "n": self.open_files,
            "t": self.cpu_seconds,
            "c": 0,
        }
        set_limits = " ".join(f"ulimit -{k} {most} 2>/dev/null;" for k, most in limits.items())
        limited = ["/bin/sh", "-c", f'{set_limits} exec "$@"', "sh", *command]
        return _tie_to_this_process(limited)


def _tie_to_this_process(command: Sequence[str]) -> list[str]:
    """Return a command that runs another one, and kills it soon after this process has ended.

    bubblewrap dies with the process that started it, except during its first few milliseconds, so
    a loop in the shell checks once a second.
    """
    watch = f"while kill -0 {os.getpid()} && kill -0 $$; do sleep 1; done; kill -9 $child"
    run = (
        # an interrupt goes to the whole process group; the command handles it, not this shell
        f"trap '' INT; exec 3<&0; \"$@\" <&3 3<&- & child=$!; exec 3<&-; "
        f"({watch}) <&- >&- 2>&- & wait $child; status=$?; kill $!; exit $status"
    )
    return ["/bin/sh", "-c", run, "sh", *command]


def find_package_folders() -> tuple[Path, Path]:
    """Return the folders of `shardlings` and of `autograder`, as this process runs them."""
    return Path(shardlings.__path__[0]), Path(autograder.__path__[0])


def _bind_packages() -> list[str]:
    """Return the options that show the running packages and the packages of other courses."""
    folders = (*find_package_folders(), *folders_of_courses())
    return [option for f in folders for option in ("--ro-bind", str(f), f"{PACKAGES}/{f.name}")]


def _bind_only_packages_in(folder: Path) -> list[str]:
    """Return the options that show the packages in a folder, and hide all other copies of them."""
    return ["--ro-bind", str(folder), PACKAGES, *hide_copies(list_visible_folders())]


def read_sandbox_environment() -> dict[str, str]:
    """Return the few variables of this process that a process in the sandbox needs."""
    kept = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")
    return {name: os.environ[name] for name in kept if name in os.environ}
