"""Programs that XLA dumps where a job runs are reported on as if they were compiled here."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from shardlings import communication, read_dump
from shardlings.__main__ import main
from shardlings.devices import environment
from shardlings.errors import UsageError
from shardlings.programs import DumpError, compare
from shardlings.programs.report import place_of
from tests.helpers import mesh, sharding

JOB = """
import jax
import jax.numpy as jnp
from jax import P
from shardlings import emulate_devices

emulate_devices(8)
mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def step(w, x):
    return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)


def given(shape, *spec):
    return jax.ShapeDtypeStruct(shape, DTYPE, sharding=jax.NamedSharding(mesh, P(*spec)))


jax.jit(step).lower(given((64, 32), "data", "model"), given((128, 64), "data")).compile()
"""

AFTER = "cpu_after_optimizations"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Return a function that runs a job which dumps its program, and returns the folder."""
    known: dict[str, Path] = {}

    def run(dtype="float32"):
        if dtype not in known:
            folder = tmp_path_factory.mktemp(dtype)
            (folder / "train.py").write_text(JOB.replace("DTYPE", repr(dtype)))
            flags = f"--xla_dump_to={folder}/dump --xla_dump_hlo_as_proto --xla_dump_hlo_as_text"
            variables = {**os.environ, **environment()}
            variables["XLA_FLAGS"] = f"{variables.get('XLA_FLAGS', '')} {flags}"
            subprocess.run([sys.executable, folder / "train.py"], check=True, env=variables)
            known[dtype] = folder / "dump"
        return known[dtype]

    return run


def step(w, x):
    return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(w)


def reported_here(dtype):
    def given(shape, *spec):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding(*spec, data=4, model=2))

    return communication(step, given((64, 32), "data", "model"), given((128, 64), "data"))


def facts(report):
    """Return what a report says, but for the names of files and the numbers of lines."""
    return [
        (row.kind, row.arrays, row.dtypes, row.over, row.bytes, row.sent) for row in report.rows()
    ]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("form", ["hlo.pb", "txt"])
def test_a_dumped_program_is_reported_on_as_one_of_this_process(job, dtype, form):
    (dumped,) = job(dtype).glob(f"module_*.jit_step.{AFTER}.{form}")
    found, here = read_dump(dumped), reported_here(dtype)
    assert facts(found) == facts(here)
    assert {row.over for row in found.rows()} == {"data"}, "the mesh is that of the other dump"
    assert (found.flops, found.sent) == (here.flops, here.sent)
    assert place_of(found.rows()[0].lines[0]).startswith("train.py:")
    if form == "hlo.pb":
        assert found.peak_bytes == pytest.approx(here.peak_bytes, rel=0.1)
    else:
        assert "an unknown amount of memory" in found.summary()
    assert str(found).startswith(f"Read from {dumped.name}.")


def test_a_folder_of_one_program_is_enough(job, tmp_path):
    whole, only = job(), tmp_path / "dump"
    only.mkdir()
    for file in whole.glob("module_*.jit_step.*optimizations*"):
        shutil.copy(file, only)
    assert facts(read_dump(only)) == facts(reported_here("float32"))


def test_of_several_programs_the_largest_are_listed(job, tmp_path):
    (program,) = job().glob(f"module_*.jit_step.{AFTER}.hlo.pb")
    for number in range(12):
        other = tmp_path / f"module_{number:04}.jit_step.{AFTER}.hlo.pb"
        other.write_bytes(program.read_bytes() + b"\0" * number)
    with pytest.raises(DumpError) as raised:
        read_dump(tmp_path)
    said = str(raised.value)
    assert "has 12 programs. Name one of them, such as the largest: module_0011.jit_step" in said
    assert said.endswith(", and 2 more.")


def test_what_was_dumped_before_it_was_optimised_says_so(job):
    (before,) = job().glob("*before_optimizations.hlo.pb")
    report = read_dump(before)
    assert report.collectives == ()
    assert "those that it requests itself" in str(report)
    assert "on all devices together" in report.summary()
    assert "those that it requests itself" in str(report.by_part())
    with pytest.raises(UsageError, match="before it was optimised"):
        report.at_most({})


def test_axes_are_those_that_are_given(job, tmp_path):
    (program,) = job().glob(f"module_*.jit_step.{AFTER}.hlo.pb")
    alone = Path(shutil.copy(program, tmp_path))
    assert {row.over for row in read_dump(alone).rows()} != {"data"}
    assert {row.over for row in read_dump(alone, mesh={"a": 4, "b": 2}).rows()} == {"a"}
    assert {row.over for row in read_dump(alone, mesh=mesh(x=4, y=2)).rows()} == {"x"}
    with pytest.raises(DumpError, match="has 4 devices, and the program was compiled for 8"):
        read_dump(alone, mesh={"a": 4})
    wrong: list[object] = [{}, {"a": 0}, {1: 8}, "a=8"]
    for each in wrong:
        with pytest.raises(DumpError, match="A mesh is a"):
            read_dump(alone, mesh=each)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        (b"", "is not a program that can be read"),
        (b"nothing that XLA wrote", "is not a program that can be read"),
        (b"HloModule broken, num_partitions=8\n\nENTRY e {", "XLA cannot read the text in"),
    ],
)
def test_other_files_are_refused(tmp_path, contents, says):
    file = tmp_path / "module_0000.jit_step.after_optimizations.txt"
    file.write_bytes(contents)
    with pytest.raises(DumpError, match=says):
        read_dump(file)


