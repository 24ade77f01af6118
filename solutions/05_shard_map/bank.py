# %% [markdown]
# Known answers to the exercises of notebook 05. A cell stands below what the exercise's cell was
# handed out with.

# %% asked of JAX exercise="5.1" score=1 near=["global", "still-inside", "as-before", "other-prediction"]
a = jnp.ones((16, 16))
for text in inside:
    jax.shard_map(
        lambda block: inside.__setitem__(text, block.shape) or block,
        mesh=grid,
        in_specs=eval(text),
        out_specs=eval(text),
    )(a)
for text in outside:
    outside[text] = jax.shard_map(
        lambda block: block[:4, :8] + 0,
        mesh=grid,
        in_specs=P("x", "y"),
        out_specs=eval(text),
    )(a).shape

# %% as under vmap exercise="5.1" score=0 diagnoses=["like-vmap", "still-inside"] near=["outside: other-prediction"]
inside = dict.fromkeys(inside, (16,))
outside = dict.fromkeys(outside, (4, 8))

# %% the whole array everywhere exercise="5.1" score=0 diagnoses=["global", "as-before"]
inside = dict.fromkeys(inside, (16, 16))
outside = dict.fromkeys(outside, (16, 16))

# %% every axis cuts, dimensions exchanged exercise="5.1" score=0 diagnoses=["both-cut", "other-dimension", "axes-exchanged", "other-prediction"]
inside = dict(zip(inside, [(4, 8), (4, 8), (2, 16), (4, 8)]))
outside = dict(zip(outside, [(8, 32), (4, 64), (4, 64)]))

# %% one axis of two exercise="5.1" score=0.5833333333 diagnoses=["eight", "one-axis"]
inside = dict(zip(inside, [(4, 8), (4, 16), (16, 8), (16, 16)]))
outside = dict(zip(outside, [(16, 16), (16, 8), (8, 32)]))

# %% text for shapes exercise="5.1" score=0 diagnoses=["other-form", "unanswered"]
inside = dict.fromkeys(inside, "4 x 8")

# %% how many blocks, not how long exercise="5.1" score=0 diagnoses=["how-many"] near=["like-vmap", "one-axis"]
inside = dict(zip(inside, [(4, 2), (4, 1), (1, 8), (1, 1)]))
outside = dict(zip(outside, [(4, 2), (8, 1), (2, 4)]))

# %% the sizes of x and y exchanged exercise="5.1" score=0.1666666667 diagnoses=["axes-exchanged", "as-before"] near=["other-dimension", "both-cut"]
inside = dict(zip(inside, [(8, 4), (8, 16), (16, 2), (16, 16)]))
outside = dict(zip(outside, [(8, 32), (32, 8), (16, 16)]))

# %% cut by all devices, whatever the entry says exercise="5.1" score=0.5 diagnoses=["all-devices"] near=["how-many", "axes-exchanged"]
inside = dict(zip(inside, [(2, 2), (2, 16), (16, 2), (2, 16)]))
outside = dict(zip(outside, [(16, 16), (32, 8), (8, 32)]))

# %% of two axes only x exercise="5.1" score=0.5833333333 diagnoses=["one-axis"] near=["sizes-added", "eight"]
inside = dict(zip(inside, [(4, 8), (4, 16), (16, 4), (16, 16)]))
outside = dict(zip(outside, [(16, 16), (16, 8), (8, 32)]))

# %% of two axes only y exercise="5.1" score=0.5833333333 diagnoses=["eight", "one-axis"] near=["all-devices"]
inside = dict(zip(inside, [(4, 8), (4, 16), (16, 8), (16, 16)]))
outside = dict(zip(outside, [(16, 16), (8, 8), (8, 32)]))

# %% sizes added, and None joined exercise="5.1" score=0.5833333333 diagnoses=["sizes-added", "none-joined"]
inside = dict(zip(inside, [(4, 8), (4, 16), (16, 3), (16, 16)]))
outside = dict(zip(outside, [(16, 16), (32, 16), (8, 32)]))

# %% stacked, as vmap would exercise="5.1" score=0 diagnoses=["like-vmap", "stacked"]
inside = dict(zip(inside, [(), (16,), (16,), (16, 16)]))
outside = dict(zip(outside, [(4, 2, 4, 8), (8, 4, 8), (2, 4, 4, 8)]))

# %% a dimension too many exercise="5.1" score=0.3333333333 diagnoses=["other-prediction"] near=["stacked", "none-joined"]
inside = dict(zip(inside, [(1, 4, 8), (4, 16), (16, 2), (16, 16)]))
outside = dict(zip(outside, [(16, 16, 1), (32, 8, 1), (8, 32)]))

# %% lists for tuples exercise="5.1" score=1
inside = dict(zip(inside, [[4, 8], [4, 16], [16, 2], [16, 16]]))
outside = dict(zip(outside, [[16, 16], [32, 8], [8, 32]]))


# %% in other words exercise="5.2" score=1 near=["makes-no-difference"]
def total(x):
    return jax.shard_map(
        lambda a: lax.psum(jnp.dot(a, jnp.ones_like(a)), "x"), in_specs=P("x"), out_specs=P()
    )(x)


