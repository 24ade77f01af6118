"""Submissions that have no grade, and how that is told."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autograder.instructor.course import printable


@dataclass(frozen=True)
class Failure:
    """A submission that could not be graded.

    Attributes:
        why: in a sentence.
        theirs: whether it is the submission that is broken, and not the grading.
        was_graded: whether the same was graded before, of the same points, so that this stands.
    """

    student: str
    assignment: str
    why: str
    theirs: bool
    was_graded: bool = False


def told(failures: Sequence[Failure]) -> Iterator[tuple[str, str]]:
    """What to say of some failures: pairs of a sentence, and the submissions it is about.

    A failure that is like no other is one sentence that says all that is known of it. What is true
    of several is said once, and they are listed.
    """
    alike: dict[str, list[Failure]] = {}
    for failure in failures:
        alike.setdefault(_in_common(failure), []).append(failure)
    for sentence, those in alike.items():
        if len(those) == 1:
            (one,) = those
            yield printable(f"{one.student}, {one.assignment}: {' '.join(one.why.split())}"), ""
        else:
            same = all(failure.why == those[0].why for failure in those)
            said = " ".join(those[0].why.split()) if same else sentence
            yield printable(f"{said[:1].upper()}{said[1:]}"), printable(_listed(those))


def _listed(failures: Sequence[Failure]) -> str:
    """Each student, with what they handed in."""
    of: dict[str, list[str]] = {}
    for failure in failures:
        of.setdefault(failure.student, []).append(failure.assignment)
    return ", ".join(f"{student} ({', '.join(theirs)})" for student, theirs in of.items())


def _in_common(failure: Failure) -> str:
    """The sentence without the notebook's name and the line, which its feedback page has."""
    why = failure.why.replace(f"{failure.assignment}.ipynb", "<assignment>.ipynb")
    return " ".join(re.sub(r" at line \d+", "", why).split())
