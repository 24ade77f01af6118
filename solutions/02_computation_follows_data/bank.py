# %% [markdown]
# Known answers to the exercises of notebook 02. A cell stands below what the exercise's cell was
# handed out with, so an answer that raises did not finish.

# %% asked of JAX itself exercise="2.1" score=1
operations = {
    "jnp.sin(x)": lambda x, v: jnp.sin(x),
    "x + v": lambda x, v: x + v,
    "x.T": lambda x, v: x.T,
    "x[None]": lambda x, v: x[None],
    "x.reshape(4, 4, 16)": lambda x, v: x.reshape(4, 4, 16),
    "x[::-1]": lambda x, v: x[::-1],
}
v = jax.device_put(jnp.arange(16.0), NamedSharding(grid, P("y")))
layouts = {name: jax.jit(f)(block, v).sharding.spec for name, f in operations.items()}
communicates = {
    name: bool(communication(f, block, v).collectives) for name, f in operations.items()
}

# %% a transpose communicates, and keeps its layout exercise="2.1" score=0.7333333333 diagnoses=["not-turned", "transpose-moves"] near=["flip-turns", "flip-stays", "elementwise-moves"]
layouts = {
    "jnp.sin(x)": P("x", "y"),
    "x + v": P("x", "y"),
    "x.T": P("x", "y"),
    "x[None]": P(None, "x", "y"),
    "x.reshape(4, 4, 16)": P("x", None, "y"),
    "x[::-1]": P("x", "y"),
}
communicates = {name: name in ("x.T", "x[::-1]") for name in layouts}

# %% the layout stays, so nothing moves exercise="2.1" score=0 diagnoses=["not-turned", "not-shifted", "flip-stays"] naive=true near=["turned-for-nothing", "transpose-moves", "other-prediction"]
layouts = dict.fromkeys(layouts, P("x", "y"))
communicates = dict.fromkeys(layouts, False)

# %% the smaller operand decides, the inner part is cut exercise="2.1" score=0.5777777778 diagnoses=["smaller-wins", "inner-part", "broadcast-moves", "split-moves"] near=["one-each", "not-turned", "not-shifted", "rows-lost"]
layouts = {
    "jnp.sin(x)": P("x", "y"),
    "x + v": P("y"),
    "x.T": P("y", "x"),
    "x[None]": P(None, "x", "y"),
    "x.reshape(4, 4, 16)": P(None, "x", "y"),
    "x[::-1]": P("x", "y"),
}
communicates = {name: name in ("x + v", "x.reshape(4, 4, 16)", "x[::-1]") for name in layouts}

# %% everything communicates exercise="2.1" score=0 diagnoses=["axis-lost", "one-each", "elementwise-moves", "broadcast-moves", "transpose-moves", "split-moves"] near=["smaller-wins", "flip-stays"]
layouts = dict.fromkeys(layouts, P(None, "y"))
communicates = dict.fromkeys(layouts, True)

# %% a flip taken for a transpose, and forms that are none exercise="2.1" score=0 diagnoses=["other-form", "flip-turns"] near=["turned-for-nothing"]
layouts = dict.fromkeys(layouts, "P('x', 'y')") | {"x[::-1]": P("y", "x")}
communicates = dict.fromkeys(communicates, "no")

# %% a flip that gathers, and numbers for words exercise="2.1" score=0 diagnoses=["layout-lost", "other-form"]
layouts = dict.fromkeys(layouts, P())
communicates = dict.fromkeys(communicates, 0)

# %% half of it filled in exercise="2.1" score=0 diagnoses=["unanswered"]
layouts["jnp.sin(x)"] = P("x", "y")

# %% everything turned exercise="2.1" score=0 diagnoses=["turned-for-nothing", "other-prediction", "flip-turns", "unanswered"] near=["not-turned", "inner-part", "layout-lost"]
layouts = dict.fromkeys(layouts, P("y", "x"))

