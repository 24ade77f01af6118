"""Judges give the same verdicts to the letter with and without programs compiled before."""

import os
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import msgspec
import pytest
from jax import lax
from jax.lax import with_sharding_constraint

from autograder import evidence
from autograder.exercises import find
from autograder.instructor.authoring import bank
from autograder.instructor.sandbox import (
    Case,
    Sandbox,
    compilation_cache,
    judge_in_sandbox,
    prune_cache,
)
from tests.conftest import ROOT, some_of
from tests.helpers import capture, pretend_bubblewrap
from tests.judge.plantings import iterate

pytestmark = pytest.mark.bubblewrap

NAMES = {"jax": jax, "jnp": jnp, "lax": lax, "P": jax.P}
NAMES["with_sharding_constraint"] = with_sharding_constraint
SELF_CONTAINED = (
    "a constraint", "in the body", "made, and then put", "keys of one's own", "nothing said",
)  # fmt: skip
"""The beginnings of the titles of answers to 9.2 that use nothing from their notebook."""


def written(code, above=""):
    """Run a learner's code below some other lines, and return what it defines."""
    names = dict(NAMES)
    exec(compile(f"{above}{code}", "<cell>", "exec"), names)
    return {"initialise": names["initialise"]}


def case(exercise, answers):
    return Case(exercise, evidence.to_json(capture(find(exercise), answers, 1)), 1, 2)


def contents(folder):
    return {f.relative_to(folder): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.fixture(scope="module")
def cases():
    """Answers of a bank, right and wrong: memory, layouts, values; one lower down; and a loop."""
    known = [
        entry
        for entry in bank.load(ROOT / "solutions" / "09_sharp_bits" / "bank.py")
        if entry.exercise == "9.2" and entry.title.startswith(SELF_CONTAINED)
    ]
    assert len(known) == len(SELF_CONTAINED)
    known = some_of(known, at_least=2)
    answers = [written(entry.code) for entry in known]
    lower = written(known[0].code, above="# a line\n" * 7)
    return [*(case("9.2", each) for each in (*answers, lower)), case("6.9", iterate())]


def judged(cases, **traits):
    verdicts = judge_in_sandbox(cases, sandbox=Sandbox(**traits))
    return [msgspec.json.encode(verdict) for verdict in verdicts]


@pytest.fixture(scope="module")
def plain(cases):
    """The verdicts where everything is compiled."""
    return judged(cases)


@pytest.fixture(scope="module")
def filled(cases, plain, tmp_path_factory):
    """Fill a cache with all cases but the last two; the verdicts meanwhile are the same."""
    folder = tmp_path_factory.mktemp("compiled")
    assert judged(cases[:-2], compiled=str(folder), fills_compiled=True) == plain[:-2]
    prune_cache(folder)
    assert contents(folder)
    return folder


def test_verdicts_are_the_same_to_the_letter_and_nothing_is_written(cases, plain, filled):
    before = contents(filled)
    assert judged(cases, compiled=str(filled)) == plain
    assert contents(filled) == before  # the loop was compiled, and left nothing


def test_what_was_spoilt_is_compiled_anew(cases, plain, filled, tmp_path):
    for name, whole in contents(filled).items():
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    assert judged(cases[:1], compiled=str(tmp_path)) == plain[:1]


def test_only_whole_programs_are_kept(tmp_path):
    whole = zlib.compress(os.urandom(100))
    (tmp_path / "jit_f-1-cache").write_bytes(whole)
    (tmp_path / "jit_g-2-cache").write_bytes(whole[:50])
    (tmp_path / "jit_f-1-cache.lock").write_bytes(whole)
    (tmp_path / "jit_h-3-cache").symlink_to(tmp_path / "jit_f-1-cache")
    prune_cache(tmp_path)
    assert list(contents(tmp_path)) == [Path("jit_f-1-cache")]


def test_there_is_a_most_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(compilation_cache, "MAX_CACHE_BYTES", 250)
    for number in range(5):
        (tmp_path / f"jit_f-{number}-cache").write_bytes(zlib.compress(os.urandom(100)))
    prune_cache(tmp_path)
    assert len(contents(tmp_path)) == 2


def test_without_a_sandbox_nothing_is_read_or_written(tmp_path, monkeypatch):
    pretend_bubblewrap(monkeypatch, there=False)
    room = Sandbox(compiled=str(tmp_path), fills_compiled=True)
    assert str(tmp_path) not in " ".join(room.command(["true"], {}, cached=True))
    assert not list(tmp_path.iterdir())
