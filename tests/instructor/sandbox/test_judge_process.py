"""Evidence that kills its judge, or cannot be given to it, costs nobody else's points."""

import contextlib
import os
import resource
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import psutil
import pytest

import autograder
from autograder import evidence
from autograder.exercises import UnknownExerciseError, find
from autograder.instructor.sandbox import (
    Case,
    JudgeFailedError,
    Sandbox,
    judge_in_sandbox,
    judging_in_sandbox,
)
from autograder.instructor.sandbox.judge_process import encode_case
from tests.conftest import ROOT, some_of
from tests.helpers import capture, copy_folder, crowd

GRID = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
LINE = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))


def case(exercise, **answers):
    return Case(exercise, evidence.to_json(capture(find(exercise), answers, 1)), 1, 2)


def cheap(mesh):
    return case("2.7", audit={"bytes": 2816, "spec": jax.P()}, cheap=mesh)


RIGHT = cheap(jax.NamedSharding(LINE, jax.P("x")))


def endless(x):
    """Loop for ever in each turn of such a loop, which is for too long with limited loops, too."""

    def loop(step, x):
        return jax.lax.while_loop(lambda x: jnp.all(jnp.isfinite(x)), step, x)

    return loop(lambda x: loop(lambda x: 0 * x, x), x)


def test_a_program_that_does_not_end_costs_itself_alone():
    right, guilty = judge_in_sandbox([RIGHT, case("3.1", turned=endless)], seconds=4)
    assert right.score == 1
    assert guilty.diagnoses == ("kills-the-judge",)
    assert "loop that does not end" in guilty.findings[0].difference


def in_branches_of_unknown_length(mine):
    """Both branches have a loop with a sum, and the program computes how often each runs."""
    few = jnp.int32(jax.lax.psum(jnp.sign(jnp.abs(mine).max()), ("x", "y"))) // 8

    def add_up(times):
        return lambda a: jax.lax.fori_loop(0, times, lambda _, a: jax.lax.psum(a, "x"), a)

    return jax.lax.cond(jax.lax.axis_index("x") == 0, add_up(few), add_up(3 * few), mine)


def in_a_branch(mine):
    """Only one device reaches the sum."""
    first = jax.lax.axis_index("x") == 0
    return jax.lax.cond(first, lambda a: jax.lax.psum(a, "x"), lambda a: a, mine)


def by_its_values(mine):
    """Only a device with large values passes its block on."""
    pairs = [(i, (i + 1) % 4) for i in range(4)]
    large = mine.sum() > jax.lax.pmin(mine.sum(), "x")
    return jax.lax.cond(large, lambda a: jax.lax.ppermute(a, "x", pairs), lambda a: a, mine)


def in_a_loop(mine):
    """Each device goes round as often as its number says."""
    rounds = jax.lax.axis_index("x")
    return jax.lax.fori_loop(0, rounds, lambda _, a: jax.lax.psum(a, "x"), mine)


@pytest.fixture
def processes(monkeypatch):
    """The processes that are started, a name each."""
    started = []
    whole = Sandbox.command

    def command(self, *given, **more):
        started.append("judge")
        return whole(self, *given, **more)

    monkeypatch.setattr(Sandbox, "command", command)
    return started


def mapped_over_the_grid(body):
    return lambda x: jax.shard_map(
        body, mesh=GRID, in_specs=jax.P("x", "y"), out_specs=jax.P("x", "y"), check_vma=False
    )(x)


@pytest.mark.parametrize(
    ("body", "because"),
    some_of(
        [
            (in_a_branch, "an all-reduce over x in a branch"),
            (in_a_branch, "which branch is taken is computed from lax.axis_index"),
            (by_its_values, "a collective-permute over x in a branch"),
            (by_its_values, "is computed from the values in a device's own block"),
            (in_a_loop, "an all-reduce over x in a loop"),
            (in_a_loop, "how often the loop runs is computed from lax.axis_index"),
        ],
        at_least=1,
    ),
)
def test_a_collective_that_not_all_reach_is_found_before_it_runs(body, because, processes):
    turned = mapped_over_the_grid(body)
    first, guilty, last = judge_in_sandbox([RIGHT, case("3.1", turned=turned), RIGHT])
    assert (first.score, last.score) == (1, 1)
    assert guilty.diagnoses == ("deadlock",)
    said = guilty.findings[0].difference
    assert said.startswith("This program can hang, so it was not run. There is ")
    assert because in said
    assert len(processes) == 1


def test_a_program_that_hangs_nevertheless_is_said_and_not_tried_again(processes, monkeypatch):
    monkeypatch.setattr(judging_in_sandbox, "RENDEZVOUS_SECONDS", {"warn_stuck": 1, "terminate": 1})
    turned = mapped_over_the_grid(in_branches_of_unknown_length)
    first, guilty, last = judge_in_sandbox([RIGHT, case("3.1", turned=turned), RIGHT])
    assert (first.score, last.score) == (1, 1)
    assert guilty.diagnoses == ("deadlock",)
    said = guilty.findings[0].difference
    assert "The program hangs: only " in said
    assert "of 4 devices reached an all-reduce" in said
    assert len(processes) == 2, "one for the case that hangs, and one for what comes after it"


