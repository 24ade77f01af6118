"""Errors of the autograder's own: wherever one is planted, it does not blame the answer."""

import tomllib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from autograder import check, exercises
from autograder.explanations import Fault, faults
from autograder.judge import NoScoreError, Verdict, recall_progress
from autograder.notebook import NotJudged
from shardlings import communication, show
from shardlings.errors import (
    TheirError,
    UsageError,
    first_line,
    message_of,
    theirs,
    versions_in_words,
)
from shardlings.layouts import Layout
from tests.conftest import some_of
from tests.judge.plantings import ELSEWHERE, PLANTINGS, Planting, X, turned
from tests.modules import STUDENTS, name_of


@pytest.fixture
def printed(capsys, monkeypatch):
    """Return a function that returns what was printed, in one line."""
    monkeypatch.setenv("COLUMNS", "400")
    return lambda: " ".join(capsys.readouterr().out.split())


def test_an_error_is_planted_in_every_module():
    assert {p.module for p in PLANTINGS} | set(ELSEWHERE) == {
        name_of(path).removeprefix("autograder.") for path in STUDENTS
    }


BLAMES = ("Your function raised", "JAX refuses", "not yet", "wrong", "refused", "Expected", "✗")


@pytest.mark.parametrize("planting", some_of(PLANTINGS), ids=str)
def test_an_error_of_ours_does_not_blame_the_answer(planting, printed, monkeypatch):
    answers = planting.named()
    planting.plant(monkeypatch)
    check(planting.exercise, **answers)
    words = printed()
    assert "not your answer's fault" in words
    assert f"ZeroDivisionError: planted ({planting.full_name}, line" in words
    assert versions_in_words() in words
    assert not [blaming for blaming in BLAMES if blaming in words]
    if planting.module == "judge.progress":
        return
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    with pytest.raises(NotJudged, match="not your answer's fault"):
        check(planting.exercise, **planting.named())
    assert recall_progress() == {}


def test_a_failed_verdict_has_no_score():
    verdict = Verdict("1.1", "Column strips", (), Fault("E", "m", "autograder.x, line 1"))
    assert verdict.state == "failed"
    assert verdict.diagnoses == ()
    with pytest.raises(NoScoreError, match=r"Judging 1.1 failed, so there is no score: E: m"):
        verdict.score  # noqa: B018


def test_a_fault_says_what_to_do_about_it(printed, root, monkeypatch):
    module = "shardlings.programs.requested.collectives"
    Planting(module, "read_collectives", "3.1", turned).plant(monkeypatch)
    check("3.1", **turned())
    words = printed()
    assert "⚠ 3.1 A constraint: not judged, and not your answer's fault This is not your" in words
    assert "restarting or running it again is unlikely to help." in words
    assert (
        f"This is JAX {jax.__version__}, and Shardlings is tested with JAX 0.8.2, 0.10.2" in words
    )

    urls = tomllib.loads((root / "pyproject.toml").read_text())["project"]["urls"]
    assert f"Please report this message at {urls['Repository']}." in words


def test_a_copy_that_is_not_installed_has_no_address_for_reports(monkeypatch):
    monkeypatch.setattr(faults, "DISTRIBUTION", "nobody-has-this")
    assert faults.report_address() == "the place that you have Shardlings from"


class Property:
    """An answer that raises when its type is read."""

    @property
    def __class__(self):
        raise KeyError("mine")

    @__class__.setter
    def __class__(self, value):
        """Do nothing; a property that overrides `__class__` needs a setter."""


class UnspeakableError(Exception):
    """An error that raises another when its message is read."""

    def __str__(self):
        return 3


def unspeakable(*_):
    raise UnspeakableError


def endless(*arguments):
    return endless(*arguments)


DELETED = jax.device_put(X)
DELETED.delete()
TRACERS: list[Any] = []
jax.jit(lambda x: TRACERS.append(x))(X)
EXPLICIT = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)