# %% the new dimension at the end exercise="2.1" score=0.4666666667 diagnoses=["not-shifted", "broadcast-moves", "split-moves"] near=["inner-part", "smaller-wins", "elementwise-moves"]
layouts = {
    "jnp.sin(x)": P("x", "y"),
    "x + v": P("x", "y"),
    "x.T": P("y", "x"),
    "x[None]": P("x", "y", None),
    "x.reshape(4, 4, 16)": P("x", "y", None),
    "x[::-1]": P("x", "y"),
}
communicates = {name: name in ("x + v", "x.reshape(4, 4, 16)", "x[::-1]") for name in layouts}

# %% only one axis cuts anything exercise="2.1" score=0.5 diagnoses=["axis-lost"] near=["layout-lost", "one-each", "not-turned", "not-shifted"]
layouts = dict.fromkeys(layouts, P("x"))
communicates |= dict.fromkeys(layouts, False) | {"x[::-1]": True}

# %% specs with all their entries exercise="2.1" score=1 near=["not-shifted", "turned-for-nothing", "broadcast-moves", "split-moves", "other-form"]
layouts["jnp.sin(x)"] = block.sharding
layouts["x + v"] = on(grid, "x", "y")
layouts["x.T"] = P("y", "x")
layouts["x[None]"] = P(None, ("x",), "y")
layouts["x.reshape(4, 4, 16)"] = P(("x",), None, ("y",))
layouts["x[::-1]"] = block.sharding.spec
communicates = {name: name == "x[::-1]" for name in layouts}

# %% three axes of two exercise="2.1" score=0 diagnoses=["other-prediction", "unanswered"] near=["axis-lost", "layout-lost"]
layouts = dict.fromkeys(layouts, P("x", "y", "x"))


# %% one axis for two dimensions exercise="2.1" score=0.3333333333 diagnoses=["axis-twice", "unanswered"] near=["inner-part", "other-prediction"]
layouts["jnp.sin(x)"] = P("x", "y")
layouts["x + v"] = P("x", "y")
layouts["x.T"] = P("y", "x")
layouts["x[None]"] = P(None, "x", "y")
layouts["x.reshape(4, 4, 16)"] = P("x", "x", "y")
layouts["x[::-1]"] = P("x", "y")

# %% the middle dimension cut, and the last by x exercise="2.1" score=0.3333333333 diagnoses=["other-prediction", "unanswered"] near=["axis-twice"]
layouts["jnp.sin(x)"] = P("x", "y")
layouts["x + v"] = P("x", "y")
layouts["x.T"] = P("y", "x")
layouts["x[None]"] = P(None, "x", "y")
layouts["x.reshape(4, 4, 16)"] = P(None, "y", "x")
layouts["x[::-1]"] = P("x", "y")

# %% other meshes, other order exercise="2.2" score=1
line = jax.make_mesh((8,), ("all",), axis_types=(AxisType.Explicit,))
quiet = jax.device_put(x, NamedSharding(line, P(None, "all")))
whole = NamedSharding(line, P("all"))
bytes_reduced = {
    "x.mean(0)": communication(lambda x: x.mean(0), block).bytes,
    "x.mean(1)": communication(lambda x: x.mean(1), block).bytes,
}

# %% the two exchanged exercise="2.2" score=0 diagnoses=["all-reduce over x, y", "split-dimension", "other-axis"] near=["repeated-work", "whole-result"]
quiet = on(grid, ("x", "y"))
whole = on(grid, None, ("x", "y"))
bytes_reduced = {"x.mean(0)": 16, "x.mean(1)": 32}

# %% the blocks as they are exercise="2.2" score=0 diagnoses=["all-reduce over x", "split-dimension", "whole-result"] naive=true near=["before-summing"]
quiet = block
whole = block
bytes_reduced = {"x.mean(0)": 64, "x.mean(1)": 64}

