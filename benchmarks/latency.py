"""How long a learner waits: `check` on a layout, and what `import autograder` adds to `import jax`.

Ratios within one run mean something on a noisy machine; milliseconds only roughly.

    python benchmarks/latency.py                  the imports, and `check` on a layout
    python benchmarks/latency.py --exercises      `check` of each notebook's solutions
"""

import argparse
import contextlib
import io
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from shardlings.devices import emulate_devices

IMPORTS = """
import time
start = time.perf_counter()
import jax
middle = time.perf_counter()
import autograder
print(middle - start, time.perf_counter() - middle)
"""


COMPILING = (
    "/jax/core/compile/backend_compile_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
)
"""JAX's events for lowering what was traced, and for compiling it."""


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

    def timed(call: Callable[[], object]) -> float:
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            call()
        return time.perf_counter() - start

    placed = jax.device_put(x, by_columns)
    first = timed(lambda: check("1.1", placed))
    later = statistics.median(timed(lambda: check("1.1", placed)) for _ in range(50))
    put = statistics.median(timed(lambda: jax.device_put(x, by_columns)) for _ in range(50))
    return first, later, put


def waits_of_solutions(notebook: str) -> dict[str, tuple[float, float]]:
    """Seconds of `check` for each solution of a notebook, and for how many of them JAX compiled.

    Each program is compiled for the first time. Compiling includes lowering, and not tracing.

    Args:
        notebook: the beginning of its name, such as `08`.
    """
    from unittest.mock import patch

    import jax

    from autograder.evidence import capture
    from autograder.exercises import NOTEBOOKS
    from autograder.instructor.authoring import trying
    from autograder.instructor.authoring.exercise_stubs import find_cell
    from autograder.judge import judge
    from tests.exercises.solutions import session_at, solution_of

    emulate_devices(8)
    (name,) = (each for each in NOTEBOOKS if each.startswith(notebook))
    session, answers = session_at(name), ""
    waits: dict[str, tuple[float, float]] = {}
    spent = {"checking": 0.0, "compiling": 0.0}
    is_checking = False

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            nonlocal is_checking
            start, is_checking = time.perf_counter(), True
            try:
                return function(*args)
            finally:
                is_checking = False
                spent["checking"] += time.perf_counter() - start

        return call

    def note(event: str, duration_secs: float, **_: str | int) -> None:
        if is_checking and event in COMPILING:
            spent["compiling"] += duration_secs

    jax.monitoring.register_event_duration_secs_listener(note)
    # the cells of an answer run before its check, so the learner has waited for them already
    with patch.multiple(trying, capture=timed(capture), judge=timed(judge)):
        for exercise in NOTEBOOKS[name]:
            # an exercise may use what one before it made
            given = find_cell(session.notebook, exercise.id).source
            answers += f"{given}\n{solution_of(exercise.id)}\n"
            spent |= dict.fromkeys(spent, 0.0)
            assert session.answer(exercise.id, answers, seed=1).verdict.score == 1
            waits[exercise.id] = spent["checking"], spent["compiling"]
    return waits


def print_waits() -> None:
    """Print how long a learner waits for the verdicts on solutions, as docs/reference.md has it."""
    from autograder.exercises import NOTEBOOKS

    every: dict[str, tuple[float, float]] = {}
    print("| Notebook | exercises | median | the three longest | compiling, of all |")
    print("|---|---|---|---|---|")
    for name in NOTEBOOKS:  # each in a process of its own, where nothing is compiled yet
        done = subprocess.run(
            [sys.executable, __file__, "--notebook", name],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        waits = json.loads(done.stdout.splitlines()[-1])
        every |= waits
        longest = sorted(waits.items(), key=lambda item: -item[1][0])[:3]
        seconds, compiling = zip(*waits.values(), strict=True)
        three = ", ".join(f"{exercise}: {wait:.1f} s" for exercise, (wait, _) in longest)
        share = sum(compiling) / sum(seconds)
        print(
            f"| `{name}` | {len(waits)} | {statistics.median(seconds):.2f} s | {three} | "
            f"{share:.0%} |",
            flush=True,
        )
    sorted_waits = sorted(wait for wait, _ in every.values())
    short = [sum(wait <= limit for wait in sorted_waits) for limit in (0.05, 0.5, 1, 2)]
    median = statistics.median(sorted_waits)
    print(f"{len(every)} exercises, the median {median:.2f} s; in at most")
    print("0.05, 0.5, 1 and 2 seconds: {}, {}, {} and {}".format(*short))


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--exercises", action="store_true", help="time each solution's check")
    parser.add_argument("--notebook", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.notebook:
        print(json.dumps(waits_of_solutions(chosen.notebook)))
        return
    if chosen.exercises:
        print_waits()
        return
    of_jax, added = median_of_imports()
    print(f"import jax        {1e3 * of_jax:7.1f} ms")
    print(f"import autograder {1e3 * added:7.1f} ms more ({added / of_jax:.1%} of it)")
    first, later, put = seconds_of_checks()
    print(f"check, the first  {1e3 * first:7.1f} ms")
    print(f"check, a later one{1e3 * later:7.1f} ms ({later / put:.1f} times a device_put)")


if __name__ == "__main__":
    main()
