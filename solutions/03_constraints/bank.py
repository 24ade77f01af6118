# %% [markdown]
# Known answers to the exercises of notebook 03. A cell stands below what the exercise's cell was
# handed out with.

# %% the constraint before the sine exercise="3.1" score=1
def turned(x):
    return jnp.sin(with_sharding_constraint(x, on(grid, ("y",), ("x",))))


# %% the constraint's result thrown away exercise="3.1" score=0.3333333333 diagnoses=["nothing-moved", "not-counted-yet"]
def turned(x):
    result = jnp.sin(x)
    with_sharding_constraint(result, on(grid, "y", "x"))
    return result


# %% the layout that it has already exercise="3.1" score=0.3333333333 diagnoses=["nothing-moved", "not-counted-yet"]
def turned(x):
    return with_sharding_constraint(jnp.sin(x), on(grid, "x", "y"))


# %% device_put inside of jit exercise="3.1" score=0.3333333333 diagnoses=["nothing-moved", "not-counted-yet"]
def turned(x):
    return jax.device_put(jnp.sin(x), on(grid, "y", "x"))


# %% the array transposed exercise="3.1" score=0 diagnoses=["values", "shape", "not-counted-yet"]
def turned(x):
    return jnp.sin(x.T)


# %% the Explicit mesh exercise="3.1" score=0 diagnoses=["other-modes-verb"]
def turned(x):
    return with_sharding_constraint(jnp.sin(x), on(explicit_grid, "y", "x"))


# %% a name that ends the program for who reads its text exercise="3.1" score=0 diagnoses=["not-understood"]
def turned(x):
    from jax.experimental.xla_metadata import set_xla_metadata

    with set_xla_metadata(**{'a"\n}\nb': "c"}):
        result = jnp.sin(x)
    return with_sharding_constraint(with_sharding_constraint(result, on(grid)), on(grid, "y", "x"))


# %% a type given on the way exercise="3.1" score=0 diagnoses=["other-mode"]
def turned(x):
    return jax.reshard(jnp.sin(x), on(explicit_grid, "y", "x"))


# %% copies exercise="3.1" score=0.3333333333 diagnoses=["replicated", "all-gather over x"]
def turned(x):
    return with_sharding_constraint(jnp.sin(x), on(grid))


# %% through copies exercise="3.1" score=0.6666666667 diagnoses=["all-gather over x"]
def turned(x):
    everywhere = with_sharding_constraint(jnp.sin(x), on(grid))
    return with_sharding_constraint(everywhere, on(grid, "y", "x"))


# %% its own value in place of the function exercise="3.1" score=0 diagnoses=["not-a-function"]
turned = jax.device_put(jnp.sin(x), on(grid, "y", "x"))


# %% the layout of the argument first exercise="3.2" score=1
def copied_auto(x):
    return 2 * with_sharding_constraint(x, on(grid, None, None))


def copied_explicit(x):
    return 2 * jax.device_put(x, on(explicit_grid))


# %% the two verbs exchanged exercise="3.2" score=0.3333333333 diagnoses=["nothing-moved", "not-counted-yet"]
def copied_auto(x):
    return jax.reshard(2 * x, on(grid))


def copied_explicit(x):
    return with_sharding_constraint(2 * x, on(explicit_grid))


# %% out_shardings, jitted by itself exercise="3.2" score=1
copied_auto = jax.jit(lambda x: 2 * x, out_shardings=on(grid))
copied_explicit = jax.jit(lambda x: x + x, out_shardings=on(explicit_grid))


# %% the meshes exchanged exercise="3.2" score=0 diagnoses=["other-mode"]
def copied_auto(x):
    return jax.reshard(2 * x, on(explicit_grid))


def copied_explicit(x):
    return with_sharding_constraint(2 * x, on(grid))


# %% one verb for both exercise="3.2" score=0.6666666667 diagnoses=["nothing-moved", "not-counted-yet"]
def copied_auto(x):
    return with_sharding_constraint(2 * x, on(grid))


def copied_explicit(x):
    return with_sharding_constraint(2 * x, on(explicit_grid))


# %% copied along one axis only exercise="3.2" score=0.3333333333 diagnoses=["split-dimension", "not-counted-yet"]
def copied_auto(x):
    return with_sharding_constraint(2 * x, on(grid, "x"))