# %% one axis, the other copies exercise="2.2" score=0 diagnoses=["repeated-work", "elements"] near=["all-reduce", "split-dimension", "on-the-wires"]
quiet = on(grid, None, "x")
whole = on(grid, "x")
bytes_reduced = {"x.mean(0)": 8, "x.mean(1)": 4}

# %% the whole block is added up exercise="2.2" score=0.6666666667 diagnoses=["before-summing"] near=["all-devices", "elements"]
quiet = on(grid, None, ("y", "x"))
whole = on(grid, ("x", "y"), None)
bytes_reduced = {"x.mean(0)": 128, "x.mean(1)": 128}

# %% copies everywhere exercise="2.2" score=0 diagnoses=["repeated-work", "unanswered"] near=["one-device"]
quiet = on(grid)
whole = on(grid)

# %% never placed, and numbers from the air exercise="2.2" score=0 diagnoses=["one-device", "other-prediction"] near=["elements", "nothing-reduced"]
quiet = x
whole = x
bytes_reduced = {"x.mean(0)": 1, "x.mean(1)": 2}

# %% specs without a mesh exercise="2.2" score=0 diagnoses=["spec-alone", "unanswered"]
quiet = P(None, ("x", "y"))
whole = P(("x", "y"))

# %% half of the devices exercise="2.2" score=0.3333333333 diagnoses=["devices-unused", "unanswered"]
half = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
quiet = on(half, None, "x")
whole = on(grid, ("y", "x"))

# %% bytes as a ring sends them exercise="2.2" score=0.6666666667 diagnoses=["on-the-wires"] near=["other-axis", "before-summing"]
quiet = on(grid, None, ("x", "y"))
whole = on(grid, ("x", "y"))
bytes_reduced = {"x.mean(0)": 2 * 3 * 32 // 4, "x.mean(1)": 2 * 16 // 2}

# %% bytes of all devices together exercise="2.2" score=0.6666666667 diagnoses=["all-devices", "before-summing"] near=["whole-result"]
quiet = on(grid, None, ("x", "y"))
whole = on(grid, ("x", "y"))
bytes_reduced = {"x.mean(0)": 8 * 32, "x.mean(1)": 8 * 16}

# %% nothing is reduced exercise="2.2" score=0 diagnoses=["one-device", "nothing-reduced"] near=["other-prediction", "repeated-work"]
quiet = whole = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("x",)), P())
bytes_reduced = {"x.mean(0)": 0, "x.mean(1)": 0}

# %% meshes of eight in a line exercise="2.3" score=1
line = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
into_blocks = [on(grid, "x", None), on(grid, None, "y")]
into_rows = on(line, "i"), on(line)
into_columns = (on(line, None, None), on(line, None, "i"))

# %% blocks times blocks exercise="2.3" score=0 diagnoses=["all-gather over x"] naive=true near=["all-reduce", "replicated"]
into_blocks = on(grid, "x", "y"), on(grid, "x", "y")
into_rows = on(grid, ("x", "y")), on(grid, "x")
into_columns = on(grid, None, "x"), on(grid, None, "x")

# %% the contracted dimension cut exercise="2.3" score=0.3333333333 diagnoses=["all-reduce over x", "all-gather over y"]
into_blocks = on(grid, None, "x"), on(grid, "x")
into_rows = on(grid, ("x", "y")), on(grid)
into_columns = on(grid, "x", "y"), on(grid)

# %% copies of everything exercise="2.3" score=0 diagnoses=["replicated"] near=["replicated-dimension", "all-gather"]
into_blocks = into_rows = into_columns = on(grid), on(grid)

# %% one mesh Explicit, the other Auto exercise="2.3" score=0 diagnoses=["fails"]
into_blocks = on(explicit_grid, "x"), on(grid, None, "y")
into_rows = on(explicit_grid, ("x", "y")), on(grid)
into_columns = on(explicit_grid), on(grid, None, ("x", "y"))

