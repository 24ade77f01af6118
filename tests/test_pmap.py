"""Notebook 07's claims about `jax.pmap`: old programs, and their twins, which cost no more.

The old programs are those that the notebook shows, taken from it as a learner finds them. A
failure here means that `pmap` has moved, and that notebook 07 and `docs/what_moved.md` have to
say so.
"""

import re
import warnings
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import nbformat
import numpy as np
import pytest
from jax import NamedSharding, P, lax

from autograder.exercises import NOTEBOOKS
from autograder.instructor.authoring.exercise_stubs import find_cell
from shardlings import communication
from tests.conftest import ROOT
from tests.exercises.solutions import session_for

NAME = "07_pmap_migration"
KEEPS_OLD_NAMES = jax.__version_info__ < (0, 10)
"""Before that, `device_put_replicated` and its like still ran, with a warning."""


@pytest.fixture(scope="module")
def notebook():
    """The names that the notebook defines, with the solutions of its exercises."""
    names = dict(session_for("7.1").names)
    whole = nbformat.read(ROOT / "solutions" / NAME / f"{NAME}.ipynb", 4)
    for exercise in NOTEBOOKS[NAME]:
        exec(compile(find_cell(whole, exercise.id).source, f"<{exercise.id}>", "exec"), names)
    return names


def laid_out(notebook, array, *spec):
    return jax.device_put(array, NamedSharding(notebook["line"], P(*spec)))


def cost(function, *arguments, mesh=None):
    """Return the bytes that a program moves on each device, by kind; a pmap runs without `mesh`."""
    with jax.set_mesh(mesh) if mesh is not None else nullcontext():
        report = communication(function, *arguments)
    moved: dict[str, int] = {}
    for c in report.collectives:
        moved[c.kind] = moved.get(c.kind, 0) + c.total_bytes
    return moved


def no_more(twin, old):
    return all(moved <= old.get(kind, 0) for kind, moved in twin.items())


def test_the_twin_of_the_convolution_moves_nothing_as_the_pmap_did(notebook):
    x, w = notebook["signals"], notebook["window"]
    twin = cost(
        notebook["convolved"],
        laid_out(notebook, x, "x"),
        laid_out(notebook, w),
        mesh=notebook["line"],
    )
    assert twin == cost(notebook["mapped"], x, w) == {}


def test_the_twins_of_the_normalisation_move_what_the_pmap_did(notebook):
    x, w = notebook["signals"], notebook["window"]
    old = cost(notebook["normalise"], x, w)
    assert old == {"all-reduce": 40}
    for name in ("normalised", "by_vmap"):
        given = laid_out(notebook, x, "x"), laid_out(notebook, w)
        assert no_more(cost(notebook[name], *given, mesh=notebook["line"]), old)
        with jax.set_mesh(notebook["line"]):
            came = jax.jit(notebook[name])(*given)
        assert np.allclose(came, notebook["normalise"](x, w))


def test_the_twins_of_a_step_move_what_the_pmap_did_and_come_to_the_same(notebook):
    w, xs, ys = (notebook[name] for name in ("w0", "X", "y"))
    split = notebook["split"]
    old = cost(notebook["mapped_descend"], w, split(xs), split(ys))
    assert old == {"all-reduce": 16}
    placed = jax.device_put((w, xs, ys), notebook["layouts"])
    right = notebook["mapped_descend"](w, split(xs), split(ys))
    for twin in (notebook["descend"], notebook["update"]):
        assert no_more(cost(twin, *placed, mesh=notebook["line"]), old)
        with jax.set_mesh(notebook["line"]):
            assert np.allclose(jax.jit(twin)(*placed), right, rtol=1e-5)


def test_the_training_of_the_old_text_moves_two_gradients_and_a_loss(notebook):
    given = (
        notebook["params"],
        notebook["split"](notebook["xs"]),
        notebook["split"](notebook["ys"]),
    )
    assert cost(notebook["mapped_update"], *given) == {"all-reduce": 12}


