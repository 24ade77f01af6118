# %% [markdown]
# Known answers to the exercises of notebook 03. A cell stands below what the exercise's cell was
# handed out with.

# %% the constraint before the sine exercise="3.1" score=1 near=["nothing-moved", "sine-forgotten", "all-gather"]
def turned(x):
    return jnp.sin(with_sharding_constraint(x, on(grid, ("y",), ("x",))))


# %% the constraint's result thrown away exercise="3.1" score=0.25 diagnoses=["nothing-moved", "not-counted-yet"] near=["nothing-returned", "constraint-moves-nothing"]
def turned(x):
    result = jnp.sin(x)
    with_sharding_constraint(result, on(grid, "y", "x"))
    return result


# %% the layout that it has already exercise="3.1" score=0.25 diagnoses=["constraint-moves-nothing", "not-counted-yet"] near=["nothing-moved"]
def turned(x):
    return with_sharding_constraint(jnp.sin(x), on(grid, "x", "y"))


# %% device_put inside of jit exercise="3.1" score=0.25 diagnoses=["nothing-moved", "not-counted-yet"]
def turned(x):
    return jax.device_put(jnp.sin(x), on(grid, "y", "x"))


# %% the array transposed exercise="3.1" score=0 diagnoses=["data-turned", "shape", "not-counted-yet"] near=["cosine", "nothing-moved"]
def turned(x):
    return jnp.sin(x.T)


# %% the Explicit mesh exercise="3.1" score=0 diagnoses=["other-modes-verb"] near=["replicated"]
def turned(x):
    return with_sharding_constraint(jnp.sin(x), on(explicit_grid, "y", "x"))


# %% a name that ends the program for who reads its text exercise="3.1" score=0 diagnoses=["not-understood"]
def turned(x):
    from jax.experimental.xla_metadata import set_xla_metadata

    with set_xla_metadata(**{'a"\n}\nb': "c"}):
        result = jnp.sin(x)
    return with_sharding_constraint(with_sharding_constraint(result, on(grid)), on(grid, "y", "x"))


# %% a type given on the way exercise="3.1" score=0 diagnoses=["other-mode"] near=["other-modes-verb"]
def turned(x):
    return jax.reshard(jnp.sin(x), on(explicit_grid, "y", "x"))


# %% copies exercise="3.1" score=0.25 diagnoses=["replicated", "all-gather over x"]
def turned(x):
    return with_sharding_constraint(jnp.sin(x), on(grid))


# %% through copies exercise="3.1" score=0.625 diagnoses=["all-gather over x"] near=["replicated"]
def turned(x):
    everywhere = with_sharding_constraint(jnp.sin(x), on(grid))
    return with_sharding_constraint(everywhere, on(grid, "y", "x"))


# %% its own value in place of the function exercise="3.1" score=0 diagnoses=["not-a-function"]
turned = jax.device_put(jnp.sin(x), on(grid, "y", "x"))


# %% nothing said exercise="3.1" score=0.25 diagnoses=["nothing-moved", "not-counted-yet"] naive=true near=["sine-forgotten"]
def turned(x):
    return jnp.sin(x)


# %% the sine forgotten exercise="3.1" score=0 diagnoses=["sine-forgotten", "not-counted-yet"] near=["data-turned", "cosine"]
def turned(x):
    return with_sharding_constraint(x, on(grid, "y", "x"))


# %% the cosine exercise="3.1" score=0 diagnoses=["cosine", "not-counted-yet"] near=["sine-forgotten", "data-turned"]
def turned(x):
    return with_sharding_constraint(jnp.cos(x), on(grid, "y", "x"))


# %% nothing returned exercise="3.1" score=0 diagnoses=["nothing-returned"] near=["nothing-moved"]
def turned(x):
    with_sharding_constraint(jnp.sin(x), on(grid, "y", "x"))


# %% the size written in exercise="3.1" score=0 diagnoses=["only-the-first"]
def turned(x):
    return with_sharding_constraint(jnp.sin(x).reshape(16, 16), on(grid, "y", "x"))


# %% jitted, and laid out at its end exercise="3.1" score=1 near=["other-modes-verb"]
turned = jax.jit(jnp.sin, out_shardings=on(grid, "y", "x"))


# %% under a name with odd characters exercise="3.1" score=1 near=["not-understood"]
def turned(x):
    with jax.named_scope('a"\n}\nb'):
        return with_sharding_constraint(jnp.sin(x), on(grid, "y", "x"))


# %% the layout of the argument first exercise="3.2" score=1 near=["nothing-moved"]
def copied_auto(x):
    return 2 * with_sharding_constraint(x, on(grid, None, None))


def copied_explicit(x):
    return 2 * jax.device_put(x, on(explicit_grid))


# %% the two verbs exchanged exercise="3.2" score=0.25 diagnoses=["nothing-moved", "not-counted-yet"]
def copied_auto(x):
    return jax.reshard(2 * x, on(grid))


def copied_explicit(x):
    return with_sharding_constraint(2 * x, on(explicit_grid))


# %% out_shardings, jitted by itself exercise="3.2" score=1 near=["split-dimension"]
copied_auto = jax.jit(lambda x: 2 * x, out_shardings=on(grid))
copied_explicit = jax.jit(lambda x: x + x, out_shardings=on(explicit_grid))


# %% the meshes exchanged exercise="3.2" score=0 diagnoses=["other-mode"]
def copied_auto(x):
    return jax.reshard(2 * x, on(explicit_grid))


def copied_explicit(x):
    return with_sharding_constraint(2 * x, on(grid))


