"""Runs of several processes: verdicts on right, wrong and forged evidence."""

from typing import Any

import numpy as np
import pytest

from autograder.evidence import (
    Contents,
    Evidence,
    File,
    LocalArray,
    ProcessResult,
    Run,
    Runs,
    Shard,
    Shards,
    Value,
    from_json,
    to_json,
)
from autograder.exercises import Exercise, Expected, OnProcesses
from autograder.judge import judge, verdict_as_text
from autograder.processes import CaseArgument, ProcessCase, table_files

SHAPE = (16, 2)
LINE = (("x", 8),)
TABLE = CaseArgument("array", SHAPE, ("x",), seed=11)


def contents(array):
    array = np.asarray(array)
    return Contents(array.shape, array.dtype.name, array.tobytes())


def shards(process, values=None, processes=2, **changes):
    """The evidence of a process for an array sharded by rows, with some changes."""
    values = TABLE.values() if values is None else values
    share, rows = 8 // processes, len(values) // 8
    made = [
        Shard(d, ((d * rows, (d + 1) * rows), (0, 2)), contents(values[d * rows : (d + 1) * rows]))
        for d in range(process * share, (process + 1) * share)
    ]
    return Shards(**{"shape": values.shape, "dtype": "float32", "shards": tuple(made)} | changes)


def asked(**changes):
    requirement: dict[str, Any] = {
        "answer": "f",
        "asks": "the array",
        "cases": lambda _: (ProcessCase(2, LINE, (TABLE,)),),
        "reference": lambda _: (Expected(TABLE.values(), ("x",)),),
    }
    return Exercise("11.3", "An array", (OnProcesses(**requirement | changes),), ("Think.",))


def verdict(*results, exercise=None, files=()):
    made = [r if isinstance(r, ProcessResult) else ProcessResult((r,)) for r in results]
    runs = Runs((Run(tuple(made), tuple(files)),))
    evidence = from_json(to_json(Evidence("11.3", {"f": runs})))
    return judge(exercise or asked(), evidence, 1)


def test_what_is_right_is_right():
    assert verdict(shards(0), shards(1)).score == 1


def test_a_known_mistake_names_the_run_in_which_it_made_a_difference():
    upside_down = TABLE.values()[::-1].copy()
    exercise = asked(mistakes={"upside-down": lambda _: (upside_down,)})
    found = verdict(*(shards(i, upside_down) for i in range(2)), exercise=exercise)
    assert found.diagnoses == ("upside-down",)
    assert "With 2 processes, on a mesh of x=8: The values are wrong." in verdict_as_text(found)


def test_values_in_another_order_are_wrong():
    found = verdict(*(shards(i, TABLE.values()[::-1].copy()) for i in range(2)))
    assert found.diagnoses == ("values",)
    assert "With 2 processes, on a mesh of x=8: The layout is right. On device " in (
        verdict_as_text(found)
    )


def test_blocks_elsewhere_are_another_layout():
    values = TABLE.values()

    def swapped(process):
        part = shards(process)
        devices = [shard.device for shard in part.shards][::-1]
        moved = zip(part.shards, devices, strict=True)
        return Shards(
            SHAPE,
            "float32",
            tuple(Shard(device, shard.block, shard.contents) for shard, device in moved),
        )

    found = verdict(swapped(0), swapped(1))
    assert found.score == 0
    assert found.diagnoses not in ((), ("values",))
    assert found.findings[0].made is not None
    assert values.shape == found.findings[0].made.shape


@pytest.mark.parametrize(
    "forged",
    [
        Shards(SHAPE, "float32", ()),
        Shards(SHAPE, "float32", shards(1).shards),
        Shards(SHAPE, "float32", (*shards(0).shards, shards(0).shards[0])),
        Shards((1 << 31, 1 << 31), "float32", shards(0).shards),
        Shards((16,), "float32", shards(0).shards),
        Shards(SHAPE, "float32", (Shard(0, ((2, 0), (0, 2)), contents(np.ones((2, 2)))),)),
        Shards(SHAPE, "float32", (Shard(0, ((0, 20), (0, 2)), contents(np.ones((20, 2)))),)),
        Shards(SHAPE, "float32", (Shard(0, ((0, 2), (0, 2)), contents(np.ones((4, 2)))),)),
        Shards(
            SHAPE, "float32",
            (Shard(0, ((0, 2), (0, 2)), Contents((2, 2), "float32", b"short")),
             *shards(0).shards[1:]),
        ),
        Shards(
            SHAPE, "float32",
            (Shard(0, ((0, 2), (0, 2)), Contents((2, 2), "object", b"12345678" * 4)),
             *shards(0).shards[1:]),
        ),
    ],
)  # fmt: skip
def test_what_capture_never_makes_is_refused(forged):
    found = verdict(forged, shards(1) if forged.shards else forged)
    assert found.fault is None
    assert found.diagnoses in (("malformed",), ("shape",))
    assert found.score == 0