ODD: dict[str, Callable[[], Any]] = {
    "hostile": Property,
    "unspeakable": lambda: unspeakable,
    "endless": lambda: endless,
    "endless, jitted": lambda: jax.jit(endless),
    "show, misused": lambda: lambda *_: show(),
    "communication, misused": lambda: lambda *_: communication(3),  # type: ignore[call-overload]
    "no parameters": lambda: lambda: 0,
    "exits": lambda: lambda *_: exit(),
    "a function's function": lambda: lambda *_: lambda: 0,
    "makes keys": lambda: lambda *_: jax.random.key(0),
    "a key": lambda: jax.random.key(0),
    "keys": lambda: jax.random.split(jax.random.key(0), 8),
    "deleted": lambda: DELETED,
    "a tracer": lambda: TRACERS[0],
    "unreduced": lambda: jax.NamedSharding(EXPLICIT, jax.P("x", unreduced={"y"})),
    "reduced": lambda: jax.NamedSharding(EXPLICIT, jax.P("x", reduced={"y"})),
    "abstract": lambda: jax.NamedSharding(EXPLICIT.abstract_mesh, jax.P("x")),
    "nothing in it": lambda: jnp.zeros((0, 0)),
    "rank 5": lambda: jnp.zeros((2,) * 5),
    "four bits": lambda: jnp.zeros((16, 16), jnp.int4),
    "a date": lambda: np.datetime64("2026"),
    "numbers beyond writing": lambda: {10**5000: 10**5000, "bytes": 10**5000},
    "letters beyond writing": lambda: {"\ud800": "\ud800", "spec": np.array([object()])},
    "a table of tracers": lambda: {"spec": TRACERS, "bytes": DELETED},
    "an unreduced spec": lambda: {"spec": jax.P("x", unreduced={"y"})},
}
"""Useless answers, some of which raise when they are inspected."""


@pytest.mark.parametrize("exercise", ["1.1", "1.7", "2.2", "2.7", "3.1", "9.8"])
def test_no_answer_leads_to_a_fault(exercise, printed, subtests):
    for name, made in ODD.items():
        with subtests.test(name):
            check(exercise, **dict.fromkeys(exercises.find(exercise).answers, made()))
            assert "fault" not in printed()


def test_an_error_belongs_to_the_innermost_code_that_is_not_a_librarys():
    with pytest.raises(TheirError, match="IndexError"), theirs():
        [][0]
    with pytest.raises(TheirError, match="TypeError"), theirs():
        jnp.dot("a", "b")  # type: ignore[arg-type]
    with pytest.raises(TheirError, match="UsageError: show draws"), theirs():
        show()
    with pytest.raises(AttributeError, match="blocks"), theirs():
        Layout.describe(3)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt), theirs():
        raise KeyboardInterrupt
    with pytest.raises(UsageError):
        show()


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("state: {'varying', 'invarying'}", "state: {'varying', 'invarying'}"),
        ("state: {'invarying', 'varying'}", "state: {'varying', 'invarying'}"),
        (
            "on {CpuDevice(id=10), CpuDevice(id=9), CpuDevice(id=0)}, {'y', 'x'}",
            "on {CpuDevice(id=0), CpuDevice(id=9), CpuDevice(id=10)}, {'x', 'y'}",
        ),
        # these have an order that means something
        ("{devices=[2,1,4]<=[8]}", "{devices=[2,1,4]<=[8]}"),
        ("{'y': 2, 'x': 4}", "{'y': 2, 'x': 4}"),
        ("float32[4]{V:y,x} ('y', 'x')", "float32[4]{V:y,x} ('y', 'x')"),
    ],
)
def test_sets_in_a_message_are_in_order(message, said):
    assert first_line(ValueError(message)) == said
    # whoever compares the whole message with its first line finds it there
    assert message_of(ValueError(f"{message}:\nmore")).startswith(f"{said}:")


def test_a_list_below_the_first_line_of_a_message_belongs_to_it():
    with pytest.raises(ValueError, match="inconsistent sizes") as raised:
        jax.vmap(jnp.add)(jnp.ones(3), jnp.ones(4))
    said = first_line(raised.value)
    assert "to be mapped: one axis had size 3: " in said
    assert "; one axis had size 4: " in said


def test_a_fault_is_shown_in_one_short_printable_line():
    shown = str(Fault("E" * 999, "\x1b[31m\n" * 999, "here"))
    assert shown.isprintable()
    assert len(shown) < 600
