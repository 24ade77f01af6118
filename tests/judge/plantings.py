"""Functions of ours that are made to raise an error, each with a check that calls it."""

from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import isgeneratorfunction, signature
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from autograder import exercises
from autograder.exercises import Exercise
from autograder.exercises.notebooks import nb11_capstone
from autograder.judge import (
    CommunicatesAtMost,
    Finding,
    KeepsLayouts,
    OnProcesses,
    Predicts,
    Resumes,
    RunsFast,
    Satisfies,
    TrainsFast,
    requirements_on_given_functions,
)
from autograder.processes.disks import RowsDisk
from autograder.processes.running_time import IdleTimer
from shardlings import communication, show
from shardlings.layouts import Layout
from shardlings.programs import Report
from shardlings.programs.compiled.hlo import Convolution, Instruction
from shardlings.programs.requested.live_operations import Liveness
from tests.helpers import sharding

X = np.arange(256, dtype=np.float32).reshape(16, 16)
Answers = dict[str, Any]


def strips() -> Answers:
    """Return the right answer to 1.1."""
    return {"columns": jax.device_put(X, sharding(None, "x", x=8))}


def unplaced() -> Answers:
    """Return a NumPy array for 1.1."""
    return {"columns": X}


def rows() -> Answers:
    """Return an answer with the usual mistake in 1.1."""
    return {"columns": jax.device_put(X, sharding("x", x=8))}


def slabs() -> Answers:
    """Return wrong layouts for 1.8."""
    names = exercises.find("1.8").answers
    return dict.fromkeys(names, jax.device_put(np.ones((16, 16, 16)), sharding(None, "x", x=8)))


def ruled() -> Answers:
    """Return a rule for 13.1 that replicates everything."""
    return {"rule": lambda path, shape, sizes: jax.P()}


def functions() -> Answers:
    """Return functions for 1.7 that return something."""
    return dict.fromkeys(("shard_shape", "bytes_total", "holders"), lambda *_: 0)


def rooflines() -> Answers:
    """Return functions for 14.1 that return something."""
    return dict.fromkeys(exercises.find("14.1").answers, lambda *_: 0)


def local_transform() -> Answers:
    """Return the right answer to 10.2."""
    cut = jax.P("x", "y")
    return {"fft_last": jax.shard_map(jnp.fft.fft, in_specs=cut, out_specs=cut)}


def gathers() -> Answers:
    """Return the right answer to 11.4."""

    def to_host(x: jax.Array) -> np.ndarray:
        copies = jax.NamedSharding(x.sharding.mesh, jax.P())  # type: ignore[attr-defined]
        return np.asarray(jax.device_put(x, copies))

    return {"to_host": to_host}


def gathers_zeros() -> Answers:
    """Return a wrong answer to 11.4."""
    return {"to_host": lambda x: np.zeros(x.shape, x.dtype)}


def reads_rows() -> Answers:
    """Return a function for 11.3 that reads a row."""
    return {"make_array": lambda sharding, rows: rows[0]}


def raises() -> Answers:
    """Return functions for 1.7 that raise an error."""
    return dict.fromkeys(("shard_shape", "bytes_total", "holders"), lambda *_: [][0])


def looks() -> Answers:
    """Return functions for 1.7 that also call `show` and `communication`."""

    def look(*_: object) -> int:
        x = jax.device_put(X, sharding("x", x=8))
        show(x, values=True)
        show(x.sharding.mesh, figure=True)
        report = communication(lambda x: x.sum(0), x, steps=True, scaled={16: 1 << 16})
        drawn = report.roofline("rows")
        communication(lambda x: lax.scan(lambda c, _: (jnp.convolve(c, c, "same"), None),
                                         x[0], None, length=2)[0], x)  # fmt: skip
        return len(str(report) + report._repr_html_() + drawn._repr_html_())

    return dict.fromkeys(("shard_shape", "bytes_total", "holders"), look)


def turned() -> Answers:
    """Return the right answer to 3.1."""
    blocks = sharding("y", "x", x=4, y=2)
    return {"turned": lambda x: lax.with_sharding_constraint(jnp.sin(x), blocks)}


def unlike() -> Answers:
    """Return functions for 1.7 whose results have no known mistake."""
    names = ("shard_shape", "bytes_total", "holders")
    return dict.fromkeys(names, lambda *given: len(repr(given)))


