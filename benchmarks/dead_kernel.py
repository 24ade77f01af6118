"""Does the loop that kills kernels live, with `emulate_devices` and without?

An un-synchronised loop of 2,000 sharded steps on eight emulated devices, in a process of its own,
many times: on one core and on two, alone and four at once. Without the cure every run is aborted
by XLA after 40 seconds, so those are few, and all at once.

    python benchmarks/dead_kernel.py              50 runs with the cure for each setting, 4 without
    python benchmarks/dead_kernel.py --runs 5     fewer
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from shardlings.devices import environment

LOOP = """
import jax, jax.numpy as jnp
mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
x = jax.device_put(jnp.ones((8, 4096)), jax.NamedSharding(mesh, jax.P("x")))
step = jax.jit(lambda x: x - 1e-3 * jnp.tanh(x).mean())
for _ in range(2000):
    x = step(x)
x.block_until_ready()
"""
CURED = f"from shardlings import emulate_devices; emulate_devices(8)\n{LOOP}"
BARE = "--xla_force_host_platform_device_count=8"


def lives(code: str, cores: int, **variables: str) -> bool:
    """Run the loop once on so many cores: whether its process ended well."""
    clean = {k: v for k, v in os.environ.items() if k not in (*environment(), "NPROC")}
    allowed = set(sorted(os.sched_getaffinity(0))[:cores])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, **variables},
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
        capture_output=True,
        timeout=300,
        check=False,
    )
    return done.returncode == 0


def count(code: str, runs: int, cores: int, at_once: int, **variables: str) -> int:
    """How many of so many runs live."""
    with ThreadPoolExecutor(at_once) as pool:
        return sum(pool.map(lambda _: lives(code, cores, **variables), range(runs)))


def main() -> int:
    """Print a table; the exit status says whether every cured run lived."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--bare-runs", type=int, default=4)
    chosen = parser.parse_args()
    most = min(2, len(os.sched_getaffinity(0)))
    lost = 0
    print("setting            cores  at once  lived")
    for cores in range(1, most + 1):
        for at_once in (1, 4):
            start = time.perf_counter()
            lived = count(CURED, chosen.runs, cores, at_once)
            lost += chosen.runs - lived
            seconds = time.perf_counter() - start
            print(
                f"emulate_devices(8)     {cores}        {at_once}  {lived} of {chosen.runs}"
                f"   ({seconds:.0f} s)",
                flush=True,
            )
        if chosen.bare_runs:
            bare = count(LOOP, chosen.bare_runs, cores, chosen.bare_runs, XLA_FLAGS=BARE)
            print(f"the flag alone         {cores}        {chosen.bare_runs}  {bare} of "
                  f"{chosen.bare_runs}", flush=True)  # fmt: skip
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
