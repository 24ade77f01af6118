"""Reports as JSON, and two of them compared."""

import dataclasses
import math

import jax
import msgspec
import numpy as np
import pytest

from shardlings import communication
from shardlings.errors import UsageError
from shardlings.programs import StoredReport, StoredReportError, TargetReports, compare
from tests.helpers import sharding

X = jax.device_put(np.ones((64, 64), np.float32), sharding("x", x=8))


def total(x):
    return x.sum()


def gathered(x):
    return (x + x.T).sum()


def report_on(f=total):
    return communication(f, X)


def test_a_report_is_read_as_it_was_stored():
    for f in (total, gathered, lambda x: x):
        stored = StoredReport.of(report_on(f))
        assert StoredReport.from_json(stored.to_json()) == stored
    (row,) = StoredReport.of(report_on()).rows
    first = total.__code__.co_firstlineno
    assert row.place == f"test_stored_reports.py:{first + 1}"
    assert (row.source, row.kind, row.over, row.bytes) == ("return x.sum()", "all-reduce", "x", 4)


def test_an_unknown_number_of_operations_is_stored_as_such():
    unknown = dataclasses.replace(report_on(), flops=math.inf)
    stored = StoredReport.of(unknown)
    assert stored.flops is None
    assert StoredReport.from_json(stored.to_json()) == stored


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 2}', "[" * 100_000])
def test_what_is_no_stored_report_is_refused(text):
    with pytest.raises(StoredReportError, match="not a report that this version of shardlings"):
        StoredReport.from_json(text)
    other = StoredReport.of(report_on()).to_json().replace('"schema": 1', '"schema": 2')
    with pytest.raises(StoredReportError, match="Store it again"):
        StoredReport.from_json(other)


def test_a_program_from_elsewhere_was_compiled_by_an_unknown_version():
    dumped = dataclasses.replace(report_on(), source="Read from a file.")
    assert StoredReport.of(dumped).jax == ""
    assert "compiled by JAX" not in str(compare(dumped, report_on()))
    other = msgspec.structs.replace(StoredReport.of(report_on()), jax="0.1")
    assert f"compiled by JAX 0.1 and {jax.__version__}" in str(compare(other, report_on()))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"is_unoptimised": True}, "Only one of these programs was optimised"),
        ({"scaled": "16 → 8,192"}, "different sizes: 16 → 8,192, and as they are"),
    ],
)
def test_reports_of_two_kinds_are_not_compared(changes, says):
    other = dataclasses.replace(report_on(), **changes)
    assert StoredReport.from_json(StoredReport.of(other).to_json()) == StoredReport.of(other)
    with pytest.raises(UsageError, match=says):
        compare(other, report_on())
    assert compare(other, other).changes()


def test_two_reports_are_compared_by_lines():
    comparison = compare(report_on(), report_on(gathered))
    assert {(c.row.source, c.what) for c in comparison.changes()} == {
        ("return (x + x.T).sum()", "new"), ("return x.sum()", "gone"),
    }  # fmt: skip
    grown = comparison.find_growth()
    assert grown[0].startswith("Buffers of collectives: 4 bytes before, ")
    assert any(sentence.startswith("Memory at the peak: ") for sentence in grown)
    said = str(comparison)
    assert "new" in said
    assert "return (x + x.T).sum()" in said
    assert "All together, before and now: 4 bytes and" in said


def test_the_same_report_has_not_changed():
    comparison = compare(report_on(gathered), StoredReport.of(report_on(gathered)))
    assert {change.what for change in comparison.changes()} == {"same"}
    assert comparison.find_growth() == []
    assert "the same as before." in str(comparison)


def test_a_line_that_has_moved_is_the_same():
    stored = StoredReport.of(report_on())
    moved = [msgspec.structs.replace(r, place="test_stored_reports.py:999") for r in stored.rows]
    comparison = compare(stored, msgspec.structs.replace(stored, rows=tuple(moved)))
    assert [change.what for change in comparison.changes()] == ["same"]


def test_growth_within_the_tolerance_is_none():
    stored = StoredReport.of(report_on(gathered))
    more = msgspec.structs.replace(stored, bytes=round(stored.bytes * 1.01))
    assert compare(stored, more).find_growth(0.02) == []
    assert compare(stored, more).find_growth() == [
        f"Buffers of collectives: {stored.bytes:,} bytes before, {more.bytes:,} bytes now, 1% more."
    ]
    unknown = msgspec.structs.replace(stored, flops=None)
    (said,) = compare(stored, unknown).find_growth()
    assert said == "The floating-point operations are not known any more."
    assert compare(unknown, stored).find_growth() == []


def test_a_loop_whose_length_is_not_known_any_more_is_growth():
    stored = StoredReport.of(report_on())
    (row,) = stored.rows
    unknown = msgspec.structs.replace(
        stored, rows=(msgspec.structs.replace(row, runs=None, bytes=1),), bytes=1, sent=1
    )
    (said,) = compare(stored, unknown).find_growth()
    assert said.startswith("The length of a loop with a collective is not known any more")
    assert compare(unknown, unknown).find_growth() == []


def test_what_sends_more_with_the_same_buffers_has_grown():
    stored = StoredReport.of(report_on(gathered))
    more = msgspec.structs.replace(stored, sent=3 * stored.sent)
    (said,) = compare(stored, more).find_growth(1.0)
    assert said.startswith("Bytes that are sent: ")
    assert said.endswith("3.0 times.")


def test_another_compiler_is_named():
    stored = StoredReport.of(report_on())
    other = msgspec.structs.replace(stored, jax="0.1")
    assert f"compiled by JAX 0.1 and {jax.__version__}" in str(compare(other, stored))


def test_of_a_report_with_a_target_the_program_for_it_is_compared():
    cpu, tpu = report_on(), report_on(gathered)
    both = TargetReports(cpu, tpu, "v5e:2x4")
    assert StoredReport.of(both) == StoredReport.of(tpu)
    assert compare(both, both).find_growth() == []
    assert compare(cpu, both).find_growth()


def test_little_growth_is_told_as_an_amount_and_other_arrays_are_named():
    before = StoredReport.of(report_on())
    grown = msgspec.structs.replace(before, peak_bytes=10_000_000)
    more = msgspec.structs.replace(before, peak_bytes=10_000_128)
    (said,) = compare(grown, more).find_growth()
    assert said.endswith("128 bytes more.")
    row = msgspec.structs.replace(
        before.rows[0], arrays="(128, 256)", bytes=before.rows[0].bytes * 2
    )
    now = msgspec.structs.replace(before, rows=(row, *before.rows[1:]))
    assert f"(128, 256), before: {before.rows[0].arrays}" in " ".join(
        str(compare(before, now)).split()
    )
