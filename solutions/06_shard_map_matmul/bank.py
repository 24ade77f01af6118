# %% [markdown]
# Known answers to the exercises of notebook 06. A cell stands below what the exercise's cell was
# handed out with.

# %% einsum, and specs in full exercise="6.1" score=1
def multiply(a, b):
    return jnp.einsum("ik,kj->ij", a, b)


def rows_by_columns(A, B):
    return jax.shard_map(multiply, in_specs=(P(("x",)), P(None, "y")), out_specs=P("x", "y"))(A, B)


def rows_by_copy(A, B):
    return jax.shard_map(multiply, in_specs=(P("x"), P(None, None)), out_specs=P("x"))(A, B)


def copy_by_columns(A, B):
    return jax.shard_map(lambda b: multiply(A, b), in_specs=P(None, "y"), out_specs=P(None, "y"))(B)


# %% rows out of columns exercise="6.1" score=0.6666666667 diagnoses=["shape", "not-counted-yet"]
def rows_by_columns(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P("x"), P(None, "y")), out_specs=P("x", "y"))(A, B)


def rows_by_copy(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P("x"), P()), out_specs=P("x"))(A, B)


def copy_by_columns(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P(), P(None, "y")), out_specs=P("y"))(A, B)


# %% an axis left out exercise="6.1" score=0.3333333333 diagnoses=["not-replicated"]
def rows_by_columns(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P("x"), P(None, "y")), out_specs=P("x"))(A, B)


def rows_by_copy(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P("x"), P()), out_specs=P("x"))(A, B)


def copy_by_columns(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P(), P(None, "y")), out_specs=P("x"))(A, B)


# %% everything asked for whole exercise="6.1" score=0.1666666667 diagnoses=["replicated", "added-by-the-compiler", "all-gather over x", "unanswered"]
def rows_by_columns(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P(), P()), out_specs=P())(A, B)


def rows_by_copy(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P(), P()), out_specs=P())(A, B)


# %% a sum of what is whole, and a gather exercise="6.1" score=0.3333333333 diagnoses=["all-gather by hand", "all-gather over y", "values", "not-counted-yet", "all-reduce by hand", "all-reduce over y", "all-reduce over x"]
def rows_by_columns(A, B):
    def body(a, b):
        whole = lax.all_gather(a @ b, "y", axis=1, tiled=True)
        return lax.dynamic_slice_in_dim(whole, lax.axis_index("y") * b.shape[1], b.shape[1], 1)

    return jax.shard_map(body, in_specs=(P("x"), P(None, "y")), out_specs=P("x", "y"))(A, B)


def rows_by_copy(A, B):
    def body(a, b):
        return lax.psum(a @ b, "y")

    return jax.shard_map(body, in_specs=(P("x"), P()), out_specs=P("x"))(A, B)


def copy_by_columns(A, B):
    def body(a, b):
        return lax.pmax(a @ b, "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "y")), out_specs=P(None, "y"))(A, B)


# %% scattered and gathered by hand exercise="6.2" score=0.75 diagnoses=["reduce-scatter by hand"]
def block_by_rows(A, B):
    def body(a, b):
        return lax.psum(a @ b, "y") + 0 * lax.psum_scatter(a @ b, "y", tiled=True)[:1].sum() * 0

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"), check_vma=False)(
        A, B
    )


# %% the compiler's product, and a sum of zeros for show exercise="6.2" score=0 diagnoses=["not-counted-yet", "makes-no-difference"]
def block_by_rows(A, B):
    nothing = jax.shard_map(
        lambda a: lax.psum(0 * a.astype(int).sum(), "y"),
        in_specs=P("x", "y"),
        out_specs=P(),
        check_vma=False,
    )(A)
    return A @ B + nothing


# %% the transposed product exercise="6.2" score=1
def block_by_rows(A, B):
    def body(a, b):
        return lax.psum(jnp.dot(b.T, a.T), ("y",)).T

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% a mesh written in exercise="6.2" score=0 diagnoses=["only-the-first"]
def block_by_rows(A, B):
    return jax.shard_map(
        lambda a, b: lax.psum(a @ b, "y"),
        mesh=grid,
        in_specs=(P("x", "y"), P("y")),
        out_specs=P("x"),
    )(A, B)