def test_other_numbers_of_processes_and_of_runs_are_refused():
    assert verdict(shards(0)).diagnoses == ("malformed",)
    two = asked(cases=lambda _: (ProcessCase(2, LINE, (TABLE,)),) * 2)
    assert verdict(shards(0), shards(1), exercise=two).diagnoses == ("malformed",)


def test_an_array_of_ones_own_is_told_apart():
    own = LocalArray(contents(TABLE.values()))
    assert verdict(own, own).diagnoses == ("own-array",)
    assert verdict(Value(3), Value(3)).diagnoses == ("own-array",)


def test_an_array_on_one_process_is_not_told_of_others():
    alone = asked(cases=lambda _: (ProcessCase(1, LINE, (TABLE,)),))
    for part, says in ((LocalArray(contents(TABLE.values())), "NumPy's"), (Value(None), "None")):
        found = verdict(part, exercise=alone)
        assert says in found.findings[0].difference
        assert "process" not in found.findings[0].difference.partition(": ")[2]


WHOLE = asked(reference=lambda _: (Expected(TABLE.values()),))


def test_every_process_has_all_where_that_is_asked():
    own = LocalArray(contents(TABLE.values()))
    assert verdict(own, own, exercise=WHOLE).score == 1
    other = LocalArray(contents(TABLE.values() + 1))
    assert verdict(own, other, exercise=WHOLE).diagnoses == ("differs-between-processes",)
    assert verdict(other, other, exercise=WHOLE).diagnoses == ("other-numbers",)
    assert verdict(shards(0), shards(1), exercise=WHOLE).diagnoses == ("not-whole",)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e30])
def test_no_number_is_near_to_what_is_none(value):
    array = TABLE.values()
    array[3, 1] = value
    wrong = LocalArray(contents(array))
    assert verdict(wrong, wrong, exercise=WHOLE).score == 0


def test_what_failed_says_in_which_process():
    failed = ProcessResult(why="raised", sentence="Your function raised ValueError: no.")
    stopped = ProcessResult(why="stopped", sentence="Process 0 was stopped.")
    found = verdict(stopped, failed)
    assert found.diagnoses == ("raised",)
    assert (
        "on a mesh of x=8, in process 1: Your function raised ValueError: no."
        in verdict_as_text(found)
    )


def test_more_than_one_result_is_told():
    two = ProcessResult((shards(0), Value(1.0)))
    assert verdict(two, two).diagnoses == ("number-of-results",)


FILES = asked(files=lambda _: table_files(TABLE.values(), 8), reference=lambda _: ())


def written(**changes):
    blocks = table_files(TABLE.values(), 8) | changes
    return [File(name, contents(block)) for name, block in blocks.items()]


@pytest.mark.parametrize(
    ("files", "diagnosis"),
    [
        (written(), None),
        ((), "no-files"),
        (written()[:-1], "files-missing"),
        ([*written(), written()[0]], "written-twice"),
        ([*written(), File("../x.npy", None)], "other-files"),
        ([*written()[:-1], File("14-16.npy", None, "It is none.")], "unreadable"),
        ([*written()[:-1], File("14-16.npy", contents(np.zeros((2, 2), np.float32)))], "values"),
        ([*written()[:-1], File("14-16.npy", contents(np.zeros((2, 2), np.int8)))], "dtype"),
        ([*written(), File("0-6.npy", None)], "several-blocks"),
        ([*written(), written(**{"0-2.npy": np.ones((2, 2))})[0]], "numbered-from-zero"),
        ([*written()[:-1], File("14-16.npy", contents(np.zeros(3, np.float32)))], "values"),
    ],
)
def test_files_are_each_there_once(files, diagnosis):
    found = verdict(Value(None), Value(None), exercise=FILES, files=files)
    assert found.diagnoses == ((diagnosis,) if diagnosis else ())
    assert found.score == (diagnosis is None)
