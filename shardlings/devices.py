"""Emulate eight devices on one machine without deadlocks.

XLA's CPU client runs everything on one pool of `max(cores, devices)` threads. A collective needs a
thread per device at the same time, and dispatching programs uses the same threads. So on a machine
with few cores, an ordinary training loop that does not wait for its results can leave a collective
without its threads. After 40 seconds XLA aborts the process, and Jupyter reports that the kernel
died. To prevent this, `emulate_devices` sets the environment variable `PJRT_NPROC`, from which XLA
reads the pool's size when the backend starts.

We measured that with `D` devices and `k` Python threads that dispatch programs, `(k + 1) * D`
threads always suffice, and one fewer does not. `benchmarks/dead_kernel.py` runs the loop with and
without the larger pool.
"""

import os
from functools import cache
from pathlib import Path
from typing import Final

import jax

from shardlings.errors import ShortError, crash_warning, version_warning

DISPATCHING_THREADS: Final = 3
"""The number of Python threads that may dispatch programs at once."""

DEVICE_COUNT_FLAG: Final = "--xla_force_host_platform_device_count"

UNOPTIMISED: Final = {"--xla_backend_optimization_level": "0"}
"""Makes programs compile faster and run slower, with the same collectives."""

LARGEST_POOL: Final = 256
"""The most threads that XLA gives its pool, however many are asked for."""

ONLY_TO_COMPILE: Final = (
    "{} emulated devices share a pool of 256 threads, which is the largest. Programs for them can "
    "be compiled and reported on; run on so many, a loop of sharded steps could hang."
)

WITHOUT_EMITTERS: Final = {"--xla_cpu_use_fusion_emitters": "false"}
"""Selects XLA's older way of fusing operations, which compiles in half the time."""

LAST_JAX_WITHOUT_EMITTERS: Final = (0, 10, 2)
"""The newest JAX that still has the older way."""


class EmulationError(ShortError, RuntimeError):
    """The devices cannot be emulated safely in this process. The message says what to do."""


def pool_size(devices: int) -> int:
    """Return the number of threads that XLA's pool needs for `devices` emulated devices."""
    return max((DISPATCHING_THREADS + 1) * devices, os.cpu_count() or 1)


def environment(devices: int = 8) -> dict[str, str]:
    """Return environment variables that give a *new* process emulated devices, without deadlocks.

    Args:
        devices: how many devices to emulate.

    Returns:
        Variables for the environment of a kernel, a test or a script that will import JAX.
    """
    return {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": _with_flags("", devices),
        "PJRT_NPROC": str(pool_size(devices)),
    }


RESTART: Final = (
    "In a notebook, restart the kernel and run this cell before any other that uses JAX; in a "
    "script or a test, call it before anything that does."
)


def emulate_devices(devices: int = 8) -> list[jax.Device]:
    """Give this process emulated CPU devices, with a thread pool that cannot deadlock.

    Call it before anything uses a device. It may be called after `import jax`, and more than once.
    It prints a warning, once, if the installed JAX is older or newer than the tested versions, or
    is known to crash.

    XLA compiles quickly and optimises little, so programs run slower than they could. That is fine
    for reading layouts and collectives, but not for measuring time. On more than 128 devices
    programs can be compiled, but not safely run.

    Args:
        devices: how many devices to emulate.

    Returns:
        The emulated devices, the first of `jax.devices()`.

    Raises:
        EmulationError: JAX had already started, with too few devices or too small a pool.
    """
    if not isinstance(devices, int) or devices < 1:
        raise EmulationError(
            f"emulate_devices expects a number of devices, such as 8, but got {devices!r}."
        )
    variable = os.environ.get("PJRT_NPROC", "")
    pool = int(variable) if variable.isdecimal() else 0
    try:
        # JAX refuses this setting once its backend has started.
        jax.config.update("jax_num_cpu_devices", devices)
    except RuntimeError:
        pass  # it is checked below what has started
    else:
        jax.config.update("jax_platforms", "cpu")
        pool = max(pool_size(devices), pool)
        os.environ["PJRT_NPROC"] = str(pool)
        # The setting above wins over the flag; a child process reads only the flag.
        os.environ["XLA_FLAGS"] = _with_flags(os.environ.get("XLA_FLAGS", ""), devices)
    available = jax.devices()
    if len(available) < devices:
        raise EmulationError(
            f"JAX had already started with {len(available)} device{'s' * (len(available) != 1)} "
            f"when emulate_devices({devices}) was called, and the number cannot change afterwards. "
            f"{RESTART}"
        )
    threads = _threads_in_pool() or pool
    needed = min(2 * devices, LARGEST_POOL)
    if available[0].platform == "cpu" and devices > 1 and threads < needed:
        raise EmulationError(
            f"JAX had already started when emulate_devices({devices}) was called, and its "
            f"{len(available)} devices share a pool of {threads or 'too few'} threads: a loop of "
            f"sharded steps could abort the process. {RESTART}"
        )
    if 2 * devices > LARGEST_POOL:
        print(ONLY_TO_COMPILE.format(devices))
    _warn_of_version()
    return list(available[:devices])


@cache
def _warn_of_version() -> None:
    """Print a warning to stdout, because nbgrader takes any output on stderr for a failure."""
    remark = version_warning() or crash_warning()
    if remark:
        print(remark)


def _with_flags(flags: str, devices: int) -> str:
    """Return XLA's flags with those for emulated devices added or replaced."""
    ours = {DEVICE_COUNT_FLAG: str(devices), **_compiler_flags()}
    others = [flag for flag in flags.split() if flag.partition("=")[0] not in ours]
    return " ".join([*others, *(f"{name}={value}" for name, value in ours.items())])


def _compiler_flags() -> dict[str, str]:
    """Return the flags that halve compile time, with the same collectives and memory.

    XLA ends a process with an unknown flag, so they are only set for tested versions of JAX.
    """
    if version_warning():
        return {}
    can_disable_emitters = jax.__version_info__ <= LAST_JAX_WITHOUT_EMITTERS
    return UNOPTIMISED | (WITHOUT_EMITTERS if can_disable_emitters else {})


def _threads_in_pool() -> int:
    """Count the threads of XLA's pool in this process; 0 if the system does not list threads.

    The number of devices says nothing about the pool, which may have been created before
    `PJRT_NPROC` was set. On Linux every thread has a name, and XLA names those of its pool.
    """
    names = (task / "comm" for task in Path("/proc/self/task").glob("*"))
    count = 0
    for name in names:
        try:
            count += "XLAEigen" in name.read_text()
        except OSError:  # the thread has ended in the meantime
            continue
    return count