# %% A and B exchanged exercise="2.3" score=0 diagnoses=["transposed"] near=["grid", "device-order", "pair-exchanged"]
into_blocks = on(grid, "y"), on(grid, None, "x")
into_rows = on(grid), on(grid, None, ("x", "y"))
into_columns = on(grid, ("x", "y")), on(grid)

# %% one sharding for both exercise="2.3" score=0 diagnoses=["number-of-shardings", "unanswered"] near=["fails"]
into_blocks = on(grid, "x", "y")

# %% specs, and a pair half filled in exercise="2.3" score=0 diagnoses=["spec-alone", "type", "unanswered"]
into_blocks = P("x"), P(None, "y")
into_rows = on(grid, ("x", "y")), ...

# %% on meshes of other devices exercise="2.3" score=0.3333333333 diagnoses=["different-devices", "replicated-dimension"] near=["fails", "replicated", "transposed", "number-of-shardings"]
backwards = Mesh(np.array(jax.devices())[::-1].reshape(4, 2), ("x", "y"))
into_blocks = on(grid, "x"), on(backwards, None, "y")
into_rows = on(grid, "x"), on(grid)
into_columns = on(grid), on(grid, None, ("x", "y"))

# %% the axes exchanged within each tuple exercise="2.3" score=0 diagnoses=["grid", "device-order"] near=["transposed", "replicated-dimension"]
into_blocks = on(grid, ("x", "y")), on(grid)
into_rows = on(grid, ("y", "x")), on(grid)
into_columns = on(grid), on(grid, None, ("y", "x"))

# %% a quarter of the work each exercise="2.3" score=0.3333333333 diagnoses=["replicated-dimension"] near=["replicated", "grid"]
into_blocks = on(grid, "x"), on(grid, None, "y")
into_rows = on(grid, "x"), on(grid)
into_columns = on(grid), on(grid, None, "x")

# %% each pair the other way round exercise="2.3" score=0 diagnoses=["pair-exchanged"] near=["all-gather", "transposed"]
into_blocks = on(grid, None, "y"), on(grid, "x")
into_rows = on(grid), on(grid, ("x", "y"))
into_columns = on(grid, None, ("x", "y")), on(grid)

# %% on a mesh of the devices in another order, from and to exercise="2.3" score=0 diagnoses=["grid", "device-order"] near=["different-devices"]
backwards = Mesh(np.array(jax.devices())[::-1].reshape(2, 4), ("x", "y"))
into_blocks = on(backwards, "x"), on(backwards, None, "y")
into_rows = on(backwards, ("x", "y")), on(backwards)
into_columns = on(backwards), on(backwards, None, ("x", "y"))


# %% asked of the compiler exercise="2.4" score=1
def row(*specs):
    a, b = (jax.device_put(M, NamedSharding(grid, s)) for M, s in zip((A, B), specs, strict=True))
    return communication(jnp.matmul, a, b)


for name in kinds:
    found = row(*(eval(spec) for spec in name.split(" @ "))).collectives
    kinds[name] = found[0].kind if found else "nothing"
    sizes[name] = sum(c.bytes for c in found)

# %% a gather wherever something is cut exercise="2.4" score=0 diagnoses=["moves-for-nothing", "gathered-not-added", "gathers-instead", "other-prediction"] naive=true near=["added-not-gathered", "thought-quiet", "elements"]
kinds = dict.fromkeys(kinds, "all-gather")
sizes = dict.fromkeys(kinds, 100)

# %% a sum wherever something is cut exercise="2.4" score=0 diagnoses=["adds-for-nothing", "added-not-gathered", "whole-for-nothing", "whole-array", "other-prediction", "gathers-instead"] naive=true near=["gathered-not-added", "moves-for-nothing", "both-whole"]
kinds = dict.fromkeys(kinds, "all-reduce")
sizes = dict.fromkeys(kinds, 1024)

