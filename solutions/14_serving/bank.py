# %% [markdown]
# Known answers to the exercises of notebook 14.

# %% in other words exercise="14.1" score=1 near=["caches-afterwards", "none-with-caches", "no-twos", "cache-doubled", "not-whole", "one-byte"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    operations, size = 2 * batch * weights, 2 * weights + batch * cache
    return operations / flops if operations / flops > size / memory else size / memory


def compute_bound_from(weights, cache, flops, memory):
    if 2 * weights * memory <= cache * flops:
        return None
    return 2 * weights * flops / (2 * weights * memory - cache * flops)


def most_requests(capacity, weights, cache):
    requests = 0
    while 2 * weights + (requests + 1) * cache <= capacity:
        requests += 1
    return requests


# %% keys alone, both times added, the batch without caches, no space for weights exercise="14.1" score=0 diagnoses=["keys-alone", "added", "without-caches", "weights-forgotten"] near=["four-bytes", "weights-for-each", "never-ignored", "below-zero", "shorter"]
def cache_bytes(layers, kv_heads, head, positions):
    return 2 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return 2 * batch * weights / flops + (2 * weights + batch * cache) / memory


def compute_bound_from(weights, cache, flops, memory):
    return flops / memory


def most_requests(capacity, weights, cache):
    return capacity // cache


# %% float32, weights for each request, a negative batch, and rounded up exercise="14.1" score=0 diagnoses=["four-bytes", "weights-for-each", "before-zero", "rounded-up"] near=["keys-alone", "no-cache", "zero-for-never", "weights-forgotten"]
def cache_bytes(layers, kv_heads, head, positions):
    return 2 * layers * kv_heads * head * positions * 4


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * batch * weights / flops, batch * (2 * weights + cache) / memory)


def compute_bound_from(weights, cache, flops, memory):
    return 2 * weights / memory / (2 * weights / flops - cache / memory)


def most_requests(capacity, weights, cache):
    return max(0, int(np.ceil((capacity - 2 * weights) / cache)))


# %% numbers alone, one cache, and less than none exercise="14.1" score=0 diagnoses=["numbers-alone", "one-cache", "below-zero"] near=["one-layer", "no-cache", "added", "rounded-up"]
def cache_bytes(layers, kv_heads, head, positions):
    return layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * batch * weights / flops, (2 * weights + cache) / memory)


def compute_bound_from(weights, cache, flops, memory):
    return (2 * weights + cache) / memory * flops / (2 * weights)


def most_requests(capacity, weights, cache):
    return (capacity - 2 * weights) // cache


# %% one layer, no caches, the speeds where there is no such batch, and bytes of weights exercise="14.1" score=0 diagnoses=["one-layer", "no-cache", "never-ignored", "one-byte"] near=["one-head", "numbers-alone", "one-cache", "before-zero", "without-caches"]
def cache_bytes(layers, kv_heads, head, positions):
    return 2 * kv_heads * head * positions * 2


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * batch * weights / flops, 2 * weights / memory)


def compute_bound_from(weights, cache, flops, memory):
    batch = 2 * weights / memory / (2 * weights / flops - cache / memory)
    return batch if batch > 0 else flops / memory


def most_requests(capacity, weights, cache):
    return max(0, (capacity - weights) // cache)


# %% one byte, 0 for no batch, and a cache with its weights exercise="14.1" score=0.25 diagnoses=["one-byte", "zero-for-never", "weights-for-each"] near=["one-operation", "infinity-for-never"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * batch * weights / flops, (weights + batch * cache) / memory)


def compute_bound_from(weights, cache, flops, memory):
    gained = 2 * weights / flops - cache / memory
    return 2 * weights / memory / gained if gained > 0 else 0


def most_requests(capacity, weights, cache):
    return capacity // (2 * weights + cache)


# %% one operation, one byte, and parts of requests exercise="14.1" score=0.25 diagnoses=["one-operation", "one-byte", "not-whole"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return max(batch * weights / flops, (2 * weights + batch * cache) / memory)


def compute_bound_from(weights, cache, flops, memory):
    gained = 2 * weights / flops - cache / memory
    return weights / memory / gained if gained > 0 else None


def most_requests(capacity, weights, cache):
    return max(0, (capacity - 2 * weights) / cache)


# %% the shorter of both times exercise="14.1" score=0.25 diagnoses=["shorter", "unanswered"] near=["reading-alone", "computing-alone"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return min(2 * batch * weights / flops, (2 * weights + batch * cache) / memory)


# %% reading alone exercise="14.1" score=0.25 diagnoses=["reading-alone", "unanswered"] near=["shorter"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return (2 * weights + batch * cache) / memory


# %% infinity for no batch exercise="14.1" score=0.25 diagnoses=["unanswered", "infinity-for-never"] near=["zero-for-never"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def compute_bound_from(weights, cache, flops, memory):
    gained = 2 * weights / flops - cache / memory
    return 2 * weights / memory / gained if gained > 0 else np.inf


# %% parallel lines forgotten, and parts of requests cut off exercise="14.1" score=0.5 diagnoses=["raised", "below-zero"] near=["before-zero", "rounded"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * batch * weights / flops, (2 * weights + batch * cache) / memory)


def compute_bound_from(weights, cache, flops, memory):
    slope = 2 * weights / flops - cache / memory
    if slope < 0:
        return None
    return 2 * weights / memory / slope


def most_requests(capacity, weights, cache):
    return int((capacity - 2 * weights) / cache)


# %% a rounded batch exercise="14.1" score=0.25 diagnoses=["unanswered", "rounded"] near=["speeds-swapped", "one-operation"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def compute_bound_from(weights, cache, flops, memory):
    gained = 2 * weights / flops - cache / memory
    return int(np.ceil(2 * weights / memory / gained)) if gained > 0 else None


# %% the two speeds swapped exercise="14.1" score=0.25 diagnoses=["unanswered", "speeds-swapped"] near=["rounded", "zero-for-never"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def compute_bound_from(weights, cache, flops, memory):
    gained = 2 * weights / memory - cache / flops
    return 2 * weights / flops / gained if gained > 0 else None


# %% one operation for the batch exercise="14.1" score=0.25 diagnoses=["unanswered", "one-operation"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def compute_bound_from(weights, cache, flops, memory):
    gained = weights / flops - cache / memory
    return 2 * weights / memory / gained if gained > 0 else None


# %% computing alone exercise="14.1" score=0.25 diagnoses=["computing-alone", "unanswered"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return 2 * batch * weights / flops


# %% full to the last byte, half the answers per request, and caches counted twice exercise="14.1" score=0 diagnoses=["keys-alone", "for-each-request", "cache-doubled", "exact-fit"] near=["rounded-up"]
def cache_bytes(layers, kv_heads, head, positions):
    return 2 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * weights * batch / flops, (2 * weights + batch * cache) / memory) / batch


def compute_bound_from(weights, cache, flops, memory):
    slope = 2 * weights / flops - 2 * cache / memory
    return 2 * weights / memory / slope if slope > 0 else None


