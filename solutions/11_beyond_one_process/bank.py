# %% [markdown]
# Known answers to the exercises of notebook 11. A cell stands below what the exercise's cell was
# handed out with.

# %% counted device by device exercise="11.1" score=1 near=["counts-copies", "everything"]
for key in here:
    spec, processes = key.rsplit(", ", 1)
    mesh = make_mesh(x=4, y=2)
    blocks = NamedSharding(mesh, eval(spec)).devices_indices_map((16, 8))
    share = 8 // int(processes)
    mine = np.zeros((16, 8), bool)
    for device in devices[share : 2 * share]:
        mine[blocks[device]] = True
    here[key] = int(mine.sum())

# %% an even share exercise="11.1" score=0.5 diagnoses=["fair-share"] near=["one-device", "rows"]
here = {
    "P('x', 'y'), 2": 64,
    "P('x'), 2": 64,
    "P('y'), 2": 64,
    "P(None, 'x'), 4": 32,
    "P('y', 'x'), 4": 32,
    "P('y'), 4": 32,
    "P(), 4": 32,
}

# %% one device's block exercise="11.1" score=0 diagnoses=["one-device", "fair-share", "rows"] near=["counts-copies"]
here = {
    "P('x', 'y'), 2": 16,
    "P('x'), 2": 32,
    "P('y'), 2": 64,
    "P(None, 'x'), 4": 16,
    "P('y', 'x'), 4": 16,
    "P('y'), 4": 64,
    "P(), 4": 128,
}

# %% memory, with copies exercise="11.1" score=0.1666666667 diagnoses=["counts-copies"] near=["fair-share"]
here = {
    "P('x', 'y'), 2": 64,
    "P('x'), 2": 128,
    "P('y'), 2": 256,
    "P(None, 'x'), 4": 64,
    "P('y', 'x'), 4": 32,
    "P('y'), 4": 128,
    "P(), 4": 256,
}

# %% everything is everywhere exercise="11.1" score=0 diagnoses=["everything", "counts-copies"] near=["fair-share", "one-device"]
here = dict.fromkeys(here, 128)


# %% rows counted exercise="11.1" score=0 diagnoses=["rows", "one-device"] near=["counts-copies"]
here = dict(zip(here, (8, 8, 16, 16, 16, 16, 16)))


# %% tried out exercise="11.2" score=1 near=["prints-the-shape", "row-for-all", "own-shard", "one-program"]
lines = dict.fromkeys(lines, "works")
lines["np.asarray(x)"] = "raises"
lines["x[8 * jax.process_index()]"] = "wrong numbers"
for line in lines:
    if line.startswith("if first"):
        lines[line] = "waits"

# %% everything works, as on one process exercise="11.2" score=0 diagnoses=["not-all-here", "asked-alone", "row-is-here", "one-program"] near=["no-one-waits", "not-even-an-error"]
lines = dict.fromkeys(lines, "works")

# %% whatever is elsewhere raises exercise="11.2" score=0 diagnoses=["prints-the-shape", "row-for-all", "own-shard", "asked-alone", "printing-is-free", "row-is-here", "not-even-an-error"] near=["not-all-here"]
lines = dict.fromkeys(lines, "raises")

# %% whatever is elsewhere waits exercise="11.2" score=0 diagnoses=["prints-the-shape", "no-one-waits", "row-for-all", "own-shard", "printing-is-free", "not-even-an-error"] near=["asked-alone"]
lines = dict.fromkeys(lines, "waits")

# %% each gets the row it asked for, and printing alone waits exercise="11.2" score=0.5833333333 diagnoses=["printing-is-free", "one-program"] near=["row-is-here", "asked-alone", "no-one-waits", "not-even-an-error", "row-for-all"]
lines = {
    "print(x)": "works",
    "np.asarray(x)": "raises",
    "np.asarray(x[0])": "works",
    "np.asarray(x.addressable_shards[0].data)": "works",
    "if first: print(x.sum())": "waits",
    "total = x.sum(); if first: print(total)": "waits",
    "if first: print(x[0])": "waits",
    "x[8 * jax.process_index()]": "works",
}

# %% numbers for words exercise="11.2" score=0.3333333333 diagnoses=["other-form", "not-even-an-error"] near=["printing-is-free", "one-program"]
lines = {
    "print(x)": "works",
    "np.asarray(x)": "fails",
    "np.asarray(x[0])": "works",
    "np.asarray(x.addressable_shards[0].data)": "works",
    "if first: print(x.sum())": "waits",
    "total = x.sum(); if first: print(total)": "works",
    "if first: print(x[0])": "waits",
    "x[8 * jax.process_index()]": "raises",
}


# %% each device's block by itself exercise="11.3" score=1 near=["not-here", "values"]
def make_array(sharding, rows):
    blocks = sharding.addressable_devices_indices_map(rows.shape)
    parts = [jax.device_put(rows[index], device) for device, index in blocks.items()]
    return jax.make_array_from_single_device_arrays(rows.shape, sharding, parts)


# %% the process's rows together exercise="11.3" score=1 near=["own-array", "shape"]
def make_array(sharding, rows):
    blocks = sharding.addressable_devices_indices_map(rows.shape).values()
    ends = sorted({index[0].indices(len(rows))[:2] for index in blocks})
    mine = np.concatenate([rows[start:stop] for start, stop in ends])
    return jax.make_array_from_process_local_data(sharding, mine, rows.shape)


# %% from the process's first row to its last exercise="11.3" score=0 diagnoses=["not-here"] near=["shape", "values"]
def make_array(sharding, rows):
    blocks = sharding.addressable_devices_indices_map(rows.shape).values()
    ends = [index[0].indices(len(rows)) for index in blocks]
    mine = rows[min(e[0] for e in ends) : max(e[1] for e in ends)]
    return jax.make_array_from_process_local_data(sharding, mine, rows.shape)


# %% the table itself is put on the devices exercise="11.3" score=0 diagnoses=["raised"] near=["not-here", "block-shape"]
def make_array(sharding, rows):
    return jax.device_put(rows, sharding)


# %% an even share for each process exercise="11.3" score=0 diagnoses=["shape"] near=["values", "not-here"]
def make_array(sharding, rows):
    share = len(rows) // jax.process_count()
    start = share * jax.process_index()
    return jax.make_array_from_process_local_data(sharding, rows[start : start + share])


# %% the whole table in every process exercise="11.3" score=0 diagnoses=["not-here"] near=["own-array"]
def make_array(sharding, rows):
    return jax.device_put(rows[:], sharding)


# %% the first rows in every process exercise="11.3" score=0 diagnoses=["not-here"] near=["shape"]
def make_array(sharding, rows):
    share = len(rows) // jax.process_count()
    return jax.make_array_from_process_local_data(sharding, rows[:share])


# %% an array of its own exercise="11.3" score=0 diagnoses=["own-array"] near=["shape"]
def make_array(sharding, rows):
    share = len(rows) // jax.process_count()
    start = share * jax.process_index()
    return jnp.asarray(rows[start : start + share])


# %% upside down in each block exercise="11.3" score=0 diagnoses=["rows-exchanged"] near=["none", "raised", "block-shape", "dtype", "not-here", "shape", "values"]
def make_array(sharding, rows):
    return jax.make_array_from_callback(rows.shape, sharding, lambda index: rows[index][::-1])


# %% copies everywhere exercise="11.3" score=0 diagnoses=["not-here"] near=["values"]
def make_array(sharding, rows):
    copies = NamedSharding(sharding.mesh, P())
    return jax.make_array_from_callback(rows.shape, copies, lambda index: rows[index])


# %% all rows tried, and errors caught exercise="11.3" score=0 diagnoses=["not-here"] near=["values", "raised"]
def make_array(sharding, rows):
    table = np.zeros(rows.shape, np.float32)
    for r in range(len(table)):
        try:
            table[r] = rows[r]
        except IndexError:
            pass
    return jax.make_array_from_callback(rows.shape, sharding, lambda index: table[index])


# %% halves of numbers exercise="11.3" score=0 diagnoses=["dtype"] near=["values"]
def make_array(sharding, rows):
    read = lambda index: rows[index].astype(np.float16)
    return jax.make_array_from_callback(rows.shape, sharding, read)


# %% the whole table for every block exercise="11.3" score=0 diagnoses=["callback-returns-no-array"] near=["not-here", "block-shape"]
def make_array(sharding, rows):
    return jax.make_array_from_callback(rows.shape, sharding, lambda index: rows)


# %% the first row of every block exercise="11.3" score=0 diagnoses=["block-shape"] near=["not-here", "raised", "shape"]
def make_array(sharding, rows):
    return jax.make_array_from_callback(rows.shape, sharding, lambda index: rows[index[0].start])


# %% forgets to return exercise="11.3" score=0 diagnoses=["none"] near=["own-array"]
def make_array(sharding, rows):
    jax.make_array_from_callback(rows.shape, sharding, lambda index: rows[index])


# %% on a mesh of its own exercise="11.3" score=0 diagnoses=["split-dimension"] near=["replicated-dimension", "not-here"]
def make_array(sharding, rows):
    mine = NamedSharding(make_mesh(x=8), P("x"))
    return jax.make_array_from_callback(rows.shape, mine, lambda index: rows[index])


