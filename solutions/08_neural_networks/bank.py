# %% [markdown]
# Known answers to the exercises of notebook 08. A cell stands below what the exercise's cell was
# handed out with.

# %% a mesh of two axes, both for the examples exercise="8.1" score=1
folded = jax.make_mesh((2, 4), ("host", "chip"), axis_types=(AUTO,) * 2)
data_parallel = [on(folded)] * 4 + [on(folded, ("host", "chip"), None)] * 2

# %% nothing cut exercise="8.1" score=0 diagnoses=["layout of X and Y"] naive=true
data_parallel = (on(data),) * 6

# %% the answers not cut exercise="8.1" score=0 diagnoses=["over-the-cap"] near=["layout of X", "layout of X and Y"]
data_parallel = (*(on(data),) * 4, on(data, "data"), on(data))

# %% the features cut exercise="8.1" score=0 diagnoses=["layout of X and Y"] near=["over-the-cap"]
whole, features = on(data), on(data, None, "data")
data_parallel = (whole, whole, whole, whole, features, features)

# %% the features cut, and the weights with them exercise="8.1" score=0 diagnoses=["too-many-bytes"] near=["all-gather"]
data_parallel = (
    on(data, "data"),
    on(data),
    on(data, None, "data"),
    on(data, "data"),
    on(data, None, "data"),
    on(data, None, "data"),
)

# %% the answers cut along classes exercise="8.1" score=0 diagnoses=["all-gather over data"] near=["too-many-bytes"]
data_parallel = (*(on(data),) * 4, on(data, "data"), on(data, None, "data"))

# %% a sharding for the parameters and one for the examples exercise="8.1" score=0 diagnoses=["number-of-shardings"]
data_parallel = (on(data), on(data, "data"))

# %% the parameters cut as well, as in FSDP exercise="8.1" score=0 diagnoses=["all-gather over data"]
data_parallel = (on(data, "data"),) * 6

# %% the weights cut, and the examples whole exercise="8.1" score=0 diagnoses=["over-the-cap"] near=["another-order"]
whole = on(data)
data_parallel = (on(data, None, "data"), on(data, "data"), on(data, "data"), whole, whole, whole)

# %% the examples first, then the parameters exercise="8.1" score=0 diagnoses=["another-order"] near=["number-of-shardings"]
data_parallel = (on(data, "data"), on(data, "data"), *(on(data),) * 4)

# %% the examples on the grid, each twice exercise="8.1" score=0 diagnoses=["layout of X and Y"]
data_parallel = (*(on(grid),) * 4, on(grid, "data"), on(grid, "data"))

# %% turned about: the mesh in another order exercise="8.2" score=1
turned = jax.sharding.Mesh(np.array(jax.devices())[::-1].reshape(4, 2), ("a", "b"))
both = ("a", "b")
tensor_parallel = (on(turned), on(turned, None, both), on(turned, both))

# %% rows, then columns exercise="8.2" score=0 diagnoses=["all-gather over model"] near=["all-to-all", "layout of W1", "layout of W2"]
tensor_parallel = (on(model), on(model, "model"), on(model, None, "model"))

# %% columns, then columns exercise="8.2" score=0 diagnoses=["layout of W2"]
tensor_parallel = (on(model), on(model, None, "model"), on(model, None, "model"))

# %% rows, then rows exercise="8.2" score=0 diagnoses=["layout of W1"] near=["all-gather", "reduce-scatter", "layout of X"]
tensor_parallel = (on(model), on(model, "model"), on(model, "model"))

# %% the examples cut in place of the weights exercise="8.2" score=0 diagnoses=["over-the-cap"]
tensor_parallel = (on(model, "model"), on(model), on(model))

# %% contracted over the features, and the second layer whole exercise="8.2" score=0 diagnoses=["over-the-cap"]
tensor_parallel = (on(model, None, "model"), on(model, "model"), on(model))

# %% everything whole exercise="8.2" score=0 diagnoses=["over-the-cap"] naive=true
tensor_parallel = (on(model),) * 3

# %% the examples cut as well exercise="8.2" score=0 diagnoses=["layout of X"] near=["over-the-cap"]
tensor_parallel = (on(model, "model"), on(model, None, "model"), on(model, "model"))

# %% the features cut, to go with rows of the weights exercise="8.2" score=0 diagnoses=["reduce-scatter over model"] near=["too-many-bytes"]
tensor_parallel = (on(model, None, "model"), on(model, "model"), on(model, "model"))

# %% on an Explicit mesh exercise="8.2" score=0 diagnoses=["fails"] near=["all-gather"]
explicit = jax.make_mesh((8,), ("model",), axis_types=(AxisType.Explicit,))
tensor_parallel = (on(explicit), on(explicit, None, "model"), on(explicit, "model", None))

# %% on an Explicit mesh, and everything whole exercise="8.2" score=0 diagnoses=["over-the-cap"] near=["fails", "collective-permute"]
explicit = jax.make_mesh((8,), ("model",), axis_types=(AxisType.Explicit,))
tensor_parallel = (on(explicit), on(explicit), on(explicit))

# %% matmul, and the spec by name exercise="8.3" score=1
second, third = P(None, "model"), P("model")
both_ways = [
    on(grid, "data"),
    on(grid),
    on(grid),
    NamedSharding(grid, second),
    on(grid, "model"),
    NamedSharding(grid, third),
    on(grid),
]


def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jnp.maximum(X @ W1 + b1, 0)
    h = jnp.maximum(h @ W2 + b2, 0)
    parts = jnp.einsum("ij,jk->ik", h, W3, out_sharding=P("data", None))
    return parts + b3


# %% data parallel only, and the product left open exercise="8.3" score=0 diagnoses=["over-the-cap", "ambiguous"] near=["bias-whole"]
both_ways = (on(grid, ("data", "model")), *(on(grid),) * 6)


def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    return three_layers(X, W1, b1, W2, b2, W3, b3)


# %% the last bias cut, and the last weights collected exercise="8.3" score=0.125 diagnoses=["layout of b3", "all-gather over model"] near=["too-many-bytes"]
both_ways = (
    on(grid, "data", None),
    on(grid),
    on(grid),
    on(grid, None, "model"),
    on(grid, "model"),
    on(grid, "model", None),
    on(grid, "model"),
)


def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(X @ W1 + b1)
    h = jax.nn.relu(h @ W2 + b2)
    return jax.reshard(h, P("data", None)) @ jax.reshard(W3, P()) + b3


# %% the first two layers as the pair, and a copy for everybody exercise="8.3" score=0.0625 diagnoses=["layout of W1 and b1", "replicated", "all-gather over data"] near=["over-the-cap", "reduce-scatter"]
both_ways = (
    on(grid, "data", None),
    on(grid, None, "model"),
    on(grid, "model"),
    on(grid, None, "model"),
    on(grid, "model"),
    on(grid, "model", None),
    on(grid),
)


def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(X @ W1 + b1)
    h = jax.nn.relu(h @ W2 + b2)
    return jnp.dot(h, W3, out_sharding=P()) + b3


# %% the bias left out exercise="8.3" score=0 diagnoses=["unanswered", "no-last-bias", "not-counted-yet"] near=["no-biases", "values", "own-results"]
def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(X @ W1 + b1)
    h = jax.nn.relu(h @ W2 + b2)
    return jnp.dot(h, W3, out_sharding=P("data", None))


# %% all the weights whole, and collected exercise="8.3" score=0.125 diagnoses=["over-the-cap", "all-gather over model"] naive=true near=["replicated"]
both_ways = (on(grid, "data"), *(on(grid),) * 6)


def predict_explicit(*arguments):
    made = three_layers(*(jax.reshard(each, P()) for each in arguments))
    return jax.reshard(made, P("data", None))


# %% the two axes exchanged, and a relu too many exercise="8.3" score=0 diagnoses=["too-many-bytes", "relu-last", "not-counted-yet"] near=["all-gather"]
whole, cut = on(grid), on(grid, "data")
both_ways = (on(grid, "model"), whole, whole, on(grid, None, "data"), cut, cut, whole)


def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(X @ W1 + b1)
    h = jax.nn.relu(h @ W2 + b2)
    return jax.nn.relu(jnp.matmul(h, W3, out_sharding=P("data", None)) + b3)


# %% the second layer's bias whole, and no biases exercise="8.3" score=0 diagnoses=["bias-whole", "no-biases", "not-counted-yet"] near=["no-last-bias"]
whole, rows = on(grid), on(grid, "model")
both_ways = (on(grid, "data"), whole, whole, on(grid, None, "model"), whole, rows, whole)


def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(jax.nn.relu(X @ W1) @ W2)
    return jnp.matmul(h, W3, out_sharding=P("data", None))


# %% a bias left whole whose layer is cut into columns exercise="8.3" score=0.5 diagnoses=["bias-whole"] near=["over-the-cap"]
whole, rows = on(grid), on(grid, "model")
both_ways = (on(grid, "data"), whole, whole, on(grid, None, "model"), whole, rows, whole)


def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(X @ W1 + b1)
    h = jax.nn.relu(h @ W2 + b2)
    return jnp.matmul(h, W3, out_sharding=P("data", None)) + b3


# %% a relu too few, and nothing else exercise="8.3" score=0 diagnoses=["unanswered", "a-relu-left-out", "not-counted-yet"] near=["relu-last", "values"]
def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(X @ W1 + b1) @ W2 + b2
    return jnp.matmul(h, W3, out_sharding=P("data", None)) + b3


# %% the notebook's mesh named exercise="8.3" score=0 diagnoses=["unanswered", "only-the-first"] near=["ambiguous"]
def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(X @ W1 + b1)
    h = jax.nn.relu(h @ W2 + b2)
    return jnp.matmul(h, W3, out_sharding=on(explicit_grid, "data", None)) + b3


