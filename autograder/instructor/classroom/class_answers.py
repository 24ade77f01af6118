"""What a class's answers to an exercise have in common, without naming anybody.

For each exercise: how often each diagnosis was given; how its score correlates with the rest; the
trade-off between time and memory, where the exercise asks for one; and answers that are wrong in
the same rare way, without a guess at the cause.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup

from autograder.instructor.classroom.grade_tables import number
from autograder.instructor.classroom.submission_states import (
    Mark,
    SubmissionState,
    find_lesson,
    find_problems,
)
from autograder.instructor.course import printable
from autograder.instructor.pages import clean
from autograder.judge import Trade, Verdict, headline, sentences, verdict_in_parts
from autograder.pictures import class_tradeoff_as_html

NO_ANSWER_DIAGNOSES: Final = (
    "no-evidence", "kernel-died", "timeout", "check-failed", "too-large", "malformed",
    "other-exercise", "kills-the-judge", "no-time-left", "did-not-finish",
)  # fmt: skip
"""Diagnoses of what brought no answer to the judge: no bank has anything to say of it."""


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with several answers.

    Attributes:
        name: its short name.
        count: in how many answers it is.
        lesson: what the exercise has to say of it, or else what was said of one of the answers.
        is_specific: whether the exercise has something to say of it.
    """

    name: str
    count: int
    lesson: str
    is_specific: bool


def exercises_of(submissions: Sequence[SubmissionState]) -> dict[str, Mark]:
    """The graded cells that anybody has, in order, each with somebody's mark."""
    return {name: mark for s in submissions for name, mark in s.row.marks.items()}


def diagnoses(name: str, submissions: Sequence[SubmissionState]) -> list[Diagnosis]:
    """What is wrong with the answers to an exercise, the most frequent first."""
    counts: Counter[str] = Counter()
    said: dict[str, tuple[str, bool]] = {}
    for submission in submissions:
        verdict = submission.verdicts.get(name)
        found = {p.diagnosis: p for p in reversed([*find_problems(verdict)])} if verdict else {}
        counts.update(found.keys())
        for diagnosis, finding in found.items():
            lesson = find_lesson(verdict, finding) if verdict else ""
            if lesson or diagnosis not in said:
                said[diagnosis] = (printable(lesson or finding.difference), bool(lesson))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Diagnosis(diagnosis, count, *said[diagnosis]) for diagnosis, count in ranked]


def unexplained(name: str, submissions: Sequence[SubmissionState]) -> list[SubmissionState]:
    """Wrong answers of which no exercise's own diagnosis says anything: candidates for the bank."""
    found = []
    for submission in submissions:
        verdict = submission.verdicts.get(name)
        if verdict is None or verdict.state not in ("wrong", "partly"):
            continue
        wrong = [*find_problems(verdict)]
        if wrong and not any(
            f.diagnosis in NO_ANSWER_DIAGNOSES or find_lesson(verdict, f) for f in wrong
        ):
            found.append(submission)
    return found


MIN_FOR_CORRELATION: Final = 10
"""The fewest submissions for which a correlation is told; with fewer it is mostly chance."""

LOW_CORRELATION: Final = 0.2


def item_rest_correlation(name: str, submissions: Sequence[SubmissionState]) -> float | None:
    """The correlation of an exercise's score with the sum of all other scores, without penalties.

    Returns:
        From -1 to 1; None where there are too few submissions, or where all have the same score in
        the exercise or in the rest.
    """
    pairs = [
        (mark.score, sum(m.score for n, m in s.row.marks.items() if n != name))
        for s in submissions
        for mark in [s.row.marks.get(name)]
        if mark is not None
    ]
    if len(pairs) < MIN_FOR_CORRELATION:
        return None
    item, rest = np.array(pairs).T
    if np.ptp(item) < 1e-9 or np.ptp(rest) < 1e-9:
        return None
    return float(np.corrcoef(item, rest)[0, 1])


def too_few_for_some(names: Sequence[str], submissions: Sequence[SubmissionState]) -> str:
    """That there are exercises of which no correlation is said, in a sentence; empty if not."""
    if all(_count(name, submissions) >= MIN_FOR_CORRELATION for name in names):
        return ""
    return (
        f"How an exercise goes with the rest of the score is said from {MIN_FOR_CORRELATION} "
        f"graded submissions "
        f"on."
    )


def item_rest_in_words(name: str, submissions: Sequence[SubmissionState]) -> str:
    """That correlation with what it means, in a sentence; nothing, where there are too few."""
    if _count(name, submissions) < MIN_FOR_CORRELATION:
        return ""
    found = item_rest_correlation(name, submissions)
    if found is None:
        return "How it goes with the rest of the score cannot be said: all have the same score."
    meaning = "who has it right tends to do well in the rest, too"
    if found < 0:
        meaning = (
            "who has it right tends to do worse in the rest; is there something in its text, or in "
            "what it asks, that misleads those who know more?"
        )
    elif found < LOW_CORRELATION:
        meaning = "it says little of the rest"
    return f"Correlation with the rest of the score: {found:.2f} ({meaning})."


