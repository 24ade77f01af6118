"""What a sandbox is entered through: it leaves the session's keys outside, and hands in the filter.

It is run as a file, by a bare Python that has nothing of this package, and becomes bubblewrap. The
keys of a session go with every process, through all walls; a session of its own has none. Where
there is no filter this is what keeps them, and where there is one, it refuses every use of keys.
"""

import ctypes
import os
import sys
from typing import Final

FILTER: Final = 9
"""The number of the open file in which bubblewrap finds the filter."""

KEYCTL: Final = {"x86_64": 250, "aarch64": 219}
"""The number of the system call about keys, by machine: C's library has no function for it."""

JOIN_SESSION_KEYRING: Final = 1


def main(filter_file: str, *command: str) -> None:
    """Become a command, in a session without keys, with a filter where one is named."""
    keyctl = KEYCTL.get(os.uname().machine)
    if keyctl is not None:  # where it fails, there are no keys in this kernel
        ctypes.CDLL(None).syscall(keyctl, JOIN_SESSION_KEYRING, None)
    if filter_file:
        os.dup2(os.open(filter_file, os.O_RDONLY), FILTER)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
