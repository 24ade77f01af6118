"""Choose the pictures of a verdict: what was made beside what was expected."""

from collections.abc import Sequence
from dataclasses import replace

from autograder.judge.verdict import Finding, Verdict
from autograder.layouts import YOURS, compared
from autograder.pictures import Picture


def pictures_of(
    verdict: Verdict, whole: bool = False, made: str = YOURS
) -> list[Sequence[Picture]]:
    """Rows of pictures: what is drawn once, side by side; and a row for each answer beside its own.

    As long as something is wrong, that alone is drawn; and what is all right is drawn once.

    Args:
        verdict: what the judge says.
        whole: whether all is drawn that can be, targets of answers too that cannot be drawn.
        made: what a picture of what was made is called.
    """
    several = len({finding.answer for finding in verdict.findings}) > 1
    drawn = dict.fromkeys(
        (finding.answer, finding.made, finding.target)
        for finding in verdict.findings
        if finding.target and (whole or _is_telling(finding, verdict))
    )
    rows = [
        [replace(p, code=answer if several else "") for p in compared(came, target, made)]
        for answer, came, target in drawn
    ]
    single = [picture for row in rows if len(row) == 1 for picture in row]
    return [*([single] if single else []), *(row for row in rows if len(row) > 1)]


def _is_telling(finding: Finding, verdict: Verdict) -> bool:
    if finding.made is None:
        return False
    return verdict.state == "right" or (not finding.met and finding.made != finding.target)
