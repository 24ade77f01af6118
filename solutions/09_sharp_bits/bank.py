# %% [markdown]
# Known answers to the exercises of notebook 09. A cell stands below what the exercise's cell was
# handed out with.

# %% NumPy's numbers and truth values exercise="9.1" score=1
moved |= dict(zip(moved, np.array([21504, 0, 0]), strict=True))
same |= dict(zip(same, np.array([False, True, True]), strict=True))

# %% the permutations only exercise="9.1" score=0.8333333333 diagnoses=["only-permutes"]
moved |= dict(zip(moved, [5120, 0, 0], strict=True))
same |= dict(zip(same, [False, True, True], strict=True))

# %% over all devices exercise="9.1" score=0.8333333333 diagnoses=["on-all-devices"]
moved |= dict(zip(moved, [8 * 21504, 0, 0], strict=True))
same |= dict(zip(same, [False, True, True], strict=True))

# %% the gathers only, and the same flag in all exercise="9.1" score=0.3333333333 diagnoses=["only-gathers", "still-moves", "any-layout", "flag-harmless"]
moved |= dict(zip(moved, [16384, 21504, 21504], strict=True))
same |= dict(zip(same, [True, True, True], strict=True))

# %% the layout thought to matter exercise="9.1" score=0.3333333333 diagnoses=["other-prediction", "unanswered", "layout-matters"]
moved |= {"rows, flag off": 2688, "rows, flag on": 0}
same |= dict(zip(same, [False, False, False], strict=True))


# %% a constraint exercise="9.2" score=1
def initialise(seed):
    whole = jax.random.normal(jax.random.key(seed), (64, 512))
    return with_sharding_constraint(whole, P(None, "x")) / 8


# %% in the body: each device draws all, and keeps its part exercise="9.2" score=0.75 diagnoses=["too-much-memory"]
def initialise(seed):
    def body(seed):
        whole = jax.random.normal(jax.random.key(seed), (64, 512)) / 8
        size = 512 // lax.axis_size("x")
        return lax.dynamic_slice_in_dim(whole, lax.axis_index("x") * size, size, axis=1)

    return jax.shard_map(body, in_specs=P(), out_specs=P(None, "x"))(seed)


# %% made, and then put exercise="9.2" score=0.25 diagnoses=["replicated", "not-counted-yet", "too-much-memory"]
def initialise(seed):
    whole = jax.random.normal(jax.random.key(seed), (64, 512)) / 8
    return jax.device_put(whole, P(None, "x"))


# %% rows cut exercise="9.2" score=0.25 diagnoses=["transposed", "not-counted-yet"]
def initialise(seed):
    whole = jax.random.normal(jax.random.key(seed), (64, 512)) / 8
    return with_sharding_constraint(whole, P("x"))


