"""Who grades: behind all walls, what is left to a submission is what whoever grades may do."""

import os
from typing import Final

AS_ROOT: Final = (
    "You are root: a submission that got through all walls could do anything to this machine. "
    "Please grade as an ordinary user."
)


def is_root() -> bool:
    """Whether this process may do anything; never where there is no such user."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
