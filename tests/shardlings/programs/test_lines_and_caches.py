"""A line is that of the program as it is now, and nothing stands below another line's heading."""

import dataclasses
import os
import subprocess
import sys

import jax
import numpy as np

from shardlings import communication
from shardlings.programs.report import source_of
from tests.helpers import sharding

PROGRAM = """
import sys

from shardlings import communication, emulate_devices

emulate_devices(8)
import jax
import jax.numpy as jnp

jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
mesh = jax.make_mesh((8,), ("data",))
{before}
def loss(x):
    return (x ** 2).sum()

rows = jax.NamedSharding(mesh, jax.P("data"))
print(communication(loss, jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=rows)))
"""


def test_a_persistent_compilation_cache_gives_no_lines_of_another_edit(tmp_path):
    """Neither the same file before an edit nor another file is named, and the cache is used."""
    cache = tmp_path / "cache"
    for name, before in (("a", ""), ("a", "# a comment\n\nSCALE = 1.0\n"), ("b", "\n")):
        program = tmp_path / f"{name}.py"
        program.write_text(PROGRAM.format(before=before))
        lines = program.read_text().splitlines()
        number = lines.index("    return (x ** 2).sum()") + 1
        done = subprocess.run(
            [sys.executable, str(program), str(cache)], capture_output=True, text=True, check=True,
            env=os.environ,
        )  # fmt: skip
        assert f"{name}.py:{number} return (x ** 2).sum()" in done.stdout
    assert any(cache.iterdir())


def test_the_settings_of_the_cache_are_as_before():
    name = "jax_compilation_cache_include_metadata_in_key"
    before = getattr(jax.config, name)
    x = jax.device_put(np.ones((64, 64), np.float32), sharding("x", x=8))
    communication(lambda x: x.sum(), x)
    assert getattr(jax.config, name) == before


def test_a_collective_without_a_line_has_a_heading_of_its_own():
    x = jax.device_put(np.ones((64, 64), np.float32), sharding("x", x=8))
    report = communication(lambda x: x + x.T, x)
    unknown = dataclasses.replace(report.collectives[0], stack=(), names=("",))
    said = str(dataclasses.replace(report, collectives=(*report.collectives, unknown)))
    above, _, below = said.partition("from a line that the compiler does not name")
    assert report.collectives[0].kind in above
    assert report.collectives[0].kind in below.partition("all together")[0]
    assert "does not name" not in str(report)


def mean_of_squares(x):
    return (x * x).mean()


def step_afresh(x):
    return x - jax.grad(mean_of_squares)(x) * mean_of_squares(x)


stepped = jax.jit(step_afresh)


def test_a_function_that_ran_before_has_the_same_lines():
    """JAX keeps the lines of the first call, those of its callers too."""

    def train(x):
        return stepped(x)

    x = jax.device_put(np.ones((64, 64), np.float32), sharding("x", x=8))
    train(x)
    after = communication(stepped, x)
    compiled = communication(stepped.lower(x).compile())
    fresh = communication(step_afresh, x)
    for report in (after, compiled, fresh):
        lines = {source_of(row.lines[0]) for row in report.rows()}
        assert lines == {"return (x * x).mean()"}, lines
