"""Evidence is plain data; forged evidence is read strictly and never earns a point."""

import copy
import json

import jax
import msgspec
import numpy as np
import pytest

from autograder import evidence
from autograder.evidence import (
    Contents,
    Evidence,
    MalformedEvidenceError,
    MeshGrid,
    NotCaptured,
    Placement,
    Unanswered,
    Value,
)
from autograder.evidence.process_results import _read_file
from autograder.evidence.results import plain
from autograder.exercises import EXERCISES, find
from autograder.judge import judge
from tests.helpers import capture, sharding

X = np.arange(256, dtype=np.float32).reshape(16, 16)
RIGHT = jax.device_put(X, sharding(None, "x", x=8))


def captured_json(exercise, **answers):
    """Capture answers, and return their evidence after a round trip through JSON."""
    captured = capture(find(exercise), answers, seed=1)
    return json.loads(json.dumps(evidence.to_json(captured)))


@pytest.mark.parametrize(
    "answer",
    [RIGHT, X, None, ..., jax.device_put(X, jax.devices()[3]), jax.jit(lambda x: x + 1)(RIGHT)],
)
def test_evidence_survives_json_unchanged(answer):
    captured = capture(find("1.1"), {"columns": answer}, seed=1)
    assert evidence.from_json(captured_json("1.1", columns=answer)) == captured


def test_a_sharding_without_a_mesh_is_given_one():
    captured = capture(find("1.2"), {"blocks": jax.devices()[3]}, seed=1)
    assert isinstance(captured.answers["blocks"], NotCaptured)
    single = jax.sharding.SingleDeviceSharding(jax.devices()[3])
    piece = capture(find("1.2"), {"blocks": single}, seed=1).answers["blocks"]
    assert isinstance(piece, Placement)
    assert piece.mesh.ids == (3,)
    assert piece.spec == (None, None), "no made-up axis names for dimensions that are not sharded"


@pytest.mark.parametrize("kind", ["pinned_host", None])
def test_an_array_in_the_memory_of_the_host_is_not_on_the_devices(kind):
    single = jax.sharding.SingleDeviceSharding(jax.devices()[3], memory_kind=kind)
    for where in (RIGHT.sharding.with_memory_kind(kind or "device"), single):
        piece = capture(find("1.1"), {"columns": jax.device_put(X, where)}, seed=1)
        found = piece.answers["columns"]
        assert isinstance(found, Placement if kind is None else NotCaptured)
        assert isinstance(found, Placement) or found.why == "other-memory"


def test_a_type_without_a_readable_name_is_captured():
    class Nameless(type):
        @property
        def __name__(cls):  # type: ignore[override]
            raise RuntimeError

    answer = Nameless("A", (), {})()
    piece = capture(find("1.1"), {"columns": answer}, seed=1).answers["columns"]
    assert piece == NotCaptured("type", "Got an A; expected a jax.Array.")


def test_functions_are_called_and_their_errors_captured():
    piece = capture(
        find("1.7"),
        {"shard_shape": lambda *_: {3, 1}, "bytes_total": lambda *_: 1 / 0, "holders": ...},
        seed=1,
    ).answers
    assert piece["holders"] == Unanswered()
    values = piece["shard_shape"]
    assert isinstance(values, Value)
    assert values.value[0] == {"returned": [1, 3]}
    errors = piece["bytes_total"]
    assert isinstance(errors, Value)
    assert errors.value[0]["error"].startswith("ZeroDivisionError: division by zero (line")


@pytest.mark.parametrize(
    "value", [object(), float("nan"), np.float32(1), {1: {2}}, jax.numpy.ones(2), b"x", 10**40]
)
def test_whatever_a_function_returns_becomes_json(value):
    data = captured_json(
        "1.7", shard_shape=lambda *_: value, bytes_total=lambda *_: value, holders=lambda *_: value
    )
    read = evidence.from_json(data)
    assert judge(find("1.7"), read, 1).score == 0


def test_evidence_of_another_exercise_is_refused():
    read = evidence.from_json(captured_json("1.1", columns=RIGHT))
    assert judge(find("1.1"), read, 1).score == 1
    assert judge(find("1.2"), read, 1).diagnoses == ("other-exercise",)


GOOD = captured_json("1.1", columns=RIGHT)


def evidence_with(piece):
    """Return evidence for 1.1 with a forged piece."""
    return {"exercise": "1.1", "answers": {"columns": piece}}


