# %% [markdown]
# Known answers to the exercises of notebook 13. A cell stands below what the exercise's cell was
# handed out with.


# %% a chain of questions exercise="13.1" score=1
def rule(path, shape, sizes):
    name = path[-1]
    if name in {"out", "down", "embed"}:
        last = ["model", "data"]
    elif name in {"query", "key", "value", "up"}:
        last = ["data", "model"]
    else:
        return P()
    if len(shape) == 1 or len(shape) == 0:
        return P(*[None] * len(shape))
    for place in (-2, -1):
        if shape[place] % sizes[last[place]]:
            last[place] = None
    return P(*[None] * (len(shape) - 2), *last)


# %% ignores sizes exercise="13.1" score=0.75 diagnoses=["does-not-divide"]
def rule(path, shape, sizes):
    table = {"out": P("model", "data"), "down": P("model", "data"), "embed": P("model", "data")}
    table |= dict.fromkeys(("query", "key", "value", "up"), P("data", "model"))
    spec = table.get(path[-1], P())
    if len(shape) < 2:
        return P()
    return P(None, *spec) if len(shape) == 3 and spec else spec


# %% gives up on the whole leaf exercise="13.1" score=0.75 diagnoses=["gave-up"] near=["does-not-divide"]
def rule(path, shape, sizes):
    ways = {"out": ("model", "data"), "down": ("model", "data"), "embed": ("model", "data")}
    ways |= dict.fromkeys(("query", "key", "value", "up"), ("data", "model"))
    way = ways.get(path[-1])
    if way is None or len(shape) < 2:
        return P()
    if any(size % sizes[axis] for size, axis in zip(shape[-2:], way)):
        return P()
    return P(*(None,) * (len(shape) - 2), *way)


# %% shards the stack exercise="13.1" score=0.5 diagnoses=["layers-sharded"] near=["gave-up"]
def rule(path, shape, sizes):
    ways = {"out": ("model", "data"), "down": ("model", "data"), "embed": ("model", "data")}
    ways |= dict.fromkeys(("query", "key", "value", "up"), ("data", "model"))
    way = ways.get(path[-1])
    if way is None or len(shape) < 2:
        return P()
    return P(*(axis if size % sizes[axis] == 0 else None for size, axis in zip(shape, way)))


# %% forgets vectors under a matrix's name exercise="13.1" score=0.5 diagnoses=["too-many-entries"] near=["layers-sharded"]
def rule(path, shape, sizes):
    ways = {"out": ("model", "data"), "down": ("model", "data"), "embed": ("model", "data")}
    ways |= dict.fromkeys(("query", "key", "value", "up"), ("data", "model"))
    way = ways.get(path[-1])
    if way is None:
        return P()
    way = (None,) * (len(shape) - 2) + way
    return P(*(a if a is None or n % sizes[a] == 0 else None for a, n in zip(way, shape + (1, 1))))


# %% only the parameters exercise="13.1" score=0.5 diagnoses=["left-replicated"] near=["small-leaf-sharded"]
def rule(path, shape, sizes):
    ways = {"out": ("model", "data"), "down": ("model", "data"), "embed": ("model", "data")}
    ways |= dict.fromkeys(("query", "key", "value", "up"), ("data", "model"))
    way = ways.get(path[-1])
    if path[0] != "params" or way is None or len(shape) < 2:
        return P()
    way = (None,) * (len(shape) - 2) + way
    return P(*(a if a is None or n % sizes[a] == 0 else None for a, n in zip(way, shape)))


# %% one way for all exercise="13.1" score=0 diagnoses=["axes-swapped"] near=["left-replicated"]
def rule(path, shape, sizes):
    if len(shape) < 2 or path[-1] in ("scale", "bias", "table"):
        return P()
    way = (None,) * (len(shape) - 2) + ("data", "model")
    return P(*(a if a is None or n % sizes[a] == 0 else None for a, n in zip(way, shape)))


# %% looks only at names exercise="13.1" score=0 diagnoses=["too-many-entries", "layers-sharded", "does-not-divide"] near=["axes-swapped"]
def rule(path, shape, sizes):
    table = dict.fromkeys(("out", "down", "embed"), P("model", "data"))
    table |= dict.fromkeys(("query", "key", "value", "up"), P("data", "model"))
    return table.get(path[-1], P())


# %% everything over data exercise="13.1" score=0 diagnoses=["one-axis-only", "layers-sharded", "left-replicated"] near=["gave-up", "too-many-entries"]
def rule(path, shape, sizes):
    return P("data") if shape and shape[0] % sizes["data"] == 0 else P()


# %% other names for the axes exercise="13.1" score=0 diagnoses=["unknown-axis", "left-replicated"] near=["one-axis-only", "no-spec"]
def rule(path, shape, sizes):
    return P("fsdp", "tensor") if len(shape) == 2 else P()


# %% a string exercise="13.1" score=0 diagnoses=["no-spec"] near=["unknown-axis"]
def rule(path, shape, sizes):
    return "data, model"


# %% any name in the path counts exercise="13.1" score=0.75 diagnoses=["small-leaf-sharded"]
def rule(path, shape, sizes):
    if len(shape) < 2:
        return P()
    if any(n in path for n in ("query", "key", "value", "up")):
        axes = ("data", "model")
    elif any(n in path for n in ("out", "down", "embed")):
        axes = ("model", "data")
    else:
        return P()
    spec = [a if n % sizes[a] == 0 else None for n, a in zip(shape[-2:], axes)]
    return P(*[None] * (len(shape) - 2), *spec)


# %% a name that contains one of the table exercise="13.1" score=0.75 diagnoses=["small-leaf-sharded"]
import re


def rule(path, shape, sizes):
    if len(shape) < 2:
        return P()
    text = "/".join(map(str, path))
    if re.search("query|key|value|up", text):
        axes = ("data", "model")
    elif re.search("out|down|embed", text):
        axes = ("model", "data")
    else:
        return P()
    spec = [a if n % sizes[a] == 0 else None for n, a in zip(shape[-2:], axes)]
    return P(*[None] * (len(shape) - 2), *spec)


# %% the sizes of the example exercise="13.1" score=0.5 diagnoses=["sizes-exchanged"] near=["sizes-of-all-devices"]
RULES = {
    "query": ("data", "model"),
    "key": ("data", "model"),
    "value": ("data", "model"),
    "up": ("data", "model"),
    "out": ("model", "data"),
    "down": ("model", "data"),
    "embed": ("model", "data"),
}


def rule(path, shape, sizes):
    if len(shape) < 2 or path[-1] not in RULES:
        return P()
    spec = [
        a if n % {"data": 4, "model": 2}[a] == 0 else None
        for n, a in zip(shape[-2:], RULES[path[-1]])
    ]
    return P(*[None] * (len(shape) - 2), *spec)


# %% divides by the size of the other axis exercise="13.1" score=0.5 diagnoses=["sizes-exchanged"]
RULES = {
    "query": ("data", "model"),
    "key": ("data", "model"),
    "value": ("data", "model"),
    "up": ("data", "model"),
    "out": ("model", "data"),
    "down": ("model", "data"),
    "embed": ("model", "data"),
}


def rule(path, shape, sizes):
    if len(shape) < 2 or path[-1] not in RULES:
        return P()
    rows, columns = RULES[path[-1]]
    if shape[-2] % sizes["data"]:
        rows = None
    if shape[-1] % sizes["model"]:
        columns = None
    return P(*[None] * (len(shape) - 2), rows, columns)


# %% by the end of a name exercise="13.1" score=0.75 diagnoses=["small-leaf-sharded"]
def rule(path, shape, sizes):
    if len(shape) < 2:
        return P()
    if path[-1].endswith(("query", "key", "value", "up")):
        axes = "data", "model"
    elif path[-1].endswith(("out", "down", "embed")):
        axes = "model", "data"
    else:
        return P()
    pairs = zip(axes, shape[-2:], strict=True)
    whole = [None] * (len(shape) - 2)
    return P(*whole, *(axis if size % sizes[axis] == 0 else None for axis, size in pairs))


# %% divides by all devices exercise="13.1" score=0.5 diagnoses=["sizes-of-all-devices"] near=["sizes-exchanged"]
def rule(path, shape, sizes):
    axes = {
        **dict.fromkeys(("query", "key", "value", "up"), ("data", "model")),
        **dict.fromkeys(("out", "down", "embed"), ("model", "data")),
    }.get(path[-1])
    if axes is None or len(shape) < 2:
        return P()
    whole = [None] * (len(shape) - 2)
    count = sizes["data"] * sizes["model"]
    return P(*whole, *(a if s % count == 0 else None for a, s in zip(axes, shape[-2:])))


# %% sizes in an order that is taken for granted exercise="13.1" score=0.75 diagnoses=["sizes-exchanged"]
def rule(path, shape, sizes):
    axes = {
        **dict.fromkeys(("query", "key", "value", "up"), ("data", "model")),
        **dict.fromkeys(("out", "down", "embed"), ("model", "data")),
    }.get(path[-1])
    data, model = sizes.values()
    size = {"data": data, "model": model}
    if axes is None or len(shape) < 2:
        return P()
    whole = [None] * (len(shape) - 2)
    return P(*whole, *(a if s % size[a] == 0 else None for a, s in zip(axes, shape[-2:])))


# %% a sharding in place of its spec exercise="13.1" score=0 diagnoses=["no-spec"]
def rule(path, shape, sizes):
    axes = {
        **dict.fromkeys(("query", "key", "value", "up"), ("data", "model")),
        **dict.fromkeys(("out", "down", "embed"), ("model", "data")),
    }.get(path[-1])
    if axes is None or len(shape) < 2:
        return NamedSharding(mesh, P())
    whole = [None] * (len(shape) - 2)
    entries = (a if s % sizes[a] == 0 else None for a, s in zip(axes, shape[-2:]))
    return NamedSharding(mesh, P(*whole, *entries))


# %% filled in otherwise exercise="13.2" score=1 near=["other-devices", "other-memory"]
meets = dict.fromkeys(meets, "error")
meets |= {"a + numpy": "works", "a + fresh": "works", "moved": "works", "other axes": "Works"}
arrived = put(
    sent,
    ("y",),
    None,
    mesh=jax.make_mesh((2, 2), ("y", "z"), devices=devices[4:], axis_types=(AxisType.Auto,) * 2),
)


# %% devices do not matter exercise="13.2" score=0 diagnoses=["moves-by-itself", "placed-follows", "two-meshes-in-one", "order-is-free", "host-follows", "devices-unused"]
meets = dict.fromkeys(meets, "works")
arrived = put(
    sent, "x", mesh=jax.make_mesh((2,), ("x",), devices=devices[4:6], axis_types=(AxisType.Auto,))
)


# %% everything has a place exercise="13.2" score=0 diagnoses=["numpy-has-a-place", "fresh-has-a-place", "two-meshes-in-one", "never-leaves", "names-must-agree", "split-dimension"] near=["moves-by-itself", "placed-follows", "order-is-free", "host-follows"]
meets = dict.fromkeys(meets, "error") | {"jit of both": "works"}
arrived = put(sent, "y", mesh=second)


# %% names have to agree, and order does not exercise="13.2" score=0 diagnoses=["placed-follows", "never-leaves", "names-must-agree", "order-is-free", "host-follows", "devices-extra"] near=["numpy-has-a-place", "fresh-has-a-place", "two-meshes-in-one"]
meets = {
    "a + b": "error",
    "a + numpy": "works",
    "a + fresh": "works",
    "a + placed": "works",
    "jit of both": "error",
    "moved": "error",
    "other axes": "error",
    "other order": "works",
    "host": "works",
}
arrived = put(sent, "data", mesh=mesh)


# %% the four devices in quarters exercise="13.2" score=0.3333333333 diagnoses=["fresh-has-a-place", "names-must-agree", "split-dimension"] near=["never-leaves", "devices-extra"]
meets = dict.fromkeys(meets, "error") | {"a + numpy": "works", "moved": "works"}
square = jax.make_mesh((2, 2), ("p", "q"), devices=devices[4:], axis_types=(AxisType.Auto,) * 2)
arrived = put(sent, "p", "q", mesh=square)


# %% the first four devices exercise="13.2" score=0.5 diagnoses=["never-leaves", "other-devices"] near=["names-must-agree"]
meets = dict.fromkeys(meets, "error") | {
    "a + numpy": "works",
    "a + fresh": "works",
    "other axes": "works",
}
square = jax.make_mesh((2, 2), ("p", "q"), devices=devices[:4], axis_types=(AxisType.Auto,) * 2)
arrived = put(sent, "p", mesh=square)


# %% constraints inside exercise="13.3" score=1
@jax.jit
def moved(W, moment, count, x, y):
    W, moment, count = update(W, moment, count, x, y)
    rows = lambda a: lax.with_sharding_constraint(a, P("data", None))
    return rows(W), rows(moment), count


step = jax.jit(moved, donate_argnames=("W", "moment", "count"))


# %% only jitted exercise="13.3" score=0.25 diagnoses=["split-dimension", "not-counted-yet"] naive=true
step = jax.jit(update)


# %% only donated exercise="13.3" score=0.25 diagnoses=["split-dimension", "not-counted-yet"] near=["not-donated"]
step = jax.jit(update, donate_argnums=(0, 1, 2))


# %% only W keeps its layout exercise="13.3" score=0.25 diagnoses=["split-dimension", "not-counted-yet"]
step = jax.jit(update, out_shardings=(P("data"), None, None), donate_argnums=(0, 1, 2))


# %% replicated results exercise="13.3" score=0.25 diagnoses=["replicated", "not-counted-yet"] near=["split-dimension"]
step = jax.jit(update, out_shardings=P(), donate_argnums=(0, 1, 2))


# %% the columns exercise="13.3" score=0.25 diagnoses=["transposed", "not-counted-yet"] near=["replicated"]
step = jax.jit(
    update, out_shardings=(P(None, "data"), P(None, "data"), P()), donate_argnums=(0, 1, 2)
)


# %% donates the batch as well, which JAX warns of exercise="13.3" score=0.625 diagnoses=["donates-too-much"] near=["not-donated"]
step = jax.jit(update, out_shardings=(P("data"), P("data"), P()), donate_argnums=(0, 1, 2, 3, 4))


# %% donates nothing exercise="13.3" score=0.625 diagnoses=["not-donated"] near=["donates-too-much"]
step = jax.jit(update, out_shardings=(P("data"), P("data"), P()))


# %% donates the weights only exercise="13.3" score=0.625 diagnoses=["not-donated"]
step = jax.jit(update, out_shardings=(P("data"), P("data"), P()), donate_argnums=0)


# %% no step exercise="13.3" score=0 diagnoses=["values", "not-counted-yet"]
step = jax.jit(lambda W, moment, count, x, y: (W, moment, count), donate_argnums=(0, 1, 2))