def _count(name: str, submissions: Sequence[SubmissionState]) -> int:
    """How many submissions have an exercise graded."""
    return sum(name in submission.row.marks for submission in submissions)


OVER_BUDGET_DIAGNOSES: Final = ("over-the-cap", "sends-too-much")
"""Diagnoses of designs that compute what is asked, and exceed a budget."""

NEW_DESIGN_SHARE: Final = 0.99
"""A design is called faster than the best known one if it takes at most this share of its time."""


@dataclass(frozen=True)
class ClassDesign:
    """One design, and how many have it.

    Attributes:
        place: its place by time; a dash where it is beyond a budget.
        count: how many submissions have this design.
        time: what it takes, in words.
        held: what it holds on each device, in words.
        score: the share of the points that it earns.
        remark: that it is beyond a budget, or faster than the best known design.
    """

    place: str
    count: int
    time: str
    held: str
    score: str
    remark: str


@dataclass(frozen=True)
class ClassDesigns:
    """The designs of a class, the fastest first and those beyond a budget last; names nobody.

    Attributes:
        picture: the designs beside the best known ones.
        rows: one for each design.
    """

    picture: Markup
    rows: Sequence[ClassDesign]


def designs_of(name: str, submissions: Sequence[SubmissionState]) -> ClassDesigns | None:
    """The designs that a class handed in for an exercise; None where it is about no trade."""
    found: Counter[tuple[bool, int, int, float]] = Counter()
    known: Trade | None = None
    for submission in submissions:
        verdict = submission.verdicts.get(name)
        trade = _trade(verdict)
        if verdict is None or trade is None or trade.unit != "microseconds":
            continue
        is_beyond = any(d in OVER_BUDGET_DIAGNOSES for d in verdict.diagnoses)
        found[is_beyond, trade.costs, trade.held, verdict.score] += 1
        known = trade
    if known is None:
        return None
    rows: list[ClassDesign] = []
    running: list[tuple[str, tuple[int, int]]] = []
    beyond: list[tuple[int, int]] = []
    faster = 0
    for (is_beyond, time, held, score), count in sorted(found.items()):
        place, remark = str(faster + 1), "faster than was known" * _is_new(known, time)
        if is_beyond:
            place, remark = "–", "beyond a budget"
            beyond.append((held, time))
        else:
            running.append((place, (held, time)))
        faster += count
        times, bytes_held = f"{time / 1e3:,.2f} ms", f"{held / 2**20:,.0f} MiB"
        rows.append(ClassDesign(place, count, times, bytes_held, number(score), remark))
    picture = class_tradeoff_as_html(running, beyond, known.cap, known.frontier, known.unit)
    return ClassDesigns(Markup(picture), rows)


def _trade(verdict: Verdict | None) -> Trade | None:
    findings = verdict.findings if verdict is not None else ()
    return next((finding.trade for finding in findings if finding.trade is not None), None)


def _is_new(known: Trade, time: int) -> bool:
    return time < NEW_DESIGN_SHARE * min(
        costs for held, costs in known.frontier if held <= known.cap
    )


RARE_SHARE: Final = 0.05
"""A mistake is rare if at most this share of the class makes it; two students always may."""

SMALL_CLASS: Final = 20
"""In a smaller class, two answers have to be alike in two exercises."""

Mistake = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Alike:
    """Some submissions, and the exercises that they have wrong in the same rare way.

    Attributes:
        students: whose they are, in order.
        exercises: which.
        same_code: those of the exercises in which the code is the same, but for blanks.
    """

    students: tuple[str, ...]
    exercises: tuple[str, ...]
    same_code: tuple[str, ...]


def alike_in_mistakes(submissions: Sequence[SubmissionState]) -> list[Alike]:
    """Those who made the same rare mistakes, whoever shares the most exercises first."""
    most = max(2, int(RARE_SHARE * len(submissions)))
    shared: dict[tuple[str, ...], list[str]] = defaultdict(list)
    same: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in exercises_of(submissions):
        groups: dict[Mistake, list[SubmissionState]] = defaultdict(list)
        for submission in submissions:
            mistake = _mistake(submission.verdicts.get(name))
            if mistake:
                groups[mistake].append(submission)
        for group in groups.values():
            if 2 <= len(group) <= most:
                students = tuple(s.row.student for s in group)
                shared[students].append(name)
                codes = {"".join(s.code(name).split()) for s in group}
                same[students] += [name] * (len(codes) == 1 and "" not in codes)
    fewest = 2 if len(submissions) < SMALL_CLASS else 1
    found = [
        Alike(who, tuple(names), tuple(same[who]))
        for who, names in shared.items()
        if len(names) >= fewest
    ]
    return sorted(found, key=lambda a: (-len(a.exercises), -len(a.same_code), a.students))