def test_a_loss_in_one_copy_moves_no_more_than_the_eight_did(notebook):
    w, xs, ys = (notebook[name] for name in ("w0", "X", "y"))
    split, loss = notebook["split"], notebook["loss"]

    def mapped(w, xs, ys):
        return lax.pmean(loss(w, xs, ys), "devices")

    stacked = jax.pmap(mapped, axis_name="devices", in_axes=(None, 0, 0))
    old = cost(lambda *given: stacked(*given)[0], w, split(xs), split(ys))
    placed = jax.device_put((w, xs, ys), notebook["layouts"])
    twin = cost(notebook["mean_loss"], *placed, mesh=notebook["line"])
    assert twin == {"all-reduce": 4}
    assert no_more(twin, old)
    assert old["all-reduce"] > 4, "the index costs, too"


def test_pmap_itself_warns_of_nothing(notebook):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        came = jax.pmap(lambda row: row + 1)(notebook["signals"])
    assert isinstance(came.sharding, NamedSharding)
    assert came.addressable_shards[0].data.shape == (1, 12)


def test_nested_pmaps_are_refused_and_the_twin_gives_what_nested_vmaps_do(notebook):
    # made anew: before JAX 0.9, what pmap has refused once fails otherwise the second time
    within = jax.pmap(lambda v: notebook["centre"](v), axis_name="y")
    nested = jax.pmap(lambda a: within(a), axis_name="x")
    with pytest.raises(ValueError, match="should match the mesh passed to shard_map"):
        nested(notebook["a"])
    with jax.set_mesh(notebook["grid"]):
        came = jax.jit(notebook["unnested"])(notebook["a"])
    assert np.allclose(came, notebook["both"], atol=1e-6)


def test_more_rows_than_devices_are_refused_without_a_word_on_devices():
    with pytest.raises(ValueError, match="cannot select an axis to squeeze out") as refused:
        jax.pmap(lambda row: row.sum())(jnp.ones((16, 12)))
    assert "device" not in str(refused.value)
    with pytest.raises(ValueError, match=r"8 times|divisible"):
        jax.pmap(lambda row: row.sum())(jnp.ones((9, 12)))


def test_the_step_with_state_donates_it_as_the_pmap_did(notebook):
    w, mean, key = jnp.zeros((8, 4)), jnp.zeros((8, 4)), jax.random.split(jax.random.key(0), 8)
    xs, ys, split = (notebook[name] for name in ("X", "y", "split"))
    w, mean = notebook["old_step"](w, mean, split(xs), split(ys), key)
    notebook["old_step"](w, mean, split(xs), split(ys), key)
    assert w.is_deleted()
    assert mean.is_deleted()
    w, mean = (laid_out(notebook, jnp.zeros(4)) for _ in range(2))
    with jax.set_mesh(notebook["line"]):
        notebook["train_step"](w, mean, *jax.device_put((xs, ys), notebook["layouts"][1:]), 0)
    assert w.is_deleted()
    assert mean.is_deleted()


def test_the_ported_gradient_is_eight_times_too_large(notebook):
    w, xs, ys = (notebook[name] for name in ("w0", "X", "y"))
    right = jax.grad(notebook["loss"])(w, xs, ys)
    assert np.allclose(notebook["ported"](w, xs, ys), 8 * right, rtol=1e-5)
    assert np.allclose(notebook["ported"](w, xs, ys, check_vma=False), right, rtol=1e-5)


def test_the_port_of_stacked_parameters_stays_right(notebook):
    w, xs, ys = (notebook[name] for name in ("w0", "X", "y"))

    def body(w, xs, ys):
        return lax.pmean(jax.grad(notebook["loss"])(w[0], xs, ys), "x")[None]

    port = jax.shard_map(body, mesh=notebook["line"], in_specs=P("x"), out_specs=P("x"))
    came = jax.jit(port)(jnp.stack([w] * 8), xs, ys)
    assert np.allclose(came, jax.grad(notebook["loss"])(w, xs, ys), rtol=1e-5)


