"""System calls in the sandbox, one by one: those that nobody needs are refused, by the filter."""

import errno
import json
import platform
import subprocess
import sys

import pytest

from autograder.instructor.sandbox import (
    Sandbox,
    bubblewrap,
    call_filter,
    entrance,
    has_call_filter,
    read_sandbox_environment,
)
from autograder.instructor.sandbox.call_filter import MISSING, NEW_SANDBOX, REFUSED, REFUSED_NUMBERS

pytestmark = pytest.mark.skipif(not has_call_filter(), reason="there is no filter here")

CALL = """
import ctypes, errno, json, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    return errno.errorcode[ctypes.get_errno()] if done == -1 else "done"
"""
CALL_EACH = CALL + "print(json.dumps([call(*each) for each in json.loads(sys.argv[1])]))"
OF_32_BITS = """
import ctypes, mmap
getpid = b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3"  # mov eax, 20; int 0x80; ret
code = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, code)
page.write(getpid)
place = ctypes.addressof(ctypes.c_char.from_buffer(page))
print(ctypes.CFUNCTYPE(ctypes.c_int)(place)())
"""
OTHER = "ENOTNAM"
"""An error that no kernel's call ends with: the filter's, while it is tested."""

X86_64 = platform.machine() == "x86_64"


@pytest.fixture
def tell_tale(monkeypatch):
    """Have the filter refuse with an error that can only be its own."""
    monkeypatch.setattr(call_filter, "REFUSAL", getattr(errno, OTHER))
    call_filter._write_filter.cache_clear()
    yield
    call_filter._write_filter.cache_clear()