# %% both axes for the state exercise="13.3" score=0.25 diagnoses=["split-dimension", "not-counted-yet"]
step = jax.jit(
    update,
    out_shardings=(P("data", "model"), P("data", "model"), P()),
    donate_argnums=(0, 1, 2),
)


# %% a jit inside exercise="13.3" score=0.625 diagnoses=["not-donated"] near=["split-dimension", "replicated"]
def step(W, moment, count, x, y):
    layouts = P("data"), P("data"), P()
    jitted = jax.jit(update, out_shardings=layouts, donate_argnums=(0, 1, 2))
    return jitted(W, moment, count, x, y)


# %% two layouts for three results exercise="13.3" score=0 diagnoses=["other-structure"] near=["rank"]
step = jax.jit(update, out_shardings=(P("data"), P("data")), donate_argnums=(0, 1, 2))


# %% the rows of a count exercise="13.3" score=0 diagnoses=["rank"] near=["other-structure"]
step = jax.jit(update, out_shardings=P("data"), donate_argnums=(0, 1, 2))


# %% with lax.dot, and the sizes in KiB as floats exercise="13.4" score=1 near=["prior-inside", "peak-memory"]
def features(x, frozen, positions, prior):
    with_places = x + positions[None]
    return prior[None, None] + jnp.tanh(jnp.einsum("btd,df->btf", with_places, frozen))


cost = {"as an argument": 64 * 256 * 4 / 2 / 1024, "closed over": 64.0, "work": 2.0}


# %% calls the old one exercise="13.4" score=0 diagnoses=["closed-over-several", "replicated-dimension", "not-counted-yet", "too-much-memory", "whole", "still-sharded", "same-work"] naive=true
old = make_features(np.asarray(frozen))


def features(x, frozen, positions, prior):
    return old(x)


cost = {"as an argument": 64, "closed over": 32, "work": 1}


# %% still the default exercise="13.4" score=0 diagnoses=["closed-over-prior", "not-counted-yet", "over-all", "on-all-together", "all-devices"] near=["closed-over-several", "whole", "still-sharded", "same-work"]
outer = prior


def features(x, frozen, positions, prior):
    def inner(x, prior=outer):
        return jnp.tanh((x + positions) @ frozen) + prior

    return inner(x)


cost = {"as an argument": 8, "closed over": 512, "work": 8}


# %% still the positions exercise="13.4" score=0 diagnoses=["closed-over-positions", "not-counted-yet", "over-data", "of-data"] near=["in-mebibytes", "closed-over-prior", "over-all", "all-devices", "on-all-together"]
table = positions


def features(x, frozen, positions, prior):
    return jnp.tanh((x + table) @ frozen) + prior


cost = {"as an argument": 16, "closed over": 64, "work": 4}


# %% still the weights exercise="13.4" score=0 diagnoses=["closed-over-frozen", "not-counted-yet", "too-much-memory", "in-bytes"] near=["closed-over-positions", "of-data"]
weights = frozen


def features(x, frozen, positions, prior):
    return jnp.tanh((x + positions) @ weights) + prior


cost = {"as an argument": 32768, "closed over": 65536, "work": 2}


# %% without the prior exercise="13.4" score=0 diagnoses=["prior-missing", "not-counted-yet", "over-all", "half"] near=["closed-over-frozen", "in-bytes", "too-much-memory"]
def features(x, frozen, positions, prior):
    return jnp.tanh((x + positions) @ frozen)


cost = {"as an argument": 32, "closed over": 8, "work": 0.5}


# %% without positions exercise="13.4" score=0.1666666667 diagnoses=["positions-missing", "not-counted-yet", "same-work"] near=["prior-missing", "half"]
def features(x, frozen, positions, prior):
    return jnp.tanh(x @ frozen) + prior


cost = {"as an argument": 32, "closed over": 64, "work": 1}


# %% passed, and replicated again exercise="13.4" score=0.5 diagnoses=["replicated-dimension", "all-gather over model", "too-much-memory"] near=["positions-missing"]
def features(x, frozen, positions, prior):
    frozen = lax.with_sharding_constraint(frozen, P())
    made = jnp.tanh((x + positions) @ frozen) + prior
    return lax.with_sharding_constraint(made, P("data"))


cost = {"as an argument": 32, "closed over": 64, "work": 2}


# %% the prior inside, and the memory of a report exercise="13.4" score=0 diagnoses=["prior-inside", "not-counted-yet", "peak-memory"]
def features(x, frozen, positions, prior):
    return jnp.tanh((x + positions) @ frozen + prior)


cost = {"as an argument": 128, "closed over": 224, "work": 2}


# %% kilobytes, and operations exercise="13.4" score=0.6666666667 diagnoses=["in-kilobytes", "operations"] near=["in-bytes", "all-devices"]
def features(x, frozen, positions, prior):
    return jnp.tanh((x + positions) @ frozen) + prior


cost = {"as an argument": 32.768, "closed over": 65.536, "work": 4_194_304}


# %% the memory at the peak exercise="13.4" score=0.6666666667 diagnoses=["peak-memory"] near=["in-kilobytes", "operations", "numbers"]
def features(x, frozen, positions, prior):
    return jnp.tanh((x + positions) @ frozen) + prior


cost = {"as an argument": 128, "closed over": 192, "work": 2}


# %% with no constraints but the last exercise="13.5" score=1 near=["of-all-devices"]
found = {"array": "V", "KiB": 48}


def forward(x, qkv, out, up, down):
    def turn(x, weights):
        qkv, out, up, down = weights
        q, k, v = jnp.einsum("btd,jdhe->jbthe", x, qkv)
        s = jnp.einsum("bqhe,bkhe->bhqk", q, k) / q.shape[-1] ** 0.5
        a = jnp.einsum("bhqk,bkhe->bqhe", jax.nn.softmax(s), v)
        x = x + jnp.einsum("bthe,hed->btd", a, out)
        return constrain(x + jax.nn.relu(x @ up) @ down, P("data")), None

    return lax.scan(turn, x, (qkv, out, up, down))[0]


# %% as it was exercise="13.5" score=0.1666666667 diagnoses=["follows-the-first", "one-layer", "all-to-all over model"] naive=true
found = {"array": "q", "KiB": 3 + 1}
forward = make_forward(specs)


# %% loses the axis exercise="13.5" score=0.3333333333 diagnoses=["first-only", "all-gather over model"] near=["all-to-all", "follows-the-first", "one-layer"]
found = {"array": "v", "KiB": 12 * 3}
forward = make_forward(specs | {"v": P("data")})


# %% takes all to positions exercise="13.5" score=0.1666666667 diagnoses=["in-the-mlp", "all-collectives", "all-gather over model"] near=["first-only"]
found = {"array": "h", "KiB": 144}
forward = make_forward(specs | {"q": specs["v"], "k": specs["v"]})


# %% shards the residual exercise="13.5" score=0.0833333333 diagnoses=["the-residual", "way-back-only", "split-dimension", "not-counted-yet"] near=["all-gather", "in-the-mlp", "all-collectives"]
found = {"array": "x", "KiB": 12}
forward = make_forward(specs | {"v": specs["q"], "x": P("data", None, "model")})


# %% forgets the scale exercise="13.5" score=0 diagnoses=["follows-the-first", "what-has-to-be", "not-scaled", "not-counted-yet"] near=["the-residual", "way-back-only"]
found = {"array": "k", "KiB": 96}


def mended(x, weights):
    qkv, out, up, down = weights
    q, k, v = jnp.einsum("btd,jdhe->jbthe", x, qkv)
    a = jnp.einsum("bhqk,bkhe->bqhe", jax.nn.softmax(jnp.einsum("bqhe,bkhe->bhqk", q, k)), v)
    x = constrain(x + jnp.einsum("bthe,hed->btd", a, out), P("data", None, None))
    return constrain(x + jax.nn.relu(x @ up) @ down, P("data", None, None)), None


def forward(x, qkv, out, up, down):
    return lax.scan(mended, x, (qkv, out, up, down))[0]


# %% unpacks keys and values the wrong way exercise="13.5" score=0.1666666667 diagnoses=["in-bytes", "keys-and-values-swapped", "not-counted-yet"] near=["what-has-to-be", "not-scaled"]
found = {"array": "v", "KiB": 49152}


def mended(x, weights):
    qkv, out, up, down = weights
    q, v, k = jnp.einsum("btd,jdhe->jbthe", x, qkv)
    s = jnp.einsum("bqhe,bkhe->bhqk", q, k) / q.shape[-1] ** 0.5
    a = jnp.einsum("bhqk,bkhe->bqhe", jax.nn.softmax(s), v)
    x = constrain(x + jnp.einsum("bthe,hed->btd", a, out), P("data", None, None))
    return constrain(x + jax.nn.relu(x @ up) @ down, P("data", None, None)), None


def forward(x, qkv, out, up, down):
    return lax.scan(mended, x, (qkv, out, up, down))[0]


# %% mended with another spelling of the spec, and counts what is sent exercise="13.5" score=0.8333333333 diagnoses=["sent"] near=["in-bytes", "keys-and-values-swapped"]
found = {"array": "v", "KiB": 24}
forward = make_forward({**specs, "v": specs["k"]})


# %% for all eight devices exercise="13.5" score=0.8333333333 diagnoses=["of-all-devices"] near=["sent", "layers-twice"]
found = {"array": "v", "KiB": 48 * 8}
forward = make_forward(specs | {"v": specs["q"]})


# %% the mesh of the notebook exercise="13.5" score=0.5 diagnoses=["all-gather over parts of axes"]
found = {"array": "v", "KiB": 48}
heads = NamedSharding(mesh, P("data", None, "model", None))
forward = make_forward(specs | {"v": heads})


# %% replicates v exercise="13.5" score=0.5 diagnoses=["all-gather over data"] near=["all-gather over parts of axes"]
found = {"array": "v", "KiB": 48}
forward = make_forward(specs | {"v": P()})


# %% no axis for the heads exercise="13.5" score=0.5 diagnoses=["all-gather over model"] near=["all-gather over data"]
found = {"array": "v", "KiB": 48}
forward = make_forward(specs | {"v": P("data", None, None, None)})


# %% what one row sends exercise="13.5" score=0.25 diagnoses=["sent", "split-dimension", "all-gather over model"]
found = {"array": "v", "KiB": 18}
forward = make_forward(specs | {"v": P("data", None, "model", None), "x": P("data", "model", None)})


# %% checkpoints with a policy exercise="13.6" score=1 near=["in-bytes"]
peak = {
    "weights": 2 * 12 * 64 * 256 / 2 * 4 / 1024,
    "gradients": 768.0,
    "inputs": 384,
    "hidden": 768,
}


def gradients(x, y, up, down):
    keep = jax.checkpoint(block, policy=jax.checkpoint_policies.nothing_saveable, prevent_cse=False)

    def loss(weights):
        made, _ = lax.scan(keep, x, weights)
        return ((made - y) ** 2).sum()

    return jax.grad(loss)((up, down))


# %% as it was exercise="13.6" score=0.1666666667 diagnoses=["whole-weights", "whole-activations", "too-much-memory"] naive=true
peak = {"weights": 1536, "gradients": 1536, "inputs": 1536, "hidden": 6144}


def gradients(x, y, up, down):
    return plain(x, y, up, down)


# %% checkpoints the whole model exercise="13.6" score=0.1666666667 diagnoses=["one-kind", "one-layer", "too-much-memory"] near=["whole-weights", "whole-activations"]
peak = {"weights": 384, "gradients": 384, "inputs": 32, "hidden": 64}


def gradients(x, y, up, down):
    return jax.grad(jax.checkpoint(loss), argnums=(0, 1))(up, down, x, y)


# %% microbatches exercise="13.6" score=0.1666666667 diagnoses=["one-layer", "not-over-model", "too-many-bytes", "too-much-memory"] near=["one-kind"]
peak = {"weights": 64, "gradients": 64, "inputs": 384, "hidden": 1536}


def gradients(x, y, up, down):
    split = lambda a: constrain(a.reshape(-1, 4, a.shape[1]).swapaxes(0, 1), P(None, "data"))

    def add(total, batch):
        made = jax.grad(loss, argnums=(0, 1))(up, down, *batch)
        return jax.tree.map(jnp.add, total, made), None

    return lax.scan(add, (jnp.zeros_like(up), jnp.zeros_like(down)), (split(x), split(y)))[0]


# %% activations over model as well exercise="13.6" score=0.08333 diagnoses=["over-all", "not-over-data", "replicated", "all-gather over model", "too-much-memory"] near=["one-layer", "not-over-model"]
peak = {"weights": 192, "gradients": 192, "inputs": 192, "hidden": 3072}


