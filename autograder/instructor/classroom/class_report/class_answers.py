"""Answers of the class that are worth looking at together, without a name in them."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from autograder.instructor.classroom.class_report.class_diagnoses import Diagnosis
from autograder.instructor.classroom.kept_answers import Submission
from autograder.instructor.course import printable
from autograder.instructor.pages import clean
from autograder.judge import Verdict, headline, sentences, verdict_in_parts

MOST_LINES: Final = 40
MOST_WIDE: Final = 200
"""How much of an answer is shown: what exercises ask for is shorter."""

TURNS: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""What turns the words after it round, in whatever is shown beside them."""

MOST_TRIED: Final = 5
"""Of how many diagnoses an answer is looked for that can be shown."""

SHORTEST_NAME: Final = 3
"""How many letters a part of a name has that is looked for in answers: `jo` is in `join`."""


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
    name: str, submissions: Sequence[Submission], found: Sequence[Diagnosis], names: Iterable[str]
) -> list[Answer]:
    """A right answer and one with the most frequent mistake; or two wrong ones, or two right ones.

    Args:
        name: the exercise.
        submissions: the class.
        found: what is wrong with answers, the most frequent first.
        names: whatever names the students: no answer is shown that has one in it.
    """
    hides = _hides(names)

    def shown(of: Callable[[Verdict], bool]) -> Iterator[Submission]:
        """Those that are to be shown of some, as far as anybody asks for them."""
        for submission in submissions:
            verdict = submission.verdicts.get(name)
            if verdict is None or not of(verdict):
                continue
            code = submission.code(name)
            if code and not hides(code) and not hides(" ".join(sentences(verdict))):
                yield submission

    def with_mistake(called: str) -> Iterator[Submission]:
        return shown(lambda verdict: called in verdict.diagnoses)

    right = shown(lambda verdict: verdict.state == "right")
    first = next(right, None)
    answers = [_answer(first, name, "One that is right")] if first else []
    for called in [diagnosis.name for diagnosis in found[:MOST_TRIED]]:
        wrong = next(with_mistake(called), None) if len(answers) < 2 else None
        if wrong is not None:
            answers.append(_answer(wrong, name, f"One with a frequent mistake: {called}"))
    if first and len(answers) < 2:
        bare = _bare(first.code(name))
        other = next((s for s in right if _bare(s.code(name)) != bare), None)
        answers += [_answer(other, name, "Another one that is right")] if other else []
    return answers


def candidate(name: str, submission: Submission) -> Answer:
    """A wrong answer that nothing specific is said of; it is for the instructor's eyes."""
    return _answer(submission, name, "", drawn=False)


def shown_code(code: str) -> str:
    """Code as it is shown: what cannot be seen in it is a symbol, and what is very long is cut."""
    lines = code.expandtabs(4).split("\n")
    kept = [line if len(line) <= MOST_WIDE else f"{line[:MOST_WIDE]} …" for line in lines]
    if len(lines) > MOST_LINES:
        kept = [*kept[:MOST_LINES], f"… and {len(lines) - MOST_LINES} more lines"]
    return "\n".join(map(printable, kept))


def _answer(submission: Submission, name: str, label: str, drawn: bool = True) -> Answer:
    verdict = submission.verdicts[name]
    said = " ".join([f"{headline(verdict)}.", *sentences(verdict)[:1]])
    picture = ""
    if drawn:
        parts = verdict_in_parts(verdict, made="Made")
        picture = TURNS.sub("�", clean(f"{parts.first}{parts.pictures}"))
    return Answer(label, shown_code(submission.code(name)), printable(said), verdict.state, picture)


def _hides(names: Iterable[str]) -> Callable[[str], bool]:
    """Whether a text has to be left out, because a part of somebody's name is in it."""
    parts = {part for name in names for part in re.findall(r"[^\W\d_]+|\d{4,}", name.casefold())}
    parts = {part for part in parts if len(part) >= SHORTEST_NAME}

    def hides(text: str) -> bool:
        return not parts.isdisjoint(re.findall(r"[^\W\d_]+|\d{4,}", text.casefold()))

    return hides


def _bare(code: str) -> str:
    return "".join(code.split())
