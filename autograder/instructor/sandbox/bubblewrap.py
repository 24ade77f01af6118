"""Run a command in bubblewrap, and find out whether that works here.

The process sees the system and Python, read-only, some folders in memory, and the paths that the
caller adds. It has no user and no capabilities, and dangerous system calls are refused. Code that
breaks out has the rights of the account that grades, so grading as root prints a warning.
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

ROOT_WARNING: Final = (
    "You are root: a submission that got out of the sandbox could do anything to this machine. "
    "Please grade as an ordinary user."
)


def is_root() -> bool:
    """Check whether this process runs as root; False on Windows, which has no root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


HOME: Final = "/home/student"
"""The home and current folder of every process in a sandbox."""

SCRATCH_FOLDERS: Final = ("/tmp", "/dev/shm", HOME)
"""The writable folders inside the sandbox; they are in memory, and empty at first."""

NO_SANDBOX_WARNING: Final = (
    "There is no working bubblewrap here (`bwrap`), and nbgrader_config.py says to grade without: "
    "submissions run as you do, with limits but without a sandbox. They can read and change your "
    "files, solutions and grades among them."
)
"""The warning where submissions run without a sandbox."""

NO_SANDBOX_ERROR: Final = (
    "Nothing is graded, because there is no working bubblewrap here (`bwrap`). Without it a "
    "submission could read and change your files, solutions and grades among them. Install it: "
    "apt-get install bubblewrap on Debian and Ubuntu, dnf install bubblewrap on Fedora; on macOS "
    "and Windows, grade in a Linux container or virtual machine. To grade without it all the same, "
    "where that does no harm, write c.Sandbox.required = False at the end of nbgrader_config.py."
)
"""The error where there is no sandbox and `Sandbox.required` is set."""


NO_FILTER_WARNING: Final = (
    "System calls are not filtered here, so a hole in the kernel's rarer parts is open to "
    "submissions: install libseccomp (`libseccomp2` on Debian), and pyseccomp beside nbgrader."
)
"""The warning where there is bubblewrap but no filter."""

BARE_SANDBOX: Final = ("bwrap", "--unshare-user-try", "--ro-bind", "/", "/")
"""A sandbox that hides nothing, to test whether an option works on this machine.

Root in a container has too few rights to make one without a user namespace.
"""

FILTER_OPTION: Final = ("--seccomp", str(entrance.FILTER_FD))
"""The option that names the open file from which bubblewrap reads its filter."""


@functools.cache
def has_bubblewrap() -> bool:
    """Check whether this Python starts inside a bubblewrap sandbox on this machine."""
    if shutil.which("bwrap") is None:
        return False
    return _can_start_python(["bwrap", *build_sandbox_options(2**20, [])])


@functools.cache
def has_call_filter() -> bool:
    """Check whether bubblewrap can load a filter of system calls, made by libseccomp."""
    filter_path = call_filter.make_filter_file()
    return (
        bool(filter_path)
        and has_bubblewrap()
        and _can_start_python([*_entrance_command(filter_path), *BARE_SANDBOX, *FILTER_OPTION])
    )


def build_bubblewrap_command(filtered: bool = True) -> list[str]:
    """Return the command that starts bubblewrap in a new session keyring, with the filter.

    Args:
        filtered: whether to filter system calls, where the machine can do so.
    """
    filter_path = call_filter.make_filter_file() if filtered and has_call_filter() else ""
    return [*_entrance_command(filter_path), "bwrap", *(FILTER_OPTION if filter_path else ())]


def _entrance_command(filter_path: str) -> list[str]:
    """Return the command prefix that runs `entrance.py`, which then becomes the rest."""
    return [sys.executable, "-I", "-S", entrance.__file__, filter_path]


@functools.cache
def _forbid_nesting() -> list[str]:
    """Return the options that forbid nested sandboxes, if bubblewrap has them (0.8 or newer).

    In a nested sandbox a process has capabilities, and can mount a disk in memory of any size.
    """
    options = ["--unshare-user", "--disable-userns"]
    return options if _can_start_python([*BARE_SANDBOX, *options]) else []


def _can_start_python(sandboxed: Sequence[str]) -> bool:
    """Check whether this Python starts in a sandbox, given as a command prefix."""
    command = [*sandboxed, "--", sys.executable, "-c", "import msgspec"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def build_sandbox_options(scratch: int, visible: Sequence[str], forks: bool = False) -> list[str]:
    """Return the options that make bubblewrap's sandbox.

    Args:
        scratch: the size of each writable folder, in bytes.
        visible: bubblewrap options for what is visible besides the system.
        forks: whether the process makes nested sandboxes (`sandboxed/fork_server.py`).
    """
    scratch_mounts = [
        option for path in SCRATCH_FOLDERS
        for option in ("--size", str(scratch), "--tmpfs", path)
    ]  # fmt: skip
    settings = [
        option for path in ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
        for option in ("--ro-bind-try", path, path)
    ]  # fmt: skip
    # Linux lets a nested namespace mount a new /proc only if nothing in the old one is covered.
    proc = ["--bind", "/proc", "/proc"] if forks else [
        # the settings are the whole machine's, and a sandbox started by root could change them
        "--proc", "/proc", *settings,
        *_hide_key_lists(),
    ]  # fmt: skip
    no_further = [] if forks else _forbid_nesting()
    return [
        "--unshare-all", *no_further, "--die-with-parent", "--new-session",
        "--hostname", "sandbox", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL",
        *proc, "--dev", "/dev", *scratch_mounts, *_bind_system(), *visible,
        # mapping /dev/zero makes shared memory that outlives the mapping and counts for nobody
        "--ro-bind", "/dev/null", "/dev/zero",
        "--remount-ro", "/dev", "--remount-ro", "/",  # both are in memory, without a size limit
    ]  # fmt: skip


def _hide_key_lists() -> list[str]:
    """Return the options that hide the lists of the machine's keys.

    They are files, and the filter of system calls does not decide about files.
    """
    lists = [file for file in ("/proc/keys", "/proc/key-users") if Path(file).exists()]
    return [option for file in lists for option in ("--ro-bind", "/dev/null", file)]


def _bind_system() -> list[str]:
    """Return the options that show the system's and Python's files, read-only."""
    binds = []
    for path in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")):
        if path.is_symlink():
            binds += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            binds += ["--ro-bind", str(path), str(path)]
    for file in ("/etc/ld.so.cache", "/etc/localtime", "/etc/fonts"):
        binds += ["--ro-bind-try", file, file]
    folders = map(str, list_visible_folders())
    return [*(option for f in folders for option in ("--ro-bind", f, f)), *binds]


def list_visible_folders() -> list[Path]:
    """Return the folders that are visible with all their contents: `/usr`, and Python's."""
    python = Path(sys.executable).resolve().parent.parent
    return list(dict.fromkeys([Path("/usr"), Path(sys.base_prefix), python, Path(sys.prefix)]))