def mistaken() -> Answers:
    """An answer to 3.1 whose values are wrong in a way that has no name."""
    return {"turned": jnp.tan}


def refused() -> Answers:
    """A function for 3.1 that JAX refuses."""
    return {"turned": lambda x: lax.with_sharding_constraint(x, jax.P("nowhere"))}


def unfitting() -> Answers:
    """A function for 3.1 with a matmul whose operands do not fit together."""
    return {"turned": lambda x: x @ x[1:]}


def summed() -> Answers:
    """The right numbers for 3.4."""
    return {"spread_sum": lambda x: x.sum(0)}


def innocent() -> Answers:
    """The right numbers for 0.1."""
    return {"repaired": lambda m: m + m.T}


def doubled() -> Answers:
    """An answer to 6.6: twice the product of the blocks that a device has from the start."""

    def cannon(a, b):
        spec = jax.P("x", "y")
        return jax.shard_map(lambda a, b: 2 * (a @ b), in_specs=(spec,) * 2, out_specs=spec)(a, b)

    return {"cannon": cannon}


def iterate() -> Answers:
    """An answer to 6.9, with a loop and a collective, that shows what a device holds."""

    def iterate(a, v):
        def body(a, v):
            show(v)
            v, _ = lax.scan(lambda v, _: (jnp.tanh(a @ v / 4), None), v, None, length=5)
            return lax.psum(v.sum(), "x") / (v.size * lax.axis_size("x"))

        spec = jax.P(None, "x")
        return jax.shard_map(body, in_specs=(jax.P(), spec), out_specs=jax.P())(a, v)

    return {"iterate": iterate}


def audit() -> Answers:
    """Answers to 2.7."""
    return {"audit": {"bytes": 2816, "spec": jax.P()}, "cheap": sharding(None, "x", x=8)}


def trades() -> Answers:
    """Shardings for 6.8 that move something."""
    return dict.fromkeys(("roomy", "tight"), [sharding("x", "y", x=4, y=2)] * 4)


def chained() -> Answers:
    """Shardings for 6.8, for which one change saves much."""
    rows = [sharding(axis, x=4, y=2) for axis in ("x", "y", "x", "y")]
    return {"roomy": rows, "tight": rows}


def fast() -> Answers:
    """Shardings for 4.8."""
    return {"layout": [sharding(("x", "y"), x=4, y=2)] * 3}


def designed() -> Answers:
    """A design for 11.7 that is within its budgets, and slow."""
    specs = {name: jax.P("x") for name in nb11_capstone.PLAN.names} | {"qkv": jax.P(None, "x")}
    mesh = sharding(x=8).mesh

    def step(params, x, y):
        def whole(arrays):
            return lax.with_sharding_constraint(arrays, jax.NamedSharding(mesh, jax.P()))

        down = whole(jax.grad(nb11_capstone.loss)(whole(params), whole(x), whole(y)))
        return whole(jax.tree.map(lambda w, d: w - nb11_capstone.RATE * d, params, down))

    layouts = {name: jax.NamedSharding(mesh, spec) for name, spec in specs.items()}
    return {"design": (layouts, step)}


def layers() -> Answers:
    """Shardings for 8.1, of whatever arguments."""
    (asked,) = exercises.find("8.1").requirements
    return {asked.answer: (sharding(x=8),) * len(asked.arguments)}  # type: ignore[attr-defined]


def regression() -> Answers:
    """Shardings and a function for 7.4, of whatever arguments."""
    return {"layouts": (sharding(x=8),) * 3, "train": lambda w, X, y: w}  # noqa: N803


def reference(exercise: str) -> Callable[[], Any]:
    """Return a function that returns the reference of an exercise's first requirement."""
    return lambda: getattr(exercises.find(exercise).requirements[0], "reference")  # noqa: B009


