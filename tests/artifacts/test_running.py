"""Exported programs are loaded, checked and run, in tests and in the judge's own process."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder import artifacts, evidence, exercises
from autograder.artifacts import Argument
from autograder.artifacts.arguments import rebuild_mesh
from autograder.artifacts.program_checks import read_custom_calls
from autograder.exercises import Computes, Exercise, PlacedLike, RunsWithinBudgets
from autograder.instructor.sandbox import Case, Sandbox, judge_in_sandbox
from autograder.judge import judge
from autograder.judge.running_programs import run_all
from shardlings import communication
from tests.helpers import capture

GRID = (("x", 4), ("y", 2))
ARGUMENTS = (
    (Argument((16, 8), GRID, ("x", "y")), Argument((8,), GRID, ("y",))),
    (Argument((32, 8), GRID, ("x", "y"), mode="auto"), Argument((8,), GRID, ("y",), mode="auto")),
)
EXERCISE = Exercise(
    id="1.1",
    title="A program",
    requirements=(
        Computes("answer", "It must return sin(a) * b.", lambda a, b: np.sin(a) * b, ARGUMENTS),
        PlacedLike("answer", "0 1 \n 2 3 \n 4 5 \n 6 7", ((16, 8), (32, 8))),
    ),
    hints=("Write it down.",),
)


def verdict(function, exercise=EXERCISE):
    captured = capture(exercise, {"answer": function}, seed=5)
    read = evidence.from_json(json.loads(json.dumps(evidence.to_json(captured))))
    return judge(exercise, read, seed=5)


def test_values_and_output_layout_are_judged():
    assert verdict(lambda a, b: jnp.sin(a) * b).score == 1
    assert verdict(jax.jit(lambda a, b: jnp.sin(a) * b)).score == 1


def test_a_result_layout_without_a_spec_on_the_arguments_mesh_is_judged():
    def constrain_to_other_mesh(a):
        grid = jax.make_mesh((2, 4), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
        return jax.lax.with_sharding_constraint(2 * a, jax.NamedSharding(grid, jax.P("a", "b")))

    arguments = (Argument((16, 16), GRID, ("x", "y"), mode="auto"),)
    (given,) = arguments
    values = given.sample(np.random.default_rng(1))
    ran = artifacts.run(artifacts.export(constrain_to_other_mesh, arguments), arguments, [[values]])
    ((result,),) = ran.outputs
    # before JAX 0.12, the sharding over a second mesh is dropped
    assert result.addressable_shards[0].data.shape in {(8, 4), (16, 16)}
    assert np.array_equal(result, 2 * values)


VOLUME = (Argument((8, 12, 4), GRID, ("x", "y", None), "complex64", mode="auto"),)


def run_on_a_volume(body):
    def function(x):
        in_specs, out_specs = jax.P("x", "y"), jax.P("x", None, "y")
        return jax.shard_map(body, in_specs=in_specs, out_specs=out_specs, check_vma=False)(x)

    values = VOLUME[0].sample(np.random.default_rng(1))
    return artifacts.run(artifacts.export(function, VOLUME, under_mesh=True), VOLUME, [[values]])


def gather(block):
    return jax.lax.all_gather(block, "y", axis=1, tiled=True)


def test_a_fourier_transform_that_xla_fails_to_run_is_refused(capfd):
    with pytest.raises(artifacts.ProgramError, match="by an error of its own") as caught:
        run_on_a_volume(lambda block: gather(jnp.fft.fft(block))[..., :2])
    assert caught.value.diagnosis == "error-of-xla"
    assert capfd.readouterr().err == ""  # when it runs, each device prints a stack trace


@pytest.mark.parametrize(
    "body",
    [
        lambda block: jnp.fft.fft(gather(block))[..., :2],
        lambda block: jax.lax.all_to_all(jnp.fft.fft(block), "y", 2, 1, tiled=True),
        lambda block: gather(jnp.fft.fft(block, axis=0))[..., :2],
    ],
)
def test_other_fourier_transforms_are_run(body):
    assert run_on_a_volume(body).outputs[0][0].shape == (8, 12, 4)


def replicated(a, b):
    """Return the right values, replicated if the mesh has Explicit axes."""
    made = jnp.sin(a) * b
    explicit = artifacts.sharding_of(ARGUMENTS[0][0]).mesh
    return jax.reshard(made, jax.NamedSharding(explicit, jax.P())) if len(a) == 16 else made


NOT_COUNTED = "not-counted-yet"
VALUES = ("values", NOT_COUNTED)
ELSEWHERE = jax.sharding.SingleDeviceSharding(jax.devices()[3])


@pytest.mark.parametrize(
    ("function", "score", "diagnoses", "says"),
    [
        (lambda a, b: jnp.cos(a) * b, 0, VALUES, "The values are wrong."),
        (lambda a, b: jnp.sin(a), 0, VALUES, "The values are wrong."),
        (lambda a, b: jnp.sum(a), 0, ("shape",), "expected float32[16,8]"),
        (lambda a, b: (jnp.sin(a) * b).astype(int), 0, ("dtype", NOT_COUNTED), "expected float32"),
        (replicated, 0.25, ("replicated",), "replicated, not sharded"),
        (lambda a, b: undefined, 0, ("raised",), "NameError: name 'undefined'"),  # type: ignore[name-defined]  # noqa: F821
        (lambda a, b: np.sin(np.asarray(a)) * b, 0, ("asks-for-numbers",), "no numbers yet"),
        (
            lambda a, b: a if a.sum() > 0 else b,
            0,
            ("asks-for-numbers",),
            "NumPy, float() or an `if` on an array",
        ),
        (
            lambda a, b: jax.lax.with_sharding_constraint(jnp.sin(a) * b, ELSEWHERE),
            0,
            ("one-device",),
            "is on one device only",
        ),
        (lambda a, b: ..., 0, ("unanswered",), "has not been filled in yet"),
        (3, 0, ("not-a-function",), "Got an int; expected a function"),
    ],
)
def test_wrong_programs_get_a_diagnosis(function, score, diagnoses, says):
    found = verdict(function)
    assert found.score == score
    assert found.diagnoses == diagnoses
    assert says in " ".join(finding.difference for finding in found.findings)


def test_inputs_are_sampled_when_judging():
    """A program that contains the results for one sample of inputs is wrong for the next."""
    generator = np.random.default_rng(5)
    known = [
        tuple(generator.standard_normal(a.shape).astype(a.dtype) for a in arguments)
        for arguments in ARGUMENTS[:1]
    ]
    computes = EXERCISE.requirements[0]
    assert isinstance(computes, Computes)
    exercise = replace(EXERCISE, requirements=(replace(computes, arguments=ARGUMENTS[:1]),))
    wanted = np.sin(known[0][0]) * known[0][1]
    captured = capture(exercise, {"answer": lambda a, b: 0 * a + wanted}, seed=5)
    for seed in (5, 6):  # inputs are sampled twice, so knowing the first sample does not help
        assert judge(exercise, captured, seed=seed).diagnoses == ("ignores-inputs",)


def test_inputs_are_sampled_with_a_seed_that_the_kernel_does_not_know():
    captured = capture(EXERCISE, {"answer": lambda a, b: jnp.sin(a) * b}, seed=5)
    assert judge(EXERCISE, captured, seed=5, fresh=77).score == 1
    piece = captured.answers["answer"]
    assert isinstance(piece, evidence.Program)
    ran = run_all(EXERCISE, "answer", piece, 77)
    assert not np.array_equal(ran[0][0][0][0], np.random.default_rng(5).standard_normal((16, 8)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_zeros_of_a_coarse_type_are_not_close_to_anything(dtype):
    found = verdict(lambda a, b: (0 * a * b).astype(dtype))
    assert found.score == 0
    assert found.diagnoses == ("dtype", NOT_COUNTED)


def test_every_replica_is_compared():
    """With check_vma=False, devices may return different replicas of the same block."""

    def differ(a, b):
        def body(a, b):
            rest = jax.lax.axis_index("y") * 1.0
            return jnp.sin(a) * b + rest

        mesh = rebuild_mesh(ARGUMENTS[0][0])
        return jax.shard_map(body, mesh=mesh, out_specs=jax.P("x"), check_vma=False)(a, b)

    line = (Argument((16,), GRID, ("x",)), Argument((16,), GRID, ("x",)))
    computes = Computes("answer", "It must return sin(a) * b.", lambda a, b: np.sin(a) * b, (line,))
    found = verdict(differ, replace(EXERCISE, requirements=(computes,)))
    assert found.diagnoses == ("copies-disagree",)
    assert "hold different numbers" in found.findings[0].difference


def hostile_call(a, b):
    """Call a library function of the author's choice."""
    return jax.ffi.ffi_call("hostile", jax.ShapeDtypeStruct(a.shape, a.dtype))(a)


