"""Who hands in the same, to the byte: the notebook as it was released, perhaps, or one of a pair's.

It is run and judged once, and what becomes of it is entered for each of them.
"""

import hashlib
from collections.abc import Callable, Sequence

from autograder.instructor.classroom.side_by_side import Pair
from autograder.instructor.pipeline import Facts, Submission


def alike(
    pairs: Sequence[Pair], handed_in: Callable[[str, str], tuple[Submission, Facts]]
) -> dict[Pair, list[Pair]]:
    """Students and assignments, each with those after it who handed in the same.

    Args:
        pairs: all of them, in the order that is kept.
        handed_in: reads what one of them handed in.
    """
    found: dict[object, list[Pair]] = {}
    for pair in pairs:
        try:
            key: object = fingerprint(handed_in(*pair)[0])
        except Exception:  # what cannot be read is like nothing else, and is told of in its turn
            key = pair
        found.setdefault(key, []).append(pair)
    return {first: others for first, *others in found.values()}


def fingerprint(submission: Submission) -> str:
    """What was handed in, in a few letters, whoever it was."""
    digest = hashlib.sha256(repr((submission.assignment, submission.not_taken)).encode())
    for kind in (submission.notebooks, submission.files):
        digest.update(repr(len(kind)).encode())
        for name, held in sorted(kind.items()):
            digest.update(repr((name, len(held))).encode())
            digest.update(held)
    return digest.hexdigest()
