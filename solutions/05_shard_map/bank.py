# %% [markdown]
# Known answers to the exercises of notebook 05. A cell stands below what the exercise's cell was
# handed out with.

# %% asked of JAX exercise="5.1" score=1
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

# %% as under vmap exercise="5.1" score=0 diagnoses=["like-vmap", "other-prediction", "still-inside"]
inside = dict.fromkeys(inside, (16,))
outside = dict.fromkeys(outside, (4, 8))

# %% the whole array everywhere exercise="5.1" score=0.2857142857 diagnoses=["global", "as-before"]
inside = dict.fromkeys(inside, (16, 16))
outside = dict.fromkeys(outside, (16, 16))

# %% every axis cuts, dimensions exchanged exercise="5.1" score=0.1428571429 diagnoses=["both-cut", "other-dimension", "other-prediction"]
inside = dict(zip(inside, [(4, 8), (4, 8), (2, 16), (4, 8)]))
outside = dict(zip(outside, [(8, 32), (4, 64), (4, 64)]))

# %% one axis of two exercise="5.1" score=0.7142857143 diagnoses=["one-axis"]
inside = dict(zip(inside, [(4, 8), (4, 16), (16, 8), (16, 16)]))
outside = dict(zip(outside, [(16, 16), (16, 8), (8, 32)]))

# %% text for shapes exercise="5.1" score=0 diagnoses=["other-form", "unanswered"]
inside = dict.fromkeys(inside, "4 x 8")


# %% in other words exercise="5.2" score=1
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


# %% no word is said exercise="5.2" score=0 diagnoses=["not-replicated", "each-for-itself", "no all-reduce"]
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


# %% whole blocks, and gathered ones exercise="5.2" score=0.25 diagnoses=["mean-for-sum", "not-counted-yet", "sends-too-much", "all-gather by hand", "unanswered"]
def total(x):
    return jax.shard_map(lambda a: lax.pmean(a.sum(), "x"), in_specs=P("x"), out_specs=P())(x)


def average(x):
    return jax.shard_map(lambda a: lax.pmean(a, "x").mean(), in_specs=P("x"), out_specs=P())(x)


