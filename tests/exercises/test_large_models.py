"""Notebook 12's numbers follow from published ones, and made-up answers earn nothing."""

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from jax import P

from autograder.artifacts import measure_backward, run_pipeline
from autograder.evidence import capture
from autograder.exercises import EXERCISES, FitsIn, RecomputesAtMost, SavesAtMost
from autograder.exercises.notebooks import nb12_planning as planning
from autograder.exercises.notebooks import nb12_programs as programs
from autograder.judge import judge, lesson_on
from autograder.judge.comparing_values import compare
from shardlings import communication
from tests.exercises.solutions import session_for, solution_of

SEEDS = range(20)


def cases(exercise, answer, seed):
    asked: Any = next(r for r in EXERCISES[exercise].requirements if r.answer == answer)
    return asked.cases(EXERCISES[exercise].generator(seed))


def solved(exercise, answer):
    names = dict(session_for(exercise).names)
    exec(solution_of(exercise), names)
    return names[answer]


# 12.1


def test_an_all_reduce_by_doubling_that_is_played_takes_its_steps():
    n, sums, steps = 8, {d: {d} for d in range(8)}, 0
    while any(len(added) < n for added in sums.values()):
        sums = {d: sums[d] | sums[d ^ 2**steps] for d in sums}
        steps += 1
    assert planning.DOUBLING(n, 0, latency=1, bandwidth=1) == steps
    assert planning.DOUBLING(n, 10, latency=0, bandwidth=1) == 10 * steps


@pytest.mark.parametrize("n", [4, 8, 64])
def test_from_its_size_on_a_ring_is_the_fastest(n):
    size = planning.RING_FROM(n, 2e-6, 1e11)
    for factor, is_fastest in ((0.99, False), (1.01, True)):
        ring, *others = (
            way(n, factor * size, 2e-6, 1e11)
            for way in (planning.RING, planning.DOUBLING, planning.EXCHANGE)
        )
        assert (ring < min(others)) is is_fastest


# 12.2


def test_an_open_row_gathers_in_the_time_that_the_scaling_book_says():
    assert planning._gather(4, 2048 * 8192 * 2, 4.5e10, wraps=False) == pytest.approx(
        560e-6, rel=0.01
    )


@pytest.mark.parametrize("n", [4, 8, 16])
def test_pieces_that_are_passed_on_arrive_in_the_time_of_the_formula(n):
    """Play an open row: in each step, every chip passes on the newest piece in each direction."""
    held = [{chip} for chip in range(n)]
    steps = 0
    while any(len(pieces) < n for pieces in held):
        steps += 1
        right = [{chip - steps + 1} & set(range(n)) for chip in range(n)]
        left = [{chip + steps - 1} & set(range(n)) for chip in range(n)]
        for chip in range(n):
            held[chip] |= right[chip - 1] if chip else set()
            held[chip] |= left[chip + 1] if chip < n - 1 else set()
    assert planning._gather(n, n, 1.0, wraps=False) == steps


def test_two_levels_send_a_piece_over_the_slow_network():
    flat, two = (f(2, 8, 1e9, 1e15, 1e9) for f in (planning.FLAT, planning.TWO_LEVELS))
    assert two == pytest.approx(1 / 8, rel=1e-3)
    assert flat == pytest.approx(2 * 15 / 16)


@pytest.mark.parametrize("answer", ["flat", "two_levels"])
def test_it_follows_from_the_clusters_how_often_each_term_counts(answer):
    """The first three are alike, and no two of them have the same ratio of bandwidths."""
    for seed in SEEDS:
        alike = cases("12.2", answer, seed)[:3]
        assert {case[:2] for case in alike} == {(4, 8)}
        low, middle, high = sorted(fast / slow for *_, fast, slow in alike)
        assert middle > 2 * low
        assert high > 2 * middle


# 12.3


def test_with_four_times_as_many_microbatches_the_bubble_is_below_a_fifth():
    assert all(planning._bubble(p, 4 * p) < 1 / 5 for p in range(1, 100))


