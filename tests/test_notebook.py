"""The functions that a notebook imports: check, hint, progress, show and target."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

from autograder import check, hint, notebook, progress, target
from autograder.exercises import Exercise
from autograder.judge import progress as judge_progress
from autograder.judge import recall_progress, remember, show_progress, verdict_as_text
from autograder.notebook import NotYet, UnknownExercise
from shardlings import show
from shardlings.errors import UsageError
from tests.helpers import mesh, sharding
from tests.shardlings.new_process import run

X = np.arange(256, dtype=np.float32).reshape(16, 16)


@pytest.fixture
def printed(capsys, monkeypatch):
    """Return a function that returns what was printed, in one line."""
    monkeypatch.setenv("COLUMNS", "200")
    return lambda: " ".join(capsys.readouterr().out.split())


def test_a_right_answer_is_shown_and_remembered(printed):
    check("1.1", jax.device_put(X, sharding(None, "x", x=8)))
    assert printed().startswith(
        "✓ 1.1 Column strips: right Right: shape (16, 16) in 1 × 8 blocks of (16, 2), "
        "on devices 0 to 7."
    )
    assert recall_progress() == {"1.1": "right"}
    progress()
    words = printed()
    assert "01 Sharding basics ■□□□□□□□ 1 of 8 done ✓ 1.1 Column strips ○ 1.2" in words
    begun = "02 Computation follows data □□□□□□□ 0 of 7 done 03 Constraints"
    assert begun in words, "not begun: one line"
    for spelt in ("05 shard_map □", "07 pmap migration □", "10 FFT and solvers □"):
        assert spelt in words


def test_what_another_kernel_got_right_stays_right(monkeypatch):
    remember("1.1", "wrong")
    here = dict(judge_progress._in_memory)
    monkeypatch.setattr(judge_progress, "_in_memory", {})  # another kernel
    remember("1.1", "right")
    monkeypatch.setattr(judge_progress, "_in_memory", here)
    remember("1.2", "wrong")
    assert recall_progress() == {"1.1": "right", "1.2": "wrong"}


def test_a_wrong_answer_is_shown_with_the_expected_layout_and_the_difference(printed):
    check("1.1", jax.device_put(X, sharding("x", x=8)))
    words = printed()
    assert words.startswith(
        "✗ 1.1 Column strips: not yet Your blocks are rows; expected columns. The first entry of a "
    )
    assert "Expected: shape (16, 16) in 1 × 8 blocks of (16, 2), on devices 0 to 7." in words
    assert "Got: shape (16, 16) in 8 × 1 blocks of (2, 16), on devices 0 to 7." in words
    assert 'Stuck? hint("1.1") helps.' in words


@pytest.mark.parametrize(
    ("answer", "explanation"),
    [
        (..., "`columns` has not been filled in yet."),
        (None, "The answer is None. Often a function has no `return`"),
        (X, "Got a NumPy array, which is in the host's memory"),
        (jnp.asarray(X), "The array is not sharded: all of it is on device 0"),
        (sharding(None, "x", x=8), "Got a NamedSharding; expected an array."),
        (jax.P(None, "x"), "A spec names mesh axes but no devices"),
        (mesh(x=8), "Got only a mesh. A mesh arranges devices"),
        (jax.device_put, "Got the function device_put itself; expected what it returns."),
        ("columns", "Got a str; expected a jax.Array."),
        (
            jax.device_put(X[:8], sharding(None, "x", x=8)),
            "Got an array of shape (8, 16); expected (16, 16).",
        ),
        (
            jax.device_put(X[0], sharding("x", x=8)),
            "Got an array of shape (16,); expected (16, 16).",
        ),
        (
            jax.device_put(X.astype(np.int32), sharding(None, "x", x=8)),
            "Got an array of dtype int32; expected float32.",
        ),
        (
            jax.device_put(X + 1, sharding(None, "x", x=8)),
            "every value is 1 too large: the value at (0, 0) is 1; expected 0.",
        ),
        (jax.device_put(np.zeros((1024, 1024)), sharding("x", x=8)), "no exercise needs more"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_each_kind_of_unsuitable_answer_has_its_own_explanation(answer, explanation, printed):
    check("1.1", answer)
    assert explanation in printed()


def test_an_array_that_was_donated_is_recognised(printed):
    array = jax.device_put(X, sharding(None, "x", x=8))
    array.delete()
    check("1.1", array)
    assert "The array was deleted, perhaps because it was donated to jit." in printed()


def test_a_tracer_is_recognised(printed):
    jax.jit(lambda x: check("1.1", x))(X)
    assert "Got a tracer: an array inside jit" in printed()


def test_missing_devices_are_named(printed):
    from autograder import evidence
    from autograder.exercises import find
    from autograder.judge import judge

    far = evidence.Placement(evidence.MeshGrid((1,), (64,), ("x",)), ())
    verdict = judge(find("1.2"), evidence.Evidence("1.2", {"blocks": far}), 0)
    assert "The mesh has device 64, and this process has 8" in verdict_as_text(verdict)


@pytest.mark.parametrize("exercise", ["9.9", 99.5, None, ""])
def test_an_unknown_id_is_reported_with_the_known_ids(exercise):
    for function in (lambda: check(exercise, X), lambda: hint(exercise), lambda: target(exercise)):
        with pytest.raises(UnknownExercise) as raised:
            function()
        assert f"There is no exercise {exercise!r}." in str(raised.value)
        assert "1.1, 1.2, 1.3" in str(raised.value)
        assert raised.value._render_traceback_() == [f"UnknownExercise: {raised.value}"]


@pytest.mark.parametrize(
    ("call", "explanation"),
    [
        (lambda: check("1.1"), 'check("1.1", columns)'),
        (lambda: check("1.1", X, X), 'check("1.1", columns)'),
        (lambda: check("1.6", X), 'check("1.6", first=first, second=second)'),
        (lambda: check("1.6", first=X), 'check("1.6", first=first, second=second)'),
        (lambda: target("1.7"), "Exercise 1.7 has no target to draw."),
        (lambda: target("12.7"), "Exercise 12.7 has no target to draw."),  # it is a bug to be found
        (lambda: show(), "was given nothing"),
        (lambda: show(X), "NumPy array: it lives in the host's memory"),
        (lambda: show(sharding("x", x=8)), "A sharding has no shape of its own"),
        (lambda: show(jnp.ones((1,) * 5)), "show draws arrays up to rank 4"),
    ],
)
def test_wrong_calls_are_explained(call, explanation):
    with pytest.raises(UsageError) as raised:
        call()
    assert explanation in str(raised.value)


@pytest.mark.parametrize("execution", ["validate", "autograde"])
def test_a_wrong_answer_raises_when_nbgrader_runs_the_notebook(execution, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", execution)
    check("1.1", jax.device_put(X, sharding(None, "x", x=8)))
    with pytest.raises(NotYet, match=r"1.1 Column strips: not yet\.(.|\n)*Your blocks are rows"):
        check("1.1", jax.device_put(X, sharding("x", x=8)))
    with pytest.raises(NotYet, match="not answered yet"):
        check("1.1", ...)
    assert recall_progress() == {}


@pytest.mark.parametrize(
    ("given", "explanation"),
    [
        (1.1, 'The id of an exercise is a string: write "1.1".'),
        (10.10, 'The id of an exercise is a string: write "10.1" or "10.10".'),
        (X, 'must be the id of an exercise, such as "1.1"; got ndarray.'),
    ],
)
def test_an_id_of_the_wrong_type_is_explained(given, explanation):
    with pytest.raises(UnknownExercise) as raised:
        check(given, X)
    assert explanation in str(raised.value)


def test_hints_come_one_at_a_time_and_then_start_again(printed, monkeypatch):
    monkeypatch.setattr(notebook, "_hints_given", {})
    hints = []
    for _ in range(4):
        hint("1.4")
        hints.append(printed())
    assert hints[0].startswith(
        "Hint 1 of 3 for 1.4 Every second device A mesh may contain only some"
    )
    assert 'Run hint("1.4") again for the next one.' in hints[0]
    assert hints[2].endswith('the last hint; hint("1.4") begins again with the first.')
    assert hints[3] == hints[0]


def test_an_exercise_may_have_no_hints(printed, monkeypatch):
    monkeypatch.setattr(notebook, "_find", lambda id: Exercise(id, "A title", (), ()))
    hint("9.9")
    assert printed() == "Exercise 9.9 has no hints."


def test_an_empty_answer_does_not_undo_progress(printed):
    check("1.1", jax.device_put(X, sharding(None, "x", x=8)))
    check("1.1", ...)
    assert recall_progress() == {"1.1": "right"}
    printed()


def test_progress_works_if_its_file_cannot_be_read_or_written(tmp_path, monkeypatch):
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "progress.json").write_text("{")
    assert recall_progress() == {}
    monkeypatch.setenv("SHARDLINGS_STATE", "/proc/nowhere")
    remember("1.1", "right")
    assert recall_progress() == {"1.1": "right"}


def test_another_kernel_never_reads_half_of_the_progress(monkeypatch):
    """It reads the file while this kernel writes it."""
    remember("1.1", "right")
    seen = []

    def write_in_halves(path, contents):
        path.write_text(contents[: len(contents) // 2].decode())
        with monkeypatch.context() as another_kernel:
            another_kernel.setattr(judge_progress, "_in_memory", {})
            seen.append(recall_progress())
        path.write_text(contents.decode())

    monkeypatch.setattr(Path, "write_bytes", write_in_halves)
    remember("1.2", "wrong")
    assert seen == [{"1.1": "right"}]
    assert recall_progress() == {"1.1": "right", "1.2": "wrong"}
    assert [*judge_progress.progress_file().parent.iterdir()] == [judge_progress.progress_file()]


def test_progress_leaves_out_a_notebook_without_exercises(printed):
    exercise = Exercise("1.1", "Column strips", (), ())
    show_progress({"01_sharding_basics": (exercise,), "15_new": ()})
    words = printed()
    assert "01 Sharding basics □ 0 of 1 done" in words
    assert "15 New" not in words


def test_show_draws_several_things_side_by_side(printed):
    show(sharding("x", x=8), turned=sharding(None, "x", x=8), shape=(16, 16))
    words = printed()
    assert "turned" in words
    assert words.count("shape (16, 16)") == 2
    assert isinstance(show(jnp.ones(8), figure=True), Figure)


def test_target_draws_the_expected_layouts(printed):
    target("1.6")
    assert "1.6 first" in printed()


def test_what_a_check_is_doing_is_not_shown_where_nbgrader_keeps_the_output(monkeypatch):
    shown = []
    monkeypatch.setattr(notebook, "display_waiting", lambda _: shown.append(1))
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    with notebook._show_steps("1.1"):
        pass
    assert not shown


def test_the_library_alone_says_what_the_course_needs():
    printed = run("import sys; sys.modules['matplotlib'] = None; import autograder")
    assert "The course needs matplotlib, and only its library is installed here." in printed
    assert 'pip install "shardlings[course]"' in printed


def test_a_check_without_devices_says_which_cell_to_run():
    printed = run("from autograder import check; check('1.1', ...)")
    assert "UsageError: The exercises need 8 devices, and this process has 1." in printed
    assert "emulate_devices(8) is there." in printed