# %% one verb for both exercise="3.2" score=0.625 diagnoses=["nothing-moved", "not-counted-yet"]
def copied_auto(x):
    return with_sharding_constraint(2 * x, on(grid))


def copied_explicit(x):
    return with_sharding_constraint(2 * x, on(explicit_grid))


# %% copied along one axis only exercise="3.2" score=0.25 diagnoses=["split-dimension", "not-counted-yet"] near=["all-to-all"]
def copied_auto(x):
    return with_sharding_constraint(2 * x, on(grid, "x"))


def copied_explicit(x):
    return jax.reshard(2 * x, on(explicit_grid, None, "y"))


# %% the verbs exchanged, and axes named exercise="3.2" score=0 diagnoses=["other-modes-verb"] near=["other-mode"]
def copied_auto(x):
    return jax.reshard(2 * x, on(grid, "x"))


def copied_explicit(x):
    return with_sharding_constraint(2 * x, on(explicit_grid, "x"))


# %% the factor forgotten exercise="3.2" score=0 diagnoses=["off-by-a-factor", "not-counted-yet"]
def copied_auto(x):
    return with_sharding_constraint(x, on(grid))


def copied_explicit(x):
    return jax.reshard(x, on(explicit_grid))


# %% twice x as it comes exercise="3.2" score=0.25 diagnoses=["nothing-moved", "not-counted-yet"] naive=true near=["split-dimension"]
def copied_auto(x):
    return 2 * x


def copied_explicit(x):
    return 2 * x


# %% device_put in both exercise="3.2" score=0.625 diagnoses=["nothing-moved", "not-counted-yet"]
def copied_auto(x):
    return jax.device_put(2 * x, on(grid))


def copied_explicit(x):
    return jax.device_put(2 * x, on(explicit_grid))


# %% what the right verb gives back thrown away exercise="3.2" score=0.25 diagnoses=["nothing-moved", "not-counted-yet"]
def copied_auto(x):
    result = 2 * x
    with_sharding_constraint(result, on(grid))
    return result


def copied_explicit(x):
    result = 2 * x
    jax.reshard(result, on(explicit_grid))
    return result


# %% rows for everybody exercise="3.2" score=0.25 diagnoses=["split-dimension", "all-to-all over y"] near=["nothing-moved"]
def copied_auto(x):
    return with_sharding_constraint(2 * x, on(grid, ("x", "y")))


def copied_explicit(x):
    return jax.reshard(2 * x, on(explicit_grid, ("x", "y")))


# %% through fewer digits, and whole numbers exercise="3.2" score=0 diagnoses=["fewer-digits", "not-counted-yet", "dtype"]
def copied_auto(x):
    return with_sharding_constraint((2 * x).astype(jnp.bfloat16), on(grid)).astype(jnp.float32)


def copied_explicit(x):
    return jax.reshard((2 * x).astype(jnp.int32), on(explicit_grid))


# %% by hand, and on an island exercise="3.2" score=1 near=["nothing-moved", "split-dimension"]
def copied_auto(x):
    def body(x):
        rows = jax.lax.all_gather(2 * x, "y", axis=1, tiled=True)
        return jax.lax.all_gather(rows, "x", axis=0, tiled=True)

    return jax.shard_map(body, mesh=grid, in_specs=P("x", "y"), out_specs=P(), check_vma=False)(x)


def copied_explicit(x):
    return jax.sharding.auto_axes(lambda x: 2 * x, out_sharding=on(explicit_grid))(x)


# %% on another mesh of the same mode exercise="3.2" score=0.25 diagnoses=["another-mesh", "not-counted-yet"] near=["split-dimension"]
def copied_auto(x):
    return with_sharding_constraint(2 * x, on(line))


def copied_explicit(x):
    return jax.reshard(2 * x, on(explicit_line))


# %% on a mesh of one's own that is the same exercise="3.2" score=1 near=["another-mesh"]
def copied_auto(x):
    same = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AUTO,) * 2)
    return with_sharding_constraint(2 * x, NamedSharding(same, P()))


def copied_explicit(x):
    same = jax.make_mesh((4, 2), ("x", "y"), axis_types=(EXPLICIT,) * 2)
    return jax.reshard(2 * x, NamedSharding(same, P()))


# %% through complex numbers, and added to itself exercise="3.2" score=0.8125 diagnoses=["too-many-bytes"] near=["fewer-digits", "dtype"]
def copied_auto(x):
    return with_sharding_constraint((2 * x.astype(jnp.complex64)).real, on(grid))


def copied_explicit(x):
    return jax.reshard(x + x, on(explicit_grid))


# %% squared, and one more than twice exercise="3.2" score=0 diagnoses=["squared", "not-counted-yet", "off-by-a-constant"] near=["off-by-a-factor"]
def copied_auto(x):
    return with_sharding_constraint(x**2, on(grid))


def copied_explicit(x):
    return jax.reshard(2 * x + 1, on(explicit_grid))


# %% a sum for everybody, of which each keeps a part exercise="3.3" score=1 near=["replicated", "all-reduce", "cross-terms", "too-many-bytes"]
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


# %% reduced and gathered, and the factors brought together exercise="3.3" score=0.90625 diagnoses=["all-gather over x"] near=["reduce-scatter", "unreduced"]
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


# %% JAX's question unanswered exercise="3.3" score=0 diagnoses=["ambiguous", "bare-spec"] near=["all-gather", "split-dimension"]
def whole(A, B):
    return A @ B


def rows(A, B):
    return jax.reshard(A @ B, on(explicit_grid, "x"))