def _mistake(verdict: Verdict | None) -> Mistake:
    """All that was found wrong with an answer, to the letter; empty where nothing was."""
    if verdict is None or verdict.state not in ("wrong", "partly"):
        return ()
    wrong = [*find_problems(verdict)]
    if any(finding.diagnosis in NO_ANSWER_DIAGNOSES for finding in wrong):
        return ()
    return tuple((f.answer, f.cell, f.about, f.diagnosis, f.came, f.difference) for f in wrong)


MAX_SHOWN_LINES: Final = 40
MAX_LINE_CHARACTERS: Final = 200

DIRECTION_CONTROLS: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Control characters that reverse the direction of the text after them."""

MAX_DIAGNOSES_TRIED: Final = 5
"""How many diagnoses are searched for an answer that can be shown."""

MIN_NAME_LETTERS: Final = 3
"""Shorter parts of names are not searched for in answers: `jo` is in `join`."""


@dataclass(frozen=True)
class Answer:
    """An answer to show.

    Attributes:
        label: why it is shown.
        code: what was written, as far as it is shown.
        said: the verdict in words.
        state: `right`, `partly` or `wrong`.
        picture: what is said of it first, and what was made, as clean HTML; empty where that is
            not shown.
    """

    label: str
    code: str
    said: str
    state: str
    picture: str = ""


def two_answers(
    name: str,
    submissions: Sequence[SubmissionState],
    found: Sequence[Diagnosis],
    names: Iterable[str],
) -> list[Answer]:
    """A right answer and one with the most frequent mistake; or two wrong ones, or two right ones.

    Args:
        name: the exercise.
        submissions: the class.
        found: what is wrong with answers, the most frequent first.
        names: whatever names the students: no answer is shown that has one in it.
    """
    hides = _hides(names)

    def shown(of: Callable[[Verdict], bool]) -> Iterator[SubmissionState]:
        """Those that are to be shown of some, as far as anybody asks for them."""
        for submission in submissions:
            verdict = submission.verdicts.get(name)
            if verdict is None or not of(verdict):
                continue
            code = submission.code(name)
            if code and not hides(code) and not hides(" ".join(sentences(verdict))):
                yield submission

    def with_mistake(called: str) -> Iterator[SubmissionState]:
        return shown(lambda verdict: called in verdict.diagnoses)

    right = shown(lambda verdict: verdict.state == "right")
    first = next(right, None)
    answers = [_answer(first, name, "One that is right")] if first else []
    for called in [diagnosis.name for diagnosis in found[:MAX_DIAGNOSES_TRIED]]:
        wrong = next(with_mistake(called), None) if len(answers) < 2 else None
        if wrong is not None:
            answers.append(_answer(wrong, name, f"One with a frequent mistake: {called}"))
    if first and len(answers) < 2:
        bare = _bare(first.code(name))
        other = next((s for s in right if _bare(s.code(name)) != bare), None)
        answers += [_answer(other, name, "Another one that is right")] if other else []
    return answers


def candidate(name: str, submission: SubmissionState) -> Answer:
    """A wrong answer that nothing specific is said of; it is for the instructor's eyes."""
    return _answer(submission, name, "", drawn=False)


def format_code(code: str) -> str:
    """Code as it is shown: what cannot be seen in it is a symbol, and what is very long is cut."""
    lines = code.expandtabs(4).split("\n")
    kept = [
        line if len(line) <= MAX_LINE_CHARACTERS else f"{line[:MAX_LINE_CHARACTERS]} …"
        for line in lines
    ]
    if len(lines) > MAX_SHOWN_LINES:
        kept = [*kept[:MAX_SHOWN_LINES], f"… and {len(lines) - MAX_SHOWN_LINES} more lines"]
    return "\n".join(map(printable, kept))


def _answer(submission: SubmissionState, name: str, label: str, drawn: bool = True) -> Answer:
    verdict = submission.verdicts[name]
    said = " ".join([f"{headline(verdict)}.", *sentences(verdict)[:1]])
    picture = ""
    if drawn:
        parts = verdict_in_parts(verdict, made="Made")
        picture = DIRECTION_CONTROLS.sub("�", clean(f"{parts.first}{parts.pictures}"))
    return Answer(
        label, format_code(submission.code(name)), printable(said), verdict.state, picture
    )


def _hides(names: Iterable[str]) -> Callable[[str], bool]:
    """Whether a text has to be left out, because a part of somebody's name is in it."""
    parts = {part for name in names for part in re.findall(r"[^\W\d_]+|\d{4,}", name.casefold())}
    parts = {part for part in parts if len(part) >= MIN_NAME_LETTERS}

    def hides(text: str) -> bool:
        return not parts.isdisjoint(re.findall(r"[^\W\d_]+|\d{4,}", text.casefold()))

    return hides


def _bare(code: str) -> str:
    return "".join(code.split())
