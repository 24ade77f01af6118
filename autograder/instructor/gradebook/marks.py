"""The gradebook's entries for graded cells, with nbgrader's names for their parts."""

from dataclasses import dataclass

from nbgrader.api import Grade


@dataclass(frozen=True)
class Mark:
    """The gradebook's entry for one graded cell.

    Attributes:
        score: the score that counts: the manual score if there is one, else the automatic score;
            plus extra credit.
        points: the maximum score, without extra credit.
        auto_score: the automatic score; None for a cell that is graded manually.
        manual_score: the manual score; None if nobody has given one.
        needs_a_look: whether somebody has to check it: it can only be graded manually, or its
            manual score is older than its automatic one.
    """

    score: float
    points: float
    auto_score: float | None = None
    manual_score: float | None = None
    extra_credit: float = 0.0
    needs_a_look: bool = False

    @classmethod
    def of(cls, grade: Grade) -> "Mark":
        """Return the mark of one of the gradebook's grades."""
        return cls(
            grade.score or 0.0,
            grade.max_score,
            grade.auto_score,
            grade.manual_score,
            grade.extra_credit or 0.0,
            grade.needs_manual_grade,
        )

    @property
    def has_no_score(self) -> bool:
        """True if there is neither an automatic nor a manual score."""
        return self.auto_score is None and self.manual_score is None

    @property
    def has_older_manual_score(self) -> bool:
        """True if a manual score or extra credit may be for an earlier submission."""
        return self.needs_a_look and (self.manual_score is not None or self.extra_credit != 0)