def artifact(function, arguments=ARGUMENTS[0]):
    """Export a program, with the claim that its custom call is safe."""
    from jax import export

    structs = [
        jax.ShapeDtypeStruct(a.shape, np.dtype(a.dtype), sharding=artifacts.sharding_of(a))
        for a in arguments
    ]
    check = export.DisabledSafetyCheck.custom_call("hostile")
    return bytes(export.export(jax.jit(function), disabled_checks=[check])(*structs).serialize())


def artifact_with_symbolic_shapes():
    """Export a program that takes arrays of any size."""
    from jax import export

    m, n = export.symbolic_shape("m, n")
    structs = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((m, n), (n,))]
    return bytes(export.export(jax.jit(lambda a, b: a))(*structs).serialize())


@pytest.mark.parametrize(
    ("made", "diagnosis", "says"),
    [
        (lambda: artifact(hostile_call), "custom-call", "calls the routine 'hostile', which"),
        (lambda: b"", "malformed", "cannot be read"),
        (lambda: b"\0" * 4096, "malformed", "cannot be read"),
        (lambda: b"\0" * (1 << 21), "too-large", "takes 2,097,152 bytes"),
        (
            lambda: artifact(lambda a, b: a, ARGUMENTS[1]),
            "arguments",
            "exported for other arguments",
        ),
        (artifact_with_symbolic_shapes, "arguments", "exported for other arguments"),
    ],
)
def test_forged_artifacts_are_refused(made, diagnosis, says):
    piece = evidence.Program((made(), made()))
    found = judge(EXERCISE, evidence.Evidence("1.1", {"answer": piece}), seed=5)
    assert found.score == 0
    assert found.diagnoses == (diagnosis,)
    assert says in found.findings[0].difference