@pytest.mark.parametrize("seed", SEEDS)
def test_schedules_are_as_short_as_any_and_their_bubble_is_the_formula(seed):
    schedule = solved("12.3", "one_f_one_b")
    for stages, microbatches in cases("12.3", "one_f_one_b", seed):
        ran = run_pipeline(schedule(stages, microbatches))
        assert ran.total == planning._shortest(stages, microbatches)
        assert ran.bubble == pytest.approx(planning._bubble(stages, microbatches))
        assert ran.alive == [min(stages - s, microbatches) for s in range(stages)]


def test_the_sizes_that_are_tried_are_few_and_many():
    tried = [case for seed in SEEDS for case in cases("12.3", "gpipe", seed)]
    assert any(m < p for p, m in tried)
    assert any(m > 2 * p for p, m in tried)
    assert len({*tried}) > 20


# 12.4


def test_a_device_holds_what_the_paper_on_zero_says():
    gigabytes = [planning.HELD(level, 7.5e9, 64) / 1e9 for level in range(4)]
    assert gigabytes == pytest.approx([120, 31.4, 16.6, 1.9], rel=0.02)


def test_each_level_needs_less_memory_than_the_one_before_allows():
    """A step of one level does not pass as the next."""
    names = dict(session_for("12.4").names)
    exec(solution_of("12.4"), names)
    limits = {r.answer: r.bytes[0] for r in EXERCISES["12.4"].requirements if isinstance(r, FitsIn)}
    with jax.set_mesh(names["data"]):
        layouts = {"zero_1": P(), "zero_2": P(), "zero_3": P("data")}
        peaks = {
            name: communication(names[name], *names["described"](spec, P("data"))).peak_bytes
            for name, spec in layouts.items()
        }
    assert all(1.08 * peaks[name] < limits[name] for name in limits)
    assert peaks["zero_1"] > limits["zero_2"]
    assert peaks["zero_2"] > limits["zero_3"]


# 12.5


def test_chunks_at_both_ends_are_the_same_work_as_the_scores_of_a_causal_mask():
    n, length = 4, 6
    place = np.arange(2 * n * length)
    scores = (place[:, None] >= place[None, :]).reshape(2 * n, length, -1).sum((1, 2))
    pairs = {c: c + 0.5 for c in range(2 * n)}
    work = {scores[c] + scores[2 * n - 1 - c] for c in range(n)}
    assert len(work) == 1
    assert len({pairs[c] + pairs[2 * n - 1 - c] for c in range(n)}) == 1
    assert programs.explain_zigzag([[c, 2 * n - 1 - c] for c in range(n)], n) is None


@pytest.mark.parametrize(
    "chunks",
    [None, 3, [], [[0, 1]], [[0, 3], [1]], [[0, 3], [1, 1]], [[0, 1], [2, 3]], [["a", 0]] * 2],
)
def test_other_chunks_are_refused(chunks):
    assert programs.explain_zigzag(chunks, 2) is not None


def test_the_scores_of_all_keys_do_not_fit():
    names = session_for("12.5").names
    (limit,) = (r for r in EXERCISES["12.5"].requirements if isinstance(r, FitsIn))
    with jax.set_mesh(names["line"]):
        tokens = names["tokens"]
        assert communication(names["attention"], *3 * (tokens,)).peak_bytes > limit.bytes[0]
        mine = communication(solved("12.5", "ring_attention"), *3 * (tokens,))
        assert 2 * mine.peak_bytes < limit.bytes[0]


# 12.6


def partitions(layers):
    if not layers:
        yield []
    for first in range(1, layers + 1):
        yield from ([first, *rest] for rest in partitions(layers - first))