def copied_explicit(x):
    return jax.reshard(2 * x, on(explicit_grid, None, "y"))


# %% the verbs exchanged, and axes named exercise="3.2" score=0 diagnoses=["other-modes-verb"]
def copied_auto(x):
    return jax.reshard(2 * x, on(grid, "x"))


def copied_explicit(x):
    return with_sharding_constraint(2 * x, on(explicit_grid, "x"))


# %% the factor forgotten exercise="3.2" score=0 diagnoses=["values", "not-counted-yet"]
def copied_auto(x):
    return with_sharding_constraint(x, on(grid))


def copied_explicit(x):
    return jax.reshard(x, on(explicit_grid))


# %% a sum for everybody, of which each keeps a part exercise="3.3" score=1
def whole(A, B):
    return jax.reshard(jnp.dot(A, B, out_sharding=on(explicit_grid, "x")), on(explicit_grid))


def rows(A, B):
    return jax.reshard(jnp.dot(A, B, out_sharding=on(explicit_grid)), on(explicit_grid, "x"))


def columns(A, B):
    return jnp.einsum("ij,jk->ik", A, B, out_sharding=on(explicit_grid, None, "x"))


def together(A, B, C, D):
    left = jax.reshard(jnp.concatenate([A[None], C[None]]), on(explicit_grid, None, None, "x"))
    right = jnp.concatenate([B[None], D[None]])
    return jnp.einsum("nij,njk->ik", left, right, out_sharding=on(explicit_grid))


# %% reduced and gathered, and the factors brought together exercise="3.3" score=0.9166666667 diagnoses=["all-gather over x"]
def whole(A, B):
    everywhere = on(explicit_grid)
    return jax.reshard(A, everywhere) @ jax.reshard(B, everywhere)


def rows(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, "x"))


def columns(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, None, "x"))


def together(A, B, C, D):
    later = on(explicit_grid, unreduced={"x"})
    parts = jnp.dot(A, B, out_sharding=later) + jnp.dot(C, D, out_sharding=later)
    return jax.reshard(jax.reshard(parts, on(explicit_grid, "x")), on(explicit_grid))


# %% JAX's question unanswered exercise="3.3" score=0 diagnoses=["ambiguous", "bare-spec"]
def whole(A, B):
    return A @ B


def rows(A, B):
    return jax.reshard(A @ B, on(explicit_grid, "x"))


def columns(A, B):
    return jnp.dot(A, B, out_sharding=P(None, "x"))


def together(A, B, C, D):
    return A @ B + C @ D


# %% one all-reduce each, cut along y exercise="3.3" score=0.75 diagnoses=["replicated-dimension", "all-reduce over x", "too-many-bytes"]
def whole(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


def rows(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, "y"))


def columns(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, None, "x"))


def together(A, B, C, D):
    everywhere = on(explicit_grid)
    return jnp.dot(A, B, out_sharding=everywhere) + jnp.dot(C, D, out_sharding=everywhere)


# %% everything whole, and the parts never added up exercise="3.3" score=0.4166666667 diagnoses=["replicated", "all-reduce over x", "unreduced"]
def whole(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


def rows(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


def columns(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


def together(A, B, C, D):
    later = on(explicit_grid, None, None, unreduced={"x"})
    return jnp.dot(A, B, out_sharding=later) + jnp.dot(C, D, out_sharding=later)


# %% parts where the whole was asked for exercise="3.3" score=0.8333333333 diagnoses=["split-dimension", "reduce-scatter over x"]
def whole(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, "x"))


def rows(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, "x"))


def columns(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, None, "x"))


def together(A, B, C, D):
    later = on(explicit_grid, None, None, unreduced={"x"})
    parts = jnp.dot(C, D, out_sharding=later) + jnp.dot(A, B, out_sharding=later)
    return jax.reshard(parts, on(explicit_grid))


# %% a contraction with ones exercise="3.4" score=1
def spread_sum(x):
    ones = jax.reshard(jnp.ones(x.shape[0]), on(explicit_grid, "x"))
    return jnp.dot(ones, x, out_sharding=on(explicit_grid, ("y", "x")))


