# %% [markdown]
# Known answers to the exercise of notebook 00. A cell stands below what the exercise's cell was handed
# out with, so an answer that raises did not finish.


# %% around the whole sum exercise="0.1" score=1 near=["replicated", "all-gather", "too-many-bytes"]
def repaired(m):
    return with_sharding_constraint(m + m.T, blocks)


# %% around the m that is added exercise="0.1" score=1 near=["replicated", "turned-twice"]
def repaired(m):
    return with_sharding_constraint(m, blocks) + m.T


# %% the innocent line exercise="0.1" score=0.125 diagnoses=["replicated", "all-gather over x"] naive=true near=["added-to-itself", "transposed"]
repaired = innocent


# %% m held where it is exercise="0.1" score=0.125 diagnoses=["replicated", "all-gather over x"] near=["grid"]
def repaired(m):
    m = with_sharding_constraint(m, blocks)
    return m + m.T


# %% the constraint thrown away exercise="0.1" score=0.125 diagnoses=["replicated", "all-gather over x"]
def repaired(m):
    with_sharding_constraint(m.T, blocks)
    return m + m.T


# %% device_put, as where m was made exercise="0.1" score=0.125 diagnoses=["replicated", "all-gather over x"]
def repaired(m):
    return m + jax.device_put(m.T, blocks)


# %% the transpose held in its own layout exercise="0.1" score=0.125 diagnoses=["replicated", "all-gather over x"]
def repaired(m):
    return m + with_sharding_constraint(m.T, NamedSharding(grid, P("y", "x")))


# %% through strips of rows exercise="0.1" score=0.125 diagnoses=["grid", "too-many-bytes"] near=["transposed", "all-gather"]
def repaired(m):
    m = with_sharding_constraint(m, NamedSharding(grid, P(("x", "y"))))
    return m + m.T


# %% the layout of the transpose exercise="0.1" score=0.125 diagnoses=["transposed", "not-counted-yet"] near=["grid"]
def repaired(m):
    return with_sharding_constraint(m + m.T, NamedSharding(grid, P("y", "x")))


# %% replicated, and cut again exercise="0.1" score=0.25 diagnoses=["all-gather over x"] near=["replicated", "too-many-bytes"]
def repaired(m):
    turned = with_sharding_constraint(m.T, NamedSharding(grid, P()))
    return with_sharding_constraint(m + turned, blocks)


# %% the constraint in place of the sum exercise="0.1" score=0 diagnoses=["turned-alone", "not-counted-yet"] near=["turned-twice", "added-to-itself"]
def repaired(m):
    return with_sharding_constraint(m.T, blocks)


# %% the transpose forgotten exercise="0.1" score=0 diagnoses=["added-to-itself", "not-counted-yet"] near=["turned-alone"]
def repaired(m):
    return m + with_sharding_constraint(m, blocks)


# %% turned before the sum exercise="0.1" score=0 diagnoses=["turned-twice", "not-counted-yet"] near=["turned-alone"]
def repaired(m):
    m = with_sharding_constraint(m.T, blocks)
    return m + m


# %% the sum replicated on purpose exercise="0.1" score=0.125 diagnoses=["replicated", "all-gather over x"] near=["grid"]
def repaired(m):
    return with_sharding_constraint(m + m.T, NamedSharding(grid, P()))
