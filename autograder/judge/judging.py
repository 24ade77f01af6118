"""Judge an answer: exercise + evidence → verdict.

The same code judges in a student's kernel, for feedback at once, and in a clean process, for a
grade. It believes nothing that evidence says about itself: layouts are rebuilt, programs are
compiled and run here, cases are drawn here. Whatever evidence may hold is looked at where it is
read, and refused there; so any other error that comes up is the judge's own, and no finding.
"""

from collections.abc import Iterator
from typing import Final

from autograder.errors import SAYS, Fault, before_jaxs_words
from autograder.evidence import Evidence, NotCaptured, Piece, Unanswered
from autograder.judge.exercise import MALFORMED, Exercise, Order, Requirement
from autograder.judge.report import NOT_BY_HAND, NOT_COUNTED
from autograder.judge.requirements_on_requests import Requests
from autograder.judge.scoring import earned, notes
from autograder.judge.verdict import OF_THE_CHECK, Finding, Verdict
from autograder.programs import ProgramError


def judge(exercise: Exercise, evidence: Evidence, seed: int, fresh: int | None = None) -> Verdict:
    """Judge evidence against what an exercise asks. Where that fails, the verdict says so.

    Args:
        exercise: what was asked.
        evidence: what left the student's kernel; it may be forged.
        seed: what the cases were drawn from that the kernel had to run.
        fresh: what the inputs of programs and of processes are drawn from, where no kernel is to
            have known it.
    """
    faults = [piece for piece in evidence.answers.values() if isinstance(piece, Fault)]
    try:
        return failed(exercise, faults[0]) if faults else _judged(exercise, evidence, seed, fresh)
    except Exception as error:
        return failed(exercise, Fault.of(error))


def failed(exercise: Exercise, fault: Fault) -> Verdict:
    """The verdict where it is our own code that failed: it says nothing about the answer."""
    return Verdict(exercise.id, exercise.title, (), fault)


def _judged(exercise: Exercise, evidence: Evidence, seed: int, fresh: int | None) -> Verdict:
    if evidence.exercise != exercise.id:
        return no_evidence(
            exercise,
            "other-exercise",
            f"This submission belongs to exercise {evidence.exercise!r}.",
        )
    findings = [
        _finding(
            exercise,
            requirement,
            evidence.answers.get(requirement.answer),
            # a function's results were made from the seed; everything else is run on what is new
            seed if fresh is None or requirement.runs_in_kernel else fresh,
        )
        for requirement in exercise.requirements
    ]
    found = tuple(_in_order(exercise, findings))
    share = earned(exercise, found)
    return Verdict(
        exercise.id,
        exercise.title,
        found,
        earned=share,
        notes=notes(exercise, found),
        afterwards=exercise.afterwards if share == 1 else "",
    )


def _in_order(exercise: Exercise, findings: list[Finding]) -> Iterator[Finding]:
    """The findings, where what a program costs counts only once it does what is asked.

    To do nothing is cheap, and leaves things where they are: without this, a function that gives
    back what it is given would earn points for it. Values come first, then places, then costs. And
    before all of them that it is the program's own doing, where it is to be written by hand: else
    `A @ B` would earn most of the points of a notebook about products. The same holds where the
    work is to be left to the compiler: else 7.2's `by_vmap = normalised` would earn nearly all.
    """
    unmet: dict[str, int] = {}
    others: set[str] = set()
    left = set[str]()  # answers that do by hand what they are to leave to the compiler
    for requirement, finding in zip(exercise.requirements, findings, strict=True):
        if not finding.met:
            if _is_needless_by_hand(requirement, finding):
                left.add(finding.answer)
            first_of_all = finding.diagnosis in NOT_BY_HAND or finding.answer in left
            rank = -1 if first_of_all else requirement.order
            unmet[finding.answer] = min(rank, unmet.get(finding.answer, rank))
        lacks = isinstance(requirement, Requests) and requirement.some and not finding.met
        if lacks or finding.diagnosis == "added-by-the-compiler":
            others.add(finding.answer)
    for requirement, finding in zip(exercise.requirements, findings, strict=True):
        first = unmet.get(finding.answer, Order.COSTS)
        not_its_own = finding.answer in others and requirement.order == Order.COSTS
        if finding.met and (requirement.order > first or not_its_own):
            by_hand = (first < 0 and finding.answer not in left) or (
                not_its_own and first == Order.COSTS
            )
            waits_for = (
                "does the work itself, inside a shard_map"
                if by_hand
                else "does what the exercise asks"
            )
            yield finding.but(
                met=False,
                diagnosis=NOT_COUNTED,
                difference=f"This counts once the program {waits_for}.",
            )
        else:
            yield finding


