"""The fork server: import everything once, inside the sandbox, and fork for each task.

The server never reads any of a submission and holds no secrets: it passes open files to its
children. Before a child reads anything, it enters its own namespaces (user, PID, mount, IPC,
network, host name), mounts its own empty folders, drops all capabilities, and loads the filter of
system calls. Between the server and the child, a supervisor reports how the task ended, and kills
it when nobody waits for it any more.
"""

import contextlib
import ctypes
import fcntl
import importlib
import os
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NoReturn

import msgspec

LIBC: Final = ctypes.CDLL(None, use_errno=True)

PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = (
    4, 22, 24, 38,
)  # fmt: skip
SECCOMP_MODE_FILTER: Final = 2
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = (
    0x0002_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000,
)  # fmt: skip
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = (
    1, 2, 4, 8, 0x1000, 0x4000, 0x4_0000,
)  # fmt: skip
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
CAPABILITY_VERSION: Final = 0x2008_0522
LAST_CAPABILITY: Final = 63
"""Higher than any capability that Linux has; dropping an unknown one fails and is ignored."""

USER_NAMESPACES: Final = "/proc/sys/user/max_user_namespaces"

MAX_MESSAGE_BYTES: Final = 2**16

PAGE_BYTES: Final = 4096
"""A file counts as at least one page, so that the number of empty files is limited too."""

MAX_TERMINALS: Final = 16
"""Pseudo-terminals of one task; the whole machine has a few thousand."""

MAX_STARTED_PROCESSES: Final = 20_000
"""Processes and threads that a task may start, including those that have ended.

The memory limit, which is checked from outside, misses a process that forks and ends within a
millisecond. Notebook 11 starts the most, about 1,800.
"""

POLL_SECONDS: Final = 0.25

CACHES_MOUNT: Final = "/caches"
"""The folder in which a server has the compilation caches of all assignments, if it has any."""

CACHE_MOUNT: Final = "/compiled"
"""A task's compilation cache: always the same path, because JAX may use it in its keys."""

STARTED: Final = b"started"
"""A supervisor's first message."""


class TaskSettings(msgspec.Struct, frozen=True):
    """The settings that every child of a server gets.

    Attributes:
        filter: the filter of system calls, as BPF instructions.
        folders: the folders that each child gets for itself, empty and in memory.
        scratch: the limit on the bytes in each of these folders.
        kept: folders inside of these that stay visible, because Python is there.
    """

    filter: bytes
    folders: tuple[str, ...]
    scratch: int
    kept: tuple[str, ...] = ()


class TaskRequest(msgspec.Struct, frozen=True):
    """A task to start.

    Attributes:
        arguments: the task's arguments; without any, a child only enters its sandbox.
        cache: the folder in `CACHES_MOUNT` that is the task's compilation cache; empty for none.
    """

    arguments: list[str]
    cache: str = ""


class TaskEnd(msgspec.Struct, frozen=True):
    """The end of a task.

    Attributes:
        status: the exit status; minus the signal's number if a signal ended it.
        cpu_seconds: the CPU time of the task and the children that it waited for.
        has_started_too_many: whether it was killed because it started too many processes.
    """

    status: int
    cpu_seconds: float
    has_started_too_many: bool = False


IMPORTED_BY_JAX: Final = (
    "google.protobuf.descriptor_pb2", "google.protobuf.text_format",
    "jax.experimental.multihost_utils", "jaxlib.mlir.dialects.builtin", "jaxlib.mlir.dialects.mhlo",
)  # fmt: skip
"""Modules that JAX and `shardlings` import when they are first used."""


