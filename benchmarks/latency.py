"""How long a learner waits: `check` on a layout, and what `import autograder` adds to `import jax`.

Ratios within one run mean something on a noisy machine; milliseconds only roughly.
"""

import contextlib
import io
import statistics
import subprocess
import sys
import time

from shardlings.devices import emulate_devices

IMPORTS = """
import time
start = time.perf_counter()
import jax
middle = time.perf_counter()
import autograder
print(middle - start, time.perf_counter() - middle)
"""


def median_of_imports(runs: int = 7) -> tuple[float, float]:
    """Seconds that `import jax` takes, and seconds that `import autograder` takes after it."""
    pairs = []
    for _ in range(runs):
        done = subprocess.run(
            [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True
        )
        pairs.append(tuple(map(float, done.stdout.split())))
    first, second = zip(*pairs, strict=True)
    return statistics.median(first), statistics.median(second)


def seconds_of_checks() -> tuple[float, float, float]:
    """Seconds of the first `check`, of a later one, and of a `device_put` to compare with."""
    import os
    import tempfile

    import jax
    import numpy as np

    from autograder import check

    os.environ["SHARDLINGS_STATE"] = tempfile.mkdtemp()
    emulate_devices(8)
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    by_columns = jax.NamedSharding(mesh, jax.P(None, "x"))
    x = np.arange(256, dtype=np.float32).reshape(16, 16)

    def timed(call):
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            call()
        return time.perf_counter() - start

    placed = jax.device_put(x, by_columns)
    first = timed(lambda: check("1.1", placed))
    later = statistics.median(timed(lambda: check("1.1", placed)) for _ in range(50))
    put = statistics.median(timed(lambda: jax.device_put(x, by_columns)) for _ in range(50))
    return first, later, put


def main() -> None:
    """Print what was measured."""
    of_jax, added = median_of_imports()
    print(f"import jax        {1e3 * of_jax:7.1f} ms")
    print(f"import autograder {1e3 * added:7.1f} ms more ({added / of_jax:.1%} of it)")
    first, later, put = seconds_of_checks()
    print(f"check, the first  {1e3 * first:7.1f} ms")
    print(f"check, a later one{1e3 * later:7.1f} ms ({later / put:.1f} times a device_put)")


if __name__ == "__main__":
    main()
