# %% [markdown]
# Known answers to the exercises of notebook 01. A cell stands below what the exercise's cell was
# handed out with, so an answer that raises did not finish.

# %% the columns through a mesh of three axes exercise="1.1" score=1
small = jax.make_mesh((2, 2, 2), ("a", "b", "c"), axis_types=(AxisType.Auto,) * 3)
columns = jax.device_put(x, NamedSharding(small, P(None, ("a", "b", "c"))))

# %% rows exercise="1.1" score=0 diagnoses=["transposed"]
columns = jax.device_put(x, NamedSharding(line, P("x")))

# %% rows, written out exercise="1.1" score=0 diagnoses=["transposed"]
columns = jax.device_put(x, NamedSharding(line, P("x", None)))

# %% a copy on every device exercise="1.1" score=0 diagnoses=["replicated"] near=["replicated-dimension"]
columns = jax.device_put(x, NamedSharding(line, P(None, None)))

# %% the array as it was exercise="1.1" score=0 diagnoses=["one-device"] naive=true
columns = x

# %% the sharding instead of the array exercise="1.1" score=0 diagnoses=["sharding-for-array"]
columns = NamedSharding(line, P(None, "x"))

# %% the array transposed, and cut into rows exercise="1.1" score=0 diagnoses=["values"] near=["transposed"]
columns = jax.device_put(x.T, NamedSharding(line, P(None, "x")))

# %% NumPy exercise="1.1" score=0 diagnoses=["numpy"]
columns = np.asarray(x)

# %% a grid of 4 by 2 exercise="1.1" score=0 diagnoses=["grid"]
four_by_two = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
columns = jax.device_put(x, NamedSharding(four_by_two, P("x", "y")))

# %% only one axis of a grid exercise="1.1" score=0 diagnoses=["replicated-dimension"] near=["replicated", "grid"]
four_by_two = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
columns = jax.device_put(x, NamedSharding(four_by_two, P(None, "x")))

# %% four strips on half of the devices exercise="1.1" score=0 diagnoses=["devices-unused"] near=["one-device", "grid"]
half = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,), devices=jax.devices()[:4])
columns = jax.device_put(x, NamedSharding(half, P(None, "x")))

# %% integers in place of floats, in columns exercise="1.1" score=0 diagnoses=["dtype"] near=["values"]
columns = jax.device_put(jnp.arange(256).reshape(16, 16), NamedSharding(line, P(None, "x")))

# %% eight arrays in a list exercise="1.1" score=0 diagnoses=["several-arrays"]
parts = np.split(np.asarray(x), 8, axis=1)
columns = [jax.device_put(part, device) for part, device in zip(parts, jax.devices())]

# %% from NumPy, and made a float once more exercise="1.1" score=1 near=["numpy", "dtype"]
columns = jax.device_put(np.asarray(x).astype(np.float32), NamedSharding(line, P(None, "x")))

# %% made of its eight parts, for a sharding exercise="1.1" score=1 near=["type", "sharding-for-array"]
in_columns = NamedSharding(line, P(None, "x"))
columns = jax.make_array_from_callback(x.shape, in_columns, lambda index: np.asarray(x)[index])

# %% Mesh in place of make_mesh exercise="1.2" score=1
wide = Mesh(np.array(jax.devices()).reshape(2, 4), ("rows", "columns"))
blocks = NamedSharding(wide, P("rows", "columns"))

# %% an array instead of the sharding exercise="1.2" score=1 near=["replicated-dimension"]
wide = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
blocks = jax.device_put(x, NamedSharding(wide, P("x", "y")))

# %% the mesh of the example exercise="1.2" score=0 diagnoses=["grid"] near=["transposed", "device-order"]
wide = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
blocks = NamedSharding(wide, P("x", "y"))

# %% the mesh of the example, turned exercise="1.2" score=0 diagnoses=["device-order"] near=["grid"]
wide = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
blocks = NamedSharding(wide, P("y", "x"))

# %% the right mesh, turned exercise="1.2" score=0 diagnoses=["transposed"]
wide = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
blocks = NamedSharding(wide, P("y", "x"))

# %% only one axis named exercise="1.2" score=0 diagnoses=["replicated-dimension"] near=["one-device", "spec-alone", "mesh-alone"]
wide = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
blocks = NamedSharding(wide, P("x"))

# %% an array that was never placed exercise="1.2" score=0 diagnoses=["one-device"] naive=true
blocks = x.reshape(16, 16)

# %% the spec alone exercise="1.2" score=0 diagnoses=["spec-alone"]
blocks = P("x", "y")

# %% the mesh alone exercise="1.2" score=0 diagnoses=["mesh-alone"]
blocks = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)

# %% a new mesh with its devices in another order exercise="1.3" score=1
turned = NamedSharding(Mesh(np.array(jax.devices()).reshape(2, 4).T, ("x", "y")), P("x", "y"))

# %% nothing turned exercise="1.3" score=0 diagnoses=["transposed"] naive=true near=["device-order", "grid"]
wide = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
turned = NamedSharding(wide, P("x", "y"))

# %% a mesh of 4 by 2 exercise="1.3" score=0 diagnoses=["device-order"] near=["transposed"]
turned = NamedSharding(grid, P("x", "y"))

# %% names exchanged in the mesh and in the spec exercise="1.3" score=0 diagnoses=["transposed"]
wide = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
turned = NamedSharding(Mesh(wide.devices, ("y", "x")), P("y", "x"))

# %% one axis only exercise="1.3" score=0 diagnoses=["replicated-dimension"]
wide = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
turned = NamedSharding(wide, P("y"))

# %% the same axis twice, which raises exercise="1.3" score=0 diagnoses=["did-not-finish"]
turned = NamedSharding(grid, P("x", "x"))

# %% both axes on one dimension exercise="1.3" score=0 diagnoses=["grid"] near=["replicated-dimension", "transposed"]
wide = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
turned = NamedSharding(wide, P(("y", "x"), None))

# %% the transposed array, laid out as before exercise="1.3" score=0 diagnoses=["transposed"]
wide = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
turned = jax.device_put(x.T, NamedSharding(wide, P("x", "y")))