class Planting(NamedTuple):
    """A function of ours in which an error is planted, and a check that calls it.

    Its module is in `autograder`, or has its full name.
    """

    module: str
    function: str | Callable[[], Any]
    exercise: str
    answers: Callable[[], Answers]

    def __str__(self) -> str:
        """Return its name in the list of tests."""
        function = self.function if isinstance(self.function, str) else self.exercise
        return f"{self.module}-{function}"

    @property
    def full_name(self) -> str:
        """The module's full name."""
        is_full = self.module.startswith("shardlings.")
        return self.module if is_full else f"autograder.{self.module}"

    def named(self) -> Answers:
        """Return the answers, under the exercise's names for them."""
        made, names = self.answers(), exercises.EXERCISES[self.exercise].answers
        return made if set(made) == set(names) else dict(zip(names, made.values(), strict=False))

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the function's code, so that it raises wherever it has been imported."""
        module, place = import_module(self.full_name), self.function
        function = getattr(module, place) if isinstance(place, str) else place()
        assert function.__module__ == module.__name__
        # some callers read the names of its parameters
        monkeypatch.setattr(function, "__signature__", signature(function), raising=False)
        raising = planted_generator if isgeneratorfunction(function) else planted
        monkeypatch.setattr(function, "__code__", raising.__code__)
        if module.__name__.startswith("autograder.exercises.notebooks."):
            # otherwise the results of an earlier test would be used again
            jax.clear_caches()
            requirements_on_given_functions._count_flops.cache_clear()
            requirements_on_given_functions._run.cache_clear()


def schedules() -> Answers:
    """Return functions for 12.3 that return schedules in which each job runs once."""

    def all_forward_first(stages: int, microbatches: int) -> list[list[str]]:
        names = [f"{kind}{m}" for kind in "FB" for m in range(microbatches)]
        return [names] * stages

    return {"gpipe": all_forward_first, "one_f_one_b": all_forward_first, "bubble": lambda *_: 0.5}


def pairs() -> Answers:
    """Return for 12.5 a function that returns chunks, and nothing for ring attention."""
    return {"ring_attention": None, "zigzag": lambda n: [[d, 2 * n - 1 - d] for d in range(n)]}


def trains() -> Answers:
    """Return a function for 11.8 that trains nothing, so that it is not called often."""
    return {"train_or_resume": lambda folder, mesh, read_batch, steps: [0.0]}


def steps() -> Answers:
    """Return steps for 12.4 that change nothing."""
    names = exercises.find("12.4").answers
    return dict.fromkeys(names, lambda W, m, v, X, Y: (W, m, v))  # noqa: N803


def trained() -> Answers:
    """Return a step for 7.8 that changes nothing."""
    return {"train_step": lambda w, mean, X, y, seed: (w, mean)}  # noqa: N803


def blocks() -> Answers:
    """Return blocks for 12.8 that keep nothing, and are wrong."""
    names = exercises.find("12.8").answers
    return dict.fromkeys(names, jax.checkpoint(lambda x, qkv, out, up, down: x @ up @ down))