def most_requests(capacity, weights, cache):
    return max(0, (capacity - 2 * weights - 1) // cache)


# %% caches counted twice exercise="14.1" score=0.5 diagnoses=["cache-doubled"] near=["exact-fit", "for-each-request"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * weights * batch / flops, 2 * (weights + batch * cache) / memory)


def compute_bound_from(weights, cache, flops, memory):
    slope = 2 * weights / flops - cache / memory
    return 2 * weights / memory / slope if slope > 0 else None


def most_requests(capacity, weights, cache):
    return max(0, (capacity - 2 * weights) // (2 * cache))


# %% bits, and the batch decides exercise="14.1" score=0 diagnoses=["in-bits", "by-the-batch-alone", "without-caches", "rounded-to-nearest"] near=["four-bytes", "reading-alone", "rounded-up"]
def cache_bytes(layers, kv_heads, head, positions):
    return 16 * 2 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    if batch > flops / memory:
        return 2 * weights * batch / flops
    return (2 * weights + cache * batch) / memory


def compute_bound_from(weights, cache, flops, memory):
    return flops / memory


def most_requests(capacity, weights, cache):
    return round((capacity - 2 * weights) / cache)


# %% four bytes, and the longest of a wrong one exercise="14.1" score=0 diagnoses=["four-bytes", "reading-alone", "without-caches", "rounded-up"] near=["in-bits", "by-the-batch-alone", "rounded-to-nearest"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * 2 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return (2 * weights + cache * batch) / memory


def compute_bound_from(weights, cache, flops, memory):
    return flops / memory


def most_requests(capacity, weights, cache):
    return max(0, -(-(capacity - 2 * weights) // cache))


# %% one KV head exercise="14.1" score=0.75 diagnoses=["one-head"] near=["one-layer", "keys-alone"]
def cache_bytes(layers, kv_heads, head, positions):
    return 2 * 2 * layers * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * batch * weights / flops, (2 * weights + batch * cache) / memory)


def compute_bound_from(weights, cache, flops, memory):
    slope = 2 * weights / flops - cache / memory
    return 2 * weights / memory / slope if slope > 0 else None


def most_requests(capacity, weights, cache):
    return max(0, (capacity - 2 * weights) // cache)


# %% pairs, and a head on two devices in the other order exercise="14.2" score=1
grid = make_mesh(r=2, s=4)
many = tuple(place(grid, ("r", "s")) for _ in range(3))
few = tuple(place(grid, "s", None, "r") for _ in range(3))
one = place(grid), place(grid, None, "s", "r"), place(grid, None, "s", "r")

# %% positions everywhere exercise="14.2" score=0.2 diagnoses=["all-reduce over x", "could-move-less"] near=["all-reduce over y", "over-the-cap"]
many = few = one = place(line), place(line, None, "x"), place(line, None, "x")

# %% replicated exercise="14.2" score=0 diagnoses=["over-the-cap"]
many = few = one = 3 * (place(line),)

# %% requests everywhere exercise="14.2" score=0.2 diagnoses=["does-not-fit"] near=["could-move-less"]
many = few = one = 3 * (place(line, "x"),)

# %% KV heads over all devices exercise="14.2" score=0 diagnoses=["does-not-fit"] near=["not-auto", "all-reduce", "all-gather over parts of axes"]
many = few = one = 3 * (place(line, None, None, "x"),)

# %% requests and positions exercise="14.2" score=0.2 diagnoses=["all-reduce over y", "could-move-less"] near=["over-the-cap", "does-not-fit", "all-reduce over x"]
grid = make_mesh(x=4, y=2)
many = few = place(grid, "x"), place(grid, "x", "y"), place(grid, "x", "y")
one = place(line), place(line, None, "x"), place(line, None, "x")

# %% numbers of a head exercise="14.2" score=0.2032 diagnoses=["all-reduce over x", "could-move-less"]
many = 3 * (place(line, "x"),)
few = one = place(line), place(line, None, None, None, "x"), place(line, None, None, None, "x")

# %% requests over four devices only exercise="14.2" score=0.2 diagnoses=["over-the-cap", "could-move-less"]
grid = make_mesh(x=4, y=2)
many = few = 3 * (place(grid, "x"),)
one = place(line), place(line, None, "x"), place(line, None, "x")

# %% only the queries are sharded exercise="14.2" score=0 diagnoses=["over-the-cap"]
many = place(line, "x"), place(line), place(line)
few = place(line, None, None, "x"), place(line), place(line)
one = place(line, None, None, "x"), place(line), place(line)

# %% queries sharded over all devices for one request exercise="14.2" score=0.6828 diagnoses=["queries-apart"]
grid = make_mesh(x=4, y=2)
many = few = 3 * (place(grid, "x", None, "y"),)
one = place(line, None, None, "x"), place(line, None, "x"), place(line, None, "x")

# %% keys first exercise="14.2" score=0.6 diagnoses=["does-not-fit"]
grid = make_mesh(x=4, y=2)
many = few = 3 * (place(grid, "x", None, "y"),)
one = place(grid, None, "x", "y"), place(grid, None, "x", "y"), place(grid, None, None, "y")


# %% query heads apart from their cache exercise="14.2" score=0.4 diagnoses=["all-gather over parts of axes", "could-move-less"] near=["does-not-fit"]
many = 3 * (place(line, "x"),)
few = place(line, None, None, "x"), place(line, None, "x"), place(line, None, "x")
one = place(line), place(line, None, "x"), place(line, None, "x")


# %% positions over the second axis exercise="14.2" score=0.6 diagnoses=["all-reduce over h"] near=["all-gather", "all-to-all"]
mesh = make_mesh(b=4, h=2)
many = 3 * (place(line, "x"),)
few = place(mesh, "b"), place(mesh, "b", "h"), place(mesh, "b", "h")
one = place(mesh, None, None, "h"), place(mesh, None, "b", "h"), place(mesh, None, "b", "h")


# %% on Explicit axes exercise="14.2" score=0 diagnoses=["not-auto"] near=["all-reduce over y"]
pairs = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
many = 3 * (place(pairs, ("x", "y")),)
few = 3 * (place(pairs, "x", None, "y"),)
one = place(pairs, None, None, "y"), place(pairs, None, "x", "y"), place(pairs, None, "x", "y")


# %% each row by itself exercise="14.3" score=1
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def enter(row, entry, position):
        changed = lax.dynamic_update_slice_in_dim(row, entry[None], jnp.maximum(position, 0), 0)
        return jnp.where(position >= 0, changed, row)

    return jax.vmap(enter)(cache, new, positions)


# %% mapped over the devices exercise="14.3" score=1
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def enter(cache, new, positions):
        positions = jnp.where(positions < 0, cache.shape[1], positions)
        return cache.at[jnp.arange(len(cache)), positions].set(new, mode="drop")

    return jax.shard_map(enter, in_specs=P("batch"), out_specs=P("batch"))(cache, new, positions)


# %% an index into all rows exercise="14.3" score=0.25 diagnoses=["all-gather over batch"] near=["all-reduce over batch", "rows-of-others", "wraps-around", "not-donated"] naive=true
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    positions = jnp.where(positions < 0, cache.shape[1], positions)
    return cache.at[jnp.arange(len(cache)), positions].set(new, mode="drop")


# %% negative positions count from the end exercise="14.3" score=0 diagnoses=["wraps-around", "not-counted-yet"] near=["clamped"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    return jax.vmap(lambda row, entry, position: row.at[position].set(entry))(cache, new, positions)


# %% free slots written at 0 exercise="14.3" score=0 diagnoses=["clamped", "not-counted-yet"] near=["wraps-around", "without-sign", "only-minus-one", "zero-is-free"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    return jax.vmap(lambda row, entry, position: row.at[position].set(entry))(
        cache, new, jnp.maximum(positions, 0)
    )


# %% without a sign exercise="14.3" score=0 diagnoses=["without-sign", "not-counted-yet"] near=["one-further", "clamped"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) == jnp.abs(positions)[:, None]
    return jnp.where(is_new[:, :, None, None], new[:, None], cache)


# %% added up exercise="14.3" score=0 diagnoses=["added", "not-counted-yet"] near=["cache-lost"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    hot = jax.nn.one_hot(positions, cache.shape[1])
    return cache + hot[:, :, None, None] * new[:, None]


# %% one further exercise="14.3" score=0 diagnoses=["one-further", "not-counted-yet"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    after = jnp.where(positions < 0, -1, positions + 1)
    is_new = jnp.arange(cache.shape[1]) == after[:, None]
    return jnp.where(is_new[:, :, None, None], new[:, None], cache)


# %% position 0 taken for a free slot exercise="14.3" score=0 diagnoses=["zero-is-free", "not-counted-yet"] near=["free-rows-cleared", "clamped"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    is_new = (jnp.arange(cache.shape[1]) == positions[:, None]) & (positions > 0)[:, None]
    return jnp.where(is_new[:, :, None, None], new[:, None], cache)


# %% only -1 taken for a free slot exercise="14.3" score=0 diagnoses=["only-minus-one", "not-counted-yet"] near=["wraps-around"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def enter(row, entry, position):
        return jnp.where(position == -1, row, row.at[position].set(entry))

    return jax.vmap(enter)(cache, new, positions)


# %% free slots become zeros exercise="14.3" score=0 diagnoses=["free-rows-cleared", "not-counted-yet"] near=["cache-lost"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) == positions[:, None]
    entered = jnp.where(is_new[:, :, None, None], new[:, None], cache)
    return jnp.where((positions >= 0)[:, None, None, None], entered, 0)


# %% the branches of the mask swapped exercise="14.3" score=0 diagnoses=["swapped", "not-counted-yet"] near=["all-up-to", "rows-of-others"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) == positions[:, None]
    return jnp.where(is_new[:, :, None, None], cache, new[:, None])


# %% all positions up to the new one exercise="14.3" score=0 diagnoses=["all-up-to", "not-counted-yet"] near=["swapped", "one-further"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) <= positions[:, None]
    return jnp.where(is_new[:, :, None, None], new[:, None], cache)


# %% the entries alone exercise="14.3" score=0 diagnoses=["cache-lost", "not-counted-yet", "donated-for-nothing"] near=["added", "nothing-entered"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    hot = jax.nn.one_hot(positions, cache.shape[1])
    return hot[:, :, None, None] * new[:, None]


# %% not donated exercise="14.3" score=0.625 diagnoses=["not-donated"] near=["donates-too-much", "all-gather over batch"]
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) == positions[:, None]
    return jnp.where(is_new[:, :, None, None], new[:, None], cache)


# %% all arguments donated exercise="14.3" score=0.625 diagnoses=["donates-too-much"] near=["not-donated"]
@partial(jax.jit, donate_argnums=(0, 1))
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) == positions[:, None]
    return jnp.where(is_new[:, :, None, None], new[:, None], cache)


# %% every position in every row exercise="14.3" score=0 diagnoses=["rows-of-others", "all-gather over batch", "not-counted-yet"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    positions = jnp.where(positions < 0, cache.shape[1], positions)
    return cache.at[:, positions].set(new[:, None], mode="drop")


# %% a result that is thrown away exercise="14.3" score=0 diagnoses=["nothing-entered", "not-counted-yet"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    positions = jnp.where(positions < 0, cache.shape[1], positions)
    cache.at[jnp.arange(len(cache)), positions].set(new, mode="drop")
    return cache


# %% replicated at the end exercise="14.3" score=0.125 diagnoses=["all-gather over batch", "replicated", "not-counted-yet"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) == positions[:, None]
    return lax.with_sharding_constraint(
        jnp.where(is_new[:, :, None, None], new[:, None], cache), P()
    )


# %% rows counted in the whole cache exercise="14.3" score=0 diagnoses=["rows-of-device-0", "not-counted-yet"] near=["first-row-of-block", "nothing-entered"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        rows = lax.axis_index("batch") * len(cache) + jnp.arange(len(cache))
        at = jnp.where(positions < 0, cache.shape[1], positions)
        return cache.at[rows, at].set(new, mode="drop")

    return jax.shard_map(body, in_specs=P("batch"), out_specs=P("batch"))(cache, new, positions)


# %% every entry at its position of every row exercise="14.3" score=0 diagnoses=["entries-of-others", "all-gather over batch", "not-counted-yet"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    return cache.at[:, positions].set(new)


# %% all positions in every row, with a new axis exercise="14.3" score=0 diagnoses=["rows-of-others", "all-gather over batch", "not-counted-yet"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    return cache.at[:, positions].set(new[:, None])


# %% only the first row of each device exercise="14.3" score=0 diagnoses=["first-row-of-block", "not-counted-yet"] near=["rows-of-device-0", "one-position-for-block"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        at = jnp.where(positions[0] < 0, cache.shape[1], positions[0])
        return cache.at[0, at].set(new[0], mode="drop")

    return jax.shard_map(body, in_specs=P("batch"), out_specs=P("batch"))(cache, new, positions)


# %% the first row's position for a whole block exercise="14.3" score=0 diagnoses=["one-position-for-block", "not-counted-yet"] near=["first-row-of-block"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        return lax.dynamic_update_slice(cache, new[:, None], (0, positions[0], 0, 0))

    return jax.shard_map(body, in_specs=P("batch"), out_specs=P("batch"))(cache, new, positions)


# %% the first row's position for a block, and a mask exercise="14.3" score=0 diagnoses=["one-position-for-block", "not-counted-yet"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        made = lax.dynamic_update_slice(cache, new[:, None], (0, positions[0], 0, 0))
        return jnp.where((positions >= 0)[:, None, None, None], made, cache)

    return jax.shard_map(body, in_specs=P("batch"), out_specs=P("batch"))(cache, new, positions)


# %% all rows of a block exercise="14.3" score=0 diagnoses=["entries-of-others", "not-counted-yet"] near=["one-position-for-block"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        return cache.at[:, positions].set(new)

    return jax.shard_map(body, in_specs=P("batch"), out_specs=P("batch"))(cache, new, positions)


# %% a jit inside exercise="14.3" score=0.625 diagnoses=["not-donated"] near=["donates-too-much"]
@partial(jax.jit, donate_argnums=0)
def enter(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) == positions[:, None]
    return jnp.where(is_new[:, :, None, None], new[:, None], cache)


def update(cache, new, positions):
    return enter(cache, new, positions)


# %% a mask as an index exercise="14.3" score=0 diagnoses=["mask-as-index"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    mask = jnp.arange(cache.shape[1]) == positions[:, None]
    return cache.at[mask].set(new)


# %% from its position on exercise="14.3" score=0 diagnoses=["all-after", "not-counted-yet"] near=["mask-as-index", "all-up-to"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) >= positions[:, None]
    return jnp.where(is_new[:, :, None, None], new[:, None], cache)


# %% free slots as well exercise="14.3" score=0 diagnoses=["free-rows-filled", "not-counted-yet"] near=["all-after", "free-rows-cleared"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) == positions[:, None]
    is_new |= positions[:, None] < 0
    return jnp.where(is_new[:, :, None, None], new[:, None], cache)


# %% later positions, but not of free slots exercise="14.3" score=0 diagnoses=["all-after", "not-counted-yet"] near=["free-rows-filled"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) >= positions[:, None]
    is_new &= positions[:, None] >= 0
    return jnp.where(is_new[:, :, None, None], new[:, None], cache)


# %% two mesh axes for decode exercise="14.4" score=1
grid = make_mesh(x=2, y=4)
decode = place(grid, None, "x"), place(grid, "x", "y"), place(grid, "y", "x")
prefill = place(line, "x"), place(line, None, "x"), place(line, "x")

# %% decode's layout for both exercise="14.4" score=0.5 diagnoses=["over-the-cap"] near=["decode: could-move-less", "prefill: could-move-less"]
decode = prefill = place(line), place(line, None, "x"), place(line, "x")

# %% prefill's layout for both exercise="14.4" score=0.5155 diagnoses=["could-move-less"] near=["decode: over-the-cap", "prefill: over-the-cap"]
decode = prefill = place(line, "x"), place(line, "x"), place(line, "x")

# %% rows everywhere exercise="14.4" score=0.25 diagnoses=["could-move-less"] near=["not-auto", "decode: over-the-cap"]
decode = place(line, None, "x"), place(line, "x"), place(line, "x")
prefill = place(line, None, "x"), place(line, "x"), place(line, "x")

# %% columns everywhere exercise="14.4" score=0.3335 diagnoses=["could-move-less"]
decode = place(line), place(line, None, "x"), place(line, None, "x")
prefill = place(line, None, "x"), place(line, None, "x"), place(line, None, "x")

# %% replicated weights exercise="14.4" score=0 diagnoses=["over-the-cap"]
decode = place(line), place(line), place(line)
prefill = place(line, "x"), place(line), place(line)

# %% features of tokens sharded, as the weights of the layer exercise="14.4" score=0.625 diagnoses=["could-move-less"]
decode = place(line), place(line, None, "x"), place(line, "x")
prefill = place(line, None, "x"), place(line, None, "x"), place(line, "x")

# %% the example exercise="14.4" score=0.1665 diagnoses=["could-move-less", "unanswered"]
decode = place(line), place(line, "x"), place(line, "x")


# %% Explicit axes, and weights along both dimensions exercise="14.4" score=0.4 diagnoses=["not-auto", "could-move-less"]
strict = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
decode = place(strict), place(strict, None, "x"), place(strict, "x")
pairs = make_mesh(x=4, y=2)
prefill = place(pairs, ("x", "y")), place(pairs, "x", "y"), place(pairs, "x", "y")


# %% candidates gathered in the body exercise="14.5" score=1 near=["shapes-do-not-fit", "too-many-bytes"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own, noise, temperature):
        values, tokens = lax.top_k(own, k)
        tokens += lax.axis_index("vocab") * own.shape[1]
        values = lax.all_gather(values, "vocab", axis=1, tiled=True)
        tokens = lax.all_gather(tokens, "vocab", axis=1, tiled=True)
        order = jnp.argsort(-values, axis=1)[:, :k]
        scores = jnp.take_along_axis(values, order, axis=1) / temperature + noise
        best = jnp.take_along_axis(order, jnp.argmax(scores, axis=1, keepdims=True), axis=1)
        return jnp.take_along_axis(tokens, best, axis=1)[:, 0]

    in_specs = P(None, "vocab"), P(), P()
    return jax.shard_map(body, in_specs=in_specs, out_specs=P(), check_vma=False)(
        logits, noise, temperature
    )


# %% k times the largest exercise="14.5" score=1 near=["too-many-bytes", "not-divided"]
def sample(logits, noise, temperature):
    scores = []
    tokens = []
    for j in range(noise.shape[1]):
        token = jnp.argmax(logits, axis=1)
        scores.append(jnp.max(logits, axis=1) / temperature + noise[:, j])
        tokens.append(token)
        taken = jnp.arange(logits.shape[1]) == token[:, None]
        logits = jnp.where(taken, -jnp.inf, logits)
    chosen = jnp.argmax(jnp.stack(scores, axis=1), axis=1)
    return jnp.take_along_axis(jnp.stack(tokens, axis=1), chosen[:, None], axis=1)[:, 0]


# %% gathered in the body, for a replicated result, which raises exercise="14.5" score=0 diagnoses=["not-replicated"] near=["other-structure", "too-many-bytes"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own, noise, temperature):
        values, tokens = lax.top_k(own, k)
        tokens += lax.axis_index("vocab") * own.shape[1]
        values = lax.all_gather(values, "vocab", axis=1, tiled=True)
        tokens = lax.all_gather(tokens, "vocab", axis=1, tiled=True)
        values, places = lax.top_k(values, k)
        tokens = jnp.take_along_axis(tokens, places, axis=1)
        chosen = jnp.argmax(values / temperature + noise, axis=1)
        return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]

    in_specs = P(None, "vocab"), P(), P()
    return jax.shard_map(body, in_specs=in_specs, out_specs=P())(logits, noise, temperature)