# %% keys of one's own exercise="9.2" score=0 diagnoses=["values", "not-counted-yet"]
def initialise(seed):
    def body(seed):
        key = jax.random.fold_in(jax.random.key(seed), lax.axis_index("x"))
        return jax.random.normal(key, (64, 512 // lax.axis_size("x"))) / 8

    return jax.shard_map(body, in_specs=P(), out_specs=P(None, "x"))(seed)


# %% a mesh written in exercise="9.2" score=0 diagnoses=["only-the-first"]
def initialise(seed):
    def draw(seed):
        return jax.random.normal(jax.random.key(seed), (64, 512)) / 8

    return jax.jit(draw, out_shardings=on(line, None, "x"))(seed)


# %% keys made outside exercise="9.3" score=1
def noisy_rows(seed, x):
    places = jnp.arange(jax.sharding.get_abstract_mesh().shape["x"])
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(seed), places)

    def body(key, mine):
        return mine + jax.random.normal(key[0], mine.shape)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(keys, x)


# %% the noise alone exercise="9.3" score=0 diagnoses=["x-forgotten", "not-counted-yet"]
def noisy_rows(seed, x):
    def body(seed, mine):
        key = jax.random.fold_in(jax.random.key(seed), lax.axis_index("x"))
        return jax.random.normal(key, mine.shape)

    return jax.shard_map(body, in_specs=(P(), P("x")), out_specs=P("x"))(seed, x)


# %% one key for all exercise="9.3" score=0 diagnoses=["same-key", "not-counted-yet"]
def noisy_rows(seed, x):
    def body(seed, mine):
        return mine + jax.random.normal(jax.random.key(seed), mine.shape)

    return jax.shard_map(body, in_specs=(P(), P("x")), out_specs=P("x"))(seed, x)


# %% drawn whole exercise="9.3" score=0 diagnoses=["drawn-whole", "not-counted-yet"]
def noisy_rows(seed, x):
    return x + jax.random.normal(jax.random.key(seed), x.shape)


# %% counted from one exercise="9.3" score=0 diagnoses=["values", "not-counted-yet"]
def noisy_rows(seed, x):
    def body(seed, mine):
        key = jax.random.fold_in(jax.random.key(seed), lax.axis_index("x") + 1)
        return mine + jax.random.normal(key, mine.shape)

    return jax.shard_map(body, in_specs=(P(), P("x")), out_specs=P("x"))(seed, x)


# %% brought together in the end exercise="9.3" score=0.3333333333 diagnoses=["replicated", "all-gather over x"]
def noisy_rows(seed, x):
    def body(seed, mine):
        key = jax.random.fold_in(jax.random.key(seed), lax.axis_index("x"))
        return mine + jax.random.normal(key, mine.shape)

    made = jax.shard_map(body, in_specs=(P(), P("x")), out_specs=P("x"))(seed, x)
    return with_sharding_constraint(made, P())


# %% noise of a seed of its own, and nothing else exercise="9.3" score=0 diagnoses=["ignores-inputs", "not-counted-yet"]
def noisy_rows(seed, x):
    def body(mine):
        key = jax.random.fold_in(jax.random.key(0), lax.axis_index("x"))
        return jax.random.normal(key, mine.shape)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% by hand exercise="9.4" score=1
def spread(table):
    padded = jnp.pad(table, ((0, -len(table) % 8), (0, 0)))
    return jax.shard_map(lambda mine: mine, in_specs=P("x"), out_specs=P("x"))(padded)


def probabilities(hidden, table):
    words = len(table)
    padded = jnp.pad(table, ((0, -words % 8), (0, 0)))

    def body(hidden, mine):
        number = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))
        logits = jnp.where(number < words, hidden @ mine.T, -1e30)
        parts = jnp.exp(logits - lax.pmax(logits.max(1), "x")[:, None])
        return parts / lax.psum(parts.sum(1), "x")[:, None]

    return jax.shard_map(body, in_specs=(P(), P("x")), out_specs=P(None, "x"))(hidden, padded)


# %% cut, and padded then: within a program rows may be uneven exercise="9.4" score=0.6666666667 diagnoses=["collective-permute over x"]
def spread(table):
    table = with_sharding_constraint(table, P("x"))
    return jnp.pad(table, ((0, -len(table) % 8), (0, 0)))


def probabilities(hidden, table):
    made = jax.nn.softmax(hidden @ with_sharding_constraint(table, P("x")).T)
    return with_sharding_constraint(jnp.pad(made, ((0, 0), (0, -len(table) % 8))), P(None, "x"))


# %% constrained, not padded; not masked exercise="9.4" score=0 diagnoses=["silently-copied", "shape", "all-gather over x", "padding-counts", "not-counted-yet"]
def spread(table):
    return with_sharding_constraint(table, P("x"))


def probabilities(hidden, table):
    padded = jnp.pad(table, ((0, -len(table) % 8), (0, 0)))
    return jax.nn.softmax(hidden @ with_sharding_constraint(padded, P("x")).T)


# %% a multiple for ever; exp of large numbers exercise="9.4" score=0 diagnoses=["shape", "only-the-first", "not-counted-yet", "not-finite"]
def spread(table):
    padded = jnp.pad(table, ((0, 8 - len(table) % 8), (0, 0)))
    return with_sharding_constraint(padded, P("x"))


def probabilities(hidden, table):
    words = len(table)
    padded = with_sharding_constraint(jnp.pad(table, ((0, -words % 8), (0, 0))), P("x"))
    parts = jnp.exp(hidden @ padded.T) * (jnp.arange(len(padded)) < words)
    return parts / parts.sum(1, keepdims=True)


# %% a multiple of the devices exercise="9.4" score=0 diagnoses=["unanswered", "shape", "only-the-first", "not-counted-yet"]
def probabilities(hidden, table):
    words, devices = len(table), jax.sharding.get_abstract_mesh().size
    padded = with_sharding_constraint(jnp.pad(table, ((0, -words % devices), (0, 0))), P("x"))
    logits = hidden @ padded.T
    return jax.nn.softmax(jnp.where(jnp.arange(len(padded)) < words, logits, -jnp.inf))


