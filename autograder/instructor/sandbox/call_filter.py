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
"""The error returned to the caller of a refused system call."""

REFUSED: Final = (
    # keyrings belong to a session, so hiding files does not hide them
    "add_key", "keyctl", "request_key",
    # access to other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp",
    # ways into the kernel
    "bpf", "perf_event_open", "userfaultfd", "kexec_load", "kexec_file_load", "init_module",
    "finit_module", "delete_module", "syslog", "fanotify_init", "personality",
    # mounting file systems, and opening files without their paths
    "mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick",
    "move_mount", "open_tree", "open_by_handle_at", "quotactl",
    # nested sandboxes
    "unshare", "setns",
    # objects that Linux keeps for a process, in memory that is charged to nobody
    "semget", "msgget", "mq_open", "io_setup", "inotify_init", "inotify_init1",
)  # fmt: skip

REFUSED_NUMBERS: Final = {
    "mount_setattr": 442, "quotactl_fd": 443, "statmount": 457, "listmount": 458,
    "open_tree_attr": 467,
}  # fmt: skip
"""Further calls to refuse, by number: old versions of libseccomp do not know their names. These
newer calls have the same numbers on all machines.
"""

MISSING: Final = (
    # its arguments are in memory, which a filter cannot read; callers fall back to `clone`
    "clone3",
    # memory that outlives its mapping; without these, shared memory is a file, on a limited disk
    "memfd_create", "memfd_secret", "shmget",
    # callers do without
    "io_uring_setup", "io_uring_enter", "io_uring_register",
)  # fmt: skip
"""Calls that seem not to exist, as in an older kernel, so that software falls back to others."""

NEW_SANDBOX: Final = (
    0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000,
)  # fmt: skip
"""The CLONE_NEW… flags of `clone`, which start a process in new namespaces."""

CLONE_VM, CLONE_VFORK, CLONE_THREAD = 0x100, 0x4000, 0x1_0000
"""Flags of `clone`. A child with CLONE_VM alone shares its parent's memory and keeps it when the
parent ends, so it can evade the memory limit by replacing its parent between two checks. Threads
also have CLONE_THREAD, and children that their parent waits for have CLONE_VFORK.
"""

SHARED_AND_NAMELESS: Final = 0x21
"""MAP_SHARED and MAP_ANONYMOUS of `mmap`: memory that can stay though no process maps it."""

TERMINAL_INPUT_REQUESTS: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which put characters into a terminal's input as if they were typed."""

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
TCP, UDP = 6, 17
PROTOCOLS: Final = {
    AF_UNIX: (0, AF_UNIX), AF_INET: (0, TCP, UDP), AF_INET6: (0, TCP, UDP), AF_NETLINK: (0,),
}  # fmt: skip
"""The allowed socket families, each with its allowed protocols; 0 is the default protocol. Of
netlink's many protocols only the first is allowed, which lists network interfaces."""

INT_BITS: Final = 0xFFFF_FFFF
"""The bits of an argument that the kernel reads if the argument is an int."""


def make_filter_file() -> str:
    """Return the path of the filter, for bubblewrap to read; empty without libseccomp.

    It is a file in memory that this process holds open, so processes that it starts can open it.
    """
    descriptor = _write_filter()
    return f"/proc/{os.getpid()}/fd/{descriptor}" if descriptor is not None else ""


def read_filter() -> bytes:
    """Return the filter as a BPF program; empty without libseccomp."""
    path = make_filter_file()
    return Path(path).read_bytes() if path else b""


@functools.cache
def _write_filter() -> int | None:
    """Write the filter to a file in memory, once, and return its descriptor."""
    try:
        import pyseccomp as seccomp
    except (ImportError, RuntimeError):  # RuntimeError: pyseccomp finds no libseccomp
        return None
    descriptor = os.memfd_create("system calls")
    with open(descriptor, "wb", closefd=False) as file:
        _build_rules(seccomp).export_bpf(file)
    return descriptor


def _build_rules(seccomp: Any) -> Any:
    """Return the filter, built with the library `pyseccomp`."""
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    # calls of another architecture, such as 32-bit x86, have numbers that these rules do not match
    rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.ERRNO(REFUSAL))
    refuse = seccomp.ERRNO(REFUSAL)
    for call in (*REFUSED, *REFUSED_NUMBERS.values()):
        rules.add_rule(refuse, call)
    for call in MISSING:
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), call)
    for flag in NEW_SANDBOX:
        rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    thread_flags = CLONE_VM | CLONE_VFORK | CLONE_THREAD
    rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, thread_flags, CLONE_VM))
    shared = seccomp.Arg(3, seccomp.MASKED_EQ, SHARED_AND_NAMELESS, SHARED_AND_NAMELESS)
    rules.add_rule(refuse, "mmap", shared)
    for request in TERMINAL_INPUT_REQUESTS:
        rules.add_rule(refuse, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, INT_BITS, request))
    for call in ("socket", "socketpair"):
        for other_family in _conditions_for_others(tuple(PROTOCOLS), 0, seccomp):
            rules.add_rule(refuse, call, other_family)
        for family, protocols in PROTOCOLS.items():
            for other_protocol in _conditions_for_others(protocols, 2, seccomp):
                rules.add_rule(refuse, call, seccomp.Arg(0, seccomp.EQ, family), other_protocol)
    return rules


def _conditions_for_others(numbers: Sequence[int], position: int, seccomp: Any) -> Iterator[Any]:
    """Yield conditions, one of which holds unless an argument is one of some numbers.

    A rule can compare each argument only once, so there is one condition for each number between
    the allowed ones, and one for all numbers above them.

    Args:
        numbers: the allowed values.
        position: the argument's, from 0.
        seccomp: the library.
    """
    for number in set(range(max(numbers))) - set(numbers):
        yield seccomp.Arg(position, seccomp.EQ, number)
    yield seccomp.Arg(position, seccomp.GT, max(numbers))