PLANTINGS = [
    Planting("shardlings.documents.document", "plain_text", "1.1", strips),
    Planting("shardlings.documents.renderers", "as_html", "1.1", strips),
    Planting("shardlings.documents.renderers", "as_text", "1.7", looks),
    Planting("shardlings.documents.wording", "with_noun", "1.7", looks),
    Planting("explanations.jax_errors", "diagnose_jax_error", "3.1", refused),
    Planting("shardlings.errors.cell_lines", "describe_error", "1.7", raises),
    Planting("explanations.operands", "_learners_frame", "3.1", unfitting),
    Planting("explanations.jax_errors", "explain_error", "3.1", refused),
    Planting("evidence.plans", "_capture_answer", "3.1", turned),
    Planting("evidence.exported_functions", "capture_design", "11.7", designed),
    Planting("evidence.exported_functions", "export_answer", "3.1", turned),
    Planting("evidence.data", "_is_plain", "1.7", functions),
    Planting("evidence.unsuitable_answers", "missing_answer", "1.1", strips),
    Planting("evidence.unsuitable_answers", "not_an_array", "1.1", unplaced),
    Planting("evidence.placements", "capture_placement", "1.1", strips),
    Planting("evidence.results", "_call_answer", "1.7", functions),
    Planting("evidence.results", "plain", "2.7", audit),
    Planting("evidence.steps", "announce_steps", "3.1", turned),
    Planting("evidence.time_limits", "call_within_limit", "1.7", functions),
    Planting("evidence.unfinished_cells", "explain_unfinished", "1.1", strips),
    Planting("evidence.plans", "known_plans", "1.1", strips),
    Planting("exercises.catalogue", "find", "1.1", strips),
    Planting(
        "exercises.notebooks.nb02_computation_follows_data",
        lambda: given("2.7"),
        "2.7",
        audit,
    ),
    Planting("exercises.notebooks.nb03_constraints", reference("3.4"), "3.4", summed),
    Planting("exercises.notebooks.nb04_communication_cost", reference("4.1"), "4.1", functions),
    Planting("judge.exercise", lambda: Exercise.generator, "1.7", functions),
    Planting("exercises.notebooks.nb08_neural_networks", lambda: given("8.1"), "8.1", layers),
    Planting("exercises.notebooks.nb11_capstone", "_sample_arguments", "11.7", designed),
    Planting("exercises.notebooks.nb05_shard_map", reference("5.3"), "5.3", functions),
    Planting("exercises.notebooks.nb06_shard_map_matmul", reference("6.9"), "6.9", iterate),
    Planting(
        "exercises.notebooks.nb07_pmap_migration",
        lambda: given("7.4"),
        "7.4",
        regression,
    ),
    Planting("exercises.notebooks.nb00_setup", reference("0.1"), "0.1", innocent),
    Planting("exercises.notebooks.nb01_sharding_basics", "numbers", "1.1", strips),
    Planting("exercises.notebooks.nb09_sharp_bits", reference("9.8"), "9.8", functions),
    Planting(
        "exercises.notebooks.nb10_fft_and_solvers",
        reference("10.2"),
        "10.2",
        local_transform,
    ),
    Planting("exercises.notebooks.nb11_beyond_one_process", reference("11.4"), "11.4", gathers),
    Planting("evidence.process_results", "capture_runs", "11.4", gathers),
    Planting("judge.requirements_on_processes", lambda: OnProcesses.judge, "11.4", gathers),
    Planting("judge.requirements_on_processes", "explain_all_values", "11.4", gathers_zeros),
    Planting("judge.requirements_on_processes", "check_parts", "11.4", gathers),
    Planting("exercises.notebooks.nb11_resuming", "_losses", "11.8", trains),
    Planting("judge.requirements_on_resuming", lambda: Resumes.judge, "11.8", trains),
    Planting("judge.requirements_on_resuming", "_read_losses", "11.8", trains),
    Planting("processes.cases", "write_files", "11.4", gathers),
    Planting("processes.disks", lambda: RowsDisk.read, "11.3", reads_rows),
    Planting("processes.packing", "pack", "11.4", gathers),
    Planting("processes.running_time", lambda: IdleTimer.poll, "11.4", gathers),
    Planting("processes.launching", "free_port", "11.4", gathers),
    Planting("processes.launching", "run", "11.4", gathers),
    Planting("judge.report", "problems_of", "1.1", strips),
    Planting("judge.requirements_on_requests", "compare_requests", "6.9", iterate),
    Planting("judge.requirements_on_costs", lambda: CommunicatesAtMost.judge, "3.1", turned),
    Planting("judge.comparing_values", "compare_outputs", "3.1", turned),
    Planting("judge.explaining_results", "explain_differing_results", "1.7", unlike),
    Planting("judge.recognising_mistakes", "recognise_general_mistake", "3.1", mistaken),
    Planting("judge.recognising_mistakes", "recognise_known_mistake", "3.1", mistaken),
    Planting("judge.explaining_products", "explain_added_products", "6.6", doubled),
    Planting("judge.explaining_places", "explain_misplaced", "3.1", mistaken),
    Planting("judge.explaining_shapes", "explain_joined_blocks", "3.1", mistaken),
    Planting("judge.recognising_mistakes", "explain_own_results", "3.1", mistaken),
    Planting("judge.explaining_factors", "explain_factor", "3.1", mistaken),
    Planting("judge.diagnoses", "list_generalisations", "3.1", turned),
    Planting("judge.wording", "describe_groups", "3.1", turned),
    Planting("judge.prose", "mark_up", "1.1", rows),
    Planting("judge.report", "badge", "1.1", rows),
    Planting("judge.report", "_other_lines", "1.1", strips),
    Planting("judge.scoring", "compute_share", "3.1", turned),
    Planting("judge.showing_verdicts", "pictures_of", "1.1", rows),
    Planting("judge.showing_verdicts", "verdict_document", "1.1", strips),
    Planting("judge.showing_verdicts", "_exercise_and_state", "1.1", rows),
    Planting("judge.requirements_on_times", lambda: TrainsFast.judge, "11.7", designed),
    Planting("judge.progress", "remember", "1.1", strips),
    Planting("judge.judging", "_basis", "1.1", strips),
    Planting("judge.requirements_on_layouts", "_judge_placement", "1.1", strips),
    Planting("judge.comparing_results", "is_same", "1.7", unlike),
    Planting("judge.explaining_results", "describe_wrong_counts", "1.7", unlike),
    Planting("judge.showing_results", "show_plain", "1.7", unlike),
    Planting("judge.requirements_on_results", lambda: Predicts.judge, "2.7", audit),
    Planting("judge.requirements_on_times", lambda: RunsFast.judge, "4.8", fast),
    Planting("judge.requirements_on_values", "judge_runs", "3.1", turned),
    Planting("judge.running_programs", "run_all", "3.1", turned),
    Planting("judge.requirements_on_given_functions", "suggest_one_change", "6.8", chained),
    Planting("exercises.notebooks.nb12_planning", "explain_gpipe", "12.3", schedules),
    Planting("exercises.notebooks.nb12_programs", "explain_zigzag", "12.5", pairs),
    Planting("exercises.notebooks.nb13_a_real_trainer", "_explain_rule", "13.1", ruled),
    Planting("exercises.notebooks.nb14_serving", reference("14.1"), "14.1", rooflines),
    Planting("judge.requirements_on_properties", lambda: Satisfies.judge, "12.3", schedules),
    Planting("judge.requirements_on_states", lambda: KeepsLayouts.judge, "12.4", steps),
    Planting("judge.requirements_on_gradients", "run_gradients", "12.8", blocks),
    Planting("artifacts.backward_passes", "split_gradient", "12.8", blocks),
    Planting("artifacts.schedules", "run_pipeline", "12.3", schedules),
    Planting("judge.verdict", lambda: Finding.but, "1.1", strips),
    Planting("shardlings.layouts.layout", "devices_in_words", "1.1", strips),
    Planting("shardlings.layouts.differences", "comparison_pictures", "1.1", rows),
    Planting("shardlings.layouts.showing", "mesh_picture", "1.7", looks),
    Planting("shardlings.layouts.showing", "device_local_picture", "6.9", iterate),
    Planting("shardlings.layouts.differences", "find_difference", "1.1", rows),
    Planting("shardlings.layouts.layout", lambda: Layout.describe, "1.1", strips),
    Planting("shardlings.layouts.layout", "why_no_layout", "1.1", strips),
    Planting("shardlings.layouts.showing", "_device_blocks", "1.7", looks),
    Planting("shardlings.layouts.layout", "spec_entries", "1.1", strips),
    Planting("notebook", "_by_name", "1.1", strips),
    Planting("shardlings.pictures.block_pictures", "block_label", "1.1", rows),
    Planting("shardlings.pictures.block_pictures", "scenes_of", "1.1", rows),
    Planting("shardlings.pictures.block_pictures", "add_cube", "1.8", slabs),
    Planting("shardlings.pictures.block_pictures", "margin_of", "1.1", rows),
    Planting("shardlings.pictures.block_drawings", "pictures_as_text", "1.1", rows),
    Planting("shardlings.pictures.block_drawings", "blocks_as_html", "1.1", rows),
    Planting("shardlings.pictures.block_drawings", "blocks_as_figure", "1.7", looks),
    Planting("shardlings.pictures.block_drawings", "values_as_text", "1.7", looks),
    Planting("shardlings.pictures.displaying", "display", "1.1", strips),
    Planting("shardlings.pictures.collective_pieces", "piece_label", "1.7", looks),
    Planting("shardlings.pictures.collective_pieces", "before_and_after", "1.7", looks),
    Planting("shardlings.pictures.collective_pictures", "before_and_after_as_html", "1.7", looks),
    Planting("shardlings.pictures.collective_pictures", "held_as_svg", "1.7", looks),
    Planting("shardlings.pictures.collective_pictures", "mesh_as_svg", "1.7", looks),
    Planting("shardlings.pictures.collective_pictures", "steps_as_html", "1.7", looks),
    Planting("shardlings.pictures.figures", "figure_as_html", "1.7", looks),
    Planting("judge.trade_charts", "attempts_as_html", "6.8", trades),
    Planting("shardlings.pictures.chart_parts", "start_chart", "6.8", trades),
    Planting("shardlings.pictures.svg", "text_width", "1.7", looks),
    Planting("shardlings.pictures.svg", "device_colour", "1.1", rows),
    Planting("shardlings.pictures.collective_motion", "motion_in_details", "1.7", looks),
    Planting("shardlings.pictures.timelines", "timeline_as_html", "1.7", looks),
    Planting("artifacts.arguments", "sharding_of", "3.1", turned),
    Planting("shardlings.programs.collective", "name_axes", "3.1", turned),
    Planting("shardlings.programs.compiled.collectives", "read_collectives", "3.1", turned),
    Planting(
        "shardlings.programs.compiled.hlo",
        lambda: vars(Instruction)["collective_kind"].fget,
        "3.1",
        turned,
    ),
    Planting("shardlings.programs.compiled.module_proto", "decode_module", "3.1", turned),
    Planting("shardlings.programs.compiled.reading_modules", "read_executable", "3.1", turned),
    Planting("shardlings.programs.compiled.collectives", "find_starts", "3.1", turned),
    Planting("shardlings.programs.compiled.hlo", lambda: Convolution.count_products, "1.7", looks),
    Planting("shardlings.programs.compiled.collectives", "find_arguments", "6.9", iterate),
    Planting("shardlings.programs.compiled.reduce_scatters", "keeps_own_slice", "6.9", iterate),
    Planting("shardlings.programs.compiled.reading_modules", "_read_groups", "3.1", turned),
    Planting("shardlings.programs.compiled.widened_types", "_types_after", "6.9", iterate),
    Planting("shardlings.programs.compiled.flop_counts", "instruction_flops", "6.9", iterate),
    Planting("shardlings.programs.compiled.flop_counts", "count_flops", "6.9", iterate),
    Planting("shardlings.programs.compiled.reading_modules", "has_unrunnable_fft", "6.9", iterate),
    Planting("shardlings.programs.compiled.run_counts", "trip_count", "6.9", iterate),
    Planting("shardlings.programs.collective", "communication_seconds", "1.7", looks),
    Planting("artifacts.program_checks", "refuse_custom_calls", "3.1", turned),
    Planting("shardlings.programs.code_lines", "lines_of", "1.7", looks),
    Planting("shardlings.programs.lowering", "compile_function", "1.7", looks),
    Planting("shardlings.programs.closed_over", "find_closed_over", "1.7", looks),
    Planting("shardlings.programs.collective_pictures", "pictures_of", "1.7", looks),
    Planting("artifacts.exporting", "export", "3.1", turned),
    Planting("artifacts.laid_out_programs", "run_laid_out", "11.7", designed),
    Planting("artifacts.program_sizes", "refuse_another_program", "11.7", designed),
    Planting("artifacts.program_sizes", "hide_sizes", "11.7", designed),
    Planting("artifacts.program_checks", "refuse_unreduced", "3.1", turned),
    Planting("artifacts.exporting", "_is_set", "3.1", turned),
    Planting("shardlings.programs.numbers_in_words", "choose_byte_unit", "1.7", looks),
    Planting("shardlings.programs.report", lambda: Report.rows, "1.7", looks),
    Planting("shardlings.programs.report", lambda: Report.document, "1.7", looks),
    Planting("shardlings.programs.report_rooflines", "_point", "1.7", looks),
    Planting("shardlings.programs.report_timelines", "timeline_of", "1.7", looks),
    Planting("shardlings.programs.compile_and_report", "scale_arguments", "1.7", looks),
    Planting("shardlings.programs.compile_and_report", "_peak_bytes", "3.1", turned),
    Planting("shardlings.programs.requested.collectives", "read_collectives", "3.1", turned),
    Planting("shardlings.programs.requested.constraints", "other_meshes", "6.9", iterate),
    Planting("shardlings.programs.requested.donations", "find_donated_arguments", "7.8", trained),
    Planting(
        "shardlings.programs.requested.live_operations", lambda: Liveness.__init__, "6.9", iterate
    ),
    Planting("shardlings.programs.requested.collectives", "_read_groups", "6.9", iterate),
    Planting("shardlings.programs.requested.collectives", "scale_collectives", "6.9", iterate),
    Planting(
        "shardlings.programs.requested.work_outside_shard_map",
        "count_flops_outside_shard_map",
        "6.9",
        iterate,
    ),
    Planting("shardlings.programs.requested.collectives", "remove_collectives", "6.9", iterate),
    Planting(
        "shardlings.programs.requested.unreached_collectives",
        "find_unreached_collective",
        "6.9",
        iterate,
    ),
    Planting("shardlings.programs.requested.live_operations", "trip_count", "6.9", iterate),
    Planting("shardlings.programs.counting_loops", "find_counter", "6.9", iterate),
    Planting("artifacts.loading", "_load", "3.1", turned),
    Planting("artifacts.running", "report_as_compiled", "3.1", turned),
    Planting("artifacts.program_checks", "refuse_unknown_operations", "3.1", turned),
]
ELSEWHERE = {
    "shardlings.__main__": "it is a command, and asked in its tests",
    "shardlings.pytest_plugin": "it is a fixture, and asked in its tests",
    "shardlings.programs.dumped_programs": "it reads files of somebody's own, in no check",
    "shardlings.programs.model_parts": "it is for a report by part, in no check",
    "shardlings.programs.parts_reports": "it is for a report by part, in no check",
    "shardlings.programs.stored_reports": "it stores and compares reports, in no check",
    "atomic_files": "a file that cannot be written is asked in its tests, and in those of progress",
    "command_start": "it is for an instructor's commands, and asked in their tests",
    "course_packages": "it ends an import, where the course is not installed",
    "shardlings.collective_kinds": "it holds data, and does nothing",
    "exercises.notebooks.nb12_large_models": "it lists the exercises of two modules",
    "explanations.faults": "it says what is said below",
    "evidence.__main__": "it is a process of its own, and asked in its tests",
    "processes.forkserver": "it is a process of its own",
    "artifacts.endless_loops": "it is for loops that might not end, and asked in its tests",
    "shardlings.devices": "it is done before there is an answer",
    "shardlings.errors.blame": "it is what tells of errors, and asked below",
    "sandboxed.__main__": "it is the kernel's own process, and asked in its tests",
    "sandboxed.fork_server": "it is a process of its own, and asked in its tests",
    "sandboxed.kernel": "it is the kernel's own process, and asked in its tests",
    "sandboxed.messages": "it holds data, and does nothing",
    "shardlings.errors.jax_versions": "it says what is said below",
    "exercises.other_courses": "it is done when the exercises are loaded",
    "processes.interruptions": "it is at work in processes of their own, and asked in its tests",
    "processes.isolation": "it is at work in processes of their own, and asked in its tests",
    "processes.child": "it is a process of its own, and asked in its tests",
    "processes.sendable_results": "it works in processes of their own, and is asked in their tests",
    "shardlings.programs.target_reports": "it shows what takes a compiler that is not here",
    "judge.right_answers": "it is at work in a class's judges, and asked in their tests",
    "shardlings.layouts.playground": "it makes a link, in no check",
    "shardlings.pictures.rooflines": "it draws what somebody wants to see, in no check",
    "shardlings.pictures.gantt_charts": "it draws what somebody wants to see, in no check",
    "shardlings.programs.latencies": "it holds data, and does nothing",
    "shardlings.layouts.process_pictures": "it draws what somebody wants to see, in no check",
    "shardlings.programs.communication_limits": "it is for tests of one's own, in no check",
    "shardlings.programs.tpu_process": "it is a process of its own, whose errors are refusals",
    "shardlings.programs.tpu_programs": "it asks a compiler that need not be installed",
}
"""Modules in which no error is planted, and why."""


def given(exercise: str) -> Any:
    """Return the function for which an exercise asks for shardings."""
    asked = exercises.find(exercise).requirements
    return next(r.function for r in asked if hasattr(r, "function"))


def planted(*_: object, **__: object) -> None:
    """Raise the planted error."""
    raise ZeroDivisionError("planted")


def planted_generator(*_: object, **__: object) -> Iterator[None]:
    """Raise the planted error at the first step."""
    yield from ()
    raise ZeroDivisionError("planted")