# %% on a mesh of its own, an axis for the processes exercise="11.3" score=0 diagnoses=["replicated-dimension"] near=["split-dimension"]
def make_array(sharding, rows):
    mine = NamedSharding(make_mesh(x=jax.process_count(), y=8 // jax.process_count()), P("x"))
    return jax.make_array_from_callback(rows.shape, mine, lambda index: rows[index])


# %% the process's first block for each device exercise="11.3" score=0 diagnoses=["other-rows"] near=["values", "not-here"]
def make_array(sharding, rows):
    first = list(sharding.addressable_devices_indices_map(rows.shape).values())[0]
    return jax.make_array_from_callback(rows.shape, sharding, lambda index: rows[first])


# %% an eighth of the rows for each device exercise="11.3" score=0 diagnoses=["block-shape"] near=["other-rows"]
def make_array(sharding, rows):
    size = len(rows) // 8
    parts = []
    for i, d in enumerate(jax.local_devices()):
        k = jax.process_index() * len(jax.local_devices()) + i
        parts.append(jax.device_put(rows[k * size : (k + 1) * size], d))
    return jax.make_array_from_single_device_arrays(rows.shape, sharding, parts)


# %% the process's rows with copies, as if there were none exercise="11.3" score=0 diagnoses=["other-rows"] near=["shape"]
def make_array(sharding, rows):
    blocks = sharding.addressable_devices_indices_map(rows.shape).values()
    mine = np.concatenate([rows[index] for index in blocks])
    return jax.make_array_from_process_local_data(sharding, mine, rows.shape)


# %% a block's first row for all of them exercise="11.3" score=0 diagnoses=["values"] near=["rows-exchanged", "other-numbers"]
def make_array(sharding, rows):
    def read(index):
        block = rows[index]
        return np.repeat(block[:1], len(block), axis=0)

    return jax.make_array_from_callback(rows.shape, sharding, read)


# %% zeros exercise="11.3" score=0 diagnoses=["nothing-but-zeros"] near=["other-numbers", "values"]
def make_array(sharding, rows):
    whole = np.zeros(rows.shape, np.float32)
    return jax.make_array_from_callback(rows.shape, sharding, lambda index: whole[index])


# %% made-up numbers exercise="11.3" score=0 diagnoses=["other-numbers"] near=["values", "nothing-but-zeros", "off-by-a-factor"]
def make_array(sharding, rows):
    whole = np.arange(np.prod(rows.shape), dtype=np.float32).reshape(rows.shape)
    return jax.make_array_from_callback(rows.shape, sharding, lambda index: whole[index])


# %% a block added up for each of its copies exercise="11.3" score=0 diagnoses=["off-by-a-factor"] near=["other-numbers"]
def make_array(sharding, rows):
    from jax.experimental import multihost_utils

    whole = np.zeros(rows.shape, np.float32)
    for index in sharding.addressable_devices_indices_map(rows.shape).values():
        whole[index] += rows[index]
    whole = multihost_utils.process_allgather(whole[None], tiled=True).sum(0)
    return jax.device_put(whole, sharding)


# %% rows of copies given together, and no shape exercise="11.3" score=0 diagnoses=["shape"] near=["other-rows"]
def make_array(sharding, rows):
    blocks = sharding.addressable_devices_indices_map(rows.shape).values()
    mine = np.concatenate([rows[index] for index in blocks])
    return jax.make_array_from_process_local_data(sharding, mine)


# %% by the library's function exercise="11.4" score=1 near=["not-numpy", "differs-between-processes", "not-addressable", "none"]
def to_host(x):
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(x, tiled=True)


# %% moved to copies everywhere exercise="11.4" score=1 near=["on-devices"]
def to_host(x):
    everywhere = jax.device_put(x, NamedSharding(x.sharding.mesh, P()))
    return np.asarray(everywhere.addressable_shards[0].data)


# %% reads what is not here exercise="11.4" score=0 diagnoses=["not-addressable"] near=["none"]
def to_host(x):
    return np.asarray(x)


# %% moved to a device of its own exercise="11.4" score=0 diagnoses=["not-addressable"] near=["on-devices"]
def to_host(x):
    return np.asarray(jax.device_put(x, jax.local_devices()[0]))


# %% its own shards exercise="11.4" score=0 diagnoses=["shape"] near=["raised"]
def to_host(x):
    return np.concatenate([shard.data for shard in x.addressable_shards])


# %% stays on the devices exercise="11.4" score=0 diagnoses=["on-devices"] near=["none"]
def to_host(x):
    return jax.device_put(x, NamedSharding(x.sharding.mesh, P()))


# %% as it came exercise="11.4" score=0 diagnoses=["on-devices"] near=["raised", "shape"]
def to_host(x):
    return x


# %% its shards in a list exercise="11.4" score=0 diagnoses=["not-numpy"] near=["on-devices", "shape"]
def to_host(x):
    return [np.asarray(shard.data).tolist() for shard in x.addressable_shards]


# %% without tiled exercise="11.4" score=0 diagnoses=["raised"] near=["shape", "not-addressable"]
def to_host(x):
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(x)


# %% words for numbers exercise="11.4" score=0 diagnoses=["not-numpy"] near=["none"]
def to_host(x):
    return f"process {jax.process_index()} has {len(x.addressable_shards)} shards"


# %% zeros for what is elsewhere exercise="11.4" score=0 diagnoses=["differs-between-processes"] near=["no-common-disk", "shape", "not-addressable"]
def to_host(x):
    whole = np.zeros(x.shape, x.dtype)
    for shard in x.addressable_shards:
        whole[shard.index] = shard.data
    return whole


# %% forgets to return exercise="11.4" score=0 diagnoses=["none"] near=["not-numpy"]
def to_host(x):
    np.asarray(jax.device_put(x, NamedSharding(x.sharding.mesh, P())))


# %% all blocks, one below another exercise="11.4" score=0 diagnoses=["blocks-in-a-column"] near=["blocks-refilled", "blocks-in-a-row", "shape", "stacked"]
def to_host(x):
    from jax.experimental import multihost_utils

    mine = np.concatenate([shard.data for shard in x.addressable_shards])
    return multihost_utils.process_allgather(mine, tiled=True)


# %% stacked by the library exercise="11.4" score=0 diagnoses=["stacked"] near=["shape", "blocks-in-a-column"]
def to_host(x):
    from jax.experimental import multihost_utils

    mine = np.concatenate([shard.data for shard in x.addressable_shards])
    return multihost_utils.process_allgather(mine)


# %% through files exercise="11.4" score=0 diagnoses=["no-common-disk"] near=["raised"]
def to_host(x):
    import time

    folder = Path(tempfile.gettempdir()) / f"of process {os.getppid()}"
    folder.mkdir(exist_ok=True)
    for shard in x.addressable_shards:
        np.save(folder / f"{shard.device.id}.npy", shard.data)
    time.sleep(1)
    whole = np.zeros(x.shape, x.dtype)
    for device, index in x.sharding.devices_indices_map(x.shape).items():
        whole[index] = np.load(folder / f"{device.id}.npy")
    return whole


# %% zeros exercise="11.4" score=0 diagnoses=["nothing-but-zeros"] near=["other-numbers"]
def to_host(x):
    return np.zeros(x.shape, x.dtype)


# %% made-up numbers exercise="11.4" score=0 diagnoses=["other-numbers"] near=["nothing-but-zeros", "values", "off-by-a-factor"]
def to_host(x):
    return np.arange(x.size, dtype=x.dtype).reshape(x.shape)


# %% blocks with several copies added up over processes exercise="11.4" score=0 diagnoses=["copies-added"] near=["off-by-a-factor"]
def to_host(x):
    from jax.experimental import multihost_utils

    whole = np.zeros(x.shape, x.dtype)
    for shard in x.addressable_shards:
        whole[shard.index] = shard.data
    return multihost_utils.process_allgather(whole[None], tiled=True).sum(0)


# %% blocks with several copies added up over devices exercise="11.4" score=0 diagnoses=["copies-added"] near=["off-by-a-factor"]
def to_host(x):
    from jax.experimental import multihost_utils

    whole = np.zeros(x.shape, x.dtype)
    for shard in x.addressable_shards:
        whole[shard.index] += shard.data
    return multihost_utils.process_allgather(whole[None], tiled=True).sum(0)


# %% a mean over the processes exercise="11.4" score=0 diagnoses=["off-by-a-factor"] near=["copies-added"]
def to_host(x):
    from jax.experimental import multihost_utils

    whole = np.zeros(x.shape, x.dtype)
    for shard in x.addressable_shards:
        whole[shard.index] = shard.data
    return multihost_utils.process_allgather(whole[None], tiled=True).mean(0)


# %% all blocks, one beside another exercise="11.4" score=0 diagnoses=["blocks-in-a-row"] near=["blocks-in-a-column", "stacked", "shape"]
def to_host(x):
    from jax.experimental import multihost_utils

    mine = np.concatenate([shard.data for shard in x.addressable_shards], axis=1)
    return np.concatenate(list(multihost_utils.process_allgather(mine)), axis=1)


# %% all blocks, reshaped exercise="11.4" score=0 diagnoses=["blocks-refilled"] near=["blocks-in-a-column", "rows-exchanged", "values"]
def to_host(x):
    from jax.experimental import multihost_utils

    mine = np.concatenate([shard.data for shard in x.addressable_shards])
    numbers = multihost_utils.process_allgather(mine).ravel()
    return numbers[: x.size].reshape(x.shape)


# %% transposed exercise="11.4" score=0 diagnoses=["transposed"] near=["shape"]
def to_host(x):
    everywhere = jax.device_put(x, NamedSharding(x.sharding.mesh, P()))
    return np.asarray(everywhere).T


# %% the last row first exercise="11.4" score=0 diagnoses=["rows-exchanged"] near=["values", "other-numbers", "transposed"]
def to_host(x):
    everywhere = jax.device_put(x, NamedSharding(x.sharding.mesh, P()))
    return np.asarray(everywhere)[::-1]


# %% the last row forgotten exercise="11.4" score=0 diagnoses=["values"] near=["rows-exchanged", "other-numbers", "nothing-but-zeros"]
def to_host(x):
    everywhere = jax.device_put(x, NamedSharding(x.sharding.mesh, P()))
    whole = np.array(everywhere)
    whole[-1] = 0
    return whole


# %% from the process's rows exercise="11.5" score=1 near=["not-here", "differs-between-processes", "only-on-one-process"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = step(weights, these)
    return np.asarray(weights)


# %% gradients added up by hand exercise="11.5" score=1 near=["differs-between-processes", "sum-of-rows"]
def train(mesh, weights, rows, batch):
    from jax.experimental import multihost_utils

    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        gradient = jax.grad(loss)(weights, rows[start : start + share])
        gradients = multihost_utils.process_allgather(np.asarray(gradient)[None], tiled=True)
        weights = weights - RATE * gradients.mean(0)
    return weights


# %% each process by itself exercise="11.5" score=0 diagnoses=["differs-between-processes"] near=["only-on-one-process", "not-here"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        weights = step(weights, rows[start : start + share])
    return weights


# %% a batch for each process exercise="11.5" score=0 diagnoses=["not-here"] near=["differs-between-processes"]
def train(mesh, weights, rows, batch):
    sharding = NamedSharding(mesh, P("x"))
    for start in range(0, len(rows), batch):
        these = jax.device_put(rows[start : start + batch], sharding)
        weights = step(weights, these)
    return weights


# %% divided once more exercise="11.5" score=0 diagnoses=["only-on-one-process"] near=["differs-between-processes", "sum-of-rows"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = weights - RATE * jax.grad(loss)(weights, these) / jax.process_count()
    return weights


# %% forgets the last batch exercise="11.5" score=0 diagnoses=["one-step-less"] near=["one-step", "not-trained"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch - 1):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = step(weights, these)
    return weights


# %% returns within the loop exercise="11.5" score=0 diagnoses=["one-step"] near=["one-step-less"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = step(weights, these)
        return weights


# %% does not keep the new weights exercise="11.5" score=0 diagnoses=["not-trained"] near=["one-step"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        step(weights, these)
    return weights


# %% up the gradient exercise="11.5" score=0 diagnoses=["uphill"] near=["eight-times", "none", "number-of-results", "not-trained"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = weights + RATE * jax.grad(loss)(weights, these)
    return weights


# %% a sum in place of the mean exercise="11.5" score=0 diagnoses=["sum-of-rows"] near=["uphill", "only-on-one-process"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = weights - RATE * batch * jax.grad(loss)(weights, these)
    return weights


# %% the first batch again and again exercise="11.5" score=0 diagnoses=["first-batch-again"] near=["one-step", "one-large-batch"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = step(weights, these)
    return weights


# %% all rows at once exercise="11.5" score=0 diagnoses=["one-large-batch"] near=["first-batch-again", "one-step"]
def train(mesh, weights, rows, batch):
    share, mine = batch // jax.process_count(), []
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine.append(rows[start : start + share])
    sharding = NamedSharding(mesh, P("x"))
    these = jax.make_array_from_process_local_data(sharding, np.concatenate(mine))
    return step(weights, these)


# %% gradients added up over devices exercise="11.5" score=0 diagnoses=["eight-times"] near=["sum-of-processes", "sum-of-rows", "uphill"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = weights - RATE * 8 * jax.grad(loss)(weights, these)
    return weights


# %% forgets to return exercise="11.5" score=0 diagnoses=["none"] near=["not-trained"]
def train(mesh, weights, rows, batch):
    for k in range(len(rows) // batch):
        pass


# %% the losses, too exercise="11.5" score=0 diagnoses=["number-of-results"] near=["not-trained"]
def train(mesh, weights, rows, batch):
    share, losses = batch // jax.process_count(), []
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        losses.append(float(loss(weights, these)))
        weights = step(weights, these)
    return weights, losses


# %% weights averaged at the end exercise="11.5" score=0 diagnoses=["averaged-at-the-end"] near=["only-on-one-process", "one-process-alone", "sum-of-processes"]
def train(mesh, weights, rows, batch):
    from jax.experimental import multihost_utils

    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        weights = step(weights, rows[start : start + share])
    return multihost_utils.process_allgather(np.asarray(weights)).mean(0)


# %% the step of process 0 for all exercise="11.5" score=0 diagnoses=["one-process-alone"] near=["averaged-at-the-end", "differs-between-processes"]
def train(mesh, weights, rows, batch):
    from jax.experimental import multihost_utils

    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        weights = step(weights, rows[start : start + share])
        weights = multihost_utils.broadcast_one_to_all(np.asarray(weights))
    return np.asarray(weights)


# %% gradients added up over processes exercise="11.5" score=0 diagnoses=["sum-of-processes"] near=["eight-times", "only-on-one-process"]
def train(mesh, weights, rows, batch):
    from jax.experimental import multihost_utils

    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        g = jax.grad(loss)(weights, rows[start : start + share])
        weights = weights - RATE * multihost_utils.process_allgather(np.asarray(g)).reshape(
            -1, 4
        ).sum(0)
    return np.asarray(weights)


# %% all gradients at the first weights exercise="11.5" score=0 diagnoses=["gradients-at-the-start"] near=["last-batch-alone", "averaged-at-the-end"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    first = weights
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = weights - RATE * jax.grad(loss)(first, these)
    return weights


# %% the last batch first exercise="11.5" score=0 diagnoses=["last-batch-first"] near=["first-batch-again", "values"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in reversed(range(len(rows) // batch)):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = step(weights, these)
    return weights


# %% each step from the first weights exercise="11.5" score=0 diagnoses=["last-batch-alone"] near=["gradients-at-the-start", "one-step"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        new = step(weights, these)
    return new


# %% the first batch left out exercise="11.5" score=0 diagnoses=["first-batch-skipped"] near=["one-step-less"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(1, len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = step(weights, these)
    return weights


# %% two steps on each batch exercise="11.5" score=0 diagnoses=["two-steps-each"] near=["values"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = step(step(weights, these), these)
    return weights


# %% the gradient alone exercise="11.5" score=0 diagnoses=["gradient-alone"] near=["rate-forgotten"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = jax.grad(loss)(weights, these)
    return weights


# %% the rate forgotten exercise="11.5" score=0 diagnoses=["rate-forgotten"] near=["gradient-alone", "sum-of-rows"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = weights - 1 * jax.grad(loss)(weights, these)
    return weights


# %% divided by the devices exercise="11.5" score=0 diagnoses=["an-eighth"] near=["divided-by-the-batch", "only-on-one-process"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = weights - RATE * jax.grad(loss)(weights, these) / len(jax.devices())
    return weights


# %% divided by the rows exercise="11.5" score=0 diagnoses=["divided-by-the-batch"] near=["an-eighth"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = weights - RATE * jax.grad(loss)(weights, these) / batch
    return weights


# %% half of the rate exercise="11.5" score=0 diagnoses=["values"] near=["an-eighth", "two-steps-each", "last-batch-first", "first-batch-skipped", "gradients-at-the-start", "rate-forgotten", "all-rows-each-time", "sixteen-rows"]
def train(mesh, weights, rows, batch):
    share = batch // jax.process_count()
    for k in range(len(rows) // batch):
        start = k * batch + share * jax.process_index()
        mine = rows[start : start + share]
        these = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), mine)
        weights = weights - RATE / 2 * jax.grad(loss)(weights, these)
    return weights


# %% only what each block needs exercise="11.6" score=1 near=["written-twice", "restore: sorted-as-text"]
def save(folder, x):
    for shard in x.addressable_shards:
        if not shard.replica_id:
            rows = range(*shard.index[0].indices(len(x)))
            np.save(folder / f"{rows.start}-{rows.stop}.npy", np.asarray(shard.data))


def restore(folder, sharding, shape):
    first = {int(f.name.partition("-")[0]): f for f in folder.iterdir()}

    def read(index):
        start, stop, _ = index[0].indices(shape[0])
        pieces = []
        for begin in sorted(first):
            piece = np.load(first[begin], mmap_mode="r")
            if begin < stop and start < begin + len(piece):
                pieces.append(piece[max(0, start - begin) : stop - begin, index[1]])
        return np.concatenate(pieces)

    return jax.make_array_from_callback(shape, sharding, read)


# %% every copy is written, and names are sorted as text exercise="11.6" score=0 diagnoses=["written-twice", "sorted-as-text"] near=["files-missing", "restore: own-array"]
def save(folder, x):
    for shard in x.addressable_shards:
        start, stop, _ = shard.index[0].indices(len(x))
        np.save(folder / f"{start}-{stop}.npy", shard.data)


def restore(folder, sharding, shape):
    whole = np.concatenate([np.load(f) for f in sorted(folder.glob("*.npy"))])
    return jax.make_array_from_callback(shape, sharding, lambda index: whole[index])


# %% the first process writes what it has, and reads for itself exercise="11.6" score=0 diagnoses=["files-missing", "own-array"] near=["waits", "no-files", "restore: sorted-as-text"]
def save(folder, x):
    if jax.process_index() == 0:
        for shard in x.addressable_shards:
            start, stop, _ = shard.index[0].indices(len(x))
            np.save(folder / f"{start}-{stop}.npy", shard.data)


def restore(folder, sharding, shape):
    files = sorted(folder.glob("*.npy"), key=lambda f: int(f.stem.split("-")[0]))
    return np.concatenate([np.load(f) for f in files])


# %% one file for each process exercise="11.6" score=0.5 diagnoses=["other-files"] near=["none-in-a-name", "restore: none", "dtype", "files-missing", "several-blocks"]
def save(folder, x):
    mine = np.concatenate([s.data for s in x.addressable_shards if s.replica_id == 0])
    np.save(folder / f"process-{jax.process_index()}.npy", mine)


def restore(folder, sharding, shape):
    whole = np.zeros(shape, np.float32)
    for file in folder.glob("*.npy"):
        start, stop = map(int, file.stem.split("-"))
        whole[start:stop] = np.load(file)
    return jax.device_put(whole, sharding)


# %% writes somewhere else exercise="11.6" score=0.5 diagnoses=["no-files"] near=["other-files"]
def save(folder, x):
    elsewhere = Path(tempfile.mkdtemp())
    for shard in x.addressable_shards:
        start, stop, _ = shard.index[0].indices(len(x))
        np.save(elsewhere / f"{start}-{stop}.npy", shard.data)


def restore(folder, sharding, shape):
    whole = np.zeros(shape, np.float32)
    for file in folder.glob("*.npy"):
        start, stop = map(int, file.stem.split("-"))
        whole[start:stop] = np.load(file)
    return jax.make_array_from_callback(shape, sharding, lambda index: whole[index])


# %% gathers to save, and reads each block's own file exercise="11.6" score=0 diagnoses=["not-addressable", "file-not-found"] near=["restore: raised", "restore: block-shape"]
def save(folder, x):
    np.save(folder / f"0-{len(x)}.npy", np.asarray(x))


def restore(folder, sharding, shape):
    def read(index):
        start, stop, _ = index[0].indices(shape[0])
        return np.load(folder / f"{start}-{stop}.npy")[:, index[1]]

    return jax.make_array_from_callback(shape, sharding, read)


# %% files that lie in the block, and no others exercise="11.6" score=0.5 diagnoses=["raised"] near=["restore: file-not-found", "restore: block-shape", "restore: other-rows", "restore: whole-files-alone"]
def save(folder, x):
    for shard in x.addressable_shards:
        start, stop, _ = shard.index[0].indices(len(x))
        if shard.replica_id == 0:
            np.save(folder / f"{start}-{stop}.npy", shard.data)


def restore(folder, sharding, shape):
    files = {tuple(map(int, f.stem.split("-"))): f for f in folder.glob("*.npy")}

    def read(index):
        start, stop, _ = index[0].indices(shape[0])
        inside = [files[a, b] for a, b in sorted(files) if a >= start and b <= stop]
        return np.concatenate([np.load(file)[:, index[1]] for file in inside])

    return jax.make_array_from_callback(shape, sharding, read)


# %% files that lie in the block, written into zeros exercise="11.6" score=0.5 diagnoses=["whole-files-alone"] near=["restore: other-rows", "restore: sorted-as-text"]
def save(folder, x):
    for shard in x.addressable_shards:
        start, stop, _ = shard.index[0].indices(len(x))
        if shard.replica_id == 0:
            np.save(folder / f"{start}-{stop}.npy", shard.data)


def restore(folder, sharding, shape):
    def read(index):
        start, stop, _ = index[0].indices(shape[0])
        block = np.zeros((stop - start, shape[1]), np.float32)
        for file in folder.glob("*.npy"):
            a, b = map(int, file.stem.split("-"))
            if a >= start and b <= stop:
                block[a - start : b - start] = np.load(file)
        return block[:, index[1]]

    return jax.make_array_from_callback(shape, sharding, read)


# %% all columns for every block exercise="11.6" score=0.5 diagnoses=["block-shape"] near=["restore: file-not-found", "restore: raised"]
def save(folder, x):
    for shard in x.addressable_shards:
        start, stop, _ = shard.index[0].indices(len(x))
        if shard.replica_id == 0:
            np.save(folder / f"{start}-{stop}.npy", shard.data)


def restore(folder, sharding, shape):
    whole = np.zeros(shape, np.float32)
    for file in folder.glob("*.npy"):
        start, stop = map(int, file.stem.split("-"))
        whole[start:stop] = np.load(file)
    return jax.make_array_from_callback(shape, sharding, lambda index: whole[index[0]])


# %% the first process gathers alone, and puts files together backwards exercise="11.6" score=0 diagnoses=["waits", "other-rows"] near=["written-twice", "restore: sorted-as-text"]
def save(folder, x):
    if jax.process_index() == 0:
        whole = np.asarray(jax.device_put(x, NamedSharding(x.sharding.mesh, P())))
        for start in range(0, len(x), len(x.addressable_shards[0].data)):
            stop = start + len(x.addressable_shards[0].data)
            np.save(folder / f"{start}-{stop}.npy", whole[start:stop])


def restore(folder, sharding, shape):
    files = sorted(folder.glob("*.npy"), key=lambda f: -int(f.stem.split("-")[0]))
    whole = np.concatenate([np.load(f) for f in files])
    return jax.make_array_from_callback(shape, sharding, lambda index: whole[index])


# %% numbered from zero in each process, and halves of numbers exercise="11.6" score=0 diagnoses=["numbered-from-zero", "dtype"] near=["written-twice", "restore: other-rows"]
def save(folder, x):
    start = 0
    for shard in x.addressable_shards:
        if shard.replica_id == 0:
            stop = start + len(shard.data)
            np.save(folder / f"{start}-{stop}.npy", shard.data)
            start = stop


def restore(folder, sharding, shape):
    whole = np.zeros(shape, np.float16)
    for file in folder.glob("*.npy"):
        start, stop = map(int, file.stem.split("-"))
        whole[start:stop] = np.load(file)
    return jax.make_array_from_callback(shape, sharding, lambda index: whole[index])


# %% one file for all of a process's rows, and nothing is returned exercise="11.6" score=0 diagnoses=["several-blocks", "none"] near=["other-files", "numbered-from-zero", "restore: raised"]
def save(folder, x):
    mine = [s for s in x.addressable_shards if s.replica_id == 0]
    if mine:
        rows = [s.index[0].indices(len(x))[:2] for s in mine]
        name = f"{min(r[0] for r in rows)}-{max(r[1] for r in rows)}.npy"
        np.save(folder / name, np.concatenate([s.data for s in mine]))


def restore(folder, sharding, shape):
    whole = np.zeros(shape, np.float32)
    for file in folder.glob("*.npy"):
        start, stop = map(int, file.stem.split("-"))
        whole[start:stop] = np.load(file)
    jax.make_array_from_callback(shape, sharding, lambda index: whole[index])


# %% names by the ends of slices exercise="11.6" score=0.5 diagnoses=["none-in-a-name"] near=["other-files"]
def save(folder, x):
    for shard in x.addressable_shards:
        if shard.replica_id == 0:
            rows = shard.index[0]
            np.save(folder / f"{rows.start}-{rows.stop}.npy", shard.data)


def restore(folder, sharding, shape):
    def first_row(file):
        return int(file.stem.split("-")[0])

    files = [np.load(f, mmap_mode="r") for f in sorted(folder.glob("*.npy"), key=first_row)]
    whole = np.concatenate(files)
    return jax.make_array_from_callback(shape, sharding, lambda index: whole[index])


# %% tokens cut as well as texts, in other words exercise="11.7" score=1 near=["letter-of-two-lengths", "waits-for-data", "works-too-much", "sends-too-much", "over-the-cap", "eight-times", "ascends", "unchanged", "looks-ahead", "devices-unused", "one-device", "another-program"]
pods = jax.make_mesh((2, 2, 2), ("a", "b", "c"), axis_types=(AxisType.Auto,) * 3)
specs = {
    "qkv": P(None, ("a", "b"), "c", None),
    "out": P("c", None, ("a", "b")),
    "up": P("a", ("b", "c")),
    "down": P(("b", "c"), "a"),
    "batch": P(("a", "b"), "c"),
}
layouts = {name: jax.sharding.NamedSharding(pods, spec) for name, spec in specs.items()}


def mean_here(params, x, y):
    def whole(array, axes, dimension):
        return lax.all_gather(array, axes, axis=dimension, tiled=True)

    for w in params:
        qkv, out = whole(w["qkv"], ("a", "b"), 1), whole(w["out"], ("a", "b"), 2)
        mixed = attention(whole(norm(x), "c", 1), qkv, out)
        x = x + lax.psum_scatter(mixed, "c", scatter_dimension=1, tiled=True)
        texts = whole(whole(norm(x), "c", 1), "b", 0)
        changed = mlp(texts, whole(w["up"], "a", 0), whole(w["down"], "a", 1))
        changed = lax.psum_scatter(changed, "b", scatter_dimension=0, tiled=True)
        x = x + lax.psum_scatter(changed, "c", scatter_dimension=1, tiled=True)
    return lax.pmean(((x - y) ** 2).sum(-1).mean(), ("a", "b", "c"))


def train_step(params, x, y):
    weights = {name: spec for name, spec in specs.items() if name != "batch"}

    @jax.shard_map(
        in_specs=([weights, weights], specs["batch"], specs["batch"]), out_specs=[weights, weights]
    )
    def gradient(params, x, y):
        return jax.grad(mean_here)(params, x, y)

    return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, gradient(params, x, y))


design = [layouts, train_step]

# %% two axes by hand, the same for attention and the MLP exercise="11.7" score=0.981 diagnoses=["waits-for-data"] near=["works-too-much"]
specs = {
    "qkv": P(None, "x", "y"),
    "out": P("y", None, "x"),
    "up": P("x", "y"),
    "down": P("y", "x"),
    "batch": P(("x", "y")),
}
layouts = {name: NamedSharding(wide, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    def gathered(w, dimension):
        return lax.all_gather(w, "x", axis=dimension, tiled=True)

    def tokens(x):
        return lax.all_gather(norm(x), "y", axis=0, tiled=True)

    def summed(x):
        return lax.psum_scatter(x, "y", scatter_dimension=0, tiled=True)

    def objective(params, x, y):
        for w in params:
            x = x + summed(attention(tokens(x), gathered(w["qkv"], 1), gathered(w["out"], 2)))
            x = x + summed(mlp(tokens(x), gathered(w["up"], 0), gathered(w["down"], 1)))
        return lax.pmean(((x - y) ** 2).sum(-1).mean(), ("x", "y"))

    def body(params, x, y):
        down = jax.grad(objective)(params, x, y)
        return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

    weights = [{name: specs[name] for name in params[0]}] * 2
    batch = specs["batch"]
    return jax.shard_map(body, in_specs=(weights, batch, batch), out_specs=weights)(params, x, y)


design = (layouts, train_step)

# %% two axes, with constraints exercise="11.7" score=0.949 diagnoses=["waits-for-data"] near=["sends-too-much"]
specs = {
    "qkv": P(None, "x", "y"),
    "out": P("y", None, "x"),
    "up": P("x", "y"),
    "down": P("y", "x"),
    "batch": P("x", "y"),
}
layouts = {name: NamedSharding(wide, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    def fetched(layer):
        used = {"qkv": P(None, None, "y"), "out": P("y"), "up": P(None, "y"), "down": P("y")}
        return {n: lax.with_sharding_constraint(w, used[n]) for n, w in layer.items()}

    def rows(x):
        return lax.with_sharding_constraint(x, P("x"))

    def objective(params):
        h = rows(x)
        for layer in map(fetched, params):
            h = rows(h + attention(rows(norm(h)), layer["qkv"], layer["out"]))
            h = rows(h + mlp(rows(norm(h)), layer["up"], layer["down"]))
        return ((h - rows(y)) ** 2).sum(-1).mean()

    return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, jax.grad(objective)(params))


design = (layouts, train_step)

# %% fully sharded data parallelism by hand exercise="11.7" score=0.312 diagnoses=["waits-for-data"] near=["eight-times", "sends-too-much", "raised"]
specs = {
    "qkv": P(None, "x"),
    "out": P(None, None, "x"),
    "up": P("x"),
    "down": P("x"),
    "batch": P("x"),
}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    dimensions = {"qkv": 1, "out": 2, "up": 0, "down": 0}

    def fetched(layer):
        return {
            name: lax.all_gather(w, "x", axis=dimensions[name], tiled=True)
            for name, w in layer.items()
        }

    def body(params, x, y):
        def objective(params):
            return lax.pmean(model_loss(list(map(fetched, params)), x, y), "x")

        down = jax.grad(objective)(params)
        return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

    weights = [{name: specs[name] for name in params[0]}] * 2
    return jax.shard_map(body, in_specs=(weights, P("x"), P("x")), out_specs=weights)(params, x, y)


design = (layouts, train_step)

# %% the same, with a sum in place of the mean over devices exercise="11.7" score=0 diagnoses=["eight-times"] near=["ascends", "off-by-a-factor"]
specs = {
    "qkv": P(None, "x"),
    "out": P(None, None, "x"),
    "up": P("x"),
    "down": P("x"),
    "batch": P("x"),
}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    dimensions = {"qkv": 1, "out": 2, "up": 0, "down": 0}

    def fetched(layer):
        return {
            name: lax.all_gather(w, "x", axis=dimensions[name], tiled=True)
            for name, w in layer.items()
        }

    def body(params, x, y):
        down = jax.grad(lambda p: lax.psum(model_loss(list(map(fetched, p)), x, y), "x"))(params)
        return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

    weights = [{name: specs[name] for name in params[0]}] * 2
    return jax.shard_map(body, in_specs=(weights, P("x"), P("x")), out_specs=weights)(params, x, y)


design = (layouts, train_step)

# %% all in eighths, and the rest left to the compiler exercise="11.7" score=0 diagnoses=["sends-too-much"] near=["over-the-cap", "waits-for-data"]
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}
design = layouts, plain_step

# %% everything is collected, computed as on one device, and cut again exercise="11.7" score=0 diagnoses=["works-too-much"] near=["waits-for-data", "one-device", "unchanged"] naive=true
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}


def train_step(params, x, y):
    params, x, y = lax.with_sharding_constraint((params, x, y), NamedSharding(line, P()))
    new = plain_step(params, x, y)
    return lax.with_sharding_constraint(new, NamedSharding(line, P()))


design = (layouts, train_step)

# %% data parallelism exercise="11.7" score=0 diagnoses=["over-the-cap"] near=["sends-too-much"]
layouts = dict.fromkeys(SMALL, NamedSharding(line, P())) | {"batch": NamedSharding(line, P("x"))}
design = layouts, plain_step

# %% data and tensor parallelism, which is as fast as can be exercise="11.7" score=0 diagnoses=["over-the-cap"]
specs = P(None, None, "y"), P("y"), P(None, "y"), P("y"), P("x")
layouts = {n: NamedSharding(wide, s) for n, s in zip(SMALL, specs, strict=True)}
design = layouts, plain_step

# %% up the gradient exercise="11.7" score=0 diagnoses=["ascends"] near=["eight-times", "unchanged"]
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}


def train_step(params, x, y):
    return jax.tree.map(
        lambda w, d: w + LEARNING_RATE * d, params, jax.grad(model_loss)(params, x, y)
    )


design = (layouts, train_step)

# %% the parameters as they came exercise="11.7" score=0 diagnoses=["unchanged"] near=["ascends", "another-program"]
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}


