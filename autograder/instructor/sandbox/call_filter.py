"""The filter of system calls for processes in the sandbox.

bubblewrap limits what a process can see. The filter blocks other ways into the system: keyrings,
calls with a history of security holes, nested sandboxes, and access to other processes. It needs
libseccomp; without that the sandbox runs unfiltered.
"""

import errno
import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

REFUSAL: Final = errno.EPERM
"""What who calls hears: that it may not."""

REFUSED: Final = (
    # keys, which belong to a session and are nowhere in the file system
    "add_key", "keyctl", "request_key",
    # into another process
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp",
    # into the kernel
    "bpf", "perf_event_open", "userfaultfd", "kexec_load", "kexec_file_load", "init_module",
    "finit_module", "delete_module", "syslog", "fanotify_init", "personality",
    # other file systems, and files by another way than their names
    "mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick",
    "move_mount", "open_tree", "open_by_handle_at", "quotactl",
    # sandboxes in the sandbox
    "unshare", "setns",
    # what Linux holds for a process, in memory that counts as nobody's
    "semget", "msgget", "mq_open", "io_setup", "inotify_init", "inotify_init1",
)  # fmt: skip

REFUSED_NUMBERS: Final = {
    "mount_setattr": 442, "quotactl_fd": 443, "statmount": 457, "listmount": 458,
    "open_tree_attr": 467,
}  # fmt: skip
"""Refused too. Newer calls have the same numbers on all machines, and old versions of libseccomp
lack the names.
"""

MISSING: Final = (
    # its arguments lie in memory, where no filter looks: whoever hears this takes `clone`
    "clone3",
    # memory that no process need hold; without these it has a name, and a limit
    "memfd_create", "memfd_secret", "shmget",
    # whoever hears this does without
    "io_uring_setup", "io_uring_enter", "io_uring_register",
)  # fmt: skip
"""The filter says that these do not exist, as in an older kernel; software has another way then."""

NEW_SANDBOX: Final = (
    0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000,
)  # fmt: skip
"""The flags of `clone` that begin with CLONE_NEW: a new process in namespaces of its own."""

CLONE_VM, CLONE_VFORK, CLONE_THREAD = 0x100, 0x4000, 0x1_0000
"""A process with CLONE_VM alone takes its parent's memory on when that ends, and so runs from look
to look of whoever counts memory. Threads, and children that a parent waits for, have the others.
"""

SHARED_AND_NAMELESS: Final = 0x21
"""MAP_SHARED and MAP_ANONYMOUS of `mmap`: memory that stays though no process has it mapped."""

TYPES_FOR_OTHERS: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, by which a terminal takes for typed what was not."""

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
TCP, UDP = 6, 17
PROTOCOLS: Final = {
    AF_UNIX: (0, AF_UNIX), AF_INET: (0, TCP, UDP), AF_INET6: (0, TCP, UDP), AF_NETLINK: (0,),
}  # fmt: skip
"""The families of sockets that are left, and what each may speak: 0 is the usual one. Interfaces
are listed by netlink's first protocol, and no other one of its many is."""

INT: Final = 0xFFFF_FFFF
"""How much the kernel looks at of an argument that is an int."""


def filter_file() -> str:
    """Where the filter lies, for bubblewrap to read; empty where there is no libseccomp.

    It is a file in memory that this process holds, and that whoever is started by it can open.
    """
    file = _written()
    return f"/proc/{os.getpid()}/fd/{file}" if file is not None else ""


def filter_bytes() -> bytes:
    """The filter as the kernel takes it; empty where there is no libseccomp."""
    path = filter_file()
    return Path(path).read_bytes() if path else b""


@functools.cache
def _written() -> int | None:
    """The filter as a file."""
    try:
        import pyseccomp as seccomp
    except (ImportError, RuntimeError):  # it raises the second where it finds no library
        return None
    file = os.memfd_create("system calls")
    with open(file, "wb", closefd=False) as opened:
        _made(seccomp).export_bpf(opened)
    return file


def _made(seccomp: Any) -> Any:
    """The filter, by the library that makes it."""
    made = seccomp.SyscallFilter(seccomp.ALLOW)
    # another machine's calls, such as those of 32 bits, have other numbers than these rules
    made.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.ERRNO(REFUSAL))
    no = seccomp.ERRNO(REFUSAL)
    for call in (*REFUSED, *REFUSED_NUMBERS.values()):
        made.add_rule(no, call)
    for call in MISSING:
        made.add_rule(seccomp.ERRNO(errno.ENOSYS), call)
    for flag in NEW_SANDBOX:
        made.add_rule(no, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    takes_memory_on = CLONE_VM | CLONE_VFORK | CLONE_THREAD
    made.add_rule(no, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, takes_memory_on, CLONE_VM))
    shared = seccomp.Arg(3, seccomp.MASKED_EQ, SHARED_AND_NAMELESS, SHARED_AND_NAMELESS)
    made.add_rule(no, "mmap", shared)
    for request in TYPES_FOR_OTHERS:
        made.add_rule(no, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, INT, request))
    for call in ("socket", "socketpair"):
        for no_family in _all_but(tuple(PROTOCOLS), 0, seccomp):
            made.add_rule(no, call, no_family)
        for family, protocols in PROTOCOLS.items():
            for no_protocol in _all_but(protocols, 2, seccomp):
                made.add_rule(no, call, seccomp.Arg(0, seccomp.EQ, family), no_protocol)
    return made


def _all_but(numbers: Sequence[int], place: int, seccomp: Any) -> Iterator[Any]:
    """That the argument at a place is none of some numbers: what is true of one that is not.

    A rule compares each argument once, so there is one for each gap and one for all above them.
    """
    for number in set(range(max(numbers))) - set(numbers):
        yield seccomp.Arg(place, seccomp.EQ, number)
    yield seccomp.Arg(place, seccomp.GT, max(numbers))