@pytest.mark.parametrize("seed", range(3))
def test_no_choice_of_buckets_is_better_than_the_best(seed):
    for case in cases("12.6", "bucketed", seed):
        if len(case[0]) < 10:
            ends = (planning._end(*case, buckets=buckets) for buckets in partitions(len(case[0])))
            assert min(ends) == pytest.approx(planning.shortest_overlap(*case))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_buckets_are_of_all_kinds(seed):
    models = cases("12.6", "bucketed", seed)[5:]
    one, each, mixed = (planning.choose_buckets(*model)[1] for model in models)
    assert (one, each) == ([12], [1] * 12)
    assert sorted(mixed) not in (mixed, mixed[::-1])


@pytest.mark.parametrize("seed", range(3))
def test_who_never_tries_some_kind_of_buckets_is_wrong(seed):
    kinds = {
        "one bucket": lambda buckets: len(buckets) > 1,
        "a bucket for each": lambda buckets: len(buckets) < sum(buckets),
        "the last two layers apart": lambda buckets: buckets[-1] > 1,
        "more than four in one": lambda buckets: max(buckets) < 5,
        "shrinking ones": lambda buckets: buckets == sorted(buckets),
    }
    models = cases("12.6", "bucketed", seed)
    for kind, is_tried in kinds.items():
        best = [
            min(filter(is_tried, partitions(len(m[0]))), key=partial(end_of, m)) for m in models
        ]
        wrong = (planning.explain_buckets_chosen(b, *m) for b, m in zip(best, models, strict=True))
        assert any(wrong), kind


def end_of(model, buckets):
    return planning._end(*model, buckets=buckets)


@pytest.mark.parametrize("seed", SEEDS)
def test_buckets_of_one_size_never_pass(seed):
    for backward, sizes, latency, bandwidth in cases("12.6", "bucketed", seed)[:5]:
        for share in (0.1, 0.2, 0.3, 0.5, 1):
            buckets = planning.fill_buckets(sizes, share * sum(sizes))
            model = backward, sizes, latency, bandwidth
            assert planning.explain_buckets_chosen(buckets, *model) is not None


@pytest.mark.parametrize("seed", SEEDS)
def test_right_buckets_pass_whatever_is_sampled(seed):
    bucketed = solved("12.6", "bucketed")
    for case in cases("12.6", "bucketed", seed):
        assert planning.explain_buckets_chosen(bucketed(*case), *case) is None


# 12.7


def test_the_trainer_as_it_is_given_trains_and_has_the_four_bugs():
    names = session_for("12.7").names
    with jax.set_mesh(names["grid"]):
        params, losses = names["start"](0), []
        for step in range(30):
            params, loss = names["train_step"](params, step, *names["sampled"](step))
            losses.append(float(loss))
    assert losses[-1] < losses[0] / 2
    answers = {name: names[name] for name in ("dropout", "mean_error", "gradient")}
    exercise = EXERCISES["12.7"]
    evidence = capture(exercise.plan(0), {"w_out": names["start"](0)["w_out"], **answers})
    verdict = judge(exercise, evidence, 0)
    assert verdict.score == 0
    bugs = ("replicated", "same-everywhere", "mean-of-means", "summed-twice")
    assert verdict.diagnoses == bugs


# 12.8


def test_the_block_of_the_notebook_is_that_of_the_judge():
    names = session_for("12.8").names
    arrays = names["arrays_for_block"]()
    np.testing.assert_allclose(
        names["block"](*arrays), programs._block()(*arrays), rtol=1e-4, atol=1e-4
    )


def test_a_policy_that_meets_a_limit_of_activations_is_not_free_of_the_other():
    names = session_for("12.8").names
    arrays, block = names["arrays_for_block"](), names["block"]
    kept, again = (measure_backward(each, *arrays) for each in (block, jax.checkpoint(block)))
    for requirement in EXERCISES["12.8"].requirements:
        if isinstance(requirement, SavesAtMost):
            assert again.bytes <= requirement.bytes[0] < kept.bytes
        elif isinstance(requirement, RecomputesAtMost):
            assert kept.flops <= requirement.flops[0] < again.flops


# 12.9


