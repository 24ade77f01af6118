"""A process is given its share of a case, and cannot read the rest."""

import contextlib
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from msgspec.structs import replace

from autograder.processes import (
    CaseArgument,
    ProcessCase,
    RowsNotHereError,
    pack,
    pack_arguments,
    run,
    table_files,
    write_files,
    written_files,
)
from autograder.processes.disks import Rows
from shardlings.errors import TheirError, theirs

LINE = (("x", 8),)


def call(function, case, folder=Path()):
    """Call a function in the processes of a case, and return their outcomes."""

    def arguments(process):
        return pack_arguments(function, partial(case.share_of(process).arguments, folder))

    disks = [case.disks_of(process) for process in range(case.processes)]
    return run(pack(function), case.processes, arguments, disks=disks)


def test_devices_are_divided_in_order():
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
    rows = CaseArgument("rows", (16, 4), ("x",), seed=3)
    outcomes = call(lambda rows: rows[0:16], replace(case, given=(rows,)))
    assert "process 0 has rows 0 to 3 and 8 to 11 on its disk" in outcomes[0].sentence


def test_all_processes_sample_the_same_values():
    given = CaseArgument("array", (16, 4), ("x",), seed=7)
    outcomes = call(lambda x: x, ProcessCase(2, LINE, (given,)))
    for outcome in outcomes:
        for _, block, data in outcome.result.shards:
            np.testing.assert_array_equal(data, given.values()[slice(*block[0])])


@pytest.mark.parametrize(
    ("axes", "spec", "here"),
    [
        (LINE, ("x",), [range(8), range(8, 16)]),
        ((("x", 4), ("y", 2)), ("y",), [range(16), range(16)]),
        ((("x", 2), ("y", 4)), (None, "y"), [range(16), range(16)]),
    ],
)
def test_a_process_reads_the_rows_that_its_devices_hold(axes, spec, here):
    rows = CaseArgument("rows", (16, 4), spec, seed=3)

    def can_read(rows):
        for row in range(len(rows)):
            with contextlib.suppress(IndexError):
                print(row, rows[row].tolist())

    outcomes = call(can_read, ProcessCase(2, axes, (rows,)))
    for outcome, rows_here in zip(outcomes, here, strict=True):
        lines = [f"{row} {rows.values()[row].tolist()}" for row in rows_here]
        assert outcome.printed.splitlines() == lines
        assert (outcome.why == "not-here") == (len(rows_here) < 16)  # catching it does not help


def test_a_process_has_its_share_of_each_batch():
    rows = CaseArgument("rows", (32, 2), ("x",), seed=3, batch=16)

    def reads_too_much(rows):
        return rows[0:32]

    outcomes = call(reads_too_much, ProcessCase(2, LINE, (rows,)))
    assert [outcome.why for outcome in outcomes] == ["not-here"] * 2
    assert "process 1 has rows 8 to 15 and 24 to 31 on its disk" in outcomes[1].sentence
    assert ", and not rows 0 to 7 and 16 to 23" in outcomes[1].sentence


def test_reading_rows_of_another_process_is_an_index_error():
    assert issubclass(RowsNotHereError, IndexError)


@pytest.mark.parametrize("index", [16, "a", (0, 7), slice("a", None)])
def test_an_index_that_a_table_does_not_have_is_the_learners(index):
    rows = Rows((16, 4), 0, lambda request: np.zeros((len(request.numbers), 4), "f4").tobytes())
    with pytest.raises(TheirError, match="NoSuchPartError: a table of shape"), theirs():
        rows[index]


def test_requests_without_end_do_not_outlive_the_call():
    def floods(rows):
        import msgspec

        from autograder.processes.disks import ReadRequest

        cells = (cell.cell_contents for cell in rows._ask.__closure__)
        requests = next(cell for cell in cells if hasattr(cell, "send_bytes"))
        for _ in range(500):  # more answers than a pipe holds
            requests.send_bytes(msgspec.msgpack.encode(ReadRequest(0, tuple(range(16)) * 64)))
        return 1

    given = CaseArgument("rows", (16, 4), (), seed=3)
    outcomes = call(floods, ProcessCase(2, LINE, (given,)))
    assert {outcome.why for outcome in outcomes} <= {"", "waits"}