def gradients(x, y, up, down):
    def sharded(x, weights):
        up, down = weights
        whole = constrain(x, P("data"))
        return constrain(x + jnp.tanh(whole @ up) @ down, P(("data", "model"))), None

    def loss(up, down):
        return jnp.sum(
            (lax.scan(sharded, constrain(x, P(("data", "model"))), (up, down))[0] - y) ** 2
        )

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% keeps the matmuls exercise="13.6" score=0.5 diagnoses=["too-much-memory"] near=["too-many-bytes", "all-gather over model", "over-all", "not-over-data"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    kept = jax.checkpoint(block, policy=jax.checkpoint_policies.dots_saveable)

    def loss(up, down):
        return jnp.sum((lax.scan(kept, x, (up, down))[0] - y) ** 2)

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% the mean exercise="13.6" score=0.3333333333 diagnoses=["mean", "not-counted-yet"] near=["too-much-memory"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        return jnp.mean((lax.scan(jax.checkpoint(block), x, (up, down))[0] - y) ** 2)

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% the sum over features, and the mean over examples exercise="13.6" score=0.3333333333 diagnoses=["mean-over-rows", "not-counted-yet"] near=["mean"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        return jnp.sum((lax.scan(jax.checkpoint(block), x, (up, down))[0] - y) ** 2) / len(x)

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% half of the square exercise="13.6" score=0.3333333333 diagnoses=["half", "not-counted-yet"] near=["mean-over-rows"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        return jnp.sum((lax.scan(jax.checkpoint(block), x, (up, down))[0] - y) ** 2) / 2

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% leaves examples out exercise="13.6" score=0.3333333333 diagnoses=["half-the-batch", "not-counted-yet"] near=["half"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    every_second = jnp.arange(len(x))[:, None] % 2 == 0
    kept = jax.checkpoint(block)

    def loss(up, down):
        wrong = lax.scan(kept, x, (up, down))[0] - y
        return jnp.sum(jnp.where(every_second, wrong, 0) ** 2)

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% in bytes exercise="13.6" score=0.1666666667 diagnoses=["in-bytes", "too-much-memory"] near=["half-the-batch"]
peak = {"weights": 786432, "gradients": 786432, "inputs": 393216, "hidden": 786432}


def gradients(x, y, up, down):
    return plain(x, y, up, down)


# %% consecutive examples as microbatches, and too few hidden features exercise="13.6" score=0.3888888889 diagnoses=["as-large-as-inputs", "all-gather over data", "too-much-memory"] near=["one-layer", "not-over-model"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 384}


def gradients(x, y, up, down):
    X, Y = x.reshape(4, -1, x.shape[1]), y.reshape(4, -1, y.shape[1])

    def add(total, b):
        g = jax.grad(loss, argnums=(0, 1))(up, down, *b)
        return jax.tree.map(jnp.add, total, g), None

    return lax.scan(add, (jnp.zeros_like(up), jnp.zeros_like(down)), (X, Y))[0]


# %% a checkpoint around all layers exercise="13.6" score=0.5 diagnoses=["too-much-memory"] near=["as-large-as-inputs", "all-gather over data"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    return jax.grad(jax.checkpoint(loss), argnums=(0, 1))(up, down, x, y)


# %% zeros, in MiB exercise="13.6" score=0 diagnoses=["in-mebibytes", "over-the-other", "all-zeros", "replicated", "not-counted-yet", "too-much-memory"] near=["mean", "in-bytes"]
peak = {"weights": 0.75, "gradients": 0.75, "inputs": 768, "hidden": 768}


def gradients(x, y, up, down):
    return jnp.zeros_like(up), jnp.zeros_like(down)


# %% replicated gradients exercise="13.6" score=0.4167 diagnoses=["replicated", "all-gather over model", "too-much-memory"] near=["all-zeros", "in-mebibytes", "over-the-other"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        return jnp.sum((lax.scan(jax.checkpoint(block), x, (up, down))[0] - y) ** 2)

    found = jax.grad(loss, argnums=(0, 1))(up, down)
    return tuple(lax.with_sharding_constraint(each, P()) for each in found)


# %% with a shard_map exercise="13.7" score=1 near=["unreduced-operand", "one-side-unreduced"]
def accumulate(W, X, Y):
    def body(W, X, Y):
        W = lax.pcast(W, "x", to="varying") if hasattr(lax, "pcast") else lax.pvary(W, "x")

        def add(total, batch):
            x, y = batch
            own = jnp.sum((jnp.tanh(x @ W).sum(axis=1) - y) ** 2)
            return total + jax.grad(lambda W: jnp.sum((jnp.tanh(x @ W).sum(axis=1) - y) ** 2))(
                W
            ), None

        total, _ = lax.scan(add, jnp.zeros_like(W), (X, Y))
        return lax.psum(total, "x") / (X.shape[1] * lax.axis_size("x"))

    specs = P(), P(None, "x", None), P(None, "x")
    return jax.shard_map(body, in_specs=specs, out_specs=P())(W, X, Y)


# %% as it was exercise="13.7" score=0.25 diagnoses=["too-many-bytes"] naive=true
def accumulate(W, X, Y):
    return reduced_each_time(W, X, Y)


# %% W is resharded in each turn, and its gradient is complete exercise="13.7" score=0.25 diagnoses=["too-many-bytes"]
def accumulate(W, X, Y):
    def add(total, batch):
        made = jax.grad(lambda W: error(jax.sharding.reshard(W, P(reduced={"x"})), *batch))(W)
        return total + made, None

    return lax.scan(add, jnp.zeros_like(W), (X, Y))[0]


# %% all at once exercise="13.7" score=0.25 diagnoses=["too-much-memory"] near=["too-many-bytes"]
def accumulate(W, X, Y):
    return jax.grad(lambda W: jax.vmap(error, in_axes=(None, 0, 0))(W, X, Y).sum())(W)


# %% a mean exercise="13.7" score=0 diagnoses=["mean", "not-counted-yet"] near=["too-much-memory"]
def accumulate(W, X, Y):
    ready = jax.sharding.reshard(W, P(reduced={"x"}))

    def add(total, batch):
        return total + jax.grad(error)(ready, *batch), None

    nothing = jax.sharding.reshard(jnp.zeros_like(W), P(unreduced={"x"}))
    return jax.sharding.reshard(lax.scan(add, nothing, (X, Y))[0], P()) / len(X)


# %% the last microbatch exercise="13.7" score=0 diagnoses=["last-microbatch", "not-counted-yet"] near=["mean"]
def accumulate(W, X, Y):
    ready = jax.sharding.reshard(W, P(reduced={"x"}))

    def add(total, batch):
        return jax.grad(error)(ready, *batch), None

    nothing = jax.sharding.reshard(jnp.zeros_like(W), P(unreduced={"x"}))
    return jax.sharding.reshard(lax.scan(add, nothing, (X, Y))[0], P())


# %% the first microbatch exercise="13.7" score=0 diagnoses=["first-microbatch", "not-counted-yet"] near=["last-microbatch"]
def accumulate(W, X, Y):
    return jax.grad(error)(W, X[0], Y[0])


# %% without the first exercise="13.7" score=0 diagnoses=["first-missing", "not-counted-yet"] near=["first-microbatch"]
def accumulate(W, X, Y):
    ready = jax.sharding.reshard(W, P(reduced={"x"}))

    def add(total, batch):
        return total + jax.grad(error)(ready, *batch), None

    nothing = jax.sharding.reshard(jnp.zeros_like(W), P(unreduced={"x"}))
    return jax.sharding.reshard(lax.scan(add, nothing, (X[1:], Y[1:]))[0], P())


# %% summed twice exercise="13.7" score=0 diagnoses=["once-per-device", "not-counted-yet", "too-many-bytes"] near=["first-missing"]
def accumulate(W, X, Y):
    def body(W, X, Y):
        def add(total, batch):
            x, y = batch
            return total + jax.grad(error)(W, x, y), None

        total, _ = lax.scan(add, jnp.zeros_like(W), (X, Y))
        return lax.psum(lax.pcast(total, "x", to="varying"), "x") / lax.axis_size("x")

    specs = P(), P(None, "x", None), P(None, "x")
    return jax.shard_map(body, in_specs=specs, out_specs=P())(W, X, Y)


# %% divided by the devices exercise="13.7" score=0 diagnoses=["divided-by-devices", "not-counted-yet", "too-many-bytes"] near=["once-per-device"]
def accumulate(W, X, Y):
    return reduced_each_time(W, X, Y) / jax.sharding.get_abstract_mesh().size


# %% a replicated W in the body, and a psum exercise="13.7" score=0 diagnoses=["once-per-pair-of-devices", "not-counted-yet", "too-many-bytes"] near=["divided-by-devices"]
def accumulate(W, X, Y):
    def body(W, X, Y):
        def turn(total, batch):
            return total + jax.grad(error)(W, *batch), None

        return lax.psum(lax.scan(turn, jnp.zeros_like(W), (X, Y))[0], "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x"), P(None, "x")), out_specs=P())(W, X, Y)


# %% reduced into pieces in each turn exercise="13.7" score=0.25 diagnoses=["reduce-scatter over x"] near=["once-per-pair-of-devices"]
def accumulate(W, X, Y):
    R = jax.sharding.reshard(W, P(reduced={"x"}))

    def turn(total, batch):
        return total + jax.sharding.reshard(jax.grad(error)(R, *batch), P("x")), None

    zeros = jax.sharding.reshard(jnp.zeros_like(W), P("x"))
    return jax.sharding.reshard(lax.scan(turn, zeros, (X, Y))[0], P())


# %% a psum of means exercise="13.7" score=0 diagnoses=["once-per-device", "not-counted-yet"] near=["reduce-scatter"]
def accumulate(W, X, Y):
    def body(W, X, Y):
        W = lax.pcast(W, "x", to="varying")

        def turn(total, batch):
            return total + jax.grad(error)(W, *batch), None

        return lax.psum(lax.scan(turn, jnp.zeros_like(W), (X, Y))[0], "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x"), P(None, "x")), out_specs=P())(W, X, Y)


# %% a sum that begins complete exercise="13.7" score=0 diagnoses=["one-side-unreduced"] near=["too-many-bytes"]
def accumulate(W, X, Y):
    ready = jax.sharding.reshard(W, P(reduced={"x"}))

    def add(total, batch):
        return total + jax.grad(error)(ready, *batch), None

    return jax.sharding.reshard(lax.scan(add, jnp.zeros_like(W), (X, Y))[0], P())


# %% begins with the first gradient exercise="13.7" score=0 diagnoses=["first-twice", "not-counted-yet"] near=["first-missing"]
def accumulate(W, X, Y):
    ready = jax.sharding.reshard(W, P(reduced={"x"}))

    def add(total, batch):
        return total + jax.grad(error)(ready, *batch), None

    first = jax.grad(error)(ready, X[0], Y[0])
    return jax.sharding.reshard(lax.scan(add, first, (X, Y))[0], P())


# %% a part of the sum on each device exercise="13.7" score=0.125 diagnoses=["split-dimension", "reduce-scatter over x", "not-counted-yet"] near=["first-twice"]
def accumulate(W, X, Y):
    ready = jax.sharding.reshard(W, P(reduced={"x"}))

    def add(total, batch):
        return total + jax.grad(error)(ready, *batch), None

    nothing = jax.sharding.reshard(jnp.zeros_like(W), P(unreduced={"x"}))
    return jax.sharding.reshard(lax.scan(add, nothing, (X, Y))[0], P("x"))


# %% candidates by argsort exercise="13.8" score=1
def most_likely(logits):
    def body(block):
        places = jnp.argsort(-block, axis=1, stable=True)[:, :4]
        values = jnp.take_along_axis(block, places, axis=1)
        places += lax.axis_index("x") * block.shape[1]
        values = lax.all_gather(values, "x", axis=1, tiled=True)
        places = lax.all_gather(places, "x", axis=1, tiled=True)
        order = jnp.argsort(-values, axis=1, stable=True)[:, :4]
        return jnp.take_along_axis(values, order, 1), jnp.take_along_axis(places, order, 1)

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(), check_vma=False)(logits)


# %% the compiler's exercise="13.8" score=0.25 diagnoses=["too-many-bytes"] naive=true
def most_likely(logits):
    return lax.top_k(logits, 4)


# %% a sort exercise="13.8" score=0.25 diagnoses=["too-many-bytes"] near=["last-of-ties"]
def most_likely(logits):
    places = jnp.argsort(-logits, axis=1, stable=True)[:, :4]
    return jnp.take_along_axis(logits, places, axis=1), places


# %% places within a block exercise="13.8" score=0 diagnoses=["places-in-blocks", "not-counted-yet"] near=["offset-of-place", "offset-of-rows", "too-many-bytes"]
def most_likely(logits):
    def body(block):
        values, places = lax.top_k(block, 4)
        values, places = lax.all_gather((values, places), "x", axis=1, tiled=True)
        best, which = lax.top_k(values, 4)
        return best, jnp.take_along_axis(places, which, axis=1)

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(), check_vma=False)(logits)


# %% places among the candidates exercise="13.8" score=0 diagnoses=["places-of-candidates", "not-counted-yet"] near=["places-in-blocks"]
def most_likely(logits):
    def body(block):
        values, _ = lax.top_k(block, 4)
        return lax.top_k(lax.all_gather(values, "x", axis=1, tiled=True), 4)

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(), check_vma=False)(logits)


# %% the best of each device exercise="13.8" score=0 diagnoses=["too-few-candidates", "not-counted-yet"] near=["places-of-candidates"]
def most_likely(logits):
    def body(block):
        values, places = lax.top_k(block, 1)
        places = places + lax.axis_index("x") * block.shape[1]
        values, places = lax.all_gather((values, places), "x", axis=1, tiled=True)
        best, which = lax.top_k(values, 4)
        return best, jnp.take_along_axis(places, which, axis=1)

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(), check_vma=False)(logits)


# %% the smallest exercise="13.8" score=0 diagnoses=["smallest", "not-counted-yet"] near=["too-few-candidates"]
def most_likely(logits):
    def body(block):
        values, places = lax.top_k(-block, 4)
        places = places + lax.axis_index("x") * block.shape[1]
        values, places = lax.all_gather((values, places), "x", axis=1, tiled=True)
        best, which = lax.top_k(values, 4)
        return -best, jnp.take_along_axis(places, which, axis=1)

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(), check_vma=False)(logits)


# %% the smallest of them first exercise="13.8" score=0 diagnoses=["ascending", "too-many-bytes"] near=["smallest", "in-order-of-places"]
def most_likely(logits):
    values, places = lax.top_k(logits, 4)
    return values[:, ::-1], places[:, ::-1]


# %% by argsort, reversed exercise="13.8" score=0 diagnoses=["last-of-ties", "too-many-bytes"] near=["place-of-equal", "ascending", "each-value-once"]
def most_likely(logits):
    places = jnp.argsort(logits, axis=1)[:, ::-1][:, :4]
    return jnp.take_along_axis(logits, places, axis=1), places


# %% gathers first exercise="13.8" score=0.25 diagnoses=["too-many-bytes"] near=["last-of-ties"]
def most_likely(logits):
    def body(block):
        return lax.top_k(lax.all_gather(block, "x", axis=1, tiled=True), 4)

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(), check_vma=False)(logits)


# %% exchanged in pairs exercise="13.8" score=1
def most_likely(logits):
    def body(block):
        v, i = lax.top_k(block, 4)
        i = i + lax.axis_index("x") * block.shape[1]
        n = lax.axis_size("x")
        d = 1
        while d < n:
            perm = [(a, a ^ d) for a in range(n)]
            v2, i2 = lax.ppermute((v, i), "x", perm)
            V, I = jnp.concatenate([v, v2], 1), jnp.concatenate([i, i2], 1)
            sv, si = lax.sort((-V, I), dimension=1, num_keys=2)
            v, i = -sv[:, :4], si[:, :4]
            d *= 2
        return v, i

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(), check_vma=False)(logits)


# %% merged outside of the shard_map exercise="13.8" score=1
@jax.jit
def most_likely(logits):
    def body(block):
        v, i = lax.top_k(block, 4)
        return v, i + lax.axis_index("x") * block.shape[1]

    v, i = jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(logits)
    best, j = lax.top_k(v, 4)
    return best, jnp.take_along_axis(i, j, axis=1)


# %% untiled, and reshaped exercise="13.8" score=0 diagnoses=["rows-mixed", "not-counted-yet"] near=["shape"]
def most_likely(logits):
    def body(block):
        v, i = lax.top_k(block, 4)
        i = i + lax.axis_index("x") * block.shape[1]
        v = lax.all_gather(v, "x").reshape(block.shape[0], -1)
        i = lax.all_gather(i, "x").reshape(block.shape[0], -1)
        best, j = lax.top_k(v, 4)
        return best, jnp.take_along_axis(i, j, axis=1)

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(), check_vma=False)(logits)