# %% the way back by hand exercise="8.4" score=1
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        def fetch(mine):
            return lax.all_gather(mine, "data", axis=0, tiled=True)

        def forward(h, mine):
            return jnp.tanh(h @ fetch(mine)), h

        def backward(slope, layer):
            mine, before = layer
            whole = fetch(mine)
            inner = slope * (1 - jnp.tanh(before @ whole) ** 2)
            return inner @ whole.T, lax.psum_scatter(before.T @ inner, "data", tiled=True)

        made, inputs = lax.scan(forward, x, w)
        slope = 2 * (made - y) / len(y) / lax.axis_size("data")
        return lax.scan(backward, slope, (w, inputs), reverse=True)[1]

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% a Python loop exercise="8.4" score=0.25 diagnoses=["too-much-memory"] near=["too-many-bytes"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        @jax.checkpoint
        def layer(mine, h):
            return jnp.tanh(h @ lax.all_gather(mine, "data", tiled=True))

        def own_part(w):
            h = x
            for mine in w:
                h = layer(mine, h)
            return jnp.sum((h - y) ** 2) / len(y) / lax.axis_size("data")

        return jax.grad(own_part)(w)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% kept for the way back exercise="8.4" score=0.25 diagnoses=["gathered-once"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        def layer(h, mine):
            return jnp.tanh(h @ lax.all_gather(mine, "data", tiled=True)), None

        def own_part(w):
            made, _ = lax.scan(layer, x, w)
            return jnp.sum((made - y) ** 2) / len(y) / lax.axis_size("data")

        return jax.grad(own_part)(w)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% all gathered first exercise="8.4" score=0.25 diagnoses=["gathered-at-once"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        @jax.checkpoint
        def layer(h, whole):
            return jnp.tanh(h @ whole), None

        def own_part(w):
            everything = lax.all_gather(w, "data", axis=1, tiled=True)
            made, _ = lax.scan(layer, x, everything)
            return jnp.sum((made - y) ** 2) / len(y) / lax.axis_size("data")

        return jax.grad(own_part)(w)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% the sum over all examples exercise="8.4" score=0 diagnoses=["sum-for-mean", "not-counted-yet"] near=["as-many-times"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        @jax.checkpoint
        def layer(h, mine):
            return jnp.tanh(h @ lax.all_gather(mine, "data", tiled=True)), None

        def own_part(w):
            return jnp.sum((lax.scan(layer, x, w)[0] - y) ** 2)

        return jax.grad(own_part)(w)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% the mean over everything exercise="8.4" score=0 diagnoses=["mean-of-everything", "not-counted-yet"] near=["tanh-forgotten"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        @jax.checkpoint
        def layer(h, mine):
            return jnp.tanh(h @ lax.all_gather(mine, "data", tiled=True)), None

        def own_part(w):
            return jnp.mean((lax.scan(layer, x, w)[0] - y) ** 2) / lax.axis_size("data")

        return jax.grad(own_part)(w)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% each device's own mean exercise="8.4" score=0 diagnoses=["as-many-times", "not-counted-yet"] near=["own-examples-alone", "sum-for-mean", "blocks-mixed"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        @jax.checkpoint
        def layer(h, mine):
            return jnp.tanh(h @ lax.all_gather(mine, "data", tiled=True)), None

        def own_part(w):
            return jnp.sum((lax.scan(layer, x, w)[0] - y) ** 2) / len(y)

        return jax.grad(own_part)(w)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% gradients added up whole exercise="8.4" score=0.1666666667 diagnoses=["all-reduce over data", "gathered-at-once"] near=["replicated"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        everything = lax.all_gather(w, "data", axis=1, tiled=True)

        def own_part(everything):
            made, _ = lax.scan(lambda h, whole: (jnp.tanh(h @ whole), None), x, everything)
            return jnp.sum((made - y) ** 2) / len(y)

        whole = lax.pmean(jax.grad(own_part)(everything), "data")
        size = w.shape[1]
        return lax.dynamic_slice_in_dim(whole, lax.axis_index("data") * size, size, axis=1)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% a copy of the gradient for everybody exercise="8.4" score=0 diagnoses=["not-replicated"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        def own_part(w):
            everything = lax.all_gather(w, "data", axis=1, tiled=True)
            made, _ = lax.scan(lambda h, whole: (jnp.tanh(h @ whole), None), x, everything)
            return jnp.sum((made - y) ** 2) / len(y) / lax.axis_size("data")

        return jax.grad(own_part)(w)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=P())(W, X, Y)


# %% fetched three times exercise="8.4" score=0.9166666667 diagnoses=["too-many-bytes"] near=["too-much-memory", "too-much-work"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        @jax.checkpoint
        def layer(h, mine):
            return jnp.tanh(h @ lax.all_gather(mine, "data", tiled=True)), None

        def own_part(w):
            return jnp.sum((lax.scan(layer, x, w)[0] - y) ** 2) / len(y) / lax.axis_size("data")

        gradient = jax.grad(own_part)(w)
        return gradient + 0 * jnp.minimum(own_part(w), 1)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% left to the compiler exercise="8.4" score=0.0833 diagnoses=["replicated", "all-reduce over data", "too-much-memory", "not-counted-yet"] naive=true
def fsdp_gradient(W, X, Y):
    def loss_of(W):
        outputs = lax.scan(lambda h, w: (jnp.tanh(h @ w), None), X, W)[0]
        return jnp.mean(jnp.sum((outputs - Y) ** 2, axis=1))

    return jax.grad(loss_of)(W)


# %% the gradient of a pmean, in a shard_map made by a decorator exercise="8.4" score=1 near=["all-reduce"]
import functools


def fsdp_gradient(W, X, Y):
    rows = P(None, "data")

    @functools.partial(jax.shard_map, in_specs=(rows, P("data"), P("data")), out_specs=rows)
    def on_each(w, x, y):
        @jax.checkpoint
        def layer(h, mine):
            return jnp.tanh(h @ lax.all_gather(mine, "data", tiled=True)), None

        def mean_of_all(w):
            return lax.pmean(jnp.square(lax.scan(layer, x, w)[0] - y).sum(axis=1).mean(), "data")

        return jax.grad(mean_of_all)(w)

    return on_each(W, X, Y)


# %% the gradient collected in the end exercise="8.4" score=0.0833 diagnoses=["replicated", "too-many-bytes", "gathered-at-once", "not-counted-yet"] near=["not-replicated"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        @jax.checkpoint
        def layer(h, mine):
            return jnp.tanh(h @ lax.all_gather(mine, "data", tiled=True)), None

        def own_part(w):
            return jnp.sum((lax.scan(layer, x, w)[0] - y) ** 2) / len(y) / lax.axis_size("data")

        return lax.all_gather(jax.grad(own_part)(w), "data", axis=1, tiled=True)

    specs = P(None, "data"), P("data"), P("data")
    return jax.shard_map(body, in_specs=specs, out_specs=P(), check_vma=False)(W, X, Y)


# %% parts of the gradient averaged with each other exercise="8.4" score=0 diagnoses=["blocks-mixed", "not-counted-yet", "all-reduce over data"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        @jax.checkpoint
        def layer(h, mine):
            return jnp.tanh(h @ lax.all_gather(mine, "data", tiled=True)), None

        def own_part(w):
            return jnp.sum((lax.scan(layer, x, w)[0] - y) ** 2) / len(y)

        return lax.pcast(lax.pmean(jax.grad(own_part)(w), "data"), "data", to="varying")

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% two examples a device, written in exercise="8.4" score=0 diagnoses=["only-the-first", "not-counted-yet"] near=["mean-of-everything"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        @jax.checkpoint
        def layer(h, mine):
            return jnp.tanh(h @ lax.all_gather(mine, "data", tiled=True)), None

        def own_part(w):
            return jnp.sum((lax.scan(layer, x, w)[0] - y) ** 2) / 2 / lax.axis_size("data")

        return jax.grad(own_part)(w)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% no relu exercise="8.5" score=0 diagnoses=["no-relu", "not-counted-yet"] near=["relu-last"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = lax.all_gather(x, "model", tiled=True)
        return lax.psum_scatter(tokens @ w1 @ w2, "model", tiled=True)

    rows = P("model")
    return jax.shard_map(body, in_specs=(rows, P(None, "model"), rows), out_specs=rows)(X, W1, W2)


# %% relu at the end exercise="8.5" score=0 diagnoses=["relu-last", "not-counted-yet"] near=["no-relu"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = lax.all_gather(x, "model", tiled=True)
        return jax.nn.relu(lax.psum_scatter(tokens @ w1 @ w2, "model", tiled=True))

    rows = P("model")
    return jax.shard_map(body, in_specs=(rows, P(None, "model"), rows), out_specs=rows)(X, W1, W2)


# %% untiled, and joined exercise="8.5" score=1 near=["untiled"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = jnp.concatenate(list(lax.all_gather(x, "model")))
        parts = jax.nn.relu(tokens @ w1) @ w2
        return lax.psum_scatter(parts.reshape(-1, *x.shape), "model")

    rows = P("model")
    return jax.shard_map(body, in_specs=(rows, P(None, "model"), rows), out_specs=rows)(X, W1, W2)


# %% all tokens, and then one's own exercise="8.5" score=0.25 diagnoses=["no reduce-scatter"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = lax.all_gather(x, "model", tiled=True)
        total = lax.psum(jax.nn.relu(tokens @ w1) @ w2, "model")
        return lax.dynamic_slice_in_dim(total, lax.axis_index("model") * len(x), len(x))

    rows = P("model")
    return jax.shard_map(body, in_specs=(rows, P(None, "model"), rows), out_specs=rows)(X, W1, W2)


# %% left to in_specs exercise="8.5" score=0.25 diagnoses=["gathered-before-the-body"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        return lax.psum_scatter(jax.nn.relu(x @ w1) @ w2, "model", tiled=True)

    specs = (P(), P(None, "model"), P("model"))
    return jax.shard_map(body, in_specs=specs, out_specs=P("model"))(X, W1, W2)


# %% the weights brought together exercise="8.5" score=0.25 diagnoses=["one-too-many"] near=["no all-gather", "too-much-work"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        first = lax.all_gather(w1, "model", axis=1, tiled=True)
        second = lax.all_gather(w2, "model", tiled=True)
        return jax.nn.relu(x @ first) @ second

    rows = P("model")
    return jax.shard_map(body, in_specs=(rows, P(None, "model"), rows), out_specs=rows)(X, W1, W2)


# %% the parts not added up exercise="8.5" score=0 diagnoses=["not-replicated"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        return jax.nn.relu(lax.all_gather(x, "model", tiled=True) @ w1) @ w2

    rows = P("model")
    return jax.shard_map(body, in_specs=(rows, P(None, "model"), rows), out_specs=P())(X, W1, W2)


# %% untiled exercise="8.5" score=0 diagnoses=["untiled"] near=["scatter-does-not-divide", "not-gathered"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = lax.all_gather(x, "model", tiled=True)
        return lax.psum_scatter(jax.nn.relu(tokens @ w1) @ w2, "model")

    rows = P("model")
    return jax.shard_map(body, in_specs=(rows, P(None, "model"), rows), out_specs=rows)(X, W1, W2)


# %% columns scattered exercise="8.5" score=0 diagnoses=["joined-elsewhere", "shape", "not-counted-yet"] near=["no reduce-scatter"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = lax.all_gather(x, "model", tiled=True)
        parts = jax.nn.relu(tokens @ w1) @ w2
        return lax.psum_scatter(parts, "model", scatter_dimension=1, tiled=True)

    rows = P("model")
    return jax.shard_map(body, in_specs=(rows, P(None, "model"), rows), out_specs=rows)(X, W1, W2)


# %% one's own tokens only exercise="8.5" score=0 diagnoses=["own-results", "not-counted-yet", "no all-gather"] near=["own-units-alone", "mean-for-sum", "gathered-before-the-body"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        return lax.psum(jax.nn.relu(x @ w1) @ w2, "model")

    rows = P("model")
    return jax.shard_map(body, in_specs=(rows, P(None, "model"), rows), out_specs=rows)(X, W1, W2)


# %% all the work on every device exercise="8.5" score=0.9166666667 diagnoses=["too-much-work"] near=["one-too-many"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = lax.all_gather(x, "model", tiled=True)
        place = lax.axis_index("model") * w1.shape[1]
        first = jnp.zeros((len(w1), lax.axis_size("model") * w1.shape[1])) * tokens[0, 0]
        first, second = (
            lax.dynamic_update_slice(first, w1, (0, place)),
            lax.dynamic_update_slice(first.T, w2, (place, 0)),
        )
        return lax.psum_scatter(jax.nn.relu(tokens @ first) @ second, "model", tiled=True)

    rows = P("model")
    return jax.shard_map(body, in_specs=(rows, P(None, "model"), rows), out_specs=rows)(X, W1, W2)


# %% a mesh written in exercise="8.5" score=0 diagnoses=["only-the-first"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = lax.all_gather(x, "model", tiled=True)
        return lax.psum_scatter(jax.nn.relu(tokens @ w1) @ w2, "model", tiled=True)

    rows = P("model")
    return jax.shard_map(body, mesh=model, in_specs=(rows, P(None, "model"), rows), out_specs=rows)(
        X, W1, W2
    )


# %% left to the compiler exercise="8.5" score=0 diagnoses=["not-counted-yet", "no-shard-map"] naive=true
def sequence_parallel(X, W1, W2):
    return lax.with_sharding_constraint(jax.nn.relu(X @ W1) @ W2, P("model"))


# %% each token through the hidden units of its device exercise="8.5" score=0 diagnoses=["own-units-alone", "not-counted-yet", "no all-gather"] near=["not-replicated"]
def sequence_parallel(X, W1, W2):
    rows = P("model")
    specs = rows, P(None, "model"), rows
    return jax.shard_map(pair, in_specs=specs, out_specs=rows)(X, W1, W2)


# %% parts of sums averaged exercise="8.5" score=0 diagnoses=["mean-for-sum", "not-counted-yet"] near=["own-results"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = lax.all_gather(x, "model", tiled=True)
        mine = lax.psum_scatter(jax.nn.relu(tokens @ w1) @ w2, "model", tiled=True)
        return mine / lax.axis_size("model")

    rows = P("model")
    return jax.shard_map(body, in_specs=(rows, P(None, "model"), rows), out_specs=rows)(X, W1, W2)


# %% an all-to-all, and a sum at home exercise="8.5" score=0.25 diagnoses=["no reduce-scatter"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = lax.all_gather(x, "model", tiled=True)
        parts = (jax.nn.relu(tokens @ w1) @ w2).reshape(-1, *x.shape)
        return lax.all_to_all(parts, "model", 0, 0).sum(axis=0)

    rows = P("model")
    return jax.shard_map(body, in_specs=(rows, P(None, "model"), rows), out_specs=rows)(X, W1, W2)


# %% the max by a constant, and one-hot labels exercise="8.6" score=1
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        mine = lax.axis_index("model") * words + jnp.arange(words)
        shifted = logits - lax.pmax(logits.max(1), "model")[:, None]
        total = jnp.exp(shifted).sum(1)
        label = jnp.where(labels[:, None] == mine, shifted, 0).sum(1)
        total, label = lax.psum((total, label), "model")
        return (jnp.log(total) - label).mean()

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% all words brought together exercise="8.6" score=0.125 diagnoses=["explicit all-gather", "all-gather over model"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        everything = lax.all_gather(logits, "model", axis=1, tiled=True)
        label = jnp.take_along_axis(everything, labels[:, None], axis=1)[:, 0]
        mean = jnp.mean(jax.nn.logsumexp(everything, axis=1) - label)
        return lax.pmax(mean, "model")

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% asked for whole exercise="8.6" score=0.125 diagnoses=["other-blocks-enter", "all-gather over model"] near=["explicit all-gather", "no-shard-map"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        label = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=1) - label)

    return jax.shard_map(body, in_specs=(P(), P()), out_specs=P())(logits, labels)


# %% left to the compiler exercise="8.6" score=0 diagnoses=["not-counted-yet", "no-shard-map"] naive=true
def cross_entropy(logits, labels):
    label = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=1) - label)


# %% left to the compiler, times a sum that is one exercise="8.6" score=0 diagnoses=["not-counted-yet", "outside-the-body", "too-many-bytes"]
def cross_entropy(logits, labels):
    def body(loss):
        share = lax.pcast(1 / lax.axis_size("model"), "model", to="varying")
        return loss * lax.psum(share, "model")

    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
    return jax.shard_map(body, in_specs=P(), out_specs=P())(-chosen.mean())


# %% the largest not taken off exercise="8.6" score=0 diagnoses=["not-finite", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)[:, 0]
        total = lax.psum(jnp.exp(logits).sum(axis=1), "model")
        return jnp.mean(jnp.log(total) - lax.psum(jnp.where(here, chosen, 0), "model"))

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% every device counts the label exercise="8.6" score=0 diagnoses=["label-in-every-block", "not-counted-yet"] near=["label-counted-by-all"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        chosen = jnp.take_along_axis(logits, labels[:, None] % words, axis=1)[:, 0]
        return jnp.mean(jnp.log(total) + largest - lax.psum(chosen, "model"))

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% the largest of one's own words exercise="8.6" score=0 diagnoses=["not-replicated"] near=["own-largest", "shapes-do-not-fit"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = logits.max(axis=1)
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)[:, 0]
        label = lax.psum(jnp.where(here, chosen, 0), "model")
        return jnp.mean(jnp.log(total) + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% the largest not put back exercise="8.6" score=0 diagnoses=["largest-forgotten", "not-counted-yet"] near=["not-finite", "not-a-number", "largest-left-in"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        mine = lax.axis_index("model") * words + jnp.arange(words)
        largest = lax.pmax(logits.max(1), "model")[:, None]
        total = lax.psum(jnp.exp(logits - largest).sum(1), "model")
        label = lax.psum(jnp.where(labels[:, None] == mine, logits, 0).sum(1), "model")
        return (jnp.log(total) - label).mean()

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% the largest put back once too often exercise="8.6" score=0 diagnoses=["largest-left-in", "not-counted-yet"] near=["largest-forgotten"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        mine = lax.axis_index("model") * words + jnp.arange(words)
        largest = lax.pmax(logits.max(1), "model")
        shifted = logits - largest[:, None]
        total = lax.psum(jnp.exp(shifted).sum(1), "model")
        label = lax.psum(jnp.where(labels[:, None] == mine, shifted, 0).sum(1), "model")
        return (jnp.log(total) + largest - label).mean()

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% labels out of the block exercise="8.6" score=0 diagnoses=["not-a-number", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        shifted = logits - lax.pmax(logits.max(1), "model")[:, None]
        total = lax.psum(jnp.exp(shifted).sum(1), "model")
        label = lax.psum(jnp.take_along_axis(shifted, labels[:, None], axis=1)[:, 0], "model")
        return (jnp.log(total) - label).sum()

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% the sum over the examples exercise="8.6" score=0 diagnoses=["sum-for-mean", "not-counted-yet"] near=["shape"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        mine = lax.axis_index("model") * words + jnp.arange(words)
        shifted = logits - lax.pmax(logits.max(1), "model")[:, None]
        total = lax.psum(jnp.exp(shifted).sum(1), "model")
        label = lax.psum(jnp.where(labels[:, None] == mine, shifted, 0).sum(1), "model")
        return (jnp.log(total) - label).sum()

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% the exponentials added up over the devices first exercise="8.6" score=0.25 diagnoses=["too-many-bytes"] near=["all-gather"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        mine = lax.axis_index("model") * words + jnp.arange(words)
        shifted = logits - lax.pmax(logits.max(1), "model")[:, None]
        hit = jnp.where(labels[:, None] == mine, shifted, 0)
        total, label = lax.psum((jnp.exp(shifted), hit), "model")
        return (jnp.log(total.sum(1)) - label.sum(1)).mean()

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% sums of exponentials of every block by itself exercise="8.6" score=1 near=["too-many-bytes"]
import functools


def cross_entropy(logits, labels):
    @functools.partial(jax.shard_map, in_specs=(P(None, "model"), P(None)), out_specs=P())
    def on_each(logits, labels):
        width = logits.shape[1]
        here = jax.nn.logsumexp(logits, axis=1)
        best = lax.pmax(here, "model")
        place = labels - width * lax.axis_index("model")
        inside = (0 <= place) & (place < width)
        mine = jnp.take_along_axis(logits, place[:, None].clip(0, width - 1), axis=1)[:, 0]
        total, label = lax.psum((jnp.exp(here - best), jnp.where(inside, mine, 0)), "model")
        return (best + jnp.log(total) - label).mean()

    return on_each(logits, labels)


# %% each block's largest taken off exercise="8.6" score=0 diagnoses=["own-largest", "not-counted-yet"] near=["not-replicated"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        mine = lax.axis_index("model") * words + jnp.arange(words)
        largest = logits.max(1)
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(1), "model")
        label = lax.psum(jnp.where(labels[:, None] == mine, logits, 0).sum(1), "model")
        return (jnp.log(total) + lax.pmax(largest, "model") - label).mean()

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% clipped, and counted exercise="8.6" score=0 diagnoses=["label-counted-by-all", "not-counted-yet"] near=["values", "label-in-every-block", "label-of-the-block"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(1), "model")
        place = jnp.clip(labels - lax.axis_index("model") * words, 0, words - 1)
        chosen = jnp.take_along_axis(logits, place[:, None], axis=1)[:, 0]
        return jnp.mean(jnp.log(total) + largest - lax.psum(chosen, "model"))

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% blocks of eight words, written in exercise="8.6" score=0 diagnoses=["only-the-first", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        mine = lax.axis_index("model") * 8 + jnp.arange(logits.shape[1])
        largest = lax.pmax(logits.max(1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(1), "model")
        label = lax.psum(jnp.where(labels[:, None] == mine, logits, 0).sum(1), "model")
        return (jnp.log(total) + largest - label).mean()

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% zero for the largest at least exercise="8.6" score=0 diagnoses=["not-finite", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        mine = lax.axis_index("model") * words + jnp.arange(words)
        largest = lax.pmax(logits.max(1, initial=0), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(1), "model")
        label = lax.psum(jnp.where(labels[:, None] == mine, logits, 0).sum(1), "model")
        return (jnp.log(total) + largest - label).mean()

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% the label's logit by a maximum exercise="8.6" score=0 diagnoses=["label-by-maximum", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        mine = lax.axis_index("model") * words + jnp.arange(words)
        largest = lax.pmax(logits.max(1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(1), "model")
        label = lax.pmax(jnp.where(labels[:, None] == mine, logits, 0).sum(1), "model")
        return (jnp.log(total) + largest - label).mean()

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% a number for each example exercise="8.6" score=0 diagnoses=["shape", "not-counted-yet"] near=["sum-for-mean"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        mine = lax.axis_index("model") * words + jnp.arange(words)
        largest = lax.pmax(logits.max(1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(1), "model")
        label = lax.psum(jnp.where(labels[:, None] == mine, logits, 0).sum(1), "model")
        return jnp.log(total) + largest - label

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% labels as places in the block exercise="8.6" score=0 diagnoses=["label-of-the-block", "not-counted-yet"] near=["label-by-maximum", "label-without-offset"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        largest = lax.pmax(logits.max(1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(1), "model")
        place = jnp.clip(labels, 0, logits.shape[1] - 1)
        chosen = jnp.take_along_axis(logits, place[:, None], axis=1)[:, 0]
        return jnp.mean(jnp.log(total) + largest - lax.psum(chosen, "model"))

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% labels as places in the block, counted where there is such a place exercise="8.6" score=0 diagnoses=["label-without-offset", "not-counted-yet"] near=["label-of-the-block", "offset-of-one"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(1), "model")
        place = jnp.clip(labels, 0, words - 1)
        chosen = jnp.take_along_axis(logits, place[:, None], axis=1)[:, 0]
        label = lax.psum(jnp.where(labels < words, chosen, 0), "model")
        return jnp.mean(jnp.log(total) + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% any label counted exercise="8.6" score=0 diagnoses=["values", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        largest = lax.pmax(logits.max(1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(1), "model")
        return jnp.mean(jnp.log(total) + largest - lax.psum(logits[:, 0], "model"))

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% the loss divided, and a fori_loop exercise="8.7" score=1 near=["too-much-memory"]
def accumulated(W, X, Y):
    def body(w, x, y):
        own = lax.pcast(w, "data", to="varying")

        def share(w, i):
            return jnp.mean((jnp.tanh(x[i] @ w) - y[i]) ** 2) / len(x) / lax.axis_size("data")

        def add(i, total):
            return total + jax.grad(share)(own, i)

        return lax.psum(lax.fori_loop(0, len(x), add, 0 * own), "data")

    rounds = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), rounds, rounds), out_specs=P())(W, X, Y)


# %% all rounds at once, the loss divided exercise="8.7" score=0.25 diagnoses=["too-much-memory"]
def accumulated(W, X, Y):
    def body(w, x, y):
        def own_share(w):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2) / lax.axis_size("data")

        return jax.grad(own_share)(w)

    rounds = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), rounds, rounds), out_specs=P())(W, X, Y)


# %% the sum in every round exercise="8.7" score=0.25 diagnoses=["too-often"]
def accumulated(W, X, Y):
    def body(w, x, y):
        def error(w, x, y):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

        def one_round(total, examples):
            return total + jax.grad(error)(w, *examples), None

        total, _ = lax.scan(one_round, jnp.zeros_like(w), (x, y))
        return total / len(x) / lax.axis_size("data")

    rounds = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), rounds, rounds), out_specs=P())(W, X, Y)


# %% the idiom of pmap exercise="8.7" score=0 diagnoses=["as-many-times", "too-often", "not-counted-yet"]
def accumulated(W, X, Y):
    def body(w, x, y):
        def error(w, x, y):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

        def one_round(total, examples):
            return total + jax.grad(error)(w, *examples), None

        total, _ = lax.scan(one_round, jnp.zeros_like(w), (x, y))
        return lax.pmean(total / len(x), "data")

    rounds = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), rounds, rounds), out_specs=P())(W, X, Y)


# %% psum for pmean exercise="8.7" score=0 diagnoses=["as-many-times", "not-counted-yet"] near=["too-often", "rounds-added-up"]
def accumulated(W, X, Y):
    def body(w, x, y):
        w = lax.pcast(w, "data", to="varying")

        def error(w, x, y):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

        def one_round(total, examples):
            return total + jax.grad(error)(w, *examples), None

        total, _ = lax.scan(one_round, jnp.zeros_like(w), (x, y))
        return lax.psum(total / len(x), "data")

    rounds = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), rounds, rounds), out_specs=P())(W, X, Y)


# %% the rounds added up exercise="8.7" score=0 diagnoses=["rounds-added-up", "not-counted-yet"] near=["as-many-times"]
def accumulated(W, X, Y):
    def body(w, x, y):
        w = lax.pcast(w, "data", to="varying")

        def error(w, x, y):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

        def one_round(total, examples):
            return total + jax.grad(error)(w, *examples), None

        total, _ = lax.scan(one_round, jnp.zeros_like(w), (x, y))
        return lax.pmean(total, "data")

    rounds = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), rounds, rounds), out_specs=P())(W, X, Y)


# %% plain zeros exercise="8.7" score=0 diagnoses=["varying-mismatch"] near=["not-replicated"]
def accumulated(W, X, Y):
    def body(w, x, y):
        varying = lax.pcast(w, "data", to="varying")

        def error(w, x, y):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

        def one_round(total, examples):
            return total + jax.grad(error)(varying, *examples), None

        total, _ = lax.scan(one_round, jnp.zeros_like(w), (x, y))
        return lax.pmean(total / len(x), "data")

    rounds = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), rounds, rounds), out_specs=P())(W, X, Y)