# %% the devices turned by a quarter exercise="1.3" score=0 diagnoses=["device-order"]
turned = NamedSharding(Mesh(np.rot90(np.array(devices).reshape(2, 4)), ("x", "y")), P("x", "y"))

# %% Mesh with chosen devices exercise="1.4" score=1
evens = np.array([d for d in jax.devices() if d.id % 2 == 0]).reshape(2, 2)
spread = jax.device_put(x, NamedSharding(Mesh(evens, ("a", "b")), P("a", "b")))

# %% all the devices exercise="1.4" score=0 diagnoses=["devices-extra"] near=["grid", "other-devices"]
spread = jax.device_put(x, NamedSharding(grid, P("x", "y")))

# %% the first four exercise="1.4" score=0 diagnoses=["other-devices"] near=["devices-extra", "device-order"]
four = jax.make_mesh(
    (2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2, devices=jax.devices()[:4]
)
spread = jax.device_put(x, NamedSharding(four, P("x", "y")))

# %% turned exercise="1.4" score=0 diagnoses=["transposed"]
four = jax.make_mesh(
    (2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2, devices=jax.devices()[::2]
)
spread = jax.device_put(x, NamedSharding(four, P("y", "x")))

# %% rows over the right four exercise="1.4" score=0 diagnoses=["grid"]
four = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,), devices=jax.devices()[::2])
spread = jax.device_put(x, NamedSharding(four, P("x")))

# %% copies on the right four exercise="1.4" score=0 diagnoses=["replicated"] near=["one-device"]
four = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,), devices=jax.devices()[::2])
spread = jax.device_put(x, NamedSharding(four, P()))

# %% on one device exercise="1.4" score=0 diagnoses=["one-device"] naive=true
spread = jax.device_put(x, jax.devices()[2])

# %% integers in place of floats exercise="1.4" score=0 diagnoses=["dtype"]
four = jax.make_mesh(
    (2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2, devices=jax.devices()[::2]
)
spread = jax.device_put(x.astype(int), NamedSharding(four, P("x", "y")))

# %% the right four in another order exercise="1.4" score=0 diagnoses=["device-order"] near=["transposed"]
some = np.array(jax.devices())[[0, 4, 6, 2]].reshape(2, 2)
spread = jax.device_put(x, NamedSharding(Mesh(some, ("x", "y")), P("x", "y")))

# %% a mesh of three axes exercise="1.5" score=1 near=["replicated-dimension"]
bits = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Explicit,) * 3)
mystery = NamedSharding(bits, P(("z", "x"), "y"))

# %% the transposed mesh, turned exercise="1.5" score=1
order = np.array(jax.devices())[[0, 2, 4, 6, 1, 3, 5, 7]].reshape(4, 2).T
mystery = NamedSharding(Mesh(order, ("a", "b")), P("b", "a"))

# %% 4 by 2 in plain order exercise="1.5" score=0 diagnoses=["device-order"] naive=true near=["grid", "transposed"]
mystery = NamedSharding(grid, P("x", "y"))

# %% 2 by 4, turned exercise="1.5" score=0 diagnoses=["device-order"] near=["pairs-exchanged"]
mystery = NamedSharding(
    jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2), P("y", "x")
)

# %% the right mesh, turned exercise="1.5" score=0 diagnoses=["transposed"] near=["device-order"]
order = np.array(jax.devices())[[0, 2, 4, 6, 1, 3, 5, 7]].reshape(4, 2)
mystery = NamedSharding(Mesh(order, ("x", "y")), P("y", "x"))

# %% the right devices in 2 by 4 exercise="1.5" score=0 diagnoses=["grid"] near=["rows-in-plain-order"]
order = np.array(jax.devices())[[0, 2, 4, 6, 1, 3, 5, 7]].reshape(2, 4)
mystery = NamedSharding(Mesh(order, ("x", "y")), P("x", "y"))

# %% devices sorted by their ids, in rows exercise="1.5" score=0 diagnoses=["rows-in-plain-order"]
order = np.array(sorted(jax.devices()[::-1], key=lambda device: device.id))
mystery = NamedSharding(Mesh(order, ("x",)), P("x", None))

# %% three axes, the tuple reversed exercise="1.5" score=0 diagnoses=["pairs-exchanged"] near=["device-order"]
bits = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Explicit,) * 3)
mystery = NamedSharding(bits, P(("x", "z"), "y"))

# %% three axes of which one is left out exercise="1.5" score=0 diagnoses=["replicated-dimension"]
bits = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Explicit,) * 3)
mystery = NamedSharding(bits, P("x", "y"))

# %% an array laid out so exercise="1.5" score=1
order = np.array(jax.devices())[[0, 2, 4, 6, 1, 3, 5, 7]].reshape(4, 2)
mystery = jax.device_put(x, NamedSharding(Mesh(order, ("x", "y")), P("x", "y")))

# %% plain meshes with one axis each exercise="1.6" score=1
first = NamedSharding(line, P("x"))
second = NamedSharding(Mesh(np.array(jax.devices())[[0, 2, 4, 6, 1, 3, 5, 7]], ("x",)), P("x"))

# %% swapped exercise="1.6" score=0 diagnoses=["the-other-one"] near=["device-order"]
first = NamedSharding(grid, P(("y", "x")))
second = NamedSharding(grid, P(("x", "y")))

# %% twice the same exercise="1.6" score=0.3333333333 diagnoses=["the-other-one"] naive=true
first = NamedSharding(grid, P(("x", "y")))
second = NamedSharding(grid, P(("x", "y")))

# %% one axis each exercise="1.6" score=0 diagnoses=["replicated-dimension"] near=["does-not-fit", "replicated"]
first = NamedSharding(grid, P("x"))
second = NamedSharding(grid, P("y"))

# %% copies everywhere exercise="1.6" score=0 diagnoses=["replicated"] near=["replicated-dimension"]
first = NamedSharding(grid, P())
second = NamedSharding(grid, P(None))

# %% two entries in place of a tuple exercise="1.6" score=0 diagnoses=["does-not-fit"] near=["device-order"]
first = NamedSharding(grid, P("x", "y"))
second = NamedSharding(grid, P("y", "x"))

# %% the second not done yet exercise="1.6" score=0.3333333333 diagnoses=["unanswered"]
first = NamedSharding(grid, P(("x", "y")))