# %% padded, and no more; zeros in place of minus infinity exercise="9.4" score=0.1666666667 diagnoses=["replicated", "not-counted-yet", "padding-counts"]
def spread(table):
    return jnp.pad(table, ((0, -len(table) % 8), (0, 0)))


def probabilities(hidden, table):
    words = len(table)
    padded = with_sharding_constraint(jnp.pad(table, ((0, -words % 8), (0, 0))), P("x"))
    logits = hidden @ padded.T
    return jax.nn.softmax(jnp.where(jnp.arange(len(padded)) < words, logits, 0))


# %% padded to the number of devices, masked after the softmax exercise="9.4" score=0 diagnoses=["shape", "not-counted-yet", "masked-too-late"]
def spread(table):
    return with_sharding_constraint(jnp.pad(table, ((0, 8), (0, 0))), P())


def probabilities(hidden, table):
    words = len(table)
    padded = with_sharding_constraint(jnp.pad(table, ((0, -words % 8), (0, 0))), P("x"))
    made = jax.nn.softmax(hidden @ padded.T)
    return jnp.where(jnp.arange(len(padded)) < words, made, 0)


# %% in a shard_map, not padded; the largest of one's own words exercise="9.4" score=0 diagnoses=["does-not-divide", "not-finite", "not-counted-yet"]
def spread(table):
    return jax.shard_map(lambda mine: mine, in_specs=P("x"), out_specs=P("x"))(table)


def probabilities(hidden, table):
    words = len(table)
    padded = jnp.pad(table, ((0, -words % 8), (0, 0)))

    def body(hidden, mine):
        number = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))
        logits = jnp.where(number < words, hidden @ mine.T, -jnp.inf)
        parts = jnp.exp(logits - logits.max(1)[:, None])
        return parts / lax.psum(parts.sum(1), "x")[:, None]

    return jax.shard_map(body, in_specs=(P(), P("x")), out_specs=P(None, "x"))(hidden, padded)


# %% softmax by hand, on words brought together exercise="9.4" score=0.3333333333 diagnoses=["unanswered", "all-gather over x"]
def probabilities(hidden, table):
    words = len(table)
    padded = with_sharding_constraint(jnp.pad(table, ((0, -words % 8), (0, 0))), P("x"))
    logits = with_sharding_constraint(hidden @ padded.T, P())
    logits = jnp.where(jnp.arange(len(padded)) < words, logits, -jnp.inf)
    return with_sharding_constraint(jax.nn.softmax(logits), P(None, "x"))


# %% NumPy's truth values exercise="9.5" score=1
right = [False, True, False, True, False, True, False]
obeyed |= dict(zip(obeyed, np.array(right), strict=True))
still_cut |= dict(zip(still_cut, np.array([False, True]), strict=True))

# %% what is said is done exercise="9.5" score=0.4444444444 diagnoses=["wrong-verb", "put-in-jit", "uneven", "none-is-a-wish"]
obeyed |= dict.fromkeys(obeyed, True)
still_cut |= dict.fromkeys(still_cut, True)

# %% nothing is done exercise="9.5" score=0.5555555556 diagnoses=["right-verb", "put-explicit", "open-is-open"]
obeyed |= dict.fromkeys(obeyed, False)
still_cut |= dict.fromkeys(still_cut, False)

# %% the constraints only exercise="9.5" score=0.2222222222 diagnoses=["wrong-verb", "unanswered"]
obeyed |= {"constrain_explicit": True, "constrain_auto": True, "reshard_explicit": True}


# %% take, and a halo exercise="9.6" score=1
def row(x, i):
    return jnp.take(x, i, axis=0)


def shifted(x):
    def body(mine):
        onward = [(i, i + 1) for i in range(lax.axis_size("x") - 1)]
        before = lax.ppermute(mine[-1:], "x", onward)
        return jnp.concatenate([before, mine[:-1]])

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% an index, and a concatenation exercise="9.6" score=0.6 diagnoses=["all-gather over x", "all-to-all over x"]
def row(x, i):
    return x[i]


def shifted(x):
    return with_sharding_constraint(jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]]), P("x"))