# %% nothing moves anywhere, sizes of what is sent exercise="2.4" score=0.1111111111 diagnoses=["thought-quiet", "sent-not-kept", "own-share", "before-the-gather", "only-other"] naive=true near=["thought-it-quiet", "only-one", "adds-for-nothing", "gathered-on-the-wires"]
kinds = dict.fromkeys(kinds, "nothing")
sizes = {
    "P('x') @ P(None, 'y')": 0,
    "P('x') @ P('x')": 256,
    "P(None, 'x') @ P('x')": 256,
    "P('x', 'y') @ P('y')": 256,
    "P('x', 'y') @ P(None, 'y')": 128,
    "P('x', 'y') @ P('x', 'y')": 256,
    "P('x') @ P('y')": 256,
    "P(None, 'x') @ P(None, 'x')": 256,
}

# %% elements in place of bytes, and another spelling exercise="2.4" score=0.5 diagnoses=["sent-not-kept", "own-share", "elements"] near=["only-other", "other-prediction", "whole-array", "thought-quiet"]
words = "Nothing all_gather AllReduce all-reduce AllGather all_gather allreduce ALL-GATHER".split()
kinds = dict(zip(kinds, words))
sizes = dict(zip(sizes, [0, 256, 256, 64, 64, 192, 64, 256]))

# %% one array of the two forgotten exercise="2.4" score=0.8333333333 diagnoses=["only-one"] near=["only-other", "both-whole", "gathers-instead", "own-share", "sent-not-kept"]
kinds = dict(
    zip(
        kinds,
        "nothing all-gather all-reduce all-reduce all-gather all-gather all-reduce all-gather".split(),
    )
)
sizes = dict(zip(kinds, [0, 1024, 1024, 256, 256, 512, 256, 1024]))

# %% bytes as a ring sends them exercise="2.4" score=0.6111111111 diagnoses=["gathered-on-the-wires", "reduced-on-the-wires", "before-the-gather", "only-one"] near=["sent-not-kept", "own-share", "all-devices"]
kinds = dict(
    zip(
        kinds,
        "nothing all-gather all-reduce all-reduce all-gather all-gather all-reduce all-gather".split(),
    )
)
sizes = dict(zip(kinds, [0, 768, 1536, 256, 128, 512, 256, 768]))

# %% bytes of all devices together exercise="2.4" score=0.5 diagnoses=["all-devices"] near=["whole-array", "both-whole", "before-the-gather", "reduced-on-the-wires"]
kinds = dict(
    zip(
        kinds,
        "nothing all-gather all-reduce all-reduce all-gather all-gather all-reduce all-gather".split(),
    )
)
sizes = dict(zip(kinds, [0, 8192, 8192, 2048, 2048, 6144, 2048, 8192]))

# %% every array whole exercise="2.4" score=0.4166666667 diagnoses=["gathers-instead", "whole-for-nothing", "whole-array", "both-whole"] near=["gathered-not-added", "for-nothing", "only-one", "all-devices", "moves-for-nothing"]
kinds = dict(
    zip(
        kinds,
        "nothing all-gather all-reduce all-reduce all-gather all-gather all-gather all-gather".split(),
    )
)
sizes = dict(zip(kinds, [1024, 1024, 1024, 1024, 1024, 2048, 1024, 1024]))

# %% nothing and 0 in every cell exercise="2.4" score=0 diagnoses=["thought-quiet", "thought-it-quiet"] naive=true near=["for-nothing", "adds-for-nothing", "moves-for-nothing", "other-prediction"]
kinds = dict.fromkeys(kinds, "nothing")
sizes = dict.fromkeys(kinds, 0)

# %% 256 bytes by an all-reduce in every cell exercise="2.4" score=0 diagnoses=["adds-for-nothing", "added-not-gathered", "for-nothing", "sent-not-kept", "own-share", "only-other"] naive=true near=["whole-for-nothing", "gathered-not-added", "elements", "gathers-instead", "before-the-gather"]
kinds = dict.fromkeys(kinds, "all-reduce")
sizes = dict.fromkeys(kinds, 256)