def _is_needless_by_hand(requirement: Requirement, finding: Finding) -> bool:
    """Check for a collective by hand where the compiler is to add what is needed."""
    by_hand = finding.diagnosis.endswith(" by hand")
    return isinstance(requirement, Requests) and not requirement.mapped and by_hand


def no_evidence(exercise: Exercise, diagnosis: str, sentence: str) -> Verdict:
    """The verdict where there is nothing to judge, for a reason that `sentence` gives."""
    return Verdict(
        exercise.id,
        exercise.title,
        tuple(
            _basis(requirement).problem(diagnosis, sentence, cell="", about=OF_THE_CHECK)
            for requirement in exercise.requirements
        ),
    )


def _basis(requirement: Requirement) -> Finding:
    """What is known of a finding before any evidence is looked at."""
    return Finding(
        requirement.answer,
        False,
        requirement.asks,
        "",
        target=requirement.pictured(),
        about=requirement.about,
        cell=getattr(requirement, "cell", ""),
    )


def _finding(
    exercise: Exercise, requirement: Requirement, piece: Piece | None, seed: int
) -> Finding:
    """The finding for one requirement, with what the exercise has to say of its diagnosis."""
    basis = _basis(requirement)
    try:
        found = _found(exercise, requirement, piece, basis, seed)
    except ProgramError as error:
        found = basis.problem(error.diagnosis, str(error), came="")
    lesson = lesson_on(exercise, requirement.answer, found.diagnosis)
    if isinstance(piece, NotCaptured) and lesson and found.diagnosis not in IN_LEARNERS_WORDS:
        # after what JAX's error says, and before what it means in general
        first, dot, more = found.difference.partition(". ")
        if more and SAYS not in first:
            return found.but(difference=f"{first}{dot}{lesson} {more}")
    return found.but(difference=before_jaxs_words(found.difference, lesson))


IN_LEARNERS_WORDS: Final = ("raised", "only-the-first")
"""Diagnoses whose sentence quotes an error: nothing can be put in between."""


def lesson_on(exercise: Exercise, answer: str, diagnosis: str) -> str:
    """What an exercise has to say of a diagnosis: of one answer's, or of any; on any axes."""
    kind = diagnosis.partition(" over ")[0]
    names = [f"{answer}: {diagnosis}", f"{answer}: {kind}", diagnosis, kind]
    if kind == "reshaped":  # what a lesson says of another shape holds for right numbers, too
        names += [f"{answer}: shape", "shape"]
    return next((exercise.diagnoses[name] for name in names if name in exercise.diagnoses), "")


def _found(
    exercise: Exercise, requirement: Requirement, piece: Piece | None, basis: Finding, seed: int
) -> Finding:
    """The finding by the requirement itself, on evidence of a kind that it is judged on."""
    match piece:
        case Unanswered():
            return basis.problem("unanswered", f"{requirement.answer} has not been filled in yet.")
        case NotCaptured(why, sentence):  # the sentence says what came, and what was expected
            return basis.problem(why or "not-captured", sentence, came="", cell="")
        case _ if isinstance(piece, requirement.evidence):
            return requirement.judge(piece, basis, exercise, seed)
        case _:
            return basis.problem(*MALFORMED)