def train_step(params, x, y):
    jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, jax.grad(model_loss)(params, x, y))
    return params


design = (layouts, train_step)

# %% a mean over the features, too exercise="11.7" score=0 diagnoses=["nearly-unchanged"] near=["unchanged", "off-by-a-factor"]
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}


def train_step(params, x, y):
    def objective(params):
        return model_loss(params, x, y) / x.shape[-1]

    return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, jax.grad(objective)(params))


design = (layouts, train_step)

# %% in bfloat16 exercise="11.7" score=0 diagnoses=["coarser-type"] near=["values", "nearly-unchanged"]
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}


def train_step(params, x, y):
    few, x, y = jax.tree.map(lambda a: a.astype(jnp.bfloat16), (params, x, y))
    down = jax.grad(model_loss)(few, x, y)
    return jax.tree.map(lambda w, d: w - LEARNING_RATE * d.astype(w.dtype), params, down)


design = (layouts, train_step)

# %% the sizes of SMALL written in exercise="11.7" score=0 diagnoses=["does-not-reshape"] near=["never-summed", "another-program", "only-the-first"]
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}


def train_step(params, x, y):
    return plain_step(params, x.reshape(8, 32, 96), y)


design = (layouts, train_step)

# %% attention of one's own, to all tokens exercise="11.7" score=0 diagnoses=["looks-ahead"] near=["unchanged"]
specs = P(None, None, "x"), P("x"), P(None, "x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}


def train_step(params, x, y):
    def objective(params):
        h = x
        for w in params:
            q, k, v = jnp.einsum("bsd,cdhk->cbshk", norm(h), w["qkv"])
            seen = jax.nn.dot_product_attention(q, k, v)
            h = h + jnp.einsum("bshk,hkd->bsd", seen, w["out"])
            h = h + mlp(norm(h), w["up"], w["down"])
        return ((h - y) ** 2).sum(-1).mean()

    return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, jax.grad(objective)(params))