# %% never added up over the devices exercise="8.7" score=0 diagnoses=["not-replicated"] near=["varying-mismatch"]
def accumulated(W, X, Y):
    def body(w, x, y):
        w = lax.pcast(w, "data", to="varying")

        def error(w, x, y):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

        def one_round(total, examples):
            return total + jax.grad(error)(w, *examples), None

        total, _ = lax.scan(one_round, jnp.zeros_like(w), (x, y))
        return total / len(x)

    rounds = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), rounds, rounds), out_specs=P())(W, X, Y)


# %% left to the compiler exercise="8.7" score=0 diagnoses=["not-counted-yet", "no-shard-map", "too-much-memory"] naive=true
def accumulated(W, X, Y):
    return jax.grad(lambda W: jnp.mean((jnp.tanh(X @ W) - Y) ** 2))(W)


# %% sixty-four rounds, written in exercise="8.7" score=0 diagnoses=["only-the-first", "not-counted-yet"] near=["averaged-twice"]
def accumulated(W, X, Y):
    def body(w, x, y):
        w = lax.pcast(w, "data", to="varying")

        def error(w, x, y):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

        def one_round(total, examples):
            return total + jax.grad(error)(w, *examples), None

        total, _ = lax.scan(one_round, jnp.zeros_like(w), (x, y))
        return lax.pmean(total / 64, "data")

    rounds = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), rounds, rounds), out_specs=P())(W, X, Y)


# %% averaged over the devices twice exercise="8.7" score=0 diagnoses=["averaged-twice", "not-counted-yet"] near=["last-round-alone"]
def accumulated(W, X, Y):
    def body(w, x, y):
        w = lax.pcast(w, "data", to="varying")

        def error(w, x, y):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2) / lax.axis_size("data")

        def one_round(total, examples):
            return total + jax.grad(error)(w, *examples), None

        total, _ = lax.scan(one_round, jnp.zeros_like(w), (x, y))
        return lax.pmean(total / len(x), "data")

    rounds = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), rounds, rounds), out_specs=P())(W, X, Y)


# %% only the last round counts exercise="8.7" score=0 diagnoses=["last-round-alone", "not-counted-yet"]
def accumulated(W, X, Y):
    def body(w, x, y):
        w = lax.pcast(w, "data", to="varying")

        def error(w, x, y):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

        def one_round(total, examples):
            return jax.grad(error)(w, *examples), None

        total, _ = lax.scan(one_round, jnp.zeros_like(w), (x, y))
        return lax.pmean(total / len(x), "data")

    rounds = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), rounds, rounds), out_specs=P())(W, X, Y)


# %% the gradient of a loop exercise="8.7" score=0.25 diagnoses=["too-much-memory"]
def accumulated(W, X, Y):
    def body(w, x, y):
        w = lax.pcast(w, "data", to="varying")

        def error(w):
            def one_round(total, examples):
                x, y = examples
                return total + jnp.mean((jnp.tanh(x @ w) - y) ** 2), None

            return lax.scan(one_round, 0 * w[0, 0], (x, y))[0] / len(x)

        return lax.pmean(jax.grad(error)(w), "data")

    rounds = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), rounds, rounds), out_specs=P())(W, X, Y)


