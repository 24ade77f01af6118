"""How long it takes to read the collectives of a compiled program, against compiling it.

Programs of growing length: reading must take less time than compiling, and grow no faster than the
program does.
"""

import time

import jax
import jax.numpy as jnp

from shardlings.devices import emulate_devices
from shardlings.programs.compiled import read_collectives


def main() -> None:
    """Print a line for each length."""
    emulate_devices(8)
    grid = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    x = jax.device_put(jnp.ones((16, 16)), jax.NamedSharding(grid, jax.P("x", "y")))
    print("instructions  collectives  compiling     reading      share  reading each")
    for steps in (50, 200, 800):

        def body(a, steps=steps):
            for i in range(steps):
                # one collective and enough around it that nothing is folded together
                a = jnp.sin(jax.lax.psum(a, "x" if i % 2 else "y") * (i + 1)) @ a.T @ a
                a = jnp.sort(a, axis=0) + jnp.cumsum(a, axis=1)
            return a

        program = jax.jit(
            jax.shard_map(
                body, mesh=grid, in_specs=jax.P("x", "y"), out_specs=jax.P("x", "y"),
                check_vma=False,
            )
        )  # fmt: skip
        lowered = program.lower(x)
        start = time.perf_counter()
        compiled = lowered.compile()
        compiling = time.perf_counter() - start
        text = compiled.as_text()
        start = time.perf_counter()
        found = read_collectives(text, grid)
        reading = time.perf_counter() - start
        count = sum(line.startswith("  ") and " = " in line for line in text.splitlines())
        print(
            f"{count:12,}  {len(found):11,}  {compiling:8.2f} s  {reading:8.2f} s  "
            f"{reading / compiling:8.1%}  {1e6 * reading / count:6.0f} µs"
        )


if __name__ == "__main__":
    main()