# %% everything moved onto all eight, then home exercise="2.5" score=1
committed = {
    "jnp.arange(16)": jnp.arange(16).committed,
    "jax.device_put(x)": jax.device_put(x).committed,
    "jax.device_put(x, jax.devices()[0])": jax.device_put(x, jax.devices()[0]).committed,
    "jnp.sin(y)": jnp.sin(y).committed,
    "jnp.ones_like(y)": jnp.ones_like(y).committed,
    "jnp.zeros(y.shape)": jnp.zeros(y.shape).committed,
    "y + x": (y + x).committed,
}
y_everywhere = jax.device_put(y, on(explicit_grid, ("x", "y")))
everywhere = y_everywhere + y_everywhere**2
here = jax.device_put(everywhere, y.sharding)
there = jax.device_put(here, z.sharding)

# %% by older texts, and through NumPy exercise="2.5" score=0.1041666667 diagnoses=["put-nowhere", "like-means-where", "one-device"] near=["put-somewhere", "devices-unused", "what-comes-of-it"]
committed = {
    "jnp.arange(16)": False,
    "jax.device_put(x)": True,
    "jax.device_put(x, jax.devices()[0])": True,
    "jnp.sin(y)": True,
    "jnp.ones_like(y)": False,
    "jnp.zeros(y.shape)": False,
    "y + x": True,
}
here = there = everywhere = jnp.asarray(np.asarray(y) + np.asarray(z))

# %% only what names all devices is committed exercise="2.5" score=0.2916666667 diagnoses=["put-somewhere", "a-shape-is-no-place", "one-is-enough", "the-other-array", "devices-unused"] near=["like-means-where", "what-comes-of-it", "values", "put-nowhere", "made-is-placed"]
committed = {
    "jnp.arange(16)": False,
    "jax.device_put(x)": False,
    "jax.device_put(x, jax.devices()[0])": False,
    "jnp.sin(y)": True,
    "jnp.ones_like(y)": True,
    "jnp.zeros(y.shape)": True,
    "y + x": False,
}
here = y + jax.device_put(z, y.sharding)
there = y + jax.device_put(z, y.sharding)
everywhere = here

# %% one array laid out, the other forgotten exercise="2.5" score=0 diagnoses=["unanswered", "values", "devices-extra", "transposed"] near=["the-other-array", "grid", "one-device"]
here = y
there = jax.device_put(x + x * x, on(grid, ("x", "y")))
everywhere = jax.device_put(x + x * x, on(grid, None, ("x", "y")))

# %% the sum as it stands raises exercise="2.5" score=0 diagnoses=["unanswered", "did-not-finish"]
here = y + z
there = z + y

# %% everything is committed, and the sums are left out exercise="2.5" score=0 diagnoses=["made-is-placed", "put-nowhere", "a-shape-is-no-place", "unanswered"] naive=true near=["put-somewhere", "like-means-where", "one-is-enough"]
committed = dict.fromkeys(committed, True)

# %% nothing is committed, and copies exercise="2.5" score=0 diagnoses=["put-somewhere", "what-comes-of-it", "like-means-where", "one-is-enough", "replicated", "devices-unused"] near=["devices-extra", "a-shape-is-no-place", "grid"]
committed = dict.fromkeys(committed, False)
here = jax.device_put(y, on(first_four)) + jax.device_put(z, on(first_four))
there = jax.device_put(y, on(last_four)) + jax.device_put(z, on(last_four))
everywhere = here

# %% the table alone exercise="2.5" score=0.25 diagnoses=["unanswered"] near=["made-is-placed"]
committed = dict.fromkeys(committed, True)
committed |= dict.fromkeys(["jnp.arange(16)", "jax.device_put(x)", "jnp.zeros(y.shape)"], False)

# %% three times x, and blocks exercise="2.5" score=0 diagnoses=["unanswered", "values", "the-other-array", "grid"] near=["devices-extra", "replicated"]
here = jax.device_put(3 * x, y.sharding)
there = jax.device_put(x + x * x, y.sharding)
everywhere = jax.device_put(x + x * x, on(grid, "x", "y"))