def within(code, *arguments):
    """Run code in a bare Python in the sandbox, and return its output."""
    command = Sandbox().command(
        [sys.executable, "-c", code, *arguments], read_sandbox_environment()
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout


def called(*calls):
    """Make system calls, given by name or number and with arguments, and return their results."""
    seccomp = pytest.importorskip("pyseccomp")

    def number(call):
        return call if isinstance(call, int) else seccomp.resolve_syscall(0, call)

    made = [(number(call), *arguments) for call, *arguments in calls]
    return json.loads(within(CALL_EACH, json.dumps(made)))


def test_each_refused_call_is_refused_by_the_filter(tell_tale):
    calls = (*REFUSED, *REFUSED_NUMBERS.values())
    ends = called(*((call, 0, 0, 0, 0, 0) for call in calls))
    assert dict(zip(calls, ends, strict=True)) == dict.fromkeys(calls, OTHER)


def test_what_there_is_none_of_is_absent():
    ends = called(*((call, 0, 0, 0, 0, 0) for call in MISSING))
    assert dict(zip(MISSING, ends, strict=True)) == dict.fromkeys(MISSING, "ENOSYS")


def test_no_process_is_made_in_a_sandbox_of_its_own(tell_tale):
    others = 0x1_0000_0000  # what is above an int changes nothing
    ends = called(*(("clone", flag | more, 0) for flag in NEW_SANDBOX for more in (0, others)))
    assert set(ends) == {OTHER}


def test_no_process_takes_the_memory_of_its_parent_on(tell_tale):
    """It would never be there when memory is counted; those that its parent waits for may."""
    vm, signal_of_end = 0x100, 17
    assert called(("clone", vm | signal_of_end, 0)) == [OTHER]
    started = "import subprocess; print(subprocess.run(['true']).returncode)"
    assert within(started) == "0\n"


def test_nothing_is_typed_into_a_terminal(tell_tale):
    requests = (0x5412, 0x541C, 0x1_0000_5412)
    assert called(*(("ioctl", 0, request, 0) for request in requests)) == [OTHER] * 3
    assert called(("ioctl", 0, 0x5401, 0)) != [OTHER]


MAPS = """
import mmap
def made(number, flags):
    try:
        mmap.mmap(number, 4096, flags)
    except OSError as error:
        return error.errno
    return 0
print(made(-1, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS), made(-1, mmap.MAP_PRIVATE))
with open("/tmp/file", "w+b") as file:
    file.truncate(4096)
    print(made(file.fileno(), mmap.MAP_SHARED), made(file.fileno(), mmap.MAP_PRIVATE))
try:
    open("/dev/zero")
except OSError as error:
    print(error.strerror)
"""


def test_memory_that_processes_share_is_a_file(tell_tale):
    """A mapped page is enough to keep all of it, so nobody could count what has no name."""
    assert within(MAPS).splitlines() == [f"{getattr(errno, OTHER)} 0", "0 0", "Permission denied"]


SOCKETS = {
    "unix": ((1, 1, 0), True),
    "internet": ((2, 1, 0), True),
    "internet, version 6": ((10, 2, 0), True),
    "unix, by its number": ((1, 1, 1), True),
    "TCP": ((2, 1, 6), True),
    "TCP, version 6": ((10, 1, 6), True),
    "UDP": ((2, 2, 17), True),
    "UDP, version 6": ((10, 2, 17), True),
    "unix, of another kind": ((1, 1, 2), False),
    "ICMP": ((2, 2, 1), False),
    "ICMP, version 6": ((10, 2, 58), False),
    "DCCP": ((2, 6, 33), False),
    "DCCP, version 6": ((10, 6, 33), False),
    "SCTP": ((2, 1, 132), False),
    "SCTP, version 6": ((10, 5, 132), False),
    "UDP-Lite": ((2, 2, 136), False),
    "MPTCP": ((2, 1, 262), False),
    "MPTCP, version 6": ((10, 1, 262), False),
    "TCP, with more bits": ((2, 1, 0x1_0000_0006), False),
    "a negative one": ((2, 1, -1), False),
    "netlink, for the list of interfaces": ((16, 3, 0), True),
    "netlink, for the firewall": ((16, 3, 12), False),
    "netlink, for whatever": ((16, 3, 16), False),
    "of no family": ((0, 1, 0), False),
    "amateur radio": ((3, 1, 0), False),
    "packets": ((17, 3, 0), False),
    "ciphers": ((38, 5, 0), False),
    "virtual machines": ((40, 1, 0), False),
    "virtual machines, with more bits": ((0x1_0000_0000 + 40, 1, 0), False),
    "express data path": ((44, 3, 0), False),
}


def test_sockets_of_few_families_and_protocols_are_to_be_had(tell_tale):
    ends = called(*(("socket", *arguments) for arguments, _ in SOCKETS.values()))
    allowed = {kind: end != OTHER for kind, end in zip(SOCKETS, ends, strict=True)}
    assert allowed == {kind: expected for kind, (_, expected) in SOCKETS.items()}
    refused = [arguments for arguments, expected in SOCKETS.values() if not expected]
    assert set(called(*(("socketpair", *arguments, 0) for arguments in refused))) == {OTHER}


def test_interfaces_are_listed_and_names_are_looked_up():
    code = (
        "import socket\n"
        "print([name for _, name in socket.if_nameindex()], len(socket.socketpair()))\n"
        "print(socket.getaddrinfo('127.0.0.1', 80)[0][4])"
    )
    assert within(code).splitlines() == ["['lo'] 2", "('127.0.0.1', 80)"]


@pytest.mark.skipif(not X86_64, reason="another machine has other numbers")
def test_another_machines_calls_are_refused(tell_tale):
    x32 = 0x4000_0000
    assert called((x32 + 39,), (x32 + 250, 0, 0)) == [OTHER, OTHER]
    assert within(OF_32_BITS) == f"{-getattr(errno, OTHER)}\n"


KEYS = """
import ctypes, sys
sys.path.insert(0, {root!r})
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
KEYCTL, ADD_KEY = {numbers}
def key(*rest):
    return libc.syscall(*(ctypes.c_long(r) if isinstance(r, int) else r for r in rest))
"""
HAS_A_KEY = """
import json, subprocess
assert key(KEYCTL, 1, None) > 0  # a session like a login's
assert key(ADD_KEY, b"user", b"of-the-session", b"secret", 6, -3) > 0
from autograder.instructor.sandbox import Sandbox, bubblewrap, call_filter, read_sandbox_environment
if {unfiltered}:
    call_filter.make_filter_file = lambda: ""
command = Sandbox().command([sys.executable, "-c", {look!r}], read_sandbox_environment())
print(subprocess.run(command, capture_output=True, text=True).stdout.strip())
print([b for b in (b"of-the-session", b"left-here") if key(KEYCTL, 10, -3, b"user", b, 0) > 0])
"""
LOOKS = """
print("searched", key(KEYCTL, 10, -3, b"user", b"of-the-session", 0))
print("added", key(ADD_KEY, b"user", b"left-here", b"x", 1, -3) > 0)
for list_ in ("/proc/keys", "/proc/key-users"):
    try:
        print(open(list_).read())
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.parametrize("unfiltered", [False, True])
def test_keys_of_the_session_stay_outside_and_none_is_left(root, unfiltered):
    machine = platform.machine()
    numbers = entrance.KEYCTL_NUMBERS[machine], {"x86_64": 248, "aarch64": 217}[machine]
    begin = KEYS.format(root=str(root), numbers=numbers)
    has = HAS_A_KEY.format(unfiltered=unfiltered, look=begin + LOOKS)
    done = subprocess.run(
        [sys.executable, "-c", begin + has], capture_output=True, text=True, check=False
    )
    *said, left = done.stdout.splitlines()
    assert said == [
        "searched -1",
        f"added {unfiltered}",  # to a keyring of its own, which goes with it
        *["Permission denied"] * 2,
    ], done.stderr
    assert left == "[b'of-the-session']"


STATUS = "print(open('/proc/self/status').read())"


def test_without_a_library_the_sandbox_stands_and_without_a_filter(monkeypatch):
    found = (call_filter._write_filter, bubblewrap.has_call_filter)
    monkeypatch.setitem(sys.modules, "pyseccomp", None)  # as where it is not installed
    for each in found:
        each.cache_clear()
    try:
        assert not has_call_filter()
        assert "Seccomp:\t0" in within(STATUS)
    finally:
        monkeypatch.undo()
        for each in found:
            each.cache_clear()
    assert "Seccomp:\t2" in within(STATUS)
