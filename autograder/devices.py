"""Eight emulated devices on one machine, made safe.

XLA's CPU client runs everything on one pool of `max(cores, devices)` threads. A collective needs a
thread for each device at the same time, and dispatching uses the same threads; so on a machine with
few cores an ordinary training loop that does not wait for its results leaves a collective without
its threads, and after 40 seconds XLA aborts the process: "the kernel died". The pool's size is
read from the environment variable `PJRT_NPROC` when the backend starts, and that is the cure.

Measured: with `D` devices and `k` Python threads dispatching programs, `(k + 1) * D` threads always
suffice, and one fewer does not. `benchmarks/dead_kernel.py` shows the loop that dies and the cure.
"""

import os
from functools import cache
from pathlib import Path
from typing import Final

import jax

from autograder.errors import ShortError, remark_on_version

DISPATCHERS: Final = 3
"""Python threads that may dispatch programs at once before the pool is too small again."""

DEVICE_COUNT_FLAG: Final = "--xla_force_host_platform_device_count"

UNOPTIMISED: Final = {"--xla_backend_optimization_level": "0"}
"""Programs compile in less time and run slower; their collectives stay the same."""

WITHOUT_EMITTERS: Final = {"--xla_cpu_use_fusion_emitters": "false"}
"""XLA's older way of fusing operations, which compiles in half the time."""

LAST_WITH_EMITTERS: Final = (0, 10, 2)
"""The newest JAX that still has the older way."""


class EmulationError(ShortError, RuntimeError):
    """The devices cannot be emulated safely in this process; the message says what to do."""


def pool_size(devices: int) -> int:
    """The number of threads that XLA's pool needs for `devices` emulated devices."""
    return max((DISPATCHERS + 1) * devices, os.cpu_count() or 1)


def environment(devices: int = 8) -> dict[str, str]:
    """The environment variables that give a *new* process its emulated devices, safely.

    Args:
        devices: how many devices to emulate.

    Returns:
        Variables to add to the environment of a kernel, a test or a script that will import JAX.
    """
    return {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": _with_flags("", devices),
        "PJRT_NPROC": str(pool_size(devices)),
    }


def emulate_devices(devices: int = 8) -> list[jax.Device]:
    """Give this process emulated CPU devices, with a thread pool that cannot deadlock.

    Call it before anything touches a device; `import jax` before it is fine. Calling it twice is
    harmless. Where the JAX at hand is older or newer than what the course was tested with, that is
    printed, once.

    XLA is told to compile quickly rather than to optimise, so programs run slower than they could:
    fit for reading layouts and collectives, and not for measuring time.

    Args:
        devices: how many devices to emulate.

    Returns:
        The emulated devices, the first of `jax.devices()`.

    Raises:
        EmulationError: JAX had already started, with too few devices or too small a pool.
    """
    if not isinstance(devices, int) or devices < 1:
        raise EmulationError(
            f"emulate_devices asks for a number of devices, such as 8; {devices!r} came."
        )
    variable = os.environ.get("PJRT_NPROC", "")
    try:
        # JAX refuses this setting once its backend is up, which is how one asks whether it is.
        jax.config.update("jax_num_cpu_devices", devices)
    except RuntimeError:
        pass  # what has started is looked at below
    else:
        jax.config.update("jax_platforms", "cpu")
        threads = max(pool_size(devices), int(variable) if variable.isdecimal() else 0)
        os.environ["PJRT_NPROC"] = str(threads)
        # The setting above wins over the flag; a child process reads only the flag.
        os.environ["XLA_FLAGS"] = _with_flags(os.environ.get("XLA_FLAGS", ""), devices)
    found = jax.devices()
    if len(found) < devices:
        raise EmulationError(
            f"JAX had already started with {_count(len(found), 'device')} when "
            f"emulate_devices({devices}) was called, and the number cannot change afterwards. "
            f"Restart the kernel and run this cell before any other that uses JAX."
        )
    threads = _threads_in_pool() or int(os.environ.get("PJRT_NPROC", "") or 0)
    if found[0].platform == "cpu" and devices > 1 and threads < 2 * devices:
        raise EmulationError(
            f"JAX had already started when emulate_devices({devices}) was called, and its "
            f"{len(found)} devices share a pool of {threads or 'too few'} threads: a loop of "
            f"sharded steps could kill the kernel. "
            f"Restart the kernel and run this cell before any other that uses JAX."
        )
    _say_what_is_untested()
    return list(found[:devices])


@cache
def _say_what_is_untested() -> None:
    """Printed, and no warning: to stock nbgrader, whatever stands on stderr is a failure."""
    remark = remark_on_version()
    if remark:
        print(remark)


def _with_flags(flags: str, devices: int) -> str:
    """XLA's flags with those for emulated devices; the others stay as they were."""
    ours = {DEVICE_COUNT_FLAG: str(devices), **_compiler_flags()}
    others = [flag for flag in flags.split() if flag.partition("=")[0] not in ours]
    return " ".join([*others, *(f"{name}={value}" for name, value in ours.items())])


def _compiler_flags() -> dict[str, str]:
    """Return the flags that halve compile time, with the same collectives and memory.

    XLA ends a process that sets a flag which it does not know, so they are set only for versions of
    JAX that were tested.
    """
    if remark_on_version():
        return {}
    has_emitters = jax.__version_info__ <= LAST_WITH_EMITTERS
    return UNOPTIMISED | (WITHOUT_EMITTERS if has_emitters else {})


def _threads_in_pool() -> int:
    """The threads of XLA's pool in this process, counted; 0 where the system does not tell.

    The number of devices proves nothing about the pool, which may have been made before the
    variable was set. Linux names every thread, and XLA's pool names its own.
    """
    names = (task / "comm" for task in Path("/proc/self/task").glob("*"))
    count = 0
    for name in names:
        try:
            count += "XLAEigen" in name.read_text()
        except OSError:  # a thread that ended while we looked
            continue
    return count


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
