"""Errors of the machine, and whether it ran short of processes or memory.

For each control group Linux counts how often a limit kept a process or a thread from starting, and
how many processes were killed because memory ran out. A container has such limits. Elsewhere, and
on other systems, nothing is counted.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

GRADE_AGAIN: Final = "Grade it again, when the machine has less to do."


class MachineError(RuntimeError):
    """The machine kept a submission from being graded; grading it again may help."""


MOUNTS: Final = Path("/sys/fs/cgroup")

GROUPS_FILE: Final = Path("/proc/self/cgroup")

NO_PROCESS: Final = "the limit of its control group (pids.max) kept processes from starting"
NO_MEMORY: Final = "a process was killed because memory ran out"

COUNTERS: Final = {
    "pids.events": ("max", NO_PROCESS),
    "memory.events": ("oom_kill", NO_MEMORY),
    "memory.oom_control": ("oom_kill", NO_MEMORY),
}
"""The files with counters, and in each the counter's name and its meaning. Version 1 of control
groups has its counter of killed processes in another file than version 2."""


def read_shortages() -> Counter[str]:
    """Count, by kind, how often the control groups of this process ran short so far.

    The difference of two results is what was missing in between.
    """
    shortages = Counter[str]()
    for group in _find_groups():
        for file, (name, shortage) in COUNTERS.items():
            with contextlib.suppress(OSError, ValueError, KeyError):
                lines = (group / file).read_text().splitlines()
                shortages[shortage] += int(dict(line.split() for line in lines)[name])
    return shortages


def _find_groups() -> Iterator[Path]:
    """Yield the folders of this process's control groups, and of those above them."""
    with contextlib.suppress(OSError, ValueError):
        for line in GROUPS_FILE.read_text().splitlines():
            _, controllers, path = line.split(":", 2)  # version 2 has no name of a controller
            below = PurePosixPath(path.removeprefix("/"))
            for group in (below, *below.parents):
                yield MOUNTS / controllers / group
