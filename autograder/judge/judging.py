"""Judge an answer: exercise + evidence → verdict.

The same code gives immediate feedback in a student's kernel, and grades in a clean process. It does
not trust the evidence: it rebuilds layouts, compiles and runs programs, and samples the inputs
itself. Malformed evidence is rejected where it is read, so every other error is a fault in our own
code, and never a score.
"""

from collections.abc import Iterator

from autograder.artifacts import ProgramError, override_debugging
from autograder.evidence import Evidence, NotCaptured, Piece, Unanswered
from autograder.explanations import Fault, insert_before_jax_message
from autograder.judge.diagnoses import (
    ADDED_BY_COMPILER,
    NOT_COUNTED,
    OTHER_EXERCISE,
    UNANSWERED,
    is_left_to_compiler,
    list_generalisations,
)
from autograder.judge.exercise import NOT_AS_PLANNED, Exercise, Order, Requirement
from autograder.judge.scoring import compute_share, explain_share
from autograder.judge.verdict import OF_THE_CHECK, Finding, Verdict


def judge(exercise: Exercise, evidence: Evidence, seed: int, fresh: int | None = None) -> Verdict:
    """Judge evidence against an exercise's requirements.

    If judging fails, the verdict has a fault and no score.

    Args:
        exercise: the exercise.
        evidence: what left the student's kernel; it may be forged.
        seed: the seed for the cases that ran in the kernel.
        fresh: the seed for everything else, which the kernel did not know; `seed` by default.
    """
    faults = [piece for piece in evidence.answers.values() if isinstance(piece, Fault)]
    if faults:
        return failed_verdict(exercise, faults[0])
    try:
        with override_debugging():
            return _judge_all(exercise, evidence, seed, fresh)
    except Exception as error:
        return failed_verdict(exercise, Fault.of(error))


def failed_verdict(exercise: Exercise, fault: Fault) -> Verdict:
    """Return the verdict for a failure of our own code, which says nothing about the answer."""
    return Verdict(exercise.id, exercise.title, (), fault)


def _judge_all(exercise: Exercise, evidence: Evidence, seed: int, fresh: int | None) -> Verdict:
    if evidence.exercise != exercise.id:
        return verdict_without_evidence(
            exercise,
            OTHER_EXERCISE,
            f"This submission belongs to exercise {evidence.exercise!r}.",
        )
    judged = [
        _judge_requirement(
            exercise,
            requirement,
            evidence.answers.get(requirement.answer),
            # results that were computed in the kernel are from its seed
            seed if fresh is None or requirement.runs_in_kernel else fresh,
        )
        for requirement in exercise.requirements
    ]
    findings = tuple(_apply_order(exercise, judged))
    share = compute_share(exercise, findings)
    return Verdict(
        exercise.id,
        exercise.title,
        findings,
        earned=share,
        notes=explain_share(exercise, findings),
        afterwards=exercise.afterwards if share == 1 else "",
    )


def _apply_order(exercise: Exercise, findings: list[Finding]) -> Iterator[Finding]:
    """Yield the findings; those that count only once others are met become `not-counted-yet`.

    Values count first, then layouts, then costs. Without this order, a function that returns its
    argument would earn points for being cheap. If the work has to be done inside a `shard_map`,
    that comes first of all: otherwise `A @ B` would earn most points of a notebook on matmuls. The
    same holds where the work has to be left to the compiler: otherwise `by_vmap = normalised` would
    earn nearly all points of 7.2.
    """
    first_unmet: dict[str, int] = {}
    lacks_collectives = set[str]()  # answers that leave to the compiler what they have to request
    needlessly_explicit = set[str]()  # answers that request what they have to leave to the compiler
    for requirement, finding in zip(exercise.requirements, findings, strict=True):
        if not finding.met:
            if requirement.is_needlessly_explicit(finding):
                needlessly_explicit.add(finding.answer)
            precedes_all = (
                is_left_to_compiler(finding.diagnosis) or finding.answer in needlessly_explicit
            )
            rank = -1 if precedes_all else requirement.order
            first_unmet[finding.answer] = min(rank, first_unmet.get(finding.answer, rank))
        is_added = ADDED_BY_COMPILER in list_generalisations(finding.diagnosis)
        if is_added or requirement.lacks_collectives(finding):
            lacks_collectives.add(finding.answer)
    for requirement, finding in zip(exercise.requirements, findings, strict=True):
        first = first_unmet.get(finding.answer, Order.COSTS)
        is_compilers_cost = finding.answer in lacks_collectives and requirement.order == Order.COSTS
        is_unknown = requirement.depends_on_layout and first == Order.LAYOUT
        if (finding.met or is_unknown) and (requirement.order > first or is_compilers_cost):
            waits_for = "the program does what the exercise asks"
            if first < 0 and finding.answer not in needlessly_explicit:
                waits_for = "the program does the work itself, inside a shard_map"
            elif is_compilers_cost and first == Order.COSTS:
                waits_for = "the explicit collectives are right"
            yield finding.but(
                met=False, diagnosis=NOT_COUNTED, difference=f"This counts once {waits_for}."
            )
        else:
            yield finding


def verdict_without_evidence(exercise: Exercise, diagnosis: str, sentence: str) -> Verdict:
    """Return the verdict if there is nothing to judge; `sentence` says why."""
    return Verdict(
        exercise.id,
        exercise.title,
        tuple(
            _basis(requirement).problem(diagnosis, sentence, cell="", about=OF_THE_CHECK)
            for requirement in exercise.requirements
        ),
    )


def _basis(requirement: Requirement) -> Finding:
    """Return the finding that judging starts from."""
    return Finding(
        requirement.answer,
        False,
        requirement.asks,
        "",
        target=requirement.pictured(),
        about=requirement.about,
        cell=getattr(requirement, "cell", ""),
    )


def _judge_requirement(
    exercise: Exercise, requirement: Requirement, piece: Piece | None, seed: int
) -> Finding:
    """Judge one requirement, and add the exercise's lesson on the diagnosis."""
    basis = _basis(requirement)
    try:
        finding = _judge_evidence(exercise, requirement, piece, basis, seed)
    except ProgramError as error:
        finding = basis.problem(error.diagnosis, str(error), got="")
    lesson = lesson_on(exercise, requirement.answer, finding.diagnosis)
    return finding.but(difference=insert_before_jax_message(finding.difference, lesson))


def lesson_on(exercise: Exercise, answer: str, diagnosis: str) -> str:
    """Return an exercise's lesson on a diagnosis, the most specific one; empty if there is none."""
    names = list_generalisations(diagnosis)
    keys = (*(f"{answer}: {name}" for name in names), *names)
    return next((exercise.lessons[key] for key in keys if key in exercise.lessons), "")


def _judge_evidence(
    exercise: Exercise, requirement: Requirement, piece: Piece | None, finding: Finding, seed: int
) -> Finding:
    """Judge one requirement, if the evidence is of a type that it accepts."""
    match piece:
        case Unanswered():
            return finding.problem(
                UNANSWERED,
                f"`{requirement.answer}` has not been filled in yet. Write in place of `...`.",
            )
        case NotCaptured(why, sentence):  # the sentence says what was expected, too
            return finding.problem(why or "not-captured", sentence, got="", cell="")
        case _ if isinstance(piece, requirement.evidence):
            return requirement.judge(piece, finding, exercise, seed)
        case _:
            return finding.problem(*NOT_AS_PLANNED)
