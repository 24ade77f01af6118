"""Run a command in bubblewrap, and find out whether that works here.

The process sees the system and Python, read-only, some folders in memory, and what it is given. It
has no user, no capabilities, and no system calls beyond those it needs. Whoever breaks out has the
rights of the account that grades, so grading as root prints a warning.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from autograder.instructor.sandbox import call_filter, entrance

AS_ROOT: Final = (
    "You are root: a submission that got out of the sandbox could do anything to this machine. "
    "Please grade as an ordinary user."
)


def is_root() -> bool:
    """Whether this process may do anything; never where there is no such user."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


HOME: Final = "/home/student"
"""Where what runs in a sandbox finds itself."""

SCRATCH_FOLDERS: Final = ("/tmp", "/dev/shm", HOME)
"""The folders that can be written to; they are in memory, and empty at first."""

UNPROTECTED: Final = (
    "There is no working bubblewrap here (`bwrap`), and nbgrader_config.py says to grade without: "
    "submissions run as you do, with limits but without a sandbox. They can read and change your "
    "files, solutions and grades among them."
)
"""What is said, loudly, where submissions run without a sandbox."""

NO_SANDBOX: Final = (
    "Nothing is graded, because there is no working bubblewrap here (`bwrap`). Without it a "
    "submission could read and change your files, solutions and grades among them. Install it: "
    "apt-get install bubblewrap on Debian and Ubuntu, dnf install bubblewrap on Fedora; on macOS "
    "and Windows, grade in a Linux container or virtual machine. To grade without it all the same, "
    "where that does no harm, write c.Sandbox.required = False at the end of nbgrader_config.py."
)
"""What is said where nothing is run without a sandbox."""


UNFILTERED: Final = (
    "System calls are not filtered here, so a hole in the kernel's rarer parts is open to "
    "submissions: install libseccomp (`libseccomp2` on Debian), and pyseccomp beside nbgrader."
)
"""Logged where there is bubblewrap and no filter."""

BARE: Final = ("bwrap", "--ro-bind", "/", "/")
"""A sandbox in which all is as outside, to see whether an option works here."""

FILTERED: Final = ("--seccomp", str(entrance.FILTER))
"""What tells bubblewrap where its filter is."""


@functools.cache
def has_bubblewrap() -> bool:
    """Check whether bubblewrap can make a sandbox here in which this Python starts."""
    if shutil.which("bwrap") is None:
        return False
    return _starts(["bwrap", *sandbox_options(2**20, [])])


@functools.cache
def has_call_filter() -> bool:
    """Check whether system calls can be filtered here: by libseccomp, through bubblewrap."""
    file = call_filter.filter_file()
    return bool(file) and has_bubblewrap() and _starts([*_through(file), *BARE, *FILTERED])


def bubblewrap(filtered: bool = True) -> list[str]:
    """bubblewrap, without the keys of this session, and with a filter where there can be one.

    Args:
        filtered: whether to filter system calls, if that can be done.
    """
    file = call_filter.filter_file() if filtered and has_call_filter() else ""
    return [*_through(file), "bwrap", *(FILTERED if file else ())]


def _through(filter_file: str) -> list[str]:
    """The beginning of a command that becomes another one; see `entrance.py`."""
    return [sys.executable, "-I", "-S", entrance.__file__, filter_file]


@functools.cache
def _no_further() -> list[str]:
    """That there are no sandboxes in the sandbox, where bubblewrap can say so: it is 0.8 or newer.

    In one of its own, a process has capabilities, and can mount a disk in memory of any size.
    """
    option = ["--unshare-user", "--disable-userns"]
    return option if _starts([*BARE, *option]) else []


def _starts(sandboxed: Sequence[str]) -> bool:
    """Check whether this Python starts in a sandbox, given as a command."""
    tried = [*sandboxed, "--", sys.executable, "-c", "import msgspec"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def sandbox_options(scratch: int, seen: Sequence[str], forks: bool = False) -> list[str]:
    """Return the options that make bubblewrap's sandbox.

    Args:
        scratch: the bytes that there is room for in each place that can be written to.
        seen: what is to be seen besides the system.
        forks: whether what runs there makes sandboxes within this one (`sandboxed/fork_server.py`).
    """
    room = [
        part for place in SCRATCH_FOLDERS
        for part in ("--size", str(scratch), "--tmpfs", place)
    ]  # fmt: skip
    settings = [
        part for place in ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
        for part in ("--ro-bind-try", place, place)
    ]  # fmt: skip
    # Linux mounts a new /proc within namespaces only if nothing of the old one is covered
    proc = ["--bind", "/proc", "/proc"] if forks else [
        "--proc", "/proc", *settings,  # the machine's: whoever grades as root could change them
        *_keys_unlisted(),
    ]  # fmt: skip
    no_further = [] if forks else _no_further()
    return [
        "--unshare-all", *no_further, "--die-with-parent", "--new-session",
        "--hostname", "sandbox", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL",
        *proc, "--dev", "/dev", *room, *_system(), *seen,
        # of which shared memory is made that no process need hold
        "--ro-bind", "/dev/null", "/dev/zero",
        "--remount-ro", "/dev", "--remount-ro", "/",  # they are memory, and of any size
    ]  # fmt: skip


def _keys_unlisted() -> list[str]:
    """That the machine's keys are not listed, where they would be: a filter has no say in files."""
    lists = [file for file in ("/proc/keys", "/proc/key-users") if Path(file).exists()]
    return [part for file in lists for part in ("--ro-bind", "/dev/null", file)]


def _system() -> list[str]:
    """The system's files and Python's, read-only."""
    binds = []
    for path in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")):
        if path.is_symlink():
            binds += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            binds += ["--ro-bind", str(path), str(path)]
    for file in ("/etc/ld.so.cache", "/etc/localtime", "/etc/fonts"):
        binds += ["--ro-bind-try", file, file]
    return [*(part for p in prefixes() for part in ("--ro-bind", str(p), str(p))), *binds]


def prefixes() -> list[Path]:
    """The folders that are seen with all that is in them: the system's, and Python's."""
    python = Path(sys.executable).resolve().parent.parent
    return list(dict.fromkeys([Path("/usr"), Path(sys.base_prefix), python, Path(sys.prefix)]))