# %% through NumPy, and laid out again exercise="2.5" score=0.75 diagnoses=["unanswered"] near=["one-device", "values"]
total = np.asarray(y) + np.asarray(z)
here = jax.device_put(total, y.sharding)
there = jax.device_put(total, z.sharding)
everywhere = jax.device_put(total, on(grid, ("x", "y")))

# %% everywhere in four strips exercise="2.5" score=0.5 diagnoses=["unanswered", "replicated-dimension"] near=["replicated", "devices-unused"]
here = y + jax.device_put(z, y.sharding)
there = jax.device_put(y, z.sharding) + z
rows = on(grid, "x")
everywhere = jax.device_put(y, rows) + jax.device_put(z, rows)

# %% everywhere in blocks exercise="2.5" score=0.5 diagnoses=["unanswered", "grid"] near=["replicated-dimension"]
here = y + jax.device_put(z, y.sharding)
there = jax.device_put(y, z.sharding) + z
blocks = on(grid, "x", "y")
everywhere = jax.device_put(y, blocks) + jax.device_put(z, blocks)

# %% asked of JAX exercise="2.6" score=1
for name, (one, other) in cases.items():
    try:
        jax.device_put(x, one) + (x if other is None else jax.device_put(x, other))
        diagnosis[name] = "runs"
    except Exception:
        diagnosis[name] = "raises"

# %% names must match exercise="2.6" score=0.3333333333 diagnoses=["names-must-match", "forms-must-match"] near=["uncommitted-follows", "names-are-types", "same-axis-twice", "modes-mixed"]
diagnosis = dict.fromkeys(diagnosis, "raises") | {"h": "runs"}

# %% only devices count exercise="2.6" score=0.5 diagnoses=["names-are-types", "same-axis-twice", "modes-mixed"] near=["disjoint-devices", "order-counts", "committed-stays", "names-must-match", "forms-must-match"]
diagnosis = dict.fromkeys(diagnosis, "runs") | dict.fromkeys("abi", "raises")

# %% JAX moves what it needs exercise="2.6" score=0 diagnoses=["disjoint-devices", "order-counts", "names-are-types", "same-axis-twice", "modes-mixed", "committed-stays"] naive=true near=["forms-must-match", "names-must-match"]
diagnosis = dict.fromkeys(diagnosis, "runs")

# %% what was never placed is in the wrong place exercise="2.6" score=0.6666666667 diagnoses=["uncommitted-follows"] near=["committed-stays"]
diagnosis = dict.fromkeys(diagnosis, "raises") | dict.fromkeys("cd", "runs")

# %% another word exercise="2.6" score=0 diagnoses=["other-form"]
diagnosis = dict.fromkeys(diagnosis, True)

# %% everything raises exercise="2.6" score=0 diagnoses=["names-must-match", "forms-must-match", "uncommitted-follows"] naive=true near=["disjoint-devices", "order-counts", "modes-mixed"]
diagnosis = dict.fromkeys(diagnosis, "raises")

# %% the same devices in whatever order exercise="2.6" score=0.5 diagnoses=["order-counts", "names-are-types", "modes-mixed"] near=["disjoint-devices", "same-axis-twice"]
diagnosis = dict.fromkeys(diagnosis, "runs") | dict.fromkeys("afi", "raises")

# %% columns exercise="2.7" score=1
audit = {"bytes": 512 + 256 + 1024 + 1024, "spec": P(None, None)}
cheap = NamedSharding(jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,)), P(None, "i"))

# %% a transpose is free exercise="2.7" score=0 diagnoses=["free", "kept", "all-gather over x"] naive=true near=["one-line", "too-many-bytes"]
audit = {"bytes": 0, "spec": P("x", "y")}
cheap = on(grid, "x", "y")