def test_where_there_is_nothing_the_error_says_how_to_dump(tmp_path):
    with pytest.raises(DumpError, match="--xla_dump_hlo_as_proto"):
        read_dump(tmp_path)
    with pytest.raises(DumpError, match="There is no file or folder"):
        read_dump(tmp_path / "other")
    with pytest.raises(DumpError, match="There is no machine 'H1000'"):
        read_dump(tmp_path, machine="H1000")
    with pytest.raises(DumpError, match="A machine is a name"):
        read_dump(tmp_path, machine=[])  # type: ignore[arg-type]


GEMM = (
    '{"gemm_backend_config":{"alpha_real":1,"dot_dimension_numbers":'
    '{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}'
)

ALL, PAIRS = "replica_groups={{0,1,2,3}}", "replica_groups={{0,1},{2,3}}"

ON_GPUS = f"""HloModule jit_step, is_scheduled=true, num_partitions=4

sum {{ a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = bf16[] add(a, b) }}

swap {{ p = bf16[64,32] parameter(0)
  ROOT exchange = bf16[64,32] all-to-all(p), channel_id=3, {ALL}, dimensions={{0}} }}

gemm_fusion {{ x = bf16[64,32] parameter(0)
  w = bf16[32,16] parameter(1)
  ROOT d = bf16[64,16] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}

ENTRY main {{
  x = bf16[64,32] parameter(0)
  w = bf16[32,32] parameter(1)
  v = bf16[32,16] parameter(2)
  gemm = (bf16[64,32], s8[1024]) custom-call(x, w), custom_call_target="__cublas$gemm",
    backend_config={GEMM}
  h = bf16[64,32] get-tuple-element(gemm), index=0
  part = bf16[8,32] slice(w), slice={{[0:8], [0:32]}}
  start = bf16[64,32] all-reduce-start(h), channel_id=1, {PAIRS}, use_global_device_ids=true,
    to_apply=sum
  gather = (bf16[8,32], bf16[32,32]) all-gather-start(part), channel_id=2, {ALL}, dimensions={{0}},
    use_global_device_ids=true
  waited = bf16[64,32] all-reduce-start(h), channel_id=4, {PAIRS}, use_global_device_ids=true,
    to_apply=sum, backend_config={{"collective_backend_config":{{"is_sync":true}}}}
  done = bf16[64,32] all-reduce-done(start)
  end = bf16[64,32] all-reduce-done(waited)
  gathered = bf16[32,32] all-gather-done(gather)
  asynchronous = ((bf16[64,32]), bf16[64,32]) async-start(done), calls=swap
  swapped = bf16[64,32] async-done(asynchronous)
  out = bf16[64,16] fusion(swapped, v), kind=kCustom, calls=gemm_fusion
  ROOT both = (bf16[64,16], bf16[32,32], bf16[64,32]) tuple(out, gathered, end)
}}
"""
"""A program as XLA makes it for GPUs: asynchronous pairs, cuBLAS, a custom fusion."""


def test_a_gpus_program_has_asynchronous_and_wrapped_collectives_and_library_calls(tmp_path):
    file = tmp_path / "module_0007.jit_step.sm_9.0_gpu_after_optimizations.txt"
    file.write_text(ON_GPUS)
    report = read_dump(file, mesh={"data": 2, "model": 2}, machine="H100 NVLink")
    found = {(c.kind, c.axes, c.bytes, c.is_asynchronous) for c in report.collectives}
    assert len(report.collectives) == 4
    assert found == {
        ("all-to-all", ("data", "model"), 64 * 32 * 2, True),
        ("all-reduce", ("model",), 64 * 32 * 2, True),
        ("all-gather", ("data", "model"), 32 * 32 * 2, True),
        ("all-reduce", ("model",), 64 * 32 * 2, False),
    }
    assert report.flops == 2 * 64 * 32 * 32 + 2 * 64 * 32 * 16
    assert not any(c.widened for c in report.collectives)


def test_axes_have_names_on_gpus_too_and_a_broken_file_beside_takes_only_them(job, tmp_path):
    """XLA puts a GPU's generation into the name of what it has optimised, with a dot in it."""
    (before,) = job().glob("*before_optimizations.hlo.pb")
    (after,) = job().glob(f"module_*.jit_step.{AFTER}.hlo.pb")
    beside = Path(
        shutil.copy(before, tmp_path / "module_0001.jit_step.before_optimizations.hlo.pb")
    )
    name = "module_0001.jit_step.sm_9.0_gpu_after_optimizations.hlo.pb"
    shutil.copy(after, tmp_path / name)
    assert {row.over for row in read_dump(tmp_path).rows()} == {"data"}
    beside.write_bytes(b"broken")
    assert {row.bytes for row in read_dump(tmp_path).rows()} == {4096}


def test_memory_that_is_unknown_is_not_none_at_all(job):
    (text,) = job().glob(f"module_*.jit_step.{AFTER}.txt")
    (whole,) = job().glob(f"module_*.jit_step.{AFTER}.hlo.pb")
    unknown, known = read_dump(text), read_dump(whole)
    assert compare(unknown, known).find_growth() == []
    assert compare(known, unknown).find_growth() == [
        "The memory at the peak is not known any more."
    ]
    assert "an unknown amount" in str(compare(known, unknown))


def test_the_command_line_reads_a_dump(job, tmp_path, capsys):
    (program,) = job().glob(f"module_*.jit_step.{AFTER}.hlo.pb")
    assert main(["read", str(program), "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)
    assert stored["bytes"] == reported_here("float32").bytes
    page = tmp_path / "page.html"
    alone = shutil.copy(program, tmp_path)
    assert main(["read", str(alone), "--mesh", "a=4,b=2", "--html", str(page)]) == 0
    assert "<table" in page.read_text()
    assert main(["read", str(tmp_path / "other")]) == 2
    assert "There is no file or folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["read", str(alone), "--mesh", "a"])
    assert "is not written as data=8,model=4" in capsys.readouterr().err
