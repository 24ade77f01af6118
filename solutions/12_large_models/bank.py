# %% [markdown]
# Known answers to the exercises of notebook 12.

# %% by hand, and the crossing of two straight lines exercise="12.1" score=1 near=["of-eight", "rounded", "one-copy", "waits-each-time", "to-itself", "pieces-alone", "up-and-down", "grows", "every-other", "one-latency", "halves", "once-round", "whole-buffer", "n-steps", "against-the-exchange", "others-against-each-other", "product-alone", "size-of-a-piece", "in-seconds", "other-factors", "two-latencies"]
def exchange(n, size, latency, bandwidth):
    return latency + sum(size / bandwidth for other in range(1, n))


def doubling(n, size, latency, bandwidth):
    known, seconds = 1, 0
    while known < n:
        known, seconds = 2 * known, seconds + latency + size / bandwidth
    return seconds


def ring(n, size, latency, bandwidth):
    scatter = gather = (n - 1) * (latency + (size / n) / bandwidth)
    return scatter + gather


def ring_from(n, latency, bandwidth):
    def size_of_equal(one, other):
        at_0 = one(n, 0, latency, bandwidth) - other(n, 0, latency, bandwidth)
        at_1 = one(n, bandwidth, latency, bandwidth) - other(n, bandwidth, latency, bandwidth)
        return bandwidth * at_0 / (at_0 - at_1)

    return max(size_of_equal(ring, exchange), size_of_equal(ring, doubling))


# %% the right size, rounded exercise="12.1" score=0 diagnoses=["unanswered", "rounded"] near=["size-of-a-piece"]
def exchange(n, size, latency, bandwidth):
    return ...


def doubling(n, size, latency, bandwidth):
    return ...


def ring(n, size, latency, bandwidth):
    return ...


def ring_from(n, latency, bandwidth):
    k = np.log2(n)
    against_doubling = (2 * (n - 1) - k) / (k - 2 * (n - 1) / n)
    return round(against_doubling * latency * bandwidth)


# %% one message, a tree, and one round exercise="12.1" score=0 diagnoses=["one-copy", "up-and-down", "once-round", "against-the-exchange"] near=["others-against-each-other", "one-latency"]
def exchange(n, size, latency, bandwidth):
    return latency + size / bandwidth


def doubling(n, size, latency, bandwidth):
    return 2 * np.log2(n) * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return (n - 1) * (latency + size / n / bandwidth)


def ring_from(n, latency, bandwidth):
    return (2 * n - 3) * latency * bandwidth / ((n - 1) * (1 - 2 / n))


# %% a latency for each message, and one for all steps exercise="12.1" score=0 diagnoses=["waits-each-time", "one-latency", "product-alone"] near=["one-copy", "halves", "size-of-a-piece"]
def exchange(n, size, latency, bandwidth):
    return (n - 1) * (latency + size / bandwidth)


def doubling(n, size, latency, bandwidth):
    return latency + np.log2(n) * size / bandwidth


def ring(n, size, latency, bandwidth):
    return latency + 2 * (n - 1) / n * size / bandwidth


def ring_from(n, latency, bandwidth):
    return latency * bandwidth


# %% pieces where there are none, and none where there are pieces exercise="12.1" score=0 diagnoses=["pieces-alone", "halves", "whole-buffer", "size-of-a-piece"] near=["grows", "n-steps", "in-seconds"]
def exchange(n, size, latency, bandwidth):
    return latency + (n - 1) * size / n / bandwidth


def doubling(n, size, latency, bandwidth):
    return np.log2(n) * (latency + size / n / bandwidth)


def ring(n, size, latency, bandwidth):
    return 2 * (n - 1) * (latency + size / bandwidth)


def ring_from(n, latency, bandwidth):
    steps = np.log2(n)
    return (2 * n - 2 - steps) * latency * bandwidth / (steps - 2 * (n - 1) / n) / n


# %% to itself too, and buffers that grow exercise="12.1" score=0 diagnoses=["to-itself", "grows", "n-steps", "others-against-each-other"] near=["every-other", "against-the-exchange"]
def exchange(n, size, latency, bandwidth):
    return latency + n * size / bandwidth


def doubling(n, size, latency, bandwidth):
    steps = n.bit_length() - 1
    return sum(latency + 2**step * size / bandwidth for step in range(steps))


def ring(n, size, latency, bandwidth):
    return 2 * n * (latency + size / n / bandwidth)


def ring_from(n, latency, bandwidth):
    steps = np.log2(n)
    return (steps - 1) * latency * bandwidth / (n - 1 - steps)


# %% a neighbour after the other, and a time for a size exercise="12.1" score=0.5 diagnoses=["every-other", "in-seconds"] near=["waits-each-time", "up-and-down"]
def exchange(n, size, latency, bandwidth):
    return latency + (n - 1) * size / bandwidth


def doubling(n, size, latency, bandwidth):
    return (n - 1) * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return 2 * (n - 1) * (latency + size / n / bandwidth)


def ring_from(n, latency, bandwidth):
    steps = np.log2(n)
    return (2 * n - 2 - steps) * latency / (steps - 2 * (n - 1) / n)


# %% a ring that goes round once wins earlier exercise="12.1" score=0.75 diagnoses=["once-round"]
def exchange(n, size, latency, bandwidth):
    return latency + (n - 1) * size / bandwidth


def doubling(n, size, latency, bandwidth):
    return np.log2(n) * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return 2 * (n - 1) * (latency + size / n / bandwidth)


def ring_from(n, latency, bandwidth):
    steps = np.log2(n)
    return (n - 1 - steps) * latency * bandwidth / (steps - (n - 1) / n)


# %% by playing it, and sums of pieces exercise="12.2" score=1 near=["mean-of-the-links", "as-on-v5e", "as-on-v5p", "always", "exchanged", "one-direction", "always-a-ring", "gather: upside-down", "n-left-out", "whole-buffers", "fast-ring", "once-round", "ring-of-hosts", "ring-of-chips", "all-of-it-across", "not-gathered", "once-across", "reduced-twice"]
def wraps(chip, length):
    multiples = range(4, 99, 4)
    needed = {"v4": multiples, "v5p": multiples, "v5e": (16,), "v6e": (16,)}
    return length in needed[chip]


def gather(n, size, link, wraps):
    from_the_left = (n - 1) / 2 if wraps else n - 1
    return from_the_left * size / n / link


def flat(hosts, chips, size, fast, slow):
    return 2 * (hosts * chips - 1) / (hosts * chips) * size / slow


def two_levels(hosts, chips, size, fast, slow):
    piece = size / chips
    within = 2 * (chips - 1) * piece / fast
    return within + 2 * (hosts - 1) * (piece / hosts) / slow


# %% one rule for all chips, and one link for all exercise="12.2" score=0 diagnoses=["as-on-v5e", "one-direction", "fast-ring", "all-of-it-across"] near=["longer-than-16", "always", "always-a-ring", "once-round", "not-gathered"]
def wraps(chip, length):
    return length == 16


def gather(n, size, link, wraps):
    return (n - 1) / n * size / link


def flat(hosts, chips, size, fast, slow):
    n = hosts * chips
    return 2 * (n - 1) / n * size / fast


def two_levels(hosts, chips, size, fast, slow):
    within = 2 * (chips - 1) / chips * size / fast
    return within + 2 * (hosts - 1) / hosts * size / slow


# %% the other rule for all chips, and rings everywhere exercise="12.2" score=0 diagnoses=["as-on-v5p", "always-a-ring", "once-round", "not-gathered"] near=["as-on-v5e", "one-direction", "ring-of-hosts"]
def wraps(chip, length):
    return length % 4 == 0


def gather(n, size, link, wraps):
    return (n - 1) / n * size / (2 * link)


def flat(hosts, chips, size, fast, slow):
    n = hosts * chips
    return (n - 1) / n * size / slow


def two_levels(hosts, chips, size, fast, slow):
    scatter = (chips - 1) / chips * size / fast
    return scatter + 2 * (hosts - 1) / hosts * size / chips / slow


# %% always a ring, and half of an all-reduce between hosts exercise="12.2" score=0 diagnoses=["always", "n-left-out", "ring-of-hosts", "once-across"] near=["as-on-v5p", "whole-buffers", "all-of-it-across"]
def wraps(chip, length):
    return True


def gather(n, size, link, wraps):
    return size / link / (2 if wraps else 1)


def flat(hosts, chips, size, fast, slow):
    return 2 * (hosts - 1) / hosts * size / slow


def two_levels(hosts, chips, size, fast, slow):
    within = 2 * (chips - 1) / chips * size / fast
    return within + (hosts - 1) / hosts * size / chips / slow


# %% rules exchanged, whole buffers, and two all-reduces exercise="12.2" score=0 diagnoses=["exchanged", "whole-buffers", "ring-of-chips", "reduced-twice"] near=["n-left-out", "ring-of-hosts", "once-across"]
def wraps(chip, length):
    return length == 16 if chip in ("v4", "v5p") else length % 4 == 0


def gather(n, size, link, wraps):
    return (n - 1) * size / link / (2 if wraps else 1)


def flat(hosts, chips, size, fast, slow):
    return 2 * (chips - 1) / chips * size / slow


def two_levels(hosts, chips, size, fast, slow):
    within = 2 * (chips - 1) / chips * size / fast
    return within + 2 * (hosts - 1) / hosts * size / chips / slow + within


# %% a ring is slower than a row exercise="12.2" score=0.75 diagnoses=["upside-down"] near=["one-direction", "always-a-ring", "other-unit"]
def wraps(chip, length):
    return length == 16 if chip in ("v5e", "v6e") else length % 4 == 0


def gather(n, size, link, wraps):
    return (n - 1) / n * size / link / (1 if wraps else 2)


def flat(hosts, chips, size, fast, slow):
    return 2 * (hosts * chips - 1) / (hosts * chips) * size / slow


def two_levels(hosts, chips, size, fast, slow):
    within = 2 * (chips - 1) / chips * size / fast
    return within + 2 * (hosts - 1) / hosts * size / chips / slow


# %% stage by stage, from what is alive exercise="12.3" score=1 near=["rounded-down-to-whole", "never-ends", "backward-early", "gpipe: too-long", "one_f_one_b: too-long", "too-long", "too-many-activations", "job-missing", "unknown-job", "of-the-work", "busy-share", "one-step-more", "both-ends", "in-units", "job-twice", "number-of-stages", "no-orders", "one-by-one", "forward-missing"]
def gpipe(stages, microbatches):
    forward = [f"F{m}" for m in reversed(range(microbatches))]
    return stages * [forward + [job.replace("F", "B") for job in forward]]


def one_f_one_b(stages, microbatches):
    def jobs(stage):
        forward, backward = 0, 0
        while backward < microbatches:
            if forward < microbatches and forward - backward < stages - stage:
                yield f"F{forward}"
                forward += 1
            else:
                yield f"B{backward}"
                backward += 1

    return [list(jobs(stage)) for stage in range(stages)]


def bubble(stages, microbatches):
    total = 3 * (stages + microbatches - 1)
    return 1 - 3 * microbatches / total


# %% GPipe twice, and the bubble of the papers exercise="12.3" score=0.25 diagnoses=["too-many-activations", "of-the-work"] near=["backward-early", "busy-share"]
def gpipe(stages, microbatches):
    jobs = [f"{kind}{m}" for kind in "FB" for m in range(microbatches)]
    return [jobs for _ in range(stages)]


one_f_one_b = gpipe


def bubble(stages, microbatches):
    return (stages - 1) / microbatches


# %% no warm-up: one microbatch at a time exercise="12.3" score=0 diagnoses=["one-by-one", "too-long", "busy-share"] near=["orders-differ", "too-many-activations", "one-step-more"]
def gpipe(stages, microbatches):
    return [[f"{kind}{m}" for m in range(microbatches) for kind in "FB"] for _ in range(stages)]


one_f_one_b = gpipe


def bubble(stages, microbatches):
    return microbatches / (microbatches + stages - 1)


# %% backward passes in another order on each stage exercise="12.3" score=0.25 diagnoses=["never-ends", "job-missing"] near=["too-long", "unknown-job"]
def gpipe(stages, microbatches):
    schedule = []
    for stage in range(stages):
        backward = [f"B{m}" for m in range(microbatches)]
        forward = [f"F{m}" for m in range(microbatches)]
        schedule.append(backward + forward if stage < stages - 1 else forward + backward)
    return schedule


def one_f_one_b(stages, microbatches):
    schedule = []
    for stage in range(stages):
        warm_up = stages - 1 - stage
        jobs = [f"F{m}" for m in range(min(warm_up, microbatches))]
        for m in range(microbatches - warm_up):
            jobs += [f"F{warm_up + m}", f"B{m}"]
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return (stages - 1) / (stages + microbatches - 1)


# %% the last backward passes in the opposite order, and one warm-up for all exercise="12.3" score=0 diagnoses=["too-long", "too-many-activations", "one-step-more"] near=["never-ends", "of-the-work"]
def gpipe(stages, microbatches):
    schedule = []
    for stage in range(stages):
        backward = [f"B{m}" for m in range(microbatches)]
        if stage % 2:
            backward.reverse()
        schedule.append([f"F{m}" for m in range(microbatches)] + backward)
    return schedule


