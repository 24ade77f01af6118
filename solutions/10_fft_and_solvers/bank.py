# %% [markdown]
# Known answers to the exercises of notebook 10. A cell stands below what the exercise's cell was
# handed out with.


# %% measured, in other words, and worked out exercise="10.1" score=1 near=["no-copies-left", "fair-share", "sent", "own-block", "in-gb", "more-devices"]
compiled = jax.jit(jnp.fft.fftn).lower(volume).compile()
found = communication(compiled)
audit = {
    "spec": compiled.output_shardings.spec,
    "kind": "AllGather",
    "bytes": sum(c.total_bytes for c in found.collectives),
    "share": 1,
    "larger": 8 + 8 / 64,
    "enough": 2 * 2,
    "helps": "More memory",
}


# %% measured, and nothing predicted exercise="10.1" score=0.5 diagnoses=["unanswered"] near=["of-this-mesh", "other-prediction"]
report = communication(jnp.fft.fftn, volume)
audit["spec"] = jax.jit(jnp.fft.fftn)(volume).sharding.spec
audit["kind"] = report.collectives[0].kind
audit["bytes"] = report.bytes
audit["share"] = report.flops / communication(jnp.fft.fftn, unsharded).flops


# %% measured with larger sizes on the small mesh exercise="10.1" score=0.5 diagnoses=["of-this-mesh", "one-exchange", "more-devices"] near=["of-real-numbers", "faster-network"]
audit = {"spec": P("x", "y"), "kind": "all-gather", "bytes": 40960, "share": 1.0}
large = jax.ShapeDtypeStruct((1024,) * 3, jnp.float32, sharding=volume.sharding)
audit["larger"] = communication(jnp.fft.fftn, large).bytes / 2**30
audit |= {"enough": 2.0, "helps": "more devices"}


# %% trusts the layout exercise="10.1" score=0 diagnoses=["as-it-should-be", "trusts-the-layout", "fair-share", "real-exchange", "faster-network"] near=["transposed-layout"]
audit = {"spec": P("x", "y"), "kind": "all-to-all", "bytes": 0, "share": 1 / 8}
audit |= {"larger": 0, "enough": 1, "helps": "a faster network"}


# %% the old story, that it is replicated exercise="10.1" score=0.1667 diagnoses=["no-copies-left", "the-last-gather", "about-the-larger", "whole-box", "more-devices"] near=["the-first-gather", "trusts-the-layout"]
audit = {"spec": P(), "kind": "all-gather", "bytes": 32768, "share": 1.0}
audit |= {"larger": 8, "enough": 8192, "helps": "more devices"}


# %% the first gather alone, and eight times the work exercise="10.1" score=0.1666666667 diagnoses=["transposed-layout", "the-first-gather", "of-all-devices", "more-devices"] near=["the-last-gather", "fair-share"]
audit = {"spec": P(None, "x", "y"), "kind": "all-gather", "bytes": 8192, "share": 8}
audit |= {"larger": 0.125, "enough": 4, "helps": "more devices"}


# %% what is sent exercise="10.1" score=0.3333333333 diagnoses=["sent", "other-prediction", "in-gb"] near=["on-all-devices", "in-bytes", "about-the-larger"]
audit = {"spec": P("x", "y"), "kind": "all-gather", "bytes": 28672, "share": 0.5}
audit |= {"larger": 8.724, "enough": 3.9375, "helps": "more memory"}


# %% all devices together exercise="10.1" score=0.3333333333 diagnoses=["on-all-devices", "fair-share", "in-bytes", "in-gib"] near=["of-all-devices", "in-gb"]
audit = {"spec": P("x", "y"), "kind": "all-gather", "bytes": 8 * 40960, "share": 0.125}
audit |= {"larger": 8.125 * 2**30, "enough": 4 / 1024, "helps": "more memory"}


# %% its own block exercise="10.1" score=0.1666666667 diagnoses=["as-it-should-be", "own-block", "fair-share", "as-in-the-small", "one-exchange"] near=["of-real-numbers", "whole-box"]
audit = {"spec": P("x", "y"), "kind": "all-to-all", "bytes": 4096, "share": 0.125}
audit |= {"larger": 40960, "enough": 2, "helps": "more memory"}


# %% as if it were real exercise="10.1" score=0.6666666667 diagnoses=["of-real-numbers"] near=["as-it-should-be", "other-prediction", "real-exchange", "one-exchange"]
audit = {"spec": P("x", "y"), "kind": "all-gather", "bytes": 20480, "share": 1.0}
audit |= {"larger": 4 * (1 + 1 / 64), "enough": 4, "helps": "more memory"}


# %% the size of the box, in per cent exercise="10.1" score=0.5 diagnoses=["of-the-box", "per-cent"] near=["what-goes-in", "as-in-the-small"]
audit = {"spec": P("x", "y"), "kind": "all-gather", "bytes": 16384, "share": 99.8}
audit |= {"larger": 4, "enough": 4, "helps": "more memory"}


# %% what goes in exercise="10.1" score=0.6666666667 diagnoses=["what-goes-in"] near=["of-the-box", "per-cent", "in-gib", "in-mb"]
audit = {"spec": P("x", "y"), "kind": "all-gather", "bytes": 10240, "share": 0.998}
audit |= {"larger": 8 / 64 + 8 / 64**2, "enough": 4, "helps": "more memory"}


# %% twice as much, and one axis of the mesh exercise="10.1" score=0.6666666667 diagnoses=["other-prediction", "sent-and-received"] near=["one-axis", "of-this-mesh"]
audit = {
    "spec": P("x", "y"),
    "kind": "all-gather",
    "bytes": 40_960,
    "share": 1.0,
    "larger": 16.25,
    "enough": 8.0,
    "helps": "more memory",
}

# %% blocks of one axis exercise="10.1" score=0.6667 diagnoses=["about-the-larger", "one-axis"] near=["sent-and-received", "whole-box", "in-mib"]
audit = {
    "spec": P("x", "y"),
    "kind": "all-gather",
    "bytes": 40_960,
    "share": 1.0,
    "larger": 8.0,
    "enough": 256.0,
    "helps": "more memory",
}


# %% by the row exercise="10.2" score=1 near=["nothing-transformed", "first-dimension"]
def fft_last(x):
    pencils = jax.vmap(jax.vmap(jnp.fft.fft))
    layout = P("x", "y", None)
    return jax.shard_map(lambda mine: pencils(mine), in_specs=layout, out_specs=layout)(x)


# %% left to the compiler exercise="10.2" score=0 diagnoses=["not-counted-yet", "no-shard-map"] naive=true near=["added-by-the-compiler", "inverse"]
def fft_last(x):
    return jnp.fft.fft(x)


# %% left to the compiler, with a constraint exercise="10.2" score=0 diagnoses=["not-counted-yet", "no-shard-map"] naive=true
def fft_last(x):
    return lax.with_sharding_constraint(jnp.fft.fft(x), P("x", "y"))


# %% whole everywhere exercise="10.2" score=0.125 diagnoses=["replicated", "other-blocks-enter"] near=["no-shard-map"]
def fft_last(x):
    return jax.shard_map(jnp.fft.fft, in_specs=P(), out_specs=P())(x)


