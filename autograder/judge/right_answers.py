"""Recognise an answer that has the same programs as another one, whatever their names and lines.

Most right answers to an exercise are one program. Once it was found right on inputs that nobody
could know, it is right in every submission, and need not be judged again.
"""

import hashlib
from collections.abc import Iterator

import msgspec

from autograder.artifacts import ProgramError, fingerprint_program
from autograder.evidence import (
    Design,
    DesignPlan,
    Evidence,
    Piece,
    Placements,
    Program,
    ProgramPlan,
    Value,
)
from autograder.judge.exercise import Exercise


def fingerprint_answer(exercise: Exercise, evidence: Evidence) -> str:
    """Return a hash of all that a verdict on a right answer depends on, or an empty string.

    It is empty if part of the evidence is not the program, layout or value that was planned, if
    there is no program, so that judging is fast, or if functions ran in the kernel, which knew
    their inputs.

    Args:
        exercise: the exercise.
        evidence: what left the student's kernel; it may be forged.
    """
    if any(requirement.runs_in_kernel for requirement in exercise.requirements):
        return ""
    pieces, plans = sorted(evidence.answers.items()), exercise.plan(0).answers
    programs = [(name, piece) for name, piece in pieces if isinstance(piece, Program | Design)]
    # a judge may read a forged artifact in another way than as the program that is hashed here
    if not programs or not all(
        isinstance(plans.get(name), ProgramPlan if isinstance(piece, Program) else DesignPlan)
        for name, piece in programs
    ):
        return ""
    try:
        parts = [(name, *_parts_of(piece)) for name, piece in pieces]
    except (ProgramError, TypeError):
        return ""
    whole = (exercise.id, evidence.exercise, parts)  # the ids differ in forged evidence
    return hashlib.sha256(repr(whole).encode()).hexdigest()


def _parts_of(piece: Piece) -> Iterator[object]:
    """Yield what identifies a piece of evidence.

    Raises:
        ProgramError: a program is malformed.
        TypeError: the piece is of a kind that does not show all that matters.
    """
    match piece:
        case Program(artifacts, donated):
            yield donated
            yield from map(fingerprint_program, artifacts)
        case Design(layouts, step):
            yield from (*_parts_of(layouts), *_parts_of(step))
        case Placements() | Value():
            yield msgspec.json.encode(piece)
        case _:
            raise TypeError(f"A {type(piece).__name__} does not show all that matters.")