# %% noise on each device exercise="14.5" score=0 diagnoses=["noise-on-each-device", "not-counted-yet"] near=["first-block", "noise-alone"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own, noise, temperature):
        values, tokens = lax.top_k(own, k)
        tokens += lax.axis_index("vocab") * own.shape[1]
        best = jnp.argmax(values / temperature + noise, axis=1)[:, None]
        score = jnp.take_along_axis(values / temperature + noise, best, axis=1)
        return score, jnp.take_along_axis(tokens, best, axis=1)

    shards = P(None, "vocab")
    scores, tokens = jax.shard_map(body, in_specs=(shards, P(), P()), out_specs=shards)(
        logits, noise, temperature
    )
    return jnp.take_along_axis(tokens, jnp.argmax(scores, axis=1)[:, None], axis=1)[:, 0]


# %% top_k of everything exercise="14.5" score=0.25 diagnoses=["too-many-bytes"] near=["most-likely", "number-in-block"] naive=true
def sample(logits, noise, temperature):
    values, tokens = lax.top_k(logits, noise.shape[1])
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% logits gathered in the body exercise="14.5" score=0.25 diagnoses=["too-many-bytes"] near=["not-replicated"]
def sample(logits, noise, temperature):
    def body(own, noise, temperature):
        logits = lax.all_gather(own, "vocab", axis=1, tiled=True)
        values, tokens = lax.top_k(logits, noise.shape[1])
        chosen = jnp.argmax(values / temperature + noise, axis=1)
        return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]

    in_specs = P(None, "vocab"), P(), P()
    return jax.shard_map(body, in_specs=in_specs, out_specs=P(), check_vma=False)(
        logits, noise, temperature
    )


# %% the most likely token exercise="14.5" score=0 diagnoses=["most-likely", "not-counted-yet"] near=["place-among-best", "noise-alone"]
def sample(logits, noise, temperature):
    return jnp.argmax(logits, axis=1)