# %% one axis twice, which raises before the second exercise="1.6" score=0.3333333333 diagnoses=["did-not-finish"]
first = NamedSharding(grid, P(("x", "y")))
second = NamedSharding(grid, P(("x", "x")))


# %% the devices backwards exercise="1.6" score=0 diagnoses=["device-order"] near=["the-other-one"]
backwards = Mesh(np.array(jax.devices())[::-1], ("x",))
first = NamedSharding(backwards, P("x"))
second = NamedSharding(backwards, P("x"))


# %% asking JAX exercise="1.7" score=1
def sharding(spec, axes):
    count = int(np.prod(list(axes.values())))
    devices = np.array(jax.devices()[:count]).reshape(*axes.values())
    return NamedSharding(Mesh(devices, tuple(axes)), P(*spec))


def shard_shape(shape, spec, axes):
    return sharding(spec, axes).shard_shape(shape)


def bytes_total(shape, itemsize, spec, axes):
    block = np.prod(shard_shape(shape, spec, axes))
    return block * itemsize * len(sharding(spec, axes).device_set)


def holders(index, shape, spec, axes):
    everything = np.zeros(shape)
    found = set()
    for device, part in sharding(spec, axes).devices_indices_map(shape).items():
        everything[:] = 0
        everything[part] = 1
        if everything[index]:
            found.add(device.id)
    return found


# %% forgets that copies take memory exercise="1.7" score=0.6666666666666666 diagnoses=["forgot-copies"]
def names(entry):
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