def test_under_pmap_the_mean_before_grad_leaves_each_device_its_own_gradient(notebook):
    w, xs, ys = (notebook[name] for name in ("w0", "X", "y"))

    def of_the_mean(w, xs, ys):
        return jax.grad(lambda w: lax.pmean(notebook["loss"](w, xs, ys), "devices"))(w)

    mapped = jax.pmap(of_the_mean, axis_name="devices", in_axes=(None, 0, 0))
    one, *others = np.asarray(mapped(w, notebook["split"](xs), notebook["split"](ys)))
    assert not any(np.allclose(one, other) for other in others)


def test_out_axes_none_takes_the_first_and_out_specs_wants_a_proof(notebook):
    assert jax.pmap(lambda n: n, out_axes=None)(jnp.arange(8)) == 0
    port = jax.shard_map(lambda n: n[0], mesh=notebook["line"], in_specs=P("x"), out_specs=P())
    with pytest.raises(ValueError, match="replication which can't be statically inferred"):
        port(jnp.arange(8))


def test_two_shard_maps_nest_over_one_mesh(notebook):
    def inner(a):
        return centre(a[0, 0])[None, None]

    centre = notebook["centre"]

    def outer(a):
        cut = P(None, "y")
        return jax.shard_map(inner, in_specs=cut, out_specs=cut, axis_names={"y"})(a)

    mapped = jax.shard_map(
        outer, mesh=notebook["grid"], in_specs=P("x"), out_specs=P("x"), axis_names={"x"}
    )
    assert np.allclose(jax.jit(mapped)(notebook["a"]), notebook["both"], atol=1e-6)


def test_what_is_right_with_the_check_on_leaves_every_device_its_own_with_it_off(notebook):
    w, xs, ys = (notebook[name] for name in ("w0", "X", "y"))
    loss = notebook["loss"]

    def of_the_mean(check_vma):
        def body(w, xs, ys):
            return jax.grad(lambda w: lax.pmean(loss(w, xs, ys), "x"))(w)

        specs = {"in_specs": (P(), P("x"), P("x")), "out_specs": P(), "check_vma": check_vma}
        return jax.jit(jax.shard_map(body, mesh=notebook["line"], **specs))(w, xs, ys)

    assert np.allclose(of_the_mean(True), jax.grad(loss)(w, xs, ys), rtol=1e-5)
    # addressable_data(5) of what counts as replicated is device 0's
    one, *others = (shard.data for shard in of_the_mean(False).addressable_shards)
    assert not any(np.allclose(one, other) for other in others)


@pytest.mark.parametrize(
    ("cell", "program"),
    [
        ("stacked[0]", lambda p: p[0]),
        ("stacked.mean(0)", lambda p: p.mean(0)),
        ("jax.tree.map(lambda p: p[0], {'w': stacked})", lambda p: {"w": p[0]}),
    ],
)
def test_what_is_taken_of_a_stack_moves_what_the_notebook_says(notebook, cell, program):
    assert list(cost(program, notebook["stacked"])) == [notebook["moves"][cell]]


AILMENTS = {
    "ailing_new_params": (AttributeError, "tree_map"),
    "ailing_copies": (AttributeError, "device_put_replicated"),
    "ailing_row_sums": (ValueError, "too long to be compatible"),
    "ailing_centred": (AssertionError, "^$"),
    "ailing_pair_sums": (NotImplementedError, "^$"),
    "ailing_faded": (TypeError, "must have equal types"),
}


@pytest.mark.parametrize("name", AILMENTS)
def test_what_is_brought_to_the_clinic_fails(notebook, name):
    (kind, words), function = AILMENTS[name], notebook[name]
    given = notebook["ailing"][function]
    with jax.set_mesh(notebook["line"]):
        if name == "ailing_copies" and KEEPS_OLD_NAMES:
            with pytest.warns(DeprecationWarning, match="device_put_replicated"):
                assert function().shape == (8, 6)
            return
        with pytest.raises(kind) as raised:
            function(*given)
    assert re.search(words, str(raised.value))