# %% round the edge exercise="9.6" score=0.4 diagnoses=["goes-round", "not-counted-yet"]
def row(x, i):
    return jax.nn.one_hot(i, len(x)) @ x


def shifted(x):
    return jnp.roll(x, 1, axis=0)


# %% the other way exercise="9.6" score=0.2 diagnoses=["too-many-bytes", "other-way", "not-counted-yet"]
def row(x, i):
    def body(mine, i):
        place = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))
        return lax.psum(jnp.where((place == i)[:, None], mine, 0), "x").sum(axis=0)

    return jax.shard_map(body, in_specs=(P("x"), P()), out_specs=P())(x, i)


def shifted(x):
    return jnp.roll(x, -1, axis=0).at[-1].set(0)


# %% by way of the row before exercise="9.6" score=0.2 diagnoses=["collective-permute over x", "unanswered"]
def row(x, i):
    return jnp.take(jnp.roll(x, 1, axis=0), i + 1, axis=0, mode="wrap")


# %% both axes on the last dimension exercise="9.7" score=1
def rearranged(x):
    between = with_sharding_constraint(x, P(None, None, ("x", "y")))
    return with_sharding_constraint(between, P(None, ("x", "y"), None))


# %% at once exercise="9.7" score=0.6666666667 diagnoses=["all-gather over y"]
def rearranged(x):
    return with_sharding_constraint(x, P(None, ("x", "y"), None))


# %% by way of half a layout exercise="9.7" score=0.6666666667 diagnoses=["all-gather over y"]
def rearranged(x):
    between = with_sharding_constraint(x, P(None, "x", None))
    return with_sharding_constraint(between, P(None, ("x", "y"), None))


# %% the axes in the other order exercise="9.7" score=0.6666666667 diagnoses=["collective-permute over x, y"]
def rearranged(x):
    between = with_sharding_constraint(x, P(None, None, ("y", "x")))
    return with_sharding_constraint(between, P(None, ("x", "y"), None))


# %% three hops exercise="9.7" score=0.6666666667 diagnoses=["too-many-bytes"]
def rearranged(x):
    for spec in (P("y", "x", None), P("y", None, "x"), P("y", "x", None), P(None, ("x", "y"))):
        x = with_sharding_constraint(x, spec)
    return x


# %% by hand, in the other order exercise="9.7" score=0 diagnoses=["values", "not-counted-yet"]
def rearranged(x):
    def body(mine):
        once = lax.all_to_all(mine, "y", split_axis=1, concat_axis=0, tiled=True)
        return lax.all_to_all(once, "x", split_axis=1, concat_axis=2, tiled=True)

    specs = P("y", None, "x"), P(None, ("x", "y"), None)
    return jax.shard_map(body, in_specs=specs[0], out_specs=specs[1])(x)


# %% put exercise="9.7" score=0.3333333333 diagnoses=["nothing-moved", "not-counted-yet"]
def rearranged(x):
    return jax.device_put(x, on(grid, None, ("x", "y"), None))


# %% half way exercise="9.7" score=0.3333333333 diagnoses=["grid", "not-counted-yet"]
def rearranged(x):
    return with_sharding_constraint(x, P("y", "x", None))


# %% block by block exercise="9.8" score=1
def same_layout(one, other, shape):
    def blocks(sharding):
        return {
            device.id: [part.indices(size) for part, size in zip(index, shape, strict=True)]
            for device, index in described(*sharding).devices_indices_map(shape).items()
        }

    mine, theirs = blocks(one), blocks(other)
    return mine.keys() == theirs.keys() and all(mine[d] == theirs[d] for d in mine)


# %% specs compared exercise="9.8" score=0 diagnoses=["specs"]
def same_layout(one, other, shape):
    return described(*one).spec == described(*other).spec


# %% shardings compared exercise="9.8" score=0 diagnoses=["equal"]
def same_layout(one, other, shape):
    return described(*one) == described(*other)


# %% equivalence exercise="9.8" score=0 diagnoses=["equivalent"]
def same_layout(one, other, shape):
    return described(*one).is_equivalent_to(described(*other), len(shape))


# %% the shapes of blocks exercise="9.8" score=0 diagnoses=["block-shapes"]
def same_layout(one, other, shape):
    return described(*one).shard_shape(shape) == described(*other).shard_shape(shape)
