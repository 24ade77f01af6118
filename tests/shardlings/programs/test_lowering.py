"""Whatever JAX can lower has a report: functions, objects, stages, and libraries' own."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardlings import communication
from shardlings.programs import CommunicationError, UnreadableProgramError
from tests.helpers import sharding

X = jax.device_put(np.ones((64, 64), np.float32), sharding("x", x=8))
SUM = [("all-reduce", 4)]


def total(x, scale=1.0, *, squared=False):
    return ((x * x if squared else x) * scale).sum()


def found(*args, **kwargs):
    return [(c.kind, c.bytes) for c in communication(*args, **kwargs).collectives]


class Model:
    """Has a method that is jitted with a static `self`, and is itself called."""

    scale = 2.0

    def __call__(self, x):
        return total(x, self.scale)

    @functools.partial(jax.jit, static_argnums=0)
    def jitted(self, x):
        return total(x, self.scale)


class LowersText(Model):
    """Has a method called `lower`, which has nothing to do with JAX."""

    def lower(self):
        return "text"


@dataclass
class Solve:
    """Has a field called `lower`."""

    lower: bool = True

    def __call__(self, x):
        return total(x)


@dataclass
class Stage:
    """A library's object around one of JAX's stages, as Equinox's are."""

    lowered: Any = None
    compiled: Any = None

    def compile(self):
        return Stage(compiled=self.lowered.compile())


class Jitted:
    """A library's jitted function, whose `lower` returns an object of its own."""

    __wrapped__ = staticmethod(total)

    def __call__(self, x):
        return total(x)

    def lower(self, x):
        return Stage(jax.jit(total).lower(x))


FORMS = {
    "a function": total,
    "a partial": functools.partial(total, scale=2.0),
    "a jitted function": jax.jit(total),
    "a partial of one": functools.partial(jax.jit(total), scale=2.0),
    "a donated argument": jax.jit(total, donate_argnums=0),
    "an object": Model(),
    "a bound method": Model().__call__,
    "a jitted method": Model().jitted,
    "a method called lower": LowersText(),
    "a field called lower": Solve(),
    "a library's jitted function": Jitted(),
    "a library's lowered one": Jitted().lower(X),
    "a library's compiled one": Jitted().lower(X).compile(),
    "traced": jax.jit(total).trace(X),
    "lowered": jax.jit(total).lower(X),
    "compiled": jax.jit(total).lower(X).compile(),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_has_a_report(form):
    assert found(FORMS[form], X) == SUM


@pytest.mark.parametrize("form", ["a library's lowered one", "traced", "lowered", "compiled"])
def test_a_stage_has_its_arguments_already(form):
    report = communication(FORMS[form])
    assert [c.axes for c in report.collectives] == [("x",)]


def test_arguments_may_be_given_by_name():
    assert found(total, x=X) == SUM
    assert found(total, X, scale=2.0) == SUM
    squared = jax.jit(total, static_argnames="squared")
    assert found(squared, X, squared=True) == SUM
    assert found(total, X, scale=3.0, scaled={64: 128})[0][0] == "all-reduce"


def test_a_name_that_is_also_an_option_has_to_be_bound():
    def scaled_by(x, machine, steps=1):
        return total(x, machine * steps)

    ask: Any = communication
    for given in (
        {"machine": 3.0}, {"machine": "TPU v5p"}, {"machine": None}, {"steps": 2}, {"steps": 0},
        {"steps": False}, {"steps": None},
    ):  # fmt: skip
        with pytest.raises(CommunicationError) as raised:
            ask(scaled_by, X, **given)
        (name,) = given
        assert f"{name} is a parameter of your function, and an option" in str(raised.value)
        assert f"functools.partial(f, {name}=…)" in str(raised.value)
    bound = functools.partial(scaled_by, machine=3.0)
    assert communication(bound, X, machine="TPU v5p").machine == "TPU v5p"
    assert found(functools.partial(scaled_by, machine=3.0, steps=0), X, steps=False)


def test_an_option_may_be_none_if_no_parameter_has_its_name():
    options = {"machine": None, "mesh": None, "scaled": None, "steps": False, "target": None}
    assert found(total, X, **options) == SUM


def test_a_program_that_is_not_understood_has_an_error_of_its_own(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise UnreadableProgramError("XLA's type 99 is unknown.")

    monkeypatch.setattr("shardlings.programs.compile_and_report.read_executable", refuse)
    with pytest.raises(UnreadableProgramError) as raised:
        communication(total, X)
    assert not isinstance(raised.value, CommunicationError)  # judges take that for the learner's
    assert "UnreadableProgramError: " in str(communication.__doc__)


def test_a_misspelt_option_is_named():
    with pytest.raises(CommunicationError, match="Did you mean communication's own machine="):
        communication(total, X, machin="TPU v5p")
    with pytest.raises(CommunicationError) as raised:
        communication(total, X, factor=2.0)
    assert "Did you mean" not in str(raised.value)


def test_a_stage_is_for_one_size_and_for_the_devices_here():
    for stage in (FORMS["traced"], FORMS["lowered"], FORMS["a library's lowered one"]):
        with pytest.raises(CommunicationError, match="This is lowered already, for one size"):
            communication(stage, scaled={64: 128})


def test_what_cannot_be_read_says_what_to_do():
    class Opaque(Jitted):
        def lower(self, x):
            return self

        def compile(self):
            return self

    with pytest.raises(CommunicationError, match="The compiled form of Opaque cannot be read"):
        communication(Opaque(), X)
    with pytest.raises(CommunicationError, match="but got int"):
        communication(3, X)  # type: ignore[call-overload]
    with pytest.raises(CommunicationError, match="depends on how its arguments are laid out"):
        communication(total)


def test_equinox_has_a_report():
    eqx = pytest.importorskip("equinox")
    net = eqx.nn.Linear(64, 64, key=jax.random.key(0))

    @eqx.filter_jit
    def loss(net, x):
        return (jax.vmap(net)(x) ** 2).mean()

    assert found(loss, net, X) == SUM
    assert found(loss.lower(net, X)) == SUM


def test_a_described_array_is_drawn():
    from shardlings.layouts import Layout, LayoutError

    described = jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=X.sharding)
    assert Layout.of(described) == Layout.of(X)
    with pytest.raises(LayoutError, match="Give it a sharding, too"):
        Layout.of(jax.eval_shape(lambda: jnp.ones(3)))


W = jax.device_put(np.ones((64, 64), np.float32), sharding(None, "x", x=8))


@jax.jit
def product(w, x):
    return (x @ w).sum()


@dataclass(frozen=True)
class Layer:
    """Holds a weight, and has a method that is jitted with it as an argument."""

    w: Any

    @jax.jit
    def apply(self, x):
        return (x @ self.w).sum()


jax.tree_util.register_dataclass(Layer, ["w"], [])


def test_what_is_bound_to_a_jitted_function_is_an_argument_of_its_program():
    whole = found(product, W, X)
    assert len(whole) == 2, "the weight is gathered, and the sum is added up"
    for bound in (
        functools.partial(product, W),
        functools.partial(functools.partial(product), W),
        functools.partial(product, w=W),
        Layer(W).apply,
    ):
        given = {"x": X} if getattr(bound, "keywords", {}) else {}
        report = communication(bound, *(() if given else (X,)), **given)
        assert [(c.kind, c.bytes) for c in report.collectives] == whole
        assert report.closed_over == ()


def test_an_object_that_cannot_be_hashed_is_called():
    @dataclass
    class Unhashable:
        w: Any

        def __call__(self, x):
            return total(x)

    assert found(Unhashable(W), X) == SUM