def forged(**changes):
    """Return good evidence for 1.1 with parts of its answer replaced.

    Args:
        **changes: new values, by path in the answer; `mesh__ids` stands for `["mesh"]["ids"]`.
    """
    data = copy.deepcopy(GOOD)
    for path, value in changes.items():
        parent = data["answers"]["columns"]
        *parents, key = path.split("__")
        for name in parents:
            parent = parent[name]
        parent[key] = value
    return data


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        "right",
        {"exercise": "1.1", "answers": {}, "score": 1},
        evidence_with({"type": "verdict", "met": True}),
        {**GOOD, "state": "right"},
        forged(mesh=None),
        forged(mesh__ids=["0"] * 8),
        forged(spec="x"),
        forged(contents__data=5),
        forged(contents__shape=[16, -16]),
        forged(contents__shape=[10**12, 10**12]),
        forged(mesh__ids=[-1, *range(1, 8)]),
        forged(mesh__shape=[-8]),
        evidence_with({"type": "program", "artifacts": [1]}),
    ],
)
def test_malformed_evidence_is_refused(data):
    with pytest.raises(MalformedEvidenceError, match="has the wrong form"):
        evidence.from_json(data)


@pytest.mark.parametrize(
    "data",
    [
        {"exercise": "1.1", "answers": {}},
        evidence_with({"type": "value", "value": True}),
        evidence_with({"type": "program", "artifacts": ["AAAA"]}),
        evidence_with({"type": "not-captured", "why": "", "sentence": ""}),
        forged(contents=None),
        forged(contents__data=""),
        forged(contents__dtype="object"),
        forged(contents__shape=[1 << 31, 1 << 31]),
        forged(mesh__ids=[0] * 8),
        forged(mesh__ids=[]),
        forged(mesh__ids=[9, *range(1, 8)]),
        forged(mesh__shape=[2, 2]),
        forged(mesh__names=[]),
        forged(mesh__names=["x", "x"]),
        forged(spec=[None, "nowhere"]),
        forged(spec=["x", "x"]),
        forged(spec=[[], ["x", "x"]]),
        forged(spec=[None] * 100),
    ],
)  # fmt: skip
def test_forged_evidence_gets_a_verdict_and_no_point(data):
    verdict = judge(find("1.1"), evidence.from_json(data), 1)
    assert verdict.score == 0
    assert verdict.findings[0].diagnosis


@pytest.mark.parametrize(
    "piece",
    [
        Unanswered(),
        Value(True),
        Value([]),
        Value([{"returned": 1}] * 9),
        Value([{"error": None}] * 9),
        Value([7] * 9),
        evidence.Program((b"",)),
        evidence.Program(()),
        Placement(MeshGrid((8,), tuple(range(8)), ("x",)), ()),
        Placement(MeshGrid((8,), tuple(range(8)), ("x",)), (), Contents((), "float32", b"")),
    ],
)
def test_no_kind_of_evidence_breaks_a_judge_or_earns_a_point(piece, subtests):
    for exercise in EXERCISES.values():
        with subtests.test(exercise.id):
            forged_evidence = Evidence(exercise.id, dict.fromkeys(exercise.answers, piece))
            assert judge(exercise, forged_evidence, 1).score == 0


class RunsWhenUnpickled:
    """An object that would write a file while it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return self.path.touch, ()


def test_a_forged_sentence_of_megabytes_makes_no_verdict_of_megabytes():
    forged = {"type": "not-captured", "why": "raised", "sentence": "x" * 2**22}
    captured = evidence.from_json({"exercise": "1.1", "answers": {"columns": forged}})
    verdict = judge(find("1.1"), captured, 1)
    assert verdict.score == 0
    assert len(msgspec.json.encode(verdict)) < 2**16
    assert verdict.findings[0].difference.endswith("x …")


@pytest.mark.parametrize(
    "forged",
    [
        {"type": "not-captured", "why": "x" * 300, "sentence": ""},
        {"type": "value", "value": "x" * 2**20},
        {"type": "value", "value": {"x" * 2**20: 1}},
        {"type": "placement", "mesh": {"shape": [1], "ids": [0], "names": ["x" * 300]}, "spec": []},
    ],
)
def test_names_and_strings_have_a_length(forged):
    with pytest.raises(MalformedEvidenceError, match="has the wrong form"):
        evidence.from_json({"exercise": "1.1", "answers": {"strips": forged}})


def test_a_string_that_is_too_long_is_captured_as_its_type():
    assert plain("x" * 10_000) == "x" * 10_000
    assert plain("x" * 10_001) == {"of type": "str, of more than 10,000 characters"}


def test_a_file_that_a_worker_wrote_is_not_unpickled(tmp_path):
    path = tmp_path / "weights.npy"
    np.save(path, np.array([RunsWhenUnpickled(tmp_path / "ran")], dtype=object))
    read = _read_file("weights.npy", path)
    assert read.sentence == "np.load cannot read it: ValueError."
    assert not (tmp_path / "ran").exists()
