"use strict";

/** The transformer of the fourth part in Python: its mesh, its specs, and a step to report on. */
const transformerCode = (() => {
  /**
   * Return a program that compiles the gradient of a run's layers, and reports what it sends.
   *
   * @param {transformers.Run} run
   * @param {{dtype: string, machine: string}} chosen  The type of the weights, and the machine that times are for.
   */
  function write({model, degrees, batch, length}, {dtype, machine}) {
    const {data, fsdp, tensor, sequence} = degrees;
    const devices = data * fsdp * tensor * sequence;
    const hasExperts = model.experts > 1;
    const size = hasExperts ? "layers, experts" : "layers";
    const none = hasExperts ? "None, None" : "None";
    const sizes = {layers: model.layers, width: model.width, hidden: model.hidden, heads: model.heads, kv_heads: model.kvHeads,
      head_size: model.headSize, ...(hasExperts ? {experts: model.experts} : {})};
    const hiddenLayers = hasExperts
      ? `    # Here every token goes through all experts, and in the model through ${model.active} of them.
    up = jax.nn.silu(jnp.einsum("bsd,edf->ebsf", h, w["gate"])) * jnp.einsum("bsd,edf->ebsf", h, w["up"])
    return x + hold(jnp.einsum("ebsf,efd->bsd", up, w["down"]), *tokens)`
      : `    up = jax.nn.silu(h @ w["gate"]) * (h @ w["up"])
    return x + hold(up @ w["down"], *tokens)`;
    return `import jax
import jax.numpy as jnp
from jax import NamedSharding, P, lax
from jax.sharding import AxisType

from shardlings import communication, emulate_devices

emulate_devices(${devices})
mesh = jax.make_mesh(
    (${data}, ${fsdp}, ${tensor}, ${sequence}),
    ("data", "fsdp", "tensor", "sequence"),
    axis_types=(AxisType.Auto,) * 4,
)

# The weights of all layers: their shapes, and how they are sharded.
${Object.keys(sizes).join(", ")} = ${Object.values(sizes).join(", ")}
weights = {
    "query": ((layers, width, heads, head_size), P(None, "fsdp", "tensor")),
    "key": ((layers, width, kv_heads, head_size), P(None, "fsdp", "tensor")),
    "value": ((layers, width, kv_heads, head_size), P(None, "fsdp", "tensor")),
    "out": ((layers, heads, head_size, width), P(None, "tensor", None, "fsdp")),
    "gate": ((${size}, width, hidden), P(${none}, "fsdp", "tensor")),
    "up": ((${size}, width, hidden), P(${none}, "fsdp", "tensor")),
    "down": ((${size}, hidden, width), P(${none}, "tensor", "fsdp")),
}
tokens = ("data", "fsdp"), "sequence"


def hold(array, *spec):
    return lax.with_sharding_constraint(array, NamedSharding(mesh, P(*spec)))


def gather(name, weight):  # FSDP: what is left is sharded over tensor alone
    return hold(weight, *(axis if axis == "tensor" else None for axis in weights[name][1][1:]))


def normalise(x):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)


@jax.checkpoint
def layer(x, shards):
    w = {name: gather(name, shard) for name, shard in shards.items()}
    h = normalise(x)
    query, key, value = (
        jnp.einsum("bsd,dnh->bsnh", h, w[name]) for name in ("query", "key", "value")
    )
    key, value = (hold(each, tokens[0], None, "tensor") for each in (key, value))
    key, value = (jnp.repeat(each, heads // kv_heads, axis=2) for each in (key, value))
    scores = jax.nn.softmax(jnp.einsum("bsnh,btnh->bnst", query, key), -1)
    attended = jnp.einsum("bnst,btnh->bsnh", scores, value)
    x += hold(jnp.einsum("bsnh,nhd->bsd", attended, w["out"]), *tokens)
    h = normalise(x)
${hiddenLayers}


def loss(parameters, x):
    y, _ = lax.scan(lambda x, shards: (layer(x, shards), None), x, parameters)
    return jnp.sum(y * y)


def described(shape, spec):
    return jax.ShapeDtypeStruct(shape, "${dtype}", sharding=NamedSharding(mesh, spec))


parameters = {name: described(*each) for name, each in weights.items()}
layouts = {name: each.sharding for name, each in parameters.items()}
gradient = jax.jit(jax.grad(loss), out_shardings=layouts)
batch = described((${batch}, ${length}, width), P(*tokens))
report = communication(gradient, parameters, batch, machine="${machine}")
report  # or print(report): it was compiled, and nothing ran`;
  }

  return {write};
})();