design = (layouts, train_step)

# %% no residuals exercise="11.7" score=0 diagnoses=["no-residuals"] near=["one-residual", "looks-ahead", "norm-missing"]
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}


def train_step(params, x, y):
    def objective(params):
        h = x
        for w in params:
            h = mlp(norm(attention(norm(h), w["qkv"], w["out"])), w["up"], w["down"])
        return ((h - y) ** 2).sum(-1).mean()

    return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, jax.grad(objective)(params))


design = (layouts, train_step)

# %% nothing is done at the real size exercise="11.7" score=0 diagnoses=["another-program"] near=["unchanged"]
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}


def train_step(params, x, y):
    return params if x.shape[1] > 100 else plain_step(params, x, y)


design = (layouts, train_step)

# %% at the real size, half of each weight is gathered exercise="11.7" score=0 diagnoses=["another-program"] near=["packs-numbers", "waits-for-data"]
specs = {
    "qkv": P(None, "x"),
    "out": P(None, None, "x"),
    "up": P("x"),
    "down": P("x"),
    "batch": P("x"),
}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def by_hand(gathered):
    def train_step(params, x, y):
        def body(params, x, y):
            def objective(params):
                dimensions = {"qkv": 1, "out": 2, "up": 0, "down": 0}
                whole = [{n: gathered(w, dimensions[n]) for n, w in p.items()} for p in params]
                return model_loss(whole, x, y) / 8

            down = jax.grad(objective)(params)
            return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

        weights = [{name: specs[name] for name in params[0]}] * 2
        mapped = jax.shard_map(
            body, in_specs=(weights, P("x"), P("x")), out_specs=weights, check_vma=False
        )
        return mapped(params, x, y)

    return train_step


def halved(w, d):
    e = 1 if d == 0 else 0
    size = w.shape[e]
    kept = size // 2 if size > 2_000 else size
    some = lax.all_gather(lax.slice_in_dim(w, 0, kept, axis=e), "x", axis=d, tiled=True)
    config = [(0, 0, 0)] * w.ndim
    config[e] = (0, size - kept, 0)
    return lax.pad(some, 0.0, config)


design = (layouts, by_hand(halved))


# %% one of two ways, by a number that is a size exercise="11.7" score=0.312 diagnoses=["waits-for-data"] near=["another-program"]
from functools import partial

specs = {
    "qkv": P(None, "x"),
    "out": P(None, None, "x"),
    "up": P("x"),
    "down": P("x"),
    "batch": P("x"),
}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def by_hand(gathered):
    def train_step(params, x, y):
        def body(params, x, y):
            def objective(params):
                dimensions = {"qkv": 1, "out": 2, "up": 0, "down": 0}
                whole = [{n: gathered(w, dimensions[n]) for n, w in p.items()} for p in params]
                return model_loss(whole, x, y) / 8

            down = jax.grad(objective)(params)
            return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

        weights = [{name: specs[name] for name in params[0]}] * 2
        mapped = jax.shard_map(
            body, in_specs=(weights, P("x"), P("x")), out_specs=weights, check_vma=False
        )
        return mapped(params, x, y)

    return train_step


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def chosen(w, d):
    is_large = lax.full((), float(w.size), jnp.float32) > 2e5
    whole = lax.all_gather(w, "x", axis=d, tiled=True)
    return jnp.where(is_large, jnp.concatenate([w] * 8, axis=d), whole)