# %% the sum forgotten exercise="6.2" score=0 diagnoses=["not-replicated"]
def block_by_rows(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% over the wrong axis exercise="6.2" score=0 diagnoses=["not-replicated"]
def block_by_rows(A, B):
    def body(a, b):
        return lax.psum(a @ b, "x")

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% over the wrong axis, the check off exercise="6.2" score=0 diagnoses=["values", "not-counted-yet", "other-axes"]
def block_by_rows(A, B):
    def body(a, b):
        return lax.psum(a @ b, "x")

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"), check_vma=False)(
        A, B
    )


# %% over both axes exercise="6.2" score=0 diagnoses=["over-both", "not-counted-yet", "other-axes"]
def block_by_rows(A, B):
    def body(a, b):
        return lax.psum(a @ b, ("x", "y"))

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% whole rows on both devices exercise="6.2" score=0.5 diagnoses=["no all-reduce", "too-much-work"]
def block_by_rows(A, B):
    def body(a, b):
        a, b = lax.all_gather(a, "y", axis=1, tiled=True), lax.all_gather(b, "y", tiled=True)
        return a @ b

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"), check_vma=False)(
        A, B
    )


# %% gathered beside the sum exercise="6.2" score=0.75 diagnoses=["all-gather by hand"]
def block_by_rows(A, B):
    def body(a, b):
        return lax.psum(a @ b, "y") + 0 * lax.all_gather(a[0, 0], "y").sum()

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"), check_vma=False)(
        A, B
    )


# %% columns brought together exercise="6.3" score=1
def block_by_copy(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "y", axis=1, tiled=True)
        return rows @ b

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"), check_vma=False)(A, B)


# %% left to the compiler exercise="6.3" score=0 diagnoses=["not-counted-yet", "no-shard-map"]
def block_by_copy(A, B):
    return A @ B


