"""Record compiled programs: run it under each supported version of JAX.

Writes `<version>/<name>.hlo` beside itself, a text, and `<version>/<name>.pb`, the same as XLA
serialises it; and `<version>/answers/<name>` of answers to the course's exercises that have a
budget. With the name of a TPU topology, and libtpu installed,
it writes what the TPU's own compiler makes of the same programs; no TPU is needed:

    JAX_PLATFORMS=cpu TPU_SKIP_MDS_QUERY=1 python tests/…/recorded/record.py v5e:2x4

`test_compiled.py` and `tests/judge/test_costs.py` say what has to be read from them.
"""

import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import NamedSharding, P, lax
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh

from shardlings.devices import emulate_devices
from shardlings.programs.compiled.module_proto import decode_module

TOPOLOGY = sys.argv[1] if len(sys.argv) > 1 else None
if TOPOLOGY is None:
    DEVICES = emulate_devices(8)
else:
    DEVICES = topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGY).devices
FOLDER = Path(__file__).parent / (
    jax.__version__ if TOPOLOGY is None else f"tpu-{TOPOLOGY.replace(':', '-')}"
)
TABLE = np.array(DEVICES).reshape(4, 2)
GRID = Mesh(TABLE, ("x", "y"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = Mesh(TABLE, ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
ONE = Mesh(TABLE[:1, :1], ("x", "y"), axis_types=(AxisType.Auto,) * 2)


LINE = Mesh(TABLE.reshape(8), ("x",), axis_types=(AxisType.Auto,))
EXPLICIT_LINE = Mesh(TABLE.reshape(8), ("x",), axis_types=(AxisType.Explicit,))


def put(*spec, mesh=GRID, shape=(16, 16)):
    """Describe a sharded array, 16 by 16 by default."""
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))


def on(mesh, *spec, **more):
    """Return a sharding."""
    return NamedSharding(mesh, P(*spec, **more))


def manual(body, out, **options):
    """Map a body over blocks of `P("x", "y")`."""
    return jax.shard_map(
        body, mesh=GRID, in_specs=P("x", "y"), out_specs=out, check_vma=False, **options
    )


def columns(body):
    """Map a body over columns, replicated along x."""
    return jax.shard_map(
        body, mesh=GRID, in_specs=P(None, "y"), out_specs=P(None, "y"), check_vma=False
    )


def nested(a):
    """A loop of three in a loop of five."""

    def inner(carry, _):
        return lax.psum(carry, "x") * 0.1, None

    def outer(carry, _):
        return lax.scan(inner, lax.pmax(carry, "y"), None, length=3)[0], None

    return lax.scan(outer, a, None, length=5)[0]


def branch(a):
    """A collective in one of two branches."""
    return lax.cond(a.sum() > 0, lambda a: lax.psum(a, "x"), lambda a: a * 4, a)


def until(a):
    """A loop of unknown length."""
    return lax.while_loop(lambda c: c.sum() < 100, lambda c: lax.psum(c, "x"), a)


def decoys(a):
    """No collective, but names of collectives in scopes and functions."""

    def all_reduce(a):
        outer = jax.named_scope("all-gather(%x), replica_groups={{0,1}}")
        with outer, jax.named_scope("collective-permute-start"):
            return jnp.sin(a) * 2

    with jax.named_scope("%all-to-all = f32[4] reduce-scatter(%a)"):
        return all_reduce(a) + 1


def keep_scattered(a, b):
    """A matmul whose result stays sharded."""
    return jnp.dot(a, b, out_sharding=NamedSharding(EXPLICIT, P("x")))


BLOCKS = put("x", "y")
PROGRAMS = {
    "add_transpose": (lambda x: x + x.T, BLOCKS),
    "sum": (lambda x: x.sum(), BLOCKS),
    "sum_rows": (lambda x: x.sum(0), BLOCKS),
    "three_sums": (lambda a, b, c: (a.sum(0), b.sum(0), c.sum(0)), BLOCKS, BLOCKS, BLOCKS),
    "replicate": (lambda x: lax.with_sharding_constraint(x, NamedSharding(GRID, P())), BLOCKS),
    "turn": (lambda x: lax.with_sharding_constraint(x, NamedSharding(GRID, P("y", "x"))), BLOCKS),
    "psum": (manual(lambda a: lax.psum(a, "x"), P(None, "y")), BLOCKS),
    "psum_both": (manual(lambda a: lax.psum(a, ("x", "y")), P()), BLOCKS),
    "all_gather": (manual(lambda a: lax.all_gather(a, "y", axis=1, tiled=True), P("x")), BLOCKS),
    "psum_scatter": (manual(lambda a: lax.psum_scatter(a, "x", tiled=True), P("x", "y")), BLOCKS),
    "all_to_all": (manual(lambda a: lax.all_to_all(a, "x", 1, 0, tiled=True), P("x", "y")), BLOCKS),
    "ppermute": (
        manual(lambda a: lax.ppermute(a, "x", [(i, (i + 1) % 4) for i in range(4)]), P("x", "y")),
        BLOCKS,
    ),
    "nested": (columns(nested), put(None, "y")),
    "branch": (columns(branch), put(None, "y")),
    "until": (columns(until), put(None, "y")),
    "decoys": (decoys, BLOCKS),
    "keep_scattered": (
        keep_scattered,
        put(None, "x", mesh=EXPLICIT),
        put("x", None, mesh=EXPLICIT),
    ),
    "one_device": (jnp.sin, put(mesh=ONE)),
}


def together(a, b, c, d):
    """Two matmuls, reduced once."""
    later = on(EXPLICIT, None, None, unreduced={"x"})
    parts = jnp.dot(a, b, out_sharding=later) + jnp.dot(c, d, out_sharding=later)
    return jax.reshard(parts, on(EXPLICIT))


def product_on(spec):
    """Return a matmul with this sharding of its result."""
    return lambda a, b: jnp.dot(a, b, out_sharding=on(EXPLICIT, *spec))


def mapped(x, w, b):
    """A layer with explicit collectives."""
    body = jax.shard_map(
        lambda x, w, b: jax.nn.sigmoid(lax.psum(x @ w, "x") + b),
        mesh=EXPLICIT_LINE,
        in_specs=(P("x"), P("x", None), P()),
        out_specs=P(),
    )
    return body(x, w, b)


def layer_inputs(mesh):
    """Features, weights and a bias."""
    return (
        put("x", mesh=mesh, shape=(32,)),
        put("x", None, mesh=mesh, shape=(32, 4)),
        put(mesh=mesh, shape=(4,)),
    )


STRIPS, WIDE_STRIPS = put(("x", "y")), put(None, ("x", "y"))
TYPED = put("x", "y", mesh=EXPLICIT)
CONTRACTED = put(None, "x", mesh=EXPLICIT), put("x", None, mesh=EXPLICIT)
ANSWERS = {
    "2.2 quiet": (lambda x: x.sum(0), WIDE_STRIPS),
    "2.2 whole": (lambda x: x.sum(0), STRIPS),
    "2.3 into_blocks": (jnp.dot, put("x"), put(None, "y")),
    "2.3 into_rows": (jnp.dot, STRIPS, put()),
    "2.3 into_columns": (jnp.dot, put(), WIDE_STRIPS),
    "2.7 cheap": (lambda x: x + x.T, STRIPS),
    "3.1 turned": (
        lambda x: lax.with_sharding_constraint(jnp.sin(x), on(GRID, "y", "x")),
        BLOCKS,
    ),
    "3.2 copied_auto": (lambda x: lax.with_sharding_constraint(2 * x, on(GRID)), BLOCKS),
    "3.2 copied_explicit": (lambda x: jax.reshard(2 * x, on(EXPLICIT)), TYPED),
    "3.3 whole": (product_on(()), *CONTRACTED),
    "3.3 rows": (product_on(("x", None)), *CONTRACTED),
    "3.3 columns": (product_on((None, "x")), *CONTRACTED),
    "3.3 together": (together, *CONTRACTED, *CONTRACTED),
    "3.4 spread_sum": (lambda x: jax.reshard(x.sum(0), on(EXPLICIT, ("y", "x"))), TYPED),
    "3.5 differences": (
        jax.sharding.auto_axes(
            lambda x: x - jnp.roll(x, 1, axis=1), out_sharding=on(EXPLICIT, "x", "y")
        ),
        TYPED,
    ),
    "3.6 steered": (
        lambda x: x + lax.with_sharding_constraint(x.T, on(GRID, "x", "y")),
        BLOCKS,
    ),
    "3.7 layer_plain": (lambda x, w, b: jax.nn.sigmoid(x @ w + b), *layer_inputs(LINE)),
    "3.7 layer_constrained": (
        lambda x, w, b: jax.nn.sigmoid(lax.with_sharding_constraint(x @ w, on(LINE)) + b),
        *layer_inputs(LINE),
    ),
    "3.7 layer_explicit": (
        lambda x, w, b: jax.nn.sigmoid(jnp.dot(x, w, out_sharding=on(EXPLICIT_LINE)) + b),
        *layer_inputs(EXPLICIT_LINE),
    ),
    "3.7 layer_mapped": (mapped, *layer_inputs(EXPLICIT_LINE)),
}

TUNING = re.compile(r", backend_config=\{.*\}$", re.MULTILINE)
"""What a TPU's compiler notes at each instruction; it is long, and is never read here."""


def record(folder, programs):
    """Compile each program, and write its text and its serialised module."""
    folder.mkdir(exist_ok=True)
    for name, (function, *arguments) in programs.items():
        compiled = jax.jit(function).lower(*arguments).compile()
        text = str(compiled.as_text()).replace(str(Path(__file__)), "record.py")
        path = folder / f"{name.replace(' ', '-')}.hlo"
        path.write_text(text if TOPOLOGY is None else TUNING.sub("", text))
        executable = compiled.runtime_executable()
        assert executable is not None
        (module,) = executable.hlo_modules()
        message = decode_module(module.as_serialized_hlo_module_proto())
        here = str(Path(__file__)).encode()
        files = [file.replace(here, b"record.py") for file in message.stack_frame_index.file_names]
        message.stack_frame_index.file_names[:] = files
        if TOPOLOGY is not None:
            for computation in message.computations:
                for instruction in computation.instructions:
                    instruction.ClearField("backend_config")
        path.with_suffix(".pb").write_bytes(message.SerializeToString(deterministic=True))


if __name__ == "__main__":
    record(FOLDER, PROGRAMS)
    record(FOLDER / "answers", ANSWERS)