def largest(x):
    def body(mine):
        return lax.pmax(lax.all_gather(mine, "x").max(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P())(x)


# %% a mean taken away, not the largest exercise="5.2" score=0 diagnoses=["unanswered", "not-finite", "not-counted-yet"]
def softmax(x):
    def body(mine):
        e = jnp.exp(mine - lax.pmean(mine.mean(), "x"))
        return e / lax.psum(e.sum(), "x")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% left to the compiler exercise="5.2" score=0 diagnoses=["not-counted-yet", "no-shard-map", "unanswered"]
def total(x):
    return x.sum()


# %% a mesh written in exercise="5.2" score=0 diagnoses=["only-the-first", "unanswered"]
def total(x):
    return jax.shard_map(
        lambda a: lax.psum(a.sum(), "x"), mesh=line, in_specs=P("x"), out_specs=P()
    )(x)


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


# %% along the columns exercise="5.4" score=1
def sum_by_parts(x):
    def body(mine):
        piece = lax.psum_scatter(mine, "x", scatter_dimension=1, tiled=True)
        return lax.all_gather(piece, "x", axis=1, tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% psum itself exercise="5.4" score=0.5 diagnoses=["no reduce-scatter"]
def sum_by_parts(x):
    def body(mine):
        return lax.psum(mine, "x") + 0 * mine

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% psum in a composite, and the parts times zero exercise="5.4" score=0.5 diagnoses=["all-reduce by hand"]
def sum_by_parts(x):
    def body(mine):
        row = lax.composite(lambda mine: lax.psum(mine, "x"), name="course.sum")(mine)
        piece = lax.psum_scatter(mine[0], "x", tiled=True)
        return row + 0 * lax.all_gather(piece, "x", tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"), check_vma=False)(x)


# %% gathered, and summed by everybody exercise="5.4" score=0.5 diagnoses=["no reduce-scatter"]
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


# %% the dimension of size one cut exercise="5.4" score=0 diagnoses=["untiled"]
def sum_by_parts(x):
    def body(mine):
        return lax.all_gather(lax.psum_scatter(mine, "x", tiled=True), "x", tiled=True)

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


# %% n steps exercise="5.5" score=0.5 diagnoses=["one-too-many"]
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


# %% the other neighbour's piece, everything sent exercise="5.5" score=0.25 diagnoses=["sends-too-much", "wrong-piece-behind", "not-counted-yet"]
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


# %% the collectives themselves exercise="5.5" score=0.5 diagnoses=["no collective-permute"]
def ring_all_gather(x):
    def body(mine):
        return lax.all_gather(mine, "x", tiled=True)[None]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


def ring_reduce_scatter(x):
    def body(mine):
        return lax.psum_scatter(mine[0], "x", tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% far too many steps, and a gather beside exercise="5.5" score=0.5 diagnoses=["too-often", "all-gather by hand"]
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


# %% whole blocks sent exercise="5.6" score=0.5 diagnoses=["sends-too-much"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine, "x", [(i, (i + 1) % n) for i in range(n)])
        after = lax.ppermute(mine, "x", [((i + 1) % n, i) for i in range(n)])
        wide = jnp.concatenate([before[-1:], mine, after[:1]])
        return wide[:-2] - 2 * mine + wide[2:]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% everything brought to everybody exercise="5.6" score=0.5 diagnoses=["no collective-permute"]
def second_difference(x):
    def body(mine):
        whole = lax.all_gather(mine, "x", tiled=True)
        made = jnp.roll(whole, 1) - 2 * whole + jnp.roll(whole, -1)
        return lax.dynamic_slice(made, (lax.axis_index("x") * mine.size,), (mine.size,))

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% two permutations and a gather exercise="5.6" score=0.5 diagnoses=["all-gather by hand"]
def second_difference(x):
    def body(mine):
        n = lax.axis_size("x")
        before = lax.ppermute(mine[-1:], "x", [(i, (i + 1) % n) for i in range(n)])
        after = lax.ppermute(mine[:1], "x", [((i + 1) % n, i) for i in range(n)])
        wide = jnp.concatenate([before, mine, after])
        return wide[:-2] - 2 * mine + wide[2:] + 0 * lax.all_gather(mine[0], "x")[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


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


# %% all of them on every device exercise="5.7" score=0.3333333333 diagnoses=["added-by-the-compiler", "all-gather over x"]
def solve_all(A, b):
    def body(A, b):
        all_solved = jnp.linalg.solve(A + 8 * jnp.eye(4), b[..., None])[..., 0]
        start = lax.axis_index("x") * 2
        return lax.dynamic_slice(all_solved, (start, 0), (2, 4))

    return jax.shard_map(body, in_specs=P(), out_specs=P("x"))(A, b)


# %% gathered by hand exercise="5.7" score=0.3333333333 diagnoses=["all-gather by hand", "all-gather over x"]
def solve_all(A, b):
    def body(A, b):
        A, b = lax.all_gather(A, "x", tiled=True), lax.all_gather(b, "x", tiled=True)
        all_solved = jnp.linalg.solve(A + 8 * jnp.eye(4), b[..., None])[..., 0]
        start = lax.axis_index("x") * 2
        return lax.dynamic_slice(all_solved, (start, 0), (2, 4))

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% eight everywhere, and not on the diagonal exercise="5.7" score=0 diagnoses=["values", "not-counted-yet"]
def solve_all(A, b):
    def body(A, b):
        return jnp.linalg.solve(A + 8, b[..., None])[..., 0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% laid out anew outside exercise="5.8" score=1
def everywhere(x):
    return lax.with_sharding_constraint(x, on(line))


# %% the check switched off exercise="5.8" score=0.6666666667 diagnoses=["all-gather by hand"]
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


# %% nothing done exercise="5.8" score=0.3333333333 diagnoses=["nothing-moved", "not-counted-yet"]
def everywhere(x):
    return jax.shard_map(lambda a: a, in_specs=P("x"), out_specs=P("x"))(x)


# %% the blocks added up exercise="5.8" score=0 diagnoses=["shape", "not-counted-yet"]
def everywhere(x):
    return jax.shard_map(lambda a: lax.psum(a, "x"), in_specs=P("x"), out_specs=P())(x)
