"""Cases: what a function of several processes is given, and what it may read of it."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from autograder.processes import (
    Given,
    NotHereError,
    ProcessCase,
    files_of,
    files_written,
    run,
    write_files,
)

LINE = (("x", 8),)


def test_devices_are_shared_out_in_order():
    case = ProcessCase(4, (("x", 2), ("y", 4)), ())
    assert [list(case.devices_of(i)) for i in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert str(case) == "4 processes, on a mesh of x=2, y=4"
    assert str(ProcessCase(1, LINE, ())) == "1 process, on a mesh of x=8"


def test_a_mesh_may_have_its_devices_in_another_order():
    case = ProcessCase(2, LINE, (), (0, 1, 4, 5, 2, 3, 6, 7))
    assert [device.id for device in case.mesh().devices] == [0, 1, 4, 5, 2, 3, 6, 7]
    assert (
        str(case) == "2 processes, on a mesh of x=8 with its devices in the order 0 1 4 5 2 3 6 7"
    )
    rows = Given("rows", (16, 4), ("x",), seed=3)
    outcomes = run(lambda rows: rows[0:16], 2, _arguments(replace(case, given=(rows,)), Path()))
    assert "process 0 has rows 0 to 3 and 8 to 11 on its disk" in outcomes[0].said


def test_values_are_drawn_alike_wherever_they_are_drawn():
    given = Given("array", (16, 4), ("x",), seed=7)
    outcomes = run(lambda x: x, 2, _arguments(ProcessCase(2, LINE, (given,)), Path()))
    for outcome in outcomes:
        for _, block, data in outcome.came.shards:
            np.testing.assert_array_equal(data, given.values()[slice(*block[0])])


def _arguments(case, folder):
    return lambda: case.arguments(folder)


@pytest.mark.parametrize(
    ("axes", "spec", "here"),
    [
        (LINE, ("x",), [range(8), range(8, 16)]),
        ((("x", 4), ("y", 2)), ("y",), [range(16), range(16)]),
        ((("x", 2), ("y", 4)), (None, "y"), [range(16), range(16)]),
    ],
)
def test_a_process_reads_the_rows_that_its_devices_hold(axes, spec, here):
    rows = Given("rows", (16, 4), spec, seed=3)

    def can_read(rows):
        read = []
        for row in range(len(rows)):
            with contextlib.suppress(IndexError):
                read.append((row, rows[row].tolist()))
        return read

    outcomes = run(can_read, 2, _arguments(ProcessCase(2, axes, (rows,)), Path()))
    for outcome, wanted in zip(outcomes, here, strict=True):
        assert outcome.came == [(row, rows.values()[row].tolist()) for row in wanted]


def test_of_each_batch_a_process_has_its_share():
    rows = Given("rows", (32, 2), ("x",), seed=3, batch=16)

    def reads_too_much(rows):
        return rows[0:32]

    outcomes = run(reads_too_much, 2, _arguments(ProcessCase(2, LINE, (rows,)), Path()))
    assert [outcome.why for outcome in outcomes] == ["not-here"] * 2
    assert "process 1 has rows 8 to 15 and 24 to 31 on its disk" in outcomes[1].said
    assert ", and not rows 0 to 7 and 16 to 23" in outcomes[1].said


def test_who_asks_for_others_rows_is_told_as_an_index_error():
    assert issubclass(NotHereError, IndexError)


def test_files_are_blocks_of_rows(tmp_path):
    table = Given("folder", (16, 2), seed=5, number=8)
    case = ProcessCase(2, LINE, (table, Given("folder")))
    write_files(case, tmp_path)
    names = {file.name for file in (tmp_path / "common").iterdir()}
    assert names == set(files_of(table.values(), 8)) >= {"0-2.npy", "14-16.npy"}

    def copies(folder, own):
        np.save(own / "mine.npy", np.load(folder / "0-2.npy"))

    run(copies, 2, _arguments(case, tmp_path))
    written = files_written(tmp_path, 2)
    assert [name for name, _ in written] == ["mine.npy", "mine.npy"]
    np.testing.assert_array_equal(np.load(written[1][1]), table.values()[:2])
