"""Statistics of a class's answers to each exercise.

How often each diagnosis was given; the designs of an exercise about a trade-off between time and
memory; answers to show in class, which name nobody; and students who made the same rare mistakes,
without a guess at the cause.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from autograder.evidence import DID_NOT_FINISH
from autograder.instructor.classroom.submission_states import (
    SubmissionState,
    find_lesson,
    find_problems,
)
from autograder.instructor.commands import printable
from autograder.instructor.gradebook import Mark
from autograder.instructor.pages import clean, format_points
from autograder.judge import (
    KERNEL_DIED,
    MALFORMED,
    NO_EVIDENCE,
    OTHER_EXERCISE,
    Trade,
    Verdict,
    class_tradeoff_as_html,
    headline,
    list_sentences,
    verdict_in_parts,
)

NO_ANSWER_DIAGNOSES: Final = (
    NO_EVIDENCE, KERNEL_DIED, "timeout", "check-failed", "too-large", MALFORMED,
    OTHER_EXERCISE, "kills-the-judge", "no-time-left", DID_NOT_FINISH,
)  # fmt: skip
"""Diagnoses of submissions in which no answer reached the judge."""


@dataclass(frozen=True)
class Diagnosis:
    """A diagnosis that answers of a class were given.

    Attributes:
        count: the number of answers.
        lesson: the exercise's lesson on it, or else the difference found in one of the answers.
        is_specific: whether the exercise has a lesson on it.
    """

    name: str
    count: int
    lesson: str
    is_specific: bool


def list_exercises(submissions: Sequence[SubmissionState]) -> dict[str, Mark]:
    """Return the graded cells that any submission has, in order, each with one of its marks."""
    return {name: mark for s in submissions for name, mark in s.row.marks.items()}


def count_diagnoses(name: str, submissions: Sequence[SubmissionState]) -> list[Diagnosis]:
    """Count the diagnoses of the answers to an exercise, the most frequent first."""
    counts: Counter[str] = Counter()
    lessons: dict[str, tuple[str, bool]] = {}
    for submission in submissions:
        verdict = submission.verdicts.get(name)
        problems = {p.diagnosis: p for p in reversed([*find_problems(verdict)])} if verdict else {}
        counts.update(problems.keys())
        for diagnosis, finding in problems.items():
            lesson = find_lesson(verdict, finding) if verdict else ""
            if lesson or diagnosis not in lessons:
                lessons[diagnosis] = (lesson or finding.difference, bool(lesson))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        Diagnosis(diagnosis, count, printable(lesson), is_specific)
        for diagnosis, count in ranked
        for lesson, is_specific in [lessons[diagnosis]]
    ]


def find_unexplained_answers(
    name: str, submissions: Sequence[SubmissionState]
) -> list[SubmissionState]:
    """Find wrong answers on which the exercise has no lesson: candidates for the bank."""
    unexplained = []
    for submission in submissions:
        verdict = submission.verdicts.get(name)
        if verdict is None or verdict.state not in ("wrong", "partly"):
            continue
        wrong = [*find_problems(verdict)]
        if wrong and not any(
            f.diagnosis in NO_ANSWER_DIAGNOSES or find_lesson(verdict, f) for f in wrong
        ):
            unexplained.append(submission)
    return unexplained


OVER_BUDGET_DIAGNOSES: Final = ("over-the-cap", "sends-too-much")
"""Diagnoses of correct designs that exceed a budget."""

NEW_DESIGN_SHARE: Final = 0.99
"""A design is called faster than the best known one if it takes at most this share of its time."""


@dataclass(frozen=True)
class ClassDesign:
    """A design that some of a class submitted.

    Attributes:
        place: its place by time; a dash if it exceeds a budget.
        count: the number of submissions with this design.
        time: the time that it takes, in words.
        held: the memory that it needs on each device, in words.
        score: the share of the points that it earns.
        remark: says if it exceeds a budget, or is faster than the best known design.
    """

    place: str
    count: int
    time: str
    held: str
    score: str
    remark: str


@dataclass(frozen=True)
class ClassDesigns:
    """The designs of a class, without names.

    Attributes:
        picture: the designs beside the best known ones.
        rows: the designs, the fastest first and those that exceed a budget last.
    """

    picture: Markup
    rows: Sequence[ClassDesign]


def collect_designs(name: str, submissions: Sequence[SubmissionState]) -> ClassDesigns | None:
    """Collect a class's designs for an exercise; None if it is not about a trade-off."""
    counts: Counter[tuple[bool, int, int, int, float]] = Counter()
    known: Trade | None = None
    for submission in submissions:
        verdict = submission.verdicts.get(name)
        trade = _trade(verdict)
        if verdict is None or trade is None or trade.unit != "microseconds":
            continue
        is_beyond = any(d in OVER_BUDGET_DIAGNOSES for d in verdict.diagnoses)
        counts[is_beyond, trade.costs, trade.held, trade.computing, verdict.score] += 1
        known = trade
    if known is None:
        return None
    rows: list[ClassDesign] = []
    affordable: list[tuple[str, Trade]] = []
    too_dear: list[Trade] = []
    faster = 0
    for (is_beyond, time, held, computing, score), count in sorted(counts.items()):
        place, remark = str(faster + 1), "faster than was known" * _is_new(known, time)
        if is_beyond:
            place, remark = "–", "beyond a budget"
            too_dear.append(known.at(held, time, computing))
        else:
            affordable.append((place, known.at(held, time, computing)))
        faster += count
        times, bytes_held = f"{time / 1e3:,.2f} ms", f"{held / 2**20:,.0f} MiB"
        rows.append(ClassDesign(place, count, times, bytes_held, format_points(score), remark))
    picture = class_tradeoff_as_html(affordable, too_dear)
    return ClassDesigns(Markup(picture), rows)