# %% the axes in the mesh's order exercise="3.4" score=0.3333333333 diagnoses=["device-order", "collective-permute over x, y"]
def spread_sum(x):
    return jax.reshard(x.sum(0), on(explicit_grid, ("x", "y")))


# %% everything brought together first exercise="3.4" score=0.6666666667 diagnoses=["all-gather over x"]
def spread_sum(x):
    return jax.reshard(jax.reshard(x, on(explicit_grid)).sum(0), on(explicit_grid, ("y", "x")))


# %% out_sharding where there is none exercise="3.4" score=0 diagnoses=["no-out-sharding"]
def spread_sum(x):
    return jnp.sum(x, 0, out_sharding=on(explicit_grid, ("y", "x")))


# %% in strips of columns first exercise="3.4" score=0.6666666667 diagnoses=["all-to-all over x"]
def spread_sum(x):
    return jax.reshard(x, on(explicit_grid, None, ("y", "x"))).sum(0)


# %% the sum as it comes exercise="3.4" score=0.3333333333 diagnoses=["replicated-dimension", "all-reduce over x"]
def spread_sum(x):
    return x.sum(0)


# %% the sum for everybody exercise="3.4" score=0.3333333333 diagnoses=["replicated", "all-gather over y"]
def spread_sum(x):
    return jax.reshard(x.sum(0), on(explicit_grid))


# %% the other mode's verb exercise="3.4" score=0 diagnoses=["other-modes-verb"]
def spread_sum(x):
    return with_sharding_constraint(x.sum(0), on(explicit_grid, ("y", "x")))


# %% the island around the roll alone, one axis opened exercise="3.5" score=1
def differences(x):
    roll = jax.sharding.auto_axes(
        lambda x: jnp.roll(x, 1, axis=1), axes="y", out_sharding=on(explicit_grid, "x", "y")
    )
    return x - roll(x)


# %% no island exercise="3.5" score=0 diagnoses=["untypable"]
def differences(x):
    return x - jnp.roll(x, 1, axis=1)


# %% an island that opens nothing exercise="3.5" score=0 diagnoses=["untypable"]
def differences(x):
    return jax.sharding.auto_axes(
        lambda x: x - jnp.roll(x, 1, axis=1), out_sharding=on(grid, "x", "y")
    )(x)


# %% whole rows first exercise="3.5" score=0.6666666667 diagnoses=["all-gather over y"]
def differences(x):
    whole_rows = jax.reshard(x, on(explicit_grid, "x"))
    return x - jax.reshard(jnp.roll(whole_rows, 1, axis=1), on(explicit_grid, "x", "y"))


# %% an island that comes out everywhere exercise="3.5" score=0.3333333333 diagnoses=["replicated", "all-gather over x"]
def differences(x):
    return jax.sharding.auto_axes(
        lambda x: x - jnp.roll(x, 1, axis=1), out_sharding=on(explicit_grid)
    )(x)


# %% in strips of rows, and back exercise="3.5" score=0.6666666667 diagnoses=["all-to-all over y"]
def differences(x):
    strips = jax.reshard(x, on(explicit_grid, ("x", "y")))
    return jax.reshard(strips - jnp.roll(strips, 1, axis=1), on(explicit_grid, "x", "y"))


# %% the other neighbour exercise="3.5" score=0 diagnoses=["values", "not-counted-yet"]
def differences(x):
    return jax.sharding.auto_axes(
        lambda x: x - jnp.roll(x, -1, axis=1), out_sharding=on(explicit_grid, "x", "y")
    )(x)


# %% x itself constrained, or the sum exercise="3.6" score=1
def steered(x):
    blocks = on(grid, "x", "y")
    return with_sharding_constraint(x + with_sharding_constraint(x, blocks).T, blocks)


# %% nothing said exercise="3.6" score=0.3333333333 diagnoses=["replicated", "all-gather over x"]
def steered(x):
    return x + x.T


# %% x held where it is exercise="3.6" score=0.3333333333 diagnoses=["replicated", "all-gather over x"]
def steered(x):
    x = with_sharding_constraint(x, on(grid, "x", "y"))
    return x + x.T


# %% the transpose held in its own layout exercise="3.6" score=0.3333333333 diagnoses=["replicated", "all-gather over x"]
def steered(x):
    return x + with_sharding_constraint(x.T, on(grid, "y", "x"))