def columns(A, B):
    return jnp.dot(A, B, out_sharding=P(None, "x"))


def together(A, B, C, D):
    return A @ B + C @ D


# %% one all-reduce each, cut along y exercise="3.3" score=0.5 diagnoses=["replicated-dimension", "all-reduce over x", "too-many-bytes"] near=["one-product", "replicated"]
def whole(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


def rows(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, "y"))


def columns(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, None, "x"))


def together(A, B, C, D):
    everywhere = on(explicit_grid)
    return jnp.dot(A, B, out_sharding=everywhere) + jnp.dot(C, D, out_sharding=everywhere)


# %% everything whole, and the parts never added up exercise="3.3" score=0.1875 diagnoses=["replicated", "all-reduce over x", "unreduced"] near=["replicated-dimension", "ambiguous", "bare-spec", "other-unreduced-axes"]
def whole(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


def rows(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


def columns(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


def together(A, B, C, D):
    later = on(explicit_grid, None, None, unreduced={"x"})
    return jnp.dot(A, B, out_sharding=later) + jnp.dot(C, D, out_sharding=later)


# %% parts where the whole was asked for exercise="3.3" score=0.890625 diagnoses=["split-dimension", "reduce-scatter over x"] near=["replicated-dimension"]
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


# %% everywhere, whatever was asked exercise="3.3" score=0.28125 diagnoses=["replicated", "all-reduce over x", "too-many-bytes"] naive=true near=["ambiguous", "reduce-scatter", "all-gather", "one-product", "of-another-name"]
def whole(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


rows = columns = whole


def together(A, B, C, D):
    return whole(A, B) + whole(C, D)


# %% rows and columns exchanged, and one sum after the other exercise="3.3" score=0.28125 diagnoses=["of-another-name", "not-counted-yet", "reduce-scatter over x"] near=["too-many-bytes", "split-dimension", "all-gather"]
def whole(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


def rows(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, None, "x"))


def columns(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, "x"))


def together(A, B, C, D):
    return jax.reshard(columns(A, B) + columns(C, D), on(explicit_grid))


# %% sums before the product exercise="3.3" score=0.625 diagnoses=["cross-terms", "not-counted-yet"] near=["one-product", "too-many-bytes", "all-to-all"]
def whole(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, None, None))


def rows(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, "x", None))


def columns(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, None, "x"))


def together(A, B, C, D):
    return jnp.dot(A + C, B + D, out_sharding=on(explicit_grid))