def _trade(verdict: Verdict | None) -> Trade | None:
    findings = verdict.findings if verdict is not None else ()
    return next((finding.trade for finding in findings if finding.trade is not None), None)


def _is_new(known: Trade, time: int) -> bool:
    return time < NEW_DESIGN_SHARE * known.best


RARE_SHARE: Final = 0.05
"""A mistake is rare if at most this share of the class makes it, or two students do."""

SMALL_CLASS: Final = 20
"""In a class with fewer submissions, students are listed from two shared mistakes on."""

MistakeKey = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class SharedMistakes:
    """Students who made the same rare mistakes.

    Attributes:
        students: their ids, in order.
        exercises: the exercises with a shared mistake.
        same_code: those exercises in which the code is the same, too, except for whitespace.
    """

    students: tuple[str, ...]
    exercises: tuple[str, ...]
    same_code: tuple[str, ...]


def find_shared_mistakes(submissions: Sequence[SubmissionState]) -> list[SharedMistakes]:
    """Find students who made the same rare mistakes; those who share the most come first."""
    max_students = max(2, int(RARE_SHARE * len(submissions)))
    shared: dict[tuple[str, ...], list[str]] = defaultdict(list)
    same: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in list_exercises(submissions):
        groups: dict[MistakeKey, list[SubmissionState]] = defaultdict(list)
        for submission in submissions:
            mistake = _mistake(submission.verdicts.get(name))
            if mistake:
                groups[mistake].append(submission)
        for group in groups.values():
            if 2 <= len(group) <= max_students:
                students = tuple(s.row.student for s in group)
                shared[students].append(name)
                codes = {_without_whitespace(s.code(name)) for s in group}
                same[students] += [name] * (len(codes) == 1 and "" not in codes)
    fewest = 2 if len(submissions) < SMALL_CLASS else 1
    shared_by_few = [
        SharedMistakes(who, tuple(names), tuple(same[who]))
        for who, names in shared.items()
        if len(names) >= fewest
    ]
    return sorted(shared_by_few, key=lambda a: (-len(a.exercises), -len(a.same_code), a.students))


def _mistake(verdict: Verdict | None) -> MistakeKey:
    """Return everything that is wrong with an answer, for comparison; empty if nothing is."""
    if verdict is None or verdict.state not in ("wrong", "partly"):
        return ()
    wrong = [*find_problems(verdict)]
    if any(finding.diagnosis in NO_ANSWER_DIAGNOSES for finding in wrong):
        return ()
    return tuple((f.answer, f.cell, f.about, f.diagnosis, f.got, f.difference) for f in wrong)


MAX_SHOWN_LINES: Final = 40
MAX_LINE_CHARACTERS: Final = 200

