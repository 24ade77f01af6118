"""Start bubblewrap in a new session keyring, with the system call filter.

A process inherits its parent's keyrings, and the sandbox must not get the caller's. The filter, if
there is one, also refuses every use of keys. A bare Python runs this file, without this package.
"""

import ctypes
import os
import sys
from typing import Final

FILTER_FD: Final = 9
"""The open file from which bubblewrap reads the filter."""

KEYCTL_NUMBERS: Final = {"x86_64": 250, "aarch64": 219}
"""The number of the system call `keyctl`, by machine: the C library has no function for it."""

JOIN_SESSION_KEYRING: Final = 1


def main(filter_path: str, *command: str) -> None:
    """Join a new session keyring, open the filter if there is one, and become the command."""
    call_number = KEYCTL_NUMBERS.get(os.uname().machine)
    if call_number is not None:  # if the call fails, this kernel has no keys
        ctypes.CDLL(None).syscall(call_number, JOIN_SESSION_KEYRING, None)
    if filter_path:
        os.dup2(os.open(filter_path, os.O_RDONLY), FILTER_FD)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