def test_the_notebook_counts_the_tokens_that_are_dropped_as_the_judge_does():
    names = session_for("12.9").names
    counted = np.maximum(names["counts"] - 4, 0).sum()
    assert counted == programs._count_dropped(programs._is_kept)(np.asarray(names["scores"]))


@pytest.mark.parametrize("seed", SEEDS)
def test_tokens_are_dropped_and_places_stay_empty_whatever_is_sampled(seed):
    generator = np.random.default_rng(seed)
    for n, tokens, *_, experts in programs.LAYERS_OF_EXPERTS:
        chosen = generator.standard_normal((n, tokens // n, experts)).argmax(-1)
        counts = np.array([np.bincount(own, minlength=experts) for own in chosen])
        assert counts.min() < tokens // n // experts < counts.max()


# 12.10


@pytest.mark.parametrize("increment", [1.0, 0.75, 1.25, 0.0078125, 3e-4, 100.0])
def test_a_sum_that_is_rounded_stops_where_the_formula_says(increment):
    increment = float(programs._round(increment))
    total = np.float32(0)
    while (more := np.float32(programs._round(total + np.float32(increment)))) != total:
        total = more
    assert total == programs._stalls_at(8)(increment)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sum_in_bfloat16_is_further_off_than_sending_the_sum_in_bfloat16(seed):
    """An answer that sends bfloat16 is right, and one that adds up in bfloat16 is not."""
    generator = np.random.default_rng(seed)
    for sizes in (sizes for sizes in programs.SHORT_STEPS if sizes[3] > 100):
        inputs = [each.sample(generator) for each in programs._short_step_arguments(*sizes)]
        right = programs._moved()(*inputs)
        update = inputs[0] - right
        sent = inputs[0] - np.float32(programs._round(update)) * np.float32(1 + 2**-8)
        assert compare(programs._moved(), inputs, [jax.device_put(sent)]) is None
        for order in (1, -1):
            added_up = partial(programs._added_up_in_bfloat16, order=order)
            stalled = jax.device_put(added_up(*inputs))
            assert compare(programs._moved(), inputs, [stalled]) is not None
        n = sizes[0]
        rolled = inputs[0] - np.roll(update, len(update) // n, axis=0)
        assert compare(programs._moved(), inputs, [jax.device_put(rolled)]) is not None


# what verdicts draw


def drawn(exercise, answer, *case):
    draws = (
        getattr(r, "draw", None) for r in EXERCISES[exercise].requirements if r.answer == answer
    )
    (draw,) = filter(None, draws)
    return draw(*case)


def test_a_schedule_is_drawn_beside_the_right_one():
    one_by_one = [["F0", "B0", "F1", "B1"]] * 2
    yours, expected = drawn("12.3", "one_f_one_b", one_by_one, 2, 2)
    assert yours.end > expected.end == planning._shortest(2, 2)
    assert [yours.title, expected.title] == ["yours", "expected"]
    assert drawn("12.3", "gpipe", [["F0"]], 2, 2) == ()


@pytest.mark.parametrize("order", [planning.order_gpipe, planning.order_one_f_one_b])
def test_the_schedules_that_are_drawn_are_right(order):
    explain = (
        planning.explain_gpipe if order is planning.order_gpipe else planning.explain_one_f_one_b
    )
    sizes = [(p, m) for p in range(1, 6) for m in range(1, 8)]
    assert not [size for size in sizes if explain(order(*size), *size)]


MODEL = [1.5, 1.0, 2.0, 1.0, 1.5, 1.0], [60, 20, 40, 20, 30, 10], 1.0, 30.0


def test_an_overlap_is_drawn_beside_the_best():
    yours, best = drawn("12.6", "bucketed", [6], *MODEL)
    assert yours.end > best.end == pytest.approx(planning.shortest_overlap(*MODEL))
    (chart,) = drawn("12.6", "exposed", 5.0, MODEL[0], MODEL[1], [2, 2, 2], *MODEL[2:])
    (right,), (own,) = chart.bars["exposed"], chart.bars["yours"]
    assert (right.start, right.end, own.end) == pytest.approx((8, 11.5, 13))
    for each in (yours, chart):
        assert "“computing” are layers, those beside “reducing” buckets" in each.remarks[-1]


def test_a_time_that_is_much_too_long_is_cut_off_in_the_chart():
    case = 2, 8, 1e9, 450e9, 12.5e9
    right = planning.FLAT(*case)
    (chart,) = drawn("12.2", "flat", 10 * right, *case)
    (own,) = chart.bars["yours"]
    assert own.end == pytest.approx(1e4 * right)
    assert own.is_cut_off
    assert chart.end == pytest.approx(planning.MAX_DRAWN * 1e3 * right)


@pytest.mark.parametrize("wraps", [True, False])
def test_pieces_arrive_at_a_chip_for_as_long_as_gather_says(wraps):
    (chart,) = drawn("12.2", "gather", 0.001, 8, 8e6, 1e9, wraps)
    sides = [chart.bars[f"from {which}"] for which in ("one side", "the other")]
    assert max(bar.end for bars in sides for bar in bars) == pytest.approx(
        1e3 * planning._gather(8, 8e6, 1e9, wraps)
    )
    assert {int(bar.label) for bars in sides for bar in bars} == set(range(7))


@pytest.mark.parametrize("answer", ["flat", "two_levels"])
def test_the_steps_of_an_all_reduce_end_when_it_does(answer):
    case = 2, 8, 1e9, 450e9, 12.5e9
    right = {"flat": planning.FLAT, "two_levels": planning.TWO_LEVELS}[answer](*case)
    (chart,) = drawn("12.2", answer, 2 * right, *case)
    steps = [bar for name, bars in chart.bars.items() if name != "yours" for bar in bars]
    assert max(bar.end for bar in steps) == pytest.approx(1e3 * right)
    assert chart.bars["yours"][0].end == pytest.approx(2e3 * right)


def routed(change):
    """Draw the routing of a layer whose result is changed."""
    generator = np.random.default_rng(0)
    inputs = [
        each.sample(generator)
        for each in programs._expert_arguments(*programs.LAYERS_OF_EXPERTS[0])
    ]
    return inputs, drawn("12.9", "moe", inputs, [change(programs.MOE(*inputs), *inputs)])


def test_a_routing_is_drawn_for_a_device_with_a_wrong_token():
    def keep_all(right, x, scores, up, down):
        return programs._moe(programs._all_kept)(x, scores, up, down)

    inputs, (yours, expected) = routed(keep_all)
    kept = programs._is_kept(inputs[1])[:64]
    bars = [bar for bars in expected.bars.values() for bar in bars]
    assert {bar.name for bar in bars} <= {
        f"token {t} {'kept' if kept[t] else 'dropped'}" for t in range(64)
    }
    wrong = {bar.name for bars in yours.bars.values() for bar in bars if "wrong" in bar.name}
    assert wrong == {bar.name.replace("dropped", "wrong") for bar in bars if "dropped" in bar.name}
    for chart in (yours, expected):  # a title says what is drawn, and the legend what colours mean
        assert {bar.colour for bars in chart.bars.values() for bar in bars} == {
            colour for colour, _ in chart.legend
        }
        assert len(chart.title) < 60
    assert routed(lambda right, *_: right[:, :3])[1] == ()


def test_both_charts_of_a_routing_say_what_their_numbers_are_and_which_experts_are_shown():
    def change_tokens(count):
        return routed(lambda right, *_: right * (np.arange(len(right)) >= count)[:, None])

    inputs, charts = change_tokens(64)
    wrong = len({*programs.MOE(*inputs)[:64].any(1) * (inputs[1][:64].argmax(1) + 1)} - {0})
    assert wrong > programs.MAX_DRAWN_EXPERTS
    for chart in charts:
        assert chart.remarks == (
            "The numbers in the boxes are tokens of device 0. Shown: "
            f"4 of the {wrong} experts whose rows are wrong in yours.",
        )
    first = int(programs.MOE(*inputs).any(1).argmax())
    for chart in change_tokens(first + 1)[1]:
        (remark,) = chart.remarks
        assert remark.endswith("Shown: the expert whose rows are wrong in yours.")


def test_the_counts_that_are_drawn_are_all_tokens():
    generator = np.random.default_rng(0)
    scores = programs._expert_arguments(*programs.LAYERS_OF_EXPERTS[1])[1].sample(generator)
    (chart,) = drawn("12.9", "dropped", [scores], [np.int32(0)])
    assert [bars[-1].end for bars in chart.bars.values()] == [102] * 4
    dropped = programs._count_dropped(programs._is_kept)(scores)
    assert sum(bars[1].end - bars[1].start for bars in chart.bars.values()) == dropped


# what the verdict on a schedule says


def test_a_verdict_on_gpipe_speaks_of_no_warm_up():
    for diagnosis in ("forward-missing", "job-missing", "unknown-job", "never-ends", "job-twice"):
        assert "warm-up" not in lesson_on(EXERCISES["12.3"], "gpipe", diagnosis)


def test_a_schedule_that_waits_says_how_many_forward_passes_come_first():
    problem = planning.explain_one_f_one_b([["F0", "B0", "F1", "B1"]] * 2, 2, 2)
    assert problem is not None
    assert problem[1].endswith(
        "The stages run 1, 1 forward passes before their first backward pass."
    )


# forged results


FORGED: list[Any] = [
    None, True, 3, -1.5, "nan", "F0 B0", {}, {"of type": "list"}, [], [None], [[]], [[], []],
    [True, True, True], [0, 3], [1e300], [-1, 4], [["F0", "B0"]] * 3, [[["F0"]]],
    [[0, 1], [2, "3"]],
    ["F0"] * 10_000, [[1] * 10_000] * 3, [["F0"] * 10_000] * 2,
]  # fmt: skip
"""Results that JSON can carry, and that no right function returns."""


@pytest.mark.parametrize("forged", FORGED, ids=range(len(FORGED)))
def test_forged_results_are_explained_and_earn_nothing(forged):
    model = [1.0, 1.0, 2.0], [4, 4, 4], 1.0, 4.0
    for answer, case in (
        ("gpipe", (2, 2)), ("one_f_one_b", (2, 2)), ("bucketed", model),
        ("exposed", (*model[:2], [2, 1], *model[2:])), ("gather", (4, 1024, 1e9, True)),
        ("flat", (2, 4, 1024, 1e9, 1e8)), ("two_levels", (2, 4, 1024, 1e9, 1e8)),
    ):  # fmt: skip
        exercise = (
            "12.3"
            if answer in ("gpipe", "one_f_one_b")
            else ("12.6" if answer in ("bucketed", "exposed") else "12.2")
        )
        assert len(drawn(exercise, answer, forged, *case)) <= 2
    problems = (
        planning.explain_gpipe(forged, 2, 2),
        planning.explain_one_f_one_b(forged, 2, 2),
        planning.explain_buckets_chosen(forged, *model),
        programs.explain_zigzag(forged, 2),
    )
    for problem in problems:
        assert problem is not None
        diagnosis, sentence = problem
        assert diagnosis
        assert sentence.endswith(".")
        assert len(sentence) < 300


def test_buckets_are_in_the_opposite_order_only_where_all_would_be_right_in_the_other():
    models = planning._sample_backward_passes(np.random.default_rng(0))
    turned = [(planning.choose_buckets(*model)[1][::-1], model) for model in models]
    assert planning._relate_choices("opposite-order", models[0], turned) == "opposite-order"
    by_chance = [turned[0], ([1] * len(models[1][0]), models[1])]
    assert planning._relate_choices("opposite-order", models[0], by_chance) == "exposed"
    assert planning._relate_choices("one-bucket", models[0], by_chance) == "one-bucket"