def chosen_back(d, _, slope):
    is_large = lax.full((), float(slope.size), jnp.float32) > 2e5
    piece = lax.slice_in_dim(slope, 0, slope.shape[d] // 8, axis=d)
    added = lax.psum_scatter(slope, "x", scatter_dimension=d, tiled=True)
    return (jnp.where(is_large, piece, added),)


chosen.defvjp(lambda w, d: (chosen(w, d), None), chosen_back)
design = (layouts, by_hand(chosen))


# %% two numbers in one exercise="11.7" score=0 diagnoses=["packs-numbers"] near=["another-program", "coarser-type", "does-not-reshape"]
from functools import partial

specs = {
    "qkv": P(None, "x"),
    "out": P(None, None, "x"),
    "up": P("x"),
    "down": P("x"),
    "batch": P("x"),
}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def by_hand(gathered):
    def train_step(params, x, y):
        def body(params, x, y):
            def objective(params):
                dimensions = {"qkv": 1, "out": 2, "up": 0, "down": 0}
                whole = [{n: gathered(w, dimensions[n]) for n, w in p.items()} for p in params]
                return model_loss(whole, x, y) / 8

            down = jax.grad(objective)(params)
            return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

        weights = [{name: specs[name] for name in params[0]}] * 2
        mapped = jax.shard_map(
            body, in_specs=(weights, P("x"), P("x")), out_specs=weights, check_vma=False
        )
        return mapped(params, x, y)

    return train_step


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def packed(w, d):
    rows = jnp.moveaxis(w, d, 0).astype(jnp.float16)
    pairs = lax.bitcast_convert_type(rows.reshape(*rows.shape[:-1], -1, 2), jnp.float32)
    whole = lax.bitcast_convert_type(lax.all_gather(pairs, "x", tiled=True), jnp.float16)
    return jnp.moveaxis(whole.reshape(-1, *rows.shape[1:]).astype(jnp.float32), 0, d)


def packed_back(d, _, slope):
    return (lax.psum_scatter(slope, "x", scatter_dimension=d, tiled=True),)


packed.defvjp(lambda w, d: (packed(w, d), None), packed_back)
design = (layouts, by_hand(packed))


# %% one layout is left open exercise="11.7" score=0 diagnoses=["partly-filled-in"] near=["other-names"]
layouts = {name: NamedSharding(line, P()) for name in SMALL} | {"up": ...}
design = (layouts, plain_step)


# %% four of the devices exercise="11.7" score=0 diagnoses=["devices-unused"] near=["never-summed", "one-device"]
half = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,), devices=devices[:4])
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(half, s) for n, s in zip(SMALL, specs, strict=True)}
design = layouts, plain_step

# %% one device exercise="11.7" score=0 diagnoses=["one-device"] near=["devices-unused"]
alone = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,), devices=devices[:1])
layouts = dict.fromkeys(SMALL, NamedSharding(alone, P()))
design = layouts, plain_step

# %% the loss is returned, too exercise="11.7" score=0 diagnoses=["not-the-parameters"] near=["values"]
layouts = dict.fromkeys(SMALL, NamedSharding(line, P()))


def train_step(params, x, y):
    return model_loss(params, x, y), plain_step(params, x, y)


design = (layouts, train_step)

# %% a list of names in place of a dictionary exercise="11.7" score=0 diagnoses=["not-a-dictionary"] near=["not-a-design", "other-names"]
design = [NamedSharding(line, P("x"))] * 5, plain_step

# %% the step alone exercise="11.7" score=0 diagnoses=["not-a-design"] near=["not-a-dictionary", "not-the-parameters"]
design = plain_step

# %% the batch is forgotten, and there is one for y exercise="11.7" score=0 diagnoses=["other-names"] near=["partly-filled-in", "does-not-fit"]
layouts = dict.fromkeys(["qkv", "out", "up", "down", "x", "y"], NamedSharding(line, P()))
design = layouts, plain_step

# %% the three of qkv are cut exercise="11.7" score=0 diagnoses=["does-not-fit"] near=["other-names"]
layouts = dict.fromkeys(SMALL, NamedSharding(line, P("x")))
design = layouts, plain_step

# %% specs alone exercise="11.7" score=0 diagnoses=["spec-alone"] near=["not-by-name"]
layouts = dict.fromkeys(SMALL, P())
design = layouts, plain_step

# %% a sharding without a mesh exercise="11.7" score=0 diagnoses=["not-by-name"] near=["spec-alone", "one-device"]
layouts = dict.fromkeys(SMALL, jax.sharding.SingleDeviceSharding(devices[0]))
design = layouts, plain_step

# %% on two meshes exercise="11.7" score=0 diagnoses=["several-meshes"]
layouts = dict.fromkeys(SMALL, NamedSharding(line, P())) | {"batch": NamedSharding(wide, P("x"))}
design = layouts, plain_step


# %% each device's gradient is that of its own texts exercise="11.7" score=0 diagnoses=["never-summed"] near=["reduced-again", "eight-times"]
specs = {
    "qkv": P(None, "x"),
    "out": P(None, None, "x"),
    "up": P("x"),
    "down": P("x"),
    "batch": P("x"),
}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    dimensions = {"qkv": 1, "out": 2, "up": 0, "down": 0}

    def piece(name, w):
        size = w.shape[dimensions[name]] // lax.axis_size("x")
        start = lax.axis_index("x") * size
        return lax.dynamic_slice_in_dim(w, start, size, dimensions[name])

    def body(params, x, y):
        whole = [
            {n: lax.all_gather(w, "x", axis=dimensions[n], tiled=True) for n, w in layer.items()}
            for layer in params
        ]
        down = jax.grad(model_loss)(whole, x, y)
        mine = [{n: piece(n, d) for n, d in layer.items()} for layer in down]
        return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, mine)

    weights = [{name: specs[name] for name in params[0]}] * 2
    return jax.shard_map(body, in_specs=(weights, P("x"), P("x")), out_specs=weights)(params, x, y)


design = (layouts, train_step)


# %% copies, each with a gradient of its own exercise="11.7" score=0 diagnoses=["never-summed"] near=["copies-disagree"]
layouts = dict.fromkeys(SMALL, NamedSharding(line, P())) | {"batch": NamedSharding(line, P("x"))}


def train_step(params, x, y):
    def body(params, x, y):
        down = jax.grad(model_loss)(params, x, y)
        return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

    specs = P(), P("x"), P("x")
    return jax.shard_map(body, in_specs=specs, out_specs=P(), check_vma=False)(params, x, y)


design = (layouts, train_step)


# %% a tenth of the rate exercise="11.7" score=0 diagnoses=["another-rate"] near=["eight-times", "unchanged", "nearly-unchanged"]
specs = {"qkv": P(None, "x"), "out": P("x"), "up": P("x"), "down": P("x"), "batch": P("x")}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    down = jax.grad(model_loss)(params, x, y)
    return jax.tree.map(lambda w, d: w - 0.01 * d, params, down)


design = (layouts, train_step)


# %% the second layer as it came exercise="11.7" score=0 diagnoses=["second-layer-unchanged"] near=["unchanged", "first-layer-unchanged"]
specs = {"qkv": P(None, "x"), "out": P("x"), "up": P("x"), "down": P("x"), "batch": P("x")}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    return [plain_step(params, x, y)[0], params[1]]


design = (layouts, train_step)


# %% the first layer as it came exercise="11.7" score=0 diagnoses=["first-layer-unchanged"] near=["unchanged", "second-layer-unchanged"]
specs = {"qkv": P(None, "x"), "out": P("x"), "up": P("x"), "down": P("x"), "batch": P("x")}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    return [params[0], plain_step(params, x, y)[1]]


design = (layouts, train_step)


# %% pieces of the gradient, added up once more exercise="11.7" score=0 diagnoses=["reduced-again"] near=["never-summed", "eight-times", "another-rate"]
specs = {"qkv": P(None, "x"), "out": P("x"), "up": P("x"), "down": P("x"), "batch": P("x")}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    dimensions = {"qkv": 1, "out": 0, "up": 0, "down": 0}

    def fetched(layer):
        return {n: lax.all_gather(w, "x", axis=dimensions[n], tiled=True) for n, w in layer.items()}

    def body(params, x, y):
        down = jax.grad(lambda p: model_loss(list(map(fetched, p)), x, y) / 8)(params)
        down = jax.tree.map(lambda d: lax.psum(d, "x"), down)
        return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

    weights = [{name: specs[name] for name in params[0]}] * 2
    return jax.shard_map(body, in_specs=(weights, P("x"), P("x")), out_specs=weights)(params, x, y)


design = (layouts, train_step)


# %% pieces of the gradient, averaged exercise="11.7" score=0 diagnoses=["reduced-again"] near=["never-summed", "another-rate"]
specs = {"qkv": P(None, "x"), "out": P("x"), "up": P("x"), "down": P("x"), "batch": P("x")}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    dimensions = {"qkv": 1, "out": 0, "up": 0, "down": 0}

    def fetched(layer):
        return {n: lax.all_gather(w, "x", axis=dimensions[n], tiled=True) for n, w in layer.items()}

    def body(params, x, y):
        down = jax.grad(lambda p: model_loss(list(map(fetched, p)), x, y) / 8)(params)
        down = jax.tree.map(lambda d: lax.pmean(d, "x"), down)
        return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

    weights = [{name: specs[name] for name in params[0]}] * 2
    return jax.shard_map(body, in_specs=(weights, P("x"), P("x")), out_specs=weights)(params, x, y)


design = (layouts, train_step)

# %% the gradient in place of the new parameters exercise="11.7" score=0 diagnoses=["gradient-alone"] near=["unchanged", "ascends", "another-rate", "nearly-unchanged"]
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}


def train_step(params, x, y):
    return jax.grad(model_loss)(params, x, y)


design = (layouts, train_step)

# %% without the norms exercise="11.7" score=0 diagnoses=["norm-missing"] near=["no-residuals", "looks-ahead"]
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}


def train_step(params, x, y):
    def objective(params):
        h = x
        for w in params:
            h = h + attention(h, w["qkv"], w["out"])
            h = h + mlp(h, w["up"], w["down"])
        return ((h - y) ** 2).sum(-1).mean()

    return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, jax.grad(objective)(params))


design = (layouts, train_step)

# %% a norm of the sum, and none before exercise="11.7" score=0 diagnoses=["values"] near=["norm-missing", "no-residuals", "parts-not-summed", "gradient-alone"]
specs = P(None, "x"), P("x"), P("x"), P("x"), P("x")
layouts = {n: NamedSharding(line, s) for n, s in zip(SMALL, specs, strict=True)}


def train_step(params, x, y):
    def objective(params):
        h = x
        for w in params:
            h = norm(h + attention(h, w["qkv"], w["out"]))
            h = norm(h + mlp(h, w["up"], w["down"]))
        return ((h - y) ** 2).sum(-1).mean()

    return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, jax.grad(objective)(params))


design = (layouts, train_step)

# %% tensor parallelism, and nothing added up exercise="11.7" score=0 diagnoses=["parts-not-summed"] near=["never-summed", "copies-disagree", "slices-not-summed"]
specs = {
    "qkv": P(None, None, "x"),
    "out": P("x"),
    "up": P(None, "x"),
    "down": P("x"),
    "batch": P(),
}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}
stored = [{name: specs[name] for name in ("qkv", "out", "up", "down")}] * 2


def train_step(params, x, y):
    mapped = jax.shard_map(plain_step, in_specs=(stored, P(), P()), out_specs=stored)
    return mapped(params, x, y)


design = (layouts, train_step)

# %% other numbers exercise="11.1" score=0 diagnoses=["other-prediction", "everything", "one-device", "counts-copies"] near=["fair-share"]
here = {
    "P('x', 'y'), 2": 32,
    "P('x'), 2": 64,
    "P('y'), 2": 512,
    "P(None, 'x'), 4": 128,
    "P('y', 'x'), 4": 4,
    "P('y'), 4": 64,
    "P(), 4": 256,
}

# %% copies in one cell, one device in another exercise="11.1" score=0.5 diagnoses=["one-device", "counts-copies"] near=["other-prediction", "one-axis"]
here = {
    "P('x', 'y'), 2": 16,
    "P('x'), 2": 64,
    "P('y'), 2": 128,
    "P(None, 'x'), 4": 64,
    "P('y', 'x'), 4": 32,
    "P('y'), 4": 128,
    "P(), 4": 128,
}


# %% the blocks in order, each to the next of its own devices exercise="11.3" score=0 diagnoses=["other-rows"]
def make_array(sharding, rows):
    places = sharding.addressable_devices_indices_map(rows.shape).values()
    places = sorted(places, key=lambda place: place[0].start or 0)
    blocks = [jax.device_put(rows[p[0]], d) for p, d in zip(places, jax.local_devices())]
    return jax.make_array_from_single_device_arrays(rows.shape, sharding, blocks)


# %% rows twice for two devices that hold them exercise="11.3" score=0 diagnoses=["shape"]
def make_array(sharding, rows):
    places = sharding.addressable_devices_indices_map(rows.shape).values()
    mine = np.concatenate([rows[place] for place in places])
    return jax.make_array_from_process_local_data(sharding, mine)