def test_a_callback_to_the_host_cannot_be_exported():
    def calls_back(a, b):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(a.shape, a.dtype), a)

    def prints(a, b):
        jax.debug.print("{}", a)
        return a

    for function in (calls_back, prints):
        found = verdict(function)
        assert found.score == 0
        assert found.diagnoses == ("not-exportable",)
        assert "JAX traced your function" in found.findings[0].difference
        assert "for example with jax.debug.print. Remove that call" in found.findings[0].difference


def test_custom_calls_are_recognised_by_operation_and_not_by_name():
    def hostile_named(a, b):
        with jax.named_scope("custom_call"):
            return a + b

    values = [np.zeros(a.shape, np.float32) for a in ARGUMENTS[0]]
    lowered = jax.jit(hostile_named).lower(*values)
    assert "custom_call" in lowered.as_text(debug_info=True)
    assert read_custom_calls(lowered.compiler_ir("stablehlo")) == []
    ran = artifacts.run(artifact(hostile_named), ARGUMENTS[0], [values])
    assert ran.outputs[0][0].shape == (16, 8)


def test_the_judges_process_judges_programs(monkeypatch, tmp_path):
    """The judge's process looks up the exercise itself, so one is registered there."""
    package = tmp_path / "probe.py"
    package.write_text(
        "import sys\n"
        "from autograder import exercises\n"
        "from autograder.instructor.sandbox import judge_process\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from tests.artifacts.test_running import EXERCISE\n"
        "exercises.EXERCISES['1.1'] = EXERCISE\n"
        "judge_process.main()\n"
    )
    import subprocess
    import sys

    import msgspec

    from autograder.instructor.sandbox.judge_process import Reply, Work
    from tests.conftest import ROOT

    good = capture(EXERCISE, {"answer": lambda a, b: jnp.sin(a) * b}, seed=5)
    bad = evidence.Evidence("1.1", {"answer": evidence.Program((artifact(hostile_call),) * 2)})
    cases = [Case("1.1", evidence.to_json(good), 5), Case("1.1", evidence.to_json(bad), 5)]
    done = subprocess.run(
        [sys.executable, "-I", str(package), str(ROOT)],
        input=msgspec.json.encode(Work(cases)),
        capture_output=True,
        check=True,
    )
    replies = [msgspec.json.decode(o, type=Reply) for o in done.stdout.splitlines()]
    right, wrong = (reply.verdict for reply in replies)
    assert right is not None
    assert wrong is not None
    assert right.score == 1
    assert wrong.diagnoses == ("custom-call",)