def load_modules(names: Iterable[str]) -> None:
    """Import modules for all tasks, those of them that are installed."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


Task = Callable[[Sequence[str]], None]
"""A child's work. It takes the request's arguments, and has its own standard input and output."""


def serve(control: socket.socket, task: Task) -> None:
    """Fork for each request, until there are no more.

    Args:
        control: the socket that brings a `TaskSettings` first, and then a `TaskRequest` for each
            task, with four open files: a socket on which a supervisor reports how the task ended,
            and the task's standard input, output and error output.
        task: the children's work.
    """
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # no child may read this process's memory or environ
    setting = msgspec.json.decode(control.recv(MAX_MESSAGE_BYTES), type=TaskSettings)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps children
    while True:
        request, files, _, _ = socket.recv_fds(control, MAX_MESSAGE_BYTES, 4)
        if not request:
            break
        if _fork_or_none() == 0:
            control.close()
            _supervise(msgspec.json.decode(request, type=TaskRequest), files, setting, task)
        for file in files:
            os.close(file)
    with contextlib.suppress(ChildProcessError):
        os.wait()  # SIGCHLD is ignored, so this returns when all children have ended


def _fork_or_none() -> int | None:
    """Fork; return None if the machine cannot start another process.

    The server then closes the request's files, which tells the client, and other tasks go on.
    """
    try:
        return os.fork()
    except OSError:
        return None


def _supervise(
    request: TaskRequest, files: Sequence[int], setting: TaskSettings, task: Task
) -> NoReturn:
    """Enter new namespaces, do the task in a child, and report how it ended.

    The first process of a PID namespace ignores signals that would end others, such as those of
    timers, so the task runs in its child. When the first process ends, all others there are killed.
    """
    try:
        ending, *standard = files
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _enter_namespaces()
        if os.fork():
            os.wait()  # the server waits for this process until the task has ended
            os._exit(0)
        _confine(setting, request.cache)
        child = os.fork()
        if child == 0:
            os.close(ending)
            _run_task(request.arguments, standard, task)
        os.write(ending, STARTED)  # the socket also passes on this process's PID
        os.write(ending, msgspec.json.encode(_wait_for_end(child, ending)))
    except BaseException:
        traceback.print_exc()
    os._exit(0)


def _wait_for_end(child: int, ending: int) -> TaskEnd:
    """Wait for a child to end.

    Kill it if it starts too many processes, or if the other end of the socket is closed, because
    nobody waits for it any more.
    """
    child_fd = os.pidfd_open(child)
    poll = select.poll()
    poll.register(child_fd, select.POLLIN)
    poll.register(ending, select.POLLHUP)
    started, last_pid, pid_max = 0, _last_pid(), int(_read("/proc/sys/kernel/pid_max"))
    while not (ready := dict(poll.poll(POLL_SECONDS * 1000))) and started <= MAX_STARTED_PROCESSES:
        pid = _last_pid()
        started, last_pid = started + (pid - last_pid) % pid_max, pid  # PIDs wrap around
    if child_fd not in ready:
        os.kill(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime
    return TaskEnd(os.waitstatus_to_exitcode(status), seconds, started > MAX_STARTED_PROCESSES)


def _last_pid() -> int:
    """Return the PID of the process or thread that was started last in this PID namespace."""
    return int(_read("/proc/loadavg").split()[-1])


def _enter_namespaces() -> None:
    """Leave the server's namespaces; the next child is the first process of its PID namespace."""
    user, group = os.getuid(), os.getgid()
    _call(
        "unshare",
        CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS,
    )
    LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # otherwise the files below belong to root
    for name, text in {
        "setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1",
        "oom_score_adj": "1000",  # if memory runs out, kill this before the process that grades
    }.items():  # fmt: skip
        _write(f"/proc/self/{name}", text)
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _run_task(arguments: Sequence[str], standard: Sequence[int], task: Task) -> NoReturn:
    """Run a task with its standard files, and exit with its status."""
    status = 1
    try:
        for number, file in enumerate(standard):
            os.dup2(file, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        if arguments:
            task(arguments)
        status = 0
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _confine(setting: TaskSettings, cache: str) -> None:
    """Mount the task's folders, terminals and /proc, bring up loopback, and drop all privileges.

    Args:
        setting: the settings of every child of this server.
        cache: the task's compilation cache, as in its request.

    Raises:
        OSError: the system does not allow it, so no task may run here.
    """
    _call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    if cache:
        _call(
            "mount", f"{CACHES_MOUNT}/{cache}".encode(), CACHE_MOUNT.encode(), None, MS_BIND, None
        )
    if os.path.isdir(CACHES_MOUNT):  # other caches hold answers that a kernel must not see
        _call("mount", b"tmpfs", CACHES_MOUNT.encode(), b"tmpfs", MS_RDONLY, b"size=4096")
    kept = {path: os.open(path, os.O_PATH) for path in setting.kept}
    for folder in setting.folders:
        files = setting.scratch // PAGE_BYTES
        options = f"size={setting.scratch},nr_inodes={files},mode=1777".encode()
        _call("mount", b"tmpfs", folder.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, options)
    for path, file in kept.items():
        os.makedirs(path)
        source = f"/proc/self/fd/{file}".encode()
        _call("mount", source, path.encode(), None, MS_BIND | MS_REC, None)
        os.close(file)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))
    pseudo_terminals = f"newinstance,ptmxmode=0666,mode=620,max={MAX_TERMINALS}".encode()
    _call("mount", b"devpts", b"/dev/pts", b"devpts", MS_NOSUID | MS_NOEXEC, pseudo_terminals)
    os.chdir(os.environ["HOME"])  # the newly mounted folder, and not the one that it covers
    _write(USER_NAMESPACES, "0")
    _call("mount", b"proc", b"/proc", b"proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
    for keys in ("/proc/keys", "/proc/key-users"):
        if os.path.exists(keys):
            _call("mount", b"/dev/null", keys.encode(), None, MS_BIND, None)
    for capability in range(LAST_CAPABILITY + 1):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    none = (ctypes.c_uint32 * 6)()
    _call("capset", (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), none)
    if LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    _load_filter(setting.filter)


class _FilterProgram(ctypes.Structure):
    """`struct sock_fprog`: the number of eight-byte BPF instructions, and a pointer to them."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _load_filter(instructions: bytes) -> None:
    program = _FilterProgram(len(instructions) // 8, instructions)
    if LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


def _call(name: str, *arguments: object) -> None:
    """Call a function of the C library.

    Raises:
        OSError: it failed.
    """
    if getattr(LIBC, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