# %% tokens counted within a block exercise="14.5" score=0 diagnoses=["number-in-block", "not-counted-yet"] near=["first-block"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% places among all candidates exercise="14.5" score=0 diagnoses=["place-among-candidates", "not-counted-yet"] near=["place-among-best", "number-in-block"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = places
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% the places of the k best skipped exercise="14.5" score=0 diagnoses=["places-skipped", "not-counted-yet"] near=["place-in-all-rows", "too-few-candidates", "first-block", "other-offset"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% blocks that are k tokens apart exercise="14.5" score=0 diagnoses=["other-offset", "not-counted-yet"] near=["number-in-block", "places-skipped"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * k

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% blocks that are as many tokens apart as there are rows exercise="14.5" score=0 diagnoses=["other-offset", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[0]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% a place among the best exercise="14.5" score=0 diagnoses=["place-among-best", "not-counted-yet"] near=["place-among-candidates"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return chosen


# %% the temperature forgotten exercise="14.5" score=0 diagnoses=["not-divided", "not-counted-yet"] near=["multiplied", "most-likely"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% the logits times the temperature exercise="14.5" score=0 diagnoses=["multiplied", "not-counted-yet"] near=["not-divided", "noise-alone"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values * temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% the noise divided, too exercise="14.5" score=0 diagnoses=["not-divided", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax((values + noise) / temperature, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% only the noise divided exercise="14.5" score=0 diagnoses=["multiplied", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values + noise / temperature, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% the noise alone exercise="14.5" score=0 diagnoses=["noise-alone", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% the candidates of the first device exercise="14.5" score=0 diagnoses=["first-block", "not-counted-yet"] near=["noise-on-each-device"]
def sample(logits, noise, temperature):
    def body(own, noise, temperature):
        values, tokens = lax.top_k(own, noise.shape[1])
        chosen = jnp.argmax(values / temperature + noise, axis=1)
        return jnp.take_along_axis(tokens, chosen[:, None], axis=1)

    in_specs = P(None, "vocab"), P(), P()
    chosen = jax.shard_map(body, in_specs=in_specs, out_specs=P(None, "vocab"))
    return chosen(logits, noise, temperature)[:, 0]


# %% candidates in ascending order exercise="14.5" score=0 diagnoses=["order-reversed", "not-counted-yet"] near=["probabilities", "noise-alone"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    places = jnp.argsort(values, axis=1)[:, -k:]
    values = jnp.take_along_axis(values, places, axis=1)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% noise on probabilities exercise="14.5" score=0 diagnoses=["probabilities", "not-counted-yet"] near=["order-reversed", "not-divided"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    _, places = lax.top_k(values, k)
    values = jnp.take_along_axis(values, places, axis=1)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(jax.nn.softmax(values / temperature) + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% k candidates of all devices together exercise="14.5" score=0 diagnoses=["too-few-candidates", "not-counted-yet"] near=["place-in-all-rows", "first-block"]
def sample(logits, noise, temperature):
    k = noise.shape[1]
    n = jax.sharding.get_abstract_mesh().shape["vocab"]

    def body(own):
        values, places = lax.top_k(own, -(-k // n))
        return values, places + lax.axis_index("vocab") * own.shape[1]

    values, tokens = jax.shard_map(body, in_specs=P(None, "vocab"), out_specs=P(None, "vocab"))(
        logits
    )
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% an argmax without an axis exercise="14.5" score=0 diagnoses=["place-in-all-rows", "not-counted-yet"] near=["place-among-best", "too-few-candidates"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    values, tokens = jax.shard_map(body, in_specs=P(None, "vocab"), out_specs=P(None, "vocab"))(
        logits
    )
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise)
    return tokens[:, chosen]


# %% a gather that adds a dimension exercise="14.5" score=0 diagnoses=["shapes-do-not-fit"] near=["not-replicated"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own, noise, temperature):
        values, places = lax.top_k(own, k)
        tokens = places + lax.axis_index("vocab") * own.shape[1]
        values, tokens = (
            lax.all_gather(values, "vocab", axis=1),
            lax.all_gather(tokens, "vocab", axis=1),
        )
        values, places = lax.top_k(values, k)
        tokens = jnp.take_along_axis(tokens, places, axis=-1)
        chosen = jnp.argmax(values / temperature + noise, axis=1)
        return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]

    return jax.shard_map(
        body, in_specs=(P(None, "vocab"), P(), P()), out_specs=P(), check_vma=False
    )(logits, noise, temperature)


# %% one candidate of each device exercise="14.5" score=0 diagnoses=["too-few-candidates", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own, noise, temperature):
        n = lax.axis_size("vocab")
        value, place = own.max(axis=1), own.argmax(axis=1) + lax.axis_index("vocab") * own.shape[1]
        values, tokens = (
            lax.all_gather(value, "vocab", axis=1),
            lax.all_gather(place, "vocab", axis=1),
        )
        values, places = lax.top_k(values, min(k, n))
        tokens = jnp.take_along_axis(tokens, places, axis=1)
        chosen = jnp.argmax(values / temperature + noise[:, :n], axis=1)
        return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0].astype(jnp.int32)

    return jax.shard_map(
        body, in_specs=(P(None, "vocab"), P(), P()), out_specs=P(), check_vma=False
    )(logits, noise, temperature)


# %% half of the candidates exercise="14.5" score=0 diagnoses=["too-few-candidates", "not-counted-yet"] near=["rows-mixed", "masked-with-zeros"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find(block):
        values, places = lax.top_k(block, k // 2)
        return values, places + lax.axis_index("vocab") * block.shape[1]

    columns = P(None, "vocab")
    values, tokens = jax.shard_map(find, in_specs=columns, out_specs=columns)(logits)
    values, places = lax.top_k(values, k)
    chosen = jnp.argmax(values / temperature + noise, axis=1)[:, None]
    return jnp.take_along_axis(jnp.take_along_axis(tokens, places, axis=1), chosen, axis=1)[:, 0]


# %% one candidate less exercise="14.5" score=0 diagnoses=["too-few-candidates", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find(block):
        values, places = lax.top_k(block, k - 1)
        return values, places + lax.axis_index("vocab") * block.shape[1]

    columns = P(None, "vocab")
    values, tokens = jax.shard_map(find, in_specs=columns, out_specs=columns)(logits)
    values, places = lax.top_k(values, k)
    chosen = jnp.argmax(values / temperature + noise, axis=1)[:, None]
    return jnp.take_along_axis(jnp.take_along_axis(tokens, places, axis=1), chosen, axis=1)[:, 0]


# %% zeros for what is chosen already exercise="14.5" score=0 diagnoses=["masked-with-zeros", "not-counted-yet"] near=["too-few-candidates", "clipped"]
def sample(logits, noise, temperature):
    values, tokens = [], []
    for _ in range(noise.shape[1]):
        token = jnp.argmax(logits, axis=1)
        values.append(jnp.max(logits, axis=1))
        tokens.append(token)
        logits = jnp.where(jnp.arange(logits.shape[1]) == token[:, None], 0, logits)
    values, tokens = jnp.stack(values, axis=1), jnp.stack(tokens, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return tokens[jnp.arange(len(tokens)), chosen]


# %% untiled, and reshaped exercise="14.5" score=0 diagnoses=["rows-mixed", "not-counted-yet"] near=["shapes-do-not-fit"]
def sample(logits, noise, temperature):
    rows, k = noise.shape

    def body(block, noise, temperature):
        values, places = lax.top_k(block, k)
        tokens = places + lax.axis_index("vocab") * block.shape[1]
        values = lax.all_gather(values, "vocab").reshape(rows, -1)
        tokens = lax.all_gather(tokens, "vocab").reshape(rows, -1)
        values, places = lax.top_k(values, k)
        tokens = jnp.take_along_axis(tokens, places, axis=1)
        chosen = jnp.argmax(values / temperature + noise, axis=1)
        return tokens[jnp.arange(rows), chosen]

    specs = P(None, "vocab"), P(), P()
    mapped = jax.shard_map(body, in_specs=specs, out_specs=P(), check_vma=False)
    return mapped(logits, noise, temperature)


# %% candidates by argsort exercise="14.5" score=1 near=["too-many-bytes"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find(block):
        values, places = lax.top_k(block, k)
        return values, places + lax.axis_index("vocab") * block.shape[1]

    columns = P(None, "vocab")
    values, tokens = jax.shard_map(find, in_specs=columns, out_specs=columns)(logits)
    order = jnp.argsort(-values, axis=1)[:, :k]
    values = jnp.take_along_axis(values, order, axis=1)
    tokens = jnp.take_along_axis(tokens, order, axis=1)
    return tokens[jnp.arange(len(tokens)), jnp.argmax(values / temperature + noise, axis=1)]


# %% a softmax of all candidates exercise="14.5" score=0 diagnoses=["probabilities", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(jax.nn.softmax(values / temperature), k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% a column of tokens exercise="14.5" score=0 diagnoses=["reshaped", "not-counted-yet"] near=["place-in-all-rows"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)


# %% what lax.top_k returns exercise="14.5" score=0 diagnoses=["other-structure"] near=["not-replicated"]
def sample(logits, noise, temperature):
    shards = P(None, "vocab")
    find = jax.shard_map(
        lambda own: lax.top_k(own, noise.shape[1]), in_specs=shards, out_specs=(shards, shards)
    )
    values, places = find(logits)
    return places[:, 0]


# %% runs of whole rows where possible exercise="14.6" score=1 near=["one-run", "offsets-in-elements"]
def load(read, entry, sharding):
    shape = entry["shape"]
    begin, _ = entry["data_offsets"]
    places = begin + 4 * np.arange(np.prod(shape)).reshape(shape)

    def read_block(index):
        wanted = places[index]
        breaks = np.flatnonzero(np.diff(wanted.ravel()) != 4) + 1
        runs = np.split(wanted.ravel(), breaks)
        data = b"".join(read(int(run[0]), 4 * len(run)) for run in runs)
        return np.frombuffer(data, np.float32).reshape(wanted.shape)

    return jax.make_array_from_callback(tuple(shape), sharding, read_block)


# %% everything in each process exercise="14.6" score=0 diagnoses=["of-another-process"] near=["reads-too-much", "outside-the-array"] naive=true
def load(read, entry, sharding):
    begin, end = entry["data_offsets"]
    array = np.frombuffer(read(begin, end - begin), np.float32).reshape(entry["shape"])
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


# %% everything for each device exercise="14.6" score=0 diagnoses=["reads-too-much"] near=["of-another-process"]
def load(read, entry, sharding):
    begin, end = entry["data_offsets"]

    def read_block(index):
        array = np.frombuffer(read(begin, end - begin), np.float32)
        return array.reshape(entry["shape"])[index]

    return jax.make_array_from_callback(tuple(entry["shape"]), sharding, read_block)


# %% whole rows exercise="14.6" score=0 diagnoses=["reads-too-much"] near=["one-run", "first-row-again"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]
    row = 4 * int(np.prod(shape[1:]))

    def read_block(index):
        start, stop, _ = index[0].indices(shape[0])
        data = read(begin + start * row, (stop - start) * row)
        rows = np.frombuffer(data, np.float32).reshape(stop - start, *shape[1:])
        return rows[(slice(None), *index[1:])]

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% one run for each block exercise="14.6" score=0 diagnoses=["one-run"] near=["run-for-each-first-index", "in-device-order", "first-row-again"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts, stops, _ = zip(*(part.indices(n) for part, n in zip(index, shape)))
        block = [stop - start for start, stop in zip(starts, stops)]
        offset = begin + 4 * np.ravel_multi_index(starts, shape)
        return np.frombuffer(read(offset, 4 * np.prod(block)), np.float32).reshape(block)

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% the beginning of the array forgotten exercise="14.6" score=0 diagnoses=["outside-the-array"] near=["offsets-in-elements", "of-another-process"]
def load(read, entry, sharding):
    shape = tuple(entry["shape"])

    def read_block(index):
        starts, stops, _ = zip(*(part.indices(n) for part, n in zip(index, shape)))
        block = np.empty([stop - start for start, stop in zip(starts, stops)], np.float32)
        for place in np.ndindex(block.shape[:-1]):
            first = [i + start for i, start in zip((*place, 0), starts)]
            offset = 4 * np.ravel_multi_index(first, shape)
            block[place] = np.frombuffer(read(offset, 4 * block.shape[-1]), np.float32)
        return block

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% sizes in elements exercise="14.6" score=0 diagnoses=["offsets-in-elements"] near=["one-run", "raised"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts, stops, _ = zip(*(part.indices(n) for part, n in zip(index, shape)))
        block = np.empty([stop - start for start, stop in zip(starts, stops)], np.float32)
        for place in np.ndindex(block.shape[:-1]):
            first = [i + start for i, start in zip((*place, 0), starts)]
            offset = begin + np.ravel_multi_index(first, shape)
            block[place] = np.frombuffer(read(offset, 4 * block.shape[-1]), np.float32)
        return block

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% slices taken for numbers exercise="14.6" score=0 diagnoses=["raised"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]
    row = 4 * int(np.prod(shape[1:]))

    def read_block(index):
        data = read(begin + index[0].start * row, (index[0].stop - index[0].start) * row)
        return np.frombuffer(data, np.float32).reshape(-1, *shape[1:])

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% the first row of a block for all its rows exercise="14.6" score=0 diagnoses=["first-row-again"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts, stops, _ = zip(*(part.indices(n) for part, n in zip(index, shape)))
        block = np.empty([stop - start for start, stop in zip(starts, stops)], np.float32)
        for place in np.ndindex(block.shape[:-1]):
            offset = begin + 4 * np.ravel_multi_index(starts, shape)
            block[place] = np.frombuffer(read(offset, 4 * block.shape[-1]), np.float32)
        return block

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% an error that is caught exercise="14.6" score=0 diagnoses=["of-another-process"]
def load(read, entry, sharding):
    shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
    try:
        array = np.frombuffer(read(begin, end - begin), np.float32).reshape(shape)
    except ValueError:
        array = np.zeros(shape, np.float32)
    return jax.make_array_from_callback(shape, sharding, lambda index: array[index])


# %% blocks in device order exercise="14.6" score=0 diagnoses=["in-device-order"] near=["one-run"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]
    block = sharding.shard_shape(shape)
    size = 4 * int(np.prod(block))
    arrays = [
        jax.device_put(np.frombuffer(read(begin + d.id * size, size), np.float32).reshape(block), d)
        for d in sharding.addressable_devices
    ]
    return jax.make_array_from_single_device_arrays(shape, sharding, arrays)


# %% one run for each index of the first dimension exercise="14.6" score=0 diagnoses=["run-for-each-first-index"] near=["one-run", "in-device-order"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape, strict=True)]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for i in range(block.shape[0]):
            first = (starts[0] + i, *starts[1:])
            offset = begin + 4 * np.ravel_multi_index(first, shape)
            block[i] = np.frombuffer(read(offset, 4 * block[i].size), np.float32).reshape(
                block[i].shape
            )
        return block

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% from the first column on exercise="14.6" score=0 diagnoses=["columns-from-0"] near=["column-by-column", "first-row-again", "one-run"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.start or 0 for part in index[:-1]]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for place in np.ndindex(block.shape[:-1]):
            row = np.ravel_multi_index(np.add(starts, place), shape[:-1])
            offset = begin + 4 * int(row) * shape[-1]
            block[place] = np.frombuffer(read(offset, 4 * block.shape[-1]), np.float32)
        return block

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% columns first exercise="14.6" score=0 diagnoses=["column-by-column"] near=["offsets-in-elements", "columns-from-0", "in-device-order"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.start or 0 for part in index]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for place in np.ndindex(block.shape[:-1]):
            at = tuple(np.add(starts, (*place, 0)))
            offset = begin + 4 * int(np.ravel_multi_index(at, shape, order="F"))
            block[place] = np.frombuffer(read(offset, 4 * block.shape[-1]), np.float32)
        return block

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% big-endian numbers exercise="14.6" score=0 diagnoses=["big-endian"] near=["offsets-in-elements", "column-by-column", "block-transposed"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape)]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for place in np.ndindex(block.shape[:-1]):
            offset = begin + 4 * np.ravel_multi_index(np.add(starts, (*place, 0)), shape)
            block[place] = np.frombuffer(read(offset, 4 * block.shape[-1]), ">f4")
        return block

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% a block filled column by column exercise="14.6" score=0 diagnoses=["block-transposed"] near=["column-by-column", "one-run", "big-endian"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape)]
        size = sharding.shard_shape(shape)
        data = b""
        for place in np.ndindex(size[:-1]):
            offset = begin + 4 * np.ravel_multi_index(np.add(starts, (*place, 0)), shape)
            data += read(offset, 4 * size[-1])
        return np.frombuffer(data, np.float32).reshape(size, order="F")

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% an end in place of a size exercise="14.6" score=0 diagnoses=["raised"] near=["reads-too-much"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape)]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for place in np.ndindex(block.shape[:-1]):
            offset = begin + 4 * np.ravel_multi_index(np.add(starts, (*place, 0)), shape)
            block[place] = np.frombuffer(read(offset, offset + 4 * block.shape[-1]), np.float32)
        return block

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% a refusal that is wiped out exercise="14.6" score=0 diagnoses=["of-another-process"] near=[]
def load(read, entry, sharding):
    begin, end = entry["data_offsets"]
    shape, blocks = tuple(entry["shape"]), {}
    for first in range(begin, end, 4):
        try:
            blocks[first] = read(first, 4)
        except ValueError:
            blocks[first] = bytes(4)
    read.refused = None
    read.__dict__.clear()
    array = np.frombuffer(b"".join(blocks.values()), np.float32).reshape(shape)
    return jax.make_array_from_callback(shape, sharding, lambda index: array[index])


# %% everything donated, and a layout for the result exercise="14.3" score=0.625 diagnoses=["donates-too-much"] near=["not-donated"]
@partial(jax.jit, donate_argnums=(0, 1, 2), out_shardings=P("batch"))
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) == positions[:, None]
    return jnp.where(is_new[:, :, None, None], new[:, None], cache)


# %% weights in eight bits on the way exercise="14.6" score=0 diagnoses=["integers"] near=["coarser-type"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape)]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for place in np.ndindex(block.shape[:-1]):
            offset = begin + 4 * np.ravel_multi_index(np.add(starts, (*place, 0)), shape)
            numbers = np.frombuffer(read(offset, 4 * block.shape[-1]), np.float32)
            block[place] = numbers.astype(np.int8)
        return block

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% half precision on the way exercise="14.6" score=0 diagnoses=["coarser-type"] near=["integers"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape)]
        block = np.empty(sharding.shard_shape(shape), np.float16)
        for place in np.ndindex(block.shape[:-1]):
            offset = begin + 4 * np.ravel_multi_index(np.add(starts, (*place, 0)), shape)
            block[place] = np.frombuffer(read(offset, 4 * block.shape[-1]), np.float32)
        return block.astype(np.float32)

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% weights of four bytes, a reciprocal, and requests minus bytes exercise="14.1" score=0.25 diagnoses=["weights-of-four-bytes", "upside-down", "bytes-from-requests"] near=["operations-by-bandwidth", "cache-added", "below-zero"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * weights * batch / flops, (4 * weights + batch * cache) / memory)


def compute_bound_from(weights, cache, flops, memory):
    each = 2 * weights / flops - cache / memory
    return each / (2 * weights / memory) if each > 0 else None


def most_requests(capacity, weights, cache):
    return max(0, capacity // cache - 2 * weights)


# %% operations over the bandwidth, a cache that helps, and four bytes exercise="14.1" score=0.25 diagnoses=["operations-by-bandwidth", "cache-added", "weights-of-four-bytes"] near=["upside-down", "read-at-once", "bytes-from-requests"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return max((2 * weights + batch * cache) / memory, 2 * weights * batch / memory)


def compute_bound_from(weights, cache, flops, memory):
    each = 2 * weights / flops - cache / memory
    return 2 * weights / memory / (2 * weights / flops + cache / memory)


def most_requests(capacity, weights, cache):
    return (capacity - 4 * weights) // cache


# %% a maximum of three times exercise="14.1" score=0.75 diagnoses=["read-at-once"] near=["operations-of-bytes"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * weights * batch / flops, 2 * weights / memory, batch * cache / memory)


def compute_bound_from(weights, cache, flops, memory):
    each = 2 * weights / flops - cache / memory
    return 2 * weights / memory / each if each > 0 else None


def most_requests(capacity, weights, cache):
    return max(0, (capacity - 2 * weights) // cache)


# %% operations with the bytes of caches exercise="14.1" score=0.75 diagnoses=["operations-of-bytes"] near=["read-at-once", "weights-of-four-bytes"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    return max(batch * (2 * weights + cache) / flops, (2 * weights + batch * cache) / memory)


def compute_bound_from(weights, cache, flops, memory):
    each = 2 * weights / flops - cache / memory
    return 2 * weights / memory / each if each > 0 else None


def most_requests(capacity, weights, cache):
    return max(0, (capacity - 2 * weights) // cache)


# %% divided by the temperature twice exercise="14.5" score=0 diagnoses=["divided-twice", "not-counted-yet"] near=["multiplied", "not-divided", "subtracted"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    return jnp.take_along_axis(
        tokens, jnp.argmax(values / temperature / temperature + noise, axis=1)[:, None], axis=1
    )[:, 0]


# %% minus the noise exercise="14.5" score=0 diagnoses=["subtracted", "not-counted-yet"] near=["divided-twice", "order-reversed", "smallest", "zeros-win"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    return jnp.take_along_axis(
        tokens, jnp.argmax(values / temperature - noise, axis=1)[:, None], axis=1
    )[:, 0]


# %% sorted by token exercise="14.5" score=0 diagnoses=["ordered-by-token", "not-counted-yet"] near=["order-reversed", "in-first-columns"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    order = jnp.argsort(tokens, axis=1)
    values, tokens = (jnp.take_along_axis(a, order, axis=1) for a in (values, tokens))
    return jnp.take_along_axis(
        tokens, jnp.argmax(values / temperature + noise, axis=1)[:, None], axis=1
    )[:, 0]


# %% columns of all rows exercise="14.5" score=0 diagnoses=["columns-of-all-rows", "not-counted-yet"] near=["place-in-all-rows", "beyond-the-vocabulary"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    return tokens[:, jnp.argmax(values / temperature + noise, axis=1)]


# %% the width of all logits exercise="14.5" score=0 diagnoses=["beyond-the-vocabulary", "not-counted-yet"] near=["other-offset", "columns-of-all-rows"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * logits.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    return jnp.take_along_axis(
        tokens, jnp.argmax(values / temperature + noise, axis=1)[:, None], axis=1
    )[:, 0]


# %% noise for the first tokens exercise="14.5" score=0 diagnoses=["in-first-columns", "too-many-bytes"] near=["noise-alone", "most-likely", "ordered-by-token"]
def sample(logits, noise, temperature):
    sums = (logits / temperature).at[:, : noise.shape[1]].add(noise)
    return jnp.argmax(sums, axis=1)


# %% the smallest logits exercise="14.5" score=0 diagnoses=["smallest", "not-counted-yet"] near=["order-reversed", "subtracted"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(-own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(-values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% all candidates, never reduced to k exercise="14.5" score=0 diagnoses=["shapes-do-not-fit"] near=["only-the-first"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% one candidate of each device exercise="14.5" score=0 diagnoses=["only-the-first"] near=["shapes-do-not-fit", "too-few-candidates"]
def sample(logits, noise, temperature):
    def find_candidates(own):
        values, places = lax.top_k(own, 1)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, noise.shape[1])
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% the entry of row 0 for all rows exercise="14.3" score=0 diagnoses=["entry-of-first-row", "all-reduce over batch", "not-counted-yet"] near=["entry-of-first-head", "first-row-of-block", "rows-of-others", "shifted"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) == positions[:, None]
    return jnp.where(is_new[:, :, None, None], new[:1, None], cache)


# %% moved by one position exercise="14.3" score=0 diagnoses=["shifted", "not-counted-yet"] near=["one-further", "entry-of-first-row"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    return jax.vmap(lambda c, n: jnp.roll(c, -1, axis=0).at[-1].set(n))(cache, new)


# %% columns in elements exercise="14.6" score=0 diagnoses=["columns-in-elements"] near=["offsets-in-elements", "columns-from-0"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape)]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for place in np.ndindex(block.shape[:-1]):
            row = np.ravel_multi_index((*np.add(starts[:-1], place), 0), shape)
            data = read(begin + 4 * row + starts[-1], 4 * block.shape[-1])
            block[place] = np.frombuffer(data, np.float32)
        return block

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% rows as wide as a block exercise="14.6" score=0 diagnoses=["one-run"] near=["columns-in-elements"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape)]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for place in np.ndindex(block.shape[:-1]):
            row = int(np.ravel_multi_index(np.add(starts[:-1], place), shape[:-1]))
            data = read(begin + 4 * (row * block.shape[-1] + starts[-1]), 4 * block.shape[-1])
            block[place] = np.frombuffer(data, np.float32)
        return block

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% values in another layout than keys exercise="14.2" score=0.6008 diagnoses=["cache-in-two-layouts"] near=["queries-apart"]
many = 3 * (place(line, "x"),)
pairs = make_mesh(x=4, y=2)
few = 3 * (place(pairs, "x", None, "y"),)
one = place(pairs, None, None, "y"), place(pairs, None, ("x", "y")), place(pairs, None, "x", "y")

# %% each query head on a device of its own exercise="14.2" score=0.768 diagnoses=["queries-apart"] near=["cache-in-two-layouts", "could-move-less"]
many = 3 * (place(line, "x"),)
pairs = make_mesh(x=4, y=2)
few = 3 * (place(pairs, "x", None, "y"),)
one = place(pairs, None, None, ("y", "x")), *2 * (place(pairs, None, "x", "y"),)


# %% categorical of the candidates exercise="14.5" score=0 diagnoses=["own-noise", "not-counted-yet"] near=["another-candidate", "noise-alone", "most-likely"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jax.random.categorical(jax.random.key(0), values / temperature)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% categorical with a key of its own, and the noise as well exercise="14.5" score=0 diagnoses=["another-candidate", "not-counted-yet"] near=["own-noise", "noise-alone"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jax.random.categorical(jax.random.key(2024), values / temperature + noise)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% the largest sum as an integer exercise="14.5" score=0 diagnoses=["sum-for-token", "not-counted-yet"] near=["dtype", "largest-number"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    return (values / temperature + noise).max(axis=1).astype(jnp.int32)


# %% the largest sum exercise="14.5" score=0 diagnoses=["dtype", "not-counted-yet"] near=["sum-for-token"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    return (values / temperature + noise).max(axis=1)


# %% a maximum of the devices' tokens exercise="14.5" score=0 diagnoses=["largest-number", "not-counted-yet"] near=["noise-on-each-device", "sum-for-token", "another-candidate"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own, noise, temperature):
        values, places = lax.top_k(own, k)
        tokens = places + lax.axis_index("vocab") * own.shape[1]
        chosen = jnp.argmax(values / temperature + noise, axis=1)
        token = jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]
        return lax.pmax(token, "vocab")

    return jax.shard_map(body, in_specs=(P(None, "vocab"), P(), P()), out_specs=P())(
        logits, noise, temperature
    )


# %% logits gathered along the last dimension, and tokens along the first exercise="14.5" score=0 diagnoses=["gathered-otherwise", "not-counted-yet"] near=["rows-mixed", "places-skipped"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own, noise, temperature):
        values, places = lax.top_k(own, k)
        tokens = places + lax.axis_index("vocab") * own.shape[1]
        values = lax.all_gather(values, "vocab", axis=1, tiled=True)
        tokens = lax.all_gather(tokens, "vocab").reshape(values.shape)
        best, places = lax.top_k(values, k)
        tokens = jnp.take_along_axis(tokens, places, axis=1)
        chosen = jnp.argmax(best / temperature + noise, axis=1)
        return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0][None]

    out = jax.shard_map(body, in_specs=(P(None, "vocab"), P(), P()), out_specs=P("vocab"))(
        logits, noise, temperature
    )
    return out[0]


# %% rows in in_specs, with an offset exercise="14.5" score=0 diagnoses=["offset-by-rows", "too-many-bytes"] near=["beyond-the-vocabulary", "gathered-otherwise"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    rows = P("vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=rows, out_specs=rows)(logits)
    values, places = lax.top_k(values, k)  # of the candidates of all devices
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% rows in in_specs exercise="14.5" score=0.25 diagnoses=["too-many-bytes"] near=["offset-by-rows"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def find_candidates(own):
        return lax.top_k(own, k)

    rows = P("vocab")
    values, tokens = jax.shard_map(find_candidates, in_specs=rows, out_specs=[rows, rows])(logits)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% a callback without a return exercise="14.6" score=0 diagnoses=["callback-returns-none"] near=["none", "raised", "callback-returns-no-array"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape, strict=True)]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for place in np.ndindex(block.shape[:-1]):  # one run of bytes for each
            first = np.add(starts, (*place, 0))
            offset = begin + 4 * np.ravel_multi_index(first, shape)
            block[place] = np.frombuffer(read(offset, 4 * block.shape[-1]), np.float32)

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% no return exercise="14.6" score=0 diagnoses=["none"] near=["callback-returns-none", "own-array"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape, strict=True)]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for place in np.ndindex(block.shape[:-1]):  # one run of bytes for each
            first = np.add(starts, (*place, 0))
            offset = begin + 4 * np.ravel_multi_index(first, shape)
            block[place] = np.frombuffer(read(offset, 4 * block.shape[-1]), np.float32)
        return block

    jax.make_array_from_callback(shape, sharding, read_block)


# %% the shape of another entry exercise="14.6" score=0 diagnoses=["does-not-divide"] near=["block-shape"]
def load(read, entry, sharding):
    shape, begin = tuple(header["up"]["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape, strict=True)]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for place in np.ndindex(block.shape[:-1]):  # one run of bytes for each
            first = np.add(starts, (*place, 0))
            offset = begin + 4 * np.ravel_multi_index(first, shape)
            block[place] = np.frombuffer(read(offset, 4 * block.shape[-1]), np.float32)
        return block

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% a NumPy array of the process's blocks exercise="14.6" score=0 diagnoses=["own-array"] near=["none"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]
    whole = np.zeros(shape, np.float32)
    seen = set()
    for index in sharding.addressable_devices_indices_map(shape).values():
        if str(index) in seen:
            continue
        seen.add(str(index))
        starts = [part.indices(n)[0] for part, n in zip(index, shape, strict=True)]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for place in np.ndindex(block.shape[:-1]):  # one run of bytes for each
            first = np.add(starts, (*place, 0))
            offset = begin + 4 * np.ravel_multi_index(first, shape)
            block[place] = np.frombuffer(read(offset, 4 * block.shape[-1]), np.float32)
        whole[index] = block
    return whole


# %% bytes from the callback exercise="14.6" score=0 diagnoses=["callback-returns-no-array"] near=["callback-returns-none"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape, strict=True)]
        block_shape = sharding.shard_shape(shape)
        data = b""
        for place in np.ndindex(block_shape[:-1]):  # one run of bytes for each
            first = np.add(starts, (*place, 0))
            offset = begin + 4 * np.ravel_multi_index(first, shape)
            data += read(offset, 4 * block_shape[-1])
        return data

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% a block in one row exercise="14.6" score=0 diagnoses=["block-shape"] near=["does-not-divide", "one-run"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def read_block(index):
        starts = [part.indices(n)[0] for part, n in zip(index, shape, strict=True)]
        block = np.empty(sharding.shard_shape(shape), np.float32)
        for place in np.ndindex(block.shape[:-1]):  # one run of bytes for each
            first = np.add(starts, (*place, 0))
            offset = begin + 4 * np.ravel_multi_index(first, shape)
            block[place] = np.frombuffer(read(offset, 4 * block.shape[-1]), np.float32)
        return block.ravel()

    return jax.make_array_from_callback(shape, sharding, read_block)


# %% all but the last position exercise="14.3" score=0 diagnoses=["last-position", "not-counted-yet"] near=["one-further", "only-minus-one", "entry-of-blocks-first-row"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    there = jnp.where(positions < cache.shape[1] - 1, positions, -1)
    here = jnp.arange(cache.shape[1]) == there[:, None]
    return jnp.where(here[:, :, None, None], new[:, None], cache)


# %% positions up to the last but one exercise="14.3" score=0 diagnoses=["last-position", "not-counted-yet"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    positions = jnp.minimum(positions, cache.shape[1] - 2)
    here = jnp.arange(cache.shape[1]) == positions[:, None]
    return jnp.where(here[:, :, None, None], new[:, None], cache)


# %% four candidates, as in 13.8 exercise="14.5" score=0 diagnoses=["too-few-candidates", "not-counted-yet"] near=["last-never-chosen", "masked-by-a-number"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, 4)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% five candidates exercise="14.5" score=0 diagnoses=["too-few-candidates", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, 5)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% more than half of the candidates exercise="14.5" score=0 diagnoses=["too-few-candidates", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k // 2 + 1)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% a mask of -10 exercise="14.5" score=0 diagnoses=["masked-by-a-number", "not-counted-yet"] near=["masked-with-zeros"]
def sample(logits, noise, temperature):
    columns = jnp.arange(logits.shape[1], dtype=jnp.int32)
    values, tokens = [], []
    for _ in range(noise.shape[1]):
        tokens.append(jnp.argmax(logits, axis=1).astype(jnp.int32))
        values.append(logits.max(axis=1))
        logits = jnp.where(columns == tokens[-1][:, None], -10, logits)
    best = jnp.argmax(jnp.stack(values, 1) / temperature + noise, axis=1)
    return jnp.take_along_axis(jnp.stack(tokens, 1), best[:, None], axis=1)[:, 0]


# %% a temperature of at most 1 exercise="14.5" score=0 diagnoses=["temperature-at-most-1", "not-counted-yet"] near=["temperature-at-least-1", "not-divided"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(values / jnp.minimum(temperature, 1.0) + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% a temperature of at least 1 exercise="14.5" score=0 diagnoses=["temperature-at-least-1", "not-counted-yet"] near=["temperature-at-most-1", "not-divided"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(values / jnp.maximum(temperature, 1.0) + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% the last candidate left out exercise="14.5" score=0 diagnoses=["last-never-chosen", "not-counted-yet"] near=["too-few-candidates", "another-candidate"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax((values / temperature + noise)[:, :-1], axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% the noise of the first candidate for all exercise="14.5" score=0 diagnoses=["most-likely", "not-counted-yet"] near=["noise-alone", "another-candidate"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(values / temperature + noise[:, :1], axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% the first entry of each device for all of its rows exercise="14.3" score=0 diagnoses=["entry-of-blocks-first-row", "not-counted-yet"] near=["entry-of-first-row", "first-row-of-block", "last-position"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        here = jnp.arange(cache.shape[1]) == positions[:, None]
        return jnp.where(here[:, :, None, None], new[0], cache)

    specs = P("batch")
    return jax.shard_map(body, in_specs=(specs, specs, specs), out_specs=specs)(
        cache, new, positions
    )


# %% a cache that is donated and not used exercise="14.3" score=0 diagnoses=["cache-lost", "not-counted-yet", "donated-for-nothing"] near=["not-donated"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    here = jnp.arange(cache.shape[1]) == positions[:, None]
    return jnp.where(here[:, :, None, None], new[:, None], 0)


# %% runs reshaped by columns exercise="14.6" score=0 diagnoses=["block-transposed"] near=["steps-of-a-matrix", "does-not-reshape"]
def load(read, entry, sharding):
    shape, (begin, _) = tuple(entry["shape"]), entry["data_offsets"]

    def block(index):
        ranges = [range(*i.indices(n)) for i, n in zip(index, shape)]
        lengths, runs = [len(r) for r in ranges], []
        for where in np.ndindex(*lengths[:-1]):
            at = [r[i] for r, i in zip(ranges, (*where, 0))]
            first = begin + 4 * int(np.ravel_multi_index(at, shape))
            runs.append(np.frombuffer(read(first, 4 * lengths[-1]), np.float32))
        return np.stack(runs).reshape(lengths, order="F")

    return jax.make_array_from_callback(shape, sharding, block)


# %% the rows of the first dimension exercise="14.6" score=0 diagnoses=["steps-of-a-matrix"] near=["run-for-each-first-index", "block-transposed"]
def load(read, entry, sharding):
    shape, (begin, _) = tuple(entry["shape"]), entry["data_offsets"]

    def block(index):
        ranges = [range(*i.indices(n)) for i, n in zip(index, shape)]
        lengths, runs = [len(r) for r in ranges], []
        for where in np.ndindex(*lengths[:-1]):
            row = 0
            for r, i in zip(ranges, where):
                row = row * shape[0] + r[i]
            first = begin + 4 * (row * shape[-1] + ranges[-1].start)
            runs.append(np.frombuffer(read(first, 4 * lengths[-1]), np.float32))
        return np.stack(runs).reshape(lengths)

    return jax.make_array_from_callback(shape, sharding, block)


# %% the first and the last index of three exercise="14.6" score=0 diagnoses=["steps-of-a-matrix"]
def load(read, entry, sharding):
    shape, (begin, _) = tuple(entry["shape"]), entry["data_offsets"]

    def block(index):
        ranges = [range(*i.indices(n)) for i, n in zip(index, shape)]
        lengths, runs = [len(r) for r in ranges], []
        for where in np.ndindex(*lengths[:-1]):
            first = begin + 4 * (ranges[0][where[0]] * shape[-1] + ranges[-1].start)
            runs.append(np.frombuffer(read(first, 4 * lengths[-1]), np.float32))
        return np.stack(runs).reshape(lengths)

    return jax.make_array_from_callback(shape, sharding, block)


# %% numbers of eight bytes exercise="14.6" score=0 diagnoses=["does-not-reshape"] near=["block-shape"]
def load(read, entry, sharding):
    shape, (begin, _) = tuple(entry["shape"]), entry["data_offsets"]

    def block(index):
        ranges = [range(*i.indices(n)) for i, n in zip(index, shape)]
        lengths, runs = [len(r) for r in ranges], []
        for where in np.ndindex(*lengths[:-1]):
            at = [r[i] for r, i in zip(ranges, (*where, 0))]
            first = begin + 4 * int(np.ravel_multi_index(at, shape))
            runs.append(np.frombuffer(read(first, 4 * lengths[-1])))
        return np.stack(runs).reshape(lengths)

    return jax.make_array_from_callback(shape, sharding, block)


# %% a row too few exercise="14.6" score=0 diagnoses=["does-not-reshape"]
def load(read, entry, sharding):
    shape, (begin, _) = tuple(entry["shape"]), entry["data_offsets"]

    def block(index):
        ranges = [range(*i.indices(n)) for i, n in zip(index, shape)]
        lengths, runs = [len(r) for r in ranges], []
        for where in list(np.ndindex(*lengths[:-1]))[:-1]:
            at = [r[i] for r, i in zip(ranges, (*where, 0))]
            first = begin + 4 * int(np.ravel_multi_index(at, shape))
            runs.append(np.frombuffer(read(first, 4 * lengths[-1]), np.float32))
        return np.stack(runs).reshape(lengths)

    return jax.make_array_from_callback(shape, sharding, block)


# %% Explicit axes where nothing is added up exercise="14.2" score=0.6 diagnoses=["not-auto"]
many = 3 * (place(line, "x"),)
grid = jax.make_mesh((4, 2), ("b", "h"), axis_types=(AxisType.Explicit,) * 2)
few = 3 * (place(grid, "b", None, "h"),)
pairs = make_mesh(x=4, y=2)
one = place(pairs, None, None, "y"), place(pairs, None, "x", "y"), place(pairs, None, "x", "y")


# %% positions of every row of a block exercise="14.3" score=0 diagnoses=["entries-of-others", "not-counted-yet"] near=["rows-of-others", "one-row-for-all"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        rows = jnp.arange(len(positions))
        index = jnp.where(positions < 0, cache.shape[1], positions)
        return cache.at[:, index].set(new, mode="drop")

    return jax.shard_map(body, in_specs=P("batch"), out_specs=P("batch"))(cache, new, positions)


# %% positions of every row of the cache exercise="14.3" score=0 diagnoses=["entries-of-others", "all-gather over batch", "not-counted-yet"] near=["rows-of-others"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    index = jnp.where(positions < 0, cache.shape[1], positions)
    return cache.at[:, index].set(new, mode="drop")


# %% the two indices exchanged exercise="14.3" score=0 diagnoses=["indices-exchanged", "not-counted-yet"] near=["entries-of-others"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        rows = jnp.arange(len(positions))
        index = jnp.where(positions < 0, cache.shape[1], positions)
        return cache.at[index, rows].set(new, mode="drop")

    return jax.shard_map(body, in_specs=P("batch"), out_specs=P("batch"))(cache, new, positions)


# %% free slots clipped to the last position exercise="14.3" score=0 diagnoses=["free-rows-at-the-end", "not-counted-yet"] near=["clamped", "wraps-around", "indices-exchanged"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        rows = jnp.arange(len(positions))
        index = jnp.where(positions < 0, cache.shape[1], positions)
        return cache.at[rows, index].set(new, mode="clip")

    return jax.shard_map(body, in_specs=P("batch"), out_specs=P("batch"))(cache, new, positions)


# %% all entries in one row of a block exercise="14.3" score=0 diagnoses=["one-row-for-all", "not-counted-yet"] near=["first-row-of-block", "free-rows-at-the-end"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        rows = 0
        index = jnp.where(positions < 0, cache.shape[1], positions)
        return cache.at[rows, index].set(new, mode="drop")

    return jax.shard_map(body, in_specs=P("batch"), out_specs=P("batch"))(cache, new, positions)


# %% the noise of row 0 exercise="14.5" score=0 diagnoses=["noise-of-row-0", "not-counted-yet"] near=["place-in-all-rows"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise[0], axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% an argmax over the rows exercise="14.5" score=0 diagnoses=["shapes-do-not-fit"] near=["place-in-all-rows", "noise-of-row-0"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=0)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% as many candidates as rows exercise="14.5" score=0 diagnoses=["shapes-do-not-fit"]
def sample(logits, noise, temperature):
    k = noise.shape[0]

    def body(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% noise for all candidates, and once more exercise="14.5" score=0 diagnoses=["noise-on-each-device", "not-counted-yet"] near=["exponentials"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values / temperature + jnp.tile(noise, (1, values.shape[1] // k)), k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% exponentials of the logits exercise="14.5" score=0 diagnoses=["exponentials", "not-counted-yet"] near=["probabilities", "another-candidate"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(jnp.exp(values / temperature) + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% small logits replaced by zeros exercise="14.5" score=0 diagnoses=["another-candidate", "not-counted-yet"] near=["exponentials"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own):
        values, places = lax.top_k(own, k)
        return values, places + lax.axis_index("vocab") * own.shape[1]

    shards = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=shards, out_specs=shards)(logits)
    values, places = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, places, axis=1)
    chosen = jnp.argmax(jnp.where(values > -40, values, 0) / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, chosen[:, None], axis=1)[:, 0]


# %% two quotients rounded apart exercise="14.1" score=0.75 diagnoses=["rounded-apart"] near=["rounded-to-nearest", "rounded-up"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    operations, size = 2 * batch * weights, 2 * weights + batch * cache
    return operations / flops if operations / flops > size / memory else size / memory


def compute_bound_from(weights, cache, flops, memory):
    if 2 * weights * memory <= cache * flops:
        return None
    return 2 * weights * flops / (2 * weights * memory - cache * flops)


def most_requests(capacity, weights, cache):
    return max(0, capacity // cache - 2 * weights // cache)


# %% rounded to the nearest whole request exercise="14.1" score=0.75 diagnoses=["rounded-to-nearest"] near=["rounded-apart"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    operations, size = 2 * batch * weights, 2 * weights + batch * cache
    return operations / flops if operations / flops > size / memory else size / memory


def compute_bound_from(weights, cache, flops, memory):
    if 2 * weights * memory <= cache * flops:
        return None
    return 2 * weights * flops / (2 * weights * memory - cache * flops)


def most_requests(capacity, weights, cache):
    return max(0, round((capacity - 2 * weights) / cache))


# %% a run of one number too many exercise="14.6" score=0 diagnoses=["does-not-reshape"] near=["bytes-left-over"]
def load(read, entry, sharding):
    shape, (begin, _) = tuple(entry["shape"]), entry["data_offsets"]

    def block(index):
        ranges = [range(*i.indices(n)) for i, n in zip(index, shape)]
        lengths, runs = [len(r) for r in ranges], []
        for where in np.ndindex(*lengths[:-1]):
            at = [r[i] for r, i in zip(ranges, (*where, 0))]
            first = begin + 4 * int(np.ravel_multi_index(at, shape))
            runs.append(np.frombuffer(read(first, 4 * lengths[-1] + 4), np.float32))
        return np.stack(runs).reshape(lengths)

    return jax.make_array_from_callback(shape, sharding, block)


# %% a size in elements exercise="14.6" score=0 diagnoses=["bytes-left-over"] near=["does-not-reshape", "raised"]
def load(read, entry, sharding):
    shape, (begin, _) = tuple(entry["shape"]), entry["data_offsets"]

    def block(index):
        ranges = [range(*i.indices(n)) for i, n in zip(index, shape)]
        lengths, runs = [len(r) for r in ranges], []
        for where in np.ndindex(*lengths[:-1]):
            at = [r[i] for r, i in zip(ranges, (*where, 0))]
            first = begin + 4 * int(np.ravel_multi_index(at, shape))
            runs.append(np.frombuffer(read(first, lengths[-1]), np.float32))
        return np.stack(runs).reshape(lengths)

    return jax.make_array_from_callback(shape, sharding, block)


# %% zeros for the tokens that are no candidates exercise="14.5" score=0 diagnoses=["zeros-win", "not-counted-yet"] near=["subtracted"]
def sample(logits, noise, temperature):
    k = noise.shape[1]
    v = jax.shard_map(
        lambda b: lax.top_k(b, k)[0], in_specs=P(None, "vocab"), out_specs=P(None, "vocab")
    )(logits)
    best = lax.top_k(v, k)[0]
    rank = (logits[:, :, None] < best[:, None, :]).sum(-1)
    own = jnp.take_along_axis(noise, jnp.minimum(rank, k - 1), axis=1)
    sums = jnp.where(rank < k, logits / temperature + own, 0)
    return jnp.argmax(sums, axis=1).astype(jnp.int32)


# %% one further, except in free slots exercise="14.3" score=0 diagnoses=["one-further", "not-counted-yet"] near=["values"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    positions = jnp.where(positions < 0, positions, positions + 1)
    here = jnp.arange(cache.shape[1])[None, :] == positions[:, None]
    return jnp.where(here[:, :, None, None], new[:, None], cache)


# %% one further, in free slots too exercise="14.3" score=0 diagnoses=["one-further", "not-counted-yet"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    positions = positions + 1
    here = jnp.arange(cache.shape[1])[None, :] == positions[:, None]
    return jnp.where(here[:, :, None, None], new[:, None], cache)


# %% zeros for the other candidates exercise="14.5" score=0 diagnoses=["zeros-win", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(block):
        v, i = lax.top_k(block, k)
        return v, i + lax.axis_index("vocab") * block.shape[1]

    v, i = jax.shard_map(body, in_specs=P(None, "vocab"), out_specs=P(None, "vocab"))(logits)
    best, which = lax.top_k(v, k)
    padded = (
        jnp.zeros_like(v).at[jnp.arange(len(v))[:, None], which].set(best / temperature + noise)
    )
    return jnp.take_along_axis(i, jnp.argmax(padded, 1)[:, None], 1)[:, 0]


# %% one position for all rows of a device exercise="14.3" score=0 diagnoses=["values", "not-counted-yet"] near=["one-row-for-all", "one-further"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        p = positions[0]
        return cache.at[:, jnp.where(p < 0, cache.shape[1], p)].set(new, mode="drop")

    return jax.shard_map(body, in_specs=P("batch"), out_specs=P("batch"))(cache, new, positions)


# %% keys over heads, and values over positions exercise="14.2" score=0 diagnoses=["all-to-all over h", "unanswered"] near=["all-gather", "over-the-cap", "collective-permute"]
def place(mesh, *spec):
    return NamedSharding(mesh, P(*spec))


four_by_two = jax.make_mesh((4, 2), ("b", "h"), axis_types=(AxisType.Auto,) * 2)
many = (
    place(four_by_two, "b"),
    place(four_by_two, "b", None, "h"),
    place(four_by_two, "b", "h"),
)


# %% queries on devices in another order exercise="14.2" score=0 diagnoses=["collective-permute over b, h", "unanswered"] near=["all-gather"]
eight = jax.make_mesh((4, 2), ("b", "h"), axis_types=(AxisType.Auto,) * 2)
cache = NamedSharding(eight, P(("b", "h")))
many = (NamedSharding(eight, P(("h", "b"))), cache, cache)


# %% a key of one number exercise="14.1" score=0 diagnoses=["one-number", "unanswered"] near=["one-head", "one-position"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * positions


# %% a cache of one position exercise="14.1" score=0 diagnoses=["one-position", "unanswered"] near=["one-number", "one-layer"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head


# %% whole rows, each once exercise="14.6" score=0 diagnoses=["of-another-process"] near=["reads-too-much"]
def load(read, entry, sharding):
    shape, begin, kept = tuple(entry["shape"]), entry["data_offsets"][0], {}

    def row(i):
        if i not in kept:
            size = 4 * shape[-1]
            kept[i] = np.frombuffer(read(begin + int(i) * size, size), np.float32)
        return kept[i]

    def block(index):
        rows = np.arange(int(np.prod(shape[:-1]))).reshape(shape[:-1])[index[:-1]]
        read_rows = np.stack([row(i) for i in rows.ravel()])
        return read_rows.reshape(*rows.shape, -1)[..., index[-1]]

    return jax.make_array_from_callback(shape, sharding, block)


# %% each row by a thread exercise="14.6" score=1
def load(read, entry, sharding):
    from concurrent.futures import ThreadPoolExecutor

    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def block(index):
        ranges = [range(*part.indices(n)) for part, n in zip(index, shape, strict=True)]
        out = np.empty([len(part) for part in ranges], np.float32)

        def fill(at):
            first = [part[i] for part, i in zip(ranges, at, strict=False)] + [ranges[-1][0]]
            start = begin + 4 * int(np.ravel_multi_index(first, shape))
            out[at] = np.frombuffer(read(start, 4 * len(ranges[-1])), np.float32)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(fill, np.ndindex(out.shape[:-1])))
        return out

    return jax.make_array_from_callback(shape, sharding, block)


# %% values on a mesh with exchanged axes exercise="14.2" score=0.6224 diagnoses=["cache-in-two-layouts"]
many = 3 * (place(line, "x"),)
a, g = make_mesh(h=2, p=4), make_mesh(p=4, h=2)
few = 3 * (place(g, "p", None, "h"),)
one = place(g, None, None, "h"), place(g, None, "p", "h"), place(a, None, "p", "h")

# %% the weights of decode on meshes with exchanged axes exercise="14.4" score=0.9 diagnoses=["hidden-features-apart"] near=["decode: could-move-less"]
a, g = make_mesh(h=2, p=4), make_mesh(p=4, h=2)
decode = place(line), place(a, None, ("h", "p")), place(g, ("h", "p"))
prefill = 3 * (place(line, "x"),)

# %% hidden features over the axes in two orders exercise="14.4" score=0.4 diagnoses=["hidden-features-apart", "unanswered"]
g = make_mesh(x=4, y=2)
decode = place(g), place(g, None, ("x", "y")), place(g, ("y", "x"))

# %% prefill on meshes with exchanged axes exercise="14.4" score=0.9 diagnoses=["could-move-less"] near=["hidden-features-apart"]
g, h = make_mesh(x=4, y=2), make_mesh(y=2, x=4)
decode = place(line), place(line, None, "x"), place(line, "x")
prefill = place(line, "x"), place(g, "x", "y"), place(h, "x", "y")


# %% without caches, but None where it is exercise="14.1" score=0 diagnoses=["unanswered", "without-caches"] near=["never-ignored"]
def compute_bound_from(weights, cache, flops, memory):
    return None if cache / memory >= 2 * weights / flops else flops / memory


# %% one cache, and None where it is exercise="14.1" score=0 diagnoses=["unanswered", "one-cache"] near=["without-caches"]
def compute_bound_from(weights, cache, flops, memory):
    if cache / memory >= 2 * weights / flops:
        return None
    return (2 * weights + cache) / memory * flops / (2 * weights)


# %% the entry of head 0 for all heads exercise="14.3" score=0 diagnoses=["entry-of-first-head", "not-counted-yet"] near=["entry-of-first-row", "values"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    hit = jnp.arange(cache.shape[1]) == positions[:, None]
    return jnp.where(hit[:, :, None, None], new[:, :1][:, None], cache)


# %% candidates of all devices clipped at zero exercise="14.5" score=0 diagnoses=["clipped", "not-counted-yet"] near=["masked-with-zeros", "zeros-win"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(own):
        values, places = lax.top_k(own, k)
        kept = jnp.where(values > 0, values, 0)
        return kept, places + lax.axis_index("vocab") * own.shape[1]

    specs = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=specs, out_specs=specs)(logits)
    values, places = lax.top_k(values, k)
    best = jnp.argmax(values / temperature + noise, axis=1)[:, None]
    chosen = jnp.take_along_axis(jnp.take_along_axis(tokens, places, axis=1), best, axis=1)
    return chosen[:, 0]


# %% runs side by side exercise="14.6" score=0 diagnoses=["block-transposed"] near=["one-run"]
def load(read, entry, sharding):
    shape, begin = tuple(entry["shape"]), entry["data_offsets"][0]

    def block(index):
        ranges = [range(*part.indices(size)) for part, size in zip(index, shape)]
        sizes, runs = [len(each) for each in ranges], []
        for outer in np.ndindex(*sizes[:-1]):
            at = [each[i] for each, i in zip(ranges, (*outer, 0))]
            start = begin + 4 * int(np.ravel_multi_index(at, shape))
            runs.append(np.frombuffer(read(start, 4 * sizes[-1]), np.float32))
        return np.stack(runs, axis=-1).reshape(sizes)

    return jax.make_array_from_callback(shape, sharding, block)


# %% a loop of Python over the rows exercise="14.3" score=0.25 diagnoses=["all-reduce over batch"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    for i in range(cache.shape[0]):
        p = jnp.where(positions[i] < 0, cache.shape[1], positions[i])
        cache = cache.at[i, p].set(new[i], mode="drop")
    return cache


# %% a weight of one byte and one operation exercise="14.1" score=0 diagnoses=["unanswered", "no-twos"] near=["one-byte"]
def step_seconds(batch, weights, cache, flops, memory):
    return max(batch * weights / flops, (weights + batch * cache) / memory)


# %% numbers counted column by column, one by one exercise="14.6" score=0 diagnoses=["column-by-column"] near=["columns-from-0"]
def load(read, entry, sharding):
    shape = tuple(entry["shape"])
    begin, _ = entry["data_offsets"]
    where = np.arange(np.prod(shape)).reshape(shape, order="F")

    def block(index):
        wanted = where[index]
        data = b"".join(read(begin + 4 * int(i), 4) for i in wanted.ravel())
        return np.frombuffer(data, "<f4").reshape(wanted.shape)

    return jax.make_array_from_callback(shape, sharding, block)


# %% the logarithm of a softmax and 1e-6 exercise="14.5" score=0 diagnoses=["small-number-added", "not-counted-yet"] near=["probabilities", "another-candidate"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    chances = jax.nn.softmax(values / temperature)
    best = jnp.argmax(jnp.log(chances + 1e-6) + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% the logarithm of a softmax and 1e-3 exercise="14.5" score=0 diagnoses=["small-number-added", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    chances = jax.nn.softmax(values / temperature)
    best = jnp.argmax(jnp.log(chances + 1e-3) + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% exponentials over their sum, without a maximum exercise="14.5" score=0 diagnoses=["another-candidate", "not-counted-yet"] near=["small-number-added", "exponentials"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    weights = jnp.exp(values / temperature)
    chances = weights / weights.sum(axis=1, keepdims=True)
    best = jnp.argmax(jnp.log(chances) + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% the log_softmax of the k best exercise="14.5" score=1 near=["small-number-added"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(jax.nn.log_softmax(values / temperature, axis=1) + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% the logarithm of a softmax of the k best exercise="14.5" score=1 near=["small-number-added", "probabilities"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(jnp.log(jax.nn.softmax(values / temperature)) + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% a log_softmax of each block exercise="14.5" score=0 diagnoses=["normalised-in-blocks", "not-counted-yet"] near=["noise-on-each-device", "first-block", "k-tokens"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(jax.nn.log_softmax(logits), k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% a log_softmax of each block, divided before exercise="14.5" score=0 diagnoses=["normalised-in-blocks", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(jax.nn.log_softmax(logits / temperature), k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(values + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% a softmax of each block exercise="14.5" score=0 diagnoses=["normalised-in-blocks", "not-counted-yet"] near=["probabilities"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(jax.nn.softmax(logits / temperature), k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(values + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% each block without its maximum exercise="14.5" score=0 diagnoses=["normalised-in-blocks", "not-counted-yet"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits - logits.max(axis=1, keepdims=True), k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(values / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% a softmax of the k best, divided twice exercise="14.5" score=0 diagnoses=["another-candidate", "not-counted-yet"] near=["normalised-in-blocks", "probabilities"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(jax.nn.softmax(values / temperature) / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% noise repeated for all candidates exercise="14.5" score=0 diagnoses=["noise-on-each-device", "not-counted-yet"] near=["normalised-in-blocks"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    repeated = jnp.repeat(noise, values.shape[1] // k, axis=1)
    best = jnp.argmax(values / temperature + repeated, axis=1)
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% an argmax over the rows, by its own index exercise="14.5" score=0 diagnoses=["row-for-place", "not-counted-yet"] near=["most-likely", "place-in-all-rows"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(values / temperature + noise, axis=0)
    return jnp.take_along_axis(tokens, best[None], axis=1)[:, 0]


# %% Gumbel noise of its own exercise="14.5" score=0 diagnoses=["own-noise", "not-counted-yet"] near=["noise-alone", "most-likely"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(
        values / temperature + jax.random.gumbel(jax.random.key(0), noise.shape), axis=1
    )
    return jnp.take_along_axis(tokens, best[:, None], axis=1)[:, 0]


# %% the place of the largest of all sums, in each row exercise="14.5" score=0 diagnoses=["place-in-all-rows", "not-counted-yet"] near=["row-for-place"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    best = jnp.argmax(values / temperature + noise)
    return tokens[:, best]


# %% k tokens for each row exercise="14.5" score=0 diagnoses=["k-tokens", "not-counted-yet"] near=["other-structure", "most-likely"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    return tokens


# %% the k best logits exercise="14.5" score=0 diagnoses=["shape", "not-counted-yet"] near=["k-tokens"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def body(logits):
        values, tokens = lax.top_k(logits, k)
        return values, tokens + lax.axis_index("vocab") * logits.shape[1]

    spec = P(None, "vocab")
    values, tokens = jax.shard_map(body, in_specs=spec, out_specs=(spec, spec))(logits)
    values, picked = lax.top_k(values, k)
    tokens = jnp.take_along_axis(tokens, picked, axis=1)
    return values


# %% GiB, caches that are computed, and None exchanged exercise="14.1" score=0.25 diagnoses=["larger-unit", "caches-computed", "never-exchanged"] near=["compute_bound_from: raised", "one-position-more", "numbers-alone", "read-at-once", "added", "before-zero"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions / 2**30


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * weights * batch / flops + batch * cache / memory, 2 * weights / memory)


def compute_bound_from(weights, cache, flops, memory):
    gained = 2 * weights / flops - cache / memory
    return 2 * weights / memory / gained if gained < 0 else None


def most_requests(capacity, weights, cache):
    return max(0, (capacity - 2 * weights) // cache)


# %% the positions of the values forgotten, and a division by zero exercise="14.1" score=0.5 diagnoses=["values-of-one-position", "raised"] near=["one-position-more", "keys-alone", "one-position", "never-exchanged"]
def cache_bytes(layers, kv_heads, head, positions):
    keys = layers * kv_heads * head * positions
    values = layers * kv_heads * head
    return 2 * (keys + values)


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * weights * batch / flops, (2 * weights + batch * cache) / memory)


def compute_bound_from(weights, cache, flops, memory):
    gained = 2 * weights / flops - cache / memory
    return None if gained < 0 else 2 * weights / memory / gained


def most_requests(capacity, weights, cache):
    return max(0, (capacity - 2 * weights) // cache)


# %% one position more, and both times added exercise="14.1" score=0.5 diagnoses=["one-position-more", "added"] near=["values-of-one-position", "larger-unit", "caches-computed"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * (positions + 1)


def step_seconds(batch, weights, cache, flops, memory):
    return 2 * weights * batch / flops + (2 * weights + batch * cache) / memory


def compute_bound_from(weights, cache, flops, memory):
    gained = 2 * weights / flops - cache / memory
    return 2 * weights / memory / gained if gained > 0 else None


def most_requests(capacity, weights, cache):
    return max(0, (capacity - 2 * weights) // cache)


# %% whole MiB exercise="14.1" score=0.75 diagnoses=["larger-unit"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions // 2**20


def step_seconds(batch, weights, cache, flops, memory):
    return max(2 * weights * batch / flops, (2 * weights + batch * cache) / memory)


def compute_bound_from(weights, cache, flops, memory):
    gained = 2 * weights / flops - cache / memory
    return 2 * weights / memory / gained if gained > 0 else None


def most_requests(capacity, weights, cache):
    return max(0, (capacity - 2 * weights) // cache)


# %% KV head 0 alone exercise="14.3" score=0 diagnoses=["first-head-alone", "not-counted-yet"] near=["entry-of-first-head", "zeros-entered"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def one(row, entry, position):
        return jnp.where(position < 0, row, row.at[position, 0].set(entry[0]))

    return jax.vmap(one)(cache, new, positions)


# %% zeros at the place of the entry exercise="14.3" score=0 diagnoses=["zeros-entered", "not-counted-yet"] near=["first-head-alone", "nothing-entered", "cache-lost"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    is_new = jnp.arange(cache.shape[1]) == positions[:, None]
    return cache * ~is_new[:, :, None, None]


# %% positions of device 0 on all devices exercise="14.3" score=0 diagnoses=["positions-of-device-0", "all-gather over batch", "not-counted-yet"] near=["one-position-for-block", "rows-of-device-0"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        own = positions[: len(cache)]
        is_new = jnp.arange(cache.shape[1]) == own[:, None]
        return jnp.where(is_new[:, :, None, None], new[:, None], cache)

    specs = P("batch"), P("batch"), P()
    return jax.shard_map(body, in_specs=specs, out_specs=P("batch"))(cache, new, positions)


# %% the positions of the next device exercise="14.3" score=0 diagnoses=["of-other-inputs", "collective-permute over batch", "not-counted-yet"] near=["positions-of-device-0"]
@partial(jax.jit, donate_argnums=0)
def update(cache, new, positions):
    def body(cache, new, positions):
        n = lax.axis_size("batch")
        own = lax.ppermute(positions, "batch", [(i, (i + 1) % n) for i in range(n)])
        is_new = jnp.arange(cache.shape[1]) == own[:, None]
        return jnp.where(is_new[:, :, None, None], new[:, None], cache)

    return jax.shard_map(body, in_specs=P("batch"), out_specs=P("batch"))(cache, new, positions)


# %% row 0's place in all rows exercise="14.5" score=0 diagnoses=["place-in-all-rows", "not-counted-yet"] near=["row-for-place"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def own(block):
        values, places = lax.top_k(block, k)
        return values, places + lax.axis_index("vocab") * block.shape[1]

    specs = {"in_specs": P(None, "vocab"), "out_specs": P(None, "vocab")}
    values, places = jax.shard_map(own, **specs)(logits)
    best, where = lax.top_k(values, k)
    tokens = jnp.take_along_axis(places, where, axis=1)
    pick = jnp.argmax(best / temperature + noise, axis=1)
    return tokens[:, pick][:, 0]


# %% places of a flat array exercise="14.5" score=0 diagnoses=["tokens-of-row-0", "not-counted-yet"] near=["rows-for-places", "place-in-all-rows"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def own(block):
        values, places = lax.top_k(block, k)
        return values, places + lax.axis_index("vocab") * block.shape[1]

    specs = {"in_specs": P(None, "vocab"), "out_specs": P(None, "vocab")}
    values, places = jax.shard_map(own, **specs)(logits)
    best, where = lax.top_k(values, k)
    tokens = jnp.take_along_axis(places, where, axis=1)
    pick = jnp.argmax(best / temperature + noise, axis=1)
    return jnp.take(tokens, pick)


# %% the candidates of row 0 exercise="14.5" score=0 diagnoses=["tokens-of-row-0", "not-counted-yet"] near=["place-among-candidates"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def own(block):
        values, places = lax.top_k(block, k)
        return values, places + lax.axis_index("vocab") * block.shape[1]

    specs = {"in_specs": P(None, "vocab"), "out_specs": P(None, "vocab")}
    values, places = jax.shard_map(own, **specs)(logits)
    best, where = lax.top_k(values, k)
    tokens = places[0][where]
    pick = jnp.argmax(best / temperature + noise, axis=1)
    return jnp.take_along_axis(tokens, pick[:, None], axis=1)[:, 0]


# %% whole rows of tokens exercise="14.5" score=0 diagnoses=["rows-for-places", "not-counted-yet"] near=["columns-of-all-rows", "tokens-of-row-0"]
def sample(logits, noise, temperature):
    k = noise.shape[1]

    def own(block):
        values, places = lax.top_k(block, k)
        return values, places + lax.axis_index("vocab") * block.shape[1]

    specs = {"in_specs": P(None, "vocab"), "out_specs": P(None, "vocab")}
    values, places = jax.shard_map(own, **specs)(logits)
    best, where = lax.top_k(values, k)
    tokens = jnp.take_along_axis(places, where, axis=1)
    pick = jnp.argmax(best / temperature + noise, axis=1)
    return tokens[pick]


# %% caches after the longer of two; None with any cache exercise="14.1" score=0.5 diagnoses=["caches-afterwards", "none-with-caches"] near=["caches-computed", "never-exchanged"]
def cache_bytes(layers, kv_heads, head, positions):
    return 4 * layers * kv_heads * head * positions


def step_seconds(batch, weights, cache, flops, memory):
    longer = max(2 * weights / memory, 2 * weights * batch / flops)
    return longer + batch * cache / memory


def compute_bound_from(weights, cache, flops, memory):
    return None if cache else flops / memory


def most_requests(capacity, weights, cache):
    return max(0, (capacity - 2 * weights) // cache)