# %% through strips of rows exercise="3.6" score=0.6666666667 diagnoses=["all-gather over y"]
def steered(x):
    return x + with_sharding_constraint(x.T, on(grid, "x"))


# %% through columns along y exercise="3.6" score=0.6666666667 diagnoses=["all-gather over parts of axes"]
def steered(x):
    return x + with_sharding_constraint(x, on(grid, "y")).T


# %% rows along y exercise="3.6" score=0.3333333333 diagnoses=["replicated-dimension", "all-gather over x"]
def steered(x):
    return x + with_sharding_constraint(x.T, on(grid, "y"))


# %% the transpose forgotten exercise="3.6" score=0 diagnoses=["values", "not-counted-yet"]
def steered(x):
    return with_sharding_constraint(x + x, on(grid, "x", "y"))


# %% other words for the same exercise="3.7" score=1
def layer_plain(x, w, b):
    return 1 / (1 + jnp.exp(-jnp.sum(x[:, None] * w, axis=0) - b))


def layer_constrained(x, w, b):
    products = with_sharding_constraint(x[:, None] * w, on(line, "x"))
    return jax.nn.sigmoid(products.sum(0) + b)


def layer_explicit(x, w, b):
    later = jnp.dot(x, w, out_sharding=on(explicit_line, None, unreduced={"x"}))
    return jax.nn.sigmoid(jax.reshard(later, on(explicit_line)) + b)


def layer_mapped(x, w, b):
    def body(x, w):
        return jax.lax.psum(x @ w, "x")

    summed = jax.shard_map(
        body, mesh=explicit_line, in_specs=(P("x"), P("x", None)), out_specs=P()
    )(x, w)
    return jax.nn.sigmoid(summed + b)


# %% the bias before the sum, a copy constrained exercise="3.7" score=0.4166666667 diagnoses=["all-gather over x", "ambiguous", "bias-eight-times", "not-counted-yet"]
def layer_plain(x, w, b):
    return jax.nn.sigmoid(x @ w + b)


def layer_constrained(x, w, b):
    everywhere = with_sharding_constraint(x, on(line))
    return jax.nn.sigmoid(everywhere @ with_sharding_constraint(w, on(line)) + b)


def layer_explicit(x, w, b):
    return jax.nn.sigmoid(x @ w + b)


def layer_mapped(x, w, b):
    def body(x, w, b):
        return jax.nn.sigmoid(jax.lax.psum(x @ w + b, "x"))

    specs = (P("x"), P("x", None), P())
    return jax.shard_map(body, mesh=explicit_line, in_specs=specs, out_specs=P())(x, w, b)


# %% the ways exchanged exercise="3.7" score=0.6666666667 diagnoses=["all-reduce by hand", "not-counted-yet", "no-shard-map"]
def layer_plain(x, w, b):
    return jax.nn.sigmoid(x @ w + b)


layer_constrained = layer_plain


def layer_explicit(x, w, b):
    def body(x, w, b):
        return jax.nn.sigmoid(jax.lax.psum(x @ w, "x") + b)

    specs = (P("x"), P("x", None), P())
    return jax.shard_map(body, mesh=explicit_line, in_specs=specs, out_specs=P())(x, w, b)


def layer_mapped(x, w, b):
    return jax.nn.sigmoid(jnp.dot(x, w, out_sharding=on(explicit_line)) + b)


# %% the sigmoid before the sum exercise="3.7" score=0 diagnoses=["unanswered", "sum-of-sigmoids", "not-counted-yet"]
def layer_mapped(x, w, b):
    def body(x, w, b):
        return jax.lax.psum(jax.nn.sigmoid(x @ w + b), "x")

    specs = (P("x"), P("x", None), P())
    return jax.shard_map(body, mesh=explicit_line, in_specs=specs, out_specs=P())(x, w, b)


# %% the parts never added up exercise="3.7" score=0 diagnoses=["unanswered", "not-replicated"]
def layer_mapped(x, w, b):
    def body(x, w, b):
        return jax.nn.sigmoid(x @ w + b)

    specs = (P("x"), P("x", None), P())
    return jax.shard_map(body, mesh=explicit_line, in_specs=specs, out_specs=P())(x, w, b)
