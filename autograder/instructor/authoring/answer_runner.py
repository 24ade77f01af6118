"""A learner at a notebook, without a kernel: its cells run in a namespace of their own.

Whoever writes an exercise tries answers here; what a learner wrote is never run like this.
"""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from autograder.evidence import Evidence, capture
from autograder.exercises import find
from autograder.instructor.authoring.exercise_cells import cell_of, grade_id, unsolved
from autograder.judge import Verdict, judge


class CellError(RuntimeError):
    """A cell of the notebook itself raises; the message says which, and what."""


@dataclass(frozen=True)
class Tried:
    """What became of an answer.

    Attributes:
        verdict: what `check` says to it.
        evidence: what would be handed in.
        raised: the error that the answer's cell ended in, if it did.
    """

    verdict: Verdict
    evidence: Evidence
    raised: Exception | None


@dataclass(frozen=True)
class Sitting:
    """A notebook with nothing filled in, and all its cells run but those of exercises.

    Attributes:
        notebook: as nbformat reads it.
        names: what its cells have defined.
    """

    notebook: Any
    names: dict[str, Any]

    @classmethod
    def at(cls, path: Path) -> "Sitting":
        """Run what a notebook shows, released or with its solutions, up to its end.

        Raises:
            CellError: a cell that learners are only to run raises an error.
        """
        notebook = nbformat.read(path, 4)
        names: dict[str, Any] = {"__name__": "__main__"}
        for cell in notebook.cells:
            cell.source = unsolved(cell.source)
            if cell.cell_type == "code" and not grade_id(cell) and "%pip" not in cell.source:
                try:
                    exec(compile(cell.source, f"<{cell.id}>", "exec"), names)
                except Exception as error:
                    raise CellError(
                        f"The cell {cell.id!r} of {path.name} raised {type(error).__name__}: "
                        f"{error} Nothing can be tried before that cell runs."
                    ) from error
        return cls(notebook, names)

    def answer(self, exercise_id: str, code: str, seed: int) -> Tried:
        """What comes back for code that stands below what a learner was handed out.

        Args:
            exercise_id: the exercise that it answers.
            code: what a learner would write.
            seed: what cases and inputs are drawn from.

        Raises:
            NoSolutionError: the notebook has no cell for the exercise.
        """
        exercise, names = find(exercise_id), dict(self.names)
        source = f"{cell_of(self.notebook, exercise_id).source}\n{code}"
        checked = next(c for c in self.notebook.cells if grade_id(c) == exercise.grade_id)
        handed_in: list[Evidence] = []

        def check(_: str, *answer: object, **answers: object) -> None:
            named = answers or dict(zip(exercise.answers, answer, strict=True))
            handed_in.append(capture(exercise.plan(seed), named))

        raised = None
        try:
            exec(compile(source, f"<{exercise_id}>", "exec"), names)
        except Exception as error:  # as in a notebook: the next cell runs all the same
            raised = error
        exec(checked.source, {**names, "check": check})
        return Tried(judge(exercise, handed_in[0], seed), handed_in[0], raised)


def answered(notebook: Any, answers: dict[str, str]) -> Any:
    """A released notebook with its cells filled in, as a learner would: below what is there.

    Args:
        notebook: as nbformat reads it.
        answers: code by exercise id; those that the notebook has no cell for are left out.
    """
    filled = copy.deepcopy(notebook)
    names = {f"ex-{i.replace('.', '-')}": code for i, code in answers.items()}
    for cell in filled.cells:
        if grade_id(cell) in names:
            cell.source = f"{cell.source}\n{names[grade_id(cell)]}"
    return filled
