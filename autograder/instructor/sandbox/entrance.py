"""Start bubblewrap in a new session keyring, with the system call filter.

Keyrings are inherited by every process, so the sandbox must not get the caller's. Where there is a
filter, it also refuses every use of keys. This file is run by a bare Python, without this package.
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