def test_files_are_blocks_of_rows(tmp_path):
    table = CaseArgument("folder", (16, 2), seed=5, number=8)
    case = ProcessCase(2, LINE, (table, CaseArgument("folder")))
    write_files(case, tmp_path)
    names = {file.name for file in (tmp_path / "common").iterdir()}
    assert names == set(table_files(table.values(), 8)) >= {"0-2.npy", "14-16.npy"}

    def copies(folder, own):
        np.save(own / "mine.npy", np.load(folder / "0-2.npy"))

    call(copies, case, tmp_path)
    files = written_files(tmp_path, 2)
    assert [name for name, _ in files] == ["mine.npy", "mine.npy"]
    np.testing.assert_array_equal(np.load(files[1][1]), table.values()[:2])


@pytest.mark.parametrize("axes", [LINE, (("x", 4), ("y", 2)), (("x", 2), ("y", 4))])
@pytest.mark.parametrize("spec", [("x",), (None, "x"), (), (("x",), None)])
@pytest.mark.parametrize("order", [(), (0, 1, 4, 5, 2, 3, 6, 7)])
def test_a_process_is_given_the_shards_of_its_devices(axes, spec, order):
    given = CaseArgument("array", (16, 8), spec, seed=3)
    case = ProcessCase(2, axes, (given,), order)
    sharding = jax.NamedSharding(case.mesh(), jax.P(*spec))
    indices: Any = sharding.devices_indices_map((16, 8))
    for process in range(2):
        here = np.zeros((16, 8), bool)
        for device, index in indices.items():
            if device.id in case.devices_of(process):
                here[index] = True
        (held,) = case.share_of(process).held
        np.testing.assert_array_equal(held, np.where(here, given.values(), 0))


def test_a_process_is_given_no_seeds():
    given = CaseArgument("rows", (16, 2), ("x",), seed=12345)
    share = ProcessCase(2, LINE, (given,)).share_of(1)
    assert [argument.seed for argument in share.case.given] == [0]


def looks_at_its_call(x):
    """Find what the process was sent in a caller's frame, and sum both halves of its values."""
    import inspect

    import cloudpickle

    (sent,) = [f.frame.f_locals["call"] for f in inspect.stack() if f.function == "_call_function"]
    (held,) = cloudpickle.loads(sent.arguments).func.__self__.held
    return float(abs(held[:8]).sum()), float(abs(held[8:]).sum())


def test_a_function_does_not_find_the_values_of_other_processes():
    given = CaseArgument("array", (16, 2), ("x",), seed=5)
    _, second = call(looks_at_its_call, ProcessCase(2, LINE, (given,)))
    upper, lower = second.result
    assert upper == 0
    assert lower == abs(given.values()[8:]).sum()


def reads_the_others_memory(x):
    """Try to read the memory of a process's parent and siblings; return what happened."""
    import os

    import psutil

    others = [psutil.Process(os.getppid())]
    others += [child for child in others[0].children() if child.pid != os.getpid()]
    results = []
    for process in others:
        try:
            with open(f"/proc/{process.pid}/mem", "rb"):
                results.append("open")
        except OSError as error:
            results.append(type(error).__name__)
    return results


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() == 0,
    reason="root reads all memory, and others have no /proc",
)
def test_no_process_reads_the_memory_of_another():
    given = CaseArgument("array", (16, 2), ("x",), seed=5)
    for outcome in call(reads_the_others_memory, ProcessCase(2, LINE, (given,))):
        assert len(outcome.result) >= 2  # its parent, the other process, and whatever else there is
        assert set(outcome.result) == {"PermissionError"}


WEIGHTS = (CaseArgument("weights-file", (4, 8), (None, "x"), seed=5, number=64),)


