"""Verdicts in the records that a class keeps."""

import msgspec

from autograder.judge import Finding, Verdict

KEPT = (
    b'{"exercise":"1.1","title":"Strips","findings":[{"answer":"strips","met":false,'
    b'"asked":"a block of each column","came":"a block of each row","diagnosis":"transposed"}],'
    b'"earned":0.0}'
)
"""A verdict as records had it before its findings' fields were called `expected` and `got`."""


def test_a_verdict_in_a_record_can_still_be_read_and_is_written_alike():
    verdict = msgspec.json.decode(KEPT, type=Verdict)
    assert verdict.findings == (
        Finding("strips", False, "a block of each column", "a block of each row", "transposed"),
    )
    assert verdict.findings[0].expected == "a block of each column"
    assert {"asked", "came"} <= msgspec.to_builtins(verdict)["findings"][0].keys()