def shard_shape(shape, spec, axes):
    return [s // int(np.prod([axes[n] for n in names(e)])) for s, e in zip(shape, spec)]


def bytes_total(shape, itemsize, spec, axes):
    return int(np.prod(shape)) * itemsize


def holders(index, shape, spec, axes):
    out = []
    block = shard_shape(shape, spec, axes)
    for d, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        number = [0] * len(spec)
        for i, e in enumerate(spec):
            for n in names(e):
                number[i] = number[i] * axes[n] + at[n]
        if all(i // b == n for i, b, n in zip(index, block, number)):
            out.append(d)
    return out


# %% the mesh's sizes without the spec exercise="1.7" score=0 diagnoses=["every-axis", "always-copied", "unanswered"]
def shard_shape(shape, spec, axes):
    return tuple(size // n for size, n in zip(shape, axes.values()))


def bytes_total(shape, itemsize, spec, axes):
    return itemsize * int(np.prod(shape)) * int(np.prod(list(axes.values())))


# %% dividing with one slash exercise="1.7" score=0 diagnoses=["true-division", "unanswered"]
def shard_shape(shape, spec, axes):
    parts = []
    for size, entry in zip(shape, spec):
        names = (entry,) if isinstance(entry, str) else entry or ()
        parts.append(size / np.prod([axes[name] for name in names]))
    return parts


# %% global shape, one device's bytes, the first holder exercise="1.7" score=0 diagnoses=["whole-shape", "one-device-only", "first-holder-only"]
def _sharding(spec, axes):
    count = int(np.prod(list(axes.values())))
    devices = np.array(jax.devices()[:count]).reshape(*axes.values())
    return NamedSharding(Mesh(devices, tuple(axes)), P(*spec))


def shard_shape(shape, spec, axes):
    return shape


def bytes_total(shape, itemsize, spec, axes):
    return int(np.prod(_sharding(spec, axes).shard_shape(shape))) * itemsize


def holders(index, shape, spec, axes):
    for device, part in _sharding(spec, axes).devices_indices_map(shape).items():
        if all(i in range(size)[p] for i, size, p in zip(index, shape, part)):
            return [device.id]


# %% every named dimension by all devices, elements for bytes, tuples reversed exercise="1.7" score=0 diagnoses=["all-devices", "forgot-itemsize", "names-reversed"]
def _sharding(spec, axes):
    count = int(np.prod(list(axes.values())))
    devices = np.array(jax.devices()[:count]).reshape(*axes.values())
    return NamedSharding(Mesh(devices, tuple(axes)), P(*spec))


def shard_shape(shape, spec, axes):
    everyone = int(np.prod(list(axes.values())))
    return tuple(size if entry is None else size // everyone for size, entry in zip(shape, spec))


def bytes_total(shape, itemsize, spec, axes):
    block = _sharding(spec, axes).shard_shape(shape)
    return int(np.prod(block)) * int(np.prod(list(axes.values())))


def holders(index, shape, spec, axes):
    turned = [entry[::-1] if isinstance(entry, tuple) else entry for entry in spec]
    where = _sharding(turned, axes).devices_indices_map(shape)
    return [
        device.id
        for device, part in where.items()
        if all(i in range(size)[p] for i, size, p in zip(index, shape, part))
    ]


# %% devices numbered down the columns exercise="1.7" score=0 diagnoses=["unanswered", "mesh-by-columns"] near=["numbered-by-the-spec"]
def holders(index, shape, spec, axes):
    sizes = tuple(axes.values())
    count = int(np.prod(sizes))
    devices = np.array(jax.devices()[:count]).reshape(sizes[::-1]).T
    where = NamedSharding(Mesh(devices, tuple(axes)), P(*spec)).devices_indices_map(shape)
    return sorted(
        device.id
        for device, part in where.items()
        if all(i in range(size)[p] for i, size, p in zip(index, shape, part))
    )


# %% an error in one of three exercise="1.7" score=0 diagnoses=["raised", "unanswered"]
def shard_shape(shape, spec, axes):
    return tuple(size // axes[name] for size, name in zip(shape, spec))


# %% numbers in place of functions exercise="1.7" score=0 diagnoses=["not-a-function"]
shard_shape, bytes_total, holders = (4, 16), 2048, [2, 3]


# %% of a tuple the first name alone exercise="1.7" score=0 diagnoses=["first-name-only"] near=["tuples-left-out", "names-reversed", "all-devices", "sizes-added"]
def first(entry):
    return entry[0] if isinstance(entry, tuple) else entry


def shard_shape(shape, spec, axes):
    return [n if e is None else n // axes[first(e)] for n, e in zip(shape, spec)]


def bytes_total(shape, itemsize, spec, axes):
    block = int(np.prod(shard_shape(shape, spec, axes)))
    return block * int(np.prod(list(axes.values()))) * itemsize


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = [0 if e is None else at[first(e)] for e in spec]
        if all(i // size == number for i, size, number in zip(index, block, mine)):
            found.append(device)
    return found


# %% tuples taken for none exercise="1.7" score=0 diagnoses=["tuples-left-out"] near=["first-name-only", "whole-shape", "always-copied"]
def shard_shape(shape, spec, axes):
    return [n // axes[e] if isinstance(e, str) else n for n, e in zip(shape, spec)]


def bytes_total(shape, itemsize, spec, axes):
    block = int(np.prod(shard_shape(shape, spec, axes)))
    return block * int(np.prod(list(axes.values()))) * itemsize


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = [at[e] if isinstance(e, str) else 0 for e in spec]
        if all(i // size == number for i, size, number in zip(index, block, mine)):
            found.append(device)
    return found


# %% the sizes of a tuple's axes added exercise="1.7" score=0 diagnoses=["sizes-added"]
def names(entry):
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


def shard_shape(shape, spec, axes):
    return tuple(n // (sum(axes[name] for name in names(e)) or 1) for n, e in zip(shape, spec))


def bytes_total(shape, itemsize, spec, axes):
    block = int(np.prod(shard_shape(shape, spec, axes)))
    return block * int(np.prod(list(axes.values()))) * itemsize


def holders(index, shape, spec, axes):
    found = []
    for number, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = True
        for i, block, entry in zip(index, shard_shape(shape, spec, axes), spec):
            which = 0
            for name in names(entry):
                which = which * axes[name] + at[name]
            mine = mine and i // block == which
        if mine:
            found.append(number)
    return found


# %% devices numbered by the spec's order of axes exercise="1.7" score=0 diagnoses=["unanswered", "numbered-by-the-spec"] near=["mesh-by-columns"]
def holders(index, shape, spec, axes):
    entries = [(e,) if isinstance(e, str) else e or () for e in spec]
    named = [name for entry in entries for name in entry]
    order = named + [name for name in axes if name not in named]
    found = []
    for number, place in enumerate(np.ndindex(*(axes[name] for name in order))):
        at = dict(zip(order, place))
        mine = True
        for i, size, entry in zip(index, shape, entries):
            which, count = 0, 1
            for name in entry:
                which, count = which * axes[name] + at[name], count * axes[name]
            mine = mine and i // (size // count) == which
        if mine:
            found.append(number)
    return found


# %% the example written in exercise="1.7" score=0 diagnoses=["the-example"] near=["whole-shape", "first-holder-only"]
def shard_shape(shape, spec, axes):
    return (4, 16)


def bytes_total(shape, itemsize, spec, axes):
    return 2048


def holders(index, shape, spec, axes):
    return [2, 3]


# %% eight devices, and holders by coordinates exercise="1.7" score=0.3333333333 diagnoses=["eight-devices", "by-coordinates"] near=["every-axis", "forgot-copies", "one-device-only", "mesh-by-columns", "counted-from-one"]
def names(entry):
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


def shard_shape(shape, spec, axes):
    return [s // int(np.prod([axes[n] for n in names(e)])) for s, e in zip(shape, spec)]


def bytes_total(shape, itemsize, spec, axes):
    return 8 * int(np.prod(shard_shape(shape, spec, axes))) * itemsize


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for place in np.ndindex(*axes.values()):
        at = dict(zip(axes, place))
        mine = [0] * len(spec)
        for i, entry in enumerate(spec):
            for name in names(entry):
                mine[i] = mine[i] * axes[name] + at[name]
        if all(i // size == number for i, size, number in zip(index, block, mine)):
            found.append(place)
    return found


# %% bytes by true division, holders from the last to the first exercise="1.7" score=0.3333333333 diagnoses=["true-division", "last-first"] near=["forgot-itemsize", "eight-devices", "by-coordinates", "one-number"]
def names(entry):
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


def shard_shape(shape, spec, axes):
    return [s // int(np.prod([axes[n] for n in names(e)])) for s, e in zip(shape, spec)]


def bytes_total(shape, itemsize, spec, axes):
    parts = [s / np.prod([axes[n] for n in names(e)]) for s, e in zip(shape, spec)]
    return float(np.prod(parts) * np.prod(list(axes.values())) * itemsize)


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = [0] * len(spec)
        for i, entry in enumerate(spec):
            for name in names(entry):
                mine[i] = mine[i] * axes[name] + at[name]
        if all(i // size == number for i, size, number in zip(index, block, mine)):
            found.insert(0, device)
    return found


# %% one holder, as a number exercise="1.7" score=0 diagnoses=["unanswered", "one-number"] near=["the-example"]
def holders(index, shape, spec, axes):
    sizes = tuple(axes.values())
    grid = np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes)
    where = NamedSharding(Mesh(grid, tuple(axes)), P(*spec)).devices_indices_map(shape)
    for device, part in where.items():
        if all(i in range(size)[p] for i, size, p in zip(index, shape, part)):
            return device.id


# %% devices counted from one exercise="1.7" score=0 diagnoses=["unanswered", "counted-from-one"] near=["last-first"]
def holders(index, shape, spec, axes):
    sizes = tuple(axes.values())
    grid = np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes)
    where = NamedSharding(Mesh(grid, tuple(axes)), P(*spec)).devices_indices_map(shape)
    return [
        device.id + 1
        for device, part in where.items()
        if all(i in range(size)[p] for i, size, p in zip(index, shape, part))
    ]


# %% in NumPy's own numbers, with a set of holders exercise="1.7" score=1 near=["true-division"]
def _cuts(spec, axes):
    for entry in spec:
        yield [] if entry is None else [entry] if isinstance(entry, str) else list(entry)


def shard_shape(shape, spec, axes):
    cuts = [np.prod([axes[n] for n in names], dtype=int) for names in _cuts(spec, axes)]
    return np.array(shape) // np.array(cuts)


def bytes_total(shape, itemsize, spec, axes):
    return np.prod(shard_shape(shape, spec, axes)) * np.prod(list(axes.values())) * itemsize


def holders(index, shape, spec, axes):
    place = np.indices(tuple(axes.values())).reshape(len(axes), -1)
    mine = np.ones(place.shape[1], bool)
    for i, size, names in zip(index, shard_shape(shape, spec, axes), _cuts(spec, axes)):
        number = np.zeros(place.shape[1], int)
        for name in names:
            number = number * axes[name] + place[list(axes).index(name)]
        mine &= number == i // size
    return set(np.flatnonzero(mine).tolist())


# %% an object that can be called, and an error that is caught exercise="1.7" score=0.6666666666666666 diagnoses=["forgot-copies"] near=["not-a-function", "raised"]
class Shape:
    def __call__(self, shape, spec, axes):
        found = []
        for size, entry in zip(shape, spec):
            try:
                found.append(size // axes[entry])
            except (KeyError, TypeError):
                names = () if entry is None else entry
                found.append(size // int(np.prod([axes[name] for name in names])))
        return tuple(found)


shard_shape = Shape()


def bytes_total(shape, itemsize, spec, axes):
    return itemsize * int(np.prod(shape))


def holders(index, shape, spec, axes):
    mesh = np.arange(int(np.prod(list(axes.values())))).reshape(tuple(axes.values()))
    mine = np.ones(mesh.shape, bool)
    places = dict(zip(axes, np.indices(mesh.shape)))
    for i, size, entry in zip(index, shard_shape(shape, spec, axes), spec):
        number = 0
        for name in () if entry is None else (entry,) if isinstance(entry, str) else entry:
            number = number * axes[name] + places[name]
        mine &= number == i // size
    return mesh[mine].tolist()


# %% a mesh of three axes for both exercise="1.8" score=1
cubes = jax.make_mesh((2, 2, 2), ("a", "b", "c"), axis_types=(AxisType.Explicit,) * 3)
slabs = NamedSharding(cubes, P(("a", "b", "c")))
pencils = NamedSharding(cubes, P(("a", "b"), "c"))

# %% the transformed dimension cut exercise="1.8" score=0 diagnoses=["transposed"] near=["grid"]
slabs = NamedSharding(line, P(None, None, "x"))
pencils = NamedSharding(grid, P("x", None, "y"))

# %% slabs on the grid, so copied exercise="1.8" score=0.5 diagnoses=["replicated-dimension"] near=["replicated"]
slabs = NamedSharding(grid, P("x"))
pencils = NamedSharding(grid, P("x", "y"))

# %% pencils on a grid of 2 by 4 exercise="1.8" score=0.5 diagnoses=["grid"]
slabs = NamedSharding(line, P("x"))
pencils = NamedSharding(
    jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2), P("x", "y")
)

# %% pencils turned exercise="1.8" score=0.5 diagnoses=["transposed"] near=["device-order"]
slabs = NamedSharding(line, P("x"))
pencils = NamedSharding(grid, P("y", "x"))

# %% copies everywhere exercise="1.8" score=0 diagnoses=["replicated"] naive=true near=["replicated-dimension"]
slabs = NamedSharding(line, P())
pencils = NamedSharding(grid, P())

# %% the devices in another order exercise="1.8" score=0.5 diagnoses=["device-order"] near=["transposed"]
slabs = NamedSharding(grid, P(("y", "x")))
pencils = NamedSharding(grid, P("x", "y"))

# %% each for the other exercise="1.8" score=0 diagnoses=["pencils", "slabs"] near=["transposed", "grid"]
slabs = NamedSharding(grid, P("x", "y"))
pencils = NamedSharding(line, P("x"))

# %% along another dimension exercise="1.8" score=0 diagnoses=["transposed"] near=["pencils", "slabs"]
slabs = NamedSharding(line, P(None, "x"))
pencils = NamedSharding(grid, P("x", None, "y"))


# %% in another way: jit exercise="1.1" score=1
columns = jax.jit(lambda a: a, out_shardings=NamedSharding(line, P(None, "x")))(x)


# %% in another way: positional exercise="1.1" score=1
columns = jax.device_put(
    np.asarray(x), jax.sharding.NamedSharding(Mesh(jax.devices(), "q"), P(None, ("q",)))
)


# %% in another way: numpy exercise="1.7" score=1 near=["last-name-only", "multiplied", "number-of-blocks", "one-too-few", "every-name-everywhere", "elements-of-a-block", "backwards", "first-axis-for-all", "copied-along-named-axes", "blocks-counted", "sizes-of-the-mesh-added", "axes-counted", "bits", "elements", "largest-axis", "how-many", "all-holders", "first-dimension-alone", "any-dimension", "block-number", "place-in-the-block", "counted-off-by-one", "numbers-added"]
def shard_shape(shape, spec, axes):
    parts = [np.prod([axes[a] for a in np.atleast_1d(e)] if e else 1, dtype=int) for e in spec]
    return tuple(np.array(shape) // np.array(parts))


def bytes_total(shape, itemsize, spec, axes):
    used = [a for e in spec if e for a in ((e,) if isinstance(e, str) else e)]
    copies = int(np.prod([k for a, k in axes.items() if a not in used], dtype=int))
    return int(np.prod(shape)) * itemsize * copies


def holders(index, shape, spec, axes):
    ids = np.arange(int(np.prod(list(axes.values())))).reshape(tuple(axes.values()))
    take = {}
    for i, n, e in zip(index, shape, spec):
        names = () if e is None else ((e,) if isinstance(e, str) else e)
        k = int(np.prod([axes[a] for a in names])) if names else 1
        b = i // (n // k)
        for a in reversed(names):
            b, r = divmod(b, axes[a])
            take[a] = r
    return ids[tuple(take.get(a, slice(None)) for a in axes)].ravel().tolist()


# %% number of blocks; sum of axes; block number for holders exercise="1.7" score=0 diagnoses=["number-of-blocks", "sizes-of-the-mesh-added", "block-number"] near=["block-coordinates"]
def shard_shape(shape, spec, axes):
    out = []
    for n, e in zip(shape, spec):
        k = 1
        for name in [e] if isinstance(e, str) else e or ():
            k *= axes[name]
        out.append(k)
    return tuple(out)


def bytes_total(shape, itemsize, spec, axes):
    block = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n //= axes[name]
        block.append(n)
    return int(np.prod(block)) * sum(axes.values()) * itemsize


def holders(index, shape, spec, axes):
    block = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n //= axes[name]
        block.append(n)
    return [index[0] // block[0]]


# %% list; bytes of named axes only; holders modulo exercise="1.7" score=0.3333333333 diagnoses=["copied-along-named-axes", "place-in-the-block"]
def shard_shape(shape, spec, axes):
    out = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n //= axes[name]
        out.append(n)
    return out


def bytes_total(shape, itemsize, spec, axes):
    total = itemsize
    for n in shape:
        total *= n
    for e in spec:
        for name in [e] if isinstance(e, str) else e or ():
            total *= axes[name]
    return total


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = []
        for e in spec:
            number = 0
            for name in [e] if isinstance(e, str) else e or ():
                number = number * axes[name] + at[name]
            mine.append(number)
        if all(i % size == number for i, size, number in zip(index, block, mine)):
            found.append(device)
    return found


# %% multiplies; block bytes times blocks; holders all exercise="1.7" score=0 diagnoses=["multiplied", "other-result", "all-holders"]
def shard_shape(shape, spec, axes):
    out = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n *= axes[name]
        out.append(n)
    return tuple(out)


def bytes_total(shape, itemsize, spec, axes):
    import math

    return math.prod(shape) // math.prod(shard_shape(shape, spec, axes)) * itemsize


def holders(index, shape, spec, axes):
    import math

    return list(range(math.prod(axes.values())))


# %% by bits; holders first dim only exercise="1.7" score=0.3333333333 diagnoses=["bits", "first-dimension-alone"]
def shard_shape(shape, spec, axes):
    out = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n //= axes[name]
        out.append(n)
    return tuple(out)


def bytes_total(shape, itemsize, spec, axes):
    import math

    return math.prod(shard_shape(shape, spec, axes)) * math.prod(axes.values()) * itemsize * 8


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = []
        for e in spec:
            number = 0
            for name in [e] if isinstance(e, str) else e or ():
                number = number * axes[name] + at[name]
            mine.append(number)
        if index[0] // block[0] == mine[0]:
            found.append(device)
    return found


# %% product number; bytes none; holders strings exercise="1.7" score=0 diagnoses=["elements-of-a-block", "elements", "raised"]
def shard_shape(shape, spec, axes):
    out = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n //= axes[name]
        out.append(n)
    return int(np.prod(out))


def bytes_total(shape, itemsize, spec, axes):
    return np.prod(shape)


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = []
        for e in spec:
            number = 0
            for name in [e] if isinstance(e, str) else e or ():
                number = number * axes[name] + at[name]
            mine.append(number)
        if all(i // size == number for i, size, number in zip(index, block, mine)):
            found.append(place)
    return found


# %% blocks for bytes, and holders by any dimension exercise="1.7" score=0.3333333333 diagnoses=["blocks-counted", "any-dimension"]
def shard_shape(shape, spec, axes):
    out = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n //= axes[name]
        out.append(n)
    return tuple(out)


def bytes_total(shape, itemsize, spec, axes):
    blocks = 1
    for size, own in zip(shape, shard_shape(shape, spec, axes)):
        blocks *= size // own
    return blocks * itemsize


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = []
        for e in spec:
            number = 0
            for name in [e] if isinstance(e, str) else e or ():
                number = number * axes[name] + at[name]
            mine.append(number)
        if any(i // size == number for i, size, number in zip(index, block, mine)):
            found.append(device)
    return found


# %% axes counted, and indices from one exercise="1.7" score=0.3333333333 diagnoses=["axes-counted", "counted-off-by-one"]
def shard_shape(shape, spec, axes):
    out = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n //= axes[name]
        out.append(n)
    return tuple(out)


def bytes_total(shape, itemsize, spec, axes):
    import math

    return math.prod(shard_shape(shape, spec, axes)) * len(axes) * itemsize


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = []
        for e in spec:
            number = 0
            for name in [e] if isinstance(e, str) else e or ():
                number = number * axes[name] + at[name]
            mine.append(number)
        if all((i - 1) // size == number for i, size, number in zip(index, block, mine)):
            found.append(device)
    return found


# %% the longest axis, and places added exercise="1.7" score=0.3333333333 diagnoses=["largest-axis", "numbers-added"]
def shard_shape(shape, spec, axes):
    out = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n //= axes[name]
        out.append(n)
    return tuple(out)


def bytes_total(shape, itemsize, spec, axes):
    import math

    return math.prod(shard_shape(shape, spec, axes)) * max(axes.values()) * itemsize


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = []
        for e in spec:
            number = 0
            for name in [e] if isinstance(e, str) else e or ():
                number = number + at[name]
            mine.append(number)
        if all(i // size == number for i, size, number in zip(index, block, mine)):
            found.append(device)
    return found


# %% ceil; copies only along axes of first None; holders wrong block exercise="1.7" score=0 diagnoses=["last-name-only", "other-result"]
def shard_shape(shape, spec, axes):
    return tuple(
        n // axes.get(e, 1) if not isinstance(e, tuple) else n // axes[e[-1]]
        for n, e in zip(shape, spec)
    )


def bytes_total(shape, itemsize, spec, axes):
    total = itemsize
    for n in shape:
        total *= n
    used = {name for e in spec if e for name in ([e] if isinstance(e, str) else e)}
    for name in axes:
        if name not in used:
            total += axes[name]
    return total


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = []
        for e in spec:
            number = 0
            for name in [e] if isinstance(e, str) else e or ():
                number = number + at[name]
            mine.append(number)
        if all(i // size == number for i, size, number in zip(index, block, mine)):
            found.append(device)
    return found


# %% subtracts one; times len axes; holders of last dim only exercise="1.7" score=0 diagnoses=["one-too-few", "other-result"]
def shard_shape(shape, spec, axes):
    out = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n //= axes[name]
        out.append(n - 1)
    return tuple(out)


def bytes_total(shape, itemsize, spec, axes):
    import math

    return math.prod(shard_shape(shape, spec, axes)) * len(axes) * itemsize


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = []
        for e in spec:
            number = 0
            for name in [e] if isinstance(e, str) else e or ():
                number = number * axes[name] + at[name]
            mine.append(number)
        if any(i // size == number for i, size, number in zip(index, block, mine)):
            found.append(device)
    return found


# %% reversed shape; holders names reversed; bytes by shape only exercise="1.7" score=0 diagnoses=["backwards", "eight-devices", "other-result"]
def shard_shape(shape, spec, axes):
    out = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n //= axes[name]
        out.append(n)
    return tuple(out[::-1])


def bytes_total(shape, itemsize, spec, axes):
    return int(np.prod(shard_shape(shape, spec, axes)[::-1])) * itemsize * 8


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = []
        for e in spec:
            number = 0
            for name in [e] if isinstance(e, str) else e or ():
                number = at[name] * axes[name] + number
            mine.append(number)
        if all(i // size == number for i, size, number in zip(index, block, mine)):
            found.append(device)
    return found


# %% holders off by one strict; shape zip axes exercise="1.7" score=0 diagnoses=["first-axis-for-all", "other-result"]
def shard_shape(shape, spec, axes):
    out = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n //= list(axes.values())[0]
        out.append(n)
    return tuple(out)


def bytes_total(shape, itemsize, spec, axes):
    import math

    return math.prod(shard_shape(shape, spec, axes)) * max(axes.values()) * itemsize


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = []
        for e in spec:
            number = 0
            for name in [e] if isinstance(e, str) else e or ():
                number = number * axes[name] + at[name]
            mine.append(number)
        if all((i - 1) // size == number for i, size, number in zip(index, block, mine)):
            found.append(device)
    return found


# %% holders ceil; dims by axis names exercise="1.7" score=0 diagnoses=["every-name-everywhere", "other-result", "other-kind"]
def shard_shape(shape, spec, axes):
    n = 1
    for e in spec:
        for name in [e] if isinstance(e, str) else e or ():
            n *= axes[name]
    return tuple(s // n for s in shape)


def bytes_total(shape, itemsize, spec, axes):
    import math

    return math.prod(shape) * itemsize * len(spec)


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = []
        for e in spec:
            number = 0
            for name in [e] if isinstance(e, str) else e or ():
                number = number * axes[name] + at[name]
            mine.append(number)
        if all(i // size == number for i, size, number in zip(index, block, mine)):
            found.append(device)
    return len(found)


# %% sizes added, and how many holders exercise="1.7" score=0.3333333333 diagnoses=["sizes-of-the-mesh-added", "how-many"]
def shard_shape(shape, spec, axes):
    out = []
    for n, e in zip(shape, spec):
        for name in [e] if isinstance(e, str) else e or ():
            n //= axes[name]
        out.append(n)
    return tuple(out)


def bytes_total(shape, itemsize, spec, axes):
    import math

    return math.prod(shard_shape(shape, spec, axes)) * sum(axes.values()) * itemsize


def holders(index, shape, spec, axes):
    block = shard_shape(shape, spec, axes)
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = []
        for e in spec:
            number = 0
            for name in [e] if isinstance(e, str) else e or ():
                number = number * axes[name] + at[name]
            mine.append(number)
        if all(i // size == number for i, size, number in zip(index, block, mine)):
            found.append(device)
    return len(found)


# %% copies added up over the axes, and two names of a tuple exercise="1.7" score=0 diagnoses=["two-names-only", "copies-added", "unanswered"]
def shard_shape(shape, spec, axes):
    names = [(entry,) if isinstance(entry, str) else (entry or ())[:2] for entry in spec]
    return tuple(n // int(np.prod([axes[a] for a in each])) for n, each in zip(shape, names))


def bytes_total(shape, itemsize, spec, axes):
    named = {a for entry in spec for a in ((entry,) if isinstance(entry, str) else entry or ())}
    copies = sum(size for name, size in axes.items() if name not in named)
    return int(np.prod(shape)) * itemsize * max(copies, 1)


# %% lists of numbers exercise="1.1" score=0 diagnoses=["type"] near=["several-arrays"]
columns = x.tolist()


# %% copies on four devices exercise="1.4" score=0 diagnoses=["replicated"] near=["replicated-dimension", "devices-extra"]
every_second = jax.make_mesh(
    (2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2, devices=jax.devices()[::2]
)
spread = jax.device_put(x, NamedSharding(every_second, P()))


# %% two names of a tuple, the largest axis, dealt out exercise="1.7" score=0 diagnoses=["two-names-only", "largest-unnamed-axis", "dealt-out"] near=["first-name-only", "copies-added", "place-in-the-block", "last-name-only"]
def names(entry):
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


def shard_shape(shape, spec, axes):
    return tuple(
        size // int(np.prod([axes[name] for name in names(entry)[:2]]))
        for size, entry in zip(shape, spec)
    )


def bytes_total(shape, itemsize, spec, axes):
    named = {name for entry in spec for name in names(entry)}
    copies = max([size for name, size in axes.items() if name not in named], default=1)
    return int(np.prod(shape)) * itemsize * copies


def holders(index, shape, spec, axes):
    found = []
    for device, place in enumerate(np.ndindex(*axes.values())):
        at = dict(zip(axes, place))
        mine = True
        for i, entry in zip(index, spec):
            number, count = 0, 1
            for name in names(entry):
                number = number * axes[name] + at[name]
                count *= axes[name]
            mine = mine and i % count == number
        if mine:
            found.append(device)
    return found


# %% copies added up, and side by side exercise="1.7" score=0.3333333333333333 diagnoses=["copies-added", "numbered-by-the-spec"] near=["largest-unnamed-axis", "copies-far-apart", "two-names-only", "dealt-out"]
def names(entry):
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


def counts(spec, axes):
    return [int(np.prod([axes[name] for name in names(entry)])) for entry in spec]


def shard_shape(shape, spec, axes):
    return tuple(size // count for size, count in zip(shape, counts(spec, axes)))


def bytes_total(shape, itemsize, spec, axes):
    named = {name for entry in spec for name in names(entry)}
    copies = sum(size for name, size in axes.items() if name not in named)
    return int(np.prod(shape)) * itemsize * (copies or 1)


def holders(index, shape, spec, axes):
    number = 0
    for i, block, count in zip(index, shard_shape(shape, spec, axes), counts(spec, axes)):
        number = number * count + i // block
    copies = int(np.prod(list(axes.values()))) // int(np.prod(counts(spec, axes)))
    return [number * copies + copy for copy in range(copies)]


# %% four bytes each, and copies far apart exercise="1.7" score=0.3333333333333333 diagnoses=["always-four-bytes", "copies-far-apart"] near=["forgot-itemsize", "numbered-by-the-spec", "block-number"]
def names(entry):
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


def counts(spec, axes):
    return [int(np.prod([axes[name] for name in names(entry)])) for entry in spec]


def shard_shape(shape, spec, axes):
    return tuple(size // count for size, count in zip(shape, counts(spec, axes)))


def bytes_total(shape, itemsize, spec, axes):
    return 4 * int(np.prod(shard_shape(shape, spec, axes))) * int(np.prod(list(axes.values())))


def holders(index, shape, spec, axes):
    number = 0
    for i, block, count in zip(index, shard_shape(shape, spec, axes), counts(spec, axes)):
        number = number * count + i // block
    return list(range(number, int(np.prod(list(axes.values()))), int(np.prod(counts(spec, axes)))))


# %% bytes of one element left out exercise="1.7" score=0 diagnoses=["unanswered", "forgot-itemsize"] near=["always-four-bytes"]
def bytes_total(shape, itemsize, spec, axes):
    devices = np.array(jax.devices()[: int(np.prod(list(axes.values())))]).reshape(*axes.values())
    sharding = NamedSharding(Mesh(devices, tuple(axes)), P(*spec))
    return int(np.prod(sharding.shard_shape(shape))) * devices.size


# %% the block's place in each dimension, and one block's bytes as a float exercise="1.7" score=0 diagnoses=["unanswered", "one-device-only", "block-coordinates"] near=["true-division", "by-coordinates", "floats"]
def names_in(entry):
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


def bytes_total(shape, itemsize, spec, axes):
    counts = [np.prod([axes[name] for name in names_in(entry)]) for entry in spec]
    return float(itemsize * np.prod([s / n for s, n in zip(shape, counts, strict=True)]))


def holders(index, shape, spec, axes):
    counts = [int(np.prod([axes[name] for name in names_in(entry)])) for entry in spec]
    return [i // (s // n) for i, s, n in zip(index, shape, counts, strict=True)]


# %% tuples in the mesh's order; copies added, and none where every axis is named exercise="1.7" score=0 diagnoses=["first-dimension-only", "copies-added", "tuple-in-the-meshs-order"] near=["names-reversed", "first-dimension-alone", "largest-unnamed-axis"]
def _names(entry):
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


def _block(shape, spec, axes):
    return tuple(
        n // int(np.prod([axes[a] for a in _names(s)] or [1])) for n, s in zip(shape, spec)
    )


def shard_shape(shape, spec, axes):
    return _block(shape, spec, axes)[:1] + tuple(shape[1:])


def bytes_total(shape, itemsize, spec, axes):
    used = {a for s in spec for a in _names(s)}
    return int(np.prod(shape)) * itemsize * sum(axes[a] for a in axes if a not in used)


def holders(index, shape, spec, axes):
    block, names, out = _block(shape, spec, axes), list(axes), []
    for d, place in enumerate(np.ndindex(*axes.values())):
        fits = True
        for i, n, s in zip(index, block, spec):
            number = 0
            for a in names:
                if a in _names(s):
                    number = number * axes[a] + place[names.index(a)]
            fits = fits and (not _names(s) or number == i // n)
        if fits:
            out.append(d)
    return out


# %% names within tuples overlooked; the index modulo a block exercise="1.7" score=0.3333333333 diagnoses=["tuples-left-out", "place-in-the-block"] near=["tuple-in-the-meshs-order", "copies-added", "first-dimension-only", "dealt-out", "all-in-the-first"]
def _names(entry):
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


def shard_shape(shape, spec, axes):
    return tuple(
        n // int(np.prod([axes[a] for a in _names(s)] or [1])) for n, s in zip(shape, spec)
    )


def bytes_total(shape, itemsize, spec, axes):
    total = itemsize * int(np.prod(shape))
    for a in axes:
        if a not in spec:
            total *= axes[a]
    return total


def holders(index, shape, spec, axes):
    block, names, out = shard_shape(shape, spec, axes), list(axes), []
    for d, place in enumerate(np.ndindex(*axes.values())):
        fits = True
        for i, n, s in zip(index, block, spec):
            if _names(s):
                number = 0
                for a in _names(s):
                    number = number * axes[a] + place[names.index(a)]
                fits = fits and number == i % n
        if fits:
            out.append(d)
    return out


# %% ones in the place of x exercise="1.4" score=0 diagnoses=["values"] near=["dtype"]
half = jax.make_mesh(
    (2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2, devices=jax.devices()[::2]
)
spread = jax.device_put(jnp.ones((16, 16)), NamedSharding(half, P("x", "y")))

# %% integers in the right places exercise="1.4" score=0 diagnoses=["dtype"] near=["values"]
half = jax.make_mesh(
    (2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2, devices=jax.devices()[::2]
)
spread = jax.device_put(x.astype(int), NamedSharding(half, P("x", "y")))


# %% all axes cut the first dimension exercise="1.7" score=0.6666666667 diagnoses=["all-in-the-first"] near=["first-dimension-only"]
def sharding(spec, axes):
    count = int(np.prod(list(axes.values())))
    devices = np.array(jax.devices()[:count]).reshape(*axes.values())
    return NamedSharding(Mesh(devices, tuple(axes)), P(*spec))


def shard_shape(shape, spec, axes):
    pieces = 1
    for entry in spec:
        for name in () if entry is None else (entry,) if isinstance(entry, str) else entry:
            pieces *= axes[name]
    return (shape[0] // pieces, *shape[1:])


def bytes_total(shape, itemsize, spec, axes):
    block = np.prod(sharding(spec, axes).shard_shape(shape))
    return block * itemsize * len(sharding(spec, axes).device_set)


def holders(index, shape, spec, axes):
    everything = np.zeros(shape)
    found = set()
    for device, part in sharding(spec, axes).devices_indices_map(shape).items():
        everything[:] = 0
        everything[part] = 1
        if everything[index]:
            found.add(device.id)
    return found
