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


# %% rows out of columns exercise="6.1" score=0.6666666667 diagnoses=["joined-elsewhere", "shape", "not-counted-yet"]
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


# %% one axis of two left to the compiler exercise="6.1" score=0 diagnoses=["not-counted-yet", "outside-the-body"]
def along(axis, *specs):
    return jax.shard_map(jnp.dot, in_specs=specs[:2], out_specs=specs[2], axis_names={axis})


rows_by_columns = along("x", P("x"), P(), P("x"))
rows_by_copy = along("x", P("x"), P(), P("x"))
copy_by_columns = along("y", P(), P(None, "y"), P(None, "y"))


# %% left to the compiler, within shard_maps that do nothing exercise="6.1" score=0 diagnoses=["not-counted-yet", "outside-the-body"] naive=true
def keep(product, spec):
    return jax.shard_map(lambda c: c, in_specs=spec, out_specs=spec)(product)


def rows_by_columns(A, B):
    return keep(A @ B, P("x", "y"))


def rows_by_copy(A, B):
    return keep(A @ B, P("x"))


def copy_by_columns(A, B):
    return keep(A @ B, P(None, "y"))


# %% everything asked for whole exercise="6.1" score=0.1667 diagnoses=["replicated", "other-blocks-enter", "all-gather over x", "unanswered"] naive=true
def rows_by_columns(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P(), P()), out_specs=P())(A, B)


def rows_by_copy(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P(), P()), out_specs=P())(A, B)


# %% a sum of what is whole, and a gather exercise="6.1" score=0.3333333333 diagnoses=["explicit all-gather", "all-gather over y", "added-over-y", "not-counted-yet", "explicit all-reduce", "all-reduce over y", "all-reduce over x"]
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


# %% made once, by decorators exercise="6.1" score=1 near=["added-over-x", "added-over-y", "explicit all-reduce", "explicit all-gather", "not-replicated"]
from functools import partial

by_hand = partial(partial, jax.shard_map)


@by_hand(in_specs=(P("x", None), P(None, "y")), out_specs=P("x", "y"))
def rows_by_columns(a, b):
    return lax.dot(a, b)


@by_hand(in_specs=(P("x", None), P(None, None)), out_specs=P("x", None))
def rows_by_copy(a, b):
    return lax.dot(a, b)


copy_by_columns = jax.shard_map(lax.dot, in_specs=(P(), P(None, "y")), out_specs=P(None, "y"))


# %% sums of what is whole exercise="6.1" score=0 diagnoses=["added-over-x", "not-counted-yet", "explicit all-reduce", "all-reduce over x", "added-over-y", "all-reduce over y"]
def rows_by_columns(A, B):
    def body(a, b):
        return lax.psum(a @ b, "x") + 0 * (a @ b)

    return jax.shard_map(body, in_specs=(P("x"), P(None, "y")), out_specs=P("x", "y"))(A, B)


def rows_by_copy(A, B):
    def body(a, b):
        return lax.psum(a @ b, "x") + 0 * (a @ b)

    return jax.shard_map(body, in_specs=(P("x"), P()), out_specs=P("x"))(A, B)


def copy_by_columns(A, B):
    def body(a, b):
        return lax.psum(a @ b, "y") + 0 * (a @ b)

    return jax.shard_map(body, in_specs=(P(), P(None, "y")), out_specs=P(None, "y"))(A, B)


# %% nothing returned, and a mesh written in exercise="6.1" score=0 diagnoses=["nothing-returned", "only-the-first", "unanswered"] near=["shape"]
def rows_by_columns(A, B):
    jax.shard_map(jnp.dot, in_specs=(P("x"), P(None, "y")), out_specs=P("x", "y"))(A, B)


def rows_by_copy(A, B):
    return jax.shard_map(jnp.dot, mesh=grid, in_specs=(P("x"), P()), out_specs=P("x"))(A, B)


# %% the arguments through shard_maps, the product outside exercise="6.1" score=0 diagnoses=["not-counted-yet", "outside-the-body"] naive=true near=["all-gather"]
def through(a, spec):
    return jax.shard_map(lambda block: block, in_specs=spec, out_specs=spec)(a)


def rows_by_columns(A, B):
    return through(A, P("x")) @ through(B, P(None, "y"))


def rows_by_copy(A, B):
    return through(A, P("x")) @ B


def copy_by_columns(A, B):
    return A @ through(B, P(None, "y"))


# %% along each other's axes exercise="6.1" score=0.25 diagnoses=["transposed", "other-blocks-enter", "all-gather over parts of axes", "replicated-dimension", "split-dimension", "collective-permute over x, y"]
def rows_by_columns(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P("y"), P(None, "x")), out_specs=P("y", "x"))(A, B)


def rows_by_copy(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P("y"), P()), out_specs=P("y"))(A, B)


def copy_by_columns(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P(), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% scattered and gathered by hand exercise="6.2" score=0.625 diagnoses=["explicit reduce-scatter"] near=["copies-disagree"]
def block_by_rows(A, B):
    def body(a, b):
        return lax.psum(a @ b, "y") + 0 * lax.psum_scatter(a @ b, "y", tiled=True)[:1].sum() * 0

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"), check_vma=False)(
        A, B
    )


# %% the compiler's product, and a sum of zeros for show exercise="6.2" score=0 diagnoses=["not-counted-yet", "outside-the-body"]
def block_by_rows(A, B):
    nothing = jax.shard_map(
        lambda a: lax.psum(0 * a.astype(int).sum(), "y"),
        in_specs=P("x", "y"),
        out_specs=P(),
        check_vma=False,
    )(A)
    return A @ B + nothing


# %% the compiler's product, and a shard_map around it that does nothing exercise="6.2" score=0 diagnoses=["not-counted-yet", "outside-the-body"] naive=true
def block_by_rows(A, B):
    return jax.shard_map(lambda c: c, in_specs=P("x"), out_specs=P("x"))(A @ B)


# %% the compiler's product, times a sum that is one exercise="6.2" score=0 diagnoses=["not-counted-yet", "outside-the-body"]
def block_by_rows(A, B):
    def body(c):
        share = lax.pcast(jnp.full(c.shape, 1 / lax.axis_size("y")), ("x", "y"), to="varying")
        return c * lax.psum(share, "y")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A @ B)


# %% the product term by term, outside exercise="6.2" score=0 diagnoses=["not-counted-yet", "outside-the-body", "too-much-work"]
def block_by_rows(A, B):
    product = sum(A[:, k : k + 1] * B[k : k + 1] for k in range(A.shape[1]))
    return jax.shard_map(lambda c: c, in_specs=P("x"), out_specs=P("x"))(product)


# %% one axis left to the compiler, and a sum of ones that hides it exercise="6.2" score=0 diagnoses=["not-counted-yet", "outside-the-body", "too-much-work"]
# The oldest JAX does the work of that axis twice by itself, and here all of them do.
def ones_added_up(shape):
    def body():
        return lax.psum(jnp.ones(shape), "y")[0, 0]

    return jax.shard_map(body, in_specs=(), out_specs=P(), check_vma=False)()


def block_by_rows(A, B):
    x, y = (jax.sharding.get_abstract_mesh().shape[name] for name in ("x", "y"))
    as_many = ones_added_up((A.shape[0] // x, B.shape[1])) == y
    specs = {"in_specs": (P("x"), P()), "out_specs": P("x"), "axis_names": {"x"}}
    product = jax.shard_map(lambda a, b: (a @ b + (2 * a) @ b) / 3, **specs)(A, B)
    product = lax.bitcast_convert_type(product, int)
    return lax.bitcast_convert_type(product * as_many.astype(int), jnp.float32)


# %% the transposed product exercise="6.2" score=1
def block_by_rows(A, B):
    def body(a, b):
        return lax.psum(jnp.dot(b.T, a.T), ("y",)).T

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% in a dictionary exercise="6.2" score=0 diagnoses=["in-a-container", "not-counted-yet"]
def block_by_rows(A, B):
    def body(a, b):
        return {"C": lax.psum(a @ b, "y")}

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs={"C": P("x")})(A, B)


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


# %% over the wrong axis exercise="6.2" score=0 diagnoses=["not-replicated"] near=["unbound-axis"]
def block_by_rows(A, B):
    def body(a, b):
        return lax.psum(a @ b, "x")

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% over the wrong axis, the check off exercise="6.2" score=0 diagnoses=["copies-disagree", "not-counted-yet", "other-axes"]
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


# %% whole rows on both devices exercise="6.2" score=0.25 diagnoses=["no all-reduce", "too-much-work"]
def block_by_rows(A, B):
    def body(a, b):
        a, b = lax.all_gather(a, "y", axis=1, tiled=True), lax.all_gather(b, "y", tiled=True)
        return a @ b

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"), check_vma=False)(
        A, B
    )


# %% gathered beside the sum exercise="6.2" score=0.625 diagnoses=["explicit all-gather"] near=["explicit reduce-scatter"]
def block_by_rows(A, B):
    def body(a, b):
        return lax.psum(a @ b, "y") + 0 * lax.all_gather(a[0, 0], "y").sum()

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"), check_vma=False)(
        A, B
    )


# %% decorated exercise="6.2" score=1 near=["mean-for-sum", "over-both", "not-replicated", "other-axes", "too-much-work", "only-the-first", "outside-the-body", "shape"]
from functools import partial


@partial(jax.shard_map, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None))
def block_by_rows(a, b):
    return lax.psum(jnp.einsum("mk,kn->mn", a, b), axis_name="y")


