"""Emulated devices, each in a new process, because a backend starts only once per process."""

import os
import subprocess
import sys

import pytest

from shardlings.devices import EmulationError, emulate_devices, environment, pool_size
from shardlings.errors import TESTED_JAX_VERSIONS
from tests.shardlings.new_process import run

# The loop in benchmarks/dead_kernel.py: without the larger pool, 20 of 20 abort on two cores.
LOOP = """
import jax.numpy as jnp
mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
x = jax.device_put(jnp.ones((8, 4096)), jax.NamedSharding(mesh, jax.P("x")))
step = jax.jit(lambda x: x - 1e-3 * jnp.tanh(x).mean())
for _ in range(2000):
    x = step(x)
print("lived", float(x.sum()) > 0)
"""


CALL = "from shardlings import emulate_devices; devices = emulate_devices(8); "


@pytest.mark.parametrize("first", ["", "import jax; ", "import jax; import jax.numpy as jnp; "])
def test_it_works_whether_or_not_jax_was_imported(first):
    assert run(f"{first}{CALL}import jax; print(len(jax.devices()), len(devices))") == "8 8\n"


def test_calling_it_twice_is_harmless():
    assert run(f"{CALL}{CALL}emulate_devices(4); print(len(devices))") == "8\n"


def test_the_loop_that_deadlocks_without_the_larger_pool_finishes():
    assert run(f"import jax; {CALL}{LOOP}") == "lived True\n"


def test_a_child_process_inherits_devices_and_pool():
    child = "import jax; from shardlings import devices; jax.devices(); "
    child += "print(len(jax.devices()), devices._threads_in_pool() >= 16)"
    code = f"{CALL}import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert run(code) == "8 True\n"


@pytest.mark.parametrize(
    ("first", "variables", "message"),
    [
        ("import jax; jax.devices(); ", {}, "JAX had already started with 1 device when"),
        (
            "import jax; jax.devices(); ",
            {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"},
            "its 8 devices share a pool of",
        ),
        (
            "import jax; jax.config.update('jax_num_cpu_devices', 8); jax.devices(); ",
            {},
            "its 8 devices share a pool of",
        ),
    ],
)
@pytest.mark.skipif((os.cpu_count() or 1) >= 16, reason="the default pool is large enough here")
def test_a_backend_that_has_already_started_is_explained(first, variables, message):
    printed = run(f"{first}{CALL}", **variables)
    assert "EmulationError" in printed
    assert message in printed
    assert (
        "restart the kernel and run this cell before any other that uses JAX; in a script"
        in printed
    )


def test_a_pool_whose_size_is_no_number_is_explained():
    uncounted = "from shardlings import devices; devices._threads_in_pool = lambda: 0; "
    flags = "--xla_force_host_platform_device_count=8"
    first = f"import jax; jax.devices(); {uncounted}"
    printed = run(f"{first}{CALL}", XLA_FLAGS=flags, PJRT_NPROC="many")
    assert "its 8 devices share a pool of too few threads" in printed


def test_other_flags_are_kept():
    code = f"{CALL}import os; print(os.environ['XLA_FLAGS'], os.environ['PJRT_NPROC'])"
    printed = run(code, XLA_FLAGS="--xla_cpu_enable_fast_math=false", PJRT_NPROC="64")
    assert printed.startswith(
        "--xla_cpu_enable_fast_math=false --xla_force_host_platform_device_count=8 "
        "--xla_backend_optimization_level=0 "
    )
    assert printed.endswith(" 64\n")


@pytest.mark.parametrize("version", ["0.8.1", "0.99.0"])
def test_an_untested_jax_gets_no_flags_that_may_be_unknown(version):
    code = f"import jax; jax.__version__ = {version!r}; from shardlings.devices import environment"
    printed = run(f"{code}; print(environment()['XLA_FLAGS'])")
    assert printed == "--xla_force_host_platform_device_count=8\n"


@pytest.mark.parametrize(("version", "message"), [("0.8.1", "older"), ("0.99.0", "newer")])
def test_an_untested_jax_is_reported_once_and_on_stdout(version, message):
    code = f"import jax; jax.__version__ = {version!r}; {CALL}emulate_devices(8); print('done')"
    assert run(code) == (
        f"This is JAX {version}, which is {message} than any that Shardlings was tested with "
        f"({TESTED_JAX_VERSIONS[0]} to {TESTED_JAX_VERSIONS[-1]}), so results may be wrong.\n"
        f"done\n"
    )


@pytest.mark.parametrize("number", [0, -1, "8", None])
def test_the_number_of_devices_must_be_a_positive_integer(number):
    with pytest.raises(EmulationError, match="expects a number of devices, such as 8"):
        emulate_devices(number)


def test_the_pool_has_threads_for_three_dispatching_threads():
    assert pool_size(8) >= 32
    assert environment(8)["PJRT_NPROC"] == str(pool_size(8))


def test_programs_can_be_reported_on_for_more_devices_than_can_run():
    code = (
        "from shardlings import communication, emulate_devices; emulate_devices(512)\n"
        "import jax, jax.numpy as jnp\n"
        "mesh = jax.make_mesh((512,), ('x',))\n"
        "rows = jax.NamedSharding(mesh, jax.P('x'))\n"
        "x = jax.ShapeDtypeStruct((512, 64), jnp.float32, sharding=rows)\n"
        "print(communication(lambda x: x.sum(), x))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "512 emulated devices share a pool of 256 threads" in done.stdout
    assert "all-reduce one number" in done.stdout
    assert "(A group of 512 devices is too large to be drawn.)" in done.stdout
    assert len(done.stdout.splitlines()) < 12