# %% unrolled, round the ring exercise="8.8" score=1 near=["varying-mismatch"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), []
        for t in range(n + len(x) - 1):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh(jnp.where(i == 0, fresh, came) @ w[0])
            kept.append(made)
            came = lax.ppermute(made, "stage", [(s, (s + 1) % n) for s in range(n)])
        mine = jnp.stack(kept[n - 1 :])
        return lax.psum(jnp.where(i == n - 1, mine, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% one step too few exercise="8.8" score=0 diagnoses=["one-step-short", "not-counted-yet"] near=["one-step-late"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), jnp.zeros_like(x)
        for t in range(n + len(x) - 2):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh(jnp.where(i == 0, fresh, came) @ w[0])
            if t >= n - 1:
                kept = kept.at[t - n + 1].set(made)
            came = lax.ppermute(made, "stage", [(s, s + 1) for s in range(n - 1)])
        return lax.psum(jnp.where(i == n - 1, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% kept a step late exercise="8.8" score=0 diagnoses=["one-step-late", "not-counted-yet"] near=["one-step-short"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), jnp.zeros_like(x)
        for t in range(n + len(x) - 1):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh(jnp.where(i == 0, fresh, came) @ w[0])
            if t >= n:
                kept = kept.at[t - n].set(made)
            came = lax.ppermute(made, "stage", [(s, s + 1) for s in range(n - 1)])
        return lax.psum(jnp.where(i == n - 1, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% the weights brought together exercise="8.8" score=0.125 diagnoses=["explicit all-gather", "all-gather over stage"]
def pipeline(W, X):
    def body(w, x):
        everything = lax.all_gather(w, "stage", tiled=True)
        for whole in everything:
            x = jnp.tanh(x @ whole)
        return lax.pmax(x, "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% everything at once, stage after stage exercise="8.8" score=0.25 diagnoses=["too-many-bytes"] near=["all-gather"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        for s in range(n):
            made = jnp.tanh(x @ w[0])
            x = lax.psum(jnp.where(i == s, made, 0), "stage")
        return x

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% results of the last stage alone exercise="8.8" score=0 diagnoses=["not-replicated"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), []
        for t in range(n + len(x) - 1):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh(jnp.where(i == 0, fresh, came) @ w[0])
            kept.append(made)
            came = lax.ppermute(made, "stage", [(s, s + 1) for s in range(n - 1)])
        return jnp.stack(kept[n - 1 :])

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% a loop that begins with plain zeros exercise="8.8" score=0 diagnoses=["varying-mismatch"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")

        def one_step(came, t):
            taken = jnp.where(i == 0, x[jnp.minimum(t, len(x) - 1)], came)
            made = jnp.tanh(taken @ w[0])
            return lax.ppermute(made, "stage", [(s, s + 1) for s in range(n - 1)]), made

        _, kept = lax.scan(one_step, jnp.zeros_like(x[0]), jnp.arange(n + len(x) - 1))
        return lax.psum(jnp.where(i == n - 1, kept[n - 1 :], 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% handed the wrong way exercise="8.8" score=0 diagnoses=["nothing-but-zeros", "not-counted-yet"] near=["layers-reversed"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), []
        for t in range(n + len(x) - 1):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh(jnp.where(i == 0, fresh, came) @ w[0])
            kept.append(made)
            came = lax.ppermute(made, "stage", [(s + 1, s) for s in range(n - 1)])
        return lax.psum(jnp.where(i == n - 1, jnp.stack(kept[n - 1 :]), 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% nothing handed on exercise="8.8" score=0 diagnoses=["last-layer-alone", "not-counted-yet"] near=["nothing-but-zeros"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        made = jnp.tanh(x @ w[0])
        return lax.psum(jnp.where(i == n - 1, made, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% asked for whole exercise="8.8" score=0.125 diagnoses=["other-blocks-enter", "all-gather over stage"] near=["explicit all-gather"]
def pipeline(W, X):
    def body(w, x):
        return lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, w)[0]

    return jax.shard_map(body, in_specs=(P(), P()), out_specs=P())(W, X)


# %% left to the compiler exercise="8.8" score=0 diagnoses=["not-counted-yet", "no-shard-map", "all-gather over stage"] naive=true
def pipeline(W, X):
    return lax.scan(lambda h, w: (jnp.tanh(h @ w), None), X, W)[0]


# %% the line backwards exercise="8.8" score=0 diagnoses=["layers-reversed", "not-counted-yet"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), []
        for t in range(n + len(x) - 1):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh(jnp.where(i == n - 1, fresh, came) @ w[0])
            kept.append(made)
            came = lax.ppermute(made, "stage", [(s + 1, s) for s in range(n - 1)])
        return lax.psum(jnp.where(i == 0, jnp.stack(kept[n - 1 :]), 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% the layers side by side exercise="8.8" score=0 diagnoses=["side-by-side", "not-counted-yet"] near=["last-layer-alone"]
def pipeline(W, X):
    def body(w, x):
        return lax.psum(jnp.tanh(x @ w[0]), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% averaged in the end exercise="8.8" score=0 diagnoses=["mean-for-sum", "not-counted-yet"] near=["values"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), []
        for t in range(n + len(x) - 1):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh(jnp.where(i == 0, fresh, came) @ w[0])
            kept.append(made)
            came = lax.ppermute(made, "stage", [(s, s + 1) for s in range(n - 1)])
        return lax.pmean(jnp.where(i == n - 1, jnp.stack(kept[n - 1 :]), 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% what every stage has, added up exercise="8.8" score=0 diagnoses=["all-stages-added", "not-counted-yet"] near=["side-by-side", "mean-for-sum", "not-replicated"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), []
        for t in range(n + len(x) - 1):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh(jnp.where(i == 0, fresh, came) @ w[0])
            kept.append(made)
            came = lax.ppermute(made, "stage", [(s, s + 1) for s in range(n - 1)])
        return lax.psum(jnp.stack(kept[n - 1 :]), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% handed on by an all-gather in each step exercise="8.8" score=0.125 diagnoses=["explicit all-gather", "all-gather over stage"] near=["too-many-bytes"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), []
        for t in range(n + len(x) - 1):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh(jnp.where(i == 0, fresh, came) @ w[0])
            kept.append(made)
            came = lax.all_gather(made, "stage")[jnp.maximum(i - 1, 0)]
        return lax.psum(jnp.where(i == n - 1, jnp.stack(kept[n - 1 :]), 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% all microbatches together, from stage to stage exercise="8.8" score=0.25 diagnoses=["too-many-bytes"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")

        def one_step(h, t):
            h = jnp.where(i == t, jnp.tanh(h @ w[0]), h)
            return lax.ppermute(h, "stage", [(s, (s + 1) % n) for s in range(n)]), None

        h, _ = lax.scan(one_step, lax.pcast(x, "stage", to="varying"), jnp.arange(n))
        return lax.psum(jnp.where(i == 0, h, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% in another way: shifted label exercise="8.6" score=1 near=["one-place-off", "log-forgotten", "another-logarithm", "mean-of-exponentials", "logarithms-added", "examples-together", "label-averaged", "label-forgotten", "label-twice", "offset-added", "one-word-too-many", "first-word-missed", "probability"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        logits = logits - largest[:, None]
        total = lax.psum(jnp.exp(logits).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(jnp.log(total) - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% in another way: eq iota exercise="8.6" score=1
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words
        here = None
        ids = lax.axis_index("model") * words + jnp.arange(words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(ids[None] == labels[:, None], logits, 0).sum(1), "model")
        return jnp.mean(jnp.log(total) + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% log forgotten exercise="8.6" score=0 diagnoses=["log-forgotten", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(total + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% log of mean exercise="8.6" score=0 diagnoses=["mean-of-exponentials", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.pmean(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(jnp.log(total) + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% label pmean exercise="8.6" score=0 diagnoses=["label-averaged", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.pmean(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(jnp.log(total) + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% off by one place exercise="8.6" score=0 diagnoses=["one-place-off", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words - 1
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(jnp.log(total) + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% off by one here exercise="8.6" score=0 diagnoses=["one-word-too-many", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place <= words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(jnp.log(total) + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% here > 0 exercise="8.6" score=0 diagnoses=["first-word-missed", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words
        here = (place > 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(jnp.log(total) + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% label forgotten exercise="8.6" score=0 diagnoses=["label-forgotten", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(jnp.log(total) + largest)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% label term subtract twice exercise="8.6" score=0 diagnoses=["label-twice", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(jnp.log(total) + largest - 2 * label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% axis 0 sum exercise="8.6" score=0 diagnoses=["examples-together", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(), "model")
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(jnp.log(total) + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% place plus exercise="8.6" score=0 diagnoses=["offset-added", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels + lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(jnp.log(total) + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% log10 exercise="8.6" score=0 diagnoses=["another-logarithm", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(jnp.log10(total) + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% log before psum safe exercise="8.6" score=0 diagnoses=["logarithms-added", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.log(jnp.exp(logits - logits.max(1, keepdims=True)).sum(1)), "model")
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(total + largest - label)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% probability not log exercise="8.6" score=0 diagnoses=["probability", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(logits, labels):
        words = logits.shape[1]
        largest = lax.pmax(logits.max(axis=1), "model")
        total = lax.psum(jnp.exp(logits - largest[:, None]).sum(axis=1), "model")
        place = labels - lax.axis_index("model") * words
        here = (place >= 0) & (place < words)
        chosen = jnp.take_along_axis(logits, jnp.clip(place, 0, words - 1)[:, None], axis=1)
        label = lax.psum(jnp.where(here, chosen[:, 0], 0), "model")
        return jnp.mean(-jnp.exp(label - largest) / total)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% in another way: ring, mod exercise="8.8" score=1 near=["stages-take-the-input", "no-tanh", "tanh-first", "another-nonlinearity", "first-stage-kept", "all-stages-added", "first-stage-skipped"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        onward = [(s, (s + 1) % stages) for s in range(stages)]

        def one_step(carry, t):
            came, kept = carry
            taken = jnp.where(stage == 0, x[t % len(x)], came)
            made = jnp.tanh(taken @ w[0])
            done = t - (stages - 1)
            kept = jnp.where(done >= 0, kept.at[jnp.maximum(done, 0)].set(made), kept)
            return (lax.ppermute(made, "stage", onward), kept), None

        empty = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, kept), _ = lax.scan(one_step, empty, jnp.arange(stages + len(x) - 1))
        return lax.psum(jnp.where(stage == stages - 1, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% in another way: drop mode exercise="8.8" score=1
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        onward = [(s, s + 1) for s in range(stages - 1)]

        def one_step(carry, t):
            came, kept = carry
            taken = jnp.where(stage == 0, x[jnp.minimum(t, len(x) - 1)], came)
            made = jnp.tanh(taken @ w[0])
            done = t - (stages - 1)
            kept = kept.at[jnp.where(done >= 0, done, len(x))].set(made, mode="drop")
            return (lax.ppermute(made, "stage", onward), kept), None

        empty = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, kept), _ = lax.scan(one_step, empty, jnp.arange(stages + len(x) - 1))
        return lax.psum(jnp.where(stage == stages - 1, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% steps only stages exercise="8.8" score=0 diagnoses=["first-microbatch-alone", "not-counted-yet"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        onward = [(s, s + 1) for s in range(stages - 1)]

        def one_step(carry, t):
            came, kept = carry
            taken = jnp.where(stage == 0, x[jnp.minimum(t, len(x) - 1)], came)
            made = jnp.tanh(taken @ w[0])
            done = t - (stages - 1)
            kept = jnp.where(done >= 0, kept.at[jnp.maximum(done, 0)].set(made), kept)
            return (lax.ppermute(made, "stage", onward), kept), None

        empty = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, kept), _ = lax.scan(one_step, empty, jnp.arange(stages))
        return lax.psum(jnp.where(stage == stages - 1, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% everyone takes x[t] exercise="8.8" score=0 diagnoses=["stages-take-the-input", "not-counted-yet"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        onward = [(s, s + 1) for s in range(stages - 1)]

        def one_step(carry, t):
            came, kept = carry
            taken = x[jnp.minimum(t, len(x) - 1)]
            made = jnp.tanh(taken @ w[0])
            done = t - (stages - 1)
            kept = jnp.where(done >= 0, kept.at[jnp.maximum(done, 0)].set(made), kept)
            return (lax.ppermute(made, "stage", onward), kept), None

        empty = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, kept), _ = lax.scan(one_step, empty, jnp.arange(stages + len(x) - 1))
        return lax.psum(jnp.where(stage == stages - 1, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% tanh forgotten exercise="8.8" score=0 diagnoses=["no-tanh", "not-counted-yet"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        onward = [(s, s + 1) for s in range(stages - 1)]

        def one_step(carry, t):
            came, kept = carry
            taken = jnp.where(stage == 0, x[jnp.minimum(t, len(x) - 1)], came)
            made = taken @ w[0]
            done = t - (stages - 1)
            kept = jnp.where(done >= 0, kept.at[jnp.maximum(done, 0)].set(made), kept)
            return (lax.ppermute(made, "stage", onward), kept), None

        empty = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, kept), _ = lax.scan(one_step, empty, jnp.arange(stages + len(x) - 1))
        return lax.psum(jnp.where(stage == stages - 1, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% tanh inside exercise="8.8" score=0 diagnoses=["tanh-first", "not-counted-yet"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        onward = [(s, s + 1) for s in range(stages - 1)]

        def one_step(carry, t):
            came, kept = carry
            taken = jnp.where(stage == 0, x[jnp.minimum(t, len(x) - 1)], came)
            made = jnp.tanh(taken) @ w[0]
            done = t - (stages - 1)
            kept = jnp.where(done >= 0, kept.at[jnp.maximum(done, 0)].set(made), kept)
            return (lax.ppermute(made, "stage", onward), kept), None

        empty = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, kept), _ = lax.scan(one_step, empty, jnp.arange(stages + len(x) - 1))
        return lax.psum(jnp.where(stage == stages - 1, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% w transposed exercise="8.8" score=0 diagnoses=["of-other-inputs", "not-counted-yet"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        onward = [(s, s + 1) for s in range(stages - 1)]

        def one_step(carry, t):
            came, kept = carry
            taken = jnp.where(stage == 0, x[jnp.minimum(t, len(x) - 1)], came)
            made = jnp.tanh(taken @ w[0].T)
            done = t - (stages - 1)
            kept = jnp.where(done >= 0, kept.at[jnp.maximum(done, 0)].set(made), kept)
            return (lax.ppermute(made, "stage", onward), kept), None

        empty = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, kept), _ = lax.scan(one_step, empty, jnp.arange(stages + len(x) - 1))
        return lax.psum(jnp.where(stage == stages - 1, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% relu exercise="8.8" score=0 diagnoses=["another-nonlinearity", "not-counted-yet"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        onward = [(s, s + 1) for s in range(stages - 1)]

        def one_step(carry, t):
            came, kept = carry
            taken = jnp.where(stage == 0, x[jnp.minimum(t, len(x) - 1)], came)
            made = jax.nn.relu(taken @ w[0])
            done = t - (stages - 1)
            kept = jnp.where(done >= 0, kept.at[jnp.maximum(done, 0)].set(made), kept)
            return (lax.ppermute(made, "stage", onward), kept), None

        empty = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, kept), _ = lax.scan(one_step, empty, jnp.arange(stages + len(x) - 1))
        return lax.psum(jnp.where(stage == stages - 1, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% first stage result exercise="8.8" score=0 diagnoses=["first-stage-kept", "not-counted-yet"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        onward = [(s, s + 1) for s in range(stages - 1)]

        def one_step(carry, t):
            came, kept = carry
            taken = jnp.where(stage == 0, x[jnp.minimum(t, len(x) - 1)], came)
            made = jnp.tanh(taken @ w[0])
            done = t - (stages - 1)
            kept = jnp.where(done >= 0, kept.at[jnp.maximum(done, 0)].set(made), kept)
            return (lax.ppermute(made, "stage", onward), kept), None

        empty = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, kept), _ = lax.scan(one_step, empty, jnp.arange(stages + len(x) - 1))
        return lax.psum(jnp.where(stage == 0, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% psum of all exercise="8.8" score=0 diagnoses=["all-stages-added", "not-counted-yet"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        onward = [(s, s + 1) for s in range(stages - 1)]

        def one_step(carry, t):
            came, kept = carry
            taken = jnp.where(stage == 0, x[jnp.minimum(t, len(x) - 1)], came)
            made = jnp.tanh(taken @ w[0])
            done = t - (stages - 1)
            kept = jnp.where(done >= 0, kept.at[jnp.maximum(done, 0)].set(made), kept)
            return (lax.ppermute(made, "stage", onward), kept), None

        empty = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, kept), _ = lax.scan(one_step, empty, jnp.arange(stages + len(x) - 1))
        return lax.psum(kept, "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% stage 1 takes input exercise="8.8" score=0 diagnoses=["first-stage-skipped", "not-counted-yet"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        onward = [(s, s + 1) for s in range(stages - 1)]

        def one_step(carry, t):
            came, kept = carry
            taken = jnp.where(stage == 1, x[jnp.minimum(t, len(x) - 1)], came)
            made = jnp.tanh(taken @ w[0])
            done = t - (stages - 1)
            kept = jnp.where(done >= 0, kept.at[jnp.maximum(done, 0)].set(made), kept)
            return (lax.ppermute(made, "stage", onward), kept), None

        empty = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, kept), _ = lax.scan(one_step, empty, jnp.arange(stages + len(x) - 1))
        return lax.psum(jnp.where(stage == stages - 1, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% results added to every place exercise="8.8" score=0 diagnoses=["values", "not-counted-yet"] near=["all-stages-added"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        onward = [(s, s + 1) for s in range(stages - 1)]

        def one_step(carry, t):
            came, kept = carry
            taken = jnp.where(stage == 0, x[jnp.minimum(t, len(x) - 1)], came)
            made = jnp.tanh(taken @ w[0])
            done = t - (stages - 1)
            kept = kept + jnp.where(done >= 0, made, 0)
            return (lax.ppermute(made, "stage", onward), kept), None

        empty = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, kept), _ = lax.scan(one_step, empty, jnp.arange(stages + len(x) - 1))
        return lax.psum(jnp.where(stage == stages - 1, kept, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% the second bias left out exercise="8.3" score=0 diagnoses=["unanswered", "a-bias-left-out", "not-counted-yet"] near=["no-biases", "no-last-bias", "values"]
def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(X @ W1 + b1)
    h = jax.nn.relu(h @ W2)
    return jnp.matmul(h, W3, out_sharding=P("data", None)) + b3


# %% the last bias added twice exercise="8.3" score=0 diagnoses=["unanswered", "values", "not-counted-yet"] near=["no-last-bias", "a-relu-left-out", "a-bias-left-out", "relu-last"]
def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(X @ W1 + b1)
    h = jax.nn.relu(h @ W2 + b2)
    return jnp.matmul(h, W3, out_sharding=P("data", None)) + 2 * b3


# %% the last bias alone cut exercise="8.3" score=0 diagnoses=["layout of b3", "unanswered"] near=["over-the-cap"]
both_ways = (
    on(grid, "data"),
    on(grid),
    on(grid),
    on(grid, None, "model"),
    on(grid, "model"),
    on(grid, "model"),
    on(grid, "model"),
)


# %% the first layer into columns, the second into rows exercise="8.3" score=0 diagnoses=["too-many-bytes", "unanswered"] near=["over-the-cap", "reduce-scatter", "layout of W1 and b1", "layout of b3", "layout of X"]
both_ways = (
    on(grid, "data", None),
    on(grid, None, "model"),
    on(grid, "model"),
    on(grid, "model", None),
    on(grid),
    on(grid, None, "model"),
    on(grid, "model"),
)


# %% products alone exercise="8.4" score=0 diagnoses=["tanh-forgotten", "not-counted-yet"] near=["mean-of-everything", "values"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        @jax.checkpoint
        def layer(h, mine):
            return h @ lax.all_gather(mine, "data", tiled=True), None

        def own_part(w):
            return jnp.sum((lax.scan(layer, x, w)[0] - y) ** 2) / len(y) / lax.axis_size("data")

        return jax.grad(own_part)(w)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% rows of its own examples' gradient exercise="8.4" score=0 diagnoses=["own-examples-alone", "not-counted-yet", "gathered-at-once"] near=["values", "as-many-times"]
def fsdp_gradient(W, X, Y):
    def body(w, x, y):
        whole = lax.all_gather(w, "data", axis=1, tiled=True)

        def own_part(whole):
            made, _ = lax.scan(lambda h, each: (jnp.tanh(h @ each), None), x, whole)
            return jnp.sum((made - y) ** 2) / len(y)

        rows = w.shape[1]
        return lax.dynamic_slice_in_dim(
            jax.grad(own_part)(whole), lax.axis_index("data") * rows, rows, axis=1
        )

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% the last round alone, not divided exercise="8.7" score=0 diagnoses=["last-round-alone", "not-counted-yet"] near=["first-round-alone", "rounds-added-up"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        own = lax.pcast(W, "data", to="varying")

        def one_round(total, examples):
            x, y = examples
            gradient = jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(own)
            return gradient, None

        total, _ = lax.scan(one_round, jnp.zeros_like(own), (X, Y))
        return lax.pmean(total, "data")

    specs = P(), P(None, "data"), P(None, "data")
    return jax.shard_map(body, in_specs=specs, out_specs=P())(W, X, Y)


# %% the first round left out exercise="8.7" score=0 diagnoses=["first-round-left-out", "not-counted-yet", "too-much-memory"] near=["last-round-left-out", "last-round-alone"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        own = lax.pcast(W, "data", to="varying")

        def one_round(total, examples):
            x, y = examples
            gradient = jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(own)
            return total + gradient, None

        total, _ = lax.scan(one_round, jnp.zeros_like(own), (X[1:], Y[1:]))
        return lax.pmean(total, "data") / len(X)

    specs = P(), P(None, "data"), P(None, "data")
    return jax.shard_map(body, in_specs=specs, out_specs=P())(W, X, Y)


# %% the last round left out exercise="8.7" score=0 diagnoses=["last-round-left-out", "not-counted-yet", "too-much-memory"] near=["first-round-left-out", "first-round-alone"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        own = lax.pcast(W, "data", to="varying")

        def one_round(total, examples):
            x, y = examples
            gradient = jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(own)
            return total + gradient, None

        total, _ = lax.scan(one_round, jnp.zeros_like(own), (X[:-1], Y[:-1]))
        return lax.pmean(total, "data") / len(X)

    specs = P(), P(None, "data"), P(None, "data")
    return jax.shard_map(body, in_specs=specs, out_specs=P())(W, X, Y)


# %% the first round alone exercise="8.7" score=0 diagnoses=["first-round-alone", "not-counted-yet"] near=["last-round-alone", "first-device-alone"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        own = lax.pcast(W, "data", to="varying")

        def one_round(total, examples):
            x, y = examples
            gradient = jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(own)
            return total + gradient, None

        total, _ = lax.scan(one_round, jnp.zeros_like(own), (X[:1], Y[:1]))
        return lax.pmean(total, "data")

    specs = P(), P(None, "data"), P(None, "data")
    return jax.shard_map(body, in_specs=specs, out_specs=P())(W, X, Y)


# %% a sum over the block exercise="8.7" score=0 diagnoses=["sum-of-a-block", "not-counted-yet"] near=["mean-of-sums", "as-many-times", "rounds-added-up"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        own = lax.pcast(W, "data", to="varying")

        def one_round(total, examples):
            x, y = examples
            gradient = jax.grad(lambda w: jnp.sum((jnp.tanh(x @ w) - y) ** 2))(own)
            return total + gradient, None

        total, _ = lax.scan(one_round, jnp.zeros_like(own), (X, Y))
        return lax.pmean(total, "data") / len(X)

    specs = P(), P(None, "data"), P(None, "data")
    return jax.shard_map(body, in_specs=specs, out_specs=P())(W, X, Y)


# %% a sum over the features exercise="8.7" score=0 diagnoses=["mean-of-sums", "not-counted-yet"] near=["tanh-forgotten", "sum-of-a-block", "off-by-a-factor"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        own = lax.pcast(W, "data", to="varying")

        def one_round(total, examples):
            x, y = examples
            gradient = jax.grad(lambda w: jnp.mean(jnp.sum((jnp.tanh(x @ w) - y) ** 2, axis=1)))(
                own
            )
            return total + gradient, None

        total, _ = lax.scan(one_round, jnp.zeros_like(own), (X, Y))
        return lax.pmean(total, "data") / len(X)

    specs = P(), P(None, "data"), P(None, "data")
    return jax.shard_map(body, in_specs=specs, out_specs=P())(W, X, Y)


# %% products alone exercise="8.7" score=0 diagnoses=["tanh-forgotten", "not-counted-yet"] near=["as-many-times"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        own = lax.pcast(W, "data", to="varying")

        def one_round(total, examples):
            x, y = examples
            gradient = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(own)
            return total + gradient, None

        total, _ = lax.scan(one_round, jnp.zeros_like(own), (X, Y))
        return lax.pmean(total, "data") / len(X)

    specs = P(), P(None, "data"), P(None, "data")
    return jax.shard_map(body, in_specs=specs, out_specs=P())(W, X, Y)


# %% the gradient of the first device exercise="8.7" score=0 diagnoses=["first-device-alone", "not-counted-yet"] near=["first-round-alone", "averaged-twice"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        own = lax.pcast(W, "data", to="varying")

        def one_round(total, examples):
            x, y = examples
            gradient = jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(own)
            return total + gradient, None

        total, _ = lax.scan(one_round, jnp.zeros_like(own), (X, Y))
        return lax.psum(jnp.where(lax.axis_index("data") == 0, total, 0), "data") / len(X)

    specs = P(), P(None, "data"), P(None, "data")
    return jax.shard_map(body, in_specs=specs, out_specs=P())(W, X, Y)


# %% the first microbatch for all exercise="8.8" score=0 diagnoses=["first-microbatch-again", "not-counted-yet"] near=["one-step-short", "one-step-late"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), []
        for t in range(n + len(x) - 1):
            fresh = x[0]
            made = jnp.tanh(jnp.where(i == 0, fresh, came) @ w[0])
            kept.append(made)
            came = lax.ppermute(made, "stage", [(s, s + 1) for s in range(n - 1)])
        return lax.psum(jnp.where(i == n - 1, jnp.stack(kept[n - 1 :]), 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% a ring in the opposite direction exercise="8.8" score=0 diagnoses=["handed-back", "not-counted-yet"] near=["layers-reversed", "first-stage-kept", "nothing-but-zeros"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), []
        for t in range(n + len(x) - 1):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh(jnp.where(i == 0, fresh, came) @ w[0])
            kept.append(made)
            came = lax.ppermute(made, "stage", [((s + 1) % n, s) for s in range(n)])
        return lax.psum(jnp.where(i == n - 1, jnp.stack(kept[n - 1 :]), 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% the results of the stage before the last exercise="8.8" score=0 diagnoses=["last-stage-missed", "not-counted-yet"] near=["first-stage-skipped", "handed-back"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), []
        for t in range(n + len(x) - 1):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh(jnp.where(i == 0, fresh, came) @ w[0])
            kept.append(made)
            came = lax.ppermute(made, "stage", [(s, s + 1) for s in range(n - 1)])
        return lax.psum(jnp.where(i == n - 2, jnp.stack(kept[n - 1 :]), 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% the first layer on every stage exercise="8.8" score=0 diagnoses=["first-layer-everywhere", "other-blocks-enter", "all-gather over stage"] near=["last-layer-alone", "first-stage-kept"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), []
        for t in range(n + len(x) - 1):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh(jnp.where(i == 0, fresh, came) @ w[0])
            kept.append(made)
            came = lax.ppermute(made, "stage", [(s, s + 1) for s in range(n - 1)])
        return lax.psum(jnp.where(i == n - 1, jnp.stack(kept[n - 1 :]), 0), "stage")

    return jax.shard_map(body, in_specs=(P(), P()), out_specs=P())(W, X)


# %% what came is added to the input exercise="8.8" score=0 diagnoses=["input-added-everywhere", "not-counted-yet"] near=["all-stages-added", "stages-take-the-input", "first-microbatch-again", "first-layer-everywhere", "last-stage-missed"]
def pipeline(W, X):
    def body(w, x):
        n, i = lax.axis_size("stage"), lax.axis_index("stage")
        came, kept = jnp.zeros_like(x[0]), []
        for t in range(n + len(x) - 1):
            fresh = x[t] if t < len(x) else x[-1]
            made = jnp.tanh((fresh + came) @ w[0])
            kept.append(made)
            came = lax.ppermute(made, "stage", [(s, s + 1) for s in range(n - 1)])
        return lax.psum(jnp.where(i == n - 1, jnp.stack(kept[n - 1 :]), 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% shardings on an Explicit mesh, and the notebook's mesh named in the last matmul exercise="8.3" score=0 diagnoses=["fails", "only-the-first"] near=["ambiguous", "over-the-cap"]
both_ways = (
    NamedSharding(explicit_grid, P("data")),
    NamedSharding(explicit_grid, P()),
    NamedSharding(explicit_grid, P()),
    NamedSharding(explicit_grid, P(None, "model")),
    NamedSharding(explicit_grid, P("model")),
    NamedSharding(explicit_grid, P("model", None)),
    NamedSharding(explicit_grid, P()),
)


def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(X @ W1 + b1)
    h = jax.nn.relu(h @ W2 + b2)
    return jnp.dot(h, W3, out_sharding=NamedSharding(explicit_grid, P("data", None))) + b3


# %% the product left open on the learner's own Explicit axes exercise="8.3" score=0 diagnoses=["unanswered", "ambiguous"] near=["fails", "bias-after-relu"]
def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(X @ W1 + b1)
    h = jax.nn.relu(h @ W2 + b2)
    return h @ W3 + b3


# %% blocks of tokens stacked exercise="8.5" score=0 diagnoses=["reshaped", "shape", "not-counted-yet"] near=["untiled", "joined-elsewhere"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        x = lax.all_gather(x, "model")
        return lax.psum_scatter(jax.nn.relu(x @ w1) @ w2, "model", tiled=True)

    specs = P("model"), P(None, "model"), P("model")
    return jax.shard_map(body, in_specs=specs, out_specs=P("model"))(X, W1, W2)


# %% the logarithm before the sum over the devices exercise="8.6" score=0 diagnoses=["logarithms-added", "not-counted-yet"] near=["not-finite", "own-largest"]
def cross_entropy(logits, labels):
    def body(l, y):
        m = lax.pmax(l.max(1), "model")
        s = jnp.exp(l - m[:, None]).sum(1)
        k = l.shape[1]
        local = y - lax.axis_index("model") * k
        picked = jnp.take_along_axis(l, jnp.clip(local, 0, k - 1)[:, None], 1)[:, 0]
        right = lax.psum(jnp.where((local >= 0) & (local < k), picked, 0.0), "model")
        return jnp.mean(lax.psum(jnp.log(s), "model") + m - right)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% each device's logsumexp, added up exercise="8.6" score=0 diagnoses=["logarithms-added", "not-counted-yet"] near=["own-largest", "own-results"]
def cross_entropy(logits, labels):
    def body(l, y):
        k = l.shape[1]
        local = y - lax.axis_index("model") * k
        picked = jnp.take_along_axis(l, jnp.clip(local, 0, k - 1)[:, None], 1)[:, 0]
        right = lax.psum(jnp.where((local >= 0) & (local < k), picked, 0.0), "model")
        return jnp.mean(lax.psum(jax.nn.logsumexp(l, axis=1), "model") - right)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% every stage takes X[t] while there is one exercise="8.8" score=0 diagnoses=["stages-take-the-input", "not-counted-yet"] near=["values", "placed-by-step", "first-stage-kept"]
def pipeline(W, X):
    def body(W, X):
        n, s, m = lax.axis_size("stage"), lax.axis_index("stage"), X.shape[0]
        h = lax.pcast(jnp.zeros_like(X[0]), "stage", to="varying")
        out = lax.pcast(jnp.zeros_like(X), "stage", to="varying")
        for t in range(n + m - 1):
            h = jnp.tanh((X[t] if t < m else h) @ W[0])
            if t >= n - 1:
                out = out.at[t - n + 1].set(h)
            h = lax.ppermute(h, "stage", [(i, (i + 1) % n) for i in range(n)])
        return lax.psum(jnp.where(s == n - 1, out, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% results put in place t % m exercise="8.8" score=0 diagnoses=["placed-by-step", "not-counted-yet"] near=["one-step-late", "misplaced", "stages-take-the-input"]
def pipeline(W, X):
    def body(W, X):
        n, s, m = lax.axis_size("stage"), lax.axis_index("stage"), X.shape[0]
        h = lax.pcast(jnp.zeros_like(X[0]), "stage", to="varying")
        out = lax.pcast(jnp.zeros_like(X), "stage", to="varying")
        for t in range(n + m - 1):
            h = jnp.tanh(jnp.where(s == 0, X[t % m], h) @ W[0])
            out = out.at[t % m].set(h)
            h = lax.ppermute(h, "stage", [(i, i + 1) for i in range(n - 1)])
        return lax.psum(jnp.where(s == n - 1, out, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% sent before it is multiplied exercise="8.8" score=0 diagnoses=["first-stage-skipped", "not-counted-yet"] near=["placed-by-step", "last-stage-missed"]
def pipeline(W, X):
    def body(W, X):
        n, s, m = lax.axis_size("stage"), lax.axis_index("stage"), X.shape[0]
        h = lax.pcast(jnp.zeros_like(X[0]), "stage", to="varying")
        out = lax.pcast(jnp.zeros_like(X), "stage", to="varying")
        for t in range(n + m - 1):
            h = jnp.where(s == 0, X[min(t, m - 1)], h)
            h = lax.ppermute(h, "stage", [(i, i + 1) for i in range(n - 1)])
            h = jnp.tanh(h @ W[0])
            if t >= n - 1:
                out = out.at[t - n + 1].set(h)
        return lax.psum(jnp.where(s == n - 1, out, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% the same pieces on other devices exercise="8.2" score=0 diagnoses=["collective-permute over a, b"] near=["all-gather"]
m = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AUTO, AUTO))
tensor_parallel = [on(m), on(m, None, ("a", "b")), on(m, ("b", "a"))]


# %% a bias after relu exercise="8.3" score=0.5 diagnoses=["bias-after-relu", "not-counted-yet"] near=["a-bias-left-out"]
both_ways = [on(grid, *s) for s in [("data",), (), (), (None, "model"), ("model",), ("model",), ()]]


def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    h = jax.nn.relu(X @ W1 + b1)
    h = jax.nn.relu(h @ W2) + b2
    return jnp.dot(h, W3, out_sharding=P("data", None)) + b3


# %% without checkpoint exercise="8.4" score=0.25 diagnoses=["gathered-once"] near=["gathered-at-once"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        def layer(h, w):
            return jnp.tanh(h @ lax.all_gather(w, "data", axis=0, tiled=True)), None

        def loss(W):
            h, _ = lax.scan(layer, X, W)
            return jnp.sum((h - Y) ** 2) / (X.shape[0] * lax.axis_size("data"))

        return jax.grad(loss)(W)

    s = P(None, "data")
    return jax.shard_map(body, in_specs=(s, P("data"), P("data")), out_specs=s)(W, X, Y)


# %% gathered before the loop exercise="8.4" score=0.25 diagnoses=["gathered-at-once"] near=["gathered-once", "too-much-memory"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        @jax.checkpoint
        def layer(h, w):
            return jnp.tanh(h @ w), None

        def loss(W):
            W = lax.all_gather(W, "data", axis=1, tiled=True)
            h, _ = lax.scan(layer, X, W)
            return jnp.sum((h - Y) ** 2) / (X.shape[0] * lax.axis_size("data"))

        return jax.grad(loss)(W)

    s = P(None, "data")
    return jax.shard_map(body, in_specs=(s, P("data"), P("data")), out_specs=s)(W, X, Y)


# %% untiled exercise="8.4" score=0 diagnoses=["blocks-do-not-fit"] near=["no-last-tanh", "not-gathered"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        @jax.checkpoint
        def layer(h, w):
            return jnp.tanh(h @ lax.all_gather(w, "data", axis=0)), None

        def loss(W):
            h, _ = lax.scan(layer, X, W)
            return jnp.sum((h - Y) ** 2) / (X.shape[0] * lax.axis_size("data"))

        return jax.grad(loss)(W)

    s = P(None, "data")
    return jax.shard_map(body, in_specs=(s, P("data"), P("data")), out_specs=s)(W, X, Y)


# %% no tanh at the end exercise="8.4" score=0 diagnoses=["no-last-tanh", "not-counted-yet"] near=["tanh-forgotten", "new-weights"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        @jax.checkpoint
        def layer(h, w):
            return jnp.tanh(h @ lax.all_gather(w, "data", axis=0, tiled=True)), None

        def loss(W):
            h, _ = lax.scan(layer, X, W[:-1])
            h = h @ lax.all_gather(W[-1], "data", axis=0, tiled=True)
            return jnp.sum((h - Y) ** 2) / (X.shape[0] * lax.axis_size("data"))

        return jax.grad(loss)(W)

    s = P(None, "data")
    return jax.shard_map(body, in_specs=(s, P("data"), P("data")), out_specs=s)(W, X, Y)


# %% the new weights exercise="8.4" score=0 diagnoses=["new-weights", "not-counted-yet"] near=["as-many-times", "blocks-do-not-fit"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        @jax.checkpoint
        def layer(h, w):
            return jnp.tanh(h @ lax.all_gather(w, "data", axis=0, tiled=True)), None

        def loss(W):
            h, _ = lax.scan(layer, X, W)
            return jnp.sum((h - Y) ** 2) / (X.shape[0] * lax.axis_size("data"))

        return W - jax.grad(loss)(W)

    s = P(None, "data")
    return jax.shard_map(body, in_specs=(s, P("data"), P("data")), out_specs=s)(W, X, Y)


# %% relu of parts exercise="8.5" score=0 diagnoses=["relu-of-parts", "not-counted-yet"] near=["relu-last"]
def sequence_parallel(X, W1, W2):
    def body(X, W1, W2):
        tokens = lax.all_gather(X, "model", axis=0, tiled=True)
        part = jax.nn.relu(tokens @ W1 @ W2)
        return lax.psum_scatter(part, "model", scatter_dimension=0, tiled=True)

    return jax.shard_map(
        body, in_specs=(P("model"), P(None, "model"), P("model")), out_specs=P("model")
    )(X, W1, W2)


# %% the first word missed, with the largest taken off exercise="8.6" score=0 diagnoses=["first-word-missed", "not-counted-yet"] near=["one-place-off"]
def cross_entropy(logits, labels):
    def body(l, y):
        m = lax.pmax(l.max(axis=1), "model")
        l = l - m[:, None]
        z = lax.psum(jnp.exp(l).sum(axis=1), "model")
        k = l.shape[1]
        i = y - lax.axis_index("model") * k
        mine = (i > 0) & (i < k)
        t = jnp.take_along_axis(l, jnp.clip(i, 0, k - 1)[:, None], axis=1)[:, 0]
        t = lax.psum(jnp.where(mine, t, 0), "model")
        return jnp.mean(jnp.log(z) - t)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% no offset, with the largest taken off exercise="8.6" score=0 diagnoses=["label-without-offset", "not-counted-yet"] near=["offset-added"]
def cross_entropy(logits, labels):
    def body(l, y):
        m = lax.pmax(l.max(axis=1), "model")
        l = l - m[:, None]
        z = lax.psum(jnp.exp(l).sum(axis=1), "model")
        k = l.shape[1]
        i = y
        mine = (i >= 0) & (i < k)
        t = jnp.take_along_axis(l, jnp.clip(i, 0, k - 1)[:, None], axis=1)[:, 0]
        t = lax.psum(jnp.where(mine, t, 0), "model")
        return jnp.mean(jnp.log(z) - t)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% a maximum of what is below zero exercise="8.6" score=0 diagnoses=["label-forgotten", "not-counted-yet"] near=["label-twice"]
def cross_entropy(logits, labels):
    def body(l, y):
        m = lax.pmax(l.max(axis=1), "model")
        l = l - m[:, None]
        z = lax.psum(jnp.exp(l).sum(axis=1), "model")
        k = l.shape[1]
        i = y - lax.axis_index("model") * k
        mine = (i >= 0) & (i < k)
        t = jnp.take_along_axis(l, jnp.clip(i, 0, k - 1)[:, None], axis=1)[:, 0]
        t = lax.pmax(jnp.where(mine, t, 0), "model")
        return jnp.mean(jnp.log(z) - t)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% divided by the examples exercise="8.7" score=0 diagnoses=["divided-by-examples", "not-counted-yet"] near=["as-many-times", "begins-with-W"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        own = lax.pcast(W, "data", to="varying")

        def one(total, xy):
            x, y = xy
            g = jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(own)
            return total + g, None

        total, _ = lax.scan(one, jnp.zeros_like(own), (X, Y))
        return lax.pmean(total, "data") / X.shape[1]

    s = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), s, s), out_specs=P())(W, X, Y)


# %% begun with W exercise="8.7" score=0 diagnoses=["begins-with-W", "not-counted-yet"] near=["divided-by-examples"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        own = lax.pcast(W, "data", to="varying")

        def one(total, xy):
            x, y = xy
            g = jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - y) ** 2))(own)
            return total + g, None

        total, _ = lax.scan(one, own, (X, Y))
        return lax.pmean(total, "data") / X.shape[0]

    s = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), s, s), out_specs=P())(W, X, Y)


# %% kept as it arrived exercise="8.8" score=0 diagnoses=["last-stage-missed", "not-counted-yet"] near=["first-microbatch-alone"]
def pipeline(W, X):
    def body(W, X):
        s, n, m = lax.axis_index("stage"), lax.axis_size("stage"), X.shape[0]

        def tick(carry, t):
            held, out = carry
            came = lax.ppermute(held, "stage", [(i, i + 1) for i in range(n - 1)])
            h = jnp.where(s == 0, X[jnp.clip(t, 0, m - 1)], came)
            h = jnp.tanh(h @ W[0])
            k = t - (n - 1)
            ok = (s == n - 1) & (k >= 0)
            out = jnp.where(ok, out.at[jnp.clip(k, 0, m - 1)].set(came), out)
            return (h, out), None

        start = lax.pcast((jnp.zeros_like(X[0]), jnp.zeros_like(X)), "stage", to="varying")
        (_, out), _ = lax.scan(tick, start, jnp.arange(n + m - 1))
        return lax.psum(out, "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% the first microbatch alone exercise="8.8" score=0 diagnoses=["first-microbatch-alone", "not-counted-yet"] near=["first-microbatch-again", "one-step-short", "input-added-everywhere"]
def pipeline(W, X):
    def body(W, X):
        s, n, m = lax.axis_index("stage"), lax.axis_size("stage"), X.shape[0]

        def tick(carry, t):
            held, out = carry
            came = lax.ppermute(held, "stage", [(i, i + 1) for i in range(n - 1)])
            h = jnp.where(t == 0, X[jnp.clip(t, 0, m - 1)], came)
            h = jnp.tanh(h @ W[0])
            k = t - (n - 1)
            ok = (s == n - 1) & (k >= 0)
            out = jnp.where(ok, out.at[jnp.clip(k, 0, m - 1)].set(h), out)
            return (h, out), None

        start = lax.pcast((jnp.zeros_like(X[0]), jnp.zeros_like(X)), "stage", to="varying")
        (_, out), _ = lax.scan(tick, start, jnp.arange(n + m - 1))
        return lax.psum(out, "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% relu of the tokens exercise="8.5" score=0 diagnoses=["relu-of-the-tokens", "not-counted-yet"] near=["relu-last", "no-relu", "another-nonlinearity"]
def sequence_parallel(X, W1, W2):
    def body(X, W1, W2):
        tokens = lax.all_gather(X, "model", axis=0, tiled=True)
        part = jax.nn.relu(tokens) @ W1 @ W2
        return lax.psum_scatter(part, "model", scatter_dimension=0, tiled=True)

    return jax.shard_map(
        body, in_specs=(P("model"), P(None, "model"), P("model")), out_specs=P("model")
    )(X, W1, W2)


# %% gelu exercise="8.5" score=0 diagnoses=["another-nonlinearity", "not-counted-yet", "too-much-work"] near=["relu-of-the-tokens", "relu-of-parts"]
def sequence_parallel(X, W1, W2):
    def body(X, W1, W2):
        tokens = lax.all_gather(X, "model", axis=0, tiled=True)
        part = jax.nn.gelu(tokens @ W1) @ W2
        return lax.psum_scatter(part, "model", scatter_dimension=0, tiled=True)

    return jax.shard_map(
        body, in_specs=(P("model"), P(None, "model"), P("model")), out_specs=P("model")
    )(X, W1, W2)


# %% the input added everywhere exercise="8.8" score=0 diagnoses=["input-added-everywhere", "not-counted-yet"] near=["stages-take-the-input"]
def pipeline(W, X):
    def body(W, X):
        s, n, m = lax.axis_index("stage"), lax.axis_size("stage"), X.shape[0]

        def tick(carry, t):
            held, out = carry
            came = lax.ppermute(held, "stage", [(i, i + 1) for i in range(n - 1)])
            h = X[jnp.clip(t, 0, m - 1)] + came
            h = jnp.tanh(h @ W[0])
            k = t - (n - 1)
            ok = (s == n - 1) & (k >= 0)
            out = jnp.where(ok, out.at[jnp.clip(k, 0, m - 1)].set(h), out)
            return (h, out), None

        start = lax.pcast((jnp.zeros_like(X[0]), jnp.zeros_like(X)), "stage", to="varying")
        (_, out), _ = lax.scan(tick, start, jnp.arange(n + m - 1))
        return lax.psum(out, "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% layers not gathered exercise="8.4" score=0 diagnoses=["not-gathered"] near=["blocks-do-not-fit"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        def loss(W):
            def layer(h, w):
                return jnp.tanh(h @ w), None

            h, _ = lax.scan(layer, X, W)
            return jnp.sum((h - Y) ** 2) / (len(X) * lax.axis_size("data"))

        return jax.grad(loss)(W)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% tokens not gathered exercise="8.5" score=0 diagnoses=["scatter-does-not-divide"] near=["untiled"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        partial_sums = jax.nn.relu(x @ w1) @ w2
        return lax.psum_scatter(partial_sums, "model", scatter_dimension=0, tiled=True)

    rows, columns = P("model", None), P(None, "model")
    return jax.shard_map(body, in_specs=(rows, columns, rows), out_specs=rows)(X, W1, W2)


# %% weights replicated by in_specs exercise="8.5" score=0.25 diagnoses=["gathered-before-the-body"] near=["scattered-too-early"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        return jax.nn.relu(x @ w1) @ w2

    rows = P("model", None)
    return jax.shard_map(body, in_specs=(rows, P(), P()), out_specs=rows)(X, W1, W2)


# %% scattered before the second matmul exercise="8.5" score=0 diagnoses=["scattered-too-early", "not-counted-yet"] near=["own-units-alone"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = lax.all_gather(x, "model", tiled=True)
        hidden = lax.psum_scatter(jax.nn.relu(tokens @ w1), "model", tiled=True)
        return hidden @ w2

    rows, columns = P("model", None), P(None, "model")
    return jax.shard_map(body, in_specs=(rows, columns, rows), out_specs=rows)(X, W1, W2)


# %% scattered before relu exercise="8.5" score=0 diagnoses=["scattered-too-early", "not-counted-yet"] near=["no-relu"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = lax.all_gather(x, "model", tiled=True)
        hidden = jax.nn.relu(lax.psum_scatter(tokens @ w1, "model", tiled=True))
        return hidden @ w2

    rows, columns = P("model", None), P(None, "model")
    return jax.shard_map(body, in_specs=(rows, columns, rows), out_specs=rows)(X, W1, W2)


# %% relu in place of tanh exercise="8.4" score=0 diagnoses=["relu-for-tanh", "not-counted-yet"] near=["tanh-forgotten", "no-last-tanh"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        n = lax.axis_size("data")

        def loss(W):
            @jax.checkpoint
            def layer(h, w):
                return jax.nn.relu(h @ lax.all_gather(w, "data", tiled=True)), None

            h = lax.scan(layer, X, W)[0]
            return jnp.mean(jnp.sum((h - Y) ** 2, axis=1)) / n

        return jax.grad(loss)(W)

    return jax.shard_map(
        body, in_specs=(P(None, "data"), P("data"), P("data")), out_specs=P(None, "data")
    )(W, X, Y)


# %% the last layer first exercise="8.4" score=0 diagnoses=["layers-reversed", "not-counted-yet"] near=["weights-transposed"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        n = lax.axis_size("data")

        def loss(W):
            @jax.checkpoint
            def layer(h, w):
                return jnp.tanh(h @ lax.all_gather(w, "data", tiled=True)), None

            h = lax.scan(layer, X, W, reverse=True)[0]
            return jnp.mean(jnp.sum((h - Y) ** 2, axis=1)) / n

        return jax.grad(loss)(W)

    return jax.shard_map(
        body, in_specs=(P(None, "data"), P("data"), P("data")), out_specs=P(None, "data")
    )(W, X, Y)


# %% each layer transposed exercise="8.4" score=0 diagnoses=["weights-transposed", "not-counted-yet"] near=["layers-reversed", "relu-for-tanh", "rows-interleaved"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        n = lax.axis_size("data")

        def loss(W):
            @jax.checkpoint
            def layer(h, w):
                return jnp.tanh(h @ lax.all_gather(w, "data", tiled=True).T), None

            h = lax.scan(layer, X, W)[0]
            return jnp.mean(jnp.sum((h - Y) ** 2, axis=1)) / n

        return jax.grad(loss)(W)

    return jax.shard_map(
        body, in_specs=(P(None, "data"), P("data"), P("data")), out_specs=P(None, "data")
    )(W, X, Y)


# %% the number of the device for that of its first word exercise="8.6" score=0 diagnoses=["offset-of-one", "not-counted-yet"] near=["label-without-offset", "offset-added"]
def cross_entropy(logits, labels):
    def body(z, labels):
        k = z.shape[1]
        top = lax.pmax(z.max(1), "model")
        at = labels - lax.axis_index("model")
        ok = (at >= 0) & (at < k)
        l = jnp.where(ok, jnp.take_along_axis(z, jnp.clip(at, 0, k - 1)[:, None], 1)[:, 0], 0.0)
        s = lax.psum(jnp.exp(z - top[:, None]).sum(1), "model")
        l = lax.psum(l, "model")
        return jnp.mean(top + jnp.log(s) - l)

    return jax.shard_map(body, in_specs=(P(None, "model"), P(None)), out_specs=P())(logits, labels)


# %% every device has the whole batch exercise="8.4" score=0.1667 diagnoses=["too-many-bytes", "too-much-work"] near=["own-examples-alone", "varying-mismatch", "varies-already"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        X, Y = lax.pcast((X, Y), "data", to="varying")
        n = lax.axis_size("data")

        def loss(W):
            @jax.checkpoint
            def layer(h, w):
                return jnp.tanh(h @ lax.all_gather(w, "data", tiled=True)), None

            h = lax.scan(layer, X, W)[0]
            return jnp.mean(jnp.sum((h - Y) ** 2, axis=1)) / n

        return jax.grad(loss)(W)

    return jax.shard_map(body, in_specs=(P(None, "data"), P(), P()), out_specs=P(None, "data"))(
        W, X, Y
    )


# %% the last bias before the sum exercise="8.3" score=0.5 diagnoses=["own-results", "not-counted-yet"] near=["no-last-bias"]
both_ways = [
    on(grid, "data"),
    on(grid),
    on(grid),
    on(grid, None, "model"),
    on(grid, "model"),
    on(grid, "model"),
    on(grid),
]


def predict_explicit(X, W1, b1, W2, b2, W3, b3):
    def body(X, W1, b1, W2, b2, W3, b3):
        h = jnp.maximum(X @ W1 + b1, 0)
        h = jnp.maximum(h @ W2 + b2, 0)
        return lax.psum(h @ W3 + b3, "model")

    return jax.shard_map(
        body,
        in_specs=(P("data"), P(), P(), P(None, "model"), P("model"), P("model"), P()),
        out_specs=P("data"),
    )(X, W1, b1, W2, b2, W3, b3)


# %% in_specs request the whole batch exercise="8.4" score=0 diagnoses=["varying-mismatch"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        n = lax.axis_size("data")

        def loss(W):
            @jax.checkpoint
            def layer(h, w):
                return jnp.tanh(h @ lax.all_gather(w, "data", tiled=True)), None

            h = lax.scan(layer, X, W)[0]
            return jnp.mean(jnp.sum((h - Y) ** 2, axis=1)) / n

        return jax.grad(loss)(W)

    return jax.shard_map(body, in_specs=(P(None, "data"), P(), P()), out_specs=P(None, "data"))(
        W, X, Y
    )


# %% rows interleaved by an untiled gather exercise="8.4" score=0 diagnoses=["rows-interleaved", "not-counted-yet"] near=["blocks-do-not-fit", "weights-transposed"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        n = lax.axis_size("data")

        def loss(W):
            @jax.checkpoint
            def layer(h, w):
                g = lax.all_gather(w, "data", axis=1, tiled=False).reshape(-1, w.shape[1])
                return jnp.tanh(h @ g), None

            h = lax.scan(layer, X, W)[0]
            return jnp.mean(jnp.sum((h - Y) ** 2, axis=1)) / n

        return jax.grad(loss)(W)

    return jax.shard_map(
        body, in_specs=(P(None, "data"), P("data"), P("data")), out_specs=P(None, "data")
    )(W, X, Y)


# %% a step of training for each microbatch exercise="8.7" score=0 diagnoses=["steps-on-the-way", "not-counted-yet"] near=["running-mean"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        w = lax.pcast(W, "data", to="varying")
        slope = jax.grad(lambda w, x, y: jnp.mean((jnp.tanh(x @ w) - y) ** 2))
        g, _ = lax.scan(lambda g, b: (g + slope(w - 0.1 * g, *b), None), jnp.zeros_like(w), (X, Y))
        return lax.pmean(g / len(X), "data")

    return jax.shard_map(body, in_specs=(P(), P(None, "data"), P(None, "data")), out_specs=P())(
        W, X, Y
    )


# %% a running mean that halves exercise="8.7" score=0 diagnoses=["running-mean", "not-counted-yet"] near=["steps-on-the-way"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        w = lax.pcast(W, "data", to="varying")
        slope = jax.grad(lambda w, x, y: jnp.mean((jnp.tanh(x @ w) - y) ** 2))
        g, _ = lax.scan(lambda g, b: ((g + slope(w, *b)) / 2, None), jnp.zeros_like(w), (X, Y))
        return lax.pmean(g, "data")

    return jax.shard_map(body, in_specs=(P(), P(None, "data"), P(None, "data")), out_specs=P())(
        W, X, Y
    )


# %% the examples cut over both axes exercise="8.3" score=0 diagnoses=["layout of X", "unanswered"] near=["all-gather", "over-the-cap"]
both_ways = (
    on(grid, ("data", "model"), None),
    on(grid),
    on(grid),
    on(grid, None, "model"),
    on(grid, "model"),
    on(grid, "model", None),
    on(grid),
)


# %% the examples whole, and their answers sharded exercise="8.1" score=0 diagnoses=["layout of X"] near=["over-the-cap"]
data_parallel = (*(on(data),) * 5, on(data, "data"))


# %% the last bias sharded, and the first weights exercise="8.3" score=0 diagnoses=["reduce-scatter over model", "unanswered"] near=["layout of b3"]
both_ways = (
    on(grid, "data", None),
    on(grid, "model"),
    on(grid),
    on(grid, None, "model"),
    on(grid, "model"),
    on(grid, "model", None),
    on(grid, "model"),
)


# %% the stage's block of W, with its first dimension exercise="8.8" score=0 diagnoses=["carry-changes"] near=["shapes-do-not-fit"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        to_the_next = [(s, s + 1) for s in range(stages - 1)]

        def one_step(carry, t):
            received, results = carry
            inputs = jnp.where(stage == 0, x[jnp.minimum(t, len(x) - 1)], received)
            outputs = jnp.tanh(inputs @ w)
            is_done = jnp.arange(len(x)) == t - (stages - 1)
            results = jnp.where(is_done[:, None, None], outputs, results)
            return (lax.ppermute(outputs, "stage", to_the_next), results), None

        start = lax.pcast((jnp.zeros_like(x[0]), jnp.zeros_like(x)), "stage", to="varying")
        (_, results), _ = lax.scan(one_step, start, jnp.arange(stages + len(x) - 1))
        return lax.psum(jnp.where(stage == stages - 1, results, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% the same, and results that are set exercise="8.8" score=0 diagnoses=["shapes-do-not-fit"] near=["carry-changes"]
def pipeline(W, X):
    def body(w, x):
        stages, stage = lax.axis_size("stage"), lax.axis_index("stage")
        to_the_next = [(s, s + 1) for s in range(stages - 1)]
        received = lax.pcast(jnp.zeros_like(x[0]), "stage", to="varying")
        results = lax.pcast(jnp.zeros_like(x), "stage", to="varying")
        for t in range(stages + len(x) - 1):
            inputs = jnp.where(stage == 0, x[min(t, len(x) - 1)], received)
            outputs = jnp.tanh(inputs @ w)
            if t >= stages - 1:
                results = results.at[t - stages + 1].set(outputs)
            received = lax.ppermute(outputs, "stage", to_the_next)
        return lax.psum(jnp.where(stage == stages - 1, results, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% an example's maximum as a row exercise="8.6" score=0 diagnoses=["shapes-do-not-fit"] near=["not-replicated", "shape"]
def cross_entropy(logits, labels):
    def body(z, labels):
        largest = lax.pmax(z.max(axis=1), "model")
        total = lax.psum(jnp.exp(z - largest).sum(axis=1), "model")
        return jnp.log(total).mean()

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% W1 by rows, and W2 by columns exercise="8.5" score=0 diagnoses=["not-gathered"] near=["untiled", "one-too-many"]
def sequence_parallel(X, W1, W2):
    def body(x, w1, w2):
        tokens = lax.all_gather(x, "model", axis=0, tiled=True)
        return lax.psum_scatter(jax.nn.relu(tokens @ w1) @ w2, "model", tiled=True)

    rows, columns = P("model", None), P(None, "model")
    return jax.shard_map(body, in_specs=(rows, rows, columns), out_specs=rows)(X, W1, W2)


# %% shardings on two meshes exercise="8.1" score=0 diagnoses=["layout of X"] near=["over-the-cap", "fails"]
data_parallel = (*(on(data),) * 4, on(grid, "data"), on(data, "data"))


# %% neither varying nor divided exercise="8.7" score=0 diagnoses=["off-by-a-factor", "too-often", "not-counted-yet"] near=["sum-of-a-block", "mean-of-sums"]
def accumulated(W, X, Y):
    def body(w, x, y):
        def error(w, x, y):
            return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

        def add(total, microbatch):
            return total + jax.grad(error)(w, *microbatch), None

        total, _ = lax.scan(add, jnp.zeros_like(w), (x, y))
        return lax.pmean(total, "data")

    examples = P(None, "data")
    return jax.shard_map(body, in_specs=(P(), examples, examples), out_specs=P())(W, X, Y)


# %% a pair past the last stage exercise="8.8" score=0 diagnoses=["wrong-pairs"]
def pipeline(W, X):
    def body(W, X):
        n, m, s = lax.axis_size("stage"), X.shape[0], lax.axis_index("stage")
        ring = [(i, i + 1) for i in range(n)]

        def one(carry, t):
            arrived, out = carry
            h = jnp.where(s == 0, X[jnp.minimum(t, m - 1)], arrived)
            h = jnp.tanh(h @ W[0])
            k = t - (n - 1)
            out = jnp.where(k >= 0, out.at[jnp.maximum(k, 0)].set(h), out)
            return (lax.ppermute(h, "stage", ring), out), None

        start = lax.pcast((jnp.zeros_like(X[0]), jnp.zeros_like(X)), "stage", to="varying")
        out = lax.scan(one, start, jnp.arange(n + m - 1))[0][1]
        return lax.psum(jnp.where(s == n - 1, out, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% a mean over features, added up over the devices exercise="8.4" score=0 diagnoses=["mean-of-everything", "not-counted-yet"] near=["divided-again"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        @jax.checkpoint
        def layer(h, w):
            w = lax.all_gather(w, "data", axis=0, tiled=True)
            return jnp.tanh(h @ w), None

        def loss(W):
            h = lax.scan(layer, X, W)[0]
            return jnp.mean((h - Y) ** 2)

        return jax.grad(loss)(W)

    return jax.shard_map(
        body, in_specs=(P(None, "data"), P("data"), P("data")), out_specs=P(None, "data")
    )(W, X, Y)


# %% all examples by their number, times the devices exercise="8.4" score=0 diagnoses=["divided-again", "not-counted-yet"] near=["mean-of-everything"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        @jax.checkpoint
        def layer(h, w):
            w = lax.all_gather(w, "data", axis=0, tiled=True)
            return jnp.tanh(h @ w), None

        def loss(W):
            h = lax.scan(layer, X, W)[0]
            return jnp.sum((h - Y) ** 2) / (16 * lax.axis_size("data"))

        return jax.grad(loss)(W)

    return jax.shard_map(
        body, in_specs=(P(None, "data"), P("data"), P("data")), out_specs=P(None, "data")
    )(W, X, Y)


# %% divided twice by the devices exercise="8.4" score=0 diagnoses=["divided-again", "not-counted-yet"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        @jax.checkpoint
        def layer(h, w):
            w = lax.all_gather(w, "data", axis=0, tiled=True)
            return jnp.tanh(h @ w), None

        def loss(W):
            h = lax.scan(layer, X, W)[0]
            return jnp.sum((h - Y) ** 2) / (X.shape[0] * lax.axis_size("data") ** 2)

        return jax.grad(loss)(W)

    return jax.shard_map(
        body, in_specs=(P(None, "data"), P("data"), P("data")), out_specs=P(None, "data")
    )(W, X, Y)


# %% both weights whole exercise="8.5" score=0 diagnoses=["all-units-everywhere", "not-counted-yet", "other-blocks-enter", "too-much-work"] near=["blocks-do-not-fit"]
def sequence_parallel(X, W1, W2):
    def body(X, W1, W2):
        x = lax.all_gather(X, "model", axis=0, tiled=True)
        y = jax.nn.relu(x @ W1) @ W2
        return lax.psum_scatter(y, "model", scatter_dimension=0, tiled=True)

    return jax.shard_map(body, in_specs=(P("model"), P(), P()), out_specs=P("model"))(X, W1, W2)


# %% the second weights whole exercise="8.5" score=0 diagnoses=["blocks-do-not-fit"] near=["all-units-everywhere"]
def sequence_parallel(X, W1, W2):
    def body(X, W1, W2):
        x = lax.all_gather(X, "model", axis=0, tiled=True)
        y = jax.nn.relu(x @ W1) @ W2
        return lax.psum_scatter(y, "model", scatter_dimension=0, tiled=True)

    return jax.shard_map(body, in_specs=(P("model"), P(None, "model"), P()), out_specs=P("model"))(
        X, W1, W2
    )


# %% labels of earlier blocks found, clipped exercise="8.6" score=0 diagnoses=["earlier-blocks-found", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(z, labels):
        m = lax.pmax(z.max(1), "model")
        s = lax.psum(jnp.exp(z - m[:, None]).sum(1), "model")
        w = z.shape[1]
        i = labels - lax.axis_index("model") * w
        own = i < w
        g = jnp.take_along_axis(z, jnp.clip(i, 0, w - 1)[:, None], axis=1)[:, 0]
        g = lax.psum(jnp.where(own, g, 0), "model")
        return jnp.mean(jnp.log(s) + m - g)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% labels of earlier blocks found, from the end exercise="8.6" score=0 diagnoses=["earlier-blocks-found", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(z, labels):
        m = lax.pmax(z.max(1), "model")
        s = lax.psum(jnp.exp(z - m[:, None]).sum(1), "model")
        w = z.shape[1]
        i = labels - lax.axis_index("model") * w
        own = i < w
        g = z[jnp.arange(len(i)), i]
        g = lax.psum(jnp.where(own, g, 0), "model")
        return jnp.mean(jnp.log(s) + m - g)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% the examples for the words in in_specs exercise="8.6" score=0 diagnoses=["values", "other-blocks-enter", "all-to-all over model"] near=["earlier-blocks-found"]
def cross_entropy(logits, labels):
    def body(z, labels):
        m = lax.pmax(z.max(1), "model")
        s = lax.psum(jnp.exp(z - m[:, None]).sum(1), "model")
        w = z.shape[1]
        i = labels - lax.axis_index("model") * w
        own = (i >= 0) & (i < w)
        g = jnp.take_along_axis(z, jnp.clip(i, 0, w - 1)[:, None], axis=1)[:, 0]
        g = lax.psum(jnp.where(own, g, 0), "model")
        return jnp.mean(jnp.log(s) + m - g)

    return jax.shard_map(body, in_specs=(P("model"), P("model")), out_specs=P())(logits, labels)


# %% the sum of the maxima exercise="8.6" score=0 diagnoses=["not-finite", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(z, labels):
        m = lax.psum(z.max(1), "model")
        s = lax.psum(jnp.exp(z - m[:, None]).sum(1), "model")
        w = z.shape[1]
        i = labels - lax.axis_index("model") * w
        own = (i >= 0) & (i < w)
        g = jnp.take_along_axis(z, jnp.clip(i, 0, w - 1)[:, None], axis=1)[:, 0]
        g = lax.psum(jnp.where(own, g, 0), "model")
        return jnp.mean(jnp.log(s) + m - g)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% microbatches in place of examples in in_specs exercise="8.7" score=0.25 diagnoses=["other-blocks-enter", "too-much-memory"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        W = lax.pcast(W, "data", to="varying")
        count = X.size * lax.axis_size("data")

        def loss(W, x, y):
            return jnp.sum((jnp.tanh(x @ W) - y) ** 2) / count

        def one(total, xy):
            return total + jax.grad(loss)(W, *xy), None

        total = lax.scan(one, jnp.zeros_like(W), (X, Y))[0]
        return lax.psum(total, "data")

    return jax.shard_map(body, in_specs=(P(), P("data"), P("data")), out_specs=P())(W, X, Y)


# %% W, sharded by in_specs, made varying once more exercise="8.4" score=0 diagnoses=["varies-already"] near=["varying-mismatch", "not-gathered"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        W = lax.pcast(W, "data", to="varying")

        def loss(W):
            @jax.checkpoint
            def layer(h, w):
                return jnp.tanh(h @ lax.all_gather(w, "data", tiled=True)), None

            h, _ = lax.scan(layer, X, W)
            return jnp.sum((h - Y) ** 2) / (len(X) * lax.axis_size("data"))

        return jax.grad(loss)(W)

    rows = P(None, "data")
    return jax.shard_map(body, in_specs=(rows, P("data"), P("data")), out_specs=rows)(W, X, Y)


# %% the label's logit added exercise="8.6" score=0 diagnoses=["label-added", "not-counted-yet"]
def cross_entropy(logits, labels):
    def body(z, labels):
        m = lax.pmax(z.max(1), "model")
        s = lax.psum(jnp.exp(z - m[:, None]).sum(1), "model")
        w = z.shape[1]
        i = labels - lax.axis_index("model") * w
        own = (i >= 0) & (i < w)
        g = jnp.take_along_axis(z, jnp.clip(i, 0, w - 1)[:, None], axis=1)[:, 0]
        g = lax.psum(jnp.where(own, g, 0), "model")
        return jnp.mean(jnp.log(s) + m + g)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% the largest exponential of each block exercise="8.6" score=0 diagnoses=["largest-for-sum", "not-counted-yet"] near=["mean-of-exponentials"]
def cross_entropy(logits, labels):
    def body(z, labels):
        m = lax.pmax(z.max(1), "model")
        s = lax.psum(jnp.exp(z - m[:, None]).max(1), "model")
        w = z.shape[1]
        i = labels - lax.axis_index("model") * w
        own = (i >= 0) & (i < w)
        g = jnp.take_along_axis(z, jnp.clip(i, 0, w - 1)[:, None], axis=1)[:, 0]
        g = lax.psum(jnp.where(own, g, 0), "model")
        return jnp.mean(jnp.log(s) + m - g)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% words counted in examples exercise="8.6" score=0 diagnoses=["offset-of-examples", "not-counted-yet"] near=["largest-for-sum"]
def cross_entropy(logits, labels):
    def body(z, labels):
        m = lax.pmax(z.max(1), "model")
        s = lax.psum(jnp.exp(z - m[:, None]).sum(1), "model")
        w = z.shape[1]
        i = labels - lax.axis_index("model") * z.shape[0]
        own = (i >= 0) & (i < w)
        g = jnp.take_along_axis(z, jnp.clip(i, 0, w - 1)[:, None], axis=1)[:, 0]
        g = lax.psum(jnp.where(own, g, 0), "model")
        return jnp.mean(jnp.log(s) + m - g)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% the number of devices for the device exercise="8.6" score=0 diagnoses=["label-forgotten", "not-counted-yet"] near=["offset-of-examples"]
def cross_entropy(logits, labels):
    def body(z, labels):
        m = lax.pmax(z.max(1), "model")
        s = lax.psum(jnp.exp(z - m[:, None]).sum(1), "model")
        w = z.shape[1]
        i = labels - lax.axis_size("model") * w
        own = (i >= 0) & (i < w)
        g = jnp.take_along_axis(z, jnp.clip(i, 0, w - 1)[:, None], axis=1)[:, 0]
        g = lax.psum(jnp.where(own, g, 0), "model")
        return jnp.mean(jnp.log(s) + m - g)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% minus infinity without the label exercise="8.6" score=0 diagnoses=["not-finite", "not-counted-yet"] near=["label-added"]
def cross_entropy(logits, labels):
    def body(z, labels):
        m = lax.pmax(z.max(1), "model")
        s = lax.psum(jnp.exp(z - m[:, None]).sum(1), "model")
        w = z.shape[1]
        i = labels - lax.axis_index("model") * w
        own = (i >= 0) & (i < w)
        g = jnp.take_along_axis(z, jnp.clip(i, 0, w - 1)[:, None], axis=1)[:, 0]
        g = lax.psum(jnp.where(own, g, -jnp.inf), "model")
        return jnp.mean(jnp.log(s) + m - g)

    return jax.shard_map(body, in_specs=(P(None, "model"), P()), out_specs=P())(logits, labels)


# %% no square exercise="8.4" score=0 diagnoses=["no-square", "not-counted-yet"] near=["off-by-a-factor"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        @jax.checkpoint
        def layer(h, w):
            w = lax.all_gather(w, "data", axis=0, tiled=True)
            return jnp.tanh(h @ w), None

        def loss(W):
            h = lax.scan(layer, X, W)[0]
            return jnp.sum(h - Y) / (X.shape[0] * lax.axis_size("data"))

        return jax.grad(loss)(W)

    return jax.shard_map(
        body, in_specs=(P(None, "data"), P("data"), P("data")), out_specs=P(None, "data")
    )(W, X, Y)


# %% own examples counted twice exercise="8.4" score=0 diagnoses=["off-by-a-factor", "not-counted-yet"] near=["no-square"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        @jax.checkpoint
        def layer(h, w):
            w = lax.all_gather(w, "data", axis=0, tiled=True)
            return jnp.tanh(h @ w), None

        def loss(W):
            h = lax.scan(layer, X, W)[0]
            return jnp.sum((h - Y) ** 2) / (X.shape[0] * X.shape[0])

        return jax.grad(loss)(W)

    return jax.shard_map(
        body, in_specs=(P(None, "data"), P("data"), P("data")), out_specs=P(None, "data")
    )(W, X, Y)


# %% value and gradient exercise="8.4" score=0 diagnoses=["rank"] near=["not-gathered"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        @jax.checkpoint
        def layer(h, w):
            w = lax.all_gather(w, "data", axis=0, tiled=True)
            return jnp.tanh(h @ w), None

        def loss(W):
            h = lax.scan(layer, X, W)[0]
            return jnp.sum((h - Y) ** 2) / (X.shape[0] * lax.axis_size("data"))

        return jax.value_and_grad(loss)(W)

    return jax.shard_map(
        body, in_specs=(P(None, "data"), P("data"), P("data")), out_specs=P(None, "data")
    )(W, X, Y)


# %% a stage that there is not exercise="8.8" score=0 diagnoses=["nothing-but-zeros", "not-counted-yet"] near=["shape"]
def pipeline(W, X):
    def body(W, X):
        n, m, s = lax.axis_size("stage"), X.shape[0], lax.axis_index("stage")
        ring = [(i, i + 1) for i in range(n - 1)]

        def one(carry, t):
            arrived, out = carry
            h = jnp.where(s == 0, X[jnp.minimum(t, m - 1)], arrived)
            h = jnp.tanh(h @ W[0])
            k = t - (n - 1)
            out = jnp.where(k >= 0, out.at[jnp.maximum(k, 0)].set(h), out)
            return (lax.ppermute(h, "stage", ring), out), None

        start = lax.pcast((jnp.zeros_like(X[0]), jnp.zeros_like(X)), "stage", to="varying")
        out = lax.scan(one, start, jnp.arange(n + m - 1))[0][1]
        return lax.psum(jnp.where(s == n, out, 0), "stage")

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% blocks of all stages joined exercise="8.8" score=0 diagnoses=["shape", "not-counted-yet"] near=["blocks-do-not-fit"]
def pipeline(W, X):
    def body(W, X):
        n, m, s = lax.axis_size("stage"), X.shape[0], lax.axis_index("stage")
        ring = [(i, i + 1) for i in range(n - 1)]

        def one(carry, t):
            arrived, out = carry
            h = jnp.where(s == 0, X[jnp.minimum(t, m - 1)], arrived)
            h = jnp.tanh(h @ W[0])
            k = t - (n - 1)
            out = jnp.where(k >= 0, out.at[jnp.maximum(k, 0)].set(h), out)
            return (lax.ppermute(h, "stage", ring), out), None

        start = lax.pcast((jnp.zeros_like(X[0]), jnp.zeros_like(X)), "stage", to="varying")
        out = lax.scan(one, start, jnp.arange(n + m - 1))[0][1]
        return out

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P("stage"))(W, X)


# %% chosen after the sum exercise="8.8" score=0 diagnoses=["not-replicated"]
def pipeline(W, X):
    def body(W, X):
        n, m, s = lax.axis_size("stage"), X.shape[0], lax.axis_index("stage")
        ring = [(i, i + 1) for i in range(n - 1)]

        def one(carry, t):
            arrived, out = carry
            h = jnp.where(s == 0, X[jnp.minimum(t, m - 1)], arrived)
            h = jnp.tanh(h @ W[0])
            k = t - (n - 1)
            out = jnp.where(k >= 0, out.at[jnp.maximum(k, 0)].set(h), out)
            return (lax.ppermute(h, "stage", ring), out), None

        start = lax.pcast((jnp.zeros_like(X[0]), jnp.zeros_like(X)), "stage", to="varying")
        out = lax.scan(one, start, jnp.arange(n + m - 1))[0][1]
        return jnp.where(s == n - 1, lax.psum(out, "stage"), 0)

    return jax.shard_map(body, in_specs=(P("stage"), P()), out_specs=P())(W, X)


# %% features of W cut exercise="8.8" score=0 diagnoses=["blocks-do-not-fit"]
def pipeline(W, X):
    def body(W, X):
        n, m, s = lax.axis_size("stage"), X.shape[0], lax.axis_index("stage")
        ring = [(i, i + 1) for i in range(n - 1)]

        def one(carry, t):
            arrived, out = carry
            h = jnp.where(s == 0, X[jnp.minimum(t, m - 1)], arrived)
            h = jnp.tanh(h @ W[0])
            k = t - (n - 1)
            out = jnp.where(k >= 0, out.at[jnp.maximum(k, 0)].set(h), out)
            return (lax.ppermute(h, "stage", ring), out), None

        start = lax.pcast((jnp.zeros_like(X[0]), jnp.zeros_like(X)), "stage", to="varying")
        out = lax.scan(one, start, jnp.arange(n + m - 1))[0][1]
        return lax.psum(jnp.where(s == n - 1, out, 0), "stage")

    return jax.shard_map(body, in_specs=(P(None, "stage"), P()), out_specs=P())(W, X)


# %% a Python loop exercise="8.7" score=0.25 diagnoses=["too-much-memory"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        W = lax.pcast(W, "data", to="varying")
        count = X.size * lax.axis_size("data")

        def loss(W, x, y):
            return jnp.sum((jnp.tanh(x @ W) - y) ** 2) / count

        def one(total, xy):
            return total + jax.grad(loss)(W, *xy), None

        total = jnp.zeros_like(W)
        for x, y in zip(X, Y):
            total = total + jax.grad(loss)(W, x, y)
        return lax.psum(total, "data")

    return jax.shard_map(body, in_specs=(P(), P(None, "data"), P(None, "data")), out_specs=P())(
        W, X, Y
    )


# %% pcast within the loss exercise="8.7" score=0 diagnoses=["as-many-times", "too-often", "not-counted-yet"]
def accumulated(W, X, Y):
    def body(W, X, Y):
        count = X.size * lax.axis_size("data")

        def loss(W, x, y):
            W = lax.pcast(W, "data", to="varying")
            return jnp.sum((jnp.tanh(x @ W) - y) ** 2) / count

        def one(total, xy):
            return total + jax.grad(loss)(W, *xy), None

        total = lax.scan(one, jnp.zeros_like(W), (X, Y))[0]
        return lax.psum(total, "data")

    return jax.shard_map(body, in_specs=(P(), P(None, "data"), P(None, "data")), out_specs=P())(
        W, X, Y
    )


# %% hidden units by rows exercise="8.2" score=0 diagnoses=["too-many-bytes"] near=["layout of W1"]
tensor_parallel = (on(model, None, "model"), on(model, "model"), on(model, None, "model"))


# %% W cut into layers exercise="8.4" score=0 diagnoses=["not-gathered"] near=["rank"]
def fsdp_gradient(W, X, Y):
    def body(W, X, Y):
        @jax.checkpoint
        def layer(h, w):
            w = lax.all_gather(w, "data", axis=0, tiled=True)
            return jnp.tanh(h @ w), None

        def loss(W):
            h = lax.scan(layer, X, W)[0]
            return jnp.sum((h - Y) ** 2) / (X.shape[0] * lax.axis_size("data"))

        return jax.grad(loss)(W)

    return jax.shard_map(
        body, in_specs=(P("data"), P("data"), P("data")), out_specs=P(None, "data")
    )(W, X, Y)