def average(x):
    def body(mine):
        return lax.psum(mine.sum() / (mine.size * lax.axis_size("x")), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


@jax.jit
def largest(x):
    return -jax.shard_map(lambda a: lax.pmin(-a.max(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(mine):
        top = lax.pmax(jnp.max(mine), ("x",))
        logs = mine - top - jnp.log(lax.psum(jnp.sum(jnp.exp(mine - top)), ("x",)))
        return jnp.exp(logs)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% no word is said exercise="5.2" score=0 diagnoses=["not-replicated", "each-for-itself", "no all-reduce", "not-counted-yet"]
def total(x):
    return jax.shard_map(lambda a: a.sum(), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda a: a.mean(), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(lambda a: a.max(), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    return jax.shard_map(jax.nn.softmax, in_specs=P("x"), out_specs=P("x"))(x)


# %% twice over, sums of means, a local largest exercise="5.2" score=0.25 diagnoses=["added-twice", "one-too-many", "sum-of-means", "not-counted-yet", "local-largest", "too-seldom"]
def total(x):
    def body(mine):
        return lax.psum(lax.psum(mine.sum(), "x"), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda a: lax.psum(a.mean(), "x"), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(lambda a: lax.pmax(a.max(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(mine):
        e = jnp.exp(mine - mine.max())
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% whole blocks, and gathered ones exercise="5.2" score=0.125 diagnoses=["mean-for-sum", "not-counted-yet", "sends-too-much", "explicit all-gather", "unanswered"]
def total(x):
    return jax.shard_map(lambda a: lax.pmean(a.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda a: lax.pmean(a, "x").mean(), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    def body(mine):
        return lax.pmax(lax.all_gather(mine, "x").max(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% a mean taken away, not the largest exercise="5.2" score=0 diagnoses=["unanswered", "not-a-number", "not-counted-yet"]
def softmax(x):
    def body(mine):
        e = jnp.exp(mine - lax.pmean(mine.mean(), "x"))
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% left to the compiler exercise="5.2" score=0 diagnoses=["not-counted-yet", "no-shard-map", "unanswered"] naive=true
def total(x):
    return x.sum()


# %% a mesh written in exercise="5.2" score=0 diagnoses=["only-the-first", "unanswered"]
def total(x):
    return jax.shard_map(
        lambda a: lax.psum(a.sum(), "x"), mesh=line, in_specs=P("x"), out_specs=P()
    )(x)


# %% made once, by decorators exercise="5.2" score=1 near=["sum-of-means", "added-twice", "one-too-many", "each-for-itself", "local-largest"]
from functools import partial

to_a_number = partial(jax.shard_map, in_specs=P("x"), out_specs=P())


@to_a_number
def total(mine):
    return lax.psum(jnp.sum(mine), "x")


@to_a_number
def average(mine):
    return lax.psum(mine.sum(), "x") / (mine.shape[0] * lax.axis_size("x"))


largest = to_a_number(lambda mine: lax.pmax(mine.max(), "x"))


@partial(jax.shard_map, in_specs=P("x"), out_specs=P("x"))
def softmax(mine):
    weights = jnp.exp(mine - lax.pmax(mine.max(), "x"))
    return weights / lax.psum(weights.sum(), "x")


# %% psum and pmean exchanged exercise="5.2" score=0 diagnoses=["mean-for-sum", "not-counted-yet", "sum-of-means", "unanswered"] near=["mean-of-all", "sum-for-mean"]
def total(x):
    return jax.shard_map(lambda a: lax.pmean(a.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda a: lax.psum(a.mean(), "x"), in_specs=P("x"), out_specs=P())(x)


# %% means, sums, and a sum of the largest exercise="5.2" score=0 diagnoses=["mean-of-all", "not-counted-yet", "sum-for-mean", "sum-of-largest", "not-a-number"] near=["mean-for-sum", "sum-of-means", "starts-too-high"]
def total(x):
    return jax.shard_map(lambda a: lax.pmean(a.mean(), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda a: lax.psum(a.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(lambda a: lax.psum(a.max(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(mine):
        e = jnp.exp(mine - lax.psum(mine.max(), "x"))
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the largest, or zero exercise="5.2" score=0 diagnoses=["unanswered", "mean-of-sums", "not-counted-yet", "starts-too-high", "not-a-number"] near=["sum-of-largest"]
def average(x):
    return jax.shard_map(lambda a: lax.pmean(a.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    def body(mine):
        return lax.pmax(jnp.max(mine, initial=0), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(mine):
        e = jnp.exp(mine - lax.pmax(mine.max(initial=0), "x"))
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the number of the notebook's elements, and an axis that is not there exercise="5.2" score=0 diagnoses=["unbound-axis", "fixed-divisor", "not-counted-yet", "unanswered"] near=["mean-of-sums", "not-replicated"]
def total(x):
    return jax.shard_map(lambda a: lax.psum(a.sum(), "i"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda a: lax.psum(a.sum(), "x") / 32, in_specs=P("x"), out_specs=P())(x)


# %% divided by its own sum, after all exercise="5.2" score=0 diagnoses=["unanswered", "each-for-itself", "not-counted-yet"] near=["too-seldom", "not-finite"]
def softmax(x):
    def body(mine):
        e = jnp.exp(mine - lax.pmax(mine.max(), "x"))
        return e / (e.sum() + 0 * lax.psum(e.sum(), "x"))

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% two numbers, and a gather of numbers exercise="5.2" score=0.125 diagnoses=["unanswered", "one-too-many", "no all-reduce"]
def average(x):
    def body(mine):
        return lax.psum(mine.sum(), "x") / lax.psum(jnp.float32(mine.size) + 0 * mine[0], "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


def largest(x):
    def body(mine):
        return lax.all_gather(mine.max(), "x").max()

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(), check_vma=False)(x)


# %% sums by hand of one number too many exercise="5.2" score=0.0625 diagnoses=["sends-too-much", "unanswered"] near=["explicit all-gather"]
def total(x):
    def body(mine):
        return lax.psum(jnp.stack([mine.sum(), mine.sum()]), "x")[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% several numbers, one after the other exercise="5.2" score=0.0625 diagnoses=["one-too-many", "unanswered"] near=["sends-too-much"]
def total(x):
    def body(mine):
        first, second = jnp.split(mine, 2)
        return lax.psum(first.sum(), "x") + lax.psum(second.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% the compiler's own, in shard_maps that do nothing exercise="5.2" score=0.25 diagnoses=["no all-reduce"] naive=true
def keep(number):
    return jax.shard_map(lambda a: a, in_specs=P(), out_specs=P())(number)


def total(x):
    return keep(x.sum())


def average(x):
    return keep(x.mean())


def largest(x):
    return keep(x.max())


def softmax(x):
    return jax.shard_map(lambda a: a, in_specs=P("x"), out_specs=P("x"))(jax.nn.softmax(x))


# %% softmax on every device exercise="5.2" score=0.03125 diagnoses=["unanswered", "added-by-the-compiler", "replicated"]
def softmax(x):
    def body(mine):
        e = jnp.exp(mine - lax.pmax(mine.max(), "x"))
        return e / lax.psum(e.sum(), "x")

    made = jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)
    return lax.with_sharding_constraint(made, P())


# %% with plain loops exercise="5.3" score=1
def all_gather_ref(blocks, tiled):
    everything = [number for block in blocks for number in block]
    return [everything if tiled else list(blocks)] * len(blocks)


def psum_scatter_ref(blocks):
    total = [sum(column) for column in zip(*blocks)]
    size = len(total) // len(blocks)
    return [total[i * size : (i + 1) * size] for i in range(len(blocks))]


def all_to_all_ref(blocks):
    size = len(blocks[0]) // len(blocks)
    return [
        [number for block in blocks for number in block[i * size : (i + 1) * size]]
        for i in range(len(blocks))
    ]


# %% always tiled, whole sums, nothing joined exercise="5.3" score=0 diagnoses=["always-tiled", "never-scattered", "never-joined"]
def all_gather_ref(blocks, tiled):
    return [np.concatenate(blocks)] * len(blocks)


def psum_scatter_ref(blocks):
    return [np.sum(blocks, axis=0)] * len(blocks)


def all_to_all_ref(blocks):
    n = len(blocks)
    return [[np.split(np.array(b), n)[i] for b in blocks] for i in range(n)]


# %% always stacked, nothing summed, nothing exchanged exercise="5.3" score=0 diagnoses=["never-tiled", "never-summed", "nothing-exchanged"]
def all_gather_ref(blocks, tiled):
    return [blocks for _ in blocks]


def psum_scatter_ref(blocks):
    n = len(blocks)
    return [np.split(np.array(b), n)[i] for i, b in enumerate(blocks)]


def all_to_all_ref(blocks):
    return blocks


# %% tiled and untiled exchanged, gathered for exchanged exercise="5.3" score=0.3333333333 diagnoses=["tiled-for-untiled", "gathered"]
def all_gather_ref(blocks, tiled):
    return [np.stack(blocks) if tiled else np.concatenate(blocks)] * len(blocks)


def psum_scatter_ref(blocks):
    return np.split(np.sum(np.array(blocks), axis=0), len(blocks))


def all_to_all_ref(blocks):
    return [np.concatenate(blocks)] * len(blocks)


# %% one device only exercise="5.3" score=0 diagnoses=["only-one-device", "unanswered"]
def all_gather_ref(blocks, tiled):
    return np.concatenate(blocks) if tiled else np.stack(blocks)


# %% reshaped and turned exercise="5.3" score=1 near=["32-bits", "transposed-numbers", "dealt-out", "pieces-of-n"]
def all_gather_ref(blocks, tiled):
    stacked = np.stack(blocks)
    return [(stacked.ravel() if tiled else stacked).tolist()] * len(blocks)


def psum_scatter_ref(blocks):
    return np.split(np.sum(blocks, axis=0), len(blocks))


def all_to_all_ref(blocks):
    n = len(blocks)
    return np.array(blocks).reshape(n, n, -1).swapaxes(0, 1).reshape(n, -1).tolist()


# %% by JAX, under vmap exercise="5.3" score=0 diagnoses=["raised"]
def on_devices(collective, blocks):
    return np.asarray(jax.vmap(collective, axis_name="d")(jnp.array(blocks))).tolist()


def all_gather_ref(blocks, tiled):
    return on_devices(lambda a: lax.all_gather(a, "d", tiled=tiled), blocks)


def psum_scatter_ref(blocks):
    return on_devices(lambda a: lax.psum_scatter(a, "d", tiled=True), blocks)


def all_to_all_ref(blocks):
    return on_devices(lambda a: lax.all_to_all(a, "d", 0, 0, tiled=True), blocks)


# %% by JAX, of NumPy's integers exercise="5.3" score=0.3333333333 diagnoses=["32-bits"]
def on_devices(collective, blocks):
    return np.asarray(jax.vmap(collective, axis_name="d")(np.array(blocks))).tolist()


def all_gather_ref(blocks, tiled):
    return on_devices(lambda a: lax.all_gather(a, "d", tiled=tiled), blocks)


def psum_scatter_ref(blocks):
    return on_devices(lambda a: lax.psum_scatter(a, "d", tiled=True), blocks)


def all_to_all_ref(blocks):
    return on_devices(lambda a: lax.all_to_all(a, "d", 0, 0, tiled=True), blocks)


# %% for the two devices of the example exercise="5.3" score=0 diagnoses=["two-devices"] near=["only-one-device", "one-list", "always-tiled"]
def all_gather_ref(blocks, tiled):
    both = [*blocks[0], *blocks[1]] if tiled else [blocks[0], blocks[1]]
    return [both, both]


def psum_scatter_ref(blocks):
    summed = [a + b for a, b in zip(blocks[0], blocks[1])]
    half = len(summed) // 2
    return [summed[:half], summed[half:]]


def all_to_all_ref(blocks):
    half = len(blocks[0]) // 2
    return [blocks[0][:half] + blocks[1][:half], blocks[0][half:] + blocks[1][half:]]


# %% dealt out exercise="5.3" score=0.3333333333 diagnoses=["dealt-out"] near=["never-summed", "never-scattered", "gathered", "never-tiled", "other-result"]
def all_gather_ref(blocks, tiled):
    return [sum(blocks, []) if tiled else blocks for _ in blocks][::-1]


def psum_scatter_ref(blocks):
    total = np.sum(blocks, axis=0).tolist()
    return [total[i :: len(blocks)] for i in range(len(blocks))]


def all_to_all_ref(blocks):
    n = len(blocks)
    return [[number for block in blocks for number in block[i::n]] for i in range(n)]


# %% pieces as long as there are devices exercise="5.3" score=0 diagnoses=["other-result", "pieces-of-n"] near=["two-devices", "tiled-for-untiled", "one-number-each"]
def all_gather_ref(blocks, tiled):
    return [blocks[::-1] if not tiled else sum(blocks, []) for _ in blocks]


def psum_scatter_ref(blocks):
    total, n = np.sum(blocks, axis=0).tolist(), len(blocks)
    return [total[i * n : (i + 1) * n] for i in range(n)]


def all_to_all_ref(blocks):
    n = len(blocks)
    return [sum((block[i * n : (i + 1) * n] for block in blocks), []) for i in range(n)]


# %% one list for all, and numbers transposed exercise="5.3" score=0 diagnoses=["unanswered", "one-list", "transposed-numbers"] near=["nothing-exchanged", "never-joined"]
def psum_scatter_ref(blocks):
    return np.sum(blocks, axis=0).tolist()


def all_to_all_ref(blocks):
    return np.array(blocks).T.reshape(len(blocks), -1).tolist()


# %% one list for all, of pieces exchanged exercise="5.3" score=0 diagnoses=["unanswered", "one-list"]
def all_to_all_ref(blocks):
    n = len(blocks)
    return np.array(blocks).reshape(n, n, -1).swapaxes(0, 1).ravel().tolist()


# %% one number for each device exercise="5.3" score=0 diagnoses=["unanswered", "one-number-each"]
def all_to_all_ref(blocks):
    return [[block[i] for block in blocks] for i in range(len(blocks))]


# %% along the columns exercise="5.4" score=1
def sum_by_parts(x):
    def body(mine):
        piece = lax.psum_scatter(mine, "x", scatter_dimension=1, tiled=True)
        return lax.all_gather(piece, "x", axis=1, tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% psum itself exercise="5.4" score=0.25 diagnoses=["no reduce-scatter"]
def sum_by_parts(x):
    def body(mine):
        return lax.psum(mine, "x") + 0 * mine

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% psum in a composite, and the parts times zero exercise="5.4" score=0.25 diagnoses=["explicit all-reduce"]
def sum_by_parts(x):
    def body(mine):
        row = lax.composite(lambda mine: lax.psum(mine, "x"), name="course.sum")(mine)
        piece = lax.psum_scatter(mine[0], "x", tiled=True)
        return row + 0 * lax.all_gather(piece, "x", tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"), check_vma=False)(x)


# %% gathered, and summed by everybody exercise="5.4" score=0.25 diagnoses=["no reduce-scatter"]
def sum_by_parts(x):
    def body(mine):
        rows = lax.all_gather(mine[0], "x")
        mine_of_all = jnp.split(rows.sum(0), 1)[0]
        return mine_of_all[None]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the columns of one row exercise="5.4" score=0 diagnoses=["by-pieces", "no reduce-scatter"]
def sum_by_parts(x):
    def body(mine):
        return jnp.broadcast_to(mine.sum(1, keepdims=True), mine.shape)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the second half forgotten exercise="5.4" score=0 diagnoses=["shape", "no all-gather"]
def sum_by_parts(x):
    def body(mine):
        return lax.psum_scatter(mine[0], "x", tiled=True)[None]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the dimension of size one cut exercise="5.4" score=0 diagnoses=["scatter-does-not-divide"]
def sum_by_parts(x):
    def body(mine):
        return lax.all_gather(lax.psum_scatter(mine, "x", tiled=True), "x", tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% decorated, and scattered untiled exercise="5.4" score=1 near=["untiled", "by-pieces"]
from functools import partial


@partial(jax.shard_map, in_specs=P("x", None), out_specs=P("x", None))
def sum_by_parts(row):
    piece = lax.psum_scatter(row.reshape(lax.axis_size("x"), -1), "x")
    return lax.all_gather(piece, "x", tiled=True)[None, :]


# %% untiled along dimension one exercise="5.4" score=0 diagnoses=["untiled"] near=["scatter-does-not-divide"]
def sum_by_parts(x):
    def body(mine):
        piece = lax.psum_scatter(mine, "x", scatter_dimension=1)
        return lax.all_gather(piece, "x", axis=1, tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the mean of the rows exercise="5.4" score=0 diagnoses=["mean-for-sum", "not-counted-yet"] near=["added-twice"]
def sum_by_parts(x):
    def body(mine):
        piece = lax.psum_scatter(mine[0], "x", tiled=True) / lax.axis_size("x")
        return lax.all_gather(piece, "x", tiled=True)[None]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% summed again at the end exercise="5.4" score=0 diagnoses=["added-twice", "explicit all-reduce"] near=["mean-for-sum", "own-row"]
def sum_by_parts(x):
    def body(mine):
        piece = lax.psum_scatter(mine[0], "x", tiled=True)
        return lax.psum(lax.all_gather(piece, "x", tiled=True), "x")[None] + 0 * mine

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% gathered first, and then scattered exercise="5.4" score=0 diagnoses=["own-row", "sends-too-much"]
def sum_by_parts(x):
    def body(mine):
        everything = lax.all_gather(mine, "x", axis=1, tiled=True)
        return lax.psum_scatter(everything, "x", scatter_dimension=1, tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% in two halves exercise="5.4" score=0.25 diagnoses=["in-pieces"] near=["no reduce-scatter", "no all-gather", "shape"]
def sum_by_parts(x):
    def body(mine):
        n = lax.axis_size("x")
        halves = jnp.split(mine.reshape(n, -1), [1], axis=1)
        scattered = [lax.psum_scatter(half, "x", tiled=True) for half in halves]
        gathered = [lax.all_gather(half, "x", tiled=True) for half in scattered]
        return jnp.concatenate(gathered, axis=1).reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the sizes of the first mesh exercise="5.4" score=0 diagnoses=["only-the-first"] near=["in-pieces"]
def sum_by_parts(x):
    def body(mine):
        piece = lax.psum_scatter(mine.reshape(8, 2), "x")
        return lax.all_gather(piece, "x").reshape(1, 16)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% nothing returned exercise="5.4" score=0 diagnoses=["nothing-returned"]
def sum_by_parts(x):
    def body(mine):
        piece = lax.psum_scatter(mine[0], "x", tiled=True)
        return lax.all_gather(piece, "x", tiled=True)[None]

    jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the compiler's sum, in a shard_map that does nothing exercise="5.4" score=0.25 diagnoses=["no reduce-scatter"] naive=true
def sum_by_parts(x):
    rows = jnp.broadcast_to(x.sum(0), x.shape)
    return jax.shard_map(lambda row: row, in_specs=P("x"), out_specs=P("x"))(rows)


# %% eight devices written into a reshape exercise="5.4" score=0 diagnoses=["only-the-first"]
def sum_by_parts(x):
    def body(mine):
        piece = lax.psum_scatter(mine.reshape(8, -1), "x")
        return lax.all_gather(piece, "x").reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the other way round, in a scan exercise="5.5" score=1
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        back = [(j, (j - 1) % n) for j in range(n)]

        def step(piece, _):
            piece = lax.ppermute(piece, "x", back)
            return piece, piece

        _, others = lax.scan(step, mine, None, length=n - 1)
        all_of_them = jnp.concatenate([mine[None], others])
        return jnp.roll(all_of_them, i, axis=0).reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        back = [(j, (j - 1) % n) for j in range(n)]
        parts = mine.reshape(n, -1)
        growing = parts[(i + 1) % n]
        for s in range(1, n):
            growing = lax.ppermute(growing, "x", back) + parts[(i + 1 + s) % n]
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% n steps exercise="5.5" score=0.25 diagnoses=["one-too-many"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        whole = jnp.zeros((n, mine.size))
        piece = mine
        for s in range(n):
            whole = whole.at[(i - s) % n].set(piece)
            piece = lax.ppermute(piece, "x", [(j, (j + 1) % n) for j in range(n)])
        return whole.reshape(1, -1) + 0 * piece[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        parts = mine.reshape(n, -1)
        growing = 0 * parts[0]
        for s in range(n):
            growing = lax.ppermute(growing, "x", [(j, (j + 1) % n) for j in range(n)])
            growing = growing + parts[(i - 1 - s) % n]
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% in the order of arrival, a neighbour's piece exercise="5.5" score=0 diagnoses=["wrong-order", "not-counted-yet", "wrong-piece"]
def ring_all_gather(x):
    def body(mine):
        n = lax.axis_size("x")
        seen = [mine]
        for _ in range(n - 1):
            seen.append(lax.ppermute(seen[-1], "x", [(j, (j + 1) % n) for j in range(n)]))
        return jnp.concatenate(seen)[None]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        parts = mine.reshape(n, -1)
        growing = parts[(i - 2) % n]
        for s in range(1, n):
            growing = lax.ppermute(growing, "x", [(j, (j + 1) % n) for j in range(n)])
            growing = growing + parts[(i - 2 - s) % n]
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the other neighbour's piece, everything sent exercise="5.5" score=0.125 diagnoses=["sends-too-much", "wrong-piece-behind", "not-counted-yet"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        whole = jnp.zeros((n, mine.size)).at[i].set(mine)
        for _ in range(n - 1):
            came = lax.ppermute(whole, "x", [(j, (j + 1) % n) for j in range(n)])
            whole = jnp.where(whole == 0, came, whole)
        return whole.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        parts = mine.reshape(n, -1)
        growing = parts[i]
        for s in range(1, n):
            growing = lax.ppermute(growing, "x", [(j, (j + 1) % n) for j in range(n)])
            growing = growing + parts[(i - s) % n]
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the collectives themselves exercise="5.5" score=0.25 diagnoses=["no collective-permute"]
def ring_all_gather(x):
    def body(mine):
        return lax.all_gather(mine, "x", tiled=True)[None]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        return lax.psum_scatter(mine[0], "x", tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% far too many steps, and a gather beside exercise="5.5" score=0.25 diagnoses=["too-often", "explicit all-gather"]
def ring_all_gather(x):
    def body(mine):
        n = lax.axis_size("x")
        piece = mine
        for _ in range(2 * n):
            piece = lax.ppermute(piece, "x", [(j, (j + 1) % n) for j in range(n)])
        return (lax.all_gather(piece, "x", tiled=True))[None]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        parts = mine.reshape(n, -1)
        growing = parts[(i - 1) % n]
        for s in range(1, n):
            growing = lax.ppermute(growing, "x", [(j, (j + 1) % n) for j in range(n)])
            growing = growing + parts[(i - 1 - s) % n]
        return growing + 0 * lax.all_gather(growing, "x")[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% decorated, and round the other way exercise="5.5" score=1 near=["not-to-the-neighbour", "against-the-ring", "wrong-order", "open-ring", "at-its-number", "one-is-missing", "wrong-piece", "wrong-piece-behind"]
from functools import partial

along = partial(jax.shard_map, in_specs=P("x"), out_specs=P("x"))


@along
def ring_all_gather(mine):
    n, i = lax.axis_size("x"), lax.axis_index("x")
    made = lax.pcast(jnp.zeros((n * mine.size,), mine.dtype), "x", to="varying")

    def put(made, block, owner):
        return lax.dynamic_update_slice(made, block, (owner * mine.size,))

    def step(s, carry):
        block, made = carry
        block = lax.ppermute(block, "x", [((j + 1) % n, j) for j in range(n)])
        return block, put(made, block, (i + s) % n)

    return lax.fori_loop(1, n, step, (mine, put(made, mine, i)))[1][None]


@along
def ring_reduce_scatter(row):
    n, i = lax.axis_size("x"), lax.axis_index("x")
    pieces = row.reshape(n, -1)

    def step(s, summed):
        came = lax.ppermute(summed, "x", [((j + 1) % n, j) for j in range(n)])
        return came + jnp.take(pieces, (i + 1 + s) % n, axis=0)

    return lax.fori_loop(1, n, step, jnp.take(pieces, (i + 1) % n, axis=0))


# %% straight from each to each exercise="5.5" score=0.25 diagnoses=["not-to-the-neighbour"] near=["too-often", "no collective-permute"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        made = jnp.zeros((n, mine.size), mine.dtype).at[i].set(mine)
        for s in range(1, n):
            came = lax.ppermute(mine, "x", [(j, (j + s) % n) for j in range(n)])
            made = made.at[(i - s) % n].set(came)
        return made.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pieces = mine.reshape(n, -1)
        summed = pieces[i]
        for s in range(1, n):
            pairs = [(j, (j + s) % n) for j in range(n)]
            summed = summed + lax.ppermute(pieces[(i + s) % n], "x", pairs)
        return summed

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the ring one way, the places the other exercise="5.5" score=0 diagnoses=["against-the-ring", "not-counted-yet"] near=["sends-too-much", "one-too-many"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        made = jnp.zeros((n, mine.size), mine.dtype).at[i].set(mine)
        for s in range(1, n):
            mine = lax.ppermute(mine, "x", [(j, (j - 1) % n) for j in range(n)])
            made = made.at[(i - s) % n].set(mine)
        return made.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pieces = mine.reshape(n, -1)
        summed = pieces[(i - 1) % n]
        for s in range(1, n):
            came = lax.ppermute(summed, "x", [(j, (j - 1) % n) for j in range(n)])
            summed = came + pieces[(i - 1 - s) % n]
        return summed

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the ring not closed exercise="5.5" score=0 diagnoses=["open-ring", "not-counted-yet"] near=["too-seldom"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        made = jnp.zeros((n, mine.size), mine.dtype).at[i].set(mine)
        for s in range(1, n):
            mine = lax.ppermute(mine, "x", [(j, j + 1) for j in range(n - 1)])
            made = made.at[(i - s) % n].set(mine)
        return made.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pieces = mine.reshape(n, -1)
        summed = pieces[(i - 1) % n]
        for s in range(1, n):
            came = lax.ppermute(summed, "x", [(j, j + 1) for j in range(n - 1)])
            summed = came + pieces[(i - 1 - s) % n]
        return summed

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% a step less exercise="5.5" score=0 diagnoses=["one-is-missing", "not-counted-yet", "too-seldom"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        made = jnp.zeros((n, mine.size), mine.dtype).at[i].set(mine)
        for s in range(1, n - 1):
            mine = lax.ppermute(mine, "x", [(j, (j + 1) % n) for j in range(n)])
            made = made.at[(i - s) % n].set(mine)
        return made.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pieces = mine.reshape(n, -1)
        summed = pieces[(i - 1) % n]
        for s in range(1, n - 1):
            came = lax.ppermute(summed, "x", [(j, (j + 1) % n) for j in range(n)])
            summed = came + pieces[(i - 1 - s) % n]
        return summed

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% blocks written at the number of their device exercise="5.5" score=0 diagnoses=["at-its-number", "not-counted-yet", "unanswered"] near=["explicit all-gather"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        made = lax.pcast(jnp.zeros(n * mine.size, mine.dtype), "x", to="varying")
        for s in range(n):
            made = lax.dynamic_update_slice(made, mine, ((i - s) % n,))
            if s < n - 1:
                mine = lax.ppermute(mine, "x", [(j, (j + 1) % n) for j in range(n)])
        return made[None]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the compiler's own, in shard_maps that do nothing exercise="5.5" score=0.25 diagnoses=["no collective-permute"] naive=true
def ring_all_gather(x):
    n = jax.sharding.get_abstract_mesh().shape["x"]
    rows = jnp.broadcast_to(x, (n, x.size))
    return jax.shard_map(lambda row: row, in_specs=P("x"), out_specs=P("x"))(rows)


def ring_reduce_scatter(x):
    return jax.shard_map(lambda row: row, in_specs=P("x"), out_specs=P("x"))(x.sum(0))


# %% both edges added where they belong exercise="5.6" score=1
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine[-1], "x", [((i - 1) % n, i) for i in range(n)])
        after = lax.ppermute(mine[0], "x", [((i + 1) % n, i) for i in range(n)])
        left = jnp.roll(mine, 1).at[0].set(before)
        right = jnp.roll(mine, -1).at[-1].set(after)
        return left - 2 * mine + right

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% open ends exercise="5.6" score=0 diagnoses=["open-ends", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine[-1:], "x", [(i, i + 1) for i in range(n - 1)])
        after = lax.ppermute(mine[:1], "x", [(i + 1, i) for i in range(n - 1)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% each block a ring exercise="5.6" score=0 diagnoses=["blocks-alone", "no collective-permute"]
def second_difference(x):
    def body(mine):
        return jnp.roll(mine, 1) - 2 * mine + jnp.roll(mine, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the halos exchanged exercise="5.6" score=0 diagnoses=["halos-exchanged", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        after = lax.ppermute(mine[:1], "x", [((i + 1) % n, i) for i in range(n)])
        wide = jnp.concatenate([after, mine, before])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the wrong ends sent exercise="5.6" score=0 diagnoses=["wrong-end", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine[:1], "x", [(i, (i + 1) % n) for i in range(n)])
        after = lax.ppermute(mine[-1:], "x", [((i + 1) % n, i) for i in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% pairs for eight exercise="5.6" score=0 diagnoses=["only-the-first"]
def second_difference(x):
    def body(mine):
        before = lax.ppermute(mine[-1:], "x", [(i, (i + 1) % 8) for i in range(8)])
        after = lax.ppermute(mine[:1], "x", [((i + 1) % 8, i) for i in range(8)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% whole blocks sent exercise="5.6" score=0.25 diagnoses=["sends-too-much"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine, "x", [(i, (i + 1) % n) for i in range(n)])
        after = lax.ppermute(mine, "x", [((i + 1) % n, i) for i in range(n)])
        wide = jnp.concatenate([before[-1:], mine, after[:1]])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% everything brought to everybody exercise="5.6" score=0.25 diagnoses=["no collective-permute"]
def second_difference(x):
    def body(mine):
        whole = lax.all_gather(mine, "x", tiled=True)
        made = jnp.roll(whole, 1) - 2 * whole + jnp.roll(whole, -1)
        return lax.dynamic_slice(made, (lax.axis_index("x") * mine.size,), (mine.size,))

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% two permutations and a gather exercise="5.6" score=0.25 diagnoses=["explicit all-gather"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        after = lax.ppermute(mine[:1], "x", [((i + 1) % n, i) for i in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:] + 0 * lax.all_gather(mine[0], "x")[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% decorated, with a convolution exercise="5.6" score=1 near=["wrong-end", "wrong-way-round", "halos-exchanged", "one-way", "open-ends", "other-sign", "once-itself"]
from functools import partial


@partial(jax.shard_map, in_specs=P("x"), out_specs=P("x"))
def second_difference(mine):
    n = lax.axis_size("x")
    up = [(i, (i + 1) % n) for i in range(n)]
    before = lax.ppermute(mine[-1:], "x", up)
    after = lax.ppermute(mine[:1], "x", [(b, a) for a, b in up])
    wide = jnp.concatenate([before, mine, after])
    return jnp.convolve(wide, jnp.array([1.0, -2.0, 1.0], mine.dtype), mode="valid")


# %% both permutations the wrong way round exercise="5.6" score=0 diagnoses=["wrong-way-round", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine[-1:], "x", [(i, (i - 1) % n) for i in range(n)])
        after = lax.ppermute(mine[:1], "x", [(i, (i + 1) % n) for i in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% both the same way exercise="5.6" score=0 diagnoses=["one-way", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        ring = [(i, (i + 1) % n) for i in range(n)]
        before = lax.ppermute(mine[-1:], "x", ring)
        after = lax.ppermute(mine[:1], "x", ring)
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the ring open at its end exercise="5.6" score=0 diagnoses=["open-at-the-end", "not-counted-yet"] near=["open-at-the-start"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        after = lax.ppermute(mine[:1], "x", [(i + 1, i) for i in range(n - 1)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the ring open at its start exercise="5.6" score=0 diagnoses=["open-at-the-start", "not-counted-yet"] near=["open-at-the-end"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine[-1:], "x", [(i, i + 1) for i in range(n - 1)])
        after = lax.ppermute(mine[:1], "x", [((i + 1) % n, i) for i in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the sign turned exercise="5.6" score=0 diagnoses=["other-sign", "not-counted-yet"] near=["blocks-alone"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        after = lax.ppermute(mine[:1], "x", [((i + 1) % n, i) for i in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return 2 * mine - wide[:-2] - wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% itself only once exercise="5.6" score=0 diagnoses=["once-itself", "not-counted-yet"] near=["no collective-permute"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        after = lax.ppermute(mine[:1], "x", [((i + 1) % n, i) for i in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% a first difference, and the difference of that exercise="5.6" score=0.25 diagnoses=["too-often"] near=["sends-too-much", "explicit all-gather"]
def second_difference(x):
    def shifted(a, by):
        n = lax.axis_size("x")
        before = lax.ppermute(a[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        after = lax.ppermute(a[:1], "x", [((i + 1) % n, i) for i in range(n)])
        return jnp.concatenate([before, a, after])[1 + by : 1 + by + a.size]

    def body(mine):
        steps = shifted(mine, 1) - mine
        return steps - shifted(steps, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the ends of all gathered exercise="5.6" score=0.25 diagnoses=["no collective-permute"] near=["too-often"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        first, last = lax.all_gather(mine[0], "x"), lax.all_gather(mine[-1], "x")
        wide = jnp.concatenate([last[(i - 1) % n][None], mine, first[(i + 1) % n][None]])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the compiler's roll, in a shard_map that does nothing exercise="5.6" score=0.25 diagnoses=["no collective-permute"] naive=true
def second_difference(x):
    made = jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1)
    return jax.shard_map(lambda mine: mine, in_specs=P("x"), out_specs=P("x"))(made)


# %% vmap over the body's batch exercise="5.7" score=1
def solve_all(A, b):
    def one(A, b):
        return jnp.linalg.solve(A + jnp.diag(jnp.full(4, 8.0)), b)

    return jax.shard_map(jax.vmap(one), in_specs=P("x"), out_specs=P("x"))(A, b)


# %% only the first of its own exercise="5.7" score=0 diagnoses=["shape", "not-counted-yet"]
def solve_all(A, b):
    def body(A, b):
        return jnp.linalg.solve(A[0] + 8 * jnp.eye(4), b[0])[None]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% all of them on every device exercise="5.7" score=0.25 diagnoses=["other-blocks-enter", "all-gather over x"] naive=true
def solve_all(A, b):
    def body(A, b):
        all_solved = jnp.linalg.solve(A + 8 * jnp.eye(4), b[..., None])[..., 0]
        mine = len(A) // lax.axis_size("x")
        return lax.dynamic_slice_in_dim(all_solved, lax.axis_index("x") * mine, mine)

    return jax.shard_map(body, in_specs=P(), out_specs=P("x"))(A, b)


# %% gathered by hand exercise="5.7" score=0.25 diagnoses=["explicit all-gather", "all-gather over x"]
def solve_all(A, b):
    def body(A, b):
        mine = len(A)
        A, b = lax.all_gather(A, "x", tiled=True), lax.all_gather(b, "x", tiled=True)
        all_solved = jnp.linalg.solve(A + 8 * jnp.eye(4), b[..., None])[..., 0]
        return lax.dynamic_slice_in_dim(all_solved, lax.axis_index("x") * mine, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% eight everywhere, and not on the diagonal exercise="5.7" score=0 diagnoses=["eight-everywhere", "not-counted-yet"]
def solve_all(A, b):
    def body(A, b):
        return jnp.linalg.solve(A + 8, b[..., None])[..., 0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% decorated, one after the other exercise="5.7" score=1 near=["shape", "eight-everywhere", "eight-forgotten"]
from functools import partial


@partial(jax.shard_map, in_specs=(P("x", None, None), P("x", None)), out_specs=P("x", None))
def solve_all(systems, sides):
    eight = 8 * jnp.eye(systems.shape[1], dtype=systems.dtype)
    solved = [jnp.linalg.solve(system + eight, b) for system, b in zip(systems, sides)]
    return jnp.stack(solved)


# %% two systems written in exercise="5.7" score=0 diagnoses=["only-the-first", "not-counted-yet"]
def solve_all(A, b):
    def body(A, b):
        eight = 8 * jnp.eye(4)
        return jnp.stack([jnp.linalg.solve(A[i] + eight, b[i]) for i in range(2)])

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% the eight forgotten exercise="5.7" score=0 diagnoses=["eight-forgotten", "not-counted-yet"] near=["one-for-eight"]
def solve_all(A, b):
    def body(A, b):
        return jnp.linalg.solve(A, b[..., None])[..., 0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% one for eight exercise="5.7" score=0 diagnoses=["one-for-eight", "not-counted-yet"] near=["others-sides"]
def solve_all(A, b):
    def body(A, b):
        return jnp.linalg.solve(A + jnp.eye(4), b[..., None])[..., 0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% from the other side exercise="5.7" score=0 diagnoses=["transposed-systems", "not-counted-yet"]
def solve_all(A, b):
    def body(A, b):
        return jnp.einsum("nj,nji->ni", b, jnp.linalg.inv(A + 8 * jnp.eye(4)))

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% sides for everybody, taken at the device's number exercise="5.7" score=0 diagnoses=["others-sides", "other-blocks-enter", "all-gather over x"] near=["explicit all-gather"]
def solve_all(A, b):
    def body(A, b):
        b = lax.dynamic_slice_in_dim(b, lax.axis_index("x"), A.shape[0])
        return jnp.linalg.solve(A + 8 * jnp.eye(4), b[..., None])[..., 0]

    return jax.shard_map(body, in_specs=(P("x"), P()), out_specs=P("x"))(A, b)


# %% solutions as columns exercise="5.7" score=0 diagnoses=["reshaped", "not-counted-yet"] near=["all-gather", "transposed-systems"]
def solve_all(A, b):
    def body(A, b):
        return jnp.linalg.solve(A + 8 * jnp.eye(4), b[..., None])

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% vmap, in a shard_map that does nothing exercise="5.7" score=0 diagnoses=["not-counted-yet", "outside-the-body"] naive=true
def solve_all(A, b):
    solved = jax.vmap(lambda A, b: jnp.linalg.solve(A + 8 * jnp.eye(4), b))(A, b)
    return jax.shard_map(lambda mine: mine, in_specs=P("x"), out_specs=P("x"))(solved)


# %% vmap alone exercise="5.7" score=0 diagnoses=["not-counted-yet", "no-shard-map"] naive=true
def solve_all(A, b):
    return jax.vmap(lambda A, b: jnp.linalg.solve(A + 8 * jnp.eye(4), b))(A, b)


# %% laid out anew outside exercise="5.8" score=0 diagnoses=["only-the-first"]
def everywhere(x):
    return lax.with_sharding_constraint(x, on(line))


# %% the check switched off exercise="5.8" score=0.25 diagnoses=["explicit all-gather"]
def everywhere(x):
    return jax.shard_map(
        lambda a: lax.all_gather(a, "x", tiled=True),
        in_specs=P("x"),
        out_specs=P(),
        check_vma=False,
    )(x)


# %% the gather as it is refused exercise="5.8" score=0 diagnoses=["not-replicated"]
def everywhere(x):
    return jax.shard_map(
        lambda a: lax.all_gather(a, "x", tiled=True), in_specs=P("x"), out_specs=P()
    )(x)


# %% nothing done exercise="5.8" score=0.125 diagnoses=["nothing-moved", "no all-reduce"]
def everywhere(x):
    return jax.shard_map(lambda a: a, in_specs=P("x"), out_specs=P("x"))(x)


# %% the blocks added up exercise="5.8" score=0 diagnoses=["blocks-added", "shape", "not-counted-yet"]
def everywhere(x):
    return jax.shard_map(lambda a: lax.psum(a, "x"), in_specs=P("x"), out_specs=P())(x)


# %% decorated, by the largest exercise="5.8" score=1 near=["at-its-number", "mean-for-sum", "backwards", "not-replicated"]
from functools import partial


@partial(jax.shard_map, in_specs=P("x"), out_specs=P())
def everywhere(mine):
    n = lax.axis_size("x")
    owner = jnp.arange(n * mine.size) // mine.size
    place = jnp.where(owner == lax.axis_index("x"), jnp.tile(mine, n), -jnp.inf)
    return lax.pmax(place, "x")


# %% round a ring, and a mean as proof exercise="5.8" score=1 near=["explicit all-gather", "added-by-the-compiler", "nothing-moved", "no all-reduce"]
def everywhere(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        held = [mine]
        for _ in range(n - 1):
            held.append(lax.ppermute(held[-1], "x", [(j, (j + 1) % n) for j in range(n)]))
        return lax.pmean(jnp.stack(held)[(i - jnp.arange(n)) % n].ravel(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% the notebook's mesh written in exercise="5.8" score=0 diagnoses=["only-the-first"]
def everywhere(x):
    def body(mine):
        slots = jnp.zeros((lax.axis_size("x"), mine.size)).at[lax.axis_index("x")].set(mine)
        return lax.psum(slots.ravel(), "x")

    return jax.shard_map(body, mesh=line, in_specs=P("x"), out_specs=P())(x)


# %% eight devices written in exercise="5.8" score=0 diagnoses=["only-the-first", "not-counted-yet"]
def everywhere(x):
    def body(mine):
        slots = jnp.zeros((8, mine.size)).at[lax.axis_index("x")].set(mine)
        return lax.psum(slots.ravel(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% whole by in_specs exercise="5.8" score=0.25 diagnoses=["no all-reduce"] naive=true
def everywhere(x):
    return jax.shard_map(lambda whole: whole, in_specs=P(), out_specs=P())(x)


# %% at the number of the device exercise="5.8" score=0 diagnoses=["at-its-number", "not-counted-yet"] near=["shape", "on-top-of-each-other"]
def everywhere(x):
    def body(mine):
        long = lax.pcast(jnp.zeros(lax.axis_size("x") * mine.size), "x", to="varying")
        return lax.psum(lax.dynamic_update_slice(long, mine, (lax.axis_index("x"),)), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% blocks added up on top of each other exercise="5.8" score=0 diagnoses=["on-top-of-each-other", "not-counted-yet"]
def everywhere(x):
    def body(mine):
        return lax.psum(jnp.tile(mine, lax.axis_size("x")), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% a mean of the long vectors exercise="5.8" score=0 diagnoses=["mean-for-sum", "not-counted-yet"]
def everywhere(x):
    def body(mine):
        slots = jnp.zeros((lax.axis_size("x"), mine.size)).at[lax.axis_index("x")].set(mine)
        return lax.pmean(slots.ravel(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% the blocks backwards exercise="5.8" score=0 diagnoses=["backwards", "not-counted-yet"]
def everywhere(x):
    def body(mine):
        slots = jnp.zeros((lax.axis_size("x"), mine.size)).at[-1 - lax.axis_index("x")].set(mine)
        return lax.psum(slots.ravel(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% a mean after the gather exercise="5.8" score=0.25 diagnoses=["explicit all-gather"]
def everywhere(x):
    def body(mine):
        return lax.pmean(lax.all_gather(mine, "x", tiled=True), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% laid out anew by a constraint exercise="5.8" score=0 diagnoses=["not-counted-yet", "no-shard-map"] naive=true
def everywhere(x):
    return lax.with_sharding_constraint(x, P())


# %% a gather in the body, cut off outside exercise="5.8" score=0.125 diagnoses=["split-dimension", "explicit all-gather"]
def everywhere(x):
    rows = jax.shard_map(
        lambda mine: lax.all_gather(mine, "x", tiled=True), in_specs=P("x"), out_specs=P("x")
    )(x)
    return rows[: x.size]


# %% round a ring, the check off exercise="5.8" score=0.25 diagnoses=["no all-reduce"]
def everywhere(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        held = [mine]
        for _ in range(n - 1):
            held.append(lax.ppermute(held[-1], "x", [(j, (j + 1) % n) for j in range(n)]))
        return jnp.stack(held)[(i - jnp.arange(n)) % n].ravel()

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(), check_vma=False)(x)


# %% whole by in_specs, and a mean for show exercise="5.8" score=0.25 diagnoses=["other-blocks-enter"] naive=true
def everywhere(x):
    return jax.shard_map(lambda whole: lax.pmean(whole, "x"), in_specs=P(), out_specs=P())(x)


# %% in another way: logs exercise="5.2" score=1 near=["first-elements", "total: sum-of-largest", "divided-twice", "largest-of-others", "never-divided", "logarithm", "divided-by-the-largest"]
def total(x):
    return jax.shard_map(
        lambda mine: lax.pmean(mine.sum(), "x") * lax.axis_size("x"), in_specs=P("x"), out_specs=P()
    )(x)


def average(x):
    return jax.shard_map(
        lambda mine: lax.psum(mine.sum() / (mine.size * lax.axis_size("x")), "x"),
        in_specs=P("x"),
        out_specs=P(),
    )(x)


def largest(x):
    return jax.shard_map(
        lambda mine: -lax.pmin((-mine).min(), "x"), in_specs=P("x"), out_specs=P()
    )(x)


def softmax(x):
    def body(mine):
        m = lax.pmax(jnp.max(mine), ("x",))
        return jnp.exp(mine - m - jnp.log(lax.psum(jnp.sum(jnp.exp(mine - m)), ("x",))))

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% total of maxima; average of mean of sum; largest mean; softmax unnormalised exercise="5.2" score=0 diagnoses=["sum-of-largest", "not-counted-yet", "divided-twice", "own-results", "never-divided", "too-seldom"]
def total(x):
    return jax.shard_map(lambda mine: lax.psum(mine.max(), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(
        lambda mine: lax.psum(mine.mean(), "x") / mine.size, in_specs=P("x"), out_specs=P()
    )(x)


def largest(x):
    return jax.shard_map(lambda mine: lax.pmean(mine.max(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(mine):
        e = jnp.exp(mine - lax.pmax(mine.max(), "x"))
        lax.psum(e.sum(), "x")
        return e

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% total twice psum; avg sum of both; largest of sums; softmax log exercise="5.2" score=0 diagnoses=["added-twice", "one-too-many", "mean-of-sums", "not-counted-yet", "largest-of-others", "logarithm"]
def total(x):
    return jax.shard_map(
        lambda mine: lax.psum(lax.psum(mine.sum(), "x"), "x"), in_specs=P("x"), out_specs=P()
    )(x)


def average(x):
    return jax.shard_map(
        lambda mine: lax.psum(mine.sum(), "x") / (lax.axis_size("x")),
        in_specs=P("x"),
        out_specs=P(),
    )(x)


def largest(x):
    return jax.shard_map(lambda mine: lax.pmax(mine.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(mine):
        m = lax.pmax(mine.max(), "x")
        return mine - m - jnp.log(lax.psum(jnp.exp(mine - m).sum(), "x"))

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% total of one element; average by own size; largest min; softmax no sub exercise="5.2" score=0 diagnoses=["first-elements", "not-counted-yet", "sum-of-means", "own-results", "not-a-number", "too-seldom"]
def total(x):
    return jax.shard_map(lambda mine: lax.psum(mine[0], "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(
        lambda mine: lax.psum(mine.sum(), "x") / mine.size, in_specs=P("x"), out_specs=P()
    )(x)


def largest(x):
    return jax.shard_map(lambda mine: lax.pmin(mine.max(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(mine):
        e = jnp.exp(mine)
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% total abs; avg; largest abs; softmax mean exercise="5.2" score=0 diagnoses=["of-other-inputs", "not-counted-yet", "sum-of-means", "off-by-a-factor"]
def total(x):
    return jax.shard_map(
        lambda mine: lax.psum(jnp.abs(mine).sum(), "x"), in_specs=P("x"), out_specs=P()
    )(x)


def average(x):
    return jax.shard_map(lambda mine: lax.psum(mine.mean(), "x"), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(
        lambda mine: lax.pmax(jnp.abs(mine).max(), "x"), in_specs=P("x"), out_specs=P()
    )(x)


def softmax(x):
    def body(mine):
        e = jnp.exp(mine - lax.pmax(mine.max(), "x"))
        return e / lax.pmean(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% softmax pmin; average median; largest psum exercise="5.2" score=0.25 diagnoses=["median", "not-counted-yet", "sum-of-largest", "divided-by-the-largest"]
def total(x):
    return jax.shard_map(lambda mine: lax.psum(mine.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(
        lambda mine: lax.pmean(jnp.median(mine), "x"), in_specs=P("x"), out_specs=P()
    )(x)


def largest(x):
    return jax.shard_map(lambda mine: lax.psum(mine.max(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(mine):
        m = lax.pmax(mine.max(), "x")
        e = jnp.exp(mine - m)
        return e / lax.pmax(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% in another way: generators exercise="5.3" score=1 near=["floats", "own-first", "own-twice", "own-left-out", "own-repeated", "single-entry", "numbers-in-turn", "first-block-alone", "added-twice", "mean-for-sum", "sums-of-blocks", "psum_scatter_ref: one-number-each", "first-piece-for-all", "columns", "pieces-begin-at-the-number", "exchanged-and-added", "devices-backwards", "first-of-each-piece", "overwritten"]
def all_gather_ref(blocks, tiled):
    from itertools import chain

    return tuple(tuple(chain(*blocks)) if tiled else tuple(map(tuple, blocks)) for _ in blocks)


def psum_scatter_ref(blocks):
    n = len(blocks)
    k = len(blocks[0]) // n
    return [[sum(b[i * k + j] for b in blocks) for j in range(k)] for i in range(n)]


def all_to_all_ref(blocks):
    n = len(blocks)
    k = len(blocks[0]) // n
    return [[blocks[q // k][i * k + q % k] for q in range(n * k)] for i in range(n)]


# %% in another way: einops-ish exercise="5.3" score=1
def all_gather_ref(blocks, tiled):
    a = np.array(blocks, dtype=np.int64)
    return np.broadcast_to(
        a.reshape(-1) if tiled else a, (len(blocks), *(a.reshape(-1) if tiled else a).shape)
    )


def psum_scatter_ref(blocks):
    return np.array(blocks, dtype=object).sum(0).reshape(len(blocks), -1)


def all_to_all_ref(blocks):
    return np.hstack(np.array(blocks).reshape(len(blocks), len(blocks), -1)).tolist()


# %% gather by interleaving; scatter axis 1; all_to_all stacked exercise="5.3" score=0 diagnoses=["numbers-in-turn", "sums-of-blocks", "columns"]
def all_gather_ref(blocks, tiled):
    if tiled:
        return [np.array(blocks).T.ravel().tolist() for _ in blocks]
    return [np.array(blocks).T.tolist() for _ in blocks]


def psum_scatter_ref(blocks):
    n = len(blocks)
    return [[int(np.sum(b))] for b in blocks]


def all_to_all_ref(blocks):
    return [list(c) for c in zip(*blocks)]


# %% gather adds own twice; scatter mean; all_to_all reversed exercise="5.3" score=0 diagnoses=["own-twice", "mean-for-sum", "devices-backwards"]
def all_gather_ref(blocks, tiled):
    out = []
    for b in blocks:
        mine = [b] + list(blocks)
        out.append(sum(mine, []) if tiled else mine)
    return out


def psum_scatter_ref(blocks):
    return [p.tolist() for p in np.split(np.mean(blocks, axis=0), len(blocks))]


def all_to_all_ref(blocks):
    n = len(blocks)
    pieces = [np.split(np.array(b), n) for b in blocks]
    return [np.concatenate([pieces[j][i] for j in reversed(range(n))]).tolist() for i in range(n)]


# %% gather without own; scatter first piece only for all; all_to_all pieces wrong size one exercise="5.3" score=0 diagnoses=["own-left-out", "first-piece-for-all", "pieces-begin-at-the-number"]
def all_gather_ref(blocks, tiled):
    out = []
    for i in range(len(blocks)):
        mine = [b for j, b in enumerate(blocks) if j != i]
        out.append(sum(mine, []) if tiled else mine)
    return out


def psum_scatter_ref(blocks):
    n = len(blocks)
    total = np.sum(blocks, axis=0)
    return [np.split(total, n)[0].tolist() for _ in blocks]


def all_to_all_ref(blocks):
    n = len(blocks)
    size = len(blocks[0]) // n
    return [sum((b[i : i + size] for b in blocks), []) for i in range(n)]


# %% gather tiled flips; psum twice; all_to_all also summed exercise="5.3" score=0 diagnoses=["only-one-device", "added-twice", "exchanged-and-added"]
def all_gather_ref(blocks, tiled):
    return np.concatenate(blocks).tolist() if tiled else [list(b) for b in blocks]


def psum_scatter_ref(blocks):
    n = len(blocks)
    total = np.sum(blocks, axis=0) * n
    return [p.tolist() for p in np.split(total, n)]


def all_to_all_ref(blocks):
    n = len(blocks)
    pieces = [np.split(np.array(b), n) for b in blocks]
    return [sum(pieces[j][i] for j in range(n)).tolist() for i in range(n)]


# %% scatter reversed; forgot the return in all_to_all; mutating exercise="5.3" score=0 diagnoses=["first-block-alone", "other-result", "overwritten"]
def all_gather_ref(blocks, tiled):
    whole = []
    for b in blocks:
        if tiled:
            whole += b
        else:
            whole.append(b)
        return [whole] * len(blocks)


def psum_scatter_ref(blocks):
    n = len(blocks)
    total = np.sum(blocks, axis=0)
    return [p.tolist() for p in np.split(total, n)][::-1]


def all_to_all_ref(blocks):
    n = len(blocks)
    out = blocks
    size = len(blocks[0]) // n
    for i in range(n):
        out[i] = sum((b[i * size : (i + 1) * size] for b in blocks), [])
    return out


# %% gather: each device begins with its own block exercise="5.3" score=0 diagnoses=["own-first", "other-result", "nothing-exchanged"]
def all_gather_ref(blocks, tiled):
    n = len(blocks)
    out = []
    for i in range(n):
        order = blocks[i:] + blocks[:i]
        out.append(sum(order, []) if tiled else order)
    return out


def psum_scatter_ref(blocks):
    n = len(blocks)
    total = np.sum(blocks, axis=0)
    return np.roll(np.array(np.split(total, n)), 1, axis=0).tolist()


def all_to_all_ref(blocks):
    n = len(blocks)
    pieces = [np.split(np.array(b), n) for b in blocks]
    return [np.concatenate([pieces[i][j] for j in range(n)]).tolist() for i in range(n)]


# %% size off by one; scatter untiled nested; all_to_all returns arrays of arrays 2d exercise="5.3" score=0 diagnoses=["single-entry", "sums-of-blocks", "never-joined"]
def all_gather_ref(blocks, tiled):
    return [np.array(blocks).reshape(-1) if tiled else np.array(blocks)]


def psum_scatter_ref(blocks):
    n = len(blocks)
    total = [sum(b) for b in blocks]
    return [[t] for t in total]


def all_to_all_ref(blocks):
    n = len(blocks)
    a = np.array(blocks).reshape(n, n, -1)
    return a.swapaxes(0, 1).tolist()


# %% scatter: one number each; all_to_all size n//; gather tuple exercise="5.3" score=0 diagnoses=["own-repeated", "one-number-each", "transposed-numbers"]
def all_gather_ref(blocks, tiled):
    if tiled:
        return [b * len(blocks) for b in blocks]
    return [[b] * len(blocks) for b in blocks]


def psum_scatter_ref(blocks):
    total = np.sum(blocks, axis=0)
    return [[int(total[i])] for i in range(len(blocks))]


def all_to_all_ref(blocks):
    n = len(blocks)
    a = np.array(blocks).reshape(n, n, -1)
    return a.transpose(1, 2, 0).reshape(n, -1).tolist()


# %% sums own pieces; scatter last; float exercise="5.3" score=0 diagnoses=["floats", "first-of-each-piece"] near=["float32"]
def all_gather_ref(blocks, tiled):
    return [
        np.hstack(blocks).tolist() if tiled else np.vstack(blocks).astype(float).tolist()
        for _ in blocks
    ]


def psum_scatter_ref(blocks):
    n = len(blocks)
    total = np.sum(blocks, axis=0, dtype=float)
    return [p.tolist() for p in np.split(total, n)]


def all_to_all_ref(blocks):
    n = len(blocks)
    out = [[] for _ in blocks]
    for b in blocks:
        size = len(b) // n
        for i in range(n):
            out[i].append(b[i * size])
    return out


# %% gather sends mine each time; scatter adds own piece always exercise="5.5" score=0 diagnoses=["own-block-again", "not-counted-yet", "same-piece-always"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        got = [mine]
        for _ in range(n - 1):
            got.append(lax.ppermute(mine, "x", pairs))
        stacked = jnp.stack(got)
        return stacked[(i - jnp.arange(n)) % n].reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        parts = mine.reshape(n, -1)
        growing = parts[i]
        for s in range(1, n):
            growing = lax.ppermute(growing, "x", pairs) + parts[i]
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% gather roll by one; scatter overwrites exercise="5.5" score=0 diagnoses=["misplaced", "not-counted-yet", "first-does-not-belong"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        got = [mine]
        for _ in range(n - 1):
            got.append(lax.ppermute(got[-1], "x", pairs))
        stacked = jnp.stack(got)
        return stacked[(i - 1 - jnp.arange(n)) % n].reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        parts = mine.reshape(n, -1)
        growing = parts[(i - 1) % n]
        for s in range(1, n):
            growing = lax.ppermute(growing, "x", pairs)
            growing = growing + parts[(i - s) % n]
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% gather backwards order; scatter adds before sending exercise="5.5" score=0 diagnoses=["misplaced", "not-counted-yet", "added-before-sending"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        got = [mine]
        for _ in range(n - 1):
            got.append(lax.ppermute(got[-1], "x", pairs))
        stacked = jnp.stack(got)
        return stacked[::-1].reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        parts = mine.reshape(n, -1)
        growing = parts[(i - 1) % n]
        for s in range(1, n):
            growing = lax.ppermute(growing + parts[(i - 1 - s) % n], "x", pairs)
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% gather arrival rolled with jnp.roll wrong; scatter no add exercise="5.5" score=0 diagnoses=["against-the-ring", "not-counted-yet", "never-added"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        got = [mine]
        for _ in range(n - 1):
            got.append(lax.ppermute(got[-1], "x", pairs))
        stacked = jnp.stack(got)
        return jnp.roll(stacked, i, axis=0).reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        parts = mine.reshape(n, -1)
        growing = parts[(i - 1) % n]
        for s in range(1, n):
            growing = lax.ppermute(growing, "x", pairs)
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% gather rev rolled i; scatter sends parts exercise="5.5" score=0 diagnoses=["misplaced", "not-counted-yet", "part-sent"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        got = [mine]
        for _ in range(n - 1):
            got.append(lax.ppermute(got[-1], "x", pairs))
        stacked = jnp.stack(got)
        return jnp.roll(stacked[::-1], i, axis=0).reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        parts = mine.reshape(n, -1)
        growing = parts[(i - 1) % n]
        for s in range(1, n):
            growing = growing + lax.ppermute(parts[(i - 1 - s) % n], "x", pairs)
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% gather own block twice; scatter own counted twice exercise="5.5" score=0 diagnoses=["misplaced", "not-counted-yet", "too-seldom", "own-part-twice"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        got = [mine]
        for _ in range(n - 2):
            got.append(lax.ppermute(got[-1], "x", pairs))
        stacked = jnp.stack(got)
        return jnp.concatenate([stacked, mine[None]])[(i - jnp.arange(n)) % n].reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        parts = mine.reshape(n, -1)
        growing = parts[(i - 1) % n]
        for s in range(1, n):
            growing = (
                lax.ppermute(growing, "x", pairs)
                + parts[(i - 1 - s) % n]
                + (parts[i] if s == n - 1 else 0)
            )
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% scatter: i+1-s exercise="5.5" score=0.5 diagnoses=["two-places-off", "not-counted-yet"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        got = [mine]
        for _ in range(n - 1):
            got.append(lax.ppermute(got[-1], "x", pairs))
        stacked = jnp.stack(got)
        return stacked[(i - jnp.arange(n)) % n].reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        parts = mine.reshape(n, -1)
        growing = parts[(i + 1) % n]
        for s in range(1, n):
            growing = lax.ppermute(growing, "x", pairs) + parts[(i + 1 - s) % n]
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% scatter: i-1+s exercise="5.5" score=0.5 diagnoses=["counted-upwards", "not-counted-yet"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        got = [mine]
        for _ in range(n - 1):
            got.append(lax.ppermute(got[-1], "x", pairs))
        stacked = jnp.stack(got)
        return stacked[(i - jnp.arange(n)) % n].reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(j, (j + 1) % n) for j in range(n)]
        parts = mine.reshape(n, -1)
        growing = parts[(i - 1) % n]
        for s in range(1, n):
            growing = lax.ppermute(growing, "x", pairs) + parts[(i - 1 + s) % n]
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% in another way: diff twice, local exercise="5.6" score=1 near=["one-end-wrong", "one-halo-twice", "own-element-as-halo", "closed-for-itself", "two-devices-away", "second-from-the-edge", "never-received", "halo-on-top", "halo-as-result", "sum-of-three", "first-difference", "neighbours-alone", "twice-a-neighbour"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 1) % n, j) for j in range(n)])
        return jnp.diff(jnp.concatenate([before, mine, after]), n=2)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% in another way: where exercise="5.6" score=1
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 1) % n, j) for j in range(n)])
        k = jnp.arange(mine.size)
        left = jnp.where(k == 0, before, jnp.roll(mine, 1))
        right = jnp.where(k == mine.size - 1, after, jnp.roll(mine, -1))
        return left + right - mine - mine

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% both same way forwards, both last exercise="5.6" score=0 diagnoses=["one-end-wrong", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[-1:], "x", [((j + 1) % n, j) for j in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% second pairs wrong: to +2 exercise="5.6" score=0 diagnoses=["two-devices-away", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 2) % n, j) for j in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% sum not difference exercise="5.6" score=0 diagnoses=["sum-of-three", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 1) % n, j) for j in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] + 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% first difference exercise="5.6" score=0 diagnoses=["first-difference", "too-seldom"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 1) % n, j) for j in range(n)])
        wide = jnp.concatenate([before, mine])
        return mine - wide[:-1]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% slices shifted exercise="5.6" score=0 diagnoses=["twice-a-neighbour", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 1) % n, j) for j in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * wide[2:] + mine

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% central difference exercise="5.6" score=0 diagnoses=["neighbours-alone", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 1) % n, j) for j in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return wide[2:] - wide[:-2]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% halo forgotten after exercise="5.6" score=0 diagnoses=["own-element-as-halo", "too-seldom"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 1) % n, j) for j in range(n)])
        wide = jnp.concatenate([before, mine, mine[-1:]])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% halo 1 element too far a exercise="5.6" score=0 diagnoses=["second-from-the-edge", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-2:-1], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 1) % n, j) for j in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% edges only overwritten exercise="5.6" score=0 diagnoses=["halo-as-result", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 1) % n, j) for j in range(n)])
        out = jnp.roll(mine, 1) - 2 * mine + jnp.roll(mine, -1)
        return out.at[0].set(before[0]).at[-1].set(after[0])

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% edges added on top of the roll exercise="5.6" score=0 diagnoses=["halo-on-top", "not-counted-yet"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 1) % n, j) for j in range(n)])
        out = jnp.roll(mine, 1) - 2 * mine + jnp.roll(mine, -1)
        return out.at[0].add(before[0]).at[-1].add(after[0])

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% one halo is zero: pairs empty exercise="5.6" score=0 diagnoses=["never-received", "too-seldom"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the number from before at both ends exercise="5.6" score=0 diagnoses=["one-halo-twice", "too-seldom"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 1) % n, j) for j in range(n)])
        wide = jnp.concatenate([before, mine, before])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% one end closed to the block itself exercise="5.6" score=0 diagnoses=["closed-for-itself", "too-seldom"]
def second_difference(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        before = lax.ppermute(mine[-1:], "x", [(j, (j + 1) % n) for j in range(n)])
        after = lax.ppermute(mine[:1], "x", [((j + 1) % n, j) for j in range(n)])
        wide = jnp.concatenate([before, mine, mine[:1]])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% in another way: by inverse exercise="5.7" score=1 near=["eight-taken-away", "eight-times-the-matrix", "diagonal-alone", "multiplied", "eight-added-later", "first-matrix-for-all"]
def solve_all(A, b):
    def body(A, b):
        return (jnp.linalg.inv(A + 8 * jnp.eye(4)) @ b[..., None]).squeeze(-1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x", None))(A, b)


# %% in another way: by a map exercise="5.7" score=1
def solve_all(A, b):
    @jax.shard_map(in_specs=(P("x", None, None), P("x", None)), out_specs=P("x", None))
    def body(A, b):
        return lax.map(
            lambda s: jax.scipy.linalg.solve(s[0] + jnp.diag(jnp.full(4, 8.0)), s[1]), (A, b)
        )

    return body(A, b)


# %% only first of each device, via broadcasting exercise="5.7" score=0 diagnoses=["first-matrix-for-all", "not-counted-yet"]
def solve_all(A, b):
    return jax.shard_map(
        lambda A, b: jax.vmap(lambda s: jnp.linalg.solve(A[0] + 8 * jnp.eye(4), s))(b),
        in_specs=P("x"),
        out_specs=P("x"),
    )(A, b)


# %% eight times A exercise="5.7" score=0 diagnoses=["eight-times-the-matrix", "not-counted-yet"]
def solve_all(A, b):
    return jax.shard_map(
        lambda A, b: jnp.linalg.solve(8 * A + jnp.eye(4), b[..., None])[..., 0],
        in_specs=P("x"),
        out_specs=P("x"),
    )(A, b)


# %% minus exercise="5.7" score=0 diagnoses=["eight-taken-away", "not-counted-yet"]
def solve_all(A, b):
    return jax.shard_map(
        lambda A, b: jnp.linalg.solve(A - 8 * jnp.eye(4), b[..., None])[..., 0],
        in_specs=P("x"),
        out_specs=P("x"),
    )(A, b)


# %% multiplied by 8 eye exercise="5.7" score=0 diagnoses=["diagonal-alone", "not-counted-yet"]
def solve_all(A, b):
    return jax.shard_map(
        lambda A, b: jnp.linalg.solve(A * 8 * jnp.eye(4), b[..., None])[..., 0],
        in_specs=P("x"),
        out_specs=P("x"),
    )(A, b)


# %% multiplied not solved exercise="5.7" score=0 diagnoses=["multiplied", "not-counted-yet"]
def solve_all(A, b):
    return jax.shard_map(
        lambda A, b: jnp.einsum("nij,nj->ni", A + 8 * jnp.eye(4), b),
        in_specs=P("x"),
        out_specs=P("x"),
    )(A, b)


# %% inverse only of diag; summed with psum exercise="5.7" score=0 diagnoses=["shape", "explicit all-reduce", "all-reduce over x"]
def solve_all(A, b):
    return jax.shard_map(
        lambda A, b: lax.psum(jnp.linalg.solve(A + 8 * jnp.eye(4), b[..., None])[..., 0], "x"),
        in_specs=P("x"),
        out_specs=P(),
    )(A, b)


# %% solve with only x index row exercise="5.7" score=0 diagnoses=["misplaced", "not-counted-yet"]
def solve_all(A, b):
    def body(A, b):
        x = jnp.linalg.solve(A[0] + 8 * jnp.eye(4), b[0])
        return jnp.broadcast_to(x, b.shape)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% b scaled by eight instead exercise="5.7" score=0 diagnoses=["eight-added-later", "not-counted-yet"]
def solve_all(A, b):
    def body(A, b):
        return jnp.linalg.solve(A, b[..., None])[..., 0] + 8

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% in another way: by one-hot exercise="5.8" score=1 near=["one-place-too-far", "order-of-arrival", "own-results", "transformed", "of-other-inputs", "misplaced", "off-by-a-constant", "in-quotes"]
def everywhere(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        return lax.psum(jnp.outer(jax.nn.one_hot(i, n, dtype=mine.dtype), mine).ravel(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% in another way: by psums one at a time exercise="5.8" score=1
def everywhere(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        return jnp.concatenate(
            [lax.psum(jnp.where(i == k, mine, jnp.zeros_like(mine)), "x") for k in range(n)]
        )

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% interleaved exercise="5.8" score=0 diagnoses=["misplaced", "not-counted-yet"]
def everywhere(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        long = jnp.zeros((mine.size, n), mine.dtype).at[:, i].set(mine)
        return lax.psum(long, "x").ravel()

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% next place clipped exercise="5.8" score=0 diagnoses=["one-place-too-far", "not-counted-yet"]
def everywhere(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        long = jnp.zeros(n * mine.size, mine.dtype)
        return lax.psum(lax.dynamic_update_slice(long, mine, ((i + 1) * mine.size,)), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% ones rather than zeros exercise="5.8" score=0 diagnoses=["filled-with-ones", "not-counted-yet"] near=["largest-for-sum"]
def everywhere(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        long = jnp.ones((n, mine.size), mine.dtype).at[i].set(mine)
        return lax.psum(long, "x").ravel()

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% pmax over zeros exercise="5.8" score=0 diagnoses=["largest-for-sum", "not-counted-yet"] near=["filled-with-ones"]
def everywhere(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        long = jnp.zeros((n, mine.size), mine.dtype).at[i].set(mine)
        return lax.pmax(long, "x").ravel()

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% no zeros: psum over own block only exercise="5.8" score=0 diagnoses=["blocks-added", "shape", "not-counted-yet"] near=["own-results"]
def everywhere(x):
    def body(mine):
        return lax.psum(mine, "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% in order of arrival ring exercise="5.8" score=0 diagnoses=["order-of-arrival", "not-counted-yet"]
def everywhere(x):
    def body(mine):
        n = lax.axis_size("x")
        got = [mine]
        for _ in range(n - 1):
            got.append(lax.ppermute(got[-1], "x", [(i, (i + 1) % n) for i in range(n)]))
        return lax.pmean(jnp.concatenate(got), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% blocks put in their place as they come, parts picked by a matrix exercise="5.5" score=1 near=["own-block-again", "same-piece-always", "first-does-not-belong", "counted-upwards", "added-before-sending", "never-added", "part-sent", "own-part-twice", "two-places-off"]
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        out = jnp.where(jnp.arange(n)[:, None] == i, mine, 0)
        moving = mine
        for s in range(1, n):
            moving = lax.ppermute(moving, "x", [(j, (j + 1) % n) for j in range(n)])
            out = jnp.where(jnp.arange(n)[:, None] == (i - s) % n, moving, out)
        return out.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x", None))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        parts = mine.reshape(n, -1)

        def part(k):
            return jax.nn.one_hot(k % n, n, dtype=mine.dtype) @ parts

        growing = part(i - 1)
        for s in range(2, n + 1):
            growing = lax.ppermute(growing, "x", [(j, (j + 1) % n) for j in range(n)])
            growing = growing + part(i - s)
        return growing

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% backwards round the ring, in a loop of JAX's exercise="5.5" score=1
def ring_all_gather(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        back = [((j + 1) % n, j) for j in range(n)]
        out = lax.pcast(jnp.zeros((n, mine.size), mine.dtype), "x", to="varying")
        out = out.at[i].set(mine)

        def step(s, carry):
            out, moving = carry
            moving = lax.ppermute(moving, "x", back)
            return out.at[(i + s) % n].set(moving), moving

        out, _ = lax.fori_loop(1, n, step, (out, mine))
        return out.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        back = [((j + 1) % n, j) for j in range(n)]
        parts = mine.reshape(n, -1)

        def step(s, growing):
            return lax.ppermute(growing, "x", back) + parts[(i + 1 + s) % n]

        return lax.fori_loop(1, n, step, parts[(i + 1) % n])

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% sums of each device's block; smallest step left out exercise="5.2" score=0 diagnoses=["one-sum-each", "no all-reduce", "not-replicated", "sum-of-largest", "not-counted-yet", "local-largest", "too-seldom"] near=["shape", "fixed-divisor"]
def total(x):
    return jax.shard_map(lambda m: m.sum(keepdims=True), in_specs=P("x"), out_specs=P("x"))(x)


def average(x):
    return jax.shard_map(lambda m: m.mean(), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(lambda m: lax.psum(m.max(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(m):
        e = jnp.exp(m - m.max())
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% average by a fixed number; softmax without a largest exercise="5.2" score=0.0625 diagnoses=["sends-too-much", "fixed-divisor", "not-counted-yet", "starts-too-high", "not-a-number", "too-seldom"] near=["exp-of-the-sum", "no-exp-above", "mean-of-sums", "divided-twice"]
def total(x):
    return jax.shard_map(lambda m: lax.psum(m, "x").sum(), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda m: lax.psum(m.sum(), "x") / 32, in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(
        lambda m: lax.pmax(jnp.maximum(m, 0).max(), "x"), in_specs=P("x"), out_specs=P()
    )(x)


def softmax(x):
    def body(m):
        e = jnp.exp(m)
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% smallest for largest, by negating twice exercise="5.2" score=0.0625 diagnoses=["one-too-many", "mean-of-sums", "not-counted-yet", "smallest", "not-a-number"] near=["fixed-divisor", "median", "own-results"]
def total(x):
    return jax.shard_map(
        lambda m: lax.psum(lax.psum(m.sum(), "x"), "x") / lax.axis_size("x"),
        in_specs=P("x"),
        out_specs=P(),
    )(x)


def average(x):
    return jax.shard_map(
        lambda m: lax.psum(m.sum(), "x") / lax.axis_size("x"), in_specs=P("x"), out_specs=P()
    )(x)


def largest(x):
    return jax.shard_map(lambda m: -lax.pmax((-m).max(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(m):
        top = lax.pmax(jnp.abs(m).max(), "x")
        e = jnp.exp(m - top)
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% keepdims; last elements; a small number in the divisor exercise="5.2" score=0 diagnoses=["reshaped", "not-counted-yet", "only-the-first", "first-elements", "values"] near=["one-sum-each", "fixed-divisor", "no-exp-above", "never-divided"]
def total(x):
    return jax.shard_map(
        lambda m: lax.psum(m.sum(keepdims=True), "x"), in_specs=P("x"), out_specs=P()
    )(x)


def average(x):
    return jax.shard_map(
        lambda m: lax.psum(m.sum(), "x") / (8 * m.size), in_specs=P("x"), out_specs=P()
    )(x)


def largest(x):
    return jax.shard_map(lambda m: lax.pmax(m[-1], "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(m):
        top = lax.pmax(m.max(), "x")
        e = jnp.exp(m - top)
        return e / (lax.psum(e.sum(), "x") + 1e-3)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% medians of blocks; the smallest of the largest exercise="5.2" score=0 diagnoses=["off-by-a-factor", "not-counted-yet", "median", "own-results", "not-a-number"] near=["smallest", "fixed-divisor", "exp-of-the-sum"]
def total(x):
    return jax.shard_map(lambda m: lax.psum(m.mean(), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda m: lax.pmean(jnp.median(m), "x"), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(lambda m: lax.pmin(m.max(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(m):
        top = lax.pmax(jnp.maximum(m, 0).max(), "x")
        e = jnp.exp(m - top)
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% no exp above the line exercise="5.2" score=0 diagnoses=["mean-for-sum", "not-counted-yet", "sum-for-mean", "not-replicated", "no-exp-above"] near=["exp-of-the-sum", "never-divided"]
def total(x):
    return jax.shard_map(lambda m: lax.pmean(m.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda m: lax.psum(m.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(
        lambda m: jnp.argmax(m) + lax.pmax(m.max(), "x") * 0, in_specs=P("x"), out_specs=P()
    )(x)


def softmax(x):
    def body(m):
        top = lax.pmax(m.max(), "x")
        e = jnp.exp(m - top)
        return m / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% one element of each block; exp of the sum exercise="5.2" score=0 diagnoses=["not-counted-yet", "makes-no-difference", "first-elements", "of-other-inputs", "exp-of-the-sum"] near=["not-finite", "fixed-divisor"]
def total(x):
    return jax.shard_map(
        lambda m, s: s + 0 * lax.psum(m[0], "x"), in_specs=(P("x"), P()), out_specs=P()
    )(x, x.sum())


def average(x):
    return jax.shard_map(lambda m: lax.pmean(m[0], "x"), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(lambda m: lax.pmax(jnp.abs(m).max(), "x"), in_specs=P("x"), out_specs=P())(
        x
    )


def softmax(x):
    def body(m):
        top = lax.pmax(m.max(), "x")
        return jnp.exp(m - top) / jnp.exp(lax.psum((m - top).sum(), "x"))

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% only a small number added to the divisor exercise="5.2" score=0.75 diagnoses=["values", "not-counted-yet"] near=["only-the-first", "off-by-a-factor"]
def total(x):
    return jax.shard_map(lambda m: lax.psum(m.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda m: lax.pmean(m.mean(), "x"), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(lambda m: lax.pmax(m.max(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(m):
        e = jnp.exp(m - lax.pmax(m.max(), "x"))
        return e / (lax.psum(e.sum(), "x") + 1e-3)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% gather to one flat list exercise="5.3" score=0 diagnoses=["one-list", "columns"] near=["only-one-device", "list-times-n", "untiled-missing", "float32"]
def all_gather_ref(blocks, tiled):
    return [v for b in blocks for v in b]


def psum_scatter_ref(blocks):
    return np.sum(blocks, axis=0).tolist()


def all_to_all_ref(blocks):
    return np.array(blocks).T.tolist()


# %% nothing returned for untiled exercise="5.3" score=0 diagnoses=["untiled-missing", "never-summed", "nothing-exchanged"] near=["one-list", "nothing-returned", "blocks-rotated"]
def all_gather_ref(blocks, tiled):
    if tiled:
        return [sum(blocks, []) for _ in blocks]


def psum_scatter_ref(blocks):
    n = len(blocks)
    k = len(blocks[0]) // n
    return [b[i * k : (i + 1) * k] for i, b in enumerate(blocks)]


def all_to_all_ref(blocks):
    return blocks


# %% blocks rotated exercise="5.3" score=0 diagnoses=["own-left-out", "other-result", "blocks-rotated"] near=["nothing-exchanged", "own-first"]
def all_gather_ref(blocks, tiled):
    out = [[b for j, b in enumerate(blocks) if j != i] for i in range(len(blocks))]
    return [sum(o, []) for o in out] if tiled else out


def psum_scatter_ref(blocks):
    n = len(blocks)
    s = np.sum(blocks, axis=0)
    return [p.tolist() for p in np.split(s, n)][::-1]


def all_to_all_ref(blocks):
    return blocks[1:] + blocks[:1]


# %% a list times n; sums in float32 exercise="5.3" score=0 diagnoses=["list-times-n", "float32", "raised"] near=["32-bits", "one-list", "floats"]
def all_gather_ref(blocks, tiled):
    return blocks * len(blocks) if tiled else [blocks] * len(blocks)


def psum_scatter_ref(blocks):
    n = len(blocks)
    s = np.sum(np.array(blocks, dtype=np.float32), axis=0)
    return [p.tolist() for p in np.split(s, n)]


def all_to_all_ref(blocks):
    return (
        jnp.array(blocks)
        .reshape(len(blocks), len(blocks), -1)
        .swapaxes(0, 1)
        .reshape(len(blocks), -1)
        .tolist()
    )


# %% blocks in the opposite order; an empty list for untiled exercise="5.3" score=0.3333333333 diagnoses=["other-result"] near=["untiled-missing", "blocks-rotated"]
def all_gather_ref(blocks, tiled):
    if tiled:
        return [sum(blocks, []) for _ in blocks]
    return []


def psum_scatter_ref(blocks):
    n = len(blocks)
    return [p.tolist() for p in np.split(np.sum(blocks, axis=0), n)]


def all_to_all_ref(blocks):
    return blocks[::-1]


# %% the halos are left on exercise="5.6" score=0 diagnoses=["halo-left-on", "not-counted-yet"] near=["shape"]
def second_difference(x):
    def body(m):
        n = lax.axis_size("x")
        l = lax.ppermute(m[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        r = lax.ppermute(m[:1], "x", [(i, (i - 1) % n) for i in range(n)])
        p = jnp.concatenate([l, m, r])
        return jnp.roll(p, 1) - 2 * p + jnp.roll(p, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the block with its halos comes back exercise="5.6" score=0 diagnoses=["shape", "not-counted-yet"] near=["halo-left-on"]
def second_difference(x):
    def body(m):
        n = lax.axis_size("x")
        l = lax.ppermute(m[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        r = lax.ppermute(m[:1], "x", [(i, (i - 1) % n) for i in range(n)])
        return jnp.concatenate([l, m, r])

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% every block at the start exercise="5.8" score=0 diagnoses=["all-at-the-start", "not-counted-yet"] near=["on-top-of-each-other"]
def everywhere(x):
    def body(m):
        n = lax.axis_size("x")
        out = jnp.zeros((n,) + m.shape, m.dtype).at[0].set(m)
        return lax.psum(out, "x").reshape(-1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% the blocks added up, in a result of a block's size exercise="5.8" score=0 diagnoses=["blocks-added", "shape", "not-counted-yet"] near=["own-results", "all-at-the-start", "copies-side-by-side"]
def everywhere(x):
    return jax.shard_map(lambda m: lax.psum(m, "x"), in_specs=P("x"), out_specs=P())(x)


# %% copies put end to end by out_specs exercise="5.8" score=0 diagnoses=["copies-side-by-side", "shape", "not-counted-yet"] near=["own-results", "misplaced"]
def everywhere(x):
    def body(m):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        out = jnp.zeros((n,) + m.shape, m.dtype).at[i].set(m)
        return lax.psum(out, "x").reshape(-1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% exps multiplied by their sum exercise="5.2" score=0 diagnoses=["unanswered", "multiplied", "not-counted-yet"] near=["divided-by-the-sum-of-x", "shifted-once-only"]
def softmax(x):
    def body(m):
        largest = lax.pmax(jnp.max(m), "x")
        e = jnp.exp(m - largest)
        return e * lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% exps divided by the sum of x exercise="5.2" score=0 diagnoses=["unanswered", "divided-by-the-sum-of-x", "not-counted-yet"] near=["multiplied", "shifted-once-only"]
def softmax(x):
    def body(m):
        largest = lax.pmax(jnp.max(m), "x")
        e = jnp.exp(m - largest)
        return e / lax.psum(m.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the largest is subtracted below the line only exercise="5.2" score=0 diagnoses=["unanswered", "shifted-once-only", "not-counted-yet"] near=["multiplied", "divided-by-the-sum-of-x"]
def softmax(x):
    def body(m):
        largest = lax.pmax(jnp.max(m), "x")
        return jnp.exp(m) / lax.psum(jnp.exp(m - largest).sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the largest for the sum; only a piece of its own block exercise="5.3" score=0 diagnoses=["unanswered", "largest-for-sum", "own-piece-alone"]
def psum_scatter_ref(blocks):
    largest = np.max(blocks, axis=0)
    return [piece.tolist() for piece in np.split(largest, len(blocks))]


def all_to_all_ref(blocks):
    return [np.split(np.array(b), len(blocks))[i].tolist() for i, b in enumerate(blocks)]


# %% no piece is exchanged; the sums of the columns exercise="5.3" score=0 diagnoses=["unanswered", "never-summed", "nothing-exchanged"] near=["largest-for-sum", "own-piece-alone"]
def psum_scatter_ref(blocks):
    return [np.split(np.array(b), len(blocks))[i].tolist() for i, b in enumerate(blocks)]


def all_to_all_ref(blocks):
    return blocks


# %% the number of the part is that of the step exercise="5.5" score=0 diagnoses=["unanswered", "same-part-on-all", "not-counted-yet"] near=["last-part-alone"]
def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        p = mine.reshape(n, -1)
        g = p[0]
        for s in range(1, n):
            g = lax.ppermute(g, "x", [(j, (j + 1) % n) for j in range(n)]) + p[s]
        return g

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% only the part that comes last is there exercise="5.5" score=0 diagnoses=["unanswered", "last-part-alone", "not-counted-yet"] near=["same-part-on-all"]
def ring_reduce_scatter(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        p = mine.reshape(n, -1)
        g = p[(i - 1) % n]
        for s in range(1, n):
            g = lax.ppermute(g, "x", [(j, (j + 1) % n) for j in range(n)]) * 0 + p[(i - 1 - s) % n]
        return g

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% a neighbour is taken away exercise="5.6" score=0 diagnoses=["neighbour-taken-away", "not-counted-yet"] near=["all-added", "four-times-itself"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        a = lax.ppermute(mine[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        b = lax.ppermute(mine[:1], "x", [((i + 1) % n, i) for i in range(n)])
        wide = jnp.concatenate([a, mine, b])
        return wide[:-2] - 2 * mine - wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% all three are added up exercise="5.6" score=0 diagnoses=["all-added", "not-counted-yet"] near=["neighbour-taken-away", "four-times-itself"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        a = lax.ppermute(mine[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        b = lax.ppermute(mine[:1], "x", [((i + 1) % n, i) for i in range(n)])
        wide = jnp.concatenate([a, mine, b])
        return wide[:-2] + mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% four times the element itself exercise="5.6" score=0 diagnoses=["four-times-itself", "not-counted-yet"] near=["all-added", "neighbour-taken-away"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        a = lax.ppermute(mine[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        b = lax.ppermute(mine[:1], "x", [((i + 1) % n, i) for i in range(n)])
        wide = jnp.concatenate([a, mine, b])
        return wide[:-2] - 4 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the matrix is left out exercise="5.7" score=0 diagnoses=["matrix-left-out", "not-counted-yet"] near=["first-side-for-all", "an-eighth-for-eight", "eight-as-a-factor"]
def solve_all(A, b):
    def body(A, b):
        return jnp.linalg.solve(8 * jnp.eye(4) + 0 * A, b[..., None])[..., 0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% the first side for all exercise="5.7" score=0 diagnoses=["first-side-for-all", "not-counted-yet"] near=["matrix-left-out", "an-eighth-for-eight", "eight-as-a-factor"]
def solve_all(A, b):
    def body(A, b):
        return jnp.linalg.solve(A + 8 * jnp.eye(4), (b[:1] + 0 * b)[..., None])[..., 0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% an eighth of the identity exercise="5.7" score=0 diagnoses=["an-eighth-for-eight", "not-counted-yet"] near=["first-side-for-all", "matrix-left-out", "eight-as-a-factor"]
def solve_all(A, b):
    def body(A, b):
        return jnp.linalg.solve(A + jnp.eye(4) / 8, b[..., None])[..., 0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% a matmul with 8 I exercise="5.7" score=0 diagnoses=["eight-as-a-factor", "not-counted-yet"] near=["first-side-for-all", "matrix-left-out", "an-eighth-for-eight", "raised"]
def solve_all(A, b):
    def body(A, b):
        return jnp.linalg.solve(A @ (8 * jnp.eye(4)), b[..., None])[..., 0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% places counted from the end exercise="5.8" score=0 diagnoses=["counted-from-the-end", "not-counted-yet"] near=["smallest-for-sum"]
def everywhere(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        z = lax.pcast(jnp.zeros(n * mine.size, mine.dtype), "x", to="varying")
        u = lax.dynamic_update_slice(z, mine, ((n - i) * mine.size,))
        return lax.psum(u, "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% a minimum for the sum exercise="5.8" score=0 diagnoses=["smallest-for-sum", "not-counted-yet"] near=["counted-from-the-end"]
def everywhere(x):
    def body(mine):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        z = lax.pcast(jnp.zeros(n * mine.size, mine.dtype), "x", to="varying")
        u = lax.dynamic_update_slice(z, mine, (i * mine.size,))
        return -lax.pmax(-u, "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% a dimension dropped exercise="5.1" score=0.3333333333 diagnoses=["dimension-dropped", "as-before"] near=["lengths-exchanged"]
inside = dict(
    zip(["P('x', 'y')", "P('x')", "P(None, ('x', 'y'))", "P()"], [(4, 8), (4,), (16, 2), (16, 16)])
)
outside = dict(
    zip(["P('x', 'y')", "P(('x', 'y'), None)", "P('y', 'x')"], [(16, 16), (16, 16), (16, 16)])
)


# %% the lengths of a result exchanged exercise="5.1" score=0.5833333333 diagnoses=["one-axis", "lengths-exchanged"] near=["dimension-dropped"]
inside = dict(
    zip(
        ["P('x', 'y')", "P('x')", "P(None, ('x', 'y'))", "P()"],
        [(4, 8), (4, 16), (16, 4), (16, 16)],
    )
)
outside = dict(
    zip(["P('x', 'y')", "P(('x', 'y'), None)", "P('y', 'x')"], [(16, 16), (32, 8), (32, 8)])
)


# %% the pieces gathered as rows exercise="5.4" score=0 diagnoses=["pieces-as-rows", "not-counted-yet"]
def sum_by_parts(x):
    def body(mine):
        part = lax.psum_scatter(mine, "x", scatter_dimension=1, tiled=True)
        return lax.all_gather(part, "x", tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% a row without its dimension exercise="5.4" score=0 diagnoses=["row-as-a-vector", "not-counted-yet"]
def sum_by_parts(x):
    def body(mine):
        part = lax.psum_scatter(mine[0], "x", tiled=True)
        return lax.all_gather(part, "x", tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the gather untiled exercise="5.4" score=0 diagnoses=["pieces-not-joined", "not-counted-yet"]
def sum_by_parts(x):
    def body(mine):
        part = lax.psum_scatter(mine, "x", scatter_dimension=1, tiled=True)
        return lax.all_gather(part, "x", axis=1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% all right with out_specs of P() exercise="5.4" score=0 diagnoses=["not-replicated"] near=["row-once"]
def sum_by_parts(x):
    def body(mine):
        part = lax.psum_scatter(mine, "x", scatter_dimension=1, tiled=True)
        return lax.all_gather(part, "x", axis=1, tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% all of x as a vector exercise="5.5" score=0.5 diagnoses=["row-as-a-vector", "shape", "not-counted-yet"] near=["blocks-as-rows"]
def ring_all_gather(x):
    def body(mine):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        ring = [(i, (i + 1) % n) for i in range(n)]
        out = jnp.zeros((n,) + mine.shape, mine.dtype)
        out = lax.pcast(out, "x", to="varying").at[me].set(mine)
        b = mine
        for s in range(1, n):
            b = lax.ppermute(b, "x", ring)
            out = out.at[(me - s) % n].set(b)
        return out.reshape(-1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        ring = [(i, (i + 1) % n) for i in range(n)]
        pieces = mine.reshape(n, -1)
        t = pieces[(me - 1) % n]
        for s in range(1, n):
            t = lax.ppermute(t, "x", ring) + pieces[(me - 1 - s) % n]
        return t

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the blocks in rows exercise="5.5" score=0.5 diagnoses=["blocks-as-rows", "shape", "not-counted-yet"] near=["row-as-a-vector"]
def ring_all_gather(x):
    def body(mine):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        ring = [(i, (i + 1) % n) for i in range(n)]
        out = jnp.zeros((n,) + mine.shape, mine.dtype)
        out = lax.pcast(out, "x", to="varying").at[me].set(mine)
        b = mine
        for s in range(1, n):
            b = lax.ppermute(b, "x", ring)
            out = out.at[(me - s) % n].set(b)
        return out

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        ring = [(i, (i + 1) % n) for i in range(n)]
        pieces = mine.reshape(n, -1)
        t = pieces[(me - 1) % n]
        for s in range(1, n):
            t = lax.ppermute(t, "x", ring) + pieces[(me - 1 - s) % n]
        return t

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% rolled outside the body exercise="5.6" score=0.25 diagnoses=["no collective-permute"] near=["whole-blocks"]
def second_difference(x):
    y = jnp.roll(x, 1) - 2 * x + jnp.roll(x, -1)
    return jax.shard_map(lambda m: m, in_specs=P("x"), out_specs=P("x"))(y)


# %% the sides on every device; raises exercise="5.7" score=0 diagnoses=["raised"] near=["did-not-finish"]
def solve_all(A, b):
    def body(A, b):
        return jnp.linalg.solve(A + 8 * jnp.eye(4), b)

    return jax.shard_map(body, in_specs=(P("x"), P()), out_specs=P("x"))(A, b)


# %% one sum, no row for each device exercise="5.4" score=0 diagnoses=["row-once", "no all-gather"] near=["not-replicated", "pieces-as-rows", "pieces-not-joined", "row-as-a-vector", "one-number"]
def sum_by_parts(x):
    def body(mine):
        return lax.psum_scatter(mine, "x", scatter_dimension=1, tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% vectors combined place by place exercise="5.2" score=0 diagnoses=["place-by-place", "sends-too-much", "divisor-for-each-place", "not-counted-yet"] near=["one-sum-each", "reshaped", "largest-for-each-place"]
def total(x):
    return jax.shard_map(lambda m: lax.psum(m, "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda m: lax.pmean(m, "x"), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(lambda m: lax.pmax(m, "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(m):
        e = jnp.exp(m - lax.pmax(m.max(), "x"))
        return e / lax.psum(e, "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% numbers in arrays of one, the largest of each place exercise="5.2" score=0 diagnoses=["reshaped", "not-counted-yet", "place-by-place", "sends-too-much", "copies-side-by-side", "largest-for-each-place"] near=["one-sum-each", "divisor-for-each-place"]
def total(x):
    def body(m):
        return lax.psum(m.sum(keepdims=True), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda m: lax.psum(m, "x") / x.size, in_specs=P("x"), out_specs=P())(x)


def largest(x):
    def body(m):
        return lax.pmax(m.max(keepdims=True), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def softmax(x):
    def body(m):
        e = jnp.exp(m - lax.pmax(m, "x"))
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% vectors exchanged, and made numbers of afterwards exercise="5.2" score=0.25 diagnoses=["sends-too-much"] near=["place-by-place", "divisor-for-each-place", "largest-for-each-place", "reshaped"]
def total(x):
    return jax.shard_map(lambda m: lax.psum(m, "x").sum(), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda m: lax.pmean(m, "x").mean(), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(lambda m: lax.pmax(m, "x").max(), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(m):
        e = jnp.exp(m - lax.pmax(m, "x").max())
        return e / lax.psum(e, "x").sum()

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% one entry where it is tiled, through float64 and float32 exercise="5.3" score=0 diagnoses=["single-entry", "floats", "float32"] near=["one-list", "32-bits"]
def all_gather_ref(blocks, tiled):
    if tiled:
        return [sum(blocks, [])]
    return [blocks for _ in blocks]


def psum_scatter_ref(blocks):
    n = len(blocks)
    return np.array(blocks, dtype=float).sum(0).reshape(n, -1).tolist()


def all_to_all_ref(blocks):
    n = len(blocks)
    pieces = np.array(blocks, dtype=np.float32).reshape(n, n, -1)
    return pieces.swapaxes(0, 1).reshape(n, -1).tolist()


# %% all_gather through float32, pieces of the sum from number i exercise="5.3" score=0 diagnoses=["float32", "pieces-begin-at-the-number", "floats"] near=["pieces-of-n", "never-scattered"]
def all_gather_ref(blocks, tiled):
    a = np.array(blocks, dtype=np.float32)
    return [(a.ravel() if tiled else a).tolist() for _ in blocks]


def psum_scatter_ref(blocks):
    n = len(blocks)
    total = [sum(column) for column in zip(*blocks)]
    return [total[i : i + n] for i in range(n)]


def all_to_all_ref(blocks):
    n = len(blocks)
    pieces = np.array(blocks, dtype=np.float64).reshape(n, n, -1)
    return pieces.swapaxes(0, 1).reshape(n, -1).tolist()


# %% the blocks as they came exercise="5.3" score=0 diagnoses=["nothing-exchanged", "unanswered"] near=["only-one-device", "own-repeated", "single-entry"]
def all_gather_ref(blocks, tiled):
    return blocks


def psum_scatter_ref(blocks):
    return blocks


# %% one entry where it is tiled, own blocks where it is not exercise="5.3" score=0 diagnoses=["other-result", "unanswered"] near=["single-entry", "own-repeated"]
def all_gather_ref(blocks, tiled):
    if tiled:
        return [sum(blocks, [])]
    return [[block] * len(blocks) for block in blocks]


# %% all that was collected is sent on and added exercise="5.5" score=0 diagnoses=["added-again", "not-counted-yet", "sends-too-much", "reshaped", "shape"] near=["own-block-again", "wrong-order"]
def ring_all_gather(x):
    def body(m):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        out = jnp.zeros((n, m.size), m.dtype).at[i].set(m)
        for s in range(n - 1):
            out = out + lax.ppermute(out, "x", [(j, (j + 1) % n) for j in range(n)])
        return out.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(m):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        pieces = m.reshape(n, -1)
        acc = pieces[(i - 1) % n]
        for s in range(1, n):
            acc = lax.ppermute(acc, "x", [(j, (j + 1) % n) for j in range(n)])
            acc = acc + pieces[(i - 1 - s) % n]
        return acc[None]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the same permuted in each step, and added where nothing was exercise="5.5" score=0 diagnoses=["own-block-again", "not-counted-yet", "unanswered"] near=["added-again", "own-part-missing"]
def ring_all_gather(x):
    def body(m):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        out = jnp.zeros((n, m.size), m.dtype).at[i].set(m)
        for s in range(1, n):
            got = lax.ppermute(m, "x", [(j, (j + 1) % n) for j in range(n)])
            out = out.at[(i - s) % n].add(got)
        return out.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the blocks themselves are added exercise="5.8" score=0 diagnoses=["blocks-added", "shape", "not-counted-yet"] near=["on-top-of-each-other", "reshaped"]
def everywhere(x):
    return jax.shard_map(lambda m: lax.psum(m, "x"), in_specs=P("x"), out_specs=P())(x)


# %% in their places, and stacked exercise="5.8" score=0 diagnoses=["reshaped", "shape", "not-counted-yet"] near=["blocks-added", "copies-side-by-side"]
def everywhere(x):
    def body(m):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        return lax.psum(jnp.zeros((n, m.size), m.dtype).at[i].set(m), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% minus x exercise="5.2" score=0 diagnoses=["added-twice", "other-blocks-enter", "sum-of-means", "largest-of-others", "not-counted-yet", "difference-turned"] near=["largest-divided-by"]
def total(x):
    return jax.shard_map(lambda m: lax.psum(m.sum(), "x"), in_specs=P(), out_specs=P())(x)


def average(x):
    return total(x) / x.shape[0]


def largest(x):
    return -jax.shard_map(lambda m: lax.pmin(-m.min(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(m):
        big = lax.pmax(m.max(), "x")
        e = jnp.exp(big - m)
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% blocks added before the largest exercise="5.2" score=0 diagnoses=["first-elements", "not-counted-yet", "divided-twice", "blocks-added-first", "sends-too-much", "not-a-number"] near=["place-by-place"]
def total(x):
    return jax.shard_map(lambda m: lax.psum(m[0], "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(
        lambda m: lax.pmean(m.mean(), "x") / lax.axis_size("x"), in_specs=P("x"), out_specs=P()
    )(x)


def largest(x):
    return jax.shard_map(lambda m: lax.psum(m, "x").max(), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(m):
        big = lax.pmax(jnp.abs(m).max(), "x")
        e = jnp.exp(m - big)
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% divided by the largest element exercise="5.2" score=0.25 diagnoses=["only-the-first", "not-counted-yet", "smallest", "largest-divided-by"] near=["difference-turned", "blocks-added-first"]
def total(x):
    return jax.shard_map(lambda m: lax.psum(jnp.sum(m), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(
        lambda m: lax.psum(m.sum(), "x") / (m.size * 8), in_specs=P("x"), out_specs=P()
    )(x)


def largest(x):
    return jax.shard_map(lambda m: lax.pmin(m.min(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(m):
        big = lax.pmax(m.max(), "x")
        e = jnp.exp(m / big)
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% its own pieces added exercise="5.3" score=0 diagnoses=["float32", "own-pieces-added", "nothing-exchanged"] near=["first-left-out"]
def all_gather_ref(blocks, tiled):
    n = len(blocks)
    stacked = np.array(blocks, dtype=np.int32 if False else np.float32)
    return [(stacked.reshape(-1) if tiled else stacked).astype(int).tolist() for _ in range(n)]


def psum_scatter_ref(blocks):
    n = len(blocks)
    k = len(blocks[0]) // n
    a = np.array(blocks)
    return [a[i].reshape(n, k).sum(0).tolist() for i in range(n)]


def all_to_all_ref(blocks):
    n = len(blocks)
    k = len(blocks[0]) // n
    return [[blocks[i][j * k + t] for j in range(n) for t in range(k)] for i in range(n)]


# %% a mean in whole numbers exercise="5.3" score=0 diagnoses=["own-first", "mean-for-sum", "devices-backwards"] near=["added-twice"]
def all_gather_ref(blocks, tiled):
    n = len(blocks)
    rolled = [blocks[i:] + blocks[:i] for i in range(n)]
    return [sum(r, []) if tiled else r for r in rolled]


def psum_scatter_ref(blocks):
    n = len(blocks)
    s = [sum(c) // n for c in zip(*blocks)]
    k = len(s) // n
    return [s[i * k : (i + 1) * k] for i in range(n)]


def all_to_all_ref(blocks):
    n = len(blocks)
    k = len(blocks[0]) // n
    return [[v for b in blocks[::-1] for v in b[i * k : (i + 1) * k]] for i in range(n)]


# %% without the first block exercise="5.3" score=0 diagnoses=["other-result", "first-left-out"] near=["own-left-out", "own-pieces-added"]
def all_gather_ref(blocks, tiled):
    if tiled:
        return [[v for b in zip(*blocks) for v in b] for _ in blocks]
    return [blocks[::-1] for _ in blocks]


def psum_scatter_ref(blocks):
    n = len(blocks)
    k = len(blocks[0]) // n
    return [[sum(b[i * k + t] for b in blocks[1:]) for t in range(k)] for i in range(n)]


def all_to_all_ref(blocks):
    n = len(blocks)
    k = len(blocks[0]) // n
    return [[v for b in blocks for v in b[(n - 1 - i) * k : (n - i) * k]] for i in range(n)]


# %% one number for all exercise="5.4" score=0 diagnoses=["one-number", "not-counted-yet"] near=["by-pieces"]
def sum_by_parts(x):
    def body(m):
        s = lax.psum_scatter(m.sum(0), "x", tiled=True)
        s = s.sum()
        return jnp.full_like(m, 0) + lax.all_gather(s, "x").sum()

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% without its own part exercise="5.5" score=0 diagnoses=["against-the-ring", "not-counted-yet", "own-part-missing"] near=["own-part-twice", "last-part-alone"]
def ring_all_gather(x):
    def body(m):
        n = lax.axis_size("x")
        i = lax.axis_index("x")
        ring = [(k, (k + 1) % n) for k in range(n)]
        out = jnp.zeros((n, m.shape[0])) + 0 * m
        for s in range(n):
            out = out.at[(i + s) % n].set(m)
            m = lax.ppermute(m, "x", ring)
        return out.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(m):
        n = lax.axis_size("x")
        i = lax.axis_index("x")
        ring = [(k, (k + 1) % n) for k in range(n)]
        pieces = m.reshape(n, -1)
        acc = pieces[(i - 1) % n]
        for s in range(2, n):
            acc = lax.ppermute(acc, "x", ring) + pieces[(i - s) % n]
        return lax.ppermute(acc, "x", ring)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% its own block in every place exercise="5.8" score=0 diagnoses=["order-of-arrival", "not-counted-yet"] near=["shape"]
def everywhere(x):
    def body(m):
        return lax.pmean(jnp.tile(m, lax.axis_size("x")), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% shifted by whole blocks exercise="5.6" score=0 diagnoses=["whole-blocks", "sends-too-much"] near=["two-devices-away"]
def second_difference(x):
    def body(m):
        n = lax.axis_size("x")
        r = [(k, (k + 1) % n) for k in range(n)]
        a = lax.ppermute(m, "x", r)
        b = lax.ppermute(m, "x", [(k, (k - 1) % n) for k in range(n)])
        return a - 2 * m + b

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% blocks divided once more outside exercise="5.1" score=0.5 diagnoses=["other-prediction"]
inside = {"P('x', 'y')": (4, 8), "P('x')": (4, 16), "P(None, ('x', 'y'))": (16, 2), "P()": (16, 16)}
outside = {"P('x', 'y')": (1, 4), "P(('x', 'y'), None)": (1, 8), "P('y', 'x')": (2, 2)}


# %% a maximum from -1000 exercise="5.2" score=0.75 diagnoses=["starts-too-high", "not-counted-yet"] near=["not-finite"]
def total(x):
    return jax.shard_map(lambda b: lax.psum(b.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda b: lax.pmean(b.mean(), "x"), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(
        lambda b: lax.pmax(jnp.max(b, initial=-1000.0), "x"), in_specs=P("x"), out_specs=P()
    )(x)


def softmax(x):
    def body(b):
        e = jnp.exp(b - lax.pmax(b.max(), "x"))
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% a softmax with a maximum from -1000 exercise="5.2" score=0.75 diagnoses=["not-a-number", "not-counted-yet"] near=["starts-too-high"]
def total(x):
    return jax.shard_map(lambda b: lax.psum(b.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda b: lax.pmean(b.mean(), "x"), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(lambda b: lax.pmax(b.max(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    def body(b):
        e = jnp.exp(b - lax.pmax(jnp.max(b, initial=-1000.0), "x"))
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% the largest outside the body exercise="5.2" score=0.8125 diagnoses=["too-seldom"] near=["not-finite"]
def total(x):
    return jax.shard_map(lambda b: lax.psum(b.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda b: lax.pmean(b.mean(), "x"), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    return jax.shard_map(lambda b: lax.pmax(b.max(), "x"), in_specs=P("x"), out_specs=P())(x)


def softmax(x):
    m = x.max()

    def body(b):
        e = jnp.exp(b - m)
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% numbers of 32 bits, added up in 64 exercise="5.3" score=0.6667 diagnoses=["32-bits"] near=["float32"]
def all_gather_ref(blocks, tiled):
    whole = [v for b in blocks for v in b] if tiled else [list(b) for b in blocks]
    return [whole for _ in blocks]


def psum_scatter_ref(blocks):
    return np.array(blocks).astype(np.int32).sum(0).reshape(len(blocks), -1).tolist()


def all_to_all_ref(blocks):
    n = len(blocks)
    k = len(blocks[0]) // n
    return [[v for b in blocks for v in b[i * k : (i + 1) * k]] for i in range(n)]


# %% a sum that begins with zeros exercise="5.5" score=0.5 diagnoses=["first-part-missing", "not-counted-yet"] near=["own-part-missing", "ring_reduce_scatter: one-is-missing", "ring_reduce_scatter: too-seldom"]
def ring_all_gather(x):
    def body(b):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(i, (i + 1) % n) for i in range(n)]
        out = jnp.zeros((n, b.size), b.dtype).at[me].set(b)
        got = b
        for s in range(1, n):
            got = lax.ppermute(got, "x", pairs)
            out = out.at[(me - s) % n].set(got)
        return out.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x", None))(x)


def ring_reduce_scatter(x):
    def body(b):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(i, (i + 1) % n) for i in range(n)]
        pieces = b.reshape(n, -1)
        got = 0 * pieces[(me - 1) % n]
        for s in range(1, n):
            got = lax.ppermute(got, "x", pairs)
            got = got + pieces[(me - 1 - s) % n]
        return got

    return jax.shard_map(body, in_specs=P("x", None), out_specs=P("x"))(x)


# %% zeros sent first, so n steps exercise="5.5" score=0.625 diagnoses=["one-too-many"] near=["first-part-missing", "ring_reduce_scatter: too-often"]
def ring_all_gather(x):
    def body(b):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(i, (i + 1) % n) for i in range(n)]
        out = jnp.zeros((n, b.size), b.dtype).at[me].set(b)
        got = b
        for s in range(1, n):
            got = lax.ppermute(got, "x", pairs)
            out = out.at[(me - s) % n].set(got)
        return out.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x", None))(x)


def ring_reduce_scatter(x):
    def body(b):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        pieces = b.reshape(n, -1)
        acc = jnp.zeros_like(pieces[0])
        for s in range(n):
            acc = lax.ppermute(acc, "x", [(i, (i + 1) % n) for i in range(n)])
            acc = acc + pieces[(me - 1 - s) % n]
        return acc

    return jax.shard_map(body, in_specs=P("x", None), out_specs=P("x"))(x)


# %% a sum that stops a step early exercise="5.5" score=0.5 diagnoses=["one-is-missing", "not-counted-yet", "too-seldom"] near=["first-part-missing", "ring_reduce_scatter: one-too-many"]
def ring_all_gather(x):
    def body(b):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(i, (i + 1) % n) for i in range(n)]
        out = jnp.zeros((n, b.size), b.dtype).at[me].set(b)
        got = b
        for s in range(1, n):
            got = lax.ppermute(got, "x", pairs)
            out = out.at[(me - s) % n].set(got)
        return out.reshape(1, -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x", None))(x)


def ring_reduce_scatter(x):
    def body(b):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        pairs = [(i, (i + 1) % n) for i in range(n)]
        pieces = b.reshape(n, -1)
        got = pieces[(me - 1) % n]
        for s in range(1, n - 1):
            got = lax.ppermute(got, "x", pairs)
            got = got + pieces[(me - 1 - s) % n]
        return got

    return jax.shard_map(body, in_specs=P("x", None), out_specs=P("x"))(x)


# %% a maximum over -100 exercise="5.8" score=0 diagnoses=["largest-for-sum", "not-counted-yet"] near=["smallest-for-sum"]
def everywhere(x):
    def body(b):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        return lax.pmax(jnp.full((n, b.size), -100.0).at[me].set(b).reshape(-1), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)