# %% the number of devices along y written in exercise="6.3" score=0 diagnoses=["values", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        half = b.shape[0] // 2
        mine = lax.dynamic_slice_in_dim(b, lax.axis_index("y") * half, a.shape[1])
        return lax.psum(a @ mine, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% counted twice exercise="6.3" score=0 diagnoses=["counted-twice", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "y", axis=1, tiled=True)
        return lax.psum(rows @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% not sliced exercise="6.3" score=0 diagnoses=["blocks-do-not-fit"]
def block_by_copy(A, B):
    def body(a, b):
        return lax.psum(a @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% the sum forgotten exercise="6.3" score=0 diagnoses=["not-replicated"]
def block_by_copy(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% all of A brought together exercise="6.3" score=0.75 diagnoses=["all-gather over x"]
def block_by_copy(A, B):
    def body(a, b):
        whole = lax.all_gather(lax.all_gather(a, "y", axis=1, tiled=True), "x", tiled=True)
        rows = a.shape[0]
        return lax.dynamic_slice_in_dim(whole, lax.axis_index("x") * rows, rows) @ b

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"), check_vma=False)(A, B)


# %% relaid before the body exercise="6.3" score=0.5 diagnoses=["added-by-the-compiler", "all-to-all over y"]
def block_by_copy(A, B):
    relaid = lax.with_sharding_constraint(A, P(("x", "y")))
    made = jax.shard_map(jnp.dot, in_specs=(P(("x", "y")), P()), out_specs=P(("x", "y")))(relaid, B)
    return lax.with_sharding_constraint(made, P("x"))


# %% the product transposed, and cut along its columns exercise="6.4" score=1
def scattered(A, B):
    def body(a, b):
        return lax.psum_scatter(b.T @ a.T, "x", scatter_dimension=1, tiled=True).T

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x")), out_specs=P("x"))(A, B)


# %% untiled exercise="6.4" score=0 diagnoses=["untiled"]
def scattered(A, B):
    def body(a, b):
        return lax.psum_scatter(a @ b, "x")

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x")), out_specs=P("x"))(A, B)


# %% the columns cut exercise="6.4" score=0 diagnoses=["shape", "not-counted-yet"]
def scattered(A, B):
    def body(a, b):
        return lax.psum_scatter(a @ b, "x", scatter_dimension=1, tiled=True)

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x")), out_specs=P("x"))(A, B)


# %% everything, and then a piece exercise="6.4" score=0.6666666667 diagnoses=["no reduce-scatter"]
def scattered(A, B):
    def body(a, b):
        whole = lax.psum(a @ b, "x")
        rows = whole.shape[0] // lax.axis_size("x")
        return lax.dynamic_slice_in_dim(whole, lax.axis_index("x") * rows, rows)

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x")), out_specs=P("x"))(A, B)


# %% left to the compiler exercise="6.4" score=0 diagnoses=["not-counted-yet", "no-shard-map"]
def scattered(A, B):
    return lax.with_sharding_constraint(A @ B, P("x"))


# %% the sum forgotten exercise="6.4" score=0 diagnoses=["not-replicated"]
def scattered(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P(None, "x"), P("x")), out_specs=P())(A, B)


# %% untiled, and joined afterwards exercise="6.5" score=1
def block_by_block(A, B):
    def body(a, b):
        rows = jnp.concatenate(list(lax.all_gather(a, "y")), axis=1)
        columns = lax.all_gather(b, "x").reshape(-1, b.shape[1])
        return rows @ columns

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% everything brought together exercise="6.5" score=0.5 diagnoses=["one-too-many", "too-much-work"]
def block_by_block(A, B):
    def body(a, b):
        A = lax.all_gather(lax.all_gather(a, "y", axis=1, tiled=True), "x", tiled=True)
        B = lax.all_gather(lax.all_gather(b, "x", tiled=True), "y", axis=1, tiled=True)
        rows, columns = a.shape[0], b.shape[1]
        made = lax.dynamic_slice_in_dim(A @ B, lax.axis_index("x") * rows, rows)
        return lax.dynamic_slice_in_dim(made, lax.axis_index("y") * columns, columns, 1)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% left to the compiler exercise="6.5" score=0 diagnoses=["not-counted-yet", "no-shard-map"]
def block_by_block(A, B):
    return lax.with_sharding_constraint(A @ B, P("x", "y"))


# %% along the wrong axes exercise="6.5" score=0 diagnoses=["blocks-do-not-fit"]
def block_by_block(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "x", axis=1, tiled=True)
        columns = lax.all_gather(b, "y", axis=0, tiled=True)
        return rows @ columns

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% blocks that do not belong together exercise="6.5" score=0 diagnoses=["values", "not-counted-yet"]
def block_by_block(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "y", axis=1, tiled=True)
        columns = lax.all_gather(b, "x", axis=0, tiled=True)
        return rows[:, ::-1] @ columns

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% a mesh in the constraint exercise="6.5" score=0 diagnoses=["not-counted-yet", "only-the-first", "no-shard-map"]
def block_by_block(A, B):
    return lax.with_sharding_constraint(A @ B, on(grid, "x", "y"))


# %% twice over exercise="6.5" score=0.75 diagnoses=["one-too-many"]
def block_by_block(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "y", axis=1, tiled=True)
        again = lax.all_gather(a, "y", axis=1, tiled=True)
        columns = lax.all_gather(b, "x", axis=0, tiled=True)
        return ((rows + again) / 2) @ columns

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% the blocks the other way round the ring exercise="6.6" score=1
def cannon(A, B):
    def body(a, b):
        i, j = lax.axis_index("x"), lax.axis_index("y")
        a_there = lax.ppermute(a, "y", [(0, 1), (1, 0)])
        b_there = lax.ppermute(b, "x", [(0, 1), (1, 0)])
        left = jnp.where(j == 0, a, a_there) @ jnp.where(i == 0, b, b_there)
        right = jnp.where(j == 1, a, a_there) @ jnp.where(i == 1, b, b_there)
        return left + right

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% without the skew exercise="6.6" score=0 diagnoses=["without-skew", "not-counted-yet"]
def cannon(A, B):
    def body(a, b):
        first = a @ b
        around = [(0, 1), (1, 0)]
        return first + lax.ppermute(a, "y", around) @ lax.ppermute(b, "x", around)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% one round only exercise="6.6" score=0 diagnoses=["first-step-only", "not-counted-yet"]
def cannon(A, B):
    def body(a, b):
        a = lax.ppermute(a, ("x", "y"), [(0, 0), (1, 1), (2, 3), (3, 2)])
        b = lax.ppermute(b, ("x", "y"), [(0, 0), (2, 2), (1, 3), (3, 1)])
        return a @ b

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% who keeps their own sent nothing exercise="6.6" score=0 diagnoses=["values", "not-counted-yet"]
def cannon(A, B):
    def body(a, b):
        a = lax.ppermute(a, ("x", "y"), [(2, 3), (3, 2)])
        b = lax.ppermute(b, ("x", "y"), [(1, 3), (3, 1)])
        around = [(0, 1), (1, 0)]
        return a @ b + lax.ppermute(a, "y", around) @ lax.ppermute(b, "x", around)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% all-gathers exercise="6.6" score=0.6 diagnoses=["all-gather by hand", "all-gather over x"]
def cannon(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "y", axis=1, tiled=True)
        return rows @ lax.all_gather(b, "x", tiled=True)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% moved once too often exercise="6.6" score=0.8 diagnoses=["too-many-bytes"]
def cannon(A, B):
    def body(a, b):
        a = lax.ppermute(a, ("x", "y"), [(0, 0), (1, 1), (2, 3), (3, 2)])
        b = lax.ppermute(b, ("x", "y"), [(0, 0), (2, 2), (1, 3), (3, 1)])
        made = jnp.zeros((a.shape[0], b.shape[1]))
        for _ in range(2):
            made = made + a @ b
            a = lax.ppermute(a, "y", [(0, 1), (1, 0)])
            b = lax.ppermute(b, "x", [(0, 1), (1, 0)])
        return made + 0 * (a.sum() + b.sum())

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% in a loop, the other way round exercise="6.7" score=1
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        made = lax.pcast(jnp.zeros((n, a.shape[0], b.shape[1])), "x", to="varying")

        def step(s, state):
            a, made = state
            a = lax.ppermute(a, "x", [(j, (j - 1) % n) for j in range(n)])
            return a, made.at[(i + s + 1) % n].set(a @ b)

        _, made = lax.fori_loop(0, n - 1, step, (a, made.at[i].set(a @ b)))
        return made.reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% the all-gather kept exercise="6.7" score=0.6666666667 diagnoses=["no collective-permute"]
def overlapped(A, B):
    def body(a, b):
        return lax.all_gather(a, "x", tiled=True) @ b

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% in the order of arrival exercise="6.7" score=0 diagnoses=["order-of-arrival", "not-counted-yet"]
def overlapped(A, B):
    def body(a, b):
        n = lax.axis_size("x")
        products = [a @ b]
        for _ in range(n - 1):
            a = lax.ppermute(a, "x", [(j, (j + 1) % n) for j in range(n)])
            products.append(a @ b)
        return jnp.concatenate(products)

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% n steps exercise="6.7" score=0.6666666667 diagnoses=["one-too-many"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        products = []
        for _ in range(n):
            products.append(a @ b)
            a = lax.ppermute(a, "x", [(j, (j + 1) % n) for j in range(n)])
        return jnp.stack(products)[(i - jnp.arange(n)) % n].reshape(-1, b.shape[1]) + 0 * a[0, 0]

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% each product fifty times exercise="6.7" score=0.6666666667 diagnoses=["too-much-work"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        products = []
        for s in range(n):
            zeros = jnp.zeros((a.shape[0], b.shape[1]))
            products.append(lax.fori_loop(0, 50, lambda _, c: (a + 0 * c[0, 0]) @ b, zeros))
            if s < n - 1:
                a = lax.ppermute(a, "x", [(j, (j + 1) % n) for j in range(n)])
        return jnp.stack(products)[(i - jnp.arange(n)) % n].reshape(-1, b.shape[1])

    specs = {"in_specs": (P("x"), P(None, "x")), "out_specs": P(None, "x")}
    return jax.shard_map(body, **specs, check_vma=False)(A, B)


# %% all of it carried round exercise="6.7" score=0.3333333333 diagnoses=["sends-too-much", "too-much-work"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        whole = jnp.zeros((n, *a.shape)).at[i].set(a)
        for _ in range(n - 1):
            came = lax.ppermute(whole, "x", [(j, (j + 1) % n) for j in range(n)])
            whole = jnp.where(whole == 0, came, whole)
        return whole.reshape(-1, a.shape[1]) @ b

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% a ring and a gather exercise="6.7" score=0.6666666667 diagnoses=["all-gather by hand"]
def overlapped(A, B):
    def body(a, b):
        n = lax.axis_size("x")
        there = lax.all_gather(a, "x", tiled=True) @ b
        for _ in range(n - 1):
            a = lax.ppermute(a, "x", [(j, (j + 1) % n) for j in range(n)])
        return there + 0 * a[0, 0]

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% another point of the frontier, the solution's mirror image exercise="6.8" score=1
roomy = on(grid, "x"), on(grid, None, "y"), on(grid, "y", None), on(grid, None, "y")
tight = on(grid, None, "x"), on(grid, "x", "y"), on(grid, "y", "x"), on(grid, ("x",), ("y",))

# %% the silent way exercise="6.8" score=0 diagnoses=["over-the-cap"]
roomy = on(grid, "x"), on(grid), on(grid), on(grid, None, "y")
tight = on(grid, "x"), on(grid), on(grid), on(grid, None, "y")

# %% everything in the same blocks exercise="6.8" score=0.4 diagnoses=["could-move-less"]
roomy = [on(grid, "x", "y")] * 4
tight = [on(grid, "x", "y")] * 4

# %% blocks turned in the middle exercise="6.8" score=0.4445 diagnoses=["could-move-less"]
roomy = tight = on(grid, "x", "y"), on(grid, "x", "y"), on(grid, "y", "x"), on(grid, "x", "y")

# %% three matrices, four devices exercise="6.8" score=0 diagnoses=["number-of-shardings", "devices-unused"]
half = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
roomy = on(grid, "x"), on(grid, None, "y"), on(grid, "y")
tight = [on(half, "x")] * 4


# %% scanned exercise="6.9" score=1
def iterate(A, V):
    def body(a, v):
        v, _ = lax.scan(lambda v, _: (jnp.tanh(a @ v / 4), None), v, None, length=5)
        return lax.psum(v.sum(), "x") / (v.size * lax.axis_size("x"))

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% a collective in every round exercise="6.9" score=0.3333333333 diagnoses=["too-often", "too-many-bytes"]
def iterate(A, V):
    def body(a, v):
        def step(_, state):
            v, _ = state
            v = jnp.tanh(a @ v / 4)
            return v, lax.pmean(v.mean(), "x")

        return lax.fori_loop(0, 5, step, (v, jnp.float32(0)))[1]

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% the means added up exercise="6.9" score=0 diagnoses=["sum-for-mean", "not-counted-yet"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v)
        return lax.psum(v.mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% all columns for everybody exercise="6.9" score=0.3333333333 diagnoses=["added-by-the-compiler", "all-gather over x"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v)
        mine = lax.pcast(v.mean(), "x", to="varying")
        return lax.pmean(mine, "x")

    return jax.shard_map(body, in_specs=(P(), P()), out_specs=P())(A, V)


# %% the mean forgotten exercise="6.9" score=0 diagnoses=["not-replicated"]
def iterate(A, V):
    def body(a, v):
        return lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v).mean()

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% whole columns averaged across devices exercise="6.9" score=0.3333333333 diagnoses=["sends-too-much", "too-many-bytes"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v)
        return lax.pmean(v, "x").mean()

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% a gather of numbers beside exercise="6.9" score=0.3333333333 diagnoses=["all-gather by hand", "all-gather over x"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v)
        return lax.pmean(lax.all_gather(v.mean(), "x").mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)