# %% each device its own block, by hand exercise="11.3" score=1
def make_array(sharding, rows):
    places = sharding.addressable_devices_indices_map(rows.shape)
    blocks = [jax.device_put(rows[place], device) for device, place in places.items()]
    return jax.make_array_from_single_device_arrays(rows.shape, sharding, blocks)


# %% blocks of the weights used as if they were whole exercise="11.7" score=0 diagnoses=["letter-of-two-lengths"]
specs = {"qkv": P(None, "x"), "out": P("x"), "up": P("x"), "down": P("x"), "batch": P("x")}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    parts = [{name: specs[name] for name in layer} for layer in params]
    run = jax.shard_map(plain_step, mesh=line, in_specs=(parts, P("x"), P("x")), out_specs=parts)
    return run(params, x, y)


design = layouts, train_step


# %% the MLP replaces the tokens exercise="11.7" score=0 diagnoses=["one-residual"]
specs = {"qkv": P(None, "x"), "out": P("x"), "up": P(None, "x"), "down": P("x"), "batch": P("x")}
layouts = {name: NamedSharding(line, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    def body(params, x, y):
        n = lax.axis_size("x")

        def loss_here(params):
            h = x
            for layer in params:
                qkv = lax.all_gather(layer["qkv"], "x", axis=1, tiled=True)
                out = lax.all_gather(layer["out"], "x", axis=0, tiled=True)
                h = h + attention(norm(h), qkv, out)
                tokens = lax.all_gather(norm(h), "x", axis=0, tiled=True)
                terms = mlp(tokens, layer["up"], layer["down"])
                h = lax.psum_scatter(terms, "x", scatter_dimension=0, tiled=True)
            return ((h - y) ** 2).sum(-1).mean() / n

        slope = jax.grad(loss_here)(params)
        return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, slope)

    layer = {name: specs[name] for name in ("qkv", "out", "up", "down")}
    weights = [layer] * len(params)
    return jax.shard_map(body, in_specs=(weights, P("x"), P("x")), out_specs=weights)(params, x, y)


design = layouts, train_step


# %% half for a process exercise="11.1" score=0.75 diagnoses=["one-axis"] near=["one-device", "rows"]
here = {
    "P('x', 'y'), 2": 64,
    "P('x'), 2": 64,
    "P('y'), 2": 128,
    "P(None, 'x'), 4": 32,
    "P('y', 'x'), 4": 64,
    "P('y'), 4": 128,
    "P(), 4": 128,
}


# %% all rows in each step exercise="11.5" score=0 diagnoses=["all-rows-each-time"] near=["one-large-batch", "first-batch-again"]
def train(mesh, weights, rows, batch):
    cut = NamedSharding(mesh, P("x"))
    for _ in range(0, rows.shape[0], batch):
        weights = step(weights, jax.make_array_from_callback(rows.shape, cut, lambda i: rows[i]))
    return np.asarray(weights)


# %% each process its own blocks, and one commits exercise="11.8" score=1 near=["last-step-again", "torn-checkpoint", "file-not-found", "waits", "loss-after-its-step"]
def train_or_resume(folder, mesh, read_batch, steps):
    from jax.experimental import multihost_utils

    def done(path):
        return int(path.name.removeprefix("step-"))

    first, state = 0, fresh_state(mesh)
    complete = sorted(folder.glob("step-*"), key=done)
    if complete:
        first = done(complete[-1])
        sharding = NamedSharding(mesh, P("x"))
        for name in NAMES:
            whole = np.zeros(16, np.float32)
            for file in complete[-1].glob(f"{name}-*.npy"):
                start = int(file.stem.split("-")[1])
                part = np.load(file)
                whole[start : start + len(part)] = part
            state[name] = jax.make_array_from_callback((16,), sharding, lambda i, w=whole: w[i])
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        new = folder / f"unfinished-{k}"
        new.mkdir(exist_ok=True)
        for name, array in state.items():
            for shard in array.addressable_shards:
                if shard.replica_id == 0:
                    np.save(new / f"{name}-{shard.index[0].start or 0}.npy", shard.data)
        if jax.process_count() > 1:
            multihost_utils.sync_global_devices("written")
        if jax.process_index() == 0:
            new.rename(folder / f"step-{k + 1}")
    return losses


# %% the file is overwritten in place exercise="11.8" score=0.5 diagnoses=["torn-checkpoint"] near=["two-steps-mixed", "begins-anew"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0:
            np.savez(file, steps=k + 1, **arrays)
    return losses


# %% the optimizer is forgotten exercise="11.8" score=0 diagnoses=["optimizer-forgotten", "not-counted-yet"] near=["count-begins-anew", "not-finite", "values"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"])
        state["weights"] = jax.device_put(saved["weights"], sharding)
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        weights = np.asarray(jax.device_put(state["weights"], everywhere))
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", steps=k + 1, weights=weights)
            os.replace(folder / "new.npz", file)
    return losses


# %% the data begin anew exercise="11.8" score=0 diagnoses=["begins-anew", "not-counted-yet"] near=["count-begins-anew", "step-again", "torn-checkpoint"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, state = folder / "checkpoint.npz", fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", **arrays)
            os.replace(folder / "new.npz", file)
    return losses


# %% the number of the last step in place of the next exercise="11.8" score=0 diagnoses=["step-again", "not-counted-yet"] near=["step-skipped", "begins-anew"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["step"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", step=k, **arrays)
            os.replace(folder / "new.npz", file)
        jax.experimental.multihost_utils.sync_global_devices(f"saved {k}")
    return losses


# %% process 0 saves its own shards alone exercise="11.8" score=0 diagnoses=["one-process-saved", "not-counted-yet"] near=["two-steps-mixed", "not-addressable", "optimizer-forgotten"]
def train_or_resume(folder, mesh, read_batch, steps):
    sharding = NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        state = {name: jax.device_put(a, sharding) for name, a in state.items()}
        if jax.process_index() == 0:
            arrays = {name: np.zeros(16, np.float32) for name in NAMES}
            for name in NAMES:
                for shard in state[name].addressable_shards:
                    arrays[name][shard.index] = shard.data
            np.savez(folder / "new.npz", steps=k + 1, **arrays)
            os.replace(folder / "new.npz", file)
    return losses


# %% each process replaces its own blocks by itself exercise="11.8" score=0.5 diagnoses=["two-steps-mixed"] near=["torn-checkpoint", "one-process-saved", "file-not-found"]
def train_or_resume(folder, mesh, read_batch, steps):
    sharding = NamedSharding(mesh, P("x"))
    first, state = 0, fresh_state(mesh)
    files = [f for f in folder.glob("*.npz") if not f.name.startswith("new")]
    if files:
        whole = {name: np.zeros(16, np.float32) for name in NAMES}
        for file in files:
            saved = np.load(file)
            first = max(first, int(saved["steps"]))
            for name in NAMES:
                for start in saved["starts"]:
                    part = saved[f"{name}{start}"]
                    whole[name][start : start + len(part)] = part
        state = {name: jax.device_put(whole[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        state = {name: jax.device_put(a, sharding) for name, a in state.items()}
        mine = {}
        for name in NAMES:
            for shard in state[name].addressable_shards:
                mine[f"{name}{shard.index[0].start}"] = shard.data
        starts = [shard.index[0].start for shard in state["mean"].addressable_shards]
        i = jax.process_index()
        np.savez(folder / f"new-{i}.npz", steps=k + 1, starts=starts, **mine)
        os.replace(folder / f"new-{i}.npz", folder / f"{i}.npz")
    return losses


# %% the state and the step in two files exercise="11.8" score=0.5 diagnoses=["torn-checkpoint"] near=["step-again", "two-steps-mixed"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "state.npz", 0, fresh_state(mesh)
    if file.exists():
        first = int((folder / "step.txt").read_text())
        saved = np.load(file)
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", **arrays)
            os.replace(folder / "new.npz", file)
            (folder / "step.txt").write_text(str(k + 1))
    return losses


# %% one process alone collects exercise="11.8" score=0 diagnoses=["waits", "not-counted-yet"] near=["not-addressable", "one-process-saved"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere = NamedSharding(mesh, P())
    losses, state = [], fresh_state(mesh)
    for k in range(steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        if jax.process_index() == 0:
            collect = jax.jit(lambda s: s, out_shardings=everywhere)
            arrays = {name: np.asarray(a) for name, a in collect(state).items()}
            np.savez(folder / "new.npz", steps=k + 1, **arrays)
    return losses


# %% the mean of the squares is forgotten exercise="11.8" score=0 diagnoses=["values", "not-counted-yet"] near=["optimizer-forgotten", "one-process-saved"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
        state["square"] = fresh_state(mesh)["square"]
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", steps=k + 1, **arrays)
            os.replace(folder / "new.npz", file)
    return losses


# %% the state is rounded to float16 exercise="11.8" score=0 diagnoses=["values", "not-counted-yet"] near=["optimizer-forgotten"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name].astype(np.float32), sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        whole = jax.device_put(state, everywhere)
        arrays = {name: np.asarray(a).astype(np.float16) for name, a in whole.items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", steps=k + 1, **arrays)
            os.replace(folder / "new.npz", file)
    return losses


# %% every third step is saved exercise="11.8" score=0 diagnoses=["begins-anew", "not-counted-yet"] near=["torn-checkpoint"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0 and k % 3 == 2:
            np.savez(folder / "new.npz", steps=k + 1, **arrays)
            os.replace(folder / "new.npz", file)
    return losses


# %% the last file in alphabetical order exercise="11.8" score=0 diagnoses=["begins-anew", "not-counted-yet"] near=["torn-checkpoint"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    first, state = 0, fresh_state(mesh)
    if files := sorted(folder.glob("step-*.npz")):
        saved = np.load(files[-1])
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", steps=k + 1, **arrays)
            os.replace(folder / "new.npz", folder / f"step-{k}.npz")
    return losses


# %% one step too far exercise="11.8" score=0 diagnoses=["step-skipped", "not-counted-yet"] near=["step-again", "other-number-of-losses"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"]) + 1
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", steps=k + 1, **arrays)
            os.replace(folder / "new.npz", file)
    return losses


# %% Adam counts from zero again exercise="11.8" score=0 diagnoses=["count-begins-anew", "not-counted-yet"] near=["begins-anew", "optimizer-forgotten"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k - first, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", steps=k + 1, **arrays)
            os.replace(folder / "new.npz", file)
    return losses


# %% the arrays are read where they are exercise="11.8" score=0 diagnoses=["not-addressable", "not-counted-yet"] near=["waits", "one-process-saved"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in state.items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", steps=k + 1, **arrays)
            os.replace(folder / "new.npz", file)
    return losses


# %% a file for each process, by its number exercise="11.8" score=0 diagnoses=["new-processes", "not-counted-yet"] near=["file-not-found", "not-addressable", "one-process-saved"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    first, state = 0, fresh_state(mesh)
    file = folder / f"{jax.process_index()}.npz"
    if any(folder.iterdir()):
        saved = np.load(file)
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        np.savez(file, steps=k + 1, **arrays)
    return losses


# %% who finds no file of its number begins anew exercise="11.8" score=0 diagnoses=["new-processes", "not-counted-yet"] near=["begins-anew", "nothing-saved"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    first, state = 0, fresh_state(mesh)
    file = folder / f"{jax.process_index()}.npz"
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        np.savez(file, steps=k + 1, **arrays)
    return losses


# %% a file that is not there yet exercise="11.8" score=0 diagnoses=["file-not-found", "not-counted-yet"] near=["new-processes", "nothing-saved"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    with np.load(folder / "checkpoint.npz") as saved:
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", steps=k + 1, **arrays)
            os.replace(folder / "new.npz", folder / "checkpoint.npz")
    return losses


# %% a checkpoint at the end alone exercise="11.8" score=0 diagnoses=["nothing-saved", "not-counted-yet"] near=["begins-anew", "checkpoint-too-large"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
    arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
    if jax.process_index() == 0:
        np.savez(folder / "new.npz", steps=steps, **arrays)
        os.replace(folder / "new.npz", file)
    return losses


# %% the batches are saved, and all steps made again exercise="11.8" score=0 diagnoses=["checkpoint-too-large", "not-counted-yet"] near=["nothing-saved", "begins-anew"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    saved = len(list(folder.glob("*.npy")))
    state, losses = fresh_state(mesh), []
    for k in range(steps):
        file = folder / f"{k}.npy"
        if k < saved - 1:
            batch = jax.device_put(np.load(file), sharding)
        else:
            batch = read_batch(k)
            rows = np.asarray(jax.device_put(batch, everywhere))
            if jax.process_index() == 0:
                np.save(folder / "new.tmp.npy", rows)
                os.replace(folder / "new.tmp.npy", file)
        state, value = adam(state, k, batch)
        losses.append(float(value))
    return losses[max(saved - 1, 0) :]


# %% a checkpoint of each step is kept exercise="11.8" score=1 near=["checkpoint-too-large", "nothing-saved"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    files = sorted(folder.glob("step-*.npz"))
    first, state = 0, fresh_state(mesh)
    if files:
        saved = np.load(files[-1])
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", steps=k + 1, **arrays)
            os.replace(folder / "new.npz", folder / f"step-{k:04}.npz")
    return losses


# %% all losses since the beginning exercise="11.8" score=0 diagnoses=["other-number-of-losses", "not-counted-yet"] near=["step-skipped", "begins-anew", "not-a-list"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = list(saved["losses"]) if first else []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", steps=k + 1, losses=losses, **arrays)
            os.replace(folder / "new.npz", file)
    return losses


# %% losses that stay on the devices exercise="11.8" score=0 diagnoses=["not-a-list", "not-counted-yet"] near=["other-number-of-losses", "not-addressable"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere, sharding = NamedSharding(mesh, P()), NamedSharding(mesh, P("x"))
    file, first, state = folder / "checkpoint.npz", 0, fresh_state(mesh)
    if file.exists():
        saved = np.load(file)
        first = int(saved["steps"])
        state = {name: jax.device_put(saved[name], sharding) for name in NAMES}
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(value)
        arrays = {name: np.asarray(a) for name, a in jax.device_put(state, everywhere).items()}
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", steps=k + 1, **arrays)
            os.replace(folder / "new.npz", file)
    return losses


# %% one step too many exercise="11.8" score=0 diagnoses=["raised", "not-counted-yet"]
def train_or_resume(folder, mesh, read_batch, steps):
    state, losses = fresh_state(mesh), []
    for k in range(0, steps + 1):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
    return losses


# %% the batch of the next step exercise="11.8" score=0 diagnoses=["raised", "not-counted-yet"]
def train_or_resume(folder, mesh, read_batch, steps):
    state, losses = fresh_state(mesh), []
    for k in range(0, steps):
        state, value = adam(state, k, read_batch(k + 1))
        losses.append(float(value))
    return losses


# %% texts are gathered in place of tokens exercise="11.7" score=0 diagnoses=["own-tokens-alone"] near=["one-layer-alone", "slices-not-summed"]
mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


SPEC = {"qkv": P(None, "x", "y"), "out": P("y", None, "x"), "up": P("x", "y"), "down": P("y", "x")}


layouts = {name: NamedSharding(mesh, spec) for name, spec in SPEC.items()} | {
    "batch": NamedSharding(mesh, P("x", "y"))
}


def train_step(params, x, y):
    count = x.shape[0] * x.shape[1]

    def body(params, x, y):
        def gathered(w, axis):
            return lax.all_gather(w, "x", axis=axis, tiled=True)

        def loss(params):
            h = x
            for layer in params:
                a = lax.all_gather(norm(h), "y", axis=0, tiled=True)
                a = attention(a, gathered(layer["qkv"], 1), gathered(layer["out"], 2))
                h = h + lax.psum_scatter(a, "y", scatter_dimension=0, tiled=True)
                a = lax.all_gather(norm(h), "y", axis=1, tiled=True)
                a = mlp(a, gathered(layer["up"], 0), gathered(layer["down"], 1))
                h = h + lax.psum_scatter(a, "y", scatter_dimension=1, tiled=True)
            return ((h - y) ** 2).sum() / count

        down = jax.grad(loss)(params)
        return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

    specs = [SPEC, SPEC]
    return jax.shard_map(body, in_specs=(specs, P("x", "y"), P("x", "y")), out_specs=specs)(
        params, x, y
    )


design = layouts, train_step


# %% the first layer alone exercise="11.7" score=0 diagnoses=["one-layer-alone"] near=["own-tokens-alone"]
mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


SPEC = {"qkv": P(None, "x", "y"), "out": P("y", None, "x"), "up": P("x", "y"), "down": P("y", "x")}


layouts = {name: NamedSharding(mesh, spec) for name, spec in SPEC.items()} | {
    "batch": NamedSharding(mesh, P("x", "y"))
}


def train_step(params, x, y):
    count = x.shape[0] * x.shape[1]

    def body(params, x, y):
        def gathered(w, axis):
            return lax.all_gather(w, "x", axis=axis, tiled=True)

        def loss(params):
            h = x
            for layer in params[:1]:
                a = lax.all_gather(norm(h), "y", axis=1, tiled=True)
                a = attention(a, gathered(layer["qkv"], 1), gathered(layer["out"], 2))
                h = h + lax.psum_scatter(a, "y", scatter_dimension=1, tiled=True)
                a = lax.all_gather(norm(h), "y", axis=1, tiled=True)
                a = mlp(a, gathered(layer["up"], 0), gathered(layer["down"], 1))
                h = h + lax.psum_scatter(a, "y", scatter_dimension=1, tiled=True)
            return ((h - y) ** 2).sum() / count

        down = jax.grad(loss)(params)
        return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

    specs = [SPEC, SPEC]
    return jax.shard_map(body, in_specs=(specs, P("x", "y"), P("x", "y")), out_specs=specs)(
        params, x, y
    )


design = layouts, train_step


# %% slices of partial sums, by texts exercise="11.7" score=0 diagnoses=["slices-not-summed"] near=["parts-not-summed", "never-summed", "own-tokens-alone"]
mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
specs = {
    "qkv": P(None, "x", "y"),
    "out": P("y", None, "x"),
    "up": P("x", "y"),
    "down": P("y", "x"),
    "batch": P(("x", "y")),
}
layouts = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    def gathered(w, dimension):
        return lax.all_gather(w, "x", axis=dimension, tiled=True)

    def tokens(x):
        return lax.all_gather(norm(x), "y", axis=0, tiled=True)

    def own(x):
        size = x.shape[0] // lax.axis_size("y")
        return lax.dynamic_slice_in_dim(x, lax.axis_index("y") * size, size, 0)

    def summed(x):
        return lax.psum_scatter(x, "y", scatter_dimension=0, tiled=True)

    def objective(params, x, y):
        for w in params:
            x = x + own(attention(tokens(x), gathered(w["qkv"], 1), gathered(w["out"], 2)))
            x = x + own(mlp(tokens(x), gathered(w["up"], 0), gathered(w["down"], 1)))
        return lax.pmean(((x - y) ** 2).sum(-1).mean(), ("x", "y"))

    def body(params, x, y):
        down = jax.grad(objective)(params, x, y)
        return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

    weights = [{name: specs[name] for name in params[0]}] * 2
    batch = specs["batch"]
    return jax.shard_map(body, in_specs=(weights, batch, batch), out_specs=weights)(params, x, y)


design = (layouts, train_step)


# %% slices of partial sums, by tokens, in the MLP exercise="11.7" score=0 diagnoses=["slices-not-summed"] near=["parts-not-summed", "one-residual"]
mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
specs = {
    "qkv": P(None, "x", "y"),
    "out": P("y", None, "x"),
    "up": P("x", "y"),
    "down": P("y", "x"),
    "batch": P("x", "y"),
}
layouts = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}


def train_step(params, x, y):
    def gathered(w, dimension):
        return lax.all_gather(w, "x", axis=dimension, tiled=True)

    def tokens(x):
        return lax.all_gather(norm(x), "y", axis=1, tiled=True)

    def own(x):
        size = x.shape[1] // lax.axis_size("y")
        return lax.dynamic_slice_in_dim(x, lax.axis_index("y") * size, size, 1)

    def summed(x):
        return lax.psum_scatter(x, "y", scatter_dimension=1, tiled=True)

    def objective(params, x, y):
        for w in params:
            x = x + summed(attention(tokens(x), gathered(w["qkv"], 1), gathered(w["out"], 2)))
            x = x + own(mlp(tokens(x), gathered(w["up"], 0), gathered(w["down"], 1)))
        return lax.pmean(((x - y) ** 2).sum(-1).mean(), ("x", "y"))

    def body(params, x, y):
        down = jax.grad(objective)(params, x, y)
        return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)

    weights = [{name: specs[name] for name in params[0]}] * 2
    batch = specs["batch"]
    return jax.shard_map(body, in_specs=(weights, batch, batch), out_specs=weights)(params, x, y)


design = (layouts, train_step)


# %% adam counts its steps from 1 exercise="11.8" score=0 diagnoses=["not-finite", "not-counted-yet"] near=["values"]
from jax.experimental import multihost_utils


def numbers_of(folder):
    return sorted((int(p.stem) for p in folder.glob("*.npz")), reverse=True)


def train_or_resume(folder, mesh, read_batch, steps):
    blocks = NamedSharding(mesh, P("x"))
    state, start = fresh_state(mesh), 0
    for number in numbers_of(folder):
        try:
            with np.load(folder / f"{number}.npz") as file:
                arrays = {name: file[name] for name in NAMES}
        except Exception:
            continue
        state = {
            n: jax.make_array_from_callback((16,), blocks, lambda i, n=n: arrays[n][i])
            for n in NAMES
        }
        start = number + 1
        break
    multihost_utils.sync_global_devices("loaded")
    losses = []
    for step in range(start, steps):
        state, value = adam(state, step - 1, read_batch(step))
        losses.append(float(value))
        whole = {
            n: np.asarray(multihost_utils.process_allgather(state[n], tiled=True)) for n in NAMES
        }
        if jax.process_index() == 0:
            with open(folder / f"{step}.tmp", "wb") as file:
                np.savez(file, **whole)
            os.replace(folder / f"{step}.tmp", folder / f"{step}.npz")
        multihost_utils.sync_global_devices(f"saved {step}")
    return losses


# %% tensor parallelism over eight, tokens gathered exercise="11.7" score=0.535 diagnoses=["waits-for-data"] near=["works-too-much"]
mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Auto,))
SPECS = {
    "qkv": P(None, None, "x"),
    "out": P("x"),
    "up": P(None, "x"),
    "down": P("x"),
    "batch": P("x"),
}
layouts = {name: NamedSharding(mesh, spec) for name, spec in SPECS.items()}


def my_loss(params, x, y):
    for layer in params:
        h = lax.all_gather(norm(x), "x", tiled=True)
        x = x + lax.psum_scatter(attention(h, layer["qkv"], layer["out"]), "x", tiled=True)
        h = lax.all_gather(norm(x), "x", tiled=True)
        x = x + lax.psum_scatter(mlp(h, layer["up"], layer["down"]), "x", tiled=True)
    return lax.pmean(((x - y) ** 2).sum(-1).mean(), "x")


def train_step(params, x, y):
    weights = [{name: SPECS[name] for name in layer} for layer in params]
    loss = jax.shard_map(
        my_loss, mesh=mesh, in_specs=(weights, SPECS["batch"], SPECS["batch"]), out_specs=P()
    )
    down = jax.grad(loss)(params, x, y)
    return jax.tree.map(lambda w, d: w - LEARNING_RATE * d, params, down)


design = layouts, train_step


# %% the last step is not saved exercise="11.8" score=0 diagnoses=["last-step-again", "not-counted-yet"] near=["step-again", "nothing-saved"]
def train_or_resume(folder, mesh, read_batch, steps):
    from jax.experimental import multihost_utils

    in_blocks = NamedSharding(mesh, P("x"))
    state, start = fresh_state(mesh), 0
    saved = [int(f.stem.split("-")[1]) for f in folder.glob("step-*.npz")]
    if saved:
        with np.load(folder / f"step-{max(saved)}.npz") as file:
            state = {n: jax.device_put(file[n], in_blocks) for n in NAMES}
        start = max(saved) + 1
    losses = []
    for k in range(start, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        arrays = {
            n: np.asarray(multihost_utils.process_allgather(state[n], tiled=True)) for n in NAMES
        }
        if jax.process_index() == 0 and k < steps - 1:
            new = folder / "new.tmp"
            with open(new, "wb") as file:
                np.savez(file, **arrays)
            os.replace(new, folder / f"step-{k}.npz")
        multihost_utils.sync_global_devices(f"saved {k}")
    return losses


# %% saved when the next step begins exercise="11.8" score=0 diagnoses=["last-step-again", "not-counted-yet"] near=["step-again", "begins-anew"]
def train_or_resume(folder, mesh, read_batch, steps):
    from jax.experimental import multihost_utils

    in_blocks = NamedSharding(mesh, P("x"))
    state, start = fresh_state(mesh), 0
    saved = [int(f.stem.split("-")[1]) for f in folder.glob("step-*.npz")]
    if saved:
        with np.load(folder / f"step-{max(saved)}.npz") as file:
            state = {n: jax.device_put(file[n], in_blocks) for n in NAMES}
        start = max(saved)
    losses = []
    for k in range(start, steps):
        arrays = {
            n: np.asarray(multihost_utils.process_allgather(state[n], tiled=True)) for n in NAMES
        }
        if jax.process_index() == 0:
            new = folder / "new.tmp"
            with open(new, "wb") as file:
                np.savez(file, **arrays)
            os.replace(new, folder / f"step-{k}.npz")  # the state before step k
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
    return losses


# %% the loss after the step exercise="11.8" score=0 diagnoses=["loss-after-its-step", "not-counted-yet"] near=["step-again", "step-skipped"]
from jax.experimental.multihost_utils import process_allgather


def train_or_resume(folder, mesh, read_batch, steps):
    path = folder / "checkpoint.npz"
    state, first = fresh_state(mesh), 0
    if path.exists():
        with np.load(path) as saved:
            first = int(saved["step"])
            in_blocks = NamedSharding(mesh, P("x"))
            state = {name: jax.device_put(saved[name], in_blocks) for name in NAMES}
    losses = []
    for step in range(first, steps):
        state, loss = adam(state, step, read_batch(step))
        losses.append(float(squared_error(state["weights"], read_batch(step))))
        whole = process_allgather(state, tiled=True)
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", step=step + 1, **whole)
            os.replace(folder / "new.npz", path)
    return losses


# %% the next batch is read before a checkpoint exercise="11.8" score=0.5 diagnoses=["torn-checkpoint"] near=["two-steps-mixed"]
from jax.experimental.multihost_utils import process_allgather


def train_or_resume(folder, mesh, read_batch, steps):
    path = folder / "checkpoint.npz"
    state, first = fresh_state(mesh), 0
    if path.exists():
        with np.load(path) as saved:
            first = int(saved["step"])
            in_blocks = NamedSharding(mesh, P("x"))
            state = {name: jax.device_put(saved[name], in_blocks) for name in NAMES}
    losses = []
    batch = read_batch(first) if first < steps else None
    for step in range(first, steps):
        state, loss = adam(state, step, batch)
        losses.append(float(loss))
        batch = read_batch(step + 1) if step + 1 < steps else None
        whole = process_allgather(state, tiled=True)
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", step=step + 1, **whole)
            os.replace(folder / "new.npz", path)
    return losses


# %% all batches are read at first exercise="11.8" score=0 diagnoses=["nothing-saved", "not-counted-yet"] near=["begins-anew"]
from jax.experimental.multihost_utils import process_allgather


def train_or_resume(folder, mesh, read_batch, steps):
    path = folder / "checkpoint.npz"
    state, first = fresh_state(mesh), 0
    if path.exists():
        with np.load(path) as saved:
            first = int(saved["step"])
            in_blocks = NamedSharding(mesh, P("x"))
            state = {name: jax.device_put(saved[name], in_blocks) for name in NAMES}
    losses = []
    batches = [read_batch(k) for k in range(steps)]
    for step in range(first, steps):
        state, loss = adam(state, step, batches[step])
        losses.append(float(loss))
        whole = process_allgather(state, tiled=True)
        if jax.process_index() == 0:
            np.savez(folder / "new.npz", step=step + 1, **whole)
            os.replace(folder / "new.npz", path)
    return losses


# %% two files are renamed, one after the other exercise="11.8" score=0.5 diagnoses=["step-again"]
def train_or_resume(folder, mesh, read_batch, steps):
    from jax.experimental import multihost_utils

    file = folder / "state.npz"
    state, first = fresh_state(mesh), 0
    if file.exists():
        saved = np.load(file)
        first = int((folder / "step.txt").read_text()) + 1
        in_blocks = NamedSharding(mesh, P("x"))
        state = {
            name: jax.make_array_from_callback(
                (16,), in_blocks, lambda index, name=name: saved[name][index]
            )
            for name in NAMES
        }
    losses = []
    for k in range(first, steps):
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        whole = {n: multihost_utils.process_allgather(state[n], tiled=True) for n in NAMES}
        if jax.process_index() == 0:
            with open(folder / "new.npz", "wb") as out:
                np.savez(out, **whole)
            (folder / "new.txt").write_text(str(k))
            os.replace(folder / "new.npz", file)
            os.replace(folder / "new.txt", folder / "step.txt")
    return losses


# %% batches of 16 rows, as in the example exercise="11.5" score=0 diagnoses=["sixteen-rows"] near=["first-batch-again", "one-large-batch"]
def train(mesh, weights, rows, batch):
    sharding = NamedSharding(mesh, P("x"))
    weights = jax.device_put(weights, NamedSharding(mesh, P()))
    batch = 16
    for start in range(0, rows.shape[0], batch):

        def read(index):
            a, b, _ = index[0].indices(batch)
            return rows[start + a : start + b]

        weights = step(
            weights, jax.make_array_from_callback((batch, rows.shape[1]), sharding, read)
        )
    return np.asarray(weights)


# %% 64 rows, in batches of 16 exercise="11.5" score=0 diagnoses=["sixteen-rows"] near=["one-step-less", "values"]
def train(mesh, weights, rows, batch):
    sharding = NamedSharding(mesh, P("x"))
    for k in range(4):
        start = 16 * k

        def read(index):
            a, b, _ = index[0].indices(16)
            return rows[start + a : start + b]

        weights = step(weights, jax.make_array_from_callback((16, 5), sharding, read))
    return np.asarray(weights)


# %% replicas 0 and 1 are written exercise="11.6" score=0.5 diagnoses=["written-twice"] near=["numbered-from-zero"]
def save(folder, x):
    for s in x.addressable_shards:
        if s.replica_id < 2:
            a, b, _ = s.index[0].indices(x.shape[0])
            np.save(folder / f"{a}-{b}.npy", np.asarray(s.data))


def restore(folder, sharding, shape):
    def read(index):
        first, last, _ = index[0].indices(shape[0])
        parts = []
        for a, b, path in sorted((*map(int, p.stem.split("-")), p) for p in folder.glob("*.npy")):
            if a < last and b > first:
                parts.append(np.load(path, mmap_mode="r")[max(first - a, 0) : last - a])
        return np.concatenate(parts)[:, index[1]]

    return jax.make_array_from_callback(shape, sharding, read)


# %% the parts of a block in the order of names exercise="11.6" score=0.5 diagnoses=["sorted-as-text"] near=["restore: rows-exchanged", "restore: other-rows"]
def save(folder, x):
    for s in x.addressable_shards:
        if s.replica_id == 0:
            a, b, _ = s.index[0].indices(x.shape[0])
            np.save(folder / f"{a}-{b}.npy", np.asarray(s.data))


def restore(folder, sharding, shape):
    def read(index):
        first, last, _ = index[0].indices(shape[0])
        parts = []
        for a, b, path in ((*map(int, p.stem.split("-")), p) for p in sorted(folder.glob("*.npy"))):
            if a < last and b > first:
                parts.append(np.load(path, mmap_mode="r")[max(first - a, 0) : last - a])
        return np.concatenate(parts)[:, index[1]]

    return jax.make_array_from_callback(shape, sharding, read)


# %% a slice with a negative start exercise="11.6" score=0.5 diagnoses=["block-shape"] near=["restore: raised"]
def save(folder, x):
    for s in x.addressable_shards:
        if s.replica_id == 0:
            a, b, _ = s.index[0].indices(x.shape[0])
            np.save(folder / f"{a}-{b}.npy", np.asarray(s.data))


def restore(folder, sharding, shape):
    def read(index):
        first, last, _ = index[0].indices(shape[0])
        parts = []
        for a, b, path in sorted((*map(int, p.stem.split("-")), p) for p in folder.glob("*.npy")):
            if a < last and b > first:
                parts.append(np.load(path, mmap_mode="r")[first - a : last - a])
        return np.concatenate(parts)[:, index[1]]

    return jax.make_array_from_callback(shape, sharding, read)


# %% only the first file of a block exercise="11.6" score=0.5 diagnoses=["block-shape"] near=["restore: raised", "restore: whole-files-alone"]
def save(folder, x):
    for s in x.addressable_shards:
        if s.replica_id == 0:
            a, b, _ = s.index[0].indices(x.shape[0])
            np.save(folder / f"{a}-{b}.npy", np.asarray(s.data))


def restore(folder, sharding, shape):
    def read(index):
        first, last, _ = index[0].indices(shape[0])
        parts = []
        for a, b, path in sorted((*map(int, p.stem.split("-")), p) for p in folder.glob("*.npy")):
            if a < last and b > first:
                parts = parts or [np.load(path, mmap_mode="r")[max(first - a, 0) : last - a]]
        return np.concatenate(parts)[:, index[1]]

    return jax.make_array_from_callback(shape, sharding, read)


# %% the parts of a block backwards exercise="11.6" score=0.5 diagnoses=["rows-exchanged"] near=["restore: sorted-as-text", "restore: other-rows"]
def save(folder, x):
    for s in x.addressable_shards:
        if s.replica_id == 0:
            a, b, _ = s.index[0].indices(x.shape[0])
            np.save(folder / f"{a}-{b}.npy", np.asarray(s.data))


def restore(folder, sharding, shape):
    def read(index):
        first, last, _ = index[0].indices(shape[0])
        parts = []
        for a, b, path in (
            (*map(int, p.stem.split("-")), p)
            for p in sorted(folder.glob("*.npy"), key=lambda p: -int(p.stem.split("-")[0]))
        ):
            if a < last and b > first:
                parts.append(np.load(path, mmap_mode="r")[max(first - a, 0) : last - a])
        return np.concatenate(parts)[:, index[1]]

    return jax.make_array_from_callback(shape, sharding, read)


# %% a checkpoint after every second step exercise="11.8" score=0 diagnoses=["last-step-again", "not-counted-yet"] near=["begins-anew", "step-again"]
def train_or_resume(folder, mesh, read_batch, steps):
    from jax.experimental import multihost_utils

    path, begin, state = folder / "state.npz", 0, fresh_state(mesh)
    if path.exists():
        with np.load(path) as saved:
            begin = int(saved["step"])
            state = {n: jax.device_put(saved[n], NamedSharding(mesh, P("x"))) for n in NAMES}
    losses = []
    for k in range(begin, steps):
        state, loss = adam(state, k, read_batch(k))
        losses.append(float(loss))
        whole = {n: multihost_utils.process_allgather(state[n], tiled=True) for n in NAMES}
        if k % 2 == 1 and jax.process_index() == 0:
            with open(folder / "new.npz", "wb") as file:
                np.savez(file, step=k + 1, **whole)
            os.replace(folder / "new.npz", path)
    return losses


# %% the state before its step exercise="11.8" score=0 diagnoses=["step-skipped", "not-counted-yet"]
def train_or_resume(folder, mesh, read_batch, steps):
    everywhere = NamedSharding(mesh, P())
    in_blocks = NamedSharding(mesh, P("x"))
    collect = jax.jit(lambda state: state, out_shardings=everywhere)
    done = sorted(int(path.stem) for path in folder.glob("*.npz"))
    first, state = 0, fresh_state(mesh)
    if done:
        first = done[-1] + 1
        with np.load(folder / f"{done[-1]}.npz") as saved:
            state = {
                name: jax.make_array_from_callback((16,), in_blocks, lambda i, a=saved[name]: a[i])
                for name in NAMES
            }
    losses = []
    for k in range(first, steps):
        before = state
        state, value = adam(state, k, read_batch(k))
        losses.append(float(value))
        whole = {name: np.asarray(a.addressable_data(0)) for name, a in collect(before).items()}
        if jax.process_index() == 0:
            with open(folder / f"{k}.tmp", "wb") as file:
                np.savez(file, **whole)
            os.replace(folder / f"{k}.tmp", folder / f"{k}.npz")
    return losses