# %% the block, in all of its dimensions exercise="10.2" score=0 diagnoses=["block-by-block", "not-counted-yet"] near=["all-dimensions", "replicated"]
def fft_last(x):
    return jax.shard_map(jnp.fft.fftn, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% the wrong dimension, gathered first exercise="10.2" score=0 diagnoses=["first-dimension", "not-counted-yet", "explicit all-gather"] near=["middle-dimension"]
def fft_last(x):
    def body(mine):
        whole = jnp.fft.fft(lax.all_gather(mine, "x", axis=0, tiled=True), axis=0)
        return lax.dynamic_slice_in_dim(whole, lax.axis_index("x") * len(mine), len(mine), 0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% the middle one exercise="10.2" score=0 diagnoses=["middle-dimension", "not-counted-yet", "explicit all-gather"] near=["block-by-block"]
def fft_last(x):
    def body(mine):
        whole = jnp.fft.fft(lax.all_gather(mine, "y", axis=1, tiled=True), axis=1)
        columns = mine.shape[1]
        return lax.dynamic_slice_in_dim(whole, lax.axis_index("y") * columns, columns, 1)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% all of them, by the compiler exercise="10.2" score=0 diagnoses=["all-dimensions", "not-counted-yet", "no-shard-map"]
def fft_last(x):
    return jnp.fft.fftn(x)


# %% the other way exercise="10.2" score=0 diagnoses=["inverse", "not-counted-yet"] near=["sign-turned"]
def fft_last(x):
    return jax.shard_map(jnp.fft.ifft, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% the other sign exercise="10.2" score=0 diagnoses=["sign-turned", "not-counted-yet"]
def fft_last(x):
    def body(mine):
        return jnp.conj(jnp.fft.fft(jnp.conj(mine)))

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% nothing done exercise="10.2" score=0 diagnoses=["nothing-transformed", "not-counted-yet"]
def fft_last(x):
    return jax.shard_map(lambda mine: mine, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% the first dimension last exercise="10.2" score=0.125 diagnoses=["transposed", "other-blocks-enter"]
def fft_last(x):
    return jax.shard_map(jnp.fft.fft, in_specs=P("y", "x"), out_specs=P("y", "x"))(x)


# %% by a matrix made outside exercise="10.2" score=1 near=["outside-the-body", "part-of-dimension-0"]
def fft_last(x):
    k = jnp.arange(x.shape[-1])
    turns = jnp.exp(-2j * jnp.pi * jnp.outer(k, k) / len(k)).astype(x.dtype)
    specs = P("x", "y"), P()
    return jax.shard_map(lambda mine, turns: mine @ turns, in_specs=specs, out_specs=specs[0])(
        x, turns
    )


# %% the first dimension of the block exercise="10.2" score=0 diagnoses=["part-of-dimension-0", "not-counted-yet"] near=["part-of-dimension-1", "part-of-dimension-2", "first-dimension"]
def fft_last(x):
    def body(mine):
        return jnp.fft.fft(mine, axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% the last dimension cut exercise="10.2" score=0 diagnoses=["part-of-dimension-2", "transposed", "other-blocks-enter"] near=["part-of-dimension-0"]
def fft_last(x):
    cut = P(None, "x", "y")
    return jax.shard_map(jnp.fft.fft, in_specs=cut, out_specs=cut)(x)


# %% rfft exercise="10.2" score=0 diagnoses=["real-input"] near=["half-of-the-waves"]
def fft_last(x):
    return jax.shard_map(jnp.fft.rfft, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% rfft of the real part exercise="10.2" score=0 diagnoses=["half-of-the-waves", "shape", "not-counted-yet"] near=["real-input", "real-part-alone"]
def fft_last(x):
    def body(mine):
        return jnp.fft.rfft(mine.real)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% the real part alone exercise="10.2" score=0 diagnoses=["real-part-alone", "not-counted-yet"] near=["half-of-the-waves", "inverse"]
def fft_last(x):
    def body(mine):
        return jnp.fft.fft(mine.real)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% out_specs with the axes exchanged exercise="10.2" score=0 diagnoses=["joined-elsewhere", "shape", "not-counted-yet"] near=["transposed"]
def fft_last(x):
    return jax.shard_map(jnp.fft.fft, in_specs=P("x", "y"), out_specs=P("y", "x"))(x)


# %% out_specs with the axes exchanged, and the inverse exercise="10.2" score=0 diagnoses=["shape", "not-counted-yet"] near=["joined-elsewhere", "inverse"]
def fft_last(x):
    return jax.shard_map(jnp.fft.ifft, in_specs=P("x", "y"), out_specs=P("y", "x"))(x)


# %% each dimension by itself, and a decorator exercise="10.3" score=1 near=["dimension-0-missing", "inverse"]
from functools import partial


@partial(jax.shard_map, in_specs=P("x", None, None), out_specs=P(None, "x", None))
def slab_fft(mine):
    for axis in (2, 1):
        mine = jnp.fft.fft(mine, axis=axis)
    return jnp.fft.fft(lax.all_to_all(mine, "x", 1, 0, tiled=True), axis=0)


# %% untiled, by a reshape exercise="10.3" score=1 near=["shape"]
def slab_fft(x):
    def body(mine):
        n = lax.axis_size("x")
        rows, columns, depth = mine.shape
        planes = jnp.fft.fft2(mine, axes=(1, 2)).reshape(rows, n, columns // n, depth)
        pieces = lax.all_to_all(planes, "x", 1, 0)
        return jnp.fft.fft(pieces.reshape(n * rows, columns // n, depth), axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% left to the compiler exercise="10.3" score=0 diagnoses=["not-counted-yet", "transposed", "no-shard-map"] naive=true near=["explicit all-gather"]
def slab_fft(x):
    return jnp.fft.fftn(x)


# %% left to the compiler, put in place exercise="10.3" score=0 diagnoses=["not-counted-yet", "no-shard-map"] naive=true near=["no all-to-all"]
def slab_fft(x):
    return lax.with_sharding_constraint(jnp.fft.fftn(x), P(None, "x"))


# %% exchanged back exercise="10.3" score=0.125 diagnoses=["transposed", "one-too-many"] near=["too-often"]
def slab_fft(x):
    def body(mine):
        planes = jnp.fft.fft2(mine, axes=(1, 2))
        lines = jnp.fft.fft(lax.all_to_all(planes, "x", 1, 0, tiled=True), axis=0)
        return lax.all_to_all(lines, "x", 0, 1, tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(x)


# %% an exchange for each dimension exercise="10.3" score=0.25 diagnoses=["too-often"] near=["one-too-many"]
def slab_fft(x):
    def body(mine):
        mine = jnp.fft.fft(mine, axis=2)
        mine = jnp.fft.fft(lax.all_to_all(mine, "x", 1, 0, tiled=True), axis=0)
        mine = jnp.fft.fft(lax.all_to_all(mine, "x", 0, 1, tiled=True), axis=1)
        return lax.all_to_all(mine, "x", 1, 0, tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% gathered exercise="10.3" score=0.25 diagnoses=["no all-to-all"]
def slab_fft(x):
    def body(mine):
        whole = jnp.fft.fftn(lax.all_gather(mine, "x", tiled=True))
        columns = whole.shape[1] // lax.axis_size("x")
        return lax.dynamic_slice_in_dim(whole, lax.axis_index("x") * columns, columns, 1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% exchanged, and gathered besides exercise="10.3" score=0.25 diagnoses=["explicit all-gather"] near=["added-by-the-compiler"]
def slab_fft(x):
    def body(mine):
        planes = jnp.fft.fft2(mine, axes=(1, 2))
        lines = lax.all_to_all(planes, "x", 1, 0, tiled=True)
        whole = lax.all_gather(lines, "x", axis=1, tiled=True)
        columns = lines.shape[1]
        made = jnp.fft.fft(whole, axis=0)
        return lax.dynamic_slice_in_dim(made, lax.axis_index("x") * columns, columns, 1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% the transform along dimension 0 before the exchange exercise="10.3" score=0 diagnoses=["block-by-block", "not-counted-yet"] near=["only-dimension-0"]
def slab_fft(x):
    def body(mine):
        return lax.all_to_all(jnp.fft.fftn(mine), "x", 1, 0, tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% planes alone exercise="10.3" score=0 diagnoses=["dimension-0-missing", "not-counted-yet"] near=["dimension-1-missing", "block-by-block"]
def slab_fft(x):
    def body(mine):
        return lax.all_to_all(jnp.fft.fft2(mine, axes=(1, 2)), "x", 1, 0, tiled=True)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% dimension 1 forgotten exercise="10.3" score=0 diagnoses=["dimension-1-missing", "not-counted-yet"] near=["dimension-2-missing"]
def slab_fft(x):
    def body(mine):
        lines = lax.all_to_all(jnp.fft.fft(mine), "x", 1, 0, tiled=True)
        return jnp.fft.fft(lines, axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% dimension 2 forgotten exercise="10.3" score=0 diagnoses=["dimension-2-missing", "not-counted-yet"]
def slab_fft(x):
    def body(mine):
        lines = lax.all_to_all(jnp.fft.fft(mine, axis=1), "x", 1, 0, tiled=True)
        return jnp.fft.fft(lines, axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% dimension 0 alone exercise="10.3" score=0 diagnoses=["only-dimension-0", "not-counted-yet"]
def slab_fft(x):
    def body(mine):
        return jnp.fft.fft(lax.all_to_all(mine, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% the inverse exercise="10.3" score=0 diagnoses=["inverse", "not-counted-yet"] near=["sign-turned"]
def slab_fft(x):
    def body(mine):
        planes = jnp.fft.ifft2(mine, axes=(1, 2))
        return jnp.fft.ifft(lax.all_to_all(planes, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% the inverse without its factor exercise="10.3" score=0 diagnoses=["sign-turned", "not-counted-yet"]
def slab_fft(x):
    def body(mine):
        planes = jnp.fft.ifft2(mine, axes=(1, 2), norm="forward")
        lines = lax.all_to_all(planes, "x", 1, 0, tiled=True)
        return jnp.fft.ifft(lines, axis=0, norm="forward")

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% split and concatenated the other way round exercise="10.3" score=0 diagnoses=["shape", "not-counted-yet"]
def slab_fft(x):
    def body(mine):
        planes = jnp.fft.fft2(mine, axes=(1, 2))
        return jnp.fft.fft(lax.all_to_all(planes, "x", 0, 1, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% columns given to the body exercise="10.3" score=0.25 diagnoses=["no all-to-all"] near=["transposed", "no-shard-map"]
def slab_fft(x):
    planes = jax.shard_map(
        lambda mine: jnp.fft.fft2(mine, axes=(1, 2)), in_specs=P("x"), out_specs=P("x")
    )(x)
    columns = P(None, "x")
    return jax.shard_map(
        lambda mine: jnp.fft.fft(mine, axis=0), in_specs=columns, out_specs=columns
    )(planes)


# %% an exchange more, by the compiler exercise="10.3" score=0.125 diagnoses=["transposed", "added-by-the-compiler"]
def slab_fft(x):
    def body(mine):
        planes = jnp.fft.fft2(mine, axes=(1, 2))
        lines = lax.all_to_all(planes, "x", 1, 0, tiled=True)
        return jnp.fft.fft(lines, axis=0)

    made = jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)
    return lax.with_sharding_constraint(made, P("x"))


# %% real and imaginary parts one by one exercise="10.3" score=0.25 diagnoses=["in-pieces"] near=["too-often", "one-too-many"]
def slab_fft(x):
    def exchanged(a):
        return lax.all_to_all(a, "x", 1, 0, tiled=True)

    def body(mine):
        planes = jnp.fft.fft2(mine, axes=(1, 2))
        lines = lax.complex(exchanged(planes.real), exchanged(planes.imag))
        return jnp.fft.fft(lines, axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% exchanged before anything is transformed exercise="10.3" score=0 diagnoses=["part-of-dimension-1", "not-counted-yet"] near=["part-of-dimension-0", "block-by-block"]
def slab_fft(x):
    def body(mine):
        return jnp.fft.fftn(lax.all_to_all(mine, "x", 1, 0, tiled=True))

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% all of the block, and dimension 0 once more exercise="10.3" score=0 diagnoses=["part-of-dimension-0", "not-counted-yet"] near=["part-of-dimension-1", "block-by-block", "in-pieces"]
def slab_fft(x):
    def body(mine):
        lines = lax.all_to_all(jnp.fft.fftn(mine), "x", 1, 0, tiled=True)
        return jnp.fft.fft(lines, axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% untiled exercise="10.3" score=0 diagnoses=["untiled"]
def slab_fft(x):
    def body(mine):
        lines = lax.all_to_all(jnp.fft.fft2(mine, axes=(1, 2)), "x", 1, 0)
        return jnp.fft.fft(lines, axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% the inverse along dimension 0 exercise="10.3" score=0 diagnoses=["inverse-along-0", "not-counted-yet"] near=["inverse", "inverse-in-the-planes"]
def slab_fft(x):
    def body(mine):
        planes = jnp.fft.fft2(mine, axes=(1, 2))
        lines = lax.all_to_all(planes, "x", 1, 0, tiled=True)
        return jnp.fft.ifft(lines, axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% the inverse along dimension 1 exercise="10.3" score=0 diagnoses=["inverse-along-1", "not-counted-yet"] near=["inverse-along-2", "inverse"]
def slab_fft(x):
    def body(mine):
        planes = jnp.fft.ifft(jnp.fft.fft(mine, axis=2), axis=1)
        lines = lax.all_to_all(planes, "x", 1, 0, tiled=True)
        return jnp.fft.fft(lines, axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% the inverse along dimension 2 exercise="10.3" score=0 diagnoses=["inverse-along-2", "not-counted-yet"] near=["inverse-along-1", "inverse-along-0"]
def slab_fft(x):
    def body(mine):
        planes = jnp.fft.ifft(jnp.fft.fft(mine, axis=1), axis=2)
        lines = lax.all_to_all(planes, "x", 1, 0, tiled=True)
        return jnp.fft.fft(lines, axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% the inverse in the planes exercise="10.3" score=0 diagnoses=["inverse-in-the-planes", "not-counted-yet"] near=["inverse", "inverse-along-1"]
def slab_fft(x):
    def body(mine):
        planes = jnp.fft.ifft2(mine, axes=(1, 2))
        lines = lax.all_to_all(planes, "x", 1, 0, tiled=True)
        return jnp.fft.fft(lines, axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% dimension 1 again after the exchange exercise="10.3" score=0 diagnoses=["dimension-1-again", "not-counted-yet"] near=["dimension-0-missing", "part-of-dimension-1", "dimension-2-again"]
def slab_fft(x):
    def body(mine):
        planes = jnp.fft.fft2(mine, axes=(1, 2))
        lines = lax.all_to_all(planes, "x", 1, 0, tiled=True)
        return jnp.fft.fft(lines, axis=1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% no axis after the exchange exercise="10.3" score=0 diagnoses=["dimension-2-again", "not-counted-yet"] near=["dimension-0-missing", "dimension-1-again", "dimension-2-twice", "planes-too-late"]
def slab_fft(x):
    def body(mine):
        planes = jnp.fft.fft2(mine, axes=(1, 2))
        lines = lax.all_to_all(planes, "x", 1, 0, tiled=True)
        return jnp.fft.fft(lines)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% dimension 2 twice exercise="10.3" score=0 diagnoses=["dimension-2-twice", "not-counted-yet"] near=["dimension-1-missing", "dimension-2-again"]
def slab_fft(x):
    def body(m):
        m = jnp.fft.fft(jnp.fft.fft(m, axis=2), axis=2)
        m = lax.all_to_all(m, "x", split_axis=1, concat_axis=0, tiled=True)
        return jnp.fft.fft(m, axis=0)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% dimension 0 first, and the planes after exercise="10.3" score=0 diagnoses=["planes-too-late", "not-counted-yet"] near=["part-of-dimension-1", "block-by-block"]
def slab_fft(x):
    def body(m):
        m = jnp.fft.fft(m, axis=0)
        m = lax.all_to_all(m, "x", split_axis=1, concat_axis=0, tiled=True)
        return jnp.fft.fftn(m, axes=(1, 2))

    return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, "x"))(x)


# %% with names for the steps exercise="10.4" score=1 near=["dimension-0-missing", "inverse", "shape", "one-too-many"]
def pencil_fft(x):
    def turned(a, axis, cut, whole):
        return jnp.fft.fft(lax.all_to_all(a, axis, cut, whole, tiled=True), axis=whole)

    def body(mine):
        return turned(turned(jnp.fft.fft(mine), "y", 2, 1), "x", 1, 0)

    in_specs, out_specs = P("x", "y", None), P(None, "x", "y")
    return jax.shard_map(body, in_specs=in_specs, out_specs=out_specs)(x)


# %% left to the compiler exercise="10.4" score=0 diagnoses=["not-counted-yet", "transposed", "no-shard-map"] naive=true near=["explicit all-gather"]
def pencil_fft(x):
    return jnp.fft.fftn(x)


# %% left to the compiler, put in place exercise="10.4" score=0 diagnoses=["not-counted-yet", "no-shard-map"] naive=true near=["no all-to-all"]
def pencil_fft(x):
    return lax.with_sharding_constraint(jnp.fft.fftn(x), P(None, "x", "y"))


# %% x first, which ends elsewhere exercise="10.4" score=0.125 diagnoses=["transposed", "not-counted-yet"] near=["added-by-the-compiler"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 2, 0, tiled=True), axis=0)
        return jnp.fft.fft(lax.all_to_all(a, "y", 0, 1, tiled=True), axis=1)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("y", None, "x"))(x)


# %% brought back over both axes exercise="10.4" score=0.125 diagnoses=["transposed", "one-too-many"] near=["too-often"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        a = lax.all_to_all(a, "x", 0, 1, tiled=True)
        return lax.all_to_all(a, "y", 1, 2, tiled=True)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% there, back, and there again exercise="10.4" score=0.25 diagnoses=["too-often"] near=["transposed"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = lax.all_to_all(a, "y", 2, 1, tiled=True)
        a = lax.all_to_all(a, "y", 1, 2, tiled=True)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% exchanged over both, and gathered besides exercise="10.4" score=0.25 diagnoses=["explicit all-gather"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = lax.all_to_all(a, "x", 1, 0, tiled=True)
        whole = jnp.fft.fft(lax.all_gather(a, "x", axis=1, tiled=True), axis=0)
        size = a.shape[1]
        return lax.dynamic_slice_in_dim(whole, lax.axis_index("x") * size, size, 1)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% exchanged by the compiler exercise="10.4" score=0.25 diagnoses=["no all-to-all"] near=["no-shard-map"]
def pencil_fft(x):
    def along(a, axis, *spec):
        def body(mine):
            return jnp.fft.fft(mine, axis=axis)

        return jax.shard_map(body, in_specs=P(*spec), out_specs=P(*spec))(a)

    return along(along(along(x, 2, "x", "y"), 1, "x", None, "y"), 0, None, "x", "y")


# %% the last one forgotten exercise="10.4" score=0 diagnoses=["dimension-0-missing", "not-counted-yet"] near=["dimension-1-missing"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return lax.all_to_all(a, "x", 1, 0, tiled=True)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% the middle one forgotten exercise="10.4" score=0 diagnoses=["dimension-1-missing", "not-counted-yet"] near=["dimension-2-missing"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = lax.all_to_all(a, "y", 2, 1, tiled=True)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% the first one forgotten exercise="10.4" score=0 diagnoses=["dimension-2-missing", "not-counted-yet"] near=["only-dimension-2"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(lax.all_to_all(mine, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% the first one alone exercise="10.4" score=0 diagnoses=["only-dimension-2", "not-counted-yet"] near=["block-by-block"]
def pencil_fft(x):
    def body(mine):
        a = lax.all_to_all(jnp.fft.fft(mine), "y", 2, 1, tiled=True)
        return lax.all_to_all(a, "x", 1, 0, tiled=True)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% each block, and then exchanged exercise="10.4" score=0 diagnoses=["block-by-block", "not-counted-yet"]
def pencil_fft(x):
    def body(mine):
        a = lax.all_to_all(jnp.fft.fftn(mine), "y", 2, 1, tiled=True)
        return lax.all_to_all(a, "x", 1, 0, tiled=True)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% the inverse exercise="10.4" score=0 diagnoses=["inverse", "not-counted-yet"] near=["sign-turned"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.ifft(mine, axis=2)
        a = jnp.fft.ifft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.ifft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% of the conjugate, conjugated exercise="10.4" score=0 diagnoses=["sign-turned", "not-counted-yet"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine.conj(), axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0).conj()

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% put together as it came exercise="10.4" score=0 diagnoses=["shape", "not-counted-yet"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% moved back by a constraint exercise="10.4" score=0.125 diagnoses=["transposed", "added-by-the-compiler"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    made = jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)
    return lax.with_sharding_constraint(made, P("x", "y"))


# %% two dimensions at once, before the exchange over y exercise="10.4" score=0 diagnoses=["part-of-dimension-1", "not-counted-yet"] near=["dimension-1-missing", "block-by-block", "parts-of-dimensions-1-and-2"]
def pencil_fft(x):
    def body(mine):
        a = lax.all_to_all(jnp.fft.fftn(mine, axes=(1, 2)), "y", 2, 1, tiled=True)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% both exchanges, and then everything exercise="10.4" score=0 diagnoses=["parts-of-dimensions-1-and-2", "not-counted-yet"] near=["part-of-dimension-1", "one-missing"]
def pencil_fft(x):
    def body(mine):
        a = lax.all_to_all(mine, "y", 2, 1, tiled=True)
        return jnp.fft.fftn(lax.all_to_all(a, "x", 1, 0, tiled=True))

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% gathered over y, and slabs exercise="10.4" score=0.25 diagnoses=["one-missing"] near=["no all-to-all", "other-axes", "explicit all-gather"]
def pencil_fft(x):
    def body(mine):
        slab = jnp.fft.fftn(lax.all_gather(mine, "y", axis=1, tiled=True), axes=(1, 2))
        lines = jnp.fft.fft(lax.all_to_all(slab, "x", 1, 0, tiled=True), axis=0)
        size = lines.shape[2] // lax.axis_size("y")
        return lax.dynamic_slice_in_dim(lines, lax.axis_index("y") * size, size, 2)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% the inverse along dimension 0 exercise="10.4" score=0 diagnoses=["inverse-along-0", "not-counted-yet"] near=["inverse-along-1", "inverse", "dimension-0-missing"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.ifft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% the inverse along dimension 1 exercise="10.4" score=0 diagnoses=["inverse-along-1", "not-counted-yet"] near=["inverse", "inverse-along-2"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.ifft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% the inverse along dimension 2 exercise="10.4" score=0 diagnoses=["inverse-along-2", "not-counted-yet"] near=["inverse", "inverse-along-0"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.ifft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% dimension 0 at first exercise="10.4" score=0 diagnoses=["dimension-0-first", "not-counted-yet"] near=["dimension-2-missing", "dimension-1-first"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=0)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% dimension 1 at first exercise="10.4" score=0 diagnoses=["dimension-1-first", "not-counted-yet"] near=["dimension-0-first", "dimension-2-missing", "part-of-dimension-1"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% dimension 0 between exercise="10.4" score=0 diagnoses=["dimension-0-between", "not-counted-yet"] near=["dimensions-exchanged", "dimension-1-missing", "dimension-2-between"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=0)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% dimension 2 between exercise="10.4" score=0 diagnoses=["dimension-2-between", "not-counted-yet"] near=["dimension-0-between", "dimension-1-missing", "part-of-dimension-2"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=2)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% dimension 1 last exercise="10.4" score=0 diagnoses=["dimension-1-last", "not-counted-yet"] near=["dimension-0-missing", "part-of-dimension-1-at-the-end"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=1)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% dimension 2 last exercise="10.4" score=0 diagnoses=["dimension-2-last", "not-counted-yet"] near=["dimension-0-missing", "dimension-2-always"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=2)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% without axis, three times exercise="10.4" score=0 diagnoses=["dimension-2-always", "not-counted-yet"] near=["only-dimension-2", "dimension-2-last"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True))
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True))

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% dimensions 0 and 1 after both exchanges exercise="10.4" score=0 diagnoses=["part-of-dimension-1-at-the-end", "not-counted-yet"] near=["parts-of-dimensions-1-and-2", "part-of-dimension-1", "dimension-1-last"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = lax.all_to_all(a, "y", 2, 1, tiled=True)
        return jnp.fft.fftn(lax.all_to_all(a, "x", 1, 0, tiled=True), axes=(0, 1))

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% dimensions 1 and 2 between exercise="10.4" score=0 diagnoses=["part-of-dimension-2", "not-counted-yet"] near=["parts-of-dimensions-1-and-2", "dimension-2-between", "error-of-xla"]
def pencil_fft(x):
    def body(mine):
        a = mine
        a = jnp.fft.fftn(lax.all_to_all(a, "y", 2, 1, tiled=True), axes=(1, 2))
        return jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% over both axes at once exercise="10.4" score=0 diagnoses=["split-over-several-axes"] near=["split-does-not-divide"]
def pencil_fft(x):
    def body(mine):
        a = lax.all_to_all(jnp.fft.fft(mine, axis=2), ("x", "y"), 2, 1, tiled=True)
        return jnp.fft.fft(jnp.fft.fft(a, axis=1), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% the second exchange cuts what is cut exercise="10.4" score=0 diagnoses=["split-does-not-divide"] near=["split-over-several-axes", "shape"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "x", 2, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% by fftn, and gathered over y exercise="10.4" score=0 diagnoses=["error-of-xla"] near=["one-missing"]
def pencil_fft(x):
    def body(mine):
        slab = lax.all_gather(jnp.fft.fftn(mine, axes=(2,)), "y", axis=1, tiled=True)
        slab = jnp.fft.fftn(slab, axes=(1,))
        lines = jnp.fft.fftn(lax.all_to_all(slab, "x", 1, 0, tiled=True), axes=(0,))
        size = lines.shape[2] // lax.axis_size("y")
        return lax.dynamic_slice_in_dim(lines, lax.axis_index("y") * size, size, 2)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% the exchanges over the other axes exercise="10.4" score=0 diagnoses=["shape", "not-counted-yet"] near=["split-does-not-divide"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fft(mine, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 2, 1, tiled=True), axis=1)
        return jnp.fft.fft(lax.all_to_all(a, "y", 1, 0, tiled=True), axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% by fftn along one dimension each exercise="10.4" score=1 near=["error-of-xla", "part-of-dimension-2"]
def pencil_fft(x):
    def body(mine):
        a = jnp.fft.fftn(mine, axes=(2,))
        a = jnp.fft.fftn(lax.all_to_all(a, "y", 2, 1, tiled=True), axes=(1,))
        return jnp.fft.fftn(lax.all_to_all(a, "x", 1, 0, tiled=True), axes=(0,))

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% slices of the numbers, by place exercise="10.5" score=1 near=["others-numbers", "mean-kept", "other-sign"]
def poisson(f):
    sizes = f.shape

    def mine_of(k, axis):
        size = len(k) // lax.axis_size(axis)
        return lax.dynamic_slice_in_dim(k, lax.axis_index(axis) * size, size)

    def body(f):
        k0, k1, k2 = map(wave_numbers, sizes)
        k1, k2 = mine_of(k1, "x"), mine_of(k2, "y")
        a = lax.all_to_all(jnp.fft.fft(f), "y", 2, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.fft(a, axis=1), "x", 1, 0, tiled=True)
        squares = (k0**2)[:, None, None] + (k1**2)[None, :, None] + (k2**2)[None, None, :]
        inverse = jnp.where(squares > 0, 1 / jnp.maximum(squares, 1), 0)
        a = jnp.fft.ifft(jnp.fft.fft(a, axis=0) * inverse, axis=0)
        a = jnp.fft.ifft(lax.all_to_all(a, "x", 0, 1, tiled=True), axis=1)
        return jnp.fft.ifft(lax.all_to_all(a, "y", 1, 2, tiled=True)).real

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% the sign of the second derivative exercise="10.5" score=0 diagnoses=["other-sign", "not-counted-yet"] near=["multiplied"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.where(squares == 0, 0, -a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% the mean left as it was exercise="10.5" score=0 diagnoses=["mean-kept", "not-counted-yet"] near=["not-finite"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = a / jnp.where(squares == 0, 1, squares)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% divided by zero exercise="10.5" score=0 diagnoses=["not-finite", "not-counted-yet"] near=["not-squared", "divided-by-almost-zero"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = a / squares
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% numbers from 0 up exercise="10.5" score=0 diagnoses=["no-negative-waves", "not-counted-yet"] near=["fractions-for-numbers"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *(jnp.arange(n, dtype=jnp.float32) for n in f.shape))


# %% fractions exercise="10.5" score=0 diagnoses=["fractions-for-numbers", "not-counted-yet"] near=["turns-for-numbers"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(jnp.fft.fftfreq, f.shape))


# %% angles in place of numbers exercise="10.5" score=0 diagnoses=["turns-for-numbers", "not-counted-yet"] near=["with-2-pi"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *(2 * jnp.pi * jnp.fft.fftfreq(n) for n in f.shape))


# %% a box of side 1 exercise="10.5" score=0 diagnoses=["with-2-pi", "not-counted-yet"] near=["no-negative-waves"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *(2 * jnp.pi * wave_numbers(n) for n in f.shape))


# %% a root too many exercise="10.5" score=0 diagnoses=["not-squared", "not-counted-yet"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = jnp.sqrt(k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2)
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% the equation itself exercise="10.5" score=0 diagnoses=["multiplied", "not-counted-yet"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = a * squares
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% complex exercise="10.5" score=0 diagnoses=["dtype", "not-counted-yet"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2)

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% the first numbers for everybody exercise="10.5" score=0 diagnoses=["others-numbers", "not-counted-yet"]
def poisson(f):
    def body(f, k0, k1, k2):
        k1, k2 = k1[: len(k1) // lax.axis_size("x")], k2[: len(k2) // lax.axis_size("y")]
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P(), P())
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% brought back in between exercise="10.5" score=0.25 diagnoses=["too-often"] near=["one-too-many"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        a = lax.all_to_all(a, "x", 0, 1, tiled=True)
        a = lax.all_to_all(a, "y", 1, 2, tiled=True)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(a, "y", 2, 1, tiled=True)
        a = lax.all_to_all(a, "x", 1, 0, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P("x"), P("y"), P())
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% the squares exchanged, too exercise="10.5" score=0.25 diagnoses=["one-too-many"] near=["too-often", "too-seldom"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        planes = jnp.broadcast_to(
            k0[:, None, None] ** 2 + k1[:, None] ** 2, (len(k0), len(k1), len(a[0, 0]))
        )
        squares = lax.all_to_all(planes, "x", 1, 0, tiled=True) + k2**2
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P("x"), P(), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% over x by hand, and over y by the compiler exercise="10.5" score=0.25 diagnoses=["one-missing"] near=["no-shard-map", "dtype", "no all-to-all"]
def poisson(f):
    def there(f):
        a = lax.all_to_all(jnp.fft.fft(f), "x", 2, 0, tiled=True)
        return jnp.fft.fft(a, axis=0)

    def back(a):
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 2, tiled=True)
        return jnp.fft.ifft(a).real

    def middle(a, k0, k1, k2):
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.fft.fft(a, axis=1) / jnp.where(squares == 0, jnp.inf, squares)
        return jnp.fft.ifft(a, axis=1)

    came, turned, whole = P("x", "y"), P(None, "y", "x"), P("y", None, "x")
    waves = jax.shard_map(there, in_specs=came, out_specs=turned)(f)
    specs = (whole, P("y"), P(), P("x"))
    numbers = map(wave_numbers, f.shape)
    waves = jax.shard_map(middle, in_specs=specs, out_specs=whole)(waves, *numbers)
    return jax.shard_map(back, in_specs=turned, out_specs=came)(waves)


# %% gathered on the way back exercise="10.5" score=0.25 diagnoses=["too-seldom"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        planes = lax.all_gather(jnp.fft.ifft(a, axis=1), "y", axis=2, tiled=True)
        columns = f.shape[1]
        mine = lax.dynamic_slice_in_dim(planes, lax.axis_index("y") * columns, columns, 1)
        return jnp.fft.ifft(mine, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% everything gathered by hand exercise="10.5" score=0.25 diagnoses=["no all-to-all"]
def poisson(f):
    def body(mine):
        rows, columns = mine.shape[:2]
        whole = lax.all_gather(mine, "x", axis=0, tiled=True)
        whole = lax.all_gather(whole, "y", axis=1, tiled=True)
        k0, k1, k2 = map(wave_numbers, whole.shape)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        waves = jnp.fft.fftn(whole) / jnp.where(squares == 0, jnp.inf, squares)
        start = lax.axis_index("x") * rows, lax.axis_index("y") * columns, 0
        return lax.dynamic_slice(jnp.fft.ifftn(waves).real, start, mine.shape)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% left to the compiler, whole in between exercise="10.5" score=0 diagnoses=["not-counted-yet", "replicated", "no-shard-map"] naive=true near=["no all-to-all"]
def poisson(f):
    k0, k1, k2 = map(wave_numbers, f.shape)
    squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
    waves = lax.with_sharding_constraint(jnp.fft.fftn(f), P())
    return jnp.fft.ifftn(waves / jnp.where(squares == 0, jnp.inf, squares)).real


# %% a box of squares, made outside exercise="10.5" score=1 near=["numbers-of-the-block", "sum-of-numbers", "every-corner", "there-again"]
def poisson(f):
    def body(f, squares):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    k0, k1, k2 = map(wave_numbers, f.shape)
    squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
    in_specs = (P("x", "y"), P(None, "x", "y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, squares)


# %% the numbers of the block's own waves exercise="10.5" score=0 diagnoses=["numbers-of-the-block", "not-counted-yet"] near=["others-numbers", "every-corner"]
def poisson(f):
    def body(f):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        k0, k1, k2 = map(wave_numbers, a.shape)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% the numbers, not their squares exercise="10.5" score=0 diagnoses=["sum-of-numbers", "not-counted-yet"] near=["not-squared", "there-again"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        sums = k0[:, None, None] + k1[:, None] + k2
        a = jnp.where(sums == 0, 0, a / jnp.where(sums == 0, 1, sums))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% the first wave of each device made zero exercise="10.5" score=0 diagnoses=["every-corner", "not-counted-yet"] near=["mean-kept", "numbers-of-the-block", "some-corners"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = (a / jnp.where(squares == 0, 1, squares)).at[0, 0, 0].set(0)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% back as there exercise="10.5" score=0 diagnoses=["there-again", "not-counted-yet"] near=["sum-of-numbers", "shapes-do-not-fit"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.fft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.fft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.fft(a, axis=2).real

    in_specs = (P("x", "y"), P(), P("x"), P("y"))
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% numbers cut as f is exercise="10.5" score=0 diagnoses=["shapes-do-not-fit"] near=["others-numbers", "not-finite"]
def poisson(f):
    def body(f, k0, k1, k2):
        a = jnp.fft.fft(f, axis=2)
        a = jnp.fft.fft(lax.all_to_all(a, "y", 2, 1, tiled=True), axis=1)
        a = jnp.fft.fft(lax.all_to_all(a, "x", 1, 0, tiled=True), axis=0)
        squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
        a = lax.all_to_all(jnp.fft.ifft(a, axis=0), "x", 0, 1, tiled=True)
        a = lax.all_to_all(jnp.fft.ifft(a, axis=1), "y", 1, 2, tiled=True)
        return jnp.fft.ifft(a, axis=2).real

    in_specs = (P("x", "y"), P("x"), P("y"), P())
    mapped = jax.shard_map(body, in_specs=in_specs, out_specs=P("x", "y"))
    return mapped(f, *map(wave_numbers, f.shape))


# %% a scan, and zeros that vary exercise="10.6" score=1 near=["once-too-often", "from-b", "unknown-times", "steepest-descent"]
def cg(A, b):
    def body(rows, r):
        def total(u, v):
            return lax.psum(jnp.vdot(u, v), "x")

        def step(state, _):
            x, r, p, square = state
            q = jnp.dot(rows, lax.all_gather(p, "x").ravel())
            alpha = square / total(p, q)
            rest = r - alpha * q
            rest_square = total(rest, rest)
            return (x + alpha * p, rest, rest + rest_square / square * p, rest_square), None

        zeros = lax.pcast(jnp.zeros(r.shape), "x", to="varying")
        (x, *_), _ = lax.scan(step, (zeros, r, r, total(r, r)), None, length=12)
        return x

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% in a plain loop, whose last two products are left out exercise="10.6" score=1 near=["once-too-seldom", "too-many-bytes", "no all-reduce"]
from functools import partial


@partial(jax.shard_map, in_specs=(P("x", None), P("x")), out_specs=P("x"))
def cg(A, b):
    x, p = 0 * b, b
    old = lax.psum(jnp.sum(b * b), "x")
    for count in range(12):
        q = A @ lax.all_gather(p, "x", tiled=True)
        alpha = old / lax.psum(jnp.sum(p * q), "x")
        x = x + alpha * p
        b = b - alpha * q
        if count < 11:
            new = lax.psum(jnp.sum(b * b), "x")
            old, p = new, b + new / old * p
    return x


# %% the square made anew each time exercise="10.6" score=0.625 diagnoses=["too-many-bytes"] near=["no all-gather"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = lax.psum(r @ r, "x") / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new

        start = b - b, b, b, lax.psum(b @ b, "x")
        return lax.fori_loop(0, 12, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% a step too many exercise="10.6" score=0 diagnoses=["once-too-often", "not-counted-yet", "too-many-bytes"] near=["the-direction"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new

        start = b - b, b, b, lax.psum(b @ b, "x")
        return lax.fori_loop(0, 13, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% a step too few exercise="10.6" score=0 diagnoses=["once-too-seldom", "not-counted-yet"] near=["solved-outright"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new

        start = b - b, b, b, lax.psum(b @ b, "x")
        return lax.fori_loop(1, 12, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% from b exercise="10.6" score=0 diagnoses=["from-b", "not-counted-yet", "too-many-bytes"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new

        r = b - A @ lax.all_gather(b, "x", tiled=True)
        start = b, r, r, lax.psum(r @ r, "x")
        return lax.fori_loop(0, 12, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% steepest descent exercise="10.6" score=0 diagnoses=["steepest-descent", "not-counted-yet"] near=["ratio-turned", "first-square-of-its-own", "averaged", "next-direction", "own-block-of-A"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r, new

        start = b - b, b, b, lax.psum(b @ b, "x")
        return lax.fori_loop(0, 12, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% the share turned over exercise="10.6" score=0 diagnoses=["ratio-turned", "not-counted-yet"] near=["away-from-it"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + square / new * p, new

        start = b - b, b, b, lax.psum(b @ b, "x")
        return lax.fori_loop(0, 12, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% the last direction taken away exercise="10.6" score=0 diagnoses=["away-from-it", "not-counted-yet"] near=["ratio-turned"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r - new / square * p, new

        start = b - b, b, b, lax.psum(b @ b, "x")
        return lax.fori_loop(0, 12, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% products of its own exercise="10.6" score=0 diagnoses=["values", "not-counted-yet", "no all-reduce"] near=["not-replicated"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / (p @ q)
            x, r = x + length * p, r - length * q
            new = r @ r
            return x, r, r + new / square * p, new

        start = b - b, b, b, b @ b
        return lax.fori_loop(0, 12, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% the residual exercise="10.6" score=0 diagnoses=["the-residual", "not-counted-yet"] near=["the-direction", "too-seldom", "values"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new

        start = b - b, b, b, lax.psum(b @ b, "x")
        return lax.fori_loop(0, 12, step, start)[1]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% the direction exercise="10.6" score=0 diagnoses=["the-direction", "not-counted-yet"] near=["the-residual"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new

        start = b - b, b, b, lax.psum(b @ b, "x")
        return lax.fori_loop(0, 12, step, start)[2]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% solved, by the compiler exercise="10.6" score=0 diagnoses=["solved-outright", "replicated", "no-shard-map", "too-many-bytes"]
def cg(A, b):
    return jnp.linalg.solve(A, b)


# %% solved, on each device exercise="10.6" score=0 diagnoses=["solved-outright", "not-counted-yet", "too-seldom", "too-many-bytes"]
def cg(A, b):
    def body(A, b):
        matrix = lax.all_gather(A, "x", tiled=True)
        x = jnp.linalg.solve(matrix, lax.all_gather(b, "x", tiled=True))
        mine = lax.dynamic_slice_in_dim(x, lax.axis_index("x") * len(b), len(b))
        return mine + 0 * lax.psum(b @ b, "x")

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% left to the compiler exercise="10.6" score=0 diagnoses=["not-counted-yet", "no-shard-map", "too-many-bytes"] naive=true near=["replicated"]
def cg(A, b):
    def step(_, state):
        x, r, p = state
        q = A @ p
        length = (r @ r) / (p @ q)
        x, rest = x + length * p, r - length * q
        return x, rest, rest + (rest @ rest) / (r @ r) * p

    return lax.fori_loop(0, 12, step, (jnp.zeros_like(b), b, b))[0]


# %% the matrix gathered in each step exercise="10.6" score=0.25 diagnoses=["too-many-bytes"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            whole = lax.all_gather(A, "x", tiled=True) @ lax.all_gather(p, "x", tiled=True)
            q = lax.dynamic_slice_in_dim(whole, lax.axis_index("x") * len(b), len(b))
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new

        start = b - b, b, b, lax.psum(b @ b, "x")
        return lax.fori_loop(0, 12, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% A as copies, p by an all-reduce exercise="10.6" score=0.25 diagnoses=["no all-gather", "too-many-bytes"] near=["no all-reduce"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            place = lax.axis_index("x") * len(b)
            long = lax.dynamic_update_slice(jnp.zeros(A.shape[1]), p, (place,))
            q = A @ lax.psum(long, "x")
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new

        start = b - b, b, b, lax.psum(b @ b, "x")
        return lax.fori_loop(0, 12, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% a sum that nobody makes of all exercise="10.6" score=0 diagnoses=["not-replicated"] near=["unknown-times"]
def cg(A, b):
    def body(A, b):
        square = b @ b
        return square

    square = jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P())(A, b)
    return b / square


# %% until it is small exercise="10.6" score=0.25 diagnoses=["unknown-times"] near=["no-shard-map"]
def cg(A, b):
    def body(A, b):
        def step(state):
            x, r, p, square, count = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new, count + 1

        start = b - b, b, b, lax.psum(b @ b, "x"), 0
        return lax.while_loop(lambda s: (s[3] > 0) & (s[4] < 12), step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% zeros like b exercise="10.6" score=1 near=["unknown-times", "varying-mismatch"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new

        start = jnp.zeros_like(b), b, b, lax.psum(b @ b, "x")
        return lax.fori_loop(0, 12, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% zeros made from nothing exercise="10.6" score=0 diagnoses=["varying-mismatch"] near=["from-b", "not-replicated"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new

        start = jnp.zeros(b.shape), b, b, lax.psum(b @ b, "x")
        return lax.fori_loop(0, 12, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% until it has converged exercise="10.6" score=0 diagnoses=["solved-outright", "not-counted-yet", "unknown-times"] near=["once-too-often", "too-many-bytes"]
def cg(A, b):
    def body(A, b):
        def step(state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new

        start = b - b, b, b, lax.psum(b @ b, "x")
        return lax.while_loop(lambda state: state[3] > 1e-10, step, start)[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% the direction gathered once exercise="10.6" score=0 diagnoses=["not-a-number", "not-counted-yet", "too-seldom"] near=["steepest-descent"]
def cg(A, b):
    def body(A, b):
        def dot(u, v):
            return lax.psum(u @ v, "x")

        q = A @ lax.all_gather(b, "x", tiled=True)
        curvature = dot(b, q)

        def step(_, state):
            x, r, p, square = state
            length = square / curvature
            x, r = x + length * p, r - length * q
            new = dot(r, r)
            return x, r, r + new / square * p, new

        return lax.fori_loop(0, 12, step, (b - b, b, b, dot(b, b)))[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% an average of the square exercise="10.6" score=0 diagnoses=["averaged", "not-counted-yet"] near=["first-square-of-its-own", "own-sums"]
def cg(A, b):
    def body(A, b):
        x = jnp.zeros_like(b)
        r = d = b
        rr = lax.psum(r @ r, "x")
        for _ in range(12):
            q = A @ lax.all_gather(d, "x", tiled=True)
            a = rr / lax.psum(d @ q, "x")
            x = x + a * d
            r = r - a * q
            new = lax.pmean(r @ r, "x")
            d = r + new / rr * d
            rr = new
        return x

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% a block of its own exercise="10.6" score=0 diagnoses=["own-block-of-A", "not-counted-yet", "no all-gather"] near=["averaged", "blocks-do-not-fit"]
def cg(A, b):
    def body(A, b):
        x = jnp.zeros_like(b)
        r = d = b
        rr = lax.psum(r @ r, "x")
        for _ in range(12):
            q = lax.dynamic_slice_in_dim(A, lax.axis_index("x") * len(d), len(d), 1) @ d
            a = rr / lax.psum(d @ q, "x")
            x = x + a * d
            r = r - a * q
            new = lax.psum(r @ r, "x")
            d = r + new / rr * d
            rr = new
        return x

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% the first square of its own exercise="10.6" score=0 diagnoses=["first-square-of-its-own", "not-counted-yet"] near=["averaged"]
def cg(A, b):
    def body(A, b):
        x, r, d = jnp.zeros_like(b), b, b
        rr = b @ b
        for _ in range(12):
            q = A @ lax.all_gather(d, "x", tiled=True)
            a = rr / lax.psum(d @ q, "x")
            x = x + a * d
            r = r - a * q
            new = lax.psum(r @ r, "x")
            d = r + new / rr * d
            rr = new
        return x

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% x along the next direction exercise="10.6" score=0 diagnoses=["next-direction", "not-counted-yet"] near=["once-too-often", "the-direction"]
def cg(A, b):
    def body(A, b):
        x, r, d = jnp.zeros_like(b), b, b
        rr = lax.psum(b @ b, "x")
        for _ in range(12):
            q = A @ lax.all_gather(d, "x", tiled=True)
            a = rr / lax.psum(d @ q, "x")
            r = r - a * q
            new = lax.psum(r @ r, "x")
            d = r + new / rr * d
            x = x + a * d
            rr = new
        return x

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% squares of its own part exercise="10.6" score=0 diagnoses=["own-sums", "not-counted-yet"] near=["first-square-of-its-own", "averaged", "values"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ lax.all_gather(p, "x", tiled=True)
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = r @ r
            return x, r, r + new / square * p, new

        return lax.fori_loop(0, 12, step, (b - b, b, b, b @ b))[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% nothing gathered exercise="10.6" score=0 diagnoses=["not-gathered"] near=["own-block-of-A", "no all-gather"]
def cg(A, b):
    def body(A, b):
        def step(_, state):
            x, r, p, square = state
            q = A @ p
            length = square / lax.psum(p @ q, "x")
            x, r = x + length * p, r - length * q
            new = lax.psum(r @ r, "x")
            return x, r, r + new / square * p, new

        return lax.fori_loop(0, 12, step, (b - b, b, b, lax.psum(b @ b, "x")))[0]

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(A, b)


# %% by blocks of rows exercise="10.7" score=1 near=["multipliers-missing", "only-forward", "too-many-bytes", "one-matrix", "explicit all-gather"]
from jax.scipy.linalg import solve_triangular


def own_block(mine, d):
    return lax.dynamic_slice_in_dim(mine, d * len(mine), len(mine), 1)


def from_device(value, d):
    return lax.psum(jnp.where(lax.axis_index("x") == d, value, 0), "x")


def lu(A):
    def body(mine):
        m, n = mine.shape
        place = lax.axis_index("x")
        for d in range(lax.axis_size("x")):
            # the rows of device d, whose block on the diagonal is factorised by everybody
            start = d * m
            rows = from_device(mine, d)

            def eliminated(k, rows):
                below, later = jnp.arange(m) > k, jnp.arange(n) > start + k
                factors = jnp.where(below, rows[:, start + k] / rows[k, start + k], 0)
                rows = rows - jnp.outer(factors, jnp.where(later, rows[k], 0))
                return rows.at[:, start + k].set(jnp.where(below, factors, rows[:, start + k]))

            rows = lax.fori_loop(0, m - 1, eliminated, rows)
            diagonal = rows[:, start : start + m]
            right = rows[:, start + m :]
            left = solve_triangular(diagonal.T, mine[:, start : start + m].T, lower=True).T
            rest = mine[:, start + m :] - left @ right
            later = jnp.concatenate([mine[:, :start], left, rest], axis=1)
            mine = jnp.where(place == d, rows, jnp.where(place > d, later, mine))
        return mine

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        m, p = len(mine), lax.axis_size("x")
        place = lax.axis_index("x")
        diagonal = own_block(mine, place)
        for d in range(p):
            y = solve_triangular(diagonal, b, lower=True, unit_diagonal=True)
            known = from_device(y, d)
            b = jnp.where(place > d, b - own_block(mine, d) @ known, jnp.where(place == d, y, b))
        for d in reversed(range(p)):
            x = solve_triangular(diagonal, b)
            known = from_device(x, d)
            b = jnp.where(place < d, b - own_block(mine, d) @ known, jnp.where(place == d, x, b))
        return b

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% left to the compiler exercise="10.7" score=0 diagnoses=["not-counted-yet", "no-shard-map", "all-gather over x"] naive=true near=["replicated"]
def lu(A):
    n = len(A)
    numbers = jnp.arange(n)

    def step(k, LU):
        factors = jnp.where(numbers > k, LU[:, k] / LU[k, k], 0)
        less = LU - jnp.outer(factors, jnp.where(numbers > k, LU[k], 0))
        return less.at[:, k].set(jnp.where(numbers > k, factors, LU[:, k]))

    return lax.with_sharding_constraint(lax.fori_loop(0, n - 1, step, A), P("x", None))


def substitute(LU, b):
    lower = jnp.tril(LU, -1) + jnp.eye(len(b))
    y = jax.scipy.linalg.solve_triangular(lower, b, lower=True)
    x = jax.scipy.linalg.solve_triangular(LU, y)
    return lax.with_sharding_constraint(x, P("x"))


# %% gathered by hand exercise="10.7" score=0.25 diagnoses=["explicit all-gather", "all-gather over x"] near=["no all-reduce"]
def lu(A):
    def body(mine):
        LU = lax.all_gather(mine, "x", tiled=True)
        numbers = jnp.arange(len(LU))

        def step(k, LU):
            factors = jnp.where(numbers > k, LU[:, k] / LU[k, k], 0)
            less = LU - jnp.outer(factors, jnp.where(numbers > k, LU[k], 0))
            return less.at[:, k].set(jnp.where(numbers > k, factors, LU[:, k]))

        LU = lax.fori_loop(0, len(LU) - 1, step, LU)
        return lax.dynamic_slice_in_dim(LU, lax.axis_index("x") * len(mine), len(mine))

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        LU, whole = (lax.all_gather(each, "x", tiled=True) for each in (mine, b))
        lower = jnp.tril(LU, -1) + jnp.eye(len(LU))
        x = jax.scipy.linalg.solve_triangular(LU, jnp.linalg.solve(lower, whole))
        return lax.dynamic_slice_in_dim(x, lax.axis_index("x") * len(b), len(b))

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% zeros below, and the solution with L alone exercise="10.7" score=0 diagnoses=["multipliers-missing", "not-counted-yet", "only-forward"] near=["multipliers-negative", "only-back", "not-finite"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, 0, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        n = mine.shape[1]
        numbers = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))

        def forward(k, y):
            known = lax.psum(jnp.where(numbers == k, y, 0).sum(), "x")
            return y - jnp.where(numbers > k, mine[:, k] * known, 0)

        def back(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        y = lax.fori_loop(0, n, forward, b)
        return y

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% the multiples taken off, and the solution with U alone exercise="10.7" score=0 diagnoses=["multipliers-negative", "not-counted-yet", "only-back"] near=["each-for-itself", "l-not-of-ones"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, -multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        n = mine.shape[1]
        numbers = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))

        def forward(k, y):
            known = lax.psum(jnp.where(numbers == k, y, 0).sum(), "x")
            return y - jnp.where(numbers > k, mine[:, k] * known, 0)

        def back(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        y = b
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% each block by itself, and U taken to have ones exercise="10.7" score=0 diagnoses=["each-for-itself", "not-counted-yet", "no all-reduce", "never-divided"] near=["nothing-done", "l-not-of-ones", "no-shard-map", "not-replicated"]
def lu(A):
    def body(mine):
        rows, start = len(mine), lax.axis_index("x") * len(mine)
        columns = jnp.arange(mine.shape[1])
        for k in range(rows):
            column = mine[:, start + k]
            factors = jnp.where(jnp.arange(rows) > k, column / column[k], 0)
            less = mine - jnp.outer(factors, jnp.where(columns > start + k, mine[k], 0))
            mine = less.at[:, start + k].set(jnp.where(jnp.arange(rows) > k, factors, column))
        return mine

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        n = mine.shape[1]
        numbers = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))

        def forward(k, y):
            known = lax.psum(jnp.where(numbers == k, y, 0).sum(), "x")
            return y - jnp.where(numbers > k, mine[:, k] * known, 0)

        def back(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x, 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% ones in U, and the diagonal of U for L exercise="10.7" score=0 diagnoses=["ones-in-u", "not-counted-yet", "l-not-of-ones"] near=["rows-divided", "never-divided"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            scaled = jnp.where(columns > k, row / row[k], 0)
            less = mine - jnp.where(below, mine[:, k], 0)[:, None] * scaled
            mine_is_it = (numbers == k)[:, None] & (columns > k)
            return jnp.where(mine_is_it, scaled, less)

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        n = mine.shape[1]
        numbers = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))

        def forward(k, y):
            known = lax.psum(jnp.where(numbers == k, y / mine[:, k], 0).sum(), "x")
            less = y - jnp.where(numbers > k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        def back(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% nothing, and one matrix exercise="10.7" score=0 diagnoses=["nothing-done", "not-counted-yet", "no all-reduce", "one-matrix", "explicit all-gather", "all-gather over x"] near=["ones-in-u"]
def lu(A):
    return jax.shard_map(lambda mine: mine, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        matrix, whole = (lax.all_gather(each, "x", tiled=True) for each in (mine, b))
        x = jnp.linalg.solve(matrix, whole)
        return lax.dynamic_slice_in_dim(x, lax.axis_index("x") * len(b), len(b))

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% the whole matrix in each step, and the whole vector exercise="10.7" score=0.25 diagnoses=["too-many-bytes"] near=["no all-reduce"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            whole = jnp.zeros((mine.shape[1], mine.shape[1]))
            whole = lax.dynamic_update_slice(whole, mine, (numbers[0], 0))
            row = lax.psum(whole, "x")[k]
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        n = mine.shape[1]
        numbers = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))

        def forward(k, y):
            long = lax.dynamic_update_slice(jnp.zeros(n), y, (numbers[0],))
            known = lax.psum(long, "x")[k]
            return y - jnp.where(numbers > k, mine[:, k] * known, 0)

        def back(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% rows by an all-reduce, b by an all-gather exercise="10.7" score=0.125 diagnoses=["explicit all-gather", "all-gather over x", "unanswered"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])
        first = lax.all_gather(mine[0, :1], "x", tiled=True)
        mine = mine.at[0, 0].set(first[lax.axis_index("x")])

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


# %% a row that every device has its own of exercise="10.7" score=0 diagnoses=["not-replicated", "unanswered"]
def lu(A):
    def body(mine):
        return mine[0]

    row = jax.shard_map(body, in_specs=P("x"), out_specs=P())(A)
    return A - row


# %% divided by what is masked exercise="10.7" score=0 diagnoses=["not-a-number", "not-counted-yet", "unanswered"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / jnp.where(columns > k, row, 0)[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


# %% rows numbered from 0, and divided on the way exercise="10.7" score=0 diagnoses=["numbers-of-the-block", "not-counted-yet", "divided-on-the-way"] near=["each-for-itself", "itself-too", "l-not-of-ones", "back-from-the-first", "own-pivots", "number-itself-too", "divided-twice", "first-left-out"]
def numbers_of(mine):
    return jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1], step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        n = mine.shape[1]
        numbers = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))

        def forward(k, y):
            known = lax.psum(jnp.where(numbers == k, y / mine[:, k], 0).sum(), "x")
            return y - jnp.where(numbers > k, mine[:, k] * known, 0)

        def back(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% row k taken off itself, and back from the first exercise="10.7" score=0 diagnoses=["itself-too", "not-counted-yet", "back-from-the-first"] near=["numbers-of-the-block", "first-rows-alone", "divided-on-the-way"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers >= k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1], step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        n = mine.shape[1]
        numbers = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))

        def forward(k, y):
            known = lax.psum(jnp.where(numbers == k, y, 0).sum(), "x")
            return y - jnp.where(numbers > k, mine[:, k] * known, 0)

        def back(k, x):
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% as many steps as a device has rows exercise="10.7" score=0 diagnoses=["first-rows-alone", "not-counted-yet", "unanswered"] near=["each-for-itself", "not-finite"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[0], step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


# %% a row that nobody is told exercise="10.7" score=0 diagnoses=["not-a-number", "not-counted-yet", "no all-reduce", "unanswered"] near=["each-for-itself", "not-replicated"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            row = jnp.where((numbers == k)[:, None], mine, 0).sum(0)
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1], step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


# %% averages for sums exercise="10.7" score=0 diagnoses=["averaged", "not-counted-yet"] near=["multipliers-negative", "u-before-l"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            row = lax.pmean(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        n, numbers = mine.shape[1], numbers_of(mine)

        def forward(k, y):
            known = lax.pmean(jnp.where(numbers == k, y, 0).sum(), "x")
            return y - jnp.where(numbers > k, mine[:, k] * known, 0)

        def back(step, x):
            k = n - 1 - step
            known = lax.pmean(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        return lax.fori_loop(0, n, back, lax.fori_loop(0, n, forward, b))

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% rows above too, and U before L exercise="10.7" score=0 diagnoses=["rows-above-too", "not-counted-yet", "u-before-l"] near=["substitute: averaged", "gauss-jordan", "itself-too", "only-back", "one-matrix"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers != k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        n, numbers = mine.shape[1], numbers_of(mine)

        def with_u(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        def with_l(k, y):
            known = lax.psum(jnp.where(numbers == k, y, 0).sum(), "x")
            return y - jnp.where(numbers > k, mine[:, k] * known, 0)

        return lax.fori_loop(0, n, with_l, lax.fori_loop(0, n, with_u, b))

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% Gauss-Jordan, and rows numbered from 0 to substitute exercise="10.7" score=0 diagnoses=["gauss-jordan", "not-counted-yet", "numbers-of-the-block"] near=["rows-above-too", "nothing-done"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers != k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(
                jnp.where(numbers > k, multiples, jnp.where(numbers < k, 0, mine[:, k]))
            )

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        n, numbers = mine.shape[1], jnp.arange(len(mine))

        def forward(k, y):
            known = lax.psum(jnp.where(numbers == k, y, 0).sum(), "x")
            return y - jnp.where(numbers > k, mine[:, k] * known, 0)

        def back(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        return lax.fori_loop(0, n, back, lax.fori_loop(0, n, forward, b))

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% rows above too, in n steps exercise="10.7" score=0 diagnoses=["rows-above-too", "not-counted-yet", "unanswered"] near=["gauss-jordan"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers != k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1], step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


# %% Gauss-Jordan, in n steps exercise="10.7" score=0 diagnoses=["gauss-jordan", "not-counted-yet", "unanswered"] near=["rows-above-too"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers != k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(
                jnp.where(numbers > k, multiples, jnp.where(numbers < k, 0, mine[:, k]))
            )

        return lax.fori_loop(0, mine.shape[1], step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


# %% rows masked by their place in the block exercise="10.7" score=0 diagnoses=["mask-of-the-block", "not-counted-yet", "unanswered"] near=["numbers-of-the-block", "mask-by-place"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        places, columns = jnp.arange(len(mine)), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = places > k % len(mine)
            row = lax.psum(
                jnp.where(lax.axis_index("x") == k // len(mine), mine[k % len(mine)], 0), "x"
            )
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


# %% k compared with places in the block exercise="10.7" score=0 diagnoses=["mask-by-place", "not-counted-yet", "unanswered"] near=["numbers-of-the-block", "mask-of-the-block"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        places, columns = jnp.arange(len(mine)), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = places > k
            row = lax.psum(
                jnp.where(lax.axis_index("x") == k // len(mine), mine[k % len(mine)], 0), "x"
            )
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


# %% a step too few exercise="10.7" score=0 diagnoses=["last-step-missing", "not-counted-yet", "unanswered"] near=["first-rows-alone"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1] - 2, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


# %% divided by rows of its own exercise="10.7" score=0.5 diagnoses=["own-pivots", "not-counted-yet"] near=["each-for-itself", "divided-twice"]
def lu(A):
    def body(A):
        m, n = A.shape
        first = lax.axis_index("x") * m
        mine = first + jnp.arange(m)

        def one(k, A):
            row = lax.psum(jnp.where((mine == k)[:, None], A, 0).sum(0), "x")
            f = A[:, k] / A[k % m, k]
            below = mine > k
            new = jnp.where(jnp.arange(n) > k, A - f[:, None] * row, A).at[:, k].set(f)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, n, one, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        mine = lax.axis_index("x") * m + jnp.arange(m)

        def forth(k, y):
            v = lax.psum(jnp.where(mine == k, y, 0).sum(), "x")
            return jnp.where(mine > k, y - LU[:, k] * v, y)

        y = lax.fori_loop(0, n, forth, b)

        def back(i, y):
            k = n - 1 - i
            v = lax.psum(jnp.where(mine == k, y / LU[:, k], 0).sum(), "x")
            y = jnp.where(mine == k, v, y)
            return jnp.where(mine < k, y - LU[:, k] * v, y)

        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% one function alone, in n steps exercise="10.7" score=0.5 diagnoses=["unanswered"] near=["lu: averaged", "last-step-missing"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1], step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


# %% divided twice on the way back exercise="10.7" score=0.5 diagnoses=["divided-twice", "not-counted-yet"] near=["divided-on-the-way", "never-divided"]
def lu(A):
    def body(A):
        m, n = A.shape
        first = lax.axis_index("x") * m
        mine = first + jnp.arange(m)

        def one(k, A):
            row = lax.psum(jnp.where((mine == k)[:, None], A, 0).sum(0), "x")
            f = A[:, k] / row[k]
            below = mine > k
            new = jnp.where(jnp.arange(n) > k, A - f[:, None] * row, A).at[:, k].set(f)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, n, one, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        mine = lax.axis_index("x") * m + jnp.arange(m)

        def forth(k, y):
            v = lax.psum(jnp.where(mine == k, y, 0).sum(), "x")
            return jnp.where(mine > k, y - LU[:, k] * v, y)

        y = lax.fori_loop(0, n, forth, b)

        def back(i, y):
            k = n - 1 - i
            v = lax.psum(jnp.where(mine == k, y / LU[:, k], 0).sum(), "x")
            y = jnp.where(mine == k, v / LU[:, k], y)
            return jnp.where(mine < k, y - LU[:, k] * v, y)

        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% number k taken off itself exercise="10.7" score=0.5 diagnoses=["number-itself-too", "not-counted-yet"] near=["l-not-of-ones", "divided-on-the-way"]
def lu(A):
    def body(A):
        m, n = A.shape
        first = lax.axis_index("x") * m
        mine = first + jnp.arange(m)

        def one(k, A):
            row = lax.psum(jnp.where((mine == k)[:, None], A, 0).sum(0), "x")
            f = A[:, k] / row[k]
            below = mine > k
            new = jnp.where(jnp.arange(n) > k, A - f[:, None] * row, A).at[:, k].set(f)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, n, one, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        mine = lax.axis_index("x") * m + jnp.arange(m)

        def forth(k, y):
            v = lax.psum(jnp.where(mine == k, y, 0).sum(), "x")
            return jnp.where(mine >= k, y - LU[:, k] * v, y)

        y = lax.fori_loop(0, n, forth, b)

        def back(i, y):
            k = n - 1 - i
            v = lax.psum(jnp.where(mine == k, y / LU[:, k], 0).sum(), "x")
            y = jnp.where(mine == k, v, y)
            return jnp.where(mine < k, y - LU[:, k] * v, y)

        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% back from n, and not from n - 1 exercise="10.7" score=0.5 diagnoses=["first-left-out", "not-counted-yet"] near=["back-from-the-first", "never-divided"]
def lu(A):
    def body(A):
        m, n = A.shape
        first = lax.axis_index("x") * m
        mine = first + jnp.arange(m)

        def one(k, A):
            row = lax.psum(jnp.where((mine == k)[:, None], A, 0).sum(0), "x")
            f = A[:, k] / row[k]
            below = mine > k
            new = jnp.where(jnp.arange(n) > k, A - f[:, None] * row, A).at[:, k].set(f)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, n, one, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        mine = lax.axis_index("x") * m + jnp.arange(m)

        def forth(k, y):
            v = lax.psum(jnp.where(mine == k, y, 0).sum(), "x")
            return jnp.where(mine > k, y - LU[:, k] * v, y)

        y = lax.fori_loop(0, n, forth, b)

        def back(i, y):
            k = n - i
            v = lax.psum(jnp.where(mine == k, y / LU[:, k], 0).sum(), "x")
            y = jnp.where(mine == k, v, y)
            return jnp.where(mine < k, y - LU[:, k] * v, y)

        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% all columns, and divided twice exercise="10.7" score=0 diagnoses=["columns-before-too", "not-counted-yet", "values"] near=["stored-undivided", "multiples-undivided", "nothing-solved"]
def lu(A):
    def body(A):
        m, n = A.shape
        mine = lax.axis_index("x") * m + jnp.arange(m)

        def step(k, A):
            row = lax.psum(jnp.where((mine == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / row[k]
            below = mine > k
            A = A - jnp.where(below[:, None], factor[:, None] * row, 0)
            return A.at[:, k].set(jnp.where(below, factor, A[:, k]))

        return lax.fori_loop(0, n, step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        mine = lax.axis_index("x") * m + jnp.arange(m)

        def forward(k, y):
            one = lax.psum(jnp.where(mine == k, y, 0).sum(), "x")
            return y - jnp.where(mine > k, LU[:, k] * one / LU[k % m, k], 0)

        y = lax.fori_loop(0, n, forward, b)
        diagonal = LU[jnp.arange(m), mine]

        def back(i, y):
            k = n - 1 - i
            one = lax.psum(jnp.where(mine == k, y / diagonal, 0).sum(), "x")
            return jnp.where(mine == k, one, y - jnp.where(mine < k, LU[:, k] * one, 0))

        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(LU, b)


# %% L times the diagonal, and U only exercise="10.7" score=0 diagnoses=["stored-undivided", "not-counted-yet", "only-back"] near=["columns-before-too"]
def lu(A):
    def body(A):
        m, n = A.shape
        mine = lax.axis_index("x") * m + jnp.arange(m)

        def step(k, A):
            row = lax.psum(jnp.where((mine == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / row[k]
            below = mine > k
            A = A - jnp.where(below[:, None] & (jnp.arange(n) > k), factor[:, None] * row, 0)
            return A.at[:, k].set(jnp.where(below, factor * row[k], A[:, k]))

        return lax.fori_loop(0, n, step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        mine = lax.axis_index("x") * m + jnp.arange(m)

        def forward(k, y):
            one = lax.psum(jnp.where(mine == k, y, 0).sum(), "x")
            return y - jnp.where(mine > k, LU[:, k] * one, 0)

        y = b
        diagonal = LU[jnp.arange(m), mine]

        def back(i, y):
            k = n - 1 - i
            one = lax.psum(jnp.where(mine == k, y / diagonal, 0).sum(), "x")
            return jnp.where(mine == k, one, y - jnp.where(mine < k, LU[:, k] * one, 0))

        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(LU, b)


# %% never divided, and back to 1 only exercise="10.7" score=0 diagnoses=["multiples-undivided", "not-counted-yet", "first-left-out"] near=["nothing-done"]
def lu(A):
    def body(A):
        m, n = A.shape
        mine = lax.axis_index("x") * m + jnp.arange(m)

        def step(k, A):
            row = lax.psum(jnp.where((mine == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k]
            below = mine > k
            A = A - jnp.where(below[:, None] & (jnp.arange(n) > k), factor[:, None] * row, 0)
            return A.at[:, k].set(jnp.where(below, factor, A[:, k]))

        return lax.fori_loop(0, n, step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        mine = lax.axis_index("x") * m + jnp.arange(m)

        def forward(k, y):
            one = lax.psum(jnp.where(mine == k, y, 0).sum(), "x")
            return y - jnp.where(mine > k, LU[:, k] * one, 0)

        y = lax.fori_loop(0, n, forward, b)
        diagonal = LU[jnp.arange(m), mine]

        def back(i, y):
            k = n - 1 - i
            one = lax.psum(jnp.where(mine == k, y / diagonal, 0).sum(), "x")
            return jnp.where(mine == k, one, y - jnp.where(mine < k, LU[:, k] * one, 0))

        return lax.fori_loop(0, n - 1, back, y)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(LU, b)


# %% A and b as they came exercise="10.7" score=0 diagnoses=["nothing-done", "not-counted-yet", "nothing-solved"] near=["stored-undivided"]
def lu(A):
    return jax.shard_map(lambda a: a + 0 * lax.psum(a, "x"), in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    return jax.shard_map(lambda a, b: b + 0 * lax.psum(b, "x"), in_specs=P("x"), out_specs=P("x"))(
        LU, b
    )


# %% added, in lu and in the forward pass exercise="10.7" score=0 diagnoses=["added", "not-counted-yet"] near=["multipliers-negative", "forward-from-the-last", "numbers-above", "numbers-below"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            more = mine + multiples[:, None] * jnp.where(columns > k, row, 0)
            return more.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        n, numbers = mine.shape[1], numbers_of(mine)

        def forward(k, y):
            known = lax.psum(jnp.where(numbers == k, y, 0).sum(), "x")
            return y + jnp.where(numbers > k, mine[:, k] * known, 0)

        def back(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        return lax.fori_loop(0, n, back, lax.fori_loop(0, n, forward, b))

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% forward from the last number exercise="10.7" score=0 diagnoses=["unanswered", "forward-from-the-last", "not-counted-yet"] near=["back-from-the-first", "substitute: added", "numbers-above"]
def substitute(LU, b):
    def body(mine, b):
        n = mine.shape[1]
        numbers = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))

        def forward(step, y):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, y, 0).sum(), "x")
            return y - jnp.where(numbers > k, mine[:, k] * known, 0)

        def back(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        return lax.fori_loop(0, n, back, lax.fori_loop(0, n, forward, b))

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% numbers above in the forward pass exercise="10.7" score=0 diagnoses=["unanswered", "numbers-above", "not-counted-yet"] near=["forward-from-the-last", "numbers-below", "u-before-l", "first-column-alone"]
def substitute(LU, b):
    def body(mine, b):
        n = mine.shape[1]
        numbers = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))

        def forward(k, y):
            known = lax.psum(jnp.where(numbers == k, y, 0).sum(), "x")
            return y - jnp.where(numbers < k, mine[:, k] * known, 0)

        def back(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        return lax.fori_loop(0, n, back, lax.fori_loop(0, n, forward, b))

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% numbers below in the back pass exercise="10.7" score=0 diagnoses=["unanswered", "numbers-below", "not-counted-yet"] near=["back-from-the-first", "numbers-above", "lu: added"]
def substitute(LU, b):
    def body(mine, b):
        n = mine.shape[1]
        numbers = lax.axis_index("x") * len(mine) + jnp.arange(len(mine))

        def forward(k, y):
            known = lax.psum(jnp.where(numbers == k, y, 0).sum(), "x")
            return y - jnp.where(numbers > k, mine[:, k] * known, 0)

        def back(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers > k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        return lax.fori_loop(0, n, back, lax.fori_loop(0, n, forward, b))

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% rows left, and all columns, in a scan exercise="10.8" score=1 near=["multipliers-missing", "in-blocks", "too-many-bytes", "explicit all-gather"]
def cyclic_lu(A):
    def body(mine):
        _, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        columns = jnp.arange(n)
        rows, done = mine.reshape(-1, n), []
        while len(rows):
            start = len(done) * p
            numbers = start + place + p * jnp.arange(len(rows))

            def step(rows, k):
                row = lax.psum(jnp.where(numbers[0] == k, rows[0], 0), "x")
                factors = jnp.where(numbers > k, rows[:, k] / row[k], 0)
                changes = jnp.where(columns > k, row, 0).at[k].set(row[k])
                rest = rows - factors[:, None] * changes
                return rest.at[:, k].add(factors), None

            rows, _ = lax.scan(step, rows, start + jnp.arange(p))
            done.append(rows[0])
            rows = rows[1:]
        return jnp.stack(done)[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% masks, and nothing smaller exercise="10.8" score=0.25 diagnoses=["too-much-work"] near=["no-shard-map"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        numbers, columns = jnp.arange(rounds) * p + place, jnp.arange(n)

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, n - 1, step, mine[:, 0])[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% masks in a Python loop, with the row taken out exercise="10.8" score=0.25 diagnoses=["too-much-work"] near=["no-shard-map", "too-many-bytes"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        mine = mine[:, 0]
        numbers, columns = jnp.arange(rounds) * p + place, jnp.arange(n)
        for k in range(n - 1):
            row = lax.psum(jnp.where(place == k % p, mine[k // p], 0), "x")
            factors = jnp.where(numbers > k, mine[:, k] / row[k], 0)
            less = mine - factors[:, None] * jnp.where(columns > k, row, 0)
            mine = less.at[:, k].set(jnp.where(numbers > k, factors, less[:, k]))
        return mine[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% left to the compiler exercise="10.8" score=0 diagnoses=["not-counted-yet", "no-shard-map", "all-gather over x", "too-much-work"] naive=true near=["explicit all-gather"]
def cyclic_lu(A):
    n = A.shape[-1]
    numbers = jnp.arange(n)

    def step(k, LU):
        factors = jnp.where(numbers > k, LU[:, k] / LU[k, k], 0)
        less = LU - jnp.outer(factors, jnp.where(numbers > k, LU[k], 0))
        return less.at[:, k].set(jnp.where(numbers > k, factors, LU[:, k]))

    LU = lax.fori_loop(0, n - 1, step, A.reshape(n, n))
    return lax.with_sharding_constraint(LU.reshape(A.shape), P(None, "x"))


# %% zeros below exercise="10.8" score=0 diagnoses=["multipliers-missing", "not-counted-yet"] near=["multipliers-negative"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        mine = mine[:, 0]
        for r in range(rounds):
            left = mine[r:, r * p :]
            numbers = jnp.arange(rounds - r) * p + place

            def step(k, left):
                row = lax.psum(jnp.where(place == k, left[0], 0), "x")
                below = numbers > k
                multiples = jnp.where(below, left[:, k] / row[k], 0)
                less = left - jnp.outer(multiples, jnp.where(jnp.arange(n - r * p) > k, row, 0))
                return less.at[:, k].set(jnp.where(below, 0, left[:, k]))

            mine = mine.at[r:, r * p :].set(lax.fori_loop(0, p, step, left))
        return mine[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% the multiples with the other sign exercise="10.8" score=0 diagnoses=["multipliers-negative", "not-counted-yet"] near=["nothing-done"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        mine = mine[:, 0]
        for r in range(rounds):
            left = mine[r:, r * p :]
            numbers = jnp.arange(rounds - r) * p + place

            def step(k, left):
                row = lax.psum(jnp.where(place == k, left[0], 0), "x")
                below = numbers > k
                multiples = jnp.where(below, left[:, k] / row[k], 0)
                less = left - jnp.outer(multiples, jnp.where(jnp.arange(n - r * p) > k, row, 0))
                return less.at[:, k].set(jnp.where(below, -multiples, left[:, k]))

            mine = mine.at[r:, r * p :].set(lax.fori_loop(0, p, step, left))
        return mine[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% rows counted by blocks exercise="10.8" score=0 diagnoses=["in-blocks", "not-counted-yet", "too-much-work"] near=["itself-too"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        numbers, columns = jnp.arange(rounds) + rounds * place, jnp.arange(n)

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, n - 1, step, mine[:, 0])[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% nothing done exercise="10.8" score=0 diagnoses=["nothing-done", "not-counted-yet", "no all-reduce"] near=["too-much-work", "slice-a-row-late", "multiples-undivided"]
def cyclic_lu(A):
    return jax.shard_map(lambda mine: mine, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% the rows of all rounds in each round exercise="10.8" score=0.25 diagnoses=["too-many-bytes", "too-much-work"] near=["no all-reduce"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        numbers, columns = jnp.arange(rounds) * p + place, jnp.arange(n)

        def step(k, mine):
            below = numbers > k
            whole = lax.psum(jnp.zeros((n, n)).at[numbers].set(mine), "x")
            row = whole[k]
            multiples = jnp.where(below, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(below, multiples, mine[:, k]))

        return lax.fori_loop(0, n - 1, step, mine[:, 0])[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% gathered, and done by everybody exercise="10.8" score=0.25 diagnoses=["explicit all-gather", "all-gather over x", "too-much-work"] near=["no all-reduce"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        LU = lax.all_gather(mine, "x", axis=1, tiled=True).reshape(n, n)
        numbers = jnp.arange(n)

        def step(k, LU):
            factors = jnp.where(numbers > k, LU[:, k] / LU[k, k], 0)
            less = LU - jnp.outer(factors, jnp.where(numbers > k, LU[k], 0))
            return less.at[:, k].set(jnp.where(numbers > k, factors, LU[:, k]))

        LU = lax.fori_loop(0, n - 1, step, LU).reshape(rounds, -1, n)
        return lax.dynamic_slice_in_dim(LU, lax.axis_index("x"), 1, 1)

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% an all-gather for each round exercise="10.8" score=0.25 diagnoses=["explicit all-gather", "all-gather over x", "not-counted-yet"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        mine = mine[:, 0]
        for r in range(rounds):
            left = mine[r:, r * p :]
            numbers = jnp.arange(rounds - r) * p + place

            def step(k, left):
                row = lax.all_gather(left[0], "x")[k]
                row = lax.psum(jnp.where(place == k, row, 0), "x")
                below = numbers > k
                multiples = jnp.where(below, left[:, k] / row[k], 0)
                less = left - jnp.outer(multiples, jnp.where(jnp.arange(n - r * p) > k, row, 0))
                return less.at[:, k].set(jnp.where(below, multiples, left[:, k]))

            mine = mine.at[r:, r * p :].set(lax.fori_loop(0, p, step, left))
        return mine[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% places and devices the other way round exercise="10.8" score=0 diagnoses=["numbers-turned", "not-counted-yet"] near=["numbers-in-blocks", "in-blocks"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        mine = mine[:, 0]
        for r in range(rounds):
            left = mine[r:, r * p :]
            numbers = jnp.arange(rounds - r) + p * place

            def step(k, left):
                row = lax.psum(jnp.where(place == k, left[0], 0), "x")
                below = numbers > k
                multiples = jnp.where(below, left[:, k] / row[k], 0)
                less = left - jnp.outer(multiples, jnp.where(jnp.arange(n - r * p) > k, row, 0))
                return less.at[:, k].set(jnp.where(below, multiples, left[:, k]))

            mine = mine.at[r:, r * p :].set(lax.fori_loop(0, p, step, left))
        return mine[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% what is left numbered in blocks exercise="10.8" score=0 diagnoses=["numbers-in-blocks", "not-counted-yet"] near=["numbers-turned", "in-blocks"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        mine = mine[:, 0]
        for r in range(rounds):
            left = mine[r:, r * p :]
            numbers = jnp.arange(rounds - r) + (rounds - r) * place

            def step(k, left):
                row = lax.psum(jnp.where(place == k, left[0], 0), "x")
                below = numbers > k
                multiples = jnp.where(below, left[:, k] / row[k], 0)
                less = left - jnp.outer(multiples, jnp.where(jnp.arange(n - r * p) > k, row, 0))
                return less.at[:, k].set(jnp.where(below, multiples, left[:, k]))

            mine = mine.at[r:, r * p :].set(lax.fori_loop(0, p, step, left))
        return mine[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% a loop over the rows below alone exercise="10.8" score=0.25 diagnoses=["unknown-times"] near=["too-much-work", "added-by-the-compiler"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        columns = jnp.arange(n)

        def step(k, mine):
            row = lax.psum(jnp.where(place == k % p, mine[k // p], 0), "x")

            def changed(i, mine):
                multiple = mine[i, k] / row[k]
                less = mine[i] - jnp.where(columns > k, multiple * row, 0)
                return mine.at[i].set(less.at[k].set(multiple))

            first = k // p + jnp.where(place > k % p, 0, 1)
            return lax.fori_loop(first, rounds, changed, mine)

        return lax.fori_loop(0, n - 1, step, mine[:, 0])[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% cut into columns, and put back by a constraint exercise="10.8" score=0.25 diagnoses=["other-blocks-enter", "all-to-all over x", "too-much-work"] near=["unknown-times", "in-blocks"]
def cyclic_lu(A):
    def body(mine):
        rows = mine.reshape(-1, mine.shape[-1])
        n, size = rows.shape
        numbers = jnp.arange(n)
        columns = lax.axis_index("x") * size + jnp.arange(size)

        def step(k, rows):
            column = lax.psum(jnp.where(columns == k, rows, 0).sum(1), "x")
            multiples = jnp.where(numbers > k, column / column[k], 0)[:, None]
            less = rows - multiples * jnp.where(columns > k, rows[k], 0)
            return jnp.where((columns == k) & (numbers > k)[:, None], multiples, less)

        return lax.fori_loop(0, n - 1, step, rows).reshape(mine.shape)

    cut = P(None, None, "x")
    factors = jax.shard_map(body, in_specs=cut, out_specs=cut)(A)
    return lax.with_sharding_constraint(factors, P(None, "x"))


# %% averages for sums exercise="10.8" score=0 diagnoses=["averaged", "not-counted-yet"] near=["multipliers-negative", "not-finite"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, _ = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        mine = mine[:, 0]
        for done in range(rounds):
            left = mine[done:, done * p :]
            numbers = jnp.arange(len(left)) * p + place
            columns = jnp.arange(left.shape[1])

            def step(k, left, numbers=numbers, columns=columns):
                row = lax.pmean(jnp.where(place == k, left[0], 0), "x")
                multiples = jnp.where(numbers > k, left[:, k] / row[k], 0)
                less = left - multiples[:, None] * jnp.where(columns > k, row, 0)
                return less.at[:, k].set(jnp.where(numbers > k, multiples, left[:, k]))

            mine = mine.at[done:, done * p :].set(lax.fori_loop(0, p, step, left))
        return mine[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% a round too few exercise="10.8" score=0 diagnoses=["last-round-missing", "not-counted-yet"] near=["last-step-missing", "last-of-each-round"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, _ = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        mine = mine[:, 0]
        for done in range(rounds - 1):
            left = mine[done:, done * p :]
            numbers = jnp.arange(len(left)) * p + place
            columns = jnp.arange(left.shape[1])

            def step(k, left, numbers=numbers, columns=columns):
                row = lax.psum(jnp.where(place == k, left[0], 0), "x")
                multiples = jnp.where(numbers > k, left[:, k] / row[k], 0)
                less = left - multiples[:, None] * jnp.where(columns > k, row, 0)
                return less.at[:, k].set(jnp.where(numbers > k, multiples, left[:, k]))

            mine = mine.at[done:, done * p :].set(lax.fori_loop(0, p, step, left))
        return mine[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% a step too few in each round exercise="10.8" score=0 diagnoses=["last-of-each-round", "not-counted-yet"] near=["last-round-missing", "last-step-missing"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, _ = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        mine = mine[:, 0]
        for done in range(rounds):
            left = mine[done:, done * p :]
            numbers = jnp.arange(len(left)) * p + place
            columns = jnp.arange(left.shape[1])

            def step(k, left, numbers=numbers, columns=columns):
                row = lax.psum(jnp.where(place == k, left[0], 0), "x")
                multiples = jnp.where(numbers > k, left[:, k] / row[k], 0)
                less = left - multiples[:, None] * jnp.where(columns > k, row, 0)
                return less.at[:, k].set(jnp.where(numbers > k, multiples, left[:, k]))

            mine = mine.at[done:, done * p :].set(lax.fori_loop(0, p - 1, step, left))
        return mine[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% without the middle dimension exercise="10.8" score=0 diagnoses=["middle-dimension-dropped", "shape", "not-counted-yet"] near=["rank", "in-blocks"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, _ = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        mine = mine[:, 0]
        for done in range(rounds):
            left = mine[done:, done * p :]
            numbers = jnp.arange(len(left)) * p + place
            columns = jnp.arange(left.shape[1])

            def step(k, left, numbers=numbers, columns=columns):
                row = lax.psum(jnp.where(place == k, left[0], 0), "x")
                multiples = jnp.where(numbers > k, left[:, k] / row[k], 0)
                less = left - multiples[:, None] * jnp.where(columns > k, row, 0)
                return less.at[:, k].set(jnp.where(numbers > k, multiples, left[:, k]))

            mine = mine.at[done:, done * p :].set(lax.fori_loop(0, p, step, left))
        return mine

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% the right rows, and masks in blocks exercise="10.8" score=0 diagnoses=["mask-in-blocks", "not-counted-yet", "too-much-work"] near=["in-blocks", "numbers-in-blocks", "middle-dimension-dropped"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        numbers, columns = place * rounds + jnp.arange(rounds), jnp.arange(n)

        def step(k, mine):
            row = lax.psum(jnp.where(place == k % p, mine[k // p], 0), "x")
            multiples = jnp.where(numbers > k, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(numbers > k, multiples, mine[:, k]))

        return lax.fori_loop(0, n - 1, step, mine[:, 0])[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% masks, and a step too few exercise="10.8" score=0 diagnoses=["last-step-missing", "not-counted-yet", "too-much-work"] near=["last-round-missing", "mask-in-blocks", "averaged", "columns-before-too"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, n = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        numbers, columns = jnp.arange(rounds) * p + place, jnp.arange(n)

        def step(k, mine):
            row = lax.psum(jnp.where(place == k % p, mine[k // p], 0), "x")
            multiples = jnp.where(numbers > k, mine[:, k] / row[k], 0)
            less = mine - multiples[:, None] * jnp.where(columns > k, row, 0)
            return less.at[:, k].set(jnp.where(numbers > k, multiples, mine[:, k]))

        return lax.fori_loop(0, n - 2, step, mine[:, 0])[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% sent by the owner as in blocks exercise="10.8" score=0 diagnoses=["not-a-number", "not-counted-yet"] near=["in-blocks", "mask-in-blocks"]
def cyclic_lu(A):
    def body(A):
        q, one, n = A.shape
        p = lax.axis_size("x")
        me = lax.axis_index("x")
        M = A[:, 0]
        for k in range(n):
            s = k // p
            c = k
            sub = M[s:, c:]
            ids = jnp.arange(s, q) * p + me
            row = lax.psum(jnp.where(me == k // q, sub[0], 0), "x")
            f = sub[:, k - c] / row[k - c]
            cols = jnp.arange(c, n)
            new = jnp.where(cols > k, sub - f[:, None] * row, jnp.where(cols == k, f[:, None], sub))
            M = M.at[s:, c:].set(jnp.where((ids > k)[:, None], new, sub))
        return M[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% the slice a row late exercise="10.8" score=0 diagnoses=["slice-a-row-late", "not-counted-yet"] near=["last-of-each-round"]
def cyclic_lu(A):
    def body(A):
        q, one, n = A.shape
        p = lax.axis_size("x")
        me = lax.axis_index("x")
        M = A[:, 0]
        for k in range(n):
            s = min((k + 1) // p, q - 1)
            c = k
            sub = M[s:, c:]
            ids = jnp.arange(s, q) * p + me
            row = lax.psum(jnp.where(me == k % p, sub[0], 0), "x")
            f = sub[:, k - c] / row[k - c]
            cols = jnp.arange(c, n)
            new = jnp.where(cols > k, sub - f[:, None] * row, jnp.where(cols == k, f[:, None], sub))
            M = M.at[s:, c:].set(jnp.where((ids > k)[:, None], new, sub))
        return M[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% the row of place k exercise="10.8" score=0 diagnoses=["not-a-number", "not-counted-yet"] near=["slice-a-row-late", "in-blocks"]
def cyclic_lu(A):
    def body(A):
        q, one, n = A.shape
        p = lax.axis_size("x")
        me = lax.axis_index("x")
        M = A[:, 0]
        for k in range(n):
            s = k // p
            c = k
            sub = M[s:, c:]
            ids = jnp.arange(s, q) * p + me
            row = lax.psum(jnp.where(me == k % p, M[min(k, q - 1), c:], 0), "x")
            f = sub[:, k - c] / row[k - c]
            cols = jnp.arange(c, n)
            new = jnp.where(cols > k, sub - f[:, None] * row, jnp.where(cols == k, f[:, None], sub))
            M = M.at[s:, c:].set(jnp.where((ids > k)[:, None], new, sub))
        return M[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% rows masked, and columns not exercise="10.8" score=0 diagnoses=["columns-before-too", "not-counted-yet", "too-much-work"] near=["mask-in-blocks", "last-step-missing"]
def cyclic_lu(A):
    @jax.shard_map(in_specs=P(None, "x"), out_specs=P(None, "x"))
    def body(A):
        q, _, n = A.shape
        p, me = lax.axis_size("x"), lax.axis_index("x")
        M = A[:, 0]
        ids = jnp.arange(q) * p + me
        for k in range(n - 1):
            row = lax.psum(jnp.where(me == k % p, M[k // p], 0), "x")
            f = jnp.where(ids > k, M[:, k] / row[k], 0)
            M = (M - f[:, None] * row).at[:, k].set(jnp.where(ids > k, f, M[:, k]))
        return M[:, None]

    return body(A)


# %% multiples that are not divided exercise="10.8" score=0 diagnoses=["multiples-undivided", "not-counted-yet"] near=["nothing-done"]
def cyclic_lu(A):
    def body(A):
        m, _, n = A.shape
        p = lax.axis_size("x")
        A = A[:, 0]
        me = lax.axis_index("x")
        for q in range(m):
            S = A[q:, q * p :]
            mine = jnp.arange(m - q) * p + me
            for j in range(p):
                row = lax.psum(jnp.where(me == j, S[0], 0), "x")
                f = jnp.where(mine > j, S[:, j], 0)
                S = (
                    (S - f[:, None] * jnp.where(jnp.arange(n - q * p) > j, row, 0))
                    .at[:, j]
                    .set(jnp.where(mine > j, f, S[:, j]))
                )
            A = A.at[q:, q * p :].set(S)
        return A[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% row k changed, too exercise="10.8" score=0 diagnoses=["itself-too", "not-counted-yet"] near=["multipliers-negative", "last-of-each-round"]
def cyclic_lu(A):
    def body(mine):
        rounds, _, _ = mine.shape
        p, place = lax.axis_size("x"), lax.axis_index("x")
        mine = mine[:, 0]
        for done in range(rounds):
            left = mine[done:, done * p :]
            numbers = jnp.arange(len(left)) * p + place
            columns = jnp.arange(left.shape[1])

            def step(k, left, numbers=numbers, columns=columns):
                row = lax.psum(jnp.where(place == k, left[0], 0), "x")
                multiples = jnp.where(numbers >= k, left[:, k] / row[k], 0)
                less = left - multiples[:, None] * jnp.where(columns > k, row, 0)
                return less.at[:, k].set(jnp.where(numbers >= k, multiples, left[:, k]))

            mine = mine.at[done:, done * p :].set(lax.fori_loop(0, p, step, left))
        return mine[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% left to the compiler, there and back exercise="10.5" score=0 diagnoses=["error-of-xla", "no-shard-map"] naive=true near=["not-finite"]
def poisson(f):
    k0, k1, k2 = map(wave_numbers, f.shape)
    squares = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
    a = jnp.fft.fftn(f)
    a = jnp.where(squares == 0, 0, a / jnp.where(squares == 0, 1, squares))
    return jnp.fft.ifftn(a).real


# %% a small number added exercise="10.5" score=0 diagnoses=["divided-by-almost-zero", "not-counted-yet"] near=["not-finite", "mean-kept"]
def _forth(m):
    m = lax.all_to_all(jnp.fft.fft(m, axis=2), "y", 2, 1, tiled=True)
    m = lax.all_to_all(jnp.fft.fft(m, axis=1), "x", 1, 0, tiled=True)
    return jnp.fft.fft(m, axis=0)


def _back(m):
    m = lax.all_to_all(jnp.fft.ifft(m, axis=0), "x", 0, 1, tiled=True)
    m = lax.all_to_all(jnp.fft.ifft(m, axis=1), "y", 1, 2, tiled=True)
    return jnp.fft.ifft(m, axis=2)


def poisson(f):
    def body(m, a, b, c):
        k2 = a[:, None, None] ** 2 + b[None, :, None] ** 2 + c[None, None, :] ** 2
        return _back(_forth(m) / (k2 + 1e-6)).real

    ks = [wave_numbers(n) for n in f.shape]
    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, *ks
    )


# %% not divided exercise="10.5" score=0 diagnoses=["not-divided", "not-counted-yet"] near=["mean-kept", "back-without-1", "back-without-2", "real-too-soon"]
import functools


def poisson(f):
    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", split_axis=2, concat_axis=1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", split_axis=1, concat_axis=0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        s = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        pass
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", split_axis=0, concat_axis=1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", split_axis=1, concat_axis=2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    ks = [wave_numbers(n) for n in f.shape]
    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, *ks
    )


# %% back without dimension 2 exercise="10.5" score=0 diagnoses=["back-without-2", "not-counted-yet"] near=["not-divided"]
import functools


def poisson(f):
    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", split_axis=2, concat_axis=1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", split_axis=1, concat_axis=0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        s = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        b = jnp.where(s == 0, 0, b / jnp.where(s == 0, 1, s))
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", split_axis=0, concat_axis=1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", split_axis=1, concat_axis=2, tiled=True)
        return b.real

    ks = [wave_numbers(n) for n in f.shape]
    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, *ks
    )


# %% back without dimension 1 exercise="10.5" score=0 diagnoses=["back-without-1", "not-counted-yet"] near=["there-again"]
import functools


def poisson(f):
    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", split_axis=2, concat_axis=1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", split_axis=1, concat_axis=0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        s = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        b = jnp.where(s == 0, 0, b / jnp.where(s == 0, 1, s))
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", split_axis=0, concat_axis=1, tiled=True)
        b = lax.all_to_all(b, "y", split_axis=1, concat_axis=2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    ks = [wave_numbers(n) for n in f.shape]
    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, *ks
    )


# %% real too soon exercise="10.5" score=0 diagnoses=["real-too-soon", "not-counted-yet"] near=["dtype"]
import functools


def poisson(f):
    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", split_axis=2, concat_axis=1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", split_axis=1, concat_axis=0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        s = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        b = jnp.where(s == 0, 0, b / jnp.where(s == 0, 1, s))
        b = jnp.fft.ifft(b, axis=0).real
        b = lax.all_to_all(b, "x", split_axis=0, concat_axis=1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", split_axis=1, concat_axis=2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    ks = [wave_numbers(n) for n in f.shape]
    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, *ks
    )


# %% along dimension 1, which is cut exercise="10.2" score=0 diagnoses=["part-of-dimension-1", "not-counted-yet"]
def fft_last(x):
    body = lambda x: jnp.fft.fft(x, axis=1)
    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(x)


# %% absolute values for squares exercise="10.5" score=0 diagnoses=["sum-of-sizes", "not-counted-yet"] near=["two-directions"]
def poisson(f):
    def body(f, k0, k1, k2):
        f = jnp.fft.fft(f, axis=2)
        f = lax.all_to_all(f, "y", split_axis=2, concat_axis=1, tiled=True)
        f = jnp.fft.fft(f, axis=1)
        f = lax.all_to_all(f, "x", split_axis=1, concat_axis=0, tiled=True)
        f = jnp.fft.fft(f, axis=0)
        total = abs(k0[:, None, None]) + abs(k1[:, None]) + abs(k2)
        u = jnp.where(total == 0, 0, f / jnp.where(total == 0, 1, total))
        u = jnp.fft.ifft(u, axis=0)
        u = lax.all_to_all(u, "x", split_axis=0, concat_axis=1, tiled=True)
        u = jnp.fft.ifft(u, axis=1)
        u = lax.all_to_all(u, "y", split_axis=1, concat_axis=2, tiled=True)
        return jnp.fft.ifft(u, axis=2).real

    k0, k1, k2 = map(wave_numbers, f.shape)
    specs = P("x", "y"), P(), P("x"), P("y")
    return jax.shard_map(body, in_specs=specs, out_specs=P("x", "y"))(f, k0, k1, k2)


# %% two derivatives of three exercise="10.5" score=0 diagnoses=["two-directions", "not-counted-yet"] near=["sum-of-sizes"]
def poisson(f):
    def body(f, k0, k1):
        f = jnp.fft.fft(f, axis=2)
        f = lax.all_to_all(f, "y", split_axis=2, concat_axis=1, tiled=True)
        f = jnp.fft.fft(f, axis=1)
        f = lax.all_to_all(f, "x", split_axis=1, concat_axis=0, tiled=True)
        f = jnp.fft.fft(f, axis=0)
        total = k0[:, None, None] ** 2 + k1[:, None] ** 2
        u = jnp.where(total == 0, 0, f / jnp.where(total == 0, 1, total))
        u = jnp.fft.ifft(u, axis=0)
        u = lax.all_to_all(u, "x", split_axis=0, concat_axis=1, tiled=True)
        u = jnp.fft.ifft(u, axis=1)
        u = lax.all_to_all(u, "y", split_axis=1, concat_axis=2, tiled=True)
        return jnp.fft.ifft(u, axis=2).real

    k0, k1 = map(wave_numbers, f.shape[:2])
    specs = P("x", "y"), P(), P("x")
    return jax.shard_map(body, in_specs=specs, out_specs=P("x", "y"))(f, k0, k1)


# %% dimensions 0 and 1 exchanged exercise="10.4" score=0 diagnoses=["dimensions-exchanged", "not-counted-yet"]
def pencil_fft(x):
    def body(mine):
        mine = jnp.fft.fft(mine, axis=2)
        mine = lax.all_to_all(mine, "y", split_axis=2, concat_axis=1, tiled=True)
        mine = jnp.fft.fft(mine, axis=0)
        mine = lax.all_to_all(mine, "x", split_axis=1, concat_axis=0, tiled=True)
        return jnp.fft.fft(mine, axis=1)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% rows of U divided by their pivots exercise="10.7" score=0.5 diagnoses=["rows-divided", "not-counted-yet"]
def lu(A):
    def body(A):
        m, n = A.shape
        first = m * lax.axis_index("x")
        rows, columns = first + jnp.arange(m)[:, None], jnp.arange(n)

        def step(k, A):
            pivot = lax.psum(jnp.sum(jnp.where(rows == k, A, 0), axis=0), "x")
            factor = jnp.where(rows > k, A[:, k, None] / pivot[k], 0)
            changed = A - factor * jnp.where(columns > k, pivot, 0)
            changed = jnp.where((rows == k) & (columns > k), changed / pivot[k], changed)
            return jnp.where((rows > k) & (columns == k), factor, changed)

        return lax.fori_loop(0, n, step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, x):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, x):
            known = lax.psum(jnp.sum(jnp.where(rows == k, x, 0)), "x")
            return jnp.where(rows > k, x - LU[:, k] * known, x)

        def back(i, x):
            k = n - 1 - i
            known = lax.psum(jnp.sum(jnp.where(rows == k, x / LU[:, k], 0)), "x")
            x = jnp.where(rows < k, x - LU[:, k] * known, x)
            return jnp.where(rows == k, known, x)

        return lax.fori_loop(0, n, back, lax.fori_loop(0, n, forward, x))

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% in MiB exercise="10.1" score=0.6666666667 diagnoses=["in-mib", "one-axis"] near=["in-gb"]
audit = dict(
    spec=P("x", "y"),
    kind="all-gather",
    bytes=8192 + 32768,
    share=1.0,
    larger=8320,
    enough=256,
    helps="more memory",
)


# %% of the real part exercise="10.3" score=0 diagnoses=["real-part-alone", "not-counted-yet"] near=["other-dimensions"]
def slab_fft(x):
    def per_device(slab):
        slab = jnp.fft.fft2(slab.real, axes=(1, 2))
        slab = lax.all_to_all(slab, "x", 1, 0, tiled=True)
        return jnp.fft.fft(slab, axis=0)

    return jax.shard_map(per_device, in_specs=P("x", None, None), out_specs=P(None, "x", None))(x)


# %% fft2 along what is cut exercise="10.3" score=0 diagnoses=["other-dimensions", "not-counted-yet"] near=["part-of-dimension-0", "real-part-alone"]
def slab_fft(x):
    def per_device(slab):
        slab = jnp.fft.fft2(slab, axes=(0, 1))
        slab = lax.all_to_all(slab, "x", 1, 0, tiled=True)
        return jnp.fft.fft(slab, axis=0)

    return jax.shard_map(per_device, in_specs=P("x", None, None), out_specs=P(None, "x", None))(x)


# %% fft2 of a block exercise="10.2" score=0 diagnoses=["part-of-another-too", "not-counted-yet"] near=["block-by-block", "part-of-dimension-1", "shifted"]
def fft_last(box):
    there = P(*"xy")
    return jax.shard_map(jnp.fft.fft2, in_specs=there, out_specs=there)(box)


# %% fftn of the block at first exercise="10.4" score=0 diagnoses=["other-dimensions", "not-counted-yet"] near=["block-by-block", "real-part-alone"]
def pencil_fft(x):
    def body(b):
        b = jnp.fft.fftn(b)
        b = lax.all_to_all(b, "y", split_axis=2, concat_axis=1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", split_axis=1, concat_axis=0, tiled=True)
        return jnp.fft.fft(b, axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% of the real part exercise="10.4" score=0 diagnoses=["real-part-alone", "not-counted-yet"] near=["other-dimensions"]
def pencil_fft(x):
    def body(b):
        b = jnp.fft.fft(b.real, axis=2)
        b = lax.all_to_all(b, "y", split_axis=2, concat_axis=1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", split_axis=1, concat_axis=0, tiled=True)
        return jnp.fft.fft(b, axis=0)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P(None, "x", "y"))(x)


# %% the transform once more at the end exercise="10.5" score=0 diagnoses=["there-again-along-one", "not-counted-yet"] near=["there-again", "square-of-the-sum"]
def poisson(f):
    n0, n1, n2 = f.shape

    def k(n):
        return jnp.fft.fftfreq(n, 1 / n)

    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", 2, 1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", 1, 0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        total = k0[:, None, None] ** 2 + k1[None, :, None] ** 2 + k2[None, None, :] ** 2
        b = jnp.where(total == 0, 0, b / jnp.where(total == 0, 1, total))
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", 0, 1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", 1, 2, tiled=True)
        return jnp.fft.fft(b, axis=2).real

    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k(n0), k(n1), k(n2)
    )


# %% the square of the sum exercise="10.5" score=0 diagnoses=["square-of-the-sum", "not-counted-yet"] near=["sum-of-numbers", "any-number-zero"]
def poisson(f):
    n0, n1, n2 = f.shape

    def k(n):
        return jnp.fft.fftfreq(n, 1 / n)

    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", 2, 1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", 1, 0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        total = (k0[:, None, None] + k1[None, :, None] + k2[None, None, :]) ** 2
        b = jnp.where(total == 0, 0, b / jnp.where(total == 0, 1, total))
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", 0, 1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", 1, 2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k(n0), k(n1), k(n2)
    )


# %% any number zero exercise="10.5" score=0 diagnoses=["any-number-zero", "not-counted-yet"] near=["every-corner", "there-again-along-one"]
def poisson(f):
    n0, n1, n2 = f.shape

    def k(n):
        return jnp.fft.fftfreq(n, 1 / n)

    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", 2, 1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", 1, 0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        total = k0[:, None, None] ** 2 + k1[None, :, None] ** 2 + k2[None, None, :] ** 2
        b = jnp.where(
            (k0[:, None, None] == 0) | (k1[None, :, None] == 0) | (k2[None, None, :] == 0),
            0,
            b / total,
        )
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", 0, 1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", 1, 2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k(n0), k(n1), k(n2)
    )


# %% stored undivided exercise="10.8" score=0 diagnoses=["stored-undivided", "not-counted-yet"] near=["multiples-undivided", "numbers-of-the-slice"]
def cyclic_lu(A):
    def body(M):
        m, _, n = M.shape
        p, d = lax.axis_size("x"), lax.axis_index("x")
        M = M[:, 0]
        for g in range(m):
            lo = g * p
            part = M[g:, lo:]
            i = (g + jnp.arange(m - g)) * p + d
            cols = lo + jnp.arange(n - lo)

            def step(k, part):
                row = lax.psum(jnp.where(d == k - lo, part[0], 0), "x")
                mult = jnp.where(i > k, part[:, k - lo] / row[k - lo], 0)
                row = jnp.where(cols > k, row, 0)
                new = part - mult[:, None] * row
                return new.at[:, k - lo].set(part[:, k - lo])

            part = lax.fori_loop(lo, lo + p, step, part)
            M = M.at[g:, lo:].set(part)
        return M[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% row k off itself exercise="10.8" score=0 diagnoses=["itself-too", "not-counted-yet"] near=["last-step-missing"]
def cyclic_lu(A):
    def body(M):
        m, _, n = M.shape
        p, d = lax.axis_size("x"), lax.axis_index("x")
        M = M[:, 0]
        for g in range(m):
            lo = g * p
            part = M[g:, lo:]
            i = (g + jnp.arange(m - g)) * p + d
            cols = lo + jnp.arange(n - lo)

            def step(k, part):
                row = lax.psum(jnp.where(d == k - lo, part[0], 0), "x")
                mult = jnp.where(i >= k, part[:, k - lo] / row[k - lo], 0)
                row = jnp.where(cols > k, row, 0)
                new = part - mult[:, None] * row
                return new.at[:, k - lo].set(jnp.where(i > k, mult, part[:, k - lo]))

            part = lax.fori_loop(lo, lo + p, step, part)
            M = M.at[g:, lo:].set(part)
        return M[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% the slice numbered from 0 exercise="10.8" score=0 diagnoses=["numbers-of-the-slice", "not-counted-yet"] near=["numbers-turned", "stored-undivided"]
def cyclic_lu(A):
    def body(M):
        m, _, n = M.shape
        p, d = lax.axis_size("x"), lax.axis_index("x")
        M = M[:, 0]
        for g in range(m):
            lo = g * p
            part = M[g:, lo:]
            i = jnp.arange(m - g) * p + d
            cols = lo + jnp.arange(n - lo)

            def step(k, part):
                row = lax.psum(jnp.where(d == k - lo, part[0], 0), "x")
                mult = jnp.where(i > k, part[:, k - lo] / row[k - lo], 0)
                row = jnp.where(cols > k, row, 0)
                new = part - mult[:, None] * row
                return new.at[:, k - lo].set(jnp.where(i > k, mult, part[:, k - lo]))

            part = lax.fori_loop(lo, lo + p, step, part)
            M = M.at[g:, lo:].set(part)
        return M[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% the largest for the sum exercise="10.7" score=0.5 diagnoses=["largest-for-sum", "not-counted-yet"] near=["substitute: averaged", "kept-undivided"]
def ids(block):
    return lax.axis_index("x") * block.shape[0] + jnp.arange(block.shape[0])


def lu(A):
    def body(M):
        n, i = M.shape[1], ids(M)

        def step(k, M):
            row = lax.psum(jnp.where((i == k)[:, None], M, 0).sum(0), "x")
            mult = jnp.where(i > k, M[:, k] / row[k], 0)
            M = M - jnp.where(jnp.arange(n) > k, jnp.outer(mult, row), 0)
            return M.at[:, k].set(jnp.where(i > k, mult, M[:, k]))

        return lax.fori_loop(0, n, step, M)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(M, v):
        n, i = M.shape[1], ids(M)

        def forward(k, v):
            y = lax.pmax(jnp.where(i == k, v, 0).max(), "x")
            return jnp.where(i > k, v - M[:, k] * y, v)

        def backward(t, v):
            k = n - 1 - t
            y = lax.psum(jnp.where(i == k, v / M[:, k], 0).sum(), "x")
            return jnp.where(i == k, y, jnp.where(i < k, v - M[:, k] * y, v))

        v = lax.fori_loop(0, n, forward, v)
        return lax.fori_loop(0, n, backward, v)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(LU, b)


# %% numbered as if dealt out exercise="10.7" score=0 diagnoses=["numbered-in-turn", "not-counted-yet"] near=["numbers-of-the-block"]
def ids(block):
    return lax.axis_index("x") + lax.axis_size("x") * jnp.arange(block.shape[0])


def lu(A):
    def body(M):
        n, i = M.shape[1], ids(M)

        def step(k, M):
            row = lax.psum(jnp.where((i == k)[:, None], M, 0).sum(0), "x")
            mult = jnp.where(i > k, M[:, k] / row[k], 0)
            M = M - jnp.where(jnp.arange(n) > k, jnp.outer(mult, row), 0)
            return M.at[:, k].set(jnp.where(i > k, mult, M[:, k]))

        return lax.fori_loop(0, n, step, M)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(M, v):
        n, i = M.shape[1], ids(M)

        def forward(k, v):
            y = lax.psum(jnp.where(i == k, v, 0).sum(), "x")
            return jnp.where(i > k, v - M[:, k] * y, v)

        def backward(t, v):
            k = n - 1 - t
            y = lax.psum(jnp.where(i == k, v / M[:, k], 0).sum(), "x")
            return jnp.where(i == k, y, jnp.where(i < k, v - M[:, k] * y, v))

        v = lax.fori_loop(0, n, forward, v)
        return lax.fori_loop(0, n, backward, v)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(LU, b)


# %% a mean over the rows exercise="10.7" score=0.5 diagnoses=["averaged-over-rows", "not-counted-yet"] near=["lu: averaged", "numbered-in-turn"]
def ids(block):
    return lax.axis_index("x") * block.shape[0] + jnp.arange(block.shape[0])


def lu(A):
    def body(M):
        n, i = M.shape[1], ids(M)

        def step(k, M):
            row = lax.psum(jnp.where((i == k)[:, None], M, 0).mean(0), "x")
            mult = jnp.where(i > k, M[:, k] / row[k], 0)
            M = M - jnp.where(jnp.arange(n) > k, jnp.outer(mult, row), 0)
            return M.at[:, k].set(jnp.where(i > k, mult, M[:, k]))

        return lax.fori_loop(0, n, step, M)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(M, v):
        n, i = M.shape[1], ids(M)

        def forward(k, v):
            y = lax.psum(jnp.where(i == k, v, 0).sum(), "x")
            return jnp.where(i > k, v - M[:, k] * y, v)

        def backward(t, v):
            k = n - 1 - t
            y = lax.psum(jnp.where(i == k, v / M[:, k], 0).sum(), "x")
            return jnp.where(i == k, y, jnp.where(i < k, v - M[:, k] * y, v))

        v = lax.fori_loop(0, n, forward, v)
        return lax.fori_loop(0, n, backward, v)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(LU, b)


# %% kept undivided exercise="10.7" score=0.5 diagnoses=["kept-undivided", "not-counted-yet"] near=["never-divided", "largest-for-sum", "averaged-over-rows"]
def ids(block):
    return lax.axis_index("x") * block.shape[0] + jnp.arange(block.shape[0])


def lu(A):
    def body(M):
        n, i = M.shape[1], ids(M)

        def step(k, M):
            row = lax.psum(jnp.where((i == k)[:, None], M, 0).sum(0), "x")
            mult = jnp.where(i > k, M[:, k] / row[k], 0)
            M = M - jnp.where(jnp.arange(n) > k, jnp.outer(mult, row), 0)
            return M.at[:, k].set(jnp.where(i > k, mult, M[:, k]))

        return lax.fori_loop(0, n, step, M)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(M, v):
        n, i = M.shape[1], ids(M)

        def forward(k, v):
            y = lax.psum(jnp.where(i == k, v, 0).sum(), "x")
            return jnp.where(i > k, v - M[:, k] * y, v)

        def backward(t, v):
            k = n - 1 - t
            y = lax.psum(jnp.where(i == k, v / M[:, k], 0).sum(), "x")
            return jnp.where(i < k, v - M[:, k] * y, v)

        v = lax.fori_loop(0, n, forward, v)
        return lax.fori_loop(0, n, backward, v)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(LU, b)


# %% the residual grows exercise="10.6" score=0 diagnoses=["residual-grows", "not-counted-yet"] near=["square-not-renewed"]
def cg(A, b):
    def body(rows, r):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), "x")

        def one(_, c):
            x, r, d, rr = c
            Ad = rows @ lax.all_gather(d, "x", tiled=True)
            a = rr / dot(d, Ad)
            x = x + a * d
            r = r + a * Ad
            new = dot(r, r)
            d = r + (new / rr) * d
            return x, r, d, new

        return lax.fori_loop(0, 12, one, (jnp.zeros_like(r), r, r, dot(r, r)))[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% A times the residual exercise="10.6" score=0 diagnoses=["product-of-the-residual", "not-counted-yet"] near=["along-the-residual"]
def cg(A, b):
    def body(rows, r):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), "x")

        def one(_, c):
            x, r, d, rr = c
            Ad = rows @ lax.all_gather(r, "x", tiled=True)
            a = rr / dot(d, Ad)
            x = x + a * d
            r = r - a * Ad
            new = dot(r, r)
            d = r + (new / rr) * d
            return x, r, d, new

        return lax.fori_loop(0, 12, one, (jnp.zeros_like(r), r, r, dot(r, r)))[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% the first square in every step exercise="10.6" score=0 diagnoses=["square-not-renewed", "not-counted-yet"] near=["residual-grows"]
def cg(A, b):
    def body(rows, r):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), "x")

        def one(_, c):
            x, r, d, rr = c
            Ad = rows @ lax.all_gather(d, "x", tiled=True)
            a = rr / dot(d, Ad)
            x = x + a * d
            r = r - a * Ad
            new = dot(r, r)
            d = r + (new / rr) * d
            return x, r, d, rr

        return lax.fori_loop(0, 12, one, (jnp.zeros_like(r), r, r, dot(r, r)))[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% x along the residual exercise="10.6" score=0 diagnoses=["along-the-residual", "not-counted-yet"] near=["product-of-the-residual"]
def cg(A, b):
    def body(rows, r):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), "x")

        def one(_, c):
            x, r, d, rr = c
            Ad = rows @ lax.all_gather(d, "x", tiled=True)
            a = rr / dot(d, Ad)
            x = x + a * r
            r = r - a * Ad
            new = dot(r, r)
            d = r + (new / rr) * d
            return x, r, d, new

        return lax.fori_loop(0, 12, one, (jnp.zeros_like(r), r, r, dot(r, r)))[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% the residual kept in place of the direction exercise="10.6" score=0 diagnoses=["residual-kept", "not-counted-yet"] near=["steepest-descent", "roots"]
def cg(A, b):
    def body(rows, r):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), "x")

        def one(_, c):
            x, r, d, rr = c
            Ad = rows @ lax.all_gather(d, "x", tiled=True)
            a = rr / dot(d, Ad)
            x = x + a * d
            r = r - a * Ad
            new = dot(r, r)
            d = r + (new / rr) * r
            return x, r, d, new

        return lax.fori_loop(0, 12, one, (jnp.zeros_like(r), r, r, dot(r, r)))[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% roots of the products exercise="10.6" score=0 diagnoses=["roots", "not-counted-yet"] near=["residual-kept"]
def cg(A, b):
    def body(rows, r):
        def dot(u, v):
            return jnp.sqrt(lax.psum(jnp.vdot(u, v), "x"))

        def one(_, c):
            x, r, d, rr = c
            Ad = rows @ lax.all_gather(d, "x", tiled=True)
            a = rr / dot(d, Ad)
            x = x + a * d
            r = r - a * Ad
            new = dot(r, r)
            d = r + (new / rr) * d
            return x, r, d, new

        return lax.fori_loop(0, 12, one, (jnp.zeros_like(r), r, r, dot(r, r)))[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% shifted in all dimensions of a block exercise="10.2" score=0 diagnoses=["shifted", "not-counted-yet"] near=["real-part-alone", "part-of-another-too"]
def fft_last(box):
    there = P(*"xy")
    return jax.shard_map(
        lambda b: jnp.fft.fftshift(jnp.fft.fft(b)), in_specs=there, out_specs=there
    )(box)


# %% nothing back along dimension 0 exercise="10.5" score=0 diagnoses=["other-dimensions", "not-counted-yet"] near=["back-without-1", "back-without-2"]
def poisson(f):
    n0, n1, n2 = f.shape

    def k(n):
        return jnp.fft.fftfreq(n, 1 / n)

    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", 2, 1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", 1, 0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        total = k0[:, None, None] ** 2 + k1[None, :, None] ** 2 + k2[None, None, :] ** 2
        b = jnp.where(total == 0, 0, b / jnp.where(total == 0, 1, total))
        b = lax.all_to_all(b, "x", 0, 1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", 1, 2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k(n0), k(n1), k(n2)
    )


# %% the mean of each block of u exercise="10.5" score=0 diagnoses=["mean-of-the-block", "not-counted-yet"] near=["mean-kept"]
def poisson(f):
    n0, n1, n2 = f.shape

    def k(n):
        return jnp.fft.fftfreq(n, 1 / n)

    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", 2, 1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", 1, 0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        total = k0[:, None, None] ** 2 + k1[None, :, None] ** 2 + k2[None, None, :] ** 2
        b = b / jnp.where(total == 0, 1, total)
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", 0, 1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", 1, 2, tiled=True)
        u = jnp.fft.ifft(b, axis=2).real
        return u - u.mean()

    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k(n0), k(n1), k(n2)
    )


# %% real waves exercise="10.5" score=0 diagnoses=["real-waves", "not-counted-yet"] near=["real-too-soon", "other-dimensions"]
def poisson(f):
    n0, n1, n2 = f.shape

    def k(n):
        return jnp.fft.fftfreq(n, 1 / n)

    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", 2, 1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", 1, 0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        total = k0[:, None, None] ** 2 + k1[None, :, None] ** 2 + k2[None, None, :] ** 2
        b = b.real
        b = jnp.where(total == 0, 0, b / jnp.where(total == 0, 1, total))
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", 0, 1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", 1, 2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k(n0), k(n1), k(n2)
    )


# %% squared once more exercise="10.5" score=0 diagnoses=["squared-again", "not-counted-yet"] near=["not-squared", "square-of-the-sum", "numbers-shifted"]
def poisson(f):
    n0, n1, n2 = f.shape

    def k(n):
        return jnp.fft.fftfreq(n, 1 / n)

    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", 2, 1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", 1, 0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        total = k0[:, None, None] ** 2 + k1[None, :, None] ** 2 + k2[None, None, :] ** 2
        b = jnp.where(total == 0, 0, b / jnp.where(total == 0, 1, total) ** 2)
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", 0, 1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", 1, 2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k(n0), k(n1), k(n2)
    )


# %% numbers with 0 in the middle exercise="10.5" score=0 diagnoses=["numbers-shifted", "not-counted-yet"] near=["no-negative-waves", "squared-again", "real-waves", "mean-of-the-block"]
def poisson(f):
    n0, n1, n2 = f.shape

    def k(n):
        return jnp.abs(jnp.arange(n) - n // 2).astype(jnp.float32)

    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", 2, 1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", 1, 0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        total = k0[:, None, None] ** 2 + k1[None, :, None] ** 2 + k2[None, None, :] ** 2
        b = jnp.where(total == 0, 0, b / jnp.where(total == 0, 1, total))
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", 0, 1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", 1, 2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k(n0), k(n1), k(n2)
    )


# %% divided by the direction squared exercise="10.6" score=0 diagnoses=["divided-by-the-direction", "not-counted-yet"] near=["ratio-turned"]
def cg(A, b):
    def body(rows, r):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), "x")

        def one(_, c):
            x, r, d, rr = c
            Ad = rows @ lax.all_gather(d, "x", tiled=True)
            a = rr / dot(d, d)
            x = x + a * d
            r = r - a * Ad
            new = dot(r, r)
            d = r + (new / rr) * d
            return x, r, d, new

        return lax.fori_loop(0, 12, one, (jnp.zeros_like(r), r, r, dot(r, r)))[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% all of the last direction exercise="10.6" score=0 diagnoses=["all-of-the-last-direction", "not-counted-yet"] near=["steepest-descent", "divided-by-the-direction"]
def cg(A, b):
    def body(rows, r):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), "x")

        def one(_, c):
            x, r, d, rr = c
            Ad = rows @ lax.all_gather(d, "x", tiled=True)
            a = rr / dot(d, Ad)
            x = x + a * d
            r = r - a * Ad
            new = dot(r, r)
            d = r + d
            return x, r, d, new

        return lax.fori_loop(0, 12, one, (jnp.zeros_like(r), r, r, dot(r, r)))[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% the direction off the residual exercise="10.6" score=0 diagnoses=["direction-taken-off", "not-counted-yet"] near=["residual-grows", "all-of-the-last-direction", "not-finite"]
def cg(A, b):
    def body(rows, r):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), "x")

        def one(_, c):
            x, r, d, rr = c
            Ad = rows @ lax.all_gather(d, "x", tiled=True)
            a = rr / dot(d, Ad)
            x = x + a * d
            r = r - a * d
            new = dot(r, r)
            d = r + (new / rr) * d
            return x, r, d, new

        return lax.fori_loop(0, 12, one, (jnp.zeros_like(r), r, r, dot(r, r)))[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% no first direction exercise="10.6" score=0 diagnoses=["not-a-number", "not-counted-yet"] near=["direction-taken-off"]
def cg(A, b):
    def body(rows, r):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), "x")

        def one(_, c):
            x, r, d, rr = c
            Ad = rows @ lax.all_gather(d, "x", tiled=True)
            a = rr / dot(d, Ad)
            x = x + a * d
            r = r - a * Ad
            new = dot(r, r)
            d = r + (new / rr) * d
            return x, r, d, new

        return lax.fori_loop(0, 12, one, (jnp.zeros_like(r), r, jnp.zeros_like(r), dot(r, r)))[0]

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A, b)


# %% the upper part of each block exercise="10.7" score=0.5 diagnoses=["upper-part-of-the-block", "not-counted-yet"] near=["multipliers-missing"]
def ids(block):
    return lax.axis_index("x") * block.shape[0] + jnp.arange(block.shape[0])


def lu(A):
    def body(M):
        n, i = M.shape[1], ids(M)

        def step(k, M):
            row = lax.psum(jnp.where((i == k)[:, None], M, 0).sum(0), "x")
            mult = jnp.where(i > k, M[:, k] / row[k], 0)
            M = M - jnp.where(jnp.arange(n) > k, jnp.outer(mult, row), 0)
            return M.at[:, k].set(jnp.where(i > k, mult, M[:, k]))

        return jnp.triu(lax.fori_loop(0, n, step, M))

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(M, v):
        n, i = M.shape[1], ids(M)

        def forward(k, v):
            y = lax.psum(jnp.where(i == k, v, 0).sum(), "x")
            return jnp.where(i > k, v - M[:, k] * y, v)

        def backward(t, v):
            k = n - 1 - t
            y = lax.psum(jnp.where(i == k, v / M[:, k], 0).sum(), "x")
            return jnp.where(i == k, y, jnp.where(i < k, v - M[:, k] * y, v))

        v = lax.fori_loop(0, n, forward, v)
        return lax.fori_loop(0, n, backward, v)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(LU, b)


# %% all change on the way back exercise="10.7" score=0.5 diagnoses=["all-change-back", "not-counted-yet"] near=["numbers-below"]
def ids(block):
    return lax.axis_index("x") * block.shape[0] + jnp.arange(block.shape[0])


def lu(A):
    def body(M):
        n, i = M.shape[1], ids(M)

        def step(k, M):
            row = lax.psum(jnp.where((i == k)[:, None], M, 0).sum(0), "x")
            mult = jnp.where(i > k, M[:, k] / row[k], 0)
            M = M - jnp.where(jnp.arange(n) > k, jnp.outer(mult, row), 0)
            return M.at[:, k].set(jnp.where(i > k, mult, M[:, k]))

        return lax.fori_loop(0, n, step, M)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(M, v):
        n, i = M.shape[1], ids(M)

        def forward(k, v):
            y = lax.psum(jnp.where(i == k, v, 0).sum(), "x")
            return jnp.where(i > k, v - M[:, k] * y, v)

        def backward(t, v):
            k = n - 1 - t
            y = lax.psum(jnp.where(i == k, v / M[:, k], 0).sum(), "x")
            return jnp.where(i == k, y, v - M[:, k] * y)

        v = lax.fori_loop(0, n, forward, v)
        return lax.fori_loop(0, n, backward, v)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(LU, b)


# %% all change on the way forward exercise="10.7" score=0.5 diagnoses=["all-change-forward", "not-counted-yet"] near=["number-itself-too", "all-change-back", "nothing-taken-off-back"]
def ids(block):
    return lax.axis_index("x") * block.shape[0] + jnp.arange(block.shape[0])


def lu(A):
    def body(M):
        n, i = M.shape[1], ids(M)

        def step(k, M):
            row = lax.psum(jnp.where((i == k)[:, None], M, 0).sum(0), "x")
            mult = jnp.where(i > k, M[:, k] / row[k], 0)
            M = M - jnp.where(jnp.arange(n) > k, jnp.outer(mult, row), 0)
            return M.at[:, k].set(jnp.where(i > k, mult, M[:, k]))

        return lax.fori_loop(0, n, step, M)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(M, v):
        n, i = M.shape[1], ids(M)

        def forward(k, v):
            y = lax.psum(jnp.where(i == k, v, 0).sum(), "x")
            return v - M[:, k] * y

        def backward(t, v):
            k = n - 1 - t
            y = lax.psum(jnp.where(i == k, v / M[:, k], 0).sum(), "x")
            return jnp.where(i == k, y, jnp.where(i < k, v - M[:, k] * y, v))

        v = lax.fori_loop(0, n, forward, v)
        return lax.fori_loop(0, n, backward, v)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(LU, b)


# %% nothing taken off on the way back exercise="10.7" score=0.5 diagnoses=["nothing-taken-off-back", "not-counted-yet"] near=["only-forward", "all-change-forward", "upper-part-of-the-block"]
def ids(block):
    return lax.axis_index("x") * block.shape[0] + jnp.arange(block.shape[0])


def lu(A):
    def body(M):
        n, i = M.shape[1], ids(M)

        def step(k, M):
            row = lax.psum(jnp.where((i == k)[:, None], M, 0).sum(0), "x")
            mult = jnp.where(i > k, M[:, k] / row[k], 0)
            M = M - jnp.where(jnp.arange(n) > k, jnp.outer(mult, row), 0)
            return M.at[:, k].set(jnp.where(i > k, mult, M[:, k]))

        return lax.fori_loop(0, n, step, M)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(M, v):
        n, i = M.shape[1], ids(M)

        def forward(k, v):
            y = lax.psum(jnp.where(i == k, v, 0).sum(), "x")
            return jnp.where(i > k, v - M[:, k] * y, v)

        def backward(t, v):
            k = n - 1 - t
            y = lax.psum(jnp.where(i == k, v / M[:, k], 0).sum(), "x")
            return jnp.where(i == k, y, v)

        v = lax.fori_loop(0, n, forward, v)
        return lax.fori_loop(0, n, backward, v)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(LU, b)


# %% one row put back exercise="10.8" score=0 diagnoses=["rest-not-kept", "not-counted-yet"] near=["last-round-missing"]
def cyclic_lu(A):
    def body(M):
        m, _, n = M.shape
        p, d = lax.axis_size("x"), lax.axis_index("x")
        M = M[:, 0]
        for g in range(m):
            lo = g * p
            part = M[g:, lo:]
            i = (g + jnp.arange(m - g)) * p + d
            cols = lo + jnp.arange(n - lo)

            def step(k, part):
                row = lax.psum(jnp.where(d == k - lo, part[0], 0), "x")
                mult = jnp.where(i > k, part[:, k - lo] / row[k - lo], 0)
                row = jnp.where(cols > k, row, 0)
                new = part - mult[:, None] * row
                return new.at[:, k - lo].set(jnp.where(i > k, mult, part[:, k - lo]))

            part = lax.fori_loop(lo, lo + p, step, part)
            M = M.at[g, lo:].set(part[0])
        return M[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% a round without itself exercise="10.8" score=0 diagnoses=["round-left-out", "not-counted-yet"] near=["last-of-each-round", "rest-not-kept", "added"]
def cyclic_lu(A):
    def body(M):
        m, _, n = M.shape
        p, d = lax.axis_size("x"), lax.axis_index("x")
        M = M[:, 0]
        for g in range(m):
            lo = g * p
            part = M[g + 1 :, lo:]
            i = (g + 1 + jnp.arange(m - g - 1)) * p + d
            cols = lo + jnp.arange(n - lo)

            def step(k, part):
                row = lax.psum(jnp.where(d == k - lo, M[g, lo:], 0), "x")
                mult = jnp.where(i > k, part[:, k - lo] / row[k - lo], 0)
                row = jnp.where(cols > k, row, 0)
                new = part - mult[:, None] * row
                return new.at[:, k - lo].set(jnp.where(i > k, mult, part[:, k - lo]))

            part = lax.fori_loop(lo, lo + p, step, part)
            M = M.at[g + 1 :, lo:].set(part)
        return M[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% multiples added exercise="10.8" score=0 diagnoses=["added", "not-counted-yet"] near=["multiples-undivided", "round-left-out"]
def cyclic_lu(A):
    def body(M):
        m, _, n = M.shape
        p, d = lax.axis_size("x"), lax.axis_index("x")
        M = M[:, 0]
        for g in range(m):
            lo = g * p
            part = M[g:, lo:]
            i = (g + jnp.arange(m - g)) * p + d
            cols = lo + jnp.arange(n - lo)

            def step(k, part):
                row = lax.psum(jnp.where(d == k - lo, part[0], 0), "x")
                mult = jnp.where(i > k, part[:, k - lo] / row[k - lo], 0)
                row = jnp.where(cols > k, row, 0)
                new = part + mult[:, None] * row
                return new.at[:, k - lo].set(jnp.where(i > k, mult, part[:, k - lo]))

            part = lax.fori_loop(lo, lo + p, step, part)
            M = M.at[g:, lo:].set(part)
        return M[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% rolled rows and columns, masked at the edge exercise="10.9" score=1 near=["wraps-around", "halos-exchanged", "one-axis-missing", "no collective-permute", "in-pieces", "no-shard-map", "axes-exchanged"]
from functools import partial


@partial(jax.shard_map, in_specs=P("x", "y"), out_specs=P("x", "y"))
def stencil(u):
    total = 4 * u
    for dimension, axis in enumerate(("x", "y")):
        n, place = lax.axis_size(axis), lax.axis_index(axis)
        size = u.shape[dimension]
        last = lax.slice_in_dim(u, size - 1, size, axis=dimension)
        first = lax.slice_in_dim(u, 0, 1, axis=dimension)
        before = lax.ppermute(last, axis, [(i, (i + 1) % n) for i in range(n)])
        after = lax.ppermute(first, axis, [((i + 1) % n, i) for i in range(n)])
        before = jnp.where(place == 0, 0, before)
        after = jnp.where(place == n - 1, 0, after)
        wide = jnp.concatenate([before, u, after], dimension)
        total -= lax.slice_in_dim(wide, 0, size, axis=dimension)
        total -= lax.slice_in_dim(wide, 2, size + 2, axis=dimension)
    return total


# %% padded, and the halos put in exercise="10.9" score=1 near=["far-edge", "blocks-alone", "one-side-missing", "other-sign"]
def stencil(u):
    def body(block):
        def sent(edge, axis, step):
            pairs = [(i, i + step) for i in range(lax.axis_size(axis))]
            return lax.ppermute(
                edge, axis, [(i, j) for i, j in pairs if 0 <= j < lax.axis_size(axis)]
            )

        wide = jnp.pad(block, 1)
        wide = wide.at[0, 1:-1].set(sent(block[-1], "x", 1))
        wide = wide.at[-1, 1:-1].set(sent(block[0], "x", -1))
        wide = wide.at[1:-1, 0].set(sent(block[:, -1], "y", 1))
        wide = wide.at[1:-1, -1].set(sent(block[:, 0], "y", -1))
        around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
        return 4 * block - around

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% the rings are closed exercise="10.9" score=0 diagnoses=["wraps-around", "not-counted-yet"] near=["blocks-alone"]
def stencil(u):
    def body(block):
        def sent(edge, axis, step):
            n = lax.axis_size(axis)
            return lax.ppermute(edge, axis, [(i, (i + step) % n) for i in range(n)])

        rows = jnp.concatenate([sent(block[-1:], "x", 1), block, sent(block[:1], "x", -1)])
        columns = [sent(block[:, -1:], "y", 1), block, sent(block[:, :1], "y", -1)]
        columns = jnp.concatenate(columns, axis=1)
        return 4 * block - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% each block by itself exercise="10.9" score=0 diagnoses=["blocks-alone", "not-counted-yet", "no collective-permute"] near=["one-axis-missing"]
def stencil(u):
    def body(block):
        wide = jnp.pad(block, 1)
        around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
        return 4 * block - around

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% rows alone exercise="10.9" score=0 diagnoses=["one-axis-missing", "not-counted-yet", "no collective-permute"] near=["one-side-missing", "blocks-alone"]
def stencil(u):
    def body(block):
        n = lax.axis_size("x")
        above = lax.ppermute(block[-1:], "x", [(i, i + 1) for i in range(n - 1)])
        below = lax.ppermute(block[:1], "x", [(i + 1, i) for i in range(n - 1)])
        rows, columns = jnp.concatenate([above, block, below]), jnp.pad(block, ((0, 0), (1, 1)))
        return 4 * block - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% the right column forgotten exercise="10.9" score=0 diagnoses=["one-side-missing", "not-counted-yet", "too-seldom"] near=["one-axis-missing"]
def stencil(u):
    def body(block):
        n, m = lax.axis_size("x"), lax.axis_size("y")
        above = lax.ppermute(block[-1:], "x", [(i, i + 1) for i in range(n - 1)])
        below = lax.ppermute(block[:1], "x", [(i + 1, i) for i in range(n - 1)])
        left = lax.ppermute(block[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
        rows = jnp.concatenate([above, block, below])
        columns = jnp.concatenate([left, block, 0 * left], axis=1)
        return 4 * block - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% above and below exchanged exercise="10.9" score=0 diagnoses=["halos-exchanged", "not-counted-yet"] near=["far-edge", "pairs-reversed", "wraps-around"]
def stencil(u):
    def body(block):
        n, m = lax.axis_size("x"), lax.axis_size("y")
        above = lax.ppermute(block[-1:], "x", [(i, i + 1) for i in range(n - 1)])
        below = lax.ppermute(block[:1], "x", [(i + 1, i) for i in range(n - 1)])
        left = lax.ppermute(block[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
        right = lax.ppermute(block[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
        rows = jnp.concatenate([below, block, above])
        columns = jnp.concatenate([left, block, right], axis=1)
        return 4 * block - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% the far edges were sent exercise="10.9" score=0 diagnoses=["far-edge", "not-counted-yet"] near=["halos-exchanged", "pairs-reversed"]
def stencil(u):
    def body(block):
        n, m = lax.axis_size("x"), lax.axis_size("y")
        above = lax.ppermute(block[:1], "x", [(i, i + 1) for i in range(n - 1)])
        below = lax.ppermute(block[-1:], "x", [(i + 1, i) for i in range(n - 1)])
        left = lax.ppermute(block[:, :1], "y", [(i, i + 1) for i in range(m - 1)])
        right = lax.ppermute(block[:, -1:], "y", [(i + 1, i) for i in range(m - 1)])
        rows = jnp.concatenate([above, block, below])
        columns = jnp.concatenate([left, block, right], axis=1)
        return 4 * block - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% the pairs are reversed exercise="10.9" score=0 diagnoses=["pairs-reversed", "not-counted-yet"] near=["halos-exchanged", "far-edge"]
def stencil(u):
    def body(u):
        n, m = lax.axis_size("x"), lax.axis_size("y")
        above = lax.ppermute(u[-1:], "x", [(i + 1, i) for i in range(n - 1)])
        below = lax.ppermute(u[:1], "x", [(i, i + 1) for i in range(n - 1)])
        left = lax.ppermute(u[:, -1:], "y", [(i + 1, i) for i in range(m - 1)])
        right = lax.ppermute(u[:, :1], "y", [(i, i + 1) for i in range(m - 1)])
        rows = jnp.concatenate([above, u, below])
        columns = jnp.concatenate([left, u, right], axis=1)
        return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% the other sign exercise="10.9" score=0 diagnoses=["other-sign", "not-counted-yet"] near=["wraps-around"]
def stencil(u):
    def body(block):
        n, m = lax.axis_size("x"), lax.axis_size("y")
        above = lax.ppermute(block[-1:], "x", [(i, i + 1) for i in range(n - 1)])
        below = lax.ppermute(block[:1], "x", [(i + 1, i) for i in range(n - 1)])
        left = lax.ppermute(block[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
        right = lax.ppermute(block[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
        rows = jnp.concatenate([above, block, below])
        columns = jnp.concatenate([left, block, right], axis=1)
        return rows[:-2] + rows[2:] + columns[:, :-2] + columns[:, 2:] - 4 * block

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% whole blocks are sent exercise="10.9" score=0.25 diagnoses=["sends-too-much"] near=["in-pieces", "no collective-permute"]
def stencil(u):
    def body(block):
        n, m = lax.axis_size("x"), lax.axis_size("y")
        above = lax.ppermute(block, "x", [(i, i + 1) for i in range(n - 1)])[-1:]
        below = lax.ppermute(block, "x", [(i + 1, i) for i in range(n - 1)])[:1]
        left = lax.ppermute(block, "y", [(i, i + 1) for i in range(m - 1)])[:, -1:]
        right = lax.ppermute(block, "y", [(i + 1, i) for i in range(m - 1)])[:, :1]
        rows = jnp.concatenate([above, block, below])
        columns = jnp.concatenate([left, block, right], axis=1)
        return 4 * block - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% half a row at a time exercise="10.9" score=0.25 diagnoses=["in-pieces"] near=["sends-too-much"]
def stencil(u):
    def body(block):
        n, m = lax.axis_size("x"), lax.axis_size("y")

        def sent(edge, pairs):
            halves = jnp.split(edge, 2, axis=1)
            return jnp.concatenate([lax.ppermute(half, "x", pairs) for half in halves], axis=1)

        above = sent(block[-1:], [(i, i + 1) for i in range(n - 1)])
        below = sent(block[:1], [(i + 1, i) for i in range(n - 1)])
        left = lax.ppermute(block[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
        right = lax.ppermute(block[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
        rows = jnp.concatenate([above, block, below])
        columns = jnp.concatenate([left, block, right], axis=1)
        return 4 * block - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% gathered, and cut out again exercise="10.9" score=0.25 diagnoses=["no collective-permute"] near=["no-shard-map", "sends-too-much"]
def stencil(u):
    def body(block):
        rows, columns = block.shape
        strip = lax.all_gather(block, "y", axis=1, tiled=True)
        wide = jnp.pad(lax.all_gather(strip, "x", axis=0, tiled=True), 1)
        corner = lax.axis_index("x") * rows, lax.axis_index("y") * columns
        wide = lax.dynamic_slice(wide, corner, (rows + 2, columns + 2))
        around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
        return 4 * block - around

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% left to the compiler exercise="10.9" score=0 diagnoses=["not-counted-yet", "no-shard-map"] near=["sends-too-much"] naive=true
def stencil(u):
    wide = jnp.pad(u, 1)
    return 4 * u - wide[:-2, 1:-1] - wide[2:, 1:-1] - wide[1:-1, :-2] - wide[1:-1, 2:]


# %% wraps along y alone exercise="10.9" score=0 diagnoses=["wraps-around", "not-counted-yet"]
def stencil(u):
    def body(u):
        n, m = lax.axis_size("x"), lax.axis_size("y")
        above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
        below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
        left = lax.ppermute(u[:, -1:], "y", [(i, (i + 1) % m) for i in range(m)])
        right = lax.ppermute(u[:, :1], "y", [((i + 1) % m, i) for i in range(m)])
        rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
        return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% the first row, up and down exercise="10.9" score=0 diagnoses=["far-edge", "not-counted-yet"]
def stencil(u):
    def body(u):
        n, m = lax.axis_size("x"), lax.axis_size("y")
        above = lax.ppermute(u[:1], "x", [(i, i + 1) for i in range(n - 1)])
        below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
        left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
        right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
        rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
        return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% the columns exchanged exercise="10.9" score=0 diagnoses=["halos-exchanged", "not-counted-yet"] near=["other-factors"]
def stencil(u):
    def body(u):
        n, m = lax.axis_size("x"), lax.axis_size("y")
        above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
        below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
        left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
        right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
        rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([right, u, left], 1)
        return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% one neighbour added exercise="10.9" score=0 diagnoses=["other-factors", "not-counted-yet"]
def stencil(u):
    def body(u):
        n, m = lax.axis_size("x"), lax.axis_size("y")
        above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
        below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
        left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
        right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
        rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
        return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] + columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% without the point itself exercise="10.9" score=0 diagnoses=["other-factors", "not-counted-yet"]
def stencil(u):
    def body(u):
        n, m = lax.axis_size("x"), lax.axis_size("y")
        above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
        below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
        left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
        right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
        rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
        return u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% by a Python loop, whose last inner product is left out; a loop over the methods exercise="10.10" score=1 near=["one-message-more", "not-preconditioned", "once-too-often", "once-too-seldom", "along-the-residual", "square-of-the-residual", "too-many-bytes", "explicit all-gather", "unknown-times", "only-exchanges", "slowest", "bytes-ignored", "no-shard-map", "not-finite", "as-in-a-ring", "four-times-the-bytes", "no collective-permute", "first-along-the-residual", "of-the-old-residual", "too-few-latencies", "natural-logarithm", "raised", "half-of-the-sums"]
def apply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    @jax.shard_map(in_specs=P("x", "y"), out_specs=P("x", "y"))
    def body(r):
        total, p, last = 0 * r, 0 * r, jnp.inf
        for _ in range(4):
            z = solve_rectangle(r)
            square = lax.psum(jnp.vdot(r, z), ("y", "x"))
            p, last = z + square / last * p, square
            q = apply(p)
            length = square / lax.psum(jnp.vdot(p, q), ("x", "y"))
            total, r = total + length * p, r - length * q
        return total

    return body(f)


def winner(counts, devices, halo, latency, bandwidth):
    best, least = None, float("inf")
    for name, (steps, exchanges) in counts.items():
        messages = exchanges + 2 * (devices.bit_length() - 1)
        seconds = steps * (messages * latency + exchanges * halo / bandwidth)
        if seconds < least:
            best, least = name, seconds
    return best


# %% plain conjugate gradients; the fewest steps exercise="10.10" score=0 diagnoses=["not-preconditioned", "not-counted-yet", "fewest-steps"] near=["along-the-residual", "bytes-ignored"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.sum(u * v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = r
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = f
        start = f - f, f, z, dot(f, z)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    return min(counts, key=lambda name: counts[name][0])


# %% a step too many; no latency exercise="10.10" score=0 diagnoses=["once-too-often", "not-counted-yet", "too-many-bytes", "only-exchanges"] near=["once-too-seldom", "slowest", "one-step-alone"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.sum(u * v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, z)
        return lax.fori_loop(0, 5, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (exchanges * (halo / bandwidth) + 0 * devices)

    return min(counts, key=seconds)


# %% a step too few; no bytes exercise="10.10" score=0 diagnoses=["once-too-seldom", "not-counted-yet", "bytes-ignored"] near=["solved-outright", "fewest-steps"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.sum(u * v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, z)
        return lax.fori_loop(1, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (exchanges * (latency) + 2 * np.log2(devices) * latency)

    return min(counts, key=seconds)


# %% solved outright, on every device; one exchange in a step exercise="10.10" score=0 diagnoses=["solved-outright", "not-counted-yet", "explicit all-gather", "all-gather over x", "fewest-steps"] near=["blocks-solved-once", "one-exchange-too-few"]
def pcg(f):
    def body(f):
        whole = lax.all_gather(lax.all_gather(f, "y", axis=1, tiled=True), "x", tiled=True)
        corner = lax.axis_index("x") * f.shape[0], lax.axis_index("y") * f.shape[1]
        return lax.dynamic_slice(solve_rectangle(whole), corner, f.shape)

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (1 * (latency + halo / bandwidth) + 2 * np.log2(devices) * latency)

    return min(counts, key=seconds)


# %% each block solved, and no more; an exchange forgotten exercise="10.10" score=0 diagnoses=["blocks-solved-once", "not-counted-yet", "no all-reduce", "one-exchange-too-few"] near=["solved-outright"]
def pcg(f):
    return jax.shard_map(solve_rectangle, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (
            (exchanges - 1) * (latency + halo / bandwidth) + 2 * np.log2(devices) * latency
        )

    return min(counts, key=seconds)


# %% the square of the residual; no sums exercise="10.10" score=0 diagnoses=["square-of-the-residual", "not-counted-yet", "only-exchanges"] near=["not-preconditioned", "one-sum"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.sum(u * v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, r)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, f)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (exchanges * (latency + halo / bandwidth) + 0 * devices)

    return min(counts, key=seconds)


# %% along the residual; one sum exercise="10.10" score=0 diagnoses=["along-the-residual", "not-counted-yet", "one-sum"] near=["not-preconditioned", "square-of-the-residual", "only-exchanges"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.sum(u * v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, r + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, f, dot(f, z)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (exchanges * (latency + halo / bandwidth) + np.log2(devices) * latency)

    return min(counts, key=seconds)


# %% each device's own sums; sums in a ring exercise="10.10" score=0 diagnoses=["own-sums", "not-counted-yet", "no all-reduce", "as-in-a-ring"] near=["sums-over-one-axis", "one-sum"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return jnp.vdot(u, v)

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, z)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * 2 * (devices - 1) * latency)

    return min(counts, key=seconds)


# %% sums along x; one step of each exercise="10.10" score=0 diagnoses=["sums-over-one-axis", "not-counted-yet", "one-step-alone"] near=["own-sums", "fewest-steps"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), "x")

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, z)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return exchanges * (latency + halo / bandwidth) + 2 * np.log2(devices) * latency

    return min(counts, key=seconds)


# %% no halos; four halos one after the other exercise="10.10" score=0 diagnoses=["blocks-solved-once", "not-counted-yet", "no collective-permute", "four-times-the-bytes"] near=["solved-outright"]
def multiply(u):
    wide = jnp.pad(u, 1)
    return 4 * u - wide[:-2, 1:-1] - wide[2:, 1:-1] - wide[1:-1, :-2] - wide[1:-1, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.sum(u * v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / (dot(p, q) + 1e-30)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / (square + 1e-30) * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, z)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (
            exchanges * (latency + 4 * halo / bandwidth) + 2 * np.log2(devices) * latency
        )

    return min(counts, key=seconds)


# %% sums along x, and then along y; the slowest exercise="10.10" score=0.4166666666666667 diagnoses=["too-many-bytes", "slowest"] near=["sums-over-one-axis", "only-exchanges"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(lax.psum(jnp.vdot(u, v), "x"), "y")

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, z)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * np.log2(devices) * latency)

    return max(counts, key=seconds)


# %% the first direction is the residual; a latency for all exchanges of a step exercise="10.10" score=0 diagnoses=["first-along-the-residual", "not-counted-yet", "too-few-latencies"] near=["along-the-residual", "one-exchange-too-few"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, f, dot(f, z)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (latency + exchanges * halo / bandwidth + 2 * np.log2(devices) * latency)

    return min(counts, key=seconds)


# %% z of the residual before the step; natural logarithms exercise="10.10" score=0 diagnoses=["of-the-old-residual", "not-counted-yet", "natural-logarithm"] near=["once-too-seldom", "one-sum"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            z = solve_rectangle(r)
            u, r = u + length * p, r - length * q
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, z)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * np.log(devices) * latency)

    return min(counts, key=seconds)


# %% the methods' names written in exercise="10.10" score=0.6666666666666666 diagnoses=["raised"] near=["slowest"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, z)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(steps, exchanges):
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * np.log2(devices) * latency)

    is_local = seconds(*counts["block Jacobi"]) < seconds(*counts["polynomial"])
    return "block Jacobi" if is_local else "polynomial"


# %% multiplied by all of the direction exercise="10.10" score=0.16666666666666666 diagnoses=["explicit all-gather", "all-gather over x", "unanswered"] near=["too-many-bytes"]
def multiply(u):
    whole = lax.all_gather(lax.all_gather(u, "y", axis=1, tiled=True), "x", tiled=True)
    wide = jnp.pad(whole, 1)
    v = 4 * whole - wide[:-2, 1:-1] - wide[2:, 1:-1] - wide[1:-1, :-2] - wide[1:-1, 2:]
    corner = lax.axis_index("x") * u.shape[0], lax.axis_index("y") * u.shape[1]
    return lax.dynamic_slice(v, corner, u.shape)


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.sum(u * v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, z)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% until it is small, or four steps are done exercise="10.10" score=0.16666666666666666 diagnoses=["unknown-times", "unanswered"] near=["not-finite"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.sum(u * v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, z)

        def goes_on(counted):
            return (counted[0] < 4) & (counted[1][3] > 1e-30)

        def counted_step(counted):
            return counted[0] + 1, step(0, counted[1])

        return lax.while_loop(goes_on, counted_step, (0, start))[1][0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% left to the compiler exercise="10.10" score=0 diagnoses=["not-counted-yet", "no-shard-map", "all-gather over y", "unanswered"] near=["explicit all-gather"] naive=true
def pcg(f):
    rows, columns = jax.sharding.get_abstract_mesh().axis_sizes

    def apply(u):
        wide = jnp.pad(u, 1)
        return 4 * u - wide[:-2, 1:-1] - wide[2:, 1:-1] - wide[1:-1, :-2] - wide[1:-1, 2:]

    def step(_, state):
        u, r, p, square = state
        q = apply(p)
        length = square / jnp.vdot(p, q)
        u, r = u + length * p, r - length * q
        z = block_jacobi(r)
        new = jnp.vdot(r, z)
        return u, r, z + new / square * p, new

    def block_jacobi(r):
        strips = [jnp.split(strip, columns, axis=1) for strip in jnp.split(r, rows)]
        return jnp.block([[solve_rectangle(block) for block in strip] for strip in strips])

    z = block_jacobi(f)
    return lax.fori_loop(0, 4, step, (0 * f, f, z, jnp.vdot(f, z)))[0]


# %% the next direction from the residual exercise="10.10" score=0 diagnoses=["along-the-residual", "not-counted-yet", "unanswered"] near=["first-along-the-residual", "four-exchanges"]
def neighbours(block, axis):
    """Add up each point's two neighbours along dimension 0, which this axis of the mesh shards."""
    down = [(i, i + 1) for i in range(lax.axis_size(axis) - 1)]
    up = [(j, i) for i, j in down]
    above, below = lax.ppermute(block[-1:], axis, down), lax.ppermute(block[:1], axis, up)
    wide = jnp.concatenate([above, block, below])
    return wide[:-2] + wide[2:]


def multiply(block):
    return 4 * block - neighbours(block, "x") - neighbours(block.T, "y").T


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, residual, direction, square = state
            product = multiply(direction)
            length = square / dot(direction, product)
            u, residual = u + length * direction, residual - length * product
            z = solve_rectangle(residual)
            new = dot(residual, z)
            return u, residual, residual + new / square * direction, new

        z = solve_rectangle(f)
        return lax.fori_loop(0, 4, step, (jnp.zeros_like(f), f, z, dot(f, z)))[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% z alone exercise="10.10" score=0 diagnoses=["direction-before-missing", "not-counted-yet", "unanswered"] near=["along-the-residual", "share-upside-down"]
def neighbours(block, axis):
    """Add up each point's two neighbours along dimension 0, which this axis of the mesh shards."""
    down = [(i, i + 1) for i in range(lax.axis_size(axis) - 1)]
    up = [(j, i) for i, j in down]
    above, below = lax.ppermute(block[-1:], axis, down), lax.ppermute(block[:1], axis, up)
    wide = jnp.concatenate([above, block, below])
    return wide[:-2] + wide[2:]


def multiply(block):
    return 4 * block - neighbours(block, "x") - neighbours(block.T, "y").T


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, residual, direction, square = state
            product = multiply(direction)
            length = square / dot(direction, product)
            u, residual = u + length * direction, residual - length * product
            z = solve_rectangle(residual)
            new = dot(residual, z)
            return u, residual, z, new

        z = solve_rectangle(f)
        return lax.fori_loop(0, 4, step, (jnp.zeros_like(f), f, z, dot(f, z)))[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% old by new exercise="10.10" score=0 diagnoses=["share-upside-down", "not-counted-yet", "unanswered"] near=["share-subtracted"]
def neighbours(block, axis):
    """Add up each point's two neighbours along dimension 0, which this axis of the mesh shards."""
    down = [(i, i + 1) for i in range(lax.axis_size(axis) - 1)]
    up = [(j, i) for i, j in down]
    above, below = lax.ppermute(block[-1:], axis, down), lax.ppermute(block[:1], axis, up)
    wide = jnp.concatenate([above, block, below])
    return wide[:-2] + wide[2:]


def multiply(block):
    return 4 * block - neighbours(block, "x") - neighbours(block.T, "y").T


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, residual, direction, square = state
            product = multiply(direction)
            length = square / dot(direction, product)
            u, residual = u + length * direction, residual - length * product
            z = solve_rectangle(residual)
            new = dot(residual, z)
            return u, residual, z + square / new * direction, new

        z = solve_rectangle(f)
        return lax.fori_loop(0, 4, step, (jnp.zeros_like(f), f, z, dot(f, z)))[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% minus the direction before exercise="10.10" score=0 diagnoses=["share-subtracted", "not-counted-yet", "unanswered"] near=["direction-before-missing"]
def neighbours(block, axis):
    """Add up each point's two neighbours along dimension 0, which this axis of the mesh shards."""
    down = [(i, i + 1) for i in range(lax.axis_size(axis) - 1)]
    up = [(j, i) for i, j in down]
    above, below = lax.ppermute(block[-1:], axis, down), lax.ppermute(block[:1], axis, up)
    wide = jnp.concatenate([above, block, below])
    return wide[:-2] + wide[2:]


def multiply(block):
    return 4 * block - neighbours(block, "x") - neighbours(block.T, "y").T


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, residual, direction, square = state
            product = multiply(direction)
            length = square / dot(direction, product)
            u, residual = u + length * direction, residual - length * product
            z = solve_rectangle(residual)
            new = dot(residual, z)
            return u, residual, z - new / square * direction, new

        z = solve_rectangle(f)
        return lax.fori_loop(0, 4, step, (jnp.zeros_like(f), f, z, dot(f, z)))[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% the first product in all steps exercise="10.10" score=0 diagnoses=["first-product-kept", "not-counted-yet", "unanswered"] near=["square-of-the-residual"]
def neighbours(block, axis):
    """Add up each point's two neighbours along dimension 0, which this axis of the mesh shards."""
    down = [(i, i + 1) for i in range(lax.axis_size(axis) - 1)]
    up = [(j, i) for i, j in down]
    above, below = lax.ppermute(block[-1:], axis, down), lax.ppermute(block[:1], axis, up)
    wide = jnp.concatenate([above, block, below])
    return wide[:-2] + wide[2:]


def multiply(block):
    return 4 * block - neighbours(block, "x") - neighbours(block.T, "y").T


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, residual, direction, square = state
            product = multiply(direction)
            length = square / dot(direction, product)
            u, residual = u + length * direction, residual - length * product
            z = solve_rectangle(residual)
            new = dot(residual, z)
            return u, residual, z + new / square * direction, square

        z = solve_rectangle(f)
        return lax.fori_loop(0, 4, step, (jnp.zeros_like(f), f, z, dot(f, z)))[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% the residual grows exercise="10.10" score=0 diagnoses=["residual-grows", "not-counted-yet", "unanswered"] near=["away-from-the-solution", "residual-by-the-direction"]
def neighbours(block, axis):
    """Add up each point's two neighbours along dimension 0, which this axis of the mesh shards."""
    down = [(i, i + 1) for i in range(lax.axis_size(axis) - 1)]
    up = [(j, i) for i, j in down]
    above, below = lax.ppermute(block[-1:], axis, down), lax.ppermute(block[:1], axis, up)
    wide = jnp.concatenate([above, block, below])
    return wide[:-2] + wide[2:]


def multiply(block):
    return 4 * block - neighbours(block, "x") - neighbours(block.T, "y").T


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, residual, direction, square = state
            product = multiply(direction)
            length = square / dot(direction, product)
            u, residual = u + length * direction, residual + length * product
            z = solve_rectangle(residual)
            new = dot(residual, z)
            return u, residual, z + new / square * direction, new

        z = solve_rectangle(f)
        return lax.fori_loop(0, 4, step, (jnp.zeros_like(f), f, z, dot(f, z)))[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% the residual changes by the direction exercise="10.10" score=0 diagnoses=["residual-by-the-direction", "not-counted-yet", "unanswered"] near=["residual-grows", "first-product-kept"]
def neighbours(block, axis):
    """Add up each point's two neighbours along dimension 0, which this axis of the mesh shards."""
    down = [(i, i + 1) for i in range(lax.axis_size(axis) - 1)]
    up = [(j, i) for i, j in down]
    above, below = lax.ppermute(block[-1:], axis, down), lax.ppermute(block[:1], axis, up)
    wide = jnp.concatenate([above, block, below])
    return wide[:-2] + wide[2:]


def multiply(block):
    return 4 * block - neighbours(block, "x") - neighbours(block.T, "y").T


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, residual, direction, square = state
            product = multiply(direction)
            length = square / dot(direction, product)
            u, residual = u + length * direction, residual - length * direction
            z = solve_rectangle(residual)
            new = dot(residual, z)
            return u, residual, z + new / square * direction, new

        z = solve_rectangle(f)
        return lax.fori_loop(0, 4, step, (jnp.zeros_like(f), f, z, dot(f, z)))[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% against the direction, and four halos exercise="10.10" score=0 diagnoses=["away-from-the-solution", "not-counted-yet", "four-exchanges"] near=["residual-grows", "four-times-the-bytes"]
# as in 10.9
def neighbours(block, axis):
    """Add up each point's two neighbours along dimension 0, which this axis of the mesh shards."""
    down = [(i, i + 1) for i in range(lax.axis_size(axis) - 1)]
    up = [(j, i) for i, j in down]
    above, below = lax.ppermute(block[-1:], axis, down), lax.ppermute(block[:1], axis, up)
    wide = jnp.concatenate([above, block, below])
    return wide[:-2] + wide[2:]


def multiply(block):
    return 4 * block - neighbours(block, "x") - neighbours(block.T, "y").T


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, residual, direction, square = state
            product = multiply(direction)
            length = square / dot(direction, product)
            u, residual = u - length * direction, residual - length * product
            z = solve_rectangle(residual)
            new = dot(residual, z)
            return u, residual, z + new / square * direction, new

        z = solve_rectangle(f)
        return lax.fori_loop(0, 4, step, (jnp.zeros_like(f), f, z, dot(f, z)))[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        sums = 2 * np.log2(devices) * latency
        return steps * (4 * exchanges * (latency + halo / bandwidth) + sums)

    return min(counts, key=seconds)


# %% sums that send a halo, too exercise="10.10" score=0 diagnoses=["unanswered", "bytes-ignored"]
def pcg(f):
    return ...


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * ((exchanges + 2 * np.log2(devices)) * (latency + halo / bandwidth))

    return min(counts, key=seconds)


# %% a halo times the bandwidth exercise="10.10" score=0 diagnoses=["unanswered", "only-exchanges"]
def pcg(f):
    return ...


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (exchanges * (latency + halo * bandwidth) + 2 * np.log2(devices) * latency)

    return min(counts, key=seconds)


# %% the sums of one step for a whole solve exercise="10.10" score=0 diagnoses=["unanswered", "only-exchanges"]
def pcg(f):
    return ...


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (exchanges * (latency + halo / bandwidth)) + 2 * np.log2(devices) * latency

    return min(counts, key=seconds)


# %% two sums for each exchange exercise="10.10" score=0 diagnoses=["unanswered", "only-exchanges"] near=["sums-of-one-message"]
def pcg(f):
    return ...


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * exchanges * (latency + halo / bandwidth + 2 * np.log2(devices) * latency)

    return min(counts, key=seconds)


# %% a sum takes one message exercise="10.10" score=0 diagnoses=["unanswered", "sums-of-one-message"]
def pcg(f):
    return ...


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(method):
        steps, exchanges = counts[method]
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * latency)

    return min(counts, key=seconds)


# %% from the residual and its square; no winner exercise="10.10" score=0 diagnoses=["first-along-the-residual", "not-counted-yet", "unanswered"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, f, dot(f, f)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    return ...


# %% residual @ residual for a step's length; no winner exercise="10.10" score=0 diagnoses=["square-of-the-residual", "not-counted-yet", "too-many-bytes", "unanswered"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = dot(r, r) / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, z)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    return ...


# %% residual @ residual for the share; no winner exercise="10.10" score=0 diagnoses=["square-of-the-residual", "not-counted-yet", "unanswered"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, r)
            return u, r, z + new / square * p, new

        z = solve_rectangle(f)
        start = f - f, f, z, dot(f, z)
        return lax.fori_loop(0, 4, step, start)[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    return ...


# %% the ring is closed on one side exercise="10.9" score=0 diagnoses=["wraps-around", "not-counted-yet"] near=["mirrored"]
def stencil_block(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, (i + 1) % m) for i in range(m)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    tall = jnp.concatenate([above, u, below], axis=0)
    wide = jnp.concatenate([left, u, right], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def stencil(u):
    return jax.shard_map(stencil_block, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% the edge is repeated above the plane exercise="10.9" score=0 diagnoses=["mirrored", "not-counted-yet"] near=["next-to-the-edge"]
def stencil_block(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    above = jnp.where(lax.axis_index("x") == 0, u[:1], above)
    tall = jnp.concatenate([above, u, below], axis=0)
    wide = jnp.concatenate([left, u, right], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def stencil(u):
    return jax.shard_map(stencil_block, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% the second row travels exercise="10.9" score=0 diagnoses=["next-to-the-edge", "not-counted-yet"] near=["diagonal", "no collective-permute"]
def stencil_block(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[1:2], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    tall = jnp.concatenate([above, u, below], axis=0)
    wide = jnp.concatenate([left, u, right], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def stencil(u):
    return jax.shard_map(stencil_block, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% diagonal neighbours exercise="10.9" score=0 diagnoses=["diagonal", "not-counted-yet", "no collective-permute"] near=["wraps-around"]
def stencil_block(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    tall = jnp.concatenate([above, u, below], axis=0)
    wide = jnp.concatenate([left, u, right], axis=1)
    t = jnp.pad(tall, ((0, 0), (1, 1)))
    return 4 * u - t[:-2, :-2] - t[2:, 2:] - t[:-2, 2:] - t[2:, :-2]


def stencil(u):
    return jax.shard_map(stencil_block, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% z is the residual in the steps exercise="10.10" score=0 diagnoses=["preconditioned-once", "not-counted-yet", "unanswered"] near=["whole-direction-before"]
def stencil_block(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    tall = jnp.concatenate([above, u, below], axis=0)
    wide = jnp.concatenate([left, u, right], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def pcg(f):
    def body(f):
        def inner(a, b):
            return lax.psum((a * b).sum(), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_rectangle(residual)
        old = inner(residual, direction)
        for _ in range(4):
            product = stencil_block(direction)
            length = old / inner(direction, product)
            u = u + length * direction
            residual = residual - length * product
            z = residual
            new = inner(residual, z)
            direction = z + new / old * direction
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% the whole direction before exercise="10.10" score=0 diagnoses=["whole-direction-before", "not-counted-yet", "unanswered"] near=["u-along-z"]
def stencil_block(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    tall = jnp.concatenate([above, u, below], axis=0)
    wide = jnp.concatenate([left, u, right], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def pcg(f):
    def body(f):
        def inner(a, b):
            return lax.psum((a * b).sum(), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_rectangle(residual)
        old = inner(residual, direction)
        for _ in range(4):
            product = stencil_block(direction)
            length = old / inner(direction, product)
            u = u + length * direction
            residual = residual - length * product
            z = solve_rectangle(residual)
            new = inner(residual, z)
            direction = z + direction
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% u goes along z exercise="10.10" score=0 diagnoses=["u-along-z", "not-counted-yet", "unanswered"] near=["length-missing"]
def stencil_block(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    tall = jnp.concatenate([above, u, below], axis=0)
    wide = jnp.concatenate([left, u, right], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def pcg(f):
    def body(f):
        def inner(a, b):
            return lax.psum((a * b).sum(), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_rectangle(residual)
        old = inner(residual, direction)
        for _ in range(4):
            product = stencil_block(direction)
            length = old / inner(direction, product)
            u = u + length * solve_rectangle(residual)
            residual = residual - length * product
            z = solve_rectangle(residual)
            new = inner(residual, z)
            direction = z + new / old * direction
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% u goes by the direction exercise="10.10" score=0 diagnoses=["length-missing", "not-counted-yet", "unanswered"] near=["over-the-direction"]
def stencil_block(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    tall = jnp.concatenate([above, u, below], axis=0)
    wide = jnp.concatenate([left, u, right], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def pcg(f):
    def body(f):
        def inner(a, b):
            return lax.psum((a * b).sum(), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_rectangle(residual)
        old = inner(residual, direction)
        for _ in range(4):
            product = stencil_block(direction)
            length = old / inner(direction, product)
            u = u + direction
            residual = residual - length * product
            z = solve_rectangle(residual)
            new = inner(residual, z)
            direction = z + new / old * direction
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% a length over the direction exercise="10.10" score=0 diagnoses=["over-the-direction", "not-counted-yet", "unanswered"] near=["residual-returned"]
def stencil_block(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    tall = jnp.concatenate([above, u, below], axis=0)
    wide = jnp.concatenate([left, u, right], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def pcg(f):
    def body(f):
        def inner(a, b):
            return lax.psum((a * b).sum(), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_rectangle(residual)
        old = inner(residual, direction)
        for _ in range(4):
            product = stencil_block(direction)
            length = old / inner(direction, direction)
            u = u + length * direction
            residual = residual - length * product
            z = solve_rectangle(residual)
            new = inner(residual, z)
            direction = z + new / old * direction
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% the residual comes back exercise="10.10" score=0 diagnoses=["residual-returned", "not-counted-yet", "unanswered"] near=["smaller-blocks"]
def stencil_block(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    tall = jnp.concatenate([above, u, below], axis=0)
    wide = jnp.concatenate([left, u, right], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def pcg(f):
    def body(f):
        def inner(a, b):
            return lax.psum((a * b).sum(), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_rectangle(residual)
        old = inner(residual, direction)
        for _ in range(4):
            product = stencil_block(direction)
            length = old / inner(direction, product)
            u = u + length * direction
            residual = residual - length * product
            z = solve_rectangle(residual)
            new = inner(residual, z)
            direction = z + new / old * direction
            old = new
        return residual

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% quarters of blocks exercise="10.10" score=0 diagnoses=["smaller-blocks", "not-counted-yet", "unanswered"] near=["share-is-the-length"]
def stencil_block(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    tall = jnp.concatenate([above, u, below], axis=0)
    wide = jnp.concatenate([left, u, right], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def pcg(f):
    def body(f):
        def inner(a, b):
            return lax.psum((a * b).sum(), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_rectangle(residual)
        old = inner(residual, direction)
        for _ in range(4):
            product = stencil_block(direction)
            length = old / inner(direction, product)
            u = u + length * direction
            residual = residual - length * product
            z = jnp.block(
                [
                    [solve_rectangle(a) for a in jnp.split(s, 2, 1)]
                    for s in jnp.split(residual, 2, 0)
                ]
            )
            new = inner(residual, z)
            direction = z + new / old * direction
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% the length for the share exercise="10.10" score=0 diagnoses=["share-is-the-length", "not-counted-yet", "unanswered"] near=["logarithm-of-the-halo"]
def stencil_block(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    tall = jnp.concatenate([above, u, below], axis=0)
    wide = jnp.concatenate([left, u, right], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def pcg(f):
    def body(f):
        def inner(a, b):
            return lax.psum((a * b).sum(), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_rectangle(residual)
        old = inner(residual, direction)
        for _ in range(4):
            product = stencil_block(direction)
            length = old / inner(direction, product)
            u = u + length * direction
            residual = residual - length * product
            z = solve_rectangle(residual)
            new = inner(residual, z)
            direction = z + length * direction
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


# %% messages by the halo exercise="10.10" score=0 diagnoses=["unanswered", "logarithm-of-the-halo"] near=["preconditioned-once"]
def winner(counts, devices, halo, latency, bandwidth):
    def time(name):
        steps, exchanges = counts[name]
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * np.log2(halo) * latency)

    return min(counts, key=time)


# %% steps and exchanges exchanged exercise="10.10" score=0 diagnoses=["unanswered", "counts-exchanged"] near=["only-exchanges", "fewest-steps"]
def pcg(f):
    return ...


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(name):
        exchanges, steps = counts[name]
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * np.log2(devices) * latency)

    return min(counts, key=seconds)


# %% the name of the other exercise="10.10" score=0 diagnoses=["unanswered", "slowest"] near=["counts-exchanged", "only-exchanges"]
def pcg(f):
    return ...


def winner(counts, devices, halo, latency, bandwidth):
    one, other = counts

    def seconds(name):
        steps, exchanges = counts[name]
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * np.log2(devices) * latency)

    return other if seconds(one) < seconds(other) else one


# %% u begins as f exercise="10.10" score=0 diagnoses=["starts-at-f", "not-counted-yet", "too-many-bytes", "unanswered"] near=["eigenvalues-multiplied", "residual-returned", "too-few-latencies-and-one-sum", "not-finite"]
def neighbour(part, axis, step):
    n = lax.axis_size(axis)
    return lax.ppermute(part, axis, [(i, i + step) for i in range(n) if 0 <= i + step < n])


def multiply(u):
    above, below = neighbour(u[-1:], "x", 1), neighbour(u[:1], "x", -1)
    left, right = neighbour(u[:, -1:], "y", 1), neighbour(u[:, :1], "y", -1)
    tall = jnp.concatenate([above, u, below])
    wide = jnp.concatenate([left, u, right], 1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def jacobi(r):
    def second(n):
        return 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)

    (rows, V), (columns, W) = (np.linalg.eigh(second(n)) for n in r.shape)
    V, W, s = (jnp.asarray(a, r.dtype) for a in (V, W, rows[:, None] + columns))
    return V @ (V.T @ r @ W / s) @ W.T


def dot(a, b):
    return lax.psum((a * b).sum(), ("x", "y"))


@jax.jit
@jax.shard_map(in_specs=P("x", "y"), out_specs=P("x", "y"))
def pcg(f):
    u, residual = f, f - multiply(f)
    direction = jacobi(residual)
    old = dot(residual, direction)
    for _ in range(4):
        product = multiply(direction)
        length = old / dot(direction, product)
        u = u + length * direction
        residual = residual - length * product
        z = jacobi(residual)
        new = dot(residual, z)
        direction = z + new / old * direction
        old = new
    return u


# %% eigenvalues multiplied exercise="10.10" score=0 diagnoses=["eigenvalues-multiplied", "not-counted-yet", "unanswered"] near=["starts-at-f", "smaller-blocks"]
def neighbour(part, axis, step):
    n = lax.axis_size(axis)
    return lax.ppermute(part, axis, [(i, i + step) for i in range(n) if 0 <= i + step < n])


def multiply(u):
    above, below = neighbour(u[-1:], "x", 1), neighbour(u[:1], "x", -1)
    left, right = neighbour(u[:, -1:], "y", 1), neighbour(u[:, :1], "y", -1)
    tall = jnp.concatenate([above, u, below])
    wide = jnp.concatenate([left, u, right], 1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def jacobi(r):
    def second(n):
        return 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)

    (rows, V), (columns, W) = (np.linalg.eigh(second(n)) for n in r.shape)
    V, W, s = (jnp.asarray(a, r.dtype) for a in (V, W, rows[:, None] * columns))
    return V @ (V.T @ r @ W / s) @ W.T


def dot(a, b):
    return lax.psum((a * b).sum(), ("x", "y"))


@jax.jit
@jax.shard_map(in_specs=P("x", "y"), out_specs=P("x", "y"))
def pcg(f):
    u, residual = jnp.zeros_like(f), f
    direction = jacobi(residual)
    old = dot(residual, direction)
    for _ in range(4):
        product = multiply(direction)
        length = old / dot(direction, product)
        u = u + length * direction
        residual = residual - length * product
        z = jacobi(residual)
        new = dot(residual, z)
        direction = z + new / old * direction
        old = new
    return u


# %% halos without latencies, and one sum exercise="10.10" score=0 diagnoses=["unanswered", "too-few-latencies-and-one-sum"] near=["one-sum", "too-few-latencies"]
def winner(counts, devices, halo, latency, bandwidth):
    message = halo / bandwidth

    def time(name):
        steps, exchanges = counts[name]
        return steps * (exchanges * message + latency * math_log2(devices))

    return min(counts, key=time)


def math_log2(n):
    return n.bit_length() - 1


# %% f added to u; one latency, and one sum exercise="10.10" score=0 diagnoses=["starts-at-f", "not-counted-yet", "too-few-latencies-and-one-sum"] near=["eigenvalues-multiplied", "one-sum"]
def neighbour(part, axis, step):
    n = lax.axis_size(axis)
    return lax.ppermute(part, axis, [(i, i + step) for i in range(n) if 0 <= i + step < n])


def multiply(u):
    above, below = neighbour(u[-1:], "x", 1), neighbour(u[:1], "x", -1)
    left, right = neighbour(u[:, -1:], "y", 1), neighbour(u[:, :1], "y", -1)
    tall = jnp.concatenate([above, u, below])
    wide = jnp.concatenate([left, u, right], 1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def jacobi(r):
    def second(n):
        return 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)

    (rows, V), (columns, W) = (np.linalg.eigh(second(n)) for n in r.shape)
    V, W, s = (jnp.asarray(a, r.dtype) for a in (V, W, rows[:, None] + columns))
    return V @ (V.T @ r @ W / s) @ W.T


def dot(a, b):
    return lax.psum((a * b).sum(), ("x", "y"))


@jax.jit
@jax.shard_map(in_specs=P("x", "y"), out_specs=P("x", "y"))
def pcg(f):
    u, residual = f, f
    direction = jacobi(residual)
    old = dot(residual, direction)
    for _ in range(4):
        product = multiply(direction)
        length = old / dot(direction, product)
        u = u + length * direction
        residual = residual - length * product
        z = jacobi(residual)
        new = dot(residual, z)
        direction = z + new / old * direction
        old = new
    return u


def winner(counts, devices, halo, latency, bandwidth):
    message = halo / bandwidth

    def time(name):
        steps, exchanges = counts[name]
        return steps * (latency + exchanges * message + latency * math_log2(devices))

    return min(counts, key=time)


def math_log2(n):
    return n.bit_length() - 1


# %% rows sent sideways exercise="10.9" score=0 diagnoses=["axes-exchanged", "not-counted-yet", "other-axes"] near=["halos-exchanged"]
def multiply(u):
    def shifted(edge, axis, step):
        n = lax.axis_size(axis)
        pairs = [(i, i + step) for i in range(n) if 0 <= i + step < n]
        return lax.ppermute(edge, axis, pairs)

    above, below = shifted(u[-1:], "y", 1), shifted(u[:1], "y", -1)
    left, right = shifted(u[:, -1:], "y", 1), shifted(u[:, :1], "y", -1)
    rows = jnp.concatenate([above, u, below], axis=0)
    columns = jnp.concatenate([left, u, right], axis=1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def stencil(u):
    return jax.shard_map(multiply, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% one message less for each sum exercise="10.10" score=0.6666666666666666 diagnoses=["half-of-the-sums"] near=["the-longer-alone"]
def halo(u):
    def shift(edge, axis, step):
        n = lax.axis_size(axis)
        return lax.ppermute(edge, axis, [(i, i + step) for i in range(n) if 0 <= i + step < n])

    above, below = shift(u[-1:], "x", 1), shift(u[:1], "x", -1)
    left, right = shift(u[:, -1:], "y", 1), shift(u[:, :1], "y", -1)
    tall, wide = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def pcg(f):
    def body(f):
        dot = lambda a, b: lax.psum((a * b).sum(), ("x", "y"))
        u, r = jnp.zeros_like(f), f
        d = solve_rectangle(r)
        old = dot(r, d)
        for _ in range(4):
            product = halo(d)
            length = old / dot(d, product)
            u = u + length * d
            r = r - length * product
            z = solve_rectangle(r)
            new = dot(r, z)
            d = z + new / old * d
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def time(name):
        steps, exchanges = counts[name]
        return steps * (
            exchanges * (latency + halo / bandwidth)
            + 2 * int(devices - 1).bit_length() * latency
            - 2 * latency
        )

    return min(counts, key=time)


# %% a step's length is divided by product @ product exercise="10.10" score=0.3333 diagnoses=["wrong-amounts", "not-counted-yet"] near=["wrong-directions", "product-forgotten"]
def halos_(u):
    rows, columns = lax.axis_size("x"), lax.axis_size("y")
    down = [(i, i + 1) for i in range(rows - 1)]
    right = [(i, i + 1) for i in range(columns - 1)]
    above = lax.ppermute(u[-1:], "x", down)
    below = lax.ppermute(u[:1], "x", [(j, i) for i, j in down])
    left = lax.ppermute(u[:, -1:], "y", right)
    after = lax.ppermute(u[:, :1], "y", [(j, i) for i, j in right])
    tall = jnp.concatenate([above, u, below], 0)
    broad = jnp.concatenate([left, u, after], 1)
    return 4 * u - tall[:-2] - tall[2:] - broad[:, :-2] - broad[:, 2:]


def modes_(n):
    return np.linalg.eigh(2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))


def solve_(r):
    (rows, V), (columns, W) = (modes_(n) for n in r.shape)
    V, W = V.astype(np.float32), W.astype(np.float32)
    return V @ (V.T @ r @ W / (rows[:, None] + columns).astype(np.float32)) @ W.T


def pcg(f):
    def body(f):
        def dot(a, b):
            return lax.psum(jnp.sum(a * b), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_(residual)
        old = dot(residual, direction)
        for _ in range(4):
            product = halos_(direction)
            length = old / dot(product, product)
            u = u + length * direction
            residual = residual - length * product
            z = solve_(residual)
            new = dot(residual, z)
            direction = z + new / old * direction
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(steps, exchanges):
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * np.log2(devices) * latency)

    return min(counts, key=lambda name: seconds(*counts[name]))


# %% the transposes of the eigenvectors are forgotten exercise="10.10" score=0.3333 diagnoses=["wrong-directions", "not-counted-yet"] near=["wrong-amounts", "eigenvalues-multiplied"]
def halos_(u):
    rows, columns = lax.axis_size("x"), lax.axis_size("y")
    down = [(i, i + 1) for i in range(rows - 1)]
    right = [(i, i + 1) for i in range(columns - 1)]
    above = lax.ppermute(u[-1:], "x", down)
    below = lax.ppermute(u[:1], "x", [(j, i) for i, j in down])
    left = lax.ppermute(u[:, -1:], "y", right)
    after = lax.ppermute(u[:, :1], "y", [(j, i) for i, j in right])
    tall = jnp.concatenate([above, u, below], 0)
    broad = jnp.concatenate([left, u, after], 1)
    return 4 * u - tall[:-2] - tall[2:] - broad[:, :-2] - broad[:, 2:]


def modes_(n):
    return np.linalg.eigh(2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))


def solve_(r):
    (rows, V), (columns, W) = (modes_(n) for n in r.shape)
    V, W = V.astype(np.float32), W.astype(np.float32)
    return V.T @ (V @ r @ W / (rows[:, None] + columns).astype(np.float32)) @ W.T


def pcg(f):
    def body(f):
        def dot(a, b):
            return lax.psum(jnp.sum(a * b), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_(residual)
        old = dot(residual, direction)
        for _ in range(4):
            product = halos_(direction)
            length = old / dot(direction, product)
            u = u + length * direction
            residual = residual - length * product
            z = solve_(residual)
            new = dot(residual, z)
            direction = z + new / old * direction
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(steps, exchanges):
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * np.log2(devices) * latency)

    return min(counts, key=lambda name: seconds(*counts[name]))


# %% u changes by the next direction exercise="10.10" score=0.3333 diagnoses=["wrong-amounts", "not-counted-yet"] near=["wrong-directions"]
def halos_(u):
    rows, columns = lax.axis_size("x"), lax.axis_size("y")
    down = [(i, i + 1) for i in range(rows - 1)]
    right = [(i, i + 1) for i in range(columns - 1)]
    above = lax.ppermute(u[-1:], "x", down)
    below = lax.ppermute(u[:1], "x", [(j, i) for i, j in down])
    left = lax.ppermute(u[:, -1:], "y", right)
    after = lax.ppermute(u[:, :1], "y", [(j, i) for i, j in right])
    tall = jnp.concatenate([above, u, below], 0)
    broad = jnp.concatenate([left, u, after], 1)
    return 4 * u - tall[:-2] - tall[2:] - broad[:, :-2] - broad[:, 2:]


def modes_(n):
    return np.linalg.eigh(2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))


def solve_(r):
    (rows, V), (columns, W) = (modes_(n) for n in r.shape)
    V, W = V.astype(np.float32), W.astype(np.float32)
    return V @ (V.T @ r @ W / (rows[:, None] + columns).astype(np.float32)) @ W.T


def pcg(f):
    def body(f):
        def dot(a, b):
            return lax.psum(jnp.sum(a * b), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_(residual)
        old = dot(residual, direction)
        for _ in range(4):
            product = halos_(direction)
            length = old / dot(direction, product)
            residual = residual - length * product
            z = solve_(residual)
            new = dot(residual, z)
            direction = z + new / old * direction
            old = new
            u = u + length * direction
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(steps, exchanges):
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * np.log2(devices) * latency)

    return min(counts, key=lambda name: seconds(*counts[name]))


# %% A is applied to the residual exercise="10.10" score=0.3333 diagnoses=["wrong-directions", "not-counted-yet"] near=["wrong-amounts"]
def halos_(u):
    rows, columns = lax.axis_size("x"), lax.axis_size("y")
    down = [(i, i + 1) for i in range(rows - 1)]
    right = [(i, i + 1) for i in range(columns - 1)]
    above = lax.ppermute(u[-1:], "x", down)
    below = lax.ppermute(u[:1], "x", [(j, i) for i, j in down])
    left = lax.ppermute(u[:, -1:], "y", right)
    after = lax.ppermute(u[:, :1], "y", [(j, i) for i, j in right])
    tall = jnp.concatenate([above, u, below], 0)
    broad = jnp.concatenate([left, u, after], 1)
    return 4 * u - tall[:-2] - tall[2:] - broad[:, :-2] - broad[:, 2:]


def modes_(n):
    return np.linalg.eigh(2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))


def solve_(r):
    (rows, V), (columns, W) = (modes_(n) for n in r.shape)
    V, W = V.astype(np.float32), W.astype(np.float32)
    return V @ (V.T @ r @ W / (rows[:, None] + columns).astype(np.float32)) @ W.T


def pcg(f):
    def body(f):
        def dot(a, b):
            return lax.psum(jnp.sum(a * b), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_(residual)
        old = dot(residual, direction)
        for _ in range(4):
            product = halos_(residual)
            length = old / dot(direction, product)
            u = u + length * direction
            residual = residual - length * product
            z = solve_(residual)
            new = dot(residual, z)
            direction = z + new / old * direction
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(steps, exchanges):
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * np.log2(devices) * latency)

    return min(counts, key=lambda name: seconds(*counts[name]))


# %% no halos over y exercise="10.10" score=0.3333 diagnoses=["wrong-directions", "not-counted-yet"] near=["wrong-amounts"]
def halos_(u):
    rows, columns = lax.axis_size("x"), lax.axis_size("y")
    down = [(i, i + 1) for i in range(rows - 1)]
    right = [(i, i + 1) for i in range(columns - 1)]
    above = lax.ppermute(u[-1:], "x", down)
    below = lax.ppermute(u[:1], "x", [(j, i) for i, j in down])
    left = 0 * u[:, :1]
    after = lax.ppermute(u[:, :1], "y", [(j, i) for i, j in right])
    tall = jnp.concatenate([above, u, below], 0)
    broad = jnp.concatenate([left, u, after], 1)
    return 4 * u - tall[:-2] - tall[2:] - broad[:, :-2] - broad[:, 2:]


def modes_(n):
    return np.linalg.eigh(2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))


def solve_(r):
    (rows, V), (columns, W) = (modes_(n) for n in r.shape)
    V, W = V.astype(np.float32), W.astype(np.float32)
    return V @ (V.T @ r @ W / (rows[:, None] + columns).astype(np.float32)) @ W.T


def pcg(f):
    def body(f):
        def dot(a, b):
            return lax.psum(jnp.sum(a * b), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_(residual)
        old = dot(residual, direction)
        for _ in range(4):
            product = halos_(direction)
            length = old / dot(direction, product)
            u = u + length * direction
            residual = residual - length * product
            z = solve_(residual)
            new = dot(residual, z)
            direction = z + new / old * direction
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(steps, exchanges):
        return steps * (exchanges * (latency + halo / bandwidth) + 2 * np.log2(devices) * latency)

    return min(counts, key=lambda name: seconds(*counts[name]))


# %% a step takes as long as the longer of its halos and sums exercise="10.10" score=0.6667 diagnoses=["the-longer-alone"] near=["only-exchanges", "bytes-ignored"]
def halos_(u):
    rows, columns = lax.axis_size("x"), lax.axis_size("y")
    down = [(i, i + 1) for i in range(rows - 1)]
    right = [(i, i + 1) for i in range(columns - 1)]
    above = lax.ppermute(u[-1:], "x", down)
    below = lax.ppermute(u[:1], "x", [(j, i) for i, j in down])
    left = lax.ppermute(u[:, -1:], "y", right)
    after = lax.ppermute(u[:, :1], "y", [(j, i) for i, j in right])
    tall = jnp.concatenate([above, u, below], 0)
    broad = jnp.concatenate([left, u, after], 1)
    return 4 * u - tall[:-2] - tall[2:] - broad[:, :-2] - broad[:, 2:]


def modes_(n):
    return np.linalg.eigh(2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))


def solve_(r):
    (rows, V), (columns, W) = (modes_(n) for n in r.shape)
    V, W = V.astype(np.float32), W.astype(np.float32)
    return V @ (V.T @ r @ W / (rows[:, None] + columns).astype(np.float32)) @ W.T


def pcg(f):
    def body(f):
        def dot(a, b):
            return lax.psum(jnp.sum(a * b), ("x", "y"))

        u, residual = jnp.zeros_like(f), f
        direction = solve_(residual)
        old = dot(residual, direction)
        for _ in range(4):
            product = halos_(direction)
            length = old / dot(direction, product)
            u = u + length * direction
            residual = residual - length * product
            z = solve_(residual)
            new = dot(residual, z)
            direction = z + new / old * direction
            old = new
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def seconds(steps, exchanges):
        return steps * max(exchanges * (latency + halo / bandwidth), 2 * np.log2(devices) * latency)

    return min(counts, key=lambda name: seconds(*counts[name]))


# %% never subtracts exercise="10.7" score=0.5 diagnoses=["nothing-subtracted", "not-counted-yet"] near=["lu: averaged", "multipliers-missing"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / pivot[k]
            below = rows > k
            new = A - 0 * factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% divides by a size exercise="10.7" score=0.5 diagnoses=["absolute-value", "not-counted-yet"] near=["multiples-undivided"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / jnp.abs(pivot[k])
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% multiples from row k exercise="10.7" score=0.5 diagnoses=["multiples-from-the-row", "not-counted-yet"] near=["absolute-value"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = pivot[rows] / pivot[k]
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% the sum of a device's rows exercise="10.7" score=0.5 diagnoses=["sum-of-its-rows", "not-counted-yet"] near=["numbers-of-the-block", "averaged-over-rows"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows // m == k // m)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / pivot[k]
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% rows from 0 on each device, each with its own number exercise="10.7" score=0.5 diagnoses=["numbers-of-the-block", "not-counted-yet"] near=["numbered-in-turn"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / pivot[k]
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% times the diagonal exercise="10.7" score=0.5 diagnoses=["multiplied", "not-counted-yet"] near=["divided-twice"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / pivot[k]
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x * LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% the forward loop from 1 exercise="10.7" score=0.5 diagnoses=["forward-begins-late", "not-counted-yet"] near=["first-left-out"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / pivot[k]
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(1, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% the multiples divided twice exercise="10.8" score=0 diagnoses=["multiples-divided-twice", "not-counted-yet"] near=["multiples-undivided"]
def cyclic_lu(A):
    def body(A):
        m, _, n = A.shape
        A = A[:, 0]
        p, d = lax.axis_size("x"), lax.axis_index("x")
        rows = jnp.arange(m) * p + d
        for k in range(n):
            i = k // p
            pivot = lax.psum(jnp.where(d == k % p, A[i, k:], 0), "x")
            part = A[i:, k:]
            factor = part[:, 0] / pivot[0] / pivot[0]
            low = rows[i:] > k
            new = part - factor[:, None] * pivot
            new = new.at[:, 0].set(factor)
            A = A.at[i:, k:].set(jnp.where(low[:, None], new, part))
        return A[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% nothing is subtracted exercise="10.8" score=0 diagnoses=["nothing-subtracted", "not-counted-yet"] near=["nothing-done"]
def cyclic_lu(A):
    def body(A):
        m, _, n = A.shape
        A = A[:, 0]
        p, d = lax.axis_size("x"), lax.axis_index("x")
        rows = jnp.arange(m) * p + d
        for k in range(n):
            i = k // p
            pivot = lax.psum(jnp.where(d == k % p, A[i, k:], 0), "x")
            part = A[i:, k:]
            factor = part[:, 0] / pivot[0]
            low = rows[i:] > k
            new = part - 0 * factor[:, None] * pivot
            new = new.at[:, 0].set(factor)
            A = A.at[i:, k:].set(jnp.where(low[:, None], new, part))
        return A[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% multiples one percent too large exercise="10.7" score=0.5 diagnoses=["values", "not-counted-yet"] near=["added", "absolute-value", "multiples-from-the-row", "sum-of-its-rows", "upper-part-of-the-block", "multiples-divided-twice"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / pivot[k]
            below = rows > k
            new = A - factor[:, None] * 1.01 * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% row k as float16 exercise="10.7" score=0.5 diagnoses=["coarser-type", "not-counted-yet"] near=["values", "added"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(
                jnp.where((rows == k)[:, None], A, 0).sum(0).astype(jnp.float16), "x"
            ).astype(jnp.float32)
            factor = A[:, k] / pivot[k]
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% a number as bfloat16 exercise="10.7" score=0.5 diagnoses=["coarser-type", "not-counted-yet"] near=["values", "added", "forward-begins-late", "multiplied", "number-itself-too-back"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / pivot[k]
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum().astype(jnp.bfloat16), "x").astype(
                jnp.float32
            )
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% the lower triangle of each block exercise="10.7" score=0.5 diagnoses=["upper-part-of-the-block", "not-counted-yet"] near=["multipliers-missing", "nothing-subtracted"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / pivot[k]
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return jnp.tril(lax.fori_loop(0, A.shape[1], step, A), -1)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% divided by a size exercise="10.8" score=0 diagnoses=["absolute-value", "not-counted-yet"] near=["multiples-divided-twice"]
def cyclic_lu(A):
    def body(A):
        m, _, n = A.shape
        A = A[:, 0]
        p, d = lax.axis_size("x"), lax.axis_index("x")
        rows = jnp.arange(m) * p + d
        for k in range(n):
            i = k // p
            pivot = lax.psum(jnp.where(d == k % p, A[i, k:], 0), "x")
            part = A[i:, k:]
            factor = part[:, 0] / jnp.abs(pivot[0])
            low = rows[i:] > k
            new = part - factor[:, None] * pivot
            new = new.at[:, 0].set(factor)
            A = A.at[i:, k:].set(jnp.where(low[:, None], new, part))
        return A[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% multiples from row k exercise="10.8" score=0 diagnoses=["multiples-from-the-row", "not-counted-yet"] near=["multiples-undivided"]
def cyclic_lu(A):
    def body(A):
        m, _, n = A.shape
        A = A[:, 0]
        p, d = lax.axis_size("x"), lax.axis_index("x")
        rows = jnp.arange(m) * p + d
        for k in range(n):
            i = k // p
            pivot = lax.psum(jnp.where(d == k % p, A[i, k:], 0), "x")
            part = A[i:, k:]
            factor = pivot[jnp.clip(rows[i:] - k, 0)] / pivot[0]
            low = rows[i:] > k
            new = part - factor[:, None] * pivot
            new = new.at[:, 0].set(factor)
            A = A.at[i:, k:].set(jnp.where(low[:, None], new, part))
        return A[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% multiples one percent too large exercise="10.8" score=0 diagnoses=["values", "not-counted-yet"] near=["absolute-value", "multiples-from-the-row", "nothing-subtracted", "added", "multiples-divided-twice"]
def cyclic_lu(A):
    def body(A):
        m, _, n = A.shape
        A = A[:, 0]
        p, d = lax.axis_size("x"), lax.axis_index("x")
        rows = jnp.arange(m) * p + d
        for k in range(n):
            i = k // p
            pivot = lax.psum(jnp.where(d == k % p, A[i, k:], 0), "x")
            part = A[i:, k:]
            factor = part[:, 0] / pivot[0]
            low = rows[i:] > k
            new = part - 1.01 * factor[:, None] * pivot
            new = new.at[:, 0].set(factor)
            A = A.at[i:, k:].set(jnp.where(low[:, None], new, part))
        return A[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% number k itself, on the way back exercise="10.7" score=0.5 diagnoses=["number-itself-too-back", "not-counted-yet"] near=["number-itself-too"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / pivot[k]
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows <= k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% the multiples divided by the square exercise="10.7" score=0.5 diagnoses=["multiples-divided-twice", "not-counted-yet"] near=["multiples-undivided", "absolute-value"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / pivot[k] ** 2
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% nan_to_num exercise="10.5" score=0 diagnoses=["divided-by-zero", "not-counted-yet"] near=["mean-kept", "imaginary-part"]
def poisson(f):
    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", split_axis=2, concat_axis=1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", split_axis=1, concat_axis=0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        k = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        b = jnp.nan_to_num(b / k)
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", split_axis=0, concat_axis=1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", split_axis=1, concat_axis=2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    k0, k1, k2 = map(wave_numbers, f.shape)
    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k0, k1, k2
    )


# %% the imaginary part exercise="10.5" score=0 diagnoses=["imaginary-part", "not-counted-yet"] near=["divided-by-zero"]
def poisson(f):
    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", split_axis=2, concat_axis=1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", split_axis=1, concat_axis=0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        k = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        b = jnp.where(k == 0, 0, b / jnp.where(k == 0, 1, k))
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", split_axis=0, concat_axis=1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", split_axis=1, concat_axis=2, tiled=True)
        return jnp.fft.ifft(b, axis=2).imag

    k0, k1, k2 = map(wave_numbers, f.shape)
    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k0, k1, k2
    )


# %% the symbol of differences exercise="10.5" score=0 diagnoses=["differences", "not-counted-yet"] near=["with-2-pi", "one-number-zero"]
def poisson(f):
    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", split_axis=2, concat_axis=1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", split_axis=1, concat_axis=0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        k = sum(
            2 - 2 * jnp.cos(2 * jnp.pi * k / n)
            for k, n in zip((k0[:, None, None], k1[:, None], k2), f.shape)
        )
        b = jnp.where(k == 0, 0, b / jnp.where(k == 0, 1, k))
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", split_axis=0, concat_axis=1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", split_axis=1, concat_axis=2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    k0, k1, k2 = map(wave_numbers, f.shape)
    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k0, k1, k2
    )


# %% zero along dimension 0 exercise="10.5" score=0 diagnoses=["one-number-zero", "not-counted-yet"] near=["any-number-zero", "differences"]
def poisson(f):
    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", split_axis=2, concat_axis=1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", split_axis=1, concat_axis=0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        k = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        b = jnp.where(k0[:, None, None] == 0, 0, b / jnp.where(k == 0, 1, k))
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", split_axis=0, concat_axis=1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", split_axis=1, concat_axis=2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    k0, k1, k2 = map(wave_numbers, f.shape)
    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k0, k1, k2
    )


# %% each device ends with its own rows, cyclic exercise="10.8" score=0 diagnoses=["deadlock"]
def cyclic_lu(A):
    def body(A):
        m, _, n = A.shape
        A = A[:, 0]
        p, d = lax.axis_size("x"), lax.axis_index("x")
        rows = jnp.arange(m) * p + d
        columns = jnp.arange(n)

        def step(k, A):
            pivot = lax.psum(jnp.where(d == k % p, A[k // p], 0), "x")
            factor = A[:, k] / pivot[k]
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where((rows > k)[:, None], new, A)

        return lax.fori_loop(0, n - p + d, step, A)[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% a loop over a device's own rows below the pivot exercise="10.7" score=1 near=["deadlock"]
def numbers_of(mine):
    return lax.axis_index("x") * len(mine) + jnp.arange(len(mine))


def lu(A):
    def body(mine):
        numbers, columns = numbers_of(mine), jnp.arange(mine.shape[1])

        def step(k, mine):
            below = numbers > k
            row = lax.psum(jnp.where((numbers == k)[:, None], mine, 0).sum(0), "x")

            def eliminate(i, mine):
                multiple = mine[i, k] / row[k]
                less = mine[i] - multiple * jnp.where(columns > k, row, 0)
                return mine.at[i].set(less.at[k].set(multiple))

            return lax.fori_loop(len(mine) - below.sum(), len(mine), eliminate, mine)

        return lax.fori_loop(0, mine.shape[1] - 1, step, mine)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(mine, b):
        n, numbers = mine.shape[1], numbers_of(mine)

        def forward(k, y):
            known = lax.psum(jnp.where(numbers == k, y, 0).sum(), "x")
            return y - jnp.where(numbers > k, mine[:, k] * known, 0)

        def back(step, x):
            k = n - 1 - step
            known = lax.psum(jnp.where(numbers == k, x / mine[:, k], 0).sum(), "x")
            less = x - jnp.where(numbers < k, mine[:, k] * known, 0)
            return jnp.where(numbers == k, known, less)

        return lax.fori_loop(0, n, back, lax.fori_loop(0, n, forward, b))

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% each device ends its loop with its own rows exercise="10.7" score=0.5 diagnoses=["deadlock"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / pivot[k]
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, (lax.axis_index("x") + 1) * m, step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, k] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% column 0 in each step of the forward substitution exercise="10.7" score=0.5 diagnoses=["first-column-alone", "not-counted-yet"] near=["numbers-above"]
def lu(A):
    def body(A):
        m = A.shape[0]
        rows = m * lax.axis_index("x") + jnp.arange(m)
        columns = jnp.arange(A.shape[1])

        def step(k, A):
            pivot = lax.psum(jnp.where((rows == k)[:, None], A, 0).sum(0), "x")
            factor = A[:, k] / pivot[k]
            below = rows > k
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where(below[:, None], new, A)

        return lax.fori_loop(0, A.shape[1], step, A)

    return jax.shard_map(body, in_specs=P("x"), out_specs=P("x"))(A)


def substitute(LU, b):
    def body(LU, b):
        m, n = LU.shape
        rows = m * lax.axis_index("x") + jnp.arange(m)

        def forward(k, y):
            value = lax.psum(jnp.where(rows == k, y, 0).sum(), "x")
            return jnp.where(rows > k, y - LU[:, 0] * value, y)

        def back(i, x):
            k = n - 1 - i
            x = jnp.where(rows == k, x / LU[:, k], x)
            value = lax.psum(jnp.where(rows == k, x, 0).sum(), "x")
            return jnp.where(rows < k, x - LU[:, k] * value, x)

        y = lax.fori_loop(0, n, forward, b)
        return lax.fori_loop(0, n, back, y)

    return jax.shard_map(body, in_specs=(P("x"), P("x")), out_specs=P("x"))(LU, b)


# %% positions counted by a device's rows exercise="10.8" score=0 diagnoses=["position-by-rows", "not-counted-yet"] near=["row-of-blocks", "first-rows-alone"]
def cyclic_lu(A):
    def body(A):
        m, _, n = A.shape
        A = A[:, 0]
        p, d = lax.axis_size("x"), lax.axis_index("x")
        rows = jnp.arange(m) * p + d
        for k in range(n):
            i = k // m
            pivot = lax.psum(jnp.where(d == k % p, A[i, k:], 0), "x")
            part = A[i:, k:]
            factor = part[:, 0] / pivot[0]
            low = rows[i:] > k
            new = part - factor[:, None] * pivot
            new = new.at[:, 0].set(factor)
            A = A.at[i:, k:].set(jnp.where(low[:, None], new, part))
        return A[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% the row of a layout in blocks broadcast exercise="10.8" score=0 diagnoses=["row-of-blocks", "not-counted-yet"] near=["position-by-rows", "rows-of-a-device-together"]
def cyclic_lu(A):
    def body(A):
        m, _, n = A.shape
        A = A[:, 0]
        p, d = lax.axis_size("x"), lax.axis_index("x")
        rows = jnp.arange(m) * p + d
        for k in range(n):
            i = k // p
            pivot = lax.psum(jnp.where(d == k // m, A[k % m, k:], 0), "x")
            part = A[i:, k:]
            factor = part[:, 0] / pivot[0]
            low = rows[i:] > k
            new = part - factor[:, None] * pivot
            new = new.at[:, 0].set(factor)
            A = A.at[i:, k:].set(jnp.where(low[:, None], new, part))
        return A[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% as many steps as a device has rows, cyclic exercise="10.8" score=0 diagnoses=["first-rows-alone", "not-counted-yet"] near=["last-round-missing"]
def cyclic_lu(A):
    def body(A):
        m, _, n = A.shape
        A = A[:, 0]
        p, d = lax.axis_size("x"), lax.axis_index("x")
        rows = jnp.arange(m) * p + d
        columns = jnp.arange(n)

        def step(k, A):
            pivot = lax.psum(jnp.where(d == k % p, A[k // p], 0), "x")
            factor = A[:, k] / pivot[k]
            new = A - factor[:, None] * jnp.where(columns > k, pivot, 0)
            new = new.at[:, k].set(factor)
            return jnp.where((rows > k)[:, None], new, A)

        return lax.fori_loop(0, m, step, A)[:, None]

    return jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)


# %% rows of a device together in the result exercise="10.8" score=0 diagnoses=["rows-of-a-device-together", "replicated", "added-by-the-compiler", "all-gather over parts of axes", "not-counted-yet"] near=["in-blocks"]
def cyclic_lu(A):
    def body(A):
        m, _, n = A.shape
        A = A[:, 0]
        p, d = lax.axis_size("x"), lax.axis_index("x")
        rows = jnp.arange(m) * p + d
        for k in range(n):
            i = k // p
            pivot = lax.psum(jnp.where(d == k % p, A[i, k:], 0), "x")
            part = A[i:, k:]
            factor = part[:, 0] / pivot[0]
            low = rows[i:] > k
            new = part - factor[:, None] * pivot
            new = new.at[:, 0].set(factor)
            A = A.at[i:, k:].set(jnp.where(low[:, None], new, part))
        return A[:, None]

    R = jax.shard_map(body, in_specs=P(None, "x"), out_specs=P(None, "x"))(A)
    return R.transpose(1, 0, 2).reshape(A.shape)


# %% the first coefficient zero for all y exercise="10.5" score=0 diagnoses=["some-corners", "not-counted-yet"] near=["every-corner"]
def poisson(f):
    def body(b, k0, k1, k2):
        b = jnp.fft.fft(b, axis=2)
        b = lax.all_to_all(b, "y", split_axis=2, concat_axis=1, tiled=True)
        b = jnp.fft.fft(b, axis=1)
        b = lax.all_to_all(b, "x", split_axis=1, concat_axis=0, tiled=True)
        b = jnp.fft.fft(b, axis=0)
        k = k0[:, None, None] ** 2 + k1[:, None] ** 2 + k2**2
        b = jnp.where(
            (lax.axis_index("x") == 0) & (jnp.arange(b.size).reshape(b.shape) == 0),
            0,
            b / jnp.where(k == 0, 1, k),
        )
        b = jnp.fft.ifft(b, axis=0)
        b = lax.all_to_all(b, "x", split_axis=0, concat_axis=1, tiled=True)
        b = jnp.fft.ifft(b, axis=1)
        b = lax.all_to_all(b, "y", split_axis=1, concat_axis=2, tiled=True)
        return jnp.fft.ifft(b, axis=2).real

    k0, k1, k2 = map(wave_numbers, f.shape)
    return jax.shard_map(body, in_specs=(P("x", "y"), P(), P("x"), P("y")), out_specs=P("x", "y"))(
        f, k0, k1, k2
    )


# %% two exchanges in MB exercise="10.1" score=0.8333 diagnoses=["in-mb"] near=["in-gib"]
_r = communication(jax.jit(jnp.fft.fftn), volume)
audit = {
    "spec": P("x", "y"),
    "kind": "all-gather",
    "bytes": 40960,
    "share": 1.0,
    "larger": 8.125,
    "enough": 4.194,
    "helps": "more memory",
}


# %% the pairs of x over y exercise="10.9" score=0 diagnoses=["wrong-pairs"]
def five(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(n - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    tall = jnp.concatenate([above, u, below], 0)
    wide = jnp.concatenate([left, u, right], 1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def stencil(u):
    return jax.shard_map(five, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% it wraps around along y exercise="10.9" score=0 diagnoses=["wraps-around", "not-counted-yet"] near=["wrong-pairs"]
def five(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, (i + 1) % m) for i in range(m)])
    right = lax.ppermute(u[:, :1], "y", [((i + 1) % m, i) for i in range(m)])
    tall = jnp.concatenate([above, u, below], 0)
    wide = jnp.concatenate([left, u, right], 1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def stencil(u):
    return jax.shard_map(five, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% two neighbours added exercise="10.9" score=0 diagnoses=["other-factors", "not-counted-yet"] near=["other-sign"]
def halo(u):
    def pass_on(edge, axis, by):
        n = lax.axis_size(axis)
        return lax.ppermute(edge, axis, [(i, i + by) for i in range(n) if 0 <= i + by < n])

    above, below = pass_on(u[-1:], "x", 1), pass_on(u[:1], "x", -1)
    left, right = pass_on(u[:, -1:], "y", 1), pass_on(u[:, :1], "y", -1)
    tall = jnp.concatenate([above, u, below], 0)
    wide = jnp.concatenate([left, u, right], 1)
    return 4 * u + tall[:-2] + tall[2:] - wide[:, :-2] - wide[:, 2:]


def stencil(u):
    return jax.shard_map(halo, in_specs=P("x", "y"), out_specs=P("x", "y"))(u)


# %% a message more for a sum exercise="10.10" score=0.6667 diagnoses=["one-message-more"] near=["half-of-the-sums"]
import math


def five_point_block(u):
    rows, columns = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(rows - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(rows - 1)])
    before = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(columns - 1)])
    after = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(columns - 1)])
    tall = jnp.concatenate([above, u, below])
    wide = jnp.concatenate([before, u, after], axis=1)
    return 4 * u - tall[:-2] - tall[2:] - wide[:, :-2] - wide[:, 2:]


def pcg(f):
    def dot(a, b):
        return lax.psum(jnp.sum(a * b), ("x", "y"))

    def body(f):
        residual = f
        direction = solve_rectangle(residual)
        product = dot(residual, direction)
        u = jnp.zeros_like(f)
        for _ in range(4):
            image = five_point_block(direction)
            length = product / dot(direction, image)
            u = u + length * direction
            residual = residual - length * image
            z = solve_rectangle(residual)
            last, product = product, dot(residual, z)
            direction = z + product / last * direction
        return u

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)


def winner(counts, devices, halo, latency, bandwidth):
    def time(name):
        steps, exchanges = counts[name]
        return steps * (
            exchanges * (latency + halo / bandwidth) + 2 * devices.bit_length() * latency
        )

    return min(counts, key=time)


# %% from a solution without a residual exercise="10.10" score=0 diagnoses=["not-a-number", "not-counted-yet", "unanswered"]
def multiply(u):
    n, m = lax.axis_size("x"), lax.axis_size("y")
    above = lax.ppermute(u[-1:], "x", [(i, i + 1) for i in range(n - 1)])
    below = lax.ppermute(u[:1], "x", [(i + 1, i) for i in range(n - 1)])
    left = lax.ppermute(u[:, -1:], "y", [(i, i + 1) for i in range(m - 1)])
    right = lax.ppermute(u[:, :1], "y", [(i + 1, i) for i in range(m - 1)])
    rows, columns = jnp.concatenate([above, u, below]), jnp.concatenate([left, u, right], 1)
    return 4 * u - rows[:-2] - rows[2:] - columns[:, :-2] - columns[:, 2:]


def pcg(f):
    def body(f):
        def dot(u, v):
            return lax.psum(jnp.vdot(u, v), ("x", "y"))

        def step(_, state):
            u, r, p, square = state
            q = multiply(p)
            length = square / dot(p, q)
            u, r = u + length * p, r - length * q
            z = solve_rectangle(r)
            new = dot(r, z)
            return u, r, z + new / square * p, new

        r = f - f
        z = solve_rectangle(r)
        return lax.fori_loop(0, 4, step, (solve_rectangle(f), r, z, dot(r, z)))[0]

    return jax.shard_map(body, in_specs=P("x", "y"), out_specs=P("x", "y"))(f)