def test_the_judges_process_ignores_its_callers_environment(monkeypatch, tmp_path):
    (tmp_path / "jax.py").write_text("raise SystemExit('the caller was believed')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    case = Case("1.1", {"exercise": "1.1", "answers": {}}, 0)
    (found,) = judge_in_sandbox([case], sandbox=Sandbox(required=False))
    assert found.diagnoses == ("malformed",)


def test_a_mesh_that_a_learner_has_set_for_good_does_not_interfere():
    """A cell runs `jax.set_mesh(mesh)`, and then the exercise is checked on another mesh."""
    other = jax.make_mesh((8,), ("z",), axis_types=(jax.sharding.AxisType.Auto,))
    with jax.set_mesh(other):
        assert verdict(lambda a, b: jnp.sin(a) * b).score == 1
        for exercise in ("2.2", "2.3"):
            feeds = exercises.EXERCISES[exercise].requirements[0]
            assert isinstance(feeds, RunsWithinBudgets)
            grid = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
            specs = {"2.2": [jax.P(None, ("x", "y"))], "2.3": [jax.P("x"), jax.P(None, "y")]}[
                exercise
            ]
            answer = [jax.NamedSharding(grid, spec) for spec in specs]
            only = replace(exercises.EXERCISES[exercise], requirements=(feeds,))
            captured = capture(only, {feeds.answer: answer}, seed=5)
            assert judge(only, captured, seed=5).score == 1


def test_a_strangers_program_is_counted_as_it_was_compiled():
    """Names tell a CPU's conversions from the program's own, and names can be forged."""
    rows = Argument((16, 8), (("x", 8),), ("x",), mode="auto", dtype="bfloat16")

    def gather(x):
        return jax.lax.with_sharding_constraint(x, jax.NamedSharding(rebuild_mesh(rows), jax.P()))

    artifact = artifacts.export(gather, (rows,))
    drawn = np.ones(rows.shape, jnp.bfloat16)
    (judged,) = artifacts.run(artifact, (rows,), [[drawn]]).report.collectives
    placed = jax.device_put(drawn, artifacts.sharding_of(rows))
    (reported,) = communication(gather, placed).collectives
    assert (judged.dtypes, judged.bytes) == (("f32",), 16 * 8 * 4)
    assert (reported.dtypes, reported.bytes) == (("bf16",), 16 * 8 * 2)
