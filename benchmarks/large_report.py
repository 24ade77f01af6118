"""Measure a report beside the compilation: 100 unrolled layers on 512 emulated devices.

    python benchmarks/large_report.py                 512 devices, 100 layers
    python benchmarks/large_report.py --devices 8     another number

The report is to take at most 30 % of lowering and compiling (issue 50, line 13).
"""

import argparse
import time

import jax
import jax.numpy as jnp
from jax import NamedSharding, P, lax

from shardlings import communication, emulate_devices

WIDTH, HIDDEN, BATCH = 512, 1024, 1024


def main() -> None:
    """Print the seconds of compiling and of reporting, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, default=512)
    parser.add_argument("--layers", type=int, default=100)
    chosen = parser.parse_args()
    emulate_devices(chosen.devices)
    model = 16 if chosen.devices >= 256 else 2
    shape = (chosen.devices // model, model)
    mesh = jax.make_mesh(shape, ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    def array(*size: int, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(size, jnp.float32, sharding=NamedSharding(mesh, spec))

    def loss(layers, x):  # type: ignore[no-untyped-def]
        for layer in layers:
            x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
            x = lax.with_sharding_constraint(x, NamedSharding(mesh, P("data")))
        return (x**2).mean()

    def step(layers, x):  # type: ignore[no-untyped-def]
        grads = jax.grad(loss)(layers, x)
        return jax.tree.map(lambda w, g: w - 0.1 * g, layers, grads)

    layer = {
        "up": array(WIDTH, HIDDEN, spec=P("data", "model")),
        "down": array(HIDDEN, WIDTH, spec=P("model", "data")),
    }
    x = array(BATCH, WIDTH, spec=P("data"))
    began = time.perf_counter()
    compiled = jax.jit(step).lower([layer] * chosen.layers, x).compile()
    compiling = time.perf_counter() - began
    began = time.perf_counter()
    report = communication(compiled, mesh=mesh)
    reporting = time.perf_counter() - began
    print(
        f"{chosen.layers} layers on {chosen.devices} devices, {len(report.collectives)} "
        f"collectives: compiling {compiling:.1f} s, reporting {reporting:.1f} s, "
        f"{reporting / compiling:.0%} of it"
    )


if __name__ == "__main__":
    main()