@pytest.mark.parametrize(
    ("offset", "size", "why"),
    [
        (64, 16, ""),
        (64, 17, "of-another-process"),
        (60, 8, "outside-the-array"),
        (64 + 4 * 32, 4, "outside-the-array"),
        (-4, 4, "raised"),
        (64, 10_000, "raised"),
        (64.5, 4, "raised"),
    ],
)
def test_a_process_reads_the_bytes_that_its_devices_need(offset, size, why):
    def read_bytes(read):
        print(read(offset, size).hex())

    first, second = call(read_bytes, ProcessCase(2, LINE, WEIGHTS))
    assert first.why == why
    assert second.why == (why or "of-another-process")
    if not why:
        assert first.printed.strip() == WEIGHTS[0].values()[0, :4].tobytes().hex()


def test_each_byte_is_read_as_often_as_devices_need_it():
    def read_again(read):
        for _ in range(5):
            read(64, 16)

    first, _ = call(read_again, ProcessCase(2, LINE, WEIGHTS))
    assert first.why == "reads-too-much"
    assert "process 0 has read 80 bytes of an array of shape" in first.sentence
    assert "and the blocks of its devices have 64" in first.sentence


def test_catching_the_error_of_a_refused_read_does_not_help():
    def catches(read):
        with contextlib.suppress(ValueError):
            read(0, 4)
        return 1

    outcomes = call(catches, ProcessCase(2, LINE, WEIGHTS))
    assert [outcome.why for outcome in outcomes] == ["outside-the-array"] * 2


ROWS = (CaseArgument("rows", (16, 4), ("x",), seed=3),)


@pytest.mark.parametrize("given", [ROWS, WEIGHTS])
def test_a_process_has_nothing_of_a_disk_before_it_reads(given):
    def search_memory(reads):
        import gc

        arrays = [value for value in gc.get_objects() if isinstance(value, np.ndarray)]
        print([array for array in arrays if array.any()])
        numbers = [v for v in vars(reads).values() if not callable(v)]
        cells = [cell.cell_contents for cell in reads._ask.__closure__]
        print(*numbers, *(type(cell).__name__ for cell in cells))

    for outcome in call(search_memory, ProcessCase(2, LINE, given)):
        arrays, attributes = outcome.printed.splitlines()
        assert (outcome.why, arrays) == ("", "[]")
        assert attributes in ("(16, 4) 2 float32 0 lock Connection", "256 0 lock Connection")


def test_a_forged_request_gets_what_an_honest_one_gets():
    def forges(read, rows):
        from autograder.processes.disks import ReadRequest

        for request in ReadRequest(0, (64, 128)), ReadRequest(1, tuple(range(16))):
            with contextlib.suppress(ValueError):
                print(read._ask(request))
        read.__dict__.clear()
        rows.__dict__.clear()
        return 1

    for outcome in call(forges, ProcessCase(2, LINE, (*WEIGHTS, *ROWS))):
        assert (outcome.why, outcome.printed) == ("of-another-process", "")


@pytest.mark.parametrize("numbers", [(-8, 4), (0, 1 << 62), (1 << 63, 1), (4,), (0, 1, 5)])
def test_an_impossible_request_gets_no_answer(numbers):
    def asks(read):
        from autograder.processes.disks import ReadRequest

        try:
            print(read._ask(ReadRequest(0, numbers)))
        except (EOFError, OSError):
            print("no answer")

    for given in WEIGHTS, (CaseArgument("rows", (4, 2), ("x",), seed=3),):
        outcomes = call(asks, ProcessCase(2, (("x", 2), ("y", 4)), given))
        assert [outcome.printed.strip() for outcome in outcomes] == ["no answer"] * 2


def test_the_entry_of_a_weights_file_is_that_of_safetensors():
    entry = CaseArgument("weights-entry", (4, 8), number=64)
    outcomes = call(print, ProcessCase(2, LINE, (entry,)))
    expected = {"dtype": "F32", "shape": [4, 8], "data_offsets": [64, 192]}
    assert [outcome.printed.strip() for outcome in outcomes] == [str(expected)] * 2