# %% a mean for the sum exercise="6.2" score=0 diagnoses=["mean-for-sum", "not-counted-yet"]
def block_by_rows(A, B):
    def body(a, b):
        return lax.pmean(a @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% a mean, put right for two exercise="6.2" score=0 diagnoses=["only-the-first", "not-counted-yet"] near=["no all-reduce"]
def block_by_rows(A, B):
    def body(a, b):
        return 2 * lax.pmean(a @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% a mesh written in, and a mean exercise="6.2" score=0 diagnoses=["only-the-first"] near=["explicit all-gather"]
def block_by_rows(A, B):
    def body(a, b):
        return lax.pmean(a @ b, "y")

    specs = {"in_specs": (P("x", "y"), P("y")), "out_specs": P("x")}
    return jax.shard_map(body, mesh=grid, **specs)(A, B)


# %% rounded to sixteen bits exercise="6.2" score=0 diagnoses=["dtype", "not-counted-yet"]
def block_by_rows(A, B):
    def body(a, b):
        return lax.psum(a @ b, "y").astype(jnp.bfloat16)

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% whole by in_specs exercise="6.2" score=0.25 diagnoses=["no all-reduce", "too-much-work"] naive=true
def block_by_rows(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P("x", None), P()), out_specs=P("x", None))(A, B)


# %% the compiler's product, and a mean for show exercise="6.2" score=0 diagnoses=["not-counted-yet", "outside-the-body"] naive=true
def block_by_rows(A, B):
    return jax.shard_map(lambda c: lax.pmean(c, "y"), in_specs=P("x"), out_specs=P("x"))(A @ B)


# %% added up in pairs, as complex numbers exercise="6.3" score=1
def block_by_copy(A, B):
    def body(a, b):
        size = a.shape[1]
        part = a @ lax.dynamic_slice_in_dim(b, lax.axis_index("y") * size, size)
        half = part.shape[1] // 2
        total = lax.psum(lax.complex(part[:, :half], part[:, half:]), "y")
        return jnp.concatenate([total.real, total.imag], axis=1)

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% columns brought together, the check off exercise="6.3" score=0.25 diagnoses=["no all-reduce", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "y", axis=1, tiled=True)
        return rows @ b

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"), check_vma=False)(A, B)


# %% left to the compiler exercise="6.3" score=0 diagnoses=["not-counted-yet", "no-shard-map"] naive=true
def block_by_copy(A, B):
    return A @ B


# %% the number of devices along y written in exercise="6.3" score=0 diagnoses=["only-the-first", "not-counted-yet"]
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


# %% not sliced exercise="6.3" score=0 diagnoses=["not-gathered"]
def block_by_copy(A, B):
    def body(a, b):
        return lax.psum(a @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% the sum forgotten exercise="6.3" score=0 diagnoses=["not-replicated"]
def block_by_copy(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% all of A brought together exercise="6.3" score=0.25 diagnoses=["all-gather over x"]
def block_by_copy(A, B):
    def body(a, b):
        whole = lax.all_gather(lax.all_gather(a, "y", axis=1, tiled=True), "x", tiled=True)
        rows = a.shape[0]
        made = lax.dynamic_slice_in_dim(whole, lax.axis_index("x") * rows, rows) @ b
        return lax.pmean(made, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% relaid before the body exercise="6.3" score=0.25 diagnoses=["no all-reduce", "all-to-all over y"]
def block_by_copy(A, B):
    relaid = lax.with_sharding_constraint(A, P(("x", "y")))
    made = jax.shard_map(jnp.dot, in_specs=(P(("x", "y")), P()), out_specs=P(("x", "y")))(relaid, B)
    return lax.with_sharding_constraint(made, P("x"))


# %% decorated, by reshaping exercise="6.3" score=1 near=["at-its-number", "first-rows", "by-its-place-along-x", "mean-for-sum", "blocks-do-not-fit"]
from functools import partial


@partial(jax.shard_map, in_specs=(P("x", "y"), P(None, None)), out_specs=P("x", None))
def block_by_copy(a, b):
    parts = b.reshape(lax.axis_size("y"), a.shape[1], b.shape[1])
    return lax.psum(a @ parts[lax.axis_index("y")], "y")


# %% the rows of B by in_specs exercise="6.3" score=1 near=["added-by-the-compiler", "not-replicated", "no-shard-map"]
def block_by_copy(A, B):
    def body(a, b):
        return lax.psum(a @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% columns brought together, and a mean as proof exercise="6.3" score=1 near=["counted-twice", "all-gather", "no all-reduce"]
def block_by_copy(A, B):
    def body(a, b):
        return lax.pmean(lax.all_gather(a, "y", axis=1, tiled=True) @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% a slice at the device's number exercise="6.3" score=0 diagnoses=["at-its-number", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        mine = lax.dynamic_slice_in_dim(b, lax.axis_index("y"), a.shape[1])
        return lax.psum(a @ mine, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% the first rows for everybody exercise="6.3" score=0 diagnoses=["first-rows", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        return lax.psum(a @ b[: a.shape[1]], "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% a slice by the place along x exercise="6.3" score=0 diagnoses=["by-its-place-along-x", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        start = lax.axis_index("x") * a.shape[1]
        return lax.psum(a @ lax.dynamic_slice_in_dim(b, start, a.shape[1]), "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% a mean of the parts exercise="6.3" score=0 diagnoses=["mean-for-sum", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        start = lax.axis_index("y") * a.shape[1]
        return lax.pmean(a @ lax.dynamic_slice_in_dim(b, start, a.shape[1]), "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% eight rows written in exercise="6.3" score=0 diagnoses=["only-the-first"]
def block_by_copy(A, B):
    def body(a, b):
        return lax.psum(a @ lax.dynamic_slice_in_dim(b, 8 * lax.axis_index("y"), 8), "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% counted twice, and halved exercise="6.3" score=0 diagnoses=["only-the-first", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        return lax.psum(lax.all_gather(a, "y", axis=1, tiled=True) @ b, "y") / 2

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% whole rows by in_specs exercise="6.3" score=0.25 diagnoses=["no all-reduce", "not-counted-yet"] naive=true
def block_by_copy(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P("x", None), P()), out_specs=P("x", None))(A, B)


# %% whole rows by in_specs, and a mean for show exercise="6.3" score=0.25 diagnoses=["other-blocks-enter", "not-counted-yet"] naive=true
def block_by_copy(A, B):
    def body(a, b):
        return lax.pmean(a @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", None), P()), out_specs=P("x", None))(A, B)


# %% the compiler's product, and a mean for show exercise="6.3" score=0 diagnoses=["not-counted-yet", "outside-the-body"] naive=true
def block_by_copy(A, B):
    return jax.shard_map(lambda c: lax.pmean(c, "y"), in_specs=P("x"), out_specs=P("x"))(A @ B)


# %% all products by a scatter, outside exercise="6.4" score=0 diagnoses=["not-counted-yet", "outside-the-body"]
def scattered(A, B):
    shape = (*A.shape, B.shape[1])
    left, right = jnp.broadcast_to(A[:, :, None], shape), jnp.broadcast_to(B[None], shape)
    products = left.at[jnp.arange(len(A))].mul(right)

    def body(p):
        return lax.psum_scatter(p.sum(1), "x", tiled=True)

    return jax.shard_map(body, in_specs=P(None, "x", None), out_specs=P("x"))(products)


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


# %% the columns cut exercise="6.4" score=0 diagnoses=["joined-elsewhere", "shape", "not-counted-yet"]
def scattered(A, B):
    def body(a, b):
        return lax.psum_scatter(a @ b, "x", scatter_dimension=1, tiled=True)

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x")), out_specs=P("x"))(A, B)


# %% everything, and then a piece exercise="6.4" score=0.25 diagnoses=["no reduce-scatter"] near=["same-along-an-axis"]
def scattered(A, B):
    def body(a, b):
        whole = lax.psum(a @ b, "x")
        rows = whole.shape[0] // lax.axis_size("x")
        return lax.dynamic_slice_in_dim(whole, lax.axis_index("x") * rows, rows)

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x")), out_specs=P("x"))(A, B)


# %% left to the compiler exercise="6.4" score=0 diagnoses=["not-counted-yet", "no-shard-map"] naive=true
def scattered(A, B):
    return lax.with_sharding_constraint(A @ B, P("x"))


# %% the sum forgotten exercise="6.4" score=0 diagnoses=["not-replicated"]
def scattered(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P(None, "x"), P("x")), out_specs=P())(A, B)


# %% decorated, untiled after reshaping exercise="6.4" score=1 near=["untiled", "mean-for-sum", "shape", "not-replicated"]
from functools import partial


@partial(jax.shard_map, in_specs=(P(None, "x"), P("x", None)), out_specs=P("x", None))
def scattered(a, b):
    parts = jnp.tensordot(a, b, axes=1)
    return lax.psum_scatter(parts.reshape(lax.axis_size("x"), -1, parts.shape[1]), "x")


# %% the mean of the parts exercise="6.4" score=0 diagnoses=["mean-for-sum", "not-counted-yet"]
def scattered(A, B):
    def body(a, b):
        return lax.psum_scatter(a @ b, "x", tiled=True) / lax.axis_size("x")

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x")), out_specs=P("x"))(A, B)


# %% columns kept exercise="6.4" score=0.125 diagnoses=["transposed", "not-counted-yet"] near=["no reduce-scatter"]
def scattered(A, B):
    def body(a, b):
        return lax.psum_scatter(a @ b, "x", scatter_dimension=1, tiled=True)

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x")), out_specs=P(None, "x"))(A, B)


# %% the compiler's product, scattered exercise="6.4" score=0 diagnoses=["not-counted-yet", "outside-the-body"] naive=true
def scattered(A, B):
    def body(c):
        return lax.psum_scatter(c, "x", tiled=True) / lax.axis_size("x")

    return jax.shard_map(body, in_specs=P(), out_specs=P("x"))(A @ B)


# %% cut otherwise by in_specs exercise="6.4" score=0.25 diagnoses=["no reduce-scatter"] naive=true
def scattered(A, B):
    def body(a, b):
        return a @ lax.all_gather(b, "x", axis=1, tiled=True)

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P("x"))(A, B)


# %% untiled, and joined afterwards exercise="6.5" score=1
def block_by_block(A, B):
    def body(a, b):
        rows = jnp.concatenate(list(lax.all_gather(a, "y")), axis=1)
        columns = lax.all_gather(b, "x").reshape(-1, b.shape[1])
        return rows @ columns

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% everything brought together exercise="6.5" score=0.1666666667 diagnoses=["one-too-many", "too-much-work"] near=["sends-too-much"]
def block_by_block(A, B):
    def body(a, b):
        A = lax.all_gather(lax.all_gather(a, "y", axis=1, tiled=True), "x", tiled=True)
        B = lax.all_gather(lax.all_gather(b, "x", tiled=True), "y", axis=1, tiled=True)
        rows, columns = a.shape[0], b.shape[1]
        made = lax.dynamic_slice_in_dim(A @ B, lax.axis_index("x") * rows, rows)
        return lax.dynamic_slice_in_dim(made, lax.axis_index("y") * columns, columns, 1)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% left to the compiler exercise="6.5" score=0 diagnoses=["not-counted-yet", "no-shard-map"] naive=true
def block_by_block(A, B):
    return lax.with_sharding_constraint(A @ B, P("x", "y"))


# %% along the wrong axes exercise="6.5" score=0 diagnoses=["not-gathered"]
def block_by_block(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "x", axis=1, tiled=True)
        columns = lax.all_gather(b, "y", axis=0, tiled=True)
        return rows @ columns

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% blocks that do not belong together exercise="6.5" score=0 diagnoses=["of-other-inputs", "not-counted-yet"] near=["first-columns-only"]
def block_by_block(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "y", axis=1, tiled=True)
        columns = lax.all_gather(b, "x", axis=0, tiled=True)
        return rows[:, ::-1] @ columns

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% a mesh in the constraint exercise="6.5" score=0 diagnoses=["not-counted-yet", "only-the-first", "no-shard-map"]
def block_by_block(A, B):
    return lax.with_sharding_constraint(A @ B, on(grid, "x", "y"))


# %% twice over exercise="6.5" score=0.25 diagnoses=["one-too-many"]
def block_by_block(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "y", axis=1, tiled=True)
        again = lax.all_gather(a, "y", axis=1, tiled=True)
        columns = lax.all_gather(b, "x", axis=0, tiled=True)
        return ((rows + again) / 2) @ columns

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% decorated, by einsum exercise="6.5" score=1 near=["mixed-columns", "blocks-do-not-fit", "one-too-many", "too-much-work", "values"]
from functools import partial


@partial(jax.shard_map, in_specs=(P("x", "y"), P("x", "y")), out_specs=P("x", "y"))
def block_by_block(a, b):
    rows = lax.all_gather(a, axis_name="y", axis=1, tiled=True)
    columns = lax.all_gather(b, axis_name="x", axis=0, tiled=True)
    return jnp.einsum("mk,kn->mn", rows, columns)


# %% stacked, and reshaped as they lie exercise="6.5" score=0 diagnoses=["mixed-columns", "not-counted-yet"] near=["no all-gather"]
def block_by_block(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "y").reshape(a.shape[0], -1)
        return rows @ lax.all_gather(b, "x").reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% along the wrong axes, and cut off until it fits exercise="6.5" score=0 diagnoses=["other-products", "not-counted-yet", "sends-too-much"]
def block_by_block(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "x", axis=1, tiled=True)
        columns = lax.all_gather(b, "y", axis=0, tiled=True)
        k = min(rows.shape[1], columns.shape[0])
        return rows[:, :k] @ columns[:k]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% A's blocks put below each other exercise="6.5" score=0 diagnoses=["first-columns-only", "not-counted-yet"] near=["mixed-columns"]
def block_by_block(A, B):
    def body(a, b):
        below = lax.all_gather(a, "y", tiled=True)
        columns = lax.all_gather(b, "x", tiled=True)
        return (below @ columns[: a.shape[1]])[: a.shape[0]]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% rows and columns by in_specs exercise="6.5" score=0.25 diagnoses=["gathered-before-the-body"] naive=true
def block_by_block(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P("x"), P(None, "y")), out_specs=P("x", "y"))(A, B)


# %% half by hand, half by in_specs exercise="6.5" score=0.25 diagnoses=["gathered-before-the-body"] naive=true
def block_by_block(A, B):
    def body(a, b):
        return lax.all_gather(a, "y", axis=1, tiled=True) @ b

    specs = {"in_specs": (P("x", "y"), P(None, "y")), "out_specs": P("x", "y")}
    return jax.shard_map(body, **specs)(A, B)


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


# %% one round only exercise="6.6" score=0 diagnoses=["first-step-only", "not-counted-yet"] near=["last-step-only"]
def cannon(A, B):
    def body(a, b):
        a = lax.ppermute(a, ("x", "y"), [(0, 0), (1, 1), (2, 3), (3, 2)])
        b = lax.ppermute(b, ("x", "y"), [(0, 0), (2, 2), (1, 3), (3, 1)])
        return a @ b

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% who keeps their own sent nothing exercise="6.6" score=0 diagnoses=["open-skew", "not-counted-yet"]
def cannon(A, B):
    def body(a, b):
        a = lax.ppermute(a, ("x", "y"), [(2, 3), (3, 2)])
        b = lax.ppermute(b, ("x", "y"), [(1, 3), (3, 1)])
        around = [(0, 1), (1, 0)]
        return a @ b + lax.ppermute(a, "y", around) @ lax.ppermute(b, "x", around)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% all-gathers exercise="6.6" score=0.25 diagnoses=["explicit all-gather", "all-gather over x", "too-much-memory"]
def cannon(A, B):
    def body(a, b):
        rows = lax.all_gather(a, "y", axis=1, tiled=True)
        return rows @ lax.all_gather(b, "x", tiled=True)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% moved once more than needed exercise="6.6" score=1
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


# %% decorated, every round moves exercise="6.6" score=1 near=["too-many-bytes", "once-too-often", "without-skew", "too-much-memory", "open-skew", "skew-exchanged"]
from functools import partial


@partial(jax.shard_map, in_specs=P("x", "y"), out_specs=P("x", "y"))
def cannon(a, b):
    n, both = 2, ("x", "y")
    places = [(i, j) for i in range(n) for j in range(n)]
    a = lax.ppermute(a, both, [(n * i + j, n * i + (j - i) % n) for i, j in places])
    b = lax.ppermute(b, both, [(n * i + j, n * ((i - j) % n) + j) for i, j in places])
    back = [(i, (i - 1) % n) for i in range(n)]

    def move(_, state):
        a, b, made = state
        return lax.ppermute(a, "y", back), lax.ppermute(b, "x", back), made + a @ b

    made = lax.pcast(jnp.zeros((a.shape[0], b.shape[1]), a.dtype), both, to="varying")
    return lax.fori_loop(0, n, move, (a, b, made))[2]


# %% whole rows and columns, by permutations exercise="6.6" score=0.25 diagnoses=["too-much-memory"] near=["explicit all-gather"]
def cannon(A, B):
    def body(a, b):
        there_a = lax.ppermute(a, "y", [(0, 1), (1, 0)])
        there_b = lax.ppermute(b, "x", [(0, 1), (1, 0)])
        left, up = lax.axis_index("y") == 0, lax.axis_index("x") == 0
        rows = [jnp.concatenate(pair, 1) for pair in ((a, there_a), (there_a, a))]
        columns = [jnp.concatenate(pair, 0) for pair in ((b, there_b), (there_b, b))]
        return jnp.where(left, *rows) @ jnp.where(up, *columns)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% the skews exchanged exercise="6.6" score=0 diagnoses=["skew-exchanged", "not-counted-yet"] near=["first-step-only", "values", "moves-exchanged"]
def cannon(A, B):
    def body(a, b):
        a = lax.ppermute(a, ("x", "y"), [(0, 0), (2, 2), (1, 3), (3, 1)])
        b = lax.ppermute(b, ("x", "y"), [(0, 0), (1, 1), (2, 3), (3, 2)])
        around = [(0, 1), (1, 0)]
        return a @ b + lax.ppermute(a, "y", around) @ lax.ppermute(b, "x", around)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% a round too many exercise="6.6" score=0 diagnoses=["once-too-often", "not-counted-yet", "too-much-work"]
def cannon(A, B):
    def body(a, b):
        a = lax.ppermute(a, ("x", "y"), [(0, 0), (1, 1), (2, 3), (3, 2)])
        b = lax.ppermute(b, ("x", "y"), [(0, 0), (2, 2), (1, 3), (3, 1)])
        made = a @ b
        for _ in range(2):
            a = lax.ppermute(a, "y", [(0, 1), (1, 0)])
            b = lax.ppermute(b, "x", [(0, 1), (1, 0)])
            made = made + a @ b
        return made

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% the moves between the rounds exchanged exercise="6.6" score=0 diagnoses=["moves-exchanged", "not-counted-yet"] near=["skew-exchanged"]
def cannon(A, B):
    def body(a, b):
        a = lax.ppermute(a, ("x", "y"), [(0, 0), (1, 1), (2, 3), (3, 2)])
        b = lax.ppermute(b, ("x", "y"), [(0, 0), (2, 2), (1, 3), (3, 1)])
        around = [(0, 1), (1, 0)]
        return a @ b + lax.ppermute(a, "x", around) @ lax.ppermute(b, "y", around)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% the first product overwritten exercise="6.6" score=0 diagnoses=["last-step-only", "not-counted-yet"] near=["first-step-only"]
def cannon(A, B):
    def body(a, b):
        a = lax.ppermute(a, ("x", "y"), [(0, 0), (1, 1), (2, 3), (3, 2)])
        b = lax.ppermute(b, ("x", "y"), [(0, 0), (2, 2), (1, 3), (3, 1)])
        made = a @ b
        for _ in range(1):
            a = lax.ppermute(a, "y", [(0, 1), (1, 0)])
            b = lax.ppermute(b, "x", [(0, 1), (1, 0)])
            made = a @ b
        return made

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% only A moves exercise="6.6" score=0 diagnoses=["only-one-moves", "not-counted-yet"]
def cannon(A, B):
    def body(a, b):
        a = lax.ppermute(a, ("x", "y"), [(0, 0), (1, 1), (2, 3), (3, 2)])
        b = lax.ppermute(b, ("x", "y"), [(0, 0), (2, 2), (1, 3), (3, 1)])
        return a @ b + lax.ppermute(a, "y", [(0, 1), (1, 0)]) @ b

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% only B moves exercise="6.6" score=0 diagnoses=["other-products", "not-counted-yet"] near=["only-one-moves"]
def cannon(A, B):
    def body(a, b):
        a = lax.ppermute(a, ("x", "y"), [(0, 0), (1, 1), (2, 3), (3, 2)])
        b = lax.ppermute(b, ("x", "y"), [(0, 0), (2, 2), (1, 3), (3, 1)])
        return a @ b + a @ lax.ppermute(b, "x", [(0, 1), (1, 0)])

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% summed at the end exercise="6.6" score=0 diagnoses=["other-products", "not-counted-yet", "explicit all-reduce", "all-reduce over y"]
def cannon(A, B):
    def body(a, b):
        a = lax.ppermute(a, ("x", "y"), [(0, 0), (1, 1), (2, 3), (3, 2)])
        b = lax.ppermute(b, ("x", "y"), [(0, 0), (2, 2), (1, 3), (3, 1)])
        made = a @ b
        return lax.psum(made, "y") + 0 * made

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% there and back before the first round exercise="6.6" score=0.75 diagnoses=["too-many-bytes"] near=["explicit all-reduce"]
def cannon(A, B):
    def body(a, b):
        around = [(0, 1), (1, 0)]
        for _ in range(2):
            a, b = lax.ppermute(a, "y", around), lax.ppermute(b, "x", around)
        a = lax.ppermute(a, ("x", "y"), [(0, 0), (1, 1), (2, 3), (3, 2)])
        b = lax.ppermute(b, ("x", "y"), [(0, 0), (2, 2), (1, 3), (3, 1)])
        return a @ b + lax.ppermute(a, "y", around) @ lax.ppermute(b, "x", around)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% the compiler's product, in a shard_map that does nothing exercise="6.6" score=0 diagnoses=["not-counted-yet", "outside-the-body", "all-gather over x", "too-much-memory"] naive=true
def cannon(A, B):
    return jax.shard_map(lambda c: c, in_specs=P("x", "y"), out_specs=P("x", "y"))(A @ B)


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


# %% the all-gather kept exercise="6.7" score=0.25 diagnoses=["no collective-permute", "too-much-memory"]
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


# %% n steps exercise="6.7" score=0.625 diagnoses=["one-too-many"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        products = []
        for _ in range(n):
            products.append(a @ b)
            a = lax.ppermute(a, "x", [(j, (j + 1) % n) for j in range(n)])
        return jnp.stack(products)[(i - jnp.arange(n)) % n].reshape(-1, b.shape[1]) + 0 * a[0, 0]

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% each product fifty times exercise="6.7" score=0.1666666667 diagnoses=["too-much-memory", "too-much-work"]
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


# %% all of it carried round exercise="6.7" score=0.25 diagnoses=["sends-too-much", "too-much-memory"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        whole = jnp.zeros((n, *a.shape)).at[i].set(a)
        for _ in range(n - 1):
            came = lax.ppermute(whole, "x", [(j, (j + 1) % n) for j in range(n)])
            whole = jnp.where(whole == 0, came, whole)
        return whole.reshape(-1, a.shape[1]) @ b

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% a ring and a gather exercise="6.7" score=0.25 diagnoses=["explicit all-gather", "too-much-memory"]
def overlapped(A, B):
    def body(a, b):
        n = lax.axis_size("x")
        there = lax.all_gather(a, "x", tiled=True) @ b
        for _ in range(n - 1):
            a = lax.ppermute(a, "x", [(j, (j + 1) % n) for j in range(n)])
        return there + 0 * a[0, 0]

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% decorated, written row by row exercise="6.7" score=1 near=["at-its-number", "too-much-memory", "one-is-missing", "against-the-ring", "open-ring", "order-of-arrival", "too-seldom", "not-to-the-neighbour"]
from functools import partial


@partial(jax.shard_map, in_specs=(P("x", None), P(None, "x")), out_specs=P(None, "x"))
def overlapped(a, b):
    n, i, rows = lax.axis_size("x"), lax.axis_index("x"), a.shape[0]
    made = lax.pcast(jnp.zeros((n * rows, b.shape[1]), a.dtype), "x", to="varying")

    def put(made, block, owner):
        return lax.dynamic_update_slice_in_dim(made, block @ b, owner * rows, 0)

    def step(s, state):
        block, made = state
        coming = lax.ppermute(block, "x", [(j, (j + 1) % n) for j in range(n)])
        return coming, put(made, block, (i - s) % n)

    last, made = lax.fori_loop(0, n - 1, step, (a, made))
    return put(made, last, (i - n + 1) % n)


# %% all blocks kept in a list, each multiplied by itself exercise="6.7" score=1 near=["no collective-permute", "too-much-work"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        held = [a]
        while len(held) < n:
            held.append(lax.ppermute(held[-1], "x", [(j, (j - 1) % n) for j in range(n)]))
        products = jnp.stack([block @ b for block in held])
        return jnp.roll(products, i, axis=0).reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% all collected by the ring, and one product exercise="6.7" score=0.25 diagnoses=["too-much-memory"] near=["explicit all-gather", "sends-too-much"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        held = [a]
        for _ in range(n - 1):
            held.append(lax.ppermute(held[-1], "x", [(j, (j + 1) % n) for j in range(n)]))
        whole = jnp.stack(held)[(i - jnp.arange(n)) % n]
        return whole.reshape(-1, a.shape[1]) @ b

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% the ring one way, the places the other exercise="6.7" score=0 diagnoses=["against-the-ring", "not-counted-yet"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        products = [a @ b]
        for _ in range(n - 1):
            a = lax.ppermute(a, "x", [((j + 1) % n, j) for j in range(n)])
            products.append(a @ b)
        return jnp.stack(products)[(i - jnp.arange(n)) % n].reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% the ring not closed exercise="6.7" score=0 diagnoses=["open-ring", "not-counted-yet"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        products = [a @ b]
        for _ in range(n - 1):
            a = lax.ppermute(a, "x", [(j, j + 1) for j in range(n - 1)])
            products.append(a @ b)
        return jnp.stack(products)[(i - jnp.arange(n)) % n].reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% a step less exercise="6.7" score=0 diagnoses=["one-is-missing", "not-counted-yet", "too-seldom"] near=["one-too-many"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        made = jnp.zeros((n, a.shape[0], b.shape[1]), a.dtype).at[i].set(a @ b)
        for s in range(1, n - 1):
            a = lax.ppermute(a, "x", [(j, (j + 1) % n) for j in range(n)])
            made = made.at[(i - s) % n].set(a @ b)
        return made.reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% products at the number of their block exercise="6.7" score=0 diagnoses=["at-its-number", "not-counted-yet"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        made = lax.pcast(jnp.zeros((n * a.shape[0], b.shape[1]), a.dtype), "x", to="varying")
        for s in range(n):
            made = lax.dynamic_update_slice_in_dim(made, a @ b, (i - s) % n, 0)
            if s < n - 1:
                a = lax.ppermute(a, "x", [(j, (j + 1) % n) for j in range(n)])
        return made

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% straight from each to each exercise="6.7" score=0.25 diagnoses=["not-to-the-neighbour", "too-much-memory"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        products = [a @ b]
        for s in range(1, n):
            products.append(lax.ppermute(a, "x", [(j, (j + s) % n) for j in range(n)]) @ b)
        return jnp.stack(products)[(i - jnp.arange(n)) % n].reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% B goes round, and the result is cut into rows exercise="6.7" score=0.08333333333 diagnoses=["transposed", "sends-too-much", "not-counted-yet"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        products = [a @ b]
        for _ in range(n - 1):
            b = lax.ppermute(b, "x", [(j, (j + 1) % n) for j in range(n)])
            products.append(a @ b)
        in_order = jnp.stack(products)[(i - jnp.arange(n)) % n]
        return in_order.swapaxes(0, 1).reshape(a.shape[0], -1)

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P("x"))(A, B)


# %% laid out in rows afterwards exercise="6.7" score=0.08333333333 diagnoses=["transposed", "added-by-the-compiler", "not-counted-yet"] near=["other-blocks-enter"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        products = [a @ b]
        for _ in range(n - 1):
            a = lax.ppermute(a, "x", [(j, (j + 1) % n) for j in range(n)])
            products.append(a @ b)
        return jnp.stack(products)[(i - jnp.arange(n)) % n].reshape(-1, b.shape[1])

    made = jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)
    return lax.with_sharding_constraint(made, P("x"))


# %% the compiler's product, in a shard_map that does nothing exercise="6.7" score=0 diagnoses=["not-counted-yet", "outside-the-body", "too-much-memory"] naive=true
def overlapped(A, B):
    return jax.shard_map(lambda c: c, in_specs=P(None, "x"), out_specs=P(None, "x"))(A @ B)


# %% all of A by in_specs exercise="6.7" score=0.25 diagnoses=["no collective-permute", "too-much-memory"] naive=true
def overlapped(A, B):
    return jax.shard_map(jnp.dot, in_specs=(P(), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% another point of the frontier, the solution's mirror image exercise="6.8" score=1 near=["over-the-cap", "could-move-less", "number-of-shardings", "devices-unused"]
roomy = on(grid, "x"), on(grid, None, "y"), on(grid, "y", None), on(grid, None, "y")
tight = on(grid, None, "x"), on(grid, "x", "y"), on(grid, "y", "x"), on(grid, ("x",), ("y",))

# %% the silent way exercise="6.8" score=0 diagnoses=["over-the-cap"]
roomy = on(grid, "x"), on(grid), on(grid), on(grid, None, "y")
tight = on(grid, "x"), on(grid), on(grid), on(grid, None, "y")

# %% everything in the same blocks exercise="6.8" score=0 diagnoses=["room-left", "could-move-less"] naive=true
roomy = [on(grid, "x", "y")] * 4
tight = [on(grid, "x", "y")] * 4

# %% blocks turned in the middle exercise="6.8" score=0.1875 diagnoses=["room-left", "could-move-less"]
roomy = tight = on(grid, "x", "y"), on(grid, "x", "y"), on(grid, "y", "x"), on(grid, "x", "y")

# %% nothing gathered, and one sum more than needed exercise="6.8" score=0.8125 diagnoses=["could-move-less"] near=["room-left"]
roomy = on(grid, "x", "y"), on(grid, "y"), on(grid, None, "y"), on(grid, "y")
tight = on(grid, "y", "x"), on(grid, "x"), on(grid, None, ("x", "y")), on(grid, ("x", "y"))

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


# %% a collective in every round exercise="6.9" score=0.25 diagnoses=["too-often", "too-many-bytes"]
def iterate(A, V):
    def body(a, v):
        def step(_, state):
            v, _ = state
            v = jnp.tanh(a @ v / 4)
            return v, lax.pmean(v.mean(), "x")

        return lax.fori_loop(0, 5, step, (v, jnp.float32(0)))[1]

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% the means added up exercise="6.9" score=0 diagnoses=["sum-for-mean", "not-counted-yet"] near=["one-column-each"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v)
        return lax.psum(v.mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% all columns for everybody exercise="6.9" score=0.25 diagnoses=["other-blocks-enter", "all-gather over x"]
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


# %% whole columns averaged across devices exercise="6.9" score=0.25 diagnoses=["sends-too-much", "too-many-bytes"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v)
        return lax.pmean(v, "x").mean()

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% a gather of numbers beside exercise="6.9" score=0.25 diagnoses=["explicit all-gather", "all-gather over x"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v)
        return lax.pmean(lax.all_gather(v.mean(), "x").mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% decorated, in a Python loop exercise="6.9" score=1 near=["once-too-often", "once-too-seldom", "sum-for-mean", "too-often", "not-replicated", "of-the-transpose"]
from functools import partial


@partial(jax.shard_map, in_specs=(P(None, None), P(None, "x")), out_specs=P())
def iterate(a, v):
    for _ in range(5):
        v = jnp.tanh(0.25 * a @ v)
    return lax.pmean(v.mean(), "x")


# %% six rounds exercise="6.9" score=0 diagnoses=["once-too-often", "not-counted-yet"] near=["one-too-many"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 6, lambda _, v: jnp.tanh(a @ v / 4), v)
        return lax.pmean(v.mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% four rounds exercise="6.9" score=0 diagnoses=["once-too-seldom", "not-counted-yet"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(1, 5, lambda _, v: jnp.tanh(a @ v / 4), v)
        return lax.pmean(v.mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% a quarter of tanh exercise="6.9" score=0 diagnoses=["divided-outside", "not-counted-yet"] near=["not-divided"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v) / 4, v)
        return lax.pmean(v.mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% the quarter forgotten exercise="6.9" score=0 diagnoses=["not-divided", "not-counted-yet"] near=["divided-outside"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v), v)
        return lax.pmean(v.mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% the transpose of A exercise="6.9" score=0 diagnoses=["of-the-transpose", "not-counted-yet"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a.T @ v / 4), v)
        return lax.pmean(v.mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% the sum of all exercise="6.9" score=0 diagnoses=["sum-of-all", "not-counted-yet"] near=["sends-too-much", "all-gather"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v)
        return lax.psum(v.sum(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% the number of elements added up too exercise="6.9" score=0.25 diagnoses=["one-too-many", "too-many-bytes"] near=["sum-of-all", "explicit all-gather"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v)
        return lax.psum(v.sum(), "x") / lax.psum(jnp.ones_like(v).sum(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% V for its mean exercise="6.9" score=0 diagnoses=["shape", "no all-reduce", "not-counted-yet"]
def iterate(A, V):
    def body(a, v):
        return lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v)

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P(None, "x"))(A, V)


# %% a mean of one element exercise="6.9" score=0 diagnoses=["off-by-a-factor", "not-counted-yet"] near=["shape", "no all-reduce"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v)
        return lax.pmean(v.mean(keepdims=True), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)[0, 0] * 2


# %% everybody does all exercise="6.9" score=0.25 diagnoses=["no all-reduce", "all-gather over x"] naive=true
def iterate(A, V):
    def body(a, v):
        return lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v).mean()

    return jax.shard_map(body, in_specs=(P(), P()), out_specs=P())(A, V)


# %% the loop outside, the mean in the body exercise="6.9" score=0 diagnoses=["not-counted-yet", "outside-the-body"] naive=true
def iterate(A, V):
    V = lax.fori_loop(0, 5, lambda _, V: jnp.tanh(A @ V / 4), V)
    return jax.shard_map(lambda v: lax.pmean(v.mean(), "x"), in_specs=P(None, "x"), out_specs=P())(
        V
    )


# %% left to the compiler exercise="6.9" score=0 diagnoses=["not-counted-yet", "no-shard-map"] naive=true
def iterate(A, V):
    for _ in range(5):
        V = jnp.tanh(A @ V / 4)
    return V.mean()


# %% in another way: in_specs rows exercise="6.3" score=1 near=["one-block-too-far", "in-the-opposite-order", "over-both", "largest-part", "mixed-columns"]
def block_by_copy(A, B):
    def body(a, b):
        k, j = a.shape[1], lax.axis_index("y")
        return lax.psum(jnp.einsum("ik,kn->in", a, b), "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(A, B)


# %% in another way: scatter cols into zeros exercise="6.3" score=1
def block_by_copy(A, B):
    def body(a, b):
        k, j = a.shape[1], lax.axis_index("y")
        z = jnp.zeros((a.shape[0], b.shape[0]), a.dtype)
        z = lax.dynamic_update_slice_in_dim(lax.pcast(z, ("x", "y"), to="varying"), a, j * k, 1)
        return lax.psum(z @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x", None))(A, B)


# %% in another way: mask exercise="6.3" score=1
def block_by_copy(A, B):
    def body(a, b):
        k, j = a.shape[1], lax.axis_index("y")
        ids = jnp.arange(b.shape[0]) // k == j
        t = jnp.tile(a, (1, b.shape[0] // k))
        return lax.psum(jnp.where(ids, t, 0) @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x", None))(A, B)


# %% slice one too far exercise="6.3" score=0 diagnoses=["one-block-too-far", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        k, j = a.shape[1], lax.axis_index("y")
        return lax.psum(a @ lax.dynamic_slice_in_dim(b, (j + 1) * k, k), "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x", None))(A, B)


# %% slice reversed exercise="6.3" score=0 diagnoses=["in-the-opposite-order", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        k, j = a.shape[1], lax.axis_index("y")
        return lax.psum(a @ lax.dynamic_slice_in_dim(b, (lax.axis_size("y") - 1 - j) * k, k), "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x", None))(A, B)


# %% psum over both exercise="6.3" score=0 diagnoses=["over-both", "not-counted-yet", "all-reduce over x, y"]
def block_by_copy(A, B):
    def body(a, b):
        k, j = a.shape[1], lax.axis_index("y")
        return lax.psum(a @ lax.dynamic_slice_in_dim(b, j * k, k), ("x", "y"))

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x", None))(A, B)


# %% gather stacked reshape exercise="6.3" score=0 diagnoses=["mixed-columns", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        k, j = a.shape[1], lax.axis_index("y")
        g = lax.all_gather(a, "y").reshape(a.shape[0], -1)
        return lax.pmean(g @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x", None))(A, B)


# %% strided rows exercise="6.3" score=0 diagnoses=["of-other-inputs", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        k, j = a.shape[1], lax.axis_index("y")
        n = lax.axis_size("y")
        return lax.psum(a @ b.reshape(k, n, -1)[:, j], "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x", None))(A, B)


# %% pmax exercise="6.3" score=0 diagnoses=["largest-part", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        k, j = a.shape[1], lax.axis_index("y")
        return lax.pmax(a @ lax.dynamic_slice_in_dim(b, j * k, k), "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x", None))(A, B)


# %% in another way: einsum untiled exercise="6.4" score=1 near=["relu-of-parts", "own-part-alone"]
def scattered(A, B):
    def body(a, b):
        p = jnp.einsum("mk,kn->mn", a, b)
        n = lax.axis_size("x")
        return lax.psum_scatter(p.reshape(n, -1, p.shape[1]), "x")

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x", None)), out_specs=P("x", None))(A, B)


# %% in another way: outer sums exercise="6.4" score=1
def scattered(A, B):
    def body(a, b):
        return lax.psum_scatter(
            lax.dot_general(b, a, (((0,), (1,)), ((), ()))), "x", scatter_dimension=1, tiled=True
        ).T

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x", None)), out_specs=P("x"))(A, B)


# %% bT aT exercise="6.4" score=0 diagnoses=["transformed", "only-the-first", "not-counted-yet"]
def scattered(A, B):
    def body(a, b):
        return lax.psum_scatter(b.T @ a.T, "x", scatter_dimension=0, tiled=True)

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x", None)), out_specs=P("x", None))(A, B)


# %% relu exercise="6.4" score=0 diagnoses=["relu-of-parts", "not-counted-yet"]
def scattered(A, B):
    def body(a, b):
        return lax.psum_scatter(jnp.maximum(a @ b, 0), "x", scatter_dimension=0, tiled=True)

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x", None)), out_specs=P("x", None))(A, B)


# %% dynamic slice no sum exercise="6.4" score=0 diagnoses=["own-part-alone", "not-counted-yet", "no reduce-scatter"] near=["scattered-before-the-matmul"]
def scattered(A, B):
    def body(a, b):
        i = lax.axis_index("x")
        m = (a @ b).shape[0] // lax.axis_size("x")
        return lax.dynamic_slice_in_dim(a @ b, i * m, m)

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x", None)), out_specs=P("x", None))(A, B)


# %% interleaved rows exercise="6.4" score=0 diagnoses=["misplaced", "not-counted-yet"]
def scattered(A, B):
    def body(a, b):
        n = lax.axis_size("x")
        p = a @ b
        return lax.psum_scatter(
            p.reshape(-1, n, p.shape[1]).swapaxes(0, 1).reshape(p.shape),
            "x",
            scatter_dimension=0,
            tiled=True,
        )

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x", None)), out_specs=P("x", None))(A, B)


# %% added up over both; copies joined; joined along the other dimension exercise="6.1" score=0 diagnoses=["shape", "explicit all-reduce", "all-reduce over x, y", "copies-side-by-side", "not-counted-yet", "joined-elsewhere"] near=["own-results", "added-over-x", "added-over-y"]
def rows_by_columns(A, B):
    return jax.shard_map(
        lambda a, b: lax.psum(a @ b, ("x", "y")),
        in_specs=(P("x", None), P(None, "y")),
        out_specs=P(),
    )(A, B)


def rows_by_copy(A, B):
    return jax.shard_map(lambda a, b: a @ b, in_specs=(P("x", None), P()), out_specs=P("x", "y"))(
        A, B
    )


def copy_by_columns(A, B):
    return jax.shard_map(lambda a, b: a @ b, in_specs=(P(), P(None, "y")), out_specs=P("y", None))(
        A, B
    )


# %% element by element, and transposed exercise="6.1" score=0 diagnoses=["only-the-first"] near=["blocks-do-not-fit", "shapes-do-not-fit", "values"]
def rows_by_columns(A, B):
    return jax.shard_map(
        lambda a, b: a * b, in_specs=(P("x", "y"), P("x", "y")), out_specs=P("x", "y")
    )(A, B)


def rows_by_copy(A, B):
    return jax.shard_map(lambda a, b: a @ b.T, in_specs=(P("x", None), P()), out_specs=P("x"))(A, B)


def copy_by_columns(A, B):
    return jax.shard_map(lambda a, b: b.T @ a, in_specs=(P(), P(None, "y")), out_specs=P("y"))(A, B)


# %% x and y exchanged in out_specs exercise="6.1" score=0 diagnoses=["joined-elsewhere", "shape", "not-counted-yet", "copies-side-by-side"] near=["own-results"]
def rows_by_columns(A, B):
    return jax.shard_map(
        lambda a, b: a @ b, in_specs=(P("x", None), P(None, "y")), out_specs=P("y", "x")
    )(A, B)


def rows_by_copy(A, B):
    return jax.shard_map(lambda a, b: a @ b, in_specs=(P("x", None), P()), out_specs=P("x", "y"))(
        A, B
    )


def copy_by_columns(A, B):
    return jax.shard_map(lambda a, b: a @ b, in_specs=(P(), P(None, "y")), out_specs=P("y", None))(
        A, B
    )


# %% the sum is right, and out_specs names y exercise="6.2" score=0 diagnoses=["copies-side-by-side", "shape", "not-counted-yet"] near=["own-results", "joined-elsewhere"]
def block_by_rows(A, B):
    return jax.shard_map(
        lambda a, b: lax.psum(a @ b, "y"),
        in_specs=(P("x", "y"), P("y", None)),
        out_specs=P("x", "y"),
    )(A, B)


# %% added up before the matmul exercise="6.2" score=0 diagnoses=["added-before-the-matmul", "not-counted-yet", "one-too-many"] near=["over-both", "mean-for-sum"]
def block_by_rows(A, B):
    return jax.shard_map(
        lambda a, b: lax.psum(a, "y") @ lax.psum(b, "y"),
        in_specs=(P("x", "y"), P("y", None)),
        out_specs=P("x"),
    )(A, B)


# %% something else joined outside of the body exercise="6.2" score=0 diagnoses=["shape", "not-counted-yet"] near=["copies-side-by-side", "joined-elsewhere"]
def block_by_rows(A, B):
    made = jax.shard_map(
        lambda a, b: lax.psum(a @ b, "y"), in_specs=(P("x", "y"), P("y", None)), out_specs=P("x")
    )(A, B)
    return jnp.concatenate([made, 2 * made], axis=1)


# %% parts that differ, side by side exercise="6.2" score=0 diagnoses=["shape", "no all-reduce", "not-counted-yet"] near=["added-before-the-matmul", "copies-side-by-side", "joined-elsewhere", "own-results"]
def block_by_rows(A, B):
    return jax.shard_map(
        lambda a, b: a @ b, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", "y")
    )(A, B)


# %% gathered over both axes exercise="6.3" score=0 diagnoses=["blocks-do-not-fit"] near=["counted-twice"]
def block_by_copy(A, B):
    def body(a, b):
        return lax.pmean(lax.all_gather(a, ("x", "y"), axis=1, tiled=True) @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% scattered over both axes exercise="6.4" score=0 diagnoses=["same-along-an-axis"] near=["raised", "untiled"]
def scattered(A, B):
    return jax.shard_map(
        lambda a, b: lax.psum_scatter(a @ b, ("x", "y"), tiled=True),
        in_specs=(P(None, "x"), P("x", None)),
        out_specs=P(("x", "y")),
    )(A, B)


# %% row 0 is skewed exercise="6.6" score=0 diagnoses=["other-row-skewed", "not-counted-yet"] near=["skew-exchanged", "of-other-inputs"]
def cannon(A, B):
    def body(a, b):
        s = [(0, 1), (1, 0)]
        a = lax.ppermute(a, ("x", "y"), [(0, 1), (1, 0), (2, 2), (3, 3)])
        b = lax.ppermute(b, ("x", "y"), [(0, 0), (2, 2), (1, 3), (3, 1)])
        acc = a @ b
        a = lax.ppermute(a, "y", s)
        b = lax.ppermute(b, "x", s)
        return acc + a @ b

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% in another way: row 0 and column 0 are skewed exercise="6.6" score=1 near=["other-row-skewed", "one-skew-only"]
def cannon(A, B):
    def body(a, b):
        s = [(0, 1), (1, 0)]
        a = lax.ppermute(a, ("x", "y"), [(0, 1), (1, 0), (2, 2), (3, 3)])
        b = lax.ppermute(b, ("x", "y"), [(0, 2), (2, 0), (1, 1), (3, 3)])
        acc = a @ b
        a = lax.ppermute(a, "y", s)
        b = lax.ppermute(b, "x", s)
        return acc + a @ b

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% the own block is never multiplied exercise="6.7" score=0 diagnoses=["own-rows-missing", "not-counted-yet"] near=["misplaced", "one-is-missing"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        out = jnp.zeros((n, a.shape[0], b.shape[1]))
        for s in range(1, n):
            a = lax.ppermute(a, "x", [(k, (k + 1) % n) for k in range(n)])
            out = out.at[(i - s) % n].set(a @ b)
        return out.reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x", None), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% only device 0 leaves out its rows exercise="6.7" score=0 diagnoses=["misplaced", "not-counted-yet"] near=["own-rows-missing"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        out = jnp.zeros((n, a.shape[0], b.shape[1])).at[i].set(jnp.where(i == 0, 0, a @ b))
        for s in range(1, n):
            a = lax.ppermute(a, "x", [(k, (k + 1) % n) for k in range(n)])
            out = out.at[(i - s) % n].set(a @ b)
        return out.reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x", None), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% the own block counted twice exercise="6.7" score=0 diagnoses=["values", "not-counted-yet"] near=["own-rows-missing", "products-added"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        out = jnp.zeros((n, a.shape[0], b.shape[1])).at[i].set(a @ b)
        own = a
        for s in range(1, n):
            a = lax.ppermute(a, "x", [(k, (k + 1) % n) for k in range(n)])
            out = out.at[(i - s) % n].set(a @ b)
        return out.at[i].add(own @ b).reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x", None), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% the products are added up exercise="6.7" score=0 diagnoses=["products-added", "shape", "not-counted-yet"] near=["own-rows-missing"]
def overlapped(A, B):
    def body(a, b):
        n = lax.axis_size("x")
        acc = a @ b
        for s in range(1, n):
            a = lax.ppermute(a, "x", [(k, (k + 1) % n) for k in range(n)])
            acc = acc + a @ b
        return acc

    return jax.shard_map(body, in_specs=(P("x", None), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% v is never updated exercise="6.9" score=0 diagnoses=["one-round", "not-counted-yet"] near=["once-too-seldom", "no-tanh-in-the-loop"]
def iterate(A, V):
    def body(a, v):
        for _ in range(5):
            w = jnp.tanh(a @ v / 4)
        return lax.pmean(w.mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% no tanh in the loop exercise="6.9" score=0 diagnoses=["no-tanh-in-the-loop", "not-counted-yet"] near=["one-round", "not-divided"]
def iterate(A, V):
    def body(a, v):
        for _ in range(5):
            v = a @ v / 4
        return lax.pmean(jnp.tanh(v).mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% tanh before the matmul exercise="6.9" score=0 diagnoses=["values", "not-counted-yet"] near=["no-tanh-in-the-loop", "one-round"]
def iterate(A, V):
    def body(a, v):
        for _ in range(5):
            v = a @ jnp.tanh(v) / 4
        return lax.pmean(v.mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% A cut along its columns exercise="6.9" score=0 diagnoses=["not-gathered"] near=["shapes-do-not-fit", "varying-mismatch"]
def iterate(A, V):
    def body(a, v):
        for _ in range(5):
            v = jnp.tanh(a @ v / 4)
        return lax.pmean(v.mean(), "x")

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x", None)), out_specs=P())(A, V)


# %% a ReLU before the sum exercise="6.2" score=0 diagnoses=["relu-of-parts", "not-counted-yet"] near=["one-part-alone"]
def block_by_rows(A, B):
    def body(a, b):
        x, y, i, j = (
            lax.axis_size("x"),
            lax.axis_size("y"),
            lax.axis_index("x"),
            lax.axis_index("y"),
        )
        c, k = a.shape[1], b.shape[0]
        return lax.psum(jnp.maximum(a @ b, 0), "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None))(A, B)


# %% the part of the first device alone exercise="6.2" score=0 diagnoses=["one-part-alone", "not-counted-yet"] near=["relu-of-parts"]
def block_by_rows(A, B):
    def body(a, b):
        x, y, i, j = (
            lax.axis_size("x"),
            lax.axis_size("y"),
            lax.axis_index("x"),
            lax.axis_index("y"),
        )
        c, k = a.shape[1], b.shape[0]
        return lax.psum(jnp.where(j == 0, a @ b, 0), "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None))(A, B)


# %% a slice at the number times the devices exercise="6.3" score=0 diagnoses=["times-the-devices", "not-counted-yet"]
def block_by_copy(A, B):
    def body(a, b):
        x, y, i, j = (
            lax.axis_size("x"),
            lax.axis_size("y"),
            lax.axis_index("x"),
            lax.axis_index("y"),
        )
        c, k = a.shape[1], b.shape[0]
        return lax.psum(a @ lax.dynamic_slice_in_dim(b, j * y, c), "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x", None))(A, B)


# %% a slice at the place along x exercise="6.3" score=0 diagnoses=["by-its-place-along-x", "not-counted-yet"] near=["times-the-devices"]
def block_by_copy(A, B):
    def body(a, b):
        x, y, i, j = (
            lax.axis_size("x"),
            lax.axis_size("y"),
            lax.axis_index("x"),
            lax.axis_index("y"),
        )
        c, k = a.shape[1], b.shape[0]
        return lax.psum(a @ lax.dynamic_slice_in_dim(b, i, c), "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x", None))(A, B)


# %% A is scattered before the matmul exercise="6.4" score=0 diagnoses=["scattered-before-the-matmul", "not-counted-yet"]
def scattered(A, B):
    def body(a, b):
        x, y, i, j = (
            lax.axis_size("x"),
            lax.axis_size("y"),
            lax.axis_index("x"),
            lax.axis_index("y"),
        )
        c, k = a.shape[1], b.shape[0]
        return lax.psum_scatter(a, "x", tiled=True) @ b

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x", None)), out_specs=P("x", None))(A, B)


# %% a last permutation that nothing uses exercise="6.7" score=1 near=["own-block-again"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        products = []
        for _ in range(n):
            products.append(a @ b)
            a = lax.ppermute(a, "x", [(j, (j + 1) % n) for j in range(n)])
        return jnp.stack(products)[(i - jnp.arange(n)) % n].reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% the own block of A is sent in each step exercise="6.7" score=0 diagnoses=["own-block-again", "not-counted-yet"]
def overlapped(A, B):
    def body(A, B):
        own = A
        n, me = lax.axis_size("x"), lax.axis_index("x")
        ring = [(i, (i + 1) % n) for i in range(n)]
        k = A.shape[0]
        C = lax.pcast(jnp.zeros((n * k, B.shape[1]), A.dtype), "x", to="varying")
        for s in range(n):
            C = lax.dynamic_update_slice_in_dim(C, A @ B, (me - s) % n * k, 0)
            if s < n - 1:
                A = lax.ppermute(own, "x", ring)
        return C

    return jax.shard_map(body, in_specs=(P("x", None), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% scattered over y exercise="6.4" score=0 diagnoses=["not-replicated"]
def scattered(A, B):
    def body(A, B):
        return lax.psum_scatter(A @ B, "y", tiled=True)

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x", None)), out_specs=P("x", None))(A, B)


# %% only the blocks of A are skewed exercise="6.6" score=0 diagnoses=["one-skew-only", "not-counted-yet"]
def cannon(A, B):
    def body(A, B):
        both = ("x", "y")
        A = lax.ppermute(A, both, [(0, 0), (1, 1), (2, 3), (3, 2)])
        C = A @ B
        A = lax.ppermute(A, "y", [(0, 1), (1, 0)])
        B = lax.ppermute(B, "x", [(0, 1), (1, 0)])
        return C + A @ B

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% the product is summed in the loop exercise="6.9" score=0 diagnoses=["varying-mismatch"]
def iterate(A, V):
    def body(A, V):
        V = lax.fori_loop(0, 5, lambda _, V: jnp.tanh(lax.psum(A @ V, "x") / 4), V)
        return lax.pmean(V.mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% A sharded by rows exercise="6.9" score=0 diagnoses=["carry-changes"] near=["varying-mismatch", "blocks-do-not-fit"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: jnp.tanh(a @ v / 4), v)
        return lax.pmean(v.mean(), "x")

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P())(A, V)


# %% a mean of all columns in each round exercise="6.9" score=0 diagnoses=["varying-mismatch"] near=["carry-changes"]
def iterate(A, V):
    def body(a, v):
        v = lax.fori_loop(0, 5, lambda _, v: lax.pmean(jnp.tanh(a @ v / 4), "x"), v)
        return v.mean()

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% device 0's rows for all, check_vma off exercise="6.2" score=0 diagnoses=["not-joined", "shape", "not-counted-yet"] near=["over-both", "one-part-alone"]
def block_by_rows(A, B):
    return jax.shard_map(
        lambda a, b: lax.psum(a @ b, "y"),
        in_specs=(P("x", "y"), P("y", None)),
        out_specs=P(None, None),
        check_vma=False,
    )(A, B)


# %% blocks transposed exercise="6.5" score=0 diagnoses=["blocks-transposed", "shape", "not-counted-yet"] near=["mixed-columns", "added-over-y"]
def block_by_block(A, B):
    def body(a, b):
        a = lax.all_gather(a, "y", axis=1, tiled=True)
        b = lax.all_gather(b, "x", axis=0, tiled=True)
        return (a @ b).T

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% finished blocks added up over y exercise="6.5" score=0 diagnoses=["added-over-y", "not-counted-yet", "explicit all-reduce"] near=["values", "added-over-x", "first-columns-only"]
def block_by_block(A, B):
    def body(a, b):
        a = lax.all_gather(a, "y", axis=1, tiled=True)
        b = lax.all_gather(b, "x", axis=0, tiled=True)
        return lax.psum(a @ b, "y")

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% finished blocks added up over x exercise="6.5" score=0 diagnoses=["added-over-x", "not-counted-yet", "explicit all-reduce"] near=["values", "added-over-y", "blocks-transposed", "mixed-rows"]
def block_by_block(A, B):
    def body(a, b):
        a = lax.all_gather(a, "y", axis=1, tiled=True)
        b = lax.all_gather(b, "x", axis=0, tiled=True)
        return lax.psum(a @ b, "x")

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(A, B)


# %% products added up, and a copy in every place exercise="6.7" score=0 diagnoses=["products-added", "not-counted-yet"] near=["own-block-again"]
def overlapped(A, B):
    def body(a, b):
        n = lax.axis_size("x")
        total = a @ b
        for s in range(1, n):
            a = lax.ppermute(a, "x", [(j, (j + 1) % n) for j in range(n)])
            total = total + a @ b
        return jnp.tile(total, (n, 1))

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% a fori_loop of n turns exercise="6.7" score=0.625 diagnoses=["one-too-many"] near=["products-added", "too-seldom"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        ring = [(j, (j + 1) % n) for j in range(n)]

        def step(s, carry):
            a, out = carry
            out = lax.dynamic_update_index_in_dim(out, a @ b, (i - s) % n, 0)
            return lax.ppermute(a, "x", ring), out

        out = lax.pcast(jnp.zeros((n, a.shape[0], b.shape[1]), a.dtype), "x", to="varying")
        return lax.fori_loop(0, n, step, (a, out))[1].reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% a Python loop of n turns, whose last permutation nobody uses exercise="6.7" score=1 near=["one-too-many"]
def overlapped(A, B):
    def body(a, b):
        n, i = lax.axis_size("x"), lax.axis_index("x")
        out = jnp.zeros((n, a.shape[0], b.shape[1]), a.dtype)
        for s in range(n):
            out = out.at[(i - s) % n].set(a @ b)
            a = lax.ppermute(a, "x", [(j, (j + 1) % n) for j in range(n)])
        return out.reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x"), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% blocks that stay where they are get no pair exercise="6.6" score=0 diagnoses=["misplaced", "not-counted-yet"] near=["other-products"]
def cannon(A, B):
    def body(a, b):
        n = lax.axis_size("x")
        skew_a = [(i * n + j, i * n + (j - i) % n) for i in range(n) for j in range(n)]
        skew_b = [(i * n + j, (i - j) % n * n + j) for i in range(n) for j in range(1, n)]
        a = lax.ppermute(a, ("x", "y"), skew_a)
        b = lax.ppermute(b, ("x", "y"), skew_b)
        c = a @ b
        for _ in range(n - 1):
            a = lax.ppermute(a, "y", [(k, (k - 1) % n) for k in range(n)])
            b = lax.ppermute(b, "x", [(k, (k - 1) % n) for k in range(n)])
            c = c + a @ b
        return c

    return jax.shard_map(body, in_specs=(P("x", "y"), P("x", "y")), out_specs=P("x", "y"))(A, B)


# %% A is divided in every turn exercise="6.9" score=0 diagnoses=["values", "not-counted-yet"] near=["mean-of-sums", "of-all-rounds"]
def iterate(A, V):
    def body(A, V):
        for _ in range(5):
            A = A / 4
            V = jnp.tanh(A @ V)
        return lax.pmean(V.mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% the mean of the devices' sums exercise="6.9" score=0 diagnoses=["mean-of-sums", "not-counted-yet"] near=["of-all-rounds"]
def iterate(A, V):
    def body(A, V):
        V = lax.fori_loop(0, 5, lambda _, V: jnp.tanh(A @ V / 4), V)
        return lax.pmean(V.sum(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% the mean of all rounds exercise="6.9" score=0 diagnoses=["of-all-rounds", "not-counted-yet"]
def iterate(A, V):
    def body(A, V):
        means = []
        for _ in range(5):
            V = jnp.tanh(A @ V / 4)
            means.append(V.mean())
        return lax.pmean(jnp.mean(jnp.array(means)), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% A joined along the wrong dimension exercise="6.3" score=0 diagnoses=["other-products", "only-the-first", "not-counted-yet", "too-many-bytes"] near=["mixed-columns"]
def block_by_copy(A, B):
    def body(a, b):
        a = lax.all_gather(a, "y", axis=0, tiled=True)
        k = b.shape[0] // lax.axis_size("y")
        a1, a2 = jnp.split(a, 2, axis=0)
        return lax.pmean(a1 @ b[: a1.shape[1]], "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x"))(A, B)


# %% its own block again and again exercise="6.3" score=0 diagnoses=["other-products", "not-counted-yet"] near=["counted-twice"]
def block_by_copy(A, B):
    def body(a, b):
        n = lax.axis_size("y")
        a = jnp.tile(a, (1, n))
        return lax.pmean(a @ b, "y")

    return jax.shard_map(body, in_specs=(P("x", "y"), P()), out_specs=P("x", None))(A, B)


# %% B gathered side by side exercise="6.5" score=0 diagnoses=["mixed-rows", "not-counted-yet"] near=["mixed-columns", "other-products"]
def block_by_block(A, B):
    def body(a, b):
        a = lax.all_gather(a, "y", axis=1).reshape(a.shape[0], -1)
        b = lax.all_gather(b, "x", axis=1).reshape(-1, b.shape[1])
        return a @ b

    return jax.shard_map(body, in_specs=(P("x", "y"), P("x", "y")), out_specs=P("x", "y"))(A, B)


# %% the same skew for both exercise="6.6" score=0 diagnoses=["other-products", "not-counted-yet"] near=["skew-exchanged", "one-skew-only"]
def cannon(A, B):
    def body(a, b):
        sk = [(0, 0), (1, 1), (2, 3), (3, 2)]
        a = lax.ppermute(a, ("x", "y"), sk)
        b = lax.ppermute(b, ("x", "y"), sk)
        c = a @ b
        a = lax.ppermute(a, "y", [(0, 1), (1, 0)])
        b = lax.ppermute(b, "x", [(0, 1), (1, 0)])
        return c + a @ b

    return jax.shard_map(body, in_specs=(P("x", "y"),) * 2, out_specs=P("x", "y"))(A, B)


# %% skewed by the other place exercise="6.6" score=0 diagnoses=["other-products", "not-counted-yet"] near=["other-row-skewed"]
def cannon(A, B):
    def body(a, b):
        i, j = lax.axis_index("x"), lax.axis_index("y")
        flip = [(0, 1), (1, 0)]
        a = jnp.where(j == 1, lax.ppermute(a, "y", flip), a)
        b = jnp.where(i == 1, lax.ppermute(b, "x", flip), b)
        c = a @ b
        a = lax.ppermute(a, "y", flip)
        b = lax.ppermute(b, "x", flip)
        return c + a @ b

    return jax.shard_map(body, in_specs=(P("x", "y"),) * 2, out_specs=P("x", "y"))(A, B)


# %% times four exercise="6.9" score=0 diagnoses=["multiplied-by-4", "not-counted-yet"] near=["not-divided"]
def iterate(A, V):
    def body(a, v):
        for _ in range(5):
            v = jnp.tanh(a @ v * 4)
        return lax.pmean(v.mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)


# %% A in columns and V in rows exercise="6.9" score=0 diagnoses=["not-gathered"] near=["multiplied-by-4", "values"]
def iterate(A, V):
    def body(a, v):
        for _ in range(5):
            v = jnp.tanh(lax.psum(a @ v, "x") / 4)
        return v.mean()

    return jax.shard_map(body, in_specs=(P(None, "x"), P("x")), out_specs=P())(A, V)


# %% sums multiplied exercise="6.1" score=0.6667 diagnoses=["values", "not-counted-yet"] near=["added-over-x", "added-over-y"]
def rows_by_columns(A, B):
    def body(a, b):
        return a.sum(1, keepdims=True) * b.sum(0, keepdims=True)

    return jax.shard_map(body, in_specs=(P("x", None), P(None, "y")), out_specs=P("x", "y"))(A, B)


def rows_by_copy(A, B):
    def body(a, b):
        return a @ b

    return jax.shard_map(body, in_specs=(P("x", None), P()), out_specs=P("x", None))(A, B)


def copy_by_columns(A, B):
    def body(a, b):
        return a @ b

    return jax.shard_map(body, in_specs=(P(), P(None, "y")), out_specs=P(None, "y"))(A, B)


# %% A replicated by in_specs, nothing added up exercise="6.3" score=0.25 diagnoses=["no all-reduce", "not-counted-yet"] near=["added-by-the-compiler"]
def block_by_copy(A, B):
    def body(a, b):
        return a @ b

    return jax.shard_map(body, in_specs=(P("x", None), P()), out_specs=P("x", None))(A, B)


# %% a gather, and no check exercise="6.3" score=0.25 diagnoses=["no all-reduce", "not-counted-yet"] near=["not-replicated"]
def block_by_copy(A, B):
    def body(a, b):
        return lax.all_gather(a, "y", axis=1, tiled=True) @ b

    return jax.shard_map(
        body, in_specs=(P("x", "y"), P()), out_specs=P("x", None), check_vma=False
    )(A, B)


# %% products of several columns added up exercise="6.5" score=0 diagnoses=["other-products", "not-counted-yet", "one-missing"] near=["added-over-y"]
def block_by_block(A, B):
    def body(a, b):
        k = a.shape[1]
        b = lax.all_gather(b, "x", axis=0, tiled=True)
        p = a @ lax.dynamic_slice_in_dim(b, k * lax.axis_index("y"), k, 0)
        return lax.psum(p, "y")

    return jax.shard_map(
        body, in_specs=(P("x", "y"), P("x", "y")), out_specs=P("x", "y"), check_vma=False
    )(A, B)


# %% both ways round, half way each exercise="6.7" score=0.5417 diagnoses=["one-too-many", "too-much-work"] near=["products-sent"]
def overlapped(A, B):
    def body(a, b):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        out = lax.pcast(jnp.zeros((n, len(a), b.shape[1])), "x", to="varying").at[me].set(a @ b)
        up = down = a
        for s in range(1, n // 2 + 1):
            up = lax.ppermute(up, "x", [(i, (i + 1) % n) for i in range(n)])
            down = lax.ppermute(down, "x", [(i, (i - 1) % n) for i in range(n)])
            out = out.at[(me - s) % n].set(up @ b).at[(me + s) % n].set(down @ b)
        return out.reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x", None), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% products sent round exercise="6.7" score=0 diagnoses=["products-sent", "not-counted-yet"] near=["own-block-again", "products-added"]
def overlapped(A, B):
    def body(a, b):
        n, me = lax.axis_size("x"), lax.axis_index("x")
        out = lax.pcast(jnp.zeros((n, len(a), b.shape[1])), "x", to="varying")
        p = a @ b
        for s in range(n):
            out = out.at[(me - s) % n].set(p)
            p = lax.ppermute(p, "x", [(i, (i + 1) % n) for i in range(n)])
        return out.reshape(-1, b.shape[1])

    return jax.shard_map(body, in_specs=(P("x", None), P(None, "x")), out_specs=P(None, "x"))(A, B)


# %% the mean of a device's first column exercise="6.9" score=0 diagnoses=["one-column-each", "not-counted-yet"] near=["mean-of-sums"]
def iterate(A, V):
    def body(A, V):
        for _ in range(5):
            V = jnp.tanh(A @ V / 4)
        return lax.pmean(V[:, 0].mean(), "x")

    return jax.shard_map(body, in_specs=(P(), P(None, "x")), out_specs=P())(A, V)
