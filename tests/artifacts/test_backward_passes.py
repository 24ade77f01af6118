"""A backward pass gets what the forward pass returned, and nothing else."""

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest

from autograder.artifacts import Argument, ProgramError, export_passes, measure_backward, run_passes

MESH = (("data", 1),)
ARGUMENTS = (Argument((8, 4), MESH, mode="auto"), Argument((4, 4), MESH, mode="auto"))
X, W = (np.random.default_rng(0).standard_normal(a.shape).astype(np.float32) for a in ARGUMENTS)


def layer(x, w):
    return jnp.sin(x @ w)


def run(artifact):
    return run_passes(artifact, ARGUMENTS, [[X, W]], seed=1)


def spliced(first, second):
    """Return the forward pass of one function with the backward pass of another."""
    (forward, _), (_, backward) = (
        msgspec.msgpack.decode(export_passes(each, ARGUMENTS)) for each in (first, second)
    )
    return msgspec.msgpack.encode((forward, backward))


def test_both_passes_give_the_value_and_the_gradients():
    ran = run(export_passes(layer, ARGUMENTS))
    ((_, _, of_value),) = ran.samples
    value, pull_back = jax.vjp(layer, X, W)
    for got, wanted in zip(ran.ran.outputs[0], (value, *pull_back(of_value)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_arguments_do_not_count_and_what_is_kept_twice_counts_once():
    (cosine,) = measure_backward(layer, X, W).saved
    assert cosine.shape == (8, 4)
    assert measure_backward(jax.checkpoint(layer), X, W).bytes == 0
    twice = measure_backward(lambda x, w: layer(x, w) * (1 + layer(x, w)), X, W)
    assert len({each.shape for each in twice.saved}) < len(twice.saved) <= 4


def test_a_rearranged_argument_counts_because_its_order_can_hold_data():
    def rearranged(x, w):
        return jnp.sum(jnp.sin(x[::-1]) ** 2 + x[::-1] ** 3) * w

    assert measure_backward(rearranged, X, W).bytes >= X.nbytes


def test_signs_of_zeros_count_because_they_can_hold_data():
    @jax.custom_vjp
    def negative(x, w):
        return x @ w

    def forward(x, w):
        zeros = jnp.zeros_like(x)
        return x @ w, (zeros, jnp.where(jnp.sin(x) < 0, -zeros, zeros))

    def backward(kept, of_value):
        return (jnp.signbit(kept[1]) + kept[0]) * of_value, jnp.zeros(W.shape)

    negative.defvjp(forward, backward)
    assert measure_backward(negative, X, W).bytes == 2 * X.nbytes


def test_computing_again_is_work_of_the_backward_pass():
    kept, again = (measure_backward(each, X, W) for each in (layer, jax.checkpoint(layer)))
    assert again.flops - kept.flops >= 2 * X.size * W.shape[1]


def test_a_backward_pass_cannot_use_what_the_forward_pass_did_not_return():
    with pytest.raises(ProgramError, match="other arguments"):
        run(spliced(jax.checkpoint(layer), layer))


def test_gradients_that_were_computed_beforehand_are_right_for_one_seed_alone():
    (_, *known), *_ = run(export_passes(layer, ARGUMENTS)).ran.outputs

    @jax.custom_vjp
    def knowing(x, w):
        return layer(x, w)

    knowing.defvjp(lambda x, w: (layer(x, w), None), lambda *_: tuple(map(jnp.asarray, known)))
    artifact = export_passes(knowing, ARGUMENTS)
    for seed, is_right in ((1, True), (2, False)):
        (_, *forged), *_ = run_passes(artifact, ARGUMENTS, [[X, W]], seed).ran.outputs
        honest = run_passes(export_passes(layer, ARGUMENTS), ARGUMENTS, [[X, W]], seed)
        (_, *right), *_ = honest.ran.outputs
        assert all(map(np.allclose, forged, right)) == is_right


@pytest.mark.parametrize("forged", [b"", b"x", msgspec.msgpack.encode((b"", b"")), b"\x92\x01\x02"])
def test_a_forged_artifact_is_refused(forged):
    with pytest.raises(ProgramError):
        run(forged)


def test_a_function_has_to_return_one_array():
    with pytest.raises(ProgramError, match="expected one array"):
        export_passes(lambda x, w: (x, w), ARGUMENTS)