@pytest.mark.crowded
def test_a_crowded_machine_breaks_no_collective(monkeypatch):
    monkeypatch.setattr(judging_in_sandbox, "RENDEZVOUS_SECONDS", {"warn_stuck": 1, "terminate": 3})
    every = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    with crowd():
        os.sched_setaffinity(0, {min(every)})
        try:
            (verdict,) = judge_in_sandbox([case("3.4", spread_sum=lambda x: x.sum(0))])
        finally:
            os.sched_setaffinity(0, every)
    assert "deadlock" not in verdict.diagnoses


@pytest.mark.parametrize("version", ["0.7.2", "99.0"])
def test_no_flag_is_set_that_another_jax_may_not_know(version, monkeypatch):
    assert "terminate_timeout_seconds=12" in judging_in_sandbox._judge_environment()["XLA_FLAGS"]
    monkeypatch.setattr(jax, "__version__", version)
    assert "timeout" not in judging_in_sandbox._judge_environment()["XLA_FLAGS"]


def spent():
    """Return the CPU time, in seconds, of this process's children that have ended."""
    about = resource.getrusage(resource.RUSAGE_CHILDREN)
    return about.ru_utime + about.ru_stime


@pytest.mark.slow
def test_endless_programs_take_no_more_than_the_submissions_time():
    """Each takes half of what is left, so that something is left for whoever comes after it."""
    cases = [case("3.1", turned=endless), RIGHT, *[case("3.1", turned=endless)] * 12, RIGHT]
    began = spent()
    first, right, *others, last = judge_in_sandbox(cases, seconds=24)
    assert spent() - began < 24 + 24  # and one to see that a judge can be had
    assert first.diagnoses == ("kills-the-judge",)
    assert right.score == 1
    assert {verdict.diagnoses for verdict in others} == {("kills-the-judge",), ("no-time-left",)}
    assert last.diagnoses == ("no-time-left",)
    assert (
        "judging this notebook took more than 24 seconds of CPU time" in last.findings[0].difference
    )


def judges():
    """The processes of judges that were started here."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "autograder.instructor.sandbox" in process.cmdline():
                yield process


@contextlib.contextmanager
def kept_waiting(seconds):
    """Stop each process that begins to judge, for so many seconds by the clock."""
    judge_in_sandbox([RIGHT])  # else a server would start, and be stopped
    before, stopped = set(judges()), set[psutil.Process]()

    def stop():
        until = None
        while not over.is_set() and (until is None or time.monotonic() < until):
            for each in set(judges()) - before - stopped:
                with contextlib.suppress(psutil.Error):
                    each.suspend()
                    stopped.add(each)
                    until = until or time.monotonic() + seconds
            time.sleep(0.01)
        for each in stopped:
            with contextlib.suppress(psutil.Error):
                each.resume()

    over, stopping = threading.Event(), threading.Thread(target=stop)
    stopping.start()
    try:
        yield
    finally:  # or the judges of later tests would be stopped, too
        over.set()
        stopping.join()


@pytest.mark.crowded
def test_a_judge_that_is_kept_waiting_has_the_time_that_it_needs():
    began = time.monotonic()
    with kept_waiting(20):
        (right,) = judge_in_sandbox([RIGHT], seconds=15)
    assert right.score == 1
    assert time.monotonic() - began > 20, "it was stopped for longer than it may take"


def test_a_judge_that_never_gets_its_time_is_no_fault_of_the_answer(monkeypatch):
    monkeypatch.setattr(judging_in_sandbox, "JUDGE_PATIENCE", 0.1)
    with kept_waiting(600), pytest.raises(JudgeFailedError, match="machine has less to do"):
        judge_in_sandbox([RIGHT], seconds=15)


@pytest.fixture
def judge_process(monkeypatch, tmp_path):
    """The file of the judge's process, in a copy of the package that judges."""
    package = copy_folder(ROOT / "autograder", tmp_path / "autograder")
    monkeypatch.setattr(autograder, "__path__", [str(package)])
    return package / "instructor" / "sandbox" / "judge_process.py"


@pytest.fixture
def deadly(processes, judge_process):
    """A judge that dies of 3.1, once or as often as is said, as of a hole in a library."""
    text, reply = judge_process.read_text(), "    exercise = find(case.exercise)\n"
    assert text.count(reply) == 1
    dies = "    if case.exercise == '3.1': __import__('os').kill(__import__('os').getpid(), 11)\n"
    judge_process.write_text(text.replace(reply, reply + dies))
    return processes


@pytest.mark.bubblewrap
def test_what_kills_its_judge_is_tried_twice_and_the_others_once(deadly):
    guilty = case("3.1", turned=jnp.sin)
    verdicts = judge_in_sandbox([RIGHT, guilty, RIGHT, guilty, RIGHT])
    assert [v.score for v in verdicts] == [1, 0, 1, 0, 1]
    assert verdicts[1].diagnoses == ("kills-the-judge",)
    assert "ended with status -11. Is there a loop" in verdicts[1].findings[0].difference
    assert len(deadly) == 1 + 2 + 2 + 1, "each death costs a process, and one tries the machine"


