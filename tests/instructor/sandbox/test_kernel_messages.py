"""A kernel's text is kept within limits, and its evidence whatever else is printed."""

import json
from typing import Any

import pytest

from autograder import evidence
from autograder.instructor.sandbox import OutputLimits, kernel_messages, make_output
from autograder.instructor.sandbox.kernel_messages import MAX_DEPTH, measure_depth, read_message


def line(kind, **content):
    return json.dumps({"type": kind, **content}).encode()


def evidence_of(size, **data):
    data |= {evidence.MIME_TYPE: {"exercise": "1.1", "x": "x" * size}}
    return line("Display", data={"text/plain": "1.1: handed in", **data})


def keep(written, allowance=None):
    message: Any = read_message(written)
    return message and make_output(message, 0, allowance or OutputLimits(10_000, 20_000, 5000))


deep: list[object] = []
for _ in range(MAX_DEPTH + 1):
    deep = [deep]
NOT_KEPT = {
    "lines": line("Stream", name="stdout", text=["a", "b"]),
    "another stream": line("Stream", name="stdin", text="a"),
    "html": line("Display", data={"text/html": ["<b>", "x"]}),
    "result": line("Result", data={"text/plain": ["1"]}, execution_count=1),
    "no number": line("Result", data={"text/plain": "1"}, execution_count="1"),
    "half": line("Display", data={"text/html": "\ud800"}),
    "half in json": line("Display", data={"application/json": ["\ud800"]}),
    "deep": line("Display", data={"application/json": deep}),
    "deeper": b'{"type":"Display","data":{"application/json":'
    + b"[" * 10**6
    + b"]" * 10**6
    + b"}}",
    "no message": line("Nonsense"),
    "no json": b"\xff{",
    "nothing": b"",
}


@pytest.mark.parametrize("name", NOT_KEPT)
def test_what_is_not_as_it_should_be_is_not_kept(name):
    assert keep(NOT_KEPT[name]) is None


def test_small_parts_count_as_what_they_take():
    """Each of them becomes an object of Python's, and a line of the notebook."""
    parts = line("Display", data={"application/json": [[]] * 1000})
    words = line("Display", data={"text/plain": ", ".join("a" * 1000)})
    for written, is_kept in ((parts, False), (words, True)):
        assert (keep(written, OutputLimits(50_000, 50_000, 0)) is not None) == is_kept


def test_what_is_text_is_kept_and_so_is_json():
    assert keep(line("Stream", name="stdout", text="a")).text == "a"
    assert keep(line("Display", data={"application/x+json": [1]})) is not None
    shown = keep(line("Display", data={"text/plain": "a"}, metadata={"width": 5}))
    assert shown.metadata == {}


def test_an_error_is_as_long_as_somebody_reads():
    said = ["x" * 10_000] * 10_000
    error = keep(
        line("Error", ename="e" * 9999, evalue="v" * 9999, traceback=said),
        OutputLimits(10**9, 10**9, 0),
    )
    assert len(json.dumps(error)) < 500_000


def test_who_prints_without_end_hands_in_none_the_less():
    allowance = OutputLimits(10_000, 20_000, 5000)
    for _ in range(9):
        keep(line("Stream", name="stdout", text="x" * 4000), allowance)
    assert keep(line("Stream", name="stdout", text="x" * 4000), allowance) is None
    assert keep(evidence_of(1000), allowance) is not None
    assert not allowance.too_large


def test_evidence_that_is_too_large_is_noted_and_does_not_count():
    allowance = OutputLimits(10_000, 20_000, 5000)
    assert keep(evidence_of(6000), allowance) is None
    assert allowance.too_large == {0}
    assert keep(evidence_of(1000), allowance) is not None


def test_what_only_pretends_to_be_evidence_counts_as_all_else_does():
    allowance = OutputLimits(10_000, 20_000, 5000)
    assert keep(evidence_of(1000, **{"text/html": "x" * 30_000}), allowance) is None
    assert keep(evidence_of(1000, **{"text/plain": "x" * 30_000}), allowance) is None
    assert not allowance.too_large


def test_how_deep_is_found_without_going_there():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert measure_depth(deep) == MAX_DEPTH + 1
    assert measure_depth({"a": [1, {"b": 2}]}) == 3


@pytest.mark.parametrize("kind", ["Display", "Update"])
def test_the_name_of_what_is_shown_counts_too(kind):
    assert keep(line(kind, data={"text/plain": "a"}, name="n" * 100)) is not None
    assert keep(line(kind, data={"text/plain": "a"}, name="n" * 20_000)) is None


def test_a_message_of_too_many_names_is_not_read():
    """To make each of two million takes seconds, in which nobody watches the neighbours."""
    many = line("Display", data={str(i): 0 for i in range(kernel_messages.MAX_COLONS)})
    assert isinstance(kernel_messages.read_message(many), kernel_messages.TooLargeMessage)


@pytest.mark.parametrize("size", [1, 7, 2**16])
def test_of_a_line_that_is_too_long_only_that_is_kept(monkeypatch, size):
    monkeypatch.setattr(kernel_messages, "MAX_MESSAGE_BYTES", 10)
    said = b"first\n" + b"x" * 11 + b"\n" + b"y" * 10 + b"\n\n" + b"z" * 40
    lines = kernel_messages.LineBuffer()
    found = [line for at in range(0, len(said), size) for line in lines.feed(said[at : at + size])]
    assert found == [b"first", None, b"y" * 10]
    assert lines.feed(b"\nnext\n") == [None, b"next"]
    assert isinstance(kernel_messages.read_message(None), kernel_messages.TooLargeMessage)