# %% one product of the two exercise="3.3" score=0.125 diagnoses=["unanswered", "one-product", "not-counted-yet"] near=["cross-terms", "unreduced"]
def whole(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


def together(A, B, C, D):
    return whole(A, B)


# %% by shard_map, and on an equal mesh exercise="3.3" score=1 near=["all-gather", "unreduced", "another-mesh"]
same = jax.make_mesh((4, 2), ("x", "y"), axis_types=(EXPLICIT,) * 2)


def whole(A, B):
    def body(A, B):
        return jax.lax.psum(A @ B, "x")

    specs = (P(None, "x"), P("x", None))
    return jax.shard_map(body, mesh=explicit_grid, in_specs=specs, out_specs=P())(A, B)


def rows(A, B):
    return jax.reshard(jnp.dot(A, B, out_sharding=on(same, unreduced={"x"})), on(same, "x"))


def columns(A, B):
    return jnp.matmul(A, B, out_sharding=on(same, None, "x"))


def together(A, B, C, D):
    def body(A, B, C, D):
        return jax.lax.psum(A @ B + C @ D, "x")

    specs = (P(None, "x"), P("x", None)) * 2
    return jax.shard_map(body, mesh=explicit_grid, in_specs=specs, out_specs=P())(A, B, C, D)


# %% everywhere on another mesh exercise="3.3" score=0.015625 diagnoses=["another-mesh", "not-counted-yet", "unanswered"] near=["ambiguous"]
def whole(A, B):
    everywhere = jnp.dot(A, B, out_sharding=on(explicit_grid))
    return jax.reshard(everywhere, on(explicit_line))


# %% a contraction with ones exercise="3.4" score=1 near=["as-the-sum-comes", "no-out-sharding"]
def spread_sum(x):
    ones = jax.reshard(jnp.ones(x.shape[0]), on(explicit_grid, "x"))
    return jnp.dot(ones, x, out_sharding=on(explicit_grid, ("y", "x")))


# %% the axes in the mesh's order exercise="3.4" score=0.125 diagnoses=["the-other-order", "collective-permute over x, y"] near=["all-to-all", "all-gather", "along-x-alone"]
def spread_sum(x):
    return jax.reshard(x.sum(0), on(explicit_grid, ("x", "y")))


# %% everything brought together first exercise="3.4" score=0.25 diagnoses=["all-gather over x"] near=["replicated", "all-to-all"]
def spread_sum(x):
    return jax.reshard(jax.reshard(x, on(explicit_grid)).sum(0), on(explicit_grid, ("y", "x")))


# %% out_sharding where there is none exercise="3.4" score=0 diagnoses=["no-out-sharding"]
def spread_sum(x):
    return jnp.sum(x, 0, out_sharding=on(explicit_grid, ("y", "x")))


# %% in strips of columns first exercise="3.4" score=0.25 diagnoses=["all-to-all over x"] near=["collective-permute", "the-other-order"]
def spread_sum(x):
    return jax.reshard(x, on(explicit_grid, None, ("y", "x"))).sum(0)


# %% the sum as it comes exercise="3.4" score=0.125 diagnoses=["as-the-sum-comes", "all-reduce over x"] naive=true near=["replicated", "along-x-alone"]
def spread_sum(x):
    return x.sum(0)


# %% the sum for everybody exercise="3.4" score=0.125 diagnoses=["replicated", "all-gather over y"]
def spread_sum(x):
    return jax.reshard(x.sum(0), on(explicit_grid))


# %% the other mode's verb exercise="3.4" score=0 diagnoses=["other-modes-verb"]
def spread_sum(x):
    return with_sharding_constraint(x.sum(0), on(explicit_grid, ("y", "x")))


# %% what reshard gives back thrown away exercise="3.4" score=0.125 diagnoses=["as-the-sum-comes", "all-reduce over x"]
def spread_sum(x):
    total = x.sum(0)
    jax.reshard(total, on(explicit_grid, ("y", "x")))
    return total


# %% the mean exercise="3.4" score=0 diagnoses=["mean-for-sum", "not-counted-yet"] near=["rows-summed", "dimension-kept"]
def spread_sum(x):
    return jax.reshard(x.sum(0), on(explicit_grid, ("y", "x"))) / x.shape[0]


# %% the sums of the rows exercise="3.4" score=0 diagnoses=["rows-summed", "shape", "reduce-scatter over y"] near=["mean-for-sum", "all-reduce"]
def spread_sum(x):
    return jax.reshard(x.sum(1), on(explicit_grid, ("y", "x")))


# %% the dimension kept exercise="3.4" score=0 diagnoses=["dimension-kept", "shape", "not-counted-yet"] near=["rows-summed", "no-out-sharding"]
def spread_sum(x):
    return jax.reshard(x.sum(0, keepdims=True), on(explicit_grid, None, ("y", "x")))


# %% cut along x alone exercise="3.4" score=0.125 diagnoses=["along-x-alone", "all-reduce over x"] near=["the-other-order", "as-the-sum-comes"]
def spread_sum(x):
    return jax.reshard(x.sum(0), on(explicit_grid, "x"))


# %% by hand exercise="3.4" score=1 near=["all-reduce", "other-modes-verb"]
def spread_sum(x):
    def body(x):
        return jax.lax.psum_scatter(x.sum(0), "x", tiled=True)

    return jax.shard_map(body, mesh=explicit_grid, in_specs=P("x", "y"), out_specs=P(("y", "x")))(x)


# %% the island around the roll alone, one axis opened exercise="3.5" score=1 near=["untypable", "other-neighbour", "all-gather"]
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


# %% whole rows first exercise="3.5" score=0.25 diagnoses=["all-gather over y"] near=["replicated", "all-to-all"]
def differences(x):
    whole_rows = jax.reshard(x, on(explicit_grid, "x"))
    return x - jax.reshard(jnp.roll(whole_rows, 1, axis=1), on(explicit_grid, "x", "y"))


# %% an island that comes out everywhere exercise="3.5" score=0.125 diagnoses=["replicated", "all-gather over x"]
def differences(x):
    return jax.sharding.auto_axes(
        lambda x: x - jnp.roll(x, 1, axis=1), out_sharding=on(explicit_grid)
    )(x)


# %% in strips of rows, and back exercise="3.5" score=0.25 diagnoses=["all-to-all over y"]
def differences(x):
    strips = jax.reshard(x, on(explicit_grid, ("x", "y")))
    return jax.reshard(strips - jnp.roll(strips, 1, axis=1), on(explicit_grid, "x", "y"))


# %% the other neighbour exercise="3.5" score=0 diagnoses=["other-neighbour", "not-counted-yet"] near=["rows-rolled", "rolled-alone", "not-a-ring"]
def differences(x):
    return jax.sharding.auto_axes(
        lambda x: x - jnp.roll(x, -1, axis=1), out_sharding=on(explicit_grid, "x", "y")
    )(x)


# %% each block rolled in itself exercise="3.5" score=0 diagnoses=["blocks-alone", "not-counted-yet"] near=["other-neighbour", "not-a-ring", "untypable"]
def differences(x):
    def body(mine):
        return mine - jnp.roll(mine, 1, axis=1)

    return jax.shard_map(body, mesh=explicit_grid, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% rows in place of columns exercise="3.5" score=0 diagnoses=["rows-rolled", "not-counted-yet", "collective-permute over x"] near=["other-neighbour", "blocks-alone"]
def differences(x):
    return jax.sharding.auto_axes(
        lambda x: x - jnp.roll(x, 1, axis=0), out_sharding=on(explicit_grid, "x", "y")
    )(x)


# %% the rolled array exercise="3.5" score=0 diagnoses=["rolled-alone", "not-counted-yet"] near=["rows-rolled", "blocks-alone"]
def differences(x):
    return jax.sharding.auto_axes(
        lambda x: jnp.roll(x, 1, axis=1), out_sharding=on(explicit_grid, "x", "y")
    )(x)


# %% no ring exercise="3.5" score=0 diagnoses=["not-a-ring", "not-counted-yet", "all-to-all over y"] near=["blocks-alone", "rolled-alone"]
def differences(x):
    def from_the_left(x):
        return jnp.diff(x, axis=1, prepend=jnp.zeros((x.shape[0], 1), x.dtype))

    return jax.sharding.auto_axes(from_the_left, out_sharding=on(explicit_grid, "x", "y"))(x)


# %% an island that ends in strips exercise="3.5" score=0.125 diagnoses=["grid", "all-to-all over y"] near=["replicated", "all-gather"]
def differences(x):
    return jax.sharding.auto_axes(
        lambda x: x - jnp.roll(x, 1, axis=1), out_sharding=on(explicit_grid, ("x", "y"))
    )(x)


# %% everything everywhere, and cut again exercise="3.5" score=0.25 diagnoses=["all-gather over x"] naive=true near=["grid", "replicated", "collective-permute"]
def differences(x):
    everywhere = jax.reshard(x, on(explicit_grid))
    return jax.reshard(everywhere - jnp.roll(everywhere, 1, axis=1), on(explicit_grid, "x", "y"))


# %% x itself constrained, or the sum exercise="3.6" score=1 near=["replicated", "too-many-bytes", "turned-twice"]
def steered(x):
    blocks = on(grid, "x", "y")
    return with_sharding_constraint(x + with_sharding_constraint(x, blocks).T, blocks)


# %% nothing said exercise="3.6" score=0.125 diagnoses=["replicated", "all-gather over x"] naive=true near=["replicated-dimension", "added-to-itself"]
def steered(x):
    return x + x.T


# %% x held where it is exercise="3.6" score=0.125 diagnoses=["replicated", "all-gather over x"]
def steered(x):
    x = with_sharding_constraint(x, on(grid, "x", "y"))
    return x + x.T


# %% the transpose held in its own layout exercise="3.6" score=0.125 diagnoses=["replicated", "all-gather over x"]
def steered(x):
    return x + with_sharding_constraint(x.T, on(grid, "y", "x"))


# %% through strips of rows exercise="3.6" score=0.25 diagnoses=["all-gather over y"] near=["replicated-dimension", "grid"]
def steered(x):
    return x + with_sharding_constraint(x.T, on(grid, "x"))


# %% through columns along y exercise="3.6" score=0.25 diagnoses=["all-gather over parts of axes"]
def steered(x):
    return x + with_sharding_constraint(x, on(grid, "y")).T


# %% rows along y exercise="3.6" score=0.125 diagnoses=["replicated-dimension", "all-gather over x"]
def steered(x):
    return x + with_sharding_constraint(x.T, on(grid, "y"))


# %% the transpose forgotten exercise="3.6" score=0 diagnoses=["added-to-itself", "not-counted-yet"] near=["turned-alone", "one-triangle", "all-gather"]
def steered(x):
    return with_sharding_constraint(x + x, on(grid, "x", "y"))


# %% the constraint thrown away exercise="3.6" score=0.125 diagnoses=["replicated", "all-gather over x"]
def steered(x):
    turned = x.T
    with_sharding_constraint(turned, on(grid, "x", "y"))
    return x + turned


# %% device_put inside of jit exercise="3.6" score=0.125 diagnoses=["replicated", "all-gather over x"]
def steered(x):
    return x + jax.device_put(x.T, on(grid, "x", "y"))


# %% strips, as last time exercise="3.6" score=0.125 diagnoses=["grid", "too-many-bytes"] near=["transposed", "all-gather"]
def steered(x):
    x = with_sharding_constraint(x, on(grid, ("x", "y")))
    return x + x.T


# %% the sum laid out as the transpose is exercise="3.6" score=0.125 diagnoses=["transposed", "not-counted-yet"] near=["grid", "turned-alone"]
def steered(x):
    return with_sharding_constraint(x + x.T, on(grid, "y", "x"))


# %% everything on everybody, and cut again exercise="3.6" score=0.25 diagnoses=["all-gather over x"] naive=true near=["replicated", "too-many-bytes"]
def steered(x):
    turned = with_sharding_constraint(x.T, on(grid))
    return with_sharding_constraint(x + turned, on(grid, "x", "y"))


# %% the transpose alone exercise="3.6" score=0 diagnoses=["turned-alone", "not-counted-yet"] near=["turned-twice", "transposed"]
def steered(x):
    return with_sharding_constraint(x.T, on(grid, "x", "y"))


# %% the transpose twice exercise="3.6" score=0 diagnoses=["turned-twice", "not-counted-yet"] near=["added-to-itself", "turned-alone"]
def steered(x):
    x = with_sharding_constraint(x.T, on(grid, "x", "y"))
    return x + x


# %% one triangle exercise="3.6" score=0 diagnoses=["one-triangle", "not-counted-yet"] near=["added-to-itself"]
def steered(x):
    upper = jnp.triu(x)
    return with_sharding_constraint(upper + upper.T, on(grid, "x", "y"))


# %% the other mode's verb exercise="3.6" score=0 diagnoses=["other-modes-verb"]
def steered(x):
    return x + jax.reshard(x.T, on(grid, "x", "y"))


# %% a constraint on the x that is added exercise="3.6" score=1 near=["replicated", "all-gather", "other-modes-verb"]
def steered(x):
    return with_sharding_constraint(x, on(grid, "x", "y")) + x.T


# %% other words for the same exercise="3.7" score=1 near=["no-constraint", "explicit all-reduce", "layer_explicit: ambiguous", "bias-last"]
def layer_plain(x, w, b):
    return 1 / (1 + jnp.exp(-jnp.sum(x[:, None] * w, axis=0) - b))


def layer_constrained(x, w, b):
    total = with_sharding_constraint((x[:, None] * w).sum(0), on(line))
    return jax.nn.sigmoid(total + b)


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


# %% the bias before the sum, a copy constrained exercise="3.7" score=0.1875 diagnoses=["no-constraint", "all-gather over x", "ambiguous", "bias-eight-times", "not-counted-yet"] near=["bias-last", "sum-of-sigmoids", "no all-reduce"]
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


# %% the ways exchanged exercise="3.7" score=0.28125 diagnoses=["no-constraint", "not-counted-yet", "explicit all-reduce", "no-shard-map"] near=["layer_explicit: ambiguous", "layer_mapped: ambiguous", "sigmoid-forgotten"]
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


# %% the sigmoid before the sum exercise="3.7" score=0 diagnoses=["unanswered", "sum-of-sigmoids", "not-counted-yet"] near=["bias-eight-times", "mean-for-sum", "sigmoid-forgotten"]
def layer_mapped(x, w, b):
    def body(x, w, b):
        return jax.lax.psum(jax.nn.sigmoid(x @ w + b), "x")

    specs = (P("x"), P("x", None), P())
    return jax.shard_map(body, mesh=explicit_line, in_specs=specs, out_specs=P())(x, w, b)


# %% the parts never added up exercise="3.7" score=0 diagnoses=["unanswered", "not-replicated"] near=["no all-reduce", "sum-of-sigmoids"]
def layer_mapped(x, w, b):
    def body(x, w, b):
        return jax.nn.sigmoid(x @ w + b)

    specs = (P("x"), P("x", None), P())
    return jax.shard_map(body, mesh=explicit_line, in_specs=specs, out_specs=P())(x, w, b)


# %% one function four times exercise="3.7" score=0.28125 diagnoses=["no-constraint", "ambiguous"] naive=true near=["no-shard-map", "explicit all-reduce", "not-replicated", "constrained"]
def layer_plain(x, w, b):
    return jax.nn.sigmoid(x @ w + b)


layer_constrained = layer_explicit = layer_mapped = layer_plain


# %% everything brought together exercise="3.7" score=0.390625 diagnoses=["all-gather over x", "no-constraint", "no all-reduce"] near=["not-replicated", "explicit all-reduce"]
def layer_plain(x, w, b):
    x, w = with_sharding_constraint(x, on(line)), with_sharding_constraint(w, on(line))
    return jax.nn.sigmoid(x @ w + b)


layer_constrained = layer_plain


def layer_explicit(x, w, b):
    x, w = jax.reshard(x, on(explicit_line)), jax.reshard(w, on(explicit_line))
    return jax.nn.sigmoid(x @ w + b)


def layer_mapped(x, w, b):
    def body(x, w, b):
        x = jax.lax.all_gather(x, "x", tiled=True)
        w = jax.lax.all_gather(w, "x", tiled=True)
        return jax.nn.sigmoid(x @ w + b)

    specs = (P("x"), P("x", None), P())
    return jax.shard_map(body, mesh=explicit_line, in_specs=specs, out_specs=P(), check_vma=False)(
        x, w, b
    )


# %% a constraint thrown away, the mean, no sigmoid, no bias exercise="3.7" score=0 diagnoses=["bias-forgotten", "not-counted-yet", "sigmoid-forgotten", "no-constraint", "bias-last", "mean-for-sum"] near=["bias-eight-times", "sum-of-sigmoids", "no all-reduce"]
def layer_plain(x, w, b):
    return jax.nn.sigmoid(x @ w)


def layer_constrained(x, w, b):
    sums = x @ w
    with_sharding_constraint(sums, on(line))
    return sums + b


def layer_explicit(x, w, b):
    return jax.nn.sigmoid(jnp.dot(x, w, out_sharding=on(explicit_line))) + b


def layer_mapped(x, w, b):
    def body(x, w, b):
        return jax.nn.sigmoid(jax.lax.pmean(x @ w, "x") + b)

    specs = (P("x"), P("x", None), P())
    return jax.shard_map(body, mesh=explicit_line, in_specs=specs, out_specs=P())(x, w, b)


# %% the constraint in the wrong one exercise="3.7" score=0.859375 diagnoses=["constrained", "no-constraint"] near=["all-gather", "bias-forgotten", "mean-for-sum", "no-shard-map"]
def layer_plain(x, w, b):
    return jax.nn.sigmoid(with_sharding_constraint(x @ w, on(line)) + b)


def layer_constrained(x, w, b):
    return jax.nn.sigmoid(x @ w + b)


def layer_explicit(x, w, b):
    return jax.nn.sigmoid(jnp.dot(x, w, out_sharding=on(explicit_line)) + b)


def layer_mapped(x, w, b):
    def body(x, w, b):
        return jax.nn.sigmoid(jax.lax.psum(x @ w, "x") + b)

    specs = (P("x"), P("x", None), P())
    return jax.shard_map(body, mesh=explicit_line, in_specs=specs, out_specs=P())(x, w, b)


# %% the constraint on an argument, times one exercise="3.7" score=0.15625 diagnoses=["unanswered", "constraint-elsewhere"] near=["no-constraint"]
def layer_constrained(x, w, b):
    x = with_sharding_constraint(x * 1.0, on(line, "x"))
    return jax.nn.sigmoid(x @ w + b)


# %% the products constrained to blocks exercise="3.7" score=0.15625 diagnoses=["unanswered", "constraint-elsewhere"]
def layer_constrained(x, w, b):
    products = with_sharding_constraint(x[:, None] * w, on(line, "x"))
    return jax.nn.sigmoid(products.sum(0) + b)


# %% what comes of the product constrained exercise="3.7" score=0.25 diagnoses=["unanswered"] near=["constraint-elsewhere"]
def layer_constrained(x, w, b):
    return with_sharding_constraint(jax.nn.sigmoid(x @ w + b), on(line))


# %% squares, and eight times as much exercise="3.2" score=0 diagnoses=["squared", "not-counted-yet", "off-by-a-factor"] near=["values"]
def copied_auto(x):
    return with_sharding_constraint(x * x, on(grid))


def copied_explicit(x):
    return jax.reshard(8 * x, on(explicit_grid))


# %% x plus two exercise="3.2" score=0 diagnoses=["values", "not-counted-yet", "unanswered"] near=["squared"]
def copied_auto(x):
    return with_sharding_constraint(x + 2, on(grid))


# %% out_specs P() of a block exercise="3.2" score=0 diagnoses=["unanswered", "not-replicated"] near=["nothing-moved"]
def copied_explicit(x):
    return jax.shard_map(
        lambda block: 2 * block, mesh=explicit_grid, in_specs=P("x", "y"), out_specs=P()
    )(x)


# %% gathered, unchecked exercise="3.2" score=0.5 diagnoses=["unanswered"] near=["not-replicated"]
def copied_explicit(x):
    def body(block):
        rows = jax.lax.all_gather(block, "y", axis=1, tiled=True)
        return 2 * jax.lax.all_gather(rows, "x", tiled=True)

    return jax.shard_map(
        body, mesh=explicit_grid, in_specs=P("x", "y"), out_specs=P(), check_vma=False
    )(x)


# %% the factors exchanged, and nothing said exercise="3.3" score=0 diagnoses=["same-axis-twice", "unanswered"] near=["ambiguous", "raised"]
def whole(A, B):
    return jnp.dot(B, A)


# %% element by element exercise="3.3" score=0 diagnoses=["same-axis-twice", "unanswered"] near=["ambiguous"]
def whole(A, B):
    return jax.reshard(A * B, on(explicit_grid))


# %% nothing said of the factors in order exercise="3.3" score=0 diagnoses=["ambiguous", "unanswered"] near=["same-axis-twice"]
def whole(A, B):
    return A @ B


# %% the first product twice exercise="3.3" score=0 diagnoses=["unanswered", "first-twice", "not-counted-yet"] near=["one-product", "second-twice", "cross-terms"]
def together(A, B, C, D):
    waiting = on(explicit_grid, unreduced={"x"})
    first = jnp.dot(A, B, out_sharding=waiting)
    return jax.reshard(first + first, on(explicit_grid))


# %% the second product twice exercise="3.3" score=0 diagnoses=["unanswered", "second-twice", "not-counted-yet"] near=["other-product", "first-twice"]
def together(A, B, C, D):
    waiting = on(explicit_grid, unreduced={"x"})
    second = jnp.dot(C, D, out_sharding=waiting)
    return jax.reshard(second + second, on(explicit_grid))


# %% the second product alone exercise="3.3" score=0 diagnoses=["unanswered", "other-product", "not-counted-yet"] near=["one-product", "second-twice", "subtracted"]
def together(A, B, C, D):
    return jnp.dot(C, D, out_sharding=on(explicit_grid))


# %% one product minus the other exercise="3.3" score=0 diagnoses=["unanswered", "subtracted", "not-counted-yet", "too-many-bytes"] near=["other-product", "values"]
def together(A, B, C, D):
    everywhere = on(explicit_grid)
    return jnp.dot(A, B, out_sharding=everywhere) - jnp.dot(C, D, out_sharding=everywhere)


# %% the largest of each column exercise="3.4" score=0 diagnoses=["max-for-sum", "not-counted-yet"] near=["mean-for-sum", "values"]
def spread_sum(x):
    return jax.reshard(x.max(0), on(explicit_grid, ("y", "x")))


# %% the smallest of each column exercise="3.4" score=0 diagnoses=["values", "not-counted-yet"] near=["max-for-sum"]
def spread_sum(x):
    return jax.reshard(x.min(0), on(explicit_grid, ("y", "x")))


# %% the sum of all, as often as there are columns exercise="3.4" score=0 diagnoses=["one-sum-for-all", "replicated", "all-reduce over x"] near=["rows-summed", "mean-for-sum"]
def spread_sum(x):
    return jnp.full(16, x.sum())


# %% the largest of all, as often as there are columns exercise="3.4" score=0 diagnoses=["values", "not-counted-yet", "all-reduce over x"] near=["one-sum-for-all"]
def spread_sum(x):
    return jax.reshard(jnp.full(x.shape[1], x.max()), on(explicit_grid, ("y", "x")))


# %% rolled without an axis exercise="3.5" score=0 diagnoses=["rolled-flat", "not-counted-yet", "all-gather over y"] near=["rows-rolled", "not-a-ring", "two-places"]
def differences(x):
    island = jax.sharding.auto_axes(
        lambda x: x - jnp.roll(x, 1), out_sharding=on(explicit_grid, "x", "y")
    )
    return island(x)


# %% the neighbour added exercise="3.5" score=0 diagnoses=["sum-for-difference", "not-counted-yet"] near=["rolled-flat", "turned-round", "rolled-alone"]
def differences(x):
    island = jax.sharding.auto_axes(
        lambda x: x + jnp.roll(x, 1, axis=1), out_sharding=on(explicit_grid, "x", "y")
    )
    return island(x)


# %% the neighbour after the next exercise="3.5" score=0 diagnoses=["two-places", "not-counted-yet", "too-many-bytes"] near=["other-neighbour", "sum-for-difference"]
def differences(x):
    island = jax.sharding.auto_axes(
        lambda x: x - jnp.roll(x, 2, axis=1), out_sharding=on(explicit_grid, "x", "y")
    )
    return island(x)


# %% the neighbour minus the number itself exercise="3.5" score=0 diagnoses=["turned-round", "not-counted-yet"] near=["other-neighbour", "two-places", "off-by-a-factor"]
def differences(x):
    island = jax.sharding.auto_axes(
        lambda x: jnp.roll(x, 1, axis=1) - x, out_sharding=on(explicit_grid, "x", "y")
    )
    return island(x)


# %% minus in place of plus exercise="3.6" score=0 diagnoses=["subtracted", "not-counted-yet"] near=["values", "turned-alone", "multiplied"]
def steered(x):
    return with_sharding_constraint(x - x.T, on(grid, "x", "y"))


# %% times in place of plus exercise="3.6" score=0 diagnoses=["multiplied", "not-counted-yet"] near=["matmul", "values", "turned-twice"]
def steered(x):
    return with_sharding_constraint(x * x.T, on(grid, "x", "y"))


# %% a matmul in place of plus exercise="3.6" score=0 diagnoses=["matmul", "not-counted-yet", "all-gather over x"] near=["multiplied", "subtracted"]
def steered(x):
    return with_sharding_constraint(x @ x.T, on(grid, "x", "y"))


# %% relu, tanh, and the bias where it does not belong exercise="3.7" score=0 diagnoses=["relu-for-sigmoid", "not-counted-yet", "tanh-for-sigmoid", "bias-multiplied", "bias-in-the-weights"] near=["sigmoid-forgotten", "bias-forgotten", "bias-last"]
def layer_plain(x, w, b):
    return jax.nn.relu(x @ w + b)


def layer_constrained(x, w, b):
    return jnp.tanh(with_sharding_constraint(x @ w, on(line)) + b)


def layer_explicit(x, w, b):
    return jax.nn.sigmoid(jnp.dot(x, w, out_sharding=on(explicit_line)) * b)


def layer_mapped(x, w, b):
    def body(x, w, b):
        return jax.nn.sigmoid(jax.lax.psum(x @ (w + b), "x"))

    specs = (P("x"), P("x", None), P())
    return jax.shard_map(body, mesh=explicit_line, in_specs=specs, out_specs=P())(x, w, b)


# %% a softmax exercise="3.7" score=0 diagnoses=["values", "not-counted-yet", "unanswered"] near=["relu-for-sigmoid", "tanh-for-sigmoid", "bias-multiplied", "bias-in-the-weights"]
def layer_plain(x, w, b):
    return jax.nn.softmax(x @ w + b)


# %% a constraint on something made of two other arguments exercise="3.7" score=0.0625 diagnoses=["unanswered", "constraint-elsewhere", "too-many-bytes"] near=["no-constraint", "constrained"]
def layer_constrained(x, w, b):
    return jax.nn.sigmoid(x @ w + with_sharding_constraint(b + 0 * w[0], on(line)))


# %% a constraint on an einsum with the bias exercise="3.7" score=0.25 diagnoses=["unanswered"] near=["constraint-elsewhere"]
def layer_constrained(x, w, b):
    return jax.nn.sigmoid(with_sharding_constraint(jnp.einsum("i,ij->j", x, w) + b, on(line)))


# %% a constraint on a column exercise="3.7" score=0.25 diagnoses=["unanswered"] near=["constraint-elsewhere", "no-constraint"]
def layer_constrained(x, w, b):
    column = with_sharding_constraint(w.T @ x[:, None], on(line, None, None))
    return 1 / (1 + jnp.exp(-column[:, 0] - b))


# %% the product cut, where JAX asks exercise="3.7" score=0 diagnoses=["unanswered", "does-not-divide"] near=["ambiguous"]
def layer_explicit(x, w, b):
    return jax.nn.sigmoid(jnp.dot(x, w, out_sharding=on(explicit_line, "x")) + b)


# %% not summed, and joined exercise="3.7" score=0 diagnoses=["unanswered", "parts-joined", "no all-reduce", "not-counted-yet"] near=["sum-of-sigmoids", "not-replicated", "does-not-divide"]
def layer_mapped(x, w, b):
    def body(x, w, b):
        return jax.nn.sigmoid(x @ w + b)

    specs = P("x"), P("x", None), P()
    return jax.shard_map(body, mesh=explicit_line, in_specs=specs, out_specs=P("x"))(x, w, b)


# %% summed, and joined exercise="3.7" score=0 diagnoses=["unanswered", "copies-side-by-side", "not-counted-yet"] near=["parts-joined"]
def layer_mapped(x, w, b):
    def body(x, w, b):
        return jax.nn.sigmoid(jax.lax.psum(x @ w, "x") + b)

    specs = P("x"), P("x", None), P()
    return jax.shard_map(body, mesh=explicit_line, in_specs=specs, out_specs=P("x"))(x, w, b)


# %% unreduced along the other axis exercise="3.3" score=0.625 diagnoses=["other-unreduced-axes"]
def whole(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


def rows(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, "x"))


def columns(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, None, "x"))


def together(A, B, C, D):
    u = on(explicit_grid, unreduced={"y"})
    return jax.reshard(
        jnp.dot(A, B, out_sharding=u) + jnp.dot(C, D, out_sharding=u), on(explicit_grid)
    )


# %% one product of concatenated factors exercise="3.3" score=0.7188 diagnoses=["all-to-all over x"]
def whole(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid))


def rows(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, "x"))


def columns(A, B):
    return jnp.dot(A, B, out_sharding=on(explicit_grid, None, "x"))


def together(A, B, C, D):
    return jnp.dot(
        jnp.concatenate([A, C], 1), jnp.concatenate([B, D], 0), out_sharding=on(explicit_grid)
    )