@pytest.mark.bubblewrap
def test_where_no_program_can_be_compiled_the_answer_is_not_at_fault(judge_process):
    dies = "compiler.compile_or_get_cached = lambda *_, **__: __import__('os')._exit(1)"
    patched = f"{judge_process.read_text()}\nfrom jax._src import compiler\n{dies}\n"
    judge_process.write_text(patched)
    with pytest.raises(JudgeFailedError, match="ended with status 1"):
        judge_in_sandbox([RIGHT, case("3.1", turned=jnp.sin)])


def test_a_program_that_hangs_does_not_show_that_the_machine_is_fine(monkeypatch):
    dies = judging_in_sandbox.JudgeRun([], 0, "It died.")
    hangs = judging_in_sandbox.JudgeRun(judge_in_sandbox([RIGHT]), 0, "It hangs.", deadlock="So.")
    runs = iter([hangs, dies, dies, dies])
    monkeypatch.setattr(judging_in_sandbox, "_run_and_read_judge", lambda *_: next(runs))
    with pytest.raises(JudgeFailedError, match=r"It died\."):
        judge_in_sandbox([RIGHT, RIGHT, RIGHT])
    assert not list(runs), "the last is the control case"


def nested(depth):
    made: list[object] = []
    for _ in range(depth):
        made = [made]
    return made


@pytest.mark.parametrize("strange", ["\ud800", nested(100_000)])
def test_what_cannot_be_written_down_costs_itself_alone(strange):
    bad = Case("2.6", {"exercise": "2.6", "answers": {"diagnosis": strange}}, 1)
    found, right = judge_in_sandbox([bad, RIGHT])
    assert found.diagnoses == ("malformed",)
    assert right.score == 1


@pytest.mark.parametrize(("depth", "is_written"), [(20, True), (200, False)])
def test_evidence_is_written_only_if_it_can_be_read(depth, is_written):
    case = Case("2.6", {"exercise": "2.6", "answers": {"diagnosis": nested(depth)}}, 1)
    assert (encode_case(case) is not None) is is_written


@pytest.mark.parametrize("name", ["\\", "é", 'a\x00"\\\n'])
def test_names_that_a_compiler_would_die_of_are_refused_before(name):
    data = cheap(jax.NamedSharding(LINE, jax.P("x"))).evidence
    (part,) = data["answers"]["cheap"]["parts"]
    part["mesh"]["names"], part["spec"] = [name], [name]
    found, right = judge_in_sandbox([Case("2.7", data, 1), RIGHT])
    assert found.diagnoses == ("axis-names",)
    assert 0 < found.score < 1, "the table keeps its points"
    assert right.score == 1


@pytest.mark.parametrize(
    "change",
    [
        {"mesh": {"shape": [0], "ids": [], "names": ["a"], "modes": []}, "spec": []},
        {"mesh": {"shape": [1] * 71, "ids": [0], "names": ["a"], "modes": []}},
        {"spec": [None, ["x"], []]},
        {"spec": ["x", None, None]},
    ],
)
def test_forged_placements_cost_themselves_alone(change):
    data = cheap(jax.NamedSharding(LINE, jax.P("x"))).evidence
    data["answers"]["cheap"]["parts"][0].update(change)
    (found,) = judge_in_sandbox([Case("2.7", data, 1)])
    assert found.diagnoses == ("does-not-fit",)
    assert 0 < found.score < 1


def test_numbers_beyond_floats_cost_themselves_alone():
    data = {"exercise": "2.7", "answers": {"audit": {"type": "value", "value": {"bytes": 10**400}}}}
    (found,) = judge_in_sandbox([Case("2.7", data, 1)])
    assert found.score == 0


def test_a_reply_that_cannot_be_read_is_the_judges_failure():
    with pytest.raises(JudgeFailedError, match="reply cannot be read"):
        judging_in_sandbox._read_replies(b"what?\n")


def test_a_judge_that_does_not_answer_is_an_error_that_says_so(monkeypatch):
    with monkeypatch.context() as impatient:
        impatient.setattr(judging_in_sandbox, "JUDGE_PATIENCE", 0.001)
        said = "got less than its 1 seconds of CPU time within 0 seconds"
        with pytest.raises(JudgeFailedError, match=said):
            judge_in_sandbox([RIGHT], seconds=1)
    with pytest.raises(UnknownExerciseError, match="no exercise '99'"):
        judge_in_sandbox([Case("99", {}, 0)])
    assert judge_in_sandbox([]) == []


def test_a_judge_prints_no_version_warning():
    """Any other output than JSON would make the judge's reply unreadable."""
    code = (
        "import jax; jax.__version__ = '0.99.0'; "
        "from autograder.instructor.sandbox import judge_process"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; judge_process.main()"],
        input=b'{"cases": []}',
        capture_output=True,
        check=True,
    )
    assert done.stdout == b""