# %% the offset counts candidates exercise="13.8" score=0 diagnoses=["offset-of-candidates", "not-counted-yet"] near=["rows-mixed"]
def most_likely(logits):
    def body(block):
        v, i = lax.top_k(block, 4)
        i = i + lax.axis_index("x") * 4
        v = lax.all_gather(v, "x", axis=1, tiled=True)
        i = lax.all_gather(i, "x", axis=1, tiled=True)
        best, j = lax.top_k(v, 4)
        return best, jnp.take_along_axis(i, j, axis=1)

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(), check_vma=False)(logits)


# %% the last four of an ascending order exercise="13.8" score=0 diagnoses=["ascending", "not-counted-yet"] near=["offset-of-candidates"]
def most_likely(logits):
    def body(block):
        v, i = lax.top_k(block, 4)
        i = i + lax.axis_index("x") * block.shape[1]
        v = lax.all_gather(v, "x", axis=1, tiled=True)
        i = lax.all_gather(i, "x", axis=1, tiled=True)
        j = jnp.argsort(v, axis=1)[:, -4:]
        return jnp.take_along_axis(v, j, axis=1), jnp.take_along_axis(i, j, axis=1)

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(), check_vma=False)(logits)


# %% gathered in the body exercise="13.8" score=1
def most_likely(logits):
    def body(block):
        values, places = lax.top_k(block, 4)
        places = places + lax.axis_index("x") * block.shape[1]
        values, places = lax.all_gather((values, places), "x", axis=1, tiled=True)
        best, which = lax.top_k(values, 4)
        return best, jnp.take_along_axis(places, which, axis=1)

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(), check_vma=False)(logits)


# %% what lax.top_k returns, as it is exercise="13.8" score=0 diagnoses=["other-structure"] near=["not-replicated"]
def most_likely(logits):
    def best(block):
        return lax.top_k(block, 4)

    values, places = jax.shard_map(
        best, in_specs=P(None, "x"), out_specs=(P(None, "x"), P(None, "x"))
    )(logits)
    return values, places


# %% chosen in the body exercise="13.8" score=0 diagnoses=["not-replicated"] near=["other-structure"]
def most_likely(logits):
    def best(block):
        v, p = lax.top_k(block, 4)
        p = p + lax.axis_index("x") * block.shape[1]
        v, p = (
            lax.all_gather(v, "x", axis=1, tiled=True),
            lax.all_gather(p, "x", axis=1, tiled=True),
        )
        b, w = lax.top_k(v, 4)
        return b, jnp.take_along_axis(p, w, axis=1)

    return jax.shard_map(best, in_specs=P(None, "x"), out_specs=(P(), P()))(logits)


# %% candidates by argsort, which exchanges them exercise="13.8" score=1 near=["too-many-bytes"]
def most_likely(logits):
    def find(block):
        values, places = lax.top_k(block, 4)
        return values, places + lax.axis_index("x") * block.shape[1]

    columns = P(None, "x")
    values, places = jax.shard_map(find, in_specs=columns, out_specs=columns)(logits)
    order = jnp.argsort(values, axis=1, stable=True, descending=True)[:, :4]
    return jnp.take_along_axis(values, order, axis=1), jnp.take_along_axis(places, order, axis=1)


# %% the last of equal ones in a block exercise="13.8" score=0 diagnoses=["last-of-ties", "not-counted-yet"]
def most_likely(logits):
    def find_best(block):
        order = jnp.argsort(block, axis=1)[:, ::-1][:, :4]
        places = order + lax.axis_index("x") * block.shape[1]
        return jnp.take_along_axis(block, order, axis=1), places

    columns = P(None, "x")
    values, places = jax.shard_map(find_best, in_specs=columns, out_specs=columns)(logits)
    best, which = lax.top_k(values, 4)
    return best, jnp.take_along_axis(places, which, axis=1)


# %% the length of a whole row exercise="13.8" score=0 diagnoses=["offset-of-rows", "not-counted-yet"] near=["offset-of-candidates"]
def most_likely(logits):
    def find_best(block):
        values, places = lax.top_k(block, 4)
        return values, places + lax.axis_index("x") * logits.shape[1]

    columns = P(None, "x")
    values, places = jax.shard_map(find_best, in_specs=columns, out_specs=columns)(logits)
    best, which = lax.top_k(values, 4)
    return best, jnp.take_along_axis(places, which, axis=1)


# %% places by value exercise="13.8" score=0 diagnoses=["place-of-equal", "not-counted-yet"] near=["last-of-ties"]
def most_likely(logits):
    columns = P(None, "x")
    find = jax.shard_map(lambda block: lax.top_k(block, 4)[0], in_specs=columns, out_specs=columns)
    best, _ = lax.top_k(find(logits), 4)
    return best, jnp.argmax(logits[:, None, :] == best[:, :, None], axis=-1)


# %% untiled exercise="13.8" score=0 diagnoses=["shape", "not-counted-yet"] near=["rows-mixed"]
def most_likely(logits):
    def find_best(block):
        values, places = lax.top_k(block, 4)
        places += lax.axis_index("x") * block.shape[1]
        values, places = (lax.all_gather(each, "x") for each in (values, places))
        best, which = lax.top_k(values, 4)
        return best, jnp.take_along_axis(places, which, axis=-1)

    find = jax.shard_map(find_best, in_specs=P(None, "x"), out_specs=P(), check_vma=False)
    return find(logits)


# %% the rows are cut exercise="13.8" score=0.25 diagnoses=["too-many-bytes"]
def most_likely(logits):
    find = jax.shard_map(lambda rows: lax.top_k(rows, 4), in_specs=P("x"), out_specs=P("x"))
    return find(logits)


