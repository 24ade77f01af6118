# %% [markdown]
# Known answers to the exercises of notebook 12.

# %% by hand, and the crossing of two straight lines exercise="12.1" score=1 near=["one-copy", "waits-each-time", "to-itself", "pieces-alone", "up-and-down", "grows", "every-other", "one-latency", "halves", "once-round", "whole-buffer", "n-steps", "against-the-exchange", "others-against-each-other", "product-alone", "size-of-a-piece", "in-seconds"]
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
