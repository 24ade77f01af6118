"""A place to run strangers' code in: bubblewrap where there is one, limits everywhere.

What runs in it sees the system and Python's packages, read-only, a folder of its own that is gone
afterwards, and nothing else: no network, no other files, no other processes. It is nobody there,
with no capabilities, and all it starts dies with it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from traitlets import Bool, Int, List, Unicode
from traitlets.config import LoggingConfigurable

import autograder
from autograder.exercises import folders_of_courses
from autograder.instructor.walls.bubblewrap import (
    HOME,
    NO_SANDBOX,
    SCRATCH_FOLDERS,
    bubblewrap,
    has_bubblewrap,
    has_call_filter,
    prefixes,
    walls,
)
from autograder.instructor.walls.call_filter import filter_bytes
from autograder.instructor.walls.compiled import Reader, bound, variables_for
from autograder.instructor.walls.other_copies import hiding
from autograder.instructor.walls.warm_process import SERVERS, WarmProcess
from autograder.sandboxed import Setting

PACKAGES: Final = "/shardlings"
"""Where, within walls, the package lies that grades; Python looks there before anywhere else.

Left to itself it would look where the package is installed. From an editable installation that is
another checkout than the one at work, if that is what the current folder holds, and it has no
place within the walls.
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
        help="The folder with what was compiled before, which can be read within walls; see "
        "`walls/compiled.py`. Calibration fills one for each assignment.",
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
        """A command that runs another one within limits, and within walls where there are such.

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
        walled = [*bubblewrap(filtered=not forks), *walls(self.scratch, seen, forks)]
        return self._limited([*walled, "--chdir", HOME, "--clearenv", *known, "--", *command])

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
        walled = self.command(command, environment, packages, reader, forks=True)
        setting = Setting(filter_bytes(), SCRATCH_FOLDERS, self.scratch)
        return SERVERS.get(walled, environment, setting)

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
