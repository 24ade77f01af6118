"""The fork server: import everything once, inside the sandbox, and fork for each task.

It never reads a byte of a submission and holds no secret: it passes open files on to its children.
Each child goes into namespaces of its own (user, PID, mount, IPC, network, host name), with folders
of its own for files, gives up all rights, and loads the filter of system calls, before it reads
anything. A supervisor between the two says how the task ended, and ends it where nobody waits for
it any more.
"""

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Sequence
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
"""A higher number than any that Linux knows; those that it does not know cannot be dropped."""

USER_NAMESPACES: Final = "/proc/sys/user/max_user_namespaces"

MAX_MESSAGE_BYTES: Final = 2**16

PAGE_BYTES: Final = 4096
"""A file takes at least so many, so an empty one counts too."""

TERMINALS: Final = 16
"""The most pseudo-terminals of a task; the machine has few thousand for everybody."""

MAX_STARTED: Final = 20_000
"""The most processes and threads that a task may start, whether or not they have ended.

A process that forks and ends within a millisecond is never seen by who counts memory outside.
Notebook 11, which starts most, comes to 1,800.
"""

LOOK_SECONDS: Final = 0.25

STARTED: Final = b"started"
"""What a supervisor says first."""


class Setting(msgspec.Struct, frozen=True):
    """The settings that every child of a server gets.

    Attributes:
        filter: the filter of system calls, as the kernel takes it.
        folders: those that a child has for itself, empty and in memory.
        scratch: the most bytes in each of them.
    """

    filter: bytes
    folders: tuple[str, ...]
    scratch: int


class Ended(msgspec.Struct, frozen=True):
    """The end of a task.

    Attributes:
        status: its exit status; minus the signal's number where a signal ended it.
        cpu_seconds: the processor time that it took, with all that it waited for.
        started_too_many: whether it was killed for the number of processes that it started.
    """

    status: int
    cpu_seconds: float
    started_too_many: bool = False


Task = Callable[[Sequence[str]], None]
"""A child's work, given the arguments of the request; it has its own standard input and output."""


def serve(control: socket.socket, task: Task) -> None:
    """Fork for each request, until there are no more.

    Args:
        control: brings a `Setting` first, and then requests: a list of arguments each, with four
            open files: where a supervisor says how the task ended, and the task's standard input,
            output and error output. Without arguments a child does nothing but enter its sandbox.
        task: what the children do.
    """
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # no child may read this process, or its environment
    setting = msgspec.json.decode(control.recv(MAX_MESSAGE_BYTES), type=Setting)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # then children need not be waited for
    while True:
        request, files, _, _ = socket.recv_fds(control, MAX_MESSAGE_BYTES, 4)
        if not request:
            break
        if _fork_or_none() == 0:
            control.close()
            _supervise(msgspec.json.decode(request, type=list[str]), files, setting, task)
        for file in files:
            os.close(file)
    with contextlib.suppress(ChildProcessError):
        os.wait()  # until all have ended, since their endings are ignored


def _fork_or_none() -> int | None:
    """Fork; None where the machine has no room for another process.

    Whoever asked learns it by the files that are closed, and the tasks at work go on.
    """
    try:
        return os.fork()
    except OSError:
        return None


def _supervise(
    arguments: Sequence[str], files: Sequence[int], setting: Setting, task: Task
) -> NoReturn:
    """Go into namespaces, have a child do the task there, and say how it ended.

    The first process of a PID namespace ignores the signals that others end by, such as those of
    timers, so it is not the one that does the task. All that is left there ends with it.
    """
    try:
        ending, *standard = files
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _enter_namespaces()
        if os.fork():
            os.wait()  # so that the server knows that this task has not ended
            os._exit(0)
        _shut_in(setting)
        child = os.fork()
        if child == 0:
            os.close(ending)
            _work(arguments, standard, task)
        os.write(ending, STARTED)  # with it goes this process's number, as the receiver knows it
        os.write(ending, msgspec.json.encode(_ending_of(child, ending)))
    except BaseException:
        traceback.print_exc()
    os._exit(0)


def _ending_of(child: int, ending: int) -> Ended:
    """Wait for a child to end.

    Kill it if it starts too many processes, or if nobody at the other end of a socket waits for it
    any more.
    """
    alive = os.pidfd_open(child)
    waiting = select.poll()
    waiting.register(alive, select.POLLIN)
    waiting.register(ending, select.POLLHUP)
    started, last, most = 0, _last_pid(), int(_read("/proc/sys/kernel/pid_max"))
    while not (ready := dict(waiting.poll(LOOK_SECONDS * 1000))) and started <= MAX_STARTED:
        now = _last_pid()
        started, last = started + (now - last) % most, now  # numbers begin again after the last
    if alive not in ready:
        os.kill(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    seconds = used.ru_utime + used.ru_stime
    return Ended(os.waitstatus_to_exitcode(status), seconds, started > MAX_STARTED)


def _last_pid() -> int:
    """The number of the process or thread that was started last in this PID namespace."""
    return int(_read("/proc/loadavg").split()[-1])


def _enter_namespaces() -> None:
    """Leave all of the server's namespaces; the next child is the first process of its own."""
    user, group = os.getuid(), os.getgid()
    _call(
        "unshare",
        CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS,
    )
    LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # else the files below belong to root
    for name, text in {
        "setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1",
        "oom_score_adj": "1000",  # where memory runs out, this is to end, and not who grades
    }.items():  # fmt: skip
        _write(f"/proc/self/{name}", text)
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def _work(arguments: Sequence[str], standard: Sequence[int], task: Task) -> NoReturn:
    """Do a task, as a process that has just been started for it."""
    status = 1
    try:
        for number, file in enumerate(standard):
            os.dup2(file, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        if arguments:
            task(arguments)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _shut_in(setting: Setting) -> None:
    """Have folders, terminals, processes and a network of one's own, and no way to other rights.

    Raises:
        OSError: the system does not allow it, so that nothing may be done here.
    """
    _call("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    for folder in setting.folders:
        files = setting.scratch // PAGE_BYTES
        options = f"size={setting.scratch},nr_inodes={files},mode=1777".encode()
        _call("mount", b"tmpfs", folder.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, options)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))
    pseudo_terminals = f"newinstance,ptmxmode=0666,mode=620,max={TERMINALS}".encode()
    _call("mount", b"devpts", b"/dev/pts", b"devpts", MS_NOSUID | MS_NOEXEC, pseudo_terminals)
    os.chdir(os.environ["HOME"])  # the folder that was mounted there, and not the one below it
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


class _Program(ctypes.Structure):
    """`struct sock_fprog`: how many instructions of eight bytes, and where they are."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _load_filter(instructions: bytes) -> None:
    program = _Program(len(instructions) // 8, instructions)
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
