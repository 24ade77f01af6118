"""The head of a record is read once, by whomever, until its file changes."""

import os

from autograder.instructor.pipeline import Record, Records, State
from autograder.instructor.pipeline import record as records_module


def test_a_record_is_decoded_once_for_all_who_read_its_head(tmp_path, monkeypatch):
    Records(tmp_path).write("ann", "ps1", Record(State.GRADED))
    decoded = []
    decode = records_module._decode

    def decode_and_count(*args):
        decoded.append(args)
        return decode(*args)

    monkeypatch.setattr(records_module, "_decode", decode_and_count)
    assert Records(tmp_path).get("ann", "ps1") is not None
    first, *others = [Records(tmp_path).head("ann", "ps1") for _ in range(3)]
    assert first is not None
    assert first.state is State.GRADED
    assert others == [first] * 2
    assert len(decoded) == 1


def test_a_head_is_read_again_once_somebody_else_has_written_the_record(tmp_path):
    reader, writer = Records(tmp_path), Records(tmp_path)
    writer.write("ann", "ps1", Record(State.GRADED))
    assert not reader.was_broken("ann", "ps1")
    writer.mark_broken("ann", "ps1", "it breaks off.")
    assert reader.was_broken("ann", "ps1")
    writer.path("ann", "ps1").unlink()
    assert reader.head("ann", "ps1") is None


def test_a_record_of_the_same_size_at_the_same_time_is_another_one(tmp_path):
    records, versions = Records(tmp_path), set()
    path = records.path("ann", "ps1")
    for why in ("it breaks off.", "it is a folder"):
        records.write("ann", "ps1", Record(State.BROKEN, why))
        os.utime(path, ns=(0, 0))
        summary = records.summary("ann", "ps1")
        assert summary is not None
        assert summary.head.why == why
        versions.add(summary.version)
    assert len(versions) == 2
    assert len({size for _, _, size in versions}) == 1
