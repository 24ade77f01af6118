"""What is kept of what a kernel says: text that is text, and evidence whatever is printed."""

import json

import pytest

from autograder import evidence
from autograder.instructor.kernels import Allowance, heard


def said(kind, **content):
    return {"header": {"msg_type": kind}, "msg_type": kind, "content": content}


def evidence_of(size):
    data = {evidence.MIME: {"exercise": "1.1", "x": "x" * size}, "text/plain": "1.1: handed in"}
    return said("display_data", data=data, metadata={})


def keep(message, allowance=None):
    return heard(message, 0, allowance or Allowance(10_000, 20_000, 5000))


NO_TEXT = {
    "lines": said("stream", name="stdout", text=["a", "b"]),
    "mapping": said("stream", name="stdout", text={"a": "b"}),
    "html": said("display_data", data={"text/html": ["<b>", "x"]}, metadata={}),
    "result": said("execute_result", data={"text/plain": ["1"]}, metadata={}, execution_count=1),
    "half": said("display_data", data={"text/html": "\ud800"}, metadata={}),
    "half in json": said("display_data", data={"application/json": ["\ud800"]}, metadata={}),
}


@pytest.mark.parametrize("name", NO_TEXT)
def test_what_should_be_text_and_is_none_is_not_kept(name):
    assert keep(NO_TEXT[name]) is None


def test_what_is_text_is_kept_and_so_is_json():
    assert keep(said("stream", name="stdout", text="a")).text == "a"
    assert keep(said("display_data", data={"application/x+json": [1]}, metadata={})) is not None


def test_halves_of_characters_are_spelt_out_where_people_read():
    assert keep(said("stream", name="stdout", text="a\ud800")).text == r"a\ud800"
    error = keep(said("error", ename="\ud800", evalue="\ud801", traceback=["\ud802", 5]))
    assert (error.ename, error.evalue, error.traceback) == (r"\ud800", r"\ud801", [r"\ud802", "5"])
    json.dumps(error, ensure_ascii=False).encode()


def test_who_prints_without_end_hands_in_none_the_less():
    allowance = Allowance(10_000, 20_000, 5000)
    for _ in range(9):
        keep(said("stream", name="stdout", text="x" * 4000), allowance)
    assert keep(said("stream", name="stdout", text="x" * 4000), allowance) is None
    assert keep(evidence_of(1000), allowance) is not None
    assert not allowance.too_large


def test_evidence_that_is_too_large_is_noted_and_does_not_count():
    allowance = Allowance(10_000, 20_000, 5000)
    assert keep(evidence_of(6000), allowance) is None
    assert allowance.too_large == {0}
    assert keep(evidence_of(1000), allowance) is not None


def test_what_only_pretends_to_be_evidence_counts_as_all_else_does():
    allowance = Allowance(10_000, 20_000, 5000)
    message = evidence_of(1000)
    message["content"]["data"]["text/html"] = "x" * 30_000
    assert keep(message, allowance) is None
    message = evidence_of(1000)
    message["content"]["data"]["text/plain"] = "x" * 30_000
    assert keep(message, allowance) is None
    assert not allowance.too_large
