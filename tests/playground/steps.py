"""The steps that the playground plans, taken with `lax`, and the bytes that they send."""

from collections import Counter

import jax
import numpy as np
from jax import lax

STEP = """(step) => {
  const entries = (layout) => layout.shape.map((_, d) => layout.spec.entries[d] ?? []);
  return {kind: step.kind, axes: step.axes, sent: step.sent, sources: reshards.sourcesOf(step),
    before: entries(step.from), after: entries(step.to)};
}"""
"""JavaScript that returns a step as the functions below take it."""


def take_step(block, step, mesh):
    """Do one step inside `shard_map`."""
    axes = tuple(step["axes"])
    changed = [
        d for d, (a, b) in enumerate(zip(step["before"], step["after"], strict=True)) if a != b
    ]
    grows = {d: len(step["after"][d]) > len(step["before"][d]) for d in changed}
    if step["kind"] == "all-gather":
        return lax.all_gather(block, axes, axis=changed[0], tiled=True)
    if step["kind"] == "all-to-all":
        split, concat = sorted(changed, key=lambda d: not grows[d])
        return lax.all_to_all(block, axes, split, concat, tiled=True)
    if step["kind"] == "slice":
        for d in changed:
            for name in step["after"][d][len(step["before"][d]) :]:
                size = block.shape[d] // mesh.shape[name]
                block = lax.dynamic_slice_in_dim(block, lax.axis_index(name) * size, size, d)
        return block
    if step["kind"] == "all-reduce":
        return lax.psum(block, axes)
    if step["kind"] == "reduce-scatter":
        return lax.psum_scatter(block, axes, scatter_dimension=changed[0], tiled=True)
    assert step["kind"] == "collective-permute"
    targets = [(s[0] if s else i, i) for i, s in enumerate(step["sources"])]
    return lax.ppermute(block, tuple(mesh.axis_names), targets)


def in_bytes(collectives):
    """Return the bytes that a device sends, by the kind of collective."""
    sent: Counter[str] = Counter()
    for kind, count in collectives:
        sent[kind] += round(count)
    return {kind: count for kind, count in sent.items() if count}


def grid_of(mesh):
    """Return the mesh over this machine's devices that a link writes as `x:4,y:2`."""
    sizes = {name: int(size) for name, size in (axis.split(":") for axis in mesh.split(","))}
    return jax.sharding.Mesh(np.array(jax.devices()).reshape(*sizes.values()), tuple(sizes))


def spec_of(link):
    """Return the spec that a link writes as `x.y,-`."""
    return jax.P(*(None if names == "-" else tuple(names.split(".")) for names in link.split(",")))