MAX_DIAGNOSES_TRIED: Final = 5
"""For how many diagnoses an answer that can be shown is searched."""

MIN_NAME_LETTERS: Final = 3
"""Shorter parts of names are not searched for in answers: `jo` is in `join`."""


@dataclass(frozen=True)
class Answer:
    """An answer to show.

    Attributes:
        label: why it is shown.
        code: its code, shortened.
        said: its verdict in words.
        state: `right`, `partly` or `wrong`.
        picture: the beginning of its verdict and its pictures, as clean HTML; empty if they are
            not shown.
    """

    label: str
    code: str
    said: str
    state: str
    picture: str = ""


def choose_answers(
    name: str,
    submissions: Sequence[SubmissionState],
    diagnoses: Sequence[Diagnosis],
    names: Iterable[str],
) -> list[Answer]:
    """Choose two answers to show: if possible, a right one and one with a frequent mistake.

    Args:
        name: the exercise.
        submissions: the submissions of the class.
        diagnoses: the diagnoses of the answers, the most frequent first.
        names: the names and ids of students; answers that contain a part of one are not shown.
    """
    has_name = _name_finder(names)

    def presentable(wanted: Callable[[Verdict], bool]) -> Iterator[SubmissionState]:
        for submission in submissions:
            verdict = submission.verdicts.get(name)
            if verdict is None or not wanted(verdict):
                continue
            code = submission.code(name)
            if code and not has_name(code) and not has_name(" ".join(list_sentences(verdict))):
                yield submission

    def with_mistake(diagnosis: str) -> Iterator[SubmissionState]:
        return presentable(lambda verdict: diagnosis in verdict.diagnoses)

    right = presentable(lambda verdict: verdict.state == "right")
    first = next(right, None)
    answers = [_make_answer(first, name, "One that is right")] if first else []
    for diagnosis in [diagnosis.name for diagnosis in diagnoses[:MAX_DIAGNOSES_TRIED]]:
        wrong = next(with_mistake(diagnosis), None) if len(answers) < 2 else None
        if wrong is not None:
            answers.append(_make_answer(wrong, name, f"One with a frequent mistake: {diagnosis}"))
    if first and len(answers) < 2:
        code = _without_whitespace(first.code(name))
        other = next((s for s in right if _without_whitespace(s.code(name)) != code), None)
        answers += [_make_answer(other, name, "Another one that is right")] if other else []
    return answers


def make_candidate(name: str, submission: SubmissionState) -> Answer:
    """Return an unexplained wrong answer to show to the instructor, as a candidate for the bank."""
    return _make_answer(submission, name, "", with_picture=False)


def format_code(code: str) -> str:
    """Return code with control characters as symbols, and long lines and texts shortened."""
    lines = code.expandtabs(4).split("\n")
    kept = [
        line if len(line) <= MAX_LINE_CHARACTERS else f"{line[:MAX_LINE_CHARACTERS]} …"
        for line in lines
    ]
    if len(lines) > MAX_SHOWN_LINES:
        kept = [*kept[:MAX_SHOWN_LINES], f"… and {len(lines) - MAX_SHOWN_LINES} more lines"]
    return "\n".join(map(printable, kept))


def _make_answer(
    submission: SubmissionState, name: str, label: str, with_picture: bool = True
) -> Answer:
    verdict = submission.verdicts[name]
    summary = " ".join([f"{headline(verdict)}.", *list_sentences(verdict)[:1]])
    picture = ""
    if with_picture:
        parts = verdict_in_parts(verdict, title="Made")
        picture = clean(f"{parts.first}{parts.pictures}")
    return Answer(
        label, format_code(submission.code(name)), printable(summary), verdict.state, picture
    )


def _name_finder(names: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that checks whether a text contains a part of one of the names."""
    parts = {part for name in names for part in re.findall(r"[^\W\d_]+|\d{4,}", name.casefold())}
    parts = {part for part in parts if len(part) >= MIN_NAME_LETTERS}

    def has_name(text: str) -> bool:
        return not parts.isdisjoint(re.findall(r"[^\W\d_]+|\d{4,}", text.casefold()))

    return has_name


def _without_whitespace(code: str) -> str:
    return "".join(code.split())
