"""The sandbox for untrusted code: bubblewrap if it is installed, and limits in any case.

A process in it sees the system's and Python's files, read-only, and temporary folders: no network,
no other files, no other processes. It has no user and no capabilities, and everything that it
starts ends with it.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from traitlets import Bool, Int, Unicode
from traitlets.config import LoggingConfigurable

import autograder
import shardlings
from autograder.exercises import folders_of_courses
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
from autograder.instructor.sandbox.compilation_cache import bind_cache, configure_cache
from autograder.instructor.sandbox.hidden_copies import hide_copies
from autograder.instructor.sandbox.warm_process import SERVERS, WarmProcess
from autograder.sandboxed import TaskSettings
from shardlings.errors import ShortError

MAX_THREADS: Final = 600 + 20 * (os.cpu_count() or 1)
"""The default limit on threads. On two cores, notebook 11 starts 425 in eight processes, and the
others up to 85. Libraries start up to three more for each core in each process."""

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
        help="The folder of the compilation cache, which judges read; see "
        "`sandbox/compilation_cache.py`. Calibration fills one for each assignment.",
    ).tag(config=True)
    fills_compiled = Bool(
        False,
        help="Whether judges also write the programs that they compile to it. Only for trusted "
        "notebooks, because these programs run when other submissions are judged.",
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
        cached: bool = False,
        forks: bool = False,
    ) -> list[str]:
        """Return a command that runs another one within limits, in bubblewrap if it is installed.

        Args:
            command: the command to run.
            environment: its whole environment.
            packages: a folder with a copy of this package to import instead of the running one;
                then all other copies are hidden.
            cached: whether it may use the compilation cache.
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
        if cached and self.compiled:
            cache = bind_cache(Path(self.compiled), self.fills_compiled, forks)
            variables |= configure_cache(self.fills_compiled) if cache else {}
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
        cached: bool = False,
    ) -> WarmProcess | None:
        """Return a warm server that forks for each task, starting it if need be; None if it cannot.

        Args:
            command: the command that starts it; see `sandboxed/fork_server.py`.
            environment: its whole environment.
            packages: as for `command`; the folder must exist as long as the server does.
            cached: whether it may use the compilation cache.
        """
        if not (has_bubblewrap() and has_call_filter()):
            return None
        server = self.command(command, environment, packages, cached, forks=True)
        kept = [
            str(folder)
            for folder in list_visible_folders()
            if any(folder.is_relative_to(scratch) for scratch in SCRATCH_FOLDERS)
        ]
        setting = TaskSettings(read_filter(), SCRATCH_FOLDERS, self.scratch, tuple(kept))
        return SERVERS.get(server, environment, setting)

    def find_task_cache(self) -> str:
        """Return which of the caches that a warm server has is a task's; empty for none."""
        folder = Path(self.compiled)
        return folder.name if self.compiled and folder.is_dir() else ""

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
    """Return the few variables of this process that a process in the sandbox needs.

    Strings have the same hashes in each of them, and so a set of axis names the same order: who
    loops over one compiles the same program whenever they are graded.
    """
    kept = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"PYTHONHASHSEED": "0"}