# %% a loop of its own exercise="13.9" score=1 near=["too-few-turns"]
def count_steps(numbers):
    def body(n):
        def turn(state):
            n, steps = state
            odd = n % 2
            after = (1 - odd) * (n // 2) + odd * (3 * n + 1)
            return jnp.where(n == 1, 1, after), steps + jnp.where(n == 1, 0, 1)

        return lax.while_loop(lambda s: (s[0] != 1).any(), turn, (n, n * 0))[1]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(numbers)


agree = {
    "rows of their own": False,
    "sums inside": True,
    "batch-sharded text": False,
    "tensor-parallel text": True,
}


# %% a fixed number of turns exercise="13.9" score=1
def count_steps(numbers):
    def turn(_, state):
        n, steps = state
        after = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
        return jnp.where(n > 1, after, n), steps + (n > 1)

    return lax.fori_loop(0, 400, turn, (numbers, jnp.zeros_like(numbers)))[1]


agree = dict(zip(agree, (False, True, False, True)))


# %% as it was exercise="13.9" score=0.1666666667 diagnoses=["all-reduce over x", "no-need", "no-need-for-text"] naive=true
def count_steps(numbers):
    return count_all(numbers)


agree = dict.fromkeys(agree, True)


# %% vmap of a loop exercise="13.9" score=0.1666666667 diagnoses=["all-reduce over x", "would-hang", "would-hang-for-text"] near=["no-need", "no-need-for-text"]
def count_steps(numbers):
    def count(n):
        def turn(state):
            n, steps = state
            return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

        return lax.while_loop(lambda state: state[0] > 1, turn, (n, 0))[1]

    return jax.vmap(count)(numbers)


agree = dict.fromkeys(agree, False)


# %% counts for all exercise="13.9" score=0 diagnoses=["of-the-slowest", "not-counted-yet", "no-need", "would-hang", "no-need-for-text", "would-hang-for-text"] near=["all-reduce", "all-turns-counted"]
def count_steps(numbers):
    def body(numbers):
        def turn(state):
            n, steps = state
            return jnp.where(n > 1, jnp.where(n % 2 == 0, n // 2, 3 * n + 1), n), steps + 1

        return lax.while_loop(lambda s: jnp.any(s[0] > 1), turn, (numbers, numbers * 0))[1]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(numbers)


agree = dict(zip(agree, (True, False, True, False)))


# %% two steps as one exercise="13.9" score=0.1666666667 diagnoses=["two-steps-as-one", "not-counted-yet", "no-need-for-text"] near=["of-the-slowest", "would-hang", "would-hang-for-text"]
def count_steps(numbers):
    def body(numbers):
        def turn(state):
            n, steps = state
            after = jnp.where(n % 2 == 0, n // 2, (3 * n + 1) // 2)
            return jnp.where(n > 1, after, n), steps + (n > 1)

        return lax.while_loop(lambda s: jnp.any(s[0] > 1), turn, (numbers, numbers * 0))[1]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(numbers)


agree = dict(zip(agree, (False, True, True, True)))


# %% one too many exercise="13.9" score=0.1666666667 diagnoses=["one-too-many", "not-counted-yet", "would-hang-for-text"] near=["two-steps-as-one"]
def count_steps(numbers):
    return jax.shard_map(lambda n: count_all(n) + 1, in_specs=P("x"), out_specs=P("x"))(numbers)


agree = dict(zip(agree, (False, True, False, False)))


# %% one too few exercise="13.9" score=0.3333333333 diagnoses=["one-too-few", "not-counted-yet"] near=["one-too-many"]
def count_steps(numbers):
    counted = jax.shard_map(count_all, in_specs=P("x"), out_specs=P("x"))(numbers)
    return jnp.maximum(counted - 1, 0)


agree = dict(zip(agree, (False, True, False, True)))


# %% as many turns as 27 takes exercise="13.9" score=0.3333333333 diagnoses=["too-few-turns", "not-counted-yet"] near=["ends-with-the-first", "one-too-few", "count_steps: values"]
def count_steps(numbers):
    def turn(_, s):
        n, k = s
        return jnp.where(n > 1, jnp.where(n % 2 == 0, n // 2, 3 * n + 1), n), k + (n > 1)

    return lax.fori_loop(0, 111, turn, (numbers, jnp.zeros_like(numbers)))[1]


agree = {
    "rows of their own": False,
    "sums inside": True,
    "batch-sharded text": False,
    "tensor-parallel text": True,
}


# %% all in place of any exercise="13.9" score=0.3333333333 diagnoses=["ends-with-the-first", "not-counted-yet"] near=["too-few-turns"]
def count_steps(numbers):
    def loop(numbers):
        def turn(state):
            n, steps = state
            return follow(n), steps + (n > 1)

        start = numbers, jnp.zeros_like(numbers)
        return lax.while_loop(lambda state: jnp.all(state[0] > 1), turn, start)[1]

    return jax.shard_map(loop, in_specs=P("x"), out_specs=P("x"))(numbers)


agree = {
    "rows of their own": False,
    "sums inside": True,
    "batch-sharded text": False,
    "tensor-parallel text": True,
}


# %% 120 turns exercise="13.9" score=0 diagnoses=["too-few-turns", "not-counted-yet", "no-need-for-text", "would-hang-for-text"]
def count_steps(numbers):
    def turn(_, state):
        n, steps = state
        return follow(n), steps + (n > 1)

    return lax.fori_loop(0, 120, turn, (numbers, jnp.zeros_like(numbers)))[1]


agree = {
    "rows of their own": False,
    "sums inside": True,
    "batch-sharded text": True,
    "tensor-parallel text": False,
}


# %% one block for all exercise="13.9" score=0.1666666667 diagnoses=["not-joined", "shape", "not-counted-yet", "no-need"]
def count_steps(numbers):
    count = jax.shard_map(count_all, in_specs=P("x"), out_specs=P(), check_vma=False)
    return count(numbers)


agree = {
    "rows of their own": True,
    "sums inside": True,
    "batch-sharded text": False,
    "tensor-parallel text": True,
}


# %% one after the other exercise="13.9" score=0.4166666667 diagnoses=["replicated", "all-gather over x", "not-counted-yet"] near=["too-much-memory", "all-reduce"]
def count_steps(numbers):
    def count(n):
        steps = lax.while_loop(lambda s: s[0] > 1, lambda s: (follow(s[0]), s[1] + 1), (n, 0))[1]
        return steps

    return lax.map(count, numbers)


agree = {
    "rows of their own": False,
    "sums inside": True,
    "batch-sharded text": False,
    "tensor-parallel text": True,
}


# %% a table exercise="13.9" score=0.5 diagnoses=["too-much-memory"] near=["all-gather over x"]
table = np.zeros(100_001, np.int32)
for n in range(2, len(table)):
    at, steps = n, 0
    while at > 1:
        at, steps = (at // 2 if at % 2 == 0 else 3 * at + 1), steps + 1
        if at < n:
            steps += table[at]
            break
    table[n] = steps


def count_steps(numbers):
    return jnp.asarray(table)[numbers]


agree = {
    "rows of their own": False,
    "sums inside": True,
    "batch-sharded text": False,
    "tensor-parallel text": True,
}


# %% one shard_map exercise="13.10" score=1 near=["nested-shard-map", "all-gather over model"]
def ensemble(x, W):
    def body(x, W):
        return jnp.tanh(jnp.einsum("mbd,mdf->mbf", x, W))

    specs = P("members"), P("members", None, "model")
    return jax.shard_map(body, in_specs=specs, out_specs=P("members", None, "model"))(x, W)


# %% left to the compiler exercise="13.10" score=1
def ensemble(x, W):
    return jnp.tanh(x @ W)


# %% vmap alone exercise="13.10" score=0.25 diagnoses=["replicated-dimension", "all-gather over members"] naive=true
def ensemble(x, W):
    return jax.vmap(multiply)(x, W)


# %% vmap, and a constraint afterwards exercise="13.10" score=0.25 diagnoses=["all-gather over members"]
def ensemble(x, W):
    return lax.with_sharding_constraint(jax.vmap(multiply)(x, W), P("members", None, "model"))


# %% without tanh exercise="13.10" score=0 diagnoses=["not-active", "not-counted-yet"] near=["all-gather over members"]
def ensemble(x, W):
    return jnp.einsum("mbd,mdf->mbf", x, W)


# %% map exercise="13.10" score=0.25 diagnoses=["replicated-dimension", "all-gather over members"] near=["not-active"]
def ensemble(x, W):
    return lax.map(lambda xW: multiply(*xW), (x, W))


# %% a loop of Python exercise="13.10" score=0.25 diagnoses=["replicated-dimension", "all-reduce over members"]
def ensemble(x, W):
    return jnp.stack([multiply(x[i], W[i]) for i in range(len(x))])


# %% all columns on all devices exercise="13.10" score=0.25 diagnoses=["replicated-dimension", "all-gather over model"]
def ensemble(x, W):
    def body(x, W):
        own = jnp.tanh(jnp.einsum("mbd,mdf->mbf", x, W))
        return lax.all_gather(own, "model", axis=2, tiled=True)

    specs = P("members"), P("members", None, "model")
    return jax.shard_map(body, in_specs=specs, out_specs=P("members"), check_vma=False)(x, W)


# %% the axis of the columns exercise="13.10" score=0 diagnoses=["axis-in-specs"]
def ensemble(x, W):
    return jax.vmap(multiply, spmd_axis_name="model")(x, W)


# %% a shard_map over members around it exercise="13.10" score=1 near=["axis-in-specs", "all-gather over members"]
def ensemble(x, W):
    return jax.shard_map(
        jax.vmap(multiply),
        in_specs=(P("members"), P("members")),
        out_specs=P("members"),
        axis_names={"members"},
    )(x, W)


# %% an axis name in place of a mesh axis exercise="13.10" score=0.25 diagnoses=["replicated-dimension", "all-gather over members"]
def ensemble(x, W):
    return jax.vmap(multiply, axis_name="members")(x, W)


# %% members in dimension 1 exercise="13.10" score=0 diagnoses=["reshaped", "shape", "not-counted-yet"] near=["not-joined"]
def ensemble(x, W):
    return jax.vmap(multiply, out_axes=1, spmd_axis_name="members")(x, W)


# %% weights as a part of a sum exercise="13.7" score=0 diagnoses=["unreduced-operand"] near=["one-side-unreduced"]
def accumulate(W, X, Y):
    everywhere = jax.sharding.reshard(W, P(unreduced={"x"}))

    def turn(total, batch):
        return total + jax.grad(error)(everywhere, *batch), None

    return jax.sharding.reshard(lax.scan(turn, jnp.zeros_like(everywhere), (X, Y))[0], P())


# %% weights of all members exercise="13.10" score=0 diagnoses=["blocks-do-not-fit"]
def ensemble(x, W):
    return jax.vmap(multiply, in_axes=(0, None), spmd_axis_name="members")(x, W)


# %% a shard_map around it exercise="13.10" score=0 diagnoses=["nested-shard-map"] near=["blocks-do-not-fit"]
def ensemble(x, W):
    def body(x, W):
        return multiply(x[0], W[0])[None]

    return jax.shard_map(
        body,
        in_specs=(P("members"), P("members", None, "model")),
        out_specs=P("members", None, "model"),
    )(x, W)


# %% slices of the sizes of the notebook exercise="13.10" score=0 diagnoses=["only-the-first", "collective-permute over model"] near=["blocks-do-not-fit"]
def ensemble(x, W):
    return jnp.tanh(x[:, 0:16] @ W[:, :, :64])[:8]


# %% numbers in place of bytes exercise="13.4" score=0.6666666667 diagnoses=["numbers"] near=["over-all", "in-bytes"]
def features(x, frozen, positions, prior):
    return jnp.tanh((x + positions) @ frozen) + prior


cost = {"as an argument": 8, "closed over": 16, "work": 2}


# %% numbers in place of bytes exercise="13.6" score=0 diagnoses=["numbers", "unanswered"] near=["over-all", "axes-swapped"]
peak = {"weights": 192, "gradients": 192, "inputs": 96, "hidden": 192}


# %% the axes of both exchanged exercise="13.6" score=0 diagnoses=["axes-swapped", "unanswered"] near=["one-kind", "over-the-other", "numbers"]
peak = {"weights": 384, "gradients": 384, "inputs": 768, "hidden": 768}


# %% twelve turns counted twice exercise="13.5" score=0.1666666667 diagnoses=["layers-twice", "unanswered"] near=["one-layer", "in-bytes"]
found = {"array": "v", "KiB": 576}


# %% an offset by devices exercise="13.8" score=0 diagnoses=["offset-of-devices", "not-counted-yet"] near=["offset-of-rows", "offset-of-candidates", "offset-of-dimension-0"]
def most_likely(logits):
    def body(block):
        values, places = lax.top_k(block, 4)
        return values, places + lax.axis_index("x") * lax.axis_size("x")

    columns = P(None, "x")
    values, places = jax.shard_map(body, in_specs=columns, out_specs=columns)(logits)
    values, which = lax.top_k(values, 4)
    return values, jnp.take_along_axis(places, which, axis=1)


# %% an offset by rows of the block exercise="13.8" score=0 diagnoses=["offset-of-dimension-0", "not-counted-yet"] near=["offset-of-devices", "offset-of-rows"]
def most_likely(logits):
    def body(block):
        values, places = lax.top_k(block, 4)
        return values, places + lax.axis_index("x") * block.shape[0]

    columns = P(None, "x")
    values, places = jax.shard_map(body, in_specs=columns, out_specs=columns)(logits)
    values, which = lax.top_k(values, 4)
    return values, jnp.take_along_axis(places, which, axis=1)


# %% gradients in a dict exercise="13.6" score=0 diagnoses=["unanswered", "in-a-container", "not-counted-yet"]
def gradients(x, y, up, down):
    def loss(up, down):
        return jnp.sum((lax.scan(jax.checkpoint(block), x, (up, down))[0] - y) ** 2)

    made = jax.grad(loss, argnums=(0, 1))(up, down)
    return {"up": made[0], "down": made[1]}


# %% an inner jit, which is a part of the whole function's program exercise="13.4" score=1
def features(x, frozen, positions, prior):
    @jax.jit
    def inner(x):
        return jnp.tanh((x + positions) @ frozen) + prior

    return inner(x)


cost = {"as an argument": 32, "closed over": 64, "work": 2}

# %% waiting on the host exercise="13.2" score=0.6666666667 diagnoses=["other-memory"] near=["other-devices"]
meets = {
    "a + b": "error",
    "a + numpy": "works",
    "a + fresh": "works",
    "a + placed": "error",
    "jit of both": "error",
    "moved": "works",
    "other axes": "works",
    "other order": "error",
    "host": "error",
}
square = jax.make_mesh((2, 2), ("p", "q"), devices=devices[4:], axis_types=(AxisType.Auto,) * 2)
arrived = jax.device_put(sent, NamedSharding(square, P("p"), memory_kind="pinned_host"))


# %% a stack of a loop exercise="13.10" score=0.25 diagnoses=["replicated-dimension", "all-reduce over members"] near=["all-gather over members", "in-axes"]
def ensemble(x, W):
    return jnp.stack([multiply(x[i], W[i]) for i in range(len(x))])


# %% a mesh axis as in_axes exercise="13.10" score=0 diagnoses=["in-axes"] near=["axis-in-specs", "all-reduce over members", "in-axes-length"]
def ensemble(x, W):
    return jax.vmap(multiply, "members")(x, W)


# %% microbatches reshaped into one exercise="13.7" score=0 diagnoses=["reshape-of-a-sharded-dimension"] near=["all-to-all", "too-much-memory"]
def accumulate(W, X, Y):
    x, y = X.reshape(-1, X.shape[-1]), Y.reshape(-1)
    return len(X) * jax.grad(error)(W, x, y)


# %% microbatches reshaped into one, with a layout exercise="13.7" score=0.25 diagnoses=["all-to-all over x", "too-much-memory"] near=["reshape-of-a-sharded-dimension", "reduce-scatter"]
def accumulate(W, X, Y):
    x = jnp.reshape(X, (-1, X.shape[-1]), out_sharding=P("x"))
    y = jnp.reshape(Y, (-1,), out_sharding=P("x"))
    return len(X) * jax.grad(error)(W, x, y)


# %% microbatches swapped with examples, and reshaped into one exercise="13.7" score=0.25 diagnoses=["too-much-memory"] near=["all-to-all"]
def accumulate(W, X, Y):
    x = X.swapaxes(0, 1).reshape(-1, X.shape[-1])
    y = Y.swapaxes(0, 1).reshape(-1)
    return len(X) * jax.grad(error)(W, x, y)


# %% thirteen inputs, and a loss without targets exercise="13.6" score=0 diagnoses=["thirteen", "without-targets", "not-counted-yet"] near=["in-bytes", "half", "targets-added"]
peak = {"weights": 768, "gradients": 768, "inputs": 416, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        return jnp.sum((lax.scan(jax.checkpoint(block), x, (up, down))[0]) ** 2)

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% targets added exercise="13.6" score=0.3333333333 diagnoses=["targets-added", "not-counted-yet"] near=["without-targets", "thirteen", "half-the-batch"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        return jnp.sum((lax.scan(jax.checkpoint(block), x, (up, down))[0] + y) ** 2)

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% the largest of the places exercise="13.8" score=0 diagnoses=["largest-places", "not-counted-yet"] near=["places-of-device-0", "places-of-candidates"]
def most_likely(logits):
    def find_best(block):
        values, places = lax.top_k(block, 4)
        return values, places + lax.axis_index("x") * block.shape[1]

    columns = P(None, "x")
    values, places = jax.shard_map(find_best, in_specs=columns, out_specs=columns)(logits)
    best, which = lax.top_k(values, 4)
    return best, lax.top_k(places, 4)[0]


# %% the places of the first device exercise="13.8" score=0 diagnoses=["places-of-device-0", "not-counted-yet"] near=["largest-places", "places-in-blocks"]
def most_likely(logits):
    def find_best(block):
        values, places = lax.top_k(block, 4)
        return values, places + lax.axis_index("x") * block.shape[1]

    columns = P(None, "x")
    values, places = jax.shard_map(find_best, in_specs=columns, out_specs=columns)(logits)
    best, which = lax.top_k(values, 4)
    return best, places[:, :4]


# %% three candidates of each device, in any sample exercise="13.8" score=0 diagnoses=["too-few-candidates", "not-counted-yet"] near=["masked-by-a-number"]
def most_likely(logits):
    def body(logits):
        values, indices = lax.top_k(logits, 3)
        return values, indices + lax.axis_index("x") * logits.shape[1]

    spec = P(None, "x")
    values, indices = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, places = lax.top_k(values, 4)
    return values, jnp.take_along_axis(indices, places, axis=1)


# %% rounds of argmax with a mask of zeros exercise="13.8" score=0 diagnoses=["masked-by-a-number", "not-counted-yet"] near=["too-few-candidates"]
def most_likely(logits):
    columns = jnp.arange(logits.shape[1], dtype=jnp.int32)
    values, indices = [], []
    for _ in range(4):
        i = jnp.argmax(logits, axis=1).astype(jnp.int32)
        values.append(logits.max(axis=1))
        indices.append(i)
        logits = jnp.where(columns == i[:, None], 0, logits)
    return jnp.stack(values, 1), jnp.stack(indices, 1)


# %% rounds of argmax with a mask of -10, and the logits looked up exercise="13.8" score=0 diagnoses=["masked-by-a-number", "not-counted-yet"]
def most_likely(logits):
    columns = jnp.arange(logits.shape[1], dtype=jnp.int32)
    left, indices = logits, []
    for _ in range(4):
        indices.append(jnp.argmax(left, axis=1).astype(jnp.int32))
        left = jnp.where(columns == indices[-1][:, None], -10, left)
    values = [jnp.max(jnp.where(columns == i[:, None], logits, -1000), axis=1) for i in indices]
    return jnp.stack(values, 1), jnp.stack(indices, 1)


# %% two out_shardings with the mesh of the notebook exercise="13.3" score=0.25 diagnoses=["split-dimension", "not-counted-yet"] near=["replicated"]
rows = NamedSharding(mesh, P("data"))
step = jax.jit(update, out_shardings=(rows, rows, P()), donate_argnums=(0, 1, 2))


# %% out_shardings of both axes exercise="13.3" score=0.25 diagnoses=["split-dimension", "not-counted-yet"] near=["count-kept", "donated-for-nothing"]
both = P("data", "model")
step = jax.jit(update, out_shardings=(both, both, P()), donate_argnums=(0, 1, 2))


# %% a count that is donated and not used exercise="13.3" score=0 diagnoses=["values", "not-counted-yet", "donated-for-nothing"] near=["not-donated"]
def five(W, moment, count, x, y):
    W, moment, _ = update(W, moment, count, x, y)
    return W, moment, jnp.int32(5)


step = jax.jit(five, out_shardings=(P("data"), P("data"), P()), donate_argnums=(0, 1, 2))


# %% layers without their input exercise="13.6" score=0.3333333333 diagnoses=["no-residual", "not-counted-yet"] near=["all-zeros", "not-squared"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        @jax.checkpoint
        def layer(x, weights):
            return jnp.tanh(x @ weights[0]) @ weights[1], None

        return jnp.sum((lax.scan(layer, x, (up, down))[0] - y) ** 2)

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% a loss without the squares exercise="13.6" score=0.3333333333 diagnoses=["not-squared", "not-counted-yet"] near=["half", "no-residual"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        @jax.checkpoint
        def layer(x, weights):
            return x + jnp.tanh(x @ weights[0]) @ weights[1], None

        return jnp.sum(lax.scan(layer, x, (up, down))[0] - y)

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% a loss of distances, and zeros exercise="13.6" score=0.3333333333 diagnoses=["not-squared", "not-counted-yet"] near=["half"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        @jax.checkpoint
        def layer(x, weights):
            return x + jnp.tanh(x @ weights[0]) @ weights[1], None

        return jnp.sum(jnp.abs(lax.scan(layer, x, (up, down))[0] - y))

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% the loss, too exercise="13.6" score=0.3333 diagnoses=["too-many-results", "shape", "too-many-bytes", "not-counted-yet"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        @jax.checkpoint
        def layer(x, weights):
            return x + jnp.tanh(x @ weights[0]) @ weights[1], None

        return jnp.sum((lax.scan(layer, x, (up, down))[0] - y) ** 2)

    return jax.value_and_grad(loss, argnums=(0, 1))(up, down)


# %% KiB of 1,000 bytes exercise="13.6" score=0.6666666667 diagnoses=["in-kilobytes"] near=["in-bytes", "in-mebibytes", "on-all-together"]
peak = {"weights": 786.432, "gradients": 786.432, "inputs": 393.216, "hidden": 786.432}


def gradients(x, y, up, down):
    def loss(up, down):
        @jax.checkpoint
        def layer(x, weights):
            return x + jnp.tanh(x @ weights[0]) @ weights[1], None

        return jnp.sum((lax.scan(layer, x, (up, down))[0] - y) ** 2)

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% sums over all devices exercise="13.6" score=0.6666666667 diagnoses=["on-all-together"] near=["whole-weights", "not-over-data", "in-kilobytes"]
peak = {"weights": 6144, "gradients": 6144, "inputs": 3072, "hidden": 6144}


def gradients(x, y, up, down):
    def loss(up, down):
        @jax.checkpoint
        def layer(x, weights):
            return x + jnp.tanh(x @ weights[0]) @ weights[1], None

        return jnp.sum((lax.scan(layer, x, (up, down))[0] - y) ** 2)

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% all but the last microbatch exercise="13.7" score=0 diagnoses=["last-missing", "not-counted-yet"] near=["first-missing", "last-microbatch", "losses"]
def accumulate(W, X, Y):
    everywhere = jax.reshard(W, P(reduced={"x"}))

    def turn(total, batch):
        return total + jax.grad(error)(everywhere, *batch), None

    zeros = jax.reshard(jnp.zeros_like(W), P(unreduced={"x"}))
    return jax.reshard(lax.scan(turn, zeros, (X[:-1], Y[:-1]))[0], P())


# %% a sum divided before it is complete exercise="13.7" score=0 diagnoses=["unreduced-operand"] near=["nothing-returned"]
def accumulate(W, X, Y):
    everywhere = jax.reshard(W, P(reduced={"x"}))

    def turn(total, batch):
        return total + jax.grad(error)(everywhere, *batch), None

    zeros = jax.reshard(jnp.zeros_like(W), P(unreduced={"x"}))
    return jax.reshard(lax.scan(turn, zeros, (X, Y))[0] / len(X), P())


# %% the second result of a scan exercise="13.7" score=0 diagnoses=["nothing-returned"] near=["last-microbatch", "losses"]
def accumulate(W, X, Y):
    everywhere = jax.reshard(W, P(reduced={"x"}))

    def turn(total, batch):
        return total + jax.grad(error)(everywhere, *batch), None

    zeros = jax.reshard(jnp.zeros_like(W), P(unreduced={"x"}))
    return lax.scan(turn, zeros, (X, Y))[1]


# %% gradients forgotten, and a complete sum exercise="13.7" score=0 diagnoses=["losses", "not-counted-yet"] near=["mean", "last-missing"]
def accumulate(W, X, Y):
    def turn(total, batch):
        return total + error(W, *batch), None

    return lax.scan(turn, jnp.zeros_like(W), (X, Y))[0]


# %% the values alone exercise="13.8" score=0 diagnoses=["shape", "not-counted-yet"] near=["too-many-results"]
def most_likely(logits):
    def body(logits):
        values, indices = lax.top_k(logits, 4)
        return values, indices + lax.axis_index("x") * logits.shape[1]

    spec = P(None, "x")
    values, indices = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    return lax.top_k(values, 4)[0]


# %% a sum over members exercise="13.10" score=0 diagnoses=["shape", "all-reduce over members"]
def ensemble(x, W):
    return jnp.tanh(jnp.einsum("mbd,mdf->bf", x, W))


# %% only vectors of the optimizer are replicated exercise="13.1" score=0.75 diagnoses=["small-leaf-sharded"] near=["one-index-each"]
def rule(path, shape, sizes):
    if len(shape) < 2 and path[0] == "optimizer":
        return P()
    name = path[-1]
    if name in ("query", "key", "value", "up"):
        axes = ("data", "model")
    elif name in ("out", "down", "embed"):
        axes = ("model", "data")
    else:
        return P()
    whole = [None] * (len(shape) - 2)
    spec = [a if d % sizes[a] == 0 else None for a, d in zip(axes, shape[-2:])]
    return P(*whole, *spec)


# %% a dimension has to be longer than its axis exercise="13.1" score=0.75 diagnoses=["one-index-each"] near=["gave-up", "order-of-sizes"]
def rule(path, shape, sizes):
    if len(shape) < 2:
        return P()
    name = path[-1]
    if name in ("query", "key", "value", "up"):
        axes = ("data", "model")
    elif name in ("out", "down", "embed"):
        axes = ("model", "data")
    else:
        return P()
    spec = [a if d % sizes[a] == 0 and d > sizes[a] else None for a, d in zip(axes, shape[-2:])]
    return P(*[None] * (len(shape) - 2), *spec)


# %% a stack stands under blocks exercise="13.1" score=0.75 diagnoses=["left-replicated"] near=["layers-sharded"]
def rule(path, shape, sizes):
    if len(shape) < 2:
        return P()
    if len(shape) == 3 and "blocks" not in path:
        return P()
    name = path[-1]
    if name in ("query", "key", "value", "up"):
        axes = ("data", "model")
    elif name in ("out", "down", "embed"):
        axes = ("model", "data")
    else:
        return P()
    spec = [a if d % sizes[a] == 0 else None for a, d in zip(axes, shape[-2:])]
    return P(*[None] * (len(shape) - 2), *spec)


# %% an odd number of layers exercise="13.1" score=0.75 diagnoses=["left-replicated"]
def rule(path, shape, sizes):
    if len(shape) < 2:
        return P()
    if len(shape) == 3 and shape[0] % 2:
        return P()
    name = path[-1]
    if name in ("query", "key", "value", "up"):
        axes = ("data", "model")
    elif name in ("out", "down", "embed"):
        axes = ("model", "data")
    else:
        return P()
    spec = [a if d % sizes[a] == 0 else None for a, d in zip(axes, shape[-2:])]
    return P(*[None] * (len(shape) - 2), *spec)


# %% names forgotten exercise="13.1" score=0 diagnoses=["left-replicated"] near=["gave-up", "last-name-but-one", "division-reversed"]
def rule(path, shape, sizes):
    if len(shape) < 2:
        return P()
    name = path[-1]
    if name in ("query", "value"):
        axes = ("data", "model")
    elif name in ("out", "embed"):
        axes = ("model", "data")
    else:
        return P()
    spec = [a if d % sizes[a] == 0 else None for a, d in zip(axes, shape[-2:])]
    return P(*[None] * (len(shape) - 2), *spec)


# %% small leaves are replicated exercise="13.1" score=0.75 diagnoses=["left-replicated"] near=["gave-up", "one-index-each"]
def rule(path, shape, sizes):
    if len(shape) < 2:
        return P()
    if np.prod(shape) < 32:
        return P()
    name = path[-1]
    if name in ("query", "key", "value", "up"):
        axes = ("data", "model")
    elif name in ("out", "down", "embed"):
        axes = ("model", "data")
    else:
        return P()
    spec = [a if d % sizes[a] == 0 else None for a, d in zip(axes, shape[-2:])]
    return P(*[None] * (len(shape) - 2), *spec)


# %% the last name but one exercise="13.1" score=0 diagnoses=["last-name-but-one"] near=["gave-up", "left-replicated"]
def rule(path, shape, sizes):
    if len(shape) < 2:
        return P()
    name = path[-2]
    if name in ("query", "key", "value", "up"):
        axes = ("data", "model")
    elif name in ("out", "down", "embed"):
        axes = ("model", "data")
    else:
        return P()
    spec = [a if d % sizes[a] == 0 else None for a, d in zip(axes, shape[-2:])]
    return P(*[None] * (len(shape) - 2), *spec)


# %% axes in the order of the sizes exercise="13.1" score=0 diagnoses=["order-of-sizes"] near=["axes-swapped", "sizes-exchanged"]
def rule(path, shape, sizes):
    if len(shape) < 2:
        return P()
    name = path[-1]
    if name in ("query", "key", "value", "up"):
        axes = tuple(sizes)
    elif name in ("out", "down", "embed"):
        axes = tuple(sizes)[::-1]
    else:
        return P()
    spec = [a if d % sizes[a] == 0 else None for a, d in zip(axes, shape[-2:])]
    return P(*[None] * (len(shape) - 2), *spec)


# %% 345 turns exercise="13.9" score=0.3333333333 diagnoses=["too-few-turns", "not-counted-yet"] near=["ends-with-number-0"]
def count_steps(numbers):
    def turn(_, state):
        n, steps = state
        return follow(n), steps + (n > 1)

    def count(numbers):
        return lax.fori_loop(0, 345, turn, (numbers, jnp.zeros_like(numbers)))[1]

    return jax.shard_map(count, in_specs=P("x"), out_specs=P("x"))(numbers)


agree = {
    "rows of their own": False,
    "sums inside": True,
    "batch-sharded text": False,
    "tensor-parallel text": True,
}


# %% 325 turns exercise="13.9" score=0.3333333333 diagnoses=["too-few-turns", "not-counted-yet"] near=["numbers-at-the-end"]
def count_steps(numbers):
    def turn(_, state):
        n, steps = state
        return follow(n), steps + (n > 1)

    def count(numbers):
        return lax.fori_loop(0, 325, turn, (numbers, jnp.zeros_like(numbers)))[1]

    return jax.shard_map(count, in_specs=P("x"), out_specs=P("x"))(numbers)


agree = {
    "rows of their own": False,
    "sums inside": True,
    "batch-sharded text": False,
    "tensor-parallel text": True,
}


# %% the first number of a block alone exercise="13.9" score=0.3333333333 diagnoses=["ends-with-number-0", "not-counted-yet"] near=["ends-with-the-first"]
def count_steps(numbers):
    def goes_on(state):
        return state[0][0] > 1

    def turn(state):
        n, steps = state
        return follow(n), steps + (n > 1)

    def count(numbers):
        return lax.while_loop(goes_on, turn, (numbers, jnp.zeros_like(numbers)))[1]

    return jax.shard_map(count, in_specs=P("x"), out_specs=P("x"))(numbers)


agree = {
    "rows of their own": False,
    "sums inside": True,
    "batch-sharded text": False,
    "tensor-parallel text": True,
}


# %% the other half of the state exercise="13.9" score=0.3333333333 diagnoses=["numbers-at-the-end", "not-counted-yet"] near=["ignores-inputs"]
def count_steps(numbers):
    def goes_on(state):
        return jnp.any(state[0] > 1)

    def turn(state):
        n, steps = state
        return follow(n), steps + (n > 1)

    def count(numbers):
        return lax.while_loop(goes_on, turn, (numbers, jnp.zeros_like(numbers)))[0]

    return jax.shard_map(count, in_specs=P("x"), out_specs=P("x"))(numbers)


agree = {
    "rows of their own": False,
    "sums inside": True,
    "batch-sharded text": False,
    "tensor-parallel text": True,
}


# %% donates the batch alone exercise="13.3" score=0.625 diagnoses=["not-donated"] near=["donates-too-much", "values"]
step = jax.jit(update, out_shardings=(P("data"), P("data"), P()), donate_argnums=(3, 4))


# %% donates from the second argument on exercise="13.3" score=0.625 diagnoses=["not-donated"] near=["donates-too-much"]
step = jax.jit(update, out_shardings=(P("data"), P("data"), P()), donate_argnums=(1, 2, 3))


# %% donates the examples for the count exercise="13.3" score=0.625 diagnoses=["not-donated"] near=["donates-too-much"]
step = jax.jit(update, out_shardings=(P("data"), P("data"), P()), donate_argnums=(0, 1, 3))


# %% multiplied by the positions exercise="13.4" score=0.3333333333 diagnoses=["positions-multiplied", "not-counted-yet"] near=["positions-missing"]
def features(x, frozen, positions, prior):
    return jnp.tanh((x * positions) @ frozen) + prior


cost = {"as an argument": 32, "closed over": 64, "work": 2}


# %% no positions at all exercise="13.4" score=0.3333333333 diagnoses=["positions-missing", "not-counted-yet"] near=["positions-multiplied"]
def features(x, frozen, positions, prior):
    return jnp.tanh(x @ frozen) + prior


cost = {"as an argument": 32, "closed over": 64, "work": 2}


# %% kilobytes of 1,000 bytes exercise="13.5" score=0.8333333333 diagnoses=["in-kilobytes"] near=["in-bytes", "sent-by-all"]
found = {"array": "v", "KiB": 49.152}
forward = make_forward(specs | {"v": P("data", None, "model", None)})


# %% all that is sent exercise="13.5" score=0.8333333333 diagnoses=["sent-by-all"] near=["in-kilobytes", "sent", "all-collectives"]
found = {"array": "v", "KiB": 120}
forward = make_forward(specs | {"v": P("data", None, "model", None)})


# %% one spec alone exercise="13.5" score=0.3333333333 diagnoses=["raised"]
found = {"array": "v", "KiB": 48}
forward = make_forward({"v": P("data", None, "model", None)})


# %% gradients for two copies of the weights exercise="13.6" score=0.8888888889 diagnoses=["whole-and-twice"] near=["whole-weights", "compared-with-inputs"]
peak = {"weights": 768, "gradients": 3072, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        return jnp.sum((lax.scan(jax.checkpoint(block), x, (up, down))[0] - y) ** 2)

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% compared with its own input exercise="13.6" score=0.3333333333 diagnoses=["compared-with-inputs", "not-counted-yet"] near=["without-targets", "whole-and-twice"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        return jnp.sum((lax.scan(jax.checkpoint(block), x, (up, down))[0] - x) ** 2)

    return jax.grad(loss, argnums=(0, 1))(up, down)


# %% a mean of the features exercise="13.7" score=0 diagnoses=["mean-of-features", "not-counted-yet"] near=["mean", "divided-by-devices"]
def accumulate(W, X, Y):
    def error(W, x, y):
        return jnp.sum((jnp.tanh(x @ W).mean(axis=1) - y) ** 2) / len(y)

    ready = jax.sharding.reshard(W, P(reduced={"x"}))

    def add(total, batch):
        return total + jax.grad(error)(ready, *batch), None

    nothing = jax.sharding.reshard(jnp.zeros_like(W), P(unreduced={"x"}))
    return jax.sharding.reshard(lax.scan(add, nothing, (X, Y))[0], P())


# %% divided by the features afterwards exercise="13.7" score=0 diagnoses=["off-by-a-factor", "not-counted-yet"] near=["mean-of-features"]
def accumulate(W, X, Y):
    def error(W, x, y):
        return jnp.sum((jnp.tanh(x @ W).sum(axis=1) - y) ** 2) / len(y)

    ready = jax.sharding.reshard(W, P(reduced={"x"}))

    def add(total, batch):
        return total + jax.grad(error)(ready, *batch), None

    nothing = jax.sharding.reshard(jnp.zeros_like(W), P(unreduced={"x"}))
    return jax.sharding.reshard(lax.scan(add, nothing, (X, Y))[0], P()) / W.shape[1]


# %% blocks counted from 1 exercise="13.8" score=0 diagnoses=["offset-of-next-block", "not-counted-yet"] near=["blocks-backwards", "offset-of-rows"]
def most_likely(logits):
    def body(block):
        values, places = lax.top_k(block, 4)
        return values, places + (lax.axis_index("x") + 1) * block.shape[1]

    columns = P(None, "x")
    values, places = jax.shard_map(body, in_specs=columns, out_specs=columns)(logits)
    best, which = lax.top_k(values, 4)
    return best, jnp.take_along_axis(places, which, axis=1)


# %% blocks counted from the last device exercise="13.8" score=0 diagnoses=["blocks-backwards", "not-counted-yet"] near=["offset-of-next-block", "maximum-of-each-place"]
def most_likely(logits):
    def body(block):
        values, places = lax.top_k(block, 4)
        return values, places + (lax.axis_size("x") - 1 - lax.axis_index("x")) * block.shape[1]

    columns = P(None, "x")
    values, places = jax.shard_map(body, in_specs=columns, out_specs=columns)(logits)
    best, which = lax.top_k(values, 4)
    return best, jnp.take_along_axis(places, which, axis=1)


# %% chosen in bfloat16 exercise="13.8" score=0 diagnoses=["dtype", "not-counted-yet"]
def most_likely(logits):
    def body(block):
        values, places = lax.top_k(block.astype(jnp.bfloat16), 4)
        return values, places + lax.axis_index("x") * block.shape[1]

    columns = P(None, "x")
    values, places = jax.shard_map(body, in_specs=columns, out_specs=columns)(logits)
    best, which = lax.top_k(values, 4)
    return best, jnp.take_along_axis(places, which, axis=1)


# %% an approximate choice, for floats alone exercise="13.8" score=0 diagnoses=["only-the-first"]
def most_likely(logits):
    def body(block):
        values, places = lax.approx_max_k(block, 4)
        return values, places + lax.axis_index("x") * block.shape[1]

    columns = P(None, "x")
    values, places = jax.shard_map(body, in_specs=columns, out_specs=columns)(logits)
    best, which = lax.top_k(values, 4)
    return best, jnp.take_along_axis(places, which, axis=1)


# %% the maximum of each place exercise="13.8" score=0 diagnoses=["maximum-of-each-place", "not-counted-yet"] near=["largest-places", "too-few-candidates"]
def most_likely(logits):
    def body(block):
        values, places = lax.top_k(block, 4)
        places = places + lax.axis_index("x") * block.shape[1]
        return lax.pmax(values, "x"), lax.pmax(places, "x")

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P())(logits)


# %% tanh once more exercise="13.10" score=0 diagnoses=["active-twice", "not-counted-yet"] near=["not-active"]
def ensemble(x, W):
    return jnp.tanh(jax.vmap(multiply, spmd_axis_name="members")(x, W))


# %% a matmul in place of multiply exercise="13.10" score=0 diagnoses=["not-active", "not-counted-yet"] near=["active-twice", "raised"]
def ensemble(x, W):
    return jax.vmap(jnp.matmul)(x, W)


# %% mapped over dimension 1 exercise="13.10" score=0 diagnoses=["raised"]
def ensemble(x, W):
    return jax.vmap(multiply, in_axes=1, spmd_axis_name="members")(x, W)


# %% a constant that stays in the program, though nothing comes of it exercise="13.4" score=0.8333 diagnoses=["too-much-memory"] near=["closed-over-frozen"]
kept = frozen


def features(x, frozen, positions, prior):
    weights = jnp.where(positions[0, 0] > 1e30, kept, frozen)
    return jnp.tanh((x + positions) @ weights) + prior


cost = {"as an argument": 32, "closed over": 64, "work": 2}

# %% a name that is contained in a string of names exercise="13.1" score=0.75 diagnoses=["small-leaf-sharded"] near=["axes-swapped"]
T = {
    **dict.fromkeys(("query", "key", "value", "up"), ("data", "model")),
    **dict.fromkeys(("out", "down", "embed"), ("model", "data")),
}


def rule(path, shape, sizes):
    if len(shape) < 2 or path[-1] not in "query key value up out down embed":
        return P()
    return P(
        *[None] * (len(shape) - 2),
        *[
            a if n % sizes[a] == 0 else None
            for a, n in zip(
                (("data", "model") if path[-1] in "query key value up" else ("model", "data")),
                shape[-2:],
            )
        ],
    )


# %% only two slots of the optimizer have rules exercise="13.1" score=0.75 diagnoses=["left-replicated"] near=["gave-up"]
T = {
    **dict.fromkeys(("query", "key", "value", "up"), ("data", "model")),
    **dict.fromkeys(("out", "down", "embed"), ("model", "data")),
}


def rule(path, shape, sizes):
    if (
        path[0] == "optimizer"
        and path[1] not in ("mu", "nu")
        or len(shape) < 2
        or path[-1] not in T
    ):
        return P()
    return P(
        *[None] * (len(shape) - 2),
        *[a if n % sizes[a] == 0 else None for a, n in zip(T[path[-1]], shape[-2:])],
    )


# %% the old moment is not used exercise="13.3" score=0 diagnoses=["values", "not-counted-yet", "donated-for-nothing"] near=["not-donated"]
@jax.jit(donate_argnums=(0, 1, 2), out_shardings=(P("data"), P("data"), P()))
def step(W, moment, count, x, y):
    return update(W, jnp.zeros_like(W), count, x, y)


# %% places in int16 exercise="13.8" score=0 diagnoses=["only-the-first", "not-counted-yet"]
def most_likely(logits):
    def body(block):
        v, i = lax.top_k(block, 4)
        return v, (i + lax.axis_index("x") * block.shape[1]).astype(jnp.int16)

    v, i = jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(logits)
    best, which = lax.top_k(v, 4)
    return best, jnp.take_along_axis(i, which, 1).astype(jnp.int32)


# %% sorted by place exercise="13.8" score=0 diagnoses=["in-order-of-places", "not-counted-yet"] near=["ascending"]
def most_likely(logits):
    def body(block):
        v, i = lax.top_k(block, 4)
        return v, i + lax.axis_index("x") * block.shape[1]

    v, i = jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(logits)
    best, which = lax.top_k(v, 4)
    which = jnp.sort(which, axis=1)
    return jnp.take_along_axis(v, which, 1), jnp.take_along_axis(i, which, 1)


# %% the number of steps as a float exercise="13.3" score=0 diagnoses=["dtype", "not-counted-yet"]
@jax.jit(donate_argnums=(0, 1, 2), out_shardings=(P("data"), P("data"), P()))
def step(W, moment, count, x, y):
    W, moment, count = update(W, moment, count, x, y)
    return W, moment, count + 0.0


# %% the results in a dict exercise="13.3" score=0 diagnoses=["in-a-container", "not-counted-yet"]
@jax.jit(
    donate_argnums=(0, 1, 2), out_shardings={"W": P("data"), "moment": P("data"), "count": P()}
)
def step(W, moment, count, x, y):
    return dict(zip(("W", "moment", "count"), update(W, moment, count, x, y)))


# %% two Nones for every other leaf exercise="13.1" score=0.5 diagnoses=["too-many-entries"] near=["small-leaf-sharded"]
def rule(path, shape, sizes):
    axes = dict.fromkeys(("query", "key", "value", "up"), ("data", "model"))
    axes |= dict.fromkeys(("out", "down", "embed"), ("model", "data"))
    if path[-1] not in axes:
        return P(None, None)
    if len(shape) < 2:
        return P(None)
    pairs = zip(shape[-2:], axes[path[-1]], strict=True)
    entries = (axis if size % sizes[axis] == 0 else None for size, axis in pairs)
    return P(*[None] * (len(shape) - 2), *entries)


# %% three entries for every leaf exercise="13.1" score=0 diagnoses=["too-many-entries"] near=["other-layout"]
def rule(path, shape, sizes):
    axes = dict.fromkeys(("query", "key", "value", "up"), ("data", "model"))
    axes |= dict.fromkeys(("out", "down", "embed"), ("model", "data"))
    first, second = axes.get(path[-1], (None, None))
    if len(shape) < 2:
        return P(None, None, None)
    first = first if first and shape[-2] % sizes[first] == 0 else None
    second = second if second and shape[-1] % sizes[second] == 0 else None
    return P(first, second, None) if len(shape) == 2 else P(None, first, second)


# %% the difference of the two peaks, positions later exercise="13.4" score=0.8333 diagnoses=["difference-of-peaks"] near=["peak-memory"]
def features(x, frozen, positions, prior):
    return jnp.tanh(x @ frozen + positions @ frozen) + prior


cost = {"as an argument": 32, "closed over": 96, "work": 2}


# %% the larger of the two peaks exercise="13.4" score=0.8333 diagnoses=["peak-memory"] near=["difference-of-peaks"]
def features(x, frozen, positions, prior):
    return jnp.tanh((x + positions) @ frozen) + prior


cost = {"as an argument": 32, "closed over": 224, "work": 2}


# %% all equal logits masked at once exercise="13.8" score=0 diagnoses=["each-value-once", "not-counted-yet"] near=["last-of-ties", "masked-by-a-number"]
def most_likely(logits):
    values, places, left = [], [], logits
    lowest = jnp.iinfo(left.dtype).min if left.dtype == jnp.int32 else -jnp.inf
    for _ in range(4):
        value = left.max(axis=1)
        values.append(value)
        places.append(jnp.argmax(left, axis=1))
        left = jnp.where(left == value[:, None], lowest, left)
    return jnp.stack(values, 1), jnp.stack(places, 1)


# %% a fixed number of turns, by the rule alone exercise="13.9" score=0.3333 diagnoses=["values", "not-counted-yet"] near=["too-few-turns", "of-the-slowest"]
def count_steps(numbers):
    def turn(_, state):
        n, steps = state
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + (n > 1)

    return lax.fori_loop(0, 400, turn, (numbers, jnp.zeros_like(numbers)))[1]


agree = {
    "rows of their own": False,
    "sums inside": True,
    "batch-sharded text": False,
    "tensor-parallel text": True,
}


# %% one entry in in_axes exercise="13.10" score=0 diagnoses=["in-axes-length"] near=["in-axes", "raised"]
def ensemble(x, W):
    return jax.vmap(multiply, in_axes=(0,), spmd_axis_name="members")(x, W)


# %% a loop that never ends, as 1 goes on to 4 exercise="13.9" score=0 diagnoses=["endless-loop", "unanswered"] near=["count_steps: values"]
def count_steps(numbers):
    def body(numbers):
        def turn(state):
            n, steps = state
            return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + (n > 1)

        start = numbers, jnp.zeros_like(numbers)
        return lax.while_loop(lambda state: jnp.any(state[0] > 1), turn, start)[1]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(numbers)


# %% all turns of a fixed number are counted exercise="13.9" score=0 diagnoses=["all-turns-counted", "not-counted-yet", "unanswered"] near=["ignores-inputs", "endless-loop"]
def count_steps(numbers):
    def body(numbers):
        start = numbers, jnp.zeros_like(numbers)
        return lax.fori_loop(0, 400, lambda i, s: (follow(s[0]), s[1] + 1), start)[1]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(numbers)


# %% all turns are counted up to a limit exercise="13.9" score=0 diagnoses=["all-turns-counted", "not-counted-yet", "unanswered"]
def count_steps(numbers):
    def body(numbers):
        def turn(state):
            n, steps = state
            return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

        start = numbers, jnp.zeros_like(numbers)
        return lax.while_loop(
            lambda state: jnp.any(state[0] > 1) & (state[1][0] < 2000), turn, start
        )[1]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(numbers)


# %% the axis divided by the dimension exercise="13.1" score=0 diagnoses=["division-reversed"] near=["left-replicated"]
def rule(path, shape, sizes):
    if path[-1] in ("query", "key", "value", "up"):
        spec = ["data", "model"]
    elif path[-1] in ("out", "down", "embed"):
        spec = ["model", "data"]
    else:
        return P()
    if len(shape) < 2:
        return P()
    spec = [a if sizes[a] % d == 0 else None for d, a in zip(shape[-2:], spec)]
    return P(*[None] * (len(shape) - 2), *spec)


# %% an axis for what it does not divide exercise="13.1" score=0 diagnoses=["division-reversed"] near=["does-not-divide"]
def rule(path, shape, sizes):
    if path[-1] in ("query", "key", "value", "up"):
        spec = ["data", "model"]
    elif path[-1] in ("out", "down", "embed"):
        spec = ["model", "data"]
    else:
        return P()
    if len(shape) < 2:
        return P()
    spec = [None if d % sizes[a] == 0 else a for d, a in zip(shape[-2:], spec)]
    return P(*[None] * (len(shape) - 2), *spec)


# %% the last name but one, if there is one in the middle exercise="13.1" score=0 diagnoses=["last-name-but-one"]
def rule(path, shape, sizes):
    name = path[-2] if len(path) > 2 else path[-1]
    if name in ("query", "key", "value", "up"):
        spec = ["data", "model"]
    elif name in ("out", "down", "embed"):
        spec = ["model", "data"]
    else:
        return P()
    if len(shape) < 2:
        return P()
    spec = [a if d % sizes[a] == 0 else None for d, a in zip(shape[-2:], spec)]
    return P(*[None] * (len(shape) - 2), *spec)


# %% tanh forgotten exercise="13.4" score=0 diagnoses=["tanh-missing", "not-counted-yet", "unanswered"] near=["positions-after-tanh"]
def features(x, frozen, positions, prior):
    return (x + positions) @ frozen + prior


# %% positions outside of tanh exercise="13.4" score=0 diagnoses=["positions-after-tanh", "not-counted-yet", "unanswered"] near=["tanh-missing", "positions-missing"]
def features(x, frozen, positions, prior):
    return jnp.tanh(x @ frozen) + positions @ frozen + prior


# %% the way there, twice exercise="13.5" score=0.1667 diagnoses=["both-ways-alike", "unanswered"]
found = {"array": "v", "KiB": 72}

# %% the way there alone exercise="13.5" score=0.1667 diagnoses=["first-only", "unanswered"] near=["both-ways-alike"]
found = {"array": "v", "KiB": 36}


# %% two halves of the examples exercise="13.6" score=0.1667 diagnoses=["unanswered", "collective-permute over data", "too-much-memory"] near=["all-gather over data", "all-reduce over parts of axes"]
def gradients(x, y, up, down):
    def loss(up, down, x, y):
        return jnp.sum((lax.scan(jax.checkpoint(block), x, (up, down))[0] - y) ** 2)

    half = len(x) // 2
    first = jax.grad(loss, argnums=(0, 1))(up, down, x[:half], y[:half])
    second = jax.grad(loss, argnums=(0, 1))(up, down, x[half:], y[half:])
    return first[0] + second[0], first[1] + second[1]


# %% two microbatches of consecutive examples exercise="13.6" score=0.1667 diagnoses=["unanswered", "all-reduce over parts of axes", "too-much-memory"] near=["collective-permute over data", "too-many-bytes"]
def gradients(x, y, up, down):
    def loss(up, down, x, y):
        return jnp.sum((lax.scan(jax.checkpoint(block), x, (up, down))[0] - y) ** 2)

    def turn(total, batch):
        return jax.tree.map(jnp.add, total, jax.grad(loss, argnums=(0, 1))(up, down, *batch)), None

    batches = x.reshape(2, -1, x.shape[-1]), y.reshape(2, -1, y.shape[-1])
    return lax.scan(turn, (jnp.zeros_like(up), jnp.zeros_like(down)), batches)[0]


# %% tanh of the examples exercise="13.10" score=0 diagnoses=["active-too-early", "not-counted-yet"] near=["not-active"]
def ensemble(x, W):
    def body(x, W):
        return jnp.tanh(x) @ W

    out_specs = P("members", None, "model")
    return jax.shard_map(body, in_specs=(P("members"), out_specs), out_specs=out_specs)(x, W)


# %% the weights of a device's first member exercise="13.10" score=0 diagnoses=["weights-of-first-member", "not-counted-yet"] near=["active-too-early"]
def ensemble(x, W):
    def body(x, W):
        return jnp.tanh(x @ W[0])

    out_specs = P("members", None, "model")
    return jax.shard_map(body, in_specs=(P("members"), out_specs), out_specs=out_specs)(x, W)


# %% the weights of the first member, without tanh exercise="13.10" score=0 diagnoses=["weights-of-first-member", "not-counted-yet", "all-reduce over members"]
def ensemble(x, W):
    return x @ W[0]


# %% one member of each device exercise="13.10" score=0 diagnoses=["shape", "not-counted-yet"] near=["weights-of-first-member", "all-reduce over model"]
def ensemble(x, W):
    def body(x, W):
        return jnp.tanh(x[0] @ W[0])[None]

    out_specs = P("members", None, "model")
    return jax.shard_map(body, in_specs=(P("members"), out_specs), out_specs=out_specs)(x, W)


# %% rows of the weights over model exercise="13.10" score=0.25 diagnoses=["replicated-dimension", "all-reduce over model"] near=["all-reduce over members", "shape"]
def ensemble(x, W):
    def body(x, W):
        return jnp.tanh(lax.psum(x @ W, "model"))

    in_specs = P("members", None, "model"), P("members", "model")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("members"))(x, W)


# %% microbatches by a reshape, scanned exercise="13.6" score=0.5 diagnoses=["all-gather over data", "too-much-memory"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    xs = x.reshape(4, -1, x.shape[1])
    ys = y.reshape(4, -1, y.shape[1])

    def turn(total, batch):
        g = jax.grad(loss, argnums=(0, 1))(up, down, *batch)
        return jax.tree.map(jnp.add, total, g), None

    return lax.scan(turn, (jnp.zeros_like(up), jnp.zeros_like(down)), (xs, ys))[0]


# %% the first four candidates exercise="13.8" score=0 diagnoses=["first-device-alone", "not-counted-yet"] near=["indices-of-row-0"]
def most_likely(logits):
    def body(block):
        values, indices = lax.top_k(block, 4)
        return values, indices + lax.axis_index("x") * block.shape[1]

    spec = P(None, "x")
    values, indices = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    return values[:, :4], indices[:, :4]


# %% indices of row 0 exercise="13.8" score=0 diagnoses=["indices-of-row-0", "not-counted-yet"] near=["indices-sorted"]
def most_likely(logits):
    def body(block):
        values, indices = lax.top_k(block, 4)
        return values, indices + lax.axis_index("x") * block.shape[1]

    spec = P(None, "x")
    values, indices = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    best, where = lax.top_k(values, 4)
    return best, indices[0][where]


# %% indices in order exercise="13.8" score=0 diagnoses=["indices-sorted", "not-counted-yet"] near=["first-device-alone"]
def most_likely(logits):
    def body(block):
        values, indices = lax.top_k(block, 4)
        return values, indices + lax.axis_index("x") * block.shape[1]

    spec = P(None, "x")
    values, indices = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    best, where = lax.top_k(values, 4)
    return best, jnp.sort(jnp.take_along_axis(indices, where, axis=1), axis=1)


# %% gradients of other layers on other devices exercise="13.6" score=0.4166666667 diagnoses=["split-dimension", "not-counted-yet"] near=["replicated"]
peak = {"weights": 768, "gradients": 768, "inputs": 384, "hidden": 768}


def gradients(x, y, up, down):
    def loss(up, down):
        made, _ = lax.scan(jax.checkpoint(block), x, (up, down))
        return jnp.sum((made - y) ** 2)

    specs = P("data", None, "model"), P("data", "model")
    made = jax.grad(loss, argnums=(0, 1))(up, down)
    return tuple(map(lax.with_sharding_constraint, made, specs))


# %% reduced in each turn, from an unreduced start exercise="13.7" score=0 diagnoses=["carry-changes"] near=["carry-unreduced"]
def accumulate(W, X, Y):
    varying = jax.reshard(W, P(reduced={"x"}))

    def turn(total, batch):
        return jax.reshard(total + jax.grad(error)(varying, *batch), P()), None

    zeros = jax.reshard(jnp.zeros_like(W), P(unreduced={"x"}))
    return lax.scan(turn, zeros, (X, Y))[0]


# %% an unreduced sum, from a complete start exercise="13.7" score=0 diagnoses=["carry-unreduced"] near=["carry-changes"]
def accumulate(W, X, Y):
    varying = jax.reshard(W, P(reduced={"x"}))

    def turn(total, batch):
        total = jax.reshard(total, P(unreduced={"x"}))
        return total + jax.grad(error)(varying, *batch), None

    return jax.reshard(lax.scan(turn, jnp.zeros_like(W), (X, Y))[0], P())


# %% the largest counts of all devices exercise="13.9" score=0 diagnoses=["own-results", "not-counted-yet", "all-reduce over x", "unanswered"] near=["all-turns-counted"]
def count_steps(numbers):
    def own(numbers):
        def turn(state):
            n, count = state
            after = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
            return jnp.where(n > 1, after, n), count + (n > 1)

        start = numbers, jnp.zeros_like(numbers)
        _, count = lax.while_loop(lambda state: jnp.any(state[0] > 1), turn, start)
        return lax.pmax(count, "x")

    return jax.shard_map(own, in_specs=P("x"), out_specs=P("x"))(numbers)


# %% numbers that are float32 exercise="13.9" score=0 diagnoses=["rounded-on-the-way", "not-counted-yet", "unanswered"] near=["too-few-turns", "too-large-on-the-way"]
def count_steps(numbers):
    def own(numbers):
        def turn(state):
            n, count = state
            after = jnp.where(n % 2 == 0, n / 2, 3 * n + 1)
            return jnp.where(n > 1, after, n), count + (n > 1)

        start = numbers.astype(jnp.float32), jnp.zeros_like(numbers, jnp.int32)
        _, count = lax.while_loop(lambda state: jnp.any(state[0] > 1), turn, start)
        return count.astype(jnp.int32)

    return jax.shard_map(own, in_specs=P("x"), out_specs=P("x"))(numbers)


# %% numbers that are int16 exercise="13.9" score=0 diagnoses=["too-large-on-the-way", "not-counted-yet", "unanswered"] near=["count_steps: values"]
def count_steps(numbers):
    def own(numbers):
        def turn(state):
            n, count = state
            after = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
            return jnp.where(n > 1, after, n), count + (n > 1)

        start = numbers.astype(jnp.int16), jnp.zeros_like(numbers, jnp.int32)
        _, count = lax.while_loop(lambda state: jnp.any(state[0] > 1), turn, start)
        return count.astype(jnp.int32)

    return jax.shard_map(own, in_specs=P("x"), out_specs=P("x"))(numbers)


# %% counts that are int8 exercise="13.9" score=0 diagnoses=["too-large-on-the-way", "not-counted-yet", "unanswered"] near=["rounded-on-the-way"]
def count_steps(numbers):
    def own(numbers):
        def turn(state):
            n, count = state
            after = jnp.where(n % 2 == 0, n // 2, 3 * n + 1)
            return jnp.where(n > 1, after, n), count + (n > 1)

        start = numbers.astype(jnp.int32), jnp.zeros_like(numbers, jnp.int8)
        _, count = lax.while_loop(lambda state: jnp.any(state[0] > 1), turn, start)
        return count.astype(jnp.int32)

    return jax.shard_map(own, in_specs=P("x"), out_specs=P("x"))(numbers)


# %% a stack has no number in its path exercise="13.1" score=0.5 diagnoses=["too-many-entries", "layers-sharded"]
def rule(path, shape, sizes):
    if len(shape) < 2:
        return P()
    axes = ("model", "data") if path[-1] in ("out", "down", "embed") else ("data", "model")
    if path[-1] not in ("query", "key", "value", "up", "out", "down", "embed"):
        return P()
    used = [a if n % sizes[a] == 0 else None for a, n in zip(axes, shape[-2:])]
    is_stacked = "embed" not in path and not any(isinstance(name, int) for name in path)
    return P(None, *used) if is_stacked else P(*used)


# %% members of all devices in one place exercise="13.10" score=0 diagnoses=["not-joined", "shape", "not-counted-yet"] near=["all-to-all over model"]
def ensemble(x, W):
    return jax.shard_map(
        lambda x, W: jnp.tanh(x @ W),
        in_specs=(P("members"), P("members", None, "model")),
        out_specs=P(None, None, "model"),
        check_vma=False,
    )(x, W)


# %% rows of W exercise="13.10" score=0 diagnoses=["shape", "all-to-all over model"] near=["not-joined"]
def ensemble(x, W):
    return jax.shard_map(
        lambda x, W: jnp.tanh(x @ W),
        in_specs=(P("members", None, "model"), P("members", "model")),
        out_specs=P("members", None, "model"),
    )(x, W)


# %% the offset of a candidate's place in its block exercise="13.8" score=0 diagnoses=["offset-of-place", "not-counted-yet"] near=["offset-of-devices"]
def most_likely(logits):
    def own(block):
        return tuple(lax.top_k(block, 4))

    values, places = jax.shard_map(own, in_specs=P(None, "x"), out_specs=P(None, "x"))(logits)
    block = logits.shape[1] // (values.shape[1] // 4)
    best, which = lax.top_k(values, 4)
    return best, jnp.take_along_axis(places, which, axis=1) + which % 4 * block


# %% over data, in MiB, the table computed exercise="13.4" score=0 diagnoses=["closed-over-positions", "not-counted-yet", "over-data", "in-mebibytes"] near=["of-data"]
cost = {"as an argument": 16, "closed over": 0.0625, "work": 2}


def features(x, frozen, positions, prior):
    at, width = jnp.arange(x.shape[1])[:, None], x.shape[2]
    angles = at / 10_000 ** (jnp.arange(0, width, 2) / width)
    table = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)
    return jnp.tanh((x + table) @ frozen) + prior


# %% as an argument, in MiB exercise="13.4" score=0.8333 diagnoses=["in-mebibytes"] near=["over-data", "offset-of-place"]
cost = {"as an argument": 1 / 32, "closed over": 64, "work": 2}


def features(x, frozen, positions, prior):
    return jnp.tanh((x + positions) @ frozen) + prior


# %% the examples of the first member exercise="13.10" score=0 diagnoses=["examples-of-first-member", "not-counted-yet"] near=["weights-of-first-member", "weights-added"]
def ensemble(x, W):
    return jax.shard_map(
        lambda x, W: jnp.tanh(x[0] @ W),
        in_specs=(P("members"), P("members", None, "model")),
        out_specs=P("members", None, "model"),
    )(x, W)


# %% an einsum that adds up members exercise="13.10" score=0 diagnoses=["weights-added", "not-counted-yet"] near=["examples-of-first-member"]
def ensemble(x, W):
    return jax.shard_map(
        lambda x, W: jnp.tanh(jnp.einsum("mij,njk->mik", x, W)),
        in_specs=(P("members"), P("members", None, "model")),
        out_specs=P("members", None, "model"),
    )(x, W)


# %% row 0's places in all rows exercise="13.8" score=0 diagnoses=["places-of-row-0", "not-counted-yet"] near=["indices-of-row-0"]
def most_likely(logits):
    def own(block):
        values, places = lax.top_k(block, 4)
        return values, places + lax.axis_index("x") * block.shape[1]

    values, places = jax.shard_map(own, in_specs=P(None, "x"), out_specs=P(None, "x"))(logits)
    best, where = lax.top_k(values, 4)
    return best, places[:, where][:, 0]


# %% columns of all rows exercise="13.8" score=0 diagnoses=["columns-of-all-rows", "not-counted-yet"] near=["places-of-row-0"]
def most_likely(logits):
    def own(block):
        values, places = lax.top_k(block, 4)
        return values, places + lax.axis_index("x") * block.shape[1]

    values, places = jax.shard_map(own, in_specs=P(None, "x"), out_specs=P(None, "x"))(logits)
    best, where = lax.top_k(values, 4)
    return best, jnp.take(places, where, axis=1)


# %% whole rows exercise="13.8" score=0 diagnoses=["rows-for-places", "not-counted-yet"] near=["dtype", "columns-of-all-rows"]
def most_likely(logits):
    def own(block):
        values, places = lax.top_k(block, 4)
        return values, places + lax.axis_index("x") * block.shape[1]

    values, places = jax.shard_map(own, in_specs=P(None, "x"), out_specs=P(None, "x"))(logits)
    best, where = lax.top_k(values, 4)
    return best, places[where]


# %% the indices first exercise="13.8" score=0 diagnoses=["dtype", "not-counted-yet"] near=["rows-for-places"]
def most_likely(logits):
    def own(block):
        values, places = lax.top_k(block, 4)
        return values, places + lax.axis_index("x") * block.shape[1]

    values, places = jax.shard_map(own, in_specs=P(None, "x"), out_specs=P(None, "x"))(logits)
    best, where = lax.top_k(values, 4)
    return jnp.take_along_axis(places, where, axis=1), best


# %% the row of the first position for all exercise="13.4" score=0.3333 diagnoses=["first-position", "not-counted-yet"] near=["positions-missing", "prior-multiplied"]
cost = {"as an argument": 32, "closed over": 64, "work": 2}


def features(x, frozen, positions, prior):
    return jnp.tanh((x + positions[0]) @ frozen) + prior


# %% multiplied by the prior exercise="13.4" score=0.3333 diagnoses=["prior-multiplied", "not-counted-yet"] near=["prior-missing", "first-position"]
cost = {"as an argument": 32, "closed over": 64, "work": 2}


def features(x, frozen, positions, prior):
    return jnp.tanh((x + positions) @ frozen) * prior


# %% the count as it came exercise="13.3" score=0 diagnoses=["count-kept", "not-counted-yet", "not-donated"] near=["values"]
def advance(W, moment, count, x, y):
    W, moment, _ = update(W, moment, count, x, y)
    return W, moment, count


def step(W, moment, count, x, y):
    made = jax.jit(advance, out_shardings=(P("data"), P("data"), P()), donate_argnums=(0, 1, 2))
    return made(W, moment, count, x, y)