# %% strips along one axis exercise="2.7" score=0 diagnoses=["one-line", "turned", "too-many-bytes"] near=["one-axis", "kept", "repeated-work"]
audit = {"bytes": 1024, "spec": P("y", "x")}
cheap = on(grid, "x")

# %% copies exercise="2.7" score=0.3333333333 diagnoses=["repeated-work"] near=["all-gather"]
audit = {"bytes": 2816, "spec": P()}
cheap = on(grid)

# %% the collectives of one axis, an Explicit mesh exercise="2.7" score=0.1666666667 diagnoses=["one-axis", "fails"] near=["one-line", "on-the-wires", "kept", "turned"]
audit = {"bytes": 1536, "spec": jax.jit(symmetric)(block).sharding}
cheap = on(explicit_grid, ("x", "y"))

# %% the collectives of the other axis, four devices exercise="2.7" score=0 diagnoses=["other-axis", "other-form", "devices-unused"] near=["one-axis", "fails", "elements"]
audit = {"bytes": 1280, "spec": "P()"}
cheap = NamedSharding(first_four, P("x"))

# %% left on one device exercise="2.7" score=0 diagnoses=["other-prediction", "one-device"] near=["other-axis", "free", "all-gather"]
audit = {"bytes": 4 * 2816, "spec": P("x")}
cheap = x

# %% what a device sends, and blocks turned exercise="2.7" score=0 diagnoses=["on-the-wires", "other-prediction", "all-gather over x"] near=["other-axis", "one-axis", "turned", "fails"]
audit = {"bytes": communication(symmetric, block).sent, "spec": P("x")}
cheap = on(grid, "y", "x")

# %% elements exercise="2.7" score=0.6666666667 diagnoses=["elements", "kept"] near=["on-the-wires", "all-devices", "free"]
audit = {"bytes": 2816 // 4, "spec": P("x", "y")}
cheap = on(grid, None, ("y", "x"))

# %% all devices together exercise="2.7" score=0.6666666667 diagnoses=["all-devices", "turned"] near=["one-line", "other-prediction", "elements"]
audit = {"bytes": 8 * 2816, "spec": P("y", "x")}
cheap = on(grid, ("y", "x"))

# %% the new dimension at the end, written out; the outer rows replicated exercise="2.1" score=0 diagnoses=["unanswered", "not-shifted", "rows-lost"] near=["axis-lost", "inner-part"]
layouts["jnp.sin(x)"] = P("x", "y", None)
layouts["x[None]"] = P("x", "y", None)
layouts["x.reshape(4, 4, 16)"] = P(None, None, "y")

# %% an all-reduce counted twice exercise="2.4" score=0.8333333333 diagnoses=["counted-twice"] near=["own-block", "reduced-on-the-wires", "all-devices"]
kinds = dict(
    zip(
        kinds,
        "nothing all-gather all-reduce all-reduce all-gather all-gather all-reduce all-gather".split(),
    )
)
sizes = dict(zip(kinds, [0, 1024, 2048, 512, 256, 768, 512, 1024]))

# %% a block of A for the sums, and a vague guess exercise="2.4" score=0.8888888889 diagnoses=["own-block", "other-prediction"] near=["counted-twice", "before-the-gather"]
kinds = dict(
    zip(
        kinds,
        "nothing all-gather all-reduce all-reduce all-gather all-gather all-reduce all-gather".split(),
    )
)
sizes = dict(zip(kinds, [0, 1024, 1024, 128, 256, 768, 300, 1024]))

# %% a tuple in the other order exercise="2.5" score=0 diagnoses=["unanswered", "device-order"] near=["grid", "replicated"]
strips = on(grid, ("y", "x"))
everywhere = jax.device_put(y, strips) + jax.device_put(z, strips)

# %% blocks in place of strips exercise="2.5" score=0 diagnoses=["unanswered", "grid"] near=["device-order"]
everywhere = jax.device_put(y, on(grid, "x", "y")) + jax.device_put(z, on(grid, "x", "y"))
