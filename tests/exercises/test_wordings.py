"""Sentences of verdicts on known answers, word for word, that were once false or vague."""

import pytest

from tests.exercises.solutions import BANKS, notebook_of, session_for, try_known_answer

SAID = [
    ("2.3", "each pair the other way round", "would be right the other way round", "are right"),
    ("12.3", "GPipe without its last backward pass", "Stage 0 runs F5 but no B5.", "warm-up"),
    ("12.3", "the warm-up the wrong way round", "stages run 1, 2, 3, 4 forward passes", "Got 1"),
    ("12.3", "the warm-up the wrong way round", "An earlier stage must run at least as many",
     "in different orders"),
    ("12.3", "backward passes first", "comes before a job that it depends on", "An earlier stage"),
    ("12.3", "a warm-up of one more", "waits for `stages` steps", "for stages steps"),
    ("12.5", "the own block comes last, and scores", "exp(-inf + inf) is NaN, and", "overflow"),
    ("12.6", "no queue, and the best of equal buckets", "all-reduce ends first.", "choices?"),
    ("12.8", "the block as it is", "are kept and 0 allowed, besides 4,096 bytes", "0.1"),
    ("12.8", "both matmuls of attention again", "and for one of the two of attention",
     "what the next matmul needs"),
    ("12.9", "places for the tokens of all devices, on each", "many places for each expert?",
     "whatever the capacity"),
    ("12.9", "a mask of the places that are taken travels", "Two all-to-alls are enough",
     "How large is the array"),
]  # fmt: skip
"""Exercises, the beginnings of titles in the bank, and what is said and what is not."""


@pytest.mark.parametrize(("exercise", "title", "says", "never"), SAID)
def test_a_verdict_says_what_is_true_of_an_answer(exercise, title, says, never):
    known = BANKS[notebook_of(exercise)]
    (entry,) = (e for e in known if e.exercise == exercise and e.title.startswith(title))
    verdict, _ = try_known_answer(session_for(exercise), entry, 20260101)
    said = " ".join(finding.difference for finding in verdict.findings)
    assert says in said
    assert never not in said