def one_f_one_b(stages, microbatches):
    schedule = []
    for _ in range(stages):
        warm_up = min(stages, microbatches)
        jobs = [f"F{m}" for m in range(warm_up)]
        for m in range(microbatches):
            jobs.append(f"B{m}")
            if m + warm_up < microbatches:
                jobs.append(f"F{m + warm_up}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return (stages - 1) / (stages + microbatches)


# %% a warm-up that is one too short, and waiting counted twice exercise="12.3" score=0.25 diagnoses=["too-long", "both-ends"] near=["other-units", "too-many-activations", "job-missing"]
def gpipe(stages, microbatches):
    jobs = [f"{kind}{m}" for kind in "FB" for m in range(microbatches)]
    return [jobs for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for stage in range(stages):
        warm_up = min(max(stages - 2 - stage, 0), microbatches)
        jobs = [f"F{m}" for m in range(warm_up)]
        for m in range(microbatches):
            if warm_up + m < microbatches:
                jobs.append(f"F{warm_up + m}")
            jobs.append(f"B{m}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    waiting = 2 * (stages - 1)
    return waiting / (waiting + microbatches)


# %% microbatches that do not exist, and a time for a share exercise="12.3" score=0.25 diagnoses=["unknown-job", "in-units"] near=["job-missing", "both-ends"]
def gpipe(stages, microbatches):
    jobs = [f"{kind}{m}" for kind in "FB" for m in range(microbatches)]
    return [jobs for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for stage in range(stages):
        warm_up = stages - 1 - stage
        jobs = [f"F{m}" for m in range(warm_up)]
        for m in range(microbatches - warm_up):
            jobs += [f"F{warm_up + m}", f"B{m}"]
        jobs += [f"B{m}" for m in range(microbatches - warm_up, microbatches)]
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return 3 * (stages - 1)


# %% a list of jobs instead of one for each stage exercise="12.3" score=0 diagnoses=["number-of-stages", "no-orders", "nothing-returned"]
def gpipe(stages, microbatches):
    jobs = [f"{kind}{m}" for kind in "FB" for m in range(microbatches)]
    return [jobs]


def one_f_one_b(stages, microbatches):
    return [f"{kind}{m}" for m in range(microbatches) for kind in "FB"]


def bubble(stages, microbatches):
    (stages - 1) / (stages + microbatches - 1)


# %% each microbatch comes twice exercise="12.3" score=0.25 diagnoses=["job-twice", "raised"] near=["number-of-stages", "no-orders"]
def gpipe(stages, microbatches):
    jobs = [f"{kind}{m}" for kind in "FB" for m in range(microbatches)]
    return [2 * jobs for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    return [gpipe(stages, microbatches)[stages]]


def bubble(stages, microbatches):
    return (stages - 1) / (stages + microbatches - 1)


# %% rows by reshaping, and a loop that counts exercise="12.4" score=1 near=["of-one-parameter", "no-copy", "all-in-float32", "one-level-late", "one-part-each", "as-many-times", "sum-for-mean", "averaged-twice", "mean-of-a-microbatch", "last-microbatch", "first-rows", "all-reduce", "split-dimension", "zero_1: too-many-bytes", "zero_2: too-much-memory", "zero_3: too-much-memory"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    parts = [(12, level >= 1), (2, level >= 2), (2, level >= 3)]
    return sum(parameters * count / (n if sharded else 1) for count, sharded in parts)


def zero_1(W, m, v, X, Y):
    def body(w, m, v, x, y):
        varying = lax.pcast(w, "data", to="varying")

        def add(total, microbatch):
            return total + jax.grad(error)(varying, *microbatch), None

        total, _ = lax.scan(add, jnp.zeros_like(varying), (x, y))
        total = lax.psum_scatter(total, "data", tiled=True) / (x.shape[1] * len(x))
        n, i = lax.axis_size("data"), lax.axis_index("data")
        return adam(w.reshape(n, -1, w.shape[1])[i], m, v, total / n)

    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(body, in_specs=in_specs, out_specs=ROWS)(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_2(W, m, v, X, Y):
    def body(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def add(total, microbatch):
            gradient = jax.grad(error)(w, *microbatch)
            return total + lax.psum_scatter(gradient, "data", tiled=True), None

        total, _ = lax.scan(add, jnp.zeros_like(m), (x, y))
        n, i = lax.axis_size("data"), lax.axis_index("data")
        return adam(w.reshape(n, *m.shape)[i], m, v, total / (n * x.shape[0] * x.shape[1]))

    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(body, in_specs=in_specs, out_specs=ROWS)(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_3(W, m, v, X, Y):
    def body(w, m, v, x, y):
        def mean_error(w, x, y):
            whole = lax.all_gather(w, "data", tiled=True)
            return error(whole, x, y) / (lax.axis_size("data") * x.shape[0])

        def add(i, total):
            return total + jax.grad(jax.checkpoint(mean_error))(w, x[i], y[i])

        total = lax.fori_loop(0, len(x), add, jnp.zeros_like(w))
        return adam(w, m, v, total / len(x))

    return jax.shard_map(body, in_specs=(*3 * (ROWS,), SHARES, SHARES), out_specs=ROWS)(
        W, m, v, X, Y
    )


# %% the compiler's choice, for arguments that are sharded exercise="12.4" score=0.125 naive=true diagnoses=["unanswered", "split-dimension", "too-many-bytes", "too-much-memory", "not-counted-yet"] near=["not-replicated"]
def zero_1(W, m, v, X, Y):
    def total_error(w):
        return sum(error(w, x, y) for x, y in zip(X, Y, strict=True))

    return adam(W, m, v, jax.grad(total_error)(W) / (X.shape[0] * X.shape[1]))


zero_2 = zero_3 = zero_1

# %% an all-reduce, and each level like the one before exercise="12.4" score=0.1875 diagnoses=["one-level-late", "all-reduce over data", "too-much-memory"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    parts = [(12, level > 1), (2, level > 2), (2, level > 3)]
    return sum(parameters * count / (n if sharded else 1) for count, sharded in parts)


def zero_1(W, m, v, X, Y):
    def body(w, m, v, x, y):
        varying = lax.pcast(w, "data", to="varying")

        def add(total, microbatch):
            return total + jax.grad(error)(varying, *microbatch), None

        total, _ = lax.scan(add, jnp.zeros_like(varying), (x, y))
        total = lax.psum(total, "data") / (lax.axis_size("data") * x.shape[0] * x.shape[1])
        first = lax.axis_index("data") * len(m)
        own_w, own_total = (lax.dynamic_slice_in_dim(a, first, len(m)) for a in (w, total))
        return adam(own_w, m, v, own_total)

    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(body, in_specs=in_specs, out_specs=ROWS)(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_2(W, m, v, X, Y):
    def body(w, m, v, x, y):
        varying = lax.pcast(w, "data", to="varying")

        def add(total, microbatch):
            return total + jax.grad(error)(varying, *microbatch), None

        total, _ = lax.scan(add, jnp.zeros_like(varying), (x, y))
        total = lax.psum_scatter(total, "data", tiled=True) / (x.shape[1] * len(x))
        n, i = lax.axis_size("data"), lax.axis_index("data")
        return adam(w.reshape(n, -1, w.shape[1])[i], m, v, total / n)

    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(body, in_specs=in_specs, out_specs=ROWS)(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_3(W, m, v, X, Y):
    def body(w, m, v, x, y):
        whole = lax.all_gather(w, "data", tiled=True)

        def add(total, microbatch):
            return total + jax.grad(error)(whole, *microbatch), None

        total, _ = lax.scan(add, jnp.zeros_like(whole), (x, y))
        total = lax.psum_scatter(total, "data", tiled=True)
        return adam(w, m, v, total / (lax.axis_size("data") * x.shape[0] * x.shape[1]))

    return jax.shard_map(body, in_specs=(*3 * (ROWS,), SHARES, SHARES), out_specs=ROWS)(
        W, m, v, X, Y
    )


# %% W is not varying, and nobody gathers it exercise="12.4" score=0.09375 diagnoses=["no-copy", "as-many-times", "not-counted-yet", "all-reduce over data", "too-much-memory", "split-dimension"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    parts = [(8, level >= 1), (2, level >= 2), (2, level >= 3)]
    return sum(parameters * count / (n if sharded else 1) for count, sharded in parts)


def zero_1(W, m, v, X, Y):
    def body(w, m, v, x, y):
        total = sum(jax.grad(error)(w, *microbatch) for microbatch in zip(x, y, strict=True))
        total = lax.pcast(total, "data", to="varying")
        total = lax.psum_scatter(total, "data", tiled=True)
        first = lax.axis_index("data") * len(m)
        total = total / (lax.axis_size("data") * x.shape[0] * x.shape[1])
        return adam(lax.dynamic_slice_in_dim(w, first, len(m)), m, v, total)

    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(body, in_specs=in_specs, out_specs=ROWS)(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_2(W, m, v, X, Y):
    def body(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def add(total, microbatch):
            gradient = jax.grad(error)(w, *microbatch)
            return total + lax.psum_scatter(gradient, "data", tiled=True), None

        total, _ = lax.scan(add, jnp.zeros_like(m), (x, y))
        n, i = lax.axis_size("data"), lax.axis_index("data")
        return adam(w.reshape(n, *m.shape)[i], m, v, total / (n * x.shape[0] * x.shape[1]))

    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    return jax.shard_map(body, in_specs=in_specs, out_specs=ROWS)(W, m, v, X, Y)


def zero_3(W, m, v, X, Y):
    def body(w, m, v, x, y):
        def add(total, microbatch):
            whole = lax.all_gather(w, "data", tiled=True)
            gradient = jax.grad(error)(whole, *microbatch)
            return total + lax.psum_scatter(gradient, "data", tiled=True), None

        total, _ = lax.scan(add, jnp.zeros_like(w), (x, y))
        return adam(w, m, v, total / (lax.axis_size("data") * x.shape[0] * x.shape[1]))

    return jax.shard_map(body, in_specs=(*3 * (ROWS,), SHARES, SHARES), out_specs=ROWS)(
        W, m, v, X, Y
    )


# %% the first rows everywhere, a sum, and a mean of means exercise="12.4" score=0 diagnoses=["one-part-each", "first-rows", "not-counted-yet", "sum-for-mean", "mean-of-a-microbatch", "too-much-memory"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    parts = [(12, level == 1), (2, level == 2), (2, level == 3)]
    return sum(parameters * count / (n if sharded else 1) for count, sharded in parts)


def zero_1(W, m, v, X, Y):
    def body(w, m, v, x, y):
        varying = lax.pcast(w, "data", to="varying")

        def add(total, microbatch):
            return total + jax.grad(error)(varying, *microbatch), None

        total, _ = lax.scan(add, jnp.zeros_like(varying), (x, y))
        total = lax.psum_scatter(total, "data", tiled=True)
        return adam(
            varying[: len(m)], m, v, total / (lax.axis_size("data") * x.shape[0] * x.shape[1])
        )

    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(body, in_specs=in_specs, out_specs=ROWS)(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_2(W, m, v, X, Y):
    def body(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def add(total, microbatch):
            gradient = jax.grad(error)(w, *microbatch)
            return total + lax.psum_scatter(gradient, "data", tiled=True), None

        total, _ = lax.scan(add, jnp.zeros_like(m), (x, y))
        n, i = lax.axis_size("data"), lax.axis_index("data")
        return adam(w.reshape(n, *m.shape)[i], m, v, total)

    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(body, in_specs=in_specs, out_specs=ROWS)(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_3(W, m, v, X, Y):
    def body(w, m, v, x, y):
        def add(total, microbatch):
            whole = lax.all_gather(w, "data", tiled=True)
            gradient = jax.grad(error)(whole, *microbatch) / x.shape[1]
            return total + lax.psum_scatter(gradient, "data", tiled=True), None

        total, _ = lax.scan(add, jnp.zeros_like(w), (x, y))
        return adam(w, m, v, total / lax.axis_size("data"))

    return jax.shard_map(body, in_specs=(*3 * (ROWS,), SHARES, SHARES), out_specs=ROWS)(
        W, m, v, X, Y
    )


# %% averaged twice, and only the last microbatch exercise="12.4" score=0 diagnoses=["all-in-float32", "averaged-twice", "not-counted-yet", "last-microbatch", "as-many-times", "too-much-memory"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    parts = [(8, level >= 1), (4, level >= 2), (4, level >= 3)]
    return sum(parameters * count / (n if sharded else 1) for count, sharded in parts)


def zero_1(W, m, v, X, Y):
    def body(w, m, v, x, y):
        varying = lax.pcast(w, "data", to="varying")

        def add(total, microbatch):
            return total + jax.grad(error)(varying, *microbatch), None

        total, _ = lax.scan(add, jnp.zeros_like(varying), (x, y))
        n, i = lax.axis_size("data"), lax.axis_index("data")
        total = lax.psum_scatter(total, "data", tiled=True) / (n * x.shape[1] * len(x)) / n
        return adam(w.reshape(n, -1, w.shape[1])[i], m, v, total)

    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(body, in_specs=in_specs, out_specs=ROWS)(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_2(W, m, v, X, Y):
    def body(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def add(_, microbatch):
            gradient = jax.grad(error)(w, *microbatch)
            return lax.psum_scatter(gradient, "data", tiled=True), None

        total, _ = lax.scan(add, jnp.zeros_like(m), (x, y))
        n, i = lax.axis_size("data"), lax.axis_index("data")
        return adam(w.reshape(n, *m.shape)[i], m, v, total / (n * x.shape[0] * x.shape[1]))

    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(body, in_specs=in_specs, out_specs=ROWS)(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_3(W, m, v, X, Y):
    def body(w, m, v, x, y):
        def gathered_error(w, x, y):
            return error(lax.all_gather(w, "data", tiled=True), x, y)

        def add(total, microbatch):
            return total + jax.grad(gathered_error)(w, *microbatch), None

        total, _ = lax.scan(add, jnp.zeros_like(w), (x, y))
        return adam(w, m, v, total / (x.shape[0] * x.shape[1]))

    return jax.shard_map(body, in_specs=(*3 * (ROWS,), SHARES, SHARES), out_specs=ROWS)(
        W, m, v, X, Y
    )


# %% level 2 on every level exercise="12.4" score=0.59375 diagnoses=["too-many-bytes", "replicated", "not-counted-yet", "too-much-memory"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    parts = [(12, level >= 1), (2, level >= 2), (2, level >= 3)]
    return sum(parameters * count / (n if sharded else 1) for count, sharded in parts)


def zero_2(W, m, v, X, Y):
    def body(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def add(total, microbatch):
            gradient = jax.grad(error)(w, *microbatch)
            return total + lax.psum_scatter(gradient, "data", tiled=True), None

        total, _ = lax.scan(add, jnp.zeros_like(m), (x, y))
        n, i = lax.axis_size("data"), lax.axis_index("data")
        return adam(w.reshape(n, *m.shape)[i], m, v, total / (n * x.shape[0] * x.shape[1]))

    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(body, in_specs=in_specs, out_specs=ROWS)(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


zero_1 = zero_3 = zero_2


# %% the ring in the other direction, and pairs from both ends exercise="12.5" score=1 near=["not-causal", "not-scaled", "scaled-twice", "places-in-the-block", "own-block-alone", "not-finite", "never-rescaled", "means-of-blocks", "all-gather", "too-much-memory", "too-many-bytes", "unbalanced", "chunk-missing", "no-chunks", "divided-by-devices"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i, places = lax.axis_size("seq"), lax.axis_index("seq"), jnp.arange(len(q))
        pairs = [(d, (d - 1) % n) for d in range(n)]
        m, total, out = jnp.full_like(q[:, :1], -jnp.inf), jnp.zeros_like(q[:, :1]), 0 * q

        def step(t, carry):
            k, v, m, total, out = carry
            from_device = (i + t) % n
            scores = (q @ k.T) * q.shape[1] ** -0.5
            seen = (i * len(q) + places)[:, None] >= (from_device * len(q) + places)[None, :]
            scores = jnp.where(seen, scores, -jnp.inf)
            new = jnp.maximum(m, scores.max(axis=1, keepdims=True))
            weights = jnp.exp(scores - new)
            total = total * jnp.exp(m - new) + weights.sum(axis=1, keepdims=True)
            out = out * jnp.exp(m - new) + weights @ v
            return lax.ppermute(k, "seq", pairs), lax.ppermute(v, "seq", pairs), new, total, out

        *_, total, out = lax.fori_loop(0, n, step, (k, v, m, total, out))
        return out / total

    return jax.shard_map(body, in_specs=(P("seq"), P("seq"), P("seq")), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    chunks = list(range(2 * n))
    return [(chunks.pop(), chunks.pop(0)) for _ in range(n)]


# %% as on one device exercise="12.5" score=0.16666666666666666 naive=true diagnoses=["all-gather over seq", "too-much-memory", "unanswered"]
ring_attention = attention


# %% gathered in the body, and neighbours exercise="12.5" score=0.16666666666666666 diagnoses=["all-gather over seq", "too-much-memory", "unbalanced"] near=["own-block-alone", "chunk-missing"]
def ring_attention(q, k, v):
    def body(q, k, v):
        i = lax.axis_index("seq")
        k, v = (lax.all_gather(a, "seq", tiled=True) for a in (k, v))
        scores = q @ k.T / jnp.sqrt(q.shape[1])
        seen = (i * len(q) + jnp.arange(len(q)))[:, None] >= jnp.arange(len(k))[None, :]
        return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=1) @ v

    return jax.shard_map(body, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [[2 * device, 2 * device + 1] for device in range(n)]


# %% the blocks are collected, and each device has one chunk twice exercise="12.5" score=0.16666666666666666 diagnoses=["too-much-memory", "chunk-missing"] near=["all-gather", "unbalanced"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        pairs = [(d, (d + 1) % n) for d in range(n)]

        def step(blocks, t):
            return lax.ppermute(blocks, "seq", pairs), blocks

        _, (ks, vs) = lax.scan(step, (k, v), jnp.arange(n))
        places = (i - jnp.arange(n))[:, None] % n * length + jnp.arange(length)
        scores = q @ ks.reshape(-1, q.shape[1]).T / jnp.sqrt(q.shape[1])
        seen = (i * length + jnp.arange(length))[:, None] >= places.reshape(-1)[None, :]
        weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=1)
        return weights @ vs.reshape(-1, q.shape[1])

    return jax.shard_map(body, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [[device, device] for device in range(n)]


# %% no mask, and the chunks n apart exercise="12.5" score=0 diagnoses=["not-causal", "not-counted-yet", "unbalanced"] near=["places-in-the-block"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i, places = lax.axis_size("seq"), lax.axis_index("seq"), jnp.arange(len(q))
        pairs = [(d, (d - 1) % n) for d in range(n)]
        m, total, out = jnp.full_like(q[:, :1], -jnp.inf), jnp.zeros_like(q[:, :1]), 0 * q

        def step(t, carry):
            k, v, m, total, out = carry
            from_device = (i + t) % n
            scores = (q @ k.T) * q.shape[1] ** -0.5
            seen = (i * len(q) + places)[:, None] >= (from_device * len(q) + places)[None, :]
            new = jnp.maximum(m, scores.max(axis=1, keepdims=True))
            weights = jnp.exp(scores - new)
            total = total * jnp.exp(m - new) + weights.sum(axis=1, keepdims=True)
            out = out * jnp.exp(m - new) + weights @ v
            return lax.ppermute(k, "seq", pairs), lax.ppermute(v, "seq", pairs), new, total, out

        *_, total, out = lax.fori_loop(0, n, step, (k, v, m, total, out))
        return out / total

    return jax.shard_map(body, in_specs=(P("seq"), P("seq"), P("seq")), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [[device, device + n] for device in range(n)]


# %% places within blocks, and numbers for pairs exercise="12.5" score=0 diagnoses=["places-in-the-block", "not-counted-yet", "no-chunks"] near=["not-causal", "chunk-missing"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i, places = lax.axis_size("seq"), lax.axis_index("seq"), jnp.arange(len(q))
        pairs = [(d, (d - 1) % n) for d in range(n)]
        m, total, out = jnp.full_like(q[:, :1], -jnp.inf), jnp.zeros_like(q[:, :1]), 0 * q

        def step(t, carry):
            k, v, m, total, out = carry
            from_device = (i + t) % n
            scores = (q @ k.T) * q.shape[1] ** -0.5
            seen = places[:, None] >= places[None, :]
            scores = jnp.where(seen, scores, -jnp.inf)
            new = jnp.maximum(m, scores.max(axis=1, keepdims=True))
            weights = jnp.exp(scores - new)
            total = total * jnp.exp(m - new) + weights.sum(axis=1, keepdims=True)
            out = out * jnp.exp(m - new) + weights @ v
            return lax.ppermute(k, "seq", pairs), lax.ppermute(v, "seq", pairs), new, total, out

        *_, total, out = lax.fori_loop(0, n, step, (k, v, m, total, out))
        return out / total

    return jax.shard_map(body, in_specs=(P("seq"), P("seq"), P("seq")), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return list(range(n))


# %% not scaled exercise="12.5" score=0.3333333333333333 diagnoses=["not-scaled", "not-counted-yet"] near=["scaled-twice", "never-rescaled"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i, places = lax.axis_size("seq"), lax.axis_index("seq"), jnp.arange(len(q))
        pairs = [(d, (d - 1) % n) for d in range(n)]
        m, total, out = jnp.full_like(q[:, :1], -jnp.inf), jnp.zeros_like(q[:, :1]), 0 * q

        def step(t, carry):
            k, v, m, total, out = carry
            from_device = (i + t) % n
            scores = q @ k.T
            seen = (i * len(q) + places)[:, None] >= (from_device * len(q) + places)[None, :]
            scores = jnp.where(seen, scores, -jnp.inf)
            new = jnp.maximum(m, scores.max(axis=1, keepdims=True))
            weights = jnp.exp(scores - new)
            total = total * jnp.exp(m - new) + weights.sum(axis=1, keepdims=True)
            out = out * jnp.exp(m - new) + weights @ v
            return lax.ppermute(k, "seq", pairs), lax.ppermute(v, "seq", pairs), new, total, out

        *_, total, out = lax.fori_loop(0, n, step, (k, v, m, total, out))
        return out / total

    return jax.shard_map(body, in_specs=(P("seq"), P("seq"), P("seq")), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [[device, 2 * n - 1 - device] for device in range(n)]


# %% divided by the features exercise="12.5" score=0.3333333333333333 diagnoses=["scaled-twice", "not-counted-yet"] near=["not-scaled"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i, places = lax.axis_size("seq"), lax.axis_index("seq"), jnp.arange(len(q))
        pairs = [(d, (d - 1) % n) for d in range(n)]
        m, total, out = jnp.full_like(q[:, :1], -jnp.inf), jnp.zeros_like(q[:, :1]), 0 * q

        def step(t, carry):
            k, v, m, total, out = carry
            from_device = (i + t) % n
            scores = (q @ k.T) / q.shape[1]
            seen = (i * len(q) + places)[:, None] >= (from_device * len(q) + places)[None, :]
            scores = jnp.where(seen, scores, -jnp.inf)
            new = jnp.maximum(m, scores.max(axis=1, keepdims=True))
            weights = jnp.exp(scores - new)
            total = total * jnp.exp(m - new) + weights.sum(axis=1, keepdims=True)
            out = out * jnp.exp(m - new) + weights @ v
            return lax.ppermute(k, "seq", pairs), lax.ppermute(v, "seq", pairs), new, total, out

        *_, total, out = lax.fori_loop(0, n, step, (k, v, m, total, out))
        return out / total

    return jax.shard_map(body, in_specs=(P("seq"), P("seq"), P("seq")), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [[device, 2 * n - 1 - device] for device in range(n)]


# %% the old sums are never rescaled exercise="12.5" score=0.3333333333333333 diagnoses=["never-rescaled", "not-counted-yet"] near=["means-of-blocks", "not-scaled"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i, places = lax.axis_size("seq"), lax.axis_index("seq"), jnp.arange(len(q))
        pairs = [(d, (d - 1) % n) for d in range(n)]
        m, total, out = jnp.full_like(q[:, :1], -jnp.inf), jnp.zeros_like(q[:, :1]), 0 * q

        def step(t, carry):
            k, v, m, total, out = carry
            from_device = (i + t) % n
            scores = (q @ k.T) * q.shape[1] ** -0.5
            seen = (i * len(q) + places)[:, None] >= (from_device * len(q) + places)[None, :]
            scores = jnp.where(seen, scores, -jnp.inf)
            new = jnp.maximum(scores.max(axis=1, keepdims=True), -1e30)
            weights = jnp.exp(scores - new)
            total = total + weights.sum(axis=1, keepdims=True)
            out = out + weights @ v
            return lax.ppermute(k, "seq", pairs), lax.ppermute(v, "seq", pairs), new, total, out

        *_, total, out = lax.fori_loop(0, n, step, (k, v, m, total, out))
        return out / total

    return jax.shard_map(body, in_specs=(P("seq"), P("seq"), P("seq")), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [[device, 2 * n - 1 - device] for device in range(n)]


# %% a mean of softmaxes exercise="12.5" score=0.3333333333333333 diagnoses=["means-of-blocks", "not-counted-yet"] near=["never-rescaled"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i, places = lax.axis_size("seq"), lax.axis_index("seq"), jnp.arange(len(q))
        pairs = [(d, (d - 1) % n) for d in range(n)]
        m, total, out = jnp.full_like(q[:, :1], -jnp.inf), jnp.zeros_like(q[:, :1]), 0 * q

        def step(t, carry):
            k, v, m, total, out = carry
            from_device = (i + t) % n
            scores = (q @ k.T) * q.shape[1] ** -0.5
            seen = (i * len(q) + places)[:, None] >= (from_device * len(q) + places)[None, :]
            scores = jnp.where(seen, scores, -jnp.inf)
            new, any_seen = m, seen.any(axis=1, keepdims=True)
            weights = jnp.where(any_seen, jax.nn.softmax(jnp.where(any_seen, scores, 0), axis=1), 0)
            total = total + any_seen
            out = out + weights @ v
            return lax.ppermute(k, "seq", pairs), lax.ppermute(v, "seq", pairs), new, total, out

        *_, total, out = lax.fori_loop(0, n, step, (k, v, m, total, out))
        return out / total

    return jax.shard_map(body, in_specs=(P("seq"), P("seq"), P("seq")), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [[device, 2 * n - 1 - device] for device in range(n)]


# %% nothing goes round exercise="12.5" score=0.3333333333333333 diagnoses=["own-block-alone", "not-counted-yet"] near=["places-in-the-block", "too-many-bytes"]
def ring_attention(q, k, v):
    return jax.shard_map(attention, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [[device, 2 * n - 1 - device] for device in range(n)]


# %% the queries go round, too exercise="12.5" score=0.75 diagnoses=["too-many-bytes"] near=["too-much-memory"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i, places = lax.axis_size("seq"), lax.axis_index("seq"), jnp.arange(len(q))
        pairs = [(d, (d - 1) % n) for d in range(n)]
        m, total, out = jnp.full_like(q[:, :1], -jnp.inf), jnp.zeros_like(q[:, :1]), 0 * q

        def step(t, carry):
            k, v, m, total, out = carry
            from_device = (i + t) % n
            scores = (q @ k.T) * q.shape[1] ** -0.5
            seen = (i * len(q) + places)[:, None] >= (from_device * len(q) + places)[None, :]
            scores = jnp.where(seen, scores, -jnp.inf)
            new = jnp.maximum(m, scores.max(axis=1, keepdims=True))
            weights = jnp.exp(scores - new)
            total = total * jnp.exp(m - new) + weights.sum(axis=1, keepdims=True)
            out = out * jnp.exp(m - new) + weights @ v
            other = lax.ppermute(q, "seq", pairs)
            return (
                lax.ppermute(k, "seq", pairs) + 0 * other,
                lax.ppermute(v, "seq", pairs),
                new,
                total,
                out,
            )

        *_, total, out = lax.fori_loop(0, n, step, (k, v, m, total, out))
        return out / total

    return jax.shard_map(body, in_specs=(P("seq"), P("seq"), P("seq")), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [[device, 2 * n - 1 - device] for device in range(n)]


# %% all partitions, tried one after another exercise="12.6" score=1 near=["no-queue", "after-all", "from-first-layer", "whole-time", "no-latency", "last-bucket", "first-layer-first", "one-bucket", "a-bucket-each", "exposed", "number-of-layers", "no-buckets", "after-the-last-number", "largest-gradient"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    ready = np.cumsum(backward)
    ends, first = 0.0, 0
    for count in buckets:
        last = first + count - 1
        ends = max(ends, ready[last]) + latency + np.sum(sizes[first : last + 1]) / bandwidth
        first = last + 1
    return ends - ready[-1]


def bucketed(backward, sizes, latency, bandwidth):
    def partitions(layers):
        if layers == 0:
            yield []
        for first in range(1, layers + 1):
            for rest in partitions(layers - first):
                yield [first, *rest]

    return min(
        partitions(len(backward)),
        key=lambda buckets: exposed(backward, sizes, buckets, latency, bandwidth),
    )


# %% no queue, and the best of equal buckets exercise="12.6" score=0 diagnoses=["no-queue", "exposed"] near=["last-bucket", "one-bucket", "a-bucket-each"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    first, latest = 0, 0
    for count in buckets:
        ready = sum(backward[: first + count])
        latest = max(latest, ready + latency + sum(sizes[first : first + count]) / bandwidth)
        first += count
    return latest - sum(backward)


def bucketed(backward, sizes, latency, bandwidth):
    return [2] * (len(backward) // 2) + [1] * (len(backward) % 2)


# %% nothing overlaps, so all in one exercise="12.6" score=0 diagnoses=["after-all", "one-bucket"] near=["whole-time", "exposed"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    return len(buckets) * latency + sum(sizes) / bandwidth


def bucketed(backward, sizes, latency, bandwidth):
    return [len(backward)]


# %% sent with the first gradient, and each by itself exercise="12.6" score=0 diagnoses=["from-first-layer", "a-bucket-each"] near=["no-queue", "exposed"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    first, link_free = 0, 0
    for count in buckets:
        ready = sum(backward[: first + 1])
        size = sum(sizes[first : first + count])
        link_free = max(ready, link_free) + latency + size / bandwidth
        first += count
    return max(link_free - sum(backward), 0)


def bucketed(backward, sizes, latency, bandwidth):
    return [1] * len(backward)


# %% the whole time, and buckets of as many bytes as a latency's exercise="12.6" score=0 diagnoses=["whole-time", "exposed"] near=["after-all", "one-bucket"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    first, link_free = 0, 0
    for count in buckets:
        ready = sum(backward[: first + count])
        size = sum(sizes[first : first + count])
        link_free = max(ready, link_free) + latency + size / bandwidth
        first += count
    return link_free


def bucketed(backward, sizes, latency, bandwidth):
    buckets, filled = [0], 0
    for size in sizes:
        buckets[-1] += 1
        filled += size
        if filled >= 2 * latency * bandwidth:
            buckets.append(0)
            filled = 0
    return [count for count in buckets if count]


# %% no latency, and lists of layers for their number exercise="12.6" score=0 diagnoses=["no-latency", "no-buckets"] near=["number-of-layers", "whole-time"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    first, link_free = 0, 0
    for count in buckets:
        ready = sum(backward[: first + count])
        link_free = max(ready, link_free) + sum(sizes[first : first + count]) / bandwidth
        first += count
    return link_free - sum(backward)


def bucketed(backward, sizes, latency, bandwidth):
    layers = list(range(len(backward)))
    return [layers[:2], layers[2:]]


# %% the last all-reduce alone, and a layer that is left out exercise="12.6" score=0 diagnoses=["last-bucket", "number-of-layers"] near=["no-queue", "no-buckets"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    return latency + sum(sizes[-buckets[-1] :]) / bandwidth


def bucketed(backward, sizes, latency, bandwidth):
    return [2] * ((len(backward) - 1) // 2)


# %% from the first layer on, in both exercise="12.6" score=0 diagnoses=["first-layer-first", "exposed"] near=["from-first-layer", "no-latency"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    backward, sizes = backward[::-1], sizes[::-1]
    first, link_free = 0, 0
    for count in buckets:
        ready = sum(backward[: first + count])
        size = sum(sizes[first : first + count])
        link_free = max(ready, link_free) + latency + size / bandwidth
        first += count
    return link_free - sum(backward)


def bucketed(backward, sizes, latency, bandwidth):
    half = len(backward) // 2
    return [half, len(backward) - half]


# %% in other ways: a device_put, two lines, a scan over nothing exercise="12.7" score=1 near=["mean-over-numbers", "one-mask-for-all-tokens", "replicated", "same-everywhere", "along-one-axis", "other-order", "not-doubled", "mean-of-means", "mean-of-examples", "padding-counted", "summed-twice", "mean-for-sum", "one-token-fewer"]
w_out = jax.device_put(start(0)["w_out"], NamedSharding(grid, P("model")))


def dropout(seed, h):
    def body(h):
        i, j = lax.axis_index("data"), lax.axis_index("model")
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), i), j)
        return 2 * h * jax.random.bernoulli(key, shape=h.shape)

    return jax.shard_map(
        body, in_specs=P("data", None, "model"), out_specs=P("data", None, "model")
    )(h)


def mean_error(errors, lengths):
    is_token = jnp.arange(errors.shape[1]) < lengths[:, None]
    return jnp.sum(errors * is_token) / jnp.sum(lengths)


def gradient(w_out, h, y, lengths):
    def body(w, h, y, lengths):
        is_token = jnp.arange(h.shape[1]) < lengths[:, None]
        w = lax.pcast(w, "data", to="varying")

        def error(w):
            outputs = lax.psum(h @ w, "model")
            return jnp.sum(jnp.where(is_token[..., None], (outputs - y) ** 2, 0))

        return lax.psum(jax.grad(error)(w), "data")

    in_specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("model"))(w_out, h, y, lengths)


# %% the program as it was exercise="12.7" score=0 diagnoses=["replicated", "same-everywhere", "mean-of-means", "summed-twice"] near=["along-one-axis"]
SPECS = {"w_in": P(None, "model"), "w_output": P("model", None)}
w_out = start(0)["w_out"]


def dropout(seed, h):
    """Each element of h becomes zero with probability 1/2, and is doubled otherwise.

    Each device draws with its own key: that of the seed, into which it folds its index along data,
    and then its index along model.
    """

    def body(seed, h):
        key = jax.random.key(seed)
        key = jax.random.fold_in(key, lax.axis_size("data"))
        key = jax.random.fold_in(key, lax.axis_size("model"))
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


def mean_error(errors, lengths):
    """The mean error of all tokens: example i has lengths[i] tokens, and the rest is padding."""

    def body(errors, lengths):
        is_token = jnp.arange(errors.shape[1]) < lengths[:, None]
        mean = jnp.sum(jnp.where(is_token, errors, 0)) / jnp.sum(lengths)
        return lax.pmean(mean, "data")

    return jax.shard_map(body, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    """The gradient of the sum, over all tokens, of sum((h @ w_out - y)**2)."""

    def body(w, h, y, lengths):
        is_token = jnp.arange(h.shape[1]) < lengths[:, None]

        def error(w):
            outputs = lax.psum(h @ w, "model")
            return jnp.sum(jnp.where(is_token[..., None], (outputs - y) ** 2, 0))

        return lax.psum(jax.grad(error)(w), "data")

    in_specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("model"))(w_out, h, y, lengths)


# %% one index, a mean of examples, and a mean for a sum exercise="12.7" score=0 diagnoses=["split-dimension", "along-one-axis", "mean-of-examples", "mean-for-sum"] near=["same-everywhere", "mean-of-means", "summed-twice"]
w_out = jax.device_put(start(0)["w_out"], NamedSharding(grid, P("data")))


def dropout(seed, h):
    """Each element of h becomes zero with probability 1/2, and is doubled otherwise.

    Each device draws with its own key: that of the seed, into which it folds its index along data,
    and then its index along model.
    """

    def body(seed, h):
        key = jax.random.key(seed)
        key = jax.random.fold_in(key, lax.axis_index("data"))
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


def mean_error(errors, lengths):
    is_token = jnp.arange(errors.shape[1]) < lengths[:, None]
    return jnp.mean(jnp.sum(errors * is_token, axis=1) / lengths)


def gradient(w_out, h, y, lengths):
    """The gradient of the sum, over all tokens, of sum((h @ w_out - y)**2)."""

    def body(w, h, y, lengths):
        w = lax.pcast(w, "data", to="varying")
        is_token = jnp.arange(h.shape[1]) < lengths[:, None]

        def error(w):
            outputs = lax.psum(h @ w, "model")
            return jnp.sum(jnp.where(is_token[..., None], (outputs - y) ** 2, 0))

        return lax.pmean(jax.grad(error)(w), "data")

    in_specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("model"))(w_out, h, y, lengths)


# %% the other order, and padding that counts exercise="12.7" score=0.25 diagnoses=["other-order", "padding-counted"] near=["along-one-axis", "mean-of-examples", "mean-for-sum"]
w_out = jax.device_put(start(0)["w_out"], NamedSharding(grid, P("model")))


def dropout(seed, h):
    """Each element of h becomes zero with probability 1/2, and is doubled otherwise.

    Each device draws with its own key: that of the seed, into which it folds its index along data,
    and then its index along model.
    """

    def body(seed, h):
        key = jax.random.key(seed)
        key = jax.random.fold_in(key, lax.axis_index("model"))
        key = jax.random.fold_in(key, lax.axis_index("data"))
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


def mean_error(errors, lengths):
    return jnp.mean(errors)


def gradient(w_out, h, y, lengths):
    return jax.grad(lambda w: jnp.sum((h @ w - y) ** 2))(w_out)


# %% three of four, and elements that are not doubled exercise="12.7" score=0.75 diagnoses=["not-doubled"] near=["other-order", "replicated", "padding-counted"]
SPECS["w_out"] = P("model", None)
w_out = start(0)["w_out"]


def dropout(seed, h):
    def drop(seed, h):
        key = jax.random.key(seed)
        for axis in ("data", "model"):
            key = jax.random.fold_in(key, lax.axis_index(axis))
        is_kept = jax.random.bernoulli(key, 0.5, h.shape)
        return jnp.where(is_kept, h, 0)

    spec = P("data", None, "model")
    return jax.shard_map(drop, in_specs=(P(), spec), out_specs=spec)(seed, h)


def mean_error(errors, lengths):
    def add_up(errors, lengths):
        padded = jnp.arange(errors.shape[1]) >= lengths[:, None]
        total = lax.psum(jnp.where(padded, 0, errors).sum(), "data")
        return total / lax.psum(lengths.sum(), "data")

    return jax.shard_map(add_up, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    def slope(w, h, y, lengths):
        padded = jnp.arange(h.shape[1]) >= lengths[:, None]

        def squares(w):
            off = lax.psum(h @ w, "model") - y
            return jnp.where(padded[..., None], 0, off**2).sum()

        return jax.grad(squares)(w)

    specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(slope, in_specs=specs, out_specs=specs[0])(w_out, h, y, lengths)


# %% only the weights, and those of another seed exercise="12.7" score=0 diagnoses=["values", "unanswered"] near=["replicated"]
SPECS["w_out"] = P("model", None)
w_out = start(1)["w_out"]


# %% names for matmuls with weights, and checkpoints of parts exercise="12.8" score=1 near=["keep_nothing: saves-too-much", "keep_products: saves-too-much", "keep_products: recomputes-too-much", "keep_little: saves-too-much", "keep_little: recomputes-too-much", "not-scaled", "no-shortcut", "stopped", "exact-gelu", "saves-too-much", "recomputes-too-much"]
def mix(q, k, v):
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    return jax.nn.softmax(scores, axis=-1) @ v


@jax.checkpoint
def keep_nothing(*arrays):
    return block(*arrays)


def with_names(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "product")
    x = x + checkpoint_name(jnp.einsum("hts,hsf->tf", mix(q, k, v), out), "product")
    return x + jax.nn.gelu(checkpoint_name(x @ up, "product")) @ down


keep_products = jax.checkpoint(
    with_names, policy=jax.checkpoint_policies.save_only_these_names("product")
)


def keep_little(x, qkv, out, up, down):
    q, k, v = jnp.einsum("tf,cfhs->chts", x, qkv)
    x = x + jnp.einsum("hts,hsf->tf", jax.checkpoint(mix)(q, k, v), out)
    return x + jax.checkpoint(lambda x, up, down: jax.nn.gelu(x @ up) @ down)(x, up, down)


# %% attention with a backward pass of its own, as in FlashAttention exercise="12.8" score=1 near=["keep_little: saves-too-much"]
@jax.custom_vjp
def attend(q, k, v):
    return keep_for_attention(q, k, v)[0]


def keep_for_attention(q, k, v):
    scores = jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2])
    of_rows = jax.nn.logsumexp(scores, axis=-1, keepdims=True)
    mixed = jnp.exp(scores - of_rows) @ v
    return mixed, (q, k, v, mixed, of_rows)


def go_back_through_attention(kept, of_mixed):
    q, k, v, mixed, of_rows = kept
    scale = 1 / jnp.sqrt(q.shape[2])
    shares = jnp.exp(jnp.einsum("hts,hus->htu", q, k) * scale - of_rows)
    of_shares = jnp.einsum("hts,hus->htu", of_mixed, v)
    of_scores = shares * (of_shares - (of_mixed * mixed).sum(-1, keepdims=True)) * scale
    of_k, of_v = (jnp.einsum("htu,hts->hus", a, b) for a, b in ((of_scores, q), (shares, of_mixed)))
    return of_scores @ k, of_k, of_v


attend.defvjp(keep_for_attention, go_back_through_attention)
keep_nothing = jax.checkpoint(block)
keep_products = jax.checkpoint(
    block, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable
)


def keep_little(x, qkv, out, up, down):
    q, k, v = jnp.einsum("tf,cfhs->chts", x, qkv)
    x = x + jnp.einsum("hts,hsf->tf", attend(q, k, v), out)
    return x + jax.checkpoint(lambda x, up, down: jax.nn.gelu(x @ up) @ down)(x, up, down)


# %% the block as it is exercise="12.8" score=0 naive=true diagnoses=["saves-too-much"] near=["recomputes-too-much", "not-scaled"]
keep_nothing = keep_products = keep_little = block

# %% everything again everywhere exercise="12.8" score=0.3333333333 diagnoses=["keeps-nothing"] near=["saves-too-much", "stopped", "recomputes-too-much"]
keep_nothing = keep_products = keep_little = jax.checkpoint(block)

# %% all matmuls, and the same policy for both exercise="12.8" score=0 diagnoses=["saves-too-much"] near=["recomputes-too-much"]
keep_nothing = jax.checkpoint(block, policy=jax.checkpoint_policies.everything_saveable)
keep_products = jax.checkpoint(block, policy=jax.checkpoint_policies.dots_saveable)
keep_little = jax.checkpoint(block, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)


# %% one name alone, and a name that nothing has exercise="12.8" score=0.3333333333 diagnoses=["keeps-nothing", "recomputes-too-much"] near=["saves-too-much"]
def with_a_name(x, qkv, out, up, down):
    q, k, v = jnp.einsum("tf,cfhs->chts", x, qkv)
    scores = jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2])
    mixed = jnp.einsum("htu,hus->hts", jax.nn.softmax(scores), v)
    mixed = checkpoint_name(mixed, "mixed")
    x = x + jnp.einsum("hts,hsf->tf", mixed, out)
    return x + jax.nn.gelu(x @ up) @ down


def keeping(*names):
    policy = jax.checkpoint_policies.save_only_these_names(*names)
    return jax.checkpoint(with_a_name, policy=policy)


keep_nothing, keep_products, keep_little = keeping(), keeping("products"), keeping("mixed")


# %% only attention again exercise="12.8" score=0 diagnoses=["saves-too-much", "recomputes-too-much"] near=["stopped", "no-shortcut"]
def keep_nothing(x, qkv, out, up, down):
    @jax.checkpoint
    def attend(x, qkv, out):
        q, k, v = jnp.einsum("tf,cfhs->chts", x, qkv)
        scores = jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2])
        mixed = jnp.einsum("htu,hus->hts", jax.nn.softmax(scores), v)
        return x + jnp.einsum("hts,hsf->tf", mixed, out)

    x = attend(x, qkv, out)
    return x + jax.nn.gelu(x @ up) @ down


keep_products = keep_little = keep_nothing


# %% written anew, with mistakes exercise="12.8" score=0 diagnoses=["not-scaled", "not-counted-yet", "no-shortcut", "stopped"] near=["saves-too-much", "recomputes-too-much"]
@jax.checkpoint
def keep_nothing(x, qkv, out, up, down):
    q, k, v = jnp.einsum("tf,cfhs->chts", x, qkv)
    mixed = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, k)) @ v
    x = x + jnp.einsum("hts,hsf->tf", mixed, out)
    return x + jax.nn.gelu(x @ up) @ down


def without_shortcuts(x, qkv, out, up, down):
    q, k, v = jnp.einsum("tf,cfhs->chts", x, qkv)
    mixed = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2])) @ v
    x = jnp.einsum("hts,hsf->tf", mixed, out)
    return jax.nn.gelu(x @ up) @ down


keep_products = jax.checkpoint(
    without_shortcuts, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable
)


@jax.checkpoint
def keep_little(x, qkv, out, up, down):
    q, k, v = jnp.einsum("tf,cfhs->chts", x, qkv)
    mixed = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2])) @ v
    x = x + jnp.einsum("hts,hsf->tf", lax.stop_gradient(mixed), out)
    return x + jax.nn.gelu(x @ up) @ down


# %% the exact gelu exercise="12.8" score=0 diagnoses=["exact-gelu", "not-counted-yet", "unanswered"] near=["only-the-first"]
@jax.checkpoint
def keep_nothing(x, qkv, out, up, down):
    q, k, v = jnp.einsum("tf,cfhs->chts", x, qkv)
    scores = jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2])
    mixed = jnp.einsum("htu,hus->hts", jax.nn.softmax(scores), v)
    x = x + jnp.einsum("hts,hsf->tf", mixed, out)
    return x + jax.nn.gelu(x @ up, approximate=False) @ down


# %% attention in chunks, with a checkpoint in the checkpoint exercise="12.8" score=0.6666666667 diagnoses=["recomputes-too-much"] near=["saves-too-much", "keep_little: recomputes-too-much"]
def in_chunks(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    h, t, s = q.shape

    @jax.checkpoint
    def attend(carry, part):
        weights = jax.nn.softmax(jnp.einsum("hts,hus->htu", part, k) / jnp.sqrt(s))
        return carry, jnp.einsum("htu,hus->hts", weights, v)

    parts = lax.scan(attend, None, q.reshape(h, 4, -1, s).swapaxes(0, 1))[1]
    mixed = checkpoint_name(parts.swapaxes(0, 1).reshape(h, t, s), "mixed")
    x = x + jnp.einsum("hts,hsf->tf", mixed, out)
    return x + jax.nn.gelu(x @ up) @ down


keep_nothing = jax.checkpoint(in_chunks)
keep_products = jax.checkpoint(
    in_chunks, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable
)
keep_little = jax.checkpoint(
    in_chunks, policy=jax.checkpoint_policies.save_only_these_names("qkv", "mixed")
)


# %% what is kept is rounded to bfloat16 exercise="12.8" score=0.3333333333333333 diagnoses=["coarser-type", "not-counted-yet"] near=["saves-too-much", "recomputes-too-much"]
def rounded(a):
    return a.astype(jnp.bfloat16)


keep_nothing = jax.checkpoint(block)


def named(x, qkv, out, up, down):
    q, k, v = checkpoint_name(rounded(jnp.einsum("tf,cfhs->chts", x, qkv)), "a").astype(jnp.float32)
    w = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2]))
    mixed = checkpoint_name(rounded(jnp.einsum("htu,hus->hts", w, v)), "b").astype(jnp.float32)
    y = x + jnp.einsum("hts,hsf->tf", mixed, out)
    h = checkpoint_name(rounded(y @ up), "c").astype(jnp.float32)
    return y + jax.nn.gelu(h) @ down


keep_products = keep_little = jax.checkpoint(
    named, policy=jax.checkpoint_policies.save_only_these_names("a", "b", "c")
)


# %% both matmuls of attention again exercise="12.8" score=0.6666666667 diagnoses=["recomputes-too-much"] near=["saves-too-much", "keeps-nothing", "keep_products: recomputes-too-much"]
def named(x, qkv, out, up, down):
    q, k, v = jnp.einsum("tf,cfhs->chts", x, qkv)
    scores = jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2])
    mixed = jnp.einsum("htu,hus->hts", jax.nn.softmax(scores), v)
    x = x + checkpoint_name(jnp.einsum("hts,hsf->tf", mixed, out), "out")
    return x + jax.nn.gelu(checkpoint_name(x @ up, "up")) @ down


policies = jax.checkpoint_policies
keep_nothing = jax.checkpoint(block)
keep_products = jax.checkpoint(block, policy=policies.dots_with_no_batch_dims_saveable)
keep_little = jax.checkpoint(named, policy=policies.save_only_these_names("out", "up"))


# %% sorted by expert, and ends that are searched exercise="12.9" score=1 near=["letter-of-two-lengths", "over-the-batch", "kept-for-dropped", "one-too-few", "one-too-many", "not-scaled", "last-kept", "nothing-dropped", "unchanged", "of-another-token", "in-order-of-experts", "dropped: all-gather", "moe: all-gather", "moe: too-many-bytes", "too-many-bytes", "only-the-first", "overwritten", "other-factor", "no-relu", "of-other-experts"]
def dropped(scores):
    def body(s):
        tokens, experts = s.shape
        counts = jnp.bincount(s.argmax(1), length=experts)
        return lax.psum(jnp.maximum(counts - tokens // experts, 0).sum(), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, s, up, down):
        (tokens, experts), features = s.shape, x.shape[1]
        capacity, n = tokens // experts, lax.axis_size("expert")
        chosen = jnp.argmax(s, axis=1)
        order = jnp.argsort(chosen, stable=True)
        first = jnp.searchsorted(chosen[order], jnp.arange(experts))
        rank = jnp.arange(tokens) - first[chosen[order]]
        slot = jnp.where(rank < capacity, chosen[order] * capacity + rank, experts * capacity)
        sent = jnp.zeros((experts * capacity + 1, features)).at[slot].set(x[order])[:-1]
        sent = sent.reshape(n, len(up), capacity, features)
        got = lax.all_to_all(sent, "expert", 0, 0)
        out = jax.nn.relu(jnp.einsum("nkcf,kfh->nkch", got, up))
        out = lax.all_to_all(jnp.einsum("nkch,khf->nkcf", out, down), "expert", 0, 0)
        out = jnp.concatenate([out.reshape(-1, features), jnp.zeros((1, features))])
        mine = jnp.zeros_like(x).at[order].set(out[slot])
        probability = jnp.exp(s.max(1) - jax.nn.logsumexp(s, axis=1))
        return probability[:, None] * mine

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% all experts on all tokens, as the compiler shares them exercise="12.9" score=0.325 naive=true diagnoses=["all-gather over expert"]
def is_dropped(scores):
    n = jax.sharding.get_abstract_mesh().shape["expert"]
    chosen = jax.nn.one_hot(scores.argmax(1), scores.shape[1], dtype=jnp.int32)
    blocks = chosen.reshape(n, -1, scores.shape[1])
    place = (blocks * (jnp.cumsum(blocks, 1) - blocks)).sum(2).reshape(-1)
    return place >= len(scores) // n // scores.shape[1]


def dropped(scores):
    return is_dropped(scores).sum()


def moe(x, scores, up, down):
    return jnp.where(is_dropped(scores)[:, None], 0, run_all_experts(x, scores, up, down))


# %% every device gathers all tokens exercise="12.9" score=0.25 diagnoses=["all-gather over expert"] near=["over-the-batch"]
def dropped(scores):
    def body(s):
        n, experts = lax.axis_size("expert"), s.shape[1]
        chosen = lax.all_gather(s, "expert").argmax(2)
        counts = jax.vmap(lambda c: jnp.bincount(c, length=experts))(chosen)
        late = jnp.maximum(counts - len(s) // experts, 0).sum()
        return lax.psum(late, "expert") // n

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, s, up, down):
        capacity = len(s) // s.shape[1]
        is_chosen = jax.nn.one_hot(s.argmax(1), s.shape[1])
        place = jnp.cumsum(is_chosen, 0) - 1
        weight = jax.nn.softmax(s) * is_chosen * (place < capacity)
        everyone = lax.all_gather(x, "expert", tiled=True)
        weights = lax.all_gather(weight, "expert", tiled=True)
        own = lax.axis_index("expert") * len(up) + jnp.arange(len(up))
        hidden = jax.nn.relu(jnp.einsum("tf,kfh->tkh", everyone, up))
        partial = jnp.einsum("tkh,khf,tk->tf", hidden, down, weights[:, own])
        return lax.psum_scatter(partial, "expert", tiled=True)

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% places for all tokens of a device with each expert exercise="12.9" score=0.325 diagnoses=["too-many-bytes"] near=["nothing-dropped"]
def dropped(scores):
    def body(s):
        is_chosen = jax.nn.one_hot(s.argmax(1), s.shape[1], dtype=jnp.int32)
        late = (jnp.cumsum(is_chosen, 0) > len(s) // s.shape[1]) * is_chosen
        return lax.psum(late.sum(), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, s, up, down):
        is_chosen = jax.nn.one_hot(s.argmax(1), s.shape[1])
        kept = is_chosen * (jnp.cumsum(is_chosen, 0) <= len(s) // s.shape[1])
        sent = jnp.einsum("tf,te->etf", x, kept)
        sent = lax.all_to_all(sent, "expert", 0, 1, tiled=True)
        out = jax.nn.relu(jnp.einsum("etf,efh->eth", sent, up))
        out = jnp.einsum("eth,ehf->etf", out, down)
        out = lax.all_to_all(out, "expert", 1, 0, tiled=True)
        return jnp.einsum("etf,te->tf", out, kept * jax.nn.softmax(s))

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the places of the whole batch exercise="12.9" score=0 diagnoses=["over-the-batch", "too-many-bytes", "not-counted-yet", "all-gather over expert"] near=["nothing-dropped", "not-scaled", "dropped: nothing-but-zeros"]
def dropped(scores):
    def body(s):
        counts = lax.psum(jnp.bincount(s.argmax(1), length=s.shape[1]), "expert")
        return jnp.maximum(counts - lax.axis_size("expert") * len(s) // s.shape[1], 0).sum()

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, s, up, down):
        n, experts = lax.axis_size("expert"), s.shape[1]
        capacity = n * len(s) // experts
        chosen = jax.nn.one_hot(s.argmax(1), experts, dtype=jnp.int32)
        counts = lax.all_gather(chosen.sum(0), "expert")
        before = jnp.where(jnp.arange(n)[:, None] < lax.axis_index("expert"), counts, 0).sum(0)
        place = (chosen * (before + jnp.cumsum(chosen, 0) - 1)).sum(1)
        sent = jnp.zeros((experts, capacity, x.shape[1]))
        sent = sent.at[s.argmax(1), place].set(x, mode="drop")
        got = lax.psum_scatter(sent, "expert", tiled=True)
        out = jax.nn.relu(jnp.einsum("ecf,efh->ech", got, up))
        out = lax.all_gather(jnp.einsum("ech,ehf->ecf", out, down), "expert", tiled=True)
        own = out.at[s.argmax(1), place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(s).max(1)[:, None] * own

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% places for the tokens of all devices, on each exercise="12.9" score=0 diagnoses=["nothing-but-zeros", "not-counted-yet", "nothing-dropped", "too-many-bytes"] near=["over-the-batch"]
def dropped(scores):
    def body(s):
        counts = jnp.bincount(s.argmax(1), length=s.shape[1])
        return lax.psum(
            jnp.maximum(counts - lax.axis_size("expert") * len(s) // s.shape[1], 0).sum(), "expert"
        )

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, s, up, down):
        capacity, chosen = lax.axis_size("expert") * len(s) // s.shape[1], s.argmax(1)
        hot = jax.nn.one_hot(chosen, s.shape[1], dtype=jnp.int32)
        place = (hot * jnp.cumsum(hot, 0)).sum(1) - 1
        sent = jnp.zeros((s.shape[1], capacity, x.shape[1]))
        sent = sent.at[chosen, place].set(x, mode="drop")
        got = lax.all_to_all(sent, "expert", 0, 1, tiled=True)
        out = jax.nn.relu(got @ up) @ down
        back = lax.all_to_all(out, "expert", 1, 0, tiled=True)
        own = back.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(s).max(1)[:, None] * own

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the capacity is rounded up exercise="12.9" score=0.1 diagnoses=["only-the-first", "not-counted-yet", "too-many-bytes"] near=["one-too-many"]
def dropped(scores):
    def body(s):
        counts = jnp.bincount(s.argmax(1), length=s.shape[1])
        return lax.psum(jnp.maximum(counts - len(s) // s.shape[1], 0).sum(), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, s, up, down):
        capacity, chosen = -(-len(s) // s.shape[1]), s.argmax(1)
        hot = jax.nn.one_hot(chosen, s.shape[1], dtype=jnp.int32)
        place = (hot * jnp.cumsum(hot, 0)).sum(1) - 1
        sent = jnp.zeros((s.shape[1], capacity, x.shape[1]))
        sent = sent.at[chosen, place].set(x, mode="drop")
        got = lax.all_to_all(sent, "expert", 0, 1, tiled=True)
        out = jax.nn.relu(got @ up) @ down
        back = lax.all_to_all(out, "expert", 1, 0, tiled=True)
        own = back.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(s).max(1)[:, None] * own

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% no probability, and the number of those that are kept exercise="12.9" score=0 diagnoses=["kept-for-dropped", "not-counted-yet", "not-scaled"] near=["over-the-batch", "unchanged"]
def dropped(scores):
    def body(s):
        chosen = jax.nn.one_hot(s.argmax(1), s.shape[1], dtype=jnp.int32)
        place = (chosen * jnp.cumsum(chosen, 0)).sum(1) - 1
        return lax.psum(jnp.sum(place < len(s) // s.shape[1]), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, s, up, down):
        expert, capacity = s.argmax(1), len(s) // s.shape[1]
        chosen = jax.nn.one_hot(expert, s.shape[1], dtype=jnp.int32)
        place = (chosen * jnp.cumsum(chosen, 0)).sum(1) - 1
        sent = jnp.zeros((s.shape[1], capacity, x.shape[1]))
        sent = sent.at[expert, place].set(x, mode="drop")
        got = lax.all_to_all(sent, "expert", 0, 1, tiled=True)
        out = jax.nn.relu(jnp.einsum("ecf,efh->ech", got, up))
        out = jnp.einsum("ech,ehf->ecf", out, down)
        back = lax.all_to_all(out, "expert", 1, 0, tiled=True)
        return back.at[expert, place].get(mode="fill", fill_value=0)

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the last tokens get the places exercise="12.9" score=0.1 diagnoses=["last-kept", "not-counted-yet"] near=["over-the-batch", "of-another-token", "in-order-of-experts"]
def dropped(scores):
    def body(s):
        counts = jnp.bincount(s.argmax(1), length=s.shape[1])
        return lax.psum(jnp.maximum(counts - len(s) // s.shape[1], 0).sum(), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, s, up, down):
        expert, capacity = s.argmax(1), len(s) // s.shape[1]
        chosen = jax.nn.one_hot(expert, s.shape[1], dtype=jnp.int32)
        after = chosen.sum(0) - jnp.cumsum(chosen, 0)
        place = (chosen * after).sum(1)
        sent = jnp.zeros((s.shape[1], capacity, x.shape[1]))
        sent = sent.at[expert, place].set(x, mode="drop")
        got = lax.all_to_all(sent, "expert", 0, 1, tiled=True)
        out = jax.nn.relu(jnp.einsum("ecf,efh->ech", got, up))
        out = jnp.einsum("ech,ehf->ecf", out, down)
        back = lax.all_to_all(out, "expert", 1, 0, tiled=True)
        own = back.at[expert, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(s).max(1)[:, None] * own

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% places from 1, and dropped tokens read at the edge exercise="12.9" score=0 diagnoses=["one-too-few", "not-counted-yet", "of-another-token"] near=["last-kept", "nothing-dropped", "one-too-many"]
def dropped(scores):
    def body(s):
        chosen = jax.nn.one_hot(s.argmax(1), s.shape[1], dtype=jnp.int32)
        place = (chosen * jnp.cumsum(chosen, 0)).sum(1)
        return lax.psum(jnp.sum(place >= len(s) // s.shape[1]), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, s, up, down):
        expert, capacity = s.argmax(1), len(s) // s.shape[1]
        chosen = jax.nn.one_hot(expert, s.shape[1], dtype=jnp.int32)
        place = (chosen * jnp.cumsum(chosen, 0)).sum(1) - 1
        sent = jnp.zeros((s.shape[1], capacity, x.shape[1])).at[expert, place].set(x)
        got = lax.all_to_all(sent, "expert", 0, 1, tiled=True)
        out = jax.nn.relu(jnp.einsum("ecf,efh->ech", got, up))
        out = jnp.einsum("ech,ehf->ecf", out, down)
        back = lax.all_to_all(out, "expert", 1, 0, tiled=True)
        return jax.nn.softmax(s).max(1)[:, None] * back[expert, place]

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% places from 1 to write, and one more than there are exercise="12.9" score=0 diagnoses=["one-too-many", "not-counted-yet", "one-too-few"] near=["last-kept", "of-another-token"]
def dropped(scores):
    def body(s):
        chosen = jax.nn.one_hot(s.argmax(1), s.shape[1], dtype=jnp.int32)
        place = (chosen * jnp.cumsum(chosen, 0)).sum(1) - 1
        return lax.psum(jnp.sum(place > len(s) // s.shape[1]), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, s, up, down):
        expert, capacity = s.argmax(1), len(s) // s.shape[1]
        chosen = jax.nn.one_hot(expert, s.shape[1], dtype=jnp.int32)
        place = (chosen * jnp.cumsum(chosen, 0)).sum(1)
        sent = jnp.zeros((s.shape[1], capacity, x.shape[1]))
        sent = sent.at[expert, place].set(x, mode="drop")
        got = lax.all_to_all(sent, "expert", 0, 1, tiled=True)
        out = jax.nn.relu(jnp.einsum("ecf,efh->ech", got, up))
        out = jnp.einsum("ech,ehf->ecf", out, down)
        back = lax.all_to_all(out, "expert", 1, 0, tiled=True)
        own = back.at[expert, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(s).max(1)[:, None] * own

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% dropped tokens stay as they are, and a device counts its own exercise="12.9" score=0 diagnoses=["not-replicated", "unchanged", "not-counted-yet"] near=["of-another-token", "not-scaled"]
def dropped(scores):
    def body(s):
        counts = jnp.bincount(s.argmax(1), length=s.shape[1])
        return jnp.maximum(counts - len(s) // s.shape[1], 0).sum()

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, s, up, down):
        expert, capacity = s.argmax(1), len(s) // s.shape[1]
        chosen = jax.nn.one_hot(expert, s.shape[1], dtype=jnp.int32)
        place = (chosen * jnp.cumsum(chosen, 0)).sum(1) - 1
        sent = jnp.zeros((s.shape[1], capacity, x.shape[1]))
        sent = sent.at[expert, place].set(x, mode="drop")
        got = lax.all_to_all(sent, "expert", 0, 1, tiled=True)
        out = jax.nn.relu(jnp.einsum("ecf,efh->ech", got, up))
        out = jnp.einsum("ech,ehf->ecf", out, down)
        back = lax.all_to_all(out, "expert", 1, 0, tiled=True)
        own = jax.nn.softmax(s).max(1)[:, None] * back[expert, place]
        return jnp.where((place < capacity)[:, None], own, x)

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% results stay sorted by expert exercise="12.9" score=0 diagnoses=["unanswered", "in-order-of-experts", "not-counted-yet"] near=["last-kept", "of-another-token", "misplaced"]
def moe(x, scores, up, down):
    def body(x, s, up, down):
        capacity, order = len(s) // s.shape[1], jnp.argsort(s.argmax(1))
        x, s = x[order], s[order]
        expert = s.argmax(1)
        place = jnp.arange(len(s)) - jnp.searchsorted(expert, expert)
        sent = jnp.zeros((s.shape[1], capacity, x.shape[1]))
        sent = sent.at[expert, place].set(x, mode="drop")
        got = lax.all_to_all(sent, "expert", 0, 1, tiled=True)
        out = jax.nn.relu(jnp.einsum("ecf,efh->ech", got, up))
        out = jnp.einsum("ech,ehf->ecf", out, down)
        back = lax.all_to_all(out, "expert", 1, 0, tiled=True)
        own = back.at[expert, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(s).max(1)[:, None] * own

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% dropped tokens are written into the last place exercise="12.9" score=0 diagnoses=["unanswered", "overwritten", "not-counted-yet"] near=["added-up", "of-another-token", "last-kept"]
def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        t, e = scores.shape
        chosen = scores.argmax(1)
        before = jnp.cumsum(jax.nn.one_hot(chosen, e, dtype=int), axis=0) - 1
        place = before[jnp.arange(t), chosen]
        is_kept, place = place < t // e, jnp.minimum(place, t // e - 1)
        sent = jnp.zeros((e, t // e, x.shape[1])).at[chosen, place].set(x)
        come = lax.all_to_all(sent, "expert", 0, 1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", come, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        back = lax.all_to_all(outputs, "expert", 1, 0, tiled=True)
        mine = jnp.where(is_kept[:, None], back[chosen, place], 0)
        return jax.nn.softmax(scores).max(1, keepdims=True) * mine

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% a softmax over tokens exercise="12.9" score=0 diagnoses=["unanswered", "other-factor", "not-counted-yet"] near=["not-scaled"]
def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        t, e = scores.shape
        chosen = scores.argmax(1)
        before = jnp.cumsum(jax.nn.one_hot(chosen, e, dtype=int), axis=0) - 1
        place = before[jnp.arange(t), chosen]
        sent = jnp.zeros((e, t // e, x.shape[1])).at[chosen, place].set(x, mode="drop")
        come = lax.all_to_all(sent, "expert", 0, 1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", come, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        back = lax.all_to_all(outputs, "expert", 1, 0, tiled=True)
        mine = back.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores, axis=0)[jnp.arange(t), chosen, None] * mine

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% experts of one layer exercise="12.9" score=0 diagnoses=["unanswered", "no-relu", "not-counted-yet"] near=["other-factor", "relu-at-the-end"]
def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        t, e = scores.shape
        chosen = scores.argmax(1)
        before = jnp.cumsum(jax.nn.one_hot(chosen, e, dtype=int), axis=0) - 1
        place = before[jnp.arange(t), chosen]
        sent = jnp.zeros((e, t // e, x.shape[1])).at[chosen, place].set(x, mode="drop")
        come = lax.all_to_all(sent, "expert", 0, 1, tiled=True)
        hidden = jnp.einsum("epf,efh->eph", come, up)
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        back = lax.all_to_all(outputs, "expert", 1, 0, tiled=True)
        mine = back.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(1, keepdims=True) * mine

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% what arrives is reshaped exercise="12.9" score=0 diagnoses=["unanswered", "of-other-experts", "not-counted-yet"] near=["in-order-of-experts", "misplaced"]
def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        t, e = scores.shape
        chosen = scores.argmax(1)
        before = jnp.cumsum(jax.nn.one_hot(chosen, e, dtype=int), axis=0) - 1
        place = before[jnp.arange(t), chosen]
        sent = jnp.zeros((e, t // e, x.shape[1])).at[chosen, place].set(x, mode="drop")
        come = lax.all_to_all(sent, "expert", 0, 0, tiled=True)
        come = come.reshape(len(up), -1, x.shape[1])
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", come, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        back = lax.all_to_all(outputs.reshape(sent.shape), "expert", 0, 0, tiled=True)
        mine = back.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(1, keepdims=True) * mine

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% no capacity at all, and a mean of devices exercise="12.9" score=0 diagnoses=["dtype", "not-counted-yet", "nothing-dropped", "all-gather over expert"] near=["over-the-batch", "unchanged"]
def dropped(scores):
    def body(s):
        counts = jnp.bincount(s.argmax(1), length=s.shape[1])
        return lax.pmean(jnp.maximum(counts - len(s) // s.shape[1], 0).sum(), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


moe = run_all_experts


# %% by playing it, and gradients written out exercise="12.10" score=1 near=["whole-spacing", "two-spacings", "of-float16", "of-float32", "rounded-down", "not-a-power", "added-up-in-bfloat16", "rounded-weights", "sum-for-mean", "averaged-twice", "other-direction", "sends-too-much", "in-pieces", "too-often", "other-change", "microbatches-twice"]
def stalls_at(increment):
    increment = jnp.bfloat16(increment)
    total = jnp.bfloat16(0)
    while total + increment != total:
        total = total + increment
    return float(total)


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def add(i, total):
            off = 2 * (x[i] @ w - y[i])
            return total + jnp.einsum("ef,eo->fo", x[i], off, preferred_element_type=jnp.float32)

        start = lax.pcast(jnp.zeros(w.shape, jnp.float32), "data", to="varying")
        mean = lax.fori_loop(0, len(x), add, start) / (x.shape[0] * x.shape[1])
        mean = lax.psum_scatter(mean.astype(jnp.bfloat16), "data", tiled=True)
        return own - 0.001 / lax.axis_size("data") * mean

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% everything in float32 exercise="12.10" score=0.1875 diagnoses=["of-float32", "sends-too-much"] near=["of-float16"]
def stalls_at(increment):
    return 2.0 ** (24 + np.ceil(np.log2(increment)))


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own, "data", tiled=True)

        def add(total, microbatch):
            x, y = (each.astype(jnp.float32) for each in microbatch)
            return total + jax.grad(lambda w: jnp.sum((x @ w - y) ** 2))(w), None

        total, _ = lax.scan(add, jnp.zeros_like(w), (x, y))
        total = lax.psum_scatter(total, "data", tiled=True)
        return own - 0.001 * total / (x.shape[0] * x.shape[1] * lax.axis_size("data"))

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% rounded after it was sent exercise="12.10" score=0.1875 diagnoses=["not-a-power", "sends-too-much"] near=["rounded-weights", "added-up-in-bfloat16"]
def stalls_at(increment):
    return 256 * increment


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own, "data", tiled=True).astype(jnp.bfloat16)

        def add(total, microbatch):
            x, y = microbatch
            gradient = jax.grad(lambda w: jnp.sum((x @ w - y) ** 2))(w)
            return total + gradient.astype(jnp.float32), None

        total, _ = lax.scan(add, jnp.zeros_like(w, jnp.float32), (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        return own - 0.001 * total / (x.shape[0] * x.shape[1] * lax.axis_size("data"))

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% a sum in bfloat16 exercise="12.10" score=0 diagnoses=["whole-spacing", "added-up-in-bfloat16", "not-counted-yet"] near=["rounded-weights", "two-spacings", "fewer-digits"]
def stalls_at(increment):
    return 2.0 ** (7 + np.ceil(np.log2(increment)))


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def add(total, microbatch):
            x, y = microbatch
            return total + jax.grad(lambda w: jnp.sum((x @ w - y) ** 2))(w), None

        total, _ = lax.scan(add, jnp.zeros_like(w), (x, y))
        total = lax.psum_scatter(total, "data", tiled=True).astype(jnp.float32)
        return own - 0.001 * total / (x.shape[0] * x.shape[1] * lax.axis_size("data"))

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% no float32 weights exercise="12.10" score=0 diagnoses=["rounded-down", "rounded-weights", "not-counted-yet"] near=["added-up-in-bfloat16", "fewer-digits", "coarser-type"]
def stalls_at(increment):
    return 2.0 ** (8 + np.floor(np.log2(increment)))


def mixed_step(master, X, Y):
    def body(own, x, y):
        own = own.astype(jnp.bfloat16)
        w = lax.all_gather(own, "data", tiled=True)

        def add(total, microbatch):
            x, y = microbatch
            gradient = jax.grad(lambda w: jnp.sum((x @ w - y) ** 2))(w)
            return total + gradient.astype(jnp.float32), None

        total, _ = lax.scan(add, jnp.zeros_like(w, jnp.float32), (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        total = total.astype(jnp.float32)
        return own - 0.001 * total / (x.shape[0] * x.shape[1] * lax.axis_size("data"))

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% bfloat16 weights come back exercise="12.10" score=0 diagnoses=["two-spacings", "dtype", "not-counted-yet"] near=["rounded-weights"]
def stalls_at(increment):
    return 2.0 ** (9 + np.ceil(np.log2(increment)))


def mixed_step(master, X, Y):
    def body(own, x, y):
        own = own.astype(jnp.bfloat16)
        w = lax.all_gather(own, "data", tiled=True)

        def add(total, microbatch):
            x, y = microbatch
            return total + jax.grad(lambda w: jnp.sum((x @ w - y) ** 2))(w), None

        total, _ = lax.scan(add, jnp.zeros_like(w), (x, y))
        total = lax.psum_scatter(total, "data", tiled=True)
        return own - 0.001 * total / (x.shape[0] * x.shape[1] * lax.axis_size("data"))

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% along the gradient exercise="12.10" score=0 diagnoses=["unanswered", "other-direction", "not-counted-yet"] near=["averaged-twice", "sum-for-mean"]
def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def loss(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(total, batch):
            return total + jax.grad(loss)(w, *batch).astype(jnp.float32), None

        total, _ = lax.scan(add, lax.pcast(jnp.zeros(w.shape), "data", to="varying"), (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return own + 0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    return jax.shard_map(body, in_specs=(P("data"), shares, shares), out_specs=P("data"))(
        master, X, Y
    )


# %% the compiler decides what is sent exercise="12.10" score=0 naive=true diagnoses=["of-float16", "not-counted-yet", "no-shard-map"]
def stalls_at(increment):
    return 2.0 ** (11 + np.ceil(np.log2(increment)))


def mixed_step(master, X, Y):
    x, y = (a.reshape(-1, a.shape[-1]).astype(jnp.float32) for a in (X, Y))
    gradient = jax.grad(lambda w: jnp.sum((x @ w - y) ** 2))(master) / len(x)
    return master - lax.with_sharding_constraint(0.001 * gradient, P("data"))


# %% gathered and scattered for each microbatch exercise="12.10" score=0.4375 diagnoses=["too-often"] near=["too-seldom"]
def stalls_at(increment):
    power = 1.0
    while power >= increment:
        power /= 2
    while power < increment:
        power *= 2
    return 256 * power


def mixed_step(master, X, Y):
    def body(own, x, y):
        def squared_error(w, x, y):
            w = lax.all_gather(w, "data", tiled=True)
            return jnp.sum((x @ w - y) ** 2)

        def add(total, microbatch):
            gradient = jax.grad(squared_error)(own.astype(jnp.bfloat16), *microbatch)
            return total + gradient.astype(jnp.float32), None

        total, _ = lax.scan(add, jnp.zeros_like(own), (x, y))
        return own - 0.001 * total / (x.shape[0] * x.shape[1] * lax.axis_size("data"))

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% every device gets the whole sum exercise="12.10" score=0.1875 diagnoses=["unanswered", "no reduce-scatter"] near=["sends-too-much"]
def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def add(total, microbatch):
            x, y = microbatch
            gradient = jax.grad(lambda w: jnp.sum((x @ w - y) ** 2))(w)
            return total + gradient.astype(jnp.float32), None

        total, _ = lax.scan(add, jnp.zeros_like(w, jnp.float32), (x, y))
        total = lax.psum(total.astype(jnp.bfloat16), "data").astype(jnp.float32)
        total = lax.dynamic_slice_in_dim(total, lax.axis_index("data") * len(own), len(own))
        return own - 0.001 * total / (x.shape[0] * x.shape[1] * lax.axis_size("data"))

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% a device's own mean, added up exercise="12.10" score=0.25 diagnoses=["sum-for-mean", "not-counted-yet"] near=["added-up-in-bfloat16", "averaged-twice", "rounded-weights"]
def stalls_at(increment):
    return 2.0 ** (8 + np.ceil(np.log2(increment)))


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def add(total, microbatch):
            x, y = microbatch
            gradient = jax.grad(lambda w: jnp.sum((x @ w - y) ** 2))(w)
            return total + gradient.astype(jnp.float32), None

        total, _ = lax.scan(add, jnp.zeros_like(w, jnp.float32), (x, y))
        mean = (total / (x.shape[0] * x.shape[1])).astype(jnp.bfloat16)
        return own - 0.001 * lax.psum_scatter(mean, "data", tiled=True).astype(jnp.float32)

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% a mean over the devices of a mean over all exercise="12.10" score=0 diagnoses=["unanswered", "averaged-twice", "not-counted-yet"] near=["sum-for-mean", "other-direction"]
def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def add(total, microbatch):
            x, y = microbatch
            gradient = jax.grad(lambda w: jnp.sum((x @ w - y) ** 2))(w)
            return total + gradient.astype(jnp.float32), None

        n = lax.axis_size("data")
        total, _ = lax.scan(add, jnp.zeros_like(w, jnp.float32), (x, y))
        mean = (total / (n * x.shape[0] * x.shape[1])).astype(jnp.bfloat16)
        return own - 0.001 * lax.psum_scatter(mean, "data", tiled=True).astype(jnp.float32) / n

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% the size of model in the key, and no sum over model exercise="12.7" score=0 diagnoses=["unanswered", "along-one-axis", "own-units-alone"] near=["same-everywhere", "mean-over-model", "summed-twice"]
def dropout(seed, h):
    def drop(seed, h):
        own_key = jax.random.key(seed)
        own_key = jax.random.fold_in(own_key, lax.axis_index("data"))
        own_key = jax.random.fold_in(own_key, lax.axis_size("model"))
        is_kept = jax.random.bernoulli(own_key, 0.5, h.shape)
        return jnp.where(is_kept, 2 * h, 0)

    spec = P("data", None, "model")
    return jax.shard_map(drop, in_specs=(P(), spec), out_specs=spec)(seed, h)


def gradient(w_out, h, y, lengths):
    def slope(w, h, y, lengths):
        padded = jnp.arange(h.shape[1]) >= lengths[:, None]

        def squares(w):
            off = h @ w - y
            return jnp.where(padded[..., None], 0, off**2).sum()

        return jax.grad(squares)(w)

    rows, blocks, examples = P("model"), P("data", None, "model"), P("data")
    sloped = jax.shard_map(slope, in_specs=(rows, blocks, examples, examples), out_specs=rows)
    return sloped(w_out, h, y, lengths)


# %% the size of data in the key, and a mean over model exercise="12.7" score=0 diagnoses=["unanswered", "along-one-axis", "mean-over-model"] near=["same-everywhere", "own-units-alone", "mean-for-sum"]
def dropout(seed, h):
    def drop(seed, h):
        own_key = jax.random.key(seed)
        own_key = jax.random.fold_in(own_key, lax.axis_size("data"))
        own_key = jax.random.fold_in(own_key, lax.axis_index("model"))
        is_kept = jax.random.bernoulli(own_key, 0.5, h.shape)
        return jnp.where(is_kept, 2 * h, 0)

    spec = P("data", None, "model")
    return jax.shard_map(drop, in_specs=(P(), spec), out_specs=spec)(seed, h)


def gradient(w_out, h, y, lengths):
    def slope(w, h, y, lengths):
        padded = jnp.arange(h.shape[1]) >= lengths[:, None]

        def squares(w):
            off = lax.pmean(h @ w, "model") - y
            return jnp.where(padded[..., None], 0, off**2).sum()

        return jax.grad(squares)(w)

    rows, blocks, examples = P("model"), P("data", None, "model"), P("data")
    sloped = jax.shard_map(slope, in_specs=(rows, blocks, examples, examples), out_specs=rows)
    return sloped(w_out, h, y, lengths)


# %% the own block comes last exercise="12.5" score=0.3333333333 diagnoses=["one-move-ahead-of-the-mask", "not-counted-yet"] near=["own-block-alone", "not-finite"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i, places = lax.axis_size("seq"), lax.axis_index("seq"), jnp.arange(len(q))
        pairs = [(d, (d - 1) % n) for d in range(n)]
        m, total, out = jnp.full_like(q[:, :1], -jnp.inf), jnp.zeros_like(q[:, :1]), 0 * q

        def step(t, carry):
            k, v, m, total, out = carry
            k, v = lax.ppermute((k, v), "seq", pairs)
            from_device = (i + t + 1) % n
            scores = (q @ k.T) * q.shape[1] ** -0.5
            seen = (i * len(q) + places)[:, None] >= (from_device * len(q) + places)[None, :]
            scores = jnp.where(seen, scores, -jnp.inf)
            new = jnp.maximum(m, scores.max(axis=1, keepdims=True))
            weights = jnp.exp(scores - new)
            total = total * jnp.exp(m - new) + weights.sum(axis=1, keepdims=True)
            out = out * jnp.exp(m - new) + weights @ v
            return k, v, new, total, out

        *_, total, out = lax.fori_loop(0, n, step, (k, v, m, total, out))
        return out / total

    return jax.shard_map(body, in_specs=(P("seq"), P("seq"), P("seq")), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    chunks = list(range(2 * n))
    return [(chunks.pop(), chunks.pop(0)) for _ in range(n)]


# %% a new table of specs in place of the old one exercise="12.7" score=0.25 diagnoses=["unanswered"] near=["replicated"]
SPECS = SPECS | {"w_out": P("model", None)}
w_out = start(0)["w_out"]


# %% a new table of specs among the globals of start exercise="12.7" score=0.25 diagnoses=["unanswered"] near=["replicated"]
start.__globals__["SPECS"] = {**start.__globals__["SPECS"], "w_out": P("model")}
w_out = start(0)["w_out"]


# %% the natural logarithm, and half of the latencies exercise="12.1" score=0.25 diagnoses=["natural-logarithm", "other-factors"] near=["halves", "one-latency"]
def exchange(n, size, latency, bandwidth):
    return latency + (n - 1) * size / bandwidth


def doubling(n, size, latency, bandwidth):
    return np.log(n) * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return (n - 1) * (latency + 2 * size / n / bandwidth)


def ring_from(n, latency, bandwidth):
    more_steps = 2 * (n - 1) - np.log(n)
    fewer_buffers = np.log(n) - 2 * (n - 1) / n
    return more_steps * latency * bandwidth / fewer_buffers


# %% half as many devices for steps, and a latency that is not subtracted exercise="12.1" score=0.25 diagnoses=["other-factors"] near=["times-bandwidth", "natural-logarithm", "every-other", "one-copy"]
def exchange(n, size, latency, bandwidth):
    return latency + (n - 1) / 2 * size / bandwidth


def doubling(n, size, latency, bandwidth):
    return n / 2 * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return 2 * (n - 1) * (latency + size / n / bandwidth)


def ring_from(n, latency, bandwidth):
    more_steps = 2 * (n - 1)
    fewer_buffers = np.log2(n) - 2 * (n - 1) / n
    return more_steps * latency * bandwidth / fewer_buffers


# %% bytes times bandwidth exercise="12.1" score=0.5 diagnoses=["times-bandwidth", "over-the-bandwidth"] near=["in-seconds", "product-alone", "over-the-latency"]
def exchange(n, size, latency, bandwidth):
    return latency + (n - 1) * size * bandwidth


def doubling(n, size, latency, bandwidth):
    return np.log2(n) * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return 2 * (n - 1) * (latency + size / n / bandwidth)


def ring_from(n, latency, bandwidth):
    more_steps = 2 * (n - 1) - np.log2(n)
    fewer_buffers = np.log2(n) - 2 * (n - 1) / n
    return more_steps * latency / bandwidth / fewer_buffers


# %% one chip forgotten, and a whole piece from one side exercise="12.2" score=0 diagnoses=["other-result", "every-other-piece", "other-factors", "hosts-for-chips"] near=["all-chips-across", "as-on-v5p", "one-direction"]
def wraps(chip, length):
    if chip == "v5e":
        return length == 16
    return length % 4 == 0


def gather(n, size, link, wraps):
    steps = n // 2 if wraps else n - 1
    return steps * size / n / link


def flat(hosts, chips, size, fast, slow):
    devices = hosts * chips
    return 2 * (devices - 1) / devices * size * (1 / fast + 1 / slow)


def two_levels(hosts, chips, size, fast, slow):
    scatter = gather_again = (chips - 1) / chips * size / fast
    across = 2 * (hosts - 1) / hosts * (size / hosts) / slow
    return scatter + across + gather_again


# %% another chip forgotten, and all chips between hosts exercise="12.2" score=0 diagnoses=["other-result", "other-factors", "all-chips-across"] near=["every-other-piece", "hosts-for-chips", "as-on-v5e"]
def wraps(chip, length):
    if chip == "v5p":
        return length % 4 == 0
    return length == 16


def gather(n, size, link, wraps):
    return (n // 2 if wraps else n - 1) * size / n / (2 * link)


def flat(hosts, chips, size, fast, slow):
    devices = hosts * chips
    return 2 * size / devices * (hosts * (chips - 1) / fast + (hosts - 1) / slow)


def two_levels(hosts, chips, size, fast, slow):
    scatter = gather_again = (chips - 1) / chips * size / fast
    across = 2 * (hosts * chips - 1) / (hosts * chips) * (size / chips) / slow
    return scatter + across + gather_again


# %% the warm-up the wrong way round, and a percentage exercise="12.3" score=0.25 diagnoses=["warm-up-grows", "in-percent"] near=["never-ends", "too-many-activations", "one_f_one_b: too-long", "exchanged"]
def gpipe(stages, microbatches):
    forward = [f"F{m}" for m in range(microbatches)]
    backward = [f"B{m}" for m in range(microbatches)]
    return [forward + backward for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for s in range(stages):
        warm_up = min(s, microbatches)
        jobs = [f"F{m}" for m in range(warm_up)]
        for m in range(microbatches):
            if warm_up + m < microbatches:
                jobs.append(f"F{warm_up + m}")
            jobs.append(f"B{m}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return 100 * (stages - 1) / (stages - 1 + microbatches)


# %% backward passes first, and one stage more exercise="12.3" score=0.25 diagnoses=["never-ends", "one-stage-more"] near=["one-step-more", "stages-for-waiting", "warm-up-grows"]
def gpipe(stages, microbatches):
    forward = [f"F{m}" for m in range(microbatches)]
    backward = [f"B{m}" for m in range(microbatches)]
    return [forward + backward for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for s in range(stages):
        warm_up = min(stages - 1 - s, microbatches)
        jobs = [f"F{m}" for m in range(warm_up)]
        for m in range(microbatches):
            jobs.append(f"B{m}")
            if warm_up + m < microbatches:
                jobs.append(f"F{warm_up + m}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return stages / (stages + microbatches)


# %% a warm-up of one more, and a stage that waits for itself exercise="12.3" score=0.25 diagnoses=["too-many-activations", "stages-for-waiting"] near=["one-stage-more"]
def gpipe(stages, microbatches):
    forward = [f"F{m}" for m in range(microbatches)]
    backward = [f"B{m}" for m in range(microbatches)]
    return [forward + backward for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for s in range(stages):
        warm_up = min(stages - s, microbatches)
        jobs = [f"F{m}" for m in range(warm_up)]
        for m in range(microbatches):
            if warm_up + m < microbatches:
                jobs.append(f"F{warm_up + m}")
            jobs.append(f"B{m}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return stages / (stages + microbatches - 1)


# %% counted from 1, and the waiting of one beside the work of all exercise="12.3" score=0.5 diagnoses=["unknown-job", "of-all-jobs"] near=["of-the-work", "in-percent", "no-job"]
def gpipe(stages, microbatches):
    forward = [f"F{m + 1}" for m in range(microbatches)]
    backward = [f"B{m + 1}" for m in range(microbatches)]
    return [forward + backward for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for s in range(stages):
        warm_up = min(stages - 1 - s, microbatches)
        jobs = [f"F{m}" for m in range(warm_up)]
        for m in range(microbatches):
            if warm_up + m < microbatches:
                jobs.append(f"F{warm_up + m}")
            jobs.append(f"B{m}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return (stages - 1) / (stages * microbatches)


# %% GPipe that is 1F1B, and a rounded share exercise="12.3" score=0.5 diagnoses=["backward-early", "rounded"] near=["of-all-jobs"]
def gpipe(stages, microbatches):
    forward = [f"F{m}" for m in range(microbatches)]
    backward = [f"B{m}" for m in range(microbatches)]
    return one_f_one_b(stages, microbatches)


def one_f_one_b(stages, microbatches):
    schedule = []
    for s in range(stages):
        warm_up = min(stages - 1 - s, microbatches)
        jobs = [f"F{m}" for m in range(warm_up)]
        for m in range(microbatches):
            if warm_up + m < microbatches:
                jobs.append(f"F{warm_up + m}")
            jobs.append(f"B{m}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return round((stages - 1) / (stages - 1 + microbatches), 2)


# %% GPipe without its last backward pass, and numbers exchanged exercise="12.3" score=0.5 diagnoses=["job-missing", "exchanged"] near=["rounded"]
def gpipe(stages, microbatches):
    forward = [f"F{m}" for m in range(microbatches)]
    backward = [f"B{m}" for m in range(microbatches - 1)]
    return [forward + backward for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for s in range(stages):
        warm_up = min(stages - 1 - s, microbatches)
        jobs = [f"F{m}" for m in range(warm_up)]
        for m in range(microbatches):
            if warm_up + m < microbatches:
                jobs.append(f"F{warm_up + m}")
            jobs.append(f"B{m}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return (microbatches - 1) / (stages - 1 + microbatches)


# %% rows from its own number, and a copy that is not sharded exercise="12.4" score=0 diagnoses=["copy-not-sharded", "row-of-its-number", "not-counted-yet", "unanswered"] near=["first-rows", "no-copy"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    sharded = {0: 0, 1: 8, 2: 10, 3: 12}[level]
    return parameters * (16 - sharded + sharded / n)


def update_own_rows(w, m, v, total, x):
    """Update a device's own rows, with the sum of their gradients over all devices."""
    first = lax.axis_index("data")
    examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
    return adam(lax.dynamic_slice_in_dim(w, first, len(m)), m, v, total / examples)


def with_replicated_weights(one_step, arrays):
    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(one_step, in_specs=in_specs, out_specs=ROWS)(*arrays)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_1(*arrays):
    def one_step(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def accumulate(total, microbatch):
            return total + jax.grad(error)(w, *microbatch), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(w), (x, y))
        return update_own_rows(w, m, v, lax.psum_scatter(total, "data", tiled=True), x)

    return with_replicated_weights(one_step, arrays)


# %% gradients on level 1, and old weights exercise="12.4" score=0 diagnoses=["gradients-first", "weights-unchanged", "not-counted-yet", "too-much-memory", "unanswered"] near=["copy-not-sharded", "row-of-its-number"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    sharded = {0: 0, 1: 2, 2: 14, 3: 16}[level]
    return parameters * (16 - sharded + sharded / n)


def update_own_rows(w, m, v, total, x):
    """Update a device's own rows, with the sum of their gradients over all devices."""
    first = lax.axis_index("data") * len(m)
    examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
    return adam(lax.dynamic_slice_in_dim(w, first, len(m)), m, v, total / examples)


def with_replicated_weights(one_step, arrays):
    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(one_step, in_specs=in_specs, out_specs=ROWS)(*arrays)
    return arrays[0], m, v


def zero_1(*arrays):
    def one_step(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def accumulate(total, microbatch):
            return total + jax.grad(error)(w, *microbatch), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(w), (x, y))
        return update_own_rows(w, m, v, lax.psum_scatter(total, "data", tiled=True), x)

    return with_replicated_weights(one_step, arrays)


# %% level 2 as level 1, and the states exchanged exercise="12.4" score=0 diagnoses=["other-factors", "unanswered", "states-exchanged", "not-counted-yet"] near=["gradients-first", "weights-unchanged", "other-order-of-results"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    sharded = {0: 0, 1: 12, 2: 12, 3: 16}[level]
    return parameters * (16 - sharded + sharded / n)


def update_own_rows(w, m, v, total, x):
    """Update a device's own rows, with the sum of their gradients over all devices."""
    first = lax.axis_index("data") * len(m)
    examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
    return adam(lax.dynamic_slice_in_dim(w, first, len(m)), v, m, total / examples)


def with_replicated_weights(one_step, arrays):
    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(one_step, in_specs=in_specs, out_specs=ROWS)(*arrays)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_2(*arrays):
    def one_step(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def accumulate(total, microbatch):
            gradient = jax.grad(error)(w, *microbatch)
            return total + lax.psum_scatter(gradient, "data", tiled=True), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(m), (x, y))
        return update_own_rows(w, m, v, total, x)

    return with_replicated_weights(one_step, arrays)


# %% all of it on level 1, and summed again exercise="12.4" score=0 diagnoses=["everything-at-once", "unanswered", "added-up-again", "not-counted-yet", "all-reduce over data"] near=["gradients-first", "as-many-times", "on-all-devices", "zero_3: shapes-do-not-fit"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    sharded = {0: 0, 1: 16, 2: 16, 3: 16}[level]
    return parameters * (16 - sharded + sharded / n)


def zero_3(*arrays):
    def one_step(w, m, v, x, y):
        @jax.checkpoint
        def gathered_error(w, x, y):
            return error(lax.all_gather(w, "data", tiled=True), x, y)

        def accumulate(total, microbatch):
            return total + jax.grad(gathered_error)(w, *microbatch), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(w), (x, y))
        n = lax.axis_size("data")
        return adam(w, m, v, lax.psum(total, "data") / (x.shape[0] * x.shape[1] * n))

    in_specs = (ROWS, ROWS, ROWS, SHARES, SHARES)
    return jax.shard_map(one_step, in_specs=in_specs, out_specs=ROWS)(*arrays)


# %% on all devices, and results in another order exercise="12.4" score=0 diagnoses=["on-all-devices", "other-order-of-results", "split-dimension", "not-counted-yet", "unanswered"] near=["everything-at-once", "states-exchanged", "added-up-again"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    sharded = {0: 0, 1: 12, 2: 14, 3: 16}[level]
    return n * parameters * (16 - sharded + sharded / n)


def update_own_rows(w, m, v, total, x):
    """Update a device's own rows, with the sum of their gradients over all devices."""
    first = lax.axis_index("data") * len(m)
    examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
    return adam(lax.dynamic_slice_in_dim(w, first, len(m)), m, v, total / examples)


def with_replicated_weights(one_step, arrays):
    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(one_step, in_specs=in_specs, out_specs=ROWS)(*arrays)
    return m, v, lax.with_sharding_constraint(W, P())


def zero_1(*arrays):
    def one_step(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def accumulate(total, microbatch):
            return total + jax.grad(error)(w, *microbatch), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(w), (x, y))
        return update_own_rows(w, m, v, lax.psum_scatter(total, "data", tiled=True), x)

    return with_replicated_weights(one_step, arrays)


# %% neither sum is rescaled exercise="12.5" score=0 diagnoses=["sums-not-rescaled", "not-counted-yet", "unanswered"] near=["never-rescaled", "exponentials-not-rescaled"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = total + weights.sum(axis=1)
            weighted = weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% the sum of exponentials is not rescaled exercise="12.5" score=0 diagnoses=["exponentials-not-rescaled", "not-counted-yet", "unanswered"] near=["sums-not-rescaled", "values-not-rescaled"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% the sum of values is not rescaled exercise="12.5" score=0 diagnoses=["values-not-rescaled", "not-counted-yet", "unanswered"] near=["exponentials-not-rescaled", "not-divided"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% rescaled upside down exercise="12.5" score=0 diagnoses=["not-a-number", "not-counted-yet", "unanswered"] near=["rescaled-upside-down", "one-move-ahead-of-the-mask"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(larger - largest)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% i + t for i - t exercise="12.5" score=0 diagnoses=["other-way-round", "not-counted-yet", "unanswered"] near=["one-move-ahead", "negative-places", "turn-for-block"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i + t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% one turn too few exercise="12.5" score=0 diagnoses=["one-turn-too-few", "not-counted-yet", "unanswered"] near=["one-turn-too-many", "own-block-alone", "own-block-whole"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n - 1))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% one turn too many exercise="12.5" score=0 diagnoses=["one-turn-too-many", "not-counted-yet", "too-many-bytes", "unanswered"] near=["one-turn-too-few"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n + 1))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% the mask reversed exercise="12.5" score=0 diagnoses=["looks-ahead-alone", "not-counted-yet", "unanswered"] near=["not-causal", "not-itself", "masked-are-zero"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] >= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% a strict mask exercise="12.5" score=0 diagnoses=["not-itself", "not-counted-yet", "unanswered"] near=["looks-ahead-alone", "not-finite"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] < (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% sent before it is used exercise="12.5" score=0 diagnoses=["one-move-ahead", "not-counted-yet", "unanswered"] near=["other-way-round"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% sent before it is used, with the right mask exercise="12.5" score=0 diagnoses=["one-move-ahead-of-the-mask", "not-counted-yet", "unanswered"] near=["one-move-ahead", "largest-not-carried"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            key_places = (i - t - 1) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% the largest score is not carried exercise="12.5" score=0 diagnoses=["largest-not-carried", "not-counted-yet", "unanswered"] near=["rescaled-upside-down", "one-move-ahead-of-the-mask"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, largest, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% the sums are not divided exercise="12.5" score=0 diagnoses=["not-divided", "not-counted-yet", "unanswered"] near=["sums-not-rescaled"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% masked scores are zero exercise="12.5" score=0 diagnoses=["masked-are-zero", "not-counted-yet", "unanswered"] near=["not-causal", "ways-differ"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), 0)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% the values stay exercise="12.5" score=0 diagnoses=["values-stay", "not-counted-yet", "unanswered"] near=["keys-stay"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k = lax.ppermute(k, "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% the keys stay exercise="12.5" score=0 diagnoses=["keys-stay", "not-counted-yet", "unanswered"] near=["values-stay"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            v = lax.ppermute(v, "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% numbers of blocks below zero exercise="12.5" score=0 diagnoses=["negative-places", "not-counted-yet", "unanswered"] near=["other-way-round", "not-causal"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% a block's number for its first place exercise="12.5" score=0 diagnoses=["number-for-place", "not-counted-yet", "unanswered"] near=["places-in-the-block", "queries-in-the-block"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% places of queries in the block exercise="12.5" score=0 diagnoses=["queries-in-the-block", "not-counted-yet", "unanswered"] near=["places-in-the-block", "number-for-place", "not-finite"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= own_places[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% one latency for all, and sent when the link is free exercise="12.6" score=0 diagnoses=["one-latency", "as-soon-as-free"] near=["no-latency", "exposed", "one-bucket-early"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    computed, link_free, layer = 0, 0, 0
    for count in buckets:
        computed += sum(backward[layer : layer + count])
        size = sum(sizes[layer : layer + count])
        link_free = max(computed, link_free) + size / bandwidth
        layer += count
    return link_free + latency - computed


def bucketed(backward, sizes, latency, bandwidth):
    best = [(0, [])]  # for the first k layers: when the last all-reduce ends, and the buckets
    for k in range(1, len(backward) + 1):
        computed = sum(backward[:k])
        choices = []
        for j in range(k):
            ends, buckets = best[j]
            duration = latency + sum(sizes[j:k]) / bandwidth
            choices.append((max(ends, computed) + duration, [*buckets, k - j]))
        best.append(min(choices))
    return best[-1][1]


def bucketed(backward, sizes, latency, bandwidth):
    buckets, count, computed, free, size = [], 0, 0, 0, 0
    for b, s in zip(backward, sizes):
        computed += b
        count += 1
        size += s
        if computed >= free:
            free = computed + latency + size / bandwidth
            buckets.append(count)
            count = size = 0
    if count:
        buckets.append(count)
    return buckets


# %% ready one bucket too early exercise="12.6" score=0.6666666667 diagnoses=["one-bucket-early"] near=["one-layer-on", "from-first-layer", "as-soon-as-free", "longer-than-computing"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    computed, link_free, layer = 0, 0, 0
    for count in buckets:
        size = sum(sizes[layer : layer + count])
        link_free = max(computed, link_free) + latency + size / bandwidth
        computed += sum(backward[layer : layer + count])
        layer += count
    return link_free - computed


def bucketed(backward, sizes, latency, bandwidth):
    best = [(0, [])]  # for the first k layers: when the last all-reduce ends, and the buckets
    for k in range(1, len(backward) + 1):
        computed = sum(backward[:k])
        choices = []
        for j in range(k):
            ends, buckets = best[j]
            duration = latency + sum(sizes[j:k]) / bandwidth
            choices.append((max(ends, computed) + duration, [*buckets, k - j]))
        best.append(min(choices))
    return best[-1][1]


# %% only the first all-reduce waits exercise="12.6" score=0.6666666667 diagnoses=["never-waiting"] near=["no-queue", "exposed"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    computed, link_free, layer = 0, 0, 0
    for count in buckets:
        computed += sum(backward[layer : layer + count])
        size = sum(sizes[layer : layer + count])
        link_free = (link_free or computed) + latency + size / bandwidth
        layer += count
    return link_free - computed


def bucketed(backward, sizes, latency, bandwidth):
    best = [(0, [])]  # for the first k layers: when the last all-reduce ends, and the buckets
    for k in range(1, len(backward) + 1):
        computed = sum(backward[:k])
        choices = []
        for j in range(k):
            ends, buckets = best[j]
            duration = latency + sum(sizes[j:k]) / bandwidth
            choices.append((max(ends, computed) + duration, [*buckets, k - j]))
        best.append(min(choices))
    return best[-1][1]


# %% all of it less the backward pass exercise="12.6" score=0.6666666667 diagnoses=["longer-than-computing"] near=["after-all", "never-waiting", "opposite-order", "times-bandwidth"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    computed, link_free, layer = 0, 0, 0
    for count in buckets:
        computed += sum(backward[layer : layer + count])
        size = sum(sizes[layer : layer + count])
        link_free = max(computed, link_free) + latency + size / bandwidth
        layer += count
    return max(0, sum(latency + 0 * b for b in buckets) + sum(sizes) / bandwidth - computed)


def bucketed(backward, sizes, latency, bandwidth):
    best = [(0, [])]  # for the first k layers: when the last all-reduce ends, and the buckets
    for k in range(1, len(backward) + 1):
        computed = sum(backward[:k])
        choices = []
        for j in range(k):
            ends, buckets = best[j]
            duration = latency + sum(sizes[j:k]) / bandwidth
            choices.append((max(ends, computed) + duration, [*buckets, k - j]))
        best.append(min(choices))
    return best[-1][1]


# %% bytes times bandwidth, and buckets in the opposite order exercise="12.6" score=0 diagnoses=["times-bandwidth", "opposite-order"] near=["one-latency", "exposed", "as-soon-as-free"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    computed, link_free, layer = 0, 0, 0
    for count in buckets:
        computed += sum(backward[layer : layer + count])
        size = sum(sizes[layer : layer + count])
        link_free = max(computed, link_free) + latency + size * bandwidth
        layer += count
    return link_free - computed


def bucketed(backward, sizes, latency, bandwidth):
    best = [(0, [])]  # for the first k layers: when the last all-reduce ends, and the buckets
    for k in range(1, len(backward) + 1):
        computed = sum(backward[:k])
        choices = []
        for j in range(k):
            ends, buckets = best[j]
            duration = latency + sum(sizes[j:k]) / bandwidth
            choices.append((max(ends, computed) + duration, [*buckets, k - j]))
        best.append(min(choices))
    return best[-1][1][::-1]


# %% one number in the key, and a gradient that is divided exercise="12.7" score=0 diagnoses=["unanswered", "one-number", "divided"] near=["other-seeds", "other-order", "mean-for-sum"]
def dropout(seed, h):
    def drop(seed, h):
        own_key = jax.random.key(seed)
        own_key = jax.random.fold_in(own_key, 2 * lax.axis_index("data") + lax.axis_index("model"))
        is_kept = jax.random.bernoulli(own_key, 0.5, h.shape)
        return jnp.where(is_kept, 2 * h, 0)

    spec = P("data", None, "model")
    return jax.shard_map(drop, in_specs=(P(), spec), out_specs=spec)(seed, h)


def gradient(w_out, h, y, lengths):
    def slope(w, h, y, lengths):
        padded = jnp.arange(h.shape[1]) >= lengths[:, None]

        def squares(w):
            off = lax.psum(h @ w, "model") - y
            return jnp.where(padded[..., None], 0, off**2).sum()

        return jax.grad(squares)(w)  # w does not vary over data, so this is a sum already

    rows, blocks, examples = P("model"), P("data", None, "model"), P("data")
    sloped = jax.shard_map(slope, in_specs=(rows, blocks, examples, examples), out_specs=rows)
    return sloped(w_out, h, y, lengths) / lengths.sum()


# %% one number of two sizes, and a sum over model, too exercise="12.7" score=0 diagnoses=["unanswered", "one-number", "not-divided", "rows-added-up"] near=["along-one-axis", "summed-twice", "mean-of-means", "one-token-more"]
def dropout(seed, h):
    def drop(seed, h):
        own_key = jax.random.key(seed)
        own_key = jax.random.fold_in(own_key, lax.axis_index(("data", "model")))
        is_kept = jax.random.bernoulli(own_key, 0.5, h.shape)
        return jnp.where(is_kept, 2 * h, 0)

    spec = P("data", None, "model")
    return jax.shard_map(drop, in_specs=(P(), spec), out_specs=spec)(seed, h)


def mean_error(errors, lengths):
    def add_up(errors, lengths):
        padded = jnp.arange(errors.shape[1]) >= lengths[:, None]
        total = lax.psum(jnp.where(padded, 0, errors).sum(), "data")
        return total  # not a mean of the devices' means

    return jax.shard_map(add_up, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    def slope(w, h, y, lengths):
        padded = jnp.arange(h.shape[1]) >= lengths[:, None]

        def squares(w):
            off = lax.psum(h @ w, "model") - y
            return jnp.where(padded[..., None], 0, off**2).sum()

        return lax.psum(
            jax.grad(squares)(w), "model"
        )  # w does not vary over data, so this is a sum already

    rows, blocks, examples = P("model"), P("data", None, "model"), P("data")
    sloped = jax.shard_map(slope, in_specs=(rows, blocks, examples, examples), out_specs=rows)
    return sloped(w_out, h, y, lengths)


# %% dropped for kept, and a token of the padding exercise="12.7" score=0 diagnoses=["unanswered", "dropped-for-kept", "one-token-more", "token-of-padding"] near=["not-doubled", "padding-counted", "one-number", "rows-added-up", "not-divided"]
def dropout(seed, h):
    def drop(seed, h):
        own_key = jax.random.key(seed)
        for axis in ("data", "model"):
            index = lax.axis_index(axis)  # and not the size
            own_key = jax.random.fold_in(own_key, index)
        is_kept = jax.random.bernoulli(own_key, 0.5, h.shape)
        return jnp.where(is_kept, 0, 2 * h)

    spec = P("data", None, "model")
    return jax.shard_map(drop, in_specs=(P(), spec), out_specs=spec)(seed, h)


def mean_error(errors, lengths):
    def add_up(errors, lengths):
        padded = jnp.arange(errors.shape[1]) > lengths[:, None]
        total = lax.psum(jnp.where(padded, 0, errors).sum(), "data")
        return total / lax.psum(lengths.sum(), "data")  # not a mean of the devices' means

    return jax.shard_map(add_up, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    def slope(w, h, y, lengths):
        padded = jnp.arange(h.shape[1]) > lengths[:, None]

        def squares(w):
            off = lax.psum(h @ w, "model") - y
            return jnp.where(padded[..., None], 0, off**2).sum()

        return jax.grad(squares)(w)  # w does not vary over data, so this is a sum already

    rows, blocks, examples = P("model"), P("data", None, "model"), P("data")
    sloped = jax.shard_map(slope, in_specs=(rows, blocks, examples, examples), out_specs=rows)
    return sloped(w_out, h, y, lengths)


# %% keys of other seeds, and minus the gradient exercise="12.7" score=0 diagnoses=["unanswered", "other-seeds", "off-by-a-factor"] near=["one-number", "dropped-for-kept", "divided"]
def dropout(seed, h):
    def drop(seed, h):
        own_key = jax.random.key(seed)
        own_key = jax.random.fold_in(
            jax.random.key(seed + lax.axis_index("data").astype("uint32")), lax.axis_index("model")
        )
        is_kept = jax.random.bernoulli(own_key, 0.5, h.shape)
        return jnp.where(is_kept, 2 * h, 0)

    spec = P("data", None, "model")
    return jax.shard_map(drop, in_specs=(P(), spec), out_specs=spec)(seed, h)


def gradient(w_out, h, y, lengths):
    def slope(w, h, y, lengths):
        padded = jnp.arange(h.shape[1]) >= lengths[:, None]

        def squares(w):
            off = lax.psum(h @ w, "model") - y
            return jnp.where(padded[..., None], 0, off**2).sum()

        return -jax.grad(squares)(w)  # w does not vary over data, so this is a sum already

    rows, blocks, examples = P("model"), P("data", None, "model"), P("data")
    sloped = jax.shard_map(slope, in_specs=(rows, blocks, examples, examples), out_specs=rows)
    return sloped(w_out, h, y, lengths)


# %% the last residual forgotten exercise="12.8" score=0 diagnoses=["unanswered", "last-shortcut-missing", "not-counted-yet"] near=["no-shortcut", "shortcut-around-both"]
policies = jax.checkpoint_policies


def named_block(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    weights = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2]))
    mixed = checkpoint_name(jnp.einsum("htu,hus->hts", weights, v), "mixed")
    attended = x + jnp.einsum("hts,hsf->tf", mixed, out)
    return jax.nn.gelu(attended @ up) @ down


keep_little = jax.checkpoint(named_block, policy=policies.save_only_these_names("qkv", "mixed"))


# %% the first residual forgotten exercise="12.8" score=0 diagnoses=["unanswered", "first-shortcut-missing", "not-counted-yet"] near=["no-shortcut", "last-shortcut-missing"]
policies = jax.checkpoint_policies


def named_block(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    weights = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2]))
    mixed = checkpoint_name(jnp.einsum("htu,hus->hts", weights, v), "mixed")
    attended = jnp.einsum("hts,hsf->tf", mixed, out)
    return attended + jax.nn.gelu(attended @ up) @ down


keep_little = jax.checkpoint(named_block, policy=policies.save_only_these_names("qkv", "mixed"))


# %% x before attention in the last sum exercise="12.8" score=0 diagnoses=["unanswered", "shortcut-around-both", "not-counted-yet"] near=["last-shortcut-missing", "layers-before-attention"]
policies = jax.checkpoint_policies


def named_block(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    weights = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2]))
    mixed = checkpoint_name(jnp.einsum("htu,hus->hts", weights, v), "mixed")
    attended = x + jnp.einsum("hts,hsf->tf", mixed, out)
    return x + jax.nn.gelu(attended @ up) @ down


keep_little = jax.checkpoint(named_block, policy=policies.save_only_these_names("qkv", "mixed"))


# %% x before attention in the last layers exercise="12.8" score=0 diagnoses=["unanswered", "layers-before-attention", "not-counted-yet"] near=["shortcut-around-both", "first-shortcut-missing"]
policies = jax.checkpoint_policies


def named_block(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    weights = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2]))
    mixed = checkpoint_name(jnp.einsum("htu,hus->hts", weights, v), "mixed")
    attended = x + jnp.einsum("hts,hsf->tf", mixed, out)
    return attended + jax.nn.gelu(x @ up) @ down


keep_little = jax.checkpoint(named_block, policy=policies.save_only_these_names("qkv", "mixed"))


# %% relu for gelu exercise="12.8" score=0 diagnoses=["unanswered", "other-activation", "not-counted-yet"] near=["exact-gelu"]
policies = jax.checkpoint_policies


def named_block(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    weights = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2]))
    mixed = checkpoint_name(jnp.einsum("htu,hus->hts", weights, v), "mixed")
    attended = x + jnp.einsum("hts,hsf->tf", mixed, out)
    return attended + jax.nn.relu(attended @ up) @ down


keep_little = jax.checkpoint(named_block, policy=policies.save_only_these_names("qkv", "mixed"))


# %% softmax over queries exercise="12.8" score=0 diagnoses=["unanswered", "other-axis", "not-counted-yet"] near=["not-scaled", "other-activation", "scaled-otherwise"]
policies = jax.checkpoint_policies


def named_block(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    weights = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2]), axis=1)
    mixed = checkpoint_name(jnp.einsum("htu,hus->hts", weights, v), "mixed")
    attended = x + jnp.einsum("hts,hsf->tf", mixed, out)
    return attended + jax.nn.gelu(attended @ up) @ down


keep_little = jax.checkpoint(named_block, policy=policies.save_only_these_names("qkv", "mixed"))


# %% divided by the size of a head exercise="12.8" score=0 diagnoses=["unanswered", "scaled-otherwise", "not-counted-yet"] near=["not-scaled", "other-axis"]
policies = jax.checkpoint_policies


def named_block(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    weights = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, k) / q.shape[2])
    mixed = checkpoint_name(jnp.einsum("htu,hus->hts", weights, v), "mixed")
    attended = x + jnp.einsum("hts,hsf->tf", mixed, out)
    return attended + jax.nn.gelu(attended @ up) @ down


keep_little = jax.checkpoint(named_block, policy=policies.save_only_these_names("qkv", "mixed"))


# %% full experts for tokens, and the smallest score exercise="12.9" score=0 diagnoses=["full-experts", "not-counted-yet", "unanswered"] near=["kept-for-dropped", "all-of-full-experts", "empty-places"]
def dropped(scores):
    def count(scores):
        counts = jnp.bincount(scores.argmax(axis=1), length=scores.shape[1])
        return lax.psum(jnp.sum(counts > scores.shape[0] // scores.shape[1]), "expert")

    return jax.shard_map(count, in_specs=P("expert"), out_specs=P())(scores)


# %% all tokens of full experts exercise="12.9" score=0 diagnoses=["all-of-full-experts", "not-counted-yet", "unanswered"] near=["full-experts"]
def dropped(scores):
    def count(scores):
        counts = jnp.bincount(scores.argmax(axis=1), length=scores.shape[1])
        return lax.psum(
            jnp.sum(jnp.where(counts > scores.shape[0] // scores.shape[1], counts, 0)), "expert"
        )

    return jax.shard_map(count, in_specs=P("expert"), out_specs=P())(scores)


# %% empty places for dropped tokens exercise="12.9" score=0 diagnoses=["empty-places", "not-counted-yet", "unanswered"] near=["not-clipped", "of-one-device"]
def dropped(scores):
    def count(scores):
        counts = jnp.bincount(scores.argmax(axis=1), length=scores.shape[1])
        return lax.psum(jnp.maximum(scores.shape[0] // scores.shape[1] - counts, 0).sum(), "expert")

    return jax.shard_map(count, in_specs=P("expert"), out_specs=P())(scores)


# %% places that make up for others exercise="12.9" score=0 diagnoses=["not-clipped", "not-counted-yet", "unanswered"] near=["empty-places", "dropped: nothing-but-zeros"]
def dropped(scores):
    def count(scores):
        counts = jnp.bincount(scores.argmax(axis=1), length=scores.shape[1])
        return lax.psum(jnp.sum(counts - scores.shape[0] // scores.shape[1]), "expert")

    return jax.shard_map(count, in_specs=P("expert"), out_specs=P())(scores)


# %% the largest number of a device exercise="12.9" score=0 diagnoses=["of-one-device", "not-counted-yet", "unanswered"] near=["dropped: not-replicated", "full-experts", "not-clipped", "dropped: dtype", "averaged"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def dropped(scores):
    def count(scores):
        _, place = find_places(scores)
        return lax.pmax(jnp.sum(place >= scores.shape[0] // scores.shape[1]), "expert")

    return jax.shard_map(count, in_specs=P("expert"), out_specs=P())(scores)


# %% the smallest scores exercise="12.9" score=0 diagnoses=["smallest-scores", "not-counted-yet"] near=["last-kept", "other-factor"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmin(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def dropped(scores):
    def count(scores):
        _, place = find_places(scores)
        return lax.psum(jnp.sum(place >= scores.shape[0] // scores.shape[1]), "expert")

    return jax.shard_map(count, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the same place for all tokens of an expert exercise="12.9" score=0 diagnoses=["nothing-but-zeros", "not-counted-yet", "first-place-for-all"] near=["places-by-devices", "overwritten", "smallest-scores", "never-returned"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=1) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def dropped(scores):
    def count(scores):
        _, place = find_places(scores)
        return lax.psum(jnp.sum(place >= scores.shape[0] // scores.shape[1]), "expert")

    return jax.shard_map(count, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% results that are not sent back exercise="12.9" score=0 diagnoses=["unanswered", "never-returned", "not-counted-yet"] near=["never-sent", "of-other-experts", "in-order-of-experts", "first-place-for-all", "moe: split-does-not-divide"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = outputs.reshape(sent.shape)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the probability twice, and a mean of counts exercise="12.9" score=0 diagnoses=["dtype", "not-counted-yet", "other-factor"] near=["not-scaled"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def dropped(scores):
    def count(scores):
        _, place = find_places(scores)
        return lax.pmean(jnp.sum(place >= scores.shape[0] // scores.shape[1]), "expert")

    return jax.shard_map(count, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) ** 2 * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the way back split like the way there exercise="12.9" score=0 diagnoses=["unanswered", "split-does-not-divide"] near=["never-returned"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=0, concat_axis=1, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the nearest power, and no rate exercise="12.10" score=0 diagnoses=["to-the-nearest-power", "other-change", "not-counted-yet"] near=["rounded-down", "one-power-more", "other-direction"]
def stalls_at(increment):
    power = np.round(np.log2(increment))  # from 2**(power + 8) on, half of the distance is 2**power
    return 2.0 ** (power + 8)


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def accumulate(total, microbatch):
            gradient = jax.grad(squared_error)(w, *microbatch)
            return total + gradient.astype(jnp.float32), None

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total, _ = lax.scan(accumulate, nothing, (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return own - total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% one power more, and one microbatch exercise="12.10" score=0 diagnoses=["one-power-more", "last-microbatch", "not-counted-yet"] near=["two-spacings", "to-the-nearest-power", "sum-for-mean"]
def stalls_at(increment):
    power = (
        np.floor(np.log2(increment)) + 1
    )  # from 2**(power + 8) on, half of the distance is 2**power
    return 2.0 ** (power + 8)


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def accumulate(total, microbatch):
            gradient = jax.grad(squared_error)(w, *microbatch)
            return 0 * total + gradient.astype(jnp.float32), None

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total, _ = lax.scan(accumulate, nothing, (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return own - 0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% how often it is added exercise="12.10" score=0.75 diagnoses=["how-many"] near=["not-a-power", "the-sum-before"]
def stalls_at(increment):
    power = np.ceil(np.log2(increment))  # from 2**(power + 8) on, half of the distance is 2**power
    return 2.0 ** (power + 8) / increment


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def accumulate(total, microbatch):
            gradient = jax.grad(squared_error)(w, *microbatch)
            return total + gradient.astype(jnp.float32), None

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total, _ = lax.scan(accumulate, nothing, (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return own - 0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% 256 divided by the increment exercise="12.10" score=0.75 diagnoses=["upside-down"] near=["how-many"]
def stalls_at(increment):
    power = np.ceil(np.log2(increment))  # from 2**(power + 8) on, half of the distance is 2**power
    return 256 / increment


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def accumulate(total, microbatch):
            gradient = jax.grad(squared_error)(w, *microbatch)
            return total + gradient.astype(jnp.float32), None

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total, _ = lax.scan(accumulate, nothing, (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return own - 0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% the sum before the last exercise="12.10" score=0.75 diagnoses=["the-sum-before"] near=["whole-spacing", "upside-down"]
def stalls_at(increment):
    power = np.ceil(np.log2(increment))  # from 2**(power + 8) on, half of the distance is 2**power
    return 2.0 ** (power + 8) - increment


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def accumulate(total, microbatch):
            gradient = jax.grad(squared_error)(w, *microbatch)
            return total + gradient.astype(jnp.float32), None

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total, _ = lax.scan(accumulate, nothing, (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return own - 0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% the natural logarithm exercise="12.10" score=0 diagnoses=["natural-logarithm", "unanswered"] near=["rounded-down"]
def stalls_at(increment):
    power = np.ceil(np.log(increment))  # from 2**(power + 8) on, half of the distance is 2**power
    return 2.0 ** (power + 8)


# %% half of the increments exercise="12.10" score=0 diagnoses=["other-multiple", "other-change", "not-counted-yet"] near=["stalls_at: natural-logarithm", "not-a-power"]
def stalls_at(increment):
    power = np.ceil(np.log2(increment))  # from 2**(power + 8) on, half of the distance is 2**power
    return 128 * increment


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def accumulate(total, microbatch):
            gradient = jax.grad(squared_error)(w, *microbatch)
            return total + gradient.astype(jnp.float32), None

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total, _ = lax.scan(accumulate, nothing, (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[2] * lax.axis_size("data")
        return own - 0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% the own block comes last, and scores that are not scaled exercise="12.5" score=0.3333333333 diagnoses=["not-a-number", "not-counted-yet"] near=["one-move-ahead-of-the-mask", "not-scaled"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i, places = lax.axis_size("seq"), lax.axis_index("seq"), jnp.arange(len(q))
        pairs = [(d, (d - 1) % n) for d in range(n)]
        m, total, out = jnp.full_like(q[:, :1], -jnp.inf), jnp.zeros_like(q[:, :1]), 0 * q

        def step(t, carry):
            k, v, m, total, out = carry
            k, v = lax.ppermute((k, v), "seq", pairs)
            from_device = (i + t + 1) % n
            scores = q @ k.T
            seen = (i * len(q) + places)[:, None] >= (from_device * len(q) + places)[None, :]
            scores = jnp.where(seen, scores, -jnp.inf)
            new = jnp.maximum(m, scores.max(axis=1, keepdims=True))
            weights = jnp.exp(scores - new)
            total = total * jnp.exp(m - new) + weights.sum(axis=1, keepdims=True)
            out = out * jnp.exp(m - new) + weights @ v
            return k, v, new, total, out

        *_, total, out = lax.fori_loop(0, n, step, (k, v, m, total, out))
        return out / total

    return jax.shard_map(body, in_specs=(P("seq"), P("seq"), P("seq")), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    chunks = list(range(2 * n))
    return [(chunks.pop(), chunks.pop(0)) for _ in range(n)]


# %% a mask of the places that are taken travels, too exercise="12.9" score=0.225 diagnoses=["unanswered", "too-many-bytes"] near=["moe: all-gather", "nothing-dropped"]
def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen = scores.argmax(axis=1)
        is_chosen = jax.nn.one_hot(chosen, experts, dtype=jnp.int32)
        place = (jnp.cumsum(is_chosen, axis=0) * is_chosen).sum(axis=1) - 1
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        taken = jnp.zeros(sent.shape[:2]).at[chosen, place].set(1, mode="drop")
        received, used = (lax.all_to_all(a, "expert", 0, 1, tiled=True) for a in (sent, taken))
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up)) * used[:, :, None]
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", 1, 0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the last layer of each bucket alone exercise="12.6" score=0.6666666667 diagnoses=["one-layer-of-each"] near=["last-bucket", "latency-of-each-layer"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    computed, link_free, layer = 0, 0, 0
    for count in buckets:
        computed += sum(backward[layer : layer + count])
        size = sizes[layer + count - 1]
        link_free = max(computed, link_free) + latency + size / bandwidth
        layer += count
    return link_free - computed


def bucketed(backward, sizes, latency, bandwidth):
    best = [(0, [])]
    for k in range(1, len(backward) + 1):
        computed = sum(backward[:k])
        choices = []
        for j in range(k):
            ends, buckets = best[j]
            duration = latency + sum(sizes[j:k]) / bandwidth
            choices.append((max(ends, computed) + duration, [*buckets, k - j]))
        best.append(min(choices))
    return best[-1][1]


# %% a latency for each layer exercise="12.6" score=0.6666666667 diagnoses=["latency-of-each-layer"] near=["one-latency", "sooner-of-both"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    computed, link_free, layer = 0, 0, 0
    for count in buckets:
        computed += sum(backward[layer : layer + count])
        size = sum(sizes[layer : layer + count])
        link_free = max(computed, link_free) + count * latency + size / bandwidth
        layer += count
    return link_free - computed


def bucketed(backward, sizes, latency, bandwidth):
    best = [(0, [])]
    for k in range(1, len(backward) + 1):
        computed = sum(backward[:k])
        choices = []
        for j in range(k):
            ends, buckets = best[j]
            duration = latency + sum(sizes[j:k]) / bandwidth
            choices.append((max(ends, computed) + duration, [*buckets, k - j]))
        best.append(min(choices))
    return best[-1][1]


# %% the gradients or the link, whichever comes first exercise="12.6" score=0.6666666667 diagnoses=["sooner-of-both"] near=["never-waiting", "one-layer-of-each"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    computed, link_free, layer = 0, 0, 0
    for count in buckets:
        computed += sum(backward[layer : layer + count])
        size = sum(sizes[layer : layer + count])
        link_free = min(computed, link_free) + latency + size / bandwidth
        layer += count
    return link_free - computed


def bucketed(backward, sizes, latency, bandwidth):
    best = [(0, [])]
    for k in range(1, len(backward) + 1):
        computed = sum(backward[:k])
        choices = []
        for j in range(k):
            ends, buckets = best[j]
            duration = latency + sum(sizes[j:k]) / bandwidth
            choices.append((max(ends, computed) + duration, [*buckets, k - j]))
        best.append(min(choices))
    return best[-1][1]


# %% numbers of microbatches for jobs exercise="12.3" score=0.5 diagnoses=["no-job", "other-result"] near=["unknown-job", "job-missing"]
def gpipe(stages, microbatches):
    jobs = [(kind, m) for kind in "FB" for m in range(microbatches)]
    return [jobs for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for s in range(stages):
        warm_up = min(stages - 1 - s, microbatches)
        jobs = [f"F{m}" for m in range(warm_up)]
        for m in range(microbatches):
            if warm_up + m < microbatches:
                jobs.append(f"F{warm_up + m}")
            jobs.append(f"B{m}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return 3 * (stages - 1) / (stages - 1 + microbatches)


# %% rescaled upside down, but for the first block exercise="12.5" score=0 diagnoses=["rescaled-upside-down", "not-counted-yet", "unanswered"] near=["sums-not-rescaled", "not-finite"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = (
                jnp.exp(scores - larger[:, None]),
                jnp.where(t == 0, 0, jnp.exp(larger - largest)),
            )
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% multiplied by the root of the features exercise="12.5" score=0 diagnoses=["scaled-otherwise", "not-counted-yet", "unanswered"] near=["not-scaled", "scaled-twice"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T * jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% keys and values in opposite directions exercise="12.5" score=0 diagnoses=["ways-differ", "not-counted-yet", "unanswered"] near=["values-stay", "scaled-otherwise"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k = lax.ppermute(k, "seq", to_the_next_device)
            v = lax.ppermute(v, "seq", [(b, a) for a, b in to_the_next_device])
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% one mask for all, and padding whose errors count exercise="12.7" score=0 diagnoses=["unanswered", "one-mask-for-all", "padding-added-up"] near=["same-everywhere", "padding-counted", "one-number", "per-example"]
def dropout(seed, h):
    def drop(seed, h):
        own_key = jax.random.key(seed)
        for axis in ("data", "model"):
            index = lax.axis_index(axis)  # and not the size
            own_key = jax.random.fold_in(own_key, index)
        is_kept = jax.random.bernoulli(own_key, 0.5, h.shape)
        return jnp.where(is_kept, 2 * h, 0)

    spec = P("data", None, "model")
    return jax.shard_map(drop, in_specs=(P(), spec), out_specs=spec)(seed, h)


def mean_error(errors, lengths):
    def add_up(errors, lengths):
        padded = jnp.arange(errors.shape[1]) >= lengths[:, None]
        total = lax.psum(errors.sum(), "data")
        return total / lax.psum(lengths.sum(), "data")  # not a mean of the devices' means

    return jax.shard_map(add_up, in_specs=P("data"), out_specs=P())(errors, lengths)


def dropout(seed, h):
    return jnp.where(jax.random.bernoulli(jax.random.key(seed), 0.5, h.shape), 2 * h, 0)


# %% a mean for each example exercise="12.7" score=0 diagnoses=["unanswered", "per-example"] near=["divided-by-four", "mean-of-examples", "not-divided", "padding-added-up", "one-mask-for-all"]
def mean_error(errors, lengths):
    def add_up(errors, lengths):
        padded = jnp.arange(errors.shape[1]) >= lengths[:, None]
        total = lax.psum(jnp.where(padded, 0, errors).sum(), "data")
        return total / lengths.shape[0] / lax.axis_size("data")  # not a mean of the devices' means

    return jax.shard_map(add_up, in_specs=P("data"), out_specs=P())(errors, lengths)


# %% a mean of counts, and relu at the end exercise="12.9" score=0 diagnoses=["averaged", "not-counted-yet", "relu-at-the-end"] near=["of-one-device", "no-relu"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def dropped(scores):
    def count(scores):
        _, place = find_places(scores)
        return lax.psum(
            jnp.sum(place >= scores.shape[0] // scores.shape[1]), "expert"
        ) // lax.axis_size("expert")

    return jax.shard_map(count, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jnp.einsum("epf,efh->eph", received, up)
        outputs = jax.nn.relu(jnp.einsum("eph,ehf->epf", hidden, down))
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% float16 in place of bfloat16, and the loss scaled for it exercise="12.10" score=0 diagnoses=["unanswered", "not-finite", "not-counted-yet", "other-type"] near=["sends-too-much", "added-up-in-bfloat16"]
def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.float16), "data", tiled=True)

        def accumulate(total, microbatch):
            gradient = jax.grad(squared_error)(w, *microbatch)
            return total + gradient.astype(jnp.float32), None

        def squared_error(w, x, y):
            return 1024 * jnp.sum((x @ w - y) ** 2)  # else small gradients become zero

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total, _ = lax.scan(accumulate, nothing, (x, y))
        total = lax.psum_scatter(total.astype(jnp.float16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return own - 0.001 * total.astype(jnp.float32) / (1024 * examples)

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% one increment too many, and a rate ten times as large exercise="12.10" score=0 diagnoses=["added-again", "other-change", "not-counted-yet"] near=["other-multiple", "other-type", "the-sum-before"]
def stalls_at(increment):
    power = np.ceil(np.log2(increment))  # from 2**(power + 8) on, half of the distance is 2**power
    return 2.0 ** (power + 8) + increment


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def accumulate(total, microbatch):
            gradient = jax.grad(squared_error)(w, *microbatch)
            return total + gradient.astype(jnp.float32), None

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total, _ = lax.scan(accumulate, nothing, (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return own - 0.01 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% the first microbatch alone exercise="12.4" score=0 diagnoses=["unanswered", "last-microbatch", "not-counted-yet"] near=["own-examples", "mean-of-a-microbatch", "averaged-twice"]
ROWS, SHARES = P("data"), P(None, "data")


def update_own_rows(w, m, v, total, x):
    """Update a device's own rows, with the sum of their gradients over all devices."""
    first = lax.axis_index("data") * len(m)
    examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
    return adam(lax.dynamic_slice_in_dim(w, first, len(m)), m, v, total / examples)


def with_replicated_weights(one_step, arrays):
    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(one_step, in_specs=in_specs, out_specs=ROWS)(*arrays)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_1(*arrays):
    def one_step(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def accumulate(total, microbatch):
            return total + jax.grad(error)(w, *microbatch), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(w), (x[:1], y[:1]))
        return update_own_rows(w, m, v, lax.psum_scatter(total, "data", tiled=True), x)

    return with_replicated_weights(one_step, arrays)


# %% rows counted from the end exercise="12.4" score=0 diagnoses=["unanswered", "rows-of-another", "not-counted-yet"] near=["zero_1: too-much-memory", "first-rows", "row-of-its-number", "no-adam"]
ROWS, SHARES = P("data"), P(None, "data")


def update_own_rows(w, m, v, total, x):
    """Update a device's own rows, with the sum of their gradients over all devices."""
    first = (lax.axis_size("data") - 1 - lax.axis_index("data")) * len(m)
    examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
    return adam(lax.dynamic_slice_in_dim(w, first, len(m)), m, v, total / examples)


def with_replicated_weights(one_step, arrays):
    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(one_step, in_specs=in_specs, out_specs=ROWS)(*arrays)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_1(*arrays):
    def one_step(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def accumulate(total, microbatch):
            return total + jax.grad(error)(w, *microbatch), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(w), (x, y))
        return update_own_rows(w, m, v, lax.psum_scatter(total, "data", tiled=True), x)

    return with_replicated_weights(one_step, arrays)


# %% a step without Adam exercise="12.4" score=0 diagnoses=["unanswered", "no-adam", "not-counted-yet"] near=["weights-unchanged", "rows-of-another"]
ROWS, SHARES = P("data"), P(None, "data")


def zero_3(*arrays):
    def one_step(w, m, v, x, y):
        @jax.checkpoint
        def gathered_error(w, x, y):
            return error(lax.all_gather(w, "data", tiled=True), x, y)

        def accumulate(total, microbatch):
            return total + jax.grad(gathered_error)(w, *microbatch), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(w), (x, y))
        return adam(w, m, v, total / (x.shape[0] * x.shape[1] * lax.axis_size("data")))

    in_specs = (ROWS, ROWS, ROWS, SHARES, SHARES)
    return jax.shard_map(one_step, in_specs=in_specs, out_specs=ROWS)(*arrays)


def adam(w, m, v, gradient):
    return w - 0.01 * gradient, m, v


# %% scores of queries with queries exercise="12.8" score=0 diagnoses=["unanswered", "mixed-up", "not-counted-yet"] near=["other-axis", "not-scaled"]
policies = jax.checkpoint_policies


def named_block(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    weights = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, q) / jnp.sqrt(q.shape[2]))
    mixed = checkpoint_name(jnp.einsum("htu,hus->hts", weights, v), "mixed")
    attended = x + jnp.einsum("hts,hsf->tf", mixed, out)
    return attended + jax.nn.gelu(attended @ up) @ down


keep_little = jax.checkpoint(named_block, policy=policies.save_only_these_names("qkv", "mixed"))


# %% silu for gelu exercise="12.8" score=0 diagnoses=["unanswered", "other-activation", "not-counted-yet"] near=["exact-gelu", "mixed-up"]
policies = jax.checkpoint_policies


def named_block(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    weights = jax.nn.softmax(jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2]))
    mixed = checkpoint_name(jnp.einsum("htu,hus->hts", weights, v), "mixed")
    attended = x + jnp.einsum("hts,hsf->tf", mixed, out)
    return attended + jax.nn.silu(attended @ up) @ down


keep_little = jax.checkpoint(named_block, policy=policies.save_only_these_names("qkv", "mixed"))


# %% no largest score is subtracted exercise="12.5" score=0.3333333333333333 diagnoses=["begins-with-zero", "not-counted-yet"] near=["never-rescaled", "sums-not-rescaled"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            weights = jnp.exp(scores)
            total = total + weights.sum(axis=1)
            weighted = weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, nothing[:, 0], nothing
        (_, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [(i, 2 * n - 1 - i) for i in range(n)]


# %% multiples of 16 on v5e exercise="12.2" score=0.75 diagnoses=["longer-than-16"] near=["as-on-v5p", "as-on-v5e", "always"]
def wraps(chip, length):
    if chip in ("v5e", "v6e"):
        return length % 16 == 0
    return length % 4 == 0


def gather(n, size, link, wraps):
    links_into_the_last_chip = 2 if wraps else 1
    return (n - 1) * (size / n) / (links_into_the_last_chip * link)


def flat(hosts, chips, size, fast, slow):
    devices = hosts * chips
    return 2 * (devices - 1) / devices * size / min(fast, slow)


def two_levels(hosts, chips, size, fast, slow):
    scatter = gather_again = (chips - 1) / chips * size / fast
    across = 2 * (hosts - 1) / hosts * (size / chips) / slow
    return scatter + across + gather_again


# %% the largest score of a key exercise="12.5" score=0 diagnoses=["not-a-number", "not-counted-yet", "unanswered"] near=["one-move-ahead-of-the-mask", "largest-not-carried", "begins-with-zero"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=0))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% divided in each step exercise="12.5" score=0 diagnoses=["divided-each-turn", "not-counted-yet", "unanswered"] near=["not-divided", "mask-one-step-ahead"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = (rescale[:, None] * weighted + weights @ v) / total[:, None]
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% the mask is one step ahead exercise="12.5" score=0 diagnoses=["mask-one-step-ahead", "not-counted-yet", "unanswered"] near=["divided-each-turn", "one-move-ahead"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t - 1) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% rescaled upside down, from 0 on exercise="12.5" score=0 diagnoses=["rescaled-upside-down", "not-counted-yet", "unanswered"] near=["begins-with-zero", "one-move-ahead"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(larger - largest)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, nothing[:, 0], nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% the largest score begins with 0 exercise="12.5" score=0 diagnoses=["begins-with-zero", "not-counted-yet", "unanswered"] near=["not-finite", "largest-not-carried"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.zeros_like(q[:, 0]), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% a large negative number for minus infinity exercise="12.5" score=0.6666666666666666 diagnoses=["unanswered"] near=["begins-with-zero", "masked-are-zero", "not-finite"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -1e30)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -1e30), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% a mask of keys by queries exercise="12.5" score=0 diagnoses=["mask-transposed", "not-counted-yet", "unanswered"] near=["looks-ahead-alone", "blocks-exchanged", "places-in-the-block"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[:, None] <= (i * length + own_places)[None, :]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% the blocks of queries and keys exchanged exercise="12.5" score=0 diagnoses=["blocks-exchanged", "not-counted-yet", "unanswered"] near=["looks-ahead-alone", "mask-transposed", "other-way-round"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = i * length + own_places
            is_seen = key_places[None, :] <= ((i - t) % n * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=1)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% a divisor that is a factor in Python exercise="12.1" score=0.75 diagnoses=["times-bandwidth"] near=["whole-buffer", "in-seconds", "other-factors"]
def exchange(n, size, latency, bandwidth):
    return latency + (n - 1) * size / bandwidth


def doubling(n, size, latency, bandwidth):
    return np.log2(n) * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return 2 * (n - 1) * (latency + size / n * bandwidth)


def ring_from(n, latency, bandwidth):
    more_steps = 2 * (n - 1) - np.log2(n)
    fewer_buffers = np.log2(n) - 2 * (n - 1) / n
    return more_steps * latency * bandwidth / fewer_buffers


# %% the last backward passes in another order, and as long a forward pass exercise="12.3" score=0.25 diagnoses=["orders-differ", "other-units"] near=["one_f_one_b: too-long", "both-ends", "never-ends"]
def gpipe(stages, microbatches):
    forward = [f"F{m}" for m in range(microbatches)]
    backward = [f"B{m}" for m in range(microbatches)]
    return [forward + backward for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for s in range(stages):
        warm_up = min(stages - 1 - s, microbatches)
        jobs = [f"F{m}" for m in range(warm_up)]
        for m in range(microbatches - warm_up):
            jobs += [f"F{warm_up + m}", f"B{m}"]
        jobs += [f"B{m}" for m in reversed(range(microbatches - warm_up, microbatches))]
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    waiting = 4 * (stages - 1)
    return waiting / (waiting + 3 * microbatches)


# %% forward passes wait twice exercise="12.3" score=0.75 diagnoses=["other-units"] near=["both-ends", "of-the-work"]
def gpipe(stages, microbatches):
    forward = [f"F{m}" for m in range(microbatches)]
    backward = [f"B{m}" for m in range(microbatches)]
    return [forward + backward for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for s in range(stages):
        warm_up = min(stages - 1 - s, microbatches)
        jobs = [f"F{m}" for m in range(warm_up)]
        for m in range(microbatches):
            if warm_up + m < microbatches:
                jobs.append(f"F{warm_up + m}")
            jobs.append(f"B{m}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    waiting = 2 * (stages - 1)
    return waiting / (3 * (stages - 1 + microbatches))


# %% loops of Python exercise="12.4" score=0.4375 diagnoses=["too-much-memory"] near=["too-many-bytes", "all-reduce"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    sharded = {0: 0, 1: 12, 2: 14, 3: 16}[level]
    return parameters * (16 - sharded + sharded / n)


def update_own_rows(w, m, v, total, x):
    """Update a device's own rows, with the sum of their gradients over all devices."""
    first = lax.axis_index("data") * len(m)
    examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
    return adam(lax.dynamic_slice_in_dim(w, first, len(m)), m, v, total / examples)


def with_replicated_weights(one_step, arrays):
    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(one_step, in_specs=in_specs, out_specs=ROWS)(*arrays)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_1(*arrays):
    def one_step(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def accumulate(total, microbatch):
            return total + jax.grad(error)(w, *microbatch), None

        total = jnp.zeros_like(w)
        for microbatch in zip(x, y):
            total, _ = accumulate(total, microbatch)
        return update_own_rows(w, m, v, lax.psum_scatter(total, "data", tiled=True), x)

    return with_replicated_weights(one_step, arrays)


def zero_2(*arrays):
    def one_step(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def accumulate(total, microbatch):
            gradient = jax.grad(error)(w, *microbatch)
            return total + lax.psum_scatter(gradient, "data", tiled=True), None

        total = jnp.zeros_like(m)
        for microbatch in zip(x, y):
            total, _ = accumulate(total, microbatch)
        return update_own_rows(w, m, v, total, x)

    return with_replicated_weights(one_step, arrays)


def zero_3(*arrays):
    def one_step(w, m, v, x, y):
        @jax.checkpoint
        def gathered_error(w, x, y):
            return error(lax.all_gather(w, "data", tiled=True), x, y)

        def accumulate(total, microbatch):
            return total + jax.grad(gathered_error)(w, *microbatch), None

        total = jnp.zeros_like(w)
        for microbatch in zip(x, y):
            total, _ = accumulate(total, microbatch)
        return adam(w, m, v, total / (x.shape[0] * x.shape[1] * lax.axis_size("data")))

    in_specs = (ROWS, ROWS, ROWS, SHARES, SHARES)
    return jax.shard_map(one_step, in_specs=in_specs, out_specs=ROWS)(*arrays)


# %% own rows of the own examples exercise="12.4" score=0.75 diagnoses=["own-examples", "not-counted-yet"] near=["as-many-times", "averaged-twice", "rows-of-another"]
ROWS, SHARES = P("data"), P(None, "data")


def held(level, parameters, n):
    sharded = {0: 0, 1: 12, 2: 14, 3: 16}[level]
    return parameters * (16 - sharded + sharded / n)


def update_own_rows(w, m, v, total, x):
    """Update a device's own rows, with the sum of their gradients over all devices."""
    first = lax.axis_index("data") * len(m)
    examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
    return adam(lax.dynamic_slice_in_dim(w, first, len(m)), m, v, total / examples)


def own_rows(total, m):
    return lax.dynamic_slice_in_dim(total, lax.axis_index("data") * len(m), len(m))


def with_replicated_weights(one_step, arrays):
    in_specs = (P(), ROWS, ROWS, SHARES, SHARES)
    W, m, v = jax.shard_map(one_step, in_specs=in_specs, out_specs=ROWS)(*arrays)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_1(*arrays):
    def one_step(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def accumulate(total, microbatch):
            return total + jax.grad(error)(w, *microbatch), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(w), (x, y))
        return update_own_rows(w, m, v, own_rows(total, m), x)

    return with_replicated_weights(one_step, arrays)


def zero_2(*arrays):
    def one_step(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def accumulate(total, microbatch):
            gradient = jax.grad(error)(w, *microbatch)
            return total + lax.psum_scatter(gradient, "data", tiled=True), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(m), (x, y))
        return update_own_rows(w, m, v, total, x)

    return with_replicated_weights(one_step, arrays)


def zero_3(*arrays):
    def one_step(w, m, v, x, y):
        @jax.checkpoint
        def gathered_error(w, x, y):
            return error(lax.all_gather(w, "data", tiled=True), x, y)

        def accumulate(total, microbatch):
            return total + jax.grad(gathered_error)(w, *microbatch), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(w), (x, y))
        return adam(w, m, v, total / (x.shape[0] * x.shape[1] * lax.axis_size("data")))

    in_specs = (ROWS, ROWS, ROWS, SHARES, SHARES)
    return jax.shard_map(one_step, in_specs=in_specs, out_specs=ROWS)(*arrays)


# %% the next layer for the next bucket exercise="12.6" score=0 diagnoses=["one-layer-on", "unanswered"] near=["first-layer-first", "one-layer-of-each", "latency-of-each-layer"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    computed, link_free, layer = 0, 0, 0
    for count in buckets:
        computed += sum(backward[layer : layer + count])
        size = sum(sizes[layer : layer + count])
        link_free = max(computed, link_free) + latency + size / bandwidth
        layer += 1
    return link_free - computed


# %% an index added to the seed, and sums divided by 4 exercise="12.7" score=0 diagnoses=["unanswered", "other-seeds", "mean-of-means", "divided-by-four"] near=["one-number", "only-the-first", "mean-for-sum", "summed-twice"]
def dropout(seed, h):
    def drop(seed, h):
        index = lax.axis_index("data") * lax.axis_size("model") + lax.axis_index("model")
        is_kept = jax.random.bernoulli(jax.random.key(seed + index), 0.5, h.shape)
        return jnp.where(is_kept, 2 * h, 0)

    spec = P("data", None, "model")
    return jax.shard_map(drop, in_specs=(P(), spec), out_specs=spec)(seed, h)


def mean_error(errors, lengths):
    def add_up(errors, lengths):
        padded = jnp.arange(errors.shape[1]) >= lengths[:, None]
        mean = jnp.where(padded, 0, errors).sum() / lengths.sum()
        return lax.psum(mean, "data") / 4

    return jax.shard_map(add_up, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    def slope(w, h, y, lengths):
        padded = jnp.arange(h.shape[1]) >= lengths[:, None]

        def squares(w):
            off = lax.psum(h @ w, "model") - y
            return jnp.where(padded[..., None], 0, off**2).sum()

        return lax.psum(jax.grad(squares)(w), "data") / 4

    rows, blocks, examples = P("model"), P("data", None, "model"), P("data")
    sloped = jax.shard_map(slope, in_specs=(rows, blocks, examples, examples), out_specs=rows)
    return sloped(w_out, h, y, lengths)


# %% an index added to the seed, and the other folded in exercise="12.7" score=0 diagnoses=["unanswered", "other-seeds"] near=["along-one-axis", "other-order"]
def dropout(seed, h):
    def drop(seed, h):
        key = jax.random.key(seed + lax.axis_index("data"))
        key = jax.random.fold_in(key, lax.axis_index("model"))
        is_kept = jax.random.bernoulli(key, 0.5, h.shape)
        return jnp.where(is_kept, 2 * h, 0)

    spec = P("data", None, "model")
    return jax.shard_map(drop, in_specs=(P(), spec), out_specs=spec)(seed, h)


# %% nothing is exchanged exercise="12.9" score=0 diagnoses=["unanswered", "never-sent", "not-counted-yet"] near=["never-returned", "of-other-experts"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = sent.reshape(len(up), -1, x.shape[1])
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = outputs.reshape(sent.shape)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% results come back from tokens that stayed exercise="12.9" score=0 diagnoses=["unanswered", "never-sent", "not-counted-yet"] near=["never-returned", "in-order-of-experts"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = sent.reshape(len(up), -1, x.shape[1])
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% places for devices exercise="12.9" score=0 diagnoses=["places-by-devices", "not-counted-yet", "too-many-bytes"] near=["over-the-batch", "nothing-dropped", "all-of-full-experts"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def dropped(scores):
    def count(scores):
        _, place = find_places(scores)
        return lax.psum(jnp.sum(place >= scores.shape[0] // lax.axis_size("expert")), "expert")

    return jax.shard_map(count, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // lax.axis_size("expert"), x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% two experts for each token exercise="12.9" score=0 diagnoses=["unanswered", "two-experts", "not-counted-yet", "too-many-bytes"] near=["other-factor", "not-scaled"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        shares, experts = lax.top_k(jax.nn.softmax(scores), 2)
        outputs = 0
        for share, expert in zip(shares.T, experts.T):
            chosen = jax.nn.one_hot(expert, scores.shape[1])
            outputs += share[:, None] * run_one(x, chosen, up, down)
        return outputs

    def run_one(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the probability of expert 0 exercise="12.9" score=0 diagnoses=["unanswered", "other-factor", "not-counted-yet"] near=["not-scaled", "two-experts"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores)[:, :1] * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% added up in the last place exercise="12.9" score=0 diagnoses=["unanswered", "added-up", "not-counted-yet"] near=["overwritten", "of-another-token", "first-place-for-all"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, jnp.minimum(place, tokens // experts - 1)].add(x)
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the smallest scores and probabilities exercise="12.9" score=0 diagnoses=["unanswered", "smallest-scores", "not-counted-yet"] near=["other-factor", "last-kept"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmin(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).min(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% twice where it stops, and a mean over microbatches and devices exercise="12.10" score=0 diagnoses=["other-multiple", "sum-for-mean", "not-counted-yet"] near=["not-a-power", "only-the-first", "two-spacings"]
def stalls_at(increment):
    power = np.ceil(np.log2(increment))  # from 2**(power + 8) on, half of the distance is 2**power
    return 512 * increment


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def accumulate(total, microbatch):
            gradient = jax.grad(squared_error)(w, *microbatch)
            return total + gradient.astype(jnp.float32), None

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total, _ = lax.scan(accumulate, nothing, (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * lax.axis_size("data")
        return own - 0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% a sum that is not divided exercise="12.10" score=0 diagnoses=["unanswered", "sum-for-mean", "not-counted-yet"] near=["other-change", "change-alone"]
def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def accumulate(total, microbatch):
            gradient = jax.grad(squared_error)(w, *microbatch)
            return total + gradient.astype(jnp.float32), None

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total, _ = lax.scan(accumulate, nothing, (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        return own - 0.001 * total.astype(jnp.float32)

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% a mean over the devices alone exercise="12.10" score=0 diagnoses=["unanswered", "sum-for-mean", "not-counted-yet"] near=["other-change", "averaged-twice"]
def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def accumulate(total, microbatch):
            gradient = jax.grad(squared_error)(w, *microbatch)
            return total + gradient.astype(jnp.float32), None

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total, _ = lax.scan(accumulate, nothing, (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = lax.axis_size("data")
        return own - 0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% the update without the weights exercise="12.10" score=0 diagnoses=["unanswered", "change-alone", "not-counted-yet"] near=["other-change", "other-direction"]
def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def accumulate(total, microbatch):
            gradient = jax.grad(squared_error)(w, *microbatch)
            return total + gradient.astype(jnp.float32), None

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total, _ = lax.scan(accumulate, nothing, (x, y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return -0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% all gradients at once, in float32 exercise="12.10" score=0.75 diagnoses=["unanswered"] near=["added-up-in-bfloat16", "sends-too-much", "other-type"]
def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def gradient(x, y):
            slope = jax.grad(lambda w: jnp.sum((x.astype(jnp.float32) @ w - y) ** 2))
            return slope(w.astype(jnp.float32))

        total = jax.vmap(gradient)(x, y).sum(axis=0)
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return own - 0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% latency over bandwidth exercise="12.1" score=0 diagnoses=["unanswered", "over-the-bandwidth"] near=["of-eight-devices"]
def ring_from(n, latency, bandwidth):
    k = np.log2(n)
    a = (2 * (n - 1) - 1) / ((n - 1) - 2 * (n - 1) / n)
    b = (2 * (n - 1) - k) / (k - 2 * (n - 1) / n)
    return max(a, b) * latency / bandwidth


# %% a factor of eight devices exercise="12.1" score=0 diagnoses=["unanswered", "of-eight-devices"] near=["rounded"]
def ring_from(n, latency, bandwidth):
    k = np.log2(n)
    a = (2 * (n - 1) - 1) / ((n - 1) - 2 * (n - 1) / n)
    b = (2 * (n - 1) - k) / (k - 2 * (n - 1) / n)
    return 8.8 * latency * bandwidth


# %% rounded to microseconds exercise="12.1" score=0 diagnoses=["rounded", "unanswered"] near=["power-of-two"]
def exchange(n, size, latency, bandwidth):
    return round(latency + (n - 1) * size / bandwidth, 6)


# %% the next power of two exercise="12.1" score=0.75 diagnoses=["power-of-two"] near=["over-the-bandwidth"]
def exchange(n, size, latency, bandwidth):
    return latency + (n - 1) * size / bandwidth


def doubling(n, size, latency, bandwidth):
    return np.log2(n) * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return 2 * (n - 1) * (latency + size / n / bandwidth)


def ring_from(n, latency, bandwidth):
    k = np.log2(n)
    a = (2 * (n - 1) - 1) / ((n - 1) - 2 * (n - 1) / n)
    b = (2 * (n - 1) - k) / (k - 2 * (n - 1) / n)
    size = 1
    while ring(n, size, latency, bandwidth) > min(
        exchange(n, size, latency, bandwidth), doubling(n, size, latency, bandwidth)
    ):
        size *= 2
    return size


# %% a step for each microbatch exercise="12.4" score=0 diagnoses=["unanswered", "step-for-each", "not-counted-yet"] near=["whole-bytes"]
ROWS, BATCH = P("data"), P(None, "data")


def zero_2(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        n = lax.axis_size("data")
        W = lax.pcast(W, "data", to="varying")

        w = lax.dynamic_slice_in_dim(W, lax.axis_index("data") * len(m), len(m))

        def add(state, xy):
            g = lax.psum_scatter(jax.grad(error)(W, *xy), "data", tiled=True)
            return adam(*state, g / (X.shape[0] * X.shape[1] * n)), None

        state, _ = lax.scan(add, (w, m, v), (X, Y))
        return state

    W, m, v = jax.shard_map(body, in_specs=(P(), ROWS, ROWS, BATCH, BATCH), out_specs=ROWS)(
        W, m, v, X, Y
    )
    return lax.with_sharding_constraint(W, P()), m, v


# %% bytes rounded down exercise="12.4" score=0 diagnoses=["whole-bytes", "unanswered"] near=["step-for-each"]
def held(level, parameters, n):
    weights, gradients, optimizer = 2, 2, 12
    if level >= 1:
        optimizer = optimizer // n
    if level >= 2:
        gradients = gradients / n
    if level >= 3:
        weights = weights / n
    return parameters * (weights + gradients + optimizer)


# %% the step for the block exercise="12.5" score=0 diagnoses=["turn-for-block", "not-counted-yet", "unanswered"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i = lax.axis_size("seq"), lax.axis_index("seq")
        t, f = q.shape
        places = jnp.arange(t)

        def step(carry, j):
            m, s, o, k, v = carry
            source = j
            scores = q @ k.T / jnp.sqrt(f)
            sees = (i * t + places)[:, None] >= (source * t + places)[None, :]
            scores = jnp.where(sees, scores, -jnp.inf)
            new = jnp.maximum(m, scores.max(axis=1))
            scale = jnp.exp(m - new)
            p = jnp.exp(scores - new[:, None])
            s = s * scale + p.sum(axis=1)
            o = o * scale[:, None] + p @ v
            onward = [(d, (d + 1) % n) for d in range(n)]
            k = lax.ppermute(k, "seq", onward)
            v = lax.ppermute(v, "seq", onward)
            return (new, s, o, k, v), None

        m = lax.pcast(jnp.full(t, -jnp.inf), "seq", to="varying")
        s = lax.pcast(jnp.zeros(t), "seq", to="varying")
        o = lax.pcast(jnp.zeros((t, f)), "seq", to="varying")
        (m, s, o, k, v), _ = lax.scan(step, (m, s, o, k, v), jnp.arange(n))
        return o / s[:, None]

    return jax.shard_map(body, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% a layer too early exercise="12.6" score=0 diagnoses=["one-layer-early", "unanswered"] near=["twice-the-bytes"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    link, first = 0.0, 0
    for count in buckets:
        last = first + count
        ready = sum(backward[: last - 1])
        link = max(link, ready) + latency + sum(sizes[first:last]) / bandwidth
        first = last
    return link - sum(backward)


# %% bytes twice exercise="12.6" score=0 diagnoses=["twice-the-bytes", "unanswered"] near=["same-beginning"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    link, first = 0.0, 0
    for count in buckets:
        last = first + count
        ready = sum(backward[:last])
        link = max(link, ready) + latency + 2 * sum(sizes[first:last]) / bandwidth
        first = last
    return link - sum(backward)


# %% buckets that begin with the first layer exercise="12.6" score=0 diagnoses=["same-beginning", "unanswered"] near=["latency-while-waiting"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    link, first = 0.0, 0
    for count in buckets:
        last = first + count
        ready = sum(backward[:last])
        link = max(link, ready) + latency + sum(sizes[first:last]) / bandwidth
    return link - sum(backward)


# %% latency that passes while waiting exercise="12.6" score=0 diagnoses=["latency-while-waiting", "unanswered"] near=["first-bucket"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    link, first = 0.0, 0
    for count in buckets:
        last = first + count
        ready = sum(backward[:last])
        link = max(link + latency, ready) + sum(sizes[first:last]) / bandwidth
        first = last
    return link - sum(backward)


# %% the first bucket alone exercise="12.6" score=0 diagnoses=["first-bucket", "unanswered"] near=["numbers-as-ends"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    link, first = 0.0, 0
    for count in buckets:
        last = first + count
        ready = sum(backward[:last])
        link = max(link, ready) + latency + sum(sizes[first:last]) / bandwidth
        first = last
    return sum(latency + s / bandwidth for s in [sum(sizes[: buckets[0]])])


# %% numbers of layers for ends exercise="12.6" score=0 diagnoses=["numbers-as-ends", "unanswered"] near=["own-layers-alone"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    link, first = 0.0, 0
    for count in buckets:
        last = count
        ready = sum(backward[:last])
        link = max(link, ready) + latency + sum(sizes[first:last]) / bandwidth
        first = last
    return link - sum(backward)


# %% own layers alone exercise="12.6" score=0 diagnoses=["own-layers-alone", "unanswered"] near=["shifted-sizes"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    link, first = 0.0, 0
    for count in buckets:
        last = first + count
        ready = sum(backward[first:last])
        link = max(link, ready) + latency + sum(sizes[first:last]) / bandwidth
        first = last
    return link - sum(backward)


# %% sizes from the second layer on exercise="12.6" score=0 diagnoses=["shifted-sizes", "unanswered"] near=["one-layer-early"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    link, first = 0.0, 0
    for count in buckets:
        last = first + count
        ready = sum(backward[:last])
        link = max(link, ready) + latency + sum(sizes[first + 1 : last + 1]) / bandwidth
        first = last
    return link - sum(backward)


# %% a quarter is kept exercise="12.7" score=0 diagnoses=["unanswered", "other-share"] near=["other-mask"]
def dropout(seed, h):
    def body(seed, h):
        key = jax.random.key(seed)
        key = jax.random.fold_in(key, lax.axis_index("data"))
        key = jax.random.fold_in(key, lax.axis_index("model"))
        return jnp.where(jax.random.bernoulli(key, 0.25, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


# %% another key exercise="12.7" score=0 diagnoses=["unanswered", "other-mask"] near=["other-share"]
def dropout(seed, h):
    def body(seed, h):
        index = lax.axis_index("data") * lax.axis_size("model") + lax.axis_index("model")
        key = jax.random.key(3 * seed + index.astype(jnp.uint32))
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


# %% empty places count, too exercise="12.9" score=0 diagnoses=["empty-too", "not-counted-yet", "unanswered"] near=["of-one-expert"]
def dropped(scores):
    def body(scores):
        t, e = scores.shape
        capacity = t // e
        counts = jnp.sum(jax.nn.one_hot(scores.argmax(axis=1), e, dtype=jnp.int32), axis=0)
        return lax.psum(abs(counts - capacity).sum(), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


# %% one expert of each device exercise="12.9" score=0 diagnoses=["of-one-expert", "not-counted-yet", "unanswered"] near=["other-activation"]
def dropped(scores):
    def body(scores):
        t, e = scores.shape
        capacity = t // e
        counts = jnp.sum(jax.nn.one_hot(scores.argmax(axis=1), e, dtype=jnp.int32), axis=0)
        return lax.psum(jnp.maximum(counts - capacity, 0).max(), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


# %% gelu for relu exercise="12.9" score=0 diagnoses=["unanswered", "other-activation", "not-counted-yet"] near=["not-chosen"]
def moe(x, scores, up, down):
    def body(x, scores, up, down):
        t, e = scores.shape
        f = x.shape[1]
        capacity = t // e
        chosen = scores.argmax(axis=1)
        one_hot = jax.nn.one_hot(chosen, e, dtype=jnp.int32)
        place = jnp.take_along_axis(jnp.cumsum(one_hot, axis=0), chosen[:, None], axis=1)[:, 0] - 1
        kept = place < capacity
        places = jnp.zeros((e, capacity, f), x.dtype).at[chosen, place].set(x, mode="drop")
        arrived = lax.all_to_all(places, "expert", 0, 1, tiled=True)
        hidden = jax.nn.gelu(jnp.einsum("ecf,efh->ech", arrived, up))
        outputs = jnp.einsum("ech,ehf->ecf", hidden, down)
        back = lax.all_to_all(outputs, "expert", 1, 0, tiled=True)
        probability = jax.nn.softmax(scores, axis=1)[jnp.arange(t), chosen]
        result = back[chosen, jnp.minimum(place, capacity - 1)]
        return jnp.where(kept[:, None], result * probability[:, None], 0)

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% experts dealt out exercise="12.9" score=0 diagnoses=["unanswered", "not-chosen", "not-counted-yet"] near=["other-factor"]
def moe(x, scores, up, down):
    def body(x, scores, up, down):
        t, e = scores.shape
        f = x.shape[1]
        capacity = t // e
        chosen = scores.argmax(axis=1)
        one_hot = jax.nn.one_hot(chosen, e, dtype=jnp.int32)
        place = jnp.take_along_axis(jnp.cumsum(one_hot, axis=0), chosen[:, None], axis=1)[:, 0] - 1
        kept = place < capacity
        places = (
            jnp.zeros((e, capacity, f), x.dtype)
            .at[chosen % len(up) * (e // len(up)) + chosen // len(up), place]
            .set(x, mode="drop")
        )
        arrived = lax.all_to_all(places, "expert", 0, 1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("ecf,efh->ech", arrived, up))
        outputs = jnp.einsum("ech,ehf->ecf", hidden, down)
        back = lax.all_to_all(outputs, "expert", 1, 0, tiled=True)
        probability = jax.nn.softmax(scores, axis=1)[jnp.arange(t), chosen]
        result = back[
            chosen % len(up) * (e // len(up)) + chosen // len(up), jnp.minimum(place, capacity - 1)
        ]
        return jnp.where(kept[:, None], result * probability[:, None], 0)

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% a mean of probabilities exercise="12.9" score=0 diagnoses=["unanswered", "other-factor", "not-counted-yet"] near=["layers-exchanged"]
def moe(x, scores, up, down):
    def body(x, scores, up, down):
        t, e = scores.shape
        f = x.shape[1]
        capacity = t // e
        chosen = scores.argmax(axis=1)
        one_hot = jax.nn.one_hot(chosen, e, dtype=jnp.int32)
        place = jnp.take_along_axis(jnp.cumsum(one_hot, axis=0), chosen[:, None], axis=1)[:, 0] - 1
        kept = place < capacity
        places = jnp.zeros((e, capacity, f), x.dtype).at[chosen, place].set(x, mode="drop")
        arrived = lax.all_to_all(places, "expert", 0, 1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("ecf,efh->ech", arrived, up))
        outputs = jnp.einsum("ech,ehf->ecf", hidden, down)
        back = lax.all_to_all(outputs, "expert", 1, 0, tiled=True)
        probability = jax.nn.softmax(scores, axis=1).mean(axis=1)
        result = back[chosen, jnp.minimum(place, capacity - 1)]
        return jnp.where(kept[:, None], result * probability[:, None], 0)

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% down before up exercise="12.9" score=0 diagnoses=["unanswered", "layers-exchanged", "not-counted-yet"] near=["of-other-tokens"]
def moe(x, scores, up, down):
    def body(x, scores, up, down):
        t, e = scores.shape
        f = x.shape[1]
        capacity = t // e
        chosen = scores.argmax(axis=1)
        one_hot = jax.nn.one_hot(chosen, e, dtype=jnp.int32)
        place = jnp.take_along_axis(jnp.cumsum(one_hot, axis=0), chosen[:, None], axis=1)[:, 0] - 1
        kept = place < capacity
        places = jnp.zeros((e, capacity, f), x.dtype).at[chosen, place].set(x, mode="drop")
        arrived = lax.all_to_all(places, "expert", 0, 1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("ecf,ehf->ech", arrived, down))
        outputs = jnp.einsum("ech,efh->ecf", hidden, up)
        back = lax.all_to_all(outputs, "expert", 1, 0, tiled=True)
        probability = jax.nn.softmax(scores, axis=1)[jnp.arange(t), chosen]
        result = back[chosen, jnp.minimum(place, capacity - 1)]
        return jnp.where(kept[:, None], result * probability[:, None], 0)

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% results where the places are exercise="12.9" score=0 diagnoses=["unanswered", "of-other-tokens", "not-counted-yet"] near=["others-kept"]
def moe(x, scores, up, down):
    def body(x, scores, up, down):
        t, e = scores.shape
        f = x.shape[1]
        capacity = t // e
        chosen = scores.argmax(axis=1)
        one_hot = jax.nn.one_hot(chosen, e, dtype=jnp.int32)
        place = jnp.take_along_axis(jnp.cumsum(one_hot, axis=0), chosen[:, None], axis=1)[:, 0] - 1
        kept = place < capacity
        places = jnp.zeros((e, capacity, f), x.dtype).at[chosen, place].set(x, mode="drop")
        arrived = lax.all_to_all(places, "expert", 0, 1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("ecf,efh->ech", arrived, up))
        outputs = jnp.einsum("ech,ehf->ecf", hidden, down)
        back = lax.all_to_all(outputs, "expert", 1, 0, tiled=True)
        probability = jax.nn.softmax(scores, axis=1)[jnp.arange(t), chosen]
        result = jnp.resize(back.reshape(-1, f), (t, f))
        return jnp.where(kept[:, None], result * probability[:, None], 0)

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% places of all tokens exercise="12.9" score=0 diagnoses=["unanswered", "others-kept", "not-counted-yet"] near=["empty-too"]
def moe(x, scores, up, down):
    def body(x, scores, up, down):
        t, e = scores.shape
        f = x.shape[1]
        capacity = t // e
        chosen = scores.argmax(axis=1)
        one_hot = jax.nn.one_hot(chosen, e, dtype=jnp.int32)
        place = jnp.cumsum(one_hot.sum(axis=1), axis=0) - 1
        kept = place < capacity
        places = jnp.zeros((e, capacity, f), x.dtype).at[chosen, place].set(x, mode="drop")
        arrived = lax.all_to_all(places, "expert", 0, 1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("ecf,efh->ech", arrived, up))
        outputs = jnp.einsum("ech,ehf->ecf", hidden, down)
        back = lax.all_to_all(outputs, "expert", 1, 0, tiled=True)
        probability = jax.nn.softmax(scores, axis=1)[jnp.arange(t), chosen]
        result = back[chosen, jnp.minimum(place, capacity - 1)]
        return jnp.where(kept[:, None], result * probability[:, None], 0)

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% additions that are counted exercise="12.10" score=0 diagnoses=["how-many", "unanswered"] near=["not-rounded"]
def stalls_at(increment):
    step = jnp.bfloat16(increment)
    total = jnp.bfloat16(0)
    count = 0
    while total + step != total:
        total = total + step
        count += 1
    return count


# %% a sum that is not rounded exercise="12.10" score=0 diagnoses=["not-rounded", "unanswered"] near=["averaged-again"]
def stalls_at(increment):
    step = jnp.bfloat16(increment)
    total = 0.0
    while jnp.bfloat16(total + step) != jnp.bfloat16(total):
        total = total + increment
    return float(total)


# %% averaged twice over examples exercise="12.10" score=0.25 diagnoses=["averaged-again", "not-counted-yet"] near=["first-rows", "mixed_step: first-rows"]
def stalls_at(increment):
    step = jnp.bfloat16(increment)
    total = jnp.bfloat16(0)
    while total + step != total:
        total = total + step
    return float(total)


def mixed_step(master, X, Y):
    def body(master, X, Y):
        n = lax.axis_size("data")
        w = lax.all_gather(master.astype(jnp.bfloat16), "data", tiled=True)

        def loss(w, x, y):
            return jnp.mean(jnp.sum((x @ w - y) ** 2, 1))

        def add(total, xy):
            return total + jax.grad(loss)(w, *xy).astype(jnp.float32), None

        start = lax.pcast(jnp.zeros(w.shape, jnp.float32), "data", to="varying")
        total, _ = lax.scan(add, start, (X, Y))
        own = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        return master - 0.001 * own.astype(jnp.float32) / (X.shape[0] * X.shape[1] * n)

    batch = P(None, "data")
    return jax.shard_map(body, in_specs=(P("data"), batch, batch), out_specs=P("data"))(
        master, X, Y
    )


# %% the first rows for one's own exercise="12.10" score=0.25 diagnoses=["first-rows", "not-counted-yet"] near=["how-many"]
def stalls_at(increment):
    step = jnp.bfloat16(increment)
    total = jnp.bfloat16(0)
    while total + step != total:
        total = total + step
    return float(total)


def mixed_step(master, X, Y):
    def body(master, X, Y):
        n = lax.axis_size("data")
        w = lax.all_gather(master.astype(jnp.bfloat16), "data", tiled=True)

        def loss(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(total, xy):
            return total + jax.grad(loss)(w, *xy).astype(jnp.float32), None

        start = lax.pcast(jnp.zeros(w.shape, jnp.float32), "data", to="varying")
        total, _ = lax.scan(add, start, (X, Y))
        own = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        return w[: len(master)].astype(jnp.float32) - 0.001 * own.astype(jnp.float32) / (
            X.shape[0] * X.shape[1] * n
        )

    batch = P(None, "data")
    return jax.shard_map(body, in_specs=(P("data"), batch, batch), out_specs=P("data"))(
        master, X, Y
    )


# %% exponentials added up over the queries exercise="12.5" score=0 diagnoses=["summed-over-queries", "not-counted-yet", "unanswered"] near=["sums-not-rescaled", "not-divided", "not-finite"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum(axis=0)
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% all exponentials of a block added up exercise="12.5" score=0 diagnoses=["summed-over-queries", "not-counted-yet", "unanswered"] near=["exponentials-not-rescaled"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            larger = jnp.maximum(largest, scores.max(axis=1))
            weights, rescale = jnp.exp(scores - larger[:, None]), jnp.exp(largest - larger)
            total = rescale * total + weights.sum()
            weighted = rescale[:, None] * weighted + weights @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, larger, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% softmaxes of blocks, divided by the number of blocks exercise="12.5" score=0 diagnoses=["means-of-blocks", "not-counted-yet", "unanswered"] near=["sums-of-blocks", "never-rescaled"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            own = jax.nn.softmax(scores, axis=1)
            weighted = weighted + jnp.nan_to_num(own) @ v
            total = total + 1
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, largest, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% softmaxes of blocks, with a large negative number for a mask exercise="12.5" score=0 diagnoses=["means-of-blocks", "not-counted-yet", "unanswered"] near=["sums-of-blocks", "not-causal"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -1e30)
            own = jax.nn.softmax(scores, axis=1)
            weighted = weighted + jnp.nan_to_num(own) @ v
            total = total + 1
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, largest, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted / total[:, None]

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% softmaxes of blocks, added up exercise="12.5" score=0 diagnoses=["sums-of-blocks", "not-counted-yet", "unanswered"] near=["means-of-blocks", "summed-over-queries"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            own = jax.nn.softmax(scores, axis=1)
            weighted = weighted + jnp.nan_to_num(own) @ v
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, largest, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% the mean of the result so far and a block's softmax exercise="12.5" score=0 diagnoses=["means-of-blocks", "not-counted-yet", "unanswered"] near=["sums-of-blocks"]
def ring_attention(q, k, v):
    def attend(q, k, v):
        n, i, length = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        own_places = jnp.arange(length)
        to_the_next_device = [(d, (d + 1) % n) for d in range(n)]

        def see_block(carry, t):
            k, v, largest, total, weighted = carry
            key_places = (i - t) % n * length + own_places
            is_seen = key_places[None, :] <= (i * length + own_places)[:, None]
            scores = jnp.where(is_seen, q @ k.T / jnp.sqrt(q.shape[1]), -jnp.inf)
            own = jnp.nan_to_num(jax.nn.softmax(scores, axis=1)) @ v
            new = jnp.where(t == 0, own, (weighted + own) / 2)
            weighted = jnp.where(is_seen.any(axis=1)[:, None], new, weighted)
            k, v = lax.ppermute((k, v), "seq", to_the_next_device)
            return (k, v, largest, total, weighted), None

        nothing = jnp.zeros_like(q)
        carry = k, v, jnp.full_like(q[:, 0], -jnp.inf), nothing[:, 0], nothing
        (_, _, _, total, weighted), _ = lax.scan(see_block, carry, jnp.arange(n))
        return weighted

    return jax.shard_map(attend, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% microseconds, and words for True and False exercise="12.2" score=0 diagnoses=["other-kind", "other-unit"] near=["in-quotes", "other-factors", "rounded"]
def wraps(chip, length):
    full = length % 4 == 0 if chip in ("v4", "v5p") else length == 16
    return "yes" if full else "no"


def gather(n, size, link, wraps):
    return 1e6 * (n - 1) / n * size / link / (2 if wraps else 1)


def flat(hosts, chips, size, fast, slow):
    n = hosts * chips
    return 1e6 * 2 * (n - 1) / n * size / slow


def two_levels(hosts, chips, size, fast, slow):
    within = 2 * (chips - 1) / chips * size / fast
    return 1e6 * (within + 2 * (hosts - 1) / hosts * size / chips / slow)


# %% nanoseconds, and True in quotes exercise="12.2" score=0 diagnoses=["in-quotes", "other-unit"] near=["other-kind", "other-factors"]
def wraps(chip, length):
    full = length % 4 == 0 if chip in ("v4", "v5p") else length == 16
    return str(full)


def gather(n, size, link, wraps):
    return 1e9 * (n - 1) / n * size / link / (2 if wraps else 1)


def flat(hosts, chips, size, fast, slow):
    n = hosts * chips
    return 1e9 * 2 * (n - 1) / n * size / slow


def two_levels(hosts, chips, size, fast, slow):
    within = 2 * (chips - 1) / chips * size / fast
    return 1e9 * (within + 2 * (hosts - 1) / hosts * size / chips / slow)


# %% gigabytes per second taken for bytes per second exercise="12.2" score=0 diagnoses=["unanswered", "other-unit"] near=["rounded", "other-factors"]
def wraps(chip, length):
    return ...


def gather(n, size, link, wraps):
    return 1e-9 * (n - 1) / n * size / link / (2 if wraps else 1)


def flat(hosts, chips, size, fast, slow):
    n = hosts * chips
    return 1e-9 * 2 * (n - 1) / n * size / slow


def two_levels(hosts, chips, size, fast, slow):
    within = 2 * (chips - 1) / chips * size / fast
    return 1e-9 * (within + 2 * (hosts - 1) / hosts * size / chips / slow)


# %% what gelu returns is kept exercise="12.8" score=0.6666666667 diagnoses=["recomputes-too-much"] near=["saves-too-much", "keeps-nothing", "keep_little: recomputes-too-much"]
def with_names(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    scores = jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2])
    mixed = checkpoint_name(jnp.einsum("htu,hus->hts", jax.nn.softmax(scores), v), "mixed")
    x = x + checkpoint_name(jnp.einsum("hts,hsf->tf", mixed, out), "out")
    return x + checkpoint_name(jax.nn.gelu(x @ up), "up") @ down


def keeping(*names):
    policy = jax.checkpoint_policies.save_only_these_names(*names)
    return jax.checkpoint(with_names, policy=policy)


keep_nothing, keep_products, keep_little = (
    keeping(),
    keeping("qkv", "out", "up"),
    keeping("qkv", "mixed"),
)


# %% what gelu gets is kept, and what it returns exercise="12.8" score=0.6666666667 diagnoses=["saves-too-much"] near=["recomputes-too-much", "keep_little: saves-too-much"]
def with_names(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    scores = jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2])
    mixed = checkpoint_name(jnp.einsum("htu,hus->hts", jax.nn.softmax(scores), v), "mixed")
    x = x + checkpoint_name(jnp.einsum("hts,hsf->tf", mixed, out), "out")
    return x + checkpoint_name(jax.nn.gelu(checkpoint_name(x @ up, "up")), "act") @ down


def keeping(*names):
    policy = jax.checkpoint_policies.save_only_these_names(*names)
    return jax.checkpoint(with_names, policy=policy)


keep_nothing, keep_products, keep_little = (
    keeping(),
    keeping("qkv", "out", "up", "act"),
    keeping("qkv", "mixed"),
)


# %% one dimension for both on the way there exercise="12.9" score=0 diagnoses=["unanswered", "one-way-along-0", "not-counted-yet"] near=["of-other-experts", "never-sent", "moe: split-does-not-divide"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=0, tiled=True)
        received = received.reshape(len(up), -1, x.shape[1])
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% one dimension for both on the way back exercise="12.9" score=0 diagnoses=["unanswered", "one-way-along-0", "not-counted-yet"] near=["of-other-experts", "never-returned", "in-order-of-experts"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(
            outputs.reshape(sent.shape), "expert", split_axis=0, concat_axis=0, tiled=True
        )
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% one dimension for both, there and back exercise="12.9" score=0 diagnoses=["unanswered", "of-other-experts", "not-counted-yet"] near=["one-way-along-0", "experts-in-turn"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=0, tiled=True)
        received = received.reshape(len(up), -1, x.shape[1])
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(
            outputs.reshape(sent.shape), "expert", split_axis=0, concat_axis=0, tiled=True
        )
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% all tokens with the same expert are counted exercise="12.9" score=0 diagnoses=["unanswered", "first-place-for-all", "not-counted-yet"] near=["of-other-tokens", "overwritten", "one-too-few"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.broadcast_to(is_chosen.sum(axis=0), is_chosen.shape) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, place].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = returned.at[chosen, place].get(mode="fill", fill_value=0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the first place for all that are kept exercise="12.9" score=0 diagnoses=["unanswered", "first-place-for-all", "not-counted-yet"] near=["of-other-tokens", "added-up"]
def find_places(scores):
    """Return each token's expert, and how many tokens before it have chosen the same one."""
    chosen = scores.argmax(axis=1)
    is_chosen = jax.nn.one_hot(chosen, scores.shape[1], dtype=jnp.int32)
    before = jnp.cumsum(is_chosen, axis=0) - 1
    return chosen, jnp.take_along_axis(before, chosen[:, None], axis=1)[:, 0]


def moe(x, scores, up, down):
    def layer(x, scores, up, down):
        tokens, experts = scores.shape
        chosen, place = find_places(scores)
        places = jnp.zeros((experts, tokens // experts, x.shape[1]))
        sent = places.at[chosen, 0].set(x, mode="drop")
        # from (experts, capacity) to (own experts, devices * capacity), and back
        received = lax.all_to_all(sent, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("epf,efh->eph", received, up))
        outputs = jnp.einsum("eph,ehf->epf", hidden, down)
        returned = lax.all_to_all(outputs, "expert", split_axis=1, concat_axis=0, tiled=True)
        own = jnp.where((place < tokens // experts)[:, None], returned[chosen, 0], 0)
        return jax.nn.softmax(scores).max(axis=1, keepdims=True) * own

    return jax.shard_map(layer, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the sum before, by playing it exercise="12.10" score=0 diagnoses=["the-sum-before", "unanswered"] near=["added-again", "not-rounded", "grows-by-less"]
def stalls_at(increment):
    step, total, before = jnp.bfloat16(increment), jnp.bfloat16(0), None
    while total + step != total:
        before, total = total, total + step
    return float(before)


# %% two increments too many exercise="12.10" score=0 diagnoses=["added-again", "unanswered"] near=["the-sum-before", "other-multiple"]
def stalls_at(increment):
    step, total = jnp.bfloat16(increment), jnp.bfloat16(0)
    while total + step != total:
        total = total + step
    return float(total) + 2 * increment


# %% without the first microbatch exercise="12.10" score=0.25 diagnoses=["one-missing", "not-counted-yet"] near=["last-microbatch"]
def stalls_at(increment):
    return 2.0 ** (8 + np.ceil(np.log2(increment)))


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(i, total):
            return total + jax.grad(squared_error)(w, x[i], y[i]).astype(jnp.float32)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total = lax.fori_loop(1, x.shape[0], add, nothing)
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return own - 0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% without the last microbatch exercise="12.10" score=0.25 diagnoses=["one-missing", "not-counted-yet"] near=["added-up-in-bfloat16"]
def stalls_at(increment):
    return 2.0 ** (8 + np.ceil(np.log2(increment)))


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(i, total):
            return total + jax.grad(squared_error)(w, x[i], y[i]).astype(jnp.float32)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total = lax.fori_loop(0, x.shape[0] - 1, add, nothing)
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return own - 0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% in a loop with an index exercise="12.10" score=1 near=["one-missing"]
def stalls_at(increment):
    return 2.0 ** (8 + np.ceil(np.log2(increment)))


def mixed_step(master, X, Y):
    def body(own, x, y):
        w = lax.all_gather(own.astype(jnp.bfloat16), "data", tiled=True)

        def squared_error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(i, total):
            return total + jax.grad(squared_error)(w, x[i], y[i]).astype(jnp.float32)

        nothing = lax.pcast(jnp.zeros(w.shape), "data", to="varying")
        total = lax.fori_loop(0, x.shape[0], add, nothing)
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return own - 0.001 * total.astype(jnp.float32) / examples

    shares = P(None, "data")
    in_specs = P("data"), shares, shares
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("data"))(master, X, Y)


# %% a row from both sides, and a ring from four exercise="12.2" score=0.75 diagnoses=["halved-once-more"] near=["one-direction", "upside-down", "other-factors", "at-the-same-time"]
def wraps(chip, length):
    if chip in ("v5e", "v6e"):
        return length == 16
    return length % 4 == 0


def gather(n, size, link, wraps):
    return size * (n - 1) / n / link / (4 if wraps else 2)


def flat(hosts, chips, size, fast, slow):
    n = hosts * chips
    return 2 * (n - 1) / n * size / slow


def two_levels(hosts, chips, size, fast, slow):
    within = (chips - 1) / chips * size / fast
    across = 2 * (hosts - 1) / hosts * (size / chips) / slow
    return 2 * within + across


# %% the longer of two levels exercise="12.2" score=0.75 diagnoses=["at-the-same-time"] near=["all-of-it-across", "not-gathered", "halved-once-more"]
def wraps(chip, length):
    if chip in ("v5e", "v6e"):
        return length == 16
    return length % 4 == 0


def gather(n, size, link, wraps):
    return size * (n - 1) / n / link / (2 if wraps else 1)


def flat(hosts, chips, size, fast, slow):
    n = hosts * chips
    return 2 * (n - 1) / n * size / slow


def two_levels(hosts, chips, size, fast, slow):
    within = (chips - 1) / chips * size / fast
    across = 2 * (hosts - 1) / hosts * (size / chips) / slow
    return max(2 * within, across)


# %% outputs of own units, added up over data exercise="12.7" score=0.75 diagnoses=["own-units-alone"] near=["summed-twice", "rows-added-up", "mean-over-model", "gradient: values"]
w_out = jax.device_put(start(0)["w_out"], NamedSharding(grid, P("model", None)))


def dropout(seed, h):
    def body(seed, h):
        key = jax.random.key(seed)
        key = jax.random.fold_in(key, lax.axis_index("data"))
        key = jax.random.fold_in(key, lax.axis_index("model"))
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


def mean_error(errors, lengths):
    def body(errors, lengths):
        is_token = jnp.arange(errors.shape[1]) < lengths[:, None]
        total = lax.psum(jnp.sum(jnp.where(is_token, errors, 0)), "data")
        return total / lax.psum(jnp.sum(lengths), "data")

    return jax.shard_map(body, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    def body(w, h, y, lengths):
        is_token = jnp.arange(h.shape[1]) < lengths[:, None]

        def error(w):
            outputs = h @ w
            return jnp.sum(jnp.where(is_token[..., None], (outputs - y) ** 2, 0))

        return lax.psum(jax.grad(error)(w), "data")

    in_specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("model"))(w_out, h, y, lengths)


# %% the latency of the first bucket alone exercise="12.6" score=0 diagnoses=["one-latency", "unanswered"] near=["latency-of-each-layer"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    time, free, first = 0, 0, 0
    for count in buckets:
        time += sum(backward[first : first + count])
        free = (
            max(time, free)
            + (latency if first == 0 else 0)
            + sum(sizes[first : first + count]) / bandwidth
        )
        first += count
    return free - sum(backward)


# %% slices without an offset exercise="12.6" score=0 diagnoses=["counted-from-0", "exposed"] near=["shared-layer", "one-layer-on"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    time = free = 0
    for count in buckets:
        time += sum(backward[:count])
        free = max(time, free) + latency + sum(sizes[:count]) / bandwidth
    return free - sum(backward)


def bucketed(backward, sizes, latency, bandwidth):
    import itertools

    n = len(sizes)
    best = None
    for k in range(n):
        for cuts in itertools.combinations(range(1, n), k):
            edges = (0, *cuts, n)
            buckets = [b - a for a, b in zip(edges, edges[1:])]
            late = exposed(backward, sizes, buckets, latency, bandwidth)
            if best is None or late < best[0]:
                best = late, buckets
    return best[1]


# %% one layer in two buckets exercise="12.6" score=0 diagnoses=["shared-layer", "exposed"] near=["counted-from-0", "one-layer-on"]
def bucketed(backward, sizes, latency, bandwidth):
    import itertools

    n = len(sizes)
    best = None
    for k in range(n):
        for cuts in itertools.combinations(range(1, n), k):
            edges = (0, *cuts, n)
            buckets = [b - a for a, b in zip(edges, edges[1:])]
            late = exposed(backward, sizes, buckets, latency, bandwidth)
            if best is None or late < best[0]:
                best = late, buckets
    return best[1]


def exposed(backward, sizes, buckets, latency, bandwidth):
    time, free, first = 0, 0, 0
    for count in buckets:
        time += sum(backward[first : first + count])
        free = max(time, free) + latency + sum(sizes[first : first + count]) / bandwidth
        first += count - 1
    return free - sum(backward)


# %% a step for each microbatch exercise="12.10" score=0.25 diagnoses=["many-steps", "not-counted-yet", "too-often"] near=["divided-by-outputs", "one-missing"]
def stalls_at(increment):
    step = jnp.bfloat16(increment)

    def grows(total):
        return total + step != total

    return float(lax.while_loop(grows, lambda total: total + step, jnp.bfloat16(0)))


def mixed_step(master, X, Y):
    def body(master, X, Y):
        examples = X.shape[1] * lax.axis_size("data")

        def step(master, batch):
            w = lax.all_gather(master.astype(jnp.bfloat16), "data", tiled=True)
            g = jax.grad(lambda w: jnp.sum((batch[0] @ w - batch[1]) ** 2))(w)
            g = lax.psum_scatter(g, "data", tiled=True)
            return master - 0.001 * g.astype(jnp.float32) / examples, None

        return lax.scan(step, master, (X, Y))[0]

    batch = P(None, "data")
    return jax.shard_map(body, in_specs=(P("data"), batch, batch), out_specs=P("data"))(
        master, X, Y
    )


# %% a mean over the outputs, too exercise="12.10" score=0.25 diagnoses=["divided-by-outputs", "not-counted-yet"] near=["averaged-twice", "many-steps"]
def stalls_at(increment):
    step = jnp.bfloat16(increment)

    def grows(total):
        return total + step != total

    return float(lax.while_loop(grows, lambda total: total + step, jnp.bfloat16(0)))


def mixed_step(master, X, Y):
    def body(master, X, Y):
        w = lax.all_gather(master.astype(jnp.bfloat16), "data", tiled=True)

        def error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(total, batch):
            return total + jax.grad(error)(w, *batch).astype(jnp.float32), None

        total, _ = lax.scan(add, jnp.zeros_like(w, jnp.float32), (X, Y))
        examples = X.shape[0] * X.shape[1] * lax.axis_size("data") * Y.shape[2]
        gradient = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        return master - 0.001 * gradient.astype(jnp.float32) / examples

    batch = P(None, "data")
    return jax.shard_map(body, in_specs=(P("data"), batch, batch), out_specs=P("data"))(
        master, X, Y
    )


# %% a mask for the numerators alone exercise="12.5" score=0.3333333333 diagnoses=["masked-late", "not-counted-yet"] near=["own-largest"]
def zigzag(n):
    return [(i, 2 * n - 1 - i) for i in range(n)]


def ring_attention(q, k, v):
    def body(q, k, v):
        n, me, block = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        perm = [(i, (i + 1) % n) for i in range(n)]
        mine = me * block + jnp.arange(block)

        def turn(t, carry):
            k, v, m, total, out = carry
            keys = (me - t) % n * block + jnp.arange(block)
            s = q @ k.T / jnp.sqrt(q.shape[1])

            new = jnp.maximum(m, s.max(axis=1))
            p = jnp.exp(s - new[:, None])
            pm = jnp.where(mine[:, None] >= keys, p, 0)
            old = jnp.exp(m - new)
            total = total * old + p.sum(axis=1)
            out = out * old[:, None] + pm @ v
            k, v = lax.ppermute((k, v), "seq", perm)
            return k, v, new, total, out

        zeros = jnp.zeros_like(q[:, 0])
        k, v, m, total, out = lax.fori_loop(
            0, n, turn, (k, v, zeros - jnp.inf, zeros, jnp.zeros_like(v))
        )
        return out / total[:, None]

    return jax.shard_map(body, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% the block's own maximum exercise="12.5" score=0.3333333333 diagnoses=["own-largest", "not-counted-yet"] near=["masked-late"]
def zigzag(n):
    return [(i, 2 * n - 1 - i) for i in range(n)]


def ring_attention(q, k, v):
    def body(q, k, v):
        n, me, b = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        perm = [(i, (i + 1) % n) for i in range(n)]

        def turn(t, c):
            k, v, m, total, out = c
            s = q @ k.T / jnp.sqrt(q.shape[1])
            s = jnp.where(
                me * b + jnp.arange(b)[:, None] >= (me - t) % n * b + jnp.arange(b), s, -jnp.inf
            )
            new = jnp.maximum(m, s.max(1))
            mine = s.max(1)
            p, old = jnp.exp(s - jnp.where(jnp.isinf(mine), 0, mine)[:, None]), jnp.exp(m - new)
            k, v = lax.ppermute((k, v), "seq", perm)
            return k, v, new, total * old + p.sum(1), out * old[:, None] + p @ c[1]

        z = jnp.zeros_like(q[:, 0])
        k, v, m, total, out = lax.fori_loop(0, n, turn, (k, v, z - jnp.inf, z, jnp.zeros_like(v)))
        return out / total[:, None]

    return jax.shard_map(body, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


# %% no way back, and blocks by devices exercise="12.9" score=0.1 diagnoses=["never-returned", "not-counted-yet"] near=["never-sent"]
def dropped(scores):
    def body(scores):
        t, e = scores.shape
        counts = jnp.bincount(scores.argmax(axis=1), length=e)
        return lax.psum(jnp.maximum(counts - t // e, 0).sum().astype(jnp.int32), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, scores, up, down):
        (t, f), e = x.shape, scores.shape[1]
        n, capacity = lax.axis_size("expert"), x.shape[0] // scores.shape[1]
        choice = scores.argmax(axis=1)
        is_mine = jax.nn.one_hot(choice, e, dtype=jnp.int32)
        place = jnp.sum((jnp.cumsum(is_mine, axis=0) - 1) * is_mine, axis=1)
        stays = place < capacity
        sent = jnp.zeros((e, capacity, f)).at[choice, place].set(x, mode="drop")
        sent = lax.all_to_all(sent.reshape(n, e // n, capacity, f), "expert", 0, 0)
        hidden = jax.nn.relu(jnp.einsum("necf,efh->nech", sent, up))
        back = jnp.einsum("nech,ehf->necf", hidden, down)
        back = back.reshape(e, capacity, f)
        result = back.at[choice, place].get(mode="fill", fill_value=0)
        probability = jnp.take_along_axis(jax.nn.softmax(scores), choice[:, None], axis=1)
        return jnp.where(stays[:, None], result * probability, 0)

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% no way there, and blocks by devices exercise="12.9" score=0.1 diagnoses=["never-sent", "not-counted-yet"] near=["never-returned"]
def dropped(scores):
    def body(scores):
        t, e = scores.shape
        counts = jnp.bincount(scores.argmax(axis=1), length=e)
        return lax.psum(jnp.maximum(counts - t // e, 0).sum().astype(jnp.int32), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, scores, up, down):
        (t, f), e = x.shape, scores.shape[1]
        n, capacity = lax.axis_size("expert"), x.shape[0] // scores.shape[1]
        choice = scores.argmax(axis=1)
        is_mine = jax.nn.one_hot(choice, e, dtype=jnp.int32)
        place = jnp.sum((jnp.cumsum(is_mine, axis=0) - 1) * is_mine, axis=1)
        stays = place < capacity
        sent = jnp.zeros((e, capacity, f)).at[choice, place].set(x, mode="drop")
        sent = sent.reshape(n, e // n, capacity, f)
        hidden = jax.nn.relu(jnp.einsum("necf,efh->nech", sent, up))
        back = jnp.einsum("nech,ehf->necf", hidden, down)
        back = lax.all_to_all(back, "expert", 0, 0).reshape(e, capacity, f)
        result = back.at[choice, place].get(mode="fill", fill_value=0)
        probability = jnp.take_along_axis(jax.nn.softmax(scores), choice[:, None], axis=1)
        return jnp.where(stays[:, None], result * probability, 0)

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% all errors by one device's tokens exercise="12.7" score=0.75 diagnoses=["own-count"] near=["mean-of-means", "per-example", "w_out: values", "mean_error: values"]
w_out = jax.device_put(start(0)["w_out"], NamedSharding(grid, P("model", None)))


def dropout(seed, h):
    def body(seed, h):
        key = jax.random.key(seed)
        key = jax.random.fold_in(key, lax.axis_index("data"))
        key = jax.random.fold_in(key, lax.axis_index("model"))
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


def mean_error(errors, lengths):
    def body(errors, lengths):
        is_token = jnp.arange(errors.shape[1]) < lengths[:, None]
        total = lax.psum(jnp.sum(jnp.where(is_token, errors, 0)), "data")
        return lax.pmean(total / jnp.sum(lengths), "data")

    return jax.shard_map(body, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    def body(w, h, y, lengths):
        is_token = jnp.arange(h.shape[1]) < lengths[:, None]

        def error(w):
            outputs = lax.psum(h @ w, "model")
            return jnp.sum(jnp.where(is_token[..., None], (outputs - y) ** 2, 0))

        return jax.grad(error)(w)

    in_specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("model"))(w_out, h, y, lengths)


# %% a token of padding in the gradient exercise="12.7" score=0.75 diagnoses=["token-of-padding"] near=["padding-counted", "own-count"]
w_out = jax.device_put(start(0)["w_out"], NamedSharding(grid, P("model", None)))


def dropout(seed, h):
    def body(seed, h):
        key = jax.random.key(seed)
        key = jax.random.fold_in(key, lax.axis_index("data"))
        key = jax.random.fold_in(key, lax.axis_index("model"))
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


def mean_error(errors, lengths):
    def body(errors, lengths):
        is_token = jnp.arange(errors.shape[1]) < lengths[:, None]
        total = lax.psum(jnp.sum(jnp.where(is_token, errors, 0)), "data")
        return total / lax.psum(jnp.sum(lengths), "data")

    return jax.shard_map(body, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    def body(w, h, y, lengths):
        is_token = jnp.arange(h.shape[1]) <= lengths[:, None]

        def error(w):
            outputs = lax.psum(h @ w, "model")
            return jnp.sum(jnp.where(is_token[..., None], (outputs - y) ** 2, 0))

        return jax.grad(error)(w)

    in_specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("model"))(w_out, h, y, lengths)


# %% weights of another seed exercise="12.7" score=0.75 diagnoses=["values"] near=["token-of-padding"]
SPECS["w_out"] = P("model", None)

w_out = start(1)["w_out"]


def dropout(seed, h):
    def body(seed, h):
        key = jax.random.key(seed)
        key = jax.random.fold_in(key, lax.axis_index("data"))
        key = jax.random.fold_in(key, lax.axis_index("model"))
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


def mean_error(errors, lengths):
    def body(errors, lengths):
        is_token = jnp.arange(errors.shape[1]) < lengths[:, None]
        total = lax.psum(jnp.sum(jnp.where(is_token, errors, 0)), "data")
        return total / lax.psum(jnp.sum(lengths), "data")

    return jax.shard_map(body, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    def body(w, h, y, lengths):
        is_token = jnp.arange(h.shape[1]) < lengths[:, None]

        def error(w):
            outputs = lax.psum(h @ w, "model")
            return jnp.sum(jnp.where(is_token[..., None], (outputs - y) ** 2, 0))

        return jax.grad(error)(w)

    in_specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("model"))(w_out, h, y, lengths)


# %% a longest axis of 16 exercise="12.2" score=0.75 diagnoses=["other-result"] near=["longer-than-16"]
def wraps(chip, length):
    if chip in ("v5e", "v6e"):
        return length == 16
    return 4 <= length <= 16 and length % 4 == 0


def gather(n, size, link, wraps):
    time = (n - 1) / n * size / link
    return time / 2 if wraps else time


def flat(hosts, chips, size, fast, slow):
    n = hosts * chips
    return 2 * (n - 1) / n * size / slow


def two_levels(hosts, chips, size, fast, slow):
    inner = 2 * (chips - 1) / chips * size / fast
    outer = 2 * (hosts - 1) / hosts * (size / chips) / slow
    return inner + outer


# %% a rounded size exercise="12.1" score=0.75 diagnoses=["rounded"] near=["power-of-two", "nearly-right"]
def exchange(n, size, latency, bandwidth):
    return latency + (n - 1) * size / bandwidth


def doubling(n, size, latency, bandwidth):
    return np.log2(n) * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return 2 * (n - 1) * (latency + size / n / bandwidth)


def ring_from(n, latency, bandwidth):
    steps = np.log2(n)
    return int((2 * (n - 1) - steps) * latency * bandwidth / (steps - 2 * (n - 1) / n))


# %% always as with eight devices exercise="12.1" score=0 diagnoses=["of-eight", "ignores-inputs"] near=["one-latency", "over-the-bandwidth", "of-eight-devices"]
def exchange(n, size, latency, bandwidth):
    return latency + 7 * size / bandwidth


def doubling(n, size, latency, bandwidth):
    return 3 * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return 14 * (latency + size / 8 / bandwidth)


def ring_from(n, latency, bandwidth):
    return 0


# %% a ring at mean bandwidth exercise="12.2" score=0 diagnoses=["unanswered", "mean-of-the-links"] near=["fast-ring", "ring-of-hosts"]
def flat(hosts, chips, size, fast, slow):
    n = hosts * chips
    return 2 * (n - 1) / n * size / ((hosts * slow + (n - hosts) * fast) / n)


# %% a bubble of whole numbers exercise="12.3" score=0 diagnoses=["unanswered", "rounded-down-to-whole"] near=["of-the-work"]
def bubble(stages, microbatches):
    return (stages - 1) // (microbatches + stages - 1)


# %% the bytes of one parameter exercise="12.4" score=0 diagnoses=["of-one-parameter", "unanswered"] near=["on-all-devices", "one-level-late"]
def held(level, parameters, n):
    return {0: 16, 1: 4 + 12 / n, 2: 2 + 14 / n, 3: 16 / n}[level]


# %% a mask for all tokens, and the mean of all numbers exercise="12.7" score=0 diagnoses=["unanswered", "one-mask-for-all-tokens", "mean-over-numbers"] near=["other-mask", "one-mask-for-all", "mean-for-sum", "divided"]
def dropout(seed, h):
    def body(seed, h):
        key = jax.random.fold_in(jax.random.key(seed), lax.axis_index("data"))
        key = jax.random.fold_in(key, lax.axis_index("model"))
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape[-1:]), 2 * h, 0)

    spec = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), spec), out_specs=spec)(seed, h)


def gradient(w_out, h, y, lengths):
    def body(w_out, h, y, lengths):
        token = jnp.arange(h.shape[1]) < lengths[:, None]

        def error(w):
            output = lax.psum(h @ w, "model")
            return jnp.mean(jnp.where(token[:, :, None], output - y, 0) ** 2)

        return jax.grad(error)(w_out)

    in_specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("model"))(w_out, h, y, lengths)


# %% split and joined along the same dimension exercise="12.9" score=0 diagnoses=["nothing-but-zeros", "not-counted-yet", "letter-of-two-lengths"] near=["smallest-scores", "full-experts"]
def dropped(scores):
    def body(scores):
        tokens, experts = scores.shape
        counts = jax.nn.one_hot(scores.argmax(0), experts, dtype=jnp.int32).sum(0)
        return lax.psum(jnp.maximum(counts - tokens // experts, 0).sum(), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, scores, up, down):
        (t, f), e = x.shape, scores.shape[1]
        c = t // e
        n = lax.axis_size("expert")
        choice = scores.argmax(1)
        hot = jax.nn.one_hot(choice, e, dtype=jnp.int32)
        place = ((jnp.cumsum(hot, 0) - 1) * hot).sum(1)
        kept = place < c
        room = jnp.zeros((e, c, f)).at[choice, place].set(x, mode="drop")
        room = lax.all_to_all(room, "expert", 0, 0, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("ecf,efh->ech", room, up))
        result = jnp.einsum("ech,ehf->ecf", hidden, down)
        result = lax.all_to_all(result, "expert", 0, 0, tiled=True)
        own = result.at[choice, place].get(mode="fill", fill_value=0)
        prob = jax.nn.softmax(scores).max(1)
        return jnp.where(kept, prob, 0)[:, None] * own

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% one microbatch after the other exercise="12.3" score=0.75 diagnoses=["one-by-one"] near=["backward-early"]
def gpipe(stages, microbatches):
    return [[f"{job}{m}" for m in range(microbatches) for job in "FB"]] * stages


def one_f_one_b(stages, microbatches):
    def stage(s):
        f = b = 0
        while b < microbatches:
            if f < microbatches and f - b < stages - s:
                yield f"F{f}"
                f += 1
            else:
                yield f"B{b}"
                b += 1

    return [list(stage(s)) for s in range(stages)]


def bubble(stages, microbatches):
    return 1 - 3 * microbatches / (3 * (microbatches + stages - 1))


# %% all of the own block is seen exercise="12.5" score=0.3333333333333333 diagnoses=["own-block-whole", "not-counted-yet"] near=["not-causal", "own-block-alone"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i = lax.axis_size("seq"), lax.axis_index("seq")
        b = len(q)
        rows = i * b + jnp.arange(b)
        ring = [(d, (d + 1) % n) for d in range(n)]

        def step(t, carry):
            largest, total, out, k, v = carry
            columns = ((i - t) % n) * b + jnp.arange(b)
            scores = q @ k.T / jnp.sqrt(q.shape[1])
            scores = jnp.where((rows[:, None] // b) >= columns // b, scores, -jnp.inf)
            new = jnp.maximum(largest, scores.max(1))
            fade, weights = jnp.exp(largest - new), jnp.exp(scores - new[:, None])
            total = total * fade + weights.sum(1)
            out = out * fade[:, None] + weights @ v
            k, v = lax.ppermute(k, "seq", ring), lax.ppermute(v, "seq", ring)
            return new, total, out, k, v

        start = q[:, 0] * 0 - jnp.inf, q[:, 0] * 0, q * 0, k, v
        _, total, out, *_ = lax.fori_loop(0, n, step, start)
        return out / total[:, None]

    return jax.shard_map(body, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [[d, 2 * n - 1 - d] for d in range(n)]


# %% the root of the number of heads exercise="12.8" score=0.6666666666666666 diagnoses=["scaled-otherwise", "not-counted-yet"] near=["not-scaled"]
def attend(x, qkv, out):
    pass


def keep_nothing(x, qkv, out, up, down):
    return jax.checkpoint(block)(x, qkv, out, up, down)


def named(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    scores = jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[2])
    mixed = jnp.einsum("htu,hus->hts", jax.nn.softmax(scores), v)
    x = x + checkpoint_name(jnp.einsum("hts,hsf->tf", mixed, out), "out")
    return x + jax.nn.gelu(checkpoint_name(x @ up, "up")) @ down


def keep_products(x, qkv, out, up, down):
    policy = jax.checkpoint_policies.save_only_these_names("qkv", "out", "up")
    return jax.checkpoint(named, policy=policy)(x, qkv, out, up, down)


def named_little(x, qkv, out, up, down):
    q, k, v = checkpoint_name(jnp.einsum("tf,cfhs->chts", x, qkv), "qkv")
    scores = jnp.einsum("hts,hus->htu", q, k) / jnp.sqrt(q.shape[0])
    mixed = checkpoint_name(jnp.einsum("htu,hus->hts", jax.nn.softmax(scores), v), "mixed")
    x = x + checkpoint_name(jnp.einsum("hts,hsf->tf", mixed, out), "out")
    return x + jax.nn.gelu(checkpoint_name(x @ up, "up")) @ down


def keep_little(x, qkv, out, up, down):
    policy = jax.checkpoint_policies.save_only_these_names("qkv", "mixed", "out")
    return jax.checkpoint(named_little, policy=policy)(x, qkv, out, up, down)


# %% experts given to the devices in turn exercise="12.9" score=0.1 diagnoses=["experts-in-turn", "not-counted-yet"] near=["one-way-along-0", "never-sent", "moe: values"]
def places(scores, capacity):
    """Expert of each token, its place there, and whether it has one."""
    expert = scores.argmax(axis=1)
    chosen = jax.nn.one_hot(expert, scores.shape[1], dtype=jnp.int32)
    place = (jnp.cumsum(chosen, axis=0) * chosen).sum(1) - 1
    return expert, place, place < capacity


def dropped(scores):
    def body(scores):
        t, e = scores.shape
        _, _, kept = places(scores, t // e)
        return lax.psum(jnp.sum(~kept, dtype=jnp.int32), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, scores, up, down):
        t, e = scores.shape
        capacity = t // e
        expert, place, kept = places(scores, capacity)
        slots = jnp.zeros((e, capacity, x.shape[1]), x.dtype)
        slots = slots.at[expert, place].set(x, mode="drop")
        slots = (
            slots.reshape(-1, lax.axis_size("expert"), *slots.shape[1:])
            .swapaxes(0, 1)
            .reshape(slots.shape)
        )
        slots = lax.all_to_all(slots, "expert", split_axis=0, concat_axis=1, tiled=True)
        hidden = jax.nn.relu(jnp.einsum("ecf,efh->ech", slots, up))
        slots = jnp.einsum("ech,ehf->ecf", hidden, down)
        slots = lax.all_to_all(slots, "expert", split_axis=1, concat_axis=0, tiled=True)
        probability = jnp.take_along_axis(jax.nn.softmax(scores), expert[:, None], axis=1)
        rows = slots.at[expert, place].get(mode="fill", fill_value=0)
        return rows * probability

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the loop in float16 exercise="12.10" score=0.75 diagnoses=["of-float16"] near=["two-spacings"]
def stalls_at(increment):
    step = jnp.float16(increment)
    total = jnp.float16(0)
    while total + step != total:
        total = total + step
    return float(total)


def mixed_step(master, X, Y):
    def body(w, X, Y):
        full = lax.all_gather(w.astype(jnp.bfloat16), "data", tiled=True)

        def loss(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def one(total, xy):
            return total + jax.grad(loss)(full, *xy).astype(jnp.float32), None

        start = jnp.zeros_like(full, dtype=jnp.float32)
        total, _ = lax.scan(one, start, (X, Y))
        shard = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        count = X.shape[0] * X.shape[1] * lax.axis_size("data")
        return w - 0.001 * shard.astype(jnp.float32) / count

    specs = P("data"), P(None, "data"), P(None, "data")
    return jax.shard_map(body, in_specs=specs, out_specs=P("data"))(master, X, Y)


# %% a ring with two latencies exercise="12.1" score=0.75 diagnoses=["two-latencies"]
import math


def exchange(n, size, latency, bandwidth):
    return latency + (n - 1) * size / bandwidth


def doubling(n, size, latency, bandwidth):
    return math.log2(n) * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return 2 * latency + 2 * (n - 1) * size / n / bandwidth


def ring_from(n, latency, bandwidth):
    steps = math.log2(n)
    return latency * bandwidth * (2 * (n - 1) - steps) / (steps - 2 * (n - 1) / n)


# %% the last forward pass lost in the turns exercise="12.3" score=0.5 diagnoses=["forward-missing"]
def gpipe(stages, microbatches):
    jobs = [f"F{i}" for i in range(microbatches)] + [f"B{i}" for i in range(microbatches)]
    return [list(jobs) for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for s in range(stages):
        ahead = min(stages - s, microbatches)
        jobs = [f"F{i}" for i in range(ahead)]
        for i in range(microbatches):
            jobs.append(f"B{i}")
            if i + ahead < microbatches - 1:
                jobs.append(f"F{i + ahead}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return (stages - 1) / (microbatches + stages - 1)


# %% divided by the number of devices exercise="12.5" score=0.3333333333333333 diagnoses=["divided-by-devices", "not-counted-yet"] near=["ring_attention: values"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, i, t = lax.axis_size("seq"), lax.axis_index("seq"), len(q)
        turn = [(j, (j + 1) % n) for j in range(n)]
        rows = i * t + jnp.arange(t)

        def step(r, carry):
            k, v, m, total, out = carry
            cols = (i - r) % n * t + jnp.arange(t)
            s = q @ k.T / jnp.sqrt(q.shape[1])
            s = jnp.where(rows[:, None] >= cols, s, -jnp.inf)
            new = jnp.maximum(m, s.max(1))
            e, c = jnp.exp(s - new[:, None]), jnp.exp(m - new)
            total = c * total + e.sum(1)
            out = c[:, None] * out + e @ v
            k, v = lax.ppermute(k, "seq", turn), lax.ppermute(v, "seq", turn)
            return k, v, new, total, out

        m = lax.pcast(jnp.full(t, -jnp.inf), "seq", to="varying")
        total = lax.pcast(jnp.zeros(t), "seq", to="varying")
        _, _, _, total, out = lax.fori_loop(0, n, step, (k, v, m, total, jnp.zeros_like(v)))
        return out / n

    return jax.shard_map(body, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [[i, 2 * n - 1 - i] for i in range(n)]


# %% the largest gradient of each bucket exercise="12.6" score=0.0 diagnoses=["largest-gradient", "exposed"]
import itertools


def exposed(backward, sizes, buckets, latency, bandwidth):
    ready = free = 0
    layer = 0
    for count in buckets:
        ready += sum(backward[layer : layer + count])
        free = max(ready, free) + latency + max(sizes[layer : layer + count]) / bandwidth
        layer += count
    return free - sum(backward)


def bucketed(backward, sizes, latency, bandwidth):
    def choices(n):
        if n == 0:
            yield []
        for first in range(1, n + 1):
            for rest in choices(n - first):
                yield [first] + rest

    return min(choices(len(sizes)), key=lambda c: exposed(backward, sizes, c, latency, bandwidth))


# %% a bucket after the size of the last one exercise="12.6" score=0.0 diagnoses=["after-the-last-number", "exposed"] near=["numbers-as-ends", "one-layer-on"]
import itertools


def exposed(backward, sizes, buckets, latency, bandwidth):
    ready = free = 0
    layer = 0
    for count in buckets:
        ready += sum(backward[layer : layer + count])
        free = max(ready, free) + latency + sum(sizes[layer : layer + count]) / bandwidth
        layer = count
    return free - sum(backward)


def bucketed(backward, sizes, latency, bandwidth):
    def choices(n):
        if n == 0:
            yield []
        for first in range(1, n + 1):
            for rest in choices(n - first):
                yield [first] + rest

    return min(choices(len(sizes)), key=lambda c: exposed(backward, sizes, c, latency, bandwidth))


# %% tokens counted from one exercise="12.7" score=0.75 diagnoses=["one-token-fewer"]
SPECS = {"w_in": P(None, "model"), "w_out": P("model", None)}
w_out = start(0)["w_out"]


def dropout(seed, h):
    def body(seed, h):
        key = jax.random.key(seed)
        key = jax.random.fold_in(key, lax.axis_index("data"))
        key = jax.random.fold_in(key, lax.axis_index("model"))
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


def mean_error(errors, lengths):
    def body(errors, lengths):
        is_token = jnp.arange(1, errors.shape[1] + 1) < lengths[:, None]
        total = lax.psum(jnp.sum(jnp.where(is_token, errors, 0)), "data")
        return total / lax.psum(jnp.sum(lengths), "data")

    return jax.shard_map(body, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    def body(w, h, y, lengths):
        is_token = jnp.arange(h.shape[1]) < lengths[:, None]

        def error(w):
            outputs = lax.psum(h @ w, "model")
            return jnp.sum(jnp.where(is_token[..., None], (outputs - y) ** 2, 0))

        return jax.grad(error)(w)

    in_specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("model"))(w_out, h, y, lengths)


# %% a key split into one for each device exercise="12.7" score=0.75 diagnoses=["one-number"]
SPECS = {"w_in": P(None, "model"), "w_out": P("model", None)}
w_out = start(0)["w_out"]


def dropout(seed, h):
    def body(seed, h):
        key = jax.random.key(seed)
        key = jax.random.split(key, (lax.axis_size("data"), lax.axis_size("model")))[
            lax.axis_index("data"), lax.axis_index("model")
        ]
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


def mean_error(errors, lengths):
    def body(errors, lengths):
        is_token = jnp.arange(errors.shape[1]) < lengths[:, None]
        total = lax.psum(jnp.sum(jnp.where(is_token, errors, 0)), "data")
        return total / lax.psum(jnp.sum(lengths), "data")

    return jax.shard_map(body, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    def body(w, h, y, lengths):
        is_token = jnp.arange(h.shape[1]) < lengths[:, None]

        def error(w):
            outputs = lax.psum(h @ w, "model")
            return jnp.sum(jnp.where(is_token[..., None], (outputs - y) ** 2, 0))

        return jax.grad(error)(w)

    in_specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("model"))(w_out, h, y, lengths)


# %% divided by the microbatches in the loop and after it exercise="12.10" score=0.25 diagnoses=["microbatches-twice", "not-counted-yet"]
def stalls_at(increment):
    total, step = np.zeros((), jnp.bfloat16), np.asarray(increment, jnp.bfloat16)
    while total + step != total:
        total = total + step
    return float(total)


def mixed_step(master, X, Y):
    def body(master, X, Y):
        w = lax.all_gather(master.astype(jnp.bfloat16), "data", tiled=True)

        def loss(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(total, xy):
            return total + (jax.grad(loss)(w, *xy) / X.shape[0]).astype(jnp.bfloat16).astype(
                jnp.float32
            ), None

        start = lax.pcast(jnp.zeros(w.shape, jnp.float32), "data", to="varying")
        total, _ = lax.scan(add, start, (X, Y))
        own = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        count = X.shape[0] * X.shape[1] * lax.axis_size("data")
        return master - 0.001 * own.astype(jnp.float32) / count

    B = P(None, "data")
    return jax.shard_map(body, in_specs=(P("data"), B, B), out_specs=P("data"))(master, X, Y)


# %% eight for the number of devices exercise="12.10" score=0.25 diagnoses=["only-the-first", "not-counted-yet"] near=["mixed_step: values"]
def stalls_at(increment):
    total, step = np.zeros((), jnp.bfloat16), np.asarray(increment, jnp.bfloat16)
    while total + step != total:
        total = total + step
    return float(total)


def mixed_step(master, X, Y):
    def body(master, X, Y):
        w = lax.all_gather(master.astype(jnp.bfloat16), "data", tiled=True)

        def loss(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(total, xy):
            return total + jax.grad(loss)(w, *xy).astype(jnp.float32), None

        start = lax.pcast(jnp.zeros(w.shape, jnp.float32), "data", to="varying")
        total, _ = lax.scan(add, start, (X, Y))
        own = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        count = X.shape[0] * X.shape[1] * 8
        return master - 0.001 * own.astype(jnp.float32) / count

    B = P(None, "data")
    return jax.shard_map(body, in_specs=(P("data"), B, B), out_specs=P("data"))(master, X, Y)


# %% never all layers in one bucket exercise="12.6" score=0.3333 diagnoses=["all-in-one-missed"] near=["each-alone-missed"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    ready = free = 0.0
    first = 0
    for count in buckets:
        ready += sum(backward[first : first + count])
        free = max(ready, free) + latency + sum(sizes[first : first + count]) / bandwidth
        first += count
    return free - sum(backward)


def bucketed(backward, sizes, latency, bandwidth):
    layers = len(backward)
    best = None
    for cuts in range(2 ** (layers - 1)):
        buckets, run = [], 1
        for i in range(layers - 1):
            if cuts >> i & 1:
                buckets.append(run)
                run = 1
            else:
                run += 1
        buckets.append(run)
        if not (len(buckets) >= 2):
            continue
        time = exposed(backward, sizes, buckets, latency, bandwidth)
        if best is None or time < best[0]:
            best = time, buckets
    return best[1]


# %% the last two layers always in one bucket exercise="12.6" score=0.3333 diagnoses=["each-alone-missed"] near=["all-in-one-missed"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    ready = free = 0.0
    first = 0
    for count in buckets:
        ready += sum(backward[first : first + count])
        free = max(ready, free) + latency + sum(sizes[first : first + count]) / bandwidth
        first += count
    return free - sum(backward)


def bucketed(backward, sizes, latency, bandwidth):
    layers = len(backward)
    best = None
    for cuts in range(2 ** (layers - 2)):
        buckets, run = [], 1
        for i in range(layers - 1):
            if cuts >> i & 1:
                buckets.append(run)
                run = 1
            else:
                run += 1
        buckets.append(run)
        time = exposed(backward, sizes, buckets, latency, bandwidth)
        if best is None or time < best[0]:
            best = time, buckets
    return best[1]


# %% only buckets that grow exercise="12.6" score=0.3333 diagnoses=["exposed"] near=["latency-ignored"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    ready = free = 0.0
    first = 0
    for count in buckets:
        ready += sum(backward[first : first + count])
        free = max(ready, free) + latency + sum(sizes[first : first + count]) / bandwidth
        first += count
    return free - sum(backward)


def bucketed(backward, sizes, latency, bandwidth):
    layers = len(backward)
    best = None
    for cuts in range(2 ** (layers - 1)):
        buckets, run = [], 1
        for i in range(layers - 1):
            if cuts >> i & 1:
                buckets.append(run)
                run = 1
            else:
                run += 1
        buckets.append(run)
        if not (buckets == sorted(buckets)):
            continue
        time = exposed(backward, sizes, buckets, latency, bandwidth)
        if best is None or time < best[0]:
            best = time, buckets
    return best[1]


# %% the waits of all buckets added up exercise="12.6" score=0 diagnoses=["waits-added", "one-bucket"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    ready = free = waits = 0.0
    first = 0
    for count in buckets:
        ready += sum(backward[first : first + count])
        free = max(ready, free) + latency + sum(sizes[first : first + count]) / bandwidth
        waits += max(0, free - ready)
        first += count
    return waits


def bucketed(backward, sizes, latency, bandwidth):
    layers = len(backward)
    best = None
    for cuts in range(2 ** (layers - 1)):
        buckets, run = [], 1
        for i in range(layers - 1):
            if cuts >> i & 1:
                buckets.append(run)
                run = 1
            else:
                run += 1
        buckets.append(run)
        time = exposed(backward, sizes, buckets, latency, bandwidth)
        if best is None or time < best[0]:
            best = time, buckets
    return best[1]


# %% exposed from the end of the first bucket exercise="12.6" score=0.6667 diagnoses=["other-result"] near=["waits-added"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    ready = free = 0.0
    first = 0
    for count in buckets:
        ready += sum(backward[first : first + count])
        free = max(ready, free) + latency + sum(sizes[first : first + count]) / bandwidth
        first += count
    return free - backward[0]


def bucketed(backward, sizes, latency, bandwidth):
    layers = len(backward)
    best = None
    for cuts in range(2 ** (layers - 1)):
        buckets, run = [], 1
        for i in range(layers - 1):
            if cuts >> i & 1:
                buckets.append(run)
                run = 1
            else:
                run += 1
        buckets.append(run)
        time = exposed(backward, sizes, buckets, latency, bandwidth)
        if best is None or time < best[0]:
            best = time, buckets
    return best[1]


# %% a ring with pieces of whole bytes exercise="12.1" score=0.75 diagnoses=["whole-pieces"] near=["times-bandwidth"]
def exchange(n, size, latency, bandwidth):
    return latency + (n - 1) * size / bandwidth


def doubling(n, size, latency, bandwidth):
    return np.log2(n) * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return 2 * (n - 1) * (latency + size // n / bandwidth)


def ring_from(n, latency, bandwidth):
    k = np.log2(n)
    return latency * bandwidth * (2 * (n - 1) - k) / (k - 2 * (n - 1) / n)


# %% ring_from from a grid of sizes exercise="12.1" score=0.75 diagnoses=["nearly-right"] near=["rounded", "whole-pieces"]
def exchange(n, size, latency, bandwidth):
    return latency + (n - 1) * size / bandwidth


def doubling(n, size, latency, bandwidth):
    return np.log2(n) * (latency + size / bandwidth)


def ring(n, size, latency, bandwidth):
    return 2 * (n - 1) * (latency + size / n / bandwidth)


def ring_from(n, latency, bandwidth):
    for size in np.geomspace(1, 1e12, 2000):
        if ring(n, size, latency, bandwidth) < min(
            exchange(n, size, latency, bandwidth), doubling(n, size, latency, bandwidth)
        ):
            return size


# %% all of W comes into zero_3 exercise="12.4" score=0.8125 diagnoses=["too-much-memory"]
def held(level, parameters, n):
    weights, gradients, state = 2 * parameters, 2 * parameters, 12 * parameters
    if level >= 1:
        state /= n
    if level >= 2:
        gradients /= n
    if level >= 3:
        weights /= n
    return weights + gradients + state


def total_(X):
    return X.shape[0] * X.shape[1] * lax.axis_size("data")


def mine_(W, m):
    return lax.dynamic_slice_in_dim(W, lax.axis_index("data") * m.shape[0], m.shape[0])


def shards_(body, W_spec):
    state = P("data")
    examples = P(None, "data")
    return jax.shard_map(
        body, in_specs=(W_spec, state, state, examples, examples), out_specs=(state,) * 3
    )


def zero_1(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        W = lax.pcast(W, "data", to="varying")
        add = lambda total, xy: (total + jax.grad(error)(W, *xy), None)
        total, _ = lax.scan(add, jnp.zeros_like(W), (X, Y))
        gradient = lax.psum_scatter(total, "data", tiled=True) / total_(X)
        return adam(mine_(W, m), m, v, gradient)

    W, m, v = shards_(body, P())(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_2(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        W = lax.pcast(W, "data", to="varying")
        add = lambda total, xy: (
            total + lax.psum_scatter(jax.grad(error)(W, *xy), "data", tiled=True),
            None,
        )
        total, _ = lax.scan(add, jnp.zeros_like(m), (X, Y))
        return adam(mine_(W, m), m, v, total / total_(X))

    W, m, v = shards_(body, P())(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_3(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        @jax.checkpoint
        def gathered_error(W, x, y):
            return error(lax.all_gather(W, "data", tiled=True), x, y)

        add = lambda total, xy: (total + jax.grad(gathered_error)(W, *xy), None)
        total, _ = lax.scan(add, jnp.zeros_like(m), (X, Y))
        return adam(W, m, v, total / total_(X))

    return shards_(lambda W, *a: body(mine_(W, a[0]), *a), P())(W, m, v, X, Y)


# %% results of the experts in another order exercise="12.9" score=0.1 diagnoses=["one-way-along-0", "not-counted-yet"] near=["places-by-devices"]
def slots_(scores):
    t, e = scores.shape
    chosen = jax.nn.one_hot(scores.argmax(1), e, dtype=jnp.int32)
    place = jnp.sum((jnp.cumsum(chosen, 0) - 1) * chosen, 1)
    return scores.argmax(1), place, t // e


def dropped(scores):
    def body(scores):
        _, place, capacity = slots_(scores)
        return lax.psum(jnp.sum(place >= capacity, dtype=jnp.int32), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, scores, up, down):
        expert, place, capacity = slots_(scores)
        n, e = lax.axis_size("expert"), scores.shape[1]
        buffer = jnp.zeros((e, capacity, x.shape[1])).at[expert, place].set(x, mode="drop")
        arrived = lax.all_to_all(buffer, "expert", 0, 0, tiled=True)
        arrived = arrived.reshape(n, e // n, capacity, -1)
        hidden = jax.nn.relu(jnp.einsum("necf,efh->nech", arrived, up))
        outputs = jnp.einsum("nech,ehf->necf", hidden, down).swapaxes(0, 1).reshape(e, capacity, -1)
        back = lax.all_to_all(outputs, "expert", 0, 0, tiled=True)
        probability = jnp.take_along_axis(jax.nn.softmax(scores), expert[:, None], 1)
        mine = back.at[expert, place].get(mode="fill", fill_value=0)
        return mine * probability

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% the rows of another device's gradient exercise="12.10" score=0.25 diagnoses=["values", "not-counted-yet"] near=["first-rows"]
def stalls_at(increment):
    step = jnp.asarray(increment, jnp.bfloat16)
    return float(
        lax.while_loop(lambda t: t + step != t, lambda t: t + step, jnp.zeros((), jnp.bfloat16))
    )


def mixed_step(master, X, Y):
    def body(mine, X, Y):
        w = lax.all_gather(mine.astype(jnp.bfloat16), "data", tiled=True)

        def error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(total, xy):
            return total + jax.grad(error)(w, *xy).astype(jnp.float32), None

        zeros = lax.pcast(jnp.zeros(w.shape, jnp.float32), "data", to="varying")
        total, _ = lax.scan(add, zeros, (X, Y))
        count = X.shape[0] * X.shape[1] * lax.axis_size("data")
        mean = lax.psum_scatter(
            jnp.roll(total, mine.shape[0], 0).astype(jnp.bfloat16), "data", tiled=True
        )
        return mine - 0.001 * mean.astype(jnp.float32) / count

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% the first rows of the gradient on all devices exercise="12.10" score=0.25 diagnoses=["values", "not-counted-yet", "no reduce-scatter"] near=["mixed_step: first-rows"]
def stalls_at(increment):
    step = jnp.asarray(increment, jnp.bfloat16)
    return float(
        lax.while_loop(lambda t: t + step != t, lambda t: t + step, jnp.zeros((), jnp.bfloat16))
    )


def mixed_step(master, X, Y):
    def body(mine, X, Y):
        w = lax.all_gather(mine.astype(jnp.bfloat16), "data", tiled=True)

        def error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(total, xy):
            return total + jax.grad(error)(w, *xy).astype(jnp.float32), None

        zeros = lax.pcast(jnp.zeros(w.shape, jnp.float32), "data", to="varying")
        total, _ = lax.scan(add, zeros, (X, Y))
        count = X.shape[0] * X.shape[1] * lax.axis_size("data")
        mean = lax.psum(total.astype(jnp.bfloat16), "data")[: mine.shape[0]]
        return mine - 0.001 * mean.astype(jnp.float32) / count

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% grad of a scan over losses exercise="12.10" score=0.25 diagnoses=["added-up-in-bfloat16", "not-counted-yet"]
def stalls_at(increment):
    step = jnp.asarray(increment, jnp.bfloat16)
    return float(
        lax.while_loop(lambda t: t + step != t, lambda t: t + step, jnp.zeros((), jnp.bfloat16))
    )


def mixed_step(master, X, Y):
    def body(mine, X, Y):
        w = lax.all_gather(mine.astype(jnp.bfloat16), "data", tiled=True)

        def error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def all_errors(w):
            def add(total, xy):
                return total + error(w, *xy).astype(jnp.float32), None

            zero = lax.pcast(jnp.zeros((), jnp.float32), "data", to="varying")
            return lax.scan(add, zero, (X, Y))[0]

        total = jax.grad(all_errors)(w)
        count = X.shape[0] * X.shape[1] * lax.axis_size("data")
        mean = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        return mine - 0.001 * mean.astype(jnp.float32) / count

    return jax.shard_map(
        body, in_specs=(P("data"), P(None, "data"), P(None, "data")), out_specs=P("data")
    )(master, X, Y)


# %% divided by the microbatches, and averaged over the devices exercise="12.4" score=0.75 diagnoses=["multiple-of-the-gradient", "not-counted-yet"] near=["sum-for-mean", "mean-of-a-microbatch"]
def held(level, parameters, n):
    weights, gradients, state = 2 * parameters, 2 * parameters, 12 * parameters
    if level >= 1:
        state /= n
    if level >= 2:
        gradients /= n
    if level >= 3:
        weights /= n
    return weights + gradients + state


def total_(X):
    return X.shape[0] * X.shape[1] * lax.axis_size("data")


def mine_(W, m):
    return lax.dynamic_slice_in_dim(W, lax.axis_index("data") * m.shape[0], m.shape[0])


def shards_(body, W_spec):
    state = P("data")
    examples = P(None, "data")
    return jax.shard_map(
        body, in_specs=(W_spec, state, state, examples, examples), out_specs=(state,) * 3
    )


def zero_1(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        W = lax.pcast(W, "data", to="varying")
        add = lambda total, xy: (total + jax.grad(error)(W, *xy), None)
        total, _ = lax.scan(add, jnp.zeros_like(W), (X, Y))
        gradient = lax.psum_scatter(total, "data", tiled=True) / lax.axis_size("data") / X.shape[0]
        return adam(mine_(W, m), m, v, gradient)

    W, m, v = shards_(body, P())(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_2(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        W = lax.pcast(W, "data", to="varying")
        add = lambda total, xy: (
            total + lax.psum_scatter(jax.grad(error)(W, *xy), "data", tiled=True),
            None,
        )
        total, _ = lax.scan(add, jnp.zeros_like(m), (X, Y))
        return adam(mine_(W, m), m, v, total / total_(X))

    W, m, v = shards_(body, P())(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_3(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        @jax.checkpoint
        def gathered_error(W, x, y):
            return error(lax.all_gather(W, "data", tiled=True), x, y)

        add = lambda total, xy: (total + jax.grad(gathered_error)(W, *xy), None)
        total, _ = lax.scan(add, jnp.zeros_like(m), (X, Y))
        return adam(W, m, v, total / total_(X))

    return shards_(body, P("data"))(W, m, v, X, Y)


# %% zero_1 scatters the columns of the gradient exercise="12.4" score=0.75 diagnoses=["other-gradient", "not-counted-yet"] near=["multiple-of-the-gradient", "other-update"]
def held(level, parameters, n):
    weights, gradients, state = 2 * parameters, 2 * parameters, 12 * parameters
    if level >= 1:
        state /= n
    if level >= 2:
        gradients /= n
    if level >= 3:
        weights /= n
    return weights + gradients + state


def total_(X):
    return X.shape[0] * X.shape[1] * lax.axis_size("data")


def mine_(W, m):
    return lax.dynamic_slice_in_dim(W, lax.axis_index("data") * m.shape[0], m.shape[0])


def shards_(body, W_spec):
    state = P("data")
    examples = P(None, "data")
    return jax.shard_map(
        body, in_specs=(W_spec, state, state, examples, examples), out_specs=(state,) * 3
    )


def zero_1(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        W = lax.pcast(W, "data", to="varying")
        add = lambda total, xy: (total + jax.grad(error)(W, *xy), None)
        total, _ = lax.scan(add, jnp.zeros_like(W), (X, Y))
        gradient = lax.psum_scatter(total, "data", scatter_dimension=1, tiled=True).reshape(
            m.shape
        ) / total_(X)
        return adam(mine_(W, m), m, v, gradient)

    W, m, v = shards_(body, P())(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_2(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        W = lax.pcast(W, "data", to="varying")
        add = lambda total, xy: (
            total + lax.psum_scatter(jax.grad(error)(W, *xy), "data", tiled=True),
            None,
        )
        total, _ = lax.scan(add, jnp.zeros_like(m), (X, Y))
        return adam(mine_(W, m), m, v, total / total_(X))

    W, m, v = shards_(body, P())(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_3(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        @jax.checkpoint
        def gathered_error(W, x, y):
            return error(lax.all_gather(W, "data", tiled=True), x, y)

        add = lambda total, xy: (total + jax.grad(gathered_error)(W, *xy), None)
        total, _ = lax.scan(add, jnp.zeros_like(m), (X, Y))
        return adam(W, m, v, total / total_(X))

    return shards_(body, P("data"))(W, m, v, X, Y)


# %% zero_1 begins with zeros for m and v exercise="12.4" score=0.75 diagnoses=["states-from-zeros", "not-counted-yet"] near=["other-gradient", "states-exchanged"]
def held(level, parameters, n):
    weights, gradients, state = 2 * parameters, 2 * parameters, 12 * parameters
    if level >= 1:
        state /= n
    if level >= 2:
        gradients /= n
    if level >= 3:
        weights /= n
    return weights + gradients + state


def total_(X):
    return X.shape[0] * X.shape[1] * lax.axis_size("data")


def mine_(W, m):
    return lax.dynamic_slice_in_dim(W, lax.axis_index("data") * m.shape[0], m.shape[0])


def shards_(body, W_spec):
    state = P("data")
    examples = P(None, "data")
    return jax.shard_map(
        body, in_specs=(W_spec, state, state, examples, examples), out_specs=(state,) * 3
    )


def zero_1(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        W = lax.pcast(W, "data", to="varying")
        add = lambda total, xy: (total + jax.grad(error)(W, *xy), None)
        total, _ = lax.scan(add, jnp.zeros_like(W), (X, Y))
        gradient = lax.psum_scatter(total, "data", tiled=True) / total_(X)
        return adam(mine_(W, m), m * 0, v * 0, gradient)

    W, m, v = shards_(body, P())(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_2(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        W = lax.pcast(W, "data", to="varying")
        add = lambda total, xy: (
            total + lax.psum_scatter(jax.grad(error)(W, *xy), "data", tiled=True),
            None,
        )
        total, _ = lax.scan(add, jnp.zeros_like(m), (X, Y))
        return adam(mine_(W, m), m, v, total / total_(X))

    W, m, v = shards_(body, P())(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_3(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        @jax.checkpoint
        def gathered_error(W, x, y):
            return error(lax.all_gather(W, "data", tiled=True), x, y)

        add = lambda total, xy: (total + jax.grad(gathered_error)(W, *xy), None)
        total, _ = lax.scan(add, jnp.zeros_like(m), (X, Y))
        return adam(W, m, v, total / total_(X))

    return shards_(body, P("data"))(W, m, v, X, Y)


# %% zero_1 moves W by the old m and v exercise="12.4" score=0.75 diagnoses=["other-update", "not-counted-yet", "too-much-memory"] near=["states-from-zeros", "other-gradient"]
def held(level, parameters, n):
    weights, gradients, state = 2 * parameters, 2 * parameters, 12 * parameters
    if level >= 1:
        state /= n
    if level >= 2:
        gradients /= n
    if level >= 3:
        weights /= n
    return weights + gradients + state


def total_(X):
    return X.shape[0] * X.shape[1] * lax.axis_size("data")


def mine_(W, m):
    return lax.dynamic_slice_in_dim(W, lax.axis_index("data") * m.shape[0], m.shape[0])


def shards_(body, W_spec):
    state = P("data")
    examples = P(None, "data")
    return jax.shard_map(
        body, in_specs=(W_spec, state, state, examples, examples), out_specs=(state,) * 3
    )


def zero_1(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        W = lax.pcast(W, "data", to="varying")
        add = lambda total, xy: (total + jax.grad(error)(W, *xy), None)
        total, _ = lax.scan(add, jnp.zeros_like(W), (X, Y))
        gradient = lax.psum_scatter(total, "data", tiled=True) / total_(X)
        new_m, new_v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        return mine_(W, m) - 0.01 * m / (jnp.sqrt(v) + 1e-8), new_m, new_v

    W, m, v = shards_(body, P())(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_2(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        W = lax.pcast(W, "data", to="varying")
        add = lambda total, xy: (
            total + lax.psum_scatter(jax.grad(error)(W, *xy), "data", tiled=True),
            None,
        )
        total, _ = lax.scan(add, jnp.zeros_like(m), (X, Y))
        return adam(mine_(W, m), m, v, total / total_(X))

    W, m, v = shards_(body, P())(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


def zero_3(W, m, v, X, Y):
    def body(W, m, v, X, Y):
        @jax.checkpoint
        def gathered_error(W, x, y):
            return error(lax.all_gather(W, "data", tiled=True), x, y)

        add = lambda total, xy: (total + jax.grad(gathered_error)(W, *xy), None)
        total, _ = lax.scan(add, jnp.zeros_like(m), (X, Y))
        return adam(W, m, v, total / total_(X))

    return shards_(body, P("data"))(W, m, v, X, Y)


# %% the values of each turn are those of the turn before exercise="12.5" score=0.3333 diagnoses=["values", "not-counted-yet"] near=["masked-late", "own-block-whole"]
def ring_attention(q, k, v):
    def body(q, k, v):
        n, me = lax.axis_size("seq"), lax.axis_index("seq")
        rows = q.shape[0]
        places = me * rows + jnp.arange(rows)

        def one(carry, step):
            largest, below, above, k, v = carry
            owner = (me - step) % n
            keys = owner * rows + jnp.arange(rows)
            scores = q @ k.T / jnp.sqrt(q.shape[1])
            scores = jnp.where(keys <= places[:, None], scores, -jnp.inf)
            new = jnp.maximum(largest, scores.max(1))
            weights = jnp.exp(scores - new[:, None])
            shrink = jnp.exp(largest - new)
            below = below * shrink + weights.sum(1)
            above = above * shrink[:, None] + weights @ v
            to_next = [(i, (i + 1) % n) for i in range(n)]
            k = lax.ppermute(k, "seq", to_next)
            v = jnp.where(step > 0, lax.ppermute(v, "seq", to_next), v)
            return (new, below, above, k, v), None

        start = jnp.full(rows, -1e30), jnp.zeros(rows), jnp.zeros_like(q)
        start = *lax.pcast(start[:2], "seq", to="varying"), start[2], k, v
        (_, below, above, _, _), _ = lax.scan(one, start, jnp.arange(n))
        return above / below[:, None]

    return jax.shard_map(body, in_specs=P("seq"), out_specs=P("seq"))(q, k, v)


def zigzag(n):
    return [(i, 2 * n - 1 - i) for i in range(n)]


# %% the output's gradient is added up over model, too exercise="12.7" score=0.75 diagnoses=["values"] near=["summed-twice", "rows-added-up"]
w_out = jax.device_put(start(0)["w_out"], NamedSharding(grid, P("model", None)))


def dropout(seed, h):
    def body(seed, h):
        key = jax.random.key(seed)
        key = jax.random.fold_in(key, lax.axis_index("data"))
        key = jax.random.fold_in(key, lax.axis_index("model"))
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


def mean_error(errors, lengths):
    def body(errors, lengths):
        is_token = jnp.arange(errors.shape[1]) < lengths[:, None]
        total = lax.psum(jnp.sum(jnp.where(is_token, errors, 0)), "data")
        return total / lax.psum(jnp.sum(lengths), "data")

    return jax.shard_map(body, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    def body(w, h, y, lengths):
        is_token = jnp.arange(h.shape[1]) < lengths[:, None]
        w = lax.pcast(w, "data", to="varying")

        def error(w):
            outputs = lax.psum(h @ w, "model")
            return jnp.sum(jnp.where(is_token[..., None], (outputs - y) ** 2, 0))

        g = lax.psum(jax.grad(error)(w), "data")
        return lax.psum(g, "model") / lax.axis_size("model") + 0 * g

    in_specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("model"))(w_out, h, y, lengths)


# %% errors are divided by the longest length exercise="12.7" score=0.75 diagnoses=["values"] near=["own-count", "mean-of-means"]
w_out = jax.device_put(start(0)["w_out"], NamedSharding(grid, P("model", None)))


def dropout(seed, h):
    def body(seed, h):
        key = jax.random.key(seed)
        key = jax.random.fold_in(key, lax.axis_index("data"))
        key = jax.random.fold_in(key, lax.axis_index("model"))
        return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), 2 * h, 0)

    blocks = P("data", None, "model")
    return jax.shard_map(body, in_specs=(P(), blocks), out_specs=blocks)(seed, h)


def mean_error(errors, lengths):
    def body(errors, lengths):
        is_token = jnp.arange(errors.shape[1]) < lengths[:, None]
        total = lax.psum(jnp.sum(jnp.where(is_token, errors, 0)), "data")
        return total / lax.psum(lengths.shape[0] * lengths.max(), "data")

    return jax.shard_map(body, in_specs=P("data"), out_specs=P())(errors, lengths)


def gradient(w_out, h, y, lengths):
    def body(w, h, y, lengths):
        is_token = jnp.arange(h.shape[1]) < lengths[:, None]
        w = lax.pcast(w, "data", to="varying")

        def error(w):
            outputs = lax.psum(h @ w, "model")
            return jnp.sum(jnp.where(is_token[..., None], (outputs - y) ** 2, 0))

        return lax.psum(jax.grad(error)(w), "data")

    in_specs = P("model"), P("data", None, "model"), P("data"), P("data")
    return jax.shard_map(body, in_specs=in_specs, out_specs=P("model"))(w_out, h, y, lengths)


# %% the second layer of the next expert exercise="12.9" score=0.1 diagnoses=["values", "not-counted-yet"] near=["experts-in-turn", "one-way-along-0"]
def slots_(scores):
    t, e = scores.shape
    chosen = jax.nn.one_hot(scores.argmax(1), e, dtype=jnp.int32)
    place = jnp.sum((jnp.cumsum(chosen, 0) - 1) * chosen, 1)
    return scores.argmax(1), place, t // e


def dropped(scores):
    def body(scores):
        _, place, capacity = slots_(scores)
        return lax.psum(jnp.sum(place >= capacity, dtype=jnp.int32), "expert")

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P())(scores)


def moe(x, scores, up, down):
    def body(x, scores, up, down):
        expert, place, capacity = slots_(scores)
        n, e = lax.axis_size("expert"), scores.shape[1]
        buffer = jnp.zeros((e, capacity, x.shape[1])).at[expert, place].set(x, mode="drop")
        arrived = lax.all_to_all(buffer, "expert", 0, 0, tiled=True)
        arrived = arrived.reshape(n, e // n, capacity, -1)
        hidden = jax.nn.relu(jnp.einsum("necf,efh->nech", arrived, up))
        outputs = jnp.einsum("nech,ehf->necf", hidden, down[::-1]).reshape(e, capacity, -1)
        back = lax.all_to_all(outputs, "expert", 0, 0, tiled=True)
        probability = jnp.take_along_axis(jax.nn.softmax(scores), expert[:, None], 1)
        mine = back.at[expert, place].get(mode="fill", fill_value=0)
        return mine * probability

    return jax.shard_map(body, in_specs=P("expert"), out_specs=P("expert"))(x, scores, up, down)


# %% weights and update rounded exercise="12.10" score=0.25 diagnoses=["rounded-weights", "not-counted-yet"] near=["fewer-digits", "added-up-in-bfloat16", "coarser-type"]
def stalls_at(increment):
    step = jnp.bfloat16(increment)
    total = jnp.bfloat16(0)
    while total + step != total:
        total = total + step
    return float(total)


def mixed_step(master, X, Y):
    def body(master, X, Y):
        n = lax.axis_size("data")
        w = lax.all_gather(master.astype(jnp.bfloat16), "data", tiled=True)

        def error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(total, xy):
            return total + jax.grad(error)(w, *xy).astype(jnp.float32), None

        zeros = lax.pcast(jnp.zeros(w.shape, jnp.float32), "data", to="varying")
        total, _ = lax.scan(add, zeros, (X, Y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        mean = total.astype(jnp.float32) / (X.shape[0] * X.shape[1] * n)
        return (master.astype(jnp.bfloat16) - (0.001 * mean).astype(jnp.bfloat16)).astype(
            jnp.float32
        )

    examples = P(None, "data")
    return jax.shard_map(body, in_specs=(P("data"), examples, examples), out_specs=P("data"))(
        master, X, Y
    )


# %% the new weights rounded exercise="12.10" score=0.25 diagnoses=["rounded-weights", "not-counted-yet"] near=["fewer-digits", "coarser-type"]
def stalls_at(increment):
    step = jnp.bfloat16(increment)
    total = jnp.bfloat16(0)
    while total + step != total:
        total = total + step
    return float(total)


def mixed_step(master, X, Y):
    def body(master, X, Y):
        n = lax.axis_size("data")
        w = lax.all_gather(master.astype(jnp.bfloat16), "data", tiled=True)

        def error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(total, xy):
            return total + jax.grad(error)(w, *xy).astype(jnp.float32), None

        zeros = lax.pcast(jnp.zeros(w.shape, jnp.float32), "data", to="varying")
        total, _ = lax.scan(add, zeros, (X, Y))
        total = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        mean = total.astype(jnp.float32) / (X.shape[0] * X.shape[1] * n)
        return (master - 0.001 * mean).astype(jnp.bfloat16).astype(jnp.float32)

    examples = P(None, "data")
    return jax.shard_map(body, in_specs=(P("data"), examples, examples), out_specs=P("data"))(
        master, X, Y
    )


# %% ready with the first layer, below zero exercise="12.6" score=0 diagnoses=["from-first-layer", "one-bucket"] near=["one-layer-early", "one-bucket-early"]
def exposed(backward, sizes, buckets, latency, bandwidth):
    ready = np.cumsum(backward)
    first, free = 0, 0.0
    for count in buckets:
        last = first + count
        free = max(free, ready[first]) + latency + sum(sizes[first:last]) / bandwidth
        first = last
    return free - ready[-1]


def bucketed(backward, sizes, latency, bandwidth):
    n = len(sizes)
    choices = []
    for cuts in range(2 ** (n - 1)):
        buckets = [1]
        for i in range(n - 1):
            if cuts >> i & 1:
                buckets.append(1)
            else:
                buckets[-1] += 1
        choices.append(buckets)
    return min(choices, key=lambda b: exposed(backward, sizes, b, latency, bandwidth))


# %% zeros for the weights exercise="12.10" score=0.25 diagnoses=["nothing-but-zeros", "replicated", "no-shard-map"] near=["rounded-weights"]
def stalls_at(increment):
    step, total = jnp.bfloat16(increment), jnp.bfloat16(0)
    while total + step != total:
        total = total + step
    return float(total)


def mixed_step(master, X, Y):
    return jnp.zeros_like(master)


# %% bubble of the forward passes' time exercise="12.3" score=0.75 diagnoses=["other-units"] near=["waits-twice-in-all", "both-ends"]
def gpipe(stages, microbatches):
    jobs = [f"F{i}" for i in range(microbatches)] + [f"B{i}" for i in range(microbatches)]
    return [list(jobs) for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for s in range(stages):
        warm = min(stages - s, microbatches)
        jobs = [f"F{i}" for i in range(warm)]
        for i in range(microbatches):
            jobs.append(f"B{i}")
            if warm + i < microbatches:
                jobs.append(f"F{warm + i}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return 3 * (stages - 1) / (3 * microbatches + 2 * (stages - 1))


# %% the waiting twice in the whole time exercise="12.3" score=0.75 diagnoses=["waits-twice-in-all"] near=["both-ends", "other-units"]
def gpipe(stages, microbatches):
    jobs = [f"F{i}" for i in range(microbatches)] + [f"B{i}" for i in range(microbatches)]
    return [list(jobs) for _ in range(stages)]


def one_f_one_b(stages, microbatches):
    schedule = []
    for s in range(stages):
        warm = min(stages - s, microbatches)
        jobs = [f"F{i}" for i in range(warm)]
        for i in range(microbatches):
            jobs.append(f"B{i}")
            if warm + i < microbatches:
                jobs.append(f"F{warm + i}")
        schedule.append(jobs)
    return schedule


def bubble(stages, microbatches):
    return (stages - 1) / (microbatches + 2 * (stages - 1))


# %% compared without the latency exercise="12.6" score=0.3333 diagnoses=["latency-ignored"] near=["exposed", "as-soon-as-free"]
import itertools


def exposed(backward, sizes, buckets, latency, bandwidth):
    end, first = 0, 0
    for count in buckets:
        last = first + count
        ready = sum(backward[:last])
        end = max(end, ready) + latency + sum(sizes[first:last]) / bandwidth
        first = last
    return end - sum(backward)


def bucketed(backward, sizes, latency, bandwidth):
    n = len(backward)
    choices = []
    for cuts in itertools.product((False, True), repeat=n - 1):
        buckets = [1]
        for cut in cuts:
            if cut:
                buckets.append(1)
            else:
                buckets[-1] += 1
        choices.append(buckets)
    return min(choices, key=lambda b: exposed(backward, sizes, b, 0, bandwidth))


# %% until it grows by less exercise="12.10" score=0.75 diagnoses=["grows-by-less"] near=["the-sum-before", "rounded-down"]
def stalls_at(increment):
    step, total = jnp.bfloat16(increment), jnp.bfloat16(0)
    while (total + step) - total >= step:
        total = total + step
    return float(total)


def mixed_step(master, X, Y):
    def body(master, X, Y):
        w = lax.all_gather(master.astype(jnp.bfloat16), "data", tiled=True)

        def loss(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(total, xy):
            return total + jax.grad(loss)(w, *xy).astype(jnp.float32), None

        total, _ = lax.scan(add, jnp.zeros_like(w, jnp.float32), (X, Y))
        own = lax.psum_scatter(total.astype(jnp.bfloat16), "data", tiled=True)
        examples = X.shape[0] * X.shape[1] * lax.axis_size("data")
        return master - 0.001 * own.astype(jnp.float32) / examples

    specs = P("data"), P(None, "data"), P(None, "data")
    return jax.shard_map(body, in_specs=specs, out_specs=P("data"))(master, X, Y)


# %% the bandwidth over the latency exercise="12.1" score=0 diagnoses=["unanswered", "over-the-latency"] near=["over-the-bandwidth", "in-seconds"]
def ring_from(n, latency, bandwidth):
    more_steps = 2 * (n - 1) - np.log2(n)
    fewer_buffers = np.log2(n) - 2 * (n - 1) / n
    return more_steps * bandwidth / latency / fewer_buffers


# %% sums of rows that are scattered already exercise="12.4" score=0 diagnoses=["unanswered", "shapes-do-not-fit"] near=["added-up-again"]
def zero_3(W, m, v, X, Y):
    def one_step(w, m, v, x, y):
        @jax.checkpoint
        def gathered_error(w, x, y):
            return error(lax.all_gather(w, "data", tiled=True), x, y)

        def accumulate(total, microbatch):
            gradient = jax.grad(gathered_error)(w, *microbatch)
            return total + lax.psum_scatter(gradient, "data", tiled=True), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(w), (x, y))
        return adam(w, m, v, total / (x.shape[0] * x.shape[1] * lax.axis_size("data")))

    rows, shares = P("data"), P(None, "data")
    in_specs = (rows, rows, rows, shares, shares)
    return jax.shard_map(one_step, in_specs=in_specs, out_specs=rows)(W, m, v, X, Y)


# %% all of the new W, gathered in the body exercise="12.4" score=0 diagnoses=["unanswered", "not-replicated"] near=["split-dimension", "varies-already"]
def zero_1(W, m, v, X, Y):
    def one_step(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def accumulate(total, microbatch):
            return total + jax.grad(error)(w, *microbatch), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(w), (x, y))
        total = lax.psum_scatter(total, "data", tiled=True)
        first = lax.axis_index("data") * len(m)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        own = lax.dynamic_slice_in_dim(w, first, len(m))
        own, m, v = adam(own, m, v, total / examples)
        return lax.all_gather(own, "data", tiled=True), m, v

    rows, shares = P("data"), P(None, "data")
    in_specs = (P(), rows, rows, shares, shares)
    return jax.shard_map(one_step, in_specs=in_specs, out_specs=(P(), rows, rows))(W, m, v, X, Y)


# %% W, sharded by in_specs, made varying once more exercise="12.4" score=0 diagnoses=["unanswered", "varies-already"] near=["not-replicated", "shapes-do-not-fit"]
def zero_1(W, m, v, X, Y):
    def one_step(w, m, v, x, y):
        w = lax.pcast(w, "data", to="varying")

        def accumulate(total, microbatch):
            return total + jax.grad(error)(w, *microbatch), None

        total, _ = lax.scan(accumulate, jnp.zeros_like(w), (x, y))
        total = lax.psum_scatter(total, "data", tiled=True)
        first = lax.axis_index("data") * len(m)
        examples = x.shape[0] * x.shape[1] * lax.axis_size("data")
        return adam(lax.dynamic_slice_in_dim(w, first, len(m)), m, v, total / examples)

    rows, shares = P("data"), P(None, "data")
    in_specs = (rows, rows, rows, shares, shares)
    W, m, v = jax.shard_map(one_step, in_specs=in_specs, out_specs=rows)(W, m, v, X, Y)
    return lax.with_sharding_constraint(W, P()), m, v


# %% a sum that begins at 1 exercise="12.10" score=0.75 diagnoses=["other-result"]
def stalls_at(increment):
    step, total = jnp.bfloat16(increment), jnp.bfloat16(1)
    while total + step != total:
        total = total + step
    return total


def mixed_step(master, X, Y):
    count = X.shape[0] * X.shape[1]

    def body(master, X, Y):
        w = lax.all_gather(master.astype(jnp.bfloat16), "data", tiled=True)

        def error(w, x, y):
            return jnp.sum((x @ w - y) ** 2)

        def add(total, batch):
            return total + jax.grad(error)(w, *batch).astype(jnp.float32), None

        total, _ = lax.scan(add, jnp.zeros_like(w, dtype=jnp.float32), (X, Y))
        total = total.astype(jnp.bfloat16)
        rows = lax.psum_scatter(total, "data", scatter_dimension=0, tiled=True)
        return master - 0.001 * rows.astype(jnp.float32) / count

    batch = P(None, "data")
    specs = (P("data"), batch, batch)
    return jax.shard_map(body, in_specs=specs, out_specs=P("data"))(master, X, Y)
