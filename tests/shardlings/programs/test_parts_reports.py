"""Bytes that are sent are added up by part of the model, and by pass."""

import jax
import jax.numpy as jnp
import pytest

from shardlings import communication
from shardlings.__main__ import main
from shardlings.errors import UsageError
from shardlings.programs import PartsReport
from shardlings.programs.collective import Frame
from shardlings.programs.model_parts import OUTSIDE, find_part, find_pass
from shardlings.programs.parts_reports import MAX_PARTS, ModelPart
from tests.helpers import sharding


@pytest.mark.parametrize(
    ("op_name", "path", "when"),
    [
        ("jit(step)/jvp(LM)/block_0/down/dot_general", "LM block_0 down", "forward"),
        ("jit(step)/transpose(jvp(LM))/block_1/up/dot_general", "LM block_1 up", "backward"),
        (
            "jit(f)/transpose(jvp(jvp()))/checkpoint/rematted_computation/LM/block_0/dot_general",
            "LM block_0",
            "recomputed",
        ),
        ("jit(step)/transpose(jvp())/while/body/closed_call/dot_general", "", "backward"),
        ("jit(f)/jvp(encoder)/while/body/attention/reduce_sum", "encoder attention", "forward"),
        (
            "jit(f)/(jvp(a)/reduce_sum:transpose(jvp(b))/b/dot_general)",
            "a",
            "forward",
        ),
        ("jit(f)/transpose(jvp(a))/jvp(a)/checkpoint/b/dot_general", "a b", "backward"),
        ("jit(f)/transpose(jvp(a))/b/jvp(a)/b/checkpoint/dot_general", "a b", "backward"),
        ("jit(f)/jvp(a)/a/dot_general", "a a", "forward"),
        ("jit(f)/jvp(transpose(jvp(m)))/dot_general", "m", "backward"),
        ("jit(call_exported)/call_exported/jvp(mlp)/bd,df->bf/dot_general", "mlp", "forward"),
        ("jit(f)/vmap(decoder)/dot_general", "decoder", "outside"),
        ("jit(f)/optimizer/add", "optimizer", "outside"),
        ("", "", "outside"),
        ("x", "", "outside"),
        ("jit(f)/(((/dot", "", "outside"),
    ],
)
def test_paths_of_names_are_understood(op_name, path, when):
    assert " ".join(find_part(op_name, ())) == path
    assert find_pass(op_name) == when


def test_without_names_the_classes_that_are_called_name_a_part():
    stack = [
        Frame("/usr/site-packages/layers.py", 3, "Linear.__call__"),
        Frame("model.py", 9, "make.<locals>.Block.__call__"),
        Frame("wrap.py", 1, "_Wrapper.__call__"),
        Frame("/usr/site-packages/transforms.py", 1, "JitFn.__call__"),
        Frame("train.py", 1, "step"),
    ]
    assert find_part("jit(step)/dot_general", stack) == ("Block", "Linear")


def model(weights, x):
    for number in range(len(weights) // 2):
        with jax.named_scope(f"block_{number}"):
            with jax.named_scope("up"):
                h = jax.nn.gelu(x @ weights[2 * number])
            with jax.named_scope("down"):
                x = x + h @ weights[2 * number + 1]
    return (x * x).sum()


def step(weights, x):
    return jax.tree.map(jnp.subtract, weights, jax.grad(jax.checkpoint(model))(weights, x))


def given(shape, *spec):
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding(*spec, d=4, m=2))


def blocks(count):
    pair = [given((64, 128), None, "m"), given((128, 64), "m")]
    return pair * count, given((32, 64), "d")


def test_each_part_has_what_it_sends_and_together_it_is_what_the_report_says():
    report = communication(step, *blocks(2))
    parts = report.by_part()
    assert {part.path for part in parts.parts} >= {("block_0", "up"), ("block_1", "down")}
    assert sum(part.all_sent for part in parts.parts) == pytest.approx(report.sent)
    sizes = [part.all_sent for part in parts.parts]
    assert sizes == sorted(sizes, reverse=True)
    passes = {name for part in parts.parts for name in part.sent}
    assert {"backward", "recomputed"} <= passes
    up = next(part for part in parts.parts if part.path == ("block_0", "up"))
    assert up.sent["backward"] >= 64 * 64 * 4 * 2 * 3 / 4, "its gradient, summed over d"
    merged = report.by_part(depth=1)
    assert {part.path for part in merged.parts} <= {("block_0",), ("block_1",), ()}
    text = str(parts)
    assert text.splitlines()[0].split()[:4] == ["part", "of", "the", "model"]
    assert "block_0 / up" in text


def test_the_largest_parts_are_listed_and_the_others_folded():
    report = communication(step, *blocks(10))
    parts = report.by_part()
    more = len(parts.parts) - MAX_PARTS
    assert more > 0
    lines = str(parts).splitlines()
    assert len(lines) == 1 + MAX_PARTS + 2
    assert lines[-2].startswith(f"{more} others")
    assert f"{more} others" in parts._repr_html_()
    assert parts.parts[-1].name in parts._repr_html_()


def test_one_other_part_is_called_one_other():
    few = [ModelPart((f"block_{number}",), {OUTSIDE: 1.0}, 0.0) for number in range(MAX_PARTS + 1)]
    parts = PartsReport(tuple(few), "v5e")
    assert "1 other " in str(parts)
    assert "1 others" not in str(parts) + parts._repr_html_()


def test_a_program_without_parts_says_how_they_get_names():
    report = communication(lambda x: x.sum(), given((32, 64), "d"))
    assert "jax.named_scope gives one" in str(report.by_part())
    assert "outside of any part" in str(report.by_part())
    silent = communication(lambda x: x + 1, given((32, 64), "d"))
    assert str(silent.by_part()) == "No communication."
    assert PartsReport.of((), "TPU v5e").parts == ()


def test_linens_modules_are_parts():
    nn = pytest.importorskip("flax.linen")

    class Block(nn.Module):  # type: ignore[name-defined]
        @nn.compact
        def __call__(self, x):
            return x + nn.Dense(64, name="down")(nn.gelu(nn.Dense(128, name="up")(x)))

    x = given((32, 64), "d")
    params = jax.eval_shape(Block().init, jax.random.key(0), x)
    params = jax.tree.map(lambda leaf: given(leaf.shape), params)
    report = communication(jax.grad(lambda p, x: (Block().apply(p, x) ** 2).sum()), params, x)
    assert {part.path for part in report.by_part().parts} == {("Block", "down"), ("Block", "up")}


def test_the_command_line_adds_up_by_part(tmp_path, capsys):
    (tmp_path / "train.py").write_text(
        "import jax, jax.numpy as jnp\nfrom jax import P\n"
        "mesh = jax.make_mesh((8,), ('d',), axis_types=(jax.sharding.AxisType.Auto,))\n"
        "def step(x):\n    with jax.named_scope('head'):\n        return x.sum()\n"
        "def step_arguments():\n    return (jax.ShapeDtypeStruct((64,), jnp.float32,\n"
        "        sharding=jax.NamedSharding(mesh, P('d'))),)\n"
    )
    assert main(["report", f"{tmp_path}/train.py:step", "--by-part"]) == 0
    assert "head" in capsys.readouterr().out


@pytest.mark.parametrize("depth", [0, -1, "2", 1.0])
def test_a_depth_is_a_number_of_names(depth):
    x = jax.device_put(jnp.ones((64, 64)), sharding("x", x=8))
    with pytest.raises(UsageError, match="1 or more, or None for all, but got"):
        communication(lambda x: x.sum(), x).by_part(depth)
