"""`TrainsFast`: values count first, then budgets, then time; the large program is the small one."""

import re
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
from jax import lax

from autograder.evidence import Design, DesignPlan, Placements, Program, from_json, to_json
from autograder.exercises import Exercise, TrainsFast
from autograder.judge import judge, verdict_as_html, verdict_as_text
from tests.helpers import capture, mesh, sharding

MODES = jax.sharding.AxisType
PLAN = DesignPlan(
    ("w",),
    2,
    "batch",
    (((512, 512), (4096, 512)), ((16, 16), (32, 16)), ((8, 8), (16, 8)), ((48, 48), (160, 48))),
)


def reference(a: Any, b: Any, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """A step of a model of two matrices, in NumPy."""
    off = 2 * (x @ a @ b - y) / len(x)
    return a - x.T @ off @ b.T, b - (x @ a).T @ off


def plain(params: Any, x: Any, y: Any) -> Any:
    """The same step in JAX, as a learner would begin."""

    def loss(params: Any) -> Any:
        return ((x @ params[0]["w"] @ params[1]["w"] - y) ** 2).sum(-1).mean()

    return jax.tree.map(lambda w, d: w - d, params, jax.grad(loss)(params))


def asked(**changes: Any) -> Exercise:
    """An exercise with a `TrainsFast` requirement."""
    requirement = TrainsFast(
        "design", "a step", PLAN, reference,
        lambda rng, shapes: [
            0.3 * rng.standard_normal(shapes[name]).astype(np.float32) for name in PLAN.arguments
        ],
        "TPU v5e", 4 << 20, 10**7, 1_200_000_000, ((1 << 20, 1),), 1000,
    )  # fmt: skip
    return Exercise("11.7", "A step", (replace(requirement, **changes),), ("Think.",))


ROWS = {"w": sharding(x=8), "batch": sharding("x", x=8)}


def verdict(layouts: Any = None, step: Any = plain, **changes: Any) -> Any:
    exercise = asked(**changes)
    evidence = capture(exercise, {"design": (layouts or ROWS, step)}, 1)
    return judge(exercise, from_json(to_json(evidence)), 1)


def test_time_is_computing_and_then_communicating_and_copies_are_counted():
    (found,) = verdict().findings
    share = 10 * 4096 * 512 * 512 / 8  # five products
    sent = 2 * 7 / 8 * 2 * 2 * 512 * 512
    assert found.trade.held == 2 * (2 * 512 * 512 + 2 * 4096 * 512 // 8)
    took = 1e6 * (share / 197e12 + sent / 100e9)
    assert found.trade.costs == pytest.approx(took, abs=1)
    assert found.trade.computing == pytest.approx(1e6 * share / 197e12, abs=1)
    assert found.diagnosis == "waits-for-data"
    assert 0.9 < found.credit < 1


def test_if_only_communication_is_left_to_save_its_largest_item_is_named():
    sizes = (((512, 512), (65_536, 512)), *PLAN.sizes[1:])
    many_rows = msgspec.structs.replace(PLAN, sizes=sizes)
    found = verdict(plan=many_rows, cap=32 << 20, work=21_400_000_000)
    (finding,) = found.findings
    assert 2 * finding.trade.computing > finding.trade.costs
    assert finding.diagnosis == "waits-for-data"
    assert "The largest item of communication is the all-reduce over x" in finding.difference


def test_its_chart_has_both_budgets_and_what_of_the_time_is_computing():
    found = verdict()
    (trade,) = (finding.trade for finding in found.findings)
    assert trade.max_communicating / 1e6 == pytest.approx(trade.max_sent / 100e9)
    page = verdict_as_html(found)
    assert "at most 4,194,304 bytes may be held, and 10,000,000 sent." in page
    assert "of them computing" in page
    assert "shaded: over 10 MiB sent" in page
    assert "over 4 MiB" in page


@pytest.mark.parametrize("mode", [MODES.Auto, MODES.Explicit])
def test_mode_and_order_of_the_devices_do_not_matter(mode):
    turned = jax.sharding.Mesh(np.array(jax.devices())[::-1], ("x",), axis_types=(mode,))
    layouts = {
        "w": jax.NamedSharding(turned, jax.P()), "batch": jax.NamedSharding(turned, jax.P("x"))
    }  # fmt: skip
    found, same = verdict(layouts).findings[0], verdict().findings[0]
    assert found.trade == same.trade


def test_a_mesh_that_somebody_has_set_does_not_matter():
    with jax.set_mesh(mesh(a=4, b=2)):
        assert verdict().findings[0].trade == verdict().findings[0].trade is not None


def test_the_mesh_of_the_layouts_is_the_current_one():
    def step(params, x, y):
        return plain(params, lax.with_sharding_constraint(x, jax.P("x")), y)

    assert verdict(step=step).diagnoses == ("waits-for-data",)


def test_numbers_that_are_equal_at_one_size_only_do_not_make_another_program():
    def own(x):
        whole, device = lax.all_gather(x, "x", tiled=True), lax.axis_index("x")
        count = len(whole) // 8  # at the real size, as many as there are columns
        rows = lax.dynamic_slice_in_dim(whole, device * count, count)
        return lax.dynamic_slice_in_dim(rows, device - device, rows.shape[1], 1)

    def step(params, x, y):
        rows = jax.P("x")
        own_rows = jax.shard_map(own, mesh=mesh(x=8), in_specs=rows, out_specs=rows)
        return plain(params, own_rows(x), y)

    assert verdict(step=step).diagnoses == ("waits-for-data",)


def test_new_parameters_are_brought_to_where_the_old_ones_were():
    cut = {"w": sharding("x", x=8), "batch": sharding("x", x=8)}

    def collected(params, x, y):
        return lax.with_sharding_constraint(plain(params, x, y), sharding(x=8))

    assert verdict(cut, collected).findings[0].trade.held < verdict().findings[0].trade.held
    assert verdict(cut, collected).score > 0


def test_wrong_values_earn_nothing_however_fast():
    found = verdict(step=lambda params, x, y: params)
    assert found.score == 0
    assert found.diagnoses == ("unchanged",)
    assert found.findings[0].trade is None


def test_of_wrong_values_it_is_said_which_parameter_they_are_of():
    def step(params, x, y):
        first, second = plain(params, x, y)
        return [first, {"w": second["w"] + x.sum()}]

    said = verdict_as_text(verdict(step=step))
    assert "Expected: at small sizes, the same new parameters that one device" in said
    assert re.search(
        r"\] of `w` of layer 1 on device \d; it should be .*, for random parameters and a batch of "
        r"shape \(32, 16\) on a mesh of x=8\.",
        said,
    )


def test_numbers_of_fewer_bits_are_asked_about_where_there_are_some():
    def step(params, x, y):
        few = jax.tree.map(lambda w: w.astype(jnp.bfloat16).astype(w.dtype), params)
        return jax.tree.map(lambda w, n: w + n, params, plain(few, x, y))

    found = verdict(step=step)
    assert found.diagnoses == ("coarser-type",)
    assert "some of the program computes in bfloat16. Is that why?" in verdict_as_text(found)


def test_values_that_are_right_at_one_small_size_alone_are_wrong():
    def step(params, x, y):
        params = plain(params, x, y)
        return [{"w": layer["w"] * (1 + (len(x) == 16))} for layer in params]

    found = verdict(step=step)
    assert found.diagnoses == ("only-the-first",)
    said = verdict_as_text(found)
    assert (
        "The values are right for random parameters and a batch of shape (32, 16) on a mesh of x=8."
    ) in said


def test_beyond_a_budget_nothing_is_earned():
    assert verdict(cap=1 << 20).diagnoses == ("over-the-cap",)
    found = verdict(sends=1_000_000)
    assert (found.diagnoses, found.score) == (("sends-too-much",), 0)
    assert "may send 977 KiB; here it sends 1,792 KiB, 1,792 KiB of it by all-reduce over x." in (
        verdict_as_text(found)
    )


def test_who_does_all_of_the_work_everywhere_is_told_so():
    assert verdict({"w": sharding(x=8), "batch": sharding(x=8)}, cap=1 << 30).diagnoses == (
        "works-too-much",
    )


def test_less_work_than_there_is_cannot_be():
    assert verdict(work=2_000_000_000).diagnoses == ("too-little-work",)


@pytest.mark.parametrize(
    "step",
    [
        lambda params, x, y: params if len(x) > 100 else plain(params, x, y),
        lambda params, x, y: plain(
            params, lax.with_sharding_constraint(x, jax.P("x" if len(x) > 100 else None)), y
        ),
    ],
    ids=["nothing", "another layout"],
)
def test_another_program_at_the_real_size_is_refused(step):
    found = verdict(step=step)
    assert found.diagnoses == ("another-program",)
    assert found.score == 0
    (said,) = (finding.difference for finding in found.findings if not finding.met)
    lines = {*map(int, re.findall(r"\(line (\d+)\)", said))}
    assert lines <= {line for f in (plain, step) for line in lines_of(f.__code__)}, "a line of ours"


def lines_of(code):
    """Return the numbers of a function's lines, and of those in it."""
    inner = [each for each in code.co_consts if hasattr(each, "co_lines")]
    own = {line for *_, line in code.co_lines() if line}
    return own.union(*map(lines_of, inner))


def test_a_program_of_its_own_at_the_second_small_size_is_refused():
    def step(params, x, y):
        return plain(params, x * 1.0 if len(x) == 16 else x, y)

    assert verdict(step=step).diagnoses == ("another-program",)


def test_a_loop_of_unknown_length_has_no_time():
    def step(params, x, y):
        turns = lax.while_loop(lambda n: n < x[0, 0] * 0 + 1, lambda n: n + lax.psum(1, ()), 0.0)
        return plain(params, x * turns, y)

    assert verdict(step=step).diagnoses[0] in ("unknown-times", "fails")


@pytest.mark.parametrize(
    ("layouts", "step", "diagnosis"),
    [
        ({"w": ..., "batch": ...}, plain, "unanswered"),
        (ROWS, lambda params, x, y: ..., "unanswered"),
        ({"w": ROWS["w"]}, plain, "other-names"),
        ({**ROWS, "batch": sharding(("x", "y"), x=4, y=2)}, plain, "several-meshes"),
        ({"w": sharding("x", x=8), "batch": sharding(None, None, x=8)}, 3, "not-a-function"),
        ([ROWS["w"]] * 2, plain, "not-a-dictionary"),
        (ROWS, lambda params, x, y: (1.0, params), "not-the-parameters"),
        (ROWS, lambda params, x, y: [{"w": x}, {"w": x}], "not-the-parameters"),
        (ROWS, lambda params, x, y: plain, "returns-a-function"),
        (ROWS, lambda params, x, y: jnp.dot(x, y), "blocks-do-not-fit"),
    ],
    ids=range(10),
)
def test_what_is_no_design_is_refused_in_a_sentence(layouts, step, diagnosis):
    found = verdict(layouts, step)
    assert found.fault is None
    assert found.diagnoses == (diagnosis,)
    assert found.score == 0


def test_forged_pieces_are_told_from_answers():
    exercise = asked()
    evidence = capture(exercise, {"design": (ROWS, plain)}, 1)
    piece = evidence.answers["design"]
    assert isinstance(piece, Design)
    large, small, other, beside = piece.step.artifacts
    for layouts, artifacts in (
        (piece.layouts, (large, small)),
        (piece.layouts, (small, small, other, beside)),
        (piece.layouts, (b"", b"", b"", b"")),
        (piece.layouts, (large, small, other, other)),
        (piece.layouts, (large, other, small, beside)),
        (Placements(piece.layouts.parts[:1]), piece.step.artifacts),
        (Placements(piece.layouts.parts[::-1]), piece.step.artifacts),
    ):
        forged = msgspec.structs.replace(
            evidence, answers={"design": Design(layouts, Program(artifacts))}
        )
        found = judge(exercise, forged, 1)
        assert found.fault is None
        assert found.score < verdict().score
