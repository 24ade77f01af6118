# %% [markdown]
# Known answers to the exercise of notebook 00. A cell stands below what the exercise's cell was handed
# out with, so an answer that raises leaves the exercise unanswered.


# %% around the whole sum exercise="0.1" score=1 near=["replicated", "all-gather", "too-many-bytes"]
def mended(x):
    return with_sharding_constraint(x + x.T, blocks)


# %% around the x that is added exercise="0.1" score=1 near=["replicated", "turned-twice"]
def mended(x):
    return with_sharding_constraint(x, blocks) + x.T


# %% the innocent line exercise="0.1" score=0.125 diagnoses=["replicated", "all-gather over x"] naive=true near=["added-to-itself", "transposed"]
mended = innocent


# %% x held where it is exercise="0.1" score=0.125 diagnoses=["replicated", "all-gather over x"] near=["grid"]
def mended(x):
    x = with_sharding_constraint(x, blocks)
    return x + x.T


# %% the constraint thrown away exercise="0.1" score=0.125 diagnoses=["replicated", "all-gather over x"]
def mended(x):
    with_sharding_constraint(x.T, blocks)
    return x + x.T


# %% device_put, as where x was made exercise="0.1" score=0.125 diagnoses=["replicated", "all-gather over x"]
def mended(x):
    return x + jax.device_put(x.T, blocks)


# %% through strips of rows exercise="0.1" score=0.125 diagnoses=["grid", "too-many-bytes"] near=["transposed", "all-gather"]
def mended(x):
    x = with_sharding_constraint(x, NamedSharding(grid, P(("x", "y"))))
    return x + x.T


# %% the layout of the transpose exercise="0.1" score=0.125 diagnoses=["transposed", "not-counted-yet"] near=["grid"]
def mended(x):
    return with_sharding_constraint(x + x.T, NamedSharding(grid, P("y", "x")))


# %% replicated, and cut again exercise="0.1" score=0.25 diagnoses=["all-gather over x"] near=["replicated", "too-many-bytes"]
def mended(x):
    turned = with_sharding_constraint(x.T, NamedSharding(grid, P()))
    return with_sharding_constraint(x + turned, blocks)


# %% the constraint in place of the sum exercise="0.1" score=0 diagnoses=["turned-alone", "not-counted-yet"] near=["turned-twice", "added-to-itself"]
def mended(x):
    return with_sharding_constraint(x.T, blocks)


# %% the transpose forgotten exercise="0.1" score=0 diagnoses=["added-to-itself", "not-counted-yet"] near=["turned-alone"]
def mended(x):
    return x + with_sharding_constraint(x, blocks)


# %% turned before the sum exercise="0.1" score=0 diagnoses=["turned-twice", "not-counted-yet"] near=["turned-alone"]
def mended(x):
    x = with_sharding_constraint(x.T, blocks)
    return x + x
