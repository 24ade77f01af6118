"""How long it takes to read the collectives of a compiled program, against compiling it.

Programs of growing length: reading must take less time than compiling, and grow no faster than the
program does.

    python benchmarks/reading.py                   50, 200 and 800 steps
    python benchmarks/reading.py --lengths 50      other numbers of steps
"""

import argparse
import time

import jax
import jax.numpy as jnp

from shardlings.devices import emulate_devices
from shardlings.programs.compiled import read_collectives, read_executable


def main() -> None:
    """Print a line for each length."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[50, 200, 800], metavar="STEPS")
    lengths = parser.parse_args().lengths
    emulate_devices(8)
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    x = jax.device_put(jnp.ones((16, 16)), jax.NamedSharding(mesh, jax.P("x", "y")))
    print("instructions  collectives  compiling     reading      share  reading each")
    for steps in lengths:

        def body(a: jax.Array, steps: int = steps) -> jax.Array:
            for i in range(steps):
                # one collective and enough around it that nothing is folded together
                a = jnp.sin(jax.lax.psum(a, "x" if i % 2 else "y") * (i + 1)) @ a.T @ a
                a = jnp.sort(a, axis=0) + jnp.cumsum(a, axis=1)
            return a

        program = jax.jit(
            jax.shard_map(
                body, mesh=mesh, in_specs=jax.P("x", "y"), out_specs=jax.P("x", "y"),
                check_vma=False,
            )
        )  # fmt: skip
        lowered = program.lower(x)
        start = time.perf_counter()
        compiled = lowered.compile()
        compiling = time.perf_counter() - start
        start = time.perf_counter()
        module = read_executable(compiled.runtime_executable())
        collectives = read_collectives(module, mesh)
        reading = time.perf_counter() - start
        count = sum(map(len, module.computations.values()))
        print(
            f"{count:12,}  {len(collectives):11,}  {compiling:8.2f} s  {reading:8.2f} s  "
            f"{reading / compiling:8.1%}  {1e6 * reading / count:6.0f} µs"
        )


if __name__ == "__main__":
    main()
